/* Captured steps over several queues: events order them, what is forgotten is told, a failure leaves the queues usable. */
#include "kernel_rig.h"

#include <string.h>

#define TIMES KERNEL "{ x[threadIdx.x] = x[threadIdx.x] * 2.0f + (float)n; }"

typedef struct two {
    bench b;
    hr_queue *side;
    hr_event *fork, *join;
} two;

static void two_open(two *t) {
    bench_open(&t->b);
    bench_gpu(&t->b);
    CHECK_OK(hr_queue_create(t->b.device, &t->side));
    CHECK_OK(hr_event_create(t->b.device, &t->fork));
    CHECK_OK(hr_event_create(t->b.device, &t->join));
    bench_launch(&t->b, TIMES, 1, 64, t->b.block.addr,
                 0); /* compiled before anything is captured */
    CHECK_OK(hr_queue_sync(t->b.queue));
}

static void two_close(two *t) {
    hr_event_destroy(t->fork);
    hr_event_destroy(t->join);
    hr_queue_destroy(t->side);
    bench_close(&t->b);
}

/* x = 2 x + 1 in the main queue, then a copy of x in the side queue beside x = 2 x + 3 of another place, then joined. */
static hr_status capture(two *t, int joined, hri_gpu_graph **out) {
    const hr_addr x = t->b.block.addr, copy = x + 4096, other = x + 8192;
    CHECK_OK(hri_gpu_capture_begin(t->b.gpu));
    bench_launch(&t->b, TIMES, 1, 64, x, 1);
    CHECK_OK(hr_event_mark(t->fork, t->b.queue));
    CHECK_OK(hr_event_wait(t->fork, t->side));
    CHECK_OK(hr_copy(t->side, copy, x, 256));
    bench_launch(&t->b, TIMES, 1, 64, other, 3);
    if (joined) {
        CHECK_OK(hr_event_mark(t->join, t->side));
        CHECK_OK(hr_event_wait(t->join, t->b.queue));
        bench_launch(&t->b, TIMES, 1, 64, x, 5); /* must not be seen by the copy */
    }
    return hri_gpu_capture_end(t->b.gpu, out);
}

static void check_replay(const char *order) {
    two t;
    hri_gpu_graph *graph;
    float x[64 * 48] = {0};
    if (order) {
        need_fake();
        knob("FAKECUDA_ORDER", order);
    }
    two_open(&t);
    bench_put(&t.b, x, sizeof x);
    CHECK_OK(capture(&t, 1, &graph));
    CHECK_OK(hri_gpu_graph_launch(t.b.gpu, graph));
    CHECK_OK(hri_gpu_graph_launch(t.b.gpu, graph));
    bench_get(&t.b, x, sizeof x);
    /* 0 -> 1 (copied) -> 7 -> 15 (copied) -> 35 */
    CHECK(x[0] == 35.0f && x[63] == 35.0f);
    CHECK(x[1024] == 15.0f && x[1024 + 63] == 15.0f);
    CHECK(x[2048] == 9.0f);
    hri_gpu_graph_destroy(t.b.gpu, graph);
    two_close(&t);
}

TEST(capture, two_queues_are_one_graph) {
    check_replay(NULL);
}

TEST(capture, side_branches_may_run_early_or_late) {
    check_replay("reverse");
}

TEST(capture, a_queue_that_is_not_joined_is_told) {
    two t;
    hri_gpu_graph *graph = NULL;
    float x[64] = {0};
    two_open(&t);
    CHECK_STATUS(capture(&t, 0, &graph), HR_E_DEVICE);
    CHECK(strstr(hri_gpu_detail(t.b.gpu), "UNJOINED") != NULL);
    CHECK(graph == NULL);
    /* Both queues work again. */
    CHECK_OK(hr_queue_sync(t.side));
    bench_put(&t.b, x, sizeof x);
    bench_launch(&t.b, TIMES, 1, 64, t.b.block.addr, 4);
    bench_get(&t.b, x, sizeof x);
    CHECK(x[0] == 4.0f);
    two_close(&t);
}

TEST(capture, dropping_it_leaves_the_queue_usable) {
    two t;
    float x[64] = {0};
    two_open(&t);
    bench_put(&t.b, x, sizeof x);
    CHECK_OK(hri_gpu_capture_begin(t.b.gpu));
    bench_launch(&t.b, TIMES, 1, 64, t.b.block.addr, 4);
    hri_gpu_capture_drop(t.b.gpu);
    bench_get(&t.b, x, sizeof x);
    CHECK(x[0] == 0.0f); /* what was captured never ran */
    CHECK_STATUS(hri_gpu_capture_end(t.b.gpu, &(hri_gpu_graph *){NULL}), HR_E_INVALID);
    two_close(&t);
}

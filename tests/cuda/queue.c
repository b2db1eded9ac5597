/* Queues and events of a CUDA device: order within a queue, order among queues, time, failures that stay. */
#include "rig.h"

#include <string.h>

TEST(queue, work_happens_in_the_order_it_was_put_in) {
    knob("FAKECUDA_DELAY_US", "200");
    rig r;
    rig_open(&r, 0);
    run mem;
    run_open(&r, 1, &mem);
    hri_dev_queue *queue;
    CHECK_OK(cuda.queue_open(r.dev, &queue));
    static unsigned char back[64];
    for (int i = 1; i <= 20; i++) { /* each fill would hide the one before */
        CHECK_OK(cuda.fill(queue, mem.at, (uint8_t)i, 4096));
        CHECK_OK(cuda.copy(queue, mem.at + 8192 + (hr_addr)i * 64, mem.at, 64));
    }
    CHECK_OK(cuda.queue_sync(queue));
    for (int i = 1; i <= 20; i++) {
        get_bytes(&r, back, mem.at + 8192 + (hr_addr)i * 64, 64);
        for (int k = 0; k < 64; k++) {
            CHECK_EQ(back[k], i);
        }
    }
    cuda.queue_close(queue);
    run_close(&r, &mem);
    rig_check_idle(&r);
    rig_close(&r);
}

TEST(queue, an_event_makes_one_queue_wait_for_another) {
    knob("FAKECUDA_DELAY_US", "2000");
    rig r;
    rig_open(&r, 0);
    run mem;
    run_open(&r, 16, &mem);
    hri_dev_queue *first, *second;
    hri_dev_event *event;
    CHECK_OK(cuda.queue_open(r.dev, &first));
    CHECK_OK(cuda.queue_open(r.dev, &second));
    CHECK_OK(cuda.event_open(r.dev, &event));
    CHECK_OK(cuda.event_wait(event, second)); /* never marked: passed at once */
    CHECK_OK(cuda.queue_sync(second));
    unsigned char back[16] = {0};
    for (int round = 1; round <= 8; round++) {
        for (int i = 0; i < 8; i++) {
            CHECK_OK(cuda.fill(first, mem.at, (uint8_t)(round * 8 + i), 16 * r.page));
        }
        CHECK_OK(cuda.event_mark(event, first));
        CHECK_OK(cuda.event_wait(event, second));
        CHECK_OK(cuda.copy(second, host_addr(back), mem.at + 16 * r.page - 16, 16));
        CHECK_OK(cuda.queue_sync(second));
        CHECK_EQ(back[0], round * 8 + 7);
        CHECK_EQ(back[15], round * 8 + 7);
    }
    CHECK_OK(cuda.queue_sync(first));
    cuda.event_close(event);
    cuda.queue_close(first);
    cuda.queue_close(second);
    run_close(&r, &mem);
    rig_close(&r);
}

/* A queue that waits keeps what it needs of an event. */
TEST(queue, an_event_may_be_marked_again_or_closed_while_waited_for) {
    knob("FAKECUDA_DELAY_US", "3000");
    rig r;
    rig_open(&r, 0);
    run mem;
    run_open(&r, 1, &mem);
    hri_dev_queue *slow, *fast, *waits;
    hri_dev_event *event;
    CHECK_OK(cuda.queue_open(r.dev, &slow));
    CHECK_OK(cuda.queue_open(r.dev, &fast));
    CHECK_OK(cuda.queue_open(r.dev, &waits));
    CHECK_OK(cuda.event_open(r.dev, &event));
    for (int i = 1; i <= 5; i++) {
        CHECK_OK(cuda.fill(slow, mem.at, (uint8_t)i, 64));
    }
    CHECK_OK(cuda.event_mark(event, slow));
    CHECK_OK(cuda.event_wait(event, waits));
    CHECK_OK(cuda.event_mark(event, fast)); /* passes long before the first mark */
    cuda.event_close(event);
    unsigned char back = 0;
    CHECK_OK(cuda.copy(waits, host_addr(&back), mem.at, 1));
    CHECK_OK(cuda.queue_sync(waits));
    CHECK_EQ(back, 5);
    cuda.queue_close(slow);
    cuda.queue_close(fast);
    cuda.queue_close(waits);
    run_close(&r, &mem);
    rig_close(&r);
}

TEST(queue, events_tell_the_time_between_marks) {
    knob("FAKECUDA_DELAY_US", "20000");
    rig r;
    rig_open(&r, 0);
    run mem;
    run_open(&r, 32, &mem);
    hri_dev_queue *queue;
    hri_dev_event *from, *to;
    CHECK_OK(cuda.queue_open(r.dev, &queue));
    CHECK_OK(cuda.event_open(r.dev, &from));
    CHECK_OK(cuda.event_open(r.dev, &to));
    uint64_t ns = 123;
    CHECK_STATUS(cuda.event_elapsed(from, to, &ns), HR_E_AGAIN); /* never marked */
    CHECK_OK(cuda.event_mark(from, queue));
    for (int i = 0; i < 4; i++) {
        CHECK_OK(cuda.fill(queue, mem.at, (uint8_t)i, 32 * r.page));
    }
    CHECK_OK(cuda.event_mark(to, queue));
    if (is_fake()) { /* 80 ms of work: it cannot have passed */
        CHECK_STATUS(cuda.event_elapsed(from, to, &ns), HR_E_AGAIN);
        CHECK_EQ(ns, 123);
    }
    CHECK_OK(cuda.queue_sync(queue));
    CHECK_OK(cuda.event_elapsed(from, to, &ns));
    CHECK_LE(is_fake() ? 80000000 : 1000, ns);
    CHECK_LE(ns, 10000000000);
    CHECK_OK(cuda.event_elapsed(to, from, &ns)); /* backwards there is no time */
    CHECK_EQ(ns, 0);
    cuda.event_close(from);
    cuda.event_close(to);
    cuda.queue_close(queue);
    run_close(&r, &mem);
    rig_close(&r);
}

TEST(queue, closing_waits_for_what_is_in_it) {
    knob("FAKECUDA_DELAY_US", "5000");
    rig r;
    rig_open(&r, 0);
    run mem;
    run_open(&r, 1, &mem);
    put_bytes(&r, mem.at, "done", 5);
    hri_dev_queue *queue;
    CHECK_OK(cuda.queue_open(r.dev, &queue));
    char text[8] = "";
    CHECK_OK(cuda.copy(queue, host_addr(text), mem.at, 5));
    cuda.queue_close(queue);
    CHECK_STR(text, "done");
    run_close(&r, &mem);
    rig_close(&r);
}

TEST(queue, nothing_to_copy_is_no_work) {
    rig r;
    rig_open(&r, 0);
    hri_dev_queue *queue;
    CHECK_OK(cuda.queue_open(r.dev, &queue));
    CHECK_OK(cuda.copy(queue, 0, 0, 0));
    CHECK_OK(cuda.fill(queue, 0, 1, 0));
    CHECK_OK(cuda.queue_sync(queue));
    cuda.queue_close(queue);
    rig_close(&r);
}

TEST(queue, a_refused_copy_leaves_the_queue_good) {
    rig r;
    rig_open(&r, 0);
    run mem;
    run_open(&r, 1, &mem);
    hri_dev_queue *queue;
    hri_dev_event *event;
    CHECK_OK(cuda.queue_open(r.dev, &queue));
    CHECK_OK(cuda.event_open(r.dev, &event));
    for (uint64_t n = 1; n <= 2; n++) {
        hri_fault_set(HRI_FAULT_COPY, 1, 0);
        CHECK_STATUS(n == 1 ? cuda.copy(queue, mem.at, host_addr("x"), 2)
                            : cuda.fill(queue, mem.at, 1, 2),
                     HR_E_DEVICE);
        hri_fault_set(HRI_FAULT_QUEUE, 1, 0);
        CHECK_STATUS(n == 1 ? cuda.event_mark(event, queue) : cuda.event_wait(event, queue),
                     HR_E_DEVICE);
    }
    hri_fault_set(HRI_FAULT_ANY, 0, 0);
    CHECK_OK(cuda.queue_sync(queue));
    CHECK_OK(cuda.copy(queue, mem.at, host_addr("y"), 2));
    CHECK_OK(cuda.queue_sync(queue));
    cuda.event_close(event);
    cuda.queue_close(queue);
    run_close(&r, &mem);
    rig_close(&r);
}

/* What a real driver does with such a copy is not written anywhere, so only the fake one is asked. */
TEST(queue, a_fault_on_the_device_stays) {
    need_fake();
    rig r;
    rig_open(&r, 0);
    hr_addr at;
    CHECK_OK(r.source->ops->reserve(r.source->self, r.page, &at));
    hri_dev_queue *queue, *other;
    hri_dev_event *event;
    CHECK_OK(cuda.queue_open(r.dev, &queue));
    CHECK_OK(cuda.queue_open(r.dev, &other));
    CHECK_OK(cuda.event_open(r.dev, &event));
    CHECK_OK(cuda.copy(queue, at, host_addr("x"), 2)); /* nothing is mapped there */
    CHECK_STATUS(cuda.queue_sync(queue), HR_E_LOST);
    char text[160];
    cuda.detail(r.dev, text, sizeof text);
    CHECK_STR(text, "cuStreamSynchronize: CUDA_ERROR_ILLEGAL_ADDRESS (an illegal memory access was "
                    "encountered)");
    CHECK_STATUS(cuda.queue_sync(queue), HR_E_LOST);
    CHECK_STATUS(cuda.copy(queue, at, host_addr("x"), 2), HR_E_LOST);
    CHECK_STATUS(cuda.fill(queue, at, 0, 2), HR_E_LOST);
    CHECK_STATUS(cuda.event_mark(event, queue), HR_E_LOST);
    CHECK_STATUS(cuda.event_wait(event, queue), HR_E_LOST);
    CHECK_STATUS(cuda.queue_sync(other), HR_E_LOST); /* the whole context is gone */
    cuda.event_close(event);
    cuda.queue_close(queue);
    cuda.queue_close(other);
    r.source->ops->unreserve(r.source->self, at, r.page);
    rig_close(&r);
}

TEST(queue, a_failure_at_sync_stays_with_that_queue) {
    need_fake();
    rig r;
    rig_open(&r, 0);
    hri_dev_queue *queue, *other;
    CHECK_OK(cuda.queue_open(r.dev, &queue));
    CHECK_OK(cuda.queue_open(r.dev, &other));
    fake()->schedule("cuStreamSynchronize:1=719");
    CHECK_STATUS(cuda.queue_sync(queue), HR_E_LOST);
    CHECK_STATUS(cuda.queue_sync(queue), HR_E_LOST);
    CHECK_OK(cuda.queue_sync(other));
    cuda.queue_close(queue);
    cuda.queue_close(other);
    rig_close(&r);
}

/* Exchanges beside what is computed: in order, waited for one by one, and none behind one that failed. */
#include "run/net_queue.h"

#include <stdatomic.h>
#include <time.h>

#include "base/fault.h"
#include "test.h"

enum { CALLS = 100 };

typedef struct log {
    _Atomic int count;
    int steps[CALLS];
    _Atomic int held; /* > 0: calls wait for it to become 0 */
    int bad;          /* the call that fails */
} log;

static hr_status note(const hri_call *c) {
    log *l = (log *)(uintptr_t)c->in;
    while (l->held) {
        nanosleep(&(struct timespec){0, 100000}, NULL);
    }
    l->steps[l->count++] = (int)c->step;
    return (int)c->step == l->bad ? HR_E_PEER : HR_OK;
}

static void start(hri_net_queue *q, log *l, uint32_t step) {
    const hri_call c = {.in = (const void *const *)(void *)l, .step = step};
    hri_net_queue_start(q, &c, note);
}

TEST(net_queue, makes_calls_in_their_order_and_waits_for_one) {
    hri_net_queue *q;
    log l = {.held = 1, .bad = -1};
    CHECK_OK(hri_net_queue_open(8, &q));
    hri_net_queue_begin(q);
    start(q, &l, 0); /* returns though the call does not */
    start(q, &l, 1);
    CHECK_EQ(l.count, 0);
    l.held = 0;
    CHECK_OK(hri_net_queue_wait(q, 1));
    CHECK(l.count >= 1 && l.steps[0] == 0);
    for (uint32_t i = 2; i < CALLS; i++) { /* more than there is room for at once */
        start(q, &l, i);
    }
    CHECK_OK(hri_net_queue_wait(q, CALLS));
    CHECK_EQ(l.count, CALLS);
    for (int i = 0; i < CALLS; i++) {
        CHECK_EQ(l.steps[i], i);
    }
    hri_net_queue_close(q);
}

TEST(net_queue, what_fails_is_told_and_nothing_behind_it_is_made) {
    hri_net_queue *q;
    log l = {.bad = 1};
    CHECK_OK(hri_net_queue_open(2, &q));
    hri_net_queue_begin(q);
    for (uint32_t i = 0; i < 5; i++) {
        start(q, &l, i);
    }
    CHECK_STATUS(hri_net_queue_wait(q, 5), HR_E_PEER);
    hri_net_queue_drain(q);
    CHECK_EQ(l.count, 2);
    hri_net_queue_begin(q); /* another run */
    start(q, &l, 7);
    CHECK_OK(hri_net_queue_wait(q, 1));
    CHECK_EQ(l.steps[2], 7);
    hri_net_queue_close(q);
}

TEST(net_queue, without_memory_or_a_thread_there_is_none) {
    static const hri_fault_kind kinds[] = {HRI_FAULT_ALLOC, HRI_FAULT_THREAD};
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
        hri_net_queue *q = NULL;
        hri_fault_set(kinds[i], 1, 0);
        CHECK_STATUS(hri_net_queue_open(4, &q), HR_E_NOMEM_HOST);
        CHECK_EQ(hri_fault_delivered(), 1);
        CHECK(q == NULL);
        hri_fault_set(HRI_FAULT_ANY, 0, 0);
        CHECK_OK(hri_net_queue_open(4, &q));
        hri_net_queue_close(q);
    }
}

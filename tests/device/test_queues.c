/* Queues, events and copies. */
#include "fixture.h"

#include <string.h>

TEST(queues, copies_arrive_in_order) {
    fixture f = fixture_open();
    if (!strcmp(f.info.backend, "null")) {
        test_skip("the null device moves nothing");
    }
    hr_logical *l = fixture_slice(&f, "a", 16 * MIB, HR_GROWTH_ON);
    hr_queue *q;
    CHECK_OK(hr_queue_create(f.device, &q));
    hr_block a = fixture_alloc(l, 3 * MIB), b = fixture_alloc(l, 3 * MIB);
    uint8_t *pinned;
    CHECK_OK(hr_pinned_create(f.device, 3 * MIB, (void **)&pinned));
    uint64_t state = test_seed();
    for (uint64_t i = 0; i < 3 * MIB; i++) {
        pinned[i] = (uint8_t)test_random(&state);
    }
    static uint8_t back[3 * 1024 * 1024];
    CHECK_OK(hr_fill(q, a.addr, 0, 3 * MIB));
    CHECK_OK(hr_copy(q, a.addr, (hr_addr)(uintptr_t)pinned, 3 * MIB));
    CHECK_OK(hr_copy(q, b.addr, a.addr, 3 * MIB));
    CHECK_OK(hr_fill(q, a.addr, 9, 3 * MIB));
    CHECK_OK(hr_copy(q, (hr_addr)(uintptr_t)back, b.addr, 3 * MIB));
    CHECK_OK(hr_queue_sync(q));
    CHECK(memcmp(back, pinned, 3 * MIB) == 0);
    CHECK_OK(hr_copy(q, (hr_addr)(uintptr_t)back, a.addr, 3 * MIB));
    CHECK_OK(hr_queue_sync(q));
    CHECK(back[0] == 9 && back[3 * MIB - 1] == 9);
    hr_pinned_destroy(f.device, pinned);
    fixture_free(l, &a);
    fixture_free(l, &b);
    hr_queue_destroy(q);
    fixture_drop(l);
    fixture_close(&f);
}

TEST(queues, an_event_orders_two_queues) {
    fixture f = fixture_open();
    if (!strcmp(f.info.backend, "null")) {
        test_skip("the null device moves nothing");
    }
    hr_logical *l = fixture_slice(&f, "a", 64 * MIB, HR_GROWTH_ON);
    hr_queue *first, *second;
    hr_event *begin, *end;
    CHECK_OK(hr_queue_create(f.device, &first));
    CHECK_OK(hr_queue_create(f.device, &second));
    CHECK_OK(hr_event_create(f.device, &begin));
    CHECK_OK(hr_event_create(f.device, &end));
    hr_block a = fixture_alloc(l, 32 * MIB);
    for (int round = 1; round <= 5; round++) {
        uint8_t last = 0;
        CHECK_OK(hr_event_wait(begin, second)); /* never marked, or long passed */
        CHECK_OK(hr_event_mark(begin, first));
        CHECK_OK(hr_fill(first, a.addr, (uint8_t)round, 32 * MIB));
        CHECK_OK(hr_event_mark(end, first));
        CHECK_OK(hr_event_wait(end, second));
        CHECK_OK(hr_copy(second, (hr_addr)(uintptr_t)&last, a.addr + 32 * MIB - 1, 1));
        CHECK_OK(hr_queue_sync(second));
        CHECK_EQ(last, round);
        uint64_t ns;
        CHECK_OK(hr_event_elapsed(begin, end, &ns));
        CHECK_LE(ns, UINT64_C(10000000000));
    }
    hr_event_destroy(begin);
    hr_event_destroy(end);
    hr_queue_destroy(first);
    hr_queue_destroy(second);
    fixture_free(l, &a);
    fixture_drop(l);
    fixture_close(&f);
}

TEST(queues, wrong_calls_are_refused) {
    fixture f = fixture_open();
    hr_queue *q;
    CHECK_OK(hr_queue_create(f.device, &q));
    uint8_t byte = 0;
    const hr_addr at = (hr_addr)(uintptr_t)&byte;
    CHECK_STATUS(hr_copy(q, 0, at, 1), HR_E_INVALID);
    CHECK_STATUS(hr_copy(q, at, 0, 1), HR_E_INVALID);
    CHECK_STATUS(hr_copy(q, at, at, UINT64_MAX), HR_E_INVALID);
    CHECK_STATUS(hr_fill(q, 0, 0, 1), HR_E_INVALID);
    CHECK_OK(hr_copy(q, at, at, 0));
    void *none = NULL;
    CHECK_STATUS(hr_pinned_create(f.device, 0, &none), HR_E_INVALID);
    CHECK(none == NULL);
    hr_pinned_destroy(f.device, NULL);
    hr_queue_destroy(NULL);
    hr_event_destroy(NULL);
    hr_queue_destroy(q);
    fixture_close(&f);
}

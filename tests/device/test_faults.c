/* The fault sweep: in a scripted life of everything the memory core and the devices do, the Nth thing asked of the
 * outside fails, once or for ever, for every N until none is left.  Each time: the failing call says so with a status
 * of its kind, the invariants hold, the same call works when the fault is gone, and at the end nothing is left. */
#include "fixture.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/fault.h"

#ifdef HEADROOM_FAULTS

static hr_logical *checked; /* the slice whose invariants are looked at after a failure */
static uint64_t failures;
static uint64_t survived; /* faults that were delivered without any call failing: benign ones */

/* Every status that a refusal of the outside may become; anything else is a wrong story. */
static int is_refusal(hr_status status) {
    return status == HR_E_NOMEM_HOST || status == HR_E_NOMEM_DEVICE || status == HR_E_DEVICE;
}

static void after_failure(const char *call, hr_status status) {
    const uint64_t delivered = hri_fault_delivered();
    hri_fault_set(HRI_FAULT_ANY, 0, 0);
    if (!is_refusal(status) || delivered == 0) {
        test_fail(__FILE__, __LINE__, "%s gave %s after %llu faults", call, hr_status_name(status),
                  (unsigned long long)delivered);
    }
    failures++;
    if (checked) {
        fixture_check(checked);
    }
}

/* The call, and once more without faults when it fails. */
#define STEP(CALL)                                                                                 \
    do {                                                                                           \
        const hr_status step_status = (CALL);                                                      \
        if (step_status != HR_OK) {                                                                \
            after_failure(#CALL, step_status);                                                     \
            CHECK_OK(CALL);                                                                        \
        }                                                                                          \
    } while (0)

static void blocks_live(hr_logical *l) {
    hr_owner owner;
    hr_block small, medium, large[4], all;
    STEP(hr_owner_get(l, "sweep", &owner));
    STEP(hr_block_alloc(l, 300, HR_CATEGORY_WEIGHTS, owner, &small));
    STEP(hr_block_alloc(l, 700 * KIB, HR_CATEGORY_WEIGHTS, owner, &medium));
    for (int i = 0; i < 4; i++) {
        STEP(hr_block_alloc(l, 3 * MIB, HR_CATEGORY_ACTIVATIONS, owner, &large[i]));
    }
    STEP(hr_block_free(l, &large[0]));
    STEP(hr_block_free(l, &large[2]));
    STEP(hr_block_alloc(l, 14 * MIB, HR_CATEGORY_WORKSPACE, owner, &all)); /* remaps and grows */
    STEP(hr_logical_trim(l, NULL));
    STEP(hr_block_free(l, &all));
    STEP(hr_logical_set_limit(l, 28 * MIB));
    STEP(hr_logical_set_growth(l, HR_GROWTH_OFF));
    STEP(hr_logical_set_limit(l, 36 * MIB));
    STEP(hr_logical_set_growth(l, HR_GROWTH_ON));
    STEP(hr_block_free(l, &large[1]));
    STEP(hr_block_free(l, &large[3]));
    STEP(hr_block_free(l, &small));
    STEP(hr_block_free(l, &medium));
    STEP(hr_logical_trim(l, NULL));
}

static void ranges_live(hr_logical *l) {
    hr_range *range, *share;
    STEP(hr_range_create(l, 16 * MIB, HR_CATEGORY_ACTIVATIONS, 0, &range));
    STEP(hr_range_resize(range, 5 * MIB));
    STEP(hr_range_resize(range, 11 * MIB));
    STEP(hr_range_share(range, 6 * MIB, &share));
    STEP(hr_range_destroy(share));
    STEP(hr_range_resize(range, 3 * MIB));
    STEP(hr_range_destroy(range));
}

static void queues_live(hr_device *device, hr_logical *l) {
    hr_queue *q;
    hr_event *a, *b;
    hr_block block;
    void *pinned;
    STEP(hr_queue_create(device, &q));
    STEP(hr_event_create(device, &a));
    STEP(hr_event_create(device, &b));
    STEP(hr_pinned_create(device, MIB, &pinned));
    STEP(hr_block_alloc(l, MIB, HR_CATEGORY_INPUT, 0, &block));
    STEP(hr_event_mark(a, q));
    STEP(hr_fill(q, block.addr, 1, MIB));
    STEP(hr_copy(q, (hr_addr)(uintptr_t)pinned, block.addr, MIB));
    STEP(hr_event_mark(b, q));
    STEP(hr_event_wait(b, q));
    STEP(hr_queue_sync(q));
    STEP(hr_block_free(l, &block));
    hr_pinned_destroy(device, pinned);
    hr_event_destroy(a);
    hr_event_destroy(b);
    hr_queue_destroy(q);
}

/* One life; returns how many calls failed in it. */
static uint64_t live(void) {
    hr_ctx *ctx;
    hr_device *device;
    hr_logical *l, *whole;
    const hr_logical_options grows = {.size = sizeof grows, .limit_bytes = 30 * MIB};
    const hr_logical_options at_once = {
        .size = sizeof at_once, .limit_bytes = 6 * MIB, .growth = HR_GROWTH_OFF, .name = "whole"};
    failures = 0;
    checked = NULL;
    STEP(fixture_try_ctx(&ctx, &device));
    STEP(hr_logical_create(device, &grows, &l));
    checked = l;
    STEP(hr_logical_create(device, &at_once, &whole));
    blocks_live(l);
    ranges_live(l);
    queues_live(device, l);
    STEP(hr_logical_set_idle_trim(whole, 1000000));
    STEP(hr_logical_check(l));
    STEP(hr_logical_check(whole));
    STEP(hr_logical_destroy(whole));
    checked = NULL;
    STEP(hr_logical_destroy(l));
    survived = hri_fault_delivered();
    hri_fault_set(HRI_FAULT_ANY, 0, 0);
    hr_device_info info = {.size = sizeof info};
    CHECK_OK(hr_device_get_info(device, &info));
    CHECK_EQ(info.held_bytes, 0);
    hr_ctx_destroy(ctx);
    return failures;
}

static void sweep(hri_fault_kind kind, int for_ever) {
    const int64_t records = hri_fault_live_allocs();
    uint64_t delivered = 0, nth = 0, failed = 0;
    for (;;) {
        nth++;
        hri_fault_set(kind, nth, for_ever);
        const uint64_t failed_calls = live();
        CHECK_EQ(hri_fault_live_allocs(), records); /* nothing is left of it */
        failed += failed_calls;
        if (failed_calls == 0 && survived == 0) {
            break; /* the life was over before the Nth */
        }
        delivered++;
        CHECK_LE(nth, 5000);
    }
    const char *name = hri_fault_name(kind);
    printf("    %s %s: %llu places, %llu refused calls, all retried\n", name ? name : "any",
           for_ever ? "for ever" : "once", (unsigned long long)delivered,
           (unsigned long long)failed);
    CHECK(delivered > 0);
}

static void need_device(void) {
    fixture f = fixture_open();
    fixture_close(&f);
}

TEST_TIMEOUT(faults, every_outside_call_fails_once, 300) {
    need_device();
    sweep(HRI_FAULT_ANY, 0);
}

TEST_TIMEOUT(faults, every_outside_call_fails_for_ever, 300) {
    need_device();
    sweep(HRI_FAULT_ANY, 1);
}

TEST_TIMEOUT(faults, each_kind_fails_at_every_place, 300) {
    static const hri_fault_kind kinds[] = {HRI_FAULT_ALLOC, HRI_FAULT_RESERVE, HRI_FAULT_CREATE,
                                           HRI_FAULT_MAP,   HRI_FAULT_PINNED,  HRI_FAULT_QUEUE,
                                           HRI_FAULT_COPY};
    need_device();
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
        sweep(kinds[i], 0);
        sweep(kinds[i], 1);
    }
}

#else
TEST(faults, need_a_build_with_fault_points) {
    test_skip("this build has no fault points (use the dev preset)");
}
#endif

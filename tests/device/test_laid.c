/* Laid steps: what a graph needs is sketched, packed and requested again, and from then on belongs to the graph. */
#include "fixture.h"

#include <string.h>

#include "base/fault.h"

enum { STREAM = 7, OUTPUTS = 2 };

typedef struct desk {
    fixture f;
    hr_logical *logical;
    hr_replay *replay;
    hr_addr out[OUTPUTS]; /* where the graph writes what leaves it */
    int syncs;
} desk;

static int wait_for_it(void *user) {
    ((desk *)user)->syncs++;
    return 0;
}

static void desk_open(desk *d, uint64_t limit) {
    memset(d, 0, sizeof *d);
    d->f = fixture_open();
    d->logical = fixture_slice(&d->f, "laid", limit, HR_GROWTH_ON);
    const hr_replay_options options = {.size = sizeof options, .sync = wait_for_it, .sync_user = d};
    CHECK_OK(hr_replay_create(d->logical, &options, &d->replay));
}

static void desk_close(desk *d) {
    hr_replay_destroy(d->replay);
    fixture_check(d->logical);
    fixture_drop(d->logical);
    fixture_close(&d->f);
}

static hr_replay_stats stats_of(desk *d) {
    hr_replay_stats s = {.size = sizeof s};
    CHECK_OK(hr_replay_get_stats(d->replay, &s));
    return s;
}

static hr_addr take(desk *d, uint64_t bytes) {
    hr_addr at = 0;
    CHECK_OK(hr_replay_alloc(d->replay, bytes, STREAM, &at));
    return at;
}

static void drop(desk *d, hr_addr at) {
    CHECK_OK(hr_replay_free(d->replay, at));
}

/* At most 7 MiB live; two small ones leave it. */
static hr_status captured(desk *d) {
    static const uint64_t sizes[] = {3 * MIB, 1000, 4 * MIB - 8 * KIB, 2 * MIB, 3000};
    hr_addr at[5] = {0};
    hr_status status = HR_OK;
    for (int i = 0; i < 5 && status == HR_OK; i++) {
        if (i == 3) {
            drop(d, at[0]); /* the fourth may lie where the first did */
            at[0] = 0;
        }
        status = hr_replay_alloc(d->replay, sizes[i], STREAM, &at[i]);
    }
    d->out[0] = at[1];
    d->out[1] = at[4];
    for (int i = 0; i < 5; i++) {
        drop(d, at[i]);
    }
    return status;
}

static hr_status lay(desk *d, uint64_t scratch) {
    hr_status status = hr_replay_sketch(d->replay, scratch);
    if (status == HR_OK) {
        status = captured(d);
    }
    if (status == HR_OK) {
        status = hr_replay_lay(d->replay);
    }
    if (status == HR_OK) {
        status = captured(d);
    }
    return status == HR_OK ? hr_replay_laid(d->replay) : status;
}

TEST(laid, a_step_is_packed_once_and_its_results_stay_where_they_are) {
    desk d;
    desk_open(&d, 16 * MIB);
    const hr_addr weights = take(&d, 2 * MIB);
    CHECK_OK(lay(&d, 5 * MIB)); /* less than it needs: addresses overlap while nothing runs */
    hr_replay_stats s = stats_of(&d);
    CHECK_EQ(s.planned, 1);
    CHECK_EQ(s.requests, 5);
    CHECK_LE(s.bound_bytes, s.arena_bytes);
    CHECK(s.arena_bytes < 8 * MIB);
    const hr_addr want[OUTPUTS] = {d.out[0], d.out[1]};
    for (int i = 0; i < 3; i++) {
        CHECK_OK(hr_replay_step(d.replay));
        CHECK_OK(hr_replay_claim(d.replay, STREAM));
        CHECK_STATUS(hr_replay_claim(d.replay, STREAM), HR_E_BUSY);
        CHECK_OK(hr_replay_place(d.replay, want, OUTPUTS));
        const hr_addr a = take(&d, 1000), b = take(&d, 3000), other = take(&d, 1000);
        CHECK_EQ(a, want[0]);
        CHECK_EQ(b, want[1]);
        CHECK(other != a && other != b);
        hr_replay_release(d.replay);
        CHECK_STATUS(hr_replay_claim(d.replay, STREAM), HR_E_BUSY); /* they live */
        drop(&d, a);
        drop(&d, b);
        drop(&d, other);
    }
    CHECK_EQ(stats_of(&d).planned, 1);
    CHECK_EQ(stats_of(&d).missed, 0);
    CHECK_OK(hr_replay_unlay(d.replay));
    CHECK_EQ(stats_of(&d).planned, 0);
    CHECK_EQ(stats_of(&d).arena_bytes, 0);
    CHECK_OK(hr_replay_unlay(d.replay)); /* nothing is laid: nothing to do */
    drop(&d, weights);
    desk_close(&d);
}

TEST(laid, nothing_else_lies_in_a_claimed_range) {
    desk d;
    hr_addr at = 0;
    desk_open(&d, 8 * MIB);
    CHECK_OK(lay(&d, 5 * MIB));
    CHECK_OK(hr_replay_claim(d.replay, STREAM));
    CHECK_STATUS(hr_replay_alloc(d.replay, 3 * MIB, STREAM, &at), HR_E_LIMIT);
    hr_replay_release(d.replay);
    CHECK_STATUS(hr_replay_alloc(d.replay, 3 * MIB, STREAM + 1, &at), HR_E_LIMIT);
    at = take(&d, 3 * MIB); /* between two steps there is room */
    CHECK_STATUS(hr_replay_claim(d.replay, STREAM), HR_E_BUSY);
    CHECK_STATUS(hr_replay_unlay(d.replay), HR_E_BUSY);
    drop(&d, at);
    CHECK_OK(hr_replay_claim(d.replay, STREAM));
    desk_close(&d);
}

TEST(laid, a_capture_that_differs_or_keeps_something_is_no_layout) {
    desk d;
    hr_addr at = 0;
    desk_open(&d, 16 * MIB);
    CHECK_STATUS(hr_replay_claim(d.replay, STREAM), HR_E_INVALID);
    CHECK_STATUS(hr_replay_place(d.replay, &at, 1), HR_E_INVALID);
    CHECK_STATUS(hr_replay_lay(d.replay), HR_E_INVALID);
    CHECK_OK(hr_replay_sketch(d.replay, 5 * MIB));
    CHECK_STATUS(hr_replay_sketch(d.replay, 5 * MIB), HR_E_BUSY);
    CHECK_STATUS(hr_replay_lay(d.replay), HR_E_NOT_FOUND);
    CHECK_STATUS(hr_replay_alloc(d.replay, 7 * MIB, STREAM, &at),
                 HR_E_LIMIT); /* no room to sketch it */
    hr_replay_pause(d.replay, 1);
    drop(&d, take(&d, 1000)); /* a block */
    CHECK_STATUS(hr_replay_lay(d.replay), HR_E_NOT_FOUND);
    hr_replay_pause(d.replay, 0);
    at = take(&d, 1000);
    CHECK_STATUS(hr_replay_lay(d.replay), HR_E_BUSY); /* it stays */
    CHECK_STATUS(hr_replay_unlay(d.replay), HR_E_BUSY);
    drop(&d, at);
    CHECK_OK(captured(&d));
    CHECK_OK(hr_replay_lay(d.replay));
    CHECK_STATUS(hr_replay_laid(d.replay), HR_E_BUSY); /* nothing was requested again */
    at = take(&d, 1000);
    CHECK_STATUS(hr_replay_alloc(d.replay, 1000, STREAM, &at), HR_E_INVALID);
    CHECK(strstr(fixture_error(d.f.ctx), "sketched") != NULL);
    drop(&d, at);
    CHECK_OK(hr_replay_unlay(d.replay));
    CHECK_OK(lay(&d, 5 * MIB)); /* and again from the start */
    CHECK_STATUS(hr_replay_place(d.replay, &d.out[0], 0), HR_OK);
    at = 512;
    CHECK_STATUS(hr_replay_place(d.replay, &at, 1), HR_E_RANGE);
    desk_close(&d);
}

TEST(laid, preparations_are_no_part_of_a_recording) {
    desk d;
    desk_open(&d, 16 * MIB);
    for (int i = 0; i < 4; i++) {
        CHECK_OK(hr_replay_step(d.replay));
        drop(&d, take(&d, 2 * MIB));
        hr_replay_pause(d.replay, 1);
        for (int k = 0; k <= i; k++) {
            drop(&d, take(&d, 100));
        }
        hr_replay_pause(d.replay, 0);
    }
    CHECK_EQ(stats_of(&d).planned, 1);
    CHECK_EQ(stats_of(&d).requests, 1);
    CHECK_EQ(stats_of(&d).missed, 0);
    desk_close(&d);
}

#ifdef HEADROOM_FAULTS

TEST(laid, every_refusal_leaves_no_layout) {
    for (uint64_t nth = 1;; nth += fixture_is_host() ? 5 : 1) {
        desk d;
        desk_open(&d, 16 * MIB);
        hri_fault_set(HRI_FAULT_ANY, nth, 0);
        const hr_status status = lay(&d, 5 * MIB);
        const uint64_t delivered = hri_fault_delivered();
        hri_fault_set(HRI_FAULT_ANY, 0, 0);
        CHECK(status == HR_OK || delivered > 0);
        if (status != HR_OK) {
            CHECK_OK(hr_replay_unlay(d.replay));
            CHECK_OK(lay(&d, 5 * MIB));
        }
        CHECK_OK(hr_replay_claim(d.replay, STREAM));
        desk_close(&d);
        if (!delivered) {
            break;
        }
    }
}

#endif

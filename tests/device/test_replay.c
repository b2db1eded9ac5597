/* Replays: programs whose steps request the same are served at planned offsets; those whose steps differ are served all the
 * same.  Nothing that lives is ever given out twice, and the limit holds. */
#include "fixture.h"

#include <string.h>

#include "base/fault.h"

enum { MOST = 64, STREAM = 7 };

/* What a test has live, checked against itself. */
typedef struct desk {
    fixture f;
    hr_logical *logical;
    hr_replay *replay;
    hr_addr at[MOST];
    uint64_t bytes[MOST];
    int syncs, failing;
} desk;

static int wait_for_it(void *user) {
    desk *d = user;
    d->syncs++;
    return d->failing;
}

static desk *desk_open(desk *d, uint64_t limit) {
    memset(d, 0, sizeof *d);
    d->f = fixture_open();
    d->logical = fixture_slice(&d->f, "replay", limit, HR_GROWTH_ON);
    const hr_replay_options options = {.size = sizeof options, .sync = wait_for_it, .sync_user = d};
    CHECK_OK(hr_replay_create(d->logical, &options, &d->replay));
    return d;
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

/* No two live ones overlap, and what the logical device holds is within its limit. */
static void look(desk *d, int i) {
    hr_stats s = {.size = sizeof s};
    for (int k = 0; k < MOST; k++) {
        if (k != i && d->at[k]) {
            CHECK(d->at[k] + d->bytes[k] <= d->at[i] || d->at[i] + d->bytes[i] <= d->at[k]);
        }
    }
    CHECK_OK(hr_logical_get_stats(d->logical, &s));
    CHECK_LE(s.held_bytes, s.limit_bytes);
}

static hr_status try_on(desk *d, int i, uint64_t bytes, uint64_t stream) {
    hr_addr at = 0;
    CHECK(!d->at[i]);
    const hr_status status = hr_replay_alloc(d->replay, bytes, stream, &at);
    if (status == HR_OK) {
        d->at[i] = at;
        d->bytes[i] = bytes;
        CHECK_EQ(at % 256, 0);
        look(d, i);
    }
    return status;
}

static void take(desk *d, int i, uint64_t bytes) {
    CHECK_OK(try_on(d, i, bytes, STREAM));
}

static void drop(desk *d, int i) {
    CHECK_OK(hr_replay_free(d->replay, d->at[i]));
    d->at[i] = 0;
}

static void begin(desk *d) {
    CHECK_OK(hr_replay_step(d->replay));
}

/* A small step: at most 9 MiB live, 4 MiB of it at the end; item 9 is kept until the next step. */
static void step(desk *d, int late) {
    begin(d);
    take(d, 0, 3 * MIB);
    take(d, 1, 2 * MIB + 100);
    take(d, 2, 4 * MIB - 512 * KIB);
    drop(d, 1);
    take(d, 3, 300);
    take(d, 8, 1000);
    if (d->at[9]) {
        drop(d, 9);
    }
    d->at[9] = d->at[8];
    d->bytes[9] = d->bytes[8];
    d->at[8] = 0;
    if (!late) {
        drop(d, 0);
    }
    take(d, 4, 3 * MIB);
    if (late) {
        drop(d, 0);
    }
    drop(d, 2);
    drop(d, 3);
    drop(d, 4);
}

TEST(replay, two_equal_steps_become_a_plan) {
    desk d;
    desk_open(&d, 64 * MIB);
    take(&d, 20, 5 * MIB); /* parameters */
    hr_addr first[2];
    for (int i = 0; i < 5; i++) {
        step(&d, 0);
        if (i >= 3) {
            CHECK_OK(hr_replay_alloc(d.replay, 1, STREAM, &first[i - 3])); /* beyond the plan */
        }
    }
    const hr_replay_stats s = stats_of(&d);
    CHECK_EQ(s.planned, 1);
    CHECK_EQ(s.plans, 1);
    CHECK_EQ(s.recorded, 2);
    CHECK_EQ(s.requests, 6);
    CHECK_EQ(s.served, 3 * 5); /* the sixth is kept by the program: a block */
    CHECK_EQ(s.missed, 0);
    CHECK_EQ(s.extra, 2);
    CHECK_LE(s.arena_bytes, s.bound_bytes + s.bound_bytes / 16);
    CHECK(first[0] != first[1]);
    CHECK_OK(hr_replay_free(d.replay, first[0]));
    CHECK_STATUS(hr_replay_free(d.replay, first[0]), HR_E_INVALID);
    desk_close(&d);
}

TEST(replay, planned_steps_ask_nothing_of_the_device) {
    desk d;
    hr_stats before = {.size = sizeof before}, after = before;
    desk_open(&d, 64 * MIB);
    for (int i = 0; i < 4; i++) {
        step(&d, 0);
    }
    CHECK_OK(hr_logical_get_stats(d.logical, &before));
    const int syncs = d.syncs;
    for (int i = 0; i < 4; i++) {
        step(&d, 0);
    }
    CHECK_OK(hr_logical_get_stats(d.logical, &after));
    CHECK_EQ(after.maps, before.maps);
    CHECK_EQ(after.held_bytes, before.held_bytes);
    CHECK_EQ(d.syncs, syncs);
    desk_close(&d);
}

TEST(replay, something_kept_longer_is_not_overwritten) {
    desk d;
    desk_open(&d, 64 * MIB);
    for (int i = 0; i < 3; i++) {
        step(&d, 0);
    }
    CHECK_EQ(stats_of(&d).planned, 1);
    step(&d, 1); /* look() would find item 4 inside item 0 */
    CHECK_EQ(stats_of(&d).missed, 1);
    CHECK_EQ(stats_of(&d).refused, 0);
    step(&d, 0);
    CHECK_EQ(stats_of(&d).missed, 1);
    CHECK_EQ(stats_of(&d).planned, 1);
    desk_close(&d);
}

TEST(replay, another_program_is_recorded_anew) {
    desk d;
    desk_open(&d, 64 * MIB);
    for (int i = 0; i < 3; i++) {
        step(&d, 0);
    }
    for (int i = 0; i < 6; i++) {
        begin(&d);
        take(&d, 0, 9 * MIB);
        take(&d, 1, 9 * MIB);
        drop(&d, 0);
        drop(&d, 1);
    }
    const hr_replay_stats s = stats_of(&d);
    CHECK_EQ(s.plans, 2);
    CHECK_EQ(s.planned, 1);
    CHECK_EQ(s.requests, 2);
    CHECK_EQ(s.arena_bytes, 18 * MIB);
    desk_close(&d);
}

TEST(replay, a_step_is_recorded_and_planned_in_what_lives_in_it) {
    desk d;
    desk_open(&d, 14 * MIB); /* seven pages, all of them in use at its peak */
    for (int i = 0; i < 4; i++) {
        step(&d, 0);
    }
    const hr_replay_stats s = stats_of(&d);
    CHECK_EQ(s.refused, 0);
    CHECK_EQ(s.planned, 1);
    CHECK(d.syncs > 0); /* pages moved while it was recorded */
    desk_close(&d);
}

TEST(replay, what_is_not_planned_goes_where_the_plan_is_free_and_is_refused_beyond_it) {
    desk d;
    desk_open(&d, 14 * MIB);
    for (int i = 0; i < 3; i++) {
        step(&d, 0);
    }
    CHECK_EQ(stats_of(&d).planned, 1);
    take(&d, 30, 8 * MIB); /* the range has it, after the step */
    CHECK_EQ(stats_of(&d).overflow, 1);
    CHECK_STATUS(try_on(&d, 31, 9 * MIB, STREAM), HR_E_LIMIT);
    CHECK_EQ(stats_of(&d).refused, 1);
    CHECK(strstr(fixture_error(d.f.ctx), "9") != NULL);
    drop(&d, 30);
    step(&d, 0);
    CHECK_EQ(stats_of(&d).missed, 0);
    desk_close(&d);
}

TEST(replay, a_stream_gets_what_another_freed_after_a_sync) {
    desk d;
    desk_open(&d, 6 * MIB);
    begin(&d);
    take(&d, 0, 5 * MIB);
    drop(&d, 0);
    take(&d, 0, 5 * MIB); /* the same stream: at once */
    CHECK_EQ(d.syncs, 0);
    drop(&d, 0);
    CHECK_OK(try_on(&d, 1, 5 * MIB, STREAM + 1));
    CHECK_EQ(d.syncs, 1);
    CHECK_OK(hr_replay_share(d.replay, d.at[1]));
    drop(&d, 1);
    CHECK_EQ(d.syncs, 2);
    take(&d, 2, 4 * MIB);
    drop(&d, 2);
    d.failing = 1;
    CHECK_STATUS(try_on(&d, 3, 5 * MIB, STREAM), HR_E_DEVICE);
    CHECK(strstr(fixture_error(d.f.ctx), "device") != NULL);
    d.failing = 0;
    take(&d, 3, 5 * MIB);
    desk_close(&d);
}

TEST(replay, nothing_and_too_much) {
    desk d;
    hr_addr at = 5;
    desk_open(&d, 6 * MIB);
    CHECK_OK(hr_replay_alloc(d.replay, 0, STREAM, &at));
    CHECK_EQ(at, 0);
    CHECK_OK(hr_replay_free(d.replay, 0));
    CHECK_STATUS(hr_replay_alloc(d.replay, UINT64_MAX, STREAM, &at), HR_E_RANGE);
    CHECK_STATUS(hr_replay_share(d.replay, 256), HR_E_INVALID);
    take(&d, 0, 100);
    CHECK_OK(hr_replay_trim(d.replay));
    hr_replay_stats s = {0};
    CHECK_STATUS(hr_replay_get_stats(d.replay, &s), HR_E_INVALID);
    hr_replay_destroy(NULL);
    desk_close(&d); /* with something live */
}

/* Steps drawn at random, some of them again and again, with things kept too long, sizes that change, other streams. */
TEST(replay, random_programs_never_share_what_lives) {
    uint64_t random = test_seed();
    for (int program = 0; program < 3; program++) {
        desk d;
        uint64_t seed = test_random(&random);
        desk_open(&d, 80 * MIB);
        for (int s = 0; s < 12; s++) {
            const int odd = s == 5 || s >= 10;
            uint64_t draw = odd ? test_random(&random) : seed;
            begin(&d);
            for (int i = 0; i < 60; i++) {
                const int slot = (int)(test_random(&draw) % 24);
                const uint64_t stream = test_random(&draw) % 16 == 0 ? STREAM + 1 : STREAM;
                const uint64_t size = 1 + test_random(&draw) % (2 * MIB + 1 * MIB / 2);
                const int keep = test_random(&random) % 64 == 0 && s > 6;
                if (d.at[slot] && !keep) {
                    drop(&d, slot);
                } else if (!d.at[slot]) {
                    CHECK_OK(try_on(&d, slot, size, stream));
                }
            }
            for (int i = 0; i < 24 && s != 8; i++) {
                if (d.at[i]) {
                    drop(&d, i);
                }
            }
        }
        CHECK(stats_of(&d).plans > 0);
        CHECK(stats_of(&d).served > 0);
        fixture_check(d.logical);
        desk_close(&d);
    }
}

TEST(replay, torch_calls_reach_the_replay_of_their_device) {
    desk d;
    desk_open(&d, 6 * MIB);
    CHECK_STATUS(hr_torch_use(HR_TORCH_DEVICES, d.replay, 0), HR_E_RANGE);
    CHECK_STATUS(hr_torch_use(-1, d.replay, 0), HR_E_RANGE);
    CHECK_OK(hr_torch_use(1, d.replay, 0));
    void *a = hr_torch_alloc(1000, 1, NULL);
    CHECK(a != NULL);
    CHECK(hr_torch_alloc(1000, 0, NULL) == NULL);
    CHECK(hr_torch_alloc(1000, 99, NULL) == NULL);
    CHECK(hr_torch_alloc(7 * MIB, 1, NULL) == NULL);
    CHECK_EQ(stats_of(&d).live_bytes, 1024);
    hr_torch_record(a, NULL);
    hr_torch_record(&d, NULL); /* of nobody */
    hr_torch_free(a, 1000, 1, NULL);
    CHECK_EQ(d.syncs, 1);
    CHECK_EQ(stats_of(&d).live_bytes, 0);
    hr_torch_free(a, 1000, 1, NULL);
    CHECK_OK(hr_torch_use(1, NULL, 0));
    CHECK(hr_torch_alloc(1000, 1, NULL) == NULL);
    desk_close(&d);
}

#ifdef HEADROOM_FAULTS

static int hit; /* faults that became refusals */

/* A request that a fault refuses is repeated without it: the step goes on. */
static void again(desk *d, int i, uint64_t bytes) {
    const hr_status status = try_on(d, i, bytes, STREAM);
    if (status != HR_OK) {
        CHECK(hri_fault_delivered() > 0);
        CHECK(status == HR_E_NOMEM_HOST || status == HR_E_NOMEM_DEVICE || status == HR_E_DEVICE);
        hri_fault_set(HRI_FAULT_ANY, 0, 0);
        hit++;
        fixture_check(d->logical);
        take(d, i, bytes);
    }
}

static void live_through(desk *d) {
    CHECK_EQ(stats_of(d).live_bytes, 0);
    for (int s = 0; s < 5; s++) {
        begin(d); /* a plan that has no room or memory is none, and no failure */
        again(d, 0, 3 * MIB);
        again(d, 1, s == 4 ? MIB : 5 * MIB);
        drop(d, 0);
        again(d, 2, 700);
        again(d, 3, 4 * MIB);
        for (int i = 1; i < 4; i++) {
            drop(d, i);
        }
    }
}

TEST(replay, every_refusal_of_the_outside_is_survived) {
    uint64_t faults = 0;
    for (uint64_t nth = 1;; nth += fixture_is_host() ? 7 : 1) { /* real pages take their time */
        desk d;
        desk_open(&d, 12 * MIB);
        hit = 0;
        hri_fault_set(HRI_FAULT_ANY, nth, 0);
        live_through(&d);
        const uint64_t delivered = hri_fault_delivered() + (uint64_t)hit;
        hri_fault_set(HRI_FAULT_ANY, 0, 0);
        if (!delivered) {
            CHECK_EQ(stats_of(&d).plans, 1);
            desk_close(&d);
            break;
        }
        faults++;
        desk_close(&d);
    }
    CHECK(faults > 10);
}

#endif

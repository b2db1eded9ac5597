/* Slices: every rule is checked at the call, limits and growth combine and change while running. */
#include "fixture.h"

#include <string.h>
#include <time.h>

#include "base/fault.h"

TEST(logical, limits_and_growth_combine_and_differ) {
    fixture f = fixture_open();
    hr_logical *grows = fixture_slice(&f, "grows", 16 * MIB, HR_GROWTH_ON);
    hr_logical *whole = fixture_slice(&f, "whole", 24 * MIB, HR_GROWTH_OFF);
    hr_stats s = {.size = sizeof s};
    CHECK_OK(hr_logical_get_stats(grows, &s));
    CHECK_EQ(s.held_bytes, 0);
    CHECK_OK(hr_logical_get_stats(whole, &s));
    CHECK_EQ(s.held_bytes, 24 * MIB);
    CHECK_EQ(s.idle_bytes, 24 * MIB);
    hr_block block = fixture_alloc(whole, 24 * MIB);
    CHECK_OK(hr_logical_get_stats(whole, &s));
    CHECK_EQ(s.held_bytes, 24 * MIB);
    fixture_free(whole, &block);
    uint64_t freed = 1;
    CHECK_OK(hr_logical_trim(whole, &freed)); /* what was taken at once is kept */
    CHECK_EQ(freed, 0);
    fixture_check(whole);
    CHECK_OK(hr_logical_set_growth(whole, HR_GROWTH_ON));
    CHECK_OK(hr_logical_trim(whole, &freed));
    CHECK_EQ(freed, 24 * MIB);
    CHECK_OK(hr_logical_set_growth(whole, HR_GROWTH_OFF));
    CHECK_OK(hr_logical_get_stats(whole, &s));
    CHECK_EQ(s.held_bytes, 24 * MIB);
    fixture_check(whole);
    fixture_drop(grows);
    fixture_drop(whole);
    fixture_close(&f);
}

TEST(logical, the_sum_of_limits_is_checked_when_set) {
    fixture f = fixture_open();
    const uint64_t capacity = f.info.total_bytes - f.info.runtime_bytes;
    hr_logical *half = fixture_slice(&f, "half", capacity / 2, HR_GROWTH_ON);
    hr_logical_options more = {.size = sizeof more, .limit_bytes = capacity / 2 + 4 * MIB};
    hr_logical *none = NULL;
    CHECK_STATUS(hr_logical_create(f.device, &more, &none), HR_E_LIMIT);
    CHECK(none == NULL);
    CHECK(strstr(fixture_error(f.ctx), "does not fit") != NULL);
    hr_logical *rest = fixture_slice(&f, "rest", 0, HR_GROWTH_ON); /* 0: all that is left */
    hr_device_info info = {.size = sizeof info};
    CHECK_OK(hr_device_get_info(f.device, &info));
    CHECK_EQ(info.limits_bytes, capacity);
    CHECK_EQ(info.logical_count, 2);
    CHECK_STATUS(hr_logical_set_limit(half, capacity / 2 + 4 * MIB), HR_E_LIMIT);
    CHECK_OK(hr_logical_set_limit(rest, 64 * MIB));
    CHECK_OK(hr_logical_set_limit(half, capacity / 2 + 4 * MIB));
    more.limit_bytes = 0;
    CHECK_OK(hr_logical_set_limit(half, capacity - 64 * MIB));
    CHECK_STATUS(hr_logical_create(f.device, &more, &none), HR_E_LIMIT); /* nothing is left */
    fixture_drop(half);
    fixture_drop(rest);
    fixture_close(&f);
}

TEST(logical, wrong_options_are_refused_with_a_sentence) {
    fixture f = fixture_open();
    hr_logical *l = fixture_slice(&f, "a", 8 * MIB, HR_GROWTH_ON), *none = NULL;
    hr_logical_options o = {.size = sizeof o, .name = "a", .limit_bytes = 8 * MIB};
    CHECK_STATUS(hr_logical_create(f.device, &o, &none), HR_E_EXISTS);
    CHECK(strstr(fixture_error(f.ctx), "\"a\"") != NULL);
    o.name = "";
    CHECK_STATUS(hr_logical_create(f.device, &o, &none), HR_E_INVALID);
    o.name = NULL;
    o.limit_bytes = f.info.page_bytes - 1;
    CHECK_STATUS(hr_logical_create(f.device, &o, &none), HR_E_RANGE);
    CHECK(strstr(fixture_error(f.ctx), "page") != NULL);
    o.limit_bytes = UINT64_MAX;
    CHECK_STATUS(hr_logical_create(f.device, &o, &none), HR_E_LIMIT);
    o.limit_bytes = 8 * MIB;
    o.growth = (hr_growth)7;
    CHECK_STATUS(hr_logical_create(f.device, &o, &none), HR_E_INVALID);
    o.size = 3;
    CHECK_STATUS(hr_logical_create(f.device, &o, &none), HR_E_INVALID);
    CHECK(none == NULL);
    CHECK_STATUS(hr_logical_set_growth(l, (hr_growth)7), HR_E_INVALID);
    CHECK_STATUS(hr_logical_set_limit(l, 1), HR_E_RANGE);
    fixture_drop(l);
    fixture_close(&f);
}

TEST(logical, a_limit_changes_while_blocks_live) {
    fixture f = fixture_open();
    hr_logical *l = fixture_slice(&f, "a", 32 * MIB, HR_GROWTH_ON);
    hr_block a = fixture_alloc(l, 12 * MIB), b = fixture_alloc(l, 20 * MIB), c;
    CHECK_STATUS(hr_logical_set_limit(l, 30 * MIB), HR_E_BUSY);
    fixture_check(l);
    CHECK_OK(hr_logical_set_limit(l, 40 * MIB));
    c = fixture_alloc(l, 8 * MIB);
    fixture_free(l, &b);
    CHECK_OK(hr_logical_set_limit(l, 20 * MIB)); /* idle pages go */
    hr_stats s = {.size = sizeof s};
    CHECK_OK(hr_logical_get_stats(l, &s));
    CHECK_EQ(s.held_bytes, 20 * MIB);
    CHECK_EQ(s.limit_bytes, 20 * MIB);
    hr_block more;
    CHECK_STATUS(hr_block_alloc(l, 2 * MIB, HR_CATEGORY_OTHER, 0, &more), HR_E_LIMIT);
    fixture_check(l);
    fixture_free(l, &a);
    fixture_free(l, &c);
    CHECK_OK(hr_logical_set_growth(l, HR_GROWTH_OFF));
    CHECK_OK(hr_logical_set_limit(l, 28 * MIB));
    CHECK_OK(hr_logical_get_stats(l, &s));
    CHECK_EQ(s.held_bytes, 28 * MIB);
    CHECK_OK(hr_logical_set_limit(l, 6 * MIB));
    CHECK_OK(hr_logical_get_stats(l, &s));
    CHECK_EQ(s.held_bytes, 6 * MIB);
    fixture_check(l);
    fixture_drop(l);
    fixture_close(&f);
}

TEST(logical, a_slice_in_use_cannot_be_removed) {
    fixture f = fixture_open();
    hr_logical *l = fixture_slice(&f, "a", 8 * MIB, HR_GROWTH_ON);
    hr_block block = fixture_alloc(l, 300);
    CHECK_STATUS(hr_logical_destroy(l), HR_E_BUSY);
    CHECK(strstr(fixture_error(f.ctx), "unnamed") != NULL);
    fixture_free(l, &block);
    hr_range *range;
    CHECK_OK(hr_range_create(l, 8 * MIB, HR_CATEGORY_OTHER, 0, &range));
    CHECK_STATUS(hr_logical_destroy(l), HR_E_BUSY);
    CHECK_OK(hr_range_destroy(range));
    fixture_drop(l);
    fixture_close(&f);
}

TEST(logical, idle_pages_go_by_themselves_and_used_ones_stay) {
    fixture f = fixture_open();
    hr_logical *l = fixture_slice(&f, "a", 64 * MIB, HR_GROWTH_ON);
    hr_block used = fixture_alloc(l, 8 * MIB), gone = fixture_alloc(l, 16 * MIB);
    CHECK_OK(hr_logical_set_idle_trim(l, 100));
    fixture_free(l, &gone);
    hr_stats s = {.size = sizeof s};
    CHECK_OK(hr_logical_get_stats(l, &s));
    CHECK_EQ(s.held_bytes, 24 * MIB); /* not at once */
    for (int i = 0; i < 100 && s.held_bytes > 8 * MIB; i++) {
        const struct timespec nap = {.tv_nsec = 20 * 1000 * 1000};
        nanosleep(&nap, NULL);
        CHECK_OK(hr_logical_get_stats(l, &s));
    }
    CHECK_EQ(s.held_bytes, 8 * MIB);
    CHECK_OK(hr_logical_set_idle_trim(l, 0));
    fixture_check(l);
    fixture_free(l, &used);
    fixture_drop(l);
    fixture_close(&f);
}

TEST(logical, destroying_the_context_takes_everything_along) {
    fixture f = fixture_open();
    hr_logical *l = fixture_slice(&f, "a", 64 * MIB, HR_GROWTH_ON);
    fixture_alloc(l, 5 * MIB);
    fixture_alloc(l, 500);
    hr_range *range, *share;
    CHECK_OK(hr_range_create(l, 16 * MIB, HR_CATEGORY_OTHER, 0, &range));
    CHECK_OK(hr_range_resize(range, 9 * MIB));
    CHECK_OK(hr_range_share(range, 4 * MIB, &share));
    hr_ctx_destroy(f.ctx); /* ASan and the fake driver see what would be left */
}

TEST(logical, trim_gives_the_memory_back_to_the_outside) {
    fixture f = fixture_open();
    if (!strcmp(f.info.backend, "null")) {
        test_skip("the null device holds no memory");
    }
    hr_logical *l = fixture_slice(&f, "a", 256 * MIB, HR_GROWTH_ON);
    hr_block warm = fixture_alloc(l, 256);
    fixture_free(l, &warm);
    CHECK_OK(hr_logical_trim(l, NULL));
    const uint64_t before = fixture_outside_bytes(&f);
    if (before == 0) {
        test_skip("nothing tells what the outside sees");
    }
    hr_block block = fixture_alloc(l, 200 * MIB);
    CHECK_LE(before + 200 * MIB, fixture_outside_bytes(&f) + MIB); /* it is really there */
    fixture_free(l, &block);
    CHECK_OK(hr_logical_trim(l, NULL));
    CHECK_LE(fixture_outside_bytes(&f), before + 2 * MIB);
    fixture_drop(l);
    fixture_close(&f);
}

#ifdef HEADROOM_FAULTS
/* A device that is full (somebody else took it) while a neighbour keeps idle pages: those are given back first. */
TEST(logical, a_neighbours_idle_pages_are_given_back_before_a_refusal) {
    fixture f = fixture_open();
    hr_logical *idle = fixture_slice(&f, "idle", 16 * MIB, HR_GROWTH_ON);
    hr_logical *needs = fixture_slice(&f, "needs", 16 * MIB, HR_GROWTH_ON);
    hr_block cached = fixture_alloc(idle, 8 * MIB), block;
    fixture_free(idle, &cached);
    hri_fault_set(HRI_FAULT_CREATE, 1, 0);
    CHECK_OK(hr_block_alloc(needs, 4 * MIB, HR_CATEGORY_OTHER, 0, &block));
    CHECK_EQ(hri_fault_delivered(), 1);
    hr_stats s = {.size = sizeof s};
    CHECK_OK(hr_logical_get_stats(idle, &s));
    CHECK_EQ(s.held_bytes, 0);
    hri_fault_set(HRI_FAULT_CREATE, 1, 0); /* now there is nothing left to give */
    hr_block none;
    CHECK_STATUS(hr_block_alloc(needs, 4 * MIB, HR_CATEGORY_OTHER, 0, &none), HR_E_NOMEM_DEVICE);
    hri_fault_set(HRI_FAULT_ANY, 0, 0);
    CHECK(strstr(fixture_error(f.ctx), "device free") != NULL);
    fixture_free(needs, &block);
    fixture_drop(idle);
    fixture_drop(needs);
    fixture_close(&f);
}
#endif

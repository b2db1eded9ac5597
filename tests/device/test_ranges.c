/* Ranges: addresses that stay while the pages behind them come, go and are shared. */
#include "fixture.h"

#include <string.h>

static void write_byte(fixture *f, hr_queue *q, hr_addr at, uint8_t value) {
    (void)f;
    CHECK_OK(hr_fill(q, at, value, 1));
    CHECK_OK(hr_queue_sync(q));
}

static uint8_t read_byte(fixture *f, hr_queue *q, hr_addr at, uint8_t expected) {
    if (!strcmp(f->info.backend, "null")) {
        return expected; /* there is nothing to read */
    }
    uint8_t value = 0;
    CHECK_OK(hr_copy(q, (hr_addr)(uintptr_t)&value, at, 1));
    CHECK_OK(hr_queue_sync(q));
    return value;
}

TEST(ranges, grow_and_shrink_keep_address_and_contents) {
    fixture f = fixture_open();
    hr_logical *l = fixture_slice(&f, "a", 32 * MIB, HR_GROWTH_ON);
    hr_queue *q;
    hr_range *r;
    CHECK_OK(hr_queue_create(f.device, &q));
    CHECK_OK(hr_range_create(l, 64 * MIB, HR_CATEGORY_ACTIVATIONS, 0, &r));
    CHECK_EQ(hr_range_bytes(r), 0);
    const hr_addr base = hr_range_addr(r);
    CHECK_OK(hr_range_resize(r, 5 * MIB));
    write_byte(&f, q, base + 5 * MIB - 1, 42);
    CHECK_OK(hr_range_resize(r, 30 * MIB));
    write_byte(&f, q, base + 30 * MIB - 1, 43);
    CHECK(hr_range_addr(r) == base);
    CHECK_EQ(read_byte(&f, q, base + 5 * MIB - 1, 42), 42);
    fixture_check(l);
    hr_stats s = {.size = sizeof s};
    CHECK_OK(hr_logical_get_stats(l, &s));
    CHECK_EQ(s.held_bytes, 30 * MIB);
    CHECK_EQ(s.category[HR_CATEGORY_ACTIVATIONS].live_bytes, 30 * MIB);
    CHECK_STATUS(hr_range_resize(r, 33 * MIB), HR_E_LIMIT);
    CHECK_STATUS(hr_range_resize(r, 65 * MIB), HR_E_RANGE);
    CHECK_EQ(hr_range_bytes(r), 30 * MIB);
    CHECK_OK(hr_range_resize(r, 6 * MIB));
    CHECK_EQ(read_byte(&f, q, base + 5 * MIB - 1, 42), 42);
    hr_block block = fixture_alloc(l, 26 * MIB); /* what the range gave back serves blocks */
    fixture_check(l);
    fixture_free(l, &block);
    CHECK_OK(hr_range_resize(r, 0));
    CHECK_OK(hr_range_destroy(r));
    hr_queue_destroy(q);
    fixture_drop(l);
    fixture_close(&f);
}

TEST(ranges, two_addresses_share_pages_and_hold_them_once) {
    fixture f = fixture_open();
    hr_logical *l = fixture_slice(&f, "a", 16 * MIB, HR_GROWTH_ON);
    hr_queue *q;
    hr_range *r, *share, *none = NULL;
    CHECK_OK(hr_queue_create(f.device, &q));
    CHECK_OK(hr_range_create(l, 16 * MIB, HR_CATEGORY_ACTIVATIONS, 0, &r));
    CHECK_OK(hr_range_resize(r, 12 * MIB));
    CHECK_STATUS(hr_range_share(r, 14 * MIB, &none), HR_E_RANGE);
    CHECK_STATUS(hr_range_share(r, 0, &none), HR_E_INVALID);
    CHECK_OK(hr_range_share(r, 8 * MIB, &share));
    CHECK_STATUS(hr_range_share(share, 2 * MIB, &none), HR_E_INVALID);
    CHECK(none == NULL && hr_range_addr(share) != hr_range_addr(r));
    write_byte(&f, q, hr_range_addr(r) + 7 * MIB, 17);
    CHECK_EQ(read_byte(&f, q, hr_range_addr(share) + 7 * MIB, 17), 17);
    hr_stats s = {.size = sizeof s};
    CHECK_OK(hr_logical_get_stats(l, &s));
    CHECK_EQ(s.held_bytes, 12 * MIB);
    CHECK_STATUS(hr_range_resize(r, 4 * MIB), HR_E_BUSY);
    CHECK_STATUS(hr_range_resize(share, 4 * MIB), HR_E_INVALID);
    CHECK_STATUS(hr_range_destroy(r), HR_E_BUSY);
    CHECK_OK(hr_range_resize(r, 8 * MIB));
    fixture_check(l);
    CHECK_OK(hr_range_destroy(share));
    CHECK_OK(hr_range_destroy(r));
    fixture_check(l);
    hr_queue_destroy(q);
    fixture_drop(l);
    fixture_close(&f);
}

TEST(ranges, wrong_calls_are_refused) {
    fixture f = fixture_open();
    hr_logical *l = fixture_slice(&f, "a", 16 * MIB, HR_GROWTH_ON);
    hr_range *none = NULL;
    CHECK_STATUS(hr_range_create(l, 0, HR_CATEGORY_OTHER, 0, &none), HR_E_INVALID);
    CHECK_STATUS(hr_range_create(l, UINT64_MAX, HR_CATEGORY_OTHER, 0, &none), HR_E_RANGE);
    CHECK_STATUS(hr_range_create(l, MIB, (hr_category)44, 0, &none), HR_E_INVALID);
    CHECK_STATUS(hr_range_create(l, MIB, HR_CATEGORY_OTHER, 9, &none), HR_E_INVALID);
    CHECK(none == NULL);
    CHECK_OK(hr_range_destroy(NULL));
    fixture_drop(l);
    fixture_close(&f);
}

/* Maps against a plain array: order, removal, growth, refused memory. */
#include "test.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "base/fault.h"
#include "base/map.h"

TEST(map, walks_in_insertion_order_also_after_removals) {
    hri_strmap map = {0};
    char name[16];
    for (unsigned i = 0; i < 1000; i++) {
        snprintf(name, sizeof name, "n%u", i * 7919 % 1000);
        CHECK_OK(hri_strmap_put(&map, name, i));
    }
    for (unsigned i = 0; i < 1000; i += 3) {
        snprintf(name, sizeof name, "n%u", i * 7919 % 1000);
        CHECK(hri_strmap_remove(&map, name));
        CHECK(!hri_strmap_remove(&map, name));
    }
    unsigned wanted = 1;
    const char *key;
    uint64_t value;
    for (size_t at = 0; hri_strmap_next(&map, &at, &key, &value);) {
        CHECK_EQ(value, wanted);
        snprintf(name, sizeof name, "n%u", wanted * 7919 % 1000);
        CHECK_STR(key, name);
        wanted += wanted % 3 == 2 ? 2 : 1;
    }
    CHECK_EQ(hri_strmap_count(&map), 666);
    hri_strmap_deinit(&map);
    CHECK_EQ(hri_strmap_count(&map), 0);
}

TEST(map, putting_again_replaces_the_value_and_keeps_the_place) {
    hri_intmap map = {0};
    CHECK_OK(hri_intmap_put(&map, 5, 50));
    CHECK_OK(hri_intmap_put(&map, 6, 60));
    CHECK_OK(hri_intmap_put(&map, 5, 55));
    size_t at = 0;
    uint64_t key, value;
    CHECK(hri_intmap_next(&map, &at, &key, &value) && key == 5 && value == 55);
    CHECK(hri_intmap_next(&map, &at, &key, &value) && key == 6 && value == 60);
    CHECK(!hri_intmap_next(&map, &at, &key, &value));
    hri_intmap_deinit(&map);
}

TEST(map, a_missing_key_leaves_the_output_alone) {
    hri_strmap map = {0};
    uint64_t value = 42;
    CHECK(!hri_strmap_get(&map, "a", &value) && value == 42);
    CHECK_OK(hri_strmap_put(&map, "", 1));
    CHECK_OK(hri_strmap_put(&map, "ab", 2));
    CHECK(!hri_strmap_get(&map, "a", &value) && value == 42);
    CHECK(hri_strmap_get(&map, "", &value) && value == 1);
    CHECK(hri_strmap_get_n(&map, "abc", 2, &value) && value == 2);
    hri_strmap_deinit(&map);
}

TEST(map, agrees_with_a_plain_array_over_random_work) {
    enum { KEYS = 300, ROUNDS = 100000 };
    hri_intmap map = {0};
    uint64_t values[KEYS];
    bool there[KEYS] = {false};
    size_t count = 0;
    uint64_t state = test_seed();
    for (int i = 0; i < ROUNDS; i++) {
        const uint64_t key = test_random(&state) % KEYS;
        if (test_random(&state) % 2) {
            CHECK_OK(hri_intmap_put(&map, key, (uint64_t)i));
            count += !there[key];
            there[key] = true;
            values[key] = (uint64_t)i;
        } else {
            CHECK_EQ(hri_intmap_remove(&map, key), there[key]);
            count -= there[key];
            there[key] = false;
        }
        const uint64_t other = test_random(&state) % KEYS;
        uint64_t value = 0;
        CHECK_EQ(hri_intmap_get(&map, other, &value), there[other]);
        CHECK(!there[other] || value == values[other]);
        CHECK_EQ(hri_intmap_count(&map), count);
    }
    /* Steady work does not let the table grow. */
    CHECK_LE(map.map.slot_count, 4 * KEYS);
    hri_intmap_deinit(&map);
}

#ifdef HEADROOM_FAULTS
/* Puts 50 keys with the nth allocation refused; false when none was. */
static bool put_with_fault(uint64_t nth, int for_ever) {
    hri_strmap map = {0};
    char name[16];
    unsigned put = 0;
    hri_fault_set(HRI_FAULT_ALLOC, nth, for_ever);
    hr_status status = HR_OK;
    while (put < 50 && status == HR_OK) {
        snprintf(name, sizeof name, "k%u", put);
        status = hri_strmap_put(&map, name, put);
        put += status == HR_OK;
    }
    const bool delivered = hri_fault_delivered() > 0;
    hri_fault_set(HRI_FAULT_ALLOC, 0, 0);
    CHECK_STATUS(status, delivered ? HR_E_NOMEM_HOST : HR_OK);
    CHECK_EQ(hri_strmap_count(&map), put);
    CHECK_OK(hri_strmap_put(&map, "again", 1));
    for (unsigned i = 0; i < put; i++) {
        uint64_t value;
        snprintf(name, sizeof name, "k%u", i);
        CHECK(hri_strmap_get(&map, name, &value) && value == i);
    }
    hri_strmap_deinit(&map);
    return delivered;
}

TEST(map, refused_memory_changes_nothing) {
    for (int for_ever = 0; for_ever < 2; for_ever++) {
        uint64_t nth = 1;
        while (put_with_fault(nth, for_ever)) {
            CHECK_EQ(hri_fault_live_allocs(), 0);
            nth++;
        }
        CHECK(nth > 50);
    }
}
#endif

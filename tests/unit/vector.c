/* Vectors: contents under growth, removal, refused memory. */
#include "test.h"

#include "base/fault.h"
#include "base/vector.h"

typedef struct pair {
    uint64_t a;
    char b;
} pair;
HRI_VECTOR(pairs, pair)

TEST(vector, keeps_its_items_while_it_grows) {
    pairs v = {0};
    for (uint64_t i = 0; i < 10000; i++) {
        CHECK_OK(pairs_push(&v, (pair){i, (char)i}));
    }
    CHECK_EQ(v.count, 10000);
    CHECK_LE(v.capacity, 15000);
    for (uint64_t i = 0; i < v.count; i++) {
        CHECK(v.items[i].a == i && v.items[i].b == (char)i);
    }
    pairs_deinit(&v);
    CHECK(v.items == NULL && v.count == 0 && v.capacity == 0);
}

TEST(vector, appends_resizes_and_removes_in_order) {
    pairs v = {0};
    const pair three[3] = {{1, 'a'}, {2, 'b'}, {3, 'c'}};
    CHECK_OK(pairs_append(&v, NULL, 0));
    CHECK_OK(pairs_append(&v, three, 3));
    pairs_remove(&v, 1);
    CHECK(v.count == 2 && v.items[0].a == 1 && v.items[1].a == 3);
    CHECK_OK(pairs_resize(&v, 5));
    CHECK(v.count == 5 && v.items[1].a == 3 && v.items[2].a == 0 && v.items[4].b == 0);
    CHECK_OK(pairs_resize(&v, 1));
    CHECK_OK(pairs_resize(&v, 2));
    CHECK_EQ(v.items[1].a, 0);
    pairs_remove(&v, 1);
    pairs_remove(&v, 0);
    CHECK_EQ(v.count, 0);
    pairs_clear(&v);
    pairs_deinit(&v);
}

TEST(vector, impossible_sizes_are_refused_and_change_nothing) {
    pairs v = {0};
    CHECK_OK(pairs_push(&v, (pair){7, 'x'}));
    CHECK_STATUS(pairs_reserve(&v, SIZE_MAX), HR_E_NOMEM_HOST);
    CHECK_STATUS(pairs_resize(&v, SIZE_MAX / sizeof(pair)), HR_E_NOMEM_HOST);
    CHECK(v.count == 1 && v.items[0].a == 7);
    pairs_deinit(&v);
}

#ifdef HEADROOM_FAULTS
TEST(vector, refused_memory_changes_nothing) {
    for (uint64_t nth = 1; nth < 20; nth++) {
        pairs v = {0};
        hri_fault_set(HRI_FAULT_ALLOC, nth, 0);
        uint64_t refused = 0;
        for (uint64_t i = 0; i < 1000; i++) {
            while (pairs_push(&v, (pair){i, 0}) != HR_OK) {
                refused++;
            }
        }
        CHECK_EQ(refused, hri_fault_delivered());
        hri_fault_set(HRI_FAULT_ALLOC, 0, 0);
        for (uint64_t i = 0; i < 1000; i++) {
            CHECK_EQ(v.items[i].a, i);
        }
        pairs_deinit(&v);
    }
    CHECK_EQ(hri_fault_live_allocs(), 0);
}
#endif

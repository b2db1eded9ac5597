/* The host arena: alignment, contents, marks, refused memory. */
#include "test.h"

#include <stdbool.h>
#include <string.h>

#include "base/arena.h"
#include "base/fault.h"

TEST(arena, records_are_aligned_zeroed_and_apart) {
    enum { N = 500 };
    hri_arena arena;
    hri_arena_init(&arena, 256);
    unsigned char *at[N];
    size_t bytes[N];
    uint64_t state = test_seed();
    for (int i = 0; i < N; i++) {
        const size_t align = (size_t)1 << test_random(&state) % 9;
        bytes[i] = 1 + test_random(&state) % 700;
        at[i] = hri_arena_alloc(&arena, bytes[i], 1, align);
        CHECK(at[i] && (uintptr_t)at[i] % align == 0);
        for (size_t b = 0; b < bytes[i]; b++) {
            CHECK(at[i][b] == 0);
        }
        memset(at[i], i, bytes[i]);
    }
    for (int i = 0; i < N; i++) {
        for (size_t b = 0; b < bytes[i]; b++) {
            CHECK(at[i][b] == (unsigned char)i);
        }
    }
    hri_arena_deinit(&arena);
    CHECK_EQ(hri_arena_held_bytes(&arena), 0);
}

TEST(arena, texts_are_copied_and_formatted) {
    hri_arena arena = {0};
    CHECK_STR(hri_arena_strdup(&arena, "weights"), "weights");
    CHECK_STR(hri_arena_strndup(&arena, "weights", 3), "wei");
    CHECK_STR(hri_arena_strndup(&arena, "we", 9), "we");
    CHECK_STR(hri_arena_printf(&arena, "%s.%d", "layer", 12), "layer.12");
    char *wide = hri_arena_printf(&arena, "%100000d", 7);
    CHECK(wide && strlen(wide) == 100000 && wide[99999] == '7');
    hri_arena_deinit(&arena);
}

TEST(arena, going_back_to_a_mark_frees_what_came_after) {
    hri_arena arena;
    hri_arena_init(&arena, 1024);
    char *kept = hri_arena_strdup(&arena, "kept");
    const hri_arena_mark mark = hri_arena_get_mark(&arena);
    const size_t held = hri_arena_held_bytes(&arena);
    char *next = hri_arena_strdup(&arena, "next");
    for (int i = 0; i < 100; i++) {
        CHECK(hri_arena_alloc(&arena, 1, 1000, 8));
    }
    CHECK(hri_arena_held_bytes(&arena) > 100000);
    hri_arena_release(&arena, mark);
    CHECK_EQ(hri_arena_held_bytes(&arena), held);
    CHECK_STR(kept, "kept");
    CHECK(hri_arena_strdup(&arena, "same place") == next);
    hri_arena_deinit(&arena);
}

TEST(arena, a_mark_of_the_empty_arena_frees_all) {
    hri_arena arena = {0};
    const hri_arena_mark mark = hri_arena_get_mark(&arena);
    CHECK(HRI_ARENA_NEW(&arena, double));
    hri_arena_release(&arena, mark);
    CHECK_EQ(hri_arena_held_bytes(&arena), 0);
    CHECK(HRI_ARENA_NEW(&arena, double));
    hri_arena_deinit(&arena);
}

TEST(arena, reset_keeps_one_chunk_and_uses_it_again) {
    hri_arena arena = {0};
    for (int i = 0; i < 10000; i++) {
        uint64_t *p = HRI_ARENA_ARRAY(&arena, uint64_t, 4);
        CHECK(p);
        p[0] = p[3] = ~(uint64_t)0;
    }
    hri_arena_reset(&arena);
    const size_t held = hri_arena_held_bytes(&arena);
    CHECK(held > 0);
    const uint64_t *again = HRI_ARENA_ARRAY(&arena, uint64_t, 4);
    CHECK(again && again[0] == 0 && again[3] == 0);
    CHECK_EQ(hri_arena_held_bytes(&arena), held);
    hri_arena_deinit(&arena);
}

TEST(arena, sizes_that_overflow_are_refused) {
    hri_arena arena = {0};
    CHECK(!hri_arena_alloc(&arena, SIZE_MAX / 2, 3, 8));
    CHECK(!hri_arena_alloc(&arena, SIZE_MAX, 1, 8));
    CHECK(!hri_arena_alloc(&arena, 1, 8, 3));
    CHECK_EQ(hri_arena_held_bytes(&arena), 0);
    hri_arena_deinit(&arena);
}

#ifdef HEADROOM_FAULTS
TEST(arena, refused_memory_is_null_and_a_retry_works) {
    for (uint64_t nth = 1;; nth++) {
        hri_arena arena;
        hri_arena_init(&arena, 64);
        hri_fault_set(HRI_FAULT_ALLOC, nth, 0);
        int refused = 0;
        for (int i = 0; i < 100; i++) {
            char *text = hri_arena_printf(&arena, "number %d", i);
            refused += !text;
            CHECK(text || hri_arena_printf(&arena, "number %d", i));
        }
        const bool delivered = hri_fault_delivered() > 0;
        hri_fault_set(HRI_FAULT_ALLOC, 0, 0);
        CHECK_EQ(refused, delivered);
        hri_arena_deinit(&arena);
        CHECK_EQ(hri_fault_live_allocs(), 0);
        if (!delivered) {
            CHECK(nth > 3);
            break;
        }
    }
}
#endif

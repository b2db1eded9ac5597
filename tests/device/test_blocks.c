/* Blocks of any size on any device: placement, reuse, remapping, accounts, refusals. */
#include "fixture.h"

#include <stdio.h>
#include <string.h>

TEST(blocks, addresses_are_aligned_and_apart) {
    fixture f = fixture_open();
    hr_logical *l = fixture_slice(&f, "a", 64 * MIB, HR_GROWTH_ON);
    const uint64_t sizes[] = {1, 255, 256, 257, 4096, 65537, MIB, MIB + 1, 3 * MIB, 7 * MIB + 5};
    enum { COUNT = sizeof sizes / sizeof sizes[0] };
    hr_block blocks[COUNT];
    for (int i = 0; i < COUNT; i++) {
        blocks[i] = fixture_alloc(l, sizes[i]);
        CHECK_EQ(blocks[i].addr % 256, 0);
        if (sizes[i] > f.info.page_bytes / 2) {
            CHECK_EQ(blocks[i].addr % f.info.page_bytes, 0);
        }
        for (int j = 0; j < i; j++) {
            CHECK(blocks[j].addr + blocks[j].bytes <= blocks[i].addr ||
                  blocks[i].addr + blocks[i].bytes <= blocks[j].addr);
        }
        fixture_check(l);
    }
    for (int i = 0; i < COUNT; i++) {
        fixture_free(l, &blocks[(i * 7 + 3) % COUNT]);
        fixture_check(l);
    }
    fixture_drop(l);
    fixture_close(&f);
}

TEST(blocks, a_freed_block_is_reused_without_a_call_to_the_device) {
    fixture f = fixture_open();
    hr_logical *l = fixture_slice(&f, "a", 64 * MIB, HR_GROWTH_ON);
    const uint64_t sizes[] = {256, 64 * KIB, MIB, 5 * MIB, 32 * MIB};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        hr_block first = fixture_alloc(l, sizes[i]);
        fixture_free(l, &first);
        hr_stats before = {.size = sizeof before}, after = {.size = sizeof after};
        CHECK_OK(hr_logical_get_stats(l, &before));
        for (int k = 0; k < 10; k++) {
            hr_block again = fixture_alloc(l, sizes[i]);
            CHECK(again.addr == first.addr);
            fixture_free(l, &again);
        }
        CHECK_OK(hr_logical_get_stats(l, &after));
        CHECK_EQ(after.maps, before.maps);
    }
    fixture_drop(l);
    fixture_close(&f);
}

/* Fill with 3 MiB blocks, free every second one, ask for all the free pages in one block. */
TEST(blocks, all_free_pages_are_served_in_one_block) {
    fixture f = fixture_open();
    hr_logical *l = fixture_slice(&f, "a", 128 * MIB, HR_GROWTH_ON);
    enum { MOST = 128 };
    hr_block blocks[MOST];
    int count = 0;
    while (count < MOST &&
           hr_block_alloc(l, 3 * MIB, HR_CATEGORY_OTHER, 0, &blocks[count]) == HR_OK) {
        count++;
    }
    CHECK_EQ(count, 128 * MIB / (4 * MIB)); /* two pages each */
    for (int i = 0; i < count; i += 2) {
        fixture_free(l, &blocks[i]);
    }
    hr_stats stats = {.size = sizeof stats};
    CHECK_OK(hr_logical_get_stats(l, &stats));
    const uint64_t free_bytes = stats.free_bytes;
    CHECK_EQ(free_bytes, 64 * MIB);
    CHECK_EQ(stats.largest_free_bytes, free_bytes);
    hr_block all;
    CHECK_OK(hr_block_alloc(l, free_bytes, HR_CATEGORY_OTHER, 0, &all)); /* at the first try */
    fixture_check(l);
    CHECK_OK(hr_logical_get_stats(l, &stats));
    CHECK_EQ(stats.held_bytes, 128 * MIB);
    CHECK_EQ(stats.free_bytes, 0);
    hr_block none;
    CHECK_STATUS(hr_block_alloc(l, 2 * MIB, HR_CATEGORY_OTHER, 0, &none), HR_E_LIMIT);
    fixture_free(l, &all);
    for (int i = 1; i < count; i += 2) {
        fixture_free(l, &blocks[i]);
    }
    fixture_check(l);
    fixture_drop(l);
    fixture_close(&f);
}

TEST(blocks, contents_survive_remapping_of_neighbours) {
    fixture f = fixture_open();
    hr_logical *l = fixture_slice(&f, "a", 48 * MIB, HR_GROWTH_ON);
    hr_queue *q;
    CHECK_OK(hr_queue_create(f.device, &q));
    enum { COUNT = 12 };
    hr_block blocks[COUNT];
    for (int i = 0; i < COUNT; i++) {
        blocks[i] = fixture_alloc(l, 4 * MIB);
        CHECK_OK(hr_fill(q, blocks[i].addr, (uint8_t)(i + 1), 4 * MIB));
    }
    CHECK_OK(hr_queue_sync(q));
    for (int i = 0; i < COUNT; i += 2) {
        fixture_free(l, &blocks[i]);
    }
    hr_block all = fixture_alloc(l, 24 * MIB);
    CHECK_OK(hr_fill(q, all.addr, 0xee, 24 * MIB));
    static uint8_t back[4 * 1024 * 1024];
    for (int i = 1; i < COUNT; i += 2) {
        memset(back, 0, sizeof back);
        CHECK_OK(hr_copy(q, (hr_addr)(uintptr_t)back, blocks[i].addr, sizeof back));
        CHECK_OK(hr_queue_sync(q));
        if (strcmp(f.info.backend, "null") != 0) {
            for (size_t b = 0; b < sizeof back; b += 4093) {
                CHECK_EQ(back[b], i + 1);
            }
        }
        fixture_free(l, &blocks[i]);
    }
    fixture_free(l, &all);
    hr_queue_destroy(q);
    fixture_drop(l);
    fixture_close(&f);
}

TEST(blocks, small_blocks_share_pages_and_give_them_back) {
    fixture f = fixture_open();
    hr_logical *l = fixture_slice(&f, "a", 8 * MIB, HR_GROWTH_ON);
    static hr_block blocks[32768];
    uint64_t count = 0;
    while (hr_block_alloc(l, 256, HR_CATEGORY_OTHER, 0, &blocks[count]) == HR_OK) {
        count++;
    }
    CHECK_EQ(count, 8 * MIB / 256); /* not one unit is lost */
    for (uint64_t i = 0; i < count; i += 2) {
        fixture_free(l, &blocks[i]);
    }
    fixture_check(l);
    hr_block wide;
    CHECK_STATUS(hr_block_alloc(l, 512, HR_CATEGORY_OTHER, 0, &wide), HR_E_LIMIT);
    hr_stats stats = {.size = sizeof stats};
    CHECK_OK(hr_logical_get_stats(l, &stats));
    CHECK_EQ(stats.largest_free_bytes, 256);
    for (uint64_t i = 1; i < count; i += 2) {
        fixture_free(l, &blocks[i]);
    }
    CHECK_OK(hr_logical_get_stats(l, &stats));
    CHECK_EQ(stats.idle_bytes, 8 * MIB);
    CHECK_EQ(stats.live_bytes, 0);
    uint64_t freed;
    CHECK_OK(hr_logical_trim(l, &freed));
    CHECK_EQ(freed, 8 * MIB);
    fixture_check(l);
    fixture_drop(l);
    fixture_close(&f);
}

TEST(blocks, the_heap_never_grows_while_pages_are_idle) {
    fixture f = fixture_open();
    hr_logical *l = fixture_slice(&f, "a", 256 * MIB, HR_GROWTH_ON);
    hr_block a = fixture_alloc(l, 10 * MIB), b = fixture_alloc(l, 10 * MIB);
    fixture_free(l, &a);
    hr_block c = fixture_alloc(l, 16 * MIB); /* ten idle, six more are needed */
    hr_stats stats = {.size = sizeof stats};
    CHECK_OK(hr_logical_get_stats(l, &stats));
    CHECK_EQ(stats.held_bytes, 26 * MIB);
    CHECK_EQ(stats.idle_bytes, 0);
    fixture_check(l);
    fixture_free(l, &b);
    fixture_free(l, &c);
    fixture_drop(l);
    fixture_close(&f);
}

TEST(blocks, wrong_calls_change_nothing) {
    fixture f = fixture_open();
    hr_logical *l = fixture_slice(&f, "a", 8 * MIB, HR_GROWTH_ON);
    hr_logical *other = fixture_slice(&f, "b", 8 * MIB, HR_GROWTH_ON);
    hr_block block = {.addr = 77};
    CHECK_STATUS(hr_block_alloc(l, 0, HR_CATEGORY_OTHER, 0, &block), HR_E_INVALID);
    CHECK_STATUS(hr_block_alloc(l, 1, (hr_category)99, 0, &block), HR_E_INVALID);
    CHECK_STATUS(hr_block_alloc(l, 1, HR_CATEGORY_OTHER, 4711, &block), HR_E_INVALID);
    CHECK_STATUS(hr_block_alloc(l, UINT64_MAX, HR_CATEGORY_OTHER, 0, &block), HR_E_LIMIT);
    CHECK_STATUS(hr_block_alloc(l, 9 * MIB, HR_CATEGORY_OTHER, 0, &block), HR_E_LIMIT);
    CHECK_EQ(block.addr, 77);
    block = fixture_alloc(l, 3 * MIB);
    CHECK_STATUS(hr_block_free(other, &block), HR_E_INVALID);
    hr_block forged = block;
    forged.handle ^= UINT64_C(1) << 40;
    CHECK_STATUS(hr_block_free(l, &forged), HR_E_INVALID);
    fixture_free(l, &block);
    CHECK_STATUS(hr_block_free(l, &block), HR_E_INVALID);
    hr_block again = fixture_alloc(l, 3 * MIB); /* the same cell, another block */
    CHECK_STATUS(hr_block_free(l, &block), HR_E_INVALID);
    fixture_free(l, &again);
    fixture_check(l);
    fixture_drop(other);
    fixture_drop(l);
    fixture_close(&f);
}

TEST(blocks, accounts_add_up_by_category_and_owner) {
    fixture f = fixture_open();
    hr_logical *l = fixture_slice(&f, "a", 64 * MIB, HR_GROWTH_ON);
    hr_owner conv, same, fc;
    CHECK_OK(hr_owner_get(l, "layer1.conv", &conv));
    CHECK_OK(hr_owner_get(l, "layer1.conv", &same));
    CHECK_OK(hr_owner_get(l, "fc", &fc));
    CHECK_EQ(conv, same);
    CHECK(conv != fc && conv != 0);
    hr_block w, g, a;
    CHECK_OK(hr_block_alloc(l, 5 * MIB, HR_CATEGORY_WEIGHTS, conv, &w));
    CHECK_OK(hr_block_alloc(l, 1000, HR_CATEGORY_GRADIENTS, conv, &g));
    CHECK_OK(hr_block_alloc(l, 300, HR_CATEGORY_WEIGHTS, fc, &a));
    hr_stats s = {.size = sizeof s};
    CHECK_OK(hr_logical_get_stats(l, &s));
    CHECK_EQ(s.category[HR_CATEGORY_WEIGHTS].live_bytes, 5 * MIB + 300);
    CHECK_EQ(s.category[HR_CATEGORY_WEIGHTS].held_bytes, 6 * MIB + 512);
    CHECK_EQ(s.category[HR_CATEGORY_GRADIENTS].live_bytes, 1000);
    CHECK_EQ(s.category[HR_CATEGORY_GRADIENTS].held_bytes, 1024);
    CHECK_EQ(s.live_bytes, 5 * MIB + 1300);
    hr_usage usage;
    char name[48];
    CHECK_OK(hr_owner_get_usage(l, conv, &usage, name, sizeof name));
    CHECK_STR(name, "layer1.conv");
    CHECK_EQ(usage.live_bytes, 5 * MIB + 1000);
    CHECK_EQ(usage.blocks, 2);
    fixture_free(l, &w);
    CHECK_OK(hr_owner_get_usage(l, conv, &usage, NULL, 0));
    CHECK_EQ(usage.live_bytes, 1000);
    CHECK_EQ(usage.peak_bytes, 5 * MIB + 1000);
    hr_logical_reset_peaks(l);
    CHECK_OK(hr_owner_get_usage(l, conv, &usage, NULL, 0));
    CHECK_EQ(usage.peak_bytes, 1000);
    CHECK_STATUS(hr_owner_get_usage(l, 99, &usage, NULL, 0), HR_E_NOT_FOUND);
    CHECK_STATUS(hr_owner_get(l, "", &fc), HR_E_INVALID);
    fixture_free(l, &g);
    fixture_free(l, &a);
    fixture_drop(l);
    fixture_close(&f);
}

TEST(blocks, out_of_memory_says_who_holds_what_on_one_screen) {
    fixture f = fixture_open();
    hr_logical *l = fixture_slice(&f, "train", 32 * MIB, HR_GROWTH_ON);
    hr_block blocks[8];
    for (int i = 0; i < 7; i++) {
        char name[32];
        hr_owner owner;
        snprintf(name, sizeof name, "layer%d", i);
        CHECK_OK(hr_owner_get(l, name, &owner));
        CHECK_OK(
            hr_block_alloc(l, (uint64_t)(i + 1) * MIB, HR_CATEGORY_ACTIVATIONS, owner, &blocks[i]));
    }
    hr_block more;
    CHECK_STATUS(hr_block_alloc(l, 20 * MIB, HR_CATEGORY_WORKSPACE, 0, &more), HR_E_LIMIT);
    hr_error e;
    hr_ctx_error(f.ctx, &e);
    CHECK_EQ(e.code, HR_E_LIMIT);
    CHECK_EQ(e.wanted_bytes, 20 * MIB);
    CHECK_EQ(e.limit_bytes, 32 * MIB);
    CHECK_EQ(e.live_bytes, 28 * MIB);
    CHECK_EQ(e.held_bytes,
             32 * MIB); /* 1, 3, 5 and 7 MiB round up to whole pages, 1 is half of one */
    CHECK_EQ(e.holder_count, 5);
    CHECK_STR(e.holders[0].owner, "layer6");
    CHECK_STR(e.holders[4].owner, "layer2");
    CHECK(strstr(e.message, "train") && strstr(e.message, "layer6") &&
          strstr(e.message, "to fix it"));
    int lines = 1;
    for (const char *c = e.message; *c; c++) {
        lines += *c == '\n';
    }
    CHECK_LE(lines, 24);
    for (int i = 0; i < 7; i++) {
        fixture_free(l, &blocks[i]);
    }
    fixture_drop(l);
    fixture_close(&f);
}

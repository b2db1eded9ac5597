/* The packer: known packings, the bound, the checker, bad input, and the public problems where they are. */
#include "plan/pack.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/fault.h"
#include "base/file.h"
#include "plan/pack_blocks.h"
#include "plan/pack_csv.h"
#include "plan/pack_int.h"
#include "plan/pack_state.h"
#include "test.h"

static hri_pack_result pack(const hri_pack_buffer *buffers, size_t count,
                            const hri_pack_options *options, uint64_t *offsets) {
    hri_pack_result result;
    size_t bad[2];
    CHECK_OK(hri_pack(buffers, count, options, offsets, &result));
    CHECK(
        hri_pack_check(buffers, count, options ? options->align : 1, offsets, result.height, bad));
    CHECK(result.height >= result.lower_bound);
    return result;
}

TEST(pack, buffers_apart_in_time_share_and_those_together_do_not) {
    const hri_pack_buffer b[] = {{0, 2, 10}, {2, 4, 10}, {1, 3, 5}, {7, 9, 12}};
    uint64_t offsets[4];
    const hri_pack_result r = pack(b, 4, NULL, offsets);
    CHECK_EQ(r.height, 15);
    CHECK_EQ(r.lower_bound, 15);
    CHECK_EQ(r.proved, 1);
}

TEST(pack, nothing_and_buffers_of_no_size_or_no_life_take_no_room) {
    const hri_pack_buffer b[] = {{0, 5, 0}, {3, 3, 100}};
    uint64_t offsets[2] = {9, 9};
    hri_pack_result r;
    CHECK_OK(hri_pack(b, 2, NULL, offsets, &r));
    CHECK_EQ(r.height, 0);
    CHECK_OK(hri_pack(NULL, 0, NULL, NULL, &r));
    CHECK_EQ(r.height, 0);
}

TEST(pack, alignment_comes_before_the_bound) {
    const hri_pack_buffer b[] = {{0, 2, 1}, {0, 2, 257}, {1, 3, 256}};
    const hri_pack_options options = {.align = 256};
    uint64_t offsets[3];
    const hri_pack_result r = pack(b, 3, &options, offsets);
    CHECK_EQ(r.lower_bound, 256 + 512 + 256);
    CHECK_EQ(r.height, 1024);
}

TEST(pack, bad_input_is_refused_and_changes_nothing) {
    const hri_pack_buffer backwards[] = {{5, 4, 1}};
    const hri_pack_buffer huge[] = {{0, 1, UINT64_MAX}, {0, 1, UINT64_MAX}};
    const hri_pack_options odd = {.align = 3};
    uint64_t offset[2] = {77, 77};
    hri_pack_result r = {.height = 5};
    CHECK_STATUS(hri_pack(backwards, 1, NULL, offset, &r), HR_E_INVALID);
    CHECK_STATUS(hri_pack(huge, 2, NULL, offset, &r), HR_E_RANGE);
    CHECK_STATUS(hri_pack(huge, 1, &odd, offset, &r), HR_E_INVALID);
    CHECK(offset[0] == 77 && r.height == 5);
}

TEST(pack, the_checker_sees_every_kind_of_mistake) {
    const hri_pack_buffer b[] = {{0, 2, 10}, {1, 3, 10}};
    size_t bad[2];
    const uint64_t right[] = {0, 10}, overlap[] = {0, 9}, crooked[] = {0, 11};
    CHECK(hri_pack_check(b, 2, 1, right, 20, bad));
    CHECK(!hri_pack_check(b, 2, 1, overlap, 20, bad));
    CHECK(bad[0] == 1 && bad[1] == 0);
    CHECK(!hri_pack_check(b, 2, 1, right, 19, bad));
    CHECK(!hri_pack_check(b, 2, 2, crooked, 40, bad));
}

/* A rectangle cut at random by straight cuts can be packed without a gap: an exact answer is known. */
typedef struct cutter {
    hri_pack_buffer *out;
    size_t count;
    uint64_t random;
} cutter;

static void cut(cutter *c, int64_t t0, int64_t t1, uint64_t bytes, int depth) {
    const uint64_t choice = test_random(&c->random);
    if (depth > 0 && choice % 2 && t1 - t0 > 1) {
        const int64_t at = t0 + 1 + (int64_t)(test_random(&c->random) % (uint64_t)(t1 - t0 - 1));
        cut(c, t0, at, bytes, depth - 1);
        cut(c, at, t1, bytes, depth - 1);
    } else if (depth > 0 && bytes > 1) {
        const uint64_t part = 1 + test_random(&c->random) % (bytes - 1);
        cut(c, t0, t1, part, depth - 1);
        cut(c, t0, t1, bytes - part, depth - 1);
    } else {
        c->out[c->count++] = (hri_pack_buffer){t0, t1, bytes};
    }
}

TEST(pack, rectangles_without_gaps_are_found) {
    for (uint64_t i = 0; i < 40; i++) {
        hri_pack_buffer b[64];
        uint64_t offsets[64];
        cutter c = {b, 0, test_seed() * 100 + i};
        cut(&c, 0, 60, 100, 5);
        const hri_pack_options options = {.effort = 20000};
        const hri_pack_result r = pack(b, c.count, &options, offsets);
        CHECK_EQ(r.lower_bound, 100);
        CHECK_EQ(r.height, 100);
    }
}

/* Some a little smaller, so that the way it was cut no longer shows. */
TEST(pack, a_thorough_search_finds_rectangles_with_a_little_slack) {
    for (uint64_t i = 0; i < 6; i++) {
        static hri_pack_buffer b[256];
        static uint64_t offsets[256];
        cutter c = {b, 0, i + 1};
        cut(&c, 0, 600, 100000, 8);
        for (size_t k = 0; k < c.count; k += 11) {
            b[k].bytes -= b[k].bytes / 20;
        }
        const hri_pack_options options = {
            .capacity = 100000, .effort = 20000, .search_bytes = 1 << 20};
        const hri_pack_result r = pack(b, c.count, &options, offsets);
        CHECK_LE(r.height, 100000);
    }
}

/* A cut rectangle as the packer's own problem: every moment is a section. */
typedef struct cut_problem {
    hri_pack_buffer buffers[64];
    hri_pack_item items[64];
    uint64_t live[60];
    hri_pack_problem p;
} cut_problem;

static void make_cut_problem(cut_problem *x, uint64_t seed) {
    cutter c = {x->buffers, 0, seed};
    cut(&c, 0, 60, 100000, 6);
    for (size_t i = 0; i < c.count; i++) {
        const hri_pack_buffer *b = &x->buffers[i];
        x->items[i] = (hri_pack_item){(uint32_t)b->lower, (uint32_t)b->upper, b->bytes, 100000};
    }
    for (size_t s = 0; s < 60; s++) {
        x->live[s] = 100000;
    }
    x->p = (hri_pack_problem){.items = x->items,
                              .count = (uint32_t)c.count,
                              .sections = 60,
                              .live = x->live,
                              .lower_bound = 100000};
}

static hr_status pack_blocks(const hri_pack_problem *p, uint64_t nodes, uint64_t *offsets,
                             hri_pack_verdict *verdict) {
    hri_pack_regroup *g;
    hr_status status = hri_pack_blocks_create(p, 100000, 1 << 20, NULL, &g);
    if (status == HR_OK) {
        status = hri_pack_blocks_run(g, &nodes, offsets, verdict);
        hri_pack_blocks_destroy(g);
    }
    return status;
}

TEST(pack, blocks_put_a_cut_rectangle_together_again) {
    for (uint64_t seed = 1; seed <= 20; seed++) {
        static cut_problem x;
        uint64_t offsets[64];
        size_t bad[2];
        hri_pack_verdict verdict;
        make_cut_problem(&x, seed);
        CHECK_OK(pack_blocks(&x.p, 100000, offsets, &verdict));
        CHECK(verdict == HRI_PACK_FOUND);
        CHECK(hri_pack_check(x.buffers, x.p.count, 1, offsets, 100000, bad));
    }
}

/* A level for each buffer: the stack has an end. */
TEST(pack, a_search_that_would_be_too_deep_is_given_up) {
    enum { COUNT = 4200, SECTIONS = COUNT / 4 };
    static hri_pack_item items[COUNT];
    static uint64_t offsets[COUNT], live[SECTIONS];
    uint64_t nodes = 2 * COUNT;
    for (uint32_t i = 0; i < COUNT; i++) {
        items[i] = (hri_pack_item){i / 4, i / 4 + 1, 1, 4};
        live[i / 4] = 4;
    }
    const hri_pack_problem p = {
        .items = items, .count = COUNT, .sections = SECTIONS, .live = live, .lower_bound = 4};
    hri_pack_verdict verdict;
    hri_pack_state *e;
    CHECK_OK(hri_pack_exact_create(&p, 4, (size_t)1 << 30, &e));
    e->round = COUNT + 1; /* to the end at the first try */
    CHECK_OK(hri_pack_exact_run(e, &nodes, offsets, &verdict));
    hri_pack_exact_destroy(e);
    CHECK_EQ(verdict, HRI_PACK_GAVE_UP);
    CHECK(nodes > COUNT); /* not for want of steps */
}

/* All that was joined comes apart again: the buffers are there, each once, and so is all the slack. */
TEST(pack, blocks_that_come_apart_give_back_what_they_wasted) {
    for (uint64_t seed = 1; seed <= 20; seed++) {
        static cut_problem x;
        static hri_pack_block blocks[256];
        static uint32_t live[256], spare[256], first[61], next[256], begins[61], ends[61];
        static uint64_t slack[60];
        make_cut_problem(&x, seed);
        memset(begins, 0, sizeof begins);
        memset(ends, 0, sizeof ends);
        hri_pack_builder b = {.p = &x.p,
                              .blocks = blocks,
                              .live = live,
                              .spare = spare,
                              .first = first,
                              .next = next,
                              .most = 256,
                              .live_count = x.p.count,
                              .count = x.p.count,
                              .slack = slack,
                              .begins = begins,
                              .ends = ends,
                              .careful = seed % 2,
                              .shapely = seed % 3 == 0,
                              .seed = seed,
                              .noise = 1.0,
                              .most_cost = 0.3};
        for (uint32_t s = 0; s < 60; s++) {
            slack[s] = 3000;
        }
        for (uint32_t i = 0; i < x.p.count; i++) {
            const hri_pack_item *item = &x.items[i];
            blocks[i] = (hri_pack_block){.begin = item->begin,
                                         .end = item->end,
                                         .size = item->size,
                                         .parent = HRI_PACK_NO_BLOCK};
            live[i] = i;
            begins[item->begin]++;
            ends[item->end]++;
        }
        hri_pack_join_all(&b, 1);
        CHECK(b.live_count < x.p.count);
        for (uint32_t s = 0; s < 60; s++) {
            CHECK_LE(slack[s], 3000);
        }
        for (uint32_t n = 0; n < b.live_count;) {
            if (blocks[live[n]].part_count) {
                hri_pack_part(&b, live[n]);
                n = 0;
            } else {
                n++;
            }
        }
        CHECK(b.live_count == x.p.count);
        uint64_t seen = 0;
        for (uint32_t n = 0; n < b.live_count; n++) {
            CHECK(live[n] < x.p.count && blocks[live[n]].parent == HRI_PACK_NO_BLOCK);
            seen |= UINT64_C(1) << live[n];
        }
        CHECK(seen == UINT64_MAX >> (64 - x.p.count));
        for (uint32_t s = 0; s < 60; s++) {
            CHECK(slack[s] == 3000);
        }
        for (uint32_t i = 0; i < x.p.count; i++) {
            begins[x.items[i].begin]--;
            ends[x.items[i].end]--;
        }
        for (uint32_t t = 0; t <= 60; t++) {
            CHECK(begins[t] == 0 && ends[t] == 0);
        }
    }
}

/* A rectangle cut to five around one another, and each of them again. */
static void cut_wheels(cutter *c, int64_t a, int64_t b, uint64_t bytes, int depth) {
    if (depth == 0 || b - a < 4 || bytes < 4) {
        c->out[c->count++] = (hri_pack_buffer){a, b, bytes};
        return;
    }
    const int64_t third = (b - a) / 3;
    const int64_t x1 = a + 1 + (int64_t)(test_random(&c->random) % (uint64_t)third);
    const int64_t x2 = b - 1 - (int64_t)(test_random(&c->random) % (uint64_t)third);
    const uint64_t y1 = 1 + test_random(&c->random) % (bytes / 3);
    const uint64_t y2 = bytes - 1 - test_random(&c->random) % (bytes / 3);
    cut_wheels(c, a, x2, y1, depth - 1);
    cut_wheels(c, x2, b, y2, depth - 1);
    cut_wheels(c, x1, b, bytes - y2, depth - 1);
    cut_wheels(c, a, x1, bytes - y1, depth - 1);
    cut_wheels(c, x1, x2, y2 - y1, depth - 1);
}

/* What their lives say is enough: the sizes no longer add up. */
TEST(pack, wheels_of_buffers_that_were_made_smaller_are_found) {
    for (uint64_t i = 0; i < 4; i++) {
        static hri_pack_buffer b[128];
        static uint64_t offsets[128];
        cutter c = {b, 0, i + 1};
        cut_wheels(&c, 0, 1000000, 100000000, 3);
        for (size_t k = 0; k < c.count; k++) {
            b[k].bytes -= test_random(&c.random) % (b[k].bytes / 20 + 1);
        }
        const hri_pack_options options = {
            .capacity = 100000000, .effort = 2000, .search_bytes = 1 << 20};
        const hri_pack_result r = pack(b, c.count, &options, offsets);
        CHECK_LE(r.height, 100000000);
    }
}

/* Four attempts or one at a time: the first of a wave that finds a packing has found it. */
TEST(pack, threads_change_nothing_but_the_time) {
    static hri_pack_buffer b[256];
    static uint64_t alone[256], together[256];
    hri_threads *threads;
    CHECK_OK(hri_threads_create(4, &threads));
    for (uint64_t i = 0; i < 3; i++) {
        cutter c = {b, 0, i + 1};
        cut(&c, 0, 60, 100000, 7);
        for (size_t k = 0; k < c.count; k++) {
            b[k].bytes -= test_random(&c.random) % (b[k].bytes / 40 + 1);
        }
        hri_pack_options options = {.capacity = 100000, .effort = 400, .search_bytes = 1 << 20};
        const hri_pack_result one = pack(b, c.count, &options, alone);
        options.threads = threads;
        const hri_pack_result four = pack(b, c.count, &options, together);
        CHECK(one.height == four.height && one.steps == four.steps);
        CHECK(memcmp(alone, together, c.count * sizeof *alone) == 0);
    }
    hri_threads_destroy(threads);
}

/* Two of one size with a gap between them, under one that lives all the time: the first lives on through the gap. */
TEST(pack, lives_that_were_cut_short_are_stretched) {
    hri_pack_block blocks[3] = {{.begin = 0, .end = 2, .size = 10},
                                {.begin = 3, .end = 5, .size = 10},
                                {.begin = 0, .end = 5, .size = 7}};
    uint32_t begins[6] = {2, 0, 0, 1, 0, 0}, ends[6] = {0, 0, 1, 0, 0, 2};
    uint64_t slack[5] = {1, 1, 11, 1, 1};
    const hri_pack_problem p = {.count = 3, .sections = 5};
    hri_pack_builder b = {
        .p = &p, .blocks = blocks, .slack = slack, .begins = begins, .ends = ends};
    hri_pack_stretch(&b);
    CHECK_EQ(blocks[0].end, 3);
    CHECK(blocks[1].begin == 3 && blocks[2].end == 5);
    CHECK(ends[2] == 0 && ends[3] == 1);
    CHECK_EQ(slack[2], 1);
}

#ifdef HEADROOM_FAULTS
TEST(pack, every_allocation_of_blocks_may_fail) {
    static cut_problem x;
    make_cut_problem(&x, 3);
    uint64_t failed = 0;
    for (uint64_t nth = 1;; nth++) {
        uint64_t offsets[64];
        hri_pack_verdict verdict;
        hri_fault_set(HRI_FAULT_ALLOC, nth, 0);
        const hr_status status = pack_blocks(&x.p, 100000, offsets, &verdict);
        const uint64_t delivered = hri_fault_delivered();
        hri_fault_set(HRI_FAULT_ALLOC, 0, 0);
        if (delivered == 0) {
            CHECK_OK(status);
            break;
        }
        CHECK_STATUS(status, HR_E_NOMEM_HOST);
        failed++;
    }
    CHECK(failed > 8);
}
#endif

enum { FEW = 10, TALL = 8, LONG = 6 };

/* The lowest of all: by rising offset an optimal packing is placed as it is, so some order of placing finds it. */
static uint64_t lowest(const hri_pack_buffer *b, size_t count, unsigned placed, uint64_t *offsets,
                       uint64_t height, uint64_t best) {
    if (height >= best || placed == (1u << count) - 1) {
        return height < best ? height : best;
    }
    for (size_t i = 0; i < count && best > TALL; i++) {
        if (placed >> i & 1) {
            continue;
        }
        offsets[i] = 0;
        for (size_t k = 0; k < count;
             k++) { /* up, until nothing that lives with it is in the way */
            if (placed >> k & 1 && b[k].lower < b[i].upper && b[i].lower < b[k].upper &&
                offsets[k] < offsets[i] + b[i].bytes && offsets[i] < offsets[k] + b[k].bytes) {
                offsets[i] = offsets[k] + b[k].bytes;
                k = (size_t)-1;
            }
        }
        const uint64_t end = offsets[i] + b[i].bytes;
        best = lowest(b, count, placed | 1u << i, offsets, end > height ? end : height, best);
    }
    return best;
}

/* Every moment is full, and buffers of one size go on from moment to moment: some of these cannot be packed without a
 * gap.  Returns how many there are, 0 when they are too many. */
static size_t full_moments(uint64_t *random, hri_pack_buffer *b) {
    size_t count = 0;
    for (int64_t t = 0; t < LONG; t++) {
        const size_t before = count;
        for (uint64_t left = TALL, bytes; left > 0; left -= bytes) {
            bytes = 1 + test_random(random) % 4;
            bytes = bytes < left ? bytes : left;
            size_t on = 0;
            while (on < before && (b[on].upper != t || b[on].bytes != bytes)) {
                on++;
            }
            if (on < before && test_random(random) % 4) {
                b[on].upper = t + 1;
            } else if (count == FEW) {
                return 0;
            } else {
                b[count++] = (hri_pack_buffer){t, t + 1, bytes};
            }
        }
    }
    return count;
}

TEST(pack, small_problems_are_decided_as_by_trying_all_orders) {
    uint64_t random = test_seed(), fit = 0, refuted = 0;
    while (refuted < 3 || fit < 200) {
        hri_pack_buffer b[FEW];
        uint64_t offsets[FEW], scratch[FEW];
        const size_t count = full_moments(&random, b);
        if (count == 0) {
            continue;
        }
        const uint64_t best = lowest(b, count, 0, scratch, 0, UINT64_MAX);
        const hri_pack_result r = pack(b, count, NULL, offsets);
        CHECK_EQ(r.height, best);
        CHECK(r.proved);
        const hri_pack_options whole = {.capacity = TALL};
        CHECK_EQ(pack(b, count, &whole, offsets).refuted, best > TALL);
        const hri_pack_options thorough = {.capacity = TALL, .search_bytes = 1 << 20};
        CHECK_EQ(pack(b, count, &thorough, offsets).refuted, best > TALL);
        fit += best == TALL;
        refuted += best > TALL;
    }
}

TEST(pack, the_same_problem_has_the_same_packing) {
    hri_pack_buffer b[300];
    uint64_t first[300], second[300], random = test_seed();
    for (size_t i = 0; i < 300; i++) {
        b[i].lower = (int64_t)(test_random(&random) % 100);
        b[i].upper = b[i].lower + 1 + (int64_t)(test_random(&random) % 30);
        b[i].bytes = 1 + test_random(&random) % 1000;
    }
    const hri_pack_result r = pack(b, 300, NULL, first);
    CHECK_EQ(pack(b, 300, NULL, second).height, r.height);
    CHECK(memcmp(first, second, sizeof first) == 0);
    CHECK_LE(r.height - r.lower_bound, r.lower_bound / 50);
}

#ifdef HEADROOM_FAULTS
TEST(pack, every_allocation_may_fail) {
    hri_pack_buffer b[64];
    uint64_t offsets[64];
    cutter c = {b, 0, 5};
    cut(&c, 0, 60, 100, 5);
    const hri_pack_options options = {.effort = 400};
    uint64_t failed = 0;
    for (uint64_t nth = 1;; nth++) {
        hri_pack_result r;
        hri_fault_set(HRI_FAULT_ALLOC, nth, 0);
        const hr_status status = hri_pack(b, c.count, &options, offsets, &r);
        const uint64_t delivered = hri_fault_delivered();
        hri_fault_set(HRI_FAULT_ALLOC, 0, 0);
        if (delivered == 0) {
            CHECK_OK(status);
            break;
        }
        CHECK_STATUS(status, HR_E_NOMEM_HOST);
        failed++;
    }
    CHECK(failed > 8);
}
#endif

TEST(pack, csv_is_read_by_column_names_and_bad_lines_are_named) {
    static const char good[] = "size,id,x,lower,upper\r\n5,a,?,0,3\n\n7,b,,1,2\n";
    hri_pack_file file;
    hri_prose why = {{0}};
    CHECK_OK(hri_pack_file_parse(good, sizeof good - 1, &file, &why));
    CHECK_EQ(file.count, 2);
    CHECK_STR(file.ids[1], "b");
    CHECK(file.buffers[1].lower == 1 && file.buffers[1].upper == 2 && file.buffers[1].bytes == 7);
    hri_pack_file_deinit(&file);
    static const struct {
        const char *text, *says;
    } bad[] = {{"", "line 1"},
               {"id,lower,upper\n", "size"},
               {"id,lower,upper,size\n1,2,3\n", "line 2"},
               {"id,lower,upper,size\n1,0,1,5\n1,0,1,x\n", "line 3"},
               {"id,lower,upper,size\n1,0,1,-5\n", "negative"},
               {"id,lower,upper,size\n1,4,1,5\n", "before"},
               {"id,lower,upper,size\n1,0,1,99999999999999999999\n", "line 2"}};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        CHECK_STATUS(hri_pack_file_parse(bad[i].text, strlen(bad[i].text), &file, &why),
                     HR_E_FORMAT);
        CHECK(strstr(why.text, bad[i].says) != NULL);
    }
}

/* Public problems beside the checkout; HEADROOM_SHARED says where when it is elsewhere. */
static void public_problem(const char *name, uint64_t capacity, double most_gap) {
    char path[512];
    const char *folder = getenv("HEADROOM_SHARED");
    snprintf(path, sizeof path, "%s/data/packing/%s.csv",
             folder ? folder : HEADROOM_SOURCE_DIR "/../shared", name);
    char *text;
    size_t bytes;
    if (!hri_file_exists(path)) {
        test_skip("there is no %s", path);
    }
    CHECK_OK(hri_file_read(path, 1 << 24, &text, &bytes, NULL));
    hri_pack_file file;
    CHECK_OK(hri_pack_file_parse(text, bytes, &file, NULL));
    hri_free(text);
    uint64_t *offsets = calloc(file.count, sizeof *offsets);
    const hri_pack_options options = {.capacity = capacity, .effort = 20000};
    const hri_pack_result r = pack(file.buffers, file.count, &options, offsets);
    printf("    %s: %zu buffers, height %llu, bound %llu, by %s in %llu steps\n", name, file.count,
           (unsigned long long)r.height, (unsigned long long)r.lower_bound, r.method,
           (unsigned long long)r.steps);
    if (capacity) {
        CHECK_LE(r.height, capacity);
    }
    CHECK((double)r.height <= (double)r.lower_bound * (1 + most_gap));
    free(offsets);
    hri_pack_file_deinit(&file);
}

TEST(pack_public, resnet50_is_within_half_a_percent) {
    public_problem("resnet50-somas", 0, 0.005);
}
TEST(pack_public, iopddl_g_is_within_half_a_percent) {
    public_problem("iopddl-g", 0, 0.005);
}
TEST(pack_public, a_is_solved_at_its_capacity) {
    public_problem("A", 1048576, 1);
}
TEST(pack_public, b_is_solved_at_its_capacity) {
    public_problem("B", 1048576, 1);
}
TEST(pack_public, c_is_solved_at_its_capacity) {
    public_problem("C", 1048576, 1);
}
TEST(pack_public, d_is_solved_at_its_capacity) {
    public_problem("D", 1048576, 1);
}

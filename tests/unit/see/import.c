/* Files of PyTorch and XLA: what lives when, nothing executed, and what a file that was cut still tells. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/file.h"
#include "pictures.h"
#include "see/open.h"
#include "base/pickle.h"
#include "see/allocations.h"
#include "see/torch.h"
#include "see/xla.h"
#include "test.h"

static const char *corpus(const char *name) {
    static char path[512];
    snprintf(path, sizeof path, "%s/tests/fuzz/corpus/%s", HEADROOM_SOURCE_DIR, name);
    return path;
}

static hri_recording opened(const char *name) {
    hri_recording r = {0};
    hri_prose why = {0};
    const hr_status status = hri_see_open(corpus(name), &r, &why);
    CHECK_STR(why.text, "");
    CHECK_OK(status);
    return r;
}

static const hri_see_buffer *named(const hri_recording *r, const char *name) {
    const hri_see_buffer *b = hri_recording_buffers(r);
    for (size_t i = 0; i < r->tables[HRI_SEE_BUFFERS].count; i++) {
        if (!strcmp(hri_recording_get_text(r, b[i].name), name)) {
            return &b[i];
        }
    }
    return NULL;
}

TEST(import, a_torch_snapshot_has_its_allocations_with_lines_of_python) {
    hri_recording r = opened("torch/small4.pickle");
    const hri_see_buffer *b = hri_recording_buffers(&r);
    const size_t ops = r.tables[HRI_SEE_OPS].count;
    size_t before = 0, after = 0;
    uint64_t sum = 0;
    CHECK_STR(r.head.source, "pytorch");
    CHECK_STR(r.head.device, "cuda:1");
    CHECK(!r.truncated);
    CHECK_EQ(
        ops,
        31); /* 30 events, and the free of something older; requests are no events of their own */
    for (size_t i = 0; i < r.tables[HRI_SEE_BUFFERS].count; i++) {
        before += b[i].birth == 0 && b[i].bytes == 4096 && b[i].death == 0;
        after += b[i].birth == 0 && b[i].death == ops && b[i].bytes == 2048;
        if (b[i].birth <= r.head.peak_op && r.head.peak_op < b[i].death) {
            sum += b[i].bytes;
        }
        CHECK(b[i].offset + b[i].bytes <= 1 << 24); /* addresses are packed into the one segment */
    }
    CHECK_EQ(before, 1); /* freed by the first event */
    CHECK_EQ(after, 1);  /* in the segments, never allocated */
    CHECK_EQ(sum, r.head.peak_bytes);
    CHECK_EQ(hri_recording_parts(&r)[0].planned_bytes, sum);
    const hri_see_buffer *line = named(&r, "train.py:11 forward");
    CHECK(line);
    CHECK_STR(hri_recording_get_text(&r, line->source),
              "/opt/x/alloc.cpp:0 malloc; train.py:11 forward; train.py:99 main");
    hri_recording_deinit(&r);
}

TEST(import, a_torch_snapshot_that_was_cut_gives_what_it_has) {
    hri_recording whole = opened("torch/small4.pickle"), r = opened("torch/cut.pickle");
    CHECK(r.truncated && strstr(r.head.note, "truncated"));
    CHECK(r.tables[HRI_SEE_OPS].count > 0);
    CHECK(r.tables[HRI_SEE_OPS].count < whole.tables[HRI_SEE_OPS].count);
    CHECK(r.head.peak_bytes <= whole.head.peak_bytes);
    hri_recording_deinit(&whole);
    hri_recording_deinit(&r);
}

TEST(import, a_pickle_that_calls_something_is_data_with_a_hole) {
    hri_recording r = opened("torch/calls.pickle");
    CHECK_EQ(r.tables[HRI_SEE_BUFFERS].count, 1);
    CHECK_EQ(r.head.peak_bytes, 512);
    hri_recording_deinit(&r);
}

TEST(import, pickles_of_all_protocols_and_of_nothing) {
    static const struct {
        const char *bytes;
        size_t count;
        int kind;
    } good[] = {{"I12\n.", 5, HRI_PICKLE_INT},
                {"F1.5\n.", 6, HRI_PICKLE_FLOAT},
                {"\x80\x04N.", 4, HRI_PICKLE_NONE},
                {"\x80\x02}q\x00X\x01\x00\x00\x00kq\x01K\x05s.", 17, HRI_PICKLE_DICT},
                {"\x80\x02(K\x01K\x02t.", 9, HRI_PICKLE_LIST},
                {"\x80\x02\x8a\x09\x00\x00\x00\x00\x00\x00\x00\x00\x01.", 14, HRI_PICKLE_OPAQUE}};
    static const char *const bad[] = {"", ".", "0.", "e.", "\x80\x02h\x05.", "\x80\x02\xff."};
    hri_pickle p = {0};
    hri_prose why = {0};
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
        CHECK_OK(hri_pickle_read(good[i].bytes, good[i].count, &p, &why));
        CHECK_EQ(p.root.kind, good[i].kind);
        CHECK(!p.truncated);
        hri_pickle_deinit(&p);
    }
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        CHECK_STATUS(hri_pickle_read(bad[i], strlen(bad[i]), &p, &why), HR_E_FORMAT);
    }
    CHECK_OK(hri_pickle_read("\x80\x02}X\x01\x00\x00\x00kJ\xff\xff\xff\xffs.", 16, &p, &why));
    CHECK_EQ(hri_pickle_get(&p, &p.root, "k")->as.integer, -1);
    CHECK_EQ(hri_pickle_u64(hri_pickle_get(&p, &p.root, "k")), 0);
    CHECK(!hri_pickle_get(&p, &p.root, "other"));
    hri_pickle_deinit(&p);
}

TEST(import, a_buffer_assignment_has_values_with_lifetimes) {
    hri_recording r = opened("xla/small.txt");
    CHECK_STR(r.head.source, "xla");
    CHECK(!r.truncated);
    CHECK_EQ(r.tables[HRI_SEE_OPS].count, 5);
    CHECK_EQ(r.tables[HRI_SEE_BUFFERS].count, 5); /* what is of one thread is not in the total */
    CHECK_EQ(r.head.peak_bytes, 4096 + 128 + 8192);
    const hri_see_buffer *dot = named(&r, "dot.2"), *part = named(&r, "fusion.3{0}"),
                         *arg = named(&r, "Arg_0.1");
    CHECK(dot && part && arg);
    CHECK(dot->birth == 1 && dot->death == 3 && dot->offset == 4096 + 128);
    CHECK(part->birth == 2 && part->death == 5 && part->offset == 4096 + 128 + 4096);
    CHECK(arg->category == HRI_SEE_PARAMETERS && dot->category == HRI_SEE_ACTIVATIONS);
    CHECK_STR(hri_recording_get_text(&r, dot->shape), "f32[32,32]{1,0}");
    const hri_see_part *parts = hri_recording_parts(&r);
    CHECK_EQ(parts[0].planned_bytes + parts[1].planned_bytes, r.head.peak_bytes);
    hri_recording_deinit(&r);
    r = opened("xla/cut.txt");
    CHECK(r.truncated);
    hri_recording_deinit(&r);
}

TEST(import, live_ranges_beside_a_buffer_assignment_are_found) {
    char *text, path[2][600];
    hri_recording r = {0};
    hri_prose why = {0};
    size_t count;
    CHECK_OK(hri_file_read(corpus("xla/small.txt"), 1 << 20, &text, &count, &why));
    char *ranges = strstr(text, "HloLiveRange");
    CHECK(ranges);
    snprintf(path[0], sizeof path[0], "%s/m.buffer-assignment.txt", test_folder());
    snprintf(path[1], sizeof path[1], "%s/m.live-range.txt", test_folder());
    CHECK_OK(hri_file_write(path[0], text, (size_t)(ranges - text), &why));
    CHECK_OK(hri_see_open(path[0], &r, &why));
    CHECK(strstr(r.head.note, "without lifetimes"));
    hri_recording_deinit(&r);
    CHECK_OK(hri_file_write(path[1], ranges, count - (size_t)(ranges - text), &why));
    CHECK_OK(hri_see_open(path[0], &r, &why));
    CHECK_EQ(r.tables[HRI_SEE_OPS].count, 5);
    CHECK(named(&r, "dot.2")->death == 3);
    hri_recording_deinit(&r);
    hri_free(text);
}

TEST(see_import, allocations_of_a_program) {
    static const char text[] = "headroom allocations 1\t12\tpy\x1bthon\n"
                               "A\t1000\t12\t0\t7f0000000000\t1048576\tcuMemAlloc_v2\tmy.py:5 "
                               "f;my.py:9 <module>\tmain+0x1f in x\n"
                               "A\t2000\t13\t0\t100000\t64\tcuMemAllocAsync\t\t+0x2 in libc.so.6\n"
                               "Q\tnothing\n"
                               "F\t3000\t12\t0\t7f0000000000\t0\tcuMemFree_v2\n"
                               "A\t4000\t12\t0\t7f0000000000\t256\tcuMemMap\t\t\n"
                               "A\t4000\t12\t0\t7f00000";
    hri_recording r = {0};
    hri_prose why = {0};
    CHECK_OK(hri_allocations_decode(text, sizeof text - 1, &r, &why));
    CHECK(r.truncated);
    CHECK_STR(r.head.model, "py?thon");
    CHECK_EQ(r.tables[HRI_SEE_OPS].count, 4);
    CHECK_EQ(r.tables[HRI_SEE_BUFFERS].count, 3);
    CHECK_EQ(r.head.peak_bytes, 1048576 + 64);
    const hri_see_buffer *b = hri_recording_buffers(&r);
    CHECK_STR(hri_recording_get_text(&r, b[0].name), "my.py:5 f");
    CHECK_STR(hri_recording_get_text(&r, b[0].source),
              "my.py:5 f\nmy.py:9 <module>\nmain+0x1f in x");
    CHECK_EQ(b[0].death, 2);
    CHECK_STR(hri_recording_get_text(&r, b[1].name), "+0x2 in libc.so.6");
    CHECK_STR(hri_recording_get_text(&r, b[2].name), "cuMemMap");
    CHECK_EQ(b[2].birth, 3);
    CHECK(b[0].offset != b[1].offset &&
          r.head.arena_bytes <= 2 * 1048576); /* no desert between them */
    hri_recording_deinit(&r);
    CHECK_STATUS(hri_allocations_decode(text, 30, &r, &why), HR_E_FORMAT);
    CHECK(why.text[0]);
}

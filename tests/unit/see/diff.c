/* Comparing recordings: matched by name, counted by fate, sorted by size, adding up to the peak. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "see/diff.h"
#include "test.h"

typedef struct row {
    const char *name;
    uint64_t offset, bytes;
    uint32_t birth, death;
} row;

static hri_recording make(const row *rows, size_t count, uint64_t peak, double ns) {
    hri_recording r = {.head = {.peak_bytes = peak, .step_ns = 4 * ns}};
    hri_see_part part = {.planned_bytes = peak};
    for (int i = 0; i < 4; i++) {
        hri_see_op op = {.begin_ns = i * ns, .end_ns = (i + 1) * ns};
        CHECK_OK(hri_recording_text(&r, i % 2 ? "a.add" : "b.mul", &op.name));
        CHECK_OK(hri_recording_text(&r, i % 2 ? "a" : "b", &op.layer));
        CHECK_OK(hri_recording_text(&r, i % 2 ? "add" : "mul", &op.kind));
        CHECK_OK(hri_recording_add(&r, HRI_SEE_OPS, &op));
    }
    for (size_t i = 0; i < count; i++) {
        hri_see_buffer b = {.category = HRI_SEE_ACTIVATIONS,
                            .offset = rows[i].offset,
                            .bytes = rows[i].bytes,
                            .birth = rows[i].birth,
                            .death = rows[i].death};
        CHECK_OK(hri_recording_text(&r, rows[i].name, &b.name));
        CHECK_OK(hri_recording_add(&r, HRI_SEE_BUFFERS, &b));
    }
    CHECK_OK(hri_recording_text(&r, "all", &part.name));
    CHECK_OK(hri_recording_add(&r, HRI_SEE_PARTS, &part));
    CHECK_OK(hri_recording_finish(&r));
    return r;
}

TEST(diff, buffers_are_matched_by_name_and_life) {
    const row before[] = {{"kept", 0, 64, 0, 4},   {"twice", 64, 64, 0, 1},
                          {"twice", 64, 64, 2, 3}, {"gone", 128, 32, 1, 2},
                          {"big", 256, 64, 1, 3},  {"small", 320, 64, 1, 3}};
    const row after[] = {{"kept", 0, 64, 0, 4},  {"twice", 64, 64, 0, 1}, {"twice", 96, 64, 2, 3},
                         {"new", 128, 16, 1, 2}, {"big", 256, 640, 1, 3}, {"small", 320, 8, 1, 3}};
    hri_recording a = make(before, 6, 1000, 10), b = make(after, 6, 1500, 10);
    hri_see_diff d = {0};
    CHECK_OK(hri_see_diff_open(&a, &b, &d));
    CHECK_EQ(d.counts[HRI_SEE_SAME], 2);
    CHECK_EQ(d.counts[HRI_SEE_MOVED], 1);
    CHECK_EQ(d.counts[HRI_SEE_GREW], 1);
    CHECK_EQ(d.counts[HRI_SEE_SHRANK], 1);
    CHECK_EQ(d.counts[HRI_SEE_NEW], 1);
    CHECK_EQ(d.counts[HRI_SEE_GONE], 1);
    CHECK_EQ(d.buffers.count, 5);
    CHECK_EQ(d.buffers.items[0].fate, HRI_SEE_GREW); /* the largest change first */
    CHECK_EQ(d.buffers.items[4].fate, HRI_SEE_MOVED);
    CHECK_EQ(d.parts.count, 1);
    CHECK(d.parts.items[0].before == 1000 && d.parts.items[0].after == 1500);
    CHECK(d.step.before == 40 && d.step.after == 40);
    hri_see_diff_close(&d);
    hri_recording_deinit(&a);
    hri_recording_deinit(&b);
}

TEST(diff, growth_over_a_limit_is_of_the_peak_or_of_the_time) {
    const row rows[] = {{"x", 0, 64, 0, 4}};
    hri_recording a = make(rows, 1, 1000, 10), larger = make(rows, 1, 1049, 10),
                  slower = make(rows, 1, 1000, 10.6);
    hri_see_diff d = {0};
    CHECK_OK(hri_see_diff_open(&a, &larger, &d));
    CHECK(!hri_see_diff_over(&d, .05) && hri_see_diff_over(&d, .04));
    hri_see_diff_close(&d);
    CHECK_OK(hri_see_diff_open(&a, &slower, &d));
    CHECK(hri_see_diff_over(&d, .05) && !hri_see_diff_over(&d, .07));
    hri_see_diff_close(&d);
    CHECK_OK(hri_see_diff_open(&slower, &a, &d)); /* what shrank is no failure */
    CHECK(!hri_see_diff_over(&d, 0));
    hri_see_diff_close(&d);
    larger.head.measured_peak_bytes = 2000; /* what was measured counts */
    CHECK_OK(hri_see_diff_open(&a, &larger, &d));
    CHECK(hri_see_diff_over(&d, .9));
    hri_see_diff_close(&d);
    hri_recording_deinit(&a);
    hri_recording_deinit(&larger);
    hri_recording_deinit(&slower);
}

TEST(diff, shares_are_percentages) {
    static const char *const wrong[] = {"",    "5",    "5 %",  "-1%",  "%",
                                        "5%%", "nan%", "inf%", "1e9%", "x%"};
    double share = 7;
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        CHECK_STATUS(hri_see_share_parse(wrong[i], &share), HR_E_INVALID);
        CHECK(share == 7);
    }
    CHECK_OK(hri_see_share_parse("2.5%", &share));
    CHECK(fabs(share - .025) < 1e-12);
    CHECK_OK(hri_see_share_parse("0%", &share));
    CHECK(share == 0);
}

/* What headroom top shows: order, past, bars. */
#include <string.h>

#include "govern/view.h"
#include "test.h"

static hri_wire row(uint32_t kind, uint64_t job, const char *name, uint64_t held,
                    uint64_t wait_ms) {
    hri_wire w = hri_wire_make(HRI_VERB_LIST);
    w.flags = kind;
    w.job = job;
    w.held_bytes = held;
    w.limit_bytes = 100;
    w.wait_ms = wait_ms;
    w.total_bytes = 200;
    w.free_bytes = 50;
    hri_wire_name(&w, name);
    return w;
}

TEST(view, processes_stay_behind_their_job_in_every_order) {
    const hri_wire rows[] = {row(HRI_WIRE_ROW_JOB, 1, "bee", 10, 500),
                             row(HRI_WIRE_ROW_JOB, 2, "ant", 90, 100),
                             row(HRI_WIRE_ROW_JOB | HRI_WIRE_WAITING, 3, "cat", 0, 50),
                             row(HRI_WIRE_ROW_PROCESS, 1, "bee", 10, 0),
                             row(HRI_WIRE_ROW_PROCESS, 2, "ant", 90, 0),
                             row(HRI_WIRE_ROW_DEVICE, 0, "", 0, 0)};
    static const uint64_t expected[HRI_VIEW_ORDERS][6] = {{0, 1, 1, 2, 2, 3},
                                                          {0, 2, 2, 1, 1, 3},
                                                          {0, 1, 1, 2, 2, 3},
                                                          {0, 2, 2, 1, 1, 3},
                                                          {0, 3, 1, 1, 2, 2}};
    hri_watch_view v = {0};
    for (int order = 0; order < HRI_VIEW_ORDERS; order++) {
        v.order = (hri_view_order)order;
        CHECK_OK(hri_view_put(&v, rows, 6));
        CHECK_EQ(v.count, 6);
        for (size_t i = 0; i < 6; i++) {
            CHECK_EQ(v.lines[i].row.job, expected[order][i]);
            if (i > 1 && v.lines[i].row.job == v.lines[i - 1].row.job) {
                CHECK(v.lines[i - 1].row.flags & HRI_WIRE_ROW_JOB);
                CHECK(v.lines[i].row.flags & HRI_WIRE_ROW_PROCESS);
            }
        }
    }
    hri_view_deinit(&v);
}

TEST(view, a_line_keeps_its_past_while_it_is_there) {
    hri_watch_view v = {0};
    char bars[3 * HRI_VIEW_PAST + 1];
    for (uint64_t i = 0; i < HRI_VIEW_PAST + 8; i++) {
        const hri_wire r = row(HRI_WIRE_ROW_JOB, 1, "bee", i, 0);
        CHECK_OK(hri_view_put(&v, &r, 1));
    }
    CHECK_EQ(v.lines[0].past_count, HRI_VIEW_PAST);
    CHECK_EQ(v.lines[0].past[HRI_VIEW_PAST - 1], HRI_VIEW_PAST + 7);
    CHECK_EQ(v.lines[0].past[0], 8);
    hri_view_spark(&v.lines[0], 40, HRI_VIEW_PAST, 1, bars);
    CHECK_EQ(strlen(bars), 3 * HRI_VIEW_PAST);
    hri_view_spark(&v.lines[0], 40, 4, 0, bars);
    CHECK_STR(bars, "##@@");
    hri_view_spark(&v.lines[0], UINT64_MAX, 4, 0, bars);
    CHECK_STR(bars, "....");
    hri_view_spark(&v.lines[0], 0, 4, 0, bars);
    CHECK_STR(bars, "....");
    CHECK_OK(hri_view_put(&v, NULL, 0));
    const hri_wire r = row(HRI_WIRE_ROW_JOB, 2, "ant", 5, 0);
    CHECK_OK(hri_view_put(&v, &r, 1));
    CHECK_EQ(v.lines[0].past_count, 1);
    hri_view_deinit(&v);
}

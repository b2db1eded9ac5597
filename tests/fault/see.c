/* Recordings while every allocation fails once: a status, nothing left behind, and the next try gives the same bytes. */
#include <headroom/headroom.h>

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/fault.h"
#include "base/file.h"
#include "base/hash.h"
#include "pictures.h"
#include "see/diff.h"
#include "see/open.h"
#include "see/outputs.h"
#include "see/overview.h"
#include "see/report.h"
#include "see/summary.h"
#include "see/train.h"
#include "test.h"

static int drop(void *user, const char *bytes, size_t count) {
    (void)user;
    (void)bytes;
    (void)count;
    return 0;
}

static hr_status compare(const hri_recording *r, hri_out *out, const hri_term *term) {
    hri_recording other = {0};
    hri_see_diff d = {0};
    hr_status status = hri_recording_finish(&other);
    if (status == HR_OK) {
        status = hri_see_diff_open(r, &other, &d);
    }
    if (status == HR_OK) {
        status = hri_see_diff_text(&d, 5, out, term);
    }
    hri_see_diff_close(&d);
    hri_recording_deinit(&other);
    return status;
}

static hr_status look(hr_plan *plan, const char *record, const char *page) {
    hri_prose why = {0};
    hri_recording r = {0};
    hri_out out;
    const hri_term term = {.width = 80};
    char trace[600], csv[600];
    snprintf(trace, sizeof trace, "%s.json", page);
    snprintf(csv, sizeof csv, "%s.csv", page);
    const hri_see_outputs to = {.html = page, .record = record, .trace = trace, .csv = csv};
    hri_out_init_sink(&out, drop, NULL);
    hr_status status = hri_see_write_plan(plan, &to, &why);
    if (status == HR_OK) {
        status = hri_see_open(record, &r, &why);
    }
    if (status == HR_OK) {
        status = hri_see_report_text(&r, 5, &out, &term);
    }
    if (status == HR_OK) {
        hri_text overview = {0};
        status = hri_see_overview(&r, &overview);
        hri_text_deinit(&overview);
    }
    if (status == HR_OK) {
        status = compare(&r, &out, &term);
    }
    hri_recording_deinit(&r);
    return status;
}

/* A profile whose run was made up: a few calls, then what is made of them. */
static hr_status look_on(hr_plan *plan, const char *record) {
    hri_prose why = {0};
    hri_recording r = {0};
    hri_see_train *t = NULL;
    hri_see_watch *w = NULL;
    hr_status status = hri_see_train_open(plan, record, "1-2", &t, &why);
    hri_see_train_close(t);
    status = status == HR_OK ? hri_see_watch_open(plan, 1, record, &w, &why) : status;
    if (status == HR_OK) {
        const hri_planned_probe *probe = hri_see_watch_probe(w);
        probe->run(probe->user, HRI_PLANNED_LAST);
        probe->each(probe->user, 0, 8, 100.0, 1);
        probe->touch(probe->user, 0, HRI_TOUCH_KEEP, 0, 64);
        probe->touch(probe->user, 0, HRI_TOUCH_WRITE, 64, 8);
        probe->touch(probe->user, 1, HRI_TOUCH_READ, 64, 8);
        probe->touch(probe->user, 1, HRI_TOUCH_WRITE, 64, 4);
        probe->end(probe->user);
        status = hri_see_watch_finish(w, &r, &why);
        hri_recording_deinit(&r);
    }
    hri_see_watch_close(w);
    return status;
}

static hr_status summarize(void) {
    hri_see_summary s = {0};
    hri_out out;
    hr_error why = {0};
    const hri_term term = {.width = 80};
    hri_out_init_sink(&out, drop, NULL);
    hr_status status = hri_see_summary_open("mlp:size=4,width=8", NULL, 4, &s, &why);
    if (status == HR_OK) {
        status = hri_see_summary_text(&s, &out, &term);
    }
    hri_see_summary_close(&s);
    return status;
}

TEST(see_faults, no_allocation_is_missed) {
    hr_ctx *ctx;
    hr_plan *plan = NULL;
    hr_error why = {0};
    char record[512], page[512];
    const hr_ctx_options co = {.size = sizeof co, .visible_devices = "", .no_cuda = 1};
    const hr_job_options o = {.size = sizeof o,
                              .model = "mlp:size=4,width=8",
                              .batch = 4,
                              .device = "null:1GiB",
                              .effort = 1000,
                              .no_measure = 1};
    snprintf(record, sizeof record, "%s/a.hrp", test_folder());
    snprintf(page, sizeof page, "%s/a.html", test_folder());
    CHECK_OK(hr_ctx_create(&co, &ctx));
    CHECK_OK(hr_job_plan(ctx, &o, &plan, &why));
    CHECK_OK(look(plan, record, page));
    const int64_t live = hri_fault_live_allocs();
    int faults = 0;
    for (uint64_t nth = 1;; nth += 1 + nth / 16) {
        hri_fault_set(HRI_FAULT_ALLOC, nth, 0);
        hr_status status = look(plan, record, page);
        status = status == HR_OK ? look_on(plan, record) : status;
        const uint64_t delivered = hri_fault_delivered();
        hri_fault_set(HRI_FAULT_ALLOC, 0, 0);
        CHECK_EQ(hri_fault_live_allocs(), live);
        if (!delivered) {
            CHECK_OK(status);
            break;
        }
        /* That the folder of a file is synced is worth a try, no failure. */
        CHECK(status == HR_E_NOMEM_HOST || (status == HR_OK));
        faults += status != HR_OK;
    }
    CHECK(faults > 30);
    CHECK_OK(look(plan, record, page));
    hr_plan_destroy(plan);
    hr_ctx_destroy(ctx);
}

TEST(see_faults, a_summary_fails_whole) {
    CHECK_OK(summarize());
    const int64_t live = hri_fault_live_allocs();
    for (uint64_t nth = 1;; nth += 1 + nth / 16) {
        hri_fault_set(HRI_FAULT_ALLOC, nth, 0);
        const hr_status status = summarize();
        const uint64_t delivered = hri_fault_delivered();
        hri_fault_set(HRI_FAULT_ALLOC, 0, 0);
        CHECK_EQ(hri_fault_live_allocs(), live);
        if (!delivered) {
            CHECK_OK(status);
            break;
        }
        CHECK(status != HR_OK);
    }
}

static hr_status import(const char *path) {
    hri_recording r = {0};
    hri_prose why = {0};
    const hr_status status = hri_see_open(path, &r, &why);
    hri_recording_deinit(&r);
    return status;
}

TEST(see_faults, files_of_others_fail_whole) {
    static const char *const names[] = {"torch/small4.pickle", "torch/cut.pickle", "xla/small.txt",
                                        "allocations/small"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        char path[512];
        snprintf(path, sizeof path, "%s/tests/fuzz/corpus/%s", HEADROOM_SOURCE_DIR, names[i]);
        CHECK_OK(import(path));
        const int64_t live = hri_fault_live_allocs();
        for (uint64_t nth = 1;; nth++) {
            hri_fault_set(HRI_FAULT_ALLOC, nth, 0);
            const hr_status status = import(path);
            const uint64_t delivered = hri_fault_delivered();
            hri_fault_set(HRI_FAULT_ALLOC, 0, 0);
            CHECK_EQ(hri_fault_live_allocs(), live);
            if (!delivered) {
                CHECK_OK(status);
                CHECK(nth > 10);
                break;
            }
            CHECK_STATUS(status, HR_E_NOMEM_HOST);
        }
    }
}

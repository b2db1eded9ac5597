/* Values that wait in a file: it has no name, gives back what it was given, says when the disk has no room; and a training
 * that spills has the losses of one that does not, to the bit. */
#include <headroom/headroom.h>

#include <dirent.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/fault.h"
#include "run/spill.h"
#include "test.h"
#include "fit/planned.h"
#include "loop/run.h"

enum { STEPS = 3 };

static char folder[64];

static const char *temporary(void) {
    snprintf(folder, sizeof folder, "/tmp/headroom-spill-test-XXXXXX");
    CHECK(mkdtemp(folder) != NULL);
    return folder;
}

static int entries(const char *path) {
    int count = 0;
    DIR *d = opendir(path);
    CHECK(d != NULL);
    for (struct dirent *e; (e = readdir(d));) {
        count += strcmp(e->d_name, ".") && strcmp(e->d_name, "..");
    }
    closedir(d);
    return count;
}

TEST(spill, a_file_without_a_name_gives_back_what_it_was_given) {
    hri_spill *s;
    hri_prose why = {{0}};
    char in[5000], out[5000] = {0};
    memset(in, 7, sizeof in);
    CHECK_OK(hri_spill_open(temporary(), &s, &why));
    CHECK_EQ(entries(folder), 0);
    CHECK_OK(hri_spill_take(s, 20000, &why));
    CHECK_OK(hri_spill_write(s, 10001, in, sizeof in));
    CHECK_OK(hri_spill_read(s, 10001, out, sizeof out));
    CHECK(!memcmp(in, out, sizeof in));
    CHECK_STATUS(hri_spill_read(s, 19000, out, 5000), HR_E_IO); /* beyond its end */
    hri_spill_close(s);
    CHECK_EQ(rmdir(folder), 0);
}

TEST(spill, a_disk_without_room_is_told_before_anything_runs) {
    hri_spill *s;
    hri_prose why = {{0}};
    const struct rlimit small = {1 << 20, 1 << 20};
    signal(SIGXFSZ, SIG_IGN);
    CHECK_EQ(setrlimit(RLIMIT_FSIZE, &small), 0);
    CHECK_OK(hri_spill_open(temporary(), &s, &why));
    CHECK_STATUS(hri_spill_take(s, 2 << 20, &why), HR_E_IO);
    CHECK(strstr(why.text, folder) && strstr(why.text, "2 MiB could not be allocated"));
    hri_spill_close(s);
    rmdir(folder);
}

TEST(spill, a_folder_that_is_not_there_is_named) {
    hri_spill *s = NULL;
    hri_prose why = {{0}};
    CHECK_STATUS(hri_spill_open("/tmp/headroom-no-such-folder", &s, &why), HR_E_NOT_FOUND);
    CHECK(s == NULL && strstr(why.text, "/tmp/headroom-no-such-folder"));
}

/* ---- a training ---- */

typedef struct rig {
    hr_model *model;
    hr_ctx *ctx;
    hr_device *host;
    hri_fit_job job;
} rig;

static rig rig_open(void) {
    rig r = {0};
    CHECK_OK(hr_model_open("resnet18:size=64,width=8,classes=10", &r.model, NULL));
    r.job = (hri_fit_job){.build = hr_model_build,
                          .user = r.model,
                          .batch = 8,
                          .parts = 1,
                          .effort = 300000,
                          .machine = {.flops_per_ns = 64,
                                      .bytes_per_ns = 16,
                                      .out_bytes_per_ns = 100,
                                      .in_bytes_per_ns = 100,
                                      .copies_block = 1},
                          .spill = temporary()};
    r.job.options.size = sizeof r.job.options;
    CHECK_OK(hr_train_options_parse("rate=0.01", &r.job.options, NULL));
    const hr_ctx_options o = {.size = sizeof o, .visible_devices = "", .no_cuda = 1};
    CHECK_OK(hr_ctx_create(&o, &r.ctx));
    CHECK_OK(hr_device_find(r.ctx, "host", &r.host));
    return r;
}

static void rig_close(rig *r) {
    hr_ctx_destroy(r->ctx);
    hr_model_close(r->model);
    CHECK_EQ(rmdir(folder), 0);
}

typedef struct waiting {
    uint64_t copied_bytes;
    uint64_t most_bytes[2]; /* of the first two memories, by any of the plans */
} waiting;

static hri_planned *set_up(rig *r, hri_fit *f, waiting *w) {
    hri_fit_plans plans;
    hri_planned *p = NULL;
    hri_prose why = {{0}};
    CHECK_OK(hri_fit_open(&r->job, f, &why));
    CHECK_OK(hri_fit_search(f, f->unplanned_bytes / 10 * 8, 1, &plans, &why));
    const hri_planned_options o = {
        .device = r->host, .plans = &plans, .job = &r->job, .seed = 7, .limit = 10};
    CHECK_OK(hri_planned_open(&o, &p, &why));
    w->copied_bytes = plans.copied_bytes;
    for (int m = 0; m < 2; m++) {
        w->most_bytes[m] = plans.plans[0]->memory_bytes[m];
    }
    hri_fit_plans_deinit(&plans);
    CHECK_OK(hri_planned_take(p, &why));
    return p;
}

/* STEPS steps give the losses of plain training. */
static void check_losses(rig *r, hri_planned *p) {
    const hri_interp_job plain = {.options = r->job.options,
                                  .build = r->job.build,
                                  .user = r->job.user,
                                  .batch = r->job.batch,
                                  .steps = STEPS,
                                  .seed = 7,
                                  .limit = 10};
    float want[STEPS], is[STEPS];
    hr_error error = {0};
    hri_prose why = {{0}};
    CHECK_OK(hri_train_run(&plain, want, &error));
    for (int s = 0; s < STEPS; s++) {
        hri_numbers n;
        CHECK_OK(hri_planned_step(p, &n, &why));
        is[s] = n.loss;
    }
    CHECK(!memcmp(want, is, sizeof is));
}

TEST_TIMEOUT(spill, a_training_that_spills_loses_nothing, 120) {
    rig r = rig_open();
    hri_fit f;
    waiting w;
    hri_planned *p = set_up(&r, &f, &w);
    CHECK(w.copied_bytes > 100000);
    check_losses(&r, p);
    hri_planned_close(p);
    hri_fit_close(&f);
    rig_close(&r);
}

TEST_TIMEOUT(spill, values_wait_in_a_file_and_in_a_memory_behind_it, 120) {
    const hri_problem_memory more = {.name = "host",
                                     .out_bytes_per_ns = 50,
                                     .in_bytes_per_ns = 50,
                                     .out_queue = 2,
                                     .in_queue = 3};
    rig r = rig_open();
    hri_fit f;
    waiting w;
    r.job.machine.other_capacity_bytes = 100000;
    r.job.machine.more = &more;
    r.job.machine.more_count = 1;
    hri_planned *p = set_up(&r, &f, &w);
    CHECK(w.most_bytes[0] > 0 && w.most_bytes[0] <= 100000);
    CHECK(w.most_bytes[1] > 0);
    check_losses(&r, p);
    hri_planned_close(p);
    hri_fit_close(&f);
    rig_close(&r);
}

#ifdef HEADROOM_FAULTS
TEST_TIMEOUT(spill, a_disk_that_fails_in_a_step_is_a_status, 120) {
    rig r = rig_open();
    hri_fit f;
    waiting w;
    hri_planned *p = set_up(&r, &f, &w);
    for (int write = 0; write < 2; write++) {
        hri_numbers n = {.loss = 5};
        hri_prose why = {{0}};
        hri_fault_set(write ? HRI_FAULT_WRITE : HRI_FAULT_READ, 2, 0);
        CHECK_STATUS(hri_planned_step(p, &n, &why), HR_E_IO);
        CHECK_EQ(hri_fault_delivered(), 1);
        hri_fault_set(HRI_FAULT_ANY, 0, 0);
        CHECK(n.loss == 5 && strstr(why.text, "reading or writing failed"));
        CHECK_OK(hri_planned_step(p, &n, &why));
    }
    hri_planned_close(p);
    hri_fit_close(&f);
    rig_close(&r);
}
#endif

/* The trainer when the outside refuses: whatever fails, the checkpoint on disk is a whole one at every moment, nothing is
 * left behind, and a training that goes on afterwards has the history of one that nothing happened to. */
#include <headroom/headroom.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/fault.h"
#include "pictures.h"
#include "test.h"
#include "step/objective.h"
#include "loop/trainer.h"

enum { STEPS = 6, BATCH = 4 };

typedef struct rig {
    hr_ctx *ctx;
    hr_device *host;
    hr_model *model;
    hri_model_input want;
    hri_source source;
    hri_objective objective;
    hri_fit_job job;
    char text[HRI_SOURCE_TEXT + 512], stages[512];
} rig;

static void rig_open(rig *r) {
    *r = (rig){0};
    hri_prose why = {""};
    const hr_ctx_options o = {.size = sizeof o, .visible_devices = "", .no_cuda = 1};
    CHECK_OK(hr_ctx_create(&o, &r->ctx));
    CHECK_OK(hr_device_find(r->ctx, "host", &r->host));
    CHECK_OK(hr_model_open("mlp:size=4,channels=3,width=8,layers=1,classes=3", &r->model, NULL));
    CHECK_OK(hri_model_input_of(r->model, &r->want, &why));
    CHECK_OK(hri_source_look("synthetic:13", &r->want, &r->source, &why));
    const hri_source_use use = {.training = 1, .seed = 5};
    CHECK_OK(hri_source_pipeline(&r->source, &r->want, &use, r->text, sizeof r->text, &why));
    CHECK_OK(hri_source_stages(&r->source, &r->want, NULL, r->stages, sizeof r->stages, &why));
    r->objective = (hri_objective){.build = hr_model_build, .user = r->model, .smoothing = 0.1};
    r->job = (hri_fit_job){.build = hri_objective_build,
                           .user = &r->objective,
                           .batch = BATCH,
                           .parts = 1,
                           .evaluate = 1,
                           .effort = 20000};
    r->job.options.size = sizeof r->job.options;
    CHECK_OK(hr_train_options_parse("optimizer=adam", &r->job.options, NULL));
}

static void rig_close(rig *r) {
    hri_source_deinit(&r->source);
    hr_model_close(r->model);
    hr_ctx_destroy(r->ctx);
}

/* Everything that one training holds. */
typedef struct work {
    hri_fit fit;
    hri_fit_plans plans;
    hri_planned *planned;
    hri_supply *train, *validation;
    hri_feeds feeds;
    hri_trainer *trainer;
    hri_checkpoint resume;
} work;

static hr_status open_planned(rig *r, work *w, hri_prose *why) {
    hr_status status = hri_fit_open(&r->job, &w->fit, why);
    if (status == HR_OK) {
        status = hri_fit_search(&w->fit, 0, 1, &w->plans, why);
    }
    const hri_planned_options o = {.device = r->host,
                                   .plans = &w->plans,
                                   .job = &r->job,
                                   .seed = 5,
                                   .feed = hri_feeds_feed,
                                   .feed_user = &w->feeds};
    if (status == HR_OK) {
        status = hri_planned_open(&o, &w->planned, why);
    }
    return status == HR_OK ? hri_planned_take(w->planned, why) : status;
}

static hr_status open_all(rig *r, work *w, const char *folder, hri_prose *why) {
    const hri_about about = {.model = hr_model_text(r->model),
                             .precision = "f32",
                             .source = r->source.text,
                             .input = "image"};
    const hri_supply_options s = {
        .pipeline = r->text,
        .source = &r->source,
        .want = &r->want,
        .pipeline_options = {
            .size = sizeof(hr_pipeline_options), .budget_bytes = 4 << 20, .seed = 5, .workers = 1}};
    static hri_about kept; /* outlives the trainer */
    kept = about;
    hr_status status = open_planned(r, w, why);
    if (status == HR_OK) {
        status = hri_supply_open(&s, &w->train, why);
    }
    if (status == HR_OK) {
        status = hri_supply_open(&s, &w->validation, why);
    }
    w->feeds = (hri_feeds){.train = w->train, .validation = w->validation};
    char path[256];
    snprintf(path, sizeof path, "%s/%s", folder, HRI_CHECKPOINT_LAST);
    if (status == HR_OK && access(path, F_OK) == 0) {
        status = hri_checkpoint_open(path, &w->resume, why);
    }
    const hri_trainer_options o = {.planned = w->planned,
                                   .feeds = &w->feeds,
                                   .about = &kept,
                                   .steps = STEPS,
                                   .steps_per_epoch = 3,
                                   .save_every = 2,
                                   .folder = folder,
                                   .resume = w->resume.path ? &w->resume : NULL,
                                   .begin = {.batch = BATCH, .seed = 5, .parts = 1}};
    return status == HR_OK ? hri_trainer_open(&o, &w->trainer, why) : status;
}

static hr_status train(rig *r, const char *folder, uint64_t *digest, hri_prose *why) {
    work w = {.resume = {.file = {.fd = -1}}};
    hr_status status = open_all(r, &w, folder, why);
    while (status == HR_OK && !hri_trainer_over(w.trainer)) {
        status = hri_trainer_step(w.trainer, why);
    }
    if (status == HR_OK) {
        *digest = hri_trainer_progress(w.trainer)->digest;
        CHECK_EQ(hri_trainer_progress(w.trainer)->state.step, STEPS);
    }
    hri_trainer_close(w.trainer);
    hri_checkpoint_close(&w.resume);
    hri_supply_close(w.train);
    hri_supply_close(w.validation);
    hri_planned_close(w.planned);
    hri_fit_plans_deinit(&w.plans);
    hri_fit_close(&w.fit);
    return status;
}

static void check_files(const char *folder) {
    static const char *const names[] = {HRI_CHECKPOINT_LAST, HRI_CHECKPOINT_BEST};
    for (size_t i = 0; i < 2; i++) {
        char path[256];
        hri_checkpoint c;
        hri_prose why = {""};
        snprintf(path, sizeof path, "%s/%s", folder, names[i]);
        if (access(path, F_OK) == 0) {
            CHECK_STATUS(hri_checkpoint_open(path, &c, &why), HR_OK);
            hri_checkpoint_close(&c);
        }
    }
}

static void empty(const char *folder) {
    char path[256];
    snprintf(path, sizeof path, "%s/%s", folder, HRI_CHECKPOINT_LAST);
    unlink(path);
    snprintf(path, sizeof path, "%s/%s", folder, HRI_CHECKPOINT_BEST);
    unlink(path);
}

/* Every call of a kind fails in turn; behind each, a training that goes on must end with `want`. */
static void sweep(int kind, int for_ever, uint64_t stride) {
    rig r;
    hri_prose why = {""};
    char folder[200];
    uint64_t want = 0, is = 0, delivered = 1, nth = 0, failures = 0, survived = 0;
    rig_open(&r);
    snprintf(folder, sizeof folder, "%s", test_folder());
    CHECK_OK(train(&r, folder, &want, &why));
    empty(folder);
    const int64_t live = hri_fault_live_allocs();
    while (delivered) {
        hri_fault_set(kind, nth += stride, for_ever);
        const hr_status status = train(&r, folder, &is, &why);
        delivered = hri_fault_delivered();
        hri_fault_set(kind, 0, 0);
        CHECK_EQ(hri_fault_live_allocs(), live);
        if (status == HR_OK) {
            CHECK_EQ(is, want); /* what was refused was not needed, or was tried again */
            survived += delivered > 0;
        } else {
            CHECK(why.text[0]);
            failures++;
        }
        check_files(folder);
        CHECK_OK(train(&r, folder, &is, &why)); /* goes on from whatever was saved */
        CHECK_EQ(is, want);
        empty(folder);
    }
    printf("    %llu trainings failed, %llu went on all the same\n", (unsigned long long)failures,
           (unsigned long long)survived);
    CHECK(failures > 0);
    rig_close(&r);
}

TEST_TIMEOUT(trainer, a_refused_write_never_costs_a_checkpoint, 120) {
    sweep(HRI_FAULT_WRITE, 0, 1);
}

TEST_TIMEOUT(trainer, a_disk_that_stays_full_never_costs_a_checkpoint, 120) {
    sweep(HRI_FAULT_WRITE, 1, 1);
}

TEST_TIMEOUT(trainer, a_refused_allocation_leaves_nothing_behind, 200) {
    sweep(HRI_FAULT_ALLOC, 0, 7);
}

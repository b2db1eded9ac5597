/* The trainer: how many steps, epochs, validations and checkpoints a training has, when it ends, and what it says. */
#include "loop/trainer.h"

#include <headroom/headroom.h>

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "pictures.h"
#include "test.h"
#include "step/objective.h"

enum { BATCH = 4, EPOCH = 3, SEEN = 64 };

/* What was told, in order: 's' a step, 'v' a validation, 'e' an epoch, 'E' an epoch that was validated. */
typedef struct told {
    char order[SEEN];
    size_t count;
    hri_record_step step;
    hri_record_validation validation;
    hri_record_epoch epoch;
    double loss_sum; /* of the epoch's steps */
    char warning[400];
} told;

typedef struct rig {
    hr_ctx *ctx;
    hr_model *model;
    hri_model_input want;
    hri_source source;
    hri_objective objective;
    hri_fit_job job;
    hri_fit fit;
    hri_fit_plans plans;
    hri_planned *planned;
    hri_supply *train, *validation;
    hri_feeds feeds;
    hri_trainer *trainer;
    hri_checkpoint resume;
    hri_about about;
    told told;
} rig;

static void tell(told *t, char what) {
    CHECK(t->count + 1 < SEEN);
    t->order[t->count++] = what;
}

static void on_step(void *user, const hri_record_step *s) {
    told *t = user;
    CHECK_EQ(s->step, t->step.step + 1);
    t->step = *s;
    t->loss_sum += s->loss;
    tell(t, 's');
}

static void on_validation(void *user, const hri_record_validation *v) {
    told *t = user;
    t->validation = *v;
    tell(t, 'v');
}

static void on_epoch(void *user, const hri_record_epoch *e, const hri_record_validation *v) {
    told *t = user;
    CHECK_EQ(e->epoch, t->epoch.epoch + 1);
    CHECK(fabs(e->loss - t->loss_sum / EPOCH) < 1e-6);
    t->loss_sum = 0;
    t->epoch = *e;
    tell(t, v ? 'E' : 'e');
}

static void on_log(void *user, hr_log_level level, const char *line) {
    told *t = user;
    CHECK(level == HR_LOG_WARN);
    snprintf(t->warning, sizeof t->warning, "%s", line);
}

static void open_supply(rig *r, int training, hri_supply **out) {
    char text[HRI_SOURCE_TEXT + 512];
    hri_prose why = {""};
    const hri_source_use use = {.training = training, .seed = 5};
    CHECK_OK(hri_source_pipeline(&r->source, &r->want, &use, text, sizeof text, &why));
    const hri_supply_options o = {
        .pipeline = text,
        .source = &r->source,
        .want = &r->want,
        .pipeline_options = {
            .size = sizeof(hr_pipeline_options), .budget_bytes = 4 << 20, .seed = 5, .workers = 1}};
    CHECK_OK(hri_supply_open(&o, out, &why));
}

static void rig_open(rig *r, const char *options) {
    *r = (rig){.resume = {.file = {.fd = -1}}};
    hri_prose why = {""};
    hr_device *host;
    const hr_ctx_options o = {.size = sizeof o, .visible_devices = "", .no_cuda = 1};
    CHECK_OK(hr_ctx_create(&o, &r->ctx));
    CHECK_OK(hr_device_find(r->ctx, "host", &host));
    CHECK_OK(hr_model_open("mlp:size=4,channels=3,width=8,layers=1,classes=3", &r->model, NULL));
    CHECK_OK(hri_model_input_of(r->model, &r->want, &why));
    CHECK_OK(hri_source_look("synthetic:13", &r->want, &r->source, &why));
    r->objective = (hri_objective){.build = hr_model_build, .user = r->model};
    r->job = (hri_fit_job){.build = hri_objective_build,
                           .user = &r->objective,
                           .batch = BATCH,
                           .parts = 1,
                           .evaluate = 1,
                           .effort = 20000};
    r->job.options.size = sizeof r->job.options;
    CHECK_OK(hr_train_options_parse(options, &r->job.options, NULL));
    CHECK_OK(hri_fit_open(&r->job, &r->fit, &why));
    CHECK_OK(hri_fit_search(&r->fit, 0, 1, &r->plans, &why));
    const hri_planned_options po = {.device = host,
                                    .plans = &r->plans,
                                    .job = &r->job,
                                    .seed = 5,
                                    .feed = hri_feeds_feed,
                                    .feed_user = &r->feeds};
    CHECK_OK(hri_planned_open(&po, &r->planned, &why));
    CHECK_OK(hri_planned_take(r->planned, &why));
    open_supply(r, 1, &r->train);
    open_supply(r, 0, &r->validation);
    r->feeds = (hri_feeds){.train = r->train, .validation = r->validation};
    r->about = (hri_about){.model = hr_model_text(r->model),
                           .precision = "f32",
                           .source = r->source.text,
                           .input = "image"};
}

static void rig_close(rig *r) {
    hri_trainer_close(r->trainer);
    hri_checkpoint_close(&r->resume);
    hri_supply_close(r->train);
    hri_supply_close(r->validation);
    hri_planned_close(r->planned);
    hri_fit_plans_deinit(&r->plans);
    hri_fit_close(&r->fit);
    hri_source_deinit(&r->source);
    hr_model_close(r->model);
    hr_ctx_destroy(r->ctx);
}

static hri_trainer_options options_of(rig *r) {
    return (hri_trainer_options){.planned = r->planned,
                                 .feeds = &r->feeds,
                                 .about = &r->about,
                                 .steps_per_epoch = EPOCH,
                                 .begin = {.batch = BATCH, .seed = 5, .parts = 1},
                                 .log = on_log,
                                 .log_user = &r->told,
                                 .on_step = on_step,
                                 .on_validation = on_validation,
                                 .on_epoch = on_epoch,
                                 .user = &r->told};
}

static hr_status open_trainer(rig *r, const hri_trainer_options *o) {
    hri_prose why = {""};
    const hr_status status = hri_trainer_open(o, &r->trainer, &why);
    CHECK(status == HR_OK || why.text[0]);
    return status;
}

static void run_steps(rig *r, int most) {
    hri_prose why = {""};
    for (int i = 0; i < most && !hri_trainer_over(r->trainer); i++) {
        CHECK_OK(hri_trainer_step(r->trainer, &why));
    }
}

static void check_told(const rig *r, const char *order, hri_trainer_end end) {
    CHECK_STR(r->told.order, order);
    CHECK_EQ(hri_trainer_over(r->trainer), end);
}

static void run_to_end(rig *r, const hri_trainer_options *o, const char *order,
                       hri_trainer_end end) {
    CHECK_OK(open_trainer(r, o));
    run_steps(r, 100);
    check_told(r, order, end);
}

/* ---- how long ---- */

TEST(trainer, epochs_have_their_steps_and_a_validation_each) {
    rig r;
    rig_open(&r, "");
    hri_trainer_options o = options_of(&r);
    o.epochs = 2;
    run_to_end(&r, &o, "sssvEsssvE", HRI_TRAINER_DONE);
    hri_trainer_sums sums;
    hri_trainer_get_sums(r.trainer, &sums);
    CHECK(sums.steps == 6 && sums.samples == 24 && sums.saves == 0 && sums.epoch.epoch == 2);
    CHECK(sums.validation.samples == 13 && sums.validation.step == 6);
    CHECK(r.told.validation.loss > 0 && r.told.validation.accuracy >= 0);
    CHECK(r.told.epoch.samples == 12 && r.told.step.step == 6);
    rig_close(&r);
}

TEST(trainer, without_validation_there_is_none) {
    rig r;
    rig_open(&r, "");
    r.feeds.validation = NULL;
    hri_trainer_options o = options_of(&r);
    o.epochs = 2;
    run_to_end(&r, &o, "sssessse", HRI_TRAINER_DONE);
    rig_close(&r);
}

TEST(trainer, steps_end_a_training_in_the_middle_of_an_epoch_with_a_validation) {
    rig r;
    rig_open(&r, "");
    hri_trainer_options o = options_of(&r);
    o.steps = 4;
    o.epochs = 9;
    run_to_end(&r, &o, "sssvEsv", HRI_TRAINER_DONE);
    hri_prose why = {""};
    CHECK_STATUS(hri_trainer_step(r.trainer, &why), HR_E_BUSY);
    check_told(&r, "sssvEsv", HRI_TRAINER_DONE);
    rig_close(&r);
}

TEST(trainer, validations_come_every_so_many_steps) {
    rig r;
    rig_open(&r, "");
    hri_trainer_options o = options_of(&r);
    o.steps = 6;
    o.validate_every = 2;
    run_to_end(&r, &o, "ssvsesvssvE", HRI_TRAINER_DONE);
    rig_close(&r);
}

TEST(trainer, it_stops_early_when_nothing_gets_better) {
    rig r;
    rig_open(&r, "");
    hri_trainer_options o = options_of(&r);
    o.epochs = 50;
    o.patience = 2;
    o.min_delta = 1e6;
    run_to_end(&r, &o, "sssvEsssvEsssvE", HRI_TRAINER_EARLY);
    CHECK_EQ(hri_trainer_progress(r.trainer)->best_epoch, 1);
    rig_close(&r);
}

/* ---- checkpoints ---- */

static uint64_t step_of(const char *folder, const char *file) {
    char path[300];
    hri_checkpoint c;
    hri_prose why = {""};
    snprintf(path, sizeof path, "%s/%s", folder, file);
    CHECK_OK(hri_checkpoint_open(path, &c, &why));
    const uint64_t step = c.progress.state.step;
    hri_checkpoint_close(&c);
    return step;
}

TEST(trainer, checkpoints_are_written_every_so_many_steps_and_at_the_end) {
    rig r;
    uint64_t step = 0;
    rig_open(&r, "");
    hri_trainer_options o = options_of(&r);
    o.steps = 5;
    o.steps_per_epoch = 100;
    o.save_every = 2;
    o.folder = test_folder();
    CHECK_OK(open_trainer(&r, &o));
    CHECK_STR(hri_trainer_saved(r.trainer, NULL), "");
    static const uint64_t saved[] = {0, 2, 2, 4, 5};
    for (int i = 0; i < 5; i++) {
        run_steps(&r, 1);
        (void)hri_trainer_saved(r.trainer, &step);
        CHECK_EQ(step, saved[i]);
        CHECK(step == 0 || step_of(o.folder, HRI_CHECKPOINT_LAST) == step);
    }
    CHECK_EQ(hri_trainer_over(r.trainer), HRI_TRAINER_DONE);
    CHECK(!hri_trainer_save_failed(r.trainer));
    rig_close(&r);
}

static uint64_t digest_of(int interrupt) {
    uint64_t digest = 0;
    for (int part = 0; part < 2; part++) {
        rig r;
        hri_prose why = {""};
        rig_open(&r, "optimizer=adam");
        hri_trainer_options o = options_of(&r);
        o.steps = 7;
        o.folder = interrupt ? test_folder() : NULL;
        if (interrupt && part) {
            char path[300];
            snprintf(path, sizeof path, "%s/%s", o.folder, HRI_CHECKPOINT_LAST);
            CHECK_OK(hri_checkpoint_open(path, &r.resume, &why));
            r.told.step.step = 2;
            o.resume = &r.resume;
            o.on_epoch = NULL; /* the first one began before */
        }
        CHECK_OK(open_trainer(&r, &o));
        if (interrupt && !part) {
            run_steps(&r, 2);
            CHECK_OK(hri_trainer_stop(r.trainer, &why));
            CHECK_EQ(hri_trainer_over(r.trainer), HRI_TRAINER_INTERRUPTED);
            CHECK_EQ(step_of(o.folder, HRI_CHECKPOINT_LAST), 2);
        } else {
            run_steps(&r, 100);
            CHECK_EQ(hri_trainer_over(r.trainer), HRI_TRAINER_DONE);
            digest = hri_trainer_progress(r.trainer)->digest;
        }
        rig_close(&r);
    }
    return digest;
}

TEST(trainer, an_interrupted_training_goes_on_with_the_same_history) {
    CHECK_EQ(digest_of(1), digest_of(0));
}

/* ---- what goes wrong ---- */

TEST(trainer, a_loss_that_is_not_finite_ends_it_before_anything_is_saved) {
    rig r;
    hri_prose why = {""};
    rig_open(&r, "rate=1e6,decay=1e6");
    hri_trainer_options o = options_of(&r);
    o.steps = 50;
    o.steps_per_epoch = 100;
    o.folder = test_folder();
    CHECK_OK(open_trainer(&r, &o));
    hr_status status = HR_OK;
    while (status == HR_OK && !hri_trainer_over(r.trainer)) {
        status = hri_trainer_step(r.trainer, &why);
    }
    CHECK_STATUS(status, HR_E_RANGE);
    CHECK(strstr(why.text, "loss of step") && strstr(why.text, "no checkpoint was saved"));
    CHECK_EQ(hri_trainer_over(r.trainer), HRI_TRAINER_FAILED);
    CHECK_STATUS(hri_trainer_step(r.trainer, &why), HR_E_BUSY);
    char path[300];
    snprintf(path, sizeof path, "%s/%s", o.folder, HRI_CHECKPOINT_LAST);
    CHECK(access(path, F_OK) != 0);
    rig_close(&r);
}

TEST(trainer, one_folder_has_one_training) {
    rig r, other;
    rig_open(&r, "");
    rig_open(&other, "");
    hri_trainer_options o = options_of(&r), p = options_of(&other);
    o.steps = p.steps = 2;
    o.folder = p.folder = test_folder();
    CHECK_OK(open_trainer(&r, &o));
    CHECK_STATUS(open_trainer(&other, &p), HR_E_BUSY);
    CHECK(other.trainer == NULL);
    rig_close(&other);
    rig_close(&r);
}

TEST(trainer, a_validation_without_labels_is_no_zero) {
    rig r;
    rig_open(&r, "");
    hri_supply_close(r.validation);
    char text[HRI_SOURCE_TEXT + 512];
    hri_prose why = {""};
    const hri_source_use use = {.seed = 5};
    CHECK_OK(hri_source_pipeline(&r.source, &r.want, &use, text, sizeof text, &why));
    const hri_supply_options so = {.pipeline = text,
                                   .source = &r.source,
                                   .want = &r.want,
                                   .no_labels = 1,
                                   .pipeline_options = {.size = sizeof(hr_pipeline_options),
                                                        .budget_bytes = 4 << 20,
                                                        .workers = 1}};
    CHECK_OK(hri_supply_open(&so, &r.validation, &why));
    r.feeds.validation = r.validation;
    hri_trainer_options o = options_of(&r);
    o.epochs = 1;
    CHECK_OK(open_trainer(&r, &o));
    run_steps(&r, 9);
    CHECK(isnan(r.told.validation.loss) &&
          strstr(r.told.warning, "labels of the validation data are ignored"));
    CHECK_EQ(hri_trainer_over(r.trainer), HRI_TRAINER_DONE);
    rig_close(&r);
}

/* The way of batches to a GPU: the next one is there before a step ends, at the end of an epoch too, and a checkpoint in
 * between knows where the data was. */
#include <string.h>

#include "pictures.h"
#include "test.h"
#include "step/objective.h"
#include "loop/trainer.h"
#include "training.h"

enum { BATCH = 4, STEPS = 3, EPOCHS = 3 };

typedef struct feeding {
    training t;
    hri_model_input want;
    hri_source source;
    hri_objective objective;
    hri_feeds feeds;
    hri_trainer *trainer;
    uint64_t steps, told; /* by on_step: how many, and the last */
    char text[HRI_SOURCE_TEXT + 512], stages[512];
    hri_about about;
} feeding;

static void on_step(void *user, const hri_record_step *s) {
    feeding *r = user;
    CHECK_EQ(s->step, r->told + 1); /* each, in order */
    r->told = s->step;
    r->steps++;
}

static hr_status feed(void *feeds, const hri_planned_run *x, hri_prose *why) {
    return hri_feeds_feed(feeds, x, why);
}

static void feeding_start(feeding *r, const char *model, const char *data, hri_trainer_options o) {
    hri_prose why = {""};
    *r = (feeding){0};
    training_open(&r->t, model, "optimizer=sgd", BATCH);
    CHECK_OK(hri_model_input_of(r->t.model, &r->want, &why));
    CHECK_OK(hri_source_look(data, &r->want, &r->source, &why));
    const hri_source_use use = {.training = 1, .seed = 5};
    CHECK_OK(hri_source_pipeline(&r->source, &r->want, &use, r->text, sizeof r->text, &why));
    CHECK_OK(hri_source_stages(&r->source, &r->want, NULL, r->stages, sizeof r->stages, &why));
    r->objective = (hri_objective){.build = hr_model_build, .user = r->t.model};
    hri_source_pixels(&r->source, &r->want, &r->objective.pixels);
    r->t.job.build = hri_objective_build;
    r->t.job.user = &r->objective;
    r->t.feed = feed;
    r->t.feed_user = &r->feeds;
    training_plan(&r->t, 1);
    training_take(&r->t);
    const hri_supply_options supply = {
        .pipeline = r->text,
        .source = &r->source,
        .want = &r->want,
        .pipeline_options = {.size = sizeof(hr_pipeline_options), .budget_bytes = 1 << 20}};
    CHECK_OK(hri_supply_open(&supply, &r->feeds.train, &why));
    r->about = (hri_about){.model = hr_model_text(r->t.model),
                           .precision = "f32",
                           .source = r->source.text,
                           .input = r->want.name};
    o.planned = r->t.planned;
    o.feeds = &r->feeds;
    o.about = &r->about;
    o.begin = (hri_progress_state){.batch = BATCH, .seed = 5, .parts = 1};
    o.on_step = on_step;
    o.user = r;
    CHECK_OK(hri_trainer_open(&o, &r->trainer, &why));
}

static void feeding_end(feeding *r) {
    hri_trainer_close(r->trainer);
    hri_supply_close(r->feeds.train);
    hri_source_deinit(&r->source);
    training_close(&r->t);
}

static uint64_t check_ahead(const char *model, const char *data, hri_trainer_options o,
                            int *staged) {
    static feeding r;
    hri_prose why = {""};
    uint64_t steps = 0;
    const uint64_t wanted = o.epochs * (o.steps_per_epoch ? o.steps_per_epoch : STEPS);
    feeding_start(&r, model, data, o);
    *staged = r.t.plans.stage;
    while (hri_trainer_over(r.trainer) == HRI_TRAINER_RUNS) {
        CHECK_OK(hri_trainer_step(r.trainer, &why));
        steps++;
        if (o.steps_per_epoch && steps < o.epochs * o.steps_per_epoch) {
            CHECK(hri_planned_is_fed(r.t.planned));
        }
    }
    CHECK_EQ(hri_trainer_progress(r.trainer)->state.step, wanted);
    CHECK_EQ(r.told, wanted);
    const uint64_t digest = hri_trainer_progress(r.trainer)->digest;
    feeding_end(&r);
    return digest;
}

/* Of every step but the last. */
TEST_TIMEOUT(feed, the_next_batch_is_there_when_a_step_ends_and_when_an_epoch_does, 240) {
    static const char model[] = "mlp:size=32,channels=3,width=8,layers=1,classes=3";
    const hri_trainer_options plain = {.epochs = EPOCHS, .steps_per_epoch = STEPS};
    const hri_trainer_options saving = {
        .epochs = EPOCHS, .steps_per_epoch = STEPS, .save_every = 2, .folder = test_folder()};
    const hri_trainer_options unknown = {.epochs = EPOCHS};
    int staged;
    const uint64_t counted = check_ahead(model, "synthetic:12", plain, &staged);
    CHECK_EQ(staged, 1);
    CHECK(check_ahead(model, "synthetic:12", saving, &staged) == counted);
    CHECK(check_ahead(model, "synthetic:12 | shuffle(seed=5) | limit(1GiB)", unknown, &staged) ==
          counted);
}

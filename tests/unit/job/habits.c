/* Habits of training, from begin to end: frozen layers, rates of layers, plateaus; parts, budgets and resuming. */
#include <headroom/headroom.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "pictures.h"
#include "test.h"

static const char *in(const char *name) {
    static char paths[4][600];
    static unsigned at;
    char *path = paths[at++ % 4];
    snprintf(path, sizeof paths[0], "%s/%s", test_folder(), name);
    return path;
}

static hr_job_options options(const char *folder) {
    return (hr_job_options){.size = sizeof(hr_job_options),
                            .model = "mlp:size=4,width=16,layers=3,classes=3",
                            .data = "synthetic:count=32",
                            .training =
                                "optimizer=lion,rate=0.01,clip-value=0.02,schedule=onecycle",
                            .passes = "freeze:layers=layers.0;layer-rates:rates=layers.1=0.5",
                            .batch = 8,
                            .micro_batches = 4,
                            .steps = 8,
                            .seed = 3,
                            .threads = 1,
                            .effort = 1000,
                            .no_measure = 1,
                            .cache = "",
                            .folder = folder};
}

static hr_status train(const hr_job_options *o, hr_train_result *r, hr_error *why) {
    const hr_ctx_options co = {.size = sizeof co, .no_cuda = 1};
    hr_ctx *ctx;
    hr_plan *plan = NULL;
    *r = (hr_train_result){.size = sizeof *r};
    CHECK_OK(hr_ctx_create(&co, &ctx));
    hr_status status = hr_job_plan(ctx, o, &plan, why);
    status = status == HR_OK ? hr_job_train(plan, why) : status;
    if (status == HR_OK) {
        CHECK_OK(hr_job_get_result(plan, 0, r));
    }
    hr_plan_destroy(plan);
    hr_ctx_destroy(ctx);
    return status;
}

static hr_train_result trained(const hr_job_options *o) {
    hr_error why = {.code = HR_OK};
    hr_train_result r;
    if (train(o, &r, &why) != HR_OK) {
        test_fail(__FILE__, __LINE__, "%s", why.message);
    }
    return r;
}

TEST(job_habits, resuming_replicas_and_slices_change_no_bit) {
    hr_error why = {.code = HR_OK};
    hr_train_result none;
    hr_job_options o = options(in("whole"));
    const hr_train_result whole = trained(&o);
    o = options(in("again"));
    o.training = "optimizer=lion,rate=0.01,clip-value=0.02,schedule=onecycle,steps=8";
    o.steps = 3;
    (void)trained(&o);
    o.steps = 8;
    o.start = HR_START_RESUME;
    o.passes = "freeze:layers=layers.1";
    CHECK_STATUS(train(&o, &none, &why), HR_E_INVALID);
    CHECK(strstr(why.message, "cannot resume: the run used --freeze layers=layers.0"));
    o.passes = options(NULL).passes;
    o.training = "optimizer=lion,rate=0.01,schedule=onecycle,steps=8";
    CHECK_STATUS(train(&o, &none, &why), HR_E_INVALID);
    CHECK(strstr(why.message, "--clip-value"));
    o.training = "optimizer=lion,rate=0.01,clip-value=0.02,schedule=onecycle,steps=8";
    hr_train_result r = trained(&o);
    CHECK(r.history == whole.history && r.weights == whole.weights);
    static const char *const shards[] = {"none", "states", "weights"};
    for (size_t i = 0; i < 3; i++) {
        o = options(NULL);
        o.replicas = 2;
        o.shard = shards[i];
        r = trained(&o);
        CHECK(r.history == whole.history && r.weights == whole.weights);
    }
}

/* Learning rates of the first and the last step in a log. */
static void read_rates(const char *path, double *first, double *last) {
    char line[2000];
    FILE *f = fopen(path, "r");
    CHECK(f != NULL);
    *first = *last = 0;
    while (f && fgets(line, sizeof line, f)) {
        const char *at = strstr(line, "\"rate\":");
        if (at) {
            *last = strtod(at + 7, NULL);
            *first = *first > 0 ? *first : *last;
        }
    }
    if (f) {
        fclose(f);
    }
}

/* A rate so large that nothing gets better: it halves with every epoch behind the first. */
TEST(job_habits, a_plateau_lowers_the_rate_and_is_in_the_checkpoint) {
    double first, last, again, end;
    hr_job_options o = options(in("plateau"));
    o.training = "optimizer=sgd,rate=8,clip=1,schedule=plateau,every=1,gamma=0.5";
    o.passes = NULL;
    o.steps = 0;
    o.epochs = 6;
    o.val_split = 0.25;
    o.log = in("plateau.log");
    const hr_train_result whole = trained(&o);
    read_rates(o.log, &first, &last);
    CHECK(first == 8.0 && last < 8.0 && last >= 0.25);
    o.folder = in("plateau2");
    o.epochs = 3;
    (void)trained(&o);
    o.epochs = 6;
    o.start = HR_START_RESUME;
    o.log = in("plateau2.log");
    const hr_train_result r = trained(&o);
    CHECK(r.history == whole.history && r.weights == whole.weights);
    read_rates(o.log, &again, &end);
    CHECK(end == last && again <= first);
}

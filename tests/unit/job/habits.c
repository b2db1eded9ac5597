/* Habits of training, from begin to end: frozen layers, rates of layers, plateaus; parts, budgets and resuming. */
#include <headroom/headroom.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "job/find_rate.h"
#include "pictures.h"
#include "show/find_rate.h"
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

static void read_tensor(const char *folder, const char *file, const char *name, float *to,
                        size_t n) {
    char path[700];
    hr_checkpoint *c;
    hr_error why = {.code = HR_OK};
    snprintf(path, sizeof path, "%s/%s", folder, file);
    CHECK_OK(hr_checkpoint_open(path, &c, NULL));
    if (hr_checkpoint_read(c, name, HR_TYPE_F32, 0, to, n, &why) != HR_OK) {
        test_fail(__FILE__, __LINE__, "%s: %s", name, why.message);
    }
    hr_checkpoint_close(c);
}

/* e1 is half of what was there; behind two more steps a quarter of it, a quarter of w2 and half of w3. */
TEST(job_habits, the_average_is_its_formula_and_validation_and_best_weights_are_its_own) {
    enum { N = 16 * 16 };
    static float w[4][N], begin[N], end[N], best[N];
    static const char weight[] = "layers.1.weight", last[] = "last.safetensors";
    hr_job_options o = options(NULL);
    o.passes = "ema:decay=0.5";
    o.val_split = 0.25; /* validated once, behind the last step */
    for (int k = 1; k <= 3; k++) {
        char name[8];
        snprintf(name, sizeof name, "e%d", k);
        o.folder = in(name);
        o.steps = (uint64_t)k;
        o.training = "optimizer=sgd,rate=0.05";
        (void)trained(&o);
        read_tensor(o.folder, last, weight, w[k], N);
        read_tensor(o.folder, last, "optimizer/layers.1.weight.ema", k == 1 ? begin : end, N);
    }
    read_tensor(o.folder, "best.safetensors", weight, best, N);
    size_t moved = 0;
    for (int i = 0; i < N; i++) {
        const float want = 0.25f * begin[i] + 0.25f * w[2][i] + 0.5f * w[3][i];
        CHECK_LE(fabsf(end[i] - want), 1e-6f);
        CHECK(best[i] == end[i]);
        moved += end[i] != w[3][i];
    }
    CHECK(moved > N / 2);
}

TEST(job_habits, averages_are_the_same_after_resuming_and_with_replicas) {
    hr_train_result r;
    hr_error why = {.code = HR_OK};
    hr_job_options o = options(in("ema"));
    o.passes = "freeze:layers=layers.0;ema:decay=0.9";
    o.training = "optimizer=adamw,rate=0.01";
    o.val_split = 0.25;
    const hr_train_result whole = trained(&o);
    o.passes = "freeze:layers=layers.0";
    o.folder = NULL;
    CHECK(trained(&o).val_loss != whole.val_loss);
    o.passes = "freeze:layers=layers.0;ema:decay=0.9";
    o.folder = in("ema2");
    o.steps = 3;
    (void)trained(&o);
    o.steps = 8;
    o.start = HR_START_RESUME;
    r = trained(&o);
    CHECK(r.weights == whole.weights && r.val_loss == whole.val_loss);
    o.start = HR_START_NEW;
    o.folder = NULL;
    o.replicas = 2;
    r = trained(&o);
    CHECK(r.weights == whole.weights && r.val_loss == whole.val_loss);
    o.shard = "states";
    r = trained(&o);
    CHECK(r.weights == whole.weights && r.val_loss == whole.val_loss);
    o.shard = "weights";
    CHECK_STATUS(train(&o, &r, &why), HR_E_UNSUPPORTED);
    CHECK(strstr(why.message, "ema does not work with"));
}

/* A bowl in the logarithm of the rate: falls fastest at 0.001, is least at 0.01. */
TEST(find_rate, the_steepest_descent_before_the_least_is_suggested) {
    enum { N = 600 };
    static double rates[N], losses[N], smooth[N];
    hri_found_rate f = {.rates = rates, .losses = losses, .smooth = smooth, .count = N};
    for (int i = 0; i < N; i++) {
        const double x = -6 + 6.0 * i / N;
        rates[i] = pow(10, x);
        losses[i] = x < -2 ? 2 - tanh(2 * (x + 3)) : 2 - tanh(2.0) + (x + 2);
    }
    hri_found_rate_judge(&f);
    CHECK(f.rate > 3e-4 && f.rate < 5e-3);
    CHECK(f.lowest_rate > 5e-3 && f.lowest_rate < 5e-2);
    for (int i = 0; i < N; i++) {
        losses[i] = 1 + i; /* never better */
    }
    hri_found_rate_judge(&f);
    CHECK(isnan(f.rate) && f.lowest_rate == rates[0]);
}

TEST(find_rate, a_range_test_runs_the_job_and_stops_where_it_diverges) {
    const hr_ctx_options co = {.size = sizeof co, .no_cuda = 1};
    hr_ctx *ctx;
    hr_error why = {.code = HR_OK};
    hri_found_rate f;
    hr_job_options o = options("never");
    o.passes = NULL;
    o.training = "optimizer=sgd";
    o.steps = 40;
    CHECK_OK(hr_ctx_create(&co, &ctx));
    CHECK_OK(hri_job_find_rate(ctx, &o, 1e-5, 1e5, &f, &why));
    CHECK(f.count > 4 && f.count < 40 && f.diverged);
    CHECK(f.rates[0] == 1e-5 && f.rates[1] > f.rates[0]);
    char *svg = NULL;
    CHECK_OK(hri_show_rates_svg(&f, "a <model>", &svg));
    CHECK(strstr(svg, "a &lt;model&gt;: learning-rate range test") && strstr(svg, "lowest: "));
    hri_free(svg);
    hri_found_rate_deinit(&f);
    CHECK_STATUS(hri_job_find_rate(ctx, &o, 1, 0.1, &f, &why), HR_E_INVALID);
    CHECK(strstr(why.message, "not from 1 to 0.1"));
    o.data = NULL;
    CHECK_STATUS(hri_job_find_rate(ctx, &o, 1e-5, 1, &f, &why), HR_E_INVALID);
    CHECK(strstr(why.message, "--data is required"));
    hr_ctx_destroy(ctx);
}

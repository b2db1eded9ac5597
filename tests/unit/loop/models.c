/* Every family through the step builder: small members learn a batch in every precision, in parts where samples do not
 * touch, and with the same bits however memory and threads are used. */
#include <headroom/headroom.h>

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "graph/graph.h"
#include "run/interpret.h"
#include "test.h"
#include "loop/run.h"

enum { STEPS = 4 };

typedef struct sample {
    const char *model, *options;
    int has_batch_norm;
} sample;

static const sample samples[] = {
    {"mlp", "rate=0.01", 0},
    {"lenet:size=28", "rate=0.01", 0},
    {"resnet18:size=64,width=8,classes=10", "rate=0.01,decay=1e-4", 1},
    {"resnet50:size=64,width=8,classes=10", "rate=0.01", 1},
    {"vit-tiny:size=32,patch=8,layers=2,width=48,heads=3,classes=10",
     "optimizer=adamw,rate=1e-3,clip=1", 0},
    {"gpt2-nano", "optimizer=adamw,rate=1e-3,clip=1", 0},
    {"gpt2-nano", "rate=0.05,decay=1e-3", 0}, /* two gradients of one weight go into its velocity */
    {"gpt2-nano:dropout=0.2", "optimizer=adam,rate=1e-3", 0},
    {"bert-nano:dropout=0", "optimizer=adamw,rate=1e-3,clip=1", 0},
    {"bert-nano:classes=10", "optimizer=adam,rate=1e-3", 0},
    {"lstm-nano:layers=2,both=on,classes=10", "optimizer=adam,rate=1e-2", 0},
};
enum { SAMPLES = sizeof samples / sizeof samples[0] };

static void train(const sample *s, const char *more, int64_t part, hri_threads *threads,
                  float losses[STEPS]) {
    char text[200];
    hri_interp_job job = {.batch = 6, .part = part, .steps = STEPS, .cycle = 1, .seed = 2};
    hr_error why = {0};
    hr_model *m;
    snprintf(text, sizeof text, "%s%s", s->options, more);
    hr_status status = hr_model_open(s->model, &m, &why);
    if (status == HR_OK) {
        job.build = hr_model_build;
        job.user = m;
        job.limit = (uint32_t)hr_model_classes(m);
        job.threads = threads;
        job.options.size = sizeof job.options;
        status = hr_train_options_parse(text, &job.options, &why);
        if (status == HR_OK) {
            status = hri_train_run(&job, losses, &why);
        }
        hr_model_close(m);
    }
    if (status != HR_OK) {
        test_fail(__FILE__, __LINE__, "%s, %s: %s", s->model, text, why.message);
    }
}

static void check_close(const sample *s, const char *what, const float *a, const float *b,
                        double tolerance, int steps) {
    for (int i = 0; i < steps; i++) {
        const double x = (double)a[i], y = (double)b[i];
        test_count_check();
        if (!(fabs(x - y) <= tolerance * (fabs(x) + 0.1))) {
            test_fail(__FILE__, __LINE__, "%s, %s: step %d has the loss %.7g, wanted %.7g",
                      s->model, what, i, y, x);
        }
    }
}

/* Batch norm over a few samples and relu make small differences large (a sign that flips counts whole), so there only
 * the first loss must agree, and less closely. */
static void check_precision(const sample *s, const char *type, const float *full, double close) {
    char more[40];
    float small[STEPS];
    snprintf(more, sizeof more, ",precision=%s", type);
    train(s, more, 0, NULL, small);
    if (s->has_batch_norm) {
        check_close(s, type, full, small, 4 * close, 1);
    } else {
        check_close(s, type, full, small, close, STEPS);
    }
    CHECK(small[STEPS - 1] <= small[0]); /* equal: f16 still looks for its scale */
}

TEST_TIMEOUT(train_models, every_family_learns_in_every_precision, 120) {
    for (int k = 0; k < SAMPLES; k++) {
        float full[STEPS];
        train(&samples[k], "", 0, NULL, full);
        CHECK(full[STEPS - 1] < full[0]);
        check_precision(&samples[k], "bf16", full, 2e-2);
        check_precision(&samples[k], "f16", full, 2e-3);
    }
}

TEST_TIMEOUT(train_models, parts_give_the_losses_of_the_whole_batch, 120) {
    for (int k = 0; k < SAMPLES; k++) {
        float whole[STEPS], parts[STEPS];
        if (!samples[k].has_batch_norm) {
            train(&samples[k], "", 0, NULL, whole);
            train(&samples[k], "", 4, NULL, parts);
            check_close(&samples[k], "parts of 4 and 2", whole, parts, 1e-5, STEPS);
        }
    }
}

TEST_TIMEOUT(train_models, three_threads_give_the_same_bits, 120) {
    hri_threads *pool;
    CHECK_OK(hri_threads_create(3, &pool));
    for (int k = 0; k < SAMPLES; k++) {
        float one[STEPS], three[STEPS];
        train(&samples[k], "", 0, NULL, one);
        train(&samples[k], "", 0, pool, three);
        check_close(&samples[k], "three threads", one, three, 0.0, STEPS);
    }
    hri_threads_destroy(pool);
}

/* ---- reuse of buffers in the interpreter ---- */

static void run_twice(const hr_graph *g, int reuse, float *loss, uint64_t *bytes) {
    const hri_interp_options o = {.seed = 4, .reuse = reuse};
    hri_interp *it;
    CHECK_OK(hri_interp_open(g, &o, &it));
    *bytes = hri_interp_bytes(it);
    *(float *)hri_interp_data(it, hr_graph_find(g, "train.rate")) = 0.1f;
    CHECK_OK(hri_interp_run(it, 0, NULL));
    CHECK_OK(hri_interp_run(it, 1, NULL));
    *loss = *(float *)hri_interp_data(it, hr_graph_find(g, "loss"));
    hri_interp_destroy(it);
}

TEST(train_models, reused_buffers_give_the_same_bits_in_less_memory) {
    /* The second and third have views of values that live on. */
    static const char *const models[] = {
        "resnet18:size=32,width=8", "vit-tiny:size=32,patch=8,layers=2,width=48,heads=3,classes=10",
        "gpt2-nano"};
    for (size_t i = 0; i < sizeof models / sizeof models[0]; i++) {
        hr_model *m;
        hr_graph *g;
        hr_train_options o = {.size = sizeof o};
        float own, reused;
        uint64_t own_bytes, reused_bytes;
        CHECK_OK(hr_train_options_parse(NULL, &o, NULL));
        CHECK_OK(hr_model_open(models[i], &m, NULL));
        CHECK_OK(hr_step_build(&o, hr_model_build, m, HR_STEP_WHOLE, 4, &g, NULL));
        hr_model_close(m);
        run_twice(g, 0, &own, &own_bytes);
        run_twice(g, 1, &reused, &reused_bytes);
        CHECK(own == reused && own > 0.0f);
        CHECK(reused_bytes < own_bytes);
        hr_graph_destroy(g);
    }
}

/* What is written over the input of a view, or over the view, is not seen through the other. */
TEST(train_models, a_view_shares_memory_that_nobody_writes_over) {
    float sums[2];
    for (int reuse = 0; reuse < 2; reuse++) {
        hr_graph *g;
        hri_interp *it;
        const hri_interp_options o = {.seed = 4, .reuse = reuse};
        CHECK_OK(hr_graph_create(&g));
        const hr_value p =
            hr_graph_param(g, "p", HR_TYPE_F32, hr_shape_2(8, 32), hr_init_normal(1));
        const hr_value x = hr_graph_node(g, "exp", &p, 1, NULL);
        const hr_value flat = hr_graph_node(g, "reshape", &x, 1, "to=256");
        const hr_value back = hr_graph_node(g, "reshape", &flat, 1, "to=8x32");
        const hr_value a = hr_graph_node(g, "exp", &flat, 1, NULL);
        const hr_value b = hr_graph_node(g, "log", &back, 1, NULL);
        const hr_value c = hr_graph_node(g, "sqrt", &x, 1, NULL);
        const hr_value a2 = hr_graph_node(g, "reshape", &a, 1, "to=8x32");
        const hr_value both[] = {b, c}, all[] = {a2, hr_graph_node(g, "mul", both, 2, NULL)};
        const hr_value sum = hr_graph_node(g, "add", all, 2, NULL);
        hr_graph_result(g, hr_graph_node(g, "mean", &sum, 1, NULL), "mean");
        CHECK_OK(hr_graph_freeze(g));
        CHECK_OK(hri_interp_open(g, &o, &it));
        CHECK_OK(hri_interp_run(it, 0, NULL));
        sums[reuse] = *(float *)hri_interp_data(it, hr_graph_find(g, "mean"));
        hri_interp_destroy(it);
        hr_graph_destroy(g);
    }
    CHECK(sums[0] == sums[1] && sums[0] > 0.0f);
}

/* Whether the graph of an evaluation has the result "logits". */
static int predicts(const char *name, const char *options) {
    hr_train_options o = {.size = sizeof o};
    hr_model *m;
    hr_graph *g;
    CHECK_OK(hr_train_options_parse(options, &o, NULL));
    CHECK_OK(hr_model_open(name, &m, NULL));
    CHECK_OK(hr_step_build(&o, hr_model_build, m, HR_STEP_EVALUATE, 2, &g, NULL));
    int found = 0, loss = 0;
    for (uint32_t i = 0; i < g->result_count; i++) {
        found |= !strcmp(g->results[i].name, "logits");
        loss |= !strcmp(g->results[i].name, "loss");
    }
    CHECK(loss);
    hr_graph_destroy(g);
    hr_model_close(m);
    return found;
}

TEST(train_models, an_evaluation_has_predictions_but_not_those_of_a_whole_vocabulary) {
    CHECK(predicts("mlp", ""));
    CHECK(predicts("mlp", "precision=bf16"));
    CHECK(!predicts("gpt2-nano", ""));
    CHECK(!predicts("gpt2-nano", "precision=bf16"));
    CHECK(!predicts("bert-nano", ""));
    CHECK(predicts("bert-nano:classes=3", ""));
    CHECK(!predicts("lstm-nano", ""));
    CHECK(predicts("lstm-nano:classes=3", ""));
}

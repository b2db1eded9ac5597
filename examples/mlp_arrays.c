/* Trains a small network on two arrays, within a budget.  Uses the public API only.
 *
 *   the data     points on two spirals, in arrays in memory; a pipeline shuffles and batches them
 *   the model    a function that adds inputs, layers and a loss to a graph
 *   the step     hr_step_build makes the graph of a training step, with gradients and AdamW updates
 *   the run      hr_run_open plans it within the budget, checks the plan, and allocates the memory once
 *
 * Training and testing are two graphs in one arena: they share the parameters, and the larger one decides the memory.
 * Exits 0 if the points are classified and the budget held, 1 if not, 3 on failure. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include <headroom/headroom.h>

enum { POINTS = 2048, BATCH = 128, EPOCHS = 60, HIDDEN = 64 };
static const uint64_t budget = 96 << 20;

static float where[POINTS][2]; /* (POINTS, 2) */
static int32_t which[POINTS];

static void make_spirals(void) {
    for (int i = 0; i < POINTS; i++) {
        const double t = 0.3 + 2.9 * (double)(i / 2) / (POINTS / 2), turn = (i % 2) * 3.14159265;
        where[i][0] = (float)(t / 3.2 * cos(2.0 * t + turn));
        where[i][1] = (float)(t / 3.2 * sin(2.0 * t + turn));
        which[i] = i % 2;
    }
}

static void fail(const char *what, const char *why) {
    fprintf(stderr, "mlp_arrays: %s: %s\n", what, why);
    exit(3);
}

static hr_value dense(hr_graph *g, const char *name, hr_value x, int in, int out) {
    hr_graph_push(g, name);
    const hr_value w = hr_graph_param(g, "weight", HR_TYPE_F32, hr_shape_2(out, in),
                                      hr_init_normal(sqrt(2.0 / in)));
    const hr_value b = hr_graph_param(g, "bias", HR_TYPE_F32, hr_shape_1(out), hr_init_constant(0));
    hr_graph_pop(g);
    return hr_linear(g, x, w, b);
}

/* An hr_build_fn: called once for each graph that is made of the model. */
static hr_status model(void *user, hr_graph *g, int64_t batch, int training) {
    (void)user;
    (void)training;
    hr_value x = hr_graph_input(g, "where", HR_TYPE_F32, hr_shape_2(batch, 2));
    const hr_value ids = hr_graph_input(g, "which", HR_TYPE_I32, hr_shape_1(batch));
    x = hr_relu(g, dense(g, "first", x, 2, HIDDEN));
    x = hr_relu(g, dense(g, "second", x, HIDDEN, HIDDEN));
    x = dense(g, "last", x, HIDDEN, 2);
    hr_graph_result(g, hr_accuracy(g, x, ids, 1), "accuracy");
    hr_graph_result(g, hr_cross_entropy(g, x, ids, 0.0), "loss");
    return HR_OK;
}

static hr_pipeline *open_pipeline(void) {
    const hr_field arrays[] = {
        {.name = "where",
         .meta = {HR_TYPE_F32, hr_shape_2(POINTS, 2)},
         .bytes = sizeof where,
         .data = where},
        {.name = "which",
         .meta = {HR_TYPE_I32, hr_shape_1(POINTS)},
         .bytes = sizeof which,
         .data = which},
    };
    const hr_pipeline_options o = {.size = sizeof o, .budget_bytes = 8 << 20, .workers = 1};
    hr_pipeline *p;
    hr_error error;
    if (hr_pipeline_create(&o, &p) != HR_OK) {
        fail("pipeline", "no memory");
    }
    if (hr_pipeline_arrays(p, arrays, 2) != HR_OK ||
        hr_pipeline_add(p, "shuffle(seed=1) | batch(128)") != HR_OK ||
        hr_pipeline_build(p) != HR_OK) {
        hr_pipeline_error(p, &error);
        fail("pipeline", error.message);
    }
    return p;
}

static void must(hr_run *run, hr_status status) {
    if (status != HR_OK) {
        hr_error error;
        hr_run_error(run, &error);
        fail("run", error.message);
    }
}

/* One epoch: batch after batch into graph 0. */
static double train(hr_run *run, hr_pipeline *data, const hr_train_options *o,
                    hr_step_state *state) {
    double sum = 0;
    int count = 0;
    hr_element *e;
    while (hr_pipeline_next(data, &e) == HR_OK) {
        const hr_field *x = hr_element_find(e, "where"), *y = hr_element_find(e, "which");
        const hr_step_feed feed = hr_step_next(o, state);
        float loss;
        must(run, hr_run_put(run, 0, "where", x->data, x->bytes));
        must(run, hr_run_put(run, 0, "which", y->data, y->bytes));
        must(run, hr_run_put(run, 0, "train.rate", &feed.rate, sizeof feed.rate));
        must(run, hr_run_put(run, 0, "train.update", &feed.update, sizeof feed.update));
        hr_element_unref(e);
        hr_run_at(run, (uint32_t)state->step, 0);
        must(run, hr_run_step(run, 0));
        must(run, hr_run_get(run, 0, "loss", &loss, sizeof loss));
        hr_step_done(o, state, 1.0f, NULL, NULL);
        sum += loss;
        count++;
    }
    if (hr_pipeline_rewind(data) != HR_OK) {
        fail("pipeline", "rewind");
    }
    return sum / count;
}

/* All points at once through graph 1. */
static float test(hr_run *run) {
    float accuracy;
    must(run, hr_run_put(run, 1, "where", where, sizeof where));
    must(run, hr_run_put(run, 1, "which", which, sizeof which));
    must(run, hr_run_step(run, 1));
    must(run, hr_run_get(run, 1, "accuracy", &accuracy, sizeof accuracy));
    return accuracy;
}

int main(void) {
    hr_ctx *ctx;
    hr_device *host;
    hr_train_options o = {.size = sizeof o};
    hr_graph *step, *evaluation;
    hr_error error = {.code = HR_OK};
    hr_run *run;
    make_spirals();
    if (hr_ctx_create(NULL, &ctx) != HR_OK || hr_device_find(ctx, "host", &host) != HR_OK) {
        fail("context", "none");
    }
    if (hr_train_options_parse("optimizer=adamw,rate=0.01,decay=0.001", &o, &error) != HR_OK ||
        hr_step_build(&o, model, NULL, HR_STEP_WHOLE, BATCH, &step, &error) != HR_OK ||
        hr_step_build(&o, model, NULL, HR_STEP_EVALUATE, POINTS, &evaluation, &error) != HR_OK) {
        fail("graph", error.message);
    }
    const hr_graph *graphs[] = {step, evaluation};
    const hr_run_options options = {.size = sizeof options,
                                    .device = host,
                                    .graphs = graphs,
                                    .graph_count = 2,
                                    .budget_bytes = budget,
                                    .seed = 7};
    if (hr_run_open(&options, &run, &error) != HR_OK) {
        fail("plan", error.message);
    }
    hr_pipeline *data = open_pipeline();
    hr_step_state state;
    hr_step_state_init(&o, &state);
    float accuracy = 0;
    for (int epoch = 0; epoch < EPOCHS; epoch++) {
        const double loss = train(run, data, &o, &state);
        if (epoch % 10 == 9) {
            accuracy = test(run);
            printf("epoch %2d  loss %.4f  accuracy %.3f\n", epoch + 1, loss, (double)accuracy);
        }
    }
    hr_run_report report = {.size = sizeof report};
    hr_run_get_report(run, &report);
    printf("planned %.1f MiB, resident at most %.1f MiB, budget %.0f MiB\n",
           (double)report.peak_bytes / 0x1p20, (double)report.resident_bytes / 0x1p20,
           (double)budget / 0x1p20);
    hr_run_close(run);
    hr_pipeline_destroy(data);
    hr_graph_destroy(step);
    hr_graph_destroy(evaluation);
    hr_ctx_destroy(ctx);
    /* What the arena held is in the exit code; the resident set is for the eye, as a sanitizer's memory would be in it. */
    const int held = report.peak_bytes <= budget &&
                     report.measured_bytes <= report.persistent_bytes + report.arena_bytes;
    return accuracy > 0.98f && held ? 0 : 1;
}

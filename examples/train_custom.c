/* Trains a custom model within a budget: build function, pipeline over arrays, validation, checkpoints, callbacks.
 * The first run is cancelled after 200 steps, as Ctrl-C would do; the second one resumes it.  The history is that of an
 * uninterrupted run, and that of `headroom train ./spirals.hr` with the same data and options.  Exits 0 if the model has
 * learned and the budget held, 1 if not, 3 on failure. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include <headroom/headroom.h>

enum { POINTS = 2048, HELD_OUT = 250, HIDDEN = 64 };

static float where[POINTS][2]; /* (POINTS, 2) */
static int32_t which[POINTS];

static void must(hr_status status, const hr_error *why) {
    if (status != HR_OK) {
        fprintf(stderr, "train_custom: %s\n", why ? why->message : hr_status_text(status));
        exit(3);
    }
}

static void make_spirals(void) {
    for (int at = 0; at < POINTS; at++) {
        const int i = at * 797 % POINTS; /* shuffles them: the first ones are held out */
        const double t = 0.3 + 2.9 * (i / 2) / (POINTS / 2.0), angle = 2 * t + (i % 2) * 3.14159265;
        where[at][0] = (float)(t / 3.2 * cos(angle));
        where[at][1] = (float)(t / 3.2 * sin(angle));
        which[at] = i % 2;
    }
}

static hr_value dense(hr_graph *g, const char *name, hr_value x, int64_t in, int64_t out) {
    hr_graph_push(g, name);
    const hr_init start = hr_init_normal(sqrt(2.0 / (double)in)), zero = hr_init_constant(0);
    const hr_value w = hr_graph_param(g, "weight", HR_TYPE_F32, hr_shape_2(out, in), start);
    const hr_value b = hr_graph_param(g, "bias", HR_TYPE_F32, hr_shape_1(out), zero);
    hr_graph_set_tags(g, b, &(hr_tags){.size = sizeof(hr_tags), .decay = -1});
    hr_graph_pop(g);
    return hr_linear(g, x, w, b);
}

/* An hr_build_fn: called once for each graph of the model. */
static hr_status build(void *user, hr_graph *g, int64_t batch, int training) {
    (void)user, (void)training;
    hr_value x = hr_graph_input(g, "where", HR_TYPE_F32, hr_shape_2(batch, 2));
    const hr_value ids = hr_graph_input(g, "which", HR_TYPE_I32, hr_shape_1(batch));
    x = hr_relu(g, dense(g, "first", x, 2, HIDDEN));
    x = dense(g, "last", hr_relu(g, dense(g, "second", x, HIDDEN, HIDDEN)), HIDDEN, 2);
    hr_graph_result(g, hr_accuracy(g, x, ids, 1), "accuracy");
    hr_graph_result(g, hr_cross_entropy(g, x, ids, 0.0), "loss");
    return HR_OK;
}

/* Delivers single samples, which the trainer batches.  Fields are fed to the model's inputs of the same name. */
static hr_pipeline *points(size_t from, size_t count, const char *stage) {
    const int64_t n = (int64_t)count;
    const hr_field arrays[] = {
        {"where", {HR_TYPE_F32, hr_shape_2(n, 2)}, count * sizeof where[0], where[from]},
        {"which", {HR_TYPE_I32, hr_shape_1(n)}, count * sizeof which[0], &which[from]}};
    const hr_pipeline_options o = {.size = sizeof o, .budget_bytes = 4 << 20, .workers = 1};
    hr_pipeline *p = NULL;
    must(hr_pipeline_create(&o, &p), NULL);
    must(hr_pipeline_arrays(p, arrays, 2), NULL);
    must(stage ? hr_pipeline_add(p, stage) : HR_OK, NULL);
    must(hr_pipeline_build(p), NULL);
    return p;
}

/* Runs on this thread.  Its return value decides whether training continues. */
static hr_status on_event(void *user, const hr_job_event *e) {
    if (e->kind == HR_EVENT_VALIDATED && e->numbers->epoch % 10 == 0) {
        printf("epoch %2d  validation loss %.4f\n", (int)e->numbers->epoch, e->numbers->loss);
    }
    const int stop = e->kind == HR_EVENT_STEP && e->numbers->step == *(uint64_t *)user;
    return stop ? HR_E_CANCELLED : HR_OK;
}

static hr_train_result train(hr_ctx *ctx, const hr_model *model, uint64_t stop_at) {
    hr_job_options o = {.size = sizeof o, .custom_model = model, .budget = "96MiB", .batch = 128};
    o.training = "optimizer=adamw,rate=0.01,decay=0.001,decay-all=off";
    o.epochs = 60;
    o.micro_batches = 1;
    o.pipeline = points(HELD_OUT, POINTS - HELD_OUT, "shuffle(seed=0)");
    o.val_pipeline = points(0, HELD_OUT, NULL);
    o.folder = "spirals";
    o.start = stop_at ? HR_START_OVERWRITE : HR_START_RESUME;
    o.on_event = on_event;
    o.user = &stop_at;
    hr_train_result result = {.size = sizeof result};
    hr_error why;
    hr_plan *plan;
    must(hr_job_plan(ctx, &o, &plan, &why), &why);
    const hr_status status = hr_job_train(plan, &why); /* HR_E_NO_PLAN: see the message */
    must(status == HR_E_CANCELLED ? HR_OK : status, &why);
    must(hr_job_get_result(plan, 0, &result), NULL);
    hr_plan_destroy(plan);
    hr_pipeline_destroy(o.pipeline);
    hr_pipeline_destroy(o.val_pipeline);
    return result;
}

int main(void) {
    const hr_model_options o = {.size = sizeof o, .name = "spirals", .build = build, .classes = 2};
    hr_ctx *ctx;
    hr_model *model;
    hr_error why = {.code = HR_OK};
    make_spirals();
    must(hr_ctx_create(NULL, &ctx), &why);
    must(hr_model_define(&o, &model, &why), &why);
    must(hr_model_write(model, "spirals.hr", &why), &why);
    const hr_train_result half = train(ctx, model, 200), r = train(ctx, model, 0);
    printf("%d steps, then %d; accuracy %.3f; history %016llx\n", (int)half.steps, (int)r.steps,
           r.val_accuracy, (unsigned long long)r.history);
    hr_model_close(model);
    hr_ctx_destroy(ctx);
    return half.end == HR_END_CANCELLED && r.val_accuracy > 0.98 && !r.over_budget ? 0 : 1;
}

/* Models that came from PyTorch and Keras (tests/frameworks/record.py), with what those computed: loss, every gradient and
 * every running statistic of one step. */
#include <headroom/headroom.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "test.h"

enum { BATCH = 4, VALUES = 512 };

/* Whole values by their number in the graph. */
typedef struct table {
    const hr_graph *g;
    unsigned char *data[VALUES];
} table;

static unsigned char *room(table *t, hr_value v) {
    const hr_meta m = hr_graph_meta(t->g, v);
    CHECK(v < VALUES);
    if (!t->data[v]) {
        t->data[v] = calloc(1, hr_meta_bytes(&m) + 1);
        CHECK(t->data[v] != NULL);
    }
    return t->data[v];
}

static hr_status put(void *user, hr_value v, uint64_t at, const void *from, uint64_t bytes) {
    memcpy(room(user, v) + at, from, bytes);
    return HR_OK;
}

static void path_of(const char *name, const char *ending, char *out, size_t size) {
    snprintf(out, size, "%s/tests/frameworks/recorded/%s%s", HEADROOM_SOURCE, name, ending);
}

static void load(const hr_model *m, table *t, const char *name, const char *ending) {
    char path[600];
    hr_error why = {.code = HR_OK};
    const hr_weights_options o = {.size = sizeof o, .put = put, .user = t};
    path_of(name, ending, path, sizeof path);
    if (hr_model_load(m, t->g, path, &o, &why) != HR_OK) {
        test_fail(__FILE__, __LINE__, "%s: %s", path, why.message);
    }
}

/* The rule of record.py. */
static void fill(const char *name, const hr_meta *meta, int64_t classes, unsigned char *out) {
    const int64_t n = hr_shape_count(&meta->shape);
    const int64_t limit = strcmp(name, "label") ? 10 : classes > 0 ? classes : 1;
    for (int64_t i = 0; i < n; i++) {
        if (meta->type == HR_TYPE_F32) {
            const float x = (float)((i * 37 + 11) % 101) / 50.5f - 1.0f;
            memcpy(out + 4 * i, &x, 4);
        } else {
            const int32_t x = (int32_t)((i * 7 + 3) % limit);
            memcpy(out + 4 * i, &x, 4);
        }
    }
}

static void close_to(const char *model, const char *what, const float *got, const float *want,
                     int64_t n, double least) {
    double largest = least, apart = 0;
    for (int64_t i = 0; i < n; i++) {
        largest = fmax(largest, fabs((double)want[i]));
        apart = fmax(apart, fabs((double)got[i] - (double)want[i]));
    }
    if (!(apart <= 1e-4 * largest)) {
        test_fail(__FILE__, __LINE__, "%s: %s differs by %g of %g", model, what, apart, largest);
    }
}

/* Feeds every input and every persistent value. */
static void feed(hr_run *run, table *weights, int64_t classes) {
    for (hr_value v = 1; v <= hr_graph_value_count(weights->g); v++) {
        const hr_meta m = hr_graph_meta(weights->g, v);
        const hr_value_kind kind = hr_graph_kind(weights->g, v);
        const char *name = hr_graph_name(weights->g, v);
        if (kind == HR_VALUE_INPUT) {
            fill(name, &m, classes, room(weights, v));
        } else if (kind != HR_VALUE_PARAM && kind != HR_VALUE_STATE) {
            continue;
        }
        CHECK_OK(hr_run_put(run, 0, name, room(weights, v), hr_meta_bytes(&m)));
    }
}

static hr_run *open_run(hr_ctx *ctx, const hr_graph *g) {
    hr_run *run;
    hr_error why = {.code = HR_OK};
    const hr_run_options o = {
        .size = sizeof o, .device = hr_device_at(ctx, 0), .graphs = &g, .graph_count = 1};
    if (hr_run_open(&o, &run, &why) != HR_OK) {
        test_fail(__FILE__, __LINE__, "%s", why.message);
    }
    return run;
}

static float run_once(hr_ctx *ctx, table *weights, int64_t classes, hr_run **out) {
    float loss = 0;
    hr_run *run = open_run(ctx, weights->g);
    feed(run, weights, classes);
    CHECK_OK(hr_run_step(run, 0));
    CHECK_OK(hr_run_get(run, 0, "loss", &loss, sizeof loss));
    *out = run;
    return loss;
}

/* A parameter's gradient, or a state after the step, as the framework has it. */
static void compare_all(hr_run *run, const char *model, table *want, const hr_value *grads) {
    float largest = 0;
    for (int pass = 0; pass < 2; pass++) {
        for (hr_value v = 1; v < VALUES && v <= hr_graph_value_count(want->g); v++) {
            const hr_value_kind kind = hr_graph_kind(want->g, v);
            const hr_meta m = hr_graph_meta(want->g, v);
            const int64_t n = hr_shape_count(&m.shape);
            char name[600];
            if ((kind != HR_VALUE_PARAM && kind != HR_VALUE_STATE) || !want->data[v]) {
                continue;
            }
            const float *w = (const float *)(const void *)want->data[v];
            if (kind == HR_VALUE_PARAM && pass == 0) {
                for (int64_t i = 0; i < n; i++) {
                    largest = fmaxf(largest, fabsf(w[i]));
                }
            }
            if (pass == 0 || (kind == HR_VALUE_PARAM && !grads[v])) {
                continue;
            }
            snprintf(name, sizeof name, "%s%s", kind == HR_VALUE_PARAM ? "gradient:" : "",
                     hr_graph_name(want->g, v));
            float *got = malloc((size_t)hr_meta_bytes(&m));
            CHECK(got != NULL);
            CHECK_OK(hr_run_get(run, 0, name, got, hr_meta_bytes(&m)));
            close_to(model, name, got, w, n,
                     kind == HR_VALUE_PARAM ? 1e-2 * (double)largest : 1e-3);
            free(got);
        }
    }
}

static void clear(table *t) {
    for (int i = 0; i < VALUES; i++) {
        free(t->data[i]);
    }
}

/* Gradients of every parameter as results. */
static void differentiate(hr_graph *g, hr_value grads[VALUES]) {
    hr_value wrt[VALUES], got[VALUES];
    size_t count = 0;
    const hr_value last = (hr_value)hr_graph_value_count(g);
    for (hr_value v = 1; v <= last && v < VALUES; v++) {
        if (hr_graph_kind(g, v) == HR_VALUE_PARAM) {
            wrt[count++] = v;
        }
    }
    CHECK_OK(hr_graph_differentiate(g, hr_graph_find(g, "loss"), HR_NONE, wrt, count, got));
    for (size_t i = 0; i < count; i++) {
        char name[600];
        grads[wrt[i]] = got[i];
        snprintf(name, sizeof name, "gradient:%s", hr_graph_name(g, wrt[i]));
        if (got[i]) {
            hr_graph_result(g, got[i], name);
        }
    }
}

static hr_graph *build(hr_model *m, int training, hr_value *grads) {
    hr_graph *g;
    CHECK_OK(hr_graph_create(&g));
    CHECK_OK(hr_model_build(m, g, BATCH, training));
    if (grads) {
        differentiate(g, grads);
    }
    CHECK_OK(hr_graph_freeze(g));
    return g;
}

static void check_model(const char *name) {
    char path[600];
    double loss, eval_loss;
    hr_error why = {.code = HR_OK};
    hr_model *m;
    hr_ctx *ctx;
    hr_run *run;
    hr_value grads[VALUES] = {0};
    path_of(name, ".txt", path, sizeof path);
    FILE *f = fopen(path, "r");
    CHECK(f != NULL && fscanf(f, "%lf %lf", &loss, &eval_loss) == 2);
    fclose(f);
    path_of(name, ".hr", path, sizeof path);
    if (hr_model_open(path, &m, &why) != HR_OK) {
        test_fail(__FILE__, __LINE__, "%s: %s", path, why.message);
    }
    CHECK_OK(hr_ctx_create(&(hr_ctx_options){.size = sizeof(hr_ctx_options), .no_cuda = 1}, &ctx));
    hr_graph *train = build(m, 1, grads), *eval = build(m, 0, NULL);
    table weights = {.g = train}, want = {.g = train}, plain = {.g = eval};
    load(m, &weights, name, ".safetensors");
    load(m, &want, name, ".step.safetensors");
    load(m, &plain, name, ".safetensors");
    const float got = run_once(ctx, &weights, hr_model_classes(m), &run);
    close_to(name, "loss", &got, &(float){(float)loss}, 1, 0);
    compare_all(run, name, &want, grads);
    hr_run_close(run);
    const float evaluated = run_once(ctx, &plain, hr_model_classes(m), &run);
    close_to(name, "loss in evaluation", &evaluated, &(float){(float)eval_loss}, 1, 0);
    hr_run_close(run);
    clear(&weights);
    clear(&want);
    clear(&plain);
    hr_graph_destroy(train);
    hr_graph_destroy(eval);
    hr_ctx_destroy(ctx);
    hr_model_close(m);
}

TEST(recorded_exports, of_pytorch_compute_what_it_computed) {
    check_model("inplace");
    check_model("buffers");
    check_model("odd_pad");
    check_model("tied_lm");
}

TEST(recorded_exports, that_pick_by_data_compute_what_pytorch_computed) {
    check_model("choices");
    check_model("rows");
    check_model("experts");
}

TEST(recorded_exports, of_volumes_grouped_keys_and_cells_compute_what_pytorch_computed) {
    check_model("volume");
    check_model("grouped");
    check_model("cell_loop");
}

TEST(recorded_exports, that_count_the_batch_and_draw_noise_compute_what_pytorch_computed) {
    check_model("contrast");
    check_model("sampled_vae");
    check_model("mixer");
}

TEST(recorded_exports, of_bags_masks_and_grids_compute_what_pytorch_computed) {
    check_model("recommender");
    check_model("set_attention");
    check_model("spatial_transformer");
}

TEST(recorded_exports, of_keras_compute_what_it_computed) {
    check_model("mixed_fp16");
    check_model("multi_output");
}

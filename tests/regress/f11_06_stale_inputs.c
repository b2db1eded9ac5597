/* hr_run_step computed on whatever lay in the arena when an input had not been put again. */
#include <headroom/headroom.h>

#include <string.h>

#include "test.h"

enum { N = 4 };

static hr_graph *build(const char *input, double factor) {
    hr_graph *g;
    CHECK_OK(hr_graph_create(&g));
    const hr_value x = hr_graph_input(g, input, HR_TYPE_F32, hr_shape_1(N));
    const hr_value y = hr_graph_input(g, "y", HR_TYPE_F32, hr_shape_1(N));
    const hr_value w = hr_graph_param(g, "w", HR_TYPE_F32, hr_shape_1(N), hr_init_constant(1.0));
    hr_graph_input(g, "unused", HR_TYPE_F32, hr_shape_1(N));
    hr_graph_result(g, hr_affine(g, hr_mul(g, hr_add(g, x, y), w), factor, 0.0), "z");
    CHECK_OK(hr_graph_freeze(g));
    return g;
}

static void check_missing(hr_run *run, size_t graph, const char *name) {
    hr_error error;
    CHECK_STATUS(hr_run_step(run, graph), HR_E_INVALID);
    hr_run_error(run, &error);
    if (!strstr(error.message, name)) {
        test_fail(__FILE__, __LINE__, "\"%s\" does not name %s", error.message, name);
    }
}

static void put(hr_run *run, size_t graph, const char *name, float number) {
    const float x[N] = {number, number, number, number};
    CHECK_OK(hr_run_put(run, graph, name, x, sizeof x));
}

static void check_result(hr_run *run, size_t graph, float want) {
    float z[N];
    CHECK_OK(hr_run_get(run, graph, "z", z, sizeof z));
    CHECK(z[0] == want && z[N - 1] == want);
}

static void check_all(const hr_ctx_options *co, const char *name) {
    hr_ctx *ctx;
    hr_device *device;
    hr_run *run;
    CHECK_OK(hr_ctx_create(co, &ctx));
    CHECK_OK(hr_device_find(ctx, name, &device));
    hr_graph *first = build("x", 2.0), *second = build("x2", 3.0);
    const hr_graph *graphs[] = {first, second};
    const hr_run_options o = {.size = sizeof o,
                              .device = device,
                              .graphs = graphs,
                              .graph_count = 2,
                              .threads = 1,
                              .seed = 1};
    CHECK_OK(hr_run_open(&o, &run, NULL));
    check_missing(run, 0, "\"x\""); /* before the first run */
    put(run, 0, "x", 1);
    check_missing(run, 0, "\"y\"");
    put(run, 0, "y", 2);
    CHECK_OK(hr_run_step(run, 0));
    check_result(run, 0, 6);
    put(run, 0, "w", 10); /* persistent: put once, and no input */
    put(run, 0, "x", 3);
    check_missing(run, 0, "\"y\""); /* nor again after a run */
    put(run, 0, "y", 1);
    CHECK_OK(hr_run_step(run, 0));
    check_result(run, 0, 80);
    put(run, 0, "x", 1);
    put(run, 0, "y", 1);
    put(run, 1, "x2", 1); /* lies where the others did */
    put(run, 1, "y", 1);
    CHECK_OK(hr_run_step(run, 1));
    check_result(run, 1, 60);
    check_missing(run, 0, "\"x\"");
    CHECK_STATUS(hr_run_step(run, 2), HR_E_NOT_FOUND);
    hr_run_close(run);
    hr_graph_destroy(first);
    hr_graph_destroy(second);
    hr_ctx_destroy(ctx);
}

TEST(f11_06, a_run_names_the_input_that_was_not_put) {
    check_all(
        &(hr_ctx_options){.size = sizeof(hr_ctx_options), .visible_devices = "", .no_cuda = 1},
        "host");
}

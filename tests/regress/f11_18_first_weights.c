/* Weights were filled by one thread, number after number, and zeros of the optimizer were made on the host for a GPU. */
#include <headroom/headroom.h>

#include <stdlib.h>
#include <string.h>

#include "graph/graph.h"
#include "program.h"
#include "test.h"

enum { ROWS = 517, COLUMNS = 65 };

static hr_graph *build(hr_type type, hr_init init) {
    hr_graph *g;
    CHECK_OK(hr_graph_create(&g));
    hr_graph_param(g, "w", type, hr_shape_2(ROWS, COLUMNS), init);
    return g;
}

TEST(f11_18, a_value_that_is_made_in_parts_has_the_same_bits) {
    const hr_init inits[] = {hr_init_normal(0.02),
                             hr_init_uniform(-2.0, 3.0),
                             {.kind = HR_INIT_TRUNCATED, .a = 1.0, .b = 0.5},
                             hr_init_constant(0.0),
                             hr_init_constant(1.5)};
    static const hr_type types[] = {HR_TYPE_F32, HR_TYPE_BF16, HR_TYPE_F16};
    uint64_t state = test_seed();
    for (size_t i = 0; i < sizeof inits / sizeof inits[0] * 3; i++) {
        hr_graph *g = build(types[i % 3], inits[i / 3]);
        const hr_value v = hr_graph_find(g, "w");
        const hr_meta meta = hr_graph_meta(g, v);
        const int64_t count = hr_shape_count(&meta.shape);
        const size_t bytes = hr_meta_bytes(&meta), width = hr_type_bytes(meta.type);
        char *whole = malloc(bytes), *parts = malloc(bytes);
        CHECK(whole && parts);
        hri_graph_initial(g, v, 11, whole);
        memset(parts, 0xa5, bytes);
        for (int64_t at = 0; at < count;) {
            int64_t n = (int64_t)(1 + test_random(&state) % 90) * HRI_INITIAL_BLOCK;
            n = n < count - at ? n : count - at;
            hri_graph_initial_part(g, v, 11, at, n, parts + (size_t)at * width);
            at += n;
        }
        CHECK(!memcmp(whole, parts, bytes));
        CHECK_EQ(hri_graph_begins_zero(g, v), i / 3 == 3);
        free(whole);
        free(parts);
        hr_graph_destroy(g);
    }
}

/* The first weights of a run, on any number of threads and devices, are the ones of the interpreter. */
static void check_device(const char *name, uint32_t threads) {
    hr_ctx *ctx;
    hr_device *device;
    hr_run *run;
    hr_graph *g;
    const hr_ctx_options co = {.size = sizeof co};
    CHECK_OK(hr_ctx_create(&co, &ctx));
    CHECK_OK(hr_device_find(ctx, name, &device));
    CHECK_OK(hr_graph_create(&g));
    const hr_shape shape = hr_shape_2(1200, 900);
    const hr_value w = hr_graph_param(g, "w", HR_TYPE_F32, shape, hr_init_normal(0.1));
    const hr_value z = hr_graph_state(g, "z", HR_TYPE_F32, shape, hr_init_constant(0.0));
    const hr_value o = hr_graph_state(g, "o", HR_TYPE_F32, shape, hr_init_constant(1.0));
    hr_graph_result(g, hr_sum(g, hr_add(g, hr_add(g, w, z), o), NULL, 0), "y");
    CHECK_OK(hr_graph_freeze(g));
    const hr_graph *graphs[] = {g};
    const hr_run_options ro = {.size = sizeof ro,
                               .device = device,
                               .graphs = graphs,
                               .graph_count = 1,
                               .threads = threads,
                               .seed = 5};
    CHECK_OK(hr_run_open(&ro, &run, NULL));
    static const char *const names[] = {"w", "z", "o"};
    for (size_t i = 0; i < 3; i++) {
        const hr_value v = hr_graph_find(g, names[i]);
        const hr_meta meta = hr_graph_meta(g, v);
        const size_t bytes = hr_meta_bytes(&meta);
        char *want = malloc(bytes), *is = malloc(bytes);
        CHECK(want && is);
        hri_graph_initial(g, v, 5, want);
        CHECK_OK(hr_run_get(run, 0, names[i], is, bytes));
        CHECK(!memcmp(want, is, bytes));
        free(want);
        free(is);
    }
    hr_run_close(run);
    hr_graph_destroy(g);
    hr_ctx_destroy(ctx);
}

TEST(f11_18, the_first_weights_do_not_depend_on_threads) {
    check_device("host", 1);
    check_device("host", 2);
    check_device("host", 5);
}

/* The same history on the host and under the driver of the tests, whose kernels run on the host. */
TEST_TIMEOUT(f11_18, a_gpu_begins_with_the_weights_of_the_host, 120) {
    double losses[2];
    for (int gpu = 0; gpu < 2; gpu++) {
        const program_options o = {.environment =
                                       gpu ? "LD_LIBRARY_PATH=" FAKECUDA_ROOT "/fakecuda" : NULL,
                                   .seconds = 110};
        program_outcome r =
            program_run(&o,
                        "train mlp:size=28,width=680,layers=1,classes=4 --data synthetic:8 "
                        "--batch 1 --steps 1 --no-save --options momentum=0 --json --device %s",
                        gpu ? "cuda:0" : "host");
        program_expect(&r, 0, NULL);
        losses[gpu] = program_number(&r, "loss");
        program_end(&r);
    }
    CHECK(losses[0] > 0 && losses[0] - losses[1] < 1e-5 && losses[1] - losses[0] < 1e-5);
}

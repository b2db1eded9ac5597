/* The public door to plans: headroom/run.h, and ops of the caller's own inside it. */
#include <headroom/headroom.h>

#include <string.h>

#include "base/fault.h"
#include "test.h"

enum { ROWS = 64, WIDTH = 32, LAYERS = 6 };

static hr_status same_shape(void *user, const hr_meta *in, uint32_t count, hr_meta *out,
                            const char **why) {
    (void)user;
    (void)count;
    if (in[0].type != HR_TYPE_F32) {
        *why = "only f32 is doubled";
        return HR_E_SHAPE;
    }
    out[0] = in[0];
    return HR_OK;
}

static hr_status run_double(void *user, const hr_custom_call *c) {
    const float *x = c->in[0];
    float *y = c->out[0];
    *(int *)user += 1;
    for (int64_t i = 0; i < hr_shape_count(&c->in_meta[0].shape); i++) {
        y[i] = 2 * x[i];
    }
    return HR_OK;
}

static void slope_of_double(void *user, hr_graph *g, hr_custom_grad *c) {
    (void)user;
    c->din[0] = hr_affine(g, c->dout[0], 2.0, 0.0);
}

static int calls;

static hr_custom *make_double(void) {
    const hr_custom_options o = {.size = sizeof o,
                                 .name = "twice",
                                 .input_count = 1,
                                 .output_count = 1,
                                 .shape = same_shape,
                                 .slope = slope_of_double,
                                 .run = run_double,
                                 .overwrite = 1,
                                 .user = &calls};
    hr_custom *op;
    CHECK_OK(hr_custom_create(&o, &op));
    return op;
}

/* y = sum of tanh(2 x w0) ... : needs what it keeps. */
static hr_graph *make_graph(const hr_custom *twice) {
    hr_graph *g;
    hr_value w[LAYERS], grads[LAYERS];
    CHECK_OK(hr_graph_create(&g));
    hr_value x = hr_graph_input(g, "x", HR_TYPE_F32, hr_shape_2(ROWS * 256, WIDTH));
    for (int i = 0; i < LAYERS; i++) {
        char name[8] = {'w', (char)('0' + i)};
        w[i] = hr_graph_param(g, name, HR_TYPE_F32, hr_shape_2(WIDTH, WIDTH), hr_init_normal(0.1));
        x = hr_matmul(g, x, w[i], 0, 0);
        x = hr_graph_custom(g, twice, &x, 1);
        x = hr_mul(g, x, x);
    }
    const hr_value loss = hr_mean(g, x, NULL, 0);
    hr_graph_result(g, loss, "loss");
    CHECK_OK(hr_graph_differentiate(g, loss, HR_NONE, w, LAYERS, grads));
    hr_graph_result(g, grads[0], "dw0");
    CHECK_OK(hr_graph_freeze(g));
    return g;
}

static float x_data[ROWS * 256 * WIDTH];

static hr_status run_once(hr_device *host, const hr_graph *g, uint64_t budget, float *loss,
                          hr_run_report *report) {
    const hr_run_options o = {.size = sizeof o,
                              .device = host,
                              .graphs = &g,
                              .graph_count = 1,
                              .budget_bytes = budget,
                              .threads = 1,
                              .seed = 5};
    hr_run *run;
    hr_error why = {.code = HR_OK};
    hr_status status = hr_run_open(&o, &run, &why);
    if (status != HR_OK) {
        CHECK_EQ(why.code, status);
        CHECK(why.message[0] != '\0');
        return status;
    }
    for (size_t i = 0; i < sizeof x_data / sizeof x_data[0]; i++) {
        x_data[i] = (float)(i % 17) / 17.0f;
    }
    status = hr_run_put(run, 0, "x", x_data, sizeof x_data);
    status = status == HR_OK ? hr_run_step(run, 0) : status;
    status = status == HR_OK ? hr_run_get(run, 0, "loss", loss, sizeof *loss) : status;
    if (report) {
        CHECK_OK(hr_run_get_report(run, report));
    }
    hr_run_close(run);
    return status;
}

typedef struct rig {
    hr_ctx *ctx;
    hr_device *host;
    hr_custom *twice;
    hr_graph *g;
} rig;

static rig open_rig(void) {
    rig r;
    const hr_ctx_options o = {.size = sizeof o, .visible_devices = "", .no_cuda = 1};
    CHECK_OK(hr_ctx_create(&o, &r.ctx));
    CHECK_OK(hr_device_find(r.ctx, "host", &r.host));
    r.twice = make_double();
    r.g = make_graph(r.twice);
    return r;
}

static void close_rig(rig *r) {
    hr_graph_destroy(r->g);
    hr_custom_destroy(r->twice);
    hr_ctx_destroy(r->ctx);
}

TEST(run, a_tight_budget_gives_the_same_bits_and_calls_own_ops_again) {
    rig r = open_rig();
    float plain, tight;
    hr_run_report wide = {.size = sizeof wide}, narrow = {.size = sizeof narrow};
    calls = 0;
    CHECK_OK(run_once(r.host, r.g, 0, &plain, &wide));
    CHECK_EQ(calls, LAYERS);
    const uint64_t budget =
        wide.runtime_bytes + (6 << 20) + wide.persistent_bytes + wide.arena_bytes / 2;
    CHECK_OK(run_once(r.host, r.g, budget, &tight, &narrow));
    CHECK(!memcmp(&plain, &tight, sizeof plain));
    CHECK_LE(narrow.peak_bytes, budget);
    CHECK(narrow.arena_bytes < wide.arena_bytes);
    CHECK(narrow.recomputed_ops > 0);
    CHECK_EQ(narrow.measured_bytes, narrow.persistent_bytes + narrow.arena_bytes);
    CHECK_EQ(narrow.peak_bytes,
             narrow.runtime_bytes + narrow.persistent_bytes + narrow.arena_bytes);
    close_rig(&r);
}

TEST(run, a_budget_under_the_floor_is_refused_with_the_op_that_makes_it) {
    rig r = open_rig();
    float loss;
    hr_run *run = NULL;
    hr_error why;
    const hr_graph *g = r.g;
    const hr_run_options o = {.size = sizeof o,
                              .device = r.host,
                              .graphs = &g,
                              .graph_count = 1,
                              .budget_bytes = 1 << 20,
                              .threads = 1};
    CHECK_STATUS(hr_run_open(&o, &run, &why), HR_E_NO_PLAN);
    CHECK(run == NULL);
    CHECK(strstr(why.message, "below the minimum") != NULL);
    CHECK(strstr(why.message, "set by ") != NULL);
    CHECK_STATUS(run_once(r.host, r.g, 1 << 20, &loss, NULL), HR_E_NO_PLAN);
    close_rig(&r);
}

TEST(run, values_are_found_by_name_and_size) {
    rig r = open_rig();
    hr_run *run;
    hr_error why;
    float w[WIDTH * WIDTH], one = 1;
    const hr_graph *graphs[] = {r.g, r.g};
    const hr_run_options o = {
        .size = sizeof o, .device = r.host, .graphs = graphs, .graph_count = 2, .threads = 1};
    CHECK_OK(hr_run_open(&o, &run, &why));
    CHECK_STATUS(hr_run_put(run, 0, "nothing", &one, sizeof one), HR_E_NOT_FOUND);
    hr_run_error(run, &why);
    CHECK(strstr(why.message, "nothing") != NULL);
    CHECK_STATUS(hr_run_put(run, 0, "w0", &one, sizeof one), HR_E_SHAPE);
    CHECK_STATUS(hr_run_step(run, 2), HR_E_NOT_FOUND);
    for (int i = 0; i < WIDTH * WIDTH; i++) {
        w[i] = (float)i;
    }
    CHECK_OK(hr_run_put(run, 0, "w0", w, sizeof w));
    memset(w, 0, sizeof w);
    CHECK_OK(hr_run_get(run, 1, "w0", w, sizeof w)); /* one memory in both graphs */
    CHECK(w[77] == 77.0f);
    hr_run_close(run);
    close_rig(&r);
}

TEST(run, own_ops_refuse_what_makes_no_sense) {
    hr_custom *op = NULL;
    hr_custom_options o = {.size = sizeof o,
                           .name = "bad name",
                           .input_count = 1,
                           .output_count = 1,
                           .shape = same_shape,
                           .run = run_double};
    CHECK_STATUS(hr_custom_create(&o, &op), HR_E_INVALID);
    o.name = "good";
    o.overwrite = 2; /* there is no input 1 */
    CHECK_STATUS(hr_custom_create(&o, &op), HR_E_INVALID);
    o.overwrite = 0;
    o.run = NULL;
    CHECK_STATUS(hr_custom_create(&o, &op), HR_E_INVALID);
    o.run = run_double;
    CHECK_OK(hr_custom_create(&o, &op));
    hr_graph *g;
    hr_error why;
    CHECK_OK(hr_graph_create(&g));
    const hr_value x = hr_graph_input(g, "x", HR_TYPE_I32, hr_shape_1(3));
    CHECK_EQ(hr_graph_custom(g, op, &x, 1), HR_NONE);
    hr_graph_error(g, &why);
    CHECK_EQ(why.code, HR_E_SHAPE);
    CHECK(strstr(why.message, "only f32 is doubled") != NULL);
    hr_graph_destroy(g);
    hr_custom_destroy(op);
}

#ifdef HEADROOM_FAULTS
/* Every place in the dev build; under a sanitizer, where a place takes a tenth of a second, every seventh. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
enum { PLACES = 7 };
#else
enum { PLACES = 1 };
#endif

TEST_TIMEOUT(run, a_fault_in_opening_leaves_nothing_behind, 400) {
    rig r = open_rig();
    float want, is;
    CHECK_OK(run_once(r.host, r.g, 0, &want, NULL));
    const int64_t live = hri_fault_live_allocs();
    for (int for_ever = 0; for_ever < 2; for_ever++) {
        uint64_t delivered = 1, nth = 0;
        while (delivered) {
            hri_fault_set(HRI_FAULT_ANY, nth += for_ever ? 5 * PLACES : PLACES, for_ever);
            const hr_status status = run_once(r.host, r.g, 0, &is, NULL);
            delivered = hri_fault_delivered();
            hri_fault_set(HRI_FAULT_ANY, 0, 0);
            CHECK_EQ(hri_fault_live_allocs(), live);
            CHECK(status == HR_OK ? is == want : delivered > 0);
            CHECK(status != HR_E_INTERNAL);
        }
        CHECK(nth > 50);
    }
    close_rig(&r);
}
#endif

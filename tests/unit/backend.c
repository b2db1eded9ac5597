/* A back end added from outside: a second device in the host's memory with kernels of its own for ten ops.
 *
 * It is made here, without a line in src/ops or src/graph: memory and queues are the host's, the table of kernels is this
 * file's, what the table lacks falls back to the host's.  A small model is trained on it and on the host. */
#include <headroom/headroom.h>

#include <math.h>
#include <string.h>

#include "device/device.h"
#include "device/host/host.h"
#include "graph/op.h"
#include "test.h"

/* ---- its kernels ---- */

enum { OWN_OPS = 10 };
static int calls[OWN_OPS]; /* by entry of the table */
static int wide_calls;     /* uses that `supports` refuses must not come here */

static int all_f32(const hri_sig *s) {
    int yes = s->out[0].type == HR_TYPE_F32;
    for (uint32_t i = 0; i < s->in_count; i++) {
        yes &= s->in[i].type == HR_TYPE_F32;
    }
    return yes;
}

static int same_shapes(const hri_sig *s) {
    int yes = all_f32(s);
    for (uint32_t i = 0; i < s->in_count; i++) {
        yes &= hr_shape_same(&s->in[i].shape, &s->out[0].shape);
    }
    return yes;
}

/* In double, number by number; the host's are vectors of floats. */
static hr_status run_each(const hri_call *c) {
    const int64_t count = hr_shape_count(&c->sig->out[0].shape);
    const hri_scalar *scalar = c->sig->op->scalar;
    wide_calls += !same_shapes(c->sig);
    for (int64_t i = 0; i < count; i++) {
        double x[3] = {0};
        for (uint32_t k = 0; k < scalar->arity; k++) {
            x[k] = (double)((const float *)c->in[k])[i];
        }
        ((float *)c->out[0])[i] = (float)scalar->f(x, c->sig->attr);
    }
    return HR_OK;
}

static hr_status run_bias_add(const hri_call *c) {
    const int64_t count = hr_shape_count(&c->sig->out[0].shape);
    const int64_t width = c->sig->in[1].shape.dim[0];
    const float *x = c->in[0], *bias = c->in[1];
    float *y = c->out[0];
    for (int64_t i = 0; i < count; i++) {
        y[i] = (float)((double)x[i] + (double)bias[i % width]);
    }
    return HR_OK;
}

/* With a work space that the host's has not: the planner must have asked for it. */
static uint64_t sgd_workspace(const hri_sig *s, uint32_t threads) {
    (void)threads;
    return hr_meta_bytes(&s->in[0]);
}

static hr_status run_sgd(const hri_call *c) {
    const int64_t count = hr_shape_count(&c->sig->in[0].shape);
    const float *g = c->in[1], rate = *(const float *)c->in[2];
    float *w = c->out[0], *step = c->workspace;
    for (int64_t i = 0; i < count; i++) {
        step[i] = rate * g[i];
    }
    for (int64_t i = 0; i < count; i++) {
        w[i] -= step[i];
    }
    return HR_OK;
}

static int plain_sgd(const hri_sig *s) {
    return all_f32(s) && s->in_count == 3;
}

#define OWN(I, NAME, SUPPORTS, RUN, WORKSPACE)                                                     \
    static hr_status NAME(const hri_call *c) {                                                     \
        calls[I]++;                                                                                \
        return RUN(c);                                                                             \
    }                                                                                              \
    static const hri_kernel kernel_##NAME = {                                                      \
        .supports = (SUPPORTS), .run = NAME, .workspace = (WORKSPACE)};
OWN(0, own_relu, same_shapes, run_each, NULL)
OWN(1, own_relu_grad, same_shapes, run_each, NULL)
OWN(2, own_tanh, same_shapes, run_each, NULL)
OWN(3, own_tanh_grad, same_shapes, run_each, NULL)
OWN(4, own_sigmoid, same_shapes, run_each, NULL)
OWN(5, own_sigmoid_grad, same_shapes, run_each, NULL)
OWN(6, own_mul, same_shapes, run_each, NULL)
OWN(7, own_add, same_shapes, run_each, NULL)
OWN(8, own_bias_add, all_f32, run_bias_add, NULL)
OWN(9, own_sgd, plain_sgd, run_sgd, sgd_workspace)

static const hri_kernel_entry entries[] = {
    {"relu", &kernel_own_relu},
    {"relu_grad", &kernel_own_relu_grad},
    {"tanh", &kernel_own_tanh},
    {"tanh_grad", &kernel_own_tanh_grad},
    {"sigmoid", &kernel_own_sigmoid},
    {"sigmoid_grad", &kernel_own_sigmoid_grad},
    {"mul", &kernel_own_mul},
    {"add", &kernel_own_add},
    {"bias_add", &kernel_own_bias_add},
    {"sgd", &kernel_own_sgd},
    {NULL, NULL},
};

static const hri_kernels twin_kernels = {.entries = entries, .base = &hri_kernels_host};
static const hri_kernels island_kernels = {.entries = entries}; /* nothing to fall back to */

/* ---- the back ends: the host's memory under other names ---- */

static hri_backend twin, island;

static hr_status probe_as(const hri_backend *self, const hr_ctx_options *options, hri_log *log,
                          hri_lib **out) {
    const hr_status status = hri_backend_host.probe(options, log, out);
    if (status == HR_OK) {
        (*out)->backend = self;
    }
    return status;
}

static hr_status probe_twin(const hr_ctx_options *options, hri_log *log, hri_lib **out) {
    return probe_as(&twin, options, log, out);
}

static hr_status probe_island(const hr_ctx_options *options, hri_log *log, hri_lib **out) {
    return probe_as(&island, options, log, out);
}

static hr_ctx *open_context(void) {
    static const hri_backend *const more[] = {&twin, &island, NULL};
    const hr_ctx_options o = {.size = sizeof o, .no_cuda = 1};
    hr_ctx *ctx;
    twin = hri_backend_host;
    twin.name = "twin";
    twin.kernels = &twin_kernels;
    twin.probe = probe_twin;
    island = twin;
    island.name = "island";
    island.kernels = &island_kernels;
    island.probe = probe_island;
    CHECK_OK(hri_ctx_create_with(&o, more, &ctx));
    memset(calls, 0, sizeof calls);
    wide_calls = 0;
    return ctx;
}

/* ---- the model ---- */

enum { ROWS = 24, IN = 6, WIDTH = 16, CLASSES = 3, STEPS = 40, PARAMS = 7 };

/* h = relu(x w0 + b0); gate = sigmoid(h w1 + b1) * tanh(h w2 + b2) + h; scores = gate v. */
static hr_graph *make_graph(void) {
    hr_graph *g;
    hr_value p[PARAMS], grads[PARAMS];
    CHECK_OK(hr_graph_create(&g));
    const hr_value x = hr_graph_input(g, "x", HR_TYPE_F32, hr_shape_2(ROWS, IN));
    const hr_value ids = hr_graph_input(g, "ids", HR_TYPE_I32, hr_shape_1(ROWS));
    const hr_value rate = hr_graph_input(g, "rate", HR_TYPE_F32, (hr_shape){.rank = 0});
    for (int i = 0; i < 3; i++) {
        const char w[] = {'w', (char)('0' + i), 0}, b[] = {'b', (char)('0' + i), 0};
        p[2 * i] = hr_graph_param(g, w, HR_TYPE_F32, hr_shape_2(i ? WIDTH : IN, WIDTH),
                                  hr_init_normal(0.4));
        p[2 * i + 1] = hr_graph_param(g, b, HR_TYPE_F32, hr_shape_1(WIDTH), hr_init_normal(0.1));
    }
    p[6] = hr_graph_param(g, "v", HR_TYPE_F32, hr_shape_2(WIDTH, CLASSES), hr_init_normal(0.4));
    const hr_value h = hr_relu(g, hr_bias_add(g, hr_matmul(g, x, p[0], 0, 0), p[1]));
    const hr_value a = hr_sigmoid(g, hr_bias_add(g, hr_matmul(g, h, p[2], 0, 0), p[3]));
    const hr_value b = hr_tanh(g, hr_bias_add(g, hr_matmul(g, h, p[4], 0, 0), p[5]));
    const hr_value gate = hr_add(g, hr_mul(g, a, b), h);
    const hr_value loss = hr_cross_entropy(g, hr_matmul(g, gate, p[6], 0, 0), ids, 0);
    hr_graph_result(g, loss, "loss");
    CHECK_OK(hr_graph_differentiate(g, loss, HR_NONE, p, PARAMS, grads));
    for (int i = 0; i < PARAMS; i++) {
        (void)hr_graph_node(g, "sgd", (const hr_value[]){p[i], grads[i], rate}, 3, NULL);
    }
    CHECK_OK(hr_graph_freeze(g));
    return g;
}

static float x_data[ROWS * IN];
static int32_t ids_data[ROWS];

static void make_data(void) {
    for (int i = 0; i < ROWS; i++) {
        ids_data[i] = i % CLASSES;
        for (int k = 0; k < IN; k++) {
            x_data[i * IN + k] = (float)((i * 7 + k * 5) % 11) / 11.0f + (k == i % CLASSES);
        }
    }
}

static hr_status open_run(hr_ctx *ctx, const char *name, const hr_graph *g, uint64_t budget,
                          hr_run **out, hr_error *why) {
    hr_device *device;
    CHECK_OK(hr_device_find(ctx, name, &device));
    const hr_run_options o = {.size = sizeof o,
                              .device = device,
                              .graphs = &g,
                              .graph_count = 1,
                              .budget_bytes = budget,
                              .threads = 2,
                              .seed = 3};
    return hr_run_open(&o, out, why);
}

static void train(hr_run *run, float *losses) {
    const float rate = 0.2f;
    for (int s = 0; s < STEPS; s++) {
        CHECK_OK(hr_run_put(run, 0, "x", x_data, sizeof x_data));
        CHECK_OK(hr_run_put(run, 0, "ids", ids_data, sizeof ids_data));
        CHECK_OK(hr_run_put(run, 0, "rate", &rate, sizeof rate));
        CHECK_OK(hr_run_step(run, 0));
        CHECK_OK(hr_run_get(run, 0, "loss", &losses[s], sizeof losses[s]));
    }
}

TEST(backend, of_its_own_kernels_trains_as_the_host_does) {
    float own[STEPS], host[STEPS];
    hr_ctx *ctx = open_context();
    hr_graph *g = make_graph();
    hr_run *run;
    hr_error why = {.code = HR_OK};
    make_data();
    CHECK_OK(open_run(ctx, "host", g, 0, &run, &why));
    train(run, host);
    hr_run_close(run);
    for (int i = 0; i < OWN_OPS; i++) {
        CHECK_EQ(calls[i], 0); /* the host has its own */
    }
    CHECK_OK(open_run(ctx, "twin:0", g, 0, &run, &why));
    train(run, own);
    hr_run_close(run);
    for (int i = 0; i < OWN_OPS; i++) {
        CHECK_LE(STEPS, calls[i]);
    }
    CHECK_EQ(calls[9], STEPS * PARAMS);
    CHECK_EQ(wide_calls, 0);
    for (int s = 0; s < STEPS; s++) {
        CHECK(fabsf(own[s] - host[s]) < 1e-4f);
    }
    CHECK(own[STEPS - 1] < 0.5f * own[0]);
    hr_graph_destroy(g);
    hr_ctx_destroy(ctx);
}

TEST(backend, without_a_base_refuses_by_name_what_it_lacks) {
    hr_ctx *ctx = open_context();
    hr_graph *g = make_graph();
    hr_run *run = NULL;
    hr_error why = {.code = HR_OK};
    CHECK_EQ(open_run(ctx, "island:0", g, 0, &run, &why), HR_E_UNSUPPORTED);
    CHECK(!run);
    CHECK(strstr(why.message, "matmul"));
    hr_graph_destroy(g);
    hr_ctx_destroy(ctx);
}

TEST(backend, what_a_kernel_does_not_support_falls_back) {
    const hr_meta row = {HR_TYPE_F32, hr_shape_1(4)}, matrix = {HR_TYPE_F32, hr_shape_2(3, 4)};
    const hr_meta small = {HR_TYPE_BF16, hr_shape_2(3, 4)};
    const hr_meta same[] = {matrix, matrix}, wide[] = {matrix, row}, halves[] = {small, small};
    const hr_op *op = hri_op_find("mul");
    const hri_kernel *host = hri_op_host(op, UINT32_MAX);
    const hri_sig a = {op, NULL, 2, 1, same, &matrix}, b = {op, NULL, 2, 1, wide, &matrix};
    const hri_sig c = {op, NULL, 2, 1, halves, &small};
    CHECK(hri_kernel_for(&twin_kernels, &a) == &kernel_own_mul);
    CHECK(hri_kernel_for(&twin_kernels, &b) == host);
    CHECK(hri_kernel_for(&twin_kernels, &c) == host);
    CHECK(hri_kernel_for(&island_kernels, &a) == &kernel_own_mul);
    CHECK(!hri_kernel_for(&island_kernels, &b));
}

TEST(backend, of_another_version_is_refused) {
    static hri_backend old;
    static const hri_backend *const more[] = {&old, NULL};
    const hr_ctx_options o = {.size = sizeof o, .no_cuda = 1};
    hr_ctx *ctx = NULL;
    old = hri_backend_host;
    old.name = "old";
    old.abi = HRI_BACKEND_ABI - 1;
    CHECK_EQ(hri_ctx_create_with(&o, more, &ctx), HR_E_UNSUPPORTED);
    old.abi = HRI_BACKEND_ABI;
    old.kernels = NULL;
    CHECK_EQ(hri_ctx_create_with(&o, more, &ctx), HR_E_UNSUPPORTED);
    CHECK(!ctx);
}

/* A custom op: softplus(x) = log(1 + exp(x)), with its gradient.  Uses the public API only.
 *
 * It takes two ops: softplus, and softplus_grad for its gradient, which is the sigmoid of x times dy.  The gradient is a
 * node of the graph, so the planner can decide whether to keep x for it or to recompute x.  Both ops work in place.
 *
 * Checks the values, the gradient against finite differences, and that a tighter budget gives the same bits.
 * Exits 0 if all of that holds, 1 if not, 3 on failure. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <headroom/headroom.h>

enum { ROWS = 4096, WIDTH = 256, LAYERS = 8 };

static void fail(const char *what, const char *why) {
    fprintf(stderr, "own_op: %s: %s\n", what, why);
    exit(3);
}

/* ---- the op ---- */

static hr_status same_shape(void *user, const hr_meta *in, uint32_t count, hr_meta *out,
                            const char **why) {
    (void)user;
    for (uint32_t i = 0; i < count; i++) {
        if (in[i].type != HR_TYPE_F32 || !hr_shape_same(&in[i].shape, &in[0].shape)) {
            *why = "inputs must be f32 and have the same shape";
            return HR_E_SHAPE;
        }
    }
    out[0] = in[0];
    return HR_OK;
}

static void softplus_piece(void *arg, uint64_t begin, uint64_t end) {
    const hr_custom_call *c = arg;
    const float *x = c->in[0];
    float *y = c->out[0];
    for (uint64_t i = begin; i < end; i++) { /* log(1 + e^x) without overflow */
        y[i] = (x[i] > 0 ? x[i] : 0) + log1pf(expf(-fabsf(x[i])));
    }
}

static hr_status softplus_run(void *user, const hr_custom_call *c) {
    (void)user;
    hr_custom_call call = *c;
    hr_custom_parallel(c, (uint64_t)hr_shape_count(&c->in_meta[0].shape), 4096, softplus_piece,
                       &call);
    return HR_OK;
}

static void softplus_grad_piece(void *arg, uint64_t begin, uint64_t end) {
    const hr_custom_call *c = arg;
    const float *dy = c->in[0], *x = c->in[1];
    float *dx = c->out[0];
    for (uint64_t i = begin; i < end; i++) {
        dx[i] = dy[i] / (1 + expf(-x[i]));
    }
}

static hr_status softplus_grad_run(void *user, const hr_custom_call *c) {
    (void)user;
    hr_custom_call call = *c;
    hr_custom_parallel(c, (uint64_t)hr_shape_count(&c->in_meta[0].shape), 4096, softplus_grad_piece,
                       &call);
    return HR_OK;
}

/* `user` is softplus_grad. */
static void softplus_slope(void *user, hr_graph *g, hr_custom_grad *c) {
    const hr_value in[] = {c->dout[0], c->in[0]};
    c->din[0] = hr_graph_custom(g, user, in, 2);
}

static hr_custom *make_op(const hr_custom_options *o) {
    hr_custom *op;
    if (hr_custom_create(o, &op) != HR_OK) {
        fail("op", "refused");
    }
    return op;
}

/* ---- a model that uses it ---- */

static hr_graph *make_graph(const hr_custom *softplus) {
    hr_graph *g;
    hr_value w[LAYERS], grads[LAYERS];
    if (hr_graph_create(&g) != HR_OK) {
        fail("graph", "out of memory");
    }
    hr_value x = hr_graph_input(g, "x", HR_TYPE_F32, hr_shape_2(ROWS, WIDTH));
    for (int i = 0; i < LAYERS; i++) {
        char name[16];
        snprintf(name, sizeof name, "w%d", i);
        w[i] = hr_graph_param(g, name, HR_TYPE_F32, hr_shape_2(WIDTH, WIDTH), hr_init_normal(0.06));
        x = hr_matmul(g, x, w[i], 0, 0);
        x = hr_graph_custom(g, softplus, &x, 1);
    }
    const hr_value loss = hr_mean(g, hr_mul(g, x, x), NULL, 0);
    hr_graph_result(g, loss, "loss");
    if (hr_graph_differentiate(g, loss, HR_NONE, w, LAYERS, grads) == HR_OK) {
        hr_graph_result(g, grads[0], "dw0");
    }
    if (hr_graph_freeze(g) != HR_OK) {
        hr_error error;
        hr_graph_error(g, &error);
        fail("graph", error.message);
    }
    return g;
}

typedef struct answer {
    float loss;
    float dw0[WIDTH][WIDTH];
    hr_run_report report;
} answer;

/* One step; `nudge` is added to row 0 of w0 first. */
static void run_once(hr_device *host, const hr_graph *g, uint64_t budget, float nudge,
                     answer *out) {
    static float x[ROWS][WIDTH], w0[WIDTH][WIDTH];
    const hr_run_options o = {.size = sizeof o,
                              .device = host,
                              .graphs = &g,
                              .graph_count = 1,
                              .budget_bytes = budget,
                              .seed = 3};
    hr_run *run;
    hr_error error;
    if (hr_run_open(&o, &run, &error) != HR_OK) {
        fail("plan", error.message);
    }
    for (int i = 0; i < ROWS * WIDTH; i++) {
        x[i / WIDTH][i % WIDTH] = sinf((float)i);
    }
    int ok = hr_run_get(run, 0, "w0", w0, sizeof w0) == HR_OK;
    for (int k = 0; k < WIDTH; k++) {
        w0[0][k] += nudge;
    }
    ok = ok && hr_run_put(run, 0, "w0", w0, sizeof w0) == HR_OK &&
         hr_run_put(run, 0, "x", x, sizeof x) == HR_OK && hr_run_step(run, 0) == HR_OK &&
         hr_run_get(run, 0, "loss", &out->loss, sizeof out->loss) == HR_OK &&
         hr_run_get(run, 0, "dw0", out->dw0, sizeof out->dw0) == HR_OK;
    if (!ok) {
        hr_run_error(run, &error);
        fail("run", error.message);
    }
    out->report.size = sizeof out->report;
    hr_run_get_report(run, &out->report);
    hr_run_close(run);
}

int main(void) {
    static answer plain, tight, up, down;
    hr_ctx *ctx;
    hr_device *host;
    if (hr_ctx_create(NULL, &ctx) != HR_OK || hr_device_find(ctx, "host", &host) != HR_OK) {
        fail("context", "none");
    }
    hr_custom *grad = make_op(&(hr_custom_options){.size = sizeof(hr_custom_options),
                                                   .name = "softplus_grad",
                                                   .input_count = 2,
                                                   .output_count = 1,
                                                   .shape = same_shape,
                                                   .run = softplus_grad_run,
                                                   .overwrite = 3,
                                                   .flops_per_element = 20});
    hr_custom *softplus = make_op(&(hr_custom_options){.size = sizeof(hr_custom_options),
                                                       .name = "softplus",
                                                       .input_count = 1,
                                                       .output_count = 1,
                                                       .shape = same_shape,
                                                       .slope = softplus_slope,
                                                       .run = softplus_run,
                                                       .overwrite = 1,
                                                       .flops_per_element = 40,
                                                       .user = grad});
    hr_graph *g = make_graph(softplus);
    run_once(host, g, 0, 0, &plain);
    /* Half of the unconstrained arena, on top of what is needed anyway. */
    const hr_run_report *r = &plain.report;
    const uint64_t half = r->runtime_bytes + (8 << 20) + r->persistent_bytes + r->arena_bytes / 2;
    run_once(host, g, half, 0, &tight);
    run_once(host, g, 0, 1e-2f, &up);
    run_once(host, g, 0, -1e-2f, &down);
    double sum = 0;
    for (int k = 0; k < WIDTH; k++) {
        sum += (double)plain.dw0[0][k];
    }
    const double slope = ((double)up.loss - (double)down.loss) / 2e-2;
    printf("loss %.6f; gradient of row 0 of w0 %.6f, by finite differences %.6f\n",
           (double)plain.loss, sum, slope);
    printf("arena %.1f MiB unconstrained, %.1f MiB with half of it: %llu ops recomputed, %s bits\n",
           (double)plain.report.arena_bytes / 0x1p20, (double)tight.report.arena_bytes / 0x1p20,
           (unsigned long long)tight.report.recomputed_ops,
           memcmp(plain.dw0, tight.dw0, sizeof plain.dw0) ? "DIFFERENT" : "the same");
    const int good = fabs(slope - sum) < 0.02 * fabs(slope) + 1e-5 &&
                     !memcmp(plain.dw0, tight.dw0, sizeof plain.dw0) &&
                     !memcmp(&plain.loss, &tight.loss, sizeof plain.loss) &&
                     tight.report.arena_bytes < plain.report.arena_bytes;
    hr_graph_destroy(g);
    hr_custom_destroy(softplus);
    hr_custom_destroy(grad);
    hr_ctx_destroy(ctx);
    return good ? 0 : 1;
}

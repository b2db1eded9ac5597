/* A custom training loop: explicit gradients, accumulated over micro-batches, and an update rule that the library does
 * not have.  Uses the public API only.
 *
 *   graph 0   a micro-batch: the loss, its gradients (hr_graph_differentiate), and gradient accumulators
 *   graph 1   the last micro-batch, if it is smaller
 *   graph 2   the update: w <- w - rate * sign(sum), from the accumulators alone
 *
 * The same batch is used whole and as 8 micro-batches of unequal size.  The losses agree, because each micro-batch is
 * weighted by its samples.  Exits 0 if they do and the line is found, 1 if not, 3 on failure. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include <headroom/headroom.h>

enum { SAMPLES = 60, WIDTH = 4, STEPS = 400 };

static float x[SAMPLES][WIDTH], y[SAMPLES][1];

static void fail(const char *what, const char *why) {
    fprintf(stderr, "gradients: %s: %s\n", what, why);
    exit(3);
}

/* y = 2 x0 - x1 + 0.5 x2 + 3. */
static void make_data(void) {
    uint32_t random = 12345;
    for (int i = 0; i < SAMPLES; i++) {
        for (int k = 0; k < WIDTH; k++) {
            random = random * 1664525u + 1013904223u;
            x[i][k] = (float)(random >> 8) / 0x1p23f - 1.0f;
        }
        y[i][0] = 2 * x[i][0] - x[i][1] + 0.5f * x[i][2] + 3;
    }
}

static const char *const names[] = {"weight", "bias"};
static const char *const sums[] = {"weight.sum", "bias.sum"};

static hr_value param(hr_graph *g, int i) {
    const hr_shape shape = i == 0 ? hr_shape_2(1, WIDTH) : hr_shape_1(1);
    return hr_graph_param(g, names[i], HR_TYPE_F32, shape, hr_init_constant(0));
}

static hr_value sum_of(hr_graph *g, int i) {
    const hr_shape shape = i == 0 ? hr_shape_2(1, WIDTH) : hr_shape_1(1);
    return hr_graph_state(g, sums[i], HR_TYPE_F32, shape, hr_init_constant(0));
}

static hr_graph *frozen(hr_graph *g) {
    if (hr_graph_freeze(g) != HR_OK) {
        hr_error error;
        hr_graph_error(g, &error);
        fail("graph", error.message);
    }
    return g;
}

/* Loss and gradients of `samples` samples, added to the accumulators. */
static hr_graph *part(int samples) {
    hr_graph *g;
    hr_value params[2], grads[2];
    if (hr_graph_create(&g) != HR_OK) {
        fail("graph", "out of memory");
    }
    const hr_value in = hr_graph_input(g, "x", HR_TYPE_F32, hr_shape_2(samples, WIDTH));
    const hr_value goal = hr_graph_input(g, "y", HR_TYPE_F32, hr_shape_2(samples, 1));
    const hr_value weight = hr_graph_input(g, "share", HR_TYPE_F32, hr_shape_0());
    const hr_value first = hr_graph_input(g, "first", HR_TYPE_F32, hr_shape_0());
    for (int i = 0; i < 2; i++) {
        params[i] = param(g, i);
    }
    const hr_value loss = hr_mean_squared_error(g, hr_linear(g, in, params[0], params[1]), goal);
    hr_graph_result(g, loss, "loss");
    if (hr_graph_differentiate(g, loss, HR_NONE, params, 2, grads) == HR_OK) {
        for (int i = 0; i < 2; i++) {
            const hr_value add[] = {sum_of(g, i), grads[i], weight, first};
            hr_graph_node(g, "accumulate", add, 4, NULL);
        }
    }
    return frozen(g);
}

/* The sign of a sum is sum / (|sum| + a tiny number); "sgd" subtracts rate times that. */
static hr_graph *update(void) {
    hr_graph *g;
    if (hr_graph_create(&g) != HR_OK) {
        fail("graph", "out of memory");
    }
    const hr_value rate = hr_graph_input(g, "rate", HR_TYPE_F32, hr_shape_0());
    for (int i = 0; i < 2; i++) {
        const hr_value sum = sum_of(g, i);
        const hr_value sign = hr_div(g, sum, hr_affine(g, hr_abs(g, sum), 1.0, 1e-12));
        const hr_value move[] = {param(g, i), sign, rate};
        hr_graph_node(g, "sgd", move, 3, NULL);
    }
    return frozen(g);
}

static void must(hr_run *run, hr_status status) {
    if (status != HR_OK) {
        hr_error error;
        hr_run_error(run, &error);
        fail("run", error.message);
    }
}

/* Trains in micro-batches of `size` samples (the last one may be smaller); returns the loss of the last step. */
static double train(hr_device *host, int size, float weight[WIDTH], float *bias) {
    const int left = SAMPLES % size ? SAMPLES % size : size;
    hr_graph *graphs[] = {part(size), part(left), update()};
    const hr_graph *const list[] = {graphs[0], graphs[1], graphs[2]};
    const hr_run_options o = {.size = sizeof o,
                              .device = host,
                              .graphs = list,
                              .graph_count = 3,
                              .budget_bytes = 96 << 20};
    hr_run *run;
    hr_error error;
    if (hr_run_open(&o, &run, &error) != HR_OK) {
        fail("plan", error.message);
    }
    double loss = 0;
    for (int step = 0; step < STEPS; step++) {
        const float rate = 0.03f * (1.0f - (float)step / STEPS);
        loss = 0;
        for (int at = 0; at < SAMPLES; at += size) {
            const int n = SAMPLES - at < size ? left : size;
            const size_t graph = n == size ? 0 : 1;
            const float share = (float)n / SAMPLES, first = at == 0 ? 1.0f : 0.0f;
            float one;
            must(run, hr_run_put(run, graph, "x", x[at], (uint64_t)n * sizeof x[0]));
            must(run, hr_run_put(run, graph, "y", y[at], (uint64_t)n * sizeof y[0]));
            must(run, hr_run_put(run, graph, "share", &share, sizeof share));
            must(run, hr_run_put(run, graph, "first", &first, sizeof first));
            must(run, hr_run_step(run, graph));
            must(run, hr_run_get(run, graph, "loss", &one, sizeof one));
            loss += (double)share * (double)one;
        }
        must(run, hr_run_put(run, 2, "rate", &rate, sizeof rate));
        must(run, hr_run_step(run, 2));
    }
    must(run, hr_run_get(run, 0, "weight", weight, WIDTH * sizeof *weight));
    must(run, hr_run_get(run, 0, "bias", bias, sizeof *bias));
    hr_run_close(run);
    for (int i = 0; i < 3; i++) {
        hr_graph_destroy(graphs[i]);
    }
    return loss;
}

int main(void) {
    hr_ctx *ctx;
    hr_device *host;
    float weight[2][WIDTH], bias[2];
    make_data();
    if (hr_ctx_create(NULL, &ctx) != HR_OK || hr_device_find(ctx, "host", &host) != HR_OK) {
        fail("context", "none");
    }
    const double whole = train(host, SAMPLES, weight[0], &bias[0]);
    const double parts = train(host, 8, weight[1], &bias[1]); /* 7 of 8 samples and one of 4 */
    printf("whole batch:     loss %.9f  y = %.3f x0 + %.3f x1 + %.3f x2 + %.3f x3 + %.3f\n", whole,
           (double)weight[0][0], (double)weight[0][1], (double)weight[0][2], (double)weight[0][3],
           (double)bias[0]);
    printf("8 micro-batches: loss %.9f\n", parts);
    hr_ctx_destroy(ctx);
    return whole < 1e-4 && fabs(whole - parts) < 1e-5 && fabsf(weight[0][0] - 2) < 0.02f ? 0 : 1;
}

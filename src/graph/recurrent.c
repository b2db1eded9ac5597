/* Recurrent layers of headroom/ops.h, unrolled: one product over all steps, then for each step a small product and a cell.
 *
 * Nothing couples samples, so a batch may be cut anywhere, and every step is a handful of nodes that a plan may make again:
 * what is kept of a step is its gates and its state. */
#include <headroom/ops.h>

#include "base/alloc.h"
#include "graph/graph.h"

typedef hr_value (*cell_fn)(hr_graph *g, hr_value x, hr_value y, hr_value *state);

/* The state is h, c. */
static hr_value lstm_step(hr_graph *g, hr_value x, hr_value y, hr_value *state) {
    const hr_value in[] = {hr_add(g, x, y), state[1]};
    const hr_value h = hr_graph_node(g, "lstm_cell", in, 2, NULL);
    state[1] = h == HR_NONE ? HR_NONE : hr_graph_output(g, h, 1);
    return h;
}

static hr_value gru_step(hr_graph *g, hr_value x, hr_value y, hr_value *state) {
    const hr_value in[] = {x, y, state[0]};
    return hr_graph_node(g, "gru_cell", in, 3, NULL);
}

/* x (N, T, I), w (gates H, I), u (gates H, H). */
static int fits(hr_graph *g, const char *what, hr_value x, hr_value w, hr_value u, int gates) {
    if (x == HR_NONE || w == HR_NONE || u == HR_NONE || g->error.code != HR_OK) {
        return 0;
    }
    const hr_shape xs = hr_graph_meta(g, x).shape, ws = hr_graph_meta(g, w).shape,
                   us = hr_graph_meta(g, u).shape;
    if (xs.rank != 3 || ws.rank != 2 || us.rank != 2 || xs.dim[1] < 1 ||
        us.dim[0] != gates * us.dim[1] || ws.dim[0] != us.dim[0] || ws.dim[1] != xs.dim[2]) {
        hri_graph_fail(
            g, HR_E_SHAPE,
            "%s: expected x (N, T, I) with T at least 1, and weights (%d H, I) and (%d H, H)", what,
            gates, gates);
        return 0;
    }
    return 1;
}

typedef struct unrolling {
    hr_graph *g;
    hr_value u, bias, state[2];
    int backward;
    cell_fn step;
    hr_value *y; /* [T] each (N, 1, H) */
} unrolling;

static void one_step(unrolling *r, hr_value x, int64_t t) {
    const int64_t *dim = hr_graph_meta(r->g, x).shape.dim, batch = dim[0], gates = dim[2];
    x = hr_reshape(r->g, x, hr_shape_2(batch, gates));
    r->state[0] = r->step(r->g, x, hr_linear(r->g, r->state[0], r->u, r->bias), r->state);
    if (r->g->error.code == HR_OK) {
        const int64_t width = hr_graph_meta(r->g, r->state[0]).shape.dim[1];
        r->y[t] = hr_reshape(r->g, r->state[0], hr_shape_3(batch, 1, width));
    }
}

/* The steps of x, which is `count` of them from `first` on.  It is halved until one is left: the gradient of a slice is as
 * large as what it was cut from, so T slices of the whole would cost T squared. */
static void unroll(unrolling *r, hr_value x, int64_t first, int64_t count) {
    if (count == 1) {
        one_step(r, x, first);
        return;
    }
    const int64_t half = count / 2;
    for (int i = 0; i < 2 && r->g->error.code == HR_OK; i++) {
        const int second = i != r->backward;
        const int64_t begin = second ? half : 0, size = second ? count - half : half;
        const hr_value part = hri_nodef(r->g, "slice", &x, 1, "begin=0x%lld,size=-1x%lld",
                                        (long long)begin, (long long)size);
        if (part != HR_NONE) {
            unroll(r, part, first + begin, size);
        }
    }
}

static hr_value layer(hr_graph *g, hr_value x, hr_value w, hr_value u, hr_value bias,
                      hr_value state_bias, int backward, cell_fn step) {
    const int64_t batch = hr_graph_meta(g, x).shape.dim[0],
                  length = hr_graph_meta(g, x).shape.dim[1];
    const hr_value all = hr_linear(g, x, w, bias);
    const hr_value zero = hr_graph_fill(g, hr_graph_meta(g, x).type,
                                        hr_shape_2(batch, hr_graph_meta(g, u).shape.dim[1]), 0.0);
    hr_value *y = zero == HR_NONE ? NULL : hri_calloc((size_t)length, sizeof *y), out = HR_NONE;
    if (y) {
        unrolling r = {g, u, state_bias, {zero, zero}, backward != 0, step, y};
        unroll(&r, all, 0, length);
        out = g->error.code == HR_OK ? hr_concat(g, y, (size_t)length, 1) : HR_NONE;
    } else if (zero != HR_NONE) {
        hri_graph_fail(g, HR_E_NOMEM_HOST, "a recurrent layer of %lld steps", (long long)length);
    }
    hri_free(y);
    return out;
}

hr_value hr_lstm(hr_graph *g, hr_value x, hr_value w, hr_value u, hr_value bias,
                 hr_value state_bias, int backward) {
    return fits(g, "lstm", x, w, u, 4) ? layer(g, x, w, u, bias, state_bias, backward, lstm_step)
                                       : HR_NONE;
}

hr_value hr_gru(hr_graph *g, hr_value x, hr_value w, hr_value u, hr_value bias, hr_value state_bias,
                int backward) {
    return fits(g, "gru", x, w, u, 3) ? layer(g, x, w, u, bias, state_bias, backward, gru_step)
                                      : HR_NONE;
}

/* Batch norm in two halves is batch norm: the same bits of output, statistics and gradients. */
#include <headroom/headroom.h>

#include <stdio.h>
#include <string.h>

#include "graph/graph.h"
#include "run/interpret.h"
#include "test.h"

enum { ROWS = 37, CHANNELS = 21, COUNT = ROWS * CHANNELS };

typedef struct outcome {
    float y[COUNT], mean[CHANNELS], inv[CHANNELS], dx[COUNT], dz[COUNT], dgamma[CHANNELS],
        dbeta[CHANNELS];
} outcome;

static hr_value forward(hr_graph *g, const hr_value *p, int relu, int add, int halves,
                        hr_value *mean, hr_value *inv) {
    hr_value y;
    if (halves) {
        *mean = hr_graph_node(g, "batch_norm_moments", p, 1, "eps=1e-3");
        *inv = hr_graph_output(g, *mean, 1);
        const hr_value in[] = {p[0], p[1], p[2], *mean, *inv, p[3]};
        return hr_graph_node(g, "batch_norm_apply", in, add ? 6 : 5, relu ? "relu" : NULL);
    }
    y = relu ? hr_batch_norm_relu(g, p[0], p[1], p[2], add ? p[3] : HR_NONE, 1e-3)
             : hr_batch_norm(g, p[0], p[1], p[2], 1e-3);
    *mean = hr_graph_output(g, y, 1);
    *inv = hr_graph_output(g, y, 2);
    return y;
}

static void run(int relu, int add, int halves, outcome *out) {
    hr_graph *g;
    hri_interp *it;
    hr_value p[4], d[4], mean, inv;
    const hr_shape all = hr_shape_2(ROWS, CHANNELS), each = hr_shape_1(CHANNELS);
    CHECK_OK(hr_graph_create(&g));
    p[0] = hr_graph_param(g, "x", HR_TYPE_F32, all, hr_init_normal(2.0));
    p[1] = hr_graph_param(g, "gamma", HR_TYPE_F32, each, hr_init_normal(1.0));
    p[2] = hr_graph_param(g, "beta", HR_TYPE_F32, each, hr_init_normal(0.5));
    p[3] = hr_graph_param(g, "z", HR_TYPE_F32, all, hr_init_normal(1.0));
    const hr_value y = forward(g, p, relu, add, halves, &mean, &inv);
    const hr_value loss = hr_graph_node(g, "mean", (const hr_value[]){hr_mul(g, y, p[0])}, 1, NULL);
    CHECK_OK(hr_graph_differentiate(g, loss, HR_NONE, p, add ? 4 : 3, d));
    const hr_value results[] = {y, mean, inv, d[0], d[1], d[2], add ? d[3] : y};
    float *const to[] = {out->y, out->mean, out->inv, out->dx, out->dgamma, out->dbeta, out->dz};
    for (int i = 0; i < 7; i++) {
        char name[8];
        snprintf(name, sizeof name, "r%d", i);
        hr_graph_result(g, results[i], name);
    }
    CHECK_OK(hr_graph_freeze(g));
    CHECK_OK(hri_interp_create(g, NULL, 11, &it));
    CHECK_OK(hri_interp_run(it, 0, NULL));
    for (int i = 0; i < 7; i++) {
        const hr_meta meta = hr_graph_meta(g, results[i]);
        memcpy(to[i], hri_interp_data(it, results[i]), hr_meta_bytes(&meta));
    }
    hri_interp_destroy(it);
    hr_graph_destroy(g);
}

TEST(batch_norm, in_two_halves_has_the_same_bits) {
    static const int forms[][2] = {{0, 0}, {1, 0}, {1, 1}};
    for (int i = 0; i < 3; i++) {
        static outcome whole, halves;
        run(forms[i][0], forms[i][1], 0, &whole);
        run(forms[i][0], forms[i][1], 1, &halves);
        CHECK(whole.inv[0] > 0.0f && whole.dx[0] != 0.0f);
        CHECK(!memcmp(&whole, &halves, sizeof whole));
    }
}

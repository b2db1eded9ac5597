/* Batch norm in two halves is batch norm, with a mask for its gradient too: the same bits of output, statistics and gradients. */
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
        if (halves > 1) {
            return hr_graph_node(g, "batch_norm_apply_mask", in, 6, NULL);
        }
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
        if (forms[i][1]) {
            run(1, 1, 2, &halves);
            CHECK(!memcmp(&whole, &halves, sizeof whole));
        }
    }
}

/* Two blocks of a residual network, as a model builds them. */
static hr_status build(void *user, hr_graph *g, int64_t batch, int training) {
    const hr_value x = hr_graph_input(g, "image", HR_TYPE_F32, hr_shape_2(batch, CHANNELS));
    hr_value y = x;
    (void)user;
    (void)training;
    for (int i = 0; i < 2; i++) {
        char name[8];
        snprintf(name, sizeof name, "w%d", i);
        const hr_value w = hr_graph_param(g, name, HR_TYPE_F32, hr_shape_2(CHANNELS, CHANNELS),
                                          hr_init_normal(0.3));
        const hr_value of = hr_matmul(g, y, w, 0, 0);
        const hr_value mean = hr_graph_node(g, "batch_norm_moments", &of, 1, NULL);
        const hr_value ones = hr_graph_fill(g, HR_TYPE_F32, hr_shape_1(CHANNELS), 1.0);
        const hr_value in[] = {of, ones, ones, mean, hr_graph_output(g, mean, 1), y};
        y = hr_graph_node(g, "batch_norm_apply", in, 6, "relu");
    }
    hr_graph_result(g, hr_graph_node(g, "mean", &y, 1, NULL), "loss");
    return HR_OK;
}

static int count(const hr_graph *g, const char *op) {
    int n = 0;
    for (uint32_t i = 0; i < g->node_count; i++) {
        n += !strcmp(g->nodes[i].sig.op->name, op);
    }
    return n;
}

TEST(batch_norm, that_is_trained_keeps_bits_and_one_that_is_evaluated_does_not) {
    hr_train_options o = {.size = sizeof o};
    hr_error why = {0};
    hr_graph *g;
    static const hr_step_kind kinds[] = {HR_STEP_WHOLE, HR_STEP_EVALUATE};
    for (int i = 0; i < 2; i++) {
        CHECK_OK(hr_step_build(&o, build, NULL, kinds[i], 8, &g, &why));
        CHECK_EQ(count(g, "batch_norm_apply_mask"), i ? 0 : 2);
        CHECK_EQ(count(g, "batch_norm_mask_grad"), i ? 0 : 2);
        CHECK_EQ(count(g, "batch_norm_apply"), i ? 2 : 0);
        hr_graph_destroy(g);
    }
}

/* The gradient of a 1 x 1 convolution and its batch norm in one op: where it is made, and that it is the gradient. */
#include <headroom/headroom.h>

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "graph/graph.h"
#include "run/interpret.h"
#include "test.h"

static int count(const hr_graph *g, const char *op) {
    int n = 0;
    for (uint32_t i = 0; i < g->node_count; i++) {
        n += !strcmp(g->nodes[i].sig.op->name, op);
    }
    return n;
}

static int folds(const char *model, const char *precision, int64_t batch) {
    hr_train_options o = {.size = sizeof o,
                          .precision =
                              strcmp(precision, "bf16") ? HR_PRECISION_F32 : HR_PRECISION_BF16};
    hr_error why = {0};
    hr_model *m;
    hr_graph *g;
    CHECK_OK(hr_model_open(model, &m, &why));
    CHECK_OK(hr_step_build(&o, hr_model_build, m, HR_STEP_WHOLE, batch, &g, &why));
    const int n = count(g, "conv_norm_grad");
    CHECK_EQ(count(g, "batch_norm_apply_mask") + count(g, "batch_norm_apply"),
             n + count(g, "batch_norm_mask_grad") + count(g, "batch_norm_relu_grad") +
                 count(g, "batch_norm_grad"));
    hr_graph_destroy(g);
    hr_model_close(m);
    return n;
}

/* The last convolutions of blocks of 56, 28 and 14 pixels: 3, 4 and 6; not those of 7.  And the one beside the first block, the only one
 * of its kind without a stride. */
TEST(conv_norm, gradients_of_resnet50_are_one_op_in_three_stages) {
    CHECK_EQ(folds("resnet50", "bf16", 4), 14);
    CHECK_EQ(folds("resnet50", "bf16", 1), 14);
    CHECK_EQ(folds("resnet50", "f32", 4), 0);
    CHECK_EQ(folds("resnet50:size=32", "bf16", 4), 0);
    CHECK_EQ(folds("resnet18", "bf16", 4), 0); /* its last windows are of three pixels */
}

enum { N = 2, SIDE = 14, K = 8, C = 32, PIXELS = N * SIDE * SIDE };

typedef struct outcome {
    float a[PIXELS * K], w[K * C], gamma[C], beta[C], z[PIXELS * C];
    int folds;
} outcome;

enum { AS_IT_IS, READ_AGAIN, WANTED, FROZEN };

static hr_value small(hr_graph *g, hr_value v) {
    return hr_graph_node(g, "cast", &v, 1, "to=bf16");
}

/* `how`: what keeps the gradient in two ops. */
static void run(int how, outcome *out) {
    hr_graph *g;
    hri_interp *it;
    hr_value p[6], d[6];
    CHECK_OK(hr_graph_create(&g));
    const int64_t a[] = {N, SIDE, SIDE, K}, w[] = {1, 1, K, C}, z[] = {N, SIDE, SIDE, C};
    p[0] = hr_graph_param(g, "a", HR_TYPE_F32, hr_shape_from(4, a), hr_init_normal(1.0));
    p[1] = hr_graph_param(g, "w", HR_TYPE_F32, hr_shape_from(4, w), hr_init_normal(0.5));
    p[2] = hr_graph_param(g, "gamma", HR_TYPE_F32, hr_shape_1(C), hr_init_normal(1.0));
    p[3] = hr_graph_param(g, "beta", HR_TYPE_F32, hr_shape_1(C), hr_init_normal(0.5));
    p[4] = hr_graph_param(g, "z", HR_TYPE_F32, hr_shape_from(4, z), hr_init_normal(1.0));
    const hr_value of = hr_relu(g, small(g, p[0]));
    const hr_value x = hr_graph_node(g, "conv2d", (const hr_value[]){of, small(g, p[1])}, 2, NULL);
    const hr_value mean = hr_graph_node(g, "batch_norm_moments", &x, 1, NULL);
    const hr_value in[] = {x, p[2], p[3], mean, hr_graph_output(g, mean, 1), small(g, p[4])};
    const hr_value y = hr_graph_node(g, "batch_norm_apply_mask", in, 6, NULL);
    if (how == READ_AGAIN) {
        (void)hr_graph_node(g, "stop_gradient", &x, 1, NULL);
    }
    const hr_value loss = hr_graph_node(g, "mean", (const hr_value[]){hr_mul(g, y, y)}, 1, NULL);
    p[5] = x;
    size_t wanted = how == WANTED ? 6 : 5;
    if (how == FROZEN) { /* no gradient of w */
        p[1] = p[0];
    }
    CHECK_OK(hr_graph_differentiate(g, loss, HR_NONE, p, wanted, d));
    float *const to[] = {out->a, out->w, out->gamma, out->beta, out->z};
    for (int i = 0; i < 5; i++) {
        char name[8];
        CHECK(d[i] != HR_NONE);
        snprintf(name, sizeof name, "r%d", i);
        hr_graph_result(g, d[i], name);
    }
    out->folds = count(g, "conv_norm_grad");
    CHECK_OK(hr_graph_freeze(g));
    CHECK_OK(hri_interp_create(g, NULL, 11, &it));
    CHECK_OK(hri_interp_run(it, 0, NULL));
    for (int i = 0; i < 5 && how != FROZEN; i++) {
        const hr_meta meta = hr_graph_meta(g, d[i]);
        CHECK_EQ(meta.type, HR_TYPE_F32);
        memcpy(to[i], hri_interp_data(it, d[i]), hr_meta_bytes(&meta));
    }
    hri_interp_destroy(it);
    hr_graph_destroy(g);
}

/* The difference of two vectors over the second's length. */
static double apart(const float *x, const float *y, int n) {
    double off = 0.0, length = 0.0;
    for (int i = 0; i < n; i++) {
        off += ((double)x[i] - (double)y[i]) * ((double)x[i] - (double)y[i]);
        length += (double)y[i] * (double)y[i];
    }
    return sqrt(off / length);
}

TEST(conv_norm, the_gradient_in_one_op_is_that_of_three) {
    static outcome one, three;
    run(AS_IT_IS, &one);
    run(READ_AGAIN, &three);
    CHECK_EQ(one.folds, 1);
    CHECK_EQ(three.folds, 0);
    CHECK(!memcmp(one.beta, three.beta, sizeof one.beta) || apart(one.beta, three.beta, C) < 1e-6);
    CHECK(!memcmp(one.z, three.z, sizeof one.z));
    CHECK(apart(one.a, three.a, PIXELS * K) < 1e-2);
    CHECK(apart(one.w, three.w, K * C) < 1e-2);
    CHECK(apart(one.gamma, three.gamma, C) < 1e-2);
}

TEST(conv_norm, the_gradient_stays_in_three_ops_where_one_would_not_do) {
    static outcome out;
    run(WANTED, &out);
    CHECK_EQ(out.folds, 0);
    run(FROZEN, &out);
    CHECK_EQ(out.folds, 0);
}

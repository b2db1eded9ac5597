/* Weights of products with a bias are turned where they are cast, when nothing else reads them, and nothing is computed differently. */
#include <headroom/headroom.h>

#include <string.h>

#include "graph/graph.h"
#include "run/interpret.h"
#include "step/step_int.h"
#include "test.h"

enum { ROWS = 5, IN = 11, OUT = 24, LAST = 16 };

typedef struct net {
    hr_graph *g;
    hr_value wide, narrow, loss, dx, dw, db; /* casts of the weights, gradients */
} net;

static hr_value small(hr_graph *g, const char *name, hr_shape shape) {
    const hr_value w = hr_graph_param(g, name, HR_TYPE_F32, shape, hr_init_normal(0.5));
    return hr_cast(g, w, HR_TYPE_BF16);
}

/* x (ROWS, IN), a product with a bias, one without. */
static net net_of(void) {
    net n;
    CHECK_OK(hr_graph_create(&n.g));
    hr_graph *g = n.g;
    const hr_value x = small(g, "x", hr_shape_2(ROWS, IN)), b = small(g, "b", hr_shape_1(OUT));
    n.wide = small(g, "wide", hr_shape_2(OUT, IN));
    n.narrow = small(g, "narrow", hr_shape_2(LAST, OUT));
    const hr_value y = hr_linear(g, hr_relu(g, hr_linear(g, x, n.wide, b)), n.narrow, HR_NONE);
    const hr_value wanted[] = {x, n.wide, b};
    hr_value grads[3];
    n.loss = hr_sum(g, hr_cast(g, hr_mul(g, y, y), HR_TYPE_F32), NULL, 0);
    CHECK_OK(hr_graph_differentiate(g, n.loss, HR_NONE, wanted, 3, grads));
    n.dx = grads[0];
    n.dw = grads[1];
    n.db = grads[2];
    hr_graph_result(g, n.loss, "loss");
    return n;
}

static const hri_node_record *maker(const hr_graph *g, hr_value v) {
    return &g->nodes[g->values[v].node];
}

static void check_same(hri_interp *a, hri_interp *b, hr_value v, size_t bytes) {
    CHECK(hri_interp_data(a, v) && hri_interp_data(b, v));
    CHECK(!memcmp(hri_interp_data(a, v), hri_interp_data(b, v), bytes));
}

TEST(turn, what_is_computed_has_the_same_bits) {
    net plain = net_of(), turned = net_of();
    hri_interp *a, *b;
    char why[256];
    CHECK_OK(hri_step_turn_weights(turned.g));
    CHECK(!strcmp(maker(turned.g, turned.wide)->sig.op->name, "cast_turned"));
    CHECK(!strcmp(maker(turned.g, turned.narrow)->sig.op->name, "cast")); /* it has no bias */
    const hr_shape *shape = &turned.g->values[turned.wide].meta.shape;
    CHECK(shape->dim[0] == IN && shape->dim[1] == OUT);
    hr_graph_result(plain.g, plain.dx, "dx");
    hr_graph_result(turned.g, turned.dx, "dx");
    hr_graph_result(plain.g, plain.dw, "dw");
    hr_graph_result(turned.g, turned.dw, "dw");
    CHECK_OK(hr_graph_freeze(plain.g));
    CHECK_OK(hr_graph_freeze(turned.g));
    CHECK_OK(hri_graph_verify(turned.g, why, sizeof why));
    CHECK_OK(hri_interp_create(plain.g, NULL, 7, &a));
    CHECK_OK(hri_interp_create(turned.g, NULL, 7, &b));
    CHECK_OK(hri_interp_run(a, 0, NULL));
    CHECK_OK(hri_interp_run(b, 0, NULL));
    CHECK(*(float *)hri_interp_data(a, plain.loss) > 1.0f);
    check_same(a, b, plain.loss, sizeof(float));
    check_same(a, b, plain.dx, ROWS * IN * 2);
    check_same(a, b, plain.dw, OUT * IN * 2);
    hri_interp_destroy(a);
    hri_interp_destroy(b);
    hr_graph_destroy(plain.g);
    hr_graph_destroy(turned.g);
}

static int is_turned(hr_graph *g, hr_value v) {
    CHECK_OK(hri_step_turn_weights(g));
    const int turned = !strcmp(maker(g, v)->sig.op->name, "cast_turned");
    hr_graph_destroy(g);
    return turned;
}

TEST(turn, a_weight_that_anything_else_reads_stays) {
    net n = net_of();
    (void)hr_relu(n.g, n.wide);
    CHECK(!is_turned(n.g, n.wide));
    n = net_of();
    hr_graph_result(n.g, n.wide, "weight");
    CHECK(!is_turned(n.g, n.wide));
    n = net_of();
    (void)hr_graph_node(n.g, "matmul", (const hr_value[]){n.wide, n.wide}, 2, "transpose-b");
    CHECK(!is_turned(n.g, n.wide));
    n = net_of();
    CHECK(is_turned(n.g, n.wide));
}

/* So that replicas with slices have the bits of one. */
TEST(turn, what_is_gathered_of_slices_is_turned_as_well) {
    hr_graph *g;
    CHECK_OK(hr_graph_create(&g));
    const hr_value x = small(g, "x", hr_shape_2(ROWS, IN)), b = small(g, "b", hr_shape_1(OUT));
    const hr_value slice =
        hr_graph_param(g, "w", HR_TYPE_F32, hr_shape_1(OUT * IN), hr_init_normal(1));
    const hr_value whole = hr_graph_node(g, "gather_slices", &slice, 1, "ranks=1,to=24x11");
    const hr_value w = hr_cast(g, whole, HR_TYPE_BF16);
    hr_graph_result(g, hr_linear(g, x, w, b), "y");
    CHECK(is_turned(g, w));
}

/* A line of 10 small numbers is no whole pieces of 16 bytes. */
TEST(turn, few_outputs_stay) {
    hr_graph *g;
    CHECK_OK(hr_graph_create(&g));
    const hr_value x = small(g, "x", hr_shape_2(ROWS, IN)), b = small(g, "b", hr_shape_1(10));
    const hr_value w = small(g, "w", hr_shape_2(10, IN));
    hr_graph_result(g, hr_linear(g, x, w, b), "y");
    CHECK(!is_turned(g, w));
}

/* A product of a model's own with a matrix that it has turned is not touched. */
TEST(turn, what_a_model_turns_itself_stays_as_it_reads_it) {
    hr_graph *g;
    CHECK_OK(hr_graph_create(&g));
    const hr_value w = hr_graph_param(g, "w", HR_TYPE_F32, hr_shape_2(IN, 8), hr_init_normal(1));
    const hr_value x = small(g, "x", hr_shape_2(ROWS, IN));
    const hr_value own = hr_graph_node(g, "cast_turned", &w, 1, "to=bf16");
    const hr_value y = hr_graph_node(g, "matmul", (const hr_value[]){x, own}, 2, "transpose-b");
    hr_graph_result(g, y, "y");
    CHECK_OK(hri_step_turn_weights(g));
    CHECK_OK(hr_graph_freeze(g));
    CHECK(hr_graph_meta(g, y).shape.dim[1] == 8);
    hr_graph_destroy(g);
}

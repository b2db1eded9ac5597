/* The graph: sticky errors that name things, scopes, updates, dead nodes, differentiation, a first training. */
#include <headroom/headroom.h>

#include <math.h>
#include <string.h>

#include "graph/graph.h"
#include "run/interpret.h"
#include "test.h"

static hr_graph *new_graph(void) {
    hr_graph *g;
    CHECK_OK(hr_graph_create(&g));
    return g;
}

static void check_error(hr_graph *g, hr_status code, const char *part) {
    hr_error error;
    CHECK_STATUS(hr_graph_freeze(g), code);
    hr_graph_error(g, &error);
    if (!strstr(error.message, part)) {
        test_fail(__FILE__, __LINE__, "\"%s\" does not say \"%s\"", error.message, part);
    }
    hr_graph_destroy(g);
}

TEST(graph, the_first_mistake_names_path_op_and_shapes) {
    hr_graph *g = new_graph();
    const hr_value x = hr_graph_input(g, "x", HR_TYPE_F32, hr_shape_2(3, 4));
    hr_graph_push(g, "layer3.0");
    hr_graph_push(g, "fc");
    const hr_value w =
        hr_graph_param(g, "weight", HR_TYPE_F32, hr_shape_2(5, 6), hr_init_normal(1));
    CHECK_STR(hr_graph_name(g, w), "layer3.0.fc.weight");
    CHECK_EQ(hr_relu(g, hr_matmul(g, x, w, 0, 0)), HR_NONE);
    hr_graph_pop(g);
    hr_graph_pop(g);
    check_error(g, HR_E_SHAPE, "layer3.0.fc.matmul (f32[3,4], f32[5,6]): the inner dimensions");
}

TEST(graph, a_shape_product_that_overflows_is_refused) {
    hr_graph *g = new_graph();
    const int64_t dims[] = {1 << 30, 1 << 30, 1 << 30};
    hr_graph_input(g, "x", HR_TYPE_F32, hr_shape_from(3, dims));
    check_error(g, HR_E_RANGE, "x: f32[1073741824,1073741824,1073741824]");
}

TEST(graph, a_negative_dimension_is_refused) {
    hr_graph *g = new_graph();
    hr_graph_input(g, "x", HR_TYPE_F32, hr_shape_1(-1));
    check_error(g, HR_E_SHAPE, "x: f32[-1]");
}

TEST(graph, shapes_hold_dimensions_beyond_32_bits) {
    const int64_t large = (int64_t)5 << 32;
    CHECK(hr_shape_0().rank == 0);
    CHECK(hr_shape_1(large).dim[0] == large);
    const hr_shape five = hr_shape_5(1, 2, 3, 4, large);
    CHECK(five.rank == 5 && five.dim[0] == 1 && five.dim[3] == 4 && five.dim[4] == large);
    CHECK(hr_shape_2(1, 2).dim[2] == 0);
}

TEST(graph, a_rank_or_an_attribute_that_is_too_long_is_refused) {
    hr_graph *g = new_graph();
    hr_value x = hr_graph_input(g, "x", HR_TYPE_F32, hr_shape_1(3));
    hr_reshape(g, x, (hr_shape){.rank = HR_RANK_MAX + 1});
    check_error(g, HR_E_SHAPE, "reshape: rank 9");
    g = new_graph();
    x = hr_graph_input(g, "x", HR_TYPE_F32, hr_shape_1(3));
    char axes[1000];
    memset(axes, '1', sizeof axes - 1);
    axes[sizeof axes - 1] = 0;
    hr_sum(g, x, axes, 0);
    check_error(g, HR_E_INVALID, "sum: its attributes are longer");
}

TEST(graph, two_values_of_one_name_are_refused) {
    hr_graph *g = new_graph();
    hr_graph_input(g, "x", HR_TYPE_F32, hr_shape_1(3));
    hr_graph_input(g, "x", HR_TYPE_F32, hr_shape_1(3));
    check_error(g, HR_E_EXISTS, "\"x\"");
}

TEST(graph, an_unknown_op_and_an_unknown_attribute_are_refused) {
    hr_graph *g = new_graph();
    hr_value x = hr_graph_input(g, "x", HR_TYPE_F32, hr_shape_1(3));
    hr_graph_node(g, "frobnicate", &x, 1, NULL);
    check_error(g, HR_E_NOT_FOUND, "frobnicate");
    g = new_graph();
    x = hr_graph_input(g, "x", HR_TYPE_F32, hr_shape_1(3));
    hr_graph_node(g, "sum", &x, 1, "axis=0");
    check_error(g, HR_E_NOT_FOUND, "axes");
}

TEST(graph, a_scope_left_open_is_refused) {
    hr_graph *g = new_graph();
    hr_graph_push(g, "layer1");
    check_error(g, HR_E_INVALID, "layer1");
}

TEST(graph, reading_a_weight_after_its_update_is_refused) {
    hr_graph *g = new_graph();
    const hr_value w = hr_graph_param(g, "w", HR_TYPE_F32, hr_shape_1(3), hr_init_constant(1));
    const hr_value rate = hr_graph_input(g, "rate", HR_TYPE_F32, hr_shape_0());
    hr_sgd(g, w, w, rate, HR_NONE, 0, 0, 0);
    hr_graph_result(g, hr_relu(g, w), "late");
    check_error(g, HR_E_INVALID, "overwritten");
}

TEST(graph, what_nobody_needs_is_dropped) {
    hr_graph *g = new_graph();
    const hr_value x = hr_graph_input(g, "x", HR_TYPE_F32, hr_shape_1(3));
    const hr_value y = hr_relu(g, x);
    hr_mul(g, y, y);
    hr_graph_result(g, y, "y");
    CHECK_EQ(hr_graph_node_count(g), 2);
    CHECK_OK(hr_graph_freeze(g));
    CHECK_EQ(hr_graph_node_count(g), 1);
    CHECK_EQ(hr_graph_find(g, "y"), y);
    hr_graph_destroy(g);
}

TEST(graph, a_second_use_is_accumulated_in_place) {
    hr_graph *g = new_graph();
    const hr_value x = hr_graph_param(g, "x", HR_TYPE_F32, hr_shape_1(3), hr_init_constant(2));
    const hr_value loss = hr_sum(g, hr_add(g, hr_mul(g, x, x), x), NULL, 0);
    hr_value grad;
    CHECK_OK(hr_graph_differentiate(g, loss, HR_NONE, &x, 1, &grad));
    const hri_node_record *node = &g->nodes[g->values[grad].node];
    CHECK_STR(node->sig.op->name, "add");
    CHECK(hri_op_may_overwrite(&node->sig, 0, 0));
    CHECK(node->phase == HRI_BACKWARD);
    hr_graph_result(g, grad, "grad");
    CHECK_OK(hr_graph_freeze(g));
    hri_interp *it;
    CHECK_OK(hri_interp_create(g, NULL, 1, &it));
    CHECK_OK(hri_interp_run(it, 0, NULL));
    CHECK(((const float *)hri_interp_data(it, grad))[2] == 5.0f);
    hri_interp_destroy(it);
    hr_graph_destroy(g);
}

static void count_lines(void *user, const char *text) {
    for (; *text; text++) {
        *(int *)user += *text == '\n';
    }
}

TEST(graph, prints_one_line_a_value_and_a_dot_graph) {
    hr_graph *g = new_graph();
    const hr_value x = hr_graph_input(g, "x", HR_TYPE_F32, hr_shape_1(3));
    hr_graph_result(g, hr_relu(g, x), "y");
    int text = 0, dot = 0;
    hr_graph_print(g, HR_GRAPH_TEXT, count_lines, &text);
    hr_graph_print(g, HR_GRAPH_DOT, count_lines, &dot);
    CHECK_EQ(text, 3);
    CHECK(dot >= 4);
    hr_graph_destroy(g);
}

/* Two layers learn x -> class of x: the loss falls below a tenth, with the same bits on 1 and 3 threads. */
static float train(uint32_t threads) {
    hr_graph *g = new_graph();
    const hr_value x = hr_graph_input(g, "x", HR_TYPE_F32, hr_shape_2(8, 5));
    const hr_value ids = hr_graph_input(g, "ids", HR_TYPE_I32, hr_shape_1(8));
    const hr_value rate = hr_graph_input(g, "rate", HR_TYPE_F32, hr_shape_0());
    hr_value w[2], v[2], d[2];
    w[0] = hr_graph_param(g, "a", HR_TYPE_F32, hr_shape_2(16, 5), hr_init_normal(0.5));
    w[1] = hr_graph_param(g, "b", HR_TYPE_F32, hr_shape_2(3, 16), hr_init_normal(0.3));
    const hr_value y = hr_linear(g, hr_relu(g, hr_linear(g, x, w[0], HR_NONE)), w[1], HR_NONE);
    const hr_value loss = hr_cross_entropy(g, y, ids, 0);
    hr_graph_result(g, loss, "loss");
    CHECK_OK(hr_graph_differentiate(g, loss, HR_NONE, w, 2, d));
    for (int i = 0; i < 2; i++) {
        v[i] = hr_graph_state(g, i ? "vb" : "va", HR_TYPE_F32, hr_graph_meta(g, w[i]).shape,
                              hr_init_constant(0));
        hr_sgd(g, w[i], d[i], rate, v[i], 0.9, 0, 0);
    }
    CHECK_OK(hr_graph_freeze(g));
    hri_threads *pool;
    hri_interp *it;
    CHECK_OK(hri_threads_create(threads, &pool));
    CHECK_OK(hri_interp_create(g, pool, 5, &it));
    for (int i = 0; i < 40; i++) {
        ((float *)hri_interp_data(it, x))[i] = sinf((float)(i * i));
    }
    for (int i = 0; i < 8; i++) {
        ((int32_t *)hri_interp_data(it, ids))[i] = i % 3;
    }
    *(float *)hri_interp_data(it, rate) = 0.1f;
    for (uint32_t step = 0; step < 120; step++) {
        CHECK_OK(hri_interp_run(it, step, NULL));
    }
    const float last = *(const float *)hri_interp_data(it, loss);
    hri_interp_destroy(it);
    hri_threads_destroy(pool);
    hr_graph_destroy(g);
    return last;
}

TEST(graph, two_layers_learn_and_threads_do_not_matter) {
    const float one = train(1), three = train(3);
    CHECK(one < 0.1f);
    CHECK(one == three);
}

/* linear_cross_entropy where the cases of its file do not reach: ignored ids, and the agreement with the two ops that it
 * stands for. */
#include <headroom/headroom.h>

#include <math.h>
#include <string.h>

#include "graph/graph.h"
#include "run/interpret.h"
#include "test.h"

enum { ROWS = 9, DEPTH = 6, CLASSES = 400 };

typedef struct outcome {
    float loss, dx[ROWS * DEPTH], dw[CLASSES * DEPTH];
} outcome;

/* Loss and gradients by the one op or by two. */
static hr_status run(const int32_t *ids, int one_op, outcome *out) {
    hr_graph *g;
    hri_interp *it;
    CHECK_OK(hr_graph_create(&g));
    hr_value p[2], d[2];
    p[0] = hr_graph_param(g, "x", HR_TYPE_F32, hr_shape_2(ROWS, DEPTH), hr_init_normal(1.0));
    p[1] = hr_graph_param(g, "w", HR_TYPE_F32, hr_shape_2(CLASSES, DEPTH), hr_init_normal(1.0));
    const hr_value label = hr_graph_input(g, "ids", HR_TYPE_I32, hr_shape_1(ROWS));
    const hr_value loss = one_op
                              ? hr_linear_cross_entropy(g, p[0], p[1], label, 0.1)
                              : hr_cross_entropy(g, hr_linear(g, p[0], p[1], HR_NONE), label, 0.1);
    hr_graph_result(g, loss, "loss");
    CHECK_OK(hr_graph_differentiate(g, loss, HR_NONE, p, 2, d));
    hr_graph_result(g, d[0], "dx");
    hr_graph_result(g, d[1], "dw");
    CHECK_OK(hr_graph_freeze(g));
    CHECK_OK(hri_interp_create(g, NULL, 3, &it));
    memcpy(hri_interp_data(it, label), ids, ROWS * sizeof *ids);
    const hr_status status = hri_interp_run(it, 0, NULL);
    out->loss = *(const float *)hri_interp_data(it, loss);
    memcpy(out->dx, hri_interp_data(it, d[0]), sizeof out->dx);
    memcpy(out->dw, hri_interp_data(it, d[1]), sizeof out->dw);
    hri_interp_destroy(it);
    hr_graph_destroy(g);
    return status;
}

static void check_near(const float *a, const float *b, size_t n) {
    for (size_t i = 0; i < n; i++) {
        CHECK(fabsf(a[i] - b[i]) <= 1e-5f * (1.0f + fabsf(b[i])));
    }
}

TEST(linear_loss, it_is_the_product_and_the_loss_and_ignored_ids_do_not_count) {
    static const int32_t ids[ROWS] = {0, 399, -100, 17, 200, -1, 5, 383, 384};
    static outcome one, two;
    CHECK_OK(run(ids, 1, &one));
    CHECK_OK(run(ids, 0, &two));
    CHECK(two.loss > 1.0f);
    check_near(&one.loss, &two.loss, 1);
    check_near(one.dx, two.dx, ROWS * DEPTH);
    check_near(one.dw, two.dw, CLASSES * DEPTH);
    float others = 0.0f;
    for (size_t k = 0; k < DEPTH; k++) {
        CHECK(one.dx[2 * DEPTH + k] == 0.0f && one.dx[5 * DEPTH + k] == 0.0f);
        others += fabsf(one.dx[k]);
    }
    CHECK(others > 0.0f);
}

TEST(linear_loss, all_ids_ignored_is_a_loss_of_zero) {
    static const int32_t ids[ROWS] = {-1, -1, -1, -1, -1, -1, -1, -1, -1};
    static const outcome zero;
    static outcome one;
    CHECK_OK(run(ids, 1, &one));
    CHECK(one.loss == 0.0f);
    check_near(one.dx, zero.dx, ROWS * DEPTH);
    check_near(one.dw, zero.dw, CLASSES * DEPTH);
}

TEST(linear_loss, an_id_beyond_the_classes_is_refused) {
    static const int32_t ids[ROWS] = {0, 1, 2, 3, CLASSES, 5, 6, 7, 8};
    static outcome one;
    CHECK_STATUS(run(ids, 1, &one), HR_E_RANGE);
}

/* ---- kept scores ---- */

enum { MANY = 13000 }; /* more than two blocks */

typedef struct large {
    float loss, dx[ROWS * DEPTH], dw[MANY * DEPTH];
} large;

static void run_large(const char *attributes, large *out) {
    hr_graph *g;
    hri_interp *it;
    hr_value p[2], d[2];
    CHECK_OK(hr_graph_create(&g));
    p[0] = hr_graph_param(g, "x", HR_TYPE_F32, hr_shape_2(ROWS, DEPTH), hr_init_normal(1.0));
    p[1] = hr_graph_param(g, "w", HR_TYPE_F32, hr_shape_2(MANY, DEPTH), hr_init_normal(1.0));
    const hr_value label = hr_graph_input(g, "ids", HR_TYPE_I32, hr_shape_1(ROWS));
    const hr_value in[] = {p[0], p[1], label};
    const hr_value loss = hr_graph_node(g, "linear_cross_entropy", in, 3, attributes);
    CHECK_OK(hr_graph_differentiate(g, loss, HR_NONE, p, 2, d));
    hr_graph_result(g, loss, "loss");
    hr_graph_result(g, d[0], "dx");
    hr_graph_result(g, d[1], "dw");
    CHECK_OK(hr_graph_freeze(g));
    CHECK_OK(hri_interp_create(g, NULL, 3, &it));
    for (int32_t i = 0; i < ROWS; i++) {
        ((int32_t *)hri_interp_data(it, label))[i] = i == 2 ? -1 : i * (MANY / ROWS);
    }
    CHECK_OK(hri_interp_run(it, 0, NULL));
    out->loss = *(const float *)hri_interp_data(it, loss);
    memcpy(out->dx, hri_interp_data(it, d[0]), sizeof out->dx);
    memcpy(out->dw, hri_interp_data(it, d[1]), sizeof out->dw);
    hri_interp_destroy(it);
    hr_graph_destroy(g);
}

TEST(linear_loss, kept_scores_give_the_same_bits_as_slices) {
    static large slices, kept;
    run_large("smoothing=0.1", &slices);
    run_large("smoothing=0.1,keep", &kept);
    CHECK(slices.loss > 1.0f);
    CHECK(!memcmp(&slices, &kept, sizeof kept));
}

/* ---- loss and gradients together ---- */

static void run_together(const int32_t *ids, float by, const char *attributes, outcome *out) {
    hr_graph *g;
    hri_interp *it;
    hr_value p[2], d[2];
    CHECK_OK(hr_graph_create(&g));
    p[0] = hr_graph_param(g, "x", HR_TYPE_F32, hr_shape_2(ROWS, DEPTH), hr_init_normal(1.0));
    p[1] = hr_graph_param(g, "w", HR_TYPE_F32, hr_shape_2(CLASSES, DEPTH), hr_init_normal(1.0));
    const hr_value label = hr_graph_input(g, "ids", HR_TYPE_I32, hr_shape_1(ROWS));
    const hr_value seed = hr_graph_fill(g, HR_TYPE_F32, hr_shape_0(), 1.0);
    const hr_value other = hr_graph_fill(g, HR_TYPE_F32, hr_shape_0(), (double)by);
    const hr_value in[] = {p[0], p[1], label, seed};
    const hr_value loss = hr_graph_node(g, "linear_cross_entropy_train", in, 4, attributes);
    CHECK_OK(hr_graph_differentiate(g, loss, by == 1.0f ? seed : other, p, 2, d));
    if (by == 1.0f && !strstr(attributes, "frozen")) { /* nothing was made for it */
        CHECK(d[0] == hr_graph_output(g, loss, 2) && d[1] == hr_graph_output(g, loss, 3));
    }
    hr_graph_result(g, loss, "loss");
    hr_graph_result(g, d[0], "dx");
    hr_graph_result(g, d[1], "dw");
    CHECK_OK(hr_graph_freeze(g));
    CHECK_OK(hri_interp_create(g, NULL, 3, &it));
    memcpy(hri_interp_data(it, label), ids, ROWS * sizeof *ids);
    CHECK_OK(hri_interp_run(it, 0, NULL));
    out->loss = *(const float *)hri_interp_data(it, loss);
    memcpy(out->dx, hri_interp_data(it, d[0]), sizeof out->dx);
    memcpy(out->dw, hri_interp_data(it, d[1]), sizeof out->dw);
    hri_interp_destroy(it);
    hr_graph_destroy(g);
}

TEST(linear_loss, made_together_is_made_apart) {
    static const int32_t ids[ROWS] = {0, 399, -100, 17, 200, -1, 5, 383, 384};
    static outcome apart, together, twice, frozen;
    CHECK_OK(run(ids, 1, &apart));
    run_together(ids, 1.0f, "smoothing=0.1", &together);
    check_near(&together.loss, &apart.loss, 1);
    check_near(together.dx, apart.dx, ROWS * DEPTH);
    check_near(together.dw, apart.dw, CLASSES * DEPTH);
    /* Asked at another dloss, or for what it did not make, it makes the gradients apart. */
    run_together(ids, 2.0f, "smoothing=0.1", &twice);
    run_together(ids, 1.0f, "smoothing=0.1,frozen", &frozen);
    check_near(frozen.dw, apart.dw, CLASSES * DEPTH);
    for (size_t i = 0; i < CLASSES * DEPTH; i++) {
        apart.dw[i] *= 2.0f;
    }
    check_near(twice.dw, apart.dw, CLASSES * DEPTH);
}

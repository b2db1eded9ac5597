/* Which graphs may be computed part by part of a batch: a sum or a mean over samples is known of a part only. */
#include <headroom/headroom.h>

#include "plan/from_graph.h"
#include "test.h"

/* The loss of x (8, 3). */
typedef hr_value loss_of(hr_graph *g, hr_value x);

/* Does any op of it depend on the whole batch? */
static int is_coupled(loss_of *f) {
    hr_graph *g;
    hri_graph_problem x;
    hri_prose why = {""};
    int found = 0;
    CHECK_OK(hr_graph_create(&g));
    hr_graph_result(g, f(g, hr_graph_input(g, "x", HR_TYPE_F32, hr_shape_2(8, 3))), "loss");
    CHECK_OK(hr_graph_freeze(g));
    CHECK_OK(hri_problem_from_graph(g, NULL, &x, &why));
    for (uint32_t n = 0; n < x.problem.op_count; n++) {
        found |= x.problem.ops[n].coupled;
    }
    hri_graph_problem_deinit(&x);
    hr_graph_destroy(g);
    return found;
}

static hr_value number(hr_graph *g, double x) {
    return hr_graph_fill(g, HR_TYPE_F32, hr_shape_0(), x);
}

static hr_value mean(hr_graph *g, hr_value x) {
    return hr_mean(g, hr_power(g, x, 2), NULL, 0);
}

static hr_value sum(hr_graph *g, hr_value x) {
    return hr_sum(g, x, NULL, 0);
}

static hr_value means(hr_graph *g, hr_value x) {
    return hr_affine(g, hr_add(g, hr_mean(g, hr_mean(g, x, "0", 0), NULL, 0), mean(g, x)), 0.5, 1);
}

static hr_value what_counts(hr_graph *g, hr_value x) {
    const hr_value mask = hr_compare(g, x, number(g, 0), "greater");
    return hr_div(g, sum(g, hr_mul(g, x, mask)), hr_maximum(g, sum(g, mask), number(g, 1)));
}

static hr_value centred(hr_graph *g, hr_value x) {
    return mean(g, hr_sub(g, x, hr_mean(g, x, "0", 1)));
}

static hr_value square_of_a_mean(hr_graph *g, hr_value x) {
    return hr_power(g, mean(g, x), 2);
}

static hr_value product_of_means(hr_graph *g, hr_value x) {
    return hr_mul(g, mean(g, x), mean(g, x));
}

static hr_value sum_and_mean(hr_graph *g, hr_value x) {
    return hr_add(g, mean(g, x), sum(g, x));
}

TEST(samples, means_of_samples_and_what_is_linear_in_them_may_be_split) {
    CHECK(!is_coupled(mean));
    CHECK(!is_coupled(means));
    CHECK(!is_coupled(what_counts));
}

TEST(samples, what_meets_samples_again_or_is_not_linear_may_not) {
    CHECK(is_coupled(centred));
    CHECK(is_coupled(square_of_a_mean));
    CHECK(is_coupled(product_of_means));
}

static hr_value labels(hr_graph *g) {
    return hr_graph_input(g, "labels", HR_TYPE_I32, hr_shape_1(8));
}

static hr_value entropy(hr_graph *g, hr_value x) {
    return hr_cross_entropy(g, x, labels(g), 0);
}

static hr_value entropy_and_mean(hr_graph *g, hr_value x) {
    return hr_add(g, entropy(g, x), mean(g, x));
}

static hr_value entropy_of_made_labels(hr_graph *g, hr_value x) {
    const hr_value ids =
        hr_cast(g, hr_affine(g, hr_cast(g, labels(g), HR_TYPE_F32), 1, 0), HR_TYPE_I32);
    return hr_cross_entropy(g, x, ids, 0);
}

TEST(samples, a_mean_over_labels_that_count_stands_alone) {
    CHECK(is_coupled(entropy) == HRI_APART);
    CHECK(is_coupled(entropy_and_mean) == HRI_COUPLED_BY_LABELS);
    CHECK(is_coupled(entropy_of_made_labels) == HRI_COUPLED); /* nobody knows how many count */
}

TEST(samples, a_loss_that_is_a_sum_may_not) {
    CHECK(is_coupled(sum));
    CHECK(is_coupled(sum_and_mean));
}

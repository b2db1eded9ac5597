/* attention_masked where conformance cannot look: keys hidden by -inf, queries that see nothing, masks that are learnt, and
 * gradients that stop. */
#include <headroom/headroom.h>

#include <math.h>
#include <string.h>

#include "graph/graph.h"
#include "run/interpret.h"
#include "test.h"

enum { T = 3, S = 5, SEEN = 4, H = 2, D = 4 };

typedef struct outcome {
    float o[T * H * D], dq[T * H * D], dk[S * H * D], dv[S * H * D];
} outcome;

enum { LACKS, BY_NUMBERS, BY_BYTES };

/* Hidden are keys from SEEN on from all queries, and all keys from query 1.  LACKS: only SEEN keys are there. */
static void run(int hide, outcome *out) {
    const int64_t keys = hide != LACKS ? S : SEEN;
    hr_graph *g;
    hri_interp *it;
    float mask[T * S] = {0};
    uint8_t shown[T * S] = {0};
    hr_value d[3];
    CHECK_OK(hr_graph_create(&g));
    const hr_value in[] = {
        hr_graph_param(g, "q", HR_TYPE_F32, hr_shape_4(1, T, H, D), hr_init_normal(1.0)),
        hr_graph_param(g, "k", HR_TYPE_F32, hr_shape_4(1, keys, H, D), hr_init_normal(1.0)),
        hr_graph_param(g, "v", HR_TYPE_F32, hr_shape_4(1, keys, H, D), hr_init_normal(1.0))};
    for (int i = 0; i < T * S; i++) {
        mask[i] = i / S == 1 || i % S >= SEEN ? -INFINITY : 0.0f;
        shown[i] = mask[i] < 0.0f ? 0 : (uint8_t)(1 + i); /* all but 0 shows */
    }
    const hr_value hidden = hide == LACKS ? HR_NONE
                            : hide == BY_BYTES
                                ? hr_graph_constant(g, HR_TYPE_U8, hr_shape_4(1, 1, T, S), shown)
                                : hr_graph_constant(g, HR_TYPE_F32, hr_shape_4(1, 1, T, S), mask);
    const hr_value o = hr_attention_masked(g, in[0], in[1], in[2], hidden, 0, 0.0, 0.0);
    const hr_value loss = hr_sum(g, hr_mul(g, o, o), NULL, 0);
    CHECK_OK(hr_graph_differentiate(g, loss, HR_NONE, in, 3, d));
    hr_graph_result(g, o, "o");
    for (int i = 0; i < 3; i++) {
        hr_graph_result(g, d[i], i == 0 ? "dq" : i == 1 ? "dk" : "dv");
    }
    CHECK_OK(hr_graph_freeze(g));
    CHECK_OK(hri_interp_create(g, NULL, 3, &it));
    CHECK_OK(hri_interp_run(it, 1, NULL));
    memset(out, 0, sizeof *out);
    memcpy(out->o, hri_interp_data(it, o), sizeof out->o);
    memcpy(out->dq, hri_interp_data(it, d[0]), sizeof out->dq);
    memcpy(out->dk, hri_interp_data(it, d[1]), (size_t)(keys * H * D) * sizeof(float));
    memcpy(out->dv, hri_interp_data(it, d[2]), (size_t)(keys * H * D) * sizeof(float));
    hri_interp_destroy(it);
    hr_graph_destroy(g);
}

TEST(attention_mask, hidden_keys_are_as_if_they_were_not_there) {
    static outcome hides, lacks;
    run(BY_NUMBERS, &hides);
    run(LACKS, &lacks);
    for (int i = 0; i < T * H * D; i++) {
        const int blind = i / (H * D) == 1;
        CHECK(isfinite(hides.o[i]) && isfinite(hides.dq[i]));
        CHECK(blind ? hides.o[i] == 0.0f && hides.dq[i] == 0.0f
                    : fabsf(hides.o[i] - lacks.o[i]) < 1e-5f &&
                          fabsf(hides.dq[i] - lacks.dq[i]) < 1e-4f);
    }
    for (int i = 0; i < S * H * D; i++) {
        CHECK(isfinite(hides.dk[i]) && isfinite(hides.dv[i]));
        CHECK(i < SEEN * H * D || (hides.dk[i] == 0.0f && hides.dv[i] == 0.0f));
    }
}

TEST(attention_mask, bytes_hide_what_minus_infinity_hides) {
    static outcome numbers, bytes;
    run(BY_NUMBERS, &numbers);
    run(BY_BYTES, &bytes);
    CHECK(memcmp(&numbers, &bytes, sizeof numbers) == 0);
}

/* All queries are hidden from by `mask`, of which SHARE numbers are the largest: those keys are weighed the same, forward and backward. */
static void check_far(const float *mask, const uint8_t *weighed, int share) {
    hr_graph *g;
    hri_interp *it;
    hr_value dv[1];
    CHECK_OK(hr_graph_create(&g));
    const hr_value q = hr_graph_param(g, "q", HR_TYPE_F32, hr_shape_4(1, T, H, D),
                                      hr_init_normal(1.0)),
                   k = hr_graph_param(g, "k", HR_TYPE_F32, hr_shape_4(1, S, H, D),
                                      hr_init_normal(1.0)),
                   v = hr_graph_param(g, "v", HR_TYPE_F32, hr_shape_4(1, S, H, D),
                                      hr_init_normal(1.0));
    const hr_value hidden = hr_graph_constant(g, HR_TYPE_F32, hr_shape_4(1, 1, 1, S), mask);
    const hr_value o = hr_attention_masked(g, q, k, v, hidden, 0, 0.0, 0.0);
    const hr_value loss = hr_sum(g, hr_mul(g, o, o), NULL, 0);
    CHECK_OK(hr_graph_differentiate(g, loss, HR_NONE, &v, 1, dv));
    hr_graph_result(g, o, "o");
    hr_graph_result(g, dv[0], "dv");
    CHECK_OK(hr_graph_freeze(g));
    CHECK_OK(hri_interp_create(g, NULL, 3, &it));
    CHECK_OK(hri_interp_run(it, 1, NULL));
    const float *values = hri_interp_data(it, v), *is = hri_interp_data(it, o),
                *grad = hri_interp_data(it, dv[0]);
    for (int c = 0; c < H * D; c++) {
        double mean = 0.0;
        for (int s = 0; s < S; s++) {
            mean += weighed[s] ? (double)values[s * H * D + c] / share : 0.0;
        }
        for (int t = 0; t < T; t++) {
            CHECK(fabs((double)is[t * H * D + c] - mean) < 1e-5);
        }
        for (int s = 0; s < S;
             s++) { /* of each query, whose share of the loss is the square of o */
            const double should = weighed[s] ? T * 2.0 * mean / share : 0.0;
            CHECK(fabs((double)grad[s * H * D + c] - should) <= 1e-3 * fabs(should) + 1e-6);
        }
    }
    hri_interp_destroy(it);
    hr_graph_destroy(g);
}

TEST(attention_mask, queries_hidden_from_by_large_numbers_weigh_the_largest_backward_too) {
    const float low = -3.402823466e38f, none = -INFINITY;
    check_far((float[S]){-1e30f, -1e30f, -1e30f, -1e30f, -1e30f}, (uint8_t[S]){1, 1, 1, 1, 1}, 5);
    check_far((float[S]){low, low, low, low, low}, (uint8_t[S]){1, 1, 1, 1, 1}, 5);
    check_far((float[S]){none, low, low, none, low}, (uint8_t[S]){0, 1, 1, 0, 1}, 3);
    check_far((float[S]){-1e9f, -2e9f, -1e9f, -2e9f, none}, (uint8_t[S]){1, 0, 1, 0, 0}, 2);
    check_far((float[S]){-2e30f, -1e30f, low, -2e30f, -1e30f}, (uint8_t[S]){0, 1, 0, 0, 1}, 2);
}

/* A learnt mask with dropout or causal is refused in words, not given a wrong gradient. */
TEST(attention_mask, a_learnt_mask_with_dropout_is_refused) {
    hr_graph *g;
    hr_value d[1];
    hr_error why;
    CHECK_OK(hr_graph_create(&g));
    const hr_value q = hr_graph_input(g, "q", HR_TYPE_F32, hr_shape_4(1, T, H, D));
    const hr_value bias =
        hr_graph_param(g, "bias", HR_TYPE_F32, hr_shape_4(1, H, T, T), hr_init_normal(1.0));
    const hr_value o = hr_attention_masked(g, q, q, q, bias, 0, 0.0, 0.5);
    const hr_value loss = hr_sum(g, o, NULL, 0);
    CHECK_STATUS(hr_graph_differentiate(g, loss, HR_NONE, &bias, 1, d), HR_E_UNSUPPORTED);
    hr_graph_error(g, &why);
    CHECK(strstr(why.message, "learnt mask") != NULL);
    hr_graph_destroy(g);
}

TEST(stop_gradient, nothing_flows_through_it) {
    hr_graph *g;
    hr_value d[2];
    CHECK_OK(hr_graph_create(&g));
    const hr_value p[] = {hr_graph_param(g, "a", HR_TYPE_F32, hr_shape_1(3), hr_init_normal(1.0)),
                          hr_graph_param(g, "b", HR_TYPE_F32, hr_shape_1(3), hr_init_normal(1.0))};
    const hr_value stopped = hr_graph_node(g, "stop_gradient", &p[1], 1, NULL);
    const hr_value loss = hr_sum(g, hr_mul(g, p[0], stopped), NULL, 0);
    CHECK_OK(hr_graph_differentiate(g, loss, HR_NONE, p, 2, d));
    CHECK(d[0] != HR_NONE && d[1] == HR_NONE);
    hr_graph_destroy(g);
}

/* Builders that are made of several ops, against loops. */
#include <headroom/headroom.h>

#include <math.h>

#include "graph/graph.h"
#include "run/interpret.h"
#include "test.h"

static float at_of(int i) {
    return (float)((i * 37) % 19) / 19.0f - 0.4f;
}

static hr_value constant(hr_graph *g, hr_shape shape) {
    float data[512];
    const int n = (int)hr_shape_count(&shape);
    CHECK(n <= 512);
    for (int i = 0; i < n; i++) {
        data[i] = at_of(i);
    }
    return hr_graph_constant(g, HR_TYPE_F32, shape, data);
}

/* The numbers of `y`, which the graph ends with. */
static hri_interp *run(hr_graph *g, hr_value y) {
    hri_interp *it;
    hr_graph_result(g, y, "y");
    CHECK_OK(hr_graph_freeze(g));
    CHECK_OK(hri_interp_create(g, NULL, 3, &it));
    CHECK_OK(hri_interp_run(it, 1, NULL));
    return it;
}

/* conv3d of x (D, H, W, C) with w (K, K, K, C, O), stride 2, pad 1, at one place. */
static float conv3d_at(const int size[3], int C, int O, int K, const int at[3], int o) {
    float sum = 0.0f;
    for (int i = 0; i < K * K * K * C; i++) {
        const int c = i % C, k[3] = {i / C / K / K, i / C / K % K, i / C % K};
        int inside = 1, from = 0;
        for (int d = 0; d < 3; d++) {
            const int p = at[d] * 2 - 1 + k[d];
            inside &= p >= 0 && p < size[d];
            from = from * size[d] + p;
        }
        sum += inside ? at_of(from * C + c) * at_of(i * O + o) : 0.0f;
    }
    return sum;
}

TEST(layers, conv3d_is_the_sum_over_planes) {
    enum { D = 5, H = 4, W = 6, C = 2, O = 3, K = 3 };
    const int size[3] = {D, H, W}, out[3] = {3, 2, 3};
    hr_graph *g;
    CHECK_OK(hr_graph_create(&g));
    const hr_value x = constant(g, hr_shape_from(5, (const int64_t[]){1, D, H, W, C}));
    const hr_value w = constant(g, hr_shape_from(5, (const int64_t[]){K, K, K, C, O}));
    const hr_value y = hr_conv3d(g, x, w, HR_NONE, 2, 1);
    hri_interp *it = run(g, y);
    const float *is = hri_interp_data(it, y);
    CHECK_EQ(hr_graph_meta(g, y).shape.dim[1], out[0]);
    for (int i = 0; i < out[0] * out[1] * out[2] * O; i++) {
        const int at[3] = {i / O / out[2] / out[1], i / O / out[2] % out[1], i / O % out[2]};
        CHECK(fabsf(is[i] - conv3d_at(size, C, O, K, at, i % O)) < 1e-4f);
    }
    hri_interp_destroy(it);
    hr_graph_destroy(g);
}

TEST(layers, conv1d_is_a_convolution_of_one_row) {
    enum { W = 9, C = 2, O = 3, K = 3, OUT = 5 };
    hr_graph *g;
    CHECK_OK(hr_graph_create(&g));
    const hr_value y = hr_conv1d(g, constant(g, hr_shape_3(1, W, C)),
                                 constant(g, hr_shape_3(K, C, O)), HR_NONE, 2, 1, 1, 1);
    hri_interp *it = run(g, y);
    const float *is = hri_interp_data(it, y);
    CHECK_EQ(hr_graph_meta(g, y).shape.dim[1], OUT);
    for (int i = 0; i < OUT * O; i++) {
        float sum = 0.0f;
        for (int k = 0; k < K * C; k++) {
            const int from = i / O * 2 - 1 + k / C;
            sum += from >= 0 && from < W ? at_of(from * C + k % C) * at_of(k * O + i % O) : 0.0f;
        }
        CHECK(fabsf(is[i] - sum) < 1e-4f);
    }
    hri_interp_destroy(it);
    hr_graph_destroy(g);
}

TEST(layers, roll_brings_back_what_leaves) {
    enum { R = 3, N = 7 };
    for (int64_t shift = -9; shift <= 9; shift++) {
        hr_graph *g;
        CHECK_OK(hr_graph_create(&g));
        const hr_value y = hr_roll(g, constant(g, hr_shape_2(R, N)), shift, -1);
        hri_interp *it = run(g, y);
        const float *is = hri_interp_data(it, y);
        for (int i = 0; i < R * N; i++) {
            const int64_t to = i / N * N + ((i % N + shift) % N + N) % N;
            CHECK(is[to] == at_of(i));
        }
        hri_interp_destroy(it);
        hr_graph_destroy(g);
    }
}

TEST(layers, wrong_ranks_are_refused_in_words) {
    hr_graph *g;
    CHECK_OK(hr_graph_create(&g));
    const hr_value x = constant(g, hr_shape_2(2, 2));
    CHECK(hr_conv3d(g, x, x, HR_NONE, 1, 0) == HR_NONE);
    hr_error why;
    hr_graph_error(g, &why);
    CHECK_STATUS(why.code, HR_E_SHAPE);
    hr_graph_destroy(g);
}

static float sigmoid(float x) {
    return 1.0f / (1.0f + expf(-x));
}

enum { N = 2, T = 19, I = 3, H = 2 }; /* more steps than one concat takes */

/* Column `row` of x_t w^T + b. */
static float product(int row, int width, const float *with) {
    float sum = at_of(row); /* the bias */
    for (int k = 0; k < width; k++) {
        sum += at_of(row * width + k) * with[k];
    }
    return sum;
}

/* One step of one sample by the formulas of lstm_cell and gru_cell, with h and c in place. */
static void naive_step(int lstm, const float *x, float *h, float *c) {
    float next[H];
    for (int j = 0; j < H; j++) {
        float a[4], b[4];
        for (int q = 0; q < (lstm ? 4 : 3); q++) {
            a[q] = product(q * H + j, I, x);
            b[q] = product(q * H + j, H, h);
        }
        if (lstm) {
            c[j] = sigmoid(a[1] + b[1]) * c[j] + sigmoid(a[0] + b[0]) * tanhf(a[2] + b[2]);
            next[j] = sigmoid(a[3] + b[3]) * tanhf(c[j]);
        } else {
            const float z = sigmoid(a[1] + b[1]);
            next[j] = (1.0f - z) * tanhf(a[2] + sigmoid(a[0] + b[0]) * b[2]) + z * h[j];
        }
    }
    for (int j = 0; j < H; j++) {
        h[j] = next[j];
    }
}

static void check_recurrent(int lstm, int backward) {
    hr_graph *g;
    CHECK_OK(hr_graph_create(&g));
    const int gates = (lstm ? 4 : 3) * H;
    const hr_value x = constant(g, hr_shape_3(N, T, I)), w = constant(g, hr_shape_2(gates, I)),
                   u = constant(g, hr_shape_2(gates, H)), bias = constant(g, hr_shape_1(gates));
    const hr_value y = (lstm ? hr_lstm : hr_gru)(g, x, w, u, bias, bias, backward);
    hri_interp *it = run(g, y);
    const float *is = hri_interp_data(it, y);
    for (int n = 0; n < N; n++) {
        float h[H] = {0}, c[H] = {0};
        for (int i = 0; i < T; i++) {
            const int t = backward ? T - 1 - i : i;
            float row[I];
            for (int k = 0; k < I; k++) {
                row[k] = at_of((n * T + t) * I + k);
            }
            naive_step(lstm, row, h, c);
            for (int j = 0; j < H; j++) {
                CHECK(fabsf(is[(n * T + t) * H + j] - h[j]) < 1e-5f);
            }
        }
    }
    hri_interp_destroy(it);
    hr_graph_destroy(g);
}

TEST(layers, lstm_and_gru_are_their_cells_in_turn) {
    for (int i = 0; i < 4; i++) {
        check_recurrent(i & 1, i & 2);
    }
}

TEST(layers, recurrent_weights_of_a_wrong_size_are_refused) {
    hr_graph *g;
    CHECK_OK(hr_graph_create(&g));
    const hr_value x = constant(g, hr_shape_3(2, 3, 4)), w = constant(g, hr_shape_2(8, 4)),
                   u = constant(g, hr_shape_2(6, 2));
    CHECK(hr_lstm(g, x, w, u, HR_NONE, HR_NONE, 0) == HR_NONE);
    hr_error why;
    hr_graph_error(g, &why);
    CHECK_EQ(why.code, HR_E_SHAPE);
    hr_graph_destroy(g);
}

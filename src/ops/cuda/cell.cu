// Cells of recurrent layers: a thread has one number of the states and the numbers of its column in the gates.

typedef HR_T T;
enum { THREADS = 256 };

// As ops/common/cell.h has it.
struct cell {
    const T *in[5];
    T *out[3];
    hr_i64 rows, width;
};

HR_INLINE float sigmoid(float x) {
    return 1.0f / (1.0f + expf(-x));
}

// The number of gate g of `gates` at element i of a state.
HR_INLINE hr_i64 gate(const cell &c, hr_i64 i, int gates, int g) {
    return i / c.width * (gates * c.width) + g * c.width + i % c.width;
}

HR_KERNEL __launch_bounds__(THREADS) lstm_cell(HR_TABLE struct cell c) {
    const hr_i64 i = (hr_i64)blockIdx.x * THREADS + threadIdx.x;
    if (i < c.rows * c.width) {
        const float in = sigmoid(hr_load(c.in[0][gate(c, i, 4, 0)]));
        const float keep = sigmoid(hr_load(c.in[0][gate(c, i, 4, 1)]));
        const float g = tanhf(hr_load(c.in[0][gate(c, i, 4, 2)]));
        const float out = sigmoid(hr_load(c.in[0][gate(c, i, 4, 3)]));
        const float next = keep * hr_load(c.in[1][i]) + in * g;
        hr_store(&c.out[0][i], out * tanhf(next));
        hr_store(&c.out[1][i], next);
    }
}

// gates, c, next, dh [, dnext] -> dgates, dc
HR_KERNEL __launch_bounds__(THREADS) lstm_cell_grad(HR_TABLE struct cell c) {
    const hr_i64 i = (hr_i64)blockIdx.x * THREADS + threadIdx.x;
    if (i < c.rows * c.width) {
        const float in = sigmoid(hr_load(c.in[0][gate(c, i, 4, 0)]));
        const float keep = sigmoid(hr_load(c.in[0][gate(c, i, 4, 1)]));
        const float g = tanhf(hr_load(c.in[0][gate(c, i, 4, 2)]));
        const float out = sigmoid(hr_load(c.in[0][gate(c, i, 4, 3)]));
        const float before = hr_load(c.in[1][i]), t = tanhf(hr_load(c.in[2][i]));
        const float dh = hr_load(c.in[3][i]);
        const float d = dh * out * (1.0f - t * t) + (c.in[4] ? hr_load(c.in[4][i]) : 0.0f);
        hr_store(&c.out[0][gate(c, i, 4, 0)], d * g * in * (1.0f - in));
        hr_store(&c.out[0][gate(c, i, 4, 1)], d * before * keep * (1.0f - keep));
        hr_store(&c.out[0][gate(c, i, 4, 2)], d * in * (1.0f - g * g));
        hr_store(&c.out[0][gate(c, i, 4, 3)], dh * t * out * (1.0f - out));
        hr_store(&c.out[1][i], d * keep);
    }
}

HR_KERNEL __launch_bounds__(THREADS) gru_cell(HR_TABLE struct cell c) {
    const hr_i64 i = (hr_i64)blockIdx.x * THREADS + threadIdx.x;
    if (i < c.rows * c.width) {
        const hr_i64 r_at = gate(c, i, 3, 0), z_at = gate(c, i, 3, 1), n_at = gate(c, i, 3, 2);
        const float r = sigmoid(hr_load(c.in[0][r_at]) + hr_load(c.in[1][r_at]));
        const float z = sigmoid(hr_load(c.in[0][z_at]) + hr_load(c.in[1][z_at]));
        const float n = tanhf(hr_load(c.in[0][n_at]) + r * hr_load(c.in[1][n_at]));
        hr_store(&c.out[0][i], (1.0f - z) * n + z * hr_load(c.in[2][i]));
    }
}

// x gates, h gates, h, dy -> dx gates, dh gates, dh
HR_KERNEL __launch_bounds__(THREADS) gru_cell_grad(HR_TABLE struct cell c) {
    const hr_i64 i = (hr_i64)blockIdx.x * THREADS + threadIdx.x;
    if (i < c.rows * c.width) {
        const hr_i64 r_at = gate(c, i, 3, 0), z_at = gate(c, i, 3, 1), n_at = gate(c, i, 3, 2);
        const float hn = hr_load(c.in[1][n_at]), dy = hr_load(c.in[3][i]);
        const float r = sigmoid(hr_load(c.in[0][r_at]) + hr_load(c.in[1][r_at]));
        const float z = sigmoid(hr_load(c.in[0][z_at]) + hr_load(c.in[1][z_at]));
        const float n = tanhf(hr_load(c.in[0][n_at]) + r * hn);
        const float dn = dy * (1.0f - z) * (1.0f - n * n), dr = dn * hn * r * (1.0f - r);
        const float dz = dy * (hr_load(c.in[2][i]) - n) * z * (1.0f - z);
        hr_store(&c.out[0][r_at], dr);
        hr_store(&c.out[0][z_at], dz);
        hr_store(&c.out[0][n_at], dn);
        hr_store(&c.out[1][r_at], dr);
        hr_store(&c.out[1][z_at], dz);
        hr_store(&c.out[1][n_at], dn * r);
        hr_store(&c.out[2][i], dy * z);
    }
}

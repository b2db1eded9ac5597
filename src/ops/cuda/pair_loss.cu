// Losses of a prediction and a target, element by element; HR_LOSS is one of the structs below.
//
// A block sums PIECE elements, and one block adds the blocks' sums in a fixed order.  The gradient may lie over either
// input.

typedef HR_T T;
enum { THREADS = 256, V = HR_V, PIECE = 8192, FINISH = 1024 };

struct mean_squared_error {
    static HR_INLINE float loss(float a, float b) {
        return (a - b) * (a - b);
    }
    static HR_INLINE float slope(float a, float b) {
        return 2.0f * (a - b);
    }
};
struct binary_cross_entropy {
    static HR_INLINE float loss(float a, float b) {
        return fmaxf(a, 0.0f) - a * b + log1pf(expf(-fabsf(a)));
    }
    static HR_INLINE float slope(float a, float b) {
        return 1.0f / (1.0f + expf(-a)) - b;
    }
};

HR_KERNEL __launch_bounds__(THREADS) pieces(const T *x, const T *t, float *sums, hr_i64 count) {
    __shared__ float room[32];
    const hr_i64 begin = (hr_i64)blockIdx.x * PIECE;
    float sum = 0.0f;
    for (int i = 0; i < PIECE; i += THREADS * V) {
        const hr_i64 at = begin + i + threadIdx.x * V;
        if (at + V <= count) {
            float a[V], b[V];
            hr_load_pack<T, V>(x + at, a);
            hr_load_pack<T, V>(t + at, b);
#pragma unroll
            for (int k = 0; k < V; k++) {
                sum += HR_LOSS::loss(a[k], b[k]);
            }
        } else {
            for (hr_i64 k = at; k < count; k++) {
                sum += HR_LOSS::loss(hr_load(x[k]), hr_load(t[k]));
            }
        }
    }
    sum = hr_block_sum(sum, room);
    if (threadIdx.x == 0) {
        sums[blockIdx.x] = sum;
    }
}

// divisor: the number of elements, or 1.
HR_KERNEL __launch_bounds__(FINISH) finish(const float *sums, float *out, hr_i64 pieces, float divisor) {
    __shared__ float room[32];
    float sum = 0.0f;
    for (hr_i64 i = threadIdx.x; i < pieces; i += FINISH) {
        sum += sums[i];
    }
    sum = hr_block_sum(sum, room);
    if (threadIdx.x == 0) {
        *out = sum / divisor;
    }
}

HR_KERNEL __launch_bounds__(THREADS) slopes(const float *dloss, const T *x, const T *t, T *dx, hr_i64 count,
                                            float divisor) {
    const hr_i64 at = ((hr_i64)blockIdx.x * THREADS + threadIdx.x) * V;
    const float scale = *dloss / divisor;
    if (at + V <= count) {
        float a[V], b[V];
        hr_load_pack<T, V>(x + at, a);
        hr_load_pack<T, V>(t + at, b);
#pragma unroll
        for (int k = 0; k < V; k++) {
            a[k] = scale * HR_LOSS::slope(a[k], b[k]);
        }
        hr_store_pack<T, V>(dx + at, a);
        return;
    }
    for (hr_i64 k = at; k < count; k++) {
        hr_store(&dx[k], scale * HR_LOSS::slope(hr_load(x[k]), hr_load(t[k])));
    }
}

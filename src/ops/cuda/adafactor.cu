// Adafactor: sums of squares of rows and columns, then what the averages make of the gradient; see ops/adafactor.c.
//
// Blocks add in a fixed order: pieces of a tensor, slabs of rows for columns.  Kernels are part of a captured step, so each of
// them looks at the factor itself and returns when the step is skipped.

typedef HR_T T;
enum { THREADS = 256, PIECE = 16384, SLAB = 64, FINISH = 1024 };

struct table {
    float *w;
    const T *g;
    float *r, *c;
    const float *rate, *t, *factor; // factor may be NULL
    double *numbers;                // 1 / max(mean r, epsilon); the step without clipping; with it
    float *sums, *slabs;
    hr_i64 rows, columns, pieces, slab_count, vector, relative;
    double exponent, epsilon, floor, clip, decay;
};

HR_INLINE float factor_of(const table &t) {
    return t.factor ? *t.factor : 1.0f;
}

HR_INLINE bool skips(const table &t) {
    const float f = factor_of(t);
    return f == 0.0f || !(f - f == 0.0f);
}

HR_INLINE void lerp(float *to, float mean, const table &t) {
    const float share = (float)pow((double)*t.t, t.exponent);
    *to = *to + share * (mean - *to);
}

HR_KERNEL __launch_bounds__(THREADS) rows(HR_TABLE struct table t) {
    __shared__ float room[32];
    if (skips(t)) {
        return;
    }
    const T *g = t.g + (hr_i64)blockIdx.x * t.columns;
    const float f = factor_of(t);
    float sum = 0.0f;
    for (hr_i64 k = threadIdx.x; k < t.columns; k += THREADS) {
        const float d = f * hr_load(g[k]);
        sum += d * d;
    }
    sum = hr_block_sum(sum, room);
    if (threadIdx.x == 0) {
        lerp(&t.r[blockIdx.x], sum / (float)t.columns, t);
    }
}

HR_KERNEL __launch_bounds__(THREADS) slabs(HR_TABLE struct table t) {
    const hr_i64 across = (t.columns + THREADS - 1) / THREADS;
    const hr_i64 slab = blockIdx.x / across, k = (blockIdx.x % across) * THREADS + threadIdx.x;
    if (skips(t) || k >= t.columns) {
        return;
    }
    const hr_i64 end = (slab + 1) * SLAB < t.rows ? (slab + 1) * SLAB : t.rows;
    const float f = factor_of(t);
    float sum = 0.0f;
    for (hr_i64 i = slab * SLAB; i < end; i++) {
        const float d = f * hr_load(t.g[i * t.columns + k]);
        sum += d * d;
    }
    t.slabs[slab * t.columns + k] = sum;
}

HR_KERNEL __launch_bounds__(THREADS) columns(HR_TABLE struct table t) {
    const hr_i64 k = (hr_i64)blockIdx.x * THREADS + threadIdx.x;
    if (skips(t) || k >= t.columns) {
        return;
    }
    float sum = 0.0f;
    for (hr_i64 i = 0; i < t.slab_count; i++) {
        sum += t.slabs[i * t.columns + k];
    }
    lerp(&t.c[k], sum / (float)t.rows, t);
}

HR_KERNEL __launch_bounds__(THREADS) weights(HR_TABLE struct table t) {
    __shared__ float room[32];
    const hr_i64 begin = (hr_i64)blockIdx.x * PIECE, all = t.rows * t.columns;
    const hr_i64 end = begin + PIECE < all ? begin + PIECE : all;
    float sum = 0.0f;
    for (hr_i64 k = begin + threadIdx.x; k < end; k += THREADS) {
        sum += t.w[k] * t.w[k];
    }
    sum = hr_block_sum(sum, room);
    if (threadIdx.x == 0) {
        t.sums[blockIdx.x] = sum;
    }
}

HR_INLINE float sum_of(const float *x, hr_i64 n, float *room) {
    float sum = 0.0f;
    for (hr_i64 i = threadIdx.x; i < n; i += FINISH) {
        sum += x[i];
    }
    return hr_block_sum(sum, room);
}

HR_KERNEL __launch_bounds__(FINISH) begin(HR_TABLE struct table t) {
    __shared__ float room[32], more[32];
    const float mean = sum_of(t.r, t.rows, room) / (float)t.rows;
    const float squares = sum_of(t.sums, t.pieces, more);
    if (threadIdx.x == 0) {
        const double size = sqrt((double)squares / (double)(t.rows * t.columns));
        const double rate = (double)*t.rate, root = 1.0 / sqrt((double)*t.t);
        const double step = (size > t.floor ? size : t.floor) * (rate < root ? rate : root);
        t.numbers[0] = 1.0 / ((double)mean > t.epsilon ? (double)mean : t.epsilon);
        t.numbers[1] = t.relative ? step : rate;
    }
}

// Element k of the update.
HR_INLINE float update_of(const table &t, hr_i64 k, float f, float over, float least) {
    const float c = t.c[k % t.columns];
    const float v = t.vector ? c : t.r[k / t.columns] * over * c;
    return f * hr_load(t.g[k]) / sqrtf(v > least ? v : least);
}

HR_KERNEL __launch_bounds__(THREADS) updates(HR_TABLE struct table t) {
    __shared__ float room[32];
    if (skips(t)) {
        return;
    }
    const hr_i64 begin = (hr_i64)blockIdx.x * PIECE, all = t.rows * t.columns;
    const hr_i64 end = begin + PIECE < all ? begin + PIECE : all;
    const float f = factor_of(t), over = (float)t.numbers[0], least = (float)(t.epsilon * t.epsilon);
    float sum = 0.0f;
    for (hr_i64 k = begin + threadIdx.x; k < end; k += THREADS) {
        const float u = update_of(t, k, f, over, least);
        sum += u * u;
    }
    sum = hr_block_sum(sum, room);
    if (threadIdx.x == 0) {
        t.sums[blockIdx.x] = sum;
    }
}

HR_KERNEL __launch_bounds__(FINISH) finish(HR_TABLE struct table t) {
    __shared__ float room[32];
    const float squares = sum_of(t.sums, t.pieces, room);
    if (threadIdx.x == 0) {
        const double large = sqrt((double)squares / (double)(t.rows * t.columns)) / t.clip;
        t.numbers[2] = t.numbers[1] / (large > 1.0 ? large : 1.0);
    }
}

HR_KERNEL __launch_bounds__(THREADS) apply(HR_TABLE struct table t) {
    if (skips(t)) {
        return;
    }
    const hr_i64 begin = (hr_i64)blockIdx.x * PIECE, all = t.rows * t.columns;
    const hr_i64 end = begin + PIECE < all ? begin + PIECE : all;
    const float f = factor_of(t), over = (float)t.numbers[0], least = (float)(t.epsilon * t.epsilon);
    const float by = (float)t.numbers[2], keep = (float)(1.0 - (double)*t.rate * t.decay);
    for (hr_i64 k = begin + threadIdx.x; k < end; k += THREADS) {
        t.w[k] = t.w[k] * keep - by * update_of(t, k, f, over, least);
    }
}

// Sums from one end of a line to the other, in a fixed order.  y may lie over x.

typedef HR_T T;
enum { THREADS = 256, WARPS = THREADS / 32 };

// As cumsum.c has it.
struct lines {
    hr_i64 outer, size, inner;
    hr_i32 reverse, exclusive;
};

// Lines side by side: a thread to a line.
HR_KERNEL __launch_bounds__(THREADS) lines(const T *x, T *y, HR_TABLE struct lines l) {
    const hr_i64 i = (hr_i64)blockIdx.x * THREADS + threadIdx.x;
    if (i >= l.outer * l.inner) {
        return;
    }
    const hr_i64 first = i / l.inner * l.size * l.inner + i % l.inner;
    float sum = 0.0f;
    for (hr_i64 n = 0; n < l.size; n++) {
        const hr_i64 at = first + (l.reverse ? l.size - 1 - n : n) * l.inner;
        const float before = sum;
        sum += hr_load(x[at]);
        hr_store(&y[at], l.exclusive ? before : sum);
    }
}

// Dense lines: a block to a line, THREADS elements at a time.
HR_KERNEL __launch_bounds__(THREADS) dense_lines(const T *x, T *y, HR_TABLE struct lines l) {
    __shared__ float totals[WARPS];
    const hr_i64 first = (hr_i64)blockIdx.x * l.size;
    const int lane = threadIdx.x & 31, warp = threadIdx.x / 32;
    float carry = 0.0f;
    for (hr_i64 begin = 0; begin < l.size; begin += THREADS) {
        const hr_i64 n = begin + threadIdx.x, at = first + (l.reverse ? l.size - 1 - n : n);
        float sum = n < l.size ? hr_load(x[at]) : 0.0f;
        for (int step = 1; step < 32; step *= 2) {
            const float other = __shfl_sync(0xffffffffu, sum, lane >= step ? lane - step : lane);
            sum += lane >= step ? other : 0.0f;
        }
        const float prior = __shfl_sync(0xffffffffu, sum, lane ? lane - 1 : 0);
        if (lane == 31) {
            totals[warp] = sum;
        }
        __syncthreads();
        float before = carry;
        for (int w = 0; w < WARPS; w++) {
            before += w < warp ? totals[w] : 0.0f;
            carry += totals[w];
        }
        if (n < l.size) {
            hr_store(&y[at], before + (l.exclusive ? (lane ? prior : 0.0f) : sum));
        }
        __syncthreads();
    }
}

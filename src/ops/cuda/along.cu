// Elements by their numbers along one axis, and the way back: sums where the numbers say.  x is (outer, size, inner), the
// index (outer, picks, inner).  HR_T is the type of the elements; HR_REAL: it can be added.

typedef HR_T T;
enum { THREADS = 256, EACH = 8 };

// As ops/common/along.h has it.
struct along {
    hr_i64 outer, size, picks, inner;
};

HR_INLINE hr_i64 id_at(const void *ids, hr_u32 wide, hr_i64 i) {
    return wide ? ((const hr_i64 *)ids)[i] : ((const hr_i32 *)ids)[i];
}

HR_INLINE T ones() { // NaN, or -1
    const hr_u64 x = ~0ull;
    return *(const T *)&x;
}

HR_KERNEL __launch_bounds__(THREADS) take_along(const T *x, const void *ids, hr_u32 wide, T *y,
                                                hr_i64 count, HR_TABLE struct along a) {
    const hr_i64 i = (hr_i64)blockIdx.x * THREADS + threadIdx.x;
    if (i < count) {
        const hr_i64 id = id_at(ids, wide, i);
        y[i] = id >= 0 && id < a.size
                   ? x[(i / (a.picks * a.inner) * a.size + id) * a.inner + i % a.inner]
                   : ones();
    }
}

#if HR_REAL

// A thread has EACH numbers of a line of the result; neighbours lie side by side in `inner`.
HR_KERNEL __launch_bounds__(THREADS)
    put_along(const T *x, const void *ids, hr_u32 wide, T *y, hr_i64 count, hr_i64 pieces,
              HR_TABLE struct along a) {
    const hr_i64 i = (hr_i64)blockIdx.x * THREADS + threadIdx.x;
    if (i >= count) {
        return;
    }
    const hr_i64 b = i % a.inner, first = i / a.inner % pieces * EACH, o = i / a.inner / pieces;
    float sum[EACH] = {0};
    for (hr_i64 k = 0; k < a.picks; k++) {
        const hr_i64 at = (o * a.picks + k) * a.inner + b, c = id_at(ids, wide, at) - first;
        if (c >= 0 && c < EACH && first + c < a.size) {
            const float v = hr_load(x[at]);
#pragma unroll
            for (int j = 0; j < EACH; j++) {
                sum[j] += j == c ? v : 0.0f;
            }
        }
    }
#pragma unroll
    for (int j = 0; j < EACH; j++) {
        if (first + j < a.size) {
            hr_store(&y[(o * a.size + first + j) * a.inner + b], sum[j]);
        }
    }
}

#endif

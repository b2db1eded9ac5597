// Queries that a mask hides every key from, after a library's attention: their o becomes 0 and their lse infinite.
//
// The library holds masked scores at `low`, so such a row is known by its lse.  What it is then stands in the mask: when all keys are
// hidden by minus infinity, nothing was seen; when some are by large finite numbers, those with the largest weigh the same; when one is
// seen all the same, its score was not a number, and o is not one either.  The lse of all that see large finite numbers alone is that
// of our own kernels (attention_stats.cuh), because the way back may be theirs.  A thread looks at the lse of a row, a warp mends one.
// ELEM and MELEM are the types of o and of the mask.
#ifndef ELEM
#define ELEM   hr_bf16
#define MELEM  float
#define CAUSAL 0
#endif

// ops/common/attention_cuda.c has the same.
struct blind {
    hr_i64 rows, queries, keys, o_batch, o_row, v_batch, v_row, mask_batch, mask_head, mask_row;
    hr_i32 heads, depth;
    float low;
};

HR_INLINE void mend(ELEM *o, float *lse, const MELEM *mask, const ELEM *v, const blind &a,
                    hr_i64 row) {
    const int lane = threadIdx.x & 31;
    const hr_i64 head = row / a.queries, i = row % a.queries, b = head / a.heads,
                 h = head % a.heads, end = CAUSAL && i + 1 < a.keys ? i + 1 : a.keys;
    const float none = hr_bits_float(0xff800000u);
    const bool weighs = lse[row] > 0.99999f * a.low; // as it should: lse alone is mended
    float seen = 0.0f, weighed = 0.0f, most = none;
    mask += b * a.mask_batch + h * a.mask_head + i * a.mask_row;
    for (hr_i64 j = lane; j < end; j += 32) {
        const float x = hr_load(mask[j]);
        seen += weighs || x <= 0.99998f * a.low ? 0.0f : 1.0f;
        most = fmaxf(most, x);
    }
    seen = hr_warp_sum(seen);
    most = hr_warp_max(most);
    for (hr_i64 j = lane; j < end; j += 32) {
        weighed += most > none && hr_load(mask[j]) == most ? 1.0f : 0.0f;
    }
    weighed = hr_warp_sum(weighed);
    o += b * a.o_batch + i * a.o_row + h * a.depth;
    v += b * a.v_batch + h * a.depth;
    for (int d = lane; d < a.depth && !weighs; d += 32) {
        float sum = seen > 0.0f ? hr_bits_float(0x7fc00000u) : 0.0f;
        for (hr_i64 j = 0; j < end && seen == 0.0f && weighed > 0.0f; j++) {
            sum += hr_load(mask[j]) == most ? hr_load(v[j * a.v_row + d]) : 0.0f;
        }
        hr_store(&o[d], weighed > 0.0f ? sum / weighed : sum);
    }
    if (lane == 0 && !(weighs && most >= 0.5f * ROW_FAR)) { // scores may be low by themselves
        lse[row] = seen > 0.0f      ? hr_bits_float(0x7fc00000u)
                   : weighed > 0.0f ? row_kept(most, 1.0f, weighed)
                                    : -none;
    }
}

HR_KERNEL __launch_bounds__(128)
    attention_blind(ELEM *o, float *lse, const MELEM *mask, const ELEM *v, blind a) {
    const hr_i64 own = (hr_i64)blockIdx.x * blockDim.x + threadIdx.x,
                 first = own - threadIdx.x % 32;
    // The library may have come to `low` by products with the logarithm of 2.
    const bool low = own < a.rows && !(lse[own] >= ROW_FAR);
    for (hr_u32 left = __ballot_sync(0xffffffffu, low); left; left &= left - 1) {
        mend(o, lse, mask, v, a, first + __ffs((int)left) - 1);
    }
}

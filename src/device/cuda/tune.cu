// Made-up operands for choosing between algorithms, and the digest of what one gave; see gpu_tune.h.
//
// hr_fill: element i of an operand is +-2^e (1 + m) with random sign, e from top - 7 to top and random m, all from (seed, i)
// alone.  The inner dimension of a product has the elements k = (i mod period) / stride of `extent`.  With `cancel` the
// second half of it repeats the first, negated in one of the two operands: the true sums are zero, and what an algorithm
// gives is nothing but its own rounding, so that another order of the sum shows in nearly every element.
//
// hr_digest: the sum of mixed (position, bits) over all words, which no order of threads changes.

HR_INLINE hr_u64 hr_mix(hr_u64 x) {
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ull;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebull;
    return x ^ (x >> 31);
}

// type: 0 f32, 1 bf16, 2 f16
HR_KERNEL hr_fill(void *to, hr_i64 count, int type, int top, hr_u64 seed, hr_i64 stride, hr_i64 period, hr_i64 extent,
                  int cancel, int negate) {
    const hr_i64 half = extent / 2, step = (hr_i64)gridDim.x * blockDim.x;
    for (hr_i64 i = (hr_i64)blockIdx.x * blockDim.x + threadIdx.x; i < count; i += step) {
        hr_i64 from = i;
        hr_u32 flip = 0;
        if (cancel) {
            const hr_i64 k = (i % period) / stride;
            if (k >= half && k < 2 * half) {
                from = i - half * stride;
                flip = negate ? 0x80000000u : 0;
            }
        }
        const hr_u64 r = hr_mix(seed + 0x9e3779b97f4a7c15ull * (hr_u64)(from + 1));
        const hr_u32 bits = ((hr_u32)r & 0x807fffffu) | ((hr_u32)(127 + top - (int)(r >> 32 & 7)) << 23);
        const float x = __uint_as_float(bits ^ flip);
        if (type == 0) {
            hr_store((float *)to + i, x);
        } else if (type == 1) {
            hr_store((hr_bf16 *)to + i, x);
        } else {
            hr_store((hr_f16 *)to + i, x);
        }
    }
}

// `bytes` is even; block b writes two sums to out[2 b].
HR_KERNEL hr_digest(const void *from, hr_i64 bytes, hr_u64 *out) {
    HR_SHARED(room);
    hr_u64 *sums = (hr_u64 *)room; // [threads][2]
    const hr_i64 words = bytes / 4, step = (hr_i64)gridDim.x * blockDim.x;
    hr_u64 low = 0, high = 0;
    for (hr_i64 i = (hr_i64)blockIdx.x * blockDim.x + threadIdx.x; i <= words; i += step) {
        hr_u64 word = 0;
        if (i < words) {
            word = ((const hr_u32 *)from)[i];
        } else if (bytes % 4) {
            word = ((const hr_u16 *)from)[2 * words];
        } else {
            break;
        }
        const hr_u64 h = hr_mix(word ^ 0x9e3779b97f4a7c15ull * (hr_u64)(i + 1));
        low += h;
        high += hr_mix(h + 0x632be59bd9b4e019ull);
    }
    const int me = (int)threadIdx.x;
    sums[2 * me] = low;
    sums[2 * me + 1] = high;
    for (int half = (int)blockDim.x / 2; half > 0; half /= 2) {
        __syncthreads();
        if (me < half) {
            sums[2 * me] += sums[2 * (me + half)];
            sums[2 * me + 1] += sums[2 * (me + half) + 1];
        }
    }
    if (me == 0) {
        out[2 * blockIdx.x] = sums[0];
        out[2 * blockIdx.x + 1] = sums[1];
    }
}

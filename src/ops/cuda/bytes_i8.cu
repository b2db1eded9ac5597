// Small ops over bytes: quantize, quantize_f8, dequantize, add_i8, max_pool_i8,
// global_avg_pool_i8; ops/common/requantize.h has the rounding.

enum { THREADS = 256, EACH = 4 };

struct pool { // hri_pooling of ops/common/pool.h
    hr_i64 n, h, w, channels, oh, ow, kh, kw, sh, sw, ph, pw;
};

HR_INLINE hr_u8 rounded(float x, float low, float zero) {
    const float above = x > low ? x : low, high = 255.0f - zero;
    return (hr_u8)(__float2int_rn(above < high ? above : high) + (hr_i32)zero);
}

// A thread has four neighbours, in one access where they are whole and lie so.
HR_INLINE hr_i64 first_of() {
    return ((hr_i64)blockIdx.x * THREADS + threadIdx.x) * EACH;
}
template <typename A> HR_INLINE bool is_whole(const A *x, hr_i64 first, hr_i64 count) {
    return first + EACH <= count && (hr_u64)(x + first) % (EACH * sizeof(A)) == 0;
}
template <typename A> HR_INLINE hr_pack<A, EACH> take(const A *x, hr_i64 first, hr_i64 count) {
    hr_pack<A, EACH> four;
    if (is_whole(x, first, count)) {
        return *(const hr_pack<A, EACH> *)(x + first);
    }
    for (int i = 0; i < EACH; i++) {
        four.at[i] = first + i < count ? x[first + i] : (A)0;
    }
    return four;
}
template <typename A> HR_INLINE void give(A *y, const hr_pack<A, EACH> &four, hr_i64 first, hr_i64 count) {
    if (is_whole(y, first, count)) {
        *(hr_pack<A, EACH> *)(y + first) = four;
        return;
    }
    for (int i = 0; i < EACH && first + i < count; i++) {
        y[first + i] = four.at[i];
    }
}

HR_KERNEL __launch_bounds__(THREADS)
    quantize(const float *x, const float *scale, const hr_u8 *zero, hr_u8 *y, hr_i64 count) {
    const float by = *scale, z = (float)*zero;
    const hr_i64 first = first_of();
    const hr_pack<float, EACH> from = take(x, first, count);
    hr_pack<hr_u8, EACH> to;
    for (int i = 0; i < EACH; i++) {
        to.at[i] = rounded(__fdiv_rn(from.at[i], by), -z, z);
    }
    give(y, to, first, count);
}

// ops/common/float8.h
HR_INLINE hr_u8 to_f8(float x) {
    const hr_u32 bits = __float_as_uint(x), sign = bits >> 24 & 128u, size = bits & 0x7fffffffu;
    const hr_u32 rounded = ((size + 0x7ffffu + (size >> 20 & 1u)) >> 20) - (120u << 3);
    const hr_u32 small = __float_as_uint(__fadd_rn(__uint_as_float(size), 24576.0f)) - 0x46c00000u;
    const hr_u32 code = size > 0x7f800000u ? 127u : size >= 0x43e00000u ? 126u : size < 0x3c800000u ? small : rounded;
    return (hr_u8)(sign | code);
}

HR_KERNEL __launch_bounds__(THREADS) quantize_f8(const float *x, const float *scale, hr_u8 *y, hr_i64 count) {
    const float by = *scale;
    const hr_i64 first = first_of();
    const hr_pack<float, EACH> from = take(x, first, count);
    hr_pack<hr_u8, EACH> to;
    for (int i = 0; i < EACH; i++) {
        to.at[i] = to_f8(__fdiv_rn(from.at[i], by));
    }
    give(y, to, first, count);
}

HR_KERNEL __launch_bounds__(THREADS)
    dequantize(const hr_u8 *x, const float *scale, const hr_u8 *zero, float *y, hr_i64 count) {
    const float by = *scale;
    const hr_i32 z = *zero;
    const hr_i64 first = first_of();
    const hr_pack<hr_u8, EACH> from = take(x, first, count);
    hr_pack<float, EACH> to;
    for (int i = 0; i < EACH; i++) {
        to.at[i] = __fmul_rn((float)((hr_i32)from.at[i] - z), by);
    }
    give(y, to, first, count);
}

HR_KERNEL __launch_bounds__(THREADS)
    add_i8(const hr_u8 *a, const hr_u8 *b, const float *a_scale, const hr_u8 *a_zero, const float *b_scale,
           const hr_u8 *b_zero, const float *y_scale, const hr_u8 *y_zero, hr_u8 *y, hr_i64 count, hr_u32 relu) {
    const float by_a = __fdiv_rn(*a_scale, *y_scale), by_b = __fdiv_rn(*b_scale, *y_scale), z = (float)*y_zero;
    const hr_i32 za = *a_zero, zb = *b_zero;
    const hr_i64 first = first_of();
    const hr_pack<hr_u8, EACH> p = take(a, first, count), q = take(b, first, count);
    hr_pack<hr_u8, EACH> to;
    for (int i = 0; i < EACH; i++) {
        const float sum = __fadd_rn(__fmul_rn((float)((hr_i32)p.at[i] - za), by_a),
                                    __fmul_rn((float)((hr_i32)q.at[i] - zb), by_b));
        to.at[i] = rounded(sum, relu ? 0.0f : -z, z);
    }
    give(y, to, first, count);
}

HR_KERNEL __launch_bounds__(THREADS) max_pool_i8(const hr_u8 *x, hr_u8 *y, pool p) {
    const hr_i64 i = (hr_i64)blockIdx.x * THREADS + threadIdx.x;
    if (i >= p.n * p.oh * p.ow * p.channels) {
        return;
    }
    const hr_i64 c = i % p.channels, ox = i / p.channels % p.ow, oy = i / p.channels / p.ow % p.oh;
    const hr_i64 n = i / p.channels / p.ow / p.oh;
    hr_u8 most = 0;
    for (hr_i64 r = 0; r < p.kh; r++) {
        for (hr_i64 s = 0; s < p.kw; s++) {
            const hr_i64 h = oy * p.sh - p.ph + r, w = ox * p.sw - p.pw + s;
            if (h >= 0 && h < p.h && w >= 0 && w < p.w) {
                const hr_u8 is = x[((n * p.h + h) * p.w + w) * p.channels + c];
                most = is > most ? is : most;
            }
        }
    }
    y[i] = most;
}

HR_KERNEL __launch_bounds__(THREADS)
    global_avg_pool_i8(const hr_u8 *x, const float *x_scale, const hr_u8 *x_zero, const float *y_scale,
                       const hr_u8 *y_zero, hr_u8 *y, hr_i64 count, hr_i64 channels, hr_i64 places) {
    const hr_i64 i = (hr_i64)blockIdx.x * THREADS + threadIdx.x;
    if (i >= count) {
        return;
    }
    const hr_u8 *from = x + i / channels * places * channels + i % channels;
    hr_i32 sum = 0;
    for (hr_i64 k = 0; k < places; k++) {
        sum += from[k * channels];
    }
    sum -= (hr_i32)*x_zero * (hr_i32)places;
    const float by = __fdiv_rn(__fdiv_rn(*x_scale, *y_scale), (float)places), z = (float)*y_zero;
    y[i] = rounded(__fmul_rn((float)sum, by), -z, z);
}

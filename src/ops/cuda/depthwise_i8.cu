// Depthwise convolutions of bytes; ops/depthwise_i8.c has the rule and the same struct.  A thread makes a result; neighbours have
// neighbouring channels.  HR_T is hr_u8, or float for results that are not rounded to bytes.

typedef HR_T T;
enum { THREADS = 256 };

struct shape {
    hr_i64 count, h, w, c, oh, ow, kh, kw, sh, sw, ph, pw, dh, dw;
    hr_u32 relu, unused;
};

HR_INLINE float held(float x, float low, float high) {
    const float above = x > low ? x : low;
    return above < high ? above : high;
}
HR_INLINE void put(hr_u8 *to, hr_i32 sum, float bias, float unit, const float *scale, const hr_u8 *zero, hr_u32 relu) {
    const hr_i32 z = *zero;
    const hr_i32 whole = sum + __float2int_rn(held(__fdiv_rn(bias, unit), -536870912.0f, 536870912.0f));
    const float y = __fmul_rn((float)whole, __fdiv_rn(unit, *scale));
    *to = (hr_u8)(__float2int_rn(held(y, relu ? 0.0f : -(float)z, 255.0f - (float)z)) + z);
}
HR_INLINE void put(float *to, hr_i32 sum, float bias, float unit, const float *scale, const hr_u8 *zero, hr_u32 relu) {
    const float y = __fadd_rn(__fmul_rn((float)sum, unit), bias);
    *to = relu && !(y > 0.0f) ? 0.0f : y;
}

HR_KERNEL __launch_bounds__(THREADS)
    depthwise_i8(const hr_u8 *x, const hr_i8 *w, const float *w_scale, const float *bias, const float *x_scale,
                 const hr_u8 *x_zero, const float *y_scale, const hr_u8 *y_zero, T *y, shape p) {
    const hr_i64 i = (hr_i64)blockIdx.x * THREADS + threadIdx.x;
    if (i >= p.count) {
        return;
    }
    const hr_i64 c = i % p.c, ox = i / p.c % p.ow, oy = i / p.c / p.ow % p.oh, n = i / p.c / p.ow / p.oh;
    hr_i32 sum = 0;
    for (hr_i64 r = 0; r < p.kh; r++) {
        const hr_i64 h = oy * p.sh - p.ph + r * p.dh;
        for (hr_i64 s = 0; s < p.kw && h >= 0 && h < p.h; s++) {
            const hr_i64 v = ox * p.sw - p.pw + s * p.dw;
            if (v >= 0 && v < p.w) {
                const hr_i32 from = x[((n * p.h + h) * p.w + v) * p.c + c];
                sum += (from - (hr_i32)*x_zero) * (hr_i32)w[(r * p.kw + s) * p.c + c];
            }
        }
    }
    put(y + i, sum, bias[c], __fmul_rn(*x_scale, w_scale[c]), y_scale, y_zero, p.relu);
}

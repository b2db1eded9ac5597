// Convolutions and linear layers of bytes; ops/conv2d_i8.c has the rule, ops/common/product_i8_cuda.c the same struct.
//
// Weights are packed by four channels of a tap, so that dp4a multiplies four bytes at a time; neighbouring threads have
// neighbouring columns and read neighbouring words.  Sums are whole numbers: any order gives the same.  HR_T is hr_u8, or
// float for results that are not rounded to bytes.

typedef HR_T T;
enum { THREADS = 256 };

struct shape {
    hr_i64 count, h, w, c, oh, ow, o, kh, kw, sh, sw, ph, pw, dh, dw, fours;
    hr_u32 turned, relu, aligned, unused;
};

HR_KERNEL __launch_bounds__(THREADS) pack_i8(const hr_i8 *w, hr_u32 *to, shape p) {
    const hr_i64 i = (hr_i64)blockIdx.x * THREADS + threadIdx.x;
    if (i >= p.kh * p.kw * p.fours * p.o) {
        return;
    }
    const hr_i64 o = i % p.o, four = i / p.o % p.fours, tap = i / p.o / p.fours;
    hr_u32 word = 0;
    for (int q = 0; q < 4; q++) {
        const hr_i64 c = four * 4 + q;
        if (c < p.c) {
            const hr_i8 x = p.turned ? w[o * p.c + c] : w[(tap * p.c + c) * p.o + o];
            word |= (hr_u32)(hr_u8)x << 8 * q;
        }
    }
    to[i] = word;
}

// sum + four products of bytes of x, without sign, and bytes of w, with sign
HR_INLINE hr_i32 dot4(hr_u32 x, hr_u32 w, hr_i32 sum) {
#ifdef HRI_EMULATED
    for (int q = 0; q < 4; q++) {
        sum += (hr_i32)(x >> 8 * q & 255u) * (hr_i32)(hr_i8)(hr_u8)(w >> 8 * q & 255u);
    }
    return sum;
#else
    hr_i32 y;
    asm("dp4a.u32.s32 %0, %1, %2, %3;" : "=r"(y) : "r"(x), "r"(w), "r"(sum));
    return y;
#endif
}

HR_INLINE hr_u32 four_of(const hr_u8 *x, hr_i64 at, const shape &p) {
    if (p.aligned) {
        return *(const hr_u32 *)(x + at);
    }
    hr_u32 word = 0;
    for (int q = 0; q < 4 && at + q < p.c; q++) {
        word |= (hr_u32)x[at + q] << 8 * q;
    }
    return word;
}

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
    product_i8(const hr_u8 *x, const hr_u32 *w, const float *w_scale, const float *bias, const float *x_scale,
               const hr_u8 *x_zero, const float *y_scale, const hr_u8 *y_zero, T *y, shape p) {
    const hr_i64 i = (hr_i64)blockIdx.x * THREADS + threadIdx.x;
    if (i >= p.count) {
        return;
    }
    const hr_i64 o = i % p.o, ox = i / p.o % p.ow, oy = i / p.o / p.ow % p.oh, n = i / p.o / p.ow / p.oh;
    hr_i32 sum = 0, ones = 0; // what is outside the image is zero, and in neither
    for (hr_i64 r = 0; r < p.kh; r++) {
        const hr_i64 h = oy * p.sh - p.ph + r * p.dh;
        if (h < 0 || h >= p.h) {
            continue;
        }
        for (hr_i64 s = 0; s < p.kw; s++) {
            const hr_i64 v = ox * p.sw - p.pw + s * p.dw;
            if (v < 0 || v >= p.w) {
                continue;
            }
            const hr_u8 *pixel = x + ((n * p.h + h) * p.w + v) * p.c;
            const hr_u32 *tap = w + (r * p.kw + s) * p.fours * p.o + o;
            for (hr_i64 k = 0; k < p.fours; k++) {
                const hr_u32 by = tap[k * p.o];
                sum = dot4(four_of(pixel, k * 4, p), by, sum);
                ones = dot4(0x01010101u, by, ones);
            }
        }
    }
    put(y + i, sum - (hr_i32)*x_zero * ones, bias[o], __fmul_rn(*x_scale, w_scale[o]), y_scale, y_zero, p.relu);
}

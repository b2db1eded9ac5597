// Images to another size, and the gradient; nearest or bilinear, with half-pixel centres.
//
// The same f32 rule as ops/common/resize.h, operation by operation: ties must fall as they do there.  A block of the
// grid is one row of result pixels; a thread has one pack of channels of one pixel.  Backward, every input pixel
// collects from the outputs it may have reached.
//
// Defines: ELEM, PACK, BILINEAR (1: half-pixel centres, 2: corners on corners).
#ifndef ELEM
#define ELEM     float
#define PACK     4
#define BILINEAR 1
#endif

enum { THREADS = 256 };

struct source {
    hr_i32 low, high;
    float weight;
};

HR_INLINE source source_of(hr_i32 o, hr_i32 in, hr_i32 out) {
    const float scale = __fdiv_rn((float)in, (float)out);
    source s;
    if (!BILINEAR) {
        s.low = (hr_i32)__fmul_rn((float)o, scale);
        s.low = s.low < in - 1 ? s.low : in - 1;
        s.high = s.low;
        s.weight = 0.0f;
        return s;
    }
    // Rounded after every operation: a fused one would move the ties.
    const float between = out > 1 ? __fdiv_rn((float)(in - 1), (float)(out - 1)) : 0.0f;
    const float at = BILINEAR == 2 ? __fmul_rn((float)o, between)
                                   : __fadd_rn(__fmul_rn((float)o + 0.5f, scale), -0.5f);
    const float from = at > 0.0f ? at : 0.0f;
    s.low = (hr_i32)from < in - 1 ? (hr_i32)from : in - 1;
    s.high = s.low + 1 < in - 1 ? s.low + 1 : in - 1;
    s.weight = from - (float)s.low;
    return s;
}

HR_INLINE float share(hr_i32 o, hr_i32 i, hr_i32 in, hr_i32 out) {
    const source s = source_of(o, in, out);
    return (s.low == i ? 1.0f - s.weight : 0.0f) + (s.high == i ? s.weight : 0.0f);
}

// The outputs that input pixel i may reach, a little wide.
HR_INLINE void reach(hr_i32 i, hr_i32 in, hr_i32 out, hr_i32 *begin, hr_i32 *end) {
    const double scale = (double)out / (double)in;
    const hr_i32 b = (hr_i32)((double)(i - 1) * scale) - 2;
    const hr_i32 e = (hr_i32)((double)(i + 2) * scale) + 3;
    *begin = b > 0 ? b : 0;
    *end = e < out ? e : out;
}

// blockIdx.x = n * OH + i
HR_KERNEL __launch_bounds__(THREADS)
    resize(const ELEM *x, ELEM *y, hr_i32 h, hr_i32 w, hr_i32 oh, hr_i32 ow, hr_i32 channels) {
    const hr_i64 n = blockIdx.x / oh;
    const hr_u32 piece = blockIdx.z * gridDim.y + blockIdx.y;
    const hr_u32 packs = (hr_u32)channels / PACK, t = piece * THREADS + threadIdx.x;
    const hr_i32 j = (hr_i32)(t / packs), c = (hr_i32)(t % packs) * PACK;
    if (j >= ow) {
        return;
    }
    const source down = source_of((hr_i32)(blockIdx.x % oh), h, oh), across = source_of(j, w, ow);
    const float h0 = 1.0f - down.weight, h1 = down.weight;
    const float w0 = 1.0f - across.weight, w1 = across.weight;
    float v[PACK];
    const ELEM *top = x + (n * h + down.low) * w * channels + c;
    const ELEM *low = x + (n * h + down.high) * w * channels + c;
    hr_load_pack<ELEM, PACK>(top + (hr_i64)across.low * channels, v);
    if (BILINEAR && (h1 != 0.0f || w1 != 0.0f)) {
        float b[PACK], d[PACK], e[PACK];
        hr_load_pack<ELEM, PACK>(top + (hr_i64)across.high * channels, b);
        hr_load_pack<ELEM, PACK>(low + (hr_i64)across.low * channels, d);
        hr_load_pack<ELEM, PACK>(low + (hr_i64)across.high * channels, e);
#pragma unroll
        for (int k = 0; k < PACK; k++) {
            v[k] = h0 * (w0 * v[k] + w1 * b[k]) + h1 * (w0 * d[k] + w1 * e[k]);
        }
    }
    hr_store_pack<ELEM, PACK>(y + ((hr_i64)blockIdx.x * ow + j) * channels + c, v);
}

// dx (N, h, w, C) of dy (N, oh, ow, C); blockIdx.x = n * h + i
HR_KERNEL __launch_bounds__(THREADS) resize_grad(const ELEM *dy, ELEM *dx, hr_i32 h, hr_i32 w,
                                                 hr_i32 oh, hr_i32 ow, hr_i32 channels) {
    const hr_i64 n = blockIdx.x / h;
    const hr_i32 i = (hr_i32)(blockIdx.x % h);
    const hr_u32 piece = blockIdx.z * gridDim.y + blockIdx.y;
    const hr_u32 packs = (hr_u32)channels / PACK, t = piece * THREADS + threadIdx.x;
    const hr_i32 j = (hr_i32)(t / packs), c = (hr_i32)(t % packs) * PACK;
    if (j >= w) {
        return;
    }
    hr_i32 h0, h1, w0, w1;
    float sum[PACK];
#pragma unroll
    for (int k = 0; k < PACK; k++) {
        sum[k] = 0.0f;
    }
    reach(i, h, oh, &h0, &h1);
    reach(j, w, ow, &w0, &w1);
    for (hr_i32 a = h0; a < h1; a++) {
        const float by_h = share(a, i, h, oh);
        for (hr_i32 b = w0; by_h != 0.0f && b < w1; b++) {
            const float by = by_h * share(b, j, w, ow);
            if (by != 0.0f) {
                float v[PACK];
                hr_load_pack<ELEM, PACK>(dy + ((n * oh + a) * ow + b) * channels + c, v);
#pragma unroll
                for (int k = 0; k < PACK; k++) {
                    sum[k] = fmaf(by, v[k], sum[k]);
                }
            }
        }
    }
    hr_store_pack<ELEM, PACK>(dx + ((hr_i64)blockIdx.x * w + j) * channels + c, sum);
}

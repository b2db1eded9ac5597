// Pooling over windows of (N, H, W, C), and the gradients: outputs are gathered, one pack of channels a thread.
//
// A block of the grid is one row of output pixels (n, i), so that whole numbers are divided once a block, and 32 bits
// wide where the thread finds its pixel.  KH and KW are known to the compiler, which unrolls small windows and has all
// loads of one under way at once.  No sum is added into from two sides.
//
// Defines: ELEM, PACK, KH, KW, SH, SW (window and stride).
#ifndef ELEM
#define ELEM float
#define PACK 4
#define KH 3
#define KW 3
#define SH 2
#define SW 2
#endif

enum { THREADS = 256, SMALL = KH * KW <= 25 };
#if KH * KW <= 25
#define HR_UNROLL _Pragma("unroll")
#else
#define HR_UNROLL
#endif

// The geometry; ops/common/pool_cuda.c has the same struct.
struct pool {
    hr_i32 h, w, channels, oh, ow; // input, output
    hr_i32 ph, pw;
    hr_i32 without_pad;
};

// The pixel of this thread in a row of `width` pixels, and its first channel; false when there is none.
struct place {
    hr_i32 j, c;
};
HR_INLINE bool find_place(const pool &p, hr_i32 width, place *out) {
    const hr_u32 packs = (hr_u32)p.channels / PACK;
    const hr_u32 piece = blockIdx.z * gridDim.y + blockIdx.y;
    const hr_u32 t = piece * THREADS + threadIdx.x, j = t / packs;
    out->j = (hr_i32)j;
    out->c = (hr_i32)(t - j * packs) * PACK;
    return j < (hr_u32)width;
}

HR_INLINE hr_i64 at_of(hr_i64 row, hr_i32 width, hr_i32 column, hr_i32 channels, hr_i32 c) {
    return (row * width + column) * channels + c;
}

// ---- forward: blockIdx.x = n * OH + i ----

HR_KERNEL __launch_bounds__(THREADS) max_pool(const ELEM *x, ELEM *y, hr_u8 *index, pool p) {
    const hr_i32 n = (hr_i32)(blockIdx.x / p.oh), i = (hr_i32)(blockIdx.x % p.oh);
    place o;
    if (!find_place(p, p.ow, &o)) {
        return;
    }
    float most[PACK];
    int code[PACK];
    bool first = true;
    HR_UNROLL
    for (int a = 0; a < KH; a++) {
        const hr_i32 h = i * SH - p.ph + a;
        HR_UNROLL
        for (int b = 0; b < KW; b++) {
            const hr_i32 w = o.j * SW - p.pw + b;
            if (h >= 0 && h < p.h && w >= 0 && w < p.w) {
                float v[PACK];
                hr_load_pack<ELEM, PACK>(
                    x + at_of((hr_i64)n * p.h + h, p.w, w, p.channels, o.c), v);
#pragma unroll
                for (int k = 0; k < PACK; k++) {
                    const bool wins = first || v[k] > most[k] || v[k] != v[k];
                    code[k] = wins ? a * KW + b : code[k];
                    most[k] = wins ? v[k] : most[k];
                }
                first = false;
            }
        }
    }
    const hr_i64 to = at_of(blockIdx.x, p.ow, o.j, p.channels, o.c);
    hr_pack<hr_u8, PACK> codes;
#pragma unroll
    for (int k = 0; k < PACK; k++) {
        codes.at[k] = (hr_u8)code[k];
    }
    hr_store_pack<ELEM, PACK>(y + to, most);
    *(hr_pack<hr_u8, PACK> *)(index + to) = codes;
}

HR_KERNEL __launch_bounds__(THREADS) avg_pool(const ELEM *x, ELEM *y, pool p) {
    const hr_i32 n = (hr_i32)(blockIdx.x / p.oh), i = (hr_i32)(blockIdx.x % p.oh);
    place o;
    if (!find_place(p, p.ow, &o)) {
        return;
    }
    float sum[PACK];
    int places = 0;
#pragma unroll
    for (int k = 0; k < PACK; k++) {
        sum[k] = 0.0f;
    }
    HR_UNROLL
    for (int a = 0; a < KH; a++) {
        const hr_i32 h = i * SH - p.ph + a;
        HR_UNROLL
        for (int b = 0; b < KW; b++) {
            const hr_i32 w = o.j * SW - p.pw + b;
            if (h >= 0 && h < p.h && w >= 0 && w < p.w) {
                float v[PACK];
                hr_load_pack<ELEM, PACK>(
                    x + at_of((hr_i64)n * p.h + h, p.w, w, p.channels, o.c), v);
#pragma unroll
                for (int k = 0; k < PACK; k++) {
                    sum[k] += v[k];
                }
                places++;
            }
        }
    }
    const float count = (float)(p.without_pad ? places : KH * KW);
#pragma unroll
    for (int k = 0; k < PACK; k++) {
        sum[k] /= count;
    }
    hr_store_pack<ELEM, PACK>(y + at_of(blockIdx.x, p.ow, o.j, p.channels, o.c), sum);
}

// ---- backward: blockIdx.x = n * H + h ----

// The outputs whose windows hold input place i: [begin, end).
HR_INLINE void owners(hr_i32 i, hr_i32 kernel, hr_i32 stride, hr_i32 pad, hr_i32 outputs,
                      hr_i32 *begin, hr_i32 *end) {
    const hr_i32 first = i + pad - kernel + 1, last = (i + pad) / stride + 1;
    *begin = first > 0 ? (first + stride - 1) / stride : 0;
    *end = last < outputs ? last : outputs;
}
// How many places of the window of output o lie in [0, size).
HR_INLINE hr_i32 inside(hr_i32 o, hr_i32 kernel, hr_i32 stride, hr_i32 pad, hr_i32 size) {
    const hr_i32 begin = o * stride - pad, end = begin + kernel;
    return (end < size ? end : size) - (begin > 0 ? begin : 0);
}

// What one output gives to the place that is `code` in its window.
template <bool MAX>
HR_INLINE void add_share(float (&sum)[PACK], const hr_pack<ELEM, PACK> &dy,
                         const hr_pack<hr_u8, PACK> &codes, int code, float share) {
#pragma unroll
    for (int k = 0; k < PACK; k++) {
        const float v = hr_at(dy, k);
        sum[k] += !MAX ? v * share : codes.at[k] == code ? v : 0.0f;
    }
}

template <bool MAX>
HR_INLINE void pool_grad(const ELEM *dy, const hr_u8 *index, ELEM *dx, const pool &p) {
    enum { DOWN = (KH + SH - 1) / SH, ACROSS = (KW + SW - 1) / SW, FEW = DOWN * ACROSS <= 9 };
    const hr_i32 n = (hr_i32)(blockIdx.x / p.h), h = (hr_i32)(blockIdx.x % p.h);
    place o;
    if (!find_place(p, p.w, &o)) {
        return;
    }
    hr_i32 i0, i1, j0, j1;
    float sum[PACK];
#pragma unroll
    for (int k = 0; k < PACK; k++) {
        sum[k] = 0.0f;
    }
    owners(h, KH, SH, p.ph, p.oh, &i0, &i1);
    owners(o.j, KW, SW, p.pw, p.ow, &j0, &j1);
    const hr_i64 from = at_of((hr_i64)n * p.oh + i0, p.ow, j0, p.channels, o.c);
    const int code0 = (h - i0 * SH + p.ph) * KW + o.j - j0 * SW + p.pw;
    for (hr_i32 i = 0; i < i1 - i0; i += FEW ? DOWN : 1) {
        for (hr_i32 j = 0; j < j1 - j0; j += FEW ? ACROSS : 1) {
            enum { A = FEW ? DOWN : 1, B = FEW ? ACROSS : 1 };
            hr_pack<ELEM, PACK> in[A * B];
            hr_pack<hr_u8, PACK> codes[A * B];
#pragma unroll
            for (int a = 0; a < A * B; a++) { // all loads are under way before the first is used
                const hr_i64 at = from + ((hr_i64)(i + a / B) * p.ow + j + a % B) * p.channels;
                if (i0 + i + a / B < i1 && j0 + j + a % B < j1) {
                    in[a] = *(const hr_pack<ELEM, PACK> *)(dy + at);
                    if (MAX) {
                        codes[a] = *(const hr_pack<hr_u8, PACK> *)(index + at);
                    }
                }
            }
#pragma unroll
            for (int a = 0; a < A * B; a++) {
                const hr_i32 down = i0 + i + a / B, across = j0 + j + a % B;
                if (down < i1 && across < j1) {
                    const float share =
                        MAX ? 0.0f
                            : 1.0f / (float)(p.without_pad
                                                 ? inside(down, KH, SH, p.ph, p.h) *
                                                       inside(across, KW, SW, p.pw, p.w)
                                                 : KH * KW);
                    add_share<MAX>(sum, in[a], codes[a],
                                   code0 - (i + a / B) * SH * KW - (j + a % B) * SW, share);
                }
            }
        }
    }
    hr_store_pack<ELEM, PACK>(dx + at_of(blockIdx.x, p.w, o.j, p.channels, o.c), sum);
}
#if KH == 3 && KW == 3 && SH == 2 && SW == 2
// Windows of 3 x 3 at every second place, padded by 1: the four places (2 i, 2 j) to (2 i + 1, 2 j + 1) are those of four outputs at
// most, which are read once for all of them.  blockIdx.x = n * OH + i.  The order of every sum is that of pool_grad.
struct shares {
    hr_pack<ELEM, PACK> dy;
    hr_pack<hr_u8, PACK> codes;
};
HR_INLINE float share_of(const shares &s, int k, int code) {
    return s.codes.at[k] == code ? hr_at(s.dy, k) : 0.0f;
}
HR_KERNEL __launch_bounds__(THREADS)
    max_pool_grad_four(const ELEM *dy, const hr_u8 *index, ELEM *dx, pool p) {
    const hr_i32 n = (hr_i32)(blockIdx.x / p.oh), i = (hr_i32)(blockIdx.x % p.oh);
    place o;
    if (!find_place(p, p.ow, &o)) {
        return;
    }
    shares in[4];
    float sum[4][PACK];
    const hr_i64 from = at_of(blockIdx.x, p.ow, o.j, p.channels, o.c);
#pragma unroll
    for (int a = 0; a < 4; a++) {
        const hr_i64 at = from + ((hr_i64)(a / 2) * p.ow + a % 2) * p.channels;
        if (i + a / 2 < p.oh && o.j + a % 2 < p.ow) {
            in[a].dy = *(const hr_pack<ELEM, PACK> *)(dy + at);
            in[a].codes = *(const hr_pack<hr_u8, PACK> *)(index + at);
        } else {
#pragma unroll
            for (int k = 0; k < PACK; k++) {
                hr_store(&in[a].dy.at[k], 0.0f);
                in[a].codes.at[k] = 255;
            }
        }
    }
#pragma unroll
    for (int k = 0; k < PACK; k++) {
        sum[0][k] = 0.0f + share_of(in[0], k, 4);
        sum[1][k] = 0.0f + share_of(in[0], k, 5) + share_of(in[1], k, 3);
        sum[2][k] = 0.0f + share_of(in[0], k, 7) + share_of(in[2], k, 1);
        sum[3][k] = 0.0f + share_of(in[0], k, 8) + share_of(in[1], k, 6) + share_of(in[2], k, 2) +
                    share_of(in[3], k, 0);
    }
#pragma unroll
    for (int a = 0; a < 4; a++) {
        const hr_i32 h = 2 * i + a / 2, w = 2 * o.j + a % 2;
        if (h < p.h && w < p.w) {
            hr_store_pack<ELEM, PACK>(dx + at_of((hr_i64)n * p.h + h, p.w, w, p.channels, o.c),
                                      sum[a]);
        }
    }
}
#endif

HR_KERNEL __launch_bounds__(THREADS)
    max_pool_grad(const ELEM *dy, const hr_u8 *index, ELEM *dx, pool p) {
    pool_grad<true>(dy, index, dx, p);
}
HR_KERNEL __launch_bounds__(THREADS) avg_pool_grad(const ELEM *dy, ELEM *dx, pool p) {
    pool_grad<false>(dy, (const hr_u8 *)dy, dx, p);
}

// ---- whole images: 32 packs of channels by 8 pixels a block; grid: tiles of channels, samples ----

HR_KERNEL __launch_bounds__(THREADS)
    global_avg_pool(const ELEM *x, ELEM *y, hr_i64 pixels, hr_i32 channels) {
    __shared__ float room[8][32 * PACK + 1];
    const int lane = threadIdx.x % 32, row = threadIdx.x / 32;
    const hr_i32 c = ((hr_i32)blockIdx.y * 32 + lane) * PACK;
    float sum[PACK];
#pragma unroll
    for (int k = 0; k < PACK; k++) {
        sum[k] = 0.0f;
    }
    if (c < channels) {
#pragma unroll 4
        for (hr_i64 i = row; i < pixels; i += 8) {
            float v[PACK];
            hr_load_pack<ELEM, PACK>(x + ((hr_i64)blockIdx.x * pixels + i) * channels + c, v);
#pragma unroll
            for (int k = 0; k < PACK; k++) {
                sum[k] += v[k];
            }
        }
    }
#pragma unroll
    for (int k = 0; k < PACK; k++) {
        room[row][lane * PACK + k] = sum[k];
    }
    __syncthreads();
    for (int k = threadIdx.x; k < 32 * PACK; k += THREADS) {
        const hr_i32 to = (hr_i32)blockIdx.y * 32 * PACK + k;
        float total = 0.0f;
        for (int r = 0; r < 8; r++) {
            total += room[r][k];
        }
        if (to < channels) {
            hr_store(&y[(hr_i64)blockIdx.x * channels + to], total / (float)pixels);
        }
    }
}

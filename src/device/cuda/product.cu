// Matrix products and convolutions of our own: for machines without cuBLASLt and cuDNN, and for what those refuse.
//
// One tile of 128 x 128 results a block, 8 x 8 of them a thread, 16 of the inner dimension at a time through shared
// memory; the next part is on its way in registers meanwhile.  A convolution is the same product over patches that are
// never laid out: HR_LOADING says how a run of 8 neighbours of an operand is found.
//
//   HR_LOADING 0  a (M, K) or (K, M), b (K, N) or (N, K)
//           1  forward  rows are pixels of y, the inner dimension taps and channels of x;  b is w as it lies
//           2  input    rows are pixels of x, the inner dimension taps and channels of dy; b is w turned
//           3  weight   rows are taps and channels of x, the inner dimension pixels of y;  b is dy as it lies
//
// HR_T is the type of both operands, HR_Y of the result, HR_BIAS of the bias.  Groups are the batch.  With splits the inner
// dimension is cut; each part writes f32 sums to work space and product_join adds them in order, so that results do not
// depend on which block came first.  Left out on purpose: asynchronous copies, more than one tile size.

struct product {
    hr_i64 batch, m, n, k, lda, ldb, ldy, a_step, b_step, y_step;
    hr_i64 splits, depth; // depth: of one split
    hr_i32 ta, tb, add, bias;
    hr_i32 h, w, c, o, p, q, kh, kw, stride_h, stride_w, top, left, dilation_h, dilation_w, cg, og;
};

enum { TILE = 128, DEPTH = 16, ROW = TILE + 4 };

// `count` (at most 8) neighbours from `from`; the rest are zeros.
HR_INLINE void take(const HR_T *from, hr_i64 count, float (&out)[8]) {
    if (count >= 8 && ((hr_u64)from & 15) == 0) {
        hr_load_pack<HR_T, 8>(from, out);
        return;
    }
#pragma unroll
    for (int i = 0; i < 8; i++) {
        out[i] = i < count ? hr_load(from[i]) : 0.0f;
    }
}
HR_INLINE void nothing(float (&out)[8]) {
#pragma unroll
    for (int i = 0; i < 8; i++) {
        out[i] = 0.0f;
    }
}

#if HR_LOADING == 0
#define A_DOWN (g.ta) // neighbours of a lie along M
#define B_DOWN (g.tb) // neighbours of b lie along K
HR_INLINE void take_a(const product &g, const HR_T *a, hr_i64 i, hr_i64 k, hr_i64 end, float (&out)[8]) {
    if (g.ta) {
        take(a + k * g.lda + i, k < end ? g.m - i : 0, out);
    } else {
        take(a + i * g.lda + k, i < g.m ? end - k : 0, out);
    }
}
HR_INLINE void take_b(const product &g, const HR_T *b, hr_i64 k, hr_i64 j, hr_i64 end, float (&out)[8]) {
    if (g.tb) {
        take(b + j * g.ldb + k, j < g.n ? end - k : 0, out);
    } else {
        take(b + k * g.ldb + j, k < end ? g.n - j : 0, out);
    }
}
#endif

#if HR_LOADING == 1
#define A_DOWN 0
#define B_DOWN 0
HR_INLINE const HR_T *pixel(const product &g, const HR_T *x, hr_i64 row, int tap) {
    const int q = (int)(row % g.q), p = (int)(row / g.q % g.p);
    const hr_i64 n = row / g.q / g.p;
    const int h = p * g.stride_h - g.top + tap / g.kw * g.dilation_h;
    const int w = q * g.stride_w - g.left + tap % g.kw * g.dilation_w;
    const bool inside = h >= 0 && h < g.h && w >= 0 && w < g.w;
    return inside ? x + ((n * g.h + h) * g.w + w) * g.c : (const HR_T *)0;
}
HR_INLINE void take_a(const product &g, const HR_T *a, hr_i64 i, hr_i64 k, hr_i64 end, float (&out)[8]) {
    if (i >= g.m || k >= end) {
        nothing(out);
    } else if (g.cg % 8 == 0) {
        const HR_T *at = pixel(g, a, i, (int)(k / g.cg));
        if (at) {
            take(at + k % g.cg, 8, out);
        } else {
            nothing(out);
        }
    } else {
#pragma unroll
        for (int e = 0; e < 8; e++) {
            const HR_T *at = k + e < end ? pixel(g, a, i, (int)((k + e) / g.cg)) : (const HR_T *)0;
            out[e] = at ? hr_load(at[(k + e) % g.cg]) : 0.0f;
        }
    }
}
HR_INLINE void take_b(const product &g, const HR_T *b, hr_i64 k, hr_i64 j, hr_i64 end, float (&out)[8]) {
    take(b + k * g.o + j, k < end ? g.n - j : 0, out);
}
#endif

#if HR_LOADING == 2
#define A_DOWN 0
#define B_DOWN 1
// The pixel of dy that tap `tap` brings to pixel `row` of x; none when the stride passes it by.
HR_INLINE const HR_T *pixel(const product &g, const HR_T *dy, hr_i64 row, int tap) {
    const int w = (int)(row % g.w), h = (int)(row / g.w % g.h);
    const hr_i64 n = row / g.w / g.h;
    const int y = h + g.top - tap / g.kw * g.dilation_h, x = w + g.left - tap % g.kw * g.dilation_w;
    const bool inside = y >= 0 && x >= 0 && y % g.stride_h == 0 && x % g.stride_w == 0 &&
                        y / g.stride_h < g.p && x / g.stride_w < g.q;
    return inside ? dy + ((n * g.p + y / g.stride_h) * g.q + x / g.stride_w) * g.o : (const HR_T *)0;
}
HR_INLINE void take_a(const product &g, const HR_T *a, hr_i64 i, hr_i64 k, hr_i64 end, float (&out)[8]) {
    if (i >= g.m || k >= end) {
        nothing(out);
    } else if (g.og % 8 == 0) {
        const HR_T *at = pixel(g, a, i, (int)(k / g.og));
        if (at) {
            take(at + k % g.og, 8, out);
        } else {
            nothing(out);
        }
    } else {
#pragma unroll
        for (int e = 0; e < 8; e++) {
            const HR_T *at = k + e < end ? pixel(g, a, i, (int)((k + e) / g.og)) : (const HR_T *)0;
            out[e] = at ? hr_load(at[(k + e) % g.og]) : 0.0f;
        }
    }
}
HR_INLINE void take_b(const product &g, const HR_T *b, hr_i64 k, hr_i64 j, hr_i64 end, float (&out)[8]) {
    if (j >= g.n || k >= end) {
        nothing(out);
    } else if (g.og % 8 == 0) {
        take(b + (k / g.og * g.cg + j) * g.o + k % g.og, 8, out);
    } else {
#pragma unroll
        for (int e = 0; e < 8; e++) {
            const hr_i64 at = k + e;
            out[e] = at < end ? hr_load(b[(at / g.og * g.cg + j) * g.o + at % g.og]) : 0.0f;
        }
    }
}
#endif

#if HR_LOADING == 3
#define A_DOWN 1
#define B_DOWN 0
HR_INLINE const HR_T *pixel(const product &g, const HR_T *x, hr_i64 row, int tap) {
    const int q = (int)(row % g.q), p = (int)(row / g.q % g.p);
    const hr_i64 n = row / g.q / g.p;
    const int h = p * g.stride_h - g.top + tap / g.kw * g.dilation_h;
    const int w = q * g.stride_w - g.left + tap % g.kw * g.dilation_w;
    const bool inside = h >= 0 && h < g.h && w >= 0 && w < g.w;
    return inside ? x + ((n * g.h + h) * g.w + w) * g.c : (const HR_T *)0;
}
HR_INLINE void take_a(const product &g, const HR_T *a, hr_i64 i, hr_i64 k, hr_i64 end, float (&out)[8]) {
    if (i >= g.m || k >= end) {
        nothing(out);
    } else if (g.cg % 8 == 0) {
        const HR_T *at = pixel(g, a, k, (int)(i / g.cg));
        if (at) {
            take(at + i % g.cg, 8, out);
        } else {
            nothing(out);
        }
    } else {
#pragma unroll
        for (int e = 0; e < 8; e++) {
            const HR_T *at = i + e < g.m ? pixel(g, a, k, (int)((i + e) / g.cg)) : (const HR_T *)0;
            out[e] = at ? hr_load(at[(i + e) % g.cg]) : 0.0f;
        }
    }
}
HR_INLINE void take_b(const product &g, const HR_T *b, hr_i64 k, hr_i64 j, hr_i64 end, float (&out)[8]) {
    take(b + k * g.o + j, k < end ? g.n - j : 0, out);
}
#endif

// Eight neighbours into the tile [DEPTH][ROW]: along the depth when they lie so in memory, else across.
HR_INLINE void place(float *tile, int along, int k, int i, const float (&from)[8]) {
#pragma unroll
    for (int e = 0; e < 8; e++) {
        tile[along ? (k + e) * ROW + i : k * ROW + i + e] = from[e];
    }
}

HR_INLINE void put(const product &g, const HR_BIAS *bias, HR_Y *y, hr_i64 i, hr_i64 j, float value) {
    HR_Y *to = y + i * g.ldy + j;
    if (g.bias) {
        value += hr_load(bias[j]);
    }
    if (g.add) {
        value += hr_load(*to);
    }
    hr_store(to, value);
}

HR_KERNEL product_tile(product g, const HR_T *a_all, const HR_T *b_all, const HR_BIAS *bias, HR_Y *y_all,
                       float *parts) {
    HR_SHARED(room);
    float *as = (float *)room, *bs = as + DEPTH * ROW;
    const hr_i64 across = (g.n + TILE - 1) / TILE;
    const hr_i64 row0 = (hr_i64)blockIdx.x / across * TILE, col0 = (hr_i64)blockIdx.x % across * TILE;
    const hr_i64 begin = (hr_i64)blockIdx.y * g.depth;
    const hr_i64 end = begin + g.depth < g.k ? begin + g.depth : g.k;
    const int t = (int)threadIdx.x;
    // Which 8 neighbours of each tile this thread brings.
    const int a_k = A_DOWN ? t / 16 : t % 2 * 8, a_i = A_DOWN ? t % 16 * 8 : t / 2;
    const int b_k = B_DOWN ? t % 2 * 8 : t / 16, b_j = B_DOWN ? t / 2 : t % 16 * 8;
    const int i0 = t / 16 * 4, j0 = t % 16 * 4; // its results: rows i0.. and 64 + i0.., columns likewise
    for (hr_i64 z = blockIdx.z; z < g.batch; z += gridDim.z) {
        const HR_T *a = a_all + z * g.a_step;
        const HR_T *b = b_all + z * g.b_step;
        float sum[8][8], next_a[8], next_b[8];
#pragma unroll
        for (int i = 0; i < 8; i++) {
            nothing(sum[i]);
        }
        take_a(g, a, row0 + a_i, begin + a_k, end, next_a);
        take_b(g, b, begin + b_k, col0 + b_j, end, next_b);
        for (hr_i64 k = begin; k < end; k += DEPTH) {
            place(as, !A_DOWN, a_k, a_i, next_a);
            place(bs, B_DOWN, b_k, b_j, next_b);
            __syncthreads();
            if (k + DEPTH < end) {
                take_a(g, a, row0 + a_i, k + DEPTH + a_k, end, next_a);
                take_b(g, b, k + DEPTH + b_k, col0 + b_j, end, next_b);
            }
#pragma unroll
            for (int d = 0; d < DEPTH; d++) {
                float u[8], v[8];
#pragma unroll
                for (int e = 0; e < 4; e++) {
                    u[e] = as[d * ROW + i0 + e];
                    u[e + 4] = as[d * ROW + 64 + i0 + e];
                    v[e] = bs[d * ROW + j0 + e];
                    v[e + 4] = bs[d * ROW + 64 + j0 + e];
                }
#pragma unroll
                for (int i = 0; i < 8; i++) {
#pragma unroll
                    for (int j = 0; j < 8; j++) {
                        sum[i][j] = fmaf(u[i], v[j], sum[i][j]);
                    }
                }
            }
            __syncthreads();
        }
        float *part = parts + (z * g.splits + blockIdx.y) * g.m * g.n;
#pragma unroll
        for (int i = 0; i < 8; i++) {
#pragma unroll
            for (int j = 0; j < 8; j++) {
                const hr_i64 row = row0 + (i < 4 ? i0 + i : 60 + i0 + i);
                const hr_i64 col = col0 + (j < 4 ? j0 + j : 60 + j0 + j);
                if (row < g.m && col < g.n) {
                    if (g.splits > 1) {
                        part[row * g.n + col] = sum[i][j];
                    } else {
                        put(g, bias, y_all + z * g.y_step, row, col, sum[i][j]);
                    }
                }
            }
        }
    }
}

// The parts of one result, in order.
HR_KERNEL product_join(product g, const float *parts, const HR_BIAS *bias, HR_Y *y_all) {
    const hr_i64 all = g.batch * g.m * g.n, step = (hr_i64)gridDim.x * blockDim.x;
    for (hr_i64 at = (hr_i64)blockIdx.x * blockDim.x + threadIdx.x; at < all; at += step) {
        const hr_i64 z = at / (g.m * g.n), rest = at % (g.m * g.n);
        float sum = 0.0f;
        for (hr_i64 s = 0; s < g.splits; s++) {
            sum += parts[(z * g.splits + s) * g.m * g.n + rest];
        }
        put(g, bias, y_all + z * g.y_step, rest / g.n, rest % g.n, sum);
    }
}

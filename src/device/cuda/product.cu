// Matrix products and convolutions of our own: for machines without cuBLASLt and cuDNN, and for what those refuse.
//
// One tile of 128 x 128 results a block, a part of the inner dimension at a time through shared memory; the next part is
// on its way in registers meanwhile.  2-byte types (HR_MMA) multiply on tensor cores, 64 x 32 results a warp; f32 by
// fused multiply-adds, 8 x 8 results a thread.  A convolution is the same product over patches that are never laid out:
// HR_LOADING says how a run of 8 neighbours of an operand is found.
//
//   HR_LOADING 0  a (M, K) or (K, M), b (K, N) or (N, K)
//              1  forward  rows are pixels of y, the inner dimension taps and channels of x;  b is w as it lies
//              2  input    rows are pixels of x, the inner dimension taps and channels of dy; b is w turned
//              3  weight   rows are taps and channels of x, the inner dimension pixels of y;  b is dy as it lies
//
// HR_T is the type of both operands, HR_Y of the result, HR_BIAS of the bias.  Groups are the batch.  With splits the
// inner dimension is cut; each part writes f32 sums to work space and product_join adds them in order, so that results do
// not depend on which block came first.  Left out on purpose: asynchronous copies, more than one tile size.

struct product {
    hr_i64 batch, m, n, k, lda, ldb, ldy, a_step, b_step, y_step;
    hr_i64 splits, depth; // depth: of one split
    hr_i32 ta, tb, add, bias;
    hr_i32 h, w, c, o, p, q, kh, kw, stride_h, stride_w, top, left, dilation_h, dilation_w, cg, og;
};

typedef hr_pack<HR_T, 8> eight;

// `count` neighbours from `from`, 8 at most; the rest are zeros.
HR_INLINE void take(const HR_T *from, hr_i64 count, eight &out) {
    if (count >= 8 && ((hr_u64)from & 15) == 0) {
        out = *(const eight *)from;
        return;
    }
    const HR_T zero = {};
#pragma unroll
    for (int i = 0; i < 8; i++) {
        out.at[i] = i < count ? from[i] : zero;
    }
}
HR_INLINE void nothing(eight &out) {
    const HR_T zero = {};
#pragma unroll
    for (int i = 0; i < 8; i++) {
        out.at[i] = zero;
    }
}

#if HR_LOADING == 0
#define A_DOWN (g.ta) // neighbours of a lie along M
#define B_DOWN (g.tb) // neighbours of b lie along K
HR_INLINE void take_a(const product &g, const HR_T *a, hr_i64 i, hr_i64 k, hr_i64 end, eight &out) {
    if (g.ta) {
        take(a + k * g.lda + i, k < end ? g.m - i : 0, out);
    } else {
        take(a + i * g.lda + k, i < g.m ? end - k : 0, out);
    }
}
HR_INLINE void take_b(const product &g, const HR_T *b, hr_i64 k, hr_i64 j, hr_i64 end, eight &out) {
    if (g.tb) {
        take(b + j * g.ldb + k, j < g.n ? end - k : 0, out);
    } else {
        take(b + k * g.ldb + j, k < end ? g.n - j : 0, out);
    }
}
#endif

#if HR_LOADING == 1 || HR_LOADING == 3
// The pixel of x that tap `tap` brings to pixel `row` of y; none outside of the image.
HR_INLINE const HR_T *pixel(const product &g, const HR_T *x, hr_i64 row, int tap) {
    const int q = (int)(row % g.q), p = (int)(row / g.q % g.p);
    const hr_i64 n = row / g.q / g.p;
    const int h = p * g.stride_h - g.top + tap / g.kw * g.dilation_h;
    const int w = q * g.stride_w - g.left + tap % g.kw * g.dilation_w;
    const bool inside = h >= 0 && h < g.h && w >= 0 && w < g.w;
    return inside ? x + ((n * g.h + h) * g.w + w) * g.c : (const HR_T *)0;
}
#endif

#if HR_LOADING == 1
#define A_DOWN 0
#define B_DOWN 0
HR_INLINE void take_a(const product &g, const HR_T *a, hr_i64 i, hr_i64 k, hr_i64 end, eight &out) {
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
        const HR_T zero = {};
#pragma unroll
        for (int e = 0; e < 8; e++) {
            const HR_T *at = k + e < end ? pixel(g, a, i, (int)((k + e) / g.cg)) : (const HR_T *)0;
            out.at[e] = at ? at[(k + e) % g.cg] : zero;
        }
    }
}
HR_INLINE void take_b(const product &g, const HR_T *b, hr_i64 k, hr_i64 j, hr_i64 end, eight &out) {
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
HR_INLINE void take_a(const product &g, const HR_T *a, hr_i64 i, hr_i64 k, hr_i64 end, eight &out) {
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
        const HR_T zero = {};
#pragma unroll
        for (int e = 0; e < 8; e++) {
            const HR_T *at = k + e < end ? pixel(g, a, i, (int)((k + e) / g.og)) : (const HR_T *)0;
            out.at[e] = at ? at[(k + e) % g.og] : zero;
        }
    }
}
HR_INLINE void take_b(const product &g, const HR_T *b, hr_i64 k, hr_i64 j, hr_i64 end, eight &out) {
    if (j >= g.n || k >= end) {
        nothing(out);
    } else if (g.og % 8 == 0) {
        take(b + (k / g.og * g.cg + j) * g.o + k % g.og, 8, out);
    } else {
        const HR_T zero = {};
#pragma unroll
        for (int e = 0; e < 8; e++) {
            const hr_i64 at = k + e;
            out.at[e] = at < end ? b[(at / g.og * g.cg + j) * g.o + at % g.og] : zero;
        }
    }
}
#endif

#if HR_LOADING == 3
#define A_DOWN 1
#define B_DOWN 0
HR_INLINE void take_a(const product &g, const HR_T *a, hr_i64 i, hr_i64 k, hr_i64 end, eight &out) {
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
        const HR_T zero = {};
#pragma unroll
        for (int e = 0; e < 8; e++) {
            const HR_T *at = i + e < g.m ? pixel(g, a, k, (int)((i + e) / g.cg)) : (const HR_T *)0;
            out.at[e] = at ? at[(i + e) % g.cg] : zero;
        }
    }
}
HR_INLINE void take_b(const product &g, const HR_T *b, hr_i64 k, hr_i64 j, hr_i64 end, eight &out) {
    take(b + k * g.o + j, k < end ? g.n - j : 0, out);
}
#endif

// Where the results of a block go: the tile of block x, the part y of the inner dimension.
struct place {
    hr_i64 row, col, begin, end;
};
HR_INLINE place place_of(const product &g) {
    const hr_i64 across = (g.n + 127) / 128, begin = (hr_i64)blockIdx.y * g.depth;
    place at;
    at.row = (hr_i64)blockIdx.x / across * 128;
    at.col = (hr_i64)blockIdx.x % across * 128;
    at.begin = begin;
    at.end = begin + g.depth < g.k ? begin + g.depth : g.k;
    return at;
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

// One result of batch z, or of a part of it.
HR_INLINE void finish(const product &g, const HR_BIAS *bias, HR_Y *y, float *parts, hr_i64 z,
                      hr_i64 i, hr_i64 j, float value) {
    if (i < g.m && j < g.n) {
        if (g.splits > 1) {
            parts[((z * g.splits + blockIdx.y) * g.m + i) * g.n + j] = value;
        } else {
            put(g, bias, y + z * g.y_step, i, j, value);
        }
    }
}

#if HR_MMA

// Tiles lie as their operand does: rows of the inner dimension (32 numbers and 8 of padding, so that eight rows fall into
// different banks), or with the inner dimension down (128 numbers and 8).
enum { DEPTH = 32, ALONG = DEPTH + 8, DOWN = 128 + 8, TILE_SIZE = 128 * ALONG };

// Run r of 512 of a tile: where it starts across (i) and in the depth (k).
HR_INLINE int run_i(int r, int down) {
    return down ? r % 16 * 8 : r / 4;
}
HR_INLINE int run_k(int r, int down) {
    return down ? r / 16 : r % 4 * 8;
}
HR_INLINE void lay(HR_T *tile, int r, int down, const eight &from) {
    const int i = run_i(r, down), k = run_k(r, down);
    *(eight *)(tile + (down ? k * DOWN + i : i * ALONG + k)) = from;
}
// Four 8 x 8 parts of a tile from (i, k) on, as a lane of a warp gets them; part 1 lies across from part 0 or deeper in it.
HR_INLINE void fragment(hr_u32 (&out)[4], const HR_T *tile, int i, int k, int down, int deeper) {
    const int lane = (int)threadIdx.x & 31, part = lane >> 3, row = lane & 7;
    const int first = part & 1, second = part >> 1;
    const int di = (deeper ? second : first) * 8, dk = (deeper ? first : second) * 8;
    if (down) {
        hr_ldmatrix_turned(out, tile + (k + dk + row) * DOWN + i + di);
    } else {
        hr_ldmatrix(out, tile + (i + di + row) * ALONG + k + dk);
    }
}

HR_KERNEL product_tile(product g, const HR_T *a_all, const HR_T *b_all, const HR_BIAS *bias,
                       HR_Y *y_all, float *parts) {
    HR_SHARED(room);
    HR_T *tiles = (HR_T *)room; // a and b, twice
    const place at = place_of(g);
    const int t = (int)threadIdx.x, lane = t & 31, warp = t >> 5;
    const int a_down = A_DOWN, b_down = !(B_DOWN); // how they lie in shared memory
    const int i0 = warp / 4 * 64, j0 = warp % 4 * 32;
    for (hr_i64 z = blockIdx.z; z < g.batch; z += gridDim.z) {
        const HR_T *a = a_all + z * g.a_step;
        const HR_T *b = b_all + z * g.b_step;
        float sum[4][4][4];
        eight next_a[2], next_b[2];
#pragma unroll
        for (int i = 0; i < 64; i++) {
            sum[i / 16][i / 4 % 4][i % 4] = 0.0f;
        }
        __syncthreads(); // the tiles may still be read for the z before
#pragma unroll
        for (int e = 0; e < 2; e++) {
            const int r = t + e * 256;
            take_a(g, a, at.row + run_i(r, a_down), at.begin + run_k(r, a_down), at.end, next_a[e]);
            take_b(g, b, at.begin + run_k(r, b_down), at.col + run_i(r, b_down), at.end, next_b[e]);
        }
        int turn = 0;
        for (hr_i64 k = at.begin; k < at.end; k += DEPTH, turn ^= 1) {
            HR_T *as = tiles + turn * 2 * TILE_SIZE, *bs = as + TILE_SIZE;
#pragma unroll
            for (int e = 0; e < 2; e++) {
                lay(as, t + e * 256, a_down, next_a[e]);
                lay(bs, t + e * 256, b_down, next_b[e]);
            }
            __syncthreads();
            if (k + DEPTH < at.end) {
#pragma unroll
                for (int e = 0; e < 2; e++) {
                    const int r = t + e * 256;
                    const hr_i64 next = k + DEPTH;
                    take_a(g, a, at.row + run_i(r, a_down), next + run_k(r, a_down), at.end,
                           next_a[e]);
                    take_b(g, b, next + run_k(r, b_down), at.col + run_i(r, b_down), at.end,
                           next_b[e]);
                }
            }
#pragma unroll
            for (int d = 0; d < DEPTH; d += 16) {
                hr_u32 u[4][4], v[2][4];
#pragma unroll
                for (int i = 0; i < 4; i++) {
                    fragment(u[i], as, i0 + i * 16, d, a_down, 0);
                }
#pragma unroll
                for (int j = 0; j < 2; j++) {
                    fragment(v[j], bs, j0 + j * 16, d, b_down, 1);
                }
#pragma unroll
                for (int i = 0; i < 4; i++) {
#pragma unroll
                    for (int j = 0; j < 4; j++) {
                        const hr_u32 w[2] = {v[j / 2][j % 2 * 2], v[j / 2][j % 2 * 2 + 1]};
                        hr_mma(sum[i][j], u[i], w, HR_T());
                    }
                }
            }
        }
#pragma unroll
        for (int i = 0; i < 4; i++) {
#pragma unroll
            for (int j = 0; j < 4; j++) {
                const hr_i64 row = at.row + i0 + i * 16 + lane / 4;
                const hr_i64 col = at.col + j0 + j * 8 + lane % 4 * 2;
#pragma unroll
                for (int e = 0; e < 4; e++) {
                    finish(g, bias, y_all, parts, z, row + e / 2 * 8, col + e % 2, sum[i][j][e]);
                }
            }
        }
    }
}

#else

enum { DEPTH = 16, ROW = 128 + 4 };

// Eight neighbours into the tile [DEPTH][ROW]: along the depth when they lie so in memory, else across.
HR_INLINE void lay(float *tile, int along, int k, int i, const eight &from) {
#pragma unroll
    for (int e = 0; e < 8; e++) {
        tile[along ? (k + e) * ROW + i : k * ROW + i + e] = hr_load(from.at[e]);
    }
}

HR_KERNEL product_tile(product g, const HR_T *a_all, const HR_T *b_all, const HR_BIAS *bias,
                       HR_Y *y_all, float *parts) {
    HR_SHARED(room);
    float *as = (float *)room, *bs = as + DEPTH * ROW;
    const place at = place_of(g);
    const int t = (int)threadIdx.x;
    // Which 8 neighbours of each tile this thread brings.
    const int a_k = A_DOWN ? t / 16 : t % 2 * 8, a_i = A_DOWN ? t % 16 * 8 : t / 2;
    const int b_k = B_DOWN ? t % 2 * 8 : t / 16, b_j = B_DOWN ? t / 2 : t % 16 * 8;
    const int i0 = t / 16 * 4, j0 = t % 16 * 4; // its results: rows i0.. and 64 + i0.., columns likewise
    for (hr_i64 z = blockIdx.z; z < g.batch; z += gridDim.z) {
        const HR_T *a = a_all + z * g.a_step;
        const HR_T *b = b_all + z * g.b_step;
        float sum[8][8];
        eight next_a, next_b;
#pragma unroll
        for (int i = 0; i < 64; i++) {
            sum[i / 8][i % 8] = 0.0f;
        }
        take_a(g, a, at.row + a_i, at.begin + a_k, at.end, next_a);
        take_b(g, b, at.begin + b_k, at.col + b_j, at.end, next_b);
        for (hr_i64 k = at.begin; k < at.end; k += DEPTH) {
            lay(as, !(A_DOWN), a_k, a_i, next_a);
            lay(bs, B_DOWN, b_k, b_j, next_b);
            __syncthreads();
            if (k + DEPTH < at.end) {
                take_a(g, a, at.row + a_i, k + DEPTH + a_k, at.end, next_a);
                take_b(g, b, k + DEPTH + b_k, at.col + b_j, at.end, next_b);
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
#pragma unroll
        for (int i = 0; i < 8; i++) {
#pragma unroll
            for (int j = 0; j < 8; j++) {
                finish(g, bias, y_all, parts, z, at.row + (i < 4 ? i0 + i : 60 + i0 + i),
                       at.col + (j < 4 ? j0 + j : 60 + j0 + j), sum[i][j]);
            }
        }
    }
}

#endif

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

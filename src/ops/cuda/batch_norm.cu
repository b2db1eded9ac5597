// Batch normalisation over rows (M, C), forward and backward, in three launches each: sums, finish, apply.
//
// A block has LANES threads along the channels, PACK channels each, and 256 / LANES rows.  The grid is one wave: block
// (tile of channels, part) takes every gridDim.y-th group of rows, so that all blocks move through memory together; the
// last pass goes backwards and finds the end of the tensors still in the cache.  Sums: f32 in a thread, by rows in
// order in a block, by parts in order and in double in the finish; they are taken around a value from the middle, so a
// large mean costs no digits.  Forward and backward find y by the same two operations, so that its sign is the same.
//
// Defines: ELEM and PACK (of x, y, z, dy), LANES, RELU, ADD, MASK (forward: where y > 0 is written, too), SIGN (-1 forward;
// backward: 0 plain, 1 from x, 2 from y, 3 from the mask), SUM (backward: 0 dy is there; 1 it is the sum of two tensors, which is made here; 2 the same, and the sums of
// the parts lie in the second of the two, which nobody reads any more), BYTES (backward: channels are whole bytes of the mask),
// BESIDE (backward, SIGN 1: the last pass writes y again, by RELU and ADD).  A module has one direction.
#ifndef ELEM
#define ELEM float
#define PACK 4
#define LANES 16
#define RELU 1
#define ADD 1
#define SIGN -1
#endif
#ifndef SUM
#define SUM 0
#endif
#ifndef MASK
#define MASK 0
#endif
#ifndef BYTES
#define BYTES 0
#endif
#ifndef BESIDE
#define BESIDE 0
#endif

enum { THREADS = 256, ROWS = THREADS / LANES, WIDTH = LANES * PACK };

typedef hr_pack<ELEM, PACK> pack;

// A number of a vector of any real type; 0 f32, 1 bf16, 2 f16, as hr_type counts them.
HR_INLINE float real_at(int type, const void *data, hr_i64 k) {
    return type == 0   ? ((const float *)data)[k]
           : type == 1 ? hr_load(((const hr_bf16 *)data)[k])
                       : hr_load(((const hr_f16 *)data)[k]);
}
HR_INLINE void real_put(int type, void *data, hr_i64 k, float x) {
    if (type == 0) {
        ((float *)data)[k] = x;
    } else if (type == 1) {
        hr_store(&((hr_bf16 *)data)[k], x);
    } else {
        hr_store(&((hr_f16 *)data)[k], x);
    }
}

// Where a part's sum of a channel is: (parts, 2, channels), or, with SUM 2, in the rows of a tensor that the part's own
// block alone reads, and has read by then: the first of its group, as many as two lines of floats fill.
HR_INLINE hr_i64 sum_at(hr_i32 channels, hr_i32 part, int which, hr_i32 c) {
    enum { FLOATS = WIDTH * (int)sizeof(ELEM) / 4 }; // of a row of the tile
    const hr_i32 k = which * WIDTH + c % WIDTH;
    return SUM == 2
               ? (((hr_i64)part * ROWS + k / FLOATS) * channels + c - c % WIDTH) * (int)sizeof(ELEM) /
                         4 +
                     k % FLOATS
               : ((hr_i64)part * 2 + which) * channels + c;
}

// The two sums of every thread of a block to those of its part: rows in order.
HR_INLINE void put_sums(const float (&first)[PACK], const float (&second)[PACK], float *sums,
                        hr_i32 channels) {
    __shared__ float room[2][ROWS][WIDTH];
    const int lane = threadIdx.x % LANES, row = threadIdx.x / LANES;
#pragma unroll
    for (int j = 0; j < PACK; j++) {
        room[0][row][lane * PACK + j] = first[j];
        room[1][row][lane * PACK + j] = second[j];
    }
    __syncthreads();
    for (int i = threadIdx.x; i < 2 * WIDTH; i += THREADS) {
        const int which = i / WIDTH, k = i % WIDTH;
        const hr_i32 c = (hr_i32)blockIdx.x * WIDTH + k;
        float sum = 0.0f;
        for (int r = 0; r < ROWS; r++) {
            sum += room[which][r][k];
        }
        if (c < channels) {
            sums[sum_at(channels, (hr_i32)blockIdx.y, which, c)] = sum;
        }
    }
}

// Both sums of channel blockIdx.x * 8 + threadIdx.x % 8 over all parts, for threads below 8; 512 threads.
struct totals {
    double first, second;
};
HR_INLINE totals join(const float *sums, hr_i32 channels, hr_i32 parts) {
    __shared__ double room[2][64][9];
    const int k = threadIdx.x % 8, lane = threadIdx.x / 8;
    const hr_i32 c = (hr_i32)blockIdx.x * 8 + k;
    totals t = {0.0, 0.0};
    if (c < channels) {
#pragma unroll 4
        for (hr_i32 p = lane; p < parts; p += 64) {
            t.first += (double)sums[sum_at(channels, p, 0, c)];
            t.second += (double)sums[sum_at(channels, p, 1, c)];
        }
    }
    room[0][lane][k] = t.first;
    room[1][lane][k] = t.second;
    __syncthreads();
    if (threadIdx.x < 8) {
        for (int i = 1; i < 64; i++) {
            t.first += room[0][i][k];
            t.second += room[1][i][k];
        }
    }
    return t;
}

// y before what follows: the mean goes first, so that a channel that stands still gives beta to the last digit.
HR_INLINE float line(float x, float mean, float a, float beta) {
    return fmaf(x - mean, a, beta);
}
// y itself.
HR_INLINE float applied(float x, float mean, float a, float beta, float z) {
    float v = line(x, mean, a, beta);
    v += ADD ? z : 0.0f;
    return RELU && v < 0.0f ? 0.0f : v;
}

// ---- forward ----

#if SIGN < 0

// What sums are taken around: the mean of four rows, since one alone may lie far from the others.
template <int N>
HR_INLINE void load_middle(const ELEM *x, hr_i32 c, hr_i64 rows, hr_i32 channels, float (&out)[N]) {
    float more[3][N];
    hr_load_pack<ELEM, N>(x + c, out);
#pragma unroll
    for (int i = 0; i < 3; i++) {
        hr_load_pack<ELEM, N>(x + (rows - 1) * (i + 1) / 3 * channels + c, more[i]);
    }
#pragma unroll
    for (int j = 0; j < N; j++) {
        out[j] = 0.25f * ((out[j] + more[0][j]) + (more[1][j] + more[2][j]));
    }
}

HR_KERNEL __launch_bounds__(THREADS, 4)
    batch_norm_sums(const ELEM *x, float *sums, hr_i64 rows, hr_i32 channels) {
    enum { DEEP = 4 };
    const int lane = threadIdx.x % LANES, row = threadIdx.x / LANES;
    const hr_i32 c = ((hr_i32)blockIdx.x * LANES + lane) * PACK;
    const hr_i64 step = (hr_i64)gridDim.y * ROWS;
    float shift[PACK], sum[PACK], squares[PACK];
#pragma unroll
    for (int j = 0; j < PACK; j++) {
        sum[j] = squares[j] = 0.0f;
    }
    if (c < channels) {
        load_middle(x, c, rows, channels, shift);
        for (hr_i64 i = (hr_i64)blockIdx.y * ROWS + row; i < rows; i += DEEP * step) {
            pack in[DEEP];
#pragma unroll
            for (int d = 0; d < DEEP; d++) {
                if (i + d * step < rows) {
                    in[d] = *(const pack *)(x + (i + d * step) * channels + c);
                }
            }
#pragma unroll
            for (int d = 0; d < DEEP; d++) {
                if (i + d * step < rows) {
#pragma unroll
                    for (int j = 0; j < PACK; j++) {
                        const float v = hr_at(in[d], j) - shift[j];
                        sum[j] += v;
                        squares[j] = fmaf(v, v, squares[j]);
                    }
                }
            }
        }
    }
    put_sums(sum, squares, sums, channels);
}

HR_KERNEL __launch_bounds__(512)
    batch_norm_finish(const float *sums, const ELEM *x, const void *gamma, const void *beta,
                      float *mean, float *inv, float *lines, hr_i64 rows, hr_i32 channels,
                      hr_i32 parts, hr_i32 gamma_type, hr_i32 beta_type, double eps) {
    const totals t = join(sums, channels, parts);
    const hr_i32 c = (hr_i32)blockIdx.x * 8 + (hr_i32)threadIdx.x;
    if (threadIdx.x < 8 && c < channels) {
        float middle[1];
        load_middle(x, c, rows, channels, middle);
        const double m = (double)rows, off = t.first / m, squares = t.second / m - off * off;
        const double var = squares > 0.0 ? squares : squares * 0.0; // a NaN stays one
        const float mu = (float)((double)middle[0] + off), i = (float)(1.0 / sqrt(var + eps));
        const float a = real_at(gamma_type, gamma, c) * i;
        mean[c] = mu;
        inv[c] = i;
        lines[c] = a;
        lines[channels + c] = mu;
        lines[2 * channels + c] = real_at(beta_type, beta, c);
    }
}

// The same without gamma and beta: the moments alone.
HR_KERNEL __launch_bounds__(512)
    batch_norm_moments(const float *sums, const ELEM *x, float *mean, float *inv, hr_i64 rows,
                       hr_i32 channels, hr_i32 parts, double eps) {
    const totals t = join(sums, channels, parts);
    const hr_i32 c = (hr_i32)blockIdx.x * 8 + (hr_i32)threadIdx.x;
    if (threadIdx.x < 8 && c < channels) {
        float middle[1];
        load_middle(x, c, rows, channels, middle);
        const double m = (double)rows, off = t.first / m, squares = t.second / m - off * off;
        const double var = squares > 0.0 ? squares : squares * 0.0; // a NaN stays one
        mean[c] = (float)((double)middle[0] + off);
        inv[c] = (float)(1.0 / sqrt(var + eps));
    }
}

// Where y is positive, as stored: PACK bits of the mask, for channels in whole bytes.  A byte of two threads is one's.
HR_INLINE void put_bits(hr_u8 *mask, hr_i64 at, const float (&out)[PACK]) {
    hr_u32 bits = 0;
#pragma unroll
    for (int j = 0; j < PACK; j++) {
        ELEM stored;
        hr_store(&stored, out[j]);
        bits |= (hr_u32)(hr_load(stored) > 0.0f) << j;
    }
    if (PACK == 4) {
        const hr_u32 other = __shfl_xor_sync(3u << (threadIdx.x & 30), bits, 1);
        bits |= other << 4;
    }
    if (PACK == 8 || threadIdx.x % 2 == 0) {
        mask[at >> 3] = (hr_u8)bits;
    }
}

// y = (x - mean) * a + beta [+ z] [relu], rows from the last to the first.
HR_INLINE void apply(const ELEM *x, const ELEM *z, ELEM *y, hr_u8 *mask, const float (&a)[PACK],
                     const float (&mean)[PACK], const float (&beta)[PACK], hr_i64 rows,
                     hr_i32 channels, hr_i32 c) {
    enum { DEEP = ADD ? 2 : 4 };
    const hr_i64 step = (hr_i64)gridDim.y * ROWS;
    for (hr_i64 i = (hr_i64)blockIdx.y * ROWS + threadIdx.x / LANES; i < rows; i += DEEP * step) {
        pack in[DEEP], more[DEEP];
#pragma unroll
        for (int d = 0; d < DEEP; d++) {
            if (i + d * step < rows) {
                const hr_i64 at = (rows - 1 - i - d * step) * channels + c;
                in[d] = *(const pack *)(x + at);
                if (ADD) {
                    more[d] = *(const pack *)(z + at);
                }
            }
        }
#pragma unroll
        for (int d = 0; d < DEEP; d++) {
            if (i + d * step < rows) {
                float out[PACK];
#pragma unroll
                for (int j = 0; j < PACK; j++) {
                    out[j] = applied(hr_at(in[d], j), mean[j], a[j], beta[j],
                                     ADD ? hr_at(more[d], j) : 0.0f);
                }
                const hr_i64 at = (rows - 1 - i - d * step) * channels + c;
                hr_store_pack<ELEM, PACK>(y + at, out);
                if (MASK) {
                    put_bits(mask, at, out);
                }
            }
        }
    }
}

HR_KERNEL __launch_bounds__(THREADS, 4)
    batch_norm_apply(const ELEM *x, const ELEM *z, ELEM *y, const float *lines, hr_i64 rows,
                     hr_i32 channels) {
    const hr_i32 c = ((hr_i32)blockIdx.x * LANES + threadIdx.x % LANES) * PACK;
    if (c < channels) {
        float a[PACK], mean[PACK], beta[PACK];
#pragma unroll
        for (int j = 0; j < PACK; j++) {
            a[j] = lines[c + j];
            mean[j] = lines[channels + c + j];
            beta[j] = lines[2 * channels + c + j];
        }
        apply(x, z, y, (hr_u8 *)0, a, mean, beta, rows, channels, c);
    }
}

// With lines made here, of gamma, beta and the moments.
HR_KERNEL __launch_bounds__(THREADS, 4)
    batch_norm_lines_apply(const ELEM *x, const ELEM *z, ELEM *y, hr_u8 *mask, const void *gamma,
                           const void *beta, const float *mean, const float *inv, hr_i64 rows,
                           hr_i32 channels, hr_i32 gamma_type, hr_i32 beta_type) {
    const hr_i32 c = ((hr_i32)blockIdx.x * LANES + threadIdx.x % LANES) * PACK;
    if (c < channels) {
        float a[PACK], m[PACK], b[PACK];
#pragma unroll
        for (int j = 0; j < PACK; j++) {
            a[j] = real_at(gamma_type, gamma, c + j) * inv[c + j];
            m[j] = mean[c + j];
            b[j] = real_at(beta_type, beta, c + j);
        }
        apply(x, z, y, mask, a, m, b, rows, channels, c);
    }
}

// The mask of channels that are no whole bytes, (N, (each + 7) / 8), from y: a byte a thread.
HR_KERNEL batch_norm_mask(const ELEM *y, hr_u8 *mask, hr_i64 bytes, hr_i64 each) {
    const hr_i64 i = (hr_i64)blockIdx.x * blockDim.x + threadIdx.x, row = (each + 7) / 8;
    if (i < bytes) {
        const hr_i64 first = i % row * 8, at = i / row * each + first;
        hr_u32 bits = 0;
        for (int k = 0; k < 8 && first + k < each; k++) {
            bits |= (hr_u32)(hr_load(y[at + k]) > 0.0f) << k;
        }
        mask[i] = (hr_u8)bits;
    }
}

// Lines from statistics that are given: (3, C) a, mean, beta.
HR_KERNEL batch_norm_lines(const void *gamma, const void *beta, const void *mean, const void *var,
                           float *lines, hr_i32 channels, hr_i32 gamma_type, hr_i32 beta_type,
                           hr_i32 mean_type, hr_i32 var_type, double eps) {
    const hr_i32 c = (hr_i32)(blockIdx.x * blockDim.x + threadIdx.x);
    if (c < channels) {
        const double v = (double)real_at(var_type, var, c);
        lines[c] = real_at(gamma_type, gamma, c) * (float)(1.0 / sqrt(v + eps));
        lines[channels + c] = real_at(mean_type, mean, c);
        lines[2 * channels + c] = real_at(beta_type, beta, c);
    }
}

HR_KERNEL batch_norm_stats(const float *running_mean, const float *running_var, const float *mean,
                           const float *inv, float *out_mean, float *out_var, hr_i32 channels,
                           double m, double eps, double unbiased, hr_i32 parts,
                           const hr_control *control, hr_i64 until) {
    const hr_i32 k = (hr_i32)(blockIdx.x * blockDim.x + threadIdx.x);
    if (k < channels && (hr_i64)control->step < until) {
        float at = running_mean[k], var = running_var[k];
        for (hr_i32 p = 0; p < parts; p++) {
            const double i = (double)inv[p * channels + k], batch = 1.0 / (i * i) - eps;
            at = (float)((1.0 - m) * (double)at + m * (double)mean[p * channels + k]);
            var = (float)((1.0 - m) * (double)var + m * (batch < 0.0 ? 0.0 : batch) * unbiased);
        }
        out_mean[k] = at;
        out_var[k] = var;
    }
}

#else

// ---- backward ----

// d = dy where the relu let it through; y is the forward output with SIGN 2, and its bit with SIGN 3.
HR_INLINE float passed(float dy, float x, float y, float mean, float a, float beta) {
    return SIGN == 0 || (SIGN == 1 ? line(x, mean, a, beta) : y) > 0.0f ? dy : 0.0f;
}

// A byte of the mask (N, (each + 7) / 8) with the PACK bits from element `at` on, the first of them as bit bit_of(c).  The
// rest of the pass does not wait for it: what is not whole bytes is put together in a module of its own.
HR_INLINE hr_u32 bits_at(const hr_u8 *mask, hr_i64 at, hr_i64 each) {
    if (BYTES) {
        return (hr_u32)mask[at >> 3];
    }
    hr_u32 bits = 0;
    for (int j = 0; j < PACK; j++) {
        const hr_i64 row = (at + j) / each, k = (at + j) % each;
        bits |= ((hr_u32)mask[row * ((each + 7) / 8) + k / 8] >> (k % 8) & 1u) << j;
    }
    return bits;
}
HR_INLINE int bit_of(hr_i32 c) {
    return BYTES && PACK < 8 ? c & 7 : 0;
}

// What both passes know of a channel.
struct channel {
    float a[PACK], mean[PACK], beta[PACK];
};
HR_INLINE void load_channel(channel *k, hr_i32 c, const void *gamma, const void *beta,
                            const float *mean, const float *inv, int gamma_type, int beta_type) {
#pragma unroll
    for (int j = 0; j < PACK; j++) {
        k->mean[j] = mean[c + j];
        if (SIGN == 1) {
            k->a[j] = real_at(gamma_type, gamma, c + j) * inv[c + j];
            k->beta[j] = real_at(beta_type, beta, c + j);
        } else {
            k->a[j] = k->beta[j] = 0.0f;
        }
    }
}

// dy, or the sum of two as it would have been stored.
HR_INLINE float arrived(float dy, float more) {
    ELEM stored;
    hr_store(&stored, dy + more);
    return SUM ? hr_load(stored) : dy;
}

// Sums of d and d (x - mean).  With SIGN 2 and 3, d goes to dz, which may lie over dy or y: the last pass reads it there.
HR_KERNEL __launch_bounds__(THREADS, 2)
    batch_norm_grad_sums(const ELEM *dy, const ELEM *more, const ELEM *x, const void *seen, ELEM *dz, const void *gamma,
                         const void *beta, const float *mean, const float *inv, float *sums,
                         hr_i64 rows, hr_i32 channels, hr_i32 gamma_type, hr_i32 beta_type, hr_i64 each) {
    enum { DEEP = 4 };
    const int lane = threadIdx.x % LANES, row = threadIdx.x / LANES;
    const hr_i32 c = ((hr_i32)blockIdx.x * LANES + lane) * PACK;
    const hr_i64 step = (hr_i64)gridDim.y * ROWS;
    float sum[PACK], product[PACK];
#pragma unroll
    for (int j = 0; j < PACK; j++) {
        sum[j] = product[j] = 0.0f;
    }
    if (c < channels) {
        channel k;
        load_channel(&k, c, gamma, beta, mean, inv, gamma_type, beta_type);
        for (hr_i64 i = (hr_i64)blockIdx.y * ROWS + row; i < rows; i += DEEP * step) {
            pack in_dy[DEEP], in_more[DEEP], in_x[DEEP], in_y[DEEP];
            hr_u32 in_bits[DEEP];
#pragma unroll
            for (int d = 0; d < DEEP; d++) {
                if (i + d * step < rows) {
                    const hr_i64 at = (i + d * step) * channels + c;
                    in_dy[d] = *(const pack *)(dy + at);
                    in_x[d] = *(const pack *)(x + at);
                    if (SUM) {
                        in_more[d] = *(const pack *)(more + at);
                    }
                    if (SIGN == 2) {
                        in_y[d] = *(const pack *)((const ELEM *)seen + at);
                    }
                    if (SIGN == 3) {
                        in_bits[d] = bits_at((const hr_u8 *)seen, at, each);
                    }
                }
            }
#pragma unroll
            for (int d = 0; d < DEEP; d++) {
                if (i + d * step < rows) {
                    float out[PACK];
#pragma unroll
                    for (int j = 0; j < PACK; j++) {
                        const float v = hr_at(in_x[d], j);
                        const float whole =
                            arrived(hr_at(in_dy[d], j), SUM ? hr_at(in_more[d], j) : 0.0f);
                        const float y = SIGN == 2   ? hr_at(in_y[d], j)
                                        : SIGN == 3 ? (float)(in_bits[d] >> (bit_of(c) + j) & 1u)
                                                    : 0.0f;
                        out[j] = passed(whole, v, y, k.mean[j], k.a[j], k.beta[j]);
                        sum[j] += out[j];
                        product[j] = fmaf(out[j], v - k.mean[j], product[j]);
                    }
                    if (SIGN >= 2) {
                        hr_store_pack<ELEM, PACK>(dz + (i + d * step) * channels + c, out);
                    }
                }
            }
        }
    }
    put_sums(sum, product, sums, channels);
}

// Gradients of gamma and beta, and three numbers a channel for the last pass: lines (3, C).
HR_KERNEL __launch_bounds__(512)
    batch_norm_grad_finish(const float *sums, const void *gamma, const float *inv, void *dgamma,
                           void *dbeta, float *lines, hr_i64 rows, hr_i32 channels, hr_i32 parts,
                           hr_i32 gamma_type, hr_i32 beta_type) {
    const totals t = join(sums, channels, parts);
    const hr_i32 c = (hr_i32)blockIdx.x * 8 + (hr_i32)threadIdx.x;
    if (threadIdx.x < 8 && c < channels) {
        const double i = (double)inv[c], scale = (double)real_at(gamma_type, gamma, c) * i;
        const double m = rows > 0 ? (double)rows : 1.0;
        real_put(gamma_type, dgamma, c, (float)(t.second * i));
        real_put(beta_type, dbeta, c, (float)t.first);
        lines[c] = (float)scale;
        lines[channels + c] = (float)(-scale * i * i * t.second / m);
        lines[2 * channels + c] = (float)(-scale * t.first / m);
    }
}

// dx, rows from the last to the first.  With SIGN 2 and 3, dy is what the first pass let through.  y lies where nothing else does.
HR_KERNEL __launch_bounds__(THREADS, 2)
    batch_norm_grad_apply(const ELEM *dy, const ELEM *x, ELEM *dx, ELEM *y, const void *gamma,
                          const void *beta, const float *mean, const float *inv,
                          const float *lines, hr_i64 rows, hr_i32 channels, hr_i32 gamma_type,
                          hr_i32 beta_type) {
    enum { DEEP = 4 };
    const hr_i32 c = ((hr_i32)blockIdx.x * LANES + threadIdx.x % LANES) * PACK;
    const hr_i64 step = (hr_i64)gridDim.y * ROWS;
    if (c >= channels) {
        return;
    }
    channel k;
    load_channel(&k, c, gamma, beta, mean, inv, gamma_type, beta_type);
    float by_dy[PACK], by_x[PACK], constant[PACK];
#pragma unroll
    for (int j = 0; j < PACK; j++) {
        by_dy[j] = lines[c + j];
        by_x[j] = lines[channels + c + j];
        constant[j] = lines[2 * channels + c + j];
    }
    for (hr_i64 i = (hr_i64)blockIdx.y * ROWS + threadIdx.x / LANES; i < rows; i += DEEP * step) {
        pack in_dy[DEEP], in_x[DEEP];
#pragma unroll
        for (int d = 0; d < DEEP; d++) {
            if (i + d * step < rows) {
                const hr_i64 at = (rows - 1 - i - d * step) * channels + c;
                in_dy[d] = *(const pack *)(dy + at);
                in_x[d] = *(const pack *)(x + at);
            }
        }
#pragma unroll
        for (int d = 0; d < DEEP; d++) {
            if (i + d * step < rows) {
                const hr_i64 at = (rows - 1 - i - d * step) * channels + c;
                float out[PACK], again[PACK];
#pragma unroll
                for (int j = 0; j < PACK; j++) {
                    const float v = hr_at(in_x[d], j);
                    const float whole = hr_at(in_dy[d], j);
                    const float p =
                        SIGN == 1 ? passed(whole, v, 0.0f, k.mean[j], k.a[j], k.beta[j]) : whole;
                    out[j] = fmaf(by_dy[j], p, fmaf(by_x[j], v - k.mean[j], constant[j]));
                    if (BESIDE) {
                        again[j] = applied(v, k.mean[j], k.a[j], k.beta[j], 0.0f);
                    }
                }
                hr_store_pack<ELEM, PACK>(dx + at, out);
                if (BESIDE) {
                    hr_store_pack<ELEM, PACK>(y + at, again);
                }
            }
        }
    }
}

#endif

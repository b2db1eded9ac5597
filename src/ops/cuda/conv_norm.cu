// What conv_norm_grad does beside its products (ops/common/conv_norm.h has the formulas): the pass over rows that masks and sums, and the
// small matrices.
//
//   conv_norm_pass      dz = mask ? dy : 0 and its sums, or sums alone: blocks and order as in batch_norm.cu
//   conv_norm_join      sums of parts
//   conv_norm_channels  dgamma, dbeta, and A, B, C of a channel
//   conv_norm_matrices  tiles of Q, in parts of its sums, and of P and dw
//   conv_norm_rest      Q, and r in two numbers of the small type whose sum it is
//
// Defines: ELEM, PACK, LANES, SUM (1: dy is the sum of two tensors; 2: the same, and the sums of the parts lie in the second of the two,
// which nobody reads any more), MASKED (0: sums of dy alone), BYTES (channels are whole bytes of the mask).
#ifndef ELEM
#define ELEM float
#define PACK 4
#define LANES 16
#endif
#ifndef SUM
#define SUM 0
#endif
#ifndef MASKED
#define MASKED 1
#endif
#ifndef BYTES
#define BYTES 0
#endif

enum { THREADS = 256, ROWS = THREADS / LANES, WIDTH = LANES * PACK, SIDE = 32, PART = 128, TURNS = 16 };

typedef hr_pack<ELEM, PACK> pack;

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

// ---- the pass over rows ----

// Where a part's sum of a channel is: (parts, channels), or, with SUM 2, in rows of a tensor that the part's own block alone reads,
// and has read by then: the first of its group, as many as a line of floats fills.
HR_INLINE hr_i64 sum_at(hr_i32 channels, hr_i32 part, hr_i32 c) {
    enum { FLOATS = WIDTH * (int)sizeof(ELEM) / 4 }; // of a row of the tile
    const hr_i32 k = c % WIDTH;
    return SUM == 2 ? (((hr_i64)part * ROWS + k / FLOATS) * channels + c - k) * (int)sizeof(ELEM) / 4 +
                          k % FLOATS
                    : (hr_i64)part * channels + c;
}

// A byte of the mask (N, (each + 7) / 8) with the PACK bits from element `at` on, the first of them as bit bit_of(c).
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

// dy, or the sum of two as it would have been stored.
HR_INLINE float arrived(float dy, float more) {
    ELEM stored;
    hr_store(&stored, dy + more);
    return SUM ? hr_load(stored) : dy;
}

HR_KERNEL __launch_bounds__(THREADS, 4)
    conv_norm_pass(const ELEM *dy, const ELEM *more, const hr_u8 *mask, ELEM *dz, float *sums,
                   hr_i64 rows, hr_i32 channels, hr_i64 each) {
    enum { DEEP = 4 };
    __shared__ float room[ROWS][WIDTH];
    const int lane = threadIdx.x % LANES, row = threadIdx.x / LANES;
    const hr_i32 c = ((hr_i32)blockIdx.x * LANES + lane) * PACK;
    const hr_i64 step = (hr_i64)gridDim.y * ROWS;
    float sum[PACK];
#pragma unroll
    for (int j = 0; j < PACK; j++) {
        sum[j] = 0.0f;
    }
    for (hr_i64 i = (hr_i64)blockIdx.y * ROWS + row; c < channels && i < rows; i += DEEP * step) {
        pack in_dy[DEEP], in_more[DEEP];
        hr_u32 in_bits[DEEP];
#pragma unroll
        for (int d = 0; d < DEEP; d++) {
            if (i + d * step < rows) {
                const hr_i64 at = (i + d * step) * channels + c;
                in_dy[d] = *(const pack *)(dy + at);
                if (SUM) {
                    in_more[d] = *(const pack *)(more + at);
                }
                if (MASKED) {
                    in_bits[d] = bits_at(mask, at, each);
                }
            }
        }
#pragma unroll
        for (int d = 0; d < DEEP; d++) {
            if (i + d * step < rows) {
                float out[PACK];
#pragma unroll
                for (int j = 0; j < PACK; j++) {
                    const float whole =
                        arrived(hr_at(in_dy[d], j), SUM ? hr_at(in_more[d], j) : 0.0f);
                    out[j] = !MASKED || (in_bits[d] >> (bit_of(c) + j) & 1u) ? whole : 0.0f;
                    sum[j] += out[j];
                }
                if (MASKED) {
                    hr_store_pack<ELEM, PACK>(dz + (i + d * step) * channels + c, out);
                }
            }
        }
    }
#pragma unroll
    for (int j = 0; j < PACK; j++) {
        room[row][lane * PACK + j] = sum[j];
    }
    __syncthreads();
    for (int k = threadIdx.x; k < WIDTH; k += THREADS) {
        const hr_i32 channel = (hr_i32)blockIdx.x * WIDTH + k;
        float total = 0.0f;
        for (int r = 0; r < ROWS; r++) {
            total += room[r][k];
        }
        if (channel < channels) {
            sums[sum_at(channels, (hr_i32)blockIdx.y, channel)] = total;
        }
    }
}

// Sums over all parts, of eight channels a block of 512 threads.
HR_KERNEL __launch_bounds__(512)
    conv_norm_join(const float *sums, float *out, hr_i32 channels, hr_i32 parts) {
    __shared__ double room[64][9];
    const int k = threadIdx.x % 8, lane = threadIdx.x / 8;
    const hr_i32 c = (hr_i32)blockIdx.x * 8 + k;
    double t = 0.0;
    for (hr_i32 p = lane; c < channels && p < parts; p += 64) {
        t += (double)sums[sum_at(channels, p, c)];
    }
    room[lane][k] = t;
    __syncthreads();
    if (threadIdx.x < 8 && c < channels) {
        for (int i = 1; i < 64; i++) {
            t += room[i][k];
        }
        out[c] = (float)t;
    }
}

// ---- small matrices ----

// Channel blockIdx.x * 32 + threadIdx.x % 32; the others of a block of 512 take rows of w and G in turn.
HR_KERNEL __launch_bounds__(32 * TURNS)
    conv_norm_channels(const ELEM *w, const float *g, const float *t, const float *s,
                       const void *gamma, const float *inv, void *dgamma, void *dbeta,
                       float *lines, hr_i64 rows, hr_i32 k, hr_i32 n, hr_i32 type) {
    __shared__ double room[2][TURNS][33];
    const int lane = threadIdx.x % 32, turn = threadIdx.x / 32;
    const hr_i32 c = (hr_i32)blockIdx.x * 32 + lane;
    double product = 0.0, mean = 0.0;
#pragma unroll 4
    for (hr_i32 i = turn; i < k; i += TURNS) {
        if (c >= n) {
            break;
        }
        const double v = (double)hr_load(w[(hr_i64)i * n + c]);
        product += v * (double)g[(hr_i64)i * n + c];
        mean += v * (double)s[i];
    }
    room[0][turn][lane] = product;
    room[1][turn][lane] = mean;
    __syncthreads();
    if (turn == 0 && c < n) {
        for (int i = 1; i < TURNS; i++) {
            product += room[0][i][lane];
            mean += room[1][i][lane];
        }
        const double m = (double)rows, by = (double)inv[c], sum = (double)t[c];
        const double grad = by * (product - sum * (mean / m));
        const double a = (double)real_at(type, gamma, c) * by, b = -a * by * grad / m;
        real_put(type, dgamma, c, (float)grad);
        real_put(type, dbeta, c, (float)sum);
        lines[c] = (float)a;
        lines[n + c] = (float)b;
        lines[2 * n + c] = (float)(-(a * sum + b * mean) / m);
    }
}

// What lies at (row, column) of the two factors of a tile: of Q, w diag(B) and w'; of dw, S and w.
struct factors {
    const ELEM *w;
    const float *s, *b;
    hr_i32 k, n;
    int of_q;
};
HR_INLINE float left_at(const factors &f, hr_i32 row, hr_i32 d) {
    return row >= f.k || d >= (f.of_q ? f.n : f.k) ? 0.0f
           : f.of_q ? hr_load(f.w[(hr_i64)row * f.n + d]) * f.b[d]
                    : f.s[(hr_i64)row * f.k + d];
}
HR_INLINE float right_at(const factors &f, hr_i32 d, hr_i32 column) {
    return f.of_q ? (column >= f.k || d >= f.n ? 0.0f : hr_load(f.w[(hr_i64)column * f.n + d]))
                  : (column >= f.n || d >= f.k ? 0.0f : hr_load(f.w[(hr_i64)d * f.n + column]));
}

// A tile of 32 x 32 numbers a block of 256 threads: first those of Q, (parts, K, K) with 128 channels a part, then those of P and
// dw (K, N).
HR_KERNEL __launch_bounds__(256)
    conv_norm_matrices(const ELEM *w, const float *g, const float *s, const float *sums,
                       const float *lines, ELEM *p, float *q, ELEM *dw, hr_i32 k, hr_i32 n) {
    __shared__ float left[SIDE][SIDE + 1], right[SIDE][SIDE + 1];
    const hr_i32 down = (k + SIDE - 1) / SIDE, squares = down * down * ((n + PART - 1) / PART);
    const int of_q = (hr_i32)blockIdx.x < squares;
    const hr_i32 part = of_q ? (hr_i32)blockIdx.x / (down * down) : 0;
    const hr_i32 at = of_q ? (hr_i32)blockIdx.x % (down * down) : (hr_i32)blockIdx.x - squares;
    const factors f = {w, s, lines + n, k, n, of_q};
    const hr_i32 row0 = at % down * SIDE, column0 = at / down * SIDE;
    const hr_i32 begin = part * PART, end = !of_q ? k : begin + PART < n ? begin + PART : n;
    const int x = threadIdx.x % 32, y = threadIdx.x / 32;
    float sum[4] = {0.0f, 0.0f, 0.0f, 0.0f};
    for (hr_i32 d0 = begin; d0 < end; d0 += SIDE) {
#pragma unroll
        for (int i = 0; i < 4; i++) {
            left[y + 8 * i][x] = left_at(f, row0 + y + 8 * i, d0 + x);
            if (of_q) { // threads side by side read what lies side by side
                right[x][y + 8 * i] = right_at(f, d0 + x, column0 + y + 8 * i);
            } else {
                right[y + 8 * i][x] = right_at(f, d0 + y + 8 * i, column0 + x);
            }
        }
        __syncthreads();
#pragma unroll 8
        for (int d = 0; d < SIDE; d++) {
            const float v = right[d][x];
#pragma unroll
            for (int i = 0; i < 4; i++) {
                sum[i] = fmaf(left[y + 8 * i][d], v, sum[i]);
            }
        }
        __syncthreads();
    }
    const hr_i32 column = column0 + x;
#pragma unroll
    for (int i = 0; i < 4; i++) {
        const hr_i32 row = row0 + y + 8 * i;
        if (of_q && row < k && column < k) {
            q[((hr_i64)part * k + row) * k + column] = sum[i];
        } else if (!of_q && row < k && column < n) {
            const hr_i64 to = (hr_i64)row * n + column;
            const float a = lines[column], b = lines[n + column], c = lines[2 * n + column];
            hr_store(&p[to], a * hr_load(w[to]));
            hr_store(&dw[to], fmaf(a, g[to], fmaf(b, sum[i], c * sums[row])));
        }
    }
}

// Row blockIdx.x of Q, the sum of its parts; 128 threads.  first + second = -(t P + s Q) / M.  Q is what its rows are, turned or not: its
// other half may be rounded otherwise.
HR_KERNEL __launch_bounds__(128)
    conv_norm_rest(const ELEM *p, const float *parts, ELEM *q, const float *t, const float *s,
                   ELEM *first, ELEM *second, hr_i64 rows, hr_i32 k, hr_i32 n) {
    __shared__ double room[128];
    const hr_i32 at = (hr_i32)blockIdx.x;
    double sum = 0.0;
    for (hr_i32 i = (hr_i32)threadIdx.x; i < n; i += 128) {
        sum += (double)t[i] * (double)hr_load(p[(hr_i64)at * n + i]);
    }
    for (hr_i32 i = (hr_i32)threadIdx.x; i < k; i += 128) {
        float whole = 0.0f;
        for (hr_i32 part = 0; part * PART < n; part++) {
            whole += parts[((hr_i64)part * k + at) * k + i];
        }
        hr_store(&q[(hr_i64)at * k + i], whole);
        sum += (double)s[i] * (double)hr_load(q[(hr_i64)at * k + i]);
    }
    room[threadIdx.x] = sum;
    __syncthreads();
    for (int half = 64; half > 0; half /= 2) {
        if ((int)threadIdx.x < half) {
            room[threadIdx.x] += room[threadIdx.x + half];
        }
        __syncthreads();
    }
    if (threadIdx.x == 0) {
        const float r = (float)(-room[0] / (double)rows);
        hr_store(&first[at], r);
        hr_store(&second[at], r - hr_load(first[at]));
    }
}

// Normalisation inside a sample: layer norm, RMS norm and group norm, forward and backward.
//
// Rows (norm_rows*): ROW threads share a row, a warp or the whole block, and keep it in registers, KEEP packs a thread:
// every byte is read once.  Backward, a group of threads takes every so-many-th row and keeps the sums for gamma and
// beta of its columns in registers; a block adds its groups in order and writes one partial row, and norm_finish adds
// those in order.
// Groups (norm_groups*): any (N, S, G, K); a block goes over one sample's group three times.  norm_columns makes the
// partial rows for gamma and beta.
//
// SUM, for rows: forward, x is made here of two tensors and stored at `sum` (0: nobody reads it); backward, dx is stored at
// dx (0: nobody reads it), and added to another at `to`.  All of them may lie over one another row by row: a thread has
// read its numbers before it writes in their places.
// AGAIN, for rows backward: what the forward op made of x is made here, too, and its statistics are not read but made.
// TOTAL, for rows of a warp backward: what is written is added up by columns, too, in the order of columns_by_turns of reduce.cu, as
// parts in `totals`.  These sums are in shared memory: registers have no room for them.
//
// Defines: ELEM and PACK (of x, y, dy, dx), GAMMA, BETA (types), RMS, ROW, KEEP, SUM, AGAIN, TOTAL; BACKWARD and GROUPED say which of
// the four parts a module has.
#ifndef ELEM
#define ELEM float
#define PACK 4
#define GAMMA float
#define BETA float
#define RMS 0
#define ROW 32
#define KEEP 6
#define BACKWARD 0
#define GROUPED 0
#endif
#ifndef SUM
#define SUM 0
#endif
#ifndef AGAIN
#define AGAIN 0
#endif
#ifndef TOTAL
#define TOTAL 0
#endif

enum { THREADS = 256, GROUPS = THREADS / ROW };

typedef hr_pack<ELEM, PACK> pack;

// x as it would be after a store and a load.
HR_INLINE float stored(float x) {
    ELEM y;
    hr_store(&y, x);
    return hr_load(y);
}

HR_INLINE float row_sum(float x, float *room) {
    return ROW == 32 ? hr_warp_sum(x) : hr_block_sum(x, room);
}

// One number of y: written out, so that it has the same bits in every kernel.
HR_INLINE float normal(float x, float mu, float over, float g, float b) {
    const float xhat = (x - mu) * over;
    return RMS ? xhat * g + 0.0f : fmaf(xhat, g, b);
}

// ---- rows ----

#if !GROUPED && !BACKWARD

HR_KERNEL __launch_bounds__(THREADS)
    norm_rows(const ELEM *x, const ELEM *more, ELEM *whole, const GAMMA *gamma, const BETA *beta,
              ELEM *y, float *mean, float *inv, hr_i64 rows, hr_i32 width, float eps) {
    __shared__ float room[32];
    const int lane = threadIdx.x % ROW;
    const hr_i64 r = (hr_i64)blockIdx.x * GROUPS + threadIdx.x / ROW;
    if (r >= rows) {
        return; // all threads of the row
    }
    float v[KEEP][PACK], sum = 0.0f, squares = 0.0f;
#pragma unroll
    for (int k = 0; k < KEEP; k++) {
        const hr_i32 at = (lane + k * ROW) * PACK;
        if (at < width) {
            hr_load_pack<ELEM, PACK>(x + r * width + at, v[k]);
            if (SUM) {
                float other[PACK];
                hr_load_pack<ELEM, PACK>(more + r * width + at, other);
#pragma unroll
                for (int j = 0; j < PACK; j++) {
                    v[k][j] = stored(v[k][j] + other[j]);
                }
            }
        } else {
#pragma unroll
            for (int j = 0; j < PACK; j++) {
                v[k][j] = 0.0f;
            }
        }
    }
#pragma unroll
    for (int k = 0; k < KEEP; k++) {
        const hr_i32 at = (lane + k * ROW) * PACK;
        if (SUM && whole && at < width) {
            hr_store_pack<ELEM, PACK>(whole + r * width + at, v[k]);
        }
#pragma unroll
        for (int j = 0; j < PACK; j++) {
            sum += v[k][j];
        }
    }
    const float mu = RMS ? 0.0f : row_sum(sum, room) / (float)width;
#pragma unroll
    for (int k = 0; k < KEEP; k++) {
        if ((lane + k * ROW) * PACK < width) {
#pragma unroll
            for (int j = 0; j < PACK; j++) {
                squares = fmaf(v[k][j] - mu, v[k][j] - mu, squares);
            }
        }
    }
    const float over = 1.0f / sqrtf(row_sum(squares, room) / (float)width + eps);
#pragma unroll
    for (int k = 0; k < KEEP; k++) {
        const hr_i32 at = (lane + k * ROW) * PACK;
        if (at < width) {
            float g[PACK], b[PACK], out[PACK];
            hr_load_pack<GAMMA, PACK>(gamma + at, g);
            if (!RMS) {
                hr_load_pack<BETA, PACK>(beta + at, b);
            }
#pragma unroll
            for (int j = 0; j < PACK; j++) {
                out[j] = normal(v[k][j], mu, over, g[j], RMS ? 0.0f : b[j]);
            }
            hr_store_pack<ELEM, PACK>(y + r * width + at, out);
        }
    }
    if (lane == 0) {
        if (!RMS) {
            mean[r] = mu;
        }
        inv[r] = over;
    }
}

#elif !GROUPED

// own = before + own
HR_INLINE void add_pack(float (&own)[PACK], const float *before) {
    float v[PACK];
    hr_load_pack<float, PACK>(before, v);
#pragma unroll
    for (int j = 0; j < PACK; j++) {
        own[j] = v[j] + own[j];
    }
}

#if AGAIN

// What the forward op needs besides, and where it leaves its results.
struct again {
    const BETA *beta;
    ELEM *y;
    float *mean, *inv;
    float eps;
};

// The statistics of a row, with the sums of norm_rows in their order.
HR_INLINE void find_statistics(const pack (&x)[KEEP], hr_i32 width, float eps, int lane, float *room,
                               float &mu, float &over) {
    float sum = 0.0f, squares = 0.0f;
#pragma unroll
    for (int k = 0; k < KEEP; k++) {
#pragma unroll
        for (int j = 0; j < PACK; j++) {
            sum += (lane + k * ROW) * PACK < width ? hr_at(x[k], j) : 0.0f;
        }
    }
    mu = RMS ? 0.0f : row_sum(sum, room) / (float)width;
#pragma unroll
    for (int k = 0; k < KEEP; k++) {
        if ((lane + k * ROW) * PACK < width) {
#pragma unroll
            for (int j = 0; j < PACK; j++) {
                squares = fmaf(hr_at(x[k], j) - mu, hr_at(x[k], j) - mu, squares);
            }
        }
    }
    over = 1.0f / sqrtf(row_sum(squares, room) / (float)width + eps);
}

#endif

#if TOTAL

// Each thread has columns of its own.
HR_INLINE void add_total(const float (&x)[PACK], float *to) {
    float sum[PACK];
    hr_load_pack<float, PACK>(to, sum);
#pragma unroll
    for (int j = 0; j < PACK; j++) {
        sum[j] = __fadd_rn(sum[j], stored(x[j]));
    }
    hr_store_pack<float, PACK>(to, sum);
}

// The eight warps' sums in pairs, as reduce.cu adds rows of threads.
HR_INLINE void put_totals(const float *own, hr_i32 apart, float *to, hr_i32 width) {
    for (hr_i32 c = threadIdx.x; c < width; c += THREADS) {
        float sum[GROUPS];
#pragma unroll
        for (int g = 0; g < GROUPS; g++) {
            sum[g] = own[g * apart + c];
        }
#pragma unroll
        for (int half = GROUPS / 2; half > 0; half /= 2) {
#pragma unroll
            for (int g = 0; g < half; g++) {
                sum[g] += sum[g + half];
            }
        }
        to[c] = sum[0];
    }
}

#endif

// partial (gridDim.x, 2, width): sums of dy xhat and of dy over the rows of a block; totals (gridDim.x, width).
// Rows of more than 24 words a thread leave registers for one block alone.
HR_KERNEL __launch_bounds__(THREADS,
                            KEEP *(PACK * sizeof(ELEM) < 4 ? 4 : PACK * sizeof(ELEM)) > 96 ? 1 : 2)
    norm_rows_grad(const ELEM *dy, const ELEM *x, const GAMMA *gamma, const float *mean,
                   const float *inv, ELEM *dx, const ELEM *other, ELEM *to, float *partial,
                   float *totals, hr_i64 rows, hr_i32 width
#if AGAIN
                   ,
                   HR_TABLE struct again f
#endif
    ) {
    __shared__ float room[32];
    __shared__ __align__(16) float all[2][ROW == 32 ? KEEP * 32 * PACK : PACK];
    const int lane = threadIdx.x % ROW, group = threadIdx.x / ROW;
    float dgamma[KEEP][PACK], dbeta[KEEP][PACK];
#if TOTAL
    __shared__ __align__(16) float own[GROUPS][KEEP * 32 * PACK];
#endif
#pragma unroll
    for (int k = 0; k < KEEP; k++) {
#pragma unroll
        for (int j = 0; j < PACK; j++) {
            dgamma[k][j] = dbeta[k][j] = 0.0f;
#if TOTAL
            own[group][(lane + k * ROW) * PACK + j] = 0.0f;
#endif
        }
    }
    for (hr_i64 r = (hr_i64)blockIdx.x * GROUPS + group; r < rows;
         r += (hr_i64)gridDim.x * GROUPS) {
#if AGAIN
        float mu, over;
#else
        const float mu = RMS ? 0.0f : mean[r], over = inv[r];
#endif
        float sum = 0.0f, product = 0.0f;
        pack in_x[KEEP], in_dy[KEEP], in_other[KEEP];
#pragma unroll
        for (int k = 0; k < KEEP; k++) {
            const hr_i32 at = (lane + k * ROW) * PACK;
            if (at < width) {
                in_x[k] = *(const pack *)(x + r * width + at);
                in_dy[k] = *(const pack *)(dy + r * width + at);
                if (SUM) {
                    in_other[k] = *(const pack *)(other + r * width + at);
                }
            }
        }
#if AGAIN
        find_statistics(in_x, width, f.eps, lane, room, mu, over);
        if (lane == 0) {
            if (!RMS) {
                f.mean[r] = mu;
            }
            f.inv[r] = over;
        }
#endif
#pragma unroll
        for (int k = 0; k < KEEP; k++) {
            const hr_i32 at = (lane + k * ROW) * PACK;
            if (at < width) {
                float g[PACK];
                hr_load_pack<GAMMA, PACK>(gamma + at, g);
#pragma unroll
                for (int j = 0; j < PACK; j++) {
                    const float d = hr_at(in_dy[k], j);
                    const float xhat = (hr_at(in_x[k], j) - mu) * over;
                    sum = fmaf(d, g[j], sum);
                    product = fmaf(d * g[j], xhat, product);
                    dgamma[k][j] = fmaf(d, xhat, dgamma[k][j]);
                    dbeta[k][j] += d;
                }
#if AGAIN
                float b[PACK], again_y[PACK];
                if (!RMS) {
                    hr_load_pack<BETA, PACK>(f.beta + at, b);
                }
#pragma unroll
                for (int j = 0; j < PACK; j++) {
                    again_y[j] = normal(hr_at(in_x[k], j), mu, over, g[j], RMS ? 0.0f : b[j]);
                }
                hr_store_pack<ELEM, PACK>(f.y + r * width + at, again_y);
#endif
            }
        }
        const float shift = RMS ? 0.0f : row_sum(sum, room) / (float)width;
        const float slope = row_sum(product, room) / (float)width;
#pragma unroll
        for (int k = 0; k < KEEP; k++) {
            const hr_i32 at = (lane + k * ROW) * PACK;
            if (at < width) {
                float g[PACK], out[PACK];
                hr_load_pack<GAMMA, PACK>(gamma + at, g);
#pragma unroll
                for (int j = 0; j < PACK; j++) {
                    const float d = hr_at(in_dy[k], j);
                    const float xhat = (hr_at(in_x[k], j) - mu) * over;
                    out[j] = over * (d * g[j] - shift - xhat * slope);
                }
                if (!SUM || dx) {
                    hr_store_pack<ELEM, PACK>(dx + r * width + at, out);
                }
                if (SUM) {
#pragma unroll
                    for (int j = 0; j < PACK; j++) {
                        out[j] = __fadd_rn(stored(out[j]), hr_at(in_other[k], j));
                    }
                    hr_store_pack<ELEM, PACK>(to + r * width + at, out);
                }
#if TOTAL
                add_total(out, &own[group][at]);
#endif
            }
        }
    }
#if TOTAL
    __syncthreads();
    put_totals(own[0], KEEP * 32 * PACK, totals + (hr_i64)blockIdx.x * width, width);
#endif
    float *sums = partial + (hr_i64)blockIdx.x * 2 * width;
    // The groups of a warp each, in order; a row of the whole block has nothing to add.
    for (int turn = 0; turn < GROUPS; turn++) {
        if (group == turn) {
#pragma unroll
            for (int k = 0; k < KEEP; k++) {
                const hr_i32 at = (lane + k * ROW) * PACK;
                if (at < width) {
                    const int here = ROW == 32 ? at : 0;
                    if (turn > 0) {
                        add_pack(dgamma[k], &all[0][here]);
                        add_pack(dbeta[k], &all[1][here]);
                    }
                    if (turn == GROUPS - 1) {
                        hr_store_pack<float, PACK>(sums + at, dgamma[k]);
                        hr_store_pack<float, PACK>(sums + width + at, dbeta[k]);
                    } else {
                        hr_store_pack<float, PACK>(&all[0][here], dgamma[k]);
                        hr_store_pack<float, PACK>(&all[1][here], dbeta[k]);
                    }
                }
            }
        }
        __syncthreads();
    }
}

#endif

#if BACKWARD

// dgamma, dbeta (C) from `parts` partial rows; 512 threads, eight channels a block.
HR_KERNEL __launch_bounds__(512)
    norm_finish(const float *partial, GAMMA *dgamma, GAMMA *dbeta, hr_i32 width, hr_i32 parts) {
    __shared__ double room[2][64][9];
    const int k = threadIdx.x % 8, lane = threadIdx.x / 8;
    const hr_i32 c = (hr_i32)blockIdx.x * 8 + k;
    double g = 0.0, b = 0.0;
    if (c < width) {
#pragma unroll 4
        for (hr_i32 p = lane; p < parts; p += 64) {
            g += (double)partial[(hr_i64)p * 2 * width + c];
            b += (double)partial[((hr_i64)p * 2 + 1) * width + c];
        }
    }
    room[0][lane][k] = g;
    room[1][lane][k] = b;
    __syncthreads();
    if (threadIdx.x < 8 && c < width) {
        for (int i = 1; i < 64; i++) {
            g += room[0][i][k];
            b += room[1][i][k];
        }
        hr_store(&dgamma[c], (float)g);
        if (!RMS) {
            hr_store(&dbeta[c], (float)b);
        }
    }
}

#endif

// ---- groups: x (N, S, G, K); block n * G + g ----

// The packs of this thread in the group: the text sees at (element) and c (channel).
#define EACH_PACK(...)                                                                            \
    for (hr_i64 e = threadIdx.x; e < s * (k / PACK); e += THREADS) {                               \
        const hr_i64 row = e / (k / PACK);                                                         \
        const hr_i64 c = (hr_i64)g * k + (e - row * (k / PACK)) * PACK;                            \
        const hr_i64 at = ((hr_i64)n * s + row) * groups * k + c;                                  \
        __VA_ARGS__                                                                                \
    }

#if GROUPED && !BACKWARD

HR_KERNEL __launch_bounds__(THREADS)
    norm_groups(const ELEM *x, const GAMMA *gamma, const BETA *beta, ELEM *y, float *mean,
                float *inv, hr_i64 s, hr_i32 groups, hr_i32 k, float eps) {
    __shared__ float room[32];
    const hr_u32 n = blockIdx.x / groups, g = blockIdx.x % groups;
    const float count = (float)(s * k);
    float v[PACK], sum = 0.0f, squares = 0.0f;
    if (!RMS) {
        EACH_PACK({
            hr_load_pack<ELEM, PACK>(x + at, v);
            for (int j = 0; j < PACK; j++) {
                sum += v[j];
            }
        })
    }
    const float mu = RMS ? 0.0f : hr_block_sum(sum, room) / count;
    EACH_PACK({
        hr_load_pack<ELEM, PACK>(x + at, v);
        for (int j = 0; j < PACK; j++) {
            squares = fmaf(v[j] - mu, v[j] - mu, squares);
        }
    })
    const float over = 1.0f / sqrtf(hr_block_sum(squares, room) / count + eps);
    EACH_PACK({
        hr_load_pack<ELEM, PACK>(x + at, v);
        for (int j = 0; j < PACK; j++) {
            v[j] = (v[j] - mu) * over * hr_load(gamma[c + j]);
            v[j] += RMS ? 0.0f : hr_load(beta[c + j]);
        }
        hr_store_pack<ELEM, PACK>(y + at, v);
    })
    if (threadIdx.x == 0) {
        if (!RMS) {
            mean[blockIdx.x] = mu;
        }
        inv[blockIdx.x] = over;
    }
}

#elif GROUPED

HR_KERNEL __launch_bounds__(THREADS)
    norm_groups_grad(const ELEM *dy, const ELEM *x, const GAMMA *gamma, const float *mean,
                     const float *inv, ELEM *dx, hr_i64 s, hr_i32 groups, hr_i32 k) {
    __shared__ float room[32];
    const hr_u32 n = blockIdx.x / groups, g = blockIdx.x % groups;
    const float count = (float)(s * k);
    const float mu = RMS ? 0.0f : mean[blockIdx.x], over = inv[blockIdx.x];
    float v[PACK], d[PACK], sum = 0.0f, product = 0.0f;
    EACH_PACK({
        hr_load_pack<ELEM, PACK>(x + at, v);
        hr_load_pack<ELEM, PACK>(dy + at, d);
        for (int j = 0; j < PACK; j++) {
            const float by = d[j] * hr_load(gamma[c + j]);
            sum += by;
            product = fmaf(by, (v[j] - mu) * over, product);
        }
    })
    const float shift = RMS ? 0.0f : hr_block_sum(sum, room) / count;
    const float slope = hr_block_sum(product, room) / count;
    EACH_PACK({
        hr_load_pack<ELEM, PACK>(x + at, v);
        hr_load_pack<ELEM, PACK>(dy + at, d);
        for (int j = 0; j < PACK; j++) {
            v[j] = over * (d[j] * hr_load(gamma[c + j]) - shift - (v[j] - mu) * over * slope);
        }
        hr_store_pack<ELEM, PACK>(dx + at, v);
    })
}

// partial (gridDim.y, 2, C): a thread a channel, rows of its part in order.
HR_KERNEL __launch_bounds__(THREADS)
    norm_columns(const ELEM *dy, const ELEM *x, const float *mean, const float *inv, float *partial,
                 hr_i64 rows, hr_i64 s, hr_i32 groups, hr_i32 k) {
    const hr_i32 width = groups * k, c = (hr_i32)(blockIdx.x * THREADS + threadIdx.x);
    const hr_i64 part = (rows + gridDim.y - 1) / gridDim.y, first = blockIdx.y * part;
    const hr_i64 end = first + part < rows ? first + part : rows;
    float dgamma = 0.0f, dbeta = 0.0f;
    if (c >= width) {
        return;
    }
    hr_i64 n = first / s, left = s - (first - n * s);
    for (hr_i64 r = first; r < end; r++, left--) {
        if (left == 0) {
            n++;
            left = s;
        }
        const hr_i64 q = n * groups + c / k;
        const float d = hr_load(dy[r * width + c]);
        dgamma = fmaf(d, (hr_load(x[r * width + c]) - (RMS ? 0.0f : mean[q])) * inv[q], dgamma);
        dbeta += d;
    }
    partial[(hr_i64)blockIdx.y * 2 * width + c] = dgamma;
    partial[((hr_i64)blockIdx.y * 2 + 1) * width + c] = dbeta;
}

#endif

// Rows of linear_cross_entropy and its gradient: what is done with a block of scores between two products.
//
// The scores of `count` classes from `first` on lie as (rows, count) f32.  Forward keeps for each row the largest score so
// far, the sum of exponentials relative to it, the sum of scores and the score of the row's own class.  Backward writes
// the gradient of the scores in HR_T, `ld` elements from row to row; it may lie over the scores, each row from the start
// of the same row on: a stretch has been read by all threads before anything is written there.  HR_ID is the type of the ids; one row a block.

struct row_state {
    float most, sum, all, target;
};

HR_KERNEL linear_loss_block(const float *scores, hr_i64 first, hr_i64 count,
                            const HR_ID *ids, row_state *states) {
    HR_SHARED(room);
    float *lanes = (float *)room;
    const hr_i64 row = blockIdx.x;
    const float *s = scores + row * count;
    row_state r = {-INFINITY, 0.0f, 0.0f, 0.0f};
    if (first) {
        r = states[row];
    }
    float most = -INFINITY;
    for (hr_i64 i = threadIdx.x; i < count; i += blockDim.x) {
        most = fmaxf(most, s[i]);
    }
    most = fmaxf(hr_block_max(most, lanes), r.most);
    float sum = 0.0f, all = 0.0f;
    for (hr_i64 i = threadIdx.x; i < count; i += blockDim.x) {
        sum += expf(s[i] - most);
        all += s[i];
    }
    __syncthreads();
    sum = hr_block_sum(sum, lanes);
    __syncthreads();
    all = hr_block_sum(all, lanes);
    if (threadIdx.x == 0) {
        const hr_i64 id = (hr_i64)ids[row] - first;
        r.sum = (first ? r.sum * expf(r.most - most) : 0.0f) + sum;
        r.most = most;
        r.all += all;
        if (id >= 0 && id < count) {
            r.target = s[id];
        }
        states[row] = r;
    }
}

// One block: lse of all rows, and the loss.
HR_KERNEL linear_loss_finish(const row_state *states, const HR_ID *ids, hr_i64 rows,
                             float smoothing, hr_i64 classes, int sum_only, float *lse, float *loss) {
    HR_SHARED(room);
    double *sums = (double *)room;
    hr_i64 *counts = (hr_i64 *)(sums + blockDim.x);
    double sum = 0.0;
    hr_i64 counted = 0;
    for (hr_i64 i = threadIdx.x; i < rows; i += blockDim.x) {
        const row_state r = states[i];
        const float l = r.most + logf(r.sum);
        lse[i] = l;
        if (ids[i] >= 0) {
            sum += (double)l - (1.0 - (double)smoothing) * (double)r.target -
                   (double)smoothing / (double)classes * (double)r.all;
            counted++;
        }
    }
    sums[threadIdx.x] = sum;
    counts[threadIdx.x] = counted;
    __syncthreads();
    for (unsigned step = blockDim.x / 2; step; step /= 2) {
        if (threadIdx.x < step) {
            sums[threadIdx.x] += sums[threadIdx.x + step];
            counts[threadIdx.x] += counts[threadIdx.x + step];
        }
        __syncthreads();
    }
    if (threadIdx.x == 0) {
        *loss = (float)(sum_only ? sums[0] : counts[0] ? sums[0] / (double)counts[0] : 0.0);
    }
}

// One block: what the gradient of each row is multiplied by.
HR_KERNEL linear_loss_scale(const float *dloss, const HR_ID *ids, hr_i64 rows, int sum_only,
                            float *scale) {
    HR_SHARED(room);
    hr_i64 *counts = (hr_i64 *)room;
    hr_i64 counted = 0;
    for (hr_i64 i = threadIdx.x; i < rows; i += blockDim.x) {
        counted += ids[i] >= 0;
    }
    counts[threadIdx.x] = counted;
    __syncthreads();
    for (unsigned step = blockDim.x / 2; step; step /= 2) {
        if (threadIdx.x < step) {
            counts[threadIdx.x] += counts[threadIdx.x + step];
        }
        __syncthreads();
    }
    if (threadIdx.x == 0) {
        *scale = sum_only || !counts[0] ? *dloss : *dloss / (float)counts[0];
    }
}

HR_KERNEL linear_loss_grad(const float *scores, HR_T *to, hr_i64 ld, hr_i64 first, hr_i64 count,
                           const HR_ID *ids,
                           const float *lse, const float *scale_at, float smoothing,
                           hr_i64 classes) {
    const hr_i64 row = blockIdx.x, id = (hr_i64)ids[row];
    const float *s = scores + row * count;
    HR_T *d = to + row * ld;
    const float scale = *scale_at, l = lse[row], even = smoothing / (float)classes;
    for (hr_i64 i0 = 0; i0 < count; i0 += (hr_i64)blockDim.x * 8) {
        float x[8];
#pragma unroll
        for (int e = 0; e < 8; e++) {
            const hr_i64 i = i0 + threadIdx.x + (hr_i64)e * blockDim.x;
            x[e] = i < count ? s[i] : 0.0f;
        }
        __syncthreads();
#pragma unroll
        for (int e = 0; e < 8; e++) {
            const hr_i64 i = i0 + threadIdx.x + (hr_i64)e * blockDim.x;
            if (i < count) {
                const float own = first + i == id ? 1.0f - smoothing : 0.0f;
                hr_store(&d[i], id < 0 ? 0.0f : scale * (expf(x[e] - l) - even - own));
            }
        }
    }
}

#ifndef HR_S // the type of the scores of linear_loss_train
#define HR_S float
#endif

// What is known of some scores: the largest, and the sum of 2^(LOG2E (score - largest)).
struct score_sum {
    float most, sum;
};
#define LOG2E 1.44269504f

HR_INLINE void add_scores(score_sum *k, const float (&x)[8]) {
    float top = k->most, sum = 0.0f;
#pragma unroll
    for (int e = 0; e < 8; e++) {
        top = fmaxf(top, x[e]);
    }
    if (top > k->most) {
        k->sum *= hr_exp2((k->most - top) * LOG2E);
        k->most = top;
    }
    const float offset = top > -INFINITY ? -top * LOG2E : 0.0f;
#pragma unroll
    for (int e = 0; e < 8; e++) {
        sum += hr_exp2(fmaf(x[e], LOG2E, offset));
    }
    k->sum += sum;
}

// Sums over the block: of all scores, and of `all`.
HR_INLINE score_sum join_scores(score_sum own, float *all, float *lanes) {
    score_sum k;
    k.most = hr_block_max(own.most, lanes);
    __syncthreads();
    k.sum = hr_block_sum(
        own.most > -INFINITY ? own.sum * hr_exp2((own.most - k.most) * LOG2E) : 0.0f, lanes);
    __syncthreads();
    *all = hr_block_sum(*all, lanes);
    return k;
}

// The scores of all classes of a row, `ld` from row to row: what is known of them, as linear_loss_finish reads it, and their
// gradient in their place, with zeros behind the last class.  `keep`: shared memory has room for a row, and the second pass
// finds it there.
HR_KERNEL __launch_bounds__(1024) linear_loss_train(HR_S *scores, hr_i64 ld, hr_i64 classes,
                                                    const HR_ID *ids, const float *scale_at,
                                                    float smoothing, int keep, row_state *states) {
    typedef hr_pack<HR_S, 8> eight;
    HR_SHARED(room);
    float *lanes = (float *)room;
    HR_S *held = (HR_S *)(room + 128);
    const hr_i32 width = (hr_i32)ld, count = (hr_i32)classes, step = (hr_i32)blockDim.x * 8;
    const hr_i32 first = (hr_i32)threadIdx.x * 8;
    const hr_i64 row = blockIdx.x, id = (hr_i64)ids[row];
    const HR_S *s = scores + row * ld;
    HR_T *d = (HR_T *)(scores + row * ld);
    score_sum own = {-INFINITY, 0.0f};
    float all = 0.0f;
    const float target = id >= 0 && id < classes ? hr_load(s[id]) : 0.0f;
    for (hr_i32 i0 = first; i0 < width; i0 += 2 * step) {
        eight in[2];
#pragma unroll
        for (int n = 0; n < 2; n++) {
            if (i0 + n * step < width) {
                in[n] = *(const eight *)(s + i0 + n * step);
            }
        }
#pragma unroll
        for (int n = 0; n < 2; n++) {
            const hr_i32 i = i0 + n * step;
            if (i < width) {
                float x[8];
                if (keep) {
                    *(eight *)(held + i) = in[n];
                }
#pragma unroll
                for (int e = 0; e < 8; e++) {
                    x[e] = hr_at(in[n], e);
                }
                if (smoothing != 0.0f) {
#pragma unroll
                    for (int e = 0; e < 8; e++) {
                        all += i + e < count ? x[e] : 0.0f;
                    }
                }
                if (i + 8 > count) {
#pragma unroll
                    for (int e = 0; e < 8; e++) {
                        x[e] = i + e < count ? x[e] : -INFINITY;
                    }
                }
                add_scores(&own, x);
            }
        }
    }
    const score_sum whole = join_scores(own, &all, lanes);
    if (threadIdx.x == 0) {
        row_state r = {whole.most, whole.sum, all, target};
        states[row] = r;
    }
    // A row that does not count has no gradient.
    const float scale = id < 0 ? 0.0f : *scale_at, by = id < 0 ? 0.0f : scale / whole.sum;
    const float even = -scale * smoothing / (float)classes, offset = -whole.most * LOG2E;
    const HR_S *again = keep ? held : s;
    for (hr_i32 i0 = 0; i0 < width; i0 += step) {
        const hr_i32 i = i0 + first;
        float x[8];
        if (i < width) {
            hr_load_pack<HR_S, 8>(again + i, x);
        }
        if (!keep) {
            __syncthreads(); // gradients are narrower: they lie where others have read
        }
        if (i < width) {
#pragma unroll
            for (int e = 0; e < 8; e++) {
                x[e] = fmaf(hr_exp2(fmaf(x[e], LOG2E, offset)), by, even);
            }
            if (id >= i && id < i + 8) {
#pragma unroll
                for (int e = 0; e < 8; e++) {
                    x[e] -= i + e == id ? scale * (1.0f - smoothing) : 0.0f;
                }
            }
            if (i + 8 > count || id < 0) {
#pragma unroll
                for (int e = 0; e < 8; e++) {
                    x[e] = i + e < count && id >= 0 ? x[e] : 0.0f;
                }
            }
            hr_store_pack<HR_T, 8>(d + i, x);
        }
    }
}

HR_KERNEL linear_loss_store(const float *from, HR_T *to, hr_i64 count) {
    const hr_i64 step = (hr_i64)gridDim.x * blockDim.x;
    for (hr_i64 at = (hr_i64)blockIdx.x * blockDim.x + threadIdx.x; at < count; at += step) {
        hr_store(&to[at], from[at]);
    }
}

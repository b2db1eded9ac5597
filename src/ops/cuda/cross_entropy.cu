// Cross entropy of rows of scores, with ids or with probabilities as targets, and its gradients.
//
// HR_LANES threads share a row: a warp, a whole block for long ones; short ones have a thread each.  Scores are read once, in accesses of HR_V
// elements from the first 16-byte boundary on, since rows of an odd length begin anywhere; a running maximum and sum
// make the logarithm.  A row's loss goes to the work space, and one block adds the rows in a fixed order, or the sums of
// parts of many rows.  Rows whose id
// is negative do not count; an id beyond the classes makes the loss NaN.  Gradients may lie over what they read.

typedef HR_T T;
enum { THREADS = 256, V = HR_V, LANES = HR_LANES, FINISH = 1024 };

// Id i, of i64 or of i32.
HR_INLINE hr_i64 id_at(const void *ids, hr_u32 wide, hr_i64 i) {
    return wide ? ((const hr_i64 *)ids)[i] : ((const hr_i32 *)ids)[i];
}

#define LOG2E 1.4426950408889634f

HR_INLINE float sum_of(float x, float *room) {
    return LANES == 1 ? x : LANES == 32 ? hr_warp_sum(x) : hr_block_sum(x, room);
}
HR_INLINE float max_of(float x, float *room) {
    return LANES == 1 ? x : LANES == 32 ? hr_warp_max(x) : hr_block_max(x, room);
}

// f(k, v) for runs of elements from k on; v is an array of 1 or of V numbers.
template <typename F> HR_INLINE void each_run(const T *row, hr_i64 width, F f) {
    const hr_i64 lane = threadIdx.x % LANES;
    hr_i64 head = (hr_i64)((16 - ((hr_u64)row & 15)) % 16 / sizeof(T)) % V;
    head = head < width ? head : width;
    const hr_i64 packs = (width - head) / V, tail = head + packs * V;
    if (lane < head) {
        float v[1] = {hr_load(row[lane])};
        f(lane, v);
    }
    hr_i64 k = lane;
    for (; k + LANES < packs; k += 2 * LANES) { // two in flight
        float v[V], u[V];
        hr_load_pack<T, V>(row + head + k * V, v);
        hr_load_pack<T, V>(row + head + (k + LANES) * V, u);
        f(head + k * V, v);
        f(head + (k + LANES) * V, u);
    }
    if (k < packs) {
        float v[V];
        hr_load_pack<T, V>(row + head + k * V, v);
        f(head + k * V, v);
    }
    if (tail + lane < width) {
        float v[1] = {hr_load(row[tail + lane])};
        f(tail + lane, v);
    }
}

// The maximum so far and the sum of exp(x - maximum).
struct running {
    float most, sum;
};
template <int N> HR_INLINE void add_run(running &r, const float (&v)[N]) {
    float most = v[0];
#pragma unroll
    for (int i = 1; i < N; i++) {
        most = fmaxf(most, v[i]);
    }
    if (most > r.most) {
        r.sum *= exp2f((r.most - most) * LOG2E);
        r.most = most;
    }
#pragma unroll
    for (int i = 0; i < N; i++) {
        r.sum += exp2f((v[i] - r.most) * LOG2E);
    }
}
// log sum exp of the row; every thread of it gets the result.
HR_INLINE float log_sum(const running &r, float *room) {
    const float most = max_of(r.most, room);
    return most + logf(sum_of(r.sum * exp2f((r.most - most) * LOG2E), room));
}
#define NOTHING {-3.402823466e38f, 0.0f}

HR_INLINE hr_i64 own_row() {
    return (hr_i64)blockIdx.x * (THREADS / LANES) + threadIdx.x / LANES;
}

// ---- with ids ----

HR_KERNEL __launch_bounds__(THREADS) rows_of_ids(const T *x, const void *ids, hr_u32 wide, float *lse, float *loss,
                                                 hr_i64 rows, hr_i64 width, float smoothing) {
    __shared__ float room[32];
    const hr_i64 i = own_row();
    running r = NOTHING;
    float all = 0.0f;
    if (i < rows) {
        each_run(x + i * width, width, [&](hr_i64, auto &v) {
            add_run(r, v);
            for (int k = 0; k < (int)(sizeof v / sizeof v[0]); k++) {
                all += v[k];
            }
        });
    }
    const float log = log_sum(r, room);
    all = smoothing != 0.0f ? sum_of(all, room) : 0.0f;
    if (threadIdx.x % LANES == 0 && i < rows) {
        const hr_i64 id = id_at(ids, wide, i);
        lse[i] = log;
        loss[i] = id < 0        ? 0.0f
                  : id >= width ? hr_bits_float(0x7fc00000u)
                                : log - (1.0f - smoothing) * hr_load(x[i * width + id]) -
                                      smoothing / (float)width * all;
    }
}

// The losses of some rows, added, and how many of them count.
struct counted {
    float loss, rows;
};
HR_INLINE counted count(const float *loss, const void *ids, hr_u32 wide, hr_i64 begin, hr_i64 end, float *room) {
    counted c = {0.0f, 0.0f};
    for (hr_i64 i = begin + threadIdx.x; i < end; i += FINISH) {
        c.loss += loss ? loss[i] : 0.0f;
        c.rows += id_at(ids, wide, i) >= 0 ? 1.0f : 0.0f;
    }
    c.loss = loss ? hr_block_sum(c.loss, room) : 0.0f;
    c.rows = hr_block_sum(c.rows, room);
    return c;
}

// A block for each part of many rows.
HR_KERNEL __launch_bounds__(FINISH) parts_of(const float *loss, const void *ids, hr_u32 wide, struct counted *parts,
                                             hr_i64 rows, hr_i64 each) {
    __shared__ float room[32];
    const hr_i64 begin = blockIdx.x * each, end = begin + each < rows ? begin + each : rows;
    const counted c = count(loss, ids, wide, begin, end, room);
    if (threadIdx.x == 0) {
        parts[blockIdx.x] = c;
    }
}

// All rows; of many, from their parts.
HR_INLINE counted count_all(const float *loss, const void *ids, hr_u32 wide, const counted *parts, hr_u32 part_count,
                            hr_i64 rows, float *room) {
    if (!part_count) {
        return count(loss, ids, wide, 0, rows, room);
    }
    const bool own = threadIdx.x < part_count;
    counted c;
    c.loss = hr_block_sum(own ? parts[threadIdx.x].loss : 0.0f, room);
    c.rows = hr_block_sum(own ? parts[threadIdx.x].rows : 0.0f, room);
    return c;
}

// One block: the mean over rows that count, or the sum.
HR_KERNEL __launch_bounds__(FINISH) finish(const float *loss, const void *ids, hr_u32 wide, const struct counted *parts,
                                           hr_u32 part_count, float *out, hr_i64 rows, hr_u32 add) {
    __shared__ float room[32];
    const counted c = count_all(loss, ids, wide, parts, part_count, rows, room);
    if (threadIdx.x == 0) {
        *out = add ? c.loss : c.rows > 0.0f ? c.loss / c.rows : 0.0f;
    }
}

// One block: dloss over the rows that count.
HR_KERNEL __launch_bounds__(FINISH) scale_of(const float *dloss, const void *ids, hr_u32 wide,
                                             const struct counted *parts, hr_u32 part_count, float *scale, hr_i64 rows,
                                             hr_u32 add) {
    __shared__ float room[32];
    const counted c = count_all(0, ids, wide, parts, part_count, rows, room);
    if (threadIdx.x == 0) {
        *scale = add || c.rows == 0.0f ? *dloss : *dloss / c.rows;
    }
}

HR_KERNEL __launch_bounds__(THREADS) grad_of_ids(const T *x, const void *ids, hr_u32 wide, const float *lse,
                                                 const float *scale, T *dx, hr_i64 rows, hr_i64 width,
                                                 float smoothing) {
    const hr_i64 i = own_row();
    if (i >= rows) {
        return;
    }
    const hr_i64 id = id_at(ids, wide, i);
    const float log = lse[i], even = smoothing / (float)width, s = id < 0 ? 0.0f : *scale;
    T *row = dx + i * width;
    each_run(x + i * width, width, [&](hr_i64 at, auto &v) {
        enum { N = sizeof v / sizeof v[0] };
#pragma unroll
        for (int k = 0; k < N; k++) {
            const float own = at + k == id ? 1.0f - smoothing : 0.0f;
            v[k] = s * (exp2f((v[k] - log) * LOG2E) - even) - s * own;
        }
        hr_store_pack<T, N>(row + at, v);
    });
}

// ---- with probabilities ----

HR_KERNEL __launch_bounds__(THREADS) rows_of_targets(const T *x, const T *t, float *lse, float *loss,
                                                     hr_i64 rows, hr_i64 width, float smoothing) {
    __shared__ float room[32];
    const hr_i64 i = own_row();
    const float even = smoothing / (float)width, own = 1.0f - smoothing;
    running r = NOTHING;
    float weights = 0.0f, product = 0.0f;
    if (i < rows) {
        const T *targets = t + i * width;
        each_run(x + i * width, width, [&](hr_i64 at, auto &v) {
            enum { N = sizeof v / sizeof v[0] };
            float u[N];
            hr_load_pack<T, N>(targets + at, u);
            add_run(r, v);
#pragma unroll
            for (int k = 0; k < N; k++) {
                const float w = own * u[k] + even;
                weights += w;
                product += w * v[k];
            }
        });
    }
    const float log = log_sum(r, room);
    weights = sum_of(weights, room);
    product = sum_of(product, room);
    if (threadIdx.x % LANES == 0 && i < rows) {
        lse[i] = log;
        loss[i] = weights * log - product;
    }
}

HR_KERNEL __launch_bounds__(FINISH) finish_targets(const float *loss, float *out, hr_i64 rows, hr_u32 add) {
    __shared__ float room[32];
    float sum = 0.0f;
    for (hr_i64 i = threadIdx.x; i < rows; i += FINISH) {
        sum += loss[i];
    }
    sum = hr_block_sum(sum, room);
    if (threadIdx.x == 0) {
        *out = add || rows == 0 ? sum : sum / (float)rows;
    }
}

HR_KERNEL __launch_bounds__(THREADS) grad_of_targets(const float *dloss, const T *x, const T *t,
                                                     const float *lse, T *dx, hr_i64 rows, hr_i64 width,
                                                     float smoothing, hr_u32 add) {
    __shared__ float room[32];
    const hr_i64 i = own_row();
    const float even = smoothing / (float)width, own = 1.0f - smoothing;
    const float scale = add ? *dloss : *dloss / (float)rows;
    const T *targets = t + i * width;
    float weight = 0.0f;
    if (i < rows) {
        each_run(targets, width, [&](hr_i64, auto &v) {
            for (int k = 0; k < (int)(sizeof v / sizeof v[0]); k++) {
                weight += own * v[k] + even;
            }
        });
    }
    weight = sum_of(weight, room); // all of the row was read
    if (i < rows) {
        T *row = dx + i * width;
        const float log = lse[i];
        each_run(x + i * width, width, [&](hr_i64 at, auto &v) {
            enum { N = sizeof v / sizeof v[0] };
            float u[N];
            hr_load_pack<T, N>(targets + at, u);
#pragma unroll
            for (int k = 0; k < N; k++) {
                v[k] = scale * (exp2f((v[k] - log) * LOG2E) * weight - (own * u[k] + even));
            }
            hr_store_pack<T, N>(row + at, v);
        });
    }
}

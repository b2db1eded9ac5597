// softmax and log_softmax along one dimension, and their gradients.
//
// Rows: ROW threads share a row, a warp or the whole block, and keep it in registers, KEEP packs a thread; KEEP 0 reads
// a long row again instead.  Columns: a thread goes down one column of (outer, length, inner); neighbours read
// neighbours.  Results may lie over inputs: an element is written by the thread that read it, after all its reads.
//
// Defines: ELEM, PACK, LOGS, ROW, KEEP.
#ifndef ELEM
#define ELEM float
#define PACK 4
#define LOGS 0
#define ROW 32
#define KEEP 2
#endif

enum { THREADS = 256, GROUPS = THREADS / ROW, HELD = KEEP ? KEEP : 1 };

HR_INLINE float least() {
    return hr_bits_float(0xff800000u);
}
HR_INLINE float row_sum(float x, float *room) {
    return ROW == 32 ? hr_warp_sum(x) : hr_block_sum(x, room);
}
HR_INLINE float row_max(float x, float *room) {
    return ROW == 32 ? hr_warp_max(x) : hr_block_max(x, room);
}

// The text for every pack of this thread in a row, which v (and w) hold as f32: from registers, or read again.
#define EACH_HELD(LOAD, ...)                                                                       \
    if (KEEP) {                                                                                    \
        _Pragma("unroll") for (int p = 0; p < HELD; p++) {                                         \
            const hr_i64 at = (hr_i64)(lane + p * ROW) * PACK;                                     \
            if (at < width) {                                                                      \
                __VA_ARGS__                                                                        \
            }                                                                                      \
        }                                                                                          \
    } else {                                                                                       \
        const int p = 0;                                                                           \
        for (hr_i64 at = (hr_i64)lane * PACK; at < width; at += ROW * PACK) {                      \
            LOAD __VA_ARGS__                                                                       \
        }                                                                                          \
    }

HR_KERNEL __launch_bounds__(THREADS)
    softmax_rows(const ELEM *x, ELEM *y, hr_i64 rows, hr_i64 width) {
    __shared__ float room[32];
    const int lane = threadIdx.x % ROW;
    const hr_i64 r = (hr_i64)blockIdx.x * GROUPS + threadIdx.x / ROW;
    if (r >= rows) {
        return; // all threads of the row
    }
    x += r * width;
    y += r * width;
    float v[HELD][PACK], most = least(), sum = 0.0f;
    if (KEEP) {
#pragma unroll
        for (int p = 0; p < HELD; p++) {
            const hr_i64 at = (hr_i64)(lane + p * ROW) * PACK;
            if (at < width) {
                hr_load_pack<ELEM, PACK>(x + at, v[p]);
            }
        }
    }
#define LOAD hr_load_pack<ELEM, PACK>(x + at, v[p]);
    EACH_HELD(LOAD, {
        for (int j = 0; j < PACK; j++) {
            most = fmaxf(most, v[p][j]);
        }
    })
    most = row_max(most, room);
    EACH_HELD(LOAD, {
        for (int j = 0; j < PACK; j++) {
            sum += expf(v[p][j] - most);
        }
    })
    sum = row_sum(sum, room);
    const float over = 1.0f / sum, lse = logf(sum);
    EACH_HELD(LOAD, {
        float out[PACK];
        for (int j = 0; j < PACK; j++) {
            out[j] = LOGS ? v[p][j] - most - lse : expf(v[p][j] - most) * over;
        }
        hr_store_pack<ELEM, PACK>(y + at, out);
    })
#undef LOAD
}

HR_KERNEL __launch_bounds__(THREADS)
    softmax_rows_grad(const ELEM *dy, const ELEM *y, ELEM *dx, hr_i64 rows, hr_i64 width) {
    __shared__ float room[32];
    const int lane = threadIdx.x % ROW;
    const hr_i64 r = (hr_i64)blockIdx.x * GROUPS + threadIdx.x / ROW;
    if (r >= rows) {
        return;
    }
    dy += r * width;
    y += r * width;
    dx += r * width;
    float v[HELD][PACK], w[HELD][PACK], sum = 0.0f;
#define LOAD                                                                                       \
    hr_load_pack<ELEM, PACK>(dy + at, v[p]);                                                       \
    hr_load_pack<ELEM, PACK>(y + at, w[p]);
    if (KEEP) {
#pragma unroll
        for (int p = 0; p < HELD; p++) {
            const hr_i64 at = (hr_i64)(lane + p * ROW) * PACK;
            if (at < width) {
                LOAD
            }
        }
    }
    EACH_HELD(LOAD, {
        for (int j = 0; j < PACK; j++) {
            sum += LOGS ? v[p][j] : v[p][j] * w[p][j];
        }
    })
    sum = row_sum(sum, room);
    EACH_HELD(LOAD, {
        float out[PACK];
        for (int j = 0; j < PACK; j++) {
            out[j] = LOGS ? v[p][j] - expf(w[p][j]) * sum : w[p][j] * (v[p][j] - sum);
        }
        hr_store_pack<ELEM, PACK>(dx + at, out);
    })
#undef LOAD
}

HR_KERNEL __launch_bounds__(THREADS)
    softmax_columns(const ELEM *x, ELEM *y, hr_i64 outer, hr_i64 length, hr_i64 inner) {
    const hr_i64 c = (hr_i64)blockIdx.x * THREADS + threadIdx.x;
    if (c >= outer * inner) {
        return;
    }
    const hr_i64 first = c / inner * length * inner + c % inner;
    float most = least(), sum = 0.0f;
    for (hr_i64 i = 0; i < length; i++) {
        most = fmaxf(most, hr_load(x[first + i * inner]));
    }
    for (hr_i64 i = 0; i < length; i++) {
        sum += expf(hr_load(x[first + i * inner]) - most);
    }
    const float over = 1.0f / sum, lse = logf(sum);
    for (hr_i64 i = 0; i < length; i++) {
        const float v = hr_load(x[first + i * inner]);
        hr_store(&y[first + i * inner], LOGS ? v - most - lse : expf(v - most) * over);
    }
}

HR_KERNEL __launch_bounds__(THREADS)
    softmax_columns_grad(const ELEM *dy, const ELEM *y, ELEM *dx, hr_i64 outer, hr_i64 length,
                         hr_i64 inner) {
    const hr_i64 c = (hr_i64)blockIdx.x * THREADS + threadIdx.x;
    if (c >= outer * inner) {
        return;
    }
    const hr_i64 first = c / inner * length * inner + c % inner;
    float sum = 0.0f;
    for (hr_i64 i = 0; i < length; i++) {
        const float d = hr_load(dy[first + i * inner]);
        sum += LOGS ? d : d * hr_load(y[first + i * inner]);
    }
    for (hr_i64 i = 0; i < length; i++) {
        const float d = hr_load(dy[first + i * inner]), v = hr_load(y[first + i * inner]);
        hr_store(&dx[first + i * inner], LOGS ? d - expf(v) * sum : v * (d - sum));
    }
}

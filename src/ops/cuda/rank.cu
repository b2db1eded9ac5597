// The k largest of each row, and how often the right one is among the first.  A block has a row.

typedef HR_T T;
enum { THREADS = 256, FINISH = 1024 };

// Id i, of i64 or of i32.
HR_INLINE hr_i64 id_at(const void *ids, hr_u32 wide, hr_i64 i) {
    return wide ? ((const hr_i64 *)ids)[i] : ((const hr_i32 *)ids)[i];
}

// Whether a at i comes before b at j: larger first, NaN last, of equals the first one.
HR_INLINE bool before(float a, hr_i64 i, float b, hr_i64 j) {
    return a > b || (b != b && a == a) || ((a == b || (a != a && b != b)) && i < j);
}

// Each place is the first of those that come after the place before it.
HR_KERNEL __launch_bounds__(THREADS) top_k(const T *x, T *values, hr_i32 *index, hr_i64 width, hr_i64 k) {
    __shared__ float best_value[THREADS];
    __shared__ hr_i64 best_at[THREADS];
    const T *row = x + (hr_i64)blockIdx.x * width;
    const hr_u32 me = threadIdx.x;
    float last = 0.0f;
    hr_i64 last_at = -1;
    for (hr_i64 place = 0; place < k; place++) {
        float value = 0.0f;
        hr_i64 at = -1;
        for (hr_i64 i = me; i < width; i += THREADS) {
            const float v = hr_load(row[i]);
            if ((last_at < 0 || before(last, last_at, v, i)) && (at < 0 || before(v, i, value, at))) {
                value = v;
                at = i;
            }
        }
        best_value[me] = value;
        best_at[me] = at;
        for (hr_u32 half = THREADS / 2; half > 0; half /= 2) {
            __syncthreads();
            if (me < half && best_at[me + half] >= 0 &&
                (best_at[me] < 0 ||
                 before(best_value[me + half], best_at[me + half], best_value[me], best_at[me]))) {
                best_value[me] = best_value[me + half];
                best_at[me] = best_at[me + half];
            }
        }
        __syncthreads();
        last = best_value[0];
        last_at = best_at[0];
        __syncthreads();
        if (me == 0) {
            hr_store(&values[blockIdx.x * k + place], last);
            index[blockIdx.x * k + place] = (hr_i32)last_at;
        }
    }
}

// What is known of a row: 0 does not count, 1 wrong, 2 right.  An id beyond the classes is never right.
HR_KERNEL __launch_bounds__(THREADS) rows_right(const T *x, const void *ids, hr_u32 wide, hr_u8 *right, hr_i64 width,
                                                hr_i64 top) {
    __shared__ float room[32];
    const T *row = x + (hr_i64)blockIdx.x * width;
    const hr_i64 id = id_at(ids, wide, blockIdx.x);
    const bool is = id >= 0 && id < width;
    const float own = is ? hr_load(row[id]) : 0.0f;
    hr_i64 ahead = 0;
    for (hr_i64 k = threadIdx.x; is && k < width; k += THREADS) {
        const float other = hr_load(row[k]);
        ahead += other > own || (other == own && k < id) || own != own;
    }
    // Exact: more than 2^24 classes ahead are rounded, and far beyond any `top`.
    const float all = hr_block_sum((float)ahead, room);
    if (threadIdx.x == 0) {
        right[blockIdx.x] = id < 0 ? 0 : is && all < (float)top ? 2 : 1;
    }
}

HR_KERNEL __launch_bounds__(FINISH) share_right(const hr_u8 *right, float *out, hr_i64 rows) {
    __shared__ float room[32];
    float counted = 0.0f, good = 0.0f;
    for (hr_i64 i = threadIdx.x; i < rows; i += FINISH) {
        counted += right[i] > 0 ? 1.0f : 0.0f;
        good += right[i] > 1 ? 1.0f : 0.0f;
    }
    counted = hr_block_sum(counted, room);
    good = hr_block_sum(good, room);
    if (threadIdx.x == 0) {
        *out = counted > 0.0f ? good / counted : 0.0f;
    }
}

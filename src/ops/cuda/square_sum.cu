// The sum of the squares of up to 16 tensors of any real types, and what updates make of it.
//
// The table of tensors is a kernel parameter; a block sums PIECE elements of one of them, and one block adds the blocks'
// sums in a fixed order.

enum { THREADS = 256, PIECE = 16384, TENSORS = 16, FINISH = 1024 };

struct tensor {
    hr_u64 at;
    hr_i64 count;
    hr_u32 first, type; // its first block; 0 f32, 1 bf16, 2 f16; 4 and more: not aligned
};
struct table {
    hr_u64 count;
    struct tensor tensor[TENSORS];
};

template <typename T> HR_INLINE float squares(const T *x, hr_i64 begin, hr_i64 count, bool wide) {
    enum { V = 16 / sizeof(T) };
    const hr_i64 end = begin + PIECE < count ? begin + PIECE : count;
    float sum = 0.0f;
    if (!wide) {
        for (hr_i64 k = begin + threadIdx.x; k < end; k += THREADS) {
            sum += hr_load(x[k]) * hr_load(x[k]);
        }
        return sum;
    }
#pragma unroll 4
    for (hr_i64 k = begin + threadIdx.x * V; k < end; k += THREADS * V) {
        if (k + V <= end) {
            float v[V];
            hr_load_pack<T, V>(x + k, v);
#pragma unroll
            for (int i = 0; i < V; i++) {
                sum += v[i] * v[i];
            }
        } else {
            for (hr_i64 i = k; i < end; i++) {
                sum += hr_load(x[i]) * hr_load(x[i]);
            }
        }
    }
    return sum;
}

HR_KERNEL __launch_bounds__(THREADS) pieces(HR_TABLE struct table t, float *sums) {
    __shared__ float room[32];
    hr_u32 k = 0; // the last tensor that begins at this block or before
    for (hr_u32 step = TENSORS / 2; step > 0; step /= 2) {
        if (k + step < t.count && t.tensor[k + step].first <= blockIdx.x) {
            k += step;
        }
    }
    const hr_u64 at = t.tensor[k].at;
    const hr_i64 count = t.tensor[k].count;
    const hr_i64 begin = (hr_i64)(blockIdx.x - t.tensor[k].first) * PIECE;
    const bool wide = t.tensor[k].type < 4;
    float sum;
    switch (t.tensor[k].type & 3) {
    case 0:
        sum = squares((const float *)at, begin, count, wide);
        break;
    case 1:
        sum = squares((const hr_bf16 *)at, begin, count, wide);
        break;
    default:
        sum = squares((const hr_f16 *)at, begin, count, wide);
    }
    sum = hr_block_sum(sum, room);
    if (threadIdx.x == 0) {
        sums[blockIdx.x] = sum;
    }
}

HR_KERNEL __launch_bounds__(FINISH) finish(const float *sums, float *out, hr_i64 count) {
    __shared__ float room[32];
    float sum = 0.0f;
    for (hr_i64 i = threadIdx.x; i < count; i += FINISH) {
        sum += sums[i];
    }
    sum = hr_block_sum(sum, room);
    if (threadIdx.x == 0) {
        *out = sum;
    }
}

// One thread; scale may be NULL, clip 0 means none.
HR_KERNEL update_factor(const float *sum, const float *scale, float *factor, float *norm, double clip) {
    if (threadIdx.x == 0 && blockIdx.x == 0) {
        const double s = scale ? (double)*scale : 1.0;
        const double n = sqrt((double)*sum) / s;
        const double limit = clip > 0.0 ? clip / (n + 1e-6) : 1.0;
        const bool finite = n - n == 0.0;
        *factor = finite ? (float)((limit < 1.0 ? limit : 1.0) / s) : 0.0f;
        *norm = (float)n;
    }
}

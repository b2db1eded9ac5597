// The cast of many tensors from HR_X to another type in one launch; ops/cast.c has the rules and the same table.
//
// The table is a kernel parameter.  A block finds its tensor and does PIECE elements of it, as many to an access as are
// 16 bytes of the larger type; tensors that are not aligned go one by one.  A thread reads what it writes over before it writes, so input and output may be one.

typedef HR_X X;
enum { TENSORS = 112, PIECE = 4096, THREADS = 256 };

struct tensor {
    hr_u64 x, y;
    hr_i64 count;
    hr_u32 first, narrow; // its first block; 1: not aligned
};
struct table {
    hr_u64 count;
    struct tensor tensor[TENSORS];
};

// A number on its way: f32 from real types, i64 from whole ones.
HR_INLINE float take(float x) {
    return x;
}
HR_INLINE float take(hr_bf16 x) {
    return hr_load(x);
}
HR_INLINE float take(hr_f16 x) {
    return hr_load(x);
}
HR_INLINE hr_i64 take(hr_i32 x) {
    return x;
}
HR_INLINE hr_i64 take(hr_i64 x) {
    return x;
}
HR_INLINE hr_i64 take(hr_u8 x) {
    return x;
}
HR_INLINE hr_i64 take(hr_i8 x) {
    return x;
}

// A real number as an integer from low to high: cut, held at both ends, NaN is 0.  `top` is high + 1, exact in f32.
template <typename Y> HR_INLINE Y cut(float x, Y low, float bottom, Y high, float top) {
    return x != x ? (Y)0 : x <= bottom ? low : x >= top ? high : (Y)x;
}
template <typename R> HR_INLINE void put(R *y, float x) {
    hr_store(y, x);
}
template <> HR_INLINE void put<hr_i32>(hr_i32 *y, float x) {
    *y = cut<hr_i32>(x, -2147483647 - 1, -2147483648.0f, 2147483647, 2147483648.0f);
}
template <> HR_INLINE void put<hr_i64>(hr_i64 *y, float x) {
    *y = cut<hr_i64>(x, -9223372036854775807ll - 1, -9223372036854775808.0f, 9223372036854775807ll,
                     9223372036854775808.0f);
}
template <> HR_INLINE void put<hr_u8>(hr_u8 *y, float x) {
    *y = cut<hr_u8>(x, 0, 0.0f, 255, 255.0f);
}
template <> HR_INLINE void put<hr_i8>(hr_i8 *y, float x) {
    *y = cut<hr_i8>(x, -128, -128.0f, 127, 127.0f);
}
template <typename R> HR_INLINE void put(R *y, hr_i64 x) {
    hr_store(y, (float)x);
}
template <> HR_INLINE void put<hr_i32>(hr_i32 *y, hr_i64 x) {
    *y = x < -2147483647 - 1 ? -2147483647 - 1 : x > 2147483647 ? 2147483647 : (hr_i32)x;
}
template <> HR_INLINE void put<hr_i64>(hr_i64 *y, hr_i64 x) {
    *y = x;
}
template <> HR_INLINE void put<hr_u8>(hr_u8 *y, hr_i64 x) {
    *y = (hr_u8)(x < 0 ? 0 : x > 255 ? 255 : x);
}
template <> HR_INLINE void put<hr_i8>(hr_i8 *y, hr_i64 x) {
    *y = (hr_i8)(x < -128 ? -128 : x > 127 ? 127 : x);
}

template <typename Y> HR_INLINE void cast(const table &t) {
    enum {
        WIDTH = 16 / (sizeof(X) > sizeof(Y) ? sizeof(X) : sizeof(Y)),
        ROUND = THREADS * WIDTH,
        GROUP = PIECE / ROUND < 4 ? PIECE / ROUND : 4
    };
    hr_u32 k = 0; // the last tensor that begins at this block or before
    for (hr_u32 step = 64; step > 0; step /= 2) {
        if (k + step < t.count && t.tensor[k + step].first <= blockIdx.x) {
            k += step;
        }
    }
    const X *x = (const X *)t.tensor[k].x;
    Y *y = (Y *)t.tensor[k].y;
    const hr_i64 begin = (hr_i64)(blockIdx.x - t.tensor[k].first) * PIECE;
    const hr_i64 end = begin + PIECE < t.tensor[k].count ? begin + PIECE : t.tensor[k].count;
    hr_i64 done = begin;
    for (; done + ROUND * GROUP <= end && !t.tensor[k].narrow; done += ROUND * GROUP) {
        const hr_i64 at = done + threadIdx.x * WIDTH;
        hr_pack<X, WIDTH> from[GROUP]; // all loads first
#pragma unroll
        for (int r = 0; r < GROUP; r++) {
            from[r] = *(const hr_pack<X, WIDTH> *)(x + at + r * ROUND);
        }
#pragma unroll
        for (int r = 0; r < GROUP; r++) {
            hr_pack<Y, WIDTH> to;
#pragma unroll
            for (int j = 0; j < WIDTH; j++) {
                put<Y>(&to.at[j], take(from[r].at[j]));
            }
            *(hr_pack<Y, WIDTH> *)(y + at + r * ROUND) = to;
        }
    }
    for (hr_i64 i = done + threadIdx.x; i < end; i += THREADS) {
        put<Y>(&y[i], take(x[i]));
    }
}

HR_KERNEL __launch_bounds__(THREADS) to_f32(HR_TABLE struct table t) {
    cast<float>(t);
}
HR_KERNEL __launch_bounds__(THREADS) to_bf16(HR_TABLE struct table t) {
    cast<hr_bf16>(t);
}
HR_KERNEL __launch_bounds__(THREADS) to_f16(HR_TABLE struct table t) {
    cast<hr_f16>(t);
}
HR_KERNEL __launch_bounds__(THREADS) to_i32(HR_TABLE struct table t) {
    cast<hr_i32>(t);
}
HR_KERNEL __launch_bounds__(THREADS) to_i64(HR_TABLE struct table t) {
    cast<hr_i64>(t);
}
HR_KERNEL __launch_bounds__(THREADS) to_u8(HR_TABLE struct table t) {
    cast<hr_u8>(t);
}
HR_KERNEL __launch_bounds__(THREADS) to_i8(HR_TABLE struct table t) {
    cast<hr_i8>(t);
}

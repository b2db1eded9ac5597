// Optimizer updates and sums of gradients, over many tensors in one launch.
//
// The table of tensors is a kernel parameter, so it needs no memory.  A block finds its tensor and does PIECE elements
// of it; arithmetic is f32 whatever is stored.  A factor of 0, or one that is not finite, leaves everything as it is.
// `update` is for weights and states of f32, HR_G being the type of the gradients; `update_any` for any types, known at
// run time, one element at a time.  HR_OP names the rule below, HR_STATES is how many states there are.
// `update_small` is for states that are rounded at random: bf16, or 8 bit in blocks (ops/common/codes.h).  HR_SMALL says which:
// bit 0: there are such; bits 1-2 and 3-4: the type of each state as in `types`; bits 5-6: whether it is never negative;
// bit 7: all tensors are aligned to 16 bytes.
// ops/common/update_cuda.c has the same table.  With HR_FOLD there is `fold` for ops/fold_parts.c, too.

typedef HR_G G;
enum { TENSORS = 64, PIECE = 2048, THREADS = 256, STATES = HR_STATES, WIDTH = 4 };

struct tensor {
    hr_u64 at[4]; // w, g, s0, s1
    hr_i64 count;
    hr_u32 first; // its first block
    float decay;
    hr_u32 stream; // of the random numbers of its small states
    hr_u32 words;  // of them before it, 4 elements each: a slice begins inside its tensor
};
struct table {
    const float *rate, *scalar, *factor; // scalar and factor may be NULL
    const hr_control *control;           // NULL: nothing is drawn
    float c[8];                          // constants of the rule
    hr_u32 count;
    hr_u32 types; // update_any: 4 bits for each of w, g, s0, s1: 0 f32, 1 bf16, 2 f16, 3 8 bit
    struct tensor tensor[TENSORS];
};

// What one thread knows of a whole update.
struct known {
    float rate, scalar, factor, decay;
    float c[8], more[2]; // more: made from the scalars once
};

struct accumulate {
    static HR_INLINE void begin(known &) {}
    static HR_INLINE void step(const known &u, float &sum, float g, float &, float &) {
        if (u.scalar == 0.0f || u.scalar == 1.0f) {
            sum = (u.scalar != 0.0f ? 0.0f : sum) + u.rate * g;
        } else {
            sum = (1.0f - u.scalar) * sum + u.rate * g;
        }
    }
};
struct sgd_velocity { // momentum
    static HR_INLINE void begin(known &) {}
    static HR_INLINE void step(const known &u, float &v, float g, float &, float &) {
        v = (u.scalar != 0.0f ? u.c[0] : 1.0f) * v + u.rate * g;
    }
};
struct sgd {
    static HR_INLINE void begin(known &) {}
    static HR_INLINE void step(const known &u, float &w, float g, float &, float &) {
        w -= u.rate * (u.factor * g + u.decay * w);
    }
};
struct sgd_momentum { // momentum, straight, ahead
    static HR_INLINE void begin(known &) {}
    static HR_INLINE void step(const known &u, float &w, float g, float &v, float &) {
        const float d = u.factor * g + u.decay * w;
        v = u.c[0] * v + d;
        w -= u.rate * (u.c[1] * d + u.c[2] * v);
    }
};
struct rmsprop { // alpha, 1 - alpha, epsilon, momentum, root
    static HR_INLINE void begin(known &) {}
    static HR_INLINE void step(const known &u, float &w, float g, float &s, float &) {
        const float d = u.factor * g + u.decay * w;
        s = u.c[0] * s + u.c[1] * d * d;
        w -= u.rate * d / (sqrtf(s + u.c[4]) + u.c[2]);
    }
};
struct rmsprop_momentum { // alpha, 1 - alpha, epsilon, momentum, root
    static HR_INLINE void begin(known &) {}
    static HR_INLINE void step(const known &u, float &w, float g, float &s, float &v) {
        const float d = u.factor * g + u.decay * w;
        s = u.c[0] * s + u.c[1] * d * d;
        v = u.c[3] * v + d / (sqrtf(s + u.c[4]) + u.c[2]);
        w -= u.rate * v;
    }
};
struct lion { // beta1, 1 - beta1, beta2, 1 - beta2
    static HR_INLINE void begin(known &) {}
    static HR_INLINE void step(const known &u, float &w, float g, float &m, float &) {
        const float d = u.factor * g, x = u.c[0] * m + u.c[1] * d;
        w = w * (1.0f - u.rate * u.decay) - (x > 0.0f ? u.rate : x < 0.0f ? -u.rate : 0.0f);
        m = u.c[2] * m + u.c[3] * d;
    }
};
// beta1, 1 - beta1, beta2, 1 - beta2, epsilon, log(beta1), log(beta2).  1 - beta^t through its logarithm: in f32 the
// difference itself would have three digits.
struct moments {
    static HR_INLINE void begin(known &u) {
        u.more[0] = u.rate / -expm1f(u.scalar * u.c[5]);
        u.more[1] = 1.0f / sqrtf(-expm1f(u.scalar * u.c[6]));
    }
    static HR_INLINE float move(const known &u, float d, float &m, float &v) {
        m = u.c[0] * m + u.c[1] * d;
        v = u.c[2] * v + u.c[3] * d * d;
        return u.more[0] * m / (sqrtf(v) * u.more[1] + u.c[4]);
    }
};
struct adam : moments {
    static HR_INLINE void step(const known &u, float &w, float g, float &m, float &v) {
        w -= move(u, u.factor * g + u.decay * w, m, v);
    }
};
struct adamw : moments {
    static HR_INLINE void step(const known &u, float &w, float g, float &m, float &v) {
        w = w * (1.0f - u.rate * u.decay) - move(u, u.factor * g, m, v);
    }
};

template <int N>
HR_INLINE void some(const known &u, float *w, const G *g, float *s0, float *s1, hr_i64 at) {
    float x[N], d[N], a[N] = {0}, b[N] = {0};
    hr_load_pack<float, N>(w + at, x);
    hr_load_pack<G, N>(g + at, d);
    if (STATES > 0) {
        hr_load_pack<float, N>(s0 + at, a);
    }
    if (STATES > 1) {
        hr_load_pack<float, N>(s1 + at, b);
    }
#pragma unroll
    for (int i = 0; i < N; i++) {
        HR_OP::step(u, x[i], d[i], a[i], b[i]);
    }
    hr_store_pack<float, N>(w + at, x);
    if (STATES > 0) {
        hr_store_pack<float, N>(s0 + at, a);
    }
    if (STATES > 1) {
        hr_store_pack<float, N>(s1 + at, b);
    }
}

// What this block has to know, and its tensor; false: the step is skipped.
HR_INLINE bool begin(const table &t, known &u, hr_u32 &k) {
    u.factor = t.factor ? *t.factor : 1.0f;
    if (u.factor == 0.0f || !(fabsf(u.factor) <= 3.402823466e38f)) {
        return false;
    }
    k = 0; // the last tensor that begins at this block or before
    for (hr_u32 step = TENSORS / 2; step > 0; step /= 2) {
        if (k + step < t.count && t.tensor[k + step].first <= blockIdx.x) {
            k += step;
        }
    }
    u.rate = *t.rate;
    u.scalar = t.scalar ? *t.scalar : 0.0f;
    u.decay = t.tensor[k].decay;
#pragma unroll
    for (int i = 0; i < 8; i++) {
        u.c[i] = t.c[i];
    }
    HR_OP::begin(u);
    return true;
}

HR_KERNEL __launch_bounds__(THREADS) update(HR_TABLE struct table t) {
    known u;
    hr_u32 k;
    if (!begin(t, u, k)) {
        return;
    }
    float *w = (float *)t.tensor[k].at[0];
    const G *g = (const G *)t.tensor[k].at[1];
    float *s0 = (float *)t.tensor[k].at[2], *s1 = (float *)t.tensor[k].at[3];
    const hr_i64 count = t.tensor[k].count;
    const hr_i64 first = (hr_i64)(blockIdx.x - t.tensor[k].first) * PIECE;
    for (int i = 0; i < PIECE; i += THREADS * WIDTH) {
        const hr_i64 at = first + i + threadIdx.x * WIDTH;
        if (at + WIDTH <= count) {
            some<WIDTH>(u, w, g, s0, s1, at);
        } else {
            for (hr_i64 j = at; j < count; j++) {
                some<1>(u, w, g, s0, s1, j);
            }
        }
    }
}

// ---- parts of a batch, one after the other ----

#ifdef HR_FOLD
// Of fold_parts: the first operand in registers, the rows of all parts through HR_OP in their order.  ops/fold_parts.c has the
// same table.
struct folded {
    hr_u64 to, x[2];
    hr_i64 count, stride; // elements; from one row to the next
    hr_u32 first;         // its first block
    hr_u32 wide;          // all rows are aligned to 4 elements
};
struct folds {
    const float *weights, *firsts;
    float c[8];
    hr_u32 count, rows, pieces, spare;
    struct folded tensor[TENSORS];
};

template <int N> HR_INLINE void fold_some(const folds &t, const folded &x, hr_i64 at) {
    float s[N], d[N], none = 0.0f;
    known u;
    u.factor = 1.0f;
    u.decay = 0.0f;
#pragma unroll
    for (int i = 0; i < 8; i++) {
        u.c[i] = t.c[i];
    }
    hr_load_pack<float, N>((const float *)x.to + at, s);
    for (hr_u32 r = 0; r < t.rows; r++) {
        for (hr_u32 p = 0; p < t.pieces; p++) {
            if (t.spare && r + 1 == t.rows && p + 1 == t.pieces) {
                continue;
            }
            u.rate = t.weights[r];
            u.scalar = p ? 0.0f : t.firsts[r];
            hr_load_pack<G, N>((const G *)x.x[p] + r * x.stride + at, d);
#pragma unroll
            for (int i = 0; i < N; i++) {
                HR_OP::step(u, s[i], d[i], none, none);
            }
        }
    }
    hr_store_pack<float, N>((float *)x.to + at, s);
}

HR_KERNEL __launch_bounds__(THREADS) fold(HR_TABLE struct folds t) {
    hr_u32 k = 0;
    for (hr_u32 step = TENSORS / 2; step > 0; step /= 2) {
        if (k + step < t.count && t.tensor[k + step].first <= blockIdx.x) {
            k += step;
        }
    }
    const folded &x = t.tensor[k];
    const hr_i64 first = (hr_i64)(blockIdx.x - x.first) * PIECE;
    for (int i = 0; i < PIECE; i += THREADS * WIDTH) {
        const hr_i64 at = first + i + threadIdx.x * WIDTH;
        if (x.wide && at + WIDTH <= x.count) {
            fold_some<WIDTH>(t, x, at);
        } else {
            for (hr_i64 j = at; j < at + WIDTH && j < x.count; j++) {
                fold_some<1>(t, x, j);
            }
        }
    }
}
#endif

HR_INLINE float get(hr_u64 at, hr_u32 type, hr_i64 i) {
    return type == 0   ? ((const float *)at)[i]
           : type == 1 ? hr_load(((const hr_bf16 *)at)[i])
                       : hr_load(((const hr_f16 *)at)[i]);
}
HR_INLINE void put(hr_u64 at, hr_u32 type, hr_i64 i, float x) {
    if (type == 0) {
        ((float *)at)[i] = x;
    } else if (type == 1) {
        hr_store((hr_bf16 *)at + i, x);
    } else {
        hr_store((hr_f16 *)at + i, x);
    }
}

HR_KERNEL __launch_bounds__(THREADS) update_any(HR_TABLE struct table t) {
    known u;
    hr_u32 k;
    if (!begin(t, u, k)) {
        return;
    }
    const hr_u32 w = t.types & 15, g = t.types >> 4 & 15, s0 = t.types >> 8 & 15,
                 s1 = t.types >> 12 & 15;
    const tensor &x = t.tensor[k];
    const hr_i64 first = (hr_i64)(blockIdx.x - x.first) * PIECE;
    for (hr_i64 i = first + threadIdx.x; i < first + PIECE && i < x.count; i += THREADS) {
        float v = get(x.at[0], w, i), a = 0.0f, b = 0.0f;
        if (STATES > 0) {
            a = get(x.at[2], s0, i);
        }
        if (STATES > 1) {
            b = get(x.at[3], s1, i);
        }
        HR_OP::step(u, v, get(x.at[1], g, i), a, b);
        put(x.at[0], w, i, v);
        if (STATES > 0) {
            put(x.at[2], s0, i, a);
        }
        if (STATES > 1) {
            put(x.at[3], s1, i, b);
        }
    }
}

// ---- small states ----

#if HR_SMALL
enum { CODES = 256, CODES_BYTES = 260, TYPE0 = HR_SMALL >> 1 & 3, TYPE1 = HR_SMALL >> 3 & 3 };
enum { POSITIVE0 = HR_SMALL >> 5 & 1, POSITIVE1 = HR_SMALL >> 6 & 1, ALIGNED = HR_SMALL >> 7 & 1 };

// 4 elements from e on, as far as there are any.
template <typename T>
HR_INLINE void get_four(const T *from, hr_i64 e, hr_i64 count, float (&x)[4]) {
    if (ALIGNED && e + 4 <= count) {
        hr_load_pack<T, 4>(from + e, x);
        return;
    }
#pragma unroll
    for (int q = 0; q < 4; q++) {
        x[q] = e + q < count ? hr_load(from[e + q]) : 0.0f;
    }
}
template <typename T> HR_INLINE void put_four(T *to, hr_i64 e, hr_i64 count, const float (&x)[4]) {
    if (ALIGNED && e + 4 <= count) {
        hr_store_pack<T, 4>(to + e, x);
        return;
    }
#pragma unroll
    for (int q = 0; q < 4; q++) {
        if (e + q < count) {
            hr_store(&to[e + q], x[q]);
        }
    }
}

// ops/common/codes.c has the same tables.
struct codes {
    float value[256], magnitude[257];
};

template <int POSITIVE> HR_INLINE void make_codes(codes &c) {
    const int last = POSITIVE ? 255 : 128;
    for (int n = threadIdx.x; n <= 256; n += THREADS) {
        float x = n == 0 ? 0.0f : n == last ? 1.0f : INFINITY;
        if (n > 0 && n < last) {
            int i = 0, k = n - 1; // part k of 2^i, or of twice as many
            while (k >= 1 << (i + POSITIVE)) {
                k -= 1 << (i + POSITIVE);
                i++;
            }
            float tens = 1e1f;
            for (int t = i; t < 6; t++) {
                tens *= 10.0f; // exact
            }
            const int twice = 2 << (i + POSITIVE);
            x = __fdiv_rn((float)(twice + 9 * (2 * k + 1)), (float)twice * tens);
        }
        c.magnitude[n] = x;
        if (n <= last && n < 256) {
            c.value[n] = x;
        }
        if (!POSITIVE && n > 0 && n < last) {
            c.value[256 - n] = -x;
        }
    }
}

// draw: 0 .. 65535; negative: to the nearest.
template <int POSITIVE> HR_INLINE hr_u32 encode(const codes &c, float x, hr_i32 draw) {
    const float a = fabsf(x);
    hr_u32 at = 0;
#pragma unroll
    for (hr_u32 step = 128; step > 0; step /= 2) {
        at += c.magnitude[at + step] <= a ? step : 0;
    }
    const float under = a - c.magnitude[at], over = c.magnitude[at + 1] - a;
    at += draw < 0 ? under > over : (float)draw * (under + over) < 65536.0f * under;
    at += POSITIVE && at == 0 && a > 0.0f;
    return !(x < 0.0f) ? at : at > 127 ? 129 : 256 - at;
}

// A block of 256 of one state: a lane has 4 elements, from i on, in each half.  Padding has codes, too.
template <int TYPE, int POSITIVE, int SHIFT> struct state {
    static HR_INLINE hr_u8 *codes_at(hr_u64 at, hr_i64 block) {
        return (hr_u8 *)at + block * CODES_BYTES;
    }
    static HR_INLINE void load(const codes &c, hr_u64 at, hr_i64 block, hr_i64 i, hr_i64 count,
                               float (&x)[4]) {
        const hr_i64 e = block * CODES + i;
        if (TYPE == 3) {
            const hr_u8 *codes = codes_at(at, block);
            const float scale = *(const float *)codes;
            const hr_u32 four = *(const hr_u32 *)(codes + 4 + i);
#pragma unroll
            for (int q = 0; q < 4; q++) {
                x[q] = e + q < count ? c.value[four >> 8 * q & 255] * scale : 0.0f;
            }
        } else if (TYPE == 1) {
            get_four((const hr_bf16 *)at, e, count, x);
        } else {
            get_four((const float *)at, e, count, x);
        }
    }
    // The largest magnitude of all lanes, by its bits.
    static HR_INLINE float largest(const float (&x)[2][4]) {
        hr_u32 most = 0;
#pragma unroll
        for (int q = 0; q < 8; q++) {
            const hr_u32 bits = __float_as_uint(x[q / 4][q % 4]) & 0x7fffffffu;
            most = bits > most ? bits : most;
        }
#pragma unroll
        for (int step = 16; step > 0; step /= 2) {
            const hr_u32 other = __shfl_xor_sync(0xffffffffu, most, step);
            most = other > most ? other : most;
        }
        return __uint_as_float(most);
    }
    static HR_INLINE hr_u32 coded(const codes &c, const float (&x)[4], float scale,
                                  const hr_u32 (&words)[4]) {
        hr_u32 four = 0;
#pragma unroll
        for (int q = 0; q < 4; q++) {
            const hr_i32 draw = POSITIVE ? -1 : (hr_i32)(words[q] >> SHIFT & 0xffffu);
            const hr_u32 code = scale == 0.0f ? 0
                                : scale - scale == 0.0f
                                    ? encode<POSITIVE>(c, __fdiv_rn(x[q], scale), draw)
                                    : 1;
            four |= code << 8 * q;
        }
        return four;
    }
    // So that storing as bf16 rounds to what was drawn: bits below it are none.
    static HR_INLINE float drawn(float x, hr_u32 word) {
        const hr_u32 bits = __float_as_uint(x);
        return (bits & 0x7f800000u) == 0x7f800000u
                   ? x
                   : __uint_as_float((bits + (word >> SHIFT & 0xffffu)) & 0xffff0000u);
    }
    static HR_INLINE void store(const codes &c, hr_u64 at, hr_i64 block, hr_i64 i, hr_i64 count,
                                const float (&x)[2][4], const hr_u32 (&words)[2][4]) {
        const float scale = TYPE == 3 ? largest(x) : 0.0f;
        if (TYPE == 3 && i == 0) {
            *(float *)codes_at(at, block) = scale;
        }
#pragma unroll
        for (int half = 0; half < 2; half++) {
            const hr_i64 in = half * (CODES / 2) + i, e = block * CODES + in;
            if (TYPE == 3) {
                *(hr_u32 *)(codes_at(at, block) + 4 + in) = coded(c, x[half], scale, words[half]);
            } else if (TYPE == 1) {
                float y[4];
#pragma unroll
                for (int q = 0; q < 4; q++) {
                    y[q] = drawn(x[half][q], words[half][q]);
                }
                put_four((hr_bf16 *)at, e, count, y);
            } else {
                put_four((float *)at, e, count, x[half]);
            }
        }
    }
};
typedef state<TYPE0, POSITIVE0, 0> first_state;
typedef state<TYPE1, POSITIVE1, 16> second_state;

// A warp has a block of 256 elements of its own.
HR_KERNEL __launch_bounds__(THREADS) update_small(HR_TABLE struct table t) {
    __shared__ codes table0, table1;
    known u;
    hr_u32 k;
    if (!begin(t, u, k)) {
        return; // the whole block
    }
    if (TYPE0 == 3) {
        make_codes<POSITIVE0>(table0);
    }
    if (STATES > 1 && TYPE1 == 3) {
        make_codes<POSITIVE1>(table1);
    }
    __syncthreads();
    const tensor &at = t.tensor[k];
    const hr_i64 count = at.count, i = (threadIdx.x & 31) * 4;
    const hr_i64 block = (hr_i64)(blockIdx.x - at.first) * (PIECE / CODES) + (threadIdx.x >> 5);
    if (block * CODES >= count) {
        return; // the whole warp
    }
    float a[2][4] = {{0}}, b[2][4] = {{0}};
    hr_u32 words[2][4];
#pragma unroll
    for (int half = 0; half < 2; half++) {
        const hr_i64 in = half * (CODES / 2) + i, e = block * CODES + in;
        hr_philox(t.control->seed, t.control->step, at.stream, 0xffffffffu,
                  at.words + (hr_u32)(e / 4), words[half]);
        first_state::load(table0, at.at[2], block, in, count, a[half]);
        if (STATES > 1) {
            second_state::load(table1, at.at[3], block, in, count, b[half]);
        }
        float w[4], g[4];
        get_four((const float *)at.at[0], e, count, w);
        get_four((const G *)at.at[1], e, count, g);
#pragma unroll
        for (int q = 0; q < 4; q++) {
            if (e + q < count) {
                HR_OP::step(u, w[q], g[q], a[half][q], b[half][q]);
            }
        }
        put_four((float *)at.at[0], e, count, w);
    }
    first_state::store(table0, at.at[2], block, i, count, a, words);
    if (STATES > 1) {
        second_state::store(table1, at.at[3], block, i, count, b, words);
    }
}
#endif

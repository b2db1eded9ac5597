// Optimizer updates and sums of gradients, over many tensors in one launch.
//
// The table of tensors is a kernel parameter, so it needs no memory.  A block finds its tensor and does PIECE elements
// of it; arithmetic is f32 whatever is stored.  A factor of 0, or one that is not finite, leaves everything as it is.
// `update` is for weights and states of f32, HR_G being the type of the gradients; `update_any` for any types, known at
// run time, one element at a time.  HR_OP names the rule below, HR_STATES is how many states there are.
// ops/common/update_cuda.c has the same table.

typedef HR_G G;
enum { TENSORS = 64, PIECE = 2048, THREADS = 256, STATES = HR_STATES, WIDTH = 4 };

struct tensor {
    hr_u64 at[4]; // w, g, s0, s1
    hr_i64 count;
    hr_u32 first; // its first block
    float decay;
};
struct table {
    const float *rate, *scalar, *factor; // scalar and factor may be NULL
    float c[8];                          // constants of the rule
    hr_u32 count;
    hr_u32 types; // update_any: 4 bits for each of w, g, s0, s1: 0 f32, 1 bf16, 2 f16
    struct tensor tensor[TENSORS];
};

// What one thread knows of a whole update.
struct known {
    float rate, scalar, factor, decay;
    float c[8], more[2]; // more: made from the scalars once
};

struct accumulate {
    static HR_INLINE void begin(known &) {
    }
    static HR_INLINE void step(const known &u, float &sum, float g, float &, float &) {
        if (u.scalar == 0.0f || u.scalar == 1.0f) {
            sum = (u.scalar != 0.0f ? 0.0f : sum) + u.rate * g;
        } else {
            sum = (1.0f - u.scalar) * sum + u.rate * g;
        }
    }
};
struct sgd_velocity { // momentum
    static HR_INLINE void begin(known &) {
    }
    static HR_INLINE void step(const known &u, float &v, float g, float &, float &) {
        v = (u.scalar != 0.0f ? u.c[0] : 1.0f) * v + u.rate * g;
    }
};
struct sgd {
    static HR_INLINE void begin(known &) {
    }
    static HR_INLINE void step(const known &u, float &w, float g, float &, float &) {
        w -= u.rate * (u.factor * g + u.decay * w);
    }
};
struct sgd_momentum { // momentum, straight, ahead
    static HR_INLINE void begin(known &) {
    }
    static HR_INLINE void step(const known &u, float &w, float g, float &v, float &) {
        const float d = u.factor * g + u.decay * w;
        v = u.c[0] * v + d;
        w -= u.rate * (u.c[1] * d + u.c[2] * v);
    }
};
struct rmsprop { // alpha, 1 - alpha, epsilon
    static HR_INLINE void begin(known &) {
    }
    static HR_INLINE void step(const known &u, float &w, float g, float &s, float &) {
        const float d = u.factor * g + u.decay * w;
        s = u.c[0] * s + u.c[1] * d * d;
        w -= u.rate * d / (sqrtf(s) + u.c[2]);
    }
};
struct rmsprop_momentum { // alpha, 1 - alpha, epsilon, momentum
    static HR_INLINE void begin(known &) {
    }
    static HR_INLINE void step(const known &u, float &w, float g, float &s, float &v) {
        const float d = u.factor * g + u.decay * w;
        s = u.c[0] * s + u.c[1] * d * d;
        v = u.c[3] * v + d / (sqrtf(s) + u.c[2]);
        w -= u.rate * v;
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
    const hr_u32 w = t.types & 15, g = t.types >> 4 & 15, s0 = t.types >> 8 & 15, s1 = t.types >> 12 & 15;
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

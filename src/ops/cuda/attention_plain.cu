// Attention without tensor cores, for f32 and for depths that attention.cu does not take; forward and backward.
//
// The same passes as there, in f32: a block has R rows of one side and goes over tiles of R rows of the other.  Both lie
// in shared memory as f32, in rows of an odd number of words.  L = 128 / R neighbouring threads share a row: each makes
// every L-th score of it and has every L-th number of its results, DL of them, in registers.
//
// MASKED: numbers of type MELEM are added to the scores, and with DROP probabilities are dropped: attention_masked.  A query that
// sees nothing gives 0, and its lse is infinite.  Tiles that the mask hides whole are skipped, and where it adds nothing it is not
// read (attention_flags.cu has looked); where it is, before the products, which take longer than it does to come.
//
// Defines: BACKWARD (a module has one direction), ELEM, R, DL, CAUSAL; MASKED, MELEM and DROP.
#ifndef ELEM
#define ELEM     float
#define R        32
#define DL       16
#define CAUSAL   1
#define BACKWARD 0
#endif

#ifndef MASKED
#define MASKED 0
#endif
#ifndef DROP
#define DROP 0
#endif
#if MASKED
#ifndef MELEM
#define MELEM float
#endif
#define EXTRA , const MELEM *mask, const hr_u8 *flags, const hr_control *control, extra e
#else
#define EXTRA
#endif

enum { THREADS = 128, L = THREADS / R, SCORES = (R + L - 1) / L, EDGE = R + 1 };

// As attention.cu has it.
struct shape {
    hr_i64 queries, keys;
    hr_i64 q_batch, q_row, k_batch, k_row, v_batch, v_row, o_batch, o_row;
    hr_i32 heads, depth;
    float scale;
    hr_i32 group; // heads of q to a head of k and v
};

#if MASKED
// As attention_cuda.c has it; strides of 0 are the same for all.
struct extra {
    hr_i64 mask_batch, mask_head, mask_row;
    hr_i64 flag_batch, flag_head, flag_row;
    float drop, keep;
    hr_u32 node, pairs;
};
enum { SEEN = 1, ADDS = 2 };
// The mask of one head.
struct head_mask {
    const MELEM *at;
    const hr_u8 *flags;
    hr_i64 row, flag_row;

    HR_INLINE void init(const MELEM *mask, const hr_u8 *all, const extra &e, hr_i64 b, hr_i64 h) {
        at = mask ? mask + b * e.mask_batch + h * e.mask_head : mask;
        flags = all ? all + b * e.flag_batch + h * e.flag_head : all;
        row = e.mask_row;
        flag_row = e.flag_row;
    }
    // SEEN and ADDS of the tiles at q0 and k0, which are 32 rows or fewer.
    HR_INLINE hr_u32 of(hr_i64 q0, hr_i64 k0) const {
        return flags ? flags[q0 / 32 * flag_row + k0 / 32] : SEEN;
    }
    // What is added to the score of query i and key j.
    HR_INLINE float one(hr_i64 i, hr_i64 j) const {
        return hr_load(at[i * row + j]);
    }
};
#endif
#if DROP
// What the probability of query i and key j is multiplied by; rows of draws are whole fours.
HR_INLINE float kept(const hr_control *control, const extra &e, const shape &a, hr_i64 b, hr_i64 h,
                     hr_i64 i, hr_i64 j) {
    const hr_u64 row = (hr_u64)h * (hr_u64)a.queries + (hr_u64)i,
                 index = row * (((hr_u64)a.keys + 3) / 4 * 4) + (hr_u64)j;
    hr_u32 words[4];
    hr_philox(control->seed, control->step, e.node, control->first_sample + (hr_u32)b,
              (hr_u32)(index / 4), words);
    const hr_u32 word =
        (index & 2) ? ((index & 1) ? words[3] : words[2]) : ((index & 1) ? words[1] : words[0]);
    return hr_uniform(word) >= e.drop ? e.keep : 0.0f;
}
#endif

HR_INLINE void fetch(float *to, const ELEM *from, hr_i64 stride, hr_i64 first, hr_i64 end,
                     hr_i32 depth) {
    const int pitch = depth | 1;
    for (int i = threadIdx.x; i < R * depth; i += THREADS) {
        const int row = i / depth, c = i - row * depth;
        to[row * pitch + c] = first + row < end ? hr_load(from[(first + row) * stride + c]) : 0.0f;
    }
}
HR_INLINE float over_row(float x, bool most) {
#pragma unroll
    for (int step = L / 2; step > 0; step /= 2) {
        const float y = __shfl_xor_sync(0xffffffffu, x, step);
        x = most ? fmaxf(x, y) : x + y;
    }
    return x;
}
HR_INLINE float dot(const float *a, const float *b, int n) {
    float sum = 0.0f;
    for (int i = 0; i < n; i++) {
        sum = fmaf(a[i], b[i], sum);
    }
    return sum;
}
// out += sum over j of by[j] * rows[j]
HR_INLINE void add_rows(float (&out)[DL], const float *by, const float *rows, int depth) {
    const int pitch = depth | 1, l = threadIdx.x % L;
    for (int j = 0; j < R; j++) {
        const float p = by[j];
#pragma unroll
        for (int x = 0; x < DL; x++) {
            if (l + x * L < depth) {
                out[x] = fmaf(p, rows[j * pitch + l + x * L], out[x]);
            }
        }
    }
}
HR_INLINE void put_row(ELEM *to, const float (&out)[DL], int depth, float by) {
    const int l = threadIdx.x % L;
#pragma unroll
    for (int x = 0; x < DL; x++) {
        if (l + x * L < depth) {
            hr_store(&to[l + x * L], out[x] * by);
        }
    }
}

#if !BACKWARD

HR_KERNEL __launch_bounds__(THREADS) attention_forward(const ELEM *q, const ELEM *k, const ELEM *v,
                                                       ELEM *o, float *lse, shape a EXTRA) {
    HR_SHARED(shared);
    const int depth = a.depth, pitch = depth | 1, row = threadIdx.x / L, l = threadIdx.x % L;
    float *const qs = (float *)shared, *const ks = qs + R * pitch, *const vs = ks + R * pitch;
    float *const ps = vs + R * pitch + row * EDGE;
    const hr_u32 tiles = (hr_u32)((a.queries + R - 1) / R), all = gridDim.x / tiles;
    const hr_i64 q0 = (hr_i64)(tiles - 1 - blockIdx.x / all) * R, head = blockIdx.x % all;
    const hr_i64 b = head / a.heads, h = head % a.heads;
    const hr_i64 end = CAUSAL && q0 + R < a.keys ? q0 + R : a.keys;
    float out[DL], most = hr_bits_float(0xff800000u), sum = 0.0f;
#pragma unroll
    for (int x = 0; x < DL; x++) {
        out[x] = 0.0f;
    }
    fetch(qs, q + b * a.q_batch + h * depth, a.q_row, q0, a.queries, depth);
#if MASKED
    head_mask m0;
    m0.init(mask, flags, e, b, h);
#endif
    for (hr_i64 k0 = 0; k0 < end; k0 += R) {
        float s[SCORES], m = most, add = 0.0f;
#if MASKED
        const hr_u32 flag = m0.of(q0, k0);
        float x[SCORES];
        if (!(flag & SEEN)) {
            continue; // the whole block
        }
#pragma unroll
        for (int n = 0; n < SCORES; n++) {
            const int j = l + n * L;
            x[n] = (flag & ADDS) && j < R && q0 + row < a.queries && k0 + j < a.keys
                       ? m0.one(q0 + row, k0 + j)
                       : 0.0f;
        }
#endif
        fetch(ks, k + b * a.k_batch + h / a.group * depth, a.k_row, k0, a.keys, depth);
        fetch(vs, v + b * a.v_batch + h / a.group * depth, a.v_row, k0, a.keys, depth);
        __syncthreads();
#pragma unroll
        for (int n = 0; n < SCORES; n++) {
            const int j = l + n * L;
            const bool seen = j < R && k0 + j < a.keys && !(CAUSAL && k0 + j > q0 + row);
            s[n] = seen ? dot(qs + row * pitch, ks + j * pitch, depth) * a.scale
                        : hr_bits_float(0xff800000u);
#if MASKED
            s[n] = seen ? s[n] + x[n] : s[n];
#endif
            m = fmaxf(m, s[n]);
        }
        m = over_row(m, true);
        // Nothing seen so far: everything stays 0.
        const float base = MASKED && m == hr_bits_float(0xff800000u) ? 0.0f : m;
        const float keep = expf(most - base);
#pragma unroll
        for (int n = 0; n < SCORES; n++) {
            s[n] = expf(s[n] - base);
            add += s[n];
#if DROP
            s[n] = s[n] > 0.0f && q0 + row < a.queries
                       ? s[n] * kept(control, e, a, b, h, q0 + row, k0 + l + n * L)
                       : s[n];
#endif
            if (l + n * L < R) {
                ps[l + n * L] = s[n];
            }
        }
        sum = fmaf(sum, keep, over_row(add, false));
        most = m;
        __syncthreads();
#pragma unroll
        for (int x = 0; x < DL; x++) {
            out[x] *= keep;
        }
        add_rows(out, ps, vs, depth);
        __syncthreads();
    }
    if (q0 + row < a.queries) {
        const bool none = MASKED && sum == 0.0f;
        put_row(o + b * a.o_batch + h * depth + (q0 + row) * a.o_row, out, depth,
                none ? 0.0f : 1.0f / sum);
        if (l == 0) {
#if MASKED
            lse[head * a.queries + q0 + row] = none   ? hr_bits_float(0x7f800000u)
                                               : mask ? row_kept(most, 1.0f, sum)
                                                      : most + logf(sum);
#else
            lse[head * a.queries + q0 + row] = most + logf(sum);
#endif
        }
    }
}

#else

// delta (B, H, T) = rowsum(o do): a warp a row, which are (b, t, h) as o lies.
HR_KERNEL __launch_bounds__(THREADS)
    attention_delta(const ELEM *o, const ELEM *dout, float *delta, hr_i64 rows, shape a) {
    const hr_i64 r = (hr_i64)blockIdx.x * (THREADS / 32) + threadIdx.x / 32;
    float sum = 0.0f;
    if (r >= rows) {
        return; // the whole warp
    }
    for (int c = threadIdx.x % 32; c < a.depth; c += 32) {
        sum = fmaf(hr_load(o[r * a.depth + c]), hr_load(dout[r * a.depth + c]), sum);
    }
    sum = hr_warp_sum(sum);
    if (threadIdx.x % 32 == 0) {
        const hr_i64 h = r % a.heads, t = r / a.heads % a.queries, b = r / a.heads / a.queries;
        delta[(b * a.heads + h) * a.queries + t] = sum;
    }
}

HR_KERNEL __launch_bounds__(THREADS)
    attention_grad_queries(const ELEM *q, const ELEM *k, const ELEM *v, const ELEM *dout,
                           const float *lse, const float *delta, ELEM *dq, shape a EXTRA) {
    HR_SHARED(shared);
    const int depth = a.depth, pitch = depth | 1, row = threadIdx.x / L, l = threadIdx.x % L;
    float *const qs = (float *)shared, *const ds = qs + R * pitch, *const ks = ds + R * pitch;
    float *const vs = ks + R * pitch, *const ss = vs + R * pitch + row * EDGE;
    const hr_u32 tiles = (hr_u32)((a.queries + R - 1) / R), all = gridDim.x / tiles;
    const hr_i64 q0 = (hr_i64)(tiles - 1 - blockIdx.x / all) * R, head = blockIdx.x % all;
    const hr_i64 b = head / a.heads, h = head % a.heads;
    const hr_i64 end = CAUSAL && q0 + R < a.keys ? q0 + R : a.keys;
    const bool there = q0 + row < a.queries;
    const float shift = there ? lse[head * a.queries + q0 + row] : 0.0f;
    const float less = there ? delta[head * a.queries + q0 + row] : 0.0f;
    const bool far = row_sees_far(shift);
    float out[DL];
#pragma unroll
    for (int x = 0; x < DL; x++) {
        out[x] = 0.0f;
    }
    fetch(qs, q + b * a.q_batch + h * depth, a.q_row, q0, a.queries, depth);
    fetch(ds, dout + b * a.o_batch + h * depth, a.o_row, q0, a.queries, depth);
#if MASKED
    head_mask m0;
    m0.init(mask, flags, e, b, h);
#endif
    for (hr_i64 k0 = 0; k0 < end; k0 += R) {
#if MASKED
        const hr_u32 flag = m0.of(q0, k0);
        if (!(flag & SEEN)) {
            continue; // the whole block
        }
#endif
        fetch(ks, k + b * a.k_batch + h / a.group * depth, a.k_row, k0, a.keys, depth);
        fetch(vs, v + b * a.v_batch + h / a.group * depth, a.v_row, k0, a.keys, depth);
        __syncthreads();
        for (int j = l; j < R; j += L) {
            const bool seen = there && k0 + j < a.keys && !(CAUSAL && k0 + j > q0 + row);
            float s = 0.0f;
            if (seen) {
#if MASKED
                const float x = flag & ADDS ? m0.one(q0 + row, k0 + j) : 0.0f;
#endif
                s = dot(qs + row * pitch, ks + j * pitch, depth) * a.scale;
                float d = dot(ds + row * pitch, vs + j * pitch, depth);
#if MASKED
                s += x;
#endif
#if DROP
                d *= kept(control, e, a, b, h, q0 + row, k0 + j);
#endif
                s = (MASKED && far ? hr_exp2(row_power(s, shift)) : expf(s - shift)) * (d - less);
            }
            ss[j] = s;
        }
        __syncthreads();
        add_rows(out, ss, ks, depth);
        __syncthreads();
    }
    if (there) {
        put_row(dq + b * a.q_batch + h * depth + (q0 + row) * a.q_row, out, depth, a.scale);
    }
}

HR_KERNEL __launch_bounds__(THREADS)
    attention_grad_keys(const ELEM *q, const ELEM *k, const ELEM *v, const ELEM *dout,
                        const float *lse, const float *delta, ELEM *dk, ELEM *dv, shape a EXTRA) {
    HR_SHARED(shared);
    const int depth = a.depth, pitch = depth | 1, row = threadIdx.x / L, l = threadIdx.x % L;
    float *const ks = (float *)shared, *const vs = ks + R * pitch, *const qs = vs + R * pitch;
    float *const ds = qs + R * pitch, *const ps = ds + R * pitch + row * EDGE;
    float *const ss = ps + R * EDGE;
    const hr_u32 tiles = (hr_u32)((a.keys + R - 1) / R), all = gridDim.x / tiles;
    const hr_i64 k0 = (hr_i64)(blockIdx.x / all) * R, head = blockIdx.x % all;
    const hr_i64 shared_heads = a.heads / a.group; // heads of k and v: a block has rows of one
    const hr_i64 b = head / shared_heads, h = head % shared_heads;
    float out_k[DL], out_v[DL];
#pragma unroll
    for (int x = 0; x < DL; x++) {
        out_k[x] = out_v[x] = 0.0f;
    }
    fetch(ks, k + b * a.k_batch + h * depth, a.k_row, k0, a.keys, depth);
    fetch(vs, v + b * a.v_batch + h * depth, a.v_row, k0, a.keys, depth);
    for (hr_i64 hq = h * a.group; hq < (h + 1) * a.group; hq++) {
        const float *const row_lse = lse + (b * a.heads + hq) * a.queries;
        const float *const row_delta = delta + (b * a.heads + hq) * a.queries;
#if MASKED
        head_mask m0;
        m0.init(mask, flags, e, b, hq);
#endif
        for (hr_i64 q0 = CAUSAL ? k0 : 0; q0 < a.queries; q0 += R) {
#if MASKED
            const hr_u32 flag = m0.of(q0, k0);
            if (!(flag & SEEN)) {
                continue; // the whole block
            }
#endif
            fetch(qs, q + b * a.q_batch + hq * depth, a.q_row, q0, a.queries, depth);
            fetch(ds, dout + b * a.o_batch + hq * depth, a.o_row, q0, a.queries, depth);
            __syncthreads();
            for (int i = l; i < R; i += L) {
                const bool seen = q0 + i < a.queries && !(CAUSAL && k0 + row > q0 + i);
                float p = 0.0f, s = 0.0f;
                if (seen) {
#if MASKED
                    const float x =
                        (flag & ADDS) && k0 + row < a.keys ? m0.one(q0 + i, k0 + row) : 0.0f;
                    const float y = dot(ks + row * pitch, qs + i * pitch, depth) * a.scale + x,
                                own = row_lse[q0 + i];
                    p = row_sees_far(own) ? hr_exp2(row_power(y, own)) : expf(y - own);
#else
                    p = expf(dot(ks + row * pitch, qs + i * pitch, depth) * a.scale -
                             row_lse[q0 + i]);
#endif
                    const float d = dot(vs + row * pitch, ds + i * pitch, depth);
#if DROP
                    const float by = kept(control, e, a, b, hq, q0 + i, k0 + row);
                    s = p * (by * d - row_delta[q0 + i]);
                    p *= by;
#else
                    s = p * (d - row_delta[q0 + i]);
#endif
                }
                ps[i] = p;
                ss[i] = s;
            }
            __syncthreads();
            add_rows(out_v, ps, ds, depth);
            add_rows(out_k, ss, qs, depth);
            __syncthreads();
        }
    }
    if (k0 + row < a.keys) {
        put_row(dk + b * a.k_batch + h * depth + (k0 + row) * a.k_row, out_k, depth, a.scale);
        put_row(dv + b * a.v_batch + h * depth + (k0 + row) * a.v_row, out_v, depth, 1.0f);
    }
}

#endif

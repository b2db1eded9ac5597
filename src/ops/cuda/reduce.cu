// Sums and maxima over dimensions; ops/common/reduce_cuda.c cuts the work, by the shape alone.
//
// A sum is (outer, middle, inner) over the middle.  Long ones are cut into parts whose f32 sums lie in the work space
// as (outer, parts, inner), and `combine` adds the parts in order.  Columns: a row of the block's threads walks down
// the rows with 16-byte loads, four rows in flight.  Rows: LANES threads share one.  General patterns and maxima take
// simpler ways.  HR_T is the stored type, HR_V the elements of an
// access.

typedef HR_T T;
enum { THREADS = 256, V = HR_V, BUSY = 4 /* blocks a multiprocessor: reduce_cuda.c */ };

// What is added up: rows of x; with HR_STEP (graph/op_scalar.c) what that makes of rows of a and b, which is stored, too, and may lie
// over one of them: a thread has read its packs before it writes them.  With HR_AGAIN what that makes of rows of b is stored, too.
#ifdef HR_STEP
struct source {
    const T *a, *b;
    T *made, *again;
};
struct fetched {
    hr_pack<T, V> a, b;
};
HR_INLINE fetched fetch(const source &s, hr_i64 at) {
    fetched f;
    f.a = *(const hr_pack<T, V> *)(s.a + at);
    f.b = *(const hr_pack<T, V> *)(s.b + at);
    return f;
}
HR_INLINE hr_pack<T, V> take(const source &s, hr_i64 at, const fetched &f) {
    float y[V];
    hr_pack<T, V> made;
#ifdef HR_AGAIN
    float more[V];
#endif
#pragma unroll
    for (int i = 0; i < V; i++) {
        const float b = hr_at(f.b, i);
        y[i] = HR_STEP(hr_at(f.a, i), b);
#ifdef HR_AGAIN
        more[i] = HR_AGAIN(b);
#endif
    }
    hr_store_pack<T, V>(made.at, y);
    *(hr_pack<T, V> *)(s.made + at) = made;
#ifdef HR_AGAIN
    hr_store_pack<T, V>(s.again + at, more);
#endif
    return made;
}
#else
struct source {
    const T *x;
};
typedef hr_pack<T, V> fetched;
HR_INLINE fetched fetch(const source &s, hr_i64 at) {
    return *(const hr_pack<T, V> *)(s.x + at);
}
HR_INLINE hr_pack<T, V> take(const source &s, hr_i64 at, const fetched &f) {
    return f;
}
#endif

struct pattern { // dimensions that were merged, and whether each is reduced
    hr_i32 rank, unused;
    hr_i64 dim[8];
    hr_i64 reduced[8];
};

template <int N> HR_INLINE void put_sum(T *out, float *partial, hr_i64 at, const float (&sum)[N],
                                        float scale) {
    if (partial) {
        hr_store_pack<float, N>(partial + at, sum);
        return;
    }
    float y[N];
#pragma unroll
    for (int i = 0; i < N; i++) {
        y[i] = sum[i] * scale;
    }
    hr_store_pack<T, N>(out + at, y);
}

// 2^across threads side by side, V columns each; the others take other rows.  partial NULL: there is one part.
// TURNS: all parts take rows by turns, and add them one by one; norm.cu adds in the same order.
template <bool TURNS>
HR_INLINE void add_columns(const source &s, T *out, float *partial, hr_i64 middle, hr_i64 inner, hr_i64 part_rows,
                           hr_u32 parts, hr_u32 tiles, hr_u32 across, float scale, float *room) {
    const hr_u32 tile = blockIdx.x % tiles, number = blockIdx.x / tiles; // (outer, part)
    const hr_u32 part = number % parts, outer = number / parts;
    const hr_u32 tx = threadIdx.x & ((1u << across) - 1), ty = threadIdx.x >> across;
    const hr_u32 rows = THREADS >> across;
    const hr_i64 column = (hr_i64)((tile << across) + tx) * V;
    const hr_u32 step = TURNS ? parts * rows : rows;
    const hr_i64 begin = part * (TURNS ? rows : part_rows);
    const hr_i64 end = TURNS ? middle : begin + part_rows < middle ? begin + part_rows : middle;
    float sum[V] = {0};
    if (column < inner) {
        const hr_i64 at = ((hr_i64)outer * middle) * inner + column;
        hr_i64 r = begin + ty;
        for (; r + 3 * step < end; r += 4 * step) {
#ifdef HR_STEP // in pairs: fewer registers, so that all blocks are there at once
            float two[V];
#pragma unroll
            for (int i = 0; i < 4; i += 2) {
                const hr_i64 first = at + (r + i * step) * inner, second = first + step * inner;
                const fetched a = fetch(s, first), b = fetch(s, second);
                const hr_pack<T, V> v = take(s, first, a), w = take(s, second, b);
#pragma unroll
                for (int k = 0; k < V; k++) {
                    const float both = hr_at(v, k) + hr_at(w, k);
                    if (TURNS) {
                        sum[k] = (sum[k] + hr_at(v, k)) + hr_at(w, k);
                    } else if (i) {
                        sum[k] += two[k] + both;
                    } else {
                        two[k] = both;
                    }
                }
            }
#else
            fetched in[4];
            hr_pack<T, V> v[4];
#pragma unroll
            for (int i = 0; i < 4; i++) {
                in[i] = fetch(s, at + (r + i * step) * inner);
            }
#pragma unroll
            for (int i = 0; i < 4; i++) {
                v[i] = take(s, at + (r + i * step) * inner, in[i]);
            }
#pragma unroll
            for (int k = 0; k < V; k++) {
                sum[k] = TURNS ? (((sum[k] + hr_at(v[0], k)) + hr_at(v[1], k)) + hr_at(v[2], k)) +
                                     hr_at(v[3], k)
                               : sum[k] + ((hr_at(v[0], k) + hr_at(v[1], k)) +
                                           (hr_at(v[2], k) + hr_at(v[3], k)));
            }
#endif
        }
        for (; r < end; r += step) {
            const hr_pack<T, V> v = take(s, at + r * inner, fetch(s, at + r * inner));
#pragma unroll
            for (int k = 0; k < V; k++) {
                sum[k] += hr_at(v, k);
            }
        }
    }
    for (hr_u32 half = rows / 2; half > 0; half /= 2) {
        if (ty >= half && ty < 2 * half) {
            hr_store_pack<float, V>(room + threadIdx.x * V, sum);
        }
        __syncthreads();
        if (ty < half) {
            float v[V];
            hr_load_pack<float, V>(room + (threadIdx.x + (half << across)) * V, v);
#pragma unroll
            for (int k = 0; k < V; k++) {
                sum[k] += v[k];
            }
        }
        __syncthreads();
    }
    if (ty == 0 && column < inner) {
        put_sum<V>(out, partial, (partial ? (hr_i64)number : (hr_i64)outer) * inner + column, sum, scale);
    }
}

HR_KERNEL __launch_bounds__(THREADS, BUSY) columns(HR_TABLE struct source s, T *out, float *partial, hr_i64 middle,
                                             hr_i64 inner, hr_i64 part_rows, hr_u32 parts,
                                             hr_u32 tiles, hr_u32 across, float scale) {
    __shared__ __align__(16) float room[THREADS * V];
    add_columns<false>(s, out, partial, middle, inner, part_rows, parts, tiles, across, scale, room);
}

HR_KERNEL __launch_bounds__(THREADS, BUSY) columns_by_turns(HR_TABLE struct source s, T *out, float *partial,
                                             hr_i64 middle, hr_i64 inner, hr_i64 part_rows, hr_u32 parts,
                                             hr_u32 tiles, hr_u32 across, float scale) {
    __shared__ __align__(16) float room[THREADS * V];
    add_columns<true>(s, out, partial, middle, inner, part_rows, parts, tiles, across, scale, room);
}

#ifndef HR_STEP

// One part of one row for each `lanes` threads: 32 or all of the block.
HR_KERNEL __launch_bounds__(THREADS) rows(const T *x, T *out, float *partial, hr_i64 count,
                                          hr_i64 middle, hr_i64 part_length, hr_u32 parts,
                                          hr_u32 lanes, float scale) {
    __shared__ float room[32];
    const hr_i64 number = (hr_i64)blockIdx.x * (THREADS / lanes) + threadIdx.x / lanes; // (outer, part)
    const hr_u32 lane = threadIdx.x % lanes;
    float sum[1] = {0};
    if (number < count) {
        const hr_i64 begin = number % parts * part_length;
        const hr_i64 end = begin + part_length < middle ? begin + part_length : middle;
        const T *at = x + number / parts * middle;
        hr_i64 k = begin + lane * V;
        const hr_i64 step = (hr_i64)lanes * V;
        for (; k + 3 * step < end; k += 4 * step) {
            float v[4][V], s[4] = {0};
#pragma unroll
            for (int i = 0; i < 4; i++) {
                hr_load_pack<T, V>(at + k + i * step, v[i]);
            }
#pragma unroll
            for (int i = 0; i < 4; i++) {
#pragma unroll
                for (int j = 0; j < V; j++) {
                    s[i] += v[i][j];
                }
            }
            sum[0] += (s[0] + s[1]) + (s[2] + s[3]);
        }
        for (; k < end; k += step) {
            float v[V], s = 0.0f;
            hr_load_pack<T, V>(at + k, v);
#pragma unroll
            for (int j = 0; j < V; j++) {
                s += v[j];
            }
            sum[0] += s;
        }
    }
    sum[0] = lanes == 32 ? hr_warp_sum(sum[0]) : hr_block_sum(sum[0], room);
    if (lane == 0 && number < count) {
        put_sum<1>(out, partial, number, sum, scale);
    }
}

// 2^across results for a block; the threads of each add parts of their own, and those sums are added pair by pair.
HR_KERNEL __launch_bounds__(THREADS) combine(const float *partial, T *out, hr_i64 results,
                                             hr_i64 inner, hr_u32 parts, hr_u32 across, float scale) {
    __shared__ float room[THREADS];
    const hr_u32 tx = threadIdx.x & ((1u << across) - 1), ty = threadIdx.x >> across;
    const hr_u32 groups = THREADS >> across;
    const hr_i64 i = ((hr_i64)blockIdx.x << across) + tx;
    float sum = 0.0f;
    if (i < results) {
        const float *at = partial + i / inner * parts * inner + i % inner;
#pragma unroll 4
        for (hr_u32 p = ty; p < parts; p += groups) {
            sum += at[p * inner];
        }
    }
    room[threadIdx.x] = sum;
    for (hr_u32 half = groups / 2; half > 0; half /= 2) {
        __syncthreads();
        if (ty < half) {
            room[threadIdx.x] += room[threadIdx.x + (half << across)];
        }
    }
    if (ty == 0 && i < results) {
        hr_store(&out[i], room[threadIdx.x] * scale);
    }
}

// ---- any pattern ----

// Where result i begins, and how many elements it has.
HR_INLINE hr_i64 first_of(const pattern &p, hr_i64 i, hr_i64 &count) {
    hr_i64 stride = 1, at = 0;
    count = 1;
    for (int d = p.rank - 1; d >= 0; d--) {
        if (p.reduced[d]) {
            count *= p.dim[d];
        } else {
            at += i % p.dim[d] * stride;
            i /= p.dim[d];
        }
        stride *= p.dim[d];
    }
    return at;
}
// Element k of it, from there.
HR_INLINE hr_i64 element_of(const pattern &p, hr_i64 k) {
    hr_i64 stride = 1, at = 0;
    for (int d = p.rank - 1; d >= 0; d--) {
        if (p.reduced[d]) {
            at += k % p.dim[d] * stride;
            k /= p.dim[d];
        }
        stride *= p.dim[d];
    }
    return at;
}

// A warp for each result.
HR_KERNEL __launch_bounds__(THREADS) general(const T *x, T *out, hr_i64 results, HR_TABLE struct pattern p,
                                             float scale) {
    const hr_i64 i = (hr_i64)blockIdx.x * (THREADS / 32) + threadIdx.x / 32;
    float sum = 0.0f;
    if (i < results) {
        hr_i64 count;
        const T *at = x + first_of(p, i, count);
        for (hr_i64 k = threadIdx.x & 31; k < count; k += 32) {
            sum += hr_load(at[element_of(p, k)]);
        }
    }
    sum = hr_warp_sum(sum);
    if ((threadIdx.x & 31) == 0 && i < results) {
        hr_store(&out[i], sum * scale);
    }
}

// ---- maxima: NaN is the largest, of equals the first counts ----

struct best {
    float value;
    hr_i32 index;
};
HR_INLINE bool above(float v, float most) {
    return v > most || (v != v && most == most);
}
HR_INLINE void better(best &b, float value, hr_i32 index) {
    if (above(value, b.value) || (!above(b.value, value) && index < b.index)) {
        b.value = value;
        b.index = index;
    }
}

// A block for each result, of any pattern.
HR_KERNEL __launch_bounds__(THREADS) max_general(const T *x, T *out, hr_i32 *index, HR_TABLE struct pattern p) {
    __shared__ float values[THREADS];
    __shared__ hr_i32 indices[THREADS];
    hr_i64 count;
    const T *at = x + first_of(p, blockIdx.x, count);
    best b = {hr_bits_float(0xff800000u), 2147483647}; // -infinity
    for (hr_i64 k = threadIdx.x; k < count; k += blockDim.x) {
        better(b, hr_load(at[element_of(p, k)]), (hr_i32)k);
    }
    values[threadIdx.x] = b.value;
    indices[threadIdx.x] = b.index;
    for (hr_u32 half = blockDim.x / 2; half > 0; half /= 2) {
        __syncthreads();
        if (threadIdx.x < half) {
            better(b, values[threadIdx.x + half], indices[threadIdx.x + half]);
            values[threadIdx.x] = b.value;
            indices[threadIdx.x] = b.index;
        }
    }
    if (threadIdx.x == 0) {
        hr_store(&out[blockIdx.x], b.value);
        index[blockIdx.x] = b.index;
    }
}

// A thread for each column of (outer, middle, inner).
HR_KERNEL __launch_bounds__(THREADS) max_columns(const T *x, T *out, hr_i32 *index, hr_i64 results,
                                                 hr_i64 middle, hr_i64 inner) {
    const hr_i64 i = (hr_i64)blockIdx.x * THREADS + threadIdx.x;
    if (i < results) {
        const T *at = x + i / inner * middle * inner + i % inner;
        float most = hr_load(at[0]);
        hr_i32 where = 0;
#pragma unroll 4
        for (hr_i64 k = 1; k < middle; k++) {
            const float v = hr_load(at[k * inner]);
            if (above(v, most)) {
                most = v;
                where = (hr_i32)k;
            }
        }
        hr_store(&out[i], most);
        index[i] = where;
    }
}

// dx is 0 already; each result has a place of its own.  An index that is not of the pattern writes nothing.
HR_KERNEL __launch_bounds__(THREADS) max_spread(const T *dy, const hr_i32 *index, T *dx, hr_i64 results,
                                                HR_TABLE struct pattern p) {
    const hr_i64 i = (hr_i64)blockIdx.x * THREADS + threadIdx.x;
    if (i < results) {
        hr_i64 count;
        const hr_i64 first = first_of(p, i, count);
        if (index[i] >= 0 && index[i] < count) {
            dx[first + element_of(p, index[i])] = dy[i];
        }
    }
}

#endif // HR_STEP

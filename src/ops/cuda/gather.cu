// Rows of a table by their numbers, and the gradient: rows of dy added up by their numbers.
//
// gather moves elements of HR_E, as wide as a row allows.  A row that is not in the table
// is read as bytes of ones: NaN, or -1.
//
// The gradient sorts the ids first (radix sort, 8 bits at a time, equal ids in their order), so that each row of the
// table has its own rows of dy behind one another and one writer; ids that are not of the table sort to the end and
// count nowhere.  Rows with up to SHORT ids are summed by a warp, which also writes the zeros of those without; longer
// ones by a block.  The order of every sum is fixed by the ids.

typedef hr_pack<hr_u64, 2> hr_u128;
enum { THREADS = 256 };

// Id i, of i64 or of i32.
HR_INLINE hr_i64 id_at(const void *ids, hr_u32 wide, hr_i64 i) {
    return wide ? ((const hr_i64 *)ids)[i] : ((const hr_i32 *)ids)[i];
}

#ifdef HR_E

typedef HR_E E;
typedef HR_INDEX index_type;
enum { EACH = 4 };

HR_INLINE E ones() {
    hr_u128 x;
    x.at[0] = x.at[1] = ~0ull;
    return *(const E *)&x; // of 16 bytes the first
}

HR_KERNEL __launch_bounds__(THREADS)
    gather(const E *table, const void *ids, hr_u32 wide, E *y, index_type count, index_type width,
           hr_i64 rows, index_type picks) {
    const index_type begin = (index_type)blockIdx.x * (THREADS * EACH) + threadIdx.x;
    E v[EACH];
#pragma unroll
    for (int i = 0; i < EACH; i++) {
        const index_type at = begin + i * THREADS;
        if (at < count) {
            index_type place = at / width;
            hr_i64 outer = 0;
            if (picks) { // an axis before which there are others
                outer = place / picks;
                place %= picks;
            }
            const hr_i64 id = id_at(ids, wide, place);
            v[i] = id >= 0 && id < rows ? table[(outer * rows + id) * (hr_i64)width + at % width]
                                        : ones();
        }
    }
#pragma unroll
    for (int i = 0; i < EACH; i++) {
        if (begin + i * THREADS < count) {
            y[begin + i * THREADS] = v[i];
        }
    }
}

#else

typedef HR_T T;
enum { V = HR_V, TILE = 1024, DIGITS = 256, WARPS = TILE / 32, SHORT = 16 };

// ---- sorting: one pass over a digit is `count`, `places`, `move` ----

// The key of place i: what an earlier pass left, or the id itself.
HR_INLINE hr_u32 key_at(const void *ids, hr_u32 wide, const hr_u32 *keys, hr_i64 i, hr_i64 rows) {
    if (keys) {
        return keys[i];
    }
    const hr_i64 id = id_at(ids, wide, i);
    return (hr_u32)(id >= 0 && id < rows ? id : rows);
}

// How many of the lanes before this one, and of all lanes, have this lane's digit.
HR_INLINE void among_warp(hr_u32 digit, hr_u32 &before, hr_u32 &all) {
    const hr_u32 lane = threadIdx.x & 31;
    before = 0;
    all = 1;
    for (hr_u32 step = 1; step < 32; step++) {
        const bool same = (hr_u32)__shfl_xor_sync(0xffffffffu, (int)digit, (int)step) == digit;
        all += same;
        before += same && (lane ^ step) < lane;
    }
}

// Counts of each digit in each warp of this block's tile.  Lanes beyond n have digit DIGITS, which is nobody's.
HR_INLINE void count_tile(hr_u32 (*counts)[DIGITS], hr_u32 digit, hr_u32 &before) {
    for (hr_u32 i = threadIdx.x; i < WARPS * DIGITS; i += TILE) {
        counts[i / DIGITS][i % DIGITS] = 0;
    }
    __syncthreads();
    hr_u32 all;
    among_warp(digit, before, all);
    if (before == 0 && digit < DIGITS) {
        counts[threadIdx.x / 32][digit] = all;
    }
    __syncthreads();
}

HR_KERNEL __launch_bounds__(TILE) count(const void *ids, hr_u32 wide, const hr_u32 *keys,
                                        hr_u32 *table, hr_i64 n, hr_i64 rows, hr_u32 shift) {
    __shared__ hr_u32 counts[WARPS][DIGITS];
    const hr_i64 i = (hr_i64)blockIdx.x * TILE + threadIdx.x;
    hr_u32 before;
    count_tile(counts, i < n ? key_at(ids, wide, keys, i, rows) >> shift & (DIGITS - 1) : DIGITS,
               before);
    if (threadIdx.x < DIGITS) {
        hr_u32 sum = 0;
        for (int w = 0; w < WARPS; w++) {
            sum += counts[w][threadIdx.x];
        }
        table[(hr_i64)threadIdx.x * gridDim.x + blockIdx.x] = sum; // (DIGITS, tiles)
    }
}

// One block: counts become first places.
HR_KERNEL __launch_bounds__(TILE) places(hr_u32 *table, hr_i64 n) {
    __shared__ hr_u32 sums[2][TILE];
    hr_u32 carry = 0;
    for (hr_i64 begin = 0; begin < n; begin += TILE) {
        const hr_i64 i = begin + threadIdx.x;
        const hr_u32 own = i < n ? table[i] : 0;
        int side = 0;
        sums[0][threadIdx.x] = own;
        for (int step = 1; step < TILE; step *= 2) {
            __syncthreads();
            const hr_u32 x = sums[side][threadIdx.x];
            sums[1 - side][threadIdx.x] =
                threadIdx.x >= step ? x + sums[side][threadIdx.x - step] : x;
            side = 1 - side;
        }
        __syncthreads();
        if (i < n) {
            table[i] = carry + sums[side][threadIdx.x] - own;
        }
        carry += sums[side][TILE - 1];
        __syncthreads();
    }
}

HR_KERNEL __launch_bounds__(TILE)
    move(const void *ids, hr_u32 wide, const hr_u32 *keys, const hr_u32 *order, hr_u32 *new_keys,
         hr_u32 *new_order, const hr_u32 *table, hr_i64 n, hr_i64 rows, hr_u32 shift) {
    __shared__ hr_u32 counts[WARPS][DIGITS];
    const hr_i64 i = (hr_i64)blockIdx.x * TILE + threadIdx.x;
    const hr_u32 key = i < n ? key_at(ids, wide, keys, i, rows) : 0;
    const hr_u32 digit = i < n ? key >> shift & (DIGITS - 1) : DIGITS;
    hr_u32 before;
    count_tile(counts, digit, before);
    if (threadIdx.x < DIGITS) {
        hr_u32 sum = table[(hr_i64)threadIdx.x * gridDim.x + blockIdx.x];
        for (int w = 0; w < WARPS; w++) {
            const hr_u32 own = counts[w][threadIdx.x];
            counts[w][threadIdx.x] = sum;
            sum += own;
        }
    }
    __syncthreads();
    if (i < n) {
        const hr_u32 to = counts[threadIdx.x / 32][digit] + before;
        new_keys[to] = key;
        new_order[to] = order ? order[i] : (hr_u32)i;
    }
}

// start[r]: the first place whose key is r or more.
HR_KERNEL __launch_bounds__(THREADS)
    starts(const hr_u32 *keys, hr_u32 *start, hr_i64 n, hr_i64 rows) {
    const hr_i64 r = (hr_i64)blockIdx.x * THREADS + threadIdx.x;
    if (r <= rows) {
        hr_i64 low = 0, high = n;
        while (low < high) {
            const hr_i64 middle = (low + high) / 2;
            if (keys[middle] < (hr_u32)r) {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        start[r] = (hr_u32)low;
    }
}

// ---- sums ----

// sum += rows order[begin], order[begin + step], ... of dy, in this order.
HR_INLINE void add_rows(const T *dy, const hr_u32 *order, hr_u32 begin, hr_u32 end, hr_u32 step,
                        hr_i64 width, float (&sum)[V]) {
    hr_u32 i = begin;
    for (; i + 3 * step < end; i += 4 * step) {
        float v[4][V];
#pragma unroll
        for (int j = 0; j < 4; j++) {
            hr_load_pack<T, V>(dy + (hr_i64)order[i + j * step] * width, v[j]);
        }
#pragma unroll
        for (int j = 0; j < 4; j++) {
#pragma unroll
            for (int k = 0; k < V; k++) {
                sum[k] += v[j][k];
            }
        }
    }
    for (; i < end; i += step) {
        float v[V];
        hr_load_pack<T, V>(dy + (hr_i64)order[i] * width, v);
#pragma unroll
        for (int k = 0; k < V; k++) {
            sum[k] += v[k];
        }
    }
}

// A row's sum to its place; with `other` (NULL: none) what two calls would leave there: the sum of that and of the rounded sum.
HR_INLINE void put(T *table, const T *other, hr_i64 at, float (&sum)[V]) {
    if (other) {
        float v[V];
        hr_load_pack<T, V>(other + at, v);
#pragma unroll
        for (int k = 0; k < V; k++) {
            T stored;
            hr_store(&stored, sum[k]);
            sum[k] = hr_load(stored) + v[k];
        }
    }
    hr_store_pack<T, V>(table + at, sum);
}

// A warp for each row of the table; rows with more than SHORT ids are left to add_long.  blockIdx.y goes over the `outer` sides
// of the axis, which all have these ids.
HR_KERNEL __launch_bounds__(THREADS)
    add_short(const T *dy, const hr_u32 *order, const hr_u32 *start, T *table, hr_i64 rows,
              hr_i64 width, hr_i64 n, hr_i64 outer, const T *other) {
    const hr_i64 r = (hr_i64)blockIdx.x * (THREADS / 32) + threadIdx.x / 32;
    if (r >= rows) {
        return;
    }
    const hr_u32 begin = start[r], end = start[r + 1];
    if (end - begin > SHORT) {
        return;
    }
    for (hr_i64 o = blockIdx.y; o < outer; o += gridDim.y) {
        for (hr_i64 column = (threadIdx.x & 31) * V; column < width; column += 32 * V) {
            float sum[V] = {0};
            add_rows(dy + o * n * width + column, order, begin, end, 1, width, sum);
            put(table, other, (o * rows + r) * width + column, sum);
        }
    }
}

// A run of more than SHORT places has one that is a multiple of SHORT: the block of the first such place has it.
HR_KERNEL __launch_bounds__(THREADS)
    add_long(const T *dy, const hr_u32 *keys, const hr_u32 *order, const hr_u32 *start, T *table,
             hr_i64 rows, hr_i64 width, hr_u32 tiles, hr_i64 n, hr_i64 outer, const T *other) {
    __shared__ __align__(16) float room[THREADS * V];
    const hr_u32 place = blockIdx.x / tiles * SHORT, warp = threadIdx.x / 32;
    const hr_u32 r = keys[place];
    if (r >= rows || start[r + 1] - start[r] <= SHORT || place - start[r] >= SHORT) {
        return;
    }
    const hr_i64 column = ((hr_i64)(blockIdx.x % tiles) * 32 + (threadIdx.x & 31)) * V;
    for (hr_i64 o = blockIdx.y; o < outer; o += gridDim.y) {
        float sum[V] = {0};
        if (column < width) {
            add_rows(dy + o * n * width + column, order, start[r] + warp, start[r + 1],
                     THREADS / 32, width, sum);
        }
        hr_store_pack<float, V>(room + threadIdx.x * V, sum);
        __syncthreads();
        if (warp == 0 && column < width) {
            for (int w = 1; w < THREADS / 32; w++) {
                float v[V];
                hr_load_pack<float, V>(room + (w * 32 + threadIdx.x) * V, v);
#pragma unroll
                for (int k = 0; k < V; k++) {
                    sum[k] += v[k];
                }
            }
            put(table, other, (o * rows + r) * width + column, sum);
        }
        __syncthreads();
    }
}

#endif

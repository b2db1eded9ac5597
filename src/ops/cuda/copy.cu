// Boxes of elements from one stride pattern to another: broadcast_to, transpose, slice, concat; and pad.
//
// Elements are HR_E: 1, 2, 4, 8 or 16 bytes.  ops/common/strided_cuda.c makes them as wide as both sides allow, so rows
// of 2-byte numbers are moved 16 bytes at a time.  HR_INDEX is the unsigned type that counts the elements of a box.

typedef hr_pack<hr_u64, 2> hr_u128;
typedef HR_E E;
typedef HR_INDEX index_type;
enum { THREADS = 256, TILE = 32 };

struct box {
    hr_i32 rank, unused;
    hr_i64 dim[8];
    hr_i64 from[8], to[8]; // strides
};

// Four elements a thread, so that four loads are in flight.
enum { EACH = 4 };

HR_KERNEL __launch_bounds__(THREADS)
    copy(const E *x, E *y, index_type count, HR_TABLE struct box b) {
    const index_type begin = (index_type)blockIdx.x * (THREADS * EACH) + threadIdx.x;
    E v[EACH];
    hr_i64 to[EACH];
#pragma unroll
    for (int i = 0; i < EACH; i++) {
        index_type at = begin + i * THREADS;
        if (at < count) {
            hr_i64 from = 0;
            to[i] = 0;
            for (int d = b.rank - 1; d > 0; d--) {
                const index_type dim = (index_type)b.dim[d], k = at % dim;
                at /= dim;
                from += k * b.from[d];
                to[i] += k * b.to[d];
            }
            v[i] = x[from + at * b.from[0]];
            to[i] += at * b.to[0];
        }
    }
#pragma unroll
    for (int i = 0; i < EACH; i++) {
        if (begin + i * THREADS < count) {
            y[to[i]] = v[i];
        }
    }
}

// x stands still along the last dimension: 16 bytes of one element at a time.  The box counts in those.
HR_KERNEL __launch_bounds__(THREADS)
    spread(const E *x, hr_pack<E, 16 / sizeof(E)> *y, index_type count, HR_TABLE struct box b) {
    index_type at = (index_type)blockIdx.x * THREADS + threadIdx.x;
    if (at < count) {
        hr_i64 from = 0, to = 0;
        for (int d = b.rank - 1; d >= 0; d--) {
            const index_type dim = (index_type)b.dim[d], k = d ? at % dim : at;
            at /= dim;
            from += k * b.from[d];
            to += k * b.to[d];
        }
        const E v = x[from];
        hr_pack<E, 16 / sizeof(E)> all;
#pragma unroll
        for (int i = 0; i < (int)(16 / sizeof(E)); i++) {
            all.at[i] = v;
        }
        y[to] = all;
    }
}

// Dimension `dense` is dense in x and the last one in y: square tiles are turned in shared memory.  Blocks go over
// (outer dimensions, tiles along dense, tiles along the last).
HR_KERNEL __launch_bounds__(THREADS)
    turn(const E *x, E *y, hr_i32 dense, hr_u32 along, hr_u32 across, HR_TABLE struct box b) {
    __shared__ E tile[TILE][TILE + 1];
    const int last = b.rank - 1;
    const hr_u32 tx = threadIdx.x % TILE, ty = threadIdx.x / TILE;
    const hr_i64 column0 = (hr_i64)(blockIdx.x % across) * TILE;
    const hr_i64 row0 = (hr_i64)(blockIdx.x / across % along) * TILE;
    hr_u32 outer = blockIdx.x / across / along;
    hr_i64 from = 0, to = 0;
    for (int d = last - 1; d >= 0; d--) {
        if (d != dense) {
            const hr_u32 k = outer % (hr_u32)b.dim[d];
            outer /= (hr_u32)b.dim[d];
            from += k * b.from[d];
            to += k * b.to[d];
        }
    }
#pragma unroll
    for (int i = 0; i < TILE; i += THREADS / TILE) {
        const hr_i64 row = row0 + tx, column = column0 + ty + i;
        if (row < b.dim[dense] && column < b.dim[last]) {
            tile[ty + i][tx] = x[from + row + column * b.from[last]];
        }
    }
    __syncthreads();
#pragma unroll
    for (int i = 0; i < TILE; i += THREADS / TILE) {
        const hr_i64 row = row0 + ty + i, column = column0 + tx;
        if (row < b.dim[dense] && column < b.dim[last]) {
            y[to + row * b.to[dense] + column] = tile[tx][ty + i];
        }
    }
}

// The box b.dim is the result; x lies in it from `before` on, `step` apart, and elsewhere is `value`.
struct border {
    hr_i64 before[8], inside[8], step[8];
    E value;
};

HR_KERNEL __launch_bounds__(THREADS)
    pad(const E *x, E *y, index_type count, HR_TABLE struct box b, HR_TABLE struct border p) {
    for (int i = 0; i < EACH; i++) {
        const index_type at = (index_type)blockIdx.x * (THREADS * EACH) + i * THREADS + threadIdx.x;
        if (at < count) {
            index_type rest = at;
            hr_i64 from = 0;
            bool inside = true;
            for (int d = b.rank - 1; d >= 0; d--) {
                const index_type dim = (index_type)b.dim[d];
                hr_i64 k = (hr_i64)(d ? rest % dim : rest) - p.before[d];
                rest /= dim;
                inside = inside && k >= 0;
                if (p.step[d] != 1) {
                    inside = inside && k % p.step[d] == 0;
                    k /= p.step[d];
                }
                inside = inside && k < p.inside[d];
                from += k * b.from[d];
            }
            y[at] = inside ? x[from] : p.value;
        }
    }
}

// All that conv_norm_grad adds up over rows, in one pass: dz and its sums, sums of a, G = a' dz and S = a' a (ops/common/conv_norm.h).
//
// For small types, where the sums of some channels fit into registers.  A block of 16 warps has SLICE channels of dz and as large a share of
// those of a, and takes every gridDim.x-th tile of DEPTH rows: dz and all of a lie side by side in shared memory, and the products are those of
// a, turned, with the block's columns.  Each warp has 32 rows and 40 columns of the result in registers.  The next tile is on its way while
// one is multiplied.  What a block has in the end is its share of a part: (K + 1, COLUMNS), the last line having sums of columns; parts
// are added in order by conv_norm_gather.
//
// Defines: ELEM, KDIM, NDIM, SLICE, DEPTH; SUM (0: dy is there; 1: it is the sum of two tensors; 2: the same, and a block's sums lie where it alone
// reads the second), MASKED (0: dz is dy, and is not written).
#ifndef ELEM
#define ELEM hr_bf16
#define KDIM 64
#define NDIM 256
#define SLICE 256
#define DEPTH 32
#endif
#ifndef SUM
#define SUM 0
#endif
#ifndef MASKED
#define MASKED 1
#endif

enum {
    THREADS = 512,
    SHARE = KDIM * SLICE / NDIM, // columns of a that a block multiplies
    COLUMNS = SLICE + SHARE,
    PITCH = SLICE + KDIM + 8, // 16 bytes more, so that rows of a matrix lie in other banks
    DOWN = KDIM / 32,         // warps along the rows of the result
    TILES = COLUMNS / 8 * DOWN / 16,
    LANES = SLICE / 8,
    ROWS = THREADS / LANES, // of dz that are read at once
    TURNS = DEPTH / ROWS,
    A_LANES = KDIM / 8,
    A_ROWS = THREADS / A_LANES,
    A_TURNS = (DEPTH + A_ROWS - 1) / A_ROWS,
    BLOCK = (KDIM + 1) * COLUMNS,                    // numbers of a block
    WIDE = SLICE * (int)sizeof(ELEM) / 4,            // floats in a row of a tile
    LINE = NDIM * (int)sizeof(ELEM) / 4              // and from row to row
};
static_assert(TILES * 8 * 16 == COLUMNS * DOWN && TURNS * ROWS == DEPTH, "columns for every warp");

typedef hr_pack<ELEM, 8> pack;

// Where number i of a block lies: (parts, slices, BLOCK), or in rows of tiles that the block alone reads.
HR_INLINE hr_i64 sum_at(hr_i32 parts, hr_i32 part, hr_i32 slice, hr_i32 i) {
    enum { FLOATS = DEPTH * WIDE };
    const hr_i64 tile = (hr_i64)part + (hr_i64)(i / FLOATS) * parts;
    return SUM == 2 ? (tile * DEPTH + i % FLOATS / WIDE) * LINE + slice * WIDE + i % WIDE
                    : ((hr_i64)part * (NDIM / SLICE) + slice) * BLOCK + i;
}

// What a thread reads of a tile.
struct arrived {
    pack dy[TURNS], more[TURNS], a[A_TURNS];
    hr_u32 bits[TURNS];
};

HR_INLINE void fetch(arrived *in, const ELEM *dy, const ELEM *more, const hr_u8 *mask,
                     const ELEM *a, hr_i64 first, hr_i64 rows) {
    const pack nothing = {};
#pragma unroll
    for (int j = 0; j < TURNS; j++) {
        const hr_i64 row = first + threadIdx.x / LANES + j * ROWS;
        const hr_i64 at = row * NDIM + blockIdx.y * SLICE + threadIdx.x % LANES * 8;
        in->dy[j] = row < rows ? *(const pack *)(dy + at) : nothing;
        if (SUM) {
            in->more[j] = row < rows ? *(const pack *)(more + at) : nothing;
        }
        if (MASKED) {
            in->bits[j] = row < rows ? (hr_u32)mask[at >> 3] : 0u;
        }
    }
#pragma unroll
    for (int j = 0; j < A_TURNS; j++) {
        const int line = threadIdx.x / A_LANES + j * A_ROWS;
        const hr_i64 row = first + line;
        in->a[j] = line < DEPTH && row < rows
                       ? *(const pack *)(a + row * KDIM + threadIdx.x % A_LANES * 8)
                       : nothing;
    }
}

// The tile in shared memory, dz in memory, and sums of columns.
HR_INLINE void put(const arrived &in, ELEM (*tile)[PITCH], ELEM *dz, hr_i64 first, hr_i64 rows,
                   float (&sum)[8], float (&of_a)[8]) {
#pragma unroll
    for (int j = 0; j < TURNS; j++) {
        const int line = threadIdx.x / LANES + j * ROWS, c = threadIdx.x % LANES * 8;
        float out[8];
#pragma unroll
        for (int i = 0; i < 8; i++) {
            float v = hr_at(in.dy[j], i);
            if (SUM) {
                ELEM stored;
                hr_store(&stored, v + hr_at(in.more[j], i));
                v = hr_load(stored);
            }
            out[i] = !MASKED || (in.bits[j] >> i & 1u) ? v : 0.0f;
            sum[i] += out[i];
        }
        hr_store_pack<ELEM, 8>(&tile[line][c], out);
        if (MASKED && first + line < rows) {
            hr_store_pack<ELEM, 8>(dz + (first + line) * NDIM + blockIdx.y * SLICE + c, out);
        }
    }
#pragma unroll
    for (int j = 0; j < A_TURNS; j++) {
        const int line = threadIdx.x / A_LANES + j * A_ROWS;
        if (line < DEPTH) {
            *(pack *)&tile[line][SLICE + threadIdx.x % A_LANES * 8] = in.a[j];
#pragma unroll
            for (int i = 0; i < 8; i++) {
                of_a[i] += hr_at(in.a[j], i);
            }
        }
    }
}

// Where column c of the block's lies in a tile.
HR_INLINE int column_at(int c) {
    return c < SLICE ? c : SLICE + (int)blockIdx.y * SHARE + c - SLICE;
}

// Products of a tile.
HR_INLINE void multiply(const ELEM (*tile)[PITCH], float (&sum)[2][TILES][4]) {
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const int k0 = warp % DOWN * 32, c0 = warp / DOWN * TILES * 8;
#pragma unroll
    for (int d = 0; d < DEPTH; d += 16) {
        hr_u32 left[2][4];
#pragma unroll
        for (int m = 0; m < 2; m++) {
            hr_ldmatrix_turned(
                left[m],
                &tile[d + lane / 16 * 8 + lane % 8][SLICE + k0 + m * 16 + lane / 8 % 2 * 8]);
        }
#pragma unroll
        for (int n = 0; n < TILES; n += 2) {
            hr_u32 right[4];
            const int second = n + 1 < TILES ? n + 1 : n; // the last may be alone
            hr_ldmatrix_turned(
                right, &tile[d + lane % 16][column_at(c0 + (lane / 16 ? second : n) * 8)]);
            const hr_u32 one[2] = {right[0], right[1]}, other[2] = {right[2], right[3]};
#pragma unroll
            for (int m = 0; m < 2; m++) {
                hr_mma(sum[m][n], left[m], one, ELEM());
                if (n + 1 < TILES) {
                    hr_mma(sum[m][second], left[m], other, ELEM());
                }
            }
        }
    }
}

// Sums of columns over the lines of a block, in their order: `width` columns of `lines` lines, eight a thread; of them `count` from `first`
// on are the block's, and go to its numbers from `to` on.
HR_INLINE void put_sums(float *room, const float (&sum)[8], int width, int lines, float *sums,
                        int first, int count, hr_i32 to) {
    const int lanes = width / 8, line = threadIdx.x / lanes, c = threadIdx.x % lanes * 8;
    __syncthreads();
    if (line < lines) {
#pragma unroll
        for (int i = 0; i < 8; i++) {
            room[line * width + c + i] = sum[i];
        }
    }
    __syncthreads();
    if ((int)threadIdx.x < count) {
        float total = 0.0f;
        for (int i = 0; i < lines; i++) {
            total += room[i * width + first + threadIdx.x];
        }
        sums[sum_at((hr_i32)gridDim.x, (hr_i32)blockIdx.x, (hr_i32)blockIdx.y,
                    KDIM * COLUMNS + to + (hr_i32)threadIdx.x)] = total;
    }
}

HR_KERNEL __launch_bounds__(THREADS, 1)
    conv_norm_sums(const ELEM *dy, const ELEM *more, const hr_u8 *mask, const ELEM *a, ELEM *dz,
                   float *out, hr_i64 rows) {
    __shared__ __align__(16) ELEM tile[DEPTH][PITCH];
    const hr_i64 step = (hr_i64)gridDim.x * DEPTH;
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    float sums[2][TILES][4] = {}, of_dz[8] = {}, of_a[8] = {};
    arrived in;
    hr_i64 first = (hr_i64)blockIdx.x * DEPTH;
    fetch(&in, dy, more, mask, a, first, rows);
    for (; first < rows; first += step) {
        __syncthreads();
        put(in, tile, dz, first, rows, of_dz, of_a);
        fetch(&in, dy, more, mask, a, first + step, rows);
        __syncthreads();
        multiply(tile, sums);
    }
    // No block reads what another leaves: with SUM 2 it lies in tiles that this one has read.
#pragma unroll
    for (int m = 0; m < 2; m++) {
#pragma unroll
        for (int n = 0; n < TILES; n++) {
#pragma unroll
            for (int i = 0; i < 4; i++) {
                const hr_i32 k = warp % DOWN * 32 + m * 16 + lane / 4 + i / 2 * 8;
                const hr_i32 c = (warp / DOWN * TILES + n) * 8 + lane % 4 * 2 + i % 2;
                out[sum_at((hr_i32)gridDim.x, (hr_i32)blockIdx.x, (hr_i32)blockIdx.y,
                           k * COLUMNS + c)] = sums[m][n][i];
            }
        }
    }
    put_sums((float *)tile, of_dz, SLICE, ROWS, out, 0, SLICE, 0);
    put_sums((float *)tile, of_a, KDIM, A_ROWS < DEPTH ? A_ROWS : DEPTH, out,
             (int)blockIdx.y * SHARE, SHARE, SLICE);
}

// Parts, added in their order: G (K, N), S (K, K), t (N) and s (K).  A slice is blockIdx.y.
HR_KERNEL conv_norm_gather(const float *sums, float *g, float *squares, float *t, float *s,
                           hr_i32 parts) {
    const hr_i32 i = (hr_i32)(blockIdx.x * blockDim.x + threadIdx.x), slice = (hr_i32)blockIdx.y;
    const hr_i32 k = i / COLUMNS, c = i % COLUMNS;
    if (i >= BLOCK) {
        return;
    }
    double sum = 0.0;
#pragma unroll 4
    for (hr_i32 p = 0; p < parts; p++) {
        sum += (double)sums[sum_at(parts, p, slice, i)];
    }
    const hr_i32 n = slice * SLICE + c, j = slice * SHARE + c - SLICE;
    float *to = k < KDIM ? (c < SLICE ? g + k * NDIM + n : squares + k * KDIM + j)
                         : (c < SLICE ? t + n : s + j);
    *to = (float)sum;
}

// All that conv_norm_grad adds up over rows, in one pass: dz and its sums, sums of a, G = a' dz and S = a' a (ops/common/conv_norm.h).
//
// For 64 channels of a and 256 of dy, of a small type.  A block of 16 warps takes every gridDim.x-th tile of 32 rows: dz and a lie side
// by side in shared memory, as (32, N + K), and the products are those of its last K columns, turned, with all of them.  Each warp has 32 of
// the K rows and an eighth of the columns of the result in registers.  The next tile is on its way while one is multiplied.  What a
// block has in the end are its parts: (K + 1, N + K), the last line having sums of columns; they are added in order by conv_norm_gather.
//
// Defines: ELEM, SUM (0: dy is there; 1: it is the sum of two tensors; 2: the same, and the parts lie in tiles of the second that their
// own block alone reads), MASKED (0: dz is dy, and is not written).
#ifndef ELEM
#define ELEM hr_bf16
#endif
#ifndef SUM
#define SUM 0
#endif
#ifndef MASKED
#define MASKED 1
#endif

enum {
    THREADS = 512,
    KDIM = 64,
    NDIM = 256,
    DEPTH = 32,
    COLUMNS = NDIM + KDIM,
    PITCH = COLUMNS + 8, // 16 bytes more, so that rows of a matrix lie in other banks
    TILES = COLUMNS / 64,
    LANES = NDIM / 8,
    ROWS = THREADS / LANES, // of dz that are read at once
    TURNS = DEPTH / ROWS,
    PART = (KDIM + 1) * COLUMNS,
    FLOATS = DEPTH * NDIM * (int)sizeof(ELEM) / 4 // of a tile of dy
};

typedef hr_pack<ELEM, 8> pack;

// Where number i of a part lies.
HR_INLINE hr_i64 part_at(hr_i32 parts, hr_i32 part, hr_i32 i) {
    return SUM == 2 ? ((hr_i64)part + (hr_i64)(i / FLOATS) * parts) * FLOATS + i % FLOATS
                    : (hr_i64)part * PART + i;
}

// What a thread reads of a tile.
struct arrived {
    pack dy[TURNS], more[TURNS], a;
    hr_u32 bits[TURNS];
};

HR_INLINE void fetch(arrived *in, const ELEM *dy, const ELEM *more, const hr_u8 *mask,
                     const ELEM *a, hr_i64 first, hr_i64 rows) {
    const pack nothing = {};
#pragma unroll
    for (int j = 0; j < TURNS; j++) {
        const hr_i64 row = first + threadIdx.x / LANES + j * ROWS;
        const hr_i64 at = row * NDIM + threadIdx.x % LANES * 8;
        in->dy[j] = row < rows ? *(const pack *)(dy + at) : nothing;
        if (SUM) {
            in->more[j] = row < rows ? *(const pack *)(more + at) : nothing;
        }
        if (MASKED) {
            in->bits[j] = row < rows ? (hr_u32)mask[at >> 3] : 0u;
        }
    }
    const hr_i64 row = first + threadIdx.x / 8;
    if (threadIdx.x < DEPTH * 8) {
        in->a = row < rows ? *(const pack *)(a + row * KDIM + threadIdx.x % 8 * 8) : nothing;
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
            hr_store_pack<ELEM, 8>(dz + (first + line) * NDIM + c, out);
        }
    }
    if (threadIdx.x < DEPTH * 8) {
        *(pack *)&tile[threadIdx.x / 8][NDIM + threadIdx.x % 8 * 8] = in.a;
#pragma unroll
        for (int i = 0; i < 8; i++) {
            of_a[i] += hr_at(in.a, i);
        }
    }
}

// Products of a tile.
HR_INLINE void multiply(const ELEM (*tile)[PITCH], float (&sum)[2][TILES][4]) {
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const int k0 = warp % 2 * 32, c0 = warp / 2 * TILES * 8;
#pragma unroll
    for (int d = 0; d < DEPTH; d += 16) {
        hr_u32 left[2][4];
#pragma unroll
        for (int m = 0; m < 2; m++) {
            hr_ldmatrix_turned(
                left[m],
                &tile[d + lane / 16 * 8 + lane % 8][NDIM + k0 + m * 16 + lane / 8 % 2 * 8]);
        }
#pragma unroll
        for (int n = 0; n < TILES; n += 2) {
            hr_u32 right[4];
            const int second = n + 1 < TILES ? n + 1 : n; // the last may be alone
            hr_ldmatrix_turned(right,
                               &tile[d + lane % 16][c0 + (lane / 16 ? second : n) * 8]);
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

// Sums of columns over the lines of a block, in their order; `width` columns of `lines` lines, eight a thread.
HR_INLINE void put_sums(float *room, const float (&sum)[8], int width, int lines, float *parts,
                        hr_i32 from) {
    const int lanes = width / 8, line = threadIdx.x / lanes, c = threadIdx.x % lanes * 8;
    __syncthreads();
    if (line < lines) {
#pragma unroll
        for (int i = 0; i < 8; i++) {
            room[line * width + c + i] = sum[i];
        }
    }
    __syncthreads();
    if ((int)threadIdx.x < width) {
        float total = 0.0f;
        for (int i = 0; i < lines; i++) {
            total += room[i * width + threadIdx.x];
        }
        parts[part_at((hr_i32)gridDim.x, (hr_i32)blockIdx.x,
                      KDIM * COLUMNS + from + (hr_i32)threadIdx.x)] = total;
    }
}

HR_KERNEL __launch_bounds__(THREADS, 1)
    conv_norm_sums(const ELEM *dy, const ELEM *more, const hr_u8 *mask, const ELEM *a, ELEM *dz,
                   float *parts, hr_i64 rows) {
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
    // No block reads what another leaves: with SUM 2 the parts lie in tiles that this one has read.
#pragma unroll
    for (int m = 0; m < 2; m++) {
#pragma unroll
        for (int n = 0; n < TILES; n++) {
#pragma unroll
            for (int i = 0; i < 4; i++) {
                const hr_i32 k = warp % 2 * 32 + m * 16 + lane / 4 + i / 2 * 8;
                const hr_i32 c = (warp / 2 * TILES + n) * 8 + lane % 4 * 2 + i % 2;
                parts[part_at((hr_i32)gridDim.x, (hr_i32)blockIdx.x, k * COLUMNS + c)] =
                    sums[m][n][i];
            }
        }
    }
    put_sums((float *)tile, of_dz, NDIM, ROWS, parts, 0);
    put_sums((float *)tile, of_a, KDIM, DEPTH, parts, NDIM);
}

// Parts, added in their order: G (K, N), S (K, K), t (N) and s (K).
HR_KERNEL conv_norm_gather(const float *parts, float *g, float *squares, float *t, float *s,
                           hr_i32 count) {
    const hr_i32 i = (hr_i32)(blockIdx.x * blockDim.x + threadIdx.x), k = i / COLUMNS, c = i % COLUMNS;
    if (i >= PART) {
        return;
    }
    double sum = 0.0;
#pragma unroll 4
    for (hr_i32 p = 0; p < count; p++) {
        sum += (double)parts[part_at(count, p, i)];
    }
    float *to = k < KDIM ? (c < NDIM ? g + k * NDIM + c : squares + k * KDIM + c - NDIM)
                         : (c < NDIM ? t + c : s + c - NDIM);
    *to = (float)sum;
}

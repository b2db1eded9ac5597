// A matrix (ROWS, COLUMNS) turned into (COLUMNS, ROWS): weights between our order (KH, KW, C, O) and a library's
// (O, KH, KW, C), or (N, K) and (K, N).  A block turns 32 x 32 elements through shared memory, so that both sides are read and
// written in rows.  HR_T is the type it is read in, HR_Y the one it is written in; turn_pairs moves 2-byte numbers as they are, two at
// a time.

HR_KERNEL turn(const HR_T *from, HR_Y *to, hr_i64 rows, hr_i64 columns) {
    HR_SHARED(room);
    float *tile = (float *)room; // [32][33]
    const int x = (int)threadIdx.x & 31, y = (int)threadIdx.x >> 5;
    const hr_i64 row0 = (hr_i64)blockIdx.y * 32, column0 = (hr_i64)blockIdx.x * 32;
#pragma unroll
    for (int i = 0; i < 32; i += 8) {
        const hr_i64 row = row0 + y + i, column = column0 + x;
        if (row < rows && column < columns) {
            tile[(y + i) * 33 + x] = hr_load(from[row * columns + column]);
        }
    }
    __syncthreads();
#pragma unroll
    for (int i = 0; i < 32; i += 8) {
        const hr_i64 row = row0 + x, column = column0 + y + i;
        if (row < rows && column < columns) {
            hr_store(&to[column * rows + row], tile[x * 33 + y + i]);
        }
    }
}

// ROWS and COLUMNS are even.  Rows of the tile are 33 words apart, so those that a warp reads below one another are in different banks.
HR_KERNEL turn_pairs(const hr_u32 *from, hr_u32 *to, hr_i64 rows, hr_i64 columns) {
    HR_SHARED(room);
    hr_u32 *tile = (hr_u32 *)room; // [64][33]
    const int x = (int)threadIdx.x & 31, y = (int)threadIdx.x >> 5;
    const hr_i64 row0 = (hr_i64)blockIdx.y * 64, column0 = (hr_i64)blockIdx.x * 64;
#pragma unroll
    for (int i = 0; i < 64; i += 8) {
        const hr_i64 row = row0 + y + i, column = column0 + 2 * x;
        if (row < rows && column < columns) {
            tile[(y + i) * 33 + x] = from[(row * columns + column) / 2];
        }
    }
    __syncthreads();
    // Rows 2 x and 2 x + 1 of two columns make a pair of each.
#pragma unroll
    for (int i = 0; i < 32; i += 8) {
        const hr_i64 row = row0 + 2 * x, column = column0 + 2 * (y + i);
        if (row < rows && column < columns) {
            const hr_u32 a = tile[2 * x * 33 + y + i], b = tile[(2 * x + 1) * 33 + y + i];
            to[(column * rows + row) / 2] = (a & 0xffffu) | b << 16;
            to[((column + 1) * rows + row) / 2] = a >> 16 | (b & 0xffff0000u);
        }
    }
}

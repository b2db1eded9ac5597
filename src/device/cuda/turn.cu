// A matrix (ROWS, COLUMNS) turned into (COLUMNS, ROWS): weights between our order (KH, KW, C, O) and a library's
// (O, KH, KW, C).  A block turns 32 x 32 elements through shared memory, so that both sides are read and written in rows.
// HR_T is the type it is read in, HR_Y the one it is written in.

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

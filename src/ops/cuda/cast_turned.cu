// Matrices turned, from HR_X to HR_Y, many in one launch; ops/cast_turned.c has the same table.
//
// The table is a kernel parameter.  A block finds its matrix and turns a tile of it in shared memory.  Where sizes and places allow it
// four elements are read together and eight written.

typedef HR_X X;
typedef HR_Y Y;
enum { MATRICES = 100, TILE = 64, THREADS = 256, READ = 4, WRITE = 8 };

struct matrix {
    hr_u64 x, y;
    hr_i64 rows, columns;
    hr_u32 first, wide; // its first block; 1: whole pieces, aligned
};
struct table {
    hr_u64 count;
    struct matrix matrix[MATRICES];
};

// Rows of the tile are columns of x.  They are padded by 4 bytes, so that threads which lie side by side rarely meet in a bank.
typedef Y turned[TILE][TILE + 4 / sizeof(Y)];

HR_INLINE void by_pieces(turned &tile, const struct matrix &m, hr_i64 row0, hr_i64 column0) {
    enum { ACROSS = TILE / READ, ROWS = THREADS / ACROSS, ROUNDS = TILE / ROWS };
    const int tx = threadIdx.x % ACROSS * READ, ty = threadIdx.x / ACROSS;
    const X *const x = (const X *)m.x + column0 + tx;
    hr_pack<X, READ> from[ROUNDS]; // all loads first
    if (column0 + tx < m.columns) {
#pragma unroll
        for (int r = 0; r < ROUNDS; r++) {
            const hr_i64 row = row0 + ty + r * ROWS;
            if (row < m.rows) {
                from[r] = *(const hr_pack<X, READ> *)(x + row * m.columns);
            }
        }
#pragma unroll
        for (int r = 0; r < ROUNDS; r++) {
            if (row0 + ty + r * ROWS < m.rows) {
#pragma unroll
                for (int j = 0; j < READ; j++) {
                    hr_store(&tile[tx + j][ty + r * ROWS], hr_load(from[r].at[j]));
                }
            }
        }
    }
    __syncthreads();
    enum { PIECES = TILE / WRITE, LINES = THREADS / PIECES };
    const int to = threadIdx.x % PIECES * WRITE;
#pragma unroll
    for (int c = threadIdx.x / PIECES; c < TILE; c += LINES) {
        if (column0 + c < m.columns && row0 + to < m.rows) {
            Y *const y = (Y *)m.y + (column0 + c) * m.rows + row0 + to;
            hr_pack<Y, WRITE> piece;
#pragma unroll
            for (int i = 0; i < WRITE; i++) {
                piece.at[i] = tile[c][to + i];
            }
            *(hr_pack<Y, WRITE> *)y = piece;
        }
    }
}

HR_INLINE void one_by_one(turned &tile, const struct matrix &m, hr_i64 row0, hr_i64 column0) {
    const int across = threadIdx.x % TILE;
    for (int i = threadIdx.x / TILE; i < TILE; i += THREADS / TILE) {
        if (row0 + i < m.rows && column0 + across < m.columns) {
            const X *const x = (const X *)m.x + (row0 + i) * m.columns + column0 + across;
            hr_store(&tile[across][i], hr_load(*x));
        }
    }
    __syncthreads();
    for (int c = threadIdx.x / TILE; c < TILE; c += THREADS / TILE) {
        if (column0 + c < m.columns && row0 + across < m.rows) {
            ((Y *)m.y)[(column0 + c) * m.rows + row0 + across] = tile[c][across];
        }
    }
}

HR_KERNEL __launch_bounds__(THREADS) cast_turned(HR_TABLE struct table t) {
    __shared__ turned tile;
    hr_u32 k = 0; // the last matrix that begins at this block or before
    for (hr_u32 step = 64; step > 0; step /= 2) {
        if (k + step < t.count && t.matrix[k + step].first <= blockIdx.x) {
            k += step;
        }
    }
    const struct matrix &m = t.matrix[k];
    const hr_u32 across = (hr_u32)((m.columns + TILE - 1) / TILE), at = blockIdx.x - m.first;
    const hr_i64 row0 = (hr_i64)(at / across) * TILE, column0 = (hr_i64)(at % across) * TILE;
    if (m.wide) {
        by_pieces(tile, m, row0, column0);
    } else {
        one_by_one(tile, m, row0, column0);
    }
}

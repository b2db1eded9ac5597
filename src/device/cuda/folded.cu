// The first convolution of a picture network, folded (gpu_fold.c), on tensor cores: a window of 4 x 4 over 16 channels of bf16.
//
// The 16 channels of a pixel are the 16 rows of a product, so a tap of the window is one product for each 16 pixels of a row,
// whose left operand lies in shared memory as the picture does.  A block has the weights of 64 outputs there and goes through
// pieces of PIECE tiles of 16 pixels, counted along rows of SIDE, the next one on its way meanwhile; a warp has TILES of them and
// all 64 outputs.  So many warps and tiles are what registers bear: twelve warps of 168 on a multiprocessor.
// Halves of a pixel change places every four pixels, so that eight pixels in a row are in different banks.  Outputs are numbered
// so that a thread ends up with 16 that lie side by side.
//
// Sums are f32, over the taps in order.

enum {
    WARPS = 6,
    THREADS = 32 * WARPS,
    TILES = 3,
    PIECE = WARPS * TILES,
    SIDE = 7, // tiles of a row that is worked on; rows of pictures have one or more such parts
    ACROSS = 16 * SIDE,
    DOWN = (SIDE - 1 + PIECE - 1) / SIDE + 1, // rows that a piece may touch
    TAPS = 4,
    CHANNELS = 16,
    WIDE = 64,   // outputs of a block
    APART = 72,  // of which a row lies in shared memory: eight rows in different banks
    LINE = ACROSS + TAPS - 1,
    LINES = DOWN + TAPS - 1,
    CHUNKS = LINES * LINE * 2, // of 16 bytes
    WEIGHTS = TAPS * TAPS * CHANNELS * APART * 2 // bytes
};

// gpu_fold.c has the same struct.
struct folded {
    hr_i64 items; // pieces in all
    hr_i32 h, w, o, p, q;
    hr_i32 pieces, across; // of a part of a picture, and parts of a row
};

struct __align__(16) words {
    hr_u32 at[4];
};

// Where the half `half` of pixel `at` of a line lies, in chunks.
HR_INLINE int place(int at, int half) {
    return at * 2 + (half ^ (at >> 2 & 1));
}

// A piece: its picture, its first column and its first tile.
struct piece {
    hr_i64 n;
    hr_i32 c0, first;
};

HR_INLINE piece piece_of(const folded &g, hr_i64 item) {
    piece x;
    x.first = (hr_i32)(item % g.pieces) * PIECE;
    x.c0 = (hr_i32)(item / g.pieces % g.across) * ACROSS;
    x.n = item / g.pieces / g.across;
    return x;
}

HR_INLINE void fetch(const hr_bf16 *x, const folded &g, hr_i64 item, unsigned char *to) {
    const piece from = piece_of(g, item);
    const hr_i32 r0 = from.first / SIDE;
#pragma unroll
    for (int k = 0; k < (CHUNKS + THREADS - 1) / THREADS; k++) {
        const int e = (int)threadIdx.x + k * THREADS;
        const int line = e / (LINE * 2), at = e % (LINE * 2) / 2, half = e % 2;
        const hr_i32 r = r0 + line, c = from.c0 + at;
        const bool there = r < g.h && c < g.w;
        if (e < CHUNKS) {
            hr_async_copy(to + (line * LINE * 2 + place(at, half)) * 16,
                          there ? x + ((from.n * g.h + r) * g.w + c) * CHANNELS + half * 8 : x,
                          there ? 16 : 0);
        }
    }
}

// Output 16 t + 2 j + e is column 8 j + 2 t + e: column 2 t + e of tile j is thread t's.
HR_INLINE void bring_weights(const hr_bf16 *w, hr_i32 o, hr_bf16 *to) {
    for (int i = threadIdx.x; i < TAPS * TAPS * CHANNELS * WIDE; i += THREADS) {
        const int row = i / WIDE, of = i % WIDE;
        to[row * APART + of % 16 / 2 * 8 + of / 16 * 2 + of % 2] = w[(hr_i64)row * o + of];
    }
}

HR_INLINE void convolve(const unsigned char *image, const hr_bf16 *weights, int first, float (&sum)[TILES][8][4]) {
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, half = lane / 16;
    int line[TILES], at[TILES];
    const hr_bf16 *row = weights + lane % 16 * APART + lane / 16 * 8;
#pragma unroll
    for (int i = 0; i < TILES; i++) {
        const int tile = first % SIDE + warp * TILES + i;
        line[i] = tile / SIDE * LINE * 2;
        at[i] = tile % SIDE * 16 + lane % 16;
#pragma unroll
        for (int j = 0; j < 8; j++) {
#pragma unroll
            for (int k = 0; k < 4; k++) {
                sum[i][j][k] = 0.0f;
            }
        }
    }
#pragma unroll 1
    for (int y = 0; y < TAPS; y++, image += LINE * 32, row += TAPS * CHANNELS * APART) {
#pragma unroll
        for (int x = 0; x < TAPS; x++) {
            hr_u32 b[4][4];
#pragma unroll
            for (int j = 0; j < 4; j++) {
                hr_ldmatrix_turned(b[j], row + x * CHANNELS * APART + j * 16);
            }
#pragma unroll
            for (int i = 0; i < TILES; i++) {
                hr_u32 a[4];
                hr_ldmatrix(a, image + (line[i] + place(at[i] + x, half)) * 16);
#pragma unroll
                for (int j = 0; j < 4; j++) {
                    const hr_u32 one[2] = {b[j][0], b[j][1]}, two[2] = {b[j][2], b[j][3]};
                    hr_mma(sum[i][2 * j], a, one, hr_bf16());
                    hr_mma(sum[i][2 * j + 1], a, two, hr_bf16());
                }
            }
        }
    }
}

HR_INLINE void write(const float (&sum)[TILES][8][4], const folded &g, hr_i64 item, hr_bf16 *y) {
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const piece of = piece_of(g, item);
#pragma unroll
    for (int i = 0; i < TILES; i++) {
        const hr_i32 tile = of.first + warp * TILES + i, r = tile / SIDE;
#pragma unroll
        for (int half = 0; half < 2; half++) {
            const hr_i32 c = of.c0 + tile % SIDE * 16 + lane / 4 + half * 8;
            if (r >= g.p || c >= g.q) {
                continue;
            }
            words *to = (words *)(y + ((of.n * g.p + r) * g.q + c) * g.o + lane % 4 * 16);
#pragma unroll
            for (int k = 0; k < 2; k++) {
                words out;
#pragma unroll
                for (int j = 0; j < 4; j++) {
                    const float(&two)[4] = sum[i][k * 4 + j];
                    out.at[j] = hr_two(two[2 * half], two[2 * half + 1], hr_bf16());
                }
                to[k] = out;
            }
        }
    }
}

// x (N, H, W, 16), w (4, 4, 16, O) -> y (N, P, Q, O); grid: blocks that share the pieces by tiles of 64 outputs.
HR_KERNEL __launch_bounds__(THREADS, 2)
    folded_conv(const hr_bf16 *x, const hr_bf16 *w, hr_bf16 *y, folded g) {
    HR_SHARED(shared);
    hr_bf16 *weights = (hr_bf16 *)shared;
    unsigned char *image = shared + WEIGHTS;
    w += (hr_i64)blockIdx.y * WIDE;
    y += (hr_i64)blockIdx.y * WIDE;
    fetch(x, g, blockIdx.x, image);
    hr_async_commit();
    bring_weights(w, g.o, weights);
    int now = 0;
    for (hr_i64 item = blockIdx.x; item < g.items; item += gridDim.x, now ^= 1) {
        if (item + gridDim.x < g.items) {
            fetch(x, g, item + gridDim.x, image + (now ^ 1) * CHUNKS * 16);
        }
        hr_async_commit();
        hr_async_wait<1>();
        __syncthreads();
        float sum[TILES][8][4];
        convolve(image + now * CHUNKS * 16, weights, piece_of(g, item).first, sum);
        __syncthreads(); // the next piece but one comes where this was
        write(sum, g, item, y);
    }
}

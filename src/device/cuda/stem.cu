// The gradient of the weights of a convolution of few channels (gpu_stem.c), on tensor cores and straight from the image.
//
// In a row of the image, what a window of KW pixels covers is KW C numbers one behind the other, and that of the next
// output begins SW C further on.  So the left operand, (KH KW C, pixels), need not be laid out: its number (a, j), q is
// image[a][SW C q + j] of the KH rows in shared memory.  A block takes PIXELS outputs of a row and 64 of their channels at a
// time, the next ones on their way in registers meanwhile; warp (m, n) has half of the rows of dw and 16 of its columns.
//
// Numbers are rounded to tf32 (those of two bytes are), sums are f32 in a block, over its rows in order, and double over
// the parts in order.
//
// Defines: HR_T of x and dy, HR_Y of dw, C, KH, KW, SH, SW.

enum {
    THREADS = 256,
    PIXELS = 56, // of a row, at a time
    WIDE = 64,   // channels of dy
    APART = 72,  // of which a row lies in shared memory: four rows in other banks
    ROWS = KH * KW * C,
    TILES = ((ROWS + 15) / 16 + 1) / 2, // of 16 rows, a warp
    LONG = SW * C * (PIXELS - 1) + KW * C,
    IMAGES = (KH * LONG + THREADS - 1) / THREADS, // numbers a thread brings
    GRADS = (PIXELS * WIDE / 4 + THREADS - 1) / THREADS // packs of four
};
typedef hr_pack<HR_T, 4> four;

// gpu_stem.c has the same struct.
struct stem {
    hr_i64 items, each; // pieces of a row of outputs: all, and of a part
    hr_i32 h, w, o, p, q, pieces, top, left;
};

struct load {
    HR_T image[IMAGES];
    four grad[GRADS];
};

HR_INLINE HR_T nothing() {
    HR_T z;
    hr_store(&z, 0.0f);
    return z;
}

HR_INLINE void fetch(const HR_T *x, const HR_T *dy, const stem &g, hr_i64 item, load &to) {
    const hr_i32 piece = (hr_i32)(item % g.pieces);
    const hr_i64 row = item / g.pieces, n = row / g.p;
    const hr_i32 h0 = (hr_i32)(row % g.p) * SH - g.top, first = (piece * PIXELS * SW - g.left) * C;
#pragma unroll
    for (int k = 0; k < IMAGES; k++) {
        const hr_i32 e = (hr_i32)threadIdx.x + k * THREADS, h = h0 + e / LONG, at = first + e % LONG;
        const bool there = e < KH * LONG && h >= 0 && h < g.h && at >= 0 && at < g.w * C;
        to.image[k] = there ? x[(n * g.h + h) * g.w * C + at] : nothing();
    }
#pragma unroll
    for (int k = 0; k < GRADS; k++) {
        const hr_i32 e = (hr_i32)threadIdx.x + k * THREADS, q = piece * PIXELS + e / (WIDE / 4);
        if (e < PIXELS * WIDE / 4 && q < g.q) {
            to.grad[k] = *(const four *)(dy + (row * g.q + q) * g.o + (hr_i64)blockIdx.x * WIDE +
                                         e % (WIDE / 4) * 4);
        } else {
#pragma unroll
            for (int j = 0; j < 4; j++) {
                to.grad[k].at[j] = nothing();
            }
        }
    }
}

HR_INLINE void put(const load &from, hr_u32 *image, hr_u32 (*grad)[APART]) {
#pragma unroll
    for (int k = 0; k < IMAGES; k++) {
        const int e = (int)threadIdx.x + k * THREADS;
        if (e < KH * LONG) {
            image[e] = hr_tf32(hr_load(from.image[k]));
        }
    }
#pragma unroll
    for (int k = 0; k < GRADS; k++) {
        const int e = (int)threadIdx.x + k * THREADS;
        if (e < PIXELS * WIDE / 4) {
#pragma unroll
            for (int j = 0; j < 4; j++) {
                grad[e / (WIDE / 4)][e % (WIDE / 4) * 4 + j] = hr_tf32(hr_load(from.grad[k].at[j]));
            }
        }
    }
}

// sums (parts, ROWS, O); grid: tiles of 64 channels by parts.
HR_KERNEL __launch_bounds__(THREADS, 2)
    stem_weight(const HR_T *x, const HR_T *dy, float *sums, stem g) {
    __shared__ hr_u32 image[KH * LONG];
    __shared__ __align__(16) hr_u32 grad[PIXELS][APART];
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, row = lane / 4, t = lane % 4;
    const int m0 = warp / 4 * TILES * 16, n0 = warp % 4 * 16;
    int at[TILES][2];
    float sum[TILES][2][4];
#pragma unroll
    for (int i = 0; i < TILES; i++) {
#pragma unroll
        for (int r = 0; r < 2; r++) {
            const int m = m0 + i * 16 + r * 8 + row;
            at[i][r] = m < ROWS ? m / (KW * C) * LONG + m % (KW * C) : 0; // its sum is dropped
#pragma unroll
            for (int j = 0; j < 4; j++) {
                sum[i][r][j] = 0.0f;
            }
        }
    }
    const hr_i64 begin = blockIdx.y * g.each;
    const hr_i64 end = begin + g.each < g.items ? begin + g.each : g.items;
    load next;
    if (begin < end) {
        fetch(x, dy, g, begin, next);
    }
    for (hr_i64 item = begin; item < end; item++) {
        put(next, image, grad);
        __syncthreads();
        if (item + 1 < end) {
            fetch(x, dy, g, item + 1, next);
        }
#pragma unroll
        for (int s = 0; s < PIXELS; s += 8) {
            hr_u32 b[2][2];
#pragma unroll
            for (int j = 0; j < 2; j++) {
                b[j][0] = grad[s + t][n0 + j * 8 + row];
                b[j][1] = grad[s + t + 4][n0 + j * 8 + row];
            }
#pragma unroll
            for (int i = 0; i < TILES; i++) {
                const hr_u32 a[4] = {
                    image[at[i][0] + (s + t) * SW * C], image[at[i][1] + (s + t) * SW * C],
                    image[at[i][0] + (s + t + 4) * SW * C], image[at[i][1] + (s + t + 4) * SW * C]};
                hr_mma_tf32(sum[i][0], a, b[0]);
                hr_mma_tf32(sum[i][1], a, b[1]);
            }
        }
        __syncthreads();
    }
#pragma unroll
    for (int i = 0; i < TILES; i++) {
#pragma unroll
        for (int j = 0; j < 2; j++) {
#pragma unroll
            for (int r = 0; r < 2; r++) {
                const int m = m0 + i * 16 + r * 8 + row;
                if (m < ROWS) {
                    float *to = sums + ((hr_i64)blockIdx.y * ROWS + m) * g.o +
                                (hr_i64)blockIdx.x * WIDE + n0 + j * 8 + t * 2;
                    to[0] = sum[i][j][2 * r];
                    to[1] = sum[i][j][2 * r + 1];
                }
            }
        }
    }
}

// dw[i] = the sum of all parts.
HR_KERNEL __launch_bounds__(THREADS)
    stem_join(const float *sums, HR_Y *dw, hr_i32 count, hr_i32 parts) {
    const hr_i32 i = (hr_i32)(blockIdx.x * THREADS + threadIdx.x);
    if (i < count) {
        double sum = 0.0;
#pragma unroll 8
        for (hr_i32 p = 0; p < parts; p++) {
            sum += (double)sums[(hr_i64)p * count + i];
        }
        hr_store(&dw[i], (float)sum);
    }
}

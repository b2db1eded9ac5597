// Convolutions and linear layers of bytes; ops/conv2d_i8.c and ops/conv2d_f8.c have the rules, ops/common/product_i8_cuda.c the same struct.
//
// The rows of a product are results of one place, (N OH OW), its depth the window, (KH KW C), its columns outputs.  A block
// makes 128 rows and HR_N columns on tensor cores: parts of 64 bytes of the depth come through three stages of shared memory,
// rows straight from the image, columns from weights that pack_i8 has turned, 16 bytes of a column side by side.  Outside
// the image lies the zero point, so what it adds to a column is a product of the column's sum, which pack_i8 has made as well.
// Groups with few columns are joined; those of one
// channel are summed by direct_i8, a thread a result, and neighbours have neighbouring channels.  Sums are whole
// numbers: any order gives the same.  HR_T is hr_u8, or float for results that are not rounded to bytes.
//
// With HR_F8 bytes are codes of 8-bit floats (ops/common/float8.h), sums are f32, there is no zero point and results are real.
// Hopper multiplies codes; before it they become f16, in which they are 256 times smaller.

typedef HR_T T;
enum { THREADS = 256, ROWS = 128, COLUMNS = HR_N, DEEP = 64, STAGES = 3, CHUNK = 16 };
enum { WARPS_ACROSS = COLUMNS / 32, WARPS_DOWN = 8 / WARPS_ACROSS, DOWN = ROWS / WARPS_DOWN / 16, ACROSS = 4 };
enum { STAGE_BYTES = (ROWS + COLUMNS) * DEEP, PITCH = COLUMNS + 16 };

// Counts rows, or results for direct_i8: 32 bits where they are enough.
typedef HR_INDEX INDEX;
#ifdef HR_F8
typedef float SUM;
#else
typedef hr_i32 SUM;
#endif

struct shape {
    hr_i64 rows;
    hr_i32 h, w, c, oh, ow, o, kh, kw, sh, sw, ph, pw, dh, dw, cg, og;
    hr_i32 depth, chunks, slices; // products of a sum; groups of 16 of them, whole parts; groups of 128
    hr_i32 own_c, own_o;          // of one group, where several are joined
    hr_u32 turned, relu, even, unused;
};

// ---- from sums to results ----

struct finish {
    hr_i32 add;
    float by, bias;
};

HR_INLINE float held(float x, float low, float high) {
    const float above = x > low ? x : low;
    return above < high ? above : high;
}
#ifdef HR_F8
#if !defined(HRI_EMULATED) && __CUDA_ARCH__ >= 890
#define HR_CODES 1
#else
#define HR_CODES 0
#endif
HR_INLINE finish finish_of(hr_i32 zero_sum, float bias, float unit, const float *scale, float) {
    const finish f = {0, HR_CODES ? unit : __fmul_rn(unit, 65536.0f), bias};
    return f;
}
HR_INLINE void put(float *to, float sum, const finish &f, hr_i32 zero, hr_u32 relu) {
    const float y = __fadd_rn(__fmul_rn(sum, f.by), f.bias);
    *to = relu && !(y > 0.0f) ? 0.0f : y;
}
#else
HR_INLINE finish finish_of(hr_i32 zero_sum, float bias, float unit, const float *scale, hr_u8) {
    const hr_i32 own = __float2int_rn(held(__fdiv_rn(bias, unit), -536870912.0f, 536870912.0f));
    const finish f = {own - zero_sum, __fdiv_rn(unit, *scale), bias};
    return f;
}
HR_INLINE finish finish_of(hr_i32 zero_sum, float bias, float unit, const float *scale, float) {
    const finish f = {-zero_sum, unit, bias};
    return f;
}
HR_INLINE void put(hr_u8 *to, hr_i32 sum, const finish &f, hr_i32 zero, hr_u32 relu) {
    const float y = __fmul_rn((float)(sum + f.add), f.by), z = (float)zero;
    *to = (hr_u8)(__float2int_rn(held(y, relu ? 0.0f : -z, 255.0f - z)) + zero);
}
HR_INLINE void put(float *to, hr_i32 sum, const finish &f, hr_i32 zero, hr_u32 relu) {
    const float y = __fadd_rn(__fmul_rn((float)(sum + f.add), f.by), f.bias);
    *to = relu && !(y > 0.0f) ? 0.0f : y;
}
#endif

// ---- weights ----

// Groups that are joined have zeros for one another's channels.
HR_INLINE hr_i8 weight(const hr_i8 *w, hr_i32 k, hr_i32 o, hr_i32 group, const shape &p) {
    const hr_i32 channel = k % p.cg, tap = k / p.cg;
    const hr_i64 column = (hr_i64)group * p.og + o, row = (hr_i64)tap * p.own_c + channel % p.own_c;
    if (k >= p.depth || channel / p.own_c != o / p.own_o) {
        return 0;
    }
    return p.turned ? w[column * p.depth + k] : w[row * p.o + column];
}

// Weights of one group of outputs: chunks of 16 along the depth, each with all columns; and sums of 128 along the depth.
HR_KERNEL __launch_bounds__(THREADS) pack_i8(const hr_i8 *w, hr_u8 *to, hr_i32 *sums, shape p) {
    __shared__ hr_i32 room[THREADS];
    const int across = threadIdx.x % 32, down = threadIdx.x / 32;
    const hr_i32 o = blockIdx.x * 32 + across, chunk = blockIdx.y * 8 + down, group = blockIdx.z;
    hr_i32 sum = 0;
    if (o < p.og && chunk < p.chunks) {
        hr_pack<hr_u8, CHUNK> x;
#pragma unroll
        for (int q = 0; q < CHUNK; q++) {
            const hr_i8 is = weight(w, chunk * CHUNK + q, o, group, p);
            x.at[q] = (hr_u8)is;
            sum += is;
        }
        *(hr_pack<hr_u8, CHUNK> *)(to + (((hr_i64)group * p.chunks + chunk) * p.og + o) * CHUNK) = x;
    }
    room[threadIdx.x] = sum;
    __syncthreads();
    if (down == 0 && o < p.og) {
        for (int i = 1; i < 8; i++) {
            sum += room[i * 32 + across];
        }
        sums[((hr_i64)group * p.slices + blockIdx.y) * p.og + o] = sum;
    }
}

// ---- tensor cores ----

#ifdef HR_F8
// Codes `first` and `first` + 1 of four as two f16, 256 times smaller; NaN stays NaN.
HR_INLINE hr_u32 halves(hr_u32 four, int first) {
    hr_u32 both = 0;
    for (int q = 0; q < 2; q++) {
        const hr_u32 code = four >> 8 * (first + q) & 255u;
        const hr_u32 half = (code & 127u) == 127u ? 0x7e00u : (code & 128u) << 8 | (code & 127u) << 7;
        both |= half << 16 * q;
    }
    return both;
}

// d (16, 8) += a (16, 32) b (32, 8); the depth of a product may be in any order that both have.
HR_INLINE void mma(float (&d)[4], const hr_u32 (&a)[4], hr_u32 b0, hr_u32 b1) {
#if HR_CODES
    asm("mma.sync.aligned.m16n8k32.row.col.f32.e4m3.e4m3.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
#else
    for (int i = 0; i < 2; i++) {
        const hr_u32 x = i ? a[2] : a[0], y = i ? a[3] : a[1], z = i ? b1 : b0;
        const hr_u32 left[4] = {halves(x, 0), halves(y, 0), halves(x, 2), halves(y, 2)};
        const hr_u32 right[2] = {halves(z, 0), halves(z, 2)};
        hr_mma(d, left, right, hr_f16());
    }
#endif
}
#else
// d (16, 8) += a (16, 32) without sign, b (32, 8) with sign; fragments are those of hr_mma with two bytes for a number.
HR_INLINE void mma(hr_i32 (&d)[4], const hr_u32 (&a)[4], hr_u32 b0, hr_u32 b1) {
#ifdef HRI_EMULATED
    const hr_u32 mine[6] = {a[0], a[1], a[2], a[3], b0, b1};
    hr_u32 there;
    const hr_u32 *all = (const hr_u32 *)fake_now->exchange(0xffffffffu, mine, sizeof mine, &there);
    if (there != 0xffffffffu) {
        fake_now->fail("a matrix product without a whole warp");
    }
    for (hr_u32 i = 0; i < 4; i++) {
        const hr_u32 lane = threadIdx.x % 32, row = lane / 4 + i / 2 * 8, column = lane % 4 * 2 + i % 2;
        for (hr_u32 k = 0; k < 32; k++) {
            const hr_u32 x = all[6 * (row % 8 * 4 + k % 16 / 4) + row / 8 + k / 16 * 2];
            const hr_u32 y = all[6 * (column * 4 + k % 16 / 4) + 4 + k / 16];
            d[i] += (hr_i32)(x >> k % 4 * 8 & 255u) * (hr_i32)(hr_i8)(hr_u8)(y >> k % 4 * 8 & 255u);
        }
    }
#else
    asm("mma.sync.aligned.m16n8k32.row.col.s32.u8.s8.s32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
        : "+r"(d[0]), "+r"(d[1]), "+r"(d[2]), "+r"(d[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
#endif
}
#endif

// Where chunk `at` (0 .. 3) of a row of a stage lies: eight rows of a chunk are in different banks.
HR_INLINE hr_u32 place(int row, int at) {
    return (hr_u32)(row * DEEP + ((at ^ (row >> 1 & 3)) * CHUNK));
}

// One thread's share of the rows: chunk threadIdx.x % 4 of two of them, and how far along the window it is.
struct rows {
    const hr_u8 *image[2]; // of the row's sample, at the group's first channel; NULL: no such row
    hr_i32 y[2], x[2];     // the window's corner
    hr_i32 r, s, c;        // of the next chunk
};

HR_INLINE rows rows_of(const hr_u8 *x, const shape &p) {
    rows a;
#pragma unroll
    for (int i = 0; i < 2; i++) {
        const INDEX row = (INDEX)blockIdx.x * ROWS + threadIdx.x / 4 + i * 64;
        const INDEX line = row / (INDEX)p.ow, n = line / (INDEX)p.oh;
        a.image[i] = row < (INDEX)p.rows ? x + (hr_i64)n * p.h * p.w * p.c + (hr_i64)blockIdx.z * p.cg : (const hr_u8 *)0;
        a.x[i] = (hr_i32)(row - line * (INDEX)p.ow) * p.sw - p.pw;
        a.y[i] = (hr_i32)(line - n * (INDEX)p.oh) * p.sh - p.ph;
    }
    const hr_i32 k = (hr_i32)(threadIdx.x % 4) * CHUNK;
    a.c = k % p.cg;
    a.s = k / p.cg % p.kw;
    a.r = k / p.cg / p.kw;
    return a;
}

HR_INLINE const hr_u8 *pixel(const hr_u8 *image, hr_i32 y, hr_i32 x, hr_i32 r, const shape &p) {
    const bool inside = image && r < p.kh && (hr_u32)y < (hr_u32)p.h && (hr_u32)x < (hr_u32)p.w;
    return inside ? image + ((hr_i64)y * p.w + x) * p.c : (const hr_u8 *)0;
}

#if HR_WIDE
// A chunk is of one pixel.
HR_INLINE void load_chunk(const rows &a, int i, hr_u8 *to, hr_u32 zeros, const shape &p) {
    const hr_u8 *from = pixel(a.image[i], a.y[i] + a.r * p.dh, a.x[i] + a.s * p.dw, a.r, p);
    if (from) {
        hr_async_copy(to, from + a.c, CHUNK);
    } else {
        const hr_pack<hr_u32, 4> four = {{zeros, zeros, zeros, zeros}};
        *(hr_pack<hr_u32, 4> *)to = four;
    }
}
#else
HR_INLINE void load_chunk(const rows &a, int i, hr_u8 *to, hr_u32 zeros, const shape &p) {
    hr_i32 r = a.r, s = a.s, c = a.c;
    const hr_u8 *from = pixel(a.image[i], a.y[i] + r * p.dh, a.x[i] + s * p.dw, r, p);
    hr_pack<hr_u32, 4> four;
#pragma unroll
    for (int q = 0; q < 4; q++) {
        hr_u32 word = 0;
        for (int b = 0; b < 4; b++) {
            word |= (from ? (hr_u32)from[c] : zeros & 255u) << 8 * b;
            if (++c == p.cg) {
                c = 0;
                s = s + 1 < p.kw ? s + 1 : 0;
                r += s == 0;
                from = pixel(a.image[i], a.y[i] + r * p.dh, a.x[i] + s * p.dw, r, p);
            }
        }
        four.at[q] = word;
    }
    *(hr_pack<hr_u32, 4> *)to = four;
}
#endif

HR_INLINE void load_rows(rows &a, hr_u8 *stage, hr_u32 zeros, const shape &p) {
    const int at = threadIdx.x % 4;
#pragma unroll
    for (int i = 0; i < 2; i++) {
        load_chunk(a, i, stage + place((int)threadIdx.x / 4 + i * 64, at), zeros, p);
    }
    a.c += DEEP;
    while (a.c >= p.cg) {
        a.c -= p.cg;
        a.s = a.s + 1 < p.kw ? a.s + 1 : 0;
        a.r += a.s == 0;
    }
}

HR_INLINE void load_columns(const hr_u8 *w, hr_i32 part, hr_u8 *stage, const shape &p) {
    const hr_i32 first = (hr_i32)blockIdx.y * COLUMNS;
#pragma unroll
    for (int q = 0; q < COLUMNS * 4 / THREADS; q++) {
        const int i = (int)threadIdx.x + q * THREADS;
        const int column = i % COLUMNS, at = i / COLUMNS;
        const bool is = first + column < p.og;
        const hr_u8 *from = w + (((hr_i64)blockIdx.z * p.chunks + part * 4 + at) * p.og + (is ? first + column : 0)) * CHUNK;
        hr_async_copy(stage + ROWS * DEEP + place(column, at), from, is ? CHUNK : 0);
    }
}

HR_INLINE void multiply(SUM (&d)[DOWN][ACROSS][4], const hr_u8 *stage) {
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const int row = warp / WARPS_ACROSS * DOWN * 16, column = warp % WARPS_ACROSS * 32;
#pragma unroll
    for (int at = 0; at < 4; at += 2) {
        hr_u32 a[DOWN][4], b[ACROSS / 2][4];
#pragma unroll
        for (int i = 0; i < DOWN; i++) {
            hr_ldmatrix(a[i], stage + place(row + i * 16 + lane % 16, at + lane / 16));
        }
#pragma unroll
        for (int j = 0; j < ACROSS / 2; j++) {
            hr_ldmatrix(b[j], stage + ROWS * DEEP + place(column + j * 16 + lane / 16 * 8 + lane % 8, at + lane / 8 % 2));
        }
#pragma unroll
        for (int i = 0; i < DOWN; i++) {
#pragma unroll
            for (int j = 0; j < ACROSS; j++) {
                mma(d[i][j], a[i], b[j / 2][j % 2 * 2], b[j / 2][j % 2 * 2 + 1]);
            }
        }
    }
}

struct scales {
    const float *w, *bias, *x;
    const hr_u8 *x_zero;
    const float *y;
    const hr_u8 *y_zero;
};

HR_INLINE finish column_finish(hr_i32 column, const hr_i32 *sums, const scales &s, const shape &p) {
    hr_i32 ones = 0;
    const hr_i32 o = (hr_i32)blockIdx.z * p.og + column;
    for (hr_i32 i = 0; i < p.slices; i++) {
        ones += sums[((hr_i64)blockIdx.z * p.slices + i) * p.og + column];
    }
    return finish_of((s.x_zero ? (hr_i32)*s.x_zero : 0) * ones, s.bias[o], __fmul_rn(*s.x, s.w[o]), s.y, T());
}

// Bytes go through shared memory to whole rows; real results are 8 neighbours of a row already.
HR_INLINE void store(const SUM (&d)[DOWN][ACROSS][4], const finish *columns, hr_u8 *room, T *y, hr_i32 zero,
                     const shape &p) {
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const int row = warp / WARPS_ACROSS * DOWN * 16 + lane / 4, column = warp % WARPS_ACROSS * 32 + lane % 4 * 2;
    const hr_i64 first = (hr_i64)blockIdx.x * ROWS;
    const hr_i32 start = (hr_i32)blockIdx.y * COLUMNS;
    const bool staged = sizeof(T) == 1 && p.even;
    T *to = y + first * p.o + (hr_i64)blockIdx.z * p.og + start;
#pragma unroll
    for (int j = 0; j < ACROSS; j++) {
#pragma unroll
        for (int q = 0; q < 2; q++) {
            const int across = column + j * 8 + q;
            const finish f = columns[across];
#pragma unroll
            for (int i = 0; i < DOWN * 2; i++) {
                const int down = row + i * 8;
                const SUM sum = d[i / 2][j][i % 2 * 2 + q];
                if (staged) {
                    put((T *)room + down * PITCH + across, sum, f, zero, p.relu);
                } else if (first + down < p.rows && start + across < p.og) {
                    put(to + (hr_i64)down * p.o + across, sum, f, zero, p.relu);
                }
            }
        }
    }
    if (staged) {
        __syncthreads();
        for (int i = threadIdx.x; i < ROWS * COLUMNS / CHUNK; i += THREADS) {
            const int down = i / (COLUMNS / CHUNK), across = i % (COLUMNS / CHUNK) * CHUNK;
            if (first + down < p.rows && start + across < p.og) {
                *(hr_pack<hr_u8, CHUNK> *)((hr_u8 *)to + (hr_i64)down * p.o + across) =
                    *(const hr_pack<hr_u8, CHUNK> *)(room + down * PITCH + across);
            }
        }
    }
}

HR_KERNEL __launch_bounds__(THREADS)
    product_i8(const hr_u8 *x, const hr_u8 *w, const hr_i32 *sums, const float *w_scale, const float *bias,
               const float *x_scale, const hr_u8 *x_zero, const float *y_scale, const hr_u8 *y_zero, T *y, shape p) {
    HR_SHARED(room);
    finish *columns = (finish *)(room + STAGES * STAGE_BYTES);
    const scales s = {w_scale, bias, x_scale, x_zero, y_scale, y_zero};
    const hr_u32 zeros = x_zero ? (hr_u32)*x_zero * 0x01010101u : 0;
    const hr_i32 parts = p.chunks / 4, column = (hr_i32)blockIdx.y * COLUMNS + (hr_i32)threadIdx.x;
    rows a = rows_of(x, p);
    SUM d[DOWN][ACROSS][4] = {};
    for (int i = 0; i < STAGES - 1; i++) {
        if (i < parts) {
            load_rows(a, room + i * STAGE_BYTES, zeros, p);
            load_columns(w, i, room + i * STAGE_BYTES, p);
        }
        hr_async_commit();
    }
    if (threadIdx.x < COLUMNS && column < p.og) {
        columns[threadIdx.x] = column_finish(column, sums, s, p);
    }
    for (hr_i32 part = 0; part < parts; part++) {
        hr_async_wait<STAGES - 2>();
        __syncthreads();
        if (part + STAGES - 1 < parts) {
            hr_u8 *stage = room + (part + STAGES - 1) % STAGES * STAGE_BYTES;
            load_rows(a, stage, zeros, p);
            load_columns(w, part + STAGES - 1, stage, p);
        }
        hr_async_commit();
#ifdef HR_F8
        // Tensor cores add codes with fewer bits than f32 has, so sums of a part are added outside of them.
        SUM sum[DOWN][ACROSS][4] = {};
        multiply(sum, room + part % STAGES * STAGE_BYTES);
#pragma unroll
        for (int i = 0; i < DOWN * ACROSS * 4; i++) {
            d[i / 4 / ACROSS][i / 4 % ACROSS][i % 4] += sum[i / 4 / ACROSS][i / 4 % ACROSS][i % 4];
        }
#else
        multiply(d, room + part % STAGES * STAGE_BYTES);
#endif
    }
    __syncthreads();
    store(d, columns, room, y, y_zero ? (hr_i32)*y_zero : 0, p);
}

// ---- groups of few channels ----

#ifdef HR_F8
HR_INLINE float times(hr_u8 x, hr_i8 w, hr_i32 zero) {
    const hr_u32 both = halves((hr_u32)x | (hr_u32)(hr_u8)w << 8, 0);
    hr_f16 a, b;
    a.bits = (hr_u16)both, b.bits = (hr_u16)(both >> 16);
    return hr_load(a) * hr_load(b) * (HR_CODES ? 65536.0f : 1.0f);
}
#else
HR_INLINE hr_i32 times(hr_u8 x, hr_i8 w, hr_i32 zero) {
    return ((hr_i32)x - zero) * (hr_i32)w;
}
#endif

HR_KERNEL __launch_bounds__(THREADS)
    direct_i8(const hr_u8 *x, const hr_i8 *w, const float *w_scale, const float *bias, const float *x_scale,
              const hr_u8 *x_zero, const float *y_scale, const hr_u8 *y_zero, T *y, shape p) {
    const INDEX i = (INDEX)blockIdx.x * THREADS + threadIdx.x;
    if ((hr_i64)i >= p.rows * p.o) {
        return;
    }
    const INDEX row = i / (INDEX)p.o, line = row / (INDEX)p.ow, n = line / (INDEX)p.oh;
    const hr_i32 o = (hr_i32)(i - row * (INDEX)p.o), ox = (hr_i32)(row - line * (INDEX)p.ow);
    const hr_i32 oy = (hr_i32)(line - n * (INDEX)p.oh);
    const hr_i32 zero = x_zero ? (hr_i32)*x_zero : 0;
    const hr_u8 *image = x + (hr_i64)n * p.h * p.w * p.c + o / p.og * p.cg;
    SUM sum = 0;
    for (hr_i32 r = 0; r < p.kh; r++) {
        const hr_i32 h = oy * p.sh - p.ph + r * p.dh;
        for (hr_i32 s = 0; s < p.kw && (hr_u32)h < (hr_u32)p.h; s++) {
            const hr_i32 v = ox * p.sw - p.pw + s * p.dw;
            if ((hr_u32)v < (hr_u32)p.w) {
                const hr_u8 *from = image + ((hr_i64)h * p.w + v) * p.c;
                const hr_i8 *by = w + (hr_i64)(r * p.kw + s) * p.cg * p.o + o;
                for (hr_i32 k = 0; k < p.cg; k++) {
                    sum += times(from[k], by[(hr_i64)k * p.o], zero);
                }
            }
        }
    }
    const finish f = finish_of(0, bias[o], __fmul_rn(*x_scale, w_scale[o]), y_scale, T());
    put(y + i, sum, f, y_zero ? (hr_i32)*y_zero : 0, p.relu);
}

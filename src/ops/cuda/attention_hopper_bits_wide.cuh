// What scores of attention_hopper_bits_wide.cu begin with: numbers of a mask, as tiles of attention_spread.cu or as a row for all queries.  Products
// of queries and keys add to them.
//
// A tile is the left operand of products of a warp, whose right one is 1 / scale on a diagonal, so that nothing is converted; TWO_PARTS:
// 1 / scale is two numbers of bf16.  PLANES 2: numbers are two as well.
#ifndef PLANES
#define PLANES 1
#endif
#ifndef NUMBER_ROOMS // tiles of numbers, or rows of keys
#define NUMBER_ROOMS 2
#endif

// Of attention_spread.cu: a tile has second parts; a query whose largest score is less, over the scale, sees nothing.
enum { PARTS = 16 };
#define UNSEEN (-1.1e30f)

// A row for all queries.
HR_INLINE void begin_with_row(float (&s)[8][4], const char *row) {
#pragma unroll
    for (int n = 0; n < 8; n++) {
        const float2 x = *(const float2 *)(row + (n * 8 + threadIdx.x % 4 * 2) * 4);
        s[n][0] = s[n][2] = x.x;
        s[n][1] = s[n][3] = x.y;
    }
}

// ---- tiles of attention_spread.cu ----

// A number of bf16 on the diagonal of 8 by 8, as this lane has the right operand of a product of a warp.
HR_INLINE hr_u32 on_diagonal(float x) {
    const int lane = threadIdx.x & 31;
    hr_bf16 y;
    hr_store(&y, x);
    return lane / 4 == lane % 4 * 2 ? y.bits : lane / 4 == lane % 4 * 2 + 1 ? (hr_u32)y.bits << 16 : 0u;
}
HR_INLINE float near(float x) {
    hr_bf16 y;
    hr_store(&y, x);
    return hr_load(y);
}
// s (16, 8) = or += a (16, 8) times the diagonal d, whose number is `by`.
template <bool FRESH>
HR_INLINE void by_diagonal(float (&s)[4], hr_u32 low, hr_u32 high, hr_u32 d, float by) {
#ifdef HRI_EMULATED
    const float x[4] = {low_of(low, hr_bf16()), high_of(low, hr_bf16()), low_of(high, hr_bf16()),
                        high_of(high, hr_bf16())};
    for (int i = 0; i < 4; i++) {
        s[i] = fmaf(x[i], near(by), FRESH ? 0.0f : s[i]);
    }
    (void)d;
#else
    if (FRESH) {
        asm volatile("mma.sync.aligned.m16n8k8.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5}, {%6}, {%7,%7,%7,%7};"
                     : "=f"(s[0]), "=f"(s[1]), "=f"(s[2]), "=f"(s[3])
                     : "r"(low), "r"(high), "r"(d), "f"(0.0f));
    } else {
        asm volatile("mma.sync.aligned.m16n8k8.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5}, {%6}, {%0,%1,%2,%3};"
                     : "+f"(s[0]), "+f"(s[1]), "+f"(s[2]), "+f"(s[3])
                     : "r"(low), "r"(high), "r"(d));
    }
#endif
}
template <bool FRESH>
HR_INLINE void by_tile(float (&s)[8][4], const char *tile, hr_u32 d, float by) {
    const int lane = threadIdx.x & 31, row = threadIdx.x / 32 * 16 + lane % 16;
#pragma unroll
    for (int n = 0; n < 8; n += 2) {
        hr_u32 w[4];
        hr_ldmatrix(w, tile + spot(row, n + lane / 16));
        by_diagonal<FRESH>(s[n], w[0], w[1], d, by);
        by_diagonal<FRESH>(s[n + 1], w[2], w[3], d, by);
    }
}
HR_INLINE void begin_with(float (&s)[8][4], const char *tile, hr_u32 unit, float over) {
    by_tile<true>(s, tile, unit, over);
    if (TWO_PARTS) {
        by_tile<false>(s, tile, on_diagonal(over - near(over)), over - near(over));
    }
}
// The second parts of numbers.
HR_INLINE void add_second(float (&s)[8][4], const char *tile, hr_u32 unit, float over) {
    by_tile<false>(s, tile, unit, over);
}

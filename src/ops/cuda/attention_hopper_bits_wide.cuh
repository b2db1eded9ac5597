// What scores of attention_hopper_bits_wide.cu begin with: numbers of a mask, as tiles of attention_spread.cu or as a row for all queries.  Products
// of queries and keys add to them.
//
// A tile is the left operand of products of a warp, whose right one is 1 / scale on a diagonal, so that nothing is converted; TWO_PARTS:
// 1 / scale is two numbers.  PLANES 2: some tiles have two.  MAKING: masks of each sample or head, of which not all were looked at before; numbers are
// those of the mask itself, of bf16, and what hides is made finite where a step has any.
#ifndef PLANES
#define PLANES 1
#endif
#ifndef NUMBER_ROOMS // tiles of numbers, or rows of keys
#define NUMBER_ROOMS 2
#endif

// Of attention_spread.cu: a tile has second parts; a query whose largest score is less, over the scale, sees nothing.
enum { PARTS = 16 };
#define UNSEEN (-1.0001e30f)
#define LOWEST 0xf14au // of bf16, the largest number that hides: -1.0002e30

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

// The type of the first plane; the second is bf16.
template <typename T> struct first_of {
    typedef hr_bf16 type;
};
template <> struct first_of<hr_f16> {
    typedef hr_f16 type;
};
typedef first_of<MELEM>::type FIRST;

// A number on the diagonal of 8 by 8, as this lane has the right operand of a product of a warp.
template <typename T> HR_INLINE hr_u32 on_diagonal(float x, T) {
    const int lane = threadIdx.x & 31;
    T y;
    hr_store(&y, x);
    return lane / 4 == lane % 4 * 2 ? y.bits : lane / 4 == lane % 4 * 2 + 1 ? (hr_u32)y.bits << 16 : 0u;
}
template <typename T> HR_INLINE float near(float x, T) {
    T y;
    hr_store(&y, x);
    return hr_load(y);
}
// s (16, 8) = or += a (16, 8) times the diagonal d, whose number is `by`.
#define DIAGONAL(T, TO, FROM)                                                                      \
    asm volatile("mma.sync.aligned.m16n8k8.row.col.f32." T "." T ".f32 {%0,%1,%2,%3}, {%4,%5}, {%6}, " FROM ";" \
                 : TO(s[0]), TO(s[1]), TO(s[2]), TO(s[3])                                          \
                 : "r"(low), "r"(high), "r"(d), "f"(0.0f))
template <bool FRESH, typename T>
HR_INLINE void by_diagonal(float (&s)[4], hr_u32 low, hr_u32 high, hr_u32 d, float by, T) {
#ifdef HRI_EMULATED
    const float x[4] = {low_of(low, T()), high_of(low, T()), low_of(high, T()), high_of(high, T())};
    for (int i = 0; i < 4; i++) {
        s[i] = fmaf(x[i], near(by, T()), FRESH ? 0.0f : s[i]);
    }
    (void)d;
#else
    if (FRESH && is_bf16(T())) {
        DIAGONAL("bf16", "=f", "{%7,%7,%7,%7}");
    } else if (FRESH) {
        DIAGONAL("f16", "=f", "{%7,%7,%7,%7}");
    } else if (is_bf16(T())) {
        DIAGONAL("bf16", "+f", "{%0,%1,%2,%3}");
    } else {
        DIAGONAL("f16", "+f", "{%0,%1,%2,%3}");
    }
#endif
}
// Two numbers of bf16, of which none is lower than LOWEST; those that are no numbers stay.
HR_INLINE hr_u32 not_lower(hr_u32 two) {
#ifdef HRI_EMULATED
    const hr_u32 low = low_of(two, hr_bf16()) <= HIDING ? LOWEST : two & 0xffffu;
    return low | (high_of(two, hr_bf16()) <= HIDING ? LOWEST << 16 : two & 0xffff0000u);
#else
    hr_u32 y;
    asm("max.NaN.bf16x2 %0, %1, %2;" : "=r"(y) : "r"(two), "r"(LOWEST << 16 | LOWEST));
    return y;
#endif
}
template <bool FRESH, bool HIDES_, typename T>
HR_INLINE void by_tile(float (&s)[8][4], const char *tile, hr_u32 d, float by, T) {
    const int lane = threadIdx.x & 31, row = threadIdx.x / 32 * 16 + lane % 16;
#pragma unroll
    for (int n = 0; n < 8; n += 2) {
        hr_u32 w[4];
        hr_ldmatrix(w, tile + spot(row, n + lane / 16));
#pragma unroll
        for (int i = 0; i < 4 && HIDES_; i++) {
            w[i] = not_lower(w[i]);
        }
        by_diagonal<FRESH>(s[n], w[0], w[1], d, by, T());
        by_diagonal<FRESH>(s[n + 1], w[2], w[3], d, by, T());
    }
}
template <bool HIDES_>
HR_INLINE void begin_with(float (&s)[8][4], const char *tile, hr_u32 unit, float over) {
    by_tile<true, HIDES_>(s, tile, unit, over, FIRST());
    if (TWO_PARTS) {
        const float left = over - near(over, FIRST());
        by_tile<false, HIDES_>(s, tile, on_diagonal(left, FIRST()), left, FIRST());
    }
}
// The second parts of numbers, or what hides where the first are f16.
HR_INLINE void add_second(float (&s)[8][4], const char *tile, float over) {
    by_tile<false, false>(s, tile, on_diagonal(over, hr_bf16()), over, hr_bf16());
}

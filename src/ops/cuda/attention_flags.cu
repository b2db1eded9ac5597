// What a mask does to each tile of 32 queries by 32 keys, so that attention skips tiles it hides, reads no mask where it adds nothing,
// and looks for what cannot be added only where there is any: minus infinity, numbers so large that they hide, what is no number.  FINITE:
// there are numbers so low that a query which sees nothing else weighs those (attention_stats.cuh).
// MELEM is the type of the mask.  A warp has a tile; a mask that is the same for all queries has one row.  COPY: the mask is written again
// with `pitch` elements a row, those behind the last key 0.  WIDE: rows are whole pieces of 16 bytes, and no copy is made.
#ifndef MELEM
#define MELEM float
#endif
#ifndef COPY
#define COPY 0
#endif

#ifndef WIDE
#define WIDE 0
#endif

enum { THREADS = 128, TILE = 32, SEEN = 1, ADDS = 2, HIDES = 4, FINITE = 8 };

#if WIDE

enum { EACH = 16 / (int)sizeof(MELEM), PIECES = TILE / EACH, STEP = 32 / PIECES };

HR_INLINE hr_u32 look(MELEM number) {
    const float x = hr_load(number);
    return (x == hr_bits_float(0xff800000u) ? 0u : SEEN) | (x == 0.0f ? 0u : ADDS) |
           (x > -1e20f ? 0u : HIDES) | (x < 0.5f * ROW_FAR && x >= ROW_LOWEST ? FINITE : 0u);
}
// Halves all at once, where none is below -2^17 (bf16) or -8 (f16): sign, the first bit of the exponent and one of the next three.
HR_INLINE hr_u32 look(const hr_pack<MELEM, EACH> &x) {
    const hr_pack<hr_u32, 4> y = *(const hr_pack<hr_u32, 4> *)&x;
    hr_u32 low = 0, any = 0, all = 0;
#pragma unroll
    for (int i = 0; i < 4; i++) {
        low |= y.at[i] & y.at[i] << 1 & (y.at[i] << 2 | y.at[i] << 3 | y.at[i] << 4);
        any |= y.at[i];
    }
    if (sizeof(MELEM) == 2 && !(low & 0x80008000u)) {
        return SEEN | (any & 0x7fff7fffu ? ADDS : 0u);
    }
#pragma unroll
    for (int i = 0; i < EACH; i++) {
        all |= look(x.at[i]);
    }
    return all;
}

HR_KERNEL __launch_bounds__(THREADS) attention_flags(const MELEM *mask, hr_u8 *flags, hr_i64 count,
                                                     hr_i64 rows, hr_i64 keys, MELEM *, hr_i64) {
    const hr_u32 tile = blockIdx.x * (THREADS / 32) + threadIdx.x / 32;
    if (tile >= count) {
        return; // the whole warp
    }
    const int lane = threadIdx.x % 32;
    const hr_u32 across = (hr_u32)((keys + TILE - 1) / TILE), line = tile / across;
    const hr_u32 along = (hr_u32)((rows + TILE - 1) / TILE);
    const hr_i64 k = tile % across * TILE + lane % PIECES * EACH;
    const hr_i64 first = line % along * TILE + lane / PIECES;
    const MELEM *const at = mask + ((hr_i64)(line / along) * rows + first) * keys + k;
    hr_pack<MELEM, EACH> x[PIECES];
#pragma unroll
    for (int i = 0; i < PIECES; i++) {
        if (k < keys && first + i * STEP < rows) {
            x[i] = *(const hr_pack<MELEM, EACH> *)(at + i * STEP * keys);
        }
    }
    hr_u32 all = 0;
#pragma unroll
    for (int i = 0; i < PIECES; i++) {
        if (k < keys && first + i * STEP < rows) {
            all |= look(x[i]);
        }
    }
    hr_u32 found = 0;
#pragma unroll
    for (hr_u32 bit = SEEN; bit <= FINITE; bit *= 2) {
        found |= __any_sync(0xffffffffu, (all & bit) != 0) ? bit : 0u;
    }
    if (lane == 0) {
        flags[tile] = (hr_u8)found;
    }
}

#else

HR_KERNEL __launch_bounds__(THREADS)
    attention_flags(const MELEM *mask, hr_u8 *flags, hr_i64 count, hr_i64 rows, hr_i64 keys,
                    MELEM *copy, hr_i64 pitch) {
    const hr_i64 tile = (hr_i64)blockIdx.x * (THREADS / 32) + threadIdx.x / 32;
    if (tile >= count) {
        return; // the whole warp
    }
    const hr_i64 across = (keys + TILE - 1) / TILE, along = (rows + TILE - 1) / TILE;
    const hr_i64 k = tile % across * TILE + threadIdx.x % 32, first = tile / across % along * TILE;
    const MELEM *at = mask + (tile / across / along * rows + first) * keys + k;
    float seen = 0.0f, adds = 0.0f, hides = 0.0f, finite = 0.0f;
    copy += (tile / across / along * rows + first) * pitch + k;
    for (int i = 0; COPY && i < TILE && k < pitch && first + i < rows; i++) {
        copy[i * pitch] = k < keys ? at[i * keys] : MELEM();
    }
    for (int i = 0; i < TILE && k < keys && first + i < rows; i++) {
        const float x = hr_load(at[i * keys]);
        seen = x == hr_bits_float(0xff800000u) ? seen : 1.0f;
        adds = x == 0.0f ? adds : 1.0f;
        hides = x > -1e20f ? hides : 1.0f;
        finite = x < 0.5f * ROW_FAR && x >= ROW_LOWEST ? 1.0f : finite;
    }
    seen = hr_warp_max(seen);
    adds = hr_warp_max(adds);
    hides = hr_warp_max(hides);
    finite = hr_warp_max(finite);
    if (threadIdx.x % 32 == 0) {
        flags[tile] = (hr_u8)((seen > 0.0f ? SEEN : 0) | (adds > 0.0f ? ADDS : 0) |
                              (hides > 0.0f ? HIDES : 0) | (finite > 0.0f ? FINITE : 0));
    }
}
#endif

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

#ifndef MAKING
#define MAKING 0
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

// ---- masks of each sample or head, looked at while those before them are used ----
//
// attention_words.cu or attention_spread.cu has looked at the first ones and set the counters to 0.  Warps of all blocks that neither feed nor
// compute draw the tiles of the others, CHUNK at a time and in order, and make of them what those kernels do, in whole tiles: words of bytes, and what a
// tile of numbers does.  A block waits for a mask when it comes to it.  Whoever drew tiles is running, and what nobody drew the warps of a block
// that waits draw: so no block has to run for another one to go on.

// ops/common/attention_mask.h has the same.
struct making {
    hr_u32 *counters; // tiles that were drawn, and chunks that are made of each mask
    hr_u32 first, tiles, each, across; // tiles that were made before, all of them, those of a mask, those side by side
};
enum { CHUNK = 4 };

// Bits of 16 bytes that are not 0.
HR_INLINE hr_u32 shown_of(const uint4 &x) {
    const hr_u32 words[4] = {x.x, x.y, x.z, x.w};
    hr_u32 shown = 0;
#pragma unroll
    for (int i = 0; i < 4; i++) {
        const hr_u32 set = (((words[i] & 0x7f7f7f7fu) + 0x7f7f7f7fu) | words[i]) & 0x80808080u;
        shown |= (set >> 7) * 0x01020408u >> 24 << (4 * i);
    }
    return shown;
}
// As keys of two rows lie in a word: see attention_words.cu.
HR_INLINE hr_u32 every_second(hr_u32 x) {
    return (x & 0x55u) | (x & 0xaau) << 7 | (x & 0x5500u) << 8 | (x & 0xaa00u) << 15;
}
HR_INLINE hr_u32 make_words(const hr_u8 *mask, hr_u32 *words, hr_u32 tile, hr_u32 across) {
    const int lane = threadIdx.x & 31;
    const hr_u8 *const from =
        mask + ((hr_i64)(tile / across * 16 + lane / 4) * across + tile % across) * 64 + lane % 4 * 16;
    const uint4 upper = __ldcs((const uint4 *)from), lower = __ldcs((const uint4 *)(from + (hr_i64)across * 512));
    const hr_u32 both = shown_of(upper) | shown_of(lower) << 16;
    hr_u32 own[2] = {0, 0};
#pragma unroll
    for (int i = 0; i < 4; i++) { // four neighbours have the keys of each other
        const hr_u32 x = __shfl_sync(0xffffffffu, both, (lane & ~3) + i) >> (lane % 4 * 2);
        own[0] |= ((x & 3u) | (x >> 6 & 12u)) << (4 * i);
        own[1] |= ((x >> 16 & 3u) | (x >> 22 & 12u)) << (4 * i);
    }
    const hr_u32 word = every_second(own[0]) | every_second(own[1]) << 1;
    words[(hr_i64)tile * 32 + lane] = word;
    return (word ? SEEN : 0u) | (~word ? HIDES : 0u);
}
// Eight numbers.  Nearly always none is so low that it might hide: sign and two bits of the exponent are not all set.  Of masks that hide most
// are 0 and minus infinity.
HR_INLINE hr_u32 look_at(const uint4 &x) {
    const hr_u32 words[4] = {x.x, x.y, x.z, x.w};
    hr_u32 low = 0, any = 0, flags = 0;
#pragma unroll
    for (int i = 0; i < 4; i++) {
        low |= words[i] & words[i] << 1 & words[i] << 2;
        any |= words[i];
    }
    if (!(low & 0x80008000u)) {
        return SEEN | (any & 0x7fff7fffu ? ADDS : 0u);
    }
    hr_u32 unlike = 0, every = 0x00800080u;
#pragma unroll
    for (int i = 0; i < 4; i++) {
        const hr_u32 ones = words[i] & 0x00800080u; // the last bit of an exponent
        unlike |= words[i] ^ ones * (0xff80u / 0x80u);
        every &= ones;
    }
    if (!unlike) {
        return HIDES | ADDS | (every != 0x00800080u ? SEEN : 0u);
    }
#pragma unroll
    for (int i = 0; i < 8; i++) {
        const hr_u32 bits = i % 2 ? words[i / 2] & 0xffff0000u : words[i / 2] << 16;
        const float y = hr_bits_float(bits);
        flags |= y <= HIDING ? HIDES | ADDS | (y > none() ? FINITE : 0u)
                             : SEEN | (bits << 1 ? ADDS : 0u); // minus 0 adds nothing
    }
    return flags;
}
HR_INLINE hr_u32 look_at_tile(const hr_u16 *mask, hr_u32 tile, hr_u32 across) {
    const int lane = threadIdx.x & 31;
    const hr_u16 *const from =
        mask + ((hr_i64)(tile / across * 16 + lane / 8) * across + tile % across) * 64 + lane % 8 * 8;
    uint4 x[4];
    hr_u32 flags = 0;
#pragma unroll
    for (int i = 0; i < 4; i++) {
        x[i] = *(const uint4 *)(from + i * (hr_i64)across * 256);
    }
#pragma unroll
    for (int i = 0; i < 4; i++) {
        flags |= look_at(x[i]);
    }
    return flags;
}
// What this warp wrote is there for other blocks.
HR_INLINE void chunk_made(hr_u32 *counter) {
    __threadfence();
    __syncwarp();
    if (threadIdx.x % 32 == 0) {
        atomicAdd(counter, 1u);
    }
}
// Draws and makes what is left; `all_made` is for the emulator, where blocks run one after the other.
HR_INLINE void make_masks(const making &m, const void *mask, hr_u32 *words, hr_u8 *seen, hr_u64 *all_made) {
    for (;;) {
        const hr_u32 drawn = threadIdx.x % 32 == 0 ? atomicAdd(m.counters, (hr_u32)CHUNK) : 0u;
        const hr_u32 tile = m.first + __shfl_sync(0xffffffffu, drawn, 0);
        if (tile >= m.tiles) {
            break;
        }
#pragma unroll 1
        for (hr_u32 i = tile; i < tile + CHUNK; i++) {
            const hr_u32 own = ADD ? look_at_tile((const hr_u16 *)mask, i, m.across)
                                   : make_words((const hr_u8 *)mask, words, i, m.across);
            const hr_u32 flags = __reduce_or_sync(0xffffffffu, own);
            if (threadIdx.x % 32 == 0) {
                seen[i] = (hr_u8)flags;
            }
        }
        chunk_made(m.counters + 1 + tile / m.each);
    }
#ifdef HRI_EMULATED
    if (threadIdx.x % 32 == 0) {
        bar_arrive(all_made);
    }
#else
    (void)all_made;
#endif
}
// Waits for the mask of a tile.  A warp.
HR_INLINE void wait_made(const making &m, hr_u32 tile, hr_u64 *all_made) {
    if (tile < m.first) {
        return;
    }
#ifdef HRI_EMULATED
    bar_wait(all_made, 0);
#else
    hr_u32 now;
    do {
        asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(now) : "l"(m.counters + 1 + tile / m.each) : "memory");
    } while (now < m.each / CHUNK);
    (void)all_made;
#endif
}

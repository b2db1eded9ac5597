// Behind attention_hopper.cuh: barriers in memory, and numbers of a mask that attention_words.cu wrote as threads have their scores, a tile of
// 16 by 64 after the other, so that the copy engine brings a warp its own and products of a warp add them.
#ifndef TWO_PARTS // 1 / scale is no number of MELEM
#define TWO_PARTS 0
#endif

// ---- barriers in memory: a phase is over when all have arrived ----

HR_INLINE void bar_init(hr_u64 *bar, hr_u32 count) {
#ifdef HRI_EMULATED
    fake_now->phase_init(bar, count);
#else
    asm volatile(
        "mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"((hr_u32)__cvta_generic_to_shared(bar)),
        "r"(count)
        : "memory");
#endif
}
HR_INLINE void bar_arrive(hr_u64 *bar) {
#ifdef HRI_EMULATED
    fake_now->phase_arrive(bar);
#else
    asm volatile(
        "mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"((hr_u32)__cvta_generic_to_shared(bar))
        : "memory");
#endif
}
HR_INLINE void bar_wait(hr_u64 *bar, hr_u32 phase) {
#ifdef HRI_EMULATED
    fake_now->phase_wait(bar, phase);
#elif defined(__CUDA_ARCH_FEAT_SM90_ALL)
    asm volatile("{\n.reg .pred p;\nAGAIN:\n"
                 "mbarrier.try_wait.parity.shared::cta.b64 p, [%0], %1;\n"
                 "@p bra DONE;\nbra AGAIN;\nDONE:\n}" ::"r"((hr_u32)__cvta_generic_to_shared(bar)),
                 "r"(phase)
                 : "memory");
#endif
}

// ---- the copy engine ----

// Barriers that were made are seen by the copy engine after the next barrier.
HR_INLINE void bars_shown() {
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
#endif
}
// This thread arrives, and so many bytes are to.
HR_INLINE void bar_expect(hr_u64 *bar, hr_u32 bytes) {
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(
                     (hr_u32)__cvta_generic_to_shared(bar)),
                 "r"(bytes)
                 : "memory");
#endif
}
// Where a tensor lies, for the copy engine (cuTensorMapEncodeTiled).
struct __align__(64) tensor_map {
    char bytes[128];
};
// A box of it; its bytes arrive at `bar`.
HR_INLINE void load_box(char *to, const tensor_map &map, hr_u64 *bar, int x, int y, int z, int w) {
#ifdef HRI_EMULATED
    hr_emulated_tile(to, &map, x, y, z, w);
    (void)bar;
#elif defined(__CUDA_ARCH_FEAT_SM90_ALL)
    asm volatile(
        "cp.async.bulk.tensor.4d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, "
        "{%3, %4, %5, %6}], [%2];" ::"r"((hr_u32)__cvta_generic_to_shared(to)),
        "l"(&map), "r"((hr_u32)__cvta_generic_to_shared(bar)), "r"(x), "r"(y), "r"(z), "r"(w)
        : "memory");
#endif
}
// Behind the boxes that arrive at a barrier, and that bar_expect was told of.
HR_INLINE void boxes_end(hr_u64 *bar) {
#ifdef HRI_EMULATED // they are there
    bar_arrive(bar);
#else
    (void)bar;
#endif
}
// A place in a ring of `SLOTS`.
template <int SLOTS> struct cursor {
    int slot;
    hr_u32 phase;
    HR_INLINE void init() {
        slot = 0;
        phase = 0;
    }
    HR_INLINE void next() {
        slot = slot == SLOTS - 1 ? 0 : slot + 1;
        phase ^= slot == 0;
    }
};
// Warpgroups that feed give registers to those that compute.
template <int N> HR_INLINE void registers_fewer() {
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
    asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(N));
#endif
}
template <int N> HR_INLINE void registers_more() {
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
    asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(N));
#endif
}
enum { NUMBERS_OF_WARP = 16 * TILE * (int)sizeof(MELEM) };
HR_INLINE void load_numbers(char *to, const MELEM *from, hr_u64 *bar) {
    bar_expect(bar, NUMBERS_OF_WARP);
#ifdef HRI_EMULATED
    for (int i = 0; i < NUMBERS_OF_WARP; i++) {
        to[i] = ((const char *)from)[i];
    }
    bar_arrive(bar);
#elif defined(__CUDA_ARCH_FEAT_SM90_ALL)
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes "
                 "[%0], [%1], %2, [%3];" ::"r"((hr_u32)__cvta_generic_to_shared(to)),
                 "l"(from), "r"((hr_u32)NUMBERS_OF_WARP), "r"((hr_u32)__cvta_generic_to_shared(bar))
                 : "memory");
#endif
}

// ---- numbers of a mask ----

// Loads of what follows are not made before: there are no registers for them.
HR_INLINE void apart() {
#ifndef HRI_EMULATED
    asm volatile("" ::: "memory");
#endif
}
// Of a warp's tile of attention_words.cu.  Halves are multiplied by 1 / scale on a diagonal, which is two numbers of their
// type.
struct diagonal {
    hr_u32 large, small;
    HR_INLINE void init(float over) {
        int lane = threadIdx.x & 31;
#ifndef HRI_EMULATED
        asm volatile("mov.u32 %0, %laneid;" : "=r"(lane)); // here, every time: there are no registers to keep this in
#endif
        MELEM x, y;
        hr_store(&x, over);
        const float left = over - hr_load(x);
        hr_store(&y, left);
        const hr_u32 at = lane / 4 == lane % 4 * 2 ? 1u : lane / 4 == lane % 4 * 2 + 1 ? 0x10000u : 0u;
        large = bits_of(x) * at;
        small = bits_of(y) * at;
    }
    HR_INLINE hr_u32 bits_of(hr_bf16 x) const {
        return x.bits;
    }
    HR_INLINE hr_u32 bits_of(hr_f16 x) const {
        return x.bits;
    }
    HR_INLINE hr_u32 bits_of(float) const {
        return 0;
    }
};
#define BY_DIAGONAL(T)                                                                             \
    asm volatile("mma.sync.aligned.m16n8k8.row.col.f32." T "." T                                   \
                 ".f32 {%0,%1,%2,%3}, {%4,%5}, {%6}, {%0,%1,%2,%3};"                               \
                 : "+f"(s[0]), "+f"(s[1]), "+f"(s[2]), "+f"(s[3])                                  \
                 : "r"(low), "r"(high), "r"(d))
HR_INLINE bool is_bf16(float) {
    return false;
}
HR_INLINE void add_halves(float (&s)[4], hr_u32 low, hr_u32 high, hr_u32 d) {
#ifndef HRI_EMULATED
    if (is_bf16(MELEM())) {
        BY_DIAGONAL("bf16");
    } else {
        BY_DIAGONAL("f16");
    }
#endif
}
HR_INLINE float low_of(hr_u32, float) {
    return 0.0f;
}
HR_INLINE float high_of(hr_u32, float) {
    return 0.0f;
}
HR_INLINE void add_tile(float (&s)[8][4], const char *room, float over) {
    const int lane = threadIdx.x & 31;
    if (sizeof(MELEM) == 4) {
#pragma unroll
        for (int n = 0; n < 8; n++) {
            const float4 x = *(const float4 *)(room + n * 512 + lane * 16);
            s[n][0] = fmaf(x.x, over, s[n][0]);
            s[n][1] = fmaf(x.y, over, s[n][1]);
            s[n][2] = fmaf(x.z, over, s[n][2]);
            s[n][3] = fmaf(x.w, over, s[n][3]);
            apart();
        }
        return;
    }
    diagonal d;
    d.init(over);
#pragma unroll
    for (int n = 0; n < 4; n++) {
        const uint4 x = *(const uint4 *)(room + n * 512 + lane * 16);
#ifdef HRI_EMULATED
        const hr_u32 words[4] = {x.x, x.y, x.z, x.w};
        for (int i = 0; i < 4; i++) {
            float(&y)[4] = s[2 * n + i / 2];
            y[i % 2 * 2] = fmaf(low_of(words[i], MELEM()), over, y[i % 2 * 2]);
            y[i % 2 * 2 + 1] = fmaf(high_of(words[i], MELEM()), over, y[i % 2 * 2 + 1]);
        }
#else
        add_halves(s[2 * n], x.x, x.y, d.large);
        add_halves(s[2 * n + 1], x.z, x.w, d.large);
        if (TWO_PARTS) {
            add_halves(s[2 * n], x.x, x.y, d.small);
            add_halves(s[2 * n + 1], x.z, x.w, d.small);
        }
#endif
        apart();
    }
}

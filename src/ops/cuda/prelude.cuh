// What stands before every CUDA source of Headroom: types, conversions, wide loads, reductions, random numbers.
//
// No header of a toolkit is needed, because a machine with a driver and NVRTC alone has none.  HRI_EMULATED is defined
// where the tests run this text on the host, one thread of a block at a time: what is written in PTX has a plain form
// there.  Conversions round as graph/half.h does, random numbers are those of base/random.h.
//
// Rules for sources: sums are f32 and added in an order that shapes alone decide (no floating-point atomics), so that
// every run gives the same bits; offsets into tensors are 64 bits wide; dynamic shared memory is HR_SHARED(name).
#ifndef HR_PRELUDE // a text may be made of several that begin with this
#define HR_PRELUDE

typedef unsigned char hr_u8;
typedef signed char hr_i8;
typedef unsigned short hr_u16;
typedef unsigned int hr_u32;
typedef unsigned long long hr_u64;
typedef int hr_i32;
typedef long long hr_i64;

struct hr_bf16 {
    hr_u16 bits;
};
struct hr_f16 {
    hr_u16 bits;
};

// What changes between replays of a captured step; graph/op.h has the same.
struct hr_control {
    hr_u64 seed;
    hr_u32 step, first_sample;
};

#ifndef HRI_EMULATED
#define HR_SHARED(NAME) extern __shared__ __align__(128) unsigned char NAME[]
// A struct as a parameter that is indexed where it lies: tables of tensors, at most 4 KiB of them.
#define HR_TABLE const __grid_constant__
#else
#define HR_TABLE const
#endif
#ifndef INFINITY // NVRTC has no header that would say it
#define INFINITY __int_as_float(0x7f800000)
#endif
#define HR_KERNEL extern "C" __global__ void
#define HR_INLINE __device__ __forceinline__

// ---- conversions ----

HR_INLINE float hr_bits_float(hr_u32 bits) {
    return __uint_as_float(bits);
}
HR_INLINE float hr_load(float x) {
    return x;
}
HR_INLINE float hr_load(hr_bf16 x) {
    return __uint_as_float((hr_u32)x.bits << 16);
}
HR_INLINE float hr_load(hr_f16 x) {
#ifdef HRI_EMULATED
    return hr_emulated_from_f16(x.bits);
#else
    float f;
    asm("cvt.f32.f16 %0, %1;" : "=f"(f) : "h"(x.bits));
    return f;
#endif
}
HR_INLINE void hr_store(float *to, float x) {
    *to = x;
}
HR_INLINE void hr_store(hr_bf16 *to, float x) {
#ifdef HRI_EMULATED
    const hr_u32 bits = __float_as_uint(x);
    const hr_u32 rounded = (bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16;
    to->bits = (hr_u16)((bits & 0x7fffffffu) > 0x7f800000u ? (bits >> 16) | 0x40u : rounded);
#else
    // As one of two: the conversion of one alone goes through the slow unit of exponentials.
    asm("{ .reg .b32 two; .reg .b16 high; cvt.rn.bf16x2.f32 two, 0f00000000, %1; mov.b32 {%0, high}, two; }"
        : "=h"(to->bits)
        : "f"(x));
#endif
}
HR_INLINE void hr_store(hr_f16 *to, float x) {
#ifdef HRI_EMULATED
    to->bits = hr_emulated_to_f16(x);
#else
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(to->bits) : "f"(x));
#endif
}
// Whole numbers, for casts and indices.
HR_INLINE float hr_load(hr_i32 x) {
    return (float)x;
}
HR_INLINE float hr_load(hr_i64 x) {
    return (float)x;
}
HR_INLINE float hr_load(hr_u8 x) {
    return (float)x;
}

// Two numbers of a small type in one word, `low` in the low half.
HR_INLINE hr_u32 hr_two(float low, float high, hr_bf16) {
#ifdef HRI_EMULATED
    hr_bf16 a, b;
    hr_store(&a, low);
    hr_store(&b, high);
    return (hr_u32)b.bits << 16 | a.bits;
#else
    hr_u32 two;
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(two) : "f"(high), "f"(low));
    return two;
#endif
}
HR_INLINE hr_u32 hr_two(float low, float high, hr_f16) {
#ifdef HRI_EMULATED
    hr_f16 a, b;
    hr_store(&a, low);
    hr_store(&b, high);
    return (hr_u32)b.bits << 16 | a.bits;
#else
    hr_u32 two;
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(two) : "f"(high), "f"(low));
    return two;
#endif
}

// ---- N elements at once: one access of up to 16 bytes where N * sizeof(T) allows it ----

template <typename T, int N> struct __align__(N * sizeof(T) < 16 ? N * sizeof(T) : 16) hr_pack {
    T at[N];
};
// Number i of a pack, which the compiler must know: halves of a word of bf16 are one instruction each.
template <typename T, int N> HR_INLINE float hr_at(const hr_pack<T, N> &x, int i) {
    return hr_load(x.at[i]);
}
#ifndef HRI_EMULATED
template <int N> HR_INLINE float hr_at(const hr_pack<hr_bf16, N> &x, int i) {
    if (N % 2) {
        return hr_load(x.at[i]);
    }
    const hr_u32 two = ((const hr_u32 *)&x)[i / 2];
    return __uint_as_float(i % 2 ? two & 0xffff0000u : two << 16);
}
#endif
template <typename T, int N> HR_INLINE void hr_load_pack(const T *from, float (&out)[N]) {
    const hr_pack<T, N> x = *(const hr_pack<T, N> *)from;
#pragma unroll
    for (int i = 0; i < N; i++) {
        out[i] = hr_at(x, i);
    }
}
// Numbers in memory order as T: small types two by two, which is one conversion.
template <typename T, int N> struct hr_packer {
    static HR_INLINE void put(T *to, const float (&x)[N]) {
        hr_pack<T, N> y;
#pragma unroll
        for (int i = 0; i < N; i++) {
            hr_store(&y.at[i], x[i]);
        }
        *(hr_pack<T, N> *)to = y;
    }
};
template <typename T, int N> HR_INLINE void hr_put_twos(T *to, const float (&x)[N]) {
    hr_pack<hr_u32, N / 2> y;
#pragma unroll
    for (int i = 0; i < N / 2; i++) {
        y.at[i] = hr_two(x[2 * i], x[2 * i + 1], T());
    }
    *(hr_pack<hr_u32, N / 2> *)to = y;
}
#define HR_PACKER(T, N)                                                                            \
    template <> struct hr_packer<T, N> {                                                           \
        static HR_INLINE void put(T *to, const float (&x)[N]) {                                    \
            hr_put_twos<T, N>(to, x);                                                              \
        }                                                                                          \
    };
HR_PACKER(hr_bf16, 2)
HR_PACKER(hr_bf16, 4)
HR_PACKER(hr_bf16, 8)
HR_PACKER(hr_f16, 2)
HR_PACKER(hr_f16, 4)
HR_PACKER(hr_f16, 8)
template <typename T, int N> HR_INLINE void hr_store_pack(T *to, const float (&x)[N]) {
    hr_packer<T, N>::put(to, x);
}
// Elements of T in 16 bytes.
template <typename T> struct hr_wide {
    enum { count = 16 / sizeof(T) };
};

// ---- reductions ----

HR_INLINE float hr_warp_sum(float x) {
#pragma unroll
    for (int step = 16; step > 0; step /= 2) {
        x += __shfl_xor_sync(0xffffffffu, x, step);
    }
    return x;
}
HR_INLINE float hr_warp_max(float x) {
#pragma unroll
    for (int step = 16; step > 0; step /= 2) {
        x = fmaxf(x, __shfl_xor_sync(0xffffffffu, x, step));
    }
    return x;
}
// Over all threads of a block of whole warps, at most 1,024; every thread gets the result.  `room` has 32 floats and may
// be used again after the next barrier.
HR_INLINE float hr_block_sum(float x, float *room) {
    const int lane = threadIdx.x & 31, warp = threadIdx.x >> 5, warps = (blockDim.x + 31) >> 5;
    x = hr_warp_sum(x);
    __syncthreads();
    if (lane == 0) {
        room[warp] = x;
    }
    __syncthreads();
    x = lane < warps ? room[lane] : 0.0f;
    return hr_warp_sum(x);
}
HR_INLINE float hr_block_max(float x, float *room) {
    const int lane = threadIdx.x & 31, warp = threadIdx.x >> 5, warps = (blockDim.x + 31) >> 5;
    x = hr_warp_max(x);
    __syncthreads();
    if (lane == 0) {
        room[warp] = x;
    }
    __syncthreads();
    x = lane < warps ? room[lane] : room[0];
    return hr_warp_max(x);
}

// ---- powers of two, to 2 ulp; minus infinity gives 0 ----

HR_INLINE float hr_exp2(float x) {
#ifdef HRI_EMULATED
    return exp2f(x);
#else
    float y;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
#endif
}

// ---- tensor cores and copies into shared memory ----

// d (16, 8) += a (16, 16) b (16, 8), one warp; fragments as the m16n8k16 form of PTX's mma has them:
//   a: rows lane / 4 and + 8, columns lane % 4 * 2 (two numbers) and + 8: a[0] (row, col), a[1] (row + 8, col),
//      a[2] (row, col + 8), a[3] (row + 8, col + 8);   b: rows lane % 4 * 2 and + 8 of column lane / 4;
//   d: row lane / 4 in d[0], d[1], row + 8 in d[2], d[3]; columns lane % 4 * 2 and + 1.
HR_INLINE void hr_mma(float (&d)[4], const hr_u32 (&a)[4], const hr_u32 (&b)[2], hr_bf16) {
#ifdef HRI_EMULATED
    hr_emulated_mma_16816(d, a, b, true);
#else
    asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, "
        "{%0,%1,%2,%3};"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
#endif
}
HR_INLINE void hr_mma(float (&d)[4], const hr_u32 (&a)[4], const hr_u32 (&b)[2], hr_f16) {
#ifdef HRI_EMULATED
    hr_emulated_mma_16816(d, a, b, false);
#else
    asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, "
        "{%0,%1,%2,%3};"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
#endif
}
// d (16, 8) += a (16, 8) b (8, 8) with f32 bits of which the upper 19 count: a[0] (g, t), a[1] (g + 8, t), a[2] (g, t +
// 4), a[3] (g + 8, t + 4), b[0] (t, g), b[1] (t + 4, g), where g = lane / 4, t = lane % 4; d as above.
HR_INLINE void hr_mma_tf32(float (&d)[4], const hr_u32 (&a)[4], const hr_u32 (&b)[2]) {
#ifdef HRI_EMULATED
    hr_emulated_mma_1688_tf32(d, a, b);
#else
    asm("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "
                 "{%8, %9}, {%0, %1, %2, %3};"
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
#endif
}
// The nearest tf32 of x, as the bits that hr_mma_tf32 takes.
HR_INLINE hr_u32 hr_tf32(float x) {
#ifdef HRI_EMULATED
    const hr_u32 bits = __float_as_uint(x);
    return (bits & 0x7f800000u) == 0x7f800000u ? bits : (bits + 0x1000u) & 0xffffe000u;
#else
    hr_u32 y;
    asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(y) : "f"(x));
    return y;
#endif
}
// Four 8 x 8 matrices of 2-byte numbers from shared memory: lane l gives the address of row l % 8 of matrix l / 8, and
// gets two neighbours of row l / 4 of each, at columns l % 4 * 2; of column l / 4 with _turned.
HR_INLINE void hr_ldmatrix(hr_u32 (&r)[4], const void *row) {
#ifdef HRI_EMULATED
    hr_emulated_ldmatrix<4>(r, row, false);
#else
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"((hr_u32)__cvta_generic_to_shared(row))
                 : "memory");
#endif
}
HR_INLINE void hr_ldmatrix_turned(hr_u32 (&r)[4], const void *row) {
#ifdef HRI_EMULATED
    hr_emulated_ldmatrix<4>(r, row, true);
#else
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"((hr_u32)__cvta_generic_to_shared(row))
                 : "memory");
#endif
}
// 16 bytes to shared memory without waiting, the first `bytes` from memory, the rest zeros.  Copies between two commits
// are a group; hr_async_wait<N> waits until at most the last N groups are under way.  A barrier comes after it.
HR_INLINE void hr_async_copy(void *to, const void *from, hr_u32 bytes) {
#ifdef HRI_EMULATED
    fake_now->async_copy(to, from, 16, bytes);
#else
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(
                     (hr_u32)__cvta_generic_to_shared(to)),
                 "l"(from), "r"(bytes)
                 : "memory");
#endif
}
HR_INLINE void hr_async_commit() {
#ifdef HRI_EMULATED
    fake_now->async_commit();
#else
    asm volatile("cp.async.commit_group;" ::: "memory");
#endif
}
template <int N> HR_INLINE void hr_async_wait() {
#ifdef HRI_EMULATED
    fake_now->async_wait(N);
#else
    asm volatile("cp.async.wait_group %0;" ::"n"(N) : "memory");
#endif
}

// ---- random numbers: Philox4x32-10, the four words of block `block` of a place ----

HR_INLINE void hr_philox(hr_u64 seed, hr_u32 step, hr_u32 node, hr_u32 sample, hr_u32 block,
                         hr_u32 (&out)[4]) {
    hr_u32 k0 = (hr_u32)seed, k1 = (hr_u32)(seed >> 32);
    hr_u32 c0 = block, c1 = sample, c2 = node, c3 = step;
#pragma unroll
    for (int round = 0; round < 10; round++) {
        const hr_u32 h0 = __umulhi(0xD2511F53u, c0), l0 = 0xD2511F53u * c0;
        const hr_u32 h1 = __umulhi(0xCD9E8D57u, c2), l1 = 0xCD9E8D57u * c2;
        c0 = h1 ^ c1 ^ k0;
        c1 = l1;
        c2 = h0 ^ c3 ^ k1;
        c3 = l0;
        k0 += 0x9E3779B9u;
        k1 += 0xBB67AE85u;
    }
    out[0] = c0, out[1] = c1, out[2] = c2, out[3] = c3;
}
HR_INLINE float hr_uniform(hr_u32 word) {
    return (float)(word >> 8) * (1.0f / 16777216.0f);
}

// The kernel NAME_f32, NAME_bf16 and NAME_f16 from the template NAME<T>: BODY is its call.
#define HR_BY_TYPE(NAME, PARAMETERS, ARGUMENTS)                                                    \
    HR_KERNEL NAME##_f32 PARAMETERS(float) {                                                       \
        NAME<float> ARGUMENTS;                                                                     \
    }                                                                                              \
    HR_KERNEL NAME##_bf16 PARAMETERS(hr_bf16) {                                                    \
        NAME<hr_bf16> ARGUMENTS;                                                                   \
    }                                                                                              \
    HR_KERNEL NAME##_f16 PARAMETERS(hr_f16) {                                                      \
        NAME<hr_f16> ARGUMENTS;                                                                    \
    }

#endif

// What stands before every CUDA source of Headroom: types, conversions, wide loads, reductions, random numbers.
//
// No header of a toolkit is needed, because a machine with a driver and NVRTC alone has none.  HRI_EMULATED is defined
// where the tests run this text on the host, one thread of a block at a time: what is written in PTX has a plain form
// there.  Conversions round as graph/half.h does, random numbers are those of base/random.h.
//
// Rules for sources: sums are f32 and added in an order that shapes alone decide (no floating-point atomics), so that
// every run gives the same bits; offsets into tensors are 64 bits wide; dynamic shared memory is HR_SHARED(name).

typedef unsigned char hr_u8;
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
    const hr_u32 bits = __float_as_uint(x);
    const hr_u32 rounded = (bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16;
    to->bits = (hr_u16)((bits & 0x7fffffffu) > 0x7f800000u ? (bits >> 16) | 0x40u : rounded);
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

// ---- N elements at once: one access of up to 16 bytes where N * sizeof(T) allows it ----

template <typename T, int N> struct __align__(N * sizeof(T) < 16 ? N * sizeof(T) : 16) hr_pack {
    T at[N];
};
template <typename T, int N> HR_INLINE void hr_load_pack(const T *from, float (&out)[N]) {
    const hr_pack<T, N> x = *(const hr_pack<T, N> *)from;
#pragma unroll
    for (int i = 0; i < N; i++) {
        out[i] = hr_load(x.at[i]);
    }
}
template <typename T, int N> HR_INLINE void hr_store_pack(T *to, const float (&x)[N]) {
    hr_pack<T, N> y;
#pragma unroll
    for (int i = 0; i < N; i++) {
        hr_store(&y.at[i], x[i]);
    }
    *(hr_pack<T, N> *)to = y;
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

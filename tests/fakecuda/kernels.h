// CUDA C as C++ on the host: what stands before the text of a kernel when the fake NVRTC compiles it.
//
// A kernel becomes a plain function that the fake driver calls once a thread (emulator.h).  Shared memory is static,
// because one block runs at a time.  What must not be used in Headroom is not here, so that it does not compile:
// floating-point atomics (their order is not fixed), textures, printf.
//
// __global__ is left alone: the fake NVRTC looks for it in the preprocessed text to find the kernels.
#ifndef FAKECUDA_KERNELS_H
#define FAKECUDA_KERNELS_H

#define _GLIBCXX_INCLUDE_NEXT_C_HEADERS // the C header: the C++ one is slow to read, and names are made below
#include <math.h>
#include <stddef.h>
#include <string.h>
#include "emulator.h"

#define HRI_EMULATED  1
#define __CUDA_ARCH__ 900
#define __device__
#define __host__
#define __constant__
#define __shared__      static
#define __forceinline__ inline __attribute__((always_inline))
#define __noinline__    __attribute__((noinline))
#define __align__(N)    __attribute__((aligned(N)))
#define __launch_bounds__(...)
#define __grid_constant__
#define __builtin_assume(X) ((void)0)

extern "C" {
__attribute__((visibility("default"))) fake_emulator *fake_now;
}

#define threadIdx       (fake_now->thread)
#define blockIdx        (fake_now->block)
#define blockDim        (fake_now->block_dim)
#define gridDim         (fake_now->grid_dim)
#define warpSize        32
#define HR_SHARED(NAME) unsigned char *const NAME = fake_now->shared

typedef fake_uint3 uint3;
struct dim3 {
    unsigned x, y, z;
    dim3(unsigned a = 1, unsigned b = 1, unsigned c = 1) : x(a), y(b), z(c) {}
};

#define FAKE_VECTORS(T, NAME)                                                                      \
    struct __align__(sizeof(T)) NAME##1 {                                                          \
        T x;                                                                                       \
    };                                                                                             \
    struct __align__(2 * sizeof(T)) NAME##2 {                                                      \
        T x, y;                                                                                    \
    };                                                                                             \
    struct NAME##3 {                                                                               \
        T x, y, z;                                                                                 \
    };                                                                                             \
    struct __align__(4 * sizeof(T) < 16 ? 4 * sizeof(T) : 16) NAME##4 {                            \
        T x, y, z, w;                                                                              \
    };                                                                                             \
    inline NAME##1 make_##NAME##1(T x) {                                                           \
        return NAME##1 {x};                                                                        \
    }                                                                                              \
    inline NAME##2 make_##NAME##2(T x, T y) {                                                      \
        return NAME##2 {x, y};                                                                     \
    }                                                                                              \
    inline NAME##4 make_##NAME##4(T x, T y, T z, T w) {                                            \
        return NAME##4 {x, y, z, w};                                                               \
    }
FAKE_VECTORS(float, float);
FAKE_VECTORS(double, double);
FAKE_VECTORS(int, int);
FAKE_VECTORS(short, short);
FAKE_VECTORS(unsigned short, ushort);
FAKE_VECTORS(char, char);
FAKE_VECTORS(unsigned char, uchar);
FAKE_VECTORS(long long, longlong);
FAKE_VECTORS(unsigned long long, ulonglong);
struct __align__(4) uint1 {
    unsigned x;
};
struct __align__(8) uint2 {
    unsigned x, y;
};
struct __align__(16) uint4 {
    unsigned x, y, z, w;
};
inline uint2 make_uint2(unsigned x, unsigned y) {
    return uint2{x, y};
}
inline uint4 make_uint4(unsigned x, unsigned y, unsigned z, unsigned w) {
    return uint4{x, y, z, w};
}

// ---- bits ----

template <typename To, typename From> inline To fake_bits(From x) {
    static_assert(sizeof(To) == sizeof(From), "the same size");
    To y;
    memcpy(&y, &x, sizeof y);
    return y;
}
inline float __uint_as_float(unsigned x) {
    return fake_bits<float>(x);
}
inline unsigned __float_as_uint(float x) {
    return fake_bits<unsigned>(x);
}
inline float __int_as_float(int x) {
    return fake_bits<float>(x);
}
inline int __float_as_int(float x) {
    return fake_bits<int>(x);
}
inline double __longlong_as_double(long long x) {
    return fake_bits<double>(x);
}
inline long long __double_as_longlong(double x) {
    return fake_bits<long long>(x);
}
inline unsigned __umulhi(unsigned a, unsigned b) {
    return (unsigned)((unsigned long long)a * b >> 32);
}
inline int __mulhi(int a, int b) {
    return (int)((long long)a * b >> 32);
}
inline unsigned long long __umul64hi(unsigned long long a, unsigned long long b) {
    return (unsigned long long)((unsigned __int128)a * b >> 64);
}
inline int __popc(unsigned x) {
    return __builtin_popcount(x);
}
inline int __popcll(unsigned long long x) {
    return __builtin_popcountll(x);
}
inline int __clz(int x) {
    return x ? __builtin_clz((unsigned)x) : 32;
}
inline int __clzll(long long x) {
    return x ? __builtin_clzll((unsigned long long)x) : 64;
}
inline int __ffs(int x) {
    return __builtin_ffs(x);
}
inline int __ffsll(long long x) {
    return __builtin_ffsll(x);
}
inline unsigned __brev(unsigned x) {
    unsigned y = 0;
    for (int i = 0; i < 32; i++)
        y |= (x >> i & 1u) << (31 - i);
    return y;
}
inline unsigned __byte_perm(unsigned a, unsigned b, unsigned s) {
    const unsigned long long both = (unsigned long long)b << 32 | a;
    unsigned y = 0;
    for (int i = 0; i < 4; i++)
        y |= (unsigned)(both >> (8 * (s >> (4 * i) & 7u)) & 255u) << (8 * i);
    return y;
}
inline unsigned __funnelshift_l(unsigned lo, unsigned hi, unsigned n) {
    return (unsigned)(((unsigned long long)hi << 32 | lo) << (n & 31u) >> 32);
}
inline unsigned __funnelshift_r(unsigned lo, unsigned hi, unsigned n) {
    return (unsigned)(((unsigned long long)hi << 32 | lo) >> (n & 31u));
}

// ---- halves ----

inline float hr_emulated_from_f16(unsigned short h) {
    const unsigned sign = (unsigned)(h & 0x8000u) << 16, e = h >> 10 & 31u, m = h & 1023u;
    if (e == 31u)
        return __uint_as_float(sign | 0x7f800000u | m << 13 | (m ? 0x400000u : 0u));
    if (e == 0u)
        return (sign ? -1.0f : 1.0f) * (float)m * 0x1p-24f;
    return __uint_as_float(sign | (e + 112u) << 23 | m << 13);
}
inline unsigned short hr_emulated_to_f16(float x) {
    const unsigned bits = __float_as_uint(x), sign = bits >> 16 & 0x8000u, a = bits & 0x7fffffffu;
    if (a > 0x7f800000u)
        return (unsigned short)0x7fffu;
    if (a >= 0x477ff000u)
        return (unsigned short)(sign | 0x7c00u);
    if (a < 0x38800000u) { // subnormal: the addition rounds to the nearest multiple of 2^-24
        const float y = __uint_as_float(a) + 0.5f;
        return (unsigned short)(sign | (__float_as_uint(y) - 0x3f000000u));
    }
    const unsigned rounded = a + 0xfffu + (a >> 13 & 1u);
    return (unsigned short)(sign | ((rounded - 0x38000000u) >> 13));
}

// ---- arithmetic ----

#define FAKE_MINMAX(T)                                                                             \
    inline T min(T a, T b) {                                                                       \
        return b < a ? b : a;                                                                      \
    }                                                                                              \
    inline T max(T a, T b) {                                                                       \
        return a < b ? b : a;                                                                      \
    }

FAKE_MINMAX(int);
FAKE_MINMAX(unsigned);
FAKE_MINMAX(long long);
FAKE_MINMAX(unsigned long long);
FAKE_MINMAX(long);
FAKE_MINMAX(unsigned long);
inline unsigned min(int a, unsigned b) {
    return min((unsigned)a, b);
}
inline unsigned min(unsigned a, int b) {
    return min(a, (unsigned)b);
}
inline unsigned max(int a, unsigned b) {
    return max((unsigned)a, b);
}
inline unsigned max(unsigned a, int b) {
    return max(a, (unsigned)b);
}
inline long long min(int a, long long b) {
    return min((long long)a, b);
}
inline long long min(long long a, int b) {
    return min(a, (long long)b);
}
inline long long max(int a, long long b) {
    return max((long long)a, b);
}
inline long long max(long long a, int b) {
    return max(a, (long long)b);
}
inline float min(float a, float b) {
    return fminf(a, b);
}
inline float max(float a, float b) {
    return fmaxf(a, b);
}
inline double min(double a, double b) {
    return fmin(a, b);
}
inline double max(double a, double b) {
    return fmax(a, b);
}
// In CUDA the plain names take floats too.
#define FAKE_MATH1(NAME)                                                                           \
    inline float NAME(float x) {                                                                   \
        return NAME##f(x);                                                                         \
    }

FAKE_MATH1(sqrt);
FAKE_MATH1(exp);
FAKE_MATH1(exp2);
FAKE_MATH1(expm1);
FAKE_MATH1(log);
FAKE_MATH1(log2);
FAKE_MATH1(log10);
FAKE_MATH1(log1p);
FAKE_MATH1(sin);
FAKE_MATH1(cos);
FAKE_MATH1(tan);
FAKE_MATH1(tanh);
FAKE_MATH1(erf);
FAKE_MATH1(erfc);
FAKE_MATH1(fabs);
FAKE_MATH1(floor);
FAKE_MATH1(ceil);
FAKE_MATH1(round);
FAKE_MATH1(rint);
FAKE_MATH1(trunc);
FAKE_MATH1(sinh);
FAKE_MATH1(cosh);
FAKE_MATH1(atan);
FAKE_MATH1(asin);
FAKE_MATH1(acos);
FAKE_MATH1(cbrt);
inline float pow(float a, float b) {
    return powf(a, b);
}
inline float fmod(float a, float b) {
    return fmodf(a, b);
}
inline float atan2(float a, float b) {
    return atan2f(a, b);
}
inline float abs(float x) {
    return fabsf(x);
}
inline double abs(double x) {
    return fabs(x);
}
inline int abs(int x) {
    return x < 0 ? -x : x;
}
inline long long abs(long long x) {
    return x < 0 ? -x : x;
}
inline float rsqrtf(float x) {
    return 1.0f / sqrtf(x);
}
inline double rsqrt(double x) {
    return 1.0 / sqrt(x);
}
inline float rsqrt(float x) {
    return rsqrtf(x);
}
inline float rcbrtf(float x) {
    return 1.0f / cbrtf(x);
}
inline float normcdff(float x) {
    return 0.5f * erfcf(-x * 0.70710678118654752f);
}
inline float sinpif(float x) {
    return (float)sin(3.141592653589793 * (double)x);
}
inline float cospif(float x) {
    return (float)cos(3.141592653589793 * (double)x);
}
inline void sincospif(float x, float *s, float *c) {
    *s = sinpif(x), *c = cospif(x);
}
inline void __sincosf(float x, float *s, float *c) {
    *s = sinf(x), *c = cosf(x);
}
inline float __saturatef(float x) {
    return x > 0.0f ? (x < 1.0f ? x : 1.0f) : 0.0f;
}
inline float __expf(float x) {
    return expf(x);
}
inline float __exp2f(float x) {
    return exp2f(x);
}
inline float __exp10f(float x) {
    return powf(10.0f, x);
}
inline float __logf(float x) {
    return logf(x);
}
inline float __log2f(float x) {
    return log2f(x);
}
inline float __powf(float a, float b) {
    return powf(a, b);
}
inline float __sinf(float x) {
    return sinf(x);
}
inline float __cosf(float x) {
    return cosf(x);
}
inline float __tanhf(float x) {
    return tanhf(x);
}
inline float __fdividef(float a, float b) {
    return a / b;
}
inline float __fdiv_rn(float a, float b) {
    return a / b;
}
inline float __frcp_rn(float x) {
    return 1.0f / x;
}
inline float __fsqrt_rn(float x) {
    return sqrtf(x);
}
inline float __frsqrt_rn(float x) {
    return 1.0f / sqrtf(x);
}
inline float __fmaf_rn(float a, float b, float c) {
    return fmaf(a, b, c);
}
inline double __fma_rn(double a, double b, double c) {
    return fma(a, b, c);
}
// Never contracted, as in CUDA.
inline __attribute__((noinline)) float __fadd_rn(float a, float b) {
    return a + b;
}
inline __attribute__((noinline)) float __fsub_rn(float a, float b) {
    return a - b;
}
inline __attribute__((noinline)) float __fmul_rn(float a, float b) {
    return a * b;
}
inline __attribute__((noinline)) double __dadd_rn(double a, double b) {
    return a + b;
}
inline __attribute__((noinline)) double __dmul_rn(double a, double b) {
    return a * b;
}
inline int __float2int_rn(float x) {
    return (int)rintf(x);
}
inline int __float2int_rz(float x) {
    return (int)x;
}
inline int __float2int_rd(float x) {
    return (int)floorf(x);
}
inline int __float2int_ru(float x) {
    return (int)ceilf(x);
}
inline unsigned __float2uint_rn(float x) {
    return (unsigned)rintf(x);
}
inline unsigned __float2uint_rz(float x) {
    return (unsigned)x;
}
inline long long __float2ll_rn(float x) {
    return (long long)rintf(x);
}
inline long long __float2ll_rz(float x) {
    return (long long)x;
}
inline float __int2float_rn(int x) {
    return (float)x;
}
inline float __uint2float_rn(unsigned x) {
    return (float)x;
}
inline float __ll2float_rn(long long x) {
    return (float)x;
}
inline float __double2float_rn(double x) {
    return (float)x;
}

// ---- memory ----

#define FAKE_LOAD(NAME)                                                                            \
    template <typename T> inline T NAME(const T *from) {                                           \
        return *from;                                                                              \
    }

FAKE_LOAD(__ldg);
FAKE_LOAD(__ldcs);
FAKE_LOAD(__ldcg);
FAKE_LOAD(__ldca);
FAKE_LOAD(__ldlu);
FAKE_LOAD(__ldcv);
#define FAKE_STORE(NAME)                                                                           \
    template <typename T> inline void NAME(T *to, T x) {                                           \
        *to = x;                                                                                   \
    }

FAKE_STORE(__stcs);
FAKE_STORE(__stcg);
FAKE_STORE(__stwb);
FAKE_STORE(__stwt);
inline void __threadfence() {}
inline void __threadfence_block() {}
inline void __threadfence_system() {}
inline size_t __cvta_generic_to_shared(const void *p) {
    return (size_t)p;
}

#define FAKE_ATOMICS(T)                                                                            \
    inline T atomicAdd(T *at, T x) {                                                               \
        const T old = *at;                                                                         \
        *at = old + x;                                                                             \
        return old;                                                                                \
    }                                                                                              \
    inline T atomicExch(T *at, T x) {                                                              \
        const T old = *at;                                                                         \
        *at = x;                                                                                   \
        return old;                                                                                \
    }                                                                                              \
    inline T atomicCAS(T *at, T is, T x) {                                                         \
        const T old = *at;                                                                         \
        if (old == is)                                                                             \
            *at = x;                                                                               \
        return old;                                                                                \
    }                                                                                              \
    inline T atomicMax(T *at, T x) {                                                               \
        const T old = *at;                                                                         \
        if (x > old)                                                                               \
            *at = x;                                                                               \
        return old;                                                                                \
    }                                                                                              \
    inline T atomicMin(T *at, T x) {                                                               \
        const T old = *at;                                                                         \
        if (x < old)                                                                               \
            *at = x;                                                                               \
        return old;                                                                                \
    }                                                                                              \
    inline T atomicOr(T *at, T x) {                                                                \
        const T old = *at;                                                                         \
        *at = old | x;                                                                             \
        return old;                                                                                \
    }                                                                                              \
    inline T atomicAnd(T *at, T x) {                                                               \
        const T old = *at;                                                                         \
        *at = old & x;                                                                             \
        return old;                                                                                \
    }

FAKE_ATOMICS(int);
FAKE_ATOMICS(unsigned);
FAKE_ATOMICS(unsigned long long);
inline int atomicSub(int *at, int x) {
    return atomicAdd(at, -x);
}
inline unsigned atomicInc(unsigned *at, unsigned most) {
    const unsigned old = *at;
    *at = old >= most ? 0 : old + 1;
    return old;
}

// ---- threads together ----

inline void __syncthreads() {
    fake_now->barrier();
}
inline int __syncthreads_count(int p) {
    return (int)fake_now->barrier_count(p != 0);
}
inline int __syncthreads_or(int p) {
    return fake_now->barrier_count(p != 0) != 0;
}
inline int __syncthreads_and(int p) {
    return fake_now->barrier_count(p == 0) == 0;
}
inline unsigned fake_lane() {
    return (threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z)) & 31u;
}
inline void __syncwarp(unsigned mask = 0xffffffffu) {
    unsigned there;
    fake_now->exchange(mask, &mask, 0, &there);
}
inline unsigned __activemask() {
    return 0xffffffffu;
}
// The value of lane `from`; one that is not there gives bits that show.
template <typename T> inline T fake_take(unsigned mask, T x, unsigned from) {
    unsigned there;
    const unsigned char *all =
        (const unsigned char *)fake_now->exchange(mask, &x, sizeof x, &there);
    T y;
    memset(&y, 0xff, sizeof y);
    if (there >> from & 1u)
        memcpy(&y, all + from * sizeof y, sizeof y);
    return y;
}
template <typename T> inline T __shfl_sync(unsigned mask, T x, int from, int width = 32) {
    const unsigned lane = fake_lane(), w = (unsigned)width;
    return fake_take(mask, x, (lane & ~(w - 1u)) | ((unsigned)from & (w - 1u)));
}
template <typename T> inline T __shfl_xor_sync(unsigned mask, T x, int bits, int width = 32) {
    const unsigned lane = fake_lane(), from = lane ^ (unsigned)bits, w = (unsigned)width;
    return fake_take(mask, x, (from & ~(w - 1u)) > (lane & ~(w - 1u)) ? lane : from);
}
template <typename T> inline T __shfl_down_sync(unsigned mask, T x, unsigned by, int width = 32) {
    const unsigned lane = fake_lane(), w = (unsigned)width;
    return fake_take(mask, x, (lane & (w - 1u)) + by < w ? lane + by : lane);
}
template <typename T> inline T __shfl_up_sync(unsigned mask, T x, unsigned by, int width = 32) {
    const unsigned lane = fake_lane(), w = (unsigned)width;
    return fake_take(mask, x, (lane & (w - 1u)) >= by ? lane - by : lane);
}
inline unsigned __ballot_sync(unsigned mask, int p) {
    unsigned there, votes = 0;
    const unsigned char is = p != 0;
    const unsigned char *all = (const unsigned char *)fake_now->exchange(mask, &is, 1, &there);
    for (unsigned i = 0; i < 32; i++)
        votes |= (unsigned)((there >> i & 1u) && all[i]) << i;
    return votes;
}
inline int __any_sync(unsigned mask, int p) {
    return __ballot_sync(mask, p) != 0;
}
inline int __all_sync(unsigned mask, int p) {
    return __ballot_sync(mask, !p) == 0;
}
template <typename T> inline unsigned __match_any_sync(unsigned mask, T x) {
    unsigned there, same = 0;
    const unsigned char *all =
        (const unsigned char *)fake_now->exchange(mask, &x, sizeof x, &there);
    for (unsigned i = 0; i < 32; i++)
        same |= (unsigned)((there >> i & 1u) && memcmp(all + i * sizeof x, &x, sizeof x) == 0) << i;
    return same;
}
#define FAKE_REDUCE(NAME, T, STEP)                                                                 \
    inline T NAME(unsigned mask, T x) {                                                            \
        unsigned there;                                                                            \
        T all[32], y = x;                                                                          \
        memcpy(all, fake_now->exchange(mask, &x, sizeof x, &there), sizeof all);                   \
        bool first = true;                                                                         \
        for (unsigned i = 0; i < 32; i++) {                                                        \
            if (!(there >> i & 1u))                                                                \
                continue;                                                                          \
            y = first ? all[i] : STEP;                                                             \
            first = false;                                                                         \
        }                                                                                          \
        return y;                                                                                  \
    }
FAKE_REDUCE(__reduce_add_sync, unsigned, y + all[i]);
FAKE_REDUCE(__reduce_add_sync, int, y + all[i]);
FAKE_REDUCE(__reduce_max_sync, unsigned, max(y, all[i]));
FAKE_REDUCE(__reduce_max_sync, int, max(y, all[i]));
FAKE_REDUCE(__reduce_min_sync, unsigned, min(y, all[i]));
FAKE_REDUCE(__reduce_min_sync, int, min(y, all[i]));
FAKE_REDUCE(__reduce_or_sync, unsigned, y | all[i]);
// ---- tensor cores: the fragments of all lanes, then this lane's part of the product ----

// The numbers in the halves of words, lower ones first.  Elements are added up one after the other, several sums side by side.
inline void fake_halves(unsigned word, bool bf16, float *two) {
    two[0] = bf16 ? __uint_as_float(word << 16) : hr_emulated_from_f16((unsigned short)word);
    two[1] = bf16 ? __uint_as_float(word & 0xffff0000u)
                  : hr_emulated_from_f16((unsigned short)(word >> 16));
}
inline void hr_emulated_mma_16816(float (&d)[4], const unsigned (&a)[4], const unsigned (&b)[2],
                                  bool bf16) {
    typedef float four __attribute__((vector_size(16)));
    const unsigned mine[6] = {a[0], a[1], a[2], a[3], b[0], b[1]};
    unsigned there;
    const unsigned *all =
        (const unsigned *)fake_now->exchange(0xffffffffu, mine, sizeof mine, &there);
    if (there != 0xffffffffu)
        fake_now->fail("a matrix product without a whole warp");
    const unsigned lane = fake_lane();
    float rows[32],
        columns[32]; // of a: lane / 4 and 8 below it; of b: lane % 4 * 2 and the next one
    for (unsigned pair = 0; pair < 8; pair++) {
        const unsigned *of_a = all + 6 * (lane / 4 * 4 + pair % 4) + pair / 4 * 2,
                       *of_b = all + 6 * (lane % 4 * 8 + pair % 4) + 4 + pair / 4;
        fake_halves(of_a[0], bf16, rows + 2 * pair);
        fake_halves(of_a[1], bf16, rows + 16 + 2 * pair);
        fake_halves(of_b[0], bf16, columns + 2 * pair);
        fake_halves(of_b[24], bf16, columns + 16 + 2 * pair);
    }
    four sum = {d[0], d[1], d[2], d[3]};
    for (const float *x = rows, *y = columns; x < rows + 16; x++, y++) {
        sum += (four){x[0], x[0], x[16], x[16]} * (four){y[0], y[16], y[0], y[16]};
    }
    for (unsigned i = 0; i < 4; i++) {
        d[i] = sum[i];
    }
}
inline void hr_emulated_mma_1688_tf32(float (&d)[4], const unsigned (&a)[4],
                                      const unsigned (&b)[2]) {
    const unsigned mine[6] = {a[0], a[1], a[2], a[3], b[0], b[1]};
    unsigned there;
    const unsigned *all =
        (const unsigned *)fake_now->exchange(0xffffffffu, mine, sizeof mine, &there);
    if (there != 0xffffffffu)
        fake_now->fail("a matrix product without a whole warp");
    const unsigned lane = fake_lane();
    for (unsigned i = 0; i < 4; i++) {
        const unsigned row = lane / 4 + (i / 2) * 8, column = lane % 4 * 2 + i % 2;
        float sum = d[i];
        for (unsigned k = 0; k < 8; k++) {
            const unsigned x = all[6 * (row % 8 * 4 + k % 4) + row / 8 + k / 4 * 2] & 0xffffe000u;
            const unsigned y = all[6 * (column * 4 + k % 4) + 4 + k / 4] & 0xffffe000u;
            sum += __uint_as_float(x) * __uint_as_float(y);
        }
        d[i] = sum;
    }
}
template <int N>
inline void hr_emulated_ldmatrix(unsigned (&r)[N], const void *row, bool transposed) {
    unsigned there;
    if ((size_t)row % 16 != 0)
        fake_now->fail("ldmatrix from a row that is not aligned to 16 bytes");
    const void *const *rows =
        (const void *const *)fake_now->exchange(0xffffffffu, &row, sizeof row, &there);
    if (there != 0xffffffffu)
        fake_now->fail("ldmatrix without a whole warp");
    const unsigned lane = fake_lane();
    for (unsigned i = 0; i < (unsigned)N; i++) {
        unsigned short low, high;
        const unsigned at = lane / 4, pair = lane % 4 * 2;
        const char *const *m = (const char *const *)rows + 8 * i;
        memcpy(&low, transposed ? m[pair] + 2 * at : m[at] + 2 * pair, 2);
        memcpy(&high, transposed ? m[pair + 1] + 2 * at : m[at] + 2 * pair + 2, 2);
        r[i] = (unsigned)high << 16 | low;
    }
}

// Hopper's products of a warpgroup, a (64, 16) times b (16, 64): operands in shared memory are rows of 128 bytes whose pieces of
// 16 bytes are swizzled by bits 7 to 9 of their addresses; turned ones have the rows that are added up.
inline unsigned fake_swizzled(const char *base, unsigned row, unsigned column) { // of two columns
    size_t at = (size_t)base + row * 128 + column * 2;
    unsigned word;
    at ^= (at >> 7 & 7) << 4;
    memcpy(&word, (const void *)at, sizeof word);
    return word;
}
// A thread has two rows and, of each eight columns, two that lie side by side: those of all eights are one vector for each of both.
typedef float fake_eight __attribute__((vector_size(32)));
inline void fake_wgmma_load(fake_eight (&even)[16], fake_eight (&odd)[16], const char *b,
                            bool turned, bool bf16) {
    const unsigned first = fake_lane() % 4 * 2;
    for (unsigned i = 0; i < 64; i++) {
        const unsigned group = i % 8, pair = i / 8, column = group * 8 + first;
        float x[4];
        fake_halves(turned ? fake_swizzled(b, 2 * pair, column)
                           : fake_swizzled(b, column, 2 * pair),
                    bf16, x);
        fake_halves(turned ? fake_swizzled(b, 2 * pair + 1, column)
                           : fake_swizzled(b, column + 1, 2 * pair),
                    bf16, x + 2);
        ((float *)(even + 2 * pair))[group] = x[0];
        ((float *)(even + 2 * pair + 1))[group] = turned ? x[2] : x[1];
        ((float *)(odd + 2 * pair))[group] = turned ? x[1] : x[2];
        ((float *)(odd + 2 * pair + 1))[group] = x[3];
    }
}
inline void fake_wgmma(float (&d)[8][4], const float (&rows)[2][16], const char *b, bool turned,
                       bool add, bool bf16) {
    fake_eight even[16], odd[16];
    fake_wgmma_load(even, odd, b, turned, bf16);
    for (unsigned row = 0; row < 2; row++) {
        fake_eight one = {}, other = {};
        for (unsigned i = 0; add && i < 8; i++) {
            ((float *)&one)[i] = d[i][2 * row];
            ((float *)&other)[i] = d[i][2 * row + 1];
        }
        for (unsigned k = 0; k < 16; k++) {
            one += rows[row][k] * even[k];
            other += rows[row][k] * odd[k];
        }
        for (unsigned i = 0; i < 8; i++) {
            d[i][2 * row] = ((float *)&one)[i];
            d[i][2 * row + 1] = ((float *)&other)[i];
        }
    }
}
inline void hr_emulated_wgmma(float (&d)[8][4], const unsigned (&a)[4], const char *b, bool turned,
                              bool add, bool bf16) {
    unsigned there;
    const unsigned *all = (const unsigned *)fake_now->exchange(0xffffffffu, a, sizeof a, &there);
    if (there != 0xffffffffu)
        fake_now->fail("a matrix product without a whole warp");
    float rows[2][16];
    for (unsigned pair = 0; pair < 8; pair++) {
        const unsigned *from = all + 4 * (fake_lane() / 4 * 4 + pair % 4) + pair / 4 * 2;
        fake_halves(from[0], bf16, &rows[0][2 * pair]);
        fake_halves(from[1], bf16, &rows[1][2 * pair]);
    }
    fake_wgmma(d, rows, b, turned, add, bf16);
}
inline void hr_emulated_wgmma(float (&d)[8][4], const char *a, const char *b, bool turned, bool add,
                              bool bf16) {
    const unsigned first = threadIdx.x / 32 % 4 * 16 + fake_lane() / 4;
    float rows[2][16];
    for (unsigned i = 0; i < 16; i++) {
        fake_halves(fake_swizzled(a, first + i / 8 * 8, i % 8 * 2), bf16, &rows[i / 8][i % 8 * 2]);
    }
    fake_wgmma(d, rows, b, turned, add, bf16);
}

// The copy engine brings the box of a map whose first element is at these places (map.c): rows of 128 bytes, swizzled as above; what is
// outside is 0.  It is there at once, and whoever waits for it sees it by the barrier.
inline void hr_emulated_tile(char *to, const void *map, int c0, int c1, int c2, int c3) {
    const fake_map &m = *(const fake_map *)map;
    const int first[4] = {c0, c1, c2, c3};
    if (m.mark != FAKE_MAP_MARK || (size_t)to % 128 != 0)
        fake_now->fail("a copy by what is no map, or to where no tile may begin");
    for (unsigned row = 0; row < m.box[1] * m.box[2] * m.box[3]; row++) {
        const unsigned place[3] = {row % m.box[1], row / m.box[1] % m.box[2],
                                   row / m.box[1] / m.box[2]};
        bool there = true;
        const char *from = (const char *)m.at;
        for (int i = 0; i < 3; i++) {
            const long long at = first[i + 1] + (long long)place[i];
            there = there && at >= 0 && at < (long long)m.sizes[i + 1];
            from += at * (long long)m.strides[i];
        }
        for (unsigned x = 0; x < m.box[0]; x++) {
            const long long at = first[0] + (long long)x;
            size_t spot = (size_t)to + row * 128 + x * m.bytes;
            spot ^= (spot >> 7 & 7) << 4;
            if (there && at >= 0 && at < (long long)m.sizes[0])
                memcpy((void *)spot, from + at * (long long)m.bytes, m.bytes);
            else
                memset((void *)spot, 0, m.bytes);
        }
    }
}

// ---- how the driver calls a kernel: one pointer an argument ----

template <size_t... I> struct fake_places {};
template <size_t N, size_t... I> struct fake_count : fake_count<N - 1, N - 1, I...> {};
template <size_t... I> struct fake_count<0, I...> { typedef fake_places<I...> type; };
template <typename T> struct fake_plain { typedef T type; };
template <typename T> struct fake_plain<const T> { typedef T type; };
template <typename T> struct fake_plain<T &> { typedef typename fake_plain<T>::type type; };
template <typename... A, size_t... I>
inline void fake_call_at(void (*f)(A...), void **args, fake_places<I...>) {
    f(*(typename fake_plain<A>::type *)args[I]...);
}
template <typename... A> inline void fake_call(void (*f)(A...), void **args) {
    fake_call_at(f, args, typename fake_count<sizeof...(A)>::type());
}
// How many arguments, then their sizes.
template <typename... A> inline unsigned fake_sizes(void (*)(A...), unsigned *out) {
    const unsigned sizes[sizeof...(A) + 1] = {(unsigned)sizeof(typename fake_plain<A>::type)..., 0};
    for (unsigned i = 0; i < sizeof...(A); i++)
        out[i] = sizes[i];
    return (unsigned)sizeof...(A);
}

#endif

/* The kernels of gemm_i8.h: plain C, AVX2, AVX-VNNI, AVX-512 with VNNI, Arm's products of matrices and dot product. */
#include "ops/common/gemm_i8.h"

#include <string.h>

#if defined(__aarch64__) && defined(__linux__)
#include <sys/auxv.h>
#include "ops/common/gemm_i8_arm.h"
#endif
#if defined(__x86_64__)
#include <cpuid.h>
#include "ops/common/gemm_i8_x86.h"
#endif

#include "ops/common/gemm_i8_finish.h"

enum { NR = HRI_I8_COLUMNS };

static void plain(int64_t fours, const uint8_t *a, int64_t lda, int rows, const int8_t *b,
                  const hri_i8_finish *f) {
    for (int i = 0; i < rows; i++) {
        int32_t sum[NR] = {0};
        for (int64_t k = 0; k < fours; k++) {
            const uint8_t *x = a + i * lda + k * 4;
            const int8_t *w = b + k * NR * 4;
            for (int j = 0; j < NR; j++) {
                sum[j] += x[0] * w[4 * j] + x[1] * w[4 * j + 1] + x[2] * w[4 * j + 2] +
                          x[3] * w[4 * j + 3];
            }
        }
        hri_i8_put(sum, i, f);
    }
}

static const hri_i8_kernel kernels[] = {
#if defined(__x86_64__)
    {"avx512_vnni", hri_i8_avx512, 4, 0, 1},
    {"avx_vnni", hri_i8_avx_vnni, 4, 0, 1},
    {"avx2", hri_i8_avx2, 4, 0, 0},
#endif
#if defined(__aarch64__) && defined(__linux__)
    {"i8mm", hri_i8_i8mm, 8, 0, 1},
    {"dotprod", hri_i8_dotprod, 4, 128, 1},
#endif
    {"plain", plain, 4, 0, 0},
};

#if defined(__x86_64__)
/* Compilers that know the instructions do not all know their name: leaf 7, part 1, EAX bit 4. */
static int has_avx_vnni(void) {
    unsigned a = 0, b = 0, c = 0, d = 0;
    return __builtin_cpu_supports("avx2") && __get_cpuid_count(7, 1, &a, &b, &c, &d) &&
           (a >> 4 & 1);
}
#endif

static int works(const hri_i8_kernel *k) {
#if defined(__x86_64__)
    if (k->run == hri_i8_avx512) {
        return __builtin_cpu_supports("avx512vnni") && __builtin_cpu_supports("avx512bw") &&
               __builtin_cpu_supports("avx512f");
    }
    if (k->run == hri_i8_avx_vnni) {
        return has_avx_vnni();
    }
    if (k->run == hri_i8_avx2) {
        return __builtin_cpu_supports("avx2");
    }
#endif
#if defined(__aarch64__) && defined(__linux__)
    if (k->run == hri_i8_i8mm) {
        return (getauxval(AT_HWCAP2) & HWCAP2_I8MM) != 0;
    }
    if (k->run == hri_i8_dotprod) {
        return (getauxval(AT_HWCAP) & HWCAP_ASIMDDP) != 0;
    }
#endif
    return k->run == plain;
}

const hri_i8_kernel *hri_i8_kernel_at(size_t i) {
    for (size_t k = 0; k < sizeof kernels / sizeof kernels[0]; k++) {
        if (works(&kernels[k]) && i-- == 0) {
            return &kernels[k];
        }
    }
    return NULL;
}

const hri_i8_kernel *hri_i8_kernel_pick(void) {
    return hri_i8_kernel_at(0);
}

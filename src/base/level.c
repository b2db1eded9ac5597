/* See level.h.  The code of each level lies in one piece, whose ends have names. */
#include "base/level.h"

#ifdef HEADROOM_LEVELS
/* Weak: a program that links the static library and runs no op has none of them. */
#define ENDS(LEVEL)                                                                                \
    extern const char hri_level_##LEVEL[] __attribute__((weak, visibility("hidden"))),             \
        hri_level_##LEVEL##_end[] __attribute__((weak, visibility("hidden")))
ENDS(v3);
ENDS(v4);

uint32_t hri_level_best(void) {
    const int v3 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("bmi") &&
                   __builtin_cpu_supports("bmi2");
    const int v4 = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                   __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
    return v3 ? 1 + (uint32_t)v4 : 0;
}

/* The kernel maps up to 64 KiB around a page that is read, so as much at each end is left out. */
static uint64_t inside(const char *start, const char *stop) {
    static const uint64_t around = UINT64_C(64) << 10;
    const uint64_t bytes = (uint64_t)((uintptr_t)stop - (uintptr_t)start);
    return bytes > 2 * around ? (bytes - 2 * around) / around * around : 0;
}

uint64_t hri_level_unused_bytes(void) {
    const uint32_t best = hri_level_best();
    return (best == 1 ? 0 : inside(hri_level_v3, hri_level_v3_end)) +
           (best == 2 ? 0 : inside(hri_level_v4, hri_level_v4_end));
}
#else
uint32_t hri_level_best(void) {
    return 0;
}

uint64_t hri_level_unused_bytes(void) {
    return 0;
}
#endif

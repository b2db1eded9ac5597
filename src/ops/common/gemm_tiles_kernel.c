/* Which kernels of gemm_tiles.h this processor has: those of AMX, where the system lets a process have its registers. */
#include "ops/common/gemm_tiles.h"

#include <stddef.h>

#if defined(__x86_64__) && defined(__linux__)
#include <cpuid.h>
#include <immintrin.h>
#include <pthread.h>
#include <sys/syscall.h>
#include <unistd.h>

#define HRI_TILES_TARGET                                                                           \
    __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,amx-tile,amx-bf16")))
#define HRI_TILES_BEGIN()          begin_tiles()
#define HRI_TILES_END()            _tile_release()
#define HRI_TILE_ZERO(T)           _tile_zero(T)
#define HRI_TILE_LOAD(T, FROM, BY) _tile_loadd(T, FROM, BY)
#define HRI_TILE_STORE(T, TO, BY)  _tile_stored(T, TO, BY)
#define HRI_TILE_ADD(C, A, B)      _tile_dpbf16ps(C, A, B)

/* Eight tiles of 16 rows of 64 bytes. */
HRI_TILES_TARGET static void begin_tiles(void) {
    static const struct {
        uint8_t palette, start, reserved[14];
        uint16_t bytes[16];
        uint8_t rows[16];
    } all = {.palette = 1,
             .bytes = {64, 64, 64, 64, 64, 64, 64, 64},
             .rows = {16, 16, 16, 16, 16, 16, 16, 16}};
    _tile_loadconfig(&all);
}

#include "ops/common/gemm_tiles_rows.h"

static pthread_once_t once = PTHREAD_ONCE_INIT;
static int has_tiles;

/* The registers are 8 KiB a thread: the system saves them for those who asked. */
static void ask_for_tiles(void) {
    enum { ASK = 0x1023, TILE_DATA = 18, BF16 = 1 << 22, TILE = 1 << 24 };
    unsigned a, b, c, d;
    has_tiles = __get_cpuid_count(7, 0, &a, &b, &c, &d) && (d & BF16) && (d & TILE) &&
                __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl") &&
                syscall(SYS_arch_prctl, ASK, TILE_DATA) == 0;
}
#endif

hri_gemm_tiles hri_gemm_tiles_pick(void) {
#if defined(__x86_64__) && defined(__linux__)
    pthread_once(&once, ask_for_tiles);
    if (has_tiles) {
        return (hri_gemm_tiles){hri_tiles_pack_a, hri_tiles_pack_b, hri_tiles_multiply,
                                hri_tiles_split_rows, hri_tiles_multiply_steps};
    }
#endif
    return (hri_gemm_tiles){0};
}

/* Matrices turned for who wants them the other way round: weights for a library's convolutions, the second operand of products.
 *
 * Numbers of 2 bytes that stay of their type are moved two at a time, 64 by 64; all others one by one, 32 by 32. */
#include "device/cuda/gpu_product.h"

#include <stdio.h>

#include "device/cuda/gpu_state.h"

HRI_CU(turn);

enum { THREADS = 256, SIDE = 32, PAIRS_SIDE = 64 };

static hr_status turn_pairs(hri_gpu *gpu, hr_addr from, hr_addr to, int64_t rows, int64_t columns) {
    const hri_gpu_grid grid = {.x = (uint32_t)((columns + PAIRS_SIDE - 1) / PAIRS_SIDE),
                               .y = (uint32_t)((rows + PAIRS_SIDE - 1) / PAIRS_SIDE),
                               .threads = THREADS,
                               .shared_bytes = PAIRS_SIDE * (PAIRS_SIDE + 2) * 2};
    return hri_gpu_launch(gpu, &hri_cu_turn, "-DHR_T=hr_bf16 -DHR_Y=hr_bf16", "turn_pairs", &grid,
                          HRI_GPU_ARGS(&from, &to, &rows, &columns));
}

hr_status hri_gpu_turn(hri_gpu *gpu, hr_type type, hr_type to_type, hr_addr from, hr_addr to,
                       int64_t rows, int64_t columns) {
    static const char *const names[] = {"float", "hr_bf16", "hr_f16"};
    if (type == to_type && hr_type_bytes(type) == 2 && rows % 2 == 0 && columns % 2 == 0 &&
        ((from | to) & 3) == 0) {
        return turn_pairs(gpu, from, to, rows, columns);
    }
    char defines[48];
    const char *a = names[type == HR_TYPE_F16 ? 2 : type == HR_TYPE_BF16];
    const char *b = names[to_type == HR_TYPE_F16 ? 2 : to_type == HR_TYPE_BF16];
    const hri_gpu_grid grid = {.x = (uint32_t)((columns + SIDE - 1) / SIDE),
                               .y = (uint32_t)((rows + SIDE - 1) / SIDE),
                               .threads = THREADS,
                               .shared_bytes = SIDE * (SIDE + 1) * sizeof(float)};
    snprintf(defines, sizeof defines, "-DHR_T=%s -DHR_Y=%s", a, b);
    return hri_gpu_launch(gpu, &hri_cu_turn, defines, "turn", &grid,
                          HRI_GPU_ARGS(&from, &to, &rows, &columns));
}

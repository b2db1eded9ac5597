/* Tables and launches of ranges.cu. */
#include "device/cuda/gpu_state.h"

HRI_CU(ranges);

enum { RANGES = HRI_GPU_RANGES, PIECE = 32768, THREADS = 256 };

/* As in ranges.cu. */
typedef struct range {
    uint64_t to, from;
    uint32_t first, last;
} range;

typedef struct table {
    uint32_t count, blocks;
    range range[RANGES];
} table;

_Static_assert(sizeof(table) <= 4096, "the table is the parameter of a kernel");

static hr_status launch(hri_gpu *gpu, table *t, uint32_t blocks) {
    const hri_gpu_grid grid = {.x = blocks, .threads = THREADS};
    t->blocks = blocks;
    return hri_gpu_launch(gpu, &hri_cu_ranges, NULL, "copy_ranges", &grid, HRI_GPU_ARGS(t));
}

hr_status hri_gpu_copy_ranges(hri_gpu *gpu, const hri_gpu_range *ranges, uint32_t count) {
    table t = {0};
    uint32_t blocks = 0;
    hr_status status = HR_OK;
    for (uint32_t i = 0; i < count && status == HR_OK; i++) {
        const uint64_t more = (ranges[i].bytes + PIECE - 1) / PIECE;
        if (more > INT32_MAX) {
            return hri_gpu_fail(gpu, HR_E_RANGE, "a range of %llu bytes",
                                (unsigned long long)ranges[i].bytes);
        }
        if (t.count == RANGES || blocks + more > INT32_MAX) {
            status = launch(gpu, &t, blocks);
            t.count = blocks = 0;
        }
        if (more) {
            const uint64_t last = ranges[i].bytes - (more - 1) * PIECE;
            t.range[t.count++] = (range){ranges[i].to, ranges[i].from, blocks, (uint32_t)last};
            blocks += (uint32_t)more;
        }
    }
    return status == HR_OK && t.count ? launch(gpu, &t, blocks) : status;
}

hr_status hri_gpu_load_ranges(hri_gpu *gpu) {
    table none = {0};
    return launch(gpu, &none, 1);
}

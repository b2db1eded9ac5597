/* The cut of a sum, and its launches; see reduce_cuda.h. */
#include "ops/common/reduce_cuda.h"

HRI_CU(reduce);

enum { THREADS = 256, BLOCKS = 660, WARP = 32 };

hri_pattern hri_pattern_of(const hri_reduction *r) {
    hri_pattern p = {.rank = r->rank};
    for (int d = 0; d < r->rank; d++) {
        p.dim[d] = r->dim[d];
        p.reduced[d] = r->sum[d];
    }
    return p;
}

typedef struct cut {
    int width;       /* elements of an access */
    int64_t parts;   /* of the middle */
    int64_t each;    /* elements of the middle in a part */
    uint32_t across; /* columns: 2^across threads lie side by side */
    int64_t tiles;   /* columns: blocks side by side */
} cut;

static void set_parts(cut *c, const hri_reduction *r, int64_t blocks, int64_t least) {
    const int64_t most = hri_launch_max(hri_launch_up(r->middle, least), 1);
    c->parts = hri_launch_min(hri_launch_max(BLOCKS / hri_launch_max(blocks, 1), 1), most);
    c->each = hri_launch_up(r->middle, c->parts);
}

static cut cut_columns(const hri_reduction *r, hr_type type, int wide) {
    cut c = {.width = wide ? hri_launch_width(type, r->inner) : 1};
    const int64_t packs = r->inner / c.width;
    /* Short columns need few rows of threads. */
    c.across = hri_launch_across(packs, r->middle < 16 ? THREADS : WARP);
    c.tiles = hri_launch_up(packs, 1 << c.across);
    set_parts(&c, r, r->outer * c.tiles, 8 * (THREADS >> c.across));
    return c;
}

static cut cut_rows(const hri_reduction *r, hr_type type, int wide) {
    cut c = {.width = wide ? hri_launch_width(type, r->middle) : 1};
    set_parts(&c, r, r->outer, 8192);
    c.each = hri_launch_up(c.each, 64) * 64; /* whole accesses */
    c.parts = hri_launch_max(hri_launch_up(r->middle, hri_launch_max(c.each, 1)), 1);
    return c;
}

static cut cut_of(const hri_reduction *r, hr_type type, int wide) {
    return r->inner == 1 ? cut_rows(r, type, wide) : cut_columns(r, type, wide);
}

uint64_t hri_reduction_launch_workspace(const hri_reduction *r, hr_type type) {
    if (!r->outer || !r->results) {
        return 0;
    }
    const int64_t wide = cut_of(r, type, 1).parts, narrow = cut_of(r, type, 0).parts;
    const int64_t parts = hri_launch_max(wide, narrow);
    return parts > 1 ? (uint64_t)(r->outer * parts * r->inner) * sizeof(float) : 0;
}

static hr_status launch_general(hri_gpu *gpu, const hri_reduction *r, hr_type type, hr_addr in,
                                hr_addr out, float scale) {
    hri_pattern p = hri_pattern_of(r);
    int64_t results = r->results;
    return hri_gpu_launch(
        gpu, &hri_cu_reduce, hri_launch_t(type, 1).text, "general",
        &(hri_gpu_grid){.x = hri_launch_blocks(results, THREADS / WARP), .threads = THREADS},
        HRI_GPU_ARGS(&in, &out, &results, &p, &scale));
}

static hr_status launch_columns(hri_gpu *gpu, const hri_reduction *r, const cut *c,
                                const char *defines, hr_addr in, hr_addr out, hr_addr partial,
                                float scale) {
    int64_t middle = r->middle, inner = r->inner, each = c->each;
    uint32_t parts = (uint32_t)c->parts, tiles = (uint32_t)c->tiles, across = c->across;
    return hri_gpu_launch(
        gpu, &hri_cu_reduce, defines, "columns",
        &(hri_gpu_grid){.x = (uint32_t)(r->outer * c->parts * c->tiles), .threads = THREADS},
        HRI_GPU_ARGS(&in, &out, &partial, &middle, &inner, &each, &parts, &tiles, &across, &scale));
}

static hr_status launch_rows(hri_gpu *gpu, const hri_reduction *r, const cut *c,
                             const char *defines, hr_addr in, hr_addr out, hr_addr partial,
                             float scale) {
    int64_t count = r->outer * c->parts, middle = r->middle, each = c->each;
    uint32_t parts = (uint32_t)c->parts, lanes = each <= 1024 ? WARP : THREADS;
    return hri_gpu_launch(
        gpu, &hri_cu_reduce, defines, "rows",
        &(hri_gpu_grid){.x = hri_launch_blocks(count, THREADS / lanes), .threads = THREADS},
        HRI_GPU_ARGS(&in, &out, &partial, &count, &middle, &each, &parts, &lanes, &scale));
}

hr_status hri_reduction_launch(hri_gpu *gpu, const hri_reduction *r, hr_type type, hr_addr in,
                               hr_addr out, float scale, hr_addr workspace) {
    if (r->results == 0) {
        return HR_OK;
    }
    if (!r->outer) {
        return launch_general(gpu, r, type, in, out, scale);
    }
    const cut c = cut_of(r, type, hri_launch_wide(in | out));
    const hri_defines d = hri_launch_t(type, c.width);
    const hr_addr partial = c.parts > 1 ? workspace : 0;
    const hr_status status = r->inner == 1
                                 ? launch_rows(gpu, r, &c, d.text, in, out, partial, scale)
                                 : launch_columns(gpu, r, &c, d.text, in, out, partial, scale);
    if (status != HR_OK || c.parts == 1) {
        return status;
    }
    int64_t results = r->results, inner = r->inner;
    uint32_t parts = (uint32_t)c.parts,
             across = parts > 32 ? 3 : 5; /* 32 bytes side by side at least */
    return hri_gpu_launch(
        gpu, &hri_cu_reduce, d.text, "combine",
        &(hri_gpu_grid){.x = hri_launch_blocks(results, 1 << across), .threads = THREADS},
        HRI_GPU_ARGS(&workspace, &out, &results, &inner, &parts, &across, &scale));
}

/* See gpu_product.h and the head of product.cu.
 *
 * The inner dimension is cut into parts when the results alone would leave multiprocessors idle: the weights' gradient of
 * a convolution has few results and a long sum.  How many parts depends on the shape, the device and the work space,
 * never on time, so results are the same each time. */
#include "device/cuda/gpu_product.h"

#include <stdio.h>
#include "base/alloc.h"

HRI_CU(product);
HRI_CU(direct_conv);

/* DEPTH is the larger of the two in product.cu. */
enum { TILE = 128, DEPTH = 32, PARTS_MAX = 64, DEPTH_MIN = 256, THREADS = 256 };
/* Dynamic shared memory of a tile: two of a and b with 40 numbers a row on tensor cores, else 16 rows of each in f32. */
enum { MMA_SHARED = 4 * TILE * 40 * 2, FMA_SHARED = 2 * 16 * (TILE + 4) * 4 };

/* As in product.cu. */
typedef struct product {
    int64_t batch, m, n, k, lda, ldb, ldy, a_step, b_step, y_step;
    int64_t splits, depth;
    int32_t ta, tb, add, bias;
    int32_t h, w, c, o, p, q, kh, kw, stride_h, stride_w, top, left, dilation_h, dilation_w, cg, og;
} product;

static int64_t up(int64_t a, int64_t b) {
    return (a + b - 1) / b;
}
static int64_t least(int64_t a, int64_t b) {
    return a < b ? a : b;
}

static const char *name_of(hr_type type) {
    return type == HR_TYPE_F16 ? "hr_f16" : type == HR_TYPE_BF16 ? "hr_bf16" : "float";
}

/* Parts of the inner dimension that fit into `bytes`; 1 when cutting gains nothing. */
static int64_t parts_of(hri_gpu *gpu, const product *g, uint64_t bytes) {
    const int64_t tiles = up(g->m, TILE) * up(g->n, TILE) * g->batch;
    const int64_t processors = (int64_t)hri_gpu_processors(gpu);
    const uint64_t one = (uint64_t)(g->batch * g->m * g->n) * sizeof(float);
    if (tiles <= 0 || tiles >= processors || g->k < 2 * DEPTH_MIN) {
        return 1;
    }
    int64_t parts = least(up(2 * processors, tiles), g->k / DEPTH_MIN);
    parts = least(least(parts, PARTS_MAX), (int64_t)(bytes / one));
    return parts < 2 ? 1 : parts;
}

static uint64_t workspace_of(hri_gpu *gpu, const product *g, uint64_t limit) {
    const int64_t parts = parts_of(gpu, g, limit);
    return parts < 2 ? 0 : (uint64_t)(parts * g->batch * g->m * g->n) * sizeof(float);
}

static hr_status launch(hri_gpu *gpu, product *g, int loading, hr_type type, hr_type y_type,
                        hr_type bias_type, hr_addr a, hr_addr b, hr_addr bias, hr_addr y,
                        hr_addr workspace, uint64_t workspace_bytes) {
    if (g->batch * g->m * g->n == 0) {
        return HR_OK;
    }
    char defines[128];
    const int mma = type != HR_TYPE_F32;
    snprintf(defines, sizeof defines,
             "-DHR_T=%s -DHR_Y=%s -DHR_BIAS=%s -DHR_LOADING=%d -DHR_MMA=%d", name_of(type),
             name_of(y_type), name_of(bias_type), loading, mma);
    g->splits = parts_of(gpu, g, workspace ? workspace_bytes : 0);
    g->depth = up(up(g->k, g->splits), DEPTH) * DEPTH;
    g->splits = g->k ? up(g->k, g->depth) : 1;
    const hri_gpu_grid tiles = {
        .x = (uint32_t)(up(g->m, TILE) * up(g->n, TILE)),
        .y = (uint32_t)g->splits,
        .z = (uint32_t)least(g->batch, 32768),
        .threads = THREADS,
        .shared_bytes = mma ? MMA_SHARED : FMA_SHARED,
    };
    hr_status status = hri_gpu_launch(gpu, &hri_cu_product, defines, "product_tile", &tiles,
                                      HRI_GPU_ARGS(g, &a, &b, &bias, &y, &workspace));
    if (status == HR_OK && g->splits > 1) {
        const hri_gpu_grid join = {
            .x = (uint32_t)least(up(g->batch * g->m * g->n, THREADS), 1 << 16), .threads = THREADS};
        status = hri_gpu_launch(gpu, &hri_cu_product, defines, "product_join", &join,
                                HRI_GPU_ARGS(g, &workspace, &bias, &y));
    }
    return status;
}

static product product_of(const hri_gpu_matmul *x) {
    return (product){
        .batch = x->batch,
        .m = x->m,
        .n = x->n,
        .k = x->k,
        .lda = x->lda,
        .ldb = x->ldb,
        .ldy = x->ldy,
        .a_step = x->a_step,
        .b_step = x->b_step,
        .y_step = x->y_step,
        .ta = x->ta,
        .tb = x->tb,
        .add = x->add,
        .bias = x->epilogue == HRI_GPU_BIAS,
    };
}

uint64_t hri_gpu_own_matmul_workspace(hri_gpu *gpu, const hri_gpu_matmul *x, uint64_t limit) {
    const product g = product_of(x);
    return workspace_of(gpu, &g, limit);
}

hr_status hri_gpu_own_matmul(hri_gpu *gpu, const hri_gpu_matmul *x, hr_addr a, hr_addr b,
                             hr_addr bias, hr_addr y, hr_addr workspace, uint64_t workspace_bytes) {
    product g = product_of(x);
    if (x->a_type != x->b_type) {
        return HR_E_UNSUPPORTED; /* no op asks for it */
    }
    return launch(gpu, &g, 0, x->a_type, x->y_type, g.bias ? x->bias_type : HR_TYPE_F32, a, b, bias,
                  y, workspace, workspace_bytes);
}

/* ---- convolutions ---- */

static product product_of_conv(const hri_gpu_conv *x) {
    const int64_t cg = x->c / x->groups, og = x->o / x->groups, taps = x->kh * x->kw;
    product g = {
        .batch = x->groups,
        .h = (int32_t)x->h,
        .w = (int32_t)x->w,
        .c = (int32_t)x->c,
        .o = (int32_t)x->o,
        .p = (int32_t)x->p,
        .q = (int32_t)x->q,
        .kh = (int32_t)x->kh,
        .kw = (int32_t)x->kw,
        .stride_h = (int32_t)x->stride_h,
        .stride_w = (int32_t)x->stride_w,
        .top = (int32_t)x->pad_top,
        .left = (int32_t)x->pad_left,
        .dilation_h = (int32_t)x->dilation_h,
        .dilation_w = (int32_t)x->dilation_w,
        .cg = (int32_t)cg,
        .og = (int32_t)og,
    };
    if (x->kind == HRI_GPU_CONV_FORWARD) { /* x, w -> y */
        g.m = x->n * x->p * x->q, g.n = og, g.k = taps * cg;
        g.a_step = cg, g.b_step = og, g.y_step = og, g.ldy = x->o;
    } else if (x->kind == HRI_GPU_CONV_INPUT) { /* dy, w -> dx */
        g.m = x->n * x->h * x->w, g.n = cg, g.k = taps * og;
        g.a_step = og, g.b_step = og, g.y_step = cg, g.ldy = x->c;
    } else { /* x, dy -> dw */
        g.m = taps * cg, g.n = og, g.k = x->n * x->p * x->q;
        g.a_step = cg, g.b_step = og, g.y_step = og, g.ldy = x->o;
    }
    return g;
}

/* As in direct_conv.cu. */
typedef struct direct {
    int64_t n, pixels, part;
    int32_t parts, h, w, c, o, p, q, kh, kw;
    int32_t stride_h, stride_w, top, left, dilation_h, dilation_w, cg, og;
} direct;

/* A tile of 128 results is too wide for a group of few channels. */
static int is_direct(const hri_gpu_conv *x) {
    return x->groups > 1 && (x->c / x->groups <= 8 || x->o / x->groups <= 8);
}

static int64_t direct_parts(hri_gpu *gpu, const hri_gpu_conv *x, uint64_t limit) {
    const int64_t rows = x->kh * x->kw * (x->c / x->groups);
    const int64_t blocks = up(x->o, 32) * rows, pixels = x->n * x->p * x->q;
    const uint64_t one = (uint64_t)(rows * x->o) * sizeof(float);
    int64_t parts = up(8 * (int64_t)hri_gpu_processors(gpu), blocks > 0 ? blocks : 1);
    parts = least(least(parts, up(pixels, 512)), one ? (int64_t)(limit / one) : 1);
    return parts < 1 ? 1 : parts;
}

uint64_t hri_gpu_own_conv_workspace(hri_gpu *gpu, const hri_gpu_conv *x, uint64_t limit) {
    if (!is_direct(x)) {
        const product g = product_of_conv(x);
        return workspace_of(gpu, &g, limit);
    }
    const uint64_t one = (uint64_t)(x->kh * x->kw * (x->c / x->groups) * x->o) * sizeof(float);
    return x->kind == HRI_GPU_CONV_WEIGHT ? one * (uint64_t)direct_parts(gpu, x, limit) : 0;
}

static hr_status run_direct(hri_gpu *gpu, const hri_gpu_conv *x, hr_addr first, hr_addr second,
                            hr_addr result, hr_addr workspace, uint64_t workspace_bytes) {
    const product p = product_of_conv(x);
    char defines[64];
    direct g = {
        .n = x->n,
        .pixels = x->n * x->p * x->q,
        .parts = 1,
        .h = p.h,
        .w = p.w,
        .c = p.c,
        .o = p.o,
        .p = p.p,
        .q = p.q,
        .kh = p.kh,
        .kw = p.kw,
        .stride_h = p.stride_h,
        .stride_w = p.stride_w,
        .top = p.top,
        .left = p.left,
        .dilation_h = p.dilation_h,
        .dilation_w = p.dilation_w,
        .cg = p.cg,
        .og = p.og,
    };
    const int weight = x->kind == HRI_GPU_CONV_WEIGHT;
    snprintf(defines, sizeof defines, "-DHR_T=%s -DHR_Y=%s", name_of(x->type),
             name_of(weight ? x->w_type : x->type));
    if (!weight) {
        const int forward = x->kind == HRI_GPU_CONV_FORWARD;
        const int64_t all = forward ? g.pixels * x->o : x->n * x->h * x->w * x->c;
        const hri_gpu_grid grid = {.x = (uint32_t)least(up(all, THREADS), 1 << 20),
                                   .threads = all ? THREADS : 0};
        return hri_gpu_launch(gpu, &hri_cu_direct_conv, defines,
                              forward ? "direct_forward" : "direct_input", &grid,
                              HRI_GPU_ARGS(&g, &first, &second, &result));
    }
    const int64_t rows = x->kh * x->kw * p.cg;
    g.parts = (int32_t)direct_parts(gpu, x, workspace_bytes);
    g.part = up(g.pixels, g.parts);
    if (rows * x->o == 0) {
        return HR_OK;
    }
    const hri_gpu_grid grid = {.x = (uint32_t)up(x->o, 32),
                               .y = (uint32_t)rows,
                               .z = (uint32_t)g.parts,
                               .threads = THREADS,
                               .shared_bytes = THREADS * sizeof(float)};
    const hri_gpu_grid join = {.x = (uint32_t)up(rows * x->o, THREADS), .threads = THREADS};
    hr_status status = hri_gpu_launch(gpu, &hri_cu_direct_conv, defines, "direct_weight", &grid,
                                      HRI_GPU_ARGS(&g, &first, &second, &workspace));
    if (status == HR_OK) {
        status = hri_gpu_launch(gpu, &hri_cu_direct_conv, defines, "direct_join", &join,
                                HRI_GPU_ARGS(&g, &workspace, &result));
    }
    return status;
}

hr_status hri_gpu_own_conv(hri_gpu *gpu, const hri_gpu_conv *x, hr_addr first, hr_addr second,
                           hr_addr result, hr_addr workspace, uint64_t workspace_bytes) {
    if (is_direct(x)) {
        return run_direct(gpu, x, first, second, result, workspace, workspace_bytes);
    }
    product g = product_of_conv(x);
    return launch(gpu, &g, x->kind + 1, x->type,
                  x->kind == HRI_GPU_CONV_WEIGHT ? x->w_type : x->type, HR_TYPE_F32, first, second,
                  0, result, workspace, workspace_bytes);
}

/* See linear_loss_cuda.h. */
#include "ops/common/linear_loss_cuda.h"

#include <stdio.h>

#include "ops/common/gpu.h"

HRI_CU(linear_loss);

enum { SCORES_BYTES = 128 << 20, WIDTH_MAX = 4096, TILE = 128, THREADS = 256 };

typedef struct sizes {
    int64_t rows, depth, classes, width;
    hr_type type, ids;
} sizes;

static sizes sizes_of(const hr_meta *x, const hr_meta *w, const hr_meta *ids) {
    sizes z = {.rows = hr_shape_count(&ids->shape),
               .depth = x->shape.dim[x->shape.rank - 1],
               .classes = w->shape.dim[0],
               .type = x->type,
               .ids = ids->type};
    const int64_t fit = SCORES_BYTES / (int64_t)sizeof(float) / hri_max64(z.rows, 1) / TILE * TILE;
    z.width = hri_min64(hri_max64(hri_min64(fit, WIDTH_MAX), TILE), z.classes);
    return z;
}

static uint64_t scores_bytes(const sizes *z) {
    return hri_gpu_whole((uint64_t)(z->rows * z->width) * sizeof(float));
}

/* ---- the three products over `count` classes ---- */

static hri_gpu_matmul scores_product(const sizes *z, int64_t count) {
    return (hri_gpu_matmul){.a_type = z->type,
                            .b_type = z->type,
                            .y_type = HR_TYPE_F32,
                            .tb = 1,
                            .batch = 1,
                            .m = z->rows,
                            .n = count,
                            .k = z->depth,
                            .lda = z->depth,
                            .ldb = z->depth,
                            .ldy = count};
}

/* Where the gradient of a block lies in the memory of a block of scores: over them, or, where there is room because the
 * last block is narrower and its rows would start at odd places, behind them in rows of whole 128 bytes. */
typedef struct place {
    uint64_t offset; /* bytes */
    int64_t ld;      /* elements of the small type from row to row */
} place;

static place grad_place(const sizes *z, int64_t count) {
    const int64_t bytes = (int64_t)hr_type_bytes(z->type), padded = (count + 63) / 64 * 64;
    const int64_t behind = (int64_t)hri_gpu_whole((uint64_t)(z->rows * count) * sizeof(float));
    const int64_t room = z->rows * z->width * (int64_t)sizeof(float);
    if (count % 64 && z->type != HR_TYPE_F32 && behind + z->rows * padded * bytes <= room) {
        return (place){(uint64_t)behind, padded};
    }
    return (place){0, count * (int64_t)sizeof(float) / bytes};
}

static hri_gpu_matmul dx_product(const sizes *z, int64_t count, int add) {
    return (hri_gpu_matmul){.a_type = z->type,
                            .b_type = z->type,
                            .y_type = HR_TYPE_F32,
                            .add = add != 0,
                            .batch = 1,
                            .m = z->rows,
                            .n = z->depth,
                            .k = count,
                            .lda = grad_place(z, count).ld,
                            .ldb = z->depth,
                            .ldy = z->depth};
}

static hri_gpu_matmul dw_product(const sizes *z, int64_t count) {
    return (hri_gpu_matmul){.a_type = z->type,
                            .b_type = z->type,
                            .y_type = z->type,
                            .ta = 1,
                            .batch = 1,
                            .m = count,
                            .n = z->depth,
                            .k = z->rows,
                            .lda = grad_place(z, count).ld,
                            .ldb = z->depth,
                            .ldy = z->depth};
}

/* Classes of the last block. */
static int64_t last_of(const sizes *z) {
    return z->classes % z->width ? z->classes % z->width : z->width;
}

static uint64_t products_workspace(const sizes *z, hri_gpu *gpu, int backward) {
    const int64_t counts[] = {z->width, last_of(z)};
    uint64_t most = 0;
    for (int i = 0; i < 2; i++) {
        const hri_gpu_matmul of[] = {scores_product(z, counts[i]), dx_product(z, counts[i], 1),
                                     dw_product(z, counts[i])};
        for (int p = 0; p < (backward ? 3 : 1); p++) {
            const uint64_t bytes = hri_gpu_matmul_workspace(gpu, &of[p], HRI_GPU_LIMIT_MATMUL);
            most = bytes > most ? bytes : most;
        }
    }
    return hri_gpu_whole(most);
}

static const char *defines_of(const sizes *z, char *buf, size_t size) {
    snprintf(buf, size, "-DHR_T=%s -DHR_ID=%s",
             z->type == HR_TYPE_F16    ? "hr_f16"
             : z->type == HR_TYPE_BF16 ? "hr_bf16"
                                       : "float",
             z->ids == HR_TYPE_I64 ? "hr_i64" : "hr_i32");
    return buf;
}

static hri_gpu_grid rows_grid(const sizes *z) {
    return (hri_gpu_grid){
        .x = (uint32_t)z->rows, .threads = z->rows ? THREADS : 0, .shared_bytes = 128};
}
/* One block with 16 bytes a thread. */
static hri_gpu_grid one_block(void) {
    return (hri_gpu_grid){.x = 1, .threads = 1024, .shared_bytes = 1024 * 16};
}

/* ---- forward ---- */

static sizes forward_sizes(const hri_sig *s) {
    return sizes_of(&s->in[0], &s->in[1], &s->in[2]);
}
static uint64_t states_bytes(const sizes *z) {
    return hri_gpu_whole((uint64_t)z->rows * 4 * sizeof(float));
}

uint64_t hri_linear_loss_cuda_workspace(const hri_sig *s, hri_gpu *gpu, uint32_t variant) {
    const sizes z = forward_sizes(s);
    const int keep = ((const hri_linear_loss_attr *)s->attr)->keep;
    (void)variant;
    return (keep ? 0 : scores_bytes(&z)) + states_bytes(&z) + products_workspace(&z, gpu, 0);
}

hr_status hri_linear_loss_cuda(const hri_gpu_call *c) {
    const hri_linear_loss_attr *p = c->sig->attr;
    const sizes z = forward_sizes(c->sig);
    const uint64_t before = p->keep ? 0 : scores_bytes(&z);
    const hr_addr states = c->workspace + before, scratch = states + states_bytes(&z);
    const uint64_t scratch_bytes = c->workspace_bytes - before - states_bytes(&z);
    const hri_gpu_grid rows = rows_grid(&z), one = one_block();
    char defines[64];
    defines_of(&z, defines, sizeof defines);
    hr_status status = HR_OK;
    for (int64_t v0 = 0; v0 < z.classes && status == HR_OK; v0 += z.width) {
        const int64_t count = hri_min64(z.width, z.classes - v0);
        const hri_gpu_matmul product = scores_product(&z, count);
        const hr_addr scores =
            p->keep ? c->out[2] + (uint64_t)(v0 * z.rows) * sizeof(float) : c->workspace;
        const hr_addr w = c->in[1] + (uint64_t)(v0 * z.depth) * hr_type_bytes(z.type);
        status =
            hri_gpu_matmul_run(c->gpu, &product, c->in[0], w, 0, scores, scratch, scratch_bytes);
        if (status == HR_OK) {
            status =
                hri_gpu_launch(c->gpu, &hri_cu_linear_loss, defines, "linear_loss_block", &rows,
                               HRI_GPU_ARGS(&(hr_addr){scores}, &v0, &(int64_t){count},
                                            &(hr_addr){c->in[2]}, &(hr_addr){states}));
        }
    }
    if (status == HR_OK) {
        status = hri_gpu_launch(c->gpu, &hri_cu_linear_loss, defines, "linear_loss_finish", &one,
                                HRI_GPU_ARGS(&(hr_addr){states}, &(hr_addr){c->in[2]},
                                             &(int64_t){z.rows}, &(float){(float)p->smoothing},
                                             &(int64_t){z.classes}, &(int){p->sum},
                                             &(hr_addr){c->out[1]}, &(hr_addr){c->out[0]}));
    }
    return status;
}

/* ---- backward: scale, scores, the sum of dx where it is not the result itself ---- */

static sizes backward_sizes(const hri_sig *s) {
    return sizes_of(&s->in[1], &s->in[2], &s->in[3]);
}
static uint64_t sum_bytes(const sizes *z) {
    return z->type == HR_TYPE_F32 ? 0
                                  : hri_gpu_whole((uint64_t)(z->rows * z->depth) * sizeof(float));
}
enum { SCALE_BYTES = 256 };

uint64_t hri_linear_loss_grad_cuda_workspace(const hri_sig *s, hri_gpu *gpu, uint32_t variant) {
    const sizes z = backward_sizes(s);
    (void)variant;
    return SCALE_BYTES + scores_bytes(&z) + sum_bytes(&z) + products_workspace(&z, gpu, 1);
}

/* What a block needs: places of one call. */
typedef struct places {
    hr_addr scale, scores, dx, scratch;
    uint64_t scratch_bytes;
} places;

static hr_status backward_block(const hri_gpu_call *c, const sizes *z, const places *at, int64_t v0,
                                const char *defines) {
    const hri_linear_loss_attr *p = c->sig->attr;
    const int64_t count = hri_min64(z->width, z->classes - v0);
    const uint64_t offset = (uint64_t)(v0 * z->depth) * hr_type_bytes(z->type);
    const hri_gpu_grid rows = rows_grid(z);
    const hri_gpu_matmul scores = scores_product(z, count), dx = dx_product(z, count, v0 > 0),
                         dw = dw_product(z, count);
    const place grad = grad_place(z, count);
    hr_addr from = at->scores, d = at->scores + grad.offset;
    hr_status status = HR_OK;
    if (p->keep) {
        from = c->in[5] + (uint64_t)(v0 * z->rows) * sizeof(float);
    } else {
        status = hri_gpu_matmul_run(c->gpu, &scores, c->in[1], c->in[2] + offset, 0, from,
                                    at->scratch, at->scratch_bytes);
    }
    if (status == HR_OK) {
        status = hri_gpu_launch(c->gpu, &hri_cu_linear_loss, defines, "linear_loss_grad", &rows,
                                HRI_GPU_ARGS(&from, &d, &(int64_t){grad.ld}, &v0, &(int64_t){count},
                                             &(hr_addr){c->in[3]}, &(hr_addr){c->in[4]},
                                             &(hr_addr){at->scale}, &(float){(float)p->smoothing},
                                             &(int64_t){z->classes}));
    }
    if (status == HR_OK) {
        status = hri_gpu_matmul_run(c->gpu, &dx, d, c->in[2] + offset, 0, at->dx, at->scratch,
                                    at->scratch_bytes);
    }
    if (status == HR_OK) { /* last, because dw may lie over w */
        status = hri_gpu_matmul_run(c->gpu, &dw, d, c->in[1], 0, c->out[1] + offset, at->scratch,
                                    at->scratch_bytes);
    }
    return status;
}

hr_status hri_linear_loss_grad_cuda(const hri_gpu_call *c) {
    const hri_linear_loss_attr *p = c->sig->attr;
    const sizes z = backward_sizes(c->sig);
    const hr_addr sum = c->workspace + SCALE_BYTES + scores_bytes(&z);
    const uint64_t before = SCALE_BYTES + scores_bytes(&z) + sum_bytes(&z);
    const places at = {.scale = c->workspace,
                       .scores = c->workspace + SCALE_BYTES,
                       .dx = z.type == HR_TYPE_F32 ? c->out[0] : sum,
                       .scratch = c->workspace + before,
                       .scratch_bytes = c->workspace_bytes - before};
    const hri_gpu_grid one = one_block();
    char defines[64];
    defines_of(&z, defines, sizeof defines);
    hr_status status =
        hri_gpu_launch(c->gpu, &hri_cu_linear_loss, defines, "linear_loss_scale", &one,
                       HRI_GPU_ARGS(&(hr_addr){c->in[0]}, &(hr_addr){c->in[3]}, &(int64_t){z.rows},
                                    &(int){p->sum}, &(hr_addr){at.scale}));
    for (int64_t v0 = 0; v0 < z.classes && status == HR_OK; v0 += z.width) {
        status = backward_block(c, &z, &at, v0, defines);
    }
    const int64_t all = z.rows * z.depth;
    if (status == HR_OK && z.type != HR_TYPE_F32) {
        const hri_gpu_grid grid = {.x = (uint32_t)hri_min64((all + THREADS - 1) / THREADS, 1 << 16),
                                   .threads = all ? THREADS : 0};
        status =
            hri_gpu_launch(c->gpu, &hri_cu_linear_loss, defines, "linear_loss_store", &grid,
                           HRI_GPU_ARGS(&(hr_addr){at.dx}, &(hr_addr){c->out[0]}, &(int64_t){all}));
    }
    return status;
}

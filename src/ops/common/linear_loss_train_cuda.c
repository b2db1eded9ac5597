/* linear_cross_entropy_train on a GPU: the cut of linear_loss_train.h, sized for it.
 *
 * Products are fast where all their sizes are whole multiples of some bytes, and a number of classes seldom is one: so there
 * are a few more, whose rows of w are zeros (w is copied for that), whose scores do not count and whose gradients are zeros.
 * A cut is three products and one kernel between them; dw is added up in f32 by the products themselves. */
#include "ops/common/linear_loss_train.h"

#include <stdio.h>

#include "ops/common/gpu.h"

HRI_CU(linear_loss);

enum {
    LEAST = 1024,
    TILE = 128,
    PAD = 64,
    MOST = 448 << 20,
    THREADS = 512,
    ROW_THREADS = 1024,
    LANES_BYTES = 128,
    SCALE_BYTES = 256
};

/* Of the scores themselves: bf16 where x and w are, as a product of its own would have them. */
static hr_type scores_type(hr_type type) {
    return type == HR_TYPE_BF16 ? HR_TYPE_BF16 : HR_TYPE_F32;
}

/* Cuts have equal bytes, whatever the scores are. */
static hri_linear_train sizes_of(const hri_sig *s) {
    const int64_t bytes = (int64_t)hr_type_bytes(scores_type(s->in[0].type));
    return hri_linear_train_of(s, LEAST, TILE, MOST / bytes, PAD,
                               HRI_LINEAR_TRAIN_CUTS * bytes / 4);
}

/* Classes, with those that fill up. */
static int64_t padded(const hri_linear_train *z) {
    return (z->classes + PAD - 1) / PAD * PAD;
}

/* Numbers from row to row of the scores' gradient, which starts where they do. */
static int64_t grad_width(const hri_linear_train *z) {
    return padded(z) * (int64_t)hr_type_bytes(scores_type(z->type)) /
           (int64_t)hr_type_bytes(z->type);
}

static uint64_t row_bytes(const hri_linear_train *z) {
    return (uint64_t)padded(z) * hr_type_bytes(scores_type(z->type));
}
static uint64_t scores_bytes(const hri_linear_train *z) {
    return hri_gpu_whole((uint64_t)z->cut * row_bytes(z));
}
static uint64_t states_bytes(const hri_linear_train *z) {
    return hri_gpu_whole((uint64_t)z->rows * 4 * sizeof(float));
}
/* Whether the sum of dw is dw itself. */
static int dw_in_place(const hri_linear_train *z) {
    return z->type == HR_TYPE_F32 && padded(z) == z->classes;
}
static uint64_t sum_bytes(const hri_linear_train *z, int frozen) {
    return frozen || dw_in_place(z)
               ? 0
               : hri_gpu_whole((uint64_t)(padded(z) * z->depth) * sizeof(float));
}
static uint64_t w_bytes(const hri_linear_train *z) {
    return padded(z) == z->classes
               ? 0
               : hri_gpu_whole((uint64_t)(padded(z) * z->depth) * hr_type_bytes(z->type));
}

/* ---- the three products of `rows` rows ---- */

static hri_gpu_matmul scores_product(const hri_linear_train *z, int64_t rows) {
    return (hri_gpu_matmul){.a_type = z->type,
                            .b_type = z->type,
                            .y_type = scores_type(z->type),
                            .tb = 1,
                            .batch = 1,
                            .m = rows,
                            .n = padded(z),
                            .k = z->depth,
                            .lda = z->depth,
                            .ldb = z->depth,
                            .ldy = padded(z)};
}

static hri_gpu_matmul dw_product(const hri_linear_train *z, int64_t rows, int add) {
    return (hri_gpu_matmul){.a_type = z->type,
                            .b_type = z->type,
                            .y_type = HR_TYPE_F32,
                            .ta = 1,
                            .add = add != 0,
                            .batch = 1,
                            .m = padded(z),
                            .n = z->depth,
                            .k = rows,
                            .lda = grad_width(z),
                            .ldb = z->depth,
                            .ldy = z->depth};
}

static hri_gpu_matmul dx_product(const hri_linear_train *z, int64_t rows) {
    return (hri_gpu_matmul){.a_type = z->type,
                            .b_type = z->type,
                            .y_type = z->type,
                            .batch = 1,
                            .m = rows,
                            .n = z->depth,
                            .k = padded(z),
                            .lda = grad_width(z),
                            .ldb = z->depth,
                            .ldy = z->depth};
}

static uint64_t products_workspace(const hri_linear_train *z, hri_gpu *gpu) {
    const int64_t rows[] = {z->cut, hri_linear_train_last(z)};
    uint64_t most = 0;
    for (int i = 0; i < 2; i++) {
        const hri_gpu_matmul of[] = {scores_product(z, rows[i]), dx_product(z, rows[i]),
                                     dw_product(z, rows[i], 0), dw_product(z, rows[i], 1)};
        for (int p = 0; p < 4; p++) {
            const uint64_t bytes = hri_gpu_matmul_workspace(gpu, &of[p], HRI_GPU_LIMIT_MATMUL);
            most = bytes > most ? bytes : most;
        }
    }
    return hri_gpu_whole(most);
}

uint64_t hri_linear_train_cuda_workspace(const hri_sig *s, hri_gpu *gpu, uint32_t variant) {
    const hri_linear_train z = sizes_of(s);
    const int frozen = ((const hri_linear_train_attr *)s->attr)->frozen;
    (void)variant;
    return SCALE_BYTES + scores_bytes(&z) + states_bytes(&z) + sum_bytes(&z, frozen) + w_bytes(&z) +
           products_workspace(&z, gpu);
}

/* ---- the call ---- */

/* What a cut needs: places of one call. */
typedef struct places {
    hr_addr scale, scores, states, dw, w, scratch;
    uint64_t scratch_bytes;
    char defines[64];
} places;

static const char *text_of(hr_type type) {
    return type == HR_TYPE_F16 ? "hr_f16" : type == HR_TYPE_BF16 ? "hr_bf16" : "float";
}

static places places_of(const hri_gpu_call *c, const hri_linear_train *z) {
    const int frozen = ((const hri_linear_train_attr *)c->sig->attr)->frozen;
    places at = {.scale = c->workspace};
    at.scores = at.scale + SCALE_BYTES;
    at.states = at.scores + scores_bytes(z);
    const hr_addr sum = at.states + states_bytes(z);
    const hr_addr copy = sum + sum_bytes(z, frozen);
    at.dw = dw_in_place(z) ? c->out[3] : sum;
    at.w = w_bytes(z) ? copy : c->in[1];
    at.scratch = copy + w_bytes(z);
    at.scratch_bytes = c->workspace_bytes - (uint64_t)(at.scratch - c->workspace);
    snprintf(at.defines, sizeof at.defines, "-DHR_T=%s -DHR_S=%s -DHR_ID=%s", text_of(z->type),
             text_of(scores_type(z->type)), z->ids == HR_TYPE_I64 ? "hr_i64" : "hr_i32");
    return at;
}

/* One block with 16 bytes a thread. */
static const hri_gpu_grid one_block = {.x = 1, .threads = 1024, .shared_bytes = 1024 * 16};

static hr_status run_rows(const hri_gpu_call *c, const hri_linear_train *z, const places *at,
                          int64_t r0, int64_t rows) {
    const hri_linear_train_attr *p = c->sig->attr;
    const uint64_t held = row_bytes(z) + LANES_BYTES;
    const int keep = held <= hri_gpu_shared_bytes(c->gpu);
    const hri_gpu_grid grid = {
        .x = (uint32_t)rows,
        .threads = rows ? (uint32_t)hri_min64((z->classes + 511) / 512 * 32, ROW_THREADS) : 0,
        .shared_bytes = keep ? (uint32_t)held : LANES_BYTES};
    const hr_addr ids = c->in[2] + (uint64_t)r0 * hr_type_bytes(z->ids);
    const hr_addr states = at->states + (uint64_t)r0 * 4 * sizeof(float);
    return hri_gpu_launch(c->gpu, &hri_cu_linear_loss, at->defines, "linear_loss_train", &grid,
                          HRI_GPU_ARGS(&(hr_addr){at->scores}, &(int64_t){padded(z)},
                                       &(int64_t){z->classes}, &(hr_addr){ids},
                                       &(hr_addr){at->scale}, &(float){(float)p->smoothing},
                                       &(int){keep}, &(hr_addr){states}));
}

/* w with rows of zeros behind it, where it needs them. */
static hr_status pad_w(const hri_gpu_call *c, const hri_linear_train *z, const places *at) {
    const uint64_t row = (uint64_t)z->depth * hr_type_bytes(z->type);
    const uint64_t bytes = (uint64_t)z->classes * row, all = (uint64_t)padded(z) * row;
    if (at->w == c->in[1] || !row) {
        return HR_OK;
    }
    const hr_status status = hri_gpu_copy(c->gpu, at->w, c->in[1], bytes);
    return status == HR_OK ? hri_gpu_fill(c->gpu, at->w + bytes, 0, all - bytes) : status;
}

static hr_status run_cut(const hri_gpu_call *c, const hri_linear_train *z, const places *at,
                         int64_t r0) {
    const int frozen = ((const hri_linear_train_attr *)c->sig->attr)->frozen;
    const int64_t rows = hri_min64(z->cut, z->rows - r0);
    const uint64_t offset = (uint64_t)(r0 * z->depth) * hr_type_bytes(z->type);
    const hri_gpu_matmul scores = scores_product(z, rows), dw = dw_product(z, rows, r0 > 0),
                         dx = dx_product(z, rows);
    hr_status status = hri_gpu_matmul_run(c->gpu, &scores, c->in[0] + offset, at->w, 0, at->scores,
                                          at->scratch, at->scratch_bytes);
    if (status == HR_OK) {
        status = run_rows(c, z, at, r0, rows);
    }
    if (status == HR_OK && !frozen) {
        status = hri_gpu_matmul_run(c->gpu, &dw, at->scores, c->in[0] + offset, 0, at->dw,
                                    at->scratch, at->scratch_bytes);
    }
    if (status == HR_OK) { /* last, because dx may lie over x */
        status = hri_gpu_matmul_run(c->gpu, &dx, at->scores, at->w, 0, c->out[2] + offset,
                                    at->scratch, at->scratch_bytes);
    }
    return status;
}

static hr_status finish(const hri_gpu_call *c, const hri_linear_train *z, const places *at) {
    const hri_linear_train_attr *p = c->sig->attr;
    const int64_t all = dw_in_place(z) || p->frozen ? 0 : z->classes * z->depth;
    const hri_gpu_grid grid = {.x = (uint32_t)hri_min64((all + THREADS - 1) / THREADS, 1 << 16),
                               .threads = all ? THREADS : 0};
    hr_status status = hri_gpu_launch(
        c->gpu, &hri_cu_linear_loss, at->defines, "linear_loss_finish", &one_block,
        HRI_GPU_ARGS(&(hr_addr){at->states}, &(hr_addr){c->in[2]}, &(int64_t){z->rows},
                     &(float){(float)p->smoothing}, &(int64_t){z->classes}, &(int){p->sum},
                     &(hr_addr){c->out[1]}, &(hr_addr){c->out[0]}));
    if (status == HR_OK) {
        status = hri_gpu_launch(
            c->gpu, &hri_cu_linear_loss, at->defines, "linear_loss_store", &grid,
            HRI_GPU_ARGS(&(hr_addr){at->dw}, &(hr_addr){c->out[3]}, &(int64_t){all}));
    }
    return status;
}

hr_status hri_linear_train_cuda(const hri_gpu_call *c) {
    const hri_linear_train_attr *p = c->sig->attr;
    const hri_linear_train z = sizes_of(c->sig);
    const places at = places_of(c, &z);
    hr_status status =
        hri_gpu_launch(c->gpu, &hri_cu_linear_loss, at.defines, "linear_loss_scale", &one_block,
                       HRI_GPU_ARGS(&(hr_addr){c->in[3]}, &(hr_addr){c->in[2]}, &(int64_t){z.rows},
                                    &(int){p->sum}, &(hr_addr){at.scale}));
    status = status == HR_OK ? pad_w(c, &z, &at) : status;
    int64_t r0 = 0;
    do { /* once without rows: dw is 0 then */
        if (status == HR_OK) {
            status = run_cut(c, &z, &at, r0);
        }
        r0 += z.cut;
    } while (r0 < z.rows && status == HR_OK);
    return status == HR_OK ? finish(c, &z, &at) : status;
}

/* The launches of batch norm on a GPU: sums, finish, apply (src/ops/cuda/batch_norm.cu).
 *
 * How rows and channels are cut follows from the shape alone, so that every run adds in the same order; the grid is
 * what the processors of a Hopper GPU hold at once.  The work space has the sums of the parts, (parts, 2, C), and what
 * the last pass knows of a channel, (3, C); both f32. */
#include "ops/common/batch_norm.h"

#include <string.h>

#include "ops/common/gpu.h"

HRI_CU(batch_norm);

enum { THREADS = 256, FORWARD_BLOCKS = 132 * 4, GRAD_BLOCKS = 132 * 2, DEEP = 4 };

typedef struct cut {
    int64_t rows, channels;
    int pack, lanes;
    hri_gpu_grid grid;   /* of sums and apply: tiles of channels by parts */
    hri_gpu_grid finish; /* eight channels a block */
    char defines[160];
} cut;

static cut cut_of(const hr_meta *x, uint32_t blocks) {
    cut c = {.channels = x->shape.dim[x->shape.rank - 1]};
    const int64_t channels = c.channels ? c.channels : 1;
    c.rows = hr_shape_count(&x->shape) / channels;
    c.pack = hri_gpu_pack(x->type, channels);
    c.lanes = hri_gpu_lanes(channels / c.pack, 32);
    const int64_t tiles = hri_gpu_up(channels, (int64_t)c.lanes * c.pack);
    const int64_t group = (int64_t)(THREADS / c.lanes) * DEEP; /* rows that a block has under way */
    int64_t parts = (int64_t)blocks / tiles;
    parts = parts > 1 ? parts : 1;
    if (parts > hri_gpu_up(c.rows, group)) {
        parts = hri_gpu_up(c.rows, group);
    }
    c.grid = (hri_gpu_grid){.x = (uint32_t)tiles, .y = (uint32_t)parts, .threads = THREADS};
    c.finish = (hri_gpu_grid){.x = (uint32_t)hri_gpu_up(channels, 8), .threads = 512};
    return c;
}

static void define(cut *c, hr_type type, int relu, int add, int sign) {
    snprintf(c->defines, sizeof c->defines,
             "-DELEM=%s -DPACK=%d -DLANES=%d -DRELU=%d -DADD=%d -DSIGN=%d", hri_gpu_type(type),
             c->pack, c->lanes, relu, add, sign);
}

static void add_define(cut *c, const char *name, int value) {
    const size_t used = strlen(c->defines);
    snprintf(c->defines + used, sizeof c->defines - used, " -D%s=%d", name, value);
}

static uint64_t workspace_of(const cut *c) {
    return (uint64_t)((2 * (int64_t)c->grid.y + 3) * c->channels) * sizeof(float);
}

uint64_t hri_batch_norm_cuda_workspace(const hri_sig *s, hri_gpu *gpu, uint32_t variant) {
    const cut c = cut_of(&s->in[0], FORWARD_BLOCKS);
    (void)gpu;
    (void)variant;
    return workspace_of(&c);
}

hr_status hri_batch_norm_cuda(const hri_gpu_call *c, int relu, int add) {
    const hri_sig *s = c->sig;
    cut k = cut_of(&s->in[0], FORWARD_BLOCKS);
    hr_addr x = c->in[0], gamma = c->in[1], beta = c->in[2], z = add ? c->in[3] : 0;
    hr_addr y = c->out[0], mean = c->out[1], inv = c->out[2], sums = c->workspace;
    int64_t rows = k.rows;
    int32_t channels = (int32_t)k.channels, parts = (int32_t)k.grid.y;
    int32_t gamma_type = (int32_t)s->in[1].type, beta_type = (int32_t)s->in[2].type;
    hr_addr lines = sums + (uint64_t)parts * 2 * (uint64_t)k.channels * sizeof(float);
    double eps = ((const hri_batch_norm_attr *)s->attr)->eps;
    if (channels == 0) {
        return HR_OK;
    }
    define(&k, s->in[0].type, relu, add, -1);
    hr_status status = hri_gpu_launch(c->gpu, &hri_cu_batch_norm, k.defines, "batch_norm_sums",
                                      &k.grid, HRI_GPU_ARGS(&x, &sums, &rows, &channels));
    if (status == HR_OK) {
        status =
            hri_gpu_launch(c->gpu, &hri_cu_batch_norm, k.defines, "batch_norm_finish", &k.finish,
                           HRI_GPU_ARGS(&sums, &x, &gamma, &beta, &mean, &inv, &lines, &rows,
                                        &channels, &parts, &gamma_type, &beta_type, &eps));
    }
    if (status == HR_OK) {
        status = hri_gpu_launch(c->gpu, &hri_cu_batch_norm, k.defines, "batch_norm_apply", &k.grid,
                                HRI_GPU_ARGS(&x, &z, &y, &lines, &rows, &channels));
    }
    return status;
}

/* The first two launches. */
hr_status hri_batch_norm_moments_cuda(const hri_gpu_call *c) {
    const hri_sig *s = c->sig;
    cut k = cut_of(&s->in[0], FORWARD_BLOCKS);
    hr_addr x = c->in[0], mean = c->out[0], inv = c->out[1], sums = c->workspace;
    int64_t rows = k.rows;
    int32_t channels = (int32_t)k.channels, parts = (int32_t)k.grid.y;
    double eps = ((const hri_batch_norm_attr *)s->attr)->eps;
    if (channels == 0) {
        return HR_OK;
    }
    define(&k, s->in[0].type, 0, 0, -1);
    const hr_status status =
        hri_gpu_launch(c->gpu, &hri_cu_batch_norm, k.defines, "batch_norm_sums", &k.grid,
                       HRI_GPU_ARGS(&x, &sums, &rows, &channels));
    return status == HR_OK
               ? hri_gpu_launch(
                     c->gpu, &hri_cu_batch_norm, k.defines, "batch_norm_moments", &k.finish,
                     HRI_GPU_ARGS(&sums, &x, &mean, &inv, &rows, &channels, &parts, &eps))
               : status;
}

/* The last launch, which makes its lines itself.  Bytes of the mask that hold channels of two rows are written by another. */
hr_status hri_batch_norm_apply_cuda(const hri_gpu_call *c, int relu) {
    const hri_sig *s = c->sig;
    cut k = cut_of(&s->in[0], FORWARD_BLOCKS);
    hr_addr x = c->in[0], gamma = c->in[1], beta = c->in[2], mean = c->in[3], inv = c->in[4];
    hr_addr z = s->in_count > 5 ? c->in[5] : 0, y = c->out[0];
    hr_addr mask = s->out_count > 1 ? c->out[1] : 0;
    int64_t rows = k.rows;
    int32_t channels = (int32_t)k.channels;
    int32_t gamma_type = (int32_t)s->in[1].type, beta_type = (int32_t)s->in[2].type;
    const int inside = mask && channels % 8 == 0;
    if (channels == 0 || rows == 0) {
        return HR_OK;
    }
    define(&k, s->in[0].type, relu, s->in_count > 5, -1);
    if (inside) {
        add_define(&k, "MASK", 1);
    }
    const hr_status status =
        hri_gpu_launch(c->gpu, &hri_cu_batch_norm, k.defines, "batch_norm_lines_apply", &k.grid,
                       HRI_GPU_ARGS(&x, &z, &y, &mask, &gamma, &beta, &mean, &inv, &rows, &channels,
                                    &gamma_type, &beta_type));
    if (status != HR_OK || !mask || inside) {
        return status;
    }
    int64_t bytes = hr_shape_count(&s->out[1].shape);
    int64_t each = rows * k.channels / s->out[1].shape.dim[0];
    const hri_gpu_grid grid = {.x = (uint32_t)hri_gpu_up(bytes, THREADS), .threads = THREADS};
    return hri_gpu_launch(c->gpu, &hri_cu_batch_norm, k.defines, "batch_norm_mask", &grid,
                          HRI_GPU_ARGS(&y, &mask, &bytes, &each));
}

uint64_t hri_batch_norm_inference_cuda_workspace(const hri_sig *s, hri_gpu *gpu, uint32_t variant) {
    (void)gpu;
    (void)variant;
    return 3 * (uint64_t)s->in[1].shape.dim[0] * sizeof(float);
}

hr_status hri_batch_norm_inference_cuda(const hri_gpu_call *c) {
    const hri_sig *s = c->sig;
    cut k = cut_of(&s->in[0], FORWARD_BLOCKS);
    hr_addr x = c->in[0], at[4], y = c->out[0], z = 0, lines = c->workspace;
    int32_t type[4], channels = (int32_t)k.channels;
    int64_t rows = k.rows;
    double eps = ((const hri_batch_norm_attr *)s->attr)->eps;
    for (int i = 0; i < 4; i++) {
        at[i] = c->in[i + 1];
        type[i] = (int32_t)s->in[i + 1].type;
    }
    if (channels == 0 || rows == 0) {
        return HR_OK;
    }
    const hri_gpu_grid grid = {.x = (uint32_t)hri_gpu_up(channels, THREADS), .threads = THREADS};
    define(&k, s->in[0].type, 0, 0, -1);
    const hr_status status =
        hri_gpu_launch(c->gpu, &hri_cu_batch_norm, k.defines, "batch_norm_lines", &grid,
                       HRI_GPU_ARGS(&at[0], &at[1], &at[2], &at[3], &lines, &channels, &type[0],
                                    &type[1], &type[2], &type[3], &eps));
    return status != HR_OK
               ? status
               : hri_gpu_launch(c->gpu, &hri_cu_batch_norm, k.defines, "batch_norm_apply", &k.grid,
                                HRI_GPU_ARGS(&x, &z, &y, &lines, &rows, &channels));
}

hr_status hri_batch_norm_stats_cuda(const hri_gpu_call *c, double eps, double momentum,
                                    int64_t rows, int64_t until) {
    double unbiased = rows > 1 ? (double)rows / ((double)rows - 1.0) : 1.0;
    int32_t channels = (int32_t)c->sig->in[0].shape.dim[0];
    hr_addr in[4] = {c->in[0], c->in[1], c->in[2], c->in[3]}, out[2] = {c->out[0], c->out[1]};
    if (channels == 0) {
        return HR_OK;
    }
    int32_t parts = (int32_t)(hr_shape_count(&c->sig->in[2].shape) / channels);
    hr_addr control = c->control;
    const hri_gpu_grid grid = {.x = (uint32_t)hri_gpu_up(channels, THREADS), .threads = THREADS};
    return hri_gpu_launch(c->gpu, &hri_cu_batch_norm, NULL, "batch_norm_stats", &grid,
                          HRI_GPU_ARGS(&in[0], &in[1], &in[2], &in[3], &out[0], &out[1], &channels,
                                       &momentum, &eps, &unbiased, &parts, &control, &until));
}

uint64_t hri_batch_norm_grad_cuda_workspace(const hri_sig *s, hri_gpu *gpu, uint32_t variant) {
    const cut c = cut_of(&s->in[1], GRAD_BLOCKS);
    (void)gpu;
    (void)variant;
    return workspace_of(&c);
}

/* Where dy comes from: it is there (`more` 0), or is the sum of two, and the parts' sums may then lie in the second.  y: 0, or
 * where the forward output goes once more. */
typedef struct arrival {
    hr_addr dy, more, sums, y;
} arrival;

static hr_status run_grad(const hri_gpu_call *c, hri_batch_norm_sign sign, const arrival *from) {
    const hri_sig *s = c->sig;
    cut k = cut_of(&s->in[1], GRAD_BLOCKS);
    hr_addr dy = from->dy, more = from->more, x = c->in[1], gamma = c->in[2], mean = c->in[3],
            inv = c->in[4];
    hr_addr beta = sign == HRI_BN_FROM_X ? c->in[5] : 0;
    hr_addr seen = sign >= HRI_BN_FROM_Y ? c->in[5] : 0; /* y, or its mask */
    hr_addr dx = c->out[0], dgamma = c->out[1], dbeta = c->out[2], y = from->y;
    hr_addr dz = sign >= HRI_BN_FROM_Y ? c->out[3] : 0;
    hr_addr sums = from->sums ? from->sums : c->workspace;
    int64_t rows = k.rows;
    int32_t channels = (int32_t)k.channels, parts = (int32_t)k.grid.y;
    int32_t gamma_type = (int32_t)s->in[2].type, beta_type = (int32_t)s->out[2].type;
    hr_addr lines = c->workspace + (uint64_t)parts * 2 * (uint64_t)k.channels * sizeof(float);
    hr_addr passed = sign >= HRI_BN_FROM_Y ? dz : dy;
    int64_t samples = s->in[1].shape.dim[0], each = samples ? rows * k.channels / samples : 0;
    hr_status status = HR_OK;
    if (channels == 0) {
        return HR_OK;
    }
    define(&k, s->in[1].type, y != 0, 0, (int)sign);
    if (y) {
        add_define(&k, "BESIDE", 1);
    }
    if (more) {
        add_define(&k, "SUM", from->sums ? 2 : 1);
    }
    if (sign == HRI_BN_FROM_MASK && channels % 8 == 0 && k.pack % 4 == 0) {
        add_define(&k, "BYTES", 1);
    }
    if (rows > 0) {
        status =
            hri_gpu_launch(c->gpu, &hri_cu_batch_norm, k.defines, "batch_norm_grad_sums", &k.grid,
                           HRI_GPU_ARGS(&dy, &more, &x, &seen, &dz, &gamma, &beta, &mean, &inv,
                                        &sums, &rows, &channels, &gamma_type, &beta_type, &each));
    }
    if (status == HR_OK) {
        status = hri_gpu_launch(c->gpu, &hri_cu_batch_norm, k.defines, "batch_norm_grad_finish",
                                &k.finish,
                                HRI_GPU_ARGS(&sums, &gamma, &inv, &dgamma, &dbeta, &lines, &rows,
                                             &channels, &parts, &gamma_type, &beta_type));
    }
    if (status == HR_OK && rows > 0) {
        status =
            hri_gpu_launch(c->gpu, &hri_cu_batch_norm, k.defines, "batch_norm_grad_apply", &k.grid,
                           HRI_GPU_ARGS(&passed, &x, &dx, &y, &gamma, &beta, &mean, &inv, &lines,
                                        &rows, &channels, &gamma_type, &beta_type));
    }
    return status;
}

hr_status hri_batch_norm_grad_cuda(const hri_gpu_call *c, hri_batch_norm_sign sign) {
    return run_grad(c, sign, &(arrival){.dy = c->in[0]});
}

/* ---- dy as the sum of two, which the call before would have made ---- */

/* The rows of `more` in which the parts may leave their sums: the last group of rows that every part has; 0: none.  What the
 * launch in the middle writes while it reads them must lie elsewhere. */
static hr_addr room_for_sums(const hri_gpu_call *c, const cut *k, hr_addr more) {
    const hri_sig *s = c->sig;
    const int64_t bytes = (int64_t)hr_type_bytes(s->in[1].type),
                  width = (int64_t)k->lanes * k->pack;
    const int64_t group = (int64_t)k->grid.y * (THREADS / k->lanes), rounds = k->rows / group;
    if (k->pack * bytes != 16 || k->channels % width || rounds == 0) {
        return 0;
    }
    const uint64_t size = (uint64_t)(group * k->channels * bytes);
    const hri_gpu_span room = hri_gpu_span_of(more + (uint64_t)(rounds - 1) * size, size);
    const int clear = !hri_gpu_touch(room, hri_gpu_span_of(c->workspace, workspace_of(k))) &&
                      !hri_gpu_touch(room, hri_gpu_span_of(c->out[1], hr_meta_bytes(&s->out[1]))) &&
                      !hri_gpu_touch(room, hri_gpu_span_of(c->out[2], hr_meta_bytes(&s->out[2])));
    return clear ? room.first : 0;
}

hr_status hri_batch_norm_grad_sum_cuda(const hri_gpu_call *c, hri_batch_norm_sign sign, hr_addr a,
                                       hr_addr b) {
    const cut k = cut_of(&c->sig->in[1], GRAD_BLOCKS);
    const uint64_t bytes = hr_meta_bytes(&c->sig->in[0]);
    const hr_addr dz = c->out[3];
    const hri_gpu_span work = hri_gpu_span_of(c->workspace, workspace_of(&k));
    arrival from = {.dy = a == dz ? a : b, .more = a == dz ? b : a};
    const int free_standing =
        !hri_gpu_touch(hri_gpu_span_of(dz, bytes), hri_gpu_span_of(from.more, bytes)) &&
        (from.dy == dz ||
         !hri_gpu_touch(hri_gpu_span_of(dz, bytes), hri_gpu_span_of(from.dy, bytes)));
    /* dz takes the place of the sum, so that nobody can miss it; and the first launch must not write what it still reads. */
    if (dz != c->in[0] || !free_standing || hri_gpu_touch(work, hri_gpu_span_of(from.dy, bytes)) ||
        k.rows == 0 || k.channels == 0) {
        return HR_E_UNSUPPORTED;
    }
    if (hri_gpu_touch(work, hri_gpu_span_of(from.more, bytes))) { /* so it is dead */
        from.sums = room_for_sums(c, &k, from.more);
        if (!from.sums) {
            return HR_E_UNSUPPORTED;
        }
    }
    return run_grad(c, sign, &from);
}

/* ---- with y once more ---- */

hr_status hri_batch_norm_relu_grad_beside_cuda(const hri_gpu_call *c, const hri_gpu_call *again) {
    const hri_sig *s = c->sig;
    const cut k = cut_of(&s->in[1], GRAD_BLOCKS);
    const hri_gpu_span y = hri_gpu_span_of(again->out[0], hr_meta_bytes(&s->in[1]));
    const hr_addr *in = again->in;
    if (again->sig->in_count != 5 || !((const hri_batch_norm_apply_attr *)again->sig->attr)->relu ||
        in[1] != c->in[2] || in[2] != c->in[5] || in[3] != c->in[3] || in[4] != c->in[4] ||
        hri_gpu_touch(y, hri_gpu_span_of(c->workspace, workspace_of(&k)))) {
        return HR_E_UNSUPPORTED;
    }
    return run_grad(c, HRI_BN_FROM_X, &(arrival){.dy = c->in[0], .y = again->out[0]});
}

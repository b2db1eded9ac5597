/* The launches of product_i8.h. */
#include "ops/common/launch.h"
#include "ops/common/product_i8.h"

HRI_CU(product_i8);

enum { THREADS = 256, ROWS = 128, DEEP = 64, STAGES = 3, CHUNK = 16, SLICE = 128, FEW = 16 };

typedef struct shape { /* as in product_i8.cu */
    int64_t rows;
    int32_t h, w, c, oh, ow, o, kh, kw, sh, sw, ph, pw, dh, dw, cg, og;
    int32_t depth, chunks, slices;
    int32_t own_c, own_o;
    uint32_t turned, relu, even, unused;
} shape;

/* own: as the weights lie; v: with its groups joined. */
static shape shape_of(const hri_conv *own, const hri_conv *v) {
    const int64_t depth = v->kh * v->kw * v->cg;
    return (shape){
        .rows = v->n * v->oh * v->ow,
        .h = (int32_t)v->h,
        .w = (int32_t)v->w,
        .c = (int32_t)v->c,
        .oh = (int32_t)v->oh,
        .ow = (int32_t)v->ow,
        .o = (int32_t)v->o,
        .kh = (int32_t)v->kh,
        .kw = (int32_t)v->kw,
        .sh = (int32_t)v->sh,
        .sw = (int32_t)v->sw,
        .ph = (int32_t)v->ph,
        .pw = (int32_t)v->pw,
        .dh = (int32_t)v->dh,
        .dw = (int32_t)v->dw,
        .cg = (int32_t)v->cg,
        .og = (int32_t)v->og,
        .own_c = (int32_t)own->cg,
        .own_o = (int32_t)own->og,
        .depth = (int32_t)depth,
        .chunks = (int32_t)(hri_launch_up(depth, DEEP) * (DEEP / CHUNK)),
        .slices = (int32_t)hri_launch_up(depth, SLICE),
    };
}

/* Tensor cores would multiply zeros for the most part, or there is nothing to sum. */
static int is_direct(const hri_conv *v) {
    return (v->groups > 1 && v->cg == 1 && v->og < FEW) || v->kh * v->kw * v->cg == 0;
}

static hri_conv form_of(const hri_conv *v) {
    return is_direct(v) ? *v : hri_conv_joined(v);
}

static uint64_t packed_bytes(const hri_conv *v, const shape *p) {
    return (uint64_t)v->groups * (uint64_t)p->chunks * (uint64_t)v->og * CHUNK;
}

uint64_t hri_product_i8_workspace(const hri_conv *own) {
    const hri_conv joined = form_of(own), *v = &joined;
    const shape p = shape_of(own, v);
    return is_direct(own) ? 0
                          : packed_bytes(v, &p) + (uint64_t)v->groups * (uint64_t)p.slices *
                                                      (uint64_t)v->og * sizeof(int32_t);
}

/* Wide blocks read less, narrow ones keep more multiprocessors busy. */
static uint32_t columns_of(const shape *p) {
    return p->og > 64 && p->rows >= 4096 ? 128 : 64;
}

static hr_status run_direct(const shape *p, const char *defines, hr_addr in[8], hr_addr out,
                            const hri_gpu_call *c) {
    shape copy = *p;
    return hri_gpu_launch(
        c->gpu, &hri_cu_product_i8, defines, "direct_i8",
        &(hri_gpu_grid){.x = hri_launch_blocks(p->rows * p->o, THREADS), .threads = THREADS},
        HRI_GPU_ARGS(&in[0], &in[1], &in[2], &in[3], &in[4], &in[5], &in[6], &in[7], &out, &copy));
}

hr_status hri_product_i8_cuda(const hri_conv *own, int turned, int relu, const hri_gpu_call *c) {
    const hri_conv joined = form_of(own), *v = &joined;
    shape p = shape_of(own, v);
    /* 8-bit floats have one input less, no zero point. */
    const int f8 = c->sig->in_count == 5;
    hr_addr in[8] = {0}, out = c->out[0], packed = c->workspace;
    for (uint32_t i = 0; i < c->sig->in_count; i++) {
        in[i] = c->in[i];
    }
    p.turned = (uint32_t)turned;
    p.relu = (uint32_t)relu;
    const int wide = v->cg % CHUNK == 0 && v->c % CHUNK == 0 && hri_launch_wide(in[0]);
    p.even = v->og % CHUNK == 0 && v->o % CHUNK == 0 && hri_launch_wide(out);
    if (p.rows * p.o == 0) {
        return HR_OK;
    }
    const uint32_t columns = columns_of(&p), groups = (uint32_t)v->groups;
    const hri_defines d = hri_launch_defines(
        "-DHR_T=%s -DHR_N=%u -DHR_WIDE=%d -DHR_INDEX=%s%s",
        c->sig->in_count > 6 ? "hr_u8" : "float", columns, wide,
        p.rows * p.o < INT64_C(1) << 31 ? "hr_u32" : "hr_i64", f8 ? " -DHR_F8" : "");
    if (is_direct(own)) {
        return run_direct(&p, d.text, in, out, c);
    }
    hr_addr sums = packed + packed_bytes(v, &p);
    const hr_status status = hri_gpu_launch(c->gpu, &hri_cu_product_i8, d.text, "pack_i8",
                                            &(hri_gpu_grid){.x = hri_launch_blocks(p.og, 32),
                                                            .y = (uint32_t)p.slices,
                                                            .z = groups,
                                                            .threads = THREADS},
                                            HRI_GPU_ARGS(&in[1], &packed, &sums, &p));
    return status != HR_OK
               ? status
               : hri_gpu_launch(c->gpu, &hri_cu_product_i8, d.text, "product_i8",
                                &(hri_gpu_grid){.x = hri_launch_blocks(p.rows, ROWS),
                                                .y = hri_launch_blocks(p.og, columns),
                                                .z = groups,
                                                .threads = THREADS,
                                                .shared_bytes = STAGES * (ROWS + columns) * DEEP +
                                                                columns * 12},
                                HRI_GPU_ARGS(&in[0], &packed, &sums, &in[2], &in[3], &in[4], &in[5],
                                             &in[6], &in[7], &out, &p));
}

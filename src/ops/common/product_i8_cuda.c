/* The launches of product_i8.h. */
#include "ops/common/launch.h"
#include "ops/common/product_i8.h"

HRI_CU(product_i8);

/* Groups of four channels of one tap. */
static int64_t fours_of(const hri_conv *v) {
    return (v->c + 3) / 4;
}

uint64_t hri_product_i8_workspace(const hri_conv *v) {
    return (uint64_t)(v->kh * v->kw * fours_of(v) * v->o) * 4;
}

hr_status hri_product_i8_cuda(const hri_conv *v, int turned, int relu, const hri_gpu_call *c) {
    enum { THREADS = 256 };
    const int bytes = c->sig->in_count > 6;
    struct shape { /* as in product_i8.cu */
        int64_t count, h, w, c, oh, ow, o, kh, kw, sh, sw, ph, pw, dh, dw, fours;
        uint32_t turned, relu, aligned, unused;
    } p = {v->n * v->oh * v->ow * v->o,
           v->h,
           v->w,
           v->c,
           v->oh,
           v->ow,
           v->o,
           v->kh,
           v->kw,
           v->sh,
           v->sw,
           v->ph,
           v->pw,
           v->dh,
           v->dw,
           fours_of(v),
           (uint32_t)turned,
           (uint32_t)relu,
           v->c % 4 == 0 && c->in[0] % 4 == 0,
           0};
    const char *defines = bytes ? "-DHR_T=hr_u8" : "-DHR_T=float";
    hr_addr in[8] = {0}, out = c->out[0], packed = c->workspace;
    for (uint32_t i = 0; i < c->sig->in_count; i++) {
        in[i] = c->in[i];
    }
    const int64_t groups = v->kh * v->kw * p.fours * v->o;
    if (!p.count) {
        return HR_OK;
    }
    if (groups) {
        const hr_status status = hri_gpu_launch(
            c->gpu, &hri_cu_product_i8, defines, "pack_i8",
            &(hri_gpu_grid){.x = hri_launch_blocks(groups, THREADS), .threads = THREADS},
            HRI_GPU_ARGS(&in[1], &packed, &p));
        if (status != HR_OK) {
            return status;
        }
    }
    return hri_gpu_launch(
        c->gpu, &hri_cu_product_i8, defines, "product_i8",
        &(hri_gpu_grid){.x = hri_launch_blocks(p.count, THREADS), .threads = THREADS},
        HRI_GPU_ARGS(&in[0], &packed, &in[2], &in[3], &in[4], &in[5], &in[6], &in[7], &out, &p));
}

/* The three convolutions on a GPU: device/gpu.h does them; a bias is added afterwards. */
#include "ops/common/bias_cuda.h"
#include "ops/common/conv.h"

static hri_gpu_conv on_gpu(const hri_conv *v, hri_gpu_conv_kind kind, const hri_sig *s) {
    return (hri_gpu_conv){
        .kind = (uint8_t)kind,
        .type = s->in[0].type,
        .w_type = kind == HRI_GPU_CONV_WEIGHT ? s->out[0].type : s->in[1].type,
        .n = v->n,
        .h = v->h,
        .w = v->w,
        .c = v->c,
        .o = v->o,
        .p = v->oh,
        .q = v->ow,
        .kh = v->kh,
        .kw = v->kw,
        .stride_h = v->sh,
        .stride_w = v->sw,
        .pad_top = v->ph,
        .pad_left = v->pw,
        .pad_bottom = v->ph_after,
        .pad_right = v->pw_after,
        .dilation_h = v->dh,
        .dilation_w = v->dw,
        .groups = v->groups,
    };
}

uint64_t hri_conv_cuda_workspace(const hri_conv *v, hri_gpu_conv_kind kind, const hri_sig *s,
                                 hri_gpu *gpu) {
    const hri_gpu_conv x = on_gpu(v, kind, s);
    return hri_gpu_conv_workspace(gpu, &x, hri_gpu_conv_limit(&x));
}

hr_status hri_conv_cuda(const hri_conv *v, hri_gpu_conv_kind kind, const hri_gpu_call *c) {
    const hri_gpu_conv x = on_gpu(v, kind, c->sig);
    const hr_status status = hri_gpu_conv_run(c->gpu, &x, c->in[0], c->in[1], c->out[0],
                                              c->workspace, c->workspace_bytes);
    return status == HR_OK && c->sig->in_count > 2
               ? hri_bias_launch(c->gpu, &c->sig->out[0], &c->sig->in[2], c->out[0], c->in[2],
                                 c->out[0])
               : status;
}

/* The three convolutions on a GPU: device/gpu.h does them; a bias is added afterwards. */
#include <stdio.h>
#include "ops/common/conv.h"

HRI_CU(bias_rows);

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

static hr_status add_bias(const hri_gpu_call *c) {
    static const char *const names[] = {"float", "hr_bf16", "hr_f16"};
    const hr_type y = c->sig->out[0].type, bias = c->sig->in[2].type;
    const int64_t count = hr_shape_count(&c->sig->out[0].shape);
    const int64_t columns = c->sig->in[2].shape.dim[0];
    const int64_t blocks = (count + 255) / 256;
    const hri_gpu_grid grid = {.x = (uint32_t)(blocks < 1 << 16 ? blocks : 1 << 16),
                               .threads = count ? 256 : 0};
    char defines[48];
    snprintf(defines, sizeof defines, "-DHR_T=%s -DHR_BIAS=%s",
             names[y == HR_TYPE_F16 ? 2 : y == HR_TYPE_BF16],
             names[bias == HR_TYPE_F16 ? 2 : bias == HR_TYPE_BF16]);
    return hri_gpu_launch(c->gpu, &hri_cu_bias_rows, defines, "bias_rows", &grid,
                          HRI_GPU_ARGS(&(hr_addr){c->out[0]}, &(hr_addr){c->in[2]},
                                       &(int64_t){count}, &(int64_t){columns}));
}

hr_status hri_conv_cuda(const hri_conv *v, hri_gpu_conv_kind kind, const hri_gpu_call *c) {
    const hri_gpu_conv x = on_gpu(v, kind, c->sig);
    const hr_status status = hri_gpu_conv_run(c->gpu, &x, c->in[0], c->in[1], c->out[0],
                                              c->workspace, c->workspace_bytes);
    return status == HR_OK && c->sig->in_count > 2 ? add_bias(c) : status;
}

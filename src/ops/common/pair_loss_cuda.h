/* Losses of pairs on a GPU: ops/cuda/pair_loss.cu, `name` being the struct there. */
#ifndef HRI_OPS_COMMON_PAIR_LOSS_CUDA_H
#define HRI_OPS_COMMON_PAIR_LOSS_CUDA_H

#include "ops/common/launch.h"
#include "ops/common/pair_loss.h"

HRI_CU(pair_loss);

enum { HRI_PAIR_THREADS = 256, HRI_PAIR_PIECE = 8192, HRI_PAIR_FINISH = 1024 };

static inline uint64_t hri_pair_cuda_workspace(const hri_sig *s, hri_gpu *gpu, uint32_t variant) {
    (void)gpu;
    (void)variant;
    return (uint64_t)hri_launch_up(hr_shape_count(&s->in[0].shape), HRI_PAIR_PIECE) * sizeof(float);
}

static inline int hri_pair_width(hr_type type, hr_addr all) {
    return hri_launch_wide(all) ? (int)(16 / hr_type_bytes(type)) : 1;
}

static inline hri_defines hri_pair_defines(const char *name, hr_type type, hr_addr all) {
    return hri_launch_defines("-DHR_T=%s -DHR_V=%d -DHR_LOSS=%s", hri_launch_type(type),
                              hri_pair_width(type, all), name);
}

/* What the sum is divided by. */
static inline float hri_pair_divisor(const hri_sig *s, int64_t count) {
    return ((const hri_pair_attr *)s->attr)->sum || count == 0 ? 1.0f : (float)count;
}

static inline hr_status hri_pair_launch(const hri_gpu_call *c, const char *name) {
    const hri_defines d = hri_pair_defines(name, c->sig->in[0].type, c->in[0] | c->in[1]);
    int64_t count = hr_shape_count(&c->sig->in[0].shape);
    int64_t pieces = hri_launch_up(count, HRI_PAIR_PIECE);
    hr_addr x = c->in[0], t = c->in[1], out = c->out[0], sums = c->workspace;
    float divisor = hri_pair_divisor(c->sig, count);
    const hr_status status = hri_gpu_launch(
        c->gpu, &hri_cu_pair_loss, d.text, "pieces",
        &(hri_gpu_grid){.x = (uint32_t)pieces, .threads = pieces ? HRI_PAIR_THREADS : 0},
        HRI_GPU_ARGS(&x, &t, &sums, &count));
    return status != HR_OK ? status
                           : hri_gpu_launch(c->gpu, &hri_cu_pair_loss, d.text, "finish",
                                            &(hri_gpu_grid){.x = 1, .threads = HRI_PAIR_FINISH},
                                            HRI_GPU_ARGS(&sums, &out, &pieces, &divisor));
}

static inline hr_status hri_pair_grad_launch(const hri_gpu_call *c, const char *name) {
    const hr_type type = c->sig->in[1].type;
    const hr_addr all = c->in[1] | c->in[2] | c->out[0];
    const hri_defines d = hri_pair_defines(name, type, all);
    int64_t count = hr_shape_count(&c->sig->in[1].shape);
    hr_addr dloss = c->in[0], x = c->in[1], t = c->in[2], dx = c->out[0];
    float divisor = hri_pair_divisor(c->sig, count);
    const uint32_t blocks = hri_launch_blocks(count, HRI_PAIR_THREADS * hri_pair_width(type, all));
    return hri_gpu_launch(c->gpu, &hri_cu_pair_loss, d.text, "slopes",
                          &(hri_gpu_grid){.x = blocks, .threads = blocks ? HRI_PAIR_THREADS : 0},
                          HRI_GPU_ARGS(&dloss, &x, &t, &dx, &count, &divisor));
}

#endif

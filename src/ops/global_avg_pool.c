/* global_avg_pool(x): the mean of each channel over the image.
 *
 *   x (N, H, W, C)   y (N, C)
 *
 * The gradient keeps nothing: dy / (H W), broadcast back. */
#include "graph/dims.h"
#include "ops/common/blocks.h"
#include "ops/common/pool.h"

static hr_status global_avg_pool_infer(hri_infer *c) {
    const hr_shape *x = &c->in[0].shape;
    if (!hr_type_is_real(c->in[0].type) || x->rank != 4) {
        return hri_infer_fail(c, "the input must be floating point, (N, H, W, C)");
    }
    if (x->dim[1] * x->dim[2] == 0) {
        return hri_infer_fail(c, "the image has no place to take the mean of");
    }
    c->out[0] = (hr_meta){c->in[0].type, {.rank = 2, .dim = {x->dim[0], x->dim[3]}}};
    return HR_OK;
}

static void global_avg_pool_grad(hri_grad *c) {
    const hr_shape *x = &c->sig->in[0].shape;
    const hri_attr_dims pixel = {{.count = 4, .at = {x->dim[0], 1, 1, x->dim[3]}}};
    const hri_attr_dims whole = {hri_dims_of(x)};
    const hr_value share = hr_graph_fill(c->g, c->sig->in[0].type, (hr_shape){0},
                                         1.0 / ((double)x->dim[1] * (double)x->dim[2]));
    const hr_value dy = HRI_NODE(c->g, "mul", NULL, c->dout[0], share);
    c->din[0] = HRI_NODE(c->g, "broadcast_to", &whole, HRI_NODE(c->g, "reshape", &pixel, dy));
}

/* Range over samples and blocks of channels: rows of pixels first, so that sums stay short. */
static void global_avg_pool_range(void *arg, uint64_t begin, uint64_t end, uint32_t worker) {
    const hri_call *c = arg;
    const hr_shape *s = &c->sig->in[0].shape;
    const hr_type type = c->sig->in[0].type;
    const int64_t h = s->dim[1], w = s->dim[2], channels = s->dim[3];
    const int64_t blocks = (channels + HRI_BLOCK - 1) / HRI_BLOCK;
    (void)worker;
    for (int64_t r = (int64_t)begin; r < (int64_t)end; r++) {
        const int64_t b = r / blocks, c0 = r % blocks * HRI_BLOCK;
        const int64_t n = hri_min64(HRI_BLOCK, channels - c0);
        float sum[HRI_BLOCK] = {0}, room[HRI_BLOCK];
        for (int64_t i = 0; i < h; i++) {
            float row[HRI_BLOCK] = {0};
            for (int64_t j = 0; j < w; j++) {
                const float *x =
                    hri_block_in(type, c->in[0], ((b * h + i) * w + j) * channels + c0, n, room);
                for (int64_t k = 0; k < n; k++) {
                    row[k] += x[k];
                }
            }
            for (int64_t k = 0; k < n; k++) {
                sum[k] += row[k];
            }
        }
        float *y = hri_block_out(type, c->out[0], b * channels + c0, room);
        for (int64_t k = 0; k < n; k++) {
            y[k] = sum[k] / (float)(h * w);
        }
        hri_block_put(type, c->out[0], b * channels + c0, n, y);
    }
}

static hr_status global_avg_pool_host(const hri_call *c) {
    const hr_shape *s = &c->sig->in[0].shape;
    hri_call call = *c;
    hri_threads_range(c->threads, (uint64_t)(s->dim[0] * ((s->dim[3] + HRI_BLOCK - 1) / HRI_BLOCK)),
                      1, global_avg_pool_range, &call);
    return HR_OK;
}

static void global_avg_pool_cost(const hri_sig *s, hri_cost *cost) {
    cost->flops = (double)hr_shape_count(&s->in[0].shape);
}

static const hri_case global_avg_pool_cases[] = {
    {"odd", "f32[3,7,5,19]", .batched = 1},
    {"wide", "f32[2,3,3,515]"},
    {"one pixel", "f32[2,1,1,4]"},
    {"no samples", "f32[0,2,2,4]"},
    {"bf16", "bf16[2,5,5,7]"},
    {"f16", "f16[2,5,5,7]"},
    {"no pixels", "f32[2,0,3,4]", .flags = HRI_CASE_BAD},
    {NULL, NULL},
};

const hr_op hr_op_global_avg_pool = {
    .name = "global_avg_pool",
    .formula = "y = mean of x over height and width",
    .in_min = 1,
    .in_max = 1,
    .out_count = 1,
    .infer = global_avg_pool_infer,
    .grad = global_avg_pool_grad,
    .cost = global_avg_pool_cost,
    .host = {.run = global_avg_pool_host},
    .cases = HRI_CASES(global_avg_pool_cases),
};

const hri_kernel hri_kernel_cuda_global_avg_pool = {.launch = hri_global_avg_pool_cuda};

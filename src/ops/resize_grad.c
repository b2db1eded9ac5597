/* resize_grad(dy; height, width, mode): dx of resize, height and width being those of x.
 *
 *   dy (N, OH, OW, C)   dx (N, height, width, C):   each input pixel collects its share of the outputs it reached */
#include "ops/common/resize.h"

static hr_status resize_grad_infer(hri_infer *c) {
    const hri_resize_attr *p = c->attr;
    const hr_shape *dy = &c->in[0].shape;
    if (!hr_type_is_real(c->in[0].type) || dy->rank != 4) {
        return hri_infer_fail(c, "dy must be floating point, (N, OH, OW, C)");
    }
    if (p->height < 1 || p->width < 1 || dy->dim[1] < 1 || dy->dim[2] < 1) {
        return hri_infer_fail(c, "height and width must be 1 or more, before and after");
    }
    c->out[0] =
        (hr_meta){c->in[0].type, {.rank = 4, .dim = {dy->dim[0], p->height, p->width, dy->dim[3]}}};
    return HR_OK;
}

/* Input pixel (i, j) of image b, one block of channels. */
static void grad_pixel(const hri_call *c, int64_t b, int64_t i, int64_t j, int64_t c0) {
    const int mode = ((const hri_resize_attr *)c->sig->attr)->mode;
    const int64_t *out = c->sig->in[0].shape.dim, *in = c->sig->out[0].shape.dim;
    const hr_type type = c->sig->in[0].type;
    const int64_t channels = in[3], n = hri_min64(HRI_BLOCK, channels - c0);
    const int64_t to = ((b * in[1] + i) * in[2] + j) * channels + c0;
    int64_t h0, h1, w0, w1;
    float room[HRI_BLOCK], sum[HRI_BLOCK];
    memset(sum, 0, (size_t)n * sizeof *sum);
    hri_resize_reach(i, in[1], out[1], &h0, &h1);
    hri_resize_reach(j, in[2], out[2], &w0, &w1);
    for (int64_t h = h0; h < h1; h++) {
        const float by_h = hri_resize_share(mode, h, i, in[1], out[1]);
        for (int64_t w = w0; by_h != 0.0f && w < w1; w++) {
            const float by = by_h * hri_resize_share(mode, w, j, in[2], out[2]);
            if (by != 0.0f) {
                const int64_t at = ((b * out[1] + h) * out[2] + w) * channels + c0;
                const float *dy = hri_block_in(type, c->in[0], at, n, room);
                for (int64_t k = 0; k < n; k++) {
                    sum[k] += by * dy[k];
                }
            }
        }
    }
    float *dx = hri_block_out(type, c->out[0], to, room);
    memcpy(dx, sum, (size_t)n * sizeof *dx);
    hri_block_put(type, c->out[0], to, n, dx);
}

static void resize_grad_rows(void *arg, uint64_t begin, uint64_t end, uint32_t worker) {
    const hri_call *c = arg;
    const int64_t *in = c->sig->out[0].shape.dim;
    (void)worker;
    for (int64_t r = (int64_t)begin; r < (int64_t)end; r++) {
        for (int64_t j = 0; j < in[2]; j++) {
            for (int64_t c0 = 0; c0 < in[3]; c0 += HRI_BLOCK) {
                grad_pixel(c, r / in[1], r % in[1], j, c0);
            }
        }
    }
}

static hr_status resize_grad_host(const hri_call *c) {
    const int64_t *in = c->sig->out[0].shape.dim;
    hri_call call = *c;
    hri_threads_range(c->threads, (uint64_t)(in[0] * in[1]),
                      (uint64_t)(4096 / (in[2] * in[3] + 1) + 1), resize_grad_rows, &call);
    return HR_OK;
}

static void resize_grad_cost(const hri_sig *s, hri_cost *cost) {
    cost->flops = 8.0 * (double)hr_shape_count(&s->in[0].shape);
}

static const hri_case resize_grad_cases[] = {
    {"twice, nearest", "f32[2,6,10,7]", "height=3,width=5", .batched = 1},
    {"twice, bilinear", "f32[2,6,10,7]", "height=3,width=5,mode=bilinear"},
    {"many times, bilinear", "f32[1,37,2,3]", "height=3,width=2,mode=bilinear"},
    {"smaller, bilinear", "f32[2,4,5,3]", "height=9,width=11,mode=bilinear"},
    {"smaller, nearest", "f32[2,4,5,3]", "height=9,width=11"},
    {"twice, corners", "f32[2,6,10,7]", "height=3,width=5,mode=corners"},
    {"smaller, corners", "f32[2,4,1,3]", "height=9,width=11,mode=corners"},
    {"many times, corners", "f32[1,37,5,3]", "height=3,width=2,mode=corners"},
    {"one pixel", "f32[2,3,2,300]", "height=1,width=1,mode=bilinear"},
    {"no samples", "f32[0,3,3,3]", "height=2,width=2"},
    {"bf16", "bf16[2,5,7,7]", "height=3,width=5,mode=bilinear"},
    {"a long row", "f32[1,1,3,1]", "height=1,width=262149,mode=bilinear"},
    {"f16", "f16[2,5,7,7]", "height=3,width=5"},
    {"no size", "f32[2,3,5,7]", .flags = HRI_CASE_BAD},
    {NULL, NULL},
};

const hr_op hr_op_resize_grad = {
    .name = "resize_grad",
    .formula = "dx = sum of dy by what x gave to y",
    .in_min = 1,
    .in_max = 1,
    .out_count = 1,
    .fields = hri_resize_fields,
    .attr_bytes = sizeof(hri_resize_attr),
    .infer = resize_grad_infer,
    .cost = resize_grad_cost,
    .host = {.run = resize_grad_host},
    .cases = HRI_CASES(resize_grad_cases),
};

const hri_kernel hri_kernel_cuda_resize_grad = {.launch = hri_resize_grad_cuda};

/* fake_quantize_weight(w, range; rows): weights as they are after being codes of -127 .. 127, a scale for each output.
 *
 *   w f32 (..., O), or with `rows` (O, ...)   range f32 (2), of the layer's input: with a scale of 0 or less y = w
 *   y = s round(w / s),   s = largest |w| of the output / 127, or 1 where that is 0
 *
 * weights/quantize.c makes codes by the same formula.  Factors of outputs (batch norm) change s and not the codes, so it is the same
 * whether they are folded in before or after.  No weight is beyond its range: the gradient is that of y. */
#include <math.h>

#include "ops/common/launch.h"

typedef struct fake_quantize_weight_attr {
    bool rows;
} fake_quantize_weight_attr;

static const hri_field fake_quantize_weight_fields[] = {
    {"rows", "outputs are the first dimension, not the last",
     offsetof(fake_quantize_weight_attr, rows), HRI_FIELD_BOOL, NULL},
    {0},
};

static hr_status fake_quantize_weight_infer(hri_infer *c) {
    const hr_shape *range = &c->in[1].shape;
    if (c->in[0].type != HR_TYPE_F32 || c->in[0].shape.rank < 2 || c->in[1].type != HR_TYPE_F32 ||
        range->rank != 1 || range->dim[0] != 2) {
        return hri_infer_fail(c, "expected f32 weights of two dimensions or more, and f32[2]");
    }
    c->out[0] = c->in[0];
    return HR_OK;
}

static void fake_quantize_weight_grad(hri_grad *c) {
    if (HRI_NEEDS(c, 0)) {
        c->din[0] = c->dout[0];
    }
}

static int64_t columns_of(const hri_sig *s) {
    const hr_shape *w = &s->in[0].shape;
    const fake_quantize_weight_attr *p = s->attr;
    return w->dim[p->rows ? 0 : w->rank - 1];
}

static float scale_of(float largest) {
    const float scale = largest / 127.0f;
    return scale >= 0x1p-126f && isfinite(scale) ? scale : 1.0f;
}

static float coded(float w, float scale) {
    const float code = rintf(w / scale);
    return (code > 127.0f ? 127.0f : code >= -127.0f ? code : -127.0f) * scale;
}

/* Range over outputs, all of their weights each. */
static void rows_range(void *arg, uint64_t begin, uint64_t end, uint32_t worker) {
    const hri_call *c = arg;
    const int64_t depth = hr_shape_count(&c->sig->in[0].shape) / columns_of(c->sig);
    (void)worker;
    for (uint64_t o = begin; o < end; o++) {
        const float *w = (const float *)c->in[0] + (int64_t)o * depth;
        float *y = (float *)c->out[0] + (int64_t)o * depth, largest = 0.0f;
        for (int64_t i = 0; i < depth; i++) {
            largest = fmaxf(largest, fabsf(w[i]));
        }
        const float scale = scale_of(largest);
        for (int64_t i = 0; i < depth; i++) {
            y[i] = coded(w[i], scale);
        }
    }
}

/* The same where outputs lie side by side: a block of them, row after row. */
static void columns_range(void *arg, uint64_t begin, uint64_t end, uint32_t worker) {
    const hri_call *c = arg;
    const int64_t columns = columns_of(c->sig),
                  depth = hr_shape_count(&c->sig->in[0].shape) / columns;
    float scale[64];
    (void)worker;
    for (uint64_t first = begin; first < end; first += 64) {
        const int n = end - first < 64 ? (int)(end - first) : 64;
        for (int o = 0; o < n; o++) {
            scale[o] = 0.0f;
        }
        for (int64_t i = 0; i < depth; i++) {
            const float *w = (const float *)c->in[0] + i * columns + (int64_t)first;
            for (int o = 0; o < n; o++) {
                scale[o] = fmaxf(scale[o], fabsf(w[o]));
            }
        }
        for (int o = 0; o < n; o++) {
            scale[o] = scale_of(scale[o]);
        }
        for (int64_t i = 0; i < depth; i++) {
            const float *w = (const float *)c->in[0] + i * columns + (int64_t)first;
            float *y = (float *)c->out[0] + i * columns + (int64_t)first;
            for (int o = 0; o < n; o++) {
                y[o] = coded(w[o], scale[o]);
            }
        }
    }
}

static void copy_range(void *arg, uint64_t begin, uint64_t end, uint32_t worker) {
    const hri_call *c = arg;
    (void)worker;
    for (uint64_t i = begin; i < end; i++) {
        ((float *)c->out[0])[i] = ((const float *)c->in[0])[i];
    }
}

static hr_status fake_quantize_weight_host(const hri_call *c) {
    const fake_quantize_weight_attr *p = c->sig->attr;
    const uint64_t count = (uint64_t)hr_shape_count(&c->sig->in[0].shape);
    const uint64_t columns = count ? (uint64_t)columns_of(c->sig) : 0;
    hri_call call = *c;
    if (!(((const float *)c->in[1])[0] > 0.0f)) {
        hri_threads_range(c->threads, count, 16384, copy_range, &call);
    } else {
        hri_threads_range(c->threads, columns, 64, p->rows ? rows_range : columns_range, &call);
    }
    return HR_OK;
}

HRI_CU(fake_quantize);

static hr_status fake_quantize_weight_cuda(const hri_gpu_call *c) {
    enum { THREADS = 128 };
    const fake_quantize_weight_attr *p = c->sig->attr;
    hr_addr w = c->in[0], range = c->in[1], y = c->out[0];
    const int64_t count = hr_shape_count(&c->sig->in[0].shape);
    if (count == 0) {
        return HR_OK;
    }
    int64_t columns = columns_of(c->sig), depth = count / columns;
    int64_t far = p->rows ? depth : 1, near = p->rows ? 1 : columns;
    return hri_gpu_launch(c->gpu, &hri_cu_fake_quantize, "", "fake_quantize_weight",
                          &(hri_gpu_grid){.x = (uint32_t)columns, .threads = THREADS},
                          HRI_GPU_ARGS(&w, &range, &y, &depth, &far, &near));
}

static void fake_quantize_weight_cost(const hri_sig *s, hri_cost *cost) {
    cost->flops = 6.0 * (double)hr_shape_count(&s->in[0].shape);
}

static const hri_case fake_quantize_weight_cases[] = {
    {"linear", "f32[33,7] f32[2]", .low = 0.01, .high = 1, .flags = HRI_CASE_NO_GRAD},
    {"convolution", "f32[3,3,5,130] f32[2]", .low = 0.1, .high = 3, .flags = HRI_CASE_NO_GRAD},
    {"rows", "f32[70,301] f32[2]", "rows", .low = 0.1, .high = 1, .flags = HRI_CASE_NO_GRAD},
    {"not yet", "f32[7,33] f32[2]", .low = -1, .high = -0.1},
    {"nothing", "f32[0,3] f32[2]", .low = 0.1, .high = 1},
    {"a vector", "f32[3] f32[2]", .flags = HRI_CASE_BAD},
    {"small type", "bf16[3,4] f32[2]", .flags = HRI_CASE_BAD},
    {NULL, NULL},
};

const hr_op hr_op_fake_quantize_weight = {
    .name = "fake_quantize_weight",
    .formula = "y = s round(w / s), s = max |w| of the output / 127",
    .in_min = 2,
    .in_max = 2,
    .out_count = 1,
    .fields = fake_quantize_weight_fields,
    .attr_bytes = sizeof(fake_quantize_weight_attr),
    .infer = fake_quantize_weight_infer,
    .grad = fake_quantize_weight_grad,
    .no_grad = 2,
    .overwrite = {1},
    .cost = fake_quantize_weight_cost,
    .host = {.run = fake_quantize_weight_host},
    .cases = HRI_CASES(fake_quantize_weight_cases),
};

const hri_kernel hri_kernel_cuda_fake_quantize_weight = {.launch = fake_quantize_weight_cuda};

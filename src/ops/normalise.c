/* normalise(x, scale, shift; to): y = x * scale + shift with x (..., C) of bytes, scale and shift (C) f32.
 *
 * The first op of a graph whose images come as bytes (graph/pixels.h).  The product is rounded to f32, then the sum, then
 * the result to its type: the bits of the pipeline's stage `normalise` followed by a cast.  Bytes have no gradient, and
 * scale and shift are constants of the data. */
#include "graph/half.h"
#include "graph/pixels.h"
#include "ops/common/launch.h"

typedef struct normalise_attr {
    int to;
} normalise_attr;

static const char *const normalise_types[] = {"f32", "bf16", "f16", NULL};
static const hr_type type_of[] = {HR_TYPE_F32, HR_TYPE_BF16, HR_TYPE_F16};

static const hri_field normalise_fields[] = {
    {"to", "the type of the result", offsetof(normalise_attr, to), HRI_FIELD_ENUM, "f32",
     .choices = normalise_types},
    {0},
};

static hr_status normalise_infer(hri_infer *c) {
    const hr_shape *x = &c->in[0].shape;
    const int to = ((const normalise_attr *)c->attr)->to;
    if (to < 0 || to > 2) {
        return hri_infer_fail(c, "the result must be f32, bf16 or f16");
    }
    if (c->in[0].type != HR_TYPE_U8 || x->rank < 1) {
        return hri_infer_fail(c, "the first input must be u8, (..., C)");
    }
    for (int i = 1; i < 3; i++) {
        const hr_shape *s = &c->in[i].shape;
        if (c->in[i].type != HR_TYPE_F32 || s->rank != 1 || s->dim[0] != x->dim[x->rank - 1]) {
            return hri_infer_fail(c, "scale and shift must be f32, one number per channel");
        }
    }
    c->out[0] = (hr_meta){type_of[to], *x};
    return HR_OK;
}

#define ROWS(S, STORE)                                                                             \
    for (uint64_t i = begin; i < end; i++) {                                                       \
        const uint8_t *x = (const uint8_t *)c->in[0] + i * width;                                  \
        S *y = (S *)c->out[0] + i * width;                                                         \
        for (uint64_t k = 0; k < width; k++) {                                                     \
            y[k] = STORE(hri_pixels_real(x[k], scale[k], shift[k]));                               \
        }                                                                                          \
    }
#define SAME(X) (X)

static void normalise_rows(void *arg, uint64_t begin, uint64_t end, uint32_t worker) {
    const hri_call *c = arg;
    const uint64_t width = (uint64_t)c->sig->in[1].shape.dim[0];
    const float *scale = c->in[1], *shift = c->in[2];
    (void)worker;
    switch (c->sig->out[0].type) {
    case HR_TYPE_F32:
        ROWS(float, SAME)
        break;
    case HR_TYPE_BF16:
        ROWS(hri_bf16, hri_to_bf16)
        break;
    default:
        ROWS(hri_f16, hri_to_f16)
    }
}

static hr_status normalise_host(const hri_call *c) {
    const int64_t width = c->sig->in[1].shape.dim[0], count = hr_shape_count(&c->sig->out[0].shape);
    hri_call call = *c;
    if (count) {
        hri_threads_range(c->threads, (uint64_t)(count / width), (uint64_t)(16384 / width + 1),
                          normalise_rows, &call);
    }
    return HR_OK;
}

HRI_CU(normalise);

static hr_status normalise_cuda(const hri_gpu_call *c) {
    enum { THREADS = 256, EACH = 16 };
    const hri_defines d = hri_launch_defines("-DHR_T=%s", hri_launch_type(c->sig->out[0].type));
    int64_t width = c->sig->in[1].shape.dim[0], count = hr_shape_count(&c->sig->out[0].shape);
    hr_addr x = c->in[0], scale = c->in[1], shift = c->in[2], y = c->out[0];
    uint32_t wide = (uint32_t)hri_launch_wide(x | y);
    return count ? hri_gpu_launch(c->gpu, &hri_cu_normalise, d.text, "normalise",
                                  &(hri_gpu_grid){.x = hri_launch_blocks(count, THREADS * EACH),
                                                  .threads = THREADS},
                                  HRI_GPU_ARGS(&x, &scale, &shift, &y, &count, &width, &wide))
                 : HR_OK;
}

static void normalise_cost(const hri_sig *s, hri_cost *cost) {
    cost->flops = 2.0 * (double)hr_shape_count(&s->out[0].shape);
}

static const hri_case normalise_cases[] = {
    {"colours", "u8[2,5,7,3] f32[3] f32[3]", .ids = 256, .flags = HRI_CASE_NO_GRAD, .batched = 1},
    {"grey", "u8[3,28,28,1] f32[1] f32[1]", .ids = 256, .flags = HRI_CASE_NO_GRAD, .batched = 1},
    {"one row", "u8[33] f32[33] f32[33]", .ids = 256, .flags = HRI_CASE_NO_GRAD},
    {"whole accesses", "u8[2,32,32,3] f32[3] f32[3]", .ids = 256, .flags = HRI_CASE_NO_GRAD},
    {"whole accesses, bf16", "u8[2,32,32,3] f32[3] f32[3]", "to=bf16", .ids = 256,
     .flags = HRI_CASE_NO_GRAD, .batched = 1},
    {"bf16", "u8[7,5,3] f32[3] f32[3]", "to=bf16", .ids = 256, .flags = HRI_CASE_NO_GRAD},
    {"f16", "u8[7,5,3] f32[3] f32[3]", "to=f16", .ids = 256, .flags = HRI_CASE_NO_GRAD},
    {"many channels", "u8[40,1000] f32[1000] f32[1000]", .ids = 256, .flags = HRI_CASE_NO_GRAD},
    {"no rows", "u8[0,3] f32[3] f32[3]", .flags = HRI_CASE_NO_GRAD},
    {"no channels", "u8[3,0] f32[0] f32[0]", .flags = HRI_CASE_NO_GRAD},
    {"real already", "f32[2,3] f32[3] f32[3]", .flags = HRI_CASE_BAD},
    {"sizes differ", "u8[2,3] f32[3] f32[1]", .flags = HRI_CASE_BAD},
    {"small constants", "u8[2,3] bf16[3] bf16[3]", .flags = HRI_CASE_BAD},
    {"whole result", "u8[2,3] f32[3] f32[3]", "to=i32", .flags = HRI_CASE_BAD},
    {NULL, NULL},
};

const hr_op hr_op_normalise = {
    .name = "normalise",
    .formula = "y = x * scale + shift, bytes to real numbers, channel by channel",
    .in_min = 3,
    .in_max = 3,
    .out_count = 1,
    .fields = normalise_fields,
    .attr_bytes = sizeof(normalise_attr),
    .infer = normalise_infer,
    .cost = normalise_cost,
    .host = {.run = normalise_host},
    .cases = HRI_CASES(normalise_cases),
};

const hri_kernel hri_kernel_cuda_normalise = {.launch = normalise_cuda};

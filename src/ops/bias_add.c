/* bias_add(x, b): y = x + b with x (..., C) and b (C).
 *
 * What add does with a row, without finding the row again for each run of C numbers.  The gradient keeps nothing: x gets
 * dy, b its column sums, which sum_to adds in fixed parts. */
#include "ops/common/bias_cuda.h"
#include "ops/common/rows.h"

static hr_status bias_add_infer(hri_infer *c) {
    const hr_shape *x = &c->in[0].shape, *b = &c->in[1].shape;
    if (!hr_type_is_real(c->in[0].type) || c->in[0].type != c->in[1].type) {
        return hri_infer_fail(c, "both inputs must have the same floating-point type");
    }
    if (x->rank < 1 || b->rank != 1 || b->dim[0] != x->dim[x->rank - 1]) {
        return hri_infer_fail(c, "the bias must have the size of the last dimension");
    }
    c->out[0] = c->in[0];
    return HR_OK;
}

static void bias_add_grad(hri_grad *c) {
    c->din[0] = c->dout[0];
    if (HRI_NEEDS(c, 1)) {
        c->din[1] = hri_sum_to(c->g, c->dout[0], c->in[1]);
    }
}

#define ADD_ROWS(S, LOAD, STORE)                                                                   \
    {                                                                                              \
        const S *bias = c->in[1];                                                                  \
        for (uint64_t i = begin; i < end; i++) {                                                   \
            const S *x = (const S *)c->in[0] + i * width;                                          \
            S *y = (S *)c->out[0] + i * width;                                                     \
            _Pragma("GCC ivdep") for (uint64_t k = 0; k < width; k++) {                            \
                y[k] = STORE(LOAD(x[k]) + LOAD(bias[k]));                                          \
            }                                                                                      \
        }                                                                                          \
    }
#define SAME(X) (X)

static void bias_add_rows(void *arg, uint64_t begin, uint64_t end, uint32_t worker) {
    const hri_call *c = arg;
    const uint64_t width = (uint64_t)c->sig->in[1].shape.dim[0];
    (void)worker;
    switch (c->sig->out[0].type) {
    case HR_TYPE_F32:
        ADD_ROWS(float, SAME, SAME)
        break;
    case HR_TYPE_BF16:
        ADD_ROWS(hri_bf16, hri_from_bf16, hri_to_bf16)
        break;
    default:
        ADD_ROWS(hri_f16, hri_from_f16, hri_to_f16)
    }
}

static hr_status bias_add_host(const hri_call *c) {
    const int64_t width = c->sig->in[1].shape.dim[0], count = hr_shape_count(&c->sig->out[0].shape);
    hri_call call = *c;
    if (count) {
        hri_threads_range(c->threads, (uint64_t)(count / width), (uint64_t)(16384 / width + 1),
                          bias_add_rows, &call);
    }
    return HR_OK;
}

static hr_status bias_add_cuda(const hri_gpu_call *c) {
    return hri_bias_launch(c->gpu, &c->sig->out[0], &c->sig->in[1], c->in[0], c->in[1], c->out[0]);
}

static const hri_case bias_add_cases[] = {
    {"odd", "f32[7,33] f32[33]"},
    {"one row", "f32[33] f32[33]"},
    {"one column", "f32[7,1] f32[1]"},
    {"images", "f32[2,5,7,3] f32[3]", .batched = 1},
    {"many rows", "f32[3000,7] f32[7]"},
    {"long rows", "f32[2,40000] f32[40000]"},
    {"no rows", "f32[0,3] f32[3]"},
    {"no columns", "f32[3,0] f32[0]"},
    {"bf16", "bf16[7,9] bf16[9]"},
    {"f16", "f16[7,9] f16[9]"},
    {"wide, bf16", "bf16[40,64] bf16[64]"},
    {"wide, f16", "f16[5,7,24] f16[24]"},
    {"sizes differ", "f32[3,4] f32[3]", .flags = HRI_CASE_BAD},
    {"types differ", "bf16[3,4] f32[4]", .flags = HRI_CASE_BAD},
    {NULL, NULL},
};

const hr_op hr_op_bias_add = {
    .name = "bias_add",
    .formula = "y = x + b along the last dimension",
    .in_min = 2,
    .in_max = 2,
    .out_count = 1,
    .infer = bias_add_infer,
    .grad = bias_add_grad,
    .overwrite = {1},
    .host = {.run = bias_add_host},
    .cases = HRI_CASES(bias_add_cases),
};

const hri_kernel hri_kernel_cuda_bias_add = {.launch = bias_add_cuda};

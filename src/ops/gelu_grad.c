/* gelu_grad(dy, x; approximate) = dy * (P(x) + x P'(x)): the gradient of gelu in one pass.  The equal terms are
 * computed once: they are inlined, and the compiler sees that.  */
#include "ops/common/gelu.h"
#include "ops/common/map.h"
#include "ops/common/vmath.h"

static const hri_field gelu_grad_fields[] = {
    {"approximate", "exact (erf) or approximate (tanh)", offsetof(hri_attr_gelu, approximate),
     HRI_FIELD_ENUM, "erf", .choices = hri_gelu_choices},
    {0},
};

/* The first two lines are P of the tanh form, as gelu.c has it; the last factor holds P' / P. */
HRI_MAP2_SCALAR_AS(gelu_grad, hri_attr_gelu, HRI_GELU_GRAD_TEXT,
                   p->approximate
                       ? a / ((T)1 + exp((T)-1.5957691216057308 * (b + (T)0.044715 * b * b * b))) *
                             ((T)1 +
                              b * ((T)1.5957691216057308 + (T)0.21406444881780074 * b * b) *
                                  ((T)1 - (T)1 / ((T)1 + exp((T)-1.5957691216057308 *
                                                             (b + (T)0.044715 * b * b * b)))))
                       : a *((T)0.5 * ((T)1 + erf(b * (T)0.7071067811865476)) +
                             b * (T)0.3989422804014327 * exp((T)-0.5 * b * b)))

__attribute__((always_inline)) static inline float by_erf_f32(float a, float b,
                                                              const hri_attr_gelu *p) {
    float e;
    (void)p;
    const float P = hri_normal(b, &e);
    return a * (P + b * 0.3989422804014327f * e);
}

__attribute__((always_inline)) static inline float by_tanh_f32(float a, float b,
                                                               const hri_attr_gelu *p) {
    (void)p;
    return gelu_grad_f32(a, b, &(const hri_attr_gelu){1});
}

HRI_MAP2_SAME_HOST(by_erf, hri_attr_gelu)
HRI_MAP2_SAME_HOST(by_tanh, hri_attr_gelu)

/* Range over the numbers: with this processor's kernel. */
static void rows_range(void *arg, uint64_t begin, uint64_t end, uint32_t worker) {
    const hri_call *c = arg;
    (void)worker;
    hri_gelu_rows_pick().backward((const float *)c->in[0] + begin, (const float *)c->in[1] + begin,
                                  (float *)c->out[0] + begin, (int64_t)(end - begin));
}

static hr_status gelu_grad_host(const hri_call *c) {
    if (((const hri_attr_gelu *)c->sig->attr)->approximate) {
        return by_tanh_host(c);
    }
    if (c->sig->out[0].type == HR_TYPE_F32 && hri_gelu_rows_pick().backward) {
        hri_call call = *c;
        hri_threads_range(c->threads, (uint64_t)hr_shape_count(&c->sig->out[0].shape),
                          HRI_MAP_CHUNK, rows_range, &call);
        return HR_OK;
    }
    return by_erf_host(c);
}

static void gelu_grad_cost(const hri_sig *s, hri_cost *cost) {
    cost->flops = 25.0 * (double)hr_shape_count(&s->out[0].shape);
}

static const hri_case gelu_grad_cases[] = {
    {"scalar", "f32[] f32[]", .low = 0.3, .high = 1.0}, /* the slope has a root below */
    {"odd", "f32[7,33] f32[7,33]"},
    {"large", "f32[3,20001] f32[3,20001]"},
    {"empty", "f32[0,3] f32[0,3]"},
    {"bf16", "bf16[7,9] bf16[7,9]"},
    {"f16", "f16[7,9] f16[7,9]"},
    {"by erf", "f32[7,33] f32[7,33]", "approximate=erf", .low = -6, .high = 6},
    {"by tanh", "f32[7,33] f32[7,33]", "approximate=tanh", .low = -6, .high = 6},
    {"by tanh, f16", "f16[33] f16[33]", "approximate=tanh"},
    {"shapes differ", "f32[3] f32[4]", .flags = HRI_CASE_BAD},
    {NULL, NULL},
};

const hr_op hr_op_gelu_grad = {
    .name = "gelu_grad",
    .formula = "dx = dy * (P(x) + x * P'(x))",
    .in_min = 2,
    .in_max = 2,
    .out_count = 1,
    .fields = gelu_grad_fields,
    .attr_bytes = sizeof(hri_attr_gelu),
    .infer = hri_infer_same,
    .overwrite = {3},
    .cost = gelu_grad_cost,
    .host = {.run = gelu_grad_host},
    .scalar = &gelu_grad_scalar,
    .cases = HRI_CASES(gelu_grad_cases),
};

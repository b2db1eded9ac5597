/* gelu(x; approximate) = x * P(x), P the distribution function of the normal distribution.
 *
 *   erf:   P = (1 + erf(x / sqrt 2)) / 2
 *   tanh:  P = (1 + tanh u) / 2 = 1 / (1 + exp(-2 u)),   u = sqrt(2 / pi) * (x + 0.044715 x^3)
 *
 * The function is not monotone, so the gradient keeps x.  Each form has a
 * loop of its own. */
#include "ops/common/gelu.h"
#include "ops/common/map.h"
#include "ops/common/vmath.h"

static const hri_field gelu_fields[] = {
    {"approximate", "exact (erf) or approximate (tanh)", offsetof(hri_attr_gelu, approximate),
     HRI_FIELD_ENUM, "erf", .choices = hri_gelu_choices},
    {0},
};

HRI_MAP1_SCALAR_AS(gelu, hri_attr_gelu, HRI_GELU_TEXT,
                   p->approximate
                       ? a / ((T)1 + exp((T)-1.5957691216057308 * (a + (T)0.044715 * a * a * a)))
                       : (T)0.5 * a * ((T)1 + erf(a * (T)0.7071067811865476)))

__attribute__((always_inline)) static inline float by_erf_f32(float a, const hri_attr_gelu *p) {
    float e;
    (void)p;
    return a * hri_normal(a, &e);
}

__attribute__((always_inline)) static inline float by_tanh_f32(float a, const hri_attr_gelu *p) {
    (void)p;
    return gelu_f32(a, &(const hri_attr_gelu){1});
}

HRI_MAP1_HOST(by_erf, hri_attr_gelu)
HRI_MAP1_HOST(by_tanh, hri_attr_gelu)

/* Range over the numbers: with this processor's kernel. */
static void rows_range(void *arg, uint64_t begin, uint64_t end, uint32_t worker) {
    const hri_call *c = arg;
    (void)worker;
    hri_gelu_rows_pick().forward((const float *)c->in[0] + begin, (float *)c->out[0] + begin,
                                 (int64_t)(end - begin));
}

static hr_status gelu_host(const hri_call *c) {
    if (((const hri_attr_gelu *)c->sig->attr)->approximate) {
        return by_tanh_host(c);
    }
    if (c->sig->out[0].type == HR_TYPE_F32 && hri_gelu_rows_pick().forward) {
        hri_call call = *c;
        hri_threads_range(c->threads, (uint64_t)hr_shape_count(&c->sig->out[0].shape),
                          HRI_MAP_CHUNK, rows_range, &call);
        return HR_OK;
    }
    return by_erf_host(c);
}

static void gelu_grad(hri_grad *c) {
    c->din[0] = HRI_NODE(c->g, "gelu_grad", c->sig->attr, c->dout[0], c->in[0]);
}

static void gelu_cost(const hri_sig *s, hri_cost *cost) {
    cost->flops = 20.0 * (double)hr_shape_count(&s->out[0].shape);
}

static const hri_case gelu_cases[] = {
    {"scalar", "f32[]"},
    {"odd", "f32[7,33]"},
    {"large", "f32[3,20001]"},
    {"empty", "f32[0,3]"},
    {"bf16", "bf16[7,9]"},
    {"f16", "f16[7,9]"},
    {"by erf", "f32[7,33]", "approximate=erf", .low = -6, .high = 6},
    {"by tanh", "f32[7,33]", "approximate=tanh", .low = -6, .high = 6},
    {"by tanh, bf16", "bf16[33]", "approximate=tanh"},
    {"integers", "i32[3]", .flags = HRI_CASE_BAD},
    {NULL, NULL},
};

const hr_op hr_op_gelu = {
    .name = "gelu",
    .formula = "y = x * P(x), P of the normal distribution",
    .in_min = 1,
    .in_max = 1,
    .out_count = 1,
    .fields = gelu_fields,
    .attr_bytes = sizeof(hri_attr_gelu),
    .infer = hri_infer_same,
    .grad = gelu_grad,
    .keeps = {{.in = 1}},
    .overwrite = {1},
    .cost = gelu_cost,
    .host = {.run = gelu_host},
    .scalar = &gelu_scalar,
    .cases = HRI_CASES(gelu_cases),
};

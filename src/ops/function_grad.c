/* function_grad(dy, x; f, alpha) = dy * f'(x): the gradient of function in one pass, by the slopes of the table. */
#include "ops/common/functions.h"
#include "ops/common/map.h"
#include "ops/common/vmath.h"

#define UNUSED __attribute__((unused)) /* some slopes are constant */
#define MAKE(NAME, VALUE, SLOPE)                                                                   \
    HRI_MAP_SCALARS(fn_##NAME, (float a, UNUSED float b, const hri_attr_function *p),              \
                    (double a, UNUSED double b, const hri_attr_function *p), a *(SLOPE))           \
    HRI_MAP2_SAME_HOST(fn_##NAME, hri_attr_function)
HRI_FUNCTIONS(MAKE)

static double function_grad_value(const double *x, const void *attr) {
    const hri_attr_function *p = attr;
#define VALUE_OF(NAME, VALUE, SLOPE) fn_##NAME##_f64,
    static double (*const of[])(double, double,
                                const hri_attr_function *) = {HRI_FUNCTIONS(VALUE_OF)};
    return of[p->f](x[0], x[1], p);
}

#define TEXT(NAME, VALUE, SLOPE) "a * (" #SLOPE ")",
static const char *const texts[] = {HRI_FUNCTIONS(TEXT)};
static const hri_scalar function_grad_scalar = {2, function_grad_value, NULL, texts};

static hr_status function_grad_host(const hri_call *c) {
#define HOST_OF(NAME, VALUE, SLOPE) fn_##NAME##_host,
    static hr_status (*const of[])(const hri_call *) = {HRI_FUNCTIONS(HOST_OF)};
    return of[((const hri_attr_function *)c->sig->attr)->f](c);
}

static void function_grad_cost(const hri_sig *s, hri_cost *cost) {
    cost->flops = 20.0 * (double)hr_shape_count(&s->out[0].shape);
}

#define CASE(NAME, VALUE, SLOPE)                                                                   \
    {#NAME,        "f32[77] f32[77]", "alpha=0.6,f=" #NAME,                                        \
     .low = -0.95, .high = 4,         .flags = HRI_CASE_AS_IS},
static const hri_case function_grad_cases[] = {
    HRI_FUNCTIONS(CASE){"scalar", "f32[] f32[]"},
    {"odd", "f32[7,33] f32[7,33]", "f=mish", .low = -30, .high = 30},
    {"large", "f32[3,20001] f32[3,20001]", "f=elu"},
    {"empty", "f32[0,3] f32[0,3]"},
    {"bf16", "bf16[7,9] bf16[7,9]", "f=softplus"},
    {"f16", "f16[7,9] f16[7,9]", "f=hard_swish"},
    {"shapes differ", "f32[3] f32[4]", .flags = HRI_CASE_BAD},
    {NULL, NULL},
};

const hr_op hr_op_function_grad = {
    .name = "function_grad",
    .formula = "dx = dy * f'(x)",
    .in_min = 2,
    .in_max = 2,
    .out_count = 1,
    .fields = hri_function_fields,
    .attr_bytes = sizeof(hri_attr_function),
    .infer = hri_infer_same,
    .overwrite = {3},
    .cost = function_grad_cost,
    .host = {.run = function_grad_host},
    .scalar = &function_grad_scalar,
    .cases = HRI_CASES(function_grad_cases),
};

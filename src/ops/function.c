/* function(x; f, alpha) = f(x), each element by itself: one op for a table of functions (common/functions.h).
 *
 * The gradient keeps x, since most of these functions are not monotone, and is one pass: function_grad.  Each function has
 * a loop of its own. */
#include "ops/common/functions.h"
#include "ops/common/map.h"
#include "ops/common/vmath.h"

#define CHOICE(NAME, VALUE, SLOPE) #NAME,
static const char *const choices[] = {HRI_FUNCTIONS(CHOICE) NULL};

const hri_field hri_function_fields[] = {
    {"f", "which function", offsetof(hri_attr_function, f), HRI_FIELD_ENUM, "erf",
     .choices = choices},
    {"alpha", "constant of softplus, elu, celu, leaky_relu, soft_shrink and hard_shrink",
     offsetof(hri_attr_function, alpha), HRI_FIELD_DOUBLE, "1"},
    {0},
};

#define MAKE(NAME, VALUE, SLOPE)                                                                   \
    HRI_MAP_SCALARS(fn_##NAME, (float a, const hri_attr_function *p),                              \
                    (double a, const hri_attr_function *p), VALUE)                                 \
    HRI_MAP1_HOST(fn_##NAME, hri_attr_function)
HRI_FUNCTIONS(MAKE)

static double function_value(const double *x, const void *attr) {
    const hri_attr_function *p = attr;
#define VALUE_OF(NAME, VALUE, SLOPE) fn_##NAME##_f64,
    static double (*const of[])(double, const hri_attr_function *) = {HRI_FUNCTIONS(VALUE_OF)};
    return of[p->f](x[0], p);
}

#define TEXT(NAME, VALUE, SLOPE) #VALUE,
static const char *const texts[] = {HRI_FUNCTIONS(TEXT)};
static const hri_scalar function_scalar = {1, function_value, NULL, texts};

static hr_status function_host(const hri_call *c) {
#define HOST_OF(NAME, VALUE, SLOPE) fn_##NAME##_host,
    static hr_status (*const of[])(const hri_call *) = {HRI_FUNCTIONS(HOST_OF)};
    return of[((const hri_attr_function *)c->sig->attr)->f](c);
}

static void function_grad(hri_grad *c) {
    c->din[0] = HRI_NODE(c->g, "function_grad", c->sig->attr, c->dout[0], c->in[0]);
}

static void function_cost(const hri_sig *s, hri_cost *cost) {
    cost->flops = 15.0 * (double)hr_shape_count(&s->out[0].shape);
}

static const hri_case function_cases[] = {
    {"scalar", "f32[]"},
    {"odd", "f32[7,33]", "f=sin", .low = -9, .high = 9},
    {"large", "f32[3,20001]", "f=softplus"},
    {"empty", "f32[0,3]"},
    {"bf16", "bf16[7,9]", "f=mish"},
    {"f16", "f16[7,9]", "f=hard_swish", .low = -4, .high = 4},
    {"erf", "f32[77]", "f=erf", .low = -3, .high = 3, .flags = HRI_CASE_AS_IS},
    {"cos", "f32[77]", "f=cos", .low = -9, .high = 9, .flags = HRI_CASE_AS_IS},
    {"tan", "f32[77]", "f=tan", .low = -1.2, .high = 1.2, .flags = HRI_CASE_AS_IS},
    {"atan", "f32[77]", "f=atan", .low = -9, .high = 9, .flags = HRI_CASE_AS_IS},
    {"sinh", "f32[77]", "f=sinh", .low = -3, .high = 3, .flags = HRI_CASE_AS_IS},
    {"cosh", "f32[77]", "f=cosh", .low = -3, .high = 3, .flags = HRI_CASE_AS_IS},
    {"log1p", "f32[77]", "f=log1p", .low = -0.9, .high = 9, .flags = HRI_CASE_AS_IS},
    {"expm1", "f32[77]", "f=expm1", .low = -3, .high = 3, .flags = HRI_CASE_AS_IS},
    {"softplus", "f32[77]", "f=softplus", .low = -30, .high = 30, .flags = HRI_CASE_AS_IS},
    {"softplus, alpha", "f32[77]", "f=softplus,alpha=2.5", .low = -9, .high = 9,
     .flags = HRI_CASE_AS_IS},
    {"log_sigmoid", "f32[77]", "f=log_sigmoid", .low = -30, .high = 30, .flags = HRI_CASE_AS_IS},
    {"elu", "f32[77]", "f=elu", .low = -4, .high = 4, .flags = HRI_CASE_AS_IS},
    {"elu, alpha", "f32[77]", "f=elu,alpha=0.3", .low = -4, .high = 4, .flags = HRI_CASE_AS_IS},
    {"celu", "f32[77]", "f=celu,alpha=0.7", .low = -4, .high = 4, .flags = HRI_CASE_AS_IS},
    {"selu", "f32[77]", "f=selu", .low = -4, .high = 4, .flags = HRI_CASE_AS_IS},
    {"mish", "f32[77]", "f=mish", .low = -30, .high = 30, .flags = HRI_CASE_AS_IS},
    {"leaky_relu", "f32[77]", "f=leaky_relu,alpha=0.01", .low = -4, .high = 4,
     .flags = HRI_CASE_AS_IS},
    {"hard_sigmoid", "f32[77]", "f=hard_sigmoid", .low = -4, .high = 4, .flags = HRI_CASE_AS_IS},
    {"hard_swish", "f32[77]", "f=hard_swish", .low = -4, .high = 4, .flags = HRI_CASE_AS_IS},
    {"quick_gelu", "f32[77]", "f=quick_gelu", .low = -9, .high = 9, .flags = HRI_CASE_AS_IS},
    {"softsign", "f32[77]", "f=softsign", .low = -9, .high = 9, .flags = HRI_CASE_AS_IS},
    {"tanh_shrink", "f32[77]", "f=tanh_shrink", .low = -4, .high = 4, .flags = HRI_CASE_AS_IS},
    {"soft_shrink", "f32[77]", "f=soft_shrink,alpha=0.5", .low = -2, .high = 2,
     .flags = HRI_CASE_AS_IS},
    {"hard_shrink", "f32[77]", "f=hard_shrink,alpha=0.5", .low = -2, .high = 2,
     .flags = HRI_CASE_AS_IS},
    {"sign", "f32[77]", "f=sign", .flags = HRI_CASE_AS_IS},
    {"floor", "f32[77]", "f=floor", .low = -9, .high = 9, .flags = HRI_CASE_AS_IS},
    {"ceil", "f32[77]", "f=ceil", .low = -9, .high = 9, .flags = HRI_CASE_AS_IS},
    {"round", "f32[77]", "f=round", .low = -9, .high = 9, .flags = HRI_CASE_AS_IS},
    {"is_nan", "f32[77]", "f=is_nan", .flags = HRI_CASE_AS_IS},
    {"not", "f32[77]", "f=not", .flags = HRI_CASE_AS_IS},
    {"integers", "i32[3]", .flags = HRI_CASE_BAD},
    {"unknown", "f32[3]", "f=frobnicate", .flags = HRI_CASE_BAD},
    {NULL, NULL},
};

const hr_op hr_op_function = {
    .name = "function",
    .formula = "y = f(x), f of a table: erf, sin, softplus, elu, mish, hard_swish, ...",
    .in_min = 1,
    .in_max = 1,
    .out_count = 1,
    .fields = hri_function_fields,
    .attr_bytes = sizeof(hri_attr_function),
    .infer = hri_infer_same,
    .grad = function_grad,
    .keeps = {{.in = 1}},
    .overwrite = {1},
    .cost = function_cost,
    .host = {.run = function_host},
    .scalar = &function_scalar,
    .cases = HRI_CASES(function_cases),
};

/* The table of functions of one number: name, value at a, slope at b.  alpha is a constant of some of them.
 *
 * A line here is all that a function needs: function.c makes the op of the values, function_grad.c that of the slopes, on
 * the host and on a GPU, and the conformance tests run every line.  Expressions are as map.h wants them: over T, without
 * commas.  Slopes at kinks are those of torch. */
#ifndef HRI_OPS_COMMON_FUNCTIONS_H
#define HRI_OPS_COMMON_FUNCTIONS_H

#include "graph/op.h"

/* clang-format off */
#define HRI_FUNCTIONS(X)                                                                           \
    X(erf, erf(a), (T)1.1283791670955126 * exp(-b * b))                                            \
    X(sin, sin(a), cos(b))                                                                         \
    X(cos, cos(a), -sin(b))                                                                        \
    X(tan, tan(a), (T)1 + tan(b) * tan(b))                                                         \
    X(atan, atan(a), (T)1 / ((T)1 + b * b))                                                        \
    X(sinh, sinh(a), cosh(b))                                                                      \
    X(cosh, cosh(a), sinh(b))                                                                      \
    X(log1p, log1p(a), (T)1 / ((T)1 + b))                                                          \
    X(expm1, expm1(a), exp(b))                                                                     \
    /* log(1 + exp(alpha a)) / alpha */                                                            \
    X(softplus, (a > 0 ? a : (T)0) + log1p(exp(a > 0 ? (T)-p->alpha * a : (T)p->alpha * a)) / (T)p->alpha, \
      (T)1 / ((T)1 + exp((T)-p->alpha * b)))                                                       \
    X(log_sigmoid, (a < 0 ? a : (T)0) - log1p(exp(a < 0 ? a : -a)), (T)1 / ((T)1 + exp(b)))        \
    X(elu, a > 0 ? a : (T)p->alpha * expm1(a > 0 ? (T)0 : a), b > 0 ? (T)1 : (T)p->alpha * exp(b > 0 ? (T)0 : b)) \
    X(celu, a > 0 ? a : (T)p->alpha * expm1((a > 0 ? (T)0 : a) / (T)p->alpha),                     \
      b > 0 ? (T)1 : exp((b > 0 ? (T)0 : b) / (T)p->alpha))                                        \
    X(selu, (T)1.0507009873554805 * (a > 0 ? a : (T)1.6732632423543772 * expm1(a > 0 ? (T)0 : a)), \
      b > 0 ? (T)1.0507009873554805 : (T)1.7580993408473766 * exp(b > 0 ? (T)0 : b))               \
    /* a tanh(log(1 + n)) with n = exp(a), as a n (n + 2) / (n (n + 2) + 2) */                     \
    X(mish, a * ((T)1 - (T)2 / (exp(a < 20 ? a : (T)20) * (exp(a < 20 ? a : (T)20) + (T)2) + (T)2)), \
      (T)1 - (T)2 / (exp(b < 20 ? b : (T)20) * (exp(b < 20 ? b : (T)20) + (T)2) + (T)2)            \
      + b * (T)4 * exp(b < 20 ? b : (T)20) * (exp(b < 20 ? b : (T)20) + (T)1)                      \
      / ((exp(b < 20 ? b : (T)20) * (exp(b < 20 ? b : (T)20) + (T)2) + (T)2)                       \
         * (exp(b < 20 ? b : (T)20) * (exp(b < 20 ? b : (T)20) + (T)2) + (T)2)))                   \
    X(leaky_relu, a > 0 ? a : (T)p->alpha * a, b > 0 ? (T)1 : (T)p->alpha)                         \
    X(hard_sigmoid, a <= -3 ? (T)0 : a >= 3 ? (T)1 : a / (T)6 + (T)0.5,                            \
      b > -3 && b < 3 ? (T)1 / (T)6 : (T)0)                                                        \
    X(hard_swish, a <= -3 ? (T)0 : a >= 3 ? a : a * (a + (T)3) / (T)6,                             \
      b <= -3 ? (T)0 : b >= 3 ? (T)1 : b / (T)3 + (T)0.5)                                          \
    X(quick_gelu, a / ((T)1 + exp((T)-1.702 * a)),                                                 \
      (T)1 / ((T)1 + exp((T)-1.702 * b)) * ((T)1 + (T)1.702 * b * ((T)1 - (T)1 / ((T)1 + exp((T)-1.702 * b))))) \
    X(softsign, a / ((T)1 + (a < 0 ? -a : a)),                                                     \
      (T)1 / (((T)1 + (b < 0 ? -b : b)) * ((T)1 + (b < 0 ? -b : b))))                              \
    X(tanh_shrink, a - tanh(a), tanh(b) * tanh(b))                                                 \
    X(soft_shrink, a > (T)p->alpha ? a - (T)p->alpha : a < (T)-p->alpha ? a + (T)p->alpha : (T)0,  \
      b > (T)p->alpha || b < (T)-p->alpha ? (T)1 : (T)0)                                           \
    X(hard_shrink, a > (T)p->alpha || a < (T)-p->alpha ? a : (T)0,                                 \
      b > (T)p->alpha || b < (T)-p->alpha ? (T)1 : (T)0)                                           \
    X(sign, a > 0 ? (T)1 : a < 0 ? (T)-1 : a, (T)0)                                                \
    X(floor, floor(a), (T)0)                                                                       \
    X(ceil, ceil(a), (T)0)                                                                         \
    X(round, rint(a), (T)0)                                                                        \
    X(is_nan, a != a ? (T)1 : (T)0, (T)0)                                                          \
    X(not, a == 0 ? (T)1 : (T)0, (T)0)
/* clang-format on */

typedef struct hri_attr_function {
    int f;        /* index into the table */
    double alpha; /* softplus, elu, celu, leaky_relu, soft_shrink, hard_shrink */
} hri_attr_function;

extern const hri_field hri_function_fields[];

#endif

/* maximum(a, b) = the larger of the two, NaN kept, with numpy's broadcasting.  The gradient goes to the larger one, and half of it
 * to each of two equal ones, as torch has it; it keeps both. */
#include "ops/common/larger.h"
#include "ops/common/map.h"

HRI_MAP2(maximum, hri_no_attr, a > b || a != a ? a : b)

static void maximum_grad(hri_grad *c) {
    hri_larger_grad(c, 0);
}

static const hri_case maximum_cases[] = {HRI_LARGER_CASES};

const hr_op hr_op_maximum = {
    .name = "maximum",
    .formula = "y = a > b ? a : b",
    .grad = maximum_grad,
    .host = {.run = maximum_host},
    .scalar = &maximum_scalar,
    .cases = HRI_CASES(maximum_cases),
    HRI_LARGER_OP,
};

/* minimum(a, b) = the smaller of the two, NaN kept, with numpy's broadcasting.  The gradient goes to the smaller one, and half of it
 * to each of two equal ones, as torch has it; it keeps both. */
#include "ops/common/larger.h"
#include "ops/common/map.h"

HRI_MAP2(minimum, hri_no_attr, a < b || a != a ? a : b)

static void minimum_grad(hri_grad *c) {
    hri_larger_grad(c, 1);
}

static const hri_case minimum_cases[] = {HRI_LARGER_CASES};

const hr_op hr_op_minimum = {
    .name = "minimum",
    .formula = "y = a < b ? a : b",
    .grad = minimum_grad,
    .host = {.run = minimum_host},
    .scalar = &minimum_scalar,
    .cases = HRI_CASES(minimum_cases),
    HRI_LARGER_OP,
};

/* compare(a, b; is) = 1 where it is so, else 0, with numpy's broadcasting: comparisons, and the logic of such numbers.
 *
 * A mask is real numbers of the type of what it masks, 0 or 1 (anything but 0 counts as 1), so that it multiplies, and
 * chains of masks and sums are one kernel.  No gradient flows. */
#include "ops/common/map.h"

/* clang-format off */
#define COMPARISONS(X)                                                                             \
    X(equal, a == b)                                                                               \
    X(not_equal, a != b)                                                                           \
    X(less, a < b)                                                                                 \
    X(less_equal, a <= b)                                                                          \
    X(greater, a > b)                                                                              \
    X(greater_equal, a >= b)                                                                       \
    X(both, a != 0 && b != 0)                                                                      \
    X(either, a != 0 || b != 0)                                                                    \
    X(one, (a != 0) != (b != 0))
/* clang-format on */

typedef struct compare_attr {
    int is;
} compare_attr;

#define CHOICE(NAME, ...) #NAME,
static const char *const choices[] = {COMPARISONS(CHOICE) NULL};

static const hri_field compare_fields[] = {
    {"is", "comparison; both, either and one are and, or and exclusive or",
     offsetof(compare_attr, is), HRI_FIELD_ENUM, "equal", .choices = choices},
    {0},
};

#define MAKE(NAME, ...)                                                                            \
    HRI_MAP_SCALARS(is_##NAME, (float a, float b, const compare_attr *p),                          \
                    (double a, double b, const compare_attr *p), __VA_ARGS__)                      \
    HRI_MAP2_HOST(is_##NAME, compare_attr)
COMPARISONS(MAKE)

static double compare_value(const double *x, const void *attr) {
    const compare_attr *p = attr;
#define VALUE_OF(NAME, ...) is_##NAME##_f64,
    static double (*const of[])(double, double, const compare_attr *) = {COMPARISONS(VALUE_OF)};
    return of[p->is](x[0], x[1], p);
}

#define TEXT(NAME, ...) #__VA_ARGS__,
static const char *const texts[] = {COMPARISONS(TEXT)};
static const hri_scalar compare_scalar = {2, compare_value, NULL, texts};

static hr_status compare_host(const hri_call *c) {
#define HOST_OF(NAME, ...) is_##NAME##_host,
    static hr_status (*const of[])(const hri_call *) = {COMPARISONS(HOST_OF)};
    return of[((const compare_attr *)c->sig->attr)->is](c);
}

#define CASE(NAME, ...) {#NAME, "f32[7,33] f32[33]", "is=" #NAME, .flags = HRI_CASE_AS_IS},
static const hri_case compare_cases[] = {
    COMPARISONS(CASE){"scalar", "f32[] f32[]", "is=less"},
    {"zeros", "f32[0,3] f32[3]", "is=less"},
    {"both ways", "f32[4,1,3] f32[1,5,1]", "is=greater"},
    {"large", "f32[3,20001] f32[3,20001]", "is=less_equal"},
    {"bf16", "bf16[7,9] bf16[9]", "is=greater"},
    {"f16", "f16[7,9] f16[7,1]", "is=either"},
    {"shapes differ", "f32[3] f32[4]", .flags = HRI_CASE_BAD},
    {"integers", "i32[3] i32[3]", .flags = HRI_CASE_BAD},
    {NULL, NULL},
};

const hr_op hr_op_compare = {
    .name = "compare",
    .formula = "y = a is ... b ? 1 : 0",
    .in_min = 2,
    .in_max = 2,
    .out_count = 1,
    .fields = compare_fields,
    .attr_bytes = sizeof(compare_attr),
    .infer = hri_infer_broadcast,
    .no_grad = 3,
    .overwrite = {3},
    .host = {.run = compare_host},
    .scalar = &compare_scalar,
    .cases = HRI_CASES(compare_cases),
};

/* The table of ops as public structs, for bindings and listings; see headroom/ops.h. */
#include <headroom/ops.h>

#include "base/grow.h"
#include "graph/op.h"

static size_t field_count(const hr_op *op) {
    size_t n = 0;
    while (op->fields && op->fields[n].name) {
        n++;
    }
    return n;
}

/* NULL behind the last. */
static const hr_op *op_at(size_t index) {
    size_t i = 0;
    while (hr_ops[i] && i < index) {
        i++;
    }
    return hr_ops[i];
}

hr_status hr_op_list(size_t index, hr_op_info *out) {
    const hr_op *op = op_at(index);
    if (!op) {
        return HR_E_EOF;
    }
    const hr_op_info info = {.size = sizeof info,
                             .name = op->name,
                             .formula = op->formula ? op->formula : "",
                             .input_min = op->in_min,
                             .input_max = op->in_max,
                             .output_count = op->out_count,
                             .attribute_count = (uint32_t)field_count(op),
                             .has_gradient = op->grad != NULL,
                             .is_random = op->random};
    return hri_give(out, &info, sizeof info);
}

static int32_t kind_of(const hri_field *f) {
    switch (f->type) {
    case HRI_FIELD_DOUBLE:
        return HR_ATTRIBUTE_REAL;
    case HRI_FIELD_ENUM:
        return HR_ATTRIBUTE_NAME;
    case HRI_FIELD_DIMS:
        return HR_ATTRIBUTE_INTEGERS;
    default:
        return HR_ATTRIBUTE_INTEGER;
    }
}

hr_status hr_op_list_attribute(size_t index, size_t attribute, hr_op_attribute *out) {
    const hr_op *op = op_at(index);
    if (!op) {
        return HR_E_NOT_FOUND;
    }
    if (attribute >= field_count(op)) {
        return HR_E_EOF;
    }
    const hri_field *f = &op->fields[attribute];
    const hr_op_attribute a = {.size = sizeof a,
                               .name = f->name,
                               .help = f->help ? f->help : "",
                               .value = f->value ? f->value : "",
                               .choices = f->type == HRI_FIELD_ENUM ? f->choices : NULL,
                               .kind = kind_of(f),
                               .is_boolean = f->type == HRI_FIELD_BOOL};
    return hri_give(out, &a, sizeof a);
}

/* What every op shares: finding one by its name, attributes by the field table, the answers to the planner. */
#include "graph/op.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include "base/number.h"

const hr_op *hri_op_find(const char *name) {
    for (size_t i = 0; hr_ops[i]; i++) {
        if (!strcmp(hr_ops[i]->name, name)) {
            return hr_ops[i];
        }
    }
    return NULL;
}

/* ---- shape rules ---- */

hr_status hri_infer_fail(hri_infer *c, const char *format, ...) {
    va_list args;
    va_start(args, format);
    hri_vsnprintf(c->message, sizeof c->message, format, args);
    va_end(args);
    return HR_E_SHAPE;
}

static hr_status real_and_equal_types(hri_infer *c) {
    for (uint32_t i = 0; i < c->in_count; i++) {
        if (!hr_type_is_real(c->in[i].type)) {
            return hri_infer_fail(c, "input %u is %s, not a floating-point type", i,
                                  hr_type_name(c->in[i].type));
        }
        if (c->in[i].type != c->in[0].type) {
            return hri_infer_fail(c, "inputs 0 and %u are %s and %s; cast one of them", i,
                                  hr_type_name(c->in[0].type), hr_type_name(c->in[i].type));
        }
    }
    return HR_OK;
}

hr_status hri_infer_same(hri_infer *c) {
    const hr_status status = real_and_equal_types(c);
    if (status != HR_OK) {
        return status;
    }
    for (uint32_t i = 1; i < c->in_count; i++) {
        if (!hr_shape_same(&c->in[i].shape, &c->in[0].shape)) {
            return hri_infer_fail(c, "inputs 0 and %u differ in shape", i);
        }
    }
    c->out[0] = c->in[0];
    return HR_OK;
}

hr_status hri_infer_broadcast(hri_infer *c) {
    const hr_status status = real_and_equal_types(c);
    if (status != HR_OK) {
        return status;
    }
    hr_meta out = {.type = c->in[0].type};
    for (uint32_t i = 0; i < c->in_count; i++) {
        if (c->in[i].shape.rank > out.shape.rank) {
            out.shape.rank = c->in[i].shape.rank;
        }
    }
    for (int d = 0; d < out.shape.rank; d++) {
        int64_t size = 1;
        for (uint32_t i = 0; i < c->in_count; i++) {
            const int at = d - (out.shape.rank - c->in[i].shape.rank);
            const int64_t is = at < 0 ? 1 : c->in[i].shape.dim[at];
            if (is != 1 && size != 1 && is != size) {
                return hri_infer_fail(c, "dimension %d is %lld in one input and %lld in another", d,
                                      (long long)size, (long long)is);
            }
            size = is == 1 ? size : is;
        }
        out.shape.dim[d] = size;
    }
    c->out[0] = out;
    return HR_OK;
}

/* ---- the planner's questions ---- */

int hri_op_may_overwrite(const hri_sig *s, uint32_t out, uint32_t in) {
    return out < s->out_count && in < s->in_count && ((s->op->overwrite[out] >> in) & 1) &&
           hr_meta_bytes(&s->in[in]) == hr_meta_bytes(&s->out[out]) &&
           (!s->op->may_overwrite || s->op->may_overwrite(s, out, in));
}

hri_samples hri_op_samples(const hri_sig *s, uint32_t batched) {
    return s->op->samples ? s->op->samples(s, batched) : HRI_SAMPLES_APART;
}

hri_cost hri_op_cost(const hri_sig *s) {
    hri_cost cost = {0};
    for (uint32_t i = 0; i < s->in_count; i++) {
        cost.bytes += (double)hr_meta_bytes(&s->in[i]);
    }
    for (uint32_t k = 0; k < s->out_count; k++) {
        cost.bytes += (double)hr_meta_bytes(&s->out[k]);
        cost.flops += (double)hr_shape_count(&s->out[k].shape);
    }
    if (s->op->cost) {
        s->op->cost(s, &cost);
    }
    return cost;
}

hri_keeps hri_op_keeps(const hr_op *op, uint32_t in) {
    return op->keeps[in < HRI_IN_MAX ? in : HRI_IN_MAX - 1];
}

/* ---- attributes ---- */

hr_status hri_attr_parse(const hr_op *op, const char *text, hri_attr *out, hri_prose *why) {
    memset(out, 0, sizeof *out);
    if (!op->fields) {
        return text && *text ? hri_prose_set(why, HR_E_INVALID, "%s has no attributes", op->name)
                             : HR_OK;
    }
    if (op->attr_bytes > sizeof *out) {
        return hri_prose_set(why, HR_E_INTERNAL, "%s: attributes too large", op->name);
    }
    hri_attr attr = {{0}};
    hri_options o = {0};
    hr_status status = hri_options_init(&o, op->fields, &attr, why);
    if (status == HR_OK && text) {
        status = hri_options_set_text(&o, text, why);
    }
    hri_options_deinit(&o);
    if (status == HR_OK) {
        *out = attr;
    }
    return status;
}

const char *hri_attr_print(const hr_op *op, const void *attr, char *buf, size_t size) {
    size_t at = 0;
    buf[0] = '\0';
    hri_attr copy = {{0}}, defaults = {{0}};
    if (!op->fields || hri_attr_parse(op, NULL, &defaults, NULL) != HR_OK) {
        return buf;
    }
    memcpy(&copy, attr, op->attr_bytes);
    const hri_options is = {.fields = op->fields, .target = &copy};
    const hri_options was = {.fields = op->fields, .target = &defaults};
    for (const hri_field *f = op->fields; f->name; f++) {
        char a[200], b[200];
        hri_options_print(&is, f, a, sizeof a);
        hri_options_print(&was, f, b, sizeof b);
        if (strcmp(a, b) != 0 && at < size) {
            const int n = snprintf(buf + at, size - at, "%s%s=%s", at ? "," : "", f->name, a);
            at += n > 0 ? (size_t)n : 0;
        }
    }
    return buf;
}

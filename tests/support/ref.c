/* The naive interpreter of ref.h. */
#include "ref.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "graph/half.h"
#include "test.h"

uint32_t ref_parse(const char *text, hr_meta *out) {
    uint32_t count = 0;
    while (text && *text) {
        char name[8] = "";
        int used = 0;
        if (sscanf(text, " %7[a-z0-9][%n", name, &used) != 1 || !used || count == HRI_IN_MAX ||
            hr_type_find(name, &out[count].type) != HR_OK) {
            test_fail(__FILE__, __LINE__, "cannot read the inputs \"%s\"", text);
        }
        hr_shape shape = {0};
        char *at = (char *)(uintptr_t)text + used;
        while (*at && *at != ']') {
            shape.dim[shape.rank++] = strtoll(at, &at, 10);
            at += *at == ',';
        }
        out[count++].shape = shape;
        text = at + 1;
    }
    return count;
}

double ref_load(hr_type type, const void *data, int64_t i) {
    switch (type) {
    case HR_TYPE_F32:
        return (double)((const float *)data)[i];
    case HR_TYPE_BF16:
        return (double)hri_from_bf16(((const hri_bf16 *)data)[i]);
    case HR_TYPE_F16:
        return (double)hri_from_f16(((const hri_f16 *)data)[i]);
    case HR_TYPE_I32:
        return ((const int32_t *)data)[i];
    case HR_TYPE_I64:
        return (double)((const int64_t *)data)[i];
    case HR_TYPE_U8:
        return ((const uint8_t *)data)[i];
    case HR_TYPE_I8:
        return ((const int8_t *)data)[i];
    default:
        return 0.0;
    }
}

void ref_store(hr_type type, void *data, int64_t i, double x) {
    switch (type) {
    case HR_TYPE_F32:
        ((float *)data)[i] = (float)x;
        break;
    case HR_TYPE_BF16:
        ((hri_bf16 *)data)[i] = hri_to_bf16((float)x);
        break;
    case HR_TYPE_F16:
        ((hri_f16 *)data)[i] = hri_to_f16((float)x);
        break;
    case HR_TYPE_I32:
        ((int32_t *)data)[i] = (int32_t)x;
        break;
    case HR_TYPE_I64:
        ((int64_t *)data)[i] = (int64_t)x;
        break;
    case HR_TYPE_U8:
        ((uint8_t *)data)[i] = (uint8_t)x;
        break;
    case HR_TYPE_I8:
        ((int8_t *)data)[i] = (int8_t)(int64_t)x;
        break;
    default:
        break;
    }
}

void ref_unflatten(const hr_shape *shape, int64_t i, int64_t *at) {
    for (int d = shape->rank - 1; d >= 0; d--) {
        at[d] = i % shape->dim[d];
        i /= shape->dim[d];
    }
}

int64_t ref_flatten(const hr_shape *shape, const int64_t *at) {
    int64_t i = 0;
    for (int d = 0; d < shape->rank; d++) {
        i = i * shape->dim[d] + at[d];
    }
    return i;
}

double ref_f8(int code) {
    const int exponent = code >> 3 & 15, mantissa = code & 7;
    const double size = (code & 127) == 127 ? NAN
                        : exponent          ? ldexp(8 + mantissa, exponent - 10)
                                            : ldexp(mantissa, -9);
    return code & 128 ? -size : size;
}

double ref_requantize(const ref_call *c, int32_t sum, int64_t column, int relu) {
    const double bias = c->in[3][column];
    const double unit = (double)(float)(c->in[4][0] * c->in[2][column]);
    if (c->sig->in_count <= 6) {
        const double y = (double)(float)((double)(float)((double)(float)sum * unit) + bias);
        return relu && !(y > 0.0) ? 0.0 : y;
    }
    const double zero = c->in[7][0];
    const double by = (double)(float)(unit / c->in[6][0]);
    const double whole =
        (double)sum + nearbyint(fmin(fmax((double)(float)(bias / unit), -0x1p29), 0x1p29));
    const double y = nearbyint((double)(float)((double)(float)whole * by)) + zero;
    return fmin(fmax(y, relu ? zero : 0.0), 255.0);
}

/* Where a broadcast input is read for an element of the output. */
static int64_t broadcast_index(const hr_shape *out, const int64_t *at, const hr_shape *in) {
    int64_t i = 0;
    for (int d = 0; d < in->rank; d++) {
        i = i * in->dim[d] + (in->dim[d] == 1 ? 0 : at[d + out->rank - in->rank]);
    }
    return i;
}

static void run_scalar(const ref_call *c) {
    const hr_shape *out = &c->sig->out[0].shape;
    for (int64_t i = 0, n = hr_shape_count(out); i < n; i++) {
        int64_t at[HR_RANK_MAX];
        double x[HRI_IN_MAX];
        ref_unflatten(out, i, at);
        for (uint32_t k = 0; k < c->sig->in_count; k++) {
            x[k] = c->in[k][broadcast_index(out, at, &c->sig->in[k].shape)];
        }
        c->out[0][i] = c->sig->op->scalar->f(x, c->sig->attr);
    }
}

static const test_ref *find(const hr_op *op) {
    for (size_t i = 0; test_refs[i]; i++) {
        if (!strcmp(test_refs[i]->op, op->name)) {
            return test_refs[i];
        }
    }
    return NULL;
}

int ref_exists(const hr_op *op) {
    return find(op) || op->scalar;
}

int ref_run(const ref_call *c) {
    const test_ref *ref = find(c->sig->op);
    if (ref) {
        ref->run(c);
    } else if (c->sig->op->scalar) {
        run_scalar(c);
    }
    return ref || c->sig->op->scalar;
}

void naive_init(naive *n, const hr_graph *g) {
    n->g = g;
    n->data = calloc(g->value_count, sizeof *n->data);
    for (hr_value v = 1; v < g->value_count; v++) {
        const hri_value *value = &g->values[v];
        const int64_t count = hr_shape_count(&value->meta.shape);
        n->data[v] = calloc((size_t)count + 1, sizeof(double));
        for (int64_t i = 0; value->kind == HR_VALUE_CONSTANT && i < count; i++) {
            n->data[v][i] =
                value->data ? ref_load(value->meta.type, value->data, i) : value->init.a;
        }
    }
}

void naive_run(naive *n, uint64_t seed, uint32_t step) {
    for (uint32_t at = 0; at < n->g->node_count; at++) {
        const hri_node_record *node = &n->g->nodes[at];
        const double *in[HRI_IN_MAX];
        double *out[HRI_OUT_MAX];
        if (!node->live) {
            continue;
        }
        for (uint32_t i = 0; i < node->sig.in_count; i++) {
            in[i] = n->data[node->in[i]];
        }
        for (uint32_t k = 0; k < node->sig.out_count; k++) {
            out[k] = n->data[node->out + k];
        }
        const ref_call c = {&node->sig, in, out, seed, step, at};
        if (!ref_run(&c)) {
            test_fail(__FILE__, __LINE__, "op %s has no oracle in tests/ref", node->sig.op->name);
        }
    }
}

void naive_deinit(naive *n) {
    for (hr_value v = 1; v < n->g->value_count; v++) {
        free(n->data[v]);
    }
    free(n->data);
}

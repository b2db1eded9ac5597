/* How persistent values and constants begin.
 *
 * Element i of a parameter is a function of the seed, the parameter's name and i: two models that share a name and a
 * seed begin alike, whatever else they hold and in whatever order they were built.  The numbers are drawn in f32 and
 * stored in the value's type. */
#include "graph/graph.h"

#include <math.h>
#include <string.h>

#include "base/hash.h"
#include "base/random.h"
#include "graph/half.h"

static void store(hr_type type, void *out, int64_t i, double x) {
    switch (type) {
    case HR_TYPE_F32:
        ((float *)out)[i] = (float)x;
        break;
    case HR_TYPE_BF16:
        ((hri_bf16 *)out)[i] = hri_to_bf16((float)x);
        break;
    case HR_TYPE_F16:
        ((hri_f16 *)out)[i] = hri_to_f16((float)x);
        break;
    case HR_TYPE_I32:
        ((int32_t *)out)[i] = (int32_t)x;
        break;
    case HR_TYPE_I64:
        ((int64_t *)out)[i] = (int64_t)x;
        break;
    case HR_TYPE_U8:
        ((uint8_t *)out)[i] = (uint8_t)x;
        break;
    case HR_TYPE_I8:
        ((int8_t *)out)[i] = (int8_t)(int64_t)x;
        break;
    default:
        break;
    }
}

hr_init hr_init_constant(double value) {
    return (hr_init){HR_INIT_CONSTANT, value, 0.0};
}

hr_init hr_init_normal(double deviation) {
    return (hr_init){HR_INIT_NORMAL, 0.0, deviation};
}

hr_init hr_init_uniform(double low, double high) {
    return (hr_init){HR_INIT_UNIFORM, low, high};
}

hr_init hr_init_truncated(double deviation) {
    return (hr_init){HR_INIT_TRUNCATED, 0.0, deviation};
}

static double draw(const hr_init *init, hri_random *r) {
    double x;
    switch (init->kind) {
    case HR_INIT_NORMAL:
        return init->a + init->b * (double)hri_random_normal(r);
    case HR_INIT_UNIFORM:
        return init->a + (init->b - init->a) * (double)hri_random_float(r);
    case HR_INIT_TRUNCATED:
        do {
            x = (double)hri_random_normal(r);
        } while (fabs(x) > 2.0);
        return init->a + init->b * x;
    case HR_INIT_CONSTANT:
        break;
    }
    return init->a;
}

/* One number n times. */
static void store_same(hr_type type, void *out, int64_t n, double x) {
    if (x == 0.0) {
        memset(out, 0, (size_t)n * hr_type_bytes(type));
        return;
    }
    for (int64_t i = 0; i < n; i++) {
        store(type, out, i, x);
    }
}

int hri_graph_begins_zero(const hr_graph *g, hr_value v) {
    const hri_value *value = &g->values[v];
    return !value->data && value->init.kind == HR_INIT_CONSTANT && value->init.a == 0.0;
}

void hri_graph_initial_part(const hr_graph *g, hr_value v, uint64_t seed, int64_t first,
                            int64_t count, void *out) {
    const hri_value *value = &g->values[v];
    const hr_type type = value->meta.type;
    if (value->data) {
        const size_t width = hr_type_bytes(type);
        memcpy(out, (const char *)value->data + (size_t)first * width, (size_t)count * width);
        return;
    }
    if (value->init.kind == HR_INIT_CONSTANT) {
        store_same(type, out, count, value->init.a);
        return;
    }
    /* One place of the counter for each block of numbers, so that no stream is long and blocks can be made in any order;
     * the name is part of the seed. */
    const uint64_t place = seed ^ hri_hash_string(value->name);
    hri_random r = {0};
    for (int64_t i = 0; i < count; i++) {
        const int64_t at = first + i;
        if (at % HRI_INITIAL_BLOCK == 0) {
            r = hri_random_at(place, (uint32_t)(at >> 38), HRI_RANDOM_NODE_WEIGHTS,
                              (uint32_t)(at >> 6));
        }
        store(type, out, i, draw(&value->init, &r));
    }
}

void hri_graph_initial(const hr_graph *g, hr_value v, uint64_t seed, void *out) {
    hri_graph_initial_part(g, v, seed, 0, hr_shape_count(&g->values[v].meta.shape), out);
}

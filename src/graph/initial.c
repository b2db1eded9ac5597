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
    default:
        break;
    }
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

void hri_graph_initial(const hr_graph *g, hr_value v, uint64_t seed, void *out) {
    const hri_value *value = &g->values[v];
    const int64_t count = hr_shape_count(&value->meta.shape);
    if (value->data) {
        memcpy(out, value->data, hr_meta_bytes(&value->meta));
        return;
    }
    /* One place of the counter for each 64 numbers, so that no stream is long; the name is part of the seed. */
    const uint64_t place = seed ^ hri_hash_string(value->name);
    hri_random r = {0};
    for (int64_t i = 0; i < count; i++) {
        if (i % 64 == 0 && value->init.kind != HR_INIT_CONSTANT) {
            r = hri_random_at(place, (uint32_t)(i >> 38), HRI_RANDOM_NODE_WEIGHTS,
                              (uint32_t)(i >> 6));
        }
        store(value->meta.type, out, i, draw(&value->init, &r));
    }
}

/* Blocks of f32, whatever the stored types.  What is stored as f32 is worked on where it lies. */
#include "ops/common/update.h"

#include <math.h>

#include "graph/half.h"

enum { CHUNK = 16384 };

typedef struct job {
    const hri_call *c;
    hri_update u;
    hri_update_fn *fn;
    uint32_t scalars, states;
} job;

static const float *load(hr_type type, const void *from, uint64_t i, uint64_t n, float *room) {
    if (type == HR_TYPE_F32) {
        return (const float *)from + i;
    }
    for (uint64_t q = 0; q < n; q++) {
        room[q] = type == HR_TYPE_BF16 ? hri_from_bf16(((const hri_bf16 *)from)[i + q])
                                       : hri_from_f16(((const hri_f16 *)from)[i + q]);
    }
    return room;
}

static void store(hr_type type, void *to, uint64_t i, uint64_t n, const float *from) {
    for (uint64_t q = 0; type != HR_TYPE_F32 && q < n; q++) {
        if (type == HR_TYPE_BF16) {
            ((hri_bf16 *)to)[i + q] = hri_to_bf16(from[q]);
        } else {
            ((hri_f16 *)to)[i + q] = hri_to_f16(from[q]);
        }
    }
}

/* An output's block, to be worked on: its own memory, or `room`. */
static float *open_block(const hri_call *c, uint32_t out, uint64_t i, uint64_t n, float *room) {
    const hr_type type = c->sig->out[out].type;
    if (type == HR_TYPE_F32) {
        return (float *)c->out[out] + i;
    }
    load(type, c->out[out], i, n, room);
    return room;
}

static void run_range(void *arg, uint64_t begin, uint64_t end, uint32_t worker) {
    const job *j = arg;
    const hri_call *c = j->c;
    float room[2 + HRI_UPDATE_STATES][HRI_UPDATE_BLOCK];
    (void)worker;
    for (uint64_t i = begin; i < end; i += HRI_UPDATE_BLOCK) {
        const uint64_t n = end - i < HRI_UPDATE_BLOCK ? end - i : HRI_UPDATE_BLOCK;
        float *x[1 + HRI_UPDATE_STATES] = {0};
        for (uint32_t k = 0; k <= j->states; k++) {
            x[k] = open_block(c, k, i, n, room[k]);
        }
        const float *g = load(c->sig->in[1].type, c->in[1], i, n, room[1 + HRI_UPDATE_STATES]);
        j->fn(&j->u, n, x[0], g, x[1], x[2]);
        for (uint32_t k = 0; k <= j->states; k++) {
            store(c->sig->out[k].type, c->out[k], i, n, x[k]);
        }
    }
}

hr_status hri_update_run(const hri_call *c, uint32_t scalars, uint32_t states, hri_update_fn *fn) {
    const uint32_t factor = 2 + scalars + states;
    job j = {.c = c, .fn = fn, .scalars = scalars, .states = states};
    j.u = (hri_update){
        .attr = c->sig->attr,
        .rate = *(const float *)c->in[2],
        .scalar = scalars > 1 ? *(const float *)c->in[3] : 0.0f,
        .factor = c->sig->in_count > factor ? *(const float *)c->in[factor] : 1.0f,
    };
    if (j.u.factor != 0.0f && isfinite(j.u.factor)) {
        hri_threads_range(c->threads, (uint64_t)hr_shape_count(&c->sig->in[0].shape), CHUNK,
                          run_range, &j);
    }
    return HR_OK;
}

hr_status hri_update_infer(hri_infer *c, uint32_t scalars, uint32_t states) {
    const uint32_t first = 2 + scalars, last = first + states;
    for (uint32_t i = 0; i < c->in_count; i++) {
        const int scalar = (i >= 2 && i < first) || i >= last;
        if (scalar && (c->in[i].type != HR_TYPE_F32 || c->in[i].shape.rank != 0)) {
            return hri_infer_fail(c, "input %u must be a scalar f32", i);
        }
        if (!hr_type_is_real(c->in[i].type)) {
            return hri_infer_fail(c, "input %u is %s, not a floating-point type", i,
                                  hr_type_name(c->in[i].type));
        }
        if (!scalar && !hr_shape_same(&c->in[i].shape, &c->in[0].shape)) {
            return hri_infer_fail(c, "input %u does not have the shape of the weights", i);
        }
    }
    c->out[0] = c->in[0];
    for (uint32_t k = 0; k < states; k++) {
        c->out[1 + k] = c->in[first + k];
    }
    return HR_OK;
}

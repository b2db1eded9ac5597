/* Blocks of f32, whatever the stored types.  What is stored as f32 is worked on where it lies. */
#include "ops/common/update.h"

#include <math.h>

#include "base/random.h"
#include "graph/half.h"
#include "ops/common/codes.h"
#include "ops/common/ranks.h"

enum { CHUNK = 16384 };
_Static_assert(HRI_UPDATE_BLOCK % HRI_CODES_BLOCK == 0 && CHUNK % HRI_UPDATE_BLOCK == 0 &&
                   HRI_SLICE_CHUNK % HRI_CODES_BLOCK == 0,
               "whatever is cut is cut at blocks of codes");

typedef struct job {
    const hri_call *c;
    const hri_update_rule *rule;
    hri_update u;
    uint32_t stream; /* 0: nothing is drawn */
    uint64_t first;  /* element of the whole tensor with which this slice begins */
    const char *g;   /* the row of it that counts */
} job;

/* What a worker has beside its blocks. */
typedef struct tables {
    hri_codes codes[HRI_UPDATE_STATES];
    uint32_t draws[HRI_UPDATE_BLOCK];
} tables;

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

static unsigned char *codes_at(void *state, uint64_t i) {
    return (unsigned char *)state + i / HRI_CODES_BLOCK * HRI_CODES_BLOCK_BYTES;
}

/* Output k is w (0), or state k - 1. */
static void store(const job *j, uint32_t k, uint64_t i, uint64_t n, const float *from,
                  const tables *t) {
    void *to = j->c->out[k];
    const hr_type type = j->c->sig->out[k].type;
    const uint32_t shift = k > 1 ? 16 : 0, state = k - 1;
    if (type == HR_TYPE_U8) { /* what is never negative changes slowly enough for the nearest */
        const int drawn = !(j->rule->positive >> state & 1u);
        hri_codes_encode(&t->codes[state], from, n, drawn ? t->draws : NULL, shift,
                         codes_at(to, i));
    } else if (type == HR_TYPE_BF16 && k && j->stream) {
        for (uint64_t q = 0; q < n; q++) {
            ((hri_bf16 *)to)[i + q] = hri_to_bf16_drawn(from[q], t->draws[q] >> shift);
        }
    } else if (type == HR_TYPE_BF16) {
        for (uint64_t q = 0; q < n; q++) {
            ((hri_bf16 *)to)[i + q] = hri_to_bf16(from[q]);
        }
    } else if (type == HR_TYPE_F16) {
        for (uint64_t q = 0; q < n; q++) {
            ((hri_f16 *)to)[i + q] = hri_to_f16(from[q]);
        }
    }
}

/* An output's block, to be worked on: its own memory, or `room`. */
static float *open_block(const job *j, uint32_t k, uint64_t i, uint64_t n, float *room,
                         const tables *t) {
    const hr_type type = j->c->sig->out[k].type;
    if (type == HR_TYPE_F32) {
        return (float *)j->c->out[k] + i;
    }
    if (type == HR_TYPE_U8) {
        hri_codes_decode(&t->codes[k - 1], codes_at(j->c->out[k], i), n, room);
    } else {
        load(type, j->c->out[k], i, n, room);
    }
    return room;
}

static void run_range(void *arg, uint64_t begin, uint64_t end, uint32_t worker) {
    const job *j = arg;
    const hri_call *c = j->c;
    const uint32_t states = j->rule->states;
    float room[2 + HRI_UPDATE_STATES][HRI_UPDATE_BLOCK];
    tables t;
    (void)worker;
    for (uint32_t k = 0; k < states; k++) {
        if (c->sig->out[1 + k].type == HR_TYPE_U8) {
            hri_codes_init(&t.codes[k], j->rule->positive >> k & 1u);
        }
    }
    for (uint64_t i = begin; i < end; i += HRI_UPDATE_BLOCK) {
        const uint64_t n = end - i < HRI_UPDATE_BLOCK ? end - i : HRI_UPDATE_BLOCK;
        float *x[1 + HRI_UPDATE_STATES] = {0};
        if (j->stream) {
            hri_random_fill_u32(c->seed, c->step, j->stream, HRI_UPDATE_SAMPLE, j->first + i,
                                t.draws, (size_t)n);
        }
        for (uint32_t k = 0; k <= states; k++) {
            x[k] = open_block(j, k, i, n, room[k], &t);
        }
        const float *g = load(c->sig->in[1].type, j->g, i, n, room[1 + HRI_UPDATE_STATES]);
        j->rule->block(&j->u, n, x[0], g, x[1], x[2]);
        for (uint32_t k = 0; k <= states; k++) {
            store(j, k, i, n, x[k], &t);
        }
    }
}

hr_status hri_update_run(const hri_call *c, const hri_update_rule *rule) {
    const uint32_t factor = 2 + rule->scalars + rule->states;
    const hri_update_small small = hri_update_small_of(rule, c->sig->attr);
    const uint64_t count = (uint64_t)hr_shape_count(&c->sig->in[0].shape);
    const uint64_t skip = (uint64_t)hri_update_skip(c->sig) * hr_type_bytes(c->sig->in[1].type);
    job j = {
        .c = c, .rule = rule, .stream = (uint32_t)small.stream, .g = (const char *)c->in[1] + skip};
    j.u = (hri_update){
        .attr = c->sig->attr,
        .rate = *(const float *)c->in[2],
        .scalar = rule->scalars > 1 ? *(const float *)c->in[3] : 0.0f,
        .factor = c->sig->in_count > factor ? *(const float *)c->in[factor] : 1.0f,
    };
    if (small.stream && small.ranks > 1) {
        const hr_status status = hri_ranks_check(c, small.ranks);
        if (status != HR_OK) {
            return status;
        }
        j.first = (uint64_t)hri_ranks_own(c) * count;
    }
    if (j.u.factor != 0.0f && isfinite(j.u.factor)) {
        hri_threads_range(c->threads, count, CHUNK, run_range, &j);
    }
    return HR_OK;
}

/* Of an input that is u8. */
static hr_status check_codes(hri_infer *c, uint32_t i, int64_t stream) {
    const int64_t bytes = hri_codes_bytes(hr_shape_count(&c->in[0].shape));
    if (!stream || c->in[0].type != HR_TYPE_F32) {
        return hri_infer_fail(c, "input %u is u8: 8-bit states need a stream and f32 weights", i);
    }
    if (c->in[i].shape.rank != 1 || c->in[i].shape.dim[0] != bytes) {
        return hri_infer_fail(c, "input %u: 8-bit states of these weights are %lld bytes", i,
                              (long long)bytes);
    }
    return HR_OK;
}

hr_status hri_update_infer(hri_infer *c, const hri_update_rule *rule) {
    const uint32_t first = 2 + rule->scalars, last = first + rule->states;
    const int64_t stream = hri_update_small_of(rule, c->attr).stream;
    if (stream && c->in[0].type != HR_TYPE_F32) {
        return hri_infer_fail(c, "the weights are %s: a stream rounds states of f32 weights",
                              hr_type_name(c->in[0].type));
    }
    for (uint32_t i = 0; i < c->in_count; i++) {
        const int scalar = (i >= 2 && i < first) || i >= last;
        if (scalar && (c->in[i].type != HR_TYPE_F32 || c->in[i].shape.rank != 0)) {
            return hri_infer_fail(c, "input %u must be a scalar f32", i);
        }
        if (i >= first && i < last && c->in[i].type == HR_TYPE_U8) {
            const hr_status status = check_codes(c, i, stream);
            if (status != HR_OK) {
                return status;
            }
            continue;
        }
        if (!hr_type_is_real(c->in[i].type)) {
            return hri_infer_fail(c, "input %u is %s, not a floating-point type", i,
                                  hr_type_name(c->in[i].type));
        }
        const hr_shape *x = &c->in[i].shape;
        const int rows =
            i == 1 && x->rank == 2 && x->dim[0] > 0 && x->dim[1] == hr_shape_count(&c->in[0].shape);
        if (!scalar && !rows && !hr_shape_same(x, &c->in[0].shape)) {
            return hri_infer_fail(c, "input %u does not have the shape of the weights", i);
        }
    }
    c->out[0] = c->in[0];
    for (uint32_t k = 0; k < rule->states; k++) {
        c->out[1 + k] = c->in[first + k];
    }
    return HR_OK;
}

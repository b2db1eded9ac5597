/* The blocks of update.h. */
#include "ops/common/update.h"

#include "graph/half.h"

static int is_scalar(const hri_sig *s, uint32_t i) {
    return s->in[i].shape.rank == 0 && s->in[0].shape.rank != 0;
}

void hri_update_load(hri_update_block *b, const hri_call *c, uint32_t in, uint64_t i,
                     uint64_t end) {
    b->count = end - i < HRI_UPDATE_BLOCK ? end - i : HRI_UPDATE_BLOCK;
    for (uint32_t k = 0; k < in; k++) {
        const hr_type type = c->sig->in[k].type;
        b->x[k] = b->room[k];
        if (is_scalar(c->sig, k)) {
            continue;
        }
        if (type == HR_TYPE_F32) {
            const float *from = (const float *)c->in[k] + i;
            for (uint64_t q = 0; q < b->count; q++) {
                b->room[k][q] = from[q];
            }
        } else if (type == HR_TYPE_BF16) {
            const hri_bf16 *from = (const hri_bf16 *)c->in[k] + i;
            for (uint64_t q = 0; q < b->count; q++) {
                b->room[k][q] = hri_from_bf16(from[q]);
            }
        } else {
            const hri_f16 *from = (const hri_f16 *)c->in[k] + i;
            for (uint64_t q = 0; q < b->count; q++) {
                b->room[k][q] = hri_from_f16(from[q]);
            }
        }
    }
}

void hri_update_store(const hri_update_block *b, const hri_call *c, uint32_t out, uint64_t i) {
    for (uint32_t k = 0; k < out; k++) {
        const hr_type type = c->sig->out[k].type;
        for (uint64_t q = 0; q < b->count; q++) {
            if (type == HR_TYPE_F32) {
                ((float *)c->out[k])[i + q] = b->x[k][q];
            } else if (type == HR_TYPE_BF16) {
                ((hri_bf16 *)c->out[k])[i + q] = hri_to_bf16(b->x[k][q]);
            } else {
                ((hri_f16 *)c->out[k])[i + q] = hri_to_f16(b->x[k][q]);
            }
        }
    }
}

hr_status hri_update_infer(hri_infer *c, uint32_t count, uint32_t scalars, uint32_t scalar0) {
    for (uint32_t i = 0; i < count; i++) {
        const int scalar = i >= scalar0 && i < scalar0 + scalars;
        if (scalar && (c->in[i].type != HR_TYPE_F32 || c->in[i].shape.rank != 0)) {
            return hri_infer_fail(c, "input %u must be a scalar f32", i);
        }
        if (!hr_type_is_real(c->in[i].type)) {
            return hri_infer_fail(c, "input %u is %s, not a real type", i,
                                  hr_type_name(c->in[i].type));
        }
        if (!scalar && !hr_shape_same(&c->in[i].shape, &c->in[0].shape)) {
            return hri_infer_fail(c, "input %u has not the shape of the weights", i);
        }
    }
    c->out[0] = c->in[0];
    return HR_OK;
}

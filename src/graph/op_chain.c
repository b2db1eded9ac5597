/* Which neighbouring calls are one chain of element-wise steps (op.h, op_scalar.c): found in the calls alone.
 *
 * A call joins while its inputs are results of the chain, whole, or memory that the chain has not touched, and while its
 * result lies where nothing of the chain lies, or exactly over a whole operand or an earlier result.  An earlier result
 * that a later one lies over is not stored: nobody outside could see it.  All others are, so no knowledge of what
 * comes later is needed, and memory afterwards is to the bit what the calls one by one would have left. */
#include "graph/op.h"

typedef struct range {
    hr_addr first, end;
} range;

typedef struct finder {
    hri_chain *chain;
    range operand[HRI_CHAIN_OPERANDS];
    int whole[HRI_CHAIN_OPERANDS];
    range result[HRI_CHAIN_STEPS];
} finder;

static range range_of(hr_addr at, const hr_meta *meta) {
    return (range){at, at + hr_meta_bytes(meta)};
}

static int touch(range a, range b) {
    return a.first < b.end && b.first < a.end;
}

static int same(range a, range b) {
    return a.first == b.first && a.end == b.end;
}

static int element_wise(const hri_gpu_call *c) {
    const hri_sig *s = c->sig;
    return c->kernel == &hri_kernel_scalar && hri_scalar_text(s) &&
           hr_type_is_real(s->out[0].type) && hr_shape_count(&s->out[0].shape) > 0;
}

/* Where input i of a call comes from: a step (< 0), an operand (>= 0), which is added; 0 when it cannot join. */
static int find_input(finder *f, const hri_gpu_call *c, uint32_t i, int32_t *out) {
    hri_chain *chain = f->chain;
    const range r = range_of(c->in[i], &c->sig->in[i]);
    for (uint32_t k = chain->step_count; k-- > 0;) {
        if (same(r, f->result[k])) {
            *out = -1 - (int32_t)k;
            return 1;
        }
        if (touch(r, f->result[k])) {
            return 0;
        }
    }
    const int whole = hr_shape_count(&c->sig->in[i].shape) == hr_shape_count(&c->sig->out[0].shape);
    for (uint32_t k = 0; k < chain->operand_count; k++) {
        if (same(r, f->operand[k]) &&
            (whole || hr_shape_same(&chain->operands[k].meta->shape, &c->sig->in[i].shape))) {
            *out = (int32_t)k;
            return 1;
        }
    }
    if (chain->operand_count == HRI_CHAIN_OPERANDS) {
        return 0;
    }
    f->operand[chain->operand_count] = r;
    f->whole[chain->operand_count] = whole;
    chain->operands[chain->operand_count] = (hri_chain_operand){c->in[i], &c->sig->in[i]};
    *out = (int32_t)chain->operand_count++;
    return 1;
}

/* Whether the result of a call may lie where it does. */
static int place_allows(const finder *f, range r) {
    for (uint32_t k = 0; k < f->chain->operand_count; k++) {
        if (touch(r, f->operand[k]) && !(f->whole[k] && same(r, f->operand[k]))) {
            return 0;
        }
    }
    for (uint32_t k = 0; k < f->chain->step_count; k++) {
        if (touch(r, f->result[k]) && !same(r, f->result[k])) {
            return 0;
        }
    }
    return 1;
}

static int join(finder *f, const hri_gpu_call *c) {
    hri_chain *chain = f->chain;
    const uint32_t operands_before = chain->operand_count;
    const hri_sig *first = chain->step_count ? chain->steps[0].sig : c->sig;
    hri_chain_step step = {.sig = c->sig, .out = c->out[0]};
    int joins = chain->step_count < HRI_CHAIN_STEPS && element_wise(c) &&
                c->sig->out[0].type == first->out[0].type &&
                hr_shape_same(&c->sig->out[0].shape, &first->out[0].shape);
    for (uint32_t i = 0; joins && i < c->sig->op->scalar->arity; i++) {
        joins = find_input(f, c, i, &step.in[i]);
    }
    const range r = joins ? range_of(c->out[0], &c->sig->out[0]) : (range){0};
    if (!joins || !place_allows(f, r)) {
        chain->operand_count = operands_before;
        return 0;
    }
    for (uint32_t k = 0; k < chain->step_count; k++) {
        if (same(r, f->result[k])) {
            chain->steps[k].out = 0;
        }
    }
    f->result[chain->step_count] = r;
    chain->steps[chain->step_count++] = step;
    return 1;
}

uint32_t hri_chain_find(const hri_gpu_call *calls, uint32_t count, hri_chain *out) {
    finder f = {.chain = out};
    *out = (hri_chain){.operand_count = 0};
    uint32_t n = 0;
    while (n < count && join(&f, &calls[n])) {
        n++;
    }
    return n;
}

int hri_chain_may_hold(const hri_gpu_call *call) {
    return element_wise(call);
}

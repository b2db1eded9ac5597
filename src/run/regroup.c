/* A plan casts each weight just before it is read.  One by one those launches cost more than the bytes; most of the
 * copies have a place of their own from the start of the step on, so nothing forbids to make them together.
 *
 * What may cross what is decided by memory alone, as in graph/op_many.c: a call that moves ahead writes nothing that the calls it
 * crosses read or write, and reads nothing that they write.  Copies, exchanges and waits are never crossed. */
#include "run/regroup.h"

#include <string.h>

#include "graph/op.h"

enum {
    FAR = 4096
}; /* calls that are looked at for one; so the time does not grow with the square */

typedef struct range {
    const char *first, *end;
} range;

static range range_at(const hri_bound *b, uint32_t pointer, uint64_t bytes) {
    const char *at = b->pointers[pointer];
    return (range){at, at ? at + bytes : at};
}

static int touch(range a, range b) {
    return a.first < b.end && b.first < a.end;
}

static const hri_sig *sig_of(const hri_bound *b, const hri_bound_call *c) {
    return &b->g->nodes[c->node].sig;
}

/* Whether a call writes into a range; with `reads` also whether it reads from it. */
static int uses(const hri_bound *b, const hri_bound_call *c, range r, int reads) {
    const hri_sig *s = sig_of(b, c);
    for (uint32_t i = 0; i < s->in_count && reads; i++) {
        if (touch(r, range_at(b, c->first + i, hr_meta_bytes(&s->in[i])))) {
            return 1;
        }
    }
    for (uint32_t k = 0; k < s->out_count; k++) {
        if (touch(r, range_at(b, c->first + s->in_count + k, hr_meta_bytes(&s->out[k])))) {
            return 1;
        }
    }
    return touch(r, range_at(b, c->first + s->in_count + s->out_count, c->bytes));
}

static int may_cross(const hri_bound *b, const hri_bound_call *mover, const hri_bound_call *c) {
    const hri_sig *s = sig_of(b, mover);
    int free = c->kind == HRI_STEP_RUN;
    for (uint32_t i = 0; i < s->in_count && free; i++) {
        free = !uses(b, c, range_at(b, mover->first + i, hr_meta_bytes(&s->in[i])), 0);
    }
    for (uint32_t k = 0; k < s->out_count && free; k++) {
        free =
            !uses(b, c, range_at(b, mover->first + s->in_count + k, hr_meta_bytes(&s->out[k])), 1);
    }
    return free;
}

/* The kernel of a call that may be moved; NULL: it stays. */
static const hri_kernel *movable(const hri_bound *b, const hri_kernels *kernels,
                                 const hri_bound_call *c) {
    if (c->kind != HRI_STEP_RUN || sig_of(b, c)->op->net || hri_bound_is_name(b, c)) {
        return NULL;
    }
    const hri_kernel *kernel = hri_kernel_for(kernels, sig_of(b, c));
    return kernel && kernel->launch_many && !hri_bound_workspace(b, c) ? kernel : NULL;
}

/* Whether call `y` may be moved, and both are casts to and from the same types, or updates alike. */
static int alike(const hri_bound *b, const hri_kernels *kernels, const hri_bound_call *x,
                 const hri_bound_call *y) {
    const hri_sig *p = sig_of(b, x), *q = sig_of(b, y);
    return p->op == q->op && p->in[0].type == q->in[0].type && p->out[0].type == q->out[0].type &&
           movable(b, kernels, y);
}

void hri_bound_regroup(hri_bound *b, const hri_kernels *kernels) {
    for (uint32_t t = 1; t < b->call_count; t++) {
        const hri_bound_call mover = b->calls[t];
        const hri_kernel *kernel = movable(b, kernels, &mover);
        uint32_t to =
            t; /* behind the earliest of its kind that is reached, and those that stand there */
        for (uint32_t i = t; kernel && i-- > 0 && t - i < FAR;) {
            if (alike(b, kernels, &mover, &b->calls[i])) {
                to = i + 1;
            }
            if (!may_cross(b, &mover, &b->calls[i])) {
                break;
            }
        }
        while (to < t && alike(b, kernels, &mover, &b->calls[to])) {
            to++;
        }
        memmove(&b->calls[to + 1], &b->calls[to], (t - to) * sizeof mover);
        b->calls[to] = mover;
    }
}

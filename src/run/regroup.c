/* A plan casts each weight just before it is read.  One by one those launches cost more than the bytes; most of the
 * copies have a place of their own from the start of the step on, so nothing forbids to make them together.
 *
 * What may cross what is decided by memory alone, as in graph/op_many.c: a call that moves ahead writes nothing that the calls it
 * crosses read or write, and reads nothing that they write; a wait counts as the copy that it is for.  Exchanges are never
 * crossed.
 *
 * Copies between calls that go together would break them apart, and cost more so than by the bytes.  To start a copy later than
 * the plan does, and to wait for one earlier, is always right: nothing in between touches what it works on.  So copies start
 * behind such calls, and are waited for before them. */
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

static int starts_copy(const hri_bound_call *c) {
    return c->kind == HRI_STEP_OUT || c->kind == HRI_STEP_IN;
}

static int awaits_copy(const hri_bound_call *c) {
    return c->kind == HRI_STEP_WAIT && !c->net;
}

/* The copy that call `t` starts or waits for; NULL: neither. */
static const hri_bound_call *copy_of(const hri_bound *b, uint32_t t) {
    const hri_bound_call *c = &b->calls[t];
    for (uint32_t i = awaits_copy(c) ? t : 0; i-- > 0;) {
        if (starts_copy(&b->calls[i]) && b->calls[i].copy == c->copy) {
            return &b->calls[i];
        }
    }
    return starts_copy(c) ? c : NULL;
}

/* The same of a copy: it writes the first of its two ranges, and reads the second. */
static int copy_uses(const hri_bound *b, const hri_bound_call *c, range r, int reads) {
    return touch(r, range_at(b, c->first, c->bytes)) ||
           (reads && touch(r, range_at(b, c->first + 1, c->bytes)));
}

/* May the mover run before call `t` instead of after it? */
static int may_cross(const hri_bound *b, const hri_bound_call *mover, uint32_t t) {
    const hri_sig *s = sig_of(b, mover);
    const hri_bound_call *c = &b->calls[t], *copy = copy_of(b, t);
    int free = copy || c->kind == HRI_STEP_RUN;
    for (uint32_t i = 0; i < s->in_count + s->out_count && free; i++) {
        const int out = i >= s->in_count;
        const hr_meta *meta = out ? &s->out[i - s->in_count] : &s->in[i];
        const range r = range_at(b, mover->first + i, hr_meta_bytes(meta));
        free = copy ? !copy_uses(b, copy, r, out) : !uses(b, c, r, out);
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
    if (y->kind != HRI_STEP_RUN) {
        return 0;
    }
    const hri_sig *p = sig_of(b, x), *q = sig_of(b, y);
    return p->op == q->op && p->in[0].type == q->in[0].type && p->out[0].type == q->out[0].type &&
           movable(b, kernels, y);
}

static void bring_together(hri_bound *b, const hri_kernels *kernels) {
    for (uint32_t t = 1; t < b->call_count; t++) {
        const hri_bound_call mover = b->calls[t];
        const hri_kernel *kernel = movable(b, kernels, &mover);
        uint32_t to =
            t; /* behind the earliest of its kind that is reached, and those that stand there */
        for (uint32_t i = t; kernel && i-- > 0 && t - i < FAR;) {
            if (alike(b, kernels, &mover, &b->calls[i])) {
                to = i + 1;
            }
            if (!may_cross(b, &mover, i)) {
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

/* ---- copies between those that go together ---- */

/* A call as op_many.c looks at it. */
typedef struct looked_at {
    hri_gpu_call call;
    hr_addr operands[HRI_IN_MAX + HRI_OUT_MAX];
} looked_at;

static void look_at(const hri_bound *b, const hri_kernels *kernels, const hri_bound_call *c,
                    looked_at *out) {
    const hri_sig *s = sig_of(b, c);
    out->call = (hri_gpu_call){.kernel = hri_kernel_for(kernels, s),
                               .sig = s,
                               .in = out->operands,
                               .out = out->operands + s->in_count};
    for (uint32_t i = 0; i < s->in_count + s->out_count; i++) {
        out->operands[i] = (hr_addr)(uintptr_t)b->pointers[c->first + i];
    }
}

/* May call `y` be in one launch with call `x` before it? */
static int go_together(const hri_bound *b, const hri_kernels *kernels, const hri_bound_call *x,
                       const hri_bound_call *y) {
    looked_at p, q;
    if (hri_bound_is_name(b, x) || hri_bound_is_name(b, y)) {
        return 0;
    }
    look_at(b, kernels, x, &p);
    look_at(b, kernels, y, &q);
    return (p.call.kernel && p.call.kernel == q.call.kernel && p.call.kernel->launch_many) ||
           (hri_chain_may_hold(&p.call) && hri_chain_may_hold(&q.call)) ||
           hri_beside(&p.call, &q.call) || hri_sum_feeds(&p.call, &q.call) ||
           hri_sum_takes(&p.call, &q.call) || hri_made_feeds(&p.call, &q.call) ||
           hri_total_takes(&p.call, NULL, &q.call);
}

/* The next call that runs something, behind call `t` and copies alone; call_count: there is none. */
static uint32_t next_run(const hri_bound *b, uint32_t t) {
    while (++t < b->call_count && (starts_copy(&b->calls[t]) || awaits_copy(&b->calls[t]))) {
    }
    return t < b->call_count && b->calls[t].kind == HRI_STEP_RUN ? t : b->call_count;
}

/* Is a copy waited for in [from, to) that starts there? */
static int holds_a_copy(const hri_bound *b, uint32_t from, uint32_t to) {
    for (uint32_t t = from; t < to; t++) {
        for (uint32_t i = from; i < t && awaits_copy(&b->calls[t]); i++) {
            if (starts_copy(&b->calls[i]) && b->calls[i].copy == b->calls[t].copy) {
                return 1;
            }
        }
    }
    return 0;
}

static void move_call(hri_bound *b, uint32_t from, uint32_t to) {
    const hri_bound_call call = b->calls[from];
    if (to < from) {
        memmove(&b->calls[to + 1], &b->calls[to], (from - to) * sizeof call);
    } else {
        memmove(&b->calls[from], &b->calls[from + 1], (to - from) * sizeof call);
    }
    b->calls[to] = call;
}

/* Calls that go together from call `first` on: copies come out from between.  Returns the last of them. */
static uint32_t clear_group(hri_bound *b, const hri_kernels *kernels, uint32_t first) {
    uint32_t last = first;
    for (uint32_t next = next_run(b, last);
         next < b->call_count && go_together(b, kernels, &b->calls[last], &b->calls[next]) &&
         !holds_a_copy(b, first, next);
         next = next_run(b, last)) {
        for (uint32_t t = last + 1; t < next; t++) {
            if (awaits_copy(&b->calls[t])) {
                move_call(b, t, first++);
                last++;
            }
        }
        move_call(b, next, ++last); /* what is left between are copies that start */
    }
    return last;
}

void hri_bound_regroup(hri_bound *b, const hri_kernels *kernels) {
    bring_together(b, kernels);
    for (uint32_t t = 0; t < b->call_count; t++) {
        if (b->calls[t].kind == HRI_STEP_RUN) {
            t = clear_group(b, kernels, t);
        }
    }
}

/* Calls that may go together: see hri_op_launch_many in op.h.
 *
 * A step ends with hundreds of updates of small tensors, and begins with as many casts of them; one launch each would
 * cost more than the work.  Which neighbours may be one launch is decided here, once for all ops, by looking at the
 * memory itself: no call may write what another reads or writes.  Kernels say how (launch_many), never whether.  Element-wise
 * neighbours of which one reads the other's result are a chain (op_chain.c), and some kernels make the sum that they read themselves
 * (launch_sum), or that is made of what they write (launch_added, launch_summed), or the whole element-wise result that they read
 * (launch_made), or write again what the forward op made of what they read (launch_beside). */
#include "graph/op.h"

#include <string.h>

enum { TOGETHER = 256 }; /* more in one run would only make the comparisons many */

typedef struct range {
    hr_addr first, end;
} range;

static range range_of(hr_addr at, const hr_meta *meta) {
    return (range){at, at + (at ? hr_meta_bytes(meta) : 0)};
}

static int touch(range a, range b) {
    return a.first < b.end && b.first < a.end;
}

/* Whether output k of `a` touches something of `b`, other than an input that is the same memory where `may_be_read`. */
static int output_touches(const hri_gpu_call *a, uint32_t k, const hri_gpu_call *b,
                          int may_be_read) {
    const range out = range_of(a->out[k], &a->sig->out[k]);
    for (uint32_t i = 0; i < b->sig->in_count; i++) {
        const range in = range_of(b->in[i], &b->sig->in[i]);
        const int same = in.first == out.first && in.end == out.end;
        if (touch(out, in) && !(may_be_read && same)) {
            return 1;
        }
    }
    for (uint32_t i = 0; i < b->sig->out_count; i++) {
        if (touch(out, range_of(b->out[i], &b->sig->out[i]))) {
            return 1;
        }
    }
    return 0;
}

/* Whether `a` writes something that `b` reads or writes. */
static int writes_into(const hri_gpu_call *a, const hri_gpu_call *b) {
    for (uint32_t k = 0; k < a->sig->out_count; k++) {
        if (output_touches(a, k, b, 0)) {
            return 1;
        }
    }
    return 0;
}

/* How many calls from the first on go together. */
static uint32_t run_of(const hri_gpu_call *calls, uint32_t count) {
    const hri_kernel *kernel = calls[0].kernel;
    uint32_t n = 1;
    for (; kernel && kernel->launch_many && n < count && n < TOGETHER && calls[n].kernel == kernel;
         n++) {
        for (uint32_t i = 0; i < n; i++) {
            if (writes_into(&calls[i], &calls[n]) || writes_into(&calls[n], &calls[i])) {
                return n;
            }
        }
    }
    return n;
}

/* A sum of two tensors like `like`. */
static int is_sum(const hri_sig *s, const hr_meta *like) {
    return s && strcmp(s->op->name, "add") == 0 && like->type == s->out[0].type &&
           hr_shape_same(&like->shape, &s->out[0].shape) &&
           hr_shape_same(&s->in[0].shape, &s->out[0].shape) &&
           hr_shape_same(&s->in[1].shape, &s->out[0].shape);
}

int hri_sum_takes(const hri_gpu_call *maker, const hri_gpu_call *sum) {
    return maker->kernel && maker->kernel->launch_added && is_sum(sum->sig, &maker->sig->out[0]) &&
           (sum->in[0] == maker->out[0]) != (sum->in[1] == maker->out[0]);
}

int hri_total_takes(const hri_gpu_call *maker, const hri_gpu_call *sum, const hri_gpu_call *total) {
    if (!maker->kernel || !maker->kernel->launch_summed || !total->sig ||
        strcmp(total->sig->op->name, "sum_to") != 0 || (sum && !hri_sum_takes(maker, sum))) {
        return 0;
    }
    const hr_meta *made = &maker->sig->out[0], *in = &total->sig->in[0], *out = &total->sig->out[0];
    const int rank = made->shape.rank;
    return total->in[0] == (sum ? sum : maker)->out[0] && in->type == made->type &&
           hr_meta_bytes(in) == hr_meta_bytes(made) && rank > 0 && out->shape.rank == 1 &&
           out->shape.dim[0] == made->shape.dim[rank - 1];
}

int hri_sum_feeds(const hri_gpu_call *sum, const hri_gpu_call *reader) {
    const hri_sig *s = sum->sig;
    if (!reader->kernel || !reader->kernel->launch_sum || !is_sum(s, &reader->sig->in[0]) ||
        reader->in[0] != sum->out[0]) {
        return 0;
    }
    const range result = range_of(sum->out[0], &s->out[0]);
    for (uint32_t i = 1; i < reader->sig->in_count; i++) {
        if (touch(result, range_of(reader->in[i], &reader->sig->in[i]))) {
            return 0;
        }
    }
    return 1;
}

int hri_made_feeds(const hri_gpu_call *maker, const hri_gpu_call *reader) {
    return reader->kernel && reader->kernel->launch_made && hri_chain_may_hold(maker) &&
           reader->in[0] == maker->out[0] && reader->sig->in[0].type == maker->sig->out[0].type &&
           hr_meta_bytes(&reader->sig->in[0]) == hr_meta_bytes(&maker->sig->out[0]);
}

int hri_op_beside(const hri_sig *again, const hri_kernel *of_again, const hri_sig *grad,
                  const hri_kernel *of_grad) {
    if (!of_again || !of_grad || again->in_count < 1 || grad->in_count < 2 ||
        again->in[0].type != grad->in[1].type ||
        !hr_shape_same(&again->in[0].shape, &grad->in[1].shape)) {
        return 0;
    }
    return of_grad->launch_beside ? strcmp(of_grad->beside, again->op->name) == 0
                                  : of_again == &hri_kernel_scalar &&
                                        of_grad == &hri_kernel_scalar && again->in_count == 1 &&
                                        hr_shape_same(&again->out[0].shape, &grad->out[0].shape);
}

int hri_beside(const hri_gpu_call *again, const hri_gpu_call *grad) {
    int good = hri_op_beside(again->sig, again->kernel, grad->sig, grad->kernel) &&
               again->in[0] == grad->in[1];
    for (uint32_t k = 0; good && k < again->sig->out_count; k++) {
        good = !output_touches(again, k, grad, k > 0);
    }
    return good;
}

static hr_status launch_added(const hri_gpu_call *maker, const hri_gpu_call *sum,
                              const hri_gpu_call *again) {
    const hr_addr other = sum->in[sum->in[0] == maker->out[0]];
    return maker->kernel->launch_added(maker, other, sum->out[0], again);
}

/* A gradient with the sum of the columns of what it writes: behind its forward op or not, with what is added to it or not. */
static hr_status launch_summed(const hri_gpu_call *calls, uint32_t count, uint32_t *out) {
    const uint32_t first = count > 1 && hri_beside(&calls[0], &calls[1]);
    const hri_gpu_call *maker = &calls[first], *again = first ? &calls[0] : NULL;
    if (count > first + 2 && hri_total_takes(maker, &maker[1], &maker[2])) {
        const hr_addr other = maker[1].in[maker[1].in[0] == maker->out[0]];
        *out = first + 3;
        return maker->kernel->launch_summed(maker, other, maker[1].out[0], again, &maker[2]);
    }
    if (count > first + 1 && hri_total_takes(maker, NULL, &maker[1])) {
        *out = first + 2;
        return maker->kernel->launch_summed(maker, 0, 0, again, &maker[1]);
    }
    return HR_E_UNSUPPORTED;
}

/* The calls from the first on that go together; *out says how many those were. */
static hr_status launch_together(const hri_gpu_call *calls, uint32_t count, uint32_t *out) {
    const hr_status summed = launch_summed(calls, count, out);
    if (summed != HR_E_UNSUPPORTED) {
        return summed;
    }
    if (count > 1 && hri_sum_feeds(&calls[0], &calls[1])) {
        const hr_status status =
            calls[1].kernel->launch_sum(&calls[1], calls[0].in[0], calls[0].in[1]);
        *out = 2;
        if (status != HR_E_UNSUPPORTED) {
            return status;
        }
    }
    if (count > 1 && hri_sum_takes(&calls[0], &calls[1])) {
        const hr_status status = launch_added(&calls[0], &calls[1], NULL);
        *out = 2;
        if (status != HR_E_UNSUPPORTED) {
            return status;
        }
    }
    if (count > 2 && hri_beside(&calls[0], &calls[1]) && hri_sum_takes(&calls[1], &calls[2])) {
        const hr_status status = launch_added(&calls[1], &calls[2], &calls[0]);
        *out = 3;
        if (status != HR_E_UNSUPPORTED) {
            return status;
        }
    }
    if (count > 1 && hri_made_feeds(&calls[0], &calls[1])) {
        const hr_status status = calls[1].kernel->launch_made(&calls[1], &calls[0], NULL);
        *out = 2;
        if (status != HR_E_UNSUPPORTED) {
            return status;
        }
    }
    if (count > 2 && hri_beside(&calls[0], &calls[1]) && hri_made_feeds(&calls[1], &calls[2])) {
        const hr_status status = calls[2].kernel->launch_made(&calls[2], &calls[1], &calls[0]);
        *out = 3;
        if (status != HR_E_UNSUPPORTED) {
            return status;
        }
    }
    if (count > 1 && hri_beside(&calls[0], &calls[1]) && calls[1].kernel->launch_beside) {
        const hr_status status = calls[1].kernel->launch_beside(&calls[1], &calls[0]);
        *out = 2;
        if (status != HR_E_UNSUPPORTED) {
            return status;
        }
    }
    return HR_E_UNSUPPORTED;
}

static hr_status launch_some(const hri_gpu_call *calls, uint32_t count, uint32_t *out) {
    hri_chain chain;
    hri_gpu_set_together(calls->gpu, 1);
    const hr_status status = launch_together(calls, count, out);
    hri_gpu_set_together(calls->gpu, 0);
    if (status != HR_E_UNSUPPORTED) {
        return status;
    }
    *out = hri_chain_find(calls, count, &chain);
    if (*out > 1) {
        return hri_chain_launch(calls->gpu, chain.operands, chain.operand_count, chain.steps,
                                chain.step_count);
    }
    *out = run_of(calls, count);
    return *out > 1 ? calls->kernel->launch_many(calls, *out) : hri_op_launch(calls);
}

hr_status hri_op_launch_many(const hri_gpu_call *calls, uint32_t count) {
    while (count > 0) {
        uint32_t n;
        const hr_status status = launch_some(calls, count, &n);
        if (status != HR_OK) {
            return status;
        }
        calls += n;
        count -= n;
    }
    return HR_OK;
}

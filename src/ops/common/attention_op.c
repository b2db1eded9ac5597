/* What attention, attention_masked and their gradients share: they differ in attributes, in one input, and in cases.
 *
 * Forward the inputs are q, k, v [, mask], backward do, q, k, v, o, lse [, mask]. */
#include "ops/common/attention.h"

static const char *const mask_shape =
    "expected a mask (B or 1, H or 1, T or 1, S) of q's type, f32 or u8";

static int fits(int64_t is, int64_t should) {
    return is == 1 || is == should;
}

/* k and v like one another and, but for their places, like q; a head of theirs may serve several of q's. */
static int keys_fit(const hr_meta *q, const hr_meta *k, const hr_meta *v) {
    const int64_t *is = k->shape.dim, *should = q->shape.dim;
    return hr_shape_same(&k->shape, &v->shape) && k->shape.rank == 4 && is[0] == should[0] &&
           is[3] == should[3] && (is[2] > 0 ? should[2] % is[2] == 0 : should[2] == 0);
}

static int mask_fits(const hr_meta *m, const hr_meta *q, const hr_meta *k) {
    const int64_t *is = m->shape.dim, *dim = q->shape.dim;
    return (m->type == q->type || m->type == HR_TYPE_F32 || m->type == HR_TYPE_U8) &&
           m->shape.rank == 4 && fits(is[0], dim[0]) && fits(is[1], dim[2]) &&
           fits(is[2], dim[1]) && is[3] == k->shape.dim[1];
}

static const char causal_shape[] = "causal attention needs as many keys as queries";

static int causal_fits(const hri_infer *c, const hr_meta *q, const hr_meta *k) {
    return !((const hri_attention_attr *)c->attr)->causal || k->shape.dim[1] == q->shape.dim[1];
}

hr_status hri_attention_infer(hri_infer *c) {
    const hr_meta *q = &c->in[0], *k = &c->in[1], *v = &c->in[2];
    if (!hr_type_is_real(q->type) || k->type != q->type || v->type != q->type) {
        return hri_infer_fail(c, "q, k and v must have the same floating-point type");
    }
    if (q->shape.rank != 4 || !keys_fit(q, k, v)) {
        return hri_infer_fail(c, "expected q (B, T, H, D), k and v (B, S, H, D), or with a number "
                                 "of heads that divides H");
    }
    const int64_t *dim = q->shape.dim, keys = k->shape.dim[1];
    if (!causal_fits(c, q, k)) {
        return hri_infer_fail(c, "%s", causal_shape);
    }
    if (keys == 0 && dim[1] > 0) {
        return hri_infer_fail(c, "there are no keys");
    }
    if (c->in_count > 3 && !mask_fits(&c->in[3], q, k)) {
        return hri_infer_fail(c, "%s", mask_shape);
    }
    c->out[0] = *q;
    c->out[1] = (hr_meta){HR_TYPE_F32, {.rank = 3, .dim = {dim[0], dim[2], dim[1]}}};
    return HR_OK;
}

hr_status hri_attention_grad_infer(hri_infer *c) {
    const hr_meta *q = &c->in[1];
    for (uint32_t i = 0; i < 5; i++) {
        if (c->in[i].type != q->type || c->in[i].shape.rank != 4 || !hr_type_is_real(q->type)) {
            return hri_infer_fail(
                c, "do, q, k, v and o must have the same floating-point type, (B, T, H, D)");
        }
    }
    const int64_t *dim = q->shape.dim;
    const hr_shape lse = {.rank = 3, .dim = {dim[0], dim[2], dim[1]}};
    if (!hr_shape_same(&c->in[0].shape, &q->shape) || !hr_shape_same(&c->in[4].shape, &q->shape) ||
        !keys_fit(q, &c->in[2], &c->in[3]) || c->in[5].type != HR_TYPE_F32 ||
        !hr_shape_same(&c->in[5].shape, &lse)) {
        return hri_infer_fail(c, "the shapes are not those of one attention");
    }
    if (!causal_fits(c, q, &c->in[2])) {
        return hri_infer_fail(c, "%s", causal_shape);
    }
    if (c->in_count > 6 && !mask_fits(&c->in[6], q, &c->in[2])) {
        return hri_infer_fail(c, "%s", mask_shape);
    }
    c->out[0] = c->in[1];
    c->out[1] = c->in[2];
    c->out[2] = c->in[3];
    return HR_OK;
}

/* Sizes and layout of one use, whose q is input `q`; attention_masked's attributes are the longer ones. */
static int is_masked(const hri_sig *s) {
    return s->op->attr_bytes == sizeof(hri_attention_masked_attr);
}

static void sizes(const hri_sig *s, int back, hri_attention *a) {
    const uint32_t mask = back ? 6 : 3;
    const hr_meta *in = s->in + back;
    if (is_masked(s)) {
        hri_attention_masked(a, s->attr, &in[0], &in[1], s->in_count > mask ? &s->in[mask] : NULL);
    } else {
        hri_attention_apart(a, s->attr, &in[0], &in[1]);
    }
}

static void bind(hri_attention *a, const hri_call *c, int back) {
    const uint32_t mask = back ? 6 : 3;
    sizes(c->sig, back, a);
    if (is_masked(c->sig)) {
        hri_attention_call(a, c->sig->attr, c, c->sig->in_count > mask ? c->in[mask] : NULL);
    }
    a->q.data = c->in[back];
    a->k.data = c->in[back + 1];
    a->v.data = c->in[back + 2];
}

static hr_addr bind_cuda(hri_attention *a, const hri_gpu_call *c, int back) {
    const uint32_t mask = back ? 6 : 3;
    sizes(c->sig, back, a);
    if (is_masked(c->sig)) {
        const hri_attention_masked_attr *p = c->sig->attr;
        a->extra.node = p->node < 0 ? c->node : (uint32_t)p->node;
    }
    return c->sig->in_count > mask ? c->in[mask] : 0;
}

/* ---- forward ---- */

uint64_t hri_attention_op_workspace(const hri_sig *s, uint32_t threads) {
    hri_attention a;
    sizes(s, 0, &a);
    return hri_attention_workspace(&a, threads);
}

void hri_attention_op_cost(const hri_sig *s, hri_cost *cost) {
    hri_attention a;
    sizes(s, 0, &a);
    cost->flops = 2.0 * hri_attention_flops(&a);
}

hr_status hri_attention_op_host(const hri_call *c) {
    hri_attention a;
    bind(&a, c, 0);
    a.o.data = c->out[0];
    a.lse = c->out[1];
    hri_attention_run(&a, c->threads, c->workspace);
    return HR_OK;
}

uint64_t hri_attention_op_launch_workspace(const hri_sig *s, hri_gpu *gpu, uint32_t variant) {
    hri_attention a;
    (void)variant;
    sizes(s, 0, &a);
    return hri_attention_masked_cuda_workspace(&a, gpu, 0);
}

hr_status hri_attention_op_launch(const hri_gpu_call *c) {
    hri_attention a;
    const hr_addr mask = bind_cuda(&a, c, 0);
    return hri_attention_masked_cuda(&a, c, c->in, c->out[0], c->out[1], mask);
}

/* ---- backward ---- */

uint64_t hri_attention_op_grad_workspace(const hri_sig *s, uint32_t threads) {
    hri_attention a;
    sizes(s, 1, &a);
    return hri_attention_grad_workspace(&a, threads);
}

void hri_attention_op_grad_cost(const hri_sig *s, hri_cost *cost) {
    hri_attention a;
    sizes(s, 1, &a);
    cost->flops = 5.0 * hri_attention_flops(&a);
}

hr_status hri_attention_op_grad_host(const hri_call *c) {
    hri_attention a;
    bind(&a, c, 1);
    a.d.data = c->in[0];
    a.o.data = c->in[4];
    a.lse = (float *)(uintptr_t)c->in[5];
    a.dq = c->out[0];
    a.dk = c->out[1];
    a.dv = c->out[2];
    hri_attention_grad_run(&a, c->threads, c->workspace);
    return HR_OK;
}

uint64_t hri_attention_op_grad_launch_workspace(const hri_sig *s, hri_gpu *gpu, uint32_t variant) {
    hri_attention a;
    (void)variant;
    sizes(s, 1, &a);
    return hri_attention_masked_cuda_workspace(&a, gpu, 1);
}

hr_status hri_attention_op_grad_launch(const hri_gpu_call *c) {
    hri_attention a;
    const hr_addr mask = bind_cuda(&a, c, 1);
    return hri_attention_masked_grad_cuda(&a, c, c->in + 1, c->in[4], c->in[5], c->in[0], c->out,
                                          mask);
}

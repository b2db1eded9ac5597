/* attention_masked_grad(do, q, k, v, o, lse [, mask]; causal, scale, dropout, node) -> dq, dk, dv: the gradients of
 * attention_masked, tile by tile; node is the forward node, whose draws these are. */
#include "ops/common/attention.h"

static hr_status attention_masked_grad_infer(hri_infer *c) {
    const hr_meta *q = &c->in[1];
    for (uint32_t i = 0; i < 5; i++) {
        if (c->in[i].type != q->type || c->in[i].shape.rank != 4 || !hr_type_is_real(q->type)) {
            return hri_infer_fail(
                c, "do, q, k, v and o must have the same floating-point type, (B, T, H, D)");
        }
    }
    const int64_t *dim = q->shape.dim, *keys = c->in[2].shape.dim;
    const hr_shape lse = {.rank = 3, .dim = {dim[0], dim[2], dim[1]}};
    if (!hr_shape_same(&c->in[0].shape, &q->shape) || !hr_shape_same(&c->in[4].shape, &q->shape) ||
        !hr_shape_same(&c->in[2].shape, &c->in[3].shape) || c->in[5].type != HR_TYPE_F32 ||
        !hr_shape_same(&c->in[5].shape, &lse) || keys[0] != dim[0] || keys[2] != dim[2] ||
        keys[3] != dim[3]) {
        return hri_infer_fail(c, "the shapes are not those of one attention");
    }
    const int64_t *mask = c->in_count > 6 ? c->in[6].shape.dim : NULL;
    if (mask &&
        (c->in[6].shape.rank != 4 || mask[3] != keys[1] || (mask[0] != 1 && mask[0] != dim[0]) ||
         (mask[1] != 1 && mask[1] != dim[2]) || (mask[2] != 1 && mask[2] != dim[1]) ||
         (c->in[6].type != q->type && c->in[6].type != HR_TYPE_F32))) {
        return hri_infer_fail(c, "expected a mask (B or 1, H or 1, T or 1, S) of q's type or f32");
    }
    c->out[0] = c->in[1];
    c->out[1] = c->in[2];
    c->out[2] = c->in[3];
    return HR_OK;
}

static void sizes(const hri_sig *s, hri_attention *a) {
    hri_attention_masked(a, s->attr, &s->in[1], &s->in[2], s->in_count > 6 ? &s->in[6] : NULL);
}

static uint64_t attention_masked_grad_workspace(const hri_sig *s, uint32_t threads) {
    hri_attention a;
    sizes(s, &a);
    return hri_attention_grad_workspace(&a, threads);
}

static void attention_masked_grad_cost(const hri_sig *s, hri_cost *cost) {
    hri_attention a;
    sizes(s, &a);
    cost->flops = 5.0 * hri_attention_flops(&a);
}

static hr_status attention_masked_grad_host(const hri_call *c) {
    hri_attention a;
    sizes(c->sig, &a);
    hri_attention_call(&a, c->sig->attr, c, c->sig->in_count > 6 ? c->in[6] : NULL);
    a.d.data = c->in[0];
    a.q.data = c->in[1];
    a.k.data = c->in[2];
    a.v.data = c->in[3];
    a.o.data = c->in[4];
    a.lse = (float *)(uintptr_t)c->in[5];
    a.dq = c->out[0];
    a.dk = c->out[1];
    a.dv = c->out[2];
    hri_attention_grad_run(&a, c->threads, c->workspace);
    return HR_OK;
}

static uint64_t attention_masked_grad_cuda_workspace(const hri_sig *s, hri_gpu *gpu,
                                                     uint32_t variant) {
    hri_attention a;
    (void)variant;
    sizes(s, &a);
    return hri_attention_cuda_workspace(&a, gpu, 1);
}

static hr_status attention_masked_grad_cuda(const hri_gpu_call *c) {
    const hri_attention_masked_attr *p = c->sig->attr;
    hri_attention a;
    sizes(c->sig, &a);
    a.extra.node = p->node < 0 ? c->node : (uint32_t)p->node;
    return hri_attention_grad_cuda(&a, c, c->in + 1, c->in[4], c->in[5], c->in[0], c->out,
                                   c->sig->in_count > 6 ? c->in[6] : 0);
}

static const hri_case attention_masked_grad_cases[] = {
    {"mask",
     "f32[2,7,3,5] f32[2,7,3,5] f32[2,9,3,5] f32[2,9,3,5] f32[2,7,3,5] f32[2,3,7] f32[2,3,7,9]"},
    {"mask of keys, causal",
     "f32[2,13,2,6] f32[2,13,2,6] f32[2,13,2,6] f32[2,13,2,6] f32[2,13,2,6] f32[2,2,13] "
     "f32[2,1,1,13]",
     "causal"},
    {"dropout", "f32[2,7,3,5] f32[2,7,3,5] f32[2,9,3,5] f32[2,9,3,5] f32[2,7,3,5] f32[2,3,7]",
     "dropout=0.3"},
    {"many tiles",
     "f32[1,150,2,17] f32[1,150,2,17] f32[1,211,2,17] f32[1,211,2,17] f32[1,150,2,17] f32[1,2,150] "
     "f32[1,2,150,211]",
     "scale=0.7,dropout=0.1,node=3"},
    {"bf16", "bf16[2,7,3,5] bf16[2,7,3,5] bf16[2,7,3,5] bf16[2,7,3,5] bf16[2,7,3,5] f32[2,3,7] "
             "bf16[1,3,7,7]"},
    {"f16",
     "f16[2,7,3,8] f16[2,7,3,8] f16[2,7,3,8] f16[2,7,3,8] f16[2,7,3,8] f32[2,3,7] f32[1,1,7,7]",
     "dropout=0.2"},
    {"mask of another width",
     "f32[2,7,3,5] f32[2,7,3,5] f32[2,9,3,5] f32[2,9,3,5] f32[2,7,3,5] f32[2,3,7] f32[2,3,7,7]",
     .flags = HRI_CASE_BAD},
    {NULL, NULL},
};

const hr_op hr_op_attention_masked_grad = {
    .name = "attention_masked_grad",
    .formula = "ds = p (drop(do v') - delta); dq = ds k; dk = ds' q; dv = drop(p)' do",
    .in_min = 6,
    .in_max = 7,
    .out_count = 3,
    .fields = hri_attention_masked_fields,
    .attr_bytes = sizeof(hri_attention_masked_attr),
    .infer = attention_masked_grad_infer,
    .random = 1,
    .cost = attention_masked_grad_cost,
    .host = {.run = attention_masked_grad_host, .workspace = attention_masked_grad_workspace},
    .cases = attention_masked_grad_cases,
};

const hri_kernel hri_kernel_cuda_attention_masked_grad = {
    .launch = attention_masked_grad_cuda,
    .launch_workspace = attention_masked_grad_cuda_workspace,
};

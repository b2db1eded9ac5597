/* attention_grad(do, q, k, v, o, lse; causal, scale) -> dq, dk, dv: the gradients of attention, tile by tile. */
#include "ops/common/attention.h"

static hr_status attention_grad_infer(hri_infer *c) {
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
        !hr_shape_same(&c->in[2].shape, &c->in[3].shape) || c->in[5].type != HR_TYPE_F32 ||
        !hr_shape_same(&c->in[5].shape, &lse) || c->in[2].shape.dim[0] != dim[0] ||
        c->in[2].shape.dim[2] != dim[2] || c->in[2].shape.dim[3] != dim[3]) {
        return hri_infer_fail(c, "the shapes are not those of one attention");
    }
    c->out[0] = c->in[1];
    c->out[1] = c->in[2];
    c->out[2] = c->in[3];
    return HR_OK;
}

static uint64_t attention_grad_workspace(const hri_sig *s, uint32_t threads) {
    hri_attention a;
    hri_attention_apart(&a, s->attr, &s->in[1], &s->in[2]);
    return hri_attention_grad_workspace(&a, threads);
}

static void attention_grad_cost(const hri_sig *s, hri_cost *cost) {
    hri_attention a;
    hri_attention_apart(&a, s->attr, &s->in[1], &s->in[2]);
    cost->flops = 5.0 * hri_attention_flops(&a);
}

static hr_status attention_grad_host(const hri_call *c) {
    hri_attention a;
    hri_attention_apart(&a, c->sig->attr, &c->sig->in[1], &c->sig->in[2]);
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

static uint64_t attention_grad_cuda_workspace(const hri_sig *s, hri_gpu *gpu, uint32_t variant) {
    hri_attention a;
    (void)variant;
    hri_attention_apart(&a, s->attr, &s->in[1], &s->in[2]);
    return hri_attention_cuda_workspace(&a, gpu, 1);
}

static hr_status attention_grad_cuda(const hri_gpu_call *c) {
    hri_attention a;
    hri_attention_apart(&a, c->sig->attr, &c->sig->in[1], &c->sig->in[2]);
    return hri_attention_grad_cuda(&a, c, c->in + 1, c->in[4], c->in[5], c->in[0], c->out, 0);
}

static const hri_case attention_grad_cases[] = {
    {"odd", "f32[2,7,3,5] f32[2,7,3,5] f32[2,9,3,5] f32[2,9,3,5] f32[2,7,3,5] f32[2,3,7]"},
    {"causal", "f32[2,13,2,6] f32[2,13,2,6] f32[2,13,2,6] f32[2,13,2,6] f32[2,13,2,6] f32[2,2,13]",
     "causal"},
    {"many tiles",
     "f32[1,150,2,17] f32[1,150,2,17] f32[1,211,2,17] f32[1,211,2,17] f32[1,150,2,17] f32[1,2,150]",
     "scale=0.7"},
    {"many causal tiles",
     "f32[1,210,1,24] f32[1,210,1,24] f32[1,210,1,24] f32[1,210,1,24] f32[1,210,1,24] "
     "f32[1,1,210]",
     "causal,scale=0.5"},
    {"no keys", "f32[1,3,2,4] f32[1,3,2,4] f32[1,0,2,4] f32[1,0,2,4] f32[1,3,2,4] f32[1,2,3]"},
    {"bf16", "bf16[2,7,3,5] bf16[2,7,3,5] bf16[2,7,3,5] bf16[2,7,3,5] bf16[2,7,3,5] f32[2,3,7]",
     "causal"},
    {"f16", "f16[2,7,3,5] f16[2,7,3,5] f16[2,7,3,5] f16[2,7,3,5] f16[2,7,3,5] f32[2,3,7]"},
    {"bf16 in whole eights",
     "bf16[2,70,2,24] bf16[2,70,2,24] bf16[2,133,2,24] bf16[2,133,2,24] bf16[2,70,2,24] "
     "f32[2,2,70]"},
    {"bf16 causal tiles",
     "bf16[1,150,2,64] bf16[1,150,2,64] bf16[1,150,2,64] bf16[1,150,2,64] bf16[1,150,2,64] "
     "f32[1,2,150]",
     "causal"},
    {"f16 deep",
     "f16[1,66,1,128] f16[1,66,1,128] f16[1,40,1,128] f16[1,40,1,128] f16[1,66,1,128] f32[1,1,66]"},
    {"f16 causal and deep",
     "f16[1,70,1,72] f16[1,70,1,72] f16[1,70,1,72] f16[1,70,1,72] f16[1,70,1,72] f32[1,1,70]",
     "causal,scale=0.2"},
    {"deeper than tensor cores take",
     "f32[1,9,1,200] f32[1,9,1,200] f32[1,9,1,200] f32[1,9,1,200] f32[1,9,1,200] f32[1,1,9]",
     "causal"},
    {"o of another shape",
     "f32[2,7,3,5] f32[2,7,3,5] f32[2,9,3,5] f32[2,9,3,5] f32[2,9,3,5] f32[2,3,7]",
     .flags = HRI_CASE_BAD},
    {NULL, NULL},
};

const hr_op hr_op_attention_grad = {
    .name = "attention_grad",
    .formula = "ds = p (do v' - delta); dq = ds k; dk = ds' q; dv = p' do",
    .in_min = 6,
    .in_max = 6,
    .out_count = 3,
    .fields = hri_attention_fields,
    .attr_bytes = sizeof(hri_attention_attr),
    .infer = attention_grad_infer,
    .cost = attention_grad_cost,
    .host = {.run = attention_grad_host, .workspace = attention_grad_workspace},
    .cases = attention_grad_cases,
};

const hri_kernel hri_kernel_cuda_attention_grad = {
    .launch = attention_grad_cuda,
    .launch_workspace = attention_grad_cuda_workspace,
};

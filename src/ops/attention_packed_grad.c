/* attention_packed_grad(do, qkv, o, lse; causal, scale) -> dqkv: all three gradients side by side. */
#include "ops/common/attention.h"

static hr_status attention_packed_grad_infer(hri_infer *c) {
    const int64_t *dim = c->in[1].shape.dim;
    if (!hr_type_is_real(c->in[1].type) || c->in[1].shape.rank != 5 || dim[2] != 3) {
        return hri_infer_fail(c, "expected qkv (B, T, 3, H, D), floating point");
    }
    const hr_shape o = {.rank = 4, .dim = {dim[0], dim[1], dim[3], dim[4]}};
    const hr_shape lse = {.rank = 3, .dim = {dim[0], dim[3], dim[1]}};
    if (c->in[0].type != c->in[1].type || c->in[2].type != c->in[1].type ||
        !hr_shape_same(&c->in[0].shape, &o) || !hr_shape_same(&c->in[2].shape, &o) ||
        c->in[3].type != HR_TYPE_F32 || !hr_shape_same(&c->in[3].shape, &lse)) {
        return hri_infer_fail(c, "the shapes are not those of one attention");
    }
    c->out[0] = c->in[1];
    return HR_OK;
}

static uint64_t attention_packed_grad_workspace(const hri_sig *s, uint32_t threads) {
    hri_attention a;
    hri_attention_packed(&a, s->attr, &s->in[1]);
    return hri_attention_grad_workspace(&a, threads);
}

static void attention_packed_grad_cost(const hri_sig *s, hri_cost *cost) {
    hri_attention a;
    hri_attention_packed(&a, s->attr, &s->in[1]);
    cost->flops = 5.0 * hri_attention_flops(&a);
}

static hr_status attention_packed_grad_host(const hri_call *c) {
    hri_attention a;
    hri_attention_packed(&a, c->sig->attr, &c->sig->in[1]);
    a.d.data = c->in[0];
    a.q.data = a.k.data = a.v.data = c->in[1];
    a.o.data = c->in[2];
    a.lse = (float *)(uintptr_t)c->in[3];
    a.dq = a.dk = a.dv = c->out[0];
    hri_attention_grad_run(&a, c->threads, c->workspace);
    return HR_OK;
}

static uint64_t attention_packed_grad_cuda_workspace(const hri_sig *s, hri_gpu *gpu,
                                                     uint32_t variant) {
    hri_attention a;
    (void)variant;
    hri_attention_packed(&a, s->attr, &s->in[1]);
    return hri_attention_cuda_workspace(&a, gpu, 1);
}

static hr_status attention_packed_grad_cuda(const hri_gpu_call *c) {
    hri_attention a;
    hri_attention_packed(&a, c->sig->attr, &c->sig->in[1]);
    const hr_addr in[3] = {c->in[1], c->in[1], c->in[1]};
    const hr_addr out[3] = {c->out[0], c->out[0], c->out[0]};
    return hri_attention_grad_cuda(&a, c, in, c->in[2], c->in[3], c->in[0], out, 0);
}

static const hri_case attention_packed_grad_cases[] = {
    {"odd", "f32[2,7,3,5] f32[2,7,3,3,5] f32[2,7,3,5] f32[2,3,7]"},
    {"causal", "f32[2,13,2,6] f32[2,13,3,2,6] f32[2,13,2,6] f32[2,2,13]", "causal"},
    {"many causal tiles", "f32[1,210,2,16] f32[1,210,3,2,16] f32[1,210,2,16] f32[1,2,210]",
     "causal,scale=0.7"},
    {"bf16", "bf16[2,7,3,5] bf16[2,7,3,3,5] bf16[2,7,3,5] f32[2,3,7]", "causal"},
    {"f16", "f16[2,7,3,5] f16[2,7,3,3,5] f16[2,7,3,5] f32[2,3,7]"},
    {"bf16 causal tiles", "bf16[1,130,2,64] bf16[1,130,3,2,64] bf16[1,130,2,64] f32[1,2,130]",
     "causal"},
    {"f16 in whole eights", "f16[2,70,2,40] f16[2,70,3,2,40] f16[2,70,2,40] f32[2,2,70]"},
    {"two side by side", "f32[2,7,3,5] f32[2,7,2,3,5] f32[2,7,3,5] f32[2,3,7]",
     .flags = HRI_CASE_BAD},
    {NULL, NULL},
};

const hr_op hr_op_attention_packed_grad = {
    .name = "attention_packed_grad",
    .formula = "ds = p (do v' - delta); dq = ds k; dk = ds' q; dv = p' do",
    .in_min = 4,
    .in_max = 4,
    .out_count = 1,
    .fields = hri_attention_fields,
    .attr_bytes = sizeof(hri_attention_attr),
    .infer = attention_packed_grad_infer,
    .cost = attention_packed_grad_cost,
    .host = {.run = attention_packed_grad_host, .workspace = attention_packed_grad_workspace},
    .cases = attention_packed_grad_cases,
};

const hri_kernel hri_kernel_cuda_attention_packed_grad = {
    .launch = attention_packed_grad_cuda,
    .launch_workspace = attention_packed_grad_cuda_workspace,
};

/* attention_packed_grad(do, qkv, o, lse; causal, scale, queries) -> dqkv: all three gradients side by side.  Places that did not ask have
 * zeros for q. */
#include "ops/common/attention.h"

#include <string.h>

static hr_status attention_packed_grad_infer(hri_infer *c) {
    hr_meta o, lse;
    const hr_status status = hri_attention_packed_infer(c, &c->in[1], &o, &lse);
    if (status != HR_OK) {
        return status;
    }
    if (c->in[0].type != o.type || c->in[2].type != o.type ||
        !hr_shape_same(&c->in[0].shape, &o.shape) || !hr_shape_same(&c->in[2].shape, &o.shape) ||
        c->in[3].type != HR_TYPE_F32 || !hr_shape_same(&c->in[3].shape, &lse.shape)) {
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
    if (a.queries < a.keys) {
        memset(c->out[0], 0, hr_meta_bytes(&c->sig->out[0]));
    }
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
    const uint64_t zeros = a.queries < a.keys ? hr_meta_bytes(&c->sig->out[0]) : 0;
    const hr_status status = zeros ? hri_gpu_fill(c->gpu, c->out[0], 0, zeros) : HR_OK;
    if (status != HR_OK) {
        return status;
    }
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
    {"the first place", "f32[2,1,3,5] f32[2,7,3,3,5] f32[2,1,3,5] f32[2,3,1]", "queries=1"},
    {"the first places of many tiles",
     "f32[1,70,2,16] f32[1,210,3,2,16] f32[1,70,2,16] f32[1,2,70]", "queries=70"},
    {"the first place, bf16", "bf16[2,1,2,64] bf16[2,197,3,2,64] bf16[2,1,2,64] f32[2,2,1]",
     "queries=1"},
    {"the first places, f16", "f16[2,3,2,40] f16[2,70,3,2,40] f16[2,3,2,40] f32[2,2,3]",
     "queries=3"},
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
    .fields = hri_attention_packed_fields,
    .attr_bytes = sizeof(hri_attention_packed_attr),
    .infer = attention_packed_grad_infer,
    .cost = attention_packed_grad_cost,
    .host = {.run = attention_packed_grad_host, .workspace = attention_packed_grad_workspace},
    .cases = HRI_CASES(attention_packed_grad_cases),
};

const hri_kernel hri_kernel_cuda_attention_packed_grad = {
    .launch = attention_packed_grad_cuda,
    .launch_workspace = attention_packed_grad_cuda_workspace,
};

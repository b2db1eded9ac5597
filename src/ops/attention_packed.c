/* attention_packed(qkv; causal, scale, queries): attention over one value that holds q, k and v side by side.
 *
 *   qkv (B, T, 3, H, D)   o (B, T, H, D)   lse (B, H, T) f32
 *
 * What one projection made is used where it lies: no slices forward, no concatenation backward.  Otherwise as
 * attention; the gradient keeps qkv, o and one number a query and head.  With `queries` o and lse are of the first so many
 * places, which see all keys: for a last layer of which no more is read. */
#include "ops/common/attention.h"

static hr_status attention_packed_infer(hri_infer *c) {
    return hri_attention_packed_infer(c, &c->in[0], &c->out[0], &c->out[1]);
}

static void attention_packed_grad(hri_grad *c) {
    c->din[0] = HRI_NODE(c->g, "attention_packed_grad", c->sig->attr, c->dout[0], c->in[0],
                         c->out[0], c->out[1]);
}

static uint64_t attention_packed_workspace(const hri_sig *s, uint32_t threads) {
    hri_attention a;
    hri_attention_packed(&a, s->attr, &s->in[0]);
    return hri_attention_workspace(&a, threads);
}

static void attention_packed_cost(const hri_sig *s, hri_cost *cost) {
    hri_attention a;
    hri_attention_packed(&a, s->attr, &s->in[0]);
    cost->flops = 2.0 * hri_attention_flops(&a);
}

static hr_status attention_packed_host(const hri_call *c) {
    hri_attention a;
    hri_attention_packed(&a, c->sig->attr, &c->sig->in[0]);
    a.q.data = a.k.data = a.v.data = c->in[0];
    a.o.data = c->out[0];
    a.lse = c->out[1];
    hri_attention_run(&a, c->threads, c->workspace);
    return HR_OK;
}

static uint64_t attention_packed_cuda_workspace(const hri_sig *s, hri_gpu *gpu, uint32_t variant) {
    hri_attention a;
    (void)variant;
    hri_attention_packed(&a, s->attr, &s->in[0]);
    return hri_attention_cuda_workspace(&a, gpu, 0);
}

static hr_status attention_packed_cuda(const hri_gpu_call *c) {
    hri_attention a;
    hri_attention_packed(&a, c->sig->attr, &c->sig->in[0]);
    const hr_addr in[3] = {c->in[0], c->in[0], c->in[0]};
    return hri_attention_cuda(&a, c, in, c->out[0], c->out[1], 0);
}

static const hri_case attention_packed_cases[] = {
    {"odd", "f32[2,7,3,3,5]", .batched = 1},
    {"causal", "f32[2,13,3,2,6]", "causal"},
    {"many causal tiles", "f32[1,210,3,2,16]", "causal,scale=2", .flags = HRI_CASE_NO_GRAD},
    {"one of all", "f32[1,1,3,1,1]"},
    {"no samples", "f32[0,3,3,2,4]"},
    {"bf16", "bf16[2,7,3,3,5]", "causal"},
    {"f16", "f16[2,7,3,3,5]"},
    {"bf16 causal tiles", "bf16[1,130,3,2,64]", "causal", .flags = HRI_CASE_NO_GRAD},
    {"f16 in whole eights", "f16[2,70,3,2,40]"},
    {"the first place", "f32[2,7,3,3,5]", "queries=1", .batched = 1},
    {"the first places of many tiles", "f32[1,210,3,2,16]", "queries=70",
     .flags = HRI_CASE_NO_GRAD},
    {"the first place, bf16", "bf16[2,197,3,2,64]", "queries=1", .flags = HRI_CASE_NO_GRAD},
    {"the first places, f16", "f16[2,70,3,2,40]", "queries=3"},
    {"two side by side", "f32[2,7,2,3,5]", .flags = HRI_CASE_BAD},
    {"more queries than places", "f32[2,7,3,3,5]", "queries=8", .flags = HRI_CASE_BAD},
    {"some queries, causal", "f32[2,7,3,3,5]", "causal,queries=3", .flags = HRI_CASE_BAD},
    {NULL, NULL},
};

const hr_op hr_op_attention_packed = {
    .name = "attention_packed",
    .formula = "o = softmax(scale * q k') v",
    .in_min = 1,
    .in_max = 1,
    .out_count = 2,
    .fields = hri_attention_packed_fields,
    .attr_bytes = sizeof(hri_attention_packed_attr),
    .infer = attention_packed_infer,
    .grad = attention_packed_grad,
    .keeps = {{.in = 1, .out = 3}},
    .aux = 2,
    .cost = attention_packed_cost,
    .host = {.run = attention_packed_host, .workspace = attention_packed_workspace},
    .cases = HRI_CASES(attention_packed_cases),
};

const hri_kernel hri_kernel_cuda_attention_packed = {
    .launch = attention_packed_cuda,
    .launch_workspace = attention_packed_cuda_workspace,
};

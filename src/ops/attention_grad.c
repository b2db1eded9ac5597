/* attention_grad(do, q, k, v, o, lse; causal, scale) -> dq, dk, dv: the gradients of attention, tile by tile. */
#include "ops/common/attention.h"

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
    {"grouped keys", "f32[2,7,6,5] f32[2,7,6,5] f32[2,9,2,5] f32[2,9,2,5] f32[2,7,6,5] f32[2,6,7]"},
    {"grouped keys, bf16 causal tiles",
     "bf16[1,70,4,64] bf16[1,70,4,64] bf16[1,70,2,64] bf16[1,70,2,64] bf16[1,70,4,64] f32[1,4,70]",
     "causal"},
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
    {"grouped keys, more causal tiles",
     "bf16[2,200,4,64] bf16[2,200,4,64] bf16[2,200,2,64] bf16[2,200,2,64] bf16[2,200,4,64] "
     "f32[2,4,200]",
     "causal"},
    {"causal, more keys",
     "f32[1,13,2,4] f32[1,13,2,4] f32[1,26,2,4] f32[1,26,2,4] f32[1,13,2,4] f32[1,2,13]", "causal",
     .flags = HRI_CASE_BAD},
    {"causal, more queries",
     "f32[1,26,2,4] f32[1,26,2,4] f32[1,13,2,4] f32[1,13,2,4] f32[1,26,2,4] f32[1,2,26]", "causal",
     .flags = HRI_CASE_BAD},
    {"many causal tiles, deep",
     "bf16[1,520,1,128] bf16[1,520,1,128] bf16[1,520,1,128] bf16[1,520,1,128] bf16[1,520,1,128] "
     "f32[1,1,520]",
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
    .infer = hri_attention_grad_infer,
    .cost = hri_attention_op_grad_cost,
    .host = {.run = hri_attention_op_grad_host, .workspace = hri_attention_op_grad_workspace},
    .cases = HRI_CASES(attention_grad_cases),
};

const hri_kernel hri_kernel_cuda_attention_grad = {
    .launch = hri_attention_op_grad_launch,
    .launch_workspace = hri_attention_op_grad_launch_workspace,
};

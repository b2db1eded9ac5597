/* attention(q, k, v; causal, scale): scaled dot-product attention of every head.
 *
 *   q (B, T, H, D)   k, v (B, S, H, D)   o (B, T, H, D)   lse (B, H, T) f32
 *   k, v (B, S, G, D), G a divisor of H: head h of q sees head h G / H of theirs (grouped keys, never repeated in memory)
 *   o_i = sum_j softmax_j(scale * q_i . k_j) v_j,   scale 1 / sqrt(D) unless given
 *
 * Causal: place i sees keys 0 .. i; then S = T.  No T x S matrix is ever whole.  The gradient keeps q, k, v, o and one
 * number a query and head, and makes the probabilities again. */
#include "ops/common/attention.h"

static void attention_grad(hri_grad *c) {
    const hr_value dq = HRI_NODE(c->g, "attention_grad", c->sig->attr, c->dout[0], c->in[0],
                                 c->in[1], c->in[2], c->out[0], c->out[1]);
    for (uint32_t i = 0; i < 3; i++) {
        if (HRI_NEEDS(c, i)) {
            c->din[i] = hr_graph_output(c->g, dq, i);
        }
    }
}

static const hri_case attention_cases[] = {
    {"odd", "f32[2,7,3,5] f32[2,9,3,5] f32[2,9,3,5]", .batched = 7},
    {"causal", "f32[2,13,2,6] f32[2,13,2,6] f32[2,13,2,6]", "causal"},
    {"many tiles", "f32[1,150,2,17] f32[1,211,2,17] f32[1,211,2,17]", "scale=0.7",
     .flags = HRI_CASE_NO_GRAD},
    {"many causal tiles", "f32[1,210,1,24] f32[1,210,1,24] f32[1,210,1,24]", "causal,scale=2",
     .flags = HRI_CASE_NO_GRAD},
    {"large scores", "f32[1,5,1,4] f32[1,5,1,4] f32[1,5,1,4]", "scale=40", .tolerance = 1e-4,
     .grad_tolerance = 1e-2},
    {"grouped keys", "f32[2,7,6,5] f32[2,9,2,5] f32[2,9,2,5]", .batched = 7},
    {"grouped keys, bf16 causal tiles", "bf16[1,70,4,64] bf16[1,70,2,64] bf16[1,70,2,64]", "causal",
     .flags = HRI_CASE_NO_GRAD},
    {"one of all", "f32[1,1,1,1] f32[1,1,1,1] f32[1,1,1,1]"},
    {"no places", "f32[1,0,2,4] f32[1,0,2,4] f32[1,0,2,4]"},
    {"no samples", "f32[0,3,2,4] f32[0,3,2,4] f32[0,3,2,4]"},
    {"bf16", "bf16[2,7,3,5] bf16[2,7,3,5] bf16[2,7,3,5]", "causal"},
    {"f16", "f16[2,7,3,5] f16[2,9,3,5] f16[2,9,3,5]"},
    {"bf16 in whole eights", "bf16[2,70,2,24] bf16[2,133,2,24] bf16[2,133,2,24]"},
    {"bf16 causal tiles", "bf16[1,150,2,64] bf16[1,150,2,64] bf16[1,150,2,64]", "causal",
     .flags = HRI_CASE_NO_GRAD},
    {"f16 causal tiles", "f16[1,70,1,32] f16[1,70,1,32] f16[1,70,1,32]", "causal,scale=0.5",
     .flags = HRI_CASE_NO_GRAD},
    {"f16 deep", "f16[1,66,1,128] f16[1,40,1,128] f16[1,40,1,128]", .flags = HRI_CASE_NO_GRAD},
    {"deeper than tensor cores take", "f32[1,9,1,200] f32[1,9,1,200] f32[1,9,1,200]", "causal",
     .flags = HRI_CASE_NO_GRAD},
    {"no keys", "f32[1,3,2,4] f32[1,0,2,4] f32[1,0,2,4]", .flags = HRI_CASE_BAD},
    {"heads that no group divides", "f32[2,7,3,5] f32[2,7,2,5] f32[2,7,2,5]",
     .flags = HRI_CASE_BAD},
    {"another depth", "f32[2,7,3,5] f32[2,7,3,4] f32[2,7,3,4]", .flags = HRI_CASE_BAD},
    {"causal with more keys", "f32[2,7,3,5] f32[2,9,3,5] f32[2,9,3,5]", "causal",
     .flags = HRI_CASE_BAD},
    {NULL, NULL},
};

const hr_op hr_op_attention = {
    .name = "attention",
    .formula = "o = softmax(scale * q k') v",
    .in_min = 3,
    .in_max = 3,
    .out_count = 2,
    .fields = hri_attention_fields,
    .attr_bytes = sizeof(hri_attention_attr),
    .infer = hri_attention_infer,
    .grad = attention_grad,
    .keeps = {{.in = 7, .out = 3}, {.in = 7, .out = 3}, {.in = 7, .out = 3}},
    .aux = 2,
    .cost = hri_attention_op_cost,
    .host = {.run = hri_attention_op_host, .workspace = hri_attention_op_workspace},
    .cases = HRI_CASES(attention_cases),
};

const hri_kernel hri_kernel_cuda_attention = {
    .launch = hri_attention_op_launch,
    .launch_workspace = hri_attention_op_launch_workspace,
};

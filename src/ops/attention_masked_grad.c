/* attention_masked_grad(do, q, k, v, o, lse [, mask]; causal, scale, dropout, node) -> dq, dk, dv: the gradients of
 * attention_masked, tile by tile; node is the forward node, whose draws these are. */
#include "ops/common/attention.h"

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
    {"bf16 tiles",
     "bf16[1,70,2,8] bf16[1,70,2,8] bf16[1,102,1,8] bf16[1,102,1,8] bf16[1,70,2,8] f32[1,2,70] "
     "f32[1,2,70,102]"},
    {"hidden tiles",
     "f32[1,70,2,8] f32[1,70,2,8] f32[1,102,1,8] f32[1,102,1,8] f32[1,70,2,8] f32[1,2,70] "
     "f32[1,2,70,102]",
     .flags = HRI_CASE_HIDES},
    {"hidden from libraries",
     "bf16[1,72,2,16] bf16[1,72,2,16] bf16[1,104,2,16] bf16[1,104,2,16] bf16[1,72,2,16] "
     "f32[1,2,72] f32[1,2,72,104]",
     .flags = HRI_CASE_HIDES},
    {"first keys hidden, for libraries",
     "bf16[2,72,2,16] bf16[2,72,2,16] bf16[2,264,2,16] bf16[2,264,2,16] bf16[2,72,2,16] "
     "f32[2,2,72] bf16[2,1,1,264]",
     .flags = HRI_CASE_HIDES},
    {"hidden and causal, for libraries",
     "f16[1,136,2,64] f16[1,136,2,64] f16[1,136,2,64] f16[1,136,2,64] f16[1,136,2,64] f32[1,2,136] "
     "f32[1,1,136,136]",
     "causal", .flags = HRI_CASE_HIDES},
    {"rows for warpgroups",
     "bf16[1,200,2,128] bf16[1,200,2,128] bf16[1,136,1,128] bf16[1,136,1,128] bf16[1,200,2,128] "
     "f32[1,2,200] bf16[1,2,200,136]",
     .flags = HRI_CASE_HIDES},
    {"rows for warpgroups, f16",
     "f16[2,72,2,64] f16[2,72,2,64] f16[2,200,2,64] f16[2,200,2,64] f16[2,72,2,64] f32[2,2,72] "
     "f16[2,1,72,200]"},
    {"bytes",
     "f32[2,7,3,5] f32[2,7,3,5] f32[2,9,3,5] f32[2,9,3,5] f32[2,7,3,5] f32[2,3,7] u8[2,1,7,9]",
     .ids = 2},
    {"bytes of keys",
     "bf16[2,72,2,64] bf16[2,72,2,64] bf16[2,264,2,64] bf16[2,264,2,64] bf16[2,72,2,64] "
     "f32[2,2,72] u8[2,1,1,264]",
     .ids = 2},
    {"bytes of heads, dropout",
     "f32[2,70,2,8] f32[2,70,2,8] f32[2,104,1,8] f32[2,104,1,8] f32[2,70,2,8] f32[2,2,70] "
     "u8[1,2,70,104]",
     "dropout=0.2,node=3", .ids = 2},
    {"bytes for warpgroups",
     "f16[2,72,2,64] f16[2,72,2,64] f16[2,200,2,64] f16[2,200,2,64] f16[2,72,2,64] f32[2,2,72] "
     "u8[2,1,72,200]",
     .ids = 2},
    {"bytes of heads, grouped",
     "bf16[1,200,4,40] bf16[1,200,4,40] bf16[1,137,2,40] bf16[1,137,2,40] bf16[1,200,4,40] "
     "f32[1,4,200] u8[1,4,200,137]",
     .ids = 3},
    {"bytes of keys, grouped, causal",
     "f16[2,136,2,64] f16[2,136,2,64] f16[2,136,1,64] f16[2,136,1,64] f16[2,136,2,64] f32[2,2,136] "
     "u8[2,1,1,136]",
     "causal", .ids = 3},
    {"bytes, deep, grouped",
     "bf16[1,136,2,128] bf16[1,136,2,128] bf16[1,264,1,128] bf16[1,264,1,128] bf16[1,136,2,128] "
     "f32[1,2,136] u8[1,2,136,264]",
     .ids = 3},
    {"bytes, deep, causal",
     "f16[2,200,1,96] f16[2,200,1,96] f16[2,200,1,96] f16[2,200,1,96] f16[2,200,1,96] f32[2,1,200] "
     "u8[1,1,200,200]",
     "causal", .ids = 3},
    {"one query and one key of numbers",
     "bf16[1,1,1,8] bf16[1,1,1,8] bf16[1,1,1,8] bf16[1,1,1,8] bf16[1,1,1,8] f32[1,1,1] "
     "bf16[1,1,1,1]",
     .flags = HRI_CASE_AS_IS},
    {"one query, bytes of keys",
     "f16[2,1,2,24] f16[2,1,2,24] f16[2,77,2,24] f16[2,77,2,24] f16[2,1,2,24] f32[2,2,1] "
     "u8[2,1,1,77]",
     .flags = HRI_CASE_AS_IS, .ids = 2},
    {"one key of bytes, deep",
     "f16[1,129,1,72] f16[1,129,1,72] f16[1,1,1,72] f16[1,1,1,72] f16[1,129,1,72] f32[1,1,129] "
     "u8[1,1,129,1]",
     .flags = HRI_CASE_AS_IS, .ids = 2},
    {"many tiles of odd rows",
     "f16[1,129,1,56] f16[1,129,1,56] f16[1,323,1,56] f16[1,323,1,56] f16[1,129,1,56] f32[1,1,129] "
     "f16[1,1,129,323]",
     .flags = HRI_CASE_HIDES | HRI_CASE_AS_IS},
    {"odd rows of f32, deep, grouped, causal",
     "bf16[1,195,2,88] bf16[1,195,2,88] bf16[1,195,1,88] bf16[1,195,1,88] bf16[1,195,2,88] "
     "f32[1,2,195] f32[1,2,195,195]",
     "causal", .flags = HRI_CASE_HIDES | HRI_CASE_AS_IS},
    {"numbers of keys, causal",
     "bf16[2,130,1,40] bf16[2,130,1,40] bf16[2,130,1,40] bf16[2,130,1,40] bf16[2,130,1,40] "
     "f32[2,1,130] bf16[2,1,1,130]",
     "causal", .flags = HRI_CASE_HIDES | HRI_CASE_AS_IS},
    {"dropout for warpgroups",
     "bf16[2,130,2,64] bf16[2,130,2,64] bf16[2,200,1,64] bf16[2,200,1,64] bf16[2,130,2,64] "
     "f32[2,2,130]",
     "dropout=0.25,node=5", .flags = HRI_CASE_AS_IS},
    {"dropout, deep, causal",
     "f16[2,200,1,96] f16[2,200,1,96] f16[2,200,1,96] f16[2,200,1,96] f16[2,200,1,96] f32[2,1,200]",
     "dropout=0.1,causal", .flags = HRI_CASE_AS_IS},
    {"dropout and bytes of each sample",
     "bf16[2,72,2,64] bf16[2,72,2,64] bf16[2,264,2,64] bf16[2,264,2,64] bf16[2,72,2,64] "
     "f32[2,2,72] u8[2,1,72,264]",
     "dropout=0.2,node=3", .flags = HRI_CASE_AS_IS, .ids = 3},
    {"dropout and bytes of odd keys",
     "bf16[1,72,2,64] bf16[1,72,2,64] bf16[1,197,2,64] bf16[1,197,2,64] bf16[1,72,2,64] "
     "f32[1,2,72] u8[1,1,72,197]",
     "dropout=0.2,node=3", .flags = HRI_CASE_AS_IS, .ids = 3},
    {"dropout and bytes of keys, deep",
     "bf16[2,136,2,128] bf16[2,136,2,128] bf16[2,136,1,128] bf16[2,136,1,128] bf16[2,136,2,128] "
     "f32[2,2,136] u8[2,1,1,136]",
     "dropout=0.4,causal", .flags = HRI_CASE_AS_IS, .ids = 3},
    {"dropout and numbers, grouped, causal",
     "f16[1,136,4,48] f16[1,136,4,48] f16[1,136,2,48] f16[1,136,2,48] f16[1,136,4,48] "
     "f32[1,4,136] f16[1,4,136,136]",
     "dropout=0.4,causal", .flags = HRI_CASE_HIDES | HRI_CASE_AS_IS},
    {"dropout and numbers of f32, deep",
     "bf16[1,72,2,128] bf16[1,72,2,128] bf16[1,196,2,128] bf16[1,196,2,128] bf16[1,72,2,128] "
     "f32[1,2,72] f32[1,1,72,196]",
     "dropout=0.3", .flags = HRI_CASE_HIDES | HRI_CASE_AS_IS},
    {"zeros and hidden",
     "bf16[2,200,2,64] bf16[2,200,2,64] bf16[2,264,1,64] bf16[2,264,1,64] bf16[2,200,2,64] "
     "f32[2,2,200] bf16[2,1,200,264]",
     .flags = HRI_CASE_HIDES | HRI_CASE_ZEROS | HRI_CASE_AS_IS},
    {"zeros and hidden, odd rows, deep, causal",
     "f16[1,195,2,96] f16[1,195,2,96] f16[1,195,2,96] f16[1,195,2,96] f16[1,195,2,96] "
     "f32[1,2,195] f32[1,2,195,195]",
     "causal", .flags = HRI_CASE_HIDES | HRI_CASE_ZEROS | HRI_CASE_AS_IS},
    {"far",
     "f32[2,9,3,5] f32[2,9,3,5] f32[2,11,3,5] f32[2,11,3,5] f32[2,9,3,5] f32[2,3,9] f32[2,1,9,11]",
     .tolerance = 1e-3, .flags = HRI_CASE_FAR},
    {"far keys",
     "f32[5,7,4,5] f32[5,7,4,5] f32[5,9,2,5] f32[5,9,2,5] f32[5,7,4,5] f32[5,4,7] f32[5,1,1,9]",
     "scale=0.4", .tolerance = 1e-3, .flags = HRI_CASE_FAR},
    {"far, dropout, causal",
     "f32[1,70,2,8] f32[1,70,2,8] f32[1,70,2,8] f32[1,70,2,8] f32[1,70,2,8] f32[1,2,70] "
     "f32[1,2,70,70]",
     "dropout=0.2,causal,node=3", .tolerance = 1e-3, .flags = HRI_CASE_FAR},
    {"far, many tiles",
     "f32[1,150,2,17] f32[1,150,2,17] f32[1,211,2,17] f32[1,211,2,17] f32[1,150,2,17] f32[1,2,150] "
     "f32[1,2,150,211]",
     "scale=0.7", .tolerance = 1e-3, .flags = HRI_CASE_FAR},
    {"far, for libraries",
     "bf16[2,72,2,16] bf16[2,72,2,16] bf16[2,104,2,16] bf16[2,104,2,16] bf16[2,72,2,16] "
     "f32[2,2,72] bf16[2,1,72,104]",
     .tolerance = 1e-3, .flags = HRI_CASE_FAR},
    {"far, grouped, f32",
     "f16[1,136,4,40] f16[1,136,4,40] f16[1,264,2,40] f16[1,264,2,40] f16[1,136,4,40] f32[1,4,136] "
     "f32[1,4,136,264]",
     .tolerance = 1e-3, .flags = HRI_CASE_FAR | HRI_CASE_AS_IS},
    {"far, for warpgroups, f16",
     "f16[2,72,2,64] f16[2,72,2,64] f16[2,200,2,64] f16[2,200,2,64] f16[2,72,2,64] f32[2,2,72] "
     "f16[2,1,72,200]",
     .tolerance = 3e-2, .flags = HRI_CASE_FAR | HRI_CASE_AS_IS},
    {"far keys for warpgroups",
     "bf16[6,72,2,64] bf16[6,72,2,64] bf16[6,200,2,64] bf16[6,200,2,64] bf16[6,72,2,64] "
     "f32[6,2,72] bf16[6,1,1,200]",
     .tolerance = 1e-3, .flags = HRI_CASE_FAR | HRI_CASE_AS_IS},
    {"far, odd rows",
     "f16[1,129,1,56] f16[1,129,1,56] f16[1,323,1,56] f16[1,323,1,56] f16[1,129,1,56] f32[1,1,129] "
     "f16[1,1,129,323]",
     .tolerance = 3e-2, .flags = HRI_CASE_FAR | HRI_CASE_AS_IS},
    {"far, dropout for warpgroups",
     "f16[1,136,4,48] f16[1,136,4,48] f16[1,136,2,48] f16[1,136,2,48] f16[1,136,4,48] f32[1,4,136] "
     "f16[1,4,136,136]",
     "dropout=0.4,causal", .tolerance = 3e-2, .flags = HRI_CASE_FAR | HRI_CASE_AS_IS},
    {"far, dropout of odd keys",
     "bf16[1,72,2,64] bf16[1,72,2,64] bf16[1,70,2,64] bf16[1,70,2,64] bf16[1,72,2,64] f32[1,2,72] "
     "f32[1,2,72,70]",
     "dropout=0.4,node=1", .tolerance = 1e-3, .flags = HRI_CASE_FAR | HRI_CASE_AS_IS},
    {"far keys, dropout of odd keys",
     "bf16[4,72,2,64] bf16[4,72,2,64] bf16[4,70,2,64] bf16[4,70,2,64] bf16[4,72,2,64] f32[4,2,72] "
     "f32[4,1,1,70]",
     "dropout=0.4,node=1", .tolerance = 1e-3, .flags = HRI_CASE_FAR | HRI_CASE_AS_IS},
    {"far, deep",
     "bf16[1,200,2,128] bf16[1,200,2,128] bf16[1,264,1,128] bf16[1,264,1,128] bf16[1,200,2,128] "
     "f32[1,2,200] bf16[1,2,200,264]",
     "scale=0.25", .tolerance = 1e-3, .flags = HRI_CASE_FAR | HRI_CASE_AS_IS},
    {"far, deep, odd rows",
     "f16[1,195,2,88] f16[1,195,2,88] f16[1,195,1,88] f16[1,195,1,88] f16[1,195,2,88] f32[1,2,195] "
     "f32[1,2,195,195]",
     "causal", .tolerance = 1e-3, .flags = HRI_CASE_FAR | HRI_CASE_AS_IS},
    {"far keys, deep",
     "bf16[6,72,1,128] bf16[6,72,1,128] bf16[6,264,1,128] bf16[6,264,1,128] bf16[6,72,1,128] "
     "f32[6,1,72] f32[6,1,1,264]",
     "dropout=0.1", .tolerance = 1e-3, .flags = HRI_CASE_FAR | HRI_CASE_AS_IS},
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
    .infer = hri_attention_grad_infer,
    .random = 1,
    .cost = hri_attention_op_grad_cost,
    .host = {.run = hri_attention_op_grad_host, .workspace = hri_attention_op_grad_workspace},
    .cases = HRI_CASES(attention_masked_grad_cases),
};

const hri_kernel hri_kernel_cuda_attention_masked_grad = {
    .launch = hri_attention_op_grad_launch,
    .launch_workspace = hri_attention_op_grad_launch_workspace,
};

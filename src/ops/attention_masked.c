/* attention_masked(q, k, v [, mask]; causal, scale, dropout, node): attention with numbers added to the scores, and dropout.
 *
 *   q (B, T, H, D)   k, v (B, S, H or fewer, D)   mask (B or 1, H or 1, T or 1, S)   o (B, T, H, D)   lse (B, H, T) f32
 *   o_i = sum_j drop(softmax_j(scale * q_i . k_j + mask_ij)) v_j
 *
 * The mask is of q's type or f32; -inf hides a key.  Or it is bytes, which add nothing: 0 hides a key.  A query that sees nothing gives 0 (its lse is infinite), and one that sees only
 * numbers under -2^28 weighs the largest of them (its lse is a code: src/ops/cuda/attention_stats.cuh).  No T x S
 * matrix is ever whole, but for the gradient of a learnt mask (a bias), which is one itself.  Draws are those of (seed, step,
 * node, sample, place in (H, T, S), S up to a multiple of four): the gradient draws them again.  On a GPU a pass over the mask finds the tiles that hide
 * everything, which are skipped, and those that add nothing, for which the mask is not read again. */
#include <headroom/ops.h>

#include "graph/dims.h"
#include "graph/graph.h"
#include "ops/common/attention.h"

/* ---- the gradient of a learnt mask, from whole matrices: dmask = p (do v' - delta), summed to its shape ---- */

static hr_value by_heads(hr_graph *g, hr_value x) { /* (B, T, H, D) to (B, H, T, D), f32 */
    const hri_attr_dims order = {{4, {0, 2, 1, 3}}};
    x = HRI_NODE(g, "transpose", &order, x);
    return hr_graph_meta(g, x).type == HR_TYPE_F32 ? x : hr_cast(g, x, HR_TYPE_F32);
}

/* Grouped keys, one for each head of q. */
static hr_value for_each_head(hr_graph *g, hr_value x, const hri_attention *a) {
    const hr_shape s = hr_graph_meta(g, x).shape;
    if (a->group == 1) {
        return x;
    }
    const hri_attr_dims all = {{5, {s.dim[0], s.dim[1], s.dim[2], a->group, s.dim[3]}}};
    x = hr_reshape(g, x, hr_shape_from(5, (int64_t[]){s.dim[0], s.dim[1], s.dim[2], 1, s.dim[3]}));
    x = HRI_NODE(g, "broadcast_to", &all, x);
    return hr_reshape(g, x, hr_shape_4(s.dim[0], s.dim[1], a->heads, s.dim[3]));
}

static hr_value column(hr_graph *g, hr_value x, const hri_sig *s) { /* (B, H, T) to (B, H, T, 1) */
    const int64_t *dim = s->in[0].shape.dim;
    return hr_reshape(g, x, hr_shape_4(dim[0], dim[2], dim[1], 1));
}

static hr_value mask_grad(hri_grad *c) {
    const hri_attention_masked_attr *p = c->sig->attr;
    hr_graph *g = c->g;
    if (p->causal || p->dropout > 0) {
        hri_graph_fail(g, HR_E_UNSUPPORTED,
                       "attention_masked: a learnt mask has no gradient together with causal or "
                       "dropout; hide keys in the mask itself");
        return HR_NONE;
    }
    hri_attention a;
    hri_attention_masked(&a, p, &c->sig->in[0], &c->sig->in[1], &c->sig->in[3]);
    const hr_value q = by_heads(g, c->in[0]), k = by_heads(g, for_each_head(g, c->in[1], &a)),
                   v = by_heads(g, for_each_head(g, c->in[2], &a));
    const hr_value o = by_heads(g, c->out[0]), d = by_heads(g, c->dout[0]);
    const hr_value mask =
        c->sig->in[3].type == HR_TYPE_F32 ? c->in[3] : hr_cast(g, c->in[3], HR_TYPE_F32);
    const hr_value scores =
        hr_add(g, hr_affine(g, hr_matmul(g, q, k, 0, 1), (double)a.scale, 0.0), mask);
    const hr_value probs = hr_exp(g, hr_sub(g, scores, column(g, c->out[1], c->sig)));
    const hr_value delta = hr_sum(g, hr_mul(g, o, d), "3", 1);
    const hr_value ds = hr_mul(g, probs, hr_sub(g, hr_matmul(g, d, v, 0, 1), delta));
    const hr_value sum = hri_sum_to(g, ds, mask);
    return c->sig->in[3].type == HR_TYPE_F32 ? sum : hr_cast(g, sum, c->sig->in[3].type);
}

static void attention_masked_grad(hri_grad *c) {
    hri_attention_masked_attr attr = *(const hri_attention_masked_attr *)c->sig->attr;
    const int masked = c->sig->in_count > 3;
    if (attr.node < 0 && attr.dropout > 0) {
        attr.node = hri_graph_counter(c->g, c->out[0]);
    }
    if (c->need & 7u) {
        const hr_value in[] = {c->dout[0],
                               c->in[0],
                               c->in[1],
                               c->in[2],
                               c->out[0],
                               c->out[1],
                               masked ? c->in[3] : HR_NONE};
        const hr_value dq = hri_node(c->g, "attention_masked_grad", in, masked ? 7 : 6, &attr);
        for (uint32_t i = 0; i < 3; i++) {
            if (HRI_NEEDS(c, i)) {
                c->din[i] = hr_graph_output(c->g, dq, i);
            }
        }
    }
    if (masked && HRI_NEEDS(c, 3) && hr_type_is_real(c->sig->in[3].type)) {
        c->din[3] = mask_grad(c);
    }
}

static const hri_case attention_masked_cases[] = {
    {"no mask", "f32[2,7,3,5] f32[2,9,3,5] f32[2,9,3,5]", .batched = 7},
    {"mask of all", "f32[2,7,3,5] f32[2,9,3,5] f32[2,9,3,5] f32[2,3,7,9]", .batched = 15},
    {"mask of keys", "f32[2,7,3,5] f32[2,9,3,5] f32[2,9,3,5] f32[2,1,1,9]"},
    {"mask of heads", "f32[2,7,3,5] f32[2,9,3,5] f32[2,9,3,5] f32[1,3,7,9]", "scale=1"},
    {"causal", "f32[2,13,2,6] f32[2,13,2,6] f32[2,13,2,6] f32[1,1,1,13]", "causal",
     .flags = HRI_CASE_NO_GRAD},
    {"causal without mask", "f32[2,13,2,6] f32[2,13,2,6] f32[2,13,2,6]", "causal"},
    {"dropout and bytes of odd keys",
     "bf16[1,72,2,64] bf16[1,197,2,64] bf16[1,197,2,64] u8[1,1,72,197]", "dropout=0.2,node=3",
     .flags = HRI_CASE_NO_GRAD | HRI_CASE_AS_IS, .ids = 3},
    {"dropout", "f32[2,7,3,5] f32[2,9,3,5] f32[2,9,3,5]", "dropout=0.3", .batched = 7},
    {"dropout and mask", "f32[2,7,3,5] f32[2,9,3,5] f32[2,9,3,5] f32[2,1,1,9]",
     "dropout=0.3,node=4", .flags = HRI_CASE_NO_GRAD},
    {"dropout, causal", "f32[1,70,2,8] f32[1,70,2,8] f32[1,70,2,8]", "dropout=0.1,causal",
     .flags = HRI_CASE_NO_GRAD},
    {"many tiles", "f32[1,150,2,17] f32[1,211,2,17] f32[1,211,2,17] f32[1,2,150,211]", "scale=0.7",
     .flags = HRI_CASE_NO_GRAD},
    {"bf16 tiles", "bf16[1,70,2,8] bf16[1,102,1,8] bf16[1,102,1,8] f32[1,2,70,102]",
     .flags = HRI_CASE_NO_GRAD},
    {"hidden tiles", "f32[1,70,2,8] f32[1,102,1,8] f32[1,102,1,8] f32[1,2,70,102]",
     .flags = HRI_CASE_NO_GRAD | HRI_CASE_HIDES},
    {"hidden from libraries", "bf16[1,72,2,16] bf16[1,104,2,16] bf16[1,104,2,16] f32[1,2,72,104]",
     .flags = HRI_CASE_NO_GRAD | HRI_CASE_HIDES},
    {"hidden keys for libraries",
     "bf16[2,72,2,16] bf16[2,104,2,16] bf16[2,104,2,16] bf16[2,1,1,104]",
     .flags = HRI_CASE_NO_GRAD | HRI_CASE_HIDES},
    {"first keys hidden, for libraries",
     "bf16[2,72,2,16] bf16[2,264,2,16] bf16[2,264,2,16] bf16[2,1,1,264]",
     .flags = HRI_CASE_NO_GRAD | HRI_CASE_HIDES},
    {"hidden and causal, for libraries",
     "f16[1,136,2,64] f16[1,136,2,64] f16[1,136,2,64] f32[1,1,136,136]", "causal",
     .flags = HRI_CASE_NO_GRAD | HRI_CASE_HIDES},
    {"rows for warpgroups",
     "bf16[1,200,2,128] bf16[1,264,1,128] bf16[1,264,1,128] bf16[1,2,200,264]", "scale=0.25",
     .flags = HRI_CASE_NO_GRAD | HRI_CASE_HIDES},
    {"rows for warpgroups, f16", "f16[2,72,2,64] f16[2,200,2,64] f16[2,200,2,64] f16[2,1,72,200]",
     .flags = HRI_CASE_NO_GRAD},
    {"numbers of f32 for warpgroups",
     "bf16[2,72,2,64] bf16[2,200,1,64] bf16[2,200,1,64] f32[2,2,72,200]",
     .flags = HRI_CASE_NO_GRAD | HRI_CASE_HIDES},
    {"numbers of keys for warpgroups",
     "bf16[2,136,2,64] bf16[2,136,2,64] bf16[2,136,2,64] bf16[2,1,1,136]", "causal",
     .flags = HRI_CASE_NO_GRAD | HRI_CASE_HIDES},
    {"dropout for warpgroups", "bf16[2,72,2,64] bf16[2,136,2,64] bf16[2,136,2,64]", "dropout=0.25",
     .flags = HRI_CASE_NO_GRAD},
    {"dropout and numbers for warpgroups",
     "f16[1,136,4,48] f16[1,136,2,48] f16[1,136,2,48] f16[1,4,136,136]", "dropout=0.4,causal",
     .flags = HRI_CASE_NO_GRAD | HRI_CASE_HIDES},
    {"dropout and bytes for warpgroups",
     "bf16[2,72,2,64] bf16[2,200,2,64] bf16[2,200,2,64] u8[2,1,1,200]", "dropout=0.1,node=3",
     .flags = HRI_CASE_NO_GRAD, .ids = 2},
    {"one query and one key of numbers", "bf16[1,1,1,8] bf16[1,1,1,8] bf16[1,1,1,8] bf16[1,1,1,1]",
     .flags = HRI_CASE_NO_GRAD | HRI_CASE_AS_IS},
    {"one query, bytes of keys", "f16[2,1,2,24] f16[2,77,2,24] f16[2,77,2,24] u8[2,1,1,77]",
     .flags = HRI_CASE_NO_GRAD | HRI_CASE_AS_IS, .ids = 2},
    {"one key of bytes, deep", "f16[1,129,1,72] f16[1,1,1,72] f16[1,1,1,72] u8[1,1,129,1]",
     .flags = HRI_CASE_NO_GRAD | HRI_CASE_AS_IS, .ids = 2},
    {"many tiles of odd rows", "f16[1,129,1,56] f16[1,451,1,56] f16[1,451,1,56] f16[1,1,129,451]",
     .flags = HRI_CASE_NO_GRAD | HRI_CASE_HIDES | HRI_CASE_AS_IS},
    {"many tiles of f32", "bf16[1,65,1,8] bf16[1,580,1,8] bf16[1,580,1,8] f32[1,1,65,580]",
     .flags = HRI_CASE_NO_GRAD | HRI_CASE_HIDES | HRI_CASE_AS_IS},
    {"many tiles of keys", "bf16[2,130,1,64] bf16[2,650,1,64] bf16[2,650,1,64] bf16[2,1,1,650]",
     .flags = HRI_CASE_NO_GRAD | HRI_CASE_AS_IS},
    {"many tiles of bytes", "bf16[1,130,1,64] bf16[1,709,1,64] bf16[1,709,1,64] u8[1,1,130,709]",
     .flags = HRI_CASE_NO_GRAD | HRI_CASE_AS_IS, .ids = 3},
    {"zeros and hidden", "bf16[2,200,2,64] bf16[2,264,1,64] bf16[2,264,1,64] bf16[2,1,200,264]",
     .flags = HRI_CASE_NO_GRAD | HRI_CASE_HIDES | HRI_CASE_ZEROS | HRI_CASE_AS_IS},
    {"zeros and hidden, f32, causal, dropout",
     "f16[1,136,2,40] f16[1,136,2,40] f16[1,136,2,40] f32[1,2,136,136]", "causal,dropout=0.2",
     .flags = HRI_CASE_NO_GRAD | HRI_CASE_HIDES | HRI_CASE_ZEROS | HRI_CASE_AS_IS},
    {"zeros and hidden, odd rows, deep",
     "bf16[1,130,1,128] bf16[1,197,1,128] bf16[1,197,1,128] f32[1,1,130,197]", "scale=0.25",
     .flags = HRI_CASE_NO_GRAD | HRI_CASE_HIDES | HRI_CASE_ZEROS | HRI_CASE_AS_IS},
    {"odd rows of each head", "bf16[2,197,2,64] bf16[2,197,2,64] bf16[2,197,2,64] f32[1,2,197,197]",
     .flags = HRI_CASE_NO_GRAD | HRI_CASE_HIDES | HRI_CASE_AS_IS},
    {"odd rows of each sample, deep, causal",
     "f16[2,195,2,96] f16[2,195,1,96] f16[2,195,1,96] f16[2,1,195,195]", "causal",
     .flags = HRI_CASE_NO_GRAD | HRI_CASE_HIDES | HRI_CASE_AS_IS},
    {"numbers of keys, f16", "f16[2,130,1,64] f16[2,650,1,64] f16[2,650,1,64] f16[2,1,1,650]",
     "scale=0.03", .flags = HRI_CASE_NO_GRAD | HRI_CASE_HIDES | HRI_CASE_AS_IS},
    {"bytes of keys, f16, dropout", "f16[2,72,1,64] f16[2,200,1,64] f16[2,200,1,64] u8[2,1,1,200]",
     "dropout=0.3", .flags = HRI_CASE_NO_GRAD | HRI_CASE_AS_IS, .ids = 2},
    {"numbers of keys, deep",
     "bf16[2,136,2,128] bf16[2,715,1,128] bf16[2,715,1,128] f32[2,1,1,715]",
     .flags = HRI_CASE_NO_GRAD | HRI_CASE_HIDES | HRI_CASE_AS_IS},
    {"numbers of keys, deep, f16", "f16[2,129,1,80] f16[2,77,1,80] f16[2,77,1,80] f16[1,1,1,77]",
     .flags = HRI_CASE_NO_GRAD | HRI_CASE_AS_IS},
    {"many tiles, deep", "bf16[1,65,2,128] bf16[1,840,1,128] bf16[1,840,1,128] bf16[1,2,65,840]",
     "scale=0.25", .flags = HRI_CASE_NO_GRAD | HRI_CASE_HIDES | HRI_CASE_AS_IS},
    {"finite numbers of each head, deep",
     "bf16[2,130,2,128] bf16[2,200,1,128] bf16[2,200,1,128] bf16[1,2,130,200]",
     .flags = HRI_CASE_NO_GRAD | HRI_CASE_AS_IS},
    {"finite numbers of f16, deep",
     "f16[2,72,2,96] f16[2,328,2,96] f16[2,328,2,96] f16[2,1,72,328]",
     .flags = HRI_CASE_NO_GRAD | HRI_CASE_AS_IS},
    {"small numbers of f32 that many heads share, deep",
     "bf16[3,66,3,128] bf16[3,200,3,128] bf16[3,200,3,128] f32[1,1,66,200]",
     .flags = HRI_CASE_NO_GRAD | HRI_CASE_AS_IS},
    {"numbers of f32 that many heads share, deep",
     "f16[1,66,9,72] f16[1,200,9,72] f16[1,200,9,72] f32[1,1,66,200]",
     .flags = HRI_CASE_NO_GRAD | HRI_CASE_HIDES | HRI_CASE_AS_IS},
    {"numbers in pieces, of each head",
     "bf16[2,200,2,128] bf16[2,320,1,128] bf16[2,320,1,128] bf16[1,2,200,320]", "scale=0.125",
     .flags = HRI_CASE_NO_GRAD | HRI_CASE_HIDES | HRI_CASE_AS_IS},
    {"numbers in pieces, f32", "f16[1,66,2,128] f16[1,192,2,128] f16[1,192,2,128] f32[1,2,66,192]",
     "scale=0.125", .flags = HRI_CASE_NO_GRAD | HRI_CASE_HIDES | HRI_CASE_AS_IS},
    {"numbers in pieces, causal",
     "f16[1,256,2,128] f16[1,256,2,128] f16[1,256,2,128] f16[1,1,256,256]", "causal,scale=0.125",
     .flags = HRI_CASE_NO_GRAD | HRI_CASE_HIDES | HRI_CASE_AS_IS},
    {"numbers in pieces, one mask",
     "bf16[3,130,3,128] bf16[3,192,3,128] bf16[3,192,3,128] bf16[1,1,130,192]", "scale=0.125",
     .flags = HRI_CASE_NO_GRAD | HRI_CASE_HIDES | HRI_CASE_ZEROS | HRI_CASE_AS_IS},
    {"numbers in pieces, one mask of f32",
     "bf16[3,130,3,128] bf16[3,320,3,128] bf16[3,320,3,128] f32[1,1,130,320]", "scale=0.125",
     .flags = HRI_CASE_NO_GRAD | HRI_CASE_HIDES | HRI_CASE_AS_IS},
    {"numbers in pieces, zeros of f32",
     "bf16[1,130,2,128] bf16[1,256,2,128] bf16[1,256,2,128] f32[1,1,130,256]", "scale=0.125",
     .flags = HRI_CASE_NO_GRAD | HRI_CASE_HIDES | HRI_CASE_ZEROS | HRI_CASE_AS_IS},
    {"numbers in pieces, finite f32",
     "bf16[2,72,1,128] bf16[2,128,1,128] bf16[2,128,1,128] f32[2,1,72,128]", "scale=0.125",
     .flags = HRI_CASE_NO_GRAD | HRI_CASE_AS_IS},
    {"numbers in pieces, of each sample",
     "bf16[3,32,9,128] bf16[3,128,1,128] bf16[3,128,1,128] bf16[3,1,32,128]", "scale=0.125",
     .flags = HRI_CASE_NO_GRAD | HRI_CASE_HIDES | HRI_CASE_AS_IS},
    {"dropout, deep", "bf16[2,130,2,128] bf16[2,200,1,128] bf16[2,200,1,128]", "dropout=0.25",
     .flags = HRI_CASE_NO_GRAD | HRI_CASE_AS_IS},
    {"dropout and numbers, deep, causal",
     "f16[1,136,2,96] f16[1,136,2,96] f16[1,136,2,96] f16[1,2,136,136]", "dropout=0.4,causal",
     .flags = HRI_CASE_NO_GRAD | HRI_CASE_HIDES | HRI_CASE_AS_IS},
    {"dropout and numbers of keys, deep",
     "bf16[2,72,2,128] bf16[2,264,2,128] bf16[2,264,2,128] f32[2,1,1,264]", "dropout=0.1",
     .flags = HRI_CASE_NO_GRAD | HRI_CASE_HIDES | HRI_CASE_AS_IS},
    {"dropout and bytes, deep",
     "bf16[2,72,2,128] bf16[2,136,2,128] bf16[2,136,2,128] u8[2,1,72,136]", "dropout=0.1,node=3",
     .flags = HRI_CASE_NO_GRAD | HRI_CASE_AS_IS, .ids = 3},
    {"all is dropped", "bf16[1,72,1,16] bf16[1,136,1,16] bf16[1,136,1,16] bf16[1,1,72,136]",
     "dropout=1", .flags = HRI_CASE_NO_GRAD | HRI_CASE_HIDES | HRI_CASE_AS_IS},
    {"grouped keys", "f32[2,7,4,5] f32[2,9,2,5] f32[2,9,2,5] f32[1,4,7,9]"},
    {"no places", "f32[1,0,2,4] f32[1,0,2,4] f32[1,0,2,4]"},
    {"bf16", "bf16[2,7,3,5] bf16[2,7,3,5] bf16[2,7,3,5] bf16[2,1,7,7]"},
    {"f16", "f16[2,7,3,8] f16[2,9,3,8] f16[2,9,3,8] f32[1,3,7,9]", "dropout=0.2",
     .flags = HRI_CASE_NO_GRAD},
    {"mask of another width", "f32[2,7,3,5] f32[2,9,3,5] f32[2,9,3,5] f32[2,3,7,8]",
     .flags = HRI_CASE_BAD},
    {"bytes", "f32[2,7,3,5] f32[2,9,3,5] f32[2,9,3,5] u8[2,3,7,9]", .ids = 2},
    {"bytes of keys", "f32[2,7,3,5] f32[2,9,3,5] f32[2,9,3,5] u8[2,1,1,9]", .ids = 2},
    {"bytes that hide all", "f32[2,7,3,5] f32[2,9,3,5] f32[2,9,3,5] u8[1,1,7,9]", .ids = 1},
    {"bytes of heads, dropout", "f32[2,70,2,8] f32[2,104,1,8] f32[2,104,1,8] u8[1,2,70,104]",
     "dropout=0.2", .flags = HRI_CASE_NO_GRAD, .ids = 2},
    {"bytes, causal", "bf16[1,72,2,16] bf16[1,72,2,16] bf16[1,72,2,16] u8[1,1,1,72]", "causal",
     .flags = HRI_CASE_NO_GRAD, .ids = 3},
    {"bytes for warpgroups", "bf16[2,72,2,64] bf16[2,200,2,64] bf16[2,200,2,64] u8[2,1,72,200]",
     .flags = HRI_CASE_NO_GRAD, .ids = 2},
    {"bytes of heads, grouped, causal",
     "f16[1,200,4,40] f16[1,200,2,40] f16[1,200,2,40] u8[1,4,200,200]", "causal",
     .flags = HRI_CASE_NO_GRAD, .ids = 3},
    {"bytes that hide all, for warpgroups",
     "bf16[1,72,2,64] bf16[1,137,2,64] bf16[1,137,2,64] u8[1,1,72,137]", .flags = HRI_CASE_NO_GRAD,
     .ids = 1},
    /* later scores weigh over 4,096 times what the first ones do */
    {"rising, deep", "bf16[1,136,2,128] bf16[1,456,1,128] bf16[1,456,1,128] u8[1,2,136,456]",
     "scale=16", .ids = 3},
    {"rising, in pieces", "bf16[1,130,2,128] bf16[1,320,2,128] bf16[1,320,2,128] bf16[1,2,130,320]",
     "scale=16"},
    {"bytes, deep", "bf16[1,136,2,128] bf16[1,456,1,128] bf16[1,456,1,128] u8[1,2,136,456]",
     .flags = HRI_CASE_NO_GRAD, .ids = 3},
    {"bytes of keys, deep", "bf16[2,136,2,128] bf16[2,200,2,128] bf16[2,200,2,128] u8[2,1,1,200]",
     .flags = HRI_CASE_NO_GRAD, .ids = 3},
    {"bytes of keys, deep, f16", "f16[2,130,2,96] f16[2,77,2,96] f16[2,77,2,96] u8[2,1,1,77]",
     .flags = HRI_CASE_NO_GRAD, .ids = 2},
    {"bytes of keys, deep, causal", "f16[2,200,1,96] f16[2,200,1,96] f16[2,200,1,96] u8[2,1,1,200]",
     "causal", .flags = HRI_CASE_NO_GRAD, .ids = 3},
    {"bytes of keys for libraries",
     "bf16[2,72,2,64] bf16[2,264,2,64] bf16[2,264,2,64] u8[2,1,1,264]", .flags = HRI_CASE_NO_GRAD,
     .ids = 2},
    {"some heads, numbers", "bf16[2,130,3,8] bf16[2,72,3,8] bf16[2,72,3,8] bf16[2,3,130,72]",
     "scale=0.25", .flags = HRI_CASE_NO_GRAD | HRI_CASE_HIDES | HRI_CASE_AS_IS},
    {"many heads, numbers", "bf16[2,130,35,8] bf16[2,72,35,8] bf16[2,72,35,8] bf16[2,35,130,72]",
     "scale=0.25", .flags = HRI_CASE_NO_GRAD | HRI_CASE_HIDES | HRI_CASE_AS_IS | HRI_CASE_MANY},
    {"some heads, f32", "f16[2,257,4,16] f16[2,66,2,16] f16[2,66,2,16] f32[1,4,257,66]",
     .flags = HRI_CASE_NO_GRAD | HRI_CASE_HIDES | HRI_CASE_AS_IS},
    {"many heads, f32", "f16[2,257,36,16] f16[2,66,18,16] f16[2,66,18,16] f32[1,36,257,66]",
     .flags = HRI_CASE_NO_GRAD | HRI_CASE_HIDES | HRI_CASE_AS_IS | HRI_CASE_MANY},
    {"some heads, one mask of f16",
     "f16[1,130,4,24] f16[1,130,2,24] f16[1,130,2,24] f16[1,1,130,130]", "causal",
     .flags = HRI_CASE_NO_GRAD | HRI_CASE_HIDES | HRI_CASE_AS_IS},
    {"many heads, one mask of f16",
     "f16[1,130,70,24] f16[1,130,35,24] f16[1,130,35,24] f16[1,1,130,130]", "causal",
     .flags = HRI_CASE_NO_GRAD | HRI_CASE_HIDES | HRI_CASE_AS_IS | HRI_CASE_MANY},
    {"some heads, numbers of keys", "f16[2,130,3,8] f16[2,72,3,8] f16[2,72,3,8] f32[2,1,1,72]",
     .flags = HRI_CASE_NO_GRAD | HRI_CASE_HIDES | HRI_CASE_AS_IS},
    {"many heads, numbers of keys", "f16[2,130,35,8] f16[2,72,35,8] f16[2,72,35,8] f32[2,1,1,72]",
     .flags = HRI_CASE_NO_GRAD | HRI_CASE_HIDES | HRI_CASE_AS_IS | HRI_CASE_MANY},
    {"some heads, bytes", "bf16[2,130,3,8] bf16[2,130,3,8] bf16[2,130,3,8] u8[2,1,130,130]",
     "causal", .flags = HRI_CASE_NO_GRAD | HRI_CASE_AS_IS, .ids = 3},
    {"many heads, bytes", "bf16[2,130,35,8] bf16[2,130,35,8] bf16[2,130,35,8] u8[2,1,130,130]",
     "causal", .flags = HRI_CASE_NO_GRAD | HRI_CASE_AS_IS | HRI_CASE_MANY, .ids = 3},
    {"some masks that heads share, numbers",
     "bf16[7,192,4,8] bf16[7,64,2,8] bf16[7,64,2,8] bf16[7,1,192,64]", "scale=0.3",
     .flags = HRI_CASE_NO_GRAD | HRI_CASE_HIDES | HRI_CASE_AS_IS},
    {"many masks that heads share, numbers",
     "bf16[7,192,24,8] bf16[7,64,12,8] bf16[7,64,12,8] bf16[7,1,192,64]", "scale=0.3",
     .flags = HRI_CASE_NO_GRAD | HRI_CASE_HIDES | HRI_CASE_AS_IS | HRI_CASE_MANY},
    {"some masks, numbers", "bf16[2,192,3,8] bf16[2,64,3,8] bf16[2,64,3,8] bf16[2,3,192,64]",
     .flags = HRI_CASE_NO_GRAD | HRI_CASE_HIDES | HRI_CASE_AS_IS},
    {"many masks, numbers", "bf16[2,192,67,8] bf16[2,64,67,8] bf16[2,64,67,8] bf16[2,67,192,64]",
     .flags = HRI_CASE_NO_GRAD | HRI_CASE_HIDES | HRI_CASE_AS_IS | HRI_CASE_MANY},
    {"some masks, bytes", "f16[2,192,3,8] f16[2,64,3,8] f16[2,64,3,8] u8[2,3,192,64]",
     .flags = HRI_CASE_NO_GRAD | HRI_CASE_AS_IS, .ids = 3},
    {"many masks, bytes", "f16[2,192,67,8] f16[2,64,67,8] f16[2,64,67,8] u8[2,67,192,64]",
     .flags = HRI_CASE_NO_GRAD | HRI_CASE_AS_IS | HRI_CASE_MANY, .ids = 3},
    {"far", "f32[2,9,3,5] f32[2,11,3,5] f32[2,11,3,5] f32[2,1,9,11]",
     .flags = HRI_CASE_NO_GRAD | HRI_CASE_FAR},
    {"far keys", "f32[5,7,4,5] f32[5,9,2,5] f32[5,9,2,5] f32[5,1,1,9]", "scale=0.4",
     .flags = HRI_CASE_NO_GRAD | HRI_CASE_FAR},
    {"far, dropout, causal", "f32[1,70,2,8] f32[1,70,2,8] f32[1,70,2,8] f32[1,2,70,70]",
     "dropout=0.2,causal", .flags = HRI_CASE_NO_GRAD | HRI_CASE_FAR},
    {"far, for libraries", "bf16[2,72,2,16] bf16[2,104,2,16] bf16[2,104,2,16] bf16[2,1,72,104]",
     .flags = HRI_CASE_NO_GRAD | HRI_CASE_FAR},
    {"far, grouped, f32", "f16[1,136,4,40] f16[1,264,2,40] f16[1,264,2,40] f32[1,4,136,264]",
     .flags = HRI_CASE_NO_GRAD | HRI_CASE_FAR | HRI_CASE_AS_IS},
    {"far keys for warpgroups", "bf16[6,72,2,64] bf16[6,200,2,64] bf16[6,200,2,64] bf16[6,1,1,200]",
     .flags = HRI_CASE_NO_GRAD | HRI_CASE_FAR | HRI_CASE_AS_IS},
    {"far, dropout for warpgroups",
     "f16[1,136,4,48] f16[1,136,2,48] f16[1,136,2,48] f16[1,4,136,136]", "dropout=0.4,causal",
     .tolerance = 1e-2, .flags = HRI_CASE_NO_GRAD | HRI_CASE_FAR | HRI_CASE_AS_IS},
    {"far, deep", "bf16[2,130,2,128] bf16[2,200,1,128] bf16[2,200,1,128] bf16[1,2,130,200]",
     .flags = HRI_CASE_NO_GRAD | HRI_CASE_FAR | HRI_CASE_AS_IS},
    {"far, in pieces", "bf16[2,200,2,128] bf16[2,320,1,128] bf16[2,320,1,128] bf16[1,2,200,320]",
     "scale=0.125", .flags = HRI_CASE_NO_GRAD | HRI_CASE_FAR | HRI_CASE_AS_IS},
    {"far, deep, dropout", "bf16[2,72,2,128] bf16[2,264,2,128] bf16[2,264,2,128] f32[2,1,72,264]",
     "dropout=0.1", .flags = HRI_CASE_NO_GRAD | HRI_CASE_FAR | HRI_CASE_AS_IS},
    {"far keys, deep", "bf16[6,72,1,128] bf16[6,264,1,128] bf16[6,264,1,128] f32[6,1,1,264]",
     .flags = HRI_CASE_NO_GRAD | HRI_CASE_FAR | HRI_CASE_AS_IS},
    {"far, some heads", "bf16[2,192,3,8] bf16[2,64,3,8] bf16[2,64,3,8] bf16[2,3,192,64]",
     .flags = HRI_CASE_NO_GRAD | HRI_CASE_FAR | HRI_CASE_AS_IS},
    {"far, many heads", "bf16[2,192,67,8] bf16[2,64,67,8] bf16[2,64,67,8] bf16[2,67,192,64]",
     .flags = HRI_CASE_NO_GRAD | HRI_CASE_FAR | HRI_CASE_AS_IS | HRI_CASE_MANY},
    {"far, some heads, f32", "f16[2,257,4,16] f16[2,66,2,16] f16[2,66,2,16] f32[1,4,257,66]",
     .flags = HRI_CASE_NO_GRAD | HRI_CASE_FAR | HRI_CASE_AS_IS},
    {"far, many heads, f32", "f16[2,257,36,16] f16[2,66,18,16] f16[2,66,18,16] f32[1,36,257,66]",
     .flags = HRI_CASE_NO_GRAD | HRI_CASE_FAR | HRI_CASE_AS_IS | HRI_CASE_MANY},
    {"far keys, some heads", "f16[3,130,3,8] f16[3,72,3,8] f16[3,72,3,8] f32[3,1,1,72]",
     .flags = HRI_CASE_NO_GRAD | HRI_CASE_FAR | HRI_CASE_AS_IS},
    {"far keys, many heads", "f16[8,130,35,8] f16[8,72,35,8] f16[8,72,35,8] f32[8,1,1,72]",
     .flags = HRI_CASE_NO_GRAD | HRI_CASE_FAR | HRI_CASE_AS_IS | HRI_CASE_MANY},
    {"mask of i32", "f32[2,7,3,5] f32[2,9,3,5] f32[2,9,3,5] i32[2,3,7,9]", .flags = HRI_CASE_BAD},
    {"no keys", "f32[1,3,2,4] f32[1,0,2,4] f32[1,0,2,4]", .flags = HRI_CASE_BAD},
    {NULL, NULL},
};

const hr_op hr_op_attention_masked = {
    .name = "attention_masked",
    .formula = "o = drop(softmax(scale * q k' + mask)) v",
    .in_min = 3,
    .in_max = 4,
    .out_count = 2,
    .fields = hri_attention_masked_fields,
    .attr_bytes = sizeof(hri_attention_masked_attr),
    .infer = hri_attention_infer,
    .grad = attention_masked_grad,
    .keeps = {{.in = 15, .out = 3},
              {.in = 15, .out = 3},
              {.in = 15, .out = 3},
              {.in = 15, .out = 3}},
    .aux = 2,
    .random = 1,
    .cost = hri_attention_op_cost,
    .host = {.run = hri_attention_op_host, .workspace = hri_attention_op_workspace},
    .cases = HRI_CASES(attention_masked_cases),
};

const hri_kernel hri_kernel_cuda_attention_masked = {
    .launch = hri_attention_op_launch,
    .launch_workspace = hri_attention_op_launch_workspace,
};

/* What maximum and minimum share: each is the other with the comparison turned. */
#ifndef HRI_OPS_COMMON_LARGER_H
#define HRI_OPS_COMMON_LARGER_H

#include "graph/op.h"

/* dy goes to the larger one (`least`: to the smaller one). */
static inline void hri_larger_grad(hri_grad *c, int least) {
    for (uint32_t i = 0; i < 2; i++) {
        const hr_value own = c->in[i], other = c->in[1 - i];
        if (HRI_NEEDS(c, i)) {
            c->din[i] = hri_sum_to(c->g,
                                   HRI_NODE(c->g, "larger_grad", NULL, c->dout[0],
                                            least ? other : own, least ? own : other),
                                   own);
        }
    }
}

/* The descriptor but for names, formula, gradient and functions. */
#define HRI_LARGER_OP                                                                              \
    .in_min = 2, .in_max = 2, .out_count = 1, .infer = hri_infer_broadcast,                        \
    .keeps = {{.in = 3}, {.in = 3}}, .overwrite = {3}

#define HRI_LARGER_CASES                                                                           \
    {"scalar", "f32[] f32[]"}, {"odd", "f32[7,33] f32[7,33]"}, {"by a scalar", "f32[5,3] f32[]"},  \
        {"both ways", "f32[4,1,3] f32[1,5,1]"}, {"empty", "f32[0,3] f32[3]"},                      \
        {"bf16", "bf16[7,9] bf16[9]"}, {"f16", "f16[7,9] f16[7,1]"},                               \
        {"large", "f32[3,20001] f32[3,20001]"},                                                    \
        {"shapes differ", "f32[3] f32[4]", .flags = HRI_CASE_BAD}, {                               \
        NULL, NULL                                                                                 \
    }

#endif

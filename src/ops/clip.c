/* clip(x; low, high) = x, but at least low and at most high; NaN kept.  The slope is known from the output: 1 strictly
 * between the bounds, else 0 (so at a bound itself it is 0, as for relu6). */
#include "ops/common/clip.h"
#include "ops/common/map.h"

static const hri_field clip_fields[] = {
    {"low", "the least result", offsetof(hri_attr_clip, low), HRI_FIELD_DOUBLE, "0"},
    {"high", "the greatest result", offsetof(hri_attr_clip, high), HRI_FIELD_DOUBLE, "1"},
    {0},
};

static hr_status clip_infer(hri_infer *c) {
    const hri_attr_clip *p = c->attr;
    if (!(p->low <= p->high)) {
        return hri_infer_fail(c, "low is %g, above high, %g", p->low, p->high);
    }
    return hri_infer_same(c);
}

HRI_MAP1(clip, hri_attr_clip,
         (a < (T)p->low ? (T)p->low : a) > (T)p->high ? (T)p->high
                                                      : (a < (T)p->low ? (T)p->low : a))

static void clip_grad(hri_grad *c) {
    c->din[0] = HRI_NODE(c->g, "clip_grad", c->sig->attr, c->dout[0], c->out[0]);
}

static const hri_case clip_cases[] = {
    {"scalar", "f32[]"},
    {"odd", "f32[7,33]"},
    {"large", "f32[3,20001]"},
    {"empty", "f32[0,3]"},
    {"bf16", "bf16[7,9]"},
    {"f16", "f16[7,9]"},
    {"relu6", "f32[7,33]", "low=0,high=6", .low = -8, .high = 8},
    {"half open", "f32[7,9]", "low=-inf,high=0.5"},
    {"low above high", "f32[3]", "low=2,high=1", .flags = HRI_CASE_BAD},
    {"integers", "i32[3]", .flags = HRI_CASE_BAD},
    {NULL, NULL},
};

const hr_op hr_op_clip = {
    .name = "clip",
    .formula = "y = min(max(x, low), high)",
    .in_min = 1,
    .in_max = 1,
    .out_count = 1,
    .fields = clip_fields,
    .attr_bytes = sizeof(hri_attr_clip),
    .infer = clip_infer,
    .grad = clip_grad,
    .keeps = {{.out = 1}},
    .overwrite = {1},
    .host = {.run = clip_host},
    .scalar = &clip_scalar,
    .cases = HRI_CASES(clip_cases),
};

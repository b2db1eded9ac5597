/* clip_grad(dy, y; low, high) = dy where low < y < high, else 0: the gradient of clip, from its output. */
#include "ops/common/clip.h"
#include "ops/common/map.h"

static const hri_field clip_grad_fields[] = {
    {"low", "the least result", offsetof(hri_attr_clip, low), HRI_FIELD_DOUBLE, "0"},
    {"high", "the greatest result", offsetof(hri_attr_clip, high), HRI_FIELD_DOUBLE, "1"},
    {0},
};

/* With & in place of && there is no branch, and the loop becomes vector code. */
HRI_MAP2_SCALAR_AS(clip_grad, hri_attr_clip, "b > (T)p->low && b < (T)p->high ? a : (T)0",
                   ((b > (T)p->low) & (b < (T)p->high)) ? a : (T)0)
HRI_MAP2_SAME_HOST(clip_grad, hri_attr_clip)

static const hri_case clip_grad_cases[] = {
    {"scalar", "f32[] f32[]"},
    {"odd", "f32[7,33] f32[7,33]"},
    {"large", "f32[3,20001] f32[3,20001]"},
    {"empty", "f32[0,3] f32[0,3]"},
    {"bf16", "bf16[7,9] bf16[7,9]"},
    {"f16", "f16[7,9] f16[7,9]"},
    {"bounds", "f32[7,33] f32[7,33]", "low=-0.5,high=0.25"},
    {"shapes differ", "f32[3] f32[4]", .flags = HRI_CASE_BAD},
    {NULL, NULL},
};

const hr_op hr_op_clip_grad = {
    .name = "clip_grad",
    .formula = "dx = low < y < high ? dy : 0",
    .in_min = 2,
    .in_max = 2,
    .out_count = 1,
    .fields = clip_grad_fields,
    .attr_bytes = sizeof(hri_attr_clip),
    .infer = hri_infer_same,
    .overwrite = {3},
    .host = {.run = clip_grad_host},
    .scalar = &clip_grad_scalar,
    .cases = HRI_CASES(clip_grad_cases),
};

/* range_move(range, seen; until, keep): a learned range takes what (a part of) this step has seen (common/learned_range.h).
 *
 *   range f32 (6), updated in its own memory   seen f32 (2), of several parts (parts, 2): least and greatest (min_max)
 *
 * From step `until` on it stays as it is. */
#include "ops/common/learned_range.h"

#include "ops/common/launch.h"

typedef struct range_move_attr {
    int64_t until;
    double keep;
} range_move_attr;

static const hri_field range_move_fields[] = {
    {"until", "first step that no longer changes it", offsetof(range_move_attr, until),
     HRI_FIELD_INT, "4294967295", .min = 0, .max = 4294967295.0},
    {"keep", "weight of the average before a step", offsetof(range_move_attr, keep),
     HRI_FIELD_DOUBLE, "0.99", .min = 0, .max = 1},
    {0},
};

static hr_status range_move_infer(hri_infer *c) {
    const hr_shape *range = &c->in[0].shape, *seen = &c->in[1].shape;
    if (c->in[0].type != HR_TYPE_F32 || c->in[1].type != HR_TYPE_F32 || range->rank != 1 ||
        range->dim[0] != HRI_LEARNED_RANGE || seen->rank < 1 || seen->rank > 2 ||
        seen->dim[seen->rank - 1] != 2) {
        return hri_infer_fail(c, "expected f32[%d] and f32[2], or (parts, 2)", HRI_LEARNED_RANGE);
    }
    c->out[0] = c->in[0];
    return HR_OK;
}

static hr_status range_move_host(const hri_call *c) {
    const range_move_attr *p = c->sig->attr;
    const int64_t parts = hr_shape_count(&c->sig->in[1].shape) / 2;
    for (int64_t i = 0; i < parts && (int64_t)c->step < p->until; i++) {
        hri_learned_move(c->out[0], (const float *)c->in[1] + 2 * i, c->step, p->keep);
    }
    return HR_OK;
}

HRI_CU(fake_quantize);

static hr_status range_move_cuda(const hri_gpu_call *c) {
    const range_move_attr *p = c->sig->attr;
    hr_addr range = c->out[0], seen = c->in[1], control = c->control;
    int64_t parts = hr_shape_count(&c->sig->in[1].shape) / 2, until = p->until;
    double keep = p->keep;
    return hri_gpu_launch(c->gpu, &hri_cu_fake_quantize, "", "range_move",
                          &(hri_gpu_grid){.x = 1, .threads = 32},
                          HRI_GPU_ARGS(&range, &seen, &control, &parts, &until, &keep));
}

static const hri_case range_move_cases[] = {
    {"first", "f32[6] f32[2]", .low = -2, .high = 0.9},
    {"next", "f32[6] f32[2]", .low = 1, .high = 2},
    {"below 0", "f32[6] f32[2]", "keep=0.5", .low = -3, .high = 3},
    {"parts", "f32[6] f32[3,2]", .low = -3, .high = 3},
    {"stands still", "f32[6] f32[2]", "until=0"},
    {"too long", "f32[6] f32[3]", .flags = HRI_CASE_BAD},
    {NULL, NULL},
};

const hr_op hr_op_range_move = {
    .name = "range_move",
    .formula = "range = keep range + (1 - keep) seen, once a step",
    .in_min = 2,
    .in_max = 2,
    .out_count = 1,
    .fields = range_move_fields,
    .attr_bytes = sizeof(range_move_attr),
    .infer = range_move_infer,
    .updates = {1},
    .by_parts = 1,
    .random = 1, /* reads the number of the step */
    .host = {.run = range_move_host},
    .cases = HRI_CASES(range_move_cases),
};

const hri_kernel hri_kernel_cuda_range_move = {.launch = range_move_cuda};

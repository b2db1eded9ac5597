/* batch_norm_stats(running_mean, running_var, mean, inv; eps, momentum, rows, unbiased, until): moves the running statistics.
 *
 *   running_mean <- (1 - m) running_mean + m mean
 *   running_var  <- (1 - m) running_var  + m var * rows / (rows - 1),   var = 1 / inv^2 - eps
 *
 * mean and inv are what batch_norm gave over `rows` rows with that eps, or of several parts of a batch: (parts, C), one after the
 * other; the running variance is the unbiased one, as
 * torch has it, unless `unbiased` is off (Keras and ONNX): then the factor is 1.  From step `until` on they stand
 * still.  Both are updated in their own memory, so a step does this once and never again. */
#include "ops/common/batch_norm.h"
#include "ops/common/blocks.h"

typedef struct batch_norm_stats_attr {
    double eps, momentum;
    int64_t rows, until;
    bool unbiased;
} batch_norm_stats_attr;

static const hri_field batch_norm_stats_fields[] = {
    {"eps", "of the batch norm", offsetof(batch_norm_stats_attr, eps), HRI_FIELD_DOUBLE, "1e-5",
     .min = 0, .max = 1},
    {"momentum", "weight of the new statistics", offsetof(batch_norm_stats_attr, momentum),
     HRI_FIELD_DOUBLE, "0.1", .min = 0, .max = 1},
    {"rows", "over which the statistics were taken", offsetof(batch_norm_stats_attr, rows),
     HRI_FIELD_INT, "0", .min = 0, .max = 9e18},
    {"unbiased", "running variance with rows - 1 in the denominator",
     offsetof(batch_norm_stats_attr, unbiased), HRI_FIELD_BOOL, "true"},
    {"until", "first step that no longer moves them", offsetof(batch_norm_stats_attr, until),
     HRI_FIELD_INT, "4294967296", .min = 0, .max = 4294967296.0},
    {0},
};

static hr_status batch_norm_stats_infer(hri_infer *c) {
    const batch_norm_stats_attr *p = c->attr;
    const int64_t channels = c->in[0].shape.rank ? c->in[0].shape.dim[0] : 0;
    for (uint32_t i = 0; i < 4; i++) {
        const hr_shape *x = &c->in[i].shape;
        const int parts =
            i > 1 && x->rank == 2 && x->dim[1] == channels && hr_shape_same(x, &c->in[2].shape);
        if ((!parts && !hri_is_vector(&c->in[i], channels)) || c->in[i].type != HR_TYPE_F32 ||
            (i == 3 && !hr_shape_same(x, &c->in[2].shape))) {
            return hri_infer_fail(c, "all four must be f32 (C), or the last two (parts, C)");
        }
    }
    if (p->rows < 1) {
        return hri_infer_fail(c, "rows must be given, 1 or more");
    }
    c->out[0] = c->in[0];
    c->out[1] = c->in[1];
    return HR_OK;
}

static hr_status batch_norm_stats_host(const hri_call *c) {
    const batch_norm_stats_attr *p = c->sig->attr;
    const double m = p->momentum, rows = (double)p->rows;
    const double unbiased = p->unbiased && p->rows > 1 ? rows / (rows - 1.0) : 1.0;
    const int64_t n = c->sig->in[0].shape.dim[0], all = hr_shape_count(&c->sig->in[2].shape);
    float *mean = c->out[0], *var = c->out[1];
    for (int64_t i = 0; i < all && (int64_t)c->step < p->until; i++) {
        const int64_t k = i % n;
        const double inv = (double)((const float *)c->in[3])[i];
        const double batch = 1.0 / (inv * inv) - p->eps;
        const double was[] = {(double)(i < n ? (const float *)c->in[0] : mean)[k],
                              (double)(i < n ? (const float *)c->in[1] : var)[k]};
        mean[k] = (float)((1.0 - m) * was[0] + m * (double)((const float *)c->in[2])[i]);
        var[k] = (float)((1.0 - m) * was[1] + m * (batch < 0.0 ? 0.0 : batch) * unbiased);
    }
    return HR_OK;
}

static hr_status batch_norm_stats_cuda(const hri_gpu_call *c) {
    const batch_norm_stats_attr *p = c->sig->attr;
    /* the factor of one row is 1 */
    return hri_batch_norm_stats_cuda(c, p->eps, p->momentum, p->unbiased ? p->rows : 1, p->until);
}

static const hri_case batch_norm_stats_cases[] = {
    {"odd", "f32[19] f32[19] f32[19] f32[19]", "rows=48", .low = 0.2, .high = 2},
    {"one row", "f32[3] f32[3] f32[3] f32[3]", "rows=1,momentum=0.3,eps=0.001", .low = 0.2,
     .high = 2},
    {"biased", "f32[19] f32[19] f32[19] f32[19]", "rows=48,unbiased=false", .low = 0.2, .high = 2},
    {"parts", "f32[19] f32[19] f32[3,19] f32[3,19]", "rows=48", .low = 0.2, .high = 2},
    {"standing still", "f32[19] f32[19] f32[19] f32[19]", "rows=48,until=0", .low = 0.2, .high = 2},
    {"empty", "f32[0] f32[0] f32[0] f32[0]", "rows=4"},
    {"parts of one", "f32[3] f32[3] f32[2,3] f32[3]", "rows=2", .flags = HRI_CASE_BAD},
    {"rows not given", "f32[3] f32[3] f32[3] f32[3]", .flags = HRI_CASE_BAD},
    {"two widths", "f32[3] f32[4] f32[3] f32[3]", "rows=2", .flags = HRI_CASE_BAD},
    {NULL, NULL},
};

const hr_op hr_op_batch_norm_stats = {
    .name = "batch_norm_stats",
    .formula = "running = (1 - m) running + m batch",
    .in_min = 4,
    .in_max = 4,
    .out_count = 2,
    .fields = batch_norm_stats_fields,
    .attr_bytes = sizeof(batch_norm_stats_attr),
    .infer = batch_norm_stats_infer,
    .updates = {1, 2},
    .by_parts = 1,
    .random = 1, /* reads the number of the step */
    .host = {.run = batch_norm_stats_host},
    .cases = HRI_CASES(batch_norm_stats_cases),
};

const hri_kernel hri_kernel_cuda_batch_norm_stats = {.launch = batch_norm_stats_cuda};

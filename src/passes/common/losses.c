/* Losses as nodes; see losses.h. */
#include "passes/common/losses.h"

#include <headroom/ops.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include "base/number.h"

const char *const hri_loss_names[] = {"model", "cross_entropy", "focal", "bce",
                                      "mse",   "mae",           "huber", NULL};

/* ---- texts ---- */

static const hri_field huber_fields[] = {{"delta", "where squares turn into lines",
                                          offsetof(hri_loss, delta), HRI_FIELD_DOUBLE, "1",
                                          .min = 1e-6, .max = 1e6},
                                         {0}};
static const hri_field focal_fields[] = {{"gamma", "how little easy samples count",
                                          offsetof(hri_loss, gamma), HRI_FIELD_DOUBLE, "2",
                                          .min = 0, .max = 10},
                                         {0}};
static const hri_field no_fields[] = {{0}};

static const hri_field *fields_of(int kind) {
    return kind == HRI_LOSS_HUBER   ? huber_fields
           : kind == HRI_LOSS_FOCAL ? focal_fields
                                    : no_fields;
}

hr_status hri_loss_parse(const char *text, hri_loss *out, hri_prose *why) {
    const size_t n = strcspn(text, ":");
    hri_loss l = {0};
    while (hri_loss_names[l.kind] &&
           (strlen(hri_loss_names[l.kind]) != n || strncmp(hri_loss_names[l.kind], text, n) != 0)) {
        l.kind++;
    }
    if (!hri_loss_names[l.kind]) {
        return hri_prose_set(why, HR_E_NOT_FOUND,
                             "unknown loss \"%.60s\"; use cross_entropy, focal, bce, mse, mae, "
                             "huber, or model for the model's own",
                             text);
    }
    hri_options o = {0};
    hr_status status = hri_options_init(&o, fields_of(l.kind), &l, why);
    if (status == HR_OK && text[n]) {
        status = hri_options_set_text(&o, text + n + 1, why);
    }
    hri_options_deinit(&o);
    if (status == HR_OK) {
        *out = l;
    }
    return status;
}

char *hri_loss_print(const hri_loss *l, char *text, size_t size) {
    if (l->kind == HRI_LOSS_HUBER) {
        hri_snprintf(text, size, "huber:delta=%.17g", l->delta);
    } else if (l->kind == HRI_LOSS_FOCAL) {
        hri_snprintf(text, size, "focal:gamma=%.17g", l->gamma);
    } else {
        snprintf(text, size, "%s", hri_loss_names[l->kind]);
    }
    return text;
}

/* ---- targets ---- */

int hri_loss_has_ids(const hri_loss *l) {
    return l->kind == HRI_LOSS_CROSS_ENTROPY || l->kind == HRI_LOSS_FOCAL;
}

hr_meta hri_loss_label(const hri_loss *l, const hr_meta *scores) {
    const int32_t rank = scores->shape.rank;
    return hri_loss_has_ids(l) && !l->soft
               ? (hr_meta){HR_TYPE_I32, hr_shape_from(rank ? rank - 1 : 0, scores->shape.dim)}
               : (hr_meta){HR_TYPE_F32, scores->shape};
}

/* ---- nodes ---- */

static hr_value number(hr_graph *g, double x) {
    return hr_graph_fill(g, HR_TYPE_F32, hr_shape_0(), x);
}

/* The sum of what counts over how much that is; 0 where nothing does. */
static hr_value mean_of(hr_graph *g, hr_value each, hr_value mask, hr_value sample_weight) {
    const hr_value count = hr_maximum(g, hr_sum(g, mask, NULL, 0), number(g, 1));
    if (sample_weight != HR_NONE) {
        hr_shape rows = hr_graph_meta(g, each).shape;
        for (int d = 1; d < rows.rank; d++) {
            rows.dim[d] = 1;
        }
        each = hr_mul(g, each, hr_reshape(g, sample_weight, rows));
    }
    return hr_div(g, hr_sum(g, hr_mul(g, each, mask), NULL, 0), count);
}

/* -log p of the right class, row by row; ids are at least 0. */
static hr_value surprise(hr_graph *g, hr_value scores, hr_value ids, double smoothing) {
    const hr_shape rows = hr_graph_meta(g, ids).shape;
    hr_shape one = rows;
    if (rows.rank == HR_RANK_MAX) {
        hri_graph_fail(g, HR_E_SHAPE, "targets have too many dimensions for this loss");
        return HR_NONE;
    }
    one.dim[one.rank++] = 1;
    const hr_value logs = hr_log_softmax(g, scores, -1);
    const hr_value own = hr_take_along(g, logs, hr_reshape(g, ids, one), -1);
    const hr_value right = hr_neg(g, hr_reshape(g, own, rows));
    return smoothing > 0 ? hr_add(g, hr_affine(g, right, 1 - smoothing, 0),
                                  hr_affine(g, hr_mean(g, logs, "-1", 0), -smoothing, 0))
                         : right;
}

static hr_value over_ids(hr_graph *g, const hri_loss *l, const hri_loss_parts *of) {
    const float *weights = of->weights;
    const size_t weight_count = of->weight_count;
    const hr_meta meta = hr_graph_meta(g, of->scores);
    const int64_t classes = meta.shape.rank ? meta.shape.dim[meta.shape.rank - 1] : 0;
    const hr_value real = hr_cast(g, of->label, HR_TYPE_F32);
    const hr_value mask = hr_compare(g, real, number(g, 0), "greater_equal");
    const hr_value ids = hr_cast(g, hr_maximum(g, real, number(g, 0)), HR_TYPE_I32);
    if (weights && weight_count != (size_t)classes) {
        hri_graph_fail(g, HR_E_SHAPE, "%zu class weights are given, but the model has %lld classes",
                       weight_count, (long long)classes);
        return HR_NONE;
    }
    hr_value each = surprise(g, of->scores, ids, of->smoothing);
    if (l->kind == HRI_LOSS_FOCAL) { /* at p = 1 the power has no gradient */
        const hr_value p = hr_exp(g, hr_neg(g, each));
        const hr_value rest = hr_clip(g, hr_affine(g, p, -1, 1), 1e-6, 1);
        each = hr_mul(g, hr_power(g, rest, l->gamma), each);
    }
    if (weights) {
        const hr_value table =
            hr_graph_constant(g, HR_TYPE_F32, hr_shape_1((int64_t)weight_count), weights);
        each = hr_mul(g, each, hr_gather(g, table, ids));
    }
    return mean_of(g, each, mask, of->sample_weight);
}

/* max(x, 0) - x t + log(1 + exp(-|x|)) */
static hr_value binary(hr_graph *g, hr_value x, hr_value t) {
    const hr_value rest = hr_log(g, hr_affine(g, hr_exp(g, hr_neg(g, hr_abs(g, x))), 1, 1));
    return hr_add(g, hr_sub(g, hr_relu(g, x), hr_mul(g, x, t)), rest);
}

static hr_value over_numbers(hr_graph *g, const hri_loss *l, const hri_loss_parts *of) {
    const hr_value label = of->label, weight = of->sample_weight;
    const hr_value mask = hr_compare(g, label, label, "equal"); /* NaN is not itself */
    const hr_value t = hr_where(g, mask, label, number(g, 0));
    if (l->kind == HRI_LOSS_BCE) {
        return mean_of(g, binary(g, of->scores, t), mask, weight);
    }
    const hr_value by = hr_sub(g, of->scores, t);
    if (l->kind == HRI_LOSS_MSE) {
        return mean_of(g, hr_mul(g, by, by), mask, weight);
    }
    const hr_value far = hr_abs(g, by);
    if (l->kind == HRI_LOSS_MAE) {
        return mean_of(g, far, mask, weight);
    }
    /* with c = min(|d|, delta): c |d| - c^2 / 2 is d^2 / 2 inside and delta (|d| - delta / 2) outside */
    const hr_value near = hr_clip(g, far, 0, l->delta);
    const hr_value each =
        hr_sub(g, hr_mul(g, near, far), hr_affine(g, hr_mul(g, near, near), 0.5, 0));
    return mean_of(g, each, mask, weight);
}

hr_value hri_loss_build(hr_graph *g, const hri_loss *l, const hri_loss_parts *of) {
    const float *weights = of->weights;
    if (!hri_loss_has_ids(l) && (weights || of->smoothing > 0)) {
        hri_graph_fail(g, HR_E_UNSUPPORTED, "%s need a loss over classes, not %s",
                       weights ? "class weights" : "smoothed labels", hri_loss_names[l->kind]);
        return HR_NONE;
    }
    if (l->soft && (l->kind != HRI_LOSS_CROSS_ENTROPY || weights || of->sample_weight != HR_NONE)) {
        hri_graph_fail(g, HR_E_UNSUPPORTED, "mixed samples need the loss cross_entropy%s",
                       weights                        ? " without class weights"
                       : of->sample_weight != HR_NONE ? " without sample weights"
                                                      : "");
        return HR_NONE;
    }
    if (l->soft) {
        return hr_cross_entropy_soft(g, of->scores, of->label, of->smoothing);
    }
    return hri_loss_has_ids(l) ? over_ids(g, l, of) : over_numbers(g, l, of);
}

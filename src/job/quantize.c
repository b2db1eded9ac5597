/* Calibration and the quantized file; see headroom/quantize.h.
 *
 * Calibration is an evaluation whose graph has histograms (the pass quantize:to=observe): planned, proven and run as any
 * other.  What it takes is given back before the file is written, which needs one layer at a time. */
#include <headroom/quantize.h>

#include <math.h>

#include "base/alloc.h"
#include "base/grow.h"
#include "job/infer.h"
#include "ops/common/float8.h"
#include "ops/common/histogram.h"
#include "passes/common/qat.h"
#include "weights/quantize.h"
#include "weights/weight_codes.h"

enum { SAMPLES = 256 };

typedef struct quantizing {
    hr_quantize_options o;
    hr_predictor *p;
    hri_checkpoint checkpoint;
    hr_graph *g; /* of the model before */
    hri_quantizing q;
    hri_range *ranges; /* by value of g */
    int learned;       /* the run trained with fake quantization */
    double keep;       /* of its ranges */
    hr_quantize_result r;
} quantizing;

static hr_status out_of_memory(hri_why *why) {
    return hri_why_set(why, HR_CAUSE_MACHINE, HR_E_NOMEM_HOST, "quantize: %s",
                       hr_status_text(HR_E_NOMEM_HOST));
}

/* The model as it is, and what of it can be bytes. */
static hr_status look(quantizing *x, hri_why *why) {
    hri_prose prose = {0};
    hri_passes passes = {0};
    hr_status status = hri_checkpoint_open(x->o.infer->checkpoint, &x->checkpoint, &prose);
    if (status == HR_OK) {
        status = hri_passes_parse(x->checkpoint.about.passes, &passes, &prose);
    }
    if (status == HR_OK &&
        (hri_passes_find(&passes, "quantize") || hri_passes_find(&passes, "weights"))) {
        status =
            hri_prose_set(&prose, HR_E_UNSUPPORTED, "%s is quantized already", x->checkpoint.path);
    }
    const hri_qat *qat = status == HR_OK ? hri_passes_find(&passes, "qat") : NULL;
    if (qat && x->o.type != HR_QUANTIZED_INT8) {
        status = hri_prose_set(&prose, HR_E_UNSUPPORTED, "%s learned to round to 8-bit integers",
                               x->checkpoint.path);
    }
    x->learned = qat != NULL;
    x->keep = qat ? qat->keep : 0;
    hri_passes_deinit(&passes);
    if (status == HR_OK) {
        status = hri_quantize_graph(&x->checkpoint, "", &x->g, &prose);
    }
    if (status == HR_OK) {
        status = hri_quantizing_init(&x->q, x->g, x->o.type == HR_QUANTIZED_FP8);
        x->ranges = status == HR_OK ? hri_calloc(x->g->value_count, sizeof *x->ranges) : NULL;
        return x->ranges ? HR_OK : out_of_memory(why);
    }
    return hri_why_prose(why, hri_cause_of_input(status), status, NULL, &prose);
}

static hr_status take_ranges(quantizing *x, hri_why *why) {
    hr_status status = HR_OK;
    int64_t *h = hri_calloc(HRI_HISTOGRAM_WORDS, sizeof *h);
    if (!h) {
        return out_of_memory(why);
    }
    for (hr_value v = 1; v < x->g->value_count && status == HR_OK; v++) {
        if (!x->q.bytes[v] || x->q.range[v] != v) {
            continue;
        }
        hri_text name = {0};
        hri_text_add(&name, "%s" HRI_RANGE_HISTOGRAM, x->q.name[v]);
        status = hri_text_status(&name);
        if (status == HR_OK) {
            status = hri_predictor_get(x->p->predictor, hri_text_get(&name), h,
                                       HRI_HISTOGRAM_WORDS * sizeof *h);
        }
        hri_text_deinit(&name);
        x->ranges[v] = hri_range_of(h, (hri_threshold)x->o.method);
        if (x->o.type == HR_QUANTIZED_FP8) {
            const float most = fmaxf(-x->ranges[v].low, x->ranges[v].high) / HRI_F8_MAX;
            x->ranges[v].scale = most >= 0x1p-126f ? most : 1.0f;
        }
        x->r.ranges++;
    }
    hri_free(h);
    return status == HR_OK
               ? HR_OK
               : hri_why_set(why, hri_cause_of(status), status, "reading what calibration saw: %s",
                             hr_status_text(status));
}

/* What training with fake quantization learned, as its evaluation uses it. */
static hr_status learned_range(const quantizing *x, const char *activation, hri_range *out,
                               hri_prose *why) {
    hri_text name = {0};
    float state[HRI_LEARNED_RANGE], bounds[2];
    hri_text_add(&name, "%s" HRI_QAT_RANGE, activation);
    hr_status status = hri_text_status(&name);
    const hri_tensor *t =
        status == HR_OK ? hri_tensors_find(&x->checkpoint.file, hri_text_get(&name)) : NULL;
    if (status == HR_OK && (!t || !hri_tensor_can_be(t, HR_TYPE_F32) || t->shape.rank != 1 ||
                            t->shape.dim[0] != HRI_LEARNED_RANGE)) {
        status = hri_prose_set(why, HR_E_NOT_FOUND, "%s: %s is missing or has another shape",
                               x->checkpoint.path, hri_text_get(&name));
    }
    if (status == HR_OK) {
        status =
            hri_tensors_read(&x->checkpoint.file, t, 0, HRI_LEARNED_RANGE, HR_TYPE_F32, state, why);
    }
    if (status == HR_OK && hri_learned_step(state) < 0) {
        status = hri_prose_set(why, HR_E_NOT_FOUND, "%s: no training step has seen the range of %s",
                               x->checkpoint.path, activation);
    }
    hri_text_deinit(&name);
    if (status == HR_OK) {
        hri_learned_bounds(state, -2.0, x->keep, bounds);
        *out = hri_range_between((double)bounds[0], (double)bounds[1]);
    }
    return status;
}

static hr_status learned_ranges(quantizing *x, hri_why *why) {
    hri_prose prose = {0};
    hr_status status = HR_OK;
    for (hr_value v = 1; v < x->g->value_count && status == HR_OK; v++) {
        if (x->q.bytes[v] && x->q.range[v] == v) {
            status = learned_range(x, x->q.name[v], &x->ranges[v], &prose);
            x->r.ranges++;
        }
    }
    return status == HR_OK ? HR_OK
                           : hri_why_prose(why, hri_cause_of_input(status), status, NULL, &prose);
}

static hr_status calibrate(quantizing *x, hri_why *why) {
    bool over = false;
    const uint64_t wanted = x->o.samples ? x->o.samples : SAMPLES;
    hr_infer_info info = {.size = sizeof info};
    hr_infer_result result = {.size = sizeof result};
    hr_status status = hri_infer_begin(x->p, why);
    while (status == HR_OK && !over && x->p->samples < wanted) {
        status = hri_infer_next(x->p, &over, why);
    }
    if (status == HR_OK && x->p->samples == 0) {
        status =
            hri_why_set(why, HR_CAUSE_DATA, HR_E_NOT_FOUND, "none of the samples could be read");
    }
    status = status == HR_OK ? take_ranges(x, why) : status;
    status = status == HR_OK ? hr_predictor_get_info(x->p, &info) : status;
    if (status == HR_OK) {
        hri_infer_finish(x->p, &result);
        x->r.samples = result.samples;
        x->r.planned_peak_bytes = info.peak_bytes;
        x->r.measured_peak_bytes = result.measured_peak_bytes;
        x->r.seconds = result.seconds;
    }
    return status;
}

static hr_status check(const hr_quantize_options *o, hri_why *why) {
    if (!o->infer || !o->infer->checkpoint || !o->out) {
        return hri_why_option(why, HR_E_INVALID, o->out ? "checkpoint" : "out", " is missing");
    }
    if (o->method < HR_CALIBRATION_MINMAX || o->method > HR_CALIBRATION_MSE) {
        return hri_why_option(why, HR_E_INVALID, "method", " %d does not exist", (int)o->method);
    }
    if (o->type < HR_QUANTIZED_INT8 || o->type > HR_QUANTIZED_FP8) {
        return hri_why_option(why, HR_E_INVALID, "type", " %d does not exist", (int)o->type);
    }
    if (o->weights && o->type != HR_QUANTIZED_INT8) {
        return hri_why_option(why, HR_E_INVALID, "type",
                              ": weights alone are codes of 8 or 4 bits");
    }
    return HR_OK;
}

static hr_status write(quantizing *x, hri_why *why) {
    hri_prose prose = {0};
    hri_quantize_report report = {0};
    const hr_status status = hri_checkpoint_quantize(
        &x->checkpoint, &x->q, x->o.type == HR_QUANTIZED_FP8 ? HRI_QUANTIZE_F8 : HRI_QUANTIZE_I8,
        x->ranges, x->o.out, &report, &prose);
    x->r.layers = report.layers;
    x->r.real_layers = report.real_layers;
    x->r.bytes = report.bytes;
    x->r.bytes_before = report.bytes_before;
    return status == HR_OK ? HR_OK : hri_why_prose(why, hri_cause_of(status), status, NULL, &prose);
}

/* Weights alone: nothing is run. */
static hr_status write_codes(quantizing *x, hri_why *why) {
    hri_prose prose = {0};
    hri_text text = {0};
    hri_quantize_report report = {0};
    hri_text_add(&text, "weights:bits=%s", x->o.weights);
    hr_status status = hri_text_status(&text);
    if (status == HR_OK) {
        hri_passes passes = {0};
        status = hri_passes_parse(hri_text_get(&text), &passes, &prose);
        hri_passes_deinit(&passes);
        if (status != HR_OK && status != HR_E_NOMEM_HOST) {
            hri_text_deinit(&text);
            return hri_why_option(why, HR_E_INVALID, "weights", ": \"%s\" (%s)", x->o.weights,
                                  prose.text);
        }
    }
    if (status == HR_OK) {
        status = hri_checkpoint_weight_codes(&x->checkpoint, x->g, hri_text_get(&text), x->o.out,
                                             &report, &prose);
    }
    hri_text_deinit(&text);
    x->r.layers = report.layers;
    x->r.bytes = report.bytes;
    x->r.bytes_before = report.bytes_before;
    const hr_cause cause = status == HR_E_UNSUPPORTED ? HR_CAUSE_DATA : hri_cause_of(status);
    return status == HR_OK ? HR_OK : hri_why_prose(why, cause, status, NULL, &prose);
}

static hr_status run(hr_ctx *ctx, quantizing *x, hri_why *why) {
    hr_infer_options from;
    if (x->o.weights) {
        return write_codes(x, why);
    }
    if (x->learned) {
        const hr_status learned = learned_ranges(x, why);
        return learned == HR_OK ? write(x, why) : learned;
    }
    if (!x->o.infer->data && !x->o.infer->pipeline) {
        return hri_why_option(why, HR_E_INVALID, "data",
                              " is missing: ranges come from samples, or from training with `qat`");
    }
    hr_status status = hri_take(&from, sizeof from, x->o.infer);
    from.no_labels = 1;
    if (status == HR_OK) {
        status = hri_infer_open(ctx, &from,
                                x->o.type == HR_QUANTIZED_FP8 ? "quantize:to=observe-f8"
                                                              : "quantize:to=observe",
                                &x->p, why);
    }
    status = status == HR_OK ? calibrate(x, why) : status;
    hr_predictor_close(x->p);
    return status == HR_OK ? write(x, why) : status;
}

hr_status hr_quantize(hr_ctx *ctx, const hr_quantize_options *options, hr_quantize_result *out,
                      hr_error *error) {
    hri_why why = {0};
    quantizing x = {.checkpoint = {.file = {.fd = -1}}, .r = {.size = sizeof x.r}};
    hr_status status = hri_take(&x.o, sizeof x.o, options);
    status = status == HR_OK ? check(&x.o, &why) : status;
    status = status == HR_OK ? look(&x, &why) : status;
    status = status == HR_OK ? run(ctx, &x, &why) : status;
    hri_quantizing_deinit(&x.q);
    hri_free(x.ranges);
    hr_graph_destroy(x.g);
    hri_checkpoint_close(&x.checkpoint);
    if (status == HR_OK) {
        return out ? hri_give(out, &x.r, sizeof x.r) : HR_OK;
    }
    hri_why_give(&why, status, error);
    return status;
}

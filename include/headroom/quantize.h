/* Quantization after training: a checkpoint whose layers compute in 8 bits.
 *
 *   hr_infer_options infer = {.size = sizeof infer, .checkpoint = "runs/flowers", .data = "images:train", .budget = "200MiB"};
 *   hr_quantize_options o = {.size = sizeof o, .infer = &infer, .out = "flowers-int8.safetensors"};
 *   hr_quantize(ctx, &o, &result, &why);
 *
 * Calibration runs the model over some samples, inside the budget as evaluation does, and counts every activation that will
 * be bytes in a histogram of fixed size: memory does not depend on the number of samples.  Then batch norms are folded and
 * weights rounded, one layer at a time, and the file is written.  A checkpoint of training with fake quantization (the pass "qat")
 * has the ranges: infer needs no data then, and none is read.  hr_predictor_open takes it as any other checkpoint.
 * Failures have a cause, as in job.h.  Threads: one at a time.
 *
 * With `weights` linear layers, those of language models for example, get weights of 8 or 4 bits, which products decode; no
 * data is needed, nothing is calibrated, and adapters can be trained over the file (passes "lora", docs/compression.md). */
#ifndef HEADROOM_QUANTIZE_H
#define HEADROOM_QUANTIZE_H

#include <headroom/predictor.h>

HR_BEGIN_DECLS

/* How ranges of activations are chosen from what was seen. */
typedef enum hr_calibration {
    HR_CALIBRATION_MINMAX = 0, /* all of it */
    HR_CALIBRATION_PERCENTILE, /* without the outermost 0.01 % on each side */
    HR_CALIBRATION_ENTROPY,    /* least information lost */
    HR_CALIBRATION_MSE         /* least squared error */
} hr_calibration;

/* What layers compute in. */
typedef enum hr_quantized_type {
    HR_QUANTIZED_INT8 = 0,
    HR_QUANTIZED_FP8 /* 8-bit floats, e4m3: tensor cores from Ada and Hopper on; elsewhere smaller, not faster */
} hr_quantized_type;

/* Set size to sizeof(hr_quantize_options).  Zero is the default in every field except infer and out. */
typedef struct hr_quantize_options {
    size_t size;
    const hr_infer_options *infer; /* checkpoint, data for calibration, budget; on the host */
    const char *out;               /* the file to write */
    uint64_t samples;              /* for calibration; 0: 256 */
    int32_t method;                /* hr_calibration */
    int32_t type;                  /* hr_quantized_type: what layers compute in */
    /* "8", "4" or "4,group=32": weights of linear layers alone become codes of so many bits, everything else stays f32, and
     * infer has a checkpoint but no data; NULL: `type`. */
    const char *weights;
} hr_quantize_options;

/* Set size to sizeof(hr_quantize_result). */
typedef struct hr_quantize_result {
    size_t size;
    uint64_t samples;      /* of calibration; 0: there was none */
    uint64_t layers;       /* that compute in bytes */
    uint64_t real_layers;  /* convolutions and linear layers that stay as they are */
    uint64_t ranges;       /* activations that are bytes */
    uint64_t bytes;        /* of the tensors in the file */
    uint64_t bytes_before; /* of the model's tensors before */
    uint64_t planned_peak_bytes, measured_peak_bytes; /* of calibration */
    double seconds;                                   /* of calibration */
} hr_quantize_result;

/* HR_E_NO_PLAN: calibration does not fit the budget.  HR_E_UNSUPPORTED: nothing in the model can be quantized, or it is
 * quantized already.  Otherwise as hr_predictor_open; *why and *out may be NULL. */
HR_API HR_MUST_CHECK hr_status hr_quantize(hr_ctx *ctx, const hr_quantize_options *options,
                                           hr_quantize_result *out, hr_error *why);

HR_END_DECLS

#endif

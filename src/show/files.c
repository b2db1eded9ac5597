/* See files.h. */
#include "base/prose.h"
#include "show/files.h"

#include <headroom/bytes.h>

const char hri_merge_help[] =
    "CHECKPOINT is the directory of a run that was trained with --lora (its best parameters are "
    "used, or else its last) or a file in it. Each weight W with adapters A and B becomes W + "
    "alpha / rank * B A, computed in f64 and rounded to f32 once. The file that is written is a "
    "checkpoint of the model without adapters: eval, predict and --init take it, and other "
    "programs load it as they load the model's own file.";

void hri_merge_show(const char *path, const hr_merge_result *r, hri_out *out) {
    char size[32];
    hri_out_printf(out, "merged the adapters of %llu layers: %s has %llu parameters, %s\n",
                   (unsigned long long)r->layers, path, (unsigned long long)r->parameters,
                   hr_bytes_print(r->bytes, size, sizeof size));
}

void hri_merge_json(const char *path, const hr_merge_result *r, hri_json *json) {
    hri_json_string(json, "file", path);
    hri_json_u64(json, "layers", r->layers);
    hri_json_u64(json, "parameters", r->parameters);
    hri_json_u64(json, "bytes", r->bytes);
}

const char hri_quantize_help[] =
    "CHECKPOINT is the directory of a run (its best parameters are used, or else its last) or a "
    "file in it. Batch norms are folded into the layers before them. Weights of convolutions and "
    "linear layers become 8-bit integers with a scale for each output, activations 8-bit integers "
    "with a scale and a zero point each. With --type fp8 both are 8-bit floats (e4m3), sums and "
    "what is between the layers f32; GPUs from Ada and Hopper on multiply them as they are.\n\nThe "
    "ranges of activations come from calibration: the "
    "model runs over some samples of --data and counts what it sees in histograms of fixed size. "
    "It is planned like an evaluation: the budget covers everything that the system reports for "
    "the process, whatever the number of samples. minmax takes the whole range that was seen, "
    "percentile drops 0.01 % on each side, entropy and mse choose the bounds that lose the "
    "least information and have the least squared error. A run with --qat has learned its "
    "ranges and needs no data.\n\neval and predict run the file in this "
    "arithmetic. It cannot be trained.\n\n--weights 8 or 4 is for language models: weights "
    "of linear layers become codes with a scale for each output (8) or each group of 64 inputs (4, "
    "with a zero point), the head, embeddings and activations stay f32. eval, predict and generate "
    "run the file.";

void hri_quantize_show(const char *path, const hr_quantize_result *r, hri_out *out) {
    char a[32], b[32], c[32], d[32];
    if (!r->samples && !r->ranges) { /* weights alone */
        hri_out_printf(out,
                       "packed the weights of %llu layers: %s has %s of parameters, %s before\n",
                       (unsigned long long)r->layers, path, hr_bytes_print(r->bytes, a, sizeof a),
                       hr_bytes_print(r->bytes_before, b, sizeof b));
        return;
    }
    hri_out_printf(out, "quantized %llu layers to 8 bits: %s has %s of parameters, %s before\n",
                   (unsigned long long)r->layers, path, hr_bytes_print(r->bytes, a, sizeof a),
                   hr_bytes_print(r->bytes_before, b, sizeof b));
    if (r->real_layers) {
        hri_out_printf(out, "  %llu layers stay in f32: their sums are too deep\n",
                       (unsigned long long)r->real_layers);
    }
    if (!r->samples) {
        hri_out_printf(out, "  %llu activations have the ranges that training learned (--qat)\n",
                       (unsigned long long)r->ranges);
        return;
    }
    hri_out_printf(out,
                   "  calibrated %llu activations on %llu sample%s in %.1f s: %s planned, %s "
                   "measured\n",
                   (unsigned long long)r->ranges, (unsigned long long)r->samples,
                   hri_plural(r->samples), r->seconds,
                   hr_bytes_print(r->planned_peak_bytes, c, sizeof c),
                   hr_bytes_print(r->measured_peak_bytes, d, sizeof d));
}

void hri_quantize_json(const char *path, const hr_quantize_result *r, hri_json *json) {
    hri_json_string(json, "file", path);
    hri_json_u64(json, "layers", r->layers);
    hri_json_u64(json, "real_layers", r->real_layers);
    hri_json_u64(json, "ranges", r->ranges);
    hri_json_u64(json, "samples", r->samples);
    hri_json_u64(json, "bytes", r->bytes);
    hri_json_u64(json, "bytes_before", r->bytes_before);
    hri_json_u64(json, "planned_peak_bytes", r->planned_peak_bytes);
    hri_json_u64(json, "measured_peak_bytes", r->measured_peak_bytes);
    hri_json_double(json, "seconds", r->seconds);
}

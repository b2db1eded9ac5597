/* headroom quantize: a checkpoint whose layers compute in 8 bits. */
#include "cli/common/command.h"
#include "cli/common/inference.h"
#include "cli/common/outputs.h"
#include "cli/common/spell.h"
#include "passes/common/threshold.h"
#include "show/files.h"

typedef struct quantize_options {
    const char *data, *out, *budget, *weights;
    int method, type;
    int64_t samples;
    bool json;
} quantize_options;

#define AT(FIELD) offsetof(quantize_options, FIELD)

static const char *const types[] = {"int8", "fp8", NULL};

static const hri_field fields[] = {
    {"data", "samples for calibration, as in eval", AT(data), HRI_FIELD_STRING, NULL,
     .metavar = "SRC"},
    {"budget", "memory limit; default: all that is free", AT(budget), HRI_FIELD_SIZE, NULL,
     .metavar = "SIZE"},
    {"method", "how ranges are chosen", AT(method), HRI_FIELD_ENUM, "minmax",
     .choices = hri_threshold_names},
    {"type", "what layers compute in; fp8: 8-bit floats (e4m3), for GPUs", AT(type), HRI_FIELD_ENUM,
     "int8", .choices = types},
    {"samples", "samples of the data to use", AT(samples), HRI_FIELD_INT, "256", .min = 1,
     .max = 1e9, .metavar = "N"},
    {"weights", "only weights of linear layers, in 8 or 4 bits; no data needed", AT(weights),
     HRI_FIELD_STRING, NULL, .metavar = "8|4[,group=N]"},
    {"out", "file to write", AT(out), HRI_FIELD_STRING, NULL, .metavar = "FILE", .letter = 'o'},
    {"json", "print one JSON object", AT(json), HRI_FIELD_BOOL, .value = NULL},
    {0},
};

static int run(hri_cli *cli, const void *options, int count, const char *const *arguments) {
    const quantize_options *o = options;
    const hr_infer_options from = {
        .size = sizeof from, .checkpoint = arguments[0], .data = o->data, .budget = o->budget};
    const hr_quantize_options q = {.size = sizeof q,
                                   .infer = &from,
                                   .out = o->out,
                                   .samples = (uint64_t)o->samples,
                                   .method = o->method,
                                   .type = o->type,
                                   .weights = o->weights};
    hr_quantize_result r = {.size = sizeof r};
    hr_error error = {0};
    hr_ctx *ctx = NULL;
    hri_json json;
    (void)count;
    if (!o->out) {
        hri_say_error(cli, "quantize: --out is required, for example --data images:DIR -o "
                           "int8.safetensors");
        return HRI_EXIT_USAGE;
    }
    int code = hri_cli_output_check(cli, "--out", o->out, HRI_OUTPUT_FILE);
    code = code == HRI_EXIT_YES ? hri_cli_open_for(cli, "host", &ctx) : code;
    if (code != HRI_EXIT_YES) {
        return code;
    }
    const hr_status status = hr_quantize(ctx, &q, &r, &error);
    hr_ctx_destroy(ctx);
    if (status != HR_OK) {
        return hri_cli_error(cli, &error);
    }
    if (o->json) {
        hri_cli_json_start(&json);
        hri_quantize_json(o->out, &r, &json);
        return hri_cli_json_end(cli, &json, HRI_EXIT_YES);
    }
    hri_quantize_show(o->out, &r, &cli->out);
    return HRI_EXIT_YES;
}

const hri_command hri_command_quantize = {
    .name = "quantize",
    .summary = "make a checkpoint that computes in 8 bits, or has small weights",
    .arguments = "CHECKPOINT",
    .choices = "",
    .arguments_min = 1,
    .arguments_max = 1,
    .help = hri_quantize_help,
    .examples = {{"headroom quantize runs/flowers --data images:flowers --budget 200MiB -o "
                  "int8.safetensors",
                  "calibrate within 200 MiB"},
                 {"headroom quantize runs/gpt2 --weights 4 -o w4.safetensors", "4-bit weights"}},
    .fields = fields,
    .options_bytes = sizeof(quantize_options),
    .run = run,
};

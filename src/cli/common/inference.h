/* What `headroom eval` and `headroom predict` share: flags, progress, and the memory that was planned and measured. */
#ifndef HRI_CLI_INFERENCE_H
#define HRI_CLI_INFERENCE_H

#include <headroom/predictor.h>
#include "cli/common/cli.h"
#include "show/infer.h"
#include "show/progress.h"

typedef struct hri_inference_flags {
    const char *batch, *budget, *device, *wait, *model, *weights;
    uint64_t data_budget_bytes;
    bool skip_bad, json;
} hri_inference_flags;

/* The rows of both tables, over a struct TYPE that has an hri_inference_flags `shared`. */
#define HRI_INFERENCE_FIELDS(TYPE)                                                                 \
    {"model",                                                                                      \
     "instead of CHECKPOINT: the model that --weights belong to",                                  \
     offsetof(TYPE, shared.model),                                                                 \
     HRI_FIELD_STRING,                                                                             \
     NULL,                                                                                         \
     .metavar = "MODEL"},                                                                          \
        {"weights",                                                                                \
         "parameters of --model: safetensors, its index or .pth",                                  \
         offsetof(TYPE, shared.weights),                                                           \
         HRI_FIELD_STRING,                                                                         \
         NULL,                                                                                     \
         .metavar = "FILE",                                                                        \
         .needs = "model"},                                                                        \
        {"batch",                                                                                  \
         "samples per batch, fewer if they do not fit; auto: up to 64",                            \
         offsetof(TYPE, shared.batch),                                                             \
         HRI_FIELD_STRING,                                                                         \
         "auto",                                                                                   \
         .metavar = "N"},                                                                          \
        {"budget",                                                                                 \
         "memory limit, or a share of the device; default: all that is free",                      \
         offsetof(TYPE, shared.budget),                                                            \
         HRI_FIELD_SIZE,                                                                           \
         NULL,                                                                                     \
         .metavar = "SIZE"},                                                                       \
        {"device",         "host or cuda:0", offsetof(TYPE, shared.device),                        \
         HRI_FIELD_STRING, "host",           .metavar = "DEVICE"},                                 \
        {"wait",                                                                                   \
         "on a GPU: how long to wait for the --budget when other programs hold it: 30s, 10m, 2h; " \
         "0: not at all",                                                                          \
         offsetof(TYPE, shared.wait),                                                              \
         HRI_FIELD_STRING,                                                                         \
         "0",                                                                                      \
         .metavar = "TIME",                                                                        \
         .needs = "device=cuda*"},                                                                 \
        {"data-budget",                                                                            \
         "RAM of the input pipeline, part of the budget; default: as little as possible",          \
         offsetof(TYPE, shared.data_budget_bytes),                                                 \
         HRI_FIELD_BYTES,                                                                          \
         NULL,                                                                                     \
         .metavar = "SIZE"},                                                                       \
    {                                                                                              \
        "skip-bad", "skip samples that cannot be read, and name them",                             \
            offsetof(TYPE, shared.skip_bad), HRI_FIELD_BOOL, .value = NULL                         \
    }

typedef struct hri_inference {
    hri_cli *cli;
    const hri_inference_flags *flags;
    hr_ctx *ctx;
    hr_predictor *predictor;
    hr_infer_info info;
    hr_infer_result result;
    int32_t split;
    bool quiet; /* no progress: results go to the same terminal as they come */
    hri_out err;
    hri_progress progress;
    uint64_t begun_ns;
} hri_inference;

/* Opens what the flags and options (checkpoint, data, split, no_labels) say.  An exit code; what is wrong was said, and a
 * refusal shown.  close is allowed after a failure, and on a zeroed one. */
int hri_inference_open(hri_cli *cli, const hri_inference_flags *flags,
                       const hr_infer_options *options, hri_inference *out);
void hri_inference_close(hri_inference *i);
/* After a pass: ends the line of progress and says what failed or was left out.  error: of a call that gave `status`. */
int hri_inference_end(hri_inference *i, hr_status status, const hr_error *error);

/* What is shown of it. */
hri_infer_sheet hri_inference_sheet(const hri_inference *i);
/* HRI_EXIT_FAULT, after a sentence, when more was measured than the budget allows; otherwise `code`. */
int hri_inference_verdict(const hri_inference *i, int code);

#endif

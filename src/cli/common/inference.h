/* What `headroom eval` and `headroom predict` share: a checkpoint, data, a device and a budget become a predictor.
 *
 * The one idea: the same budget rules as in training.  The budget bounds everything that the outside sees of the
 * process; the answer comes before the first sample; at the end stands what was planned beside what was measured. */
#ifndef HRI_CLI_INFERENCE_H
#define HRI_CLI_INFERENCE_H

#include "cli/common/cli.h"
#include "cli/common/progress.h"
#include "loop/predictor.h"

typedef struct hri_inference_flags {
    const char *batch, *budget, *device;
    uint64_t data_budget_bytes;
    bool skip_bad, json;
} hri_inference_flags;

/* The rows of both tables, over a struct TYPE that has an hri_inference_flags `shared`. */
#define HRI_INFERENCE_FIELDS(TYPE)                                                                 \
    {"batch",                                                                                      \
     "samples at once, or auto: as many as fit, 64 at most",                                       \
     offsetof(TYPE, shared.batch),                                                                 \
     HRI_FIELD_STRING,                                                                             \
     "auto",                                                                                       \
     .metavar = "N"},                                                                              \
        {"budget",                                                                                 \
         "the most that may ever be used, or a share of the device; default: what it has free",    \
         offsetof(TYPE, shared.budget),                                                            \
         HRI_FIELD_SIZE,                                                                           \
         NULL,                                                                                     \
         .metavar = "SIZE"},                                                                       \
        {"device",         "host or cuda:0", offsetof(TYPE, shared.device),                        \
         HRI_FIELD_STRING, "host",           .metavar = "DEVICE"},                                 \
        {"data-budget",                                                                            \
         "RAM of the input pipeline, out of the budget; default: as little as serves",             \
         offsetof(TYPE, shared.data_budget_bytes),                                                 \
         HRI_FIELD_BYTES,                                                                          \
         NULL,                                                                                     \
         .metavar = "SIZE"},                                                                       \
    {                                                                                              \
        "skip-bad", "leave samples out that cannot be read, and name them",                        \
            offsetof(TYPE, shared.skip_bad), HRI_FIELD_BOOL, .value = NULL                         \
    }

/* Which samples: all, or those that the checkpoint's training learnt from or kept apart (train --val-split). */
typedef enum hri_split_of { HRI_SPLIT_ALL = 0, HRI_SPLIT_TRAIN, HRI_SPLIT_VAL } hri_split_of;

typedef struct hri_inference_options {
    const hri_inference_flags *flags;
    const char *checkpoint;
    const char *data; /* a source or a pipeline */
    int split;        /* hri_split_of */
    bool predict;     /* labels are not looked at */
    bool quiet;       /* no progress: results go to the same terminal as they come */
    void (*seen)(void *user, uint32_t index, const hr_element *sample);
    void *seen_user;
} hri_inference_options;

typedef struct hri_inference {
    hri_cli *cli;
    const hri_inference_flags *flags;
    hr_ctx *ctx;
    hr_device *device;
    hri_checkpoint checkpoint;
    hr_model *model;
    hri_model_input want;
    hri_source source;
    hri_supply *supply;
    hri_predictor *predictor;
    int32_t *label_map; /* NULL: the data numbers its classes as the model does */
    uint64_t budget_bytes, data_bytes;
    uint64_t begun_ns, samples;
    uint64_t bad_said; /* bad samples that were named already */
    bool quiet;
    hri_out err;
    hri_progress progress;
} hri_inference;

/* An exit code; what is wrong was said.  close is allowed after a failure, and on a zeroed one. */
int hri_inference_open(hri_cli *cli, const hri_inference_options *o, hri_inference *out);
void hri_inference_close(hri_inference *i);
/* One batch, with progress on stderr: HRI_EXIT_YES; *over at the end of the data. */
int hri_inference_next(hri_inference *i, bool *over);
/* Ends the line of progress and names what was left out. */
void hri_inference_end(hri_inference *i);

/* "star", or the number of a class without a name. */
const char *hri_inference_class(const hri_inference *i, int64_t number, char *buf, size_t size);
/* Planned and measured memory, for people and as keys of an object. */
void hri_inference_show(hri_inference *i);
void hri_inference_json(const hri_inference *i, hri_json *json);
/* HRI_EXIT_FAULT, after a sentence, when more was measured than the budget allows; otherwise `code`. */
int hri_inference_verdict(const hri_inference *i, int code);

#endif

/* A trained model and the place to run it: what evaluation, prediction and generation begin with.
 *
 * A checkpoint (a file, the folder of a run, or a model file with its weights), the model in it and what it takes; the device,
 * what other processes leave of it, and the budget. */
#ifndef HRI_JOB_TRAINED_H
#define HRI_JOB_TRAINED_H

#include "govern/admission.h"
#include "job/why.h"
#include "loop/source.h"
#include "passes/common/pass.h"
#include "weights/checkpoint.h"

typedef struct hri_trained {
    hri_listener listener;
    hri_checkpoint checkpoint;
    hr_model *model;
    bool borrowed;     /* the model is the caller's */
    hri_passes passes; /* over the model, as the checkpoint says */
    hri_model_input want;
    hr_device *device;
    hri_admission *admission; /* of a GPU: reserved between processes; NULL: nobody counts */
    bool said_waiting;
    uint64_t budget_bytes;
} hri_trained;

typedef struct hri_trained_options {
    const char *checkpoint;
    const char *model; /* of a file of parameters as the checkpoint; NULL: it says so itself */
    const char *more_passes;      /* behind those of the checkpoint; NULL: none */
    const hr_model *custom_model; /* of a checkpoint that cannot contain its graph; NULL: it does */
    const char *device, *budget;  /* budget NULL: all that is free */
    struct hr_budget *ledger;
    uint64_t wait_ms;
} hri_trained_options;

/* Before anything else; hri_trained_close is then allowed. */
void hri_trained_init(hri_trained *t, hri_listener listener);
/* HR_E_NOT_FOUND, HR_E_FORMAT: the checkpoint.  HR_E_UNSUPPORTED: the device runs no kernels.  HR_E_INVALID: an option. */
HR_MUST_CHECK hr_status hri_trained_open(hri_trained *t, hr_ctx *ctx, const hri_trained_options *o,
                                         hri_why *why);
void hri_trained_close(hri_trained *t);

/* The least that an input pipeline with this smallest working set works well with (input.c).  A matter of the data alone: a
 * share that moved with the budget would move the smallest budget. */
uint64_t hri_input_least_bytes(uint64_t smallest_bytes);

#endif

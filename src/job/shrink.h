/* headroom shrink: a smaller model of a run, what it saves, and its files.
 *
 *   small.safetensors   a checkpoint of parameters, with the smaller model's graph in it: eval, predict and --init take it
 *   small.hr            the model file, which names the other: `headroom train small.hr` goes on from there
 *
 * Bytes are those of the planner for the graphs of one step, nothing recomputed: tensors and workspaces of one thread, without the
 * process itself.  They are known before anything is written, and the same whether or not it is. */
#ifndef HRI_JOB_SHRINK_H
#define HRI_JOB_SHRINK_H

#include "job/why.h"
#include "weights/shrink.h"

typedef struct hri_shrink_job {
    const char *checkpoint; /* a file, or the folder of a run */
    const char *out;        /* NULL: nothing is written */
    hri_shrink_options how;
    int64_t batch; /* of the training that is compared; 0: the run's */
} hri_shrink_job;

typedef struct hri_shrink_side {
    uint64_t parameters;
    double flops;             /* of one sample, forward */
    uint64_t training_bytes;  /* of a step: parameters, optimizer state, gradients, activations */
    uint64_t inference_bytes; /* the same of one sample, forward */
    uint64_t file_bytes;      /* of its tensors in files */
} hri_shrink_side;

typedef struct hri_shrink_result {
    hri_shrink_report report;
    hri_shrink_side before, after;
    int64_t batch;
    char optimizer[16];
    int had_state;        /* 1: the checkpoint has optimizer state, which is not taken over */
    char model_path[512]; /* "" when nothing was written */
} hri_shrink_result;

HR_MUST_CHECK hr_status hri_shrink(const hri_shrink_job *job, hri_shrink_result *out, hri_why *why);

#endif

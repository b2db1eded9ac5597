/* What quantization would save in inference and on disk, found by building and planning, not by running. */
#ifndef HRI_JOB_COMPRESSION_H
#define HRI_JOB_COMPRESSION_H

#include "job/plan_job.h"

typedef struct hri_quantized_bytes {
    uint64_t layers;                  /* whose weights become smaller; 0: it was not asked for */
    uint64_t real_layers;             /* convolutions and linear layers that stay as they are */
    uint64_t file, file_before;       /* of the tensors in the file: what hr_quantize reports */
    uint64_t infer, infer_before;     /* arena of an evaluation of the batch, on one thread */
    uint64_t weights, weights_before; /* of it persistent: parameters, scales, statistics */
} hri_quantized_bytes;

/* text: "int8" as `headroom quantize --data` does, else "8" or "4[,group=N]" as its --weights.  HR_E_INVALID,
 * HR_E_UNSUPPORTED with a sentence. */
HR_MUST_CHECK hr_status hri_quantized_look(const hri_plan_job *j, const char *text,
                                           hri_quantized_bytes *out, hri_prose *why);

#endif

/* cuDNN as a part of an hri_gpu: graphs met so far, their engines, the choice among them.  Convolutions (gpu_conv.c) and
 * attention (gpu_attention.c) describe their graphs; all else is the same for both and stands in gpu_dnn.c. */
#ifndef HRI_DEVICE_CUDA_GPU_DNN_H
#define HRI_DEVICE_CUDA_GPU_DNN_H

#include "device/cuda/cudnn.h"
#include "device/cuda/gpu_tune.h"

typedef struct hri_gpu_dnn_record {
    hri_dnn_graph graph;
    hri_dnn_plan plans[HRI_GPU_CANDIDATES];
    uint32_t count; /* 0: the library refuses it; 1 once one was chosen */
    int tuned;
} hri_gpu_dnn_record;

/* Opened at first use, outside captures; NULL: there is none. */
const hri_dnn *hri_gpu_dnn(hri_gpu *gpu);
/* Builds the graph of `problem` into r->graph and its plans; `tag`: the only engine wanted, or NULL. */
typedef hr_status hri_gpu_dnn_build(hri_gpu *gpu, const void *problem, const char *tag,
                                    hri_gpu_dnn_record *r);
/* The record under `key`, made by `build` at first; NULL when the library refuses the graph (the detail says why). */
hri_gpu_dnn_record *hri_gpu_dnn_find(hri_gpu *gpu, const char *key, const void *problem,
                                     hri_gpu_dnn_build *build);
/* Work space of the engines within the limit, at most. */
uint64_t hri_gpu_dnn_need(const hri_gpu_dnn_record *r, uint64_t limit);
/* Runs the engine of choice, which is found in the first trial (`contest` has the operands and results, nothing else);
 * without one the library's guess.  HR_E_UNSUPPORTED when the work space is too small for all. */
HR_MUST_CHECK hr_status hri_gpu_dnn_run(hri_gpu *gpu, hri_gpu_dnn_record *r, const char *key,
                                        const hri_gpu_contest *contest, const hri_dnn_bound *bound,
                                        uint32_t count, hr_addr workspace,
                                        uint64_t workspace_bytes);

/* The graphs of convolutions and attention, for tests of them without a device. */
void hri_gpu_conv_graph(hri_dnn_graph *g, const hri_gpu_conv *x);
void hri_gpu_attention_graph(hri_dnn_graph *g, const hri_gpu_attention *x);

#endif

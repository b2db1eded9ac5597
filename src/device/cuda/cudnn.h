/* cuDNN's graph interface in plain C: graphs of a few operations, the engines that can run them, one run.
 *
 *   hri_dnn_graph g;
 *   hri_dnn_graph_init(&g, dnn);
 *   x = hri_dnn_tensor(&g, ...); ...; hri_dnn_convolution(&g, ...);     failures are sticky
 *   status = hri_dnn_plans(&g, &wish, plans, 8, &count);                best guess first
 *   status = hri_dnn_run(dnn, stream, &plans[0], bound, 3, workspace);
 *   hri_dnn_graph_deinit(&g);                                           with its plans
 *
 * The library is opened at run time.  Without a device (`deviceless`, a description of one as JSON) everything up to the
 * plans works too: that is how graphs are tested on machines without a GPU.  What the library refuses is told in words
 * with the name of the attribute (`text`), because its codes alone say little. */
#ifndef HRI_DEVICE_CUDA_CUDNN_H
#define HRI_DEVICE_CUDA_CUDNN_H

#include <headroom/graph.h>
#include "base/log.h"
#include "device/cuda/cuda_load.h"
#include "device/cuda/cudnn_min.h"

typedef struct hri_dnn {
#define HRI_DNN_FN(RETURNS, NAME, PARAMETERS) RETURNS(*NAME) PARAMETERS;
#include "device/cuda/cudnn_api.def"
#undef HRI_DNN_FN
    void *library;
    int found;  /* the library is there, with all functions */
    int usable; /* and a handle or a described device too */
    size_t version;
    cudnnHandle_t handle;
    cudnnBackendDescriptor_t device; /* deviceless */
    char why_not[HRI_CUDA_TEXT];
} hri_dnn;

/* Opens the library alone; always leaves `out` whole.  unload takes away what start made, too. */
void hri_dnn_load(hri_dnn *out);
void hri_dnn_unload(hri_dnn *dnn);
/* Sets usable, or why_not.  With a JSON text no device is touched. */
void hri_dnn_start(hri_dnn *dnn, const char *deviceless);

enum { HRI_DNN_DESCRIPTORS = 192, HRI_DNN_OPS = 32, HRI_DNN_TAG = 160 };

typedef struct hri_dnn_graph {
    const hri_dnn *dnn;
    cudnnBackendDescriptor_t owned[HRI_DNN_DESCRIPTORS], ops[HRI_DNN_OPS];
    uint32_t owned_count, op_count;
    int failed;
    char text[512]; /* of the first failure */
} hri_dnn_graph;

void hri_dnn_graph_init(hri_dnn_graph *g, const hri_dnn *dnn);
void hri_dnn_graph_deinit(hri_dnn_graph *g);

enum { HRI_DNN_VIRTUAL = 1, HRI_DNN_BY_VALUE = 2 };
cudnnDataType_t hri_dnn_type(hr_type type);
cudnnBackendDescriptor_t hri_dnn_tensor(hri_dnn_graph *g, int64_t uid, cudnnDataType_t type,
                                        int rank, const int64_t *dim, const int64_t *stride,
                                        int flags);

/* Two-dimensional; arrays of down and across. */
typedef struct hri_dnn_window {
    int64_t stride[2], before[2], after[2], dilation[2];
} hri_dnn_window;
/* kind: 0 forward (x, w, y), 1 for the input (dx, w, dy), 2 for the weights (x, dw, dy). */
void hri_dnn_convolution(hri_dnn_graph *g, int kind, const hri_dnn_window *window,
                         cudnnBackendDescriptor_t x, cudnnBackendDescriptor_t w,
                         cudnnBackendDescriptor_t y);
void hri_dnn_matmul(hri_dnn_graph *g, cudnnBackendDescriptor_t a, cudnnBackendDescriptor_t b,
                    cudnnBackendDescriptor_t y, double padding);
/* The same of a part of each matrix of a batch: rows and columns of y and what is summed, as (B, 1, 1, 1) i32 tensors; NULL: all. */
typedef struct hri_dnn_part {
    cudnnBackendDescriptor_t m, n, k;
} hri_dnn_part;
void hri_dnn_matmul_part(hri_dnn_graph *g, cudnnBackendDescriptor_t a, cudnnBackendDescriptor_t b,
                         cudnnBackendDescriptor_t y, hri_dnn_part part);
/* b and t may be NULL; axis counts with GEN_INDEX alone. */
void hri_dnn_pointwise(hri_dnn_graph *g, cudnnPointwiseMode_t mode, cudnnBackendDescriptor_t x,
                       cudnnBackendDescriptor_t b, cudnnBackendDescriptor_t t,
                       cudnnBackendDescriptor_t y, int64_t axis);
void hri_dnn_reduction(hri_dnn_graph *g, cudnnReduceTensorOp_t op, cudnnBackendDescriptor_t x,
                       cudnnBackendDescriptor_t y);

/* The same numbers seen with other dimensions and strides. */
void hri_dnn_reshape(hri_dnn_graph *g, cudnnBackendDescriptor_t x, cudnnBackendDescriptor_t y);

typedef struct hri_dnn_plan {
    cudnnBackendDescriptor_t plan;
    uint64_t workspace_bytes;
    char tag[HRI_DNN_TAG]; /* engine and knobs: "12:2=3,14=1" */
} hri_dnn_plan;

typedef struct hri_dnn_wish {
    uint64_t limit_bytes;
    int deterministic; /* engines that are not are left out */
    int exact;         /* engines that round their inputs are left out */
    const char *tag;   /* NULL: any; else this one alone, if it is there */
    int64_t without;   /* the number of an engine that is left out, counted from 1; 0: none */
} hri_dnn_wish;

/* At most `most` plans that the library can build, by its own guess of speed.  HR_E_UNSUPPORTED with g->text when there
 * is none.  They live as long as the graph. */
HR_MUST_CHECK hr_status hri_dnn_plans(hri_dnn_graph *g, const hri_dnn_wish *wish, hri_dnn_plan *out,
                                      uint32_t most, uint32_t *out_count);

typedef struct hri_dnn_bound {
    int64_t uid;
    const void *at; /* an address of the device; of the host for values */
} hri_dnn_bound;
enum { HRI_DNN_BOUND = 24 };
/* text has 512 bytes. */
HR_MUST_CHECK hr_status hri_dnn_run(const hri_dnn *dnn, cudaStream_t stream,
                                    const hri_dnn_plan *plan, const hri_dnn_bound *bound,
                                    uint32_t count, void *workspace, char *text);

#endif

/* Whole steps: what was put into the queue between begin and end, as one graph that is replayed by one call.
 *
 * Capturing is relaxed: calls that are unsafe in other modes (loading a module for the first time) stay allowed, because
 * warm-up may have left a rare kernel out.  Queues joined by events become part of the capture by the driver's own
 * rules.  A graph is uploaded when it is made, so that its memory is taken then and not at the first replay. */
#include <string.h>
#include "base/alloc.h"
#include "device/cuda/gpu_state.h"

struct hri_gpu_graph {
    CUgraphExec executable;
};

static hr_status enter(hri_gpu *gpu, int *pushed) {
    if (!gpu->cu->cuStreamBeginCapture_v2 || !gpu->cu->cuStreamEndCapture ||
        !gpu->cu->cuGraphInstantiateWithFlags || !gpu->cu->cuGraphUpload ||
        !gpu->cu->cuGraphLaunch || !gpu->cu->cuGraphExecDestroy || !gpu->cu->cuGraphDestroy) {
        return hri_gpu_fail(gpu, HR_E_UNSUPPORTED, "the driver does not support graph capture");
    }
    const hr_status status = hri_gpu_ready(gpu);
    return status == HR_OK ? hri_cuda_enter(gpu->dev, pushed) : status;
}

hr_status hri_gpu_capture_begin(hri_gpu *gpu) {
    int pushed;
    hr_status status = enter(gpu, &pushed);
    if (status != HR_OK) {
        return status;
    }
    const CUresult result =
        HRI_FAULT(LAUNCH)
            ? CUDA_ERROR_UNKNOWN
            : gpu->cu->cuStreamBeginCapture_v2(gpu->stream, CU_STREAM_CAPTURE_MODE_RELAXED);
    status = hri_gpu_check(gpu, "cuStreamBeginCapture", result);
    gpu->capturing = status == HR_OK;
    hri_cuda_leave(gpu->dev, pushed);
    return status;
}

/* Makes `graph` executable and gives it back. */
static hr_status instantiate(hri_gpu *gpu, CUgraph graph, hri_gpu_graph *out) {
    CUresult result = HRI_FAULT(LAUNCH)
                          ? CUDA_ERROR_OUT_OF_MEMORY
                          : gpu->cu->cuGraphInstantiateWithFlags(&out->executable, graph, 0);
    hr_status status = hri_gpu_check(gpu, "cuGraphInstantiate", result);
    if (status == HR_OK) {
        result = HRI_FAULT(LAUNCH) ? CUDA_ERROR_OUT_OF_MEMORY
                                   : gpu->cu->cuGraphUpload(out->executable, gpu->stream);
        status = hri_gpu_check(gpu, "cuGraphUpload", result);
    }
    if (status != HR_OK && out->executable) {
        hri_cuda_must(gpu->dev, "cuGraphExecDestroy", gpu->cu->cuGraphExecDestroy(out->executable));
    }
    hri_cuda_must(gpu->dev, "cuGraphDestroy", gpu->cu->cuGraphDestroy(graph));
    return status;
}

hr_status hri_gpu_capture_end(hri_gpu *gpu, hri_gpu_graph **out) {
    if (!gpu->capturing) {
        return hri_gpu_fail(gpu, HR_E_INVALID, "no capture is in progress");
    }
    hri_gpu_graph *made = hri_calloc(1, sizeof *made);
    int pushed;
    hr_status status = made ? enter(gpu, &pushed) : HR_E_NOMEM_HOST;
    if (status != HR_OK) {
        hri_free(made);
        hri_gpu_capture_drop(gpu);
        return status;
    }
    CUgraph graph = NULL;
    gpu->capturing = 0;
    status =
        hri_gpu_check(gpu, "cuStreamEndCapture", gpu->cu->cuStreamEndCapture(gpu->stream, &graph));
    if (status == HR_OK) {
        status = instantiate(gpu, graph, made);
    }
    hri_cuda_leave(gpu->dev, pushed);
    if (status != HR_OK) {
        hri_free(made);
        return status;
    }
    *out = made;
    return HR_OK;
}

void hri_gpu_capture_drop(hri_gpu *gpu) {
    CUgraph graph = NULL;
    int pushed;
    if (!gpu->capturing || hri_cuda_enter(gpu->dev, &pushed) != HR_OK) {
        return;
    }
    gpu->capturing = 0;
    /* An invalid capture ends with an error and without a graph; the queue is usable either way. */
    if (gpu->cu->cuStreamEndCapture(gpu->stream, &graph) == CUDA_SUCCESS && graph) {
        hri_cuda_must(gpu->dev, "cuGraphDestroy", gpu->cu->cuGraphDestroy(graph));
    }
    hri_cuda_leave(gpu->dev, pushed);
}

hr_status hri_gpu_graph_launch(hri_gpu *gpu, hri_gpu_graph *graph) {
    int pushed;
    hr_status status = enter(gpu, &pushed);
    if (status != HR_OK) {
        return status;
    }
    const CUresult result = HRI_FAULT(LAUNCH)
                                ? CUDA_ERROR_UNKNOWN
                                : gpu->cu->cuGraphLaunch(graph->executable, gpu->stream);
    status = hri_gpu_check(gpu, "cuGraphLaunch", result);
    hri_cuda_leave(gpu->dev, pushed);
    return status;
}

void hri_gpu_graph_destroy(hri_gpu *gpu, hri_gpu_graph *graph) {
    int pushed;
    if (!graph) {
        return;
    }
    if (hri_cuda_enter(gpu->dev, &pushed) == HR_OK) {
        hri_cuda_must(gpu->dev, "cuGraphExecDestroy",
                      gpu->cu->cuGraphExecDestroy(graph->executable));
        hri_cuda_leave(gpu->dev, pushed);
    }
    hri_free(graph);
}

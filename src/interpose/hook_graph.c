/* Memory of graphs, and streams that capture.
 *
 * An allocation while a stream captures is a node of a graph and costs nothing yet.  The memory lies in a pool of each device
 * that grows when a graph is launched: the most that it can grow by is taken before, and what it has is asked afterwards. */
#include "interpose/causes.h"
#include "interpose/spill.h"

typedef CUresult graph_attribute_fn(CUdevice, int, void *);
typedef CUresult capturing_fn(CUstream, int *);

static uint64_t graph_reserved(int device) {
    static graph_attribute_fn *get;
    if (!get) {
        get = (graph_attribute_fn *)hri_driver_function("cuDeviceGetGraphMemAttribute");
    }
    uint64_t value = 0;
    return get && get(device, CU_GRAPH_MEM_ATTR_RESERVED_MEM_CURRENT, &value) == CUDA_SUCCESS
               ? value
               : 0;
}

int hri_capturing(CUstream stream) {
    static capturing_fn *get;
    if (!__atomic_load_n(&hri_self.captures, __ATOMIC_ACQUIRE)) {
        return 0;
    }
    if (!get) {
        get = (capturing_fn *)hri_driver_function("cuStreamIsCapturing");
    }
    int status = 0;
    return get && get(stream, &status) == CUDA_SUCCESS && status != 0;
}

void hri_graph_note(int device, uint64_t bytes) {
    pthread_mutex_lock(&hri_self.lock);
    hri_self.device[device].graph_asked += (bytes + HRI_BLOCK - 1) / HRI_BLOCK * HRI_BLOCK;
    pthread_mutex_unlock(&hri_self.lock);
}

/* Charges the device's graph pool with what it has reserved now, of which `taken` bytes are taken already. */
static CUresult settle_graphs(int device, uint64_t taken, hri_hook call) {
    hri_run_device *d = &hri_self.device[device];
    const uint64_t reserved = graph_reserved(device);
    pthread_mutex_lock(&hri_self.lock);
    const uint64_t own = d->graph_bytes + taken;
    d->graph_bytes = reserved;
    pthread_mutex_unlock(&hri_self.lock);
    if (reserved <= own) {
        hri_give(device, own - reserved, call);
        return CUDA_SUCCESS;
    }
    return hri_take(device, reserved - own, call);
}

/* A graph may make its pool grow to the sum of all that graphs were ever asked for, and no further. */
static CUresult take_for_graphs(int device, hri_hook call, uint64_t *out_taken) {
    const hri_run_device *d = &hri_self.device[device];
    *out_taken = d->graph_asked > d->graph_bytes ? d->graph_asked - d->graph_bytes : 0;
    return *out_taken ? hri_take(device, *out_taken, call) : CUDA_SUCCESS;
}

/* A launch is work for the GPU: it passes the gate. */
static CUresult pass_gate(CUresult (*launch)(CUgraphExec, CUstream), CUgraphExec executable,
                          CUstream stream) {
    const bool passing = hri_gate_enter();
    const CUresult result = launch ? launch(executable, stream) : CUDA_ERROR_NOT_FOUND;
    if (passing) {
        hri_gate_leave();
    }
    return result;
}

#define LAUNCH(NAME)                                                                               \
    CUresult NAME(CUgraphExec executable, CUstream stream) {                                       \
        const int device = hri_enter() ? hri_current_device() : -2;                                \
        uint64_t taken = 0;                                                                        \
        if (device < 0 || !hri_self.device[device].graph_asked) { /* almost always: no memory */   \
            const CUresult result = pass_gate(HRI_REAL(NAME), executable, stream);                 \
            return device == -2 ? result : hri_leave(result);                                      \
        }                                                                                          \
        CUresult result = take_for_graphs(device, HRI_HOOK_##NAME, &taken);                        \
        if (result == CUDA_SUCCESS) {                                                              \
            result = pass_gate(HRI_REAL(NAME), executable, stream);                                \
            (void)settle_graphs(device, taken, HRI_HOOK_##NAME);                                   \
        }                                                                                          \
        return hri_leave(result);                                                                  \
    }

LAUNCH(cuGraphLaunch)
LAUNCH(cuGraphLaunch_ptsz)
LAUNCH(cuGraphUpload)
LAUNCH(cuGraphUpload_ptsz)

/* With the flag UPLOAD an instantiation is an upload, too. */
#define INSTANTIATE(NAME)                                                                          \
    CUresult NAME(CUgraphExec *out, CUgraph graph, CUDA_GRAPH_INSTANTIATE_PARAMS *parameters) {    \
        hri_cause_noted(HRI_CAUSE_GRAPHS);                                                         \
        const int device = hri_enter() ? hri_current_device() : -2;                                \
        uint64_t taken = 0;                                                                        \
        if (device < 0 || !parameters || !(parameters->flags & CUDA_GRAPH_INSTANTIATE_UPLOAD) ||   \
            !hri_self.device[device].graph_asked) {                                                \
            const CUresult result = HRI_CALL(NAME, out, graph, parameters);                        \
            return device == -2 ? result : hri_leave(result);                                      \
        }                                                                                          \
        CUresult result = take_for_graphs(device, HRI_HOOK_##NAME, &taken);                        \
        if (result == CUDA_SUCCESS) {                                                              \
            const bool passing = hri_gate_enter();                                                 \
            result = HRI_CALL(NAME, out, graph, parameters);                                       \
            if (passing) {                                                                         \
                hri_gate_leave();                                                                  \
            }                                                                                      \
            (void)settle_graphs(device, taken, HRI_HOOK_##NAME);                                   \
        }                                                                                          \
        return hri_leave(result);                                                                  \
    }

INSTANTIATE(cuGraphInstantiateWithParams)
INSTANTIATE(cuGraphInstantiateWithParams_ptsz)

CUresult cuGraphExecDestroy(CUgraphExec executable) {
    return HRI_CALL(cuGraphExecDestroy, executable);
}

CUresult cuDeviceGraphMemTrim(CUdevice device) {
    if (!hri_enter()) {
        return HRI_CALL(cuDeviceGraphMemTrim, device);
    }
    const CUresult result = HRI_CALL(cuDeviceGraphMemTrim, device);
    if (hri_device_open(device) == 0) {
        (void)settle_graphs(device, 0, HRI_HOOK_cuDeviceGraphMemTrim);
    }
    return hri_leave(result);
}

CUresult cuGraphAddMemAllocNode(CUgraphNode *out, CUgraph graph, const CUgraphNode *dependencies,
                                size_t count, CUDA_MEM_ALLOC_NODE_PARAMS *parameters) {
    const int governed = hri_enter();
    const CUresult result =
        HRI_CALL(cuGraphAddMemAllocNode, out, graph, dependencies, count, parameters);
    if (!governed) {
        return result;
    }
    if (result == CUDA_SUCCESS &&
        parameters->poolProps.location.type == CU_MEM_LOCATION_TYPE_DEVICE &&
        hri_device_open(parameters->poolProps.location.id) == 0) {
        hri_graph_note(parameters->poolProps.location.id, parameters->bytesize);
    }
    return hri_leave(result);
}

/* A node of any kind that turns out to be an allocation. */
static CUresult node_added(CUresult result, const CUgraphNodeParams *parameters) {
    if (result == CUDA_SUCCESS && parameters->type == CU_GRAPH_NODE_TYPE_MEM_ALLOC && hri_enter()) {
        const CUmemLocation where = parameters->alloc.poolProps.location;
        if (where.type == CU_MEM_LOCATION_TYPE_DEVICE && hri_device_open(where.id) == 0) {
            hri_graph_note(where.id, parameters->alloc.bytesize);
        }
        (void)hri_leave(result);
    }
    return result;
}

CUresult cuGraphAddNode(CUgraphNode *out, CUgraph graph, const CUgraphNode *dependencies,
                        size_t count, CUgraphNodeParams *parameters) {
    return node_added(HRI_CALL(cuGraphAddNode, out, graph, dependencies, count, parameters),
                      parameters);
}

CUresult cuGraphAddNode_v2(CUgraphNode *out, CUgraph graph, const CUgraphNode *dependencies,
                           const void *edges, size_t count, CUgraphNodeParams *parameters) {
    return node_added(
        HRI_CALL(cuGraphAddNode_v2, out, graph, dependencies, edges, count, parameters),
        parameters);
}

/* ---- capture ---- */

/* Nothing moves while a stream captures: the beginning passes the gate, and is counted before it leaves it. */
#define BEGIN_CAPTURE(NAME, PARAMETERS, ...)                                                       \
    CUresult NAME PARAMETERS {                                                                     \
        const bool passing = hri_gate_enter();                                                     \
        const CUresult result = HRI_CALL(NAME, __VA_ARGS__);                                       \
        if (result == CUDA_SUCCESS) {                                                              \
            __atomic_fetch_add(&hri_self.captures, 1, __ATOMIC_ACQ_REL);                           \
        }                                                                                          \
        if (passing) {                                                                             \
            hri_gate_leave();                                                                      \
        }                                                                                          \
        return result;                                                                             \
    }

BEGIN_CAPTURE(cuStreamBeginCapture, (CUstream stream), stream)
BEGIN_CAPTURE(cuStreamBeginCapture_ptsz, (CUstream stream), stream)
BEGIN_CAPTURE(cuStreamBeginCapture_v2, (CUstream stream, int mode), stream, mode)
BEGIN_CAPTURE(cuStreamBeginCapture_v2_ptsz, (CUstream stream, int mode), stream, mode)
BEGIN_CAPTURE(cuStreamBeginCaptureToGraph,
              (CUstream stream, CUgraph graph, const CUgraphNode *dependencies, const void *edges,
               size_t count, int mode),
              stream, graph, dependencies, edges, count, mode)
BEGIN_CAPTURE(cuStreamBeginCaptureToGraph_ptsz,
              (CUstream stream, CUgraph graph, const CUgraphNode *dependencies, const void *edges,
               size_t count, int mode),
              stream, graph, dependencies, edges, count, mode)

#define END_CAPTURE(NAME)                                                                          \
    CUresult NAME(CUstream stream, CUgraph *out) {                                                 \
        const int was = hri_capturing(stream);                                                     \
        const CUresult result = HRI_CALL(NAME, stream, out);                                       \
        if (was || result == CUDA_SUCCESS) {                                                       \
            __atomic_fetch_sub(&hri_self.captures, 1, __ATOMIC_ACQ_REL);                           \
        }                                                                                          \
        return result;                                                                             \
    }

END_CAPTURE(cuStreamEndCapture)
END_CAPTURE(cuStreamEndCapture_ptsz)

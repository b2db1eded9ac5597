/* One graph of many kernels, and the runtime before and after; see node_bytes.h. */
#include "run/node_bytes.h"

#include "graph/op.h"

enum { ALIGN = 256, NODES = 1024, BYTES = 4096 };

static hr_status put_nodes(const hri_gpu_call *call) {
    hr_status status = HR_OK;
    for (int i = 0; i < NODES && status == HR_OK; i++) {
        status = hri_op_launch(call);
    }
    return status;
}

static hr_status measure(hri_engine *e, const hri_gpu_call *call, uint64_t *out) {
    hri_gpu *gpu = hri_engine_gpu(e);
    hri_gpu_graph *graph = NULL;
    hr_status status = hri_op_launch(call); /* compiles and loads */
    hri_engine_settle(e);
    const uint64_t before = hri_engine_runtime(e);
    status = status == HR_OK ? hri_gpu_capture_begin(gpu) : status;
    if (status != HR_OK) {
        return status;
    }
    status = put_nodes(call);
    if (status != HR_OK) {
        hri_gpu_capture_drop(gpu);
        return status;
    }
    status = hri_gpu_capture_end(gpu, &graph);
    if (status == HR_OK) {
        hri_engine_settle(e);
        const uint64_t after = hri_engine_runtime(e);
        *out = after > before ? (after - before) / NODES : 0;
        hri_gpu_graph_destroy(gpu, graph);
    }
    return status;
}

hr_status hri_node_bytes_measure(hri_engine *e, uint64_t *out) {
    const hr_op *op = hri_op_find("add");
    const hr_meta meta = {.type = HR_TYPE_F32, .shape = hr_shape_1(BYTES / 4)};
    const hr_meta in[2] = {meta, meta};
    const hri_sig sig = {.op = op, .in_count = 2, .out_count = 1, .in = in, .out = &meta};
    hri_gpu *gpu = hri_engine_gpu(e);
    hr_queue *queue = hri_engine_queue(e, HRI_ENGINE_COMPUTE);
    const hri_kernel *kernel = op ? hri_kernel_for(hri_gpu_kernels(gpu), &sig) : NULL;
    hr_addr at = 0;
    hr_status status = kernel ? hri_engine_scratch(e, ALIGN + 3 * BYTES, &at) : HR_E_UNSUPPORTED;
    const hr_addr from[2] = {at + ALIGN, at + ALIGN + BYTES}, to = at + ALIGN + 2 * BYTES;
    const hri_gpu_call call = {
        .gpu = gpu, .kernel = kernel, .sig = &sig, .in = from, .out = &to, .control = at};
    if (status == HR_OK) {
        hri_gpu_use(gpu, queue);
        status = hr_fill(queue, at, 0, ALIGN + 3 * BYTES);
    }
    status = status == HR_OK ? measure(e, &call, out) : status;
    hri_engine_scratch_drop(e);
    return status;
}

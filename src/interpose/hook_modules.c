/* Calls whose memory nobody names: code that is loaded, graphs that are instantiated.  They are the driver's
 * own; that they were made is noted (causes.h).  What they cost is measured, not known. */
#include "interpose/causes.h"

void hri_cause_noted(hri_cause_kind kind) {
    if (!hri_enter()) {
        return;
    }
    const int device = hri_current_device();
    if (device >= 0) {
        hri_cause(device, kind);
    }
    (void)hri_leave(CUDA_SUCCESS);
}

#define NOTED(CAUSE, NAME, PARAMETERS, ...)                                                        \
    CUresult NAME PARAMETERS {                                                                     \
        hri_cause_noted(HRI_CAUSE_##CAUSE);                                                        \
        return HRI_CALL(NAME, __VA_ARGS__);                                                        \
    }

NOTED(MODULES, cuModuleLoad, (void **out, const char *file), out, file)
NOTED(MODULES, cuModuleLoadData, (void **out, const void *image), out, image)
NOTED(MODULES, cuModuleLoadDataEx,
      (void **out, const void *image, unsigned int count, void *options, void **values), out, image,
      count, options, values)
NOTED(MODULES, cuModuleLoadFatBinary, (void **out, const void *image), out, image)
NOTED(MODULES, cuModuleUnload, (void *module), module)
NOTED(MODULES, cuModuleGetFunction, (CUfunction * out, void *module, const char *name), out, module,
      name)
NOTED(MODULES, cuModuleGetGlobal_v2,
      (CUdeviceptr * at, size_t *bytes, void *module, const char *name), at, bytes, module, name)
NOTED(MODULES, cuLibraryLoadData,
      (void **out, const void *code, void *jit, void **jit_values, unsigned int jit_count,
       void *options, void **values, unsigned int count),
      out, code, jit, jit_values, jit_count, options, values, count)
NOTED(MODULES, cuLibraryLoadFromFile,
      (void **out, const char *file, void *jit, void **jit_values, unsigned int jit_count,
       void *options, void **values, unsigned int count),
      out, file, jit, jit_values, jit_count, options, values, count)
NOTED(MODULES, cuLibraryUnload, (void *library), library)
NOTED(MODULES, cuLibraryGetKernel, (void **out, void *library, const char *name), out, library,
      name)
NOTED(MODULES, cuLibraryGetModule, (void **out, void *library), out, library)
NOTED(MODULES, cuLibraryGetGlobal,
      (CUdeviceptr * at, size_t *bytes, void *library, const char *name), at, bytes, library, name)
NOTED(MODULES, cuKernelGetFunction, (CUfunction * out, void *kernel), out, kernel)
NOTED(MODULES, cuFuncLoad, (CUfunction function), function)

NOTED(GRAPHS, cuGraphInstantiate,
      (CUgraphExec * out, CUgraph graph, CUgraphNode *error, char *text, size_t bytes), out, graph,
      error, text, bytes)
NOTED(GRAPHS, cuGraphInstantiate_v2,
      (CUgraphExec * out, CUgraph graph, CUgraphNode *error, char *text, size_t bytes), out, graph,
      error, text, bytes)
NOTED(GRAPHS, cuGraphInstantiateWithFlags,
      (CUgraphExec * out, CUgraph graph, unsigned long long flags), out, graph, flags)

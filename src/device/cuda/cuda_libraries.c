/* What `doctor` says of the libraries beside the driver: NVRTC, cuBLASLt, cuDNN, and what the lack of each costs.
 *
 * They are opened to be asked for their versions, and closed again: doctor alone pays for that.  Without NVRTC there are
 * no kernels; without one of the other two our own kernels do its work, slower. */
#include <stdio.h>
#include "base/alloc.h"
#include "device/cuda/cublaslt.h"
#include "device/cuda/cuda_state.h"
#include "device/cuda/cudnn.h"

static void tell(hri_report_fn *fn, void *user, const char *component, int found, int usable,
                 const char *version, const char *good, const char *why_not, const char *without) {
    char text[2 * HRI_CUDA_TEXT];
    if (usable) {
        fn(user, component, HRI_FOUND_OK, version, good);
        return;
    }
    snprintf(text, sizeof text, "%s: %s", why_not, without);
    fn(user, component, found ? HRI_FOUND_BROKEN : HRI_FOUND_MISSING, "", text);
}

/* "13.1.0" from 130100, as both libraries count. */
static void write_version(size_t number, char *buf, size_t size) {
    snprintf(buf, size, "%zu.%zu.%zu", number / 10000, number / 100 % 100, number % 100);
}

static void report_lt(hri_report_fn *fn, void *user) {
    char version[64];
    hri_lt *lt = hri_calloc(1, sizeof *lt);
    if (!lt) {
        return;
    }
    hri_lt_load(lt);
    write_version(lt->version, version, sizeof version);
    tell(fn, user, "cublaslt", lt->library != NULL, lt->found, version, "matmul", lt->why_not,
         "matmul uses built-in kernels, which are slower");
    hri_lt_unload(lt);
    hri_free(lt);
}

static void report_dnn(hri_report_fn *fn, void *user) {
    char version[64];
    hri_dnn *dnn = hri_calloc(1, sizeof *dnn);
    if (!dnn) {
        return;
    }
    hri_dnn_load(dnn);
    write_version(dnn->version, version, sizeof version);
    tell(fn, user, "cudnn", dnn->library != NULL, dnn->found, version, "convolutions, attention",
         dnn->why_not, "convolutions and attention use built-in kernels, which are slower");
    hri_dnn_unload(dnn);
    hri_free(dnn);
}

void hri_cuda_report_libraries(hri_cuda_lib *lib, hri_report_fn *fn, void *user) {
    char version[32];
    const hri_cuda_nvrtc *nvrtc = hri_cuda_nvrtc_of(lib);
    snprintf(version, sizeof version, "%d.%d", nvrtc->major, nvrtc->minor);
    tell(fn, user, "nvrtc", nvrtc->found, nvrtc->usable, version, "compiles the kernels",
         nvrtc->why_not, "no kernels: the GPU cannot be used for training");
    report_lt(fn, user);
    report_dnn(fn, user);
}

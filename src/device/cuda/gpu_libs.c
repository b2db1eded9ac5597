/* The parts that stand on libraries, opened and closed together; see gpu_libs.h. */
#include "base/alloc.h"
#include "device/cuda/gpu_libs.h"

hr_status hri_gpu_libs_open(hri_gpu *gpu, hri_gpu_libs **out) {
    (void)gpu;
    hri_gpu_libs *libs = hri_calloc(1, sizeof *libs);
    if (!libs) {
        return HR_E_NOMEM_HOST;
    }
    *out = libs;
    return HR_OK;
}

void hri_gpu_libs_close(hri_gpu *gpu, hri_gpu_libs *libs) {
    int pushed;
    if (!libs) {
        return;
    }
    const hr_status entered = hri_cuda_enter(hri_gpu_dev(gpu), &pushed);
    for (int i = HRI_GPU_PARTS - 1; i >= 0; i--) {
        if (libs->part[i]) {
            libs->close[i](libs->part[i]);
        }
    }
    if (entered == HR_OK) {
        hri_cuda_leave(hri_gpu_dev(gpu), pushed);
    }
    hri_free(libs);
}

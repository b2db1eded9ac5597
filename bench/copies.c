/* What copies to and from the host cost the kernels beside them: copies [DEVICE].
 *
 * Kernels that add two operands of several sizes run as one graph, alone and with copies away or back beside them
 * (run/drag.h).  Where the share grows as kernels get shorter, the ends of kernels pay for the copies; where it stays, the
 * memory does. */
#include <headroom/headroom.h>

#include <stdio.h>

#include "run/drag.h"

int main(int argc, char **argv) {
    static const uint64_t mib[] = {1, 4, 16, 32, 64, 256};
    const hri_gpu_options o = {.exact_f32 = 0};
    const char *name = argc > 1 ? argv[1] : "cuda:0";
    hri_prose why = {0};
    hr_ctx *ctx = NULL;
    hr_device *device = NULL;
    hri_engine *engine = NULL;
    hr_status status = hr_ctx_create(NULL, &ctx);
    status = status == HR_OK ? hr_device_find(ctx, name, &device) : status;
    status = status == HR_OK ? hri_engine_open(device, &o, &engine, &why) : status;
    printf("%10s %8s %9s %9s %9s %9s %9s %7s %7s\n", "operand", "kernels", "alone us", "each us",
           "away us", "back us", "copies us", "out", "in");
    for (size_t i = 0; i < sizeof mib / sizeof mib[0] && status == HR_OK; i++) {
        hri_drag d;
        status = hri_drag_measure(engine, mib[i] << 20, &d);
        if (status == HR_OK) {
            printf("%6llu MiB %8u %9.1f %9.2f %9.1f %9.1f %9.1f %7.3f %7.3f\n",
                   (unsigned long long)mib[i], d.launches, d.alone_ns / 1e3,
                   d.alone_ns / 1e3 / d.launches, d.out_ns / 1e3, d.in_ns / 1e3, d.copy_ns[0] / 1e3,
                   d.out, d.in);
        }
    }
    if (status != HR_OK) {
        fprintf(stderr, "copies: %s: %s %s\n", name, hr_status_text(status), why.text);
    }
    hri_engine_close(engine);
    hr_ctx_destroy(ctx);
    return status != HR_OK;
}

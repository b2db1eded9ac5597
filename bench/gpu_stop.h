/* The end of bench/gpu where a call fails that must not. */
#ifndef HRI_BENCH_GPU_STOP_H
#define HRI_BENCH_GPU_STOP_H

#include <stdio.h>
#include <stdlib.h>
#include <headroom/headroom.h>

static void stop(const char *what, hr_status status, const char *why) {
    fprintf(stderr, "gpu: %s: %s\n", what, why && *why ? why : hr_status_text(status));
    exit(3);
}

static void need(const char *what, hr_status status, const char *why) {
    if (status != HR_OK) {
        stop(what, status, why);
    }
}

#endif

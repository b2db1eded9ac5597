/* A GPU with a queue and room for tensors, for tests that run ops or parts of them on it.
 *
 * Tensors are host arrays of doubles with a place on the device; on the fake driver kernels run on the host, on a real
 * one for real.  desk_real() says which. */
#ifndef TESTS_CUDA_DESK_H
#define TESTS_CUDA_DESK_H

#include <headroom/headroom.h>
#include "device/gpu.h"
#include "graph/op.h"
#include "rig.h"

typedef struct desk {
    hr_ctx *ctx;
    hr_device *device;
    hr_logical *logical;
    hr_queue *queue;
    hri_gpu *gpu;
    char folder[64]; /* the cache of kernels and choices */
} desk;

/* Skips the case where there is no GPU or no compiler for it.  `options.cache` is set by it. */
void desk_open(desk *d, hri_gpu_options options);
void desk_close(desk *d);
/* Closes the GPU and opens it with other options; memory stays. */
void desk_again(desk *d, hri_gpu_options options);
int desk_real(void);

/* `count` numbers of `type` on the device; desk_random fills them from -1 to 1. */
typedef struct tensor {
    hr_type type;
    int64_t count;
    hr_block block;
} tensor;
tensor desk_tensor(desk *d, hr_type type, int64_t count);
tensor desk_random(desk *d, hr_type type, int64_t count, uint64_t seed, double scale);
void desk_fill(desk *d, const tensor *t, uint8_t byte);
/* The numbers; free() them. */
double *desk_read(desk *d, const tensor *t);
void desk_free(desk *d, tensor *t);
/* || a - b || / || b || over `count` numbers; NaN counts as 1e9. */
double desk_error(const double *a, const double *b, int64_t count);
/* Fails the case with the GPU's own words. */
void desk_check(desk *d, hr_status status, const char *what);
/* Waits for the queue. */
void desk_sync(desk *d);

#endif

/* What the tests of kernels share: one opened GPU with a queue, a megabyte of its memory, and a cache of its own. */
#ifndef TESTS_CUDA_KERNEL_RIG_H
#define TESTS_CUDA_KERNEL_RIG_H

#include <headroom/headroom.h>
#include "device/gpu.h"
#include "rig.h"

typedef struct bench {
    hr_ctx *ctx;
    hr_device *device;
    hr_logical *logical;
    hr_queue *queue;
    hr_block block;
    hri_gpu *gpu;
    char folder[64]; /* the cache */
} bench;

enum { ROOM = 1 << 20 };

/* Everything but the GPU; skips the case without a device. */
void bench_open(bench *b);
/* The GPU too; skips the case where it runs no kernels. */
void bench_gpu(bench *b);
hr_status bench_try_gpu(bench *b, hri_prose *why);
/* On the fake driver checks that nothing is left. */
void bench_close(bench *b);

/* Launches `k` of a text over (x, n); it must succeed. */
void bench_launch(bench *b, const char *text, uint32_t blocks, uint32_t threads, hr_addr x,
                  int32_t n);
void bench_put(bench *b, const void *from, size_t bytes);
void bench_get(bench *b, void *to, size_t bytes);

/* Small integers, of which sums are exact. */
void put_numbers(unsigned char *to, hr_type type, int64_t count, uint64_t *state);

#define KERNEL "extern \"C\" __global__ void k(float *x, int n) "

#endif

/* The sizes, offsets and values of cuda_min.h as tables that can be made twice: once with our declarations (layout.c),
 * once with NVIDIA's (layout_real.c).  What the two differ in is a bug of ours.  The entries are in layout_*.def. */
#ifndef TESTS_CUDA_LAYOUT_H
#define TESTS_CUDA_LAYOUT_H

#include <stddef.h>

typedef struct layout_entry {
    const char *name;
    long long number;
} layout_entry;

#define SIZE(TYPE)        {"sizeof " #TYPE, (long long)sizeof(TYPE)},
#define FIELD(TYPE, NAME) {#TYPE "." #NAME, (long long)offsetof(TYPE, NAME)},
#define VALUE(NAME)       {#NAME, (long long)(NAME)},

/* With NVIDIA's headers; they end with a NULL name, and hold nothing else where the machine has no such header. */
extern const layout_entry layout_real_cuda[];
extern const layout_entry layout_real_nvml[];
extern const layout_entry layout_ours_cublaslt[], layout_real_cublaslt[];
extern const layout_entry layout_ours_cudnn[], layout_real_cudnn[];

#endif

/* What the checks of the libraries (libs.c) and their times (libs_times.c) share; see libs.c. */
#ifndef TESTS_CUDA_LIBS_H
#define TESTS_CUDA_LIBS_H

#include "desk.h"

typedef struct check {
    desk d;
    int failures, runs;
} check;

/* Skips the case without a real GPU. */
void check_open(check *c, hri_gpu_options options);
/* Fails the case when anything was told to have failed. */
void check_close(check *c);
/* Says what the library refused or how a call failed; 1 when it failed. */
int told(check *c, hr_status status, const char *what);

typedef struct product_case {
    const char *name;
    hr_type type, y_type;
    int64_t batch, m, n, k;
    int ta, tb, bias;
} product_case;
hri_gpu_matmul product_of(const product_case *p);

/* ResNet-50's convolutions and how often each stands in it; then, with 0, some of other kinds. */
typedef struct conv_case {
    int count;
    hr_type type;
    int64_t h, c, o, k, stride, groups;
} conv_case;
enum { CONV_COUNT = 29 };
extern const conv_case conv_cases[CONV_COUNT];
hri_gpu_conv conv_of(const conv_case *v, int64_t n, int kind);
const char *conv_name(const conv_case *v, int64_t n, int kind, char *buf, size_t size);
/* Elements of the two operands and of the result. */
void conv_sizes(const hri_gpu_conv *x, int64_t out[3]);

/* Of packed (B, T, 3, H, D). */
hri_gpu_attention attention_of(int64_t b, int64_t heads, int64_t t, int64_t d, hr_type type,
                               int causal, int backward);

#define BF HR_TYPE_BF16
#define F3 HR_TYPE_F32
#define F1 HR_TYPE_F16

#endif

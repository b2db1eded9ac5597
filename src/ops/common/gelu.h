/* The attributes of gelu and gelu_grad. */
#ifndef HRI_OPS_COMMON_GELU_H
#define HRI_OPS_COMMON_GELU_H

#include <stdint.h>

typedef struct hri_attr_gelu {
    int approximate; /* index into the choices */
} hri_attr_gelu;

static const char *const hri_gelu_choices[] = {"erf", "tanh", 0};

/* f32 by the exact form, n numbers, where a processor has kernels for it (gelu_kernel.c); NULL: none.  Chosen by the processor, so
 * that bits are the same at all levels. */
typedef struct hri_gelu_rows {
    void (*forward)(const float *x, float *y, int64_t n);
    void (*backward)(const float *dy, const float *x, float *dx, int64_t n);
} hri_gelu_rows;

hri_gelu_rows hri_gelu_rows_pick(void);

/* Both for kernels made from text, where instructions count: multiply-adds are written out, and quotients are one inverse
 * (ops/cuda/scalar.cu).  P of the tanh form of X: */
#define HRI_GELU_P(X)                                                                              \
    "inverse((T)1 + exp(" X " * fmaf(" X " * " X                                                   \
    ", (T)-0.07135481627260025, (T)-1.5957691216057308)))"

#define HRI_GELU_TEXT                                                                              \
    "p->approximate ? a * " HRI_GELU_P(                                                            \
        "a") " : (T)0.5 * a * ((T)1 + erf(a * (T)0.7071067811865476))"

#define HRI_GELU_GRAD_TEXT                                                                         \
    "p->approximate ? a * " HRI_GELU_P(                                                            \
        "b") " * fmaf(b * fmaf(b * b, (T)0.21406444881780074, (T)1.5957691216057308), (T)1 "       \
             "- " HRI_GELU_P("b") ", (T)1) : a * ((T)0.5 * ((T)1 + erf(b * "                       \
                                  "(T)0.7071067811865476)) + b * "                                 \
                                  "(T)0.3989422804014327 * exp((T)-0.5 * b * b))"

#endif

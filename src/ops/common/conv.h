/* Two-dimensional convolution as three matrix products without an unfolded image.
 *
 *   x (N, H, W, C)   w (KH, KW, C / groups, O)   y (N, OH, OW, O)
 *
 *   forward   y  (N OH OW, O)  = patches of x  (N OH OW, KH KW C) * w  (KH KW C, O)
 *   input     dx (N H W, C)    = patches of dy (N H W, taps O)    * w' (taps O, C)
 *   weights   dw (KH KW C, O)  = patches of x, transposed         * dy (N OH OW, O)
 *
 * Groups are the batch of the product.  With a stride, dx falls into stride * stride classes of pixels, each reached
 * by some taps only; each class is a product of its own, so no multiplication by zero is made.  Weights lie with O
 * last, so that forward and weights read them straight; files have (O, C / groups, KH, KW), which the loader turns.
 * Windows of 3 x 3 with stride 1 have a way with fewer multiplications (conv_winograd.h), few channels and depthwise ones their own. */
#ifndef HRI_OPS_COMMON_CONV_H
#define HRI_OPS_COMMON_CONV_H

#include "graph/op.h"

/* One struct for the three ops, so that the gradient rule can pass it on. */
typedef struct hri_conv_attr {
    /* One number, or two: down and across.  The pad may be four: top, left, bottom, right. */
    hri_dims stride, pad, dilation;
    hri_dims size; /* input gradient: H x W of x; weight gradient: KH x KW */
    int64_t groups;
} hri_conv_attr;

extern const hri_field hri_conv_fields[];

typedef struct hri_conv {
    int64_t n, h, w, c, oh, ow, o, kh, kw;
    int64_t sh, sw, ph, pw, dh, dw, groups;
    int64_t ph_after,
        pw_after;   /* the pad at the bottom and at the right; ph and pw at the top and left */
    int64_t cg, og; /* channels a group */
    const struct hri_gemm_tiles
        *tiles; /* matrix units (gemm_tiles.h); NULL: those of the processor */
} hri_conv;

/* Checks everything; x, w and y are filled in by the caller where the op knows them.  The reason goes to c. */
HR_MUST_CHECK hr_status hri_conv_make(hri_infer *c, const hri_conv_attr *p, const hr_shape *x,
                                      const hr_shape *w, hri_conv *out);
/* From shapes that were checked. */
hri_conv hri_conv_of(const hri_conv_attr *p, const hr_shape *x, const hr_shape *w);
hr_shape hri_conv_out(const hri_conv *v);

/* The same with neighbouring groups joined until one has 32 outputs: their weights are zero for one another's channels. */
hri_conv hri_conv_joined(const hri_conv *v);

double hri_conv_flops(const hri_conv *v);
uint64_t hri_conv_forward_workspace(const hri_conv *v, const hri_sig *s, uint32_t threads);
uint64_t hri_conv_input_workspace(const hri_conv *v, const hri_sig *s, uint32_t threads);
uint64_t hri_conv_weight_workspace(const hri_conv *v, const hri_sig *s, uint32_t threads);
/* In each, the real types are those of the signature's first input, second input and output. */
void hri_conv_forward(const hri_conv *v, const hri_call *c); /* x, w [, bias] -> y */
void hri_conv_input(const hri_conv *v, const hri_call *c);   /* dy, w -> dx */
void hri_conv_weight(const hri_conv *v, const hri_call *c);  /* x, dy -> dw */

/* The same on a GPU (conv_cuda.c). */
HR_MUST_CHECK hr_status hri_conv_cuda(const hri_conv *v, hri_gpu_conv_kind kind,
                                      const hri_gpu_call *c);
uint64_t hri_conv_cuda_workspace(const hri_conv *v, hri_gpu_conv_kind kind, const hri_sig *s,
                                 hri_gpu *gpu);

#endif

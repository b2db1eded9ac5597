/* The layers that families share: each makes its parameters under its name and returns its output.
 *
 * Beginnings are those of torch's layers where the caller gives none: uniform within 1 / sqrt(inputs) for linear and
 * convolution weights and biases, 1 and 0 for norms. */
#ifndef HRI_MODELS_COMMON_LAYERS_H
#define HRI_MODELS_COMMON_LAYERS_H

#include "models/common/model.h"

/* A dimension of v, 0 when the graph has already failed. */
int64_t hri_dim(const hri_build *b, hr_value v, int axis);

/* The inputs "image" (N, size, size, channels). */
hr_value hri_image(hri_build *b, int64_t size, int64_t channels);

/* x (..., in) -> (..., out): <name>.weight (out, in), <name>.bias (out).  NULL: torch's beginning. */
hr_value hri_layer_linear(hri_build *b, const char *name, hr_value x, int64_t out,
                          const hr_init *weight, const hr_init *bias);

/* (N, H, W, C) -> (N, H', W', out), square kernel: <name>.weight (K, K, C / groups, out), and <name>.bias (out). */
typedef struct hri_conv_layer {
    int64_t out;
    int kernel, stride, pad;
    bool bias;
    const hr_init *weight; /* NULL: torch's */
    int64_t groups;        /* 0: one */
    bool zero_bias;        /* the bias begins at 0 */
} hri_conv_layer;
hr_value hri_layer_conv(hri_build *b, const char *name, hr_value x, const hri_conv_layer *layer);

/* Batch norm with running statistics: <name>.{weight,bias,running_mean,running_var}.  After it `z` is added (HR_NONE:
 * nothing) and relu taken. */
hr_value hri_layer_batch_norm(hri_build *b, const char *name, hr_value x, bool relu, hr_value z);
/* The same with another eps and momentum than torch's 1e-5 and 0.1. */
hr_value hri_layer_batch_norm_of(hri_build *b, const char *name, hr_value x, bool relu, hr_value z,
                                 double eps, double momentum);
/* The same over groups of channels of each sample: a batch may be cut anywhere.  It has no running statistics. */
hr_value hri_layer_group_norm(hri_build *b, const char *name, hr_value x, bool relu, hr_value z);
/* Over the last dimension: <name>.{weight,bias}. */
hr_value hri_layer_norm(hri_build *b, const char *name, hr_value x, double eps);

/* x (N, T, I) -> (N, T, H), or (N, T, 2 H) both ways: <name>.{weight_ih,weight_hh,bias_ih,bias_hh}_l<index>[_reverse], as
 * torch names, begins and lays them out.  lstm false: GRU. */
typedef struct hri_recurrent_layer {
    int64_t width;
    bool lstm, both;
    int index; /* of the layer in its stack */
} hri_recurrent_layer;
hr_value hri_layer_recurrent(hri_build *b, const char *name, hr_value x,
                             const hri_recurrent_layer *layer);

/* A step of generation (hri_build.decode): attention of q (1, T, H, D) to the keys and values of all tokens so far.  k and v
 * (1, T, G, D) go to their positions in the states key_cache and value_cache (1, rows, G, D), which are in no checkpoint. */
hr_value hri_layer_attend_cached(hri_build *b, hr_value q, hr_value k, hr_value v, int64_t rows);
/* The inputs of such a step beside its tokens: positions i32 (T), and the mask f32 (1, 1, T, rows), which the layer above finds. */
hr_value hri_decode_positions(hri_build *b, int64_t rows);
/* The last of T tokens, (1, T, W) -> (1, 1, W). */
hr_value hri_decode_last(hri_build *b, hr_value x);

/* x scaled by channel: <name>.fc1 to `inner` channels, <name>.fc2 back, 1x1 convolutions over the mean of each channel.  hard: relu
 * and the hard sigmoid, else silu and sigmoid. */
hr_value hri_layer_squeeze(hri_build *b, const char *name, hr_value x, int64_t inner, bool hard);
/* In training x (N, H, W, C) of a sample is 0 with probability `rate`, else divided by 1 - rate (stochastic depth). */
hr_value hri_layer_drop_path(hri_build *b, hr_value x, double rate);
/* Channels rounded to eights, never down by more than a tenth. */
int64_t hri_eights(double channels);

/* Nothing when the rate is 0 or the graph is for inference. */
hr_value hri_layer_dropout(hri_build *b, hr_value x, double rate);

#endif

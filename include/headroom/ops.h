/* One line for each op: sugar over hr_graph_node(), so that models read as formulas.
 *
 *   hr_value y = hr_relu(g, hr_add(g, x, shortcut));
 *
 * Nothing here knows more than the op's name and the names of its attributes; src/ops/<name>.c has the formula, the
 * shapes and the gradient.  Errors are sticky on the graph (graph.h). */
#ifndef HEADROOM_OPS_H
#define HEADROOM_OPS_H

#include <stddef.h>
#include <headroom/graph.h>

HR_BEGIN_DECLS

/* ---- the table of ops, for programs that build graphs by name (hr_graph_node) ---- */

/* Texts are static. */
typedef struct hr_op_info {
    size_t size;                   /* set by the caller to sizeof(hr_op_info) */
    const char *name;              /* "conv2d" */
    const char *formula;           /* one line */
    uint32_t input_min, input_max; /* the last inputs may be left out */
    uint32_t output_count, attribute_count;
    int32_t has_gradient; /* 0: none flows through it */
    int32_t is_random;
} hr_op_info;

/* Op 0, 1, ... in alphabetical order, until HR_E_EOF. */
HR_API HR_MUST_CHECK hr_status hr_op_list(size_t index, hr_op_info *out);

typedef struct hr_op_attribute {
    size_t size;                /* set by the caller to sizeof(hr_op_attribute) */
    const char *name;           /* "stride" */
    const char *help;           /* one line */
    const char *value;          /* the default as text; "": zero or none */
    const char *const *choices; /* NAME: what it may be, NULL at the end; else NULL */
    int32_t kind;               /* hr_attribute_kind (graph.h) */
    int32_t is_boolean;         /* INTEGER: true or false */
} hr_op_attribute;

/* Attribute `index` of op `op`, until HR_E_EOF; HR_E_NOT_FOUND: there is no such op. */
HR_API HR_MUST_CHECK hr_status hr_op_list_attribute(size_t op, size_t index, hr_op_attribute *out);

/* ---- element-wise; binary ones broadcast ---- */
HR_API hr_value hr_add(hr_graph *g, hr_value a, hr_value b);
HR_API hr_value hr_mul(hr_graph *g, hr_value a, hr_value b);
HR_API hr_value hr_sub(hr_graph *g, hr_value a, hr_value b);
HR_API hr_value hr_div(hr_graph *g, hr_value a, hr_value b);
HR_API hr_value hr_relu(hr_graph *g, hr_value a);
/* relu that keeps one bit an element (output 1) for its gradient. */
HR_API hr_value hr_relu_mask(hr_graph *g, hr_value a);
HR_API hr_value hr_silu(hr_graph *g, hr_value a);
HR_API hr_value hr_sigmoid(hr_graph *g, hr_value a);
HR_API hr_value hr_tanh(hr_graph *g, hr_value a);
HR_API hr_value hr_exp(hr_graph *g, hr_value a);
HR_API hr_value hr_log(hr_graph *g, hr_value a);
HR_API hr_value hr_sqrt(hr_graph *g, hr_value a);
HR_API hr_value hr_rsqrt(hr_graph *g, hr_value a);
HR_API hr_value hr_abs(hr_graph *g, hr_value a);
/* approximate: 0 by erf, 1 by tanh. */
HR_API hr_value hr_gelu(hr_graph *g, hr_value a, int approximate);
HR_API hr_value hr_power(hr_graph *g, hr_value a, double exponent);
HR_API hr_value hr_clip(hr_graph *g, hr_value a, double low, double high);
/* scale * a + shift. */
HR_API hr_value hr_affine(hr_graph *g, hr_value a, double scale, double shift);
HR_API hr_value hr_neg(hr_graph *g, hr_value a);
/* a, through which no gradient flows. */
HR_API hr_value hr_stop_gradient(hr_graph *g, hr_value a);
/* One of a table: "erf", "sin", "softplus", "elu", "mish", "leaky_relu", "hard_swish" and so on (src/ops/common/functions.h);
 * alpha is the constant of those that have one. */
HR_API hr_value hr_function(hr_graph *g, hr_value a, const char *f, double alpha);
HR_API hr_value hr_maximum(hr_graph *g, hr_value a, hr_value b);
HR_API hr_value hr_minimum(hr_graph *g, hr_value a, hr_value b);
/* a where it is above 0, else slope * a; a slope (C) is one a channel. */
HR_API hr_value hr_prelu(hr_graph *g, hr_value a, hr_value slope);
/* 1 where it is so, else 0, in the type of a and b; `is` "less", "equal", "both" and so on (src/ops/compare.c). */
HR_API hr_value hr_compare(hr_graph *g, hr_value a, hr_value b, const char *is);
/* a where the mask is not 0, else b; all of one type. */
HR_API hr_value hr_where(hr_graph *g, hr_value mask, hr_value a, hr_value b);

/* x (..., C), bias (C). */
HR_API hr_value hr_bias_add(hr_graph *g, hr_value x, hr_value bias);

/* ---- products ---- */

/* a (..., M, K) b (..., K, N); ta: a is (..., K, M); tb: b is (..., N, K). */
HR_API hr_value hr_matmul(hr_graph *g, hr_value a, hr_value b, int ta, int tb);
/* x (..., in), w (out, in), bias (out) or HR_NONE. */
HR_API hr_value hr_linear(hr_graph *g, hr_value x, hr_value w, hr_value bias);
/* x (N, H, W, C), w (KH, KW, C / groups, O), bias (O) or HR_NONE; the same stride, padding and dilation both ways. */
HR_API hr_value hr_conv2d(hr_graph *g, hr_value x, hr_value w, hr_value bias, int stride, int pad,
                          int dilation, int groups);

/* x (N, W, C), w (K, C / groups, O). */
HR_API hr_value hr_conv1d(hr_graph *g, hr_value x, hr_value w, hr_value bias, int stride, int pad,
                          int dilation, int groups);
/* x (N, D, H, W, C), w (KD, KH, KW, C, O): a sum of KD convolutions of slices; the same stride and padding all ways. */
HR_API hr_value hr_conv3d(hr_graph *g, hr_value x, hr_value w, hr_value bias, int stride, int pad);

/* ---- shapes and sums ---- */
HR_API hr_value hr_reshape(hr_graph *g, hr_value x, hr_shape to);
/* axes as text: "0x1"; "" or NULL: all of them. */
HR_API hr_value hr_sum(hr_graph *g, hr_value x, const char *axes, int keep);
HR_API hr_value hr_mean(hr_graph *g, hr_value x, const char *axes, int keep);
/* Output 1 is where the largest was. */
HR_API hr_value hr_max(hr_graph *g, hr_value x, const char *axes, int keep);
/* Lists as text, one number a dimension: order "0x2x1", begin "0x4", size "-1x2"; "" or NULL: none. */
HR_API hr_value hr_transpose(hr_graph *g, hr_value x, const char *order);
HR_API hr_value hr_slice(hr_graph *g, hr_value x, const char *begin, const char *size);
/* Backwards along these dimensions; "" or NULL: all. */
HR_API hr_value hr_flip(hr_graph *g, hr_value x, const char *axes);
HR_API hr_value hr_pad(hr_graph *g, hr_value x, const char *before, const char *after,
                       double value);
/* More than 16 values become several nodes. */
HR_API hr_value hr_concat(hr_graph *g, const hr_value *x, size_t count, int axis);

/* Turned round along an axis: what leaves one end comes in at the other. */
HR_API hr_value hr_roll(hr_graph *g, hr_value x, int64_t shift, int axis);
/* Where the largest is along an axis, i32. */
HR_API hr_value hr_argmax(hr_graph *g, hr_value x, int axis, int keep);
HR_API hr_value hr_cumsum(hr_graph *g, hr_value x, int axis);
/* Elements by an index of the same shape but for the axis, and the way back: added up where the index says. */
HR_API hr_value hr_take_along(hr_graph *g, hr_value x, hr_value index, int axis);
HR_API hr_value hr_put_along(hr_graph *g, hr_value x, hr_value index, int axis, int64_t size);

/* ---- normalisation; x (..., C), gamma and beta (C) ---- */

/* In training: over the batch.  Output 1 is the mean, output 2 the inverse deviation.  z HR_NONE: nothing is added. */
HR_API hr_value hr_batch_norm(hr_graph *g, hr_value x, hr_value gamma, hr_value beta, double eps);
HR_API hr_value hr_batch_norm_relu(hr_graph *g, hr_value x, hr_value gamma, hr_value beta,
                                   hr_value z, double eps);
/* With statistics that are given. */
HR_API hr_value hr_batch_norm_inference(hr_graph *g, hr_value x, hr_value gamma, hr_value beta,
                                        hr_value mean, hr_value var, double eps);
/* Moves the running statistics (states, f32) by those of y, which hr_batch_norm[_relu] made with that eps.  Output 1 is
 * the new variance. */
HR_API hr_value hr_batch_norm_stats(hr_graph *g, hr_value running_mean, hr_value running_var,
                                    hr_value y, double eps, double momentum);

/* Inside a sample: by row, by row without mean and beta, by group of channels. */
HR_API hr_value hr_layer_norm(hr_graph *g, hr_value x, hr_value gamma, hr_value beta, double eps);
HR_API hr_value hr_rms_norm(hr_graph *g, hr_value x, hr_value gamma, double eps);
HR_API hr_value hr_group_norm(hr_graph *g, hr_value x, hr_value gamma, hr_value beta, int groups,
                              double eps);

HR_API hr_value hr_softmax(hr_graph *g, hr_value x, int axis);
HR_API hr_value hr_log_softmax(hr_graph *g, hr_value x, int axis);

/* Training only: each element is 0 with probability p, the others are divided by 1 - p. */
HR_API hr_value hr_dropout(hr_graph *g, hr_value x, double p);

/* ---- attention; q (B, T, H, D), k and v (B, S, H, D), or one qkv (B, T, 3, H, D) ---- */
HR_API hr_value hr_attention(hr_graph *g, hr_value q, hr_value k, hr_value v, int causal);
HR_API hr_value hr_attention_packed(hr_graph *g, hr_value qkv, int causal);
/* With numbers added to the scores, a mask (B or 1, H or 1, T or 1, S) where -inf hides a key (HR_NONE: none), and dropout of
 * the weights in training.  A mask of u8 adds nothing: 0 hides a key.  scale 0: 1 / sqrt(D). */
HR_API hr_value hr_attention_masked(hr_graph *g, hr_value q, hr_value k, hr_value v, hr_value mask,
                                    int causal, double scale, double dropout);

/* ---- recurrent layers; x (N, T, I) to (N, T, H), from a state of 0 ---- */

/* w (gates H, I) with bias (gates H) meets x, u (gates H, H) with state_bias the state; either bias may be HR_NONE.  Gates lie as
 * torch has them: input, forget, candidate, output; reset, update, candidate.  backward: from the last step to the first, with
 * outputs in the order of x.  Unrolled: a few nodes a step (src/graph/recurrent.c). */
HR_API hr_value hr_lstm(hr_graph *g, hr_value x, hr_value w, hr_value u, hr_value bias,
                        hr_value state_bias, int backward);
HR_API hr_value hr_gru(hr_graph *g, hr_value x, hr_value w, hr_value u, hr_value bias,
                       hr_value state_bias, int backward);

/* ---- pooling; x (N, H, W, C) ---- */
HR_API hr_value hr_max_pool(hr_graph *g, hr_value x, int kernel, int stride, int pad);
/* Padding counts in the mean. */
HR_API hr_value hr_avg_pool(hr_graph *g, hr_value x, int kernel, int stride, int pad);
/* (N, C) */
HR_API hr_value hr_global_avg_pool(hr_graph *g, hr_value x);

/* Rows of a table (V, ...) by ids of i32 or i64: embedding. */
HR_API hr_value hr_gather(hr_graph *g, hr_value table, hr_value ids);
HR_API hr_value hr_cast(hr_graph *g, hr_value x, hr_type to);

/* x (N, H, W, C) to (N, height, width, C); mode "nearest" or "bilinear", with half-pixel centres, or "corners", bilinear with
 * the corners of both on one another. */
HR_API hr_value hr_resize(hr_graph *g, hr_value x, int height, int width, const char *mode);

/* ---- losses ---- */

/* logits (..., C), ids (...) of i32 or i64; the mean over ids that are not negative. */
HR_API hr_value hr_cross_entropy(hr_graph *g, hr_value logits, hr_value ids, double smoothing);

/* The same of the scores x w^T, which are never whole in memory: x (..., C), w (V, C), ids (...).  With the attribute
 * "keep" the gradient finds them in output 2. */
HR_API hr_value hr_linear_cross_entropy(hr_graph *g, hr_value x, hr_value w, hr_value ids,
                                        double smoothing);

/* logits and targets (..., C): probabilities instead of ids; the mean over rows. */
HR_API hr_value hr_cross_entropy_soft(hr_graph *g, hr_value logits, hr_value targets,
                                      double smoothing);
/* Means over all elements. */
HR_API hr_value hr_mean_squared_error(hr_graph *g, hr_value a, hr_value b);
/* Of logits, and targets from 0 to 1. */
HR_API hr_value hr_binary_cross_entropy(hr_graph *g, hr_value logits, hr_value targets);

/* ---- metrics; no gradient ---- */

/* How often the id is among the `top` best of x (..., C). */
HR_API hr_value hr_accuracy(hr_graph *g, hr_value x, hr_value ids, int top);
/* The k largest of each row, the largest first; output 1 says where they were. */
HR_API hr_value hr_top_k(hr_graph *g, hr_value x, int k);

/* ---- updates of persistent values; each returns the new version ---- */

/* rate is a scalar f32; momentum is a state like w, or HR_NONE for plain descent. */
HR_API hr_value hr_sgd(hr_graph *g, hr_value w, hr_value grad, hr_value rate, hr_value velocity,
                       double momentum, int nesterov, double decay);

HR_END_DECLS
#endif

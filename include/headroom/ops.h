/* One line for each op: sugar over hr_graph_node(), so that models read as formulas.
 *
 *   hr_value y = hr_relu(g, hr_add(g, x, shortcut));
 *
 * Nothing here knows more than the op's name and the names of its attributes; src/ops/<name>.c has the formula, the
 * shapes and the gradient.  Errors are sticky on the graph (graph.h).  Inputs stand in a
 * named array, never in a compound literal: C++ reads this header too, and a test of the installed package looks. */
#ifndef HEADROOM_OPS_H
#define HEADROOM_OPS_H

#include <stdarg.h>
#include <stdio.h>
#include <headroom/graph.h>

HR_BEGIN_DECLS

/* A node with attributes by printf. */
HR_PRINTF(5, 6)
static inline hr_value hr_nodef(hr_graph *g, const char *op, const hr_value *in, size_t count,
                                const char *format, ...) {
    char text[256];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    return hr_graph_node(g, op, in, count, text);
}

static inline hr_value hr_unary(hr_graph *g, const char *op, hr_value a) {
    return hr_graph_node(g, op, &a, 1, NULL);
}
static inline hr_value hr_binary(hr_graph *g, const char *op, hr_value a, hr_value b) {
    const hr_value in[] = {a, b};
    return hr_graph_node(g, op, in, 2, NULL);
}

/* ---- element-wise; binary ones broadcast ---- */
static inline hr_value hr_add(hr_graph *g, hr_value a, hr_value b) {
    return hr_binary(g, "add", a, b);
}
static inline hr_value hr_mul(hr_graph *g, hr_value a, hr_value b) {
    return hr_binary(g, "mul", a, b);
}
static inline hr_value hr_sub(hr_graph *g, hr_value a, hr_value b) {
    return hr_binary(g, "sub", a, b);
}
static inline hr_value hr_div(hr_graph *g, hr_value a, hr_value b) {
    return hr_binary(g, "div", a, b);
}
static inline hr_value hr_relu(hr_graph *g, hr_value a) {
    return hr_unary(g, "relu", a);
}
/* relu that keeps one bit an element (output 1) for its gradient. */
static inline hr_value hr_relu_mask(hr_graph *g, hr_value a) {
    return hr_unary(g, "relu_mask", a);
}
static inline hr_value hr_silu(hr_graph *g, hr_value a) {
    return hr_unary(g, "silu", a);
}
static inline hr_value hr_sigmoid(hr_graph *g, hr_value a) {
    return hr_unary(g, "sigmoid", a);
}
static inline hr_value hr_tanh(hr_graph *g, hr_value a) {
    return hr_unary(g, "tanh", a);
}
static inline hr_value hr_exp(hr_graph *g, hr_value a) {
    return hr_unary(g, "exp", a);
}
static inline hr_value hr_log(hr_graph *g, hr_value a) {
    return hr_unary(g, "log", a);
}
static inline hr_value hr_sqrt(hr_graph *g, hr_value a) {
    return hr_unary(g, "sqrt", a);
}
static inline hr_value hr_rsqrt(hr_graph *g, hr_value a) {
    return hr_unary(g, "rsqrt", a);
}
static inline hr_value hr_abs(hr_graph *g, hr_value a) {
    return hr_unary(g, "abs", a);
}
/* approximate: 0 by erf, 1 by tanh. */
static inline hr_value hr_gelu(hr_graph *g, hr_value a, int approximate) {
    return hr_nodef(g, "gelu", &a, 1, "approximate=%s", approximate ? "tanh" : "erf");
}
static inline hr_value hr_power(hr_graph *g, hr_value a, double exponent) {
    return hr_nodef(g, "power", &a, 1, "exponent=%.17g", exponent);
}
static inline hr_value hr_clip(hr_graph *g, hr_value a, double low, double high) {
    return hr_nodef(g, "clip", &a, 1, "low=%.17g,high=%.17g", low, high);
}
/* scale * a + shift. */
static inline hr_value hr_affine(hr_graph *g, hr_value a, double scale, double shift) {
    return hr_nodef(g, "affine", &a, 1, "scale=%.17g,shift=%.17g", scale, shift);
}
static inline hr_value hr_neg(hr_graph *g, hr_value a) {
    return hr_affine(g, a, -1.0, 0.0);
}

/* x (..., C), bias (C). */
static inline hr_value hr_bias_add(hr_graph *g, hr_value x, hr_value bias) {
    return hr_binary(g, "bias_add", x, bias);
}

/* ---- products ---- */

/* a (..., M, K) b (..., K, N); ta: a is (..., K, M); tb: b is (..., N, K). */
static inline hr_value hr_matmul(hr_graph *g, hr_value a, hr_value b, int ta, int tb) {
    const hr_value in[] = {a, b};
    return hr_nodef(g, "matmul", in, 2, "transpose-a=%d,transpose-b=%d", !!ta, !!tb);
}
/* x (..., in), w (out, in), bias (out) or HR_NONE. */
static inline hr_value hr_linear(hr_graph *g, hr_value x, hr_value w, hr_value bias) {
    const hr_value in[] = {x, w, bias};
    return hr_graph_node(g, "matmul", in, bias == HR_NONE ? 2 : 3, "transpose-b");
}
/* x (N, H, W, C), w (KH, KW, C / groups, O), bias (O) or HR_NONE; the same stride, padding and dilation both ways. */
static inline hr_value hr_conv2d(hr_graph *g, hr_value x, hr_value w, hr_value bias, int stride,
                                 int pad, int dilation, int groups) {
    const hr_value in[] = {x, w, bias};
    return hr_nodef(g, "conv2d", in, bias == HR_NONE ? 2 : 3,
                    "stride=%d,pad=%d,dilation=%d,groups=%d", stride, pad, dilation, groups);
}

/* ---- shapes and sums ---- */
static inline hr_value hr_reshape(hr_graph *g, hr_value x, hr_shape to) {
    char text[HR_RANK_MAX * 21 + 4] = "to=";
    size_t at = 3;
    for (int d = 0; d < to.rank && d < HR_RANK_MAX; d++) {
        at += (size_t)snprintf(text + at, sizeof text - at, "%s%lld", d ? "x" : "",
                               (long long)to.dim[d]);
    }
    return hr_graph_node(g, "reshape", &x, 1, text);
}
/* axes as text: "0x1"; "" or NULL: all of them. */
static inline hr_value hr_sum(hr_graph *g, hr_value x, const char *axes, int keep) {
    return hr_nodef(g, "sum", &x, 1, "axes=%s,keep=%d", axes ? axes : "", !!keep);
}
static inline hr_value hr_mean(hr_graph *g, hr_value x, const char *axes, int keep) {
    return hr_nodef(g, "mean", &x, 1, "axes=%s,keep=%d", axes ? axes : "", !!keep);
}
/* Output 1 is where the largest was. */
static inline hr_value hr_max(hr_graph *g, hr_value x, const char *axes, int keep) {
    return hr_nodef(g, "max", &x, 1, "axes=%s,keep=%d", axes ? axes : "", !!keep);
}
/* Lists as text, one number a dimension: order "0x2x1", begin "0x4", size "-1x2"; "" or NULL: none. */
static inline hr_value hr_transpose(hr_graph *g, hr_value x, const char *order) {
    return hr_nodef(g, "transpose", &x, 1, "order=%s", order ? order : "");
}
static inline hr_value hr_slice(hr_graph *g, hr_value x, const char *begin, const char *size) {
    return hr_nodef(g, "slice", &x, 1, "begin=%s,size=%s", begin ? begin : "", size ? size : "");
}
static inline hr_value hr_pad(hr_graph *g, hr_value x, const char *before, const char *after,
                              double value) {
    return hr_nodef(g, "pad", &x, 1, "before=%s,after=%s,value=%.17g", before ? before : "",
                    after ? after : "", value);
}
/* At most 16 values. */
static inline hr_value hr_concat(hr_graph *g, const hr_value *x, size_t count, int axis) {
    return hr_nodef(g, "concat", x, count, "axis=%d", axis);
}

/* ---- normalisation; x (..., C), gamma and beta (C) ---- */

/* In training: over the batch.  Output 1 is the mean, output 2 the inverse deviation.  z HR_NONE: nothing is added. */
static inline hr_value hr_batch_norm(hr_graph *g, hr_value x, hr_value gamma, hr_value beta,
                                     double eps) {
    const hr_value in[] = {x, gamma, beta};
    return hr_nodef(g, "batch_norm", in, 3, "eps=%.17g", eps);
}
static inline hr_value hr_batch_norm_relu(hr_graph *g, hr_value x, hr_value gamma, hr_value beta,
                                          hr_value z, double eps) {
    const hr_value in[] = {x, gamma, beta, z};
    return hr_nodef(g, z == HR_NONE ? "batch_norm_relu" : "batch_norm_add_relu", in,
                    z == HR_NONE ? 3 : 4, "eps=%.17g", eps);
}
/* With statistics that are given. */
static inline hr_value hr_batch_norm_inference(hr_graph *g, hr_value x, hr_value gamma,
                                               hr_value beta, hr_value mean, hr_value var,
                                               double eps) {
    const hr_value in[] = {x, gamma, beta, mean, var};
    return hr_nodef(g, "batch_norm_inference", in, 5, "eps=%.17g", eps);
}
/* Moves the running statistics (states, f32) by those of y, which hr_batch_norm[_relu] made with that eps.  Output 1 is
 * the new variance. */
static inline hr_value hr_batch_norm_stats(hr_graph *g, hr_value running_mean, hr_value running_var,
                                           hr_value y, double eps, double momentum) {
    const hr_shape shape = hr_graph_meta(g, y).shape;
    long long rows = 1;
    for (int d = 0; d + 1 < shape.rank; d++) {
        rows *= (long long)shape.dim[d];
    }
    const hr_value in[] = {running_mean, running_var, hr_graph_output(g, y, 1),
                           hr_graph_output(g, y, 2)};
    return hr_nodef(g, "batch_norm_stats", in, 4, "eps=%.17g,momentum=%.17g,rows=%lld", eps,
                    momentum, rows);
}

/* Inside a sample: by row, by row without mean and beta, by group of channels. */
static inline hr_value hr_layer_norm(hr_graph *g, hr_value x, hr_value gamma, hr_value beta,
                                     double eps) {
    const hr_value in[] = {x, gamma, beta};
    return hr_nodef(g, "layer_norm", in, 3, "eps=%.17g", eps);
}
static inline hr_value hr_rms_norm(hr_graph *g, hr_value x, hr_value gamma, double eps) {
    const hr_value in[] = {x, gamma};
    return hr_nodef(g, "rms_norm", in, 2, "eps=%.17g", eps);
}
static inline hr_value hr_group_norm(hr_graph *g, hr_value x, hr_value gamma, hr_value beta,
                                     int groups, double eps) {
    const hr_value in[] = {x, gamma, beta};
    return hr_nodef(g, "group_norm", in, 3, "groups=%d,eps=%.17g", groups, eps);
}

static inline hr_value hr_softmax(hr_graph *g, hr_value x, int axis) {
    return hr_nodef(g, "softmax", &x, 1, "axis=%d", axis);
}
static inline hr_value hr_log_softmax(hr_graph *g, hr_value x, int axis) {
    return hr_nodef(g, "log_softmax", &x, 1, "axis=%d", axis);
}

/* Training only: each element is 0 with probability p, the others are divided by 1 - p. */
static inline hr_value hr_dropout(hr_graph *g, hr_value x, double p) {
    return hr_nodef(g, "dropout", &x, 1, "p=%.17g", p);
}

/* ---- attention; q (B, T, H, D), k and v (B, S, H, D), or one qkv (B, T, 3, H, D) ---- */
static inline hr_value hr_attention(hr_graph *g, hr_value q, hr_value k, hr_value v, int causal) {
    const hr_value in[] = {q, k, v};
    return hr_nodef(g, "attention", in, 3, "causal=%d", !!causal);
}
static inline hr_value hr_attention_packed(hr_graph *g, hr_value qkv, int causal) {
    return hr_nodef(g, "attention_packed", &qkv, 1, "causal=%d", !!causal);
}

/* ---- pooling; x (N, H, W, C) ---- */
static inline hr_value hr_max_pool(hr_graph *g, hr_value x, int kernel, int stride, int pad) {
    return hr_nodef(g, "max_pool", &x, 1, "kernel=%d,stride=%d,pad=%d", kernel, stride, pad);
}
/* Padding counts in the mean. */
static inline hr_value hr_avg_pool(hr_graph *g, hr_value x, int kernel, int stride, int pad) {
    return hr_nodef(g, "avg_pool", &x, 1, "kernel=%d,stride=%d,pad=%d", kernel, stride, pad);
}
/* (N, C) */
static inline hr_value hr_global_avg_pool(hr_graph *g, hr_value x) {
    return hr_unary(g, "global_avg_pool", x);
}

/* Rows of a table (V, ...) by ids of i32 or i64: embedding. */
static inline hr_value hr_gather(hr_graph *g, hr_value table, hr_value ids) {
    return hr_binary(g, "gather", table, ids);
}
static inline hr_value hr_cast(hr_graph *g, hr_value x, hr_type to) {
    return hr_nodef(g, "cast", &x, 1, "to=%s", hr_type_name(to));
}

/* x (N, H, W, C) to (N, height, width, C); mode "nearest" or "bilinear", with half-pixel centres. */
static inline hr_value hr_resize(hr_graph *g, hr_value x, int height, int width, const char *mode) {
    return hr_nodef(g, "resize", &x, 1, "height=%d,width=%d,mode=%s", height, width, mode);
}

/* ---- losses ---- */

/* logits (..., C), ids (...) of i32 or i64; the mean over ids that are not negative. */
static inline hr_value hr_cross_entropy(hr_graph *g, hr_value logits, hr_value ids,
                                        double smoothing) {
    const hr_value in[] = {logits, ids};
    return hr_nodef(g, "cross_entropy", in, 2, "smoothing=%.17g", smoothing);
}

/* The same of the scores x w^T, which are never whole in memory: x (..., C), w (V, C), ids (...).  With the attribute
 * "keep" the gradient finds them in output 2. */
static inline hr_value hr_linear_cross_entropy(hr_graph *g, hr_value x, hr_value w, hr_value ids,
                                               double smoothing) {
    const hr_value in[] = {x, w, ids};
    return hr_nodef(g, "linear_cross_entropy", in, 3, "smoothing=%.17g", smoothing);
}

/* logits and targets (..., C): probabilities instead of ids; the mean over rows. */
static inline hr_value hr_cross_entropy_soft(hr_graph *g, hr_value logits, hr_value targets,
                                             double smoothing) {
    const hr_value in[] = {logits, targets};
    return hr_nodef(g, "cross_entropy_soft", in, 2, "smoothing=%.17g", smoothing);
}
/* Means over all elements. */
static inline hr_value hr_mean_squared_error(hr_graph *g, hr_value a, hr_value b) {
    return hr_binary(g, "mean_squared_error", a, b);
}
/* Of logits, and targets from 0 to 1. */
static inline hr_value hr_binary_cross_entropy(hr_graph *g, hr_value logits, hr_value targets) {
    return hr_binary(g, "binary_cross_entropy", logits, targets);
}

/* ---- metrics; no gradient ---- */

/* How often the id is among the `top` best of x (..., C). */
static inline hr_value hr_accuracy(hr_graph *g, hr_value x, hr_value ids, int top) {
    const hr_value in[] = {x, ids};
    return hr_nodef(g, "accuracy", in, 2, "top=%d", top);
}
/* The k largest of each row, the largest first; output 1 says where they were. */
static inline hr_value hr_top_k(hr_graph *g, hr_value x, int k) {
    return hr_nodef(g, "top_k", &x, 1, "k=%d", k);
}

/* ---- updates of persistent values; each returns the new version ---- */

/* rate is a scalar f32; momentum is a state like w, or HR_NONE for plain descent. */
static inline hr_value hr_sgd(hr_graph *g, hr_value w, hr_value grad, hr_value rate,
                              hr_value velocity, double momentum, int nesterov, double decay) {
    if (velocity == HR_NONE) {
        const hr_value in[] = {w, grad, rate};
        return hr_nodef(g, "sgd", in, 3, "decay=%.17g", decay);
    }
    const hr_value in[] = {w, grad, rate, velocity};
    return hr_nodef(g, "sgd_momentum", in, 4, "momentum=%.17g,nesterov=%d,decay=%.17g", momentum,
                    !!nesterov, decay);
}

HR_END_DECLS
#endif

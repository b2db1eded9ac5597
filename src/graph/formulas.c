/* The builders of headroom/ops.h: an op's name, its inputs, and its attributes as text.  Nothing else is known of an op
 * here; src/ops/<name>.c has the rest. */
#include <headroom/ops.h>

#include <stdarg.h>
#include <stdio.h>

#include "base/number.h"
#include "graph/graph.h"

hr_value hri_nodef(hr_graph *g, const char *op, const hr_value *in, size_t count,
                   const char *format, ...) {
    char text[512];
    va_list args;
    va_start(args, format);
    const int length = hri_vsnprintf(text, sizeof text, format, args);
    va_end(args);
    if (length < 0 || (size_t)length >= sizeof text) {
        hri_graph_fail(g, HR_E_INVALID, "%s: its attributes are longer than %zu bytes", op,
                       sizeof text - 1);
        return HR_NONE;
    }
    return hr_graph_node(g, op, in, count, text);
}

static hr_value unary(hr_graph *g, const char *op, hr_value a) {
    return hr_graph_node(g, op, &a, 1, NULL);
}

static hr_value binary(hr_graph *g, const char *op, hr_value a, hr_value b) {
    const hr_value in[] = {a, b};
    return hr_graph_node(g, op, in, 2, NULL);
}

/* ---- element-wise; binary ones broadcast ---- */

hr_value hr_add(hr_graph *g, hr_value a, hr_value b) {
    return binary(g, "add", a, b);
}

hr_value hr_mul(hr_graph *g, hr_value a, hr_value b) {
    return binary(g, "mul", a, b);
}

hr_value hr_sub(hr_graph *g, hr_value a, hr_value b) {
    return binary(g, "sub", a, b);
}

hr_value hr_div(hr_graph *g, hr_value a, hr_value b) {
    return binary(g, "div", a, b);
}

hr_value hr_relu(hr_graph *g, hr_value a) {
    return unary(g, "relu", a);
}

hr_value hr_relu_mask(hr_graph *g, hr_value a) {
    return unary(g, "relu_mask", a);
}

hr_value hr_silu(hr_graph *g, hr_value a) {
    return unary(g, "silu", a);
}

hr_value hr_sigmoid(hr_graph *g, hr_value a) {
    return unary(g, "sigmoid", a);
}

hr_value hr_tanh(hr_graph *g, hr_value a) {
    return unary(g, "tanh", a);
}

hr_value hr_exp(hr_graph *g, hr_value a) {
    return unary(g, "exp", a);
}

hr_value hr_log(hr_graph *g, hr_value a) {
    return unary(g, "log", a);
}

hr_value hr_sqrt(hr_graph *g, hr_value a) {
    return unary(g, "sqrt", a);
}

hr_value hr_rsqrt(hr_graph *g, hr_value a) {
    return unary(g, "rsqrt", a);
}

hr_value hr_abs(hr_graph *g, hr_value a) {
    return unary(g, "abs", a);
}

hr_value hr_gelu(hr_graph *g, hr_value a, int approximate) {
    return hri_nodef(g, "gelu", &a, 1, "approximate=%s", approximate ? "tanh" : "erf");
}

hr_value hr_power(hr_graph *g, hr_value a, double exponent) {
    return hri_nodef(g, "power", &a, 1, "exponent=%.17g", exponent);
}

hr_value hr_clip(hr_graph *g, hr_value a, double low, double high) {
    return hri_nodef(g, "clip", &a, 1, "low=%.17g,high=%.17g", low, high);
}

hr_value hr_affine(hr_graph *g, hr_value a, double scale, double shift) {
    return hri_nodef(g, "affine", &a, 1, "scale=%.17g,shift=%.17g", scale, shift);
}

hr_value hr_neg(hr_graph *g, hr_value a) {
    return hr_affine(g, a, -1.0, 0.0);
}

hr_value hr_stop_gradient(hr_graph *g, hr_value a) {
    return unary(g, "stop_gradient", a);
}

hr_value hr_function(hr_graph *g, hr_value a, const char *f, double alpha) {
    return hri_nodef(g, "function", &a, 1, "f=%s,alpha=%.17g", f, alpha);
}

hr_value hr_maximum(hr_graph *g, hr_value a, hr_value b) {
    return binary(g, "maximum", a, b);
}

hr_value hr_minimum(hr_graph *g, hr_value a, hr_value b) {
    return binary(g, "minimum", a, b);
}

hr_value hr_prelu(hr_graph *g, hr_value a, hr_value slope) {
    return binary(g, "prelu", a, slope);
}

hr_value hr_compare(hr_graph *g, hr_value a, hr_value b, const char *is) {
    const hr_value in[] = {a, b};
    return hri_nodef(g, "compare", in, 2, "is=%s", is);
}

hr_value hr_where(hr_graph *g, hr_value mask, hr_value a, hr_value b) {
    const hr_value in[] = {mask, a, b};
    return hr_graph_node(g, "where", in, 3, NULL);
}

hr_value hr_bias_add(hr_graph *g, hr_value x, hr_value bias) {
    return binary(g, "bias_add", x, bias);
}

/* ---- products ---- */

hr_value hr_matmul(hr_graph *g, hr_value a, hr_value b, int ta, int tb) {
    const hr_value in[] = {a, b};
    return hri_nodef(g, "matmul", in, 2, "transpose-a=%d,transpose-b=%d", !!ta, !!tb);
}

hr_value hr_linear(hr_graph *g, hr_value x, hr_value w, hr_value bias) {
    const hr_value in[] = {x, w, bias};
    return hr_graph_node(g, "matmul", in, bias == HR_NONE ? 2 : 3, "transpose-b");
}

hr_value hr_conv2d(hr_graph *g, hr_value x, hr_value w, hr_value bias, int stride, int pad,
                   int dilation, int groups) {
    const hr_value in[] = {x, w, bias};
    return hri_nodef(g, "conv2d", in, bias == HR_NONE ? 2 : 3,
                     "stride=%d,pad=%d,dilation=%d,groups=%d", stride, pad, dilation, groups);
}

/* ---- shapes and sums ---- */

hr_value hr_reshape(hr_graph *g, hr_value x, hr_shape to) {
    if (to.rank < 0 || to.rank > HR_RANK_MAX) {
        hri_graph_fail(g, HR_E_SHAPE, "reshape: rank %d is not 0 to %d", (int)to.rank, HR_RANK_MAX);
        return HR_NONE;
    }
    char text[HR_RANK_MAX * 21 + 4] = "to=";
    size_t at = 3;
    for (int d = 0; d < to.rank; d++) {
        at += (size_t)snprintf(text + at, sizeof text - at, "%s%lld", d ? "x" : "",
                               (long long)to.dim[d]);
    }
    return hr_graph_node(g, "reshape", &x, 1, text);
}

hr_value hr_sum(hr_graph *g, hr_value x, const char *axes, int keep) {
    return hri_nodef(g, "sum", &x, 1, "axes=%s,keep=%d", axes ? axes : "", !!keep);
}

hr_value hr_mean(hr_graph *g, hr_value x, const char *axes, int keep) {
    return hri_nodef(g, "mean", &x, 1, "axes=%s,keep=%d", axes ? axes : "", !!keep);
}

hr_value hr_max(hr_graph *g, hr_value x, const char *axes, int keep) {
    return hri_nodef(g, "max", &x, 1, "axes=%s,keep=%d", axes ? axes : "", !!keep);
}

hr_value hr_transpose(hr_graph *g, hr_value x, const char *order) {
    return hri_nodef(g, "transpose", &x, 1, "order=%s", order ? order : "");
}

hr_value hr_slice(hr_graph *g, hr_value x, const char *begin, const char *size) {
    return hri_nodef(g, "slice", &x, 1, "begin=%s,size=%s", begin ? begin : "", size ? size : "");
}

hr_value hr_flip(hr_graph *g, hr_value x, const char *axes) {
    return hri_nodef(g, "flip", &x, 1, "axes=%s", axes ? axes : "");
}

hr_value hr_pad(hr_graph *g, hr_value x, const char *before, const char *after, double value) {
    return hri_nodef(g, "pad", &x, 1, "before=%s,after=%s,value=%.17g", before ? before : "",
                     after ? after : "", value);
}

/* A node takes so many values; more are joined in groups first. */
hr_value hr_concat(hr_graph *g, const hr_value *x, size_t count, int axis) {
    if (count <= HRI_IN_MAX) {
        return hri_nodef(g, "concat", x, count, "axis=%d", axis);
    }
    hr_value parts[HRI_IN_MAX];
    const size_t each = (count + HRI_IN_MAX - 1) / HRI_IN_MAX;
    size_t n = 0;
    for (size_t i = 0; i < count; i += each) {
        const size_t left = count - i;
        parts[n++] = left == 1 ? x[i] : hr_concat(g, x + i, left < each ? left : each, axis);
    }
    return hri_nodef(g, "concat", parts, n, "axis=%d", axis);
}

/* ---- normalisation; x (..., C), gamma and beta (C) ---- */

hr_value hr_batch_norm(hr_graph *g, hr_value x, hr_value gamma, hr_value beta, double eps) {
    const hr_value in[] = {x, gamma, beta};
    return hri_nodef(g, "batch_norm", in, 3, "eps=%.17g", eps);
}

hr_value hr_batch_norm_relu(hr_graph *g, hr_value x, hr_value gamma, hr_value beta, hr_value z,
                            double eps) {
    const hr_value in[] = {x, gamma, beta, z};
    return hri_nodef(g, z == HR_NONE ? "batch_norm_relu" : "batch_norm_add_relu", in,
                     z == HR_NONE ? 3 : 4, "eps=%.17g", eps);
}

hr_value hr_batch_norm_inference(hr_graph *g, hr_value x, hr_value gamma, hr_value beta,
                                 hr_value mean, hr_value var, double eps) {
    const hr_value in[] = {x, gamma, beta, mean, var};
    return hri_nodef(g, "batch_norm_inference", in, 5, "eps=%.17g", eps);
}

hr_value hr_batch_norm_stats(hr_graph *g, hr_value running_mean, hr_value running_var, hr_value y,
                             double eps, double momentum) {
    const hr_shape shape = hr_graph_meta(g, y).shape;
    long long rows = 1;
    for (int d = 0; d + 1 < shape.rank; d++) {
        rows *= (long long)shape.dim[d];
    }
    const hr_value in[] = {running_mean, running_var, hr_graph_output(g, y, 1),
                           hr_graph_output(g, y, 2)};
    return hri_nodef(g, "batch_norm_stats", in, 4, "eps=%.17g,momentum=%.17g,rows=%lld", eps,
                     momentum, rows);
}

hr_value hr_layer_norm(hr_graph *g, hr_value x, hr_value gamma, hr_value beta, double eps) {
    const hr_value in[] = {x, gamma, beta};
    return hri_nodef(g, "layer_norm", in, 3, "eps=%.17g", eps);
}

hr_value hr_rms_norm(hr_graph *g, hr_value x, hr_value gamma, double eps) {
    const hr_value in[] = {x, gamma};
    return hri_nodef(g, "rms_norm", in, 2, "eps=%.17g", eps);
}

hr_value hr_group_norm(hr_graph *g, hr_value x, hr_value gamma, hr_value beta, int groups,
                       double eps) {
    const hr_value in[] = {x, gamma, beta};
    return hri_nodef(g, "group_norm", in, 3, "groups=%d,eps=%.17g", groups, eps);
}

hr_value hr_softmax(hr_graph *g, hr_value x, int axis) {
    return hri_nodef(g, "softmax", &x, 1, "axis=%d", axis);
}

hr_value hr_log_softmax(hr_graph *g, hr_value x, int axis) {
    return hri_nodef(g, "log_softmax", &x, 1, "axis=%d", axis);
}

hr_value hr_dropout(hr_graph *g, hr_value x, double p) {
    return hri_nodef(g, "dropout", &x, 1, "p=%.17g", p);
}

/* ---- attention; q (B, T, H, D), k and v (B, S, H, D), or one qkv (B, T, 3, H, D) ---- */

hr_value hr_attention(hr_graph *g, hr_value q, hr_value k, hr_value v, int causal) {
    const hr_value in[] = {q, k, v};
    return hri_nodef(g, "attention", in, 3, "causal=%d", !!causal);
}

hr_value hr_attention_masked(hr_graph *g, hr_value q, hr_value k, hr_value v, hr_value mask,
                             int causal, double scale, double dropout) {
    const hr_value in[] = {q, k, v, mask};
    return hri_nodef(g, "attention_masked", in, mask == HR_NONE ? 3 : 4,
                     "causal=%d,scale=%.17g,dropout=%.17g", !!causal, scale, dropout);
}

hr_value hr_attention_packed(hr_graph *g, hr_value qkv, int causal) {
    return hri_nodef(g, "attention_packed", &qkv, 1, "causal=%d", !!causal);
}

/* ---- pooling; x (N, H, W, C) ---- */

hr_value hr_max_pool(hr_graph *g, hr_value x, int kernel, int stride, int pad) {
    return hri_nodef(g, "max_pool", &x, 1, "kernel=%d,stride=%d,pad=%d", kernel, stride, pad);
}

hr_value hr_avg_pool(hr_graph *g, hr_value x, int kernel, int stride, int pad) {
    return hri_nodef(g, "avg_pool", &x, 1, "kernel=%d,stride=%d,pad=%d", kernel, stride, pad);
}

hr_value hr_global_avg_pool(hr_graph *g, hr_value x) {
    return unary(g, "global_avg_pool", x);
}

hr_value hr_gather(hr_graph *g, hr_value table, hr_value ids) {
    return binary(g, "gather", table, ids);
}

hr_value hr_cast(hr_graph *g, hr_value x, hr_type to) {
    return hri_nodef(g, "cast", &x, 1, "to=%s", hr_type_name(to));
}

hr_value hr_resize(hr_graph *g, hr_value x, int height, int width, const char *mode) {
    return hri_nodef(g, "resize", &x, 1, "height=%d,width=%d,mode=%s", height, width, mode);
}

/* ---- losses ---- */

hr_value hr_cross_entropy(hr_graph *g, hr_value logits, hr_value ids, double smoothing) {
    const hr_value in[] = {logits, ids};
    return hri_nodef(g, "cross_entropy", in, 2, "smoothing=%.17g", smoothing);
}

hr_value hr_linear_cross_entropy(hr_graph *g, hr_value x, hr_value w, hr_value ids,
                                 double smoothing) {
    const hr_value in[] = {x, w, ids};
    return hri_nodef(g, "linear_cross_entropy", in, 3, "smoothing=%.17g", smoothing);
}

hr_value hr_cross_entropy_soft(hr_graph *g, hr_value logits, hr_value targets, double smoothing) {
    const hr_value in[] = {logits, targets};
    return hri_nodef(g, "cross_entropy_soft", in, 2, "smoothing=%.17g", smoothing);
}

hr_value hr_mean_squared_error(hr_graph *g, hr_value a, hr_value b) {
    return binary(g, "mean_squared_error", a, b);
}

hr_value hr_binary_cross_entropy(hr_graph *g, hr_value logits, hr_value targets) {
    return binary(g, "binary_cross_entropy", logits, targets);
}

/* ---- metrics; no gradient ---- */

hr_value hr_accuracy(hr_graph *g, hr_value x, hr_value ids, int top) {
    const hr_value in[] = {x, ids};
    return hri_nodef(g, "accuracy", in, 2, "top=%d", top);
}

hr_value hr_top_k(hr_graph *g, hr_value x, int k) {
    return hri_nodef(g, "top_k", &x, 1, "k=%d", k);
}

/* ---- updates of persistent values; each returns the new version ---- */

hr_value hr_sgd(hr_graph *g, hr_value w, hr_value grad, hr_value rate, hr_value velocity,
                double momentum, int nesterov, double decay) {
    if (velocity == HR_NONE) {
        const hr_value in[] = {w, grad, rate};
        return hri_nodef(g, "sgd", in, 3, "decay=%.17g", decay);
    }
    const hr_value in[] = {w, grad, rate, velocity};
    return hri_nodef(g, "sgd_momentum", in, 4, "momentum=%.17g,nesterov=%d,decay=%.17g", momentum,
                     !!nesterov, decay);
}

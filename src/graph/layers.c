/* Builders of headroom/ops.h that are made of several ops, or that count axes: convolutions along one and three dimensions, roll,
 * argmax.  What they are made of is cheap to make again, so a plan loses nothing by it. */
#include <headroom/ops.h>

#include <stdio.h>

#include "graph/graph.h"

/* Whether x has the rank that a builder needs; else the graph says so. */
static int has_rank(hr_graph *g, const char *what, hr_value x, int rank) {
    if (x == HR_NONE || g->error.code != HR_OK) {
        return 0;
    }
    if (hr_graph_meta(g, x).shape.rank != rank) {
        hri_graph_fail(g, HR_E_SHAPE, "%s: expected %d dimensions", what, rank);
        return 0;
    }
    return 1;
}

/* x with a dimension of 1 at `at`. */
static hr_value with_one(hr_graph *g, hr_value x, int at) {
    const hr_shape s = hr_graph_meta(g, x).shape;
    hr_shape to = {.rank = s.rank + 1};
    for (int d = 0; d < to.rank; d++) {
        to.dim[d] = d < at ? s.dim[d] : d == at ? 1 : s.dim[d - 1];
    }
    return hr_reshape(g, x, to);
}

hr_value hr_conv1d(hr_graph *g, hr_value x, hr_value w, hr_value bias, int stride, int pad,
                   int dilation, int groups) {
    if (!has_rank(g, "conv1d", x, 3) || !has_rank(g, "conv1d", w, 3)) {
        return HR_NONE;
    }
    const hr_value in[] = {with_one(g, x, 1), with_one(g, w, 0), bias};
    const hr_value y =
        hri_nodef(g, "conv2d", in, bias == HR_NONE ? 2 : 3,
                  "stride=1x%d,pad=0x%d,dilation=1x%d,groups=%d", stride, pad, dilation, groups);
    if (y == HR_NONE) {
        return HR_NONE;
    }
    const hr_shape out = hr_graph_meta(g, y).shape;
    const int64_t *dim = out.dim;
    return hr_reshape(g, y, hr_shape_3(dim[0], dim[2], dim[3]));
}

/* One of KD: the images that meet plane k of the kernel, as (N * planes, H, W, C), with that plane. */
static hr_value conv_plane(hr_graph *g, hr_value x, hr_value w, int64_t k, int64_t planes,
                           int stride, int pad) {
    const hr_shape s = hr_graph_meta(g, x).shape, ws = hr_graph_meta(g, w).shape;
    const hr_value met =
        hr_reshape(g,
                   hri_nodef(g, "slice", &x, 1, "begin=0x%lld,size=-1x%lld,step=1x%d", (long long)k,
                             (long long)planes, stride),
                   hr_shape_4(s.dim[0] * planes, s.dim[2], s.dim[3], s.dim[4]));
    const hr_value by =
        hr_reshape(g, hri_nodef(g, "slice", &w, 1, "begin=%lld,size=1", (long long)k),
                   hr_shape_4(ws.dim[1], ws.dim[2], ws.dim[3], ws.dim[4]));
    return hr_conv2d(g, met, by, HR_NONE, stride, pad, 1, 1);
}

hr_value hr_conv3d(hr_graph *g, hr_value x, hr_value w, hr_value bias, int stride, int pad) {
    if (!has_rank(g, "conv3d", x, 5) || !has_rank(g, "conv3d", w, 5)) {
        return HR_NONE;
    }
    const hr_value padded =
        pad ? hri_nodef(g, "pad", &x, 1, "before=0x%d,after=0x%d", pad, pad) : x;
    const int64_t batch = hr_graph_meta(g, x).shape.dim[0];
    const int64_t left =
        hr_graph_meta(g, x).shape.dim[1] + 2 * (int64_t)pad - hr_graph_meta(g, w).shape.dim[0];
    if (stride < 1 || left < 0 || padded == HR_NONE) {
        hri_graph_fail(g, HR_E_SHAPE, "conv3d: the kernel is deeper than the padded input");
        return HR_NONE;
    }
    const int64_t planes = left / stride + 1;
    hr_value sum = HR_NONE;
    for (int64_t k = 0; k < hr_graph_meta(g, w).shape.dim[0]; k++) {
        const hr_value part = conv_plane(g, padded, w, k, planes, stride, pad);
        sum = sum == HR_NONE ? part : hr_add(g, sum, part);
    }
    if (sum == HR_NONE) {
        return HR_NONE;
    }
    const hr_value y = bias == HR_NONE ? sum : hr_bias_add(g, sum, bias);
    const int64_t *dim = hr_graph_meta(g, y).shape.dim;
    return hr_reshape(g, y,
                      hr_shape_from(5, (const int64_t[]){batch, planes, dim[1], dim[2], dim[3]}));
}

hr_value hr_roll(hr_graph *g, hr_value x, int64_t shift, int axis) {
    if (x == HR_NONE || g->error.code != HR_OK) {
        return HR_NONE;
    }
    const hr_shape s = hr_graph_meta(g, x).shape;
    const int at = axis < 0 ? axis + s.rank : axis;
    if (at < 0 || at >= s.rank) {
        hri_graph_fail(g, HR_E_SHAPE, "roll: axis %d is outside the %d dimensions", axis, s.rank);
        return HR_NONE;
    }
    const int64_t size = s.dim[at], cut = size ? (size - shift % size) % size : 0;
    if (cut == 0) {
        return x;
    }
    /* The axis alone is cut: dimensions before it are whole, and those behind it are not named. */
    char begin[HR_RANK_MAX * 24], size_of[HR_RANK_MAX * 24];
    int b = 0, n = 0;
    for (int d = 0; d < at; d++) {
        b += snprintf(begin + b, sizeof begin - (size_t)b, "0x");
        n += snprintf(size_of + n, sizeof size_of - (size_t)n, "-1x");
    }
    snprintf(begin + b, sizeof begin - (size_t)b, "%lld", (long long)cut);
    snprintf(size_of + n, sizeof size_of - (size_t)n, "%lld", (long long)cut);
    const hr_value parts[] = {hr_slice(g, x, begin, NULL), hr_slice(g, x, NULL, size_of)};
    return hr_concat(g, parts, 2, at);
}

hr_value hr_argmax(hr_graph *g, hr_value x, int axis, int keep) {
    const hr_value y = hri_nodef(g, "max", &x, 1, "axes=%d,keep=%d", axis, !!keep);
    return y == HR_NONE ? HR_NONE : hr_graph_output(g, y, 1);
}

hr_value hr_cumsum(hr_graph *g, hr_value x, int axis) {
    return hri_nodef(g, "cumsum", &x, 1, "axis=%d", axis);
}

hr_value hr_take_along(hr_graph *g, hr_value x, hr_value index, int axis) {
    const hr_value in[] = {x, index};
    return hri_nodef(g, "take_along", in, 2, "axis=%d", axis);
}

hr_value hr_put_along(hr_graph *g, hr_value x, hr_value index, int axis, int64_t size) {
    const hr_value in[] = {x, index};
    return hri_nodef(g, "put_along", in, 2, "axis=%d,size=%lld", axis, (long long)size);
}

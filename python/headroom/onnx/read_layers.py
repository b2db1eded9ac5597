"""Products, convolutions, pools, normalisation and recurrent layers of ONNX."""
from __future__ import annotations

from typing import Any, Sequence

import numpy as np

from ..build import Build, Tensor
from ..graph import Refused
from ..size import Size, product
from .reader import Node, op


@op("MatMul")
def matmul(b: Build, n: Node) -> Tensor:
    return b.matmul(n.get(0), n.get(1))


@op("Gemm")
def gemm(b: Build, n: Node) -> Tensor:
    x, w, bias = n.get(0), n.get(1), n.get(2)
    alpha, beta = n.attr("alpha", 1.0), n.attr("beta", 1.0)
    if n.attr("transA", 0):
        x = b.permute(b.tensor(x), (1, 0))
    if alpha != 1:
        x = b.affine(b.tensor(x), alpha)
    if bias is not None and (beta != 1 or bias.rank != 1 or isinstance(bias.shape[0], Size)):
        bias = b.affine(b.tensor(bias), beta)
        return b.map2("add", b.linear(x, w, None, transposed=bool(n.attr("transB", 0))), bias)
    return b.linear(x, w, bias, transposed=bool(n.attr("transB", 0)))


@op("Einsum")
def einsum(b: Build, n: Node) -> Tensor:
    return b.einsum(n.attr("equation").replace(" ", ""), [b.tensor(x) for x in n.inputs])


def pads_of(n: Node, size: Sequence[int], kernel: Sequence[int], stride: Sequence[int],
            dilation: Sequence[int]) -> list[tuple[int, int]]:
    """(before, after) of each dimension."""
    auto, count = n.attr("auto_pad", "NOTSET"), len(kernel)
    if auto in ("NOTSET", ""):
        pads = list(n.attr("pads", [0] * (2 * count)))
        return list(zip(pads[:count], pads[count:]))
    if auto == "VALID":
        return [(0, 0)] * count
    total = [max(0, (-(-h // s) - 1) * s + d * (k - 1) + 1 - h) for h, k, s, d in zip(size, kernel, stride, dilation)]
    return [(t // 2, t - t // 2) if auto == "SAME_UPPER" else (t - t // 2, t // 2) for t in total]


@op("Conv")
def conv(b: Build, n: Node) -> Tensor:
    x, w = n.get(0), b.tensor(n.get(1))
    stride, dilation = (list(n.attr(k, [1] * (w.rank - 2))) for k in ("strides", "dilations"))
    pads = pads_of(n, x.shape[2:], w.shape[2:], stride, dilation)
    return b.conv(x, w, n.get(2), stride, pads, dilation, n.attr("group", 1))


@op("ConvTranspose")
def conv_transpose(b: Build, n: Node) -> Tensor:
    x, w = n.get(0), b.tensor(n.get(1))
    count = w.rank - 2
    stride, dilation = (list(n.attr(k, [1] * count)) for k in ("strides", "dilations"))
    extra = list(n.attr("output_padding", [0] * count))
    pads = pads_of(n, [], [0] * count, stride, dilation) if n.attr("auto_pad", "NOTSET") in ("NOTSET", "", "VALID") else None
    wanted = n.attr("output_shape")
    if wanted or pads is None:
        spans = [(h - 1) * s + (k - 1) * d + 1 for h, k, s, d in zip(x.shape[2:], w.shape[2:], stride, dilation)]
        wanted = list(wanted)[-count:] if wanted else [h * s for h, s in zip(x.shape[2:], stride)]
        total = [max(0, a + e - t) for a, e, t in zip(spans, extra, wanted)]
        extra = [max(e, t - a) for a, e, t in zip(spans, extra, wanted)]
        pads = [(t - t // 2, t // 2) if n.attr("auto_pad", "NOTSET") != "SAME_UPPER" else (t // 2, t - t // 2) for t in total]
    if count == 2:
        around = (pads[0][0], pads[1][0], pads[0][1], pads[1][1])
        return b.conv_transpose2d(x, w, n.get(2), stride, around, extra, dilation, n.attr("group", 1))
    if any(u != v for u, v in pads):
        raise Refused("ConvTranspose of one or three dimensions with uneven padding")
    return b.conv_transpose(x, w, n.get(2), stride, [u for u, _ in pads], extra, dilation, n.attr("group", 1))


@op("BatchNormalization")
def batch_norm(b: Build, n: Node) -> Any:
    x, gamma, beta, mean, var = n.inputs[:5]
    eps = n.attr("epsilon", 1e-5)
    if not n.reader.training:
        return b.batch_norm_inference(x, gamma, beta, mean, var, eps)
    y, m, inv = b.batch_norm(x, gamma, beta, eps)
    if isinstance(mean, Tensor) and isinstance(var, Tensor):
        rows = product(y.shape[:1] + y.shape[2:])
        b.batch_norm_stats([mean.value, var.value], m, inv, rows, eps, 1.0 - n.attr("momentum", 0.9), False)
    return y


@op("LayerNormalization")
def layer_norm(b: Build, n: Node) -> Tensor:
    x = n.get(0)
    axis = n.attr("axis", -1) % x.rank
    return b.layer_norm(x, n.get(1), n.get(2), n.attr("epsilon", 1e-5), x.rank - axis)


@op("InstanceNormalization")
def instance_norm(b: Build, n: Node) -> Tensor:
    return b.group_norm(n.get(0), n.get(0).shape[1], n.get(1), n.get(2), n.attr("epsilon", 1e-5))


@op("GroupNormalization")
def group_norm(b: Build, n: Node) -> Tensor:
    """Until opset 20 scale and bias are those of groups, from 21 on of channels."""
    x, scale, bias, groups = n.get(0), n.get(1), n.get(2), n.attr("num_groups")
    if n.opset < 21 and scale.shape[0] == groups != x.shape[1]:
        each = x.shape[1] // groups
        scale, bias = (b.reshape(b.broadcast(b.reshape(b.tensor(v), (groups, 1)), (groups, each)), (x.shape[1],))
                       for v in (scale, bias))
    return b.group_norm(x, groups, scale, bias, n.attr("epsilon", 1e-5))


@op("MaxPool", "AveragePool")
def pool(b: Build, n: Node) -> Tensor:
    x, kernel = n.get(0), n.attr("kernel_shape")
    count = len(kernel)
    stride, dilation = (list(n.attr(k, [1] * count)) for k in ("strides", "dilations"))
    pads, kind = pads_of(n, x.shape[2:], kernel, stride, dilation), "max_pool" if n.op == "MaxPool" else "avg_pool"
    ceil, counted = bool(n.attr("ceil_mode", 0)), bool(n.attr("count_include_pad", 0))
    if count == 2 and set(dilation) == {1}:
        around = (pads[0][0], pads[1][0], pads[0][1], pads[1][1])
        return b.pool(kind, x, kernel, stride, around, ceil, counted)
    if any(u != v for u, v in pads):
        raise Refused("pooling of one or three dimensions with uneven padding")
    return b.pooled(kind, x, kernel, stride, [u for u, _ in pads], ceil, counted, dilation)


@op("GlobalAveragePool")
def global_average_pool(b: Build, n: Node) -> Tensor:
    x = n.get(0)
    return b.reduce("mean", x, range(2, x.rank), True)


@op("GlobalMaxPool")
def global_max_pool(b: Build, n: Node) -> Tensor:
    x = n.get(0)
    return b.reduce("max", x, range(2, x.rank), True)


@op("Resize", "Upsample")
def resize(b: Build, n: Node) -> Tensor:
    x = n.get(0)
    axes = [a % x.rank for a in n.attr("axes", range(x.rank))]
    sizes, scales = n.get(3), n.get(2)
    if sizes is not None:
        wanted = {a: s for a, s in zip(axes, sizes.array)}
    else:
        wanted = {a: d if float(s) == 1 else int(np.floor(d * float(s))) for a, d, s in
                  zip(axes, [x.shape[a] for a in axes], scales.array)}
    to = [int(wanted.get(d, x.shape[d])) for d in range(2, x.rank)]
    mode, how = n.attr("mode", "nearest"), n.attr("coordinate_transformation_mode", "half_pixel")
    if n.attr("antialias", 0) or n.attr("keep_aspect_ratio_policy", "stretch") != "stretch":
        raise Refused("Resize with antialias or a kept aspect ratio")
    if mode == "nearest" and (how == "asymmetric" and n.attr("nearest_mode", "round_prefer_floor") == "floor" or
                              all(t % d == 0 for t, d in zip(to, x.shape[2:]))):
        return b.interpolate(x, to, "nearest", False, [None] * len(to))
    if mode in ("linear", "cubic") and how in ("half_pixel", "pytorch_half_pixel", "align_corners"):
        return b.interpolate(x, to, mode, how == "align_corners", [None] * len(to))
    raise Refused(f"Resize by {mode}, {how}")


# ---- recurrent layers: x (T, N, I), weights (directions, gates, ...) ----

def parts(n: Node, count: int) -> list:
    """Defaults only: activations, no clipping, no lengths of sequences."""
    if n.attr("activations") or n.attr("clip") or n.get(4) is not None or n.attr("layout", 0) or n.attr("input_forget", 0):
        raise Refused(f"{n.op} with activations, clip, layout or lengths of its own")
    if n.op == "LSTM" and n.get(7) is not None:
        raise Refused("LSTM with peepholes")
    return ["forward", "reverse"] if n.attr("direction", "forward") == "bidirectional" else [n.attr("direction", "forward")]


def gates_turned(b: Build, w: Tensor, order: Sequence[int], count: int) -> Tensor:
    pieces = b.split(w, count, 0)
    return b.concat([pieces[i] for i in order], 0)


@op("LSTM", "GRU")
def recurrent(b: Build, n: Node) -> list:
    """Gates i, o, f, c of LSTM and z, r, h of GRU; ours are i, f, c, o and r, z, h."""
    x, lstm = n.get(0), n.op == "LSTM"
    count, order = (4, (0, 2, 3, 1)) if lstm else (3, (1, 0, 2))
    if not lstm and not n.attr("linear_before_reset", 0):
        raise Refused("GRU with linear_before_reset=0")
    hidden, outputs, ends = n.attr("hidden_size"), [], []
    for d, way in enumerate(parts(n, count)):
        w, u = (gates_turned(b, b.select(b.tensor(n.get(i)), 0, d), order, count) for i in (1, 2))
        both = b.select(b.tensor(n.get(3)), 0, d) if n.get(3) is not None else None
        biases = [gates_turned(b, v, order, count) for v in b.split(both, 2, 0)] if both is not None else [None, None]
        shape = (x.shape[1], hidden)  # a state to begin with may be the same for all samples
        zero = Tensor(b.form.fill("f32", shape, 0.0))
        given = [n.get(i) for i in ((5, 6) if lstm else (5,))]
        state = [zero if s is None else b.broadcast(b.select(b.whole(s), 0, d), shape) for s in given]
        ys: dict[int, Tensor] = {}
        for t, xt in b.steps(b.linear(x, w, biases[0]), 0, way == "reverse"):
            ht = b.linear(state[0], u, biases[1])
            state = list(b.lstm_cell(b.map2("add", xt, ht), state[1])) if lstm else [b.gru_cell(xt, ht, state[0])]
            ys[t] = b.unsqueeze(b.unsqueeze(state[0], 0), 0)
        outputs.append(b.concat([ys[t] for t in sorted(ys)], 0))
        ends.append([b.unsqueeze(s, 0) for s in state])
    return [b.concat(outputs, 1), *(b.concat(list(e), 0) for e in zip(*ends))]

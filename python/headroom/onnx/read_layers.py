"""Products, convolutions, pools and normalisation of ONNX."""
from __future__ import annotations

from typing import Any, Sequence

import numpy as np

from ..build import Build, Const, Tensor
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
    x, gamma, beta = n.inputs[:3]
    mean, var = (n.reader.statistic(n.raw, i) for i in (3, 4))
    if not n.attr("spatial", 1):
        raise Refused("BatchNormalization with spatial=0")
    eps = n.attr("epsilon", 1e-5)
    if not n.reader.training:
        return b.batch_norm_inference(x, gamma, beta, mean, var, eps)
    y, m, inv = b.batch_norm(x, gamma, beta, eps)
    if isinstance(mean, Tensor) and isinstance(var, Tensor):
        rows = product(y.shape[:1] + y.shape[2:])
        b.batch_norm_stats([mean.value, var.value], m, inv, rows, eps, 1.0 - n.attr("momentum", 0.9), False)
    return y


@op("STFT")
def short_time_fourier(b: Build, n: Node) -> Tensor:
    """(N, T) or (N, T, 1): frames by the matrix of their waves, (N, frames, waves, 2)."""
    x, step, window, length = n.get(0), int(n.number(1, "frame_step", 0)), n.get(2), n.number(3, "frame_length", None)
    if window is not None and not isinstance(window, Const) or x.rank == 3 and x.shape[2] != 1:
        raise Refused("STFT with a window that depends on data, or of complex numbers")
    size = int(length) if length is not None else len(window.array)
    waves = waves_of(size, bool(n.attr("onesided", 1)))
    if window is not None:
        assert isinstance(window, Const)
        waves = waves * np.asarray(window.array, "float64").reshape(1, -1, 1)
    frames = b.unfold(b.squeeze(x, [2]) if x.rank == 3 else x, 1, size, step)
    y = b.linear(frames, Const(waves.transpose(0, 2, 1).reshape(-1, size).astype("float32")))
    return b.reshape(y, y.shape[:-1] + (len(waves), 2))


def waves_of(size: int, onesided: bool) -> np.ndarray:
    """(waves, size, 2): cosines, and sines with a minus, of a Fourier transform."""
    if size > 4096:
        raise Refused(f"a Fourier transform of {size} numbers; up to 4096 are products with the matrix of their waves")
    angles = -2 * np.pi * np.outer(np.arange(size // 2 + 1 if onesided else size), np.arange(size)) / size
    return np.stack([np.cos(angles), np.sin(angles)], -1)


@op("DFT")
def fourier(b: Build, n: Node) -> Tensor:
    """(..., 1 or 2): real and imaginary parts last."""
    x, inverse = b.tensor(n.get(0)), bool(n.attr("inverse", 0))
    axis = int(n.number(2, "axis", -2) if n.opset >= 20 else n.attr("axis", 1)) % x.rank
    size = x.shape[axis]
    if n.get(1) is not None and int(n.number(1, "dft_length", size)) != size or isinstance(size, Size):
        raise Refused("DFT with a length of its own, or along the batch")
    if inverse and n.attr("onesided", 0):
        raise Refused("DFT with inverse and onesided")
    waves = waves_of(size, bool(n.attr("onesided", 0)))
    waves = waves * np.array([1, -1]) / size if inverse else waves
    parts = [b.select(x, x.rank - 1, i) for i in range(x.shape[-1])]
    to = [[b.along(p, axis, m) for m in (waves[..., 0], waves[..., 1])] for p in parts]
    real, imaginary = to[0]
    if len(to) == 2:
        real, imaginary = b.map2("sub", real, to[1][1]), b.map2("add", imaginary, to[1][0])
    return b.concat([b.unsqueeze(v, v.rank) for v in (real, imaginary)], -1)


@op("LRN")
def local_response(b: Build, n: Node) -> Tensor:
    """x over the mean of the squares of its neighbours among the channels."""
    x, size = n.get(0), n.attr("size")
    before = (size - 1) // 2
    squares = b.pad(b.map1("power", x, exponent=2.0), {1: (before, size - 1 - before)})
    total = b.slice(squares, 1, 0, x.shape[1])
    for i in range(1, size):
        total = b.map2("add", total, b.slice(squares, 1, i, x.shape[1]))
    scaled = b.affine(total, n.attr("alpha", 1e-4) / size, n.attr("bias", 1.0))
    return b.map2("mul", x, b.map1("power", scaled, exponent=-float(n.attr("beta", 0.75))))


@op("MeanVarianceNormalization")
def normalized(b: Build, n: Node) -> Tensor:
    x, axes = n.get(0), n.attr("axes", [0, 2, 3])
    centred = b.map2("sub", x, b.reduce("mean", x, axes, True))
    deviation = b.map1("sqrt", b.reduce("mean", b.map1("power", centred, exponent=2.0), axes, True))
    return b.map2("div", centred, b.affine(deviation, 1.0, 1e-9))


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

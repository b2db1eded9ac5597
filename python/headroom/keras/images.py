"""Convolutions, pools, padding and resizing over one, two or three dimensions.  Here x is (N, ..., C) whatever the layer's data
format: permuting a value costs nothing until something needs it to lie so."""
from __future__ import annotations

from typing import Any, Optional, Sequence

import keras

from ..build import Build, Tensor
from ..graph import Refused
from ..size import Size
from .call import Call, layer, several
from .elements import activated


def first(op: Any) -> bool:
    return getattr(op, "data_format", None) == "channels_first"


def channels_last(b: Build, op: Any, x: Tensor) -> Tensor:
    return b.permute(x, [0, *range(2, x.rank), 1]) if first(op) else x


def back(b: Build, op: Any, x: Tensor) -> Tensor:
    return b.permute(x, [0, x.rank - 1, *range(1, x.rank - 1)]) if first(op) else x


def ahead(b: Build, x: Tensor) -> Tensor:
    """(N, C, ...), as Build has images."""
    return b.permute(x, [0, x.rank - 1, *range(1, x.rank - 1)])


def behind(b: Build, x: Tensor) -> Tensor:
    return b.permute(x, [0, *range(2, x.rank), 1])


def same(size: int, kernel: int, stride: int, dilation: int) -> tuple[int, int]:
    """TensorFlow's rule: what is odd goes behind."""
    total = max(0, (-(-size // stride) - 1) * stride + dilation * (kernel - 1) + 1 - size)
    return total // 2, total - total // 2


def pads_of(padding: str, sizes: Sequence[Any], kernel: Sequence[int], stride: Sequence[int],
            dilation: Sequence[int]) -> list[tuple[int, int]]:
    if padding == "valid":
        return [(0, 0)] * len(kernel)
    if any(isinstance(s, Size) or s is None for s in sizes):
        raise Refused(f"padding={padding} of an open size")
    if padding == "causal":
        return [(d * (k - 1), 0) for k, d in zip(kernel, dilation)]
    if padding != "same":
        raise Refused(f"padding={padding}")
    return [same(*a) for a in zip(sizes, kernel, stride, dilation)]


def convolve(b: Build, op: Any, x: Tensor, kernel: Tensor, bias: Optional[Tensor], groups: int) -> Tensor:
    """kernel (..., C / groups, O)."""
    n = kernel.rank - 2
    stride, dilation = several(op.strides, n), several(op.dilation_rate, n)
    pads = pads_of(op.padding, x.shape[1:-1], kernel.shape[:n], stride, dilation)
    w = b.permute(kernel, [n + 1, n, *range(n)])
    return behind(b, b.conv(ahead(b, x), w, bias, stride, pads, dilation, groups))


def bias_of(c: Call) -> Optional[Tensor]:
    return c.weight(c.op.bias) if c.op.use_bias else None


def finish(b: Build, c: Call, y: Tensor) -> Tensor:
    return activated(b, back(b, c.op, y), c.op.activation)


def input_of(b: Build, c: Call) -> Tensor:
    x = c.x()
    return channels_last(b, c.op, x[0] if isinstance(x, tuple) else x)


@layer("Conv1D", "Conv2D", "Conv3D")
def conv(b: Build, c: Call) -> Tensor:
    return finish(b, c, convolve(b, c.op, input_of(b, c), c.weight(c.op.kernel), bias_of(c), c.op.groups))


def apart(b: Build, kernel: Tensor) -> Tensor:
    """(..., C, M) -> (..., 1, C M)."""
    return b.reshape(kernel, kernel.shape[:-2] + (1, kernel.shape[-2] * kernel.shape[-1]))


@layer("DepthwiseConv1D", "DepthwiseConv2D")
def depthwise(b: Build, c: Call) -> Tensor:
    kernel = c.weight(c.op.kernel)
    return finish(b, c, convolve(b, c.op, input_of(b, c), apart(b, kernel), bias_of(c), kernel.shape[-2]))


@layer("SeparableConv1D", "SeparableConv2D")
def separable(b: Build, c: Call) -> Tensor:
    kernel, point = c.weight(c.op.depthwise_kernel), c.weight(c.op.pointwise_kernel)
    y = convolve(b, c.op, input_of(b, c), apart(b, kernel), None, kernel.shape[-2])
    n = point.rank - 2
    w = b.permute(point, [n + 1, n, *range(n)])
    return finish(b, c, behind(b, b.conv(ahead(b, y), w, bias_of(c), [1] * n, [(0, 0)] * n, [1] * n, 1)))


@layer("Conv", "DepthwiseConv")
def conv_op(b: Build, c: Call) -> Tensor:
    """ops.conv and ops.depthwise_conv."""
    x, kernel = channels_last(b, c.op, b.tensor(c.x())), c.get("kernel", 1)
    if type(c.op).__name__ == "DepthwiseConv":
        return back(b, c.op, convolve(b, c.op, x, apart(b, kernel), None, kernel.shape[-2]))
    return back(b, c.op, convolve(b, c.op, x, kernel, None, x.shape[-1] // kernel.shape[-2]))


@layer("Conv3DTranspose")
def conv3d_transpose(b: Build, c: Call) -> Tensor:
    if c.op.output_padding is not None:
        raise Refused("Conv3DTranspose with output_padding")
    x, kernel = ahead(b, input_of(b, c)), c.weight(c.op.kernel)
    stride, dilation = several(c.op.strides, 3), several(c.op.dilation_rate, 3)
    spans = [(kernel.shape[i] - 1) * dilation[i] + 1 for i in range(3)]
    extra = [max(0, stride[i] - spans[i]) for i in range(3)]
    y = b.conv_transpose(x, b.permute(kernel, (4, 3, 0, 1, 2)), None, stride, (0, 0, 0), extra, dilation, 1)
    for i in range(3):
        cut = max(0, spans[i] - stride[i]) if c.op.padding == "same" else 0
        y = b.slice(y, 2 + i, cut // 2, y.shape[2 + i] - cut) if cut else y
    bias = bias_of(c)
    y = y if bias is None else b.map2("add", y, b.reshape(b.plain(bias), (y.shape[1], 1, 1, 1)))
    return finish(b, c, behind(b, y))


@layer("Conv1DTranspose", "Conv2DTranspose", "ConvTranspose")
def conv_transpose(b: Build, c: Call) -> Tensor:
    """The layers, and ops.conv_transpose."""
    of_layer = hasattr(c.op, "kernel")
    x, kernel = input_of(b, c), c.weight(c.op.kernel) if of_layer else b.tensor(c.get("kernel", 1))
    n = kernel.rank - 2
    if n == 3:
        raise Refused("ops.conv_transpose of three dimensions")
    stride, dilation = several(c.op.strides, n), several(c.op.dilation_rate, n)
    given = c.op.output_padding
    asked = (None,) * n if given is None else several(given, n)
    if n == 1:
        x, kernel, stride, dilation, asked = b.unsqueeze(x, 1), b.unsqueeze(kernel, 0), (1, *stride), (1, *dilation), (None, *asked)
    pads, extra = [0, 0, 0, 0], [0, 0]
    for i in range(2):
        k = (kernel.shape[i] - 1) * dilation[i] + 1
        extra[i] = max(0, stride[i] - k)
        if c.op.padding == "same" and asked[i] is None:
            total = max(0, k - stride[i])
            pads[i], pads[2 + i] = total // 2, total - total // 2
        elif asked[i] is not None:  # the window that is left has (size - 1) * stride + k % 2 + what is asked for
            total = k + k % 2 - 2 + asked[i] if c.op.padding == "same" else 2 * (k - 1) + asked[i]
            before = min(total - total // 2, k - 1)
            behind_ = k - 1 - (total - before)
            pads[i], pads[2 + i], extra[i] = k - 1 - before, max(0, behind_), max(0, -behind_)
    bias = bias_of(c) if of_layer else None
    y = behind(b, b.conv_transpose2d(ahead(b, x), b.permute(kernel, (3, 2, 0, 1)), bias, stride, pads, extra, dilation, 1))
    y = b.squeeze(y, [1]) if n == 1 else y
    return finish(b, c, y) if of_layer else back(b, c.op, y)


# ---- pools ----

def pool2d(b: Build, op: str, x: Tensor, kernel: Sequence[int], stride: Sequence[int],
           pads: Sequence[tuple[int, int]]) -> Tensor:
    """x (N, H, W, C); means are over what is there."""
    around = (pads[0][0], pads[1][0], pads[0][1], pads[1][1])
    return behind(b, b.pool(op, ahead(b, x), kernel, stride, around, count_pad=False))


@layer(*[f"{k}Pooling{n}D" for k in ("Max", "Average") for n in (1, 2, 3)], "MaxPool", "AveragePool")
def pooling(b: Build, c: Call) -> Tensor:
    x = channels_last(b, c.op, c.x())
    n = x.rank - 2
    kernel = several(c.op.pool_size, n)
    stride = several(c.op.strides, n) if c.op.strides is not None else kernel
    pads = pads_of(c.op.padding, x.shape[1:-1], kernel, stride, (1,) * n)
    op = "max_pool" if "Max" in type(c.op).__name__ else "avg_pool"
    if op == "avg_pool" and any(u != v for u, v in pads) and keras.backend.backend() == "torch":
        for i, (u, v) in enumerate(pads):  # there Keras repeats the border where sides are uneven; elsewhere it leaves padding out
            x = b.border(x, i + 1, u, v, "replicate") if u or v else x
        pads = [(0, 0)] * n
    if n == 1:
        y = b.squeeze(pool2d(b, op, b.unsqueeze(x, 1), (1, *kernel), (1, *stride), [(0, 0), *pads]), [1])
    elif n == 2:
        y = pool2d(b, op, x, kernel, stride, pads)
    else:
        y = pool3d(b, op, x, kernel, stride, pads)
    return back(b, c.op, y)


@layer(*[f"Adaptive{k}Pooling{n}D" for k in ("Max", "Average") for n in (1, 2, 3)])
def adaptive_pooling(b: Build, c: Call) -> Tensor:
    x = channels_last(b, c.op, c.x())
    op = "max_pool" if "Max" in type(c.op).__name__ else "avg_pool"
    y = behind(b, b.adaptive(op, ahead(b, x), several(c.op.output_size, x.rank - 2)))
    return back(b, c.op, y)


def pool3d(b: Build, op: str, x: Tensor, kernel: Sequence[int], stride: Sequence[int],
           pads: Sequence[tuple[int, int]]) -> Tensor:
    """Over the pixels of each plane, then over the planes."""
    n, d, h, w, ch = x.shape
    y = pool2d(b, op, b.reshape(x, (n * d, h, w, ch)), kernel[1:], stride[1:], pads[1:])
    h, w = y.shape[1:3]
    y = pool2d(b, op, b.reshape(y, (n, d, h * w, ch)), (kernel[0], 1), (stride[0], 1), [pads[0], (0, 0)])
    return b.reshape(y, (n, y.shape[1], h, w, ch))


# ---- borders and sizes ----

def sides(given: Any, n: int) -> list[tuple[int, int]]:
    given = (given,) * n if isinstance(given, int) else tuple(given)
    if n == 1 and given and isinstance(given[0], int):
        given = (given,)
    return [(s, s) if isinstance(s, int) else (int(s[0]), int(s[1])) for s in given]


@layer(*[f"{k}{n}D" for k in ("ZeroPadding", "Cropping") for n in (1, 2, 3)])
def borders(b: Build, c: Call) -> Tensor:
    x = channels_last(b, c.op, c.x())
    crop = hasattr(c.op, "cropping")
    given = sides(c.op.cropping if crop else c.op.padding, x.rank - 2)
    return back(b, c.op, b.pad(x, {i + 1: (-u, -v) if crop else (u, v) for i, (u, v) in enumerate(given)}))


def scaled(b: Build, x: Tensor, size: Sequence[int], how: str) -> Tensor:
    """x (N, C, H, W)."""
    return b.interpolate(x, size, "cubic", False, [None, None]) if how == "bicubic" else b.resize(x, size, how)


@layer("UpSampling1D", "UpSampling2D", "UpSampling3D")
def up_sampling(b: Build, c: Call) -> Tensor:
    x = channels_last(b, c.op, c.x())
    by, how = several(c.op.size, x.rank - 2), getattr(c.op, "interpolation", "nearest")
    if how not in ("nearest", "bilinear", "bicubic"):
        raise Refused(f"{type(c.op).__name__} by {how}")
    if x.rank == 4:
        y = behind(b, scaled(b, ahead(b, x), (x.shape[1] * by[0], x.shape[2] * by[1]), how))
    else:
        y = x
        for i, k in enumerate(by):
            wide = y.shape[:i + 2] + (k,) + y.shape[i + 2:]
            grown = y.shape[:i + 1] + (y.shape[i + 1] * k,) + y.shape[i + 2:]
            y = b.reshape(b.broadcast(b.unsqueeze(y, i + 2), wide), grown)
    return back(b, c.op, y)

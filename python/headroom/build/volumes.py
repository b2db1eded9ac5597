"""Convolutions, pools and resizing over 1, 2 or 3 dimensions: (N, C, ...) of the framework, (N, ..., C) in memory.

One dimension is an image of height 1.  Three are images one behind the other: a convolution is a sum over the kernel's planes, a
pool goes over the planes' pixels and then over the planes."""
from __future__ import annotations

from typing import Optional, Sequence

import numpy as np

from ..graph import Refused
from ..size import product
from .images import Images
from .tensor import LOW, Any, Const, Tensor, window


MOST = 256  # places of a window of max_pool


class Volumes(Images):
    def conv(self, x: Tensor, weight: Any, bias: Optional[Any], stride: Sequence[int], pads: Sequence[tuple[int, int]],
             dilation: Sequence[int], groups: int) -> Tensor:
        """weight (O, C / groups, kernel); pads (before, after) of each dimension."""
        n = x.rank - 2
        if n == 1:
            w = self.unsqueeze(self.tensor(weight), 2)
            y = self.conv2d(self.unsqueeze(x, 2), w, bias, (1, *stride), (0, pads[0][0], 0, pads[0][1]), (1, *dilation), groups)
            return self.squeeze(y, [2])
        if n == 2:
            (top, bottom), (left, right) = pads
            return self.conv2d(x, weight, bias, stride, (top, left, bottom, right), dilation, groups)
        return self._conv3d(x, self.tensor(weight), bias, stride, pads, dilation, groups)

    def _conv3d(self, x: Tensor, w: Tensor, bias: Optional[Any], stride: Sequence[int], pads: Sequence[tuple[int, int]],
                dilation: Sequence[int], groups: int) -> Tensor:
        x = self.pad(x, {2: pads[0]})
        planes = window(x.shape[2], w.shape[2], stride[0], 0, 0, dilation[0])
        total: Optional[Tensor] = None
        for k in range(w.shape[2]):
            part = self.slice(x, 2, k * dilation[0], planes, stride[0])
            y = self.conv(self._images(part), self.select(w, 2, k), bias if k == 0 else None, stride[1:], pads[1:],
                          dilation[1:], groups)
            total = y if total is None else self.map2("add", total, y)
        assert total is not None
        return self._volume(total, x.shape[0], planes)

    def _images(self, x: Tensor) -> Tensor:
        """(N, C, D, H, W) -> (N D, C, H, W), lying as (N, D, H, W, C) does."""
        n, c, d, h, w = x.shape
        t = self.lie(self.tensor(x), (0, 2, 3, 4, 1))
        shape = (n * d, h, w, c)
        return Tensor(self.form.node("reshape", [t.value], [(t.type, shape)], to=shape)[0], (0, 2, 3, 1))

    def _volume(self, x: Tensor, n: Any, d: int) -> Tensor:
        t = self.image(x)
        shape = (n, d) + t.value.shape[1:]
        return Tensor(self.form.node("reshape", [t.value], [(t.type, shape)], to=shape)[0], (0, 2, 3, 4, 1))

    def conv_transpose(self, x: Tensor, weight: Any, bias: Optional[Any], stride: Sequence[int], pads: Sequence[int],
                       extra: Sequence[int], dilation: Sequence[int], groups: int) -> Tensor:
        """weight (C, O / groups, kernel)."""
        if x.rank == 3:
            y = self.conv_transpose2d(self.unsqueeze(x, 2), self.unsqueeze(self.tensor(weight), 2), bias, (1, *stride),
                                      (0, pads[0], 0, pads[0]), (0, *extra), (1, *dilation), groups)
            return self.squeeze(y, [2])
        if x.rank == 4:
            return self.conv_transpose2d(x, weight, bias, stride, tuple(pads) * 2, extra, dilation, groups)
        return self._conv_transpose3d(x, self.tensor(weight), bias, stride, pads, extra, dilation, groups)

    def _conv_transpose3d(self, x: Tensor, w: Tensor, bias: Optional[Any], stride: Sequence[int], pads: Sequence[int],
                          extra: Sequence[int], dilation: Sequence[int], groups: int) -> Tensor:
        """Each plane of the kernel gives its images, spread by the stride and shifted."""
        n, _, d = x.shape[:3]
        kd = w.shape[2]
        size = (d - 1) * stride[0] + dilation[0] * (kd - 1) + 1 + extra[0]
        total: Optional[Tensor] = None
        for k in range(kd):
            y = self.conv_transpose2d(self._images(x), self.select(w, 2, k), None, stride[1:], tuple(pads[1:]) * 2, extra[1:],
                                      dilation[1:], groups)
            y = self._volume(y, n, d)
            at = k * dilation[0]
            y = self.pad(y, {2: (at, size - at - (d - 1) * stride[0] - 1)}, step={2: stride[0]})
            total = y if total is None else self.map2("add", total, y)
        assert total is not None
        y = self.slice(total, 2, pads[0], size - 2 * pads[0])
        return self.map2("add", y, self.reshape(self.plain(bias), (y.shape[1], 1, 1, 1))) \
            if bias is not None else y

    def pooled(self, op: str, x: Tensor, kernel: Sequence[int], stride: Sequence[int], pads: Sequence[int], ceil: bool = False,
               count_pad: bool = True, dilation: Optional[Sequence[int]] = None) -> Tensor:
        """op is max_pool or avg_pool; the same padding before and after."""
        if dilation is not None and any(d != 1 for d in dilation):
            return self._dilated_max(x, kernel, stride, pads, dilation)
        if x.rank == 3:
            y = self.pool(op, self.unsqueeze(x, 2), (1, *kernel), (1, *stride), (0, pads[0], 0, pads[0]), ceil, count_pad)
            return self.squeeze(y, [2])
        if x.rank == 4 and op == "max_pool" and kernel[0] * kernel[1] > MOST and min(kernel) > 1:  # along rows, then along columns
            x = self.pooled(op, x, (1, kernel[1]), (1, stride[1]), (0, pads[1]), ceil)
            return self.pooled(op, x, (kernel[0], 1), (stride[0], 1), (pads[0], 0), ceil)
        if x.rank == 4:
            return self.pool(op, x, kernel, stride, tuple(pads) * 2, ceil, count_pad)
        n, c, d = x.shape[:3]
        if op == "avg_pool" and not count_pad and any(pads):
            raise Refused("average pooling over volumes that leaves padding out")
        y = self.pool(op, self._images(x), kernel[1:], stride[1:], tuple(pads[1:]) * 2, ceil, count_pad)
        h, w = y.shape[2:]
        t = self.image(y)
        rows = (n, d, h * w, c)
        t = Tensor(self.form.node("reshape", [t.value], [(t.type, rows)], to=rows)[0], (0, 2, 3, 1))
        t = self.pool(op, t, (kernel[0], 1), (stride[0], 1), (pads[0], 0) * 2, ceil, count_pad)
        shape = (n, t.shape[2], h, w, c)
        return Tensor(self.form.node("reshape", [t.value], [(t.type, shape)], to=shape)[0], (0, 2, 3, 4, 1))

    def _dilated_max(self, x: Tensor, kernel: Sequence[int], stride: Sequence[int], pads: Sequence[int],
                     dilation: Sequence[int]) -> Tensor:
        """The largest of the shifted images, one dimension after the other."""
        for i, (k, s, p, r) in enumerate(zip(kernel, stride, pads, dilation)):
            d = i + 2
            count = window(x.shape[d], k, s, p, p, r)
            x = self.pad(x, {d: (p, p)}, LOW)
            shifted = [self.slice(x, d, j * r, count, s) for j in range(k)]
            x = shifted[0]
            for y in shifted[1:]:
                x = self.maximum(x, y)
        return x

    def adaptive(self, op: str, x: Tensor, size: Sequence[int]) -> Tensor:
        """Pools to a size: op is avg_pool or max_pool."""
        sizes = x.shape[2:]
        if tuple(size) == tuple(sizes):
            return x
        if all(s == 1 for s in size):
            return self.reduce("mean" if op == "avg_pool" else "max", x, range(2, x.rank), True)
        if all(a % b == 0 for a, b in zip(sizes, size)):
            k = [a // b for a, b in zip(sizes, size)]
            return self.pooled(op, x, k, k, [0] * len(k))
        if op == "avg_pool":
            for d, (a, b) in enumerate(zip(sizes, size)):
                x = self.along(x, d + 2, cells(a, b))
            return x
        for d, (a, b) in enumerate(zip(sizes, size)):
            parts = [self.reduce("max", self.slice(x, d + 2, i * a // b, -(-(i + 1) * a // b) - i * a // b), [d + 2], True)
                     for i in range(b)]
            x = self.concat(parts, d + 2)
        return x

    def interpolate(self, x: Tensor, size: Sequence[int], mode: str, align: bool, scales: Sequence[Optional[float]]) -> Tensor:
        """mode: nearest, nearest-exact, linear or cubic, in every dimension."""
        plain = all(s is None or abs(s * a - b) < 1e-6 for s, a, b in zip(scales, x.shape[2:], size))
        if x.rank == 4 and (mode == "linear" and align or plain and mode in ("nearest", "linear")):
            return self.resize(x, size, mode if mode == "nearest" else "corners" if align else "bilinear")
        for d, (a, b, s) in enumerate(zip(x.shape[2:], size, scales)):
            x = self.along(x, d + 2, weights(a, b, mode, align, s))
        return x

    def unfold(self, x: Tensor, dim: int, size: int, step: int) -> Tensor:
        """Windows along one dimension, as a new last one."""
        dim %= x.rank
        count = (x.shape[dim] - size) // step + 1
        if step == size:
            y = self.slice(x, dim, 0, count * size)
            y = self.reshape(y, y.shape[:dim] + (count, size) + y.shape[dim + 1:])
        else:
            y = self.take(x, dim, Const(np.arange(count)[:, None] * step + np.arange(size)[None]))
        return self.permute(y, [d for d in range(y.rank) if d != dim + 1] + [dim + 1])

    def columns(self, x: Tensor, kernel: Sequence[int], stride: Sequence[int], pads: Sequence[int],
                dilation: Sequence[int]) -> Tensor:
        """(N, C, H, W) -> (N, C KH KW, places): what a convolution sees."""
        x = self.pad(self.image(x), {2: (pads[0], pads[0]), 3: (pads[1], pads[1])})
        n, c = x.shape[:2]
        h, w = (window(s, k, t, 0, 0, r) for s, k, t, r in zip(x.shape[2:], kernel, stride, dilation))
        parts = [self.unsqueeze(self.slice(self.slice(x, 2, i * dilation[0], h, stride[0]), 3, j * dilation[1], w, stride[1]), 2)
                 for i in range(kernel[0]) for j in range(kernel[1])]
        return self.reshape(self.concat(parts, 2), (n, product((c, *kernel)), h * w))


def cells(size: int, out: int) -> np.ndarray:
    """The means over windows that share `size` among `out`."""
    m = np.zeros((out, size), "float32")
    for i in range(out):
        begin, end = i * size // out, -(-(i + 1) * size // out)
        m[i, begin:end] = 1.0 / (end - begin)
    return m


def weights(size: int, out: int, mode: str, align: bool, scale: Optional[float]) -> np.ndarray:
    """The matrix of an interpolation along one dimension."""
    m = np.zeros((out, size), "float64")
    step = (size - 1) / (out - 1) if align and out > 1 else 0.0 if align else 1.0 / scale if scale else size / out
    for i in range(out):
        at = i * step if align else (i + 0.5) * step - 0.5
        if mode == "nearest":
            m[i, min(int(i * step + 1e-9), size - 1)] = 1
        elif mode == "nearest-exact":
            m[i, min(int((i + 0.5) * step), size - 1)] = 1
        elif mode == "linear":
            at = max(at, 0.0)
            low = min(int(at), size - 1)
            m[i, low] += 1 - (at - low)
            m[i, min(low + 1, size - 1)] += at - low
        else:
            low = int(np.floor(at))
            for k, w in enumerate(cubic(at - low)):
                m[i, min(max(low - 1 + k, 0), size - 1)] += w
    return m.astype("float32")


def cubic(t: float, a: float = -0.75) -> list[float]:
    def near(x: float) -> float:
        return ((a + 2) * x - (a + 3)) * x * x + 1

    def far(x: float) -> float:
        return ((a * x - 5 * a) * x + 8 * a) * x - 4 * a

    return [far(t + 1), near(t), near(1 - t), far(2 - t)]

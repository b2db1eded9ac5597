"""Convolutions, pools and resizing: (N, C, H, W) of the framework, (N, H, W, C) in memory."""
from __future__ import annotations

from typing import Optional, Sequence

import numpy as np

from .products import Products
from .tensor import LOW, Any, Const, Tensor, inverse, pair, window


class Images(Products):
    def image(self, t: Tensor) -> Tensor:
        return self.lie(self.tensor(t), (0, 2, 3, 1))

    def conv2d(self, x: Tensor, weight: Any, bias: Optional[Any], stride: Sequence[int], pads: Sequence[int],
               dilation: Sequence[int], groups: int) -> Tensor:
        """weight (O, C / groups, KH, KW); pads top, left, bottom, right."""
        w = self.lie(self.tensor(weight), (2, 3, 1, 0))
        top, left, bottom, right = pads
        x = self.image(x)
        if top != bottom or left != right:
            x = self.pad(x, {2: (top, bottom), 3: (left, right)})
            top = left = bottom = right = 0
        n, h, wd, _ = x.value.shape
        kh, kw, _, o = w.value.shape
        shape = (n, window(h, kh, stride[0], top, bottom, dilation[0]),
                 window(wd, kw, stride[1], left, right, dilation[1]), o)
        inputs = [x.value, w.value] + ([self.plain(bias).value] if bias is not None else [])
        v = self.form.node("conv2d", inputs, [(x.type, shape)], stride=pair(stride, 1), pad=pair((top, left), 0),
                           dilation=pair(dilation, 1), groups=groups if groups != 1 else None)[0]
        return Tensor(v, (0, 2, 3, 1))

    def conv_transpose2d(self, x: Tensor, weight: Any, bias: Optional[Any], stride: Sequence[int],
                         pads: Sequence[int], extra: Sequence[int], dilation: Sequence[int], groups: int) -> Tensor:
        """weight (C, O / groups, KH, KW): the weight of the convolution that goes the other way; pads top, left, bottom, right."""
        w, x = self.lie(self.tensor(weight), (2, 3, 1, 0)), self.image(x)
        n, h, wd, _ = x.value.shape
        kh, kw, og, _ = w.value.shape
        top, left, bottom, right = pads
        even = (top, left) == (bottom, right)
        cut = (0, 0) if even else (top + bottom, left + right)
        size = [(d - 1) * s + r * (k - 1) + 1 + e - (2 * p if even else 0)
                for d, s, r, k, e, p in zip((h, wd), stride, dilation, (kh, kw), extra, (top, left))]
        shape = (n, size[0], size[1], og * groups)
        v = self.form.node("conv2d_input", [x.value, w.value], [(x.type, shape)], stride=pair(stride, 1),
                           pad=pair((top, left), 0) if even else None, dilation=pair(dilation, 1), size=tuple(size),
                           groups=groups if groups != 1 else None)[0]
        y = Tensor(v, (0, 2, 3, 1))
        if not even:
            y = self.slice(self.slice(y, 2, top, size[0] - cut[0]), 3, left, size[1] - cut[1])
        return self.map2("add", y, self.reshape(self.plain(bias), (og * groups, 1, 1))) if bias is not None else y

    def pool(self, op: str, x: Tensor, kernel: Sequence[int], stride: Sequence[int], pads: Sequence[int],
             ceil: bool = False, count_pad: bool = True) -> Tensor:
        """op is max_pool or avg_pool; pads top, left, bottom, right."""
        x = self.image(x)
        n, h, w, c = x.value.shape
        top, left, bottom, right = pads
        if ceil:
            bottom += self._overhang(h, kernel[0], stride[0], top, bottom)
            right += self._overhang(w, kernel[1], stride[1], left, right)
        if (top, left) != (bottom, right):
            return self._pool_uneven(op, x, kernel, stride, (top, left, bottom, right), pads, count_pad)
        shape = (n, window(h, kernel[0], stride[0], top, bottom), window(w, kernel[1], stride[1], left, right), c)
        metas = [(x.type, shape)] + ([("u8", shape)] if op == "max_pool" else [])
        v = self.form.node(op, [x.value], metas, kernel=pair(kernel, None), stride=pair(stride, None),
                           pad=pair((top, left), 0),
                           without_pad=op == "avg_pool" and not count_pad and bool(top or left))[0]
        return Tensor(v, (0, 2, 3, 1))

    @staticmethod
    def _overhang(size: int, kernel: int, stride: int, before: int, after: int) -> int:
        """How much further than the padding windows reach when their number is rounded up."""
        count = -(-(size + before + after - kernel) // stride) + 1
        if (count - 1) * stride >= size + before:
            count -= 1  # a window that begins in the padding behind is left out
        return max(0, (count - 1) * stride + kernel - size - before - after)

    def _pool_uneven(self, op: str, x: Tensor, kernel: Sequence[int], stride: Sequence[int], reach: Sequence[int],
                     pads: Sequence[int], count_pad: bool) -> Tensor:
        top, left, bottom, right = reach
        h, w = x.value.shape[1:3]
        around = {2: (top, bottom), 3: (left, right)}
        if op == "max_pool":
            return self.pool(op, self.pad(x, around, LOW), kernel, stride, (0, 0, 0, 0))
        y = self.pool(op, self.pad(x, around), kernel, stride, (0, 0, 0, 0))
        inside = np.zeros((h + top + bottom, w + left + right), "float32")
        inside[top:top + h, left:left + w] = 1
        if count_pad:
            inside[:top + h + pads[2], :left + w + pads[3]] = 1
        counts = np.array([[inside[i * stride[0]:i * stride[0] + kernel[0], k * stride[1]:k * stride[1] + kernel[1]].sum()
                            for k in range(y.shape[3])] for i in range(y.shape[2])], "float32")
        return self.map2("mul", y, Const(kernel[0] * kernel[1] / counts[None, None]))

    def global_pool(self, x: Tensor) -> Tensor:
        """(N, C, 1, 1)."""
        return self.reduce("mean", self.image(x), (2, 3), True)

    def adaptive_avg_pool(self, x: Tensor, size: Sequence[int]) -> Tensor:
        h, w = x.shape[2:]
        if tuple(size) == (1, 1):
            return self.global_pool(x)
        if tuple(size) == (h, w):
            return x
        if h % size[0] == 0 and w % size[1] == 0:
            k = (h // size[0], w // size[1])
            return self.pool("avg_pool", x, k, k, (0, 0, 0, 0))
        return self.along(self.along(x, 2, adaptive_matrix(h, size[0])), 3, adaptive_matrix(w, size[1]))

    def along(self, x: Tensor, dim: int, matrix: np.ndarray) -> Tensor:
        """A constant matrix (out, in) along one dimension."""
        if matrix.shape[0] == matrix.shape[1] and np.array_equal(matrix, np.eye(len(matrix))):
            return x
        if dim == x.rank - 1:
            return self.linear(x, Const(matrix.astype("float32")))
        dims = [d for d in range(x.rank) if d != dim] + [dim]
        y = self.linear(self.permute(x, dims), Const(matrix.astype("float32")))
        return self.permute(y, inverse(dims))

    def resize(self, x: Tensor, size: Sequence[int], mode: str) -> Tensor:
        x = self.image(x)
        n, _, _, c = x.value.shape
        shape = (n, size[0], size[1], c)
        v = self.form.node("resize", [x.value], [(x.type, shape)], height=size[0], width=size[1], mode=mode)[0]
        return Tensor(v, (0, 2, 3, 1))


def adaptive_matrix(size: int, out: int) -> np.ndarray:
    m = np.zeros((out, size), "float32")
    for i in range(out):
        begin, end = i * size // out, -(-(i + 1) * size // out)
        m[i, begin:end] = 1.0 / (end - begin)
    return m

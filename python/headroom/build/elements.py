"""Ops element by element, and sums."""
from __future__ import annotations

from typing import Any as Whatever
from typing import Optional, Sequence

import numpy as np

from ..size import Dim, Shape, Size, at, product
from .shapes import Shapes
from .tensor import Any, Const, Tensor, uniform


class Elements(Shapes):
    def map1(self, op: str, t: Tensor, **attributes: Whatever) -> Tensor:
        return Tensor(self.form.node(op, [t.value], [(t.type, t.value.shape)], **attributes)[0], t.order)

    def affine(self, t: Tensor, scale: float = 1.0, shift: float = 0.0) -> Tensor:
        if scale == 1.0 and shift == 0.0:
            return t
        return self.map1("affine", t, scale=float(scale) if scale != 1 else None, shift=float(shift) or None)

    def map2(self, op: str, a: Any, b: Any) -> Tensor:
        a, b = (self.cast(x, "f32") if isinstance(x, Tensor) and x.type[0] in "iu" else x for x in (a, b))
        for x, y, swapped in ((a, b, False), (b, a, True)):
            if isinstance(y, Const) and isinstance(x, Tensor) and uniform(y, x.shape):
                return self._scalar(op, x, float(y.array.reshape(-1)[0]), swapped)
        return self._map2(op, a, b)

    def _scalar(self, op: str, t: Tensor, s: float, swapped: bool) -> Tensor:
        if op == "add":
            return self.affine(t, 1.0, s)
        if op == "mul":
            return self.affine(t, s, 0.0)
        if op == "sub":
            return self.affine(t, -1.0, s) if swapped else self.affine(t, 1.0, -s)
        if op == "div" and not swapped and s:
            return self.affine(t, 1.0 / s, 0.0)
        if op == "div" and swapped:
            return self.affine(self.map1("power", t, exponent=-1.0), s, 0.0)
        return self._map2(op, *((Const(np.float32(s)), t) if swapped else (t, Const(np.float32(s)))))

    def _map2(self, op: str, a: Any, b: Any, **attributes: Whatever) -> Tensor:
        rank = max(a.rank, b.rank)
        both = [self._ranked(x, rank) for x in (a, b)]
        tensors = [x for x in both if isinstance(x, Tensor)]
        order = max(tensors, key=lambda t: (product(at(t.shape, self.batch)), sum(s != 1 for s in t.shape))).order \
            if tensors else tuple(range(rank))
        u, v = (self._const_lying(x, order) if isinstance(x, Const) else self.lie(x, order) for x in both)
        if u.type != v.type:
            v = self.cast(v, u.type) if u.type == "f32" else v
            u = self.cast(u, v.type) if v.type == "f32" else u
        shape = tuple(q if p == 1 else p for p, q in zip(u.value.shape, v.value.shape))
        return Tensor(self.form.node(op, [u.value, v.value], [(u.type, shape)], **attributes)[0], order)

    def _ranked(self, x: Any, rank: int) -> Any:
        if x.rank == rank:
            return x
        more = (1,) * (rank - x.rank)
        if isinstance(x, Const):
            return Const(x.array.reshape(more + x.array.shape), more + x.shape)
        return self.reshape(x, more + x.shape)

    def _const_lying(self, c: Const, order: Sequence[int]) -> Tensor:
        moved = Const(np.transpose(c.array, order), tuple(c.shape[d] for d in order))
        return Tensor(self.const(moved).value, order)

    def clip(self, t: Tensor, low: Optional[float], high: Optional[float]) -> Tensor:
        return self.map1("clip", t, low=float(-3.0e38 if low is None else low),
                         high=float(3.0e38 if high is None else high))

    def neg(self, t: Tensor) -> Tensor:
        return self.affine(t, -1.0)

    def function(self, f: str, t: Tensor, alpha: Optional[float] = None) -> Tensor:
        return self.map1("function", t, f=f, alpha=None if alpha in (None, 1.0) else float(alpha))

    def leaky_relu(self, t: Tensor, slope: float) -> Tensor:
        return self.function("leaky_relu", t, slope)

    def prelu(self, t: Tensor, slope: Tensor) -> Tensor:
        return self._map2("prelu", t, slope)

    def elu(self, t: Tensor, alpha: float = 1.0) -> Tensor:
        return self.function("elu", t, alpha)

    def hard_sigmoid(self, t: Tensor) -> Tensor:
        return self.function("hard_sigmoid", t)

    def hard_swish(self, t: Tensor) -> Tensor:
        return self.function("hard_swish", t)

    def softplus(self, t: Tensor) -> Tensor:
        return self.function("softplus", t)

    def compare(self, how: str, a: Any, b: Any) -> Tensor:
        """1 where it is so, else 0."""
        a, b = (self.cast(x, "f32") if isinstance(x, Tensor) else x for x in (a, b))
        return self._map2("compare", a, b, **{"is": how})

    def where(self, mask: Any, a: Any, b: Any) -> Tensor:
        rank = max(x.rank for x in (mask, a, b))
        m, u, v = (self.plain(y) if isinstance(y, Tensor) else self.const(y, "f32")
                   for y in (self._ranked(x, rank) for x in (mask, a, b)))
        shape = tuple(next((s for s in dims if s != 1), 1) for dims in zip(m.shape, u.shape, v.shape))
        return Tensor(self.form.node("where", [m.value, u.value, v.value], [("f32", shape)])[0])

    def maximum(self, a: Any, b: Any) -> Tensor:
        return self._map2("maximum", a, b)

    def minimum(self, a: Any, b: Any) -> Tensor:
        return self._map2("minimum", a, b)

    def dropout(self, t: Tensor, p: float, shared: Sequence[int] = ()) -> Tensor:
        """`shared`: dimensions with one draw for all."""
        axes = sorted(t.order.index(d % t.rank) for d in shared)
        if axes and t.order[0] != 0:
            t = self.plain(t)
            axes = sorted(d % t.rank for d in shared)
        return t if p == 0 else self.map1("dropout", t, p=float(p), shared=axes or None)

    def noise(self, shape: Shape, p: float) -> Tensor:
        """0 with probability p, else 1 / (1 - p): a dropout of ones."""
        return self.dropout(Tensor(self.form.fill("f32", shape, 1.0)), p)

    def alpha_dropout(self, t: Tensor, p: float, shared: Sequence[int] = ()) -> Tensor:
        """What is dropped becomes the lowest value of SELU, and mean and variance stay."""
        lowest = -1.7580993408473766
        a = ((1 - p) * (1 + p * lowest ** 2)) ** -0.5
        draws = tuple(1 if d in shared else s for d, s in enumerate(t.shape))
        keep = self.compare("greater_equal", self.random(draws, "uniform", 0.0, 1.0), Const(np.float32(p)))
        return self.affine(self.where(keep, t, Const(np.float32(lowest))), a, -a * lowest * p)

    def softmax(self, t: Tensor, dim: int, op: str = "softmax") -> Tensor:
        return self.map1(op, t, axis=t.order.index(dim % t.rank))

    # ---- sums ----

    def reduce(self, op: str, t: Tensor, dims: Sequence[int], keep: bool) -> Tensor:
        """mean, sum or max (its first output)."""
        dims = sorted({d % t.rank for d in dims}) or list(range(t.rank))
        axes = [i for i, d in enumerate(t.order) if d in dims]
        kept = [d for d in t.order if d not in dims]
        if keep:
            shape = tuple(1 if d in dims else t.value.shape[i] for i, d in enumerate(t.order))
            order: Sequence[int] = t.order
        else:
            shape = tuple(t.value.shape[i] for i, d in enumerate(t.order) if d not in dims)
            rank = {d: i for i, d in enumerate(sorted(kept))}
            order = [rank[d] for d in kept]
        metas = [(t.type, shape)] + ([("i32", shape)] if op == "max" else [])
        return Tensor(self.form.node(op, [t.value], metas, axes=axes, keep=keep)[0], order)

    def root(self, t: Tensor) -> Tensor:
        """The root of a sum of squares.  Of 0 its gradient is 0, as frameworks have it for lengths, distances and deviations, and not
        infinite times 0."""
        return self.map1("sqrt", self.maximum(t, Const(np.float32(1.1754944e-38))))

    def variance(self, t: Tensor, dims: Sequence[int], keep: bool, correction: int = 0) -> Tensor:
        centred = self.map2("sub", t, self.reduce("mean", t, dims, True))
        v = self.reduce("mean", self.map1("power", centred, exponent=2.0), dims, keep)
        if not correction:
            return v
        n = product(t.shape[d] for d in dims)
        if isinstance(n, int):
            return self.affine(v, n / (n - correction))
        return self.map2("mul", v, self.map2("div", self.count(n), self.count(n - correction)))

    def count(self, n: Dim) -> Any:
        """A size as a number: samples of the batch are counted when it is there."""
        if not isinstance(n, Size):
            return Const(np.float32(n))
        return self.affine(self.reduce("sum", self.ones_of_samples(), [0], False), n.per, n.plus)

    def ones_of_samples(self) -> Tensor:
        """(N): made of an input, so that a plan sees that it depends on the batch and does not split it unawares."""
        x = next(v for v in self.form.named.values() if v.entry.kind == "input" and v.shape and v.shape[0] == Size(1))
        t = Tensor(x)
        for d in range(1, t.rank):
            t = self.slice(t, d, 0, 1)
        return self.clip(self.cast(self.reshape(t, (Size(1),)), "f32"), 1.0, 1.0)

    def add_noise(self, t: Tensor, of: str, scale: float = 1.0) -> Tensor:
        """t + scale * draw: `normal`, or `uniform` between -1/2 and 1/2."""
        return self.map1("noise", t, of=of, scale=float(scale)) if scale else t

    def random(self, shape: Shape, of: str, low: float, high: float) -> Tensor:
        """uniform between low and high; normal with mean low and deviation high.  Draws are numbered by the first dimension."""
        if not shape:
            return self.reshape(self.random((1,), of, low, high), ())
        uniform_ = of == "uniform"
        t = Tensor(self.form.fill("f32", shape, (low + high) / 2 if uniform_ else low))
        t = t if isinstance(shape[0], Size) else self.of_all_samples(t)
        return self.add_noise(t, of, high - low if uniform_ else high)

    def of_all_samples(self, t: Tensor) -> Tensor:
        """As it is, and seen to depend on the whole batch: what it draws is the same for all samples, so the batch is not split."""
        return self.map2("add", t, self.affine(self.tensor(self.count(Size(1))), 0.0))

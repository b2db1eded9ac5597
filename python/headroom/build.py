"""Tensors with a logical order of dimensions over values in memory, and the ops that front ends need.

A framework's tensor has an order of dimensions of its own (NCHW); ours lie as NHWC.  A Tensor is a value and the order in
which its dimensions lie: dimension order[i] of the framework is dimension i in memory.  So a permutation costs nothing until
an op needs another order, two of them cancel, and convolutions never turn their images.

A Const is an array that depends on no input and no parameter: masks, positions, tables.  It is written only where something
reads it.  Its dimensions that grow with the batch hold copies of one row; they are written as 1 and broadcast.

What has no op of its own is composed here of those there are."""
from __future__ import annotations

from typing import Callable, Optional, Sequence, Union

import numpy as np

from .graph import CONSTANT_BYTES, Form, Refused, Value
from .size import Dim, Shape, Size, at, product

TYPES = {"float32": "f32", "float16": "f16", "bfloat16": "bf16", "int32": "i32", "int64": "i64", "uint8": "u8"}
LOW = -3.0e38  # stands for minus infinity where padding must never win
MASKED = -1.0e30  # added to scores that must not count


class Tensor:
    __slots__ = ("value", "order")

    def __init__(self, value: Value, order: Optional[Sequence[int]] = None) -> None:
        self.value = value
        self.order = tuple(order) if order is not None else tuple(range(len(value.shape)))

    @property
    def shape(self) -> Shape:
        out: list = [0] * len(self.order)
        for i, d in enumerate(self.order):
            out[d] = self.value.shape[i]
        return tuple(out)

    @property
    def rank(self) -> int:
        return len(self.order)

    @property
    def type(self) -> str:
        return self.value.type


class Const:
    __slots__ = ("array", "shape")

    def __init__(self, array: np.ndarray, shape: Optional[Shape] = None) -> None:
        self.array = np.asarray(array)
        self.shape = tuple(shape) if shape is not None else self.array.shape

    @property
    def rank(self) -> int:
        return self.array.ndim


Any = Union[Tensor, Const]


def inverse(order: Sequence[int]) -> list[int]:
    out = [0] * len(order)
    for i, d in enumerate(order):
        out[d] = i
    return out


def window(size: int, kernel: int, stride: int, before: int, after: int, dilation: int = 1) -> int:
    return (size + before + after - dilation * (kernel - 1) - 1) // stride + 1


class Build:
    """The ops, over one form.  `store` takes large constants: name, array -> None (they become frozen states)."""

    def __init__(self, form: Form, store: Callable[[str, np.ndarray], None], batch: int) -> None:
        self.form, self.store, self.batch = form, store, batch
        self.turned: dict = {}
        self.consts: dict = {}
        self.stored = 0
        self.known: dict = {}  # parameters' values at the time of export

    # ---- constants ----

    def const(self, c: Const, type_: Optional[str] = None) -> Tensor:
        """As a value; dimensions of the batch become 1."""
        array = c.array
        for d, size in enumerate(c.shape):
            if isinstance(size, Size):
                first = np.take(array, [0], axis=d)
                if not np.array_equal(np.broadcast_to(first, array.shape), array, equal_nan=array.dtype.kind == "f"):
                    raise Refused("a constant that differs from sample to sample")
                array = first
        return self._constant(np.array(array, order="C"), type_)

    def _constant(self, array: np.ndarray, type_: Optional[str]) -> Tensor:
        type_ = type_ or ("f32" if array.dtype.kind in "fb" else "i32")
        array = np.array(array, dtype={"f32": "<f4", "i32": "<i4", "i64": "<i8", "u8": "u1"}[type_], order="C")
        data = array.tobytes()
        key = (type_, array.shape, data)
        if key not in self.consts:
            self.consts[key] = self._write_constant(array, type_, data)
        return Tensor(self.consts[key])

    def _write_constant(self, array: np.ndarray, type_: str, data: bytes) -> Value:
        if array.size and (array == array.flat[0]).all() and abs(float(array.flat[0])) < 2.0**24:
            return self.form.fill(type_, array.shape, float(array.flat[0]))
        if len(data) <= CONSTANT_BYTES:
            return self.form.constant(type_, array.shape, data)
        if type_ != "f32":
            return self._long_integers(array, type_)
        self.stored += 1
        name = f"constant.{self.stored}"
        self.store(name, array)
        return self.form.persistent("state", name, type_, array.shape, "constant 0 0")

    def _long_integers(self, array: np.ndarray, type_: str) -> Value:
        """Whole numbers beyond what a line holds: pieces, joined."""
        flat = array.reshape(-1)
        step = CONSTANT_BYTES // array.itemsize
        pieces = [Tensor(self.form.constant(type_, (len(p),), p.tobytes()))
                  for p in (flat[i:i + step] for i in range(0, len(flat), step))]
        return self.reshape(self.concat(pieces, 0), array.shape).value

    def tensor(self, x: Any, type_: Optional[str] = None) -> Tensor:
        return self.const(x, type_) if isinstance(x, Const) else x

    def whole(self, x: Any) -> Tensor:
        """As a value of its full shape, batch included."""
        if isinstance(x, Tensor):
            return x
        t = self.const(x)
        return t if t.shape == x.shape else self.broadcast(t, x.shape)

    # ---- orders ----

    def lie(self, t: Tensor, order: Sequence[int]) -> Tensor:
        """The same tensor with its dimensions in this order in memory."""
        order = tuple(order)
        if t.order == order:
            return t
        key = (id(t.value), t.order, order)
        if key not in self.turned:
            where = inverse(t.order)
            axes = [where[d] for d in order]
            shape = tuple(t.value.shape[a] for a in axes)
            moved = [a for a in axes if t.value.shape[a] != 1]
            if moved == sorted(moved):
                v = self.form.node("reshape", [t.value], [(t.type, shape)], to=shape)[0]
            else:
                v = self.form.node("transpose", [t.value], [(t.type, shape)], order=axes)[0]
            self.turned[key] = v
        return Tensor(self.turned[key], order)

    def plain(self, x: Any) -> Tensor:
        t = self.tensor(x)
        return self.lie(t, range(t.rank))

    def permute(self, t: Tensor, dims: Sequence[int]) -> Tensor:
        """Dimension i of the result is dimension dims[i]."""
        new = inverse(dims)
        return Tensor(t.value, [new[d] for d in t.order])

    def last(self, t: Tensor, dim: int = -1) -> Tensor:
        """With dimension `dim` last in memory, the others as they lie."""
        dim %= t.rank
        return self.lie(t, [d for d in t.order if d != dim] + [dim])

    # ---- shapes ----

    def reshape(self, t: Tensor, shape: Shape) -> Tensor:
        shape = tuple(shape)
        if t.shape == shape:
            return t
        moved = [d for i, d in enumerate(t.order) if t.value.shape[i] != 1]
        if moved != sorted(moved):
            if len(shape) > t.rank and self._split_only(t, shape):
                return self._reshape_lying(t, shape)
            t = self.plain(t)
        return Tensor(self.form.node("reshape", [t.value], [(t.type, shape)], to=shape)[0])

    @staticmethod
    def _groups(old: Shape, new: Shape) -> Optional[list[list[Dim]]]:
        """For each old dimension the new ones that it is split into; None if it is not so."""
        groups, i = [], 0
        for d in old:
            group, have = [], 1
            while have != d and i < len(new):
                if isinstance(have, Size) and isinstance(new[i], Size):
                    return None
                group.append(new[i])
                have = have * new[i]
                i += 1
            if have != d:
                return None
            groups.append(group)
        while i < len(new):
            if new[i] != 1:
                return None
            groups[-1].append(new[i])
            i += 1
        return groups

    def _split_only(self, t: Tensor, shape: Shape) -> bool:
        return self._groups(t.shape, shape) is not None

    def _reshape_lying(self, t: Tensor, shape: Shape) -> Tensor:
        """Dimensions that are only split may stay as they lie."""
        groups = self._groups(t.shape, shape)
        assert groups is not None
        starts = np.cumsum([0] + [len(g) for g in groups])
        lying: list = []
        order: list[int] = []
        for d in t.order:
            lying += groups[d]
            order += list(range(starts[d], starts[d] + len(groups[d])))
        v = self.form.node("reshape", [t.value], [(t.type, tuple(lying))], to=tuple(lying))[0]
        return Tensor(v, order)

    def broadcast(self, t: Tensor, shape: Shape) -> Tensor:
        if t.shape == tuple(shape):
            return t
        if t.rank < len(shape):
            t = self.reshape(t, (1,) * (len(shape) - t.rank) + t.shape)
        lying = tuple(shape[d] for d in t.order)
        v = self.form.node("broadcast_to", [t.value], [(t.type, lying)], to=lying)[0]
        return Tensor(v, t.order)

    def slice(self, t: Tensor, dim: int, begin: int, size: Dim) -> Tensor:
        dim %= t.rank
        if begin == 0 and size == t.shape[dim]:
            return t
        sizes, begins = list(t.value.shape), [0] * t.rank
        i = t.order.index(dim)
        sizes[i], begins[i] = size, begin
        v = self.form.node("slice", [t.value], [(t.type, tuple(sizes))], begin=begins, size=sizes)[0]
        return Tensor(v, t.order)

    def select(self, t: Tensor, dim: int, index: int) -> Tensor:
        dim %= t.rank
        return self.squeeze(self.slice(t, dim, index if index >= 0 else index + t.shape[dim], 1), [dim])

    def squeeze(self, t: Tensor, dims: Sequence[int]) -> Tensor:
        dims = [d % t.rank for d in dims]
        dims = [d for d in dims if t.shape[d] == 1]
        if not dims:
            return t
        kept = [d for d in t.order if d not in dims]
        shape = tuple(t.shape[d] for d in kept)
        rank = {d: i for i, d in enumerate(sorted(kept))}
        v = self.form.node("reshape", [t.value], [(t.type, shape)], to=shape)[0]
        return Tensor(v, [rank[d] for d in kept])

    def unsqueeze(self, t: Tensor, dim: int) -> Tensor:
        dim %= t.rank + 1
        order = [d + (d >= dim) for d in t.order]
        at_ = order.index(dim + 1) if dim < t.rank else len(order)
        order.insert(at_, dim)
        shape = list(t.value.shape)
        shape.insert(at_, 1)
        v = self.form.node("reshape", [t.value], [(t.type, tuple(shape))], to=tuple(shape))[0]
        return Tensor(v, order)

    def concat(self, xs: Sequence[Any], dim: int) -> Tensor:
        ts = [self.whole(x) for x in xs]
        dim %= ts[0].rank
        order = max(ts, key=lambda t: product(at(t.shape, self.batch))).order
        while len(ts) > 1:
            ts = [self._concat(ts[i:i + 16], dim, order) for i in range(0, len(ts), 16)]
        return ts[0]

    def _concat(self, ts: Sequence[Tensor], dim: int, order: Sequence[int]) -> Tensor:
        if len(ts) == 1:
            return ts[0]
        lying = [self.lie(t, order).value for t in ts]
        axis = list(order).index(dim)
        shape = list(lying[0].shape)
        for v in lying[1:]:
            shape[axis] = shape[axis] + v.shape[axis]
        return Tensor(self.form.node("concat", lying, [(ts[0].type, tuple(shape))], axis=axis)[0], order)

    def pad(self, t: Tensor, pads: dict[int, tuple[int, int]], value: float = 0.0) -> Tensor:
        """pads: dimension -> (before, after), negative ones cut."""
        for d, (b, a) in pads.items():
            if b < 0 or a < 0:
                t = self.slice(t, d, max(0, -b), t.shape[d] - max(0, -b) - max(0, -a))
        before = [max(0, pads.get(d, (0, 0))[0]) for d in t.order]
        after = [max(0, pads.get(d, (0, 0))[1]) for d in t.order]
        if not any(before) and not any(after):
            return t
        shape = tuple(s + b + a for s, b, a in zip(t.value.shape, before, after))
        v = self.form.node("pad", [t.value], [(t.type, shape)], before=before, after=after,
                           value=float(value) if value else None)[0]
        return Tensor(v, t.order)

    def reflect(self, t: Tensor, dim: int, before: int, after: int) -> Tensor:
        n = t.shape[dim]
        pieces = [self.slice(t, dim, i, 1) for i in range(before, 0, -1)] + [t]
        pieces += [self.slice(t, dim, n - 2 - i, 1) for i in range(after)]
        return self.concat(pieces, dim)

    def roll(self, t: Tensor, dim: int, shift: int) -> Tensor:
        n = t.shape[dim]
        shift %= n
        if not shift:
            return t
        return self.concat([self.slice(t, dim, n - shift, shift), self.slice(t, dim, 0, n - shift)], dim)

    def flip(self, t: Tensor, dim: int) -> Tensor:
        return self.concat([self.slice(t, dim, i, 1) for i in reversed(range(t.shape[dim]))], dim)

    # ---- element by element ----

    def map1(self, op: str, t: Tensor, **attributes: object) -> Tensor:
        return Tensor(self.form.node(op, [t.value], [(t.type, t.value.shape)], **attributes)[0], t.order)

    def affine(self, t: Tensor, scale: float = 1.0, shift: float = 0.0) -> Tensor:
        if scale == 1.0 and shift == 0.0:
            return t
        return self.map1("affine", t, scale=float(scale) if scale != 1 else None, shift=float(shift) or None)

    def map2(self, op: str, a: Any, b: Any) -> Tensor:
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
        if op == "div" and not swapped:
            return self.affine(t, 1.0 / s, 0.0)
        if op == "div":
            return self.affine(self.map1("power", t, exponent=-1.0), s, 0.0)
        return self._map2(op, *((Const(np.float32(s)), t) if swapped else (t, Const(np.float32(s)))))

    def _map2(self, op: str, a: Any, b: Any, **attributes: object) -> Tensor:
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

    def cast(self, t: Tensor, to: str) -> Tensor:
        if t.type == to:
            return t
        return Tensor(self.form.node("cast", [t.value], [(to, t.value.shape)], to=to)[0], t.order)

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
        m, u, v = (self.plain(self._ranked(x, rank)) if isinstance(x, Tensor) else self.const(self._ranked(x, rank), "f32")
                   for x in (mask, a, b))
        shape = tuple(next((s for s in dims if s != 1), 1) for dims in zip(m.shape, u.shape, v.shape))
        return Tensor(self.form.node("where", [m.value, u.value, v.value], [("f32", shape)])[0])

    def maximum(self, a: Any, b: Any) -> Tensor:
        return self._map2("maximum", a, b)

    def minimum(self, a: Any, b: Any) -> Tensor:
        return self._map2("minimum", a, b)

    def dropout(self, t: Tensor, p: float) -> Tensor:
        return t if p == 0 else self.map1("dropout", t, p=float(p))

    def noise(self, shape: Shape, p: float) -> Tensor:
        """0 with probability p, else 1 / (1 - p): a dropout of ones."""
        return self.dropout(Tensor(self.form.fill("f32", shape, 1.0)), p)

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

    def variance(self, t: Tensor, dims: Sequence[int], keep: bool, correction: int = 0) -> Tensor:
        centred = self.map2("sub", t, self.reduce("mean", t, dims, True))
        v = self.reduce("mean", self.map1("power", centred, exponent=2.0), dims, keep)
        n = product(t.shape[d] for d in dims)
        return self.affine(v, n / (n - correction)) if correction else v

    # ---- products ----

    def linear(self, x: Tensor, weight: Any, bias: Optional[Any] = None, transposed: bool = True) -> Tensor:
        """weight (out, in), or (in, out) when not transposed; x (..., in)."""
        w, x = self.plain(weight), self.last(self.tensor(x))
        out = w.shape[0] if transposed else w.shape[1]
        inputs = [x.value, w.value] + ([self.plain(bias).value] if bias is not None else [])
        flat = x.rank == 1
        if flat:
            inputs[0] = self.reshape(x, (1, x.shape[0])).value
        shape = (1, out) if flat else x.value.shape[:-1] + (out,)
        v = Tensor(self.form.node("matmul", inputs, [(x.type, shape)], transpose_b=transposed)[0],
                   None if flat else x.order)
        return self.reshape(v, (out,)) if flat else v

    def matmul(self, a: Any, b: Any) -> Tensor:
        """Over the last two dimensions, with broadcasting of the others."""
        a, b = self.tensor(a), self.tensor(b)
        if a.rank == 1:
            return self.squeeze(self.matmul(self.reshape(a, (1,) + a.shape), b), [-2])
        if b.rank == 1:
            return self.squeeze(self.matmul(a, self.reshape(b, b.shape + (1,))), [-1])
        if b.rank == 2:
            return self.linear(a, b, transposed=False)
        rank = max(a.rank, b.rank)
        a, b = self._ranked(a, rank), self._ranked(b, rank)
        lead = tuple(q if p == 1 else p for p, q in zip(a.shape[:-2], b.shape[:-2]))
        a = self.broadcast(a, lead + a.shape[-2:])
        b = self.broadcast(b, lead + b.shape[-2:])
        turn_a, a = self._matrix(a)
        turn_b, b = self._matrix(b)
        shape = lead + (a.shape[-2], b.shape[-1])
        return Tensor(self.form.node("matmul", [a.value, b.value], [(a.type, shape)], transpose_a=turn_a,
                                     transpose_b=turn_b)[0])

    def _matrix(self, t: Tensor) -> tuple[bool, Tensor]:
        """Rows and columns last; turned when only these two are exchanged."""
        swapped = list(range(t.rank - 2)) + [t.rank - 1, t.rank - 2]
        if list(t.order) == swapped:
            return True, t
        return False, self.plain(t)

    # ---- images; (N, C, H, W) of the framework, (N, H, W, C) in memory ----

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
        y = self.linear(self.last(x, dim) if dim != x.rank - 1 else x, Const(matrix.astype("float32"))) \
            if dim == x.rank - 1 else self._along(x, dim, matrix)
        return y

    def _along(self, x: Tensor, dim: int, matrix: np.ndarray) -> Tensor:
        dims = [d for d in range(x.rank) if d != dim] + [dim]
        y = self.linear(self.permute(x, dims), Const(matrix.astype("float32")))
        return self.permute(y, inverse(dims))

    def resize(self, x: Tensor, size: Sequence[int], mode: str, align: bool = False) -> Tensor:
        x = self.image(x)
        n, h, w, c = x.value.shape
        if align and mode == "bilinear":
            y = self.along(self.along(x, 2, corner_matrix(h, size[0])), 3, corner_matrix(w, size[1]))
            return self.image(y)
        shape = (n, size[0], size[1], c)
        v = self.form.node("resize", [x.value], [(x.type, shape)], height=size[0], width=size[1], mode=mode)[0]
        return Tensor(v, (0, 2, 3, 1))

    # ---- normalisation ----

    def ones(self, n: int) -> Tensor:
        return self._constant(np.ones(n, "float32"), "f32")

    def zeros(self, n: int) -> Tensor:
        return self._constant(np.zeros(n, "float32"), "f32")

    def batch_norm(self, x: Tensor, gamma: Any, beta: Any, eps: float) -> tuple[Tensor, Value, Value]:
        """By the batch's own statistics, over all but dimension 1; also mean and inverse deviation."""
        x = self.last(x, 1)
        c = x.shape[1]
        gamma = self.plain(gamma) if gamma is not None else self.ones(c)
        beta = self.plain(beta) if beta is not None else self.zeros(c)
        mean, inv = self.form.node("batch_norm_moments", [x.value], [("f32", (c,)), ("f32", (c,))], eps=float(eps))
        y = self.form.node("batch_norm_apply", [x.value, gamma.value, beta.value, mean, inv],
                           [(x.type, x.value.shape)])[0]
        return Tensor(y, x.order), mean, inv

    def batch_norm_stats(self, running: Sequence[Value], mean: Value, inv: Value, rows: Dim, eps: float,
                         momentum: float, unbiased: bool = True) -> list[Value]:
        metas = [(r.type, r.shape) for r in running]
        return self.form.node("batch_norm_stats", [*running, mean, inv], metas, update=True, eps=float(eps),
                              momentum=float(momentum), rows=rows, unbiased=None if unbiased else "false")

    def move(self, state: Value, to: Tensor, weight: float = 1.0, first: float = 1.0) -> Value:
        """state <- (1 - first) * state + weight * to, in its own memory; no gradient."""
        one, two = (self._constant(np.float32(x), "f32").value for x in (weight, first))
        to = self.plain(to)
        return self.form.node("accumulate", [state, to.value, one, two], [(state.type, state.shape)], update=True)[0]

    def batch_norm_inference(self, x: Tensor, gamma: Any, beta: Any, mean: Any, var: Any, eps: float) -> Tensor:
        x = self.last(x, 1)
        c = x.shape[1]
        gamma = self.plain(gamma) if gamma is not None else self.ones(c)
        beta = self.plain(beta) if beta is not None else self.zeros(c)
        inputs = [x.value, gamma.value, beta.value, self.plain(mean).value, self.plain(var).value]
        return Tensor(self.form.node("batch_norm_inference", inputs, [(x.type, x.value.shape)], eps=float(eps))[0],
                      x.order)

    def layer_norm(self, x: Tensor, gamma: Any, beta: Any, eps: float, dims: int = 1) -> Tensor:
        """Over the last `dims` dimensions."""
        shape = x.shape
        if dims > 1:
            x = self.reshape(self.plain(x), shape[:-dims] + (product(shape[-dims:]),))
        x = self.last(x)
        n = x.shape[-1]
        gamma = self.reshape(self.plain(gamma), (n,)) if gamma is not None else self.ones(n)
        beta = self.reshape(self.plain(beta), (n,)) if beta is not None else self.zeros(n)
        rows = x.value.shape[:-1]
        y = self.form.node("layer_norm", [x.value, gamma.value, beta.value],
                           [(x.type, x.value.shape), ("f32", rows), ("f32", rows)], eps=float(eps))[0]
        return self.reshape(Tensor(y, x.order), shape)

    def group_norm(self, x: Tensor, groups: int, gamma: Any, beta: Any, eps: float) -> Tensor:
        """x (N, C, ...)."""
        shape = x.shape
        if x.rank != 4:
            rest = product(shape[2:])
            y = self.group_norm(self.reshape(x, shape[:2] + (rest, 1)), groups, gamma, beta, eps)
            return self.reshape(y, shape)
        x = self.image(x)
        c = shape[1]
        gamma = self.plain(gamma) if gamma is not None else self.ones(c)
        beta = self.plain(beta) if beta is not None else self.zeros(c)
        per = ("f32", (shape[0], groups))
        y = self.form.node("group_norm", [x.value, gamma.value, beta.value], [(x.type, x.value.shape), per, per],
                           eps=float(eps), groups=groups)[0]
        return Tensor(y, x.order)

    # ---- attention, embedding, losses ----

    def attention(self, q: Tensor, k: Tensor, v: Tensor, mask: Optional[Any], causal: bool, scale: Optional[float],
                  dropout: float = 0.0) -> Tensor:
        """q (B, H, T, D), k and v (B, H or fewer, S, D).  mask: added to the scores."""
        depth = q.shape[-1]
        scale = scale if scale is not None else float(depth) ** -0.5
        heads = q.shape[1] if q.rank == 4 else 0
        if q.rank == 4 and k.shape[1] != heads:
            k, v = (self._repeat_heads(x, heads) for x in (k, v))
        if q.rank == 4 and mask is None and not dropout and v.shape[-1] == depth:
            return self._attention(q, k, v, causal, scale)
        scores = self.affine(self.matmul(q, self.permute(k, list(range(k.rank - 2)) + [k.rank - 1, k.rank - 2])), scale)
        if causal:
            t, s = q.shape[-2], k.shape[-2]
            hidden = np.triu(np.ones((t, s), bool), 1)
            mask = Const(np.where(hidden, np.float32(MASKED), np.float32(0)))
        if mask is not None:
            scores = self.map2("add", scores, mask)
        return self.matmul(self.dropout(self.softmax(scores, -1), dropout), v)

    def _repeat_heads(self, x: Tensor, heads: int) -> Tensor:
        b, h, t, d = x.shape
        y = self.broadcast(self.unsqueeze(x, 2), (b, h, heads // h, t, d))
        return self.reshape(y, (b, heads, t, d))

    def _attention(self, q: Tensor, k: Tensor, v: Tensor, causal: bool, scale: float) -> Tensor:
        order = (0, 2, 1, 3)
        q, k, v = (self.lie(x, order) for x in (q, k, v))
        b, h, t, d = q.shape
        o = self.form.node("attention", [q.value, k.value, v.value], [(q.type, q.value.shape), ("f32", (b, h, t))],
                           scale=float(scale), causal=causal)[0]
        return Tensor(o, order)

    def gather(self, table: Any, ids: Any) -> Tensor:
        """Rows of a table."""
        table, ids = self.plain(table), self.plain(ids)
        return Tensor(self.form.node("gather", [table.value, ids.value],
                                     [(table.type, ids.value.shape + table.value.shape[1:])])[0])

    def padded_embedding(self, table: Tensor, ids: Any, padding: int) -> Tensor:
        """A row that is read but never learns, so it is a constant."""
        keep = np.ones((table.shape[0], 1), "float32")
        keep[padding] = 0
        rows = self.map2("mul", table, Const(keep))
        known = self.known.get(table.value)
        if known is not None and known[padding].any():
            row = np.zeros(known.shape, "float32")
            row[padding] = known[padding]
            rows = self.map2("add", rows, Const(row))
        return self.gather(rows, ids)

    def rms_norm(self, x: Tensor, gamma: Any, eps: float) -> Tensor:
        x = self.last(x)
        gamma = self.plain(gamma) if gamma is not None else self.ones(x.shape[-1])
        rows = x.value.shape[:-1]
        return Tensor(self.form.node("rms_norm", [x.value, gamma.value], [(x.type, x.value.shape), ("f32", rows)],
                                     eps=float(eps))[0], x.order)

    def einsum(self, equation: str, xs: Sequence[Tensor]) -> Tensor:
        """Two operands: dimensions that both have and the result keeps, free ones, summed ones; one product."""
        if len(xs) != 2 or "..." in equation or "->" not in equation:
            raise Refused(f"einsum {equation}")
        left, out = equation.split("->")
        a, b = left.split(",")
        both = [d for d in a if d in b and d in out]
        summed = [d for d in a if d in b and d not in out]
        free = [[d for d in names if d not in both + summed] for names in (a, b)]
        if len(set(a)) != len(a) or len(set(b)) != len(b) or any(d not in out for f in free for d in f):
            raise Refused(f"einsum {equation}")
        sizes = dict(zip(a, xs[0].shape)) | dict(zip(b, xs[1].shape))

        def of(names: Sequence[str]) -> Dim:
            return product(sizes[d] for d in names)

        u = self.permute(xs[0], [a.index(d) for d in both + free[0] + summed])
        v = self.permute(xs[1], [b.index(d) for d in both + summed + free[1]])
        lead = tuple(sizes[d] for d in both)
        y = self.matmul(self.reshape(u, lead + (of(free[0]), of(summed))), self.reshape(v, lead + (of(summed), of(free[1]))))
        names = both + free[0] + free[1]
        return self.permute(self.reshape(y, tuple(sizes[d] for d in names)), [names.index(d) for d in out])

    def take(self, x: Tensor, dim: int, ids: Any) -> Tensor:
        """Elements along one dimension by a list of numbers."""
        dim %= x.rank
        dims = [dim] + [d for d in range(x.rank) if d != dim]
        y = self.gather(self.permute(x, dims), ids)
        lead = ids.rank
        back = list(range(lead, lead + dim)) + list(range(lead)) + list(range(lead + dim, y.rank))
        return self.permute(y, back)

    def cross_entropy(self, logits: Tensor, dim: int, label: str = "label") -> Tensor:
        x = self.last(logits, dim)
        rows = x.value.shape[:-1]
        ids = self.form.named.get(label) or self.form.input(label, "i32", rows)
        return Tensor(self.form.node("cross_entropy", [x.value, ids], [("f32", ()), ("f32", rows)])[0])

    def pair_loss(self, op: str, x: Tensor, label: str = "label") -> Tensor:
        """mean_squared_error or binary_cross_entropy against an input that lies as x does."""
        target = self.form.named.get(label) or self.form.input(label, "f32", x.value.shape)
        return Tensor(self.form.node(op, [x.value, target], [("f32", ())])[0])

    # ---- recurrent, unrolled ----

    def split(self, t: Tensor, count: int, dim: int) -> list[Tensor]:
        size = t.shape[dim % t.rank] // count
        return [self.slice(t, dim, i * size, size) for i in range(count)]

    def lstm_cell(self, gates: Tensor, c: Tensor) -> tuple[Tensor, Tensor]:
        """gates (B, 4 H) in the order i, f, g, o -> h, c."""
        i, f, g, o = self.split(gates, 4, -1)
        i, f, o = (self.map1("sigmoid", x) for x in (i, f, o))
        c = self.map2("add", self.map2("mul", f, c), self.map2("mul", i, self.map1("tanh", g)))
        return self.map2("mul", o, self.map1("tanh", c)), c

    def gru_cell(self, x: Tensor, r: Tensor, h: Tensor) -> Tensor:
        """x, r (B, 3 H): parts of input and state in the order reset, update, new, biases in them -> h."""
        xr, xz, xn = self.split(x, 3, -1)
        hr, hz, hn = self.split(r, 3, -1)
        reset = self.map1("sigmoid", self.map2("add", xr, hr))
        update = self.map1("sigmoid", self.map2("add", xz, hz))
        new = self.map1("tanh", self.map2("add", xn, self.map2("mul", reset, hn)))
        return self.map2("add", new, self.map2("mul", update, self.map2("sub", h, new)))


def uniform(c: Const, over: Shape) -> bool:
    """One number, and no larger than what it meets."""
    fits = c.rank <= len(over) and all(d in (1, o) for d, o in zip(c.shape[::-1], over[::-1]))
    return fits and c.array.size > 0 and bool((c.array == c.array.flat[0]).all())


def pair(x: Sequence[int], default: Optional[int]) -> object:
    """One number when both are equal; nothing when it is the default."""
    a, b = x
    return None if a == b == default else a if a == b else (a, b)


def adaptive_matrix(size: int, out: int) -> np.ndarray:
    m = np.zeros((out, size), "float32")
    for i in range(out):
        begin, end = i * size // out, -(-(i + 1) * size // out)
        m[i, begin:end] = 1.0 / (end - begin)
    return m


def corner_matrix(size: int, out: int) -> np.ndarray:
    """Linear interpolation with the corners in place."""
    m = np.zeros((out, size), "float32")
    for i in range(out):
        x = i * (size - 1) / (out - 1) if out > 1 else 0.0
        low = min(int(x), size - 1)
        high = min(low + 1, size - 1)
        m[i, low] += 1 - (x - low)
        m[i, high] += x - low
    return m

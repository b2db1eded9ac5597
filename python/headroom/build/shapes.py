"""Constants, orders in memory and shapes."""
from __future__ import annotations

import math
from typing import Callable, Optional, Sequence

import numpy as np
from numpy.typing import ArrayLike

from ..graph import CONSTANT_BYTES, Form, Refused, Value
from ..size import Dim, Shape, Size, at
from .tensor import Any, Const, Tensor, inverse


class Shapes:
    """Over one form.  `store` takes large constants: name, array -> None (they become frozen states)."""

    def __init__(self, form: Form, store: Callable[[str, np.ndarray], None], batch: int) -> None:
        self.form, self.store, self.batch = form, store, batch
        self.turned: dict = {}
        self.consts: dict = {}
        self.arrays: dict = {}  # constants' values
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
                    return self.numbered(c, type_)
                array = first
        return self._constant(np.array(array, order="C"), type_)

    def numbered(self, c: Const, type_: Optional[str] = None) -> Tensor:
        """A constant that differs from sample to sample; front ends that count samples know some."""
        raise Refused("a constant that differs from sample to sample")

    def _constant(self, given: ArrayLike, type_: Optional[str]) -> Tensor:
        array = np.asarray(given)
        type_ = type_ or ("f32" if array.dtype.kind in "fb" else "i32")
        array = np.array(array, dtype={"f32": "<f4", "i32": "<i4", "i64": "<i8", "u8": "u1"}[type_], order="C")
        data = array.tobytes()
        key = (type_, array.shape, data)
        if key not in self.consts:
            self.consts[key] = self._write_constant(array, type_, data)
            self.arrays[self.consts[key]] = array
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

    def slice(self, t: Tensor, dim: int, begin: int, size: Dim, step: int = 1) -> Tensor:
        """`size` elements from `begin` on, `step` apart."""
        dim %= t.rank
        if begin == 0 and size == t.shape[dim] and step == 1:
            return t
        whole = t.shape[dim]
        if isinstance(whole, Size) and not isinstance(size, Size) and (isinstance(begin, Size) or begin + (size - 1) * step >= whole.at(1)):
            raise Refused("it takes samples of the batch by their number: a batch of one sample does not have them")
        sizes, begins, steps = list(t.value.shape), [0] * t.rank, [1] * t.rank
        i = t.order.index(dim)
        sizes[i], begins[i], steps[i] = size, begin, step
        v = self.form.node("slice", [t.value], [(t.type, tuple(sizes))], begin=begins, size=sizes,
                           step=steps if step != 1 else None)[0]
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

    def cast(self, t: Tensor, to: str) -> Tensor:
        if t.type == to:
            return t
        return Tensor(self.form.node("cast", [t.value], [(to, t.value.shape)], to=to)[0], t.order)

    def concat(self, xs: Sequence[Any], dim: int) -> Tensor:
        ts = [self.whole(x) for x in xs]
        if len({t.type for t in ts}) > 1:
            ts = [self.cast(t, "f32") for t in ts]
        dim %= ts[0].rank
        order = max(ts, key=lambda t: math.prod(at(t.shape, self.batch))).order
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

    def pad(self, t: Tensor, pads: dict[int, tuple[int, int]], value: float = 0.0,
            step: Optional[dict[int, int]] = None) -> Tensor:
        """pads: dimension -> (before, after), negative ones cut; step: dimension -> distance of neighbours."""
        for d, (b, a) in pads.items():
            if b < 0 or a < 0:
                t = self.slice(t, d, max(0, -b), t.shape[d] - max(0, -b) - max(0, -a))
        before = [max(0, pads.get(d, (0, 0))[0]) for d in t.order]
        after = [max(0, pads.get(d, (0, 0))[1]) for d in t.order]
        steps = [(step or {}).get(d, 1) for d in t.order]
        if not any(before) and not any(after) and all(s == 1 for s in steps):
            return t
        shape = tuple((s if by == 1 else (s - 1) * by + 1) + b + a for s, b, a, by in zip(t.value.shape, before, after, steps))
        v = self.form.node("pad", [t.value], [(t.type, shape)], before=before, after=after,
                           step=steps if any(s != 1 for s in steps) else None, value=float(value) if value else None)[0]
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

    def flip(self, t: Tensor, dims: int | Sequence[int]) -> Tensor:
        axes = [t.order.index(d % t.rank) for d in ([dims] if isinstance(dims, int) else dims)]
        return Tensor(self.form.node("flip", [t.value], [(t.type, t.value.shape)], axes=sorted(axes))[0], t.order)

    def border(self, t: Tensor, dim: int, before: int, after: int, mode: str) -> Tensor:
        """Padding by the tensor's own elements: reflect, replicate or circular."""
        if mode == "reflect":
            return self.reflect(t, dim, before, after)
        n = t.shape[dim]
        if mode == "circular":
            return self.concat([self.slice(t, dim, n - before, before)] * (before > 0) + [t]
                               + [self.slice(t, dim, 0, after)] * (after > 0), dim)
        sides = [self.broadcast(self.slice(t, dim, at, 1), t.shape[:dim] + (k,) + t.shape[dim + 1:])
                 for at, k in ((0, before), (n - 1, after)) if k]
        return self.concat(sides[:before > 0] + [t] + sides[before > 0:], dim)

"""What is known beforehand: numpy, with sizes of the batch as objects."""
from __future__ import annotations

from typing import Any, Sequence

import numpy as np

from ..graph import Refused
from ..size import Size
from .reader import FOLD, TYPES, Node


def _objects(xs: Sequence[np.ndarray]) -> bool:
    return any(x is not None and x.dtype == object for x in xs)


def _axes(n: Node, axes: Any) -> tuple:
    return tuple(int(a) for a in (axes if axes is not None else n.attr("axes", [])))


def _slice(n: Node, x: np.ndarray, *rest: Any) -> np.ndarray:
    starts, ends, axes, steps = (list(rest) + [None] * 4)[:4]
    starts = n.attr("starts") if starts is None else starts
    ends = n.attr("ends") if ends is None else ends
    axes = n.attr("axes", range(len(starts))) if axes is None else axes
    steps = [1] * len(starts) if steps is None else steps
    key = [slice(None)] * x.ndim
    for a, s, e, t in zip(axes, starts, ends, steps):
        key[int(a)] = slice(int(s), int(e) if abs(int(e)) < 2**31 - 1 else None, int(t))
    return x[tuple(key)]


def _unsqueeze(n: Node, x: np.ndarray, axes: Any = None) -> np.ndarray:
    rank = x.ndim + len(_axes(n, axes))
    for a in sorted(a % rank for a in _axes(n, axes)):
        x = np.expand_dims(x, a)
    return x


def _concat(n: Node, *xs: np.ndarray) -> np.ndarray:
    return np.concatenate([x.astype(object) if _objects(xs) else x for x in xs], n.attr("axis"))


def _cast(n: Node, x: np.ndarray) -> np.ndarray:
    open_ = x.dtype == object and any(isinstance(d, Size) for d in x.reshape(-1))
    return x if open_ else x.astype(TYPES[n.attr("to")])


def _divide(n: Node, a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return a // b if a.dtype.kind in "iO" else a / b


def _constant(n: Node) -> np.ndarray:
    for k in ("value", "value_float", "value_int", "value_ints", "value_floats"):
        if k in n.attributes:
            return np.asarray(n.attributes[k], {"value_float": "float32", "value_floats": "float32"}.get(k))
    raise Refused("a constant of an unknown kind")


FOLD.update({
    "Constant": _constant, "Identity": lambda n, x: x, "Concat": _concat, "Slice": _slice, "Unsqueeze": _unsqueeze,
    "Squeeze": lambda n, x, axes=None: np.squeeze(x, _axes(n, axes) or None),
    "Gather": lambda n, x, i: np.take(x, i.astype("int64"), n.attr("axis", 0)),
    "Cast": _cast, "Shape": lambda n, x: np.array(x.shape, "int64"), "Add": lambda n, a, b: a + b,
    "Sub": lambda n, a, b: a - b, "Mul": lambda n, a, b: a * b, "Div": _divide, "Neg": lambda n, x: -x,
    "Mod": lambda n, a, b: np.fmod(a, b) if n.attr("fmod", 0) else a % b,
    "Sqrt": lambda n, x: np.sqrt(x), "Pow": lambda n, a, b: a ** b, "Reciprocal": lambda n, x: 1 / x,
    "Reshape": lambda n, x, s: x.reshape([int(d) for d in s]), "Transpose": lambda n, x: x.transpose(n.attr("perm")),
    "Range": lambda n, a, b, c: np.arange(a, b, c), "Where": lambda n, c, a, b: np.where(c, a, b),
    "Equal": lambda n, a, b: a == b, "Less": lambda n, a, b: a < b, "Greater": lambda n, a, b: a > b,
    "LessOrEqual": lambda n, a, b: a <= b, "GreaterOrEqual": lambda n, a, b: a >= b, "Not": lambda n, x: ~x,
    "And": lambda n, a, b: a & b, "Or": lambda n, a, b: a | b, "Min": lambda n, *x: np.minimum.reduce(x),
    "Max": lambda n, *x: np.maximum.reduce(x), "ReduceProd": lambda n, x, *r: np.prod(x, keepdims=bool(n.attr("keepdims", 1))),
    "Expand": lambda n, x, s: x * np.ones([1 if isinstance(d, Size) else int(d) for d in s], x.dtype),
    "ConstantOfShape": lambda n, s: np.full([1 if isinstance(d, Size) else int(d) for d in s],
                                            n.attr("value", np.zeros(1, "float32")).reshape(-1)[0]),
    "Trilu": lambda n, x, k=None: (np.triu if n.attr("upper", 1) else np.tril)(x, int(k) if k is not None else 0),
    "CumSum": lambda n, x, a: np.cumsum(x, int(a)), "Exp": lambda n, x: np.exp(x), "Log": lambda n, x: np.log(x),
})

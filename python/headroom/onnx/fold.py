"""What is known beforehand: numpy, with sizes of the batch as objects."""
from __future__ import annotations

import functools
from typing import Any, Callable, Sequence

import numpy as np

from ..build import Const
from ..graph import Refused
from .batch import lacks
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
    return x if x.dtype == object else x.astype(TYPES[n.attr("to")])


def _divide(n: Node, a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Whole numbers without what is left, towards zero."""
    if _objects((a, b)):
        return a // b
    return (np.sign(a) * np.sign(b) * (abs(a) // abs(b))).astype(a.dtype) if a.dtype.kind in "iu" else a / b


def _constant(n: Node) -> np.ndarray:
    for k in ("value", "value_float", "value_int", "value_ints", "value_floats"):
        if k in n.attributes:
            return np.asarray(n.attributes[k], {"value_float": "float32", "value_floats": "float32"}.get(k))
    raise Refused("a constant of an unknown kind")


def _reshape(n: Node, x: np.ndarray, shape: np.ndarray) -> np.ndarray:
    to = [int(d) for d in shape]
    return x.reshape([x.shape[i] if d == 0 and not n.attr("allowzero", 0) else d for i, d in enumerate(to)])


def _reduced(f: Callable) -> Callable:
    def g(n: Node, x: np.ndarray, axes: Any = None) -> np.ndarray:
        along = _axes(n, axes)
        if not along and n.attr("noop_with_empty_axes", 0):
            return x
        return np.asarray(f(x, axis=along or None, keepdims=bool(n.attr("keepdims", 1)))).astype(x.dtype)

    return g


def _expand(n: Node, x: np.ndarray, shape: np.ndarray) -> Const:
    """With the batch in the shape: a row of it, as a Const has it."""
    sizes, whole = lacks(shape)
    have = (1,) * (len(whole) - x.ndim) + x.shape
    more = (1,) * (len(have) - len(whole)) + whole
    wide = np.broadcast_to(x, np.broadcast_shapes(x.shape, tuple(sizes)))
    return Const(wide, tuple(h if t == 1 else t for h, t in zip(have, more)))


def _filled(n: Node, shape: np.ndarray) -> Const:
    sizes, whole = lacks(shape)
    return Const(np.full(sizes, n.attr("value", np.zeros(1, "float32")).reshape(-1)[0]), whole)


def _shape(n: Node, x: np.ndarray) -> np.ndarray:
    return np.array(x.shape, "int64")[n.attr("start", 0):n.attr("end")]


def _eye(n: Node, x: np.ndarray) -> np.ndarray:
    return np.eye(x.shape[0], x.shape[1], n.attr("k", 0)).astype(TYPES[n.attr("dtype", 1)])


def _dequantized(n: Node, x: np.ndarray, scale: np.ndarray, zero: Any = None) -> np.ndarray:
    """By one scale, or one for each place along an axis."""
    if n.attr("block_size", 0):
        raise Refused("DequantizeLinear by blocks")
    shape = [-1 if d == n.attr("axis", 1) % max(x.ndim, 1) else 1 for d in range(x.ndim)]
    scale, zero = (np.asarray(v).reshape(shape) if np.ndim(v) == 1 and np.size(v) > 1 else np.asarray(v).reshape(())
                   for v in (scale, 0 if zero is None else zero))
    return ((x.astype("float32") - zero.astype("float32")) * scale.astype("float32")).astype("float32")


def _each(f: Callable) -> Callable:
    return lambda n, *xs: functools.reduce(f, xs)


FOLD.update({
    "Constant": _constant, "Identity": lambda n, x: x, "Concat": _concat, "Slice": _slice, "Unsqueeze": _unsqueeze,
    "Squeeze": lambda n, x, axes=None: np.squeeze(x, _axes(n, axes) or None),
    "Gather": lambda n, x, i: np.take(x, i.astype("int64"), n.attr("axis", 0)),
    "Cast": _cast, "Shape": _shape, "Add": lambda n, a, b: a + b,
    "Sub": lambda n, a, b: a - b, "Mul": lambda n, a, b: a * b, "Div": _divide, "Neg": lambda n, x: -x,
    "Mod": lambda n, a, b: np.fmod(a, b) if n.attr("fmod", 0) else a % b,
    "Sqrt": lambda n, x: np.sqrt(x), "Pow": lambda n, a, b: (a ** b).astype(a.dtype), "Reciprocal": lambda n, x: 1 / x,
    "Reshape": _reshape, "Transpose": lambda n, x: x.transpose(n.attr("perm")),
    "Range": lambda n, a, b, c: np.arange(a, b, c), "Where": lambda n, c, a, b: np.where(c, a, b),
    "Equal": lambda n, a, b: a == b, "Less": lambda n, a, b: a < b, "Greater": lambda n, a, b: a > b,
    "LessOrEqual": lambda n, a, b: a <= b, "GreaterOrEqual": lambda n, a, b: a >= b, "Not": lambda n, x: ~x,
    "And": lambda n, a, b: a & b, "Or": lambda n, a, b: a | b, "Xor": lambda n, a, b: a ^ b, "Min": _each(np.minimum),
    "Max": _each(np.maximum), "ReduceProd": _reduced(np.prod), "ReduceSum": _reduced(np.sum), "ReduceMin": _reduced(np.min),
    "ReduceMax": _reduced(np.max), "ReduceMean": _reduced(np.mean), "Size": lambda n, x: np.array(x.size),
    "Expand": _expand, "ConstantOfShape": _filled, "EyeLike": _eye, "Abs": lambda n, x: np.abs(x), "Sign": lambda n, x: np.sign(x),
    "Floor": lambda n, x: np.floor(x), "Ceil": lambda n, x: np.ceil(x), "Sin": lambda n, x: np.sin(x), "Cos": lambda n, x: np.cos(x),
    "Trilu": lambda n, x, k=None: (np.triu if n.attr("upper", 1) else np.tril)(x, int(k) if k is not None else 0),
    "CumSum": lambda n, x, a: _cumsum(n, x, int(a)), "Exp": lambda n, x: np.exp(x), "Log": lambda n, x: np.log(x),
    "NonZero": lambda n, x: np.array(np.nonzero(x)), "Tile": lambda n, x, times: np.tile(x, [int(t) for t in times]),
    "Flatten": lambda n, x: x.reshape(int(np.prod(x.shape[:n.attr("axis", 1)])), -1), "DequantizeLinear": _dequantized,
    "Split": lambda n, x, sizes=None: _split(n, x, sizes), "MatMul": lambda n, a, b: a @ b,
    "Tanh": lambda n, x: np.tanh(x), "ReduceL2": _reduced(lambda x, **how: np.sqrt(np.sum(x * x, **how))),
})


def _cumsum(n: Node, x: np.ndarray, axis: int) -> np.ndarray:
    if n.attr("reverse", 0) or n.attr("exclusive", 0):
        raise Refused("CumSum of known numbers, backwards or without their own")
    return np.cumsum(x, axis).astype(x.dtype)


def _split(n: Node, x: np.ndarray, sizes: Any) -> list:
    axis, count = n.attr("axis", 0), len(n.raw["output"])
    given = n.attr("split") if sizes is None else sizes
    each = -(-x.shape[axis] // count)
    ends = np.cumsum(given)[:-1] if given is not None else [each * (i + 1) for i in range(count - 1)]
    return np.split(x, [int(e) for e in ends], axis)

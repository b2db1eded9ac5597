"""Control flow of keras.ops in a trace: loops of a known length are unrolled, what is mapped is called once or for each element, and a
condition that is known is decided.  And shapes with the batch in them, which Keras shows as None."""
from __future__ import annotations

from typing import Any, Callable, Optional

import keras
import numpy as np
from keras import ops, tree
from keras.src.backend.common.stateless_scope import in_stateless_scope

from ..graph import Refused


def elements(xs: Any, i: int) -> Any:
    return tree.map_structure(lambda x: x[i], xs)


def stacked(ys: list) -> Any:
    return tree.map_structure(lambda *parts: ops.stack(parts, axis=0), *ys)


def length_of(xs: Any, what: str) -> int:
    n = tree.flatten(xs)[0].shape[0]
    if n is None:
        raise Refused(f"{what} over the samples of the batch")
    return int(n)


def scan(op: Any, f: Callable, init: Any, xs: Any = None) -> tuple:
    n = op.length if xs is None else length_of(xs, "ops.scan")
    carry, ys = init, []
    for i in reversed(range(n)) if op.reverse else range(n):
        carry, y = f(carry, None if xs is None else elements(xs, i))
        ys.append(y)
    return carry, None if ys[0] is None else stacked(ys[::-1] if op.reverse else ys)


def fori_loop(op: Any, init: Any) -> Any:
    if isinstance(op.lower, keras.KerasTensor) or isinstance(op.upper, keras.KerasTensor):
        raise Refused("ops.fori_loop with a length that depends on data")
    for i in range(int(op.lower), int(op.upper)):
        init = op.body_fun(i, init)
    return init


def mapped(op: Any, f: Callable, xs: Any) -> Any:
    return stacked([f(elements(xs, i)) for i in range(length_of(xs, "ops.map"))])


def vectorized(op: Any, xs: Any) -> Any:
    """Of the samples: the function is called on one, and everything in it has one dimension more."""
    n = tree.flatten(xs)[0].shape[0]
    if n is not None:
        return stacked([op.function(elements(xs, i)) for i in range(n)])
    raise Refused("ops.vectorized_map over the samples of the batch: write it for the batch as a whole")


def cond(op: Any, pred: Any, yes: Callable, no: Callable) -> Any:
    if isinstance(pred, keras.KerasTensor):
        if pred.shape != ():
            raise Refused("ops.cond by more than one number")
        return tree.map_structure(lambda a, b: ops.where(pred, a, b), yes(), no())
    return yes() if pred else no()


OPENED: dict[str, Callable] = {"Scan": scan, "ForiLoop": fori_loop, "Map": mapped, "VectorizedMap": vectorized, "Cond": cond}


# ---- shapes with the batch in them ----

class Open(list):
    """A shape as a tensor would hold it, with None for the batch."""

    def __getitem__(self, i: Any) -> Any:
        return Open(list.__getitem__(self, i)) if isinstance(i, slice) else list.__getitem__(self, i)


class Filled(keras.Operation):
    """One number everywhere, in a shape with the batch in it."""

    def __init__(self, shape: tuple, value: float, dtype: str) -> None:
        super().__init__()
        self.shape, self.value, self.dtype = shape, value, dtype

    def compute_output_spec(self, x: Any) -> Any:
        return keras.KerasTensor(self.shape, dtype=self.dtype)

    def call(self, x: Any) -> Any:
        raise NotImplementedError


class Counted(keras.Operation):
    """The size of the batch as a number."""

    def compute_output_spec(self, x: Any) -> Any:
        return keras.KerasTensor((), dtype="float32")

    def call(self, x: Any) -> Any:
        raise NotImplementedError


def cast(plain: Callable, x: Any, dtype: Any) -> Any:
    return size_of_batch() if x is None else plain(x, dtype)


def size_of_batch() -> Any:
    nothing = keras.KerasTensor((), dtype="float32")
    nothing.headroom_array = 0.0
    return Counted().symbolic_call(nothing)


def is_open(x: Any) -> bool:
    """A shape, or a list that is to become one, in which the batch stands as None."""
    return isinstance(x, (list, tuple)) and any(d is None for d in x) and all(
        d is None or isinstance(d, (int, np.integer)) or keras.ops.is_tensor(d) for d in x)


def numbers_of(x: Any) -> list:
    if x is None:
        return [None]
    return list(x) if isinstance(x, (list, tuple)) else np.asarray(keras.ops.convert_to_numpy(x)).reshape(-1).tolist()


def expand_dims(plain: Callable, x: Any, *args: Any, **kwargs: Any) -> Any:
    return Open([None]) if x is None else plain(x, *args, **kwargs)


def concatenate(plain: Callable, xs: Any, *args: Any, **kwargs: Any) -> Any:
    if any(isinstance(x, Open) or is_open(x) for x in xs):
        return Open([d for x in xs for d in numbers_of(x)])
    return plain(xs, *args, **kwargs)


def stack(plain: Callable, xs: Any, *args: Any, **kwargs: Any) -> Any:
    return Open(int(d) if d is not None else None for d in xs) if is_open(xs) else plain(xs, *args, **kwargs)


def filled(value: float) -> Callable:
    def f(plain: Callable, shape: Any, *args: Any, **kwargs: Any) -> Any:
        if not is_open(shape):
            return plain(shape, *args, **kwargs)
        return open_fill(shape, value, kwargs.get("dtype", args[0] if args else None))

    return f


def open_fill(shape: Any, value: float, dtype: Any) -> Any:
    nothing = keras.KerasTensor((), dtype="float32")
    nothing.headroom_array = 0.0
    return Filled(tuple(None if d is None else int(d) for d in shape), value, str(dtype or keras.config.floatx())).symbolic_call(nothing)


def full(plain: Callable, shape: Any, value: Any, dtype: Any = None) -> Any:
    return open_fill(shape, float(value), dtype) if is_open(shape) else plain(shape, value, dtype=dtype)


def tile(plain: Callable, x: Any, repeats: Any) -> Any:
    """What is repeated for every sample."""
    if not is_open(repeats) and not isinstance(repeats, Open):
        return plain(x, repeats)
    times, rank = list(repeats), len(x.shape)
    wide = plain(x, [1 if t is None else int(t) for t in times])
    have = [1] * (len(times) - rank) + list(x.shape)
    if any(t is None and d != 1 for t, d in zip(times, have)):
        raise Refused("ops.tile that repeats more than one row for every sample")
    return broadcast_to(ops.broadcast_to, wide, [None if t is None else d for t, d in zip(times, wide.shape)])


def broadcast_to(plain: Callable, x: Any, shape: Any) -> Any:
    """A product with ones of that shape: its type stays."""
    if not is_open(shape) and not isinstance(shape, Open):
        return plain(x, shape)
    ones = open_fill([d if d is None else 1 for d in shape], 1.0, "float32")
    return ops.cast(ops.cast(x, "float32") * ones * (np.ones([1 if d is None else int(d) for d in shape], "float32")), str(
        keras.backend.standardize_dtype(x.dtype)))


def repeat(plain: Callable, x: Any, repeats: Any, axis: Optional[int] = None) -> Any:
    if repeats is not None:
        return plain(x, repeats, axis=axis)
    return tile(plain_tile, x, [None if d == (axis or 0) % len(x.shape) else 1 for d in range(len(x.shape))])


def converted(plain: Callable, x: Any, dtype: Any = None, *more: Any, **rest: Any) -> Any:
    """A shape with an open batch, and a variable, which is part of the graph as it is."""
    if is_open(x):
        return Open(x)
    if isinstance(x, keras.Variable) and not in_stateless_scope():
        return x if dtype is None or keras.backend.standardize_dtype(dtype) == x.dtype else ops.cast(x, dtype)
    return plain(x, dtype, *more, **rest)


def arange(plain: Callable, start: Any, stop: Any = None, step: Any = None, dtype: Any = None) -> Any:
    """`start` alone is where it stops."""
    if start is None:
        raise Refused("ops.arange of a length that Keras shows as None: it is the size of the batch, or a layer before it does not say its "
                      "length. Give the layer a compute_output_shape(), or count by the length of the input itself")
    return plain(start, stop, step, dtype)


plain_tile = ops.tile
OPEN: dict[str, Callable] = {"cast": cast, "expand_dims": expand_dims, "concatenate": concatenate, "stack": stack, "ones": filled(1.0),
                             "zeros": filled(0.0),
                             "full": full, "tile": tile, "broadcast_to": broadcast_to, "repeat": repeat, "arange": arange,
                             "convert_to_tensor": converted}

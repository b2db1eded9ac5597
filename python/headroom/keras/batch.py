"""Shapes with the batch in them.  Keras shows None for it; in a trace ops.shape() has it as a Size, with which a user's layer may count
(`ops.reshape(x, (batch * heads, -1, depth))`), and every symbolic tensor knows how many rows a sample has along its open dimension."""
from __future__ import annotations

from typing import Any, Callable, Optional, Sequence

import keras
import numpy as np
from keras import ops, tree
from keras.src.backend.common.stateless_scope import in_stateless_scope

from ..graph import Refused
from ..size import Size, divided, product


def is_batch(d: Any) -> bool:
    return d is None or isinstance(d, Size)


def open_size(t: Any) -> Any:
    """The Size of its open dimension; None where that is not known."""
    return getattr(t, "headroom_size", Size(1))


def shape_of(plain: Callable, x: Any) -> Any:
    """With a Size for the batch: the only dimension that is open, or the first."""
    if not isinstance(x, keras.KerasTensor) or in_stateless_scope():
        return plain(x)
    many = list(x.shape).count(None) > 1
    return tuple(open_size(x) if d is None and (not many or i == 0) else d for i, d in enumerate(x.shape))


def sized(operation: Any, inputs: Sequence[Any], outputs: Sequence[Any]) -> None:
    """What a node makes has the open size of what it reads, but where that is joined or reshaped."""
    sizes, kind = [open_size(t) for t in inputs if None in t.shape], type(operation).__name__
    if kind == "Concatenate" and None not in sizes and all(t.shape[operation.axis] is None for t in inputs):
        sizes = [sum(sizes[1:], sizes[0])]
    size = Size(1) if not sizes else sizes[0] if all(s == sizes[0] for s in sizes) else None
    for y in outputs:
        if None not in y.shape or hasattr(y, "headroom_size"):
            continue
        y.headroom_size = size
        if kind == "Reshape" and len(inputs) == 1 and size is not None:
            x = inputs[0]
            try:
                alone = list(x.shape).count(None) == list(y.shape).count(None) == 1
                y.headroom_size = divided(size * product(d for d in x.shape if d), product(d for d in y.shape if d)) if alone else None
            except ValueError:
                y.headroom_size = None


class Reshaped(keras.Operation):
    """A reshape whose every dimension is known in terms of the batch."""

    def __init__(self, to: Sequence[Any]) -> None:
        super().__init__()
        self.to = tuple(to)

    def compute_output_spec(self, x: Any) -> Any:
        return keras.KerasTensor(tuple(None if isinstance(d, Size) else d for d in self.to), dtype=x.dtype)

    def call(self, x: Any) -> Any:
        raise NotImplementedError


def reshape(plain: Callable, x: Any, newshape: Any) -> Any:
    """Where the batch is the only dimension that is not known, -1 is worked out."""
    to = list(newshape) if isinstance(newshape, (list, tuple)) else [newshape]
    size = open_size(x) if isinstance(x, keras.KerasTensor) else None
    if size is None or in_stateless_scope() or list(x.shape).count(None) != 1 or not all(
            is_batch(d) or isinstance(d, (int, np.integer)) for d in to) or to.count(None) > 1:
        return plain(x, tuple(None if isinstance(d, Size) else d for d in to))
    whole = size * product(d for d in x.shape if d is not None)
    if None in to and -1 not in to:
        to[to.index(None)] = -1
    to = [size if d is None else d if isinstance(d, Size) else int(d) for d in to]
    try:
        if -1 in to:
            to[to.index(-1)] = divided(whole, product(d for d in to if isinstance(d, Size) or d != -1))
        fits = product(to) == whole
    except ValueError:
        fits = False
    if not fits:
        raise Refused(f"ops.reshape of {named(x.shape, size)} to {named(newshape, size)}, which has another number of elements")
    y = Reshaped(to).symbolic_call(x)
    y.headroom_size = next((d for d in to if isinstance(d, Size)), None)
    return y


def named(shape: Any, size: Size) -> str:
    """For a message: N is the batch."""
    return "[" + ",".join(str(size if d is None else d) for d in (shape if isinstance(shape, (list, tuple)) else [shape])) + "]"


def slice_(plain: Callable, x: Any, start_indices: Any, shape: Any) -> Any:
    """All of the batch."""
    return plain(x, start_indices, tuple(None if isinstance(d, Size) else d for d in shape))


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
        return keras.KerasTensor(tuple(None if isinstance(d, Size) else d for d in self.shape), dtype=self.dtype)

    def call(self, x: Any) -> Any:
        raise NotImplementedError


class Counted(keras.Operation):
    """The size of the batch as a number."""

    def compute_output_spec(self, x: Any) -> Any:
        return keras.KerasTensor((), dtype="float32")

    def call(self, x: Any) -> Any:
        raise NotImplementedError


def cast(plain: Callable, x: Any, dtype: Any) -> Any:
    return size_of_batch(x) if is_batch(x) else plain(x, dtype)


def nothing() -> Any:
    t = keras.KerasTensor((), dtype="float32")
    t.headroom_array = 0.0
    return t


def size_of_batch(size: Optional[Size] = None) -> Any:
    n = Counted().symbolic_call(nothing())
    return n if size is None or size == Size(1) else ops.add(ops.multiply(n, float(size.per)), float(size.plus))


def is_open(x: Any) -> bool:
    """A shape, or a list that is to become one, in which the batch stands as None."""
    return isinstance(x, (list, tuple)) and any(is_batch(d) for d in x) and all(
        is_batch(d) or isinstance(d, (int, np.integer)) or keras.ops.is_tensor(d) for d in x)


def numbers_of(x: Any) -> list:
    if is_batch(x):
        return [x]
    return list(x) if isinstance(x, (list, tuple)) else np.asarray(keras.ops.convert_to_numpy(x)).reshape(-1).tolist()


def expand_dims(plain: Callable, x: Any, *args: Any, **kwargs: Any) -> Any:
    return Open([x]) if is_batch(x) else plain(x, *args, **kwargs)


def concatenate(plain: Callable, xs: Any, *args: Any, **kwargs: Any) -> Any:
    if any(isinstance(x, Open) or is_open(x) for x in xs):
        return Open([d for x in xs for d in numbers_of(x)])
    return plain(xs, *args, **kwargs)


def stack(plain: Callable, xs: Any, *args: Any, **kwargs: Any) -> Any:
    return Open(d if is_batch(d) else int(d) for d in xs) if is_open(xs) else plain(xs, *args, **kwargs)


def filled(value: float) -> Callable:
    def f(plain: Callable, shape: Any, *args: Any, **kwargs: Any) -> Any:
        if not is_open(shape):
            return plain(shape, *args, **kwargs)
        return open_fill(shape, value, kwargs.get("dtype", args[0] if args else None))

    return f


def open_fill(shape: Any, value: float, dtype: Any) -> Any:
    sizes = tuple(Size(1) if d is None else d if isinstance(d, Size) else int(d) for d in shape)
    y = Filled(sizes, value, str(dtype or keras.config.floatx())).symbolic_call(nothing())
    y.headroom_size = next((d for d in sizes if isinstance(d, Size)), None)
    return y


def full(plain: Callable, shape: Any, value: Any, dtype: Any = None) -> Any:
    return open_fill(shape, float(value), dtype) if is_open(shape) else plain(shape, value, dtype=dtype)


def tile(plain: Callable, x: Any, repeats: Any) -> Any:
    """What is repeated for every sample."""
    if not is_open(repeats) and not isinstance(repeats, Open):
        return times(x, plain(x, repeats), repeats)
    often, rank = list(repeats), len(x.shape)
    wide = plain(x, [1 if is_batch(t) else int(t) for t in often])
    have = [1] * (len(often) - rank) + list(x.shape)
    if any(is_batch(t) and d != 1 for t, d in zip(often, have)):
        raise Refused("ops.tile that repeats more than one row for every sample")
    return broadcast_to(ops.broadcast_to, wide, [t if is_batch(t) else d for t, d in zip(often, wide.shape)])


def times(x: Any, y: Any, repeats: Any) -> Any:
    """y is x, its open dimension repeated so often, too."""
    if isinstance(x, keras.KerasTensor) and isinstance(y, keras.KerasTensor) and list(x.shape).count(None) == 1 and open_size(x):
        often = [1] * (len(x.shape) - len(tree.flatten(repeats))) + [int(n) for n in tree.flatten(repeats)]
        y.headroom_size = open_size(x) * often[list(x.shape).index(None) - len(x.shape)]
    return y


def broadcast_to(plain: Callable, x: Any, shape: Any) -> Any:
    """A product with ones of that shape: its type stays."""
    if not is_open(shape) and not isinstance(shape, Open):
        return plain(x, shape)
    ones = open_fill([d if is_batch(d) else 1 for d in shape], 1.0, "float32")
    return ops.cast(ops.cast(x, "float32") * ones * (np.ones([1 if is_batch(d) else int(d) for d in shape], "float32")), str(
        keras.backend.standardize_dtype(x.dtype)))


def repeat(plain: Callable, x: Any, repeats: Any, axis: Optional[int] = None) -> Any:
    if not is_batch(repeats):
        often = [1] * len(x.shape)
        if axis is not None and np.size(repeats) == 1 and not isinstance(repeats, keras.KerasTensor):
            often[axis] = int(np.asarray(repeats).reshape(-1)[0])
        return times(x, plain(x, repeats, axis=axis), often)
    return tile(plain_tile, x, [repeats if d == (axis or 0) % len(x.shape) else 1 for d in range(len(x.shape))])


def converted(plain: Callable, x: Any, dtype: Any = None, *more: Any, **rest: Any) -> Any:
    """A shape with an open batch, and a variable, which is part of the graph as it is."""
    if is_open(x):
        return Open(x)
    if isinstance(x, keras.Variable) and not in_stateless_scope():
        return x if dtype is None or keras.backend.standardize_dtype(dtype) == x.dtype else ops.cast(x, dtype)
    return plain(x, dtype, *more, **rest)


def arange(plain: Callable, start: Any, stop: Any = None, step: Any = None, dtype: Any = None) -> Any:
    """`start` alone is where it stops."""
    if is_batch(start):
        raise Refused("ops.arange of a length that Keras shows as None: it is the size of the batch, or a layer before it does not say its "
                      "length. Give the layer a compute_output_shape(), or count by the length of the input itself")
    return plain(start, stop, step, dtype)


def rank(plain: Callable, x: Any) -> Any:
    return len(x.shape) if isinstance(x, keras.KerasTensor) else plain(x)


def size(plain: Callable, x: Any) -> Any:
    """How many numbers there are: a Size where the batch counts."""
    if not isinstance(x, keras.KerasTensor):
        return plain(x)
    sizes = shape_of(ops.shape, x)
    if any(d is None for d in sizes):
        raise Refused(f"ops.size of a tensor whose shape is {tuple(x.shape)} in Keras; give the input its sizes: --input 'f32[N,128]'")
    return product(sizes)


plain_tile = ops.tile
OPEN: dict[str, Callable] = {
    "shape": shape_of, "ndim": rank, "size": size, "reshape": reshape, "slice": slice_, "cast": cast, "expand_dims": expand_dims,
    "concatenate": concatenate, "stack": stack, "ones": filled(1.0), "zeros": filled(0.0), "full": full, "tile": tile,
    "broadcast_to": broadcast_to, "repeat": repeat, "arange": arange, "convert_to_tensor": converted}

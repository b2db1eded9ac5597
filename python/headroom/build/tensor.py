"""What a front end handles: values with an order of their dimensions, and constants."""
from __future__ import annotations

from typing import Optional, Sequence, Union

import numpy as np
from numpy.typing import ArrayLike

from ..graph import Value
from ..size import Shape

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

    def __init__(self, array: ArrayLike, shape: Optional[Shape] = None) -> None:
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


def uniform(c: Const, over: Shape) -> bool:
    """One number, and no larger than what it meets."""
    fits = c.rank <= len(over) and all(d in (1, o) for d, o in zip(c.shape[::-1], over[::-1]))
    return fits and c.array.size > 0 and bool((c.array == c.array.flat[0]).all())


def pair(x: Sequence[int], default: Optional[int]) -> object:
    """One number when both are equal; nothing when it is the default."""
    a, b = x
    return None if a == b == default else a if a == b else (a, b)

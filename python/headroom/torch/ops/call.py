"""The arguments of a call, and the table of ops."""
from __future__ import annotations

from typing import Any

import numpy as np

from ...build import Build, Const
from ...graph import Refused
from ...size import Size
from ...table import Table


class Call(dict[str, Any]):
    """Arguments by name."""

    def __init__(self, *args: Any, node: Any, walk: Any) -> None:
        super().__init__(*args)
        self.node, self.walk = node, walk

    def shape(self) -> tuple:
        return self.walk.shape(self.node)

    def first(self, *names: str) -> Any:
        """The argument that an op has under one of these names."""
        return next(self[n] for n in names if n in self)

    def x(self) -> Any:
        return self.first("self", "input")


OPS = Table()
op = OPS.op
METADATA_ONLY = {"zeros_like", "ones_like", "full_like", "empty_like", "new_zeros", "new_ones", "new_full", "new_empty"}
RANDOM = {"bernoulli_", "bernoulli", "rand_like", "rand", "randn", "randn_like", "randint", "randint_like", "randperm", "multinomial", "poisson",
          "binomial", "cauchy", "log_normal", "geometric", "rrelu_with_noise_",
          "exponential_", "exponential", "cauchy_", "log_normal_", "geometric_", "random_",
          "uniform_", "uniform", "rrelu_with_noise", "normal_", "normal", "normal_functional"}


def some(x: Any, n: int) -> list[int]:
    """One number a dimension, where PyTorch takes one for all."""
    x = list(x) if isinstance(x, (list, tuple)) else [x]
    return x if len(x) == n else [x[0]] * n


def quantity(b: Build, x: Any) -> Any:
    """An operand that may be the size of the batch."""
    return b.count(x) if isinstance(x, Size) else operand(x)


def operand(x: Any) -> Any:
    if isinstance(x, (int, float, bool)):
        return Const(np.float32(x))
    if isinstance(x, Size):
        raise Refused("the size of the batch as a number here")
    if isinstance(x, Const) and x.array.dtype.kind == "b":
        return Const(x.array.astype("float32"), x.shape)
    return x

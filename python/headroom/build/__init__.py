"""Tensors with a logical order of dimensions over values in memory, and the ops that front ends need.

A framework's tensor has an order of dimensions of its own (NCHW); ours lie as NHWC.  A Tensor is a value and the order in
which its dimensions lie: dimension order[i] of the framework is dimension i in memory.  So a permutation costs nothing until
an op needs another order, two of them cancel, and convolutions never turn their images.

A Const is an array that depends on no input and no parameter: masks, positions, tables.  It is written only where something
reads it.  Its dimensions that grow with the batch hold copies of one row; they are written as 1 and broadcast.

What has no op of its own is composed here of those there are."""
from __future__ import annotations

from typing import Optional

from .norms import Norms
from .patterns import found
from .picks import Picks
from .sequences import Sequences
from .tensor import LOW, MASKED, TYPES, Any, Const, Tensor, inverse
from .volumes import Volumes


class Build(Volumes, Norms, Sequences, Picks):
    """The ops, over one form."""

    counted: Optional[Tensor] = None  # labels as a loss counts them, where some of them stand for none

    def map2(self, op: str, a: Any, b: Any) -> Tensor:
        return found(self, op, a, b) or super().map2(op, a, b)


__all__ = ["LOW", "MASKED", "TYPES", "Any", "Build", "Const", "Tensor", "inverse"]

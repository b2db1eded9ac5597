"""What each ATen op becomes.  One short function an op, by its name without overload; in-place forms share it.

A function gets the builder and the call's arguments by their names in the op's schema; tensors are Tensor or Const.  Shapes of
results come from the export (call.shape()), so that sizes in terms of the batch need no arithmetic here."""
from __future__ import annotations

from . import elements, index, layers, linalg, losses, pairs, sums
from .call import METADATA_ONLY, OPS, RANDOM, Call
from .shapes import VIEWS

assert elements and index and layers and linalg and losses and sums  # they fill OPS
__all__ = ["METADATA_ONLY", "OPS", "RANDOM", "VIEWS", "Call", "pairs"]

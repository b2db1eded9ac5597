"""One node of a trace, and the table of what layers and operations become."""
from __future__ import annotations

from typing import Any, Sequence

import numpy as np

from ..build import Const, Tensor
from ..graph import Refused
from ..table import Table

LAYERS = Table()
layer = LAYERS.op


class Call:
    """One node: its operation, positional and keyword arguments with tensors in place, and where weights come from."""

    def __init__(self, operation: Any, args: Sequence[Any], kwargs: dict, training: bool, front: Any) -> None:
        self.op, self.args, self.kwargs, self.training, self.front = operation, list(args), kwargs, training, front
        self.dtype = ""  # of the first tensor, in Keras
        self.types: dict[int, str] = {}  # of every tensor, in Keras, by the identity of ours

    @property
    def real(self) -> bool:
        return "float" in self.dtype

    @property
    def truth(self) -> bool:
        return self.dtype in ("bool", "")

    def shown(self, b: Any, mask: Any, above: float = 0.0) -> Any:
        """A mask as 1 and 0, whatever numbers it has: what is above is shown, or with 0 what is not 0."""
        if isinstance(mask, Const):
            a = mask.array.astype("float32")
            return Const((a > above if above else a != 0).astype("float32"), mask.shape)
        if self.types.get(id(mask)) == "bool":
            return b.cast(b.whole(mask), "f32")
        return b.compare("greater" if above else "not_equal", b.whole(mask), Const(np.float32(above)))

    def x(self) -> Any:
        return self.args[0] if self.args else next(iter(self.kwargs.values()))

    def get(self, name: str, at: int, default: Any = None) -> Any:
        return self.kwargs.get(name, self.args[at] if len(self.args) > at else getattr(self.op, name, default))

    def weight(self, variable: Any) -> Any:
        """Its tensor; None for none, as a layer without bias has it."""
        return None if variable is None else self.front.variable(variable)

    def axes(self, rank: int) -> list[int]:
        """The dimensions that `axis` names; none: all."""
        axis = getattr(self.op, "axis", None)
        axis = axis if axis is not None else self.kwargs.get("axis")
        return list(range(rank)) if axis is None else [d % rank for d in ([axis] if isinstance(axis, int) else axis)]

    @property
    def keep(self) -> bool:
        return bool(getattr(self.op, "keepdims", False))


def operand(x: Any) -> Any:
    """A number or an array as a constant."""
    return Const(np.asarray(x, "float32")) if isinstance(x, (int, float, bool, np.ndarray, np.generic)) else x


def several(x: Any, count: int) -> tuple:
    return (x,) * count if isinstance(x, int) else tuple(x)


def known(x: Any, what: str) -> np.ndarray:
    """An argument that must not depend on data."""
    if isinstance(x, Tensor):
        raise Refused(f"{what} depends on data")
    return np.asarray(x.array if isinstance(x, Const) else x)

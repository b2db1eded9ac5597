"""On which side of its kinks a run fell.

A relu has no derivative at 0, a clip none at its bounds, a pooling window none where two values tie.  An input that is there but
for rounding falls to either side, so two correct programs in single precision can have gradients that differ by far more than
rounding.  A comparison that wants to see only rounding asks our run which sides it took (`watch`) and lets the reference, in
double precision, take the same.  That is right only where the reference itself is at the kink but for rounding: `settle` counts
the elements that change sides and their largest distance from the kink, and refuses beyond NEAR."""
from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Sequence

import numpy as np

from .graph import Entry, Form

NEAR = 1e-4  # of the tensor's largest element
NAMES = {"relu": "relu", "clip": "clip", "max_pool": "max_pool"}
FUNCTIONS = ("hard_swish", "hard_sigmoid", "leaky_relu")


@dataclass
class Kink:
    """One op with kinks: its kind, and what says the side: y (relu), x, or the winner's place in the window (max_pool)."""

    kind: str
    array: np.ndarray


def kind_of(e: Entry) -> str:
    if e.kind != "node":
        return ""
    if e.op == "batch_norm_apply" and e.attributes.get("relu"):
        return "relu"
    if e.op == "function" and e.attributes.get("f") in FUNCTIONS:
        return str(e.attributes["f"])
    return NAMES.get(e.op, "")


def watch(form: Form) -> list[str]:
    """Makes what says the sides results of the form, as "side:I"; the kinds, in the order of the nodes."""
    kinds: list = []
    for e in form.live():
        kind = kind_of(e)
        if kind:
            v = e.outputs[1] if kind == "max_pool" else e.outputs[0] if kind == "relu" else e.inputs[0]
            form.result(f"side:{len(kinds)}", v)
            kinds.append(kind)
    return kinds


def unwatch(form: Form) -> None:
    form.results = [r for r in form.results if not r[0].startswith("side:")]


def lying_as(array: np.ndarray, shape: Sequence[int]) -> list[np.ndarray]:
    """Our array in the order of a framework's tensor of this shape: as it lies, or with channels brought forward."""
    out = [array] if array.shape == tuple(shape) else []
    if array.ndim == 4:
        out += [x for x in (array.transpose(0, 3, 1, 2), array.transpose(0, 2, 3, 1)) if x.shape == tuple(shape)]
    return out


@dataclass
class Settled:
    """How often the reference was made to take the other side, out of how many, and how far from the kink at most."""

    moved: int = 0
    of: int = 0
    distance: float = 0.0

    def settle(self, theirs: np.ndarray, choices: Sequence[np.ndarray], distance: Any) -> np.ndarray:
        """The choice (arrays of whole numbers, one a possible order in memory) that is nearest to the reference's own sides.
        distance(where, best): how far the reference is from the kink, relative to its largest element, where sides differ."""
        if not choices:
            raise Unlike("its shape is not ours")
        best = min(choices, key=lambda c: int((c != theirs).sum()))
        differs = best != theirs
        self.of += int(theirs.size)
        if differs.any():
            self.moved += int(differs.sum())
            self.distance = max(self.distance, float(np.max(distance(differs, best))))
            if self.distance > NEAR:
                raise Unlike(f"an element that is {self.distance:.0e} from the kink falls to the other side")
        return best


class Unlike(Exception):
    """The reference is not the same program as ours: sides cannot be taken over."""


def first_of(why: BaseException) -> BaseException:
    """What was raised: Keras raises it again with the layer's arguments in the text."""
    while isinstance(why.__context__, Unlike):
        why = why.__context__
    return why

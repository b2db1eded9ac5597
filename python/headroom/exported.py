"""What every front end hands out: a model file in memory, its weights, and what is known of where it came from."""
from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from . import safetensors
from .errors import Error, Refused
from .graph import Model


@dataclass
class Exported:
    """A model file in memory, and what is known of where it came from."""

    model: Model
    weights: dict[str, np.ndarray]
    inputs: list[tuple[str, tuple, tuple]]  # name, logical shape, order in memory
    outputs: list[tuple]  # order in memory of each, in eval
    orders: dict[str, tuple]  # of the weights that lie in memory in another order than in files
    loss: str = "cross_entropy"
    aliases: dict[str, str] = field(default_factory=dict)  # name -> the name its storage goes by
    counters: dict[str, int] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    truths: set[str] = field(default_factory=set)  # inputs that are true or false, as 1 or 0
    end: Any = None  # of Keras, with the loss "own": the loss as a function or a Goal, whose labels and weights are the last inputs
    odds: bool = False  # a sigmoid at the end of the framework's model is part of the loss here

    @property
    def reads(self) -> int:
        """How many of the inputs the framework's model takes; its loss reads the others."""
        end = self.end
        return len(self.inputs) - (len(end.read) + end.weighted if hasattr(end, "read") else end is not None)

    def save(self, path: str | Path) -> Path:
        """Writes PATH and the weights beside it; the path of the weights."""
        path = Path(path)
        beside = path.with_suffix(".safetensors")
        self.model.weights = beside.name
        path.write_text(self.model.text())
        safetensors.write(beside, self.weights, {"format": "pt"})
        return beside

    def parameter_count(self) -> int:
        """Elements of the parameters that are trained."""
        named = self.model.train.named
        return sum(int(a.size) for n, a in self.weights.items()
                   if named[n].entry.kind == "param" and " frozen" not in named[n].entry.tail)

    def refused(self, why: Error) -> Refused:
        """What the library says of the graph, with the user's line: it names a node by its scope and op."""
        text = str(why)
        for form in (self.model.train, self.model.eval):
            for x in form.entries:
                if x.kind == "node" and x.source and f": {x.scope}{'.' if x.scope else ''}{x.op} (" in text:
                    return Refused(text, x.source)
        return Refused(text)

"""One model run by the library, for comparison with its framework: outputs, loss, gradients, steps of SGD.

Random ops draw other numbers in every framework, so a comparison runs both sides with each random op at its mean: dropout lets
everything through, stochastic depth keeps every branch, noise is 0.  Everything else is the training form as it stands."""
from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Mapping, Optional, Sequence

import numpy as np

from .build import inverse
from .define import Graph
from .errors import Error
from .exported import Exported
from .graph import Form
from .models import Model as Opened
from .run import Run
from .sides import Kink, Settled, unwatch, watch


@dataclass
class Outcome:
    """What one side computed.  Arrays in the framework's own order of dimensions."""

    losses: list = field(default_factory=list)  # before each step
    gradients: dict = field(default_factory=dict)  # of the first step
    states: dict = field(default_factory=dict)  # after the first step
    outputs: list = field(default_factory=list)  # in eval, with the weights as exported
    eval_loss: Optional[float] = None
    rate: float = 0.0
    kinks: list = field(default_factory=list)  # of the first step, where asked for


def without_chance(text: str) -> str:
    """The model file with every dropout and every noise at its mean."""
    text = re.sub(r"(= noise\([^)]*\) \{[^}]*scale=)[^,}]*", r"\g<1>0", text)
    text = re.sub(r"(= dropout\([^)]*\)) \{[^}]*\}", r"\1 {p=0}", text)
    return re.sub(r"(= attention_masked\([^)]*\) \{[^}]*dropout=)[^,}]*", r"\g<1>0", text)


def lying(array: np.ndarray, order: Sequence[int]) -> np.ndarray:
    return np.array(np.transpose(array, order), order="C")


def standing(array: np.ndarray, order: Sequence[int]) -> np.ndarray:
    return np.transpose(array, inverse(order))


def parameters(e: Exported) -> list[str]:
    return [n for n, a in e.weights.items() if a.size and n in e.model.train.named and e.model.train.named[n].entry.kind == "param"
            and " frozen" not in e.model.train.named[n].entry.tail]


KEEPS_NUMBERS = ("cast", "reshape", "slice", "broadcast_to", "transpose", "concat", "where")


def rows_of(form: Form, name: str, most: int = 100) -> int:
    """How many rows the smallest table has that an input of whole numbers looks up; `most` when there is none."""
    own = {id(form.named[name].entry)}
    found = most
    for e in form.entries:
        if e.kind != "node":
            continue
        if e.op in KEEPS_NUMBERS and any(id(v.entry) in own for v in e.inputs[e.op == "where":]):
            own.add(id(e))
        if e.op == "gather" and id(e.inputs[1].entry) in own:
            table = e.inputs[0].shape[int(str(e.attributes.get("axis", 0)))]
            found = min(found, table) if isinstance(table, int) else found
    return found


def add_gradients(g: Graph, names: Sequence[str]) -> list[str]:
    """Adds the gradients of "loss" as results "gradient:NAME"; the names that have one."""
    found = g.gradients(g.find("loss"), [g.find(n) for n in names])
    for n, v in zip(names, found):
        if v is not None:
            g.result(v, f"gradient:{n}")
    return [n for n, v in zip(names, found) if v is not None]


class Ours:
    """The model in the library, with gradients as results."""

    def __init__(self, e: Exported, batch: int, budget: int = 0, kinks: bool = False) -> None:
        self.e = e
        self.kinds = watch(e.model.train) if kinks else []
        text = e.model.text()
        unwatch(e.model.train)
        try:
            self.model = Opened.parse(without_chance(text))
            self.train, self.eval = self.model.graph(batch, True), self.model.graph(batch, False)
        except Error as why:
            raise e.refused(why) from None
        self.trained = add_gradients(self.train, parameters(e))
        self.train.freeze()
        self.eval.freeze()
        self.run = Run([self.train, self.eval], budget, threads=1)
        self.put_weights(e.weights)

    def _order(self, name: str) -> Sequence[int]:
        return self.e.orders.get(name, tuple(range(self.e.weights[name].ndim)))

    def put_weights(self, weights: Mapping[str, np.ndarray]) -> None:
        for name, a in weights.items():
            for graph in (0, 1):
                if a.size and self.run.graphs[graph].has(name):  # what has no elements has no place
                    self.run.put(name, lying(a, self._order(name)), graph)
                    break

    def get(self, name: str) -> np.ndarray:
        if not self.e.weights[name].size:
            return self.e.weights[name]
        graph = 0 if self.train.has(name) else 1
        return standing(self.run.get(name, graph), self._order(name))

    def feed(self, feeds: Mapping[str, np.ndarray], graph: int) -> None:
        orders = {n: o for n, _, o in self.e.inputs}
        form = (self.e.model.train, self.e.model.eval)[graph]
        read = {id(v.entry) for x in form.live() for v in x.inputs} | {id(v.entry) for _, v, _ in form.results}
        for name, a in feeds.items():
            if self.run.graphs[graph].has(name) and id(form.named[name].entry) in read:  # what nothing reads has no place
                self.run.put(name, lying(a, orders.get(name, range(a.ndim))), graph)

    def step(self, feeds: Mapping[str, np.ndarray], number: int) -> tuple[float, dict]:
        self.feed(feeds, 0)
        self._run(0, number)
        grads = {n: standing(self.run.get(f"gradient:{n}"), self._order(n)) for n in self.trained}
        return float(self.run.get("loss")), grads

    def _run(self, graph: int, number: int = 0) -> None:
        try:
            self.run.step(graph, number)
        except Error:
            self.model.raise_failure()  # what an op of the framework's own said
            raise

    def kinks(self) -> list[Kink]:
        return [Kink(kind, self.run.get(f"side:{i}")) for i, kind in enumerate(self.kinds)]

    def evaluate(self, feeds: Mapping[str, np.ndarray]) -> tuple[list, float]:
        self.feed(feeds, 1)
        self._run(1)
        names = [n for n, _, _ in self.e.model.eval.results if n != "loss"]
        outputs = [standing(self.run.get(n, 1), o) for n, o in zip(names, self.e.outputs)]
        return outputs, float(self.run.get("loss", 1))

    def close(self) -> None:
        self.run.close()
        self.train.close()
        self.eval.close()


def ours(e: Exported, feeds: Mapping[str, np.ndarray], batch: int, steps: int = 1, kinks: bool = False) -> Outcome:
    """Evaluation, then `steps` of plain SGD, at a rate by which the loss falls by a hundredth a step to begin with."""
    r, out = Ours(e, batch, kinks=kinks), Outcome()
    try:
        out.outputs, out.eval_loss = r.evaluate(feeds)
        weights = {n: np.array(e.weights[n]) for n in r.trained}
        for i in range(steps):
            loss, grads = r.step(feeds, i)
            out.losses.append(loss)
            if i == 0:
                out.gradients, out.kinks = grads, r.kinks()
                out.states = {n: r.get(n) for n in e.weights if n not in r.trained}
                size = sum(float(np.square(g, dtype="float64").sum()) for g in grads.values())
                out.rate = min(0.01 * abs(loss) / max(size, 1e-30), 1.0)
            for n, g in grads.items():
                weights[n] = weights[n] - np.float32(out.rate) * g
            r.put_weights(weights)
        return out
    finally:
        r.close()


def apart(a: np.ndarray, b: np.ndarray, least: float = 0.0) -> float:
    """The largest difference, relative to the largest element of b (or `least`, if that is more)."""
    a, b = np.asarray(a, "float64"), np.asarray(b, "float64")
    if a.shape != b.shape:
        return float("inf")
    if not a.size:
        return 0.0
    same = np.isinf(b) & (a == b)  # a mask's minus infinity
    a, b = np.where(same, 0.0, a), np.where(same, 0.0, b)
    scale = max(float(np.abs(b).max()), least, 1e-30)
    worst = float(np.abs(a - b).max()) / scale
    return worst if np.isfinite(worst) else float("inf")


@dataclass
class Compared:
    """Largest relative differences."""

    loss: float
    gradient: float
    gradient_of: str
    steps: float
    statistics: float
    eval: float
    counted: int
    missing: list
    double: bool = False  # the framework ran in double precision
    own: float = 0.0  # then: how far its own gradients in single precision are from that
    sides: Optional[Settled] = None  # and it took our side at kinks: how often that was another than its own, how far from the kink
    unlike: str = ""  # why it could not
    single: Optional["Compared"] = None  # with double: all of this between its own single precision and that

    def good(self, within: float = 1e-4) -> bool:
        return not self.missing and max(self.loss, self.gradient, self.statistics, self.eval) <= within \
            and self.steps <= 10 * within

    def fair(self, within: float = 1e-4, most: float = 1e-2) -> bool:
        """Good, or no more than twice as far from double precision as the framework's own single precision is, and not beyond `most`."""
        def near(name: str, limit: float) -> bool:
            own = getattr(self.single, name) if self.single is not None else 0.0
            return bool(getattr(self, name) <= max(limit, min(2 * own, most)))

        return not self.missing and near("steps", 10 * within) and \
            all(near(name, within) for name in ("loss", "gradient", "statistics", "eval"))


def evaluated(a: Outcome, b: Outcome) -> list:
    """The outputs of both, or the loss of a model that returns nothing else."""
    if a.outputs or b.outputs or a.eval_loss is None or b.eval_loss is None:
        return list(zip(a.outputs, b.outputs))
    return [(np.array([a.eval_loss]), np.array([b.eval_loss]))]


def compare(a: Outcome, b: Outcome, states: Sequence[str]) -> Compared:
    """a ours, b the framework's.  Each gradient is compared with its own largest element, or with a 100th of the largest of all where
    that is more: a gradient below that is a sum that cancels (a scale or bias before a norm), and shows the rounding of its terms."""
    largest = max((float(np.abs(g).max()) for g in b.gradients.values() if g.size), default=0.0)
    gradients = {n: apart(a.gradients[n], g, 1e-2 * largest) for n, g in b.gradients.items() if n in a.gradients}
    missing = [n for n, g in b.gradients.items() if n not in a.gradients and g.any()]
    worst = max(gradients, key=lambda n: gradients[n]) if gradients else ""
    return Compared(apart(np.array(a.losses[:1]), np.array(b.losses[:1])), gradients.get(worst, 0.0), worst,
                    apart(np.array(a.losses), np.array(b.losses)),
                    max((apart(a.states[n], b.states[n], 1e-3) for n in states if n in b.states), default=0.0),
                    max((apart(x, y) for x, y in evaluated(a, b)), default=float("inf")),
                    len(gradients), missing)

"""Recurrent layers of ONNX, unrolled: x (T, N, I), weights (directions, gates, ...)."""
from __future__ import annotations

from typing import Any, Optional, Sequence

from ..build import Build, Const, Tensor
from ..graph import Refused
from .reader import Node, op

DEFAULTS = {"LSTM": ["sigmoid", "tanh", "tanh"], "GRU": ["sigmoid", "tanh"], "RNN": ["tanh"]}


def activations(n: Node, ways: int) -> None:
    """The usual ones, which files may name."""
    given = [a.lower() for a in n.attr("activations", [])]
    usual = DEFAULTS[n.op] if n.op != "RNN" or not given else given[:1]
    if given and given != usual * ways or usual not in (DEFAULTS[n.op], ["relu"]):
        raise Refused(f"{n.op} with the activations {', '.join(given)}")
    if n.attr("clip") or n.attr("input_forget", 0) or n.attr("activation_alpha") or n.attr("activation_beta"):
        raise Refused(f"{n.op} with clip or a coupled forget gate")
    if n.op == "LSTM" and n.get(7) is not None and not (isinstance(n.get(7), Const) and not n.get(7).array.any()):
        raise Refused("LSTM with peepholes")


def whole(n: Node, length: int) -> None:
    """Lengths of sequences, where they are all of it."""
    lengths = n.get(4)
    if lengths is not None and not (isinstance(lengths, Const) and (lengths.array == length).all()):
        raise Refused(f"{n.op} with lengths of sequences")


def turned(b: Build, w: Tensor, order: Sequence[int]) -> Tensor:
    pieces = b.split(w, len(order), 0)
    return b.concat([pieces[i] for i in order], 0)


class Way:
    """One direction of a layer.  Gates i, o, f, c of LSTM and z, r, h of GRU; ours are i, f, c, o and r, z, h."""

    orders = {"LSTM": (0, 2, 3, 1), "GRU": (1, 0, 2), "RNN": (0,)}

    def __init__(self, b: Build, n: Node, d: int) -> None:
        self.b, self.op, self.hidden = b, n.op, n.attr("hidden_size")
        self.relu = [a.lower() for a in n.attr("activations", [])][:1] == ["relu"]
        order = self.orders[n.op]
        self.w, self.u = (turned(b, b.select(b.tensor(n.get(i)), 0, d), order) for i in (1, 2))
        both = b.select(b.tensor(n.get(3)), 0, d) if n.get(3) is not None else None
        self.biases: list[Optional[Tensor]] = [turned(b, v, order) for v in b.split(both, 2, 0)] if both is not None else [None, None]
        self.before = n.op == "GRU" and not n.attr("linear_before_reset", 0)

    def step(self, x: Tensor, state: list) -> list:
        b, h = self.b, state[0]
        if self.before:
            return [self.reset_first(x, h)]
        part = b.linear(h, self.u, self.biases[1])
        if self.op == "LSTM":
            return list(b.lstm_cell(b.map2("add", x, part), state[1]))
        if self.op == "GRU":
            return [b.gru_cell(x, part, h)]
        return [b.map1("relu" if self.relu else "tanh", b.map2("add", x, part))]

    def reset_first(self, x: Tensor, h: Tensor) -> Tensor:
        """The reset gate on the state itself, before the product."""
        b, k = self.b, self.hidden
        bias = [None, None] if self.biases[1] is None else [b.slice(self.biases[1], 0, 0, 2 * k), b.slice(self.biases[1], 0, 2 * k, k)]
        gates = b.map2("add", b.slice(x, 1, 0, 2 * k), b.linear(h, b.slice(self.u, 0, 0, 2 * k), bias[0]))
        r, z = (b.map1("sigmoid", v) for v in b.split(gates, 2, 1))
        new = b.map2("add", b.slice(x, 1, 2 * k, k), b.linear(b.map2("mul", r, h), b.slice(self.u, 0, 2 * k, k), bias[1]))
        new = b.map1("tanh", new)
        return b.map2("add", new, b.map2("mul", z, b.map2("sub", h, new)))


@op("LSTM", "GRU", "RNN")
def recurrent(b: Build, n: Node) -> list:
    x = b.tensor(n.get(0))
    if n.attr("layout", 0):
        raise Refused(f"{n.op} with layout=1")
    way = n.attr("direction", "forward")
    ways = ["forward", "reverse"] if way == "bidirectional" else [way]
    activations(n, len(ways))
    whole(n, x.shape[0])
    outputs, ends = [], []
    for d, way in enumerate(ways):
        cell = Way(b, n, d)
        shape = (x.shape[1], cell.hidden)  # a state to begin with may be the same for all samples
        zero = Tensor(b.form.fill("f32", shape, 0.0))
        given = [n.get(i) for i in ((5, 6) if n.op == "LSTM" else (5,))]
        state: list[Any] = [zero if s is None else b.broadcast(b.select(b.whole(s), 0, d), shape) for s in given]
        ys: dict[int, Tensor] = {}
        for t, part in b.steps(b.linear(x, cell.w, cell.biases[0]), 0, way == "reverse"):
            state = cell.step(part, state)
            ys[t] = b.unsqueeze(b.unsqueeze(state[0], 0), 0)
        outputs.append(b.concat([ys[t] for t in sorted(ys)], 0))
        ends.append([b.unsqueeze(s, 0) for s in state])
    return [b.concat(outputs, 1), *(b.concat(list(e), 0) for e in zip(*ends))]

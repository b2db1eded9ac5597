"""Recurrent layers of Keras, unrolled over the length of the sequence: one product over all steps, then for each step a small
product and a cell.  The cells are ops of ours where a layer has its usual activations, else written out."""
from __future__ import annotations

from typing import Any, Optional

from ..build import Build, Tensor
from ..graph import Refused
from .call import Call, layer
from .elements import activate


@layer("LSTM", "GRU", "SimpleRNN")
def recurrent(b: Build, c: Call) -> Any:
    op, x = c.op, c.get("sequences", 0)
    if op.stateful:
        raise Refused("stateful=True")
    mask = c.kwargs.get("mask")
    if c.training and op.dropout:
        x = b.map2("mul", x, b.noise((x.shape[0], 1, x.shape[2]), op.dropout))
    cell = {"LSTM": Lstm, "GRU": Gru, "SimpleRNN": Simple}[type(op).__name__](b, c)
    rest = None
    if c.training and op.recurrent_dropout:
        if isinstance(cell, Gru):
            raise Refused("GRU with recurrent_dropout")
        rest = b.noise((x.shape[0], op.units), op.recurrent_dropout)
    state = starts(b, c, x, cell.states)
    ys = []
    for t, part in b.steps(cell.project(x), 1, bool(op.go_backwards)):
        seen = [b.map2("mul", state[0], rest), *state[1:]] if rest is not None else state
        new = cell.step(part, seen)
        state = [kept(b, mask, t, n, s) for n, s in zip(new, state)]
        ys.append(b.unsqueeze(state[0] if not zeroed(op, mask) else masked(b, mask, t, new[0]), 1))
    y = b.concat(ys, 1) if op.return_sequences else state[0]
    return [y, *state] if op.return_state else y


def starts(b: Build, c: Call, x: Tensor, count: int) -> list:
    given = c.kwargs.get("initial_state", c.args[1] if len(c.args) > 1 else None)
    if given is not None:
        return [b.whole(s) for s in (given if isinstance(given, (list, tuple)) else [given])]
    zero = Tensor(b.form.fill("f32", (x.shape[0], c.op.units), 0.0))
    return [zero] * count


def zeroed(op: Any, mask: Optional[Tensor]) -> bool:
    return mask is not None and bool(op.zero_output_for_mask)


def masked(b: Build, mask: Any, t: int, new: Tensor) -> Tensor:
    return b.map2("mul", b.slice(mask, 1, t, 1), new)


def kept(b: Build, mask: Optional[Tensor], t: int, new: Tensor, old: Tensor) -> Tensor:
    """Where the mask is 0 the state stays as it was."""
    return new if mask is None else b.where(b.slice(mask, 1, t, 1), new, old)


class Cell:
    """project: x (B, T, I) -> its part of every step; step: that part of one step and the state -> the new state."""

    states = 1

    def __init__(self, b: Build, c: Call) -> None:
        self.b, self.cell = b, c.op.cell
        self.kernel, self.recurrent = c.weight(self.cell.kernel), c.weight(self.cell.recurrent_kernel)
        self.bias = c.weight(self.cell.bias) if self.cell.use_bias else None

    def project(self, x: Tensor) -> Tensor:
        return self.b.linear(x, self.kernel, self.bias, transposed=False)

    def step(self, part: Tensor, state: list) -> list:
        raise NotImplementedError

    def product(self, h: Tensor, by: Optional[Tensor] = None, bias: Optional[Tensor] = None) -> Tensor:
        return self.b.linear(h, self.recurrent if by is None else by, bias, transposed=False)

    def usual(self) -> bool:
        names = [getattr(f, "__name__", str(f)) for f in (self.cell.activation, self.cell.recurrent_activation)]
        return names == ["tanh", "sigmoid"]


class Simple(Cell):
    def step(self, x: Tensor, state: list) -> list:
        return [activate(self.b, self.b.map2("add", x, self.product(state[0])), self.cell.activation)]


class Lstm(Cell):
    """The gates are i, f, c, o, as in our cell."""

    states = 2

    def step(self, x: Tensor, state: list) -> list:
        b, cell = self.b, self.cell
        gates = b.map2("add", x, self.product(state[0]))
        if self.usual():
            return list(b.lstm_cell(gates, state[1]))
        i, f, g, o = b.split(gates, 4, -1)
        i, f, o = (activate(b, v, cell.recurrent_activation) for v in (i, f, o))
        c = b.map2("add", b.map2("mul", f, state[1]), b.map2("mul", i, activate(b, g, cell.activation)))
        return [b.map2("mul", o, activate(b, c, cell.activation)), c]


class Gru(Cell):
    """The gates are update, reset, new; those of our cell reset, update, new."""

    def __init__(self, b: Build, c: Call) -> None:
        super().__init__(b, c)
        self.after = None
        if self.cell.reset_after and self.bias is not None:
            self.after = b.select(self.bias, 0, 1)
            self.bias = b.select(self.bias, 0, 0)
        if self.cell.reset_after and self.usual():
            self.kernel, self.recurrent = self.turned(self.kernel), self.turned(self.recurrent)
            self.bias, self.after = (v if v is None else self.turned(v) for v in (self.bias, self.after))
        elif not self.cell.reset_after:
            units = self.cell.units
            self.gates = b.slice(self.recurrent, 1, 0, 2 * units)
            self.new = b.slice(self.recurrent, 1, 2 * units, units)

    def turned(self, w: Tensor) -> Tensor:
        update, reset, new = self.b.split(w, 3, -1)
        return self.b.concat([reset, update, new], -1)

    def step(self, x: Tensor, state: list) -> list:
        b, cell, h = self.b, self.cell, state[0]
        if cell.reset_after and self.usual():
            return [b.gru_cell(x, self.product(h, bias=self.after), h)]
        xz, xr, xn = b.split(x, 3, -1)
        if cell.reset_after:
            hz, hr, hn = b.split(self.product(h, bias=self.after), 3, -1)
        else:
            hz, hr = b.split(self.product(h, self.gates), 2, -1)
        z, r = (activate(b, b.map2("add", u, v), cell.recurrent_activation) for u, v in ((xz, hz), (xr, hr)))
        hn = b.map2("mul", r, hn) if cell.reset_after else self.product(b.map2("mul", r, h), self.new)
        new = activate(b, b.map2("add", xn, hn), cell.activation)
        return [b.map2("add", new, b.map2("mul", z, b.map2("sub", h, new)))]

"""Recurrent layers as their cells, one after the other."""
from __future__ import annotations

from typing import Any

from ..build import Build, Tensor


def run(b: Build, c: Any, kind: str) -> list:
    if "data" in c:
        from ..graph import Refused

        raise Refused("a recurrent layer over a packed sequence; pad the sequences instead")
    x = b.tensor(c["input"])
    hx = c["hx"] if isinstance(c["hx"], (list, tuple)) else [c["hx"]]
    hx = [b.whole(h) for h in hx]
    alone = x.rank == 2
    if alone:
        x, hx = b.unsqueeze(x, 0 if c["batch_first"] else 1), [b.unsqueeze(h, 1) for h in hx]
    if c["batch_first"]:
        x = b.permute(x, (1, 0, 2))
    weights = list(c["params"])
    directions = 2 if c["bidirectional"] else 1
    per = len(weights) // (c["num_layers"] * directions)  # odd with a projection of the state
    last_h, last_c = [], []
    for layer in range(c["num_layers"]):
        halves = []
        for direction in range(directions):
            at = layer * directions + direction
            w = weights[at * per:(at + 1) * per]
            ys, state = one(b, x, w, [b.select(h, 0, at) for h in hx], direction == 1, kind)
            halves.append(ys)
            last_h.append(state[0])
            last_c += state[1:]
        x = b.concat(halves, 2) if directions == 2 else halves[0]
        if c["train"] and c["dropout"] and layer + 1 < c["num_layers"]:
            x = b.permute(b.dropout(b.permute(x, (1, 0, 2)), c["dropout"]), (1, 0, 2))
    y = b.permute(x, (1, 0, 2)) if c["batch_first"] else x
    ends = [b.concat([b.unsqueeze(s, 0) for s in last], 0) for last in (last_h, last_c) if last]
    if alone:
        y, ends = b.squeeze(y, [0 if c["batch_first"] else 1]), [b.squeeze(e, [1]) for e in ends]
    return [y] + ends


def one(b: Build, x: Tensor, w: list, state: list, backward: bool, kind: str) -> tuple[Tensor, list]:
    """x (T, B, I) -> y (T, B, H): one layer in one direction.  Each step is read where it lies: no sequence is turned for that."""
    shorter = w[-1] if len(w) % 2 else None  # h is a product of the cell's
    bias = w[2:4] if len(w) > 3 else [None, None]
    projected = b.linear(x, w[0], bias[0])
    ys: list = []
    for _, xt in b.steps(projected, 0, backward):
        state = step(b, kind, xt, state, w[1], bias[1])
        if shorter is not None:
            state[0] = b.linear(state[0], shorter)
        ys.append(b.unsqueeze(state[0], 0))
    return b.concat(list(reversed(ys)) if backward else ys, 0), state


def step(b: Build, kind: str, xt: Tensor, state: list, weight: Any, bias: Any) -> list:
    """One cell: xt is the product of the input."""
    ht = b.linear(state[0], weight, bias)
    if kind == "lstm":
        return list(b.lstm_cell(b.map2("add", xt, ht), state[1]))
    if kind == "gru":
        return [b.gru_cell(xt, ht, state[0])]
    return [b.map1("relu" if kind == "rnn_relu" else "tanh", b.map2("add", xt, ht))]

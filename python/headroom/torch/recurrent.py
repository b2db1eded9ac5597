"""LSTM and GRU layers as their cells, one after the other."""
from __future__ import annotations

from typing import Any

from ..build import Build, Tensor


def run(b: Build, c: Any, kind: str) -> list:
    x = b.tensor(c["input"])
    hx = c["hx"] if isinstance(c["hx"], (list, tuple)) else [c["hx"]]
    if c["batch_first"]:
        x = b.permute(x, (1, 0, 2))
    weights = list(c["params"])
    per = 4 if c["has_biases"] else 2
    directions = 2 if c["bidirectional"] else 1
    last_h, last_c = [], []
    for layer in range(c["num_layers"]):
        halves = []
        for direction in range(directions):
            at = layer * directions + direction
            w = weights[at * per:(at + 1) * per]
            state = [b.select(b.whole(h), 0, at) for h in hx]
            ys, state = one(b, x, w, state, direction == 1, kind)
            halves.append(ys)
            last_h.append(state[0])
            last_c += state[1:]
        x = b.concat(halves, 2) if directions == 2 else halves[0]
        if c["train"] and c["dropout"] and layer + 1 < c["num_layers"]:
            x = b.permute(b.dropout(b.permute(x, (1, 0, 2)), c["dropout"]), (1, 0, 2))
    y = b.permute(x, (1, 0, 2)) if c["batch_first"] else x
    ends = [b.concat([b.unsqueeze(s, 0) for s in last], 0) for last in (last_h, last_c) if last]
    return [y] + ends


def one(b: Build, x: Tensor, w: list, state: list, backward: bool, kind: str) -> tuple[Tensor, list]:
    """x (T, B, I) -> y (T, B, H): one layer in one direction."""
    projected = b.linear(x, w[0], w[2] if len(w) > 2 else None)
    ys: list = []
    for _, xt in b.steps(projected, 0, backward):
        ht = b.linear(state[0], w[1], w[3] if len(w) > 3 else None)
        if kind == "lstm":
            state = list(b.lstm_cell(b.map2("add", xt, ht), state[1]))
        else:
            state = [b.gru_cell(xt, ht, state[0])]
        ys.append(b.unsqueeze(state[0], 0))
    return b.concat(list(reversed(ys)) if backward else ys, 0), state

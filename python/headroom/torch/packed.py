"""Packed sequences: nn.LSTM, nn.GRU and nn.RNN over sequences of different lengths, as cells that stand still where a sequence has ended.

pack_padded_sequence() sorts by length and drops what is padding, so that its sizes depend on data.  While a module is traced it gives
a Padded instead, which recurrent layers read step by step: a sample's state moves only in the steps that it has.  What
pad_packed_sequence() gives has the length of the padded input (PyTorch's is as long as the longest of the batch), with its padding
value behind each sequence."""
from __future__ import annotations

import contextlib
from typing import Any, Iterator, Optional

import torch
import torch.nn.functional as F
from torch import nn
from torch.nn.utils import rnn

from ..graph import Refused


class Padded:
    """x (B, T, ...) and how many of the steps of each sample count."""

    def __init__(self, x: torch.Tensor, lengths: torch.Tensor) -> None:
        self.x, self.lengths = x, lengths

    def counts(self, step: int) -> torch.Tensor:
        return (self.lengths > step).unsqueeze(1)


def pack(x: torch.Tensor, lengths: Any, batch_first: bool) -> Padded:
    if not isinstance(lengths, torch.Tensor):
        raise Refused("pack_padded_sequence with lengths that are no tensor")
    return Padded(x if batch_first else x.transpose(0, 1), lengths)


def pad(packed: Any, batch_first: bool, value: float, total: Optional[int]) -> tuple[torch.Tensor, torch.Tensor]:
    x = packed.x
    length = x.shape[1]
    if total is not None and total < length:
        raise Refused(f"pad_packed_sequence with total_length={total}, where the padded sequences have {length}")
    behind = torch.arange(length).unsqueeze(0) >= packed.lengths.unsqueeze(1)
    x = x.masked_fill(behind.unsqueeze(2), value)
    if total is not None and total > length:
        x = F.pad(x, (0, 0, 0, total - length), value=value)
    return (x if batch_first else x.transpose(0, 1)), packed.lengths


def cell(kind: str, x: torch.Tensor, state: list, weight: torch.Tensor, bias: Any) -> list:
    """One step.  x is the product of the input."""
    h = F.linear(state[0], weight, bias)
    if kind == "LSTM":
        i, f, g, o = (x + h).chunk(4, 1)
        c = f.sigmoid() * state[1] + i.sigmoid() * g.tanh()
        return [o.sigmoid() * c.tanh(), c]
    if kind == "GRU":
        (r, z, n), (hr, hz, hn) = x.chunk(3, 1), h.chunk(3, 1)
        z = (z + hz).sigmoid()
        return [(1 - z) * (n + (r + hr).sigmoid() * hn).tanh() + z * state[0]]
    return [(x + h).relu() if kind == "RNN_RELU" else (x + h).tanh()]


def direction(layer: Any, x: Padded, state: list, suffix: str, backward: bool) -> tuple[torch.Tensor, list]:
    names = ("weight_ih", "weight_hh", "bias_ih", "bias_hh", "weight_hr")
    given: dict[str, Any] = {n: getattr(layer, f"{n}_{suffix}", None) for n in names}
    steps = F.linear(x.x, given["weight_ih"], given["bias_ih"])
    count = steps.shape[1]
    out: list = [None] * count
    for t in reversed(range(count)) if backward else range(count):
        moved = cell(layer.mode, steps[:, t], state, given["weight_hh"], given["bias_hh"])
        if given["weight_hr"] is not None:
            moved[0] = F.linear(moved[0], given["weight_hr"])
        state = [torch.where(x.counts(t), new, old) for new, old in zip(moved, state)]
        out[t] = state[0]
    return torch.stack(out, 1), state


def recurrent(layer: Any, x: Padded, hx: Any) -> tuple[Padded, Any]:
    count = 2 if layer.bidirectional else 1
    kinds = 2 if layer.mode == "LSTM" else 1
    begin = None if hx is None else list(hx) if kinds == 2 else [hx]
    sizes = [layer.proj_size or layer.hidden_size, layer.hidden_size][:kinds]
    ends: list = [[] for _ in range(kinds)]
    for level in range(layer.num_layers):
        halves = []
        for d in range(count):
            state = [x.x.new_zeros(x.x.shape[0], n) for n in sizes] if begin is None else [h[level * count + d] for h in begin]
            y, state = direction(layer, x, state, f"l{level}{'_reverse' if d else ''}", d == 1)
            halves.append(y)
            for end, s in zip(ends, state):
                end.append(s)
        y = torch.cat(halves, 2) if count == 2 else halves[0]
        if layer.dropout and level + 1 < layer.num_layers:
            y = F.dropout(y, layer.dropout, layer.training)
        x = Padded(y, x.lengths)
    last = [torch.stack(end, 0) for end in ends]
    return x, tuple(last) if kinds == 2 else last[0]


# Their code is taken in place of PyTorch's, because modules hold those functions under names of their own.
def _pack(input, lengths, batch_first=False, enforce_sorted=True):  # type: ignore[no-untyped-def]
    from headroom.torch.packed import pack

    return pack(input, lengths, batch_first)


def _pad(sequence, batch_first=False, padding_value=0.0, total_length=None):  # type: ignore[no-untyped-def]
    from headroom.torch.packed import pad

    return pad(sequence, batch_first, padding_value, total_length)


@contextlib.contextmanager
def taken() -> Iterator[None]:
    functions = {rnn.pack_padded_sequence: _pack, rnn.pad_packed_sequence: _pad}
    codes = {f: f.__code__ for f in functions}
    forwards = {k: k.forward for k in (nn.LSTM, nn.GRU, nn.RNN)}

    def reading(forward: Any) -> Any:
        def run(self: Any, input: Any, hx: Any = None) -> Any:
            return recurrent(self, input, hx) if isinstance(input, Padded) else forward(self, input, hx)

        return run

    try:
        for f, ours in functions.items():
            f.__code__ = ours.__code__
        for k, forward in forwards.items():
            k.forward = reading(forward)  # type: ignore[method-assign, attr-defined]
        yield
    finally:
        for f, code in codes.items():
            f.__code__ = code
        for k, forward in forwards.items():
            k.forward = forward  # type: ignore[method-assign, attr-defined]

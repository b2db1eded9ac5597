"""Attention and recurrent layers of Keras."""
from __future__ import annotations

from typing import Any, Optional

import numpy as np

from ..build import MASKED, Build, Const, Tensor
from ..graph import Refused
from .layers import Call, activate, layer


@layer("MultiHeadAttention")
def attention(b: Build, c: Call) -> Tensor:
    op = c.op
    query = c.get("query", 0)
    value = c.get("value", 1)
    key = c.kwargs.get("key", c.args[2] if len(c.args) > 2 else None)
    key = value if key is None else key
    for name in ("query_mask", "value_mask", "key_mask"):
        if c.kwargs.get(name) is not None:
            raise Refused("attention with padding masks")
    q = _project(b, c, query, op._query_dense)
    k = _project(b, c, key, op._key_dense)
    v = _project(b, c, value, op._value_dense)
    mask = c.kwargs.get("attention_mask")
    if mask is not None and not isinstance(mask, Const):
        raise Refused("an attention mask that depends on data")
    if mask is not None:
        mask = Const(np.where(mask.array.astype(bool), np.float32(0), np.float32(MASKED)))
    y = b.attention(q, k, v, mask, bool(c.kwargs.get("use_causal_mask")), None,
                    float(op._dropout) if c.training else 0.0)
    heads, depth = op._output_dense.kernel.shape[:2]
    y = b.permute(y, (0, 2, 1, 3))
    y = b.reshape(y, y.shape[:2] + (heads * depth,))
    kernel = b.reshape(c.weight(op._output_dense.kernel), (heads * depth, op._output_dense.kernel.shape[2]))
    return b.linear(y, kernel, c.weight(op._output_dense.bias), transposed=False)


def _project(b: Build, c: Call, x: Tensor, dense: Any) -> Tensor:
    """x (B, T, D) by a kernel (D, H, K) -> (B, H, T, K)."""
    d, h, k = dense.kernel.shape
    kernel = b.reshape(c.weight(dense.kernel), (d, h * k))
    bias = b.reshape(c.weight(dense.bias), (h * k,)) if dense.bias is not None else None
    y = b.linear(x, kernel, bias, transposed=False)
    return b.permute(b.reshape(y, y.shape[:2] + (h, k)), (0, 2, 1, 3))


@layer("LSTM", "GRU", "SimpleRNN")
def recurrent(b: Build, c: Call) -> Any:
    op, x = c.op, c.get("sequences", 0)
    mask = c.kwargs.get("mask")
    if op.stateful or c.kwargs.get("initial_state") is not None:
        raise Refused("a recurrent layer with a state of its own")
    if c.training and op.dropout:
        x = b.map2("mul", x, b.noise((x.shape[0], 1, x.shape[2]), op.dropout))
    if c.training and op.recurrent_dropout:
        raise Refused("recurrent_dropout")
    kind = type(op).__name__
    step = {"LSTM": _lstm, "GRU": _gru, "SimpleRNN": _simple}[kind]
    zero = Tensor(b.form.fill("f32", (x.shape[0], op.units), 0.0))
    state = [zero, zero] if kind == "LSTM" else [zero]
    ys = []
    order = range(x.shape[1])
    projected = _input(b, c, x, kind)
    for t in (reversed(order) if op.go_backwards else order):
        new = step(b, c, b.select(projected, 1, t), state)
        state = [_kept(b, mask, t, n, s) for n, s in zip(new, state)]
        ys.append(b.unsqueeze(state[0], 1))
    y = b.concat(ys, 1) if op.return_sequences else state[0]
    return [y, *state] if op.return_state else y


def _kept(b: Build, mask: Optional[Tensor], t: int, new: Tensor, old: Tensor) -> Tensor:
    """Where the mask is 0 the state stays as it was."""
    if mask is None:
        return new
    m = b.slice(mask, 1, t, 1)
    return b.map2("add", old, b.map2("mul", m, b.map2("sub", new, old)))


def _input(b: Build, c: Call, x: Tensor, kind: str) -> Tensor:
    cell = c.op.cell
    bias = c.weight(cell.bias) if cell.use_bias else None
    if kind == "GRU" and bias is not None and cell.reset_after:
        bias = b.select(bias, 0, 0)
    return b.linear(x, c.weight(cell.kernel), bias, transposed=False)


def _usual(cell: Any) -> None:
    names = [getattr(f, "__name__", str(f)) for f in (cell.activation, cell.recurrent_activation)]
    if names != ["tanh", "sigmoid"]:
        raise Refused(f"a recurrent layer with the activations {names}")


def _lstm(b: Build, c: Call, x: Tensor, state: list) -> list:
    """Keras has the gates in the order i, f, c, o."""
    _usual(c.op.cell)
    gates = b.map2("add", x, b.linear(state[0], c.weight(c.op.cell.recurrent_kernel), transposed=False))
    return list(b.lstm_cell(gates, state[1]))


def _gru(b: Build, c: Call, x: Tensor, state: list) -> list:
    """Keras has the gates in the order update, reset, new."""
    cell = c.op.cell
    _usual(cell)
    if not cell.reset_after:
        raise Refused("GRU with reset_after=False")
    bias = b.select(c.weight(cell.bias), 0, 1) if cell.use_bias else None
    h = b.linear(state[0], c.weight(cell.recurrent_kernel), bias, transposed=False)
    xz, xr, xn = b.split(x, 3, -1)
    hz, hr, hn = b.split(h, 3, -1)
    reset = b.map1("sigmoid", b.map2("add", xr, hr))
    update = b.map1("sigmoid", b.map2("add", xz, hz))
    new = b.map1("tanh", b.map2("add", xn, b.map2("mul", reset, hn)))
    return [b.map2("add", new, b.map2("mul", update, b.map2("sub", state[0], new)))]


def _simple(b: Build, c: Call, x: Tensor, state: list) -> list:
    cell = c.op.cell
    y = b.map2("add", x, b.linear(state[0], c.weight(cell.recurrent_kernel), transposed=False))
    return [activate(b, y, cell.activation)]

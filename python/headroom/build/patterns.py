"""What frameworks write as several ops and we have as one: rotary embedding and RMS norm.

They are recognised when their last op is added.  What they were made of stays in the form and is not written, because nothing reads it."""
from __future__ import annotations

from typing import TYPE_CHECKING, Optional

import numpy as np

from ..graph import Entry, Value
from .tensor import Any, Const, Tensor

if TYPE_CHECKING:
    from . import Build


def found(b: "Build", op: str, x: Any, y: Any) -> Optional[Tensor]:
    if not isinstance(x, Tensor) or not isinstance(y, Tensor):
        return None
    for u, v in ((x, y), (y, x)):
        made = rotary(b, u, v) if op == "add" else rms_norm(b, u, v) if op == "mul" else None
        if made is not None:
            return made
    return None


# ---- x cos + (-x2, x1) sin ----

def rotary(b: "Build", u: Tensor, v: Tensor) -> Optional[Tensor]:
    """u = x cos, v = (-x2, x1) sin; x (B, H, T, D) of the framework, lying as (B, T, H, D)."""
    if u.order != (0, 2, 1, 3) or v.order != u.order or u.value.entry.op != "mul" or v.value.entry.op != "mul":
        return None
    (x, cos), (turned, sin) = by_table(b, u.value.entry), by_table(b, v.value.entry)
    if x is None or turned is None or cos is None or sin is None or not is_turned(turned.entry, x):
        return None
    half = x.shape[3] // 2
    tables = []
    for t in (cos, sin):
        if t.shape != (1, x.shape[1], 1, 2 * half) or not np.array_equal(t[..., :half], t[..., half:]):
            return None
        tables.append(b.const(Const(np.ascontiguousarray(t[0, :, 0, :half]))).value)
    return Tensor(b.form.node("rotary", [x, *tables], [(u.type, x.shape)])[0], u.order)


def by_table(b: "Build", e: Entry) -> tuple[Optional[Value], Optional[np.ndarray]]:
    """The two factors of a product of which one is a constant."""
    for i in (0, 1):
        table = b.arrays.get(e.inputs[i])
        if table is not None:
            return e.inputs[1 - i], table
    return None, None


def is_turned(e: Entry, x: Value) -> bool:
    """(-x2, x1), halves of the last dimension."""
    if e.op != "concat" or len(e.inputs) != 2 or e.attributes.get("axis") != 3 or len(x.shape) != 4:
        return False
    minus, low = e.inputs[0].entry, e.inputs[1].entry
    if minus.op != "affine" or minus.attributes != {"scale": -1.0}:
        return False
    high, half = minus.inputs[0].entry, x.shape[3] // 2
    return all(s.op == "slice" and s.inputs[0] is x and list(s.attributes["begin"]) == [0, 0, 0, at] and "step" not in s.attributes
               and s.outputs[0].shape == x.shape[:3] + (half,) for s, at in ((high, half), (low, 0)))


# ---- g x / sqrt(mean(x^2) + eps) ----

def rms_norm(b: "Build", u: Tensor, v: Tensor) -> Optional[Tensor]:
    """u = g (C) in front of ones, v = x rsqrt(mean(x^2) + eps) over the last dimension."""
    g, product = u.value, v.value.entry
    if g.entry.op == "reshape":
        g = g.entry.inputs[0]
    c = v.value.shape[-1] if v.value.shape else 0
    if g.shape != (c,) or g.entry.kind != "param" or product.op != "mul" or v.order != tuple(range(v.rank)) or u.shape[-1:] != (c,):
        return None
    for x, r in (product.inputs, product.inputs[::-1]):
        eps = inverse_rms(r.entry, x)
        if eps is not None:
            return b.rms_norm(Tensor(x), Tensor(g), eps)
    return None


def inverse_rms(e: Entry, x: Value) -> Optional[float]:
    """eps, if e is rsqrt(mean(x^2) + eps)."""
    if e.op != "rsqrt" or e.inputs[0].entry.op != "affine":
        return None
    shifted = e.inputs[0].entry
    mean = shifted.inputs[0].entry
    if set(shifted.attributes) != {"shift"} or mean.op != "mean" or list(mean.attributes.get("axes", ())) != [len(x.shape) - 1] \
            or not mean.attributes.get("keep"):
        return None
    square = mean.inputs[0].entry
    if square.op != "power" or square.attributes != {"exponent": 2.0} or square.inputs[0] is not x:
        return None
    return float(shifted.attributes["shift"])

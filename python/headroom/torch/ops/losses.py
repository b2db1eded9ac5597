"""Losses that a module computes itself."""
from __future__ import annotations

from typing import Any

import numpy as np

from ...build import Build, Const, Tensor
from ...graph import Refused
from .call import Call, op, operand

NONE, MEAN, SUM = 0, 1, 2  # at::Reduction


def reduced(b: Build, x: Tensor, how: int) -> Tensor:
    return x if how == NONE else b.reduce("mean" if how == MEAN else "sum", x, [], False)


@op("mse_loss")
def mse_loss(b: Build, c: Call) -> Tensor:
    d = b.map2("sub", operand(c["self"]), operand(c["target"]))
    return reduced(b, b.map1("power", d, exponent=2.0), c["reduction"])


@op("l1_loss")
def l1_loss(b: Build, c: Call) -> Tensor:
    return reduced(b, b.map1("abs", b.map2("sub", operand(c["self"]), operand(c["target"]))), c["reduction"])


@op("smooth_l1_loss", "huber_loss")
def smooth_l1_loss(b: Build, c: Call) -> Tensor:
    """Squares within beta, linear beyond it."""
    huber = "huber" in str(c.node.target)
    beta = float(c["delta"] if huber else c["beta"])
    size = b.map1("abs", b.map2("sub", operand(c["self"]), operand(c["target"])))
    near = b.clip(size, None, beta)
    y = b.map2("add", b.affine(b.map1("power", near, exponent=2.0), 0.5), b.affine(b.map2("sub", size, near), beta))
    return reduced(b, y if huber else b.affine(y, 1.0 / beta), c["reduction"])


@op("binary_cross_entropy_with_logits")
def bce_with_logits(b: Build, c: Call) -> Tensor:
    """softplus(x) - x t; with pos_weight w: (1 - t) x + (1 + (w - 1) t) softplus(-x)."""
    x, t = b.tensor(c["self"]), operand(c["target"])
    if c["pos_weight"] is None:
        y = b.map2("sub", b.function("softplus", x), b.map2("mul", x, t))
    else:
        less = b.map2("add", b.map2("mul", b.map2("sub", operand(c["pos_weight"]), Const(np.float32(1))), t), Const(np.float32(1)))
        y = b.map2("add", b.map2("mul", b.map2("sub", Const(np.float32(1)), t), x), b.map2("mul", less, b.function("softplus", b.neg(x))))
    if c["weight"] is not None:
        y = b.map2("mul", y, operand(c["weight"]))
    return reduced(b, y, c["reduction"])


@op("binary_cross_entropy")
def bce(b: Build, c: Call) -> Tensor:
    def log(x: Tensor) -> Tensor:
        return b.clip(b.map1("log", x), -100.0, None)

    x, t = b.tensor(c["self"]), operand(c["target"])
    y = b.map2("add", b.map2("mul", t, log(x)), b.map2("mul", b.map2("sub", Const(np.float32(1)), t), log(b.affine(x, -1.0, 1.0))))
    y = b.neg(y)
    if c["weight"] is not None:
        y = b.map2("mul", y, operand(c["weight"]))
    return reduced(b, y, c["reduction"])


@op("kl_div")
def kl_div(b: Build, c: Call) -> Tensor:
    x, t = operand(c["self"]), operand(c["target"])
    if c["log_target"]:
        y = b.map2("mul", b.map1("exp", b.tensor(t)), b.map2("sub", t, x))
    else:
        safe = b.map1("log", b.clip(b.tensor(t), 1e-38, None))
        y = b.map2("mul", t, b.map2("sub", safe, x))
    return reduced(b, y, c["reduction"])


@op("cross_entropy_loss")
def cross_entropy_loss(b: Build, c: Call) -> Tensor:
    x, target = b.tensor(c["self"]), c["target"]
    d = 1 if x.rank > 1 else 0
    if str(given(c, "target", 1).dtype).startswith("torch.float"):
        y = b.reduce("sum", b.map2("mul", operand(target), b.softmax(x, d, "log_softmax")), [d], False)
        if c["label_smoothing"] or c["weight"] is not None:
            raise Refused("cross entropy of probabilities with weights or label smoothing")
        return reduced(b, b.neg(y), c["reduction"])
    if c["weight"] is None and not c["label_smoothing"] and c["reduction"] == MEAN and x.rank > 1 and isinstance(target, Tensor):
        t = b.last(x, d)
        ids = b.lie(unless(b, target, c["ignore_index"]), [i - (i > d) for i in t.order[:-1]])
        rows = t.value.shape[:-1]
        if c["ignore_index"] < 0:
            return Tensor(b.form.node("cross_entropy", [t.value, ids.value], [("f32", ()), ("f32", rows)])[0])
        b.counted = ids  # the library counts labels that are inputs; of these the sums say that a batch is not to be split
        total = Tensor(b.form.node("cross_entropy", [t.value, ids.value], [("f32", ()), ("f32", rows)], sum=True)[0])
        return b.map2("div", total, b.reduce("sum", b.compare("greater_equal", ids, Const(np.float32(0))), [], False))
    log = b.softmax(x, d, "log_softmax")
    return nll(b, log, target, d, c["weight"], c["reduction"], c["ignore_index"], c["label_smoothing"])


def unless(b: Build, target: Tensor, ignored: int) -> Tensor:
    """Labels with -1, which counts nowhere, in place of the one that is ignored."""
    if ignored < 0:
        return b.tensor(b.ids(target))
    ids = b.cast(target, "f32")
    return b.tensor(b.ids(b.map2("sub", ids, b.affine(b.compare("equal", ids, Const(np.float32(ignored))), ignored + 1.0))))


@op("nll_loss", "nll_loss_nd", "nll_loss2d")
def nll_loss(b: Build, c: Call) -> Tensor:
    x = b.tensor(c["self"])
    return nll(b, x, c["target"], 1 if x.rank > 1 else 0, c["weight"], c["reduction"], c["ignore_index"], 0.0)


def nll(b: Build, log: Tensor, target: Any, d: int, weight: Any, how: int, ignore: int, smoothing: float) -> Tensor:
    """Rows that are ignored count nowhere; the mean is over the weights of the others."""
    ids = b.cast(b.whole(operand(target)), "f32")
    counts = b.compare("not_equal", ids, Const(np.float32(ignore)))
    safe = b.tensor(b.ids(b.map2("mul", ids, counts)))
    b.counted = unless(b, b.tensor(operand(target)), ignore) if ignore >= 0 else None
    each = b.neg(b.squeeze(b.take_along(log, b.unsqueeze(safe, d), d), [d]))
    even = b.map2("mul", log, b.reshape(b.tensor(weight), (-1, *[1] * (log.rank - 1 - d)))) if smoothing and weight is not None else log
    even = b.map2("mul", b.neg(b.reduce("mean", even, [d], False)), counts) if smoothing else even
    if weight is not None:
        counts = b.map2("mul", counts, b.gather(b.tensor(weight), safe))
    each = b.map2("mul", each, counts)
    if smoothing:
        each = b.map2("add", b.affine(each, 1 - smoothing), b.affine(even, smoothing))
    if how == NONE:
        return each
    total = b.reduce("sum", each, [], False)
    return total if how == SUM else b.map2("div", total, b.reduce("sum", counts, [], False))


def given(c: Call, name: str, at: int) -> Any:
    node = c.node.args[at] if len(c.node.args) > at else c.node.kwargs[name]
    return node.meta["val"]

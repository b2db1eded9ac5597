"""Sums, means, the largest, and what is made of them."""
from __future__ import annotations

from typing import Any, Callable

import numpy as np

from ...build import Build, Const, Tensor
from ...graph import Refused
from ...size import Size
from .call import Call, op, operand


def dims_of(c: Call) -> list:
    d = c.get("dim")
    return [] if d is None else [d] if isinstance(d, int) else list(d)


def number(b: Build, x: Any) -> Tensor:
    """As real numbers: masks and counts are summed too."""
    return b.cast(b.whole(operand(x)), "f32")


def over(b: Build, how: str, c: Call) -> Tensor:
    x = number(b, c["self"])
    return b.reduce(how, x, dims_of(c), bool(c.get("keepdim"))) if x.rank else x


@op("mean")
def mean(b: Build, c: Call) -> Tensor:
    return over(b, "mean", c)


@op("sum")
def sum_(b: Build, c: Call) -> Tensor:
    return over(b, "sum", c)


@op("count_nonzero")
def count_nonzero(b: Build, c: Call) -> Tensor:
    return b.reduce("sum", b.compare("not_equal", number(b, c["self"]), Const(np.float32(0))), dims_of(c), False)


@op("amax")
def amax(b: Build, c: Call) -> Tensor:
    return shared(b, number(b, c["self"]), c)


@op("amin")
def amin(b: Build, c: Call) -> Tensor:
    return b.neg(shared(b, b.neg(number(b, c["self"])), c))


def shared(b: Build, x: Tensor, c: Call) -> Tensor:
    """The largest.  PyTorch shares the gradient among equals, ours goes to the first: the same unless two are equal."""
    return b.reduce("max", x, dims_of(c), bool(c.get("keepdim")))


@op("any")
def any_(b: Build, c: Call) -> Tensor:
    return b.reduce("max", b.compare("not_equal", number(b, c["self"]), Const(np.float32(0))), dims_of(c), bool(c.get("keepdim")))


@op("all")
def all_(b: Build, c: Call) -> Tensor:
    wrong = b.compare("equal", number(b, c["self"]), Const(np.float32(0)))
    return b.affine(b.reduce("max", wrong, dims_of(c), bool(c.get("keepdim"))), -1.0, 1.0)


@op("max", "min")
def max_(b: Build, c: Call) -> Any:
    most = ".max" in str(c.node.target)
    if isinstance(c.get("other"), (Tensor, Const)):
        return (b.maximum if most else b.minimum)(operand(c["self"]), operand(c["other"]))
    x = number(b, c["self"])
    y = b.reduce("max", x if most else b.neg(x), dims_of(c), bool(c.get("keepdim")))
    index = Tensor(y.value.entry.outputs[1], y.order)
    y = y if most else b.neg(y)
    return [y, index] if c.get("dim") is not None else y


@op("var", "std")
def var(b: Build, c: Call) -> Tensor:
    v = b.variance(c["self"], dims_of(c) or range(c["self"].rank), bool(c.get("keepdim")), correction_of(c))
    return b.root(v) if ".std" in str(c.node.target) else v


@op("var_mean", "std_mean")
def var_mean(b: Build, c: Call) -> list:
    dims = dims_of(c) or range(c["self"].rank)
    v = b.variance(c["self"], dims, bool(c.get("keepdim")), correction_of(c))
    return [b.root(v) if ".std" in str(c.node.target) else v, b.reduce("mean", c["self"], dims, bool(c.get("keepdim")))]


def correction_of(c: Call) -> Any:
    correction = c.get("correction")
    return (1 if c.get("unbiased", True) else 0) if correction is None else correction


@op("linalg_vector_norm", "norm", "frobenius_norm")
def norm(b: Build, c: Call) -> Tensor:
    p = c.get("ord", c.get("p", 2))
    p, x, keep = 2.0 if p in (None, "fro") else float(p), number(b, c["self"]), bool(c.get("keepdim"))
    if p == 2:
        return b.root(b.reduce("sum", b.map1("power", x, exponent=2.0), dims_of(c), keep))
    size = b.map1("abs", x)
    if p == 1:
        return b.reduce("sum", size, dims_of(c), keep)
    if p == float("inf"):
        return b.reduce("max", size, dims_of(c), keep)
    if p <= 0:
        raise Refused(f"a norm of order {p:g}")
    return b.map1("power", b.reduce("sum", b.map1("power", size, exponent=p), dims_of(c), keep), exponent=1.0 / p)


@op("prod")
def prod(b: Build, c: Call) -> Tensor:
    """Halves multiplied, so that a factor of 0 has the gradient that it should."""
    x = number(b, c["self"])
    if c.get("dim") is None:
        x, d = b.reshape(b.plain(x), (int(np.prod(x.shape)),)), 0
    else:
        d = c["dim"] % x.rank
    if isinstance(x.shape[d], Size):
        raise Refused("a product over the batch")
    while x.shape[d] > 1:
        half = x.shape[d] // 2
        y = b.map2("mul", b.slice(x, d, 0, half), b.slice(x, d, half, half))
        x = b.concat([y, b.slice(x, d, 2 * half, 1)], d) if x.shape[d] % 2 else y
    return x if c.get("keepdim") else b.squeeze(x, [d])


@op("logsumexp")
def logsumexp(b: Build, c: Call) -> Tensor:
    x, dims = number(b, c["self"]), dims_of(c)
    top = b.map1("stop_gradient", b.reduce("max", x, dims, True))
    y = b.map1("log", b.reduce("sum", b.map1("exp", b.map2("sub", x, top)), dims, True))
    y = b.map2("add", y, top)
    return y if c.get("keepdim") else b.squeeze(y, [d % x.rank for d in dims])


@op("softmax", "_softmax")
def softmax(b: Build, c: Call) -> Tensor:
    return b.softmax(number(b, c["self"]), c["dim"])


@op("log_softmax", "_log_softmax")
def log_softmax(b: Build, c: Call) -> Tensor:
    return b.softmax(number(b, c["self"]), c["dim"], "log_softmax")


@op("cumsum")
def cumsum(b: Build, c: Call) -> Tensor:
    return b.cum_sum(b.whole(operand(c["self"])), c["dim"])


def running(b: Build, c: Call, join: Callable[[Tensor, Tensor], Tensor]) -> Tensor:
    """Of 1, 2, 4 ... neighbours: later ones joined with sooner ones."""
    x = number(b, c["self"])
    d = c["dim"] % x.rank
    if isinstance(x.shape[d], Size):
        raise Refused(f"{str(c.node.target).split('.')[1]} over the batch")
    by, n = 1, x.shape[d]
    while by < n:
        x = b.concat([b.slice(x, d, 0, by), join(b.slice(x, d, by, n - by), b.slice(x, d, 0, n - by))], d)
        by *= 2
    return x


@op("cumprod")
def cumprod(b: Build, c: Call) -> Tensor:
    """A factor of 0 has the gradient that it should."""
    return running(b, c, lambda x, y: b.map2("mul", x, y))


@op("logcumsumexp")
def logcumsumexp(b: Build, c: Call) -> Tensor:
    return running(b, c, lambda x, y: b.map2("add", b.function("softplus", b.map2("sub", x, y)), y))


@op("cummax", "cummin")
def cummax(b: Build, c: Call) -> list:
    """The places are not taken."""
    return [running(b, c, b.maximum if "cummax" in str(c.node.target) else b.minimum), None]


@op("diff")
def diff(b: Build, c: Call) -> Tensor:
    x, d = number(b, c["self"]), c["dim"] % c["self"].rank
    x = b.concat([number(b, t) for t in (c.get("prepend"), x, c.get("append")) if t is not None], d)
    for _ in range(c["n"]):
        k = x.shape[d] - 1
        x = b.map2("sub", b.slice(x, d, 1, k), b.slice(x, d, 0, k))
    return x

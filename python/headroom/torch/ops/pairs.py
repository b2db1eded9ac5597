"""Complex numbers, as pairs of real ones: rotary embeddings that are written so, and Fourier transforms.

A transform is a product with the matrix of its cosines and sines.  That is n^2 steps and not n log n, but one large product, and for
the lengths of sequences and images that networks see it is no bottleneck; beyond LONGEST it is refused."""
from __future__ import annotations

from typing import Any, Callable, Sequence

import numpy as np

from ...build import Build, Const, Tensor
from ...graph import Refused
from ...table import Table
from .call import OPS, Call, operand

LONGEST = 4096
PAIRS = Table()
op = PAIRS.op


class Pair:
    """Real and imaginary part, of one shape."""

    __slots__ = ("re", "im")

    def __init__(self, re: Tensor, im: Tensor) -> None:
        self.re, self.im = re, im

    shape = property(lambda self: self.re.shape)
    rank = property(lambda self: self.re.rank)
    type = "complex"


def involved(x: Any) -> bool:
    """Whether a complex number that is no constant is among the arguments."""
    return isinstance(x, Pair) or (isinstance(x, (list, tuple)) and any(involved(y) for y in x))


def parts(b: Build, x: Any) -> tuple[Any, Any]:
    """Of a pair, of a constant, or of what is real; the imaginary part of that is None."""
    if isinstance(x, Pair):
        return x.re, x.im
    if isinstance(x, complex):
        return operand(x.real), operand(x.imag)
    if isinstance(x, Const) and x.array.dtype.kind == "c":
        return (Const(p.astype("float32"), x.shape) for p in (x.array.real, x.array.imag))  # type: ignore[return-value]
    return operand(x), None


def plus(b: Build, x: Any, y: Any, how: str = "add") -> Any:
    if x is None:
        return y if how == "add" or y is None else b.neg(b.tensor(y))
    return x if y is None else b.map2(how, x, y)


def times(b: Build, product: Callable, x: Any, y: Any) -> Pair:
    """Each part by each, where there is one."""
    (a, c), (e, f) = parts(b, x), parts(b, y)

    def part(u: Any, v: Any) -> Any:
        return None if u is None or v is None else product(u, v)

    return pair(b, plus(b, part(a, e), part(c, f), "sub"), plus(b, part(a, f), part(c, e)))


def pair(b: Build, re: Any, im: Any) -> Pair:
    re = b.whole(re)
    return Pair(re, b.affine(re, 0.0) if im is None else b.whole(im))


# ---- there and back ----

@op("view_as_complex")
def view_as_complex(b: Build, c: Call) -> Pair:
    return Pair(b.select(c["self"], -1, 0), b.select(c["self"], -1, 1))


@op("view_as_real")
def view_as_real(b: Build, c: Call) -> Tensor:
    z = c["self"]
    return b.concat([b.unsqueeze(p, z.rank) for p in (z.re, z.im)], z.rank)


@op("complex")
def complex_(b: Build, c: Call) -> Pair:
    return Pair(b.whole(c["real"]), b.whole(c["imag"]))


@op("polar")
def polar(b: Build, c: Call) -> Pair:
    size, angle = operand(c["abs"]), b.tensor(operand(c["angle"]))
    return pair(b, *(b.map2("mul", size, b.function(f, angle)) for f in ("cos", "sin")))


@op("to", "_to_copy")
def to(b: Build, c: Call) -> Any:
    return pair(b, *parts(b, c["self"])) if c.node.meta["val"].is_complex() else c["self"].re


@op("copy")
def copy(b: Build, c: Call) -> Pair:
    """What is written."""
    z = pair(b, *parts(b, c["src"]))
    return Pair(*(b.broadcast(x, c["self"].shape) for x in (z.re, z.im)))


@op("real")
def real(b: Build, c: Call) -> Tensor:
    return c["self"].re


@op("imag")
def imag(b: Build, c: Call) -> Tensor:
    return c["self"].im


@op("abs")
def abs_(b: Build, c: Call) -> Tensor:
    squares = [b.map1("power", p, exponent=2.0) for p in (c["self"].re, c["self"].im)]
    return b.root(b.map2("add", *squares))


@op("angle")
def angle(b: Build, c: Call) -> Tensor:
    made: Tensor = OPS["atan2"](b, Call({"self": c["self"].im, "other": c["self"].re}, node=c.node, walk=c.walk))
    return made


# ---- arithmetic ----

@op("conj", "_conj", "conj_physical", "_conj_physical")
def conj(b: Build, c: Call) -> Pair:
    return Pair(c["self"].re, b.neg(c["self"].im))


@op("exp")
def exp(b: Build, c: Call) -> Pair:
    size = b.map1("exp", c["self"].re)
    return Pair(*(b.map2("mul", size, b.function(f, c["self"].im)) for f in ("cos", "sin")))


@op("log")
def log(b: Build, c: Call) -> Pair:
    return Pair(b.map1("log", abs_(b, c)), angle(b, c))


@op("reciprocal")
def reciprocal(b: Build, c: Call) -> Pair:
    return div(b, Call({"self": Const(np.float32(1)), "other": c["self"]}, node=c.node, walk=c.walk))


@op("pow")
def power(b: Build, c: Call) -> Pair:
    """By whole numbers: multiplied."""
    z, n = c["self"], c["exponent"]
    if not isinstance(z, Pair) or not isinstance(n, (int, float)) or n != int(n) or not 1 <= abs(n) <= 64:
        raise Refused("a power of complex numbers that is no whole number")
    out = z
    for _ in range(int(abs(n)) - 1):
        out = mul(b, Call({"self": out, "other": z}, node=c.node, walk=c.walk))
    return out if n > 0 else reciprocal(b, Call({"self": out}, node=c.node, walk=c.walk))


@op("where")
def where(b: Build, c: Call) -> Pair:
    (x, y), (u, v) = (parts(b, pair(b, *parts(b, c[k]))) for k in ("self", "other"))
    return Pair(*(OPS["where"](b, Call({**c, "self": p, "other": q}, node=c.node, walk=c.walk)) for p, q in ((x, u), (y, v))))


@op("rsub")
def rsub(b: Build, c: Call) -> Pair:
    (a, e), (f, g) = parts(b, c["other"]), parts(b, c["self"])
    return pair(b, plus(b, a, f, "sub"), plus(b, e, g, "sub"))


@op("mul")
def mul(b: Build, c: Call) -> Pair:
    return times(b, lambda u, v: b.map2("mul", u, v), c["self"], c["other"])


@op("matmul", "mm", "bmm")
def matmul(b: Build, c: Call) -> Pair:
    return times(b, b.matmul, c["self"], c.first("other", "mat2"))


@op("einsum")
def einsum(b: Build, c: Call) -> Pair:
    u, v = c["tensors"]
    return times(b, lambda x, y: b.einsum(c["equation"].replace(" ", ""), [b.whole(x), b.whole(y)]), u, v)


@op("add", "sub")
def add(b: Build, c: Call) -> Pair:
    if c.get("alpha") not in (None, 1):
        raise Refused("a sum of complex numbers with alpha")
    how = "add" if ".add" in str(c.node.target) else "sub"
    (a, e), (f, g) = parts(b, c["self"]), parts(b, c["other"])
    return pair(b, plus(b, a, f, how), plus(b, e, g, how))


@op("div")
def div(b: Build, c: Call) -> Pair:
    re, im = parts(b, c["other"])
    if im is None:
        return Pair(*(b.map2("div", p, re) for p in parts(b, c["self"])))
    square = b.map2("add", *(b.map1("power", b.tensor(p), exponent=2.0) for p in (re, im)))
    y = times(b, lambda u, v: b.map2("mul", u, v), c["self"], Pair(b.tensor(re), b.neg(b.tensor(im))))
    return Pair(*(b.map2("div", p, square) for p in (y.re, y.im)))


EACH = ("view", "reshape", "flatten", "unflatten", "_unsafe_view", "squeeze", "unsqueeze", "transpose", "permute", "movedim", "expand",
        "repeat", "slice", "select", "roll", "flip", "neg", "sum", "mean", "clone", "contiguous", "alias", "detach", "index", "pad",
        "constant_pad_nd", "resolve_conj", "cat", "stack", "t", "numpy_T")


def each(b: Build, key: str, c: Call) -> Pair:
    """What moves or adds numbers does so to either part."""
    name = "tensors" if "tensors" in c else "self"
    both = []
    for i in (0, 1):
        given = [pair(b, *parts(b, x)) for x in (c[name] if name == "tensors" else [c[name]])]
        of = [(z.re, z.im)[i] for z in given]
        call = Call({**c, name: of if name == "tensors" else of[0]}, node=c.node, walk=c.walk)
        both.append(call[name] if key == "resolve_conj" else OPS[key](b, call))
    return Pair(*both)


# ---- Fourier transforms ----

def scale(mode: int, n: int) -> float:
    return {0: 1.0, 1: n ** -0.5, 2: 1.0 / n}[mode]


def waves(rows: int, n: int, by: float) -> tuple[np.ndarray, np.ndarray]:
    """Cosines and sines (n, rows)."""
    if n > LONGEST:
        raise Refused(f"a Fourier transform of {n} elements; {LONGEST} is the most")
    at = 2 * np.pi * (np.outer(np.arange(n), np.arange(rows)) % n) / n
    return (np.cos(at) * by).astype("float32"), (np.sin(at) * by).astype("float32")


def along(b: Build, x: Tensor, dim: int, m: np.ndarray) -> Tensor:
    """x times the matrix (n, rows) along one dimension."""
    last = [d for d in range(x.rank) if d != dim] + [dim]
    y = b.linear(b.permute(x, last), Const(m), transposed=False)
    return b.permute(y, [last.index(d) for d in range(x.rank)])


def known(z: Any, dims: Sequence[int]) -> list[int]:
    dims = [d % z.rank for d in dims]
    if any(not isinstance(z.shape[d], int) for d in dims):
        raise Refused("a Fourier transform over the batch")
    return dims


def turned(b: Build, z: Pair, dim: int, mode: int, forward: bool) -> Pair:
    cos, sin = waves(z.shape[dim], z.shape[dim], scale(mode, z.shape[dim]))
    sin = sin if forward else -sin
    re = b.map2("add", along(b, z.re, dim, cos), along(b, z.im, dim, sin))
    return Pair(re, b.map2("sub", along(b, z.im, dim, cos), along(b, z.re, dim, sin)))


@op("_fft_c2c")
def c2c(b: Build, c: Call) -> Pair:
    z = pair(b, *parts(b, c["self"]))
    for d in known(z, c["dim"]):
        z = turned(b, z, d, c["normalization"], c["forward"])
    return z


@op("_fft_r2c")
def r2c(b: Build, c: Call) -> Pair:
    x = b.whole(c["self"])
    *others, last = known(x, c["dim"])
    n = x.shape[last]
    cos, sin = waves(n // 2 + 1 if c["onesided"] else n, n, scale(c["normalization"], n))
    z = Pair(along(b, x, last, cos), along(b, x, last, -sin))
    for d in others:
        z = turned(b, z, d, c["normalization"], True)
    return z


@op("_fft_c2r")
def c2r(b: Build, c: Call) -> Tensor:
    """The upper half of the frequencies is the lower one's mirror: all but the ends count twice."""
    z = pair(b, *parts(b, c["self"]))
    *others, last = known(z, c["dim"])
    for d in others:
        z = turned(b, z, d, c["normalization"], False)
    n, rows = c["last_dim_size"], z.shape[last]
    cos, sin = waves(rows, n, scale(c["normalization"], n))
    twice = np.where((np.arange(rows) == 0) | (2 * np.arange(rows) == n), 1.0, 2.0).astype("float32")[:, None]
    return b.map2("sub", along(b, z.re, last, cos.T * twice), along(b, z.im, last, sin.T * twice))


def put(b: Build, back: Callable, c: Call, base: Any, value: Any) -> Any:
    """A write through a view, of either part."""
    if not isinstance(value, Pair) and not isinstance(base, Pair):
        return back(b, c, base, value)
    (x, y), (u, v) = (parts(b, z) if isinstance(z, Const) else parts(b, pair(b, *parts(b, z))) for z in (base, value))
    return Pair(back(b, c, x, u), back(b, c, y, v))


def take(b: Build, key: str, c: Call) -> Any:
    """An op of PAIRS or EACH."""
    return PAIRS[key](b, c) if key in PAIRS else each(b, key, c)

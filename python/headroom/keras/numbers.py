"""Operations of keras.ops that are made of others: rounding and remainders, products, orders, joins, Fourier transforms."""
from __future__ import annotations

from typing import Any

import numpy as np

from ..build import Build, Const, Tensor
from ..graph import Refused
from ..size import Size, product
from .call import LAYERS, Call, known, layer, operand
from .elements import terms

# ---- of one number ----


def real(b: Build, x: Any) -> Tensor:
    return b.cast(b.tensor(operand(x)), "f32")


def square(b: Build, x: Tensor) -> Tensor:
    return b.map1("power", x, exponent=2.0)


def rest(b: Build, x: Tensor) -> Tensor:
    """The other side of a triangle, sqrt(1 - x^2), never quite 0."""
    return b.map1("sqrt", b.clip(b.affine(square(b, x), -1.0, 1.0), 1e-30, None))


def cut(b: Build, x: Tensor) -> Tensor:
    """Without what is behind the point."""
    return b.map2("mul", b.function("sign", x), b.function("floor", b.map1("abs", x)))


def finite(b: Build, x: Tensor) -> Tensor:
    return b.compare("less_equal", b.map1("abs", x), Const(np.float32(3.4028234e38)))


ONE = {
    "Trunc": cut, "Fabs": lambda b, x: b.map1("abs", x), "Exp2": lambda b, x: b.map1("exp", b.affine(x, float(np.log(2)))),
    "Deg2rad": lambda b, x: b.affine(x, np.pi / 180), "Rad2deg": lambda b, x: b.affine(x, 180 / np.pi), "Isfinite": finite,
    "Isinf": lambda b, x: b.compare("greater", b.map1("abs", x), Const(np.float32(3.4028234e38))),
    "Erfc": lambda b, x: b.affine(b.function("erf", x), -1.0, 1.0), "Copy": lambda b, x: x, "SaturateCast": lambda b, x: x,
    "Arcsin": lambda b, x: b.function("atan", b.map2("div", x, rest(b, x))),
    "Arccos": lambda b, x: b.affine(b.function("atan", b.map2("div", x, rest(b, x))), -1.0, np.pi / 2),
    "Arcsinh": lambda b, x: b.map1("log", b.map2("add", x, b.map1("sqrt", b.affine(square(b, x), 1.0, 1.0)))),
    "Arctanh": lambda b, x: b.affine(b.map2("sub", b.function("log1p", x), b.function("log1p", b.neg(x))), 0.5),
    "Cbrt": lambda b, x: b.map2("mul", b.function("sign", x), b.map1("power", b.map1("abs", x), exponent=1 / 3)),
    "Signbit": lambda b, x: b.compare("less", x, Const(np.float32(0)))}
for _name, _f in ONE.items():
    LAYERS[_name] = lambda b, c, _f=_f: _f(b, real(b, c.x()))


@layer("NanToNum")
def nan_to_num(b: Build, c: Call) -> Tensor:
    x, (low, high) = c.x(), (c.get("neginf", 3), c.get("posinf", 2))
    y = b.where(b.function("is_nan", x), Const(np.float32(c.get("nan", 1, 0.0))), x)
    return b.clip(y, -3.4028234e38 if low is None else float(low), 3.4028234e38 if high is None else float(high))


# ---- of two numbers ----

@layer("Mod", "FloorDivide", "Fmod")
def remainder(b: Build, c: Call) -> Tensor:
    """The quotient is never made of a reciprocal: what divides evenly has no rest."""
    x, y = (real(b, v) for v in terms(c))
    times = b.map2("div", x, y)
    whole = cut(b, times) if type(c.op).__name__ == "Fmod" else b.function("floor", times)
    return whole if type(c.op).__name__ == "FloorDivide" else b.map2("sub", x, b.map2("mul", whole, y))


@layer("Arctan2")
def arctan2(b: Build, c: Call) -> Tensor:
    """2 atan of a half angle: y over the length plus x."""
    y, x = (real(b, v) for v in terms(c))
    length = b.root(b.map2("add", square(b, x), square(b, y)))
    right = b.affine(b.function("atan", b.map2("div", y, b.clip(b.map2("add", length, x), 1e-30, None))), 2.0)
    left = b.map2("sub", Const(np.float32(np.pi)), b.affine(b.function("atan", b.map2("div", b.map1("abs", y), b.clip(
        b.map2("sub", length, x), 1e-30, None))), 2.0))
    left = b.map2("mul", left, b.affine(b.compare("less", y, Const(np.float32(0))), -2.0, 1.0))
    return b.where(b.compare("greater_equal", x, Const(np.float32(0))), right, left)


@layer("Hypot")
def hypot(b: Build, c: Call) -> Tensor:
    x, y = (real(b, v) for v in terms(c))
    return b.root(b.map2("add", square(b, x), square(b, y)))


@layer("Isclose")
def is_close(b: Build, c: Call) -> Tensor:
    x, y = (real(b, v) for v in c.args[:2])
    far = b.affine(b.map1("abs", y), float(c.get("rtol", 2, 1e-5)), float(c.get("atol", 3, 1e-8)))
    return b.compare("less_equal", b.map1("abs", b.map2("sub", x, y)), far)


@layer("DivideNoNan")
def divide_no_nan(b: Build, c: Call) -> Tensor:
    x, y = (real(b, v) for v in terms(c))
    none = b.compare("equal", y, Const(np.float32(0)))
    return b.where(none, Const(np.float32(0)), b.map2("div", x, b.map2("add", y, none)))


@layer("Select")
def select(b: Build, c: Call) -> Tensor:
    """The first that is true, from the last one on."""
    out = operand(c.get("default", 2, 0))
    for condition, choice in reversed(list(zip(c.args[0], c.args[1]))):
        out = b.where(condition, operand(choice), out)
    return b.tensor(out)


# ---- sums and orders ----

@layer("Amax", "Amin", "Ptp")
def extremes(b: Build, c: Call) -> Tensor:
    x, kind = c.x(), type(c.op).__name__
    axes = c.axes(x.rank)
    high = b.reduce("max", x, axes, c.keep) if kind != "Amin" else None
    low = b.neg(b.reduce("max", b.neg(x), axes, c.keep)) if kind != "Amax" else None
    return high if low is None else low if high is None else b.map2("sub", high, low)


@layer("Prod")
def prod(b: Build, c: Call) -> Tensor:
    x, axes = b.cast(c.x(), "f32"), c.axes(c.x().rank)
    for d in axes:
        x = multiplied(b, x, d)
    return x if c.keep else b.squeeze(x, axes)


def multiplied(b: Build, x: Tensor, d: int) -> Tensor:
    """Halves by halves."""
    if isinstance(x.shape[d], Size):
        raise Refused("a product over the batch")
    while x.shape[d] > 1:
        half = x.shape[d] // 2
        odd = b.slice(x, d, 2 * half, 1) if x.shape[d] % 2 else None
        x = b.map2("mul", b.slice(x, d, 0, half), b.slice(x, d, half, half))
        x = x if odd is None else b.concat([x, odd], d)
    return x


@layer("Cumprod")
def cumprod(b: Build, c: Call) -> Tensor:
    if c.op.axis is None:
        raise Refused("cumprod over all dimensions")
    x, d = c.x(), c.op.axis % c.x().rank
    parts = [b.slice(x, d, 0, 1)]
    for i in range(1, x.shape[d]):
        parts.append(b.map2("mul", parts[-1], b.slice(x, d, i, 1)))
    return b.concat(parts, d)


@layer("CountNonzero")
def count_nonzero(b: Build, c: Call) -> Tensor:
    return b.reduce("sum", b.compare("not_equal", c.x(), Const(np.float32(0))), c.axes(c.x().rank), False)


@layer("Argmin")
def argmin(b: Build, c: Call) -> Tensor:
    return b.arg_max(b.neg(b.cast(c.x(), "f32")), c.op.axis, c.keep)


@layer("Median")
def median(b: Build, c: Call) -> Tensor:
    axes = c.axes(c.x().rank)
    if len(axes) != 1 or isinstance(c.x().shape[axes[0]], Size):
        raise Refused("the median over several dimensions, or over the batch")
    d, n = axes[0], c.x().shape[axes[0]]
    values, _ = b.top_k(c.x(), n, d, largest=False)
    y = b.affine(b.map2("add", b.slice(values, d, (n - 1) // 2, 1), b.slice(values, d, n // 2, 1)), 0.5)
    return y if c.keep else b.squeeze(y, [d])


@layer("Diff")
def diff(b: Build, c: Call) -> Tensor:
    x, d = c.x(), c.op.axis % c.x().rank
    for _ in range(c.op.n):
        n = x.shape[d] - 1
        x = b.map2("sub", b.slice(x, d, 1, n), b.slice(x, d, 0, n))
    return x


@layer("Diagonal", "Trace")
def diagonal(b: Build, c: Call) -> Tensor:
    """The last two dimensions as one, and every place of the diagonal in it."""
    x, i, k = c.x(), c.op.axis1 % c.x().rank, c.op.axis2 % c.x().rank
    rows, columns = x.shape[i], x.shape[k]
    if isinstance(rows, Size) or isinstance(columns, Size):
        raise Refused("a diagonal of the batch")
    x = b.permute(x, [d for d in range(x.rank) if d not in (i, k)] + [i, k])
    at = [r * columns + r + c.op.offset for r in range(rows) if 0 <= r + c.op.offset < columns]
    y = b.take(b.reshape(b.plain(x), x.shape[:-2] + (rows * columns,)), -1, Const(np.array(at)))
    return b.reduce("sum", y, [y.rank - 1], False) if type(c.op).__name__ == "Trace" else y


# ---- joins, products, numbers that are known ----

@layer("Hstack", "Vstack", "Append")
def joined(b: Build, c: Call) -> Tensor:
    kind = type(c.op).__name__
    xs = [operand(x) for x in (c.args[:2] if kind == "Append" else c.args[0])]
    axis = c.op.axis if kind == "Append" else 0 if kind == "Vstack" or xs[0].rank == 1 else 1
    if axis is None:
        raise Refused("append without an axis")
    return b.concat(xs, axis)


@layer("Rot90")
def rot90(b: Build, c: Call) -> Tensor:
    x, (i, k) = c.x(), (a % c.x().rank for a in c.op.axes)
    turned = [k if d == i else i if d == k else d for d in range(x.rank)]
    for _ in range(c.op.k % 4):
        x = b.flip(b.permute(x, turned), i)
    return x


@layer("FullLike", "EmptyLike")
def full_like(b: Build, c: Call) -> Tensor:
    value = known(c.get("fill_value", 1, 0.0), "what full_like is filled with")
    return Tensor(b.form.fill("f32", c.x().shape, float(value)))


@layer("Full", "Filled")
def full(b: Build, c: Call) -> Tensor:
    value = c.op.value if hasattr(c.op, "value") else known(c.x(), "what full is filled with")
    return Tensor(b.form.fill("f32", tuple(Size(1) if d is None else d for d in c.op.shape), float(value)))


@layer("Counted")
def counted(b: Build, c: Call) -> Tensor:
    return b.tensor(b.count(Size(1)))


@layer("Tensordot", "Inner", "Outer", "Vdot")
def tensordot(b: Build, c: Call) -> Tensor:
    x, y = (real(b, v) for v in terms(c))
    axes: Any = {"Inner": [[-1], [-1]], "Outer": 0}.get(type(c.op).__name__, getattr(c.op, "axes", 1))
    if type(c.op).__name__ == "Outer":
        x, y = (b.reshape(v, (product(v.shape),)) for v in (x, y))
    if isinstance(axes, int):
        axes = [list(range(x.rank - axes, x.rank)), list(range(axes))]
    one, two = ([a % v.rank for a in ([given] if isinstance(given, int) else given)] for given, v in zip(axes, (x, y)))
    letters = "abcdefghijklmnopqrstuvw"
    left, right = list(letters[:x.rank]), list(letters[x.rank:x.rank + y.rank])
    for i, k in zip(one, two):
        right[k] = left[i]
    out = [d for i, d in enumerate(left) if i not in one] + [d for k, d in enumerate(right) if k not in two]
    return b.einsum(f"{''.join(left)},{''.join(right)}->{''.join(out)}", [x, y])


# ---- places ----

@layer("Slice")
def slice_(b: Build, c: Call) -> Tensor:
    x, starts = c.args[0], known(c.args[1], "where a slice begins").reshape(-1)
    for d, (begin, size) in enumerate(zip(starts.tolist(), c.op.shape)):
        whole = x.shape[d]
        if size is None or size == -1 or isinstance(whole, Size):
            if begin:
                raise Refused("a slice of the batch")
            continue
        x = b.slice(x, d, begin, size)
    return x


@layer("SliceUpdate")
def slice_update(b: Build, c: Call) -> Tensor:
    """What is replaced is a box with the rest around it."""
    x, starts, y = c.args[0], known(c.args[1], "where a slice begins").reshape(-1).tolist(), b.whole(operand(c.args[2]))
    inside: Any = None
    for d, begin in enumerate(starts):
        n, size = x.shape[d], y.shape[d]
        if n == size:
            continue
        mask = np.zeros([n if i == d else 1 for i in range(x.rank)], "float32")
        mask[tuple(slice(begin, begin + size) if i == d else 0 for i in range(x.rank))] = 1
        inside = Const(mask) if inside is None else Const(inside.array * mask)
        y = b.pad(y, {d: (begin, n - begin - size)})
    return y if inside is None else b.where(inside, y, x)


@layer("SegmentSum", "SegmentMax")
def segments(b: Build, c: Call) -> Tensor:
    """Sums over known segments are a product with the matrix of who belongs where."""
    data, ids, count = c.args[0], c.args[1], c.op.num_segments
    if isinstance(ids, Tensor) or type(c.op).__name__ == "SegmentMax" or isinstance(data.shape[0], Size):
        raise Refused(f"{type(c.op).__name__} by numbers that depend on data, of samples of the batch, or of the largest")
    ids = known(ids, "segments").reshape(-1)
    count = int(count if count is not None else ids.max() + 1)
    return b.along(data, 0, (np.arange(count)[:, None] == ids[None]).astype("float32"))


@layer("DepthToSpace", "SpaceToDepth")
def blocks(b: Build, c: Call) -> Tensor:
    x, k = c.x(), c.op.block_size
    last = c.op.data_format == "channels_last"
    n, h, w, ch = x.shape if last else [x.shape[d] for d in (0, 2, 3, 1)]
    x = x if last else b.permute(x, (0, 2, 3, 1))
    if type(c.op).__name__ == "DepthToSpace":
        shape = (n, h, w, k, k, ch // (k * k)) if last else (n, h, w, ch // (k * k), k, k)
        y = b.permute(b.reshape(x, shape), (0, 1, 3, 2, 4, 5) if last else (0, 1, 4, 2, 5, 3))
        y = b.reshape(y, (n, h * k, w * k, ch // (k * k)))
    else:
        y = b.permute(b.reshape(x, (n, h // k, k, w // k, k, ch)), (0, 1, 3, 2, 4, 5) if last else (0, 1, 3, 5, 2, 4))
        y = b.reshape(y, (n, h // k, w // k, k * k * ch))
    return y if last else b.permute(y, (0, 3, 1, 2))


@layer("MultiHot")
def multi_hot(b: Build, c: Call) -> Tensor:
    y = b.reduce("max", b.one_hot(c.x(), c.op.num_classes), [c.x().rank - 1 if c.x().rank > 1 else 0], False)
    if c.op.axis not in (-1, y.rank - 1):
        raise Refused("multi_hot along another axis than the last")
    return y


# ---- Fourier transforms, as products with the matrix of their waves ----

def waves(size: int, count: int) -> tuple[np.ndarray, np.ndarray]:
    if size > 4096:
        raise Refused(f"a Fourier transform of {size} numbers; up to 4096 are products with the matrix of their waves")
    angles = -2 * np.pi * np.outer(np.arange(count), np.arange(size)) / size
    return np.cos(angles), np.sin(angles)


@layer("FFT", "FFT2")
def fft(b: Build, c: Call) -> list:
    re, im = c.args[0]
    for d in (re.rank - 1,) if type(c.op).__name__ == "FFT" else (re.rank - 1, re.rank - 2):
        if isinstance(re.shape[d], Size):
            raise Refused("a Fourier transform of the batch")
        cos, sin = waves(re.shape[d], re.shape[d])
        (rc, rs), (ic, is_) = ([b.along(v, d, m) for m in (cos, sin)] for v in (re, im))
        re, im = b.map2("sub", rc, is_), b.map2("add", rs, ic)
    return [re, im]


def fitted(b: Build, x: Tensor, size: int) -> Tensor:
    have = x.shape[-1]
    return b.slice(x, x.rank - 1, 0, size) if have > size else b.pad(x, {x.rank - 1: (0, size - have)})


@layer("RFFT")
def rfft(b: Build, c: Call) -> list:
    x, size = c.x(), c.op.fft_length or c.x().shape[-1]
    return [b.along(fitted(b, x, size), x.rank - 1, m) for m in waves(size, size // 2 + 1)]


@layer("STFT")
def stft(b: Build, c: Call) -> list:
    """Frames of a row, each times the window, which stands in the middle of what is transformed."""
    op, x = c.op, b.cast(c.x(), "f32")
    size, length = op.fft_length, op.sequence_length
    if op.center:
        x = b.reflect(x, x.rank - 1, size // 2, size // 2)
    if not (op.window is None or isinstance(op.window, str) and op.window in ("hann", "hamming")):
        raise Refused(f"stft with the window {op.window}")
    turn = 2 * np.pi * np.arange(length) / length
    window = np.ones(length) if op.window is None else 0.5 - 0.5 * np.cos(turn) if op.window == "hann" else 0.54 - 0.46 * np.cos(turn)
    before = (size - length) // 2
    window = np.pad(window, (before, size - length - before))
    frames = b.unfold(x, x.rank - 1, size, op.sequence_stride)
    return [b.along(frames, frames.rank - 1, m * window[None]) for m in waves(size, size // 2 + 1)]


@layer("Sinc")
def sinc(b: Build, c: Call) -> Tensor:
    x = b.affine(real(b, c.x()), np.pi)
    none = b.compare("equal", x, Const(np.float32(0)))
    return b.where(none, Const(np.float32(1)), b.map2("div", b.function("sin", x), b.map2("add", x, none)))


@layer("Linspace", "Arange")
def spread(b: Build, c: Call) -> Tensor:
    raise Refused(f"{type(c.op).__name__.lower()} between numbers that depend on data")


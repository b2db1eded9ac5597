"""Functions, arithmetic, comparisons and sums of ONNX."""
from __future__ import annotations

from typing import Any, Sequence

import numpy as np

from ..build import Build, Const, Tensor
from ..graph import Refused
from ..size import Size, product
from .reader import OPS, Node, kind_of, op

for _theirs, _ours in {"Relu": "relu", "Sigmoid": "sigmoid", "Tanh": "tanh", "Exp": "exp", "Log": "log", "Sqrt": "sqrt",
                       "Abs": "abs"}.items():
    OPS[_theirs] = lambda b, n, _ours=_ours: b.map1(_ours, b.tensor(n.get(0)))
for _theirs, _f in {"Erf": "erf", "Sin": "sin", "Cos": "cos", "HardSwish": "hard_swish", "Mish": "mish",
                    "Softplus": "softplus", "Softsign": "softsign", "IsNaN": "is_nan", "Not": "not", "Floor": "floor",
                    "Ceil": "ceil", "Round": "round", "Sign": "sign", "Tan": "tan", "Atan": "atan", "Sinh": "sinh", "Cosh": "cosh",
                    "Selu": "selu"}.items():
    OPS[_theirs] = lambda b, n, _f=_f: b.function(_f, n.get(0))
for _theirs, _f, _alpha in (("LeakyRelu", "leaky_relu", 0.01), ("Elu", "elu", 1.0), ("Celu", "celu", 1.0)):
    OPS[_theirs] = lambda b, n, _f=_f, _alpha=_alpha: b.function(_f, n.get(0), n.attr("alpha", _alpha))
for _theirs, _ours in {"Add": "add", "Sub": "sub", "Mul": "mul"}.items():
    OPS[_theirs] = lambda b, n, _ours=_ours: b.map2(_ours, counted(b, n.get(0)), counted(b, n.get(1)))
for _theirs, _how in {"Equal": "equal", "Less": "less", "Greater": "greater", "LessOrEqual": "less_equal",
                      "GreaterOrEqual": "greater_equal", "And": "both", "Or": "either", "Xor": "one"}.items():
    OPS[_theirs] = lambda b, n, _how=_how: b.compare(_how, *[truth(x) for x in n.inputs])


def counted(b: Build, x: Any) -> Any:
    """The size of the batch as a number."""
    if isinstance(x, Const) and x.array.dtype == object and x.array.size == 1:
        return b.count(x.array.reshape(-1)[0])
    return x


def is_infinite(b: Build, x: Tensor) -> Tensor:
    return b.compare("greater", b.map1("abs", x), Const(np.float32(3.4028234e38)))


OPS["IsInf"] = lambda b, n: is_infinite(b, n.get(0))


def dropped(b: Build, x: Tensor) -> Tensor:
    """Without what is behind the point."""
    return b.cast(b.cast(x, "f32"), "i32")


@op("Div")
def divide(b: Build, n: Node) -> Tensor:
    """Of whole numbers towards zero, and without rounding a reciprocal first."""
    x, y = (counted(b, n.get(i)) for i in (0, 1))
    if n.kind(0) != "i":
        return b.map2("div", x, y)
    return dropped(b, b.map2("div", b.tensor(x, "f32") if isinstance(x, Const) else x, b.tensor(y, "f32") if isinstance(y, Const) else y))


def truth(x: Any) -> Any:
    """A constant of true and false as numbers."""
    return Const(x.array.astype("float32"), x.shape) if isinstance(x, Const) and x.array.dtype != object else x


@op("Reciprocal")
def reciprocal(b: Build, n: Node) -> Tensor:
    return b.map1("power", n.get(0), exponent=-1.0)


@op("Neg")
def neg(b: Build, n: Node) -> Tensor:
    return b.neg(n.get(0))


@op("Mod")
def mod(b: Build, n: Node) -> Tensor:
    """What is left of a division rounded down, or with fmod towards zero."""
    x, y = (b.cast(b.tensor(n.get(i)), "f32") for i in (0, 1))
    times = b.map2("div", x, y)
    if n.attr("fmod", 0):
        whole = b.map2("mul", b.function("sign", times), b.function("floor", b.map1("abs", times)))
    else:
        whole = b.function("floor", times)
    return b.map2("sub", x, b.map2("mul", whole, y))


@op("Pow")
def power(b: Build, n: Node) -> Tensor:
    """By a number; else exp(y log x), which is what it is where x is above 0."""
    x, y = n.get(0), n.get(1)
    if isinstance(y, Const) and y.array.size and (y.array == y.array.flat[0]).all() and y.rank <= x.rank:
        return b.map1("power", b.cast(b.whole(x), "f32"), exponent=float(y.array.flat[0]))
    if isinstance(x, Const) and (x.array <= 0).any():
        raise Refused("Pow of a number that is not above 0 by an exponent that depends on data")
    logs = Const(np.log(x.array).astype("float32")) if isinstance(x, Const) else b.map1("log", b.cast(x, "f32"))
    return b.map1("exp", b.map2("mul", logs, y))


@op("Gelu")
def gelu(b: Build, n: Node) -> Tensor:
    return b.map1("gelu", n.get(0), approximate="tanh" if n.attr("approximate") == "tanh" else None)


@op("HardSigmoid")
def hard_sigmoid(b: Build, n: Node) -> Tensor:
    return b.clip(b.affine(n.get(0), n.attr("alpha", 0.2), n.attr("beta", 0.5)), 0.0, 1.0)


@op("PRelu")
def prelu(b: Build, n: Node) -> Tensor:
    return b.prelu(n.get(0), n.get(1))


@op("Clip")
def clip(b: Build, n: Node) -> Tensor:
    return b.clip(b.cast(b.whole(n.get(0)), "f32"), n.number(1, "min", None), n.number(2, "max", None))


for _theirs, _g in {"Asin": lambda b, x: b.function("atan", b.map2("div", x, _rest(b, x))),
                    "Acos": lambda b, x: b.affine(b.function("atan", b.map2("div", x, _rest(b, x))), -1.0, np.pi / 2),
                    "Asinh": lambda b, x: b.map1("log", b.map2("add", x, b.map1("sqrt", b.affine(_square(b, x), 1.0, 1.0)))),
                    "Acosh": lambda b, x: b.map1("log", b.map2("add", x, b.map1("sqrt", b.affine(_square(b, x), 1.0, -1.0)))),
                    "Atanh": lambda b, x: b.affine(b.map2("sub", b.function("log1p", x), b.function("log1p", b.neg(x))), 0.5),
                    "Swish": lambda b, x: b.map1("silu", x)}.items():
    OPS[_theirs] = lambda b, n, _g=_g: _g(b, n.get(0))


def _square(b: Build, x: Tensor) -> Tensor:
    return b.map1("power", x, exponent=2.0)


def _rest(b: Build, x: Tensor) -> Tensor:
    """The other side of a triangle, sqrt(1 - x^2), never quite 0."""
    return b.map1("sqrt", b.clip(b.affine(_square(b, x), -1.0, 1.0), 1e-30, None))


@op("Max", "Min")
def extreme(b: Build, n: Node) -> Tensor:
    out = n.get(0)
    for x in n.inputs[1:]:
        out = b.maximum(out, x) if n.op == "Max" else b.minimum(out, x)
    return out


@op("Where")
def where(b: Build, n: Node) -> Tensor:
    return b.where(*[Const(x.array.astype("float32"), x.shape) if isinstance(x, Const) else x for x in n.inputs])


@op("Identity")
def same(b: Build, n: Node) -> Any:
    return n.get(0)


@op("CastLike")
def cast_like(b: Build, n: Node) -> Any:
    if n.kind(0) == n.kind(1):
        return n.get(0)
    if n.kind(1) == "f":
        return b.cast(b.tensor(n.get(0)), "f32")
    raise Refused("CastLike from real to whole numbers")


@op("Cast")
def cast(b: Build, n: Node) -> Any:
    """A truth is what is not 0, and a whole number has nothing behind the point."""
    x, to, have = b.tensor(n.get(0)), kind_of(n.attr("to")), n.kind(0)
    if to == "b" and have != "b":
        return b.compare("not_equal", x, Const(np.float32(0)))
    if to == "i" and have == "f":
        return dropped(b, x)
    return b.cast(x, "f32") if to == "f" else x


@op("Dropout")
def dropout(b: Build, n: Node) -> Any:
    p = float(n.number(1, "ratio", 0.5))
    x = n.get(0)
    return [b.dropout(x, p) if n.reader.training else x, None]


@op("Sum", "Mean")
def of_several(b: Build, n: Node) -> Tensor:
    out = n.get(0)
    for x in n.inputs[1:]:
        out = b.map2("add", out, x)
    return out if n.op == "Sum" or len(n.inputs) == 1 else b.affine(out, 1.0 / len(n.inputs))


@op("ThresholdedRelu")
def thresholded(b: Build, n: Node) -> Tensor:
    x = n.get(0)
    return b.map2("mul", x, b.compare("greater", x, Const(np.float32(n.attr("alpha", 1.0)))))


@op("Shrink")
def shrink(b: Build, n: Node) -> Tensor:
    bias, edge = n.attr("bias", 0.0), n.attr("lambd", 0.5)
    if bias not in (0.0, edge):
        raise Refused("Shrink with a bias of its own")
    return b.function("soft_shrink" if bias else "hard_shrink", n.get(0), edge)


# ---- sums ----

REDUCED = ("Mean", "Sum", "Max", "Min", "L1", "L2", "SumSquare", "LogSumExp", "LogSum", "Prod")


@op(*[f"Reduce{k}" for k in REDUCED])
def reduce(b: Build, n: Node) -> Tensor:
    axes, keep, x = n.numbers(1, "axes"), bool(n.attr("keepdims", 1)), b.cast(b.whole(n.get(0)), "f32")
    if not axes and n.attr("noop_with_empty_axes", 0):
        return x
    dims = [int(a) % x.rank for a in axes] if axes else list(range(x.rank))
    kind = n.op[6:]
    if kind in ("Mean", "Sum", "Max"):
        return b.reduce(kind.lower(), x, dims, keep)
    if kind == "Min":
        return b.neg(b.reduce("max", b.neg(x), dims, keep))
    if kind == "L1":
        return b.reduce("sum", b.map1("abs", x), dims, keep)
    if kind in ("L2", "SumSquare"):
        y = b.reduce("sum", b.map1("power", x, exponent=2.0), dims, keep)
        return b.map1("sqrt", y) if kind == "L2" else y
    if kind == "Prod":
        return multiplied(b, x, dims, keep)
    if kind == "LogSum":
        return b.map1("log", b.reduce("sum", x, dims, keep))
    top = b.map1("stop_gradient", b.reduce("max", x, dims, True))
    total = b.map1("log", b.reduce("sum", b.map1("exp", b.map2("sub", x, top)), dims, keep))
    return b.map2("add", total, top if keep else b.squeeze(top, dims))


def multiplied(b: Build, x: Tensor, dims: Sequence[int], keep: bool) -> Tensor:
    """Halves by halves."""
    for d in dims:
        if isinstance(x.shape[d], Size):
            raise Refused("a product over the batch")
        while x.shape[d] > 1:
            half = x.shape[d] // 2
            rest = b.slice(x, d, 2 * half, x.shape[d] - 2 * half) if x.shape[d] % 2 else None
            x = b.map2("mul", b.slice(x, d, 0, half), b.slice(x, d, half, half))
            x = x if rest is None else b.concat([x, rest], d)
    return x if keep else b.squeeze(x, dims)


@op("ArgMax", "ArgMin")
def argmax(b: Build, n: Node) -> Tensor:
    if n.attr("select_last_index", 0):
        raise Refused(f"{n.op} that takes the last of equal ones")
    x = b.cast(b.tensor(n.get(0)), "f32")
    return b.arg_max(x if n.op == "ArgMax" else b.neg(x), n.attr("axis", 0), bool(n.attr("keepdims", 1)))


@op("Softmax", "LogSoftmax")
def softmax(b: Build, n: Node) -> Tensor:
    """Before opset 13 over all dimensions from the axis on, 1 by default."""
    x, op_ = n.get(0), "softmax" if n.op == "Softmax" else "log_softmax"
    axis = n.attr("axis", -1 if n.opset >= 13 else 1) % x.rank
    if n.opset >= 13 or axis == x.rank - 1:
        return b.softmax(x, axis, op_)
    flat = b.reshape(x, x.shape[:axis] + (product(x.shape[axis:]),))
    return b.reshape(b.softmax(flat, -1, op_), x.shape)


@op("LpNormalization")
def lp_normalization(b: Build, n: Node) -> Tensor:
    if n.attr("p", 2) != 2:
        raise Refused("LpNormalization with another p than 2")
    x = n.get(0)
    squares = b.reduce("sum", b.map1("power", x, exponent=2.0), [n.attr("axis", -1)], True)
    return b.map2("div", x, b.map1("sqrt", squares))


@op("CumSum")
def cumsum(b: Build, n: Node) -> Tensor:
    return b.cum_sum(n.get(0), int(n.number(1, "axis", 0)), bool(n.attr("reverse", 0)), bool(n.attr("exclusive", 0)))

"""Activations, arithmetic, comparisons and sums."""
from __future__ import annotations

from typing import Any, Callable, Sequence

import numpy as np

from ..build import MASKED, Build, Const, Tensor
from ..graph import Refused
from ..size import Size, product
from .call import LAYERS, Call, layer, operand

# ---- functions of one number ----

OPS = {"relu": "relu", "sigmoid": "sigmoid", "tanh": "tanh", "exponential": "exp", "silu": "silu", "swish": "silu", "gelu": "gelu"}
FUNCTIONS = {"softplus": None, "hard_sigmoid": None, "hard_silu": "hard_swish", "hard_swish": None, "selu": None,
             "softsign": None, "mish": None, "log_sigmoid": None, "tanh_shrink": None}
ALPHA = {"elu": 1.0, "celu": 1.0, "leaky_relu": 0.2, "hard_shrink": 0.5, "soft_shrink": 0.5}


OTHERS = ("linear", "softmax", "log_softmax", "relu6", "hard_tanh", "glu", "squareplus", "sparse_sigmoid", "sparse_plus")


def is_own(f: Any) -> bool:
    """A function that is not an activation of Keras's: a layer's own is called behind the layer when it is traced.  So is an operation:
    keras.ops.gelu is another function than keras.activations.gelu."""
    known = getattr(f, "__name__", "") in {*OPS, *FUNCTIONS, *ALPHA, *OTHERS}
    return callable(f) and not hasattr(f, "call") and not (known and str(getattr(f, "__module__", "")).startswith("keras.src.activations"))


def activated(b: Build, y: Tensor, f: Any) -> Tensor:
    """What a layer ends with."""
    return y if is_own(f) else activate(b, y, f)


def activate(b: Build, x: Tensor, f: Any) -> Tensor:
    name = f if isinstance(f, str) else getattr(f, "__name__", None) or getattr(f, "name", None) or type(f).__name__
    if f is None or name == "linear":
        return x
    if name in OPS:
        return b.map1(OPS[name], x)
    if name in FUNCTIONS:
        return b.function(FUNCTIONS[name] or name, x)
    if name in ALPHA:
        return b.function(name, x, ALPHA[name])
    if name in ("softmax", "log_softmax"):
        return b.softmax(x, -1, name)
    if name == "relu6":
        return b.clip(x, 0.0, 6.0)
    if name == "hard_tanh":
        return b.clip(x, -1.0, 1.0)
    if name == "glu":
        first, gate = b.split(x, 2, -1)
        return b.map2("mul", first, b.map1("sigmoid", gate))
    if name == "squareplus":
        root = b.map1("sqrt", b.affine(b.map1("power", x, exponent=2.0), 1.0, 4.0))
        return b.affine(b.map2("add", x, root), 0.5)
    if name == "sparse_sigmoid":
        return b.clip(b.affine(x, 0.5, 0.5), 0.0, 1.0)
    if name == "sparse_plus":
        middle = b.affine(b.map1("power", b.affine(b.clip(x, -1.0, 1.0), 1.0, 1.0), exponent=2.0), 0.25)
        return b.map2("add", middle, b.map1("relu", b.affine(x, 1.0, -1.0)))
    raise Refused(f"the activation {name}")


@layer("Activation")
def activation(b: Build, c: Call) -> Tensor:
    return activated(b, c.x(), c.op.activation)


@layer("ReLU")
def relu(b: Build, c: Call) -> Tensor:
    """The layer, and the operation of the same name: f(x) = x from the threshold on, slope (x - threshold) below."""
    slope, low, high = float(c.op.negative_slope or 0), float(c.op.threshold or 0), c.op.max_value
    x = c.x()
    if not slope and not low:
        return b.map1("relu", x) if high is None else b.clip(x, 0.0, float(high))
    above = b.compare("greater_equal" if low else "greater", x, Const(np.float32(low)))
    y = b.map2("mul", x, above)
    y = b.clip(y, None, float(high)) if high is not None else y
    below = b.map2("mul", b.affine(x, slope, -slope * low), b.affine(above, -1.0, 1.0))
    return b.map2("add", y, below) if slope else y


@layer("LeakyReLU", "LeakyRelu")
def leaky(b: Build, c: Call) -> Tensor:
    return b.leaky_relu(c.x(), float(c.op.negative_slope))


@layer("PReLU")
def prelu(b: Build, c: Call) -> Tensor:
    return b.prelu(c.x(), c.weight(c.op.alpha))


@layer("ELU", "Elu", "Celu")
def elu(b: Build, c: Call) -> Tensor:
    return b.function("celu" if type(c.op).__name__ == "Celu" else "elu", c.x(), float(c.op.alpha))


@layer("Softmax", "LogSoftmax")
def softmax(b: Build, c: Call) -> Tensor:
    """The layer, whose mask hides (a row of which all is hidden becomes 0), and the operations."""
    x, mask = b.cast(c.x(), "f32"), c.get("mask", 1) if type(c.op).__module__.startswith("keras.src.layers") else None
    axis = getattr(c.op, "axis", -1)
    mask = c.shown(b, mask, 0.5) if mask is not None else None
    if mask is not None:
        x = b.where(mask, x, Const(np.float32(MASKED)))
    y = over_axes(b, x, axis, "log_softmax" if "Log" in type(c.op).__name__ else "softmax")
    return y if mask is None else b.map2("mul", y, mask)


def over_axes(b: Build, x: Tensor, axis: Any, kind: str) -> Tensor:
    """Several axes are one, the last."""
    axes = [a % x.rank for a in ([axis] if isinstance(axis, int) else range(x.rank) if axis is None else axis)]
    if len(axes) == 1:
        return b.softmax(x, axes[0], kind)
    if any(isinstance(x.shape[a], Size) for a in axes):
        raise Refused(f"softmax over the axes {axis}, of which one is the batch")
    dims = [d for d in range(x.rank) if d not in axes] + axes
    x = b.plain(b.permute(x, dims))
    y = b.softmax(b.reshape(x, x.shape[:-len(axes)] + (product(x.shape[-len(axes):]),)), -1, kind)
    return b.permute(b.reshape(y, x.shape), [dims.index(d) for d in range(x.rank)])


@layer("HardShrink", "SoftShrink")
def shrink(b: Build, c: Call) -> Tensor:
    return b.function("hard_shrink" if type(c.op).__name__[0] == "H" else "soft_shrink", c.x(), float(c.op.threshold))


@layer("Threshold")
def threshold(b: Build, c: Call) -> Tensor:
    return b.where(b.compare("greater", c.x(), operand(c.op.threshold)), c.x(), operand(c.op.default_value))


def _one(name: str, f: Callable) -> None:
    LAYERS[name] = lambda b, c: f(b, b.cast(c.x(), "f32"))


for _name, _ours in {"Relu": "relu", "Sigmoid": "sigmoid", "Tanh": "tanh", "Exp": "exp", "Log": "log", "Sqrt": "sqrt",
                     "Rsqrt": "rsqrt", "Absolute": "abs", "Abs": "abs", "Silu": "silu"}.items():
    _one(_name, lambda b, x, _ours=_ours: b.map1(_ours, x))
for _name, _ours in {"Sin": "sin", "Cos": "cos", "Tan": "tan", "Arctan": "atan", "Sinh": "sinh", "Cosh": "cosh", "Log1p": "log1p",
                     "Expm1": "expm1", "Erf": "erf", "Sign": "sign", "Floor": "floor", "Ceil": "ceil", "Isnan": "is_nan",
                     "LogicalNot": "not", "TanhShrink": "tanh_shrink", "LogSigmoid": "log_sigmoid", "Softsign": "softsign",
                     "Selu": "selu", "Mish": "mish", "HardSigmoid": "hard_sigmoid", "HardSilu": "hard_swish",
                     "Softplus": "softplus"}.items():
    _one(_name, lambda b, x, _ours=_ours: b.function(_ours, x))
for _name, _act in {"Relu6": "relu6", "HardTanh": "hard_tanh"}.items():
    _one(_name, lambda b, x, _act=_act: activate(b, x, _act))
_one("Square", lambda b, x: b.map1("power", x, exponent=2.0))
_one("Negative", lambda b, x: b.neg(x))
_one("Reciprocal", lambda b, x: b.map1("power", x, exponent=-1.0))
_one("Log2", lambda b, x: b.affine(b.map1("log", x), 1 / np.log(2.0)))
_one("Log10", lambda b, x: b.affine(b.map1("log", x), 1 / np.log(10.0)))


@layer("Gelu")
def gelu(b: Build, c: Call) -> Tensor:
    return b.map1("gelu", c.x(), approximate="tanh") if c.get("approximate", 1, True) else b.map1("gelu", c.x())


@layer("Glu")
def glu(b: Build, c: Call) -> Tensor:
    first, gate = b.split(c.x(), 2, c.op.axis)
    return b.map2("mul", first, b.map1("sigmoid", gate))


@layer("Round")
def rounded(b: Build, c: Call) -> Tensor:
    if getattr(c.op, "decimals", 0):
        raise Refused("round to decimals")
    return b.function("round", c.x())


@layer("Clip")
def clip(b: Build, c: Call) -> Tensor:
    return b.clip(c.x(), float(c.op.x_min), float(c.op.x_max))


# ---- arithmetic ----

def terms(c: Call) -> list:
    """The layer takes a list, the operation two arguments."""
    xs = c.args[0] if c.args and isinstance(c.args[0], (list, tuple)) else list(c.args) + list(c.kwargs.values())
    return [operand(x) for x in xs]


def fold(b: Build, op: str, xs: Sequence[Any]) -> Any:
    out = xs[0]
    for x in xs[1:]:
        if isinstance(out, Const) and isinstance(x, Const):
            f = {"add": np.add, "sub": np.subtract, "mul": np.multiply, "div": np.divide}[op]
            out = Const(f(out.array, x.array))
        else:
            out = b.map2(op, out, x)
    return out


for _name, _ours in {"Add": "add", "Subtract": "sub", "Multiply": "mul", "Divide": "div", "TrueDivide": "div"}.items():
    LAYERS[_name] = lambda b, c, _ours=_ours: fold(b, _ours, terms(c))


@layer("Maximum", "Minimum")
def extreme(b: Build, c: Call) -> Tensor:
    xs = terms(c)
    out = xs[0]
    for x in xs[1:]:
        out = b.maximum(out, x) if type(c.op).__name__ == "Maximum" else b.minimum(out, x)
    return out


@layer("Average")
def average(b: Build, c: Call) -> Tensor:
    """The layer; the operation of this name is a weighted mean."""
    if not isinstance(c.x(), (list, tuple)):
        if c.kwargs.get("weights") is not None or len(c.args) > 1:
            raise Refused("ops.average with weights")
        return b.reduce("mean", c.x(), c.axes(c.x().rank), False)
    return b.affine(fold(b, "add", terms(c)), 1.0 / len(c.args[0]))


@layer("Power")
def power(b: Build, c: Call) -> Any:
    """x ** 3; 2 ** x with a base above 0, one or many, is exp(x log 2)."""
    x, y = terms(c)
    if isinstance(y, Const) and isinstance(x, Const):
        return Const(np.power(x.array, y.array))
    if isinstance(y, Const) and y.array.size and (y.array == y.array.flat[0]).all():
        raised = b.map1("power", b.cast(x, "f32"), exponent=float(y.array.flat[0]))
        return raised if y.rank <= x.rank and y.array.size == 1 else b.map2("mul", raised, Const(np.ones(y.shape, "float32")))
    if isinstance(x, Const) and (x.array > 0).all():
        return b.map1("exp", b.map2("mul", b.cast(y, "f32"), Const(np.log(x.array.astype("float64")).astype("float32"))))
    raise Refused("a power of numbers that are not known to be above 0, by an exponent that differs; for a positive base write "
                  "ops.exp(exponent * ops.log(base))")


for _name, _how in {"Equal": "equal", "NotEqual": "not_equal", "Less": "less", "LessEqual": "less_equal",
                    "Greater": "greater", "GreaterEqual": "greater_equal", "LogicalAnd": "both", "LogicalOr": "either",
                    "LogicalXor": "one"}.items():
    LAYERS[_name] = lambda b, c, _how=_how: b.compare(_how, *terms(c))


@layer("Where")
def where(b: Build, c: Call) -> Tensor:
    return b.where(*[operand(x) for x in [*c.args, *c.kwargs.values()]])


@layer("Cast", "ConvertToTensor", "Identity", "Read", "ActivityRegularization")
def cast(b: Build, c: Call) -> Any:
    """Types follow --precision; whole numbers become real where a layer asks for that, and real ones are cut or become truths."""
    x = operand(c.x())
    dtype = str(c.get("dtype", 1, "") or "")
    if not isinstance(x, Tensor):
        return x
    if x.type != "f32" and "float" in dtype:
        return b.cast(x, "f32")
    if c.real and "int" in dtype and x.type == "f32":
        return b.cast(x, "i32")
    return b.compare("not_equal", x, Const(np.float32(0))) if "bool" in dtype and c.truth is False else x


@layer("StopGradient")
def stop_gradient(b: Build, c: Call) -> Tensor:
    return b.map1("stop_gradient", c.x())


@layer("Rescaling")
def rescaling(b: Build, c: Call) -> Tensor:
    scale, offset = np.asarray(c.op.scale, "float32"), np.asarray(c.op.offset, "float32")
    if scale.size == 1 and offset.size == 1:
        return b.affine(c.x(), float(scale.item()), float(offset.item()))
    return b.map2("add", b.map2("mul", c.x(), Const(scale)), Const(offset))


@layer("Normalization")
def normalization(b: Build, c: Call) -> Tensor:
    import keras

    mean, variance = (np.asarray(keras.ops.convert_to_numpy(x), "float32") for x in (c.op.mean, c.op.variance))
    deviation = np.maximum(np.sqrt(variance), np.float32(1e-7)).astype("float32")
    x = b.cast(c.x(), "f32")
    if c.op.invert:
        return b.map2("add", b.map2("mul", x, Const(deviation)), Const(mean))
    return b.map2("mul", b.map2("sub", x, Const(mean)), Const((1.0 / deviation).astype("float32")))


# ---- sums ----

@layer("Mean", "Sum", "Max")
def reduced(b: Build, c: Call) -> Tensor:
    x = b.cast(c.x(), "f32")
    return b.reduce(type(c.op).__name__.lower(), x, c.axes(x.rank), c.keep)


@layer("Min")
def least(b: Build, c: Call) -> Tensor:
    return b.neg(b.reduce("max", b.neg(c.x()), c.axes(c.x().rank), c.keep))


@layer("Any", "All")
def logic(b: Build, c: Call) -> Tensor:
    """Of masks: 0 and 1."""
    x = b.compare("not_equal", c.x(), Const(np.float32(0)))
    if type(c.op).__name__ == "Any":
        return b.reduce("max", x, c.axes(x.rank), c.keep)
    return b.affine(b.reduce("max", b.affine(x, -1.0, 1.0), c.axes(x.rank), c.keep), -1.0, 1.0)


@layer("Var", "Std")
def variance(b: Build, c: Call) -> Tensor:
    v = b.variance(c.x(), c.axes(c.x().rank), c.keep)
    return b.root(v) if type(c.op).__name__ == "Std" else v


@layer("Moments")
def moments(b: Build, c: Call) -> list:
    axes, keep = [a % c.x().rank for a in c.op.axes], bool(c.op.keepdims)
    return [b.reduce("mean", c.x(), axes, keep), b.variance(c.x(), axes, keep)]


@layer("Logaddexp")
def logaddexp(b: Build, c: Call) -> Tensor:
    x, y = c.args[0], operand(c.args[1])
    return b.map2("add", b.function("softplus", b.map2("sub", b.tensor(operand(x)), y)), y)


@layer("Logsumexp")
def logsumexp(b: Build, c: Call) -> Tensor:
    x, axes = c.x(), c.axes(c.x().rank)
    top = b.map1("stop_gradient", b.reduce("max", x, axes, True))
    total = b.reduce("sum", b.map1("exp", b.map2("sub", x, top)), axes, c.keep)
    if not c.keep:
        top = b.squeeze(top, axes)
    return b.map2("add", b.map1("log", total), top)


@layer("Norm")
def norm(b: Build, c: Call) -> Tensor:
    x, of = c.x(), c.op.ord
    axes = c.axes(x.rank)
    if of == 1 and len(axes) == 1:
        return b.reduce("sum", b.map1("abs", x), axes, c.keep)
    if of not in (None, "fro", 2) or of == 2 and len(axes) > 1:
        raise Refused(f"norm of the order {of}")
    return b.root(b.reduce("sum", b.map1("power", x, exponent=2.0), axes, c.keep))


@layer("Argmax")
def argmax(b: Build, c: Call) -> Tensor:
    return b.arg_max(b.cast(c.x(), "f32"), c.op.axis, c.keep)


@layer("Cumsum")
def cumsum(b: Build, c: Call) -> Tensor:
    if c.op.axis is None:
        raise Refused("cumsum over all dimensions")
    return b.cum_sum(c.x(), c.op.axis)


@layer("Normalize", "UnitNormalization")
def normalize(b: Build, c: Call) -> Tensor:
    """x over its length, which is at least epsilon."""
    x, eps = c.x(), getattr(c.op, "epsilon", None)
    if getattr(c.op, "order", 2) != 2:
        raise Refused("normalize with another order than 2")
    squares = b.reduce("sum", b.map1("power", x, exponent=2.0), c.axes(x.rank), True)
    eps = 1e-12 if type(c.op).__name__ == "UnitNormalization" else 1e-7 if eps is None else float(eps)
    return b.map2("mul", x, b.map1("rsqrt", b.clip(squares, eps * eps, None)))


# ---- products ----

@layer("Matmul")
def matmul(b: Build, c: Call) -> Tensor:
    return b.matmul(*terms(c))


@layer("Einsum")
def einsum(b: Build, c: Call) -> Tensor:
    return b.einsum(c.op.subscripts, [b.tensor(operand(x)) for x in c.args])


@layer("Dot")
def dot(b: Build, c: Call) -> Tensor:
    """The layer (samples apart), and the operation of two vectors or matrices."""
    if not hasattr(c.op, "axes"):
        x, y = terms(c)
        if y.rank > 2:
            raise Refused("ops.dot of more than two dimensions")
        return b.matmul(x, y)
    x, y = c.x()
    axes = [c.op.axes] * 2 if isinstance(c.op.axes, int) else list(c.op.axes)
    u, v = (_rows(b, t, a, c.op.normalize) for t, a in ((x, axes[0]), (y, axes[1])))
    shape = tuple(d for i, d in enumerate(x.shape) if i not in (0, axes[0] % x.rank)) + \
        tuple(d for i, d in enumerate(y.shape) if i not in (0, axes[1] % y.rank))
    z = b.matmul(u, b.permute(v, (0, 2, 1)))
    return b.reshape(b.plain(z), (x.shape[0], *(shape or (1,))))


def _rows(b: Build, x: Tensor, axis: int, normal: bool) -> Tensor:
    """(N, rows, width) with the axis last."""
    axis %= x.rank
    if normal:
        squares = b.reduce("sum", b.map1("power", x, exponent=2.0), [axis], True)
        x = b.map2("mul", x, b.map1("rsqrt", b.clip(squares, 1e-14, None)))
    x = b.permute(x, [d for d in range(x.rank) if d != axis] + [axis])
    rows = product(x.shape[1:-1]) if x.rank > 2 else 1
    assert not isinstance(rows, Size)
    return b.reshape(b.plain(x), (x.shape[0], rows, x.shape[-1]))

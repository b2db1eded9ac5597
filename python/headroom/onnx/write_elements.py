"""Functions, arithmetic, comparisons and sums, as ONNX."""
from __future__ import annotations

from typing import Callable

from ..graph import Entry, Refused
from .writer import OPS, Writer, floats, op, scalar


def _unary(ours: str, theirs: str) -> None:
    def f(w: Writer, e: Entry) -> None:
        v = w.get(e, 0)
        w.put(e, w.node(theirs, [v.name]), v.order)

    OPS[ours] = f


for _ours, _theirs in {"relu": "Relu", "sigmoid": "Sigmoid", "tanh": "Tanh", "exp": "Exp", "log": "Log", "sqrt": "Sqrt",
                       "abs": "Abs", "dropout": "Identity", "stop_gradient": "Identity", "relu_mask": "Relu"}.items():
    _unary(_ours, _theirs)


@op("rsqrt")
def rsqrt(w: Writer, e: Entry) -> None:
    v = w.get(e, 0)
    w.put(e, w.node("Reciprocal", [w.node("Sqrt", [v.name])]), v.order)


@op("silu")
def silu(w: Writer, e: Entry) -> None:
    v = w.get(e, 0)
    w.put(e, w.node("Mul", [v.name, w.node("Sigmoid", [v.name])]), v.order)


@op("gelu")
def gelu(w: Writer, e: Entry) -> None:
    v = w.get(e, 0)
    x = v.name
    if e.attributes.get("approximate") == "tanh":
        cube = w.node("Mul", [w.node("Mul", [x, x]), x])
        inner = w.node("Add", [x, w.node("Mul", [cube, scalar(w, 0.044715)])])
        t = w.node("Tanh", [w.node("Mul", [inner, scalar(w, 0.7978845608028654)])])
    else:
        t = w.node("Erf", [w.node("Mul", [x, scalar(w, 0.7071067811865476)])])
    half = w.node("Mul", [x, scalar(w, 0.5)])
    w.put(e, w.node("Mul", [half, w.node("Add", [t, scalar(w, 1.0)])]), v.order)


@op("power")
def power(w: Writer, e: Entry) -> None:
    v = w.get(e, 0)
    w.put(e, w.node("Pow", [v.name, scalar(w, floats(e, "exponent", 2))]), v.order)


@op("clip")
def clip(w: Writer, e: Entry) -> None:
    v = w.get(e, 0)
    w.put(e, w.node("Clip", [v.name, scalar(w, floats(e, "low", 0)), scalar(w, floats(e, "high", 1))]), v.order)


@op("affine")
def affine(w: Writer, e: Entry) -> None:
    v = w.get(e, 0)
    x, scale, shift = v.name, floats(e, "scale", 1), floats(e, "shift", 0)
    x = w.node("Mul", [x, scalar(w, scale)]) if scale != 1 else x
    x = w.node("Add", [x, scalar(w, shift)]) if shift != 0 else x
    w.put(e, x, v.order)


def _binary(ours: str, theirs: str) -> None:
    def f(w: Writer, e: Entry) -> None:
        a, b = w.get(e, 0), w.get(e, 1)
        if a.order is not None and a.order == b.order:
            w.put(e, w.node(theirs, [a.name, b.name]), a.order)
        else:
            w.put(e, w.node(theirs, [w.plain(a), w.plain(b)]))

    OPS[ours] = f


for _ours, _theirs in {"add": "Add", "sub": "Sub", "mul": "Mul", "div": "Div", "bias_add": "Add"}.items():
    _binary(_ours, _theirs)
for _ours, _theirs in {"maximum": "Max", "minimum": "Min", "prelu": "PRelu"}.items():
    _binary(_ours, _theirs)


PLAIN = {"erf": "Erf", "sin": "Sin", "cos": "Cos", "tan": "Tan", "atan": "Atan", "sinh": "Sinh", "cosh": "Cosh", "mish": "Mish",
         "hard_swish": "HardSwish", "softsign": "Softsign", "sign": "Sign", "floor": "Floor", "ceil": "Ceil", "round": "Round",
         "selu": "Selu"}
WITH_ALPHA = {"elu": "Elu", "celu": "Celu", "leaky_relu": "LeakyRelu"}


@op("function")
def function(w: Writer, e: Entry) -> None:
    v, f, alpha = w.get(e, 0), e.attributes.get("f", "erf"), floats(e, "alpha", 1)
    x = v.name
    if f in PLAIN:
        y = w.node(PLAIN[f], [x])
    elif f in WITH_ALPHA:
        y = w.node(WITH_ALPHA[f], [x], alpha=alpha)
    elif f in COMPOSED:
        y = COMPOSED[f](w, x, alpha)
    else:
        raise Refused(f"the function {f} ({e.scope}) cannot be written as ONNX")
    w.put(e, y, v.order)


def _softplus(w: Writer, x: str, alpha: float) -> str:
    if alpha == 1:
        return w.node("Softplus", [x])
    return w.node("Mul", [w.node("Softplus", [w.node("Mul", [x, scalar(w, alpha)])]), scalar(w, 1 / alpha)])


def _log1p(w: Writer, x: str, alpha: float) -> str:
    return w.node("Log", [w.node("Add", [x, scalar(w, 1.0)])])


COMPOSED: dict[str, Callable] = {
    "hard_sigmoid": lambda w, x, a: w.node("HardSigmoid", [x], alpha=1 / 6, beta=0.5),
    "softplus": _softplus, "log1p": _log1p,
    "expm1": lambda w, x, a: w.node("Sub", [w.node("Exp", [x]), scalar(w, 1.0)]),
    "log_sigmoid": lambda w, x, a: w.node("Neg", [w.node("Softplus", [w.node("Neg", [x])])]),
    "quick_gelu": lambda w, x, a: w.node("Mul", [x, w.node("Sigmoid", [w.node("Mul", [x, scalar(w, 1.702)])])]),
    "tanh_shrink": lambda w, x, a: w.node("Sub", [x, w.node("Tanh", [x])]),
    "soft_shrink": lambda w, x, a: w.node("Shrink", [x], bias=a, lambd=a),
    "hard_shrink": lambda w, x, a: w.node("Shrink", [x], bias=0.0, lambd=a),
    "is_nan": lambda w, x, a: w.node("Cast", [w.node("IsNaN", [x])], to=1),
    "not": lambda w, x, a: w.node("Cast", [w.node("Equal", [x, scalar(w, 0.0)])], to=1),
}


@op("compare")
def compare(w: Writer, e: Entry) -> None:
    how = e.attributes.get("is", "equal")
    names = {"equal": "Equal", "less": "Less", "less_equal": "LessOrEqual", "greater": "Greater",
             "greater_equal": "GreaterOrEqual"}
    a, b = w.plain(w.get(e, 0)), w.plain(w.get(e, 1))
    if how in names:
        y = w.node(names[how], [a, b])
    elif how == "not_equal":
        y = w.node("Not", [w.node("Equal", [a, b])])
    else:
        a, b = (w.node("Cast", [x], to=9) for x in (a, b))
        y = w.node({"both": "And", "either": "Or", "one": "Xor"}[how], [a, b])
    w.put(e, w.node("Cast", [y], to=1))


@op("where")
def where(w: Writer, e: Entry) -> None:
    mask = w.node("Cast", [w.plain(w.get(e, 0))], to=9)
    w.put(e, w.node("Where", [mask, w.plain(w.get(e, 1)), w.plain(w.get(e, 2))]))


@op("softmax", "log_softmax")
def softmax(w: Writer, e: Entry) -> None:
    w.put(e, w.node("Softmax" if e.op == "softmax" else "LogSoftmax", [w.plain(w.get(e, 0))],
                    axis=int(e.attributes.get("axis", -1))))


@op("mean", "sum", "max")
def reduce(w: Writer, e: Entry) -> None:
    name = {"mean": "ReduceMean", "sum": "ReduceSum", "max": "ReduceMax"}[e.op]
    axes = [int(a) for a in e.attributes["axes"].split("x")] if e.attributes.get("axes") else list(range(w.rank(e.inputs[0])))
    keep = int(e.attributes.get("keep") == "true")
    v = w.get(e, 0)
    if v.order is not None and keep:
        inputs, order = [v.name], v.order
        axes = [list(v.order).index(a) for a in axes]
    else:
        inputs, order = [w.plain(v)], None
    if e.op == "max" and len(axes) == 1:
        where = w.node("ArgMax", inputs, axis=axes[0], keepdims=keep)
        w.put(e, w.node("Cast", [where], to=6), order, 1)
    w.put(e, w.node(name, inputs + [w.ints(axes)], keepdims=keep), order)

"""Element by element, and random."""
from __future__ import annotations

from typing import Any

import numpy as np

from ...build import MASKED, Build, Const, Tensor
from ...graph import Refused
from ...size import Size
from .call import OPS, Call, op, operand, quantity

for _name, _ours in {"relu": "relu", "sigmoid": "sigmoid", "tanh": "tanh", "exp": "exp", "log": "log", "sqrt": "sqrt",
                     "rsqrt": "rsqrt", "abs": "abs", "silu": "silu"}.items():
    OPS[_name] = lambda b, c, _ours=_ours: b.map1(_ours, c["self"])


def _binary(name: str, ours: str) -> None:
    def f(b: Build, c: Call) -> Tensor:
        return b.map2(ours, quantity(b, c["self"]), scaled(b, quantity(b, c["other"]), c.get("alpha")))

    OPS[name] = f


def scaled(b: Build, x: Any, alpha: Any) -> Any:
    if alpha in (None, 1):
        return x
    return Const(x.array * alpha, x.shape) if isinstance(x, Const) else b.affine(x, alpha)


for _name in ("add", "sub", "mul"):
    _binary(_name, _name)


@op("div")
def div(b: Build, c: Call) -> Tensor:
    y = b.map2("div", quantity(b, c["self"]), quantity(b, c["other"]))
    if not c.get("rounding_mode"):
        return y
    if c["rounding_mode"] == "floor":
        return b.function("floor", y)
    return b.map2("mul", b.function("sign", y), b.function("floor", b.map1("abs", y)))


@op("floor_divide")
def floor_divide(b: Build, c: Call) -> Tensor:
    return b.function("floor", b.map2("div", operand(c["self"]), operand(c["other"])))


@op("remainder")
def remainder(b: Build, c: Call) -> Tensor:
    return modulo(b, quantity(b, c["self"]), quantity(b, c["other"]))


def modulo(b: Build, x: Any, y: Any) -> Tensor:
    return b.map2("sub", x, b.map2("mul", b.function("floor", b.map2("div", x, y)), y))


@op("addcmul", "addcdiv")
def addcmul(b: Build, c: Call) -> Tensor:
    how = "mul" if "addcmul" in str(c.node.target) else "div"
    return b.map2("add", operand(c["self"]), b.affine(b.map2(how, operand(c["tensor1"]), operand(c["tensor2"])), c["value"]))


@op("lerp")
def lerp(b: Build, c: Call) -> Tensor:
    x = operand(c["self"])
    return b.map2("add", x, b.map2("mul", b.map2("sub", operand(c["end"]), x), operand(c["weight"])))


@op("exp2")
def exp2(b: Build, c: Call) -> Tensor:
    return b.map1("exp", b.affine(c["self"], float(np.log(2))))


@op("log2", "log10")
def log2(b: Build, c: Call) -> Tensor:
    return b.affine(b.map1("log", c["self"]), 1.0 / float(np.log(2 if "log2" in str(c.node.target) else 10)))


@op("threshold")
def threshold(b: Build, c: Call) -> Tensor:
    x = c["self"]
    return b.where(b.compare("greater", x, operand(c["threshold"])), x, operand(c["value"]))


@op("erfc")
def erfc(b: Build, c: Call) -> Tensor:
    return b.affine(b.function("erf", c["self"]), -1.0, 1.0)


def _halves(b: Build, x: Tensor) -> tuple[Tensor, Tensor]:
    return b.affine(x, 1.0, 1.0), b.affine(x, -1.0, 1.0)


@op("atanh")
def atanh(b: Build, c: Call) -> Tensor:
    more, less = _halves(b, c["self"])
    return b.affine(b.map2("sub", b.map1("log", more), b.map1("log", less)), 0.5)


@op("asinh", "acosh")
def asinh(b: Build, c: Call) -> Tensor:
    """log(x + sqrt(x^2 +- 1)); of a negative x by its size."""
    x, sinh = c["self"], "asinh" in str(c.node.target)
    size = b.map1("abs", x) if sinh else x
    root = b.map1("sqrt", b.affine(b.map1("power", size, exponent=2.0), 1.0, 1.0 if sinh else -1.0))
    y = b.map1("log", b.map2("add", size, root))
    return b.map2("mul", y, b.function("sign", x)) if sinh else y


@op("asin", "acos")
def asin(b: Build, c: Call) -> Tensor:
    """atan(x / sqrt(1 - x^2))."""
    more, less = _halves(b, c["self"])
    y = b.function("atan", b.map2("mul", c["self"], b.map1("rsqrt", b.map2("mul", more, less))))
    return y if "asin" in str(c.node.target) else b.affine(y, -1.0, float(np.pi / 2))


@op("atan2", "arctan2")
def atan2(b: Build, c: Call) -> Tensor:
    """The atan of the smaller over the larger, moved to its quadrant."""
    y, x = b.tensor(operand(c["self"])), b.tensor(operand(c["other"]))
    zero = Const(np.float32(0))
    steep = b.compare("greater", b.map1("abs", y), b.map1("abs", x))
    below, left = b.compare("less", y, zero), b.compare("less", x, zero)
    under = b.where(steep, y, x)
    under = b.where(b.compare("equal", under, zero), Const(np.float32(1)), under)
    a = b.function("atan", b.map2("div", b.where(steep, x, y), under))
    sign = b.affine(below, -2.0, 1.0)
    high = b.map2("sub", b.affine(sign, float(np.pi / 2)), a)
    return b.where(steep, high, b.map2("add", a, b.affine(b.map2("mul", sign, left), float(np.pi))))


@op("logaddexp")
def logaddexp(b: Build, c: Call) -> Tensor:
    x, y = b.tensor(operand(c["self"])), operand(c["other"])
    return b.map2("add", b.function("softplus", b.map2("sub", x, y)), y)


@op("hypot")
def hypot(b: Build, c: Call) -> Tensor:
    x, y = (b.map1("power", b.tensor(operand(c[k])), exponent=2.0) for k in ("self", "other"))
    return b.map1("sqrt", b.map2("add", x, y))


@op("trunc", "fix", "frac")
def trunc(b: Build, c: Call) -> Tensor:
    x = c["self"]
    y = b.map2("mul", b.function("sign", x), b.function("floor", b.map1("abs", x)))
    return b.map2("sub", x, y) if "frac" in str(c.node.target) else y


@op("full", "scalar_tensor")
def full(b: Build, c: Call) -> Tensor:
    """Of the size of the batch; other numbers are constants."""
    return b.broadcast(b.tensor(quantity(b, c.first("fill_value", "s"))), c.shape())


@op("glu")
def glu(b: Build, c: Call) -> Tensor:
    u, v = b.split(c["self"], 2, c["dim"])
    return b.map2("mul", u, b.map1("sigmoid", v))


@op("logit")
def logit(b: Build, c: Call) -> Tensor:
    x = c["self"] if c["eps"] is None else b.clip(c["self"], c["eps"], 1 - c["eps"])
    return b.map2("sub", b.map1("log", x), b.map1("log", b.affine(x, -1.0, 1.0)))


@op("softsign")
def softsign(b: Build, c: Call) -> Tensor:
    return b.function("softsign", c["self"])


@op("isnan")
def isnan(b: Build, c: Call) -> Tensor:
    return b.compare("not_equal", c["self"], c["self"])


@op("nan_to_num")
def nan_to_num(b: Build, c: Call) -> Tensor:
    x = c["self"]
    low, high = (3.4028235e38 * s if c[k] is None else c[k] for k, s in (("neginf", -1), ("posinf", 1)))
    return b.clip(b.where(b.compare("equal", x, x), x, operand(float(c["nan"] or 0.0))), low, high)


@op("rsub")
def rsub(b: Build, c: Call) -> Tensor:
    return b.map2("sub", quantity(b, c["other"]), scaled(b, c["self"], c.get("alpha")))


@op("neg")
def neg(b: Build, c: Call) -> Tensor:
    return b.neg(c["self"])


@op("fmod")
def fmod(b: Build, c: Call) -> Tensor:
    x, y = operand(c["self"]), operand(c["other"])
    q = b.map2("div", x, y)
    whole = b.map2("mul", b.function("sign", q), b.function("floor", b.map1("abs", q)))
    return b.map2("sub", x, b.map2("mul", whole, y))


@op("signbit")
def signbit(b: Build, c: Call) -> Tensor:
    return b.compare("less", c["self"], Const(np.float32(0)))


@op("reciprocal")
def reciprocal(b: Build, c: Call) -> Tensor:
    return b.map1("power", c["self"], exponent=-1.0)


@op("pow")
def power(b: Build, c: Call) -> Tensor:
    x, e = operand(c["self"]), operand(c["exponent"])
    if isinstance(e, Const) and e.array.size == 1:
        return b.map1("power", b.cast(x, "f32"), exponent=float(e.array.reshape(())))
    if isinstance(x, Const) and (x.array > 0).all():
        return b.map1("exp", b.map2("mul", e, Const(np.log(x.array.astype("float32")), x.shape)))
    return b.map1("exp", b.map2("mul", b.map1("log", x), e))  # of positive numbers


@op("square")
def square(b: Build, c: Call) -> Tensor:
    return b.map1("power", c["self"], exponent=2.0)


@op("gelu")
def gelu(b: Build, c: Call) -> Tensor:
    return b.map1("gelu", c["self"], approximate="tanh" if c["approximate"] == "tanh" else None)


@op("hardtanh")
def hardtanh(b: Build, c: Call) -> Tensor:
    return b.clip(c["self"], c["min_val"], c["max_val"])


@op("relu6")
def relu6(b: Build, c: Call) -> Tensor:
    return b.clip(c["self"], 0.0, 6.0)


@op("clamp")
def clamp(b: Build, c: Call) -> Tensor:
    low, high = c["min"], c["max"]
    if isinstance(low, (Tensor, Const)) or isinstance(high, (Tensor, Const)):
        low, high = (x if isinstance(x, Tensor) or x is None or operand(x).array.size > 1 else float(operand(x).array)
                     for x in (low, high))
    if isinstance(low, (Tensor, Const)) or isinstance(high, (Tensor, Const)):
        x = c["self"] if low is None else b.maximum(operand(c["self"]), operand(low))
        return x if high is None else b.minimum(x, operand(high))
    return b.clip(b.cast(c["self"], "f32"), low, high)


@op("clamp_min")
def clamp_min(b: Build, c: Call) -> Tensor:
    return clamp(b, Call(dict(c, max=None), node=c.node, walk=c.walk))


@op("clamp_max")
def clamp_max(b: Build, c: Call) -> Tensor:
    return clamp(b, Call(dict(c, min=None), node=c.node, walk=c.walk))


@op("hardswish")
def hardswish(b: Build, c: Call) -> Tensor:
    return b.hard_swish(c["self"])


@op("hardsigmoid")
def hardsigmoid(b: Build, c: Call) -> Tensor:
    return b.hard_sigmoid(c["self"])


@op("leaky_relu")
def leaky_relu(b: Build, c: Call) -> Tensor:
    return b.leaky_relu(c["self"], c["negative_slope"])


@op("elu")
def elu(b: Build, c: Call) -> Tensor:
    return b.elu(c["self"], c["alpha"])


@op("softplus")
def softplus(b: Build, c: Call) -> Tensor:
    """A straight line beyond the threshold; from 20 on it is none but for rounding."""
    x, y = c["self"], b.function("softplus", c["self"], c["beta"])
    if c["threshold"] >= 20:
        return y
    return b.where(b.compare("greater", x, operand(c["threshold"] / c["beta"])), x, y)


for _name in ("mish", "erf", "sin", "cos", "tan", "atan", "sinh", "cosh", "log1p", "expm1", "log_sigmoid", "celu", "selu",
              "floor", "ceil", "round", "sign"):
    OPS[_name] = lambda b, c, _name=_name: b.function(_name, c["self"], c.get("alpha"))

for _name, _how in {"eq": "equal", "ne": "not_equal", "lt": "less", "le": "less_equal", "gt": "greater",
                    "ge": "greater_equal", "logical_and": "both", "logical_or": "either", "logical_xor": "one"}.items():
    OPS[_name] = lambda b, c, _how=_how: b.compare(_how, operand(c["self"]), operand(c["other"]))

for _name, _how in {"bitwise_and": "both", "bitwise_or": "either", "bitwise_xor": "one", "__and__": "both", "__or__": "either",
                    "__xor__": "one"}.items():
    OPS[_name] = lambda b, c, _how=_how: b.compare(_how, *(truth(c, operand(c[k])) for k in ("self", "other")))


def truth(c: Call, x: Any) -> Any:
    if str(c.node.meta["val"].dtype) != "torch.bool":
        raise Refused(f"{str(c.node.target).split('.')[1]} of the bits of whole numbers{c.walk.way_out}")
    return x


@op("logical_not", "bitwise_not")
def logical_not(b: Build, c: Call) -> Tensor:
    return b.function("not", truth(c, b.cast(b.tensor(operand(c["self"])), "f32")))


@op("prelu")
def prelu(b: Build, c: Call) -> Tensor:
    x, w = c["self"], c["weight"]
    n = w.shape[0]
    return b.prelu(x, b.reshape(w, (n,) + (1,) * (x.rank - 2)) if n > 1 else w)


@op("maximum", "fmax")
def maximum(b: Build, c: Call) -> Tensor:
    return b.maximum(c["self"], operand(c["other"]))


@op("minimum", "fmin")
def minimum(b: Build, c: Call) -> Tensor:
    return b.minimum(c["self"], operand(c["other"]))


@op("masked_fill")
def masked_fill(b: Build, c: Call) -> Tensor:
    return choose(b, c["mask"], operand(c["value"]), c["self"])


@op("where")
def where(b: Build, c: Call) -> Tensor:
    if "self" not in c:
        raise Refused("where() of a condition alone has a result whose size depends on data; where(condition, a, b) has not")
    return choose(b, c["condition"], operand(c["self"]), operand(c["other"]))


def choose(b: Build, mask: Any, yes: Any, no: Any) -> Tensor:
    def finite(x: Any) -> Any:
        if not isinstance(x, Const):
            return x
        return Const(np.nan_to_num(x.array.astype("float32"), neginf=MASKED, posinf=-MASKED), x.shape)

    def real(x: Any) -> Any:
        return b.cast(x, "f32") if isinstance(x, Tensor) else x

    return b.where(real(operand(mask)), real(finite(yes)), real(finite(no)))


@op("clone", "contiguous", "alias", "positive", "lift_fresh_copy", "detach_")
def same(b: Build, c: Call) -> Any:
    return c["self"]


@op("detach")
def detach(b: Build, c: Call) -> Any:
    return b.map1("stop_gradient", c["self"]) if c["self"].type == "f32" else c["self"]


WHOLE = ("bool", "int64", "int32", "int16", "int8", "uint8")


@op("to", "_to_copy", "type_as", "float", "double")
def to(b: Build, c: Call) -> Any:
    x, dtype = c["self"], str(c.node.meta["val"].dtype)[6:]
    given = getattr(c.node.args[0], "meta", {}).get("val")
    was = str(given.dtype)[6:] if given is not None else dtype
    if dtype == was or not isinstance(x, Tensor):
        return x
    if dtype == "bool":
        return b.compare("not_equal", x, Const(np.float32(0)))
    if dtype in ("int64", "int32"):
        return x if was in WHOLE else b.cast(x, "i32")
    if dtype in WHOLE and was == "bool":
        return x
    if dtype in WHOLE and was.startswith("float"):
        whole = trunc(b, c)
        return b.cast(modulo(b, whole, operand(256)) if dtype == "uint8" else whole, "i32")
    if dtype == "float64":
        c.walk.note("a cast to float64 is computed in f32")
    if dtype in ("float32", "float64"):
        return b.cast(x, "f32")
    raise Refused(f"a cast to {dtype}; models are taken in f32, and trained in others by --precision")


@op("copy")
def copy(b: Build, c: Call) -> Any:
    source = operand(c["src"])
    shape = c["self"].shape
    return source if source.shape == shape else b.broadcast(b.tensor(source), shape)


@op("fill", "zero")
def fill(b: Build, c: Call) -> Any:
    return Const(np.full([d.at(b.batch) if isinstance(d, Size) else d for d in c["self"].shape],
                         c.get("value", 0), "float32"), c["self"].shape)


# ---- random ----

@op("dropout")
def dropout(b: Build, c: Call) -> Any:
    x = c.x()
    return b.dropout(drawn_for(b, x), c["p"]) if c["train"] and c["p"] else x


def drawn_for(b: Build, x: Any) -> Tensor:
    """What has a row for each sample, or, as weights do, none."""
    x = b.whole(x)
    return x if x.rank and isinstance(x.shape[0], Size) else b.of_all_samples(x)


@op("feature_dropout")
def feature_dropout(b: Build, c: Call) -> Any:
    x = c.x()
    if not c["train"] or not c["p"]:
        return x
    return b.dropout(drawn_for(b, x), c["p"], range(2, x.rank))


@op("alpha_dropout", "feature_alpha_dropout")
def alpha_dropout(b: Build, c: Call) -> Any:
    x = b.whole(c.x())
    if not c["train"] or not c["p"]:
        return x
    return b.alpha_dropout(x, c["p"], range(2, x.rank) if "feature" in str(c.node.target) else ())


@op("rrelu_with_noise")
def rrelu(b: Build, c: Call) -> Tensor:
    x = b.plain(b.whole(c["self"]))
    if not c["training"]:
        return b.leaky_relu(x, (c["lower"] + c["upper"]) / 2)
    return b.prelu(x, b.random(x.shape, "uniform", float(c["lower"]), float(c["upper"])))


@op("bernoulli")
def bernoulli(b: Build, c: Call) -> Tensor:
    """By a number, or by a tensor of probabilities."""
    p = c.get("p")
    p = c["self"] if p is None else p
    if isinstance(p, (Tensor, Const)):
        return b.compare("less", b.random(c.shape(), "uniform", 0.0, 1.0), operand(p))
    if p <= 0:
        raise Refused("random numbers with probability 0")
    return b.affine(b.noise(c["self"].shape, 1.0 - p), p)


@op("rand", "rand_like")
def rand(b: Build, c: Call) -> Tensor:
    return b.random(c.shape(), "uniform", 0.0, 1.0)


@op("randn", "randn_like")
def randn(b: Build, c: Call) -> Tensor:
    return b.random(c.shape(), "normal", 0.0, 1.0)


@op("uniform")
def uniform(b: Build, c: Call) -> Tensor:
    return b.random(c.shape(), "uniform", float(c["from"]), float(c["to"]))


@op("normal", "normal_functional")
def normal(b: Build, c: Call) -> Tensor:
    """Mean and deviation are numbers, or tensors (torch.normal, torch.distributions)."""
    mean, deviation = c.get("mean", 0.0), c.get("std", 1.0)
    if not isinstance(mean, (Tensor, Const)) and not isinstance(deviation, (Tensor, Const)):
        return b.random(c.shape(), "normal", float(mean), float(deviation))
    return b.map2("add", operand(mean), b.map2("mul", b.random(c.shape(), "normal", 0.0, 1.0), operand(deviation)))


@op("exponential")
def exponential(b: Build, c: Call) -> Tensor:
    """-log(u) / rate."""
    u = b.clip(b.random(c.shape(), "uniform", 0.0, 1.0), 1e-7, 1.0)
    return b.affine(b.map1("log", u), -1.0 / c["lambd"])


@op("randint", "randint_like")
def randint(b: Build, c: Call) -> Tensor:
    low, high = c.get("low") or 0, c["high"]
    u = b.random(c.shape(), "uniform", float(low), float(high))
    y = b.clip(b.function("floor", u), float(low), float(high - 1))
    return y if c.node.meta["val"].dtype.is_floating_point else b.cast(y, "i32")


@op("randperm", "multinomial", "poisson", "binomial", "cauchy", "log_normal", "geometric", "random")
def no_random(b: Build, c: Call) -> Any:
    raise Refused(f"random numbers by {str(c.node.target).split('.')[1]}")

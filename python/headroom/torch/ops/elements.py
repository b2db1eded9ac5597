"""Element by element, and random."""
from __future__ import annotations

from typing import Any

import numpy as np

from ...build import MASKED, Build, Const, Tensor
from ...graph import Refused
from ...size import Size
from .call import OPS, Call, op, operand


for _name, _ours in {"relu": "relu", "sigmoid": "sigmoid", "tanh": "tanh", "exp": "exp", "log": "log", "sqrt": "sqrt",
                     "rsqrt": "rsqrt", "abs": "abs", "silu": "silu"}.items():
    OPS[_name] = lambda b, c, _ours=_ours: b.map1(_ours, c["self"])


def _binary(name: str, ours: str) -> None:
    def f(b: Build, c: Call) -> Tensor:
        other = operand(c["other"])
        if c.get("alpha") not in (None, 1):
            other = Const(other.array * c["alpha"], other.shape) if isinstance(other, Const) else b.affine(other, c["alpha"])
        return b.map2(ours, operand(c["self"]), other)

    OPS[name] = f


for _name in ("add", "sub", "mul"):
    _binary(_name, _name)


@op("div")
def div(b: Build, c: Call) -> Tensor:
    if c.get("rounding_mode"):
        raise Refused("a division that rounds")
    return b.map2("div", operand(c["self"]), operand(c["other"]))


@op("rsub")
def rsub(b: Build, c: Call) -> Tensor:
    return b.map2("sub", operand(c["other"]), c["self"])


@op("neg")
def neg(b: Build, c: Call) -> Tensor:
    return b.neg(c["self"])


@op("reciprocal")
def reciprocal(b: Build, c: Call) -> Tensor:
    return b.map1("power", c["self"], exponent=-1.0)


@op("pow")
def power(b: Build, c: Call) -> Tensor:
    if not isinstance(c["exponent"], (int, float)):
        raise Refused("a power whose exponent is a tensor")
    return b.map1("power", c["self"], exponent=float(c["exponent"]))


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
    return b.clip(c["self"], c["min"], c["max"])


@op("clamp_min")
def clamp_min(b: Build, c: Call) -> Tensor:
    return b.clip(c["self"], c["min"], None)


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
    return b.function("softplus", c["self"], c["beta"])


for _name in ("mish", "erf", "sin", "cos", "tan", "atan", "sinh", "cosh", "log1p", "expm1", "log_sigmoid", "celu", "selu",
              "floor", "ceil", "round", "sign"):
    OPS[_name] = lambda b, c, _name=_name: b.function(_name, c["self"], c.get("alpha"))

for _name, _how in {"eq": "equal", "ne": "not_equal", "lt": "less", "le": "less_equal", "gt": "greater",
                    "ge": "greater_equal", "logical_and": "both", "logical_or": "either", "logical_xor": "one",
                    "bitwise_and": "both", "bitwise_or": "either"}.items():
    OPS[_name] = lambda b, c, _how=_how: b.compare(_how, operand(c["self"]), operand(c["other"]))


@op("logical_not", "bitwise_not")
def logical_not(b: Build, c: Call) -> Tensor:
    return b.function("not", c["self"])


@op("prelu")
def prelu(b: Build, c: Call) -> Tensor:
    x, w = c["self"], c["weight"]
    n = w.shape[0]
    return b.prelu(x, b.reshape(w, (n,) + (1,) * (x.rank - 2)) if n > 1 else w)


@op("maximum")
def maximum(b: Build, c: Call) -> Tensor:
    return b.maximum(c["self"], operand(c["other"]))


@op("minimum")
def minimum(b: Build, c: Call) -> Tensor:
    return b.minimum(c["self"], operand(c["other"]))


@op("masked_fill")
def masked_fill(b: Build, c: Call) -> Tensor:
    return choose(b, c["mask"], operand(c["value"]), c["self"])


@op("where")
def where(b: Build, c: Call) -> Tensor:
    return choose(b, c["condition"], operand(c["self"]), operand(c["other"]))


def choose(b: Build, mask: Any, yes: Any, no: Any) -> Tensor:
    def finite(x: Any) -> Any:
        if not isinstance(x, Const):
            return x
        return Const(np.nan_to_num(x.array.astype("float32"), neginf=MASKED, posinf=-MASKED), x.shape)

    return b.where(operand(mask), finite(yes), finite(no))


@op("clone", "contiguous", "alias", "lift_fresh_copy", "detach_")
def same(b: Build, c: Call) -> Any:
    return c["self"]


@op("detach")
def detach(b: Build, c: Call) -> Any:
    raise Refused("detach of a value that has a gradient")


@op("to", "_to_copy", "type_as", "float")
def to(b: Build, c: Call) -> Any:
    x, dtype = c["self"], str(c.node.meta["val"].dtype)
    if isinstance(x, Tensor) and x.type == "f32" and dtype not in ("torch.float32", "torch.bool"):
        raise Refused(f"a cast to {dtype[6:]}")
    if isinstance(x, Tensor) and x.type != "f32" and dtype == "torch.float32":
        return b.cast(x, "f32")
    return x


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
    return b.dropout(b.whole(x), c["p"]) if c["train"] and c["p"] else x


@op("feature_dropout")
def feature_dropout(b: Build, c: Call) -> Any:
    x = c.x()
    if not c["train"] or not c["p"]:
        return x
    return b.map2("mul", x, b.noise(x.shape[:2] + (1,) * (x.rank - 2), c["p"]))


@op("bernoulli")
def bernoulli(b: Build, c: Call) -> Tensor:
    p = c["p"]
    if not isinstance(p, (int, float)) or p <= 0:
        raise Refused("random numbers by a tensor of probabilities")
    return b.affine(b.noise(c["self"].shape, 1.0 - p), p)


def _no_random(b: Build, c: Call) -> Any:
    raise Refused("random numbers that are not dropout")


for _name in ("rand_like", "rand", "randn", "randn_like", "randint", "uniform", "normal"):
    OPS[_name] = _no_random

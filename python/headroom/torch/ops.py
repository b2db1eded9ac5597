"""What each ATen op becomes.  One short function an op, by its name without overload; in-place forms share it.

A function gets the builder and the call's arguments by their names in the op's schema; tensors are Tensor or Const.  Shapes of
results come from the export (call.shape()), so that sizes in terms of the batch need no arithmetic here."""
from __future__ import annotations

from typing import Any, Callable, Optional

import numpy as np

from ..build import MASKED, Build, Const, Tensor, inverse
from ..graph import Refused
from ..size import Size


class Call(dict):
    """Arguments by name."""

    def __init__(self, *args: Any, node: Any, walk: Any) -> None:
        super().__init__(*args)
        self.node, self.walk = node, walk

    def shape(self) -> tuple:
        return self.walk.shape(self.node)

    def x(self) -> Any:
        return self["self"] if "self" in self else self["input"]


OPS: dict[str, Callable] = {}
METADATA_ONLY = {"zeros_like", "ones_like", "full_like", "empty_like", "new_zeros", "new_ones", "new_full", "new_empty"}
RANDOM = {"bernoulli_", "bernoulli", "rand_like", "rand", "randn", "randn_like", "randint", "uniform_", "normal_"}


def op(*names: str) -> Callable:
    def keep(f: Callable) -> Callable:
        for n in names:
            OPS[n] = f
        return f

    return keep


def two(x: Any) -> tuple[int, int]:
    x = list(x) if isinstance(x, (list, tuple)) else [x]
    return (x[0], x[1]) if len(x) > 1 else (x[0], x[0])


def operand(x: Any) -> Any:
    if isinstance(x, (int, float, bool)):
        return Const(np.float32(x))
    if isinstance(x, Size):
        raise Refused("arithmetic with the size of the batch on a tensor")
    if isinstance(x, Const) and x.array.dtype.kind == "b":
        return Const(x.array.astype("float32"), x.shape)
    return x


# ---- element by element ----

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


# ---- shapes ----

@op("view", "reshape", "flatten", "unflatten", "_unsafe_view", "view_as", "reshape_as")
def view(b: Build, c: Call) -> Any:
    return b.reshape(b.whole(c["self"]), c.shape())


@op("squeeze")
def squeeze(b: Build, c: Call) -> Tensor:
    x = c["self"]
    dims = c.get("dim")
    dims = range(x.rank) if dims is None else [dims] if isinstance(dims, int) else dims
    return b.squeeze(x, [d for d in dims])


@op("unsqueeze")
def unsqueeze(b: Build, c: Call) -> Tensor:
    return b.unsqueeze(c["self"], c["dim"])


@op("transpose", "swapaxes")
def transpose(b: Build, c: Call) -> Tensor:
    x = c["self"]
    dims = list(range(x.rank))
    i, k = c.get("dim0", c.get("axis0")), c.get("dim1", c.get("axis1"))
    dims[i], dims[k] = dims[k], dims[i]
    return b.permute(x, dims)


@op("t", "numpy_T", "mT")
def t(b: Build, c: Call) -> Tensor:
    return b.permute(c["self"], list(range(c["self"].rank))[::-1])


@op("permute")
def permute(b: Build, c: Call) -> Tensor:
    return b.permute(c["self"], [d % c["self"].rank for d in c["dims"]])


@op("movedim")
def movedim(b: Build, c: Call) -> Tensor:
    x = c["self"]
    source = [c["source"]] if isinstance(c["source"], int) else c["source"]
    to_ = [c["destination"]] if isinstance(c["destination"], int) else c["destination"]
    dims = [d for d in range(x.rank) if d not in [s % x.rank for s in source]]
    for s, d in sorted(zip(source, to_), key=lambda p: p[1] % x.rank):
        dims.insert(d % x.rank, s % x.rank)
    return b.permute(x, dims)


@op("expand", "expand_as", "broadcast_to")
def expand(b: Build, c: Call) -> Tensor:
    return b.broadcast(b.tensor(c["self"]), c.shape())


@op("repeat")
def repeat(b: Build, c: Call) -> Tensor:
    x, times = c["self"], c["repeats"]
    y = b.reshape(x, (1,) * (len(times) - x.rank) + x.shape)
    for d, n in enumerate(times):
        if y.shape[d] == 1:
            shape = list(y.shape)
            shape[d] = n
            y = b.broadcast(y, shape)
        elif n != 1:
            y = b.concat([y] * n, d)
    return y


@op("slice")
def slice_(b: Build, c: Call) -> Tensor:
    x = c["self"]
    d = c["dim"] % x.rank
    begin, size = bounds(x.shape[d], c["start"], c.shape()[d], c["step"])
    if c["step"] in (None, 1):
        return b.slice(x, d, begin, size)
    return b.take(x, d, Const(np.arange(size) * c["step"] + begin))


def bounds(whole: Any, start: Any, size: Any, step: Any) -> tuple[int, Any]:
    begin = start or 0
    if isinstance(begin, Size):
        raise Refused("a slice that begins at a multiple of the batch")
    if begin < 0:
        begin = max(0, begin + whole) if isinstance(whole, int) else 0
    return begin, size


def slice_back(b: Build, c: Call, base: Any, value: Any) -> Tensor:
    d = c["dim"] % base.rank
    if c["step"] not in (None, 1):
        raise Refused("a write into every other element")
    begin, size = bounds(base.shape[d], c["start"], value.shape[d], 1)
    return splice(b, base, value, d, begin, size)


def splice(b: Build, base: Any, value: Any, d: int, begin: int, size: int) -> Any:
    base_t = b.whole(base)
    end = begin + size
    pieces = [b.slice(base_t, d, 0, begin)] if begin else []
    pieces.append(value)
    if end != base.shape[d]:
        pieces.append(b.slice(base_t, d, end, base.shape[d] - end))
    return b.concat(pieces, d) if len(pieces) > 1 else b.whole(value)


@op("select")
def select(b: Build, c: Call) -> Tensor:
    return b.select(c["self"], c["dim"], c["index"])


def select_back(b: Build, c: Call, base: Any, value: Any) -> Tensor:
    d = c["dim"] % base.rank
    return splice(b, base, b.unsqueeze(b.whole(value), d), d, c["index"] % base.shape[d], 1)


def reshape_back(b: Build, c: Call, base: Any, value: Any) -> Tensor:
    return b.reshape(b.whole(value), base.shape)


def permute_back(b: Build, c: Call, base: Any, value: Any) -> Tensor:
    dims = [d % base.rank for d in c["dims"]]
    return b.permute(b.whole(value), inverse(dims))


def transpose_back(b: Build, c: Call, base: Any, value: Any) -> Tensor:
    fresh = Call(c, node=c.node, walk=c.walk)
    fresh["self"] = b.whole(value)
    return transpose(b, fresh)


VIEWS: dict[str, Optional[Callable]] = {
    "slice": slice_back, "select": select_back, "view": reshape_back, "reshape": reshape_back, "flatten": reshape_back,
    "unflatten": reshape_back, "squeeze": reshape_back, "unsqueeze": reshape_back, "permute": permute_back,
    "transpose": transpose_back, "t": None, "expand": None, "alias": lambda b, c, base, value: value,
    "detach": lambda b, c, base, value: value}


@op("cat", "concat")
def cat(b: Build, c: Call) -> Tensor:
    xs = [x for x in c["tensors"] if x.shape != (0,)]
    return b.concat([operand(x) for x in xs], c["dim"])


@op("stack")
def stack(b: Build, c: Call) -> Tensor:
    d = c["dim"] % (c["tensors"][0].rank + 1)
    return b.concat([b.unsqueeze(b.whole(x), d) for x in c["tensors"]], d)


@op("chunk", "split", "split_with_sizes", "unbind", "unsafe_chunk", "unsafe_split")
def split(b: Build, c: Call) -> list:
    x, d = c["self"], c["dim"] % c["self"].rank
    out, begin = [], 0
    for val in c.node.meta["val"]:
        if val.dim() < x.rank:
            out.append(b.select(x, d, begin))
            begin += 1
            continue
        size = c.walk.dim(val.shape[d])
        out.append(b.slice(x, d, begin, size))
        begin += size
    return out


@op("roll")
def roll(b: Build, c: Call) -> Tensor:
    x = c["self"]
    for shift, d in zip(c["shifts"], c["dims"]):
        x = b.roll(x, d % x.rank, shift)
    return x


@op("flip")
def flip(b: Build, c: Call) -> Tensor:
    x = c["self"]
    for d in c["dims"]:
        x = b.flip(x, d % x.rank)
    return x


@op("pad")
def pad(b: Build, c: Call) -> Tensor:
    x, flat = c["self"], list(c["pad"])
    pads = {x.rank - 1 - i: (flat[2 * i], flat[2 * i + 1]) for i in range(len(flat) // 2)}
    if c["mode"] == "constant":
        return b.pad(x, pads, c["value"] or 0.0)
    if c["mode"] != "reflect":
        raise Refused(f"padding by {c['mode']}")
    for d, (before, after) in pads.items():
        if before or after:
            x = b.reflect(x, d, before, after)
    return x


@op("constant_pad_nd")
def constant_pad(b: Build, c: Call) -> Tensor:
    return pad(b, Call(dict(c, mode="constant"), node=c.node, walk=c.walk))


@op("tril", "triu")
def tri(b: Build, c: Call) -> Tensor:
    n, m = c["self"].shape[-2:]
    keep = np.tril if "tril" in str(c.node.target) else np.triu
    return b.map2("mul", c["self"], Const(keep(np.ones((n, m), "float32"), c["diagonal"])))


# ---- by numbers ----

@op("embedding")
def embedding(b: Build, c: Call) -> Tensor:
    table, ids = c["weight"], c["indices"]
    padding = c.get("padding_idx", -1)
    if padding is not None and padding >= 0 and isinstance(table, Tensor):
        return b.padded_embedding(table, ids, padding)
    return b.gather(table, ids)


@op("index_select")
def index_select(b: Build, c: Call) -> Tensor:
    return b.take(b.tensor(c["self"]), c["dim"], c["index"])


@op("index")
def index(b: Build, c: Call) -> Tensor:
    x, by = c["self"], c["indices"]
    used = [d for d, i in enumerate(by) if i is not None]
    if len(used) == 1:
        ids = by[used[0]]
        if isinstance(ids, Const) and ids.array.dtype.kind == "b":
            ids = Const(np.nonzero(ids.array)[0])
        return b.take(b.tensor(x), used[0], ids)
    ids = [by[d] for d in used]
    if used != list(range(len(used))) or not all(isinstance(i, Const) for i in ids):
        raise Refused("indexing by several tensors that depend on data")
    return flat_index(b, x, ids, c.shape())


def flat_index(b: Build, x: Any, ids: list, shape: tuple) -> Tensor:
    """The first dimensions by constant numbers: rows of the flattened table."""
    sizes = x.shape[:len(ids)]
    arrays = np.broadcast_arrays(*[i.array for i in ids])
    if any(isinstance(s, Size) for s in sizes):
        raise Refused("indexing of the batch's dimension")
    flat = np.ravel_multi_index([a % s for a, s in zip(arrays, sizes)], sizes)
    rows = b.reshape(b.tensor(x), (int(np.prod(sizes)),) + x.shape[len(ids):])
    return b.reshape(b.gather(rows, Const(flat)), shape)


@op("gather")
def gather(b: Build, c: Call) -> Tensor:
    ids = c["index"]
    if not isinstance(ids, Const):
        raise Refused("gather by numbers that depend on data")
    x, d = c["self"], c["dim"] % c["self"].rank
    grid = np.indices(ids.array.shape)
    parts = [Const(ids.array if i == d else grid[i]) for i in range(x.rank)]
    return flat_index(b, x, parts, ids.shape)


# ---- sums ----

@op("mean")
def mean(b: Build, c: Call) -> Tensor:
    return b.reduce("mean", c["self"], dims_of(c), bool(c.get("keepdim")))


@op("sum")
def sum_(b: Build, c: Call) -> Tensor:
    return b.reduce("sum", c["self"], dims_of(c), bool(c.get("keepdim")))


@op("amax")
def amax(b: Build, c: Call) -> Tensor:
    return b.reduce("max", c["self"], dims_of(c), bool(c.get("keepdim")))


@op("max")
def max_(b: Build, c: Call) -> Any:
    if isinstance(c.get("other"), (Tensor, Const)):
        return b.maximum(c["self"], c["other"])
    y = b.reduce("max", c["self"], dims_of(c), bool(c.get("keepdim")))
    return [y, Tensor(y.value.entry.outputs[1], y.order)] if c.get("dim") is not None else y


@op("var")
def var(b: Build, c: Call) -> Tensor:
    correction = c.get("correction")
    correction = (1 if c.get("unbiased", True) else 0) if correction is None else correction
    return b.variance(c["self"], dims_of(c) or range(c["self"].rank), bool(c.get("keepdim")), correction)


@op("linalg_vector_norm", "norm")
def norm(b: Build, c: Call) -> Tensor:
    if c.get("ord", c.get("p", 2)) not in (None, 2, 2.0):
        raise Refused("a norm other than the Euclidean one")
    return b.map1("sqrt", b.reduce("sum", b.map1("power", c["self"], exponent=2.0), dims_of(c), bool(c.get("keepdim"))))


def dims_of(c: Call) -> list:
    d = c.get("dim")
    return [] if d is None else [d] if isinstance(d, int) else list(d)


@op("softmax", "_softmax")
def softmax(b: Build, c: Call) -> Tensor:
    return b.softmax(c["self"], c["dim"])


@op("log_softmax", "_log_softmax")
def log_softmax(b: Build, c: Call) -> Tensor:
    return b.softmax(c["self"], c["dim"], "log_softmax")


# ---- products ----

@op("linear")
def linear(b: Build, c: Call) -> Tensor:
    return b.linear(c["input"], c["weight"], c["bias"])


@op("matmul", "mm", "bmm")
def matmul(b: Build, c: Call) -> Tensor:
    return b.matmul(c["self"], c.get("other", c.get("mat2")))


@op("addmm")
def addmm(b: Build, c: Call) -> Tensor:
    if c["alpha"] != 1 or c["beta"] != 1:
        raise Refused("addmm with factors")
    x, w = c["mat1"], c["mat2"]
    if c["self"].rank == 1:
        return b.linear(x, w, c["self"], transposed=False)
    return b.map2("add", b.matmul(x, w), c["self"])


@op("einsum")
def einsum(b: Build, c: Call) -> Tensor:
    return b.einsum(c["equation"].replace(" ", ""), [b.tensor(x) for x in c["tensors"]])


@op("conv2d")
def conv2d(b: Build, c: Call) -> Tensor:
    w = c["weight"]
    stride, dilation = two(c["stride"]), two(c["dilation"])
    if isinstance(c["padding"], str):
        pads = same_pads(c["padding"], w.shape[2:], dilation)
    else:
        p = two(c["padding"])
        pads = (p[0], p[1], p[0], p[1])
    return b.conv2d(c["input"], w, c["bias"], stride, pads, dilation, c["groups"])


def same_pads(padding: str, kernel: Any, dilation: Any) -> tuple[int, ...]:
    if padding == "valid":
        return (0, 0, 0, 0)
    total = [d * (k - 1) for k, d in zip(kernel, dilation)]
    return (total[0] // 2, total[1] // 2, total[0] - total[0] // 2, total[1] - total[1] // 2)


@op("conv1d")
def conv1d(b: Build, c: Call) -> Tensor:
    """An image of height 1."""
    x, w = b.unsqueeze(c["input"], 2), b.unsqueeze(b.tensor(c["weight"]), 2)
    one = [(list(c[k]) if isinstance(c[k], (list, tuple)) else [c[k]])[0] for k in ("stride", "dilation")]
    p = c["padding"]
    p = same_pads(p, (1, w.shape[3]), (1, one[1])) if isinstance(p, str) else (0, list(p)[0], 0, list(p)[0])
    return b.squeeze(b.conv2d(x, w, c["bias"], (1, one[0]), p, (1, one[1]), c["groups"]), [2])


@op("conv_transpose2d")
def conv_transpose2d(b: Build, c: Call) -> Tensor:
    p = two(c["padding"])
    return b.conv_transpose2d(c["input"], c["weight"], c["bias"], two(c["stride"]), (p[0], p[1], p[0], p[1]),
                              two(c["output_padding"]), two(c["dilation"]), c["groups"])


@op("_weight_norm")
def weight_norm(b: Build, c: Call) -> Tensor:
    v, g, dim = c["v"], c["g"], c["dim"]
    others = [d for d in range(v.rank) if d != dim % v.rank]
    squares = b.reduce("sum", b.map1("power", v, exponent=2.0), others, True)
    return b.map2("mul", b.map2("mul", v, b.map1("rsqrt", squares)), g)


@op("scaled_dot_product_attention")
def attention(b: Build, c: Call) -> Tensor:
    q, k, v, mask = c["query"], c["key"], c["value"], c["attn_mask"]
    causal = c["is_causal"]
    if isinstance(mask, Const):
        mask, causal = constant_mask(mask, causal)
    elif mask is not None and str(c.node.args[3].meta["val"].dtype if len(c.node.args) > 3 else
                                  c.node.kwargs["attn_mask"].meta["val"].dtype) == "torch.bool":
        mask = b.affine(mask, -MASKED, MASKED)  # 1 shows, 0 hides
    return b.attention(q, k, v, mask, causal, c["scale"], c["dropout_p"])


def constant_mask(mask: Const, causal: bool) -> tuple[Optional[Const], bool]:
    """A triangle is `causal`, a mask that hides nothing is none."""
    a = mask.array if mask.array.dtype.kind == "b" else mask.array == 0
    plain = mask.array.dtype.kind == "b" or np.all((mask.array == 0) | (mask.array < -1e4))
    if plain and a.all():
        return None, causal
    if plain and a.shape[-1] == a.shape[-2] and np.array_equal(a, np.broadcast_to(np.tril(np.ones(a.shape[-2:], bool)), a.shape)):
        return None, True
    if mask.array.dtype.kind == "b":
        return Const(np.where(a, np.float32(0), np.float32(MASKED)), mask.shape), causal
    return Const(np.maximum(mask.array, np.float32(MASKED)), mask.shape), causal


# ---- normalisation and pooling ----

@op("batch_norm")
def batch_norm(b: Build, c: Call) -> Tensor:
    """With statistics that stand still; the training form is the walk's."""
    return b.batch_norm_inference(b.tensor(c["input"]), c["weight"], c["bias"], c["running_mean"], c["running_var"],
                                  c["eps"])


@op("layer_norm")
def layer_norm(b: Build, c: Call) -> Tensor:
    return b.layer_norm(c["input"], c["weight"], c["bias"], c["eps"], len(c["normalized_shape"]))


@op("rms_norm")
def rms_norm(b: Build, c: Call) -> Tensor:
    return b.rms_norm(c["input"], c["weight"], 1.1920929e-07 if c["eps"] is None else c["eps"])


@op("group_norm")
def group_norm(b: Build, c: Call) -> Tensor:
    return b.group_norm(c["input"], c["num_groups"], c["weight"], c["bias"], c["eps"])


@op("instance_norm")
def instance_norm(b: Build, c: Call) -> Tensor:
    return b.group_norm(c["input"], c["input"].shape[1], c["weight"], c["bias"], c["eps"])


@op("max_pool2d")
def max_pool2d(b: Build, c: Call) -> Tensor:
    if two(c["dilation"]) != (1, 1):
        raise Refused("max pooling with dilation")
    k, p = two(c["kernel_size"]), two(c["padding"])
    return b.pool("max_pool", c["self"], k, two(c["stride"]) if c["stride"] else k, p + p, c["ceil_mode"])


@op("avg_pool2d")
def avg_pool2d(b: Build, c: Call) -> Tensor:
    if c.get("divisor_override"):
        raise Refused("average pooling with a divisor of its own")
    k, p = two(c["kernel_size"]), two(c["padding"])
    return b.pool("avg_pool", c["self"], k, two(c["stride"]) if c["stride"] else k, p + p, c["ceil_mode"],
                  c["count_include_pad"])


@op("adaptive_avg_pool2d")
def adaptive_avg_pool2d(b: Build, c: Call) -> Tensor:
    return b.adaptive_avg_pool(c["self"], c.shape()[2:])


@op("adaptive_avg_pool1d")
def adaptive_avg_pool1d(b: Build, c: Call) -> Tensor:
    return b.squeeze(b.adaptive_avg_pool(b.unsqueeze(c["self"], 2), (1, c.shape()[2])), [2])


@op("adaptive_max_pool2d")
def adaptive_max_pool2d(b: Build, c: Call) -> Any:
    x, size = c["self"], c.shape()[2:] if not isinstance(c.node.meta["val"], (list, tuple)) else c["output_size"]
    h, w = x.shape[2:]
    if h % size[0] or w % size[1]:
        raise Refused("adaptive max pooling with windows of several sizes")
    k = (h // size[0], w // size[1])
    return [b.pool("max_pool", x, k, k, (0, 0, 0, 0)), None]


@op("upsample_bilinear2d", "upsample_nearest2d")
def upsample(b: Build, c: Call) -> Tensor:
    mode = "bilinear" if "bilinear" in str(c.node.target) else "nearest"
    return b.resize(c.get("input", c.get("self")), c.shape()[2:], mode, bool(c.get("align_corners")))


# ---- recurrent ----

@op("lstm", "gru")
def recurrent(b: Build, c: Call) -> Any:
    """Unrolled over the sequence."""
    from .recurrent import run

    return run(b, c, "lstm" if "lstm" in str(c.node.target) else "gru")

"""An ONNX file as a model file: inference, and fine-tuning as far as the file allows.

ONNX has no word for "parameter": every named initializer of real numbers that an op reads as a weight becomes one.  Batch norm is
read as trainable, dropout as it stands.  What exporters have lost is said: initializers that carry no name of the source
("onnx::Conv_12", "val_3") are refused by name unless the caller takes them, and convolutions without batch norm are pointed out
as probably folded.  Opset 11 to 22; shape arithmetic is done here, in terms of the batch."""
from __future__ import annotations

from pathlib import Path
from typing import Any, Callable, Optional, Sequence

import numpy as np

from ..build import Build, Const, Tensor
from ..exported import Exported
from ..fuse import fuse
from ..graph import Form, Model, Refused
from ..loss import attach
from ..size import Size, product
from . import proto

TYPES = {1: "float32", 2: "uint8", 3: "int8", 6: "int32", 7: "int64", 9: "bool", 10: "float16", 11: "float64"}
NAMELESS = ("onnx::", "val_", "/", "node_")


def array_of(t: dict) -> np.ndarray:
    if t.get("data_location"):
        raise Refused(f"the tensor {t.get('name', '')} lies in another file")
    dtype = TYPES.get(t.get("data_type", 0))
    if dtype is None:
        raise Refused(f"the tensor {t.get('name', '')} has a type that is not read")
    shape = t["dims"]
    if t.get("raw_data"):
        return np.frombuffer(t["raw_data"], np.dtype(dtype).newbyteorder("<")).reshape(shape).astype(dtype)
    data = t["float_data"] or t["int64_data"] or t["int32_data"] or t["double_data"]
    return np.array(data, dtype).reshape(shape)


def attributes_of(node: dict) -> dict:
    out = {}
    for a in node["attribute"]:
        kind = a.get("type", 0)
        out[a["name"]] = {1: lambda: a.get("f", 0.0), 2: lambda: a.get("i", 0), 3: lambda: a.get("s", b"").decode(),
                          4: lambda: array_of(a["t"]), 6: lambda: a["floats"], 7: lambda: a["ints"],
                          8: lambda: [s.decode() for s in a["strings"]]}.get(kind, lambda: None)()
    return out


class Node:
    def __init__(self, reader: "Reader", raw: dict) -> None:
        self.reader, self.raw = reader, raw
        self.op, self.attributes = raw["op_type"], attributes_of(raw)
        self.inputs = [reader.value(i) if i else None for i in raw["input"]]

    def attr(self, name: str, default: Any = None) -> Any:
        return self.attributes.get(name, default)

    def get(self, i: int) -> Any:
        return self.inputs[i] if i < len(self.inputs) else None

    def numbers(self, i: int, name: str) -> Optional[list]:
        """A list that newer opsets have as an input and older ones as an attribute."""
        v = self.get(i)
        if v is None:
            return self.attributes.get(name)
        if not isinstance(v, Const):
            raise Refused(f"{self.op}: {name} depends on data")
        return list(v.array.reshape(-1))

    def number(self, i: int, name: str, default: Any) -> Any:
        xs = self.numbers(i, name)
        return default if xs is None else xs[0] if isinstance(xs, list) else xs


class Reader:
    def __init__(self, model: dict, training: bool, weights: dict, batch: int) -> None:
        self.graph, self.training, self.weights = model["graph"], training, weights
        self.b = Build(Form(), lambda n, a: weights.__setitem__(n, a), batch)
        self.values: dict[str, Any] = {}
        self.inputs: list = []

    def parameter(self, name: str, array: np.ndarray, state: bool = False) -> Tensor:
        self.weights[name] = array
        conv = not state and array.ndim == 4 and name in self.conv_weights
        shape = tuple(array.shape[d] for d in (2, 3, 1, 0)) if conv else array.shape
        spread = f"normal 0 {float(array.std()):.6g}" if array.size and array.std() else \
            f"constant {float(array.flat[0]) if array.size else 0:.9g} 0"
        v = self.b.form.persistent("state" if state else "param", name, "f32", shape,
                                   spread + (" layout=conv" if conv else ""))
        return Tensor(v, (2, 3, 1, 0) if conv else None)

    def run(self) -> list:
        g = self.graph
        self.conv_weights = {n["input"][1] for n in g["node"] if n["op_type"] == "Conv"}
        statistics = {i for n in g["node"] if n["op_type"] == "BatchNormalization" for i in n["input"][3:5]}
        read_as_weight = weights_read(g)
        names = {t["name"] for t in g["initializer"]}
        for t in g["initializer"]:
            a = array_of(t)
            real = a.dtype.kind == "f" and a.size > 1
            if real and t["name"] in read_as_weight | statistics:
                self.values[t["name"]] = self.parameter(t["name"], a.astype("float32"), t["name"] in statistics)
            else:
                self.values[t["name"]] = Const(a)
        for v in g["input"]:
            if v["name"] not in names:
                self._input(v)
        for raw in g["node"]:
            self._node(raw)
        return [self.value(o["name"]) for o in g["output"]]

    def value(self, name: str) -> Any:
        if name not in self.values:
            raise Refused(f"{name!r} is read before anything makes it")
        return self.values[name]

    def _input(self, v: dict) -> None:
        kind = v["type"]["tensor_type"]
        dims = kind.get("shape", {"dim": []})["dim"]
        shape = tuple(Size(1) if i == 0 else d.get("dim_value", 0) for i, d in enumerate(dims))
        if not shape or any(d == 0 for d in shape[1:]):
            raise Refused(f"the input {v['name']} has an open dimension beside its first")
        order = (0, 2, 3, 1) if len(shape) == 4 else tuple(range(len(shape)))
        type_ = "f32" if kind["elem_type"] == 1 else "i32"
        self.values[v["name"]] = Tensor(self.b.form.input(v["name"], type_, tuple(shape[d] for d in order)), order)
        self.inputs.append((v["name"], shape, order))

    def _node(self, raw: dict) -> None:
        n = Node(self, raw)
        self.b.form.scope = raw.get("name", "")
        where = f"node {raw.get('name') or raw['output'][0]} ({n.op})"
        try:
            known = [x for x in n.inputs if x is not None]
            if n.op in FOLD and all(isinstance(x, Const) for x in known):
                out = FOLD[n.op](n, *[x.array if x is not None else None for x in n.inputs])
                out = [Const(o) for o in out] if isinstance(out, list) else Const(out)
            elif n.op in OPS:
                out = OPS[n.op](self.b, n)
            else:
                raise Refused(f"the op {n.op} is not read")
        except Refused as e:
            raise e if e.where else Refused(e.what, where) from None
        except (ValueError, KeyError, IndexError, TypeError, AttributeError) as e:
            raise Refused(f"{type(e).__name__}: {e}", where) from e
        for name, value in zip(raw["output"], out if isinstance(out, list) else [out]):
            self.values[name] = value


WEIGHTED = ("Conv", "ConvTranspose", "Gemm", "MatMul", "BatchNormalization", "LayerNormalization", "InstanceNormalization",
            "GroupNormalization", "PRelu", "Gather", "Add", "Mul", "LSTM", "GRU")


def weights_read(graph: dict) -> set:
    """Initializers that an op reads as a weight, straight or through Transpose and the like."""
    through = {n["output"][0]: n["input"][0] for n in graph["node"]
               if n["op_type"] in ("Transpose", "Identity", "Reshape", "Unsqueeze", "Squeeze") and n["input"]}
    out = set()
    for n in graph["node"]:
        if n["op_type"] in WEIGHTED:
            for i in n["input"]:
                while i in through:
                    i = through[i]
                out.add(i)
    return out


# ---- what is known beforehand: numpy, with sizes of the batch as objects ----

FOLD: dict[str, Callable] = {}


def _objects(xs: Sequence[np.ndarray]) -> bool:
    return any(x is not None and x.dtype == object for x in xs)


def _axes(n: Node, axes: Any) -> tuple:
    return tuple(int(a) for a in (axes if axes is not None else n.attr("axes", [])))


def _slice(n: Node, x: np.ndarray, *rest: Any) -> np.ndarray:
    starts, ends, axes, steps = (list(rest) + [None] * 4)[:4]
    starts = n.attr("starts") if starts is None else starts
    ends = n.attr("ends") if ends is None else ends
    axes = n.attr("axes", range(len(starts))) if axes is None else axes
    steps = [1] * len(starts) if steps is None else steps
    key = [slice(None)] * x.ndim
    for a, s, e, t in zip(axes, starts, ends, steps):
        key[int(a)] = slice(int(s), int(e) if abs(int(e)) < 2**31 - 1 else None, int(t))
    return x[tuple(key)]


def _unsqueeze(n: Node, x: np.ndarray, axes: Any = None) -> np.ndarray:
    rank = x.ndim + len(_axes(n, axes))
    for a in sorted(a % rank for a in _axes(n, axes)):
        x = np.expand_dims(x, a)
    return x


def _concat(n: Node, *xs: np.ndarray) -> np.ndarray:
    return np.concatenate([x.astype(object) if _objects(xs) else x for x in xs], n.attr("axis"))


def _cast(n: Node, x: np.ndarray) -> np.ndarray:
    return x if x.dtype == object else x.astype(TYPES[n.attr("to")])


def _divide(n: Node, a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return a // b if a.dtype.kind in "iO" else a / b


def _constant(n: Node) -> np.ndarray:
    for k in ("value", "value_float", "value_int", "value_ints", "value_floats"):
        if k in n.attributes:
            return np.asarray(n.attributes[k], {"value_float": "float32", "value_floats": "float32"}.get(k))
    raise Refused("a constant of an unknown kind")


FOLD.update({
    "Constant": _constant, "Identity": lambda n, x: x, "Concat": _concat, "Slice": _slice, "Unsqueeze": _unsqueeze,
    "Squeeze": lambda n, x, axes=None: np.squeeze(x, _axes(n, axes) or None),
    "Gather": lambda n, x, i: np.take(x, i.astype("int64"), n.attr("axis", 0)),
    "Cast": _cast, "Shape": lambda n, x: np.array(x.shape, "int64"), "Add": lambda n, a, b: a + b,
    "Sub": lambda n, a, b: a - b, "Mul": lambda n, a, b: a * b, "Div": _divide, "Neg": lambda n, x: -x,
    "Sqrt": lambda n, x: np.sqrt(x), "Pow": lambda n, a, b: a ** b, "Reciprocal": lambda n, x: 1 / x,
    "Reshape": lambda n, x, s: x.reshape([int(d) for d in s]), "Transpose": lambda n, x: x.transpose(n.attr("perm")),
    "Range": lambda n, a, b, c: np.arange(a, b, c), "Where": lambda n, c, a, b: np.where(c, a, b),
    "Equal": lambda n, a, b: a == b, "Less": lambda n, a, b: a < b, "Greater": lambda n, a, b: a > b,
    "LessOrEqual": lambda n, a, b: a <= b, "GreaterOrEqual": lambda n, a, b: a >= b, "Not": lambda n, x: ~x,
    "And": lambda n, a, b: a & b, "Or": lambda n, a, b: a | b, "Min": lambda n, *x: np.minimum.reduce(x),
    "Max": lambda n, *x: np.maximum.reduce(x), "ReduceProd": lambda n, x, *r: np.prod(x, keepdims=bool(n.attr("keepdims", 1))),
    "Expand": lambda n, x, s: x * np.ones([1 if isinstance(d, Size) else int(d) for d in s], x.dtype),
    "ConstantOfShape": lambda n, s: np.full([1 if isinstance(d, Size) else int(d) for d in s],
                                            n.attr("value", np.zeros(1, "float32")).reshape(-1)[0]),
    "Trilu": lambda n, x, k=None: (np.triu if n.attr("upper", 1) else np.tril)(x, int(k) if k is not None else 0),
    "CumSum": lambda n, x, a: np.cumsum(x, int(a)), "Exp": lambda n, x: np.exp(x), "Log": lambda n, x: np.log(x),
})

# ---- ops ----

OPS: dict[str, Callable] = {}


def op(*names: str) -> Callable:
    def keep(f: Callable) -> Callable:
        for n in names:
            OPS[n] = f
        return f

    return keep


for _theirs, _ours in {"Relu": "relu", "Sigmoid": "sigmoid", "Tanh": "tanh", "Exp": "exp", "Log": "log", "Sqrt": "sqrt",
                       "Abs": "abs"}.items():
    OPS[_theirs] = lambda b, n, _ours=_ours: b.map1(_ours, n.get(0))
for _theirs, _f in {"Erf": "erf", "Sin": "sin", "Cos": "cos", "HardSwish": "hard_swish", "Mish": "mish",
                    "Softplus": "softplus", "Softsign": "softsign", "IsNaN": "is_nan", "Not": "not", "Floor": "floor",
                    "Ceil": "ceil"}.items():
    OPS[_theirs] = lambda b, n, _f=_f: b.function(_f, n.get(0))
for _theirs, _f, _alpha in (("LeakyRelu", "leaky_relu", 0.01), ("Elu", "elu", 1.0), ("Celu", "celu", 1.0)):
    OPS[_theirs] = lambda b, n, _f=_f, _alpha=_alpha: b.function(_f, n.get(0), n.attr("alpha", _alpha))
for _theirs, _ours in {"Add": "add", "Sub": "sub", "Mul": "mul", "Div": "div"}.items():
    OPS[_theirs] = lambda b, n, _ours=_ours: b.map2(_ours, n.get(0), n.get(1))
for _theirs, _how in {"Equal": "equal", "Less": "less", "Greater": "greater", "LessOrEqual": "less_equal",
                      "GreaterOrEqual": "greater_equal", "And": "both", "Or": "either"}.items():
    OPS[_theirs] = lambda b, n, _how=_how: b.compare(_how, n.get(0), n.get(1))


@op("Reciprocal")
def reciprocal(b: Build, n: Node) -> Tensor:
    return b.map1("power", n.get(0), exponent=-1.0)


@op("Neg")
def neg(b: Build, n: Node) -> Tensor:
    return b.neg(n.get(0))


@op("Pow")
def power(b: Build, n: Node) -> Tensor:
    return b.map1("power", n.get(0), exponent=float(n.number(1, "", None)))


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
    return b.clip(n.get(0), n.number(1, "min", None), n.number(2, "max", None))


@op("Max", "Min")
def extreme(b: Build, n: Node) -> Tensor:
    out = n.get(0)
    for x in n.inputs[1:]:
        out = b.maximum(out, x) if n.op == "Max" else b.minimum(out, x)
    return out


@op("Where")
def where(b: Build, n: Node) -> Tensor:
    return b.where(*[Const(x.array.astype("float32"), x.shape) if isinstance(x, Const) else x for x in n.inputs])


@op("Identity", "CastLike")
def same(b: Build, n: Node) -> Any:
    return n.get(0)


@op("Cast")
def cast(b: Build, n: Node) -> Any:
    x = n.get(0)
    return b.cast(x, "f32") if n.attr("to") == 1 and x.type != "f32" else x


@op("Dropout")
def dropout(b: Build, n: Node) -> Any:
    p = float(n.number(1, "ratio", 0.5))
    x = n.get(0)
    return [b.dropout(x, p) if n.reader.training else x, None]


@op("Shape")
def shape(b: Build, n: Node) -> Const:
    dims = n.get(0).shape[n.attr("start", 0):n.attr("end")]
    out = np.empty(len(dims), object)
    out[:] = dims
    return Const(out if any(isinstance(d, Size) for d in dims) else out.astype("int64"))


@op("Reshape")
def reshape(b: Build, n: Node) -> Tensor:
    x = n.get(0)
    to = [d if isinstance(d, Size) else int(d) for d in n.numbers(1, "shape")]
    to = [x.shape[i] if d == 0 and not n.attr("allowzero", 0) else d for i, d in enumerate(to)]
    if -1 in to:
        rest = product(d for d in to if d != -1)
        to[to.index(-1)] = product(x.shape) // rest
    elif isinstance(x.shape[0], Size) and not any(isinstance(d, Size) for d in to):
        raise Refused("a shape with the batch of the exporter in it: export with a dynamic batch")
    return b.reshape(x, tuple(to))


@op("Flatten")
def flatten(b: Build, n: Node) -> Tensor:
    x, axis = n.get(0), n.attr("axis", 1)
    return b.reshape(x, (product(x.shape[:axis]), product(x.shape[axis:])))


@op("Transpose")
def transpose(b: Build, n: Node) -> Tensor:
    x = n.get(0)
    return b.permute(x, n.attr("perm") or list(range(x.rank))[::-1])


@op("Squeeze")
def squeeze(b: Build, n: Node) -> Tensor:
    axes = n.numbers(1, "axes")
    return b.squeeze(n.get(0), [int(a) for a in axes] if axes is not None else range(n.get(0).rank))


@op("Unsqueeze")
def unsqueeze(b: Build, n: Node) -> Tensor:
    x = n.get(0)
    axes = [int(a) for a in n.numbers(1, "axes")]
    for a in sorted(a % (x.rank + len(axes)) for a in axes):
        x = b.unsqueeze(x, a)
    return x


@op("Expand")
def expand(b: Build, n: Node) -> Tensor:
    x, to = b.tensor(n.get(0)), [d if isinstance(d, Size) else int(d) for d in n.numbers(1, "shape")]
    have = (1,) * (len(to) - x.rank) + x.shape
    return b.broadcast(x, tuple(h if t == 1 else t for h, t in zip(have, to)))


@op("Concat")
def concat(b: Build, n: Node) -> Tensor:
    return b.concat(n.inputs, n.attr("axis"))


@op("Slice")
def slice_(b: Build, n: Node) -> Tensor:
    x = n.get(0)
    starts, ends = n.numbers(1, "starts"), n.numbers(2, "ends")
    axes = n.numbers(3, "axes") or range(len(starts))
    steps = n.numbers(4, "steps") or [1] * len(starts)
    for a, s, e, t in zip(axes, starts, ends, steps):
        a = int(a) % x.rank
        if isinstance(x.shape[a], Size):
            if int(s) == 0 and (isinstance(e, Size) or int(e) >= 2**31 - 1):
                continue
            raise Refused("a slice of the batch")
        begin, end, step = slice(int(s), int(e), int(t)).indices(x.shape[a]) if int(t) > 0 else (0, 0, -1)
        if step < 0:
            raise Refused("a slice backwards")
        x = b.slice(x, a, begin, max(0, end - begin)) if step == 1 else b.take(x, a, Const(np.arange(begin, end, step)))
    return x


@op("Split")
def split(b: Build, n: Node) -> list:
    x, axis = n.get(0), n.attr("axis", 0) % n.get(0).rank
    sizes = n.numbers(1, "split") or [x.shape[axis] // len(n.raw["output"])] * len(n.raw["output"])
    out, begin = [], 0
    for s in sizes:
        out.append(b.slice(x, axis, begin, int(s)))
        begin += int(s)
    return out


@op("Pad")
def pad(b: Build, n: Node) -> Tensor:
    x, pads = n.get(0), [int(p) for p in n.numbers(1, "pads")]
    axes = [int(a) for a in n.numbers(3, "axes") or range(len(pads) // 2)]
    half = len(pads) // 2
    each = {a % x.rank: (pads[i], pads[half + i]) for i, a in enumerate(axes)}
    if n.attr("mode", "constant") == "constant":
        return b.pad(x, each, float(n.number(2, "value", 0.0) or 0.0))
    if n.attr("mode") != "reflect":
        raise Refused(f"padding by {n.attr('mode')}")
    for d, (before, after) in each.items():
        x = b.reflect(x, d, before, after) if before or after else x
    return x


@op("Gather")
def gather(b: Build, n: Node) -> Tensor:
    x, ids = b.tensor(n.get(0)), n.get(1)
    if isinstance(ids, Const) and ids.array.ndim == 0:
        return b.select(x, n.attr("axis", 0), int(ids.array))
    return b.take(x, n.attr("axis", 0), ids) if n.attr("axis", 0) else b.gather(x, ids)


@op("ReduceMean", "ReduceSum", "ReduceMax")
def reduce(b: Build, n: Node) -> Tensor:
    axes = n.numbers(1, "axes")
    return b.reduce(n.op[6:].lower(), n.get(0), [int(a) for a in axes or []], bool(n.attr("keepdims", 1)))


@op("Softmax", "LogSoftmax")
def softmax(b: Build, n: Node) -> Tensor:
    return b.softmax(n.get(0), n.attr("axis", -1), "softmax" if n.op == "Softmax" else "log_softmax")


@op("MatMul")
def matmul(b: Build, n: Node) -> Tensor:
    return b.matmul(n.get(0), n.get(1))


@op("Gemm")
def gemm(b: Build, n: Node) -> Tensor:
    if n.attr("transA", 0) or n.attr("alpha", 1.0) != 1 or (n.get(2) is not None and n.attr("beta", 1.0) != 1):
        raise Refused("Gemm with transA or factors")
    return b.linear(n.get(0), n.get(1), n.get(2), transposed=bool(n.attr("transB", 0)))


def pads_of(n: Node, size: Sequence[int], kernel: Sequence[int], stride: Sequence[int], dilation: Sequence[int]) -> list:
    auto = n.attr("auto_pad", "NOTSET")
    if auto in ("NOTSET", ""):
        return list(n.attr("pads", [0, 0, 0, 0]))
    if auto == "VALID":
        return [0, 0, 0, 0]
    total = [max(0, (-(-h // s) - 1) * s + d * (k - 1) + 1 - h) for h, k, s, d in zip(size, kernel, stride, dilation)]
    less, more = [t // 2 for t in total], [t - t // 2 for t in total]
    return less + more if auto == "SAME_UPPER" else more + less


def flat_image(n: Node, names: dict) -> dict:
    """Attributes of a 1-d op as those of an image of height 1."""
    return {k: [d, *v] for k, (v, d) in names.items()}


@op("Conv")
def conv(b: Build, n: Node) -> Tensor:
    x, w = n.get(0), b.tensor(n.get(1))
    one = w.rank == 3
    if w.rank not in (3, 4):
        raise Refused("a convolution of three dimensions")
    stride, dilation = (list(n.attr(k, [1] * (w.rank - 2))) for k in ("strides", "dilations"))
    if one:
        x, w, stride, dilation = b.unsqueeze(x, 2), b.unsqueeze(w, 2), [1, *stride], [1, *dilation]
        p = n.attr("pads", [0, 0])
        pads = [0, p[0], 0, p[1]]
    else:
        pads = pads_of(n, x.shape[2:], w.shape[2:], stride, dilation)
    y = b.conv2d(x, w, n.get(2), stride, pads, dilation, n.attr("group", 1))
    return b.squeeze(y, [2]) if one else y


@op("ConvTranspose")
def conv_transpose(b: Build, n: Node) -> Tensor:
    if n.attr("auto_pad", "NOTSET") not in ("NOTSET", "") or n.attr("output_shape"):
        raise Refused("ConvTranspose with auto_pad or output_shape")
    return b.conv_transpose2d(n.get(0), n.get(1), n.get(2), n.attr("strides", [1, 1]), n.attr("pads", [0, 0, 0, 0]),
                              n.attr("output_padding", [0, 0]), n.attr("dilations", [1, 1]), n.attr("group", 1))


@op("BatchNormalization")
def batch_norm(b: Build, n: Node) -> Any:
    x, gamma, beta, mean, var = n.inputs[:5]
    eps = n.attr("epsilon", 1e-5)
    if not n.reader.training:
        return b.batch_norm_inference(x, gamma, beta, mean, var, eps)
    y, m, inv = b.batch_norm(x, gamma, beta, eps)
    if isinstance(mean, Tensor) and isinstance(var, Tensor):
        rows = product(y.shape[:1] + y.shape[2:])
        b.batch_norm_stats([mean.value, var.value], m, inv, rows, eps, 1.0 - n.attr("momentum", 0.9), False)
    return y


@op("LayerNormalization")
def layer_norm(b: Build, n: Node) -> Tensor:
    x = n.get(0)
    axis = n.attr("axis", -1) % x.rank
    return b.layer_norm(x, n.get(1), n.get(2), n.attr("epsilon", 1e-5), x.rank - axis)


@op("InstanceNormalization")
def instance_norm(b: Build, n: Node) -> Tensor:
    return b.group_norm(n.get(0), n.get(0).shape[1], n.get(1), n.get(2), n.attr("epsilon", 1e-5))


@op("MaxPool", "AveragePool")
def pool(b: Build, n: Node) -> Tensor:
    kernel = n.attr("kernel_shape")
    if len(kernel) != 2 or set(n.attr("dilations", [1])) != {1}:
        raise Refused("pooling of one or three dimensions, or with dilation")
    stride = n.attr("strides", [1, 1])
    pads = pads_of(n, n.get(0).shape[2:], kernel, stride, [1, 1])
    return b.pool("max_pool" if n.op == "MaxPool" else "avg_pool", n.get(0), kernel, stride, pads,
                  bool(n.attr("ceil_mode", 0)), bool(n.attr("count_include_pad", 0)))


@op("GlobalAveragePool")
def global_average_pool(b: Build, n: Node) -> Tensor:
    x = n.get(0)
    return b.reduce("mean", x, range(2, x.rank), True)


@op("GlobalMaxPool")
def global_max_pool(b: Build, n: Node) -> Tensor:
    x = n.get(0)
    return b.reduce("max", x, range(2, x.rank), True)


@op("Resize")
def resize(b: Build, n: Node) -> Tensor:
    x = n.get(0)
    sizes, scales = n.get(3), n.get(2)
    to = [int(s) for s in sizes.array[2:]] if sizes is not None else \
        [int(np.floor(d * s)) for d, s in zip(x.shape[2:], scales.array[2:])]
    mode, how = n.attr("mode", "nearest"), n.attr("coordinate_transformation_mode", "half_pixel")
    if mode == "nearest" and (how == "asymmetric" and n.attr("nearest_mode") == "floor" or
                              all(t % d == 0 for t, d in zip(to, x.shape[2:]))):
        return b.resize(x, to, "nearest")
    if mode == "linear" and how in ("half_pixel", "pytorch_half_pixel", "align_corners"):
        return b.resize(x, to, "bilinear", how == "align_corners")
    raise Refused(f"Resize by {mode}, {how}")


# ---- the whole ----

def notes_of(model: dict) -> tuple[list, list]:
    """What was lost, in words; and the names of initializers that carry none of the source."""
    g = model["graph"]
    ops = [n["op_type"] for n in g["node"]]
    notes = []
    biased = sum(n["op_type"] == "Conv" and len(n["input"]) > 2 for n in g["node"])
    if biased and "BatchNormalization" not in ops and biased == ops.count("Conv"):
        notes.append("every convolution has a bias and there is no batch norm: it was probably folded; what is trained is "
                     "another network than the source's")
    if "BatchNormalization" in ops:
        notes.append("batch norm is read as trainable; its running variance is the population's, as ONNX has it")
    if "Dropout" not in ops:
        notes.append("the file has no dropout; exporters leave it out")
    read = weights_read(g)
    nameless = [t["name"] for t in g["initializer"] if t["name"].startswith(NAMELESS) and t["name"] in read
                and product(t["dims"]) > 1 and t.get("data_type") == 1]
    return notes, nameless


def read(path: str | Path, loss: str = "cross_entropy", nameless: bool = False, batch: int = 5,
         name: Optional[str] = None) -> Exported:
    """The file as a model.  Refused for weights without a name of the source, unless `nameless`."""
    try:
        return _read(path, loss, nameless, batch, name)
    except (ValueError, ArithmeticError, KeyError, IndexError, TypeError, AttributeError) as e:
        raise Refused(f"{path} is malformed: {type(e).__name__}: {e}") from e


def _read(path: str | Path, loss: str, nameless: bool, batch: int, name: Optional[str]) -> Exported:
    try:
        model = proto.parse("Model", Path(path).read_bytes())
    except proto.Malformed as e:
        raise Refused(f"{path} is no ONNX file: {e}") from None
    if "graph" not in model:
        raise Refused(f"{path} is no ONNX file")
    version = max((o.get("version", 0) for o in model["opset_import"] if o.get("domain", "") in ("", "ai.onnx")), default=0)
    if not 11 <= version <= 22:
        raise Refused(f"{path} is of opset {version}; 11 to 22 are read")
    notes, lost = notes_of(model)
    if lost and not nameless:
        raise Refused(f"{len(lost)} weights have no name of the source ({', '.join(lost[:3])}): export with "
                      "do_constant_folding=False or optimize=False, or take them as they are (--nameless)")
    weights: dict = {}
    forms, classes, orders, inputs = [], 0, [], []
    for training in (True, False):
        r = Reader(model, training, weights, batch)
        outputs = [r.b.whole(o) for o in r.run()]
        classes, orders = attach(r.b, outputs, loss)
        inputs = r.inputs
        fuse(r.b.form)
        forms.append(r.b.form)
    turned = {n: (2, 3, 1, 0) for n in weights if "layout=conv" in forms[0].named[n].entry.tail} if weights else {}
    made = Model(name or model["graph"].get("name") or "onnx", classes, forms[0], forms[1])
    return Exported(made, weights, inputs, orders, turned, loss, {}, {}, notes)

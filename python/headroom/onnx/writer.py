"""A trained model as an ONNX file for inference: the eval form of a model file, opset 18.

Weights stand under their names and in the layout of their files ((O, I, KH, KW), (out, in)); batch norm is not folded.  Images are
(N, C, H, W) from end to end, as in Build: each value carries the order of its dimensions, and a Transpose is written only where
an op needs another order.  The batch stays open (`batch`)."""
from __future__ import annotations

from pathlib import Path
from typing import Any, Callable, Mapping, Optional, Sequence

import numpy as np

from ..build import inverse
from ..file import dims
from ..graph import Entry, Model, Refused
from ..size import Dim, Size
from . import proto

OPSET = 18
ELEMENT = {"f32": 1, "u8": 2, "i32": 6, "i64": 7, "f16": 10, "bf16": 16}
NCHW = (0, 3, 1, 2)
WEIGHT = (3, 2, 0, 1)


class Name:
    """A value of the file: dimension i of it is dimension order[i] of ours."""

    def __init__(self, name: str, order: Optional[Sequence[int]] = None) -> None:
        self.name, self.order = name, tuple(order) if order is not None else None


def floats(e: Entry, key: str, default: float) -> float:
    return float(e.attributes.get(key, default))


def two(e: Entry, key: str, default: int) -> list[int]:
    text = e.attributes.get(key)
    if text is None:
        return [default, default]
    values = [int(x) for x in text.split("x")]
    return values * 2 if len(values) == 1 else values


class Writer:
    def __init__(self, model: Model, weights: Mapping[str, np.ndarray], channels_first: bool) -> None:
        self.model, self.weights, self.channels_first = model, weights, channels_first
        self.nodes: list = []
        self.initializers: list = []
        self.inputs: list = []
        self.values: dict = {}
        self.ranks: dict = {}
        self.count = 0
        self.batch: Optional[str] = None

    # ---- pieces ----

    def fresh(self) -> str:
        self.count += 1
        return f"v{self.count}"

    def node(self, op: str, inputs: Sequence[str], name: Optional[str] = None, outputs: int = 1, **attributes: Any) -> str:
        out = name or self.fresh()
        outs = [out] + [self.fresh() for _ in range(outputs - 1)]
        self.nodes.append({"op_type": op, "input": list(inputs), "output": outs, "name": f"n{len(self.nodes)}_{op}",
                           "attribute": [attribute(k, v) for k, v in attributes.items() if v is not None]})
        return out

    def initializer(self, array: np.ndarray, name: Optional[str] = None) -> str:
        name = name or f"c{len(self.initializers)}"
        self.initializers.append(tensor(np.asarray(array), name))
        return name

    def ints(self, xs: Sequence[int]) -> str:
        return self.initializer(np.array(xs, "int64"))

    def shape(self, shape: Sequence[Dim]) -> str:
        """A shape as a value; in terms of the batch where it must be."""
        if not any(isinstance(d, Size) for d in shape):
            return self.ints([int(d) for d in shape])
        assert self.batch is not None
        parts = []
        for d in shape:
            if isinstance(d, Size):
                part = self.batch if d.per == 1 else self.node("Mul", [self.batch, self.ints([d.per])])
                parts.append(self.node("Add", [part, self.ints([d.plus])]) if d.plus else part)
            else:
                parts.append(self.ints([d]))
        return self.node("Concat", parts, axis=0)

    def plain(self, v: Name) -> str:
        if v.order is None or list(v.order) == list(range(len(v.order))):
            return v.name
        return self.node("Transpose", [v.name], perm=inverse(v.order))

    def lie(self, v: Name, order: Sequence[int]) -> str:
        have = v.order if v.order is not None else tuple(range(len(order)))
        if tuple(have) == tuple(order):
            return v.name
        return self.node("Transpose", [v.name], perm=[list(have).index(d) for d in order])

    def get(self, e: Entry, i: int) -> Name:
        v = e.inputs[i]
        return self.values[id(v.entry), v.index]

    def put(self, e: Entry, name: str, order: Optional[Sequence[int]] = None, index: int = 0) -> None:
        self.values[id(e), index] = Name(name, order)

    # ---- the form ----

    def run(self) -> bytes:
        form = self.model.eval
        wanted = [(n, v) for n, v, _ in form.results if n != "loss"]
        form.results = [(n, v, False) for n, v in wanted]
        outputs = []
        needed = needed_by(wanted)
        for e in form.live():
            if id(e) in needed:
                self.entry(e)
        for name, v in wanted:
            given = self.values[id(v.entry), v.index]
            image = given.order is not None and tuple(given.order) == NCHW and self.channels_first
            last = given.name if image else self.plain(given)
            self.node("Identity", [last], name=name)
            outputs.append({"name": name, "type": {"tensor_type": {"elem_type": 1}}})
        graph = {"name": self.model.name, "node": self.nodes, "initializer": self.initializers, "input": self.inputs,
                 "output": outputs}
        return proto.serialize("Model", {"ir_version": 8, "producer_name": "headroom", "graph": graph,
                                         "opset_import": [{"domain": "", "version": OPSET}]})

    def entry(self, e: Entry) -> None:
        if e.kind == "input":
            self.input(e)
        elif e.kind in ("param", "state"):
            array = self.weights[e.name]
            self.put(e, self.initializer(np.asarray(array, "float32"), e.name), WEIGHT if "layout=conv" in e.tail else None)
        elif e.kind == "fill":
            type_ = {"f32": "float32", "i32": "int32"}[e.outputs[0].type]
            c = self.initializer(np.array(e.number, type_))
            self.put(e, self.node("Expand", [c, self.shape(e.outputs[0].shape)]))
        elif e.kind == "constant":
            type_ = {"f32": "<f4", "i32": "<i4", "i64": "<i8", "u8": "u1"}[e.outputs[0].type]
            self.put(e, self.initializer(np.frombuffer(e.data, type_).reshape(e.outputs[0].shape)))
        elif e.op in OPS:
            OPS[e.op](self, e)
        else:
            raise Refused(f"{e.op} ({e.scope}) cannot be written as ONNX")

    def input(self, e: Entry) -> None:
        v = e.outputs[0]
        image = len(v.shape) == 4 and v.type == "f32" and self.channels_first
        order = NCHW if image else tuple(range(len(v.shape)))
        shape = [{"dim_param": "batch"} if isinstance(v.shape[d], Size) else {"dim_value": v.shape[d]} for d in order]
        self.inputs.append({"name": e.name, "type": {"tensor_type": {"elem_type": ELEMENT[v.type], "shape": {"dim": shape}}}})
        self.put(e, e.name, order)
        if self.batch is None and isinstance(v.shape[0], Size):
            whole = self.node("Shape", [e.name])
            self.batch = self.node("Slice", [whole, self.ints([0]), self.ints([1])])


def needed_by(wanted: Sequence[tuple]) -> set:
    out: set = set()
    stack = [v.entry for _, v in wanted]
    while stack:
        e = stack.pop()
        if id(e) not in out:
            out.add(id(e))
            stack += [v.entry for v in e.inputs]
    return out


def attribute(name: str, value: Any) -> dict:
    if isinstance(value, bool) or isinstance(value, (int, np.integer)):
        return {"name": name, "i": int(value), "type": 2}
    if isinstance(value, float):
        return {"name": name, "f": value, "type": 1}
    if isinstance(value, str):
        return {"name": name, "s": value.encode(), "type": 3}
    return {"name": name, "ints": [int(x) for x in value], "type": 7}


def tensor(a: np.ndarray, name: str) -> dict:
    types = {"float32": 1, "uint8": 2, "int32": 6, "int64": 7}
    return {"name": name, "dims": list(a.shape), "data_type": types[str(a.dtype)], "raw_data": np.ascontiguousarray(a).tobytes()}


# ---- ops ----

OPS: dict[str, Callable] = {}


def op(*names: str) -> Callable:
    def keep(f: Callable) -> Callable:
        for n in names:
            OPS[n] = f
        return f

    return keep


def _unary(ours: str, theirs: str) -> None:
    def f(w: Writer, e: Entry) -> None:
        v = w.get(e, 0)
        w.put(e, w.node(theirs, [v.name]), v.order)

    OPS[ours] = f


for _ours, _theirs in {"relu": "Relu", "sigmoid": "Sigmoid", "tanh": "Tanh", "exp": "Exp", "log": "Log", "sqrt": "Sqrt",
                       "abs": "Abs", "dropout": "Identity"}.items():
    _unary(_ours, _theirs)


@op("rsqrt")
def rsqrt(w: Writer, e: Entry) -> None:
    v = w.get(e, 0)
    w.put(e, w.node("Reciprocal", [w.node("Sqrt", [v.name])]), v.order)


@op("silu")
def silu(w: Writer, e: Entry) -> None:
    v = w.get(e, 0)
    w.put(e, w.node("Mul", [v.name, w.node("Sigmoid", [v.name])]), v.order)


def scalar(w: Writer, x: float) -> str:
    return w.initializer(np.array(x, "float32"))


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


@op("function")
def function(w: Writer, e: Entry) -> None:
    v, f, alpha = w.get(e, 0), e.attributes.get("f", "erf"), floats(e, "alpha", 1)
    plain = {"erf": "Erf", "sin": "Sin", "cos": "Cos", "tan": "Tan", "atan": "Atan", "sinh": "Sinh", "cosh": "Cosh",
             "mish": "Mish", "hard_swish": "HardSwish", "softsign": "Softsign", "sign": "Sign", "floor": "Floor",
             "ceil": "Ceil", "round": "Round"}
    with_alpha = {"elu": "Elu", "celu": "Celu", "leaky_relu": "LeakyRelu"}
    if f in plain:
        y = w.node(plain[f], [v.name])
    elif f in with_alpha:
        y = w.node(with_alpha[f], [v.name], alpha=alpha)
    elif f == "hard_sigmoid":
        y = w.node("HardSigmoid", [v.name], alpha=1 / 6, beta=0.5)
    elif f == "softplus" and alpha == 1:
        y = w.node("Softplus", [v.name])
    elif f == "not":
        y = w.node("Cast", [w.node("Equal", [v.name, scalar(w, 0.0)])], to=1)
    else:
        raise Refused(f"the function {f} ({e.scope}) cannot be written as ONNX")
    w.put(e, y, v.order)


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


@op("matmul")
def matmul(w: Writer, e: Entry) -> None:
    a, b = w.plain(w.get(e, 0)), w.plain(w.get(e, 1))
    if e.attributes.get("transpose-a") == "true":
        a = swapped(w, a, rank_of(e.inputs[0]))
    if e.attributes.get("transpose-b") == "true":
        b = swapped(w, b, rank_of(e.inputs[1]))
    y = w.node("MatMul", [a, b])
    if len(e.inputs) > 2:
        y = w.node("Add", [y, w.plain(w.get(e, 2))])
    w.put(e, y)


def swapped(w: Writer, name: str, rank: int) -> str:
    return w.node("Transpose", [name], perm=list(range(rank - 2)) + [rank - 1, rank - 2])


def rank_of(v: Any) -> int:
    """From what made it: model files do not say the shapes of nodes."""
    e = v.entry
    if e.kind != "node":
        return len(v.shape)
    if e.op in ("reshape", "broadcast_to"):
        return len(dims(e.attributes["to"], "x"))
    if e.op == "gather":
        return rank_of(e.inputs[0]) + rank_of(e.inputs[1]) - 1
    if e.op in ("mean", "sum", "max"):
        axes = e.attributes.get("axes")
        n = len(axes.split("x")) if axes else rank_of(e.inputs[0])
        return rank_of(e.inputs[0]) - (0 if e.attributes.get("keep") == "true" else n)
    if e.op in ("add", "sub", "mul", "div", "maximum", "minimum", "compare", "where", "prelu"):
        return max(rank_of(v) for v in e.inputs)
    if e.op == "global_avg_pool":
        return 2
    if e.op == "attention_packed":
        return 4
    return rank_of(e.inputs[0])


@op("conv2d")
def conv2d(w: Writer, e: Entry) -> None:
    inputs = [w.lie(w.get(e, 0), NCHW), w.lie(w.get(e, 1), WEIGHT)]
    if len(e.inputs) > 2:
        inputs.append(w.plain(w.get(e, 2)))
    pad = two(e, "pad", 0)
    w.put(e, w.node("Conv", inputs, strides=two(e, "stride", 1), pads=pad + pad, dilations=two(e, "dilation", 1),
                    group=int(e.attributes.get("groups", 1))), NCHW)


@op("conv2d_input")
def conv_transpose(w: Writer, e: Entry) -> None:
    inputs = [w.lie(w.get(e, 0), NCHW), w.lie(w.get(e, 1), WEIGHT)]
    w.put(e, w.node("ConvTranspose", inputs, strides=two(e, "stride", 1), dilations=two(e, "dilation", 1),
                    group=int(e.attributes.get("groups", 1)), output_shape=two(e, "size", 1)), NCHW)


@op("max_pool", "avg_pool")
def pool(w: Writer, e: Entry) -> None:
    pad, kernel = two(e, "pad", 0), two(e, "kernel", 1)
    stride = two(e, "stride", 1) if "stride" in e.attributes else kernel
    more = {} if e.op == "max_pool" else {"count_include_pad": int(e.attributes.get("without-pad") != "true")}
    w.put(e, w.node("MaxPool" if e.op == "max_pool" else "AveragePool", [w.lie(w.get(e, 0), NCHW)], kernel_shape=kernel,
                    strides=stride, pads=pad + pad, **more), NCHW)


@op("global_avg_pool")
def global_avg_pool(w: Writer, e: Entry) -> None:
    y = w.node("GlobalAveragePool", [w.lie(w.get(e, 0), NCHW)])
    w.put(e, w.node("Flatten", [y], axis=1))


@op("batch_norm_inference")
def batch_norm(w: Writer, e: Entry) -> None:
    rank = rank_of(e.inputs[0])
    order = [0, rank - 1] + list(range(1, rank - 1))
    inputs = [w.lie(w.get(e, 0), order)] + [w.plain(w.get(e, i)) for i in range(1, 5)]
    w.put(e, w.node("BatchNormalization", inputs, epsilon=floats(e, "eps", 1e-5)), order)


@op("layer_norm")
def layer_norm(w: Writer, e: Entry) -> None:
    w.put(e, w.node("LayerNormalization", [w.plain(w.get(e, i)) for i in range(3)], axis=-1, epsilon=floats(e, "eps", 1e-5)))


@op("rms_norm")
def rms_norm(w: Writer, e: Entry) -> None:
    x = w.plain(w.get(e, 0))
    mean = w.node("ReduceMean", [w.node("Mul", [x, x]), w.ints([-1])], keepdims=1)
    inv = w.node("Reciprocal", [w.node("Sqrt", [w.node("Add", [mean, scalar(w, floats(e, "eps", 1e-5))])])])
    w.put(e, w.node("Mul", [w.node("Mul", [x, inv]), w.plain(w.get(e, 1))]))


@op("group_norm")
def group_norm(w: Writer, e: Entry) -> None:
    x = w.lie(w.get(e, 0), NCHW)
    groups = int(e.attributes.get("groups", 32))
    shape = w.node("Shape", [x])
    flat = w.node("Reshape", [x, w.ints([0, groups, -1])])
    one, zero = w.initializer(np.ones(groups, "float32")), w.initializer(np.zeros(groups, "float32"))
    y = w.node("Reshape", [w.node("InstanceNormalization", [flat, one, zero], epsilon=floats(e, "eps", 1e-5)), shape])
    gamma, beta = (w.node("Reshape", [w.plain(w.get(e, i)), w.ints([-1, 1, 1])]) for i in (1, 2))
    w.put(e, w.node("Add", [w.node("Mul", [y, gamma]), beta]), NCHW)


@op("softmax", "log_softmax")
def softmax(w: Writer, e: Entry) -> None:
    w.put(e, w.node("Softmax" if e.op == "softmax" else "LogSoftmax", [w.plain(w.get(e, 0))],
                    axis=int(e.attributes.get("axis", -1))))


@op("mean", "sum", "max")
def reduce(w: Writer, e: Entry) -> None:
    name = {"mean": "ReduceMean", "sum": "ReduceSum", "max": "ReduceMax"}[e.op]
    axes = [int(a) for a in e.attributes["axes"].split("x")] if e.attributes.get("axes") else list(range(rank_of(e.inputs[0])))
    keep = int(e.attributes.get("keep") == "true")
    v = w.get(e, 0)
    if v.order is not None and keep:
        inputs, order = [v.name], v.order
        axes = [list(v.order).index(a) for a in axes]
    else:
        inputs, order = [w.plain(v)], None
    w.put(e, w.node(name, inputs + [w.ints(axes)], keepdims=keep), order)


@op("reshape")
def reshape(w: Writer, e: Entry) -> None:
    to = dims(e.attributes["to"], "x")
    open_ = sum(isinstance(d, Size) or d == -1 for d in to)
    shape = w.ints([-1 if isinstance(d, Size) else d for d in to]) if open_ <= 1 else w.shape(to)
    w.put(e, w.node("Reshape", [w.plain(w.get(e, 0)), shape]))


@op("broadcast_to")
def broadcast_to(w: Writer, e: Entry) -> None:
    w.put(e, w.node("Expand", [w.plain(w.get(e, 0)), w.shape(dims(e.attributes["to"], "x"))]))


@op("transpose")
def transpose(w: Writer, e: Entry) -> None:
    order = [int(d) for d in e.attributes["order"].split("x")] if "order" in e.attributes else None
    w.put(e, w.node("Transpose", [w.plain(w.get(e, 0))], perm=order))


@op("slice")
def slice_(w: Writer, e: Entry) -> None:
    begin = [int(d) for d in e.attributes.get("begin", "").split("x") if d]
    size = dims(e.attributes["size"], "x")
    begin += [0] * (len(size) - len(begin))
    axes = [i for i, s in enumerate(size) if not isinstance(s, Size) and not (begin[i] == 0 and s == -1)]
    ends = [2**62 if size[i] == -1 else begin[i] + size[i] for i in axes]
    w.put(e, w.node("Slice", [w.plain(w.get(e, 0)), w.ints([begin[i] for i in axes]), w.ints(ends), w.ints(axes)]))


@op("pad")
def pad(w: Writer, e: Entry) -> None:
    rank = rank_of(e.inputs[0])
    sides = [[int(d) for d in e.attributes.get(k, "").split("x") if d] for k in ("before", "after")]
    sides = [s + [0] * (rank - len(s)) for s in sides]
    w.put(e, w.node("Pad", [w.plain(w.get(e, 0)), w.ints(sides[0] + sides[1]), scalar(w, floats(e, "value", 0))]))


@op("concat")
def concat(w: Writer, e: Entry) -> None:
    vs = [w.get(e, i) for i in range(len(e.inputs))]
    axis = int(e.attributes.get("axis", 0))
    if vs[0].order is not None and all(v.order == vs[0].order for v in vs) and axis >= 0:
        w.put(e, w.node("Concat", [v.name for v in vs], axis=list(vs[0].order).index(axis)), vs[0].order)
    else:
        w.put(e, w.node("Concat", [w.plain(v) for v in vs], axis=axis))


@op("gather")
def gather(w: Writer, e: Entry) -> None:
    w.put(e, w.node("Gather", [w.plain(w.get(e, 0)), w.plain(w.get(e, 1))], axis=0))


@op("cast")
def cast(w: Writer, e: Entry) -> None:
    v = w.get(e, 0)
    w.put(e, w.node("Cast", [v.name], to=ELEMENT[e.attributes.get("to", "f32")]), v.order)


@op("resize")
def resize(w: Writer, e: Entry) -> None:
    x = w.lie(w.get(e, 0), NCHW)
    size = w.ints([int(e.attributes["height"]), int(e.attributes["width"])])
    nc = w.node("Slice", [w.node("Shape", [x]), w.ints([0]), w.ints([2])])
    nearest = e.attributes.get("mode", "nearest") == "nearest"
    w.put(e, w.node("Resize", [x, "", "", w.node("Concat", [nc, size], axis=0)], mode="nearest" if nearest else "linear",
                    coordinate_transformation_mode="asymmetric" if nearest else "pytorch_half_pixel",
                    nearest_mode="floor" if nearest else None), NCHW)


@op("attention")
def attention(w: Writer, e: Entry) -> None:
    """MatMul, Softmax, MatMul; scores whole, as ONNX has it before opset 23."""
    q, k, v = (w.lie(w.get(e, i), order) for i, order in ((0, (0, 2, 1, 3)), (1, (0, 2, 3, 1)), (2, (0, 2, 1, 3))))
    scale = floats(e, "scale", 0)
    if not scale:
        depth = w.node("Cast", [w.node("Slice", [w.node("Shape", [q]), w.ints([3]), w.ints([4])])], to=1)
        factor = w.node("Reciprocal", [w.node("Sqrt", [depth])])
    else:
        factor = scalar(w, scale)
    scores = w.node("Mul", [w.node("MatMul", [q, k]), factor])
    if e.attributes.get("causal") == "true":
        whole = w.node("Slice", [w.node("Shape", [scores]), w.ints([2]), w.ints([4])])
        hidden = w.node("Expand", [scalar(w, -1e30), whole])
        scores = w.node("Add", [scores, w.node("Trilu", [hidden, w.initializer(np.array(1, "int64"))], upper=1)])
    w.put(e, w.node("MatMul", [w.node("Softmax", [scores], axis=-1), v]), (0, 2, 1, 3))


@op("lstm_cell")
def lstm_cell(w: Writer, e: Entry) -> None:
    i, f, g, o = parts(w, w.plain(w.get(e, 0)), 4)
    i, f, o = (w.node("Sigmoid", [x]) for x in (i, f, o))
    c = w.node("Add", [w.node("Mul", [f, w.plain(w.get(e, 1))]), w.node("Mul", [i, w.node("Tanh", [g])])])
    w.put(e, w.node("Mul", [o, w.node("Tanh", [c])]))
    w.put(e, c, index=1)


@op("gru_cell")
def gru_cell(w: Writer, e: Entry) -> None:
    (xr, xz, xn), (hr, hz, hn) = (parts(w, w.plain(w.get(e, i)), 3) for i in (0, 1))
    r, z = (w.node("Sigmoid", [w.node("Add", [a, b])]) for a, b in ((xr, hr), (xz, hz)))
    new = w.node("Tanh", [w.node("Add", [xn, w.node("Mul", [r, hn])])])
    h = w.plain(w.get(e, 2))
    w.put(e, w.node("Add", [new, w.node("Mul", [z, w.node("Sub", [h, new])])]))


def parts(w: Writer, x: str, count: int) -> list[str]:
    """Equal pieces of the last dimension."""
    first = w.node("Split", [x], outputs=count, axis=-1, num_outputs=count)
    return [first, *w.nodes[-1]["output"][1:]]


def write(model: Model, weights: Mapping[str, np.ndarray], path: str | Path, channels_first: bool = True) -> None:
    """`weights`: by name, as in weight files; a checkpoint's further tensors are ignored."""
    Path(path).write_bytes(Writer(model, weights, channels_first).run())

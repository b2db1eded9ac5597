"""A trained model as an ONNX file for inference: the eval form of a model file, opset 18.

Weights stand under their names and in the layout of their files ((O, I, KH, KW), (out, in)); batch norm is not folded.  Images are
(N, C, H, W) from end to end, as in Build: each value carries the order of its dimensions, and a Transpose is written only where
an op needs another order.  The batch stays open (`batch`)."""
from __future__ import annotations

from pathlib import Path
from typing import Any, Mapping, Optional, Sequence

import numpy as np

from ..build import inverse
from ..file import dims
from ..graph import Entry, Model, Refused
from ..size import Dim, Size
from ..table import Table
from . import proto

OPSET = 18
ELEMENT = {"f32": 1, "u8": 2, "i8": 3, "i32": 6, "i64": 7, "f16": 10, "bf16": 16}
NCHW = (0, 3, 1, 2)
WEIGHT = (3, 2, 0, 1)


class Name:
    """A value of the file: dimension i of it is dimension order[i] of ours."""

    def __init__(self, name: str, order: Optional[Sequence[int]] = None) -> None:
        self.name, self.order = name, tuple(order) if order is not None else None


def floats(e: Entry, key: str, default: float) -> float:
    return float(e.attributes.get(key, default))


def is_true(e: Entry, key: str) -> bool:
    return e.attributes.get(key) == "true"


def axis_of(e: Entry, rank: int, default: int = 0) -> int:
    return int(e.attributes.get("axis", default)) % rank


def numbers(e: Entry, key: str) -> list[int]:
    return [int(d) for d in e.attributes.get(key, "").split("x") if d]


def pads_of(e: Entry) -> list[int]:
    """Top, left, bottom, right, as ONNX has them."""
    pad = numbers(e, "pad") or [0]
    return pad if len(pad) == 4 else (pad * 2 if len(pad) == 1 else pad) * 2


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
        array = np.asarray(array)
        if name is None and array.dtype.kind == "f" and array.size > 1:  # no weight: a reader may take initializers for parameters
            return self.node("Constant", [], value=array)
        name = name or f"c{len(self.initializers)}"
        self.initializers.append(tensor(array, name))
        return name

    def ints(self, xs: Sequence[int]) -> str:
        return self.initializer(np.array(xs, "int64"))

    def shape(self, shape: Sequence[Dim]) -> str:
        """A shape as a value; in terms of the batch where it must be."""
        if not any(isinstance(d, Size) for d in shape):
            return self.ints([d for d in shape if isinstance(d, int)])
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
        if not wanted:
            raise Refused("the model has no result but its loss, so there is nothing to infer")
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
            type_ = {"f32": "<f4", "i32": "<i4", "i64": "<i8", "u8": "u1", "i8": "i1"}[e.outputs[0].type]
            self.put(e, self.initializer(np.frombuffer(e.data, type_).reshape(e.outputs[0].shape)))
        elif e.op in OPS:
            OPS[e.op](self, e)
            for i in range(len(e.outputs)):
                self.ranks[id(e), i] = self.rank_made(e, i)
        else:
            raise Refused(f"{e.op} ({e.scope}) cannot be written as ONNX")

    def rank(self, v: Any) -> int:
        """Model files do not say the shapes of nodes."""
        return self.ranks[id(v.entry), v.index] if v.entry.kind == "node" else len(v.shape)

    def rank_made(self, e: Entry, index: int) -> int:
        ranks = [self.rank(v) for v in e.inputs]
        if e.op in ("reshape", "broadcast_to"):
            return len(dims(e.attributes["to"], "x"))
        if e.op == "gather":
            return ranks[0] + ranks[1] - 1
        if e.op in ("mean", "sum", "max"):
            axes = e.attributes.get("axes")
            return ranks[0] - (0 if e.attributes.get("keep") == "true" else len(axes.split("x")) if axes else ranks[0])
        if e.op in ("matmul", "add", "sub", "mul", "div", "maximum", "minimum", "compare", "where", "prelu"):
            return max(ranks[:2] if e.op == "matmul" else ranks)
        return {"global_avg_pool": 2, "attention_packed": 4}.get(e.op, ranks[0])

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
    if isinstance(value, np.ndarray):
        return {"name": name, "t": tensor(value, name), "type": 4}
    return {"name": name, "ints": [int(x) for x in value], "type": 7}


def tensor(a: np.ndarray, name: str) -> dict:
    types = {"float32": 1, "uint8": 2, "int8": 3, "int32": 6, "int64": 7}
    return {"name": name, "dims": list(a.shape), "data_type": types[str(a.dtype)], "raw_data": np.ascontiguousarray(a).tobytes()}


OPS = Table()
op = OPS.op


def scalar(w: Writer, x: float) -> str:
    return w.initializer(np.array(x, "float32"))


def write(model: Model, weights: Mapping[str, np.ndarray], path: str | Path, channels_first: bool = True) -> None:
    """`weights`: by name, as in weight files; a checkpoint's further tensors are ignored.  Those of `headroom quantize` are
    written with QuantizeLinear and DequantizeLinear."""
    from . import write_elements, write_layers, write_shapes
    from .quantized import QuantizedWriter

    assert write_elements and write_layers and write_shapes
    form = QuantizedWriter if any(name.endswith(".weight_scale") for name in weights) else Writer
    Path(path).write_bytes(form(model, weights, channels_first).run())

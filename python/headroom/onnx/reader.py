"""An ONNX file as a model file: inference, and fine-tuning as far as the file allows.

ONNX has no word for "parameter": every named initializer of real numbers that an op reads as a weight becomes one.  Batch norm is
read as trainable, dropout as it stands.  What exporters have lost is said: initializers that carry no name of the source
("onnx::Conv_12", "val_3") are refused by name unless the caller takes them, and convolutions without batch norm are pointed out
as probably folded.  Opset 11 to 22; shape arithmetic is done here, in terms of the batch."""
from __future__ import annotations

import math
from pathlib import Path
from typing import Any, Callable, Optional

import numpy as np

from ..build import Build, Const, Tensor
from ..exported import Exported
from ..fuse import fuse
from ..graph import Form, Model, Refused
from ..loss import attach
from ..size import Size
from ..table import Table
from . import proto

TYPES = {1: "float32", 2: "uint8", 3: "int8", 6: "int32", 7: "int64", 9: "bool", 10: "float16", 11: "float64"}
NAMELESS = ("onnx::", "val_", "/", "node_")


def beside(t: dict, folder: Path) -> dict:
    """A tensor whose bytes lie in a file of its own, in the folder of the model and nowhere else, with them."""
    where = {e["key"]: e["value"] for e in t["external_data"] if "key" in e and "value" in e}
    name = where.get("location", "")
    path = folder / name
    if not name or Path(name).is_absolute() or ".." in Path(name).parts or path.is_symlink():
        raise Refused(f"the tensor {t.get('name', '')} lies in {name!r}, which is not a file of the model's folder")
    offset, length = int(where.get("offset", 0)), int(where.get("length", -1))
    with open(path, "rb") as f:
        if offset < 0 or offset > path.stat().st_size:
            raise Refused(f"the tensor {t.get('name', '')} begins behind the end of {name}")
        f.seek(offset)
        data = f.read(length) if length >= 0 else f.read()
    return {**t, "raw_data": data, "data_location": 0}


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


ATTRIBUTES: dict[int, Callable] = {  # by AttributeProto.type
    1: lambda a: a.get("f", 0.0), 2: lambda a: a.get("i", 0), 3: lambda a: a.get("s", b"").decode(), 4: lambda a: array_of(a["t"]),
    6: lambda a: a["floats"], 7: lambda a: a["ints"], 8: lambda a: [s.decode() for s in a["strings"]]}


def attributes_of(node: dict) -> dict:
    nothing: Callable = lambda a: None
    return {a["name"]: ATTRIBUTES.get(a.get("type", 0), nothing)(a) for a in node["attribute"]}


FOLD: dict[str, Callable] = {}  # what is known beforehand: numpy, with sizes of the batch as objects
OPS = Table()
op = OPS.op


class Node:
    def __init__(self, reader: "Reader", raw: dict) -> None:
        self.reader, self.raw = reader, raw
        self.op, self.attributes = raw["op_type"], attributes_of(raw)
        self.inputs: list[Any] = [reader.value(i) if i else None for i in raw["input"]]

    def attr(self, name: str, default: Any = None) -> Any:
        return self.attributes.get(name, default)

    @property
    def opset(self) -> int:
        return self.reader.opset

    def get(self, i: int) -> Any:
        return self.inputs[i] if i < len(self.inputs) else None

    def numbers(self, i: int, name: str) -> Any:
        """A list that newer opsets have as an input and older ones as an attribute; None where there is neither."""
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
        self.opset = opset_of(model)
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
        first = len(shape) == 4 and not channels_last(self.graph, v["name"])
        order = (0, 2, 3, 1) if first else tuple(range(len(shape)))
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
            "GroupNormalization", "PRelu", "Gather", "Add", "Mul", "ReduceL2", "LSTM", "GRU")


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


KEEPS_LAYOUT = ("Identity", "Cast", "Add", "Sub", "Mul", "Div", "Clip", "Relu", "Neg", "Pad")


def channels_last(graph: dict, name: str) -> bool:
    """Images of TensorFlow: (N, H, W, C), which a Transpose behind them, perhaps after their scaling, makes (N, C, H, W)."""
    names, turned = {name}, False
    for n in graph["node"]:
        if not names.intersection(n["input"]):
            continue
        if n["op_type"] in KEEPS_LAYOUT:
            names.update(n["output"])
            continue
        perm = next((list(a["ints"]) for a in n["attribute"] if a["name"] == "perm"), None)
        if n["op_type"] != "Transpose" or perm != [0, 3, 1, 2]:
            return False
        turned = True
    return turned


def opset_of(model: dict) -> int:
    return max((o.get("version", 0) for o in model["opset_import"] if o.get("domain", "") in ("", "ai.onnx")), default=0)


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
                and math.prod(t["dims"]) > 1 and t.get("data_type") == 1]
    return notes, nameless


def logits_of(outputs: list, loss: str) -> list:
    """A softmax or sigmoid at the end belongs to the loss, which wants what goes into it."""
    first, last = outputs[0], {"cross_entropy": "softmax", "binary_cross_entropy": "sigmoid"}.get(loss)
    entry = first.value.entry
    if entry.kind != "node" or entry.op != last or first.rank != 2:
        return outputs
    return [Tensor(entry.inputs[0], first.order), *outputs[1:]]


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
    from . import fold, read_elements, read_layers, read_shapes

    assert fold and read_elements and read_layers and read_shapes
    version = opset_of(model)
    if not 11 <= version <= 22:
        raise Refused(f"{path} is of opset {version}; 11 to 22 are read")
    folder = Path(path).parent
    g = model["graph"]
    g["initializer"] = [beside(t, folder) if t.get("data_location") else t for t in g["initializer"]]
    notes, lost = notes_of(model)
    if lost and not nameless:
        raise Refused(f"{len(lost)} weights have no name of the source ({', '.join(lost[:3])}): export with "
                      "do_constant_folding=False or optimize=False, or take them as they are (--nameless)")
    weights: dict = {}
    forms, classes = [], 0
    orders: list = []
    inputs: list = []
    for training in (True, False):
        r = Reader(model, training, weights, batch)
        outputs = [o for o in (r.b.whole(o) for o in r.run()) if o.type == "f32"]
        if not outputs:
            raise Refused(f"{path} has no output of real numbers")
        inner = logits_of(outputs, loss)
        if inner is not outputs and training:
            notes.append(f"the {outputs[0].value.entry.op} at the end is part of the loss; `logits` is what goes into it")
        classes, orders = attach(r.b, inner, loss)
        inputs = r.inputs
        fuse(r.b.form)
        forms.append(r.b.form)
    turned = {n: (2, 3, 1, 0) for n in weights if "layout=conv" in forms[0].named[n].entry.tail} if weights else {}
    made = Model(name or model["graph"].get("name") or "onnx", classes, forms[0], forms[1])
    return Exported(made, weights, inputs, orders, turned, loss, {}, {}, notes)

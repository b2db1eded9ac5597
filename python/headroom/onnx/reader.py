"""An ONNX file as a model file: inference, and fine-tuning as far as the file allows.

ONNX has no word for "parameter": every named initializer of real numbers that an op reads as a weight becomes one.  Batch norm is
read as trainable, dropout as it stands.  What exporters have lost is said: initializers that carry no name of the source
("onnx::Conv_12", "val_3") are refused by name unless the caller takes them, and convolutions without batch norm are pointed out
as probably folded.  Opset 7 to 22; shape arithmetic is done here, in terms of the batch.

Whole numbers and truths are f32 or i32 here; what the file says they are is kept beside each name (`kinds`), because divisions and
casts of whole numbers drop what is behind the point."""
from __future__ import annotations

import math
import zlib
from collections import Counter
from pathlib import Path
from typing import Any, Callable, Optional, Sequence

import numpy as np

from ..build import Build, Const, Tensor
from ..exported import Exported
from ..fuse import fuse
from ..graph import Form, Model, Refused
from ..loss import attach
from ..size import Size
from ..table import Table
from . import proto
from .batch import REAL, TRUTH, Batch, folded
from .graphs import every_node, op_of, written_out

TYPES = {1: "float32", 2: "uint8", 3: "int8", 6: "int32", 7: "int64", 9: "bool", 10: "float16", 11: "float64"}
SCOPE = 96  # of a node's name, which some exporters make of all that was fused
LONGEST = 200  # of a weight's name
FIRST, LAST = 7, 22  # opsets
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
        self.op, self.attributes = op_of(raw), attributes_of(raw)
        self.inputs: list[Any] = [reader.value(i) if i else None for i in raw["input"]]

    def attr(self, name: str, default: Any = None) -> Any:
        return self.attributes.get(name, default)

    def graph(self, name: str) -> dict:
        return next(a["g"] for a in self.raw["attribute"] if a["name"] == name)

    @property
    def opset(self) -> int:
        return self.reader.opset

    def get(self, i: int) -> Any:
        return self.inputs[i] if i < len(self.inputs) else None

    def kind(self, i: int) -> str:
        """f, i or b: what an input is made of in the file."""
        v = self.get(i)
        if isinstance(v, Const):
            return {"f": "f", "b": "b"}.get(v.array.dtype.kind, "i")
        return self.reader.kinds.get(self.raw["input"][i], "f")

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
    def __init__(self, model: dict, training: bool, weights: dict, batch: int, shapes: Optional[Sequence[Sequence[int]]] = None) -> None:
        self.graph, self.training, self.weights, self.shapes = model["graph"], training, weights, shapes
        self.opset = opset_of(model)
        self.b = Build(Form(), lambda n, a: weights.__setitem__(n, a), batch)
        self.values: dict[str, Any] = {}
        self.kinds: dict[str, str] = {}
        self.batch = Batch()
        self.inputs: list = []
        self.truths: set[str] = set()

    def parameter(self, name: str, array: np.ndarray, state: bool = False) -> Tensor:
        conv = not state and array.ndim == 4 and name in self.conv_weights
        if len(name) > LONGEST:
            name = f"{name[-LONGEST:]}~{zlib.crc32(name.encode()):08x}"
        self.weights[name] = array
        shape = tuple(array.shape[d] for d in (2, 3, 1, 0)) if conv else array.shape
        spread = f"normal 0 {float(array.std()):.6g}" if array.size and array.std() else \
            f"constant {float(array.flat[0]) if array.size else 0:.9g} 0"
        v = self.b.form.persistent("state" if state else "param", name, "f32", shape,
                                   spread + (" layout=conv" if conv else ""))
        return Tensor(v, (2, 3, 1, 0) if conv else None)

    def statistic(self, node: dict, i: int) -> Any:
        """A running statistic, an input of a batch norm.  Exporters give equal ones one name: each norm moves its own."""
        name = node["input"][i]
        if name not in self.shared:
            return self.value(name)
        own = f"{node.get('name') or node['output'][0]}.running_{'mean' if i == 3 else 'var'}"
        return self.parameter(own, self.shared[name].astype("float32"), True)

    def run(self) -> list:
        """Its outputs of real numbers."""
        g = self.graph
        nodes = list(every_node(g))
        times = Counter(i for n in nodes for i in n["input"])
        self.conv_weights = {n["input"][1] for n in nodes if n["op_type"] == "Conv" and len(n["input"]) > 1}
        statistics = {i for n in nodes if n["op_type"] == "BatchNormalization" for i in n["input"][3:5]}
        self.statistics = {i for i in statistics if times[i] == 1}
        self.read_as_weight = weights_read(nodes)
        hoist(g, self.read_as_weight)
        self.shared = {t["name"]: array_of(t) for t in g["initializer"] if t["name"] in statistics - self.statistics}
        names = {t["name"] for t in g["initializer"]}
        self._initializers(g)
        given = [v for v in g["input"] if v["name"] not in names]
        if self.shapes is not None and len(self.shapes) != len(given):
            raise Refused(f"{len(self.shapes)} inputs are given; the file has {len(given)}: {', '.join(v['name'] for v in given)}")
        for i, v in enumerate(given):
            self._input(v, self.shapes[i] if self.shapes is not None else None)
        for raw in g["node"]:
            self._node(raw)
        return [self.value(o["name"]) for o in g["output"] if self.kinds.get(o["name"], "f") == "f"]

    def _initializers(self, graph: dict) -> None:
        for t in graph["initializer"]:
            a, name = array_of(t), t["name"]
            real = a.dtype.kind == "f" and a.size > 1
            if real and name in self.read_as_weight | self.statistics:
                self.values[name] = self.parameter(name, a.astype("float32"), name in self.statistics)
            else:
                self.values[name] = Const(a)
            self.kinds[name] = {"f": "f", "b": "b"}.get(a.dtype.kind, "i")

    def branch(self, graph: dict) -> list:
        """What a graph inside this one gives; it reads the values around it."""
        self._initializers(graph)
        for raw in graph["node"]:
            self._node(raw)
        return [self.value(o["name"]) for o in graph["output"]]

    def value(self, name: str) -> Any:
        if name not in self.values:
            raise Refused(f"{name!r} is read before anything makes it")
        return self.values[name]

    def _input(self, v: dict, given: Optional[Sequence[int]]) -> None:
        name, shape = v["name"], self.batch.shape_of(v, given)
        first = len(shape) == 4 and not channels_last(self.graph, name)
        order = (0, 2, 3, 1) if first else tuple(range(len(shape)))
        if not isinstance(shape[0], Size):  # samples come first in memory
            at = next(i for i, d in enumerate(shape) if isinstance(d, Size))
            order = (at, *(i for i in range(len(shape)) if i != at))
        type_ = v["type"]["tensor_type"].get("elem_type", 0)
        self.kinds[name] = "f" if type_ in REAL else "b" if type_ in TRUTH else "i"
        if self.kinds[name] == "b":
            self.truths.add(name)
        made = self.b.form.input(name, "f32" if self.kinds[name] == "f" else "i32", tuple(shape[d] for d in order))
        self.values[name] = Tensor(made, order)
        self.inputs.append((name, shape, order))

    def _node(self, raw: dict) -> None:
        n = Node(self, raw)
        self.b.form.scope = raw.get("name", "")[-SCOPE:]
        where = f"node {raw.get('name') or next(iter(raw['output']), '')} ({n.op})"
        try:
            known = [x for x in n.inputs if x is not None]
            if n.op in FOLD and all(isinstance(x, Const) and not any(isinstance(d, Size) for d in x.shape) for x in known):
                out = FOLD[n.op](n, *[x.array if x is not None else None for x in n.inputs])
                out = [o if isinstance(o, Const) else Const(folded(np.asarray(o))) for o in (out if isinstance(out, list) else [out])]
            elif n.op in OPS:
                if n.op != "If" and known and all(isinstance(x, Const) and x.array.dtype != object for x in known):
                    n.inputs[0] = self.b.whole(n.inputs[0])
                out = OPS[n.op](self.b, n)
            else:
                raise Refused(f"the op {n.op} is not read")
        except Refused as e:
            raise e if e.where else Refused(e.what, where) from None
        except (ValueError, KeyError, IndexError, TypeError, AttributeError, AssertionError) as e:
            batch = isinstance(e, TypeError) and "'Size'" in str(e)
            raise Refused("it needs the size of the batch as a number" if batch else f"{type(e).__name__}: {e}", where) from e
        made = kinds_made(n)
        for i, (name, value) in enumerate(zip(raw["output"], out if isinstance(out, list) else [out])):
            self.values[name] = value
            if isinstance(value, Const):
                self.kinds[name] = {"f": "f", "b": "b"}.get(value.array.dtype.kind, "i")
            elif made:
                self.kinds[name] = made[min(i, len(made) - 1)]


TRUTHS = ("Equal", "Less", "LessOrEqual", "Greater", "GreaterOrEqual", "And", "Or", "Xor", "Not", "IsNaN", "IsInf")


def kind_of(type_: int) -> str:
    return "f" if type_ in REAL else "b" if type_ in TRUTH else "i"


def kinds_made(n: Node) -> list[str]:
    """What the outputs are made of; nothing where inner graphs have said it."""
    if n.op == "If":
        return []
    if n.op in TRUTHS:
        return ["b"]
    if n.op in ("Shape", "Size", "ArgMax", "ArgMin", "NonZero", "QuantizeLinear"):
        return ["i"]
    if n.op in ("TopK", "MaxPool"):
        return [n.kind(0), "i"]
    if n.op == "Cast":
        return [kind_of(n.attr("to"))]
    by = {"Where": 1, "CastLike": 1, "OneHot": 2, "DequantizeLinear": 1}.get(n.op, 0)
    return [n.kind(by) if n.op != "DequantizeLinear" else "f"] if len(n.inputs) > by else ["f"]


WEIGHTED = ("Conv", "ConvTranspose", "Gemm", "MatMul", "BatchNormalization", "LayerNormalization", "InstanceNormalization",
            "GroupNormalization", "PRelu", "Gather", "Add", "Mul", "Einsum", "Concat", "ReduceL2", "LSTM", "GRU", "RNN")


def weights_read(nodes: list[dict]) -> set:
    """Initializers that an op reads as a weight, straight or through Transpose and the like."""
    through = {n["output"][0]: n["input"][0] for n in nodes if n["input"] and n["output"]
               and n["op_type"] in ("Transpose", "Identity", "Reshape", "Unsqueeze", "Squeeze", "Cast", "Expand")}
    out = set()
    for n in nodes:
        if n["op_type"] in WEIGHTED:
            for i in n["input"]:
                for _ in range(len(through)):  # a file may name itself
                    if i not in through:
                        break
                    i = through[i]
                out.add(i)
    return out


def hoist(graph: dict, read: set) -> None:
    """Weights that a file without initializers has in Constant nodes (PaddlePaddle's) as initializers."""
    if any(t.get("data_type") in REAL and math.prod(t["dims"]) > 1 for t in graph["initializer"]):
        return
    rest = []
    for n in graph["node"]:
        t = next((a["t"] for a in n["attribute"] if "t" in a), None)
        if op_of(n) == "Constant" and t is not None and n["output"][0] in read and t.get("data_type") in REAL and math.prod(t["dims"]) > 1:
            graph["initializer"].append({**t, "name": n["output"][0]})
        else:
            rest.append(n)
    graph["node"] = rest


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
    nodes = list(every_node(g))
    ops = [n["op_type"] for n in nodes]
    notes = []
    biased = sum(n["op_type"] == "Conv" and len(n["input"]) > 2 for n in nodes)
    if biased and "BatchNormalization" not in ops and biased == ops.count("Conv"):
        notes.append("every convolution has a bias and there is no batch norm: it was probably folded; what is trained is "
                     "another network than the source's")
    if "BatchNormalization" in ops:
        notes.append("batch norm is read as trainable; its running variance is the population's, as ONNX has it")
    if "Dropout" not in ops:
        notes.append("the file has no dropout; exporters leave it out")
    read = weights_read(nodes)
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
         name: Optional[str] = None, shapes: Optional[Sequence[Sequence[int]]] = None) -> Exported:
    """The file as a model.  Refused for weights without a name of the source, unless `nameless`.  `shapes`: of its inputs, without
    the batch, where the file leaves them open."""
    try:
        return _read(path, loss, nameless, batch, name, shapes)
    except (ValueError, ArithmeticError, KeyError, IndexError, TypeError, AttributeError, RecursionError) as e:
        raise Refused(f"{path} is malformed: {type(e).__name__}: {e}") from e


def _read(path: str | Path, loss: str, nameless: bool, batch: int, name: Optional[str],
          shapes: Optional[Sequence[Sequence[int]]]) -> Exported:
    try:
        model = proto.parse("Model", Path(path).read_bytes())
    except proto.Malformed as e:
        raise Refused(f"{path} is no ONNX file: {e}") from None
    if "graph" not in model:
        raise Refused(f"{path} is no ONNX file")
    from . import fold, read_elements, read_layers, read_recurrent, read_resize, read_shapes

    assert fold and read_elements and read_layers and read_recurrent and read_resize and read_shapes
    version = opset_of(model)
    if not FIRST <= version <= LAST:
        raise Refused(f"{path} is of opset {version}; {FIRST} to {LAST} are read")
    folder = Path(path).parent
    written_out(model)
    g = model["graph"]
    g["initializer"] = [beside(t, folder) if t.get("data_location") else t for t in g["initializer"]]
    notes, lost = notes_of(model)
    if lost and not nameless:
        raise Refused(f"{len(lost)} weights have no name of the source ({', '.join(lost[:3])}): export with "
                      "do_constant_folding=False or optimize=False, or take them as they are (--nameless)")
    weights: dict = {}
    forms, classes = [], 0
    orders: list = []
    for training in (True, False):
        r = Reader(model, training, weights, batch, shapes)
        outputs = [r.b.whole(o) for o in r.run()]
        if not outputs:
            raise Refused(f"{path} has no output of real numbers")
        inner = logits_of(outputs, loss)
        if inner is not outputs and training:
            notes.append(f"the {outputs[0].value.entry.op} at the end is part of the loss; `logits` is what goes into it")
        classes, orders = attach(r.b, inner, loss)
        fuse(r.b.form)
        forms.append(r.b.form)
    turned = {n: (2, 3, 1, 0) for n in weights if "layout=conv" in forms[0].named[n].entry.tail} if weights else {}
    made = Model(name or model["graph"].get("name") or "onnx", classes, forms[0], forms[1])
    return Exported(made, weights, r.inputs, orders, turned, loss, {}, {}, notes, r.truths)

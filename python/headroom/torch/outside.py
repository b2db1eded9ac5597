"""Ops that are not ours, run by PyTorch on the host: the escape hatch of the front end.

A node of such an op is a custom op of the library (headroom/custom.h).  The model file names it and says in JSON what it is: the op of
PyTorch with its arguments, where {"input": 0} stands for the first value.  So a model file can be opened wherever PyTorch is.

Forward is the op; backward runs it again under autograd.  It is planned like any other op: what it reads is kept or recomputed, its
batch is never split (whether samples touch is not known), and twice the bytes of what it reads and writes are set aside for what PyTorch
allocates meanwhile."""
from __future__ import annotations

import ctypes
import json
import re
from typing import Any, Optional, Sequence

import numpy as np
import torch

from ..build import Build, Const, Tensor
from ..graph import Refused
from ..size import Size

RATIO = 2.0  # workspace, over the bytes of inputs and outputs
INPUTS, OUTPUTS = 16, 6  # of a custom op
TYPES = {"float32": "f32", "bool": "f32", "int64": "i32", "int32": "i32"}


class Kept:
    """The custom ops of a model: description -> name."""

    def __init__(self) -> None:
        self.names: dict[str, str] = {}
        self.places: dict[str, str] = {}

    def name(self, op: str, text: str, place: str) -> str:
        if text not in self.names:
            short = re.sub("[^a-z0-9]+", "_", op.split("::")[-1].lower()).strip("_")[:24]
            self.names[text] = f"torch_{short}_{len(self.names) + 1}"
            self.places[text] = place
        return self.names[text]

    def lines(self) -> list[tuple[str, str]]:
        return [(name, text) for text, name in self.names.items()]

    def notes(self) -> list[str]:
        return [f"{self.places[text] or name}: {json.loads(text)['op']} runs in PyTorch, forward and backward: on the host only, and "
                "the batch is never split" for text, name in self.names.items()]


def take(b: Build, kept: Kept, node: torch.fx.Node, target: Any, call: Any, place: str) -> Any:
    """The node as a custom op; what it returns, as PyTorch does."""
    inputs: list[Any] = []
    types: list[str] = []

    def encode(given: Any, raw: Any) -> Any:
        if isinstance(given, (Tensor, Const)):
            inputs.append(b.plain(b.whole(given)))
            val = raw.meta.get("val") if isinstance(raw, torch.fx.Node) else None
            types.append(str(val.dtype)[6:] if val is not None else str(given.array.dtype) if isinstance(given, Const) else "float32")
            return {"input": len(inputs) - 1}
        if isinstance(given, (list, tuple)):
            return [encode(g, r) for g, r in zip(given, raw)]
        if isinstance(given, (torch.dtype, torch.device, torch.layout, torch.memory_format)):
            return {"torch": str(given)[6:]} if not isinstance(given, torch.device) else {"device": str(given)}
        if isinstance(given, Size):
            raise Refused(f"{target} with an argument that depends on the batch")
        if given is None or isinstance(given, (bool, int, float, str)):
            return given
        raise Refused(f"{target} with an argument of type {type(given).__name__}")

    args = [encode(call.walk.read(a), a) for a in node.args]
    kwargs = {k: encode(call.walk.read(a), a) for k, a in node.kwargs.items()}
    val = node.meta["val"]
    vals = list(val) if isinstance(val, (list, tuple)) else [val]
    if not 0 < len(inputs) <= INPUTS or len(vals) > OUTPUTS or not all(isinstance(v, torch.Tensor) for v in vals):
        raise Refused(f"{target} has too many inputs or outputs, or outputs that are no tensors")
    out_types = [str(v.dtype)[6:] for v in vals]
    if any(t not in TYPES for t in types + out_types):
        raise Refused(f"{target} of {', '.join(sorted(set(types + out_types) - set(TYPES)))}")
    if target._schema.is_mutable:
        raise Refused(f"{target} writes into its arguments")
    text = json.dumps({"op": target._schema.name, "overload": target._overloadname, "args": args, "kwargs": kwargs, "types": types,
                       "outputs": out_types})
    metas = [(TYPES[t], tuple(call.walk.dim(d) for d in v.shape)) for t, v in zip(out_types, vals)]
    made = [Tensor(v) for v in b.form.node(kept.name(target._schema.name, text, place), [t.value for t in inputs], metas)]
    return made if isinstance(val, (list, tuple)) else made[0]


# ---- running them ----

class Op:
    """The op of PyTorch that a description names."""

    def __init__(self, text: str) -> None:
        d = json.loads(text)
        space, name = d["op"].split("::")
        try:
            self.target = getattr(getattr(getattr(torch.ops, space), name), d["overload"] or "default")
        except AttributeError:
            raise Refused(f"the op {d['op']} is not registered; import the module that defines it first") from None
        self.args, self.kwargs, self.types, self.outputs = d["args"], d["kwargs"], d["types"], d["outputs"]

    def _given(self, x: Any, tensors: Sequence[torch.Tensor]) -> Any:
        if isinstance(x, dict):
            if "input" in x:
                return tensors[x["input"]]
            return getattr(torch, x["torch"]) if "torch" in x else torch.device(tensors[0].device)
        return [self._given(y, tensors) for y in x] if isinstance(x, list) else x

    def __call__(self, tensors: Sequence[torch.Tensor]) -> list[torch.Tensor]:
        out = self.target(*self._given(self.args, tensors), **{k: self._given(v, tensors) for k, v in self.kwargs.items()})
        return list(out) if isinstance(out, (list, tuple)) else [out]

    def shape(self, *metas: tuple) -> list[tuple]:
        empty = [torch.empty(shape, dtype=getattr(torch, t), device="meta") for t, (_, shape) in zip(self.types, metas)]
        return [(TYPES[t], tuple(o.shape)) for t, o in zip(self.outputs, self(empty))]

    def forward(self, *arrays: np.ndarray) -> list[np.ndarray]:
        with torch.no_grad():
            return [o.to(torch.float32 if TYPES[t] == "f32" else torch.int32).numpy()
                    for t, o in zip(self.outputs, self([seen(a, t) for a, t in zip(arrays, self.types)]))]

    def backward(self, *arrays: np.ndarray) -> list[Optional[np.ndarray]]:
        n, m = len(self.types), len(self.outputs)
        with torch.enable_grad():
            xs = [seen(a, t).requires_grad_(t == "float32") for a, t in zip(arrays[:n], self.types)]
            ys = self(xs)
            pairs = [(y, seen(g, "float32")) for y, g, t in zip(ys, arrays[n + m:], self.outputs) if t == "float32" and y.requires_grad]
            real = [x for x in xs if x.requires_grad]
            found = iter(torch.autograd.grad([y for y, _ in pairs], real, [g for _, g in pairs], allow_unused=True)
                         if pairs else [None] * len(real))
        grads = [next(found) if x.requires_grad else None for x in xs]
        return [g.numpy() if g is not None else None for g in grads]


def seen(a: np.ndarray, type_: str) -> torch.Tensor:
    """Memory of the library as a tensor, without a copy where the types agree."""
    plain = torch.float32 if a.dtype == np.float32 else torch.int32
    if not a.size:
        t = torch.empty(a.shape, dtype=plain)
    else:
        t = torch.frombuffer((ctypes.c_char * a.nbytes).from_address(a.ctypes.data), dtype=plain).reshape(a.shape)
    return t if type_ in ("float32", "int32") else t.to(getattr(torch, type_))


def customs(lines: Sequence[tuple[str, str]]) -> list:
    """The custom ops that a model file names."""
    from ..define import Custom

    made = []
    for name, text in lines:
        op = Op(text)
        made.append(Custom(name, op.forward, inputs=len(op.types), outputs=len(op.outputs), shape=op.shape,
                           backward=op.backward if "float32" in op.types and "float32" in op.outputs else None, coupled=True,
                           workspace_ratio=RATIO))
    return made

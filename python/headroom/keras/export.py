"""A Keras model as a model file: traced in both modes, variables under their paths and in their own shapes."""
from __future__ import annotations

import functools
from pathlib import Path
from typing import Any, Optional, Sequence

import keras
import numpy as np
from keras import tree

from .. import safetensors
from ..build import Build, Const, Tensor
from ..exported import Exported
from ..fuse import fuse
from ..graph import Form, Model, Refused
from ..loss import attach
from ..size import Size
from . import elements, images, losses, norms, numbers, prepare, recurrent, sequence, shapes
from .call import LAYERS, Call
from .goal import Goal, regularized
from .trace import trace

assert elements and images and losses and norms and numbers and prepare and recurrent and sequence and shapes


def initial(a: np.ndarray) -> str:
    if not a.size or (a == a.flat[0]).all():
        return f"constant {float(a.flat[0]) if a.size else 0:.9g} 0"
    return f"normal {0.0 if abs(a.mean()) < 0.1 * a.std() else float(a.mean()):.6g} {float(a.std()):.6g}"


class Front:
    """One form being made: values of symbolic tensors, variables."""

    def __init__(self, b: Build, weights: dict, paths: dict, training: bool) -> None:
        self.b, self.weights, self.paths, self.training = b, weights, paths, training
        self.values: dict[int, Any] = {}
        self.states: dict[str, Any] = {}
        self.truths: set[str] = set()  # inputs that are true or false
        self.added: list = []  # losses that layers add
        self.kept: list = []  # symbolic tensors must live as long as their ids are keys

    def variable(self, v: Any) -> Tensor:
        name = self.paths.get(id(v)) or v.path
        if name in self.states:
            return Tensor(self.states[name])
        array = np.asarray(keras.ops.convert_to_numpy(v.value), "float32")
        self.weights[name] = array
        kind = "state" if not v.trainable and not self._frozen(v) else "param"
        tags = initial(array) + (" frozen" if kind == "param" and not v.trainable else "")
        return Tensor(self.b.form.persistent(kind, name, "f32", array.shape, tags))

    @staticmethod
    def _frozen(v: Any) -> bool:
        """A weight of a layer with trainable=False, as opposed to a running statistic."""
        return not v.trainable and not any(s in v.path.rsplit("/", 1)[-1] for s in ("moving_", "mean", "variance", "count"))

    def moved(self, v: Any, value: Any) -> None:
        self.states[self.paths.get(id(v)) or v.path] = value

    def fill(self, x: Any) -> Any:
        if isinstance(x, keras.KerasTensor):
            return self.values[id(x)] if id(x) in self.values else Const(np.asarray(x.headroom_array))
        if isinstance(x, keras.Variable):
            return self.variable(x)
        if isinstance(x, np.ndarray) or keras.ops.is_tensor(x):
            return Const(np.asarray(keras.ops.convert_to_numpy(x)))
        return x

    def node(self, node: Any) -> None:
        op = node.operation
        name = type(op).__name__
        form = self.b.form
        form.scope = getattr(node, "headroom_layer", "") or getattr(op, "path", None) or getattr(op, "name", "") or ""
        if name not in LAYERS:
            raise Refused(f"{name} has no counterpart yet", f"layer {form.scope}")
        args = tree.map_structure(self.fill, list(node.arguments.args))
        kwargs = {k: tree.map_structure(self.fill, v) for k, v in node.arguments.kwargs.items()}
        training = self.training if kwargs.get("training") is None else bool(kwargs["training"])
        call = Call(op, args, kwargs, training, self)
        given = zip(tree.flatten([list(node.arguments.args), node.arguments.kwargs]), tree.flatten([args, kwargs]))
        call.types = {id(ours): str(k.dtype) for k, ours in given if isinstance(k, keras.KerasTensor)}
        call.dtype = str(node.input_tensors[0].dtype) if node.input_tensors else ""
        try:
            out = LAYERS[name](self.b, call)
        except Refused as e:
            raise e if e.where else Refused(e.what, f"layer {form.scope}") from None
        except (ValueError, TypeError, KeyError, IndexError, AttributeError, AssertionError) as e:
            raise Refused(f"{name} in a way that is not known: {type(e).__name__}: {e}", f"layer {form.scope}") from e
        for k, v in zip(node.outputs, out if isinstance(out, (list, tuple)) else [out]):
            self.values[id(k)] = v
            self.kept.append(k)


def form_of(model: Any, training: bool, weights: dict, paths: dict, batch: int, names: Optional[Sequence[str]],
            shapes: Optional[Sequence[tuple]], types: Optional[Sequence[str]], end: Any = None,
            rows: Optional[Sequence[int]] = None) -> tuple[Build, list, list, Front]:
    xs, nodes, out, added = trace(model, training, shapes, types, end, rows)
    paths.update(unique_paths(model))  # a layer that was not built has its variables from the trace on
    looked_up = {id(n.arguments.args[0]) for n in nodes if type(n.operation).__name__ == "Embedding" and n.arguments.args}
    b = Build(Form(), lambda name, array: weights.__setitem__(name, array), batch)
    front = Front(b, weights, paths, training)
    inputs = []
    own = len(xs) - (len(end.read) + end.weighted if isinstance(end, Goal) else end is not None)
    for i, x in enumerate(xs):
        shape = (Size(1), *x.shape[1:])
        type_ = "f32" if "float" in str(x.dtype) and id(x) not in looked_up else "i32"
        name = str(x.name) if i >= own else names[i] if names else input_name(x, own, type_)
        front.values[id(x)] = Tensor(b.form.input(name, type_, shape))
        inputs.append((name, shape, tuple(range(len(shape)))))
        if str(x.dtype) == "bool":
            front.truths.add(name)
    for n in nodes:
        front.node(n)
    outputs = [front.values[id(t)] for t in tree.flatten(out)]
    front.added = [front.fill(t) for t in added]
    if isinstance(end, Goal) and end.read != [0]:
        b.counted = None
    return b, outputs, inputs, front


def input_name(x: Any, count: int, type_: str) -> str:
    if count > 1:
        return str(x.name)
    return "image" if len(x.shape) == 4 else "tokens" if type_ == "i32" and len(x.shape) == 2 else "input"


def unsoft(b: Build, outputs: list) -> list:
    """A softmax at the end belongs to the loss: cross entropy wants what goes into it, in the shape that it got (TimeDistributed)."""
    first = outputs[0]
    entry = first.value.entry
    while entry.op == "reshape" and entry.inputs[0].shape[-1:] == first.value.shape[-1:]:
        entry = entry.inputs[0].entry
    if entry.kind != "node" or entry.op != "softmax":
        return outputs
    if entry is first.value.entry:
        return [Tensor(entry.inputs[0], first.order), *outputs[1:]]
    return [Tensor(b.reshape(Tensor(entry.inputs[0]), first.value.shape).value, first.order), *outputs[1:]]


def unsigmoid(b: Build, outputs: list, wanted: bool) -> list:
    """A sigmoid at the end belongs to binary cross entropy; `wanted`: the loss reads probabilities."""
    inner = losses.before(b, outputs[0], "sigmoid")
    if inner is None and wanted:
        raise Refused("binary cross entropy of probabilities, and no sigmoid at the end of the model: end it with one, or use "
                      "BinaryCrossentropy(from_logits=True)")
    return outputs if inner is None else [inner, *outputs[1:]]


def right_sides(b: Build, logits: Tensor) -> None:
    """Binary accuracy: probabilities above and below a half."""
    above = b.compare("greater", b.plain(logits), Const(np.float32(0)))
    same = b.compare("equal", above, Tensor(b.form.named["label"]))
    b.form.result("accuracy", b.reduce("mean", same, [], False).value)


def unique_paths(model: Any) -> dict:
    """A name for each variable: its path, made unique where two layers share one."""
    names: dict = {}
    seen: set = set()
    for v in model.variables:
        name, n = v.path, 1
        while name in seen:
            n += 1
            name = f"{v.path}~{n}"
        seen.add(name)
        names[id(v)] = name
    return names


def export(model: Any, loss: str = "cross_entropy", name: Optional[str] = None, batch: int = 5,
           names: Optional[Sequence[str]] = None, shapes: Optional[Sequence[tuple]] = None,
           types: Optional[Sequence[str]] = None, end: Any = None, rows: Optional[Sequence[int]] = None,
           probabilities: Optional[bool] = None) -> Exported:
    """The model as a model file.  `shapes` (without the batch) and `types` ("float32", "int32") of its inputs where it does not know
    them or has open ones.  `end`, with loss="own": any loss of Keras, over labels of `rows` a sample, or a Goal.  `probabilities`:
    whether binary cross entropy reads what a sigmoid gives (None: as the model ends).  Raises Refused, with the layer's path, for what
    cannot be taken."""
    weights: dict = {}
    paths: dict = {}  # of variables, by their ids
    notes = notes_of(model)
    builds, found = [], 0
    orders: list = []
    inputs: list = []
    odds = False
    right: Any = None
    last = end if end is None or isinstance(end, Goal) else losses.function_of(end)
    for training in (True, False):
        b, outputs, inputs, front = form_of(model, training, weights, paths, batch, names, shapes, types, last, rows)
        outputs = [b.whole(o) for o in outputs if isinstance(o, (Tensor, Const))]
        if loss == "cross_entropy":
            inner = unsoft(b, outputs)
            if inner[0] is not outputs[0] and training:
                notes.append("the softmax at the end is part of the loss; `logits` is what goes into it")
            outputs = inner
        elif loss == "binary_cross_entropy" and probabilities is not False:
            inner = unsigmoid(b, outputs, bool(probabilities))
            if inner[0] is not outputs[0] and training:
                notes.append("the sigmoid at the end is part of the loss; `logits` is what goes into it")
                odds = True
            if inner[0] is not outputs[0]:
                right = functools.partial(right_sides, b)
            outputs = inner
        found, orders = attach(b, outputs, loss, channels=-1, more=functools.partial(regularized, b, model, front))
        if right is not None:
            right(outputs[0])
        fuse(b.form)
        builds.append(b)
    unread = [paths[id(v)] for v in model.trainable_variables if paths[id(v)] not in weights]
    if unread:
        notes.append(f"{len(unread)} variables are read by neither form: {', '.join(unread[:5])}")
    made = Model(name or model.name, found, builds[0].form, builds[1].form)
    return Exported(made, weights, inputs, orders, {}, loss, {}, {}, notes, front.truths, last, odds)


def notes_of(model: Any) -> list[str]:
    notes = []
    policies = {str(getattr(x.dtype_policy, "name", x.dtype_policy)) for x in model._flatten_layers()}
    mixed = sorted(p for p in policies if p.startswith("mixed_"))
    if mixed:
        to = "f16" if "mixed_float16" in mixed else "bf16"
        notes.append(f"the model computes in {', '.join(mixed)}; here that is --precision {to}, for the whole model")
    return notes


def load(model: Any, path: str | Path) -> list[str]:
    """Weights and statistics of a checkpoint of ours, or of the folder of a run, back into the model.  The variables that were not in
    the file.

    Paths count up in a process, so a model that was built again may have others: then variables are matched by their order."""
    tensors, _ = safetensors.read(safetensors.of_run(path))
    names = unique_paths(model)
    own = [v for v in model.variables if "float" in str(v.dtype)]
    if not any(names[id(v)] in tensors for v in own):
        ordered = [n for n in tensors if not n.startswith("constant.") and not n.endswith("num_batches_tracked")]
        names = {id(v): n for v, n in zip(own, ordered)}
    missing = []
    for v in own:
        array = tensors.get(names.get(id(v), ""))
        if array is None:
            missing.append(v.path)
        elif tuple(array.shape) != tuple(v.shape):
            raise ValueError(f"{v.path} is {tuple(array.shape)} in {path} and {tuple(v.shape)} in the model")
        else:
            v.assign(array)
    return missing

"""A torch.nn.Module as a model: exported in train() and in eval(), walked into two forms, weights under their own names."""
from __future__ import annotations

import contextlib
import dataclasses
import inspect
import io
import linecache
import re
import sys
import warnings
from pathlib import Path
from typing import Any, Iterator, Optional, Sequence
from unittest import mock

import numpy as np
import torch
from torch.fx.experimental.symbolic_shapes import ShapeEnv
from torch.utils._pytree import SUPPORTED_NODES

from .. import safetensors
from ..build import Build, Const, Tensor
from ..exported import Exported
from ..fuse import fuse
from ..graph import Form, Model, Refused
from ..loss import attach
from ..place import caller, raised_at
from .nodes import where
from .ops import VIEWS, pairs
from .outside import Kept
from .picked import symbols
from .stand_ins import Never, stand_ins
from .twin import as_it_was, halved, in_f32, of_f32
from .walk import Cell, Walk, array_of, declared


@contextlib.contextmanager
def ready(module: torch.nn.Module) -> Iterator[None]:
    """What frameworks do by looking at data is done without: nn.Transformer compares its masks with the causal one (we do that for
    constants), and the experts of transformers' mixtures are computed for all tokens alike.  Their models return no caches of keys."""
    was: list[tuple[Any, str, Any]] = []

    def put(inside: Any, name: str, value: Any) -> None:
        was.append((inside, name, getattr(inside, name)))
        setattr(inside, name, value)

    for m in module.modules():
        inside: Any = getattr(m, "config", None)
        if hasattr(m, "set_experts_implementation") and hasattr(inside, "_experts_implementation"):
            put(inside, "_experts_implementation", "batched_mm")
        if getattr(inside, "use_cache", None) is True:
            put(inside, "use_cache", False)
    try:
        with mock.patch.object(torch.nn.modules.transformer, "_detect_is_causal_mask", lambda mask, causal=None, size=None: bool(causal)), \
                torch.backends.opt_einsum.flags(enabled=False):  # it looks at the size of the batch to order products
            yield
    finally:
        for inside, name, value in reversed(was):
            setattr(inside, name, value)


def in_order(module: torch.nn.Module, given: Sequence[Any]) -> tuple:
    """As forward() has its arguments: what *args takes is one."""
    kinds = [p.kind for p in inspect.signature(module.forward).parameters.values()]
    first = kinds.index(inspect.Parameter.VAR_POSITIONAL) if inspect.Parameter.VAR_POSITIONAL in kinds else len(given)
    return (*given[:first], tuple(given[first:])) if first < len(given) else tuple(given)


def program(module: torch.nn.Module, example: Sequence[Any], training: bool) -> Any:
    module.train(training)
    script = next((n for n, m in module.named_modules() if isinstance(m, torch.jit.ScriptModule)), None)
    if script is not None:
        raise Never("a module of torch.jit.script or torch.jit.trace: torch.export takes the module that it was made of", script or "the module")
    dynamic = in_order(module, [{0: torch.export.Dim.DYNAMIC} for _ in example])
    fixed: list[str] = []
    try:
        quiet = contextlib.redirect_stderr(io.StringIO())  # it prints whole graphs when it fails
        with torch.enable_grad(), as_it_was(module), ready(module), stand_ins(), settled(fixed), quiet, warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            made = torch.export.export(module, tuple(example), dynamic_shapes=dynamic)
        refuse_replaced(made, [str(w.message) for w in said])
        return made
    except Refused:
        raise
    except Exception as e:  # the exporter's own words name the user's line
        text = str(e)
        if returned(text):
            return program(module, example, training)
        first = next((line for line in text.splitlines() if line.strip()), type(e).__name__).strip()
        if "data-dependent" in first:
            first = "Python code that looks at the value of a tensor (if, while, int(), .item())"
            place = place_of(text) or raised_at(e)
            raise Refused(f"torch.export: {first}{way_out(place)}", place) from e
        if re.fullmatch(r"aten\.[\w.]+", first):
            first = f"{first} has a result that depends on data in a way that cannot be traced"
        elif "found a fake tensor in the exported program constant" in first:
            first = "an op that torch.export does not trace, such as one inside torch.vmap or torch.func"
        elif "specialized it to be a constant" in text:
            first = "the code works for one size of the batch alone: it compares that size, or makes a number of it (len(), int())"
            raise Refused(f"torch.export: {first}", next(iter(fixed), "")) from e
        raise Refused(f"torch.export: {first}", place_of(text) or raised_at(e)) from e


def returned(text: str) -> bool:
    """Whether forward() returns a dataclass that torch.export did not know, and now does."""
    named = re.search(r"Found <class '([\w.]+)\.(\w+)'> in output", text)
    made: Any = getattr(sys.modules.get(named[1]), named[2], None) if named else None
    if not isinstance(made, type) or not dataclasses.is_dataclass(made) or made in SUPPORTED_NODES:
        return False
    torch.export.register_dataclass(made)
    return True


@contextlib.contextmanager
def settled(places: list[str]) -> Iterator[None]:
    """Notes the lines by which a size becomes a number, which torch.export does not name."""
    own = ShapeEnv._set_replacement

    def put(self: Any, a: Any, to: Any, *args: Any, **kwargs: Any) -> Any:
        if to.is_number and a not in self.replacements:
            places.append(caller())
        return own(self, a, to, *args, **kwargs)

    with mock.patch.object(ShapeEnv, "_set_replacement", put):
        yield


def refuse_replaced(ep: Any, said: Sequence[str]) -> None:
    """A tensor that is an attribute, read and then replaced, would be a constant here.  torch.export warns of all that are replaced."""
    replaced = {name for text in said if "assigned during export" in text for name in re.findall(r"self\.([\w.]+)", text.split(" assigned ")[0])}
    kept = sorted(replaced & {str(s.target) for s in ep.graph_signature.input_specs if s.kind.name == "CONSTANT_TENSOR"})
    if kept:
        raise Never(f"forward() reads the tensor {kept[0]} and replaces it, and it is no buffer: register_buffer() makes it part of the model")


def way_out(line: str) -> str:
    """What to write instead, told from the line."""
    if ".any()" in line:
        return "; rows that a mask picks may be none, so x[mask] needs no such test"
    if re.search(r"\bmax(imum)?\b", line):
        return "; a length can be that of the padded batch, x.shape[1]"
    return "; torch.where chooses by values, and x.shape has the sizes"


def place_of(text: str) -> str:
    """The last line of a traceback that is not PyTorch's own."""
    lines = [line.strip() for line in text.splitlines()]
    for i in reversed(range(len(lines))):
        if lines[i].startswith('File "') and "/torch/" not in lines[i]:
            file, _, rest = lines[i][6:].partition('", line ')
            code = next(iter(linecache.getline(file, int(rest.split(",")[0])).strip().splitlines()), "")
            return f"{file}:{rest.split(',')[0]}" + (f": `{code}`" if code else "")
    return ""


class Source:
    """What both forms share: parameters, their names, ties and layouts."""

    def __init__(self, module: torch.nn.Module, programs: Sequence[Any]) -> None:
        self.module = module
        self.weights: dict[str, np.ndarray] = {}
        self.aliases: dict[str, str] = {}
        self.frozen = {n for n, p in module.named_parameters(remove_duplicate=False) if not p.requires_grad}
        self.parameters = {n for n, _ in module.named_parameters(remove_duplicate=False)}
        self.conv: set[str] = set()  # parameters that are kernels
        self.moved: set[str] = set()
        self.used: set[str] = set()  # those that do not just count
        self.through: dict[Any, str] = {}  # what views are views of
        homes: dict[Any, str] = {}
        for name, p in list(module.named_parameters(remove_duplicate=False)):
            key = (p.untyped_storage().data_ptr(), p.storage_offset(), tuple(p.shape))
            if p.numel() and key in homes:
                self.aliases[name] = homes[key]
            else:
                homes[key] = name
        for ep in programs:
            self._look(ep)
        self.conv -= self.followed()

    def followed(self) -> set[str]:
        """Parameters that forward() moves and no optimizer does: those of a teacher that follows the module."""
        return self.moved & self.frozen - set(self.aliases) - set(self.aliases.values())

    def _look(self, ep: Any) -> None:
        specs = {s.arg.name: s.target for s in ep.graph_signature.input_specs if s.target}
        self._scan(ep.graph, {n: specs[n.name] for n in ep.graph.nodes if n.op == "placeholder" and n.name in specs}, ep.graph_module)

    def _scan(self, graph: torch.fx.Graph, names: dict, owner: Any) -> list:
        """`names`: those of nodes that are parameters or buffers.  Gives the names of what the graph returns."""
        given: dict = {}  # of a region: the names of its results
        for n in graph.nodes:
            if n.op == "output":
                return [names.get(x) for x in n.all_input_nodes] if n.args[0] else []
            if n.op != "call_function":
                continue
            if isinstance(n.target, torch._ops.HigherOrderOperator):
                given[n] = self._scan_inside(n, names, owner)
            elif n.args and n.args[0] in given:
                found = given[n.args[0]][n.args[1]]
                names.update({n: found} if found else {})
            else:
                self._note(n, str(n.target), names)
        return []

    def _scan_inside(self, n: torch.fx.Node, names: dict, owner: Any) -> list:
        inner = [getattr(owner, str(a.target)) for a in n.all_input_nodes if a.op == "get_attr"]
        inputs = [a for x in n.args for a in (x if isinstance(x, (list, tuple)) else [x]) if isinstance(a, torch.fx.Node) and a.op != "get_attr"]
        found: list = []
        for m in inner:
            holes = [h for h in m.graph.nodes if h.op == "placeholder"]
            self.through.update({h: self.through[a] for h, a in zip(holes, inputs) if a in self.through})
            found = self._scan(m.graph, {h: names[a] for h, a in zip(holes, inputs) if a in names}, m)
        return found

    def _note(self, n: torch.fx.Node, target: str, names: dict) -> None:
        """Which parameters are kernels, and which buffers are written and read."""
        conv = target.startswith(("aten.conv2d", "aten.conv_transpose2d"))
        if conv and isinstance(n.args[1], torch.fx.Node) and names.get(n.args[1]) in self.parameters:
            self.conv.add(self.aliases.get(names[n.args[1]], names[n.args[1]]))
        if target.startswith("aten.batch_norm"):
            self.moved |= {names[a] for a in n.args[3:5] if a in names}
        kind = target.split(".")[1] if target.startswith("aten.") else ""
        in_place, first = kind.endswith("_"), n.args[0] if n.args else None
        if kind in VIEWS and (first in names or first in self.through):
            self.through[n] = names.get(first) or self.through[first]
        if in_place and first in self.through:
            self.through[n] = self.through[first]
            self.moved.add(self.through[n])
            self.used.add(self.through[n])
        if in_place and first in names:
            names[n] = names[first]
            self.moved.add(names[n])
            grows = target.startswith(("aten.add_", "aten.sub_")) and isinstance(n.args[1], int)
            self.used |= set() if grows else {names[n]}
        if n.kwargs.get("out") in names:
            self.moved.add(names[n.kwargs["out"]])
        self.used |= {names[a] for a in n.all_input_nodes if a in names and not (in_place and a is first)}

    def parameter(self, b: Build, name: str, value: torch.Tensor) -> Tensor:
        name = self.aliases.get(name, name)
        array = as_real(value.detach()).cpu().numpy()
        self.weights[name] = array
        tags = initial(array) + (" frozen" if name in self.frozen else "")
        if name in self.conv:
            shape = tuple(array.shape[d] for d in (2, 3, 1, 0))
            v = b.form.persistent("param", name, "f32", shape, tags + " layout=conv")
            t = Tensor(v, (2, 3, 1, 0))
        else:
            t = Tensor(b.form.persistent("param", name, "f32", array.shape, tags))
        b.known[t.value] = array
        return t

    def state(self, b: Build, name: str, value: torch.Tensor) -> Tensor:
        array = value.detach().cpu().numpy().astype("float32")
        self.weights[name] = array
        return Tensor(b.form.persistent("state", name, "f32", array.shape, initial(array)))


def as_real(x: torch.Tensor) -> torch.Tensor:
    """Complex numbers as two real ones, in a last dimension."""
    return torch.view_as_real(x) if x.is_complex() else x


def initial(a: np.ndarray) -> str:
    """What training without the weights file begins with: numbers spread like those of the module."""
    if not a.size or (a == a.flat[0]).all():
        return f"constant {float(a.flat[0]) if a.size else 0:.9g} 0"
    return f"normal {0.0 if abs(a.mean()) < 0.1 * a.std() else float(a.mean()):.6g} {float(a.std()):.6g}"


def form_of(ep: Any, source: Source, names: Sequence[str], batch: int, training: bool, derived: bool,
            outside: Optional[Kept]) -> tuple[Form, Build, Walk, list, list]:
    form = Form()
    b = Build(form, lambda name, array: source.weights.__setitem__(name, array), batch)
    walk = Walk(b, outside)
    walk.derived = derived
    inputs = []
    given = list(names)
    constants = {**ep.constants, **ep.state_dict}
    for spec, node in zip(ep.graph_signature.input_specs, [n for n in ep.graph.nodes if n.op == "placeholder"]):
        kind = spec.kind.name
        if kind == "USER_INPUT":
            if not isinstance(node.meta.get("val"), torch.Tensor):
                walk.cells[node] = Cell(node.meta.get("val"))
                continue
            t, meta = _input(b, walk, node, given.pop(0))
            inputs.append(meta)
            walk.cells[node] = Cell(t)
        elif kind == "PARAMETER" and spec.target in source.followed():
            walk.cells[node] = _buffer(b, walk, source, spec, constants[spec.target])
        elif kind == "PARAMETER":
            walk.cells[node] = Cell(_parameter(b, source, spec.target, constants[spec.target]))
            if training:
                walk.parameters[walk.cells[node]] = spec.target
        else:
            walk.cells[node] = _buffer(b, walk, source, spec, constants[spec.target])
    result = walk.run(ep.graph, ep.graph_module)
    for r in result:
        if isinstance(r, torch.fx.Node) and symbols(r.meta.get("val")) - set(walk.known):
            raise Refused("an output whose size depends on data", where(r))
    outputs = [walk.read(r) for r, s in zip(result, ep.graph_signature.output_specs) if s.kind.name == "USER_OUTPUT"]
    return form, b, walk, outputs, inputs


def _parameter(b: Build, source: Source, name: str, value: torch.Tensor) -> Any:
    t = source.parameter(b, name, value)
    return pairs.Pair(*(b.select(t, -1, i) for i in (0, 1))) if value.is_complex() else t


def _input(b: Build, walk: Walk, node: Any, name: str) -> tuple[Tensor, tuple]:
    val = node.meta["val"]
    shape = walk.shape(node)
    order = (0, 2, 3, 1) if len(shape) == 4 else tuple(range(len(shape)))
    lying = tuple(shape[d] for d in order)
    return Tensor(b.form.input(name, declared(val.dtype), lying), order), (name, shape, order)


def _buffer(b: Build, walk: Walk, source: Source, spec: Any, value: torch.Tensor) -> Cell:
    real = value.dtype.is_floating_point
    if not real and value.dtype != torch.bool and spec.target in source.moved & source.used:
        real = True  # a number of steps that the loss depends on: whole numbers of f32
    if real and (spec.target in source.moved or (spec.persistent and spec.kind.name == "BUFFER")):
        t = source.state(b, spec.target, value)
        walk.states[spec.target] = t.value
        cell = Cell(t)
    else:
        cell = Cell(Const(array_of(value)))
    walk.buffers[cell] = spec.target
    return cell


def input_names(module: torch.nn.Module, example: Sequence[torch.Tensor], names: Optional[Sequence[str]], loss: str) -> list[str]:
    """The first input is called as our data sources call it, image or tokens; the others as forward() calls them."""
    if names:
        return list(names)
    taken = {n for n, _ in module.named_parameters()} | {n for n, _ in module.named_buffers()} | {"loss", "logits"}
    taken |= {"label"} if loss != "own" else set()
    kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    arguments = [n for n, p in inspect.signature(module.forward).parameters.items() if p.kind in kinds]
    out: list[str] = []
    for i, x in enumerate(example):
        base = "image" if x.dim() == 4 else "tokens" if not x.dtype.is_floating_point and x.dim() == 2 else "input"
        if i > 0 and i < len(arguments):
            base = arguments[i]
        out.append(base if base not in taken else f"{base}.{i}")
        taken.add(out[-1])
    return out


def apart(example: Sequence[Any]) -> list:
    """A tensor that is given for two inputs would be one input to torch.export, which reads the last of them for both."""
    return [x.clone() if any(x is y for y in example[:i]) else x for i, x in enumerate(example)]


def both(module: torch.nn.Module, example: Sequence[Any], notes: list) -> list:
    """The programs of train() and eval().  Where train() branches on random numbers, eval() stands for both."""
    try:
        train = program(module, example, True)
    except Never:
        raise
    except Refused as why:
        try:
            derived = program(module, example, False)
        except Refused:
            raise why from None
        notes.append(f"train() cannot be exported ({why}); training uses the graph of eval() with dropout and batch norm switched on: "
                     "dropout inside attention, and what else train() alone does, is missing")
        return [derived, derived]
    return [train, program(module, example, False)]


def export(module: torch.nn.Module, example: Sequence[torch.Tensor], loss: str = "cross_entropy",
           name: Optional[str] = None, names: Optional[Sequence[str]] = None, dim: Optional[int] = None,
           custom_ops: bool = False, rows: Optional[Sequence[int]] = None) -> Exported:
    """The module as a model.  `example`: inputs of a batch of 2 or more, best no other size of the model.  `dim`: where the classes
    stand in the output; default: last, and second in images and where `rows`, the shape of one sample's labels, says so.

    Raises Refused, with the user's source line, for what cannot be taken.  The module's mode is left as it was.  With custom_ops what
    has no counterpart runs in PyTorch (headroom.torch.outside)."""
    was = module.training
    notes = [f"the module has parameters of {t}: they are taken as f32, and --precision trains in 16 bits" for t in sorted(halved(module))]
    module, example = in_f32(module), apart(of_f32(example))
    try:
        programs = both(module, example, notes)
    finally:
        module.train(was)
    source = Source(module, programs)
    batch = int(example[0].shape[0])
    given = input_names(module, example, names, loss)
    outside = Kept() if custom_ops else None
    forms, found = [], 0
    counters: dict = {}
    inputs: list = []
    orders: list = []
    for i, ep in enumerate(programs):
        derived = i == 0 and programs[0] is programs[1]
        form, b, walk, outputs, inputs = form_of(ep, source, given, batch, i == 0, derived, outside)
        outputs = [b.whole(o) for o in outputs if isinstance(o, (Tensor, Const))]
        outputs = [o for o in outputs if o.type == "f32"]
        if not outputs:
            raise Refused("the module returns no tensor of real numbers")
        found, orders = attach(b, outputs, loss, dim, rows=rows)
        counters.update(walk.counters)
        notes += [n for n in walk.notes if n not in notes]
        fuse(form)
        forms.append(form)
    model = Model(name or type(module).__name__, found, forms[0], forms[1], customs=outside.lines() if outside else [])
    turned = {n: (2, 3, 1, 0) for n in source.conv}
    return Exported(model, source.weights, inputs, orders, turned, loss, source.aliases, counters,
                    notes + _notes(module, source, forms) + (outside.notes() if outside else []))


def _notes(module: torch.nn.Module, source: Source, forms: Sequence[Form]) -> list[str]:
    notes = []
    ours = sum(int(np.prod(a.shape)) for n, a in source.weights.items()
               if n in source.followed() or any(n in f.named and f.named[n].entry.kind == "param" for f in forms))
    theirs = sum(as_real(p).numel() for p in module.parameters())
    if ours != theirs:
        missing = sorted({n for n, _ in module.named_parameters()} - set(source.weights))
        notes.append(f"{theirs - ours} of {theirs} parameters are read by neither form: {', '.join(missing[:5])}")
    if any(getattr(m, "use_nested_tensor", False) for m in module.modules()):
        notes.append("nn.TransformerEncoder: at padding that a mask hides, PyTorch's fast path of eval() returns 0; here evaluation computes "
                     "it as training does")
    for alias, home in source.aliases.items():
        notes.append(f"{alias} is {home}: one parameter")
    return notes


def load(module: torch.nn.Module, path: str | Path, exported: Optional[Exported] = None, steps: int = 0) -> list[str]:
    """Weights and statistics of a checkpoint of ours, or of the folder of a run, back into the module.  The names that were not in the
    file.

    Tied parameters are one tensor in the module, so each is written once.  Counters that a step moves (their file has none)
    are brought up to date by `steps`; num_batches_tracked is in our files."""
    tensors, _ = safetensors.read(safetensors.of_run(path))
    own = module.state_dict(keep_vars=True)
    missing = []
    with torch.no_grad():
        for name, target in own.items():
            if name in tensors:
                value = torch.from_numpy(np.array(tensors[name]))
                value = torch.view_as_complex(value) if target.is_complex() and value.shape[-1:] == (2,) else value
                if tuple(value.shape) != tuple(target.shape):
                    raise ValueError(f"{name} is {tuple(value.shape)} in {path} and {tuple(target.shape)} in the module")
                target.copy_(value)
            elif exported is not None and name in exported.counters:
                target.add_(exported.counters[name] * steps)
            else:
                missing.append(name)
    done = {own[n].data_ptr() for n in own if n in tensors}
    return [n for n in missing if own[n].data_ptr() not in done]


__all__ = ["Exported", "export", "load", "program"]

"""Models, wherever they come from: a name, a file, one line, a function that builds a graph, a torch module, a Keras model.

A Model is what fit, plan, evaluate and predict work with.  Its weights lie in a file, not in this process's memory, because a
budget on the host covers the whole process."""
from __future__ import annotations

import ctypes as c
import os
from typing import Any, Callable, Optional, Sequence, Union

from .define import Custom, Graph, define
from .errors import Error, UsageError
from .library import TYPES, call, library, shape_of, text


class Input:
    """An input of a model: name, type ("f32"), the shape of one sample as it lies in memory, and the order in which the caller's
    dimensions lie there (None: as given)."""

    def __init__(self, name: str, type_: str, shape: tuple[int, ...], order: Optional[tuple[int, ...]] = None) -> None:
        self.name, self.type, self.shape, self.order = name, type_, shape, order

    def __repr__(self) -> str:
        return f"{self.name} {self.type}[N,{','.join(map(str, self.shape))}]"


class Model:
    """A model that the library can open: `hr.model(...)` makes one; fit and the others take whatever it takes.

    `weights` is the path of its trained weights (None: none yet), which fit sets and evaluate and predict read."""

    def __init__(self, model_text: Optional[str] = None, handle: Optional[c.c_void_p] = None, kept: Sequence[Any] = ()) -> None:
        self.text, self.handle, self.kept = model_text, handle, list(kept)
        self.weights: Optional[str] = None
        self.exported: Any = None
        self.source: Any = None  # the framework's own object
        self._folder: Any = None
        self._inputs: Optional[list[Input]] = None

    def __repr__(self) -> str:
        return f"<headroom model {self.text or text(library().hr_model_name(self.handle))}>"

    def folder(self) -> str:
        """A directory that lives as long as this object."""
        if self._folder is None:
            import tempfile

            self._folder = tempfile.TemporaryDirectory(prefix="headroom-")
        return str(self._folder.name)

    def opened(self) -> c.c_void_p:
        """The library's own model."""
        if self.handle is None:
            assert self.text is not None
            made = c.c_void_p()
            call("hr_model_open", self.text.encode(), c.byref(made))
            self.handle = made
        return self.handle

    @classmethod
    def parse(cls, file_text: str) -> "Model":
        """The text of a model file.  Custom ops that it names are those of PyTorch."""
        from .file import customs_of

        raw, handle, named, kept = file_text.encode(), c.c_void_p(), customs_of(file_text), []
        if named:
            from .torch.outside import customs

            kept = customs(named)
        ops = (c.c_void_p * max(1, len(kept)))(*[op.handle for op in kept])
        call("hr_model_parse_custom", raw, len(raw), ops, len(kept), c.byref(handle))
        return cls(None, handle, kept)

    def graph(self, batch: int, training: bool) -> Graph:
        """The model's graph for a batch, not frozen."""
        g = Graph()
        if library().hr_model_build(self.opened(), g.handle, batch, training) != 0:
            g.raise_error()
        return g

    def build_once(self) -> None:
        """A graph of a framework that does not work for every batch is refused with the user's line."""
        for training in (True, False):
            try:
                self.graph(3, training).close()
            except Error as e:
                raise self.exported.refused(e) from None

    @property
    def custom(self) -> bool:
        """Built by a function, so that only this process can open it."""
        return self.text is None

    @property
    def inputs(self) -> list[Input]:
        """Inputs and labels, in the order of the graph."""
        if self._inputs is None:
            from . import _c

            g = self.graph(2, True)
            orders = {name: order for name, _, order in self.exported.inputs} if self.exported is not None else {}
            self._inputs = []
            for v in range(1, library().hr_graph_value_count(g.handle) + 1):
                if library().hr_graph_kind(g.handle, v) == _c.HR_VALUE_INPUT:
                    meta, name = library().hr_graph_meta(g.handle, v), text(library().hr_graph_name(g.handle, v))
                    self._inputs.append(Input(name, TYPES[meta.type], shape_of(meta.shape)[1:], turned(orders.get(name))))
            g.close()
        return self._inputs

    def write(self, path: Union[str, "os.PathLike[str]"]) -> None:
        """The model as a model file (docs/graph-format.md)."""
        call("hr_model_write", self.opened(), os.fsencode(path))

    def raise_failure(self) -> None:
        """What an op in NumPy raised inside the library."""
        for op in self.kept:
            if isinstance(op, Custom):
                op.raise_failure()

    def checkpoint(self) -> str:
        """What evaluate and predict open: weights of a run, or a model file with its weights."""
        if self.weights is not None:
            return self.weights
        if self.text is not None and self.text.endswith(".hr"):
            return self.text
        raise UsageError(f"{self!r} has no weights: train it, or give a checkpoint or the folder of a run")

    def give_back(self, steps: int) -> None:
        """The trained weights and statistics into the framework's own object."""
        if self.source is None or self.weights is None:
            return
        if is_torch(self.source):
            from . import torch as front

            counts = {n: v.clone() for n, v in self.source.named_buffers() if n.endswith("num_batches_tracked")}
            front.load(self.source, self.weights, self.exported, steps)
            for n, v in self.source.named_buffers():  # the file counts this training alone
                if n in counts:
                    v += counts[n]
        else:
            from . import keras as other

            other.load(self.source, self.weights)

    def __del__(self) -> None:
        try:
            if self.handle is not None:
                library().hr_model_close(self.handle)
        except Exception:
            pass


def turned(order: Optional[Sequence[int]]) -> Optional[tuple[int, ...]]:
    """The order of a sample's dimensions from that of a batch's; None: as they are."""
    if order is None or list(order) == sorted(order):
        return None
    return tuple(d - 1 for d in order[1:])


def is_torch(model: Any) -> bool:
    names = [k.__module__ for k in type(model).__mro__]
    return any(n.startswith("torch.nn") for n in names) and not any(n.startswith("keras.") for n in names)


def is_keras(model: Any) -> bool:
    return any(k.__module__.startswith("keras.") for k in type(model).__mro__)


def model(source: Any, *, name: Optional[str] = None, classes: int = 0, loss: Any = None, example: Any = None,
          custom_ops: bool = False, rows: Optional[tuple[int, ...]] = None) -> Model:
    """A model from a name ("resnet18:classes=10,size=64"), a file ("my.hr"), one line ("net: ..."), a function
    build(graph, batch, training), a torch module or a Keras model.

    loss: of torch and Keras models (a name, or the framework's own loss object).  example: inputs of a torch module, one batch;
    fit and evaluate take it from the data.  custom_ops: ops of a torch module that have no counterpart run in PyTorch on the host.
    rows: the shape of one sample's labels, which tells where classes stand in outputs of three dimensions; fit takes it from the data."""
    if isinstance(source, Model):
        return source
    if isinstance(source, (str, os.PathLike)):
        return _from_text(os.fspath(source))
    if is_keras(source):
        return _from_keras(source, loss, name, rows)
    if is_torch(source):
        return _from_torch(source, loss, name, example, custom_ops, rows)
    if callable(source):
        handle, kept = define(source, name or str(getattr(source, "__name__", "model")), classes)
        return Model(None, handle, kept)
    raise UsageError(f"a model is a name, a file, a function, a torch module or a Keras model, not {type(source).__name__}")


def _from_text(given: str) -> Model:
    """A checkpoint or a run's folder stands for its own model."""
    m = Model(given)
    if os.path.isdir(given) or given.endswith(".safetensors"):
        m.weights, m.text = given, None
        handle, file = c.c_void_p(), c.c_void_p()
        call("hr_checkpoint_open", os.fsencode(given), c.byref(file))
        try:
            call("hr_checkpoint_model", file, c.byref(handle))
        finally:
            library().hr_checkpoint_close(file)
        m.handle = handle
    elif given.endswith(".hr") and os.sep not in given:
        m.text = os.path.join(".", given)
    if given.endswith(".hr") and os.path.exists(given):
        return _with_customs(m)
    return m


def _with_customs(m: Model) -> Model:
    """A model file that names custom ops is opened here, with them; any other by the library."""
    from .file import customs_of, parse

    assert m.text is not None
    with open(m.text, encoding="utf-8") as f:
        content = f.read()
    if not customs_of(content):
        return m
    made = Model.parse(content)
    beside = parse(content).weights
    made.weights = os.path.join(os.path.dirname(m.text), beside) if beside else None
    return made


def _save(exported: Any, source: Any) -> Model:
    m = Model()
    m.exported, m.source = exported, source
    path = os.path.join(m.folder(), f"{safe(exported.model.name)}.hr")
    exported.save(path)
    m.text = path
    if exported.model.customs:
        made = _with_customs(m)
        made.exported, made.source, made._folder = exported, source, m._folder
        m = made
    m.build_once()
    return m


def safe(name: str) -> str:
    return "".join(ch if ch.isalnum() or ch in "-_" else "_" for ch in name)[:60] or "model"


def _from_torch(module: Any, loss: Any, name: Optional[str], example: Any, custom_ops: bool,
                rows: Optional[tuple[int, ...]]) -> Model:
    from . import torch as front
    from .foreign import loss_name

    if example is None:
        raise UsageError("a torch module needs example inputs: pass example=(x,) to hr.model, or data to fit")
    return _save(front.export(module, example, loss_name(loss), name=name, custom_ops=custom_ops, rows=rows), module)


def _from_keras(source: Any, loss: Any, name: Optional[str], rows: Optional[tuple[int, ...]]) -> Model:
    from . import keras as front
    from .foreign import compiled, loss_name
    from .keras.losses import probabilities, traced

    wanted = loss if loss is not None else compiled(source).get("loss")
    if isinstance(wanted, front.Goal):
        return _save(front.export(source, loss="own", name=name, end=wanted), source)
    if traced(wanted):
        return _save(front.export(source, loss="own", name=name, end=wanted, rows=rows), source)
    made = loss_name(wanted)
    reads = probabilities(wanted) if made == "binary_cross_entropy" and wanted != "binary_cross_entropy" else None
    return _save(front.export(source, loss=made, name=name, probabilities=reads), source)


Build = Callable[[Graph, int, bool], object]
__all__ = ["Build", "Input", "Model", "is_keras", "is_torch", "model"]

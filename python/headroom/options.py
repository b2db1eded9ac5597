"""Keyword arguments as hr_job_options: the names of the command's flags with '_' for '-', those of training among them.

There is no second list: the names are the fields of the library's two structs."""
from __future__ import annotations

import contextlib
import ctypes as c
import os
from typing import Any, Iterator, Optional, Sequence

from .arranged import pair
from .before import Asked, compare_before
from .errors import UsageError
from .event import Listener
from .library import fill, kinds
from .models import Model, is_keras, is_torch
from .models import model as make_model
from .rates import is_scheduler, take
from .sources import Data, Pipeline, names_of, sample_type, shaped

STARTS = {"new": 0, "resume": 1, "overwrite": 2}
ELSEWHERE = {"lr": "rate", "learning_rate": "rate", "batch_size": "batch", "weight_decay": "decay", "eps": "epsilon",
             "validation_data": "val_data", "validation_split": "val_split", "max_epochs": "epochs", "betas": "beta1 and beta2"}


class Job:
    """The options of one job, with everything that they point to: keep it as long as its plan."""

    def __init__(self, model: Any, data: Any, given: dict[str, Any], listener: Optional[Listener] = None) -> None:
        from . import _c

        self.data, self.val_data = pair(model, data, given)
        self.listener = listener
        self.kept: list[Any] = []
        self.pipelines: list[Pipeline] = []
        loss = given.pop("loss", None)
        given = with_optimizer(model, given)
        self.rates = take(given)
        checked = given.pop("check", False)
        self.model = resolve(model, self.data, loss, given, asked=asked_of(checked, given, listener))
        self.struct = fill(_c.hr_job_options)
        self.fields = kinds(_c.hr_job_options)
        try:
            self._fill(given)
        except BaseException:
            self.close()
            raise

    def _fill(self, given: dict[str, Any]) -> None:
        from . import _c

        training = set(kinds(_c.hr_train_options)) - {"size", "ignored"}
        words = []
        for key, value in given.items():
            if value is None:
                continue
            if key in self.fields and key not in ("size", "model", "custom_model", "data", "pipeline", "val_pipeline", "on_event", "user",
                                                  "training", "reserved"):
                self.set(key, value)
            elif key in training and key != "steps":
                words.append(f"{key.replace('_', '-')}={str(value).lower() if isinstance(value, bool) else value}")
            else:
                raise UsageError(f"there is no option {key!r}" + (f"; it is called {ELSEWHERE[key]} here" if key in ELSEWHERE else ""))
        if words:
            self.set("training", ",".join(words))
        if self.model.custom:
            self.struct.custom_model = self.model.opened()
        else:
            self.set("model", self.model.text)
        if self.model.weights and "init" not in given:
            self.set("init", self.model.weights)
        self._data(given)
        if "labels_count" not in given:
            self.set("labels_count", labels_count(self.model, self.data))
        if self.listener is not None:
            self.struct.on_event = self.listener.function

    def _data(self, given: dict[str, Any]) -> None:
        for source, text, object_ in ((self.data, "data", "pipeline"), (self.val_data, "val_data", "val_pipeline")):
            if source is None:
                continue
            if source.text is not None:
                self.set(text, source.text)
                continue
            pipeline = source.open(self.model.inputs, text == "data", int(given.get("batch") or 0),
                                   int(given.get("data_budget_bytes") or 0), int(given.get("seed") or 0), bool(given.get("skip_bad")))
            self.pipelines.append(pipeline)
            setattr(self.struct, object_, pipeline.handle)

    def set(self, key: str, value: Any) -> None:
        kind = self.fields[key]
        if key == "start" and isinstance(value, str):
            if value not in STARTS:
                raise UsageError(f"start={value!r}: there are {', '.join(STARTS)}")
            value = STARTS[value]
        if kind is c.c_char_p:
            value = os.fspath(value) if isinstance(value, os.PathLike) else str(value)
            setattr(self.struct, key, value.encode())
        elif kind is c.c_double:
            setattr(self.struct, key, float(value))
        elif kind is c.c_void_p:
            setattr(self.struct, key, getattr(value, "handle", value))
            self.kept.append(value)
        else:
            if not isinstance(value, (int, bool)) and not hasattr(value, "__index__"):
                raise UsageError(f"{key}={value!r} is not a whole number")
            setattr(self.struct, key, int(value))

    def raise_failure(self, error: BaseException) -> None:
        """What a callback, a source or an op of the user's raised, in place of the library's word for it."""
        if self.listener is not None:
            self.listener.raise_failure()
        self.model.raise_failure()
        for pipeline in self.pipelines:
            pipeline.raise_failure(error)

    def close(self) -> None:
        for pipeline in self.pipelines:
            pipeline.close()
        self.pipelines = []


def labels_count(model: Model, data: Optional[Data]) -> int:
    """1: a framework's model that returns its loss gets no negative label, so that its batch may be split."""
    own = model.exported is not None and model.exported.loss == "own"
    return int(own and data is not None and data.none_negative(model.inputs))


def with_optimizer(model: Any, given: dict[str, Any]) -> dict[str, Any]:
    """An optimizer object, or that of a compiled Keras model, as options; options that are given win."""
    from .foreign import compiled, optimizer_options

    optimizer: Any = given.get("optimizer")
    schedule: Any = given.get("schedule")
    if optimizer is None and is_keras(model):
        optimizer = compiled(model).get("optimizer")
    if optimizer is None and is_scheduler(schedule):
        optimizer = schedule.optimizer
    if optimizer is None or isinstance(optimizer, str):
        return given
    found = optimizer_options(optimizer, model if is_torch(model) else None, is_scheduler(schedule))
    rest = {k: v for k, v in given.items() if k != "optimizer" and v is not None}
    if "passes" in found and "passes" in rest:
        rest["passes"] = f"{found['passes']};{rest['passes']}"
    return {**found, **rest}


def asked_of(check: Any, given: dict[str, Any], listener: Optional[Listener], process: Optional[str] = None) -> Optional[Asked]:
    """Whether and how a framework's model is compared with the framework before it is trained."""
    return Asked(given.get("budget"), given.get("device"), process, listener) if check else None


def resolve(model: Any, data: Optional[Data], loss: Any, given: dict[str, Any], labels: bool = True,
            asked: Optional[Asked] = None) -> Model:
    """The model, with an example from the data for torch; label smoothing of a loss object becomes an option.  `asked`: it is compared
    with its framework."""
    if loss is not None and not (is_torch(model) or is_keras(model)):
        raise UsageError("loss= is for torch and Keras models; this model has its own")
    with frozen(model, given.pop("left_out", None) or []):
        made = resolved(model, data, loss, given, labels)
        if asked is not None and data is not None and data.text is None and made.exported is not None and made.source is not None:
            for note in made.exported.notes:
                if note.startswith("train() cannot be exported"):
                    asked.say(note)
            step = torch_step if is_torch(made.source) else keras_step
            compare_before(made, lambda count, wide: step(made, data, count, wide), asked)
        return made


def torch_step(m: Model, data: Data, count: int, wide: bool) -> Any:
    """One step of a module on samples of the data, here and in PyTorch."""
    from .torch.check import check

    fields, e = torch_example(data, count), m.exported
    inputs, rest = fields[:len(e.inputs)], fields[len(e.inputs):]
    label = None
    if rest:
        value = e.model.train.named["label"]
        label = rest[0].numpy().reshape([d if isinstance(d, int) else d.at(len(rest[0])) for d in value.shape])
        label = label.astype("int32" if value.type == "i32" else "float32")
    return check(m.source, e, inputs, label=label, rows=label_rows(data), wide=wide)


def keras_step(m: Model, data: Data, count: int, wide: bool) -> Any:
    """The same for a model of Keras."""
    import keras
    import numpy as np

    from .keras import check

    if keras.backend.backend() not in ("torch", "numpy"):
        raise UsageError(f"the {keras.backend.backend()} backend of Keras does not run in a forked process; python -m headroom export "
                         "compares on its own")
    fields = data.example(count) or []
    item = dict(zip(data.arrays, fields)) if isinstance(data.arrays, dict) else tuple(fields)
    feeds = {}
    for to, a in zip(names_of(item, m.inputs), fields):
        rows = [shaped(x, to, sample_type(a.dtype, to)) for x in a[:count]]
        feeds[to.name] = np.stack(rows if len(rows) > 1 else rows * 2).astype("int32" if to.type == "i32" else "float32")
    return check(m.source, m.exported, len(next(iter(feeds.values()))), 1, feeds, wide=wide)


@contextlib.contextmanager
def frozen(module: Any, names: Sequence[str]) -> Iterator[None]:
    """Parameters that no group of the optimizer has are exported as if they needed no gradient."""
    wanted = set(names)
    parameters = [p for n, p in module.named_parameters() if n in wanted] if wanted else []
    for p in parameters:
        p.requires_grad_(False)
    try:
        yield
    finally:
        for p in parameters:
            p.requires_grad_(True)


def resolved(model: Any, data: Optional[Data], loss: Any, given: dict[str, Any], labels: bool) -> Model:
    if is_torch(model):
        from .foreign import smoothing

        example = torch_example(data)
        if labels and len(example) > 1:
            model, loss = with_loss(model, loss, len(example) - 1, real_labels(data))
            example = example if own_labels(model, loss, len(example)) else example[:-1]
        if smoothing(loss):
            given.setdefault("smoothing", smoothing(loss))
        rows = label_rows(data) if labels else None
        return make_model(model, loss=loss, example=example, custom_ops=bool(given.pop("custom_ops", False)), rows=rows)
    if is_keras(model) and data is not None:
        return keras_model(model, data, loss, labels, given.pop("class_weight", None))
    return make_model(model, loss=loss)


def keras_model(model: Any, data: Data, loss: Any, labels: bool, classes: Optional[dict[int, float]]) -> Model:
    """A Keras model, called once on the data if it never was, so that it knows its input."""
    from .foreign import compiled, is_cross_entropy

    found = data.example(1) if data.text is None else None
    inputs = (found or [])[:-(data.labels + data.weights)] if labels else found or []
    if inputs and not getattr(model, "built", True):
        model(inputs[0][:1] if len(inputs) == 1 else [a[:1] for a in inputs])
    wanted = loss if loss is not None else compiled(model).get("loss")
    if not labels and isinstance(wanted, (list, tuple, dict)):
        return make_model(model, loss="squares")  # predictions alone: any loss does
    goal = keras_goal(model, data, wanted, found, classes) if labels and found else None
    if goal is not None:
        return make_model(model, loss=goal)
    if labels and real_labels(data) and wanted is not None and is_cross_entropy(wanted):
        raise UsageError(f"{NO_CLASSES}; y.argmax(-1) makes class numbers of one-hot rows")
    rows = tuple(found[-1].shape[1:]) if labels and found and len(found) > 1 and found[-1].ndim else None
    return make_model(model, loss=loss, rows=rows)


def keras_goal(model: Any, data: Data, loss: Any, found: Sequence[Any], classes: Optional[dict[int, float]]) -> Any:
    """The losses of several outputs, or of weighted samples; None: one loss, as it is."""
    from .keras.goal import Goal, in_order, outputs_of

    count = outputs_of(model)
    if count == 1 and not isinstance(loss, (list, tuple, dict)) and not classes and not data.weights:
        return None
    losses = in_order("cross_entropy" if loss is None else loss, model, count, "losses")
    losses = ["sparse_categorical_crossentropy" if x == "cross_entropy" else x for x in losses]
    factors = in_order(getattr(model, "_compile_loss", None) and model._compile_loss._user_loss_weights, model, count, "loss_weights", 1.0)
    read = [i for i, x in enumerate(losses) if x is not None]
    if len(read) != data.labels:
        raise UsageError(f"{data.labels} arrays of labels for {len(read)} losses; give (x, [y1, y2])")
    first = len(found) - data.labels - data.weights
    shapes = [tuple(a.shape[1:]) for a in found[first:first + data.labels]]
    return Goal(losses, [1.0 if f is None else float(f) for f in factors], shapes, data.weights, classes)


NO_CLASSES = "cross entropy takes class numbers, and the labels are real numbers"


def real_labels(data: Optional[Data]) -> int:
    """The dimensions of a batch of labels that are real numbers; 0: they are whole, or not known yet."""
    found = data.example(1) if data is not None and data.text is None else None
    return max(1, found[-1].ndim) if found and len(found) > 1 and found[-1].dtype.kind == "f" else 0


def label_rows(data: Optional[Data]) -> Optional[tuple[int, ...]]:
    """The dimensions of one sample's labels, where they are whole numbers in arrays or batches."""
    found = data.example(1) if data is not None and data.text is None else None
    return tuple(found[-1].shape[1:]) if found and len(found) > 1 and found[-1].dtype.kind in "iu" else None


def with_loss(model: Any, loss: Any, count: int, real: int = 0) -> tuple[Any, Any]:
    """A loss without a counterpart, of torch.nn or a function of output and labels, becomes the end of the module; so does cross entropy
    with a probability for each class as labels."""
    from .foreign import is_cross_entropy, plain_loss

    soft = bool(real) and loss is not None and is_cross_entropy(loss)
    if soft and real < 2:
        raise UsageError(NO_CLASSES)
    if not soft and (plain_loss(loss) or not callable(loss)):
        return model, loss
    from .torch.losses import joined, probabilities

    return joined(model, loss if callable(loss) else probabilities, count), "own"


def own_labels(model: Any, loss: Any, count: int) -> bool:
    """Whether a module that returns its loss takes the labels as its last input."""
    if loss != "own":
        return False
    from .torch.losses import takes

    return takes(model, count)


def torch_example(data: Optional[Data], count: int = 2) -> Any:
    """The fields of the data as tensors of a batch of at least two, at most `count`."""
    import numpy as np
    import torch

    found = data.example(count) if data is not None else None
    if not found:
        raise UsageError("a torch module needs data in arrays or a loader, so that its input's shape is known; for a text such as "
                         "'images:DIR' use hr.model(module, example=(x,))")
    if found[-1].ndim == 0:  # an iterable of samples
        found = [a[None] for a in found]
    made = []
    for a in found:
        a = a if len(a) > 1 else np.concatenate([a, a])
        masks = a.dtype.kind == "b" and a.ndim > 1
        kind = "bool" if masks else "float32" if a.dtype.kind == "f" or a.dtype.name == "uint8" else "int64"
        made.append(torch.from_numpy(np.array(a[:count], kind)))
    return tuple(made)

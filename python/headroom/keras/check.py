"""The model's own step, for comparison: Keras on its torch backend, every random op at its mean, computing in f32."""
from __future__ import annotations

import contextlib
import json
from typing import Any, Iterator, Mapping, Optional
from unittest import mock

import keras
import numpy as np
from keras import tree

from ..check import Compared, Ours, Outcome, compare, ours, rows_of
from ..exported import Exported
from ..loss import class_dim
from ..size import Size
from .export import unique_paths
from .goal import Goal
from .trace import argument_of


@contextlib.contextmanager
def mean(model: Any) -> Iterator[None]:
    """Inside, dropout lets everything through, other random numbers are their mean, and every layer computes in f32."""
    from keras.src import backend

    def normal(shape: Any, mean: float = 0.0, stddev: float = 1.0, dtype: Any = None, seed: Any = None) -> Any:
        return keras.ops.full(shape, mean, dtype=dtype)

    def uniform(shape: Any, minval: float = 0.0, maxval: float = 1.0, dtype: Any = None, seed: Any = None) -> Any:
        return keras.ops.full(shape, (minval + maxval) / 2, dtype=dtype)

    layers = list(model._flatten_layers())
    policies = [x.dtype_policy for x in layers]
    with mock.patch.multiple(backend.random, dropout=lambda x, *args, **kwargs: x, normal=normal, uniform=uniform):
        for x in layers:
            if str(getattr(x.dtype_policy, "name", "")).startswith("mixed_"):
                x.dtype_policy = "float32"
        try:
            yield
        finally:
            for x, p in zip(layers, policies):
                x.dtype_policy = p


def feeds_of(e: Exported, batch: int, seed: int = 0) -> dict[str, np.ndarray]:
    r = np.random.RandomState(seed)
    feeds = {}
    for name, v in e.model.train.named.items():
        if v.entry.kind != "input":
            continue
        shape = [d.at(batch) if isinstance(d, Size) else d for d in v.shape]
        limit = max(e.model.classes, 1) if name == "label" else 2 if name in e.truths else rows_of(e.model.train, name)
        feeds[name] = r.randint(0, limit, shape).astype("int32") if v.type == "i32" else r.randn(*shape).astype("float32")
    return feeds


def loss_of(outputs: list, e: Exported, feeds: Mapping[str, np.ndarray], soft: bool) -> Any:
    import torch

    label = torch.from_numpy(feeds["label"]) if "label" in feeds else None
    if e.loss == "own":
        given = [torch.from_numpy(feeds[n]) for n, _, _ in e.inputs[e.reads:]]
        return e.end.total(given, outputs, True) if isinstance(e.end, Goal) else e.end(*given, outputs[0])
    if e.loss == "squares":
        return sum((o if o.is_floating_point() else o.float()).pow(2).mean() for o in outputs)
    first = outputs[0]
    if e.loss == "cross_entropy":
        class Shape:
            rank = first.dim()

        x = first.movedim(class_dim(Shape, None, -1), -1).flatten(0, -2)  # type: ignore[arg-type]
        logs = torch.log(x) if soft else torch.log_softmax(x, -1)
        return torch.nn.functional.nll_loss(logs, label.flatten().long())
    if e.loss == "mean_squared_error":
        return (first - label).pow(2).mean()
    return torch.nn.functional.binary_cross_entropy_with_logits(torch.logit(first) if e.odds else first, label)


def theirs(model: Any, e: Exported, feeds: Mapping[str, np.ndarray], steps: int, rate: float,
           paths: Optional[Mapping] = None, sides: Optional[Any] = None) -> Outcome:
    """`paths`: names of the variables, in their order, when the model is a copy of another; `sides`: those to take at kinks in the
    first step."""
    import torch

    out = Outcome()
    names = {id(v): n for v, n in zip(model.variables, (paths or unique_paths(model)).values())}
    kept = [np.array(keras.ops.convert_to_numpy(v.value)) for v in model.variables]
    grads = [getattr(v.value, "grad", None) for v in model.trainable_variables]
    xs = [torch.from_numpy(feeds[n]) for n, _, _ in e.inputs[:e.reads]]
    argument = argument_of(model, xs)
    try:
        # its other kernels have another gradient than the softmax has, in rows where all keys are hidden
        with mean(model), torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.MATH):
            with torch.no_grad():
                ys = tree.flatten(model(argument, training=False))
            soft = e.loss == "cross_entropy" and bool(((ys[0].sum(-1) - 1).abs() < 1e-4).all() and (ys[0] >= 0).all())
            out.outputs = [y.numpy() for y in ys]
            out.outputs[0] = logs_of(out.outputs[0]) if soft else out.outputs[0]
            for i in range(steps):
                for v in model.trainable_variables:
                    v.value.grad = None
                with sides if sides is not None and i == 0 else contextlib.nullcontext():
                    x = loss_of(tree.flatten(model(argument, training=True)), e, feeds, soft)
                    x = x + sum(v.regularizer(v.value).to(x) for v in model.trainable_variables if getattr(v, "regularizer", None))
                    x = x + sum(added.sum().to(x) for layer in model._flatten_layers() for added in layer._losses)
                x.backward(retain_graph=True)  # of numbers that a layer made when the model was built there is one for all steps
                out.losses.append(float(x.detach()))
                if i == 0:
                    out.gradients = {names[id(v)]: v.value.grad.numpy().copy() for v in model.trainable_variables
                                     if v.value.grad is not None}
                    out.states = {names[id(v)]: np.array(keras.ops.convert_to_numpy(v.value)) for v in model.variables}
                with torch.no_grad():
                    for v in model.trainable_variables:
                        if v.value.grad is not None:
                            v.value.sub_(rate * v.value.grad)
    finally:
        for v, a in zip(model.variables, kept):
            v.assign(a)
        for v, g in zip(model.trainable_variables, grads):
            v.value.grad = g
    return out


def double_of(model: Any) -> Optional[Any]:
    """The same model computing in double precision; None for one whose configuration does not make it again."""
    if not isinstance(model, keras.Model):
        return None
    try:
        text = json.dumps(keras.saving.serialize_keras_object(model))
    except (TypeError, ValueError, NotImplementedError):
        return None
    for name in ("mixed_float16", "mixed_bfloat16", "float32"):
        text = text.replace(f'"{name}"', '"float64"')
    own = {type(x).__name__: type(x) for x in model._flatten_layers() if not type(x).__module__.startswith("keras.")}
    plain, policy = keras.config.floatx(), keras.config.dtype_policy()
    try:  # the model of this process itself, with what its configuration does not say in double precision, too
        keras.config.set_floatx("float64")
        keras.config.set_dtype_policy("float64")
        twin = keras.saving.deserialize_keras_object(json.loads(text), custom_objects=own, safe_mode=False)
    except (TypeError, ValueError, KeyError, AttributeError):  # its configuration does not say all of it
        return None
    finally:
        keras.config.set_floatx(plain)
        keras.config.set_dtype_policy(policy)
    if [tuple(a.shape) for a in twin.variables] != [tuple(b.shape) for b in model.variables] or \
            any(str(v.dtype) in ("float32", "float16", "bfloat16") for v in twin.variables):
        return None
    for a, b in zip(twin.variables, model.variables):
        a.assign(b.value)
    return twin


LEAST = -80.0  # logarithms of probabilities below are not compared: single precision has 0 for some of them


def logs_of(p: np.ndarray) -> np.ndarray:
    return np.log(np.maximum(np.asarray(p, "float64"), np.exp(LEAST)))


def soften(a: Outcome, b: Outcome, e: Exported) -> None:
    """Logits are known up to a number a row when the framework only shows probabilities, and not at all where they are 0 or 1."""
    x = a.outputs[0].astype("float64")
    if e.odds:
        a.outputs[0] = 1.0 / (1.0 + np.exp(-np.clip(x, LEAST, -LEAST)))
    elif e.loss == "cross_entropy" and np.abs(np.exp(b.outputs[0]).sum(-1) - 1).max() < 1e-4:
        x = x - x.max(-1, keepdims=True)
        a.outputs[0] = np.maximum(x - np.log(np.exp(x).sum(-1, keepdims=True)), LEAST)


def check_evaluation(model: Any, e: Exported, batch: int = 5, feeds: Optional[Mapping[str, np.ndarray]] = None) -> Compared:
    """Outputs in evaluation, on any backend."""
    feeds = dict(feeds_of(e, batch), **(feeds or {}))
    r, a, b = Ours(e, batch), Outcome(), Outcome()
    try:
        a.outputs, _ = r.evaluate(feeds)
    finally:
        r.close()
    with mean(model):
        out = model(argument_of(model, [feeds[n] for n, _, _ in e.inputs[:e.reads]]), training=False)
    b.outputs = [np.asarray(keras.ops.convert_to_numpy(y), "float32") for y in tree.flatten(out)]
    if e.loss == "cross_entropy" and (np.abs(b.outputs[0].sum(-1) - 1) < 1e-4).all() and (b.outputs[0] >= 0).all():
        b.outputs[0] = logs_of(b.outputs[0])
    soften(a, b, e)
    far = max(float(np.abs(x - y).max() / max(1e-9, np.abs(y).max())) for x, y in zip(a.outputs, b.outputs))
    return Compared(0.0, 0.0, "none", 0.0, 0.0, far, 0, [])


def check(model: Any, e: Exported, batch: int = 5, steps: int = 1,
          feeds: Optional[Mapping[str, np.ndarray]] = None, within: float = 1e-4, wide: bool = True) -> Compared:
    """One step against the model's own; on another backend than torch its outputs in evaluation alone (`counted` is then 0).
    `wide`: False for single precision alone."""
    if keras.backend.backend() != "torch":
        return check_evaluation(model, e, batch, feeds)
    feeds = dict(feeds_of(e, batch), **(feeds or {}))
    a = ours(e, feeds, batch, steps)
    try:
        b = theirs(model, e, feeds, steps, a.rate)
    except RuntimeError as why:
        if "derivative for" not in str(why):
            raise
        return check_evaluation(model, e, batch, feeds)  # it has an op that PyTorch cannot differentiate
    soften(a, b, e)
    states = [n for n in e.weights if e.model.train.named[n].entry.kind == "state" and not n.startswith("constant.")]
    r = compare(a, b, states)
    twin = None if r.good(within) or not wide else double_of(model)
    if twin is None:
        return r
    from ..torch.check import by_double

    doubles = {k: v.astype("float64") if v.dtype == "float32" else v for k, v in feeds.items()}
    return by_double(e, feeds, batch, states, a, b,
                     lambda sides: theirs(twin, e, doubles, steps, a.rate, unique_paths(model), sides), within)

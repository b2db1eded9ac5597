"""What a Keras model is trained for where that is more than one loss of one output: a loss for each output with a weight, weights of
samples and of classes, regularizers."""
from __future__ import annotations

from typing import Any, Optional, Sequence

import keras
import numpy as np
from keras import ops, tree

from ..build import Build, Tensor
from ..graph import Refused
from .losses import loss_of


class Goal:
    """One loss, or None, for each output.  `shapes`: of one sample's labels; `weighted`: how many inputs are weights of samples (0, 1, or
    one for each label); `classes`: a weight for each class."""

    def __init__(self, losses: Sequence[Any], factors: Sequence[float], shapes: Sequence[tuple], weighted: int,
                 classes: Optional[dict[int, float]]) -> None:
        self.losses = [None if x is None else loss_of(x) for x in losses]
        self.factors, self.shapes, self.weighted, self.classes = list(factors), list(shapes), weighted, classes
        if classes and len(self.read) != 1:
            raise Refused("class_weight with more than one output")
        for loss in self.losses:
            if loss is not None and (weighted or classes) and loss.reduction not in ("sum", "sum_over_batch_size", "mean"):
                raise Refused(f"weights of samples with reduction={loss.reduction!r}")

    @property
    def read(self) -> list[int]:
        """Numbers of the outputs that have a loss, and so labels."""
        return [i for i, loss in enumerate(self.losses) if loss is not None]

    def inputs(self) -> list[Any]:
        """Symbolic labels, then weights."""
        made = []
        for k, i in enumerate(self.read):
            name = "label" if k == 0 else f"label.{k}"
            made.append(keras.KerasTensor((None, *self.shapes[k]), dtype="int32" if is_sparse(self.losses[i]) else "float32", name=name))
        return made + [keras.KerasTensor((None,), dtype="float32", name="weight" if k == 0 else f"weight.{k}")
                       for k in range(self.weighted)]

    def total(self, given: Sequence[Any], outputs: Sequence[Any], training: bool) -> Any:
        labels, weights = given[:len(self.read)], given[len(self.read):]
        if len(self.losses) != len(outputs):
            raise Refused(f"{len(self.losses)} losses for {len(outputs)} outputs")
        terms = [self.one(i, labels[k], outputs[i], weights[k if len(weights) > 1 else 0] if weights else None, training)
                 for k, i in enumerate(self.read)]
        result = terms[0]
        for term in terms[1:]:
            result = ops.add(result, term)
        return result

    def one(self, i: int, label: Any, output: Any, weight: Any, training: bool) -> Any:
        loss: Any = self.losses[i]
        values = loss.call(label, output)
        if self.classes and training:  # validation has none
            of_class = self.of_classes(label, output)
            weight = of_class if weight is None else ops.multiply(weight, of_class)
        if weight is not None:
            while len(weight.shape) < len(values.shape):
                weight = ops.expand_dims(weight, -1)
            values = ops.multiply(values, weight)
        mean = (ops.sum if loss.reduction == "sum" else ops.mean)(values)
        return mean if self.factors[i] == 1 else ops.multiply(mean, float(self.factors[i]))

    def of_classes(self, label: Any, output: Any) -> Any:
        assert self.classes is not None
        count = max(int(output.shape[-1]), 2)
        table = np.array([self.classes.get(k, 1.0) for k in range(count)], "float32")
        if len(label.shape) == len(output.shape) > 1 and label.shape[-1] not in (1, None):
            return ops.sum(ops.multiply(label, table), axis=-1)
        label = ops.squeeze(label, -1) if len(label.shape) == len(output.shape) > 1 else label
        return ops.take(table, ops.cast(label, "int32"), axis=0)


def is_sparse(loss: Any) -> bool:
    return isinstance(loss, keras.losses.SparseCategoricalCrossentropy) or \
        getattr(loss, "fn", None) is keras.losses.sparse_categorical_crossentropy


def input_names(model: Any) -> list[str]:
    """In the order of the trace: keys of dicts are sorted."""
    structure = getattr(model, "_inputs_struct", None)
    if isinstance(structure, dict):
        return sorted(structure)
    return [str(t.name) for t in getattr(model, "inputs", None) or []]


def output_names(model: Any, count: int) -> list[str]:
    structure = getattr(model, "_outputs_struct", None)
    if isinstance(structure, dict):
        return sorted(structure)
    names = list(getattr(model, "output_names", None) or [])
    return names if len(names) == count else [f"output_{i}" for i in range(count)]


def in_order(given: Any, model: Any, count: int, what: str, missing: Any = None) -> list[Any]:
    """Something for each output: one for all, a list, or a dict by the outputs' names."""
    if isinstance(given, dict):
        names = output_names(model, count)
        unknown = [k for k in given if k not in names]
        if unknown:
            raise Refused(f"{what} of the output {unknown[0]!r}; the model has {', '.join(names)}")
        return [given.get(n, missing) for n in names]
    if isinstance(given, (list, tuple)):
        if len(given) != count:
            raise Refused(f"{len(given)} {what} for {count} outputs")
        return [missing if g is None else g for g in given]
    return [given] * count


def outputs_of(model: Any) -> int:
    return len(tree.flatten(model.outputs)) if getattr(model, "outputs", None) else 1


def regularized(b: Build, model: Any, front: Any, scalar: Tensor) -> Tensor:
    """The loss with what the regularizers of variables and the layers add, as Keras's losses have it."""
    for x in front.added:
        scalar = b.map2("add", scalar, x)
    for v in model.trainable_variables:
        r = getattr(v, "regularizer", None)
        if r is None:
            continue
        if not isinstance(r, (keras.regularizers.L1, keras.regularizers.L2, keras.regularizers.L1L2)):
            raise Refused(f"the regularizer {type(r).__name__} of {v.path}: there are L1, L2 and L1L2")
        w = front.variable(v)
        squares, sizes = float(getattr(r, "l2", 0) or 0), float(getattr(r, "l1", 0) or 0)
        terms = [(squares, b.map1("power", w, exponent=2.0))] if squares else []
        terms += [(sizes, b.map1("abs", w))] if sizes else []
        for share, x in terms:
            scalar = b.map2("add", scalar, b.affine(b.reduce("sum", x, [], False), share))
    return scalar

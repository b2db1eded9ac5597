"""Losses of Keras: those that are ours, and any other, an object, a function or a name, as the end of the model's own trace."""
from __future__ import annotations

from typing import Any, Callable

import keras
import numpy as np
from keras import ops

from ..build import Build, Const, Tensor
from ..foreign import known_loss, special
from ..graph import Refused
from .call import Call, layer

LEAST = 1e-7  # keras.config.epsilon(): probabilities are kept this far from 0 and 1


def probabilities(loss: Any) -> bool:
    """Whether a loss of Keras, or the name of one, reads what a sigmoid gives."""
    return loss == "binary_crossentropy" or getattr(loss, "from_logits", None) is False or \
        getattr(loss, "__module__", "").startswith("keras.") and getattr(loss, "__name__", "") == "binary_crossentropy"


def traced(loss: Any) -> bool:
    """A loss that is traced: Keras knows it and we have no op that does the same."""
    if isinstance(loss, str):
        return not known_loss(loss)
    return callable(loss) and (not known_loss(loss) or bool(special(loss)))


def loss_of(loss: Any) -> Any:
    """A loss object of Keras for one, its name, or a function."""
    if isinstance(loss, str):
        try:
            loss = keras.losses.get(loss)
        except ValueError:
            raise Refused(f"the loss {loss}, which Keras does not know") from None
    if not isinstance(loss, keras.losses.Loss):
        from keras.src.losses.losses import LossFunctionWrapper

        loss = LossFunctionWrapper(loss)
    if loss.reduction not in ("sum", "sum_over_batch_size", "mean", "mean_with_sample_weight"):
        raise Refused(f"{type(loss).__name__} with reduction={loss.reduction!r}")
    return loss


def function_of(given: Any) -> Callable[[Any, Any], Any]:
    """f(labels, output) of symbolic tensors: the loss of a batch, as a number."""
    loss = loss_of(given)
    total = ops.sum if loss.reduction == "sum" else ops.mean

    def made(labels: Any, output: Any) -> Any:
        try:
            return total(loss.call(labels, output))
        except Exception as e:
            why = (str(e).strip().splitlines() or [type(e).__name__])[0]
            raise Refused(f"the loss {getattr(loss, 'name', type(loss).__name__)} cannot be traced with symbolic tensors: {why}") from e

    return made


def before(b: Build, x: Any, op: str) -> Any:
    """What goes into a softmax or sigmoid that makes x; None: nothing of that kind makes it."""
    if not isinstance(x, Tensor) or x.value.entry.kind != "node" or x.value.entry.op != op:
        return None
    return Tensor(x.value.entry.inputs[0], x.order)


@layer("CategoricalCrossentropy")
def categorical(b: Build, c: Call) -> Tensor:
    target, x = c.args[0], b.tensor(c.args[1])
    d = c.op.axis % x.rank
    inner = x if c.op.from_logits else before(b, x, "softmax") if d == x.rank - 1 else None
    if inner is not None:
        logs = b.softmax(inner, d, "log_softmax")
    else:
        share = b.map2("div", x, b.reduce("sum", x, [d], True))
        logs = b.map1("log", b.clip(share, LEAST, 1 - LEAST))
    if isinstance(target, Tensor) and d == x.rank - 1:
        b.counted = b.arg_max(target, d, False)  # for the accuracy
    return b.neg(b.reduce("sum", b.map2("mul", target, logs), [d], False))


@layer("SparseCategoricalCrossentropy")
def sparse(b: Build, c: Call) -> Tensor:
    """A loss for each label; one that is no class has no meaning in Keras."""
    target, x = b.tensor(c.args[0]), b.tensor(c.args[1])
    d = c.op.axis % x.rank
    inner = x if c.op.from_logits else before(b, x, "softmax") if d == x.rank - 1 else None
    logs = b.softmax(inner, d, "log_softmax") if inner is not None else b.map1("log", b.clip(x, LEAST, 1 - LEAST))
    ids = b.squeeze(target, [d]) if target.rank == x.rank else target
    return b.neg(b.squeeze(b.take_along(logs, b.unsqueeze(ids, d), d), [d]))


@layer("BinaryCrossentropy")
def binary(b: Build, c: Call) -> Tensor:
    t, x = c.args[0], b.tensor(c.args[1])
    inner = x if c.op.from_logits else before(b, x, "sigmoid")
    if inner is not None:
        return b.map2("sub", b.function("softplus", inner), b.map2("mul", inner, t))
    x, one = b.clip(x, LEAST, 1 - LEAST), Const(np.float32(1))
    yes, no = b.map2("mul", t, b.map1("log", x)), b.map2("mul", b.map2("sub", one, t), b.map1("log", b.map2("sub", one, x)))
    return b.neg(b.map2("add", yes, no))

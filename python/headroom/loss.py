"""The end of a model: a loss over its outputs, as every trainable model file has one."""
from __future__ import annotations

from typing import Callable, Optional, Sequence

from .build import Build, Tensor
from .graph import Refused

LOSSES = ("cross_entropy", "mean_squared_error", "binary_cross_entropy", "squares", "own")


def class_dim(logits: Tensor, given: Optional[int], channels: int, rows: Optional[Sequence[int]] = None) -> int:
    """(N, C) and (N, T, C) have classes last, images where the framework has its channels; so has (N, C, T) with `rows`, labels of
    (N, T), which are told from (N, T, C) by their sizes."""
    if given is not None:
        return given % logits.rank
    if logits.rank == 3 and rows is not None and list(rows) == [logits.shape[2]] != [logits.shape[1]]:
        return channels % logits.rank
    return logits.rank - 1 if logits.rank < 4 else channels % logits.rank


def attach(b: Build, outputs: Sequence[Tensor], loss: str, dim: Optional[int] = None, channels: int = 1,
           rows: Optional[Sequence[int]] = None, more: Optional[Callable[[Tensor], Tensor]] = None) -> tuple[int, list]:
    """Adds results "logits", "loss" and the further outputs.  The number of classes (0: labels are not classes), and for each
    output the order in which its dimensions lie.  `more`: what else the loss has."""
    first = outputs[0]
    classes = 0
    if loss == "own":
        scalar = b.reshape(first, ())
        rest = list(outputs[1:])
    elif loss == "squares":  # for checks: every output counts
        terms = [b.reduce("mean", b.map1("power", o, exponent=2.0), [], False) for o in outputs]
        scalar = terms[0]
        for t in terms[1:]:
            scalar = b.map2("add", scalar, t)
        rest = list(outputs)
    elif loss == "cross_entropy":
        d = class_dim(first, dim, channels, rows)
        classes = first.shape[d]
        first = b.classes_last(first, d)
        scalar, rest = b.cross_entropy(first, d), [first, *outputs[1:]]
    elif loss in LOSSES:
        first = b.plain(first)
        scalar, rest = b.pair_loss(loss, first), [first, *outputs[1:]]
    else:
        raise Refused(f"the loss {loss}; there are {', '.join(LOSSES)}")
    for i, o in enumerate(rest):
        b.form.result("logits" if i == 0 else f"output.{i}", o.value)
    if b.counted is not None and rest and b.plain(b.counted).value.shape == rest[0].value.shape[:-1]:
        b.form.result("accuracy", b.form.node("accuracy", [rest[0].value, b.plain(b.counted).value], [("f32", ())])[0])
    b.form.result("loss", (more(scalar) if more is not None else scalar).value)
    return int(classes), [o.order for o in rest]

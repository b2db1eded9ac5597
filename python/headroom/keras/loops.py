"""Control flow of keras.ops in a trace: loops of a known length are unrolled, what is mapped is called once or for each element, and a
condition that is known is decided."""
from __future__ import annotations

from typing import Any, Callable

import keras
from keras import ops, tree

from ..graph import Refused


def elements(xs: Any, i: int) -> Any:
    return tree.map_structure(lambda x: x[i], xs)


def stacked(ys: list) -> Any:
    return tree.map_structure(lambda *parts: ops.stack(parts, axis=0), *ys)


def length_of(xs: Any, what: str) -> int:
    n = tree.flatten(xs)[0].shape[0]
    if n is None:
        raise Refused(f"{what} over the samples of the batch")
    return int(n)


def scan(op: Any, f: Callable, init: Any, xs: Any = None) -> tuple:
    n = op.length if xs is None else length_of(xs, "ops.scan")
    carry, ys = init, []
    for i in reversed(range(n)) if op.reverse else range(n):
        carry, y = f(carry, None if xs is None else elements(xs, i))
        ys.append(y)
    return carry, None if ys[0] is None else stacked(ys[::-1] if op.reverse else ys)


def fori_loop(op: Any, init: Any) -> Any:
    if isinstance(op.lower, keras.KerasTensor) or isinstance(op.upper, keras.KerasTensor):
        raise Refused("ops.fori_loop with a length that depends on data")
    for i in range(int(op.lower), int(op.upper)):
        init = op.body_fun(i, init)
    return init


def mapped(op: Any, f: Callable, xs: Any) -> Any:
    return stacked([f(elements(xs, i)) for i in range(length_of(xs, "ops.map"))])


def vectorized(op: Any, xs: Any) -> Any:
    """Of the samples: the function is called on one, and everything in it has one dimension more."""
    n = tree.flatten(xs)[0].shape[0]
    if n is not None:
        return stacked([op.function(elements(xs, i)) for i in range(n)])
    raise Refused("ops.vectorized_map over the samples of the batch: write it for the batch as a whole")


def cond(op: Any, pred: Any, yes: Callable, no: Callable) -> Any:
    if isinstance(pred, keras.KerasTensor):
        if pred.shape != ():
            raise Refused("ops.cond by more than one number")
        return tree.map_structure(lambda a, b: ops.where(pred, a, b), yes(), no())
    return yes() if pred else no()


OPENED: dict[str, Callable] = {"Scan": scan, "ForiLoop": fori_loop, "Map": mapped, "VectorizedMap": vectorized, "Cond": cond}

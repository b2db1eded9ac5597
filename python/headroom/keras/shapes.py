"""Shapes: what moves, cuts, joins and repeats, and what is read by numbers."""
from __future__ import annotations

from typing import Any

import numpy as np

from ..build import Build, Const, Tensor
from ..graph import Refused
from ..size import Size, divided, product
from .call import Call, known, layer, operand


@layer("Flatten", "Ravel")
def flatten(b: Build, c: Call) -> Tensor:
    x = c.x()
    if type(c.op).__name__ == "Ravel":
        return b.reshape(x, (product(x.shape),))
    if getattr(c.op, "data_format", None) == "channels_first" and x.rank > 2:
        x = b.permute(x, [0, *range(2, x.rank), 1])  # as Keras: what lies there is made channels last first
    return b.reshape(x, (x.shape[0], product(x.shape[1:])))


@layer("Reshape")
def reshape(b: Build, c: Call) -> Tensor:
    """The layer's shape is without the batch."""
    x = c.x()
    if hasattr(c.op, "target_shape"):
        to = [x.shape[0], *c.op.target_shape]
    else:
        to = list(c.get("newshape", 1))
    if -1 in to and None in to or to.count(None) > 1:  # those that are open are as they were
        to = [x.shape[i] if d is None and i < x.rank else d for i, d in enumerate(to)]
    rest = product(d for d in to if d not in (-1, None))
    return b.reshape(x, tuple(divided(product(x.shape), rest) if d in (-1, None) else d for d in to))


@layer("Reshaped")
def reshaped(b: Build, c: Call) -> Tensor:
    if product(c.x().shape) != product(c.op.to):
        raise Refused(f"a reshape of {list(c.x().shape)} to {list(c.op.to)}, which has another number of elements")
    return b.reshape(b.tensor(operand(c.x())), c.op.to)


@layer("Permute")
def permute(b: Build, c: Call) -> Tensor:
    return b.permute(c.x(), [0, *c.op.dims])


@layer("Transpose")
def transpose(b: Build, c: Call) -> Tensor:
    axes = c.get("axes", 1)
    return b.permute(c.x(), list(axes) if axes else list(range(c.x().rank))[::-1])


@layer("Swapaxes")
def swapaxes(b: Build, c: Call) -> Tensor:
    dims = list(range(c.x().rank))
    i, k = c.op.axis1 % len(dims), c.op.axis2 % len(dims)
    dims[i], dims[k] = dims[k], dims[i]
    return b.permute(c.x(), dims)


@layer("Moveaxis")
def moveaxis(b: Build, c: Call) -> Tensor:
    order = np.moveaxis(np.empty(range(1, c.x().rank + 1)), c.op.source, c.op.destination).shape
    return b.permute(c.x(), [d - 1 for d in order])


@layer("Squeeze")
def squeeze(b: Build, c: Call) -> Tensor:
    return b.squeeze(c.x(), c.axes(c.x().rank))


@layer("ExpandDims")
def expand_dims(b: Build, c: Call) -> Tensor:
    x = c.x()
    axes = c.op.axis if isinstance(c.op.axis, (list, tuple)) else [c.op.axis]
    for d in axes:
        x = b.unsqueeze(x, d)
    return x


@layer("Concatenate")
def concatenate(b: Build, c: Call) -> Tensor:
    return b.concat([operand(x) for x in c.args[0]], c.op.axis)


@layer("Stack")
def stack(b: Build, c: Call) -> Tensor:
    return b.concat([b.unsqueeze(b.whole(operand(x)), c.op.axis) for x in c.args[0]], c.op.axis)


@layer("Unstack")
def unstack(b: Build, c: Call) -> list:
    return [part for _, part in b.steps(c.x(), c.op.axis % c.x().rank)]


@layer("Split")
def split(b: Build, c: Call) -> list:
    x, how, axis = c.x(), c.op.indices_or_sections, c.op.axis % c.x().rank
    if isinstance(how, int):
        return b.split(x, how, axis)
    ends = [*known(how, "a split").tolist(), x.shape[axis]]
    return [b.slice(x, axis, begin, end - begin) for begin, end in zip([0, *ends], ends)]


@layer("Tile")
def tile(b: Build, c: Call) -> Tensor:
    x, times = c.x(), [int(t) for t in np.atleast_1d(c.op.repeats)]
    times = [1] * (x.rank - len(times)) + times
    x = b.reshape(x, (1,) * (len(times) - x.rank) + x.shape)
    for d, n in enumerate(times):
        x = b.concat([x] * n, d) if n > 1 else x
    return x


@layer("Repeat")
def repeat(b: Build, c: Call) -> Tensor:
    x, times = c.x(), np.atleast_1d(c.op.repeats)
    if c.op.axis is None or len(times) != 1:
        raise Refused("repeat without an axis, or a different number of times for each element")
    d, n = c.op.axis % x.rank, int(times[0])
    wide = x.shape[:d + 1] + (n,) + x.shape[d + 1:]
    return b.reshape(b.broadcast(b.unsqueeze(x, d + 1), wide), x.shape[:d] + (x.shape[d] * n,) + x.shape[d + 1:])


@layer("RepeatVector")
def repeat_vector(b: Build, c: Call) -> Tensor:
    x = b.unsqueeze(c.x(), 1)
    return b.broadcast(x, (x.shape[0], c.op.n, x.shape[2]))


@layer("BroadcastTo")
def broadcast_to(b: Build, c: Call) -> Tensor:
    x = b.tensor(operand(c.x()))
    shape = list(c.op.shape)
    more = len(shape) - x.rank
    return b.broadcast(x, tuple(x.shape[i - more] if d in (None, -1) else d for i, d in enumerate(shape)))


@layer("ZerosLike", "OnesLike")
def alike(b: Build, c: Call) -> Tensor:
    return Tensor(b.form.fill("f32", c.x().shape, float(type(c.op).__name__ == "OnesLike")))


@layer("Pad")
def pad(b: Build, c: Call) -> Tensor:
    x, width = c.x(), np.broadcast_to(known(c.op.pad_width, "a padding"), (c.x().rank, 2))
    pads = {d: (int(u), int(v)) for d, (u, v) in enumerate(width) if u or v}
    if c.op.mode == "constant":
        return b.pad(x, pads, float(c.get("constant_values", 1) or 0.0))
    if c.op.mode not in ("reflect", "edge", "wrap"):
        raise Refused(f"pad with mode={c.op.mode}")
    mode = {"edge": "replicate", "wrap": "circular"}.get(c.op.mode, c.op.mode)
    for d, (u, v) in pads.items():
        x = b.border(x, d, u, v, mode)
    return x


@layer("Flip")
def flip(b: Build, c: Call) -> Tensor:
    return b.flip(c.x(), c.axes(c.x().rank))


@layer("Roll")
def roll(b: Build, c: Call) -> Tensor:
    if c.op.axis is None:
        raise Refused("roll without an axis")
    x, axes = c.x(), c.axes(c.x().rank)
    for d, n in zip(axes, np.broadcast_to(c.op.shift, (len(axes),))):
        x = b.roll(x, d, int(n))
    return x


@layer("Tril", "Triu")
def triangle(b: Build, c: Call) -> Tensor:
    f = np.tril if type(c.op).__name__ == "Tril" else np.triu
    return b.map2("mul", c.x(), Const(f(np.ones(c.x().shape[-2:], "float32"), c.op.k)))


# ---- by numbers ----

@layer("Take")
def take(b: Build, c: Call) -> Tensor:
    x, ids = c.x(), c.get("indices", 1)
    if c.op.axis is None:
        raise Refused("take without an axis")
    ids = Const(np.asarray(ids)) if isinstance(ids, (int, list, tuple, np.ndarray)) else ids
    if ids.rank == 0:
        return b.select(x, c.op.axis, int(known(ids, "the index of take")))
    return b.take(x, c.op.axis, ids)


@layer("TakeAlongAxis")
def take_along(b: Build, c: Call) -> Tensor:
    """Both are repeated to one shape, but for the axis."""
    x, ids, axis = b.whole(operand(c.x())), operand(c.get("indices", 1)), c.op.axis
    if axis is None:
        raise Refused("take_along_axis without an axis: flatten with ops.reshape(x, (-1,)) and give axis=0")
    axis %= x.rank
    wide = [u if v == 1 else v for u, v in zip(x.shape, ids.shape)]
    for d in range(x.rank):
        if d != axis and ids.shape[d] != wide[d]:
            ids = b.broadcast(b.whole(ids), tuple(s if i == axis else w for i, (s, w) in enumerate(zip(ids.shape, wide))))
        if d != axis and x.shape[d] != wide[d]:
            x = b.broadcast(x, tuple(s if i == axis else w for i, (s, w) in enumerate(zip(x.shape, wide))))
    return b.take_along(x, ids, axis)


@layer("OneHot", "CategoryEncoding")
def one_hot(b: Build, c: Call) -> Tensor:
    if getattr(c.op, "output_mode", None) == "multi_hot" and c.x().rank == 2:
        return b.reduce("max", b.one_hot(c.x(), c.op.num_tokens), [1], False)
    if type(c.op).__name__ == "CategoryEncoding" and c.op.output_mode != "one_hot":
        raise Refused(f"CategoryEncoding with output_mode={c.op.output_mode}")
    x, axis = c.x(), getattr(c.op, "axis", -1)
    y = b.one_hot(b.squeeze(x, [-1]) if hasattr(c.op, "output_mode") and x.rank > 1 and x.shape[-1] == 1 else x,
                  getattr(c.op, "num_classes", None) or c.op.num_tokens)
    return y if axis == -1 else b.permute(y, np.moveaxis(np.arange(y.rank), -1, axis).tolist())


@layer("TopK")
def top_k(b: Build, c: Call) -> list:
    return list(b.top_k(c.x(), c.op.k, -1))


@layer("Sort", "Argsort")
def sort(b: Build, c: Call) -> Tensor:
    x = b.cast(b.whole(c.x()), "f32")
    if c.op.axis is None:
        raise Refused("sorting without an axis")
    axis = c.op.axis % x.rank
    values, order = b.top_k(x, x.shape[axis], axis, largest=False)
    return values if type(c.op).__name__ == "Sort" else order


@layer("GetItem")
def get_item(b: Build, c: Call) -> Tensor:
    x, key = c.args[0], c.args[1] if len(c.args) > 1 else c.op.key
    several = isinstance(key, tuple) or isinstance(key, list) and any(k is None or isinstance(k, slice) for k in key)
    key = list(key) if several else [key]
    if any(k is Ellipsis for k in key):
        i = next(i for i, k in enumerate(key) if k is Ellipsis)
        key[i:i + 1] = [slice(None)] * (x.rank - len([k for k in key if k is not None]) + 1)
    d = 0
    for k in key:
        if k is None:
            x, d = b.unsqueeze(x, d), d + 1
        elif isinstance(k, (int, np.integer)):
            x = b.select(x, d, int(k))
        elif isinstance(k, slice):
            x, d = _sliced(b, x, d, k), d + 1
        elif isinstance(k, Const) and k.rank <= 1 and len(key) == 1:
            x, d = b.take(x, d, k), d + 1
        else:
            raise Refused("indexing by a tensor")
    return x


def _sliced(b: Build, x: Tensor, d: int, k: slice) -> Any:
    if k == slice(None):
        return x
    n = x.shape[d]
    if isinstance(n, Size):
        raise Refused("a slice of the batch")
    begin, end, step = k.indices(n)
    if step > 0:
        return b.slice(x, d, begin, max(0, -(-(end - begin) // step)), step)
    return b.take(x, d, Const(np.arange(begin, end, step)))

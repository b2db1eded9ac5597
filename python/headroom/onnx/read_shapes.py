"""Shapes of ONNX, and what is read by numbers."""
from __future__ import annotations

from typing import Any, Sequence

import numpy as np

from ..build import Build, Const, Tensor
from ..graph import Refused
from ..size import Size, divided, product
from .reader import Node, op

ANY = 1 << 24  # as the end of a slice: all samples of any batch


@op("Shape")
def shape(b: Build, n: Node) -> Const:
    dims = n.get(0).shape[n.attr("start", 0):n.attr("end")]
    out = np.empty(len(dims), object)
    out[:] = dims
    return Const(out if any(isinstance(d, Size) for d in dims) else out.astype("int64"))


@op("Reshape")
def reshape(b: Build, n: Node) -> Tensor:
    x = n.get(0)
    to = [d if isinstance(d, Size) else int(d) for d in n.numbers(1, "shape")]
    to = [x.shape[i] if d == 0 and not n.attr("allowzero", 0) else d for i, d in enumerate(to)]
    if n.reader.batch.fixed and not any(isinstance(d, Size) for d in to):
        return b.reshape(x, n.reader.batch.meant(x.shape, to))
    if -1 in to:
        rest = product(d for d in to if d != -1)
        to[to.index(-1)] = divided(product(x.shape), rest)
    elif any(isinstance(d, Size) for d in x.shape) and not any(isinstance(d, Size) for d in to):
        raise Refused("a shape with the batch of the exporter in it: export with a dynamic batch")
    return b.reshape(x, tuple(to))


@op("Flatten")
def flatten(b: Build, n: Node) -> Tensor:
    x, axis = n.get(0), n.attr("axis", 1)
    return b.reshape(x, (product(x.shape[:axis]), product(x.shape[axis:])))


@op("Transpose")
def transpose(b: Build, n: Node) -> Tensor:
    x = n.get(0)
    return b.permute(x, n.attr("perm") or list(range(x.rank))[::-1])


@op("Squeeze")
def squeeze(b: Build, n: Node) -> Tensor:
    axes, x = n.numbers(1, "axes"), b.tensor(n.get(0))
    dims = [int(a) % x.rank for a in axes] if axes is not None else [d for d in range(x.rank) if x.shape[d] == 1]
    if any(x.shape[d] != 1 for d in dims) or n.reader.batch.fixed == 1 and axes is None and any(isinstance(d, Size) for d in x.shape):
        raise Refused("it removes the dimension of the batch, or one that is larger than 1")
    return b.squeeze(x, dims)


@op("Unsqueeze")
def unsqueeze(b: Build, n: Node) -> Tensor:
    x = n.get(0)
    axes = [int(a) for a in n.numbers(1, "axes")]
    for a in sorted(a % (x.rank + len(axes)) for a in axes):
        x = b.unsqueeze(x, a)
    return x


@op("Expand")
def expand(b: Build, n: Node) -> Tensor:
    x, to = b.whole(n.get(0)), [d if isinstance(d, Size) else int(d) for d in n.numbers(1, "shape")]
    to = [*[1] * (x.rank - len(to)), *to]
    have = (1,) * (len(to) - x.rank) + x.shape
    fixed = n.reader.batch.fixed
    return b.broadcast(x, tuple(h if t == 1 or isinstance(h, Size) and fixed and h.at(fixed) == t else t for h, t in zip(have, to)))


@op("Concat")
def concat(b: Build, n: Node) -> Tensor:
    """What a file for a batch of one has once (a class token) is there for every sample."""
    xs = [b.whole(x) for x in n.inputs]
    axis = n.attr("axis") % xs[0].rank
    batch = [d for d in range(xs[0].rank) if d != axis and any(isinstance(x.shape[d], Size) for x in xs)]
    for d in batch:
        size = next(x.shape[d] for x in xs if isinstance(x.shape[d], Size))
        xs = [b.broadcast(x, x.shape[:d] + (size,) + x.shape[d + 1:]) if x.shape[d] == 1 else x for x in xs]
    return b.concat(xs, axis)


@op("Slice")
def slice_(b: Build, n: Node) -> Tensor:
    x = b.tensor(n.get(0))
    starts, ends = n.numbers(1, "starts"), n.numbers(2, "ends")
    axes = n.numbers(3, "axes") or range(len(starts))
    steps = n.numbers(4, "steps") or [1] * len(starts)
    for a, s, e, t in zip(axes, starts, ends, steps):
        a = int(a) % x.rank
        if isinstance(x.shape[a], Size):
            if int(s) == 0 and int(t) == 1 and (isinstance(e, Size) or int(e) >= (n.reader.batch.fixed or ANY)):
                continue
            raise Refused("a slice of the batch")
        begin, end, step = slice(int(s), int(e), int(t)).indices(x.shape[a])
        if step > 0:
            x = b.slice(x, a, begin, max(0, -(-(end - begin) // step)), step)
        elif (begin, end, step) == (x.shape[a] - 1, -1, -1):
            x = b.flip(x, a)
        else:
            x = b.take(x, a, Const(np.arange(begin, end, step)))
    return x


@op("Split")
def split(b: Build, n: Node) -> list:
    """In equal parts, the last one smaller if need be (opset 18), unless sizes are given."""
    x, count = n.get(0), len(n.raw["output"])
    axis = n.attr("axis", 0) % x.rank
    each = -(-x.shape[axis] // count)
    sizes = n.numbers(1, "split") or [each] * (count - 1) + [x.shape[axis] - each * (count - 1)]
    out, begin = [], 0
    for s in sizes:
        out.append(b.slice(x, axis, begin, int(s)))
        begin += int(s)
    return out


@op("Pad")
def pad(b: Build, n: Node) -> Tensor:
    x, pads = n.get(0), [int(p) for p in n.numbers(1, "pads")]
    axes = [int(a) for a in n.numbers(3, "axes") or range(len(pads) // 2)]
    half = len(pads) // 2
    each = {a % x.rank: (pads[i], pads[half + i]) for i, a in enumerate(axes)}
    if n.attr("mode", "constant") == "constant":
        return b.pad(x, each, float(n.number(2, "value", 0.0) or 0.0))
    mode = {"reflect": "reflect", "edge": "replicate", "wrap": "circular"}.get(n.attr("mode"))
    if mode is None:
        raise Refused(f"padding by {n.attr('mode')}")
    x = b.pad(x, {d: (min(u, 0), min(v, 0)) for d, (u, v) in each.items()})  # below 0 it cuts
    for d, (before, after) in each.items():
        x = b.border(x, d, max(before, 0), max(after, 0), mode) if before > 0 or after > 0 else x
    return x


@op("Gather")
def gather(b: Build, n: Node) -> Tensor:
    x, ids = b.tensor(n.get(0)), n.get(1)
    if isinstance(ids, Const) and ids.array.ndim == 0:
        return b.select(x, n.attr("axis", 0), int(ids.array))
    return b.take(x, n.attr("axis", 0), ids) if n.attr("axis", 0) else b.gather(x, ids)


@op("GatherElements")
def gather_elements(b: Build, n: Node) -> Tensor:
    return b.take_along(n.get(0), n.get(1), n.attr("axis", 0))


@op("ScatterElements")
def scatter_elements(b: Build, n: Node) -> Tensor:
    how = n.attr("reduction", "none")
    if how not in ("none", "add"):
        raise Refused(f"ScatterElements with reduction={how}")
    return b.scatter(n.get(0), n.get(1), n.get(2), n.attr("axis", 0), how == "add")


@op("GatherND")
def gather_nd(b: Build, n: Node) -> Tensor:
    """By known numbers: of one dimension, or of several, which are read as one."""
    x, ids = b.tensor(n.get(0)), n.get(1)
    if n.attr("batch_dims", 0) or not isinstance(ids, Const):
        raise Refused("GatherND with batch_dims, or by numbers that depend on data")
    sizes = x.shape[:ids.array.shape[-1]]
    if n.reader.batch.fixed == 1 and sizes[0] == Size(1) and ids.rank > 1 and len(ids.array) == 1 and not ids.array[..., 0].any():
        rows = b.reshape(x, (x.shape[0], product(sizes[1:])) + x.shape[len(sizes):])  # of the one sample: of each
        return b.take(rows, 1, Const(flat(ids.array[0][..., 1:], sizes[1:])))
    if any(isinstance(d, Size) for d in sizes):
        raise Refused("GatherND that takes samples of the batch by their number")
    x = b.reshape(x, (product(sizes),) + x.shape[len(sizes):])
    return b.take(x, 0, Const(flat(ids.array, sizes)))


def flat(ids: np.ndarray, sizes: Sequence[int]) -> np.ndarray:
    """(..., K) numbers of K dimensions as numbers of the one that they are together."""
    return np.ravel_multi_index(tuple(np.moveaxis(ids % np.array(sizes), -1, 0)), tuple(sizes))


@op("ScatterND")
def scatter_nd(b: Build, n: Node) -> Tensor:
    """What an exporter makes of x[:, 2:4] = y: known places that are replaced, or added to."""
    x, ids, y = b.tensor(n.get(0)), n.get(1), b.whole(n.get(2))
    how = n.attr("reduction", "none")
    if not isinstance(ids, Const) or how not in ("none", "add") or ids.array.dtype == object:
        raise Refused("ScatterND by numbers that depend on data" if how in ("none", "add") else f"ScatterND with reduction={how}")
    sizes = x.shape[:ids.array.shape[-1]]
    if any(isinstance(d, Size) for d in sizes):
        raise Refused("ScatterND into samples of the batch by their number")
    where, rest = flat(ids.array, sizes).reshape(-1), x.shape[len(sizes):]
    if len(set(where.tolist())) != len(where):
        raise Refused("ScatterND into a place that is named twice")
    count = product(sizes)
    assert isinstance(count, int)
    y = b.reshape(y, (len(where),) + rest)
    back, hit = np.zeros(count, "int64"), np.zeros((count,) + (1,) * len(rest), "float32")
    back[where], hit[where] = np.arange(len(where)), 1
    wide = b.take(y, 0, Const(back))
    flat_x = b.reshape(x, (count,) + rest)
    made = b.map2("add", flat_x, b.map2("mul", wide, Const(hit))) if how == "add" else b.where(Const(hit), wide, flat_x)
    return b.reshape(made, x.shape)


@op("OneHot")
def one_hot(b: Build, n: Node) -> Tensor:
    classes, (off, on) = int(n.number(1, "depth", 0)), n.numbers(2, "values")
    y = b.affine(b.one_hot(n.get(0), classes), float(on) - float(off), float(off))
    axis = n.attr("axis", -1) % y.rank
    return b.permute(y, np.moveaxis(np.arange(y.rank), -1, axis).tolist())


@op("TopK")
def top_k(b: Build, n: Node) -> list:
    return list(b.top_k(n.get(0), int(n.number(1, "k", 1)), n.attr("axis", -1), bool(n.attr("largest", 1))))


@op("Tile")
def tile(b: Build, n: Node) -> Tensor:
    x = n.get(0)
    for d, times in enumerate(n.numbers(1, "repeats")):
        x = b.concat([x] * int(times), d) if int(times) != 1 else x
    return x


@op("Trilu")
def trilu(b: Build, n: Node) -> Tensor:
    f, k = np.triu if n.attr("upper", 1) else np.tril, int(n.number(1, "k", 0))
    return b.map2("mul", n.get(0), Const(f(np.ones(n.get(0).shape[-2:], "float32"), k)))


@op("DepthToSpace")
def depth_to_space(b: Build, n: Node) -> Tensor:
    x, k = n.get(0), n.attr("blocksize")
    m, c, h, w = x.shape
    if n.attr("mode", "DCR") == "CRD":
        y = b.permute(b.reshape(x, (m, c // (k * k), k, k, h, w)), (0, 1, 4, 2, 5, 3))
    else:
        y = b.permute(b.reshape(x, (m, k, k, c // (k * k), h, w)), (0, 3, 4, 1, 5, 2))
    return b.reshape(y, (m, c // (k * k), h * k, w * k))


@op("SpaceToDepth")
def space_to_depth(b: Build, n: Node) -> Tensor:
    x, k = n.get(0), n.attr("blocksize")
    m, c, h, w = x.shape
    y = b.permute(b.reshape(x, (m, c, h // k, k, w // k, k)), (0, 3, 5, 1, 2, 4))
    return b.reshape(y, (m, c * k * k, h // k, w // k))


@op("If")
def if_(b: Build, n: Node) -> Any:
    """A condition that is known: the branch that it chooses."""
    condition = n.get(0)
    if not isinstance(condition, Const):
        raise Refused("an If whose condition depends on data")
    return n.reader.branch(n.graph("then_branch" if condition.array.all() else "else_branch"))


@op("Size")
def size(b: Build, n: Node) -> Const:
    out = np.empty((), object)
    out[()] = product(n.get(0).shape)
    return Const(out)

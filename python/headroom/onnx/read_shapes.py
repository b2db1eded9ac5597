"""Shapes of ONNX, and what is read by numbers."""
from __future__ import annotations

import numpy as np

from ..build import Build, Const, Tensor
from ..graph import Refused
from ..size import Size, divided, product
from .reader import Node, op


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
    if -1 in to:
        rest = product(d for d in to if d != -1)
        to[to.index(-1)] = divided(product(x.shape), rest)
    elif isinstance(x.shape[0], Size) and not any(isinstance(d, Size) for d in to):
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
    axes = n.numbers(1, "axes")
    return b.squeeze(n.get(0), [int(a) for a in axes] if axes is not None else range(n.get(0).rank))


@op("Unsqueeze")
def unsqueeze(b: Build, n: Node) -> Tensor:
    x = n.get(0)
    axes = [int(a) for a in n.numbers(1, "axes")]
    for a in sorted(a % (x.rank + len(axes)) for a in axes):
        x = b.unsqueeze(x, a)
    return x


@op("Expand")
def expand(b: Build, n: Node) -> Tensor:
    x, to = b.tensor(n.get(0)), [d if isinstance(d, Size) else int(d) for d in n.numbers(1, "shape")]
    have = (1,) * (len(to) - x.rank) + x.shape
    return b.broadcast(x, tuple(h if t == 1 else t for h, t in zip(have, to)))


@op("Concat")
def concat(b: Build, n: Node) -> Tensor:
    return b.concat(n.inputs, n.attr("axis"))


@op("Slice")
def slice_(b: Build, n: Node) -> Tensor:
    x = n.get(0)
    starts, ends = n.numbers(1, "starts"), n.numbers(2, "ends")
    axes = n.numbers(3, "axes") or range(len(starts))
    steps = n.numbers(4, "steps") or [1] * len(starts)
    for a, s, e, t in zip(axes, starts, ends, steps):
        a = int(a) % x.rank
        if isinstance(x.shape[a], Size):
            if int(s) == 0 and (isinstance(e, Size) or int(e) >= 2**31 - 1):
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
    for d, (before, after) in each.items():
        x = b.border(x, d, before, after, mode) if before or after else x
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
    ids = n.get(1)
    if n.attr("batch_dims", 0) or not isinstance(ids, Const):
        raise Refused("GatherND with batch_dims, or by numbers that depend on data")
    x = n.get(0)
    if ids.array.shape[-1] != 1:
        raise Refused("GatherND over more than one dimension")
    return b.take(x, 0, Const(ids.array[..., 0]))


@op("ScatterND")
def scatter_nd(b: Build, n: Node) -> Tensor:
    """What an exporter makes of x[:, 2:4] = y: a box that is replaced, its numbers known."""
    x, ids, y = n.get(0), n.get(1), b.whole(n.get(2))
    if not isinstance(ids, Const) or n.attr("reduction", "none") != "none" or ids.array.dtype == object:
        raise Refused("ScatterND by numbers that depend on data")
    if ids.array.shape[-1] != 1:
        raise Refused("ScatterND over more than one dimension")
    where = ids.array.reshape(-1)
    if isinstance(x.shape[0], Size) or not np.array_equal(where, np.arange(where[0], where[0] + len(where))):
        raise Refused("ScatterND of other places than one row behind the other")
    first, count = int(where[0]), len(where)
    y = b.reshape(y, (count,) + tuple(x.shape[1:]))
    parts = [b.slice(x, 0, 0, first), y, b.slice(x, 0, first + count, x.shape[0] - first - count)]
    return b.concat([p for p in parts if p.shape[0] != 0], 0)


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

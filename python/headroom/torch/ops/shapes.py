"""Shapes, and views that may be written through."""
from __future__ import annotations

from typing import Any, Callable, Optional

import numpy as np

from ...build import Build, Const, Tensor, inverse
from ...graph import Refused
from ...size import Size, product
from .call import Call, op, operand
from .elements import modulo


@op("view", "reshape", "flatten", "unflatten", "_unsafe_view", "view_as", "reshape_as")
def view(b: Build, c: Call) -> Any:
    x, to = b.whole(c["self"]), c.shape()
    was = c.walk.shape(c.node.args[0])
    if x.shape != was and x.rank == len(was):  # what is the same for every sample has 1 in place of the batch
        if was[0] == to[0] and x.shape == (1, *was[1:]):
            return b.reshape(x, (1, *to[1:]))
        x = b.broadcast(x, was)
    return b.reshape(x, to)


@op("squeeze")
def squeeze(b: Build, c: Call) -> Tensor:
    x = c["self"]
    dims = c.get("dim")
    dims = range(x.rank) if dims is None else [dims] if isinstance(dims, int) else dims
    return b.squeeze(x, [d for d in dims])


@op("unsqueeze")
def unsqueeze(b: Build, c: Call) -> Tensor:
    return b.unsqueeze(c["self"], c["dim"])


@op("transpose", "swapaxes")
def transpose(b: Build, c: Call) -> Tensor:
    x = c["self"]
    dims = list(range(x.rank))
    i, k = c.first("dim0", "axis0"), c.first("dim1", "axis1")
    dims[i], dims[k] = dims[k], dims[i]
    return b.permute(x, dims)


@op("mT", "mH", "adjoint", "matrix_H")
def matrix_transpose(b: Build, c: Call) -> Tensor:
    dims = list(range(c["self"].rank))
    return b.permute(c["self"], dims[:-2] + [dims[-1], dims[-2]])


@op("t", "numpy_T")
def t(b: Build, c: Call) -> Tensor:
    return b.permute(c["self"], list(range(c["self"].rank))[::-1])


@op("permute")
def permute(b: Build, c: Call) -> Tensor:
    return b.permute(c["self"], [d % c["self"].rank for d in c["dims"]])


@op("movedim")
def movedim(b: Build, c: Call) -> Tensor:
    x = c["self"]
    source = [c["source"]] if isinstance(c["source"], int) else c["source"]
    to_ = [c["destination"]] if isinstance(c["destination"], int) else c["destination"]
    dims = [d for d in range(x.rank) if d not in [s % x.rank for s in source]]
    for s, d in sorted(zip(source, to_), key=lambda p: p[1] % x.rank):
        dims.insert(d % x.rank, s % x.rank)
    return b.permute(x, dims)


@op("expand", "expand_as", "broadcast_to")
def expand(b: Build, c: Call) -> Tensor:
    return b.broadcast(b.tensor(c["self"]), c.shape())


@op("repeat")
def repeat(b: Build, c: Call) -> Tensor:
    x, times = c["self"], c["repeats"]
    y = b.reshape(x, (1,) * (len(times) - x.rank) + x.shape)
    for d, n in enumerate(times):
        if n == 1:
            continue
        if y.shape[d] == 1:
            shape = list(y.shape)
            shape[d] = n
            y = b.broadcast(y, tuple(shape))
        elif isinstance(n, Size):
            wide = y.shape[:d] + (n,) + y.shape[d:]
            y = b.reshape(b.broadcast(b.unsqueeze(y, d), wide), y.shape[:d] + (n * y.shape[d],) + y.shape[d + 1:])
        else:
            y = b.concat([y] * n, d)
    return y


@op("slice")
def slice_(b: Build, c: Call) -> Tensor:
    x = c["self"]
    d = c["dim"] % x.rank
    begin, size = bounds(x.shape[d], c["start"], c.shape()[d], c["step"])
    return b.slice(b.tensor(x), d, begin, size, c["step"] or 1)


def bounds(whole: Any, start: Any, size: Any, step: Any) -> tuple[int, Any]:
    begin = start or 0
    if isinstance(begin, Size):
        raise Refused("a slice that begins at a multiple of the batch")
    if begin < 0 and isinstance(whole, Size) and size != whole:
        raise Refused("a slice that begins at a number of samples before the end of the batch")
    if begin < 0:
        begin = max(0, begin + whole) if isinstance(whole, int) else 0
    return begin, size


def slice_back(b: Build, c: Call, base: Any, value: Any) -> Tensor:
    d, step = c["dim"] % base.rank, c["step"] or 1
    begin, size = bounds(base.shape[d], c["start"], value.shape[d], step)
    if step == 1:
        return splice(b, base, value, d, begin, size)
    whole = base.shape[d]
    hit = np.zeros((whole,) + (1,) * (base.rank - 1 - d), "float32")
    hit[begin:begin + (size - 1) * step + 1:step] = 1
    spread = b.pad(b.whole(value), {d: (begin, whole - begin - (size - 1) * step - 1)}, step={d: step})
    return b.where(Const(hit), spread, base)


def splice(b: Build, base: Any, value: Any, d: int, begin: int, size: int) -> Any:
    base_t = b.whole(base)
    end = begin + size
    pieces = [b.slice(base_t, d, 0, begin)] if begin else []
    pieces.append(value)
    if end != base.shape[d]:
        pieces.append(b.slice(base_t, d, end, base.shape[d] - end))
    return b.concat(pieces, d) if len(pieces) > 1 else b.whole(value)


@op("select")
def select(b: Build, c: Call) -> Tensor:
    return b.select(c["self"], c["dim"], c["index"])


def select_back(b: Build, c: Call, base: Any, value: Any) -> Tensor:
    d = c["dim"] % base.rank
    return splice(b, base, b.unsqueeze(b.whole(value), d), d, c["index"] % base.shape[d], 1)


def reshape_back(b: Build, c: Call, base: Any, value: Any) -> Tensor:
    return b.reshape(b.whole(value), base.shape)


def permute_back(b: Build, c: Call, base: Any, value: Any) -> Tensor:
    dims = [d % base.rank for d in c["dims"]]
    return b.permute(b.whole(value), inverse(dims))


def transpose_back(b: Build, c: Call, base: Any, value: Any) -> Tensor:
    fresh = Call(c, node=c.node, walk=c.walk)
    fresh["self"] = b.whole(value)
    return transpose(b, fresh)


VIEWS: dict[str, Optional[Callable]] = {
    "slice": slice_back, "select": select_back, "view": reshape_back, "reshape": reshape_back, "flatten": reshape_back,
    "unflatten": reshape_back, "squeeze": reshape_back, "unsqueeze": reshape_back, "permute": permute_back,
    "transpose": transpose_back, "t": None, "expand": None, "alias": lambda b, c, base, value: value,
    "detach": lambda b, c, base, value: value}


@op("cat", "concat")
def cat(b: Build, c: Call) -> Tensor:
    xs = [x for x in c["tensors"] if x.shape != (0,)]
    return b.concat([operand(x) for x in xs], c["dim"])


@op("stack")
def stack(b: Build, c: Call) -> Tensor:
    d = c["dim"] % (c["tensors"][0].rank + 1)
    return b.concat([b.unsqueeze(b.whole(x), d) for x in c["tensors"]], d)


@op("chunk", "split", "split_with_sizes", "unbind", "unsafe_chunk", "unsafe_split")
def split(b: Build, c: Call) -> list:
    x, d = c["self"], c["dim"] % c["self"].rank
    out, begin = [], 0
    for val in c.node.meta["val"]:
        if val.dim() < x.rank:
            out.append(b.select(x, d, begin))
            begin += 1
            continue
        size = c.walk.dim(val.shape[d])
        out.append(b.slice(x, d, begin, size))
        begin += size
    return out


@op("roll")
def roll(b: Build, c: Call) -> Tensor:
    x = b.tensor(c["self"])
    if not c["dims"]:
        flat = b.reshape(b.plain(x), (product(x.shape),))
        return b.reshape(turned(b, flat, 0, c["shifts"][0]), x.shape)
    for shift, d in zip(c["shifts"], c["dims"]):
        x = turned(b, x, d % x.rank, shift)
    return x


def turned(b: Build, x: Tensor, d: int, shift: Any) -> Tensor:
    n = x.shape[d]
    if not isinstance(n, Size):
        return b.roll(x, d, shift)
    return b.take(x, d, modulo(b, b.map2("sub", b.every(n), b.count(shift)), b.count(n)))


@op("arange")
def arange(b: Build, c: Call) -> Tensor:
    """From where the size of the batch says."""
    step = c.get("step") or 1
    if isinstance(step, Size):
        raise Refused("arange by steps of the size of the batch")
    n = c.shape()[0]
    row = b.every(n) if isinstance(n, Size) else b.tensor(Const(np.arange(n, dtype="float32")))
    made = b.map2("add", b.affine(row, float(step)), b.count(c["start"]))
    return made if c.node.meta["val"].dtype.is_floating_point else b.cast(made, "i32")


@op("flip")
def flip(b: Build, c: Call) -> Tensor:
    return b.flip(c["self"], c["dims"])


@op("repeat_interleave")
def repeat_interleave(b: Build, c: Call) -> Tensor:
    x, times, d = b.tensor(c["self"]), c["repeats"], c.get("dim")
    if not isinstance(times, int):
        raise Refused("repeat_interleave by a tensor of counts")
    if d is None:
        x, d = b.reshape(x, (int(np.prod(x.shape)),)), 0
    d %= x.rank
    y = b.unsqueeze(x, d + 1)
    y = b.broadcast(y, y.shape[:d + 1] + (times,) + y.shape[d + 2:])
    return b.reshape(y, c.shape())


@op("tile")
def tile(b: Build, c: Call) -> Tensor:
    x, times = b.tensor(c["self"]), list(c["dims"])
    times = [1] * (x.rank - len(times)) + times
    return repeat(b, Call(dict(c, self=x, repeats=times), node=c.node, walk=c.walk))


@op("broadcast_tensors")
def broadcast_tensors(b: Build, c: Call) -> list:
    return [b.broadcast(b.tensor(x), tuple(c.walk.dim(d) for d in v.shape)) for x, v in zip(c["tensors"], c.node.meta["val"])]


@op("diagonal")
def diagonal(b: Build, c: Call) -> Tensor:
    x = b.whole(c["self"])
    i, k = c["dim1"] % x.rank, c["dim2"] % x.rank
    rest = [d for d in range(x.rank) if d not in (i, k)]
    y = b.permute(x, rest + [i, k])
    rows, columns = y.shape[-2:]
    count = c.shape()[-1]
    first = c["offset"] if c["offset"] >= 0 else -c["offset"] * columns
    flat = b.reshape(y, y.shape[:-2] + (rows * columns,))
    return b.take(flat, -1, Const(np.arange(count) * (columns + 1) + first))


@op("meshgrid")
def meshgrid(b: Build, c: Call) -> list:
    n, out = len(c["tensors"]), []
    for i, (x, v) in enumerate(zip(c["tensors"], c.node.meta["val"])):
        at = {0: 1, 1: 0}.get(i, i) if c.get("indexing") == "xy" else i
        t = b.reshape(b.tensor(x), (1,) * at + x.shape + (1,) * (n - 1 - at))
        out.append(b.broadcast(t, tuple(c.walk.dim(d) for d in v.shape)))
    return out


@op("pad")
def pad(b: Build, c: Call) -> Tensor:
    x, flat = c["self"], list(c["pad"])
    pads = {x.rank - 1 - i: (flat[2 * i], flat[2 * i + 1]) for i in range(len(flat) // 2)}
    if c["mode"] == "constant":
        return b.pad(x, pads, c["value"] or 0.0)
    for d, (before, after) in pads.items():
        if before or after:
            x = b.border(b.tensor(x), d, before, after, c["mode"])
    return x


@op("constant_pad_nd")
def constant_pad(b: Build, c: Call) -> Tensor:
    return pad(b, Call(dict(c, mode="constant"), node=c.node, walk=c.walk))


@op("tril", "triu")
def tri(b: Build, c: Call) -> Tensor:
    n, m = c["self"].shape[-2:]
    keep = np.tril if "tril" in str(c.node.target) else np.triu
    return b.map2("mul", c["self"], Const(keep(np.ones((n, m), "float32"), c["diagonal"])))

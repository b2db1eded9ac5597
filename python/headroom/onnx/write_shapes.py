"""Shapes, and what is read by numbers, as ONNX."""
from __future__ import annotations

import numpy as np

from ..file import dims
from ..graph import Entry
from ..size import Size
from .writer import ELEMENT, Writer, axis_of, floats, is_true, numbers, op, scalar


@op("reshape")
def reshape(w: Writer, e: Entry) -> None:
    to = dims(e.attributes["to"], "x")
    open_ = sum(isinstance(d, Size) or d == -1 for d in to)
    shape = w.ints([-1 if isinstance(d, Size) else d for d in to]) if open_ <= 1 else w.shape(to)
    w.put(e, w.node("Reshape", [w.plain(w.get(e, 0)), shape]))


@op("broadcast_to")
def broadcast_to(w: Writer, e: Entry) -> None:
    w.put(e, w.node("Expand", [w.plain(w.get(e, 0)), w.shape(dims(e.attributes["to"], "x"))]))


@op("transpose")
def transpose(w: Writer, e: Entry) -> None:
    order = [int(d) for d in e.attributes["order"].split("x")] if "order" in e.attributes else None
    w.put(e, w.node("Transpose", [w.plain(w.get(e, 0))], perm=order))


@op("slice")
def slice_(w: Writer, e: Entry) -> None:
    begin, step = numbers(e, "begin"), numbers(e, "step")
    size = list(dims(e.attributes["size"], "x")) if e.attributes.get("size") else []
    rank = max(len(begin), len(size), len(step))
    begin, step = begin + [0] * (rank - len(begin)), step + [1] * (rank - len(step))
    size += [-1] * (rank - len(size))
    axes = [i for i in range(rank) if not isinstance(size[i], Size) and (begin[i], size[i], step[i]) != (0, -1, 1)]
    ends = [2**62 if size[i] == -1 else begin[i] + (size[i] - 1) * step[i] + 1 for i in axes]
    ends = [2**62 if begin[i] < 0 <= n else n for i, n in zip(axes, ends)]  # from the end on
    inputs = [w.plain(w.get(e, 0)), w.ints([begin[i] for i in axes]), w.ints(ends), w.ints(axes), w.ints([step[i] for i in axes])]
    w.put(e, w.node("Slice", inputs) if axes else inputs[0])


@op("pad")
def pad(w: Writer, e: Entry) -> None:
    rank = w.rank(e.inputs[0])
    before, after, step = (numbers(e, k) for k in ("before", "after", "step"))
    before, after = before + [0] * (rank - len(before)), after + [0] * (rank - len(after))
    value, x = scalar(w, floats(e, "value", 0)), w.plain(w.get(e, 0))
    for d, n in enumerate(step):
        if n > 1:  # a new dimension behind this one, filled up, and what is too much cut off
            x = w.node("Unsqueeze", [x, w.ints([d + 1])])
            pads = [0] * (2 * rank + 2)
            pads[rank + 1 + d + 1] = n - 1
            x = w.node("Pad", [x, w.ints(pads), value])
            x = merged(w, x, rank, d)
            x = w.node("Slice", [x, w.ints([0]), w.ints([1 - n]), w.ints([d])])
    w.put(e, w.node("Pad", [x, w.ints(before + after), value]))


def merged(w: Writer, x: str, rank: int, d: int) -> str:
    """Dimensions d and d + 1 as one."""
    shape = w.node("Shape", [x])
    one = [w.node("Slice", [shape, w.ints([a]), w.ints([b])]) for a, b in ((0, d), (d + 2, rank + 1))]
    return w.node("Reshape", [x, w.node("Concat", [one[0], w.ints([-1]), one[1]], axis=0)])


@op("concat")
def concat(w: Writer, e: Entry) -> None:
    vs = [w.get(e, i) for i in range(len(e.inputs))]
    axis = axis_of(e, w.rank(e.inputs[0]))
    if vs[0].order is not None and all(v.order == vs[0].order for v in vs):
        w.put(e, w.node("Concat", [v.name for v in vs], axis=list(vs[0].order).index(axis)), vs[0].order)
    else:
        w.put(e, w.node("Concat", [w.plain(v) for v in vs], axis=axis))


@op("flip")
def flip(w: Writer, e: Entry) -> None:
    axes = numbers(e, "axes") or list(range(w.rank(e.inputs[0])))
    n = len(axes)
    w.put(e, w.node("Slice", [w.plain(w.get(e, 0)), w.ints([-1] * n), w.ints([-2**62] * n), w.ints(axes), w.ints([-1] * n)]))


@op("cast")
def cast(w: Writer, e: Entry) -> None:
    v = w.get(e, 0)
    w.put(e, w.node("Cast", [v.name], to=ELEMENT[e.attributes.get("to", "f32")]), v.order)


# ---- by numbers ----

@op("gather")
def gather(w: Writer, e: Entry) -> None:
    w.put(e, w.node("Gather", [w.plain(w.get(e, 0)), w.plain(w.get(e, 1))], axis=axis_of(e, w.rank(e.inputs[0]))))


@op("take_along")
def take_along(w: Writer, e: Entry) -> None:
    w.put(e, w.node("GatherElements", [w.plain(w.get(e, i)) for i in (0, 1)], axis=axis_of(e, w.rank(e.inputs[0]))))


@op("put_along")
def put_along(w: Writer, e: Entry) -> None:
    x, index, rank = w.plain(w.get(e, 0)), w.plain(w.get(e, 1)), w.rank(e.inputs[0])
    axis = axis_of(e, rank)
    shape = w.node("Shape", [x])
    sides = [w.node("Slice", [shape, w.ints([a]), w.ints([b])]) for a, b in ((0, axis), (axis + 1, rank))]
    whole = w.node("Concat", [sides[0], w.ints([int(e.attributes["size"])]), sides[1]], axis=0)
    zero = w.node("Expand", [scalar(w, 0.0), whole])
    w.put(e, w.node("ScatterElements", [zero, index, x], axis=axis, reduction="add"))


@op("cumsum")
def cumsum(w: Writer, e: Entry) -> None:
    axis = w.initializer(np.array(axis_of(e, w.rank(e.inputs[0]), -1), "int64"))
    w.put(e, w.node("CumSum", [w.plain(w.get(e, 0)), axis], reverse=int(is_true(e, "reverse")),
                    exclusive=int(is_true(e, "exclusive"))))


@op("top_k")
def top_k(w: Writer, e: Entry) -> None:
    values = w.node("TopK", [w.plain(w.get(e, 0)), w.ints([int(e.attributes["k"])])], outputs=2, axis=-1)
    index = w.nodes[-1]["output"][1]
    w.put(e, values)
    w.put(e, w.node("Cast", [index], to=6), index=1)

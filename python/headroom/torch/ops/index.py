"""By numbers: embeddings, indexing, gathering, scattering, the largest and the order of elements."""
from __future__ import annotations

from typing import Any, Optional

import numpy as np

from ...build import Build, Const, Tensor
from ...graph import Refused
from ...size import Size, divided
from .call import Call, op, operand


@op("embedding")
def embedding(b: Build, c: Call) -> Tensor:
    table, ids = c["weight"], c["indices"]
    if c.get("scale_grad_by_freq"):
        raise Refused("an embedding with scale_grad_by_freq, whose gradient depends on the whole batch")
    padding = c.get("padding_idx", -1)
    if padding is not None and padding >= 0 and isinstance(table, Tensor):
        return b.padded_embedding(table, ids, padding)
    return b.gather(table, ids)


@op("embedding_renorm")
def embedding_renorm(b: Build, c: Call) -> Tensor:
    raise Refused("an embedding with max_norm: forward() writes into its parameter, which the optimizer alone may change")


SUM, MEAN, MAX = 0, 1, 2  # modes of bags


@op("embedding_bag", "_embedding_bag")
def embedding_bag(b: Build, c: Call) -> list:
    """Bags of one length, as nn.EmbeddingBag makes them of a matrix of numbers.  What is padding counts nowhere."""
    bags, offsets, padding = c.walk.dim(c.node.meta["val"][0].shape[0]), c["offsets"], c.get("padding_idx")
    count = c.walk.dim(c.node.args[1].meta["val"].shape[0])
    each: Any = divided(count, bags)
    if not isinstance(offsets, Const) or not np.array_equal(offsets.array, np.arange(len(offsets.array)) * each):
        raise Refused("bags of different lengths; give nn.EmbeddingBag a matrix of numbers, with a padding_idx")
    ids = b.reshape(b.whole(b.ids(c["indices"])), (bags, each))
    rows, weight = b.gather(c["weight"], ids), c.get("per_sample_weights")
    if weight is not None:
        rows = b.map2("mul", rows, b.reshape(b.whole(weight), (bags, each, 1)))
    keep = None
    if padding is not None and padding >= 0:
        keep = b.unsqueeze(b.compare("not_equal", ids, Const(np.float32(padding))), 2)
    if c["mode"] == MAX:
        if keep is not None:
            raise Refused("the largest of bags with padding")
        return [b.reduce("max", rows, [1], False), None, None, None]
    total = b.reduce("sum", rows if keep is None else b.map2("mul", rows, keep), [1], False)
    if c["mode"] == MEAN:
        total = b.affine(total, 1.0 / each) if keep is None else \
            b.map2("div", total, b.clip(b.reduce("sum", keep, [1], False), 1.0, None))
    return [total, None, None, None]


@op("index_select")
def index_select(b: Build, c: Call) -> Tensor:
    return b.take(b.tensor(c["self"]), c["dim"], c["index"])


@op("index")
def index(b: Build, c: Call) -> Tensor:
    x, by = b.whole(c["self"]), list(c["indices"])
    by = numbered(by)
    used = [d for d, i in enumerate(by) if i is not None]
    if any(isinstance(i, Tensor) and str(n.meta["val"].dtype) == "torch.bool"
           for i, n in zip(c["indices"], c.node.args[1]) if i is not None):
        raise Refused("indexing by a mask that depends on data: the size of the result would, too")
    if len(used) == 1:
        return b.take(x, used[0], by[used[0]])
    ids = [by[d] for d in used]
    if used != list(range(used[0], used[0] + len(used))):  # what the numbers pick then comes first
        return b.flat_rows(b.permute(x, used + [d for d in range(x.rank) if d not in used]), ids)
    samples = next((k for k, i in enumerate(ids) if used[0] == 0 and every_sample(i, x.shape[k])), 0)
    if samples:  # they come first
        front = [samples, *(k for k in range(len(ids)) if k != samples)]
        x, ids = b.permute(x, front + list(range(len(ids), x.rank))), [ids[k] for k in front]
    if used[0] == 0 and every_sample(ids[0], x.shape[0]):
        if len(ids) == 2 and same_of_all(ids):
            places = ids[1].array.reshape(-1)
            whole = np.array_equal(places, np.arange(x.shape[1]) if isinstance(x.shape[1], int) else [])
            return b.reshape(x if whole else b.take(x, 1, Const(places)), c.shape())
        if len(ids) == 2 and ids[0].rank <= 2 and ids[1].rank <= 2:
            return b.reshape(b.rows_of(x, ids[1]), c.shape())
        return b.reshape(b.places_of(x, ids[1:], c.shape()[:len(c.shape()) - x.rank + len(ids)]), c.shape())
    front = used + [d for d in range(x.rank) if d not in used]
    y = b.flat_rows(b.permute(x, front), ids)
    lead = y.rank - (x.rank - len(used))
    order = list(range(lead, lead + used[0])) + list(range(lead)) + list(range(lead + used[0], y.rank))
    return b.permute(y, order)


def same_of_all(ids: list[Any]) -> bool:
    """Whether samples (N, 1, ...) meet places (1, ...) that are known: the same ones of every sample, as in masks of transformers."""
    samples, places = ids
    return isinstance(places, Const) and (places.rank < samples.rank or places.shape[0] == 1) and \
        all(n == 1 for n in samples.shape[1:])


def numbered(by: list) -> list:
    """With the numbers that known masks stand for."""
    return [n for i in by for n in ([Const(p) for p in np.nonzero(i.array)] if masks(i) else [i])]


def masks(x: Any) -> bool:
    return isinstance(x, Const) and x.array.dtype.kind == "b" and not any(isinstance(n, Size) for n in x.shape)


def every_sample(x: Any, n: Any) -> bool:
    """arange over the batch, in whatever shape."""
    if not isinstance(x, Const) or not isinstance(n, Size) or not x.rank or x.shape[0] != n:
        return False
    rows = np.arange(len(x.array)).reshape(-1, *[1] * (x.array.ndim - 1))
    return np.array_equal(x.array, np.broadcast_to(rows, x.array.shape))


@op("gather")
def gather(b: Build, c: Call) -> Tensor:
    return b.take_along(b.whole(c["self"]), c["index"], c["dim"])


@op("take_along_dim")
def take_along_dim(b: Build, c: Call) -> Tensor:
    x, index_ = b.whole(c["self"]), b.whole(c["indices"])
    d = c["dim"] % x.rank
    shape = tuple(s if i == d or s != 1 else x.shape[i] for i, s in enumerate(index_.shape))
    return b.take_along(b.broadcast(x, tuple(x.shape[i] if i == d else s for i, s in enumerate(shape))),
                        b.broadcast(index_, shape), d)


@op("scatter", "scatter_add")
def scatter(b: Build, c: Call) -> Tensor:
    index_ = b.whole(b.ids(c["index"]))
    source = c.first("src", "value")
    source = b.whole(operand(source)) if isinstance(source, (Tensor, Const)) else \
        Tensor(b.form.fill("f32", index_.shape, float(source)))
    if c.get("reduce") not in (None, "add"):
        raise Refused(f"scatter by {c['reduce']}")
    base = operand(c["self"])
    return b.scatter(base, index_, source, c["dim"], "add" in str(c.node.target) or c.get("reduce") == "add")


@op("index_add", "index_copy")
def index_add(b: Build, c: Call) -> Tensor:
    x, source, d = operand(c["self"]), b.whole(operand(c.get("source"))), c["dim"] % c["self"].rank
    if c.get("alpha") not in (None, 1):
        source = b.affine(source, c["alpha"])
    flat = b.whole(b.ids(c["index"]))
    shape = tuple(source.shape[i] if i == d else 1 for i in range(source.rank))
    index_ = b.broadcast(b.reshape(flat, shape), source.shape)
    return b.scatter(x, index_, source, d, "index_add" in str(c.node.target))


@op("index_put", "_unsafe_index_put")
def index_put(b: Build, c: Call) -> Tensor:
    """One dimension by known numbers, or a mask of the whole."""
    x, by, value = operand(c["self"]), list(c["indices"]), operand(c["values"])
    used = [d for d, i in enumerate(by) if i is not None]
    nodes = [n for n in c.node.args[1] if n is not None]
    if len(used) == 1 and str(nodes[0].meta["val"].dtype) == "torch.bool" and by[used[0]].rank == x.rank and value.rank == 0:
        return b.where(operand(by[used[0]]), value, x)
    by = numbered(by)
    used = [d for d, i in enumerate(by) if i is not None]
    if len(used) != 1:
        return written(b, x, [by[d] for d in used], used, value, bool(c.get("accumulate")))
    d, ids = used[0], by[used[0]]
    shape = tuple(ids.shape[0] if i == d else s for i, s in enumerate(x.shape))
    source = b.broadcast(b.whole(value), shape)
    flat = b.reshape(b.whole(b.ids(ids)), tuple(shape[i] if i == d else 1 for i in range(x.rank)))
    return b.scatter(x, b.broadcast(flat, shape), source, d, bool(c.get("accumulate")))


def written(b: Build, x: Any, ids: list, used: list[int], value: Any, add: bool) -> Tensor:
    """By several tensors of numbers: x with the dimensions that they number in one, and their common shape in one."""
    if used != list(range(used[0], used[0] + len(used))) or not used:
        raise Refused("a write by tensors of numbers with a dimension between them")
    first, each = used[0], used[0] == 0 and every_sample(ids[0], x.shape[0])
    if each:  # places within each sample
        ids, first = ids[1:], 1
        many: tuple = b.whole(ids[0]).shape[1:] or (1,)
    else:
        many = np.broadcast_shapes(*(i.shape for i in ids))
    last = first + len(ids)
    sizes, k = x.shape[first:last], int(np.prod(many))
    whole = x.shape[:first] + (int(np.prod(sizes)),) + x.shape[last:]
    shape = whole[:first] + (k,) + whole[first + 1:]
    flat = b.whole(b.ids(b._flat(ids, sizes) if len(ids) > 1 else ids[0]))
    lead = (x.shape[0],) if each else ()
    flat = b.reshape(b.broadcast(flat, lead + (many if not each or flat.rank > 1 else ())), lead + (1,) * (first - len(lead)) + (k,)
                     + (1,) * (len(shape) - first - 1))
    if isinstance(value, Const) and not value.rank:
        source = Tensor(b.form.fill("f32", shape, float(value.array)))
    else:
        source = b.reshape(b.broadcast(b.whole(value), x.shape[:first] + (many if k > 1 or not each else ()) + x.shape[last:]), shape)
    empty = isinstance(x, Const) and not x.array.any()
    base = Const(np.zeros((1,) * len(whole), "float32"), whole) if empty else b.reshape(b.whole(x), whole)
    return b.reshape(b.scatter(base, b.broadcast(flat, shape), source, first, add), x.shape)


@op("scatter_reduce")
def scatter_reduce(b: Build, c: Call) -> Tensor:
    """Sums, means, the largest and the smallest."""
    x, index_, source, how = operand(c["self"]), b.whole(b.ids(c["index"])), b.whole(operand(c["src"])), c["reduce"]
    if how in ("amax", "amin"):
        return extreme(b, x, index_, source, c["dim"], how == "amax", c["include_self"])
    if how not in ("sum", "mean"):
        raise Refused(f"scatter_reduce by {how}{c.walk.way_out}")
    total = b.scatter(Const(np.zeros((1,) * x.rank, "float32"), x.shape), index_, source, c["dim"], True)
    ones = Tensor(b.form.fill("f32", index_.shape, 1.0))
    count = b.scatter(Const(np.zeros((1,) * x.rank, "float32"), x.shape), index_, ones, c["dim"], True)
    if c["include_self"]:
        total = b.map2("add", x, total)
        return total if how == "sum" else b.map2("div", total, b.map2("add", count, Const(np.float32(1))))
    if how == "mean":
        total = b.map2("div", total, b.clip(count, 1.0, None))
    return b.where(count, total, x)


@op("index_reduce")
def index_reduce(b: Build, c: Call) -> Tensor:
    x, source, d = operand(c["self"]), b.whole(operand(c["source"])), c["dim"] % c["self"].rank
    flat = b.reshape(b.whole(b.ids(c["index"])), tuple(source.shape[i] if i == d else 1 for i in range(source.rank)))
    again = dict(c, self=x, index=b.broadcast(flat, source.shape), src=source)
    return scatter_reduce(b, Call(again, node=c.node, walk=c.walk))


def extreme(b: Build, x: Any, index_: Tensor, source: Tensor, dim: int, most: bool, own: bool) -> Tensor:
    """PyTorch shares the gradient among equals, ours goes to the first: the same unless two are equal."""
    for d in range(source.rank):
        if source.shape[d] != index_.shape[d]:
            source = b.slice(source, d, 0, index_.shape[d])
    y, any_ = (b.grown(t, x.shape) for t in b.scatter_max(index_, source if most else b.neg(source), dim, x.shape[dim]))
    y = y if most else b.neg(y)
    return b.where(any_, (b.maximum if most else b.minimum)(y, x) if own else y, x)


@op("one_hot")
def one_hot(b: Build, c: Call) -> Tensor:
    if c["num_classes"] < 0:
        raise Refused("one_hot without the number of classes")
    return b.one_hot(c["self"], c["num_classes"])


@op("topk")
def topk(b: Build, c: Call) -> list:
    return list(b.top_k(b.whole(c["self"]), c["k"], c["dim"], c["largest"]))


@op("sort", "argsort")
def sort(b: Build, c: Call) -> Any:
    x, d = b.cast(b.whole(c["self"]), "f32"), c["dim"] % c["self"].rank
    if isinstance(x.shape[d], Size):
        raise Refused("sorting the batch")
    both = list(b.top_k(x, x.shape[d], d, bool(c["descending"])))
    return both[1] if "argsort" in str(c.node.target) else both


@op("searchsorted", "bucketize")
def searchsorted(b: Build, c: Call) -> Tensor:
    """How many of a sorted row are less, or no more."""
    x, row = b.tensor(operand(c["self"])), operand(c.first("sorted_sequence", "boundaries"))
    if c.get("sorter") is not None:
        raise Refused("searchsorted with a sorter")
    right = c["right"] or c.get("side") == "right"
    if row.rank > 1:  # one for each row of x
        row = b.unsqueeze(b.tensor(row), row.rank - 1)
    under = b.compare("less_equal" if right else "less", row, b.unsqueeze(x, x.rank))
    return b.cast(b.reduce("sum", under, [-1], False), "i32")


@op("kthvalue")
def kthvalue(b: Build, c: Call) -> list:
    x, d = b.whole(c["self"]), c["dim"] % c["self"].rank
    return [t if c["keepdim"] else b.squeeze(t, [d]) for t in
            (b.slice(y, d, c["k"] - 1, 1) for y in b.top_k(x, c["k"], d, False))]


@op("median")
def median(b: Build, c: Call) -> Any:
    if c.get("dim") is None:
        raise Refused("the median of everything; give a dimension")
    return kthvalue(b, Call(dict(c, k=(c["self"].shape[c["dim"]] + 1) // 2), node=c.node, walk=c.walk))


@op("argmax", "argmin")
def argmax(b: Build, c: Call) -> Tensor:
    x = b.cast(b.whole(c["self"]), "f32")
    return b.arg_max(x if "argmax" in str(c.node.target) else b.neg(x), c["dim"], bool(c["keepdim"]))


@op("bincount", "nonzero", "unique", "_unique2", "masked_select", "unique_consecutive")
def counted(b: Build, c: Call) -> Optional[Tensor]:
    raise Refused(f"{str(c.node.target).split('.')[1]}: the size of its result depends on data")

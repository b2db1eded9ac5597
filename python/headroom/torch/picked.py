"""Rows that a mask picks, as x[mask], torch.where(mask) and nonzero() give them: how many there are depends on data.

All rows stay.  A size that depends on data (u0 to torch.export) becomes the number of places in the mask, and its Pick remembers which of
them count.  What treats each row alone goes on as it is, and whether an op does so is tried with numbers; what sums over
rows, or writes them back, leaves out those that do not count.  Anything else is refused.  Rows that do not count hold 0.5, for
which logarithms, roots and quotients are finite, so that no gradient of theirs spoils those that count."""
from __future__ import annotations

from typing import Any, Optional

import numpy as np
import torch

from ..build import Build, Const, Tensor
from ..graph import Refused, Value
from ..size import product
from .ops import OPS, Call
from .ops.call import operand
from .ops.index import masks
from .ops.losses import MEAN, NONE, SUM

HARMLESS = Const(np.float32(0.5))
LOSSES = ("mse_loss", "l1_loss", "smooth_l1_loss", "huber_loss", "binary_cross_entropy", "binary_cross_entropy_with_logits")
NUMBERS = ("add", "sub", "mul", "div", "rsub", "pow", "true_divide", "maximum", "minimum", "full")  # to which a size is a number


class Pick:
    """`mask`: 1 where a place of `shape` counts, else 0."""

    def __init__(self, b: Build, mask: Tensor, alike: Optional[Pick] = None) -> None:
        self.made, self.alike = mask.value, alike or self  # the first that picks the same rows, of any shape
        self.mask, self.shape, self.rows = b.cast(b.plain(mask), "f32"), mask.shape, product(mask.shape)

    def spread(self, b: Build, before: int, after: int) -> Tensor:
        return b.reshape(self.mask, (1,) * before + self.shape + (1,) * after)

    def flat(self, b: Build, dim: int, rank: int) -> Tensor:
        return b.reshape(self.mask, tuple(self.rows if d == dim else 1 for d in range(rank)))

    def count(self, b: Build) -> Tensor:
        return b.reduce("sum", self.mask, [], False)


class Place:
    """The numbers of the picked places along one dimension of the mask."""

    def __init__(self, pick: Pick, axis: int) -> None:
        self.pick, self.axis = pick, axis


def symbols(x: Any) -> set[str]:
    """Sizes that depend on data, in what a node gives."""
    if isinstance(x, (list, tuple)):
        return {s for y in x for s in symbols(y)}
    dims = x.shape if isinstance(x, torch.Tensor) else [x] if isinstance(x, torch.SymInt) else []
    return {str(s) for d in dims if isinstance(d, torch.SymInt) for s in d.node.expr.free_symbols if str(s).startswith("u")}


def involved(walk: Any, node: torch.fx.Node) -> set[str]:
    """Of tensors; sizes themselves are numbers, and some are known."""
    return {s for n in (node, *node.all_input_nodes) if not isinstance(n.meta.get("val"), torch.SymInt) for s in symbols(n.meta.get("val"))} - set(walk.known)


def at(x: torch.Tensor) -> Optional[int]:
    """The dimension of picked rows."""
    found = [d for d, n in enumerate(x.shape) if isinstance(n, torch.SymInt) and symbols(n)]
    if len(found) > 1:
        raise Refused("two sizes that depend on data")
    return found[0] if found else None


def same(a: Value, b: Value) -> bool:
    """Whether both are made alike, of the same."""
    x, y = a.entry, b.entry
    return x is y and a.index == b.index or (x.kind, x.op, x.attributes, x.data, x.number, a.index, a.shape) == \
        (y.kind, y.op, y.attributes, y.data, y.number, b.index, b.shape) and x.kind in ("node", "fill", "constant") and x.op not in ("noise", "dropout") and not x.update and \
        len(x.inputs) == len(y.inputs) and all(same(p, q) for p, q in zip(x.inputs, y.inputs))


def is_mask(node: Any, value: Any) -> bool:
    return isinstance(node, torch.fx.Node) and isinstance(value, (Tensor, Const)) and node.meta["val"].dtype == torch.bool and not masks(value)


def learn(walk: Any, node: torch.fx.Node, name: str, call: Call) -> None:
    """How many rows a mask that is constant picks."""
    if name == "index" and any(masks(i) for i in call["indices"]) and not any(is_mask(n, i) for n, i in zip(node.args[1], call["indices"])):
        walk.known.update({s: int(i.array.sum()) for i in call["indices"] if masks(i) for s in symbols(node.meta["val"])})


def by_mask(node: torch.fx.Node, name: str, call: Call) -> bool:
    """A write by a mask of the first dimensions, or of what is no number."""
    return name.startswith("index_put") and any(is_mask(n, i) for n, i in zip(node.args[1], call["indices"])) and \
        not (isinstance(call["values"], Const) and not call["values"].rank and call["indices"][0] is not None and call["indices"][0].rank == call["self"].rank)


def take(walk: Any, node: torch.fx.Node, target: Any, name: str, call: Call) -> Any:
    """What the node gives, or None: the op treats each row alone, and is to be taken as any other."""
    b = walk.build
    if name in ("where", "nonzero", "nonzero_numpy") and len(node.all_input_nodes) == 1:
        return places(walk, node, name, call)
    if name == "masked_select":
        return rows(b, b.broadcast(b.whole(call["self"]), broad(call)), [Place(pick(walk, node, masked(b, call)), i) for i in range(len(broad(call)))], 0)
    if name == "index":
        by, x = found(walk, node, call), b.whole(call["self"])
        used = [d for d, i in enumerate(by) if i is not None]
        if used and all(isinstance(by[d], Place) for d in used):
            return rows(b, x, [by[d] for d in used], used[0]) if used == list(range(used[0], used[0] + len(used))) else between()
    if name.startswith("index_put"):
        return written(walk, node, call)
    if name.startswith("index_add") and isinstance(call["index"], Place):
        return added(walk, call)
    if any(isinstance(x, Place) for x in call.values()):
        return narrowed(node, name, call)
    one_pick(walk, node)
    if symbols(node.meta.get("val")):
        alone(node, target, name)
        return None
    return summed(walk, node, name, call)


def between() -> Any:
    raise Refused("rows that a mask picks, with a dimension between")


def broad(call: Call) -> tuple:
    a, b = call["self"].shape, call["mask"].shape
    rank = max(len(a), len(b))
    return tuple(q if p == 1 else p for p, q in zip((1,) * (rank - len(a)) + tuple(a), (1,) * (rank - len(b)) + tuple(b)))


def masked(b: Build, call: Call) -> Tensor:
    return b.broadcast(b.whole(operand(call["mask"])), broad(call))


def pick(walk: Any, node: torch.fx.Node, mask: Tensor) -> Pick:
    """That of the node's size; the same mask has one."""
    names = symbols(node.meta["val"])
    if len(names) != 1:
        raise Refused("two sizes that depend on data")
    name = names.pop()
    if name not in walk.picks:
        walk.picks[name] = known(walk, mask)
    return walk.picks[name]


def one_pick(walk: Any, node: torch.fx.Node) -> Pick:
    picks = {id(walk.picks[s].alike): walk.picks[s] for s in involved(walk, node) if s in walk.picks}
    if len(picks) != 1:
        raise Refused("rows that different masks pick, together" if picks else "a size that depends on data")
    return next(iter(picks.values()))


def places(walk: Any, node: torch.fx.Node, name: str, call: Call) -> Any:
    mask = walk.build.whole(operand(call.first("condition", "self")))
    p = pick(walk, node, walk.build.compare("not_equal", mask, Const(np.float32(0))))
    if name == "nonzero" and mask.rank != 1:
        raise Refused("nonzero() of more than one dimension; torch.where(mask) gives the places of each")
    return Place(p, 0) if name == "nonzero" else [Place(p, i) for i in range(mask.rank)]


def narrowed(node: torch.fx.Node, name: str, call: Call) -> Place:
    """nonzero() without its last dimension, of one element."""
    if name in ("squeeze", "view", "flatten", "reshape", "select", "clone", "detach", "alias", "to", "_to_copy", "unbind"):
        made: Any = call["self"]
        return made if name != "unbind" else [made]  # type: ignore[return-value]
    raise Refused("arithmetic with the places that a mask picks; x[mask] and x[places] are taken")


def found(walk: Any, node: torch.fx.Node, call: Call) -> list:
    """The indices, with a mask as the places along each of its dimensions."""
    out: list = []
    for n, i in zip(node.args[1], call["indices"]):
        if not is_mask(n, i):
            out.append(i)
            continue
        i = walk.build.whole(operand(i))
        p = pick(walk, node, i) if symbols(node.meta["val"]) else known(walk, i)
        out += [Place(p, d) for d in range(len(p.shape))]
    return out


def known(walk: Any, mask: Tensor) -> Pick:
    """That of the same mask, or one that picks the rows of the same mask in another shape."""
    old = [p for p in walk.picks.values() if same(flat(p.made), flat(mask.value))]
    return next((p for p in old if p.shape == mask.shape), None) or Pick(walk.build, mask, old[0].alike if old else None)


def flat(v: Value) -> Value:
    """What a view of another shape is made of."""
    while v.entry.kind == "node" and v.entry.op == "reshape":
        v = v.entry.inputs[0]
    return v


def rows(b: Build, x: Tensor, by: list[Place], first: int) -> Tensor:
    """x at the places, which number its dimensions from `first` on: one row for each place of the mask."""
    p, axes = fitting(by, x.shape, first)
    x = b.permute(x, turned(axes, first, x.rank))
    axes, rest = sorted(axes), x.shape[first + len(axes):]
    y = b.reshape(x, x.shape[:first] + tuple(n if i in axes else 1 for i, n in enumerate(p.shape)) + rest)
    y = b.broadcast(y, x.shape[:first] + p.shape + rest)
    if x.type == "f32":
        y = b.where(p.spread(b, first, len(rest)), y, HARMLESS)
    return b.reshape(y, x.shape[:first] + (p.rows,) + rest)


def fitting(by: list[Place], shape: tuple, first: int) -> tuple[Pick, list[int]]:
    p, axes = by[0].pick, [i.axis for i in by]
    if any(i.pick is not p for i in by) or len(set(axes)) != len(axes) or any(shape[first + k] != p.shape[a] for k, a in enumerate(axes)):
        raise Refused("places that a mask of other dimensions picks")
    return p, axes


def turned(axes: list[int], first: int, rank: int) -> list[int]:
    """The dimensions from `first` on in the order of the mask's."""
    return [*range(first), *(first + k for k in sorted(range(len(axes)), key=lambda k: axes[k])), *range(first + len(axes), rank)]


def back(b: Build, p: Pick, axes: list[int], source: Tensor, first: int) -> Tensor:
    """Rows as the dimensions of the mask that `axes` are; those that do not count are 0, and others that meet are summed."""
    rest = source.shape[first + 1:]
    y = b.reshape(source, source.shape[:first] + p.shape + rest)
    y = b.where(p.spread(b, first, len(rest)), y, Const(np.float32(0)))
    gone = [first + i for i in range(len(p.shape)) if i not in axes]
    return b.reduce("sum", y, gone, False) if gone else y


def added(walk: Any, call: Call) -> Tensor:
    b, place, x = walk.build, call["index"], operand(call["self"])
    d, source = call["dim"] % x.rank, b.whole(operand(call["source"]))
    fitting([place], x.shape, d)
    y = back(b, place.pick, [place.axis], source, d)
    return b.map2("add", x, b.affine(y, 1.0 if call.get("alpha") is None else float(call["alpha"])))


def written(walk: Any, node: torch.fx.Node, call: Call) -> Tensor:
    """x[mask] = rows, x[places] = rows, and both with what stands there added."""
    b, x, by, value = walk.build, operand(call["self"]), found(walk, node, call), operand(call["values"])
    used = [d for d, i in enumerate(by) if i is not None]
    if not used or any(not isinstance(by[d], Place) for d in used) or used != list(range(used[0], used[0] + len(used))):
        between()
    first = used[0]
    p, axes = fitting([by[d] for d in used], x.shape, first)
    if axes != sorted(axes):
        raise Refused("a write to places that a mask picks, in another order of its dimensions")
    val: Any = node.args[2].meta["val"] if isinstance(node.args[2], torch.fx.Node) else None
    if val is not None and symbols(val) and getattr(walk.picks.get(next(iter(symbols(val)))), "alike", None) is not p.alike:
        raise Refused("a write of rows that another mask picks")
    rest = x.shape[first + len(used):]
    source = b.broadcast(b.whole(value), x.shape[:first] + (p.rows,) + rest)
    new = back(b, p, axes, source, first)
    if call.get("accumulate"):
        return b.map2("add", x, new)
    gone = [i for i in range(len(p.shape)) if i not in axes]
    hit = b.reduce("max", p.mask, gone, False) if gone else p.mask
    return b.where(b.reshape(hit, (1,) * first + hit.shape + (1,) * len(rest)), new, b.whole(x))


def summed(walk: Any, node: torch.fx.Node, name: str, call: Call) -> Tensor:
    """Over rows, of which only those that count do."""
    b, p = walk.build, one_pick(walk, node)
    if name in ("cross_entropy_loss", "nll_loss", "nll_loss_nd") and not str(node.args[1].meta["val"].dtype).startswith("torch.float"):
        target = b.cast(b.whole(call["target"]), "f32")
        flat = p.flat(b, at(node.args[1].meta["val"]) or 0, target.rank)
        target = b.cast(b.where(flat, target, Const(np.float32(call["ignore_index"]))), "i32")
        made: Tensor = OPS[name](b, Call(dict(call, target=target), node=node, walk=walk))
        return made
    d = at(node.args[0].meta["val"]) if isinstance(node.args[0], torch.fx.Node) else None
    if d is None or name not in ("sum", "mean", *LOSSES):
        raise Refused(f"{name} of rows that a mask picks")
    if name in LOSSES:
        x, how, dims, keep = OPS[name](b, Call(dict(call, reduction=NONE), node=node, walk=walk)), call["reduction"], [], False
    else:
        x, how, keep = b.cast(b.whole(operand(call["self"])), "f32"), MEAN if name == "mean" else SUM, bool(call.get("keepdim"))
        dims = [] if call.get("dim") is None else [n % x.rank for n in ([call["dim"]] if isinstance(call["dim"], int) else call["dim"])]
    total = b.reduce("sum", b.where(p.flat(b, d, x.rank), x, Const(np.float32(0))), dims, keep)
    if how == SUM:
        return total
    others = product(n for i, n in enumerate(x.shape) if i != d and (i in dims or not dims))
    return b.map2("div", total, b.map2("mul", p.count(b), b.count(others)))


# ---- whether an op treats each row alone ----


def number(n: Any, many: int) -> int:
    if isinstance(n, int):
        return n
    expr = n.node.expr
    return int(expr.subs({s: many if str(s).startswith("u") else 3 for s in expr.free_symbols}))


def example(x: Any, many: int, drawn: dict) -> Any:
    """An argument with numbers for sizes; tensors drawn once, for five rows, of which three are picked."""
    if isinstance(x, (list, tuple)):
        return [example(y, many, drawn) for y in x]
    val = x.meta.get("val") if isinstance(x, torch.fx.Node) else x
    if isinstance(val, torch.SymInt):
        return number(val, many)
    if not isinstance(x, torch.fx.Node) or not isinstance(val, torch.Tensor):
        return val
    if x not in drawn:
        shape = [number(n, 5) for n in val.shape]
        drawn[x] = torch.randn(shape).to(val.dtype) if val.dtype.is_floating_point else torch.rand(shape) > 0.5 if val.dtype == torch.bool \
            else torch.randint(0, 2, shape).to(val.dtype)
    return fewer(drawn[x], val, many).clone()


def fewer(t: torch.Tensor, val: torch.Tensor, many: int) -> torch.Tensor:
    d = at(val)
    return t if d is None or many == 5 else t.index_select(d, torch.tensor([0, 2, 3]))


def alone(node: torch.fx.Node, target: Any, name: str) -> None:
    """Whether the rows of five are those of three of them, tried."""
    if "dropout" in name:
        return
    with torch.random.fork_rng(devices=[]), torch.no_grad():
        torch.manual_seed(0)
        drawn: dict = {}
        try:
            five, three = (target(*[example(a, n, drawn) for a in node.args], **{k: example(v, n, drawn) for k, v in node.kwargs.items()})
                           for n in (5, 3))
            vals = node.meta["val"]
            pairs = zip(five, three, vals) if isinstance(vals, (list, tuple)) else [(five, three, vals)]
            good = all(torch.allclose(fewer(f, v, 3).double(), t.double(), 1e-4, 1e-5, equal_nan=True) for f, t, v in pairs)
        except (RuntimeError, TypeError, ValueError, IndexError):
            good = False
    if not good:
        raise Refused(f"{name} of rows that a mask picks: it does not treat each row alone")

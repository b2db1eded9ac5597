"""An exported program walked node by node: one form of a model.

torch.export without decompositions keeps layers whole and in-place ops as they are.  Here every value is written once, so the
walk keeps, for each node, the current value; an op in place gives its node a new one, a write through a view is put back into
what it views, and a view that is read after such a write is taken again.

What depends on no input, parameter or moved buffer is computed on the spot by PyTorch itself and stays a Const."""
from __future__ import annotations

import operator
from typing import Any, Callable, Optional

import numpy as np
import torch

from ..build import TYPES, Build, Const, Tensor
from ..graph import Refused
from ..size import Dim, Size, product
from . import outside, picked
from .decompose import decomposed, mapped
from .nodes import only_asserted, regions, scope, where
from .ops import METADATA_ONLY, OPS, RANDOM, VIEWS, Call, pairs


def type_name(dtype: torch.dtype) -> str:
    return str(dtype).split(".")[1]


# What counts samples, or puts those of several tensors beside each other.
WHOLE = ("cat", "concat", "stack", "sum", "prod", "var", "std", "var_mean", "std_mean", "batch_norm", "scaled_dot_product_attention", "lstm",
         "gru", "rnn_tanh", "rnn_relu", "lstm_cell", "gru_cell", "rnn_tanh_cell", "rnn_relu_cell", "gather", "scatter", "scatter_add",
         "scatter_reduce", "index_add", "index_copy", "index_put", "index_reduce", "einsum")
HALVES = {torch.bfloat16: "bf16", torch.float16: "f16"}


def array_of(x: torch.Tensor) -> np.ndarray:
    """NumPy has no bfloat16: its numbers in f32, which holds them all."""
    x = x.detach().cpu()
    return (x.float() if x.dtype in HALVES else x).numpy()


class Cell:
    """What a node currently is.  `base` and `again` for views: taken again when the base has moved on."""

    def __init__(self, value: Any, base: Optional["Cell"] = None, again: Optional[Callable] = None,
                 back: Optional[Callable] = None) -> None:
        self.value, self.base, self.again, self.back = value, base, again, back
        self.version = 0
        self.seen = base.current() if base else 0

    def current(self) -> int:
        return self.version + (self.base.current() if self.base else 0)

    def root(self) -> "Cell":
        return self if self.base is None else self.base.root()

    def read(self) -> Any:
        if self.base is not None and self.again is not None and self.base.current() != self.seen:
            self.value = self.again(self.base.read())
            self.seen = self.base.current()
        return self.value

    def write(self, value: Any) -> None:
        if self.base is None:
            self.version += 1
            self.value = value
            return
        if self.back is None:
            raise Refused("a write through this view")
        self.base.write(self.back(self.base.read(), value))
        self.value, self.seen = value, self.base.current()


class Walk:
    """One program into one form."""

    def __init__(self, build: Build, outside: Optional[outside.Kept] = None) -> None:
        self.build, self.outside = build, outside  # outside: ops that are not ours may run in PyTorch
        self.way_out = "" if outside else "; custom_ops=True (--custom-ops) runs it in PyTorch on the host"
        self.cells: dict[Any, Cell] = {}
        self.parameters: dict[Cell, str] = {}  # those that may not be written to
        self.buffers: dict[Cell, str] = {}  # every buffer's name
        self.states: dict[str, Any] = {}  # those that are states: the current value
        self.counters: dict[str, int] = {}  # whole-number buffers that grow by this much a step
        self.notes: list[str] = []
        self.no_grad = False
        self.picks: dict[str, picked.Pick] = {}  # by the size that depends on data
        self.known: dict[str, int] = {}  # those of constants
        self.regions: dict[Any, dict[int, Cell]] = {}  # of what torch.no_grad() gives, the buffers: later writes reach them
        self.derived = False  # an eval program that stands for the training one: dropout and batch norm are switched on

    def note(self, text: str) -> None:
        self.notes += [] if text in self.notes else [text]

    # ---- sizes ----

    def dim(self, d: Any) -> Dim:
        if isinstance(d, int):
            return d
        import sympy

        expr = d.node.expr
        names = sorted(expr.free_symbols, key=str)
        if not names:
            return int(expr)
        if any(str(n).startswith("u") for n in names):
            if str(expr) in self.known:
                return self.known[str(expr)]
            if str(expr) not in self.picks:
                raise Refused("a size that depends on data")
            return self.picks[str(expr)].rows
        expr = expr.subs({n: names[0] for n in names[1:]})  # inputs have one size in common, that of the batch
        try:
            poly = sympy.Poly(sympy.expand(expr), names[0])
        except sympy.PolynomialError:
            poly = None
        if poly is None or poly.degree() > 1:
            raise Refused(f"a size that is not proportional to the batch: {expr}")
        a, b = (int(poly.coeff_monomial(names[0])), int(poly.coeff_monomial(1)))
        return Size(a, b) if a else b

    def _whole(self, n: Any) -> Any:
        """A size, or what is computed of one and is none: n (n - 1)."""
        try:
            return self.dim(n)
        except Refused:
            return self._real(n.node.expr)

    def _counted(self, node: torch.fx.Node) -> bool:
        """Whether a size that depends on data is read as a number."""
        return bool(picked.symbols(node.meta["val"])) and any(isinstance(u.target, torch._ops.OpOverload) and
                                                              u.target._schema.name.split("::")[1].rstrip("_") in picked.NUMBERS for u in node.users)

    def _real(self, expr: Any) -> Any:
        """A real number made of the size of the batch, by the tensors that count it."""
        b, kind = self.build, type(expr).__name__
        if expr.is_number:
            return Const(np.float32(float(expr)))
        if expr.is_Symbol:
            if str(expr) in self.known:
                return Const(np.float32(self.known[str(expr)]))
            return self.picks[str(expr)].count(b) if str(expr) in self.picks else b.count(Size(1))
        parts = [self._real(x) for x in expr.args]
        if kind in ("Add", "Mul"):
            out = parts[0]
            for x in parts[1:]:
                out = b.map2(kind.lower(), out, x)
            return out
        if kind in ("FloatTrueDiv", "IntTrueDiv"):
            return b.map2("div", *parts)
        if kind in ("Pow", "FloatPow") and isinstance(parts[1], Const):
            return b.map1("power", b.tensor(parts[0]), exponent=float(parts[1].array))
        if kind == "ToFloat":
            return parts[0]
        if "sqrt" in kind:
            return b.map1("sqrt", b.tensor(parts[0]))
        raise Refused(f"arithmetic with the size of the batch: {expr}")

    def shape(self, node: torch.fx.Node) -> tuple:
        return tuple(self.dim(d) for d in node.meta["val"].shape)

    # ---- reading arguments ----

    def read(self, x: Any) -> Any:
        if isinstance(x, torch.fx.Node):
            return self.cells[x].read()
        if isinstance(x, (list, tuple)):
            return type(x)(self.read(y) for y in x)
        return self.dim(x) if isinstance(x, torch.SymInt) else x

    def concrete(self, x: Any) -> Any:
        """For PyTorch itself: constants as tensors, sizes as numbers of the example's batch."""
        if isinstance(x, Const):
            return torch.from_numpy(np.array(x.array))
        if isinstance(x, Size):
            return x.at(self.build.batch)
        if isinstance(x, (list, tuple)):
            return type(x)(self.concrete(y) for y in x)
        return x

    # ---- walking ----

    def run(self, graph: torch.fx.Graph, owner: torch.nn.Module) -> Any:
        result: Any = None
        asserted = only_asserted(graph)
        inside: dict[torch.fx.Node, list] = regions(graph)
        passed = {n for nodes in inside.values() for n in nodes}
        for node in graph.nodes:
            if node in inside:
                self._mapped(inside[node])
            elif node in passed:
                pass
            elif node in asserted:
                self.cells[node] = Cell(None)
            elif node.op == "call_function":
                self._call(node, owner)
            elif node.op == "get_attr":
                self._attribute(node, owner)
            elif node.op == "output":
                result = node.args[0]
            elif node.op == "placeholder" and node not in self.cells:
                raise Refused(f"an input that was not given: {node.name}")
        return result

    def _mapped(self, nodes: list[torch.fx.Node]) -> None:
        """What torch.vmap maps, by the ops that it makes of it."""
        try:
            module, inputs, results = mapped(nodes)
        except Exception as e:  # whatever PyTorch cannot map
            raise Refused(f"torch.vmap: {next(iter(str(e).splitlines()), type(e).__name__)}", where(nodes[-1])) from e
        for hole, given in zip([n for n in module.graph.nodes if n.op == "placeholder"], inputs):
            self.cells[hole] = self.cells[given]
        for r, x in zip(results, self.run(module.graph, module)):
            self.cells[r] = self.cells[x]

    def _attribute(self, node: torch.fx.Node, owner: torch.nn.Module) -> None:
        value: Any = owner
        for part in str(node.target).split("."):
            value = getattr(value, part)
        self.cells[node] = Cell(Const(array_of(value)) if isinstance(value, torch.Tensor) else value)

    def _call(self, node: torch.fx.Node, owner: torch.nn.Module) -> None:
        form = self.build.form
        form.scope, form.source = scope(node), where(node)
        try:
            self._take(node, owner)
        except Refused as e:
            raise e if e.where else Refused(e.what, where(node)) from None
        except (ValueError, KeyError, IndexError, TypeError, AssertionError, AttributeError, ArithmeticError) as e:
            raise Refused(f"{node.target}: {type(e).__name__}: {e}", where(node)) from e

    def _take(self, node: torch.fx.Node, owner: torch.nn.Module) -> None:
        target = node.target
        if target is operator.getitem:
            source, index = node.args
            kept = self.regions.get(source, {}).get(index)
            self.cells[node] = kept if kept is not None else Cell(self.read(source)[index])
        elif isinstance(node.meta.get("val"), (int, torch.SymInt)):
            val = node.meta["val"]
            self.cells[node] = Cell(self._real(val.node.expr) if self._counted(node) else self._whole(val))
        elif isinstance(target, torch._ops.HigherOrderOperator):
            self._region(node, owner)
        elif isinstance(target, torch._ops.OpOverload):
            self._op(node, target)
        elif isinstance(node.meta.get("val"), torch.SymFloat):
            self.cells[node] = Cell(self._real(node.meta["val"].node.expr))
        elif isinstance(node.meta.get("val"), (float, bool, torch.SymBool)):
            self.cells[node] = Cell(node.meta["val"])
        else:
            raise Refused(f"no way to take {target}")

    def _region(self, node: torch.fx.Node, owner: torch.nn.Module) -> None:
        """with torch.no_grad() and the like: its nodes are walked as if they stood here."""
        if node.target is torch.ops.higher_order.cond:
            raise Refused("torch.cond; torch.where(test, a, b) takes one of two", where(node))
        if "autocast" in str(node.target):
            device, _, enabled, _, inner, *inputs = node.args
            if enabled:
                first = next(n for n in getattr(owner, str(inner.target)).graph.nodes if n.op == "call_function")
                raise Refused("torch.autocast; models are taken in f32, and trained in others by --precision", where(first))
            enabled = not self.no_grad
        elif "set_grad_enabled" in str(node.target):
            enabled, inner, *inputs = node.args
        else:
            raise Refused(f"no way to take {node.target}")
        called: Any = inner
        module = getattr(owner, str(called.target))
        before, self.no_grad = self.no_grad, not enabled
        holes = [n for n in module.graph.nodes if n.op == "placeholder"]
        for hole, given in zip(holes, inputs):
            self.cells[hole] = self.cells[given]
        out = self.run(module.graph, module)
        self.no_grad = before
        self.regions[node] = {i: self.cells[n] for i, n in enumerate(out) if isinstance(n, torch.fx.Node) and self.cells[n].root() in self.buffers}
        self.cells[node] = Cell(self._stopped(self.read(out)) if not enabled and not before else self.read(out))

    def _stopped(self, x: Any) -> Any:
        """No gradient flows through what torch.no_grad() made."""
        if isinstance(x, (list, tuple)):
            return type(x)(self._stopped(y) for y in x)
        return self.build.map1("stop_gradient", x) if isinstance(x, Tensor) and x.type == "f32" else x

    def _op(self, node: torch.fx.Node, target: Any) -> None:
        name = target._schema.name.split("::")[1]
        call = self._bind(node, target)
        if self.derived and name.rstrip("_") in ("dropout", "feature_dropout", "alpha_dropout", "feature_alpha_dropout"):
            call["train"] = True
        if self.derived and name == "batch_norm":
            call["training"] = True
        if self.derived and name == "instance_norm":
            call["use_input_stats"] = True
        in_place = name.endswith("_") and not name.startswith("__")
        picked.learn(self, node, name, call)
        chosen = picked.take(self, node, target, name.rstrip("_"), call) if not self._constant(call) and picked.involved(self, node) or picked.by_mask(node, name, call) else None
        if chosen is not None:
            self._write_or_set(node, in_place, chosen)
        elif isinstance(node.kwargs.get("out"), torch.fx.Node):
            self._into(node, target, name, call)
        elif not node.users and not in_place:
            self.cells[node] = Cell(None)  # nobody reads it
        elif name in RANDOM:
            self._write_or_set(node, in_place, OPS[name.rstrip("_")](self.build, call))
        elif torch.Tag.nondeterministic_seeded in target.tags and name.rstrip("_") not in OPS and self._constant(call):
            raise Refused(f"random numbers by {name}")
        elif name in METADATA_ONLY:
            self.cells[node] = Cell(self._made_of_nothing(node, target, call))
        elif self._constant(call) and not self._counts(name, call) and not self._drops(name, call):
            self._fold(node, target, name, call, in_place)
        elif name == "batch_norm" and call["training"]:
            self.cells[node] = Cell(self._batch_norm(node, call))
        elif name == "instance_norm" and call["use_input_stats"] and call["running_mean"] is not None:
            self.cells[node] = Cell(self._instance_norm(node, call))
        else:
            self._general(node, name, call, in_place)

    def _into(self, node: torch.fx.Node, target: Any, name: str, call: Call) -> None:
        """With out=: what is made is written there."""
        place: Any = node.kwargs["out"]
        call.pop("out")
        made = self._made(node, name, call) if not self._constant(call) else self._wrap(
            target(*[self.concrete(self.read(a)) for a in node.args], out=self.concrete(self._blank(place))), node.meta.get("val"))
        self._write_to(node, self.cells[place], made)

    def _blank(self, node: torch.fx.Node) -> Const:
        val = node.meta["val"]
        return Const(np.zeros([d.at(self.build.batch) if isinstance(d, Size) else d for d in self.shape(node)],
                              dtype=type_name(val.dtype)), self.shape(node))

    def _bind(self, node: torch.fx.Node, target: Any) -> Call:
        call = Call(node=node, walk=self)
        arguments = target._schema.arguments
        for a in arguments:
            call[a.name] = a.default_value if a.has_default_value() else None
        for a, x in zip(arguments, node.args):
            call[a.name] = self.read(x)
        for k, x in node.kwargs.items():
            call[k] = self.read(x)
        if target._schema.name.split("::")[1].rstrip("_") in WHOLE:
            given = {a.name: x for a, x in zip(arguments, node.args)} | dict(node.kwargs)
            call.update({k: self._whole_of(x, call[k]) for k, x in given.items()})
        return call

    def _whole_of(self, x: Any, value: Any) -> Any:
        """With a row for every sample, where one that all share stands for them."""
        if isinstance(x, (list, tuple)):
            return type(x)(self._whole_of(y, v) for y, v in zip(x, value))
        val = x.meta.get("val") if isinstance(x, torch.fx.Node) else None
        if not isinstance(value, Tensor) or not isinstance(val, torch.Tensor) or value.rank != val.dim():
            return value
        return self.build.broadcast(value, self.shape(x))

    def _constant(self, call: Call) -> bool:
        def tensors(x: Any) -> list:
            return [x] if isinstance(x, (Tensor, Const, pairs.Pair, picked.Place)) else [y for z in x for y in tensors(z)] \
                if isinstance(x, (list, tuple)) else []

        return all(isinstance(t, Const) for x in call.values() for t in tensors(x))

    def _counts(self, name: str, call: Call) -> bool:
        """Arithmetic with the size of the batch: what it gives is known only when the batch is."""
        number = {"full": "fill_value", "scalar_tensor": "s"}.get(name)
        if number:
            return isinstance(call[number], Size)
        if name == "arange":
            return isinstance(call.get("start"), Size) or isinstance(call.get("step"), Size)
        if name == "repeat" and isinstance(call["self"], Const):  # not of the samples
            times = call["repeats"][len(call["repeats"]) - call["self"].rank:]
            return any(isinstance(n, Size) and k != 1 for n, k in zip(call["self"].shape, times)) and self._numbers(call["self"])
        if name in ("roll", "flip", "cat", "stack"):
            return any(self._numbers(x) for x in call.values())
        return name.rstrip("_") in ("add", "sub", "mul", "div", "rsub", "remainder") and any(isinstance(x, Size) for x in call.values())

    @staticmethod
    def _drops(name: str, call: Call) -> bool:
        """Dropout of a constant draws anew in every step."""
        return "dropout" in name and bool(call.get("train"))

    def _numbers(self, x: Any) -> bool:
        """Constants that differ from sample to sample, such as arange of the batch: put together as values of the graph."""
        if isinstance(x, (list, tuple)):
            return any(self._numbers(y) for y in x)
        return isinstance(x, Const) and any(isinstance(n, Size) and a.any() for n, a in
                                            ((n, np.diff(x.array.astype("float32"), axis=d)) for d, n in enumerate(x.shape[:x.array.ndim])))

    def _made_of_nothing(self, node: torch.fx.Node, target: Any, call: Call) -> Const:
        """zeros_like and its kind: only the shape of the argument counts."""
        shape = self.shape(node)
        like = torch.zeros((), dtype=node.meta["val"].dtype).expand(
            [d.at(self.build.batch) if isinstance(d, Size) else d for d in shape])
        name = target._schema.name.split("::")[1]
        if name in ("full_like", "new_full"):
            fill = call["fill_value"]
            like = torch.full_like(like, float(fill.array) if isinstance(fill, Const) else fill)
        elif name in ("ones_like", "new_ones"):
            like = torch.ones_like(like)
        return Const(array_of(like), shape)

    def _fold(self, node: torch.fx.Node, target: Any, name: str, call: Call, in_place: bool) -> None:
        args = [self._typed(a) for a in node.args]
        kwargs = {k: self._typed(v) for k, v in node.kwargs.items()}
        kwargs = {k: v for k, v in kwargs.items() if k not in ("device", "pin_memory", "layout")}
        with torch.no_grad():
            out = target(*args, **kwargs)
        if name in ("empty", "empty_strided"):
            out.zero_()  # whatever lay there would differ from sample to sample
        if not any(isinstance(n, Size) for x in call.values() if isinstance(x, Const) for n in x.shape):
            self._know(out, node.meta.get("val"))
        made = self._wrap(out, node.meta.get("val"))
        if in_place and self.cells[node.args[0]] in self.buffers:
            self._count(node, call["self"], made)
        elif in_place:
            self._write_or_set(node, True, made)
        elif name in VIEWS and isinstance(node.args[0], torch.fx.Node) and not isinstance(made, (list, tuple, pairs.Pair)):
            self._view(node, name, call, made)
        else:
            self.cells[node] = Cell(made)

    def _know(self, out: Any, val: Any) -> None:
        """Sizes that torch.export does not know of what is constant: how many places of a mask are true."""
        if isinstance(out, (list, tuple)):
            for o, v in zip(out, val):
                self._know(o, v)
        elif isinstance(out, torch.Tensor):
            self.known.update({str(d): n for d, n in zip(val.shape, out.shape) if picked.symbols(d) and str(d) not in self.known})

    def _typed(self, x: Any) -> Any:
        """For PyTorch itself, in the type that it has there: constants of 16 bits are kept in f32."""
        if isinstance(x, (list, tuple)):
            return type(x)(self._typed(y) for y in x)
        made = self.concrete(self.read(x))
        val = x.meta.get("val") if isinstance(x, torch.fx.Node) else None
        return made.to(val.dtype) if isinstance(made, torch.Tensor) and isinstance(val, torch.Tensor) else made

    def _count(self, node: torch.fx.Node, before: Const, after: Const) -> None:
        """A counter is no value of ours: it is brought up to date when weights go back."""
        if after.array.dtype.kind != "i" or after.array.ndim:
            raise Refused("a buffer of whole numbers that is not a counter changes")
        buffer = self.buffers[self.cells[node.args[0]]]
        self.counters[buffer] = self.counters.get(buffer, 0) + int(after.array - before.array)
        self.cells[node] = self.cells[node.args[0]]

    def _wrap(self, out: Any, val: Any) -> Any:
        if isinstance(out, torch.Tensor):
            return Const(array_of(out), tuple(self.dim(d) for d in val.shape))
        if isinstance(out, (list, tuple)):
            return [self._wrap(o, v) for o, v in zip(out, val)]
        return out

    def _general(self, node: torch.fx.Node, name: str, call: Call, in_place: bool) -> None:
        key = name[:-1] if in_place else name
        made = self._rounded(node, self._made(node, key, call))
        if in_place:
            self._write_or_set(node, True, made)
        elif name in VIEWS and isinstance(node.args[0], torch.fx.Node) and not isinstance(made, (list, tuple, pairs.Pair)):
            self._view(node, name, call, made)
        else:
            self.cells[node] = Cell(made)

    def _rounded(self, node: torch.fx.Node, made: Any) -> Any:
        """What a constant of 16 bits meets is rounded to them, as there."""
        val = node.meta.get("val")
        half = HALVES.get(val.dtype) if isinstance(val, torch.Tensor) else None
        if half is None or not isinstance(made, Tensor) or made.type != "f32":
            return made
        return self.build.cast(self.build.cast(made, half), "f32")

    def _made(self, node: torch.fx.Node, key: str, call: Call) -> Any:
        """By our own op, by those that PyTorch composes it of, or by PyTorch.  What an attempt left in the form is not written."""
        val = node.meta.get("val")
        complex_ = pairs.involved(list(call.values())) or (isinstance(val, torch.Tensor) and val.is_complex())
        try:
            if complex_ and (key in pairs.PAIRS or key in pairs.EACH):
                return pairs.take(self.build, key, call)
            return OPS[key](self.build, call) if key in OPS and not complex_ else self._composed(node, key, complex_)
        except (Refused, ValueError, KeyError, IndexError, TypeError, AssertionError) as why:
            if self.outside is None or complex_:
                raise
            try:
                return outside.take(self.build, self.outside, node, node.target, call, where(node))
            except Refused as other:
                raise Refused(f"{why.what if isinstance(why, Refused) else why}; {other.what}", where(node)) from None

    def _composed(self, node: torch.fx.Node, name: str, complex_: bool = False) -> Any:
        """An op without a counterpart, as PyTorch composes it of those that have one."""
        found = decomposed(node, node.target)
        if found is None:
            raise Refused(f"the op {name} of complex numbers has no counterpart" if complex_ else
                          f"the op {name} has no counterpart{self.way_out}")
        module, inputs = found
        for hole, given in zip([n for n in module.graph.nodes if n.op == "placeholder"], inputs):
            self.cells[hole] = self.cells[given]
        outer, self.outside = self.outside, None  # rather the whole op in PyTorch than a part of it, which may know no gradient
        try:
            return self.read(self.run(module.graph, module))
        finally:
            self.outside = outer

    def _view(self, node: torch.fx.Node, name: str, call: Call, made: Any) -> None:
        back = VIEWS[name]

        def again(base: Any) -> Any:
            fresh = Call(call, node=node, walk=self)
            fresh["self"] = base
            return pairs.take(self.build, name, fresh) if isinstance(base, pairs.Pair) else OPS[name](self.build, fresh)

        put = (lambda base, value: pairs.put(self.build, back, Call(call, node=node, walk=self), base, value)) if back else None
        self.cells[node] = Cell(made, self.cells[node.args[0]], again, put)

    def _write_or_set(self, node: torch.fx.Node, in_place: bool, made: Any) -> None:
        if not in_place:
            self.cells[node] = Cell(made)
            return
        self._write_to(node, self.cells[node.args[0]], made)

    def _write_to(self, node: torch.fx.Node, target: Cell, made: Any) -> None:
        base = target.root()
        if base in self.parameters:
            raise Refused(f"forward() writes into the parameter {self.parameters[base]}, which the optimizer alone may change")
        name = self.buffers.get(base, "")
        if name in self.states and target is base and isinstance(made, Tensor):
            made = self._moved(name, made)
        target.write(made)
        if name in self.states and target is not base:  # through a view: the whole of it has moved
            base.value = self._moved(name, self.build.whole(base.value))
        self.cells[node] = target

    def _moved(self, name: str, to: Tensor) -> Tensor:
        self.states[name] = self.build.move(self.states[name], to)
        return Tensor(self.states[name])

    # ---- batch norm, which moves its buffers ----

    def _batch_norm(self, node: torch.fx.Node, call: Call) -> Tensor:
        b = self.build
        y, mean, inv = b.batch_norm(b.tensor(call["input"]), call["weight"], call["bias"], call["eps"])
        names = [self.buffers.get(self.cells[n], "") for n in node.args[3:5] if n is not None]
        if len(names) == 2 and all(n in self.states for n in names):
            if call["momentum"] is None or (self.derived and not call["momentum"]):
                raise Refused("batch norm with momentum=None (a cumulative mean)")
            running = [self.states[n] for n in names]
            rows = product(y.shape[:1] + y.shape[2:])
            moved = b.batch_norm_stats(running, mean, inv, rows, call["eps"], call["momentum"])
            self.states.update(zip(names, moved))
        return y

    def _instance_norm(self, node: torch.fx.Node, call: Call) -> Tensor:
        """Its running statistics are the means of those of the samples."""
        b, x = self.build, self.build.tensor(call["input"])
        within = list(range(2, x.rank))
        found = b.reduce("mean", x, [0, *within], False), b.reduce("mean", b.variance(x, within, False, 1), [0], False)
        for n, to in zip(node.args[3:5], found):
            name = self.buffers.get(self.cells[n], "")
            if name in self.states:
                self.states[name] = b.move(self.states[name], to, call["momentum"], call["momentum"])
        made: Tensor = OPS["instance_norm"](b, call)
        return made


def declared(dtype: torch.dtype) -> str:
    """Our type for an input of the framework: ids are i32."""
    name = "f32" if dtype == torch.bool else TYPES.get(type_name(dtype))  # true is 1
    if name is None:
        raise Refused(f"an input of type {type_name(dtype)}")
    return "i32" if name == "i64" else name

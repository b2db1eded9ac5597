"""PyTorch's joint graph as a step, and a plan's actions as a joint graph again.

AOTAutograd gives forward and backward of a step as one functional graph with fake tensors on every node.  `read` writes down what
the planner needs; `arrange` builds the same computation in the plan's order, in which an op that is recomputed stands twice."""
from __future__ import annotations

import operator
from typing import Any, Callable, Iterable, Optional

import torch
from torch.fx import Graph, GraphModule
from torch.fx import Node as FxNode
from torch.utils._pytree import tree_leaves

from . import copies
from .problem import Action, Problem
from .step import Node, Step, early_nodes

STATE_BYTES = {"cpu": 5056, "cuda": 16}
MOVES_STATISTICS = ("_native_batch_norm_legit_functional", "_batch_norm_with_update_functional")


def target_name(n: FxNode) -> str:
    if isinstance(n.target, torch._ops.OpOverload):
        return n.target._schema.name.split("::")[-1]
    return getattr(n.target, "__name__", str(n.target))


def tensors(n: FxNode) -> list[torch.Tensor]:
    return [t for t in tree_leaves(n.meta.get("val")) if isinstance(t, torch.Tensor)]


def is_random(n: FxNode) -> bool:
    return isinstance(n.target, torch._ops.OpOverload) and torch.Tag.nondeterministic_seeded in n.target.tags and not draws_nothing(n)


def draws_nothing(n: FxNode) -> bool:
    """Attention and dropout with a probability of 0 are tagged as well."""
    assert isinstance(n.target, torch._ops.OpOverload)
    for i, a in enumerate(n.target._schema.arguments):
        if a.name in ("dropout_p", "p"):
            given = n.kwargs.get(a.name, n.args[i] if i < len(n.args) else a.default_value)
            if given == 0 and a.name == "dropout_p":
                return True
    return False


def has_symbols(joint: GraphModule) -> bool:
    """Whether a size is not a number: then there are no bytes to plan."""
    return any(isinstance(v, (torch.SymInt, torch.SymFloat, torch.SymBool)) or
               (isinstance(v, torch.Tensor) and any(isinstance(s, torch.SymInt) for s in v.shape))
               for n in joint.graph.nodes for v in tree_leaves(n.meta.get("val")))


def writes(n: FxNode) -> bool:
    """Whether an op writes into memory that exists."""
    return bool(getattr(getattr(n.target, "_schema", None), "is_mutable", False))


class Joint:
    """A joint graph with its halves: `outputs` and `gradients` are its results, None where there is none.  `updates` are the copies into
    inputs with which a forward half for Inductor ends (running statistics); `refused` are other ops that write."""

    def __init__(self, module: GraphModule, forward_count: int, updated: Iterable[int] = ()) -> None:
        self.module, self.forward_count = module, forward_count
        self.nodes = list(module.graph.nodes)
        results = tree_leaves(self.nodes[-1].args[0], is_leaf=lambda x: x is None)
        self.outputs, self.gradients = results[:forward_count], results[forward_count:]
        self.inputs = [n for n in self.nodes if n.op == "placeholder"]
        self.tangents = {n for n in self.inputs if n.name.startswith("tangents")}
        primals = [n for n in self.inputs if n not in self.tangents]
        self.updates = [n for n in self.nodes if self._is_update(n)]
        self.refused = [n for n in self.nodes if writes(n) and n not in self.updates]
        self.updated = [primals[i] for i in updated if i < len(primals)]
        self.updated += [n.args[0] for n in self.updates if n.args[0] not in self.updated]
        self.forward = self._ancestors([*self.outputs, *self.updates])
        for n in self.nodes:  # elements of a tuple belong to the half that makes it
            if n.target is operator.getitem and n.args[0] in self.forward:
                self.forward.add(n)

    def _is_update(self, n: FxNode) -> bool:
        """Into an input, read by nobody, and of the forward half."""
        return n.target is torch.ops.aten.copy_.default and n.args[0] in self.inputs and not n.users and \
            not self.tangents & self._ancestors([n])

    @staticmethod
    def _ancestors(roots: Iterable[Any]) -> set[FxNode]:
        seen: set[FxNode] = set()
        todo = [r for r in roots if isinstance(r, FxNode)]
        while todo:
            n = todo.pop()
            if n not in seen:
                seen.add(n)
                todo += n.all_input_nodes
        return seen


class Storages:
    """Which storages the tensors of a node lie in: fake tensors share them as real ones will, and so do views by their schema."""

    def __init__(self) -> None:
        self.numbers: dict[int, int] = {}
        self.of: dict[FxNode, list[tuple[int, int]]] = {}
        self.kept: list[Any] = []  # so that no address is used twice

    def add(self, n: FxNode) -> list[tuple[int, int]]:
        if n.op == "call_function" and self._is_view(n):
            base = n.args[0] if isinstance(n.args[0], FxNode) else n.all_input_nodes[0]
            if n.target is not operator.getitem and len(self.of.get(base, ())) == 1:
                self.of[n] = self.of[base]
                return self.of[n]
        found: dict[int, int] = {}
        for t in tensors(n):
            if t.layout != torch.strided:
                continue
            s = t.untyped_storage()
            self.kept.append(s)
            number = self.numbers.setdefault(s._cdata, len(self.numbers))
            found[number] = int(s.nbytes())
        self.of[n] = list(found.items())
        return self.of[n]

    @staticmethod
    def _is_view(n: FxNode) -> bool:
        return isinstance(n.target, torch._ops.OpOverload) and bool(n.args) and n.target.is_view


def read(joint: Joint, name: str, time_ns: Callable[[FxNode], float], workspace: Callable[[FxNode], int] = lambda n: 0) -> Step:
    """The step of a joint graph."""
    storages, nodes, known = Storages(), [], set()
    harmless = []
    for n in joint.nodes[:-1]:
        mine = storages.add(n)
        inputs = [a.name for a in n.all_input_nodes]
        if n.op == "placeholder":
            nodes.append(Node(n.name, "tangent" if n in joint.tangents else "input", storages=mine))
        elif n.op != "call_function":
            nodes.append(Node(n.name, "input", storages=mine))  # get_attr: a constant of the graph
        elif n in joint.updates:
            nodes.append(Node(n.name, "op", target_name(n), inputs, (), time_ns(n), again=False, early=True, writes=True))
        elif (not mine and n.users) or (mine and all(k in known for k, _ in mine)):
            nodes.append(Node(n.name, "view", target_name(n), inputs, mine))
        else:
            random = is_random(n)
            device = next((t.device.type for t in tensors(n)), "cpu")
            nodes.append(Node(n.name, "op", target_name(n), inputs, mine, time_ns(n), workspace(n), random=random,
                              state_bytes=STATE_BYTES.get(device, 5056) if random else 0, forward=n in joint.forward))
            if target_name(n) in MOVES_STATISTICS:
                harmless.append(n.name)
        known |= {k for k, _ in mine}
    results = [[r.name for r in half if isinstance(r, FxNode)] for half in (joint.outputs, joint.gradients)]
    step = Step(name, nodes, *results)
    early_nodes(step, [n.name for n in joint.updated], harmless)
    return step


# ---- what stands in the arranged graph beside PyTorch's own ops ----


draws: Any = None  # while a step is captured (graphs.py): what stands for the two functions below


def random_state(device: str) -> torch.Tensor:
    """The state of a device's generator, to draw the same again."""
    return state_of(device) if draws is None else draws.state(device)


def draw_again(state: torch.Tensor, device: str, target: Any, *args: Any, **kwargs: Any) -> Any:
    """A random op with the numbers that it drew before; the generator is left as it was."""
    return (drawn_again if draws is None else draws.again)(state, device, target, *args, **kwargs)


def state_of(device: str) -> torch.Tensor:
    if device.startswith("cuda"):
        return torch.cuda.get_rng_state(device)
    return torch.get_rng_state()


def drawn_again(state: torch.Tensor, device: str, target: Any, *args: Any, **kwargs: Any) -> Any:
    before = state_of(device)
    put = (lambda s: torch.cuda.set_rng_state(s, device)) if device.startswith("cuda") else torch.set_rng_state
    put(state)
    try:
        return target(*args, **kwargs)
    finally:
        put(before)


class Arranged:
    """The graph that a plan describes.  `saved`: what the backward half gets from the forward half, in the graph's order."""

    def __init__(self, joint: Joint, problem: Problem, actions: list[Action]) -> None:
        self.joint, self.problem = joint, problem
        self.graph = Graph()
        self.by_name = {n.name: n for n in joint.nodes}
        self.here: dict[int, dict[str, FxNode]] = {}  # buffer to what was made of it: roots and views
        self.now: dict[int, int] = {}  # value to the buffer that has it
        self.inputs: dict[str, FxNode] = {}
        self.plain: dict[str, FxNode] = {}  # nodes without bytes, and views of nothing
        self.joined: dict[Any, FxNode] = {}  # what is computed inside kernels, by what it is computed from
        self.root: dict[int, str] = {}  # value to the node that it is whole in
        self.first: dict[str, FxNode] = {}  # elements of tuples as they were made first
        self.before: set[FxNode] = set()
        self.returned: dict[str, FxNode] = {}
        self.leaving: dict[int, FxNode] = {}  # buffer on the host to what is copied there
        self.recomputed = self.copied_bytes = 0
        for n in joint.nodes:
            if n.op in ("placeholder", "get_attr"):
                self.inputs[n.name] = self._copy(n, n.name, lambda a: a)
        handlers = {"run": self._run, "state": self._state, "outside": self._outside, "copy": self._start_copy, "wait": self._wait,
                    "held": lambda _: None}
        for action in actions:
            handlers[action.kind](action)
        out = joint.nodes[-1]
        results: list[Any] = [self.returned[r.name] if isinstance(r, FxNode) else r for r in joint.outputs]
        results += [self._finished(r) if isinstance(r, FxNode) else r for r in joint.gradients]
        self.graph.output(tuple(results))
        last = next(iter(reversed(self.graph.nodes)))
        last.meta = dict(out.meta)
        self.module = GraphModule(joint.module, self.graph)
        self.saved = self._saved(last)

    def _copy(self, n: FxNode, name: str, given: Callable[[FxNode], Any]) -> FxNode:
        if n.op in ("placeholder", "get_attr"):
            made = self.graph.node_copy(n, given)
        else:
            made = self.graph.create_node("call_function", n.target, torch.fx.map_arg(n.args, given),
                                          torch.fx.map_arg(n.kwargs, given), name=name)
        made.meta = dict(n.meta)
        return made

    def _value_of(self, n: FxNode) -> Optional[int]:
        node = self.problem.step.by_name[n.name]
        return self.problem.number[node.storages[0][0]] if node.storages else None

    def _get(self, n: FxNode, buffers: dict[int, int]) -> FxNode:
        """A node as it is now: a root from its buffer, a view of it made when it is first asked for."""
        if n.name in self.inputs:
            return self.inputs[n.name]
        if self.problem.step.by_name[n.name].kind == "joined":
            return self._get_joined(n, buffers)
        value = self._value_of(n)
        box = self.plain if value is None else self.here.setdefault(buffers.get(value, self.now.get(value, -1 - value)), {})
        if n.name not in box:
            made = self._copy(n, n.name if n.name not in self.used() else f"{n.name}_again", lambda a: self._get(a, buffers))
            box[n.name] = made
        return box[n.name]

    def _get_joined(self, n: FxNode, buffers: dict[int, int]) -> FxNode:
        values = self.problem.reads(self.problem.step.by_name[n.name])
        key = (n.name, *(buffers.get(v, self.now.get(v, -1)) for v in values))
        if key not in self.joined:
            name = n.name if n.name not in self.used() else f"{n.name}_again"
            self.joined[key] = self._copy(n, name, lambda a: self._get(a, buffers))
        return self.joined[key]

    def used(self) -> Any:
        return self.graph._graph_namespace._used_names

    def _finished(self, n: FxNode) -> FxNode:
        return self._get(n, {})

    # ---- actions ----

    def _state(self, a: Action) -> None:
        assert a.node is not None
        n = self.by_name[a.node.name]
        device = str(tensors(n)[0].device)
        made = self.graph.call_function(random_state, (device,))
        made.meta = {"val": _fake_bytes(joint_mode(self.joint), a.node.state_bytes)}
        for value, buffer in a.makes.items():
            self.here[buffer] = {"": made}
            self.now[value] = buffer

    def _run(self, a: Action) -> None:
        assert a.node is not None
        n = self.by_name[a.node.name]
        given = lambda x: self._get(x, a.reads)  # noqa: E731
        if not a.again:
            made = self._copy(n, n.name, given)
        elif a.node.random:
            state = self.here[a.reads[self.problem.states[a.node.name]]][""]
            device = str(tensors(n)[0].device)
            made = self.graph.call_function(draw_again, (state, device, n.target, *torch.fx.map_arg(n.args, given)),
                                            torch.fx.map_arg(n.kwargs, given))
            made.meta = dict(n.meta)
        else:
            made = self._again(n, given)
        self.recomputed += a.again
        for value, buffer in a.makes.items():
            self.here[buffer] = {}
            self.now[value] = buffer
        if isinstance(n.meta.get("val"), (tuple, list)):
            self._elements(n, made)
        else:
            self._keep(n, made)

    def _elements(self, n: FxNode, made: FxNode) -> None:
        """Elements are taken at once, so that what nothing reads is freed with the tuple."""
        for u in n.users:
            if u.target is not operator.getitem:
                continue
            one = self.first.get(u.name)
            if one is None or int(u.args[1]) < len(made.meta["val"]):  # type: ignore[arg-type]
                one = self.graph.call_function(operator.getitem, (made, u.args[1]))
                one.meta = dict(u.meta)
            self.first.setdefault(u.name, one)  # statistics that were moved are not moved again
            self._keep(u, one)

    def _keep(self, n: FxNode, made: FxNode) -> None:
        value = self._value_of(n)
        if value is None:
            self.plain[n.name] = made
        else:
            self.here[self.now[value]][n.name] = made
            self.root.setdefault(value, n.name)

    def _again(self, n: FxNode, given: Callable[[FxNode], Any]) -> FxNode:
        """A batch norm computed again neither reads nor moves statistics: the forward half has moved them."""
        name, aten = target_name(n), torch.ops.aten
        if name == "_native_batch_norm_legit_functional":
            x, w, b, _, _, training, momentum, eps = n.args
            made = self.graph.call_function(aten._native_batch_norm_legit.no_stats,
                                            (given(x), w and given(w), b and given(b), training, momentum, eps))  # type: ignore
        elif name == "_batch_norm_with_update_functional":
            x, w, b, mean, variance, momentum, eps = n.args
            spare = [self._zeros(v) for v in (mean, variance)]
            made = self.graph.call_function(n.target, (given(x), w and given(w), b and given(b), *spare, momentum, eps))  # type: ignore
        else:
            return self._copy(n, f"{n.name}_again", given)
        made.meta = {**n.meta, "val": n.meta["val"][:3] if name == MOVES_STATISTICS[0] else n.meta["val"]}
        return made

    def _zeros(self, like: Any) -> FxNode:
        v = like.meta["val"]
        made = self.graph.call_function(torch.ops.aten.zeros.default, (list(v.shape),), {"dtype": v.dtype, "device": v.device})
        made.meta = {"val": v}
        return made

    def _outside(self, a: Action) -> None:
        """Here the forward half ends: views are made anew after it, from what is saved."""
        for value, buffer in a.makes.items():
            self.now[value] = buffer
        for name in self.problem.step.outputs:
            self._finished(self.by_name[name])
        self.before = set(self.graph.nodes)
        self.returned = {name: self._finished(self.by_name[name]) for name in self.problem.step.outputs}
        self.joined.clear()
        for box in [*self.here.values(), self.plain]:
            for name in list(box):
                if name and self.problem.step.by_name[name].kind == "view" and not self._is_root(name):
                    del box[name]

    def _is_root(self, name: str) -> bool:
        n = self.by_name[name]
        return n.target is operator.getitem and self.problem.step.by_name[n.args[0].name].kind == "op"  # type: ignore[union-attr]

    def _start_copy(self, a: Action) -> None:
        """To the host or back; what arrives may be read after its wait."""
        name = self.root[a.value]
        source = self.here[a.source][name]
        like = self.by_name[name].meta["val"]
        args = (source,) if a.out else (source, str(like.device))
        made = self.graph.call_function(copies.out if a.out else copies.back, args)
        made.meta = {"val": _fake_like(joint_mode(self.joint), like, "cpu") if a.out else like}
        self.copied_bytes += like.untyped_storage().nbytes() if a.out else 0
        self.here[a.target] = {name: made}
        self.now[a.value] = a.target if not a.out else self.now[a.value]
        if a.out:
            self.leaving[a.target] = source

    def _wait(self, a: Action) -> None:
        """For a copy back, or for one that went out: what it was copied from is held until here."""
        box = self.here[a.target]
        for name, made in list(box.items()):
            if made.target is copies.back:
                box[name] = self._done(copies.arrived, (made,), made)
            elif made.target is copies.out:
                box[name] = self._done(copies.left, (self.leaving.pop(a.target), made), made)

    def _done(self, function: Callable[..., Any], given: tuple[FxNode, ...], like: FxNode) -> FxNode:
        made = self.graph.call_function(function, given)
        made.meta = dict(like.meta)
        return made

    def _saved(self, last: FxNode) -> list[FxNode]:
        """Nodes of the forward half that the backward half reads."""
        found = []
        for n in self.graph.nodes:
            if n not in self.before:
                break
            if any(u not in self.before and u is not last for u in n.users) or n in self._early_gradients(last):
                found.append(n)
        return found

    def _early_gradients(self, last: FxNode) -> set[FxNode]:
        """Gradients that the forward half has made already."""
        results = tree_leaves(last.args[0], is_leaf=lambda x: x is None)[self.joint.forward_count:]
        return {r for r in results if isinstance(r, FxNode) and r in self.before}


def joint_mode(joint: Joint) -> Any:
    for n in joint.nodes:
        for t in tensors(n):
            mode = getattr(t, "fake_mode", None)
            if mode is not None:
                return mode
    return None


def _fake_like(mode: Any, like: Any, device: str) -> Any:
    if mode is None:
        return torch.empty_strided(like.shape, like.stride(), dtype=like.dtype, device=device)
    with mode:
        return torch.empty_strided(like.shape, like.stride(), dtype=like.dtype, device=device)


def _fake_bytes(mode: Any, size: int) -> Any:
    if mode is None:
        return torch.empty(size, dtype=torch.uint8)
    with mode:
        return torch.empty(size, dtype=torch.uint8)

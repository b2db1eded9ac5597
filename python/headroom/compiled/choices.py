"""What PyTorch's own partitioner would keep, next to the plan: Inductor gets the faster of those that fit.

torch.compile chooses what is kept by a minimum cut, and for an `activation_memory_budget` below 1 by a knapsack.  Without a budget its
choice is taken as it is.  With one it is a candidate at several of its own budgets: what a pair of halves takes, and for how long it
runs, is forecast here for all candidates by one rule, so that the plan is never taken where PyTorch's own choice is the faster one."""
from __future__ import annotations

from types import SimpleNamespace
from typing import Any, Callable, Iterable, Optional

from torch.fx import Graph, GraphModule
from torch.fx import Node as FxNode
from torch.utils._pytree import tree_leaves

from .fused import Kernels, size_of, takes_joined
from .graph import Storages, tensors

TRIES = 2  # shares of a budget that are tried after the first: some seconds each for a large model
ENOUGH = 1.02  # of the time of PyTorch's own choice without a budget, which no other of its choices is faster than


class Forecast:
    """Of two halves: `bytes` at the peak, with parameters and inputs, `time_ns`, and how many ops stand in both of them (`again`)."""

    def __init__(self, peak: int, time_ns: float, again: int) -> None:
        self.bytes, self.time_ns, self.again = peak, time_ns, again


class Candidate:
    """Two halves.  `share` is PyTorch's activation_memory_budget, None if they are the plan's."""

    def __init__(self, halves: tuple[GraphModule, GraphModule], share: Optional[float], found: Forecast) -> None:
        self.halves, self.share, self.found = halves, share, found


def results_of(module: Any) -> list[Any]:
    last = next(iter(reversed(module.graph.nodes)))
    return list(tree_leaves(last.args[0], is_leaf=lambda x: x is None))


def forecast(halves: tuple[Any, Any], forward_count: int, time_ns: Callable[[FxNode], float], moved_ns: Callable[[FxNode, int], float],
             workspace: Callable[[FxNode], int] = lambda n: 0) -> Forecast:
    """Of two halves as Inductor runs them, in the order in which they stand."""
    forward, backward = halves
    storages = Storages()
    lasting: dict[int, int] = {}
    for n in forward.graph.nodes:
        if n.op in ("placeholder", "get_attr"):
            lasting.update(storages.add(n))
    kept = [r for r in results_of(forward) if isinstance(r, FxNode)]
    first = _Half(forward, kept, lasting, storages, (time_ns, moved_ns, workspace))
    for r in results_of(forward)[:forward_count]:  # the user holds what was returned
        lasting.update(storages.of[r] if isinstance(r, FxNode) else ())
    second = _Half(backward, [r for r in results_of(backward) if isinstance(r, FxNode)], lasting, storages, (time_ns, moved_ns, workspace))
    return Forecast(max(first.peak + first.lasting, second.peak + second.lasting), first.time_ns + second.time_ns,
                    len(first.ran & second.ran))


class _Half:
    def __init__(self, module: Any, results: list[FxNode], lasting: dict[int, int], storages: Storages,
                 clocks: tuple[Any, Any, Any]) -> None:
        self.lasting, self.time_ns, self.peak = sum(lasting.values()), 0.0, 0
        self.ran: set[str] = set()
        nodes = [n for n in module.graph.nodes if n.op != "output"]
        kernels = Kernels(SimpleNamespace(nodes=[*nodes, None], outputs=results, gradients=[]))  # type: ignore[arg-type]
        mine = {n: storages.add(n) for n in nodes}
        ends = self._ends(nodes, results, kernels, mine)
        live: dict[int, int] = {}
        for n in nodes:  # what is handed over is there from the beginning
            if n.op == "placeholder":
                live.update({k: size for k, size in mine[n] if k not in lasting})
        now = self.peak = sum(live.values())
        for i, n in enumerate(nodes):
            if n.op == "call_function" and n not in kernels.joined:
                new = {k: size for k, size in mine[n] if k not in live and k not in lasting}
                live.update(new)
                now += sum(new.values())
                self.peak = max(self.peak, now + self._run(n, kernels, bool(new) or not mine[n], clocks))
            for k in ends.get(i, ()):
                now -= live.pop(k, 0)

    def _run(self, n: FxNode, kernels: Kernels, runs: bool, clocks: tuple[Any, Any, Any]) -> int:
        """Adds the time of a node; its workspace."""
        time_ns, moved_ns, workspace = clocks
        if not runs or not tensors(n):
            return 0
        self.ran.add(n.name)
        if not takes_joined(n):
            self.time_ns += time_ns(n)
            return int(workspace(n))
        self.time_ns += moved_ns(n, size_of(n) + sum(map(size_of, kernels.leaves[n])))
        return 0

    @staticmethod
    def _ends(nodes: list[FxNode], results: Iterable[FxNode], kernels: Kernels, mine: dict[FxNode, Any]) -> dict[int, list[int]]:
        """After which node a storage is free."""
        last: dict[int, int] = {}
        for i, n in enumerate(nodes):
            if n not in kernels.joined:
                for k, _ in [*mine[n], *(one for a in kernels.leaves[n] for one in mine[a])]:
                    last[k] = i
        for r in results:
            for k, _ in mine.get(r, ()):
                last.pop(k, None)
        ends: dict[int, list[int]] = {}
        for k, i in last.items():
            ends.setdefault(i, []).append(k)
        return ends


def own(joint_module: GraphModule, joint_inputs: Any, share: float, rest: dict[str, Any]) -> tuple[GraphModule, GraphModule]:
    """The halves of PyTorch's own partitioner; the joint graph stays as it is."""
    from torch._functorch import config, partitioners

    graph, values = Graph(), {}  # type: tuple[Graph, dict[FxNode, FxNode]]
    results = graph.graph_copy(joint_module.graph, values)
    graph.output(results).meta = dict(next(iter(reversed(joint_module.graph.nodes))).meta)
    with config.patch(activation_memory_budget=share):
        return partitioners.min_cut_rematerialization_partition(GraphModule(joint_module, graph), joint_inputs, compiler="inductor", **rest)


def choose(plan: Candidate, room: Optional[int], of: Callable[[float], Candidate]) -> tuple[Candidate, float]:
    """PyTorch's own choice where it fits in `room` bytes; else the plan if it is nearly as fast as that; else the fastest, by forecast,
    of the plan and of what `of` makes of some shares: half of what is not known yet each time, upwards after one that fits.
    With how much longer it takes than PyTorch's own."""
    whole = of(1.0)
    if room is None or whole.found.bytes <= room:
        return whole, 1.0
    best, low, high = plan, 0.0, 1.0
    for _ in range(TRIES if plan.found.time_ns > ENOUGH * whole.found.time_ns else 0):
        share = (low + high) / 2
        one = of(share)
        if one.found.bytes <= room:
            low, best = share, min(best, one, key=lambda c: c.found.time_ns)
        else:
            high = share
    return best, best.found.time_ns / max(1.0, whole.found.time_ns)

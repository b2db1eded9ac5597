"""A joint graph as Inductor runs it: a chain of element-wise ops is one kernel, and what lies between them is no memory.

A value is what a kernel writes: results of products, convolutions and reductions, what these need written before them, and what the
graph returns.  Everything else is `joined`: it is computed inside the kernel of each value that reads it, again in the backward half
where that reads it too, from values that are there."""
from __future__ import annotations

from typing import Any, Callable

import torch
from torch.fx import Node as FxNode

from .graph import STATE_BYTES, Joint, Storages, is_random, target_name, tensors
from .step import Node, Step, early_nodes

JOINS = {"convert_element_type", "_to_copy", "full", "full_like", "iota", "arange", "scalar_tensor", "zeros", "ones", "zeros_like",
         "ones_like", "inductor_random", "inductor_lookup_seed", "where", "clone", "expand", "constant_pad_nd", "broadcast_in_dim",
         "empty_like"}
PICKS = {"gather", "index", "_unsafe_index"}
REDUCES = {"sum", "mean", "var", "var_mean", "amax", "amin", "prod", "any", "all", "argmax", "argmin"}
MOST, MOST_SHARED = 8, 4  # values that are read for one that is joined, at most: as Inductor has it, fewer if several kernels read it


def joins(n: FxNode) -> bool:
    """Element-wise, as Inductor sees it."""
    if n.op != "call_function" or not isinstance(n.target, torch._ops.OpOverload) or is_random(n) or n.target._schema.is_mutable:
        return False
    return target_name(n) in JOINS or torch.Tag.pointwise in n.target.tags


def takes_joined(n: FxNode) -> bool:
    """Whether what an op reads may be computed inside its own kernel."""
    return joins(n) or target_name(n) in REDUCES or target_name(n) in PICKS


def size_of(n: FxNode) -> int:
    return sum(t.numel() * t.element_size() for t in tensors(n))


class Kernels:
    """What is joined, and what each node reads of what is written: `leaves`."""

    def __init__(self, joint: Joint) -> None:
        self.joint = joint
        self.results = {r for r in [*joint.outputs, *joint.gradients] if isinstance(r, FxNode)}
        self.joined: set[FxNode] = set()
        self.leaves: dict[FxNode, list[FxNode]] = {}
        for n in joint.nodes[:-1]:
            self._add(n)

    @staticmethod
    def is_view(n: FxNode) -> bool:
        return n.op == "call_function" and isinstance(n.target, torch._ops.OpOverload) and n.target.is_view and bool(n.all_input_nodes)

    def _add(self, n: FxNode) -> None:
        found: dict[FxNode, None] = {}
        for a in n.all_input_nodes:
            found.update(dict.fromkeys(self.leaves[a] if a in self.joined else [a]))
        self.leaves[n] = list(found)
        if self.is_view(n) and n.all_input_nodes[0] in self.joined:
            self.joined.add(n)
        elif joins(n) and not self._is_written(n):
            self.joined.add(n)

    def _is_written(self, n: FxNode) -> bool:
        readers = self.readers(n)
        if readers is None or any(not takes_joined(r) for r in readers):
            return True
        return len(self.leaves[n]) > (MOST if len(readers) == 1 else MOST_SHARED)

    def readers(self, n: FxNode) -> Any:
        """Ops that read it, through views; None when it is a result."""
        found: set[FxNode] = set()
        todo = [n]
        while todo:
            one = todo.pop()
            if one in self.results:
                return None
            for u in one.users:
                if self.is_view(u):
                    todo.append(u)
                elif u.op != "output":
                    found.add(u)
        return found


def read(joint: Joint, name: str, time_ns: Callable[[FxNode], float], moved_ns: Callable[[FxNode, int], float],
         workspace: Callable[[FxNode], int] = lambda n: 0) -> Step:
    """The step of a joint graph in kernels.  `time_ns` is of ops that are called, `moved_ns` of kernels that move so many bytes."""
    kernels, storages, nodes, known = Kernels(joint), Storages(), [], set()
    for n in joint.nodes[:-1]:
        mine = storages.add(n)
        inputs = [a.name for a in kernels.leaves[n]]
        if n.op == "placeholder":
            nodes.append(Node(n.name, "tangent" if n in joint.tangents else "input", storages=mine))
        elif n.op != "call_function":
            nodes.append(Node(n.name, "input", storages=mine))
        elif n in kernels.joined:
            nodes.append(Node(n.name, "joined", target_name(n), inputs))
            continue
        elif n in joint.updates:
            nodes.append(Node(n.name, "op", target_name(n), inputs, (), moved_ns(n, 0), again=False, early=True, writes=True))
        elif (not mine and n.users) or (mine and all(k in known for k, _ in mine)):
            nodes.append(Node(n.name, "view", target_name(n), inputs, mine))
        else:
            called = not takes_joined(n)
            moved = size_of(n) + sum(map(size_of, kernels.leaves[n]))
            random = is_random(n)
            device = next((t.device.type for t in tensors(n)), "cpu")
            nodes.append(Node(n.name, "op", target_name(n), inputs, mine, time_ns(n) if called else moved_ns(n, moved),
                              workspace(n) if called else 0, random=random, state_bytes=STATE_BYTES.get(device, 5056) if random else 0,
                              again=not random, forward=n in joint.forward))
        known |= {k for k, _ in mine}
    step = Step(name, nodes, *[[r.name for r in half if isinstance(r, FxNode)] for half in (joint.outputs, joint.gradients)])
    early_nodes(step, [n.name for n in joint.updated])
    return step

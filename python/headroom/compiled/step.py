"""One training step of another system as plain data: what PyTorch's joint graph is to the planner.

A node computes something (kind "op"), gives another name to memory that exists ("view": reshapes, elements of tuples), is computed
inside the kernels that read it ("joined"), or is there before the step ("input") or between its two halves ("tangent": the gradients
of what the forward half returned).  A value is a storage, not a tensor, so views have no bytes.  Nothing here needs PyTorch: a step
can be written to JSON, read and planned anywhere."""
from __future__ import annotations

from typing import Any, Iterable, Optional


class Node:
    """A node of the step.  `storages` are (number, bytes) pairs of what it is in; `random`: draws numbers; `state_bytes`: of the
    generator's state; `again`: whether it may be recomputed; `early`: must run before the forward half returns, because it
    reads what is updated then; `writes`: is that update, after everything early that stands before it."""

    def __init__(self, name: str, kind: str, target: str = "", inputs: Iterable[str] = (), storages: Iterable[tuple[int, int]] = (),
                 time_ns: float = 0.0, workspace_bytes: int = 0, random: bool = False, state_bytes: int = 0, again: bool = True,
                 early: bool = False, forward: bool = True, writes: bool = False) -> None:
        self.name, self.kind, self.target, self.inputs = name, kind, target, list(inputs)
        self.storages = [(int(k), int(b)) for k, b in storages]
        self.time_ns, self.workspace_bytes = float(time_ns), int(workspace_bytes)
        self.random, self.state_bytes, self.again, self.early, self.forward = random, state_bytes, again, early, forward
        self.writes = writes

    def __repr__(self) -> str:
        return f"<{self.kind} {self.name}: {self.target}({', '.join(self.inputs)})>"


class Step:
    """Nodes in a valid order; `outputs` of the forward half and `gradients` of the backward half, by the names of nodes."""

    def __init__(self, name: str, nodes: Iterable[Node], outputs: Iterable[str], gradients: Iterable[str]) -> None:
        self.name, self.nodes = name, list(nodes)
        self.outputs, self.gradients = list(outputs), list(gradients)
        self.by_name = {n.name: n for n in self.nodes}

    def bytes_of(self, kind: str) -> int:
        """The bytes of all storages of inputs or tangents."""
        return sum({k: b for n in self.nodes if n.kind == kind for k, b in n.storages}.values())

    def to_json(self) -> dict[str, Any]:
        plain = Node("", "op")
        nodes = [{k: v for k, v in vars(n).items() if k in ("name", "kind") or v != getattr(plain, k)} for n in self.nodes]
        return {"headroom": "step", "version": 1, "name": self.name, "nodes": nodes, "outputs": self.outputs, "gradients": self.gradients}

    @classmethod
    def from_json(cls, found: dict[str, Any]) -> "Step":
        if found.get("headroom") != "step" or found.get("version") != 1:
            raise ValueError("this is not a step of version 1")
        return cls(found["name"], [Node(**n) for n in found["nodes"]], found["outputs"], found["gradients"])


def early_nodes(step: Step, updated: Iterable[str], harmless: Optional[Iterable[str]] = None) -> None:
    """Marks the ops that read inputs which the forward half's end updates: they run before it, and again only if what they read
    then does not matter (`harmless`: batch norms, which do not use the statistics that they move)."""
    free = set(harmless or ())
    touched = {k for name in updated for k, _ in step.by_name[name].storages}
    for n in step.nodes:
        if n.kind == "op" and any(k in touched for a in n.inputs for k, _ in step.by_name[a].storages):
            n.early, n.again = True, n.again and n.name in free

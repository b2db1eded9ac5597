"""A step as the planner's problem (docs/problem-format.md), and a plan's actions in terms of the step.

The step has two halves with the user's code between them: an op `outside` reads what the forward half returns and makes the
tangents.  It runs once, so every plan has it once, and what comes before it is the forward half.  Random ops run in the step's
order, held by values of no bytes; an op recomputed draws the same numbers from a kept state of the generator.

What the forward half returns is held by others until the step ends, so ops that make it run once.  Batch norms, whose moved statistics
are such results, may run again without moving them: the statistics of all are one value (HELD) that lives from the beginning to the end."""
from __future__ import annotations

import ctypes as c
import json
from typing import Any, Optional

from .step import Node, Step

OUTSIDE = "outside"
HELD = "held"


class Problem:
    """The problem's text, and what its ops and values are in the step: `ops[i]` is a Node, "state:NAME", OUTSIDE or HELD."""

    def __init__(self, step: Step, outside_results: bool = False, memory: Optional[dict[str, float]] = None, align: int = 64,
                 page: int = 0) -> None:
        self.step, self.page = step, page  # page: memory comes in blocks of whole pages, but for small ones
        self.values: list[dict[str, Any]] = []
        self.ops: list[Any] = []
        self.outside_results = outside_results  # results lie outside of the arena: no bytes in the problem
        self.number: dict[int, int] = {}  # storage to value
        self.states: dict[str, int] = {}  # random op to the value of its state
        self.written: list[dict[str, Any]] = []
        self.results = {k for name in [*step.outputs, *step.gradients] for k, _ in step.by_name[name].storages}
        self.returned = {k for name in step.outputs for k, _ in step.by_name[name].storages}
        self.held: Optional[int] = None  # a value, until the first op has read it
        self.result_bytes = 0
        self.last_draw: Optional[int] = None
        self.early: list[int] = []
        self._inputs()
        self._hold()
        self._ops()
        top: dict[str, Any] = {"headroom": "problem", "version": 1, "name": step.name, "align": align, **(memory or {})}
        self.text = json.dumps({**top, "values": self.values, "ops": self.written}, separators=(",", ":"))

    def _value(self, name: str, size: int, storage: Optional[int] = None, role: str = "made") -> int:
        size = self._taken(size)
        value: dict[str, Any] = {"name": name, "bytes": size}
        if role != "made":
            value["role"] = role
        elif storage in self.results:
            value["result"] = True
            if self.outside_results:
                self.result_bytes += size
                value["bytes"] = 0
        self.values.append(value)
        if storage is not None:
            self.number[storage] = len(self.values) - 1
        return len(self.values) - 1

    def _taken(self, size: int) -> int:
        """What a block of so many bytes takes."""
        if not self.page or not size:
            return size
        unit = self.page if size > self.page // 2 else 512
        return -(-size // unit) * unit

    @property
    def input_bytes(self) -> int:
        return sum(v["bytes"] for v in self.values if v.get("role") == "persistent")

    def _op(self, what: Any, name: str, kind: str, ins: list[int], outs: list[int], **rest: Any) -> None:
        self.ops.append(what)
        self.written.append({"name": name, "kind": kind, "in": ins, "out": outs, **rest})

    def _inputs(self) -> None:
        for n in self.step.nodes:
            if n.kind == "input":
                for k, size in n.storages:
                    if k not in self.number:
                        self._value(n.name, size, k, "persistent")

    def _apart(self, n: Node) -> set[int]:
        """Storages of an op that the forward half returns next to others that it makes: moved statistics."""
        mine = {k for k, _ in n.storages} & self.returned if n.kind == "op" and n.again else set()
        return mine if mine and n.storages[0][0] not in mine else set()

    def _hold(self) -> None:
        each = {k: self._taken(size) for n in self.step.nodes for k, size in n.storages if k in self._apart(n)}
        if each and not self.outside_results:
            self.held = self._value("statistics", 0)
            self.values[self.held].update(bytes=sum(each.values()), result=True)
            self._op(HELD, HELD, HELD, [], [self.held], phase="forward", once=True, time_ns=0)

    def _outside(self) -> None:
        """The user's code between the halves."""
        ins = {self.number[k] for name in self.step.outputs for k, _ in self.step.by_name[name].storages}
        ins |= set(self.early) | ({self.last_draw} if self.last_draw is not None else set())
        outs = [self._value("between the halves", 0)]
        for n in self.step.nodes:
            if n.kind == "tangent":
                outs += [self._value(n.name, size, k) for k, size in n.storages if k not in self.number]
        if self.last_draw is not None:
            self.last_draw = outs[0]
        self._op(OUTSIDE, OUTSIDE, OUTSIDE, sorted(ins), outs, phase="backward", once=True, time_ns=0)

    def _ops(self) -> None:
        writes = [n for n in self.step.nodes if n.writes]
        made = {k for name in [*self.step.outputs, *(a for n in writes for a in n.inputs)] for k, _ in self.step.by_name[name].storages}
        early = {n.name for n in self.step.nodes if n.early or (n.random and n.forward)}
        waiting = {n.name for n in self.step.nodes if n.kind == "op" and not n.writes and
                   (n.name in early or any(k in made for k, _ in n.storages))}
        between = False
        for n in self.step.nodes:
            if not between and not waiting:
                self._end_forward(writes)
                between = True
            if n.kind == "op" and not n.writes:
                self._node(n)
                waiting.discard(n.name)
        if not between:
            self._end_forward(writes)

    def _end_forward(self, writes: list[Node]) -> None:
        """Updates of inputs stand where the forward half ends, wherever the graph has them."""
        for n in writes:
            self._node(n)
        self._outside()

    def reads(self, n: Node) -> list[int]:
        """Values that an op reads, in the order of its operands in the plan."""
        ins: list[int] = []
        for a in n.inputs:
            for k, _ in self.step.by_name[a].storages:
                if k in self.number and self.number[k] not in ins:
                    ins.append(self.number[k])
        return ins

    def _node(self, n: Node) -> None:
        phase = "forward" if n.forward else "backward"
        ins, apart = self.reads(n), self._apart(n)
        if self.held is not None:
            ins.append(self.held)
            self.held = None
        if n.writes:
            ins += [k for k in self.early if k not in ins]
        if n.random:
            state = self._value(f"{n.name}: state", n.state_bytes)
            self.states[n.name] = state
            before = [] if self.last_draw is None else [self.last_draw]
            self._op(f"state:{n.name}", f"{n.name}: state", "random", before, [state], phase=phase, once=True, time_ns=0)
            ins.append(state)
        label = n.name if len([1 for k, _ in n.storages if k not in self.number]) == 1 else None
        outs = [self._value(label or f"{n.name}.{i}", size, k) for i, (k, size) in enumerate(n.storages) if k not in self.number]
        for k in apart:
            self.values[self.number[k]]["bytes"] = 0
        if n.random or n.early or not outs:
            outs.append(self._value(f"{n.name}: done", 0))
            if n.random:
                self.last_draw = outs[-1]
            elif n.early:
                self.early.append(outs[-1])
            else:
                self.values[outs[-1]]["result"] = True
        again = n.again and (bool(apart) or not any(k in self.returned for k, _ in n.storages))
        rest: dict[str, Any] = {} if again else {"once": True}
        if n.workspace_bytes:
            rest["workspace_bytes"] = self._taken(n.workspace_bytes)
        self._op(n, n.name, n.target, ins, outs, phase=phase, time_ns=n.time_ns, **rest)


class Action:
    """One action of the plan: kind "run" (node, whether it ran before, buffers of its inputs and outputs by value), "state",
    "outside", "held", "copy" (from buffer, to buffer, value, out or in) or "wait" (for the copy into `to`)."""

    def __init__(self, kind: str, node: Optional[Node] = None, again: bool = False) -> None:
        self.kind, self.node, self.again = kind, node, again
        self.reads: dict[int, int] = {}
        self.makes: dict[int, int] = {}
        self.source = self.target = self.value = -1
        self.out = False


def schedule(problem: Problem, plan: Any) -> list[Action]:
    """The actions of a plan of the problem, in order."""
    from .. import _c
    from ..library import each

    buffers = each("hr_plan_get_buffer", _c.hr_plan_buffer, plan.handle, 0)
    found: list[Action] = []
    raw: list[tuple[Any, list[int]]] = []
    for a in each("hr_plan_get_action", _c.hr_plan_action, plan.handle, 0):
        raw.append((a, list((c.c_uint32 * a.operand_count).from_address(a.operands)) if a.operand_count else []))
    for a, operands in raw:
        if a.kind == _c.HR_PLAN_RUN:
            found.append(_run(problem, a, operands))
        elif a.kind == _c.HR_PLAN_COPY:
            one = Action("copy")
            one.source, one.target = operands[0], operands[1]
            one.out = buffers[one.target].memory != 0
            one.value = int(buffers[one.source].value)
            found.append(one)
        else:
            one = Action("wait")
            one.source, one.target = found[a.op].source, found[a.op].target
            found.append(one)
    return found


def _run(problem: Problem, a: Any, operands: list[int]) -> Action:
    op, written = problem.ops[a.op], problem.written[a.op]
    if op in (OUTSIDE, HELD):
        one = Action(op)
    elif isinstance(op, str):
        one = Action("state", problem.step.by_name[op.split(":", 1)[1]])
    else:
        one = Action("run", op, bool(a.recomputed))
    one.reads = dict(zip(written["in"], operands))
    one.makes = dict(zip(written["out"], operands[len(written["in"]):]))
    return one

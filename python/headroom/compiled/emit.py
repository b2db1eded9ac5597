"""A graph of ops as a Python function that frees every tensor after its last use.

The function takes its arguments in a list and empties it, so that nobody else holds what it frees."""
from __future__ import annotations

import math
from typing import Any, Callable

from torch.fx import GraphModule
from torch.fx import Node as FxNode
from torch.utils._pytree import tree_leaves


class Writer:
    """Lines of the function, and the constants that they name."""

    def __init__(self, module: GraphModule) -> None:
        self.module, self.lines = module, ["def run(args):"]
        self.constants: dict[str, Any] = {}
        self.known: dict[int, str] = {}
        self.number = {n: f"v{i}" for i, n in enumerate(module.graph.nodes)}
        self.last: dict[FxNode, FxNode] = {}
        for n in module.graph.nodes:
            for a in n.all_input_nodes:
                self.last[a] = n

    def constant(self, value: Any) -> str:
        if id(value) not in self.known:
            name = f"c{len(self.constants)}"
            self.known[id(value)], self.constants[name] = name, value
        return self.known[id(value)]

    def literal(self, value: Any) -> str:
        if isinstance(value, FxNode):
            return self.number[value]
        if value is None or isinstance(value, (bool, int, str)) or (isinstance(value, float) and math.isfinite(value)):
            return repr(value)
        if isinstance(value, (list, tuple)) and type(value) in (list, tuple):
            inside = ", ".join(map(self.literal, value))
            return f"[{inside}]" if isinstance(value, list) else f"({inside}{',' if value else ''})"
        if isinstance(value, (list, tuple)):  # lists of fx that cannot be changed
            return self.literal(list(value) if isinstance(value, list) else tuple(value))
        return self.constant(value)

    def free(self, names: list[str]) -> None:
        if names:
            self.lines.append(f"    del {', '.join(names)}")

    def node(self, n: FxNode) -> None:
        me = self.number[n]
        if n.op == "get_attr":
            value: Any = self.module
            for part in str(n.target).split("."):
                value = getattr(value, part)
            self.lines.append(f"    {me} = {self.constant(value)}")
            return
        given = [self.literal(a) for a in n.args] + [f"{k}={self.literal(v)}" for k, v in n.kwargs.items()]
        self.lines.append(f"    {me} = {self.constant(n.target)}({', '.join(given)})")
        gone = [self.number[a] for a in dict.fromkeys(n.all_input_nodes) if self.last.get(a) is n]
        self.free(gone + ([] if n in self.last else [me]))


def function(module: GraphModule) -> Callable[[list[Any]], list[Any]]:
    """The graph as a function of a list."""
    w = Writer(module)
    inputs = [n for n in module.graph.nodes if n.op == "placeholder"]
    if inputs:
        w.lines.append(f"    {', '.join(w.number[n] for n in inputs)}, = args")
    w.lines.append("    args.clear()")
    w.free([w.number[n] for n in inputs if n not in w.last])
    for n in module.graph.nodes:
        if n.op in ("call_function", "get_attr"):
            w.node(n)
        elif n.op == "output":
            w.lines.append(f"    return [{', '.join(map(w.literal, tree_leaves(n.args[0], is_leaf=lambda x: x is None)))}]")
    w.constants["__name__"] = "headroom.compiled.step"
    exec(compile("\n".join(w.lines), "<headroom plan>", "exec"), w.constants)
    return w.constants["run"]

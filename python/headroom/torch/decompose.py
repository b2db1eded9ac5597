"""Ops that have no counterpart, as PyTorch itself composes them of others."""
from __future__ import annotations

from typing import Any, Optional, Sequence

import torch


def mapped(nodes: Sequence[torch.fx.Node]) -> tuple[torch.fx.GraphModule, list, list]:
    """What torch.vmap maps, as ops on whole tensors: the graph, the nodes that are its inputs, and those that are its results."""
    from torch.fx.experimental.proxy_tensor import make_fx

    own = set(nodes)
    given = list(dict.fromkeys(a for n in nodes for a in n.all_input_nodes if a not in own))
    inputs = [a for a in given if isinstance(a.meta.get("val"), torch.Tensor)]
    results = [n for n in nodes if any(u not in own for u in n.users)]

    def again(*tensors: torch.Tensor) -> list:
        now: dict = {a: a.meta.get("val") for a in given} | dict(zip(inputs, tensors))
        for n in nodes:
            args, kwargs = torch.fx.map_arg((n.args, dict(n.kwargs)), now.__getitem__)
            now[n] = n.target(*args, **kwargs)  # type: ignore[operator]
        return [now[r] for r in results]

    with torch.no_grad():
        made = make_fx(again, tracing_mode="symbolic", _allow_non_fake_inputs=True)(*[a.meta["val"] for a in inputs])
    placed(made, nodes[-1])
    return made, inputs, results


def placed(made: torch.fx.GraphModule, node: torch.fx.Node) -> None:
    """Its nodes stand where the node does."""
    for n in made.graph.nodes:
        for key in ("stack_trace", "nn_module_stack"):
            if key in node.meta:
                n.meta[key] = node.meta[key]


def decomposed(node: torch.fx.Node, target: Any) -> Optional[tuple[torch.fx.GraphModule, list]]:
    """The node's op traced into smaller ones: the graph, and the nodes that are its inputs.  None where PyTorch has no such way."""
    from torch._decomp import decomposition_table
    from torch.fx.experimental.proxy_tensor import make_fx

    inputs = [n for n in node.all_input_nodes if isinstance(n.meta.get("val"), torch.Tensor)]
    table = {target: decomposition_table[target]} if target in decomposition_table else {}

    def again(*tensors: torch.Tensor) -> Any:
        given = dict(zip(inputs, tensors))
        args, kwargs = torch.fx.map_arg((node.args, dict(node.kwargs)), lambda n: given.get(n, n.meta.get("val")))
        return target(*args, **kwargs)

    try:
        with torch.no_grad():
            made = make_fx(again, decomposition_table=table, tracing_mode="symbolic",
                           _allow_non_fake_inputs=True)(*[n.meta["val"] for n in inputs])
    except Exception:  # whatever it is, the op is then refused by its own name
        return None
    calls = [n for n in made.graph.nodes if n.op == "call_function"]
    if not calls or any(n.target is target for n in calls):
        return None
    placed(made, node)
    return made, inputs

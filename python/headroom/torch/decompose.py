"""Ops that have no counterpart, as PyTorch itself composes them of others."""
from __future__ import annotations

from typing import Any, Optional

import torch


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
    for n in made.graph.nodes:
        for key in ("stack_trace", "nn_module_stack"):
            if key in node.meta:
                n.meta[key] = node.meta[key]
    return made, inputs

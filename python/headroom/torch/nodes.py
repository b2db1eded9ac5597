"""What the nodes of an exported program say of themselves: where they come from, which only assert, which torch.vmap maps."""
from __future__ import annotations

import torch

ASSERTIONS = ("_assert_tensor_metadata", "_assert_scalar", "sym_constrain_range_for_size", "_assert_async")


def where(node: torch.fx.Node) -> str:
    """The last line of the user's code that made the node, else the module's path."""
    best = ""
    lines = (node.meta.get("stack_trace") or "").splitlines()
    for i, line in enumerate(lines):
        line = line.strip()
        if line.startswith('File "'):
            file, _, rest = line[6:].partition('", line ')
            place = f"{file}:{rest.split(',')[0]}"
            if not file.startswith("<") and ("/torch/" not in file or not best):
                code = lines[i + 1].strip() if i + 1 < len(lines) else ""
                best = f"{place}: `{code}`" if code else place
    return best or scope(node) or node.name


def scope(node: torch.fx.Node) -> str:
    stack = list((node.meta.get("nn_module_stack") or {}).values())
    return str(stack[-1][0]) if stack else ""


def only_asserted(graph: torch.fx.Graph) -> set[torch.fx.Node]:
    """Assertions, which are not ours to make, and what is computed for them alone."""
    found: set[torch.fx.Node] = set()
    for n in reversed(list(graph.nodes)):
        if n.op != "call_function" or isinstance(n.target, torch._ops.HigherOrderOperator):
            continue
        op = n.target._schema if isinstance(n.target, torch._ops.OpOverload) else None
        alone = bool(n.users) and all(u in found for u in n.users) and not (op and op.is_mutable)
        if alone or op and op.name.split("::")[1] in ASSERTIONS:
            found.add(n)
    return found


def regions(graph: torch.fx.Graph) -> dict[torch.fx.Node, list[torch.fx.Node]]:
    """Calls of torch.vmap, outermost: the nodes of each, by the last of them, where all of its inputs are there."""
    found: dict = {}
    nodes: list = []
    deep = 0
    for n in graph.nodes:
        name = getattr(n.target, "__name__", "") if n.op == "call_function" else ""
        deep += name == "_vmap_increment_nesting"
        nodes += [n] if deep or name == "lazy_load_decompositions" else []
        deep -= name == "_vmap_decrement_nesting"
        if not deep and len(nodes) > 1:
            found[n], nodes = nodes, []
    return found

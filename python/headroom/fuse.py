"""Small rewrites of a finished form: what a framework writes as two nodes and we have as one.

  batch norm [+ z] and relu        batch_norm_apply with relu: one pass over memory, and y need not be kept

Only where nobody else reads what would disappear."""
from __future__ import annotations

from .graph import Entry, Form


def readers(form: Form) -> dict[int, list[Entry]]:
    out: dict[int, list[Entry]] = {}
    for e in form.live():
        for v in e.inputs:
            out.setdefault(id(v), []).append(e)
    return out


def fuse(form: Form) -> None:
    read = readers(form)
    results = {id(v) for _, v, _ in form.results}
    for e in form.live():
        if e.kind == "node" and e.op == "relu":
            _norm_relu(e, read, results)


def _alone(e: Entry, read: dict, results: set) -> bool:
    return len(read.get(id(e.outputs[0]), [])) == 1 and id(e.outputs[0]) not in results


def _norm_relu(relu: Entry, read: dict, results: set) -> None:
    before = relu.inputs[0].entry
    if before.kind == "node" and before.op == "batch_norm_apply" and _alone(before, read, results) \
            and len(before.inputs) == 5:
        _become(relu, before, list(before.inputs))
    elif before.kind == "node" and before.op == "add" and _alone(before, read, results):
        a, b = before.inputs
        for norm, z in ((a, b), (b, a)):
            n = norm.entry
            if n.kind == "node" and n.op == "batch_norm_apply" and len(n.inputs) == 5 and _alone(n, read, results) \
                    and "relu" not in n.attributes and z.shape == norm.shape and z is not norm:
                _become(relu, n, [*n.inputs, z])
                return


def _become(relu: Entry, norm: Entry, inputs: list) -> None:
    relu.op, relu.inputs, relu.scope = "batch_norm_apply", inputs, norm.scope
    relu.attributes = {**norm.attributes, "relu": True}

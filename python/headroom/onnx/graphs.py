"""Graphs within an ONNX model: functions of its own, written out where they are called, and the branches of an If.

A name inside a function belongs to one call of it.  Files are not trusted: functions that call themselves, and calls that grow
beyond any model, are refused."""
from __future__ import annotations

from typing import Iterator

from ..graph import Refused

DOMAINS = ("", "ai.onnx")
DEPTH, MOST = 16, 200_000


def op_of(node: dict) -> str:
    """Its op, with the domain in front where that is not ONNX's own."""
    domain = node.get("domain", "")
    return node.get("op_type", "") if domain in DOMAINS else f"{domain}.{node.get('op_type', '')}"


def every_node(graph: dict) -> Iterator[dict]:
    """Those of inner graphs too."""
    for n in graph["node"]:
        yield n
        for a in n["attribute"]:
            if "g" in a:
                yield from every_node(a["g"])


def written_out(model: dict) -> None:
    """Calls of the model's own functions become the nodes that they stand for."""
    functions = {(f.get("domain", ""), f.get("name", "")): f for f in model["functions"]}
    if functions:
        model["graph"]["node"] = _inlined(model["graph"]["node"], functions, 0)


def _inlined(nodes: list, functions: dict, depth: int) -> list:
    if depth > DEPTH:
        raise Refused("functions that call one another too deep")
    out: list = []
    for n in nodes:
        f = functions.get((n.get("domain", ""), n.get("op_type", "")))
        if f is None:
            for a in n["attribute"]:
                if "g" in a:
                    a["g"]["node"] = _inlined(a["g"]["node"], functions, depth + 1)
            out.append(n)
        else:
            out += _inlined(_body(f, n, f"{n.get('name', '') or (n['output'] or [''])[0]}/{depth}/"), functions, depth + 1)
        if len(out) > MOST:
            raise Refused(f"functions that stand for more than {MOST} nodes")
    return out


def _body(f: dict, call: dict, prefix: str) -> list:
    names = dict(zip(f["input"], call["input"])) | {name: "" for name in f["input"][len(call["input"]):]}
    names |= dict(zip(f["output"], call["output"]))
    given = {a["name"]: a for a in f["attribute_proto"]} | {a["name"]: a for a in call["attribute"]}
    return [_renamed(n, names, given, prefix) for n in f["node"]]


def _renamed(n: dict, names: dict, given: dict, prefix: str) -> dict:
    """A node of a function, under the names and with the attributes of a call."""
    def name_of(x: str) -> str:
        return names.get(x, prefix + x) if x else ""

    attributes = []
    for a in n["attribute"]:
        if a.get("ref_attr_name"):
            if a["ref_attr_name"] in given:
                attributes.append({**given[a["ref_attr_name"]], "name": a["name"]})
            continue
        if "g" in a:
            g = a["g"]
            inner = [{**t, "name": name_of(t.get("name", ""))} for t in g["initializer"]]
            nodes = [_renamed(m, names, given, prefix) for m in g["node"]]
            a = {**a, "g": {**g, "node": nodes, "initializer": inner, "output": [{**o, "name": name_of(o["name"])} for o in g["output"]]}}
        attributes.append(a)
    return {**n, "name": prefix + n.get("name", ""), "input": [name_of(i) for i in n["input"]],
            "output": [name_of(o) for o in n["output"]], "attribute": attributes}

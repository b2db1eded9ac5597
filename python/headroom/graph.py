"""Graphs as Python objects, written as model files: the same lines as docs/graph-format.md.

A Form is one graph: its entries in order, each with the values that it makes.  Types and shapes are known at once, so a
front end may ask for them.  What no result and no update needs is not written.  Nothing here knows a framework."""
from __future__ import annotations

from dataclasses import dataclass, field
from typing import Optional, Sequence

from .errors import Refused
from .size import Shape

CONSTANT_BYTES = 64 << 10

__all__ = ["Entry", "Form", "Model", "Refused", "Value", "attribute", "number", "quoted", "typed", "unite"]


@dataclass(eq=False)
class Value:
    """A value of a form: where it is made, its type and shape in memory."""

    entry: "Entry"
    index: int
    type: str
    shape: Shape


@dataclass(eq=False)
class Entry:
    kind: str  # input, param, state, fill, constant, node
    op: str = ""
    name: str = ""
    inputs: list = field(default_factory=list)
    attributes: dict = field(default_factory=dict)
    scope: str = ""
    source: str = ""  # the user's file and line
    update: bool = False
    tail: str = ""  # initial value and tags
    data: bytes = b""
    number: float = 0.0
    outputs: list = field(default_factory=list)


def quoted(text: str) -> str:
    out = []
    for byte in text.encode():
        c = chr(byte)
        out.append("\\" + c if c in '"\\' else c if 32 <= byte < 127 else f"\\x{byte:02x}")
    return '"' + "".join(out) + '"'


def number(x: float) -> str:
    """The shortest text that reads back as the same double."""
    text = repr(float(x))
    return text[:-2] if text.endswith(".0") else text


def attribute(x: object) -> str:
    if isinstance(x, bool):
        return "true" if x else "false"
    if isinstance(x, float):
        return number(x)
    if isinstance(x, (list, tuple)):
        return "x".join(str(d) for d in x)
    return str(x)


def typed(type_: str, shape: Shape) -> str:
    return f"{type_}[{','.join(str(d) for d in shape)}]"


class Form:
    """One graph being built."""

    def __init__(self) -> None:
        self.entries: list[Entry] = []
        self.results: list[tuple[str, Value, bool]] = []
        self.named: dict[str, Value] = {}
        self.scope = ""
        self.source = ""

    def _add(self, entry: Entry, metas: Sequence[tuple[str, Shape]]) -> list[Value]:
        entry.outputs = [Value(entry, i, t, tuple(s)) for i, (t, s) in enumerate(metas)]
        self.entries.append(entry)
        return entry.outputs

    def input(self, name: str, type_: str, shape: Shape) -> Value:
        self.named[name] = self._add(Entry("input", name=name), [(type_, shape)])[0]
        return self.named[name]

    def persistent(self, kind: str, name: str, type_: str, shape: Shape, tail: str) -> Value:
        """kind is param or state; tail is the initial value and the tags."""
        if name not in self.named:
            self.named[name] = self._add(Entry(kind, name=name, tail=tail), [(type_, shape)])[0]
        return self.named[name]

    def fill(self, type_: str, shape: Shape, number_: float) -> Value:
        return self._add(Entry("fill", number=number_, scope=self.scope), [(type_, shape)])[0]

    def constant(self, type_: str, shape: Shape, data: bytes) -> Value:
        assert len(data) <= CONSTANT_BYTES
        return self._add(Entry("constant", data=data, scope=self.scope), [(type_, shape)])[0]

    def node(self, op: str, inputs: Sequence[Value], metas: Sequence[tuple[str, Shape]], update: bool = False,
             **attributes: object) -> list[Value]:
        named = {k.replace("_", "-"): v for k, v in attributes.items() if v is not None and v is not False}
        return self._add(Entry("node", op=op, inputs=list(inputs), attributes=named, scope=self.scope,
                               source=self.source, update=update), metas)

    def result(self, name: str, value: Value, spare: bool = False) -> None:
        self.results.append((name, value, spare))

    def live(self) -> list[Entry]:
        """The entries that results and updates need, in order, and every input and persistent value."""
        needed: set[int] = set()
        stack = [v.entry for _, v, _ in self.results]
        stack += [e for e in self.entries if e.update or e.kind in ("input", "param", "state")]
        while stack:
            e = stack.pop()
            if id(e) not in needed:
                needed.add(id(e))
                stack += [v.entry for v in e.inputs]
        return [e for e in self.entries if id(e) in needed]

    def text(self) -> str:
        ids: dict[tuple[int, int], int] = {}
        lines = []
        for e in self.live():
            first = len(ids) + 1
            for i in range(len(e.outputs)):
                ids[id(e), i] = first + i
            left = " ".join(f"%{first + i}" for i in range(len(e.outputs)))
            lines.append(f"{left} = {self._right(e, ids)}")
        for name, v, spare in self.results:
            lines.append(f"result {quoted(name)} %{ids[id(v.entry), v.index]}" + (" spare" if spare else ""))
        return "\n".join(lines) + "\n"

    def _right(self, e: Entry, ids: dict) -> str:
        v = e.outputs[0]
        if e.kind in ("input", "param", "state"):
            return f"{e.kind} {quoted(e.name)} {typed(v.type, v.shape)}{' ' + e.tail if e.tail else ''}"
        scope = f"@{quoted(e.scope)}"
        if e.kind == "fill":
            return f"fill {typed(v.type, v.shape)} {number(e.number)} {scope}"
        if e.kind == "constant":
            return f"constant {typed(v.type, v.shape)} 0x{e.data.hex()} {scope}"
        inputs = " ".join(f"%{ids[id(i.entry), i.index]}" for i in e.inputs)
        inside = ",".join(f"{k}={attribute(x)}" for k, x in e.attributes.items())
        return f"{e.op}({inputs}){' {' + inside + '}' if inside else ''} {scope}{' update' if e.update else ''}"


def unite(a: Form, b: Form) -> None:
    """Both forms declare the same parameters and states; heads that only one of them reads are unused in the other."""
    for one, other in ((a, b), (b, a)):
        for name, v in one.named.items():
            if v.entry.kind != "input":
                other.persistent(v.entry.kind, name, v.type, v.shape, v.entry.tail)


@dataclass
class Model:
    """A model file: two forms over one set of parameters."""

    name: str
    classes: int
    train: Form
    eval: Form
    derived: list = field(default_factory=list)
    prefix: Optional[str] = None
    weights: Optional[str] = None  # the file beside it
    customs: list = field(default_factory=list)  # name and description of each custom op

    def __post_init__(self) -> None:
        unite(self.train, self.eval)

    def text(self) -> str:
        head = ["headroom model 1", f"name {quoted(self.name[:64])}", f"classes {self.classes}"]
        if self.prefix:
            head.append(f"prefix {quoted(self.prefix)}")
        if self.weights:
            head.append(f"weights {quoted(self.weights)}")
        head += [f"derived {quoted(d)}" for d in self.derived]
        head += [f"custom {quoted(name)} {quoted(text)}" for name, text in self.customs]
        return "\n".join(head) + "\nform train\n" + self.train.text() + "form eval\n" + self.eval.text()

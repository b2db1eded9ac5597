"""Model files read back: the lines of docs/graph-format.md as a Model.  For writers of other formats; the library has its own
reader, which is the one that is trusted with training."""
from __future__ import annotations

import re
from pathlib import Path

from .graph import Entry, Form, Model, Value
from .size import Dim, Size, made

LINE = re.compile(r'((?:%\d+ )*%\d+) = (.*)')
NODE = re.compile(r'([a-z0-9_]+)\(([^)]*)\)(?: \{([^}]*)\})? @"((?:[^"\\]|\\.)*)"(.*)')
NAMED = re.compile(r'(input|param|state) "((?:[^"\\]|\\.)*)" ([a-z0-9]+)\[([^\]]*)\]\s*(.*)')
DATA = re.compile(r'(fill|constant) ([a-z0-9]+)\[([^\]]*)\] (\S+) @"((?:[^"\\]|\\.)*)"')
TERM = re.compile(r"(\d*)N([+-]\d+)?")


def unquoted(text: str) -> str:
    data = re.sub(rb'\\(x[0-9a-f]{2}|["\\])', lambda m: bytes([int(m[1][1:], 16)]) if len(m[1]) > 1 else m[1], text.encode())
    return data.decode("utf-8", "replace")


def dim(text: str) -> Dim:
    m = TERM.fullmatch(text)
    return made(int(m[1] or 1), int(m[2] or 0)) if m else int(text)


def dims(text: str, by: str = ",") -> tuple:
    return tuple(dim(t) for t in text.split(by)) if text else ()


def attributes(text: str | None) -> dict:
    return dict(part.split("=", 1) for part in text.split(",")) if text else {}


def _entry(right: str, form: Form) -> tuple[Entry, list]:
    if m := NAMED.fullmatch(right):
        e = Entry(m[1], name=unquoted(m[2]), tail=m[5])
        return e, [(m[3], dims(m[4]))]
    if m := DATA.fullmatch(right):
        e = Entry(m[1], scope=unquoted(m[5]))
        if m[1] == "fill":
            e.number = float(m[4])
        else:
            e.data = bytes.fromhex(m[4][2:])
        return e, [(m[2], dims(m[3]))]
    m = NODE.fullmatch(right)
    if not m:
        raise ValueError(f"no line of a graph: {right[:80]}")
    return Entry("node", op=m[1], attributes=attributes(m[3]), scope=unquoted(m[4]), update="update" in m[5]), []


def custom(line: str) -> tuple[str, str]:
    m = re.fullmatch(r'custom "((?:[^"\\]|\\.)*)" "((?:[^"\\]|\\.)*)"', line)
    if not m:
        raise ValueError(f"no custom op: {line[:80]}")
    return unquoted(m[1]), unquoted(m[2])


def customs_of(text: str) -> list[tuple[str, str]]:
    """Name and description of each custom op that the head of a model file names."""
    return [custom(line) for line in text.partition("\nform ")[0].splitlines() if line.startswith("custom ")]


def parse(text: str) -> Model:
    """Shapes of nodes are not in the text: values of nodes have none here."""
    lines = text.splitlines()
    if lines[:1] != ["headroom model 1"]:
        raise ValueError("no model file: its first line is not `headroom model 1`")
    forms: dict = {}
    name, classes, weights = "model", 0, None
    values: dict = {}
    form = Form()
    customs: list = []
    for line in lines[1:]:
        if line.startswith("name "):
            name = unquoted(line[6:-1])
        elif line.startswith("classes "):
            classes = int(line[8:])
        elif line.startswith("weights "):
            weights = unquoted(line[9:-1])
        elif line.startswith("custom "):
            customs.append(custom(line))
        elif line.startswith("form "):
            form, values = forms.setdefault(line[5:], Form()), {}
        elif line.startswith("result "):
            m = re.fullmatch(r'result "((?:[^"\\]|\\.)*)" (%\d+)( spare)?', line)
            if not m:
                raise ValueError(f"no result: {line}")
            form.result(unquoted(m[1]), values[m[2]], bool(m[3]))
        elif m := LINE.fullmatch(line):
            _line(m, form, values)
    return Model(name, classes, forms["train"], forms["eval"], weights=weights, customs=customs)


def _line(m: re.Match, form: Form, values: dict) -> None:
    ids = m[1].split()
    e, metas = _entry(m[2], form)
    if e.kind == "node":
        inside = re.match(r"[a-z0-9_]+\(([^)]*)\)", m[2])
        e.inputs = [values[i] for i in inside[1].split()] if inside else []
        metas = [("", ())] * len(ids)
    e.outputs = [Value(e, i, t, s) for i, (t, s) in enumerate(metas)]
    form.entries.append(e)
    if e.kind in ("input", "param", "state"):
        form.named[e.name] = e.outputs[0]
    values.update(zip(ids, e.outputs))


def read(path: str | Path) -> Model:
    return parse(Path(path).read_text())


__all__ = ["parse", "read", "dims", "Size"]

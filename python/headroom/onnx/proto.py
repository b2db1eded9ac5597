"""The part of ONNX's protobuf that is needed, read and written without a library.

Messages are dicts by field name.  SCHEMA says for each message and field its number, kind and whether it repeats; what a file has
beside these is skipped.  Files are not trusted: lengths are checked against what is there, and nesting is bounded."""
from __future__ import annotations

import struct
from typing import Any

# name: (number, kind, repeated).  kind: int, float, bytes, str, or the name of a message
SCHEMA: dict[str, dict[str, tuple[int, str, bool]]] = {
    "Model": {"ir_version": (1, "int", False), "producer_name": (2, "str", False), "producer_version": (3, "str", False),
              "graph": (7, "Graph", False), "opset_import": (8, "Opset", True), "metadata_props": (14, "Entry", True),
              "functions": (25, "Function", True)},
    "Function": {"name": (1, "str", False), "input": (4, "str", True), "output": (5, "str", True), "node": (7, "Node", True),
                 "domain": (10, "str", False), "attribute_proto": (11, "Attribute", True)},
    "Opset": {"domain": (1, "str", False), "version": (2, "int", False)},
    "Entry": {"key": (1, "str", False), "value": (2, "str", False)},
    "Graph": {"node": (1, "Node", True), "name": (2, "str", False), "initializer": (5, "Tensor", True),
              "input": (11, "Value", True), "output": (12, "Value", True), "value_info": (13, "Value", True)},
    "Node": {"input": (1, "str", True), "output": (2, "str", True), "name": (3, "str", False), "op_type": (4, "str", False),
             "attribute": (5, "Attribute", True), "domain": (7, "str", False)},
    "Attribute": {"name": (1, "str", False), "f": (2, "float", False), "i": (3, "int", False), "s": (4, "bytes", False),
                  "t": (5, "Tensor", False), "g": (6, "Graph", False), "floats": (7, "float", True),
                  "ints": (8, "int", True), "strings": (9, "bytes", True), "type": (20, "int", False),
                  "ref_attr_name": (21, "str", False)},
    "Tensor": {"dims": (1, "int", True), "data_type": (2, "int", False), "float_data": (4, "float", True),
               "int32_data": (5, "int", True), "int64_data": (7, "int", True), "name": (8, "str", False),
               "raw_data": (9, "bytes", False), "double_data": (10, "double", True),
               "external_data": (13, "Entry", True), "data_location": (14, "int", False)},
    "Value": {"name": (1, "str", False), "type": (2, "Type", False)},
    "Type": {"tensor_type": (1, "TensorType", False)},
    "TensorType": {"elem_type": (1, "int", False), "shape": (2, "Shape", False)},
    "Shape": {"dim": (1, "Dimension", True)},
    "Dimension": {"dim_value": (1, "int", False), "dim_param": (2, "str", False)},
}
BY_NUMBER = {m: {n: (f, k, r) for f, (n, k, r) in fields.items()} for m, fields in SCHEMA.items()}
DEPTH = 16


class Malformed(ValueError):
    pass


def _varint(data: memoryview, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        if at >= len(data) or shift > 63:
            raise Malformed("a number is cut short")
        byte = data[at]
        at += 1
        value |= (byte & 127) << shift
        if byte < 128:
            return value & (2**64 - 1), at
        shift += 7


def _signed(x: int) -> int:
    return x - 2**64 if x >= 2**63 else x


def _packed(kind: str, data: memoryview) -> list:
    if kind in ("float", "double"):
        width, code = (4, "f") if kind == "float" else (8, "d")
        if len(data) % width:
            raise Malformed("a list of numbers is cut short")
        return list(struct.unpack(f"<{len(data) // width}{code}", data))
    out, at = [], 0
    while at < len(data):
        x, at = _varint(data, at)
        out.append(_signed(x))
    return out


def parse(message: str, data: Any, depth: int = 0) -> dict:
    if depth > DEPTH:
        raise Malformed("messages within messages, too deep")
    data = memoryview(data)
    fields = BY_NUMBER[message]
    out: dict = {f: [] for f, (_, _, r) in SCHEMA[message].items() if r}
    at = 0
    while at < len(data):
        key, at = _varint(data, at)
        field = fields.get(key >> 3)
        value, at, wire = _field(data, at, key & 7)
        if field:
            _put(out, field, value, wire, depth)
    return out


def _field(data: memoryview, at: int, wire: int) -> tuple[Any, int, int]:
    if wire == 0:
        value, at = _varint(data, at)
        return value, at, wire
    size = {1: 8, 5: 4}.get(wire)
    if wire == 2:
        size, at = _varint(data, at)
    if size is None:
        raise Malformed(f"wire type {wire}")
    if size > len(data) - at:
        raise Malformed("a field is longer than the file")
    return data[at:at + size], at + size, wire


def _put(out: dict, field: tuple[str, str, bool], value: Any, wire: int, depth: int) -> None:
    name, kind, repeated = field
    if kind in ("int", "float", "double"):
        if wire == 2 and not repeated:
            raise Malformed(f"{name} is a list")
        if wire == 2:
            out.setdefault(name, []).extend(_packed(kind, value))
            return
        value = _signed(value) if wire == 0 else struct.unpack("<f" if wire == 5 else "<d", value)[0]
    elif wire != 2:
        raise Malformed(f"{name} is no text")
    elif kind == "str":
        value = bytes(value).decode("utf-8", "replace")
    elif kind == "bytes":
        value = bytes(value)
    else:
        value = parse(kind, value, depth + 1)
    if repeated:
        out.setdefault(name, []).append(value)
    else:
        out[name] = value


def _write_varint(x: int) -> bytes:
    x &= 2**64 - 1
    out = bytearray()
    while x > 127:
        out.append(x & 127 | 128)
        x >>= 7
    out.append(x)
    return bytes(out)


def serialize(message: str, value: dict) -> bytes:
    out = []
    for name, (number, kind, repeated) in SCHEMA[message].items():
        if name not in value or value[name] is None:
            continue
        for x in value[name] if repeated else [value[name]]:
            if kind == "int":
                out.append(_write_varint(number << 3) + _write_varint(int(x)))
            elif kind == "float":
                out.append(_write_varint(number << 3 | 5) + struct.pack("<f", x))
            elif kind == "double":
                out.append(_write_varint(number << 3 | 1) + struct.pack("<d", x))
            else:
                data = x.encode() if kind == "str" else x if kind == "bytes" else serialize(kind, x)
                out.append(_write_varint(number << 3 | 2) + _write_varint(len(data)) + data)
    return b"".join(out)

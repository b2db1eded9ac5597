"""safetensors files: an 8-byte length, a JSON header, the bytes.  Small enough to have here, so that nothing is imported."""
from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any, Mapping

TYPES = {"F32": "<f4", "F16": "<f2", "F64": "<f8", "I64": "<i8", "I32": "<i4", "I16": "<i2", "I8": "i1", "U8": "u1",
         "BOOL": "?"}
HEADER_BYTES = 16 << 20


def write(path: str | Path, tensors: Mapping[str, Any], metadata: Mapping[str, str] | None = None) -> None:
    """Arrays by name; the file is replaced as a whole."""
    import numpy as np

    names = {np.dtype(v): k for k, v in TYPES.items()}
    header: dict[str, Any] = {"__metadata__": dict(metadata)} if metadata else {}
    arrays, at = [], 0
    for name, tensor in tensors.items():
        a = np.array(tensor, order="C", copy=None)
        header[name] = {"dtype": names[a.dtype.newbyteorder("<")], "shape": list(a.shape),
                        "data_offsets": [at, at + a.nbytes]}
        arrays.append(a)
        at += a.nbytes
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    part = f"{path}.part"
    with open(part, "wb") as f:
        f.write(len(text).to_bytes(8, "little") + text)
        for a in arrays:
            f.write(a.tobytes())
    os.replace(part, path)


def of_run(path: str | Path) -> Path:
    """The weights of a run: those of its best epoch, else its last; any other path is a file of weights itself."""
    path = Path(path)
    if not path.is_dir():
        return path
    for name in ("best.safetensors", "last.safetensors"):
        if (path / name).exists():
            return path / name
    raise FileNotFoundError(f"{path} has neither best.safetensors nor last.safetensors: is it the folder of a run?")


def read(path: str | Path) -> tuple[dict[str, Any], dict[str, str]]:
    """Arrays by name (bf16 becomes f32), and the metadata."""
    import numpy as np

    data = Path(path).read_bytes()
    size = int.from_bytes(data[:8], "little")
    if len(data) < 8 or size > min(HEADER_BYTES, len(data) - 8):
        raise ValueError(f"{path} is no safetensors file")
    header = json.loads(data[8:8 + size])
    metadata = header.pop("__metadata__", {})
    body, out = memoryview(data)[8 + size:], {}
    for name, t in header.items():
        begin, end = t["data_offsets"]
        if not 0 <= begin <= end <= len(body):
            raise ValueError(f"{path}: {name} lies outside the file")
        if t["dtype"] == "BF16":
            wide = np.frombuffer(body[begin:end], "<u2").astype("<u4") << 16
            array = wide.view("<f4")
        else:
            array = np.frombuffer(body[begin:end], TYPES[t["dtype"]])
        out[name] = array.reshape(t["shape"])
    return out, metadata

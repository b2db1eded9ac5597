"""ONNX files: read as models, and written for inference."""
from typing import Any


def __getattr__(name: str) -> Any:
    if name == "read":
        from .reader import read

        return read
    if name == "write":
        from .writer import write

        return write
    raise AttributeError(name)

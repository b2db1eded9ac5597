"""What ONNX Runtime makes of a file against what the library makes of the model that was read from it: outputs in evaluation."""
from __future__ import annotations

from pathlib import Path
from typing import Any, Callable, Optional

import numpy as np

from ..check import Compared, Ours, apart, rows_of
from ..exported import Exported
from ..graph import Refused
from ..size import at

TYPES = {"float": "float32", "float16": "float16", "double": "float64", "int64": "int64", "int32": "int32", "int16": "int16",
         "int8": "int8", "uint8": "uint8", "bool": "bool"}


def session_of(path: str | Path) -> Optional[Any]:
    """None where there is no ONNX Runtime."""
    try:
        import onnxruntime
    except ImportError:
        return None
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    return asked(lambda: onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"]))


def asked(f: Callable) -> Any:
    """Its exceptions have no class in common but Exception."""
    try:
        return f()
    except Exception as e:
        why = (str(e).strip().splitlines() or [type(e).__name__])[0]
        raise Refused(f"ONNX Runtime does not run the file, so it cannot be compared (--no-check leaves that out): {why[:300]}") from None


def drawn(e: Exported, session: Any, batch: int) -> dict[str, np.ndarray]:
    """Numbers for the inputs of the file, as it has them."""
    r = np.random.RandomState(0)
    types = {i.name: TYPES.get(i.type[7:-1], "float32") for i in session.get_inputs()}
    feeds = {}
    for name, shape, _ in e.inputs:
        sizes, type_ = at(shape, batch), types[name]
        high = 2 if type_ == "bool" else rows_of(e.model.eval, name)
        feeds[name] = (r.randn(*sizes) if "float" in type_ else r.randint(0, high, sizes)).astype(type_)
    return feeds


def check(path: str | Path, e: Exported, batch: int = 5) -> Optional[Compared]:
    """Outputs at this batch, or at the one that the file was written for.  None without ONNX Runtime; the library has then run the model
    all the same."""
    session = session_of(path)
    first = session.get_inputs()[0].shape if session is not None else []
    batch = first[0] if first and isinstance(first[0], int) else batch
    ours = Ours(e, batch)
    try:
        if session is None:
            return None
        feeds = drawn(e, session, batch)
        real = {n: v.type for n, v in e.model.eval.named.items()}
        given = {n: a.astype("float32" if real[n] == "f32" else "int32") for n, a in feeds.items()}
        given |= {n: np.zeros(at(v.shape, batch), "float32" if v.type == "f32" else "int32") for n, v in e.model.eval.named.items()
                  if v.entry.kind == "input" and n not in given}  # labels
        got, _ = ours.evaluate(given)
    finally:
        ours.close()
    want = [y for y in asked(lambda: session.run(None, feeds)) if y.dtype.kind == "f"]
    far = max((apart(logits_as(x, y), y, 1e-2 if y.size and 0 <= y.min() and y.max() <= 1 else 0.0)  # a map of probabilities near 0
               for x, y in zip(got, want)), default=float("inf"))
    return Compared(0.0, 0.0, "none", 0.0, 0.0, far if len(got) == len(want) else float("inf"), 0, [])


def logits_as(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """What goes into the loss as what the file ends with, where that is a softmax or a sigmoid."""
    if x.shape != y.shape or apart(x, y) < 1e-4 or y.min() < 0 or y.max() > 1:
        return x
    wide = x.astype("float64") - x.max(-1, keepdims=True)
    soft = np.exp(wide) / np.exp(wide).sum(-1, keepdims=True)
    return soft if apart(soft, y) < 1e-2 else 1 / (1 + np.exp(-np.clip(x.astype("float64"), -80, 80)))

"""A model file written as ONNX, run by ONNX Runtime and by the library on the same numbers."""
from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any, Mapping, Optional

import numpy as np
import onnxruntime

from headroom import file
from headroom.models import Model as Opened
from headroom.onnx import write
from headroom.run import Run
from headroom.size import at


def drawn(model: Any, seed: int = 0) -> dict[str, np.ndarray]:
    """Weights for a model that has none, as they stand in files."""
    r = np.random.RandomState(seed)
    out = {}
    for name, v in model.eval.named.items():
        if v.entry.kind in ("param", "state"):
            fan = float(np.prod(v.shape[:-1])) if len(v.shape) > 1 else 25.0
            a = (r.randn(*v.shape) * 0.5 / np.sqrt(max(fan, 1.0))).astype("float32")
            a = np.abs(a) + np.float32(0.5) if "var" in name else a
            out[name] = a.transpose(3, 2, 0, 1) if "layout=conv" in v.entry.tail else a
    return out


def difference(text: str, weights: Optional[Mapping[str, np.ndarray]] = None, batch: int = 3) -> float:
    """The largest relative difference of any result in evaluation."""
    model = file.parse(text)
    weights = drawn(model) if weights is None else weights
    r = np.random.RandomState(1)
    feeds = {}
    for name, v in model.eval.named.items():
        if v.entry.kind == "input":
            shape = at(v.shape, batch)
            feeds[name] = r.randint(0, 2, shape).astype("int32") if v.type != "f32" else r.randn(*shape).astype("float32")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "m.onnx"
        write(file.parse(text), weights, path)
        session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    given = {i.name: turned(feeds[i.name]) for i in session.get_inputs()}
    worst = 0.0
    want = ours(text, model, weights, feeds, batch)
    for o, got in zip(session.get_outputs(), session.run(None, given)):
        a = want[o.name]
        if a.ndim == 4 and a.shape != got.shape:
            got = got.transpose(0, 2, 3, 1)
        assert a.shape == got.shape, (o.name, a.shape, got.shape)
        worst = max(worst, float(np.abs(a - got).max() / max(1e-6, np.abs(a).max())))
    return worst


def turned(x: np.ndarray) -> np.ndarray:
    return x.transpose(0, 3, 1, 2) if x.ndim == 4 and x.dtype == np.float32 else x


def ours(text: str, model: Any, weights: Mapping[str, np.ndarray], feeds: Mapping[str, np.ndarray], batch: int) -> dict:
    graph = Opened.parse(text).graph(batch, False)
    graph.freeze()
    with Run([graph], threads=1) as run:
        for name, a in weights.items():
            if graph.has(name):
                conv = "layout=conv" in model.eval.named[name].entry.tail
                run.put(name, a.transpose(2, 3, 1, 0) if conv else a)
        for name, a in feeds.items():
            if graph.has(name):
                run.put(name, a)
        run.step(0)
        return {name: run.get(name) for name, _, _ in model.eval.results if name != "loss"}

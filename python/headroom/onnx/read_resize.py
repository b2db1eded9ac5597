"""Resize of ONNX: along each dimension a place of the source for every place of the result, by the rule that the file names."""
from __future__ import annotations

from typing import Any, Callable, Optional, Sequence

import numpy as np

from ..build import Build, Const, Tensor
from ..graph import Refused
from ..size import Size
from .reader import Node, op

PLACES: dict[str, Callable] = {  # of the place i of `to`, which came from `size` by `scale`
    "half_pixel": lambda i, size, to, scale: (i + 0.5) / scale - 0.5,
    "half_pixel_symmetric": lambda i, size, to, scale: size / 2 * (1 - to / (scale * size)) + (i + 0.5) / scale - 0.5,
    "pytorch_half_pixel": lambda i, size, to, scale: (i + 0.5) / scale - 0.5 if to > 1 else 0 * i,
    "asymmetric": lambda i, size, to, scale: i / scale,
    "align_corners": lambda i, size, to, scale: i * ((size - 1) / (to - 1)) if to > 1 else 0 * i}
NEAREST: dict[str, Callable] = {
    "round_prefer_floor": lambda x: np.ceil(x - 0.5), "round_prefer_ceil": lambda x: np.floor(x + 0.5), "floor": np.floor, "ceil": np.ceil}


@op("Resize", "Upsample")
def resize(b: Build, n: Node) -> Tensor:
    x = b.cast(b.tensor(n.get(0)), "f32")
    if n.attr("antialias", 0) or n.attr("keep_aspect_ratio_policy", "stretch") != "stretch":
        raise Refused("Resize with antialias or a kept aspect ratio")
    upsample = n.op == "Upsample"
    mode, how = n.attr("mode", "nearest"), "asymmetric" if upsample else n.attr("coordinate_transformation_mode", "half_pixel")
    rounding = "floor" if upsample else n.attr("nearest_mode", "round_prefer_floor")
    if how not in PLACES or mode not in ("nearest", "linear", "cubic"):
        raise Refused(f"Resize by {mode}, {how}")
    wanted = targets(n, x)
    to = [wanted.get(d, (x.shape[d], 1.0)) for d in range(2, x.rank)]
    if set(wanted) <= set(range(2, x.rank)):
        kept = [None if abs(scale * x.shape[d] - size) < 1e-6 else scale for d, (size, scale) in enumerate(to, 2)]
        usual = usual_of(mode, how, rounding, all(s is None for s in kept), [(x.shape[d], s) for d, (s, _) in enumerate(to, 2)])
        if usual is not None:
            return b.interpolate(x, [size for size, _ in to], usual, how == "align_corners", [None] * len(to))
    for d, (size, scale) in wanted.items():
        at = PLACES[how](np.arange(size, dtype="float64"), x.shape[d], size, scale)
        if mode == "nearest":
            ids = np.clip(NEAREST[rounding](np.round(at, 6)), 0, x.shape[d] - 1).astype("int64")
            x = x if np.array_equal(ids, np.arange(x.shape[d])) else b.take(x, d, Const(ids))
        else:
            x = b.along(x, d, matrix(at, x.shape[d], mode, n.attr("cubic_coeff_a", -0.75), bool(n.attr("exclude_outside", 0))))
    return x


def targets(n: Node, x: Tensor) -> dict[int, tuple[int, float]]:
    """For each dimension that changes its size and the scale."""
    axes = [a % x.rank for a in n.attr("axes", range(x.rank))]
    last = 1 if n.op == "Upsample" or n.opset == 10 else 2
    sizes, scales = n.get(3) if last == 2 else None, n.get(last)
    given: Any = sizes if sizes is not None else scales
    if given is None and n.attr("scales") is None:
        raise Refused("Resize without sizes")
    if given is not None and not isinstance(given, Const):
        raise Refused("Resize to a size that depends on data")
    out: dict[int, tuple[int, float]] = {}
    for a, v in zip(axes, given.array.reshape(-1) if given is not None else n.attr("scales")):
        d = x.shape[a]
        if isinstance(d, Size):  # a size there is the exporter's batch
            if sizes is None and float(v) != 1:
                raise Refused("Resize along the batch")
            continue
        to = int(v) if sizes is not None else int(np.floor(d * float(v)))
        if to != d or sizes is None and float(v) != 1:
            out[a] = (to, to / d if sizes is not None else float(v))
    return out


def usual_of(mode: str, how: str, rounding: str, exact: bool, sizes: Sequence[tuple[int, int]]) -> Optional[str]:
    """What `interpolate` calls it, where it has it."""
    if mode == "nearest" and exact and all(t % d == 0 for d, t in sizes) and \
            (how == "asymmetric" and rounding == "floor" or how in ("half_pixel",
                                                                    "pytorch_half_pixel") and rounding == "round_prefer_floor"):
        return "nearest"
    if mode == "linear" and exact and how in ("half_pixel", "pytorch_half_pixel", "align_corners") and all(t > 1 for _, t in sizes):
        return "linear"
    return None


def matrix(at: np.ndarray, size: int, mode: str, a: float, inside: bool) -> np.ndarray:
    """(places, size): the shares of what lies around each place; `inside`: what would lie outside counts nowhere."""
    m = np.zeros((len(at), size), "float64")
    reach = range(2) if mode == "linear" else range(-1, 3)
    for i, x in enumerate(at):
        low = int(np.floor(x))
        for k in reach:
            far = abs(x - low - k)
            w = 1 - far if mode == "linear" else \
                ((a + 2) * far - (a + 3)) * far * far + 1 if far <= 1 else ((a * far - 5 * a) * far + 8 * a) * far - 4 * a
            if not inside or 0 <= low + k < size:
                m[i, min(max(low + k, 0), size - 1)] += w
        if inside:
            m[i] /= m[i].sum()
    return m.astype("float32")

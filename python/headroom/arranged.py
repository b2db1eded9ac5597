"""Data as Keras has it, (x, y, weights) with lists or dicts in each place, in the order of a model's inputs; and a share of arrays for
validation."""
from __future__ import annotations

from typing import Any, Optional

from .errors import UsageError
from .models import is_keras
from .sources import Data, as_data, data, is_array


def in_order(part: Any, names: list[str], what: str) -> list[Any]:
    """The arrays of a place: one, a list, or a dict by name."""
    if isinstance(part, dict):
        unknown = [k for k in part if k not in names]
        if unknown:
            raise UsageError(f"the model has no {what} {unknown[0]!r}; it has {', '.join(names)}")
        return [part[n] for n in names if n in part]
    return list(part) if isinstance(part, (list, tuple)) else [part]


def arranged(model: Any, source: Any) -> Optional[Data]:
    """Data for a model of Keras, with the numbers of its labels and weights."""
    if not is_keras(model) or not isinstance(source, tuple) or len(source) not in (2, 3):
        return as_data(source)
    from .keras.goal import input_names, output_names, outputs_of

    inputs = input_names(model)
    plain = all(is_array(a) for a in source)
    if plain and (len(source) == 2 or len(inputs) > 1):
        return as_data(source)
    if any(isinstance(a, str) for a in source):
        return as_data(source)
    xs = in_order(source[0], inputs, "input")
    ys = in_order(source[1], output_names(model, outputs_of(model)), "output")
    ws = in_order(source[2], output_names(model, outputs_of(model)), "output") if len(source) == 3 and source[2] is not None else []
    if not all(is_array(a) for a in (*xs, *ys, *ws)):
        return as_data(source)
    if len(ws) not in (0, 1, len(ys)):
        raise UsageError(f"{len(ws)} arrays of weights for {len(ys)} of labels")
    made = data(*xs, *ys, *ws)
    made.labels, made.weights = len(ys), len(ws)
    return made


def pair(model: Any, given: Any, options: dict[str, Any]) -> tuple[Optional[Data], Optional[Data]]:
    """Data to train and to validate with.  A val_split of arrays is the last of them, as in Keras."""
    source, val = arranged(model, given), arranged(model, options.pop("val_data", None))
    split = options.get("val_split")
    if split and val is None and source is not None and source.arrays is not None:
        if not 0 < float(split) < 1:
            raise UsageError(f"val_split={split} is not between 0 and 1")
        del options["val_split"]
        source, val = divided(source, float(split))
    if source is not None and val is not None and source.weights > val.weights and val.arrays is not None:
        import numpy as np

        arrays = [*fields(val), *[np.ones(val.count() or 0, "float32")] * source.weights]
        val = Data(arrays=arrays, shuffle=val.shuffle)
        val.labels, val.weights = source.labels, source.weights
    return source, val


def fields(source: Data) -> list[Any]:
    assert source.arrays is not None
    return list(source.arrays.values()) if isinstance(source.arrays, dict) else list(source.arrays)


def divided(source: Data, share: float) -> tuple[Data, Data]:
    count = source.count() or 0
    at = int(count * (1 - share))
    if at < 1 or at >= count:
        raise UsageError(f"val_split={share} of {count} samples leaves nothing on one side")
    parts = []
    for where in (slice(0, at), slice(at, count)):
        arrays: Any = {k: a[where] for k, a in source.arrays.items()} if isinstance(source.arrays, dict) else \
            [a[where] for a in fields(source)]
        made = Data(arrays=arrays, shuffle=source.shuffle)
        made.labels, made.weights = source.labels, source.weights
        parts.append(made)
    return parts[0], parts[1]

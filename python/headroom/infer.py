"""Evaluation and prediction with a trained model, inside a budget."""
from __future__ import annotations

import ctypes as c
from typing import Any, Optional

from .arranged import arranged
from .errors import DoesNotFit, UsageError
from .event import Listener, interruptible, plain
from .library import call, check, context, each, fill, kinds, library, shape_of, text
from .models import Model
from .options import resolve
from .progress import screen
from .sources import Pipeline, as_data


class Result:
    """Loss and accuracy over the data, with what was measured; `classes` has samples, correct and confusions of each class."""

    def __init__(self, numbers: dict[str, Any], classes: list[dict[str, Any]]) -> None:
        self.numbers, self.classes = numbers, classes

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_") or name == "numbers" or name not in self.numbers:
            raise AttributeError(name)
        return self.numbers[name]

    def __repr__(self) -> str:
        shown = [f"{k} {self.numbers[k]:.4g}" for k in ("loss", "accuracy", "top5") if self.numbers[k] is not None]
        return f"<{', '.join(shown)} over {self.numbers['samples']} samples>"


class Predictor:
    """An open hr_predictor with all that it points to."""

    def __init__(self, model: Any, data: Any, labels: bool, loss: Any, verbose: Any, options: dict[str, Any]) -> None:
        from . import _c

        self.handle = c.c_void_p()
        self.pipeline: Optional[Pipeline] = None
        source = arranged(model, data) if labels else as_data(data)
        if source is None:
            raise UsageError("there is no data")
        self.listener = Listener((), screen(verbose))
        self.model: Model = resolve(model, source, loss, {"custom_ops": options.pop("custom_ops", False)}, labels)
        o = fill(_c.hr_infer_options, checkpoint=self.model.checkpoint().encode(), no_labels=not labels,
                 on_event=self.listener.function)
        if self.model.custom or self.model.exported is not None:  # a file of weights has the name of an export, not its graph
            o.custom_model = self.model.opened()
        known = kinds(_c.hr_infer_options)
        for key, value in options.items():
            if key not in known or key in ("size", "checkpoint", "data", "pipeline", "on_event", "user", "no_labels", "custom_model"):
                raise UsageError(f"there is no option {key!r}")
            if key == "split":
                value = ("all", "train", "val").index(value)
            if value is not None:
                setattr(o, key, str(value).encode() if known[key] is c.c_char_p else value)
        try:
            if source.text is not None:
                o.data = source.text.encode()
            else:
                self.pipeline = source.open(self.model.inputs, False, int(options.get("batch") or 0),
                                            int(options.get("data_budget_bytes") or 0))
                o.pipeline = self.pipeline.handle
            self.call("hr_predictor_open", context(), c.byref(o), c.byref(self.handle))
            self.info = fill(_c.hr_infer_info)
            check(library().hr_predictor_get_info(self.handle, c.byref(self.info)))
            if not self.info.fits:
                raise DoesNotFit(text(self.info.refusal), self.info.minimum_bytes)
        except BaseException:
            self.close()
            raise

    def call(self, name: str, *arguments: Any) -> None:
        try:
            interruptible(self.listener, lambda: call(name, *arguments))
        except Exception as e:
            self.listener.raise_failure()
            self.model.raise_failure()
            if self.pipeline is not None:
                self.pipeline.raise_failure(e)
            raise

    def close(self) -> None:
        if self.handle:
            library().hr_predictor_close(self.handle)
            self.handle = c.c_void_p()
        if self.pipeline is not None:
            self.pipeline.close()


def evaluate(model: Any, data: Any, *, budget: Any = None, batch: Optional[int] = None, loss: Any = None, verbose: Any = False,
             **options: Any) -> Result:
    """Loss, accuracy and a table of classes over data with labels.

    model: a Model that fit has trained, a checkpoint, the folder of a run, a .hr file with weights, a torch module or a Keras model.
    Options: device, threads, skip_bad, split="val" (samples that a run held out) and so on."""
    from . import _c

    p = Predictor(model, data, True, loss, verbose, {"budget": budget, "batch": batch, **options})
    try:
        result = fill(_c.hr_infer_result)
        p.call("hr_predictor_evaluate", p.handle, c.byref(result))
        classes = [plain(x) for x in each("hr_predictor_get_class", _c.hr_class_result, p.handle)]
        return Result({**plain(result), "planned_peak_bytes": p.info.peak_bytes}, classes)
    finally:
        p.close()


def predict(model: Any, data: Any, *, budget: Any = None, batch: Optional[int] = None, loss: Any = None, verbose: Any = False,
            **options: Any) -> Any:
    """The model's output for every sample, (samples, ...) in the model's own order of dimensions; scores before softmax where it
    classifies.  data without labels: x, or a text such as "images:DIR"."""
    import numpy as np

    from . import _c

    p = Predictor(model, data, False, loss, verbose, {"budget": budget, "batch": batch, **options})
    rows: list[Any] = []
    failure: list[BaseException] = []

    def one(_user: Any, address: int) -> int:
        try:
            found = _c.hr_prediction.from_address(address)
            shape = shape_of(found.output_meta.shape)
            count = int(np.prod(shape, dtype=np.int64))
            raw: Any = (c.c_float * count).from_address(found.output)
            rows.append(np.frombuffer(raw, "float32").reshape(shape).copy())
            return 0
        except BaseException as e:
            failure.append(e)
            return _c.HR_E_CANCELLED

    try:
        p.call("hr_predictor_run", p.handle, _c.hr_prediction_fn(one), None, None)
    except Exception:
        if failure:
            raise failure[0] from None
        raise
    finally:
        p.close()
    out = np.stack(rows) if rows else np.zeros((0,), "float32")
    order = p.model.exported.outputs[0] if p.model.exported is not None and p.model.exported.outputs else None
    if order and len(order) == out.ndim:
        from .build import inverse

        out = out.transpose(inverse(tuple(order)))
    return out

"""Neural networks trained inside a stated amount of memory.

    import headroom as hr

    plan = hr.plan("resnet18:classes=10,size=64", batch=64, budget="900MiB")    does it fit, and in how many bytes?
    history = hr.fit(model, (x, y), budget="6GiB", epochs=3)                     torch module, Keras model, name, file, function
    hr.evaluate(model, (x, y)), hr.predict(model, x)
    with hr.session(model, batch=32, budget="1GiB") as s: loss = s.step(x, y)    a loop of your own

Importing this opens nothing: the library at the first call, NumPy and frameworks when a call needs them.  docs/python.md is the
guide."""
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from .define import Custom, Graph, Value, ops
    from .errors import DataError, DoesNotFit, Error, MachineError, Refused, TrainingError, UsageError, Way
    from .event import Event, StopTraining
    from .infer import Result, evaluate, predict
    from .machine import Device, devices, doctor
    from .models import Model, model
    from .planning import Plan, plan, plan_problem
    from .run import Run
    from .sources import Data, data
    from .train import History, Session, fit, session, together

_WHERE = {
    "sources": ("Data", "data"), "define": ("Custom", "Graph", "Value", "ops"),
    "errors": ("DataError", "DoesNotFit", "Error", "MachineError", "Refused", "TrainingError", "UsageError", "Way"),
    "event": ("Event", "StopTraining"), "infer": ("Result", "evaluate", "predict"), "machine": ("Device", "devices", "doctor"),
    "models": ("Model", "model"), "planning": ("Plan", "plan", "plan_problem"), "run": ("Run",),
    "train": ("History", "Session", "fit", "session", "together"),
}
_NAMES = {name: module for module, names in _WHERE.items() for name in names}
__all__ = [  # noqa: F822
    "Custom", "Data", "DataError", "Device", "DoesNotFit", "Error", "Event", "Graph", "History", "MachineError", "Model",
    "Plan", "Refused", "Result", "Run", "Session", "StopTraining", "TrainingError", "UsageError", "Value", "Way", "data", "devices",
    "doctor", "evaluate", "fit", "model", "ops", "plan", "plan_problem", "predict", "session", "together"]


def __getattr__(name: str) -> Any:
    if name == "compiled":
        from importlib import import_module

        return import_module(".compiled", __name__)
    if name not in _NAMES:
        raise AttributeError(f"module 'headroom' has no attribute {name!r}")
    from importlib import import_module

    module = import_module(f".{_NAMES[name]}", __name__)
    for public in _WHERE[_NAMES[name]]:
        globals()[public] = getattr(module, public)
    return globals()[name]


def __dir__() -> list[str]:
    return __all__

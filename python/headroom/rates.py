"""Learning rates from outside: a function of the step, a schedule of Keras, or a scheduler of torch, which is read and left as it is."""
from __future__ import annotations

import copy
from typing import Any, Callable, Optional

from .errors import Refused, UsageError

MOVES_MOMENTUM = ("OneCycleLR", "CyclicLR")


def is_scheduler(x: Any) -> bool:
    """Of torch: it has an optimizer, which it steps."""
    return hasattr(x, "optimizer") and hasattr(x, "step")


class Stand:
    """What a scheduler sees of its optimizer: groups, and that it has stepped."""

    def __init__(self, optimizer: Any) -> None:
        self.param_groups = [{k: v for k, v in g.items() if k != "params"} for g in optimizer.param_groups]
        self.defaults = dict(optimizer.defaults)
        self._step_count = 1
        self._opt_called = True

    def step(self) -> None:
        pass

    step._wrapped_by_lr_sched = True  # type: ignore[attr-defined]


class Scheduler:
    """The rates of a scheduler of torch, in order: its copy steps a stand-in."""

    def __init__(self, scheduler: Any) -> None:
        kind = type(scheduler).__name__
        if kind == "ReduceLROnPlateau":
            raise Refused('the scheduler ReduceLROnPlateau: here it is schedule="plateau", with every=, gamma= and val_data')
        inside = [scheduler, *getattr(scheduler, "_schedulers", [])]
        if any(type(s).__name__ in MOVES_MOMENTUM and getattr(s, "cycle_momentum", False) for s in inside):
            raise Refused(f"the scheduler {kind} moves the momentum, too: give cycle_momentum=False")
        self.stand = Stand(scheduler.optimizer)
        self.own = copy.deepcopy(scheduler, {id(scheduler.optimizer): self.stand})
        self.bases = [float(g.get("initial_lr", g["lr"])) for g in self.stand.param_groups]
        self.rates: list[float] = []

    def _now(self) -> float:
        """The rate of the first group; those of the others are theirs by the same factors as at the beginning."""
        found = [float(g["lr"]) for g in self.stand.param_groups]
        for lr, base in zip(found, self.bases):
            if abs(lr * self.bases[0] - found[0] * base) > 1e-6 * max(abs(lr * self.bases[0]), abs(found[0] * base)):
                raise Refused("a scheduler that changes the rates of parameter groups by different factors")
        return found[0]

    def __call__(self, step: int) -> float:
        while len(self.rates) <= step:
            if self.rates:
                self.own.step()
            self.rates.append(self._now())
        return self.rates[step]


class Rates:
    """The rate of each step, counted by steps or by epochs."""

    def __init__(self, schedule: Any, by: str) -> None:
        if by not in ("step", "epoch"):
            raise UsageError(f"schedule_by={by!r}: there are \"step\" and \"epoch\"")
        self.by = by
        self.of: Callable[[int], Any] = Scheduler(schedule) if is_scheduler(schedule) else schedule

    def at(self, steps: int, epochs: int) -> float:
        return float(self.of(epochs if self.by == "epoch" else steps))

    def listed(self, options: dict[str, Any], count: Optional[int]) -> list[float]:
        """All of them, for a process that has no framework; `count`: samples of an epoch."""
        n = int(options.get("epochs") or 0) if self.by == "epoch" else int(options.get("steps") or 0)
        if not n and self.by == "step" and count and options.get("batch") and options.get("epochs"):
            n = -(-count // int(options["batch"])) * int(options["epochs"])
        if not n:
            raise UsageError('process="own" with a schedule object needs steps=, or epochs= and batch= with arrays: its rates are listed '
                             "beforehand")
        return [float(self.of(i)) for i in range(n)]


def listed_rates(rates: list[float]) -> Callable[[int], float]:
    return lambda i: rates[min(i, len(rates) - 1)]


def take(given: dict[str, Any]) -> Optional[Rates]:
    """A schedule that is no name, out of the options."""
    by = given.pop("schedule_by", None)
    schedule = given.get("schedule")
    if schedule is None or isinstance(schedule, str):
        if by is not None:
            raise UsageError("schedule_by= is for a schedule that is an object or a function")
        return None
    del given["schedule"]
    if isinstance(schedule, list):
        return Rates(listed_rates(schedule), by or "step")
    if not callable(schedule) and not is_scheduler(schedule):
        raise UsageError(f"schedule={schedule!r} is neither a name, nor a function of the step, nor a scheduler")
    return Rates(schedule, by or "step")

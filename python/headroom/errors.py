"""What can go wrong, as exceptions.  Each carries the library's own sentence; the class says who has to act."""
from __future__ import annotations

from typing import Any, Sequence


class Error(Exception):
    """A failure of the library, in its own words.  `status` is its code ("HR_E_LIMIT"; "" where Python found it)."""

    def __init__(self, message: str, status: str = "") -> None:
        super().__init__(message)
        self.status = status


class UsageError(Error, ValueError):
    """An option, a model or a path that is not right."""


class DataError(Error):
    """A sample or a file of data that cannot be used.  An exception of your own source is its __cause__."""


class TrainingError(Error):
    """The loss is not finite."""


class MachineError(Error):
    """Device, disk or host memory."""


class Way:
    """A change with which a refused job fits: keyword arguments for the same call."""

    def __init__(self, changes: dict[str, str], effect: str, budget_bytes: int, peak_bytes: int, time_ratio: float,
                 needs_more: bool, changes_result: bool) -> None:
        self.changes, self.effect = changes, effect
        self.budget_bytes, self.peak_bytes, self.time_ratio = budget_bytes, peak_bytes, time_ratio
        self.needs_more, self.changes_result = needs_more, changes_result

    def __repr__(self) -> str:
        return ", ".join(f"{k.replace('-', '_')}={v!r}" for k, v in self.changes.items())


class DoesNotFit(Error):
    """The answer "no": nothing was allocated.

    `minimum_bytes`: no plan needs less; `op`: what sets it; `ways`: changes with which it fits, planned and checked; `plan`:
    the refused plan with every number (None from evaluate, predict and Run)."""

    def __init__(self, message: str, minimum_bytes: int = 0, op: str = "", ways: Sequence[Way] = (), plan: Any = None) -> None:
        super().__init__(message, "HR_E_NO_PLAN")
        self.minimum_bytes, self.op, self.ways, self.plan = minimum_bytes, op, list(ways), plan


class Refused(Error):
    """What cannot be taken from another framework, with the user's own place in the source."""

    def __init__(self, what: str, where: str = "") -> None:
        super().__init__(f"{where}: {what}" if where else what)
        self.what, self.where = what, where

"""What happens while the library works: events to callbacks and to the screen, exceptions and Ctrl-C out of C code.

The library calls back on the thread that called it, at least every 100 ms.  Nothing may be raised through C code, so whatever a
callback raises is kept, the library is told to stop, and it is raised when the C call has returned."""
from __future__ import annotations

import ctypes as c
from contextlib import contextmanager
from typing import Any, Callable, Iterable, Iterator, Optional

from .errors import UsageError
from .library import UNKNOWN, text

KINDS = ("tick", "started", "step", "validated", "epoch", "saved", "save_failed", "resized", "bad_sample", "warning")


class StopTraining(Exception):
    """Raised by a callback: finish this step, save, and return what was reached."""


class Event:
    """One event: `kind` is one of KINDS; step, epoch and validation events have numbers.

    Numbers that an event does not have are None.  stop() ends training after this step, with a checkpoint."""

    def __init__(self, kind: str, words: str = "", numbers: Optional[dict[str, Any]] = None, done: int = 0, total: int = 0,
                 session: Any = None) -> None:
        self.kind, self.text, self.numbers, self.done, self.total = kind, words, numbers or {}, done, total
        self.session = session
        self.stopped = False

    @classmethod
    def of(cls, raw: Any, session: Any = None) -> "Event":
        """From an hr_job_event."""
        from . import _c

        kind = KINDS[raw.kind] if raw.kind < len(KINDS) else "unknown"
        numbers = plain(_c.hr_numbers.from_address(raw.numbers)) if raw.numbers else None
        return cls(kind, text(raw.text), numbers, int(raw.done), int(raw.total), session)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_") or not self.numbers:
            raise AttributeError(name)
        if name not in self.numbers:
            raise AttributeError(f"{name}: an event has {', '.join(self.numbers)}")
        return self.numbers[name]

    def stop(self) -> None:
        self.stopped = True

    @property
    def logs(self) -> dict[str, float]:
        """As Keras calls them: what is a number, and what of it is known."""
        keep = ("loss", "accuracy", "top5", "learning_rate", "gradient_norm", "samples_per_second")
        return {k: v for k, v in self.numbers.items() if k in keep and v is not None}


def plain(struct: Any) -> dict[str, Any]:
    """The fields of a struct as Python values; NAN and HR_UNKNOWN are None, texts are str."""
    out: dict[str, Any] = {}
    for name, kind in struct._fields_:
        if name in ("size", "reserved"):
            continue
        value = getattr(struct, name)
        if isinstance(value, bytes):
            value = text(value)
        elif isinstance(value, float) and value != value or value == UNKNOWN:
            value = None
        elif value is None and kind is c.c_char_p:
            value = ""
        out[name] = value
    return out


@contextmanager
def interrupts(listener: "Listener") -> Iterator[None]:
    """Ctrl-C is noted in place of raised, because it must not be raised on the way into or out of a callback.  The second one raises.

    In the main thread alone, and where the program has no handler of its own, which is left as it is."""
    import signal
    import threading

    mine = threading.current_thread() is threading.main_thread() and signal.getsignal(signal.SIGINT) is signal.default_int_handler

    def pressed(_number: int, _frame: Any) -> None:
        if listener.failure is not None:
            raise KeyboardInterrupt
        listener.failure, listener.stopping = KeyboardInterrupt(), True

    if mine:
        signal.signal(signal.SIGINT, pressed)
    try:
        yield
    finally:
        if mine:
            signal.signal(signal.SIGINT, signal.default_int_handler)


def interruptible(listener: "Listener", do: Callable[[], Any]) -> Any:
    """A call of the library that Ctrl-C ends at its next tick; there is nothing to save, so KeyboardInterrupt comes out."""
    with interrupts(listener):
        try:
            result = do()
        except Exception:
            if isinstance(listener.failure, KeyboardInterrupt):
                listener.raise_failure()
            raise
    if isinstance(listener.failure, KeyboardInterrupt):
        listener.raise_failure()
    return result


INSTEAD = {"EarlyStopping": "patience=3", "ModelCheckpoint": "folder=", "ReduceLROnPlateau": 'schedule="plateau"',
           "LearningRateScheduler": "schedule=, warmup= and steps=",
           "TensorBoard": "tensorboard=", "BackupAndRestore": "folder= and start=\"resume\""}


def refuse(callback: Any) -> None:
    """Callbacks of Keras that read or change its model: that has its weights when training has ended, and its optimizer does not run."""
    kind = type(callback)
    if kind.__module__.startswith("keras.src.callbacks") and kind.__name__ in INSTEAD:
        raise UsageError(f"the callback {kind.__name__} of Keras works on Keras's own training; here it is {INSTEAD[kind.__name__]}")


class Listener:
    """An hr_job_event_fn over Python callables.  Keep it as long as C may call it."""

    def __init__(self, callbacks: Iterable[Any] = (), screen: Optional[Callable[[Event], None]] = None) -> None:
        from . import _c

        self.callbacks = list(callbacks)
        for one in self.callbacks:
            refuse(one)
        self.screen = screen
        self.failure: Optional[BaseException] = None
        self.stopping = False
        self.session: Any = None  # a weak reference: C holds this object as long as the session lives
        self.val_logs: dict[str, float] = {}
        self.warnings: list[str] = []
        self.function = _c.hr_job_event_fn(self._called)

    def _called(self, _user: Any, address: int) -> int:
        from . import _c

        try:
            session = self.session() if self.session is not None else None
            self.give(Event.of(_c.hr_job_event.from_address(address), session))
        except StopTraining:
            self.stopping = True
        except KeyboardInterrupt as e:
            self.failure, self.stopping = e, True
        except BaseException as e:
            self.failure = e
            return _c.HR_E_INVALID  # the caller failed: nothing is saved
        return _c.HR_E_CANCELLED if self.stopping else _c.HR_OK

    def give(self, event: Event) -> None:
        """To the screen and to every callback."""
        if event.kind == "validated":
            self.val_logs = {f"val_{k}": v for k, v in event.logs.items() if k in ("loss", "accuracy", "top5")}
        if event.kind == "warning":
            self.warnings.append(event.text)
        if self.screen is not None:
            self.screen(event)
        for callback in self.callbacks:
            self._one(callback, event)
        self.stopping = self.stopping or event.stopped

    def _one(self, callback: Any, event: Event) -> None:
        """A function gets every event but ticks; an object those that it has a method for, with Keras's names and arguments."""
        if callable(callback) and not hasattr(callback, "on_epoch_end"):
            if event.kind != "tick" and callback(event) is False:
                event.stop()
            return
        if event.kind == "step":
            for name in ("on_step", "on_train_batch_end"):
                if hasattr(callback, name):
                    getattr(callback, name)(event.numbers["step"], event.logs)
        elif event.kind == "epoch" and hasattr(callback, "on_epoch_end"):
            callback.on_epoch_end(event.numbers["epoch"] - 1, {**event.logs, **self.val_logs})
        elif event.kind == "validated" and hasattr(callback, "on_test_end"):
            callback.on_test_end(event.logs)

    def hook(self, name: str) -> None:
        """on_train_begin and on_train_end of objects that have them."""
        for callback in self.callbacks:
            method = getattr(callback, name, None)
            if method is not None:
                method()

    def raise_failure(self) -> None:
        if self.failure is not None:
            failure, self.failure = self.failure, None
            raise failure

"""Training: fit to the end, or a session step by step."""
from __future__ import annotations

import ctypes as c
import os
import weakref
from typing import Any, Iterable, Mapping, Optional, Sequence

from .errors import Error, UsageError
from .event import Event, Listener, StopTraining, interrupts, plain
from .library import NUMPY, TYPES, call, check, collect, each, fill, library, make_meta, shape_of, text
from .models import Model
from .models import model as make_model
from .options import Job, with_optimizer
from .planning import Plan, make_plan, with_failures
from .progress import screen
from .sources import array


class History:
    """What a training gave: `history` has a list an epoch for each number, as in Keras; `model` carries the weights.

    Every number of `headroom train --json` is an attribute: loss, accuracy, steps, measured_peak_bytes and so on."""

    def __init__(self, model: Model) -> None:
        self.model = model
        self.history: dict[str, list[float]] = {}
        self.losses: list[float] = []
        self.numbers: dict[str, Any] = {}
        self._validation: dict[str, float] = {}
        self._text = ""

    def __call__(self, event: Event) -> None:
        if event.kind == "step":
            self.losses.append(event.numbers["loss"])
        elif event.kind == "validated":
            self._validation = {f"val_{k}": v for k, v in event.logs.items() if k in ("loss", "accuracy", "top5")}
        elif event.kind == "epoch":
            for k, v in {**event.logs, **self._validation}.items():
                self.history.setdefault(k, []).append(v)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_") or name == "numbers" or name not in self.numbers:
            raise AttributeError(name)
        return self.numbers[name]

    def __str__(self) -> str:
        return self._text.rstrip("\n")


class Session:
    """A training whose loop is yours.  Nothing allocates device memory after it is open.

    step() trains on a batch of your own, advance() on the session's data.  gradients() and apply() with keep_gradients=True."""

    def __init__(self, plan: Plan, index: int = 0) -> None:
        self.plan, self.index, self.job = plan, index, plan.jobs[index]
        self.model = self.job.model
        self.handle = c.c_void_p()
        self._names: dict[str, Any] = {}
        self._call("hr_trainer_open", plan.handle, index, c.byref(self.handle))
        plan.trainers[index] = self.handle  # closed with the plan at the latest
        if self.job.listener is not None:
            self.job.listener.session = weakref.ref(self)

    def _call(self, name: str, *arguments: Any) -> None:
        if not self.plan.handle or (name != "hr_trainer_open" and not self.handle):
            raise UsageError("this session is closed")
        with_failures([self.job], lambda: call(name, *arguments))

    # ---- a batch of your own ----

    def _fields(self, arrays: Sequence[Any], named: Mapping[str, Any]) -> tuple[Any, int, list[Any]]:
        """The arrays as hr_field: in the order of the model's inputs, or by name, in the model's types and layout."""
        import numpy as np

        from . import _c

        inputs = self.model.inputs
        if len(arrays) > len(inputs):
            raise UsageError(f"{len(arrays)} arrays for {len(inputs)} inputs: {', '.join(map(repr, inputs))}")
        pairs = [(i, a) for i, a in zip(inputs, arrays)]
        known = {i.name: i for i in inputs}
        for name, a in named.items():
            if name not in known:
                raise UsageError(f"the model has no input {name!r}; it has {', '.join(known)}")
            pairs.append((known[name], a))
        fields, kept = (_c.hr_field * len(pairs))(), []
        for f, (i, a) in zip(fields, pairs):
            x = array(a)
            if i.order:
                x = x.transpose((0, *[d + 1 for d in i.order]))
            x = np.ascontiguousarray(x, NUMPY[TYPES.index(i.type)])
            f.name, f.bytes, f.data, f.meta = i.name.encode(), x.nbytes, x.ctypes.data, make_meta(i.type, x.shape)
            kept.append(x)
        return fields, len(pairs), kept

    def step(self, *arrays: Any, **named: Any) -> float:
        """One update on a batch of your own; its loss.  `numbers` has the rest."""
        self._scheduled()
        return self._feed("hr_trainer_step", arrays, named)

    def evaluate(self, *arrays: Any, **named: Any) -> dict[str, Any]:
        """Forward only; loss, accuracy, top5.  Needs val_batch or val_data when the session is opened."""
        self._feed("hr_trainer_evaluate", arrays, named)
        return {k: self.numbers[k] for k in ("samples", "loss", "accuracy", "top5")}

    def _feed(self, function: str, arrays: Sequence[Any], named: Mapping[str, Any], *more: Any) -> float:
        from . import _c

        fields, count, kept = self._fields(arrays, named)
        numbers = fill(_c.hr_numbers)
        self._call(function, self.handle, fields, count, *more, c.byref(numbers))
        del kept
        self.numbers = plain(numbers)
        return float("nan") if self.numbers["loss"] is None else float(self.numbers["loss"])

    def gradients(self, *arrays: Any, share: float = 1.0, **named: Any) -> dict[str, Any]:
        """The gradient of a batch's loss for each parameter, as arrays; `loss` is in numbers.  Called again before apply() it adds,
        weighted by `share`."""
        self._feed("hr_trainer_backward", arrays, named, share)
        return {name: self.gradient(name) for name in self.parameters}

    def gradient(self, name: str) -> Any:
        import numpy as np

        out = np.empty(self.values[name][1], "float32")
        check(library().hr_trainer_get_gradient(self.handle, name.encode(), out.ctypes.data, out.nbytes))
        return out

    def apply(self, gradients: Optional[Mapping[str, Any]] = None) -> float:
        """Clips and updates, with the gradients as they are or with these in their place; the loss."""
        import numpy as np

        from . import _c

        self._scheduled()
        for name, g in (gradients or {}).items():
            a = np.asarray(array(g), "float32", order="C")
            check(library().hr_trainer_put_gradient(self.handle, name.encode(), a.ctypes.data, a.nbytes))
        numbers = fill(_c.hr_numbers)
        self._call("hr_trainer_apply", self.handle, c.byref(numbers))
        self.numbers = plain(numbers)
        return float("nan") if self.numbers["loss"] is None else float(self.numbers["loss"])

    # ---- its own data ----

    def _scheduled(self) -> None:
        """The rate of the next step, where a schedule is an object or a function."""
        if self.job.rates is not None:
            done = self.result()
            self.set_rate(self.job.rates.at(int(done["steps"] or 0), int(done["epochs"] or 0)))

    def advance(self) -> None:
        """One update from the session's data, then what is due: validation, checkpoint, early stop."""
        self._scheduled()
        self._call("hr_trainer_advance", self.handle)

    @property
    def running(self) -> bool:
        return bool(library().hr_trainer_end(self.handle) == 0)

    def validate(self) -> dict[str, Any]:
        from . import _c

        numbers = fill(_c.hr_numbers)
        self._call("hr_trainer_validate", self.handle, c.byref(numbers))
        return plain(numbers)

    def finish(self) -> None:
        """Ends the run now, with a checkpoint if it has a folder."""
        self._call("hr_trainer_finish", self.handle)

    # ---- values and files ----

    @property
    def values(self) -> dict[str, tuple[str, tuple[int, ...], str]]:
        """Every parameter and state: type, shape, "param" or "state"."""
        from . import _c

        if not self._names:
            for v in each("hr_trainer_get_value", _c.hr_value_info, self.handle):
                kind = "param" if v.kind == _c.HR_VALUE_PARAM else "state"
                self._names[text(v.name)] = (TYPES[v.type], shape_of(v.shape), kind)
        return self._names

    @property
    def parameters(self) -> list[str]:
        return [n for n, (_, _, kind) in self.values.items() if kind == "param"]

    def __getitem__(self, name: str) -> Any:
        """A copy of a parameter or state."""
        import numpy as np

        if name not in self.values:
            raise KeyError(name)
        type_, shape, _ = self.values[name]
        out = np.empty(shape, NUMPY[TYPES.index(type_)] or "uint16")
        check(library().hr_trainer_get(self.handle, name.encode(), out.ctypes.data, out.nbytes))
        return out

    def __setitem__(self, name: str, value: Any) -> None:
        import numpy as np

        if name not in self.values:
            raise KeyError(name)
        type_, shape, _ = self.values[name]
        a = np.array(np.broadcast_to(array(value), shape), NUMPY[TYPES.index(type_)] or "uint16", order="C")
        check(library().hr_trainer_put(self.handle, name.encode(), a.ctypes.data, a.nbytes))

    def set_rate(self, rate: Optional[float]) -> None:
        """Overrides the schedule; None: back to it."""
        check(library().hr_trainer_set_learning_rate(self.handle, float("nan") if rate is None else rate))

    def save(self, path: Any = None) -> None:
        """A checkpoint that can be resumed."""
        self._call("hr_trainer_save", self.handle, os.fsencode(path) if path is not None else None)

    def save_weights(self, path: Any) -> None:
        """Parameters and running statistics as safetensors."""
        self._call("hr_trainer_save_weights", self.handle, os.fsencode(path))

    def load_weights(self, path: Any) -> None:
        self._call("hr_trainer_load_weights", self.handle, os.fsencode(path))

    def give_back(self) -> None:
        """The weights into the model: its file, and the framework's own object if it came from one."""
        path = os.path.join(self.model.folder(), "trained.safetensors")
        self.save_weights(path)
        self.model.weights = path
        self.model.give_back(int(self.result()["steps"] or 0))

    def result(self) -> dict[str, Any]:
        """Every number so far."""
        from . import _c

        r = fill(_c.hr_train_result)
        check(library().hr_job_get_result(self.plan.handle, self.index, c.byref(r)))
        found = plain(r)
        found["end"] = ("running", "done", "early", "cancelled", "failed")[found["end"]]
        return found

    def close(self) -> None:
        """Saves nothing; the memory goes back with the plan."""
        if self.plan.trainers.pop(self.index, None) is not None:
            library().hr_trainer_close(self.handle)
        self.handle = c.c_void_p()

    def __enter__(self) -> "Session":
        return self

    def __exit__(self, *_: Any) -> None:
        try:
            if _[0] is None:
                self.give_back()
        finally:
            self.close()
            self.plan.close()


def open_sessions(jobs: list[Job]) -> list[Session]:
    p = make_plan(jobs)
    try:
        p.check_fits()
        return [Session(p, i) for i in range(len(jobs))]
    except BaseException:
        p.close()
        raise


def session(model: Any, data: Any = None, *, batch: int, budget: Any = None, callbacks: Iterable[Any] = (), verbose: Any = False,
            **options: Any) -> Session:
    """Opens a training for a loop of your own; use it in `with`.  On leaving, the weights are in the model.

    Takes the options of fit.  Raises DoesNotFit.  data is needed for advance() and for torch modules; otherwise batches come with
    step()."""
    given = {"check": True, "batch": batch, "budget": budget, **options}
    listener = Listener(callbacks, screen(verbose))
    return open_sessions([own_loop(model, data, given, listener)])[0]


def own_loop(model: Any, data: Any, given: dict[str, Any], listener: Listener) -> Job:
    """A job whose batches come from the caller: the library learns the form of a sample from zeros that nobody reads."""
    if data is not None:
        return Job(model, data, given, listener)
    import numpy as np

    m = make_model(model, loss=given.get("loss"))
    options = {k: v for k, v in with_optimizer(model, given).items() if k not in ("loss", "check")}
    zeros = {}
    for i in m.inputs:
        shape = [0] * len(i.shape)
        for k, d in enumerate(i.order or range(len(i.shape))):
            shape[d] = i.shape[k]
        zeros[i.name] = np.zeros((int(given["batch"]), *shape), NUMPY[TYPES.index(i.type)] or "float32")
    return Job(m, zeros, {"data_budget_bytes": 0, **options}, listener)


class Sessions:
    """Several trainings in one arena: it holds the persistent values of all and the activations of the largest."""

    def __init__(self, sessions: list[Session]) -> None:
        self.sessions = sessions

    def __enter__(self) -> list[Session]:
        return self.sessions

    def __exit__(self, *_: Any) -> None:
        try:
            if _[0] is None:
                for s in self.sessions:
                    s.give_back()
        finally:
            for s in self.sessions:
                s.close()
            self.sessions[0].plan.close()


def together(*jobs: Mapping[str, Any], budget: Any = None) -> Sessions:
    """Sessions that take turns in one arena: each argument has the arguments of `session` by name.

        with hr.together(dict(model="lenet", batch=8), dict(model=critic, batch=8), budget="200MiB") as (a, b): ..."""
    made = []
    for i, given in enumerate(jobs):
        options = {"check": True, **given}
        if i == 0 and budget is not None:
            options["budget"] = budget
        m, d, callbacks = options.pop("model"), options.pop("data", None), options.pop("callbacks", ())
        made.append(own_loop(m, d, options, Listener(callbacks)))
    return Sessions(open_sessions(made))


def fit(model: Any, data: Any, *, epochs: Optional[int] = None, steps: Optional[int] = None, batch: Optional[int] = None,
        budget: Any = None, val_data: Any = None, val_split: Optional[float] = None, loss: Any = None, optimizer: Any = None,
        callbacks: Iterable[Any] = (), verbose: Any = True, process: Optional[str] = None, check: bool = True,
        **options: Any) -> History:
    """Trains inside a budget and leaves the weights and statistics in the model.

    model, data: whatever `hr.model` and `hr.data` take.  budget: "6GiB", "50%", bytes; on the host it covers this whole process.
    loss: of torch and Keras models.  optimizer: "sgd", "adam", "adamw", "rmsprop", or an optimizer object of torch or Keras, of which
    class and settings are read, rates and decays of its parameter groups too.  schedule: a name, a function of the step's number, or a
    scheduler of torch or Keras; schedule_by="epoch" counts epochs.  Other options have the names of the command's flags: rate, decay,
    clip, warmup, precision, device, micro_batches, accumulate, seed, folder, start, patience and so on (`headroom train --help`).

    callbacks: functions that get an Event (return False or call event.stop() to stop), or objects with on_epoch_end(epoch, logs),
    on_step(step, logs), on_train_begin(), on_train_end() and on_test_end(logs).

    process="own": in a child that imports no framework, since a budget on the host covers the whole process.  Datasets and loaders stay
    here and are called as samples are needed.

    check: one step of a module of torch or a model of Keras, loss and every gradient, is first compared with its framework's own on at
    most eight samples of the data, in a child process; a difference raises Refused.  False skips it.

    Ctrl-C finishes the step, saves if there is a folder, keeps the weights in the model, and raises KeyboardInterrupt.
    Raises DoesNotFit before anything is allocated."""
    given = {"epochs": epochs, "steps": steps, "batch": batch, "budget": budget, "val_data": val_data, "val_split": val_split,
             "loss": loss, "optimizer": optimizer, "check": check, **options}
    listener = Listener(callbacks, screen(verbose, epochs or 0))
    if process == "own":
        from .own import train_apart

        history, interrupted = train_apart(model, data, given, listener)
    elif process is None:
        history, interrupted = train(Job(model, data, given, listener), listener)
    else:
        raise UsageError(f"process={process!r}: there is \"own\"")
    if interrupted is not None:
        raise interrupted
    return history


def train(job: Job, listener: Listener) -> tuple[History, Optional[BaseException]]:
    """Trains to the end; what was reached, and the Ctrl-C that ended it."""
    history = History(job.model)
    listener.callbacks.insert(0, history)
    with interrupts(listener):
        s = open_sessions([job])[0]
    try:
        listener.hook("on_train_begin")
        with interrupts(listener):
            interrupted = run(s, listener)
        s.give_back()
        history.numbers = s.result()
        history._text = collect(lambda write: library().hr_job_print(s.plan.handle, 0, 0, 0, write, None))
        listener.hook("on_train_end")
    finally:
        s.close()
        s.plan.close()
    return history, interrupted


def run(s: Session, listener: Listener) -> Optional[BaseException]:
    """Advances to the end.  A Ctrl-C is kept until the run has saved; it may come while Python runs or while C does."""
    from . import _c

    while s.running:
        try:
            s._scheduled()
            why = _c.hr_error()
            status = library().hr_trainer_advance(s.handle, c.byref(why))
        except KeyboardInterrupt as e:
            listener.failure, listener.stopping = e, True
            continue
        if status == _c.HR_E_CANCELLED and listener.stopping:
            failure, listener.failure = listener.failure, None
            return failure
        if status != 0:
            from .library import error

            e2 = error(status, why)
            s.job.raise_failure(e2)
            raise e2
    failure, listener.failure = listener.failure, None
    return failure


__all__ = ["Error", "History", "Session", "StopTraining", "fit", "session", "together"]

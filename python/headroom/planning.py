"""Plans: does it fit, and in how many bytes?"""
from __future__ import annotations

import ctypes as c
from typing import Any, Optional

from .errors import DoesNotFit, Error, UsageError, Way
from .event import Listener, interruptible, plain
from .library import call, check, collect, context, each, fill, library, text
from .options import Job
from .progress import screen

PAGE_MOST = 4 << 20  # characters, in a notebook


class Plan:
    """The verdict with every number.  print() shows what `headroom plan` does; a notebook draws it.

    Numbers are attributes: plan.fits, plan.peak_bytes, plan.minimum_bytes, plan.time_ratio and all others of `plan.numbers`."""

    def __init__(self, handle: c.c_void_p, jobs: list[Job]) -> None:
        self.handle, self.jobs = handle, jobs
        self.trainers: dict[int, c.c_void_p] = {}
        self.numbers: dict[str, Any] = {}
        self.refresh()

    def refresh(self) -> None:
        from . import _c

        s = fill(_c.hr_plan_summary)
        check(library().hr_plan_get_summary(self.handle, c.byref(s)))
        self.numbers = plain(s)
        for name in ("fits", "proven", "measured"):
            self.numbers[name] = bool(self.numbers[name])

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_") or name in ("numbers", "trainers", "handle", "jobs"):
            raise AttributeError(name)
        if name not in self.numbers:
            raise AttributeError(f"a plan has no {name!r}; it has {', '.join(self.numbers)}")
        return self.numbers[name]

    def __dir__(self) -> list[str]:
        return [*super().__dir__(), *self.numbers]

    def __bool__(self) -> bool:
        return bool(self.numbers["fits"])

    def print(self, format: str = "text", columns: int = 0) -> str:
        """As text, json, curve (SVG), map (SVG), problem (JSON) or dot."""
        kind = ("text", "json", "curve", "map", "problem", "dot").index(format)
        return collect(lambda write: library().hr_plan_print(self.handle, kind, columns, write, None))

    def __str__(self) -> str:
        return self.print().rstrip("\n")

    def __repr__(self) -> str:
        n = self.numbers
        return f"<plan of {n['model'] or 'a problem'}: {'fits' if n['fits'] else 'does not fit'}, {n['peak_bytes']} bytes>"

    def _repr_html_(self) -> str:
        from html import escape

        parts = [f"<pre>{escape(str(self))}</pre>"]
        for format_ in ("curve", "map"):
            try:
                parts.append(f"<div style='max-width:60em'>{self.print(format_)}</div>")
            except Exception:  # a plan without details has no map, one that was not explored no curve
                pass
        parts.append(self._page_html())
        return "\n".join(parts)

    def _page_html(self) -> str:
        """The page inside a notebook, folded; "" where there is none or it is too large for one."""
        import os
        import tempfile
        from html import escape

        with tempfile.TemporaryDirectory(prefix="headroom-") as folder:
            path = os.path.join(folder, "plan.html")
            try:
                self.page(path)
            except Error:
                return ""
            with open(path, encoding="utf-8") as file:
                page = file.read()
        if len(page) > PAGE_MOST:
            return ""
        return ("<details><summary>memory over time</summary><iframe style='width:100%;height:40em;border:0' sandbox='allow-scripts' "
                f"srcdoc=\"{escape(page)}\"></iframe></details>")

    def explore(self, batch: bool = True, choices: bool = True, curve: bool = True) -> "Plan":
        """Adds the largest batch, other budgets, and the curve of time over budget."""
        from . import _c

        what = (_c.HR_EXPLORE_BATCH if batch else 0) | (_c.HR_EXPLORE_CHOICES if choices else 0) | (_c.HR_EXPLORE_CURVE if curve else 0)
        self._interruptible(lambda: call("hr_job_explore", self.handle, what))
        self.refresh()
        return self

    @property
    def ways(self) -> list[Way]:
        """Changes with which a refused job fits."""
        from . import _c

        out = []
        for i, w in enumerate(each("hr_plan_get_way", _c.hr_plan_way, self.handle)):
            changes = {}
            for k in range(w.change_count):
                key, value = c.c_char_p(), c.c_char_p()
                check(library().hr_plan_get_way_change(self.handle, i, k, c.byref(key), c.byref(value)))
                changes[text(key.value)] = text(value.value)
            out.append(Way(changes, text(w.effect), w.budget_bytes, w.peak_bytes, w.time_ratio, bool(w.needs_more),
                           bool(w.changes_result)))
        return out

    @property
    def choices(self) -> list[dict[str, Any]]:
        """The same job with other budgets, after explore()."""
        from . import _c

        return [plain(x) for x in each("hr_plan_get_choice", _c.hr_plan_choice, self.handle)]

    @property
    def curve(self) -> list[dict[str, Any]]:
        """Budgets and times, after explore()."""
        from . import _c

        return [plain(x) for x in each("hr_plan_get_curve", _c.hr_plan_choice, self.handle)]

    def save(self, path: Any) -> None:
        """A file for plan_file=."""
        call("hr_plan_save", self.handle, str(path).encode())

    def page(self, path: Any) -> None:
        """The page of `headroom plan --html`: memory over time, every buffer by name, in one file for a browser."""
        call("hr_plan_save_page", self.handle, str(path).encode())

    def try_steps(self, steps: int = 3) -> dict[str, Any]:
        """Runs a few steps on synthetic data and measures: planned and measured bytes, losses, seconds."""
        from . import _c

        losses = (c.c_float * steps)()
        result = fill(_c.hr_try_result)
        self._interruptible(lambda: call("hr_job_try", self.handle, steps, losses, c.byref(result)))
        return {**plain(result), "losses": list(losses)}

    def _interruptible(self, do: Any) -> None:
        listener = self.jobs[0].listener if self.jobs else None
        if listener is None:
            with_failures(self.jobs, do)
        else:
            interruptible(listener, lambda: with_failures(self.jobs, do))

    def check_fits(self) -> None:
        """Raises DoesNotFit, with the minimum, the op that sets it and ways out."""
        n = self.numbers
        if not n["fits"]:
            raise DoesNotFit(str(self), n["minimum_bytes"], n["minimum_op"], self.ways, self)

    def close(self) -> None:
        """Gives everything back.  Happens by itself when the object is dropped."""
        while self.trainers:
            library().hr_trainer_close(self.trainers.popitem()[1])
        if self.handle:
            library().hr_plan_destroy(self.handle)
            self.handle = c.c_void_p()
        for job in self.jobs:
            job.close()

    def __del__(self) -> None:
        try:
            self.close()
        except Exception:
            pass


def with_failures(jobs: list[Job], do: Any) -> Any:
    """Calls the library; what the user's own code raised meanwhile comes out in place of the library's error."""
    try:
        result = do()
    except Exception as e:
        for job in jobs:
            job.raise_failure(e)
        raise
    for job in jobs:
        if job.listener is not None and not job.listener.stopping:
            job.listener.raise_failure()
    return result


def make_plan(jobs: list[Job]) -> Plan:
    from . import _c

    handle = c.c_void_p()
    try:
        if len(jobs) == 1:
            with_failures(jobs, lambda: call("hr_job_plan", context(), c.byref(jobs[0].struct), c.byref(handle)))
        else:
            pointers = (c.c_void_p * len(jobs))(*[c.addressof(j.struct) for j in jobs])
            with_failures(jobs, lambda: call("hr_job_plan_together", context(), pointers, len(jobs), c.byref(handle)))
    except BaseException:
        for job in jobs:
            job.close()
        raise
    assert _c
    return Plan(handle, jobs)


def plan(model: Any, data: Any = None, *, batch: Optional[int] = None, budget: Any = None, explore: bool = False,
         verbose: Any = False, **options: Any) -> Plan:
    """Plans a training and runs nothing.

    model: a name, a file, one line, a function, a torch module or a Keras model (`hr.model`).  data is not needed, unless the model
    is a torch module.  budget: "900MiB", "50%", a number of bytes; None: what the device has free.  Further options are those of
    fit, with the same names as the command's: optimizer, rate, precision, device, micro_batches, val_batch and so on.
    runtime="torch": a torch module as PyTorch itself runs it, through torch.compile(backend="headroom"): any module, with `data` the
    arguments of one call (and the labels, where there is a loss=), and nothing is exported (`headroom.compiled.plan`).

    The answer may be no: plan.fits, or `if plan:`."""
    if options.get("runtime") == "torch":
        from . import compiled

        del options["runtime"]
        if batch is not None:
            raise UsageError("with runtime=\"torch\" the batch is that of the data")
        return compiled.plan(model, data if isinstance(data, (tuple, list)) else (data,), budget=budget, **options)  # type: ignore[no-any-return]
    listener = Listener((), screen(verbose))
    job = Job(model, data, {"batch": batch, "budget": budget, **options}, listener)
    p: Plan = interruptible(listener, lambda: make_plan([job]))
    return p.explore() if explore else p


def plan_problem(problem: str, *, budget: Any = None, host_budget: Any = None, effort: int = 0, offload: bool = True) -> Plan:
    """Plans a problem of another system, JSON as in docs/problem-format.md."""
    from . import _c

    raw = problem.encode()
    o = fill(_c.hr_problem_options, text=raw, text_bytes=len(raw), effort=effort, no_offload=not offload)
    if budget is not None:
        o.budget = str(budget).encode()
    if host_budget is not None:
        o.host_budget = str(host_budget).encode()
    handle, listener = c.c_void_p(), Listener()
    o.on_event = listener.function
    interruptible(listener, lambda: call("hr_plan_problem", c.byref(o), c.byref(handle)))
    return Plan(handle, [])

"""Before a module of PyTorch or a model of Keras is trained: one step of both on a few of the user's own samples.

It is the comparison of `python -m headroom export` (check.py).  It runs in a forked child, so that this process's memory, gradients,
statistics and random numbers stay as they are; PyTorch has one thread there, because its pool does not outlive a fork.  Autograd refuses to
run in a child of a process that has used it; then it runs here, on a copy, and random numbers are put back.  A difference above the tolerance is refused with the parameter's name and the user's line.  What cannot be compared (too little memory, a backend that
does not run after a fork) is a warning, never a refusal."""
from __future__ import annotations

import ctypes as c
import os
import pickle
import select
import signal
import sys
import time
import warnings
import weakref
from typing import Any, Callable, Optional

from .errors import Error, Refused
from .event import Event, Listener
from .library import begin_anew, library

WITHIN, CERTAIN = 1e-4, 1e-2  # CERTAIN: where double precision cannot settle it, a difference above this is no rounding
MOST, LEAST = 8, 2  # samples
ACTIVATIONS = 256 << 20  # bytes of them that more than LEAST samples may have
SECONDS = 180.0
USED = "autograd was used before the fork"
SKIP = "check=False skips the comparison"

_done: "weakref.WeakKeyDictionary[Any, str]" = weakref.WeakKeyDictionary()  # a framework's model -> the text that was compared


class Asked:
    """What fit says of the comparison: whether, and how much memory there is for it."""

    def __init__(self, budget: Any = None, device: Any = None, process: Optional[str] = None, listener: Optional[Listener] = None) -> None:
        self.budget, self.device, self.process, self.listener = budget, device, process, listener

    def limit(self) -> int:
        """Bytes that the child may take: what the host has free and, where the budget is the host's, what it leaves."""
        from .machine import devices

        host = next(d for d in devices() if d.name == "host")
        if self.budget is None or not (self.device is None or str(self.device).startswith("host")):
            return int(host.free_bytes)
        granted = c.c_uint64()
        if library().hr_bytes_parse(str(self.budget).encode(), host.total_bytes, c.byref(granted)) != 0:
            return int(host.free_bytes)  # the plan says what is wrong with it
        held = 0 if self.process == "own" else resident()
        return int(min(host.free_bytes, max(0, granted.value - held)))

    def say(self, text: str) -> None:
        if self.listener is not None:
            self.listener.give(Event("warning", text))


def resident() -> int:
    with open("/proc/self/statm", encoding="ascii") as f:
        return int(f.read().split()[1]) * os.sysconf("SC_PAGESIZE")


def bytes_of(e: Any) -> tuple[int, int]:
    """Of the weights, and of all that one sample makes in a step."""
    from .size import Size

    def one(shape: Any) -> int:
        count = 1
        for d in shape:
            count *= d.at(1) if isinstance(d, Size) else d
        return 4 * count

    values = sum(one(v.shape) for x in e.model.train.live() if x.kind == "node" for v in x.outputs)
    return sum(4 * int(a.size) for a in e.weights.values()), values


def needed(weights: int, values: int, samples: int, wide: bool) -> int:
    """Bytes that a comparison takes at most; `wide`: with double precision."""
    return (12 if wide else 6) * weights + (5 if wide else 3) * samples * values + (32 << 20)


def compare_before(model: Any, step: Callable[[int, bool], Any], asked: Asked) -> None:
    """`step(samples, wide)`: the comparison itself, run in the child."""
    e, name = model.exported, "Keras" if hasattr(model.source, "_flatten_layers") else "PyTorch"
    text = "\n".join(line for line in e.model.text().splitlines() if "= param " not in line and "= state " not in line)  # they move
    if _done.get(model.source) == text:
        return
    weights, values = bytes_of(e)
    count = max(LEAST, min(MOST, ACTIVATIONS // max(1, values)))
    limit = asked.limit()

    count = count if needed(weights, values, count, False) <= limit else LEAST
    least = needed(weights, values, count, False)
    if least > limit:
        asked.say(f"not compared with {name} before training: that would need {least / 2**20:.0f} MiB, and "
                  f"{limit / 2**20:.0f} MiB are left for it")
        return
    wide = needed(weights, values, count, True) <= limit
    found, why = in_child(lambda: step(count, wide))
    if why == USED:
        found, why = here(lambda: step(count, wide))
    if why:
        asked.say(f"not compared with {name} before training: {why}")
    elif found is not None:
        judge(found, e, name, asked)
        _done[model.source] = text


def judge(r: Any, e: Any, name: str, asked: Asked) -> None:
    """Refuses what is another function.  Between that and equal lies what double precision could not settle, which is said."""
    if r.fair(WITHIN):
        return
    own = max(r.own, 0.0) if r.double else 0.0
    settled = r.double and not r.unlike and own <= WITHIN
    limit = WITHIN if settled else max(CERTAIN, min(1.0, 100 * own))
    if r.missing:
        n = r.missing[0]
        raise Refused(f"{n} has a gradient in {name} and none here; {SKIP}", place(e, n))
    for far, what, of in ((r.gradient, f"the gradient of {r.gradient_of}", r.gradient_of), (r.loss, "the loss", ""),
                          (r.statistics, "a running statistic", ""), (r.eval, "an output in evaluation", "")):
        if far > limit:
            raise Refused(f"one step here is not {name}'s: {what} differs by {far:.1e} (allowed: {limit:.0e}); {SKIP}", place(e, of))
    asked.say(f"one step differs from {name}'s by {max(r.gradient, r.loss, r.statistics, r.eval):.1e} (the gradient of {r.gradient_of} "
              f"most); on these samples {name}'s own single precision is {own:.1e} from its double")


def place(e: Any, name: str) -> str:
    """The user's line that first reads a parameter, or another one of its layer."""
    beside = name.rpartition(".")[0] + "."
    for near in (lambda n: n == name, lambda n: n.startswith(beside)):
        own = {id(v) for n, v in e.model.train.named.items() if v.entry.kind == "param" and near(n)}
        for x in e.model.train.live():
            if x.kind == "node" and any(id(v) in own for v in x.inputs):
                return str(x.source or (f"layer {x.scope}" if x.scope else ""))
    return ""


def here(work: Callable[[], Any]) -> tuple[Any, str]:
    """What `work` gives in this process, whose random numbers stay as they were."""
    import random

    import numpy as np
    import torch

    states = random.getstate(), np.random.get_state(), torch.get_rng_state()
    try:
        return work(), ""
    except Exception as e:
        return None, reason(e)
    finally:
        random.setstate(states[0])
        np.random.set_state(states[1])
        torch.set_rng_state(states[2])


def reason(e: Exception) -> str:
    said = (str(e).strip().splitlines() or [""])[0][:300]
    return said if isinstance(e, Error) and said else f"{type(e).__name__}: {said}" if said else type(e).__name__


# ---- the child ----


def in_child(work: Callable[[], Any], gradients: bool = True) -> tuple[Any, str]:
    """What `work` gives in a copy of this process; or why there is nothing.  `gradients`: it needs autograd."""
    out, into = os.pipe()
    sys.stdout.flush()
    sys.stderr.flush()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that there are threads: the child uses none of them
        try:
            pid = os.fork()
        except OSError as e:
            os.close(out)
            os.close(into)
            return None, str(e.strerror).lower()
    if pid == 0:
        os.close(out)
        _child(work, into, gradients)
    os.close(into)
    data, ended = bytearray(), time.monotonic() + SECONDS
    try:
        while True:
            left = ended - time.monotonic()
            if left <= 0 or not select.select([out], [], [], left)[0]:
                return None, f"it took longer than {SECONDS:.0f} s"
            part = os.read(out, 1 << 16)
            if not part:
                break
            data += part
    finally:
        os.close(out)
        status = _ended(pid)
    if not data:
        return None, f"its process has ended with status {status}"
    found, why = pickle.loads(bytes(data))
    return found, why


def _ended(pid: int) -> int:
    """Waits for a child that has closed its pipe; ends one that has not."""
    for _ in range(50):
        if os.waitpid(pid, os.WNOHANG)[0]:
            return 0
        time.sleep(0.02)
    os.kill(pid, signal.SIGKILL)
    return os.waitpid(pid, 0)[1]


def _child(work: Callable[[], Any], into: int, gradients: bool) -> None:
    code = 1
    try:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        quiet = os.open(os.devnull, os.O_WRONLY)
        os.dup2(quiet, 1)
        os.dup2(quiet, 2)
        begin_anew()
        found, why = None, ""
        if gradients and "torch" in sys.modules and not autograd():
            why = USED
        else:
            try:
                found = work()
            except Exception as e:
                why = reason(e)
        with os.fdopen(into, "wb") as f:
            f.write(pickle.dumps((found, why)))
        code = 0
    finally:
        os._exit(code)


def autograd() -> bool:
    """Whether PyTorch computes gradients in this child."""
    torch: Any = sys.modules["torch"]
    torch.set_num_threads(1)
    try:
        torch.ones(1, requires_grad=True).sum().backward()
    except RuntimeError:
        return False
    return True

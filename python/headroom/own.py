"""fit in a process of its own, which imports neither NumPy nor a framework: on the host a budget covers the whole process.

The model goes as a file, arrays as .npy files, samples of datasets and loaders over a socket (served.py); events come back as lines of
JSON, the weights as a file."""
from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import threading
from typing import Any, Optional

from . import errors
from .arranged import pair
from .errors import DoesNotFit, Error, UsageError
from .event import Event, Listener
from .models import Model
from .options import asked_of, labels_count, resolve, with_optimizer
from .rates import take
from .served import Remote, Server
from .sources import Data, names_of, sample_type, shaped
from .train import History, train


def handed(source: Data, model: Model, folder: str, name: str, server: Server) -> Any:
    """A source for the child: a text, which is read there, or what it must know to ask for samples."""
    if source.text is not None:
        return source.text
    if source.chain is not None:
        raise UsageError("process=\"own\" does not take a text with map=: the child reads the text, and cannot call your function")
    if source.arrays is None or len(source.arrays) > 2:  # a text has names for an input and its labels
        return server.add(source, model.inputs)
    return in_files(source, model, folder, name)


def in_files(source: Data, model: Model, folder: str, name: str) -> str:
    """The text of a source that reads what arrays have."""
    import numpy as np

    assert source.arrays is not None
    parts = list(source.arrays.values()) if isinstance(source.arrays, dict) else list(source.arrays)
    to = names_of(source.arrays if isinstance(source.arrays, dict) else tuple(parts), model.inputs)
    paths = []
    for i, (a, t) in enumerate(zip(parts, to)):
        path = os.path.join(folder, f"{name}-{i}.npy")
        first = shaped(a[0], t, sample_type(a.dtype, t))
        out = np.lib.format.open_memmap(path, "w+", first.dtype, (len(a), *first.shape))
        for k in range(len(a)):  # one sample at a time: no second copy in memory
            out[k] = shaped(a[k], t, sample_type(a.dtype, t))
        out.flush()
        paths.append(path)
    return f"npy:{','.join(paths)}"


def start(server: Server) -> subprocess.Popen[str]:
    here = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    path = os.pathsep.join([here, *filter(None, [os.environ.get("PYTHONPATH")])])
    return subprocess.Popen([sys.executable, "-m", "headroom.own"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                            env={**os.environ, "PYTHONPATH": path}, start_new_session=True, pass_fds=(server.there.fileno(),))


def train_apart(model: Any, data: Any, given: dict[str, Any], listener: Listener) -> tuple[History, Optional[BaseException]]:
    (source, val), loss, check = pair(model, data, given), given.pop("loss", None), given.pop("check", False)
    if source is None:
        raise UsageError("there is no data")
    options = {k: v for k, v in with_optimizer(model, given).items() if v is not None}
    rates = take(options)
    if rates is not None:
        options |= {"schedule": rates.listed(options, source.count()), "schedule_by": rates.by}
    m = resolve(model, source, loss, options, asked=asked_of(check, options, listener, "own"))
    options["labels_count"] = labels_count(m, source)
    history = History(m)
    listener.callbacks.insert(0, history)
    folder = m.folder()
    if m.custom:
        path = os.path.join(folder, "model.hr")
        m.write(path)
    weights = os.path.join(folder, "trained.safetensors")
    if m.weights and "init" not in options:
        options["init"] = m.weights
    server = Server()
    try:
        words = {"model": path if m.custom else m.text, "data": handed(source, m, folder, "data", server), "options": options,
                 "weights": weights, "socket": server.there.fileno()}
        if val is not None:
            options["val_data"] = handed(val, m, folder, "val", server)
        listener.hook("on_train_begin")
        last, interrupted = talk(words, listener, server)
    finally:
        server.close()
    if "error" in last:
        raise_theirs(last, server.failure)
    m.weights = weights
    history.numbers, history._text = last["numbers"], last["text"]
    m.give_back(int(last["numbers"]["steps"] or 0))
    listener.hook("on_train_end")
    return history, interrupted


def talk(words: dict[str, Any], listener: Listener, server: Server) -> tuple[dict[str, Any], Optional[BaseException]]:
    """Runs the child to its end; its last word, and the Ctrl-C that came meanwhile."""
    child = start(server)
    server.there.close()  # the child has it: when it ends, the server hears of it
    server.start()
    interrupted: Optional[BaseException] = None
    last: dict[str, Any] = {}
    assert child.stdin is not None and child.stdout is not None
    try:
        child.stdin.write(json.dumps(words))
        child.stdin.close()
        while not last:
            try:
                line = child.stdout.readline()
                if not line:
                    raise Error(f"the process that trained has ended with status {child.wait()}")
                said = json.loads(line)
                if "kind" not in said:
                    last = said
                    break
                was = listener.stopping
                listener.give(Event(said["kind"], said["text"], said["numbers"]))
                if listener.stopping and not was:
                    child.send_signal(signal.SIGINT)
            except KeyboardInterrupt as e:
                interrupted = e
                child.send_signal(signal.SIGINT)
        child.wait()
    finally:
        if child.poll() is None:
            child.kill()
            child.wait()
        child.stdout.close()
    return last, interrupted


def raise_theirs(last: dict[str, Any], failure: Optional[BaseException]) -> None:
    if failure is not None and not isinstance(failure, Exception):
        raise failure
    kind = getattr(errors, last["error"], Error)
    if kind is DoesNotFit:
        raise DoesNotFit(last["message"], last["minimum_bytes"], last["op"], [errors.Way(**w) for w in last["ways"]])
    raise kind(last["message"]) from failure


# ---- the child ----


def say(what: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps(what) + "\n")
    sys.stdout.flush()


def child() -> None:
    from .options import Job

    signal.signal(signal.SIGINT, signal.default_int_handler)  # who runs in the background has it ignored, and so would this
    words = json.loads(sys.stdin.read())
    listener = Listener([lambda e: say({"kind": e.kind, "text": e.text, "numbers": e.numbers})])
    connection, lock = socket.socket(fileno=words["socket"]), threading.Lock()
    options = words["options"]
    told = lambda d: Remote(connection, lock, d) if isinstance(d, dict) else d  # noqa: E731
    if "val_data" in options:
        options["val_data"] = told(options["val_data"])
    try:
        history, _ = train(Job(words["model"], told(words["data"]), options, listener), listener)
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        assert history.model.weights is not None
        os.replace(history.model.weights, words["weights"])
        say({"numbers": history.numbers, "text": str(history)})
    except DoesNotFit as e:
        say({"error": "DoesNotFit", "message": str(e), "minimum_bytes": e.minimum_bytes, "op": e.op, "ways": [vars(w) for w in e.ways]})
    except Error as e:
        say({"error": type(e).__name__, "message": str(e)})


if __name__ == "__main__":
    child()

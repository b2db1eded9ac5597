"""libheadroom through ctypes: found, opened at the first use, its statuses as exceptions.

The library is looked for in $HEADROOM_LIBRARY, in this package (the wheel carries it), in the build folder beside this source, and
where the system keeps libraries.  Importing this module opens nothing and starts no thread."""
from __future__ import annotations

import ctypes as c
import os
import sys
import threading
from typing import Any, Callable, Optional

from .errors import DataError, DoesNotFit, Error, MachineError, TrainingError, UsageError

VERSION = "0.1.0"
TYPES = ("f32", "bf16", "f16", "i32", "i64", "u8", "i8")  # hr_type, in its order
NUMPY = ("float32", None, "float16", "int32", "int64", "uint8")  # bf16 has no NumPy type
UNKNOWN = (1 << 64) - 1

_lock = threading.RLock()
_library: Optional[c.CDLL] = None
_process = 0


def find() -> Optional[str]:
    """The path of the library, or None."""
    named = os.environ.get("HEADROOM_LIBRARY")
    if named:
        return named
    here = os.path.dirname(os.path.abspath(__file__))
    top = os.path.dirname(os.path.dirname(here))
    for folder in (os.path.join(here, "lib"), os.path.join(top, "build"), os.path.join(top, "build", "dev")):
        path = os.path.join(folder, "libheadroom.so")
        if os.path.exists(path):
            return path
    from ctypes.util import find_library

    return find_library("headroom")


def program() -> Optional[str]:
    """The command beside the library, or None."""
    path = find()
    beside = os.path.join(os.path.dirname(path or ""), "headroom")
    if path and os.access(beside, os.X_OK):
        return beside
    import shutil

    return shutil.which("headroom")


def cuda_folders() -> list[str]:
    """Where wheels of other packages keep CUDA's libraries: nvidia/*/lib of each folder that Python imports from."""
    found = []
    for entry in sys.path:
        top = os.path.join(entry or ".", "nvidia")
        if os.path.isdir(top):
            found += [lib for name in sorted(os.listdir(top)) if os.path.isdir(lib := os.path.join(top, name, "lib"))]
    return found


def _open() -> c.CDLL:
    path = find()
    if not path:
        raise Error("libheadroom.so was not found: install the wheel, build it (`make`), or set HEADROOM_LIBRARY")
    if "HEADROOM_CUDA_PATH" not in os.environ:
        folders = cuda_folders()
        if folders:
            os.environ["HEADROOM_CUDA_PATH"] = os.pathsep.join(folders)
    try:
        lib = c.CDLL(path)
    except OSError as e:
        raise Error(f"{path} cannot be loaded: {e}") from None
    lib.hr_version.restype = c.c_char_p
    theirs = lib.hr_version().decode()
    if theirs != VERSION:
        raise Error(f"this package is version {VERSION}, but {path} is version {theirs}: install the two from one wheel, or set "
                    "HEADROOM_LIBRARY to a library of the same version")
    from . import _c

    for name, (result, arguments) in _c.FUNCTIONS.items():
        function = getattr(lib, name, None)
        if function is None:
            raise Error(f"{path} has no {name}: it was built from another source than this package; build or install them together")
        function.restype, function.argtypes = result, arguments
    return lib


def library() -> c.CDLL:
    """The library, opened once for each process."""
    global _library, _process
    if _library is None:
        with _lock:
            if _library is None:
                _process = os.getpid()
                _library = _open()
    if _process != os.getpid():
        raise Error("headroom was used before this process was forked: threads and devices do not survive that; start workers with "
                    "the method \"spawn\"")
    return _library


def begin_anew() -> None:
    """In a forked child that uses nothing of its parent's: a root object of its own, over devices that the parent does not hold (the
    host)."""
    global _process, _context, _lock
    _process, _context, _lock = os.getpid(), None, threading.RLock()


def fill(struct: Any, **fields: Any) -> Any:
    """A struct of _c with its size set."""
    s = struct(**fields)
    if struct._fields_[0][0] == "size":
        s.size = c.sizeof(struct)
    return s


def kinds(struct: Any) -> dict[str, Any]:
    """The names of a struct's fields and their types."""
    return dict(struct._fields_)


def text(raw: Optional[bytes]) -> str:
    return raw.decode(errors="replace") if raw else ""


def error(status: int, why: Any = None) -> Error:
    """The exception of a status: its class is the cause, its words are the library's."""
    from . import _c

    lib = library()
    words = text(why.message) if why is not None and why.message else text(lib.hr_status_text(status))
    name = text(lib.hr_status_name(status))
    cause = why.cause if why is not None else 0
    if cause == _c.HR_CAUSE_NO_FIT or status == _c.HR_E_NO_PLAN:
        return DoesNotFit(words, why.wanted_bytes if why is not None else 0)
    kinds = {_c.HR_CAUSE_USAGE: UsageError, _c.HR_CAUSE_DATA: DataError, _c.HR_CAUSE_TRAINING: TrainingError,
             _c.HR_CAUSE_MACHINE: MachineError}
    return kinds.get(cause, Error)(words, name)


def call(name: str, *arguments: Any) -> None:
    """A function whose last argument is an hr_error: raises what it says."""
    from . import _c

    why = _c.hr_error()
    status = getattr(library(), name)(*arguments, c.byref(why))
    if status != 0:
        raise error(status, why)


def check(status: int, explain: Optional[Callable[[Any], object]] = None) -> None:
    """A status; `explain` fills an hr_error with the object's own words."""
    if status != 0:
        from . import _c

        why = _c.hr_error()
        if explain is not None:
            explain(c.byref(why))
        raise error(status, why if why.code == status else None)


def each(name: str, struct: Any, *arguments: Any) -> list[Any]:
    """What a function of the form f(..., index, out) lists, until HR_E_EOF."""
    from . import _c

    found: list[Any] = []
    while True:
        one = fill(struct)
        status = getattr(library(), name)(*arguments, len(found), c.byref(one))
        if status == _c.HR_E_EOF:
            return found
        if status != 0:
            raise error(status)
        found.append(one)


def shape_of(shape: Any) -> tuple[int, ...]:
    return tuple(shape.dim[:shape.rank])


def make_shape(dims: Any) -> Any:
    from . import _c

    s = _c.hr_shape(rank=len(dims))
    for i, d in enumerate(dims):
        s.dim[i] = int(d)
    return s


def make_meta(type_: str, dims: Any) -> Any:
    from . import _c

    return _c.hr_meta(type=TYPES.index(type_), shape=make_shape(dims))


_context: Optional[c.c_void_p] = None


def context() -> c.c_void_p:
    """The root object of this process, made at the first use."""
    global _context
    lib = library()
    with _lock:
        if _context is None:
            made = c.c_void_p()
            check(lib.hr_ctx_create(None, c.byref(made)))
            _context = made
        return _context


def collect(print_: Callable[[Any], int]) -> str:
    """What a function that writes in pieces says, as one text; `print_` is called with an hr_write_fn."""
    from . import _c

    pieces: list[bytes] = []

    def write(_user: Any, at: int, size: int) -> int:
        pieces.append(c.string_at(at, size) if size else b"")
        return 0

    status = print_(_c.hr_write_fn(write))
    if status != 0:
        raise error(status)
    return b"".join(pieces).decode(errors="replace")

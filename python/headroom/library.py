"""libheadroom through ctypes: model files opened, built, differentiated and run.

The library is found in $HEADROOM_LIBRARY, in the build folder beside this source, or where the system keeps libraries.  It is
opened at the first use."""
from __future__ import annotations

import ctypes as c
import os
from pathlib import Path
from typing import Any, Optional, Sequence

NP_TYPES = ["float32", None, "float16", "int32", "int64", "uint8"]  # hr_type
EOF = "end of"


class Error(Exception):
    """A status of the library, in its own words."""


class _Error(c.Structure):
    _fields_ = [("code", c.c_int32), ("cause", c.c_int32), ("option", c.c_int32), ("holders", c.c_uint32),
                ("message", c.c_char * 2048), ("rest", c.c_byte * 2048)]


class _Shape(c.Structure):
    _fields_ = [("rank", c.c_int32), ("dim", c.c_int64 * 8)]


class _Meta(c.Structure):
    _fields_ = [("type", c.c_int32), ("shape", _Shape)]


class _RunOptions(c.Structure):
    _fields_ = [("size", c.c_size_t), ("device", c.c_void_p), ("graphs", c.POINTER(c.c_void_p)),
                ("graph_count", c.c_size_t), ("budget_bytes", c.c_uint64), ("threads", c.c_uint32),
                ("reserved", c.c_uint32), ("seed", c.c_uint64), ("budget", c.c_void_p)]


def find() -> Optional[str]:
    """The path of the library, or None."""
    named = os.environ.get("HEADROOM_LIBRARY")
    if named:
        return named
    top = Path(__file__).resolve().parents[2]
    for folder in ("build", "build/dev"):
        if (top / folder / "libheadroom.so").exists():
            return str(top / folder / "libheadroom.so")
    from ctypes.util import find_library

    return find_library("headroom")


_library: Optional[c.CDLL] = None


def library() -> c.CDLL:
    global _library
    if _library is None:
        path = find()
        if not path:
            raise Error("libheadroom.so was not found: build it (`make`), install it, or set HEADROOM_LIBRARY")
        lib = c.CDLL(path)
        for name in ("hr_graph_find", "hr_graph_output"):
            getattr(lib, name).restype = c.c_uint32
        for name in ("hr_graph_name", "hr_status_text"):
            getattr(lib, name).restype = c.c_char_p
        lib.hr_graph_meta.restype = _Meta
        lib.hr_graph_value_count.restype = c.c_size_t
        lib.hr_device_at.restype = c.c_void_p
        _library = lib
    return _library


def _check(status: int, why: Optional[_Error] = None) -> None:
    if status != 0:
        text = why.message.decode(errors="replace") if why is not None and why.message else ""
        raise Error(text or library().hr_status_text(status).decode())


class Model:
    """A model file, opened from its text."""

    def __init__(self, text: str) -> None:
        lib, why = library(), _Error()
        data = text.encode()
        self.handle = c.c_void_p()
        _check(lib.hr_model_parse(data, c.c_size_t(len(data)), c.byref(self.handle), c.byref(why)), why)

    def graph(self, batch: int, training: bool) -> "Graph":
        lib = library()
        g = Graph()
        status = lib.hr_model_build(self.handle, g.handle, c.c_int64(batch), c.c_int(training))
        if status != 0:
            g.fail()
        return g

    def close(self) -> None:
        library().hr_model_close(self.handle)


class Graph:
    def __init__(self) -> None:
        self.handle = c.c_void_p()
        _check(library().hr_graph_create(c.byref(self.handle)))

    def fail(self) -> None:
        why = _Error()
        library().hr_graph_error(self.handle, c.byref(why))
        raise Error(why.message.decode(errors="replace"))

    def find(self, name: str) -> int:
        return int(library().hr_graph_find(self.handle, name.encode()))

    def meta(self, value: int) -> tuple[str, tuple[int, ...]]:
        m = library().hr_graph_meta(self.handle, c.c_uint32(value))
        return NP_TYPES[m.type] or "bf16", tuple(m.shape.dim[:m.shape.rank])

    def gradients(self, names: Sequence[str]) -> list[str]:
        """Adds the gradients of "loss" as results "gradient:NAME"; the names that have one."""
        lib = library()
        wrt = (c.c_uint32 * len(names))(*[self.find(n) for n in names])
        grads = (c.c_uint32 * len(names))()
        status = lib.hr_graph_differentiate(self.handle, c.c_uint32(self.find("loss")), c.c_uint32(0), wrt,
                                            c.c_size_t(len(names)), grads)
        if status != 0:
            self.fail()
        have = []
        for n, g in zip(names, grads):
            if g:
                lib.hr_graph_result(self.handle, c.c_uint32(g), f"gradient:{n}".encode())
                have.append(n)
        return have

    def freeze(self) -> None:
        if library().hr_graph_freeze(self.handle) != 0:
            self.fail()

    def close(self) -> None:
        library().hr_graph_destroy(self.handle)


class Run:
    """Graphs in one arena on the host."""

    def __init__(self, graphs: Sequence[Graph], budget: int = 0, seed: int = 0, threads: int = 1) -> None:
        lib, why = library(), _Error()
        self.graphs = list(graphs)
        self.ctx = c.c_void_p()
        _check(lib.hr_ctx_create(None, c.byref(self.ctx)))
        device = c.c_void_p(lib.hr_device_at(self.ctx, c.c_size_t(0)))
        handles = (c.c_void_p * len(graphs))(*[g.handle for g in graphs])
        o = _RunOptions(size=c.sizeof(_RunOptions), device=device, graphs=handles, graph_count=len(graphs),
                        budget_bytes=budget, threads=threads, seed=seed)
        self.handle = c.c_void_p()
        try:
            _check(lib.hr_run_open(c.byref(o), c.byref(self.handle), c.byref(why)), why)
        except Error:
            lib.hr_ctx_destroy(self.ctx)
            raise

    def _fail(self, status: int) -> None:
        if status != 0:
            why = _Error()
            library().hr_run_error(self.handle, c.byref(why))
            _check(status, why)

    def put(self, name: str, array: Any, graph: int = 0) -> None:
        import numpy as np

        type_, shape = self.graphs[graph].meta(self.graphs[graph].find(name))
        a = np.ascontiguousarray(array, dtype=type_)
        if a.shape != shape:
            raise Error(f"{name} is {shape}, not {a.shape}")
        self._fail(library().hr_run_put(self.handle, c.c_size_t(graph), name.encode(), a.ctypes.data_as(c.c_void_p),
                                        c.c_uint64(a.nbytes)))

    def get(self, name: str, graph: int = 0) -> Any:
        import numpy as np

        type_, shape = self.graphs[graph].meta(self.graphs[graph].find(name))
        a = np.empty(shape, dtype=type_)
        self._fail(library().hr_run_get(self.handle, c.c_size_t(graph), name.encode(), a.ctypes.data_as(c.c_void_p),
                                        c.c_uint64(a.nbytes)))
        return a

    def step(self, graph: int = 0, number: int = 0) -> None:
        lib = library()
        lib.hr_run_at(self.handle, c.c_uint32(number), c.c_uint32(0))
        self._fail(lib.hr_run_step(self.handle, c.c_size_t(graph)))

    def close(self) -> None:
        library().hr_run_close(self.handle)
        library().hr_ctx_destroy(self.ctx)

"""Graphs run in one arena, without training: inputs in, results out."""
from __future__ import annotations

import ctypes as c
from typing import Any, Sequence

from .define import Graph
from .errors import UsageError
from .library import NUMPY, TYPES, call, check, context, fill, library, shape_of


class Run:
    """Frozen graphs that share one arena and their persistent values, inside a budget (bytes; 0: as much as it takes)."""

    def __init__(self, graphs: Sequence[Graph], budget: int = 0, seed: int = 0, threads: int = 0, device: str = "host") -> None:
        from . import _c

        self.graphs = list(graphs)
        place = c.c_void_p()
        check(library().hr_device_find(context(), device.encode(), c.byref(place)), lambda why: library().hr_ctx_error(context(), why))
        handles = (c.c_void_p * len(graphs))(*[g.handle for g in graphs])
        o = fill(_c.hr_run_options, device=place, graphs=c.addressof(handles), graph_count=len(graphs), budget_bytes=budget,
                 threads=threads, seed=seed)
        self.handle = c.c_void_p()
        call("hr_run_open", c.byref(o), c.byref(self.handle))

    def _check(self, status: int) -> None:
        if status != 0:
            for g in self.graphs:
                for op in g.customs:
                    op.raise_failure()
        check(status, lambda why: library().hr_run_error(self.handle, why))

    def _meta(self, name: str, graph: int) -> tuple[str, tuple[int, ...]]:
        value = library().hr_graph_find(self.graphs[graph].handle, name.encode())
        if not value:
            raise UsageError(f"the graph has no input, parameter, state or result {name!r}")
        m = library().hr_graph_meta(self.graphs[graph].handle, value)
        return NUMPY[m.type] or TYPES[m.type], shape_of(m.shape)

    def put(self, name: str, array: Any, graph: int = 0) -> None:
        import numpy as np

        type_, shape = self._meta(name, graph)
        a = np.asarray(array, dtype=type_, order="C")
        if a.shape != shape:
            raise UsageError(f"{name} is {shape}, not {a.shape}")
        self._check(library().hr_run_put(self.handle, graph, name.encode(), a.ctypes.data, a.nbytes))

    def get(self, name: str, graph: int = 0) -> Any:
        import numpy as np

        type_, shape = self._meta(name, graph)
        a = np.empty(shape, dtype=type_)
        self._check(library().hr_run_get(self.handle, graph, name.encode(), a.ctypes.data, a.nbytes))
        return a

    def step(self, graph: int = 0, number: int = 0) -> None:
        """Runs one graph once; `number` is the step that random ops count by."""
        library().hr_run_at(self.handle, number, 0)
        self._check(library().hr_run_step(self.handle, graph))

    def close(self) -> None:
        if self.handle:
            library().hr_run_close(self.handle)
            self.handle = c.c_void_p()

    def __enter__(self) -> "Run":
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()

    def __del__(self) -> None:
        try:
            self.close()
        except Exception:
            pass

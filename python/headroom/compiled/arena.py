"""PyTorch's memory on a GPU from one reservation: `reserve("6GiB")` before PyTorch first uses the GPU.

Every tensor and every workspace that PyTorch allocates then comes from Headroom, and what NVML reports for the process stays
within the budget.  The first steps of a compiled model are recorded; from then on each request of a step is served at an offset
that was planned for it (headroom/replay.h).  Requests that differ are counted in `numbers` and served where there is room.

PyTorch's own statistics (torch.cuda.memory_allocated and so on) and cudnn.benchmark do not work with another allocator."""
from __future__ import annotations

import ctypes as c
from typing import Any, Callable, Optional

from ..errors import Error, MachineError, UsageError
from ..library import check, context, fill, find, library

START = 640 << 20  # what CUDA's libraries may load between the reservation and the first plan
LOADED = 128 << 20  # between the first plan and the end of the first step: kernels of the optimizer, local memory, streams
SETTLED = 16 << 20  # after it
OFTEN = 64  # planned steps between two looks at NVML
arenas: dict[int, "Arena"] = {}  # by the number of the GPU, for the life of the process


class Arena:
    """PyTorch's memory on one device.  `budget` is of the process; without one, the limit is what the device has free."""

    def __init__(self, device: str, budget: Optional[int] = None, sync: bool = True, start: int = START) -> None:
        from .. import _c

        lib = library()
        self.name, self.budget, self.replay, self.logical = device, budget, c.c_void_p(), c.c_void_p()
        self.device = c.c_void_p()
        self.check(lib.hr_device_find(context(), device.encode(), c.byref(self.device)))
        self.check(lib.hr_device_open(self.device))
        info = self.info()
        limit = int(info.free_bytes) - (1 << 30) if budget is None else budget - self.outside() - start
        if limit < info.page_bytes:
            raise UsageError(f"a budget of {budget} bytes is too small on {device}: {self.outside()} are in use before any tensor, and "
                             f"CUDA's libraries may load {start}")
        options = fill(_c.hr_logical_options, name=b"torch", limit_bytes=limit)
        self.check(lib.hr_logical_create(self.device, c.byref(options), c.byref(self.logical)))
        wait = c.cast(lib.hr_torch_sync, c.c_void_p).value if sync else None
        given = fill(_c.hr_replay_options, sync_user=int(device.partition(":")[2] or 0))
        given.sync = c.cast(wait, type(given.sync)) if wait else type(given.sync)()
        self.check(lib.hr_replay_create(self.logical, c.byref(given), c.byref(self.replay)))
        self.settled = self.backward = self.began = False
        self.page_bytes = int(info.page_bytes)
        self.pairs: list[Any] = []  # compiled graphs that are to be captured

    def check(self, status: int) -> None:
        check(status, lambda why: library().hr_ctx_error(context(), why))

    def info(self) -> Any:
        from .. import _c

        info = fill(_c.hr_device_info)
        self.check(library().hr_device_get_info(self.device, c.byref(info)))
        return info

    def process_bytes(self) -> int:
        """What NVML reports for this process."""
        info = self.info()
        return int(info.process_bytes or info.ours_bytes)

    def outside(self) -> int:
        """What the process holds on the device in addition to the tensors: context, kernels, libraries."""
        info = self.info()
        return max(0, int(info.process_bytes or info.ours_bytes) - int(info.held_bytes))

    @property
    def numbers(self) -> dict[str, int]:
        """What was planned, served and missed (hr_replay_stats), and `limit_bytes`, `held_bytes`, `used_bytes` of all of it."""
        from .. import _c

        s, h = fill(_c.hr_replay_stats), fill(_c.hr_stats)
        self.check(library().hr_replay_get_stats(self.replay, c.byref(s)))
        self.check(library().hr_logical_get_stats(self.logical, c.byref(h)))
        found = {name: int(getattr(s, name)) for name, _ in s._fields_ if name != "size"}
        return {**found, "limit_bytes": int(h.limit_bytes), "held_bytes": int(h.held_bytes),
                "used_bytes": int(h.limit_bytes) - int(h.free_bytes)}

    def reset_peak(self) -> int:
        """peak_bytes counts from here; what is live now."""
        library().hr_replay_reset_peak(self.replay)
        return self.numbers["live_bytes"]

    def trim(self) -> None:
        """Gives back what is not in use."""
        self.check(library().hr_replay_trim(self.replay))

    def settle(self, spare: int) -> int:
        """Makes the limit what the budget leaves of the process, less `spare`.  The limit."""
        if self.budget is not None:
            self.trim()
            page = int(self.info().page_bytes)
            limit = max(page, (self.budget - self.outside() - spare) // page * page)
            if library().hr_logical_set_limit(self.logical, limit) != 0:  # more is in use: nothing more is given out
                library().hr_logical_set_limit(self.logical, max(page, self.numbers["used_bytes"]))
        return self.numbers["limit_bytes"]

    def shrink(self) -> None:
        """What has been loaded since the limit was set, beyond what was left for it, is no longer there for tensors."""
        if self.budget is not None and self.budget - self.outside() - SETTLED < self.numbers["limit_bytes"]:
            self.settle(SETTLED)

    def available(self, budget: Optional[int], input_bytes: int) -> int:
        """Bytes for a step in this budget, inputs that exist already included."""
        limit, used = self.settle(LOADED), self.numbers["used_bytes"]
        if budget is not None:
            limit = min(limit, budget - self.outside() - LOADED)
        left = max(0, limit - used)
        return left + input_bytes - left // 100 - (16 << 20)  # packing is not perfect, and small blocks share pages

    def others(self, input_bytes: int) -> int:
        """Bytes of the process that are not of a step with these inputs: context, libraries, optimizer state."""
        self.trim()
        return max(0, self.outside() + self.numbers["used_bytes"] - input_bytes)

    def step(self) -> None:
        """A step begins."""
        self.check(library().hr_replay_step(self.replay))
        n = self.numbers
        if not self.settled or n["steps"] % OFTEN == 0:
            self.settled = bool(n["planned"])
            self.settle(SETTLED if n["steps"] > 1 else LOADED)

    def begins(self) -> None:
        """A forward half: the first one after a backward half begins a step."""
        if self.backward or not self.began:
            self.backward, self.began = False, True
            self.step()

    def ends(self) -> None:
        """A backward half."""
        self.backward = True
        if not self.settled:
            self.shrink()

    def forward(self, run: Callable[..., Any]) -> Callable[..., Any]:
        def half(*args: Any) -> Any:
            self.begins()
            return run(*args)

        return half

    def backwards(self, run: Callable[..., Any]) -> Callable[..., Any]:
        def half(*args: Any) -> Any:
            self.ends()
            return run(*args)

        return half

    # ---- steps that are captured (graphs.py, headroom/replay.h) ----

    def pause(self, on: bool) -> None:
        library().hr_replay_pause(self.replay, int(on))

    def room(self, want: int) -> int:
        """At most `want` bytes, in whole pages, of what is not in use."""
        self.trim()
        n = self.numbers
        return max(self.page_bytes, min(want, n["limit_bytes"] - n["used_bytes"]) // self.page_bytes * self.page_bytes)

    def sketch(self, size: int) -> None:
        self.check(library().hr_replay_sketch(self.replay, size))

    def lay(self) -> None:
        self.check(library().hr_replay_lay(self.replay))

    def laid(self) -> None:
        self.check(library().hr_replay_laid(self.replay))

    def unlay(self) -> bool:
        return bool(library().hr_replay_unlay(self.replay) == 0)

    def claim(self, stream: int) -> bool:
        return bool(library().hr_replay_claim(self.replay, stream) == 0)

    def place(self, addresses: Any, count: int) -> None:
        self.check(library().hr_replay_place(self.replay, c.cast(addresses, c.c_void_p), count))

    def release(self) -> None:
        library().hr_replay_release(self.replay)

    def over(self) -> bool:
        """Whether NVML's number is above the budget."""
        return self.budget is not None and self.process_bytes() > self.budget

    def close(self) -> None:
        """For tests: PyTorch keeps its allocator as long as it lives."""
        library().hr_replay_destroy(self.replay)
        library().hr_logical_destroy(self.logical)
        self.replay = self.logical = c.c_void_p()


def reserve(budget: Any = None, device: int = 0) -> Arena:
    """From now on PyTorch's memory on a GPU comes from Headroom, and NVML's number for this process stays within `budget`.
    Call it before PyTorch first uses the GPU; it holds for the process.  Steps that torch.compile(backend="headroom") plans are then a
    promise, not a forecast."""
    import torch

    from .backend import to_bytes

    if device in arenas:
        raise UsageError(f"cuda:{device} is reserved already")
    if torch.cuda.is_initialized() and not arenas:
        raise UsageError("reserve() comes before PyTorch first uses a GPU: its allocator cannot be changed later")
    path = find()
    if path is None:
        raise Error("libheadroom.so was not found")
    arena = Arena(f"cuda:{device}", to_bytes(budget))
    status = library().hr_torch_use(device, arena.replay, 1)
    if status != 0:
        arena.close()
        raise MachineError("PyTorch's C++ library was not found in this process, so a refusal could not be told to it")
    if not arenas:
        _install(torch, path)
    arenas[device] = arena
    return arena


def _install(torch: Any, path: str) -> None:
    allocator = torch.cuda.memory.CUDAPluggableAllocator(path, "hr_torch_alloc", "hr_torch_free")
    record = c.cast(library().hr_torch_record, c.c_void_p).value
    setter = getattr(allocator.allocator(), "set_record_stream_fn", None)
    if setter is not None:
        setter(record)
    torch.cuda.memory.change_current_allocator(allocator)


def arena_of(device: Any) -> Optional[Arena]:
    """The arena of a torch.device, if it was reserved."""
    if device.type != "cuda":
        return None
    if device.index is not None:
        return arenas.get(device.index)
    return arenas.get(0) if len(arenas) == 1 else None

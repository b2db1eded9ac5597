"""Bytes as they are: of live storages while a step runs, and of the process on its device."""
from __future__ import annotations

import ctypes as c
import os
import weakref
from typing import Any, Callable, Optional

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves


class Live(TorchDispatchMode):
    """Bytes of storages that were born while it was active and are not freed yet (`now`), and the most of them (`peak`)."""

    def __init__(self) -> None:
        super().__init__()
        self.now = self.peak = 0
        self.seen: set[int] = set()

    def _gone(self, key: int, size: int) -> None:
        self.now -= size
        self.seen.discard(key)

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Optional[dict[str, Any]] = None) -> Any:
        before = {t.untyped_storage()._cdata for t in tree_leaves((args, kwargs)) if isinstance(t, torch.Tensor)}
        result = func(*args, **(kwargs or {}))
        for t in tree_leaves(result):
            if isinstance(t, torch.Tensor):
                s = t.untyped_storage()
                key = s._cdata
                if key not in before and key not in self.seen and s.nbytes():
                    self.seen.add(key)
                    self.now += s.nbytes()
                    self.peak = max(self.peak, self.now)
                    weakref.finalize(s, self._gone, key, s.nbytes())
        return result


_live: Optional[Live] = None


class watch:
    """`with watch() as live:` counts the live bytes of compiled steps that run inside: live.peak.

    A dispatch mode around torch.compile would switch it off, so the compiled halves enter it themselves."""

    def __enter__(self) -> Live:
        global _live
        _live = Live()
        return _live

    def __exit__(self, *_: Any) -> None:
        global _live
        _live = None


def watched(run: Callable[[list[Any]], list[Any]]) -> Callable[[list[Any]], list[Any]]:
    def half(args: list[Any]) -> list[Any]:
        if _live is None:
            return run(args)
        with _live:
            return run(args)

    return half


def extra_bytes(device: Any, run: Callable[[], Any], given: Any) -> int:
    """What `run` takes on a GPU at most, beside what it returns and what it was given: workspaces."""
    from .arena import arena_of

    arena = arena_of(device)
    if arena is not None:
        before = arena.reset_peak()
    else:
        torch.cuda.reset_peak_memory_stats(device)
        before = torch.cuda.memory_allocated(device)
    result = run()
    peak = arena.numbers["peak_bytes"] if arena is not None else torch.cuda.max_memory_allocated(device)
    mine = {t.untyped_storage()._cdata: t.untyped_storage().nbytes() for t in tree_leaves(result) if isinstance(t, torch.Tensor)}
    for t in tree_leaves(given):
        if isinstance(t, torch.Tensor):
            mine.pop(t.untyped_storage()._cdata, None)
    return max(0, peak - before - sum(-(-size // 512) * 512 for size in mine.values()))


_begun: set[Any] = set()


def begin(device: Any) -> None:
    """Backward passes run on a thread of their own, and cuBLAS and cuDNN have handles and workspaces for each thread; optimizers load
    kernels of their own.  All of that is there before anything is planned, so that it is counted."""
    if device.type != "cuda" or device in _begun:
        return
    _begun.add(device)
    with torch.enable_grad(), torch.autograd.set_multithreading_enabled(True):
        for kind in (torch.float32, torch.bfloat16):
            x = torch.zeros(64, 64, device=device, dtype=kind, requires_grad=True)
            image = torch.zeros(2, 8, 8, 8, device=device, dtype=kind, requires_grad=True)
            filters = torch.zeros(8, 8, 3, 3, device=device, dtype=kind, requires_grad=True)
            (x @ x).sum().backward()
            torch.nn.functional.conv2d(image, filters, padding=1).sum().backward()
        x = torch.zeros(64, 64, device=device, requires_grad=True)
        for optimizer in (torch.optim.SGD([x], 0.1, momentum=0.9), torch.optim.AdamW([x], 0.1)):
            for _ in range(2):
                x.grad = torch.zeros_like(x)
                optimizer.step()
    torch.cuda.synchronize(device)


def process_bytes(device: Any) -> int:
    """What NVML says of this process on a GPU; where it cannot, what PyTorch holds and 500 MiB for the context."""
    from .arena import arena_of

    arena = arena_of(torch.device(device))
    if arena is not None:
        return arena.process_bytes()
    try:
        found = _nvml(torch.device(device))
        if found:
            return found
    except (OSError, AttributeError):
        pass
    return int(torch.cuda.memory_reserved(device)) + (500 << 20)


def grow() -> None:
    """Lets the segments of PyTorch's allocator grow: less is unused between blocks.  One that cannot do that goes on as it was."""
    try:
        torch.cuda.memory._set_allocator_settings("expandable_segments:True")
    except (AttributeError, RuntimeError):
        pass


def limit(device: Any, budget: int) -> None:
    """Makes PyTorch's allocator keep a budget: beyond it, it first gives back what it has cached, then it is out of memory."""
    others = max(0, process_bytes(device) - int(torch.cuda.memory_reserved(device)))
    total = int(torch.cuda.get_device_properties(device).total_memory)
    torch.cuda.set_per_process_memory_fraction(min(1.0, max(0.0, (budget - others) / total)), device)


class _Process(c.Structure):
    _fields_ = [("pid", c.c_uint), ("bytes", c.c_ulonglong), ("gpu", c.c_uint), ("compute", c.c_uint)]


def _nvml(device: torch.device) -> int:
    lib = c.CDLL("libnvidia-ml.so.1")
    if lib.nvmlInit_v2() != 0:
        return 0
    try:
        name = str(torch.cuda.get_device_properties(device).uuid)
        handle = c.c_void_p()
        if lib.nvmlDeviceGetHandleByUUID((name if name.startswith("GPU-") else f"GPU-{name}").encode(), c.byref(handle)) != 0:
            return 0
        count = c.c_uint(256)
        found = (_Process * 256)()
        if lib.nvmlDeviceGetComputeRunningProcesses_v3(handle, c.byref(count), found) != 0:
            return 0
        mine = [p for p in found[:count.value] if p.pid == os.getpid()]
        if not mine and count.value == 1:  # a container has other process numbers
            mine = [found[0]]
        return int(mine[0].bytes) if mine else 0
    finally:
        lib.nvmlShutdown()

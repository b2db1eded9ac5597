"""How long ops take: estimated from bytes and multiply-adds, or measured once for each op and shape."""
from __future__ import annotations

import time
from typing import Any, Callable

import torch
from torch.fx import Node as FxNode
from torch.utils._pytree import tree_leaves, tree_map

from . import memory
from .graph import target_name, tensors

RATES = {"cpu": (8.0, 20.0, 2000.0), "cuda": (1500.0, 100000.0, 4000.0)}  # bytes a ns, operations a ns, ns a launch
AHEAD = 1 << 20  # clock cycles for which a GPU is kept busy, so that an op's launch is not part of its time
_measured: dict[Any, float] = {}
_bandwidths: dict[torch.device, float] = {}
_workspaces: dict[Any, int] = {}  # bytes that an op takes beside its results while it runs, where that was measured


def operations(n: FxNode) -> int:
    """Multiply-adds, twice; 0 where PyTorch's own counter knows none."""
    from torch.utils.flop_counter import flop_registry

    count: Any = flop_registry.get(getattr(n.target, "overloadpacket", None))
    if count is None:
        return 0
    value = lambda a: a.meta["val"] if isinstance(a, FxNode) else a  # noqa: E731
    try:
        args, kwargs = torch.fx.map_arg(n.args, value), torch.fx.map_arg(n.kwargs, value)
        return int(count(*args, **kwargs, out_val=n.meta["val"]))
    except Exception:  # a counter that does not know these arguments: bytes alone
        return 0


def estimate(n: FxNode) -> float:
    """Nanoseconds, roughly: the order matters, not the amount."""
    found = tensors(n)
    device = next((t.device.type for t in found), "cpu")
    bytes_rate, operation_rate, launch = RATES.get(device, RATES["cpu"])
    moved = sum(t.numel() * t.element_size() for a in [n, *n.all_input_nodes] for t in tensors(a))
    return launch + moved / bytes_rate + operations(n) / operation_rate


def key_of(n: FxNode) -> Any:
    def plain(a: Any) -> Any:
        if isinstance(a, FxNode):
            return tuple((tuple(t.shape), t.stride(), str(t.dtype), str(t.device)) for t in tensors(a))
        return str(a)

    return (str(n.target), str(tree_map(plain, (n.args, n.kwargs), is_leaf=lambda a: isinstance(a, FxNode))))


def real(a: Any) -> Any:
    """A tensor like a fake one, with values that no op minds."""
    v = a.meta["val"] if isinstance(a, FxNode) else a

    def one(t: Any) -> Any:
        if not isinstance(t, torch.Tensor):
            return t
        made = torch.empty_strided(t.shape, t.stride(), dtype=t.dtype, device=t.device)
        return made.fill_(0.5) if t.is_floating_point() else made.zero_()

    return tree_map(one, v)


def measure(n: FxNode, repeats: int = 3) -> float:
    """Nanoseconds of the op itself on tensors of its shapes; each op and shape once in a process.  An op that cannot be run
    alone is estimated."""
    key = key_of(n)
    if key not in _measured:
        from torch.utils._python_dispatch import _disable_current_modes

        try:
            with _disable_current_modes(), torch.no_grad():
                _measured[key], _workspaces[key] = _time(n, repeats)
        except Exception:
            _measured[key] = estimate(n)
    return _measured[key]


def workspace(n: FxNode) -> int:
    """Bytes that the op was seen to take beside its results; 0 if it was not measured."""
    return _workspaces.get(key_of(n), 0) if _workspaces else 0


def _time(n: FxNode, repeats: int) -> tuple[float, int]:
    args, kwargs = torch.fx.map_arg(n.args, real), torch.fx.map_arg(n.kwargs, real)
    device = next((t.device for t in tree_leaves((args, kwargs)) if isinstance(t, torch.Tensor)), torch.device("cpu"))
    target: Any = n.target
    best = float("inf")
    for _ in range(repeats + 1):
        if device.type == "cuda":
            begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
            torch.cuda._sleep(AHEAD)
            begin.record()
            target(*args, **kwargs)
            end.record()
            end.synchronize()
            best = min(best, begin.elapsed_time(end) * 1e6)
        else:
            start = time.perf_counter_ns()
            target(*args, **kwargs)
            best = min(best, float(time.perf_counter_ns() - start))
    if device.type != "cuda":
        return best, 0
    return best, memory.extra_bytes(device, lambda: target(*args, **kwargs), (args, kwargs))  # last: what stays allocated is there


def moved(n: FxNode, size: int) -> float:
    """Nanoseconds of a kernel that reads and writes so many bytes and does little else."""
    device = next((t.device for t in tensors(n)), torch.device("cpu"))
    launch = RATES.get(device.type, RATES["cpu"])[2]
    return launch + size / bandwidth(device)


def bandwidth(device: torch.device, size: int = 256 << 20) -> float:
    """Bytes a nanosecond, measured once for a GPU."""
    if device.type != "cuda":
        return RATES.get(device.type, RATES["cpu"])[0]
    if device not in _bandwidths:
        from torch.utils._python_dispatch import _disable_current_modes

        with _disable_current_modes(), torch.no_grad():
            x, times = torch.zeros(size, dtype=torch.uint8, device=device), []
            for _ in range(4):
                begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
                begin.record()
                x.add_(1)
                end.record()
                end.synchronize()
                times.append(begin.elapsed_time(end) * 1e6)
        _bandwidths[device] = 2 * size / max(min(times), 1.0)
    return _bandwidths[device]


def clock(kind: str) -> Callable[[FxNode], float]:
    return {"estimate": estimate, "measure": measure}[kind]


__all__ = ["clock", "estimate", "measure", "moved", "target_name", "workspace"]

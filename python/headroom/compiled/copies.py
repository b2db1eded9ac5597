"""Copies of a plan to the host and back, beside the computation: a stream a direction, pinned memory, waits where the plan has them."""
from __future__ import annotations

from typing import Any, Iterable, Optional

import torch
from torch.utils._python_dispatch import _disable_current_modes

from .arena import arena_of

SHARE = 0.85  # of a copy's speed alone that is left beside the computation
_streams: dict[tuple[str, str], Any] = {}
_done: dict[int, Any] = {}  # address to the event of the last copy that wrote there
_static: Optional[list[torch.Tensor]] = None  # while a step is captured: the host memory of its next copies
_joined: set[str] = set()  # ways of copies that belong to the capture


def _stream(device: torch.device, way: str) -> Any:
    key = (str(device), way)
    if key not in _streams:
        _streams[key] = torch.cuda.Stream(device)
    return _streams[key]


def out(x: torch.Tensor) -> torch.Tensor:
    """A copy on the host, begun."""
    if x.device.type != "cuda":
        return x.clone(memory_format=torch.preserve_format)
    host = _static.pop(0) if _static else torch.empty_strided(x.shape, x.stride(), dtype=x.dtype, pin_memory=True)
    _joined.add("out")
    stream, now = _stream(x.device, "out"), torch.cuda.current_stream(x.device)
    stream.wait_stream(now)
    with torch.cuda.stream(stream):
        host.copy_(x, non_blocking=True)
        event = stream.record_event()
    if arena_of(x.device) is None:
        x.record_stream(stream)
    _done[host.data_ptr()] = event
    return host


def left(x: torch.Tensor, host: torch.Tensor) -> torch.Tensor:
    """The copy of x to the host, completed for whatever reuses the memory of x: until here x is held."""
    event = _done.get(host.data_ptr())
    if event is not None:
        torch.cuda.current_stream(x.device).wait_event(event)
    return host


def back(host: torch.Tensor, device: str) -> torch.Tensor:
    """A copy on the device, begun; `arrived` waits for it."""
    if not device.startswith("cuda"):
        return host.clone(memory_format=torch.preserve_format)
    x = torch.empty_strided(host.shape, host.stride(), dtype=host.dtype, device=device)
    stream = _stream(x.device, "back")
    _joined.add("back")
    stream.wait_stream(torch.cuda.current_stream(x.device))
    event = _done.get(host.data_ptr())
    if event is not None:
        stream.wait_event(event)
    with torch.cuda.stream(stream):
        x.copy_(host, non_blocking=True)
        _done[x.data_ptr()] = stream.record_event()
    return x


def arrived(x: torch.Tensor) -> torch.Tensor:
    event = _done.get(x.data_ptr())
    if event is not None:
        torch.cuda.current_stream(x.device).wait_event(event)
    return x


def begin_static(hosts: Iterable[torch.Tensor]) -> None:
    """A capture begins: its copies go to these, in order.  What was copied before it has arrived."""
    global _static
    _static = list(hosts)
    _joined.clear()
    _done.clear()


def join(device: torch.device) -> None:
    """A capture ends with everything that it began."""
    for way in sorted(_joined):
        torch.cuda.current_stream(device).wait_stream(_stream(device, way))
    _joined.clear()
    _done.clear()


def end_static() -> None:
    global _static
    _static = None
    _joined.clear()


def speeds(device: torch.device, size: int = 64 << 20) -> dict[str, float]:
    """What a problem says of copies: bytes a nanosecond out and back, measured."""
    if device.type != "cuda":
        return {}
    with _disable_current_modes():  # a plan is made while fake tensors are: what is timed must be real
        found = _timed(device, size)
    return {"out_bytes_per_ns": round(SHARE * found[0], 3), "in_bytes_per_ns": round(SHARE * found[1], 3), "copy_latency_ns": 20000}


def _timed(device: torch.device, size: int) -> list[float]:
    there = torch.empty(size, dtype=torch.uint8, device=device)
    host = torch.empty(size, dtype=torch.uint8, pin_memory=True)
    found = []
    torch.cuda.synchronize(device)
    for way, source, target in (("out", there, host), ("back", host, there)):
        times, stream = [], _stream(device, way)
        for _ in range(3):
            begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
            with torch.cuda.stream(stream):
                begin.record(stream)
                target.copy_(source, non_blocking=True)
                end.record(stream)
            end.synchronize()
            times.append(begin.elapsed_time(end) * 1e6)
        found.append(size / max(min(times), 1.0))
    return found

"""PyTorch made to take our sides at kinks: relu, clips and max pools, in the order in which they are called."""
from __future__ import annotations

from typing import Any, Callable, Sequence

import numpy as np
import torch
import torch.nn.functional as F
from torch.overrides import TorchFunctionMode

from ..sides import Kink, Settled, Unlike, lying_as

RELU = (F.relu, torch.relu, torch.relu_, torch.Tensor.relu, torch.Tensor.relu_)
BOUNDS = {F.relu6: (0.0, 6.0), F.hardsigmoid: (-3.0, 3.0), F.hardswish: (-3.0, 3.0)}
KINDS = {F.relu6: "clip", F.hardtanh: "clip", F.hardsigmoid: "hard_sigmoid", F.hardswish: "hard_swish",
         F.leaky_relu: "leaky_relu", torch.clamp: "clip", torch.Tensor.clamp: "clip"}


class Sides(TorchFunctionMode):
    """Inside, every kink of the step is on the side that ours took."""

    def __init__(self, kinks: Sequence[Kink]) -> None:
        super().__init__()
        self.left: dict[str, list[Kink]] = {}
        for k in kinks:
            self.left.setdefault(k.kind, []).append(k)
        self.settled = Settled()

    def _next(self, kind: str) -> np.ndarray:
        if not self.left.get(kind):
            raise Unlike(f"more calls of {kind} than nodes of ours")
        return self.left[kind].pop(0).array

    def __torch_function__(self, func: Callable, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if func in RELU:
            y = self._relu(args[0])
            in_place = func in (torch.relu_, torch.Tensor.relu_) or kwargs.get("inplace") or len(args) > 1 and args[1]
            return args[0].copy_(y) if in_place else y
        if func is F.max_pool2d or func is torch.max_pool2d:
            return self._max_pool(*args, **kwargs)
        if func in KINDS and args[0].requires_grad:
            return self._bounded(func, *args, **kwargs)
        return func(*args, **kwargs)

    def _relu(self, x: torch.Tensor) -> torch.Tensor:
        ours = [c > 0 for c in lying_as(self._next("relu"), x.shape)]
        return torch.where(self._side(x, ours, [0.0]) > 0, x, torch.zeros((), dtype=x.dtype))

    def _side(self, x: torch.Tensor, choices: Sequence[np.ndarray], at: Sequence[float]) -> torch.Tensor:
        """How many of the kinks at `at` each element lies beyond, by our run."""
        a = x.detach().numpy()
        theirs: Any = sum((a > k).astype("int8") for k in at)
        largest = max(float(np.abs(a).max()), 1e-30)

        def distance(where: np.ndarray, best: np.ndarray) -> np.ndarray:
            return np.min([np.abs(a[where] - k) for k in at], axis=0) / largest

        side = self.settled.settle(theirs, [np.asarray(c, "int8") for c in choices], distance)
        return torch.from_numpy(np.ascontiguousarray(side))

    def _bounded(self, func: Callable, x: torch.Tensor, *args: Any, **kwargs: Any) -> torch.Tensor:
        kind = KINDS[func]
        low: Any
        high: Any
        low, high = BOUNDS.get(func, (0.0, None))
        if kind == "clip" and func is not F.relu6:
            named = dict(zip(("min_val", "max_val"), args)) | {k + "_val" if k in ("min", "max") else k: v
                                                               for k, v in kwargs.items()}
            low, high = (named.get("min_val", -1.0 if func is F.hardtanh else None),
                         named.get("max_val", 1.0 if func is F.hardtanh else None))
        at = [k for k in (low, high) if k is not None]
        side = self._side(x, [sum(((c > np.float32(k)).astype("int8") for k in at), np.zeros(c.shape, "int8"))
                              for c in lying_as(self._next(kind), x.shape)], at)
        if kind == "leaky_relu":
            return torch.where(side > 0, x, x * (args[0] if args else kwargs.get("negative_slope", 0.01)))
        below = side == 0 if low is not None else torch.zeros((), dtype=torch.bool)
        above = side == len(at) if high is not None else torch.zeros((), dtype=torch.bool)
        inside, under, over = {
            "clip": lambda: (x, low, high), "hard_sigmoid": lambda: (x / 6 + 0.5, 0.0, 1.0),
            "hard_swish": lambda: (x * (x / 6 + 0.5), 0.0, x)}[kind]()
        y = torch.where(below, torch.full((), 0.0 if under is None else under, dtype=x.dtype), inside)
        if over is None:
            return y
        return torch.where(above, over if isinstance(over, torch.Tensor) else torch.full((), over, dtype=x.dtype), y)

    def _max_pool(self, x: torch.Tensor, kernel_size: Any, stride: Any = None, padding: Any = 0, dilation: Any = 1,
                  ceil_mode: bool = False, return_indices: bool = False) -> torch.Tensor:
        kernel, stride, padding = (list(v) if isinstance(v, (list, tuple)) else [v, v] for v in
                                   (kernel_size, kernel_size if stride in (None, []) else stride, padding))
        y, own = torch.nn.functional.max_pool2d_with_indices(x.detach(), kernel, stride, padding, dilation, ceil_mode)
        rows, columns = (np.arange(n)[:, None] if i == 0 else np.arange(n)[None]
                         for i, n in enumerate(y.shape[2:]))
        flat = x.detach().flatten(2).numpy()
        width = x.shape[3]

        def places(c: np.ndarray) -> np.ndarray:
            c = c.astype("int64")
            return (rows * stride[0] - padding[0] + c // kernel[1]) * width + columns * stride[1] - padding[1] + c % kernel[1]

        largest = max(float(np.abs(flat).max()), 1e-30)
        choices = [places(c) for c in lying_as(self._next("max_pool"), y.shape)]
        choices = [c for c in choices if c.min() >= 0 and c.max() < flat.shape[2]]

        def distance(where: np.ndarray, best: np.ndarray) -> np.ndarray:
            at = np.take_along_axis(flat, best.reshape(*best.shape[:2], -1), 2).reshape(best.shape)
            return np.abs(y.numpy() - at)[where] / largest

        index = torch.from_numpy(self.settled.settle(own.numpy(), choices, distance))
        return x.flatten(2).gather(2, index.flatten(2)).reshape(y.shape)

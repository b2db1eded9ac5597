"""What a module may use and is nothing to the plan: torch.utils.checkpoint, which frees and recomputes as the plan itself does, and generators.  And
quantization that is only simulated, as plain code.

The functions are called as if they stood there, while a module is traced and while it is compared.  PyTorch's own checkpoints are not the
same in two cases: those with use_reentrant=True leave parameters without gradients where no input needs one, and batch norm inside moves its
statistics twice a step."""
from __future__ import annotations

import contextlib
from typing import Any, Callable, Iterator
from unittest import mock

import torch
from torch.utils import checkpoint


class Plain:
    """In place of the autograd function of use_reentrant=True."""

    @staticmethod
    def apply(function: Callable, preserve: bool, *args: Any) -> Any:
        return function(*args)


def around(*args: Any, **kwargs: Any) -> Iterator[None]:
    """In place of the generator of use_reentrant=False: what stands before and after the call."""
    yield


PLAINLY: dict[str, Any] = {"CheckpointFunction": Plain, "_checkpoint_without_reentrant_generator": around,
                           "_checkpoint_without_reentrant_generator_impl": around}


def without_generator(draw: Callable) -> Callable:
    """torch.randn and the like with a generator=, for which torch.export has no size of a batch; the numbers are Headroom's in any case."""
    def drawn(*args: Any, generator: Any = None, **kwargs: Any) -> Any:
        return draw(*args, **kwargs)

    return drawn


@contextlib.contextmanager
def checkpoints() -> Iterator[None]:
    with contextlib.ExitStack() as stack:
        for name, plain in PLAINLY.items():
            if hasattr(checkpoint, name):  # versions differ
                stack.enter_context(mock.patch.object(checkpoint, name, plain))
        yield


def in_steps(x: torch.Tensor, scale: Any, zero: Any, low: int, high: int) -> torch.Tensor:
    """Rounded to steps of a scale; the gradient passes where the number of the step is in range."""
    steps = torch.round(x / scale + zero)
    held, inside = (steps.clamp(low, high) - zero) * scale, (steps >= low) & (steps <= high)
    return held.detach() + (x - x.detach()) * inside


def per_tensor(input: torch.Tensor, scale: Any, zero_point: Any, quant_min: int, quant_max: int) -> torch.Tensor:
    return in_steps(input, scale, zero_point, quant_min, quant_max)


def per_channel(input: torch.Tensor, scale: torch.Tensor, zero_point: torch.Tensor, axis: int, quant_min: int, quant_max: int) -> torch.Tensor:
    shape = [-1 if d == axis % input.dim() else 1 for d in range(input.dim())]
    return in_steps(input, scale.view(shape), zero_point.view(shape), quant_min, quant_max)


@contextlib.contextmanager
def quantizers() -> Iterator[None]:
    """torch.fake_quantize_*, which torch.export does not follow where sizes are open."""
    with mock.patch.object(torch, "fake_quantize_per_tensor_affine", per_tensor), \
            mock.patch.object(torch, "fake_quantize_per_channel_affine", per_channel):
        yield

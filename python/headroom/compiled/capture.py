"""The step of a PyTorch module without running it: traced with fake tensors, planned, and stopped there."""
from __future__ import annotations

from typing import Any, Callable, Optional, Sequence

from .backend import Partition, Settings


class _Captured(Exception):
    """Ends a compilation when the joint graph is there."""


class _Capture(Partition):
    def __init__(self, settings: Settings, name: str) -> None:
        super().__init__(settings, name)
        self.joint: Any = None
        self.problem: Any = None
        self.made: Any = None
        self.refused: Optional[BaseException] = None

    def arrange(self, joint: Any) -> Any:
        from ..errors import DoesNotFit

        self.joint = joint
        try:
            self.problem, self.made = self.plan(joint)
        except DoesNotFit as e:  # "no" is an answer
            self.made = e.plan
        raise _Captured


def capture(module: Any, inputs: Sequence[Any], loss: Optional[Callable[..., Any]] = None,
            options: Optional[dict[str, Any]] = None) -> _Capture:
    """Captures and plans a training step of `module(*inputs)`; with `loss`, inputs end with the labels, and the step has
    loss(output, labels) in it.  Neither the module nor the loss is run."""
    import torch
    from torch._dynamo.backends.common import aot_autograd

    settings = Settings(options)
    found = _Capture(settings, type(module).__name__)

    def step(*given: Any) -> Any:
        if loss is None:
            return module(*given)
        return loss(module(*given[:-1]), given[-1])

    unused = lambda half, _: half  # noqa: E731
    make = aot_autograd(fw_compiler=unused, bw_compiler=unused, partition_fn=found)
    was = module.training
    module.train()
    try:
        torch._dynamo.reset()
        torch.compile(step, backend=make, fullgraph=True, dynamic=False)(*inputs)
    except BaseException as e:
        if found.made is None:
            raise
        assert isinstance(e, _Captured) or "_Captured" in repr(e), e
    finally:
        torch._dynamo.reset()
        module.train(was)
    if found.made is None:
        from ..errors import UsageError

        raise UsageError("nothing to train: no parameter of the module takes a gradient")
    return found


def plan(module: Any, inputs: Sequence[Any], loss: Optional[Callable[..., Any]] = None, budget: Any = None, **options: Any) -> Any:
    """A Plan of a training step that PyTorch would run (with its kernels; the optimizer is not part of it): bytes of parameters, inputs,
    activations and gradients.  Nothing is run.  `plan.report` says what it means in words."""
    found = capture(module, inputs, loss, {"budget": budget, **options})
    found.made.report = found.report
    return found.made

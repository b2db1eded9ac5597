"""The planner's choice handed to Inductor: it compiles both halves, and what they take is a forecast."""
from __future__ import annotations

from typing import Any, Callable, Sequence

from torch._functorch import config as functorch_config
from torch._inductor.compile_fx import compile_fx
from torch._inductor.custom_graph_pass import CustomPartitionerFn

from .arena import arena_of


class Chosen(CustomPartitionerFn):
    def __init__(self, partition: Any) -> None:
        self.partition = partition

    def __call__(self, gm: Any, joint_inputs: Sequence[object], **rest: Any) -> Any:
        return self.partition(gm, joint_inputs, **rest)

    def __deepcopy__(self, _memo: Any) -> "Chosen":  # Inductor copies and hashes its settings
        return self

    def __reduce__(self) -> Any:
        return Chosen, (None,)

    def uuid(self) -> Any:
        return None  # the plan depends on the budget: nothing of it is cached between processes


def compile_with(partition: Any, module: Any, inputs: Sequence[Any]) -> Callable[..., Any]:
    with functorch_config.patch(enable_autograd_cache=False):  # its key has no budget in it: another plan's halves would be found
        made: Any = compile_fx(module, list(inputs), config_patches={"custom_partitioner_fn": Chosen(partition)})  # type: ignore[arg-type]
    arena = next((a for t in inputs if hasattr(t, "device") and (a := arena_of(t.device)) is not None), None)
    if arena is None or partition.report is None:  # nothing was planned: there are no steps
        return made

    def step(*args: Any) -> Any:
        arena.step()
        return made(*args)

    return step

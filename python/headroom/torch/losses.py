"""A module together with a loss that has no counterpart here: one module that returns its loss, with the same parameters."""
from __future__ import annotations

import inspect
from typing import Any, Callable

import torch


def inputs_of(module: torch.nn.Module) -> list[inspect.Parameter]:
    kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    return [p for p in inspect.signature(module.forward).parameters.values() if p.kind in kinds]


def takes(module: torch.nn.Module, count: int) -> bool:
    """Whether forward() takes so many inputs."""
    many = any(p.kind == inspect.Parameter.VAR_POSITIONAL for p in inspect.signature(module.forward).parameters.values())
    return many or len(inputs_of(module)) >= count


def probabilities(output: torch.Tensor, label: torch.Tensor) -> torch.Tensor:
    """Cross entropy with a probability for each class."""
    return torch.nn.functional.cross_entropy(output, label)


def joined(module: torch.nn.Module, loss: Callable[..., Any], count: int) -> torch.nn.Module:
    """A module of `count` inputs and labels that returns (loss, output).  It shares all that the given one has, names included, so that
    what is trained is in that one."""
    kind: Any = type(module)

    def forward(self: Any, *given: Any) -> Any:
        output = kind.forward(self, *given[:-1])
        return loss(output, given[-1]), output

    positional = inspect.Parameter.POSITIONAL_OR_KEYWORD
    names = [p.name for p in inputs_of(module)[:count]]
    names += [f"input_{i}" for i in range(len(names), count)]
    forward.__signature__ = inspect.Signature([inspect.Parameter(n, positional) for n in ("self", *names, "label")])  # type: ignore
    made: torch.nn.Module = object.__new__(type(kind.__name__, (kind,), {"forward": forward}))
    made.__dict__ = module.__dict__
    return made

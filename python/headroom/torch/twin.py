"""Copies of a module: for a comparison, and with numbers of f32 in place of 16 bits."""
from __future__ import annotations

import copy
from typing import Any, Sequence

import torch

HALVES = (torch.float16, torch.bfloat16)


def copied(module: torch.nn.Module) -> torch.nn.Module:
    """With what torch.nn.utils.weight_norm and the like keep beside the parameters that they computed it of, which copy.deepcopy refuses."""
    computed = [x for m in module.modules() for x in vars(m).values() if isinstance(x, torch.Tensor) and x.grad_fn is not None]
    return copy.deepcopy(module, {id(x): x.detach().clone() for x in computed})


def halved(module: torch.nn.Module) -> set[str]:
    return {str(p.dtype).split(".")[1] for p in module.parameters() if p.dtype in HALVES}


def in_f32(module: torch.nn.Module) -> torch.nn.Module:
    """The module itself, or a copy in f32 of one whose parameters have 16 bits."""
    return copied(module).float() if halved(module) else module


def of_f32(example: Sequence[Any]) -> list[Any]:
    return [x.float() if isinstance(x, torch.Tensor) and x.dtype in HALVES else x for x in example]

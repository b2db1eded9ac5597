"""Copies of a module: for a comparison, and with numbers of f32 in place of 16 bits; and the module itself after it was traced."""
from __future__ import annotations

import contextlib
import copy
import types
from typing import Any, Iterator, Sequence

import torch
from torch._subclasses.fake_tensor import FakeTensor
from torch.utils._pytree import tree_leaves

HALVES = (torch.float16, torch.bfloat16)


@contextlib.contextmanager
def as_it_was(module: torch.nn.Module) -> Iterator[None]:
    """What forward() keeps in attributes while it is traced is gone afterwards: tensors without numbers, which no copy can be made of."""
    before = [(m, {k: copy.copy(v) if isinstance(v, (list, dict)) else v for k, v in vars(m).items()}, dict(vars(m))) for m in module.modules()]
    try:
        yield
    finally:
        for m, was, own in before:
            for k, v in list(vars(m).items()):
                if not traced(v):
                    continue
                if k not in was:
                    del vars(m)[k]
                    continue
                if isinstance(own[k], (list, dict)):
                    own[k].clear()
                    (own[k].extend if isinstance(own[k], list) else own[k].update)(was[k])
                vars(m)[k] = own[k]


def traced(x: Any) -> bool:
    return any(isinstance(t, FakeTensor) for t in tree_leaves(x))


def copied(module: torch.nn.Module) -> torch.nn.Module:
    """With what torch.nn.utils.weight_norm and the like keep beside the parameters that they computed it of, which copy.deepcopy refuses, and
    with functions that the module keeps (hooks, lambdas) around parts of the copy, where copy.deepcopy leaves them around the module's own."""
    computed = [x for m in module.modules() for x in vars(m).values() if isinstance(x, torch.Tensor) and x.grad_fn is not None]
    memo: dict[int, Any] = {id(x): x.detach().clone() for x in computed}
    made = copy.deepcopy(module, memo)
    for m in made.modules():
        for kept in (vars(m), m._forward_hooks, m._forward_pre_hooks):
            for k, f in kept.items():
                if isinstance(f, types.FunctionType) and f.__closure__:
                    kept[k] = around(f, memo)
    return made


def around(f: types.FunctionType, memo: dict[int, Any]) -> types.FunctionType:
    """The function with copies in place of what it encloses."""
    cells = []
    for cell in f.__closure__ or ():
        try:
            cells.append(types.CellType(memo.get(id(cell.cell_contents), cell.cell_contents)))
        except ValueError:  # empty
            cells.append(cell)
    made = types.FunctionType(f.__code__, f.__globals__, f.__name__, f.__defaults__, tuple(cells))
    made.__kwdefaults__ = f.__kwdefaults__
    return made


def halved(module: torch.nn.Module) -> set[str]:
    return {str(p.dtype).split(".")[1] for p in module.parameters() if p.dtype in HALVES}


def in_f32(module: torch.nn.Module) -> torch.nn.Module:
    """The module itself, or a copy in f32 of one whose parameters have 16 bits."""
    return copied(module).float() if halved(module) else module


def of_f32(example: Sequence[Any]) -> list[Any]:
    return [x.float() if isinstance(x, torch.Tensor) and x.dtype in HALVES else x for x in example]

"""What forward() may call and torch.export follows wrongly, or not at all: replaced while a module is traced.

torch.autograd.Function is traced through its forward(): its own backward() would be lost without a word.  Where backward() is what autograd
makes of forward() anyway it is left alone.  Where it multiplies each element of the gradient by a number of its own (straight-through
estimators, surrogates of spikes, reversed gradients), the number becomes part of the graph: y = f(x) + (x - x) m, with f, m and the
second x held fixed.  Any other is refused with the line that calls it.

Sequences that are packed (packed.py), losses that look at their data (plain_losses.py), gradients inside forward(), hooks on tensors, x.data, len(), which makes a number of the size of the
batch, and numbers drawn by Python's random or by NumPy, which would be the same in every step, are the others."""
from __future__ import annotations

import builtins
import contextlib
import random
import sys
from typing import Any, Iterator
from unittest import mock

import numpy as np
import torch
from torch.utils._python_dispatch import _disable_current_modes

from ..graph import Refused
from ..place import caller, foreign
from . import inlined, packed, plain_losses

Function = torch.autograd.Function
gradients = torch.autograd.grad  # itself is replaced below
NEAR = 1e-4
DRAWS = {random: ("random", "uniform", "randint", "randrange", "choice", "choices", "sample", "shuffle", "gauss", "normalvariate"),
         np.random: ("rand", "randn", "random", "random_sample", "uniform", "normal", "randint", "choice", "permutation", "shuffle",
                     "binomial", "beta")}


class Never(Refused):
    """Not to be had from eval() either."""


class Context:
    """What a Function is given, without autograd."""

    def __init__(self, needs: tuple) -> None:
        self.needs_input_grad = needs
        self.saved_tensors: tuple = ()

    def save_for_backward(self, *tensors: Any) -> None:
        self.saved_tensors = tensors

    save_for_forward = save_for_backward

    def mark_dirty(self, *tensors: Any) -> None:
        raise Never("a torch.autograd.Function that writes into its argument", caller())

    def mark_non_differentiable(self, *tensors: Any) -> None:
        pass

    def set_materialize_grads(self, value: bool) -> None:
        pass


class Kind:
    """A Function of the user's, and its forward()."""

    def __init__(self, made: Any) -> None:
        self.made, self.own, self.inherited = made, made.forward, "forward" not in made.__dict__
        self.kept = made.__dict__.get("forward")
        self.split = made.setup_context is not Function.setup_context
        self.trial = False

    def run(self, args: tuple) -> tuple[Any, Context]:
        """forward() as plain code."""
        c = Context(tuple(isinstance(a, torch.Tensor) and a.requires_grad for a in args))
        if not self.split:
            return self.own(c, *args), c
        out = self.own(*args)
        self.made.setup_context(c, args, out)
        return out, c

    def traced(self, *given: Any) -> Any:
        """What stands for forward() while a module is traced."""
        if self.trial:
            return self.own(*given)
        args = given if self.split else given[1:]
        real = [i for i, a in enumerate(args) if isinstance(a, torch.Tensor) and a.requires_grad]
        return self.own(*given) if not real else stood_in(self, args, real, given)

    def put(self) -> None:
        self.made.forward = staticmethod(self.traced)

    def restore(self) -> None:
        if self.inherited:
            del self.made.forward
        else:
            self.made.forward = self.kept


def factor(kind: Kind, args: tuple, c: Context, at: int, gradient: torch.Tensor) -> torch.Tensor:
    """What backward() gives for the argument."""
    found = kind.made.backward(c, gradient)
    found = found[at] if isinstance(found, tuple) else found
    return torch.zeros_like(args[at]) if found is None else found


def drawn(x: Any) -> Any:
    """A tensor like it, with numbers."""
    if not isinstance(x, torch.Tensor):
        return x
    shape = [d if isinstance(d, int) else d.node.hint for d in x.shape]
    if not x.dtype.is_floating_point:
        return torch.zeros(shape, dtype=x.dtype)
    return (2 * torch.randn(shape, dtype=x.dtype)).requires_grad_(x.requires_grad)


def plain(kind: Kind, args: tuple) -> bool:
    """Whether autograd makes the same of forward()."""
    real = [a for a in args if isinstance(a, torch.Tensor) and a.requires_grad]
    want = kind.made.apply(*args)
    got, _ = kind.run(args)
    if not isinstance(want, torch.Tensor) or not isinstance(got, torch.Tensor):
        return False
    g = torch.randn_like(want)
    theirs = gradients(want, real, g, allow_unused=True)
    through = gradients(got, real, g, allow_unused=True) if got.requires_grad else [None] * len(real)
    return all(near(a, b) for a, b in zip(theirs, through))


def near(a: Any, b: Any) -> bool:
    if a is None or b is None:
        other = b if a is None else a
        return other is None or not bool(other.any())
    return a.shape == b.shape and bool(((a - b).abs().max() <= NEAR * (1e-6 + b.abs().max())).item())


def by_element(kind: Kind, args: tuple, at: int) -> bool:
    """Whether backward() multiplies each element of the gradient by a number that the gradient has no part in."""
    with torch.no_grad():
        out, c = kind.run(args)
        if not isinstance(out, torch.Tensor) or out.shape != args[at].shape:
            return False
        g = torch.randn_like(out)
        m, got = (factor(kind, args, c, at, x) for x in (torch.ones_like(out), g))
        return near(got, m * g)


def stood_in(kind: Kind, args: tuple, real: list[int], given: tuple) -> Any:
    with _disable_current_modes(), torch._C.DisableTorchFunction(), torch.random.fork_rng(devices=[]), torch.enable_grad():
        torch.manual_seed(0)
        trial = tuple(drawn(a) for a in args)
        kind.trial = True
        try:
            same = plain(kind, trial)
            each = not same and len(real) == 1 and by_element(kind, trial, real[0])
        except (RuntimeError, TypeError, AttributeError, NotImplementedError):
            same = each = False
        finally:
            kind.trial = False
    if same:
        return kind.own(*given)
    if not each:
        raise Never(f"the backward() of {kind.made.__name__}, a torch.autograd.Function, is neither what autograd makes of its forward() "
                    "nor a factor for each element of the gradient", caller())
    x = args[real[0]]
    fixed = tuple(a.detach() if isinstance(a, torch.Tensor) else a for a in args)
    out, c = kind.run(fixed)
    m = factor(kind, fixed, c, real[0], torch.ones_like(out))
    return out.detach() + (x - x.detach()) * m.detach()


def functions() -> list[Kind]:
    """Every torch.autograd.Function that is not PyTorch's own."""
    found, left = [], list(Function.__subclasses__())
    while left:
        made = left.pop()
        left += made.__subclasses__()
        if not made.__module__.startswith(("torch.", "torch._")):
            found.append(Kind(made))
    return found


def refuse_gradient(*args: Any, **kwargs: Any) -> Any:
    raise Never("torch.autograd.grad or .backward() inside forward(): gradients of gradients are not computed", caller())


def refuse_hook(*args: Any, **kwargs: Any) -> Any:
    raise Never("a hook on the gradient of a tensor", caller())


def counted(x: Any, own: Any = len) -> Any:
    """len() of a tensor may be the size of the batch, which is no number yet."""
    return x.shape[0] if isinstance(x, torch.Tensor) and x.dim() else own(x)


def refuse_draw(kind: str, own: Any) -> Any:
    """Of the user's code alone; what traces it may draw."""
    def drawn(*args: Any, **kwargs: Any) -> Any:
        if foreign(sys._getframe(1).f_code.co_filename):
            return own(*args, **kwargs)
        raise Never(f"{kind} inside forward(): what it draws would be the same in every step; torch.rand and its kind draw anew", caller())

    return drawn


def data() -> property:
    """x.data in the user's code, which torch.export does not follow: a view that has no gradient, and may be written."""
    own: Any = torch._C.TensorBase.data

    def get(x: torch.Tensor) -> torch.Tensor:
        return own.__get__(x) if foreign(sys._getframe(1).f_code.co_filename) else x.detach()

    def put(x: torch.Tensor, value: torch.Tensor) -> None:
        if foreign(sys._getframe(1).f_code.co_filename):
            own.__set__(x, value)
            return
        with torch.no_grad():
            x.copy_(value)

    return property(get, put)


@contextlib.contextmanager
def stand_ins() -> Iterator[None]:
    kinds = functions()
    with contextlib.ExitStack() as stack:
        for made in kinds:  # not apply(), which modules hold under names of their own
            made.put()
            stack.callback(made.restore)
        stack.enter_context(mock.patch.object(torch.autograd, "grad", refuse_gradient))
        stack.enter_context(mock.patch.object(torch.Tensor, "backward", refuse_gradient))
        stack.enter_context(mock.patch.object(torch.Tensor, "register_hook", refuse_hook))
        stack.enter_context(mock.patch.object(builtins, "len", counted))
        stack.enter_context(mock.patch.object(torch.Tensor, "data", data()))
        for where, names in DRAWS.items():
            for name in names:
                kind = f"{where.__name__}.{name}()"
                stack.enter_context(mock.patch.object(where, name, refuse_draw(kind, getattr(where, name))))
        for loss in (plain_losses.ctc_loss, plain_losses.gaussian_nll_loss):
            stack.enter_context(mock.patch.object(torch.nn.functional, loss.__name__, loss))
        for name in ("randn", "rand", "randint", "normal"):
            stack.enter_context(mock.patch.object(torch, name, inlined.without_generator(getattr(torch, name))))
        for name, plain in (("cov", plain_losses.cov), ("corrcoef", plain_losses.corrcoef)):
            stack.enter_context(mock.patch.object(torch, name, plain))
            stack.enter_context(mock.patch.object(torch.Tensor, name, plain))
        stack.enter_context(packed.taken())
        stack.enter_context(inlined.checkpoints())
        stack.enter_context(inlined.quantizers())
        yield

"""The module's own step, for comparison: eager PyTorch with every random op at its mean."""
from __future__ import annotations

import contextlib
import dataclasses
import math
from typing import Any, Callable, Iterator, Mapping, Optional, Sequence
from unittest import mock

import numpy as np
import torch
import torch.nn.functional as F

from ..check import Compared, Outcome, compare, ours
from ..exported import Exported
from ..loss import class_dim
from ..sides import Unlike, first_of
from .export import as_real
from .sides import Sides
from .inlined import checkpoints, without_generator
from .twin import copied, in_f32, of_f32
from .walk import array_of


def _same(input: torch.Tensor, *args: Any, **kwargs: Any) -> torch.Tensor:
    return input


def _alpha(input: torch.Tensor, p: float = 0.5, training: bool = False, inplace: bool = False) -> torch.Tensor:
    """Every draw at 0.5 keeps all, or drops all."""
    lowest = -1.7580993408473766
    a = ((1 - p) * (1 + p * lowest ** 2)) ** -0.5
    return a * (input if p <= 0.5 else torch.full_like(input, lowest)) - a * lowest * p if training and p else input


def _leaky(input: torch.Tensor, lower: float = 1 / 8, upper: float = 1 / 3, training: bool = False, inplace: bool = False) -> torch.Tensor:
    return F.leaky_relu(input, (lower + upper) / 2)


def _fill(self: torch.Tensor, p: float = 0.5, **kwargs: Any) -> torch.Tensor:
    return self.fill_(p)


def _exponential(self: torch.Tensor, lambd: float = 1.0, **kwargs: Any) -> torch.Tensor:
    return self.fill_(math.log(2.0) / lambd)


def _likely(input: torch.Tensor, **kwargs: Any) -> torch.Tensor:
    return (input > 0.5).to(input.dtype)


def _whole(*args: Any, low: int = 0, size: Any = None, dtype: Any = torch.int64, **kwargs: Any) -> torch.Tensor:
    args = (*args, *([kwargs["high"]] if "high" in kwargs else []), *([size] if size is not None else []))
    ends, size = ([low, *args[:-1]] if len(args) == 2 else args[:-1]), args[-1]
    return torch.full(size, (ends[0] + ends[1]) // 2, dtype=dtype)


def _whole_like(x: torch.Tensor, *ends: int, **kwargs: Any) -> torch.Tensor:
    low, high = ends if len(ends) == 2 else (kwargs.get("low", 0), *(ends or (kwargs["high"],)))
    return torch.full_like(x, (low + high) // 2, dtype=kwargs.get("dtype"))


def _between(self: torch.Tensor, low: float = 0.0, high: float = 1.0, **kwargs: Any) -> torch.Tensor:
    return self.fill_((low + high) / 2)


def _around(self: torch.Tensor, mean: float = 0.0, std: float = 1.0, **kwargs: Any) -> torch.Tensor:
    return self.fill_(mean)


def _centre(mean: Any, std: Any = 1.0, size: Any = (), **kwargs: Any) -> torch.Tensor:
    if isinstance(mean, torch.Tensor):
        return mean.expand(torch.broadcast_shapes(mean.shape, std.shape)) if isinstance(std, torch.Tensor) else mean.clone()
    return torch.full(std.shape if isinstance(std, torch.Tensor) else size, float(mean))


def _halves_like(x: torch.Tensor, **kwargs: Any) -> torch.Tensor:
    return torch.full_like(x, 0.5)


def _halves(*size: Any, **kwargs: Any) -> torch.Tensor:
    return torch.full(size[0] if len(size) == 1 and not isinstance(size[0], int) else size, 0.5)


def first_of_equals(own: Callable) -> dict[str, Callable]:
    """Sorting by which equal elements keep their order, as ours do: in PyTorch it is open, and what is drawn is equal here."""
    def sort(input: torch.Tensor, dim: int = -1, descending: bool = False, stable: bool = True, **kwargs: Any) -> Any:
        return own(input, dim=dim, descending=descending, stable=True)

    def argsort(input: torch.Tensor, dim: int = -1, descending: bool = False, stable: bool = True) -> torch.Tensor:
        return sort(input, dim, descending).indices

    def topk(input: torch.Tensor, k: int, dim: int = -1, largest: bool = True, sorted: bool = True, **kwargs: Any) -> Any:
        first, places = (t.narrow(dim, 0, k) for t in sort(input, dim, largest))
        return torch.return_types.topk((first, places))

    return {"sort": sort, "argsort": argsort, "topk": topk}


@contextlib.contextmanager
def mean() -> Iterator[None]:
    """Inside, dropout lets everything through, bernoulli_(p) gives p, and what else is drawn is its mean."""
    attention = F.scaled_dot_product_attention

    def attend(query: Any, key: Any, value: Any, attn_mask: Any = None, dropout_p: float = 0.0, *args: Any, **kw: Any) -> Any:
        return attention(query, key, value, attn_mask, 0.0, *args, **kw)

    def recurrent(kept: Any) -> Any:
        return lambda *args: kept(*[0.0 if isinstance(a, float) else a for a in args])

    with contextlib.ExitStack() as stack:
        for name in ("alpha_dropout", "feature_alpha_dropout"):
            stack.enter_context(mock.patch.object(F, name, _alpha))
        stack.enter_context(mock.patch.object(F, "rrelu", _leaky))
        stack.enter_context(checkpoints())
        stack.callback(torch.backends.mha.set_fastpath_enabled, torch.backends.mha.get_fastpath_enabled())
        torch.backends.mha.set_fastpath_enabled(False)  # it leaves 0 where padding is, which training does not
        for name in ("dropout", "dropout1d", "dropout2d", "dropout3d"):
            stack.enter_context(mock.patch.object(F, name, _same))
        stack.enter_context(mock.patch.object(torch, "dropout", _same))
        for name, still in (("bernoulli_", _fill), ("uniform_", _between), ("normal_", _around),
                            ("exponential_", _exponential), ("bernoulli", _likely)):
            stack.enter_context(mock.patch.object(torch.Tensor, name, still))
        for name, constant in (("randn_like", torch.zeros_like), ("randn", torch.zeros), ("rand_like", _halves_like), ("rand", _halves),
                            ("normal", _centre), ("bernoulli", _likely), ("randint", _whole), ("randint_like", _whole_like)):
            stack.enter_context(mock.patch.object(torch, name, without_generator(constant)))
        for name, ordered in first_of_equals(torch.sort).items():
            stack.enter_context(mock.patch.object(torch, name, ordered))
            stack.enter_context(mock.patch.object(torch.Tensor, name, ordered))
        stack.enter_context(mock.patch.object(F, "scaled_dot_product_attention", attend))
        for name in ("lstm", "gru", "rnn_tanh", "rnn_relu"):
            stack.enter_context(mock.patch.object(torch._VF, name, recurrent(getattr(torch._VF, name))))
        yield


def loss_of(outputs: Sequence[torch.Tensor], loss: str, label: Any, dim: Optional[int],
            rows: Optional[Sequence[int]] = None) -> torch.Tensor:
    first = outputs[0]
    if loss == "own":
        return first.reshape(())
    if loss == "squares":
        squares: Any = sum(o.pow(2).mean() for o in outputs)
        return squares
    if loss == "cross_entropy":
        class Shape:
            rank, shape = first.dim(), tuple(first.shape)

        d = class_dim(Shape, dim, 1, rows)  # type: ignore[arg-type]
        return F.cross_entropy(first.movedim(d, -1).flatten(0, -2), label.flatten().long())
    if loss == "mean_squared_error":
        return F.mse_loss(first, label)
    return F.binary_cross_entropy_with_logits(first, label)


def flat(x: Any) -> list[torch.Tensor]:
    if isinstance(x, torch.Tensor):
        return [x] if x.dtype.is_floating_point else []
    if isinstance(x, Mapping):
        return [t for y in x.values() for t in flat(y)]
    if dataclasses.is_dataclass(x):
        return [t for f in dataclasses.fields(x) for t in flat(getattr(x, f.name))]
    return [t for y in x for t in flat(y)] if isinstance(x, (list, tuple)) else []


def labels(e: Exported, batch: int, seed: int = 0) -> dict[str, np.ndarray]:
    """What the loss wants beside the inputs, drawn."""
    v = e.model.train.named.get("label")
    if v is None or any(name == "label" for name, _, _ in e.inputs):
        return {}
    shape = [d if isinstance(d, int) else d.at(batch) for d in v.shape]
    r = np.random.RandomState(seed)
    return {"label": r.randint(0, max(e.model.classes, 1), shape).astype("int32") if v.type == "i32"
            else r.rand(*shape).astype("float32")}


def theirs(module: torch.nn.Module, inputs: Sequence[torch.Tensor], label: Optional[np.ndarray], loss: str, steps: int,
           rate: float, dim: Optional[int] = None, sides: Optional[Sides] = None, rows: Optional[Sequence[int]] = None) -> Outcome:
    """`sides`: those to take at kinks in the first step."""
    m, out = copied(module), Outcome()
    target = torch.from_numpy(label) if label is not None else None
    if target is not None and target.dtype == torch.float32:
        target = target.to(next(m.parameters()).dtype)
    with mean():
        m.eval()
        with torch.no_grad():
            outputs = flat(m(*inputs))
            out.outputs = [o.numpy() for o in outputs[loss == "own":]]
            out.eval_loss = float(loss_of(outputs, loss, target, dim, rows))
        m.train()
        for i in range(steps):
            m.zero_grad()
            with sides if sides is not None and i == 0 else contextlib.nullcontext():
                x = loss_of(flat(m(*inputs)), loss, target, dim, rows)
            x.backward()
            out.losses.append(float(x.detach()))
            grads = {n: p.grad.to_dense() for n, p in m.named_parameters() if p.grad is not None}
            if i == 0:
                out.gradients = {n: as_real(g).numpy().copy() for n, g in grads.items()}
                still = [(n, p) for n, p in m.named_parameters() if not p.requires_grad]  # forward() may move them
                out.states = {n: array_of(t).copy() for n, t in (*m.named_buffers(), *still)}
            with torch.no_grad():
                for n, p in m.named_parameters():
                    if n in grads:
                        p.sub_(rate * grads[n])
    return out


def check(module: torch.nn.Module, e: Exported, inputs: Sequence[torch.Tensor], steps: int = 1, dim: Optional[int] = None,
          within: float = 1e-4, label: Optional[np.ndarray] = None, rows: Optional[Sequence[int]] = None, wide: bool = True) -> Compared:
    """One training step and one evaluation of both sides; raises nothing for a difference.  `label`: what the loss wants (default:
    drawn); `rows`: as export() has it; `wide`: False for single precision alone.

    First both in single precision.  Where they differ by more than `within`, the module runs again in double precision, and where they
    still do, once more on our side of every kink (headroom.sides): Compared says which of these it is, and how far the module's
    own single precision is from its double."""
    module, inputs = in_f32(module), of_f32(inputs)
    batch = int(inputs[0].shape[0])
    feeds = {n: x.numpy() for (n, _, _), x in zip(e.inputs, inputs)} | ({"label": label} if label is not None else labels(e, batch))
    a = ours(e, feeds, batch, steps)
    states = [n for n in e.weights if e.model.train.named[n].entry.kind == "state" and not n.startswith("constant.")]

    def run(m: torch.nn.Module, xs: Sequence[torch.Tensor], sides: Optional[Sides] = None) -> Outcome:
        return theirs(m, xs, feeds.get("label"), e.loss, steps, a.rate, dim, sides, rows)

    single = run(module, inputs)
    r = compare(a, single, states)
    if r.good(within) or not wide:
        return r
    twin = copied(module).double(), [x.double() if x.dtype == torch.float32 else x for x in inputs]

    def run_wide(sides: Optional[Sides]) -> Outcome:
        was = torch.get_default_dtype()
        torch.set_default_dtype(torch.float64)  # for what the module makes itself
        try:
            return run(*twin, sides)
        finally:
            torch.set_default_dtype(was)

    return by_double(e, feeds, batch, states, a, single, run_wide, within)


def by_double(e: Exported, feeds: Mapping[str, np.ndarray], batch: int, states: Sequence[str], a: Outcome, single: Outcome,
              run: Callable[[Optional[Sides]], Outcome], within: float) -> Compared:
    """Ours against the framework in double precision: on its own side of every kink, then on ours."""
    try:
        b = run(None)
    except (RuntimeError, TypeError) as why:  # casts of its own to f32
        r = compare(a, single, states)
        r.unlike = f"it does not run in double precision ({str(why).splitlines()[0]})"
        return r
    r = compare(a, b, states)
    r.double, r.single = True, compare(single, b, states)
    r.own = r.single.gradient
    if r.good(within):
        return r
    sides = Sides(ours(e, feeds, batch, 1, kinks=True).kinks)
    try:
        s = compare(a, run(sides), states)
    except Unlike as why:
        r.unlike = str(first_of(why))
        return r
    s.double, s.own, s.single, s.sides = True, r.own, r.single, sides.settled
    return s

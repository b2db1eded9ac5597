"""Losses of PyTorch that look at their data (so does torch.cov), as plain code that torch.export follows.

F.ctc_loss asks for lengths on the host.  Here lengths stay tensors: the sums over all alignments go step by step over the time, each
sample's stand still where its input has ended, and the sum is read where its target ends.  The gradient is PyTorch's own wherever
log_probs come from log_softmax, as they must."""
from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F

from ..graph import Refused
from ..place import caller

NEVER = -1.0e30  # the logarithm of what cannot be; finite, so that no difference of two is undefined


def moved(x: torch.Tensor, by: int) -> torch.Tensor:
    """(N, L) with the first `by` impossible."""
    return F.pad(x[:, :-by], (by, 0), value=NEVER)


def ctc_loss(log_probs: torch.Tensor, targets: torch.Tensor, input_lengths: Any, target_lengths: Any, blank: int = 0,
             reduction: str = "mean", zero_infinity: bool = False) -> torch.Tensor:
    """log_probs (T, N, C), targets (N, S)."""
    if log_probs.dim() != 3 or targets.dim() != 2:
        raise Refused("ctc_loss with targets one behind the other; give a matrix, (N, S), padded", caller())
    inputs, ends = (torch.as_tensor(n) for n in (input_lengths, target_lengths))
    targets = targets.long()
    labels = F.pad(torch.stack([torch.full_like(targets, blank), targets], 2).flatten(1), (0, 1), value=blank)  # (N, 2 S + 1)
    jump = torch.where((labels[:, 2:] != blank) & (labels[:, 2:] != labels[:, :-2]), 0.0, NEVER)  # over the blank between two
    jump = F.pad(jump, (2, 0), value=NEVER)
    each = log_probs.gather(2, labels.unsqueeze(0).expand(log_probs.shape[0], -1, -1))  # (T, N, 2 S + 1)
    first = torch.tensor([0.0, 0.0] + [NEVER] * (labels.shape[1] - 2))
    state = each[0] + first
    for t in range(1, log_probs.shape[0]):
        ways = torch.stack([state, moved(state, 1), moved(state, 2) + jump], 0)
        after = torch.logsumexp(ways, 0).clamp(min=NEVER) + each[t]
        state = torch.where((t < inputs).unsqueeze(1), after, state)
    last = 2 * ends.long().unsqueeze(1)
    final = torch.cat([state.gather(1, last), torch.where(last > 0, state.gather(1, (last - 1).clamp(min=0)), NEVER)], 1)
    loss = -torch.logsumexp(final, 1)
    if zero_infinity:
        loss = torch.where(loss > -NEVER / 2, 0.0, loss)
    if reduction == "mean":
        return (loss / ends.clamp(min=1)).mean()
    return loss.sum() if reduction == "sum" else loss


def gaussian_nll_loss(input: torch.Tensor, target: torch.Tensor, var: Any, full: bool = False, eps: float = 1e-6,
                      reduction: str = "mean") -> torch.Tensor:
    """Without the look whether a variance is negative."""
    if isinstance(var, float):
        var = var * torch.ones_like(input)
    if var.dim() == input.dim() - 1 and var.shape == input.shape[:-1]:
        var = var.unsqueeze(-1)
    wide = var + (var.clamp(min=eps) - var).detach()  # the gradient does not see the bound
    loss = 0.5 * (torch.log(wide) + (input - target) ** 2 / wide)
    loss = loss + 0.5 * 1.8378770664093453 if full else loss  # log(2 pi)
    return loss.mean() if reduction == "mean" else loss.sum() if reduction == "sum" else loss


def cov(input: torch.Tensor, *, correction: int = 1, fweights: Any = None, aweights: Any = None) -> torch.Tensor:
    if fweights is not None or aweights is not None:
        raise Refused("torch.cov with weights", caller())
    x = input.unsqueeze(0) if input.dim() < 2 else input
    x = x - x.mean(1, keepdim=True)
    y = x @ x.transpose(0, 1) / (x.shape[1] - correction)
    return y.reshape(()) if input.dim() < 2 else y


def corrcoef(input: torch.Tensor) -> torch.Tensor:
    y = cov(input)
    if not y.dim():
        return y / y
    by = y.diagonal().sqrt()
    return (y / by.unsqueeze(1) / by.unsqueeze(0)).clamp(-1, 1)

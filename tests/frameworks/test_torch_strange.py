"""What strangers' modules of PyTorch do that no list names: taken as it is, or refused with their own line."""
from __future__ import annotations

import random
import unittest

try:
    import numpy as np
    import torch
    import torch.nn.functional as F
    from torch import nn
except ImportError as missing:
    raise unittest.SkipTest(str(missing)) from None

import headroom as hr
import headroom.torch as front
from headroom.graph import Refused
from headroom.torch.ops import OPS
from test_torch_more import Same as Base

torch.set_num_threads(1)


class Any(nn.Module):
    """forward(*inputs)."""

    def __init__(self):
        super().__init__()
        self.a, self.b, self.out = nn.Linear(6, 4), nn.Linear(5, 4), nn.Linear(4, 3)

    def forward(self, first, *rest):
        return self.out(torch.tanh(self.a(first) + self.b(rest[0])))


class Filled(nn.Module):
    """A recurrence written into memory that nobody has filled."""

    def __init__(self):
        super().__init__()
        self.a, self.out = nn.Linear(4, 6), nn.Linear(6, 3)

    def forward(self, x):
        h, ys = torch.zeros(x.size(0), 6), torch.empty(x.size(0), x.size(1), 6)
        for t in range(x.size(1)):
            h = 0.5 * h + self.a(x[:, t])
            ys[:, t] = h
        return self.out(ys).mean(1)


class Flow(nn.Module):
    """torch.distributions looks whether its arguments are valid."""

    def __init__(self):
        super().__init__()
        self.net = nn.Linear(3, 6)

    def forward(self, x):
        a, b = x.chunk(2, -1)
        scale, shift = self.net(a).tanh().chunk(2, -1)
        y = torch.cat([a, b * scale.exp() + shift], -1)
        return -(torch.distributions.Normal(0.0, 1.0).log_prob(y).sum(-1) + scale.sum(-1)).mean()


class Relative(nn.Module):
    """Positions that are the same for every sample, and have a batch all the same."""

    def __init__(self):
        super().__init__()
        self.a = nn.Linear(8, 3)
        self.register_buffer("p", torch.randn(5, 1, 8), persistent=False)

    def forward(self, x):
        p = self.p.expand(-1, x.shape[0], -1)
        q = torch.einsum("jbh,hk->jbk", p, self.a.weight.t())
        return torch.einsum("ibk,jbk->bij", self.a(x).transpose(0, 1), q).reshape(x.shape[0], -1)


class Taken(Base):
    def test_any_number_of_inputs(self) -> None:
        self.same(Any(), lambda n: (torch.randn(n, 6), torch.randn(n, 5)))

    def test_memory_that_nobody_has_filled(self) -> None:
        self.same(Filled(), lambda n: (torch.randn(n, 5, 4),))

    def test_assertions_about_data(self) -> None:
        self.same(Flow(), lambda n: (torch.randn(n, 6),), "own")

    def test_products_with_what_every_sample_shares(self) -> None:
        self.same(Relative(), lambda n: (torch.randn(n, 4, 8),))


class Line(nn.Module):
    """A linear layer, and what `act` does before it."""

    def __init__(self, act):
        super().__init__()
        self.a, self.act = nn.Linear(8, 3), act

    def forward(self, x):
        return self.a(self.act(self, x))


def python_draws(module, x):
    return x * 2 if random.random() < 0.5 else x


def numpy_draws(module, x):
    return x * float(np.random.rand())


def clamps(module, x):
    with torch.no_grad():
        module.a.weight.clamp_(-1, 1)
    return x


def chosen(module, x):
    rows, _ = torch.where(x > 0)
    return x[rows]


class NotTaken(unittest.TestCase):
    def refused(self, module: nn.Module, why: str) -> None:
        with self.assertRaisesRegex(Refused, why):
            front.export(module, (torch.randn(4, 8),))

    def test_numbers_that_would_be_the_same_in_every_step(self) -> None:
        self.refused(Line(python_draws), r"test_torch_strange\.py:\d+: `return x \* 2 if random.*random\.random\(\) inside forward\(\)")
        self.refused(Line(numpy_draws), r"test_torch_strange\.py:\d+: `return x \* float.*numpy\.random\.rand\(\) inside forward\(\)")
        self.assertTrue(0 <= random.random() < 1 and 0 <= np.random.rand() < 1)

    def test_parameters_that_forward_writes_to(self) -> None:
        self.refused(Line(clamps), r"test_torch_strange\.py:\d+: .*writes into the parameter a\.weight")

    def test_sizes_that_depend_on_data(self) -> None:
        self.refused(Line(chosen), r"test_torch_strange\.py:\d+: .*size depends on data")

    def test_scripts(self) -> None:
        self.refused(nn.Sequential(torch.jit.script(nn.Linear(8, 3))), "^0: a module of torch.jit.script")

    def test_a_graph_that_the_library_refuses_has_the_users_line(self) -> None:
        from unittest import mock

        once = lambda b, c: b.reshape(b.slice(b.whole(c["tensors"][0]), -1, 0, 1), c.shape())  # noqa: E731
        data = torch.randn(8, 4, 8), torch.randint(0, 20, (8,))
        with mock.patch.dict(OPS, {"einsum": once}), self.assertRaisesRegex(Refused, r"test_torch_strange\.py:\d+: `.*do not fit"):
            hr.fit(Relative(), data, steps=1, batch=4, process="own", budget="100MiB", verbose=False)


del Base

if __name__ == "__main__":
    unittest.main()

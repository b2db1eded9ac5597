"""Pieces of whole families of models (timm, diffusers, vit-pytorch, flows, state spaces, tutorials) that were refused, crashed or differed once."""
from __future__ import annotations

import dataclasses
import os
import subprocess
import tempfile
import unittest

try:
    import torch
    import torch.nn.functional as F
    from torch import nn
    from torch.utils.checkpoint import checkpoint, checkpoint_sequential
except ImportError as missing:
    raise unittest.SkipTest(str(missing)) from None

import headroom.torch as front
from test_torch_wide import Compared, Of, OfTwo, reals

PROGRAM = os.environ.get("HEADROOM_PROGRAM", "")


@dataclasses.dataclass
class Both:
    loss: torch.Tensor
    logits: torch.Tensor


class Families(Compared):
    def setUp(self) -> None:
        torch.manual_seed(0)  # the weights too

    def split(self, e: front.Exported, batch: int, parts: int) -> str:
        """What the plan says of a batch in micro-batches."""
        with tempfile.TemporaryDirectory() as folder:
            e.save(f"{folder}/my.hr")
            done = subprocess.run([PROGRAM, "plan", f"{folder}/my.hr", "--batch", str(batch), "--micro-batches", str(parts), "--no-measure"],
                                  capture_output=True, text=True)
            return done.stdout + done.stderr

    def test_numbers_that_all_samples_share(self) -> None:
        """Weights drawn anew in every step, dropped weights, one number for all.  Micro-batches would draw others, so none are made."""
        def f(x, inner):
            w = inner.weight + 0.1 * torch.randn_like(inner.weight) + 0.1 * torch.randn(8).outer(torch.randn(8, generator=None))
            return x @ F.dropout(w, 0.3).T * (1 + torch.rand(())) + torch.bernoulli(torch.full((8,), 0.7)) * x

        e = self.same(Of(f, nn.Linear(8, 8)), reals(8))
        self.assertIn("noise(", e.model.train.text())
        if PROGRAM:
            self.assertIn("cannot be split", self.split(e, 8, 2))

    def test_draws_are_no_constants(self) -> None:
        self.refused(Of(lambda x: x * torch.distributions.Beta(torch.tensor(1.0), torch.tensor(1.0)).sample()), reals(8), "_sample_dirichlet")

    def test_drawn_orders(self) -> None:
        """Places that the largest of drawn numbers pick: in the comparison all are equal, and the first ones are picked."""
        def f(x):
            at = torch.randn(x.shape[0], 6).topk(4).indices
            return x.gather(1, at.sort().values[:, :, None].expand(-1, -1, 8))

        self.same(Of(f), reals(6, 8))

    def test_checkpoints_are_plain_calls(self) -> None:
        def f(x, first, norm, last):
            y = checkpoint(torch.tanh, checkpoint(first, x, use_reentrant=True), use_reentrant=False)
            return checkpoint_sequential(nn.Sequential(norm, last), 2, y, use_reentrant=False)

        self.same(Of(f, nn.Linear(8, 8), nn.BatchNorm1d(8), nn.Linear(8, 8)), reals(8), batches=(8, 12))

    def test_vmap(self) -> None:
        """Over the batch, and over the weights of an ensemble."""
        base = nn.Linear(8, 8, device="meta")

        def f(x, inner, *ensemble):
            params, buffers = torch.func.stack_module_state(list(ensemble))
            each = torch.vmap(lambda p, b: torch.func.functional_call(base, (p, b), (x,)))(params, buffers)
            return torch.vmap(lambda row: torch.tanh(inner(row)).outer(row).sum(0))(x) + each.mean(0)

        self.same(Of(f, *(nn.Linear(8, 8) for _ in range(4))), reals(8))

    def test_dataclass(self) -> None:
        class Returns(Of):
            def forward(self, x: torch.Tensor) -> Both:
                y = self.first(x)
                self.seen = y.detach()  # what is kept while it is traced is gone afterwards
                return Both(y.pow(2).mean(), y)

        module = Returns(None)
        self.same(module, reals(8), "own")
        self.assertFalse(hasattr(module, "seen"))

    def test_small_matrices(self) -> None:
        """Inverses, determinants, solutions, factors and exponentials."""
        def f(x, inner, turned, mapped):
            a = inner.weight + 2 * torch.eye(8)
            spd = a @ a.T + torch.eye(8)
            each = spd + x[:, :, None] * x[:, None, :]  # a matrix for each sample
            y = x @ torch.inverse(a) + torch.linalg.solve(a, x.T).T + torch.slogdet(a)[1] + 1e-3 * torch.det(a)
            y = y + torch.linalg.solve_triangular(torch.linalg.cholesky(spd), x.T, upper=False).T + torch.logdet(each)[:, None]
            normal = torch.distributions.MultivariateNormal(torch.zeros(8), torch.eye(8) + 0.5, validate_args=False)
            return y + torch.linalg.solve(each, x) + turned(x) + mapped(x) + normal.log_prob(x)[:, None]

        orthogonal = nn.utils.parametrizations.orthogonal
        self.same(Of(f, nn.Linear(8, 8), orthogonal(nn.Linear(8, 8), orthogonal_map="householder"),
                     orthogonal(nn.Linear(8, 8), orthogonal_map="matrix_exp")), reals(8))

    def test_state_spaces(self) -> None:
        """The kernel of a diagonal state space, and a recurrence of complex numbers."""
        def f(x, inner):
            step, a = inner.weight[0].exp(), torch.complex(-inner.weight[1].exp(), inner.weight[2])
            by = (torch.exp(a * step) - 1) / a * (1 + 1 / a) + a ** 2 - 1 / a ** 2
            kernel = (by[:, None] * torch.exp((a * step)[:, None] * torch.arange(6))).sum(0).real
            wave = torch.fft.irfft(torch.fft.rfft(kernel, n=12) * torch.fft.rfft(x.transpose(1, 2), n=12), n=12)[..., :6]
            return wave.transpose(1, 2) + torch.log(torch.complex(x.exp(), x)).imag

        self.same(Of(f, nn.Linear(8, 3)), reals(6, 8))

    def test_numbers_of_samples_anywhere(self) -> None:
        """A random field of tags: samples are the second dimension, and the last tag is where a mask ends."""
        def f(x, y):
            tags, last = y.T, (y > 2).long().sum(1)
            scores = x.transpose(0, 1)
            return scores[last, torch.arange(x.shape[0])] + tags[last, torch.arange(x.shape[0])][:, None]

        self.same(OfTwo(f), lambda n: (torch.randn(n, 6, 8), torch.randint(0, 5, (n, 5))))

    def test_the_same_mask_in_another_shape(self) -> None:
        """A mixture whose rows are picked by (N, T), and its gates by (N T)."""
        def f(x, gate, *experts):
            weight, sent = gate(x).softmax(-1).topk(2)
            out = torch.zeros_like(x)
            full = torch.zeros_like(gate(x)).scatter(-1, sent, weight)
            for i, expert in enumerate(experts):
                mask = (sent == i).any(-1)
                flat = mask.view(-1)
                out[mask] += expert(x.view(-1, 8)[flat]) * full.view(-1, 3)[flat, i].unsqueeze(1)
            return out

        self.same(Of(f, nn.Linear(8, 3), *(nn.Linear(8, 8) for _ in range(3))), reals(4, 8))

    def test_quantized_weights(self) -> None:
        def f(x, inner):
            w = torch.fake_quantize_per_channel_affine(inner.weight, torch.linspace(0.02, 0.05, 8), torch.zeros(8, dtype=torch.int32), 0, -8, 7)
            bytes_ = (x.detach().sigmoid() * 255).to(torch.uint8)
            return torch.fake_quantize_per_tensor_affine(x, 0.03, 0, -128, 127) @ w.T + bytes_ / 255.0 + (x > 0).byte()

        self.same(Of(f, nn.Linear(8, 8)), reals(8))

    def test_smaller_pieces(self) -> None:
        edges = torch.linspace(-1, 1, 5)

        def f(x, pool):
            place = torch.bucketize(x, edges) + torch.searchsorted(edges, x.detach(), right=True)
            y = x * place + torch.logcumsumexp(x, 1) + torch.cummax(x, 1)[0] * torch.cumprod(x, 1)
            return y + torch.cov(x[..., 0].T).sum() + torch.corrcoef(x[..., 1].T).pow(2).sum() + pool(x.repeat(1, 5, 3)[:, None])[:, 0, :1, :8]

        self.same(Of(f, nn.MaxPool2d((17, 16), (3, 1))), reals(4, 8), batches=(4, 6))

    def test_windows_over_one_another(self) -> None:
        """As the inverse of a Fourier transform of short times sums them."""
        def f(x):
            windows = x.unfold(1, 3, 2) * torch.tensor([0.5, 1.0, 0.25])  # (N, 2, 8, 3)
            return torch.ops.aten.unfold_backward(windows, [x.shape[0], 6, 8], 1, 3, 2) + x

        self.same(Of(f), reals(6, 8))

    def test_points(self) -> None:
        """Farthest points and what lies around them, picked by numbers of samples that are repeated."""
        def f(x):
            sample = torch.arange(x.shape[0])
            far = torch.cdist(x.detach(), x.detach())
            near = far[:, :3].sort(dim=-1)[1][:, :, :4]
            picked = x[sample.view(-1, 1, 1).repeat(1, 3, 4), near, :].amax(2)
            return picked + x[sample, far.sum(1).max(-1)[1], :].view(-1, 1, 8)

        self.same(Of(f), reals(6, 8))

    def test_smooth_resizing(self) -> None:
        def f(x):
            image = x[:, None].repeat(1, 2, 1, 1)
            return sum(F.interpolate(image, (3, 5), mode=mode, antialias=True).mean(1) for mode in ("bilinear", "bicubic"))

        self.same(Of(f), reals(9, 8))

    def test_functions_around_parts_of_the_module(self) -> None:
        """A lambda, and a hook that keeps what it sees: the comparison is of a copy, and leaves the module's own parts alone."""
        class Keeps(Of):
            def __init__(self) -> None:
                super().__init__(None, nn.Linear(8, 8))
                inner, self.seen = self.inner[0], {}
                self.twice = lambda x: inner(torch.tanh(inner(x)))
                self.first.register_forward_hook(lambda module, given, out: self.seen.update(first=out))

            def forward(self, x: torch.Tensor) -> torch.Tensor:
                y = self.twice(self.first(x))
                return self.weighted(y + self.seen["first"])

        module = Keeps()
        self.same(module, reals(8))
        self.assertTrue(all(p.grad is None for p in module.parameters()))

    def test_parameters_without_elements(self) -> None:
        self.same(Of(lambda x, inner: torch.cat([x, inner(x)], 1), nn.Linear(8, 0)), reals(8))

    def test_refusals_say_where_and_what_to_do(self) -> None:
        here = r"test_torch_families.py:\d+: .*"
        self.refused(Of(lambda x: x * len(list(x))), reals(8), here + "one size of the batch alone")

        def tests(x):
            if (x > 0).any():
                x = x * 2
            return x

        self.refused(Of(tests), reals(8), here + "needs no such test")


if __name__ == "__main__":
    unittest.main()

"""What people bring and no list of ours named: pieces that were refused or differed once, several to a module."""
from __future__ import annotations

import unittest

try:
    import torch
    import torch.nn.functional as F
    from torch import nn
except ImportError as missing:
    raise unittest.SkipTest(str(missing)) from None

import headroom.torch as front
from headroom.graph import Refused
from headroom.torch.check import check

torch.set_num_threads(1)


class Of(nn.Module):
    """A linear layer, then the function; the modules are its own.  No weight has gradient 0 by symmetry."""

    def __init__(self, f, *modules: nn.Module, width: int = 8) -> None:
        super().__init__()
        self.first, self.inner, self.f = nn.Linear(width, width), nn.ModuleList(modules), f

    def weighted(self, y: torch.Tensor) -> torch.Tensor:
        return y * (1 + torch.cos(torch.arange(y.shape[-1]) * 1.7))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.weighted(self.f(self.first(x), *self.inner))


class OfTwo(Of):
    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return self.weighted(self.f(self.first(x), y, *self.inner))


def reals(*shape: int):
    return lambda n: (torch.randn(n, *shape),)


class Compared(unittest.TestCase):
    def same(self, module: nn.Module, inputs, loss: str = "squares", batches: tuple = (3, 5)) -> front.Exported:
        """Exported at the first batch, compared at all."""
        torch.manual_seed(0)
        e = front.export(module, inputs(batches[0]), loss)
        for n in batches:
            r = check(module, e, inputs(n), steps=2)
            self.assertTrue(r.good(), (n, r))
        return e

    def refused(self, module: nn.Module, inputs, words: str) -> None:
        with self.assertRaisesRegex(Refused, words):
            front.export(module, inputs(3), "squares")


class Wide(Compared):
    def test_norms(self) -> None:
        def f(x, moving, squares):
            y = moving(x)
            return y + F.softplus(squares(y), 2.0, 1.0)

        self.same(Of(f, nn.InstanceNorm2d(4, track_running_stats=True), nn.RMSNorm([8, 8])), reals(4, 8, 8))

    def test_random_activations(self) -> None:
        def f(x, leaky, alpha, feature):
            return F.gumbel_softmax(feature(alpha(leaky(x))), dim=-1) + x

        self.same(Of(f, nn.RReLU(), nn.AlphaDropout(0.2), nn.FeatureAlphaDropout(0.3)), reals(4, 6, 8))

    def test_draws(self) -> None:
        """A step of diffusion: a time for each sample, and what a probability decides."""
        def f(x):
            t = torch.randint(0, 10, (x.shape[0],))
            return x * torch.linspace(0.5, 1, 10)[t][:, None, None] + torch.bernoulli(x.sigmoid()) * x

        e = self.same(Of(f), reals(6, 8))
        self.assertIn("noise(", e.model.train.text())
        self.same(Of(lambda x: x * torch.empty(8).exponential_()), reals(6, 8))

    def test_lengths_of_zero(self) -> None:
        """Norms, distances and deviations of 0 have gradient 0, and not none."""
        keep = torch.tensor([0.0, 1, 1, 0, 1, 1])[:, None]

        def f(x):
            y = x * keep
            return F.normalize(y, dim=-1) * x + torch.cdist(x, x).sum(-1, keepdim=True) + y.std(-1, keepdim=True) + y.norm(dim=-1, keepdim=True)

        self.same(Of(f), reals(6, 8))

    def test_the_largest_by_number(self) -> None:
        def f(x, ids):
            at = ids[:, :, None].expand(-1, -1, 8)
            y = torch.full((x.shape[0], 4, 8), 0.1)
            return torch.cat([y.scatter_reduce(1, at, x, how, include_self=own) for how, own in
                              (("amax", True), ("amax", False), ("amin", False))], 1).sum(1) + \
                x.index_reduce(1, torch.tensor([0, 0, 2]), x[:, 1:4], "amax").sum(1)

        self.same(OfTwo(f), lambda n: (torch.randn(n, 6, 8), torch.randint(0, 4, (n, 6))))

    def test_complex_numbers(self) -> None:
        """Rotary embedding as it was first written, and a spectral convolution with complex weights."""
        angles = torch.outer(torch.arange(6.0), 1.0 / 100 ** (torch.arange(0, 8, 2) / 8))
        turn = torch.polar(torch.ones_like(angles), angles)

        class Spectral(Of):
            def __init__(self) -> None:
                super().__init__(None)
                self.mix = nn.Parameter(0.1 * torch.randn(6, 6, 3, dtype=torch.cfloat))

            def forward(self, x: torch.Tensor) -> torch.Tensor:
                x = self.first(x)
                y = torch.view_as_real(torch.view_as_complex(x.reshape(*x.shape[:-1], -1, 2)) * turn).flatten(2)
                z = torch.fft.rfft(y)
                out = torch.zeros_like(z)
                out[..., :3] = torch.einsum("bix,iox->box", z[..., :3], self.mix)
                return self.weighted(torch.fft.irfft(out, n=8) + torch.fft.fft2(x).real + torch.fft.rfft(x).abs().mean(-1, keepdim=True))

        module = Spectral()
        e = self.same(module, reals(6, 8))
        self.assertEqual(e.weights["mix"].shape, (6, 6, 3, 2))
        self.assertEqual([n for n in e.notes if "parameters" in n], [])

    def test_losses_that_look_at_their_data(self) -> None:
        class Reader(nn.Module):
            def __init__(self) -> None:
                super().__init__()
                self.first, self.loss = nn.Linear(8, 5), nn.CTCLoss(zero_infinity=True)

            def forward(self, x, targets, lengths, ends):
                y = self.first(x)
                near = F.gaussian_nll_loss(y[..., 0], x[..., 0], y[..., 1].exp())
                return self.loss(y.log_softmax(-1).transpose(0, 1), targets, lengths, ends) + near

        def inputs(n):
            words = torch.tensor([[1, 2, 2], [3, 1, 4], [1, 1, 0]])
            return (torch.randn(n, 6, 8), *(t.repeat(2, *[1] * (t.dim() - 1))[:n] for t in
                                            (words, torch.tensor([6, 5, 6]), torch.tensor([3, 3, 2]))))

        self.same(Reader(), inputs, "own", (3, 5))

    def test_padding_in_an_encoder(self) -> None:
        """With the nested tensors that are the default; and one query for all samples, as detectors have them."""
        class Reader(nn.Module):
            def __init__(self) -> None:
                super().__init__()
                self.encoder = nn.TransformerEncoder(nn.TransformerEncoderLayer(8, 2, 16, batch_first=True), 1)
                self.ask, self.places = nn.MultiheadAttention(8, 2, batch_first=True), nn.Embedding(3, 8)

            def forward(self, x, hidden):
                y = self.encoder(x, src_key_padding_mask=hidden)
                q = torch.zeros(x.shape[0], 3, 8) + self.places.weight
                own = F.scaled_dot_product_attention(q, q + y.mean(1, keepdim=True), torch.zeros_like(q) + self.places.weight ** 2)
                out = self.ask(own, y, y)[0]
                return torch.cat([out, self.ask.out_proj(torch.zeros(x.shape[0], 1, 8))], 1)

        def inputs(n):
            hidden = torch.zeros(n, 6, dtype=torch.bool)
            hidden[1, 4:] = True
            return torch.randn(n, 6, 8), hidden

        e = self.same(Reader(), inputs)
        self.assertTrue(any("fast path" in n for n in e.notes))

    def test_buffers_as_people_write_them(self) -> None:
        """Through views, by .data, twice in a step, inside no_grad(); a number of steps that is read, and a teacher that follows."""
        class Moves(Of):
            def __init__(self) -> None:
                super().__init__(None)
                self.norm, self.teacher = nn.utils.parametrizations.spectral_norm(nn.Linear(8, 8)), nn.Conv2d(1, 2, 3).requires_grad_(False)
                self.pupil = nn.Conv2d(1, 2, 3)
                for name, value in (("rows", torch.rand(4, 8)), ("mean", torch.rand(8)), ("seen", torch.tensor(2)), ("last", torch.zeros(8))):
                    self.register_buffer(name, value)

            def forward(self, x: torch.Tensor) -> torch.Tensor:
                y = self.norm(self.norm(self.first(x)))
                if self.training:
                    self.seen += 1
                    self.rows[1] = y.detach().mean(0)
                    self.rows[2:, 1] += 0.5
                    self.mean.data.mul_(0.9).add_(y.data.mean(0))
                    self.last.data = 0.5 * self.last.data + y.detach().mean(0)
                    with torch.no_grad():
                        for a, b in zip(self.pupil.parameters(), self.teacher.parameters()):
                            b.data.mul_(0.9).add_(a.data, alpha=0.1)
                image = y.view(-1, 1, 2, 4).repeat(1, 1, 2, 1)
                far = (self.pupil(image) - self.teacher(image)).flatten(1)
                return self.weighted(torch.cat([y @ self.rows.T * self.mean.mean() / self.seen, y - self.last, far], 1))

        e = self.same(Moves(), reals(8))
        self.assertFalse(any("neither form" in n for n in e.notes), e.notes)
        self.assertEqual(e.model.train.named["teacher.weight"].entry.kind, "state")

    def test_a_tensor_that_is_no_buffer(self) -> None:
        class Keeps(Of):
            def forward(self, x: torch.Tensor) -> torch.Tensor:
                y = self.first(x)
                self.seen = y
                self.mean = 0.9 * self.mean + y.detach().mean(0)
                return y - self.mean

        module = Keeps(None)
        module.mean = torch.zeros(8)
        self.refused(module, reals(8), "register_buffer")

    def test_modules_of_16_bits(self) -> None:
        module = nn.Sequential(nn.utils.weight_norm(nn.Linear(8, 8)), nn.Tanh(), nn.Linear(8, 3)).bfloat16()
        e = front.export(module, (torch.randn(3, 8).bfloat16(),))
        self.assertTrue(any("bfloat16" in n for n in e.notes), e.notes)
        self.assertTrue(check(module, e, (torch.randn(3, 8).bfloat16(),)).good())
        self.assertEqual(module[2].weight.dtype, torch.bfloat16)

    def test_autocast_has_its_line(self) -> None:
        class Half(Of):
            def forward(self, x: torch.Tensor) -> torch.Tensor:
                with torch.autocast("cpu", dtype=torch.bfloat16):
                    return self.first(x)

        self.refused(Half(None), reals(8), r"test_torch_wide.py:\d+: `return self.first.x.`: torch.autocast")

    def test_rows_that_a_mask_picks(self) -> None:
        """Losses of masked places, logarithms of what is above 0, writes back: the rows that are not picked have no part in any."""
        class Words(nn.Module):
            def __init__(self) -> None:
                super().__init__()
                self.first = nn.Linear(8, 5)

            def forward(self, x, y):
                o, m = self.first(x), y > 1
                p, z = o.clamp(0, 1), o.clone()
                z[m] = o[m] * 2
                z[y == 0] = torch.arange(5.0)
                b, t = torch.where(y > 2)
                z[b, t] += x[b, t][:, :5]
                i = (y[:, 0] > 0).nonzero().squeeze(-1)
                sums = torch.zeros(x.shape[0], 5).index_add(0, b, o[b, t])
                return F.cross_entropy(o[m], y[m]) + F.mse_loss(o[m][:, 0], x[m][:, 1]) + p[p > 0].log().mean() + (z ** 2).mean() + \
                    sums.cos().mean() + o[i].sum() / (1 + o[i].shape[0]) + F.nll_loss(o[m].log_softmax(-1), y[m], reduction="none").mean() + \
                    o[m].mean(0).pow(2).sum() + o[..., torch.arange(5) < 3].pow(2).mean()

        def inputs(n):
            return torch.randn(n, 6, 8), torch.cat([torch.arange(5), torch.randint(0, 5, (6 * n - 5,))]).view(n, 6)

        self.same(Words(), inputs, "own")

    def test_experts_that_are_asked(self) -> None:
        """A mixture as it is usually written: each expert on the rows that were sent to it."""
        def f(x, gate, *experts):
            flat = x.view(-1, 8)
            weight, sent = gate(flat).softmax(-1).topk(2)
            to, out = F.one_hot(sent, 3).permute(2, 1, 0), torch.zeros_like(flat)
            for i, expert in enumerate(experts):
                k, row = torch.where(to[i])
                out.index_add_(0, row, expert(flat[None, row].reshape(-1, 8)) * weight[row, k, None])
            return out.view(x.shape)

        self.same(Of(f, nn.Linear(8, 3), *(nn.Sequential(nn.Linear(8, 6), nn.GELU(), nn.Linear(6, 8)) for _ in range(3))), reals(4, 8))

    def test_rows_that_meet_stay_refused(self) -> None:
        for f, words in ((lambda x: x[x[..., 0] > 0].softmax(0), "softmax of rows that a mask picks"),
                         (lambda x: x[x[..., 0] > 0].cumsum(0), "cumsum of rows"), (lambda x: x[x[..., 0] > 0].amax(0), "amax of rows"),
                         (lambda x: x[x[..., 0] > 0] @ x[x[..., 1] > 0].T, "different masks"), (lambda x: x[1:3], "batch of one sample"),
                         (lambda x: x[-1:], "before the end of the batch")):
            self.refused(Of(f), reals(4, 8), words)

    def test_smaller_pieces(self) -> None:
        def f(x, fold):
            y = x.diff(dim=1, prepend=x[:, :1]) + torch.fmod(x, 0.7) + torch.fmax(x, 0.5 * x) + x.double().float()
            z = y.reshape(x.shape[0], 2, 3, 8)[:, [0, 1], :, [2, 3]]
            return y + z.sum((0, 2))[:, None, None] + torch.cdist(x, y, p=3.0).mean(-1, keepdim=True) + fold(x.transpose(1, 2)[:, :4]).flatten(1).mean()

        e = self.same(Of(f, nn.Fold((3, 4), 2)), reals(6, 8))
        self.assertIn("a cast to float64 is computed in f32", e.notes)

    def test_what_stays_refused(self) -> None:
        ids = lambda n: (torch.randint(0, 9, (n, 5)),)  # noqa: E731
        self.refused(nn.Embedding(9, 4, scale_grad_by_freq=True), ids, "scale_grad_by_freq")
        self.refused(nn.Embedding(9, 4, max_norm=1.0), ids, "max_norm")
        self.refused(OfTwo(lambda x, y: x * (y & 3)[:, :, None]), lambda n: (torch.randn(n, 6, 8), torch.randint(0, 9, (n, 6))), "bits of whole")
        self.refused(nn.BatchNorm2d(4, momentum=None), reals(4, 6, 6), "momentum=None")

    def test_alibi(self) -> None:
        """Heads joined to the batch, and slopes that are rounded to 16 bits: Bloom and Falcon."""
        try:
            import transformers as tr
        except ImportError as missing:
            self.skipTest(str(missing))

        class Logits(nn.Module):
            def __init__(self, model: nn.Module) -> None:
                super().__init__()
                self.m = model

            def forward(self, ids: torch.Tensor) -> torch.Tensor:
                return self.m(ids, use_cache=False).logits

        small = dict(vocab_size=40, hidden_size=16)
        for model in (tr.BloomForCausalLM(tr.BloomConfig(n_layer=1, n_head=2, **small)),
                      tr.FalconForCausalLM(tr.FalconConfig(num_hidden_layers=1, num_attention_heads=2, alibi=True, multi_query=False,
                                                           new_decoder_architecture=False, **small))):
            self.same(Logits(model), lambda n: (torch.randint(3, 40, (n, 7)),), "cross_entropy", (3,))


if __name__ == "__main__":
    unittest.main()

"""PyTorch's modules whose code torch.export follows wrongly or not at all, and sizes of the batch in places where they are easily lost."""
from __future__ import annotations

import unittest

try:
    import torch
    import torch.nn.functional as F
    from torch import nn
    from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence
except ImportError as missing:
    raise unittest.SkipTest(str(missing)) from None

import headroom as hr
import headroom.torch as front
from headroom.check import Compared
from headroom.graph import Refused
from headroom.torch.check import check

torch.set_num_threads(1)


class Same(unittest.TestCase):
    def same(self, module: nn.Module, inputs, loss: str = "cross_entropy", batches: tuple = (4, 6)) -> None:
        """Exported at the first batch, compared at all."""
        torch.manual_seed(0)
        e = front.export(module, inputs(batches[0]), loss)
        for n in batches:
            r = check(module, e, inputs(n), steps=3)
            self.assertTrue(r.good(), (n, r))


class Rounded(torch.autograd.Function):
    """Straight through, within bounds."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x.sign()

    @staticmethod
    def backward(ctx, g):
        x, = ctx.saved_tensors
        return g * (x.abs() < 1)


class Reversed(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, by):
        ctx.by = by
        return x.view_as(x)

    @staticmethod
    def backward(ctx, g):
        return -ctx.by * g, None


class Spike(torch.autograd.Function):
    @staticmethod
    def forward(x):
        return (x > 0).float()

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx, g):
        x, = ctx.saved_tensors
        return g / (1 + 10 * x.abs()) ** 2


class Frugal(torch.autograd.Function):
    """backward() is what autograd would do."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * torch.sigmoid(x)

    @staticmethod
    def backward(ctx, g):
        x, = ctx.saved_tensors
        s = torch.sigmoid(x)
        return g * s * (1 + x * (1 - s))


class Signed(torch.autograd.Function):
    """Mixes the elements of the gradient."""

    @staticmethod
    def forward(ctx, x):
        return x * 1

    @staticmethod
    def backward(ctx, g):
        return g / g.abs().sum()


class Own(nn.Module):
    def __init__(self, f) -> None:
        super().__init__()
        self.a, self.b, self.f = nn.Linear(8, 8), nn.Linear(8, 5), f

    def forward(self, x):
        return self.b(self.f(self.a(x)))


class Functions(Same):
    def test_a_factor_for_each_element_is_taken(self) -> None:
        for f in (Rounded.apply, Spike.apply, lambda x: Reversed.apply(x, 0.7)):
            self.same(Own(f), lambda n: (torch.randn(n, 8),), batches=(4,))

    def test_what_autograd_would_do_is_traced_through(self) -> None:
        self.same(Own(Frugal.apply), lambda n: (torch.randn(n, 8),), batches=(4,))

    def test_any_other_is_refused_with_its_line(self) -> None:
        with self.assertRaisesRegex(Refused, r"test_torch_more\.py:\d+: `return self\.b.*the backward\(\) of Signed"):
            front.export(Own(Signed.apply), (torch.randn(4, 8),))

    def test_gradients_and_hooks_in_forward_are_refused_with_their_line(self) -> None:
        def penalty(x):
            return torch.autograd.grad(x.pow(2).sum(), x, create_graph=True)[0]

        def hooked(x):
            x.register_hook(lambda g: 2 * g)
            return x

        with self.assertRaisesRegex(Refused, r"test_torch_more\.py:\d+: `return torch\.autograd\.grad.*gradients of gradients"):
            front.export(Own(penalty), (torch.randn(4, 8),))
        with self.assertRaisesRegex(Refused, r"test_torch_more\.py:\d+: `x\.register_hook.*a hook"):
            front.export(Own(hooked), (torch.randn(4, 8),))


class Reader(nn.Module):
    def __init__(self, kind) -> None:
        super().__init__()
        self.embed, self.rnn = nn.Embedding(30, 6, padding_idx=0), kind(6, 5, 2, batch_first=True, bidirectional=True, dropout=0.1)
        self.fc = nn.Linear(10, 4)

    def forward(self, x, lengths):
        packed = pack_padded_sequence(self.embed(x), lengths.cpu(), batch_first=True, enforce_sorted=False)
        y, h = self.rnn(packed)
        y, counts = pad_packed_sequence(y, batch_first=True, total_length=x.shape[1])
        h = h[0] if isinstance(h, tuple) else h
        return self.fc(y.sum(1) / counts.unsqueeze(1) + torch.cat([h[-2], h[-1]], 1))


class StepsFirst(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.rnn, self.fc = nn.GRU(6, 5), nn.Linear(5, 4)

    def forward(self, x, lengths):
        x = x.transpose(0, 1)
        y, h = self.rnn(pack_padded_sequence(x, lengths, enforce_sorted=False), torch.ones(1, x.shape[1], 5))
        return self.fc(pad_packed_sequence(y, padding_value=-1.0)[0].mean(0) + h[0])


class Packed(Same):
    def test_sequences_of_different_lengths(self) -> None:
        for kind in (nn.LSTM, nn.GRU, nn.RNN):
            self.same(Reader(kind), lambda n: (torch.randint(1, 30, (n, 4)), torch.arange(n) % 4 + 1), batches=(4,))

    def test_steps_first_and_a_state_to_begin_with(self) -> None:
        self.same(StepsFirst(), lambda n: (torch.randn(n, 4, 6), torch.arange(n) % 4 + 1))

    def test_pytorch_is_left_as_it_was(self) -> None:
        def now() -> tuple:
            return (pack_padded_sequence.__code__, nn.LSTM.forward, Rounded.__dict__["forward"], torch.autograd.grad,
                    torch.Tensor.register_hook)

        before = now()
        front.export(Own(torch.tanh), (torch.randn(4, 8),))
        self.assertEqual(before, now())


class Pairs(nn.Module):
    """Two views of each sample; the labels are numbers made of the size of the batch."""

    def __init__(self, labels) -> None:
        super().__init__()
        self.fc, self.labels = nn.Linear(8, 8), labels

    def forward(self, a, b):
        z = F.normalize(torch.cat([self.fc(a), self.fc(b)]))
        n = a.shape[0]
        return F.cross_entropy((z @ z.T).masked_fill(torch.eye(2 * n, dtype=torch.bool), -1e9), self.labels(n))


class Mixed(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.Linear(8, 5)

    def forward(self, x, y):
        back = torch.arange(x.shape[0] - 1, -1, -1)
        out = self.fc(0.6 * x + 0.3 * x[back] + 0.1 * x.roll(1, 0))
        return F.cross_entropy(out, y) + F.cross_entropy(out, y[back])


class Sizes(Same):
    def test_labels_made_of_the_size_of_the_batch(self) -> None:
        for labels in (lambda n: torch.arange(2 * n).roll(n), lambda n: torch.cat([torch.arange(n, 2 * n), torch.arange(n)]),
                       lambda n: (torch.arange(2 * n) + n) % (2 * n)):
            self.same(Pairs(labels), lambda n: (torch.randn(n, 8), torch.randn(n, 8)), "own")

    def test_samples_mixed_with_others_of_the_batch(self) -> None:
        self.same(Mixed(), lambda n: (torch.randn(n, 8), torch.randint(0, 5, (n,))), "own")

    def test_one_tensor_for_two_inputs(self) -> None:
        class Both(Own):
            def forward(self, x, y):
                return self.b(self.a(x) * y)

        x = torch.randn(4, 8)
        module = Both(None)
        e = front.export(module, (x, x))
        self.assertTrue(check(module, e, (x, torch.randn(4, 8))).good())


    def test_len_of_the_batch_is_no_number(self) -> None:
        class Counted(Own):
            def forward(self, a, b):
                logits = self.a(a) @ self.a(b).T
                return F.cross_entropy(logits, torch.arange(len(logits))) + logits.pow(2).sum() / len(a)

        self.same(Counted(None), lambda n: (torch.randn(n, 8), torch.randn(n, 8)), "own")

    def test_what_is_the_same_for_every_sample_is_shaped_and_repeated(self) -> None:
        class Placed(nn.Module):
            def __init__(self) -> None:
                super().__init__()
                self.place, self.heads, self.fc = nn.Conv2d(2, 3, 1), nn.Parameter(torch.randn(2, 3, 4)), nn.Linear(12, 5)

            def forward(self, x):
                n = x.shape[0]
                grid = torch.linspace(-1, 1, 8).view(1, 2, 2, 2).expand(n, -1, -1, -1)
                y = x + self.place(grid).reshape(n, -1, 3).permute(0, 2, 1)  # (n, 3, 4)
                y = y @ (self.heads.repeat(n, 1, 1).view(n, 2, 3, 4).sum(1)).transpose(1, 2) @ y
                return self.fc(y.flatten(1))

        self.same(Placed(), lambda n: (torch.randn(n, 3, 4),))


class Hidden(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.attend, self.fc = nn.MultiheadAttention(8, 2, batch_first=True), nn.Linear(8, 5)

    def forward(self, x, mask):
        y, _ = self.attend(x, x, x, key_padding_mask=mask, need_weights=False)
        return self.fc(y.masked_fill(mask.unsqueeze(-1), 0.0).sum(1) / (~mask).sum(1, keepdim=True))


class Masks(Same):
    def test_a_mask_of_truths_is_an_input_and_comes_from_data(self) -> None:
        def inputs(n: int) -> tuple:
            return torch.randn(n, 6, 8), torch.arange(6)[None] >= (torch.arange(n) % 5 + 1)[:, None]

        self.same(Hidden(), inputs)
        module, (x, mask), y = Hidden(), inputs(8), torch.arange(8) % 5
        with torch.no_grad():
            want = F.cross_entropy(module(x, mask), y).item()
        history = hr.fit(module, hr.data(x, mask, y, shuffle=False), batch=8, steps=1, budget="16GiB", verbose=False,
                         loss=nn.CrossEntropyLoss(), optimizer=torch.optim.SGD(module.parameters(), lr=0.1))
        self.assertAlmostEqual(history.losses[0], want, places=5)

    def test_ops_of_complex_numbers_promise_no_way_out(self) -> None:
        with self.assertRaisesRegex(Refused, "complex numbers"):
            front.export(Own(lambda x: torch.fft.irfft(torch.fft.rfft(x).tanh(), n=8)), (torch.randn(4, 8),))
        with self.assertRaisesRegex(Refused, "complex numbers"):
            front.export(Own(lambda x: torch.fft.irfft(torch.fft.rfft(x).tanh(), n=8)), (torch.randn(4, 8),), custom_ops=True)


class Cache:
    """What no exporter can return."""


class Cached(Own):
    def __init__(self) -> None:
        super().__init__(None)
        self.config = type("Config", (), {"use_cache": True})()

    def forward(self, x):
        y = self.b(self.a(x))
        return (y, Cache()) if self.config.use_cache else y


class Ops(Same):
    def test_models_with_a_cache_of_keys_return_none(self) -> None:
        module = Cached()
        self.same(module, lambda n: (torch.randn(n, 8),))
        self.assertTrue(module.config.use_cache)

    def test_dropout_of_a_constant_is_drawn_in_every_step(self) -> None:
        class Noisy(Own):
            def forward(self, x):
                return self.b(self.a(x) * F.dropout(torch.linspace(1, 2, 8), 0.5, self.training))

        module = Noisy(None)
        self.same(module, lambda n: (torch.randn(n, 8),))
        self.assertIn(" = dropout(", front.export(module, (torch.randn(4, 8),)).model.text())

    def test_numbers_are_sorted(self) -> None:
        class Shuffled(Own):
            def forward(self, x, order):
                return self.b(torch.gather(self.a(x), 1, torch.argsort(torch.argsort(order))))

        self.same(Shuffled(None), lambda n: (torch.randn(n, 8), torch.stack([torch.randperm(8) for _ in range(n)])))

    def test_running_products_and_angles(self) -> None:
        def f(x):
            x = torch.cat([x[:, :3] * 0, x[:, 3:]], 1)  # products with zeros have gradients
            return torch.cumprod(x + 0.5, 1) + torch.cumprod(x, 1) + torch.atan2(x - 0.3, x.flip(1) + 0.1)

        self.same(Own(f), lambda n: (torch.randn(n, 8),))

    def test_sums_and_means_by_number(self) -> None:
        index = torch.tensor([0, 1, 0, 2, 2, 0, 5, 1])

        def f(x):
            i = index.expand(x.shape[0], -1)
            return sum(torch.scatter_reduce(x, 1, i, x * x, how, include_self=own) for how in ("sum", "mean") for own in (True, False))

        self.same(Own(f), lambda n: (torch.randn(n, 8),))

    def test_writes_by_several_tensors_of_numbers(self) -> None:
        def f(x):
            y = x.view(-1, 2, 4).clone()
            y[:, torch.tensor([0, 1]), torch.tensor([3, 0])] = x[:, :2]
            y[torch.arange(x.shape[0]), 1] = 0.5
            columns = F.unfold(y.unsqueeze(1), 2, stride=(1, 2))
            return F.fold(columns, (2, 4), 2, stride=(1, 2)).flatten(1)

        self.same(Own(f), lambda n: (torch.randn(n, 8),))

    def test_a_result_that_is_written_where_out_says(self) -> None:
        self.same(nn.Sequential(nn.utils.parametrizations.spectral_norm(nn.Linear(8, 6)), nn.ReLU(), nn.Linear(6, 5)),
                  lambda n: (torch.randn(n, 8),))


class Fair(unittest.TestCase):
    def test_what_is_as_near_as_the_frameworks_own_single_precision_passes(self) -> None:
        def far(by: float, single=None) -> Compared:
            return Compared(0.0, by, "w", 0.0, 0.0, 0.0, 1, [], double=single is not None, single=single)

        self.assertFalse(far(5e-4).fair())
        self.assertTrue(far(5e-4, far(3e-4)).fair())
        self.assertFalse(far(5e-4, far(3e-4)).good())
        self.assertFalse(far(5e-4, far(2e-4)).fair())
        self.assertFalse(far(5e-2, far(1e-1)).fair())


if __name__ == "__main__":
    unittest.main()

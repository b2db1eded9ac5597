"""torch.compile(backend="headroom"): the same bits as eager training, in fewer bytes."""
import copy
import unittest
import warnings

import torch
from small_models import Net, batch

import headroom as hr
import headroom.compiled as compiled
from headroom.compiled import memory

warnings.filterwarnings("ignore")
compiled.register()


def train(module: torch.nn.Module, call, steps: int = 2) -> list[torch.Tensor]:
    """Losses, a number drawn after each step, gradients, parameters and statistics."""
    x, y = batch()
    optimizer, found = torch.optim.SGD(module.parameters(), 0.1, momentum=0.9), []
    for i in range(steps):
        optimizer.zero_grad()
        torch.manual_seed(50 + i)
        loss, scores = call(x, y)
        (loss + scores.square().mean()).backward()  # both outputs have gradients
        found += [loss.detach().clone(), torch.rand(1)]
        optimizer.step()
    return found + [p.grad for p in module.parameters()] + [v.clone() for v in module.state_dict().values()]


class Backend(unittest.TestCase):
    @classmethod
    def setUpClass(cls) -> None:
        torch.set_num_threads(1)
        torch.use_deterministic_algorithms(True)
        torch.manual_seed(0)
        cls.base = Net()
        module = copy.deepcopy(cls.base)
        cls.want = train(module, module)

    def setUp(self) -> None:
        torch._dynamo.reset()

    def check(self, **options) -> compiled.Report:
        module = copy.deepcopy(self.base)
        call = torch.compile(module, backend="headroom", options=options, fullgraph=True)
        with memory.watch() as live:
            got = train(module, call)
        for want, mine in zip(self.want, got):
            self.assertTrue(torch.equal(want, mine))
        report = compiled.reports[-1]
        self.assertLessEqual(live.peak, report.peak_bytes - report.input_bytes)
        if report.budget_bytes is not None:
            self.assertLessEqual(report.peak_bytes, report.budget_bytes)
        return report

    def test_same_bits_and_no_more_bytes_than_planned(self) -> None:
        self.assertEqual(self.check().recomputed, 0)
        self.assertGreater(self.check(budget="45%").recomputed, 0)

    def test_measured_times_draw_nothing(self) -> None:
        self.check(budget="60%", times="measure")

    def test_values_that_go_to_the_host_come_back(self) -> None:
        from unittest import mock

        fast = {"out_bytes_per_ns": 1e6, "in_bytes_per_ns": 1e6, "copy_latency_ns": 0}
        module = copy.deepcopy(self.base)
        with mock.patch("headroom.compiled.copies.speeds", lambda device: fast):
            got = train(module, torch.compile(module, backend="headroom", options={"budget": "50%"}, fullgraph=True))
        self.assertTrue(all(torch.equal(a, b) for a, b in zip(self.want, got)))
        self.assertGreater(compiled.reports[-1].copied_bytes, 0)

    def test_inductor_gets_the_choice_and_moves_statistics_once(self) -> None:
        """Its halves are run as they are, uncompiled: what is tested is what it is given."""
        from functools import partial
        from unittest import mock

        from functorch.compile import make_boxed_func
        from torch._inductor.compile_fx import compile_fx

        inner = partial(compile_fx, inner_compile=lambda graph, _inputs, **_: make_boxed_func(graph.forward))
        base = Net(dropout=0.0)
        want_module, module = copy.deepcopy(base), copy.deepcopy(base)
        want = train(want_module, want_module)
        with mock.patch("headroom.compiled.inductor.compile_fx", inner):
            options = {"compiler": "inductor", "budget": "70%"}
            got = train(module, torch.compile(module, backend="headroom", options=options, fullgraph=True))
        self.assertGreater(compiled.reports[-1].recomputed, 0)
        self.assertEqual(compiled.reports[-1].promise, "forecast")
        for a, b in zip(want, got):
            torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-5)
        self.assertEqual(int(module.an.num_batches_tracked), 2)

    def halves(self, **options) -> tuple[list[str], compiled.Report]:
        """What Inductor is given to compile, as text; it compiles nothing."""
        from functools import partial
        from unittest import mock

        from functorch.compile import make_boxed_func
        from torch._inductor.compile_fx import compile_fx

        texts = []

        def keep(graph, _inputs, **_):
            texts.append(graph.code)
            return make_boxed_func(graph.forward)

        module, (x, y) = Net(dropout=0.0), batch()
        inner = partial(compile_fx, inner_compile=keep)
        torch._dynamo.reset()
        if options:
            with mock.patch("headroom.compiled.inductor.compile_fx", inner):
                loss, scores = torch.compile(module, backend="headroom", options=options, fullgraph=True)(x, y)
        else:
            loss, scores = torch.compile(module, backend=inner, fullgraph=True)(x, y)
        (loss + scores.square().mean()).backward()
        return texts, compiled.reports[-1] if options else None

    def test_inductor_without_a_budget_or_with_enough_gets_what_pytorch_would_choose(self) -> None:
        want, _ = self.halves()
        self.assertEqual(len(want), 2)
        for budget in (None, "1GiB"):
            with self.subTest(budget=budget):
                got, report = self.halves(compiler="inductor", budget=budget)
                self.assertEqual(want, got)
                self.assertEqual((report.share, report.time_ratio), (1.0, 1.0))
                self.assertIn("activation_memory_budget 1", str(report))

    def test_no_is_an_exception_with_the_minimum(self) -> None:
        module = copy.deepcopy(self.base)
        with self.assertRaises(Exception) as caught:
            torch.compile(module, backend="headroom", options={"budget": 1000})(*batch())
        self.assertIn("minimum", str(caught.exception))

    def test_an_option_that_is_none_is_a_sentence(self) -> None:
        with self.assertRaises(Exception) as caught:
            torch.compile(copy.deepcopy(self.base), backend="headroom", options={"budgte": "1GiB"})(*batch())
        self.assertIn("budgte", str(caught.exception))

    def test_evaluation_needs_no_plan(self) -> None:
        module = copy.deepcopy(self.base).eval()
        with torch.no_grad():
            want = module(*batch())[1]
            module.seen.zero_()
            got = torch.compile(module, backend="headroom")(*batch())[1]
        self.assertTrue(torch.equal(want, got))


    def test_breaks_frozen_and_tied_parameters_and_sums_of_gradients(self) -> None:
        class Odd(torch.nn.Module):
            def __init__(self) -> None:
                super().__init__()
                self.embed, self.norm = torch.nn.Embedding(20, 16), torch.nn.LayerNorm(16)
                self.fixed = torch.nn.Linear(16, 16).requires_grad_(False)

            def forward(self, ids: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
                h = torch.nn.functional.gelu(self.fixed(self.norm(self.embed(ids))))
                torch._dynamo.graph_break()
                h = torch.nn.functional.dropout(h, 0.3)
                scores = h @ self.embed.weight.T
                return scores.logsumexp(-1).mean(), scores.argmax(-1)

        def run(call, module) -> list[torch.Tensor]:
            torch.manual_seed(5)
            for i in range(3):  # nothing is set to zero between
                loss, best = call(torch.arange(12).view(3, 4) + i)
                loss.backward()
            return [loss.detach(), best, *(p.grad for p in module.parameters() if p.grad is not None)]

        torch.manual_seed(1)
        base = Odd()
        mine, theirs = copy.deepcopy(base), copy.deepcopy(base)
        want = run(theirs, theirs)
        got = run(torch.compile(mine, backend="headroom", options={"budget": "100%"}, dynamic=False), mine)
        self.assertEqual(len(want), len(got))
        self.assertTrue(all(torch.equal(a, b) for a, b in zip(want, got)))
        self.assertIsNone(mine.fixed.weight.grad)


class Plan(unittest.TestCase):
    def test_answers_without_running(self) -> None:
        module = torch.nn.Sequential(torch.nn.Linear(16, 64), torch.nn.GELU(), torch.nn.Linear(64, 4))
        x, y = torch.zeros(32, 16), torch.zeros(32, dtype=torch.long)
        before = {k: v.clone() for k, v in module.state_dict().items()}
        p = hr.plan(module, (x, y), loss=torch.nn.functional.cross_entropy, runtime="torch", budget="1GiB")
        self.assertTrue(p.fits)
        weights = sum(v.numel() * 4 for v in module.parameters())
        self.assertGreaterEqual(p.live_bytes, 2 * weights)
        self.assertTrue(all(torch.equal(before[k], v) for k, v in module.state_dict().items()))
        self.assertFalse(hr.plan(module, (x, y), loss=torch.nn.functional.cross_entropy, runtime="torch", budget="4KiB").fits)


if __name__ == "__main__":
    unittest.main()

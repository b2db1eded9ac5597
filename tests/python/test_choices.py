"""Which halves Inductor gets: the plan's or PyTorch's own, by one forecast for both."""
import unittest
import warnings
from functools import partial
from unittest import mock

import torch
from functorch.compile import make_boxed_func
from small_models import Net, batch
from torch._inductor.compile_fx import compile_fx

import headroom.compiled as compiled
from headroom.compiled import choices
from headroom.compiled.backend import Partition
from headroom.compiled.times import estimate, moved

warnings.filterwarnings("ignore")
compiled.register()


def candidate(share, size: int, time_ns: float) -> choices.Candidate:
    return choices.Candidate((None, None), share, choices.Forecast(size, time_ns, 0))


class Choose(unittest.TestCase):
    def choose(self, room, plan_ns: float, needs):
        """`needs` gives bytes and ns of a share of PyTorch's own."""
        asked = []

        def of(share: float) -> choices.Candidate:
            asked.append(share)
            return candidate(share, *needs(share))

        best, ratio = choices.choose(candidate(None, 50, plan_ns), room, of)
        return best.share, ratio, asked

    def test_pytorch_s_own_where_it_fits(self) -> None:
        for room in (None, 100):
            self.assertEqual(self.choose(room, 1.0, lambda share: (100, 1000.0)), (1.0, 1.0, [1.0]))

    def test_the_plan_where_it_is_faster_and_pytorch_s_where_that_is(self) -> None:
        needs = lambda share: (int(100 * share), 2000.0 - 1000 * share)  # noqa: E731
        share, ratio, asked = self.choose(60, 1100.0, needs)
        self.assertEqual((share, ratio, asked), (None, 1.1, [1.0, 0.5, 0.75]))
        share, ratio, _ = self.choose(60, 1900.0, needs)
        self.assertEqual((share, ratio), (0.5, 1.5))

    def test_a_plan_that_is_nearly_as_fast_is_not_compared(self) -> None:
        self.assertEqual(self.choose(60, 1015.0, lambda share: (100, 1000.0)), (None, 1.015, [1.0]))

    def test_the_plan_where_nothing_else_fits(self) -> None:
        share, _, asked = self.choose(60, 9000.0, lambda share: (100, 1000.0))
        self.assertEqual((share, asked), (None, [1.0, 0.5, 0.25]))


class Forecast(unittest.TestCase):
    """Of halves in the plan's own order, next to what the planner counted."""

    def halves(self, budget):
        seen = []

        def better(partition, halves, *_):
            seen.append((halves, partition.forward_count, partition.report))
            return halves

        torch.manual_seed(0)
        torch._dynamo.reset()
        module = Net(dropout=0.0)
        inner = partial(compile_fx, inner_compile=lambda graph, _inputs, **_: make_boxed_func(graph.forward))
        with mock.patch("headroom.compiled.inductor.compile_fx", inner), mock.patch.object(Partition, "better", better):
            options = {"compiler": "inductor", "budget": budget}
            loss, scores = torch.compile(module, backend="headroom", options=options, fullgraph=True)(*batch())
            (loss + scores.square().mean()).backward()
        return seen[-1]

    def test_is_what_the_planner_counts(self) -> None:
        for budget in (None, "70%"):
            with self.subTest(budget=budget):
                halves, count, report = self.halves(budget)
                found = choices.forecast(halves, count, estimate, moved)
                self.assertLess(abs(found.bytes / report.peak_bytes - 1), 0.02)
                self.assertGreater(found.time_ns, 0)

    def test_workspaces_count_while_their_op_runs(self) -> None:
        halves, count, _ = self.halves(None)
        plain = choices.forecast(halves, count, estimate, moved)
        more = choices.forecast(halves, count, estimate, moved, lambda n: 1 << 30)
        self.assertGreaterEqual(more.bytes, 1 << 30)
        self.assertLessEqual(more.bytes, plain.bytes + (1 << 30))

    def test_a_graph_stays_as_it_was_when_pytorch_s_partitioner_has_seen_it(self) -> None:
        graph = torch.fx.Graph()
        a = graph.placeholder("primals_1")
        t = graph.placeholder("tangents_1")
        sine = graph.call_function(torch.ops.aten.sin.default, (a,))
        cosine = graph.call_function(torch.ops.aten.cos.default, (a,))
        out = graph.call_function(torch.ops.aten.mul.Tensor, (t, cosine))
        graph.output((sine, out))
        from torch._subclasses.fake_tensor import FakeTensorMode

        with FakeTensorMode():
            for n in graph.nodes:
                n.meta["val"] = torch.empty(8)
        module = torch.fx.GraphModule(torch.nn.Module(), graph)
        before = module.code
        forward, backward = choices.own(module, None, 1.0, {"num_fwd_outputs": 1})
        self.assertEqual(module.code, before)
        self.assertIn("sin", forward.code)
        self.assertIn("mul", backward.code)


if __name__ == "__main__":
    unittest.main()

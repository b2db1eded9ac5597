"""Recorded steps of PyTorch as planner's problems, without PyTorch: what a plan does must be what the step computes."""
import json
import os
import unittest
from types import SimpleNamespace
from unittest import mock

import headroom as hr
from headroom.compiled.arena import Arena
from headroom.compiled.backend import Partition, Settings, spares
from headroom.compiled.problem import HELD, Problem, schedule
from headroom.compiled.step import Node, Step, early_nodes
from headroom.library import library

FOLDER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "steps")


def recorded(name: str) -> Step:
    with open(os.path.join(FOLDER, f"{name}.json")) as file:
        return Step.from_json(json.load(file))


class Planned:
    """A plan of a recorded step for a share of what plain training takes."""

    def __init__(self, name: str, share: float, **options) -> None:
        self.step = recorded(name)
        self.problem = Problem(self.step, **options)
        plain = hr.plan_problem(self.problem.text, effort=1).unconstrained_bytes
        self.budget = int(share * plain)
        self.plan = hr.plan_problem(self.problem.text, budget=f"{self.budget}B")
        self.plan.check_fits()
        self.actions = schedule(self.problem, self.plan)


class Steps(unittest.TestCase):
    def check(self, planned: Planned) -> None:
        """Every read finds its value in its buffer; the two halves have what they must have."""
        problem, step = planned.problem, planned.step
        holds = {}
        ran, between = [], None
        for a in planned.actions:
            if a.kind == "copy":
                self.assertEqual(holds[a.source], a.value)
                holds[a.target] = a.value
                continue
            if a.kind == "wait":
                continue
            for value, buffer in a.reads.items():
                if problem.values[value].get("role") != "persistent":
                    self.assertEqual(holds.get(buffer), value, a.node)
            for value, buffer in a.makes.items():
                holds[buffer] = value
            if a.kind == "outside":
                self.assertIsNone(between)
                between = len(ran)
            elif a.kind == "run":
                self.assertEqual(a.again, a.node.name in ran)
                self.assertTrue(a.node.again or not a.again)
                ran.append(a.node.name)
        first = [n for i, n in enumerate(ran) if n not in ran[:i]]
        self.assertEqual(sorted(first), sorted(n.name for n in step.nodes if n.kind == "op"))
        self.assertEqual([n for n in first if step.by_name[n].random], [n.name for n in step.nodes if n.random])
        early = {n.name for n in step.nodes if n.early or (n.random and n.forward)}
        self.assertLessEqual(early, set(ran[:between]))
        self.assertLessEqual(planned.plan.live_bytes, planned.budget)

    def test_every_read_sees_its_value(self) -> None:
        for name, share in (("convolutions", 1.0), ("convolutions", 0.45), ("attention", 0.6)):
            with self.subTest(name=name, share=share):
                p = Planned(name, share)
                self.check(p)
                self.assertEqual(any(a.again for a in p.actions), share < 1)

    def test_copies_go_out_and_come_back(self) -> None:
        fast = {"out_bytes_per_ns": 1e6, "in_bytes_per_ns": 1e6, "copy_latency_ns": 0}
        p = Planned("convolutions", 0.5, memory=fast)
        self.check(p)
        self.assertTrue(any(a.kind == "copy" and a.out for a in p.actions))
        self.assertTrue(any(a.kind == "copy" and not a.out for a in p.actions))

    def test_results_outside_of_the_arena_have_no_bytes_in_it(self) -> None:
        inside, outside = Problem(recorded("convolutions")), Problem(recorded("convolutions"), outside_results=True)
        made = [v["bytes"] for v in json.loads(outside.text)["values"] if v.get("result")]
        self.assertEqual(sum(made), 0)
        self.assertEqual(inside.result_bytes, 0)
        self.assertGreater(outside.result_bytes, 0)

    def test_blocks_of_whole_pages_are_counted_as_such(self) -> None:
        page, step = 4096, recorded("convolutions")
        plain, paged = (json.loads(Problem(step, page=p).text)["values"] for p in (0, page))
        for a, b in zip(plain, paged):
            self.assertGreaterEqual(b["bytes"], a["bytes"])
            self.assertEqual(b["bytes"] % (page if a["bytes"] > page // 2 else 512), 0)
        self.assertEqual(Problem(step, page=page).input_bytes, sum(v["bytes"] for v in paged if v.get("role") == "persistent"))

    def test_what_is_written_reads_back(self) -> None:
        step = recorded("attention")
        again = Step.from_json(json.loads(json.dumps(step.to_json())))
        self.assertEqual(Problem(step).text, Problem(again).text)
        with self.assertRaises(ValueError):
            Step.from_json({"headroom": "problem", "version": 1})

    def test_readers_of_what_is_updated_run_once_and_first(self) -> None:
        nodes = [Node("s", "input", storages=[(0, 64)]), Node("x", "input", storages=[(1, 64)]),
                 Node("v", "view", inputs=["s"], storages=[(0, 64)]), Node("a", "op", "norm", ["x", "v"], [(2, 64)]),
                 Node("b", "op", "mul", ["x", "v"], [(3, 64)]), Node("c", "op", "add", ["a", "b"], [(4, 64)])]
        step = Step("small", nodes, ["c"], [])
        early_nodes(step, ["s"], ["a"])
        self.assertEqual([(n.early, n.again) for n in step.nodes if n.kind == "op"], [(True, True), (True, False), (False, True)])


class Returned(unittest.TestCase):
    def test_what_the_forward_half_returns_is_held_to_the_end(self) -> None:
        nodes = [Node("x", "input", storages=[(0, 4000)]), Node("norm", "op", "norm", ["x"], [(1, 4000), (2, 100)], 1000),
                 Node("moved", "view", "getitem", ["norm"], [(2, 100)]), Node("y", "op", "relu", ["norm"], [(3, 4000)], 1000),
                 Node("t", "tangent", storages=[(4, 4000)]), Node("g", "op", "back", ["t", "norm"], [(5, 4000)], 1000, forward=False)]
        problem = Problem(Step("small", nodes, ["moved", "y"], ["g"]))
        self.assertEqual(problem.ops[0], HELD)
        held = problem.written[0]["out"][0]
        self.assertEqual((problem.values[held]["bytes"], problem.values[held]["result"]), (100, True))
        self.assertEqual(problem.values[problem.number[2]]["bytes"], 0)  # of a batch norm that runs again, too
        self.assertIn(held, problem.written[1]["in"])
        once = {w["name"]: "once" in w for w in problem.written}
        self.assertEqual((once["norm"], once["y"], once["g"]), (False, True, False))
        plan = hr.plan_problem(problem.text, budget="30000B")
        plan.check_fits()
        self.assertEqual([a.kind for a in schedule(problem, plan)], [HELD, "run", "run", "outside", "run"])


class Options(unittest.TestCase):
    def test_steps_are_captured_unless_that_is_switched_off(self) -> None:
        found = [(s.capture, s.capture_asked) for s in (Settings(None), Settings({"capture": True}), Settings({"capture": False}))]
        self.assertEqual(found, [(True, False), (True, True), (False, False)])


    def test_budgets_that_are_none_are_sentences(self) -> None:
        self.assertEqual((Settings({"budget": " 60 %"}).share, Settings({"budget": "2GiB"}).budget), (0.6, 2 << 30))
        sizes = {"5GB": 5 * 10**9, "5G": 5 << 30, "1.5 KiB": 1536, "500 mb": 5 * 10**8, "64": 64, ".5MiB": 1 << 19, "9B": 9}
        self.assertEqual({k: Settings({"budget": k}).budget for k in sizes}, sizes)
        for wrong in ("1.2.3GiB", "0GiB", "abc%", "0%", "-5%", "nan%", "-5GiB", "six", 0, -1):
            with self.subTest(budget=wrong), self.assertRaisesRegex(hr.UsageError, "budget="):
                Settings({"budget": wrong})

    def test_inductor_has_less_to_spare_where_nothing_fits_otherwise(self) -> None:
        first, second = spares(4 << 30, 1 << 30)
        self.assertLess(second, first)
        self.assertLess(first, (4 << 30) // 20)
        self.assertEqual(spares(1, 2), [48 << 20, 24 << 20])


class Reserved(unittest.TestCase):
    """PyTorch's allocator without PyTorch: its calls, on the host's memory."""

    def setUp(self) -> None:
        self.arena = Arena("host", sync=False)
        self.lib = library()
        self.assertEqual(self.lib.hr_torch_use(3, self.arena.replay, 0), 0)

    def tearDown(self) -> None:
        self.assertEqual(self.lib.hr_torch_use(3, None, 0), 0)
        self.arena.close()

    def take(self, size: int) -> int:
        at = self.lib.hr_torch_alloc(size, 3, None)
        self.assertTrue(at)
        return at

    def give(self, at: int) -> None:
        self.lib.hr_torch_free(at, 0, 3, None)

    def halves(self, more: int = 0):
        """A training step as the backend runs it: forward keeps two values for backward, which makes a gradient."""
        kept = []

        def forward() -> None:
            kept.extend([self.take(3 << 20), self.take(2 << 20)])
            self.give(self.take(1000 + more))

        def backward() -> int:
            self.give(kept.pop())
            gradient = self.take(5 << 20)
            self.give(kept.pop())
            return gradient

        return self.arena.forward(forward), self.arena.backwards(backward)

    def test_steps_are_recorded_and_then_served_at_the_same_places(self) -> None:
        forward, backward = self.halves()
        places = []
        for _ in range(5):
            forward()
            places.append(backward())
            self.give(places[-1])
        n = self.arena.numbers
        self.assertEqual((n["planned"], n["steps"], n["recorded"], n["requests"]), (1, 5, 2, 4))
        self.assertEqual((n["missed"], n["refused"], n["live_bytes"]), (0, 0, 0))
        self.assertEqual(n["served"], 3 * 4)
        self.assertEqual(len(set(places[2:])), 1)
        self.assertLessEqual(n["bound_bytes"], n["arena_bytes"])

    def test_several_halves_are_one_step(self) -> None:
        a, b = self.halves(), self.halves(5000)
        for _ in range(4):
            a[0]()
            b[0]()
            for at in (b[1](), a[1]()):
                self.give(at)
        n = self.arena.numbers
        self.assertEqual((n["steps"], n["planned"], n["requests"], n["missed"]), (4, 1, 8, 0))

    def test_a_step_that_differs_is_served_and_counted(self) -> None:
        forward, backward = self.halves()
        other, other_back = self.halves(100000)
        for k in range(6):
            (other if k == 4 else forward)()
            self.give((other_back if k == 4 else backward)())
        n = self.arena.numbers
        self.assertEqual((n["missed"], n["refused"], n["planned"]), (2, 0, 1))  # one of another size, one that never came

    def test_without_a_budget_the_forecast_is_of_the_process(self) -> None:
        state, inputs = self.take(8 << 20), self.take(4 << 20)
        problem = SimpleNamespace(input_bytes=4 << 20)
        with mock.patch.object(self.arena, "outside", lambda: 1000), mock.patch("headroom.compiled.arena.arena_of", lambda _: self.arena):
            budget, outside = Partition(Settings({"outside": 200}), "graph").amounts(problem, None)
        self.assertIsNone(budget)
        self.assertEqual(outside, 1200 + self.arena.numbers["used_bytes"] - (4 << 20))
        self.assertGreaterEqual(outside, 1200 + (8 << 20))
        for at in (state, inputs):
            self.give(at)

    def test_a_budget_too_small_for_anything_is_a_sentence(self) -> None:
        with self.assertRaisesRegex(hr.UsageError, "too small"):
            Arena("host", budget=1 << 20)


if __name__ == "__main__":
    unittest.main()

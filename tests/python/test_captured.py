"""Captured steps (headroom/compiled/graphs.py), with graphs that run their halves again: what is copied, handed out, kept and given up."""
import contextlib
import copy
import unittest
import warnings
from types import SimpleNamespace
from unittest import mock

import torch
from small_models import Net, batch

import headroom.compiled as compiled
from headroom.compiled import emit, graphs

warnings.filterwarnings("ignore")
compiled.register()


class Arena:
    """Counts; `alive` says that something of the last step lives still."""

    def __init__(self) -> None:
        self.pairs, self.calls, self.alive, self.claimed, self.laid_down = [], [], False, False, False

    def claim(self, _stream: int) -> bool:
        if self.alive or self.claimed:
            return False
        self.claimed = True
        return True

    def release(self) -> None:
        self.claimed = False

    def unlay(self) -> bool:
        self.calls.append("unlay")
        return not self.alive

    def room(self, want: int) -> int:
        return want

    def over(self) -> bool:
        return False

    def __getattr__(self, name: str):
        return lambda *_: self.calls.append(name)


class Generator:
    """A sequence of numbers with a place in it, as CUDA's generators have."""

    def __init__(self, seed: int = 1, offset: int = 0) -> None:
        self.at = [seed, offset]

    def draw(self, count: int) -> int:
        self.at[1] += count
        return 1000 * self.at[0] + self.at[1]

    def initial_seed(self) -> int:
        return self.at[0]

    def manual_seed(self, seed: int) -> None:
        self.at[:] = [seed, 0]

    def get_offset(self) -> int:
        return self.at[1]

    def set_offset(self, offset: int) -> None:
        self.at[1] = offset

    def graphsafe_get_state(self) -> "Generator":
        found = Generator()
        found.at = self.at
        return found

    def graphsafe_set_state(self, other: "Generator") -> None:
        self.at = other.at


class Again:
    """A graph: the half with the tensors that it was captured with, into the tensors that it resulted in."""

    def __init__(self, run, args, result) -> None:
        self.run, self.args, self.result = run, list(args), result

    def replay(self) -> None:
        for mine, new in zip(self.result, self.run(list(self.args))):
            if isinstance(mine, torch.Tensor) and mine is not new:
                mine.copy_(new)


class Machine:
    def __init__(self, device, arena) -> None:
        self.device, self.arena, self.generator, self.known = device, arena, Generator(), {}

    def current(self) -> int:
        return 0

    aside = staticmethod(contextlib.nullcontext)

    def back(self) -> None:
        pass

    warm = back

    def generators(self, count: int) -> list:
        return [Generator() for _ in range(count)]

    def capture(self, run, args, _generators):
        kept = list(args)
        result = run(args)
        for t in [*kept, *result]:
            if isinstance(t, torch.Tensor):
                self.known[t.untyped_storage().data_ptr()] = t.untyped_storage()
        return Again(run, kept, list(result)), result

    def storage(self, address: int, _size: int):
        return self.known[address]


class Captured(unittest.TestCase):
    def setUp(self) -> None:
        torch._dynamo.reset()
        torch.use_deterministic_algorithms(True)
        torch.manual_seed(3)
        self.arena, self.made = Arena(), []
        self.base = Net(dropout=0.0)

    def compiled(self, module, machine=Machine):
        def half(which, partition, pairs):
            def compiler(graph, _inputs):
                run = emit.function(graph)
                if which != "inference":
                    if not pairs:
                        pairs.append(graphs.Pair(partition, self.arena, machine))
                        self.made.append(pairs[0])
                    made = pairs[0].half(int(which == "backward"), graph, run)
                    run = lambda args: made(args)  # noqa: E731
                run._boxed_call = True
                return run

            return compiler

        with mock.patch("headroom.compiled.backend.half", half):
            call = torch.compile(module, backend="headroom", options={"budget": "60%", "capture": True}, fullgraph=True)
            call(*batch())[0].backward()  # compiled while this holds
        module.zero_grad()
        return call

    def steps(self, module, call, count: int = 6, keep: bool = False) -> list:
        """Losses, gradients and statistics, with a batch that lies elsewhere in each step."""
        optimizer, found, held = torch.optim.SGD(module.parameters(), 0.1, momentum=0.9), [], []
        for i in range(count):
            x, y = batch()
            x = x + i
            held.append(x)  # so that no address comes again
            optimizer.zero_grad()
            loss, scores = call(x, y)
            (loss + scores.square().mean()).backward()
            found += [loss.detach() if keep else float(loss), [p.grad.clone() for p in module.parameters()]]
            optimizer.step()
            del loss, scores
        return [*found, [v.clone() for v in module.state_dict().values()]]

    def same(self, a, b) -> None:
        for x, y in zip(a, b):
            if isinstance(x, list):
                self.same(x, y)
            else:
                self.assertTrue(torch.equal(torch.as_tensor(x), torch.as_tensor(y)))

    def both(self, **more) -> list:
        eager, mine = copy.deepcopy(self.base), copy.deepcopy(self.base)
        eager(*batch())[0].backward()  # as the compiled one does
        eager.zero_grad()
        want = self.steps(eager, eager, **more)
        got = self.steps(mine, self.compiled(mine), **more)
        self.same(want, got)
        return got

    def test_replays_are_the_same_bits(self) -> None:
        self.both()
        pair = self.made[0]
        self.assertIsNotNone(pair.captured)
        self.assertEqual(pair.partition.report.capture, "captured")
        self.assertIn("captured", str(pair.partition.report))
        self.assertGreaterEqual(len(pair.captured.own), 1)  # the batch
        self.assertGreater(len(pair.captured.baked), len(pair.captured.own))  # parameters
        calls = [c for c in self.arena.calls if c in ("sketch", "lay", "laid")]
        self.assertEqual(calls, ["sketch", "lay", "laid"])

    def test_what_a_program_keeps_is_a_copy(self) -> None:
        self.both(keep=True)
        self.assertEqual(len(self.made[0].kept[0]), 1)  # the loss: later replays have not changed it

    def test_memory_that_is_in_use_is_not_written(self) -> None:
        mine = copy.deepcopy(self.base)
        call = self.compiled(mine)
        self.steps(mine, call)
        self.arena.alive = True
        self.steps(mine, call, 1)
        pair = self.made[0]
        self.assertIsNone(pair.captured)
        self.assertIn("kept", pair.declined)
        self.assertEqual(pair.partition.report.capture, f"not captured: {pair.declined}")
        self.arena.alive = False
        self.steps(mine, call, 1)
        self.assertFalse(pair.left)

    def test_a_second_forward_before_the_first_backward_runs(self) -> None:
        mine, eager = copy.deepcopy(self.base), copy.deepcopy(self.base)
        call = self.compiled(mine)
        self.steps(mine, call)
        eager.load_state_dict(mine.state_dict())
        x, y = batch()
        found = []
        for module, f in ((eager, eager), (mine, call)):
            module.zero_grad()
            a, b = f(x, y)[0], f(x + 1, y)[0]
            b.backward()
            a.backward()
            found.append([p.grad.clone() for p in module.parameters()])
        self.same(*found)

    def test_a_step_goes_backwards_once(self) -> None:
        mine = copy.deepcopy(self.base)
        self.steps(mine, self.compiled(mine))
        with self.assertRaisesRegex(Exception, "already"):  # what stands for saved values, of a step that is over
            self.made[0].backward([torch.empty(1, dtype=torch.uint8)] * 100)

    def test_a_step_that_goes_backwards_twice_is_not_captured(self) -> None:
        told = SimpleNamespace(capture="", name="graph 1")
        pair = graphs.Pair(SimpleNamespace(report=told, settings=SimpleNamespace(verbose=False), forward_count=1), self.arena, Machine)
        for which in (0, 1):
            pair.half(which, None, lambda args: [torch.zeros(1)])
        t = torch.zeros(1)
        for half in (pair.forward, pair.forward, pair.backward, pair.backward):  # of two steps
            half([t])
        self.assertEqual((pair.declined, told.capture), ("", ""))
        pair.backward([t])
        self.assertEqual(told.capture, "not captured: a step goes through its backward half more than once")
        pair.forward([t])
        self.assertIsNone(pair.captured)
        self.assertNotIn(pair, self.arena.pairs)

    def test_a_forward_without_its_backward_is_forgotten(self) -> None:
        mine = copy.deepcopy(self.base)
        call = self.compiled(mine)
        self.steps(mine, call)
        call(*batch())
        call(*batch())[0].backward()
        self.assertIsNotNone(self.made[0].captured)

    def test_what_cannot_be_captured_runs_and_says_why(self) -> None:
        class Refuses(Machine):
            def capture(self, run, args, _generators):
                raise RuntimeError("operation not permitted when stream is capturing\nmore")

        eager, mine = copy.deepcopy(self.base), copy.deepcopy(self.base)
        eager(*batch())[0].backward()
        eager.zero_grad()
        want = self.steps(eager, eager)
        self.same(want, self.steps(mine, self.compiled(mine, Refuses)))
        self.assertEqual(self.made[0].partition.report.capture, "not captured: operation not permitted when stream is capturing")

    def test_an_op_that_is_drawn_again_has_the_place_of_the_first(self) -> None:
        generator = Generator(9, 40)
        with mock.patch.object(graphs.graph, "state_of", lambda device: torch.zeros(1)):
            notes = graphs.Noting(generator)
            generator.draw(4)
            notes.state("cuda:0")
            generator.draw(8)
            notes.state("cuda:0")
        self.assertEqual(notes.offsets, [4, 12])
        own = [Generator(), Generator()]
        drawing = graphs.Drawing(generator, own)
        states = [drawing.state("cuda:0") for _ in range(2)]
        for g, offset in zip(own, notes.offsets):
            g.manual_seed(9)
            g.set_offset(100 + offset)
        generator.set_offset(100)
        self.assertEqual(drawing.again(states[1], "cuda:0", generator.draw, 4), 9116)
        self.assertEqual(drawing.again(states[0], "cuda:0", generator.draw, 8), 9112)
        self.assertEqual(generator.get_offset(), 100)


if __name__ == "__main__":
    unittest.main()

"""A planned step as two CUDA graphs: one for its forward half, one for its backward half.

Both halves are pure functions of their arguments, so they can be captured without running the step.  Memory must then be at the same
addresses in every replay: the halves are captured twice, first to write down what a capture requests, which is not always what running
requests, then at the offsets that were packed from it (hr_replay_sketch, headroom/replay.h).  Arguments whose addresses repeat are used
where they are, others are copied; results are handed out where the graphs write them, and what the program keeps beyond its step is
copied.  Random ops draw what they would have drawn: graphs advance PyTorch's generator, and an op that is computed again has a
generator of its own, which is set before each replay.

A step that cannot be captured is run as before, and `report.capture` says why."""
from __future__ import annotations

import ctypes as c
import gc
import traceback
from typing import Any, Callable, Optional

import torch
from torch.multiprocessing.reductions import StorageWeakRef

from ..errors import Error
from . import copies, graph

WARM = 2  # steps that run before a capture
TIMES = 3  # captures of one step before it stays uncaptured
Run = Callable[[list[Any]], list[Any]]


class Declined(Exception):
    """Why a step is not captured."""


class Machine:
    """What capturing needs of PyTorch and of the arena; tests have another one."""

    def __init__(self, device: torch.device, arena: Any) -> None:
        self.device, self.arena = torch.device(device.type, device.index or 0), arena
        self.stream = torch.cuda.Stream(self.device)
        self.generator = torch.cuda.default_generators[self.device.index]

    def current(self) -> int:
        return int(torch.cuda.current_stream(self.device).cuda_stream)

    def aside(self) -> Any:
        """Work inside goes to the stream that captures."""
        self.stream.wait_stream(torch.cuda.current_stream(self.device))
        return torch.cuda.stream(self.stream)

    def back(self) -> None:
        torch.cuda.current_stream(self.device).wait_stream(self.stream)
        torch.cuda.synchronize(self.device)

    def warm(self) -> None:
        """Handles of this thread and workspaces of this stream, before anything is captured."""
        for kind in (torch.float32, torch.bfloat16):
            x = torch.zeros(1, 64, 64, device=self.device, dtype=kind)
            torch.nn.functional.linear(x[0], x[0], x[0, 0])
            torch.bmm(x, x)
            x[0] @ x[0]

    def generators(self, count: int) -> list[Any]:
        return [torch.Generator(self.device) for _ in range(count)]

    def capture(self, run: Run, args: list[Any], generators: list[Any]) -> tuple[Any, list[Any]]:
        """A graph and what it results in.  Only what `run` itself requests is part of the layout."""
        made = torch.cuda.CUDAGraph()
        for g in generators:
            made.register_generator_state(g)
        made.capture_begin(capture_error_mode="thread_local")
        try:
            self.arena.pause(False)
            result = run(args)
            copies.join(self.device)
        finally:
            self.arena.pause(True)
            made.capture_end()
        return made, result

    def storage(self, _address: int, size: int) -> Any:
        return torch.UntypedStorage(size, device=self.device)  # where it was placed; torch.empty might fill it


class Noting:
    """Where in the generator's sequence the states lie that are saved: the ops themselves are as ever."""

    def __init__(self, generator: Any) -> None:
        self.generator, self.start = generator, generator.get_offset()
        self.offsets: list[int] = []

    def state(self, device: str) -> torch.Tensor:
        self.offsets.append(self.generator.get_offset() - self.start)
        return graph.state_of(device)

    def again(self, state: torch.Tensor, device: str, target: Any, *args: Any, **kwargs: Any) -> Any:
        return graph.drawn_again(state, device, target, *args, **kwargs)


class Drawing:
    """While a graph is captured: a saved state is a number, and drawing again uses the generator of that number."""

    def __init__(self, generator: Any, own: list[Any]) -> None:
        self.generator, self.own, self.count = generator, own, 0

    def state(self, _device: str) -> torch.Tensor:
        self.count += 1
        return torch.full((1,), self.count - 1, dtype=torch.int64)

    def again(self, state: torch.Tensor, _device: str, target: Any, *args: Any, **kwargs: Any) -> Any:
        before = self.generator.graphsafe_get_state()
        self.generator.graphsafe_set_state(self.own[int(state[0])])
        try:
            return target(*args, **kwargs)
        finally:
            self.generator.graphsafe_set_state(before)


class Result:
    """A tensor as a graph leaves it."""

    def __init__(self, index: int, t: torch.Tensor) -> None:
        s = t.untyped_storage()
        self.index, self.address, self.bytes = index, s.data_ptr(), s.nbytes()
        self.dtype, self.offset, self.size, self.stride = t.dtype, t.storage_offset(), tuple(t.shape), t.stride()


class Results:
    """Tensors that a half hands out: one request a storage, at its address."""

    def __init__(self, machine: Any, tensors: list[tuple[int, torch.Tensor]]) -> None:
        self.machine = machine
        self.each = [Result(i, t) for i, t in tensors if t.untyped_storage().nbytes()]
        self.empty = [(i, t.dtype, tuple(t.shape)) for i, t in tensors if not t.untyped_storage().nbytes()]
        self.storages = list({r.address: r.bytes for r in self.each}.items())
        self.addresses = (c.c_uint64 * len(self.storages))(*(a for a, _ in self.storages))

    def fill(self, given: list[Any]) -> None:
        """Writes into the tensors, which live no longer than that."""
        for i, t in self.make().items():
            t.copy_(given[i])

    def make(self, kept: frozenset[int] = frozenset()) -> dict[int, torch.Tensor]:
        """The tensors by index; those in `kept` are copies."""
        device = self.machine.device
        self.machine.arena.place(self.addresses, len(self.storages))
        found = {}
        for address, size in self.storages:
            s = self.machine.storage(address, size)
            if s.data_ptr() != address:
                raise Error(f"a result of a captured step lies at {s.data_ptr():#x}, not at {address:#x}")
            found[address] = s
        made = {r.index: torch.empty(0, dtype=r.dtype, device=device).set_(found[r.address], r.offset, r.size, r.stride) for r in self.each}
        found.clear()
        for i in kept:
            if i in made:
                made[i] = made[i].clone()
        made.update({i: torch.empty(size, dtype=kind, device=device) for i, kind, size in self.empty})
        return made


class Shape:
    """What of a half's arguments and results is what, by the graphs themselves."""

    def __init__(self, forward: Any, backward: Any, forward_count: int) -> None:
        nodes = list(forward.graph.nodes)
        inputs = [n for n in nodes if n.op == "placeholder"]
        results = list(nodes[-1].args[0])
        self.outputs, self.saved = results[:forward_count], results[forward_count:]
        self.same = {i: inputs.index(n) for i, n in enumerate(results) if n in inputs}  # results that are arguments
        after = [n for n in backward.graph.nodes if n.op == "placeholder"]
        self.tangents = [n.meta["val"] for n in after if n.name.startswith("tangents")]
        if len(self.saved) + len(self.tangents) != len(after) or any(n.name.startswith("tangents") for n in after[:len(self.saved)]):
            raise Declined("the backward half has arguments that are neither saved values nor gradients")
        self.hosts = [n.meta["val"] for n in nodes if n.target is copies.out]
        if any(n.target is copies.out for n in backward.graph.nodes):
            raise Declined("the backward half copies to the host")
        if len({t.device for n in inputs for t in graph.tensors(n)}) != 1 or not all(graph.tensors(n) for n in inputs):
            raise Declined("the arguments do not lie on one device")
        if any(graph.writes(n) for half in (forward, backward) for n in half.graph.nodes):
            raise Declined("an op writes into memory that exists")


class Captured:
    """Two graphs, with where they read and write."""

    def __init__(self, machine: Any, shape: Shape, given: list[Any], own: dict[int, torch.Tensor], hosts: list[torch.Tensor]) -> None:
        self.machine, self.shape, self.own, self.hosts = machine, shape, own, hosts
        self.baked = [(i, t.data_ptr()) for i, t in enumerate(given) if i not in own]
        self.offsets: list[int] = []
        self.generators: list[Any] = []
        self.graphs: list[Any] = []

    def record(self, given: list[Any], runs: tuple[Run, Run]) -> None:
        """Captures both halves; nothing of it lives afterwards but the graphs."""
        draws = Drawing(self.machine.generator, self.generators)
        graph.draws = draws
        copies.begin_static(self.hosts)
        count = len(self.shape.outputs)
        try:
            first, out = self.machine.capture(runs[0], list(given), self.generators)
            if draws.count != len(self.generators):
                raise Declined("it saved another number of generator states than when it ran")
            self._note_outputs(out)
            copies.begin_static([])
            self.machine.arena.pause(False)
            tangents = [torch.empty_strided(t.shape, t.stride(), dtype=t.dtype, device=t.device) for t in self.shape.tangents]
            self.machine.arena.pause(True)
            self.tangents = Results(self.machine, list(enumerate(tangents)))
            args = [*out[count:], *tangents]
            del tangents, out[count:]
            second, gradients = self.machine.capture(runs[1], args, self.generators)
            self.count = len(gradients)
            self.plain = {i: g for i, g in enumerate(gradients) if not isinstance(g, torch.Tensor)}
            self.gradients = Results(self.machine, [(i, g) for i, g in enumerate(gradients) if isinstance(g, torch.Tensor)])
            self.graphs = [first, second]
        finally:
            graph.draws = None
            copies.end_static()

    def _note_outputs(self, out: list[Any]) -> None:
        count = len(self.shape.outputs)
        mine = [(i, t) for i, t in enumerate(out[:count]) if isinstance(t, torch.Tensor) and i not in self.shape.same]
        self.outputs = Results(self.machine, mine)
        self.constants = {i: t for i, t in enumerate(out[:count]) if not isinstance(t, torch.Tensor)}
        self.tokens = [i - count for i in range(count, len(out)) if i not in self.shape.same]
        if not self.tokens:
            raise Declined("the backward half gets nothing from the forward half but arguments")

    def check(self) -> None:
        """Everything that leaves a graph lies in the memory of the graphs, and only once."""
        for half in (self.outputs, self.tangents, self.gradients):
            self.machine.arena.place(half.addresses, len(half.storages))
        self.machine.arena.release()
        if {a for a, _ in self.outputs.storages} & {a for a, _ in self.gradients.storages}:
            raise Declined("a gradient is a result of the forward half")

    def set_generators(self, base: tuple[int, int]) -> None:
        for g, offset in zip(self.generators, self.offsets):
            g.manual_seed(base[0])
            g.set_offset(base[1] + offset)


class Pair:
    """Both halves of one compiled graph: run, captured when they have run, replayed from then on."""

    def __init__(self, partition: Any, arena: Any, machine: Callable[..., Any] = Machine) -> None:
        self.partition, self.arena, self.make_machine = partition, arena, machine  # of the partition: report, forward_count
        self.graphs: list[Any] = [None, None]
        self.runs: list[Any] = [None, None]
        self.captured: Optional[Captured] = None
        self.steps = self.captures = self.pending = 0  # pending: forward halves that ran, less backward halves
        self.declined, self.left = "", False
        self.seen: list[list[int]] = []  # addresses of the arguments, of steps that ran
        self.alive: list[list[Any]] = [[], []]  # what the last step that ran has handed out
        self.kept: list[frozenset[int]] = [frozenset(), frozenset()]
        self.token: Any = None
        self.token_key = 0
        self.base = (0, 0)
        arena.pairs.append(self)

    def half(self, which: int, module: Any, run: Run) -> Run:
        self.graphs[which], self.runs[which] = module, run
        return (self.backward if which else self.forward)

    # ---- forward ----

    def forward(self, args: list[Any]) -> list[Any]:
        if self.captured is None and not self.declined and self.steps >= WARM:
            self._try(args)
        if self.captured is not None and self._claim(args):
            return self._replay_forward(args)
        if self.left:  # memory of graphs that were given up
            self.left = not self.arena.unlay()
        self.arena.begins()
        self.seen = [*self.seen[-WARM + 1:], [t.data_ptr() if isinstance(t, torch.Tensor) else 0 for t in args]]
        out = self.runs[0](args)
        self.steps, self.pending = self.steps + 1, self.pending + 1
        if self.captured is None and not self.declined:
            self.alive[0] = [StorageWeakRef(t.untyped_storage()) if isinstance(t, torch.Tensor) else None
                             for t in out[:self.partition.forward_count]]
        return out

    def _claim(self, args: list[Any]) -> bool:
        """Whether the graphs can be replayed with these arguments now."""
        found = self.captured
        assert found is not None
        if self.token is not None and not self.token.expired():
            return False  # another step has not gone through its backward half yet
        if self.token is not None:
            self.arena.release()  # it never will
            self.token = None
        same = all(args[i].data_ptr() == address for i, address in found.baked)
        if same and self.arena.claim(found.machine.current()):
            return True
        self._undo("arguments or results lie elsewhere than before")
        return False

    def _replay_forward(self, args: list[Any]) -> list[Any]:
        found = self.captured
        assert found is not None
        self.arena.begins()
        for i, own in found.own.items():
            own.copy_(args[i])
        self.base = (found.machine.generator.initial_seed(), found.machine.generator.get_offset())
        found.set_generators(self.base)
        found.graphs[0].replay()
        count = len(found.shape.outputs)
        token = torch.empty(1, dtype=torch.uint8)
        self.token, self.token_key = StorageWeakRef(token.untyped_storage()), token.untyped_storage()._cdata
        results = [token] * (count + len(found.shape.saved))
        for i, value in {**found.outputs.make(self.kept[0]), **found.constants}.items():
            results[i] = value
        for i, k in found.shape.same.items():
            results[i] = args[k]
        args.clear()
        return results

    # ---- backward ----

    def backward(self, args: list[Any]) -> list[Any]:
        found = self.captured
        if found is not None and self._is_token(args[found.tokens[0]]):
            return self._replay_backward(args)
        self.arena.ends()
        out = self.runs[1](args)
        self.pending -= 1
        if self.pending < 0 and self.captured is None:
            self._decline("a step goes through its backward half more than once")
        if self.captured is None and not self.declined:
            self.alive[1] = [StorageWeakRef(t.untyped_storage()) if isinstance(t, torch.Tensor) else None for t in out]
        return out

    def _is_token(self, t: Any) -> bool:
        if not isinstance(t, torch.Tensor) or t.device.type != "cpu" or tuple(t.shape) != (1,) or t.dtype != torch.uint8:
            return False
        if t.untyped_storage()._cdata != self.token_key or self.token is None:
            raise Error("a captured step has gone through its backward half already: options={\"capture\": False} allows another")
        return True

    def _replay_backward(self, args: list[Any]) -> list[Any]:
        found = self.captured
        assert found is not None
        self.arena.ends()
        given = args[len(found.shape.saved):]
        found.tangents.fill(given)
        args.clear()
        given.clear()
        found.set_generators(self.base)
        found.graphs[1].replay()
        made = {**found.gradients.make(self.kept[1]), **found.plain}
        self.token = None
        self.arena.release()
        return [made.get(i) for i in range(found.count)]

    # ---- capturing ----

    def _try(self, args: list[Any]) -> None:
        self.captures += 1
        why = ""
        collects = gc.isenabled()
        gc.collect()
        gc.disable()
        self.arena.pause(True)
        try:
            self._capture(args)
        except (Declined, Error, RuntimeError, NotImplementedError) as e:
            why = str(e).strip().splitlines()[0] if str(e).strip() else type(e).__name__
            traceback.clear_frames(e.__traceback__)  # they hold what was sketched
        finally:
            self.arena.pause(False)
            if collects:
                gc.enable()
        if why:
            self._undo(why)
            self._decline(why)
        else:
            self._tell("captured")

    def _decline(self, why: str) -> None:
        """It runs uncaptured from now on."""
        if not self.declined:
            self._tell(f"not captured: {why}")
        self.declined = why
        if self in self.arena.pairs:
            self.arena.pairs.remove(self)

    def _tell(self, words: str) -> None:
        if self.partition.report is not None:
            self.partition.report.capture = words
            if self.partition.settings.verbose:
                print(f"{self.partition.report.name}: CUDA graphs: {words}", flush=True)

    def _capture(self, args: list[Any]) -> None:
        count = self.partition.forward_count
        if self.graphs[1] is None or not count:
            raise Declined("its backward half was not compiled")
        if len(self.arena.pairs) > 1:
            raise Declined("a step has more than one graph")
        shape = Shape(self.graphs[0], self.graphs[1], count)
        if not all(isinstance(t, torch.Tensor) for t in args):
            raise Declined("an argument is not a tensor")
        machine = self.make_machine(args[0].device, self.arena)
        now = [t.data_ptr() for t in args]
        moved = {i for i, a in enumerate(now) if any(len(s) != len(now) or s[i] != a for s in self.seen)}
        self.kept = [frozenset(i for i, ref in enumerate(half) if ref is not None and not ref.expired()) for half in self.alive]
        self.alive = [[], []]
        runs = (self.runs[0], self.runs[1])
        with torch.no_grad():
            own = {i: torch.empty_strided(args[i].shape, args[i].stride(), dtype=args[i].dtype, device=args[i].device) for i in moved}
            hosts = [torch.empty_strided(h.shape, h.stride(), dtype=h.dtype, pin_memory=machine.device.type == "cuda") for h in shape.hosts]
            given = [own.get(i, t) for i, t in enumerate(args)]
            found = Captured(machine, shape, given, own, hosts)
            with machine.aside():
                for i, t in own.items():
                    t.copy_(args[i])
                machine.warm()
                self._run_once(found, given, runs)
                machine.back()
                self.arena.sketch(self._room())
                found.generators = machine.generators(len(found.offsets))
                found.record(given, runs)
                found.graphs = []
                self.arena.lay()
                found.record(given, runs)
                self.arena.laid()
            machine.back()
        found.check()
        if self.arena.over():
            raise Declined("the graphs themselves would pass the budget")
        self.captured, self.token, self.token_key = found, None, 0

    def _run_once(self, found: Captured, given: list[Any], runs: tuple[Run, Run]) -> None:
        """On this thread and this stream, so that what libraries load or keep is there; notes where saved states lie."""
        generator = found.machine.generator
        notes = Noting(generator)
        graph.draws = notes
        try:
            out = runs[0](list(given))
            count = len(found.shape.outputs)
            args = [*out[count:], *(torch.empty_strided(t.shape, t.stride(), dtype=t.dtype, device=t.device).zero_()
                                    for t in found.shape.tangents)]
            del out[count:]
            runs[1](args)
        finally:
            graph.draws = None
            generator.set_offset(notes.start)
        found.offsets = notes.offsets

    def _room(self) -> int:
        report = self.partition.report
        want = max(report.arena_bytes, report.peak_bytes - report.input_bytes, 1 << 20) if report is not None else 1 << 30
        return self.arena.room(want)

    def _undo(self, why: str) -> None:
        """Gives up the graphs and their memory, unless something lives there; it is tried again after some steps."""
        was = self.captured is not None
        self.captured = None
        self.seen, self.steps = [], 0
        self.left = False
        words = ""
        if not self.arena.unlay():
            clear = getattr(torch._C, "_cuda_clearCublasWorkspaces", None)
            if clear is not None:
                clear()
            if not self.arena.unlay():
                self.left = True
                words = "results of a captured step were kept beyond the next one"
        if self.captures >= TIMES and not words:
            words = f"it was captured {TIMES} times, and what it was captured with moved each time"
        if not was:
            return
        if words:
            self._decline(words)
        else:
            self._tell(f"not captured now: {why}")

"""torch.compile(model, backend="headroom", options={"budget": "6GiB"}): PyTorch's kernels in the order of Headroom's plan.

Dynamo captures the model, AOTAutograd differentiates it, the planner decides what is kept, recomputed and copied, and the two
halves run in that order with PyTorch's own ops.  With options={"compiler": "inductor"} the same choice is handed to Inductor."""
from __future__ import annotations

from typing import Any, Callable, Optional, Sequence

from ..errors import DoesNotFit, UsageError
from .report import Report

OPTIONS = {
    "budget": "bytes (\"6GiB\", a number) or a share of what plain training takes (\"60%\"); None: no limit",
    "compiler": "\"eager\" (PyTorch's own kernels, the default) or \"inductor\"",
    "times": "\"estimate\" or \"measure\" (each op is timed once; the default on a GPU)",
    "offload": "False: nothing is copied to the host",
    "outside": "bytes that the process will take beside this graph and has not yet: optimizer state",
    "capture": "False: steps are not replayed as CUDA graphs (on a GPU, where memory is reserved); the report says whether they are",
    "enforce": "False: PyTorch's allocator is not limited to the budget (on a GPU; the limit is of the process)",
    "effort": "search steps of the planner; 0: default",
    "verbose": "True: print what was planned",
    "on_plan": "a function that is called with the Report",
}
reports: list[Report] = []  # of every graph that was compiled in this process, the last one last


def to_bytes(given: Any, what: str = "budget") -> Optional[int]:
    """"6GiB", "500MB", 1000 as a number of bytes."""
    if given is None:
        return None
    import ctypes as c

    from ..library import library

    found = c.c_uint64()
    if isinstance(given, (int, float)) and not isinstance(given, bool):
        found.value = max(0, int(given))
    elif str(given).strip().endswith("%") or library().hr_bytes_parse(str(given).strip().encode(), 0, c.byref(found)) != 0:
        raise UsageError(f"{what}={given!r} is not an amount of memory: \"6GiB\", \"800MiB\", a number of bytes")
    if not found.value and what == "budget":
        raise UsageError(f"{what}={given!r}: more than 0 bytes are needed")
    return found.value


def share_of(budget: Any) -> Optional[float]:
    """"60%" as 0.6; None if it is no share."""
    if not isinstance(budget, str) or not budget.strip().endswith("%"):
        return None
    try:
        share = float(budget.strip()[:-1]) / 100
    except ValueError:
        share = 0.0
    if not 0 < share < float("inf"):
        raise UsageError(f"budget={budget!r} is not a share of unconstrained training: \"60%\"")
    return share


class Settings:
    """The options of one torch.compile, checked."""

    def __init__(self, given: Optional[dict[str, Any]]) -> None:
        given = dict(given or {})
        for key in given:
            if key not in OPTIONS:
                raise UsageError(f"the backend headroom has no option {key!r}; there are {', '.join(OPTIONS)}")
        budget = given.get("budget")
        self.share = share_of(budget)
        self.budget = None if self.share is not None else to_bytes(budget)
        self.compiler = given.get("compiler", "eager")
        if self.compiler not in ("eager", "inductor"):
            raise UsageError(f"compiler={self.compiler!r}: there are \"eager\" and \"inductor\"")
        self.times = given.get("times")
        if self.times not in (None, "estimate", "measure"):
            raise UsageError(f"times={self.times!r}: there are \"estimate\" and \"measure\"")
        self.offload, self.enforce = bool(given.get("offload", True)), bool(given.get("enforce", True))
        self.capture, self.capture_asked = bool(given.get("capture", True)), bool(given.get("capture", False))
        self.outside, self.effort = to_bytes(given.get("outside"), "outside"), int(given.get("effort", 0))
        self.verbose, self.on_plan = bool(given.get("verbose", False)), given.get("on_plan")


class Partition:
    """AOTAutograd's partition function: a joint graph in, the two halves of the plan out."""

    def __init__(self, settings: Settings, name: str) -> None:
        self.settings, self.name = settings, name
        self.report: Optional[Report] = None
        self.forward_count = 0  # results of the forward half before what is saved

    def __call__(self, joint_module: Any, joint_inputs: Any, *, num_fwd_outputs: int, **rest: Any) -> tuple[Any, Any]:
        from torch._functorch import partitioners

        from .graph import Joint, has_symbols

        joint_module.graph.eliminate_dead_code()
        self.forward_count = num_fwd_outputs
        if has_symbols(joint_module):
            import warnings

            warnings.warn("headroom: this graph has sizes that are not numbers, so there are no bytes to plan, and nothing is: compile "
                          "with dynamic=False", stacklevel=2)
            if self.settings.compiler == "inductor":
                return partitioners.min_cut_rematerialization_partition(joint_module, joint_inputs, num_fwd_outputs=num_fwd_outputs, **rest)
            return partitioners.default_partition(joint_module, joint_inputs, num_fwd_outputs=num_fwd_outputs, **keep(rest))
        joint = Joint(joint_module, num_fwd_outputs, updated_inputs())
        for n in joint.refused:
            raise UsageError(f"compiler={self.settings.compiler!r}: {n.target} writes into memory in the middle of the graph, and a plan "
                             "would have to know when; use compiler=\"eager\"")
        arranged = self.arrange(joint)
        static = rest.get("static_lifetime_input_indices")
        more: dict[str, Any] = {}
        if static is not None:
            inputs = [n for n in arranged.module.graph.nodes if n.op == "placeholder"]
            from torch.utils._ordered_set import OrderedSet

            more["static_lifetime_input_nodes"] = OrderedSet(inputs[i] for i in static)
        halves = partitioners._extract_fwd_bwd_modules(arranged.module, arranged.saved, [], num_fwd_outputs=num_fwd_outputs, **more)
        if self.settings.compiler == "inductor":
            halves = self.better(halves, joint_module, joint_inputs, {"num_fwd_outputs": num_fwd_outputs, **keep(rest)})
        self.announce()
        return halves

    def better(self, halves: Any, joint_module: Any, joint_inputs: Any, rest: dict[str, Any]) -> Any:
        """The plan's halves, or PyTorch's own where these fit and are faster."""
        from . import choices
        from .times import moved, workspace

        r, device = self.report, device_of_nodes(joint_module.graph.nodes)
        assert r is not None

        def candidate(pair: Any, share: Optional[float]) -> Any:
            found = choices.forecast(pair, self.forward_count, self.clock(device), moved, workspace)
            return choices.Candidate(pair, share, found)

        def of(share: float) -> Any:
            return candidate(choices.own(joint_module, joint_inputs, share, rest), share)

        with generators_kept(device):
            room = None if r.budget_bytes is None else r.budget_bytes - r.outside_bytes
            best, ratio = choices.choose(candidate(halves, None), room, of)
        if best.share is not None:
            r._taken(best.found.bytes, best.found.again, best.share)
        r.time_ratio = ratio
        return best.halves

    def clock(self, device: Any) -> Any:
        from .times import clock

        return clock(self.settings.times or ("measure" if device.type == "cuda" else "estimate"))

    def arrange(self, joint: Any) -> Any:
        from .graph import Arranged
        from .problem import schedule

        problem, plan = self.plan(joint)
        assert self.report is not None
        arranged = Arranged(joint, problem, schedule(problem, plan))
        self.report.recomputed, self.report.copied_bytes = arranged.recomputed, arranged.copied_bytes
        return arranged

    def announce(self) -> None:
        assert self.report is not None
        reports.append(self.report)
        if self.settings.on_plan is not None:
            self.settings.on_plan(self.report)
        if self.settings.verbose:
            print(self.report, flush=True)

    def plan(self, joint: Any) -> tuple[Any, Any]:
        from ..planning import plan_problem
        from . import copies, fused, graph
        from .arena import arena_of
        from .problem import Problem
        from .times import moved, workspace

        s, device = self.settings, device_of(joint)
        inductor = s.compiler == "inductor"
        times = self.clock(device)
        with generators_kept(device):
            step = fused.read(joint, self.name, times, moved, workspace) if inductor else graph.read(joint, self.name, times, workspace)
        offload = s.offload and not inductor
        arena = arena_of(device)
        problem = Problem(step, memory=copies.speeds(device) if offload else None, page=arena.page_bytes if arena is not None else 0)
        budget, outside = self.amounts(problem, device)
        for spare in spares(budget, outside) if inductor and budget is not None and device.type == "cuda" else [0]:
            given = None if budget is None else f"{max(1, budget - outside - spare)}B"
            plan = plan_problem(problem.text, budget=given, effort=s.effort, offload=offload)
            if plan.fits:
                break
        outside += spare
        self.report = Report(plan, self.name, problem.input_bytes, budget, outside, s.compiler, arena if not inductor else None)
        if s.capture_asked and (inductor or arena is None):
            self.report.capture = "not captured: " + ("Inductor's halves are not" if inductor else "no memory is reserved on a GPU "
                                                      "(headroom.compiled.reserve)")
        if not plan.fits:
            raise DoesNotFit(refusal(self.report), self.report.minimum_bytes + outside, plan.minimum_op, [], plan)
        if device.type == "cuda" and s.enforce and arena is None:
            from .memory import grow, limit

            grow()
            if budget is not None:
                limit(device, budget + (budget * 4 // 100 if inductor else 0))  # what Inductor takes is known within some per cent
        return problem, plan

    def amounts(self, problem: Any, device: Any) -> tuple[Optional[int], int]:
        """The budget, and what of it lies outside of the graph."""
        from ..planning import plan_problem
        from .arena import arena_of

        s, arena = self.settings, arena_of(device)
        if s.share is not None:
            return int(s.share * plan_problem(problem.text, effort=1).unconstrained_bytes), 0
        if arena is not None:
            budget = s.budget if s.budget is not None else arena.budget
            if budget is None:  # nothing to keep, but the forecast is of the process too
                return None, arena.others(problem.input_bytes) + (s.outside or 0)
            return budget, max(0, budget - arena.available(budget, problem.input_bytes)) + (s.outside or 0)
        return s.budget, outside_bytes(device, problem.input_bytes, s.outside)


def spares(budget: int, outside: int) -> list[int]:
    """What is left free for Inductor, which has other orders and copies arguments to tune kernels: less where nothing fits otherwise."""
    left = max(0, budget - outside)
    return [(48 << 20) + left // 25, (24 << 20) + left // 100]


def refusal(r: Report) -> str:
    from .report import mib

    least = mib(r.minimum_bytes + r.outside_bytes)
    if r.plan.proven:
        words = f"{r.name} does not fit: budget {mib(r.budget_bytes or 0)}, minimum {least}"
    else:
        words = f"no plan was found for {r.name}: budget {mib(r.budget_bytes or 0)}; nothing less than {least} is possible"
    if r.plan.minimum_op:
        words += f" (set by {r.plan.minimum_op})"
    if r.outside_bytes:
        words += f", of which {mib(r.outside_bytes)} lie outside of the graph"
    return words + "; a smaller batch needs less"


def keep(rest: dict[str, Any]) -> dict[str, Any]:
    return {k: v for k, v in rest.items() if k in ("static_lifetime_input_indices", "static_lifetime_input_nodes")}


def updated_inputs() -> list[int]:
    """Which inputs of the graph are written when its forward half has ended: running statistics."""
    from torch._guards import TracingContext

    context = TracingContext.try_get()
    found = getattr(context, "fw_metadata", None)
    if found is None:
        return []
    return [i for i, info in enumerate(found.input_info) if info.mutates_data]


def device_of(joint: Any) -> Any:
    return device_of_nodes(joint.nodes)


def device_of_nodes(nodes: Any) -> Any:
    """Where a graph computes: the first device of its tensors that is not the host."""
    import torch

    from .graph import tensors

    return next((t.device for n in nodes for t in tensors(n) if t.device.type != "cpu"), torch.device("cpu"))


class generators_kept:
    """Timing random ops draws numbers: the generators are put back."""

    def __init__(self, device: Any) -> None:
        self.device = device

    def __enter__(self) -> None:
        import torch

        self.cpu = torch.get_rng_state()
        self.cuda = torch.cuda.get_rng_state(self.device) if self.device.type == "cuda" else None

    def __exit__(self, *_: Any) -> None:
        import torch

        torch.set_rng_state(self.cpu)
        if self.cuda is not None:
            torch.cuda.set_rng_state(self.cuda, self.device)


def outside_bytes(device: Any, input_bytes: int, more: Optional[int]) -> int:
    """What the process takes on the device beside the tensors of this graph.  On the host a budget is of tensors alone."""
    if device.type != "cuda":
        return more or 0
    import torch

    from .memory import process_bytes

    torch.cuda.empty_cache()  # what timing left, and blocks that nothing uses
    return max(0, process_bytes(device) - input_bytes) + (more or 0)


def backend(module: Any, inputs: Sequence[Any], options: Optional[dict[str, Any]] = None, **_: Any) -> Callable[..., Any]:
    """The backend that torch.compile calls.  `headroom.compiled.OPTIONS` lists its options."""
    from .memory import begin

    settings = Settings(options)
    partition = Partition(settings, f"graph {len(reports) + 1}")
    for device in {t.device for t in inputs if hasattr(t, "device")}:
        begin(device)
    if settings.compiler == "inductor":
        from .inductor import compile_with

        return compile_with(partition, module, inputs)
    from torch._dynamo.backends.common import aot_autograd

    pairs: list[Any] = []  # one for both halves, if they are to be captured
    return aot_autograd(fw_compiler=half("forward", partition, pairs), bw_compiler=half("backward", partition, pairs),
                        inference_compiler=half("inference", partition, pairs), partition_fn=partition)(module, inputs)


def half(which: str, partition: Partition, pairs: list[Any]) -> Callable[[Any, Any], Callable[..., Any]]:
    """The compiler of a half: a function in the plan's order.  Where memory is reserved, it says when a step begins."""

    def compiler(graph: Any, _inputs: Any) -> Callable[..., Any]:
        from .arena import arena_of
        from .emit import function
        from .memory import watched

        run = watched(function(graph))
        arena = arena_of(device_of_nodes(graph.graph.nodes))
        if arena is not None and which != "inference" and partition.settings.capture:
            from .graphs import Pair

            if not pairs:
                pairs.append(Pair(partition, arena))
            run = boxed(pairs[0].half(int(which == "backward"), graph, run))
        elif arena is not None and which != "inference":
            run = arena.forward(run) if which == "forward" else arena.backwards(run)
        run._boxed_call = True  # type: ignore[attr-defined]
        return run

    return compiler


def boxed(run: Callable[..., Any]) -> Callable[..., Any]:
    return lambda args: run(args)  # a method has no attributes of its own


def register() -> None:
    """Makes "headroom" a name for torch.compile.  An installed wheel does that by itself."""
    from torch._dynamo import list_backends, register_backend

    if "headroom" not in list_backends(exclude_tags=()):
        register_backend(name="headroom")(backend)

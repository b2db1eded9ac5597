"""What was planned for a compiled step, for people and for tests."""
from __future__ import annotations

from typing import Any, Optional


def mib(n: float) -> str:
    if n < 2**20:
        return f"{n / 2**10:,.1f} KiB"
    return f"{n / 2**20:,.1f} MiB" if n < 2**30 * 10 else f"{n / 2**30:,.2f} GiB"


class Report:
    """One compiled graph: `plan` (every number), `budget_bytes`, `peak_bytes` (tensors of the step, with parameters and inputs),
    `input_bytes` (those alone), `plain_bytes` (the peak if everything is kept), `recomputed` ops, `copied_bytes`, `time_ratio`, `capture`
    (whether steps are replayed as CUDA graphs, or why not; "" if that was not asked), and `promise`: "promise" when memory is reserved and
    steps are served at planned offsets, else "forecast".  `share`: with Inductor, PyTorch's activation_memory_budget whose choice was
    taken, None where it was the plan's."""

    def __init__(self, plan: Any, name: str, input_bytes: int, budget_bytes: Optional[int], outside_bytes: int, mode: str,
                 arena: Any = None) -> None:
        n = plan.numbers
        self.plan, self.name, self.mode = plan, name, mode
        self.budget_bytes, self.outside_bytes, self.input_bytes = budget_bytes, outside_bytes, input_bytes
        self.peak_bytes, self.arena_bytes = int(n["live_bytes"] or 0), int(n["arena_bytes"] or 0)
        self.plain_bytes, self.minimum_bytes = int(n["unconstrained_bytes"] or 0), int(n["minimum_bytes"] or 0)
        self.time_ratio = float(n["time_ratio"] or 1.0)
        self.recomputed = self.copied_bytes = 0
        self.arena = arena
        self.capture = ""
        self.share: Optional[float] = None

    def _taken(self, peak: int, recomputed: int, share: float) -> None:
        """Inductor got PyTorch's own choice in place of the plan's."""
        self.peak_bytes, self.recomputed, self.share = peak, recomputed, share

    @property
    def promise(self) -> str:
        """"forecast" until steps have been recorded and packed inside the budget, then "promise"."""
        return "promise" if self.arena is not None and self.arena.numbers["planned"] else "forecast"

    def __str__(self) -> str:
        budget = "no budget" if self.budget_bytes is None else f"budget {mib(self.budget_bytes)}"
        parts = [f"{self.name}: {mib(self.peak_bytes + self.outside_bytes)} ({self.promise}), {budget}",
                 f"  parameters and inputs    {mib(self.input_bytes):>12}",
                 f"  activations and gradients{mib(self.peak_bytes - self.input_bytes):>12}  at the peak; "
                 f"{mib(self.plain_bytes - self.input_bytes)} if everything is kept"]
        if self.outside_bytes:
            parts.append(f"  outside of the graph     {mib(self.outside_bytes):>12}")
        what = [f"{self.recomputed} ops recomputed"] if self.recomputed else []
        what += [f"{mib(self.copied_bytes)} copied to the host"] if self.copied_bytes else []
        parts.append(f"  {', '.join(what) or 'everything is kept'}; step time x {self.time_ratio:.2f} (predicted); minimum "
                     f"{mib(self.minimum_bytes + self.outside_bytes)}")
        if self.share is not None:
            parts.append(f"  PyTorch's own choice, activation_memory_budget {self.share:g}, is the fastest that fits")
        if self.capture:
            parts.append(f"  CUDA graphs: {self.capture}")
        return "\n".join(parts)

    def _repr_html_(self) -> str:
        from html import escape

        return f"<pre>{escape(str(self))}</pre>"

    def __repr__(self) -> str:
        return f"<{str(self).splitlines()[0]}>"

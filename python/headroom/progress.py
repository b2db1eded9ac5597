"""Progress for people: one line that is rewritten in terminals and notebooks, one line an epoch in files."""
from __future__ import annotations

import sys
import time
from typing import Any, Callable, Optional

from .event import Event


def in_notebook() -> bool:
    shell = sys.modules.get("IPython")
    get = getattr(shell, "get_ipython", None)
    return bool(get and get() is not None and hasattr(get(), "kernel"))


def size(bytes_: Optional[int]) -> str:
    if not bytes_:
        return ""
    return f"{bytes_ / 2**30:.2f} GiB" if bytes_ >= 2**30 else f"{bytes_ / 2**20:.0f} MiB"


def figures(n: dict[str, Any], prefix: str = "") -> str:
    parts = [f"{prefix}{name} {n[name]:.4g}" for name in ("loss", "accuracy") if n.get(name) is not None]
    return "  ".join(parts)


class Progress:
    def __init__(self, epochs: int = 0, out: Any = None) -> None:
        self.out = out or sys.stderr
        self.live = in_notebook() or bool(getattr(self.out, "isatty", lambda: False)())
        self.epochs, self.width, self.shown = epochs, 0, 0.0
        self.validation = ""

    def line(self, text: str, stay: bool) -> None:
        if self.live:
            self.out.write("\r" + text.ljust(self.width) + ("\n" if stay else ""))
            self.width = 0 if stay else len(text)
        elif stay:
            self.out.write(text + "\n")
        self.out.flush()

    def __call__(self, event: Event) -> None:
        n = event.numbers
        now = time.monotonic()
        if event.kind in ("warning", "bad_sample", "save_failed"):
            self.line(f"{event.kind.replace('_', ' ')}: {event.text}", True)
        elif event.kind == "validated":
            self.validation = figures(n, "val_")
        elif event.kind == "epoch":
            of = f"/{self.epochs}" if self.epochs else ""
            rate = f"{n['samples_per_second']:.0f} samples/s" if n.get("samples_per_second") else ""
            parts = [f"epoch {n['epoch']}{of}", figures(n), self.validation, rate, size(n.get("peak_bytes"))]
            self.line("  ".join(p for p in parts if p), True)
        elif self.live and now - self.shown > 0.2:
            self.shown = now
            if event.kind == "step":
                rate = f"{n['samples_per_second']:.0f} samples/s" if n.get("samples_per_second") else ""
                parts = [f"epoch {n['epoch']}  step {n['step']}", figures(n), rate, size(n.get("memory_bytes"))]
                self.line("  ".join(p for p in parts if p), False)
            elif event.kind == "tick" and event.text:
                share = f" {100 * event.done // event.total} %" if event.total else ""
                self.line(event.text + share, False)


def screen(verbose: Any, epochs: int = 0) -> Optional[Callable[[Event], None]]:
    """verbose: True, False, or a file to write to."""
    return None if verbose is False or verbose == 0 else Progress(epochs, None if isinstance(verbose, (bool, int)) else verbose)

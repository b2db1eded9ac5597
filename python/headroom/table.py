"""A table of functions by name: what each op of a framework becomes."""
from __future__ import annotations

from typing import Callable, TypeVar

F = TypeVar("F", bound=Callable)


class Table(dict[str, Callable]):
    def op(self, *names: str) -> Callable[[F], F]:
        """A decorator that enters the function under each name."""
        def keep(f: F) -> F:
            self.update(dict.fromkeys(names, f))
            return f

        return keep

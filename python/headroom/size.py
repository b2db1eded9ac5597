"""Sizes in terms of the batch: whole numbers, or a * N + b, as model files write them (docs/graph-format.md)."""
from __future__ import annotations

from typing import Iterable, Union


class Size:
    """a * N + b with a > 0.  Arithmetic gives back a plain int where N drops out."""

    __slots__ = ("per", "plus")

    def __init__(self, per: int, plus: int = 0) -> None:
        self.per, self.plus = per, plus

    def at(self, batch: int) -> int:
        return self.per * batch + self.plus

    def __repr__(self) -> str:
        head = "N" if self.per == 1 else f"{self.per}N"
        return f"{head}{self.plus:+d}" if self.plus else head

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Size) and (self.per, self.plus) == (other.per, other.plus)

    def __hash__(self) -> int:
        return hash((self.per, self.plus))

    def __add__(self, other: "Dim") -> "Dim":
        if isinstance(other, Size):
            return made(self.per + other.per, self.plus + other.plus)
        return Size(self.per, self.plus + int(other))

    __radd__ = __add__

    def __sub__(self, other: "Dim") -> "Dim":
        return self + (other * -1 if isinstance(other, Size) else -other)

    def __rsub__(self, other: int) -> "Dim":
        return self * -1 + other

    def __mul__(self, other: "Dim") -> "Dim":
        if isinstance(other, Size):
            raise ValueError("a size would grow with the square of the batch")
        return made(self.per * other, self.plus * other)

    __rmul__ = __mul__

    def __floordiv__(self, other: "Dim") -> "Dim":
        if isinstance(other, Size):
            if self.per % other.per == 0 and self.plus * other.per == other.plus * self.per:
                return self.per // other.per
            raise ValueError(f"{self} is no multiple of {other}")
        if self.per % other or self.plus % other:
            raise ValueError(f"{self} is no multiple of {other}")
        return made(self.per // other, self.plus // other)

    def __truediv__(self, other: "Size") -> float:
        return self.per / other.per if isinstance(other, Size) and self // other else NotImplemented


Dim = Union[int, Size]
Shape = tuple  # of Dim


def made(per: int, plus: int) -> Dim:
    return Size(per, plus) if per else plus


def product(dims: Iterable[Dim]) -> Dim:
    result: Dim = 1
    for d in dims:
        result = result * d
    return result


def divided(a: Dim, b: Dim) -> Dim:
    """a // b, without a rest."""
    if isinstance(a, Size):
        return a // b
    if isinstance(b, Size):
        raise ValueError(f"{a} is no multiple of {b}")
    return a // b


def at(dims: Iterable[Dim], batch: int) -> tuple[int, ...]:
    return tuple(d.at(batch) if isinstance(d, Size) else int(d) for d in dims)

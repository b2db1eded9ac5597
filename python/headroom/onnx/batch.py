"""Which dimension of an ONNX file grows with the batch.

Files say it by a name ("batch"), or not at all: most exporters write the size of their example, 1, into the inputs and into every
shape.  Then the first dimension of the inputs is the batch, and a shape that was written with numbers has it where that dimension
goes: a Reshape keeps the order of elements, so the batch begins at the same distance."""
from __future__ import annotations

from typing import Any, Optional, Sequence

import numpy as np

from ..graph import Refused
from ..size import Dim, Shape, Size, at, divided, product

REAL, TRUTH, TEXT = (1, 10, 11, 16), (9,), (8,)


class Batch:
    """`symbol`: its name in the file; `fixed`: the size that the file was written for; 0: it is open."""

    def __init__(self) -> None:
        self.symbol, self.fixed, self.seen = "", 0, False

    def shape_of(self, v: dict, given: Optional[Sequence[int]]) -> Shape:
        """Of an input, `given` without the batch where the file leaves sizes open."""
        name, kind = v["name"], v.get("type", {}).get("tensor_type")
        if kind is None:
            raise Refused(f"the input {name} is no tensor")
        if kind.get("elem_type") in TEXT:
            raise Refused(f"the input {name} is text")
        if "shape" not in kind and given is None:
            raise Refused(f"the input {name} has no shape; give it: --input 'f32[N,3,224,224]', once for each input")
        dims = kind["shape"]["dim"] if "shape" in kind else [{}] * (1 + len(given or ()))
        if not dims:
            raise Refused(f"the input {name} is a single number, and not one for each sample")
        at_ = self._place(name, dims)
        rest = [d for i, d in enumerate(dims) if i != at_]
        if given is not None and len(given) != len(rest):
            raise Refused(f"the input {name} has {len(rest)} dimensions beside the batch; {len(given)} are given")
        sizes = [d.get("dim_value", 0) for d in rest]
        for i, size in enumerate(given or ()):
            if sizes[i] not in (0, size):
                raise Refused(f"the input {name} is {sizes[i]} in the file where {size} is given")
            sizes[i] = size
        if any(s <= 0 for s in sizes):
            words = ",".join(str(s) if s > 0 else str(d.get("dim_param") or "?") for s, d in zip(sizes, rest))
            raise Refused(f"the input {name} is open in more than its batch: [N,{words}]; give its sizes: --input 'f32[N,3,224,224]', "
                          "once for each input")
        out: list[Dim] = list(sizes)
        out.insert(at_, Size(1))
        return tuple(out)

    def _place(self, name: str, dims: list) -> int:
        """Which dimension of an input is the batch: the first one, or that of the same name as in the first input."""
        first = dims[0]
        if not self.seen:
            self.seen, self.symbol, self.fixed = True, first.get("dim_param", ""), max(first.get("dim_value", 0), 0)
            return 0
        value = first.get("dim_value", 0)
        if self.symbol and first.get("dim_param") != self.symbol:
            for i, d in enumerate(dims):
                if d.get("dim_param") == self.symbol:
                    return i
        if value > 0 and value != self.fixed and (self.fixed or self.symbol):
            raise Refused(f"the input {name} begins with {value}, and not with the batch")
        return 0

    def meant(self, shape: Shape, to: Sequence[Any]) -> Shape:
        """The shape that a Reshape of `shape` to the numbers `to` has at any batch."""
        to, numbers = list(to), list(at(shape, self.fixed))
        if -1 in to:
            to[to.index(-1)] = divided(product(numbers), product(d for d in to if d != -1))
        open_ = [i for i, d in enumerate(shape) if isinstance(d, Size)]
        if not open_:
            return tuple(to)
        if to == numbers:
            return shape
        i = self._where(numbers, open_[0], to)
        return tuple(to[:i] + [divided(product(shape), product(to[:i] + to[i + 1:]))] + to[i + 1:])

    def _where(self, numbers: list, place: int, to: list) -> int:
        """Which dimension of `to` grows where `place` of `numbers` did: rather one that is the batch itself, at the beginning or the end
        of where it was, then one that begins there or ends there, and the last one, features, only where there is no other."""
        begin = int(product(numbers[:place]))
        end, n = begin * numbers[place], self.fixed
        starts = [int(product(to[:i])) for i in range(len(to))]
        first = [i for i in range(len(to)) if to[i] % n == 0 and starts[i] == begin]
        last = [i for i in range(len(to)) if to[i] % n == 0 and starts[i] * to[i] == end]
        alone = [i for i in first if to[i] == n]
        if numbers[place + 1:place + 2] != [1]:
            alone += [i for i in last if to[i] == n]
        inner = [i for i in first + last if i < len(to) - 1]
        for i in alone + inner + first:
            return i
        raise Refused(f"a shape ({'x'.join(map(str, to))}) that was written for a batch of {n}: export with a dynamic batch")


def folded(x: Any) -> Any:
    """A known array of sizes without the batch in it is one of whole numbers."""
    if x.dtype == object and not any(isinstance(d, Size) for d in x.reshape(-1)):
        return x.astype("int64")
    return x


def lacks(shape: Any) -> tuple[list[int], Shape]:
    """Sizes for an array of a shape with the batch in it: 1 where it stands, as a Const has it; and that shape."""
    whole = tuple(d if isinstance(d, Size) else int(d) for d in np.asarray(shape, object).reshape(-1))
    return [1 if isinstance(d, Size) else d for d in whole], whole

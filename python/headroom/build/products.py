"""Products of matrices, and what is read by numbers."""
from __future__ import annotations

from typing import Optional, Sequence

import numpy as np

from ..graph import Refused
from ..size import Dim, product
from .elements import Elements
from .tensor import Any, Const, Tensor


class Products(Elements):
    def linear(self, x: Tensor, weight: Any, bias: Optional[Any] = None, transposed: bool = True) -> Tensor:
        """weight (out, in), or (in, out) when not transposed; x (..., in)."""
        w, x = self.plain(weight), self.last(self.tensor(x))
        out = w.shape[0] if transposed else w.shape[1]
        inputs = [x.value, w.value] + ([self.plain(bias).value] if bias is not None else [])
        flat = x.rank == 1
        if flat:
            inputs[0] = self.reshape(x, (1, x.shape[0])).value
        shape = (1, out) if flat else x.value.shape[:-1] + (out,)
        v = Tensor(self.form.node("matmul", inputs, [(x.type, shape)], transpose_b=transposed)[0],
                   None if flat else x.order)
        return self.reshape(v, (out,)) if flat else v

    def matmul(self, a: Any, b: Any) -> Tensor:
        """Over the last two dimensions, with broadcasting of the others."""
        a, b = self.tensor(a), self.tensor(b)
        if a.rank == 1:
            return self.squeeze(self.matmul(self.reshape(a, (1,) + a.shape), b), [-2])
        if b.rank == 1:
            return self.squeeze(self.matmul(a, self.reshape(b, b.shape + (1,))), [-1])
        if b.rank == 2:
            return self.linear(a, b, transposed=False)
        rank = max(a.rank, b.rank)
        a, b = self._ranked(a, rank), self._ranked(b, rank)
        lead = tuple(q if p == 1 else p for p, q in zip(a.shape[:-2], b.shape[:-2]))
        a = self.broadcast(a, lead + a.shape[-2:])
        b = self.broadcast(b, lead + b.shape[-2:])
        turn_a, a = self._matrix(a)
        turn_b, b = self._matrix(b)
        shape = lead + (a.shape[-2], b.shape[-1])
        return Tensor(self.form.node("matmul", [a.value, b.value], [(a.type, shape)], transpose_a=turn_a,
                                     transpose_b=turn_b)[0])

    def _matrix(self, t: Tensor) -> tuple[bool, Tensor]:
        """Rows and columns last; turned when only these two are exchanged."""
        swapped = list(range(t.rank - 2)) + [t.rank - 1, t.rank - 2]
        if list(t.order) == swapped:
            return True, t
        return False, self.plain(t)

    def einsum(self, equation: str, xs: Sequence[Tensor]) -> Tensor:
        """Two operands: dimensions that both have and the result keeps, free ones, summed ones; one product."""
        if len(xs) != 2 or "..." in equation or "->" not in equation:
            raise Refused(f"einsum {equation}")
        left, out = equation.split("->")
        a, b = left.split(",")
        both = [d for d in a if d in b and d in out]
        summed = [d for d in a if d in b and d not in out]
        free = [[d for d in names if d not in both + summed] for names in (a, b)]
        if len(set(a)) != len(a) or len(set(b)) != len(b) or any(d not in out for f in free for d in f):
            raise Refused(f"einsum {equation}")
        sizes = dict(zip(a, xs[0].shape)) | dict(zip(b, xs[1].shape))

        def of(names: Sequence[str]) -> Dim:
            return product(sizes[d] for d in names)

        u = self.permute(xs[0], [a.index(d) for d in both + free[0] + summed])
        v = self.permute(xs[1], [b.index(d) for d in both + summed + free[1]])
        lead = tuple(sizes[d] for d in both)
        y = self.matmul(self.reshape(u, lead + (of(free[0]), of(summed))), self.reshape(v, lead + (of(summed), of(free[1]))))
        names = both + free[0] + free[1]
        return self.permute(self.reshape(y, tuple(sizes[d] for d in names)), [names.index(d) for d in out])

    def gather(self, table: Any, ids: Any) -> Tensor:
        """Rows of a table."""
        table, ids = self.plain(table), self.plain(ids)
        return Tensor(self.form.node("gather", [table.value, ids.value],
                                     [(table.type, ids.value.shape + table.value.shape[1:])])[0])

    def padded_embedding(self, table: Tensor, ids: Any, padding: int) -> Tensor:
        """A row that is read but never learns, so it is a constant."""
        keep = np.ones((table.shape[0], 1), "float32")
        keep[padding] = 0
        rows = self.map2("mul", table, Const(keep))
        known = self.known.get(table.value)
        if known is not None and known[padding].any():
            row = np.zeros(known.shape, "float32")
            row[padding] = known[padding]
            rows = self.map2("add", rows, Const(row))
        return self.gather(rows, ids)

    def take(self, x: Tensor, dim: int, ids: Any) -> Tensor:
        """Elements along one dimension by a list of numbers."""
        dim %= x.rank
        dims = [dim] + [d for d in range(x.rank) if d != dim]
        y = self.gather(self.permute(x, dims), ids)
        lead = ids.rank
        back = list(range(lead, lead + dim)) + list(range(lead)) + list(range(lead + dim, y.rank))
        return self.permute(y, back)

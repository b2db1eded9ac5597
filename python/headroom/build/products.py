"""Products of matrices, and what is read by numbers."""
from __future__ import annotations

from typing import Optional, Sequence

import numpy as np

from ..graph import Refused
from ..size import Dim, Size, product
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
        chosen = self._chosen(a, b)
        if chosen is not None:
            return chosen
        rank = max(a.rank, b.rank)
        a, b = self._ranked(a, rank), self._ranked(b, rank)
        lead = tuple(q if p == 1 else p for p, q in zip(a.shape[:-2], b.shape[:-2]))
        a = self.broadcast(self.tensor(a), lead + a.shape[-2:])
        b = self.broadcast(self.tensor(b), lead + b.shape[-2:])
        turn_a, a = self._matrix(a)
        turn_b, b = self._matrix(b)
        shape = lead + (a.shape[-2], b.shape[-1])
        return Tensor(self.form.node("matmul", [a.value, b.value], [(a.type, shape)], transpose_a=turn_a,
                                     transpose_b=turn_b)[0])

    def _chosen(self, a: Tensor, b: Tensor) -> Optional[Tensor]:
        """(M, O, C) x (M, C, 1) where row m of the first is one of a few matrices (E, O, C): a mixture of experts.  Every matrix
        times every column, and the one that counts is picked: no matrix is copied for each m."""
        made = a.value.entry
        if a.rank != 3 or b.rank != 3 or b.shape[2] != 1 or made.op != "gather" or made.attributes or a.order != (0, 1, 2):
            return None
        table, ids = made.inputs
        if len(table.shape) != 3 or len(ids.shape) != 1 or any(isinstance(d, Size) for d in table.shape):
            return None
        e, o, c = table.shape
        if e > 256:
            return None
        m = b.shape[0]
        every = self.linear(self.reshape(b, (m, c)), self.reshape(Tensor(table), (e * o, c)))
        every = self.reshape(self.plain(every), (m, e, o))
        index = self.broadcast(self.reshape(Tensor(ids), (m, 1, 1)), (m, 1, o))
        v = self.form.node("take_along", [every.value, index.value], [(every.type, (m, 1, o))], axis=1)[0]
        return self.reshape(Tensor(v), (m, o, 1))

    def _matrix(self, t: Tensor) -> tuple[bool, Tensor]:
        """Rows and columns last; turned when only these two are exchanged."""
        swapped = list(range(t.rank - 2)) + [t.rank - 1, t.rank - 2]
        if list(t.order) == swapped:
            return True, t
        return False, self.plain(t)

    def einsum(self, equation: str, xs: Sequence[Tensor]) -> Tensor:
        """Operands joined from the left, two at a time; dimensions that nothing reads any more are summed at once."""
        left, out, xs = self._spelt(equation, list(xs))
        terms = left
        names, y = terms[0], xs[0]
        names, y = self._diagonal(names, y)
        for i in range(1, len(xs)):
            other, x = self._diagonal(terms[i], xs[i])
            later = set(out).union(*terms[i + 1:])
            names, y = self._pair(names, y, other, x, later)
        names, y = self._summed(names, y, set(out))
        return self.permute(y, [names.index(d) for d in out])

    @staticmethod
    def _spelt(equation: str, xs: list) -> tuple[list[str], str, list]:
        """Dimensions under an ellipsis become letters of their own, and a missing result those that occur once."""
        left, arrow, out = equation.partition("->")
        terms = left.split(",")
        spare = [x for x in "ZYXWVUTSRQPONMLKJIHGFEDCBA" if x not in equation]
        hidden = max((x.rank - len(t.replace("...", "")) for t, x in zip(terms, xs) if "..." in t), default=0)
        dots = "".join(spare[:hidden])
        full = []
        for t, x in zip(terms, xs):
            k = x.rank - len(t.replace("...", ""))
            full.append(t.replace("...", dots[hidden - k:]) if "..." in t else t)
        if not arrow:
            joined = "".join(terms).replace("...", "")
            out = ("..." if dots else "") + "".join(sorted(d for d in set(joined) if joined.count(d) == 1))
        return full, out.replace("...", dots), xs

    def _diagonal(self, names: str, x: Tensor) -> tuple[str, Tensor]:
        """A name that occurs twice is a diagonal."""
        for name in sorted(d for d in set(names) if names.count(d) > 1):
            i, k = names.index(name), names.rindex(name)
            n, rest = x.shape[i], [d for d in range(x.rank) if d not in (i, k)]
            if isinstance(n, Size) or names.count(name) > 2:
                raise Refused(f"einsum with a diagonal of the batch, or of more than two dimensions: {names}")
            y = self.permute(x, rest + [i, k])
            y = self.take(self.reshape(y, y.shape[:-2] + (n * n,)), -1, Const(np.arange(n) * (n + 1)))
            names, x = "".join(names[d] for d in rest) + name, y
        return names, x

    def _summed(self, names: str, x: Tensor, keep: set) -> tuple[str, Tensor]:
        gone = [i for i, d in enumerate(names) if d not in keep]
        return ("".join(d for d in names if d in keep), self.reduce("sum", x, gone, False)) if gone else (names, x)

    def _pair(self, a: str, u: Tensor, b: str, v: Tensor, later: set) -> tuple[str, Tensor]:
        a, u = self._summed(a, u, later | set(b))
        b, v = self._summed(b, v, later | set(a))
        both = [d for d in a if d in b and d in later]
        summed = [d for d in a if d in b and d not in later]
        free = [[d for d in names if d not in both + summed] for names in (a, b)]
        sizes = {d: s for names, x in ((a, u), (b, v)) for d, s in zip(names, x.shape)}

        def of(names: Sequence[str]) -> Dim:
            return product(sizes[d] for d in names)

        names = both + free[0] + free[1]
        shape = tuple(sizes[d] for d in names)
        if not summed:  # a product element by element
            wide = [self.reshape(self.permute(x, [n.index(d) for d in names if d in n]),
                                 tuple(sizes[d] if d in n else 1 for d in names)) for n, x in ((a, u), (b, v))]
            return "".join(names), self.map2("mul", *wide)
        u = self.permute(u, [a.index(d) for d in both + free[0] + summed])
        v = self.permute(v, [b.index(d) for d in both + summed + free[1]])
        lead = tuple(sizes[d] for d in both)
        y = self.matmul(self.reshape(u, lead + (of(free[0]), of(summed))), self.reshape(v, lead + (of(summed), of(free[1]))))
        return "".join(names), self.reshape(y, shape)

    def ids(self, x: Any) -> Any:
        """Whole numbers: what was computed as f32 becomes i32."""
        if isinstance(x, Const):
            return x if x.array.dtype.kind in "iu" else Const(x.array.astype("int32"), x.shape)
        return self.cast(x, "i32") if x.type == "f32" else x

    def gather(self, table: Any, ids: Any) -> Tensor:
        """Rows of a table."""
        table, ids = self.plain(table), self.plain(self.ids(ids))
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
        if isinstance(ids, Const) and not isinstance(x.shape[dim], Size):
            ids = Const(ids.array % max(x.shape[dim], 1), ids.shape)
        if dim == 0:
            return self.gather(x, ids)
        ids = self.plain(self.ids(ids))
        i, lead = x.order.index(dim), ids.rank
        shape = x.value.shape[:i] + ids.value.shape + x.value.shape[i + 1:]
        v = self.form.node("gather", [x.value, ids.value], [(x.type, shape)], axis=i)[0]
        order: list[int] = []
        for d in x.order:
            order += list(range(dim, dim + lead)) if d == dim else [d if d < dim else d + lead - 1]
        return Tensor(v, order)

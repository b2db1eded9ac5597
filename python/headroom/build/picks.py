"""What is picked by numbers that depend on data: the largest, elements along a dimension and the way back, running sums."""
from __future__ import annotations

from typing import Optional, Sequence

import numpy as np

from ..graph import Refused
from ..size import Shape, Size
from .products import Products
from .tensor import Any, Const, Tensor


class Picks(Products):
    def take_along(self, x: Any, index: Any, dim: int) -> Tensor:
        """y[a, k, b] = x[a, index[a, k, b], b]; the index may be smaller than x in other dimensions."""
        x, index = self.tensor(x), self.whole(self.ids(index))
        dim %= x.rank
        for d in range(x.rank):
            if d != dim and x.shape[d] != index.shape[d]:
                x = self.slice(x, d, 0, index.shape[d])
        index = self.lie(index, x.order)
        v = self.form.node("take_along", [x.value, index.value], [(x.type, index.value.shape)], axis=x.order.index(dim))[0]
        return Tensor(v, x.order)

    def put_along(self, x: Any, index: Any, dim: int, size: int) -> Tensor:
        """The elements of x added up where the index says; x may be larger than the index."""
        x, index = self.whole(x), self.whole(self.ids(index))
        dim %= x.rank
        for d in range(x.rank):
            if x.shape[d] != index.shape[d]:
                x = self.slice(x, d, 0, index.shape[d])
        index = self.lie(index, x.order)
        axis = x.order.index(dim)
        shape = x.value.shape[:axis] + (size,) + x.value.shape[axis + 1:]
        return Tensor(self.form.node("put_along", [x.value, index.value], [(x.type, shape)], axis=axis, size=size)[0], x.order)

    def scatter(self, x: Any, index: Any, source: Any, dim: int, add: bool) -> Tensor:
        """x with elements replaced by those of the source, or with them added; numbers that repeat are meant for adding only."""
        dim %= x.rank
        put = self.grown(self.put_along(source, index, dim, x.shape[dim]), x.shape)
        if isinstance(x, Const) and not x.array.any():
            return put
        if add:
            return self.map2("add", x, put)
        ones = Tensor(self.form.fill("f32", self.whole(index).shape, 1.0))
        hit = self.grown(self.put_along(ones, index, dim, x.shape[dim]), x.shape)
        return self.where(hit, put, x)

    def scatter_max(self, index: Tensor, source: Tensor, dim: int, size: int) -> tuple[Tensor, Tensor]:
        """The largest of the elements with the same number, and 1 where there are any.  Sorted by their size and then by their number,
        which keeps the order of equals, the first of each number is the largest: nothing as large as both dimensions is made."""
        dim %= source.rank
        values, order = self.top_k(source, source.shape[dim], dim)
        index = self.cast(self.take_along(index, order, dim), "f32")
        sorted_, order = self.top_k(index, source.shape[dim], dim, largest=False)
        values, n = self.take_along(values, order, dim), source.shape[dim] - 1
        first = Tensor(self.form.fill("f32", tuple(1 if i == dim else s for i, s in enumerate(source.shape)), 1.0))
        if n:
            next_ = self.compare("not_equal", self.slice(sorted_, dim, 1, n), self.slice(sorted_, dim, 0, n))
            first = self.concat([first, next_], dim)
        return tuple(self.put_along(x, sorted_, dim, size) for x in (self.map2("mul", values, first), first))  # type: ignore

    def grown(self, t: Tensor, shape: Shape) -> Tensor:
        """With zeros behind, where it is smaller."""
        return self.pad(t, {d: (0, s - t.shape[d]) for d, s in enumerate(shape) if t.shape[d] != s})

    def top_k(self, x: Tensor, k: int, dim: int, largest: bool = True) -> tuple[Tensor, Tensor]:
        t = self.last(x if largest else self.neg(x), dim)
        shape = t.value.shape[:-1] + (k,)
        values, index = self.form.node("top_k", [t.value], [(t.type, shape), ("i32", shape)], k=k)
        y = Tensor(values, t.order)
        return (y if largest else self.neg(y)), Tensor(index, t.order)

    def arg_max(self, x: Tensor, dim: Optional[int], keep: bool) -> Tensor:
        if dim is None:
            x, dim = self.reshape(self.plain(x), (-1,) if x.rank == 0 else (self._count(x.shape),)), 0
        y = self.reduce("max", x, [dim], keep)
        return Tensor(y.value.entry.outputs[1], y.order)

    @staticmethod
    def _count(shape: Shape) -> int:
        n = 1
        for d in shape:
            n = n * d
        return n

    def cum_sum(self, x: Tensor, dim: int, reverse: bool = False, exclusive: bool = False) -> Tensor:
        return self.map1("cumsum", self.cast(x, "f32"), axis=x.order.index(dim % x.rank), reverse=reverse, exclusive=exclusive)

    def numbered(self, c: Const, type_: Optional[str] = None) -> Tensor:
        """A row of numbers with one distance between them (arange), and the unit matrix or what it leaves out, of any batch."""
        array, many = c.array.astype("float64"), [d for d, s in enumerate(c.shape) if isinstance(s, Size)]
        made: Optional[Tensor] = None
        if c.rank == 2 and many == [0, 1] and c.shape[0] == c.shape[1]:
            unit = np.eye(len(array))
            for how, one in (("equal", unit), ("not_equal", 1 - unit)):
                if made is None and np.array_equal(array, one):
                    row = self.every(c.shape[0])
                    made = self.compare(how, self.unsqueeze(row, 1), self.unsqueeze(row, 0))
        elif len(many) == 1 and array.shape[many[0]] > 1:
            d = many[0]
            first, second = (np.take(array, [i], axis=d) for i in (0, 1))
            place = np.arange(array.shape[d]).reshape([-1 if i == d else 1 for i in range(c.rank)])
            if np.array_equal(array, first + (second - first) * place):
                row = self.reshape(self.every(c.shape[d]), tuple(s if i == d else 1 for i, s in enumerate(c.shape)))
                step, begin = (Const(x.astype("float32")) for x in (second - first, first))
                made = self.plain(self.map2("add", self.map2("mul", row, step), begin))
            made = self.periodic(c, d) if made is None else made
        if made is None:
            return super().numbered(c, type_)
        type_ = type_ or ("i32" if c.array.dtype.kind in "iu" else None)
        return self.cast(made, type_) if type_ else made

    def periodic(self, c: Const, d: int) -> Optional[Tensor]:
        """The same numbers of every sample in a dimension that the batch was joined to, as heads are: samples outside, or inside."""
        per, plus = c.shape[d].per, c.shape[d].plus
        if plus or per == 1:
            return None
        for batch, apart in ((d, (Size(1), per)), (d + 1, (per, Size(1)))):
            sizes = [-1 if isinstance(n, Size) else n for n in apart]
            array = c.array.reshape(c.array.shape[:d] + tuple(sizes) + c.array.shape[d + 1:])
            one = np.take(array, [0], axis=batch)
            if np.array_equal(np.broadcast_to(one, array.shape), array):
                whole = c.shape[:d] + apart + c.shape[d + 1:]
                return self.reshape(self.broadcast(self.const(Const(one)), whole), c.shape)
        return None

    def every(self, n: Size) -> Tensor:
        """0, 1 ... n - 1."""
        ones = self.ones_of_samples()
        if n.plus:
            raise Refused(f"numbers up to {n}, which is no multiple of the batch")
        if n.per > 1:
            ones = self.reshape(self.broadcast(self.unsqueeze(ones, 1), (Size(1), n.per)), (n,))
        return self.cum_sum(ones, 0, exclusive=True)

    def one_hot(self, ids: Any, classes: int) -> Tensor:
        """f32, the classes last."""
        column = self.unsqueeze(self.cast(self.tensor(ids), "f32"), ids.rank)
        return self.compare("equal", column, Const(np.arange(classes, dtype="float32")))

    def rows_of(self, x: Tensor, index: Any) -> Tensor:
        """x (N, S, ...) by one number a sample, index (N), or several, (N, K): samples stay apart."""
        index = self.whole(self.ids(index))
        single = index.rank == 1
        if single:
            index = self.unsqueeze(index, 1)
        rest = x.shape[2:]
        shape = index.shape + rest
        wide = self.broadcast(self.reshape(self.plain(index), index.shape + (1,) * len(rest)), shape) if rest else index
        y = self.take_along(x, wide, 1)
        return self.squeeze(y, [1]) if single else y

    def places_of(self, x: Tensor, ids: Sequence[Any], lead: Shape) -> Tensor:
        """x (N, A, B, ..., rest) by several tensors of numbers of A, B ... that are (N, ...) together: (N, K, rest)."""
        sizes, rest = x.shape[1:1 + len(ids)], x.shape[1 + len(ids):]
        flat = self.broadcast(self.tensor(self._flat(ids, sizes)), lead)
        k = self._count(lead[1:])
        return self.rows_of(self.reshape(x, (x.shape[0], self._count(sizes)) + rest), self.reshape(flat, (lead[0], k)))

    def _flat(self, ids: Sequence[Any], sizes: Shape) -> Any:
        flat = self._wrapped(ids[0], sizes[0])
        for i, size in zip(ids[1:], sizes[1:]):
            flat = self.map2("add", self.map2("mul", flat, Const(np.float32(size))), self._wrapped(i, size))
        return flat

    def flat_rows(self, x: Tensor, ids: Sequence[Any]) -> Tensor:
        """The first dimensions of x by several tensors of numbers: rows of the flattened table."""
        sizes = x.shape[:len(ids)]
        flat = self._flat(ids, sizes)
        rows = self.reshape(self.plain(x), (self._count(sizes),) + x.shape[len(ids):])
        return self.gather(rows, self.ids(flat))

    def _wrapped(self, i: Any, size: Any) -> Any:
        """As f32, numbers from the end taken from the beginning where they are known."""
        if isinstance(size, Size):
            raise ValueError("indexing the dimension of the batch by numbers that depend on data")
        if isinstance(i, Const):
            return Const((i.array % size).astype("float32"), i.shape)
        return self.cast(i, "f32")

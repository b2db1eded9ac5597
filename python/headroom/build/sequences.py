"""Attention, losses, and recurrent cells."""
from __future__ import annotations

from typing import Iterator, Optional

import numpy as np

from .products import Products
from .tensor import MASKED, Any, Const, Tensor


class Sequences(Products):
    def attention(self, q: Tensor, k: Tensor, v: Tensor, mask: Optional[Any], causal: bool, scale: Optional[float],
                  dropout: float = 0.0) -> Tensor:
        """q (B, H, T, D), k and v (B, H or fewer, S, D).  mask: added to the scores."""
        depth = q.shape[-1]
        scale = scale if scale is not None else float(depth) ** -0.5
        heads = q.shape[1] if q.rank == 4 else 0
        if q.rank == 4 and k.shape[1] != heads:
            k, v = (self._repeat_heads(x, heads) for x in (k, v))
        if q.rank == 4 and mask is None and not dropout and v.shape[-1] == depth:
            return self._attention(q, k, v, causal, scale)
        scores = self.affine(self.matmul(q, self.permute(k, list(range(k.rank - 2)) + [k.rank - 1, k.rank - 2])), scale)
        if causal:
            t, s = q.shape[-2], k.shape[-2]
            hidden = np.triu(np.ones((t, s), bool), 1)
            mask = Const(np.where(hidden, np.float32(MASKED), np.float32(0)))
        if mask is not None:
            scores = self.map2("add", scores, mask)
        return self.matmul(self.dropout(self.softmax(scores, -1), dropout), v)

    def _repeat_heads(self, x: Tensor, heads: int) -> Tensor:
        b, h, t, d = x.shape
        y = self.broadcast(self.unsqueeze(x, 2), (b, h, heads // h, t, d))
        return self.reshape(y, (b, heads, t, d))

    def _attention(self, q: Tensor, k: Tensor, v: Tensor, causal: bool, scale: float) -> Tensor:
        order = (0, 2, 1, 3)
        q, k, v = (self.lie(x, order) for x in (q, k, v))
        b, h, t, d = q.shape
        o = self.form.node("attention", [q.value, k.value, v.value], [(q.type, q.value.shape), ("f32", (b, h, t))],
                           scale=float(scale), causal=causal)[0]
        return Tensor(o, order)

    def cross_entropy(self, logits: Tensor, dim: int, label: str = "label") -> Tensor:
        x = self.last(logits, dim)
        rows = x.value.shape[:-1]
        ids = self.form.named.get(label) or self.form.input(label, "i32", rows)
        return Tensor(self.form.node("cross_entropy", [x.value, ids], [("f32", ()), ("f32", rows)])[0])

    def pair_loss(self, op: str, x: Tensor, label: str = "label") -> Tensor:
        """mean_squared_error or binary_cross_entropy against an input that lies as x does."""
        target = self.form.named.get(label) or self.form.input(label, "f32", x.value.shape)
        return Tensor(self.form.node(op, [x.value, target], [("f32", ())])[0])

    def split(self, t: Tensor, count: int, dim: int) -> list[Tensor]:
        size = t.shape[dim % t.rank] // count
        return [self.slice(t, dim, i * size, size) for i in range(count)]

    def steps(self, t: Tensor, dim: int, backward: bool = False, first: int = 0) -> Iterator[tuple[int, Tensor]]:
        """Each place along one dimension and what stands there, without that dimension.  Halved until one is left: the gradient of a
        slice is as large as what it was cut from, so that many slices of the whole would cost the square of their number."""
        count = t.shape[dim]
        if count == 1:
            yield first, self.squeeze(t, [dim])
            return
        half = count // 2
        for begin, size in ((half, count - half), (0, half)) if backward else ((0, half), (half, count - half)):
            yield from self.steps(self.slice(t, dim, begin, size), dim, backward, first + begin)

    def lstm_cell(self, gates: Tensor, c: Tensor) -> tuple[Tensor, Tensor]:
        """gates (B, 4 H) in the order i, f, g, o -> h, c."""
        gates, c = self.plain(gates), self.plain(c)
        state = (c.type, c.value.shape)
        h, c = self.form.node("lstm_cell", [gates.value, c.value], [state, state])
        return Tensor(h), Tensor(c)

    def gru_cell(self, x: Tensor, r: Tensor, h: Tensor) -> Tensor:
        """x, r (B, 3 H): parts of input and state in the order reset, update, new, biases in them -> h."""
        x, r, h = self.plain(x), self.plain(r), self.plain(h)
        return Tensor(self.form.node("gru_cell", [x.value, r.value, h.value], [(h.type, h.value.shape)])[0])

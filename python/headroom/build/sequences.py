"""Attention, losses, and recurrent cells."""
from __future__ import annotations

from typing import Iterator, Optional

import numpy as np

from .products import Products
from .tensor import MASKED, Any, Const, Tensor


class Sequences(Products):
    def attention(self, q: Tensor, k: Tensor, v: Tensor, mask: Optional[Any], causal: bool, scale: Optional[float],
                  dropout: float = 0.0) -> Tensor:
        """q (B, H, T, D), k and v (B, H or fewer, S, D).  mask: added to the scores, or bytes (`shown`)."""
        if q.rank == 3:
            mask = mask if mask is None or mask.rank < 3 else self.unsqueeze(self.whole(mask), 1)
            q, k, v = (self.unsqueeze(x, 1) for x in (q, k, v))
            y = self.attention(q, k, v, mask, causal, scale, dropout)
            return self.squeeze(y, [1])
        depth = q.shape[-1]
        scale = scale if scale is not None else float(depth) ** -0.5
        learnt = isinstance(mask, Tensor) and self.learns(mask)
        if q.rank == 4 and v.shape[-1] == depth and (not causal or q.shape[2] == k.shape[2]) \
                and not (learnt and (causal or dropout)):
            return self._attention(q, k, v, mask, causal, scale, dropout)
        return self.attention_and_shares(q, k, v, mask, causal, scale, dropout)[0]

    def attention_and_shares(self, q: Tensor, k: Tensor, v: Tensor, mask: Optional[Any], causal: bool, scale: Optional[float],
                             dropout: float = 0.0) -> tuple[Tensor, Tensor]:
        """Also the share of each key, (B, H, T, S), before dropout: the scores are whole."""
        scale = scale if scale is not None else float(q.shape[-1]) ** -0.5
        if q.rank == 4 and k.shape[1] != q.shape[1]:
            k, v = (self._repeat_heads(x, q.shape[1]) for x in (k, v))
        scores = self.affine(self.matmul(q, self.permute(k, list(range(k.rank - 2)) + [k.rank - 1, k.rank - 2])), scale)
        if causal:
            t, s = q.shape[-2], k.shape[-2]
            hidden = np.triu(np.ones((t, s), bool), 1)
            scores = self.map2("add", scores, Const(np.where(hidden, np.float32(MASKED), np.float32(0))))
        if mask is not None:
            scores = self.map2("add", scores, self._added(mask))
        shares = self.softmax(scores, -1)
        return self.matmul(self.dropout(shares, dropout), v), shares

    def shown(self, mask: Any) -> Any:
        """A mask of truths as bytes, where 0 hides.  One that was spread over the queries is taken as it was, a row for all of them."""
        if isinstance(mask, Const):
            return Const(mask.array.astype("uint8"), mask.shape)
        before = self._before_spread(mask)
        while before:
            mask, before = before, self._before_spread(before)
        return self.cast(mask, "u8")

    @staticmethod
    def _before_spread(mask: Tensor) -> Optional[Tensor]:
        """Without the last broadcast, or the last "and" with what is true everywhere, where all keys stay."""
        e = mask.value.entry
        if mask.order != tuple(range(mask.rank)):
            return None
        given = e.inputs if e.op == "broadcast_to" else []
        if e.op == "compare" and e.attributes.get("is") == "both":
            given = [v for v, other in zip(e.inputs, e.inputs[::-1]) if other.entry.kind == "fill" and other.entry.number]
        found = [v for v in given if len(v.shape) == mask.rank and v.shape[-1] == mask.shape[-1]]
        return Tensor(found[0]) if len(found) == 1 else None

    def _added(self, mask: Any) -> Any:
        """A mask as numbers for the scores."""
        if isinstance(mask, Const):
            return Const(np.where(mask.array, np.float32(0), np.float32(MASKED)), mask.shape) if mask.array.dtype == np.uint8 else mask
        return self.affine(self.cast(mask, "f32"), -MASKED, MASKED) if mask.type == "u8" else mask

    def _repeat_heads(self, x: Tensor, heads: int) -> Tensor:
        b, h, t, d = x.shape
        y = self.broadcast(self.unsqueeze(x, 2), (b, h, heads // h, t, d))
        return self.reshape(y, (b, heads, t, d))

    def _attention(self, q: Tensor, k: Tensor, v: Tensor, mask: Optional[Any], causal: bool, scale: float,
                   dropout: float) -> Tensor:
        """The scores are never whole.  Key heads that were repeated for their group are read as they were."""
        order = (0, 2, 1, 3)
        k, v = self._before_repeat(k, v)
        q, k, v = (self.lie(x, order) for x in (q, k, v))
        b, h, t, d = q.shape
        inputs = [q.value, k.value, v.value]
        if mask is not None:
            m = self._ranked(mask, 4)
            m = self.const(m, "u8") if isinstance(m, Const) and m.array.dtype == np.uint8 else self.plain(m)
            if m.shape[3] == 1 and k.shape[2] != 1:
                m = self.broadcast(m, m.shape[:3] + (k.shape[2],))
            inputs.append(m.value)
        masked = mask is not None or dropout
        o = self.form.node("attention_masked" if masked else "attention", inputs, [(q.type, q.value.shape), ("f32", (b, h, t))],
                           scale=float(scale), causal=causal, dropout=float(dropout) if dropout else None)[0]
        return Tensor(o, order)

    def _before_repeat(self, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
        """Keys (B, H, S, D) that are (B, G, S, D) with each head copied for its group, as frameworks without grouped keys do it."""
        found = [self._repeated(x) for x in (k, v)]
        return (found[0], found[1]) if found[0] and found[1] and found[0].shape == found[1].shape else (k, v)

    @staticmethod
    def _repeated(x: Tensor) -> Optional[Tensor]:
        joined = x.value.entry
        wide = joined.inputs[0].entry if joined.op == "reshape" and x.order == (0, 1, 2, 3) else None
        if wide is None or wide.op != "broadcast_to" or len(wide.outputs[0].shape) != 5:
            return None
        b, g, times, s, d = wide.outputs[0].shape
        narrow = wide.inputs[0]
        if narrow.shape != (b, g, 1, s, d) or x.shape != (b, g * times, s, d):
            return None
        split = narrow.entry
        return Tensor(split.inputs[0]) if split.op == "reshape" and split.inputs[0].shape == (b, g, s, d) else None

    def learns(self, t: Tensor) -> bool:
        """Whether a parameter stands behind it."""
        seen, stack = set(), [t.value.entry]
        while stack:
            e = stack.pop()
            if e.kind == "param":
                return True
            if id(e) not in seen:
                seen.add(id(e))
                stack += [v.entry for v in e.inputs]
        return False

    def classes_last(self, logits: Tensor, dim: int) -> Tensor:
        """Classes last in memory, the others in their own order: as the labels lie."""
        dim %= logits.rank
        return self.lie(logits, [d for d in range(logits.rank) if d != dim] + [dim])

    def cross_entropy(self, logits: Tensor, dim: int, label: str = "label") -> Tensor:
        x = self.classes_last(logits, dim)
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
        h, new = self.form.node("lstm_cell", [gates.value, c.value], [state, state])
        return Tensor(h), Tensor(new)

    def gru_cell(self, x: Tensor, r: Tensor, h: Tensor) -> Tensor:
        """x, r (B, 3 H): parts of input and state in the order reset, update, new, biases in them -> h."""
        x, r, h = self.plain(x), self.plain(r), self.plain(h)
        return Tensor(self.form.node("gru_cell", [x.value, r.value, h.value], [(h.type, h.value.shape)])[0])

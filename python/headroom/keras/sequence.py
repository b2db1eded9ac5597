"""Attention of Keras.  Masks of keys become numbers that are added to the scores.  Where all keys are hidden from a query (it is padding
itself, or all that it may see is), each has the same share, or none."""
from __future__ import annotations

from typing import Any, Optional

import numpy as np

from ..build import MASKED, Build, Const, Tensor
from ..graph import Refused
from ..size import Size
from .call import Call, layer


def added(b: Build, shown: Any) -> Any:
    """1 and 0 as 0 and a number that hides."""
    if isinstance(shown, Const):
        return Const(np.where(shown.array != 0, np.float32(0), np.float32(MASKED)), shown.shape)
    return b.affine(shown, -MASKED, MASKED)


def both(b: Build, u: Optional[Any], v: Any) -> Any:
    return v if u is None else Const(u.array * v.array) if isinstance(u, Const) and isinstance(v, Const) else b.map2("mul", u, v)


def shown_keys(b: Build, c: Call) -> Optional[Any]:
    """What is shown of (B, H, T, S): by the masks of keys (B, S), and that of pairs (T, S), (B, T, S) or (B, H, T, S)."""
    out = None
    for name in ("value_mask", "key_mask"):
        mask = c.kwargs.get(name)
        if mask is not None:
            m = c.shown(b, mask)
            out = both(b, out, b.reshape(b.tensor(m), (m.shape[0], 1, 1, m.shape[1])))
    mask = c.kwargs.get("attention_mask")
    if mask is not None:
        m = c.shown(b, mask)
        if m.rank == 3:
            m = Const(m.array[:, None]) if isinstance(m, Const) and not isinstance(m.shape[0], Size) else b.unsqueeze(b.whole(m), 1)
        out = both(b, out, m)
    return out


def seen(b: Build, keys: Any, queries: int, causal: bool) -> Any:
    """Of what is shown: 1 for a query that sees any key, (.., T or 1, 1).  With `causal` it sees none behind its own place."""
    if isinstance(keys, Const) and not any(isinstance(d, Size) for d in keys.shape):
        a = keys.array * (np.tril(np.ones((queries, keys.shape[-1]), "float32")) if causal else 1)
        return Const(a.max(-1, keepdims=True).astype("float32"))
    keys = b.tensor(keys)
    if not causal:
        return b.reduce("max", keys, [keys.rank - 1], True)
    if keys.shape[-2] != 1:
        keys = b.map2("mul", keys, Const(np.tril(np.ones((queries, keys.shape[-1]), "float32"))))
        return b.reduce("max", keys, [keys.rank - 1], True)
    count = b.cum_sum(keys, keys.rank - 1)
    if queries > keys.shape[-1]:
        count = b.border(count, keys.rank - 1, 0, queries - keys.shape[-1], "replicate")
    count = b.slice(count, keys.rank - 1, 0, queries)
    any_ = b.compare("greater", count, Const(np.float32(0)))
    return b.permute(any_, [*range(keys.rank - 2), keys.rank - 1, keys.rank - 2])


@layer("MultiHeadAttention", "GroupedQueryAttention", "GroupQueryAttention")
def attention(b: Build, c: Call) -> Any:
    op = c.op
    query, value = c.get("query", 0), c.get("value", 1)
    key = c.kwargs.get("key", c.args[2] if len(c.args) > 2 else None)
    key = value if key is None else key
    if query.rank != 3 or key.rank != 3:
        raise Refused("attention over more than one dimension")
    if getattr(op, "sliding_window", None) is not None or getattr(op, "use_gate", False):
        raise Refused("attention with a sliding window or a gate")
    q, k, v = (_project(b, c, x, d) for x, d in ((query, op._query_dense), (key, op._key_dense), (value, op._value_dense)))
    rate = getattr(op, "_dropout", None)
    rate = op.dropout if rate is None else rate
    whole = bool(c.kwargs.get("return_attention_scores") or rate)
    causal, rate = bool(c.kwargs.get("use_causal_mask")), float(rate) if c.training else 0.0
    shares: Any = None
    keys = shown_keys(b, c)
    mask = None if keys is None else added(b, keys)
    if c.kwargs.get("return_attention_scores"):
        y, shares = b.attention_and_shares(q, k, v, mask, causal, None, rate)
    else:
        y = b.attention(q, k, v, mask, causal, None, rate)
    y, shares = of_hidden_rows(b, c, y, (q, k, v), shares, whole, keys, causal)
    heads, depth = op._output_dense.kernel.shape[:2]
    y = b.permute(y, (0, 2, 1, 3))
    y = b.reshape(y, y.shape[:2] + (heads * depth,))
    kernel = b.reshape(c.weight(op._output_dense.kernel), (heads * depth, op._output_dense.kernel.shape[2]))
    y = b.linear(y, kernel, c.weight(op._output_dense.bias), transposed=False)
    return y if shares is None else [y, shares]


def of_hidden_rows(b: Build, c: Call, y: Tensor, qkv: tuple, shares: Optional[Tensor], whole: bool, keys: Optional[Any],
                   causal: bool) -> tuple[Tensor, Optional[Tensor]]:
    """`whole`: Keras makes the scores, for dropout or because they are asked for, and then has 0 there.  Where it does not, a mask alone
    hides all keys alike, and so does ours."""
    mask, shown = c.kwargs.get("query_mask"), None
    if mask is not None:
        shown = b.reshape(b.tensor(c.shown(b, mask)), (mask.shape[0], 1, mask.shape[1], 1))
    if keys is not None and (whole or causal):
        shown = both(b, shown, seen(b, keys, y.shape[2], causal))
    if shown is None or isinstance(shown, Const) and shown.array.all():
        return y, shares
    if whole:
        return b.map2("mul", y, shown), None if shares is None else b.map2("mul", shares, shown)
    return b.where(shown, y, alike(b, *qkv)), shares


def alike(b: Build, q: Tensor, k: Tensor, v: Tensor, scale: Optional[float] = None) -> Tensor:
    """Every key has the same share.  The scores are lost in what hides them, but not their gradient: it is that of a sum of values by
    the scores, which is 0 here."""
    if k.shape[1] != q.shape[1]:
        k, v = (b._repeat_heads(x, q.shape[1]) for x in (k, v))
    mean = b.reduce("mean", v, [2], True)
    away = b.map1("stop_gradient", b.map2("sub", v, mean))
    scale = float(q.shape[3]) ** -0.5 if scale is None else scale
    z = b.affine(b.matmul(q, b.matmul(b.permute(k, (0, 1, 3, 2)), away)), scale / k.shape[2])
    return b.map2("add", b.map2("sub", z, b.map1("stop_gradient", z)), mean)


def _project(b: Build, c: Call, x: Tensor, dense: Any) -> Tensor:
    """x (B, T, D) by a kernel (D, H, K) -> (B, H, T, K)."""
    d, h, k = dense.kernel.shape
    kernel = b.reshape(c.weight(dense.kernel), (d, h * k))
    bias = b.reshape(c.weight(dense.bias), (h * k,)) if dense.bias is not None else None
    y = b.linear(x, kernel, bias, transposed=False)
    return b.permute(b.reshape(y, y.shape[:2] + (h, k)), (0, 2, 1, 3))


@layer("DotProductAttention")
def dot_product(b: Build, c: Call) -> Tensor:
    """ops.dot_product_attention: (B, T, H, D)."""
    q, k, v = (b.permute(c.get(n, i), (0, 2, 1, 3)) for i, n in enumerate(("query", "key", "value")))
    bias, mask = c.get("bias", 3), c.get("mask", 4)
    if bias is not None and mask is not None:
        raise Refused("dot_product_attention with a bias and a mask")
    if getattr(c.op, "attn_logits_soft_cap", None) is not None:
        raise Refused("dot_product_attention with a soft cap")
    scale = c.get("scale", 5)
    shown, causal = None if mask is None else c.shown(b, mask), bool(c.op.is_causal)
    y = b.attention(q, k, v, bias if shown is None else added(b, shown), causal, scale)
    if shown is not None and causal:
        rows = seen(b, shown, y.shape[2], True)
        if not (isinstance(rows, Const) and rows.array.all()):
            y = b.where(rows, y, alike(b, q, k, v, scale))
    return b.permute(y, (0, 2, 1, 3))

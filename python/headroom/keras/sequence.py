"""Attention of Keras.  Masks of keys become numbers that are added to the scores.  From a query that is masked itself all keys are
hidden: each has the same share there, or none."""
from __future__ import annotations

from typing import Any, Optional

import numpy as np

from ..build import MASKED, Build, Const, Tensor
from ..graph import Refused
from .call import Call, layer


def added(b: Build, mask: Any) -> Any:
    """1 and 0 as 0 and a number that hides."""
    if isinstance(mask, Const):
        return Const(np.where(mask.array.astype(bool), np.float32(0), np.float32(MASKED)), mask.shape)
    return b.affine(b.cast(mask, "f32"), -MASKED, MASKED)


def of_scores(b: Build, c: Call) -> Optional[Any]:
    """What is added to the scores (B, H, T, S): the masks of keys (B, S), and that of pairs (T, S), (B, T, S) or (B, H, T, S)."""
    out = None
    for name in ("value_mask", "key_mask"):
        mask = c.kwargs.get(name)
        if mask is not None:
            m = added(b, b.reshape(b.whole(mask), (mask.shape[0], 1, 1, mask.shape[1])))
            out = m if out is None else b.minimum(out, m)
    mask = c.kwargs.get("attention_mask")
    if mask is not None:
        m = added(b, mask)
        m = b.unsqueeze(b.whole(m), 1) if m.rank == 3 else m
        out = m if out is None else b.minimum(out, m)
    return out


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
    if c.kwargs.get("return_attention_scores"):
        y, shares = b.attention_and_shares(q, k, v, of_scores(b, c), causal, None, rate)
    else:
        y = b.attention(q, k, v, of_scores(b, c), causal, None, rate)
    y, shares = of_hidden_rows(b, c, y, (q, k, v), shares, whole)
    heads, depth = op._output_dense.kernel.shape[:2]
    y = b.permute(y, (0, 2, 1, 3))
    y = b.reshape(y, y.shape[:2] + (heads * depth,))
    kernel = b.reshape(c.weight(op._output_dense.kernel), (heads * depth, op._output_dense.kernel.shape[2]))
    y = b.linear(y, kernel, c.weight(op._output_dense.bias), transposed=False)
    return y if shares is None else [y, shares]


def of_hidden_rows(b: Build, c: Call, y: Tensor, qkv: tuple, shares: Optional[Tensor], whole: bool) -> tuple[Tensor, Optional[Tensor]]:
    """`whole`: Keras makes the scores, for dropout or because they are asked for, and then has 0 there."""
    mask = c.kwargs.get("query_mask")
    if mask is None:
        return y, shares
    shown = b.reshape(b.cast(b.whole(mask), "f32"), (mask.shape[0], 1, mask.shape[1], 1))
    if whole:
        return b.map2("mul", y, shown), None if shares is None else b.map2("mul", shares, shown)
    return b.where(shown, y, alike(b, *qkv)), shares


def alike(b: Build, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """Every key has the same share.  The scores are lost in what hides them, but not their gradient: it is that of a sum of values by
    the scores, which is 0 here."""
    if k.shape[1] != q.shape[1]:
        k, v = (b._repeat_heads(x, q.shape[1]) for x in (k, v))
    mean = b.reduce("mean", v, [2], True)
    away = b.map1("stop_gradient", b.map2("sub", v, mean))
    z = b.affine(b.matmul(q, b.matmul(b.permute(k, (0, 1, 3, 2)), away)), float(q.shape[3]) ** -0.5 / k.shape[2])
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
    y = b.attention(q, k, v, added(b, mask) if mask is not None else bias, bool(c.op.is_causal), scale)
    return b.permute(y, (0, 2, 1, 3))

"""Attention and recurrent layers of Keras."""
from __future__ import annotations

from typing import Any, Optional

import numpy as np

from ..build import MASKED, Build, Const, Tensor
from ..graph import Refused
from .layers import Call, activate, layer


@layer("MultiHeadAttention")
def attention(b: Build, c: Call) -> Tensor:
    op = c.op
    query = c.get("query", 0)
    value = c.get("value", 1)
    key = c.kwargs.get("key", c.args[2] if len(c.args) > 2 else None)
    key = value if key is None else key
    for name in ("query_mask", "value_mask", "key_mask"):
        if c.kwargs.get(name) is not None:
            raise Refused("attention with padding masks")
    q = _project(b, c, query, op._query_dense)
    k = _project(b, c, key, op._key_dense)
    v = _project(b, c, value, op._value_dense)
    mask = c.kwargs.get("attention_mask")
    if mask is not None and not isinstance(mask, Const):
        raise Refused("an attention mask that depends on data")
    if mask is not None:
        mask = Const(np.where(mask.array.astype(bool), np.float32(0), np.float32(MASKED)))
    y = b.attention(q, k, v, mask, bool(c.kwargs.get("use_causal_mask")), None,
                    float(op._dropout) if c.training else 0.0)
    heads, depth = op._output_dense.kernel.shape[:2]
    y = b.permute(y, (0, 2, 1, 3))
    y = b.reshape(y, y.shape[:2] + (heads * depth,))
    kernel = b.reshape(c.weight(op._output_dense.kernel), (heads * depth, op._output_dense.kernel.shape[2]))
    return b.linear(y, kernel, c.weight(op._output_dense.bias), transposed=False)


def _project(b: Build, c: Call, x: Tensor, dense: Any) -> Tensor:
    """x (B, T, D) by a kernel (D, H, K) -> (B, H, T, K)."""
    d, h, k = dense.kernel.shape
    kernel = b.reshape(c.weight(dense.kernel), (d, h * k))
    bias = b.reshape(c.weight(dense.bias), (h * k,)) if dense.bias is not None else None
    y = b.linear(x, kernel, bias, transposed=False)
    return b.permute(b.reshape(y, y.shape[:2] + (h, k)), (0, 2, 1, 3))

"""By numbers, sums, products, normalisation and pooling, recurrent layers."""
from __future__ import annotations

from typing import Any, Optional

import numpy as np

from ...build import MASKED, Build, Const, Tensor
from ...graph import Refused
from ...size import Size
from .call import Call, op, two


@op("embedding")
def embedding(b: Build, c: Call) -> Tensor:
    table, ids = c["weight"], c["indices"]
    padding = c.get("padding_idx", -1)
    if padding is not None and padding >= 0 and isinstance(table, Tensor):
        return b.padded_embedding(table, ids, padding)
    return b.gather(table, ids)


@op("index_select")
def index_select(b: Build, c: Call) -> Tensor:
    return b.take(b.tensor(c["self"]), c["dim"], c["index"])


@op("index")
def index(b: Build, c: Call) -> Tensor:
    x, by = c["self"], c["indices"]
    used = [d for d, i in enumerate(by) if i is not None]
    if len(used) == 1:
        ids = by[used[0]]
        if isinstance(ids, Const) and ids.array.dtype.kind == "b":
            ids = Const(np.nonzero(ids.array)[0])
        return b.take(b.tensor(x), used[0], ids)
    ids = [by[d] for d in used]
    if used != list(range(len(used))) or not all(isinstance(i, Const) for i in ids):
        raise Refused("indexing by several tensors that depend on data")
    return flat_index(b, x, ids, c.shape())


def flat_index(b: Build, x: Any, ids: list, shape: tuple) -> Tensor:
    """The first dimensions by constant numbers: rows of the flattened table."""
    sizes = x.shape[:len(ids)]
    arrays = np.broadcast_arrays(*[i.array for i in ids])
    if any(isinstance(s, Size) for s in sizes):
        raise Refused("indexing of the batch's dimension")
    flat = np.ravel_multi_index([a % s for a, s in zip(arrays, sizes)], sizes)
    rows = b.reshape(b.tensor(x), (int(np.prod(sizes)),) + x.shape[len(ids):])
    return b.reshape(b.gather(rows, Const(flat)), shape)


@op("gather")
def gather(b: Build, c: Call) -> Tensor:
    ids = c["index"]
    if not isinstance(ids, Const):
        raise Refused("gather by numbers that depend on data")
    x, d = c["self"], c["dim"] % c["self"].rank
    grid = np.indices(ids.array.shape)
    parts = [Const(ids.array if i == d else grid[i]) for i in range(x.rank)]
    return flat_index(b, x, parts, ids.shape)


# ---- sums ----

@op("mean")
def mean(b: Build, c: Call) -> Tensor:
    return b.reduce("mean", c["self"], dims_of(c), bool(c.get("keepdim")))


@op("sum")
def sum_(b: Build, c: Call) -> Tensor:
    return b.reduce("sum", c["self"], dims_of(c), bool(c.get("keepdim")))


@op("amax")
def amax(b: Build, c: Call) -> Tensor:
    return b.reduce("max", c["self"], dims_of(c), bool(c.get("keepdim")))


@op("max")
def max_(b: Build, c: Call) -> Any:
    if isinstance(c.get("other"), (Tensor, Const)):
        return b.maximum(c["self"], c["other"])
    y = b.reduce("max", c["self"], dims_of(c), bool(c.get("keepdim")))
    return [y, Tensor(y.value.entry.outputs[1], y.order)] if c.get("dim") is not None else y


@op("var")
def var(b: Build, c: Call) -> Tensor:
    correction = c.get("correction")
    correction = (1 if c.get("unbiased", True) else 0) if correction is None else correction
    return b.variance(c["self"], dims_of(c) or range(c["self"].rank), bool(c.get("keepdim")), correction)


@op("linalg_vector_norm", "norm")
def norm(b: Build, c: Call) -> Tensor:
    if c.get("ord", c.get("p", 2)) not in (None, 2, 2.0):
        raise Refused("a norm other than the Euclidean one")
    return b.map1("sqrt", b.reduce("sum", b.map1("power", c["self"], exponent=2.0), dims_of(c), bool(c.get("keepdim"))))


def dims_of(c: Call) -> list:
    d = c.get("dim")
    return [] if d is None else [d] if isinstance(d, int) else list(d)


@op("softmax", "_softmax")
def softmax(b: Build, c: Call) -> Tensor:
    return b.softmax(c["self"], c["dim"])


@op("log_softmax", "_log_softmax")
def log_softmax(b: Build, c: Call) -> Tensor:
    return b.softmax(c["self"], c["dim"], "log_softmax")


# ---- products ----

@op("linear")
def linear(b: Build, c: Call) -> Tensor:
    return b.linear(c["input"], c["weight"], c["bias"])


@op("matmul", "mm", "bmm")
def matmul(b: Build, c: Call) -> Tensor:
    return b.matmul(c["self"], c.get("other", c.get("mat2")))


@op("addmm")
def addmm(b: Build, c: Call) -> Tensor:
    if c["alpha"] != 1 or c["beta"] != 1:
        raise Refused("addmm with factors")
    x, w = c["mat1"], c["mat2"]
    if c["self"].rank == 1:
        return b.linear(x, w, c["self"], transposed=False)
    return b.map2("add", b.matmul(x, w), c["self"])


@op("einsum")
def einsum(b: Build, c: Call) -> Tensor:
    return b.einsum(c["equation"].replace(" ", ""), [b.tensor(x) for x in c["tensors"]])


@op("conv2d")
def conv2d(b: Build, c: Call) -> Tensor:
    w = c["weight"]
    stride, dilation = two(c["stride"]), two(c["dilation"])
    if isinstance(c["padding"], str):
        pads = same_pads(c["padding"], w.shape[2:], dilation)
    else:
        p = two(c["padding"])
        pads = (p[0], p[1], p[0], p[1])
    return b.conv2d(c["input"], w, c["bias"], stride, pads, dilation, c["groups"])


def same_pads(padding: str, kernel: Any, dilation: Any) -> tuple[int, ...]:
    if padding == "valid":
        return (0, 0, 0, 0)
    total = [d * (k - 1) for k, d in zip(kernel, dilation)]
    return (total[0] // 2, total[1] // 2, total[0] - total[0] // 2, total[1] - total[1] // 2)


@op("conv1d")
def conv1d(b: Build, c: Call) -> Tensor:
    """An image of height 1."""
    x, w = b.unsqueeze(c["input"], 2), b.unsqueeze(b.tensor(c["weight"]), 2)
    one = [(list(c[k]) if isinstance(c[k], (list, tuple)) else [c[k]])[0] for k in ("stride", "dilation")]
    p = c["padding"]
    p = same_pads(p, (1, w.shape[3]), (1, one[1])) if isinstance(p, str) else (0, list(p)[0], 0, list(p)[0])
    return b.squeeze(b.conv2d(x, w, c["bias"], (1, one[0]), p, (1, one[1]), c["groups"]), [2])


@op("conv_transpose2d")
def conv_transpose2d(b: Build, c: Call) -> Tensor:
    p = two(c["padding"])
    return b.conv_transpose2d(c["input"], c["weight"], c["bias"], two(c["stride"]), (p[0], p[1], p[0], p[1]),
                              two(c["output_padding"]), two(c["dilation"]), c["groups"])


@op("_weight_norm")
def weight_norm(b: Build, c: Call) -> Tensor:
    v, g, dim = c["v"], c["g"], c["dim"]
    others = [d for d in range(v.rank) if d != dim % v.rank]
    squares = b.reduce("sum", b.map1("power", v, exponent=2.0), others, True)
    return b.map2("mul", b.map2("mul", v, b.map1("rsqrt", squares)), g)


@op("scaled_dot_product_attention")
def attention(b: Build, c: Call) -> Tensor:
    q, k, v, mask = c["query"], c["key"], c["value"], c["attn_mask"]
    causal = c["is_causal"]
    if isinstance(mask, Const):
        mask, causal = constant_mask(mask, causal)
    elif mask is not None and str(c.node.args[3].meta["val"].dtype if len(c.node.args) > 3 else
                                  c.node.kwargs["attn_mask"].meta["val"].dtype) == "torch.bool":
        mask = b.affine(mask, -MASKED, MASKED)  # 1 shows, 0 hides
    return b.attention(q, k, v, mask, causal, c["scale"], c["dropout_p"])


def constant_mask(mask: Const, causal: bool) -> tuple[Optional[Const], bool]:
    """A triangle is `causal`, a mask that hides nothing is none."""
    a = mask.array if mask.array.dtype.kind == "b" else mask.array == 0
    plain = mask.array.dtype.kind == "b" or np.all((mask.array == 0) | (mask.array < -1e4))
    if plain and a.all():
        return None, causal
    if plain and a.shape[-1] == a.shape[-2] and np.array_equal(a, np.broadcast_to(np.tril(np.ones(a.shape[-2:], bool)), a.shape)):
        return None, True
    if mask.array.dtype.kind == "b":
        return Const(np.where(a, np.float32(0), np.float32(MASKED)), mask.shape), causal
    return Const(np.maximum(mask.array, np.float32(MASKED)), mask.shape), causal


# ---- normalisation and pooling ----

@op("batch_norm")
def batch_norm(b: Build, c: Call) -> Tensor:
    """With statistics that stand still; the training form is the walk's."""
    return b.batch_norm_inference(b.tensor(c["input"]), c["weight"], c["bias"], c["running_mean"], c["running_var"],
                                  c["eps"])


@op("layer_norm")
def layer_norm(b: Build, c: Call) -> Tensor:
    return b.layer_norm(c["input"], c["weight"], c["bias"], c["eps"], len(c["normalized_shape"]))


@op("rms_norm")
def rms_norm(b: Build, c: Call) -> Tensor:
    return b.rms_norm(c["input"], c["weight"], 1.1920929e-07 if c["eps"] is None else c["eps"])


@op("group_norm")
def group_norm(b: Build, c: Call) -> Tensor:
    return b.group_norm(c["input"], c["num_groups"], c["weight"], c["bias"], c["eps"])


@op("instance_norm")
def instance_norm(b: Build, c: Call) -> Tensor:
    return b.group_norm(c["input"], c["input"].shape[1], c["weight"], c["bias"], c["eps"])


@op("max_pool2d")
def max_pool2d(b: Build, c: Call) -> Tensor:
    if two(c["dilation"]) != (1, 1):
        raise Refused("max pooling with dilation")
    k, p = two(c["kernel_size"]), two(c["padding"])
    return b.pool("max_pool", c["self"], k, two(c["stride"]) if c["stride"] else k, p + p, c["ceil_mode"])


@op("avg_pool2d")
def avg_pool2d(b: Build, c: Call) -> Tensor:
    if c.get("divisor_override"):
        raise Refused("average pooling with a divisor of its own")
    k, p = two(c["kernel_size"]), two(c["padding"])
    return b.pool("avg_pool", c["self"], k, two(c["stride"]) if c["stride"] else k, p + p, c["ceil_mode"],
                  c["count_include_pad"])


@op("adaptive_avg_pool2d")
def adaptive_avg_pool2d(b: Build, c: Call) -> Tensor:
    return b.adaptive_avg_pool(c["self"], c.shape()[2:])


@op("adaptive_avg_pool1d")
def adaptive_avg_pool1d(b: Build, c: Call) -> Tensor:
    return b.squeeze(b.adaptive_avg_pool(b.unsqueeze(c["self"], 2), (1, c.shape()[2])), [2])


@op("adaptive_max_pool2d")
def adaptive_max_pool2d(b: Build, c: Call) -> Any:
    x, size = c["self"], c.shape()[2:] if not isinstance(c.node.meta["val"], (list, tuple)) else c["output_size"]
    h, w = x.shape[2:]
    if h % size[0] or w % size[1]:
        raise Refused("adaptive max pooling with windows of several sizes")
    k = (h // size[0], w // size[1])
    return [b.pool("max_pool", x, k, k, (0, 0, 0, 0)), None]


@op("upsample_bilinear2d", "upsample_nearest2d")
def upsample(b: Build, c: Call) -> Tensor:
    mode = "bilinear" if "bilinear" in str(c.node.target) else "nearest"
    return b.resize(c.get("input", c.get("self")), c.shape()[2:], mode, bool(c.get("align_corners")))


# ---- recurrent ----

@op("lstm", "gru")
def recurrent(b: Build, c: Call) -> Any:
    """Unrolled over the sequence."""
    from ..recurrent import run

    return run(b, c, "lstm" if "lstm" in str(c.node.target) else "gru")

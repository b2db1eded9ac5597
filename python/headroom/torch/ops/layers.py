"""Products, convolutions, attention, normalisation and pooling, recurrent layers."""
from __future__ import annotations

from typing import Any, Optional

import numpy as np
import torch

from ...build import MASKED, Build, Const, Tensor
from ...graph import Refused
from ...size import product
from .call import Call, op, operand, some

# ---- products ----

@op("linear")
def linear(b: Build, c: Call) -> Tensor:
    return b.linear(c["input"], c["weight"], c["bias"])


@op("matmul", "mm", "bmm", "mv", "dot")
def matmul(b: Build, c: Call) -> Tensor:
    return b.matmul(operand(c["self"]), operand(c.first("other", "mat2", "vec", "tensor")))


@op("addmm", "baddbmm")
def addmm(b: Build, c: Call) -> Tensor:
    x, w = c.first("mat1", "batch1"), c.first("mat2", "batch2")
    if c["alpha"] == 1 and c["beta"] == 1 and c["self"].rank == 1:
        return b.linear(x, w, c["self"], transposed=False)
    return b.map2("add", b.affine(b.matmul(x, w), c["alpha"]), b.affine(b.tensor(c["self"]), c["beta"]))


@op("einsum")
def einsum(b: Build, c: Call) -> Tensor:
    return b.einsum(c["equation"].replace(" ", ""), [b.whole(x) for x in c["tensors"]])


@op("bilinear")
def bilinear(b: Build, c: Call) -> Tensor:
    y = b.einsum("...i,oij,...j->...o", [b.tensor(c[k]) for k in ("input1", "weight", "input2")])
    return y if c["bias"] is None else b.map2("add", y, c["bias"])


@op("cdist")
def cdist(b: Build, c: Call) -> Tensor:
    """Distances of all pairs of rows."""
    u, v, p = b.unsqueeze(b.tensor(c["x1"]), -2), b.unsqueeze(b.tensor(c["x2"]), -3), float(c["p"])
    d = b.map2("sub", u, v)
    if p == 2:
        return b.root(b.reduce("sum", b.map1("power", d, exponent=2.0), [-1], False))
    if p not in (1, float("inf")):
        if p <= 0:
            raise Refused(f"distances of order {p:g}")
        total = b.reduce("sum", b.map1("power", b.map1("abs", d), exponent=p), [-1], False)
        return b.map1("power", total, exponent=1.0 / p)
    return b.reduce("sum" if p == 1 else "max", b.map1("abs", d), [-1], False)


@op("conv1d", "conv2d", "conv3d")
def conv(b: Build, c: Call) -> Tensor:
    w = c["weight"]
    n = w.rank - 2
    x, alone = batched(b, c["input"], n + 2)
    stride, dilation = some(c["stride"], n), some(c["dilation"], n)
    if isinstance(c["padding"], str):
        pads = same_pads(c["padding"], w.shape[2:], dilation)
    else:
        pads = [(p, p) for p in some(c["padding"], n)]
    return apart(b, b.conv(x, w, c["bias"], stride, pads, dilation, c["groups"]), alone)


def same_pads(padding: str, kernel: Any, dilation: Any) -> list:
    if padding == "valid":
        return [(0, 0)] * len(kernel)
    total = [d * (k - 1) for k, d in zip(kernel, dilation)]
    return [(t // 2, t - t // 2) for t in total]


def batched(b: Build, x: Any, rank: int) -> tuple:
    """With a batch of 1, where PyTorch is given a sample alone."""
    x = b.tensor(x)
    return (b.unsqueeze(x, 0), True) if x.rank == rank - 1 else (x, False)


def apart(b: Build, y: Tensor, alone: bool) -> Tensor:
    return b.squeeze(y, [0]) if alone else y


@op("conv_transpose1d", "conv_transpose2d", "conv_transpose3d")
def conv_transpose(b: Build, c: Call) -> Tensor:
    n = c["weight"].rank - 2
    x, alone = batched(b, c["input"], n + 2)
    stride, pads, extra, dilation = (some(c[k], n) for k in ("stride", "padding", "output_padding", "dilation"))
    return apart(b, b.conv_transpose(x, c["weight"], c["bias"], stride, pads, extra, dilation, c["groups"]), alone)


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
        mask = b.shown(mask)
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
        return Const(a.astype("uint8"), mask.shape), causal
    return Const(np.maximum(mask.array, np.float32(MASKED)), mask.shape), causal


# ---- normalisation and pooling ----

@op("batch_norm")
def batch_norm(b: Build, c: Call) -> Tensor:
    """With statistics that stand still; the training form is the walk's."""
    return b.batch_norm_inference(b.tensor(c["input"]), c["weight"], c["bias"], c["running_mean"], c["running_var"],
                                  c["eps"])


@op("layer_norm")
def layer_norm(b: Build, c: Call) -> Tensor:
    return b.layer_norm(b.tensor(c["input"]), c["weight"], c["bias"], c["eps"], len(c["normalized_shape"]))


@op("rms_norm")
def rms_norm(b: Build, c: Call) -> Tensor:
    return b.rms_norm(b.tensor(c["input"]), c["weight"], 1.1920929e-07 if c["eps"] is None else c["eps"], len(c["normalized_shape"]))


@op("group_norm")
def group_norm(b: Build, c: Call) -> Tensor:
    return b.group_norm(b.tensor(c["input"]), c["num_groups"], c["weight"], c["bias"], c["eps"])


@op("instance_norm")
def instance_norm(b: Build, c: Call) -> Tensor:
    """By each sample's own statistics, or by those that stand still; the walk moves them."""
    if not c["use_input_stats"]:
        return batch_norm(b, c)
    return b.group_norm(b.tensor(c["input"]), c["input"].shape[1], c["weight"], c["bias"], c["eps"])


def window_of(c: Call, n: int) -> tuple[list[int], list[int], list[int]]:
    kernel = some(c["kernel_size"], n)
    return kernel, some(c["stride"], n) if c["stride"] else kernel, some(c["padding"], n)


def pool_dims(c: Call) -> int:
    return int(str(c.node.target).split("pool")[1][0])


@op("max_pool1d", "max_pool2d", "max_pool3d")
def max_pool(b: Build, c: Call) -> Tensor:
    n = pool_dims(c)
    x, alone = batched(b, c["self"], n + 2)
    return apart(b, b.pooled("max_pool", x, *window_of(c, n), ceil=c["ceil_mode"], dilation=some(c["dilation"], n)), alone)


@op("avg_pool1d", "avg_pool2d", "avg_pool3d")
def avg_pool(b: Build, c: Call) -> Tensor:
    n = pool_dims(c)
    x, alone = batched(b, c["self"], n + 2)
    divisor = c.get("divisor_override")
    y = b.pooled("avg_pool", x, *window_of(c, n), ceil=c["ceil_mode"], count_pad=bool(c["count_include_pad"] or divisor))
    return apart(b, b.affine(y, float(np.prod(some(c["kernel_size"], n))) / divisor) if divisor else y, alone)


@op("adaptive_avg_pool1d", "adaptive_avg_pool2d", "adaptive_avg_pool3d", "_adaptive_avg_pool2d", "_adaptive_avg_pool3d")
def adaptive_avg_pool(b: Build, c: Call) -> Tensor:
    n = pool_dims(c)
    x, alone = batched(b, c["self"], n + 2)
    return apart(b, b.adaptive("avg_pool", x, c.shape()[-n:]), alone)


@op("adaptive_max_pool1d", "adaptive_max_pool2d", "adaptive_max_pool3d")
def adaptive_max_pool(b: Build, c: Call) -> Any:
    """The places are read by unpooling alone, which is not taken."""
    n = pool_dims(c)
    x, alone = batched(b, c["self"], n + 2)
    return [apart(b, b.adaptive("max_pool", x, c.node.meta["val"][0].shape[-n:]), alone), None]


@op("upsample_linear1d", "upsample_bilinear2d", "upsample_trilinear3d", "upsample_nearest1d", "upsample_nearest2d",
    "upsample_nearest3d", "upsample_bicubic2d", "_upsample_nearest_exact1d", "_upsample_nearest_exact2d",
    "_upsample_nearest_exact3d")
def upsample(b: Build, c: Call) -> Tensor:
    name = str(c.node.target)
    mode = "nearest-exact" if "exact" in name else "nearest" if "nearest" in name else "cubic" if "cubic" in name else "linear"
    x = b.tensor(c.x())
    scales = c.get("scale_factors") or [c.get(k) for k in ("scales_d", "scales_h", "scales_w") if k in c] or [c.get("scales")]
    scales = list(scales) if len(scales) == x.rank - 2 else [None] * (x.rank - 2)
    return b.interpolate(x, c.shape()[2:], mode, bool(c.get("align_corners")), scales)


@op("_upsample_bilinear2d_aa", "_upsample_bicubic2d_aa")
def smoothed(b: Build, c: Call) -> Tensor:
    """With antialiasing: a matrix for each dimension, which PyTorch makes of unit vectors."""
    x, mode = b.tensor(c.x()), "bicubic" if "cubic" in str(c.node.target) else "bilinear"
    scales = [c.get(k) for k in ("scales_h", "scales_w")]
    if any(by is not None and abs(by * was - size) > 1e-6 for by, was, size in zip(scales, x.shape[2:], c.shape()[2:])):
        raise Refused("antialiasing by a scale that is not that of the sizes")
    for d, size in ((2, c.shape()[2]), (3, c.shape()[3])):
        unit = torch.eye(x.shape[d]).view(1, x.shape[d], 1, x.shape[d])
        made = torch.nn.functional.interpolate(unit, (1, size), mode=mode, antialias=True, align_corners=c["align_corners"])
        x = b.along(x, d, made[0, :, 0].T.numpy())
    return x


@op("pixel_shuffle")
def pixel_shuffle(b: Build, c: Call) -> Tensor:
    x, r = c["self"], c["upscale_factor"]
    n, d, h, w = x.shape
    y = b.permute(b.reshape(x, (n, d // (r * r), r, r, h, w)), (0, 1, 4, 2, 5, 3))
    return b.reshape(y, (n, d // (r * r), h * r, w * r))


@op("pixel_unshuffle")
def pixel_unshuffle(b: Build, c: Call) -> Tensor:
    x, r = c["self"], c["downscale_factor"]
    n, d, h, w = x.shape
    y = b.permute(b.reshape(x, (n, d, h // r, r, w // r, r)), (0, 1, 3, 5, 2, 4))
    return b.reshape(y, (n, d * r * r, h // r, w // r))


@op("channel_shuffle")
def channel_shuffle(b: Build, c: Call) -> Tensor:
    x, g = c["self"], c["groups"]
    n, d = x.shape[:2]
    y = b.reshape(x, (n, g, d // g) + x.shape[2:])
    return b.reshape(b.permute(y, (0, 2, 1, *range(3, y.rank))), x.shape)


@op("unfold")
def unfold(b: Build, c: Call) -> Tensor:
    return b.unfold(b.tensor(c["self"]), c["dimension"], c["size"], c["step"])


@op("unfold_backward")
def folded(b: Build, c: Call) -> Tensor:
    """Windows laid over one another and summed, as inverse Fourier transforms of short times do."""
    x, size, step = b.whole(c["grad_in"]), c["size"], c["step"]
    d = c["dim"] % (x.rank - 1)
    others = [i for i in range(x.rank - 1) if i != d]
    y = b.permute(x, [*others, x.rank - 1, d])  # (..., size, windows)
    lead, count = y.shape[:-2], y.shape[-1]
    unit = b.tensor(Const(np.eye(size, dtype="float32").reshape(size, 1, size)))
    y = b.conv_transpose(b.reshape(y, (product(lead), size, count)), unit, None, [step], [0], [0], [1], 1)
    y = b.reshape(y, lead + ((count - 1) * step + size,))
    y = b.pad(y, {y.rank - 1: (0, c.shape()[d] - y.shape[-1])})
    return b.permute(y, [(others + [d]).index(i) for i in range(y.rank)])


@op("im2col")
def im2col(b: Build, c: Call) -> Tensor:
    x, alone = batched(b, c["self"], 4)
    return apart(b, b.columns(x, *(some(c[k], 2) for k in ("kernel_size", "stride", "padding", "dilation"))), alone)


@op("col2im")
def col2im(b: Build, c: Call) -> Tensor:
    """Each row of the columns is spread by a kernel that has a 1 in its place: a transposed convolution."""
    x, alone = batched(b, c["self"], 3)
    kernel, stride, pads, dilation, size = (some(c[k], 2) for k in ("kernel_size", "stride", "padding", "dilation", "output_size"))
    many = kernel[0] * kernel[1]
    n, channels = x.shape[0], x.shape[1] // many
    steps = [(s + 2 * p - d * (k - 1) - 1) // by + 1 for s, p, d, k, by in zip(size, pads, dilation, kernel, stride)]
    extra = [s - ((t - 1) * by - 2 * p + d * (k - 1) + 1) for s, p, d, k, by, t in zip(size, pads, dilation, kernel, stride, steps)]
    unit = np.tile(np.eye(many, dtype="float32").reshape(many, 1, *kernel), (channels, 1, 1, 1))
    y = b.conv_transpose(b.reshape(x, (n, x.shape[1], *steps)), b.tensor(Const(unit)), None, stride, pads, extra, dilation, channels)
    return apart(b, y, alone)


# ---- recurrent ----

@op("lstm", "gru", "rnn_tanh", "rnn_relu")
def recurrent(b: Build, c: Call) -> Any:
    """Unrolled over the sequence."""
    from ..recurrent import run

    return run(b, c, str(c.node.target).split(".")[1])


@op("lstm_cell", "gru_cell", "rnn_tanh_cell", "rnn_relu_cell")
def cell(b: Build, c: Call) -> Any:
    from ..recurrent import step

    hx = c["hx"] if isinstance(c["hx"], (list, tuple)) else [c["hx"]]
    after = step(b, str(c.node.target).split(".")[1].removesuffix("_cell"), b.linear(b.tensor(c["input"]), c["w_ih"], c["b_ih"]),
                 [b.whole(h) for h in hx], c["w_hh"], c["b_hh"])
    return after if len(after) > 1 else after[0]

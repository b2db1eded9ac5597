"""Layers with weights that are no convolutions: dense, embedding, normalisation; and dropout."""
from __future__ import annotations

from typing import Any

from ..build import Build, Tensor
from ..graph import Refused
from ..size import Size, product
from .call import Call, layer
from .elements import activated


@layer("Dense")
def dense(b: Build, c: Call) -> Tensor:
    y = b.linear(c.x(), c.weight(c.op.kernel), c.weight(c.op.bias) if c.op.use_bias else None, transposed=False)
    return activated(b, y, c.op.activation)


@layer("EinsumDense")
def einsum_dense(b: Build, c: Call) -> Tensor:
    y = b.einsum(c.op.equation, [c.x(), c.weight(c.op.kernel)])
    y = b.map2("add", y, c.weight(c.op.bias)) if c.op.bias is not None else y
    return activated(b, y, c.op.activation)


@layer("Embedding")
def embedding(b: Build, c: Call) -> Tensor:
    return b.gather(c.weight(c.op.embeddings), c.x())


@layer("BatchNormalization")
def batch_norm(b: Build, c: Call) -> Tensor:
    op, x = c.op, c.x()
    if c.kwargs.get("mask") is not None:
        raise Refused("BatchNormalization with a mask")
    axis = op.axis % x.rank
    if not axis:
        raise Refused("BatchNormalization along the batch")
    dims = [0, axis] + [d for d in range(1, x.rank) if d != axis]
    gamma = c.weight(op.gamma) if op.scale else None
    beta = c.weight(op.beta) if op.center else None
    t = b.permute(x, dims)
    running = [c.weight(op.moving_mean), c.weight(op.moving_variance)]
    if c.training and op.trainable:
        y, mean, inv = b.batch_norm(t, gamma, beta, op.epsilon)
        rows = product(t.shape[:1] + t.shape[2:])
        moved = b.batch_norm_stats([r.value for r in running], mean, inv, rows, op.epsilon, 1.0 - op.momentum, False)
        for v, new in zip((op.moving_mean, op.moving_variance), moved):
            c.front.moved(v, new)
    else:
        y = b.batch_norm_inference(t, gamma, beta, running[0], running[1], op.epsilon)
    return b.permute(y, [dims.index(d) for d in range(x.rank)])


def over(x: Tensor, axes: Any) -> tuple[list[int], list[int]]:
    """The dimensions of x with those of `axes` last, and the way back."""
    last = [d % x.rank for d in ([axes] if isinstance(axes, int) else axes)]
    dims = [d for d in range(x.rank) if d not in last] + last
    return dims, [dims.index(d) for d in range(x.rank)]


@layer("LayerNormalization")
def layer_norm(b: Build, c: Call) -> Tensor:
    op, x = c.op, c.x()
    if getattr(op, "rms_scaling", False):
        raise Refused("LayerNormalization with rms_scaling")
    dims, back = over(x, op.axis)
    count = 1 if isinstance(op.axis, int) else len(op.axis)
    gamma = c.weight(op.gamma) if op.scale else None
    y = b.layer_norm(b.permute(x, dims), gamma, c.weight(op.beta) if op.center else None, op.epsilon, count)
    return b.permute(y, back)


@layer("RMSNormalization")
def rms_norm(b: Build, c: Call) -> Tensor:
    axes = c.op.axis if isinstance(c.op.axis, (list, tuple)) else [c.op.axis]
    dims, back = over(c.x(), axes)
    return b.permute(b.rms_norm(b.permute(c.x(), dims), c.weight(c.op.scale), c.op.epsilon, len(axes)), back)


@layer("GroupNormalization")
def group_norm(b: Build, c: Call) -> Tensor:
    op, x = c.op, c.x()
    axis = op.axis % x.rank
    dims = [0, axis] + [d for d in range(1, x.rank) if d != axis]
    groups = x.shape[axis] if op.groups == -1 else op.groups
    gamma, beta = c.weight(op.gamma) if op.scale else None, c.weight(op.beta) if op.center else None
    y = b.group_norm(b.permute(x, dims), groups, gamma, beta, op.epsilon)
    return b.permute(y, [dims.index(d) for d in range(x.rank)])


@layer("Dropout", "SpatialDropout1D", "SpatialDropout2D", "SpatialDropout3D")
def dropout(b: Build, c: Call) -> Any:
    x = c.x()
    if not c.training or not c.op.rate:
        return x
    shape = getattr(c.op, "noise_shape", None)
    if "Spatial" in type(c.op).__name__:
        channel = 1 if getattr(c.op, "data_format", None) == "channels_first" else x.rank - 1
        shape = [None if d in (0, channel) else 1 for d in range(x.rank)]
    if shape is None:
        return b.dropout(x, c.op.rate)
    shared = [i for i, d in enumerate(shape) if d == 1 and x.shape[i] != 1]
    if 0 in shared:
        raise Refused("Dropout with one draw for all samples")
    return b.dropout(x, c.op.rate, shared)


@layer("GaussianNoise")
def gaussian_noise(b: Build, c: Call) -> Any:
    return b.add_noise(c.x(), "normal", c.op.stddev) if c.training else c.x()


@layer("GaussianDropout")
def gaussian_dropout(b: Build, c: Call) -> Any:
    x, rate = c.x(), c.op.rate
    if not c.training or not rate:
        return x
    return b.map2("mul", x, b.random(x.shape, "normal", 1.0, (rate / (1.0 - rate)) ** 0.5))


@layer("AlphaDropout")
def alpha_dropout(b: Build, c: Call) -> Any:
    x, shape = c.x(), getattr(c.op, "noise_shape", None) or ()
    shared = [i for i, d in enumerate(shape) if d == 1 and x.shape[i] != 1]
    return b.alpha_dropout(x, c.op.rate, shared) if c.training and c.op.rate else x


@layer("Drawn")
def drawn(b: Build, c: Call) -> Any:
    """keras.random.normal and uniform: numbers for every sample."""
    return b.random(tuple(Size(1) if d is None else d for d in c.op.shape), c.op.of, float(c.op.low), float(c.op.high))


@layer("SpectralNormalization")
def spectral(b: Build, c: Call) -> Any:
    raise Refused("SpectralNormalization, which changes the weights of its layer in every step")

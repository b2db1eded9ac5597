"""What each Keras layer and operation becomes.  One short function a class; images are (N, H, W, C) as in our memory."""
from __future__ import annotations

from typing import Any, Callable, Optional, Sequence

import numpy as np

from ..build import Build, Const, Tensor
from ..graph import Refused
from ..size import Size, product

LAYERS: dict[str, Callable] = {}


class Call:
    """One node: its operation, positional and keyword arguments with tensors in place, and where weights come from."""

    def __init__(self, operation: Any, args: Sequence[Any], kwargs: dict, training: bool, front: Any) -> None:
        self.op, self.args, self.kwargs, self.training, self.front = operation, list(args), kwargs, training, front

    def x(self) -> Any:
        return self.args[0] if self.args else next(iter(self.kwargs.values()))

    def get(self, name: str, at: int, default: Any = None) -> Any:
        return self.kwargs.get(name, self.args[at] if len(self.args) > at else getattr(self.op, name, default))

    def weight(self, variable: Any) -> Optional[Tensor]:
        return None if variable is None else self.front.variable(variable)


def layer(*names: str) -> Callable:
    def keep(f: Callable) -> Callable:
        for n in names:
            LAYERS[n] = f
        return f

    return keep


def pair(x: Any) -> tuple[int, int]:
    return (x, x) if isinstance(x, int) else (x[0], x[1])


def to_nchw(b: Build, t: Tensor) -> Tensor:
    return b.permute(t, (0, 3, 1, 2))


def to_nhwc(b: Build, t: Tensor) -> Tensor:
    return b.permute(t, (0, 2, 3, 1))


def channels_last(op: Any) -> None:
    if getattr(op, "data_format", "channels_last") != "channels_last":
        raise Refused("data_format=channels_first")


def same(size: Sequence[int], kernel: Sequence[int], stride: Sequence[int], dilation: Sequence[int]) -> tuple[int, ...]:
    """TensorFlow's rule: what is odd goes behind."""
    before, after = [], []
    for h, k, s, d in zip(size, kernel, stride, dilation):
        total = max(0, (-(-h // s) - 1) * s + d * (k - 1) + 1 - h)
        before.append(total // 2)
        after.append(total - total // 2)
    return (*before, *after)


# ---- activations ----

def activate(b: Build, x: Tensor, f: Any) -> Tensor:
    name = f if isinstance(f, str) else getattr(f, "__name__", None)
    if f is None or name == "linear":
        return x
    simple = {"relu": "relu", "sigmoid": "sigmoid", "tanh": "tanh", "exponential": "exp", "silu": "silu", "swish": "silu"}
    if name in simple:
        return b.map1(simple[name], x)
    if name == "softmax":
        return b.softmax(x, -1)
    if name == "log_softmax":
        return b.softmax(x, -1, "log_softmax")
    if name == "gelu":
        return b.map1("gelu", x)
    if name == "elu":
        return b.elu(x)
    if name == "relu6":
        return b.clip(x, 0.0, 6.0)
    if name == "softplus":
        return b.softplus(x)
    if name in ("hard_sigmoid",):
        return b.hard_sigmoid(x)
    if name in ("hard_silu", "hard_swish"):
        return b.hard_swish(x)
    if name == "leaky_relu":
        return b.leaky_relu(x, 0.2)
    raise Refused(f"the activation {name}")


@layer("Activation")
def activation(b: Build, c: Call) -> Tensor:
    return activate(b, c.x(), c.op.activation)


@layer("ReLU")
def relu(b: Build, c: Call) -> Tensor:
    if c.op.negative_slope or c.op.threshold:
        raise Refused("ReLU with a slope or threshold")
    return b.map1("relu", c.x()) if c.op.max_value is None else b.clip(c.x(), 0.0, float(c.op.max_value))


@layer("LeakyReLU")
def leaky(b: Build, c: Call) -> Tensor:
    return b.leaky_relu(c.x(), float(c.op.negative_slope))


@layer("Softmax")
def softmax(b: Build, c: Call) -> Tensor:
    return b.softmax(c.x(), c.get("axis", 1, -1))


for _name, _ours in {"Relu": "relu", "Sigmoid": "sigmoid", "Tanh": "tanh", "Exp": "exp", "Log": "log", "Sqrt": "sqrt",
                     "Rsqrt": "rsqrt", "Absolute": "abs", "Abs": "abs", "Silu": "silu"}.items():
    LAYERS[_name] = lambda b, c, _ours=_ours: b.map1(_ours, c.x())
for _name, _act in {"Gelu": "gelu", "Elu": "elu", "Relu6": "relu6", "HardSigmoid": "hard_sigmoid", "HardSilu": "hard_silu",
                    "Softplus": "softplus"}.items():
    LAYERS[_name] = lambda b, c, _act=_act: activate(b, c.x(), _act)


@layer("Square")
def square(b: Build, c: Call) -> Tensor:
    return b.map1("power", c.x(), exponent=2.0)


# ---- arithmetic ----

def operand(x: Any) -> Any:
    return Const(np.asarray(x, "float32")) if isinstance(x, (int, float, np.ndarray, np.generic)) else x


def fold(b: Build, op: str, xs: Sequence[Any]) -> Any:
    out = operand(xs[0])
    for x in xs[1:]:
        out = b.map2(op, out, operand(x))
    return out


def _arithmetic(name: str, ours: str) -> None:
    """The layer takes a list, the operation two arguments."""
    def f(b: Build, c: Call) -> Tensor:
        xs = c.args[0] if c.args and isinstance(c.args[0], (list, tuple)) else list(c.args) + list(c.kwargs.values())
        return fold(b, ours, xs)

    LAYERS[name] = f


for _name, _ours in {"Add": "add", "Subtract": "sub", "Multiply": "mul", "Divide": "div", "TrueDivide": "div"}.items():
    _arithmetic(_name, _ours)


@layer("Maximum")
def maximum(b: Build, c: Call) -> Tensor:
    xs = c.args[0] if isinstance(c.args[0], (list, tuple)) else c.args
    out = operand(xs[0])
    for x in xs[1:]:
        out = b.maximum(out, operand(x))
    return out


@layer("Average")
def average(b: Build, c: Call) -> Tensor:
    return b.affine(fold(b, "add", c.args[0]), 1.0 / len(c.args[0]))


@layer("Negative")
def negative(b: Build, c: Call) -> Tensor:
    return b.neg(c.x())


@layer("Power")
def power(b: Build, c: Call) -> Tensor:
    return b.map1("power", c.x(), exponent=float(c.args[1]))


for _name, _how in {"Equal": "equal", "NotEqual": "not_equal", "Less": "less", "LessEqual": "less_equal",
                    "Greater": "greater", "GreaterEqual": "greater_equal", "LogicalAnd": "both", "LogicalOr": "either"}.items():
    LAYERS[_name] = lambda b, c, _how=_how: b.compare(_how, operand(c.args[0]), operand(c.args[1]))


@layer("Where")
def where(b: Build, c: Call) -> Tensor:
    return b.where(*[operand(x) for x in c.args])


@layer("Cast", "ConvertToTensor", "Identity")
def cast(b: Build, c: Call) -> Any:
    """Types follow --precision; whole numbers become real where a layer asks for that."""
    x = c.x()
    dtype = str(c.get("dtype", 1, "") or "")
    if isinstance(x, Tensor) and x.type != "f32" and "float" in dtype:
        return b.cast(x, "f32")
    return x


@layer("Rescaling")
def rescaling(b: Build, c: Call) -> Tensor:
    scale, offset = np.asarray(c.op.scale, "float32"), np.asarray(c.op.offset, "float32")
    if scale.size == 1 and offset.size == 1:
        return b.affine(c.x(), float(scale), float(offset))
    return b.map2("add", b.map2("mul", c.x(), Const(scale)), Const(offset))


@layer("Normalization")
def normalization(b: Build, c: Call) -> Tensor:
    import keras

    mean, variance = (np.asarray(keras.ops.convert_to_numpy(x), "float32") for x in (c.op.mean, c.op.variance))
    scale = 1.0 / np.maximum(np.sqrt(variance), np.float32(1e-7))
    if c.op.invert:
        raise Refused("Normalization with invert=True")
    return b.map2("mul", b.map2("sub", c.x(), Const(mean)), Const(scale.astype("float32")))


@layer("Mean", "Sum", "Max")
def reduced(b: Build, c: Call) -> Tensor:
    axis = c.get("axis", 1)
    dims = [] if axis is None else [axis] if isinstance(axis, int) else list(axis)
    return b.reduce(type(c.op).__name__.lower(), c.x(), dims, bool(getattr(c.op, "keepdims", False)))


@layer("Matmul")
def matmul(b: Build, c: Call) -> Tensor:
    return b.matmul(c.args[0], c.args[1])


# ---- shapes ----

@layer("Flatten")
def flatten(b: Build, c: Call) -> Tensor:
    x = c.x()
    return b.reshape(x, (x.shape[0], product(x.shape[1:])))


@layer("Reshape")
def reshape(b: Build, c: Call) -> Tensor:
    x = c.x()
    to = list(getattr(c.op, "target_shape", None) or c.get("newshape", 1))
    if hasattr(c.op, "target_shape"):
        to = [x.shape[0], *to]
    known = product(d for d in to if d not in (-1, None))
    to = [product(x.shape) // known if d in (-1, None) else d for d in to]
    return b.reshape(x, tuple(to))


@layer("Permute")
def permute(b: Build, c: Call) -> Tensor:
    return b.permute(c.x(), [0, *c.op.dims])


@layer("Transpose")
def transpose(b: Build, c: Call) -> Tensor:
    return b.permute(c.x(), list(c.get("axes", 1) or range(c.x().rank))[:: 1 if c.get("axes", 1) else -1])


@layer("Concatenate")
def concatenate(b: Build, c: Call) -> Tensor:
    return b.concat([operand(x) for x in c.args[0]], c.get("axis", 1, -1))


@layer("Squeeze")
def squeeze(b: Build, c: Call) -> Tensor:
    axis = c.get("axis", 1)
    return b.squeeze(c.x(), [axis] if isinstance(axis, int) else range(c.x().rank))


@layer("ExpandDims")
def expand_dims(b: Build, c: Call) -> Tensor:
    return b.unsqueeze(c.x(), c.get("axis", 1))


@layer("Flip")
def flip(b: Build, c: Call) -> Tensor:
    axis = c.get("axis", 1)
    x = c.x()
    for d in [axis] if isinstance(axis, int) else axis:
        x = b.flip(x, d % x.rank)
    return x


@layer("GetItem")
def get_item(b: Build, c: Call) -> Tensor:
    x, key = c.args[0], c.args[1] if len(c.args) > 1 else c.op.key
    key = list(key) if isinstance(key, tuple) else [key]
    if Ellipsis in key:
        i = key.index(Ellipsis)
        key[i:i + 1] = [slice(None)] * (x.rank - len([k for k in key if k is not None]) + 1)
    d = 0
    for k in key:
        if k is None:
            x, d = b.unsqueeze(x, d), d + 1
        elif isinstance(k, int):
            x = b.select(x, d, k)
        elif isinstance(k, slice):
            x, d = _sliced(b, x, d, k), d + 1
        else:
            raise Refused("indexing by a tensor")
    return x


def _sliced(b: Build, x: Tensor, d: int, k: slice) -> Tensor:
    if k == slice(None):
        return x
    n = x.shape[d]
    if isinstance(n, Size):
        raise Refused("a slice of the batch")
    begin, end, step = k.indices(n)
    return b.slice(x, d, begin, max(0, end - begin)) if step == 1 else \
        b.take(x, d, Const(np.arange(begin, end, step)))


@layer("ZeroPadding2D")
def zero_padding(b: Build, c: Call) -> Tensor:
    channels_last(c.op)
    (t, l), (r, m) = c.op.padding
    return b.pad(c.x(), {1: (t, l), 2: (r, m)})


@layer("Cropping2D")
def cropping(b: Build, c: Call) -> Tensor:
    (t, l), (r, m) = c.op.cropping
    return b.pad(c.x(), {1: (-t, -l), 2: (-r, -m)})


@layer("UpSampling2D")
def up_sampling(b: Build, c: Call) -> Tensor:
    channels_last(c.op)
    if c.op.interpolation not in ("nearest", "bilinear"):
        raise Refused(f"UpSampling2D by {c.op.interpolation}")
    x, k = c.x(), pair(c.op.size)
    return to_nhwc(b, b.resize(to_nchw(b, x), (x.shape[1] * k[0], x.shape[2] * k[1]), c.op.interpolation))


# ---- layers with weights ----

@layer("Dense")
def dense(b: Build, c: Call) -> Tensor:
    y = b.linear(c.x(), c.weight(c.op.kernel), c.weight(c.op.bias) if c.op.use_bias else None, transposed=False)
    return activate(b, y, c.op.activation)


@layer("EinsumDense")
def einsum_dense(b: Build, c: Call) -> Tensor:
    y = b.einsum(c.op.equation.replace("...", "AB"[: c.x().rank - 1]), [c.x(), c.weight(c.op.kernel)])
    y = b.map2("add", y, c.weight(c.op.bias)) if c.op.bias is not None else y
    return activate(b, y, c.op.activation)


def _pads(op: Any, size: Sequence[int], kernel: Sequence[int], stride: Sequence[int], dilation: Sequence[int]) -> Sequence[int]:
    if op.padding == "same":
        return same(size, kernel, stride, dilation)
    if op.padding != "valid":
        raise Refused(f"padding={op.padding}")
    return (0, 0, 0, 0)


def convolve(b: Build, c: Call, kernel: Tensor, bias: Optional[Tensor], groups: int) -> Tensor:
    """kernel (KH, KW, C / groups, O)."""
    channels_last(c.op)
    x = c.x() if not isinstance(c.x(), tuple) else c.x()[0]
    return _convolve(b, c.op, x, kernel, bias, groups)


def _convolve(b: Build, op: Any, x: Tensor, kernel: Tensor, bias: Optional[Tensor], groups: int) -> Tensor:
    stride, dilation = pair(op.strides), pair(op.dilation_rate)
    pads = _pads(op, x.shape[1:3], kernel.shape[:2], stride, dilation)
    y = b.conv2d(to_nchw(b, x), b.permute(kernel, (3, 2, 0, 1)), bias, stride, pads, dilation, groups)
    return to_nhwc(b, y)


@layer("Conv2D")
def conv2d(b: Build, c: Call) -> Tensor:
    y = convolve(b, c, c.weight(c.op.kernel), c.weight(c.op.bias) if c.op.use_bias else None, c.op.groups)
    return activate(b, y, c.op.activation)


@layer("Conv1D")
def conv1d(b: Build, c: Call) -> Tensor:
    class Flat:
        padding, strides = c.op.padding, (1, pair(c.op.strides)[0] if isinstance(c.op.strides, int) else c.op.strides[0])
        dilation_rate = (1, c.op.dilation_rate[0] if not isinstance(c.op.dilation_rate, int) else c.op.dilation_rate)

    kernel = b.unsqueeze(c.weight(c.op.kernel), 0)
    y = _convolve(b, Flat, b.unsqueeze(c.x(), 1), kernel, c.weight(c.op.bias) if c.op.use_bias else None, c.op.groups)
    return activate(b, b.squeeze(y, [1]), c.op.activation)


def depthwise_kernel(b: Build, kernel: Tensor) -> Tensor:
    """(KH, KW, C, M) -> (KH, KW, 1, C M)."""
    kh, kw, ch, m = kernel.shape
    return b.reshape(kernel, (kh, kw, 1, ch * m))


@layer("DepthwiseConv2D")
def depthwise(b: Build, c: Call) -> Tensor:
    kernel = c.weight(c.op.kernel)
    y = convolve(b, c, depthwise_kernel(b, kernel), c.weight(c.op.bias) if c.op.use_bias else None, kernel.shape[2])
    return activate(b, y, c.op.activation)


@layer("SeparableConv2D")
def separable(b: Build, c: Call) -> Tensor:
    kernel = c.weight(c.op.depthwise_kernel)
    y = convolve(b, c, depthwise_kernel(b, kernel), None, kernel.shape[2])
    point = c.weight(c.op.pointwise_kernel)
    y = b.conv2d(to_nchw(b, y), b.permute(point, (3, 2, 0, 1)), c.weight(c.op.bias) if c.op.use_bias else None, (1, 1),
                 (0, 0, 0, 0), (1, 1), 1)
    return activate(b, to_nhwc(b, y), c.op.activation)


@layer("Conv2DTranspose")
def conv2d_transpose(b: Build, c: Call) -> Tensor:
    channels_last(c.op)
    if c.op.output_padding is not None:
        raise Refused("Conv2DTranspose with output_padding")
    kernel, stride = c.weight(c.op.kernel), pair(c.op.strides)
    pads, extra = [0, 0, 0, 0], [0, 0]
    for i in range(2):
        k = (kernel.shape[i] - 1) * pair(c.op.dilation_rate)[i] + 1
        if c.op.padding == "same":
            total = max(0, k - stride[i])
            pads[i], pads[2 + i], extra[i] = total // 2, total - total // 2, max(0, stride[i] - k)
        else:
            extra[i] = max(0, stride[i] - k)
    y = b.conv_transpose2d(to_nchw(b, c.x()), b.permute(kernel, (3, 2, 0, 1)),
                           c.weight(c.op.bias) if c.op.use_bias else None, stride, pads, extra, pair(c.op.dilation_rate), 1)
    return activate(b, to_nhwc(b, y), c.op.activation)


@layer("Embedding")
def embedding(b: Build, c: Call) -> Tensor:
    return b.gather(c.weight(c.op.embeddings), c.x())


@layer("BatchNormalization")
def batch_norm(b: Build, c: Call) -> Tensor:
    op, x = c.op, c.x()
    if c.kwargs.get("mask") is not None:
        raise Refused("BatchNormalization with a mask")
    axis = op.axis % x.rank
    dims = [0, axis] + [d for d in range(1, x.rank) if d != axis] if axis else None
    if dims is None:
        raise Refused("BatchNormalization along the batch")
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
        y = b.batch_norm_inference(t, gamma, beta, *running, op.epsilon)
    return b.permute(y, [dims.index(d) for d in range(x.rank)])


@layer("LayerNormalization")
def layer_norm(b: Build, c: Call) -> Tensor:
    axis = c.op.axis if isinstance(c.op.axis, int) else list(c.op.axis)[0] if len(c.op.axis) == 1 else None
    if axis is None or axis % c.x().rank != c.x().rank - 1:
        raise Refused("LayerNormalization over another axis than the last")
    gamma = c.weight(c.op.gamma) if c.op.scale else None
    return b.layer_norm(c.x(), gamma, c.weight(c.op.beta) if c.op.center else None, c.op.epsilon)


@layer("GroupNormalization")
def group_norm(b: Build, c: Call) -> Tensor:
    x = c.x()
    dims = [0, x.rank - 1] + list(range(1, x.rank - 1))
    groups = x.shape[-1] if c.op.groups == -1 else c.op.groups
    y = b.group_norm(b.permute(x, dims), groups, c.weight(c.op.gamma), c.weight(c.op.beta), c.op.epsilon)
    return b.permute(y, [dims.index(d) for d in range(x.rank)])


@layer("Dropout", "SpatialDropout2D", "SpatialDropout1D")
def dropout(b: Build, c: Call) -> Any:
    x = c.x()
    if not c.training or not c.op.rate:
        return x
    shape = getattr(c.op, "noise_shape", None)
    if "Spatial" in type(c.op).__name__:
        shape = (None,) + (1,) * (x.rank - 2) + (x.shape[-1],)
    if shape is None:
        return b.dropout(x, c.op.rate)
    return b.map2("mul", x, b.noise(tuple(x.shape[i] if d is None else d for i, d in enumerate(shape)), c.op.rate))


# ---- pooling ----

@layer("MaxPooling2D", "AveragePooling2D")
def pooling(b: Build, c: Call) -> Tensor:
    channels_last(c.op)
    kernel, stride = pair(c.op.pool_size), pair(c.op.strides)
    pads = _pads(c.op, c.x().shape[1:3], kernel, stride, (1, 1))
    op = "max_pool" if "Max" in type(c.op).__name__ else "avg_pool"
    return to_nhwc(b, b.pool(op, to_nchw(b, c.x()), kernel, stride, pads, count_pad=False))


@layer("GlobalAveragePooling2D", "GlobalAveragePooling1D", "GlobalMaxPooling2D", "GlobalMaxPooling1D")
def global_pooling(b: Build, c: Call) -> Tensor:
    channels_last(c.op)
    if c.kwargs.get("mask") is not None:
        raise Refused("global pooling with a mask")
    x, name = c.x(), type(c.op).__name__
    return b.reduce("max" if "Max" in name else "mean", x, range(1, x.rank - 1), bool(c.op.keepdims))

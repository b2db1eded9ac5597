"""Products, convolutions, pools, normalisation, attention and cells, as ONNX."""
from __future__ import annotations

from typing import Optional

import numpy as np

from ..graph import Entry, Refused
from .writer import NCHW, WEIGHT, Writer, floats, is_true, op, pads_of, scalar, two

HEADS = (0, 2, 1, 3)


@op("matmul")
def matmul(w: Writer, e: Entry) -> None:
    a, b = w.plain(w.get(e, 0)), w.plain(w.get(e, 1))
    if e.attributes.get("transpose-a") == "true":
        a = swapped(w, a, w.rank(e.inputs[0]))
    if e.attributes.get("transpose-b") == "true":
        b = swapped(w, b, w.rank(e.inputs[1]))
    y = w.node("MatMul", [a, b])
    if len(e.inputs) > 2:
        y = w.node("Add", [y, w.plain(w.get(e, 2))])
    w.put(e, y)


def swapped(w: Writer, name: str, rank: int) -> str:
    return w.node("Transpose", [name], perm=list(range(rank - 2)) + [rank - 1, rank - 2])


@op("conv2d")
def conv2d(w: Writer, e: Entry) -> None:
    inputs = [w.lie(w.get(e, 0), NCHW), w.lie(w.get(e, 1), WEIGHT)]
    if len(e.inputs) > 2:
        inputs.append(w.plain(w.get(e, 2)))
    w.put(e, w.node("Conv", inputs, strides=two(e, "stride", 1), pads=pads_of(e), dilations=two(e, "dilation", 1),
                    group=int(e.attributes.get("groups", 1))), NCHW)


@op("conv2d_input")
def conv_transpose(w: Writer, e: Entry) -> None:
    inputs = [w.lie(w.get(e, 0), NCHW), w.lie(w.get(e, 1), WEIGHT)]
    w.put(e, w.node("ConvTranspose", inputs, strides=two(e, "stride", 1), dilations=two(e, "dilation", 1),
                    group=int(e.attributes.get("groups", 1)), output_shape=two(e, "size", 1)), NCHW)


@op("max_pool", "avg_pool")
def pool(w: Writer, e: Entry) -> None:
    kernel = two(e, "kernel", 1)
    stride = two(e, "stride", 1) if "stride" in e.attributes else kernel
    counted = None if e.op == "max_pool" else int(not is_true(e, "without-pad"))
    w.put(e, w.node("MaxPool" if e.op == "max_pool" else "AveragePool", [w.lie(w.get(e, 0), NCHW)], kernel_shape=kernel,
                    strides=stride, pads=pads_of(e), count_include_pad=counted), NCHW)


@op("global_avg_pool")
def global_avg_pool(w: Writer, e: Entry) -> None:
    y = w.node("GlobalAveragePool", [w.lie(w.get(e, 0), NCHW)])
    w.put(e, w.node("Flatten", [y], axis=1))


@op("batch_norm_inference")
def batch_norm(w: Writer, e: Entry) -> None:
    rank = w.rank(e.inputs[0])
    order = [0, rank - 1] + list(range(1, rank - 1))
    inputs = [w.lie(w.get(e, 0), order)] + [w.plain(w.get(e, i)) for i in range(1, 5)]
    w.put(e, w.node("BatchNormalization", inputs, epsilon=floats(e, "eps", 1e-5)), order)


@op("layer_norm")
def layer_norm(w: Writer, e: Entry) -> None:
    w.put(e, w.node("LayerNormalization", [w.plain(w.get(e, i)) for i in range(3)], axis=-1, epsilon=floats(e, "eps", 1e-5)))


@op("rms_norm")
def rms_norm(w: Writer, e: Entry) -> None:
    x = w.plain(w.get(e, 0))
    mean = w.node("ReduceMean", [w.node("Mul", [x, x]), w.ints([-1])], keepdims=1)
    inv = w.node("Reciprocal", [w.node("Sqrt", [w.node("Add", [mean, scalar(w, floats(e, "eps", 1e-5))])])])
    w.put(e, w.node("Mul", [w.node("Mul", [x, inv]), w.plain(w.get(e, 1))]))


@op("group_norm")
def group_norm(w: Writer, e: Entry) -> None:
    x = w.lie(w.get(e, 0), NCHW)
    groups = int(e.attributes.get("groups", 32))
    shape = w.node("Shape", [x])
    flat = w.node("Reshape", [x, w.ints([0, groups, -1])])
    one, zero = w.initializer(np.ones(groups, "float32")), w.initializer(np.zeros(groups, "float32"))
    y = w.node("Reshape", [w.node("InstanceNormalization", [flat, one, zero], epsilon=floats(e, "eps", 1e-5)), shape])
    gamma, beta = (w.node("Reshape", [w.plain(w.get(e, i)), w.ints([-1, 1, 1])]) for i in (1, 2))
    w.put(e, w.node("Add", [w.node("Mul", [y, gamma]), beta]), NCHW)


@op("resize")
def resize(w: Writer, e: Entry) -> None:
    x = w.lie(w.get(e, 0), NCHW)
    size = w.ints([int(e.attributes["height"]), int(e.attributes["width"])])
    nc = w.node("Slice", [w.node("Shape", [x]), w.ints([0]), w.ints([2])])
    mode = e.attributes.get("mode", "nearest")
    nearest = mode == "nearest"
    w.put(e, w.node("Resize", [x, "", "", w.node("Concat", [nc, size], axis=0)], mode="nearest" if nearest else "linear",
                    coordinate_transformation_mode={"nearest": "asymmetric", "corners": "align_corners"}.get(mode, "pytorch_half_pixel"),
                    nearest_mode="floor" if nearest else None), NCHW)


@op("attention", "attention_masked")
def attention(w: Writer, e: Entry) -> None:
    """MatMul, Softmax, MatMul; scores whole, as ONNX has it before opset 23.  Keys of groups are repeated for their queries."""
    q, k, v = (w.get(e, i) for i in range(3))
    mask = w.plain(w.get(e, 3)) if len(e.inputs) > 3 else None
    if mask is not None and e.inputs[3].type == "u8":  # 0 hides
        mask = w.node("Where", [w.node("Cast", [mask], to=9), scalar(w, 0.0), scalar(w, -1e30)])
    w.put(e, _attend(w, e, w.lie(q, HEADS), w.lie(k, HEADS), w.lie(v, HEADS), mask), HEADS)


@op("attention_packed")
def attention_packed(w: Writer, e: Entry) -> None:
    first = w.node("Split", [w.lie(w.get(e, 0), (2, 0, 3, 1, 4))], outputs=3, axis=0, num_outputs=3)
    names = [first, *w.nodes[-1]["output"][1:]]
    q, k, v = (w.node("Squeeze", [n, w.ints([0])]) for n in names)
    queries = int(e.attributes.get("queries", "0"))
    if queries:  # of the first places alone
        q = w.node("Slice", [q, w.ints([0]), w.ints([queries]), w.ints([2])])
    w.put(e, _attend(w, e, q, k, v, None), HEADS)


def _attend(w: Writer, e: Entry, q: str, k: str, v: str, mask: Optional[str]) -> str:
    """All (B, H, T, D)."""
    if e.op != "attention_packed":
        k, v = (_each_head(w, x, q) for x in (k, v))
    scale = floats(e, "scale", 0)
    if not scale:
        depth = w.node("Cast", [w.node("Slice", [w.node("Shape", [q]), w.ints([3]), w.ints([4])])], to=1)
        factor = w.node("Reciprocal", [w.node("Sqrt", [depth])])
    else:
        factor = scalar(w, scale)
    scores = w.node("Mul", [w.node("MatMul", [q, w.node("Transpose", [k], perm=[0, 1, 3, 2])]), factor])
    if mask is not None:
        scores = w.node("Add", [scores, mask])
    if is_true(e, "causal"):
        whole = w.node("Slice", [w.node("Shape", [scores]), w.ints([2]), w.ints([4])])
        hidden = w.node("Expand", [scalar(w, -1e30), whole])
        scores = w.node("Add", [scores, w.node("Trilu", [hidden, w.initializer(np.array(1, "int64"))], upper=1)])
    return w.node("MatMul", [w.node("Softmax", [scores], axis=-1), v])


def _each_head(w: Writer, x: str, q: str) -> str:
    """(B, G, S, D) -> (B, H, S, D): each of G heads H / G times; nothing happens where they are as many."""
    heads, groups = (w.node("Slice", [w.node("Shape", [t]), w.ints([1]), w.ints([2])]) for t in (q, x))
    times = w.node("Div", [heads, groups])
    wide = w.node("Unsqueeze", [x, w.ints([2])])
    one = w.ints([1])
    wide = w.node("Expand", [wide, w.node("Concat", [one, one, times, one, one], axis=0)])
    ends = [w.node("Slice", [w.node("Shape", [x]), w.ints([a]), w.ints([b])]) for a, b in ((0, 1), (2, 4))]
    return w.node("Reshape", [wide, w.node("Concat", [ends[0], heads, ends[1]], axis=0)])


@op("rotary")
def rotary(w: Writer, e: Entry) -> None:
    """x (B, T, H, D); tables (T, R / 2) or (B, T, R / 2)."""
    x, (cos, sin) = w.plain(w.get(e, 0)), (w.plain(w.get(e, i)) for i in (1, 2))
    if e.attributes.get("pairs", "halves") != "halves" or is_true(e, "back"):
        raise Refused(f"rotary of neighbours ({e.scope}) cannot be written as ONNX")
    cos, sin = (w.node("Unsqueeze", [t, w.ints([-2])]) for t in (cos, sin))  # (..., T, 1, R / 2)
    half = w.node("Slice", [w.node("Shape", [cos]), w.ints([-1]), w.ints([2**62])])
    whole = w.node("Mul", [half, w.ints([2])])
    axis, end = w.ints([3]), w.ints([2**62])
    a = w.node("Slice", [x, w.ints([0]), half, axis])
    b = w.node("Slice", [x, half, whole, axis])
    rest = w.node("Slice", [x, whole, end, axis])
    first = w.node("Sub", [w.node("Mul", [a, cos]), w.node("Mul", [b, sin])])
    second = w.node("Add", [w.node("Mul", [b, cos]), w.node("Mul", [a, sin])])
    w.put(e, w.node("Concat", [first, second, rest], axis=3))


@op("lstm_cell")
def lstm_cell(w: Writer, e: Entry) -> None:
    i, f, g, o = parts(w, w.plain(w.get(e, 0)), 4)
    i, f, o = (w.node("Sigmoid", [x]) for x in (i, f, o))
    c = w.node("Add", [w.node("Mul", [f, w.plain(w.get(e, 1))]), w.node("Mul", [i, w.node("Tanh", [g])])])
    w.put(e, w.node("Mul", [o, w.node("Tanh", [c])]))
    w.put(e, c, index=1)


@op("gru_cell")
def gru_cell(w: Writer, e: Entry) -> None:
    (xr, xz, xn), (hr, hz, hn) = (parts(w, w.plain(w.get(e, i)), 3) for i in (0, 1))
    r, z = (w.node("Sigmoid", [w.node("Add", [a, b])]) for a, b in ((xr, hr), (xz, hz)))
    new = w.node("Tanh", [w.node("Add", [xn, w.node("Mul", [r, hn])])])
    h = w.plain(w.get(e, 2))
    w.put(e, w.node("Add", [new, w.node("Mul", [z, w.node("Sub", [h, new])])]))


def parts(w: Writer, x: str, count: int) -> list[str]:
    """Equal pieces of the last dimension."""
    first = w.node("Split", [x], outputs=count, axis=-1, num_outputs=count)
    return [first, *w.nodes[-1]["output"][1:]]

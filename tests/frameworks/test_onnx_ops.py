"""Ops of ONNX with the variants of opset 11 to 22: what the reader makes of each against ONNX Runtime."""
from __future__ import annotations

import tempfile
import unittest
from pathlib import Path
from typing import Any, Optional, Sequence

try:
    import numpy as np
    import onnx
    import onnxruntime
    from onnx import TensorProto, helper, numpy_helper
except ImportError as missing:
    raise unittest.SkipTest(str(missing)) from None

from headroom.check import Ours
from headroom.graph import Refused
from headroom.onnx import read

BATCH = 3
R = np.random.RandomState(0)


def f32(*shape: int) -> np.ndarray:
    return R.randn(*shape).astype("float32")


def i64(*xs: Any) -> np.ndarray:
    return np.array(xs, "int64")


IMAGE, ROW = (3, 8, 6), (5,)
# op, opsets, shape of x without the batch, further inputs (None: left out), attributes, outputs
CASES: list[tuple] = [
    *[(op, (11, 22), ROW, [], {}, 1) for op in ("Relu", "Sigmoid", "Tanh", "Exp", "Abs", "Neg", "Erf", "Sin", "Cos", "Softplus",
                                                "Softsign", "Floor", "Ceil", "Round", "Sign", "Tan", "Atan", "Selu", "Identity",
                                                "IsNaN")],
    ("LeakyRelu", (11, 16), ROW, [], {"alpha": 0.2}, 1), ("Elu", (11,), ROW, [], {"alpha": 0.7}, 1),
    ("Celu", (12,), ROW, [], {"alpha": 0.7}, 1), ("HardSigmoid", (11, 22), ROW, [], {"alpha": 0.3, "beta": 0.4}, 1),
    ("HardSwish", (14, 22), ROW, [], {}, 1), ("Mish", (18,), ROW, [], {}, 1), ("Gelu", (20,), ROW, [], {"approximate": "tanh"}, 1),
    ("Gelu", (20,), ROW, [], {}, 1), ("ThresholdedRelu", (11,), ROW, [], {"alpha": 0.3}, 1),
    ("Shrink", (11,), ROW, [], {"bias": 0.4, "lambd": 0.4}, 1), ("PRelu", (11, 16), IMAGE, [f32(3, 1, 1)], {}, 1),
    *[(op, (11, 14), IMAGE, [f32(6)], {}, 1) for op in ("Add", "Sub", "Mul", "Div", "Max", "Min")],
    ("Mod", (11, 13), ROW, [np.float32(0.7)], {"fmod": 1}, 1),
    ("Pow", (11, 15), ROW, [np.float32(2)], {}, 1), ("Sum", (11,), ROW, [f32(5)], {}, 1), ("Mean", (13,), ROW, [f32(5)], {}, 1),
    ("Clip", (11, 13), ROW, [np.float32(-0.3), np.float32(0.4)], {}, 1), ("Clip", (12,), ROW, [None, np.float32(0.4)], {}, 1),
    ("Softmax", (11, 12), IMAGE, [], {}, 1), ("Softmax", (13, 22), IMAGE, [], {"axis": 1}, 1),
    ("LogSoftmax", (11, 13), IMAGE, [], {"axis": 2}, 1),
    *[(f"Reduce{k}", (11,), IMAGE, [], {"axes": [1, 3], "keepdims": 0}, 1) for k in ("Mean", "Max", "Min", "L1", "L2", "SumSquare",
                                                                                    "LogSumExp")],
    *[(f"Reduce{k}", (18, 22), IMAGE, [i64(-1)], {"keepdims": 1}, 1) for k in ("Mean", "Max", "Min", "L2", "LogSumExp")],
    ("ReduceSum", (11,), IMAGE, [], {"axes": [2]}, 1), ("ReduceSum", (13,), IMAGE, [i64(2, 3)], {"keepdims": 0}, 1),
    ("ReduceSum", (13,), IMAGE, [], {"noop_with_empty_axes": 1}, 1),
    ("ArgMax", (11, 13), IMAGE, [], {"axis": 1, "keepdims": 0}, 1), ("CumSum", (11, 14), IMAGE, [np.array(2)], {"exclusive": 1}, 1),
    ("LpNormalization", (11,), IMAGE, [], {"axis": 1}, 1),
    ("Flatten", (11, 13), IMAGE, [], {}, 1), ("Transpose", (11, 13), IMAGE, [], {"perm": [0, 2, 3, 1]}, 1),
    ("Reshape", (11, 14), IMAGE, [i64(0, -1, 2)], {}, 1), ("Squeeze", (11,), (1, 4), [], {"axes": [1]}, 1),
    ("Squeeze", (13,), (1, 4), [i64(1)], {}, 1), ("Unsqueeze", (11,), ROW, [], {"axes": [1, 3]}, 1),
    ("Unsqueeze", (13,), ROW, [i64(1, 3)], {}, 1), ("Expand", (11, 13), (1, 4), [i64(1, 3, 1)], {}, 1),
    ("Concat", (11, 13), IMAGE, [], {"axis": 1}, 1), ("Tile", (11, 13), IMAGE, [i64(1, 2, 1, 3)], {}, 1),
    ("Slice", (11, 13), IMAGE, [i64(1, -4), i64(3, 2**62), i64(1, 2), i64(1, 2)], {}, 1),
    ("Slice", (11,), IMAGE, [i64(-1), i64(-2**62), i64(3), i64(-1)], {}, 1),
    ("Split", (11,), IMAGE, [], {"axis": 2, "split": [2, 6]}, 2), ("Split", (13,), IMAGE, [i64(2, 6)], {"axis": 2}, 2),
    ("Split", (18,), IMAGE, [], {"axis": 2, "num_outputs": 3}, 3),
    ("Pad", (11, 13), IMAGE, [i64(0, 0, 1, 2, 0, 0, 3, 0), np.float32(0.5)], {}, 1),
    ("Pad", (11, 18), IMAGE, [i64(0, 0, 1, 2, 0, 0, 3, 0)], {"mode": "reflect"}, 1),
    ("Pad", (18,), IMAGE, [i64(1, 2), None, i64(3)], {"mode": "edge"}, 1),
    ("Gather", (11, 13), IMAGE, [i64(2, 0, 4)], {"axis": 2}, 1),
    ("TopK", (11,), ROW, [i64(2)], {}, 2), ("Trilu", (14,), (4, 4), [], {"upper": 0}, 1),
    ("DepthToSpace", (11, 13), (8, 3, 4), [], {"blocksize": 2}, 1),
    ("DepthToSpace", (11,), (8, 3, 4), [], {"blocksize": 2, "mode": "CRD"}, 1),
    ("SpaceToDepth", (13,), IMAGE, [], {"blocksize": 2}, 1),
    ("MatMul", (11, 13), IMAGE, [f32(6, 4)], {}, 1), ("Gemm", (11, 13), ROW, [f32(4, 5), f32(4)], {"transB": 1}, 1),
    ("Gemm", (11,), ROW, [f32(5, 4), f32(4)], {"alpha": 0.5, "beta": 2.0}, 1),
    ("Einsum", (12,), (4, 5), [f32(5, 3)], {"equation": "nij,jk->nik"}, 1),
    ("Conv", (11, 22), IMAGE, [f32(4, 3, 3, 3), f32(4)], {"pads": [1, 0, 2, 1], "strides": [2, 1]}, 1),
    ("Conv", (11,), IMAGE, [f32(6, 1, 3, 3)], {"group": 3, "auto_pad": "SAME_UPPER", "strides": [2, 2]}, 1),
    ("Conv", (11,), IMAGE, [f32(4, 3, 2, 2)], {"auto_pad": "SAME_LOWER"}, 1),
    ("Conv", (11,), (3, 9), [f32(4, 3, 3)], {"pads": [2, 0], "strides": [2]}, 1),
    ("Conv", (11,), (2, 5, 6, 4), [f32(4, 2, 2, 3, 3)], {"pads": [1, 0, 1, 1, 1, 1]}, 1),
    ("ConvTranspose", (11,), IMAGE, [f32(3, 4, 3, 3), f32(4)], {"strides": [2, 2], "pads": [1, 1, 1, 1], "output_padding": [1, 0]}, 1),
    ("ConvTranspose", (11,), IMAGE, [f32(3, 4, 3, 3)], {"strides": [2, 2], "auto_pad": "SAME_UPPER"}, 1),
    ("ConvTranspose", (11,), IMAGE, [f32(3, 4, 3, 3)], {"strides": [2, 2], "output_shape": [16, 13]}, 1),
    ("ConvTranspose", (11,), (3, 9), [f32(3, 2, 4)], {"strides": [2], "pads": [1, 1]}, 1),
    ("MaxPool", (11, 12), IMAGE, [], {"kernel_shape": [3, 2], "strides": [2, 2], "pads": [1, 0, 1, 0], "ceil_mode": 1}, 1),
    ("MaxPool", (12,), IMAGE, [], {"kernel_shape": [2, 2], "dilations": [2, 2]}, 1),
    ("MaxPool", (11,), (3, 9), [], {"kernel_shape": [2]}, 1),
    ("AveragePool", (11, 19), IMAGE, [], {"kernel_shape": [3, 3], "strides": [2, 2], "pads": [1, 1, 1, 1]}, 1),
    ("AveragePool", (11,), IMAGE, [], {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1], "count_include_pad": 1}, 1),
    ("AveragePool", (11,), (2, 4, 6, 4), [], {"kernel_shape": [2, 2, 2], "strides": [2, 2, 2]}, 1),
    ("GlobalAveragePool", (11,), IMAGE, [], {}, 1), ("GlobalMaxPool", (11,), IMAGE, [], {}, 1),
    ("BatchNormalization", (11, 14, 15), IMAGE, [f32(3), f32(3), f32(3), np.abs(f32(3)) + 0.5], {"epsilon": 1e-3}, 1),
    ("LayerNormalization", (17,), IMAGE, [f32(6), f32(6)], {}, 1), ("LayerNormalization", (17,), IMAGE, [f32(8, 6)], {"axis": 2}, 1),
    ("InstanceNormalization", (11, 22), IMAGE, [f32(3), f32(3)], {}, 1),
    ("GroupNormalization", (21,), (4, 5, 5), [f32(4), f32(4)], {"num_groups": 2}, 1),
    ("Dropout", (11,), ROW, [], {"ratio": 0.4}, 1), ("Dropout", (13,), ROW, [np.float32(0.4)], {}, 1),
    ("Resize", (11, 13, 19), IMAGE, [f32(0), f32(0), i64(0, 3, 16, 9)],
     {"mode": "linear", "coordinate_transformation_mode": "half_pixel"}, 1),
    ("Resize", (13,), IMAGE, [None, np.array([1, 1, 2, 3], "float32")], {"mode": "nearest", "nearest_mode": "floor",
                                                                        "coordinate_transformation_mode": "asymmetric"}, 1),
    ("Resize", (18,), IMAGE, [None, None, i64(11, 9)], {"mode": "linear", "coordinate_transformation_mode": "align_corners",
                                                        "axes": [2, 3]}, 1),
    ("Where", (11, 16), ROW, [f32(5), f32(5)], {}, 1),
]


def model_of(op: str, opset: int, shape: tuple, more: Sequence[Optional[np.ndarray]], attributes: dict, outputs: int) -> bytes:
    names, made, nodes = ["x"], [], []
    if op == "Where":
        made.append(numpy_helper.from_array(np.float32(0), "zero"))
        nodes.append(helper.make_node("Greater", ["x", "zero"], ["mask"]))
        names = ["mask"]
    if op == "Concat":
        names = ["x", "x"]
    for i, a in enumerate(more):
        if a is not None and op == "Resize" and a.dtype == np.int64 and a[0] == 0:
            a = np.array([BATCH, *a[1:]])
        names.append("" if a is None else f"layer.w{i}")
        if a is not None:
            made.append(numpy_helper.from_array(np.asarray(a), f"layer.w{i}"))
    outs = [f"y{i}" for i in range(outputs)]
    nodes.append(helper.make_node(op, names, outs, **attributes))
    if op in ("IsNaN", "ArgMax", "TopK"):  # whole numbers and truth as real numbers
        nodes += [helper.make_node("Cast", [o], [f"z{i}"], to=1) for i, o in enumerate(outs)]
        outs = [f"z{i}" for i in range(outputs)]
    graph = helper.make_graph(nodes, "case", [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", *shape])],
                              [helper.make_tensor_value_info(o, TensorProto.FLOAT, None) for o in outs], made)
    return serialized(graph, opset)


def serialized(graph: Any, opset: int) -> bytes:
    m = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)
    return m.SerializeToString()


class Variants(unittest.TestCase):
    def case(self, op: str, opset: int, shape: tuple, more: Sequence, attributes: dict, outputs: int) -> float:
        return self.difference(model_of(op, opset, shape, more, attributes, outputs), shape)

    def difference(self, data: bytes, shape: tuple) -> float:
        x = np.random.RandomState(2).randn(BATCH, *shape).astype("float32")
        options = onnxruntime.SessionOptions()
        options.log_severity_level = 4
        want = onnxruntime.InferenceSession(data, options).run(None, {"x": x})
        with tempfile.TemporaryDirectory() as folder:
            (Path(folder) / "m.onnx").write_bytes(data)
            e = read(Path(folder) / "m.onnx", loss="squares", nameless=True)
        r = Ours(e, BATCH)
        try:
            got, _ = r.evaluate({"x": x})
        finally:
            r.close()
        self.assertEqual([g.shape for g in got], [w.shape for w in want])
        return max(float(np.abs(g - w).max()) for g, w in zip(got, want))

    def test_every_op_in_every_variant(self) -> None:
        for op, opsets, *rest in CASES:
            for opset in opsets:
                with self.subTest(f"{op} {opset} {rest[2]}"):
                    self.assertLess(self.case(op, opset, *rest), 2e-4)

    def test_images_of_tensorflow_keep_their_layout_and_a_softmax_is_the_losss(self) -> None:
        """Channels last, scaled and then turned for the convolution; the softmax at the end as Keras writes it."""
        made = [numpy_helper.from_array(a, n) for a, n in (
            (np.float32(0.5), "half"), (f32(8, 3, 3, 3), "conv/kernel"), (f32(8), "bn/gamma"), (f32(8), "bn/beta"), (f32(8), "bn/mean"),
            (np.ones(8, "float32"), "bn/var"), (f32(8, 5), "dense/kernel"), (f32(5), "dense/bias"))]
        nodes = [helper.make_node("Sub", ["x", "half"], ["s"]), helper.make_node("Transpose", ["s"], ["t"], perm=[0, 3, 1, 2]),
                 helper.make_node("Conv", ["t", "conv/kernel"], ["c"], auto_pad="SAME_UPPER", strides=[2, 2], kernel_shape=[3, 3]),
                 helper.make_node("BatchNormalization", ["c", "bn/gamma", "bn/beta", "bn/mean", "bn/var"], ["b"], epsilon=1e-3),
                 helper.make_node("Relu", ["b"], ["r"]), helper.make_node("ReduceMean", ["r"], ["m"], axes=[2, 3], keepdims=0),
                 helper.make_node("MatMul", ["m", "dense/kernel"], ["d"]), helper.make_node("Add", ["d", "dense/bias"], ["l"]),
                 helper.make_node("Softmax", ["l"], ["y"])]
        graph = helper.make_graph(nodes, "tf", [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", 10, 7, 3])],
                                  [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["batch", 5])], made)
        for opset in (11, 13, 17):
            data = serialized(graph, opset)
            self.assertLess(self.difference(data, (10, 7, 3)), 2e-4)
            with tempfile.TemporaryDirectory() as folder:
                (Path(folder) / "m.onnx").write_bytes(data)
                e = read(Path(folder) / "m.onnx")
            self.assertEqual(tuple(e.model.train.named["x"].shape[1:]), (10, 7, 3))
            self.assertTrue(any("the softmax at the end is part of the loss" in n for n in e.notes))
            self.assertFalse(any(x.op == "softmax" for f in (e.model.train, e.model.eval) for x in f.live() if x.kind == "node"))

    def test_recurrent_layers_with_the_steps_first(self) -> None:
        for op, gates, way in (("LSTM", 4, "bidirectional"), ("GRU", 3, "forward"), ("LSTM", 4, "reverse"), ("GRU", 3, "bidirectional")):
            ways, hidden = 2 if way == "bidirectional" else 1, 4
            made = [numpy_helper.from_array(a, n) for a, n in (
                (f32(ways, gates * hidden, 5), "rnn.w"), (f32(ways, gates * hidden, hidden), "rnn.r"),
                (f32(ways, 2 * gates * hidden), "rnn.b"))]
            more = {"linear_before_reset": 1} if op == "GRU" else {}
            nodes = [helper.make_node("Transpose", ["x"], ["t"], perm=[1, 0, 2]),
                     helper.make_node(op, ["t", "rnn.w", "rnn.r", "rnn.b"], ["y", "h"], hidden_size=hidden, direction=way, **more),
                     helper.make_node("Transpose", ["y"], ["z"], perm=[2, 0, 1, 3]),
                     helper.make_node("Transpose", ["h"], ["last"], perm=[1, 0, 2])]
            graph = helper.make_graph(nodes, "rnn", [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", 6, 5])],
                                      [helper.make_tensor_value_info(o, TensorProto.FLOAT, None) for o in ("z", "last")], made)
            for opset in (11, 14):
                with self.subTest(f"{op} {way} {opset}"):
                    self.assertLess(self.difference(serialized(graph, opset), (6, 5)), 1e-5)

    def test_picks_by_numbers_that_depend_on_data(self) -> None:
        made = [numpy_helper.from_array(i64(2), "k"), numpy_helper.from_array(np.float32(0), "none")]
        nodes = [helper.make_node("TopK", ["x", "k"], ["v", "i"]), helper.make_node("GatherElements", ["x", "i"], ["g"], axis=1),
                 helper.make_node("Mul", ["x", "none"], ["zero"]),
                 helper.make_node("ScatterElements", ["zero", "i", "v"], ["s"], axis=1),
                 helper.make_node("Concat", ["g", "s"], ["y"], axis=1)]
        graph = helper.make_graph(nodes, "picks", [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", 5])],
                                  [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)], made)
        self.assertLess(self.difference(serialized(graph, 13), (5,)), 1e-6)

    def test_weights_in_a_file_of_their_own_and_nowhere_else(self) -> None:
        m = onnx.load_from_string(model_of("Gemm", 13, ROW, [f32(4, 5), f32(4)], {"transB": 1}, 1))
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "m.onnx"
            onnx.save(m, str(path), save_as_external_data=True, location="w.bin", size_threshold=0)
            e = read(path, loss="squares")
            self.assertTrue(np.array_equal(e.weights["layer.w0"], numpy_helper.to_array(onnx.load(str(path)).graph.initializer[0])))
            path.write_bytes(path.read_bytes().replace(b"w.bin", b"../xx"))
            with self.assertRaises(Refused):
                read(path, loss="squares")

    def test_what_is_not_read_is_refused_by_its_name(self) -> None:
        for op, attributes in (("NonZero", {}), ("Hardmax", {}), ("GlobalLpPool", {})):
            data = model_of(op, 13, IMAGE, [], attributes, 1)
            with tempfile.TemporaryDirectory() as folder, self.assertRaises(Refused) as caught:
                (Path(folder) / "m.onnx").write_bytes(data)
                read(Path(folder) / "m.onnx", loss="squares")
            self.assertIn(op, str(caught.exception))

    def test_opsets_outside_are_refused(self) -> None:
        for opset in (6, 23):
            with tempfile.TemporaryDirectory() as folder, self.assertRaises(Refused):
                (Path(folder) / "m.onnx").write_bytes(model_of("Relu", opset, ROW, [], {}, 1))
                read(Path(folder) / "m.onnx", loss="squares")


if __name__ == "__main__":
    assert onnx
    unittest.main()

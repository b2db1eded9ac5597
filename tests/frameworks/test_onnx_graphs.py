"""ONNX files as exporters write them: a batch of one in every shape, functions, branches, whole numbers, old opsets."""
from __future__ import annotations

import tempfile
import unittest
from pathlib import Path
from typing import Any, Optional, Sequence

try:
    import numpy as np
    import onnxruntime
    from onnx import TensorProto, helper, numpy_helper
except ImportError as missing:
    raise unittest.SkipTest(str(missing)) from None

from headroom import __main__ as command
from headroom.check import Ours
from headroom.graph import Refused
from headroom.onnx import read
from headroom.onnx.check import check

DRAW = np.random.RandomState(3)
assert onnxruntime


def f32(*shape: int) -> np.ndarray:
    return np.asarray(DRAW.randn(*shape) * 0.5, "float32")


def i64(*values: int) -> np.ndarray:
    return np.array(values, "int64")


def graph_of(nodes: Sequence, shape: Sequence, made: dict, output: str = "y", more: Sequence = ()) -> Any:
    return helper.make_graph(list(nodes), "g", [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape), *more],
                             [helper.make_tensor_value_info(output, TensorProto.FLOAT, None)],
                             [numpy_helper.from_array(np.asarray(a), n) for n, a in made.items()])


class Taken(unittest.TestCase):
    def same(self, graph: Any, opset: int = 17, functions: Sequence = (), batch: int = 3, shapes: Optional[list] = None,
             domains: Sequence[str] = (), parameters: int = -1) -> Any:
        m = helper.make_model(graph, opset_imports=[helper.make_opsetid(d, opset if not d else 1) for d in ("", *domains)], ir_version=8,
                              functions=list(functions))
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "m.onnx"
            path.write_bytes(m.SerializeToString())
            e = read(path, "squares", nameless=True, shapes=shapes)
            r = check(path, e, batch)
        self.assertLess(r.eval, 1e-5, r)
        if parameters >= 0:
            self.assertEqual(e.parameter_count(), parameters)
        return e

    def test_a_file_for_a_batch_of_one_is_read_for_any_batch(self) -> None:
        """Heads, windows, steps first and a class token, all with a 1 where the batch was."""
        node = helper.make_node
        nodes = [node("Concat", ["token", "x"], ["a"], axis=1), node("Transpose", ["a"], ["t"], perm=[1, 0, 2]),
                 node("Reshape", ["t", "rows"], ["r"]), node("Gemm", ["r", "layer.w"], ["p"]), node("Reshape", ["p", "steps"], ["s"]),
                 node("Reshape", ["s", "heads"], ["h"]), node("Transpose", ["h"], ["k"], perm=[1, 0, 2]), node("Softmax", ["k"], ["f"]),
                 node("Reshape", ["f", "split"], ["q"]), node("Transpose", ["q"], ["u"], perm=[0, 2, 1, 3]),
                 node("Reshape", ["u", "flat"], ["y"])]
        made = {"token": f32(1, 1, 8), "rows": i64(6, 8), "steps": i64(6, 1, 8), "heads": i64(6, 2, 4), "split": i64(1, 2, 6, 4),
                "flat": i64(1, 48), "layer.w": f32(8, 8)}
        e = self.same(graph_of(nodes, [1, 5, 8], made), parameters=72)
        r = Ours(e, 4)  # and samples stay apart
        x = f32(4, 5, 8)
        try:
            whole = r.evaluate({"x": x})[0][0]
            other = r.evaluate({"x": np.concatenate([x[:1], 2 * x[1:]])})[0][0]
        finally:
            r.close()
        self.assertTrue(np.array_equal(whole[0], other[0]) and not np.allclose(whole[1], other[1]))

    def test_whole_numbers_and_truths_are_what_the_file_says(self) -> None:
        node = helper.make_node
        nodes = [node("Mul", ["x", "ten"], ["a"]), node("Cast", ["a"], ["i"], to=7), node("Div", ["i", "three"], ["d"]),
                 node("Cast", ["d"], ["df"], to=1), node("Cast", ["x"], ["b"], to=9), node("Cast", ["b"], ["bf"], to=1),
                 node("ArgMin", ["x"], ["m"], axis=1), node("Cast", ["m"], ["mf"], to=1), node("Mod", ["i", "three"], ["o"]),
                 node("Cast", ["o"], ["of"], to=1), node("Sum", ["df", "bf", "mf", "of"], ["y"])]
        self.same(graph_of(nodes, ["n", 6], {"ten": np.float32(10), "three": np.int64(3)}))

    def test_functions_of_the_file_and_branches_that_are_known(self) -> None:
        node = helper.make_node
        inner = helper.make_function("own", "Scaled", ["a"], ["b"], [node("Constant", [], ["c"], value_float=1.5), node("Mul", ["a", "c"],
                    ["t"]),
                    node("Elu", ["t"], ["b"])], [helper.make_opsetid("", 17)])
        elu = node("Elu", ["t"], ["z"])
        elu.attribute.add(name="alpha", ref_attr_name="slope", type=1)
        outer = helper.make_function("own", "Twice", ["a"], ["z"], [node("Scaled", ["a"], ["s"], domain="own"), node("Scaled", ["s"],
                    ["t"], domain="own"),
                    elu], [helper.make_opsetid("", 17), helper.make_opsetid("own",
                    1)], ["slope"])
        then, other = (helper.make_graph([node(op, ["w"], [out])], op, [], [helper.make_tensor_value_info(out, TensorProto.FLOAT, None)])
                       for op, out in (("Relu", "p"), ("Neg", "q")))
        nodes = [node("Twice", ["x"], ["w"], domain="own", slope=0.3), node("Shape", ["w"], ["s"]), node("Size", ["s"], ["k"]),
                 node("Equal", ["k", "two"], ["c"]), node("If", ["c"], ["y"], then_branch=then, else_branch=other)]
        self.same(graph_of(nodes, ["n", 6], {"two": np.int64(2)}), functions=[inner, outer], domains=["own"])

    def test_equal_statistics_under_one_name_are_moved_apart(self) -> None:
        """Exporters write equal arrays once: the zeros of a bias and of two means."""
        node = helper.make_node
        nodes = [node("Conv", ["x", "w", "zeros"], ["a"]), node("BatchNormalization", ["a", "g", "b", "zeros", "ones"], ["c"], name="n1"),
                 node("BatchNormalization", ["c", "g", "b", "zeros", "ones"], ["y"], name="n2")]
        made = {"w": f32(4, 3, 1, 1), "zeros": np.zeros(4, "float32"), "ones": np.ones(4, "float32"), "g": f32(4), "b": f32(4)}
        e = self.same(graph_of(nodes, ["n", 3, 5, 5], made))
        self.assertEqual({n for n in e.weights if "running" in n}, {f"n{i}.running_{k}" for i in (1, 2) for k in ("mean", "var")})
        Ours(e, 3).close()

    def test_weights_in_constant_nodes_are_trained(self) -> None:
        node = helper.make_node
        nodes = [node("Constant", [], ["fc.w"], value=numpy_helper.from_array(f32(6, 4))), node("Constant", [], ["fc.b"],
                    value=numpy_helper.from_array(f32(4))),
                 node("MatMul", ["x", "fc.w"], ["m"]), node("Add", ["m", "fc.b"], ["y"])]
        self.same(graph_of(nodes, ["n", 6], {}), parameters=28)

    def test_recurrent_layers_of_every_kind(self) -> None:
        node = helper.make_node
        for op, gates, more in (("RNN", 1, {}), ("RNN", 1, {"activations": ["Relu"]}), ("GRU", 3, {}), ("GRU", 3,
                    {"activations": ["Sigmoid",
                    "Tanh"]}),
                                ("LSTM", 4, {"activations": ["Sigmoid", "Tanh", "Tanh"]})):
            made = {"w": f32(1, gates * 4, 5), "r": f32(1, gates * 4, 4), "b": f32(1, 2 * gates * 4)}
            nodes = [node("Transpose", ["x"], ["t"], perm=[1, 0, 2]), node(op, ["t", "w", "r", "b"], ["", "h"], hidden_size=4, **more),
                     node("Squeeze", ["h", "zero"], ["y"])]
            with self.subTest(f"{op} {more}"):
                self.same(graph_of(nodes, ["n", 6, 5], {**made, "zero": i64(0)}))

    def test_resizing_by_every_rule(self) -> None:
        node = helper.make_node
        for mode, how, rounding in [("nearest", h, r) for h in ("half_pixel", "asymmetric", "align_corners") for r in ("floor", "ceil",
                    "round_prefer_floor",
                                    "round_prefer_ceil")] + [(m, h, "floor") for m in ("linear", "cubic") for h in ("asymmetric",
                    "half_pixel", "align_corners")]:
            for scale in (3.0, 1.6, 0.5):
                made = {"scales": np.array([1, 1, scale, 2.0], "float32")}
                nodes = [node("Resize", ["x", "", "scales"], ["y"], mode=mode, coordinate_transformation_mode=how, nearest_mode=rounding)]
                with self.subTest(f"{mode} {how} {rounding} {scale}"):
                    self.same(graph_of(nodes, ["n", 2, 7, 5], made))

    def test_waves_and_responses(self) -> None:
        node = helper.make_node
        nodes = [node("STFT", ["x", "step", "window"], ["s"], onesided=1), node("ReduceL2", ["s"], ["y"], axes=[3], keepdims=0)]
        self.same(graph_of(nodes, ["n", 40, 1], {"step": np.int64(5), "window": np.hanning(16).astype("float32")}))
        nodes = [node("Unsqueeze", ["x", "last"], ["u"]), node("DFT", ["u"], ["d"], axis=1), node("DFT", ["d"], ["y"], axis=2, inverse=1)]
        self.same(graph_of(nodes, ["n", 6, 5], {"last": i64(3)}))
        nodes = [node("LRN", ["x"], ["l"], size=5, alpha=0.2, beta=0.6), node("MeanVarianceNormalization", ["l"], ["m"], axes=[2, 3]),
                 node("ReduceProd", ["m"], ["y"], axes=[2])]
        self.same(graph_of(nodes, ["n", 6, 5, 3], {}))

    def test_places_that_are_known(self) -> None:
        node = helper.make_node
        nodes = [node("Transpose", ["x"], ["t"], perm=[1, 2, 0]), node("GatherND", ["t", "places"], ["a"]), node("ScatterND", ["t",
                    "places", "a2"], ["b"]),
                 node("GatherND", ["b", "places"], ["c"]), node("Add", ["a", "c"], ["d"]), node("Transpose", ["d"], ["y"], perm=[1, 0])]
        nodes.insert(2, node("Mul", ["a", "half"], ["a2"]))
        self.same(graph_of(nodes, ["n", 4, 5], {"places": np.array([[0, 3], [2, 1], [3, -1]], "int64"), "half": np.float32(0.5)}))

    def test_an_old_opset(self) -> None:
        node = helper.make_node
        nodes = [node("Upsample", ["x", "scales"], ["u"]), node("Slice", ["u"], ["s"], axes=[2], starts=[1], ends=[9]), node("Clip",
                    ["s"], ["c"], min=-0.5, max=0.5),
                 node("Pad", ["c"], ["y"], pads=[0, 0, 1, 0, 0, 0, 0, 2], value=0.25)]
        self.same(graph_of(nodes, ["n", 2, 5, 4], {"scales": np.array([1, 1, 2, 2], "float32")}), opset=9)

    def test_open_sizes_are_given(self) -> None:
        graph = graph_of([helper.make_node("Conv", ["x", "w"], ["c"]), helper.make_node("GlobalAveragePool", ["c"], ["y"])], ["n", 3, "h",
                    "w"], {"w": f32(4, 3, 3, 3)})
        with self.assertRaisesRegex(Refused, r"\[N,3,h,w\]; give its sizes: --input"):
            self.same(graph)
        self.same(graph, shapes=[[3, 8, 9]])


class Refusals(unittest.TestCase):
    def refused(self, graph: Any, words: str, domains: Sequence[str] = ()) -> None:
        m = helper.make_model(graph, opset_imports=[helper.make_opsetid(d, 17 if not d else 1) for d in ("", *domains)], ir_version=8)
        with tempfile.TemporaryDirectory() as folder, self.assertRaisesRegex(Refused, words):
            (Path(folder) / "m.onnx").write_bytes(m.SerializeToString())
            read(Path(folder) / "m.onnx", "squares", nameless=True)

    def test_ops_of_other_domains_are_not_taken_for_onnxs(self) -> None:
        self.refused(graph_of([helper.make_node("Relu", ["x"], ["y"], domain="mine")], ["n", 3], {}), "the op mine.Relu", ["mine"])

    def test_inputs_that_are_no_samples(self) -> None:
        rate = helper.make_tensor_value_info("rate", TensorProto.FLOAT, [])
        self.refused(graph_of([helper.make_node("Mul", ["x", "rate"], ["y"])], ["n", 3], {}, more=[rate]), "rate is a single number")

    def test_a_condition_that_depends_on_data(self) -> None:
        node = helper.make_node
        branch = helper.make_graph([node("Relu", ["x"], ["p"])], "b", [], [helper.make_tensor_value_info("p", TensorProto.FLOAT, None)])
        nodes = [node("ReduceSum", ["x"], ["s"], keepdims=0), node("Greater", ["s", "zero"], ["c"]), node("If", ["c"], ["y"],
                    then_branch=branch, else_branch=branch)]
        self.refused(graph_of(nodes, ["n", 3], {"zero": np.float32(0)}), "condition depends on data")


class Commands(unittest.TestCase):
    def test_an_export_is_compared_with_onnx_runtime(self) -> None:
        graph = graph_of([helper.make_node("Gemm", ["x", "fc.weight"], ["l"]), helper.make_node("Softmax", ["l"], ["y"])], ["n", "k"],
                         {"fc.weight": f32(6, 4)})
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "m.onnx"
            path.write_bytes(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8).SerializeToString())
            words = ["export", str(path), "-o", f"{folder}/m.hr"]
            self.assertEqual(command.main(words), 2)
            self.assertEqual(command.main([*words, "--input", "f32[N,6]"]), 0)
            path.write_bytes(path.read_bytes()[:60])
            self.assertEqual(command.main([*words, "--input", "f32[N,6]"]), 2)


if __name__ == "__main__":
    unittest.main()

"""Model files as ONNX: ONNX Runtime and the library give the same results."""
from __future__ import annotations

import subprocess
import tempfile
import unittest
from pathlib import Path

try:
    import numpy as np

    import same_onnx
except ImportError as missing:
    raise unittest.SkipTest(str(missing)) from None

import trip
from headroom import file
from headroom.build import Build, Const, Tensor
from headroom.graph import Form, Model
from headroom.onnx import read, write
from headroom.size import Size

LINES = [
    "net: input(16x16x3) | conv(8,1) | relu6 | depthwise(5) | hard_swish | conv(16,1,groups=2) | group_norm | avg_pool(2) | mish | "
    "residual(conv(8,stride=2) | batch_norm | relu) | global_pool | dense(7)",
    "net: input(16x16x1) | conv(4) | elu(0.5) | max_pool | conv(8,dilation=2) | leaky_relu | upsample | conv(3,1)",
    "net: input(20) | dense(32) | silu | residual(dense(9) | softplus | dense(16)) | quick_gelu | softsign | selu | dense(2)",
    "net: input(18, vocab=30) | embedding(8, 30) | residual(layer_norm | attention(2, causal=1)) | lstm(6, both=1) | gru(5, last=1) | "
    "dense(2)",
]


class Runs(unittest.TestCase):
    @unittest.skipUnless(trip.PROGRAM, "needs HEADROOM_PROGRAM")
    def test_all_families_and_networks_of_one_line(self) -> None:
        for model in ("gpt2-nano", "lenet", "mlp", "resnet18:size=32,classes=10,width=8", "resnet50:size=32,classes=10,width=8",
                      "resnet18:size=32,width=32,norm=group", "unet:size=16,width=8", "vit-tiny:size=32,patch=8,layers=2", *LINES):
            with self.subTest(model), tempfile.TemporaryDirectory() as folder:
                subprocess.run([trip.PROGRAM, "summary", model, "--save", f"{folder}/m.hr"], check=True, capture_output=True)
                self.assertLess(same_onnx.difference(Path(f"{folder}/m.hr").read_text()), 1e-4)

    def test_what_was_written_comes_back_with_the_same_parameters(self) -> None:
        """The ones of a group norm and the numbers of a table are no weights."""
        b = Build(Form(), lambda n, a: None, 3)
        w = {"gamma": np.full(8, 1.5, "float32"), "beta": np.full(8, 0.5, "float32")}
        x = Tensor(b.form.input("x", "f32", (Size(1), 6, 4, 8)), (0, 2, 3, 1))
        gamma, beta = (Tensor(b.form.persistent("param", n, "f32", (8,), "constant 1 0")) for n in w)
        y = b.map2("add", b.group_norm(x, 4, gamma, beta, 1e-5), Const(np.arange(8, dtype="float32").reshape(8, 1, 1)))
        b.form.result("y", y.value)
        b.form.result("loss", b.reduce("mean", y, [], False).value)
        model = Model("ops", 0, b.form, b.form)
        self.assertLess(same_onnx.difference(model.text(), w), 1e-5)
        with tempfile.TemporaryDirectory() as folder:
            write(file.parse(model.text()), w, f"{folder}/m.onnx")
            again = read(f"{folder}/m.onnx", "squares")
        self.assertEqual({n: a.shape for n, a in again.weights.items()}, {n: a.shape for n, a in w.items()})

    def test_ops_that_no_model_here_has(self) -> None:
        """Slices and pads with steps, turned and summed rows, picks and their way back, rotary embedding, every function."""
        b = Build(Form(), lambda n, a: None, 3)
        x = Tensor(b.form.input("x", "f32", (Size(1), 6, 4, 8)))
        angles = np.arange(6)[:, None] * np.array([1.0, 0.3], "float32")
        tables = [b.const(Const(f(angles).astype("float32"))).value for f in (np.cos, np.sin)]
        y = Tensor(b.form.node("rotary", [x.value, *tables], [("f32", x.shape)])[0])
        y = b.pad(b.slice(y, 3, 1, 3, 2), {3: (1, 2)}, 0.5, {3: 3})
        y = b.cum_sum(b.flip(y, [1, 2]), 1, reverse=True, exclusive=True)
        top, index = b.top_k(y, 3, -1)
        y = b.concat([b.put_along(top, index, 3, 10), b.take_along(y, index, 3)], 3)
        for f in ("log_sigmoid", "quick_gelu", "tanh_shrink", "expm1", "is_nan", "not", "selu", "sign"):
            y = b.map2("add", y, b.function(f, b.clip(x if y.rank == 0 else y, -3.0, 3.0)))
        for f in ("soft_shrink", "hard_shrink", "softplus", "celu", "elu"):
            y = b.function(f, y, 0.7)
        b.form.result("y", y.value)
        b.form.result("loss", b.reduce("mean", y, [], False).value)
        self.assertLess(same_onnx.difference(Model("ops", 0, b.form, b.form).text(), {}), 1e-5)


if __name__ == "__main__":
    unittest.main()

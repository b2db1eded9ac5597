"""ONNX files: ours run by ONNX Runtime, others' read."""
from __future__ import annotations

import random
import tempfile
import unittest
import warnings
from pathlib import Path

try:
    import numpy as np
    import onnxruntime
    import torch
    from torch import nn
except ImportError as missing:
    raise unittest.SkipTest(str(missing)) from None

import headroom.torch as front
import same_onnx
import zoo_torch
import zoo_users
from headroom import file
from headroom.graph import Refused
from headroom.onnx import read, write
from headroom.torch.check import check, flat

warnings.filterwarnings("ignore")
torch.set_num_threads(1)


class Written(unittest.TestCase):
    def same(self, name: str) -> None:
        torch.manual_seed(0)
        make, inputs, loss = zoo_torch.own()[name]
        m = make().eval()
        e = front.export(m, inputs(5), loss)
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "m.onnx"
            write(file.parse(e.model.text()), e.weights, path)
            session = onnxruntime.InferenceSession(str(path))
            for batch in (1, 5):
                x = inputs(batch)
                feeds = {i.name: t.numpy().astype("int32") if t.dtype == torch.int64 else t.numpy()
                         for i, t in zip(session.get_inputs(), x)}
                for want, got in zip(flat(m(*x)), session.run(None, feeds)):
                    self.assertEqual(tuple(want.shape), got.shape)
                    self.assertLess(float(np.abs(want.detach().numpy() - got).max()), 1e-4)

    def test_mlp(self) -> None:
        self.same("residual_mlp")

    def test_unet(self) -> None:
        self.same("unet")

    def test_language_model(self) -> None:
        self.same("tied_lm")

    def test_odd_pads(self) -> None:
        self.same("odd_pad")


class Runs(unittest.TestCase):
    """Model files as ONNX: ONNX Runtime and the library give the same results."""

    def test_modules_of_several_kinds(self) -> None:
        for name in ("volume", "grouped"):
            with self.subTest(name):
                torch.manual_seed(0)
                make, inputs, loss = zoo_users.models()[name]
                e = front.export(make(), inputs(5), loss)
                self.assertLess(same_onnx.difference(e.model.text(), e.weights), 1e-4)

    def test_a_model_that_returns_its_loss_alone_is_refused(self) -> None:
        torch.manual_seed(0)
        make, inputs, loss = zoo_users.models()["tied_autoencoder"]
        e = front.export(make(), inputs(5), loss)
        with self.assertRaises(Refused):
            same_onnx.difference(e.model.text(), e.weights)


def net() -> nn.Module:
    torch.manual_seed(2)
    m = nn.Sequential(nn.Conv2d(3, 6, 3, stride=2, padding=1, bias=False), nn.BatchNorm2d(6), nn.ReLU(), nn.MaxPool2d(2),
                      nn.Conv2d(6, 8, 3, groups=2), nn.Hardswish(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(8, 5))
    return m


@unittest.skipUnless(hasattr(torch.onnx, "TrainingMode"), "this PyTorch has no TorchScript exporter")
class Read(unittest.TestCase):
    def exported(self, m: nn.Module, path: str, training: bool) -> None:
        mode = torch.onnx.TrainingMode.TRAINING if training else torch.onnx.TrainingMode.EVAL
        torch.onnx.export(m.train(training), (torch.randn(3, 3, 16, 16),), path, dynamo=False, opset_version=17,
                          training=mode, do_constant_folding=not training, input_names=["image"],
                          dynamic_axes={"image": {0: "batch"}})

    def test_a_training_export_is_the_same_model(self) -> None:
        m = net()
        with tempfile.TemporaryDirectory() as folder:
            self.exported(m, f"{folder}/m.onnx", True)
            e = read(f"{folder}/m.onnx")
        self.assertEqual(e.parameter_count(), sum(p.numel() for p in m.parameters()))
        r = check(m, e, (torch.randn(5, 3, 16, 16),))
        self.assertLess(max(r.loss, r.gradient, r.eval), 1e-4, r)

    def test_weight_norm_keeps_its_parameters(self) -> None:
        torch.manual_seed(0)
        m = nn.Sequential(nn.utils.parametrizations.weight_norm(nn.Conv2d(3, 4, 3)), nn.ReLU(), nn.Flatten(), nn.Linear(784, 5))
        with tempfile.TemporaryDirectory() as folder:
            self.exported(m, f"{folder}/m.onnx", True)
            e = read(f"{folder}/m.onnx")
        self.assertEqual(e.parameter_count(), sum(p.numel() for p in m.parameters()))
        self.assertLess(check(m, e, (torch.randn(5, 3, 16, 16),)).gradient, 1e-4)

    def test_states_to_begin_with_and_arithmetic_with_shapes(self) -> None:
        class Two(nn.Module):
            def __init__(self, kind) -> None:
                super().__init__()
                self.first, self.second, self.fc = kind(4, 5, batch_first=True), kind(4, 5, batch_first=True), nn.Linear(5, 3)

            def forward(self, x):
                _, state = self.first(x)
                return self.fc(self.second(x, state)[0].mean(1))

        encoder = nn.Sequential(nn.TransformerEncoderLayer(4, 2, 8, batch_first=True, norm_first=True), nn.Flatten(), nn.Linear(24, 3),
                                nn.Unflatten(1, (3, 1)), nn.Flatten())
        for make in (lambda: Two(nn.LSTM), lambda: Two(nn.GRU), lambda: encoder):
            torch.manual_seed(0)
            m, x = make().eval(), torch.randn(4, 6, 4)
            with tempfile.TemporaryDirectory() as folder:
                torch.onnx.export(m, (x,), f"{folder}/m.onnx", dynamo=False, opset_version=17, input_names=["x"],
                                  dynamic_axes={"x": {0: "batch"}}, do_constant_folding=False)
                e = read(f"{folder}/m.onnx", nameless=True)
                write(file.parse(e.model.text()), e.weights, f"{folder}/w.onnx")
                session = onnxruntime.InferenceSession(f"{folder}/w.onnx", providers=["CPUExecutionProvider"])
            got = session.run(None, {session.get_inputs()[0].name: x.numpy()})[0]
            np.testing.assert_allclose(got, m(x).detach().numpy(), rtol=0, atol=1e-5)

    def test_a_folded_file_is_refused_by_the_names_and_read_on_request(self) -> None:
        m = net()
        with tempfile.TemporaryDirectory() as folder:
            self.exported(m, f"{folder}/m.onnx", False)
            with self.assertRaises(Refused) as caught:
                read(f"{folder}/m.onnx")
            self.assertIn("onnx::", str(caught.exception))
            e = read(f"{folder}/m.onnx", nameless=True)
        self.assertTrue(any("folded" in n for n in e.notes), e.notes)

    def test_our_own_file_comes_back(self) -> None:
        m = net()
        e = front.export(m, (torch.randn(3, 3, 16, 16),))
        with tempfile.TemporaryDirectory() as folder:
            write(file.parse(e.model.text()), e.weights, f"{folder}/m.onnx")
            again = read(f"{folder}/m.onnx")
        self.assertEqual(set(again.weights), set(e.weights))
        self.assertLess(check(m, again, (torch.randn(5, 3, 16, 16),)).eval, 1e-4)


class Hostile(unittest.TestCase):
    def test_what_is_no_file_is_refused(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "m.onnx"
            for data in (b"", b"\x00", b"\x3a\xff\xff\xff\xff\x0f", b"\x08" + b"\xff" * 20, bytes(range(256))):
                path.write_bytes(data)
                with self.assertRaises(Refused):
                    read(path)

    def test_a_damaged_file_is_read_or_refused(self) -> None:
        e = front.export(net(), (torch.randn(3, 3, 16, 16),))
        chance = random.Random(0)
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "m.onnx"
            write(file.parse(e.model.text()), e.weights, path)
            whole, refused = path.read_bytes(), 0
            for _ in range(200):
                path.write_bytes(damaged(whole, chance))
                try:
                    read(path)
                except Refused:
                    refused += 1
        self.assertGreater(refused, 50)


def damaged(data: bytes, chance: random.Random) -> bytes:
    """Some bits turned, bytes replaced, left out or repeated."""
    out = bytearray(data)
    for _ in range(chance.choice((1, 1, 2, 8))):
        at, how = chance.randrange(len(out)), chance.randrange(4)
        if how == 0:
            out[at] ^= 1 << chance.randrange(8)
        elif how == 1:
            out[at] = chance.choice((0, 1, 127, 128, 255))
        elif how == 2:
            del out[at:at + chance.randrange(1, 9)]
        else:
            out[at:at] = out[max(0, at - 9):at]
    return bytes(out)


if __name__ == "__main__":
    unittest.main()

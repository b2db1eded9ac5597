"""`headroom quantize` as ONNX: the form that runtimes compute in integers, and ONNX Runtime's answers where it is installed."""
import csv
import json
import os
import subprocess
import tempfile
import unittest
from pathlib import Path

import numpy as np

import headroom as hr
from headroom import file, safetensors
from headroom.onnx import proto, write

PROGRAM = os.environ["HEADROOM_PROGRAM"]
MODEL = "lenet:classes=4"


def run(*words: str) -> str:
    done = subprocess.run([PROGRAM, *words], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


class Exported(unittest.TestCase):
    folder: tempfile.TemporaryDirectory

    @classmethod
    def setUpClass(cls) -> None:
        cls.folder = tempfile.TemporaryDirectory()
        at = Path(cls.folder.name)
        cls.file, cls.onnx, cls.images = at / "int8.safetensors", at / "int8.onnx", at / "x.npy"
        run("train", MODEL, "--data", "synthetic:count=64", "--batch", "8", "--steps", "16", "--no-measure", "--out", str(at / "run"))
        run("quantize", str(at / "run"), "--data", "synthetic:count=64", "-o", str(cls.file))
        hr.Model(MODEL).write(at / "m.hr")
        cls.weights, metadata = safetensors.read(cls.file)
        cls.about = json.loads(metadata["headroom"])
        write(file.read(at / "m.hr"), cls.weights, cls.onnx)
        np.save(cls.images, np.random.default_rng(1).integers(0, 256, (64, 28, 28, 1), dtype=np.uint8))

    @classmethod
    def tearDownClass(cls) -> None:
        cls.folder.cleanup()

    def test_every_layer_reads_bytes_and_has_an_axis(self) -> None:
        graph = proto.parse("Model", self.onnx.read_bytes())["graph"]
        made = {out: n for n in graph["node"] for out in n["output"]}
        layers = [n for n in graph["node"] if n["op_type"] in ("Conv", "Gemm")]
        self.assertEqual(len(layers), 5)
        for n in layers:
            for i, name in enumerate(n["input"]):
                source = made[name]
                self.assertEqual(source["op_type"], "DequantizeLinear", n["name"])
                self.assertEqual("axis" in [a["name"] for a in source.get("attribute", [])], i > 0)
        self.assertEqual(self.weights["conv1.weight"].dtype, np.int8)

    def test_onnx_runtime_gives_the_same_classes(self) -> None:
        try:
            import onnxruntime
        except ImportError:
            self.skipTest("no onnxruntime")
        mean, std = (np.array(self.about["normalise"][k], "float32") for k in ("mean", "std"))
        x = ((np.load(self.images).astype("float32") / 255 - mean) / std).transpose(0, 3, 1, 2)
        session = onnxruntime.InferenceSession(str(self.onnx), providers=["CPUExecutionProvider"])
        theirs = session.run(None, {session.get_inputs()[0].name: x})[0].argmax(1)
        rows = csv.DictReader(run("predict", str(self.file), f"npy:{self.images}").splitlines())
        ours = np.array([int(r["class"]) for r in rows])
        self.assertGreaterEqual(float(np.mean(ours == theirs)), 0.95)


if __name__ == "__main__":
    unittest.main()

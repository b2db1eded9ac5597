"""Keras models: taken, refused and brought back; also from .keras files."""
from __future__ import annotations

import os
import tempfile
import unittest

os.environ.setdefault("KERAS_BACKEND", "torch")
try:
    import keras
    import numpy as np
except ImportError as missing:
    raise unittest.SkipTest(str(missing))

import zoo_keras
import headroom.keras as front
from headroom.graph import Refused
from headroom.keras.check import feeds_of


class Taken(unittest.TestCase):
    def same(self, name: str) -> None:
        keras.utils.set_random_seed(0)
        make, loss, scale = zoo_keras.models()[name]
        model = zoo_keras.drawn(make())
        e = front.export(model, loss)
        self.assertEqual(e.parameter_count(), sum(int(np.prod(v.shape)) for v in model.trainable_variables))
        feeds = {k: v * scale if v.dtype == "float32" else v for k, v in feeds_of(e, 8).items()}
        r = front.check(model, e, 8, 3, feeds)
        self.assertTrue(r.good(), r)

    def test_sequential_with_same_padding_and_a_softmax(self) -> None:
        self.same("seq_cnn")

    def test_subclassed_layers_are_opened(self) -> None:
        self.same("subclassed")

    def test_masked_lstm_both_ways_and_gru(self) -> None:
        self.same("lstm_gru")

    def test_causal_attention(self) -> None:
        self.same("attention")

    def test_two_inputs_two_outputs_shared_layer(self) -> None:
        self.same("multi_output")

    def test_mixed_precision_is_said(self) -> None:
        self.same("mixed_fp16")
        notes = front.export(zoo_keras.mixed_fp16()).notes
        self.assertTrue(any("--precision f16" in n for n in notes), notes)


class Files(unittest.TestCase):
    def test_a_keras_file_and_weights_back(self) -> None:
        keras.utils.set_random_seed(0)
        model = zoo_keras.seq_cnn()
        with tempfile.TemporaryDirectory() as folder:
            model.save(f"{folder}/m.keras")
            again = keras.saving.load_model(f"{folder}/m.keras", compile=False)
            e = front.export(again)
            self.assertTrue(front.check(again, e).good())
            e.weights = {n: a + 0.5 for n, a in e.weights.items()}
            weights = e.save(f"{folder}/m.hr")
            self.assertEqual(front.load(model, weights), [])
            model.save(f"{folder}/n.keras")
        for a, b in zip(model.weights, [v for v in again.weights]):
            if "float" in str(a.dtype):
                self.assertTrue(np.allclose(a.numpy(), b.numpy() + 0.5), a.path)

    def test_an_unknown_layer_is_refused_by_its_name(self) -> None:
        i = keras.Input((4, 4, 4, 2))
        m = keras.Model(i, keras.layers.Flatten()(keras.layers.Conv3D(2, 2, name="deep")(i)))
        with self.assertRaises(Refused) as caught:
            front.export(m)
        self.assertIn("deep", str(caught.exception))


if __name__ == "__main__":
    unittest.main()

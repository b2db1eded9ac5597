"""Keras models: taken, refused and brought back; also from .keras files."""
from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

os.environ.setdefault("KERAS_BACKEND", "torch")
try:
    import keras
    import numpy as np
except ImportError as missing:
    raise unittest.SkipTest(str(missing)) from None

import headroom.keras as front
import trip
import zoo_keras
import zoo_keras_more
from headroom import __main__ as command
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


class Prepared(unittest.TestCase):
    """Layers that prepare data inside the model, and inputs that are true or false."""

    def same(self, inputs, output) -> None:
        keras.utils.set_random_seed(0)
        model = keras.Model(inputs, output)
        r = front.check(model, front.export(model, batch=4), 4, 2)
        self.assertTrue(r.good(), r)

    def test_images_are_resized_cropped_and_turned(self) -> None:
        x = keras.Input((9, 8, 3))
        y = keras.layers.CenterCrop(7, 6)(keras.layers.Resizing(12, 11)(x))
        for mode in ("horizontal", "vertical", "horizontal_and_vertical"):
            self.same(x, keras.layers.Dense(3)(keras.layers.Flatten()(keras.layers.RandomFlip(mode)(y))))

    def test_each_image_is_turned_by_a_draw_of_its_own(self) -> None:
        x = keras.Input((1, 2, 1))
        model = keras.Model(x, keras.layers.Reshape((2,))(keras.layers.RandomFlip("horizontal")(x)))
        e = front.export(model, loss="mean_squared_error", batch=4)
        self.assertIn(" = noise(", e.model.text())
        self.assertIn("where(", e.model.text())

    def test_numbers_fall_into_bins(self) -> None:
        x = keras.Input((3,))
        y = keras.layers.Discretization([-0.5, 0.0, 0.7])(x)
        self.same(x, keras.layers.Dense(3)(keras.layers.Flatten()(keras.layers.Embedding(4, 5)(y))))

    def test_a_mask_is_an_input(self) -> None:
        x, mask = keras.Input((5, 6)), keras.Input((5, 5), dtype="bool", name="mask")
        y = keras.layers.MultiHeadAttention(2, 3)(x, x, attention_mask=mask)
        self.same([x, mask], keras.layers.Dense(3)(keras.layers.Flatten()(y)))

    def test_padding_is_hidden_from_attention(self) -> None:
        """By the mask that an embedding makes, which Keras hands on beside the arguments."""
        L, x = keras.layers, keras.Input((6,), dtype="int32")
        y = L.Embedding(5, 8, mask_zero=True)(x)
        _, shares = L.MultiHeadAttention(2, 4)(y * 2, y * 2, return_attention_scores=True)  # operators hand no mask on
        z, _ = L.MultiHeadAttention(2, 4)(y, y, return_attention_scores=True)
        y = L.LayerNormalization()(L.Add()([y, z]))
        y = L.GlobalAveragePooling1D()(L.MultiHeadAttention(2, 4)(y, y))
        self.same(x, L.Dense(3)(L.Concatenate()([y, L.Flatten()(shares)])))

    def test_patches_orders_and_pools_to_a_size(self) -> None:
        L, x = keras.layers, keras.Input((8, 8, 2))
        y = keras.ops.image.extract_patches(L.Conv2D(4, 3, padding="same")(x), 4)
        y = L.AlphaDropout(0.2)(L.RMSNormalization(axis=(-2, -1))(L.Reshape((4, 64))(y)))
        y = keras.ops.sort(y, axis=1) + keras.ops.moments(y, axes=[1], keepdims=True)[1]
        y = keras.ops.logaddexp(y, keras.ops.std(y, axis=1, keepdims=True)) + keras.ops.norm(y, axis=-1, keepdims=True)
        if hasattr(L, "AdaptiveMaxPooling1D"):
            y = L.AdaptiveMaxPooling1D(3)(y)
        self.same(x, L.Dense(3)(L.Flatten()(y)))

    def test_lora_is_opened(self) -> None:
        x, dense = keras.Input((6,)), keras.layers.Dense(5)
        y = keras.layers.Dense(3)(dense(x))
        dense.enable_lora(2)
        self.same(x, y)

    def test_augmentation_is_refused_with_the_way_out_and_branches_with_their_line(self) -> None:
        x = keras.Input((8, 8, 3))
        model = keras.Model(x, keras.layers.Dense(3)(keras.layers.Flatten()(keras.layers.RandomRotation(0.1)(x))))
        with self.assertRaisesRegex(Refused, "random_rotation.*--augment"):
            front.export(model)

        class Branch(keras.Model):
            def call(self, x):
                return x * 2 if keras.ops.mean(x) > 0 else x

        branch = Branch()
        branch.build((None, 8))
        with self.assertRaisesRegex(Refused, r"test_keras\.py:\d+: `return x \* 2 if"):
            front.export(branch)


class Files(unittest.TestCase):
    def test_a_class_that_keras_does_not_know_is_named_and_imported(self) -> None:
        source = ("import keras\n@keras.saving.register_keras_serializable('mine')\nclass Twice(keras.layers.Layer):\n"
                  "    def call(self, x):\n        return 2 * x\n")
        with tempfile.TemporaryDirectory() as folder:
            Path(folder, "twice_of_mine.py").write_text(source)
            run = [sys.executable, "-W", "ignore", "-c"]
            how = {"cwd": folder, "capture_output": True, "text": True}
            subprocess.run([*run, "import keras, twice_of_mine as t; x = keras.Input((3,)); "
                            "keras.Model(x, keras.layers.Dense(2)(t.Twice()(x))).save('m.keras')"], check=True, **how)
            export = [sys.executable, "-W", "ignore", "-m", "headroom", "export", "m.keras", "-o", "my.hr"]
            refused = subprocess.run(export, **how)
            self.assertEqual(refused.returncode, 2, refused)
            self.assertRegex(refused.stderr, "m.keras needs the class 'Twice'.*--import MODULE")
            taken = subprocess.run([*export, "--import", "twice_of_mine"], **how)
            self.assertEqual(taken.returncode, 0, taken)

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


class More(unittest.TestCase):
    """What no list names: loss, every gradient and evaluation of one step."""

    def same(self, name: str) -> None:
        keras.utils.set_random_seed(0)
        make, loss = zoo_keras_more.made()[name]
        model = make()
        e = front.export(model, loss)
        self.assertEqual(e.parameter_count(), sum(int(np.prod(v.shape)) for v in model.trainable_variables))
        r = front.check(model, e, 4)
        self.assertTrue(r.good(), r)

    def test_every_layer_of_the_list_of_builders(self) -> None:
        for name in zoo_keras_more.made():
            with self.subTest(name):
                self.same(name)

    def test_an_open_length_is_given(self) -> None:
        i = keras.Input((None, 6))
        model = keras.Model(i, keras.layers.Dense(3)(keras.layers.GRU(4)(i)))
        with self.assertRaises(Refused):
            front.export(model)
        e = front.export(model, shapes=[(5, 6)])
        self.assertTrue(front.check(model, e, 4).good())


class Refusals(unittest.TestCase):
    def refused(self, layer: keras.Layer, shape: tuple) -> str:
        i = keras.Input(shape)
        model = keras.Model(i, keras.layers.Flatten()(layer(i)))
        with self.assertRaises(Refused) as caught:
            front.export(model)
        self.assertIn(layer.name, str(caught.exception))
        return str(caught.exception)

    def test_what_cannot_be_taken_is_refused_by_the_name_of_its_layer(self) -> None:
        L = keras.layers
        self.refused(L.SpectralNormalization(L.Dense(3), name="bound"), (8,))
        self.refused(L.RandomZoom(0.1, name="mirror"), (8, 8, 3))
        self.refused(L.TimeDistributed(L.BatchNormalization(), name="apart"), (4, 3))
        self.refused(L.LSTM(3, stateful=False, name="deep", activation=lambda x: x), (4, 3))

    def test_a_layer_that_changes_its_variables_is_refused_and_left_as_it_was(self) -> None:
        class Count(keras.Layer):
            def build(self, shape: tuple) -> None:
                self.seen = self.add_weight(shape=(), initializer="zeros", trainable=False, name="seen")

            def call(self, x):
                self.seen.assign(self.seen + 1.0)
                return x * 2

        layer = Count(name="meter")
        self.assertIn("seen", self.refused(layer, (4,)))
        self.assertEqual(float(layer.seen.numpy()), 0.0)


@unittest.skipUnless(trip.PROGRAM, "needs HEADROOM_PROGRAM")
class Back(unittest.TestCase):
    def test_trained_weights_evaluate_alike_in_keras_and_are_saved(self) -> None:
        """model.keras -> my.hr -> train -> the same model, all by commands."""
        keras.utils.set_random_seed(0)
        model = zoo_keras.mixed_fp16()
        r = np.random.RandomState(0)
        x, y = r.rand(48, 32, 32, 3).astype("float32") * 255, r.randint(0, 4, 48).astype("int32")
        with tempfile.TemporaryDirectory() as folder:
            trip.data(folder, image=x, label=y)
            model.save(f"{folder}/m.keras")
            self.assertEqual(command.main(["export", f"{folder}/m.keras", "-o", f"{folder}/my.hr", "--no-check"]), 0)
            trip.train(folder)
            self.assertEqual(command.main(["load", f"{folder}/m.keras", f"{folder}/run", "-o", f"{folder}/n.keras"]), 0)
            trained = keras.saving.load_model(f"{folder}/n.keras", compile=False)
            loss = trip.evaluate(folder)
        for v in trained._flatten_layers():
            v.dtype_policy = "float32"
        p = keras.ops.convert_to_numpy(trained(x, training=False)).astype("float64")
        self.assertLess(abs(loss + np.log(p[np.arange(48), y]).mean()), 1e-4)
        moved = [np.abs(a.numpy() - b.numpy()).max() for a, b in zip(model.variables, trained.variables)
                 if "float" in str(a.dtype)]
        self.assertGreater(min(moved), 0)


class Tanh(keras.layers.Layer):
    """A recurrent cell of the user's."""

    def __init__(self, units: int) -> None:
        super().__init__()
        self.units = self.state_size = units

    def build(self, shape) -> None:
        self.kernel = self.add_weight(shape=(shape[-1], self.units), name="kernel")
        self.loop = self.add_weight(shape=(self.units, self.units), name="loop")

    def call(self, x, states):
        h = keras.ops.tanh(keras.ops.matmul(x, self.kernel) + keras.ops.matmul(states[0], self.loop))
        return h, [h]


class Strange(unittest.TestCase):
    def same(self, *layers, shape: tuple) -> None:
        keras.utils.set_random_seed(0)
        model = keras.Sequential([keras.Input(shape), *layers])
        e = front.export(model, "squares")
        r = front.check(model, e, 4, 3, feeds_of(e, 4))
        self.assertTrue(r.good(), r)

    def test_cells_are_unrolled(self) -> None:
        L = keras.layers
        self.same(L.RNN(Tanh(5), return_sequences=True, go_backwards=True), L.RNN([L.LSTMCell(4), L.GRUCell(3)]), shape=(4, 3))
        self.same(L.ConvLSTM2D(3, 3, padding="same", return_sequences=True), L.ConvLSTM2D(2, 3), shape=(3, 5, 5, 2))

    def test_transposed_convolutions_of_volumes(self) -> None:
        L = keras.layers
        self.same(L.Conv3DTranspose(3, 3, 2, padding="same", activation="tanh"), L.Conv3DTranspose(2, 2, 3), shape=(3, 3, 2, 2))

    def test_norms_and_sparse_activations(self) -> None:
        L = keras.layers
        self.same(L.Dense(6), *[L.Activation(a) for a in ("squareplus", "sparse_plus")],
                  L.Lambda(lambda x: keras.ops.norm(x, axis=-1, keepdims=True) + keras.ops.norm(x, ord=1, axis=-1, keepdims=True)), shape=(5,))


if __name__ == "__main__":
    unittest.main()

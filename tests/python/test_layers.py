"""Keras models through fit."""
import tempfile
import unittest

import documented
import numpy as np

import headroom as hr
from headroom import foreign

try:
    import keras
except ImportError as e:
    raise unittest.SkipTest("there is no keras here") from e


class Keras(unittest.TestCase):
    def test_documented(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            done = documented.run("keras", folder)
        self.assertEqual(done.returncode, 0, done.stderr[-2000:])

    def test_optimizers_are_read(self) -> None:
        found = foreign.optimizer_options(keras.optimizers.SGD(0.2, momentum=0.5))
        self.assertEqual((found["optimizer"], found["momentum"]), ("sgd", 0.5))
        self.assertAlmostEqual(found["rate"], 0.2, places=6)
        with self.assertRaises(hr.Refused):
            foreign.optimizer_options(keras.optimizers.Ftrl())

    def test_losses_are_read(self) -> None:
        self.assertEqual(foreign.loss_name("sparse_categorical_crossentropy"), "cross_entropy")
        self.assertEqual(foreign.loss_name("mse"), "mean_squared_error")
        with self.assertRaises(hr.Refused):
            foreign.loss_name("huber")

    def train(self, loss, end, y) -> tuple:
        """Losses of three steps of ours and of Keras's, and the model."""
        keras.utils.set_random_seed(0)
        x = np.random.default_rng(1).normal(size=(16, 6)).astype("float32")
        model = keras.Sequential([keras.Input((6,)), keras.layers.Dense(8, activation="tanh"),
                                  keras.layers.Dense(end[0], activation=end[1])])
        model.compile(optimizer=keras.optimizers.SGD(0.02), loss=loss)
        kept = model.get_weights()
        theirs = model.fit(x, y, batch_size=16, epochs=3, shuffle=False, verbose=0).history["loss"]
        want = model.get_weights()
        model.set_weights(kept)
        h = hr.fit(model, hr.data(x, y, shuffle=False), batch=16, epochs=3, budget="8GiB", verbose=False)
        np.testing.assert_allclose(h.history["loss"], theirs, rtol=1e-4)
        for a, b in zip(model.get_weights(), want):
            np.testing.assert_allclose(a, b, rtol=1e-3, atol=1e-5)
        np.testing.assert_allclose(hr.evaluate(model, (x, y)).loss, model.evaluate(x, y, verbose=0), rtol=1e-4)
        return model, x

    def test_a_sigmoid_belongs_to_binary_cross_entropy(self) -> None:
        y = np.random.default_rng(2).integers(0, 2, 16)
        for loss in ("binary_crossentropy", keras.losses.BinaryCrossentropy()):
            for labels in (y, y[:, None].astype("float32")):
                model, x = self.train(loss, (1, "sigmoid"), labels)
        np.testing.assert_allclose(1 / (1 + np.exp(-hr.predict(model, x))), model.predict(x, verbose=0), atol=1e-4)
        self.train(keras.losses.BinaryCrossentropy(from_logits=True), (1, None), y[:, None].astype("float32"))
        with self.assertRaisesRegex(hr.Refused, "no sigmoid at the end"):
            self.train("binary_crossentropy", (1, "softplus"), y)

    def test_losses_of_keras_are_traced(self) -> None:
        def own(label, output):
            return keras.ops.mean(keras.ops.square(label - output) * 2.0, axis=-1)

        rng = np.random.default_rng(3)
        y, hot = rng.normal(size=(16, 1)).astype("float32"), np.eye(3, dtype="float32")[rng.integers(0, 3, 16)]
        for loss in ("mae", keras.losses.Huber(0.5), own, keras.losses.MeanSquaredError(reduction="sum")):
            self.train(loss, (1, None), y / 8)
        self.train(keras.losses.BinaryCrossentropy(label_smoothing=0.2), (3, "sigmoid"), hot)
        self.train("categorical_crossentropy", (3, "softmax"), hot)
        model, x = self.train(keras.losses.CategoricalCrossentropy(from_logits=True, label_smoothing=0.1), (3, None), hot)
        np.testing.assert_allclose(hr.predict(model, x), model.predict(x, verbose=0), atol=1e-4)

    def test_a_model_that_was_never_called(self) -> None:
        x, y = np.zeros((8, 5), "float32"), np.arange(8) % 2
        model = keras.Sequential([keras.layers.Dense(4), keras.layers.Dense(2)])
        model.compile(optimizer="sgd", loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True))
        self.assertEqual(len(hr.fit(model, (x, y), batch=8, epochs=1, budget="8GiB", verbose=False).losses), 1)

    def test_one_hot_rows_are_no_class_numbers(self) -> None:
        model = keras.Sequential([keras.Input((5,)), keras.layers.Dense(3)])
        x, y = np.zeros((32, 5), "float32"), np.eye(3, dtype="float32")[np.arange(32) % 3]
        with self.assertRaisesRegex(hr.UsageError, "argmax"):
            hr.fit(model, (x, y), batch=8, epochs=1, budget="8GiB", verbose=False, loss="sparse_categorical_crossentropy")

    def test_callbacks_that_work_on_keras_s_own_training(self) -> None:
        for callback, instead in ((keras.callbacks.EarlyStopping(), "patience"), (keras.callbacks.ReduceLROnPlateau(), "plateau"),
                                  (keras.callbacks.ModelCheckpoint("a.keras"), "folder=")):
            with self.assertRaisesRegex(hr.UsageError, instead):
                hr.fit("lenet", "synthetic", batch=8, steps=1, budget="8GiB", verbose=False, callbacks=[callback])

    def test_callbacks_of_keras(self) -> None:
        class Kept(keras.callbacks.Callback):
            def __init__(self) -> None:
                super().__init__()
                self.losses: list = []

            def on_epoch_end(self, epoch: int, logs=None) -> None:
                self.losses.append(logs["loss"])

        kept = Kept()
        model = keras.Sequential([keras.Input((5,)), keras.layers.Dense(3)])
        x, y = np.random.default_rng(0).normal(size=(32, 5)).astype("float32"), np.arange(32) % 3
        hr.fit(model, (x, y), batch=8, epochs=2, budget="8GiB", callbacks=[kept], verbose=False)
        self.assertEqual(len(kept.losses), 2)


if __name__ == "__main__":
    unittest.main()

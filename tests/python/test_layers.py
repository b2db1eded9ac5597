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

    def test_one_hot_rows_are_no_class_numbers(self) -> None:
        model = keras.Sequential([keras.Input((5,)), keras.layers.Dense(3)])
        x, y = np.zeros((32, 5), "float32"), np.eye(3, dtype="float32")[np.arange(32) % 3]
        with self.assertRaisesRegex(hr.UsageError, "argmax"):
            hr.fit(model, (x, y), batch=8, epochs=1, budget="8GiB", verbose=False, loss="sparse_categorical_crossentropy")

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

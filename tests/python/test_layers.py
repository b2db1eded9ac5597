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

    def test_optimizers_with_schedules_and_limits(self) -> None:
        rates = keras.optimizers.schedules
        for optimizer in (keras.optimizers.SGD(rates.CosineDecay(0.0, 8, warmup_target=0.1, warmup_steps=2)),
                          keras.optimizers.SGD(rates.ExponentialDecay(0.1, 1, 0.5)), keras.optimizers.SGD(0.1, clipvalue=0.01),
                          keras.optimizers.RMSprop(0.01), keras.optimizers.RMSprop(0.01, momentum=0.5, epsilon=1e-3)):
            model = self.many(["a"])
            model.compile(optimizer, loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True))
            self.same(model, self.x, self.y, (self.x, self.y))
        with self.assertRaisesRegex(hr.Refused, "momentum and a schedule"):
            foreign.optimizer_options(keras.optimizers.SGD(rates.ExponentialDecay(0.1, 1, 0.5), momentum=0.9))
        with self.assertRaisesRegex(hr.Refused, "clipnorm"):
            foreign.optimizer_options(keras.optimizers.SGD(0.1, clipnorm=1.0))

    x = np.random.default_rng(3).normal(size=(16, 5)).astype("float32")
    y = np.random.default_rng(4).integers(0, 3, 16)
    real = np.random.default_rng(5).normal(size=(16, 1)).astype("float32")
    weight = np.random.default_rng(6).random(16).astype("float32")

    def many(self, outputs, regularizer=None, **more) -> keras.Model:
        keras.utils.set_random_seed(0)
        i = keras.Input((5,), name="i")
        h = keras.layers.Dense(6, activation="tanh", kernel_regularizer=regularizer, **more)(i)
        heads = {n: keras.layers.Dense(3 if n == "a" else 1, name=n)(h) for n in ("a", "b")}
        return keras.Model(i, [heads[n] for n in outputs] if isinstance(outputs, list) else heads)

    def same(self, model, x, y, data, theirs=None, **ours) -> hr.History:
        """Three steps of Keras's and of ours."""
        kept = model.get_weights()
        want = model.fit(x, y, batch_size=16, epochs=3, shuffle=False, verbose=0, **(theirs or {})).history
        weights = model.get_weights()
        model.set_weights(kept)
        h = hr.fit(model, data, **{"batch": 16, "epochs": 3, "budget": "8GiB", "verbose": False, **ours})
        for key in ("loss", "val_loss", "val_accuracy"):
            if key in want:
                np.testing.assert_allclose(h.history[key], want[key], rtol=1e-5, err_msg=key)
        for a, b in zip(model.get_weights(), weights):
            np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-6)
        return h

    def test_several_outputs(self) -> None:
        scores = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
        model = self.many(["a", "b"])
        model.compile(keras.optimizers.SGD(0.1), loss=[scores, "mse"], loss_weights=[1.0, 0.5])
        self.same(model, self.x, [self.y, self.real], (self.x, [self.y, self.real]))
        found = model.evaluate(self.x, [self.y, self.real], verbose=0)
        self.assertAlmostEqual(hr.evaluate(model, (self.x, [self.y, self.real])).loss, found[0], places=5)
        np.testing.assert_allclose(hr.predict(model, self.x), model.predict(self.x, verbose=0)[0], atol=1e-5)
        model = self.many({})
        model.compile(keras.optimizers.SGD(0.1), loss={"b": "mse", "a": scores}, loss_weights={"b": 0.25, "a": 1.0})
        named = {"b": self.real, "a": self.y}
        self.same(model, self.x, named, (self.x, named), micro_batches=4)
        self.same(model, self.x, named, (self.x, named), process="own", budget="300MiB")
        with self.assertRaisesRegex(hr.Error, "no output 'c'"):
            hr.fit(model, (self.x, {"c": self.y}), batch=16, epochs=1, budget="8GiB", verbose=False)

    def test_weights_of_samples_and_classes(self) -> None:
        model = self.many(["a"])
        model.compile(keras.optimizers.SGD(0.1), loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True))
        for parts in (1, 4):
            self.same(model, self.x, self.y, (self.x, self.y, self.weight), micro_batches=parts,
                      theirs={"sample_weight": self.weight, "validation_data": (self.x, self.y)}, val_data=(self.x, self.y))
            self.same(model, self.x, self.y, (self.x, self.y), {"class_weight": {0: 2.0, 1: 0.5}}, class_weight={0: 2.0, 1: 0.5},
                      micro_batches=parts)

    def test_regularizers_are_part_of_the_loss(self) -> None:
        for regularizer in ("l2", keras.regularizers.L1L2(0.01, 0.02)):
            model = self.many(["a"], regularizer, bias_regularizer="l1")
            model.compile(keras.optimizers.SGD(0.1), loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True))
            self.same(model, self.x, self.y, (self.x, self.y), micro_batches=2)
            self.assertAlmostEqual(hr.evaluate(model, (self.x, self.y)).loss, model.evaluate(self.x, self.y, verbose=0), places=5)
        with self.assertRaisesRegex(hr.Refused, "Orthogonal"):
            hr.fit(self.many(["a"], keras.regularizers.OrthogonalRegularizer()), (self.x, self.y), batch=16, epochs=1, budget="8GiB",
                   verbose=False)

    def test_regularizers_of_what_layers_make_are_part_of_the_loss(self) -> None:
        model = self.many(["a"], activity_regularizer=keras.regularizers.L1L2(0.01, 0.02))
        model.compile(keras.optimizers.SGD(0.1), loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True))
        self.same(model, self.x, self.y, (self.x, self.y))
        self.assertAlmostEqual(hr.evaluate(model, (self.x, self.y)).loss, model.evaluate(self.x, self.y, verbose=0), places=5)

    def test_data_as_keras_has_it(self) -> None:
        class Four(keras.utils.PyDataset):
            def __len__(self) -> int:
                return 4

            def __getitem__(inner, i: int) -> tuple:  # noqa: N805
                return self.x[4 * i:4 * i + 4], self.y[4 * i:4 * i + 4]

        model = self.many(["a"])
        model.compile(keras.optimizers.SGD(0.1), loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True), metrics=["accuracy"])
        self.same(model, self.x, self.y, hr.data(self.x, self.y, shuffle=False), {"validation_split": 0.25}, val_split=0.25, batch=12)
        kept = model.get_weights()
        want = model.fit(Four(), epochs=2, shuffle=False, verbose=0).history["loss"]
        model.set_weights(kept)
        h = hr.fit(model, Four(), batch=4, epochs=2, budget="8GiB", verbose=False)
        np.testing.assert_allclose(h.history["loss"], want, rtol=1e-5)

    def test_accuracy_of_rows_and_halves(self) -> None:
        for units, end, loss, y in ((3, "softmax", "categorical_crossentropy", np.eye(3, dtype="float32")[self.y]),
                                    (1, "sigmoid", "binary_crossentropy", (self.y > 0).astype("float32")[:, None])):
            model = keras.Sequential([keras.Input((5,)), keras.layers.Dense(units, activation=end)])
            model.compile("adam", loss, metrics=["accuracy"])
            self.assertAlmostEqual(hr.evaluate(model, (self.x, y)).accuracy, model.evaluate(self.x, y, verbose=0)[1], places=5)

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

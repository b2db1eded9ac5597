"""Keras models as examples and projects write them: operations between layers, losses that layers add, loops, shapes with the batch."""
from __future__ import annotations

import functools
import os
import tempfile
import unittest
from pathlib import Path
from typing import Any, Callable

os.environ.setdefault("KERAS_BACKEND", "torch")
try:
    import keras
    import numpy as np
except ImportError as missing:
    raise unittest.SkipTest(str(missing)) from None
from keras import layers as L
from keras import ops

import headroom.keras as front
from headroom import __main__ as command
from headroom.keras.check import feeds_of


class Calls(L.Layer):
    """A layer of the user's whose call() is given."""

    def __init__(self, f: Callable) -> None:
        super().__init__()
        self.f = f

    def call(self, x: Any) -> Any:
        return self.f(self, x)


class Taken(unittest.TestCase):
    def same(self, model: keras.Model, loss: str = "squares", scale: float = 1.0) -> Any:
        e = front.export(model, loss, batch=4)
        feeds = {k: v * np.float32(scale) if v.dtype == "float32" else v for k, v in feeds_of(e, 4).items()}
        r = front.check(model, e, 4, 2, feeds)
        self.assertTrue(r.good(), r)
        return e

    def of(self, f: Callable, shape: tuple = (6, 4)) -> Any:
        keras.utils.set_random_seed(0)
        x = keras.Input(shape)
        return self.same(keras.Model(x, Calls(f)(L.Dense(shape[-1])(x))))

    def test_operations_of_every_kind(self) -> None:
        o, numbers = ops, np.array([0, 1, 0, 2, 2, 1])
        for f in (lambda s, x: o.mod(x, 0.7) + o.floor_divide(o.stop_gradient(x), 0.3) * x,
                  lambda s, x: o.arctan2(x, o.flip(x, 1)) + o.hypot(x, x + 1),
                  lambda s, x: o.trunc(x) * x + o.exp2(x) + o.erfc(x) + o.arcsin(o.tanh(x)) + o.sinc(x) + o.deg2rad(x),
                  lambda s, x: o.prod(x, axis=1) + o.amax(x, axis=1) - o.amin(x, axis=1) + o.median(x, axis=1) + o.ptp(x, axis=1),
                  lambda s, x: o.cumprod(x, axis=1)[:, :5] + o.diff(x, axis=1),
                  lambda s, x: o.diagonal(x, axis1=1, axis2=2),
                  lambda s, x: o.select([x > 1, x > 0], [x, x * 2], 0.0) + o.nan_to_num(x) * o.isfinite(x),
                  lambda s, x: o.rot90(x, axes=(1, 2)),
                  lambda s, x: o.tensordot(x, np.ones((4, 3), "float32"), axes=1),
                  lambda s, x: o.slice_update(x, (0, 1, 1), x[:, 2:4, 1:3]),
                  lambda s, x: o.transpose(o.segment_sum(o.transpose(x, (1, 0, 2)), numbers, num_segments=3), (1, 0, 2)),
                  lambda s, x: o.cast(o.cast(x * 3, "int32"), "float32") * x + o.cast(o.cast(x, "bool"), "float32")):
            self.of(f)

    def test_waves(self) -> None:
        self.of(lambda s, x: ops.concatenate([*ops.rfft(x[:, :, 0], 8), *ops.fft((x[:, :, 1], x[:, :, 2]))], -1), (8, 4))
        self.of(lambda s, x: ops.fft2((x, ops.zeros_like(x)))[0], (8, 4))
        self.of(lambda s, x: ops.concatenate(ops.stft(x[:, :, 0], 8, 4, 8), -1), (24, 2))

    def test_images(self) -> None:
        for f in (lambda s, x: ops.image.extract_patches(x, (3, 3), strides=(1, 1), padding="same"),
                  lambda s, x: ops.image.rgb_to_grayscale(x),
                  lambda s, x: ops.image.crop_images(ops.image.pad_images(x, 1, 2, 3, 1), 1, 1, 2, 1),
                  lambda s, x: ops.image.resize(x, (5, 9), interpolation="bicubic")):
            self.of(f, (6, 8, 3))
        if hasattr(ops.nn, "depth_to_space"):
            self.of(lambda s, x: ops.nn.space_to_depth(ops.nn.depth_to_space(x, 2), 4), (4, 4, 8))
        x = keras.Input((5, 6, 3))
        for padding, asked in (("same", 0), ("same", 1), ("valid", 1)):
            self.same(keras.Model(x, L.Conv2DTranspose(2, 3, 2, padding=padding, output_padding=asked)(x)))

    def test_loops_and_conditions_that_are_known(self) -> None:
        def steps(s: Any, x: Any) -> Any:
            h, ys = ops.scan(lambda h, t: (ops.tanh(h + t), h * t), x[:, 0], ops.transpose(x, (1, 0, 2)))
            return ops.transpose(ys, (1, 0, 2)) + h[:, None]

        self.of(steps)
        self.of(lambda s, x: ops.fori_loop(0, 3, lambda i, h: ops.tanh(h + x), x))
        self.of(lambda s, x: ops.cond(True, lambda: x * 2.0, lambda: x))

    def test_the_batch_in_a_shape(self) -> None:
        def causal(s: Any, x: Any) -> Any:
            n = ops.shape(x)
            mask = ops.reshape(ops.cast(ops.arange(n[1])[:, None] >= ops.arange(n[1]), "bool"), (1, n[1], n[1]))
            times = ops.concatenate([ops.expand_dims(n[0], -1), ops.convert_to_tensor([1, 1])], 0)
            return ops.where(ops.tile(mask, times), ops.matmul(x, ops.transpose(x, (0, 2, 1))), 0.0)

        self.of(causal)
        whole = np.ones((1, 6, 4), "float32")
        self.of(lambda s, x: ops.ones([ops.shape(x)[0], 1, 1]) * x + ops.broadcast_to(whole, (ops.shape(x)[0], 6, 4)))
        self.of(lambda s, x: ops.concatenate([x, ops.zeros((ops.shape(x)[0], 1, 4))], axis=1))

    def test_losses_that_layers_add(self) -> None:
        def added(s: Any, x: Any) -> Any:
            s.add_loss(0.1 * ops.sum(ops.square(x)) / ops.cast(ops.shape(x)[0], "float32"))
            return x

        self.of(added)
        x = keras.Input((6,))
        y = L.Dense(5, activation="relu", activity_regularizer=keras.regularizers.L1L2(0.1, 0.2))(x)
        self.same(keras.Model(x, L.Dense(3)(y)), "cross_entropy")

    def test_layers_that_end_with_a_function_of_the_users(self) -> None:
        def gelu(x: Any) -> Any:  # as one of Keras's is called
            return 0.5 * x * (1 + ops.tanh(x))

        keras.utils.set_random_seed(0)
        quick = functools.partial(keras.activations.gelu, approximate=True)
        self.same(keras.Sequential([keras.Input((9, 9, 3)), L.Conv2D(6, 3, activation=lambda x: ops.square(ops.relu(x))),
                                    L.DepthwiseConv2D(3, activation=quick), L.Activation(gelu), L.Activation(ops.gelu), L.Reshape((25, 6)),
                                    L.TimeDistributed(L.Dense(4, activation=gelu)), L.EinsumDense("abc,cd->abd", (25, 5), activation=ops.sin),
                                    L.Flatten(), L.Dense(4, activation=gelu, activity_regularizer="l2")]))

    def test_a_variable_that_is_made_a_tensor(self) -> None:
        class Places(L.Layer):
            def build(self, shape: tuple) -> None:
                self.table = self.add_weight(shape=(8, 4), name="table")

            def call(self, x: Any) -> Any:
                table = ops.convert_to_tensor(self.table)
                found = x + ops.broadcast_to(ops.slice(table, (1, 0), (6, 4)), ops.shape(x)) - table[:6] * self.table[2:, 1:2]
                return ops.where(self.table[:6] > 0.1, found, abs(-self.table)[1:7, :] + (self.table % 0.7)[2:, :] + self.table[:6] ** 2)

        x = keras.Input((6, 4))
        self.same(keras.Model(x, Places()(x)))

    def test_queries_that_are_padding(self) -> None:
        """All keys have the same share there, and the gradient of the scores is not lost."""
        keras.utils.set_random_seed(0)
        x, y = keras.Input((6,), dtype="int32"), keras.Input((7, 8))
        e = L.Embedding(3, 8, mask_zero=True)(x)
        self.same(keras.Model([x, y], L.Add()([L.MultiHeadAttention(2, 4)(e, e), L.GroupQueryAttention(4, 4, 2)(e, y)])))

    def test_probabilities_that_are_0_in_single_precision(self) -> None:
        x = keras.Input((6,))
        model = keras.Model(x, L.Dense(3, activation="softmax", kernel_initializer=keras.initializers.RandomNormal(stddev=200.0))(x))
        r = front.check(model, front.export(model, batch=4), 4)
        self.assertLess(r.eval, 1e-4, r)

    def test_a_class_that_is_not_registered_computes_in_double_precision(self) -> None:
        class Twice(L.Layer):
            def call(self, x: Any) -> Any:
                return 2 * x

        x = keras.Input((3,))
        model = keras.Model(x, Twice()(L.Dense(2)(x)))
        self.assertEqual(str(front.check.__globals__["double_of"](model).layers[1].variables[0].dtype), "float64")
        model = keras.Model(x, Calls(lambda s, y: y)(x))
        self.assertIsNone(front.check.__globals__["double_of"](model))


class Files(unittest.TestCase):
    def test_the_older_format(self) -> None:
        model = keras.Sequential([keras.Input((5,)), L.Dense(3, activation="softmax")])
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "m.h5"
            model.save(path)
            self.assertEqual(command.main(["export", str(path), "-o", f"{folder}/m.hr"]), 0)
            path.write_bytes(path.read_bytes()[:200])
            self.assertEqual(command.main(["export", str(path), "-o", f"{folder}/m.hr"]), 2)


if __name__ == "__main__":
    unittest.main()

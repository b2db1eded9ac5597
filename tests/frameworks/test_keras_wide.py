"""Keras models as examples and projects write them: operations between layers, losses that layers add, loops, shapes with the batch."""
from __future__ import annotations

import functools
import os
import tempfile
import unittest
from pathlib import Path
from typing import Any, Callable, Optional

os.environ.setdefault("KERAS_BACKEND", "torch")
try:
    import keras
    import numpy as np
except ImportError as missing:
    raise unittest.SkipTest(str(missing)) from None
from keras import layers as L
from keras import ops

import headroom
import headroom.keras as front
from headroom import __main__ as command
from headroom.keras.check import feeds_of
from headroom.keras.trace import sizes_of


class Calls(L.Layer):
    """A layer of the user's whose call() is given."""

    def __init__(self, f: Callable) -> None:
        super().__init__()
        self.f = f

    def call(self, x: Any) -> Any:
        return self.f(self, x)


class Taken(unittest.TestCase):
    def same(self, model: keras.Model, loss: str = "squares", scale: float = 1.0, feeds: Optional[dict] = None,
             within: float = 1e-4) -> Any:
        e, given = front.export(model, loss, batch=4), feeds or {}
        feeds = {k: v * np.float32(scale) if v.dtype == "float32" else v for k, v in feeds_of(e, 4).items()} | given
        r = front.check(model, e, 4, 2, feeds)
        self.assertTrue(r.good(within), r)
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

    def test_rows_that_are_counted_by_the_batch(self) -> None:
        """Heads and windows as more samples, -1 beside the batch, and the batch as a number."""
        def windows(s: Any, x: Any) -> Any:
            n, t, c = ops.shape(x)
            y = ops.reshape(ops.transpose(ops.reshape(x, (n, t // 3, 3, c)), (0, 2, 1, 3)), (-1, 2, c))
            rows = ops.shape(ops.tanh(y))[0]
            self.assertEqual(str(ops.shape(ops.concatenate([y, y, y]))[0] // rows), "3")
            y = y * ops.ones((rows, 1, 1)) + ops.reshape(ops.zeros((rows // 3, 3, 1, 1)), (rows, 1, 1))
            return ops.reshape(y, (rows // 3, -1)) / rows + ops.shape(y)[1] * ops.cast(rows // 3, "float32")

        def heads(s: Any, x: Any) -> Any:
            n = ops.shape(x)[0]
            y = ops.reshape(ops.transpose(ops.reshape(x, (n, -1, 2, 2)), (2, 0, 1, 3)), (2 * n, -1, 2))
            y = ops.softmax(ops.matmul(y, ops.transpose(y, (0, 2, 1))), -1)
            return ops.reshape(ops.unstack(ops.reshape(y, (2, n, 6, 6)))[1], (n, -1)) + ops.ndim(x) + ops.size(x) / n

        def repeated(s: Any, x: Any) -> Any:
            y = ops.repeat(x, 3, axis=0)
            return ops.reshape(y, (ops.shape(y)[0] // 3, 3, 24))[:, 0]

        def picked(s: Any, x: Any) -> Any:
            at = ops.argmax(ops.cast(x[:, :, 0] * 9, "int32"), axis=1)
            return ops.take_along_axis(x, at[:, None, None], axis=1) + ops.softmax(x, -1)[[slice(None), slice(2, 3), slice(1, 2)]]

        for f in (windows, heads, repeated, picked):
            self.of(f)
        ready, x = False, keras.Input((6, 4))
        model = keras.Model(x, Calls(lambda s, x: ops.reshape(x, (ops.shape(x)[0], 5, 4)) if ready else x)(x))
        ready = True
        with self.assertRaisesRegex(headroom.Refused, r"test_keras_wide.py:\d+: .*ops.reshape of \[N,6,4\] to \[N,5,4\]"):
            front.export(model, "squares", batch=4)

    def test_a_variable_that_is_an_argument_of_a_layer(self) -> None:
        class Added(L.Layer):
            def call(self, x: Any, more: Any = None) -> Any:
                return x + more

        class Gives(L.Layer):
            def build(self, shape: tuple) -> None:
                self.w, self.added = self.add_weight(shape=(4,), name="w"), Added()

            def call(self, x: Any) -> Any:
                return self.added(x, more=self.w)

        x = keras.Input((6, 4))
        self.assertEqual(len(self.same(keras.Model(x, Gives()(x))).weights), 1)

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

    def test_masks_of_any_numbers_that_may_hide_all_keys(self) -> None:
        """A mask is true where it is not 0 (Softmax: above a half).  Where all keys are hidden, layers that make the scores have 0 there,
        and the others the mean of all values, of those behind a causal mask, too."""
        keras.utils.set_random_seed(0)
        x, keys = keras.Input((6, 8)), keras.Input((6,), dtype="int32")
        pairs = Calls(lambda s, m: ops.expand_dims(m, 1))(keys)
        numbers = np.random.RandomState(0).randint(0, 100, (4, 6)).astype("int32")
        numbers[0], numbers[1], numbers[2, :4] = 0, (0, 0, 1, 3, 0, 50), 0
        for rate, causal, scores in ((0.1, False, False), (0.1, True, False), (0.0, False, False), (0.0, True, False), (0.0, True, True)):
            y = L.MultiHeadAttention(2, 4, dropout=rate)(x, x, attention_mask=pairs, use_causal_mask=causal, return_attention_scores=scores)
            within = 1e-4 if rate or causal else 1e-3  # our kernel's gradient is known to 2e-4 where numbers alone hide all keys
            self.same(keras.Model([x, keys], y), feeds={keys.name: numbers}, within=within)
        for axis in (-1, (2,), (1, 2)):
            model = keras.Model([x, keys], L.Softmax(axis)(L.Dense(8)(x), mask=ops.expand_dims(keys, 2)))
            self.same(model, feeds={keys.name: numbers})

    def test_attention_over_a_length_that_the_input_fixes(self) -> None:
        """Rotary positions, as the language models of KerasHub have them: EinsumDense says None for the length."""
        class Rotary(L.Layer):
            def __init__(self) -> None:
                super().__init__()
                self.q, self.k = (L.EinsumDense("btd,dhk->bthk", (None, 2, 4), bias_axes="hk") for _ in range(2))

            def call(self, x: Any) -> Any:
                q, k = self.q(x), self.k(x)
                turn = ops.einsum("t,k->tk", ops.arange(ops.shape(q)[1], dtype="float32"), 1 / 10 ** ops.arange(0, 1, 0.5))
                sin, cos = (ops.concatenate([f(turn)] * 2, -1)[None, :, None] for f in (ops.sin, ops.cos))
                q, k = (v * cos + ops.reshape(ops.stack((-v[..., 2:], v[..., :2]), -2), ops.shape(v)) * sin for v in (q, k))
                return ops.einsum("bthk,bshk->bhts", q, k)

        x = keras.Input((None, 8))
        model = keras.Model(x, Rotary()(x))
        r = front.check(model, front.export(model, "squares", batch=4, shapes=[(6, 8)]), 4)
        self.assertTrue(r.good(), r)
        for equation, shape, given, found in (("...bc,cd->...bd", (None, 7, 4, 3), (None, 7, None, 5), (None, 7, 4, 5)),
                                              ("abc,cd->abd", (None, 4, 3), (None, None, 5), (None, 4, 5)),
                                              ("ab...c,cd->ab...d", (2, 7, 4, 3), (None, None, 4, 5), (2, 7, 4, 5))):
            self.assertEqual(sizes_of(lambda *_, given=given: given)(L.EinsumDense(equation, (None, 5)), shape), found)

    def test_a_length_that_is_not_known_is_refused_with_the_line(self) -> None:
        ready, x = False, keras.Input((4,))  # Keras itself traces it once, when the model is made
        model = keras.Model(x, Calls(lambda s, x: x + ops.cast(ops.arange(ops.shape(x)[0]), "float32")[:, None] if ready else x)(x))
        ready = True
        with self.assertRaisesRegex(headroom.Refused, r"test_keras_wide.py:\d+: `.*arange.*size of the batch"):
            front.export(model, "squares", batch=4)

    def test_writes_into_a_tensor_are_refused_with_what_to_write(self) -> None:
        def writes(s: Any, x: Any) -> Any:
            x[:, 0] = x[:, 1]
            return x

        with self.assertRaisesRegex(headroom.Refused, r"test_keras_wide.py:\d+: `x\[:, 0\] = x\[:, 1\]`.*ops.slice_update"):
            front.export(keras.Sequential([Calls(writes)]), "squares", batch=4, shapes=[(6, 4)])

    def test_whole_numbers_among_the_outputs_are_squared_too(self) -> None:
        x = keras.Input((6,))
        self.same(keras.Model(x, [L.Dense(3)(x), Calls(lambda s, y: ops.cast(y > 0, "int32"))(x)]))

    def test_powers_with_a_number_in_front(self) -> None:
        places = np.array([[1.0], [2.0], [0.5], [3.0]], "float32")
        for f in (lambda s, x: 2 ** x + 1.5 ** -x, lambda s, x: ops.power(np.array([1, 2, 3, 0.1], "float32"), x),
                  lambda s, x: ops.power(x, np.full(4, 2.0, "float32")) + 3 % (x * x + 1) + 3 // (x * x + 1) - 7 / (x * x + 1),
                  lambda s, x: ops.power(x, np.float32(2)) + ops.power(places, 2.0)[:1]):
            self.of(f)
        with self.assertRaisesRegex(headroom.Refused, r"ops.exp\(exponent \* ops.log\(base\)\)"):
            self.of(lambda s, x: x ** x)

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

        @keras.saving.register_keras_serializable("headroom_tests")
        class Whole(keras.Model):  # as the backbones of KerasHub: a graph, whose configuration is the arguments of its class
            def __init__(self, width: int, **rest: Any) -> None:
                x = keras.Input((3,))
                super().__init__(inputs=x, outputs=L.Dense(width)(x), **rest)
                self.width = width

            def get_config(self) -> dict:
                return {"width": self.width, "name": self.name}

        self.assertEqual(str(front.check.__globals__["double_of"](Whole(2)).layers[1].kernel.dtype), "float64")
        self.assertEqual(keras.config.floatx(), "float32")
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

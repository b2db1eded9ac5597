"""Keras models that no list names, with layers and calls that people use: made() gives name -> (builder, loss)."""
from __future__ import annotations

import keras
import numpy as np
from keras import layers as L
from keras import ops


def two_towers() -> keras.Model:
    """Two inputs, two outputs, a shared embedding with a mask, pooling over what is not masked."""
    a, b = keras.Input((9,), dtype="int32", name="left"), keras.Input((9,), dtype="int32", name="right")
    table = L.Embedding(100, 8, mask_zero=True)
    pool = L.GlobalAveragePooling1D()
    u, v = pool(table(a)), pool(table(b))
    near = L.Dot(axes=1, normalize=True)([u, v])
    far = L.Concatenate()([u, v, ops.abs(u - v)])
    return keras.Model([a, b], [L.Dense(3)(far), near])


class Gate(L.Layer):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.inner = keras.Sequential([L.Dense(width, activation="silu"), L.Dense(width, activation="sigmoid")])
        self.scale = self.add_weight(shape=(width,), initializer="ones", name="scale")

    def call(self, x, training=None):
        y = self.inner(ops.mean(x, axis=(1, 2)), training=training)
        return x * ops.reshape(y, (-1, 1, 1, x.shape[-1])) * self.scale


class Nested(keras.Model):
    """Layers in layers, variables of their own, a list and a dict of layers."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = [L.Conv2D(8, 3, strides=2, padding="same", use_bias=False), L.BatchNormalization(), L.Activation("mish")]
        self.gates = {"a": Gate(8), "b": Gate(8)}
        self.head = keras.Sequential([L.GlobalMaxPooling2D(), L.Dropout(0.3), L.Dense(4)])

    def call(self, x, training=False):
        for f in self.stem:
            x = f(x, training=training) if isinstance(f, L.BatchNormalization) else f(x)
        for g in self.gates.values():
            x = x + g(x, training=training)
        return self.head(x, training=training)


def nested() -> keras.Model:
    m = Nested()
    m(np.zeros((2, 15, 15, 3), "float32"))
    return m


def signal() -> keras.Model:
    """One dimension: causal and dilated convolutions, group norm, pools, padding and cropping."""
    i = keras.Input((40, 3))
    x = L.Conv1D(8, 3, padding="causal", dilation_rate=2, activation="relu")(i)
    x = L.GroupNormalization(4)(x)
    x = L.SeparableConv1D(12, 5, padding="same", strides=2, activation="gelu")(x)
    x = L.DepthwiseConv1D(3, depth_multiplier=2, padding="same")(x)
    x = L.MaxPooling1D(2)(L.ZeroPadding1D((1, 2))(x))
    x = L.AveragePooling1D(3, strides=2, padding="same")(L.Cropping1D((1, 0))(x))
    x = L.Conv1DTranspose(6, 4, strides=2, padding="same")(L.UpSampling1D(2)(x))
    x = L.SpatialDropout1D(0.2)(L.PReLU(shared_axes=[1])(x))
    return keras.Model(i, L.Dense(3)(L.GlobalMaxPooling1D()(x)))


def volume() -> keras.Model:
    """Three dimensions."""
    i = keras.Input((8, 10, 6, 2))
    x = L.Conv3D(4, 3, padding="same", activation="relu")(i)
    x = L.MaxPooling3D(2)(x)
    x = L.Conv3D(6, 2, strides=(1, 2, 1))(x)
    x = L.BatchNormalization()(x)
    x = L.AveragePooling3D((1, 2, 1))(L.ZeroPadding3D(1)(x))
    return keras.Model(i, L.Dense(3)(L.GlobalAveragePooling3D()(x)))


def pixels() -> keras.Model:
    """Two dimensions: everything around a convolution."""
    i = keras.Input((20, 18, 3))
    x = L.Cropping2D(((1, 2), (0, 1)))(L.Rescaling([1.0, 0.5, 0.25], [0.0, 0.1, 0.2])(i))
    x = L.Conv2D(8, (3, 2), dilation_rate=(1, 2), padding="same", groups=1)(x)
    x = L.LayerNormalization(axis=(1, 2, 3))(x)
    x = L.LeakyReLU(negative_slope=0.1)(L.Conv2D(8, 3, strides=2, padding="same", groups=4)(x))
    x = L.UpSampling2D((2, 3), interpolation="nearest")(x)
    x = L.AveragePooling2D(3, strides=2, padding="same")(x)
    x = L.DepthwiseConv2D(3, depth_multiplier=2, dilation_rate=2)(x)
    x = L.ReLU(max_value=4.0, negative_slope=0.05, threshold=0.1)(x)
    x = L.UnitNormalization()(L.SpatialDropout2D(0.2)(x))
    x = L.GroupNormalization(-1)(x)
    return keras.Model(i, L.Dense(5, activation="softmax")(L.Flatten()(x)))


def reader() -> keras.Model:
    """A transformer encoder with padding masks, and with cross attention to a memory."""
    i, m = keras.Input((10,), dtype="int32", name="tokens"), keras.Input((4, 16), name="memory")
    x = L.Embedding(100, 16, mask_zero=True)(i)
    places = L.Embedding(10, 16)(ops.arange(10))
    x = x + places
    y = L.MultiHeadAttention(2, 8, dropout=0.1)(x, x)
    x = L.LayerNormalization()(x + y)
    y = L.MultiHeadAttention(4, 4, value_dim=6)(x, m)
    x = L.LayerNormalization(axis=-1, center=False)(x + y)
    y = L.GroupQueryAttention(8, 4, 2)(x, x, use_causal_mask=True)
    x = L.RMSNormalization()(x + y)
    x = L.Dense(16, activation="gelu")(x)
    return keras.Model([i, m], L.Dense(3)(L.GlobalAveragePooling1D()(x)))


def recurrent() -> keras.Model:
    """A masked sequence through recurrent layers, with images at every step."""
    i, s = keras.Input((5, 8, 8, 1), name="film"), keras.Input((5, 4), name="sound")
    eye = keras.Sequential([keras.Input((8, 8, 1)), L.Conv2D(4, 3, activation="relu"), L.GlobalAveragePooling2D()])
    x = L.Concatenate()([L.TimeDistributed(eye)(i), L.Masking(0.0)(s)])
    x = L.Bidirectional(L.GRU(6, return_sequences=True, reset_after=False), merge_mode="mul")(x)
    x, h, c = L.LSTM(5, return_sequences=True, return_state=True, unit_forget_bias=False)(x)
    x = L.LSTM(5, recurrent_dropout=0.1)(x, initial_state=[h, c])
    return keras.Model([i, s], L.Dense(3)(L.RepeatVector(2)(x)))


def depth() -> keras.Model:
    """Stochastic depth by a noise shape, a frozen part, a batch norm that stays as it is, merging layers."""
    i = keras.Input((12, 12, 4))
    frozen = L.Conv2D(4, 3, padding="same", name="frozen")
    frozen.trainable = False
    still = L.BatchNormalization(name="still")
    still.trainable = False
    x = still(frozen(i))
    y = L.Dropout(0.4, noise_shape=(None, 1, 1, 1))(L.Conv2D(4, 3, padding="same")(x))
    x = L.Add()([x, y])
    x = L.Maximum()([x, L.Minimum()([y, L.Subtract()([x, y])])])
    x = L.Average()([x, L.Multiply()([x, y])])
    x = L.Permute((3, 1, 2))(x)
    return keras.Model(i, L.Dense(3)(L.Reshape((-1,))(x)))


def half() -> keras.Model:
    """Mixed precision of one part only, an activity that ends in float32."""
    policy = keras.DTypePolicy("mixed_bfloat16")
    i = keras.Input((16,))
    x = L.Dense(24, activation="selu", dtype=policy)(i)
    x = L.Dense(24, activation="softsign", dtype=policy)(x)
    x = ops.cast(x, "float32")
    x = ops.where(x > 0.1, x, ops.exp(x) - 1.0) + ops.sin(x) * ops.log1p(ops.square(x))
    return keras.Model(i, L.Dense(4)(x))


def algebra() -> keras.Model:
    """Operations of keras.ops between layers."""
    i = keras.Input((6, 8))
    x = L.EinsumDense("abc,cd->abd", output_shape=(6, 10), bias_axes="d", activation="tanh")(i)
    y = ops.einsum("bij,bkj->bik", x, x)
    y = ops.softmax(y / 3.0, axis=-1)
    x = ops.matmul(y, x)
    x = ops.concatenate([x, ops.flip(x, axis=1), ops.roll(x, 2, axis=1)], axis=-1)
    x = ops.stack([ops.max(x, axis=1), ops.min(x, axis=1), ops.var(x, axis=1), ops.std(x, axis=1), ops.sum(x, axis=1)], axis=1)
    a, b = ops.split(x, [12], axis=-1)
    x = ops.concatenate([ops.clip(a, -0.5, 0.5), ops.logsumexp(b, axis=-1, keepdims=True)], axis=-1)
    x = ops.pad(ops.transpose(x, (0, 2, 1)), [[0, 0], [1, 0], [0, 0]])
    x = ops.tile(x, [1, 2, 1]) + ops.cumsum(ops.repeat(x, 2, axis=1), axis=1)
    x = ops.take(x, np.array([0, 3, 5]), axis=1)
    return keras.Model(i, L.Dense(3)(L.Flatten()(ops.swapaxes(x, 1, 2))))


class Sampling(L.Layer):
    """As the example of Keras has it."""

    def __init__(self) -> None:
        super().__init__()
        self.seeds = keras.random.SeedGenerator(7)

    def call(self, inputs):
        mean, log_var = inputs
        shape = ops.shape(mean)
        return mean + ops.exp(0.5 * log_var) * keras.random.normal(shape=(shape[0], shape[1]), seed=self.seeds)


def sampler() -> keras.Model:
    """A variational autoencoder's two halves, with noise of layers and of its own."""
    i = keras.Input((12,))
    x = L.GaussianDropout(0.2)(L.GaussianNoise(0.1)(L.Dense(10, activation="swish")(i)))
    z = Sampling()([L.Dense(4, name="mean")(x), L.Dense(4, name="log_var")(x)])
    return keras.Model(i, L.Dense(12, activation="sigmoid")(L.Dense(10, activation="leaky_relu")(z)))


def segments() -> keras.Model:
    """A U-Net: transposed convolutions, skips, dropout, padding to sizes that do not divide."""
    i = keras.Input((18, 18, 2))

    def two(x, width: int):
        for _ in range(2):
            x = L.Activation("relu")(L.BatchNormalization()(L.Conv2D(width, 3, padding="same", kernel_initializer="he_normal")(x)))
        return x

    a = two(i, 4)
    b = two(L.MaxPooling2D(2)(a), 6)
    c = L.Dropout(0.2)(two(L.MaxPooling2D(2)(b), 8))
    y = L.ZeroPadding2D(((0, 1), (0, 1)))(L.Conv2DTranspose(6, 2, strides=2)(c))
    y = two(L.Concatenate()([y, b]), 6)
    y = two(L.Concatenate()([L.Conv2DTranspose(4, 3, strides=2, padding="same")(y), a]), 4)
    return keras.Model(i, L.Conv2D(3, 1, activation="softmax")(y))


class TokenAndPosition(L.Layer):
    def __init__(self, length: int, vocabulary: int, width: int) -> None:
        super().__init__()
        self.tokens, self.places, self.length = L.Embedding(vocabulary, width), L.Embedding(length, width), length

    def call(self, x):
        return self.tokens(x) + self.places(ops.arange(self.length))

    def compute_output_shape(self, input_shape):
        """Keras on NumPy would find it by looking up whatever numbers lie in memory.  What the layer holds is then built by the trace."""
        return (*input_shape, self.tokens.output_dim)


class EncoderBlock(L.Layer):
    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.attend = L.MultiHeadAttention(heads, width // heads)
        self.feed = keras.Sequential([L.Dense(2 * width, activation="relu"), L.Dense(width)])
        self.n1, self.n2 = L.LayerNormalization(epsilon=1e-6), L.LayerNormalization(epsilon=1e-6)
        self.d1, self.d2 = L.Dropout(0.1), L.Dropout(0.1)

    def call(self, x, training=None):
        x = self.n1(x + self.d1(self.attend(x, x), training=training))
        return self.n2(x + self.d2(self.feed(x), training=training))


def encoder() -> keras.Model:
    """The transformer of the examples: layers of one's own around attention, pooling, dense layers."""
    i = keras.Input((10,), dtype="int32")
    x = EncoderBlock(16, 2)(TokenAndPosition(10, 50, 16)(i))
    x = L.Dropout(0.1)(L.GlobalAveragePooling1D()(x))
    return keras.Model(i, L.Dense(2, activation="softmax")(L.Dropout(0.1)(L.Dense(8, activation="relu")(x))))


def wide_and_deep() -> keras.Model:
    """Columns of a table: numbers that were normalised, categories, a wide and a deep part, an output with its own activation."""
    numbers = keras.Input((6,), name="numbers")
    kind, town = keras.Input((1,), dtype="int32", name="kind"), keras.Input((1,), dtype="int32", name="town")
    scaled = L.Normalization(mean=[0.1, 0.2, 0.3, -0.1, -0.2, 0.0], variance=[1.0, 2.0, 0.5, 1.5, 1.0, 0.8])(numbers)
    deep = L.Concatenate()([scaled, L.Flatten()(L.Embedding(12, 4)(kind)), L.Flatten()(L.Embedding(30, 5)(town))])
    for width in (16, 8):
        deep = L.Dropout(0.2)(L.Dense(width, activation="selu", kernel_initializer="lecun_normal")(deep))
    wide = L.Dense(4, use_bias=False)(ops.one_hot(ops.squeeze(kind, -1), 12))
    return keras.Model([numbers, kind, town], L.Dense(1, activation="sigmoid")(L.Concatenate()([wide, deep])))


def sequences() -> keras.Model:
    """An encoder's state begins the decoder's; attention of both kinds between them; a dense layer at every step."""
    a, b = keras.Input((7,), dtype="int32", name="source"), keras.Input((5,), dtype="int32", name="target")
    x, state = L.GRU(8, return_sequences=True, return_state=True)(L.Embedding(20, 6)(a))
    y = L.GRU(8, return_sequences=True)(L.Embedding(20, 6)(b), initial_state=state)
    near = L.Attention(use_scale=True)([y, x])
    far = L.AdditiveAttention()([y, x])
    y = L.Concatenate()([y, near, far])
    return keras.Model([a, b], L.TimeDistributed(L.Dense(20, activation="softmax"))(L.TimeDistributed(L.Dense(10, activation="tanh"))(y)))


def xception() -> keras.Model:
    """Separable convolutions with residuals, squeeze and excite, a Lambda, one tower called on two inputs."""
    def entry():
        i = keras.Input((16, 16, 3))
        x = L.Conv2D(8, 3, strides=2, padding="same", activation="relu6")(L.Lambda(lambda t: t * 2.0 - 1.0)(i))
        for width in (8, 12):
            side = L.Conv2D(width, 1, strides=2, padding="same")(x)
            y = L.BatchNormalization()(L.SeparableConv2D(width, 3, padding="same")(L.Activation("relu")(x)))
            y = L.MaxPooling2D(3, strides=2, padding="same")(y)
            s = L.Dense(width // 4, activation="relu")(L.GlobalAveragePooling2D(keepdims=True)(y))
            s = L.Dense(width, activation="hard_sigmoid")(s)
            x = L.Add()([L.Multiply()([y, s]), side])
        return keras.Model(i, L.GlobalAveragePooling2D()(x))

    tower, a, b = entry(), keras.Input((16, 16, 3), name="left"), keras.Input((16, 16, 3), name="right")
    u, v = tower(a), tower(b)
    return keras.Model([a, b], L.Dense(2)(ops.abs(u - v)))


def models() -> dict:
    """As zoo_keras.models() has them."""
    return {name: (make, loss, 1) for name, (make, loss) in made().items()}


def drawn(model: keras.Model) -> keras.Model:
    import zoo_keras

    return zoo_keras.drawn(model)


def made() -> dict:
    ce = "cross_entropy"
    return {"two_towers": (two_towers, "squares"), "nested": (nested, ce), "signal": (signal, ce), "volume": (volume, ce),
            "pixels": (pixels, ce), "reader": (reader, ce), "recurrent": (recurrent, ce), "depth": (depth, ce),
            "half": (half, ce), "algebra": (algebra, ce), "sampler": (sampler, "squares"), "segments": (segments, ce),
            "encoder": (encoder, ce), "wide_and_deep": (wide_and_deep, "squares"), "sequences": (sequences, ce), "xception": (xception, ce)}

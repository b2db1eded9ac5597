"""Nine Keras models as people bring them: random weights, small sizes.  models(): name -> (builder, loss, scale of the input)."""
from __future__ import annotations

import keras
import numpy as np
from keras import layers as L
from keras import ops


def seq_cnn() -> keras.Model:
    return keras.Sequential([
        keras.Input((28, 28, 1)), L.Conv2D(8, 3, activation="relu"), L.BatchNormalization(), L.MaxPooling2D(),
        L.Conv2D(16, 3, strides=2, padding="same", kernel_regularizer=keras.regularizers.L2(1e-4)), L.ReLU(),
        L.Dropout(0.25), L.Flatten(), L.Dense(10, activation="softmax")])


def resnet50() -> keras.Model:
    return keras.applications.ResNet50(weights=None, input_shape=(64, 64, 3), classes=10)


def mobilenetv2() -> keras.Model:
    return keras.applications.MobileNetV2(weights=None, input_shape=(64, 64, 3), classes=10)


def efficientnetb0() -> keras.Model:
    return keras.applications.EfficientNetB0(weights=None, input_shape=(64, 64, 3), classes=10)


class Block(L.Layer):
    def __init__(self, width: int, **more: object) -> None:
        super().__init__(**more)
        self.a, self.b = L.Dense(width, activation="gelu"), L.Dense(width)
        self.n, self.drop = L.LayerNormalization(), L.Dropout(0.1)

    def call(self, x, training=None):
        return self.n(x + self.drop(self.b(self.a(x)), training=training))


class Subclassed(keras.Model):
    def __init__(self) -> None:
        super().__init__()
        self.inp, self.blocks = L.Dense(32), [Block(32) for _ in range(3)]
        self.bn, self.out = L.BatchNormalization(), L.Dense(5)

    def call(self, x, training=None):
        x = self.inp(x)
        for b in self.blocks:
            x = b(x, training=training)
        x = self.bn(x, training=training)
        return self.out(ops.tanh(x) * 0.5 + ops.mean(x, axis=-1, keepdims=True))


def subclassed() -> keras.Model:
    m = Subclassed()
    m(np.zeros((2, 20), "float32"))
    return m


def lstm_gru() -> keras.Model:
    i = keras.Input((16,), dtype="int32")
    x = L.Embedding(100, 24, mask_zero=True)(i)
    x = L.Bidirectional(L.LSTM(16, return_sequences=True, dropout=0.1))(x)
    return keras.Model(i, L.Dense(3, activation="softmax")(L.GRU(12)(x)))


def attention() -> keras.Model:
    i = keras.Input((16, 32))
    x = L.MultiHeadAttention(4, 8, dropout=0.1)(i, i, use_causal_mask=True)
    x = L.LayerNormalization()(x + i)
    y = L.Dropout(0.1)(L.Dense(32)(L.Dense(64, activation="gelu")(x)))
    x = L.LayerNormalization(epsilon=1e-6)(x + y)
    return keras.Model(i, L.Dense(4)(L.GlobalAveragePooling1D()(x)))


def multi_output() -> keras.Model:
    a, b = keras.Input((24, 24, 3), name="picture"), keras.Input((7,), name="meta")
    x = L.Activation("swish")(L.SeparableConv2D(8, 3, padding="same")(a))
    x = L.Conv2DTranspose(8, 3, strides=2, padding="same")(L.ZeroPadding2D(((0, 1), (0, 1)))(x))
    s = L.UpSampling2D(2, interpolation="bilinear")(x)
    h = L.Concatenate()([L.GlobalMaxPooling2D()(x), L.Dense(8, activation="elu")(b)])
    shared = L.Dense(8, name="shared")
    u = shared(h[:, :8]) + shared(h[:, 8:])
    return keras.Model([a, b], {"label": L.Dense(4, name="label")(u), "mask": L.Conv2D(1, 1, name="mask")(s)})


def mixed_fp16() -> keras.Model:
    old = keras.config.dtype_policy()
    keras.config.set_dtype_policy("mixed_float16")
    i = keras.Input((32, 32, 3))
    x = L.Conv2D(8, 3, padding="same", use_bias=False)(L.Rescaling(1 / 255.0)(i))
    x = L.ReLU(6.0)(L.BatchNormalization(momentum=0.9)(x))
    x = L.GlobalAveragePooling2D()(L.DepthwiseConv2D(3, strides=2, padding="same")(x))
    m = keras.Model(i, L.Dense(4, dtype="float32", activation="softmax")(x))
    keras.config.set_dtype_policy(old)
    return m


def models() -> dict:
    ce = "cross_entropy"
    return {"seq_cnn": (seq_cnn, ce, 1), "resnet50": (resnet50, ce, 1), "mobilenetv2": (mobilenetv2, ce, 1),
            "efficientnetb0": (efficientnetb0, ce, 255), "subclassed": (subclassed, ce, 1), "lstm_gru": (lstm_gru, ce, 1),
            "attention": (attention, ce, 1), "multi_output": (multi_output, "squares", 1),
            "mixed_fp16": (mixed_fp16, ce, 255)}


def drawn(model: keras.Model) -> keras.Model:
    """Batch norms away from scale 1, shift 0 and statistics 0 and 1, as in zoo_torch."""
    r = np.random.RandomState(0)
    for m in model._flatten_layers():
        if isinstance(m, L.BatchNormalization):
            for v, low, high in ((m.gamma, 0.5, 1.5), (m.beta, -0.5, 0.5), (m.moving_mean, -0.2, 0.2),
                                 (m.moving_variance, 0.5, 1.5)):
                v.assign(r.uniform(low, high, v.shape))
            if m.name.endswith("_3_bn"):  # the end of a bottleneck
                m.gamma.assign(m.gamma.value * 0.25)
    return model

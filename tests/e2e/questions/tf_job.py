"""tf_job.py JOB KEY=VALUE...: the jobs of tools/questions as TensorFlow's own guides write them, with their remedies: memory growth,
tf.data with prefetch, tf.function, MirroredStrategy.

Prints "losses ..." and "step SECONDS" at the end.  What it needs and how it ends is judged from outside.
"""
import os
import sys
import time

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import numpy as np
import tensorflow as tf
import keras
from keras import layers as L

AUTOTUNE = tf.data.AUTOTUNE
for gpu in tf.config.list_physical_devices("GPU"):
    tf.config.experimental.set_memory_growth(gpu, True)


def conv(x, n, k, stride=1, act=True):
    x = L.BatchNormalization()(L.Conv2D(n, k, stride, padding="same", use_bias=False)(x))
    return L.ReLU()(x) if act else x


def resnet18(size, classes):
    inputs = keras.Input((size, size, 3))
    x = L.MaxPooling2D(3, 2, padding="same")(conv(inputs, 64, 7, 2))
    for stage, n in enumerate((64, 128, 256, 512)):
        for j in range(2):
            stride = 2 if stage and j == 0 else 1
            y = conv(conv(x, n, 3, stride), n, 3, act=False)
            short = x if stride == 1 and x.shape[-1] == n else conv(x, n, 1, stride, act=False)
            x = L.ReLU()(L.Add()([y, short]))
    return keras.Model(inputs, L.Dense(classes)(L.GlobalAveragePooling2D()(x)))


def unet(size, width, depth=4, classes=2):
    inputs = keras.Input((size, size, 3))
    x, skips = conv(conv(inputs, width, 3), width, 3), []
    for i in range(1, depth + 1):
        skips.append(x)
        n = width << (i if i < depth else i - 1)
        x = conv(conv(L.MaxPooling2D(2)(x), n, 3), n, 3)
    for i in reversed(range(depth)):
        x = L.Concatenate()([skips[i], L.UpSampling2D(2, interpolation="bilinear")(x)])
        x = conv(conv(x, width << i, 3), width << max(i - 1, 0), 3)
    return keras.Model(inputs, L.Conv2D(classes, 1)(x))


def dataset(n, size, classes, batch, pixels=False):
    x = np.random.randint(0, 256, (n, size, size, 3), np.uint8)
    y = np.random.randint(0, classes, (n, size, size) if pixels else (n,)).astype(np.int32)
    return (tf.data.Dataset.from_tensor_slices((x, y)).shuffle(n)
            .map(lambda a, b: (tf.image.convert_image_dtype(a, tf.float32), b), num_parallel_calls=AUTOTUNE)
            .batch(batch, drop_remainder=True).prefetch(AUTOTUNE))


LOSS = keras.losses.SparseCategoricalCrossentropy(from_logits=True)


class Clock(keras.callbacks.Callback):
    losses, times = [], []

    def on_train_batch_begin(self, batch, logs=None):
        self.at = time.time()

    def on_train_batch_end(self, batch, logs=None):
        self.times.append(time.time() - self.at)
        self.losses.append(float(logs["loss"]))


def fit(model, data, **more):
    clock = Clock()
    model.compile(optimizer=keras.optimizers.SGD(0.01, momentum=0.9), loss=LOSS)
    done = model.fit(data, epochs=1, verbose=0, callbacks=[clock], **more)
    clock.losses += done.history.get("val_loss", [])
    return clock


def processes(o):
    return fit(resnet18(o["size"], o["classes"]), dataset(o["batch"] * o["steps"], o["size"], o["classes"], o["batch"]))


def third(o):
    model = keras.applications.ResNet50(weights=None, classes=o["classes"], input_shape=(o["size"], o["size"], 3), classifier_activation=None)
    return fit(model, dataset(o["batch"] * o["steps"], o["size"], o["classes"], o["batch"]))


def stepper(model):
    optimizer = keras.optimizers.SGD(0.01, momentum=0.9)

    @tf.function
    def step(x, y):
        with tf.GradientTape() as tape:
            loss = LOSS(y, model(x, training=True))
        optimizer.apply_gradients(zip(tape.gradient(loss, model.trainable_variables), model.trainable_variables))
        return loss
    return step


def two(o):
    first, second, clock = stepper(resnet18(o["size"], o["classes"])), stepper(unet(o["size2"], o["width"])), Clock()
    a = dataset(o["batch"] * o["steps"], o["size"], o["classes"], o["batch"])
    b = dataset(o["batch2"] * o["steps"], o["size2"], 2, o["batch2"], True)
    for one, other in zip(a, b):
        at = time.time()
        clock.losses += [float(first(*one)), float(second(*other))]
        clock.times.append(time.time() - at)
    return clock


def validation(o):
    """Images from JPEG bytes; validation in one large batch, cached and prefetched as the guide says."""
    n = o["val"]
    files = [tf.io.encode_jpeg(np.random.randint(0, 256, (o["from"], o["from"], 3), np.uint8)).numpy() for _ in range(8)]
    labels = np.random.randint(0, o["classes"], n).astype(np.int32)

    def prepare(data, label):
        image = tf.image.resize(tf.image.convert_image_dtype(tf.io.decode_jpeg(data, channels=3), tf.float32), (o["size"], o["size"]), antialias=True)
        return tf.image.random_flip_left_right(image), label
    val = (tf.data.Dataset.from_tensor_slices(([files[i % 8] for i in range(n)], labels)).map(prepare, num_parallel_calls=AUTOTUNE)
           .cache().batch(n).prefetch(AUTOTUNE))
    train = dataset(o["batch"] * o["steps"], o["size"], o["classes"], o["batch"])
    return fit(resnet18(o["size"], o["classes"]), train, validation_data=val)


def replicas(o):
    cpus = tf.config.list_physical_devices("CPU")
    if not tf.config.list_physical_devices("GPU"):
        tf.config.set_logical_device_configuration(cpus[0], [tf.config.LogicalDeviceConfiguration()] * o["replicas"])
    strategy = tf.distribute.MirroredStrategy(["CPU:%d" % i for i in range(o["replicas"])])
    with strategy.scope():
        model = resnet18(o["size"], o["classes"])
        return fit(model, dataset(o["batch"] * o["steps"], o["size"], o["classes"], o["batch"]))


if __name__ == "__main__":
    keras.utils.set_random_seed(0)
    options = {k: int(v) for k, v in (word.split("=") for word in sys.argv[2:])}
    done = {"processes": processes, "two": two, "third": third, "validation": validation, "replicas": replicas}[sys.argv[1]](options)
    print("losses", *["%.6f" % l for l in done.losses])
    print("step %.4f" % min(done.times), flush=True)

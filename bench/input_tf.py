#!/usr/bin/env python3
"""The tf.data side of bench/input: the same files, the same 224 x 224 out of the middle, batches of 64.

Written as TensorFlow's own guides advise: decode_and_crop_jpeg, so that only the crop is decoded, parallel map and
prefetch tuned by AUTOTUNE.  Prints images per second, measured after a warm-up.   input_tf.py FOLDER SECONDS
"""
import glob
import os
import sys
import time

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
import tensorflow as tf  # noqa: E402

SIZE, CENTRE, BATCH = 224, 0.875, 64


def load(path):
    data = tf.io.read_file(path)
    shape = tf.image.extract_jpeg_shape(data)
    height, width = shape[0], shape[1]
    side = tf.cast(tf.cast(tf.minimum(height, width), tf.float32) * CENTRE, tf.int32)
    window = tf.stack([(height - side) // 2, (width - side) // 2, side, side])
    image = tf.image.decode_and_crop_jpeg(data, window, channels=3)
    return tf.cast(tf.image.resize(image, [SIZE, SIZE]), tf.uint8)


def main():
    folder, seconds = sys.argv[1], float(sys.argv[2])
    files = sorted(glob.glob(os.path.join(folder, "*", "*.jpg")))
    data = tf.data.Dataset.from_tensor_slices(files).shuffle(len(files), seed=1).repeat()
    data = data.map(load, num_parallel_calls=tf.data.AUTOTUNE).batch(BATCH).prefetch(tf.data.AUTOTUNE)
    elements = iter(data)
    for _ in range(4):
        next(elements)
    count, began = 0, time.monotonic()
    while time.monotonic() - began < seconds:
        count += int(next(elements).shape[0])
    print(f"{count / (time.monotonic() - began):.2f}")


if __name__ == "__main__":
    main()

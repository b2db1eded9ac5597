"""Keras models on whatever backend there is, numpy too: traced in both modes, outputs in evaluation."""
from __future__ import annotations

import unittest

try:
    import keras
    import numpy as np
except ImportError as missing:
    raise unittest.SkipTest(str(missing)) from None

import headroom.keras as front
import zoo_keras
import zoo_keras_more
from headroom.keras.check import check_evaluation

LARGE = ("resnet50", "mobilenetv2", "efficientnetb0")


class Evaluated(unittest.TestCase):
    def same(self, make, loss: str) -> None:
        keras.utils.set_random_seed(0)
        model = make()
        e = front.export(model, loss)
        self.assertEqual(e.parameter_count(), sum(int(np.prod(v.shape)) for v in model.trainable_variables))
        self.assertLess(check_evaluation(model, e, 3).eval, 1e-4)

    def test_models_as_people_bring_them(self) -> None:
        small = {n: v[:2] for n, v in zoo_keras.models().items() if n not in LARGE}
        for name, (make, loss) in {**small, **zoo_keras_more.made()}.items():
            with self.subTest(name):
                self.same(make, loss)


if __name__ == "__main__":
    unittest.main()

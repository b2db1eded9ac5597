"""hr.fit compares one step with PyTorch or Keras before it trains, and leaves everything as it was."""
import copy
import os
import unittest
from unittest import mock

os.environ.setdefault("KERAS_BACKEND", "torch")

import numpy as np  # noqa: E402
import torch  # noqa: E402
import torch.nn as nn  # noqa: E402
import torch.nn.functional as F  # noqa: E402

import headroom as hr  # noqa: E402
from headroom import before  # noqa: E402
from headroom.torch.ops import OPS  # noqa: E402

BUDGET = "100MiB"  # of the child that trains


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.norm, self.drop, self.b = nn.Linear(8, 16), nn.BatchNorm1d(16), nn.Dropout(0.5), nn.Linear(16, 3)

    def forward(self, x):
        return self.b(self.drop(F.relu(self.norm(self.a(x)))))


class Points(nn.Module):
    """(N, C, T) and labels of (N, T)."""

    def __init__(self):
        super().__init__()
        self.c = nn.Conv1d(3, 4, 1)

    def forward(self, x):
        return self.c(x)


class Own(nn.Module):
    def __init__(self):
        super().__init__()
        self.a = nn.Linear(8, 3)

    def forward(self, x, y):
        return F.cross_entropy(self.a(x), y)


def drawn(seed=0):
    torch.manual_seed(seed)
    return torch.randn(32, 8), torch.randint(0, 3, (32,))


def watched():
    """Comparisons, with what they gave."""
    seen, real = [], before.judge

    def watch(r, *rest):
        seen.append(r)
        return real(r, *rest)

    return seen, mock.patch.object(before, "judge", watch)


def fit(module, data, **options):
    return hr.fit(module, data, steps=2, batch=8, budget=BUDGET, process="own", verbose=False, **options)


class Compared(unittest.TestCase):
    def same(self, module, data, counted, **options):
        seen, watching = watched()
        with watching:
            fit(module, data, **options)
        self.assertEqual(len(seen), 1)
        self.assertTrue(seen[0].good(), seen[0])
        self.assertEqual(seen[0].counted, counted)

    def test_a_module_is_compared_on_its_own_data(self):
        self.same(Net(), drawn(), 6, loss=nn.CrossEntropyLoss())

    def test_so_is_one_with_its_own_loss(self):
        self.same(Own(), drawn(), 2, loss="own")

    def test_labels_for_each_point(self):
        self.same(Points(), (torch.randn(16, 3, 5), torch.randint(0, 4, (16, 5))), 2, loss=nn.CrossEntropyLoss())

    def test_real_labels_and_a_loss_of_the_users(self):
        x, _ = drawn()
        self.same(nn.Linear(8, 2), (x, torch.randn(32, 2)), 2, loss=nn.MSELoss())
        self.same(nn.Linear(8, 2), (x, torch.randn(32, 2)), 2, loss=lambda out, y: (out - y).abs().mean())

    def test_after_autograd_was_used_here(self):
        """Autograd refuses to run in a child then."""
        x, y = drawn()
        one = Net()
        F.cross_entropy(one(x), y).backward()
        self.same(one, (x, y), 6)

    def test_nothing_of_the_users_is_disturbed(self):
        for used in (False, True):
            with self.subTest(used=used):
                if used:
                    torch.ones(1, requires_grad=True).sum().backward()
                self.undisturbed()

    def undisturbed(self):
        one = Net()
        other = copy.deepcopy(one)
        data = drawn()
        before_it = torch.get_rng_state()
        fit(one, data)
        self.assertTrue(torch.equal(before_it, torch.get_rng_state()))
        fit(other, data, check=False)
        for name, t in one.state_dict().items():
            self.assertTrue(torch.equal(t, other.state_dict()[name]), name)
        self.assertTrue(all(p.grad is None for p in one.parameters()))

    def test_a_difference_is_refused_with_the_parameter_and_the_line(self):
        was = OPS["linear"]
        with mock.patch.dict(OPS, {"linear": lambda b, c: b.affine(was(b, c), 1.01)}):
            with self.assertRaises(hr.Refused) as e:
                fit(Net(), drawn())
            self.assertIn("gradient of", str(e.exception))
            self.assertIn("test_fit.py", str(e.exception))
            self.assertIn("self.b(self.drop(", str(e.exception))
            fit(Net(), drawn(), check=False)

    def test_a_parameter_without_a_gradient_here_is_refused_by_name(self):
        was = OPS["linear"]

        def without(b, c):
            c["bias"] = None
            return was(b, c)

        with mock.patch.dict(OPS, {"linear": without}), self.assertRaisesRegex(hr.Refused, "test_fit.py.*bias has a gradient in PyTorch"):
            fit(Net(), drawn())

    def test_what_cannot_be_afforded_is_said(self):
        said = []
        with mock.patch.object(before.Asked, "limit", lambda self: 1 << 20):
            fit(Net(), drawn(), callbacks=[lambda event: said.append(event.text) if event.kind == "warning" else None])
        self.assertTrue(any(t.startswith("not compared with PyTorch before training: that would need") for t in said), said)

    def test_what_fails_there_is_said_and_trained(self):
        said = []
        with mock.patch("headroom.torch.check.check", side_effect=ValueError("no way")):
            fit(Net(), drawn(), callbacks=[lambda event: said.append(event.text) if event.kind == "warning" else None])
        self.assertIn("not compared with PyTorch before training: ValueError: no way", said)

    def test_a_second_fit_of_the_same_module_is_not_compared_again(self):
        seen, watching = watched()
        module, data = Net(), drawn()
        with watching:
            fit(module, data)
            fit(module, data)
        self.assertEqual(len(seen), 1)

    def test_a_child_that_hangs_is_ended(self):
        with mock.patch.object(before, "SECONDS", 0.2):
            found, why = before.in_child(lambda: __import__("time").sleep(60), gradients=False)
        self.assertIsNone(found)
        self.assertIn("longer than", why)


class ComparedKeras(unittest.TestCase):
    def setUp(self):
        try:
            import keras
        except ImportError:
            self.skipTest("keras is not installed")
        self.keras, self.L = keras, keras.layers

    same = Compared.same

    def model(self, last=None):
        i = self.keras.Input((8,))
        x = self.L.Dropout(0.3)(self.L.BatchNormalization()(self.L.Dense(6, activation="tanh")(i)))
        return self.keras.Model(i, self.L.Dense(3, activation=last)(x))

    def test_a_model_is_compared(self):
        x, y = drawn()
        m = self.model("softmax")
        m.compile("sgd", "sparse_categorical_crossentropy")
        self.same(m, (x.numpy(), y.numpy()), 6)

    def test_with_a_loss_that_is_traced(self):
        m = self.model()
        m.compile("sgd", "mean_absolute_error")
        self.same(m, (drawn()[0].numpy(), np.random.RandomState(0).randn(32, 3).astype("float32")), 6)

    def test_with_two_outputs_and_weights(self):
        i = self.keras.Input((8,))
        h = self.L.Dense(6, activation="tanh")(i)
        m = self.keras.Model(i, [self.L.Dense(3, activation="softmax")(h), self.L.Dense(1)(h)])
        m.compile("sgd", ["sparse_categorical_crossentropy", "mse"], loss_weights=[1.0, 0.5])
        x, y = drawn()
        r = np.random.RandomState(0)
        self.same(m, (x.numpy(), [y.numpy(), r.randn(32, 1).astype("float32")], r.rand(32).astype("float32")), 6)


if __name__ == "__main__":
    unittest.main()

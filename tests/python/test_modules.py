"""PyTorch modules through fit: weights back in the same object, losses and optimizers read."""
import copy
import os
import tempfile
import unittest
from typing import Any

import documented
import numpy as np
import torch

import headroom as hr
from headroom import foreign

BUDGET = "8GiB"  # PyTorch's own code is in the process


def net() -> torch.nn.Module:
    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.Conv2d(3, 8, 3, padding=1), torch.nn.BatchNorm2d(8), torch.nn.ReLU(),
                               torch.nn.AdaptiveAvgPool2d(1), torch.nn.Flatten(), torch.nn.Linear(8, 4))


def pictures() -> tuple:
    rng = np.random.default_rng(0)
    y = rng.integers(0, 4, 64)
    x = (0.3 * rng.normal(size=(64, 3, 8, 8))).astype("float32")
    x[np.arange(64), y % 3] += (y[:, None, None] + 1) * 0.4
    return x, y


class Modules(unittest.TestCase):
    def test_weights_and_statistics_come_back(self) -> None:
        x, y = pictures()
        module = net()
        mean = module[1].running_mean.clone()
        h = hr.fit(module, (x, y), batch=16, epochs=3, budget=BUDGET, verbose=False, loss=torch.nn.CrossEntropyLoss(),
                   optimizer=torch.optim.Adam(module.parameters(), lr=1e-2))
        self.assertLess(h.history["loss"][-1], h.history["loss"][0])
        self.assertEqual(int(module[1].num_batches_tracked), 12)
        self.assertFalse(torch.equal(mean, module[1].running_mean))
        module.eval()
        with torch.no_grad():
            out = module(torch.from_numpy(x))
        np.testing.assert_allclose(hr.predict(module, x), out.numpy(), atol=1e-4)
        np.testing.assert_allclose(hr.predict(h.model, x), out.numpy(), atol=1e-4)
        loss = float(torch.nn.functional.cross_entropy(out, torch.from_numpy(y)))
        self.assertAlmostEqual(hr.evaluate(module, (x, y)).loss, loss, places=4)

    def test_steps_are_pytorch_s(self) -> None:
        x, y = pictures()
        ours, theirs = net(), net()
        loader = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(torch.from_numpy(x), torch.from_numpy(y)), batch_size=16)
        h = hr.fit(ours, loader, batch=16, epochs=1, budget=BUDGET, verbose=False,
                   optimizer=torch.optim.SGD(ours.parameters(), lr=0.1, momentum=0.9, weight_decay=0.01))
        o = torch.optim.SGD(theirs.parameters(), lr=0.1, momentum=0.9, weight_decay=0.01)
        losses = []
        for a, b in loader:
            o.zero_grad()
            loss = torch.nn.functional.cross_entropy(theirs(a), b)
            loss.backward()
            o.step()
            losses.append(float(loss))
        np.testing.assert_allclose(h.losses, losses, rtol=1e-3)
        for name, v in theirs.state_dict().items():
            np.testing.assert_allclose(ours.state_dict()[name].numpy(), v.numpy(), atol=2e-4, err_msg=name)

    def test_a_process_of_its_own(self) -> None:
        x, y = pictures()
        module = net()
        h = hr.fit(module, hr.data(x, y), batch=16, epochs=2, budget="400MiB", process="own", verbose=False, rate=0.1)
        self.assertEqual(len(h.history["loss"]), 2)
        self.assertEqual(len(h.losses), 8)
        self.assertEqual(int(module[1].num_batches_tracked), 8)
        self.assertLess(h.measured_peak_bytes, 400 << 20)


class Losses(unittest.TestCase):
    def regress(self, loss, module=None, steps: int = 4, rate: float = 0.1) -> list:
        """Losses of our steps and of PyTorch's, with the same module and loss."""
        rng = np.random.default_rng(1)
        x = rng.normal(size=(16, 4)).astype("float32")
        y = x.sum(1, keepdims=True).astype("float32")
        torch.manual_seed(3)
        module = module or torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.Tanh(), torch.nn.Linear(8, 1))
        theirs = copy.deepcopy(module)
        with hr.session(module, (x, y), batch=16, budget=BUDGET, loss=loss, optimizer="sgd", rate=rate, momentum=0.0) as s:
            mine = [float(s.step(x, y)) for _ in range(steps)]
        optimizer, want = torch.optim.SGD(theirs.parameters(), lr=rate), []
        for _ in range(steps):
            optimizer.zero_grad()
            given = torch.from_numpy(x), torch.from_numpy(y)
            value = theirs(*given) if loss == "own" else loss(theirs(given[0]), given[1])
            value.backward()
            optimizer.step()
            want.append(float(value))
        np.testing.assert_allclose(mine, want, rtol=1e-4)
        for a, b in zip(module.parameters(), theirs.parameters()):  # trained in the object that was given
            torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-5)
        self.assertEqual(list(module.state_dict()), list(theirs.state_dict()))
        return mine

    def test_losses_without_a_counterpart_are_part_of_the_module(self) -> None:
        for loss in (lambda output, label: (output - label).abs().mean(), torch.nn.SmoothL1Loss(), torch.nn.functional.l1_loss):
            mine = self.regress(loss)
            self.assertLess(mine[-1], mine[0])
        self.regress(torch.nn.L1Loss(reduction="sum"), rate=0.01)

    def classify(self, module: torch.nn.Module, x: torch.Tensor, y: torch.Tensor, loss) -> tuple:
        """Three steps of ours next to PyTorch's; the module and what fit gave."""
        theirs = copy.deepcopy(module)
        h = hr.fit(module, hr.data(x, y, shuffle=False), batch=len(y), steps=3, budget=BUDGET, verbose=False, loss=loss,
                   optimizer=torch.optim.SGD(module.parameters(), lr=0.1))
        optimizer, want = torch.optim.SGD(theirs.parameters(), lr=0.1), []
        for _ in range(3):
            optimizer.zero_grad()
            value = loss(theirs(x), y)
            value.backward()
            optimizer.step()
            want.append(float(value))
        np.testing.assert_allclose(h.losses, want, rtol=1e-4)
        for a, b in zip(module.parameters(), theirs.parameters()):
            torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-5)
        return module, h

    def test_settings_of_losses_are_read_or_part_of_the_module(self) -> None:
        torch.manual_seed(7)
        x, y, weight = torch.randn(8, 5), torch.randint(0, 4, (8,)), torch.tensor([1.0, 2.0, 0.5, 3.0])
        y[:3] = 0
        for loss in (torch.nn.CrossEntropyLoss(weight=weight), torch.nn.CrossEntropyLoss(ignore_index=0),
                     torch.nn.CrossEntropyLoss(weight, ignore_index=0, label_smoothing=0.1), torch.nn.CrossEntropyLoss(reduction="sum")):
            module, _ = self.classify(torch.nn.Linear(5, 4), x, y, loss)
        many = torch.nn.BCEWithLogitsLoss(pos_weight=weight)
        self.classify(torch.nn.Linear(5, 4), x, torch.nn.functional.one_hot(y, 4).float(), many)
        self.classify(torch.nn.Linear(5, 4), x, y[:, None], lambda output, label: torch.nn.functional.cross_entropy(output, label[:, 0]))

    def test_a_label_that_is_ignored_is_not_in_the_accuracy_nor_in_a_share(self) -> None:
        torch.manual_seed(8)
        x, y, loss = torch.randn(4, 3, 8, 8), torch.randint(0, 5, (4, 8, 8)), torch.nn.CrossEntropyLoss(ignore_index=255)
        y[:2] = 255
        module, _ = self.classify(torch.nn.Conv2d(3, 5, 3, padding=1), x, y, loss)
        with torch.no_grad():
            out = module(x)
        found = hr.evaluate(module, (x, y), loss=loss, batch=4)
        self.assertAlmostEqual(found.loss, float(loss(out, y)), places=4)
        self.assertAlmostEqual(found.accuracy, float((out.argmax(1) == y)[y < 255].float().mean()), places=4)
        with self.assertRaisesRegex(hr.Error, "cannot be split"):
            hr.fit(module, (x, y), batch=4, steps=1, budget=BUDGET, verbose=False, loss=loss, micro_batches=2)

    def test_classes_stand_where_the_labels_say(self) -> None:
        torch.manual_seed(9)
        module, _ = self.classify(torch.nn.Conv1d(3, 5, 3, padding=1), torch.randn(4, 3, 8), torch.randint(0, 5, (4, 8)),
                                  torch.nn.CrossEntropyLoss())
        x = torch.randn(2, 3, 8)
        np.testing.assert_allclose(hr.predict(module, x), module(x).detach().numpy(), atol=1e-4)

    def test_a_module_that_returns_its_loss_gets_the_labels(self) -> None:
        class Whole(torch.nn.Module):
            def __init__(self) -> None:
                super().__init__()
                self.line = torch.nn.Linear(4, 1)

            def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
                return (self.line(x) - y).square().mean()

        mine = self.regress("own", Whole())
        self.assertLess(mine[-1], mine[0])

    def test_labels_that_the_module_shifts_count_one_by_one(self) -> None:
        class Next(torch.nn.Module):
            """As transformers' models do it, with labels of -100 where nothing is to be learnt."""

            def __init__(self) -> None:
                super().__init__()
                self.table, self.head = torch.nn.Embedding(9, 8), torch.nn.Linear(8, 9)

            def forward(self, tokens: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
                shifted = torch.nn.functional.pad(labels, (0, 1), value=-100)[..., 1:].contiguous()
                return torch.nn.functional.cross_entropy(self.head(self.table(tokens)).view(-1, 9), shifted.view(-1), ignore_index=-100)

        torch.manual_seed(3)
        x = torch.randint(0, 9, (8, 6))
        y = torch.where(torch.arange(6) > torch.tensor([1, 5, 0, 2, 3, 4, 0, 1])[:, None], -100, x)
        module = Next()
        theirs, want = copy.deepcopy(module), []
        optimizer = torch.optim.SGD(theirs.parameters(), lr=0.5)
        for _ in range(3):
            optimizer.zero_grad()
            value = theirs(x, y)
            value.backward()
            optimizer.step()
            want.append(float(value))
        for parts in (1, 2, 4):
            ours = copy.deepcopy(module)
            h = hr.fit(ours, hr.data(x, y, shuffle=False), batch=8, steps=3, budget=BUDGET, verbose=False, loss="own", micro_batches=parts,
                       optimizer=torch.optim.SGD(ours.parameters(), lr=0.5))
            np.testing.assert_allclose(h.losses, want, rtol=1e-5)
            for a, b in zip(ours.parameters(), theirs.parameters()):
                torch.testing.assert_close(a, b, rtol=1e-5, atol=1e-6)
        self.assertAlmostEqual(hr.evaluate(ours, (x, y), loss="own", batch=3).loss, float(theirs(x, y)), places=4)

    def test_a_loss_of_several_means_is_split_where_all_labels_count(self) -> None:
        class Two(torch.nn.Module):
            def __init__(self, made: bool = False) -> None:
                super().__init__()
                self.a, self.b, self.made = torch.nn.Linear(4, 3), torch.nn.Linear(4, 2), made

            def forward(self, x: torch.Tensor, kind: torch.Tensor, size: torch.Tensor) -> torch.Tensor:
                kind = torch.where(size[:, 0] > 0, kind, -100) if self.made else kind
                return torch.nn.functional.cross_entropy(self.a(x), kind) + 0.5 * torch.nn.functional.mse_loss(self.b(x), size)

        torch.manual_seed(4)
        x, kind, size = torch.randn(8, 4), torch.randint(0, 3, (8,)), torch.randn(8, 2)
        module = Two()
        theirs, want = copy.deepcopy(module), []
        optimizer = torch.optim.SGD(theirs.parameters(), lr=0.5)
        for _ in range(3):
            optimizer.zero_grad()
            value = theirs(x, kind, size)
            value.backward()
            optimizer.step()
            want.append(float(value))

        def fit(ours: torch.nn.Module, kind: torch.Tensor, **options: Any) -> hr.History:
            return hr.fit(ours, hr.data(x, kind, size, shuffle=False), batch=8, steps=3, budget=BUDGET, verbose=False, loss="own",
                          micro_batches=4, optimizer=torch.optim.SGD(ours.parameters(), lr=0.5), **options)

        for process in (None, "own"):
            ours = copy.deepcopy(module)
            np.testing.assert_allclose(fit(ours, kind, process=process).losses, want, rtol=1e-5)
            for a, b in zip(ours.parameters(), theirs.parameters()):
                torch.testing.assert_close(a, b, rtol=1e-5, atol=1e-6)
        some = kind.clone()
        some[5] = -100
        for ours, labels in ((copy.deepcopy(module), some), (Two(made=True), kind)):
            with self.assertRaisesRegex(hr.Error, "the batch cannot be split"):
                fit(ours, labels)

    def test_cross_entropy_with_probabilities(self) -> None:
        rng = np.random.default_rng(5)
        x, y = rng.normal(size=(16, 4)).astype("float32"), rng.dirichlet([1, 1, 1], 16).astype("float32")
        for loss in (torch.nn.CrossEntropyLoss(), "cross_entropy"):
            torch.manual_seed(6)
            module = torch.nn.Linear(4, 3)
            theirs = torch.nn.CrossEntropyLoss() if isinstance(loss, str) else loss
            value = theirs(module(torch.from_numpy(x)), torch.from_numpy(y))
            with hr.session(module, (x, y), batch=16, budget=BUDGET, loss=loss, optimizer="sgd", rate=0.1) as s:
                self.assertAlmostEqual(float(s.step(x, y)), float(value), places=4)
        with self.assertRaisesRegex(hr.UsageError, "class numbers"):
            hr.fit(module, (x, y[:, 0]), batch=16, epochs=1, budget=BUDGET, verbose=False, loss=torch.nn.CrossEntropyLoss())

    def test_inputs_in_a_tuple_of_their_own(self) -> None:
        class Two(torch.nn.Module):
            def __init__(self) -> None:
                super().__init__()
                self.a, self.b = torch.nn.Linear(4, 2), torch.nn.Linear(3, 2)

            def forward(self, x: torch.Tensor, z: torch.Tensor) -> torch.Tensor:
                return self.a(x) + self.b(z)

        rng = np.random.default_rng(2)
        x, z = rng.normal(size=(32, 4)).astype("float32"), rng.normal(size=(32, 3)).astype("float32")
        y = (x.sum(1) > 0).astype("int64")
        want = None
        samples = [((torch.from_numpy(a), torch.from_numpy(b)), int(c)) for a, b, c in zip(x, z, y)]
        for data in ((x, z, y), ((x, z), y), torch.utils.data.DataLoader(samples, batch_size=8)):
            torch.manual_seed(4)
            h = hr.fit(Two(), hr.data(data, shuffle=False), batch=8, epochs=1, budget=BUDGET, verbose=False, optimizer="sgd", rate=0.1)
            want = want or h.history["loss"]
            self.assertEqual(h.history["loss"], want)


class Block(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm, self.fc = torch.nn.LayerNorm(6), torch.nn.Linear(6, 6)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + torch.nn.functional.gelu(self.fc(self.norm(x)))


def plain_and_decayed(module: torch.nn.Module) -> list:
    named = list(module.named_parameters())
    return [{"params": [p for _, p in named if p.ndim > 1], "weight_decay": 0.1}, {"params": [p for _, p in named if p.ndim < 2]}]


def body_and_head(module: torch.nn.Module) -> list:  # the head is called as the layer inside the block
    return [{"params": module.block.parameters()}, {"params": module.fc.parameters(), "lr": 0.05, "weight_decay": 0.2}]


def head(module: torch.nn.Module) -> list:
    return list(module.fc.parameters())


class Groups(unittest.TestCase):
    """Parameter groups and schedulers of torch next to torch's own loop."""

    def compare(self, groups, make, schedule=None, parts: int = 1, **options) -> None:
        torch.manual_seed(2)
        module = torch.nn.Sequential()
        module.block, module.fc = Block(), torch.nn.Linear(6, 4)
        x, y, theirs, want = torch.randn(16, 6), torch.randint(0, 4, (16,)), copy.deepcopy(module), []
        optimizer = make(groups(theirs))
        steps = schedule(optimizer) if schedule else None
        for _ in range(6):
            optimizer.zero_grad()
            value = torch.nn.functional.cross_entropy(theirs(x), y)
            value.backward()
            optimizer.step()
            want.append(float(value))
            if steps is not None:
                steps.step()
        own = make(groups(module))
        h = hr.fit(module, hr.data(x, y, shuffle=False), batch=16, epochs=6, verbose=False, optimizer=own, micro_batches=parts,
                   schedule=schedule(own) if schedule else None, **{"budget": BUDGET, **options})
        np.testing.assert_allclose(h.losses, want, rtol=1e-5)
        for (name, a), b in zip(module.named_parameters(), theirs.parameters()):
            torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-5, msg=name)
        self.assertTrue(all(p.requires_grad for p in module.parameters()))

    def test_rates_and_decays_of_groups(self) -> None:
        for groups in (plain_and_decayed, body_and_head, head):
            for parts in (1, 4):
                self.compare(groups, lambda g: torch.optim.AdamW(g, lr=0.01, weight_decay=0.05), parts=parts)
            self.compare(groups, lambda g: torch.optim.SGD(g, lr=0.1, momentum=0.9, weight_decay=0.05))

    def test_schedulers(self) -> None:
        s = torch.optim.lr_scheduler
        for schedule in (lambda o: s.LambdaLR(o, lambda i: i / 3 if i < 3 else 1 - i / 9), lambda o: s.CosineAnnealingLR(o, 6),
                         lambda o: s.OneCycleLR(o, 0.1, total_steps=7, cycle_momentum=False),
                         lambda o: s.SequentialLR(o, [s.LinearLR(o, 0.1, total_iters=2), s.ExponentialLR(o, 0.5)], [2])):
            self.compare(plain_and_decayed, lambda g: torch.optim.AdamW(g, lr=0.01), schedule)
        self.compare(body_and_head, lambda g: torch.optim.SGD(g, lr=0.1), lambda o: s.StepLR(o, 2), schedule_by="epoch")
        self.compare(body_and_head, lambda g: torch.optim.SGD(g, lr=0.1), lambda o: s.StepLR(o, 2), process="own", budget="300MiB")

    def test_what_cannot_be_read_is_refused(self) -> None:
        module, s = torch.nn.Linear(2, 2), torch.optim.lr_scheduler
        x, y = np.zeros((4, 2), "float32"), np.zeros(4, "int64")

        def refuse(words: str, optimizer, schedule=None) -> None:
            with self.assertRaisesRegex(hr.Error, words):
                hr.fit(module, (x, y), batch=4, steps=2, budget=BUDGET, verbose=False, optimizer=optimizer, schedule=schedule)

        groups = [{"params": [module.weight], "momentum": 0.9}, {"params": [module.bias]}]
        refuse("differ in momentum", torch.optim.SGD(groups, lr=0.1))
        refuse("not the module's", torch.optim.SGD(torch.nn.Linear(2, 2).parameters(), lr=0.1))
        both = torch.optim.SGD([{"params": [module.weight]}, {"params": [module.bias]}], lr=0.1)
        refuse("different factors", both, s.LambdaLR(both, [lambda i: 1.0, lambda i: 1 / (i + 1)]))
        one = torch.optim.SGD(module.parameters(), lr=0.1, momentum=0.9)
        refuse("moves the momentum", one, s.OneCycleLR(one, 0.1, total_steps=4))
        refuse('schedule="plateau"', one, s.ReduceLROnPlateau(one))
        zero = torch.optim.SGD(module.parameters(), lr=0.1)
        s.LambdaLR(zero, lambda i: float(i))
        refuse("needs schedule=", zero)

    def test_code_for_one_size_of_the_batch_is_refused(self) -> None:
        class Two(torch.nn.Linear):
            def forward(self, x: torch.Tensor) -> torch.Tensor:
                return super().forward(x) if x.shape[0] == 2 else super().forward(x) * 2

        with self.assertRaisesRegex(hr.Refused, "one size of the batch alone"):
            hr.fit(Two(2, 2), (np.zeros((4, 2), "float32"), np.zeros(4, "int64")), batch=4, steps=1, budget=BUDGET, verbose=False)

    def test_a_function_of_the_step(self) -> None:
        seen = []
        module = torch.nn.Linear(2, 2)
        before = module.weight.clone()
        hr.fit(module, (np.ones((4, 2), "float32"), np.zeros(4, "int64")), batch=4, steps=3, budget=BUDGET, verbose=False, optimizer="sgd",
               schedule=lambda step: seen.append(step) or 0.0)
        self.assertEqual(seen, [0, 1, 2])
        torch.testing.assert_close(module.weight, before, rtol=0, atol=0)


class Read(unittest.TestCase):
    def test_optimizers(self) -> None:
        p = [torch.nn.Parameter(torch.zeros(2))]
        self.assertEqual(foreign.optimizer_options(torch.optim.AdamW(p, lr=0.1, betas=(0.8, 0.9)))["beta1"], 0.8)
        self.assertEqual(foreign.optimizer_options(torch.optim.RMSprop(p, alpha=0.5))["alpha"], 0.5)
        for refused in (torch.optim.Adagrad(p), torch.optim.Adam(p, amsgrad=True), torch.optim.SGD(p, momentum=0.9, dampening=0.1)):
            with self.assertRaises(hr.Refused):
                foreign.optimizer_options(refused)

    def test_losses(self) -> None:
        self.assertEqual(foreign.loss_name(torch.nn.MSELoss()), "mean_squared_error")
        for refused in (torch.nn.L1Loss(), torch.nn.CrossEntropyLoss(reduction="sum"), torch.nn.CrossEntropyLoss(torch.ones(3)),
                        torch.nn.CrossEntropyLoss(ignore_index=0), torch.nn.BCEWithLogitsLoss(pos_weight=torch.ones(3))):
            with self.assertRaises(hr.Refused):
                foreign.loss_name(refused)


class Documented(unittest.TestCase):
    def test_torchvision(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            done = documented.run("torchvision", folder)
        if "No module named 'torchvision'" in done.stderr:
            self.skipTest("there is no torchvision here")
        self.assertEqual(done.returncode, 0, done.stderr[-2000:])


if __name__ == "__main__":
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    unittest.main()

"""PyTorch's modules: taken, refused, trained and brought back."""
from __future__ import annotations

import argparse
import contextlib
import io
import os
import subprocess
import tempfile
import unittest
from pathlib import Path

try:
    import numpy as np
    import torch
    import torch.nn.functional as F
    from torch import nn
except ImportError as missing:
    raise unittest.SkipTest(str(missing)) from None

import headroom as hr
import headroom.torch as front
import trip
import zoo_torch
import zoo_users
from headroom import library, safetensors
from headroom.__main__ import compared
from headroom.check import Compared, rows_of
from headroom.graph import Refused
from headroom.sides import Kink, Unlike, first_of
from headroom.torch.check import check
from headroom.torch.sides import Sides

torch.set_num_threads(1)
PROGRAM = os.environ.get("HEADROOM_PROGRAM", "")


def small() -> nn.Module:
    torch.manual_seed(1)
    return nn.Sequential(nn.Conv2d(1, 4, 3, padding=1), nn.BatchNorm2d(4), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(),
                         nn.Dropout(0.1), nn.Linear(4 * 8 * 8, 10))


class Taken(unittest.TestCase):
    def same(self, name: str) -> None:
        torch.manual_seed(0)
        make, inputs, loss = zoo_torch.own()[name]
        module, x = make(), inputs(5)
        e = front.export(module, x, loss)
        self.assertEqual(e.parameter_count(), sum(p.numel() for p in module.parameters()))
        r = check(module, e, x, steps=3)
        self.assertTrue(r.good(), r)

    def test_batch_norm_and_dropout(self) -> None:
        self.same("residual_mlp")

    def test_unrolled_lstm_with_a_padding_row(self) -> None:
        self.same("lstm_text")

    def test_transposed_convolution_and_aligned_corners(self) -> None:
        self.same("unet")

    def test_tied_weights_and_a_causal_mask(self) -> None:
        self.same("tied_lm")

    def test_writes_through_views(self) -> None:
        self.same("inplace")

    def test_buffers_that_move(self) -> None:
        self.same("buffers")

    def test_odd_pads_and_ceiled_pools(self) -> None:
        self.same("odd_pad")


class Users(unittest.TestCase):
    """Modules of the kind that people write; all of them with HEADROOM_TEST_ALL=1 and in tools/own-models."""

    def same(self, name: str) -> None:
        torch.manual_seed(0)
        make, inputs, loss = zoo_users.models()[name]
        module, x = make(), inputs(4)
        r = check(module, front.export(module, x, loss), x)
        self.assertTrue(r.good(), (name, r))

    def test_numbers_that_depend_on_data(self) -> None:
        self.same("choices")

    def test_indexing_a_row_a_sample(self) -> None:
        self.same("rows")

    def test_a_mixture_of_experts(self) -> None:
        self.same("experts")

    def test_a_loss_of_its_own_that_pytorch_composes(self) -> None:
        self.same("vae")

    @unittest.skipUnless(os.environ.get("HEADROOM_TEST_ALL"), "set HEADROOM_TEST_ALL=1")
    def test_all_of_them(self) -> None:
        for name in zoo_users.models():
            with self.subTest(name):
                self.same(name)

    def test_what_no_gradient_may_cross(self) -> None:
        class Stopped(nn.Module):
            def __init__(self) -> None:
                super().__init__()
                self.a, self.b = nn.Linear(4, 4), nn.Linear(4, 4)

            def forward(self, x: torch.Tensor) -> torch.Tensor:
                with torch.no_grad():
                    y = self.a(x)
                return self.b(x * y) + self.a(x).detach()

        m, x = Stopped(), (torch.randn(3, 4),)
        r = check(m, front.export(m, x), x)
        self.assertTrue(r.good(), r)
        self.assertEqual(r.counted, 2)

    def test_the_fused_attention_has_the_mask_and_the_grouped_keys(self) -> None:
        m, x = zoo_users.Grouped(), (torch.randint(0, 30, (3, 10)),)
        e = front.export(m, x)
        text = e.model.text().split("form eval")[0]
        self.assertIn("attention_masked(", text)
        self.assertNotIn("softmax(", text)
        self.assertNotIn("broadcast_to(", text)
        self.assertIn("constant u8[1,1,10,10]", text)
        r = check(m, e, x)
        self.assertTrue(r.good(), r)

    def test_truths_that_hide_keys_are_a_row_of_bytes_for_all_queries(self) -> None:
        torch.manual_seed(0)
        ids = torch.randint(1, 20, (3, 6))
        ids[0, 4:], ids[1, 0] = 0, 0
        m, x = Padded(), (ids,)
        e = front.export(m, x)
        text = e.model.text().split("form eval")[0]
        self.assertIn("{to=u8}", text)
        self.assertNotIn("broadcast_to(", text)
        r = check(m, e, x)
        self.assertTrue(r.good(), r)


class Padded(nn.Module):
    """Keys that are padding are hidden from all queries, by a mask that is spread over them as transformers does it."""

    def __init__(self) -> None:
        super().__init__()
        self.embed, self.q, self.out = nn.Embedding(20, 8), nn.Linear(8, 8), nn.Linear(8, 20)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        x = self.embed(ids)
        q, k = (y.view(-1, 6, 2, 4).transpose(1, 2) for y in (self.q(x), x))
        samples, keys = torch.arange(ids.shape[0])[:, None, None, None], torch.arange(6)[None, None, None]
        seen = (torch.arange(6)[None, None, :, None] >= 0) & (ids != 0)[samples, keys].expand(-1, 1, 6, 6)
        y = nn.functional.scaled_dot_product_attention(q, k, k, attn_mask=seen)
        return self.out(x + y.transpose(1, 2).reshape(-1, 6, 8))


class Llama(nn.Module):
    """RMS norm and rotary embedding as transformers writes them."""

    def __init__(self) -> None:
        super().__init__()
        self.embed, self.scale = nn.Embedding(20, 8), nn.Parameter(torch.rand(8) + 0.5)
        self.q, self.k, self.out = nn.Linear(8, 8), nn.Linear(8, 8), nn.Linear(8, 20)
        angle = torch.outer(torch.arange(6.0), 100.0 ** -torch.arange(0, 1, 0.5)).repeat(1, 2)
        self.register_buffer("cos", angle.cos()[None], persistent=False)
        self.register_buffer("sin", angle.sin()[None], persistent=False)

    def turn(self, x: torch.Tensor) -> torch.Tensor:
        turned = torch.cat((-x[..., 2:], x[..., :2]), dim=-1)
        return x * self.cos.unsqueeze(1) + turned * self.sin.unsqueeze(1)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        x = self.embed(ids)
        h = x.to(torch.float32)
        h = self.scale * (h * torch.rsqrt(h.pow(2).mean(-1, keepdim=True) + 1e-6))
        q, k = (self.turn(f(h).view(-1, 6, 2, 4).transpose(1, 2)) for f in (self.q, self.k))
        y = nn.functional.scaled_dot_product_attention(q, k, q, is_causal=True)
        return self.out(x + y.transpose(1, 2).reshape(-1, 6, 8))


class Written(unittest.TestCase):
    def test_rms_norm_and_rotary_embedding_are_one_node_each(self) -> None:
        torch.manual_seed(0)
        m, x = Llama(), (torch.randint(0, 20, (3, 6)),)
        e = front.export(m, x)
        text = e.model.text().split("form eval")[0]
        self.assertEqual((text.count("= rotary("), text.count("rms_norm(")), (2, 1))
        self.assertNotIn("rsqrt(", text)
        self.assertNotIn("concat(", text)
        r = check(m, e, x)
        self.assertTrue(r.good(), r)

    def test_a_mode_is_left_as_it_was(self) -> None:
        m = small().eval()
        front.export(m, (torch.randn(3, 1, 16, 16),))
        self.assertFalse(m.training)

    def test_no_transposition_between_convolutions(self) -> None:
        m = nn.Sequential(nn.Conv2d(3, 4, 3), nn.ReLU(), nn.Conv2d(4, 4, 3), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(4, 2))
        text = front.export(m, (torch.randn(3, 3, 16, 16),)).model.text()
        self.assertNotIn("transpose(", text)

    def test_batch_norm_and_relu_are_one_node(self) -> None:
        text = front.export(small(), (torch.randn(3, 1, 16, 16),)).model.text().split("form eval")[0]
        self.assertIn("relu=true", text)
        self.assertNotIn("= relu(", text)

    def test_a_branch_on_data_is_refused_with_its_line(self) -> None:
        with self.assertRaises(Refused) as caught:
            front.export(zoo_torch.Branch(), (torch.randn(3, 8),))
        self.assertIn("zoo_torch.py:", str(caught.exception))
        self.assertIn("`if x.sum() > 0:`", str(caught.exception))

    def test_an_unknown_op_is_refused_with_its_line(self) -> None:
        class Odd(nn.Module):
            def __init__(self) -> None:
                super().__init__()
                self.fc = nn.Linear(4, 4)

            def forward(self, x: torch.Tensor) -> torch.Tensor:
                return torch.linalg.eigvalsh(self.fc(x))

        with self.assertRaises(Refused) as caught:
            front.export(Odd(), (torch.randn(3, 4, 4),))
        self.assertIn("test_torch.py", str(caught.exception))

    def test_a_wrong_model_does_not_pass_the_check(self) -> None:
        m, x = small(), (torch.randn(3, 1, 16, 16),)
        e = front.export(m, x)
        e.weights["6.bias"] = e.weights["6.bias"] + 1
        self.assertFalse(check(m, e, x).good())


class Conditioned(nn.Module):
    """Several inputs, a table smaller than any guess, and a cast of its own to f32."""

    def __init__(self) -> None:
        super().__init__()
        self.table, self.a, self.b = nn.Embedding(3, 4), nn.Linear(5, 4), nn.Linear(4, 2)

    def forward(self, x: torch.Tensor, kind: torch.Tensor, label: torch.Tensor) -> torch.Tensor:
        h = self.a(x.float()) * kind[:, None].float() + self.table(label)
        return F.mse_loss(self.b(h), x[:, :2])


class Several(unittest.TestCase):
    def exported(self, loss: str = "own") -> tuple:
        torch.manual_seed(0)
        m, example = Conditioned(), (torch.randn(4, 5), torch.ones(4, dtype=torch.int64), torch.tensor([0, 1, 2, 1]))
        return m, example, front.export(m, example, loss)

    def test_inputs_are_called_as_forward_calls_them(self) -> None:
        m, example, e = self.exported()
        self.assertEqual([n for n, _, _ in e.inputs], ["input", "kind", "label"])
        self.assertTrue(check(m, e, example).good())

    def test_ids_are_drawn_as_the_tables_have_rows(self) -> None:
        _, _, e = self.exported()
        self.assertEqual([rows_of(e.model.train, n) for n in ("kind", "label")], [100, 3])

    def test_a_module_that_cannot_run_in_double_precision_is_compared_as_it_is(self) -> None:
        m, example, e = self.exported()
        e.weights["b.bias"] = e.weights["b.bias"] + 1
        r = check(m, e, example)
        self.assertFalse(r.good())
        self.assertIn("double precision", r.unlike)


class Whiten(nn.Module):
    """Ops of torch.linalg, which are not ours."""

    def __init__(self) -> None:
        super().__init__()
        self.fc, self.out = nn.Linear(9, 9), nn.Linear(9, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        a = self.fc(x).view(-1, 3, 3)
        a = a @ a.mT + torch.eye(3)
        return self.out(torch.linalg.eigvalsh(a).repeat(1, 3) + torch.linalg.svdvals(a).repeat(1, 3))


class Counting(nn.Module):
    """The number of samples as a number: of tensors, of what is known, under a root, alone."""

    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.Linear(4, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        n = x.shape[0]
        y = self.fc(x)
        known = torch.arange(3.0) * n + torch.full((3,), n)
        y = y * (1.0 / n) + y.sum(0, keepdim=True) / n + y * y.var(0)
        return y + known + n ** 0.5 * y.std(0, unbiased=False) + (n - y) / (2 * n + 1)


class Batches(unittest.TestCase):
    """Exported with one batch and compared with another: nothing of the example's may be left."""

    def test_a_variance_over_the_batch_divides_by_one_less(self) -> None:
        class Spread(nn.Module):
            def __init__(self) -> None:
                super().__init__()
                self.fc = nn.Linear(4, 3)

            def forward(self, x: torch.Tensor) -> torch.Tensor:
                y = self.fc(x)
                return y - y.var(0) * y.std(dim=(0, 1))

        torch.manual_seed(0)
        m = Spread()
        e = front.export(m, (torch.randn(5, 4),))
        for batch in (5, 7, 2):
            r = check(m, e, (torch.randn(batch, 4),))
            self.assertTrue(r.good(), (batch, r))

    def test_arithmetic_with_the_number_of_samples(self) -> None:
        torch.manual_seed(0)
        m = Counting()
        e = front.export(m, (torch.randn(5, 4),))
        for batch in (5, 3):
            r = check(m, e, (torch.randn(batch, 4),))
            self.assertTrue(r.good(), (batch, r))

    def test_several_tensors_of_numbers_for_each_sample(self) -> None:
        class Places(nn.Module):
            def __init__(self) -> None:
                super().__init__()
                self.fc = nn.Linear(2, 2)

            def forward(self, x: torch.Tensor, row: torch.Tensor) -> torch.Tensor:
                each = torch.arange(x.shape[0])[:, None]
                return self.fc(x[each, row % 3, (row + 1) % 4])

        torch.manual_seed(0)
        m = Places()
        e = front.export(m, (torch.randn(5, 3, 4, 2), torch.randint(0, 9, (5, 6))))
        r = check(m, e, (torch.randn(3, 3, 4, 2), torch.randint(0, 9, (3, 6))))
        self.assertTrue(r.good(), r)

    def test_bags_of_one_length_are_taken_and_others_are_refused(self) -> None:
        class Bags(nn.Module):
            def __init__(self, mode: str, padding: int | None) -> None:
                super().__init__()
                self.bag, self.fc = nn.EmbeddingBag(9, 4, mode=mode, padding_idx=padding), nn.Linear(4, 3)

            def forward(self, ids: torch.Tensor) -> torch.Tensor:
                return self.fc(self.bag(ids))

        torch.manual_seed(0)
        for mode, padding in (("sum", None), ("mean", None), ("max", None), ("mean", 0), ("sum", 2)):
            m = Bags(mode, padding)
            e = front.export(m, (torch.randint(0, 9, (5, 6)),))
            r = check(m, e, (torch.randint(0, 9, (3, 6)),))
            self.assertTrue(r.good(), (mode, padding, r))

        class Ragged(Bags):
            def forward(self, ids: torch.Tensor) -> torch.Tensor:
                return self.fc(self.bag(ids.flatten(), torch.arange(ids.shape[0]) * 2))

        with self.assertRaises(Refused) as caught:
            front.export(Ragged("sum", None), (torch.randint(0, 9, (5, 6)),))
        self.assertIn("different lengths", str(caught.exception))


class Drawn(unittest.TestCase):
    def test_noise_of_its_own_is_drawn_anew_in_every_step_and_is_0_in_a_comparison(self) -> None:
        torch.manual_seed(0)
        make, inputs, loss = zoo_users.models()["sampled_vae"]
        m, x = make(), inputs(6)
        e = front.export(m, x, loss)
        train, still = e.model.text().split("form eval")
        self.assertEqual((train.count("= noise("), still.count("= noise(")), (2, 0))
        self.assertTrue(check(m, e, x).good())
        r = np.random.RandomState(0)

        class Listen:
            def __init__(self) -> None:
                self.losses: list = []

            def on_step(self, step: int, logs: dict) -> None:
                self.losses.append(logs["loss"])

        heard = Listen()
        hr.fit(m, (r.randn(12, 12).astype("float32"),), loss="own", batch=12, steps=4, rate=0.0, device="host", no_measure=True,
               verbose=False, callbacks=[heard])
        self.assertEqual(len(set(heard.losses)), 4, heard.losses)

    def test_random_orders_are_refused(self) -> None:
        class Jump(nn.Module):
            def __init__(self) -> None:
                super().__init__()
                self.fc = nn.Linear(4, 3)

            def forward(self, x: torch.Tensor) -> torch.Tensor:
                return self.fc(x)[:, torch.randperm(3)]

        with self.assertRaises(Refused) as caught:
            front.export(Jump(), (torch.randn(5, 4),))
        self.assertIn("random numbers by randperm", str(caught.exception))


class Outside(unittest.TestCase):
    def test_ops_that_are_not_ours_run_in_pytorch_both_ways(self) -> None:
        torch.manual_seed(0)
        m, x = Whiten(), (torch.randn(5, 9),)
        e = front.export(m, x, custom_ops=True)
        self.assertEqual(len(e.model.customs), 2)
        self.assertIn("runs in PyTorch", e.notes[0])
        self.assertIn("test_torch.py", e.notes[0])
        r = check(m, e, x, steps=2)
        self.assertTrue(r.good(), r)
        self.assertEqual(r.counted, 4)

    def test_without_leave_they_are_refused_with_the_way_out(self) -> None:
        with self.assertRaises(Refused) as caught:
            front.export(Whiten(), (torch.randn(3, 9),))
        self.assertIn("custom_ops=True", str(caught.exception))

    def test_what_is_ours_stays_ours(self) -> None:
        e = front.export(small(), (torch.randn(3, 1, 16, 16),), custom_ops=True)
        self.assertEqual(e.model.customs, [])

    def test_a_plan_says_what_they_cost_and_training_goes_through_them(self) -> None:
        torch.manual_seed(0)
        m, r = Whiten(), np.random.RandomState(0)
        data = r.randn(32, 9).astype("float32"), r.randint(0, 3, 32).astype("int32")
        options = {"batch": 8, "custom_ops": True, "device": "host", "no_measure": True}
        p = hr.plan(m, data, **options)
        self.assertEqual(p.custom_ops, 4)
        self.assertIn("custom ops: 4 nodes", str(p))
        before = m.fc.weight.detach().clone()
        hr.fit(m, data, epochs=1, rate=0.1, verbose=False, **options)
        self.assertFalse(torch.equal(before, m.fc.weight))

    def test_a_model_file_with_them_opens_where_pytorch_is(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            front.export(Whiten(), (torch.randn(3, 9),), custom_ops=True).save(Path(folder) / "my.hr")
            self.assertEqual(hr.plan(f"{folder}/my.hr", batch=4, device="host", no_measure=True).custom_ops, 4)
            if PROGRAM:
                done = subprocess.run([PROGRAM, "plan", f"{folder}/my.hr"], capture_output=True, text=True)
                self.assertEqual(done.returncode, 2)
                self.assertIn("custom op", done.stderr)


class Kinks(unittest.TestCase):
    def gradient(self, x: list, ours: list) -> tuple:
        t = torch.tensor([x], dtype=torch.float64, requires_grad=True)
        with Sides([Kink("relu", np.array([ours], "float32"))]) as sides:
            torch.relu(t).sum().backward()
        return t.grad.tolist()[0], sides.settled

    def test_what_is_0_but_for_rounding_falls_where_ours_did(self) -> None:
        grad, settled = self.gradient([1e-9, -1e-9, 2.0, -1.0], [0, 1e-9, 2, 0])
        self.assertEqual(grad, [0, 1, 1, 0])
        self.assertEqual((settled.moved, settled.of), (2, 4))

    def test_what_is_not_at_the_kink_is_refused(self) -> None:
        with self.assertRaises(Unlike):
            self.gradient([0.5, -1.0, 2.0], [0, 0, 2])

    def test_a_call_that_is_not_ours_is_refused(self) -> None:
        with self.assertRaises(Unlike), Sides([]):
            torch.relu(torch.ones(2))


class Again(unittest.TestCase):
    """`python -m headroom export` compares once more, with more samples, where few settle nothing."""

    def compared(self, *found: Compared) -> tuple:
        e, batches = front.export(small(), (torch.randn(2, 1, 16, 16),)), []

        def checked(batch: int) -> Compared:
            batches.append(batch)
            return found[len(batches) - 1]

        with contextlib.redirect_stderr(io.StringIO()) as said:
            r = compared(e, checked, argparse.Namespace(batch=5, tolerance=1e-4))
        return found.index(r), batches, "compared with 20 samples" in said.getvalue()

    @staticmethod
    def of(gradient: float, missing: tuple = ()) -> Compared:
        return Compared(0.0, gradient, "w", 0.0, 0.0, 0.0, 3, list(missing))

    def test_what_agrees_is_compared_once(self) -> None:
        self.assertEqual(self.compared(self.of(1e-5)), (0, [5], False))

    def test_what_differs_is_compared_with_more_samples(self) -> None:
        self.assertEqual(self.compared(self.of(1e-2), self.of(2e-5)), (1, [5, 20], True))

    def test_what_differs_again_stays_as_it_was(self) -> None:
        self.assertEqual(self.compared(self.of(1e-2), self.of(2e-2)), (0, [5, 20], False))

    def test_a_gradient_that_is_missing_is_not_looked_for_again(self) -> None:
        self.assertEqual(self.compared(self.of(0.0, ("w",))), (0, [5], False))

    def test_what_was_raised_first_is_said(self) -> None:
        try:
            try:
                raise Unlike("an element falls to the other side")
            except Unlike as why:
                raise Unlike(f"Exception encountered when calling Activation.call(). {why}") from None
        except Unlike as why:
            self.assertEqual(str(first_of(why)), "an element falls to the other side")


@unittest.skipUnless(PROGRAM, "needs HEADROOM_PROGRAM")
class Back(unittest.TestCase):
    def test_a_run_comes_back_into_the_module_and_evaluates_to_the_same_loss(self) -> None:
        """my.hr -> train -> eval by commands; the folder of the run -> the module -> PyTorch's own loss."""
        m = small()
        x, y = torch.randn(48, 1, 16, 16), torch.randint(0, 10, (48,))
        with tempfile.TemporaryDirectory() as folder:
            front.export(m, (x[:3],)).save(Path(folder) / "my.hr")
            trip.data(folder, image=x.permute(0, 2, 3, 1).numpy(), label=y.numpy().astype("int32"))
            trip.train(folder)
            self.assertEqual(front.load(m, f"{folder}/run"), [])
            ours = trip.evaluate(folder)
        with torch.no_grad():
            theirs = float(nn.functional.cross_entropy(m.eval()(x), y))
        self.assertLess(abs(ours - theirs), 1e-4)
        self.assertGreater(float(m[1].running_mean.abs().max()), 0)

    def test_trained_weights_evaluate_alike_in_the_module(self) -> None:
        m, x = small(), torch.randn(6, 1, 16, 16)
        e = front.export(m, (x,))
        with tempfile.TemporaryDirectory() as folder:
            e.save(Path(folder) / "my.hr")
            subprocess.run([PROGRAM, "train", f"{folder}/my.hr", "--data", "synthetic:count=32",
                            "--batch", "8", "--steps", "6", "--no-measure", "--out", f"{folder}/run"], check=True,
                           capture_output=True)
            last = f"{folder}/run/last.safetensors"
            before = m[0].weight.detach().clone()
            self.assertEqual(front.load(m, last, e, steps=6), [])
            self.assertFalse(torch.equal(before, m[0].weight))
            self.assertEqual(int(m[1].num_batches_tracked), 6)
            trained, _ = safetensors.read(last)
        e.weights = {n: trained[n] for n in e.weights}
        r = check(m, e, (x,))
        self.assertLess(r.eval, 1e-4)


if __name__ == "__main__":
    assert library
    unittest.main()

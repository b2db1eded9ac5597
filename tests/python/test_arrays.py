"""The package with NumPy: training, sources, callbacks, own loops, own ops."""
import gc
import os
import signal
import tempfile
import threading
import unittest

import numpy as np

import headroom as hr

BUDGET = "8GiB"  # of the whole process, which may have imported PyTorch (3.4 GiB of code); what is planned is far below


def setUpModule() -> None:
    signal.signal(signal.SIGINT, signal.default_int_handler)  # in the background it may be ignored


def net(g: hr.Graph, batch: int, training: bool) -> None:
    x, y = g.input("x", (batch, 20)), g.input("y", (batch,), "i32")
    h = g.relu(x @ g.param("w", (20, 32), std=0.2) + g.param("b", (32,)))
    logits = h @ g.param("v", (32, 3), std=0.2)
    g.result(logits, "logits")
    g.result(g.cross_entropy(logits, y), "loss")


def points(count: int = 256) -> tuple:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(count, 20)).astype("float32")
    return x, (x @ rng.normal(size=(20, 3))).argmax(1)


def fit(data, **options):
    given = {"batch": 32, "epochs": 2, "budget": BUDGET, "rate": 0.1, "verbose": False, "seed": 3, "no_measure": True, **options}
    return hr.fit(hr.model(net, classes=3), data, **given)


class Fit(unittest.TestCase):
    def test_trains_evaluates_and_predicts(self) -> None:
        x, y = points()
        h = fit((x, y), epochs=4)
        self.assertLess(h.history["loss"][-1], 0.5 * h.history["loss"][0])
        self.assertEqual(len(h.losses), 32)
        self.assertLessEqual(h.measured_peak_bytes, h.budget_bytes)
        r = hr.evaluate(h.model, (x, y))
        scores = hr.predict(h.model, x)
        self.assertEqual(scores.shape, (256, 3))
        shifted = scores - scores.max(1, keepdims=True)
        loss = (np.log(np.exp(shifted).sum(1)) - shifted[np.arange(256), y]).mean()
        self.assertAlmostEqual(r.loss, float(loss), places=4)
        self.assertIn("done", str(h))

    def test_training_goes_on_where_it_was(self) -> None:
        x, y = points()
        m = hr.model(net, classes=3)
        first = hr.fit(m, (x, y), batch=32, epochs=3, rate=0.1, verbose=False)
        second = hr.fit(m, (x, y), batch=32, epochs=1, rate=0.1, verbose=False)
        self.assertLess(second.losses[0], first.losses[0])

    def test_every_source_gives_the_same_training(self) -> None:
        x, y = points()
        sources = {
            "arrays": hr.data(x, y, shuffle=False),
            "names": hr.data({"x": x, "y": y}, shuffle=False),
            "doubles": hr.data(x.astype("float64"), y.astype("int64"), shuffle=False),
            "dataset": hr.data([(x[i], y[i]) for i in range(len(x))], shuffle=False),
            "samples": hr.data(lambda: ((x[i], y[i]) for i in range(len(x)))),
            "batches": hr.data(lambda: ((x[i:i + 48], y[i:i + 48]) for i in range(0, len(x), 48))),
            "mapped": hr.data(x * 2, y, shuffle=False, map=lambda a, b: (a / 2, b)),
            "mapped samples": hr.data(lambda: ((x[i], y[i] + 1) for i in range(len(x))), map=lambda a, b: (a, b - 1)),
        }
        losses = {name: fit(source).losses for name, source in sources.items()}
        for name, found in losses.items():
            self.assertEqual(found, losses["arrays"], name)

    def test_a_function_in_numpy_is_a_stage_behind_a_text(self) -> None:
        x, y = points()
        with tempfile.TemporaryDirectory() as folder:
            np.save(os.path.join(folder, "x.npy"), x * 4)
            np.save(os.path.join(folder, "y.npy"), y.astype("int32"))
            text = f"npy:{folder}/x.npy,{folder}/y.npy"
            through = fit(hr.data(text, shuffle=False, map=lambda a, b: (a / 4, b)))
            self.assertEqual(through.losses, fit(hr.data(x, y, shuffle=False)).losses)
            shuffled = fit(hr.data(text, map=lambda a, b: (a / 4, b)), val_data=hr.data(text, map=lambda a, b: (a / 4, b)), val_batch=16)
            self.assertNotEqual(shuffled.losses, through.losses)
            self.assertIn("val_loss", shuffled.history)

            def broken(a, b):
                raise KeyError("a stage of mine")
            with self.assertRaises(KeyError):
                fit(hr.data(text, map=broken))

    def test_validation_history_and_files(self) -> None:
        x, y = points()
        with tempfile.TemporaryDirectory() as folder:
            run = os.path.join(folder, "run")
            h = fit((x, y), val_data=(x[:64], y[:64]), val_batch=16, folder=run)
            self.assertEqual(len(h.history["val_loss"]), 2)
            again = hr.evaluate(h.model, (x, y))
            self.assertAlmostEqual(hr.evaluate(run, (x, y)).loss, again.loss, delta=0.5)
            with self.assertRaises(hr.Error):
                fit((x, y), folder=run)
            more = fit((x, y), val_data=(x[:64], y[:64]), val_batch=16, folder=run, start="resume", epochs=3)
            self.assertEqual(more.steps, 24)

    def test_does_not_fit(self) -> None:
        x, y = points()
        with self.assertRaises(hr.DoesNotFit) as e:
            fit((x, y), budget="20MiB")
        self.assertGreater(e.exception.minimum_bytes, 1 << 20)
        self.assertTrue(e.exception.plan is not None)


class Callbacks(unittest.TestCase):
    def test_functions_and_objects(self) -> None:
        x, y = points()
        seen = []

        class Keraslike:
            def on_train_begin(self) -> None:
                seen.append("begin")

            def on_epoch_end(self, epoch: int, logs: dict) -> None:
                seen.append((epoch, round(logs["loss"], 6)))

            def on_train_end(self) -> None:
                seen.append("end")

        kinds = set()
        h = fit((x, y), callbacks=[Keraslike(), lambda e: kinds.add(e.kind)])
        self.assertEqual(seen, ["begin", *[(i, round(v, 6)) for i, v in enumerate(h.history["loss"])], "end"])
        self.assertTrue({"started", "step", "epoch"} <= kinds)

    def test_stops_when_told(self) -> None:
        x, y = points()
        h = fit((x, y), epochs=9, callbacks=[lambda e: e.kind != "step" or e.step < 5])
        self.assertEqual(h.end, "cancelled")
        self.assertEqual(h.steps, 5)

    def test_an_exception_comes_out_as_it_is(self) -> None:
        x, y = points()

        def bad(event: hr.Event) -> None:
            if event.kind == "step":
                raise ZeroDivisionError("mine")

        with self.assertRaisesRegex(ZeroDivisionError, "mine"):
            fit((x, y), callbacks=[bad])

    def test_ctrl_c_saves_keeps_weights_and_stops(self) -> None:
        x, y = points()
        m = hr.model(net, classes=3)
        with tempfile.TemporaryDirectory() as folder:
            run = os.path.join(folder, "run")

            def press(event: hr.Event) -> None:
                if event.kind == "step" and event.step == 7:
                    signal.raise_signal(signal.SIGINT)

            with self.assertRaises(KeyboardInterrupt):
                hr.fit(m, (x, y), batch=32, epochs=90, rate=0.1, folder=run, verbose=False, callbacks=[press])
            self.assertTrue(os.path.exists(os.path.join(run, "last.safetensors")))
            self.assertIsNotNone(m.weights)
            more = hr.fit(m, (x, y), batch=32, epochs=1, rate=0.1, verbose=False)
            self.assertTrue(more.losses)


    def test_ctrl_c_ends_evaluation_prediction_and_planning(self) -> None:
        x, y = points()
        m = fit((x, y), epochs=1).model

        class Pressed:
            def __len__(self) -> int:
                return 100000

            def __getitem__(self, i: int) -> tuple:
                if i == 40:
                    signal.raise_signal(signal.SIGINT)
                return x[i % 256], y[i % 256]

        with self.assertRaises(KeyboardInterrupt):
            hr.evaluate(m, Pressed(), batch=4)
        with self.assertRaises(KeyboardInterrupt):
            hr.predict(m, hr.data(Pressed()), batch=4)
        timer = threading.Timer(0.2, lambda: os.kill(os.getpid(), signal.SIGINT))
        timer.start()
        with self.assertRaises(KeyboardInterrupt):
            hr.plan("resnet50", batch=256, budget="6GiB", device="null:80GiB", no_measure=True).explore()
            timer.join()  # on a machine so fast that it was planned
        self.assertTrue(hr.evaluate(m, (x, y)).loss > 0)  # all goes on


class Eager:
    """A tensor of tf.data as it looks from outside: a shape that is no tuple, numpy() and __array__, no DLPack."""

    def __init__(self, a: np.ndarray) -> None:
        self.a, self.dtype = a, type("DType", (), {"name": a.dtype.name})()

    @property
    def shape(self):
        return type("TensorShape", (), {"as_list": lambda _: list(self.a.shape), "__iter__": lambda _: iter(self.a.shape),
                                        "__len__": lambda _: self.a.ndim})()

    def numpy(self) -> np.ndarray:
        return self.a

    def __array__(self, dtype=None, copy=None) -> np.ndarray:
        return self.a if dtype is None else self.a.astype(dtype)


class Dataset:
    """tf.data.Dataset: iterated anew each epoch, of a length that may be unknown, with an element_spec, without [i]."""

    def __init__(self, fields: dict, batch: int) -> None:
        self.fields, self.batch = fields, batch
        self.element_spec = {k: (None, *v.shape[1:]) for k, v in fields.items()}

    def __len__(self) -> int:
        raise TypeError("The dataset length is unknown.")

    def __iter__(self):
        for i in range(0, len(next(iter(self.fields.values()))), self.batch):
            parts = {k: Eager(v[i:i + self.batch]) for k, v in self.fields.items()}
            yield parts if "x" in parts else tuple(parts.values())


class Sources(unittest.TestCase):
    def test_tf_data_as_arrays_do(self) -> None:
        x, y = points()
        want = fit(hr.data(x, y, shuffle=False)).losses
        self.assertEqual(fit(Dataset({"x": x, "y": y}, 32)).losses, want)
        self.assertEqual(fit(Dataset({"0": x, "1": y}, 20)).losses, want)

    def test_an_exception_names_its_sample(self) -> None:
        x, y = points()

        class Broken:
            def __len__(self) -> int:
                return 256

            def __getitem__(self, i: int) -> tuple:
                if i == 77:
                    raise RuntimeError("no such picture")
                return x[i], y[i]

        with self.assertRaisesRegex(hr.DataError, "sample 77: RuntimeError: no such picture") as e:
            fit(hr.data(Broken(), shuffle=False), epochs=3)
        self.assertIsInstance(e.exception.__cause__, RuntimeError)

    def test_samples_of_another_shape_are_named(self) -> None:
        x, y = points()
        rows = [(x[i] if i != 40 else x[i][:7], y[i]) for i in range(256)]
        with self.assertRaisesRegex(hr.DataError, r"sample 40: .*x is \(7,\)"):
            fit(hr.data(rows, shuffle=False))

    def test_a_stream_that_breaks(self) -> None:
        x, y = points()

        def rows():
            for i in range(256):
                if i == 130:
                    raise OSError("the disk is gone")
                yield x[i], y[i]

        with self.assertRaisesRegex(hr.DataError, "sample 130: OSError"):
            fit(hr.data(rows))

    def test_what_is_no_data(self) -> None:
        for bad in (3, object()):
            with self.assertRaises(hr.UsageError):
                hr.data(bad)
        with self.assertRaises(hr.UsageError):
            hr.data(np.zeros((3, 2)), np.zeros(4))
        with self.assertRaisesRegex(hr.DataError, "no samples"):
            fit(hr.data(lambda: iter(())))

    def test_queues_are_counted_in_the_budget(self) -> None:
        x, y = points()
        source = hr.data(lambda: zip(x, y))
        p = hr.plan(hr.model(net, classes=3), source, batch=32, budget=BUDGET, data_budget_bytes=3 << 20, no_measure=True)
        self.assertEqual(p.pipeline_bytes, 3 << 20)

    def test_dlpack(self) -> None:
        class Tensor:
            def __init__(self, a: np.ndarray) -> None:
                self.a, self.shape = a, a.shape

            def __len__(self) -> int:
                return len(self.a)

            def __dlpack__(self, **kw):
                return self.a.__dlpack__(**kw)

            def __dlpack_device__(self):
                return self.a.__dlpack_device__()

        x, y = points()
        self.assertEqual(fit(hr.data(Tensor(x), Tensor(y), shuffle=False)).losses, fit(hr.data(x, y, shuffle=False)).losses)


class Loops(unittest.TestCase):
    def test_steps_as_fit_does(self) -> None:
        x, y = points()
        h = fit(hr.data(x, y, shuffle=False), epochs=1)
        m = hr.model(net, classes=3)
        with hr.session(m, batch=32, budget=BUDGET, rate=0.1, seed=3, no_measure=True) as s:
            losses = [s.step(x[i:i + 32], y[i:i + 32]) for i in range(0, 256, 32)]
            w = s["w"]
        self.assertEqual(losses, h.losses)
        self.assertEqual(w.shape, (20, 32))
        self.assertIsNotNone(m.weights)

    def test_gradients_then_apply_is_a_step(self) -> None:
        x, y = points(64)
        options = {"batch": 32, "budget": BUDGET, "rate": 0.1, "seed": 3, "no_measure": True}
        mine, theirs = hr.model(net, classes=3), hr.model(net, classes=3)
        with hr.session(mine, **options) as a, hr.session(theirs, keep_gradients=True, **options) as b:
            for i in (0, 32):
                one = a.step(x[i:i + 32], y[i:i + 32])
                grads = b.gradients(x[i:i + 32], y=y[i:i + 32])
                two = b.apply(grads)
                self.assertAlmostEqual(one, two, places=5)
            self.assertEqual(sorted(grads), ["b", "v", "w"])
            np.testing.assert_allclose(a["w"], b["w"], atol=1e-6)
            before = b["b"]
            b.gradients(x[:32], y[:32])
            b.apply({"w": np.zeros((20, 32)), "v": np.zeros((32, 3)), "b": np.zeros(32)})
            self.assertLess(np.abs(b["b"] - before).max(), 0.2)

    def test_wrong_batches_are_sentences(self) -> None:
        x, y = points()
        with hr.session(hr.model(net, classes=3), batch=32, budget=BUDGET) as s:
            with self.assertRaises(hr.Error):
                s.step(x[:7], y[:7])
            with self.assertRaisesRegex(hr.UsageError, "no input 'z'"):
                s.step(x[:32], z=y[:32])
            self.assertGreater(s.step(x[:32], y[:32]), 0)

    def test_a_session_that_nobody_closed_goes_by_itself(self) -> None:
        x, y = points()
        s = hr.session(hr.model(net, classes=3), batch=32, budget=BUDGET)
        self.assertGreater(s.step(x[:32], y[:32]), 0)
        plan = s.plan
        del s
        gc.collect()
        plan.close()
        self.assertFalse(plan.trainers)
        s = hr.session(hr.model(net, classes=3), batch=32, budget=BUDGET)
        s.close()
        with self.assertRaisesRegex(hr.UsageError, "closed"):
            s.step(x[:32], y[:32])

    def test_two_in_one_arena(self) -> None:
        x, y = points()
        with hr.together(dict(model=hr.model(net, classes=3), batch=32, rate=0.1), dict(model=hr.model(net, classes=3), batch=16),
                         budget=BUDGET) as (a, b):
            for i in range(0, 128, 32):
                first, second = a.step(x[i:i + 32], y[i:i + 32]), b.step(x[i:i + 16], y[i:i + 16])
            self.assertGreater(first, 0)
            self.assertGreater(second, 0)
            self.assertEqual(sorted(a.parameters), sorted(b.parameters))

    def test_threads_train_at_the_same_time(self) -> None:
        x, y = points()
        alone = fit(hr.data(x, y, shuffle=False), threads=1).losses
        found = []
        workers = [threading.Thread(target=lambda: found.append(fit(hr.data(x, y, shuffle=False), threads=1).losses)) for _ in range(2)]
        for t in workers:
            t.start()
        for t in workers:
            t.join()
        self.assertEqual(found, [alone, alone])


class Ops(unittest.TestCase):
    def test_an_op_in_numpy_trains_as_the_library_s_own(self) -> None:
        own = hr.Custom("my_relu", lambda x: np.maximum(x, 0), backward=lambda x, y, dy: dy * (x > 0))

        def with_own(g: hr.Graph, batch: int, training: bool) -> None:
            x, y = g.input("x", (batch, 20)), g.input("y", (batch,), "i32")
            h = g.custom(own, x @ g.param("w", (20, 32), std=0.2) + g.param("b", (32,)))
            logits = h @ g.param("v", (32, 3), std=0.2)
            g.result(logits, "logits")
            g.result(g.cross_entropy(logits, y), "loss")

        x, y = points()
        options = {"batch": 32, "epochs": 1, "rate": 0.1, "verbose": False, "seed": 3, "no_measure": True}
        m = hr.model(with_own, classes=3)
        h = hr.fit(m, hr.data(x, y, shuffle=False), **options)
        np.testing.assert_allclose(h.losses, fit(hr.data(x, y, shuffle=False), epochs=1).losses, rtol=1e-6)
        self.assertEqual(hr.predict(m, x).shape, (256, 3))

    def test_what_it_raises_comes_out(self) -> None:
        def broken(x: np.ndarray) -> np.ndarray:
            raise FloatingPointError("in my op")

        own = hr.Custom("broken", broken, backward=lambda x, y, dy: dy)

        def model(g: hr.Graph, batch: int, training: bool) -> None:
            x = g.custom(own, g.input("x", (batch, 3)) * g.param("w", (3,), value=1.0))
            g.result(g.mean(x), "loss")

        with self.assertRaisesRegex(FloatingPointError, "in my op"):
            with hr.session(hr.model(model), batch=4) as s:
                s.step(np.ones((4, 3)))

    def test_a_mistake_in_a_graph_is_raised_where_it_is_made(self) -> None:
        g = hr.Graph()
        with self.assertRaisesRegex(hr.UsageError, "matmul"):
            g.input("a", (2, 3)) @ g.input("b", (4, 5))

    def test_a_graph_run_by_hand(self) -> None:
        g = hr.Graph()
        x, w = g.input("x", (4, 3)), g.param("w", (3,), value=2.0)
        loss = g.mean(x * w)
        g.result(loss, "loss")
        (dw,) = g.gradients(loss, [w])
        g.result(dw, "dw")
        a = np.arange(12, dtype="float32").reshape(4, 3)
        with hr.Run([g.freeze()]) as r:
            r.put("x", a)
            r.step()
            self.assertAlmostEqual(float(r.get("loss")), 2 * a.mean(), places=5)
            np.testing.assert_allclose(r.get("dw"), a.mean(0) / 3, rtol=1e-6)


class Apart(unittest.TestCase):
    def test_a_process_of_its_own_trains_as_this_one(self) -> None:
        x, y = points()
        here = fit(hr.data(x, y), epochs=1)
        there = fit(hr.data(x, y), epochs=1, process="own", budget="300MiB")
        self.assertEqual(len(there.losses), len(here.losses))
        self.assertAlmostEqual(there.loss, here.loss, delta=0.3)
        self.assertAlmostEqual(hr.evaluate(there.model, (x, y)).loss, hr.evaluate(here.model, (x, y)).loss, delta=0.3)

    def test_its_refusals_and_stops_come_back(self) -> None:
        x, y = points()
        with self.assertRaises(hr.DoesNotFit) as e:
            fit((x, y), process="own", budget="12MiB")
        self.assertGreater(e.exception.minimum_bytes, 12 << 20)
        h = fit((x, y), epochs=900, process="own", callbacks=[lambda e: e.kind != "step" or e.step < 20])
        self.assertEqual(h.end, "cancelled")
        self.assertLess(h.epochs, 900)
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # as for a program behind nohup: the stop of a callback comes through
        try:
            h = fit((x, y), epochs=900, process="own", callbacks=[lambda e: e.kind != "step" or e.step < 20])
        finally:
            signal.signal(signal.SIGINT, signal.default_int_handler)
        self.assertEqual(h.end, "cancelled")

    def test_it_asks_this_one_for_samples(self) -> None:
        x, y = points()
        val = [(x[i], y[i]) for i in range(32)]
        here = fit(hr.data(lambda: zip(x, y)), epochs=2, val_data=val)
        there = fit(hr.data(lambda: zip(x, y)), epochs=2, val_data=val, process="own")
        self.assertEqual(there.losses, here.losses)  # streams come in order
        self.assertEqual(there.val_loss, here.val_loss)
        shuffled = fit(hr.data([(x[i], y[i]) for i in range(len(x))]), epochs=1, process="own")
        self.assertEqual(shuffled.steps, here.steps // 2)

        def broken():
            yield from zip(x[:40], y[:40])
            raise RuntimeError("on purpose")

        with self.assertRaisesRegex(hr.DataError, "sample 40: RuntimeError: on purpose") as e:
            fit(hr.data(broken), process="own")
        self.assertIsInstance(e.exception.__cause__, RuntimeError)


class Files(unittest.TestCase):
    def test_a_function_becomes_a_model_file(self) -> None:
        x, y = points()
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "my.hr")
            hr.model(net, classes=3).write(path)
            h = hr.fit(path, (x, y), batch=32, epochs=1, rate=0.1, verbose=False, seed=3, no_measure=True)
            self.assertEqual(h.losses, fit((x, y), epochs=1).losses)
        gc.collect()


if __name__ == "__main__":
    unittest.main()

"""The package without NumPy: bindings, plans, refusals, devices, the command."""
import ctypes
import importlib.util
import os
import subprocess
import sys
import tempfile
import unittest

import headroom as hr
from headroom import _c, library

SOURCE = os.environ.get("HEADROOM_SOURCE", os.path.join(os.path.dirname(__file__), "..", ".."))


def python(code: str, **env: str) -> subprocess.CompletedProcess:
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env={**os.environ, **env})


class Bindings(unittest.TestCase):
    def test_every_struct_lies_as_the_headers_say(self) -> None:
        struct = None
        count = 0
        with open(os.path.join(SOURCE, "tests/abi/abi.txt")) as file:
            for line in file:
                if line.startswith("struct"):
                    _, name, size = line.split()
                    struct = getattr(_c, name)
                    self.assertEqual(ctypes.sizeof(struct), int(size), name)
                elif line.startswith("  ") and struct is not None:
                    parts = line.split()
                    field = getattr(struct, parts[-1])
                    self.assertEqual((field.offset, field.size), (int(parts[0]), int(parts[1])), line)
                    count += 1
                else:
                    struct = None
        self.assertGreater(count, 300)

    def test_versions_are_one(self) -> None:
        self.assertEqual(hr.__version__, library.VERSION)
        self.assertEqual(library.library().hr_version().decode(), hr.__version__)

    def test_another_version_is_a_sentence(self) -> None:
        r = python("import headroom.library as l; l.VERSION = '9.9.9'; l.library()")
        self.assertIn("this package is version 9.9.9, but", r.stderr)

    def test_importing_imports_and_opens_little(self) -> None:
        heavy = ("numpy", "torch", "keras", "json", "dataclasses", "ctypes")
        r = python(f"import sys, headroom; print([m for m in {heavy} if m in sys.modules])")
        self.assertEqual(r.stdout.strip(), "[]", r.stderr)

    def test_used_after_fork_is_a_sentence(self) -> None:
        r = python("import os, headroom as hr\nhr.devices()\n"
                   "if os.fork() == 0:\n    try: hr.devices()\n    except hr.Error as e: print(e, flush=True)\n    os._exit(0)\nos.wait()")
        self.assertIn('"spawn"', r.stdout)


class Plans(unittest.TestCase):
    def test_prints_as_the_command_does(self) -> None:
        p = hr.plan("lenet:classes=10", batch=8, budget="200MiB", device="null:1GiB", no_measure=True)
        words = ["plan", "lenet:classes=10", "--batch", "8", "--budget", "200MiB", "--device", "null:1GiB", "--no-measure"]
        command = subprocess.run([os.environ["HEADROOM_PROGRAM"], *words], capture_output=True, text=True).stdout
        for line in str(p).splitlines()[:3]:
            self.assertIn(line.split("  ")[0], command)
        self.assertTrue(p.fits and bool(p))
        self.assertEqual(p.peak_bytes, p.runtime_bytes + p.pipeline_bytes + p.persistent_bytes + p.arena_bytes)

    def test_draws_itself(self) -> None:
        p = hr.plan("lenet:classes=10", batch=8, budget="200MiB", device="null:1GiB", no_measure=True, explore=True)
        html = p._repr_html_()
        self.assertEqual(html.partition("<iframe")[0].count("<svg"), 2)
        self.assertIn("srcdoc=", html)
        self.assertGreater(p.largest_batch, 8)
        self.assertTrue(p.curve and p.choices)

    def test_a_refusal_has_minimum_op_and_ways(self) -> None:
        p = hr.plan("lenet:classes=10", batch=64, budget="1MiB", device="null:1GiB", device_spec="runtime=0", no_measure=True)
        self.assertFalse(p)
        with self.assertRaises(hr.DoesNotFit) as e:
            p.check_fits()
        self.assertGreater(e.exception.minimum_bytes, 1 << 20)
        self.assertTrue(e.exception.op)
        self.assertTrue(e.exception.ways)
        self.assertIn("=", repr(e.exception.ways[0]))
        with self.assertRaisesRegex(hr.Error, "does not fit"):
            p.page("plan.html")
        self.assertIn("does not fit", str(e.exception))

    def test_options_have_one_name(self) -> None:
        with self.assertRaisesRegex(hr.UsageError, "it is called rate here"):
            hr.plan("lenet", batch=8, lr=0.1)
        with self.assertRaisesRegex(hr.UsageError, "no option 'bach'"):
            hr.plan("lenet", bach=8)
        with self.assertRaises(hr.UsageError):
            hr.plan("lenot", batch=8)
        with self.assertRaises(ValueError):
            hr.plan("lenet", batch=8, optimizer="sdg")

    def test_one_line_models(self) -> None:
        self.assertTrue(hr.plan("net: input(28x28x1) | conv(32) | relu | global_pool | dense(10)", batch=4, device="null:1GiB",
                                no_measure=True))

    def test_a_problem_of_another_system(self) -> None:
        p = hr.plan("lenet:classes=10", batch=8, device="null:1GiB", no_measure=True)
        q = hr.plan_problem(p.print("problem"))
        self.assertTrue(q.fits)


class Machine(unittest.TestCase):
    def test_devices_and_doctor(self) -> None:
        names = [d.name for d in hr.devices()]
        self.assertIn("host", names)
        report = hr.doctor()
        self.assertTrue(report.checks)
        self.assertIn("host", str(report))

    def test_ops_are_those_of_the_table(self) -> None:
        conv = hr.ops()["conv2d"]
        self.assertIn("stride", conv.attributes)
        self.assertIn("conv2d", dir(hr.Graph()))
        with self.assertRaises(AttributeError):
            hr.Graph().node3d(None)

    def test_the_command(self) -> None:
        r = subprocess.run([sys.executable, "-m", "headroom", "--version"], capture_output=True, text=True)
        self.assertIn(hr.__version__, r.stdout, r.stderr)


class Commands(unittest.TestCase):
    """python -m headroom export, load, onnx: what was typed wrong is a sentence and exit code 2."""

    def refused(self, words: str, sentence: str) -> None:
        with tempfile.TemporaryDirectory() as folder:
            with open(os.path.join(folder, "needs.py"), "w") as file:
                file.write("import nothing_of_that_name\n")
            package = os.path.dirname(os.path.dirname(os.path.abspath(hr.__file__)))
            r = subprocess.run([sys.executable, "-m", "headroom", *words.split()], capture_output=True, text=True, cwd=folder,
                               env={**os.environ, "PYTHONPATH": package})
        self.assertEqual(r.returncode, 2, r.stderr)
        self.assertIn(sentence, r.stderr)
        self.assertNotIn("Traceback", r.stderr)

    def test_what_is_not_there_is_named(self) -> None:
        self.refused("export none.keras -o a.hr", "none.keras: no such file or directory")
        self.refused("export none:make -o a.hr", "none: no module none in this folder")
        self.refused("export os:nothing -o a.hr", "os has no nothing")
        self.refused("export needs:make -o a.hr", "needs needs the module nothing_of_that_name, which is not installed")
        self.refused("export resnet -o a.hr", "write MODULE:NAME")
        self.refused("load none:make run -o a.pt", "none: no module none")

    @unittest.skipUnless(importlib.util.find_spec("numpy"), "no NumPy")
    def test_files_that_are_not_there_are_named(self) -> None:
        self.refused("export none.onnx -o a.hr", "none.onnx: no such file or directory")
        self.refused("onnx none.hr none.safetensors -o a.onnx", "none.safetensors: no such file or directory")


if __name__ == "__main__":
    unittest.main()

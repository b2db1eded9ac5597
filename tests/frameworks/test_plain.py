"""What the front ends share, without any package: sizes, model files as text, ONNX's wire format."""
from __future__ import annotations

import argparse
import unittest
from pathlib import Path

from headroom import __main__ as command
from headroom import file
from headroom.graph import Form, Model, quoted
from headroom.onnx import proto
from headroom.size import Size, product

RECORDED = Path(__file__).parent / "recorded"


class Sizes(unittest.TestCase):
    def test_arithmetic(self) -> None:
        n = Size(1)
        self.assertEqual(str(n * 4 + 1), "4N+1")
        self.assertEqual((n * 8) // 2, n * 4)
        self.assertEqual((n * 8) // n, 8)
        self.assertEqual(n * 3 - n * 3, 0)
        self.assertEqual(product([n, 2, 3]), Size(6))
        self.assertEqual((5 - n).at(2), 3)

    def test_what_has_no_form_is_refused(self) -> None:
        with self.assertRaises(ValueError):
            Size(1) * Size(1)
        with self.assertRaises(ValueError):
            Size(3) // 2


class ModelFiles(unittest.TestCase):
    def test_recorded_files_read_back_as_the_same_text(self) -> None:
        files = sorted(RECORDED.glob("*.hr"))
        self.assertGreater(len(files), 3)
        for path in files:
            text = path.read_text()
            self.assertEqual(file.parse(text).text(), text, path.name)

    def test_what_nothing_needs_is_not_written(self) -> None:
        f = Form()
        x = f.input("x", "f32", (Size(1), 4))
        f.node("relu", [x], [("f32", x.shape)])
        y = f.node("tanh", [x], [("f32", x.shape)])[0]
        f.result("y", y)
        self.assertEqual(f.text(), '%1 = input "x" f32[N,4]\n%2 = tanh(%1) @""\nresult "y" %2\n')

    def test_both_forms_declare_every_parameter(self) -> None:
        a, b = Form(), Form()
        a.persistent("param", "w", "f32", (3,), "constant 0 0")
        b.persistent("state", "s", "f32", (2,), "constant 1 0")
        m = Model("m", 0, a, b)
        self.assertEqual(set(m.train.named), {"w", "s"})
        self.assertEqual(set(m.eval.named), {"w", "s"})

    def test_names_are_quoted_and_unquoted(self) -> None:
        for name in ('a"b', "a\\b", "sch\u00f6n", "a\nb", "plain"):
            self.assertEqual(file.unquoted(quoted(name)[1:-1]), name)

    def test_inputs_on_the_command_line(self) -> None:
        self.assertEqual(command.spec("f32[N,3,224,224]"), ("f32", ["N", 3, 224, 224]))
        for wrong in ("f32[3,N]", "f99[N]", "f32", "f32[N,3"):
            with self.assertRaises(argparse.ArgumentTypeError):
                command.spec(wrong)


class Wire(unittest.TestCase):
    def test_messages_come_back(self) -> None:
        model = {"ir_version": 8, "graph": {"name": "g", "node": [{"op_type": "Relu", "input": ["x"], "output": ["y"],
                 "attribute": [{"name": "a", "ints": [1, -2, 2**40], "type": 7}, {"name": "f", "f": 0.5, "type": 1}]}]}}
        back = proto.parse("Model", proto.serialize("Model", model))
        node = back["graph"]["node"][0]
        self.assertEqual(node["attribute"][0]["ints"], [1, -2, 2**40])
        self.assertEqual(node["attribute"][1]["f"], 0.5)
        self.assertEqual(back["ir_version"], 8)

    def test_cut_short_or_too_deep_is_malformed(self) -> None:
        whole = proto.serialize("Model", {"graph": {"name": "abcdef", "node": [{"op_type": "Relu", "input": ["x"]}]}})
        for n in range(1, len(whole)):
            with self.assertRaises(proto.Malformed):
                proto.parse("Model", whole[:n])
        for data in (b"\xff" * 12, b"\x3a\x80\x80\x80\x80\x80\x80\x80\x80\x01", b"\x0b"):
            with self.assertRaises(proto.Malformed):
                proto.parse("Model", data)


if __name__ == "__main__":
    unittest.main()

"""The examples of docs/python.md that need NumPy alone."""
import os
import random
import struct
import tempfile
import unittest
import zlib

import documented


def png(path: str, side: int, color: tuple) -> None:
    rows = b"".join(b"\0" + bytes(min(255, max(0, c + random.randrange(-30, 30))) for _ in range(side) for c in color) for _ in range(side))

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    head = struct.pack(">IIBBBBB", side, side, 8, 2, 0, 0, 0)
    with open(path, "wb") as file:
        file.write(b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b""))


class Examples(unittest.TestCase):
    def check(self, name: str, folder: str) -> str:
        done = documented.run(name, folder)
        self.assertEqual(done.returncode, 0, done.stderr[-2000:])
        return done.stdout

    def test_arrays(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            self.assertIn("loss", self.check("arrays", folder))

    def test_images(self) -> None:
        random.seed(1)
        with tempfile.TemporaryDirectory() as folder:
            for name, color in (("blue", (40, 40, 200)), ("red", (200, 40, 40))):
                os.makedirs(os.path.join(folder, "images", name))
                for i in range(16):
                    png(os.path.join(folder, "images", name, f"{i}.png"), 16, color)
            self.assertIn("of", self.check("images", folder))

    def test_loop(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            self.check("loop", folder)


if __name__ == "__main__":
    unittest.main()

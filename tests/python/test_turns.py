"""turns.py with rows that only wait, hang, die and ask: one turn at a time, and nothing waits forever."""
import os
import sys
import tempfile
import unittest

from turns import Table, Turn

ROW = """
import os, sys, time
sys.path.insert(0, {here!r})
from turns import Turn
way = sys.argv[1]
print("here", flush=True)
turn = Turn(*map(int, sys.argv[-1].split(",")))
def note(word):
    fd = os.open({notes!r}, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    os.write(fd, f"{{word}} {{os.getpid()}}\\n".encode())
    os.close(fd)
for kind in ("ops", "ops", "steps"):
    with turn(kind), turn(kind):
        note("begins")
        if way == "hangs":
            time.sleep(1000)
        if way == "dies":
            os._exit(7)
        time.sleep(0.05)
        note("ends")
print("all three", flush=True)
if way == "stays":
    time.sleep(1000)
"""


class Turns(unittest.TestCase):
    def run_rows(self, ways, **settings):
        found = {}
        with tempfile.TemporaryDirectory() as folder:
            notes = os.path.join(folder, "notes")
            code = ROW.format(here=os.path.dirname(os.path.abspath(__file__)), notes=notes)

            def make(name):
                return [sys.executable, "-c", code, name[0]], os.path.join(folder, "-".join(name)), dict(os.environ)

            names = [(way, str(i)) for i, way in enumerate(ways)]
            table = Table(names, make, lambda name, text, why: found.update({name: (text, why)}), **settings)
            left = table.run()
            with open(notes) as file:
                return names, found, left, file.read().split("\n")[:-1]

    def test_rows_have_turns_one_after_the_other(self):
        names, found, left, notes = self.run_rows(["works"] * 5, jobs=4, seconds=300)
        self.assertEqual((left, {why for _, why in found.values()}), ([], {""}))
        self.assertTrue(all("all three" in found[n][0] for n in names), found)
        self.assertEqual(len(notes), 30)
        for begin, end in zip(notes[::2], notes[1::2]):
            self.assertEqual((begin.split()[0], end.split()[0], begin.split()[1]), ("begins", "ends", end.split()[1]))
        rows = [note.split()[1] for note in notes[::2]]
        self.assertEqual(len(set(rows[8:12])), 4)  # the steps of the first four, when all of them had had their ops
        self.assertEqual(rows[12:], rows[-1:] * 3)

    def test_a_row_that_dies_or_hangs_in_its_turn_gives_it_back(self):
        names, found, left, _ = self.run_rows(["hangs", "dies", "works", "works"], jobs=4, seconds=300, hold=5)
        self.assertEqual(left, [])
        self.assertIn("kept its turn", found[names[0]][1])
        self.assertEqual(found[names[1]], ("here\n", ""))
        self.assertTrue(all("all three" in found[n][0] and not found[n][1] for n in names[2:]), found)

    def test_when_time_is_over_what_was_said_is_kept(self):
        names, found, left, _ = self.run_rows(["stays", "works"], jobs=1, seconds=6, start=1)
        self.assertIn("here", found[names[0]][0])
        self.assertIn("no time", found[names[0]][1])
        self.assertEqual(left, names[1:])

    def test_without_a_table_nothing_waits(self):
        turn = Turn()
        with turn("ops"), turn("steps"):
            self.assertEqual(turn.around("ops", lambda x: x + 1)(1), 2)


if __name__ == "__main__":
    unittest.main()

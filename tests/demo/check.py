"""check.py RUN.jsonl: the log of the short demo, read by Python's own JSON, line by line."""
import json
import math
import sys


def need(good, text):
    if not good:
        sys.exit(f"check.py: {text}")


def load(path):
    with open(path, encoding="utf-8") as f:
        text = f.read()
    need(text.endswith("\n"), "the last line is cut")
    # A key given twice would be lost silently by a plain dict.
    def pairs(items):
        need(len(items) == len(dict(items)), "a key is given twice")
        return dict(items)

    return [json.loads(line, object_pairs_hook=pairs) for line in text.splitlines()]


lines = load(sys.argv[1])
events = [line["event"] for line in lines]
steps = [line for line in lines if line["event"] == "step"]
need(events[0] == "start" and events[-1] == "end", "it does not begin with start and end with end")
need([s["step"] for s in steps] == list(range(1, len(steps) + 1)), "a step is missing or there twice")
need(len(steps) == 20 and events.count("validation") == 2 and events.count("epoch") == 2, "counts are wrong")
start, end = lines[0], lines[-1]
need(start["version"] == 1 and start["batch"] == 32, "the start does not say what was trained")
need(end["reason"] == "done" and end["step"] == 20, "the end does not say that it is done")
for s in steps:
    need(math.isfinite(s["loss"]) and 0 <= s["accuracy"] <= 1, f"step {s['step']}: loss or accuracy")
    need(s["memory_bytes"] <= s["peak_bytes"] <= start["budget_bytes"], f"step {s['step']}: memory")
    need(s["wait_seconds"] <= s["seconds"] + 1e-6, f"step {s['step']}: time")
need(end["measured_peak_bytes"] <= end["planned_peak_bytes"] <= start["budget_bytes"], "the promise")
need(all(a["time"] <= b["time"] for a, b in zip(lines, lines[1:])), "time goes back")
print(f"{len(lines)} lines are right")

"""A round trip: data as npy files, a training and an evaluation by the headroom program."""
from __future__ import annotations

import json
import os
import subprocess
from typing import Any

PROGRAM = os.environ.get("HEADROOM_PROGRAM", "")


def data(folder: str, **fields: Any) -> None:
    """Saves arrays under the names of the model's inputs; images as they lie, (N, H, W, C)."""
    import numpy as np

    for name, array in fields.items():
        np.save(f"{folder}/{name}.npy", array)


def run(folder: str, *words: str) -> str:
    names = sorted(n[:-4] for n in os.listdir(folder) if n.endswith(".npy"))
    source = f"npy({','.join(n + '.npy' for n in names)},names={','.join(names)})"
    done = subprocess.run([PROGRAM, *words, "--data", source], cwd=folder, capture_output=True, text=True)
    if done.returncode:
        raise AssertionError(done.stderr[-800:])
    return done.stdout


def train(folder: str, steps: int = 6) -> None:
    """my.hr -> run"""
    run(folder, "train", "./my.hr", "--batch", "8", "--steps", str(steps), "--no-measure", "--out", "run")


def evaluate(folder: str) -> float:
    """The loss of the run over all samples."""
    return float(json.loads(run(folder, "eval", "run", "--batch", "8", "--json"))["loss"])

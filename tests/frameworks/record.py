"""record.py: writes tests/frameworks/recorded: small exports with what their framework computes, for `make test` without it.

For each model NAME.hr (random ops at their mean), NAME.safetensors (weights), NAME.step.safetensors (under the same names the gradient
of each parameter and each state after one step of a batch of 4) and NAME.txt (loss in training and in evaluation).  Inputs are
numbers that tests/e2e/recorded_exports.c makes by the same rule.

    record.py [NAME...]"""
from __future__ import annotations

import os
import sys
from pathlib import Path

TOP = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(TOP / "python"), str(Path(__file__).parent)]
os.environ.setdefault("KERAS_BACKEND", "torch")

import numpy as np  # noqa: E402

from headroom import safetensors  # noqa: E402
from headroom.check import compare, ours, standing, without_chance  # noqa: E402
from headroom.size import at  # noqa: E402

BATCH = 4
USERS = ("choices", "rows", "volume", "grouped", "experts", "cell_loop", "contrast", "recommender", "sampled_vae", "mixer",
         "set_attention", "spatial_transformer")
HERE = Path(__file__).parent / "recorded"


def numbers(shape: tuple, type_: str, limit: int) -> np.ndarray:
    i = np.arange(int(np.prod(shape)))
    if type_ == "f32":
        return (((i * 37 + 11) % 101).astype("float32") / np.float32(50.5) - np.float32(1)).reshape(shape)
    return ((i * 7 + 3) % limit).astype("int32").reshape(shape)


def feeds_of(e) -> dict:
    orders = {n: o for n, _, o in e.inputs}
    feeds = {}
    for name, v in e.model.train.named.items():
        if v.entry.kind == "input":
            limit = max(e.model.classes, 1) if name == "label" else 10
            lying = numbers(at(v.shape, BATCH), v.type, limit)
            feeds[name] = np.ascontiguousarray(standing(lying, orders.get(name, range(lying.ndim))))
    return feeds


def record(name: str, e, theirs) -> None:
    feeds = feeds_of(e)
    a, b = ours(e, feeds, BATCH), theirs(feeds)
    states = [n for n in e.weights if e.model.train.named[n].entry.kind == "state"]
    r = compare(a, b, states)
    assert max(r.loss, r.gradient, r.statistics) < 1e-4, (name, r)
    step = {n: b.gradients[n].astype("float32") if n in b.gradients else b.states[n].astype("float32")
            if n in b.states else np.zeros_like(e.weights[n]) for n in e.weights}
    text = without_chance(e.model.text())
    e.model.text = lambda: text
    weights = e.save(HERE / f"{name}.hr")
    safetensors.write(weights.with_suffix(".step.safetensors"), step)
    (HERE / f"{name}.txt").write_text(f"{b.losses[0]:.9g} {a.eval_loss:.9g}\n")
    print(name, r.gradient)


def main() -> None:
    import keras
    import torch

    import headroom.keras as hk
    import headroom.torch as ht
    import zoo_keras
    import zoo_torch
    import zoo_users
    from headroom.keras.check import theirs as keras_theirs
    from headroom.torch.check import theirs as torch_theirs

    torch.set_num_threads(1)
    HERE.mkdir(exist_ok=True)
    ce = "cross_entropy"
    own = {"inplace": (zoo_torch.InPlace, (torch.randn(3, 3, 16, 16),), ce), "buffers": (zoo_torch.Buffers, (torch.randn(3, 10),), ce),
           "odd_pad": (zoo_torch.OddPad, (torch.randn(3, 3, 33, 33),), ce),
           "tied_lm": (lambda: zoo_torch.TiedLM(20, 8, 6), (torch.randint(0, 20, (3, 6)),), ce)}
    own |= {name: (make, inputs(3), loss) for name, (make, inputs, loss) in zoo_users.models().items() if name in USERS}
    names = sys.argv[1:]
    for name, (make, example, loss) in own.items():
        if names and name not in names:
            continue
        torch.manual_seed(0)
        module = make()
        e = ht.export(module, example, loss, name=name)
        record(name, e, lambda f, module=module, e=e: torch_theirs(module, [torch.from_numpy(f[n]) for n, _, _ in e.inputs],
                                                                   f.get("label"), e.loss, 1, 0.01))
    for name in ("mixed_fp16", "multi_output"):
        if names and name not in names:
            continue
        keras.utils.set_random_seed(0)
        make, loss, _ = zoo_keras.models()[name]
        model = make()
        e = hk.export(model, loss, name=name)
        record(name, e, lambda f, model=model, e=e: keras_theirs(model, e, f, 1, 0.01))


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
"""make_losses.py [NAME...]: writes tests/e2e/parity/NAME.json, the losses that PyTorch has in 20 steps of training.

Needs PyTorch and numpy, nothing else.  tests/e2e trains the same models on the same numbers and compares.  Both sides
make weights and batches by counting, so that no file of numbers has to be kept:

  batches   the rule of src/step/synthetic.h
  weights   element i of the parameter NAME, in torch's layout, is made of
              word = Philox4x32-10(counter = {i / 4, 0, 0x7fffff40, 0}, key = FNV-1a of NAME in 64 bits)[i % 4]
              u    = (word >> 8) * 2^-23 - 1                                     in [-1, 1), exact in f32
            two or more dimensions:         u * f32(1 / sqrt(product of all but the first))
            one, and NAME ends in "weight": 1 + u / 8
            one, any other:                 u / 8
            all in f32.  Running statistics begin at 0 and 1.

Rates are small on purpose: where a relu or a maximum flips, rounding alone sends two trainings on different ways, and
then PyTorch in f32 is as far from PyTorch in f64 as any other program.  Such a record says nothing and is refused.
"""
import json
import math
import pathlib
import sys

import numpy as np
import torch
from torch.nn import functional as F

import models

STEPS, SEED, CYCLE = 20, 1, 4
SGD = "optimizer=sgd,momentum=0.9,rate="
ADAMW = "optimizer=adamw,rate="
RECORDS = {
    "mlp": ("mlp:size=8,width=64", 16, "0.02", "0.001"),
    "lenet": ("lenet", 8, "0.002", "0.0001"),
    "resnet18": ("resnet18:size=64,classes=10", 4, "0.000002", "0.0000003"),
    "unet": ("unet:size=32,width=8,classes=3", 2, "0.002", "0.00001"),
    "vit-tiny": ("vit-tiny:size=64,classes=10", 4, "0.0005", "0.00002"),
    "gpt2-nano": ("gpt2-nano", 4, "0.05", "0.001"),
}


def philox(counter, key):
    """Ten rounds over arrays of four uint64 columns that hold 32-bit words."""
    mask = np.uint64(0xFFFFFFFF)
    c0, c1, c2, c3 = (np.asarray(c, np.uint64) for c in counter)
    k0, k1 = key & 0xFFFFFFFF, key >> 32
    for _ in range(10):
        p0 = c0 * np.uint64(0xD2511F53)
        p1 = c2 * np.uint64(0xCD9E8D57)
        c0, c1, c2, c3 = ((p1 >> np.uint64(32)) ^ c1 ^ np.uint64(k0), p1 & mask,
                          (p0 >> np.uint64(32)) ^ c3 ^ np.uint64(k1), p0 & mask)
        k0, k1 = (k0 + 0x9E3779B9) & 0xFFFFFFFF, (k1 + 0xBB67AE85) & 0xFFFFFFFF
    return np.stack([c0, c1, c2, c3], -1)


def words(n, sample, node, step, key):
    blocks = np.arange((n + 3) // 4, dtype=np.uint64)
    zero = np.zeros_like(blocks)
    out = philox((blocks, zero + np.uint64(sample), zero + np.uint64(node), zero + np.uint64(step)), key)
    return out.reshape(-1)[:n]


def weight(name, shape):
    key = 0xCBF29CE484222325
    for byte in name.encode():
        key = (key ^ byte) * 0x100000001B3 & 0xFFFFFFFFFFFFFFFF
    u = ((words(math.prod(shape), 0, 0x7FFFFF40, 0, key) >> np.uint64(8)).astype(np.float32)
         * np.float32(2.0**-23) - np.float32(1))
    if len(shape) > 1:
        u = u * np.float32(1 / math.sqrt(math.prod(shape[1:])))
    elif name.endswith("weight"):
        u = np.float32(1) + u / np.float32(8)
    else:
        u = u / np.float32(8)
    return torch.from_numpy(u.reshape(shape))


def batch(step, k, shape, limit):
    """Input number k: real when limit is 0, else whole numbers below it."""
    rows = [words(math.prod(shape[1:]), n, 0x7FFFFF10 + k, step, SEED) for n in range(shape[0])]
    x = np.stack(rows)
    if limit:
        return torch.from_numpy((x % np.uint64(limit)).astype(np.int64).reshape(shape))
    x = (x >> np.uint64(8)).astype(np.float32) * np.float32(2.0**-22) - np.float32(2)
    return torch.from_numpy(x.reshape(shape))


def inputs(step, name, keys, samples):
    if name == "gpt2-nano":
        shape, limit = (samples, keys.get("context", 32)), keys.get("vocab", 128)
        return batch(step, 0, shape, limit), batch(step, 1, shape, limit)
    size = keys.get("size", 28)
    image = (samples, size, size, 1 if name in ("mlp", "lenet") else 3)
    label = (samples, size, size) if name == "unet" else (samples,)
    x = batch(step, 0, image, 0).permute(0, 3, 1, 2).contiguous()
    return x, batch(step, 1, label, keys.get("classes", 10))


def train(text, samples, options, double=False):
    model, name, keys = models.build(text)
    with torch.no_grad():
        for key, p in model.named_parameters():
            p.copy_(weight(key, tuple(p.shape)))
    keys.setdefault("classes", 10)
    o = dict(piece.split("=") for piece in options.split(","))
    rate = float(o["rate"])
    model.train()
    if double:
        model.double()
    optimizer = (torch.optim.SGD(model.parameters(), lr=rate, momentum=float(o["momentum"]))
                 if o["optimizer"] == "sgd" else torch.optim.AdamW(model.parameters(), lr=rate))
    losses = []
    for step in range(STEPS):
        x, label = inputs(step % CYCLE, name, keys, samples)
        if double and x.is_floating_point():
            x = x.double()
        with torch.autocast("cpu", torch.bfloat16, enabled=o["precision"] == "bf16"):
            logits = model(x)
        axis = 1 if name == "unet" else -1
        logits = logits.movedim(axis, -1).flatten(0, -2)
        loss = F.cross_entropy(logits if double else logits.float(), label.flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


def main():
    folder = pathlib.Path(__file__).resolve().parents[2] / "tests" / "e2e" / "parity"
    for name in sys.argv[1:] or RECORDS:
        text, samples, sgd, adamw = RECORDS[name]
        runs = []
        for options in (SGD + sgd, ADAMW + adamw):
            for precision in ("f32", "bf16"):
                options_text = f"{options},precision={precision}"
                losses = train(text, samples, options_text)
                runs.append({"options": options_text, "losses": losses})
                drift = 0.0
                if precision == "f32":
                    exact = train(text, samples, options_text, double=True)
                    drift = max(abs(a - b) / b for a, b in zip(losses, exact))
                print(f"{name} {options_text}: {losses[0]:.6f} to {losses[-1]:.6f}, {drift:.1e} from f64",
                      flush=True)
                if drift > 2e-5:
                    sys.exit("rounding alone changes these losses; take a smaller rate")
        record = {"version": 1, "torch": torch.__version__.split("+")[0], "model": text,
                  "batch": samples, "seed": SEED, "cycle": CYCLE, "runs": runs}
        (folder / f"{name}.json").write_text(json.dumps(record, indent=1) + "\n")


if __name__ == "__main__":
    main()

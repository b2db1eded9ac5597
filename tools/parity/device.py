#!/usr/bin/env python3
"""device.py [HEADROOM [DEVICE [NAME...]]]: 8 steps of training in f32 on a device, against torchvision's and transformers' own models on the same one.

Weights are those that the libraries start with, in files that they wrote: safetensors of a state_dict, or save_pretrained (the
branches of a ResNet begin at a fifth of their size: see calm).  `headroom train` loads them with --init and trains on one batch from
.npy files; its losses have to be PyTorch's to 1e-4 for as long as PyTorch in f32, in f32 with the channels last, and in f64 agree to
5e-5.  Where these part within the 8 steps (deep networks from random weights do at a rate of 0.001), the rate is lowered tenfold until
they do not, or 1e-8 is reached.  DEVICE is host or cuda:0 (one run at a time there; the fake driver works, with PyTorch on the host).
Families are those of make_family_losses.py, and whole ResNets besides.  Skips without PyTorch.
"""
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time

try:
    import numpy as np
    import torch
    import torchvision
    import transformers  # noqa: F401 (make_family_losses uses it)
    from safetensors.torch import save_file
    from torch.nn import functional as F
except ImportError as missing:
    print(f"parity on a device: skipped, {missing}")
    sys.exit(0)

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from make_family_losses import RECORDS, TEXTS

STEPS, CLOSE, AGREE, AT_ONCE = 8, 1e-4, 5e-5, 4
RATES = {"lstm": 0.1, "bert": 0.01, "llama": 0.01, "resnet50": 1e-4, "resnext50_32x4d": 1e-4}  # others: 0.001
LEAST = 1e-8


def calm(make):
    """Branches of a ResNet begin at a fifth of their size: from random weights at full size, f32 keeps no digit over 100 layers."""
    model = make()
    for block in model.modules():
        if isinstance(block, torchvision.models.resnet.Bottleneck):
            torch.nn.init.constant_(block.bn3.weight, 0.2)
    return model


def whole(name):
    return (f"{name}:size=64,classes=10", 16, lambda: getattr(torchvision.models, name)(num_classes=10))


MODELS = dict(RECORDS, resnet101=whole("resnet101"), resnet152=whole("resnet152"), resnext101_32x8d=whole("resnext101_32x8d"))


def batch_of(name, text, samples):
    keys = dict(piece.split("=") for piece in text.partition(":")[2].split(",") if piece)
    rng = np.random.default_rng(5)
    if name.startswith(TEXTS):
        context, classes = int(keys.get("context", 16 if name.startswith("lstm") else 32)), int(keys.get("classes", 0))
        x = rng.integers(0, 128, (samples, context)).astype(np.int32)
        y = rng.integers(0, classes or 128, (samples,) if classes else (samples, context)).astype(np.int32)
    else:
        x = rng.standard_normal((samples, int(keys["size"]), int(keys["size"]), 3)).astype(np.float32)
        y = rng.integers(0, 10, samples).astype(np.int32)
    return x, y


def train(name, model, x, y, rate, device, double, last=False):
    model = model.double() if double else model.float()
    model.train().to(device, memory_format=torch.channels_last if last else torch.preserve_format)
    optimizer = torch.optim.SGD(model.parameters(), lr=rate, momentum=0.9)
    x, y = torch.from_numpy(x), torch.from_numpy(y).long().to(device)
    x = x.long() if x.dtype == torch.int32 else x.permute(0, 3, 1, 2).contiguous().to(torch.float64 if double else torch.float32)
    x = x.to(device)
    losses = []
    for _ in range(STEPS):
        logits = model(x, attention_mask=(x != 0).long()) if name == "bert-class" else model(x)
        logits = logits.logits if name.startswith(("llama", "bert")) else logits
        loss = F.cross_entropy(logits.flatten(0, -2), y.flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


def agreed(losses, again, exact):
    """How many of the first steps PyTorch agrees with itself on."""
    return next((i for i, (a, b, c) in enumerate(zip(losses, again, exact)) if max(abs(a - c), abs(b - c)) > AGREE * abs(c)), STEPS)


def reference(name, make, state, x, y, device):
    """A rate at which PyTorch agrees with itself over all steps; its losses in f32, in f32 summed in another order, and in f64."""
    rate = RATES.get(name.split("-")[0], 0.001)
    while True:
        found = []
        for double, last in ((False, False), (False, x.ndim == 4), (True, False)):
            model = make()
            model.load_state_dict(state)
            found.append(train(name, model, x, y, rate, device, double, last))
        if agreed(*found) == STEPS or rate / 10 < LEAST * 0.99:
            return rate, found
        rate /= 10


def begin(name, folder, program, device):
    """PyTorch's losses in both precisions, and headroom started on the same file."""
    text, samples, make = MODELS[name]
    at = pathlib.Path(folder, name)
    at.mkdir()
    torch.manual_seed(11)
    model = calm(make)
    if hasattr(model, "save_pretrained"):
        model.save_pretrained(at)
    else:
        save_file(model.state_dict(), at / "model.safetensors")
    x, y = batch_of(name, text, samples)
    np.save(at / "x.npy", x)
    np.save(at / "y.npy", y)
    where = "cuda" if device.startswith("cuda") and torch.cuda.is_available() else "cpu"
    state = {key: value.clone() for key, value in model.state_dict().items()}
    rate, found = reference(name, make, state, x, y, where)
    command = [program, "train", text, "--data", f"npy:{at}/x.npy,{at}/y.npy", "--batch", str(samples), "--init", str(at / "model.safetensors"),
               "--steps", str(STEPS), "--device", device, "--optimizer", "sgd", "--momentum", "0.9", "--rate", f"{rate:g}", "--warmup", "0", "--precision", "f32",
               "--log", str(at / "log"), "--no-save", "--no-measure"]
    if device.startswith("cuda"):  # products in f32, not in tf32; and no run takes the memory that PyTorch needs
        command += ["--exact", "--budget", "8GiB"]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    return name, process, at, rate, found


def end(name, process, at, rate, found):
    said = process.communicate()[1]
    if process.returncode:
        return f"NOT {name}: {said.strip()}"
    ours = [r["loss"] for r in map(json.loads, open(at / "log")) if r["event"] == "step"]
    losses, again, exact = found
    steps = agreed(*found)
    if len(ours) < STEPS or steps == 0:
        return f"NOT {name}: {len(ours)} losses, {steps} that PyTorch agrees with itself on"
    far = max(abs(a - b) / abs(b) for a, b in zip(ours[:steps], losses[:steps]))
    return (f"{'ok ' if far <= CLOSE else 'NOT'} {name}: {far:.1e} from PyTorch over {steps} steps of {rate:g} ({losses[0]:.6f} to {losses[-1]:.6f}), whose precisions "
            f"are {max(abs(a - b) / abs(b) for a, b in zip(losses + again, exact * 2)):.1e} apart")


def main():
    program = os.path.abspath(sys.argv[1] if len(sys.argv) > 1 else "build/headroom")
    device = sys.argv[2] if len(sys.argv) > 2 else "host"
    transformers.utils.logging.disable_progress_bar()
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
    began, failed, running = time.time(), 0, []
    print(f"torch {torch.__version__}, torchvision {torchvision.__version__}, transformers {transformers.__version__}, {device}", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        names = sys.argv[3:] or list(MODELS)
        while names or running:
            if names and len(running) < (AT_ONCE if device == "host" else 1):
                running.append(begin(names.pop(0), folder, program, device))
                continue
            line = end(*running.pop(0))
            failed += line.startswith("NOT")
            print(line, flush=True)
    print(f"{len(sys.argv[3:] or MODELS)} families in {time.time() - began:.0f} s, {failed} not as they should be")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())

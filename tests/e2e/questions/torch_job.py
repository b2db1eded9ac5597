"""torch_job.py JOB KEY=VALUE...: the jobs of tools/questions as PyTorch's own guides write them, on a GPU where there is one.

Prints "losses ..." and "step SECONDS" at the end.  What it needs and how it ends is judged from outside.
"""
import os
import sys
import time

import torch
import torch.nn.functional as F
from torch import nn

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"


class Basic(nn.Module):
    def __init__(self, i, o, stride):
        super().__init__()
        self.a, self.b = nn.Conv2d(i, o, 3, stride, 1, bias=False), nn.Conv2d(o, o, 3, 1, 1, bias=False)
        self.n, self.m = nn.BatchNorm2d(o), nn.BatchNorm2d(o)
        self.d = nn.Identity() if stride == 1 and i == o else nn.Sequential(nn.Conv2d(i, o, 1, stride, bias=False), nn.BatchNorm2d(o))

    def forward(self, x):
        return F.relu(self.m(self.b(F.relu(self.n(self.a(x))))) + self.d(x))


class Bottleneck(nn.Module):
    def __init__(self, i, o, stride):
        super().__init__()
        def conv(a, b, k, s=1):
            return nn.Sequential(nn.Conv2d(a, b, k, s, k // 2, bias=False), nn.BatchNorm2d(b))
        self.a, self.b, self.c = conv(i, o // 4, 1), conv(o // 4, o // 4, 3, stride), conv(o // 4, o, 1)
        self.d = nn.Identity() if stride == 1 and i == o else conv(i, o, 1, stride)

    def forward(self, x):
        return F.relu(self.c(F.relu(self.b(F.relu(self.a(x))))) + self.d(x))


def resnet(block, counts, widths, classes):
    """ResNet-18 and ResNet-50 as torchvision has them."""
    layers, i = [nn.Conv2d(3, 64, 7, 2, 3, bias=False), nn.BatchNorm2d(64), nn.ReLU(), nn.MaxPool2d(3, 2, 1)], 64
    for stage, (n, o) in enumerate(zip(counts, widths)):
        for j in range(n):
            layers.append(block(i, o, 2 if stage and j == 0 else 1))
            i = o
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(i, classes))


def resnet18(classes=10):
    return resnet(Basic, (2, 2, 2, 2), (64, 128, 256, 512), classes)


def resnet50(classes=1000):
    return resnet(Bottleneck, (3, 4, 6, 3), (256, 512, 1024, 2048), classes)


class UNet(nn.Module):
    def __init__(self, width, depth=4, classes=2):
        super().__init__()
        def two(i, m, o):
            return nn.Sequential(nn.Conv2d(i, m, 3, padding=1, bias=False), nn.BatchNorm2d(m), nn.ReLU(),
                                 nn.Conv2d(m, o, 3, padding=1, bias=False), nn.BatchNorm2d(o), nn.ReLU())
        w = [width << i for i in range(depth)] + [width << (depth - 1)]
        self.inc = two(3, width, width)
        self.down = nn.ModuleList(two(w[i], w[i + 1], w[i + 1]) for i in range(depth))
        self.up = nn.ModuleList(two(2 * w[i], w[i], w[i - 1] if i else width) for i in reversed(range(depth)))
        self.out = nn.Conv2d(width, classes, 1)

    def forward(self, x):
        skips = [self.inc(x)]
        for d in self.down:
            skips.append(d(F.max_pool2d(skips[-1], 2)))
        x = skips.pop()
        for u in self.up:
            x = u(torch.cat([skips.pop(), F.interpolate(x, scale_factor=2, mode="bilinear", align_corners=False)], 1))
        return self.out(x)


def images(n, size, classes, pixels=False):
    x = torch.randint(0, 256, (n, 3, size, size), dtype=torch.uint8)
    return x, torch.randint(0, classes, (n, size, size) if pixels else (n,))


def batches(x, y, batch):
    """A DataLoader with a transform, as the tutorials have it."""
    data = torch.utils.data.TensorDataset(x, y)
    for a, b in torch.utils.data.DataLoader(data, batch_size=batch, shuffle=True, pin_memory=DEVICE == "cuda"):
        yield (a.to(DEVICE).float() / 255 - 0.45) / 0.225, b.to(DEVICE)


class Loop:
    """The usual five lines, timed."""

    def __init__(self, model):
        self.model = model.to(DEVICE).train()
        self.optimizer = torch.optim.SGD(self.model.parameters(), 0.01, momentum=0.9)
        self.losses, self.times = [], []

    def step(self, x, y):
        at = time.time()
        self.optimizer.zero_grad()
        with torch.autocast("cuda", torch.bfloat16, enabled=DEVICE == "cuda"):
            loss = F.cross_entropy(self.model(x), y)
        loss.backward()
        self.optimizer.step()
        self.losses.append(loss.item())
        self.times.append(time.time() - at)


def one(make, o):
    x, y = images(o["batch"] * o["steps"], o["size"], o["classes"])
    loop = Loop(make(o["classes"]))
    for a, b in batches(x, y, o["batch"]):
        loop.step(a, b)
    return loop


def processes(o):
    return one(resnet18, o)


def third(o):
    return one(resnet50, o)


def two(o):
    """Two models alternately, in one process."""
    first, second = Loop(resnet18(o["classes"])), Loop(UNet(o["width"]))
    a = batches(*images(o["batch"] * o["steps"], o["size"], o["classes"]), o["batch"])
    b = batches(*images(o["batch2"] * o["steps"], o["size2"], 2, True), o["batch2"])
    for one, other in zip(a, b):
        first.step(*one)
        second.step(*other)
    first.losses += second.losses
    first.times = [p + q for p, q in zip(first.times, second.times)]
    return first


def validation(o):
    """Validation on a larger batch, its preprocessing (float, resize, flip, normalise) on the device."""
    loop = one(resnet18, o)
    x, y = images(o["val"], o["from"], o["classes"])
    loop.model.eval()
    with torch.no_grad():
        for a, b in torch.utils.data.DataLoader(torch.utils.data.TensorDataset(x, y), batch_size=o["val"]):
            a = a.to(DEVICE).float() / 255
            a = F.interpolate(a, size=(o["size"], o["size"]), mode="bilinear", antialias=True)
            a = (torch.where(torch.rand(len(a), 1, 1, 1, device=DEVICE) < 0.5, a.flip(3), a) - 0.45) / 0.225
            loop.losses.append(F.cross_entropy(loop.model(a), b.to(DEVICE)).item())
    return loop


def rank_main(rank, o, port):
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
    torch.distributed.init_process_group("gloo", rank=rank, world_size=o["replicas"])
    torch.manual_seed(rank)
    loop = Loop(resnet18(o["classes"]))
    loop.model = nn.parallel.DistributedDataParallel(loop.model)
    share = o["batch"] // o["replicas"]
    for a, b in batches(*images(share * o["steps"], o["size"], o["classes"]), share):
        loop.step(a, b)
    torch.distributed.destroy_process_group()
    if rank == 0:
        say(loop)


def replicas(o):
    import socket
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        port = s.getsockname()[1]
    torch.multiprocessing.spawn(rank_main, (o, port), nprocs=o["replicas"])


def say(loop):
    print("losses", *["%.6f" % l for l in loop.losses])
    print("step %.4f" % min(loop.times), flush=True)


if __name__ == "__main__":
    torch.manual_seed(0)
    torch.set_num_threads(int(os.environ.get("OMP_NUM_THREADS", torch.get_num_threads())))
    options = {k: int(v) for k, v in (word.split("=") for word in sys.argv[2:])}
    done = {"processes": processes, "two": two, "third": third, "validation": validation, "replicas": replicas}[sys.argv[1]](options)
    if done:
        say(done)

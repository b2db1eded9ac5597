"""gpu_backend.py: the table of tools/gpu-torch-backend, which has the options.

One process a row, because a budget is of a process and PyTorch keeps what it has cached: this file starts itself for each, several at
a time, since compiling needs no GPU.  Ops are timed by one row at a time, and steps when all have compiled (turns.py).  A row that
fails, does not fit or takes too long is a line of the table; what it said, and where its memory was, stands below it."""
import argparse
import faulthandler
import json
import os
import signal
import statistics
import sys
import tempfile
import threading
import time
import traceback
import warnings

from turns import Table, Turn

warnings.filterwarnings("ignore")

MIB = 2**20
ARENA = ("exact", "captured", "inductor+arena")  # ways whose budget is a promise
HEAD = (f"{'model':9} {'way':15} {'budget':>6} {'ms':>7} {'NVML':>7} {'planned':>8} {'arena':>7} {'bound':>7} {'missed':>7} {'again':>6} "
        f"{'copied':>7}  loss")


def options(argv=None):
    p = argparse.ArgumentParser()
    p.add_argument("--small", action="store_true", help="small models: a trial of this script")
    p.add_argument("--device", default="cuda")
    p.add_argument("--models", default="resnet50,gpt2")
    p.add_argument("--budgets", default="none,8,6,5,4", help="GiB of the process")
    p.add_argument("--knobs", default="1.0,0.5,0.2,0.0", help="torch.compile's activation_memory_budget")
    p.add_argument("--ways", default="exact,captured,knob,inductor,forecast,inductor+arena,eager")
    p.add_argument("--steps", type=int, default=30, help="9 of them before those that are timed")
    p.add_argument("--out", default="", help="a file that gets each row as a line of JSON when it ends")
    p.add_argument("--said", type=int, default=60, help="lines of what a row that failed has said")
    p.add_argument("--jobs", type=int, default=8)
    p.add_argument("--seconds", type=float, default=190, help="of all; rows that had no time are said to be not run")
    p.add_argument("--limit", type=float, default=90, help="seconds of one row, without those in which it waits")
    p.add_argument("--hold", type=float, default=45, help="seconds for which a row may have the GPU alone")
    p.add_argument("--only", default="", help="these rows alone: MODEL:WAY:BUDGET,...")
    p.add_argument("--row", nargs=3, metavar=("MODEL", "WAY", "BUDGET"))
    p.add_argument("--rate", type=float, default=0.01, help="of the optimizer; with 0 all losses depend on the forward half alone")
    p.add_argument("--deterministic", action="store_true", help="losses of eager and exact are then equal")
    p.add_argument("--turns", default="", help="of a row: two pipes of the table")
    return p.parse_args(argv)


# ---- models ----


def resnet(small, classes=1000):
    """torchvision's, or the same network where it is not installed."""
    try:
        import torchvision

        return getattr(torchvision.models, "resnet18" if small else "resnet50")(weights=None, num_classes=classes)
    except ImportError:
        pass
    from torch import nn

    class Block(nn.Module):
        def __init__(self, into, width, stride):
            super().__init__()
            out = 4 * width
            self.body = nn.Sequential(nn.Conv2d(into, width, 1, bias=False), nn.BatchNorm2d(width), nn.ReLU(inplace=True),
                                      nn.Conv2d(width, width, 3, stride, 1, bias=False), nn.BatchNorm2d(width), nn.ReLU(inplace=True),
                                      nn.Conv2d(width, out, 1, bias=False), nn.BatchNorm2d(out))
            self.side = nn.Identity()
            if stride != 1 or into != out:
                self.side = nn.Sequential(nn.Conv2d(into, out, 1, stride, bias=False), nn.BatchNorm2d(out))
            self.last = nn.ReLU(inplace=True)

        def forward(self, x):
            return self.last(self.body(x) + self.side(x))

    layers, into = [nn.Conv2d(3, 64, 7, 2, 3, bias=False), nn.BatchNorm2d(64), nn.ReLU(inplace=True), nn.MaxPool2d(3, 2, 1)], 64
    for i, count in enumerate((1, 1, 1, 1) if small else (3, 4, 6, 3)):
        for k in range(count):
            layers.append(Block(into, 64 << i, 2 if i and not k else 1))
            into = 4 * (64 << i)
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(into, classes))


def make(name, small, device):
    import torch

    kind, f = torch.bfloat16, torch.nn.functional
    if name == "resnet50":
        batch, size = (4, 32) if small else (256, 224)
        module = resnet(small).to(device, memory_format=torch.channels_last)
        x = torch.randn(batch, 3, size, size, device=device).to(memory_format=torch.channels_last)

        def loss(m, x, y):
            with torch.autocast(device, kind):
                return f.cross_entropy(m(x).float(), y)

        return module, loss, (x, torch.arange(batch, device=device))
    from transformers import GPT2Config, GPT2LMHeadModel

    sizes = {"n_layer": 2, "n_embd": 64, "n_head": 4, "vocab_size": 512, "n_positions": 32} if small else {}
    config = GPT2Config(use_cache=False, bos_token_id=0, eos_token_id=0, **sizes)
    module = GPT2LMHeadModel(config).to(device)
    x = torch.randint(0, config.vocab_size, (2, 32) if small else (16, 512), device=device)

    def loss(m, x):
        with torch.autocast(device, kind):
            return f.cross_entropy(m(x)[0][:, :-1].flatten(0, 1).float(), x[:, 1:].flatten())

    return module, loss, (x,)


# ---- one row ----


class Peak(threading.Thread):
    """The most that NVML reported for this process."""

    def __init__(self, read):
        super().__init__(daemon=True)
        self.read, self.peak, self.over = read, 0, threading.Event()

    def run(self):
        while not self.over.wait(0.03):
            self.peak = max(self.peak, self.read())

    def stop(self):
        self.over.set()
        self.join()
        return max(self.peak, self.read())


def reader(arena, gpu):
    """A function that gives NVML's number, opened before PyTorch uses the GPU so that the process is recognised."""
    if not gpu:
        return lambda: 0
    if arena is not None:
        return arena.process_bytes
    import ctypes as c

    from headroom import _c
    from headroom.library import check, context, fill, library

    device = c.c_void_p()
    check(library().hr_device_find(context(), b"cuda:0", c.byref(device)))
    check(library().hr_device_open(device))

    def read():
        info = fill(_c.hr_device_info)
        check(library().hr_device_get_info(device, c.byref(info)))
        return int(info.process_bytes)

    return read


def where(arena, read):
    """Where the memory is, for a row that failed."""
    import torch

    import headroom.compiled as compiled

    lines = []
    try:
        if arena is not None:
            info = arena.info()
            lines.append("process {:,}, held {:,}, free on the device {:,}, page {:,}".format(
                int(info.process_bytes), int(info.held_bytes), int(info.free_bytes), int(info.page_bytes)))
            lines.append(", ".join(f"{k} {v:,}" for k, v in arena.numbers.items()))
        elif torch.cuda.is_initialized():
            lines += [f"process {read():,}", torch.cuda.memory_summary(abbreviated=True)]
        for r in compiled.reports:
            lines.append(str(r))
            lines.append(f"arena {r.arena_bytes:,}, live {r.peak_bytes:,}, inputs {r.input_bytes:,}, outside {r.outside_bytes:,}")
    except BaseException as e:  # the first failure is what matters
        lines.append(f"and then {type(e).__name__}: {e}")
    print("MEMORY", "\n".join(lines), flush=True)


def compiled_step(o, way, amount, step):
    import torch

    if way == "eager":
        return step
    if way == "knob":
        torch._functorch.config.activation_memory_budget = float(amount)
        return torch.compile(step, dynamic=False)
    options = {"budget": None if amount == "none" else f"{amount}GiB", "compiler": "inductor" if way.startswith("inductor") else "eager",
               "capture": way == "captured"}
    return torch.compile(step, backend="headroom", dynamic=False, fullgraph=True, options=options)


def row(o, name, way, amount):
    import torch

    import headroom.compiled as compiled
    from headroom.compiled import copies, fused, graph, memory

    torch.set_num_threads(2)
    torch.use_deterministic_algorithms(o.deterministic, warn_only=True)
    gpu, arena = o.device == "cuda", None
    turn = Turn(*map(int, o.turns.split(","))) if o.turns else Turn()
    for module, name_of in ((graph, "read"), (fused, "read"), (copies, "speeds")):
        setattr(module, name_of, turn.around("ops", getattr(module, name_of)))
    with turn("open"):  # a process recognises itself in NVML's list as the one that is new there
        if gpu and way in ARENA:
            arena = compiled.reserve(None if amount == "none" else f"{amount}GiB")
        read = reader(arena, gpu)
        if gpu:
            torch.zeros(1, device="cuda")
    if gpu and arena is None:
        memory.process_bytes = lambda device: read()  # in a container the numbers of processes are others, and there are several here
    peak = Peak(read)
    peak.start()
    try:
        return measured(o, name, way, amount, arena, peak, turn)
    except BaseException:
        traceback.print_exc()
        where(arena, read)
        raise


def measured(o, name, way, amount, arena, peak, turn):
    import torch

    import headroom.compiled as compiled

    gpu = o.device == "cuda"
    compiled.register()
    torch.manual_seed(0)
    module, loss, inputs = make(name, o.small, o.device)
    module.train()
    optimizer = torch.optim.SGD(module.parameters(), o.rate, momentum=0.9)
    for p in module.parameters():  # the optimizer's state is there before the plan
        optimizer.state[p]["momentum_buffer"] = torch.zeros_like(p)
    step = compiled_step(o, way, amount, lambda *given: loss(module, *given))

    def one():
        value = step(*inputs)
        value.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        if gpu:
            torch.cuda.synchronize()
        return float(value)

    begin, times, losses = time.time(), [], []
    one()
    setup = time.time() - begin
    with turn("ops"):  # steps in which requests are recorded and graphs captured
        for _ in range(5):
            losses.append(one())
    with turn("steps"):
        losses += [one() for _ in range(3)]  # the GPU has waited
        for _ in range(max(1, o.steps - 9)):
            start = time.perf_counter()
            last = one()
            times.append(1000 * (time.perf_counter() - start))
            losses.append(last)
    found = {"ms": statistics.median(times), "loss": last, "nvml": peak.stop(), "setup": setup, "bits": digest(module, losses)}
    if gpu and arena is None:
        found.update(allocated=torch.cuda.max_memory_allocated(), reserved=torch.cuda.max_memory_reserved())
    if arena is not None:
        found["arena"] = arena.numbers
    if compiled.reports:
        r = compiled.reports[-1]
        found.update(planned=r.peak_bytes + r.outside_bytes, recomputed=r.recomputed, copied=r.copied_bytes, ratio=r.time_ratio,
                     promise=r.promise, capture=r.capture, share=r.share)
    return found


def digest(module, losses):
    """Of all losses; of parameters and statistics after the steps: equal where two ways computed the same bits."""
    import hashlib

    import torch

    state = hashlib.sha256()
    for v in module.state_dict().values():
        state.update(v.detach().contiguous().cpu().flatten().view(torch.uint8).numpy().tobytes() if v.numel() else b"")
    return [hashlib.sha256(json.dumps(losses).encode()).hexdigest()[:8], state.hexdigest()[:8]]


def told(e):
    """The line of an exception that says the most."""
    lines = [s.strip() for s in str(e).splitlines() if s.strip() and not s.endswith("raised:")]
    other = f"{type(e).__name__}: {lines[0] if lines else ''}"
    return next((s for s in lines if "fit" in s or "memory" in s or "budget" in s), other)[:200]


def row_main(o):
    faulthandler.register(signal.SIGUSR1)  # where it is, when it takes too long
    try:
        print("ROW " + json.dumps(row(o, *o.row)), flush=True)
    except BaseException as e:
        print("ROW " + json.dumps({"error": told(e)}), flush=True)
    os._exit(0)  # what an allocator of ours still holds ends with the process


# ---- the table ----


def rows(o):
    """What matters most first."""
    models, budgets, knobs = o.models.split(","), o.budgets.split(","), o.knobs.split(",")
    ways = o.ways.split(",")
    if o.only:
        return [tuple(one.split(":")) for one in o.only.split(",")]
    found = []
    for name in models:
        found += [(name, way, b) for b in budgets for way in ("captured", "exact") if way in ways]
    for name in models:
        found += [(name, "knob", k) for k in knobs if "knob" in ways]
        found += [(name, "inductor", b) for b in budgets if "inductor" in ways]
    found += [(name, "forecast", b) for name in models for b in budgets[2:3] if "forecast" in ways]
    found += [(name, "inductor+arena", b) for name in models for b in budgets[2:3] if "inductor+arena" in ways]
    return found + [(name, "eager", "none") for name in models if "eager" in ways]


def show(name, way, amount, r):
    """Prints a row; True when it is wrong."""
    begin = f"{name:9} {way:15} {amount:>6} "
    if "error" in r:
        print(begin + r["error"], flush=True)
        return "fit" not in r["error"] and "no plan" not in r["error"] and "not run" not in r["error"]
    arena = r.get("arena", {})
    mib = lambda n, w=7: f"{n / MIB:{w},.0f}" if n else " " * (w - 1) + "-"  # noqa: E731
    over = amount != "none" and way not in ("knob", "eager") and r["nvml"] > float(amount) * 2**30
    late = arena and not arena.get("planned")
    words = [f"({r['setup']:.0f} s)"] + [w for w, on in (("OVER", over), ("NOT PLANNED", late)) if on]
    words += [f"{k} {mib(r[k], 1)}" for k in ("allocated", "reserved") if k in r]
    words += [f"losses {r['bits'][0]}, state {r['bits'][1]}"] if r.get("bits") else []
    words += [remark(r)] if remark(r) else []
    words += [f"{k} {arena[k]}" for k in ("served", "extra", "overflow", "syncs") if arena]
    print(f"{begin}{r['ms']:7.1f} {mib(r['nvml'])} {mib(r.get('planned', 0), 8)} {mib(arena.get('arena_bytes', 0))} "
          f"{mib(arena.get('bound_bytes', 0))} {arena.get('missed', 0):7} {r.get('recomputed', 0):6} {mib(r.get('copied', 0))}  "
          f"{r['loss']:.6f}  {', '.join(words)}", flush=True)
    return over and way in ARENA


def command(o, folder, one):
    """Of a row's process: with where its words go, and its environment."""
    words = [sys.executable, "-W", "ignore", os.path.abspath(__file__), "--device", o.device, "--steps", str(o.steps),
             "--rate", str(o.rate), *(["--small"] if o.small else []), *(["--deterministic"] if o.deterministic else []), "--row", *one]
    env = {**os.environ, "CUBLAS_WORKSPACE_CONFIG": ":4096:8", "TORCHINDUCTOR_COMPILE_THREADS": "4", "OMP_NUM_THREADS": "2"}
    return words, os.path.join(folder, "-".join(one)), env


def result(text, why):
    """Of what a row has said."""
    lines = text.splitlines()
    said = [line for line in lines if line.startswith("ROW ")]
    others = [line for line in lines if not line.startswith("ROW ")]
    found = json.loads(said[-1][4:]) if said else {"error": why or f"ended without a word: {lines[-1][:160] if lines else ''}"}
    return {**found, "said": others} if "error" in found else found


def note(o, one, r):
    """A row as a line of JSON, at once."""
    if o.out:
        with open(o.out, "a") as file:
            file.write(json.dumps(dict(zip(("model", "way", "budget"), one)) | r) + "\n")


def markdown(found, asked):
    """The rows as they were asked for, for a document."""
    print("\n| model | way | budget | ms a step | NVML, MiB | planned, MiB | NVML above it | recomputed ops | copied, MiB | bits of "
          "losses, state | |\n|---|---|---|---|---|---|---|---|---|---|---|")
    letters = {}  # of a model's rows: the same letter where all bits were the same
    for one in asked:
        r = found.get(one, {"error": "not run"})
        if "error" in r:
            print(f"| {' | '.join(one)} | {r['error']} |")
            continue
        planned, nvml = r.get("planned", 0), r["nvml"]
        above = f"{100 * (nvml / planned - 1):+.1f} %" if planned and nvml else ""
        mib = lambda n: f"{n / MIB:,.0f}" if n else ""  # noqa: E731
        print(f"| {' | '.join(one)} | {r['ms']:.1f} | {mib(nvml)} | {mib(planned)} | {above} | {r.get('recomputed', '')} | "
              f"{mib(r.get('copied', 0))} | {same_bits(letters, one[0], r)} | {remark(r)} |")


def same_bits(letters, model, r):
    seen = letters.setdefault(model, [[], []])
    for known, bits in zip(seen, r.get("bits", ())):
        known.extend([] if bits in known else [bits])
    return ", ".join(chr(ord("a") + known.index(bits)) for known, bits in zip(seen, r.get("bits", ())))


def remark(r):
    return f"PyTorch's own choice, {r['share']:g}" if r.get("share") is not None else r.get("capture") or ""


def table(o):
    begin, wrong, found, asked = time.time(), [], {}, rows(o)
    print(HEAD, flush=True)

    def ended(one, text, why):
        r = found[one] = result(text, why)
        failed = show(*one, r)
        if failed and "said" in r:
            print("\n".join(f"    | {line}" for line in r["said"][-o.said:]), flush=True)
        note(o, one, r)
        wrong.extend([one] if failed else [])

    def stop(*_):
        raise SystemExit("the table was told to end")

    signal.signal(signal.SIGTERM, stop)
    try:
        with tempfile.TemporaryDirectory() as folder:
            Table(asked, lambda one: command(o, folder, one), ended, o.jobs, o.seconds, o.limit, o.hold,
                  say=lambda words: print(f"  {words}", file=sys.stderr, flush=True)).run()
    finally:
        markdown(found, asked)
        print(f"{time.time() - begin:.0f} s, {len(wrong)} wrong; bytes in MiB; exact: PyTorch's kernels and memory of the plan; inductor: "
              "compiled by Inductor; forecast: PyTorch's own allocator; knob: activation_memory_budget", flush=True)
    return 1 if wrong else 0


if __name__ == "__main__":
    given = options()
    sys.exit(row_main(given) if given.row else table(given))

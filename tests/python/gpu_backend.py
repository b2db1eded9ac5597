"""gpu_backend.py [--small] [--device cuda] [--models resnet50,gpt2] [--budgets none,8,6,5,4]: the table of tools/gpu-torch-backend.

One process a row, because a budget is of a process and PyTorch keeps what it has cached: this file starts itself for each."""
import json
import os
import subprocess
import sys
import time
import warnings

warnings.filterwarnings("ignore")


def options() -> dict:
    given = {"device": "cuda", "models": "resnet50,gpt2", "budgets": "none,8,6,5,4", "knobs": "1.0,0.7,0.5,0.3,0.1,0.0", "steps": "12"}
    for i, a in enumerate(sys.argv[1:]):
        if a.startswith("--") and a[2:] in given:
            given[a[2:]] = sys.argv[i + 2]
    return {**given, "small": "--small" in sys.argv}


def make(name: str, small: bool, device: str):
    import torch

    kind = torch.bfloat16
    if name == "resnet50":
        import torchvision

        batch, size = (4, 32) if small else (256, 224)
        module = getattr(torchvision.models, "resnet18" if small else "resnet50")(weights=None)
        module = module.to(device, memory_format=torch.channels_last)
        x = torch.randn(batch, 3, size, size, device=device).to(memory_format=torch.channels_last)
        y = torch.arange(batch, device=device)

        def loss(m, x, y):
            with torch.autocast(device, kind):
                return torch.nn.functional.cross_entropy(m(x).float(), y)

        return module, loss, (x, y), batch
    from transformers import GPT2Config, GPT2LMHeadModel

    sizes = {"n_layer": 2, "n_embd": 64, "n_head": 4, "vocab_size": 512, "n_positions": 32} if small else {}
    config = GPT2Config(use_cache=False, bos_token_id=0, eos_token_id=0, **sizes)
    module = GPT2LMHeadModel(config).to(device)
    batch, length = (2, 32) if small else (16, 1024)
    x = torch.randint(0, config.vocab_size, (batch, length), device=device)

    def loss(m, x):
        with torch.autocast(device, kind):
            scores = m(x)[0][:, :-1]
            return torch.nn.functional.cross_entropy(scores.flatten(0, 1).float(), x[:, 1:].flatten())

    return module, loss, (x,), batch


def row(name: str, way: str, amount: str, o: dict) -> dict:
    """Trains and measures: milliseconds of a step, what NVML says of the process, what was planned."""
    import torch

    import headroom.compiled as compiled

    compiled.register()
    torch.manual_seed(0)
    device = o["device"]
    module, loss, inputs, _ = make(name, o["small"], device)
    module.train()
    optimizer = torch.optim.SGD(module.parameters(), 0.01, momentum=0.9)
    for p in module.parameters():  # the optimizer's state is there before the plan
        optimizer.state[p]["momentum_buffer"] = torch.zeros_like(p)
    step = lambda *given: loss(module, *given)  # noqa: E731
    if way == "knob":
        torch._functorch.config.activation_memory_budget = float(amount)
        step = torch.compile(step, dynamic=False)
    elif way != "eager":
        budget = None if amount == "none" else f"{amount}GiB"
        step = torch.compile(step, backend="headroom", dynamic=False, fullgraph=True,
                             options={"budget": budget, "compiler": "inductor" if way == "inductor" else "eager"})
    losses, begin = [], 0.0
    steps = int(o["steps"])
    for i in range(steps):
        if i == steps // 2:
            if device == "cuda":
                torch.cuda.synchronize()
            begin = time.time()
        value = step(*inputs)
        value.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        losses.append(value.detach())
    if device == "cuda":
        torch.cuda.synchronize()
    spent = (time.time() - begin) / (steps - steps // 2)
    found = {"ms": 1000 * spent, "loss": float(losses[-1]), "nvml": 0, "reserved": 0, "allocated": 0}
    if device == "cuda":
        from headroom.compiled.memory import process_bytes

        found.update(nvml=process_bytes(torch.device("cuda")), reserved=torch.cuda.max_memory_reserved(),
                     allocated=torch.cuda.max_memory_allocated())
    if compiled.reports:
        r = compiled.reports[-1]
        found.update(planned=r.peak_bytes + r.outside_bytes, recomputed=r.recomputed, copied=r.copied_bytes, ratio=r.time_ratio)
    return found


def main() -> int:
    o = options()
    if "--row" in sys.argv:
        i = sys.argv.index("--row")
        try:
            print("ROW " + json.dumps(row(*sys.argv[i + 1:i + 4], o)))
        except Exception as e:
            print("ROW " + json.dumps({"error": next((s for s in str(e).splitlines() if "fit" in s or "memory" in s), repr(e))[:160]}))
        return 0
    head = ("ms", "NVML MiB", "reserved", "allocated", "planned")
    print(f"{'model':10} {'way':10} {'budget':>7} {' '.join(f'{h:>9}' for h in head)} {'again':>6}  loss")
    failed = 0
    for name in o["models"].split(","):
        ways = [("eager", "none")] + [("knob", k) for k in o["knobs"].split(",") if k]
        ways += [(way, b) for way in ("headroom", "inductor") for b in o["budgets"].split(",")]
        for way, amount in ways:
            done = subprocess.run([sys.executable, os.path.abspath(__file__), *sys.argv[1:], "--row", name, way, amount],
                                  capture_output=True, text=True)
            said = [line for line in done.stdout.splitlines() if line.startswith("ROW ")]
            r = json.loads(said[0][4:]) if said else {"error": (done.stderr.splitlines() or ["it ended without a word"])[-1][:160]}
            failed += "error" in r and "fit" not in r["error"]
            if "error" in r:
                print(f"{name:10} {way:10} {amount:>7} {r['error']}", flush=True)
                continue
            bytes_ = " ".join(f"{r.get(k, 0) / 2**20:9,.0f}" for k in ("nvml", "reserved", "allocated", "planned"))
            over = " OVER" if way == "headroom" and amount != "none" and r["nvml"] > float(amount) * 2**30 else ""
            failed += bool(over)
            print(f"{name:10} {way:10} {amount:>7} {r['ms']:9.1f} {bytes_} "
                  f"{r.get('recomputed', 0):6}  {r['loss']:.4f}{over}", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())

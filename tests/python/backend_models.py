"""backend_models.py [MODEL[:SHARE,...]]...: models of torchvision and transformers through torch.compile(backend="headroom").

Two steps with an optimizer, eager and at shares of the bytes of plain training: losses, gradients, parameters and statistics must
be the same bits, and the live bytes that were measured at most those that were planned.  Where a share is below what one op needs at once,
the smallest budget is looked for that works, up to a fifth above that.  One line each; exit status 1 if not."""
import copy
import sys
import time
import warnings

import torch

import headroom as hr
import headroom.compiled as compiled
from headroom.compiled import memory

warnings.filterwarnings("ignore")
compiled.register()


class Loss(torch.nn.Module):
    """The loss is part of what is compiled, so that both sides count the same tensors."""

    def __init__(self, module: torch.nn.Module, target: torch.Tensor) -> None:
        super().__init__()
        self.module = module
        self.register_buffer("target", target)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.module(x)
        y = y if isinstance(y, torch.Tensor) else y[0]
        return torch.nn.functional.cross_entropy(y.flatten(0, -2), self.target)


def pictures(name: str, size: int, batch: int, height: int = 0):
    import torchvision

    module = getattr(torchvision.models, name)(weights=None, num_classes=10)
    return Loss(module, torch.arange(batch) % 10), torch.randn(batch, 3, height or size, size)


def gpt2():
    from transformers import GPT2Config, GPT2LMHeadModel

    module = GPT2LMHeadModel(GPT2Config(vocab_size=512, n_positions=64, n_embd=64, n_layer=4, n_head=4, bos_token_id=0, eos_token_id=0))
    module.config.use_cache = False
    return Loss(module, torch.arange(512)), torch.randint(0, 512, (8, 64))


MODELS = {
    "gpt2": gpt2,
    "mobilenet_v2": lambda: pictures("mobilenet_v2", 64, 16),
    "resnet18": lambda: pictures("resnet18", 96, 128),  # so many that activations are most of its bytes
    "resnet18_lines": lambda: pictures("resnet18", 1024, 128, 1),  # its stages are of one size: no op needs 40 % of all at once
}


def train(module, call, x, live, steps: int = 2):
    optimizer, losses = torch.optim.SGD(module.parameters(), 0.05, momentum=0.9), []
    for i in range(steps):
        optimizer.zero_grad(set_to_none=True)
        torch.manual_seed(100 + i)
        with live() as bytes_:
            loss = call(x)
            loss.backward()
        losses.append(loss.detach().clone())
        del loss
        optimizer.step()
    return bytes_.peak, losses, {n: p.grad for n, p in module.named_parameters()}, dict(module.state_dict())


def same(a: dict, b: dict) -> str:
    return f"{sum(torch.equal(a[k], b[k]) for k in a)}/{len(a)}"


def check(name: str, shares: list[int]) -> int:
    torch.manual_seed(0)
    base, x = MODELS[name]()
    eager = copy.deepcopy(base).train()
    peak, losses, gradients, state = train(eager, eager, x, memory.Live)
    print(f"{name}: eager, {peak / 2**20:.1f} MiB live beside parameters and inputs", flush=True)
    wrong, todo = 0, [(share, f"{share}%") for share in shares]
    while todo:
        share, budget = todo.pop(0)
        torch._dynamo.reset()
        module, start = copy.deepcopy(base).train(), time.time()
        call = torch.compile(module, backend="headroom", options={"budget": budget}, fullgraph=True, dynamic=False)
        try:
            live, mine, theirs, after = train(module, call, x, memory.watch)
        except Exception as e:
            refused = getattr(e, "inner_exception", e)
            said = str(e).splitlines()[1] if len(str(e).splitlines()) > 1 else e
            asked = budget if isinstance(budget, int) else 0  # 0: the share itself
            least = refused.minimum_bytes if isinstance(refused, hr.DoesNotFit) else 0
            higher = max(asked, least) * 1.04 if asked or "does not fit" in str(refused) else 0
            again = least and higher and higher < 1.2 * least
            print(f"  {share:3} %: {'' if again else 'FAILED: '}{said}", flush=True)
            if again:
                todo.insert(0, (share, int(higher)))
            wrong += not again
            continue
        r = compiled.reports[-1]
        planned = r.peak_bytes - r.input_bytes
        g, s, equal = same(gradients, theirs), same(state, after), all(torch.equal(a, b) for a, b in zip(losses, mine))
        good = equal and len(set(g.split("/"))) == 1 and len(set(s.split("/"))) == 1 and live <= planned and r.peak_bytes <= r.budget_bytes
        wrong += not good
        print(f"  {share:3} %: {'ok' if good else 'FAILED'}: losses {'equal' if equal else 'DIFFER'}, gradients {g}, state {s}; "
              f"live {live} of {planned} planned bytes; budget {r.budget_bytes / 2**20:.1f} MiB; "
              f"{r.recomputed} ops recomputed, time x {r.time_ratio:.3f} predicted; {time.time() - start:.0f} s", flush=True)
    return wrong


if __name__ == "__main__":
    torch.use_deterministic_algorithms(True)
    asked = sys.argv[1:] or list(MODELS)
    wrong = sum(check(a.split(":")[0], [int(s) for s in a.split(":")[1].split(",")] if ":" in a else [100, 60, 40]) for a in asked)
    print(f"{torch.__version__}: {'all equal' if not wrong else f'{wrong} FAILED'}")
    sys.exit(1 if wrong else 0)

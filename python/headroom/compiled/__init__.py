"""PyTorch runs, Headroom plans: torch.compile(model, backend="headroom", options={"budget": "6GiB"}).

    import headroom.compiled                        not needed where the wheel is installed
    step = torch.compile(model, backend="headroom", options={"budget": "6GiB"}, fullgraph=True, dynamic=False)
    loss = step(x, y)
    loss.backward()
    print(headroom.compiled.reports[-1])            what was planned

`headroom.compiled.reserve("6GiB")`, before PyTorch first uses a GPU, makes the budget there a promise.

docs/how-to/pytorch.md is the guide.  Importing this imports nothing of PyTorch."""
from .arena import Arena, arenas, reserve
from .backend import OPTIONS, backend, register, reports
from .capture import plan
from .report import Report

__all__ = ["OPTIONS", "Arena", "Report", "arenas", "backend", "plan", "register", "reports", "reserve"]

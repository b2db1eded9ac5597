"""PyTorch runs, Headroom plans: torch.compile(model, backend="headroom", options={"budget": "6GiB"}).

    import headroom.compiled                        not needed where the wheel is installed
    step = torch.compile(model, backend="headroom", options={"budget": "6GiB"}, fullgraph=True, dynamic=False)
    loss = step(x, y)
    loss.backward()
    print(headroom.compiled.reports[-1])            what was planned

docs/how-to/pytorch.md is the guide.  Importing this imports nothing of PyTorch."""
from .backend import OPTIONS, backend, register, reports
from .capture import plan
from .report import Report

__all__ = ["OPTIONS", "Report", "backend", "plan", "register", "reports"]

"""Small models for the torch.compile backend: what is hard about graphs, in little."""
import torch
from torch import nn


class Net(nn.Module):
    """Batch norm that moves statistics, dropout that draws, a residual, a tuple, a view that is returned, and its own loss."""

    def __init__(self, dropout: float = 0.25) -> None:
        super().__init__()
        self.a, self.an = nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8)
        self.b, self.bn = nn.Conv2d(8, 8, 3, padding=1), nn.BatchNorm2d(8)
        self.c, self.cn = nn.Conv2d(8, 8, 3, padding=1), nn.BatchNorm2d(8)
        self.drop, self.out = nn.Dropout(dropout), nn.Linear(8, 5)
        self.register_buffer("seen", torch.zeros(()))

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        h = torch.relu(self.an(self.a(x)))
        h = self.drop(h)
        h = h + torch.relu(self.bn(self.b(h)))
        h = self.drop(torch.relu(self.cn(self.c(h))))
        self.seen.mul_(0.5).add_(h.detach().mean())
        scores = self.out(h.amax((2, 3))).view(-1, 5)
        return torch.nn.functional.cross_entropy(scores, y), scores


def batch(samples: int = 8, size: int = 16) -> tuple[torch.Tensor, torch.Tensor]:
    g = torch.Generator().manual_seed(3)
    return torch.randn(samples, 3, size, size, generator=g), torch.randint(0, 5, (samples,), generator=g)

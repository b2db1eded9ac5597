"""PyTorch's modules as models of ours, and weights back into them."""
from .export import Exported, export, load

__all__ = ["Exported", "export", "load"]

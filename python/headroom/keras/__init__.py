"""Keras 3 models as models of ours, and weights back into them."""
from .check import check
from .export import export, load
from .goal import Goal

__all__ = ["Goal", "check", "export", "load"]

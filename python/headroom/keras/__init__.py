"""Keras 3 models as models of ours, and weights back into them."""
from .check import check
from .export import export, load

__all__ = ["check", "export", "load"]

"""Normalisation, and states that a step moves."""
from __future__ import annotations

from typing import Optional, Sequence

import numpy as np

from ..graph import Value
from ..size import Dim, product
from .images import Images
from .tensor import Any, Tensor


class Norms(Images):
    def ones(self, n: int) -> Tensor:
        return self._constant(np.ones(n, "float32"), "f32")

    def zeros(self, n: int) -> Tensor:
        return self._constant(np.zeros(n, "float32"), "f32")

    def batch_norm(self, x: Tensor, gamma: Optional[Any], beta: Optional[Any], eps: float) -> tuple[Tensor, Value, Value]:
        """By the batch's own statistics, over all but dimension 1; also mean and inverse deviation."""
        x = self.last(x, 1)
        c = x.shape[1]
        gamma = self.plain(gamma) if gamma is not None else self.ones(c)
        beta = self.plain(beta) if beta is not None else self.zeros(c)
        mean, inv = self.form.node("batch_norm_moments", [x.value], [("f32", (c,)), ("f32", (c,))], eps=float(eps))
        y = self.form.node("batch_norm_apply", [x.value, gamma.value, beta.value, mean, inv],
                           [(x.type, x.value.shape)])[0]
        return Tensor(y, x.order), mean, inv

    def batch_norm_stats(self, running: Sequence[Value], mean: Value, inv: Value, rows: Dim, eps: float,
                         momentum: float, unbiased: bool = True) -> list[Value]:
        metas = [(r.type, r.shape) for r in running]
        return self.form.node("batch_norm_stats", [*running, mean, inv], metas, update=True, eps=float(eps),
                              momentum=float(momentum), rows=rows, unbiased=None if unbiased else "false")

    def move(self, state: Value, to: Tensor, weight: float = 1.0, first: float = 1.0) -> Value:
        """state <- (1 - first) * state + weight * to, in its own memory; no gradient."""
        one, two = (self._constant(np.float32(x), "f32").value for x in (weight, first))
        to = self.plain(to)
        return self.form.node("accumulate", [state, to.value, one, two], [(state.type, state.shape)], update=True)[0]

    def batch_norm_inference(self, x: Tensor, gamma: Optional[Any], beta: Optional[Any], mean: Any, var: Any, eps: float) -> Tensor:
        x = self.last(x, 1)
        c = x.shape[1]
        gamma = self.plain(gamma) if gamma is not None else self.ones(c)
        beta = self.plain(beta) if beta is not None else self.zeros(c)
        inputs = [x.value, gamma.value, beta.value, self.plain(mean).value, self.plain(var).value]
        return Tensor(self.form.node("batch_norm_inference", inputs, [(x.type, x.value.shape)], eps=float(eps))[0],
                      x.order)

    def layer_norm(self, x: Tensor, gamma: Optional[Any], beta: Optional[Any], eps: float, dims: int = 1) -> Tensor:
        """Over the last `dims` dimensions."""
        shape = x.shape
        if dims > 1:
            x = self.reshape(self.plain(x), shape[:-dims] + (product(shape[-dims:]),))
        x = self.last(x)
        n = x.shape[-1]
        gamma = self.reshape(self.plain(gamma), (n,)) if gamma is not None else self.ones(n)
        beta = self.reshape(self.plain(beta), (n,)) if beta is not None else self.zeros(n)
        rows = x.value.shape[:-1]
        y = self.form.node("layer_norm", [x.value, gamma.value, beta.value],
                           [(x.type, x.value.shape), ("f32", rows), ("f32", rows)], eps=float(eps))[0]
        return self.reshape(Tensor(y, x.order), shape)

    def group_norm(self, x: Tensor, groups: int, gamma: Optional[Any], beta: Optional[Any], eps: float) -> Tensor:
        """x (N, C, ...)."""
        shape = x.shape
        if x.rank != 4:
            rest = product(shape[2:])
            y = self.group_norm(self.reshape(x, shape[:2] + (rest, 1)), groups, gamma, beta, eps)
            return self.reshape(y, shape)
        x = self.image(x)
        c = shape[1]
        gamma = self.plain(gamma) if gamma is not None else self.ones(c)
        beta = self.plain(beta) if beta is not None else self.zeros(c)
        per = ("f32", (shape[0], groups))
        made = self.form.node("group_norm", [x.value, gamma.value, beta.value], [(x.type, x.value.shape), per, per],
                              eps=float(eps), groups=groups)
        return Tensor(made[0], x.order)

    def rms_norm(self, x: Tensor, gamma: Any, eps: float, dims: int = 1) -> Tensor:
        """Over the last `dims` dimensions."""
        shape = x.shape
        if dims > 1:
            x = self.reshape(self.plain(x), shape[:-dims] + (product(shape[-dims:]),))
        x = self.last(x)
        n = x.shape[-1]
        gamma = self.reshape(self.plain(gamma), (n,)) if gamma is not None else self.ones(n)
        rows = x.value.shape[:-1]
        y = self.form.node("rms_norm", [x.value, gamma.value], [(x.type, x.value.shape), ("f32", rows)], eps=float(eps))[0]
        return self.reshape(Tensor(y, x.order), shape)

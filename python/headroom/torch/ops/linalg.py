"""Small matrices: inverses, determinants, Cholesky factors, exponentials, composed of sums and products.

An inverse is found by elimination with pivots, through which no gradient flows, and then improved by a step of Newton's, 2 X - X A X, which has
the inverse's gradient.  Elimination and factors take a few nodes for each row, so matrices have at most MOST rows."""
from __future__ import annotations

from typing import Any

import numpy as np

from ...build import Build, Const, Tensor
from ...graph import Refused
from .call import Call, op, operand

MOST = 32
HALVINGS, TERMS = 6, 9  # of an exponential: halved so often, then a series of so many powers


def rows_of(a: Any) -> int:
    n = a.shape[-1]
    if not isinstance(n, int) or a.shape[-2] != n or n > MOST:
        raise Refused(f"a matrix of more than {MOST} rows, or of the size of the batch, here")
    return n


def unit(n: int, at: int, down: bool) -> Const:
    """1 at one place of a column, or of a row."""
    e = np.zeros((n, 1), "float32")
    e[at] = 1
    return Const(e if down else e.reshape(1, n))


def flipped(b: Build, x: Any) -> Tensor:
    dims = list(range(x.rank))
    return b.permute(b.tensor(x), dims[:-2] + [dims[-1], dims[-2]])


def number(b: Build, x: Tensor) -> Tensor:
    return b.squeeze(x, [-2, -1])


def stopped(b: Build, x: Any) -> Tensor:
    return b.map1("stop_gradient", b.whole(x))


def eliminated(b: Build, a: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """The inverse, the sign of the determinant and the logarithm of its size, without gradients."""
    n = rows_of(a)
    right = b.broadcast(b.tensor(Const(np.eye(n, dtype="float32"))), a.shape)
    m = b.concat([stopped(b, a), right], -1)  # (..., n, 2 n)
    sign = size = None
    for k in range(n):
        column = b.map1("abs", b.slice(m, -1, k, 1))
        left = b.map2("sub", column, Const(np.where(np.arange(n) < k, np.float32(3e38), np.float32(0)).reshape(n, 1)))
        p = b.one_hot(b.arg_max(b.squeeze(left, [-1]), -1, False), n)  # (..., n)
        down, across = b.unsqueeze(p, p.rank), b.unsqueeze(p, p.rank - 1)
        found, stands = b.matmul(across, m), b.slice(m, -2, k, 1)
        swap = b.map2("sub", unit(n, k, True), down)
        m = b.map2("add", m, b.map2("mul", swap, b.map2("sub", found, stands)))
        pivot = b.slice(found, -1, k, 1)
        m = b.map2("sub", m, b.map2("mul", b.map2("sub", b.slice(m, -1, k, 1), unit(n, k, True)), b.map2("div", found, pivot)))
        turn = b.map2("mul", b.function("sign", pivot), b.affine(b.slice(down, -2, k, 1), 2.0, -1.0))
        more = b.map1("log", b.map1("abs", pivot))
        sign, size = (turn, more) if sign is None or size is None else (b.map2("mul", sign, turn), b.map2("add", size, more))
    assert sign is not None and size is not None
    return b.slice(m, -1, n, n), number(b, sign), number(b, size)


def inverse_of(b: Build, a: Any) -> Any:
    if isinstance(a, Const):
        return Const(np.linalg.inv(a.array.astype("float64")).astype("float32"), a.shape)
    x = eliminated(b, a)[0]
    return b.map2("sub", b.affine(x, 2.0), b.matmul(x, b.matmul(a, x)))


def determinant(b: Build, a: Tensor) -> tuple[Tensor, Tensor]:
    """Sign, and the logarithm of the size, whose gradient is the inverse, flipped."""
    x, sign, size = eliminated(b, a)
    moves = b.reduce("sum", b.map2("mul", flipped(b, x), b.map2("sub", a, stopped(b, a))), [-2, -1], False)
    return sign, b.map2("add", size, moves)


@op("linalg_inv_ex", "inverse")
def inverse(b: Build, c: Call) -> Any:
    y = inverse_of(b, b.whole(c.first("A", "self")))
    return [y, None] if "inv_ex" in str(c.node.target) else y


@op("_linalg_slogdet")
def slogdet(b: Build, c: Call) -> list:
    return [*determinant(b, b.whole(c["A"])), None, None]


@op("_linalg_det")
def det(b: Build, c: Call) -> list:
    sign, size = determinant(b, b.whole(c["A"]))
    return [b.map2("mul", sign, b.map1("exp", size)), None, None]


def product_with(b: Build, x: Any, right: Any, left: bool) -> Tensor:
    """A right side of one vector is one column."""
    right = b.tensor(right)
    if left and right.rank == x.rank - 1:
        return b.squeeze(b.matmul(x, b.unsqueeze(right, right.rank)), [-1])
    return b.matmul(x, right) if left else b.matmul(right, x)


@op("_linalg_solve_ex")
def solve(b: Build, c: Call) -> list:
    return [product_with(b, inverse_of(b, b.whole(c["A"])), operand(c["B"]), c["left"]), None, None, None]


@op("linalg_solve_triangular")
def solve_triangular(b: Build, c: Call) -> Tensor:
    a = operand(c["self"])
    n = a.shape[-1]
    part = np.triu(np.ones((n, n), "float32")) if c["upper"] else np.tril(np.ones((n, n), "float32"))
    if c["unitriangular"]:
        part -= np.eye(n, dtype="float32")
    if isinstance(a, Const):
        a = Const(a.array * part + (np.eye(n, dtype="float32") if c["unitriangular"] else 0), a.shape)
    else:
        a = b.map2("mul", a, Const(part))
        a = b.map2("add", a, Const(np.eye(n, dtype="float32"))) if c["unitriangular"] else a
    return product_with(b, inverse_of(b, a), operand(c["B"]), c["left"])


@op("linalg_cholesky_ex", "cholesky")
def cholesky(b: Build, c: Call) -> Any:
    """Column by column, of the lower half."""
    a = b.whole(c["self"])
    n = rows_of(a)
    a = flipped(b, a) if c["upper"] else a
    columns: list[Tensor] = []
    for k in range(n):
        rest = b.slice(b.slice(a, -1, k, 1), -2, k, n - k)
        if columns:
            before = b.slice(b.concat(columns, -1), -2, k, n - k)
            rest = b.map2("sub", rest, b.matmul(before, flipped(b, b.slice(before, -2, 0, 1))))
        rest = b.map2("mul", rest, b.map1("rsqrt", b.slice(rest, -2, 0, 1)))
        columns.append(b.pad(rest, {rest.rank - 2: (k, 0)}))
    y = b.concat(columns, -1)
    y = flipped(b, y) if c["upper"] else y
    return [y, None] if "_ex" in str(c.node.target) else y


@op("cholesky_solve", "cholesky_inverse")
def cholesky_solve(b: Build, c: Call) -> Tensor:
    """Of A = L L'."""
    factor = b.whole(c["input2"] if "input2" in c else c["self"])
    x = inverse_of(b, flipped(b, factor) if c["upper"] else factor)
    y = b.matmul(flipped(b, x), x)
    return b.matmul(y, b.tensor(c["self"])) if "input2" in c else y


@op("linalg_matrix_exp", "matrix_exp")
def matrix_exp(b: Build, c: Call) -> Tensor:
    """exp(A / 2^k) by its series, squared k times."""
    a = b.affine(b.whole(c["self"]), 2.0 ** -HALVINGS)
    eye = Const(np.eye(rows_of(a), dtype="float32"))
    y = b.map2("add", b.affine(a, 1.0 / TERMS), eye)
    for k in range(TERMS - 1, 0, -1):
        y = b.map2("add", b.affine(b.matmul(a, y), 1.0 / k), eye)
    for _ in range(HALVINGS):
        y = b.matmul(y, y)
    return y


@op("linalg_householder_product", "orgqr")
def householder_product(b: Build, c: Call) -> Tensor:
    """The first columns of (1 - t v v') ... of the columns v below the diagonal, where 1 stands."""
    a, t = b.whole(c.first("input", "self")), b.whole(c.first("tau", "input2"))
    m, n = a.shape[-2:]
    if not isinstance(m, int) or not isinstance(n, int) or m > 8 * MOST or t.shape[-1] > MOST:
        raise Refused(f"more than {MOST} reflections")
    q = b.broadcast(b.tensor(Const(np.eye(m, n, dtype="float32"))), a.shape)
    for k in range(t.shape[-1] - 1, -1, -1):
        below = (np.arange(m) > k).astype("float32").reshape(m, 1)
        v = b.map2("add", b.map2("mul", b.slice(a, -1, k, 1), Const(below)), unit(m, k, True))
        by = b.unsqueeze(b.slice(t, -1, k, 1), t.rank)
        q = b.map2("sub", q, b.map2("mul", by, b.matmul(v, b.matmul(flipped(b, v), q))))
    return q

"""arithmetic - exercises 06 to 09: passes of a sum, rounding, instructions, a product."""

from __future__ import annotations

import numpy as np

from .task import Case, Limit, Task, excess, floats, unwritten, up

_U = 2.0**-24  # half a unit in the last place of float32, relative

# ---- 06: unrolling ----


def _passes(shape, rng) -> Case:
    (n,) = shape
    a = rng.integers(-1000, 1000, n).astype("i4")
    total = np.array([a.sum(dtype="i8")], "i4")
    return Case((a, unwritten(1, "i4"), n), (1,), (256,), {1: total}, {"n": n})


UNROLLING = Task(
    "06",
    "unrolling",
    "void sum(int *a, int *out, int n)",
    _passes,
    hints=(
        (
            lambda case, got: got[1][0] == case.args[0][0],
            "That is only the first number: was no pass made? With fewer than 7 numbers left, "
            "n / 7 is 0, and all of them are orphans.",
        ),
        (
            lambda case, got: True,
            "A pass leaves n / 7 numbers, rounded down, and n % 7 orphans, which have to go "
            "somewhere; and passes go on until one number is left.",
        ),
    ),
)


# ---- 07: rounding ----


def _dot(shape, rng) -> Case:
    (n,) = shape
    a, b = floats(rng, n), floats(rng, n)
    lanes = np.zeros(256, "f4")
    for first in range(0, n, 256):
        part = a[first : first + 256] * b[first : first + 256]
        lanes[: len(part)] += part
    d = 128
    while d:
        lanes[:d] = lanes[:d] + lanes[d : 2 * d]
        d //= 2
    return Case((a, b, unwritten(1), n), (1,), (256,), {2: lanes[:1].copy()}, {"n": n})


def _is_near(case: Case, got) -> bool:
    exact = float(np.dot(case.args[0].astype("f8"), case.args[1].astype("f8")))
    return abs(float(got[2][0]) - exact) <= 1e-3 + 1e-4 * len(case.args[0])


ROUNDING = Task(
    "07",
    "rounding",
    "void dot(const float *a, const float *b, float *out, int n)",
    _dot,
    hints=(
        (
            _is_near,
            "Near, but rounded otherwise: each product is rounded before it is added (no fma), "
            "thread t adds its elements in order, and the tree folds t + d onto t, d from 128 "
            "down.",
        ),
    ),
)


# ---- 08: instructions ----


def _around(shape, rng) -> Case:
    n, d = shape
    a = rng.integers(-1000, 1000, n).astype("i4")
    right = np.zeros(n, "i4")
    for k in range(16):
        right += a[(np.arange(n) + d + k) % n]
    return Case(
        (a, unwritten(n, "i4"), n, d), (up(n, 256),), (256,), {1: right}, {"n": n, "d": d}
    )


INSTRUCTIONS = Task(
    "08",
    "instructions",
    "void around(const int *a, int *out, int n, int d)",
    _around,
    sizes=("n", "d"),
    hints=(
        (
            lambda case, got: True,
            "0 <= i < n and 0 <= d < n: i + d is below 2 n, so one subtraction brings it back, "
            "and each step onwards meets n at most once.",
        ),
    ),
    without=(
        (r"%", "There is still a %: compare with n, and subtract it where it was reached."),
        (r"/", "A division is what % is made of: compare and subtract."),
        (r"\b(fmod|remainder|div|ldiv)\w*\s*\(", "A function that divides is a division too."),
    ),
)


# ---- 09: matrix product ----


def _product(shape, rng) -> Case:
    (n,) = shape
    a, b = floats(rng, n, n), floats(rng, n, n)
    right = a.astype("f8") @ b.astype("f8")
    # Each of n products and sums is rounded once, whatever their order.
    bound = 1.1 * (n + 1) * _U * (np.abs(a).astype("f8") @ np.abs(b).astype("f8"))
    blocks = up(n, 16)
    return Case(
        (a, b, unwritten((n, n)), n),
        (blocks, blocks),
        (16, 16),
        {2: right},
        {"n": n},
        within={2: bound},
    )


MATMUL = Task(
    "09",
    "matrix product",
    "void multiply(const float *a, const float *b, float *c, int n)",
    _product,
    limits=(
        Limit(
            "sectors that global loads take are",
            lambda t: t.sum("global", "load", "parts"),
            # A tile of a or b has 16 rows of 64 bytes; an unaligned row touches three sectors.
            lambda case: 2 * up(case.sizes["n"], 16) ** 3 * 16 * 3,
            "Each element is loaded by a whole row of blocks: let a block load a tile of 16 x "
            "16 of a and of b to shared memory once, and use it 16 times.",
            lambda t: t.worst("global", "load"),
        ),
        excess("shared", "load store", "A row of a tile for neighbouring threads: tile[y][x]."),
    ),
    hints=(
        (
            lambda case, got: np.isnan(got[2]).any(),
            "What is no number comes in behind the edges: put 0 into the tiles there.",
        ),
    ),
)

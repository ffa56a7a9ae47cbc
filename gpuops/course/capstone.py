"""capstone - exercises 14a to 14d: kernels with the decks' mistakes, to be repaired."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from .memory import BANKS
from .problems import HISTOGRAM
from .sums import REDUCE
from .task import Case, Task, floats, told, unwritten, up


def _added(a: np.ndarray, x: np.ndarray, first: int = 0, last: int = 0) -> np.ndarray:
    """A x, the entries of a row added in their order, from `first` to n - `last`."""
    total = np.zeros(len(x), "f4")
    for k in range(first, len(x) - last):
        total += a[:, k] * x[k]
    return total


def _dense(shape, rng) -> Case:
    (n,) = shape
    a, f, x = floats(rng, n, n), floats(rng, n), floats(rng, n)
    alpha = np.float32(-0.125)
    right = x + alpha * (_added(a, x) - f)
    return Case(
        (a, f, float(alpha), x, unwritten(n), n), (up(n, 128),), (128,), {4: right}, {"n": n}
    )


def _wrong_steps(case: Case) -> Iterator[tuple[Any, str]]:
    a, f, alpha, x = case.args[:4]
    alpha, s = np.float32(alpha), _added(a, x)
    step = "x0 + alpha * (A x0 - f)."
    yield x - alpha * (s - f), f"The correction has the wrong sign: {step}"
    yield x + alpha * s, f"f is missing: {step}"
    yield x + alpha * (s + f), f"f has the wrong sign: {step}"
    yield x + (s - f), f"alpha is missing: {step}"
    yield alpha * (s - f), f"x0 itself is missing: {step}"
    yield s, f"That is A x0, from which the step has to be made: {step}"
    turned = "A is turned: row i of A begins at a[n * i]."
    yield x + alpha * (_added(a.T, x) - f), turned
    yield x + alpha * (_added(a, x, first=1) - f), "The first entry of each row is missing."
    yield x + alpha * (_added(a, x, last=1) - f), "The last entry of each row is missing."


MENDED_TRANSPOSE = replace(
    BANKS,
    name="14a",
    title="mended transpose",
    # Padded or swizzled, both will do here.
    limits=BANKS.limits[1:],
    variable="TRANSPOSE",
)
MENDED_SUM = replace(REDUCE, name="14b", title="mended sum", variable="SUM")
MENDED_STEP = Task(
    "14c",
    "mended iteration",
    "void step(const float *a, const float *f, float alpha, const float *x0, float *x1, int n)",
    _dense,
    hints=(
        told(4, _wrong_steps),
        (
            lambda case, got: np.allclose(got[4], case.expected[4], rtol=1e-4, atol=1e-5),
            "Near, but rounded otherwise: the entries of a row are added in their order, each "
            "product and sum rounded to float (no fma, no double).",
        ),
        (
            lambda case, got: True,
            "Element i is x0[i] + alpha * (sum - f[i]), and sum that of a[n * i + k] * x0[k] "
            "over all k below n.",
        ),
    ),
    variable="STEP",
)
MENDED_PAIRS = replace(HISTOGRAM, name="14d", title="mended histogram", variable="PAIRS")

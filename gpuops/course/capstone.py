"""capstone - exercises 14a to 14d: kernels with the decks' mistakes, to be repaired."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from .memory import BANKS
from .problems import HISTOGRAM
from .sums import REDUCE
from .task import Case, Task, floats, unwritten, up


def _dense(shape, rng) -> Case:
    (n,) = shape
    a, f, x = floats(rng, n, n), floats(rng, n), floats(rng, n)
    alpha = np.float32(-0.125)
    total = np.zeros(n, "f4")
    for k in range(n):
        total += a[:, k] * x[k]
    right = x + alpha * (total - f)
    return Case(
        (a, f, float(alpha), x, unwritten(n), n), (up(n, 128),), (128,), {4: right}, {"n": n}
    )


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
        (
            lambda case, got: np.allclose(
                got[4], 2 * case.args[3] - case.expected[4], atol=1e-3
            ),
            "The correction has the wrong sign: x0 + alpha * (A x0 - f).",
        ),
    ),
    variable="STEP",
)
MENDED_PAIRS = replace(HISTOGRAM, name="14d", title="mended histogram", variable="PAIRS")

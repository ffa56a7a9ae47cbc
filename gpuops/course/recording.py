"""recording - what needs a GPU's clock: measured on the reader's, or on a GPU by course/record.py.

Nothing of it is made up: without a GPU and without a record there is a sentence.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from .. import device as on
from .. import devices, is_available
from ..arrays import to_device
from ..compiling import compile
from ..sweeps import sweep
from ..timing import benchmark

_REPEAT = """
__global__ void repeat(float *a, int times)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    float x = a[i];
    int k = i + 3;
    for (int j = 0; j < times; j++) { STEP; STEP; STEP; STEP; }
    a[i] = x + k;
}
"""
# What is repeated: each step needs the one before.
STEPS = {
    "x + 1": "x = x + 1.5f",
    "x * c": "x = x * 1.0001f",
    "x / c": "x = x / 1.0001f",
    "sqrtf": "x = sqrtf(x + 1.0f)",
    "sinf": "x = sinf(x)",
    "__sinf": "x = __sinf(x)",
    "k * 3": "k = k * 3 + 1",
    "k / j": "k = k / (j + 7) + 1000",
    "k % j": "k = k % (j + 7) + 1000",
}


def unroll_factors(where: str, size: int = 1 << 26) -> dict[str, float]:
    """GB/s of a sum in passes, by how many loads a thread has under way."""
    with on(where):
        a = to_device(np.ones(size, "f4"), where)
        rows = sweep("sum", a, kernel="multipass")
    return {f"{r.params['uf']}": r.timing.gbps for r in rows if r.timing and r.timing.gbps}


def instructions(where: str, blocks: int = 4096, times: int = 256) -> dict[str, float]:
    """Seconds of so many steps of each kind, over those of an addition."""
    seconds = {}
    for name, step in STEPS.items():
        kernel = compile(_REPEAT.replace("STEP", step), where)
        a = to_device(np.ones(blocks * 256, "f4"), where)
        seconds[name] = float(benchmark(kernel[blocks, 256], (a, times), n_repeat=5).total)
    return {name: s / seconds["x + 1"] for name, s in seconds.items()}


MEASURES: dict[str, Callable[[str], dict[str, float]]] = {
    "unroll factor": unroll_factors,
    "instructions": instructions,
}


def recorded(name: str) -> dict[str, Any] | None:
    """`{"device": ..., "values": ...}` of this machine's GPU, else of a record; or None.

    Without either it prints so.
    """
    if name not in MEASURES:
        raise KeyError(f"recorded: there is no {name!r}, only {', '.join(MEASURES)}")
    if is_available("cuda"):
        return {"device": devices("cuda")[0].info.name, "values": MEASURES[name]("cuda")}
    path = Path(__file__).with_name("recorded.json")
    found = json.loads(path.read_text()).get(name) if path.exists() else None
    if found is None:
        print(
            f"recorded: no GPU is here, and {name!r} has not been recorded on one yet "
            "(course/record.py does that): there is nothing to show"
        )
    return found

"""same_bits - how many results a sum has over chunks: Dask's own, and gpuops'.

    python benchmarks/same_bits.py [--write]

sums one array of float32 in fifty chunkings and prints a line for each result of `da.sum`, with
what `gpuops.dask.sum` gives below. With --write the table of docs/same-bits.md is replaced.
"""

from __future__ import annotations

import collections
import platform
import sys
from pathlib import Path

import dask
import dask.array as da
import numpy as np

import gpuops.dask

PAGE = Path(__file__).resolve().parent.parent / "docs" / "same-bits.md"
BEGIN, END = "<!-- benchmarks/same_bits.py -->", "<!-- end -->"
N = 1_000_000


def chunkings(count: int = 50) -> list[tuple[int, ...]]:
    """Even chunks of round sizes and chunks cut at random, as data come."""
    rng = np.random.default_rng(1)
    even = [(int(n),) for n in np.geomspace(1_000, N, count // 2)]
    cuts = [np.sort(rng.integers(0, N, rng.integers(2, 200))) for _ in range(count - len(even))]
    return even + [tuple(np.diff([0, *c, N]).tolist()) for c in cuts]


def results() -> tuple[collections.Counter, collections.Counter]:
    a = np.random.default_rng(0).exponential(1.0, N).astype(np.float32) - np.float32(1)
    theirs, ours = collections.Counter(), collections.Counter()
    with dask.config.set(scheduler="threads"):
        for chunks in chunkings():
            x = da.from_array(a, chunks=chunks[0] if len(chunks) == 1 else (chunks,))
            theirs[float(x.sum().compute())] += 1
            ours[float(gpuops.dask.sum(x).compute())] += 1
    return theirs, ours


def table() -> str:
    theirs, ours = results()
    lines = [
        "| sum of one array of 1,000,000 float32 | in how many of 50 chunkings |",
        "|---|---|",
    ]
    lines += [f"| `da.sum(x)` = {value!r} | {n} |" for value, n in sorted(theirs.items())]
    lines += [
        f"| `gpuops.dask.sum(x)` = {value!r} | {n} |" for value, n in sorted(ours.items())
    ]
    made = f"Dask {dask.__version__}, NumPy {np.__version__}, {platform.machine()}"
    return "\n".join(
        [*lines, "", f"({made}; `python benchmarks/same_bits.py` makes the table.)"]
    )


def main() -> None:
    text = table()
    print(text)
    if "--write" in sys.argv[1:]:
        head, _, rest = PAGE.read_text().partition(BEGIN)
        tail = rest.partition(END)[2]
        PAGE.write_text(f"{head}{BEGIN}\n{text}\n{END}{tail}")


if __name__ == "__main__":
    main()

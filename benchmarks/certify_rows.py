"""certify_rows - which call of each row of the CUDA ladders the certificate counts.

A new row is certified by being in its table; it needs a line here only where it refuses the
call of its operation, or where a GPU counts otherwise.
"""

from __future__ import annotations

import numpy as np

import gpuops
from gpuops import _core
from gpuops.devices import open_backend

# (op, kernel) -> why a GPU counts otherwise than sim.
CAUSES: dict[tuple[str, str], str] = {
    ("transpose", "boxed"): "not isolated: nvcc's code reads shared memory less often than the "
    "source says",
    ("transpose", "shifted"): "not isolated: nvcc's code stores once less than the source says",
    ("matmul", "small"): "not isolated: nvcc's code loads less often than the source says",
    ("reduce", "thin"): "nvcc joins four neighbouring stores of a thread to one of 16 bytes",
    ("matmul", "tiled"): "nvcc joins four loads along a row of a's tile to one of 16 bytes",
    ("matmul", "strips"): "not isolated: fewer wavefronts, as of fewer and wider loads",
    ("matmul", "patches"): "not isolated: fewer wavefronts, as of fewer and wider loads",
    ("matmul", "gemv_col"): "not isolated: nvcc's code loads less often than the source says",
    ("reduce", "indexed"): "not isolated: more wavefronts in shared memory",
    ("rdf", "guessed"): "not isolated: fewer wavefronts in shared memory",
    (
        "rdf",
        "cells",
    ): "points of a cell come in the order of their atomics; nvcc's code loads less "
    "often than the source says",
    ("jacobi_step", "stencil"): "not isolated: nvcc's code loads less often than the source "
    "says",
    ("rdf", "persistent"): "rsqrtf rounds otherwise on a GPU, so that other guesses of a bin "
    "are near an edge and read a threshold",
}


def random(*shape: int) -> np.ndarray:
    return np.random.default_rng(0).random(shape, np.float32)


def laplacian(n: int):
    """The 5-point stencil on an n x n grid without edges, in CSR: 5 terms to every row."""
    import scipy.sparse

    ends = [-n + 1, -1, 0, 1, n - 1]
    line = scipy.sparse.diags_array([1.0, 1.0, -2.0, 1.0, 1.0], offsets=ends, shape=(n, n))
    return scipy.sparse.csr_array(scipy.sparse.kronsum(line, line), dtype=np.float32)


# op -> kernel -> (arguments, options); "" stands for the kernels that are not listed. Sizes are
# no multiples of a tile where the kernel allows it, and small enough for any number of
# multiprocessors to get the same grid. But the threads of a warp go round a loop equally often:
# where they do not, a loop that nvcc unrolls asks more often than the source does.
CALLS = {
    "add": {
        "": lambda: ((random(40_000), random(40_000)), {}),
        "tiled": lambda: ((random(200, 200), random(200, 200).T), {}),
    },
    "multiply_add": {
        "": lambda: ((random(40_000), random(40_000), random(40_000)), {}),
        "tiled": lambda: ((random(200, 200), random(200, 200).T, random(200, 200)), {}),
    },
    "fma": {
        "": lambda: ((random(40_000), random(40_000), random(40_000)), {}),
        "tiled": lambda: ((random(200, 200), random(200, 200).T, random(200, 200)), {}),
    },
    "transpose": {
        "": lambda: ((random(200, 136),), {}),
        "packed": lambda: ((random(200, 136).view("u2")[:, :136].copy(),), {}),
        "boxed": lambda: ((random(20, 8, 96),), {"axes": (2, 0, 1)}),
        "sectored": lambda: ((random(201, 135),), {}),
        "shifted": lambda: ((random(256, 135).astype("f2"),), {}),
        "small": lambda: ((random(201, 136),), {}),
        # Whole blocks: of a part of one nvcc reads the pieces that are stored, gcc all.
        "planar": lambda: ((random(20_480, 3),), {}),
        "lines": lambda: ((random(20, 30, 40),), {"axes": (1, 0, 2)}),
        "pixels": lambda: ((random(132, 68, 3),), {"axes": (1, 0, 2)}),
    },
    "reduce": {
        "": lambda: ((random(20_000),), {}),
        "wide": lambda: ((random(19_971),), {}),
        "atomic": lambda: ((random(19_971),), {}),
        "ticket": lambda: ((random(19_971),), {}),
        "indexed": lambda: ((random(64, 8, 5, 8),), {"axis": (1, 3)}),
        "short": lambda: ((random(2_300, 9),), {"axis": 1}),
        "columns": lambda: ((random(2_100, 100),), {"axis": 0}),
        "rows": lambda: ((random(2_300, 24),), {"axis": 1}),
        "thin": lambda: ((random(2_100, 7),), {"axis": 0}),
        "exact": lambda: ((random(300, 128),), {"axis": 1, "exact": True}),
    },
    "matmul": {
        "": lambda: ((random(70, 50), random(50, 90)), {}),
        "blocktiled": lambda: ((random(150, 50), random(50, 140)), {}),
        "splitk": lambda: ((random(20, 6_000), random(6_000, 24)), {}),
        "tall": lambda: ((random(6_000, 20).T, random(6_000, 24)), {}),
        "outer": lambda: ((random(150, 20), random(20, 141)), {}),
        "small": lambda: ((random(40, 9, 20), random(40, 20, 13)), {}),
        "gemv_row": lambda: ((random(300, 700), random(700, 3)), {}),
        "gemv_col": lambda: ((random(700, 300).T, random(700, 3)), {}),
    },
    "jacobi_step": {
        "": lambda: ((random(100, 100), random(100), random(100)), {}),
        "block": lambda: ((random(2_176, 2_176), random(2_176), random(2_176)), {}),
        "column": lambda: ((np.asfortranarray(random(100, 100)), random(100), random(100)), {}),
        "balanced": lambda: ((laplacian(24), random(576), random(576)), {}),
        "stencil": lambda: (
            (gpuops.poisson((24, 24), dtype="f4"), random(576), random(576)),
            {},
        ),
    },
    "rdf": {"": lambda: ((random(700, 3), 0.5, 64), {})},
}


def rows(backend: str) -> list[tuple[str, str]]:
    """(op, kernel) of the rows of the CUDA ladders; `backend` is cuda or sim.

    Not `units`, whose number of blocks depends on the multiprocessors."""
    open_backend(backend)
    names = [(op, row["name"]) for op in CALLS for row in _core.ladder(op, backend)]
    return [name for name in names if name != ("matmul", "units")]


def candidates(backend: str) -> set[tuple[str, str]]:
    """Those that wait for their first GPU."""
    return {
        (op, row["name"])
        for op in CALLS
        for row in _core.ladder(op, backend)
        if row["role"] == "candidate"
    }


def call(op: str, kernel: str, device: str) -> None:
    """One launch, or several, of the row's kernels."""
    args, options = CALLS[op].get(kernel, CALLS[op][""])()
    options = {"kernel": kernel, "device": device, **options}
    if next(r for r in _core.ladder(op, device) if r["name"] == kernel)["role"] == "yardstick":
        gpuops.benchmark(op, args, options, n_repeat=1, n_warmup=0, cold=False)
    else:
        getattr(gpuops, op)(*args, **options)

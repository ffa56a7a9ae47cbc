"""machines - exercises 12 and 13: what transfers cost, and the transpose in OpenCL's words."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from .memory import TRANSPOSE, only_diagonals
from .task import Case, Task, excess, unwritten, up

# ---- 12: transfers ----


def _crossover(machine: np.ndarray, bytes_moved: np.ndarray) -> np.ndarray:
    wait, _, _, bus, cpu, gpu = machine.astype("f8").T
    gain = cpu - gpu - bytes_moved / bus
    return np.where(gain > 0, wait / np.where(gain > 0, gain, 1), 0)


def _machines(shape, rng) -> Case:
    """Machines at random; on about half of them even the bus is slower than the CPU."""
    (count,) = shape
    wait = 10 ** rng.uniform(3.5, 5, count)
    up_, down = rng.integers(1, 4, count) * 4, rng.integers(1, 3, count) * 4
    bus = 10 ** rng.uniform(0.5, 1.8, count)
    gpu = 10 ** rng.uniform(-2, 0.5, count)  # on some as long as the way there
    least = gpu + (up_ + down) / bus
    # Well on one side or the other: no rounding turns a gain into a loss.
    cpu = least * np.where(rng.random(count) < 0.5, 10 ** rng.uniform(0.2, 1.5, count), 0.6)
    machine = np.stack([wait, up_, down, bus, cpu, gpu], axis=1).astype("f4")
    right = _crossover(machine, machine[:, 1] + machine[:, 2]).astype("f4")
    args = (machine, unwritten(count), count)
    return Case(
        args,
        (up(count, 128),),
        (128,),
        {1: right},
        {"machines": count},
        within={1: 0.2 * right.astype("f8")},
        allowed="a fifth of it",
    )


def _is(case: Case, got, moved: np.ndarray) -> bool:
    wanted = _crossover(case.args[0], moved)
    return bool(np.allclose(got[1], wanted, rtol=0.05))


TRANSFERS = Task(
    "12",
    "transfers",
    "void crossover(const float *machine, float *size, int count)",
    _machines,
    hints=(
        (
            lambda case, got: (got[1] < 0).any(),
            "A negative size says that the GPU loses at every size: store 0 there.",
        ),
        (
            lambda case, got: _is(case, got, 0 * case.args[0][:, 1]),
            "That is the crossover of arrays that are on the GPU already: these have to go up, "
            "and the result has to come back.",
        ),
        (
            lambda case, got: _is(case, got, case.args[0][:, 1]),
            "The result has to come back too: machine[6 * i + 2] bytes an element.",
        ),
        (
            lambda case, got: _is(case, got, np.maximum(*case.args[0][:, 1:3].T)),
            "Nothing overlaps here: first all goes up, then the kernel runs, then all comes "
            "back.",
        ),
        (
            lambda case, got: True,
            "Both are straight lines, cpu * n and wait + n * (what an element takes on its "
            "way, and on the GPU): where do they meet? A GB/s is a byte a nanosecond.",
        ),
    ),
)

# ---- 13: OpenCL ----


OPENCL = replace(
    TRANSPOSE,
    name="13",
    title="transpose in OpenCL",
    signature="void transpose(__global const float *in, __global float *out, int n)",
    limits=(
        excess("global", "load", "Let get_local_id(0) run along a row of the input."),
        excess(
            "global",
            "store",
            "Let get_local_id(0) run along a row of the output: turn the tile on its way, in "
            "local memory.",
        ),
    ),
    hints=(
        (
            only_diagonals,
            "Only the diagonals of tiles are right: a tile is the whole group's, __local; a "
            "private one is an item's own.",
            r"^(?![\s\S]*__(?:shared|local))",
        ),
        *(hint for hint in TRANSPOSE.hints if hint[0] is not only_diagonals),
    ),
    without=(
        (
            r"\b(threadIdx|blockIdx|blockDim|gridDim|__\w+__|__syncthreads)\b",
            "There is a word of CUDA's left, which OpenCL does not know: see the dictionary.",
        ),
        (
            r"\bbarrier\s*\(\s*CLK_GLOBAL_MEM_FENCE\s*\)",
            "CLK_GLOBAL_MEM_FENCE orders global memory alone, and the tile is in local memory: "
            "barrier(CLK_LOCAL_MEM_FENCE).",
        ),
    ),
    opencl=True,
)

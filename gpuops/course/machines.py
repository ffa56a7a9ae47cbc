"""machines - exercises 12 and 13: what transfers cost, and the transpose in OpenCL's words."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from .memory import TRANSPOSE, only_diagonals
from .task import Case, Task, excess, told, unwritten, up

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


def _wrong_sizes(case: Case) -> Iterator[tuple[Any, str]]:
    machine = case.args[0]
    wait, up_, down, bus, cpu, gpu = machine.T

    def line(moved: np.ndarray) -> np.ndarray:
        return _crossover(machine, moved)

    right = line(up_ + down)
    there = "That is the crossover of arrays that are on the GPU already: these have to go up, "
    yield line(0 * up_), there + "and the result has to come back."
    ways = "Both ways count, one after the other: the bytes of machine[6 * i + 1] go up, and "
    for moved in (up_, down, np.maximum(up_, down)):
        yield line(moved), ways + "those of machine[6 * i + 2] come back."
    rate = "GB/s are bytes a nanosecond: bytes over that rate are nanoseconds."
    yield line((up_ + down) * bus * bus), rate
    over = "That is what an element gains over the wait: n is the wait over the gain."
    yield np.where(right > 0, 1 / np.where(right > 0, right, 1), 0), over
    loss = gpu + (up_ + down) / bus - cpu
    sign = "0 stands where the GPU wins: the gain is what the CPU takes more, cpu - gpu - ..."
    yield np.where(loss > 0, wait / np.where(loss > 0, loss, 1), 0), sign


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
        told(1, _wrong_sizes, rtol=0.05),
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

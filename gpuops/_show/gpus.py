"""gpus - GPUs that explain() can be asked about where they are not there.

Numbers are those of NVIDIA's data sheets and architecture whitepapers: of the H200 and H100 the
SXM boards, of the A100 the one with 80 GB. Clocks are the highest. The memory's rate is the one
that its clock and width come to, as the driver reports it: of an H200 a little more than the
4.8 TB/s on its sheet.
"""

from __future__ import annotations

from typing import NamedTuple

MI, GI = 2**20, 2**30


class Gpu(NamedTuple):
    """The order is that of the core (csrc/python/tables.c)."""

    name: str
    capability: tuple[int, int]
    processors: int
    memory: int  # bytes, as all that follow
    l2: int
    shared_per_block: int
    clock: float  # Hz
    bandwidth: float  # bytes a second


GPUS = {
    "H200": Gpu("NVIDIA H200", (9, 0), 132, 141 * GI, 60 * MI, 227 << 10, 1.98e9, 4.92e12),
    "H100": Gpu("NVIDIA H100", (9, 0), 132, 80 * GI, 50 * MI, 227 << 10, 1.98e9, 3.35e12),
    "A100": Gpu("NVIDIA A100", (8, 0), 108, 80 * GI, 40 * MI, 163 << 10, 1.41e9, 2.04e12),
    "RTX 4090": Gpu(
        "NVIDIA GeForce RTX 4090", (8, 9), 128, 24 * GI, 72 * MI, 99 << 10, 2.52e9, 1.008e12
    ),
    "T4": Gpu("NVIDIA T4", (7, 5), 40, 16 * GI, 4 * MI, 64 << 10, 1.59e9, 3.2e11),
}


def gpu_like(like: str, device: object) -> Gpu:
    """The GPU of that name, for a call that asks for that device."""
    if not isinstance(like, str):
        raise TypeError(f"explain: like is the name of a GPU, got {type(like).__name__}")
    if str(device).partition(":")[0] != "sim":
        got = "no device" if device is None else f"device={str(device)!r}"
        raise ValueError(
            f"explain: like={like!r} asks about a GPU that is not there: it needs "
            f"device='sim', got {got}"
        )
    for word, gpu in GPUS.items():
        if like in (word, gpu.name):
            return gpu
    raise ValueError(f"explain: like= is {like!r}, expected one of {', '.join(GPUS)}")

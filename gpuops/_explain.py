"""_explain - explain: where a call would run, by which kernel, what it moves, and why."""

from __future__ import annotations

from dataclasses import dataclass

from ._registry import resolve
from .arrays import DeviceArray
from .devices import GPU_WORK, Device, get_default_device, why_not
from .timing import copy_rate, duration, probed


@dataclass(frozen=True)
class Explanation:
    """What a call would do: `device`, `kernel`, bytes and flops, transfers, and `why`."""

    op: str
    device: Device
    kernel: str
    bytes: float
    flops: float
    upload_bytes: int
    download_bytes: int
    scratch_bytes: int
    bus_seconds: float
    kernel_seconds: float | None
    why: tuple[str, ...]

    def __repr__(self) -> str:
        lines = [
            f"{self.op} runs on {self.device} with kernel {self.kernel!r}",
            f"  moves at least {_size(self.bytes)}, {self.flops:.3g} arithmetic operations",
        ]
        if self.kernel_seconds:
            lines.append(
                f"  at this device's copy rate that takes {duration(self.kernel_seconds)}"
            )
        if self.upload_bytes or self.download_bytes:
            lines.append(
                f"  the bus carries {_size(self.upload_bytes)} there and "
                f"{_size(self.download_bytes)} back: about {duration(self.bus_seconds)}"
            )
        if self.scratch_bytes:
            lines.append(f"  needs {_size(self.scratch_bytes)} of scratch memory")
        return "\n".join([*lines, *[f"  {reason}" for reason in self.why]])


BUS_RATE = 25e9  # bytes a second of a 16-lane PCIe 4 bus, for the estimate


def _size(count: float) -> str:
    for unit, scale in (("GiB", 2**30), ("MiB", 2**20), ("KiB", 2**10)):
        if count >= scale:
            return f"{count / scale:.3g} {unit}"
    return f"{int(count)} bytes"


def explain(op, *args, **kwargs) -> Explanation:
    """Says where a call would run, by which kernel, what it moves, and why; runs nothing.

    Examples
    --------
    >>> import numpy as np, gpuops
    >>> e = gpuops.explain("add", np.ones(1000), 1.0, device="cpu")
    >>> str(e.device), e.upload_bytes
    ('cpu', 0)
    """
    name = resolve("explain", op)
    said = probed(name, "plan", args, kwargs)
    facts, where = said.facts, said.device
    peak = copy_rate(where)
    bus = (facts["upload_bytes"] + facts["download_bytes"]) / BUS_RATE
    return Explanation(
        name, where, facts["kernel"], facts["bytes"], facts["flops"], facts["upload_bytes"],
        facts["download_bytes"], facts["scratch_bytes"], bus,
        facts["bytes"] / peak / 1e9 if peak else None, tuple(_why(name, where, args, kwargs)),
    )  # fmt: skip


def _why(name: str, where: Device, args, kwargs):
    if kwargs.get("device") not in (None, "auto"):
        yield f"device: asked for by device={str(kwargs['device'])!r}"
    elif any(isinstance(a, DeviceArray) for a in args):
        yield "device: its arrays live there"
    elif get_default_device() is not None:
        yield "device: set by a with block, set_default_device() or GPUOPS_DEVICE"
    elif kwargs.get("kernel") is not None:
        yield "device: the first of cuda, sim and cpu that has the kernel"
    elif where.backend == "cuda":
        yield f"device: the work exceeds {GPU_WORK[name]} and there is a GPU"
    elif name in GPU_WORK:
        reason = why_not("cuda")
        yield "device: " + (
            reason or f"the work is below {GPU_WORK[name]}, the bus would cost more"
        )
    else:
        yield "device: moving host arrays over the bus costs more than the operation itself"
    if kwargs.get("kernel") is None:
        yield "kernel: the last conforming row of the ladder that takes the call"
    else:
        yield "kernel: asked for by name"

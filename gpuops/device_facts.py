"""device_facts - DeviceInfo, and the table that `devices` gives of them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .devices import Device


@dataclass(frozen=True, slots=True)
class DeviceInfo:
    """Name, limits and memory of a device; ``device=`` takes it, or `str(info.device)`.

    Attributes
    ----------
    device : Device
    name : str
        The name that its maker gave it.
    compute_capability : tuple of int
        Major and minor; (0, 0) for a CPU.
    processors : int
        Multiprocessors, compute units of OpenCL, or CPU threads in use.
    max_threads_per_block, warp : int
        Numbers of threads; 0 for a CPU.
    shared_per_block : int
        Bytes of shared memory that a block may take.
    memory, memory_free : int
        Bytes. `memory_free` is None for a GPU that this process has not used: asking would
        start it.
    l2 : int
        Bytes of the L2 cache.
    detail : str
        More about it, such as instruction sets or the driver.

    Examples
    --------
    >>> import gpuops
    >>> info = gpuops.devices("cpu")[0]
    >>> str(info.device), info.compute_capability, info.memory > 0
    ('cpu', (0, 0), True)
    """

    device: Device
    name: str
    compute_capability: tuple[int, int]
    processors: int
    max_threads_per_block: int
    warp: int
    shared_per_block: int
    memory: int
    memory_free: int | None
    l2: int
    detail: str

    def __str__(self) -> str:
        words = {"cpu": "threads", "opencl": "compute units"}
        text = f"{self.device}: {self.name}, {self.processors} "
        text += words.get(self.device.backend, "multiprocessors")
        if self.device.backend == "cuda":
            text += ", compute capability {}.{}".format(*self.compute_capability)
        text += f", {self.memory / 2**30:.1f} GiB"
        if self.memory_free is not None:
            text += f" ({self.memory_free / 2**30:.1f} free)"
        if self.l2:
            text += f", L2 {self.l2 / 2**20:.0f} MiB"
        return text + (f", {self.detail}" if self.detail else "")


def facts_of(device: Device, said: dict[str, Any]) -> DeviceInfo:
    """From what the core says of it."""
    kept = {k: said[k] for k in DeviceInfo.__slots__ if k in said}
    kept["compute_capability"] = (said["major"], said["minor"])
    if said["memory_free"] < 0:
        kept["memory_free"] = None
    return DeviceInfo(device=device, **kept)


def _gib(amount: int | None) -> str:
    return "" if amount is None else f"{amount / 2**30:.1f} GiB"


class Devices(tuple[DeviceInfo, ...]):
    """What `devices` gives: a tuple of DeviceInfo that prints as a table."""

    __slots__ = ()

    def _table(self) -> Iterable[tuple[str, ...]]:
        yield "device", "name", "capability", "processors", "memory", "free", "L2"
        for d in self:
            capability = "{}.{}".format(*d.compute_capability) if d.warp else ""
            cache = f"{d.l2 / 2**20:.0f} MiB" if d.l2 else ""
            counts = capability, str(d.processors)
            yield str(d.device), d.name, *counts, _gib(d.memory), _gib(d.memory_free), cache

    def __repr__(self) -> str:
        table = list(self._table())
        wide = [max(map(len, column)) for column in zip(*table, strict=True)]
        lines = []
        for line in table:
            cells = [cell.ljust(w) for cell, w in zip(line[:2], wide[:2], strict=True)]
            cells += [cell.rjust(w) for cell, w in zip(line[2:], wide[2:], strict=True)]
            lines.append("  ".join(cells).rstrip())
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        from html import escape  # only for notebooks

        rows = (
            "".join(f"<td style='text-align:left'>{escape(cell)}</td>" for cell in line)
            for line in self._table()
        )
        return "<table>" + "".join(f"<tr>{row}</tr>" for row in rows) + "</table>"

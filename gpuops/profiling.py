"""profiling - profile: what the warps of a CUDA kernel do to memory, counted on `sim`.

The counts follow from the addresses that each warp touches, by the rules of compute capability
7.0 and later: global memory is read in sectors of 32 bytes, shared memory delivers one word
from each of 32 banks at a time. They are no times, and sim's own time says nothing of a GPU's.
"""

from __future__ import annotations

import html
import json
import threading
from collections.abc import Iterable
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from . import _core
from ._registry import OPS, name_of
from ._where import Place, places
from .devices import check, device, parse

__all__ = ["Counts", "KernelProfile", "Profile", "profile"]

_running = threading.Lock()


@dataclass(frozen=True)
class Counts:
    """What warps asked of one kind of memory, added up.

    `requests` are warp instructions, `lanes` the threads active in them, `bytes` what these
    asked for. `parts` is what it took: sectors of 32 bytes of global memory, wavefronts of
    shared memory; `ideal` is what as many bytes would take at best.
    """

    requests: int = 0
    lanes: int = 0
    bytes: int = 0
    parts: int = 0
    ideal: int = 0

    def __add__(self, other: Counts) -> Counts:
        names = [f.name for f in fields(self)]
        return Counts(*(getattr(self, n) + getattr(other, n) for n in names))

    @property
    def per_request(self) -> float:
        """Sectors or wavefronts a request; 0.0 if there were none."""
        return self.parts / self.requests if self.requests else 0.0

    @property
    def efficiency(self) -> float:
        """The best that was possible over what it took: 1.0 is perfect."""
        return self.ideal / self.parts if self.parts else 1.0

    @property
    def active(self) -> float:
        """Active threads of the 32, on average."""
        return self.lanes / self.requests if self.requests else 0.0


@dataclass(frozen=True)
class Access:
    """One instruction of a kernel: `space` is global or shared; file and line if known."""

    space: str
    kind: str  # load, store or atomic
    counts: Counts
    file: str = ""
    line: int = 0


@dataclass(frozen=True)
class KernelProfile:
    """The counts of one kernel, over all its launches."""

    name: str
    launches: int
    blocks: int
    threads: int
    accesses: tuple[Access, ...]

    def counts(self, space: str, kind: str) -> Counts:
        """The sum over the instructions of one space and kind.

        `space` is "global" or "shared", `kind` "load", "store" or "atomic".
        """
        return _sum(a.counts for a in self.accesses if (a.space, a.kind) == (space, kind))

    @property
    def lines(self) -> dict[tuple[str, int, str, str], Counts]:
        """Counts by (file, line, space, kind), in the order of the source."""
        found: dict[tuple[str, int, str, str], Counts] = {}
        for a in sorted(self.accesses, key=lambda a: (a.file, a.line, a.space, a.kind)):
            key = (a.file, a.line, a.space, a.kind)
            found[key] = found.get(key, Counts()) + a.counts
        return found


@dataclass(frozen=True, repr=False)
class Profile:
    """The kernels that a call launched, with what their warps did; prints as a table."""

    kernels: tuple[KernelProfile, ...]

    def __getitem__(self, name: str) -> KernelProfile:
        for kernel in self.kernels:
            if name in (kernel.name, kernel.name.removesuffix("_kernel")):
                return kernel
        raise KeyError(f"no kernel {name!r} ran, only {[k.name for k in self.kernels]}")

    def as_dict(self) -> dict[str, Any]:
        """Plain numbers: kernel -> launches, blocks, threads and "space kind" -> counts."""
        return {
            k.name: {
                "launches": k.launches,
                "blocks": k.blocks,
                "threads": k.threads,
                **{
                    f"{space} {kind}": {f.name: getattr(counts, f.name) for f in fields(counts)}
                    for space, kind, counts in _kinds(k)
                },
            }
            for k in self.kernels
        }

    def __repr__(self) -> str:
        text = []
        for k in self.kernels:
            text.append(f"{k.name}: {_of(k)}")
            text += _columns([_HEADER, *_rows(k)])
            if any(a.line for a in k.accesses):
                text += _columns([("  line", *_HEADER[1:]), *_line_rows(k)])
        text.append("counted on sim; time on sim is not time on a GPU")
        return "\n".join(text)

    def _repr_html_(self) -> str:
        parts = []
        for k in self.kernels:
            parts.append(f"<p><b>{html.escape(k.name)}</b>: {_of(k)}</p>")
            for rows in ([_HEADER, *_rows(k)], [("line", *_HEADER[1:]), *_line_rows(k)]):
                cells = (
                    "".join(f"<td>{html.escape(cell)}</td>" for cell in row) for row in rows
                )
                table = "".join(f"<tr>{row}</tr>" for row in cells)
                parts.append(f"<table>{table}</table>")
        return "".join(parts) + "<p>counted on sim; time on sim is not time on a GPU</p>"


_HEADER = ("  memory", "requests", "active threads", "sectors or wavefronts", "each", "ideal")


def _of(k: KernelProfile) -> str:
    times = "one launch" if k.launches == 1 else f"{k.launches} launches"
    return f"{times}, {k.blocks} blocks, {k.threads} threads"


def _kinds(kernel: KernelProfile) -> Iterable[tuple[str, str, Counts]]:
    for space in ("global", "shared"):
        for kind in ("load", "store", "atomic"):
            counts = kernel.counts(space, kind)
            if counts.requests:
                yield space, kind, counts


def _row(label: str, counts: Counts) -> tuple[str, ...]:
    return (
        label, f"{counts.requests}", f"{counts.active:.1f} of 32", f"{counts.parts}",
        f"{counts.per_request:.2f}", f"{counts.efficiency:.0%}",
    )  # fmt: skip


def _rows(kernel: KernelProfile) -> list[tuple[str, ...]]:
    return [_row(f"  {space} {kind}", counts) for space, kind, counts in _kinds(kernel)]


def _line_rows(kernel: KernelProfile) -> list[tuple[str, ...]]:
    return [
        _row(f"  {Path(file).name}:{line} {space} {kind}", counts)
        for (file, line, space, kind), counts in kernel.lines.items()
    ]


def _columns(rows: list[tuple[str, ...]]) -> list[str]:
    wide = [max(len(row[c]) for row in rows) for c in range(len(rows[0]))]
    return [
        "  ".join(
            cell.ljust(w) if c == 0 else cell.rjust(w)
            for c, (cell, w) in enumerate(zip(row, wide, strict=True))
        )
        for row in rows
    ]


def _sum(counts: Iterable[Counts]) -> Counts:
    total = Counts()
    for one in counts:
        total = total + one
    return total


def _read(text: str) -> Profile:
    made = []
    for k in json.loads(text):
        # An instruction is told by where it returns to: the one before it is meant.
        inside = {i["offset"] - 1 for i in k["instructions"]}
        found = places(k["library"], sorted(inside | {k["offset"]}))
        accesses = []
        for i in k["instructions"]:
            at = found.get(i["offset"] - 1, Place())
            counts = Counts(*(i[f.name] for f in fields(Counts)))
            accesses.append(Access(i["space"], i["kind"], counts, at.file, at.line))
        name = found.get(k["offset"], Place()).function or k["name"]
        sizes = (k["launches"], k["blocks"], k["threads"])
        made.append(KernelProfile(name, *sizes, tuple(accesses)))
    return Profile(tuple(made))


def profile(f, *args, **kwargs) -> Profile:
    """Runs a call on `sim` and counts what the warps of its kernels do to memory.

    Parameters
    ----------
    f : function or str
        An operation or its name, or any function that calls some.
    *args, **kwargs
        Its arguments, ``kernel=`` among them. Counting takes some 50 ns for each access of
        each thread: small arrays show the same pattern as large ones.

    Returns
    -------
    Profile
        Prints as a table; `as_dict()` gives the numbers.

    Examples
    --------
    >>> import numpy as np, gpuops
    >>> a = np.ones((64, 64), np.float32)
    >>> p = gpuops.profile("transpose", a, kernel="tiled")    # doctest: +SKIP
    >>> p["transpose_tiled"].counts("shared", "load").per_request    # doctest: +SKIP
    32.0
    """
    name = name_of(f) if isinstance(f, str) else None
    function = OPS[name][1] if name else f
    if not callable(function):
        raise TypeError(f"profile: f is an operation or a function, not {f!r:.60}")
    asked = kwargs.pop("device", None)
    where = check(parse("sim" if asked is None else asked) or parse("sim"))
    if where.backend != "sim":
        raise ValueError(f"profile: kernels are counted on 'sim', not on {str(where)!r}")
    with _running, device(where):
        _core.profile("sim", True)
        try:
            function(*args, **kwargs)
        finally:
            text = _core.profile("sim", False)
    return _read(text)

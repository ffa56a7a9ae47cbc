"""ladders - kernels, source and ladder: the kernels as things to look at.

All of it is read from the tables that the core runs by, so a kernel is listed, timed and, on
sim, counted here by being in its table.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Any, SupportsIndex, overload

from . import _core
from ._call.registry import OPS, Op, call_of, resolve
from ._show import numpy_line as _numpy_line
from ._show import text as _text
from ._show.counted import Counted
from ._show.product_error import ProductError
from ._show.tables import Row, Table
from .devices import CPU, Device, get_default_device, open_backend, parse
from .errors import KernelRefusedError, brief
from .profiling import Profile, profile
from .timing import count, described, time_call

__all__ = ["Kernel", "Ladder", "kernels", "ladder", "source"]


@dataclass(frozen=True, repr=False)
class Kernel:
    """One row of a ladder; `str(kernel)` is the name that ``kernel=`` takes."""

    name: str
    note: str
    role: str  # conforming, teaching, yardstick or candidate
    caveat: str | None  # which promise a teaching row does not keep
    lecture: str | None
    dtypes: tuple[str, ...]
    tunables: dict[str, tuple[int, ...]] = field(hash=False)
    op: str = ""
    backend: str = ""

    def __str__(self) -> str:
        return self.name

    def _said(self) -> str:
        """Its note, and what else one has to know."""
        return (
            self.note
            + (f" [{self.role}: {self.caveat}]" if self.caveat else "")
            + "".join(f" [{name}: {_listed(v)}]" for name, v in self.tunables.items())
        )

    def _facts(self) -> list[tuple[str, str]]:
        found = [
            ("note", self.note),
            ("role", self.role + (f": {self.caveat}" if self.caveat else "")),
            ("lecture", self.lecture or ""),
            ("dtypes", ", ".join(self.dtypes)),
            *((f"params {name}", _listed(v)) for name, v in self.tunables.items()),
        ]
        return [(label, text) for label, text in found if text]

    def __repr__(self) -> str:
        return _text.facts(
            f"{self.name}, a kernel of {self.op} on {self.backend}", self._facts()
        )

    def _repr_html_(self) -> str:
        return _text.facts_html(f"{self.name}, {self.op} on {self.backend}", self._facts())


def _listed(values: Iterable[int]) -> str:
    return ", ".join(map(str, values))


class Kernels(tuple[Kernel, ...]):
    """A tuple of kernels that prints as a list one can read and takes their names."""

    __slots__ = ()

    def __repr__(self) -> str:
        wide = max((len(k.name) for k in self), default=0)
        return "\n".join(
            line
            for k in self
            for line in _text.wrapped(f"{k.name:<{wide}}  {k._said()}", wide + 2)
        )

    def _repr_html_(self) -> str:
        title = f"{self[0].op} on {self[0].backend}" if self else ""
        names, notes = [[k.name] for k in self], [k._said() for k in self]
        return _text.grid_html(title, ["kernel"], names, notes)

    @overload
    def __getitem__(self, key: SupportsIndex | str, /) -> Kernel: ...
    @overload
    def __getitem__(self, key: slice, /) -> tuple[Kernel, ...]: ...
    def __getitem__(self, key: SupportsIndex | slice | str, /) -> Kernel | tuple[Kernel, ...]:
        """By number, slice or name."""
        if not isinstance(key, str):
            return super().__getitem__(key)
        for kernel in self:
            if kernel.name == key:
                return kernel
        raise KeyError(key)

    def _ipython_key_completions_(self) -> list[str]:
        """What `kernels("add")["` and the Tab key offer."""
        return [kernel.name for kernel in self]


def place(device) -> Device:
    where = get_default_device() if device is None else parse(device)
    where = CPU if where is None else where
    open_backend(where.backend)
    return where


def kernels(op: Op, device: str | Device | None = None) -> Kernels:
    """Every kernel of an operation on a device, slowest first.

    Parameters
    ----------
    op : str or function
    device : str or Device, optional
        The CPU if none is set as default.

    Returns
    -------
    tuple of Kernel
        Each has `name`, `note`, `role`, `caveat`, `lecture`, `dtypes` and `tunables`.

    Examples
    --------
    >>> import gpuops
    >>> str(gpuops.kernels("transpose", "cpu")[0])
    'naive'
    """
    name = resolve("kernels", op)
    where = place(device)
    core = OPS[name][0]
    return Kernels(
        Kernel(**row, op=name, backend=where.backend)
        for row in _core.ladder(core, where.backend)
    )


def source(op: Op, kernel: str | Kernel, device: str | Device | None = None) -> str:
    """The source of a kernel and of its launch, in ``csrc/<backend>/<op>``, with file and line.

    Further kernels of that launch and what they call of that folder come with them, the nearest
    first, up to 120 lines in all; the rest is named. Works on every machine: the sources are
    part of the package.

    Parameters
    ----------
    op : str or function
    kernel : str or Kernel
    device : str or Device, optional
        Which backend's. Without it that of `kernels`, and cuda's where it has no such kernel.

    Examples
    --------
    >>> import gpuops
    >>> "transpose" in gpuops.source("transpose", "naive", "cpu")
    True
    """
    from ._show.source import find

    name = resolve("source", op)
    row = getattr(kernel, "name", kernel)
    if not isinstance(row, str):
        raise TypeError(f"source: kernel is a name such as 'naive', not {brief(kernel)}")
    if device is None and isinstance(kernel, Kernel):
        device = kernel.backend
    where = parse(device) if device is not None else None
    usual = get_default_device() or CPU
    backends = (usual.backend, "cuda", "cpu") if where is None else (where.backend,)
    core = OPS[name][0]
    for backend in backends:
        text = find(core, row, backend)
        if text:
            return text
    raise ValueError(
        f"source: no kernel {row!r} of {core} is written for "
        + " or ".join(dict.fromkeys(backends))
    )


# ---- ladder ----


class Ladder(Table):
    """Every kernel of an operation timed on one call; print it, index it by name, plot it."""


def measured(row: Row, name: str, args, call, blocks, **how) -> Row:
    """The row with a timing, on sim with a profile, or with the sentence of its refusal."""
    try:
        if call["device"].backend == "sim":
            return replace(row, profile=_counted(name, args, call, blocks))
        return replace(row, timing=time_call(name, args, call, **how))
    except KernelRefusedError as refusal:
        return replace(row, refused=str(refusal))


def _counted(name: str, args, call, blocks) -> Profile:
    def once():
        # Timed, as that road alone runs yardsticks; the time itself is dropped.
        call_of(name, args, call).time(0, 1, False)

    found = profile(once, device=call["device"], blocks=blocks)
    if not found.kernels:
        raise KernelRefusedError(f"{name}: this call runs no kernel")
    return found


def with_speedups(rows: list[Row]) -> list[Row]:
    times = [r.timing.kernel if r.timing and r.role != "yardstick" else None for r in rows]
    first = next((t for t in times if t), None)
    return [replace(r, speedup=first / t) if t else r for r, t in zip(rows, times, strict=True)]


def ladder(
    op: Op,
    *args: Any,
    device: str | Device | None = None,
    only: str | Kernel | Iterable[str | Kernel] | None = None,
    n_repeat: int | None = None,
    cold: bool = True,
    blocks: int | str = "all",
    **kwargs: Any,
) -> Ladder | Counted:
    """Times every kernel of an operation on the same call; on sim, counts what its warps do.

    Parameters
    ----------
    op : str or function
    *args, **kwargs
        The call's own arguments.
    device : str or Device, optional
        As in the call itself.
    only : str or iterable of str, optional
        The kernels to run, where all would take too long; "lecture" for those that come from a
        lecture, which their row names.
    n_repeat, cold : optional
        As in `benchmark`; sim runs each kernel once.
    blocks : optional
        Of sim alone: as in `profile`, a sample of each launch.

    Returns
    -------
    Ladder
        Rows in the table's order, slowest first by design; `speedup` is over the first that
        ran, and of products of floats `error` is the largest one of a sample, in units of u
        times the sum of |a| |b|. Kernels that refuse the call keep their row and their
        sentence. On the CPU `numpy` is what NumPy takes for the same, where all kernels run. On
        sim a table of the same form with a `profile` in each row: requests, sectors,
        wavefronts, atomics, branches at which warps diverged.

    Examples
    --------
    >>> import numpy as np, gpuops
    >>> rungs = gpuops.ladder("transpose", np.ones((64, 64)), device="cpu", n_repeat=3)
    >>> rungs[0].name, rungs[0].speedup
    ('naive', 1.0)
    """
    name = resolve("ladder", op)
    where = device_of(name, args, kwargs, device)
    wanted = _wanted(name, where, only)
    n_repeat = count("ladder", "n_repeat", n_repeat, 1)
    if not (isinstance(blocks, str) and blocks == "all") and where.backend != "sim":
        raise ValueError(f"ladder: blocks= is a sample of what sim runs; {where} runs all")
    rows: list[Row] = []
    for row in wanted:
        call = {**kwargs, "device": where, "kernel": row["name"]}
        labels = {key: row[key] for key in ("name", "note", "role", "lecture")}
        how = {"n_repeat": n_repeat, "cold": cold, "budget": 0.3}
        rows.append(measured(Row(**labels), name, args, call, blocks, **how))
    said = described(name, where, args, kwargs)
    if where.backend == "sim":
        return Counted(name, where, rows, call=said)
    rows = _with_errors(name, args, {**kwargs, "device": where}, rows)
    rungs = Ladder(name, where, with_speedups(rows), call=said)
    ran = [row.timing for row in rungs if row.timing and row.speedup]
    if where == CPU and ran and only is None:
        timing = _numpy_line.timed(name, args, kwargs, ran[0], n_repeat, cold, 0.3)
        if timing:
            note = f"{timing.label}: NumPy, not a kernel of gpuops"
            faster = ran[0].kernel / timing.kernel
            rungs.numpy = Row("(numpy)", note, "yardstick", timing, speedup=faster)
    return rungs


def _with_errors(name: str, args, call, rows: list[Row]) -> list[Row]:
    """Products with their errors; the rows as they are where there is none to be told."""
    if name != "matmul" or len(args) != 2:
        return rows
    try:
        error = ProductError(*args)
        return [
            replace(
                row, error=error.of(call_of(name, args, {**call, "kernel": row.name}).run())
            )
            if row.timing and row.role != "yardstick"
            else row
            for row in rows
        ]
    except (TypeError, ValueError, AttributeError, MemoryError):
        return rows


def _wanted(name: str, where: Device, only) -> list[dict[str, Any]]:
    """The rows that `only` asks for, in the table's order."""
    rows = _core.ladder(OPS[name][0], where.backend)
    if only is None:
        return rows
    if isinstance(only, str) and only == "lecture":
        found = [row for row in rows if row["lecture"]]
        if not found:
            raise ValueError(f"ladder: no kernel of {name} on {where} comes from a lecture")
        return found
    names = [row["name"] for row in rows]
    only = [only] if isinstance(only, (str, Kernel)) else only
    if not isinstance(only, Iterable):
        raise TypeError(f"ladder: only names kernels of {name}, not {brief(only)}")
    asked = [str(k) for k in only]
    for kernel in asked:
        if kernel not in names:
            raise ValueError(
                f"ladder: {name} has no kernel {kernel!r} on {where}, only {', '.join(names)}"
            )
    return [row for row in rows if row["name"] in asked]


def device_of(name: str, args, kwargs, device) -> Device:
    """The device that the call would take."""
    call = kwargs if device is None else {**kwargs, "device": device}
    return call_of(name, args, call).plan()["device"]

"""ladders - kernels, source, ladder and sweep: the kernels as things to look at.

All of it is read from the tables that the core runs by, so a kernel is listed, timed and, on
sim, counted here by being in its table.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Any

from . import _core, _road
from ._counted import Counted
from ._registry import OPS, resolve
from ._tables import Row, Table
from .devices import BACKENDS, CPU, Device, get_default_device, open_backend, parse
from .errors import KernelRefusedError
from .profiling import Profile, profile
from .timing import probed, time_call

__all__ = ["Kernel", "Ladder", "Sweep", "kernels", "ladder", "source", "sweep"]


@dataclass(frozen=True)
class Kernel:
    """One row of a ladder; `str(kernel)` is the name that ``kernel=`` takes."""

    name: str
    note: str
    role: str  # conforming, teaching or yardstick
    caveat: str | None  # which promise a teaching row does not keep
    lecture: str | None
    dtypes: tuple[str, ...]
    tunables: dict[str, tuple[int, ...]] = field(hash=False)
    op: str = ""
    backend: str = ""

    def __str__(self) -> str:
        return self.name


class _Listing(tuple):
    """A tuple of kernels that prints as a list one can read."""

    __slots__ = ()

    def __repr__(self) -> str:
        wide = max((len(k.name) for k in self), default=0)
        return "\n".join(
            f"{k.name:<{wide}}  {k.note}"
            + (f" [{k.role}: {k.caveat}]" if k.caveat else "")
            + "".join(f" [{name}: {', '.join(map(str, v))}]" for name, v in k.tunables.items())
            for k in self
        )


def _place(device) -> Device:
    where = get_default_device() if device is None else parse(device)
    where = CPU if where is None else where
    open_backend(where.backend)
    return where


def kernels(op, device=None) -> tuple[Kernel, ...]:
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
    where = _place(device)
    core = OPS[name][0]
    return _Listing(
        Kernel(**row, op=name, backend=where.backend)
        for row in _core.ladder(core, where.backend)
    )


def source(op, kernel, device=None) -> str:
    """The source of a kernel: its section of ``csrc/<backend>/<op>*``, with file and line.

    Works on every machine: the sources are part of the package.

    Parameters
    ----------
    op : str or function
    kernel : str or Kernel
    device : str or Device, optional
        Which backend's; without it the first of cuda, sim and cpu that has the kernel.

    Examples
    --------
    >>> import gpuops
    >>> "transpose" in gpuops.source("transpose", "naive", "cpu")
    True
    """
    from ._source import find

    name = resolve("source", op)
    row = getattr(kernel, "name", kernel)
    if not isinstance(row, str):
        raise TypeError(f"source: kernel is a name such as 'naive', not {kernel!r:.60}")
    if device is None and isinstance(kernel, Kernel):
        device = kernel.backend
    where = parse(device) if device is not None else None
    backends = BACKENDS if where is None else (where.backend,)
    core = OPS[name][0]
    for backend in backends:
        text = find(core, row, backend)
        if text:
            return text
    raise ValueError(
        f"source: no kernel {row!r} of {core} is written for {' or '.join(backends)}"
    )


# ---- ladder and sweep ----


class Ladder(Table):
    """Every kernel of an operation timed on one call; print it, index it by name, plot it."""


class Sweep(Table):
    """One kernel timed over values of its tunables; `best` is the fastest."""


def _measured(row: Row, name: str, args, call, blocks, **how) -> Row:
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
        probed(name, "time", args, call, n_warmup=0, n_repeat=1, cold=False)

    found = profile(once, device=call["device"], blocks=blocks)
    if not found.kernels:
        raise KernelRefusedError(f"{name}: this call runs no kernel")
    return found


def _with_speedups(rows: list[Row]) -> list[Row]:
    times = [r.timing.kernel if r.timing and r.role != "yardstick" else None for r in rows]
    first = next((t for t in times if t), None)
    return [replace(r, speedup=first / t) if t else r for r, t in zip(rows, times, strict=True)]


def ladder(
    op, *args, device=None, only=None, n_repeat=None, cold=True, blocks="all", **kwargs
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
        ran. Kernels that refuse the call keep their row and their sentence. On sim a table of
        the same form with a `profile` in each row: requests, sectors, wavefronts, atomics,
        branches at which warps diverged.

    Examples
    --------
    >>> import numpy as np, gpuops
    >>> rungs = gpuops.ladder("transpose", np.ones((64, 64)), device="cpu", n_repeat=3)
    >>> rungs[0].name, rungs[0].speedup
    ('naive', 1.0)
    """
    name = resolve("ladder", op)
    where = _where(name, args, kwargs, device)
    wanted = _wanted(name, where, only)
    if blocks != "all" and where.backend != "sim":
        raise ValueError(f"ladder: blocks= is a sample of what sim runs; {where} runs all")
    rows: list[Row] = []
    for row in wanted:
        call = {**kwargs, "device": where, "kernel": row["name"]}
        labels = {key: row[key] for key in ("name", "note", "role", "lecture")}
        how = {"n_repeat": n_repeat, "cold": cold, "budget": 0.3}
        rows.append(_measured(Row(**labels), name, args, call, blocks, **how))
    if where.backend == "sim":
        return Counted(name, where, rows)
    return Ladder(name, where, _with_speedups(rows))


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
    asked = [str(k) for k in ([only] if isinstance(only, str) else only)]
    for kernel in asked:
        if kernel not in names:
            raise ValueError(
                f"ladder: {name} has no kernel {kernel!r} on {where}, only {', '.join(names)}"
            )
    return [row for row in rows if row["name"] in asked]


def _where(name: str, args, kwargs, device) -> Device:
    """The device that the call would take."""
    call = kwargs if device is None else {**kwargs, "device": device}
    return probed(name, "plan", args, call).device


def sweep(
    op, *args, kernel=None, device=None, n_repeat=None, cold=True, **kwargs
) -> Sweep | Counted:
    """Times one kernel over values of its tunables, every combination; on sim, counts them.

    Parameters
    ----------
    op : str or function
    *args, **kwargs
        The call's own arguments; a keyword that is a tunable of the kernel gives its values.
    kernel : str, optional
        The last one that has tunables, without it.
    n_repeat, cold : optional
        As in `benchmark`.

    Examples
    --------
    >>> import numpy as np, gpuops
    >>> s = gpuops.sweep("add", np.ones(99), 1, kernel="naive", device="cpu", cold=False)
    >>> len(s)
    1
    """
    name = resolve("sweep", op)
    where = _where(name, args, {}, device) if not kwargs else None
    rows = _core.ladder(OPS[name][0], (where or _place(device)).backend)
    row = _sweep_row(name, rows, kernel)
    values = {k: _values(k, kwargs.pop(k, v)) for k, v in row["tunables"].items()}
    where = where or _where(name, args, kwargs, device)
    lines: list[Row] = []
    for combination in itertools.product(*values.values()):
        params = dict(zip(values, combination, strict=True))
        title = " ".join(f"{k}={v}" for k, v in params.items()) or "no tunables"
        line = Row(title, role=row["role"], params=params)
        wrong = [k for k, v in params.items() if v not in row["tunables"][k]]
        if wrong:
            allowed = ", ".join(map(str, row["tunables"][wrong[0]]))
            lines.append(replace(line, refused=f"{wrong[0]} is one of {allowed}"))
            continue
        call = {**kwargs, "device": where, "kernel": row["name"], "params": params}
        how = {"n_repeat": n_repeat, "cold": cold, "budget": 0.1}
        lines.append(_measured(line, name, args, call, "all", **how))
    if where.backend == "sim":
        return Counted(name, where, lines, row["name"])
    return Sweep(name, where, _with_speedups(lines), row["name"])


def _sweep_row(name: str, rows, kernel) -> dict[str, Any]:
    if kernel is None:
        tuned = [r for r in rows if r["tunables"] and r["role"] != "yardstick"]
        if not tuned:
            raise ValueError(
                f"sweep: no kernel of {name} has tunables there; name one by kernel="
            )
        return tuned[-1]
    for row in rows:
        if row["name"] == str(kernel):
            return row
    names = ", ".join(r["name"] for r in rows)
    raise ValueError(f"sweep: {name} has no kernel {str(kernel)!r} there, only {names}")


def _values(name: str, values) -> tuple[int, ...]:
    if isinstance(values, Iterable):
        return tuple(_road.index("sweep", name, v) for v in values)
    return (_road.index("sweep", name, values),)

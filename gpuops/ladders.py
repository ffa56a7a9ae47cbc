"""ladders - ladder: every kernel of an operation, timed or, on sim, counted on one call.

The rows are read from the tables that the core runs by.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from . import _core
from ._call.registry import OPS, Op, call_of, resolve
from ._show import numpy_line as _numpy_line
from ._show.counted import Counted
from ._show.product_error import ProductError
from ._show.source import refuse_old_name
from ._show.tables import Row, Table
from .device_facts import DeviceInfo
from .devices import CPU, Device
from .errors import KernelRefusedError, brief, flag
from .listing import Kernel
from .profiling import Profile, profile
from .timing import count, described, time_call

__all__ = ["Ladder", "ladder"]


class Ladder(Table):
    """Every kernel of an operation timed on one call; print it, index it by name, plot it.

    Attributes
    ----------
    op, kernel : str
        The operation. `kernel` is empty; only a Sweep has one.
    device : Device
    rows : tuple of Row
        Each has `name`, `note`, `role` and `lecture`; `timing`, or the sentence with which the
        kernel `refused`; `speedup` over the first kernel that ran; for products of floats also
        `error`.
    call : str
        What was called, with shapes and dtypes.
    numpy : Row or None
        The time of NumPy's own function, for a ladder on the CPU.

    Examples
    --------
    >>> import numpy as np, gpuops
    >>> rungs = gpuops.ladder("add", np.ones(1000), 1.0, device="cpu", n_repeat=3)
    >>> rungs["naive"].timing.kernel > 0, rungs["threaded"].role
    (True, 'production')
    """


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
        # Timed, as only that path runs yardsticks; the time itself is dropped.
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
    device: str | Device | DeviceInfo | None = None,
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
        The operation: its name, or the function.
    *args, **kwargs
        The call's own arguments.
    device : str or Device, optional
        As in the call itself.
    only : str or iterable of str, optional
        The kernels to run, if all would take too long; "lecture" picks those that come from a
        lecture, which their row names.
    n_repeat, cold : optional
        As in `benchmark`; sim runs each kernel once.
    blocks : optional
        Only on sim: runs a sample of each launch, as in `profile`.

    Returns
    -------
    Ladder
        Rows in the order of reading: lessons, production, yardsticks. `speedup` is over the
        first row that ran. For products of floats `error` is the largest one of a sample, in
        units of ``u * sum(|a| * |b|)``. A kernel that refuses the call keeps its row, with its
        reason. On the CPU, if all kernels run, `numpy` is NumPy's time for the same. On sim it
        is a table of the same form with a `profile` in each row: requests, sectors,
        wavefronts, atomics, branches at which warps diverged.

    Raises
    ------
    ValueError
        There is no such operation or kernel, or `blocks` is not for this device.
    TypeError
        A wrong argument; and whatever the call itself would refuse.

    Examples
    --------
    >>> import numpy as np, gpuops
    >>> rungs = gpuops.ladder("transpose", np.ones((64, 64)), device="cpu", n_repeat=3)
    >>> rungs[0].name, rungs[0].speedup
    ('naive', 1.0)
    """
    name = resolve("ladder", op)
    if "kernel" in kwargs:
        raise TypeError(
            "ladder: kernel= names one kernel, and a ladder compares them: pass only= with one "
            "name or several"
        )
    where = device_of(name, args, kwargs, device)
    wanted = _wanted(name, where, only)
    n_repeat, cold = count("ladder", "n_repeat", n_repeat, 1), flag("ladder", "cold", cold)
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
            refuse_old_name("ladder", OPS[name][0], kernel, where.backend)
            raise ValueError(
                f"ladder: {name} has no kernel {kernel!r} on {where}, only {', '.join(names)}"
            )
    return [row for row in rows if row["name"] in asked]


def device_of(name: str, args, kwargs, device) -> Device:
    """The device that the call would take."""
    call = kwargs if device is None else {**kwargs, "device": device}
    return call_of(name, args, call).plan()["device"]

"""sweeps - sweep: one kernel over values of its tunables."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from . import _core
from ._call import road as _road
from ._call.registry import OPS, Op, resolve
from ._show.counted import Counted
from ._show.source import refuse_old_name
from ._show.tables import Row, Table
from .device_facts import DeviceInfo
from .devices import Device, is_available
from .errors import flag
from .ladders import device_of, measured, with_speedups
from .listing import Kernel, place
from .timing import count, described

__all__ = ["Sweep", "sweep"]

MOST = 1000  # rows of a table


class Sweep(Table):
    """One kernel timed over values of its tunables; `best` is the fastest.

    Attributes
    ----------
    op, kernel : str
        The operation and the kernel.
    device : Device
    rows : tuple of Row
        One for each combination, like the rows of a Ladder, with `params`.
    call : str
        What was called, with shapes and dtypes.
    numpy : None
        Only a Ladder has it.

    Examples
    --------
    >>> import numpy as np, gpuops
    >>> s = gpuops.sweep("transpose", np.ones((64, 64)), device="cuda")    # doctest: +SKIP
    >>> s.best.params    # doctest: +SKIP
    {'side': 32, 'rows': 8}
    """


def sweep(
    op: Op,
    *args: Any,
    kernel: str | Kernel | None = None,
    device: str | Device | DeviceInfo | None = None,
    n_repeat: int | None = None,
    cold: bool = True,
    **kwargs: Any,
) -> Sweep | Counted:
    """Times one kernel over values of its tunables, every combination; on sim, counts them.

    Parameters
    ----------
    op : str or function
        The operation: its name, or the function.
    *args, **kwargs
        The call's own arguments; a keyword that is a tunable of the kernel gives its values.
    kernel : str, optional
        By default the last one that has tunables; `kernels` lists them.
    device : str or Device, optional
        As in the call itself.
    n_repeat, cold : optional
        As in `benchmark`.

    Returns
    -------
    Sweep
        A row for each combination. A combination that the kernel refuses keeps its row, with
        the reason. On sim it is a table of the same form with a `profile` in each row.

    Raises
    ------
    ValueError
        There is no such kernel, or none that has tunables; more than 1000 combinations.
    TypeError
        A tunable that is not an integer; and whatever the call itself would refuse.

    Examples
    --------
    >>> import numpy as np, gpuops
    >>> gpuops.sweep("transpose", np.ones((512, 512)), kernel="tiled", device="sim",
    ...              side=[16, 32])    # doctest: +SKIP
    """
    name = resolve("sweep", op)
    if "params" in kwargs:
        raise TypeError(
            "sweep: params= sets the tunables of one call, and a sweep tries several values: "
            "pass each tunable with its values, as side=[16, 32]"
        )
    where = device_of(name, args, {}, device) if not kwargs else None
    row = _swept(name, (where or place(device)).backend, kernel)
    values = {k: _values(k, kwargs.pop(k, v)) for k, v in row["tunables"].items()}
    where = where or device_of(name, args, kwargs, device)
    n_repeat, cold = count("sweep", "n_repeat", n_repeat, 1), flag("sweep", "cold", cold)
    if (rows := math.prod(map(len, values.values()))) > MOST:
        raise ValueError(f"sweep: {rows} combinations of values, expected at most {MOST}")
    lines: list[Row] = []
    for combination in itertools.product(*values.values()):
        params = dict(zip(values, combination, strict=True))
        title = " ".join(f"{k}={v}" for k, v in params.items())
        line = Row(title, role=row["role"], params=params)
        wrong = [k for k, v in params.items() if v not in row["tunables"][k]]
        if wrong:
            allowed = ", ".join(map(str, row["tunables"][wrong[0]]))
            lines.append(replace(line, refused=f"{wrong[0]} is one of {allowed}"))
            continue
        call = {**kwargs, "device": where, "kernel": row["name"], "params": params}
        how = {"n_repeat": n_repeat, "cold": cold, "budget": 0.1}
        lines.append(measured(line, name, args, call, "all", **how))
    said = described(name, where, args, kwargs)
    if where.backend == "sim":
        return Counted(name, where, lines, row["name"], said)
    return Sweep(name, where, with_speedups(lines), row["name"], said)


def _swept(name: str, backend: str, kernel) -> dict[str, Any]:
    """The row of the kernel; a ValueError that names others if it has no tunables."""
    rows = _core.ladder(OPS[name][0], backend)
    if kernel is not None and str(kernel) not in [row["name"] for row in rows]:
        refuse_old_name("sweep", OPS[name][0], str(kernel), backend)
        names = ", ".join(row["name"] for row in rows)
        raise ValueError(
            f"sweep: {name} has no kernel {str(kernel)!r} on {backend}, only {names}"
        )
    tuned = _tuned(name, backend)
    if kernel is not None:
        tuned = [row for row in rows if row["tunables"] and row["name"] == str(kernel)]
    if tuned:
        return tuned[-1]
    which = "no kernel" if kernel is None else f"kernel {str(kernel)!r}"
    has = "has" if kernel is None else "has no"
    others = [
        f"{row['name']} ({', '.join(row['tunables'])}) on {other}"
        for other in dict.fromkeys((backend, "sim", "cuda"))
        if is_available(other)
        for row in _tuned(name, other)
    ]
    raise ValueError(
        f"sweep: {which} of {name} on {backend} {has} tunables; "
        + (f"these have: {', '.join(others)}" if others else "no kernel of it has any")
    )


def _tuned(name: str, backend: str) -> list[dict[str, Any]]:
    rows = _core.ladder(OPS[name][0], backend)
    return [row for row in rows if row["tunables"] and row["role"] != "yardstick"]


def _values(name: str, values) -> tuple[int, ...]:
    if isinstance(values, Iterable):
        given = tuple(itertools.islice(values, MOST + 1))
        if len(given) > MOST:
            raise ValueError(f"sweep: {name} has more than {MOST} values, expected fewer")
        return tuple(_road.index("sweep", name, v) for v in given)
    return (_road.index("sweep", name, values),)

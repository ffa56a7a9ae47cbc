"""listing - kernels and source: what kernels an operation has, and how they are written.

All of it is read from the tables that the core runs by, so a kernel is listed here by being in
its table.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import SupportsIndex, overload

from . import _core
from ._call.registry import OPS, Op, resolve
from ._show import text as _text
from .device_facts import DeviceInfo
from .devices import CPU, Device, get_default_device, is_available, open_backend, parse
from .errors import brief

__all__ = ["Kernel", "kernels", "source"]


@dataclass(frozen=True, repr=False)
class Kernel:
    """One row of a ladder; `str(kernel)` is the name that ``kernel=`` takes.

    Attributes
    ----------
    name, op, backend : str
        The names of the kernel, of its operation in the core, and of the backend.
    note : str
        What differs from the kernel above it in the list, and why the hardware rewards it.
    role : str
        "production" (keeps every promise and may be chosen), "lesson" (keeps every promise,
        runs only by name), "teaching" (its caveat says what it does not keep), "yardstick"
        (timed, never an answer) or "candidate" (not recorded on a GPU yet).
    caveat : str or None
        Which promise a teaching row does not keep.
    lecture : str or None
        The lecture that it comes from.
    dtypes : tuple of str
        The dtypes that it takes.
    tunables : dict
        Name -> the values that ``params=`` may give it, the default first.

    Examples
    --------
    >>> import numpy as np, gpuops
    >>> naive = gpuops.kernels("transpose", "cpu")["naive"]
    >>> naive.role in ("lesson", "production")
    True
    >>> gpuops.transpose(np.ones((2, 3)), kernel=naive).shape
    (3, 2)
    """

    name: str
    note: str
    role: str
    caveat: str | None
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
        lines: list[str] = []
        for section, k in zip(_text.sections(k.role for k in self), self, strict=True):
            lines += [f"-- {section} --"] if section else []
            lines += _text.wrapped(f"{k.name:<{wide}}  {k._said()}", wide + 2)
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        title = f"{self[0].op} on {self[0].backend}" if self else ""
        names, notes = [[k.name] for k in self], [k._said() for k in self]
        sections = _text.sections(k.role for k in self)
        return _text.grid_html(title, ["kernel"], names, notes, sections)

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


def kernels(op: Op, device: str | Device | DeviceInfo | None = None) -> Kernels:
    """Every kernel of an operation on a device: lessons, production, yardsticks.

    Parameters
    ----------
    op : str or function
        The operation: its name, or the function.
    device : str or Device, optional
        By default the default device, or the CPU if there is none.

    Returns
    -------
    tuple of Kernel
        Each has `name`, `note`, `role`, `caveat`, `lecture`, `dtypes` and `tunables`; an index
        may be a name.

    Raises
    ------
    ValueError, TypeError
        There is no such operation or device.
    DeviceUnavailableError
        The device's backend is not built.

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


def source(
    op: Op, kernel: str | Kernel, device: str | Device | DeviceInfo | None = None
) -> str:
    """The source of a kernel and of the code that launches it, with file and line.

    It comes from ``csrc/<backend>/<op>``. Further kernels that the same launch uses, and the
    functions of that folder that they call, follow, the nearest first, up to 120 lines in all;
    the rest is only named. No GPU is needed: the sources are part of the package.

    Parameters
    ----------
    op : str or function
        The operation: its name, or the function.
    kernel : str or Kernel
        One that `kernels` lists.
    device : str or Device, optional
        The device whose kernel it is. By default that of `kernels`; if it has no such kernel,
        "cuda".

    Returns
    -------
    str

    Raises
    ------
    ValueError
        There is no such operation or no such kernel; the message lists the kernels.
    TypeError
        `kernel` is not a name.

    Notes
    -----
    A CPU kernel is written once and compiled for each dtype: ``D`` is the dtype, ``T`` its C
    type, ``A`` the type it is computed in, ``LOAD`` and ``STORE`` go from one to the other, and
    ``FN(name)`` is the name for this dtype. ``GOP_TRY(f())`` returns if f fails.

    Examples
    --------
    >>> import gpuops
    >>> "transpose" in gpuops.source("transpose", "naive", "cpu")
    True
    """
    from ._show.source import find, refuse_old_name

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
    for backend in backends:
        refuse_old_name("source", core, row, backend)
    there = {
        b: ", ".join(r["name"] for r in _core.ladder(core, b))
        for b in dict.fromkeys(backends)
        if is_available(b)
    }
    raise ValueError(
        f"source: no kernel {row!r} of {core} is written for "
        + " or ".join(dict.fromkeys(backends))
        + "".join(f"; {b} has {names}" for b, names in there.items())
    )

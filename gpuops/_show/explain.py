"""explain - explain: where a call would run, by which kernel, what it moves, and why."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import Any

import numpy as np

from .._call.registry import OPS, Op, call_of, resolve
from .._call.road import bound
from ..arrays import DeviceArray
from ..devices import CPU, GPU_WORK, Device, get_default_device, is_available, why_not
from ..timing import arithmetic_rate, copy_seconds, described, duration
from . import text as _text
from .gpus import gpu_like


@dataclass(frozen=True)
class Candidate:
    """A kernel that may be chosen for a call, as `Explanation.candidates` has it.

    Attributes
    ----------
    kernel : str
    seconds : float or None
        The time that it is expected to take; None if the order of the table decides.
    when, why : str or None
        The calls that it is for, and what was measured.
    refusal : str
        Why it does not take this call; "" if it does.

    Examples
    --------
    >>> import numpy as np, gpuops
    >>> first = gpuops.explain("add", np.ones(9), 1.0, device="cpu").candidates[0]
    >>> first.kernel, first.refusal
    ('threaded', '')
    """

    kernel: str
    seconds: float | None
    when: str | None
    why: str | None
    refusal: str


@dataclass(frozen=True, repr=False)
class Explanation:
    """What a call would do; `explain` makes it, and it prints as lines.

    Attributes
    ----------
    op, call : str
        The operation, and the call with its shapes and dtypes.
    device : Device
        Where the call would run.
    kernel : str
        The kernel that would run.
    dtype : numpy.dtype
        The common dtype of the arrays that were passed.
    bytes, flops : float
        The fewest bytes that the operation must move through memory, and the number of its
        arithmetic operations.
    sector_bytes : float
        The same, if memory moves whole sectors: the bytes of all sectors that the arrays touch.
    launches : int
        The steps, between which Ctrl-C is heard. A step launches one kernel or a few, which
        `profile` counts.
    upload_bytes, download_bytes : int
        The bytes that go to the device and come back.
    scratch_bytes : int
        Further memory of the device that the kernel needs while it runs.
    bus_seconds : float
        An estimate for the two transfers.
    precision : str
        The precision of the result: "highest", or in `matmul` the class of the kernel.
    why : tuple of str
        The reasons for the device and for the kernel.
    candidates : tuple of Candidate
        The kernels that gpuops may choose, in the order in which it tries them. The first that
        takes the call runs; but if they have expected times, `seconds`, the fastest one runs.
    like : str or None
        The GPU that was named by ``like=``.
    new_result : bool
        Whether the call makes a large new result on the CPU, which ``out=`` would save.

    Examples
    --------
    >>> import numpy as np, gpuops
    >>> gpuops.explain("transpose", np.ones((4, 4)), device="cpu").why[0]
    "device: asked for by device='cpu'"
    """

    op: str
    device: Device
    kernel: str
    bytes: float
    sector_bytes: float
    launches: int
    flops: float
    upload_bytes: int
    download_bytes: int
    scratch_bytes: int
    bus_seconds: float
    why: tuple[str, ...]
    call: str
    dtype: np.dtype
    precision: str = "highest"  # what the result will have; other than that only in matmul
    candidates: tuple[Candidate, ...] = ()
    like: str | None = None
    new_result: bool = False

    @property
    def kernel_seconds(self) -> float | None:
        """An estimate of the kernel's time; None if there is nothing to estimate it from."""
        return self._estimate[0]

    @functools.cached_property
    def _estimate(self) -> tuple[float | None, str]:
        """The seconds, and what says so: a copy's time, or that of a sample of arithmetic.

        Both are measured when they are first asked for.
        """
        if self.like:  # nothing can be measured on it
            own = (c.seconds for c in self.candidates if c.kernel == self.kernel)
            return next(own, None), "by the table of its kernels"
        if (self.op, self.kernel) == ("rdf", "cells"):
            return None, ""  # it leaves most pairs out: neither a copy nor a sample tells
        found: list[tuple[float, str]] = []
        copied = copy_seconds(self.device, self.sector_bytes)
        if copied:
            more = (self.launches - 1) * (copy_seconds(self.device, 0) or 0)
            again = f", and {self.launches} steps" if self.launches > 1 else ""
            unit = "cache lines" if self.device.backend == "cpu" else "sectors"
            copy = f"a copy of {_size(self.sector_bytes)} (its arrays in whole {unit})"
            found.append((copied + more, f"as long as {copy} takes here{again}"))
        sample = arithmetic_rate(OPS[self.op][0], self.device, self.kernel, self.dtype)
        if sample and sample.gflops:
            said = f"at {sample.gflops:.3g} GFLOP/s, which this kernel reached on a sample here"
            found.append((self.flops / sample.gflops / 1e9, said))
        return max(found) if found else (None, "")

    def _title(self) -> str:
        return f"{self.call or f'{self.op} on {self.device}'}, kernel {self.kernel!r}"

    def _facts(self) -> list[tuple[str, str]]:
        facts = [("moves", f"at least {_size(self.bytes)}, {self.flops:.3g} operations")]
        if self.kernel_seconds:
            seconds = duration(self.kernel_seconds)
            facts.append(("takes", f"about {seconds}, {self._estimate[1]}"))
        if self.new_result:
            facts.append((
                "result",
                "a new array, whose memory takes extra time: out= saves it, and benchmark() "
                "measures it",
            ))  # fmt: skip
        if self.upload_bytes or self.download_bytes:
            up, down = _size(self.upload_bytes), _size(self.download_bytes)
            bus = f"{up} there and {down} back: about {duration(self.bus_seconds)}"
            facts.append(("bus", bus))
        if self.op == "matmul":
            own = "highest, the dtype's own"
            facts.append(("precision", own if self.precision == "highest" else self.precision))
        if self.scratch_bytes:
            facts.append(("needs", f"{_size(self.scratch_bytes)} of scratch memory"))
        facts += [(word, text) for word, _, text in (w.partition(": ") for w in self.why)]
        return facts + list(self._choice())

    def _choice(self):
        """What the candidates before the kernel say, and what those after it would take."""
        names = [c.kernel for c in self.candidates]
        at = names.index(self.kernel) if self.kernel in names else 0
        for c in self.candidates[:at]:
            said = c.refusal.partition(": ")[2].removeprefix(f"kernel {c.kernel!r} ")
            yield "not", f"{c.kernel}: {said or 'another was named'}"
        timed = [c for c in self.candidates[at:] if c.seconds and not c.refusal][:5]
        if timed:
            yield "expected", ", ".join(f"{c.kernel} {duration(c.seconds)}" for c in timed)

    def __repr__(self) -> str:
        return _text.facts(self._title(), self._facts())

    def _repr_html_(self) -> str:
        return _text.facts_html(self._title(), self._facts())


_OPERANDS = {"a", "b", "c", "A", "f", "x", "x0", "points", "points2"}
BUS_RATE = 25e9  # bytes a second of a 16-lane PCIe 4 bus, for the estimate


def _size(count: float) -> str:
    for unit, scale in (("GiB", 2**30), ("MiB", 2**20), ("KiB", 2**10)):
        if count >= scale:
            return f"{count / scale:.3g} {unit}"
    return f"{int(count)} bytes"


def explain(op: Op, *args: Any, like: str | None = None, **kwargs: Any) -> Explanation:
    """Says where a call would run, by which kernel, what it would move, and why.

    It runs nothing. Print the result: its line "kernel" says why this kernel, each line "not"
    why another one would not run, and "takes" the expected time.

    With ``device="sim"`` and ``like=`` it answers for a GPU that is not there. For `matmul`,
    whose kernel is chosen by expected time, it then lists these times. They are scaled from
    those of an H200 by processors, clock and memory rate. NumPy arrays count as copied to the
    GPU, arrays of ``to_device(a, "sim")`` as being there.

    Parameters
    ----------
    op : str or function
        The operation: its name, or the function.
    *args, **kwargs
        The arguments of the call, also ``device=`` and ``kernel=``.
    like : {"H200", "H100", "A100", "RTX 4090", "T4"}, optional
        The GPU to answer for; it needs ``device="sim"``.

    Returns
    -------
    Explanation

    Raises
    ------
    ValueError
        There is no such operation or no such GPU, or `like` came without ``device="sim"``.
    TypeError
        `op` is not an operation; and whatever the call itself would refuse.

    Examples
    --------
    >>> import numpy as np, gpuops
    >>> e = gpuops.explain("add", np.ones(1000), 1.0, device="cpu")
    >>> str(e.device), e.upload_bytes
    ('cpu', 0)
    >>> m = np.ones((1024, 1024), np.float32)
    >>> gpuops.explain("matmul", m, m, device="sim", like="H200").kernel
    'bf16x3'
    """
    name = resolve("explain", op)
    gpu = None if like is None else gpu_like(like, kwargs.get("device"))
    facts = call_of(name, args, kwargs).plan(*(() if gpu is None else (gpu,)))
    where = facts["device"]
    bus = (facts["upload_bytes"] + facts["download_bytes"]) / BUS_RATE
    return Explanation(
        name, where, facts["kernel"], facts["bytes"], facts["sector_bytes"], facts["launches"],
        facts["flops"], facts["upload_bytes"], facts["download_bytes"], facts["scratch_bytes"],
        bus, tuple(_why(name, facts, args, kwargs)),
        described(name, where, args, kwargs) + (f", like an {gpu.name}" if gpu else ""),
        _common_dtype(name, args, kwargs), facts["precision"],
        tuple(Candidate(k, s or None, when, why, no)
              for k, s, when, why, no in facts["candidates"]), like,
        _makes_much(name, facts, args, kwargs),
    )  # fmt: skip


def _common_dtype(name: str, args, kwargs) -> np.dtype:
    """That of the operands: lists have NumPy's, Python's numbers have none."""
    given = bound(OPS[name][1], args, kwargs)
    found = [d for word in _OPERANDS & given.keys() for d in _dtypes(given[word])]
    return np.dtype(np.result_type(*found) if found else np.float64)


def _dtypes(value) -> list[np.dtype]:
    if isinstance(value, (list, tuple)):
        try:
            value = np.asarray(value)
        except ValueError:  # frames of several sizes
            return [d for one in value for d in _dtypes(one)]
    dtype = getattr(value, "dtype", None)
    return [dtype] if isinstance(dtype, np.dtype) else []


def _makes_much(name: str, facts: dict, args, kwargs) -> bool:
    """Whether a call on the CPU fills new memory that is large beside what it reads."""
    if facts["device"] != CPU or kwargs.get("out") is not None:
        return False
    read = sum(getattr(a, "nbytes", 0) for a in args)
    return facts["bytes"] - read > max(1 << 20, read / 8)


def _why(name: str, facts: dict, args, kwargs):
    where = facts["device"]
    travels = facts["upload_bytes"] + facts["download_bytes"] > 0
    if kwargs.get("device") not in (None, "auto"):
        yield f"device: asked for by device={str(kwargs['device'])!r}"
    elif any(isinstance(a, DeviceArray) for a in args) or (
        where.backend == "cuda" and not travels
    ):
        yield "device: the arrays are on this device"
    elif get_default_device() is not None:
        yield "device: set by a with block, set_default_device() or GPUOPS_DEVICE"
    elif kwargs.get("kernel") is not None:
        yield "device: cuda if there is a GPU and it has that kernel, else cpu"
    elif where.backend == "cuda":
        yield f"device: the work exceeds {GPU_WORK[name]} and there is a GPU"
    elif name not in GPU_WORK:
        yield "device: to move host arrays to a GPU is slower than the operation itself"
    elif not is_available("cuda"):
        yield f"device: there is no GPU to use: {why_not('cuda')}"
    else:
        yield f"device: the work is below {GPU_WORK[name]}: to move the arrays costs more"
    if kwargs.get("kernel") is None:
        yield "kernel: expected to be the fastest that takes this call and keeps all guarantees"
    else:
        yield "kernel: asked for by name"

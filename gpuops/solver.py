"""solver - the solver: in calls of the core's own operation, or step by step.

Where the ladder of `jacobi` has a production kernel the core iterates and Python sees the ends
of its calls. Elsewhere, and for a callback, Python makes the steps. Both follow the rules of
docs/numerics.md, so their bits are the same.
"""

from __future__ import annotations

import functools
import math
import time
from dataclasses import dataclass
from typing import Any

import numpy as np

from . import _core
from ._call import road as _road
from ._show.jacobi_result import JacobiResult
from .arrays import DeviceArray, give_back
from .devices import Device
from .errors import KernelRefusedError
from .sparse import diagonal_to_find

_SUMSQ = {"op": "sumsq", "axes": (0,), "keepdims": False, "where": False, "initial": None}
_SAFE = 2.0**-900, 2.0**1000  # between them no square that counts was lost
_ROWS = 1 << 20  # residuals that one call returns
_LAST_BITS = 4  # units of x's last place by which a step changes what only rounding moves
_SECONDS = 0.1  # that a call takes where Python has to see it end
_AHEAD = 32  # checks that may be enqueued though the solver ended before them
_BYTES = 2e10  # bound on what the steps of a first call read on a GPU
# Kernels of a GPU that end where the solver does. The others' steps are enqueued, and those
# beyond the end are made in vain.
_ENDS = frozenset({"regular", "resident"})


@dataclass(frozen=True)
class Rules:
    """When to stop; and how often to look."""

    rtol: float
    atol: float
    dtol: float
    maxiter: int
    check_every: int

    def targets(self, f: list[float]) -> list[float]:
        """Of columns, by the norms of f. (Lists: a call has one column mostly, for which each
        of NumPy's operations takes as long as all of this.)"""
        relative = (self.rtol * norm for norm in f)
        return [norm if norm > self.atol else self.atol for norm in relative]

    def params(self, meaning: dict[str, Any], steps: int) -> dict[str, Any]:
        """The core's, of that many steps."""
        return {**meaning, "rtol": self.rtol, "atol": self.atol, "dtol": self.dtol,
                "steps": steps, "check_every": self.check_every}  # fmt: skip

    def ends(self, f, first, residual) -> np.ndarray:
        """Whether each column ends: converged, not finite, or grown."""
        with np.errstate(all="ignore"):
            grown = residual > self.dtol * np.where(first > f, first, f)
        finite = np.isfinite(residual) & np.isfinite(f)
        return (f == 0.0) | ~finite | (residual <= self.targets(f.tolist())) | grown


class System:
    """A system whose arrays are where the solver runs, and memory like its vectors."""

    def __init__(self, operands, meaning, device, kernel) -> None:
        given = [a for a in operands if isinstance(a, DeviceArray)]
        found = diagonal_to_find(operands, meaning)
        longest = _core.Call("jacobi", operands, {**meaning, **found, "check_every": 1}).check()
        self.where = _place(operands, device, kernel, meaning)
        if self.where.backend == "cpu":
            meaning = meaning | found
        self.kind = next((a._kind for a in given if a._kind), None)
        self.returns_host = not any(isinstance(a, DeviceArray) for a in operands[-2:])
        self.on_device = bool(given) or self.where.backend == "cuda"
        self.meaning = {**meaning, "checked": True, "longest": longest}
        if self.on_device:
            if len(given) < len(operands):
                operands = [self.brought(a) for a in operands]
            if "diagonal" in meaning:
                self.meaning["diagonal"] = self.brought(meaning["diagonal"])
        *self.matrix, self.f, self.x = operands
        self.columns = self.x.shape[1] if len(self.x.shape) == 2 else 1

    @property
    def bytes(self) -> int:
        """Of the system, a step's reading; at least some, for what a step takes besides."""
        arrays = (*self.matrix, self.f, self.x)
        return 1_000_000 + sum(a.size * a.dtype.itemsize for a in arrays)

    @property
    def _at(self) -> tuple[str, int]:
        return self.where.backend, self.where.ordinal

    def brought(self, a) -> DeviceArray:
        return a if isinstance(a, DeviceArray) else DeviceArray(_core.upload(a, self._at))

    def empty(self):
        if not self.on_device:
            return np.empty(self.x.shape, self.x.dtype)
        return DeviceArray(_core.empty(self.x.shape, self.x.dtype, self._at))

    def norms(self, vector) -> np.ndarray:
        """The norms of the columns; on the device where the sums are known to be right."""
        if not isinstance(vector, DeviceArray):
            return _core.norms(np.require(vector, requirements="A"))
        if vector.dtype in (np.float64, np.complex128) and 0 not in vector.shape:
            sums = _road.run("reduce", (vector,), _SUMSQ, device=self.where)
            sums = np.atleast_1d(sums.get())
            if ((sums >= _SAFE[0]) & (sums <= _SAFE[1])).all():
                return np.sqrt(sums)
        return _core.norms(vector.get())

    def made(self, x):
        """What the core made, of the kind of its operands, as an array of the caller's kind."""
        if not self.returns_host or isinstance(x, np.ndarray):
            return x
        return _road.operand("jacobi", "x", x).get()

    def returned(self, x, is_new: bool):
        """An array of the caller's kind; a copy of one that is not the caller's yet."""
        if self.returns_host:
            if isinstance(x, DeviceArray):
                return x.get()
            return x if is_new else np.array(x, order="C")
        x = self.brought(x)
        if is_new:
            return give_back(x._buffer, self.kind)
        order = {"axes": tuple(range(x.ndim))}
        copy = _road.run("transpose", (DeviceArray(x._buffer),), order, device=self.where)
        return give_back(copy._buffer, self.kind)

    def seen(self, x):
        """An iterate as a callback sees it, without a copy where it is of the caller's kind."""
        if not self.returns_host:
            return give_back(self.brought(x)._buffer, self.kind)
        view = x.get() if isinstance(x, DeviceArray) else x.view()
        view.flags.writeable = False
        return view


@functools.cache
def _names(op: str, backend: str) -> dict[str, str]:
    return {row["name"]: row["role"] for row in _core.ladder(op, backend)}


def _place(operands, device, kernel, meaning) -> Device:
    """Where to run; a kernel of the solver's or of its steps decides as for others."""
    kernel = None if kernel is None else _road.kernel_name("jacobi", kernel)
    for op in ("jacobi", "jacobi_step"):
        where = _road.choose_device(op, operands, device, kernel, meaning)
        if kernel is None or kernel in _names(op, where.backend):
            break
    return where


def is_one_call(system: System, kernel: str | None) -> bool:
    """Whether the core has a kernel of the solver's for this: by name, or one of production.

    A kernel that has not run on a GPU yet is a candidate: it is asked for by name. Its row in
    the ladder of `jacobi` is the one place where that changes.
    """
    solvers = _names("jacobi", system.where.backend)
    if kernel is None:
        return "production" in solvers.values()
    kernel = _road.kernel_name("jacobi", kernel)
    steps = _names("jacobi_step", system.where.backend)
    if kernel not in solvers and kernel not in steps:
        known = ", ".join(dict.fromkeys([*solvers, *steps]))
        raise ValueError(
            f"jacobi: there is no kernel {kernel!r} on {system.where.backend}, expected one "
            f"of {known}"
        )
    return kernel in solvers


class Record:
    """What is known of the columns so far."""

    def __init__(self, system: System, rules: Rules, bar) -> None:
        self.system, self.rules, self.bar = system, rules, bar
        self.rows: list[np.ndarray] = []
        self.ended = [-1] * system.columns  # the step, or -1
        self.steps = 0
        self.f = self.first = np.zeros(system.columns)

    def show(self, steps: int) -> None:
        if self.bar is not None:
            self.bar.update(steps - self.steps)
            worst = max(self.rows[-1].reshape(-1, self.system.columns)[-1], default=0.0)
            self.bar.set_postfix(residual=f"{worst:.3g}", refresh=False)
        self.steps = steps

    def result(self, x, stopped: bool) -> JacobiResult:
        residuals = np.concatenate(self.rows)
        f, target = self.f.tolist(), self.rules.targets(self.f.tolist())
        converged = [
            norm == 0.0 or (last <= wanted and last < math.inf and norm < math.inf)
            for norm, last, wanted in zip(f, residuals[-1].tolist(), target, strict=True)
        ]
        diverged = [e >= 0 and not c for e, c in zip(self.ended, converged, strict=True)]
        reason = (
            "converged" if all(converged)
            else "callback" if stopped
            else "diverged" if any(diverged)
            else "maxiter"
        )  # fmt: skip
        values: tuple[Any, ...] = converged, target, self.ended, self._stagnant(x, residuals)
        if len(self.system.x.shape) == 1:
            residuals, values = residuals[:, 0], tuple(column[0] for column in values)
        else:
            kinds = np.bool_, np.float64, np.int64, np.bool_
            values = tuple(np.array(v, kind) for v, kind in zip(values, kinds, strict=True))
        converged, target, ended, stagnant = values
        every = self.rules.check_every
        return JacobiResult(
            x, self.steps, residuals, converged, reason, target, ended, every, stagnant
        )

    def _stagnant(self, x, residuals: np.ndarray) -> list[bool]:
        """Of columns: the residual falls no more, and a step changes only last places of x."""
        system, last = self.system, len(residuals) - 1
        stuck = 2 * residuals[last] > residuals[last - last // 4]
        stuck &= (np.array(self.ended) < 0) & (last >= 4)
        if not stuck.any():
            return stuck.tolist()
        x = _road.operand("jacobi", "x", x)
        try:
            x, following = system.brought(x) if system.on_device else x, system.empty()
            _step(system, x, following, None, {"device": system.where})
            before, after = (_table(v, system.columns) for v in (x, following))
        except MemoryError:  # of one step more: what was found is not lost for it
            return [False] * len(stuck)
        with np.errstate(all="ignore"):
            least = _LAST_BITS * np.finfo(before.dtype).eps * np.abs(before).max(0)
            return (stuck & (np.abs(after - before).max(0) <= least)).tolist()


class Solver:
    """A system, the rules and the kernel by which to solve it."""

    def __init__(self, system: System, rules: Rules, kernel, params) -> None:
        self.system, self.rules = system, rules
        # A call without results runs no kernel, and says nothing of how it ended.
        self.in_calls = is_one_call(system, kernel) and 0 not in system.x.shape
        # The name of a kernel that only makes all steps, if that is asked for.
        self.whole = None if kernel is None else _road.kernel_name("jacobi", kernel)
        if self.whole in _names("jacobi_step", system.where.backend):
            self.whole = None
        if self.whole and not self.in_calls:
            kernel = None
        self.how = {"device": system.where, "kernel": kernel, "tunables": params}

    def first_call(self, in_steps: bool = False) -> _road.Call:
        """The whole of it as one call, or its first step."""
        system = self.system
        operands = (*system.matrix, system.f, system.x)
        if not self.in_calls or in_steps:
            return _road.Call("jacobi_step", operands, system.meaning, **self.how)
        meaning = self.rules.params(system.meaning, self.rules.maxiter)
        return _road.Call("jacobi", operands, meaning, **self.how)

    def run(self, callback, bar) -> JacobiResult:
        if self.in_calls and callback is None:
            return in_calls(self.system, self.rules, bar, self.how)
        if self.whole and self.in_calls:
            raise KernelRefusedError(
                f"jacobi: kernel {self.whole!r} makes all steps in one call, but a callback "
                "needs a call for each step: name a kernel of jacobi_step"
            )
        return in_steps(self.system, self.rules, callback, bar, self.how)


# ---- in calls ----


def in_calls(system: System, rules: Rules, bar, how) -> JacobiResult:
    """The core iterates; a call ends where its history is full or Python wants to look."""
    record = Record(system, rules, bar)
    exact = system.where.backend == "cpu" or _kernel(system, rules, how) in _ENDS
    every, x, first = rules.check_every, system.x, None
    most = _ROWS // max(system.columns, 1) + 1
    if system.where.backend != "cpu":
        most = min(most, int(_BYTES / system.bytes / every) + 1)
    checks = (most if exact else min(most, _AHEAD)) if bar is None else 1
    while True:
        steps = min(rules.maxiter - record.steps, checks * every)
        rows = _rows(steps, every)
        history = np.empty((rows + 2, system.columns))
        meaning = rules.params(system.meaning, steps)
        meaning |= {"first": first, "residuals": history}
        begun = time.perf_counter()
        out = _road.run("jacobi", (*system.matrix, system.f, x), meaning, **how)
        took = time.perf_counter() - begun
        ended = history[-1].tolist()
        made = int(max(ended)) if min(ended) >= 0 else steps
        record.rows.append(history[1 + (first is not None) : 1 + _rows(made, every)])
        if first is None:
            record.f, first = history[0], history[1].copy()
        record.ended = [
            record.steps + int(now) if before < 0 <= now else before
            for before, now in zip(record.ended, ended, strict=True)
        ]
        record.show(record.steps + made)
        if min(record.ended) >= 0 or record.steps >= rules.maxiter:
            return record.result(system.made(out), False)
        x = _road.operand("jacobi", "x", out)
        if system.where.backend != "cpu" or bar is not None:  # longer calls
            fit = _SECONDS * steps / max(took, 1e-9) / every
            # Not by much of what is done, where some of it may be in vain.
            usual = fit if exact else max(_AHEAD, record.steps / every / 4)
            checks = int(max(1, min(fit, usual, _ROWS // max(system.columns, 1) + 1)))


def _kernel(system: System, rules: Rules, how) -> str:
    operands = (*system.matrix, system.f, system.x)
    call = _road.Call("jacobi", operands, rules.params(system.meaning, 1), **how)
    return call.plan()["kernel"]


def _rows(steps: int, every: int) -> int:
    """Checks of that many steps, the first and the last included."""
    return steps // every + (steps % every != 0) + 1


# ---- step by step ----


def in_steps(system: System, rules: Rules, callback, bar, how) -> JacobiResult:
    record = Record(system, rules, bar)
    record.f = system.norms(system.f)
    buffers, residual = (system.empty(), system.empty()), system.empty()
    x, kept, stopped, norms = system.x, None, False, None
    ended = np.array(record.ended, np.int64)
    for m in range(rules.maxiter + 1):
        is_check = m % rules.check_every == 0 or m == rules.maxiter
        _step(system, x, buffers[m % 2], residual if is_check else None, how)
        if is_check:
            fresh = np.where(record.f == 0.0, 0.0, system.norms(residual))
            norms = fresh if norms is None else np.where(ended >= 0, norms, fresh)
            if m == 0:
                record.first = norms
            record.rows.append(norms[np.newaxis])
            newly = rules.ends(record.f, record.first, norms) & (ended < 0)
            kept = _keep(system, x, kept, newly & (record.f == 0.0), newly)
            ended[newly] = m
            record.show(m)
            try:
                if callback is not None and m > 0:
                    callback(system.seen(_merged(system, x, kept, ended)))
            except StopIteration:
                stopped = True
            if stopped or (ended >= 0).all():
                break
        if m < rules.maxiter:
            x = buffers[m % 2]
    merged = _merged(system, x, kept, ended)
    record.ended = ended.tolist()
    return record.result(system.returned(merged, merged is not x), stopped)


def _step(system: System, x, following, residual, how) -> None:
    meaning = dict(system.meaning)
    if residual is not None:
        meaning["residual"] = (
            residual._buffer if isinstance(residual, DeviceArray) else residual
        )
    operands = (*system.matrix, system.f, x)
    try:
        _road.run("jacobi_step", operands, meaning, out=following, **how)
    except (KernelRefusedError, MemoryError) as error:  # of the function that was called
        said = str(error).replace("jacobi_step:", "jacobi:", 1)
        error.args = (said, *error.args[1:])
        raise


def _table(x, columns: int) -> np.ndarray:
    """A copy on the host, (n, k)."""
    host = x.get() if isinstance(x, DeviceArray) else np.array(x)
    return host.reshape(host.shape[0], columns)


def _keep(system: System, x, kept, zero, newly):
    """The host's table of the columns that have ended, with those that end now."""
    if system.columns == 1 and not zero.any():
        return kept  # it ends with the solver
    if newly.any():
        kept = np.zeros_like(_table(x, system.columns)) if kept is None else kept
        kept[:, newly] = _table(x, system.columns)[:, newly]
        kept[:, zero] = 0
    return kept


def _merged(system: System, x, kept, ended):
    """The iterate with the columns that ended before; x itself where there are none."""
    if kept is None:
        return x
    table = _table(x, system.columns)
    table[:, ended >= 0] = kept[:, ended >= 0]
    return table.reshape(system.x.shape)

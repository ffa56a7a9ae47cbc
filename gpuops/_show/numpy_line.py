"""numpy_line - the call of a ladder as one writes it in NumPy, timed beside the kernels."""

from __future__ import annotations

import contextlib
import inspect
import time
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

from .._call.registry import OPS
from ..devices import CPU
from ..timing import SCRATCH, Seconds, Timing

LONG = 1.0  # seconds of a call that is not repeated

_Call = tuple[str, Callable[[Any], Any]]  # how it is written, and the call into `out`


def timed(name: str, args, kwargs, like: Timing, n_repeat, cold, budget) -> Timing | None:
    """NumPy's time for the call; None where it has nothing that does the same.

    As the kernels it stores into memory that was touched before, and finds cold caches.
    """
    with (
        contextlib.suppress(TypeError, ValueError, OverflowError, MemoryError),
        warnings.catch_warnings(),
    ):
        warnings.simplefilter("ignore")
        found = _call(name, args, kwargs)
        if found is None:
            return None
        expression, call = found
        start = time.perf_counter()
        out = call(None)
        first = time.perf_counter() - start
        least, most = (n_repeat, n_repeat) if n_repeat else (3, 100)
        samples: list[float] = []
        if first > LONG and not n_repeat:
            samples, least, most = [first], 1, 1
        scratch = np.zeros(SCRATCH if cold else 0, np.uint8)
        until = time.perf_counter() + budget
        while len(samples) < least or (len(samples) < most and time.perf_counter() < until):
            scratch.fill(len(samples) % 256)
            start = time.perf_counter()
            call(out)
            samples.append(time.perf_counter() - start)
        seconds = Seconds(samples)
        return Timing(
            name, CPU, "numpy", seconds, seconds, bytes=like.bytes, flops=like.flops,
            cold=cold, label=expression,
        )  # fmt: skip
    return None


def _call(name: str, args, kwargs) -> _Call | None:
    given = inspect.signature(OPS[name][1]).bind(*args, **kwargs).arguments
    for ours in ("out", "device", "kernel", "params", "precision"):
        given.pop(ours, None)
    if name in ("add", "multiply_add", "matmul"):
        a, b, *c = map(np.asarray, given.values())
        if name == "matmul":
            return "np.matmul(a, b, out)", lambda out: np.matmul(a, b, out)
        if name == "add":
            return "np.add(a, b, out)", lambda out: np.add(a, b, out)
        return "np.add(np.multiply(a, b, out), c, out)", lambda out: np.add(
            np.multiply(a, b, out), c[0], out
        )
    if name == "transpose":
        turned = np.transpose(np.asarray(given["a"]), given.get("axes"))
        return (
            "np.copyto(out, np.transpose(a, axes))",
            lambda out: np.ascontiguousarray(turned) if out is None else np.copyto(out, turned),
        )
    if OPS[name][0] == "reduce":
        a, word = np.asarray(given.pop("a")), given.pop("op", name)
        word = getattr(word, "__name__", word).replace("reduce", "sum")  # its default
        more = "".join(f", {k}={v}" for k, v in given.items() if np.ndim(v) == 0)
        return f"np.{word}(a{more})", lambda _: getattr(np, word)(a, **given)
    plain = given.get("alpha") is None and given.get("omega") in (None, 1.0)
    if name == "jacobi_step" and plain:
        A, f, x = (np.asarray(given[k]) for k in ("A", "f", "x"))
        if A.ndim == 2 and x.ndim == 1:
            return "x + (f - A @ x)/diag(A)", lambda _: x + (f - A @ x) / np.diagonal(A)
    return None

"""reduce - reductions of Dask arrays: a state for each chunk, and merges of neighbours."""

from __future__ import annotations

import math
import warnings

import dask.array as da
import numpy as np
from dask.utils import format_bytes

from .. import merging, reductions
from .._call import reduction as _reduction
from .._call import road as _road
from . import arrays as _dask

EACH = 16  # states that one task merges


def reduce(op: str, x, axis, dtype, keepdims, where, device, exact=False):
    """A lazy reduction with the bits of that of the whole array."""
    x = _dask.array(op, "a", x)
    axes = None if axis is None else _road.axes(op, "axis", axis, x.ndim)
    one = _dask.like(x)
    # The plain function has the sentences about arguments, and knows the result's dtype.
    words = {"keepdims": keepdims} | ({} if dtype is None else {"dtype": dtype})
    given = axis if op.startswith("arg") or not x.ndim else axes
    result = np.asarray(reductions.reduce(one, op, given, device="cpu", **words)).dtype
    every = range(x.ndim)
    axes = tuple(every if axes is None or not every else sorted({every[i] for i in axes}))
    if op in ("min", "max", "argmin", "argmax") and not all(x.shape[i] for i in axes):
        raise ValueError(
            f"{op}: there is nothing to reduce in the array of shape {x.shape}, and there is "
            "no identity"
        )
    if where is not _reduction.NO_VALUE:
        if op.startswith("arg"):
            _road.refuse_word(op, "where")
        where = _mask(op, where, x)
    exact = _reduction.exactness(op, exact)
    if not exact and _has_order(op, x.dtype, np.dtype(dtype or x.dtype)):
        x = _in_runs(op, x, axes)
    states = _states(op, x, axes, dtype, where, device, exact)
    rest = tuple(i for i in every if i not in axes)
    made = da.blockwise(
        _finished, rest, merged(op, states, axes, _merge), tuple(every), concatenate=False,
        dtype=result, meta=_dask.meta(x, len(rest), result), token=f"gpuops-{op}",
        adjust_chunks={i: x.chunks[i] for i in rest}, align_arrays=False,
        like=None if isinstance(x._meta, np.ndarray) else x._meta,
    )  # fmt: skip
    return made[tuple(None if i in axes else slice(None) for i in every)] if keepdims else made


def _mask(op: str, where, x):
    where = da.asarray(where)
    if where.dtype != bool:
        raise TypeError(f"{op}: where has dtype {where.dtype}, expected bool")
    if where.ndim > x.ndim or any(
        n not in (1, m) for n, m in zip(where.shape[::-1], x.shape[::-1], strict=False)
    ):
        raise ValueError(
            f"{op}: where of shape {where.shape} does not broadcast to the array's shape "
            f"{x.shape}"
        )
    return where


def _has_order(op: str, have: np.dtype, asked: np.dtype) -> bool:
    """Whether the order of the elements counts; else that of the chunks will do."""
    if op in ("sum", "prod", "mean"):
        return asked.kind not in "biu" or op == "mean"
    return op.startswith("arg") or (op in ("min", "max") and have.kind == "c")


def _in_runs(op: str, x, axes: tuple[int, ...]):
    """Chunks that are runs of terms: cut along the first of the axes only."""
    long = [i for i in axes if x.shape[i] != 1]
    cut = [i for i in long[1:] if x.numblocks[i] > 1]
    if not cut:
        return x
    # Chunks stay about as large: what they gain along the others they lose along the first.
    largest = math.prod(max(x.chunks[i]) for i in long)
    rows = max(1, largest // math.prod(x.shape[i] for i in long[1:]))
    warnings.warn(
        f"gpuops.dask.{op}: {format_bytes(x.size * x.dtype.itemsize)} are rechunked, since "
        f"axis {', '.join(map(str, cut))} has several chunks beside axis {long[0]}: chunks "
        f"that are whole along all reduced axes but axis {long[0]} are reduced where they are"
        + (", and exact=True moves nothing" if op in ("sum", "mean") else ""),
        da.PerformanceWarning,
        stacklevel=4,
    )
    return x.rechunk({long[0]: rows, **dict.fromkeys(long[1:], -1)})


def _states(op: str, x, axes, dtype, where, device, exact: bool):
    """An array of states, one for each chunk of x."""
    every = tuple(range(x.ndim))
    operands = [x, every, _dask.starts([x.chunks[i] for i in axes]), axes]
    if where is not _reduction.NO_VALUE:
        own = every[x.ndim - where.ndim :]
        chunks = [x.chunks[i] if n > 1 else n for i, n in zip(own, where.shape, strict=True)]
        operands += [where.rechunk(tuple(chunks)), own]
    return _dask.objects(op, _state, every, *operands, chunks=[(1,) * n for n in x.numblocks],
                         word=op, axes=axes, as_dtype=dtype, exact=exact,
                         **_dask.on(device))  # fmt: skip


def _state(
    chunk, start, where=_reduction.NO_VALUE, *, word, axes, as_dtype, exact, device=None
):
    axis = None if len(axes) == chunk.ndim else axes
    first = int(start.ravel()[0])
    state = merging.states(word, chunk, axis, as_dtype, start=first, where=where, exact=exact,
                           device=device)  # fmt: skip
    return _dask.boxed(state, chunk.ndim)


def merged(op: str, states, axes, merge):
    """Fewer states, merged by tasks of up to EACH neighbours in the order of the runs."""
    every = tuple(range(states.ndim))
    for axis in reversed(axes):
        while (
            states.numblocks[axis] > 1 and math.prod(states.numblocks[i] for i in axes) > EACH
        ):
            together = states.rechunk({axis: EACH})
            chunks = [(1,) * n for n in together.numblocks]
            states = _dask.objects(f"{op}-merge", merge, every, together, every, chunks=chunks)
    return states


def _merge(states):
    return _dask.boxed(merging.merge(*_dask.unboxed(states)), states.ndim)


def _finished(states, like=None):
    try:
        result = merging.finish(merging.merge(*_dask.unboxed(states)))
    except ValueError as error:
        raise ValueError(str(error).removeprefix("finish: ")) from None
    return result if like is None else _dask.at_home(result, like)

"""matrix - products and Jacobi's iteration on Dask arrays."""

from __future__ import annotations

import itertools
import math

import dask.array as da
import numpy as np
from dask.utils import format_bytes, parse_bytes

from .. import ops
from .._call import road as _road
from ..errors import brief
from ..jacobi import jacobi_step
from ..sparse import SparseMatrix, is_sparse, sparse
from ..stencils import Stencil
from . import arrays as _dask

# ---- matmul ----


def matmul(a, b, precision, memory, device):
    """A task for each block of the product: it has all of a's rows and b's columns of it."""
    a, b = _dask.arrays("matmul", a=a, b=b)
    one, other = _dask.like(a), _dask.like(b)
    dtype = np.asarray(ops.matmul(one, other, device="cpu")).dtype
    # Axes by number: batches 0, 1, ...; then the sum, the rows and the columns.
    batches = max(a.ndim, b.ndim, 2) - 2
    along, rows, columns = batches, batches + 1, batches + 2
    of_a = (*range(batches - a.ndim + 2, batches), rows, along) if a.ndim > 1 else (along,)
    of_b = (*range(batches - b.ndim + 2, batches), along, columns) if b.ndim > 1 else (along,)
    terms = a.shape[-1], b.shape[-2 if b.ndim > 1 else -1]
    if terms[0] != terms[1]:
        raise ValueError(
            f"matmul: shapes {a.shape} and {b.shape}: a has {terms[0]} terms, b {terms[1]}"
        )
    _dask.broadcast(
        f"matmul: the batch axes of a with shape {a.shape} and b with shape {b.shape} cannot "
        "be broadcast together",
        a.shape[:-2], b.shape[:-2],
    )  # fmt: skip
    if memory is not None:
        _fits(a, b, dtype, _bytes(memory))
    out = (
        *range(batches),
        *((rows,) if a.ndim > 1 else ()),
        *((columns,) if b.ndim > 1 else ()),
    )
    words = {} if precision is None else {"precision": precision}
    return da.blockwise(
        _product, out, a, of_a, b, of_b, concatenate=False, dtype=dtype,
        meta=_dask.meta(a, len(out), dtype), token="gpuops-matmul", **words, **_dask.on(device),
    )  # fmt: skip


def _product(a, b, device=None, **words):
    """Panel after panel of the sum: a task holds its operands and two blocks of the product."""
    on, dtype, total = _dask.on(device), a[0].dtype, None
    if len(a) == 1:
        return ops.matmul(a[0], b[0], **words, **on)
    is_half = dtype == b[0].dtype and dtype.itemsize == 2 and dtype.kind in "fV"
    for left, right in zip(a, b, strict=True):
        if is_half:  # they accumulate in float32, and are rounded once
            left, right = left.astype(np.float32), right.astype(np.float32)
        part = ops.matmul(left, right, **words, **on)
        if total is None:
            total = part
        else:
            total = ops.add(total, part, out=total if total.ndim else None, **on)
    return total.astype(dtype) if is_half else total


def _bytes(memory) -> int:
    """As a number or as "2 GiB"."""
    try:
        return parse_bytes(memory)
    except (ValueError, TypeError, AttributeError):
        raise ValueError(
            f"gpuops.dask.matmul: memory is {brief(memory)}, expected a number of bytes or a "
            "text such as '2 GiB'"
        ) from None


def _fits(a, b, dtype, memory: int) -> None:
    """ValueError where a task's panels and blocks are larger than `memory`."""
    terms = a.shape[-1]
    rows = max(a.chunks[-2], default=1) if a.ndim > 1 else 1
    columns = max(b.chunks[-1], default=1) if b.ndim > 1 else 1
    batch = math.prod(max(c) for x in (a, b) for c in x.chunks[:-2]) or 1

    def bytes_of(share: float) -> float:
        m, n = max(1, int(rows * share)), max(1, int(columns * share))
        panels = m * terms * a.dtype.itemsize + terms * n * b.dtype.itemsize
        return batch * (panels + 2 * m * n * dtype.itemsize)

    if bytes_of(1) <= memory:
        return
    if bytes_of(0) > memory:
        raise ValueError(
            f"gpuops.dask.matmul: memory = {format_bytes(memory)} is less than one row, one "
            f"column and their product take, {format_bytes(int(bytes_of(0)))}: give more"
        )
    share = 1.0
    while bytes_of(share) > memory and share * max(rows, columns) >= 1:
        share *= 0.9
    fewer = {"a": (a.ndim - 2, int(rows * share)), "b": (b.ndim - 1, int(columns * share))}
    ways = [f"{name}.rechunk({{{axis}: {max(1, n)}}})" for name, (axis, n) in fewer.items()]
    raise ValueError(
        f"gpuops.dask.matmul: a task holds all {terms} terms of its {rows} rows and {columns} "
        f"columns, {format_bytes(int(bytes_of(1)))}, which is more than memory = "
        f"{format_bytes(memory)}: pass {' and '.join(ways)}"
    )


# ---- jacobi ----

MOST_TASKS = 1_000_000  # of a graph, each of some KB


def jacobi(A, f, x0, alpha, omega, steps, sweeps, device):
    """`steps` iterates, `sweeps` of them in each task."""
    if not (isinstance(A, (Stencil, SparseMatrix)) or is_sparse(A)):
        raise TypeError(
            "gpuops.dask.jacobi: A is a sparse matrix or a stencil, not "
            f"{type(A).__name__}: scipy.sparse.csr_array(A) makes one"
        )
    f = _dask.array("jacobi", "f", f)
    A = A if isinstance(A, Stencil) else _csr(A)
    for name, n in (("steps", steps), ("sweeps", sweeps)):
        if _road.index("jacobi", name, n) < (name == "sweeps"):
            raise ValueError(f"gpuops.dask.jacobi: {name} is a number of steps, not {n}")
    if A.shape[0] != f.shape[0]:
        raise ValueError(f"jacobi: A is {A.shape}, and f has shape {f.shape}")
    every = tuple(range(f.ndim))
    words = {"alpha": alpha, "omega": omega}
    ones = np.ones((1,) * f.ndim, f.dtype)
    dtype = jacobi_step(np.ones((1, 1), A.dtype), ones, ones, **words, device="cpu").dtype
    if x0 is None:
        x = da.blockwise(np.zeros_like, every, f, every, dtype=dtype, token="gpuops-jacobi",
                         meta=_dask.meta(f, f.ndim, dtype))  # fmt: skip
    else:
        x = _dask.array("jacobi", "x0", x0)
        if x.shape != f.shape:
            raise ValueError(f"jacobi: x0 has shape {x.shape}, and f {f.shape}")
        x = x.rechunk(f.chunks)
    cuts = np.cumsum([0, *f.chunks[0]]).tolist()
    blocks = [(i, k) for i, k in itertools.pairwise(cuts) if k > i]
    parts = {}
    if (tasks := -(-steps // sweeps) * len(blocks)) > MOST_TASKS:
        raise ValueError(
            f"gpuops.dask.jacobi: {steps} steps, {sweeps} in a task, of {len(blocks)} blocks "
            f"make {tasks} tasks, expected at most {MOST_TASKS}; take more sweeps"
        )
    for done in range(0, steps, sweeps):
        count = min(sweeps, steps - done)
        new = []
        for first, last in blocks:
            key = first, count
            if key not in parts:
                parts[key] = _part(A, first, last, count)
            of_A, low, high = parts[key]
            slabs = [v[low:high].rechunk({0: -1}) for v in (x, f)]
            new.append(
                da.blockwise(
                    _sweep, every, slabs[0], every, slabs[1], every, A=of_A, count=count,
                    keep=(first - low, last - low), adjust_chunks={0: (last - first,)},
                    dtype=dtype, meta=_dask.meta(f, f.ndim, dtype), token="gpuops-jacobi",
                    align_arrays=False, **words, **_dask.on(device),
                )
            )  # fmt: skip
        x = da.concatenate(new, axis=0)
    return x


def _csr(A):
    if isinstance(A, SparseMatrix):
        return A.tocsr()
    return sparse(A, "cpu").tocsr()  # any format, checked


def _part(A, first: int, last: int, sweeps: int):
    """The rows and columns that rows first to last depend on in that many sweeps, and where
    they are. At its ends rows lack terms; what they spoil moves in by one row each sweep."""
    n = A.shape[0]
    if isinstance(A, Stencil):
        line = math.prod(A.grid[1:])
        low, high = first // line - sweeps, -(-last // line) + sweeps
        if A.bc == "periodic" or (low <= 0 and high >= A.grid[0]):
            return A, 0, n
        low, high = max(low, 0), min(high, A.grid[0])
        values = A.coefficients
        if values.ndim > 1:
            values = values[:, low * line : high * line].copy()
        grid = (high - low, *A.grid[1:])
        return Stencil(values.copy(), grid, A.bc), low * line, high * line
    low, high = first, last
    for _ in range(sweeps):
        columns = A.indices[A.indptr[low] : A.indptr[high]]
        if columns.size:
            low, high = min(low, int(columns.min())), max(high, int(columns.max()) + 1)
    return A[low:high, low:high], low, high


def _sweep(x, f, *, A, count, keep, alpha=None, omega=None, device=None):
    if not isinstance(A, Stencil):
        A = sparse(A, device or ("cpu" if isinstance(f, np.ndarray) else "cuda"))
    for _ in range(count):
        x = jacobi_step(A, f, x, alpha=alpha, omega=omega, device=device)
    return x[keep[0] : keep[1]]

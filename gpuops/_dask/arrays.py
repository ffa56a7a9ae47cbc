"""arrays - what the functions of gpuops.dask share: operands, dtypes, names of tasks."""

from __future__ import annotations

import itertools
import math
from typing import Any

import dask.array as da
import numpy as np
from dask.array.utils import meta_from_array

from ..errors import brief


def array(op: str, name: str, x) -> Any:
    """A Dask array, whose chunks have known sizes."""
    if not isinstance(x, da.Array):
        raise TypeError(
            f"gpuops.dask.{op}: {name} is a Dask array, not {brief(x)}: gpuops.{op} takes what "
            f"lies in memory, dask.array.from_array({name}, chunks=...) cuts it"
        )
    if any(math.isnan(n) for n in x.shape):
        raise ValueError(
            f"gpuops.dask.{op}: {name} has chunks of unknown size: call "
            f"{name}.compute_chunk_sizes() first"
        )
    return x


def arrays(op: str, **operands) -> list:
    """The operands, of which one is a Dask array: the others become some, but for numbers."""
    found = []
    if not any(isinstance(x, da.Array) for x in operands.values()):
        array(op, *next(iter(operands.items())))
    for name, x in operands.items():
        if type(x) in (int, float, complex):
            found.append(x)
        else:
            found.append(array(op, name, x if isinstance(x, da.Array) else da.asarray(x)))
    return found


def broadcast(words: str, *shapes: tuple[int, ...]) -> None:
    """ValueError with these words unless the shapes go together: Dask speaks of chunks."""
    try:
        np.broadcast_shapes(*shapes)
    except ValueError:
        raise ValueError(words) from None


def like(x, shape_or_ndim=None) -> np.ndarray:
    """A NumPy array of one element of x's dtype, to ask a function for the dtype it gives."""
    ndim = x.ndim if shape_or_ndim is None else shape_or_ndim
    return np.ones((1,) * ndim, x.dtype)


def meta(x, ndim: int, dtype) -> Any:
    """An empty array of the library that x's chunks are of."""
    return meta_from_array(x._meta, ndim=ndim, dtype=dtype)


def at_home(result, meta):
    """A result that lies on the host as an array of the library that the chunks are of."""
    return result if isinstance(meta, np.ndarray) else np.asarray(result, like=meta)


def on(device) -> dict[str, Any]:
    """The keyword of a call on a worker; a device is pickled by its name."""
    return {} if device is None else {"device": str(device)}


def objects(op: str, function, indices, *operands, chunks, **words):
    """Each block of the operands as one object: an array of them, in blocks of one."""
    none = np.empty((0,) * len(indices), object)
    return da.blockwise(
        function, indices, *operands, align_arrays=False, dtype=object, meta=none,
        token=f"gpuops-{op}", adjust_chunks=dict(zip(indices, chunks, strict=True)), **words,
    )  # fmt: skip


def starts(chunks):
    """How many elements come before each block, in C order of the blocks: an array of them."""
    ndim = len(chunks)
    counts = [math.prod(extents) for extents in itertools.product(*chunks)]
    table = np.cumsum([0, *counts[:-1]], dtype=np.int64).reshape([len(c) for c in chunks])
    if not ndim:
        return da.from_array(table, chunks=())
    # Made where it is used: a task of its own for each would cost more than many a sum.
    return da.map_blocks(
        _start, table=table, chunks=tuple((1,) * len(c) for c in chunks), dtype=np.int64,
        meta=np.empty((0,) * ndim, np.int64),
    )  # fmt: skip


def _start(table=None, block_id=None):
    return table[block_id].reshape((1,) * table.ndim)


def boxed(thing, ndim: int) -> np.ndarray:
    """An array of one object."""
    box = np.empty((1,) * ndim, object)
    box[(0,) * ndim] = thing
    return box


def unboxed(blocks) -> list:
    """The objects of nested lists of such arrays, in C order."""
    if isinstance(blocks, list):
        return [thing for part in blocks for thing in unboxed(part)]
    return blocks.ravel().tolist()

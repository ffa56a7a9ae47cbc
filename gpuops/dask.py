"""dask - gpuops' functions on Dask arrays: lazy, by chunks, with the bits of the whole call.

It needs Dask: ``pip install 'gpuops[dask]'``. docs/scaling-out.md says what each function does.
Only Dask's public functions are used, so that arrays with and without its query planning work.
"""

from __future__ import annotations

try:
    import dask.array as da
except ImportError as error:
    raise ImportError(
        f"gpuops.dask needs Dask: pip install 'gpuops[dask]' ({error})"
    ) from error

import numpy as np

from . import ops as _ops
from ._call import reduction as _reduction
from ._call.reduction import NO_VALUE
from ._dask import arrays as _dask
from ._dask import matrix as _matrix
from ._dask import rdf as _rdf
from ._dask import reduce as _reduce

__all__ = [
    "add", "all", "any", "argmax", "argmin", "cluster", "fma", "jacobi", "matmul", "max",
    "mean", "min", "multiply_add", "prod", "rdf", "reduce", "sum", "transpose",
]  # fmt: skip


# ---- element by element ----


def _elementwise(op: str, device, **operands):
    """One task for each block, once the chunks of all operands agree."""
    function, found = getattr(_ops, op), _dask.arrays(op, **operands)
    blocks = [x for x in found if isinstance(x, da.Array)]
    shapes = [x.shape for x in blocks]
    said = f"{op}: operands could not be broadcast together with shapes"
    _dask.broadcast(" ".join([said, *map(str, shapes)]), *shapes)
    ones = [_dask.like(x) if isinstance(x, da.Array) else x for x in found]
    dtype = np.asarray(function(*ones, device="cpu")).dtype
    ndim = np.max([x.ndim for x in blocks])
    pairs = []
    for x in found:
        pairs += [x, tuple(range(ndim - x.ndim, ndim)) if isinstance(x, da.Array) else None]
    return da.blockwise(
        function, tuple(range(ndim)), *pairs, dtype=dtype, token=f"gpuops-{op}",
        meta=_dask.meta(blocks[0], ndim, dtype), **_dask.on(device),
    )  # fmt: skip


def add(a, b, *, device=None):
    """a + b, block by block, as `gpuops.add`.

    Parameters
    ----------
    a, b : Dask array, or one that lies in memory, or a number
        At least one is a Dask array. They broadcast, and their chunks are unified.
    device : optional
        Where the workers compute; by default where the ``GPUOPS_DEVICE`` of each one says.

    Returns
    -------
    Dask array

    Examples
    --------
    >>> import dask.array as da, gpuops.dask
    >>> gpuops.dask.add(da.ones(4, chunks=2), 1).compute()
    array([2., 2., 2., 2.])
    """
    return _elementwise("add", device, a=a, b=b)


def multiply_add(a, b, c, *, device=None):
    """a * b + c with both operations rounded, as `gpuops.multiply_add`; else as `add`."""
    return _elementwise("multiply_add", device, a=a, b=b, c=c)


def fma(a, b, c, *, device=None):
    """a * b + c rounded once, as `gpuops.fma`; else as `add`."""
    return _elementwise("fma", device, a=a, b=b, c=c)


def transpose(a, axes=None, *, device=None):
    """The axes in another order, block by block, as `gpuops.transpose`.

    Parameters
    ----------
    a : Dask array
    axes : sequence of int, optional
        By default the reverse order.
    device : optional
        As in `add`.

    Returns
    -------
    Dask array
    """
    a = _dask.array("transpose", "a", a)
    # Of extents that tell the axes apart, the plain function gives the order, or its sentence.
    probe = np.broadcast_to(np.zeros((), bool), tuple(range(2, 2 + a.ndim)))
    order = tuple(n - 2 for n in _ops.transpose(probe, axes, device="cpu").shape)
    return da.blockwise(
        _ops.transpose, order, a, tuple(range(a.ndim)), axes=order, dtype=a.dtype,
        meta=_dask.meta(a, a.ndim, a.dtype), token="gpuops-transpose", **_dask.on(device),
    )  # fmt: skip


# ---- reductions ----


def reduce(a, op="sum", axis=None, dtype=None, keepdims=False, where=NO_VALUE, *, exact=False,
           device=None):  # fmt: skip
    """A reduction along axes with the bits of `gpuops.reduce` of the whole, for any chunks.

    Each chunk becomes a state, as of `gpuops.states`, and states of neighbours merge. Where
    floats are summed or multiplied, and for positions, a chunk has to be whole along all
    reduced axes but the first. Arrays with other chunks are rechunked, with a
    PerformanceWarning.

    Parameters
    ----------
    a : Dask array
    op, axis, dtype, keepdims : optional
        As in `gpuops.reduce`.
    where : array_like of bool, optional
        Broadcast against `a`; also a Dask array.
    exact : bool, optional
        As in `gpuops.reduce`: nothing is ever rechunked, since the order does not matter.
    device : optional
        As in `add`.

    Returns
    -------
    Dask array

    Examples
    --------
    >>> import dask.array as da, numpy as np, gpuops.dask
    >>> x = np.random.default_rng(0).random(100_000)
    >>> {float(gpuops.dask.sum(da.from_array(x, chunks=n))) for n in (7000, 999, 50_000)} == {
    ...     float(gpuops.sum(x))}
    True
    """
    word = _reduction.word(op)
    return _reduce.reduce(word, a, axis, dtype, keepdims, where, device, exact)


def sum(a, axis=None, dtype=None, keepdims=False, where=NO_VALUE, *, exact=False, device=None):
    """As `reduce`."""
    return _reduce.reduce("sum", a, axis, dtype, keepdims, where, device, exact)


def mean(a, axis=None, dtype=None, keepdims=False, where=NO_VALUE, *, exact=False, device=None):
    """As `reduce`."""
    return _reduce.reduce("mean", a, axis, dtype, keepdims, where, device, exact)


def prod(a, axis=None, dtype=None, keepdims=False, where=NO_VALUE, *, device=None):
    """As `reduce`."""
    return _reduce.reduce("prod", a, axis, dtype, keepdims, where, device)


def min(a, axis=None, keepdims=False, where=NO_VALUE, *, device=None):
    """As `reduce`; where a mask leaves nothing, `compute` raises a ValueError."""
    return _reduce.reduce("min", a, axis, None, keepdims, where, device)


def max(a, axis=None, keepdims=False, where=NO_VALUE, *, device=None):
    """As `reduce`; where a mask leaves nothing, `compute` raises a ValueError."""
    return _reduce.reduce("max", a, axis, None, keepdims, where, device)


def any(a, axis=None, keepdims=False, where=NO_VALUE, *, device=None):
    """As `reduce`."""
    return _reduce.reduce("any", a, axis, None, keepdims, where, device)


def all(a, axis=None, keepdims=False, where=NO_VALUE, *, device=None):
    """As `reduce`."""
    return _reduce.reduce("all", a, axis, None, keepdims, where, device)


def argmin(a, axis=None, keepdims=False, *, device=None):
    """As `reduce`, along one axis or of the whole: the first position in C order."""
    return _reduce.reduce("argmin", a, axis, None, keepdims, NO_VALUE, device)


def argmax(a, axis=None, keepdims=False, *, device=None):
    """As `reduce`, along one axis or of the whole: the first position in C order."""
    return _reduce.reduce("argmax", a, axis, None, keepdims, NO_VALUE, device)


# ---- products, pairs of points, iterations ----


def matmul(a, b, *, precision=None, memory=None, device=None):
    """Products of matrices as `gpuops.matmul`, a task for each block of the product.

    A task holds all terms of its sums, that is whole rows of `a` and whole columns of `b`, and
    two blocks of the product. It adds the products of one chunk after the other. For floats the
    error bound of `gpuops.matmul` holds, but the bits depend on the chunks.

    Parameters
    ----------
    a, b : Dask array, one of them perhaps in memory
        As in `gpuops.matmul`.
    precision : optional
        As in `gpuops.matmul`.
    memory : int or str, optional
        The bytes that a task may hold, such as "2 GiB".
    device : optional
        As in `add`.

    Returns
    -------
    Dask array
        Chunked as the rows of `a` and the columns of `b` are.

    Raises
    ------
    ValueError
        The shapes do not fit; a task holds more than `memory`, and the sentence says to what
        chunks the operands have to be brought.

    Examples
    --------
    >>> import dask.array as da, gpuops.dask
    >>> a = da.ones((4, 6), chunks=(2, 3))
    >>> gpuops.dask.matmul(a, a.T).compute()[0]
    array([6., 6., 6., 6.])
    """
    return _matrix.matmul(a, b, precision, memory, device)


def rdf(points, r_max=None, bins=100, *, r_min=0.0, points2=None, types=None, exclude=None,
        box=None, norm=None, frames=None, frames_per_task=None, device=None):  # fmt: skip
    """Pairs of points by their distance, as `gpuops.rdf`, in tasks of some frames each.

    The counts are those of one call for all frames, and g, its error and the numbers of
    neighbours have the same bits however the frames are split.

    Parameters
    ----------
    points : Dask array (frames, n, 3), a bag of frames, or MDAnalysis' atoms
        Each chunk of frames or partition of the bag is a task. For atoms each task opens the
        trajectory by the names of its files, which each worker has to find; a trajectory in
        memory is sent. A bag's frames are what `gpuops.rdf` takes as frames.
    r_max, bins : float, int or array_like
        As in `gpuops.rdf`, but `r_max` is needed where `bins` is a count: no task knows the
        boxes of the others.
    r_min, points2, types, exclude, box, norm : optional
        As in `gpuops.rdf`. `box` is one box, or an array with a box for each frame. `points2`
        is a Dask array if `points` is one, or an array (n2, 3) for all frames.
    frames : slice, int or sequence of int, optional
        Which frames of MDAnalysis' trajectory.
    frames_per_task : int, optional
        For a trajectory of MDAnalysis; by default it is cut into up to 64 tasks.
    device : optional
        As in `add`.

    Returns
    -------
    dask.delayed.Delayed
        Its ``compute()`` gives the RdfResult.

    Examples
    --------
    >>> import dask.array as da, numpy as np, gpuops.dask
    >>> gas = np.random.default_rng(0).random((20, 100, 3))
    >>> found = gpuops.dask.rdf(da.from_array(gas, chunks=(7, 100, 3)), 0.5, 5, box=(1, 1, 1))
    >>> np.array_equal(found.compute().counts, gpuops.rdf(gas, 0.5, 5, box=(1, 1, 1)).counts)
    True
    """
    if r_max is None and np.ndim(bins) == 0:
        raise TypeError(
            "gpuops.dask.rdf: r_max is needed where bins is a count: no task knows the "
            "boxes of all frames"
        )
    words = {"r_max": r_max, "bins": bins, "r_min": r_min, "types": types, "exclude": exclude,
             "norm": norm}  # fmt: skip
    return _rdf.rdf(points, points2, box, frames, frames_per_task, device, words)


def jacobi(A, f, x0=None, *, alpha=None, omega=None, steps=100, sweeps=10, device=None):
    """Makes `steps` steps for ``A x = f``, with the bits of as many calls of `jacobi_step`.

    A task makes `sweeps` steps for a block of rows. Neighbouring tasks both compute the rows at
    their border. Take this only for systems that do not fit into one machine: `gpuops.jacobi`
    is faster, and checks the residual.

    Parameters
    ----------
    A : sparse matrix, SparseMatrix or Stencil
        In memory; each task gets its rows.
    f, x0 : Dask array (n,) or (n, k)
        Blocks of rows; `x0` is 0 by default.
    alpha, omega : number, optional
        As in `gpuops.jacobi_step`.
    steps, sweeps : int, optional
        How many steps, and how many of them in a task.
    device : optional
        As in `add`.

    Returns
    -------
    Dask array
        The iterate, chunked as `f`.

    Examples
    --------
    >>> import dask.array as da, gpuops.dask
    >>> A = gpuops.poisson((8, 8))
    >>> x = gpuops.dask.jacobi(A, da.ones(64, chunks=24), steps=20)
    >>> one = gpuops.jacobi(A, [1.0] * 64, rtol=0, maxiter=20)
    >>> bool((x.compute() == one.x).all())
    True
    """
    return _matrix.jacobi(A, f, x0, alpha, omega, steps, sweeps, device)


# ---- workers ----


def cluster(devices="cuda:*", *, memory_limit=None, dashboard_address=":0", **options):
    """A Dask cluster on this machine with one process for each device.

    Each process has one thread, sees its own GPU only, and computes there by default. If one is
    killed, another takes its place, and its tasks run again.

    Parameters
    ----------
    devices : str or sequence of str or Device
        "cuda:*" (all GPUs), "cuda:0,2", "cpu", or a list such as ``["cpu", "cpu"]``.
    memory_limit : int or str, optional
        What each process may take, such as "4 GiB": beyond it Dask spills, waits and starts
        the process again. By default an even share of this machine's memory.
    dashboard_address : str, optional
        Where the dashboard listens; needs bokeh.
    **options
        Options of `distributed.SpecCluster`.

    Returns
    -------
    distributed.SpecCluster
        ``distributed.Client(cluster)`` connects to it.

    Raises
    ------
    DeviceUnavailableError
        A device is not there.
    ImportError
        Dask's distributed is not installed.

    Examples
    --------
    >>> import gpuops.dask
    >>> with gpuops.dask.cluster("cuda:*") as gpus:    # doctest: +SKIP
    ...     with distributed.Client(gpus):
    ...         print(gpuops.dask.sum(x).compute())
    """
    from ._dask import cluster as dask_cluster

    return dask_cluster.cluster(devices, memory_limit, dashboard_address, options)

"""rdf - histograms of the distances between points, and radial distribution functions."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from . import _core
from ._call import road as _road
from ._call.rdf_box import boxes
from ._show.rdf_result import RdfResult
from .arrays import DeviceArray

__all__ = ["RdfResult", "rdf"]

NORMS = ("rdf", "density", "none")


def rdf(
    points,
    r_max=None,
    bins=100,
    *,
    r_min=0.0,
    points2=None,
    types=None,
    box=None,
    norm=None,
    progress=False,
    device=None,
    kernel=None,
    params=None,
) -> RdfResult:
    """Counts pairs of points by their distance, and normalises to a distribution function.

    Bin k counts the pairs with ``edges[k] <= r < edges[k+1]``: the last edge is outside. Every
    pair is counted once, a point is no pair with itself. With a periodic box, r is the distance
    to the nearest image. With h the counts of a bin, averaged over the frames, and
    ``dV = 4/3*pi*(hi**3 - lo**3)`` the volume of its shell::

        norm="rdf"       g = h*V / (P*dV)    V the volume of the box, P the number of pairs:
                                             N*(N - 1)/2, or N*N2 with points2
        norm="density"   g = 2*h / (N*dV)    the density of neighbours around a point;
                                             h / (N*dV) with points2
        norm="none"      g = counts

    so "rdf" is 1 for an ideal gas. Each frame is normalised with its own volume.

    Parameters
    ----------
    points : array_like (n, 3), or (frames, n, 3)
        In any unit of length; all else is in the same one. They need not lie inside the box.
    r_max : float
        Where the last bin ends; needed if `bins` is a count, not to be given otherwise.
    bins : int, or array_like of increasing edges
        A count of bins of equal width, ``edges = np.linspace(r_min, r_max, bins + 1)``, or
        the edges themselves.
    r_min : float, optional
        Where the first bin begins.
    points2 : array_like (n2, 3), or (frames, n2, 3), optional
        Count the pairs of a point of `points` and one of `points2`, all ``n*n2`` of them.
    types : sequence of n labels, optional
        Of any kind that `numpy.unique` sorts. `counts` and `g` then have two leading axes,
        the types of the two points, in the order of `result.types`. With `points2`: a pair of
        such sequences, one per set.
    box : array_like, optional
        Edge lengths (3,), lengths and angles in degrees (6,) as in MDAnalysis, or rows (3, 3);
        or one of these per frame along a leading axis. Three frames of lengths look like rows:
        give them as (3, 6).
    norm : "rdf", "density" or "none", optional
        By default "rdf" with a box and "density" without.
    progress : bool, optional
        Shows a progress bar over the frames; needs the package tqdm.
    device, kernel, params : optional
        Where and by which kernel; see ``gpuops.kernels("rdf")``.

    Returns
    -------
    RdfResult
        With ``r``, ``g``, ``counts``, ``edges`` and ``types``; NumPy arrays also for points on
        a device.

    Raises
    ------
    ValueError
        A wrong shape; a coordinate that is NaN or infinite (its index is named); edges that do
        not increase; no bins; a singular box; `r_max` more than half the smallest distance
        between opposite faces of the box, beyond which further images would count (not built).
    TypeError
        A dtype other than float32, float64 and integers, or a missing `r_max`.
    OverflowError
        More than 2^31 counters.

    Notes
    -----
    Distances are computed in the points' dtype; integers, and a mixture, become float64. The
    counts are those of the plain double loop, exactly, on every device: docs/numerics.md states
    each rounding. With types, "density" is the density of the second type around a point of
    the first, so `g` is symmetric for "rdf" and "none" alone.

    M. P. Allen and D. J. Tildesley, Computer Simulation of Liquids, 2nd ed., Oxford 2017,
    sections 1.6 and 2.6; B. G. Levine, J. E. Stone and A. Kohlmeyer, J. Comput. Phys. 230,
    3556 (2011).

    Examples
    --------
    Four corners of a unit square: four sides and two diagonals.

    >>> import numpy as np, gpuops
    >>> square = np.array([[0, 0, 0], [1, 0, 0], [0, 1, 0], [1, 1, 0]])
    >>> gpuops.rdf(square, r_max=2, bins=4).counts
    array([0, 0, 6, 0])
    >>> gpuops.rdf(square, bins=[0.9, 1.1, 1.5]).counts
    array([4, 2])

    A gas without structure, in a periodic box:

    >>> gas = np.random.default_rng(0).random((2000, 3))
    >>> g = gpuops.rdf(gas, r_max=0.5, bins=5, box=(1, 1, 1)).g
    >>> np.round(g[1:], 1)
    array([1., 1., 1., 1.])
    """
    points, points2 = _sets(points, points2)
    frames = _frames(points, points2)
    edges = _edges(r_max, bins, r_min)
    cells = boxes(box, frames)
    norm = _norm(norm, box is not None)
    labels = _Labels(types, points, points2)
    meaning = {"points2": points2 is not None, "ntypes": labels.count, "box": None}
    options = {"device": device, "kernel": kernel, "tunables": params}

    total = np.zeros((labels.rows, len(edges) - 1), np.int64)
    by_volume = np.zeros(total.shape)  # counts times the volume of their frame
    for i in _each(1 if frames is None else frames, progress):
        cell = cells[i % len(cells)]
        sets = [_frame(p, i, cell) for p in (points, points2) if p is not None]
        meaning["box"] = None if cell is None else cell.rows
        operands = (sets[0], edges, *sets[1:], *labels.arrays)
        counts = _road.run("rdf", operands, meaning, **options)
        counts = counts.get() if isinstance(counts, DeviceArray) else counts
        total += counts
        by_volume += counts * (1.0 if cell is None else cell.volume)

    frames = 1 if frames is None else frames
    with np.errstate(over="ignore", invalid="ignore"):  # edges beyond 1e102
        shell = 4 / 3 * math.pi * np.diff(edges**3)
    counts = labels.shaped(total)
    if norm == "none":
        g = counts.astype(np.float64)
    elif norm == "rdf":
        g = _over(labels.shaped(by_volume), frames * labels.pairs()[..., None] * shell)
    else:
        around, twice = labels.centres()
        g = _over(counts * twice[..., None], frames * around[..., None] * shell)
    middle = (edges[1:] + edges[:-1]) / 2
    return RdfResult(middle, g, counts, edges, norm, frames, labels.names)


def _over(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """a / b, and 0 where nothing can be counted: no pairs, no frames."""
    out = np.zeros(np.broadcast_shapes(a.shape, b.shape))
    np.divide(a, b, out=out, where=b > 0)
    return out


# ---- the operands ----


def _points(name: str, value):
    a = _road.operand("rdf", name, value, "iuf")
    if a.dtype.kind in "iu":
        a = _road.cast("rdf", name, a, np.dtype(np.float64))
    if a.dtype.char not in "fd":
        raise TypeError(
            f"rdf: {name} has dtype {a.dtype}; accepted are float32, float64, and integers, "
            "which become float64"
        )
    if a.ndim not in (2, 3) or a.shape[-1] != 3:
        raise ValueError(f"rdf: {name} must have shape (n, 3) or (frames, n, 3), not {a.shape}")
    # The counts come to the host whatever library the points are of.
    return DeviceArray(a._buffer) if isinstance(a, DeviceArray) else a


def _sets(points, points2):
    points = _points("points", points)
    if points2 is None:
        return points, None
    points2 = _points("points2", points2)
    dtype = np.result_type(points.dtype, points2.dtype)
    return (
        _road.cast("rdf", "points", points, dtype),
        _road.cast("rdf", "points2", points2, dtype),
    )


def _frames(points, points2) -> int | None:
    """The number of frames, None if there is no axis of them; one set may serve them all."""
    counts = {p.shape[0] for p in (points, points2) if p is not None and p.ndim == 3}
    if len(counts) > 1:
        raise ValueError(
            f"rdf: points have {points.shape[0]} frames, points2 {points2.shape[0]}"
        )
    return counts.pop() if counts else None


def _frame(points, i: int, cell):
    if points.ndim == 3 and isinstance(points, DeviceArray):
        b = points._buffer
        at = b.ptr + i * b.strides[0]
        b = _core.borrow(at, b.shape[1:], b.strides[1:], b.dtype, b.device, b, True)
        points = DeviceArray(b)
    elif points.ndim == 3:
        points = points[i]
    return points if cell is None else cell.turn(points)


def _number(name: str, value) -> float:
    array = np.asarray(value)
    if array.ndim or (array.dtype.kind not in "iuf" and type(value) is not int):
        raise TypeError(f"rdf: {name} is a number, not {value!r:.60}")
    number = float(array[()])  # OverflowError beyond 1.8e308
    if not math.isfinite(number) or number < 0:
        raise ValueError(f"rdf: {name} must be finite and not negative, not {number}")
    return number


def _edges(r_max, bins, r_min) -> np.ndarray:
    if not isinstance(bins, DeviceArray) and np.ndim(bins) == 0:
        bins = _road.index("rdf", "bins", bins)
        if bins < 1:
            raise ValueError(f"rdf: bins must be 1 or more, not {bins}")
        if bins >= 2**31:
            raise OverflowError(f"rdf: {bins} bins are more than 2^31 counters")
        if r_max is None:
            raise TypeError("rdf: r_max is needed where bins is a count")
        r_max, r_min = _number("r_max", r_max), _number("r_min", r_min)
        if not r_min < r_max:
            raise ValueError(f"rdf: r_max must be more than r_min = {r_min}, not {r_max}")
        return np.linspace(r_min, r_max, bins + 1)
    if r_max is not None or _number("r_min", r_min) != 0.0:
        raise ValueError("rdf: bins are edges, which leave nothing for r_max and r_min to say")
    edges = _road.operand("rdf", "bins", bins, "iuf")
    edges = edges.get() if isinstance(edges, DeviceArray) else edges
    if edges.ndim != 1 or len(edges) < 2:
        raise ValueError(f"rdf: bins must be a count or 2 or more edges, not {edges.shape}")
    return np.array(edges, np.float64)


def _norm(norm, has_box: bool) -> str:
    if norm is None:
        return "rdf" if has_box else "density"
    if norm not in NORMS:
        raise ValueError(f"rdf: norm must be one of {', '.join(NORMS)}, not {norm!r}")
    if norm == "rdf" and not has_box:
        raise ValueError("rdf: norm 'rdf' compares with an ideal gas in a box: give box=")
    return norm


def _each(frames: int, progress: bool):
    if not progress:
        return range(frames)
    try:
        from tqdm.auto import tqdm
    except ImportError:
        raise ImportError(
            "rdf: progress=True needs the package tqdm; install it with 'pip install tqdm'"
        ) from None
    return tqdm(range(frames), desc="rdf", unit="frame")


# ---- types ----


def _unique(name: str, labels, n: int) -> tuple[np.ndarray, np.ndarray]:
    """The labels in order, and each point's number among them."""
    if isinstance(labels, DeviceArray):
        labels = labels.get()
    labels = np.asarray(labels)
    if labels.shape != (n,):
        raise ValueError(f"rdf: {name} must hold {n} labels, not shape {labels.shape}")
    try:
        names, numbers = np.unique(labels, return_inverse=True)
    except TypeError:
        raise TypeError(f"rdf: {name} must be labels that can be sorted") from None
    return names, numbers.astype(np.int32)


class _Labels:
    """Types as the core takes them, and the numbers of points that normalisation needs.

    With two sets, the types of the second get numbers after those of the first, so that the
    core's unordered pairs tell which point was of which set.
    """

    def __init__(self, types, points, points2) -> None:
        n, n2 = points.shape[-2], None if points2 is None else points2.shape[-2]
        self.two = n2 is not None
        self.sizes = (np.array([n]), np.array([n if n2 is None else n2]))
        self.names: Any = None
        self.arrays: tuple[np.ndarray, ...] = ()
        self.count = 0
        if types is None:
            self.rows = 1
            return
        if n2 is None:
            self.names, numbers = _unique("types", types, n)
            self.arrays, self.count = (numbers,), len(self.names)
            self.sizes = (np.bincount(numbers, minlength=self.count),) * 2
        else:
            if not isinstance(types, (tuple, list)) or len(types) != 2:
                raise TypeError("rdf: with points2, types is a pair: labels of each set")
            first, a = _unique("types[0]", types[0], n)
            second, b = _unique("types[1]", types[1], n2)
            self.names, self.arrays = (first, second), (a, b + np.int32(len(first)))
            self.count = len(first) + len(second)
            self.sizes = (
                np.bincount(a, minlength=len(first)),
                np.bincount(b, minlength=len(second)),
            )
        self.arrays = self.arrays if self.count else ()  # no points, no types
        self.rows = self.count * (self.count + 1) // 2 or 1

    def shaped(self, rows: np.ndarray) -> np.ndarray:
        """The core's rows, one per unordered pair of numbers, as (types, types2, bins)."""
        if self.names is None:
            return rows[0]
        if self.count == 0:
            return np.zeros((0, 0, rows.shape[1]), rows.dtype)
        s, t = np.triu_indices(self.count)
        full = np.empty((self.count, self.count, rows.shape[1]), rows.dtype)
        full[s, t] = full[t, s] = rows
        k = len(self.sizes[0])
        return np.ascontiguousarray(full[:k, k:]) if self.two else full

    def pairs(self) -> np.ndarray:
        """How many pairs there are, of each pair of types."""
        a, b = (size.astype(np.float64) for size in self.sizes)
        pairs = a[:, None] * b[None, :]
        if not self.two:
            np.fill_diagonal(pairs, a * (a - 1) / 2)
        return pairs if self.names is not None else pairs[0, 0]

    def centres(self) -> tuple[np.ndarray, np.ndarray]:
        """Of each pair of types, the number of first points, and how often a pair counts."""
        a, b = self.sizes
        around = np.repeat(a[:, None].astype(np.float64), len(b), axis=1)
        twice = np.ones(around.shape, np.int64)
        if not self.two:
            np.fill_diagonal(twice, 2)
        if self.names is None:
            return around[0, 0], twice[0, 0]
        return around, twice

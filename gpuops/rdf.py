"""rdf - histograms of the distances between points, and radial distribution functions."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ._call import road as _road

if TYPE_CHECKING:
    from ._show.rdf_result import RdfResult

__all__ = ["rdf"]


@_road.refusing
@_road.rounded
def rdf(
    points,
    r_max=None,
    bins=100,
    *,
    r_min=0.0,
    points2=None,
    types=None,
    exclude=None,
    box=None,
    norm=None,
    frames=None,
    progress=False,
    device=None,
    kernel=None,
    params=None,
) -> RdfResult:
    """Counts pairs of points by their distance, and normalises to a distribution function.

    Bin k counts the pairs with ``edges[k] <= r < edges[k+1]``: the last edge is outside. Every
    pair counts once, and a point is no pair with itself. With a periodic box, r is the distance
    to the nearest image. With h the counts of a bin in a frame and
    ``dV = 4/3*pi*(hi**3 - lo**3)`` the volume of its shell::

        norm="rdf"       g = h*V / (P*dV)    V the volume of the box, P the number of pairs:
                                             N*(N - 1)/2, or N*N2 with points2, less those
                                             that are excluded
        norm="density"   g = 2*h / (N*dV)    the density of neighbours around a point;
                                             h / (N*dV) with points2
        norm="none"      g = counts

    so "rdf" is 1 for an ideal gas. g is the mean over the frames, each with its own V, N and P.

    Parameters
    ----------
    points : array_like (n, 3) or (frames, n, 3), iterable of frames, or atoms
        In any unit of length; all other lengths are in the same one. Points need not lie inside
        the box. An iterable gives points (n, 3), or ``(points, box)``; n may differ from frame
        to frame. An AtomGroup of MDAnalysis stands for all frames of its trajectory with their
        boxes; a trajectory will do, too. From ASE it takes `Atoms`, an iterable of them or a
        part of a trajectory; axes that are not periodic are open.
    r_max : float
        Where the last bin ends. Leave it out if `bins` are edges. By default it is the largest
        that the boxes of all frames allow: half the smallest distance between opposite faces.
    bins : int, or array_like of increasing edges
        A count of bins of equal width, ``edges = np.linspace(r_min, r_max, bins + 1)``, or
        the edges themselves.
    r_min : float, optional
        Where the first bin begins.
    points2 : as points, optional
        With it all ``n*n2`` pairs of a point of `points` and one of `points2` count. One array
        (n2, 3) serves all frames. A point that is in both sets is a pair with itself, at r = 0,
        unless `exclude` says otherwise.
    types : sequence of n labels, optional
        Labels of any kind that `numpy.unique` sorts. `counts` and `g` then have two leading
        axes, the types of the two points, in the order of `result.types`. Points whose label
        is missing (None, NaN, pandas' NA, masked) are left out. With `points2` it is a pair of
        such sequences, one for each set. For atoms it may be the name of a property:
        "element", "type", "name", "resname", or any other that they have.
    exclude : sequence of n integers, optional
        Pairs of points with equal labels are not counted, such as those of one molecule. With
        `points2` it is a pair of such sequences. For atoms it may be a name: "residue",
        "segment", "chain", "molecule", "fragment", "atom" (an atom that is in both groups), or
        any other property.
    box : array_like, optional
        Edge lengths (3,), lengths and angles in degrees (6,) as in MDAnalysis, or rows (3, 3);
        or one of these for each frame along a leading axis. Three frames of lengths look like
        rows, so give them as (3, 6). An infinite length (or a row with an infinite number) is
        an open axis, perpendicular to the others, for slabs and wires. It replaces the boxes
        that atoms bring along.
    norm : "rdf", "density" or "none", optional
        By default "rdf" with a box, and "density" without a box or with an open axis. If the
        first frame of atoms, or of ``(points, None)``, has no box, a warning says that the norm
        is "density"; to give `norm` silences it.
    frames : slice, int or sequence of int, optional
        Which frames of an MDAnalysis trajectory.
    progress : bool, optional
        Shows a progress bar over the frames; needs the package tqdm.
    device, kernel, params : optional
        Where to compute and by which kernel; see ``gpuops.kernels("rdf")``.

    Returns
    -------
    RdfResult
        With ``r``, ``g``, ``counts``, ``edges``, ``types``, ``error``; ``coordination()``,
        ``first_shell()`` and ``+``. Its arrays are NumPy's, also for points on a device.

    Raises
    ------
    ValueError
        A wrong shape; a coordinate that is NaN or infinite (its index and frame are named);
        edges that do not increase; no bins, or more than the memory has room for; a singular
        box; `r_max` more than half the smallest distance between opposite faces of the box,
        beyond which further images would count (not built); norm "rdf" without a box or with an
        open axis.
    TypeError
        A dtype other than float32, float64 and integers, or a missing `r_max`.
    OverflowError
        More than 2^31 counters.

    Arrays, labels and boxes are checked before anything is counted; an iterable is checked
    frame by frame. If an exception, such as that of Ctrl-C, ends the call amid its frames, its
    attribute ``partial`` is the result of the frames before, or None if there are none.

    Notes
    -----
    Distances are computed in the points' dtype; integers, and a mixture, become float64. The
    counts are those of the plain double loop, exactly, on every device: docs/numerics.md states
    each rounding. With types, "density" is the density of the second type around a point of
    the first, so `g` is symmetric only for "rdf" and "none". docs/rdf.md has more on
    trajectories, and says how results differ from those of other programs.

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

    As two molecules of two atoms each:

    >>> gpuops.rdf(square, bins=[0.9, 1.1, 1.5], exclude=[7, 7, 8, 8]).counts
    array([2, 2])

    A gas without structure, in a periodic box:

    >>> gas = np.random.default_rng(0).random((2000, 3))
    >>> g = gpuops.rdf(gas, bins=5, box=(1, 1, 1)).g
    >>> np.round(g[1:], 1)
    array([1., 1., 1., 1.])
    """
    from ._rdf import run as rdf_run  # with all that it needs: who imports gpuops need not wait

    options = {"device": device, "kernel": kernel, "tunables": params}
    return rdf_run.run(points, r_max, bins, r_min, points2, types, exclude, box, norm, frames,
                       progress, options)  # fmt: skip


def _first_call(*args, **words) -> _road.Call:
    """What `benchmark`, `ladder` and `explain` look at."""
    from ._rdf import run as rdf_run

    return rdf_run.first_call(**_road.bound(rdf, args, words))


_road.calls["rdf"] = _first_call

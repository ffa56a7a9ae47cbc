"""stencils - matrices of grids that are not stored: each row is a point and its neighbours."""

from __future__ import annotations

import copy
import math
from typing import Any

import numpy as np

from . import _core
from ._call import road as _road
from .arrays import DeviceArray
from .devices import Device
from .errors import brief

__all__ = ["Stencil", "poisson", "stencil"]

_BOUNDARIES = ("dirichlet", "periodic", "neumann")


@_road.rounded
def poisson(shape: Any, bc: str = "dirichlet", *, dtype: Any = np.float64) -> Stencil:
    """The operator -laplace on a grid of 1 to 3 axes with unit spacing, for `jacobi_step`.

    A row has 2*d on the diagonal, for d axes, and -1 for each neighbour: 5 points in two
    dimensions, 7 in three.

    Parameters
    ----------
    shape : int or tuple of int
        The points along each axis.
    bc : {"dirichlet", "periodic", "neumann"}, optional
        What is beyond the grid; see `stencil`.
    dtype : dtype, optional
        float32, float64, complex64 or complex128.

    Returns
    -------
    Stencil

    Raises
    ------
    ValueError, TypeError
        As `stencil`.

    Examples
    --------
    >>> import numpy as np, gpuops
    >>> A = gpuops.poisson((64, 64))
    >>> A
    Stencil (4096, 4096) of the grid (64, 64), 5 constant float64 coefficients, dirichlet
    >>> x = gpuops.jacobi_step(A, np.ones(4096), np.zeros(4096))
    >>> float(x[0])
    0.25
    """
    grid = _grid("poisson", shape)
    coefficients = [-1.0] * len(grid) + [2.0 * len(grid)] + [-1.0] * len(grid)
    try:
        values = np.array(coefficients).astype(dtype)
    except (TypeError, ValueError) as error:
        raise TypeError(f"poisson: dtype: {error}") from None
    return _made("poisson", values, grid, bc)


@_road.rounded
def stencil(coefficients: Any, shape: Any, bc: str = "dirichlet") -> Stencil:
    """A matrix whose rows are the points of a grid and whose terms are their neighbours.

    Only the coefficients are stored. The points are numbered in C order. A row has its terms,
    and adds them, in this order: the neighbours down each axis, first axis to last; the point
    itself; the neighbours up each axis, last axis to first. That is the order of the columns.
    ``tocsr()`` gives the same matrix in CSR, and its results have the same bits.

    Parameters
    ----------
    coefficients : array_like (2*d + 1,) or (2*d + 1, n0, n1, ...)
        One for each term, in that order: one number for all points, or one for each point.
    shape : int or tuple of int
        The points along each of 1 to 3 axes.
    bc : {"dirichlet", "periodic", "neumann"}, optional
        What stands for a neighbour beyond the grid. "dirichlet": nothing. "periodic": the point
        at the other end. "neumann": the point itself, with one more term of its own.

    Returns
    -------
    Stencil
        `jacobi_step` and `jacobi` take it instead of a matrix, which is never made.

    Raises
    ------
    ValueError
        The coefficients do not fit the grid, an extent is negative, or `bc` is another word.
    TypeError
        A dtype that `jacobi_step` does not take.

    Examples
    --------
    >>> import numpy as np, gpuops
    >>> k = np.ones((3, 8))
    >>> k[1] = 4.0
    >>> A = gpuops.stencil(k, 8, "periodic")
    >>> gpuops.jacobi_step(A, np.ones(8), np.zeros(8))[:2]
    array([0.25, 0.25])
    """
    grid = _grid("stencil", shape)
    given = _road.operand("stencil", "coefficients", coefficients)
    values = given.get() if isinstance(given, DeviceArray) else np.array(given)
    return _made("stencil", values, grid, bc)


class Stencil:
    """A matrix of a grid that is not stored; made by `poisson` and `stencil`.

    Attributes
    ----------
    shape : tuple of int
        (n, n), as of a matrix.
    grid : tuple of int
        The points along each axis; their product is n.
    bc : str
        What is beyond the grid.
    dtype : numpy.dtype
        That of the coefficients.
    coefficients : numpy.ndarray
        Their shape is (2*d + 1,) or (2*d + 1, n); read-only.

    Examples
    --------
    >>> import gpuops
    >>> A = gpuops.poisson(4)
    >>> A.tocsr().toarray()
    array([[ 2., -1.,  0.,  0.],
           [-1.,  2., -1.,  0.],
           [ 0., -1.,  2., -1.],
           [ 0.,  0., -1.,  2.]])
    """

    def __init__(self, coefficients: np.ndarray, grid: tuple[int, ...], bc: str) -> None:
        n = math.prod(grid)
        self.shape, self.grid, self.bc, self.dtype = (n, n), grid, bc, coefficients.dtype
        coefficients.flags.writeable = False
        self.coefficients = coefficients
        self._divides = False  # by a diagonal that was looked at
        self._held: Any = coefficients  # where the calls are
        self._kept: dict[Device, Stencil] = {}

    def __repr__(self) -> str:
        varies = "variable" if self.coefficients.ndim > 1 else "constant"
        return (
            f"Stencil {self.shape} of the grid {self.grid}, {len(self.coefficients)} {varies} "
            f"{self.dtype} coefficients, {self.bc}"
        )

    def _columns(self) -> np.ndarray:
        """(n, 2*d + 1): the column of each term, -1 where there is none."""
        axes, n = len(self.grid), self.shape[0]
        points = np.arange(n).reshape(self.grid)
        found = np.empty((n, 2 * axes + 1), np.int64)
        found[:, axes] = points.reshape(-1)
        for axis, extent in enumerate(self.grid):
            for term, step in ((axis, -1), (2 * axes - axis, 1)):
                at = np.arange(extent) + step
                inside = (at >= 0) & (at < extent)
                if self.bc == "neumann":
                    at = np.where(inside, at, at - step)
                column = points.take(at % max(extent, 1), axis)
                if self.bc == "dirichlet":
                    along = [1] * axes
                    along[axis] = extent
                    column = np.where(inside.reshape(along), column, -1)
                found[:, term] = column.reshape(-1)
        return found

    def tocsr(self) -> Any:
        """The same matrix as a scipy.sparse.csr_array, its terms in the order stated above."""
        from scipy.sparse import csr_array

        columns = self._columns()
        values = np.atleast_2d(self.coefficients.T)
        values = np.broadcast_to(values, columns.shape)
        there = columns >= 0
        indptr = np.concatenate([[0], np.cumsum(there.sum(1))])
        return csr_array((values[there], columns[there], indptr), shape=self.shape)

    def placed(self, f: Any, device: Any, kernel: Any) -> Stencil:
        """Internal: the stencil, with coefficients where a call with f runs."""
        place = _road.choose_device(
            "jacobi_step", (self.coefficients, f, f), device, kernel, self.operands()[1]
        )
        if place.backend == "cpu":
            return self
        if place not in self._kept:
            there = self._kept[place] = copy.copy(self)
            there._kept = {}  # no circle
            there._held = DeviceArray(
                _core.upload(self.coefficients, (place.backend, place.ordinal))
            )
        return self._kept[place]

    def operands(self) -> tuple[tuple, dict[str, Any]]:
        """Internal: the arrays that the core takes, and how it has to read them."""
        meaning = {"csr": False, "grid": self.grid, "bc": _BOUNDARIES.index(self.bc)}
        return (self._held,), {**meaning, "checked": True}

    def complete(self, op: str, divides: bool) -> None:
        """Internal: looks once for zeros on the diagonal; the error is as for CSR."""
        if not divides or self._divides:
            return
        # Where terms of the ends add to the diagonal only the whole matrix tells.
        if self.bc != "dirichlet" or not self.coefficients[len(self.grid)].all():
            operands, meaning = _plain(self.tocsr(), np.zeros(self.shape[0], self.dtype))
            _core.Call(op, operands, {**meaning, "check_every": 1}).check()
        self._divides = True


def _plain(A, vector) -> tuple[tuple, dict[str, Any]]:
    dtype = np.int32 if A.nnz <= np.iinfo(np.int32).max else np.int64
    indices, indptr = A.indices.astype(dtype), A.indptr.astype(dtype)
    meaning = {"csr": True, "n": A.shape[0], "columns": A.shape[1]}
    return (A.data, indices, indptr, vector, vector), meaning


def _grid(op: str, shape) -> tuple[int, ...]:
    is_vector = isinstance(shape, np.ndarray) and shape.ndim == 1
    several = is_vector or isinstance(shape, (tuple, list))
    extents = shape if several else (shape,)
    grid = tuple(_road.index(op, "an extent of shape", n) for n in extents)
    if not 1 <= len(grid) <= 3 or min(grid) < 0 or math.prod(grid) >= 1 << 62:
        raise ValueError(
            f"{op}: shape is {shape!r}, expected 1 to 3 extents that are not negative, and "
            "fewer than 2^62 points"
        )
    return grid


def _made(op: str, coefficients: np.ndarray, grid: tuple[int, ...], bc: str) -> Stencil:
    if not isinstance(bc, str) or bc not in _BOUNDARIES:
        raise ValueError(
            f"{op}: bc is {brief(bc)}, expected 'dirichlet', 'periodic' or 'neumann'"
        )
    terms = 2 * len(grid) + 1
    if coefficients.shape not in ((terms,), (terms, *grid)):
        raise ValueError(
            f"{op}: coefficients have shape {coefficients.shape}, expected {(terms,)} or "
            f"{(terms, *grid)}"
        )
    if coefficients.dtype.kind in "biu":
        coefficients = coefficients.astype(np.float64)
    elif coefficients.dtype.char == "e":
        coefficients = coefficients.astype(np.float32)
    if coefficients.dtype.char not in "fdFD":
        raise TypeError(
            f"{op}: the dtype is {coefficients.dtype}, expected float32, float64, complex64 or "
            "complex128"
        )
    if coefficients.ndim > 1:
        coefficients = coefficients.reshape(terms, math.prod(grid))
    return Stencil(np.ascontiguousarray(coefficients), grid, bc)

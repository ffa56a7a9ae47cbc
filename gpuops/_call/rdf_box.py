"""rdf_box - periodic boxes of `rdf`: from what a caller says to lower-triangular rows.

docs/numerics.md states the arithmetic: everything in float64, in the order written here.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from ..arrays import DeviceArray
from .road import operand

Row = tuple[float, ...]  # of three numbers


@dataclass(frozen=True)
class Box:
    """Rows a = (ax 0 0), b = (bx by 0), c = (cx cy cz); `axes`: directions to turn to."""

    rows: tuple[float, ...]
    axes: tuple[Row, Row, Row] | None = None  # None: the points stay as they are

    @property
    def volume(self) -> float:
        return self.rows[0] * self.rows[4] * self.rows[8]

    def turn(self, points):
        """The points in the coordinates of the rows, rounded to their own dtype once."""
        if self.axes is None:
            return points
        p = (points.get() if isinstance(points, DeviceArray) else points).astype(np.float64)
        turned = [(p[:, 0] * e[0] + p[:, 1] * e[1]) + p[:, 2] * e[2] for e in self.axes]
        return np.stack(turned, axis=1).astype(points.dtype)


def boxes(value, frames: int | None) -> list[Box | None]:
    """One box, or one per frame, from the `box` argument; [None] without a box."""
    if value is None:
        return [None]
    value = operand("rdf", "box", value, "biuf")
    value = (value.get() if isinstance(value, DeviceArray) else value).astype(np.float64)
    if value.shape in ((3,), (6,), (3, 3)):
        return [_box(value, "box")]
    one_each = value.ndim > 1 and value.shape[1:] in ((3,), (6,), (3, 3))
    if frames is None or not one_each or len(value) != frames:
        each = "" if frames is None else f", or one of these for each of {frames} frames"
        raise ValueError(
            f"rdf: box must have shape (3,), (6,) or (3, 3){each}, not {value.shape}"
        )
    return [_box(v, f"box of frame {i}") for i, v in enumerate(value)]


def _box(value: np.ndarray, name: str) -> Box:
    if not np.isfinite(value).all():
        raise ValueError(f"rdf: {name} must be finite, not {value.tolist()}")
    if value.shape == (3, 3):
        return _of_rows(value.tolist(), name)
    if not (value[:3] > 0).all():
        raise ValueError(f"rdf: {name} is singular: its lengths are {value[:3].tolist()}")
    if value.shape == (3,):
        x, y, z = value.tolist()
        return Box((x, 0.0, 0.0, 0.0, y, 0.0, 0.0, 0.0, z))
    return _of_angles(value.tolist(), name)


def _cosine(degrees: float) -> float:
    return 0.0 if degrees == 90.0 else math.cos(math.radians(degrees))


def _of_angles(value: list[float], name: str) -> Box:
    """Lengths and angles: alpha of b and c, beta of a and c, gamma of a and b."""
    x, y, z, *angles = value
    cosa, cosb, cosg = (_cosine(angle) for angle in angles)
    sing = 1.0 if angles[2] == 90.0 else math.sin(math.radians(angles[2]))
    possible = all(0.0 < angle < 180.0 for angle in angles)
    cx = z * cosb
    cy = z * (cosa - cosb * cosg) / sing if possible else 0.0
    square = z * z - cx * cx - cy * cy
    if not possible or not square > 1e-12 * z * z:
        raise ValueError(f"rdf: {name} is singular: no cell has the angles {angles}")
    return Box((x, 0.0, 0.0, y * cosg, y * sing, 0.0, cx, cy, math.sqrt(square)))


def _dot(u, v) -> float:
    return (u[0] * v[0] + u[1] * v[1]) + u[2] * v[2]


def _unit(v: Row, against: Row, name: str) -> tuple[float, Row]:
    """Length and direction of what is left of a row; nothing left: the rows are dependent."""
    length = math.sqrt(_dot(v, v))
    if not length > 1e-12 * math.sqrt(_dot(against, against)):
        raise ValueError(f"rdf: {name} is singular: its rows are linearly dependent")
    return length, (v[0] / length, v[1] / length, v[2] / length)


def _of_rows(rows: list[list[float]], name: str) -> Box:
    a, b, c = (tuple(row) for row in rows)
    if a[1] == a[2] == b[2] == 0.0:
        if 0.0 in (a[0], b[1], c[2]):
            raise ValueError(f"rdf: {name} is singular: its rows are linearly dependent")
        # A row and its negative span the same lattice.
        kept = [
            row if row[i] > 0 else tuple(-v for v in row) for i, row in enumerate((a, b, c))
        ]
        return Box(tuple(v + 0.0 for row in kept for v in row))
    # Gram and Schmidt: the first axis along a, the second in the plane of a and b.
    ax, e1 = _unit(a, a, name)
    bx = _dot(b, e1)
    by, e2 = _unit(tuple(b[i] - bx * e1[i] for i in range(3)), b, name)
    cx, cy = _dot(c, e1), _dot(c, e2)
    cz, e3 = _unit(tuple((c[i] - cx * e1[i]) - cy * e2[i] for i in range(3)), c, name)
    return Box((ax, 0.0, 0.0, bx, by, 0.0, cx, cy, cz), (e1, e2, e3))

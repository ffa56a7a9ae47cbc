"""box - boxes of `rdf`: from what a caller says to lower-triangular rows.

docs/numerics.md states the arithmetic: everything in float64, in the order written here.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from .._call.road import operand
from ..arrays import DeviceArray

Row = tuple[float, ...]  # of three numbers

LARGE = 1e90  # a longer box or a shorter than its inverse has no volume in float64
OPEN = 2.0**100  # stands for an infinite length: less than half of it is never shifted
# By which r_max may be beyond the limit: 8 ulps, of float32 where one of the numbers was one.
TOLERANCE, NARROW = 1 + 2.0**-49, 1 + 2.0**-20


@dataclass(frozen=True)
class Box:
    """Rows a = (ax 0 0), b = (bx by 0), c = (cx cy cz); `axes`: directions to turn to;
    `tolerance`: by which r_max may be beyond the limit."""

    rows: tuple[float, ...]
    axes: tuple[Row, Row, Row] | None = None  # None: the points stay as they are
    tolerance: float = TOLERANCE

    @property
    def is_open(self) -> bool:
        return OPEN in (self.rows[0], self.rows[4], self.rows[8])

    @property
    def volume(self) -> float:
        return math.inf if self.is_open else self.rows[0] * self.rows[4] * self.rows[8]

    @property
    def limit(self) -> float:
        """Half the smallest distance between opposite faces, which r_max may be."""
        ax, _, _, bx, by, _, cx, cy, cz = self.rows
        bc = math.hypot(math.hypot(by * cz, bx * cz), bx * cy - by * cx)
        return min(ax * (by * cz / bc), by * (cz / math.hypot(cz, cy)), cz) / 2

    def rows_for(self, sets, r_max: float) -> tuple[float, ...]:
        """The rows for the core: an open axis need not be longer than four times the points.

        What is never shifted is so with any length that is long enough, and with a short one
        points can be sorted into cells.
        """
        if not self.is_open or any(isinstance(p, DeviceArray) or not p.size for p in sets):
            return self.rows
        rows = list(self.rows)
        for i in range(3):
            if rows[4 * i] == OPEN:
                reach = max(r_max, *(float(np.abs(p[..., i]).max()) for p in sets))
                power = math.frexp(reach)[1] if math.isfinite(reach) else 97
                rows[4 * i] = 8.0 * 2.0 ** min(power, 97)
        return tuple(rows)

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
    value = value.get() if isinstance(value, DeviceArray) else value
    is_narrow = value.dtype.kind != "V" and value.dtype.char in "ef"
    each = _each(value.astype(np.float64), frames)
    if is_narrow:
        each = [box and replace(box, tolerance=NARROW) for box in each]
    return each


def _each(value: np.ndarray, frames: int | None) -> list[Box | None]:
    if value.shape in SHAPES:
        lengths = value.shape == (3, 3) and frames == 3
        hint = "lengths of three frames look like rows, give them as (3, 6)"
        try:
            box = _box(value, "box")
        except ValueError as error:
            if not lengths:
                raise
            raise ValueError(f"{error}; {hint}") from None
        shortest = float(np.sqrt((value**2).sum(axis=-1)).min())
        if box and lengths and (value > 0).all() and 2 * box.limit < FLAT * shortest:
            raise ValueError(
                "rdf: the rows of box are nearly parallel, opposite faces "
                f"{2 * box.limit:.3g} apart; {hint}, and rows of each frame as (3, 3, 3)"
            )
        return [box]
    one_each = value.ndim > 1 and value.shape[1:] in SHAPES
    if frames is None or not one_each or len(value) != frames:
        each = "" if frames is None else f", or one of these for each of {frames} frames"
        raise ValueError(
            f"rdf: box must have shape (3,), (6,) or (3, 3){each}, not {value.shape}"
        )
    return [_box(v, f"box of frame {i}") for i, v in enumerate(value)]


def box_of(value) -> Box | None:
    """The box of one frame; None without one."""
    return boxes(value, None)[0]


SHAPES = ((3,), (6,), (3, 3))
FLAT = 0.2  # rows of positive numbers whose faces are nearer than this part of the shortest row


def _box(value: np.ndarray, name: str) -> Box | None:
    lengths = value[:3]
    endless = np.isinf(value).any(axis=1) if value.ndim == 2 else lengths == np.inf
    rest = value[~endless] if value.ndim == 2 else np.delete(value, np.flatnonzero(endless))
    if np.isnan(value).any() or not np.isfinite(rest).all():
        raise ValueError(f"rdf: {name} must be finite, or open along an infinite length, "
                         f"not {value.tolist()}")  # fmt: skip
    if endless.all():
        return None
    rows = rest if value.ndim == 2 else rest[: 3 - endless.sum(), None]
    largest = np.abs(rows).max(axis=-1)
    if ((largest > LARGE) | ((largest > 0) & (largest < 1 / LARGE))).any():
        raise ValueError(
            f"rdf: {name} has lengths of {value.tolist()}, expected {1 / LARGE:g} to "
            f"{LARGE:g}, which have a volume: take another unit of length"
        )
    if value.ndim == 2:
        rows = _closed(value, endless, name) if endless.any() else value
        return _opened(_of_rows(rows.tolist(), name), endless)
    if not (lengths > 0).all():
        raise ValueError(f"rdf: {name} is singular: its lengths are {lengths.tolist()}")
    lengths = np.where(endless, OPEN, lengths)
    if value.shape == (3,):
        x, y, z = lengths.tolist()
        return Box((x, 0.0, 0.0, 0.0, y, 0.0, 0.0, 0.0, z))
    # Each angle is between two axes.
    for angle, i, k in zip(value[3:], (1, 0, 0), (2, 2, 1), strict=True):
        if (endless[i] or endless[k]) and angle != 90.0:
            raise ValueError(
                f"rdf: {name} is open along an infinite length, and the other two must be "
                f"perpendicular to it: give angles of 90, not {value[3:].tolist()}"
            )
    return _opened(_of_angles([*np.where(endless, 1.0, lengths), *value[3:]], name), endless)


def _closed(rows: np.ndarray, endless: np.ndarray, name: str) -> np.ndarray:
    """Rows with unit vectors, perpendicular to the others, instead of infinite ones."""
    rows = np.where(endless[:, None], 0.0, rows)
    if not rows[~np.eye(3, dtype=bool)].any():  # along the axes: these serve as they are
        return rows + np.diag(endless.astype(float))
    for i in np.flatnonzero(endless):
        others = [row for row in np.delete(rows, i, axis=0) if row.any()]
        if len(others) == 1:  # both of the rest are open: any direction will do
            others.append(np.eye(3)[np.argmin(np.abs(others[0]))])
        normal = np.cross(*others) if len(others) == 2 else np.zeros(3)
        length = math.sqrt(normal @ normal)
        if not length > 0:
            raise ValueError(f"rdf: {name} is singular: its rows are linearly dependent")
        rows[i] = normal / length
    return rows


def _opened(box: Box, endless: np.ndarray) -> Box:
    """The same with the infinite lengths in it."""
    rows = np.array(box.rows).reshape(3, 3)
    for i in np.flatnonzero(endless):
        rows[i], rows[:, i] = 0.0, 0.0
        rows[i, i] = OPEN
    return Box(tuple(rows.ravel().tolist()), box.axes)


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
        raise ValueError(f"rdf: {name} is singular: no cell has the angles "
                         f"{[float(angle) for angle in angles]}")  # fmt: skip
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

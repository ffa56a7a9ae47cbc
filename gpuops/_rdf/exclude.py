"""exclude - counts without the pairs of equal label.

All counts are integers, so that those of all pairs less those of the excluded ones are exact,
and no kernel has to look at a label. Excluded pairs of small groups (atoms of a molecule) are
counted here, with NumPy, in the operations of docs/numerics.md; those of a large group by the
kernels. Where a label holds a large part of the points its own pairs are not counted in the
first place: the group is counted with the rest, then the rest goes on without it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

SMALL = 1024  # pairs of a group that take NumPy no longer than a call of a kernel
CHUNK = 1 << 16  # pairs looked at together, whose temporaries stay in a cache
KEPT = 1 << 20  # pairs whose indices are kept for the next frame
PART = 8  # a label that holds an eighth of both sets is left out in the first place
WORTH = 1 << 16  # pairs that are worth two calls instead of one

Run = Callable[..., np.ndarray]


class Excluding:
    """The calls and the pairs that make up the counts, from the labels of one or two sets.

    `calls`: (sign, points, other points or None), of indices or None for all points.
    """

    def __init__(self, labels: np.ndarray, labels2: np.ndarray | None = None) -> None:
        self.two = labels2 is not None
        sets = [labels] if labels2 is None else [labels, labels2]
        # NumPy has no common integer of uint64 and int64.
        if len({label.dtype.kind for label in sets if label.size}) > 1:
            sets = [label.astype(object) for label in sets]
        names, numbers = np.unique(np.concatenate(sets), return_inverse=True)
        split = np.split(numbers, [len(labels)])[: len(sets)]
        self._of = [np.asarray(of) for of in split]  # each point's number of label
        self._groups = [_Groups(of, len(names)) for of in self._of]
        first, second = self._groups[0], self._groups[-1]
        self.many = first.size * second.size  # pairs of each label; of one set each twice

        self.calls: list[tuple[int, np.ndarray | None, np.ndarray | None]] = []
        left = self._leave_out()
        inside = self.many if self.two else first.size * (first.size - 1) // 2
        large = left & (inside >= SMALL)
        for g in np.flatnonzero(large):
            self.calls.append((-1, first[g], second[g] if self.two else None))
        self._small = np.flatnonzero(left & ~large & (inside > 0))
        self._kept: list | None = None
        if self.many[self._small].sum() <= KEPT:
            self._kept = list(self._generate())

    def _leave_out(self) -> np.ndarray:
        """Adds the calls that count pairs; returns which labels have excluded ones in them."""
        first, second = self._groups[0], self._groups[-1]
        left = np.ones(len(self.many), bool)
        rest, rest2 = [np.ones(len(of), bool) for of in (self._of[0], self._of[-1])]
        rest2 = rest2 if self.two else rest
        n, n2 = len(rest), len(rest2)
        for g in np.argsort(-self.many, kind="stable"):
            a, b = int(first.size[g]), int(second.size[g])
            if a * b < WORTH:
                break
            if a * PART < n or b * PART < n2:
                continue
            rest[first[g]] = False
            others = rest2
            if self.two:
                others = np.ones(n2, bool)
                others[second[g]] = False
            left[g] = False
            self.calls.append((1, first[g], np.flatnonzero(others)))
            n -= a
            n2 = n2 if self.two else n
        if left.all():
            self.calls.append((1, None, None))
        elif n:
            self.calls.append((1, np.flatnonzero(rest), None))
        return left

    def pairs(self, types: np.ndarray, types2: np.ndarray, shape) -> np.ndarray:
        """How many pairs are excluded, of each pair of types (numbers from 0, each set's)."""
        total = np.zeros(shape)
        step = max(1, (1 << 22) // max(1, *shape))
        names = len(self.many)
        for low in range(0, names, step):
            size = min(step, names - low)
            tables = []
            for of, kind, kinds in zip((self._of[0], self._of[-1]), (types, types2), shape,
                                       strict=True):  # fmt: skip
                here = (of >= low) & (of < low + size)
                flat = (of[here] - low) * kinds + kind[here]
                table = np.bincount(flat, minlength=size * kinds).reshape(size, kinds)
                tables.append(table.astype(np.float64))
            total += tables[0].T @ tables[1]
        if not self.two:  # each pair was found twice, and each point with itself
            own = np.bincount(types, minlength=shape[0])
            np.fill_diagonal(total, (np.diagonal(total) - own) / 2)
        return total

    # ---- a frame ----

    def count(self, run: Run, sets, host, types, ntypes: int, edges, cell) -> np.ndarray:
        """Counts of the pairs of unlike label; `run` counts all pairs of what it is given.

        `sets`: the points of each set, which `host` has as NumPy's arrays; `types`: the number
        of each one's type, or () without.
        """

        def take(k: int, index):
            if index is None:
                return sets[k], types[k] if types else None
            return host[k][index], types[k][index] if types else None

        total = None
        for sign, index, other in self.calls:
            second = len(sets) - 1
            parts = [take(0, index)]
            if other is not None or self.two:
                parts.append(take(second, other))
            counts = run([p for p, _ in parts], [t for _, t in parts if t is not None])
            total = sign * counts if total is None else total + sign * counts
        for i, j in self._kept if self._kept is not None else self._generate():
            (p, s), (q, t) = take(0, i), take(len(sets) - 1, j)
            _subtract(total, p, q, (s, t, ntypes), edges, cell)
        return total

    def _generate(self) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Indices of the pairs of small groups, chunk by chunk."""
        first, second = self._groups[0], self._groups[-1]
        many = self.many[self._small]
        ends = np.cumsum(many)
        low = 0
        while low < len(many):
            done = ends[low - 1] if low else 0
            high = max(low + 1, int(np.searchsorted(ends, done + CHUNK, side="right")))
            groups = self._small[low:high]
            at = np.repeat(groups, many[low:high])
            k = np.arange(len(at)) - np.repeat(ends[low:high] - many[low:high] - done,
                                               many[low:high])  # fmt: skip
            one, other = np.divmod(k, second.size[at])
            if not self.two:
                once = one < other
                at, one, other = at[once], one[once], other[once]
            yield (first.order[first.start[at] + one], second.order[second.start[at] + other])
            low = high


class _Groups:
    """The points of each label."""

    def __init__(self, numbers: np.ndarray, labels: int) -> None:
        self.order = np.argsort(numbers, kind="stable")
        self.size = np.bincount(numbers, minlength=labels)
        self.start = np.cumsum(self.size) - self.size

    def __getitem__(self, g) -> np.ndarray:
        return self.order[self.start[g] : self.start[g] + self.size[g]]


def _subtract(counts, p, q, types, edges, cell) -> None:
    """Takes the pairs (p[i], q[i]) off the counts: docs/numerics.md, each operation rounded."""
    with np.errstate(all="ignore"):
        dx, dy, dz = (p[:, k] - q[:, k] for k in range(3))
        if cell is not None:
            ax, _, _, bx, by, _, cx, cy, cz = np.array(cell.rows).astype(p.dtype)
            n = np.rint(dz / cz)
            dx, dy, dz = dx - n * cx, dy - n * cy, dz - n * cz
            n = np.rint(dy / by)
            dx, dy = dx - n * bx, dy - n * by
            dx = dx - np.rint(dx / ax) * ax
        r = np.sqrt((dx * dx + dy * dy) + dz * dz).astype(np.float64)
    at = np.searchsorted(edges, r, side="right") - 1  # NaN comes last
    inside = (at >= 0) & (at < len(edges) - 1)
    row = np.zeros(len(at), np.int64)
    one, other, number = types
    if number:
        low = np.minimum(one, other).astype(np.int64)
        row = low * number - low * (low - 1) // 2 + np.maximum(one, other) - low
    np.subtract.at(counts, (row[inside], at[inside]), 1)

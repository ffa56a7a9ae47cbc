"""rdf_result - what `rdf` returns: numbers, text, HTML and a plot."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from .._call.meaning import read
from .._call.road import rounded
from .._rdf.sums import Sums
from ..errors import brief
from .text import writable

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# What the values of each norm are.
_LABELS = {"rdf": "g(r)", "density": "density of neighbours", "none": "pairs"}
_CURVES = 6  # of a small plot in a notebook
_SIGMAS = 4.0  # by which a peak stands out of the noise of counting


class FirstShell(NamedTuple):
    """The first shell of neighbours, from `RdfResult.first_shell`.

    Attributes
    ----------
    r : float
        The centre of the bin of the first peak, in the unit of the points.
    g : float
        Its height, after `norm`.
    end : float
        Where the shell ends: the centre of the bin of the first minimum.
    coordination : float
        The mean number of neighbours up to `end`.

    Examples
    --------
    >>> import numpy as np, gpuops
    >>> n = 8
    >>> lattice = np.stack(np.meshgrid(*[np.arange(n)] * 3), axis=-1).reshape(-1, 3)
    >>> found = gpuops.rdf(lattice, r_max=1.9, bins=19, box=(n, n, n))
    >>> found.first_shell().coordination
    6.0
    """

    r: float
    g: float
    end: float
    coordination: float

    def __repr__(self) -> str:
        said = ", ".join(f"{name}={value:.6g}" for name, value in self._asdict().items())
        return f"FirstShell({said})"


@dataclass(frozen=True, eq=False, repr=False)
class RdfResult:
    """What `rdf` returns: NumPy arrays, whatever the points were.

    Results with the same edges, norm and types add up: ``a + b``, or ``sum(results)``, is what
    one call would have given for all their frames.

    Attributes
    ----------
    r : (bins,) float64
        Centres of the bins, in the unit of the points.
    g : (bins,) float64, or (types, types, bins)
        The counts after `norm`, which is "density" by default if there is no box.
    counts : int64, of the shape of g
        The pairs in each bin, added over the frames; every pair counts once.
    edges : (bins + 1,) float64
        The edges of the bins; no bin holds the last one.
    norm : str
        "rdf", "density" or "none".
    frames : int
        How many were counted.
    types : None, an array, or two arrays
        The labels that the leading axes of `g` and `counts` stand for; two arrays if each of
        two sets of points has labels of its own.
    kernel : str
        The kernel that counted the pairs of the first frame.
    error : float64, of the shape of g
        The standard error of `g`; NaN with one frame.

    Examples
    --------
    >>> import numpy as np, gpuops
    >>> points = np.array([[0.0, 0, 0], [1, 0, 0], [0, 1, 0]])
    >>> found = gpuops.rdf(points, r_max=2.0, bins=4, types=["A", "B", "B"])
    >>> found.types.tolist(), found.counts[0, 1].tolist()
    (['A', 'B'], [0, 0, 2, 0])
    """

    r: np.ndarray
    g: np.ndarray
    counts: np.ndarray
    edges: np.ndarray
    norm: str
    frames: int
    types: Any = None
    _sums: Sums | None = field(default=None, repr=False)
    kernel: str = ""

    @classmethod
    def _of(cls, sums: Sums, edges: np.ndarray, norm: str, types: Any) -> RdfResult:
        with np.errstate(all="ignore"):  # edges beyond 1e102
            shell = 4 / 3 * math.pi * np.diff(edges**3)
            g = np.divide(sums.curve.mean(), shell)
        if norm == "none":
            g = sums.counts.astype(np.float64)
        # Nothing can be counted where there are no pairs, no frames, or no shell.
        g = np.where(np.isfinite(g), g, 0.0)
        flat = (lambda a: a[0, 0]) if types is None else (lambda a: a)
        middle = (edges[1:] + edges[:-1]) / 2
        return cls(
            middle, flat(g), flat(sums.counts), edges, norm, sums.curve.frames, types, sums
        )

    # ---- numbers ----

    @property
    @rounded
    def error(self) -> np.ndarray:
        """The standard error of `g`, of the shape of `g`; NaN with fewer than two blocks.

        The frames are taken in blocks, in their order. Up to 31 frames each frame is a block;
        more frames make 16 to 31 blocks of 2, 4, 8 ... frames each. Frames that follow each
        other are often alike. This does not make the error too small as long as blocks are
        longer than the time over which frames stay alike. The error is the standard deviation
        of the blocks' g over the root of their number. It does not show an error that all
        frames have in common. Frames beyond the last whole block do not count.
        """
        sums = self._made_by()
        error = sums.blocks.error()
        if error is None:
            return np.full(self.g.shape, np.nan)
        if self.norm == "none":
            error = error * self.frames
        else:
            with np.errstate(all="ignore"):
                error = error / (4 / 3 * math.pi * np.diff(self.edges**3))
        return error[0, 0] if self.types is None else error

    @rounded
    def coordination(self, r: Any = None) -> np.ndarray:
        """n(r): the mean number of neighbours between edges[0] and r.

        With h the counts up to r of a frame and N its points of the first set or type,
        ``n = 2*h/N`` within one set and one type, else ``h/N``, averaged over the frames in
        which there are such points. It does not depend on `norm`.

        Parameters
        ----------
        r : float or array_like of one axis, optional
            In the unit of the points, between the edges; inside a bin n grows evenly. By
            default the upper ends of the bins, ``edges[1:]``.

        Returns
        -------
        float64 (bins,), (types, types, bins)
            Or without the last axis for one number r: `n[s, t]` counts the points of type t
            around one of type s.

        Raises
        ------
        ValueError
            An r outside the edges.
        TypeError
            An r that is no number, or a masked array.

        Examples
        --------
        >>> import numpy as np, gpuops
        >>> n = 6
        >>> lattice = np.stack(np.meshgrid(*[np.arange(n)] * 3), axis=-1).reshape(-1, 3)
        >>> found = gpuops.rdf(lattice, r_max=2.5, bins=50, box=(n, n, n))
        >>> found.coordination([1.2, 1.5, 1.9]).tolist()
        [6.0, 18.0, 26.0]
        """
        near = self._made_by().near.mean()
        n = np.cumsum(np.where(np.isnan(near), 0.0, near), axis=-1)
        if r is not None:
            at = read("coordination", "r", r)
            if at.dtype.kind not in "biuf":
                raise TypeError(f"coordination: r must be numbers, not {brief(r)}")
            at = at.astype(np.float64)
            if not ((at >= self.edges[0]) & (at <= self.edges[-1])).all():
                raise ValueError(
                    f"coordination: r must be between {self.edges[0]:g} and "
                    f"{self.edges[-1]:g}, the edges, not {brief(r)}"
                )
            k = np.clip(np.searchsorted(self.edges, at, side="right") - 1, 0, len(self.r) - 1)
            n = np.concatenate((np.zeros((*n.shape[:2], 1)), n), axis=-1)
            part = (at - self.edges[k]) / np.diff(self.edges)[k]
            n = n[..., k] + part * (n[..., k + 1] - n[..., k])
        return n[0, 0] if self.types is None else n

    @rounded
    def first_shell(self, first: Any = None, second: Any = None) -> FirstShell:
        """The first peak, the minimum after it, and the neighbours up to there.

        The peak is the first maximum of the density of neighbours that noise does not explain:
        it lies above a later bin by at least four standard deviations of the counts. The same
        holds for the minimum. With narrow bins and few frames noise may move both of them.

        Parameters
        ----------
        first, second : labels, optional
            The types of the two points: needed where the result has types.

        Returns
        -------
        FirstShell
            ``(r, g, end, coordination)``.

        Raises
        ------
        ValueError
            No peak and minimum stand out between the edges; unknown labels.
        """
        i, k = self._pair(first, second)
        sums = self._made_by()
        counts = sums.counts[i, k].astype(np.float64)
        shell = np.diff(self.edges**3)
        density, noise = counts / shell, np.sqrt(np.maximum(counts, 1.0)) / shell
        peak = _first_extreme(density, noise, 0)
        end = None if peak is None else _first_extreme(-density, noise, peak)
        if end is None:
            raise ValueError(
                f"first_shell: no peak and minimum stand out of the noise between "
                f"{self.edges[0]:g} and {self.edges[-1]:g}"
            )
        g = self.g if self.types is None else self.g[i, k]
        n = self.coordination(self.r[end])
        n = n if self.types is None else n[i, k]
        return FirstShell(*(float(v) for v in (self.r[peak], g[peak], self.r[end], n)))

    @rounded
    def __add__(self, other: RdfResult) -> RdfResult:
        if not isinstance(other, RdfResult):
            return NotImplemented
        if not np.array_equal(self.edges, other.edges):
            raise ValueError("rdf: results add up if they have the same edges")
        if self.norm != other.norm:
            raise ValueError(
                f"rdf: results add up if they have one norm, not {self.norm!r} and "
                f"{other.norm!r}"
            )
        if not _are_equal(self.types, other.types):
            raise ValueError(
                f"rdf: results add up if they have the same types, not {brief(self.types)} and "
                f"{brief(other.types)}"
            )
        sums = self._made_by() + other._made_by()
        return RdfResult._of(sums, self.edges, self.norm, self.types)

    def __radd__(self, other: Any) -> RdfResult:
        return self if type(other) is int and other == 0 else NotImplemented  # of sum()

    def _made_by(self) -> Sums:
        if self._sums is None:
            raise ValueError("rdf: this result was not made by rdf, and has no frames to add")
        return self._sums

    def _pair(self, first: Any, second: Any) -> tuple[int, int]:
        if self.types is None:
            if first is not None or second is not None:
                raise ValueError("first_shell: this result has no types")
            return 0, 0
        each = self.types if isinstance(self.types, tuple) else (self.types, self.types)
        found = []
        for names, label in zip(each, (first, second), strict=True):
            at = np.flatnonzero(np.asarray(names == label))
            if len(at) != 1:
                named = "" if label is None else f", {label!r} is none of them"
                pair = ", ".join(repr(n[0]) for n in map(np.ndarray.tolist, each) if n)
                raise ValueError(
                    f"first_shell: this result has types, {brief(names.tolist())}{named}: name "
                    f"two, as first_shell({pair})"
                )
            found.append(int(at[0]))
        return found[0], found[1]

    # ---- looks ----

    def _curves(self) -> list[tuple[str, np.ndarray, np.ndarray]]:
        """(name, values, errors) of each pair of types, of what is symmetric once."""
        error = self.error if self._sums else np.full(self.g.shape, np.nan)
        if self.types is None:
            return [(_LABELS[self.norm], self.g, error)]
        is_pair = isinstance(self.types, tuple)
        first, second = self.types if is_pair else (self.types, self.types)
        is_once = not is_pair and self.norm != "density"
        return [
            (f"{s}-{t}", self.g[i, k], error[i, k])
            for i, s in enumerate(first)
            for k, t in enumerate(second)
            if not (is_once and k < i)
        ]

    def _facts(self) -> list[tuple[str, str]]:
        pairs = self.counts.sum(dtype=object)
        if isinstance(self.types, np.ndarray):  # symmetric: the pairs off the diagonal twice
            pairs = (pairs + np.trace(self.counts).sum(dtype=object)) // 2
        width = f"{len(self.r)} bins from {self.edges[0]:g} to {self.edges[-1]:g}"
        facts = [
            ("norm", f"{self.norm!r}: {_LABELS[self.norm]}"),
            ("r", width),
            ("pairs", f"{pairs} in {self.frames} frame{'' if self.frames == 1 else 's'}"),
        ]
        for name, g, error in self._curves()[:_CURVES]:
            if g.size and np.isfinite(g).any():
                at = int(np.nanargmax(g))
                give = "" if np.isnan(error[at]) else f" {writable('±', '+-')} {error[at]:.2g}"
                facts.append((name, f"at most {g[at]:.4g}{give}, at r = {self.r[at]:.4g}"))
        return facts

    def __repr__(self) -> str:
        from . import text as _text

        return _text.facts("RdfResult", self._facts())

    def _repr_html_(self) -> str:
        from . import svg as _svg
        from . import text as _text

        curves = [(name, g) for name, g, _ in self._curves()[:_CURVES]]
        drawn = _svg.curves(self.r, curves, "r", _LABELS[self.norm])
        return _text.facts_html("RdfResult", self._facts()) + drawn

    def plot(self, ax: Axes | None = None) -> Axes:
        """g over r, a curve for each pair of types, in a band of its standard error.

        Needs matplotlib (``pip install matplotlib``). Returns the axes.
        """
        from .draw import axes

        ax = axes(ax, 8)
        for name, g, error in self._curves():
            (line,) = ax.plot(self.r, g, label=name)
            if np.isfinite(error).any():
                ax.fill_between(
                    self.r,
                    g - error,
                    g + error,
                    color=line.get_color(),
                    alpha=0.25,
                    linewidth=0,
                )
        ax.set(xlabel="r", ylabel=_LABELS[self.norm])
        ax.set(xlim=(self.edges[0], self.edges[-1]))
        if self.norm == "rdf":
            ax.axhline(1.0, color="0.6", linewidth=0.8, zorder=0)
        if self.types is not None:
            ax.legend(frameon=False)
        return ax


def _first_extreme(value: np.ndarray, noise: np.ndarray, start: int) -> int | None:
    """The first maximum from `start` on that a later value is clearly below."""
    best = start
    for k in range(start, len(value)):
        if value[k] > value[best]:
            best = k
        elif value[best] - value[k] > _SIGMAS * math.hypot(noise[best], noise[k]):
            return best
    return None


def _are_equal(types: Any, others: Any) -> bool:
    if types is None or others is None or isinstance(types, tuple) != isinstance(others, tuple):
        return types is others
    each = zip(types, others, strict=True) if isinstance(types, tuple) else [(types, others)]
    return all(np.array_equal(a, b) for a, b in each)

"""rdf_result - what `rdf` returns, as text, HTML and a plot."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# What the values of each norm are.
_LABELS = {"rdf": "g(r)", "density": "density of neighbours", "none": "pairs"}
_CURVES = 6  # of a small plot in a notebook


@dataclass(frozen=True, eq=False, repr=False)
class RdfResult:
    """What `rdf` returns: NumPy arrays, whatever the points were.

    Attributes
    ----------
    r : (bins,) float64
        Centres of the bins, in the unit of the points.
    g : (bins,) float64, or (types, types, bins)
        The counts after `norm`.
    counts : int64, of the shape of g
        Pairs per bin, added over the frames; every pair once.
    edges : (bins + 1,) float64
    norm : str
        "rdf", "density" or "none".
    frames : int
    types : None, an array, or two arrays
        The labels that the leading axes of `g` and `counts` stand for.
    """

    r: np.ndarray
    g: np.ndarray
    counts: np.ndarray
    edges: np.ndarray
    norm: str
    frames: int
    types: Any = None

    def _curves(self) -> list[tuple[str, np.ndarray]]:
        """(name, values) of each pair of types, of what is symmetric once."""
        if self.types is None:
            return [(_LABELS[self.norm], self.g)]
        is_pair = isinstance(self.types, tuple)
        first, second = self.types if is_pair else (self.types, self.types)
        is_once = not is_pair and self.norm != "density"
        return [
            (f"{s}-{t}", self.g[i, k])
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
        for name, g in self._curves()[:_CURVES]:
            if g.size and np.isfinite(g).any():
                at = int(np.nanargmax(g))
                facts.append((name, f"at most {g[at]:.4g}, at r = {self.r[at]:.4g}"))
        return facts

    def __repr__(self) -> str:
        from . import text as _text

        return _text.facts("RdfResult", self._facts())

    def _repr_html_(self) -> str:
        from . import svg as _svg
        from . import text as _text

        drawn = _svg.curves(self.r, self._curves()[:_CURVES], "r", _LABELS[self.norm])
        return _text.facts_html("RdfResult", self._facts()) + drawn

    def plot(self, ax: Axes | None = None) -> Axes:
        """g over r, a curve for each pair of types.

        Needs matplotlib (``pip install matplotlib``). Returns the axes.
        """
        from .tables import axes

        ax = axes(ax, 8)
        for name, g in self._curves():
            ax.plot(self.r, g, label=name)
        ax.set(xlabel="r", ylabel=_LABELS[self.norm])
        ax.set(xlim=(self.edges[0], self.edges[-1]))
        if self.norm == "rdf":
            ax.axhline(1.0, color="0.6", linewidth=0.8, zorder=0)
        if self.types is not None:
            ax.legend(frameon=False)
        return ax

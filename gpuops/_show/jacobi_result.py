"""jacobi_result - what `jacobi` returns: as text, HTML and a plot, and why it ended so."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_WORDS = {
    "converged": "the residual is within the tolerance",
    "maxiter": "maxiter steps were made before the residual was within the tolerance",
    "diverged": "the residual grew beyond dtol, or is not finite any more",
    "callback": "the callback raised StopIteration",
}
_CURVES = 6  # of a small plot in a notebook


@dataclass(repr=False, eq=False)
class JacobiResult:
    """What `jacobi` found; unpacks as ``x, info``.

    Attributes
    ----------
    x : array
        The last iterate. Each of several columns is that of the step at which it ended.
    iterations : int
        Steps from x0 to x.
    residuals : numpy.ndarray
        ``norm(f - A x)`` at x0, after every `check_every` steps and at the end. For k columns
        the shape is (checks, k); a column that has ended repeats its last value.
    converged : bool, or a (k,) array of them
        Whether the last residual is within the tolerance.
    reason : str
        "converged" if all columns did; else "callback", "diverged" (the residual of a column
        grew beyond dtol, or is not finite) or "maxiter".
    target : float, or (k,)
        The tolerance: what the residual had to reach.
    ended : int, or (k,)
        The step after which the column converged or diverged; -1 if it did neither.
    check_every : int
        Steps from one row of `residuals` to the next.
    stagnant : bool, or (k,)
        Whether only rounding is left: the residual no longer falls, and a step changes x by no
        more than rounding does. Then more steps do not help, but a wider dtype does.
    kernel : str
        The kernel that made the steps; "" if there were no steps to make.

    Examples
    --------
    >>> import numpy as np, gpuops
    >>> found = gpuops.jacobi(np.diag([2.0, 4.0]), [2.0, 4.0])
    >>> found.x, found.iterations, found.reason
    (array([1., 1.]), 1, 'converged')
    """

    x: Any
    iterations: int
    residuals: np.ndarray
    converged: Any
    reason: str
    target: Any
    ended: Any
    check_every: int = 1
    stagnant: Any = False
    kernel: str = ""

    def __iter__(self) -> Iterator[Any]:
        return iter((self.x, self.info))

    @property
    def info(self) -> int:
        """As SciPy's: 0 converged, -1 diverged; else the number of steps that were made."""
        if self.reason in ("converged", "diverged"):
            return -1 if self.reason == "diverged" else 0
        return max(self.iterations, 1)

    @property
    def steps(self) -> np.ndarray:
        """The step of each row of `residuals`."""
        made = np.arange(len(self.residuals)) * self.check_every
        return np.minimum(made, self.iterations)

    @property
    def spectral_radius(self) -> Any:
        """An estimate of the iteration matrix's spectral radius: the factor by which a step
        multiplied the residual, over the last quarter of the steps; nan if there are too few
        steps. It rises until only the slowest error is left, and is near 1 if the iteration is
        `stagnant`.
        """
        return self._each(self._estimates()[0])

    @property
    def needed(self) -> Any:
        """An estimate of the steps that are needed in all, if each further one multiplies the
        residual by `spectral_radius`; inf if that never reaches the tolerance.
        """
        return self._each(self._estimates()[1])

    def _each(self, values: list[float]) -> Any:
        return values[0] if self.residuals.ndim == 1 else np.array(values)

    def _estimates(self) -> tuple[list[float], list[float]]:
        rho, needed = [], []
        for c, (r, target, ended) in enumerate(self._columns()):
            steps = self.steps if ended < 0 else self.steps[self.steps <= ended]
            last = len(steps) - 1
            first = last - max(1, last // 4)
            rate = (
                _rate(r[first], r[last], int(steps[last] - steps[first])) if last else math.nan
            )
            rho.append(rate)
            needed.append(
                math.inf
                if np.ravel(self.stagnant)[c]
                else _needed(int(steps[last]), float(r[last]), target, rate)
            )
        return rho, needed

    def _columns(self) -> list[tuple[np.ndarray, float, int]]:
        k = 1 if self.residuals.ndim == 1 else self.residuals.shape[1]
        table = self.residuals.reshape(len(self.residuals), k)
        targets, ended = np.ravel(self.target), np.ravel(self.ended)
        return [(table[:, c], float(targets[c]), int(ended[c])) for c in range(k)]

    def _why(self) -> tuple[str, str]:
        """Of the column that is worst off."""
        rho, needed = self._estimates()
        known = [i for i, rate in enumerate(rho) if not math.isnan(rate)]
        if not known:
            return "spectral radius", "too few steps to tell"
        worst = max(known, key=lambda i: (needed[i], rho[i]))
        if np.ravel(self.stagnant)[worst]:
            last = float(np.ravel(self.residuals[-1])[worst])
            cure = "float64 or " if self.x.dtype in (np.float32, np.complex64) else ""
            return "stagnation", (
                f"the residual stopped falling at {_short(last, 2)}: the rounding of "
                f"{self.x.dtype}; use {cure}a larger rtol"
            )
        said = f"about {rho[worst]:.6g}: a step multiplies the residual by this"
        target = f"{np.ravel(self.target)[worst]:.3g}"
        if math.isinf(needed[worst]):
            return "spectral radius", f"{said}; no number of steps brings it to {target}"
        return "spectral radius", (
            f"{said}; then about {_short(needed[worst], 1)} steps in all reach {target}, "
            "and more if the radius still rises"
        )

    def _rows(self) -> list[tuple[str, str]]:
        first, last = (np.max(self.residuals[i], initial=0.0) for i in (0, -1))
        word = _WORDS.get(self.reason, self.reason)
        converged = str(self.converged)
        if self.residuals.ndim == 2:
            converged = (
                f"{np.count_nonzero(self.converged)} of {np.size(self.converged)} columns"
            )
        rows = [
            ("converged", f"{converged} ({word})"),
            ("iterations", f"{self.iterations}"),
            ("residual", f"{last:.6g}, at the start {first:.6g}"),
        ]
        if self.reason != "converged":
            rows.append(self._why())
        shape = f"{type(self.x).__name__} of shape {tuple(self.x.shape)}, {self.x.dtype}"
        return [*rows, ("x", shape)]

    def __repr__(self) -> str:
        from . import text as _text

        return _text.facts("JacobiResult", self._rows())

    def _repr_html_(self) -> str:
        from . import svg as _svg
        from . import text as _text

        table = self.residuals.reshape(len(self.residuals), -1)
        named = [("residual", r) for r in table.T[:_CURVES]]
        drawn = _svg.curves(self.steps, named, "step", "residual, log scale", is_log=True)
        return _text.facts_html("JacobiResult", self._rows()) + drawn

    def plot(self, ax: Axes | None = None, spectral_radius: float | None = None) -> Axes:
        """Draws the residual over the steps, a curve for each column, and its predicted slope.

        On a logarithmic scale the slope is the logarithm of the spectral radius of the
        iteration matrix: `spectral_radius` if it is given, else the estimate. Needs matplotlib
        (``pip install matplotlib``). Returns the axes.
        """
        from .draw import axes

        ax = axes(ax, 8)
        worst = np.nanmax(self._estimates()[0]) if spectral_radius is None else spectral_radius
        for c, (r, _, _) in enumerate(self._columns()):
            ax.plot(self.steps, r, label=None if self.residuals.ndim == 1 else f"column {c}")
        last = float(np.max(self.residuals[-1], initial=0.0))
        if math.isfinite(worst) and math.isfinite(last) and worst > 0.0:
            line = last * worst ** (self.steps - self.iterations).astype(float)
            ax.plot(
                self.steps, line, "--", color="0.6", label=f"slope log({worst:.6g})", zorder=0
            )
        for target in np.unique(self.target):
            ax.axhline(target, color="0.8", linewidth=0.8, zorder=0)
        ax.set(xlabel="step", ylabel="norm(f - A x)", yscale="log")
        ax.legend(frameon=False)
        return ax


def _short(value: float, digits: int) -> str:
    """So many digits, as 9e4 or 1.9e-4; whole numbers below 1000 with two."""
    if digits == 1 and value < 1000:
        return f"{float(f'{value:.2g}'):.0f}"
    mantissa, power = f"{value:.{digits - 1}e}".split("e")
    return f"{mantissa}e{int(power)}"


def _rate(before: float, after: float, steps: int) -> float:
    """The factor of one step."""
    if not (math.isfinite(before) and math.isfinite(after) and before > 0 and after > 0):
        return math.nan
    return math.exp((math.log(after) - math.log(before)) / steps)


def _needed(steps: int, residual: float, target: float, rate: float) -> float:
    if residual <= target:
        return float(steps)
    if target <= 0.0 or not rate < 1.0:
        return math.nan if math.isnan(rate) else math.inf
    return steps + math.ceil((math.log(target) - math.log(residual)) / math.log(rate))

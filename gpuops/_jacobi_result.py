"""_jacobi_result - what `jacobi` returns, as text and as HTML."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np


@dataclass(repr=False, eq=False)
class JacobiResult:
    """What `jacobi` found.

    Attributes
    ----------
    x : array
        The last iterate.
    iterations : int
        Steps from x0 to x.
    residuals : numpy.ndarray
        ``norm(f - A x)`` at x0 and after each step: ``iterations + 1`` values.
    converged : bool
        Whether the last residual is within the tolerance.
    reason : str
        Why it stopped: "converged", "maxiter", "diverged" (a norm is not finite) or "callback".
    """

    x: Any
    iterations: int
    residuals: np.ndarray
    converged: bool
    reason: str

    def _rows(self) -> list[tuple[str, str]]:
        words = {
            "converged": "the residual is within the tolerance",
            "maxiter": "maxiter steps were made before the residual was within the tolerance",
            "diverged": "a norm is not finite any more",
            "callback": "the callback raised StopIteration",
        }
        return [
            ("converged", f"{self.converged} ({words.get(self.reason, self.reason)})"),
            ("iterations", f"{self.iterations}"),
            ("residual", f"{self.residuals[-1]:.6g}, at the start {self.residuals[0]:.6g}"),
            ("x", f"{type(self.x).__name__} of shape {tuple(self.x.shape)}, {self.x.dtype}"),
        ]

    def __repr__(self) -> str:
        return "\n".join(["JacobiResult", *(f"  {k:<11}{v}" for k, v in self._rows())])

    def _repr_html_(self) -> str:
        cells = "".join(f"<tr><th>{k}</th><td>{v}</td></tr>" for k, v in self._rows())
        return f"<table><caption>JacobiResult</caption>{cells}</table>{self._curve()}"

    def _curve(self, width: int = 320, height: int = 120) -> str:
        """The residuals as an SVG line, logarithmic downwards."""
        with np.errstate(divide="ignore"):
            logs = np.log10(self.residuals)
        at = np.flatnonzero(np.isfinite(logs))
        if len(at) < 2:
            return ""
        low, high = logs[at].min(), logs[at].max()
        at = at[:: max(1, len(at) // width)]
        across = at / max(at[-1], 1) * width
        down = (high - logs[at]) / max(high - low, 1e-300) * height
        points = " ".join(f"{i:.1f},{j:.1f}" for i, j in zip(across, down, strict=True))
        return (
            f'<svg width="{width + 8}" height="{height + 8}" viewBox="-4 -4 {width + 8} '
            f'{height + 8}"><title>residual, 1e{high:.1f} to 1e{low:.1f}</title><polyline '
            f'points="{points}" fill="none" stroke="currentColor"/></svg>'
        )

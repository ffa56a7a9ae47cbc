"""jacobi_result - what `jacobi` returns, as text and as HTML."""

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
        from . import text as _text

        return _text.facts("JacobiResult", self._rows())

    def _repr_html_(self) -> str:
        from . import svg as _svg
        from . import text as _text

        steps = np.arange(len(self.residuals))
        named = [("residual", self.residuals)]
        drawn = _svg.curves(steps, named, "step", "residual, log scale", is_log=True)
        return _text.facts_html("JacobiResult", self._rows()) + drawn

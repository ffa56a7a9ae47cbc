"""roofline - roofline: what memory and arithmetic of a device allow, and kernels below."""

from __future__ import annotations

import math
import numbers
from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from ..errors import brief
from .draw import panel

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["roofline"]

_COLOURS = ("#d55e00", "#e69f00", "#0072b2", "#009e73", "#cc79a7", "#56b4e9")


def roofline(
    gbps: float, gflops: float, kernels: Mapping[str, float], ax: Axes | None = None
) -> Axes:
    """Draws a roofline, and where kernels stand below it.

    Parameters
    ----------
    gbps, gflops : float
        The rate of memory, in 10^9 bytes a second (take that of a copy), and the peak of
        arithmetic, in 10^9 operations a second.
    kernels : mapping
        Name -> operations for each byte that is moved. The legend gives the rate that the
        roofline allows each of them: a bound, not a measurement.
    ax : Axes, optional
        Where to draw.

    Returns
    -------
    Axes
        Needs matplotlib.

    Raises
    ------
    TypeError
        What is no number, or no mapping.
    ValueError
        A rate or a ratio that is not above 0, or is infinite.

    Examples
    --------
    >>> import gpuops
    >>> ax = gpuops.roofline(112.4, 622, {"copy": 0.1, "product": 8})    # doctest: +SKIP
    """
    if not isinstance(kernels, Mapping):
        raise TypeError(f"roofline: kernels is a mapping of names, not {brief(kernels)}")
    for name, x in {"gbps": gbps, "gflops": gflops, **kernels}.items():
        if not isinstance(x, numbers.Real):
            raise TypeError(f"roofline: {name} is a number, not {brief(x)}")
        if not 0 < x < math.inf:
            raise ValueError(
                f"roofline: expected rates and operations a byte above 0, and {name} is {x}"
            )
    ax = panel(ax, 8, 3.8)
    ridge = gflops / gbps
    every = [*kernels.values(), ridge]
    x = np.logspace(np.log10(min(every) / 4), np.log10(max(every) * 4), 200)
    roof = np.minimum(gbps * x, gflops)
    ax.loglog(x, roof, color="black")
    for k, (name, at) in enumerate(kernels.items()):
        most, colour = min(gbps * at, gflops), _COLOURS[k % len(_COLOURS)]
        ax.plot([at, at], [roof[0], most], "--", color=colour)
        ax.plot(at, most, "o", color=colour, label=f"{name}: at most {most:.3g} GFLOP/s")
    ax.set(
        xlabel="operations a byte that is moved", ylabel="GFLOP/s", ylim=(roof[0], gflops * 2)
    )
    if kernels:
        ax.legend(loc="upper left")
    return ax

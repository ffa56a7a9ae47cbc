"""svg - curves with axes, in the colours of the notebook that shows them."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

import numpy as np

_WIDE, _HIGH = 320, 140  # pixels of the field
_LEFT, _TOP, _BELOW = 64, 22, 40  # room for the words beside it
_DASHES = ("", "6 3", "2 2", "8 3 2 3")


def curves(
    x: np.ndarray,
    named: Sequence[tuple[str, np.ndarray]],
    x_label: str,
    y_label: str,
    *,
    is_log: bool = False,
) -> str:
    """Curves over x, of which what is not finite is left out; "" where nothing is left."""
    with np.errstate(divide="ignore", invalid="ignore"):
        shown = [(name, np.log10(y) if is_log else np.asarray(y, float)) for name, y in named]
    kept = [(name, np.flatnonzero(np.isfinite(y)), y) for name, y in shown]
    kept = [(name, at, y) for name, at, y in kept if len(at) > 1]
    if not kept:
        return ""
    low = min(y[at].min() for _, at, y in kept)
    high = max(y[at].max() for _, at, y in kept)
    low = low if is_log else min(low, 0.0)
    x0, x1 = float(x[0]), float(x[-1])
    made = []
    for i, (name, at, y) in enumerate(kept):
        at = at[:: max(1, len(at) // _WIDE)]
        across = _LEFT + (x[at] - x0) / ((x1 - x0) or 1.0) * _WIDE
        down = _TOP + (high - y[at]) / ((high - low) or 1.0) * _HIGH
        points = " ".join(f"{a:.1f},{b:.1f}" for a, b in zip(across, down, strict=True))
        dash = _DASHES[i % len(_DASHES)]
        made.append(
            f'<polyline points="{points}" fill="none" stroke="currentColor" '
            f'stroke-dasharray="{dash}"><title>{escape(name)}</title></polyline>'
        )
    bottom = _TOP + _HIGH
    made.append(
        f'<path d="M{_LEFT} {_TOP}V{bottom}H{_LEFT + _WIDE}" fill="none" stroke="currentColor" '
        'stroke-opacity="0.5"/>'
    )
    for place, value in ((_TOP, high), (bottom, low)):
        said = f"{10**value if is_log else value:.3g}"
        made.append(_text(_LEFT - 4, place + 4, "end", said))
    for place, anchor, value in ((_LEFT, "start", x0), (_LEFT + _WIDE, "end", x1)):
        made.append(_text(place, bottom + 14, anchor, f"{value:.4g}"))
    made.append(_text(_LEFT + _WIDE / 2, bottom + 28, "middle", x_label))
    made.append(_text(_LEFT, _TOP - 10, "start", y_label))
    return (
        f'<svg width="{_LEFT + _WIDE + 8}" height="{bottom + _BELOW}" font-size="11" '
        f'font-family="sans-serif" fill="currentColor">{"".join(made)}</svg>'
    )


def _text(x: float, y: float, anchor: str, words: str) -> str:
    return f'<text x="{x:g}" y="{y:g}" text-anchor="{anchor}">{escape(words)}</text>'

"""picture - a map of a result: right, wrong and never written elements, and the blocks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from .task import Case

RIGHT, WRONG, UNWRITTEN = range(3)
_COLOURS = ("#0072b2", "#d55e00", "#dddddd")
_WORDS = ("right", "wrong", "never written")
_ROW = 64  # elements of a row, where the result has none


@dataclass(frozen=True)
class Picture:
    """`states` of the elements, in rows; `tile` is what a block has of them."""

    title: str
    states: np.ndarray
    tile: tuple[int, int]

    def draw(self, ax: Any = None) -> Any:
        import matplotlib.pyplot as plt
        from matplotlib.colors import ListedColormap
        from matplotlib.patches import Patch

        rows, columns = self.states.shape
        if ax is None:
            tall = min(8.0, max(1.6, 6 * rows / columns))
            _, ax = plt.subplots(figsize=(6, tall + 0.8), layout="tight")
        ax.imshow(
            self.states, ListedColormap(_COLOURS), vmin=0, vmax=2, interpolation="nearest",
            aspect="auto",
        )  # fmt: skip
        for y in range(self.tile[0], rows, self.tile[0]):
            ax.axhline(y - 0.5, color="black", linewidth=1)
        for x in range(self.tile[1], columns, self.tile[1]):
            ax.axvline(x - 0.5, color="black", linewidth=1)
        counts = [int((self.states == k).sum()) for k in range(3)]
        ax.legend(
            handles=[
                Patch(color=c, label=f"{n} {w}")
                for c, n, w in zip(_COLOURS, counts, _WORDS, strict=True) if n
            ],
            loc="lower left", bbox_to_anchor=(0, 1), ncols=3, frameon=False,
        )  # fmt: skip
        ax.set_xlabel(f"{self.title}; lines: borders of blocks")
        return ax


def picture_of(case: Case, title: str, wrong: np.ndarray, unwritten: np.ndarray) -> Picture:
    states = np.where(wrong & unwritten, UNWRITTEN, np.where(wrong, WRONG, RIGHT))
    if states.ndim == 2:
        return Picture(title, states, case.tile if case.tile[0] else states.shape)
    flat = states.ravel()
    filled = np.full(-(-flat.size // _ROW) * _ROW, RIGHT)
    filled[: flat.size] = flat
    columns = min(_ROW, flat.size)
    rows = filled[: -(-flat.size // columns) * columns].reshape(-1, columns)
    return Picture(title, rows, (max(1, case.block[0] // _ROW), columns))

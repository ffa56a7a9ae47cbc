"""draw - one request of a profile as lanes and what serves them, and the steps of a warp.

Pictures by matplotlib: blue is what was asked for, orange what is moved or waited for beside.
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

from .where import short

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from .counts import Access, KernelProfile

ASKED, BESIDE, PALE = "#0072b2", "#e69f00", "#e8e8e8"
_SEEN = 0.14  # a word's width at least, of a lane's: thinner ones would hide behind an edge
_TOGETHER = {4: 32, 8: 16, 16: 8}  # lanes that shared memory serves together, by their bytes


def panel(ax: Axes | None, wide: float, high: float, who: str = "draw") -> Axes:
    """The axes given, or new ones of a size in inches."""
    try:
        import matplotlib.pyplot as plt
    except ImportError as error:
        raise ImportError(f"{who} needs matplotlib: pip install matplotlib") from error
    if ax is None:
        _, ax = plt.subplots(figsize=(wide, high), layout="tight")
    return ax


def axes(ax: Axes | None, rows: int) -> Axes:
    """The axes given, or new ones with room for that many bars."""
    return panel(ax, 7, 0.6 + 0.4 * max(rows, 1), "plot")


def found(kernels: Any, line: int | None, kind: str | None) -> tuple[KernelProfile, Access]:
    """The kernel and the access to draw: of a line, or the one of most excess."""
    fit = [
        (k, a)
        for k in kernels
        for a in k.accesses
        if a.at and line in (None, a.line) and kind in (None, a.kind)
    ]
    if not fit:
        there = sorted({(a.line, a.kind) for k in kernels for a in k.accesses})
        lines = ", ".join(f"{n} ({kind})" for n, kind in there)
        said = f"there are some at {lines}" if lines else "there are none at all"
        raise ValueError(f"draw: no request at line {line}; {said}")
    return max(fit, key=lambda pair: pair[1].counts.excess)


def request(k: KernelProfile, a: Access, ax: Axes | None) -> Axes:
    ax = panel(ax, 10, 2.6)
    (_banks if a.space == "shared" else _transactions)(k, a, ax)
    ax.set_axis_off()
    ax.set_xlim(-3.5, 34)
    ax.set_ylim(-0.75, 1.6)
    return ax


def _boxes(ax: Axes, lanes: tuple[int, ...]) -> None:
    """Lanes above, those that ask in blue."""
    for lane in range(32):
        asks = lane in lanes
        ax.add_patch(_box(lane, 1, 0.9, 0.3, ASKED if asks else PALE))
        ax.text(lane + 0.45, 1.15, f"{lane}", ha="center", va="center", fontsize=7,
                color="white" if asks else "black")  # fmt: skip
    ax.text(-0.4, 1.15, "lane", ha="right", va="center", fontsize=9)


def _box(x: float, y: float, wide: float, high: float, colour: str, line: float = 0.4):
    from matplotlib.patches import Rectangle

    edge = "black" if line else "none"
    return Rectangle((x, y), wide, high, facecolor=colour, edgecolor=edge, linewidth=line)


def _title(ax: Axes, k: KernelProfile, a: Access, took: str) -> None:
    where = f"{short(a.file)}:{a.line}" if a.line else k.name
    rules = "" if k.device == "sim" else f", by the rules of {k.device}"
    ax.set_title(f"{where}, {a.space} {a.kind} of {a.width} bytes a lane: {took}{rules}",
                 fontsize="medium", loc="left")  # fmt: skip


def _transactions(k: KernelProfile, a: Access, ax: Axes) -> None:
    """Each transaction a box as long as its bytes, in order of address."""
    order = sorted(range(len(a.pieces)), key=lambda i: a.pieces[i])
    pieces = [a.pieces[i] for i in order]
    gaps = sum(at != before + size for (before, size), (at, _) in _pairs(pieces))
    gap = 0.4 if gaps <= 12 else 0.2
    room = 31.9 - gap * gaps
    scale = room / sum(size for _, size in pieces)
    _boxes(ax, a.lane)
    start, x, places = pieces[0][0] // 128 * 128, 0.0, []
    for i, (at, size) in enumerate(pieces):
        if i and at != sum(pieces[i - 1]):
            x += gap
        places.append((at, size, x))
        ax.add_patch(_box(x, 0, size * scale, 0.3, BESIDE))
        x += size * scale
    for lane, at, i in zip(a.lane, a.at, _serving(k, a), strict=True):
        p, _, left = places[order.index(i)]
        here, wide = left + (at - p) * scale, max(a.width * scale, _SEEN)
        here = min(here, left + a.pieces[i][1] * scale - wide)
        ax.add_patch(_box(here, 0, wide, 0.3, ASKED, line=0))
        ends = [lane + 0.45, here + wide / 2]
        ax.plot(ends, [1, 0.32], color="black", linewidth=0.5, alpha=0.7)
    for _, size, x in places:
        ax.add_patch(_box(x, 0, size * scale, 0.3, "none", line=0.6))
    told = 0 if len(places) <= 12 else len(places) // 8
    for i, (at, size, x) in enumerate(places):
        if not told or i % told == 0:
            ax.text(x + size * scale / 2, -0.08, f"+{at - start}", ha="center", va="top",
                    fontsize=7)  # fmt: skip
    ax.text(-0.4, 0.15, "memory", ha="right", va="center", fontsize=9)
    moved = sum(size for _, size in pieces)
    asked = len({at + i for at in a.at for i in range(a.width)})
    part = "sector" if k.device == "sim" else "transaction"
    said = f"blue: the {asked} bytes that were asked for; orange: moved beside them."
    ax.text(0, -0.62, f"{said} Numbers: bytes behind the first, gaps are not to scale.",
            fontsize=9)  # fmt: skip
    _title(ax, k, a, f"{len(pieces)} {part}{'s' * (len(pieces) != 1)}, {moved} bytes")


def _serving(k: KernelProfile, a: Access) -> list[int]:
    """For each lane the piece that serves it: half warps have their own on 1.x, and lanes that
    are not in order on 1.0 one each."""
    found: list[int] = []
    first, half = 0, 0
    for lane, at in zip(a.lane, a.at, strict=True):
        if k.device in ("sim:cc10", "sim:cc13") and lane // 16 != half and found:
            first, half = max(found) + 1, lane // 16
        holds = [i for i, (p, n) in enumerate(a.pieces) if i >= first and p <= at < p + n]
        if k.device == "sim:cc10":
            holds = [i for i in holds if a.pieces[i][1] > 32 or i not in found] or holds
        found.append(holds[0] if holds else 0)
    return found


def _pairs(items):
    return itertools.pairwise(items)


def _banks(k: KernelProfile, a: Access, ax: Axes) -> None:
    """Lanes that are served together above the banks; orange where a bank is asked twice."""
    old = k.device in ("sim:cc10", "sim:cc13")
    banks = 16 if old else 32
    together = 16 if old else _TOGETHER.get(a.width, 32)
    first = [(lane, at) for lane, at in zip(a.lane, a.at, strict=True) if lane < together]
    words: list[set[int]] = [set() for _ in range(banks)]
    lines = []
    for lane, at in first:
        for word in range(at // 4, (at + a.width + 3) // 4):
            words[word % banks].add(word)
            lines.append((lane, word % banks))
    _boxes(ax, tuple(lane for lane, _ in first))
    for bank in range(banks):
        many = len(words[bank])
        colour = PALE if not many else ASKED if many == 1 else BESIDE
        ax.add_patch(_box(bank, 0, 0.9, 0.3, colour))
        ax.text(bank + 0.45, 0.15, f"{many}" if many else "", ha="center", va="center",
                fontsize=7, color="white" if many == 1 else "black")  # fmt: skip
        ax.text(bank + 0.45, -0.08, f"{bank}", ha="center", va="top", fontsize=6)
    for lane, bank in lines:
        clash = len(words[bank]) > 1
        ax.plot([lane + 0.45, bank + 0.45], [1, 0.32], linewidth=0.7 if clash else 0.5,
                color=BESIDE if clash else "black", alpha=0.9)  # fmt: skip
    ax.text(-0.4, 0.15, "bank", ha="right", va="center", fontsize=9)
    who = "" if together == 32 else f" The {together} lanes that are served together are drawn."
    said = "in a bank: how many words are wanted of it, one a wavefront; orange: more than one."
    ax.text(0, -0.62, said + who, fontsize=9)  # fmt: skip
    _title(ax, k, a, f"{a.parts} wavefront{'s' * (a.parts != 1)} a request")


def steps(k: KernelProfile, warps: list[int], ax: Axes | None) -> Axes:
    """Lanes x steps of warps of the first block: blue where a lane goes along."""
    import numpy as np

    kept = [[s for s in k.steps if s.warp == w] for w in warps]
    longest = max(map(len, kept), default=0)
    if not longest:
        raise ValueError(f"timeline: no steps of {k.name}'s first block were kept")
    shown = np.zeros((33 * len(warps) - 1, longest))
    for i, of_warp in enumerate(kept):
        for s, step in enumerate(of_warp):
            lanes = np.array([step.lanes >> lane & 1 for lane in range(32)])
            shown[33 * i : 33 * i + 32, s] = 1 + lanes
    ax = panel(ax, 10, min(8.0, 1.4 + 1.4 * len(warps)))
    from matplotlib.colors import ListedColormap

    ax.imshow(shown, cmap=ListedColormap(["white", PALE, ASKED]), vmin=0, vmax=2,
              aspect="auto", interpolation="nearest")  # fmt: skip
    ax.set_yticks([33 * i + 15.5 for i in range(len(warps))], [f"warp {w}" for w in warps])
    if len(warps) == 1:
        _line_ticks(ax, kept[0])
    else:
        ax.set_xlabel("steps: basic blocks, in the order in which each warp takes them")
    active = sum(bin(s.lanes).count("1") for of in kept for s in of)
    share = active / (32 * sum(map(len, kept)))
    said = f"{k.name}, first block: a row is a lane, blue where it goes along ({share:.0%})"
    ax.set_title(said, fontsize="medium", loc="left")
    return ax


def _line_ticks(ax: Axes, kept) -> None:
    """Below each step its line of the source, where there is room for it."""
    every = max(1, len(kept) // 48)
    at = [i for i, s in enumerate(kept) if s.line and i % every == 0]
    ax.set_xticks(at, [f"{kept[i].line}" for i in at], fontsize=7, rotation=90)
    ax.set_xlabel("steps: basic blocks, with their lines in the source")

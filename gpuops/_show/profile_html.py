"""profile_html - a Profile in a notebook: source with its counts, banks and sectors in colour.

Plain HTML and SVG that need nothing else: no script, no style sheet, no font.
"""

from __future__ import annotations

from html import escape
from itertools import pairwise
from typing import TYPE_CHECKING

from .counts_text import columns, footer, table, title
from .where import short, text_of

if TYPE_CHECKING:
    from .counts import Access, KernelProfile, Profile

_CELL, _ROW = 14, 16  # pixels
_LABEL = 220  # room for what stands left of a map
_NEAR = 5  # lines of source shown around one that the kernel used
_CELL_STYLE = "text-align:right;padding:0 .5em"
_SOURCE_STYLE = "text-align:left;padding:0 .5em;white-space:pre;font-family:monospace"
_SECTOR_BINS = (
    (0, 0),
    (1, 4),
    (5, 8),
    (9, 12),
    (13, 16),
    (17, 20),
    (21, 24),
    (25, 28),
    (29, 32),
)


def _heat(share: float) -> str:
    """Nothing for 0, red for 1: a tint of whatever paper the notebook has, light or dark."""
    return f"rgba(255,70,50,{0.75 * max(0.0, min(1.0, share)):.2f})"


# ---- annotated source ----


def _lines_of(k: KernelProfile, file: str) -> list[int]:
    """Those that the kernel used and what stands near them."""
    used = [a.line for a in k.accesses if a.file == file]
    used += [b.line for b in k.branches if b.file == file]
    return sorted({n for line in used for n in range(max(1, line - _NEAR), line + _NEAR)})


def _source(k: KernelProfile) -> str:
    """Each file's lines that the kernel used, counts beside them, red by their excess."""
    made = []
    most = max((c.excess for c in k.lines.values()), default=0) or 1
    branches = k.branch_lines
    for file in sorted({a.file for a in k.accesses if a.line}):
        text = text_of(k.library, file)
        rows = []
        shown_lines = _lines_of(k, file)
        for before, n in pairwise([shown_lines[0] - 1, *shown_lines]):
            if n != before + 1:
                rows.append('<tr><td style="text-align:right">...</td></tr>')
            counts = {"global": [], "shared": []}
            heat = 0.0
            for (f, line, space, kind), c in k.lines.items():
                if (f, line) == (file, n):
                    counts[space].append(f"{kind} {c.requests} x {c.per_request:.2f}")
                    heat = max(heat, c.excess / most)
            branch = branches.get((file, n))
            parted = f"{branch.divergent} of {branch.passed}" if branch else ""
            shown = text[n - 1] if n <= len(text) else ""
            cells = ["; ".join(counts["global"]), "; ".join(counts["shared"]), parted]
            rows.append(
                f'<tr style="background:{_heat(heat)}"><td style="{_CELL_STYLE}">{n}</td>'
                + "".join(f'<td style="{_CELL_STYLE}">{escape(c)}</td>' for c in cells)
                + f'<td style="{_SOURCE_STYLE}">{escape(shown)}</td></tr>'
            )
        parts = "sectors" if k.device == "sim" else "transactions"
        heads = ("line", f"global: requests x {parts}", "shared: requests x wavefronts")
        head = "".join(f"<th>{h}</th>" for h in (*heads, "divergent warps"))
        head += f"<th style='text-align:left'>{escape(short(file))}</th>"
        made.append(f"<table><tr>{head}</tr>{''.join(rows)}</table>")
    return "".join(made)


# ---- maps ----


def _label(a: Access) -> str:
    return f"{short(a.file)}:{a.line} {a.kind}" if a.line else f"{a.space} {a.kind}"


def _spread(a: Access, word: str) -> str:
    """How many requests took how many parts: "32 wavefronts: 100 %; ..."."""
    found = sorted(a.each, key=lambda pair: -pair[1])[:3]
    return "; ".join(f"{parts} {word}: {n / a.counts.requests:.0%}" for parts, n in found)


def _map(rows: list[tuple[str, list[tuple[float, str]], str]], heads: list[str]) -> str:
    """An SVG grid: (label, [(share of the row's most, tip)], what stands to the right)."""
    wide = _LABEL + len(heads) * _CELL + 420
    high = _ROW * (len(rows) + 1) + 4
    made = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{wide}" height="{high}" '
        f'font-family="monospace" font-size="10" fill="currentColor">'
    ]
    for c, head in enumerate(heads):
        made.append(f'<text x="{_LABEL + c * _CELL + 1}" y="11">{escape(head)}</text>')
    for r, (label, cells, tail) in enumerate(rows):
        y = _ROW * (r + 1)
        made.append(f'<text x="0" y="{y + 11}">{escape(label)}</text>')
        for c, (share, tip) in enumerate(cells):
            made.append(
                f'<rect x="{_LABEL + c * _CELL}" y="{y}" width="{_CELL - 1}" '
                f'height="{_ROW - 2}" fill="{_heat(share)}" stroke="currentColor" '
                f'stroke-opacity="0.3"><title>{escape(tip)}</title></rect>'
            )
        x = _LABEL + len(heads) * _CELL + 8
        made.append(f'<text x="{x}" y="{y + 11}">{escape(tail)}</text>')
    return "".join(made) + "</svg>"


def _banks(k: KernelProfile) -> str:
    """Shared memory: words by bank, red where turns were lost, and the turns of requests."""
    rows = []
    for a in k.accesses:
        if a.space == "shared":
            heat = (1 - a.counts.efficiency) / (max(a.map) or 1)
            cells = [(n * heat, f"bank {bank}: {n} words") for bank, n in enumerate(a.map)]
            rows.append((_label(a), cells, _spread(a, "wavefronts")))
    if not rows:
        return ""
    heads = [str(b) if b % 4 == 0 else "" for b in range(32)]
    return (
        "<p>banks of shared memory by the words that they delivered, red by what conflicts "
        f"cost</p>{_map(rows, heads)}"
    )


def _sectors(k: KernelProfile) -> str:
    """Global memory: how much of a sector was asked for, and the parts of a request."""
    rows = []
    word = "sectors" if k.device == "sim" else "transactions"
    for a in k.accesses:
        if a.space == "global":
            bins = [sum(a.map[low : high + 1]) for low, high in _SECTOR_BINS]
            whole = sum(bins) or 1
            cells = [
                (n / whole * (1 - low / 32), f"{n} sectors: {high} bytes or fewer asked for")
                for n, (low, high) in zip(bins, _SECTOR_BINS, strict=True)
            ]
            rows.append((_label(a), cells, _spread(a, word)))
    if not rows:
        return ""
    heads = [str(high) for _, high in _SECTOR_BINS]
    said = "sectors by how many of their 32 bytes were asked for, red by the rest"
    return f"<p>{said}</p>{_map(rows, heads)}"


def page(p: Profile) -> str:
    """The whole profile."""
    made = []
    for k in p.kernels:
        made.append(f"<p><b>{escape(k.name)}</b>: {escape(title(k))}</p>")
        text = escape("\n".join(columns(table(k))))
        made.append(f'<pre style="color:inherit;background:none">{text}</pre>')
        made += [_source(k), _banks(k), _sectors(k)]
    made += [f"<p>{line}</p>" for line in footer(p)]
    return f"<div>{''.join(made)}</div>"

"""_tables - Ladder and Sweep: rows of timings as text, HTML and a bar chart."""

from __future__ import annotations

import html
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from .devices import Device
from .profiling import Profile
from .timing import Timing, copy_rate, duration


@dataclass(frozen=True)
class Row:
    """One line of a Ladder or a Sweep: `timing`, or the sentence with which it `refused`.

    On sim a Ladder's rows have a `profile` in place of the timing.
    """

    name: str
    note: str = ""
    role: str = "conforming"
    timing: Timing | None = None
    refused: str | None = None
    speedup: float | None = None
    params: dict[str, int] = field(default_factory=dict)
    lecture: str | None = None
    profile: Profile | None = None


class Table:
    """What Ladder and Sweep share: a title, rows, text, HTML and a bar chart."""

    def __init__(self, op: str, device: Device, rows: Sequence[Row], kernel: str = "") -> None:
        self.op, self.device, self.rows, self.kernel = op, device, tuple(rows), kernel

    def __iter__(self):
        return iter(self.rows)

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, key) -> Row:
        if isinstance(key, str):
            for row in self.rows:
                if row.name == key:
                    return row
            raise KeyError(key)
        return self.rows[key]

    @property
    def best(self) -> Row | None:
        """The fastest row that gives an answer."""
        timed = [(r.timing.kernel, i) for i, r in enumerate(self.rows)
                 if r.timing and r.role != "yardstick"]  # fmt: skip
        return self.rows[min(timed)[1]] if timed else None

    def _arithmetic(self) -> bool:
        return any(r.timing and not r.timing.is_bound_by_memory for r in self.rows)

    def title(self) -> str:
        text = f"{self.op} on {self.device}"
        if self.kernel:
            text += f", kernel {self.kernel!r}"
        peak = copy_rate(self.device)
        return text + (f"; a plain copy reaches {peak:.3g} GB/s here" if peak else "")

    def as_dict(self) -> dict[str, dict[str, Any]]:
        """Plain values by the row's name: what `Row` has, seconds and rates for its timing."""
        return {row.name: {**_labels(row), **self._numbers(row)} for row in self.rows}

    def _numbers(self, row: Row) -> dict[str, Any]:
        t = row.timing
        if t is None:
            return {}
        names = ("kernel", "upload", "download", "total")
        seconds = {name: float(getattr(t, name)) for name in names}
        return {**seconds, "gbps": t.gbps, "gflops": t.gflops, "speedup": row.speedup}

    def _cells(self) -> tuple[list[str], list[list[str]]]:
        """The table's first line, and the others; lectures and notes are added to them."""
        rate = "GFLOP/s" if self._arithmetic() else "GB/s"
        head = ["kernel" if not self.kernel else "params", "time", rate, "of copy", "speed-up"]
        lines = []
        for row in self.rows:
            if row.timing is None:
                lines.append([row.name, "refused", "", "", ""])
                continue
            t = row.timing
            value = t.gflops if rate == "GFLOP/s" else t.gbps
            lines.append([
                row.name,
                duration(t.kernel),
                f"{value:.4g}" if value else "",
                f"{t.share:.0%}" if t.share and rate == "GB/s" else "",
                f"{row.speedup:.3g}x" if row.speedup else "",
            ])  # fmt: skip
        return head, lines

    def _table(self) -> list[list[str]]:
        head, lines = self._cells()
        ends = [["note"], *([row.refused or row.note] for row in self.rows)]
        if any(row.lecture for row in self.rows):
            ends = [["lecture", "note"]]
            ends += [[row.lecture or "", row.refused or row.note] for row in self.rows]
        return [line + end for line, end in zip([head, *lines], ends, strict=True)]

    def __repr__(self) -> str:
        table = self._table()
        numbers = len(self._cells()[0])
        wide = [max(len(line[i]) for line in table) for i in range(len(table[0]))]
        text = [self.title()]
        for line in table:
            cells = [
                cell.rjust(w) if 0 < i < numbers else cell.ljust(w)
                for i, (cell, w) in enumerate(zip(line, wide, strict=True))
            ]
            text.append("  ".join(cells).rstrip())
        return "\n".join(text)

    def _repr_html_(self) -> str:
        head, *lines = self._table()
        tags = [("th", head)] + [("td", line) for line in lines]
        body = "".join(
            "<tr>"
            + "".join(f"<{t} style='text-align:left'>{html.escape(c)}</{t}>" for c in cells)
            + "</tr>"
            for t, cells in tags
        )
        return f"<table><caption>{html.escape(self.title())}</caption>{body}</table>"

    def plot(self, ax=None):
        """A bar for each row that ran: its rate, or its time where the op has no rate.

        Needs matplotlib (``pip install matplotlib``). Returns the axes.
        """
        ax = axes(ax, len(self.rows))
        rows = [r for r in self.rows if r.timing]
        arithmetic = self._arithmetic()
        values = [(r.timing.gflops if arithmetic else r.timing.gbps) or 0.0 for r in rows]
        colors = ["tab:gray" if r.role == "yardstick" else "tab:blue" for r in rows]
        ax.barh([r.name for r in rows], values, color=colors)
        ax.invert_yaxis()
        ax.set_xlabel("10⁹ operations a second" if arithmetic else "10⁹ bytes a second")
        peak = copy_rate(self.device)
        if peak and not arithmetic:
            ax.axvline(peak, color="black", linestyle="--", linewidth=1)
            ax.annotate("copy", (peak, 1), xycoords=("data", "axes fraction"), ha="center",
                        va="bottom")  # fmt: skip
        of = f", kernel {self.kernel!r}" if self.kernel else ""
        ax.set_title(f"{self.op} on {self.device}{of}", pad=16)
        return ax


def axes(ax, rows: int):
    """The axes given, or new ones with room for so many bars."""
    try:
        import matplotlib.pyplot as plt
    except ImportError as error:
        raise ImportError("plot needs matplotlib: pip install matplotlib") from error
    if ax is None:
        _, ax = plt.subplots(figsize=(7, 0.6 + 0.4 * max(rows, 1)), layout="tight")
    return ax


def _labels(row: Row) -> dict[str, Any]:
    names = ("note", "role", "lecture", "refused")
    return {**{name: getattr(row, name) for name in names}, "params": dict(row.params)}

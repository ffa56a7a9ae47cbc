"""tables - Ladder and Sweep: rows of timings as text, HTML and a bar chart."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ..devices import Device
from ..profiling import Profile
from ..timing import Timing, copy_rate, duration
from . import text as _text
from .draw import axes

if TYPE_CHECKING:
    from matplotlib.axes import Axes


@dataclass(frozen=True, repr=False)
class Row:
    """One line of a Ladder or a Sweep: `timing`, or the sentence with which it `refused`.

    On sim a Ladder's rows have a `profile` instead of the timing.
    """

    name: str
    note: str = ""
    role: str = "production"
    timing: Timing | None = None
    refused: str | None = None
    speedup: float | None = None
    params: dict[str, int] = field(default_factory=dict)
    lecture: str | None = None
    profile: Profile | None = None
    error: float | None = None  # of matmul: in units of u times the sum of |a| |b|

    def _said(self) -> str:
        """What stands at the end of its line in a table."""
        tag = f" [{self.lecture}]" if self.lecture else ""
        return (self.refused or self.note) + tag

    def _facts(self) -> list[tuple[str, str]]:
        found = [("note", self.note), ("role", self.role), ("lecture", self.lecture or "")]
        found += [("refused", self.refused or "")]
        found += self.timing.facts() if self.timing else []
        found += [("speed-up", f"{self.speedup:.3g}x" if self.speedup else "")]
        found += [("error", f"{self.error:.2g} u" if self.error is not None else "")]
        for kernel in self.profile.kernels if self.profile else ():
            found += [
                (f"{space} {kind}", f"{c.requests} requests x {c.per_request:.2f}")
                for space, kind, c in kernel.kinds()
            ]
        return [(label, text) for label, text in found if text]

    def __repr__(self) -> str:
        return _text.facts(self.name, self._facts())

    def _repr_html_(self) -> str:
        return _text.facts_html(self.name, self._facts())


class Table:
    """What Ladder and Sweep share: a title, rows, text, HTML and a bar chart.

    `call` says what was called: the operation, shapes, dtypes, the device, threads. `numpy` is
    the row of what NumPy takes for the same, beside a Ladder on the CPU: no kernel of gpuops,
    and none of `rows`.
    """

    numpy: Row | None = None

    def __init__(
        self, op: str, device: Device, rows: Sequence[Row], kernel: str = "", call: str = ""
    ) -> None:
        self.op, self.device, self.rows, self.kernel = op, device, tuple(rows), kernel
        self.call = call or f"{op} on {device}"

    def __iter__(self) -> Iterator[Row]:
        return iter(self.rows)

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, key: int | str) -> Row:
        if isinstance(key, str):
            for row in self.rows:
                if row.name == key:
                    return row
            raise KeyError(key)
        return self.rows[key]

    def _ipython_key_completions_(self) -> list[str]:
        """What `ladder["` and the Tab key offer."""
        return [row.name for row in self.rows]

    @property
    def best(self) -> Row | None:
        """The fastest row that gives an answer."""
        timed = [(r.timing.kernel, i) for i, r in enumerate(self.rows)
                 if r.timing and r.role != "yardstick"]  # fmt: skip
        return self.rows[min(timed)[1]] if timed else None

    def _arithmetic(self) -> bool:
        return any(r.timing and not r.timing.is_bound_by_memory for r in self.rows)

    def title(self) -> str:
        """The first line: what was called, and what a plain copy reaches there."""
        text = self.call + (f", kernel {self.kernel!r}" if self.kernel else "")
        peak = copy_rate(self.device)
        return text + (f"; a plain copy reaches {peak:.3g} GB/s" if peak else "")

    def as_dict(self) -> dict[str, dict[str, Any]]:
        """Plain values by the row's name: what `Row` has, seconds and rates for its timing."""
        return {row.name: {**_labels(row), **self._numbers(row)} for row in self.rows}

    def _numbers(self, row: Row) -> dict[str, Any]:
        t = row.timing
        if t is None:
            return {}
        names = ("kernel", "upload", "download", "total")
        seconds = {name: float(getattr(t, name)) for name in names}
        return {
            **seconds,
            "gbps": t.gbps,
            "gflops": t.gflops,
            "speedup": row.speedup,
            "error": row.error,
        }

    def _lines(self) -> Sequence[Row]:
        """The rows to print, and what stands beside them."""
        return (*self.rows, self.numpy) if self.numpy else self.rows

    def _peak(self) -> float | None:
        """What the fastest yardstick of arithmetic reaches, GFLOP/s."""
        rates = (r.timing.gflops for r in self.rows if r.timing and r.role == "yardstick")
        return max((rate for rate in rates if rate), default=None)

    def _cells(self) -> tuple[list[str], list[list[str]]]:
        """The table's first line, and the others; notes are added to them."""
        rate = "GFLOP/s" if self._arithmetic() else "GB/s"
        head = ["kernel" if not self.kernel else "params", "time", rate,
                "of copy" if rate == "GB/s" else "of peak", "speed-up", "error"]  # fmt: skip
        lines = []
        peak = self._peak()
        for row in self._lines():
            if row.timing is None:
                lines.append([row.name, "refused", "", "", "", ""])
                continue
            t = row.timing
            value = t.gflops if rate == "GFLOP/s" else t.gbps
            share = t.share if rate == "GB/s" else value / peak if value and peak else None
            lines.append([
                row.name,
                duration(t.kernel),
                f"{value:.4g}" if value else "",
                f"{share:.0%}" if share else "",
                f"{row.speedup:.3g}x" if row.speedup else "",
                f"{row.error:.2g} u" if row.error is not None else "",
            ])  # fmt: skip
        used = [i for i in range(len(head)) if any(line[i] for line in lines) or i < 2]
        return [head[i] for i in used], [[line[i] for i in used] for line in lines]

    def __repr__(self) -> str:
        notes = [row._said() for row in self._lines()]
        return _text.grid(self.title(), *self._cells(), notes, self._sections())

    def _sections(self) -> list[str]:
        """Lessons, production, yardsticks: of a Ladder whose rows are of several kinds."""
        found = _text.sections(row.role for row in self.rows)
        return found if len(set(found)) > 2 else []

    def _repr_html_(self) -> str:
        notes = [row._said() for row in self._lines()]
        return _text.grid_html(self.title(), *self._cells(), notes, self._sections())

    def plot(self, ax: Axes | None = None) -> Axes:
        """A bar for each row that ran: its rate, or its time where the op has no rate.

        Needs matplotlib (``pip install matplotlib``). Returns the axes.
        """
        rows = [r for r in self._lines() if r.timing]
        ax = axes(ax, len(rows))
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
        call = self.call + (f", kernel {self.kernel!r}" if self.kernel else "")
        ax.set_title("\n".join(_text.wrapped(call, width=72)), pad=16, fontsize="medium")
        return ax


def _labels(row: Row) -> dict[str, Any]:
    names = ("note", "role", "lecture", "refused")
    return {**{name: getattr(row, name) for name in names}, "params": dict(row.params)}

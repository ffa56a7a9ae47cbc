"""counted - a ladder or sweep on sim: what warps ask of memory, instead of times."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from . import text as _text
from .counts import Counts, KernelProfile, total
from .draw import axes
from .tables import Row, Table

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# Title of the column, space and kind of what is counted.
_COLUMNS = (
    ("global load", "global", "load"),
    ("global store", "global", "store"),
    ("shared load", "shared", "load"),
    ("shared store", "shared", "store"),
)


class Counted(Table):
    """Every kernel of an operation, or one over its tunables, counted on sim.

    A cell says `requests x each`: how many requests the warps made, and how many sectors of
    global memory or wavefronts of shared memory each took. `diverged` is how often threads of a
    warp parted at a branch, `balance` how evenly memory partitions were used.
    """

    @property
    def best(self) -> None:
        """None: which row is fastest, only a GPU can tell."""

    def _kernels(self) -> list[KernelProfile]:
        return [k for row in self.rows if row.profile for k in row.profile.kernels]

    def title(self) -> str:
        of = f", kernel {self.kernel!r}" if self.kernel else ""
        part = "sectors" if self.device.ordinal == 0 else "transactions"
        sample = (
            "of a sample of the blocks, " if any(k.sampled for k in self._kernels()) else ""
        )
        return (
            f"{self.call}{of}\n{sample}requests of warps x {part} (global) or wavefronts "
            "(shared) that each takes\ncounts: time on sim is not time on a GPU"
        )

    def _cells(self) -> tuple[list[str], list[list[str]]]:
        first = "params" if self.kernel else "kernel"
        head = [first, *(title for title, _, _ in _COLUMNS), "atomics", "diverged", "balance"]
        lines = []
        for row in self.rows:
            if row.profile is None:
                lines.append([row.name, "refused", *[""] * (len(head) - 2)])
                continue
            cells = [_cell(counts(row, space, kind)) for _, space, kind in _COLUMNS]
            cells += [str(_atomics(row) or ""), str(_diverged(row) or "")]
            even = _balance(row)
            lines.append([row.name, *cells, "" if even is None else f"{even:.0%}"])
        used = [i for i in range(len(head)) if i < 2 or any(line[i] for line in lines)]
        return [head[i] for i in used], [[line[i] for i in used] for line in lines]

    def _numbers(self, row: Row) -> dict[str, Any]:
        if row.profile is None:
            return {}
        found = {title: counts(row, space, kind) for title, space, kind in _COLUMNS}
        numbers: dict[str, Any] = {
            title: {"requests": c.requests, "parts": c.parts, "ideal": c.ideal,
                    "per_request": c.per_request}
            for title, c in found.items()
        }  # fmt: skip
        numbers |= {"atomics": _atomics(row), "diverged": _diverged(row)}
        return {**numbers, "balance": _balance(row)}

    def plot(self, ax: Axes | None = None) -> Axes:
        """Two bars for each row that ran: sectors of global, wavefronts of shared memory.

        Needs matplotlib (``pip install matplotlib``). Returns the axes.
        """
        ax = axes(ax, 2 * len(self.rows))
        rows = [r for r in self.rows if r.profile]
        for shift, space, label in (
            (-0.2, "global", "sectors of global memory"),
            (0.2, "shared", "wavefronts of shared memory"),
        ):
            parts = [
                sum(counts(r, space, kind).parts for kind in ("load", "store", "atomic"))
                for r in rows
            ]
            ax.barh([i + shift for i in range(len(rows))], parts, height=0.4, label=label)
        ax.set_yticks(range(len(rows)), [r.name for r in rows])
        ax.invert_yaxis()
        ax.set_xlabel("counted on sim, no times")
        ax.set_title("\n".join(_text.wrapped(self.call, width=72)), fontsize="medium")
        ax.legend()
        return ax


def counts(row: Row, space: str, kind: str) -> Counts:
    """Of all the kernels that a row launched."""
    return total(k.counts(space, kind) for k in row.profile.kernels)


def _cell(found: Counts) -> str:
    if not found.requests:
        return ""
    each = f"{found.per_request:.2f}".rstrip("0").rstrip(".")
    many = found.requests >= 10**6  # as_dict() has every digit
    return (f"{found.requests / 1e6:.4g}M" if many else f"{found.requests}") + f" x {each}"


def _atomics(row: Row) -> int:
    return sum(counts(row, space, "atomic").requests for space in ("global", "shared"))


def _diverged(row: Row) -> int:
    return sum(branch.divergent for k in row.profile.kernels for branch in k.branches)


def _balance(row: Row) -> float | None:
    """Of the kind of access that falls least evenly on the memory partitions."""
    found = [k.balance(kind) for k in row.profile.kernels for kind in ("load", "store")]
    return min((even for even in found if even is not None), default=None)

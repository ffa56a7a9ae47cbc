"""counts_text - a Profile's counts as tables of text."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .where import short

if TYPE_CHECKING:
    from .counts import Counts, KernelProfile, Profile


def title(k: KernelProfile) -> str:
    """Launches, blocks and threads in words."""
    times = "one launch" if k.launches == 1 else f"{k.launches} launches"
    blocks = "one block" if k.blocks == 1 else f"{k.blocks} blocks"
    if k.sampled:
        blocks = f"a sample of {k.blocks} of {k.grid} blocks"
    rules = "" if k.device == "sim" else f", by the rules of {k.device}"
    return f"{times}, {blocks}, {k.threads} threads{rules}"


def footer(p: Profile) -> list[str]:
    """What the numbers are not."""
    said = ["counted on sim; time on sim is not time on a GPU"]
    if p.kernels:
        words = {"sectors" if k.device == "sim" else "transactions" for k in p.kernels}
        part = " or ".join(sorted(words))
        said.insert(0, f"parts: {part} of global memory, wavefronts of shared memory")
        said.insert(1, "excess: parts beyond those that the same data would take")
    if not p.kernels:
        said.insert(0, "no kernel ran on sim; compile() makes one for it with device='sim'")
    if any(k.sampled for k in p.kernels):
        said.insert(0, "a sample: counts are of the blocks that ran, results are incomplete")
    return said


def _head(k: KernelProfile, first: str) -> tuple[str, ...]:
    names = (first, "requests", "active of 32", "parts", "each", "excess")
    return (*names, "bytes") if k.device != "sim" else names


def _row(k: KernelProfile, label: str, counts: Counts) -> tuple[str, ...]:
    row = (
        label, f"{counts.requests}", f"{counts.active:.1f}", f"{counts.parts}",
        f"{counts.per_request:.2f}", f"{counts.excess}",
    )  # fmt: skip
    return (*row, f"{counts.moved}") if k.device != "sim" else row


def table(k: KernelProfile) -> list[tuple[str, ...]]:
    """A row of cells for each space and kind, a heading first."""
    rows = [_head(k, "  memory")]
    if k.partitions:
        rows[0] = (*rows[0], "balance")
    for space, kind, counts in k.kinds():
        row = _row(k, f"  {space} {kind}", counts)
        even = k.balance(kind) if space == "global" else None
        rows.append((*row, "" if even is None else f"{even:.0%}") if k.partitions else row)
    return rows


def line_table(k: KernelProfile) -> list[tuple[str, ...]]:
    """The same by line of the source."""
    return [_head(k, "  line")] + [
        _row(k, f"  {short(file)}:{line} {space} {kind}", counts)
        for (file, line, space, kind), counts in k.lines.items()
    ]


def branch_table(k: KernelProfile) -> list[tuple[str, ...]]:
    """Lines at which warps diverged."""
    rows = [("  branch", "warps", "active of 32", "divergent", "of them")]
    for b in k.branch_lines.values():
        if b.divergent:
            active, share = f"{b.lanes / b.passed:.1f}", f"{b.divergent / b.passed:.0%}"
            place = f"  {short(b.file)}:{b.line}"
            rows.append((place, f"{b.passed}", active, f"{b.divergent}", share))
    return rows


def columns(rows: list[tuple[str, ...]]) -> list[str]:
    """Lines of text with the cells below one another."""
    wide = [max(len(row[c]) for row in rows) for c in range(len(rows[0]))]
    return [
        "  ".join(
            cell.ljust(w) if c == 0 else cell.rjust(w)
            for c, (cell, w) in enumerate(zip(row, wide, strict=True))
        )
        for row in rows
    ]

"""_source - finding a kernel in the C and CUDA files, which travel with the package."""

from __future__ import annotations

import re
from pathlib import Path

from ._registry import STEMS

_RULE = re.compile(r"^/\* -{4,} *(.*?)[ -]*(?:\*/)?$")


def folder() -> Path:
    """csrc inside the installed package, or beside it in a checkout."""
    here = Path(__file__).parent
    return here / "csrc" if (here / "csrc").is_dir() else here.parent / "csrc"


def find(op: str, kernel: str, backend: str) -> str:
    """The ruled sections of the kernel, else the functions that carry its name; "" if none."""
    stem = STEMS.get(op, op)
    found = []
    written_for = "cuda" if backend == "sim" else backend  # sim runs the very same files
    for path in sorted((folder() / written_for).glob(f"{stem}*")):
        if path.suffix not in (".c", ".h", ".cu") or not re.match(rf"{stem}(_|\.)", path.name):
            continue
        lines = path.read_text().splitlines()
        pieces = _sections(lines, kernel) or _functions(lines, op, kernel)
        found += [(path, first, piece) for first, piece in pieces]
    root = folder().parent
    return "\n\n".join(
        f"// {path.relative_to(root)}:{first + 1}\n" + "\n".join(piece).rstrip()
        for path, first, piece in found
    )


def _sections(lines: list[str], kernel: str):
    """[(first line, lines)] of `/* ---- kernel: ... ---- */` up to the next such rule."""
    marks = [(i, m[1]) for i, line in enumerate(lines) if (m := _RULE.match(line))]
    ends = [i for i, _ in marks[1:]] + [len(lines)] * bool(marks)
    return [
        (first, lines[first:last])
        for (first, title), last in zip(marks, ends, strict=True)
        if re.match(rf"{re.escape(kernel)}\b(?=:|,| and |$)", title)
    ]


def _functions(lines: list[str], op: str, kernel: str):
    """[(first line, lines)] of top-level definitions that carry the kernel's name."""
    names = re.compile(rf"\b({op}|\w+##)_{re.escape(kernel)}(_kernel)?\b")
    pieces, first = [], 0
    for i, line in enumerate([*lines, ""]):
        inside = i < len(lines) and (line[:1] in (" ", "\t", "}", "{", "#") or line != "")
        if inside:
            continue
        piece = lines[first:i]
        first, start = i + 1, first
        body = "\n".join(piece)
        if (
            "{" in body
            and names.search(body)
            and not re.match(r"static const gop_row|const gop_ladder|extern", body)
        ):
            pieces.append((start, piece))
    return pieces

"""source - finding a kernel in the C and CUDA files, which travel with the package."""

from __future__ import annotations

import re
from pathlib import Path

from .. import _core

# The name of a function that is defined: of FN(name)(...) or name(...), up to its body.
_HEAD = re.compile(r"(?:FN\((\w+)\)|\b(\w+)) ?\([^;{}]*\)\s*\n\{")
_SUFFIXES = (".cu", ".c", ".h")
SHORT = 15  # lines: a source below that only hands on
LONG = 120  # lines


def folder() -> Path:
    """csrc inside the installed package, or beside it in a checkout."""
    here = Path(__file__).parents[1]
    return here / "csrc" if (here / "csrc").is_dir() else here.parent / "csrc"


def find(op: str, kernel: str, backend: str) -> str:
    """The kernel's own file down to its launch; "" if there is no such kernel.

    A CPU kernel's comes with the functions that it takes from the files of other kernels, a
    CUDA kernel's with what it calls of its folder's headers, where all of that is short.
    """
    stem = _core.ops()[op]
    found, others = [], []
    written_for = "cuda" if backend == "sim" else backend  # sim runs the very same files
    place = folder() / written_for / stem
    for path in sorted(place.iterdir()):
        lines = path.read_text().splitlines()
        others += [(path, first, piece) for first, piece in _definitions(lines)]
        if re.sub(r"_sm\d+$", "", path.stem) == kernel and path.suffix in _SUFFIXES:
            found = [(path, 0, _down_to_launch(lines, stem, kernel))]
    while found and written_for == "cuda" and not _has_kernel(found):
        called = _called(found, others)
        if not called:
            break
        found += called
    if found and written_for == "cpu":
        found = _with_called(found, [one for one in others if one[0].suffix == ".c"])
        if sum(_code(piece) for _, _, piece in found) < SHORT:  # and of the shared headers
            found += _called(found, others)
    if found and written_for == "cuda":
        whole = _with_called(found, [one for one in others if one[0].suffix == ".h"])
        found = whole if sum(len(piece) for _, _, piece in whole) <= LONG else found
    root = folder().parent
    return "\n\n".join(
        f"// {path.relative_to(root)}:{first + 1}\n" + "\n".join(piece).strip("\n")
        for path, first, piece in found
    )


def _has_kernel(found) -> bool:
    return any("__global__" in line for _, _, piece in found for line in piece)


def _down_to_launch(lines: list[str], op: str, kernel: str) -> list[str]:
    """Without what plans the launch, and the row."""
    launch = re.compile(rf"\b{op}_{re.escape(kernel)}\)?\(gop_ctx")
    ends = [
        first + len(piece)
        for first, piece in _definitions(lines)
        if launch.search("\n".join(piece))
    ]
    return lines[: max(ends)] if ends else lines


def _code(piece: list[str]) -> int:
    """How many lines are code."""
    return sum(not re.match(r"\s*(/?\*|#|$)", line) for line in piece)


def _with_called(found, others):
    """With what it takes from the files of other kernels, and what these take."""
    while called := _called(found, others):
        found = found + called
    return found


def _called(found, others):
    """Those of the other definitions whose names stand in what was found."""
    text = "\n".join(line for _, _, piece in found for line in piece)
    words = set(re.findall(r"\w+", re.sub(r"/\*.*?\*/", "", text, flags=re.S)))
    return [
        one
        for one in others
        if (name := _HEAD.search("\n".join(one[2])))
        and (name[1] or name[2]) in words
        and "\n".join(one[2]) not in text
    ]


def _definitions(lines: list[str]):
    """(first line, lines) of what has a body, up to the next empty line outside of braces."""
    plain = re.sub(
        r"/\*.*?\*/|//[^\n]*|\"(?:\\.|[^\"\\\n])*\"|'(?:\\.|[^'\\\n])*'",
        lambda found: "\n" * found[0].count("\n"),
        "\n".join(lines),
        flags=re.S,
    ).split("\n")
    first = depth = 0
    has_body = False
    for i, (line, code) in enumerate(zip([*lines, ""], [*plain, ""], strict=True)):
        depth += code.count("{") - code.count("}")
        has_body |= "{" in code
        if line or depth:
            continue
        if has_body:
            yield first, lines[first:i]
        first, has_body = i + 1, False

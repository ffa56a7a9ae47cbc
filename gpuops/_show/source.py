"""source - finding a kernel in the C and CUDA files, which travel with the package."""

from __future__ import annotations

import re
from pathlib import Path
from textwrap import wrap

from .. import _core

# The name of a function that is defined: of FN(name)(...) or name(...), up to its body.
_HEAD = re.compile(r"(?:FN\((\w+)\)|\b(\w+)) ?\([^;{}]*\)\s*\n\{")
_SUFFIXES = (".cu", ".c", ".h")
SHORT = 15  # lines: a source below that only hands on
LONG = 120  # lines
NOTES = 6  # of them for the names of what is left out


def folder() -> Path:
    """csrc inside the installed package, or beside it in a checkout."""
    here = Path(__file__).parents[1]
    return here / "csrc" if (here / "csrc").is_dir() else here.parent / "csrc"


def find(op: str, kernel: str, backend: str) -> str:
    """The kernel's own file down to its launch; "" if there is no such kernel.

    Functions of it that only plan the launch are left out, by name. What it calls of its
    folder comes with it as long as all is short; what is too long for that is named.
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
    if not found:
        return ""
    suffix = ".c" if written_for == "cpu" else ".h"
    found, left = _with_called(found, [one for one in others if one[0].suffix == suffix])
    if written_for == "cpu" and sum(_code(piece) for _, _, piece in found) < SHORT:
        found += _called(found, others)  # of the shared headers too
    root = folder().parent
    texts = [
        f"// {path.relative_to(root)}:{first + 1}\n" + "\n".join(piece).strip("\n")
        for path, first, piece in found
    ]
    if left:
        said = dict.fromkeys(f"{_name(piece)} ({path.name})" for path, _, piece in left)
        texts.append(_note(f"it calls, of its folder, {', '.join(said)}"))
    return "\n\n".join(texts)


def _has_kernel(found) -> bool:
    return any("__global__" in line for _, _, piece in found for line in piece)


def _down_to_launch(lines: list[str], op: str, kernel: str) -> list[str]:
    """Without the row, and without the functions that only plan the launch."""
    launch = re.compile(rf"\b(?:{op}|op##)_{re.escape(kernel)}\)?\(gop_ctx")
    pieces = list(_definitions(lines))
    texts = ["\n".join(piece) for _, piece in pieces]
    names = [_name(piece) for _, piece in pieces]
    kept = {i for i, text in enumerate(texts) if launch.search(text)}
    if not kept:
        return lines
    kept |= {i for i, text in enumerate(texts) if "__global__" in text}
    while True:
        words = _words("\n".join(texts[i] for i in kept))
        more = {i for i, name in enumerate(names) if name in words} - kept
        if not more:
            break
        kept |= more
    end = max(kept)
    plans = [i for i in range(end) if names[i] and i not in kept]
    shown, at = [], 0
    for i in plans:
        first, piece = pieces[i]
        shown += lines[at:first]
        at = first + len(piece) + 1
    shown += lines[at : pieces[end][0] + len(pieces[end][1])]
    if plans:
        left = ", ".join(dict.fromkeys(names[i] for i in plans))
        shown += ["", *_note(f"left out, as it plans: {left}").split("\n")]
    return shown


def _note(text: str) -> str:
    return "\n".join(f"// {line}" for line in wrap(text, 92))


def _name(piece: list[str]) -> str:
    """Of a function; "" for anything else."""
    head = _HEAD.search("\n".join(piece))
    return (head[1] or head[2]) if head else ""


def _words(text: str) -> set[str]:
    return set(re.findall(r"\w+", re.sub(r"/\*.*?\*/", "", text, flags=re.S)))


def _code(piece: list[str]) -> int:
    """How many lines are code."""
    return sum(not re.match(r"\s*(/?\*|#|$)", line) for line in piece)


def _with_called(found, others):
    """With what it calls, and what these call, while all is short; and what was too long."""
    left = []
    while called := [one for one in _called(found, others) if one not in left]:
        for one in called:
            fits = sum(len(piece) + 1 for _, _, piece in [*found, one]) <= LONG - NOTES
            (found if fits else left).append(one)
    return found, left


def _called(found, others):
    """Those of the other definitions whose names stand in what was found."""
    text = "\n".join(line for _, _, piece in found for line in piece)
    words = _words(text)
    return [one for one in others if _name(one[2]) in words and "\n".join(one[2]) not in text]


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

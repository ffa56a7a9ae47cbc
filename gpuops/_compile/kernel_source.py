"""kernel_source - what compiling for sim and cuda share: source, kernels, errors."""

from __future__ import annotations

import os
import re
import subprocess
from dataclasses import dataclass
from pathlib import Path

from ..errors import CompileError, brief
from . import simt as _simt

_KERNEL = re.compile(
    r"(template\s*<[^;{]*>\s*)?(?:static\s+|extern\s+\"C\"\s+)*__global__\s+"
    r"(?:__launch_bounds__\s*\([^)]*\)\s*)?void\s+"
    r"(?:__launch_bounds__\s*\([^)]*\)\s*)?(\w+)\s*\(([^)]*)\)\s*\{"
)
# gcc and clang say kernel.cu:3:5: error: ..., nvcc and NVRTC kernel.cu(3): error: ...
_WHERE = r"^(?:[^\s:(]*/)?kernel\.cu(?::(\d+):(?:\d+:)?|\((\d+)\):) "
_SAID = re.compile(_WHERE + r"(?:fatal |catastrophic )?[eE]rror: (.*)$", re.M)
_ASSIGNS = re.compile(r"(?<![=!<>+\-*/%&|^])=(?!=)")  # no part of another operator
_DECLARES = re.compile(r"\s*(?:const\s+)?\w+[\s*&]+\w+\s*=")
# Types that sim's headers and _simt.py gave other names, and flags of the compiler.
_OWN_NAMES = re.compile(r"'[^']*(?:gop_sim|_shared\b)[^']*' \{aka ('[^']*')\}")
_FLAG = re.compile(r" \[-[\w=+-]+\]$")
# gcc's and clang's words for one of CUDA's functions that csrc/sim/include has not.
_NOT_THERE = re.compile(r"'__\w+' was not declared|undeclared identifier '__\w+'")
# What is generated for each kernel, where that cannot name it.
_NO_CALL = re.compile(r"gop_(?:describe|call|parameters)_(\w+)")
_DIRECTIVE = re.compile(r"^\s*#\s*(?:if|define)", re.M)


@dataclass(frozen=True)
class Source:
    """CUDA C++, and the folder where its `#include "..."` are looked for."""

    text: str
    folder: Path


def read(source) -> Source:
    if isinstance(source, str) and re.search(r"[\n{;]", source):
        found = Source(source, Path.cwd())
    elif isinstance(source, str | os.PathLike):
        found = _of_file(source)
    else:
        raise TypeError(f"compile: source is CUDA C++ or a path, not {brief(source)}")
    try:
        found.text.encode()
    except UnicodeEncodeError as error:
        raise CompileError(f"compile: the source is no text: {error}") from None
    if not found.text.strip():
        raise CompileError("compile: the source is empty, expected a `__global__` function")
    return found


def _of_file(source: str | os.PathLike[str]) -> Source:
    path = Path(source)
    if isinstance(source, str) and not source.strip():
        return Source("", path)
    try:
        return Source(path.read_text(), path.resolve().parent)
    except (OSError, ValueError) as error:  # a NUL in its name, bytes that are no text
        what = f"compile: {brief(os.fspath(source))} is no CUDA C++, and as a file"
        why = error.strerror if isinstance(error, OSError) else error
        kind = type(error) if isinstance(error, OSError) else ValueError
        raise kind(f"{what} cannot be read: {why}") from None


def kernel_names(text: str) -> dict[str, int]:
    """Names of the kernels with the number of their parameters."""
    plain = _simt.without_comments(text)
    found = {}
    for template, name, parameters in _KERNEL.findall(plain):
        if template:
            raise CompileError(
                f"compile: the kernel {name} is a template; make it a __device__ function, and "
                "call that from a kernel for each type"
            )
        inside = parameters.strip()
        found[name] = 0 if inside in ("", "void") else parameters.count(",") + 1
    if "<<<" in plain:
        line = plain[: plain.index("<<<")].count("\n") + 1
        raise CompileError(
            f"compile: line {line} launches a kernel; compile kernels alone, and launch them "
            "from Python as kernel[grid, block](...)"
        )
    if not found:
        said = "compile: the source has no kernel, `__global__ void name(...) {`"
        if "__global__" in plain:
            line = plain[: plain.index("__global__")].count("\n")
            said += f"; line {line + 1} is none:\n    {text.splitlines()[line].strip()}"
        raise CompileError(said)
    return found


def readable(said: str, text: str) -> str:
    """The compiler's errors by line of the source, each with the line itself."""
    found = [(int(a or b), words) for a, b, words in _SAID.findall(said)]
    if brace := _lone_brace(text):
        found = [brace]
    lines = text.splitlines()
    by_line = [
        f"line {line}: {_plain(words)}\n    {lines[line - 1].strip()}"
        for line, words in found
        if 0 < line <= len(lines)
    ]
    if not by_line and (lost := _NO_CALL.search(said)):
        by_line = [
            f"the kernel {lost[1]} cannot be launched by that name: it stands in a namespace "
            "or a class, or another function has the name"
        ]
    return "compile: the source does not compile\n" + ("\n".join(by_line) or said.strip())


def _plain(words: str) -> str:
    plain = _FLAG.sub("", _OWN_NAMES.sub(r"\1", words))
    if _NOT_THERE.search(plain) and "did you mean '__" not in plain:
        plain += "; docs/sim.md lists what sim has of CUDA's functions"
    if plain.startswith("no such instruction"):
        plain += "; sim runs C++ on the CPU: inline assembly is a GPU's"
    return plain


def _lone_brace(text: str) -> tuple[int, str] | None:
    """The line of a brace without its partner, and what to say of it.

    Compilers tell where they lost count, often behind the source's end. Braces that are
    partners begin in lines of one indentation: the first that do not tell which one is missing.
    """
    if _DIRECTIVE.search(text):  # only some of the braces may count
        return None
    opened: list[tuple[int, int]] = []
    left = right = 0  # the first line that a `}` to the left, or to the right, is a partner to
    for number, line in enumerate(_simt.without_comments(text).splitlines(), 1):
        indent = len(line) - len(line.lstrip())
        for at, c in enumerate(line):
            if c == "{":
                opened.append((number, indent))
            elif c == "}":
                if not opened:
                    return right or number, "this `}` closes nothing"
                first, before = opened.pop()
                if at == indent and indent < before:
                    left = left or first
                if at == indent and indent > before:
                    right = right or number
    return (left or opened[-1][0], "this `{` has no `}`") if opened else None


def _conditions(plain: str):
    """(line, text) of each condition of if and while, without what has brackets of its own."""
    for found in re.finditer(r"\b(?:if|while)\s*\(", plain):
        depth, inside = 1, ""
        for c in plain[found.end() :]:
            depth += {"(": 1, ")": -1}.get(c, 0)
            if depth == 0:
                yield plain[: found.start()].count("\n") + 1, inside
                break
            inside += c if depth == 1 else ""


def refuse_assignments(text: str) -> None:
    """Raises for `if (i = 5)`, which compiles and is a mistake."""
    for line, condition in _conditions(_simt.without_comments(text)):
        if _ASSIGNS.search(condition) and not _DECLARES.match(condition):
            raise CompileError(
                "compile: the source does not compile\n"
                f"line {line}: `=` assigns, `==` compares; "
                "an assignment that is meant as a condition has a second pair of brackets\n"
                f"    {text.splitlines()[line - 1].strip()}"
            )


def call(command: list[str], text: str) -> str:
    """What a compiler prints; CompileError has its words by line of `text`."""
    done = subprocess.run(
        command,
        capture_output=True,
        text=True,
        errors="replace",
        check=False,
        env={**os.environ, "LC_ALL": "C"},
    )
    said = done.stderr + done.stdout
    if done.returncode != 0:
        raise CompileError(readable(said, text))
    return done.stdout

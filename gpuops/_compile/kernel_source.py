"""kernel_source - what compiling for sim and cuda share: source, kernels, errors."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

from ..errors import CompileError, brief
from . import simt as _simt
from .declarations import Unbalanced, declarations, without_strings

# Where brackets do not match, which the compiler will say.
_KERNEL = re.compile(r"\b__global__\b[^{};]*?(\w+)\s*\([^(){};]*\)\s*\{")
_LEFT_OUT = re.compile(
    r"^[ \t]*#[ \t]*if[ \t]+0\b.*?^[ \t]*#[ \t]*(?:endif|else|elif)\b", re.M | re.S
)
_MACRO = re.compile(
    r"^[ \t]*#[ \t]*define[ \t]+(\w+)(?:\(([^)]*)\))?[ \t]*((?:[^\n\\]|\\\n|\\.)*)", re.M
)
_DIRECTIVE = re.compile(r"^[ \t]*#(?:[^\n\\]|\\\n|\\.)*", re.M)
_OPENCL_KERNEL = re.compile(r"\b__kernel\b|\bkernel\s+void\b")
_OF_OPENCL = re.compile(
    r"\bget_(?:global|local|group)_\w+\s*\(|\b__(?:global|local)\s+(?:const\s+)?\w+\s*\*"
)
_ASSIGNS = re.compile(r"(?<![=!<>+\-*/%&|^])=(?!=)")  # no part of another operator
_DECLARES = re.compile(r"\s*(?:const\s+)?\w+[\s*&]+\w+\s*=")


@dataclass(frozen=True)
class Source:
    """CUDA C++ or OpenCL C, and the folder where its `#include "..."` are looked for."""

    text: str
    folder: Path
    start: str | None = None  # where compilers are started: None where Python is

    @property
    def is_opencl(self) -> bool:
        """It has `__kernel`, or `kernel void`, which CUDA has not."""
        return _OPENCL_KERNEL.search(_simt.without_comments(self.text)) is not None


def read(source) -> Source:
    if isinstance(source, str) and re.search(r"[\n{;]", source):
        found = _of_text(source.removeprefix("\ufeff"))
    elif isinstance(source, str | os.PathLike):
        found = _of_file(source)
    else:
        raise TypeError(f"compile: source is CUDA C++, OpenCL C or a path, not {brief(source)}")
    try:
        found.text.encode()
    except UnicodeEncodeError as error:
        raise CompileError(f"compile: the source is no text: {error}") from None
    if not found.text.strip():
        raise CompileError("compile: the source is empty, expected a kernel")
    return found


def _of_text(text: str) -> Source:
    try:
        return Source(text, Path.cwd())
    except OSError:  # it was removed: nothing is found there
        return Source(text, Path(os.sep, "no", "folder"), os.sep)


def _of_file(source: str | os.PathLike[str]) -> Source:
    path = Path(source)
    if isinstance(source, str) and not source.strip():
        return Source("", path)
    try:
        # Editors on Windows put a byte order mark in front.
        return Source(path.read_text("utf-8-sig"), path.resolve().parent)
    except (OSError, ValueError) as error:  # a NUL in its name, bytes that are no text
        what = f"compile: {brief(os.fspath(source))} is no CUDA C++ or OpenCL C, and as a file"
        why = error.strerror if isinstance(error, OSError) else error
        kind = type(error) if isinstance(error, OSError) else ValueError
        raise kind(f"{what} cannot be read: {why}") from None


def kernel_names(text: str) -> dict[str, int]:
    """Names of the kernels with the number of their parameters."""
    code = without_strings(_simt.without_comments(text, strings=False))
    code = _LEFT_OUT.sub(_blank, code)
    macros = [m for m in _MACRO.findall(code) if "__global__" in m[2]]
    code = _DIRECTIVE.sub(_blank, code)
    for name, parameters, body in macros:
        code = _expanded(code, name, parameters, body.replace("\\\n", " "))
    try:
        declared = declarations(code)
    except Unbalanced:
        return dict.fromkeys(_KERNEL.findall(code), 0) or _none(text)
    found = {}
    for d in declared:
        if not d.body or not d.has("__global__"):
            continue
        if d.is_template:
            raise CompileError(
                f"compile: the kernel {d.name} is a template; make it a __device__ function, "
                "and call that from a kernel for each type"
            )
        if d.scope:
            raise CompileError(
                f"compile: the kernel {d.name} cannot be launched by that name: it stands in a "
                "namespace or a class"
            )
        found[d.name] = 0 if d.parameters in ("", "void") else d.parameters.count(",") + 1
    return found or _none(text)


def _expanded(code: str, name: str, parameters: str, body: str) -> str:
    """The code with a macro's body in its places."""
    if not parameters.strip():
        return re.sub(rf"\b{name}\b(?:\s*\(\s*\))?", lambda _: body, code)

    def made(found: re.Match) -> str:
        words = body
        pairs = zip(parameters.split(","), _simt.at_commas(found[1]), strict=False)
        for parameter, argument in pairs:
            words = re.sub(rf"\b{parameter.strip()}\b", lambda _, a=argument: a.strip(), words)
        return re.sub(r"\s*##\s*", "", words)

    return re.sub(rf"\b{name}\s*\(([^()]*)\)", made, code)


def _blank(found: re.Match) -> str:
    return re.sub(r"[^\n]", " ", found[0])


def _none(text: str) -> NoReturn:
    raise no_kernel(text)


def no_kernel(text: str) -> CompileError:
    plain = _simt.without_comments(text)
    word = "__kernel" if _OF_OPENCL.search(plain) else "__global__"
    said = f"compile: the source has no kernel, `{word} void name(...) {{`"
    if "__global__" in plain:
        line = plain[: plain.index("__global__")].count("\n")
        said += f"; line {line + 1} is none:\n    {text.splitlines()[line].strip()}"
    return CompileError(said)


def refuse_launches(text: str) -> None:
    """Raises for `k<<<grid, block>>>(a)`."""
    plain = _simt.without_comments(text)
    if "<<<" in plain:
        line = plain[: plain.index("<<<")].count("\n") + 1
        raise CompileError(
            f"compile: line {line} launches a kernel; compile only kernels, and launch them "
            "from Python as kernel[grid, block](...)"
        )


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

"""style - what `make lint` asks of the form of sources: short functions, plain words.

    python -m _build.style [FOLDER or FILE ...]    the words are looked for in these

A function, also a CUDA kernel, has at most 80 lines. A file has at most 600 lines.
"""

from __future__ import annotations

import ast
import pathlib
import re
import subprocess
import sys
from collections.abc import Iterator

LINES_OF_FILE = 600
LINES_OF_FUNCTION = 80
# A pattern, and what to write for it.
WORDS = {
    r"takes? (less|longer)\b": "is faster, is slower, costs more",
    r"nobody (waits for|reads|asks|looks)\b": "asynchronous, is never read",
    r"(^ *\*|//|/\*) Of [a-z]": "a sentence with subject and verb",
    r"first of all": "first, at entry",
    r"\b(begin|start)(s|ing)? anywhere\b": "unaligned",
    r"second-level cache": "L2",
    r"copy engine": "TMA",
}
# Where words are looked for if nothing is named: docs/benchmarks.md shows the notes of kernels,
# docs/speed-log what was written at its time.
WORDED = ("csrc", "gpuops", "docs", "README.md", "CONTRIBUTING.md")
NOT_WORDED = ("csrc/cuda/*/choose.cu", "csrc/opencl", "docs/benchmarks.md", "docs/speed-log")
CODE = ("*.c", "*.h", "*.inc", "*.cu", "*.cl", "*.py", "*.pyi", "Makefile")


def files() -> list[pathlib.Path]:
    listed = subprocess.check_output(["git", "ls-files", *CODE], text=True)
    return [path for path in map(pathlib.Path, listed.split()) if path.exists()]


def c_functions(lines: list[str]) -> Iterator[tuple[int, int]]:
    """First line and number of lines of the functions of C, whose braces stand at the beginning
    of a line."""
    begin = None
    for k, line in enumerate(lines):
        if line == "{":
            begin = k
        elif line.startswith("}") and begin is not None:
            head = begin
            while head and lines[head - 1] and lines[head - 1][-1] not in ";}/":
                head -= 1
            if "(" in "".join(lines[head:begin]):  # else it is a structure
                yield head + 1, k - head + 1
            begin = None


def py_functions(text: str) -> Iterator[tuple[int, int]]:
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            first = node.body[0]
            text_of_it = isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant)
            said = first.end_lineno - first.lineno + 1 if text_of_it else 0
            yield node.lineno, node.end_lineno - node.lineno + 1 - said


def long_ones(path: pathlib.Path) -> Iterator[str]:
    text = path.read_text()
    lines = text.splitlines()
    if len(lines) > LINES_OF_FILE:
        yield f"{path}: {len(lines)} lines, at most {LINES_OF_FILE}: split it by idea"
    if path.name == "Makefile":
        return
    found = py_functions(text) if path.suffix in (".py", ".pyi") else c_functions(lines)
    for first, count in found:
        if count > LINES_OF_FUNCTION:
            most = f"at most {LINES_OF_FUNCTION}: split it"
            yield f"{path}:{first}: a function of {count} lines, {most}"


def odd_words(where: list[str]) -> Iterator[str]:
    """Each line with a pattern of WORDS in these folders and files."""
    beside = [] if where else [f":!{path}" for path in NOT_WORDED]
    names = subprocess.check_output(
        ["git", "ls-files", "--", *(where or WORDED), *beside], text=True
    )
    for path in map(pathlib.Path, names.splitlines()):
        if path.suffix not in (".c", ".h", ".inc", ".cu", ".cl", ".py", ".pyi", ".md"):
            continue
        text = path.read_text()
        for pattern, better in WORDS.items():
            for match in re.finditer(pattern, text, re.M):
                number = text.count("\n", 0, match.start()) + 1
                yield f"{path}:{number}: '{match[0]}': write for instance: {better}"


def main() -> int:
    found = [line for path in files() for line in long_ones(path)]
    found += odd_words(sys.argv[1:])
    print(*found, sep="\n", end="\n" if found else "")
    return int(bool(found))


if __name__ == "__main__":
    sys.exit(main())

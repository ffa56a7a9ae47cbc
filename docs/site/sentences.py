"""sentences - every error of gpuops as the source has it, with the page that helps.

A sentence has `…` where the source puts in a value. Those of the core are the arguments of
gop_fail, those of Python what is raised.
"""

from __future__ import annotations

import ast
import pathlib
import re

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
_FAIL = re.compile(r"gop_(?:fail|refuse)\w*\(\s*([^;]*?)\);", re.DOTALL)
# The format: literals beside each other, PRId64 and its kind between. Arguments follow.
_STRING = r'"((?:[^"\\]|\\.)*)"|\b(PRI\w+)\b'
_STRINGS = re.compile(_STRING)
_LITERALS = re.compile(rf"(?:\s*(?:{_STRING}))+")
_FORMAT = re.compile(r"%[-+ #0]*(?:\*|\d+)?(?:\.(?:\*|\d+))?(?:hh|h|ll|l|z|j|t)?[a-zA-Z]?")

# What the sentence or its file is about -> the page that helps, the first that fits.
PAGES = (
    (
        "axes don't match|is given twice|out of bounds for array|be broadcast together"
        "|the output has shape|cannot be cast to out's|output array is read-only"
        "|must be of ArrayType|do not fit: axis",
        "troubleshooting.md#shapes-and-out",
    ),
    ("this build of gpuops|is the source of gpuops", "install.md"),
    ("device 'cuda'|no cuda backend|driver|GPUOPS_CUDA|nvcc", "troubleshooting.md"),
    ("GPUOPS_|environment variable", "choosing.md"),
    (r"kernel '…' (takes|needs)|the [\w…]+ kernel (takes|needs)", "choosing.md"),
    (r"^sim:|csrc/sim|barrier|__sync|shared memory", "mistakes.md"),
    ("_compile|compiling|CUDA source", "first-kernel.md"),
    ("opencl", "opencl.md"),
    ("rdf|trajector|frames|box", "rdf.md"),
    ("jacobi|stencil|sparse|poisson|CSR", "jacobi.md"),
    ("matmul", "matmul.md"),
    ("transpose|axes", "transpose.md"),
    ("reduce|where=|initial", "sums.md"),
    ("dlpack|array_interface|cupy|torch|DeviceArray", "arrays.md"),
    ("ladder|benchmark|sweep|Timer|timing", "measuring.md"),
    ("course", "course.md"),
    ("states|merge|finish|exact", "same-bits.md"),
    ("dask", "scaling-out.md"),
    ("profile|occupancy|matplotlib|draw", "counting.md"),
    ("device|kernel|memory|explain|set_num_threads", "choosing.md"),
    ("broadcast|shape|output array|output has|out is|out=|array", "troubleshooting.md"),
    ("", "guarantees.md"),
)


def of_core() -> list[tuple[str, str]]:
    """(sentence, file) of the C sources."""
    found = []
    for path in sorted((ROOT / "csrc").rglob("*.[ch]*")):
        if path.suffix not in (".c", ".h", ".cu", ".inc"):
            continue
        for call in _FAIL.finditer(path.read_text()):
            literals = _LITERALS.search(call[1])
            strings = _STRINGS.finditer(literals[0]) if literals else ()
            parts = [m[1] if m[1] is not None else "d" for m in strings]
            text = _FORMAT.sub("…", "".join(parts).replace('\\"', '"').replace("%%", "%\0"))
            found.append((text.replace("\0", ""), path.relative_to(ROOT).as_posix()))
    return found


def _words(node: ast.expr) -> str:
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    if isinstance(node, ast.JoinedStr):
        return "".join(_words(v) if isinstance(v, ast.Constant) else "…" for v in node.values)
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        return _words(node.left) + _words(node.right)
    return "…"


def of_python() -> list[tuple[str, str]]:
    found = []
    for path in sorted((ROOT / "gpuops").rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Raise) and isinstance(node.exc, ast.Call) and node.exc.args:
                text = _words(node.exc.args[0])
                found.append((text, path.relative_to(ROOT).as_posix()))
    return found


def page_of(sentence: str, path: str) -> str:
    said = f"{sentence}\n{path}"
    return next(page for about, page in PAGES if re.search(about, said))


def catalogue() -> list[tuple[str, str]]:
    """(sentence, page), each once, those with less than two words of their own left out."""
    made: dict[str, str] = {}
    for text, path in [*of_core(), *of_python()]:
        text = re.sub(r"…(?:\s*…)+", "…", " ".join(text.split()))
        text = re.sub(r"^\w+: this kernel ", "…: kernel '…' ", text)  # as refused_by() says it
        if len(re.findall(r"[A-Za-z]{3,}", text)) >= 3:
            made.setdefault(text, page_of(text, path))
    return sorted(made.items(), key=lambda pair: pair[0].lower())


if __name__ == "__main__":
    for text, page in catalogue():
        print(f"{page:20} {text}")

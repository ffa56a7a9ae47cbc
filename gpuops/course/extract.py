"""extract - a learner's CUDA source, out of whatever it is handed in as, without running it."""

from __future__ import annotations

import ast
import functools
import json
import os
import re
import shutil
from pathlib import Path
from typing import Any

from .._compile.simt import without_comments

_CODE = re.compile(r"[\n{;]")  # no path has one
_ENDINGS = (".cu", ".cl", ".cpp", ".txt", ".ipynb", ".py")
_MAGIC = re.compile(r"^%%kernel\b[^\n]*\n")


def source_of(kernel: Any, name: str = "KERNEL") -> str:
    """CUDA C++ of a string, a path (.cu, .ipynb, .py) or what `gpuops.compile` made.

    Of a notebook or a Python file it is the last string that is assigned to `name`, or, of a
    notebook, a cell that begins with ``%%kernel name``.
    """
    if hasattr(kernel, "source") and isinstance(kernel.source, str):
        return kernel.source
    if isinstance(kernel, str) and _CODE.search(kernel):
        return kernel.removeprefix("\ufeff")
    if isinstance(kernel, str) and Path(kernel).suffix not in _ENDINGS:
        raise ValueError(
            f"check: {kernel!r:.60} is no kernel: expected CUDA C++, `__global__ void ...`, "
            f"or the path of a file that ends in {', '.join(_ENDINGS)}"
        )
    if not isinstance(kernel, str | os.PathLike):
        raise TypeError(
            f"check: kernel is CUDA C++, a path, or what compile made, not {kernel!r:.60}"
        )
    path = Path(kernel)
    if not path.is_file():
        raise FileNotFoundError(f"check: there is no file {path}")
    if path.suffix not in (".ipynb", ".py"):
        text = _text(path)
        if not _CODE.search(text):
            raise ValueError(f"check: {path} holds no kernel")
        return text
    found = _assigned(_cells(path), name)
    if found is None:
        raise ValueError(
            f"check: {path} assigns no string to {name}, and has no %%kernel {name}"
        )
    return found


def _text(path: Path) -> str:
    """Whatever an editor made of an umlaut in a comment, or wrote before the first line to say
    that it is UTF-8, is no reason to grade nothing."""
    return path.read_text(encoding="utf-8-sig", errors="replace")


def _cells(path: Path) -> list[str]:
    if path.suffix == ".py":
        return [_text(path)]
    try:
        cells = json.loads(_text(path))["cells"]
        return ["".join(c["source"]) for c in cells if c["cell_type"] == "code"]
    except (ValueError, KeyError, TypeError):
        raise ValueError(f"check: {path} is no notebook") from None


def _assigned(cells: list[str], name: str) -> str | None:
    found = None
    for text in cells:
        if _MAGIC.match(text):
            if text.split("\n", 1)[0].split()[1:2] == [name]:
                found = _MAGIC.sub("", text)
            continue
        # Other magics are no Python; neither is a cell that was left half written.
        plain = "\n".join("" if re.match(r"\s*[%!?]", x) else x for x in text.split("\n"))
        try:
            tree = ast.parse(plain)
        except SyntaxError:
            continue
        for node in ast.walk(tree):
            if isinstance(node, ast.Assign) and isinstance(node.value, ast.Constant):
                names = [t.id for t in node.targets if isinstance(t, ast.Name)]
                if name in names and isinstance(node.value.value, str):
                    found = node.value.value
    return found


@functools.cache
def starter_of(stem: str, name: str) -> str:
    """The kernel that an exercise begins with: `name` in the notebook whose name begins so."""
    for path in Path(__file__).with_name("notebooks").glob(f"{stem}-*.ipynb"):
        return source_of(path, name)
    return ""


def is_same(one: str, other: str) -> bool:
    """Whether two sources differ in comments, blanks and empty statements at most."""
    return _tokens(one) == _tokens(other)


def _tokens(source: str) -> list[str]:
    found: list[str] = []
    for token in re.findall(r"\w+|[^\w\s]", without_comments(source)):
        if token != ";" or (found and found[-1] not in ";{}"):
            found.append(token)
    return found


def copy_notebooks(folder: str | os.PathLike[str]) -> list[Path]:
    """Copies the exercises' notebooks into a folder, with the pages that explain their words;
    notebooks that are there already stay."""
    to = Path(folder)
    to.mkdir(parents=True, exist_ok=True)
    made = []
    for path in sorted(Path(__file__).with_name("notebooks").glob("*.ipynb")):
        if not (to / path.name).exists():
            shutil.copy(path, to / path.name)
            made.append(to / path.name)
    for path in Path(__file__).with_name("notebooks").glob("*.md"):
        shutil.copy(path, to / path.name)
    return made

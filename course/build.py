"""build - makes the notebooks of the course from their sources, an exercise and a solution each.

    python course/build.py            writes both
    python course/build.py --check    fails where a notebook is not what its source gives

A source is Python in jupytext's percent format. Lines between `#- exercise` and `#- solution`
are the exercise's alone, those up to `#- end` the solution's. Exercises travel with the package,
the solutions' notebooks do not, their kernels encoded: for who has all points.
"""

import base64
import json
import re
import sys
import zlib
from pathlib import Path

HERE = Path(__file__).resolve().parent
EXERCISES = HERE.parent / "gpuops" / "course" / "notebooks"
SOLUTIONS = HERE / "solutions"
DOCS = HERE.parent / "docs"
WORDS = ("cuda-words.md", "glossary.md")  # pages that travel with the notebooks
_GOAL = re.compile(r"\*\*Goal\.\*\* (.*?\.)(?= |$)")
_CELL = re.compile(r"^# %%( \[markdown\])?$")
LICENCE = "*Text and figures: [CC-BY 4.0](https://creativecommons.org/licenses/by/4.0/).*"


def sources():
    return sorted(HERE.glob("[0-9][0-9]-*.py"))


def chosen(text: str, kind: str) -> list[str]:
    """The lines of an exercise or of a solution."""
    made, here = [], None
    for line in text.splitlines():
        mark = line.strip()
        if mark in ("#- exercise", "#- solution"):
            here = mark[3:]
        elif mark == "#- end":
            here = None
        elif here in (None, kind):
            made.append(line)
    return made


def cells(text: str, kind: str) -> list[tuple[str, str]]:
    """Pairs of cell type and source."""
    found: list[tuple[str, list[str]]] = []
    for line in chosen(text, kind):
        if mark := _CELL.match(line):
            found.append(("markdown" if mark[1] else "code", []))
        elif found:
            found[-1][1].append(line)
    made = []
    for which, lines in found:
        if which == "markdown":
            lines = [line.removeprefix("#").removeprefix(" ") for line in lines]
        made.append((which, "\n".join(lines).strip("\n")))
    return made


def headed(path: Path) -> tuple[str, str]:
    """A notebook's title and its goal."""
    first = cells(path.read_text(), "exercise")[0][1]
    goal = _GOAL.search(" ".join(first.split()))
    return first.splitlines()[0].strip("# "), goal[1] if goal else ""


def ending(path: Path) -> str:
    """What every notebook ends with: where its words are explained, and what is next."""
    names = sources()
    words = (
        "Words: [CUDA's and OpenCL's](cuda-words.md), [the glossary](glossary.md). "
        "What you have done: `gpuops.course.progress()`."
    )
    if path == names[-1]:
        then = "**Next.** That was the last one: take a kernel of your own to `gpuops.compile`."
    else:
        after = names[names.index(path) + 1]
        title, goal = headed(after)
        then = f"**Next.** [{title}]({after.stem}.ipynb). {goal}"
    return f"{then}\n\n{words}\n\n{LICENCE}"


def notebook(path: Path, kind: str) -> str:
    """The notebook's text, canonical: no outputs, keys sorted, cells named by their number."""
    made = []
    found = [*cells(path.read_text(), kind), ("markdown", ending(path))]
    for k, (which, source) in enumerate(found):
        cell = {
            "cell_type": which,
            "id": f"{path.stem}-{k:02}",
            "metadata": {},
            "source": source.splitlines(keepends=True),
        }
        if which == "code":
            cell |= {"execution_count": None, "outputs": []}
        made.append(cell)
    book = {
        "cells": made,
        "metadata": {
            "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
            "language_info": {"name": "python"},
        },
        "nbformat": 4,
        "nbformat_minor": 5,
    }
    return json.dumps(book, indent=1, sort_keys=True, ensure_ascii=False) + "\n"


def travelling(text: str) -> str:
    """A page without its links to pages that stay behind."""
    return re.sub(
        r"\[([^\]]+)\]\(([^)]*[.#/][^)]*)\)",
        lambda m: m[0] if m[2].partition("#")[0] in WORDS or "//" in m[2] else m[1],
        text,
    )


def twins():
    """(file, text) of every notebook, and of the pages that travel with them."""
    for path in sources():
        yield EXERCISES / f"{path.stem}.ipynb", notebook(path, "exercise")
        yield SOLUTIONS / f"{path.stem}.ipynb", notebook(path, "solution")
    for name in WORDS:
        yield EXERCISES / name, travelling((DOCS / name).read_text())
    yield EXERCISES.parent / "solutions.json", solutions()


def solutions() -> str:
    """The solutions as `gpuops.course.solution` reads them: encoded, so that nobody sees one in
    passing, and no secret."""
    found = {}
    for path in sources():
        text = "\n".join(chosen(path.read_text(), "solution"))
        strings = dict(re.findall(r'^([A-Z_]+) = r"""(.*?)^"""$', text, re.M | re.S))
        for task, name in re.findall(r'check\("(\w+)", ([A-Z_]+)\)', text):
            packed = zlib.compress(strings[name].encode(), 9)
            found[task] = base64.b64encode(packed).decode()
    return json.dumps(found, indent=1, sort_keys=True) + "\n"


def main() -> None:
    stale = []
    for path, text in twins():
        if path.exists() and path.read_text() == text:
            continue
        stale.append(path.name)
        if "--check" not in sys.argv:
            path.parent.mkdir(exist_ok=True)
            path.write_text(text)
    if stale and "--check" in sys.argv:
        sys.exit(f"course/build.py: not what their sources give: {', '.join(stale)}")


if __name__ == "__main__":
    main()

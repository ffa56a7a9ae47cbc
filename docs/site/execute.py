"""execute - runs the notebooks and keeps what they print.

    python docs/site/execute.py [NAME ...]

Those of notebooks/ keep their outputs themselves. Exercises of the course travel without any,
so theirs go to docs/outputs, from where stage.py brings them to the cells that are the same.
"""

from __future__ import annotations

import os
import pathlib
import re
import sys
import tempfile

import nbclient
import nbformat

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
OUTPUTS = ROOT / "docs" / "outputs"
EXERCISES = ROOT / "gpuops" / "course" / "notebooks"


def execute(path: pathlib.Path) -> nbformat.NotebookNode:
    book = nbformat.read(path, as_version=4)
    with tempfile.TemporaryDirectory() as folder:
        os.environ["XDG_DATA_HOME"] = folder  # so each exercise is checked for the first time
        where = {"metadata": {"path": folder}}
        nbclient.NotebookClient(
            book, timeout=600, kernel_name="python3", resources=where
        ).execute()
    for cell in book.cells:
        cell.metadata.pop("execution", None)
        for k, output in enumerate(cell.get("outputs", ()), 1):
            output.pop("execution_count", None)
            if output.output_type == "execute_result":
                output.execution_count = cell.execution_count = k
            for kind, text in output.get("data", {}).items():
                if isinstance(text, str):
                    output["data"][kind] = plain(text)
            if "text" in output:
                output["text"] = plain(output["text"])
        if cell.cell_type == "code":
            cell.execution_count = None
            for output in cell.outputs:
                if output.output_type == "execute_result":
                    output.execution_count = None
    book.metadata.language_info = {"name": "python"}
    return book


def plain(text: str) -> str:
    """Without folders of this machine."""
    text = text.replace(str(ROOT) + "/", "").replace(str(pathlib.Path.home()), "~")
    return re.sub(r"/tmp/(tmp|ipykernel_)\w+", "/tmp", text)


def main() -> None:
    os.environ["PYTHONPATH"] = str(ROOT)
    named = set(sys.argv[1:])
    for path in [
        *sorted((ROOT / "notebooks").glob("*.ipynb")),
        *sorted(EXERCISES.glob("*.ipynb")),
    ]:
        if named and path.stem not in named:
            continue
        book = execute(path)
        to = OUTPUTS / path.name if path.parent == EXERCISES else path
        to.parent.mkdir(exist_ok=True)
        text = nbformat.writes(book)
        to.write_text(text + "\n")
        print(f"{path.stem}: {len(text) // 1024} KiB", flush=True)


if __name__ == "__main__":
    main()

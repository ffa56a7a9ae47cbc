"""The course from a shell: python -m gpuops.course check 03 kernel.cu, list, copy FOLDER."""

from __future__ import annotations

import argparse
import signal
import sys
from pathlib import Path

from ..errors import Error
from . import TASKS, check, class_csv, copy_notebooks, source_of
from .checking import task_of
from .settings import validate


def _check(asked: argparse.Namespace) -> int:
    to_stdout = asked.json == "-"
    try:
        name = asked.name or task_of(asked.task).variable
        source = source_of(asked.kernel, name)
        score = check(asked.task, source, settings=asked.settings, quiet=True)
        if not to_stdout:
            print(score)
        if asked.json and not to_stdout:
            Path(asked.json).write_text(score.json() + "\n")
    except (KeyError, OSError, ValueError, Error) as error:
        own = isinstance(error, KeyError) or (isinstance(error, OSError) and not error.errno)
        print(error.args[0] if own else error, file=sys.stderr)
        return 2
    if to_stdout:
        print(score.json())
    return 0 if score.passed else 1


def _validate(asked: argparse.Namespace) -> int:
    try:
        said = validate(asked.file)
    except (OSError, ValueError) as error:
        said = [str(error)]
    print("\n".join(said) if said else f"{asked.file}: nothing is wrong", file=sys.stdout)
    return 2 if said else 0


def _table(asked: argparse.Namespace) -> int:
    try:
        print(class_csv(asked.scores), end="")
    except OSError as error:
        print(error, file=sys.stderr)
        return 2
    return 0


def _list(_asked: argparse.Namespace) -> int:
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # `head` may close the pipe
    for task in TASKS.values():
        print(f"{task.name:4} {task.title:32} {task.signature}")
    return 0


def _copy(asked: argparse.Namespace) -> int:
    made = copy_notebooks(asked.folder)
    there = len(list(Path(asked.folder).glob("*.ipynb"))) - len(made)
    stay = f"; {there} that were there stay: delete one to get it anew" if there else ""
    print(f"{len(made)} notebooks copied to {asked.folder}{stay}")
    return 0


def main(words: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m gpuops.course", description=__doc__)
    verbs = parser.add_subparsers(required=True)
    one = verbs.add_parser("check", help="run a kernel on an exercise's cases and score it")
    one.add_argument("task", help="the exercise, 03")
    one.add_argument("kernel", help="a .cu file, or the .ipynb or .py that holds it")
    one.add_argument("--name", help="of the string in a notebook (the exercise's own)")
    one.add_argument("--settings", help="a lecturer's file of shapes, seeds and points")
    one.add_argument(
        "--json", help="write the score there, in Gradescope's format; - prints it"
    )
    one.set_defaults(does=_check)
    verbs.add_parser("list", help="the exercises and their kernels").set_defaults(does=_list)
    lecturers = verbs.add_parser("validate", help="say what is wrong in a file of settings")
    lecturers.add_argument("file")
    lecturers.set_defaults(does=_validate)
    table = verbs.add_parser("table", help="a class's scores as CSV, of what --json wrote")
    table.add_argument("scores", nargs="+", help="score.json of each submission")
    table.set_defaults(does=_table)
    copy = verbs.add_parser("copy", help="copy the exercises' notebooks into a folder")
    copy.add_argument("folder")
    copy.set_defaults(does=_copy)
    asked = parser.parse_args(words)
    return asked.does(asked)


if __name__ == "__main__":
    sys.exit(main())

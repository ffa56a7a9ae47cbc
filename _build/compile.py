"""compile - runs compilers in parallel, and only where something changed."""

import fcntl
import os
import shlex
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


class CompileError(Exception):
    """A compiler or linker failed; the text is what it said."""


@dataclass(frozen=True)
class Step:
    """One file made by one command. `-MMD -MF depfile` in the command finds its headers."""

    output: Path
    command: tuple[str, ...]
    inputs: tuple[Path, ...]

    @property
    def depfile(self) -> Path:
        return self.output.with_name(self.output.name + ".d")

    @property
    def stamp(self) -> Path:
        return self.output.with_name(self.output.name + ".cmd")

    def signature(self) -> str:
        # -Werror changes no object: `pip install` and `make build` share their objects.
        return shlex.join(word for word in self.command if "-Werror" not in word)

    def is_current(self) -> bool:
        try:
            made = self.output.stat().st_mtime_ns
            if self.stamp.read_text() != self.signature():
                return False
            needed = [*self.inputs, *read_depfile(self.depfile)]
            return all(path.stat().st_mtime_ns < made for path in needed)
        except OSError:  # something is missing: a header that went away counts as a change
            return False

    def run(self) -> None:
        self.output.parent.mkdir(parents=True, exist_ok=True)
        self.stamp.unlink(missing_ok=True)
        call(self.command)
        self.stamp.write_text(self.signature())


def read_depfile(path: Path) -> list[Path]:
    """The headers of a make rule `output: a b \\ c`; none where the step writes no rule."""
    if not path.exists():
        return []
    # gcc writes `a.o: b`, nvcc `a.o : b`.
    rule = path.read_text().replace("\\\n", " ").partition(": ")[2]
    return [ROOT / word for word in shlex.split(rule)]


def call(command: tuple[str, ...]) -> str:
    """Runs a command in the repository's root; returns what it printed, or raises with it."""
    try:
        done = subprocess.run(
            command,
            cwd=ROOT,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
        )
    except OSError as error:
        raise CompileError(f"{command[0]}: {error.strerror}") from error
    if done.returncode != 0:
        raise CompileError(f"{shlex.join(command)}\n{done.stdout.strip()}")
    return done.stdout


def workers() -> int:
    asked = os.environ.get("MAX_JOBS")
    if asked:
        return max(1, int(asked))
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def run_steps(steps: list[Step]) -> int:
    """Runs the steps that are not current; returns how many. The first failure is raised."""
    folder = ROOT / "build"
    folder.mkdir(exist_ok=True)
    with open(folder / ".lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # of two builds at once, the later finds all made
        return _run_steps(steps)


def _run_steps(steps: list[Step]) -> int:
    todo = [step for step in steps if not step.is_current()]
    # The biggest sources first: one left for the end would keep the other workers waiting.
    todo.sort(key=lambda step: -sum(path.stat().st_size for path in step.inputs))
    with ThreadPoolExecutor(workers()) as pool:
        for step, future in [(step, pool.submit(step.run)) for step in todo]:
            try:
                future.result()
            except CompileError:
                pool.shutdown(cancel_futures=True)
                raise
            print(f"built {step.output.parent.name}/{step.output.name}", file=sys.stderr)
    return len(todo)

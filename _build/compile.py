"""compile - runs compilers in parallel, and only where something changed."""

import fcntl
import os
import re
import shlex
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


class CompileError(Exception):
    """A compiler or linker failed: a sentence; `log` is the command and all that it said."""

    def __init__(self, command: tuple[str, ...], said: str):
        super().__init__(f"{what_failed(command, said)}: {first_error(said)}")
        self.log = f"{shlex.join(command)}\n\n{said.strip()}\n"


# Objects of as many kernels as take half a minute and more, and short files that are compiled
# as one (together.py); of others the source's size tells.
LONGEST = ["columns", "vectorized", "guessed", "indexed", "tree", "balanced", "wgmma_f16_sm90",
           "gemv_col", "mma_sm80", "regular", "gemv_row", "rows", "together"]  # fmt: skip


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
        # -Werror changes no object: `pip install` and `make build` share their objects. Nor
        # does the folder of it all: a clone may be moved, or copied with its objects.
        words = (word for word in self.command if "-Werror" not in word)
        return shlex.join(words).replace(f"{ROOT}/", "").replace(str(ROOT), "")

    def is_current(self) -> bool:
        try:
            began = self.output.stat().st_mtime_ns
            if self.stamp.read_text() != self.signature():
                return False
            needed = [*self.inputs, *read_depfile(self.depfile)]
            return all(path.stat().st_mtime_ns <= began for path in needed)
        except OSError:  # something is missing: a header that went away counts as a change
            return False

    def run(self) -> None:
        """Runs the command. The output's time is that of the start, by the file system's clock:
        what is edited while it compiles is newer."""
        self.output.parent.mkdir(parents=True, exist_ok=True)
        self.stamp.write_text("")
        began = self.stamp.stat().st_mtime_ns
        seconds = run(self.command)[1]
        os.utime(self.output, ns=(began, began))
        self.stamp.write_text(self.signature())
        self.output.with_name(self.output.name + ".seconds").write_text(f"{seconds:.2f}")


def read_depfile(path: Path) -> list[Path]:
    """The headers of a make rule `output: a b \\ c`; none where the step writes no rule."""
    if not path.exists():
        return []
    # gcc writes `a.o: b`, nvcc `a.o : b`.
    rule = path.read_text().replace("\\\n", " ").partition(": ")[2]
    return [ROOT / word for word in shlex.split(rule)]


def call(command: tuple[str, ...]) -> str:
    """Runs a command in the repository's root; returns what it printed, or raises with it."""
    return run(command)[0]


def run(command: tuple[str, ...]) -> tuple[str, float]:
    """The same, and the processor's seconds of it and of what it called."""
    try:
        process = subprocess.Popen(
            command,
            cwd=ROOT,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
        )
    except OSError as error:
        raise CompileError(command, f"{command[0]}: {error.strerror}") from error
    with process:
        said = process.stdout.read()
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode != 0:
        raise CompileError(command, said)
    return said, usage.ru_utime + usage.ru_stime


def what_failed(command: tuple[str, ...], said: str) -> str:
    """The tool, its file and the architecture: "nvcc failed on csrc/cuda/add.cu for 75"."""
    text = f"{Path(command[0]).name} failed"
    if "-c" in command:
        text += f" on {os.path.relpath(ROOT / command[command.index('-c') + 1], ROOT)}"
    archs = re.findall(r"arch=compute_(\w+),code=\[sm", shlex.join(command))
    # Of several architectures, nvcc's temporary files have the name of one.
    told = re.search(r"\.compute_(\w+)\.", said)
    if told or len(archs) == 1:
        return f"{text} for {told[1] if told else archs[0]}"
    return f"{text} for one of {' '.join(archs)}" if archs else text


def first_error(said: str) -> str:
    lines = said.strip().splitlines() or ["it said nothing"]
    wanted = re.compile(r"\b(error|fatal|undefined reference)\b")
    found = next(filter(wanted.search, lines), lines[-1])
    return " ".join(re.sub(r"\S*tmpxft\S* line \d+;", "", found).split())[:300]


def workers() -> int:
    asked = os.environ.get("MAX_JOBS")
    if asked:
        return max(1, int(asked))
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def run_steps(steps: list[Step], name: str = "") -> int:
    """Runs the steps that are not current; returns how many. The first failure is raised. With
    a name it is told how far they are."""
    folder = ROOT / "build"
    folder.mkdir(exist_ok=True)
    with open(folder / ".lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # of two builds at once, the later finds all made
        return _run_steps(steps, name)


def place_in_line(step: Step) -> tuple[int, int]:
    """The higher, the longer it is expected to take."""
    name = step.output.stem
    rank = len(LONGEST) - LONGEST.index(name) if name in LONGEST else 0
    return rank, sum(path.stat().st_size for path in step.inputs)


def _run_steps(steps: list[Step], name: str) -> int:
    todo = [step for step in steps if not step.is_current()]
    # What takes longest first: one left for the end would keep the other workers waiting.
    todo.sort(key=place_in_line, reverse=True)
    with ThreadPoolExecutor(workers()) as pool:
        running = {pool.submit(step.run): step for step in todo}
        for count, future in enumerate(as_completed(running), 1):
            try:
                future.result()
            except CompileError:
                pool.shutdown(cancel_futures=True)
                raise
            if name:
                made = "/".join(running[future].output.parts[-2:])
                print(f"{name}: {count} of {len(todo)}, {made}", file=sys.stderr)
    return len(todo)

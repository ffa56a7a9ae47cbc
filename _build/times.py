"""times - what compiling took: `make build-times` prints a table, the longest files first.

Seconds are the processor's, of the last time that a file was compiled, by whatever machine that
was; a file that was not compiled since these are kept has none. Kernels are those of an object
of nvcc's: each is a function for every architecture.
"""

import re
import subprocess
import sys
from pathlib import Path

from .compile import ROOT

OBJECTS = ROOT / "build" / "objects"
STUB = re.compile(r"__device_stub__(\w+?)E\d*__")
LONGEST = 25  # files that are listed


def kernels(made: Path) -> int:
    """How many kernels the object has: nvcc makes a function that launches each."""
    said = subprocess.run(["nm", made], capture_output=True, text=True, check=False).stdout
    return len(set(STUB.findall(said)))


def rows() -> list[tuple[str, float, int, int]]:
    """(file, seconds, kernels, bytes) of every object."""
    found = []
    for made in OBJECTS.rglob("*.o"):
        name = made.relative_to(OBJECTS)
        noted = made.with_name(made.name + ".seconds")
        seconds = float(noted.read_text()) if noted.exists() else 0.0
        of = kernels(made) if name.parts[0] == "cuda" else 0
        found.append((str(name.with_suffix("")), seconds, of, made.stat().st_size))
    return sorted(found, key=lambda row: -row[1])


def main() -> int:
    found = rows()
    if not found:
        print("build-times: nothing is built, expected a build before: make build")
        return 1
    print(f"{'seconds':>8} {'kernels':>8} {'MB':>7}  file")
    backends = dict.fromkeys(name.split("/")[0] for name, *_ in found)
    for backend in backends:
        own = [row for row in found if row[0].split("/")[0] == backend]
        line(f"{backend}: {len(own)} files", *(sum(row[i] for row in own) for i in (1, 2, 3)))
    for row in found[:LONGEST]:
        line(*row)
    return 0


def line(name: str, seconds: float, count: int, size: int) -> None:
    print(f"{seconds:8.1f} {count or '':>8} {size / 1e6:7.2f}  {name}")


if __name__ == "__main__":
    sys.exit(main())

"""demo - `python -m gpuops demo`: the six operations against NumPy, then water's g(r)."""

from __future__ import annotations

import argparse
import contextlib
import gzip
import importlib.util
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import gpuops

from .devices import parse
from .timing import duration

# ---- the operations against NumPy ----


@dataclass(frozen=True)
class Case:
    """A call of gpuops, and what one writes with NumPy for the same result."""

    name: str
    size: str
    call: tuple[Callable[..., Any], tuple, dict[str, Any]]
    numpy: Callable[[], np.ndarray]


def _distances(points: np.ndarray, edges: np.ndarray) -> np.ndarray:
    counts = np.zeros(len(edges) - 1, np.int64)
    for i in range(len(points) - 1):
        d = points[i + 1 :] - points[i]
        counts += np.histogram(np.sqrt((d * d).sum(axis=1)), edges)[0]
    return counts


def cases() -> list[Case]:
    """Sizes at which the work, not the call, takes the time: a few seconds for all of them."""
    rng = np.random.default_rng(2026)

    def random(*shape):
        return rng.random(shape, np.float32)

    a, b = random(1 << 24), random(1 << 24)
    square, left, right = random(4096, 4096), random(1024, 1024), random(1024, 1024)
    matrix = random(4096, 4096) + 4096 * np.eye(4096, dtype=np.float32)
    f, x = random(4096), random(4096)
    points, edges = rng.random((5000, 3)), np.linspace(0, 1, 101)
    return [
        Case("add", "2^24 float32", (gpuops.add, (a, b), {}), lambda: a + b),
        Case("transpose", "4096^2 float32", (gpuops.transpose, (square,), {}),
             lambda: np.ascontiguousarray(square.T)),
        Case("reduce", "sum of 2^24 float32", (gpuops.reduce, (a, "sum"), {}), lambda: a.sum()),
        Case("matmul", "1024^3 float32", (gpuops.matmul, (left, right), {}),
             lambda: left @ right),
        Case("jacobi_step", "4096^2 float32", (gpuops.jacobi_step, (matrix, f, x), {}),
             lambda: x + (f - matrix @ x) / np.diagonal(matrix)),
        Case("rdf", "5000 points float64", (gpuops.rdf, (points, None, edges), {}),
             lambda: _distances(points, edges)),
    ]  # fmt: skip


def difference(result: np.ndarray, expected: np.ndarray) -> float:
    """The largest difference over the largest value: 0 if there is none."""
    kind = np.float64 if expected.dtype.kind == "f" else np.int64
    a, b = np.asarray(result, kind), expected.astype(kind)
    largest = np.abs(b).max()
    return float(np.abs(a - b).max() / (largest if largest else 1))


def compare(case: Case, device: str, expected: np.ndarray, numpy_time: float) -> list[str]:
    """One line of the table."""
    function, args, kwargs = case.call
    kwargs = {**kwargs, "device": device}
    # Warm caches, as NumPy has them.
    timing = gpuops.benchmark(function, args, kwargs, n_repeat=5, n_warmup=1, cold=False)
    result = function(*args, **kwargs)
    result = getattr(result, "counts", result)
    return [
        case.name, case.size, device, timing.name or "", duration(timing.kernel),
        duration(timing.total), duration(numpy_time), f"{numpy_time / timing.total:.2f}",
        f"{difference(result, expected):.1g}",
    ]  # fmt: skip


HEAD = ["op", "size", "device", "kernel", "compute", "total", "NumPy", "speed-up", "rel.diff"]


def _print_row(cells: list[str]) -> None:
    widths = (11, 19, 6, 11, 7, 7, 7, 8, 8)
    aligned = [
        cell.ljust(width) if i < 4 else cell.rjust(width)
        for i, (cell, width) in enumerate(zip(cells, widths, strict=True))
    ]
    print("  ".join(aligned).rstrip(), flush=True)


@contextlib.contextmanager
def step(words: str) -> Iterator[None]:
    """Says what runs now, only on a terminal, and takes the words back afterwards."""
    shown = sys.stderr.isatty()
    if shown:
        print(f"{words} ...", end="", file=sys.stderr, flush=True)
    try:
        yield
    finally:
        if shown:
            print("\r\x1b[K", end="", file=sys.stderr, flush=True)


def print_table(devices: list[str]) -> None:
    _print_row(HEAD)
    all_cases = cases()
    for i, case in enumerate(all_cases, 1):
        place = f"[{i}/{len(all_cases)}] {case.name}"
        with step(f"{place} with NumPy"):
            expected = np.asarray(case.numpy())
            numpy_time = float(gpuops.benchmark(case.numpy, n_repeat=3, n_warmup=1).total)
        for device in devices:
            with step(f"{place} on {device}"):
                line = compare(case, device, expected, numpy_time)
            _print_row(line)
    print(
        "\ncompute: only the kernel; total: with transfers to a GPU and back, into a result "
        "that is\nthere, as with out= (NumPy makes a new one); speed-up: NumPy / total; "
        "rel.diff: the largest\ndifference over the largest value (half a unit of float32's "
        "last place is 6e-08).\n"
    )


# ---- water ----


@dataclass(frozen=True)
class Frame:
    """Atoms of one frame of a simulation, in nm."""

    names: np.ndarray
    points: np.ndarray
    box: np.ndarray
    molecules: np.ndarray  # a number each


def read_gro(path: Path) -> Frame:
    """Reads the first frame of a GROMACS .gro file: a title, a count, atoms, the box."""
    with gzip.open(path, "rt") if path.suffix == ".gz" else open(path) as file:
        next(file)
        lines = [next(file) for _ in range(int(next(file)))]
        box = [float(word) for word in next(file).split()]
    names = np.array([line[10:15].strip() for line in lines])
    residues = np.array([line[:10] for line in lines])  # their numbers start again at 100,000
    molecules = np.cumsum(np.append(True, residues[1:] != residues[:-1])[: len(lines)])
    points = np.array([[line[20:28], line[28:36], line[36:44]] for line in lines], np.float32)
    # The order of the box: v1x v2y v3z, then v1y v1z v2x v2z v3x v3y unless all are zero.
    xx, yy, zz, xy, xz, yx, yz, zx, zy = box + [0.0] * (9 - len(box))
    rows = np.array([[xx, xy, xz], [yx, yy, yz], [zx, zy, zz]])
    return Frame(names, points, rows, molecules)


def find_water() -> Path | None:
    """A protein in 11,084 water molecules, from the package MDAnalysisTests."""
    spec = importlib.util.find_spec("MDAnalysisTests")  # found, not imported
    places = (spec and spec.submodule_search_locations) or []
    files = [Path(place) / "data" / "adk_oplsaa.gro" for place in places]
    return next((file for file in files if file.is_file()), None)


def water_rdf(frame: Frame, device: str | None) -> gpuops.RdfResult:
    """O-O, O-H and H-H at once, of different molecules; all other atoms are left out."""
    element = {"OW": "O", "HW1": "H", "HW2": "H"}
    types = [element.get(name) for name in frame.names]
    return gpuops.rdf(
        frame.points, 1.2, 240, types=types, exclude=frame.molecules, box=frame.box,
        device=device,
    )  # fmt: skip


def curves(result: gpuops.RdfResult) -> dict[str, np.ndarray]:
    at = {name: i for i, name in enumerate(result.types)}
    return {f"{s}-{t}": result.g[at[s], at[t]] for s, t in ("OO", "OH", "HH")}


def tail(frame: Frame, result: gpuops.RdfResult) -> tuple[float, str]:
    """What O-O tends to, and why that is not 1 where water shares the box."""
    end = float(curves(result)["O-O"][result.r > 1.0].mean())
    # MW is a site of some models of water that has a charge and no volume.
    others = int((~np.isin(frame.names, ["OW", "HW1", "HW2", "MW"])).sum())
    if not others:
        return end, f"at the end g = {end:.3f}; 1 is water without structure"
    return end, (
        f"at the end g = {end:.3f}, not 1: the density is that of water spread over the whole "
        f"box,\nof which {others} other atoms, the protein's above all, take a part"
    )


def draw(result: gpuops.RdfResult, title: str, output: Path, end: float) -> None:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7, 4.5), layout="constrained")
    axes = figure.add_subplot()
    for name, g in curves(result).items():
        axes.plot(result.r, g, label=name)
    label = f"{end:.2f}: water without structure, in what the rest leaves of the box"
    axes.axhline(end, color="0.7", linewidth=0.8, zorder=0, label=label)
    axes.set(xlabel="distance r (nm)", ylabel="g(r) (dimensionless)", title=title)
    axes.set(xlim=(0.1, 1.2), ylim=(0, None))
    axes.legend(frameon=False)
    figure.savefig(output, dpi=150)


def water(path: Path, output: Path, device: str | None) -> None:
    frame = read_gro(path)
    with step("the water's distances"), gpuops.Timer() as timer:
        result = water_rdf(frame, device)
    molecules = int((frame.names == "OW").sum())
    atoms = 3 * molecules
    print(
        f"water: {molecules} molecules of {path.name}, {atoms * (atoms - 1) // 2} pairs in "
        f"{duration(timer.seconds)} on {device or 'the device chosen by gpuops'}"
    )
    near = result.r < 0.35
    g = curves(result)["O-O"][near]
    print(f"first O-O peak: r = {result.r[near][g.argmax()]:.3f} nm, g = {g.max():.2f}")
    end, why = tail(frame, result)
    print(why)
    try:
        draw(result, f"Water around adenylate kinase, {molecules} molecules", output, end)
    except ImportError:
        print("no picture: it needs matplotlib; pip install matplotlib")
    else:
        print(f"wrote {output}")


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m gpuops demo",
        description="Times the six operations against NumPy, then computes the radial "
        "distribution functions of the water in a molecular dynamics simulation.",
    )
    parser.add_argument("--device", help="one device; by default the CPU, and a GPU if there")
    parser.add_argument("--output", type=Path, default=Path("demo.png"), help="the picture")
    parser.add_argument("--water", type=Path, help="another .gro file with waters OW HW1 HW2")
    arguments = parser.parse_args(argv)
    devices = [arguments.device] if arguments.device else ["cpu"]
    try:
        parse(devices[0])
    except (ValueError, gpuops.Error) as error:
        parser.error(str(error))
    if not arguments.device and gpuops.is_available("cuda"):
        devices.append("cuda")
    try:
        print_table(devices)
    except gpuops.Error as error:
        sys.exit(str(error))
    path = arguments.water or find_water()
    if path is None:
        print("no water: its data comes with MDAnalysisTests; pip install MDAnalysisTests")
        return 1
    water(path, arguments.output, devices[-1])
    return 0

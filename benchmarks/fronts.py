"""fronts - the few figures of benchmarks/results that README and the guides show.

`tables.py` places them.
"""

from __future__ import annotations

import json
import re
import sys

import plots
from results import ROOT, all_ladders, markdown, number, peers_of, rate, rows_of, time_text

# README's first screen: where it was timed, the case as on file, as people say it, beside whom.
FIGURES = (
    ("NVIDIA H200", "matmul", "8192 f4",
     "`matmul`, 8192 by 8192, float32, at float32's accuracy", "torch"),
    ("NVIDIA H200", "transpose", "16384² f4", "`transpose`, 16384 by 16384, float32", "torch"),
)  # fmt: skip
PAIRS = {"threads": 2, "points": 5000, "dtype": "float32", "r_max": "L/3"}
NAMES = {"cupy": "CuPy", "torch": "PyTorch", "numpy": "NumPy", "numexpr": "numexpr"}
# What README shows of a GPU and of a CPU.
ON_GPU = (
    ("add", "4 GiB f4"), ("transpose", "16384² f4"), ("reduce", "sum of 2^30 f4"),
    ("matmul", "8192 f4"), ("jacobi_step", "dense 16384² f4"), ("rdf", "500000 points f4"),
)  # fmt: skip
ON_CPU = (
    ("add", "768 MiB f4"), ("transpose", "8192² f4"), ("reduce", "sum of 2^27 f4"),
)  # fmt: skip
# precision= -> the case on file, the factor of the bound, what it is.
PRECISIONS = (
    ('`"highest"`, the default', "8192 f4",
     "k u on the CPU, (2 k + 4) u elsewhere", "all 24 bits of a float32"),
    ('`"fast"`', "8192 f4, fast", '9 u more than `"highest"`',
     "22 bits: each number is two float16"),
    ('`"tf32"`', "8192 f4, tf32", "2⁻⁹ + k u", "factors rounded to 11 bits, as TF32"),
    ('`"bf16"`', "8192 f4, bf16", "2⁻⁶ + k u", "factors rounded to 8 bits"),
)  # fmt: skip
# Of other programs' times of rdf those that the guide shows.
FEW_PAIRS = [(n, r) for n in (5_000, 20_000, 200_000) for r in ("L/20", "L/10")]


def of_device(every: list[dict], device: str) -> dict:
    return next(r for r in every if r["device"] == device)


def case(results: dict, op: str, name: str) -> dict | None:
    return next((r for r in rows_of(results) if (r["op"], r["case"]) == (op, name)), None)


def pairs() -> tuple[dict, list[dict]]:
    """The device and rows of benchmarks/rdf_peers.py."""
    results = json.loads(
        (ROOT / "benchmarks" / "results" / "rdf" / "amd-epyc.json").read_text()
    )
    return results, results["rows"]


def first_screen(every: list[dict]) -> str:
    """The picture of a ladder, and three figures."""
    lines = []
    results, rows = pairs()
    row = next(r for r in rows if all(r[k] == v for k, v in PAIRS.items()))
    times = row["seconds"]
    lines.append([
        f"g(r) of {row['points']:,} points up to a third of the box",
        f"{results['device']}, {row['threads']} threads", time_text(times["gpuops"]),
        f"MDAnalysis takes {times['MDAnalysis'] / times['gpuops']:.0f} times as long",
    ])  # fmt: skip
    for device, op, name, said, peer in FIGURES:
        row = case(of_device(every, device), op, name)
        others = f"{NAMES[peer]} takes {number(peers_of(row)[peer])} times as long"
        lines.append([said, device, time_text(row["seconds"]["gpuops"]), others])
    table = markdown(["what", "on", "gpuops", "another library"], lines)
    device = FIGURES[1][0]
    alt = f"the speed of each kernel of transpose on {device}, beside that of a copy"
    return f"{table}\n\n![{alt}]({picture_path(device, 'transpose')})"


def picture_path(device: str, op: str) -> str:
    """From the root, of the device that has this name."""
    stem = next(s for s, r in all_ladders().items() if r["device"] == device)
    return plots.picture_path(stem, op).relative_to(ROOT).as_posix()


def speed(every: list[dict]) -> str:
    """A row for each operation on a GPU, then those on file of a CPU."""
    said = []
    for device, rows in (("NVIDIA H200", ON_GPU), ("AMD EPYC", ON_CPU)):
        results = of_device(every, device)
        found = [case(results, *key) for key in rows]
        if None in found:
            sys.exit(f"the results of {device} lack a row that README shows")
        names = sorted({name for row in found for name in peers_of(row)})
        lines = []
        for row in found:
            others = peers_of(row)
            cells = [row["op"], row["case"], time_text(row["seconds"]["gpuops"]), rate(row)]
            lines.append(cells + [number(others[n]) if n in others else "" for n in names])
        head = ["operation", "case", "time", "rate", *(NAMES[n] for n in names)]
        threads = re.search(r"\d+ threads", results["detail"])
        on = f"{device}, {threads[0]}" if threads else device
        dates = sorted({results["ops"][op]["date"] for op, _ in rows})
        when = dates[0] if dates[0] == dates[-1] else f"{dates[0]} to {dates[-1]}"
        said.append(f"**{on}**, {when}\n\n{markdown(head, lines)}")
    return "\n\n".join(said)


def precisions(every: list[dict]) -> str:
    """The four classes of matmul: bound, and what was measured."""
    results = of_device(every, "NVIDIA H200")
    lines = []
    for word, name, bound, what in PRECISIONS:
        row = case(results, "matmul", name)
        cells = [time_text(row["seconds"]["gpuops"]), rate(row)] if row else ["not timed", ""]
        lines.append([word, what, bound, *cells])
    head = ["precision", "what it is", "off by at most", "8192 by 8192, H200", "rate"]
    return markdown(head, lines)


def few_pairs() -> str:
    """Some of the table of rdf_peers, float32, two threads."""
    results, rows = pairs()
    lines = []
    for n, r_max in FEW_PAIRS:
        key = {"threads": 2, "points": n, "dtype": "float32", "r_max": r_max}
        row = next(r for r in rows if all(r[k] == v for k, v in key.items()))
        ours = row["seconds"]["gpuops"]
        took = [row["seconds"].get(name) for name in ("Corrfunc", "freud", "MDAnalysis")]
        times = [f"{t / ours:,.1f}" if t else "–" for t in took]
        lines.append([f"{n:,}", r_max, time_text(ours), *times])
    said = f"{results['device']}, 2 threads, float32, {results['bins']} bins."
    head = ["points", "r_max", "gpuops", "Corrfunc", "freud", "MDAnalysis"]
    return f"{said}\n\n{markdown(head, lines)}"

"""ladder_pages - a page for each ladder: its kernels, their ideas, times, counts and sources.

Kernels come from the tables that the core runs by, times and counts from benchmarks/results. A
backend that this build lacks has no page; sim stands for CUDA, whose files it runs.
"""

from __future__ import annotations

import json
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "benchmarks"))
import plots  # noqa: E402
import tables  # noqa: E402
from tree import LADDERS  # noqa: E402

import gpuops  # noqa: E402

NAMES = {"cpu": "CPU", "cuda": "CUDA", "opencl": "OpenCL"}
LANGUAGE = {"cpu": "c", "cuda": "cuda", "opencl": "c"}
ROLES = {
    "production": "runs unasked, for the calls that it is fastest at",
    "lesson": "keeps every promise, runs by name",
    "teaching": "runs by name; a promise that it does not keep stands beside it",
    "yardstick": "is timed beside the others and is no answer",
    "candidate": "runs by name until its tests have run on a GPU",
}


def listed(op: str, backend: str):
    """The kernels of a ladder, or none."""
    for place in ("cuda", "sim") if backend == "cuda" else (backend,):
        try:
            return gpuops.kernels(op, place)
        except (gpuops.DeviceError, ValueError):
            continue
    return ()


def timed(op: str, backend: str) -> tuple[str, dict] | None:
    """(device's file, results) of the ladder on file for this backend."""
    for device, results in tables.all_ladders().items():
        on = "cuda" if "CUDA" in results["detail"] else "cpu"
        if on == backend and op in results["ops"]:
            return device, results
    return None


def counts(op: str) -> tuple[str, dict[str, list[str]]]:
    """What Nsight Compute counted: where, and kernel -> cells."""
    found: dict[str, list[str]] = {}
    said = ""
    for path in sorted((ROOT / "benchmarks" / "results" / "certificate").glob("*.json")):
        golden = json.loads(path.read_text())
        said = f"{golden['device']}, {golden['date']}, commit {golden['commit']}"
        for row, kernels in golden["rows"].items():
            of, name = row.split(" ", 1)
            if of != op:
                continue
            total = {
                key: sum(k[key] for k in kernels.values())
                for key in ("load sectors", "load requests", "store sectors", "store requests",
                            "wavefronts", "ideal wavefronts")
            }  # fmt: skip
            found[name] = [
                each(total["load sectors"], total["load requests"]),
                each(total["store sectors"], total["store requests"]),
                each(total["wavefronts"], total["ideal wavefronts"]),
            ]
    return said, found


def each(parts: float, of: float) -> str:
    return f"{parts / of:.2f}" if of else ""


def page(op: str, backend: str) -> str:
    kernels = listed(op, backend)
    title = f"{op} on {NAMES[backend]}"
    said = (
        f"For readers of kernels: the {len(kernels)} kernels of `{op}` on {NAMES[backend]}, in "
        "the order of reading. Each has one idea more than the one before."
    )
    lines = [f"# {title}", "", said, ""]
    head, seconds, counted = ["kernel", "role", "what is new"], {}, {}
    if on_file := timed(op, backend):
        device, results = on_file
        ladder = results["ops"][op]
        unit, bars = plots.rates(ladder)
        rate = {name: r for name, _, r in bars}
        seconds = {
            row["name"]: [tables.time_text(row["seconds"]), f"{rate[row['name']]:.4g}"]
            for row in ladder["rows"] if "seconds" in row
        }  # fmt: skip
        head += ["time", unit]
        lines += [f"Times: {ladder['call']}, {results['device']} ({results['detail']}), "
                  f"{ladder['date']}, commit {ladder['commit']}, medians with cold caches.", "",
                  f"![every kernel of {op} on {results['device']}](../plots/{op}-{device}.svg)",
                  ""]  # fmt: skip
    said, counted = counts(op) if backend == "cuda" else ("", {})
    if counted:
        head += ["sectors a load", "sectors a store", "wavefronts, of the fewest"]
        lines += [
            f"Counts: Nsight Compute on {said}, of the calls in `benchmarks/certify_rows.py`: "
            "[sectors](../glossary.md) of 32 bytes for each request of a warp, and turns of "
            "shared memory over the fewest possible. Empty: nothing was counted.", "",
        ]  # fmt: skip
    rows = []
    for k in kernels:
        note = k.note + (f" *{k.caveat}*" if k.caveat else "")
        cells = [f"[{k.name}](#{k.name})", k.role, cell(note)]
        cells += seconds.get(k.name, ["", ""]) if on_file else []
        cells += counted.get(k.name, ["", "", ""]) if counted else []
        rows.append(cells)
    lines += [tables.markdown(head, rows), ""]
    roles = [role for role in ROLES if any(k.role == role for k in kernels)]
    lines += [f"- *{role}*: {ROLES[role]}" for role in roles]
    lines += ["", "## The kernels", ""]
    for k in kernels:
        lines += [f"### {k.name}", "", cell(k.note[:1].upper() + k.note[1:]) + ".", ""]
        facts = [f"Types: {', '.join(k.dtypes)}."] if k.dtypes else []
        facts += [f"`params={{\"{name}\": ...}}`: {', '.join(map(str, values))}."
                  for name, values in k.tunables.items()]  # fmt: skip
        lines += [" ".join(facts), ""]
        try:
            text = gpuops.source(op, k.name, backend)
        except (ValueError, gpuops.Error):
            continue
        # An excerpt need not be a whole that a lexer takes: a row stands inside of a macro.
        fence = f"```{{code-block}} {LANGUAGE[backend]}\n:force:\n"
        lines += [f"````{{dropdown}} Source of {k.name}", fence, text.rstrip(), "```", "````"]
        lines += [""]
    return "\n".join(lines)


def cell(text: str) -> str:
    """Stars and bars of a note are no markup."""
    return re.sub(r"([|*_<\[])", r"\\\1", text)


def write(folder: pathlib.Path) -> None:
    """Every ladder's page, and the list of them."""
    (folder / "ladders").mkdir()
    rows, made = [], []
    for op in LADDERS["cuda"]:
        cells = [f"`{op}`"]
        for backend, ops in LADDERS.items():
            count = len(listed(op, backend)) if op in ops else 0
            if count:
                (folder / "ladders" / f"{op}-{backend}.md").write_text(page(op, backend))
                made.append(f"ladders/{op}-{backend}")
                cells.append(f"[{count} kernels](ladders/{op}-{backend}.md)")
            else:
                cells.append("–")
        rows.append(cells)
    table = tables.markdown(["operation", *NAMES.values()], rows)
    tree = ["```{toctree}", ":hidden:", "", *made, "```", ""]
    (folder / "ladders.md").write_text("\n".join([_HEAD, table, _FOOT, *tree]))


_HEAD = """# Ladders

For readers of kernels: all kernels of an operation, from the naive one to the fastest, each
with its idea, its source and, where it was measured, its time.
"""
_FOOT = """
`multiply_add` and `fma` have the kernels of `add`; `sum`, `min` and the other reductions have
those of `reduce`. In Python `gpuops.kernels("transpose")` lists them,
`gpuops.source("transpose", "tiled", "cuda")` shows one, and `gpuops.ladder("transpose", a)`
times them on your machine.

**To read a source.** A file of the CPU includes itself once for each dtype: what stands below
`#ifdef D` is compiled for dtype `D`, with `T` for its element type, and `FN(name)` is the name
with the dtype behind it. `GOP_TRY(call)` hands on an error of the call, `gop_interrupted` hears
Ctrl-C, `GOP_LAUNCH` starts a CUDA kernel. A row, at the end, is the kernel's entry in the
ladder: its name, its note, its plan, which says whether it takes a call and with which grid,
and its launch.
"""

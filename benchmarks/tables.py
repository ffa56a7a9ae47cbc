"""tables - writes what the documents say of benchmarks/results; nothing is typed.

python benchmarks/tables.py          rewrites what stands between the marks
python benchmarks/tables.py --check  fails if that would change something

README.md has the rows of docs/design.md, docs/benchmarks.md has all rows of every device,
docs/sim.md the certificate, which stands beside what sim counts and so needs that backend.
"""

from __future__ import annotations

import json
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import certificate

import gpuops

ROOT = pathlib.Path(__file__).resolve().parent.parent
RESULTS = ROOT / "benchmarks" / "results"
TOLERANCE = 0.01


def rate(row: dict) -> str:
    seconds = row["seconds"]["gpuops"]
    if row["op"] == "rdf":
        return f"{pairs_per_second(row) / 1e9:.0f} Gpairs/s"
    if row["op"] == "matmul":
        return f"{row['flops'] / seconds / 1e12:.3g} TFLOP/s"
    return f"{row['bytes'] / seconds / 1e9:.4g} GB/s"


def pairs_per_second(row: dict) -> float:
    n = row["shapes"][0][0]
    return n * (n - 1) / 2 / row["seconds"]["gpuops"]


def peers_of(row: dict) -> dict[str, float]:
    """name -> how many times as long as gpuops."""
    ours = row["seconds"]["gpuops"]
    return {name: s / ours for name, s in row["seconds"].items() if name != "gpuops"}


def copy_ratio(row: dict) -> float | None:
    return row["copy_seconds"] / row["seconds"]["gpuops"] if "copy_seconds" in row else None


def reached(row: dict, beside: str) -> float | None:
    """What a target is compared with; None where there was nothing to compare with."""
    if beside == "copy":
        return copy_ratio(row)
    if beside == "Gpairs/s":
        return pairs_per_second(row) / 1e9
    found = peers_of(row)
    return min(found.values(), default=None) if beside == "peers" else found.get(beside)


def number(x: float) -> str:
    return f"{x:.2f}" if x < 10 else f"{x:.1f}" if x < 100 else f"{x:.0f}"


def is_met(row: dict, beside: str, least: float) -> bool | None:
    value = reached(row, beside)
    return None if value is None else value >= least * (1 - TOLERANCE)


def target_cell(row: dict) -> str:
    """Each target beside what was reached: `copy 0.95: met`."""
    words = {True: "met", False: "**not met**", None: "not measured"}
    return "; ".join(
        f"{beside} {number(least)}: {words[is_met(row, beside, least)]}"
        for beside, least in row.get("targets", ())
    )


def time_text(seconds: float) -> str:
    return f"{seconds * 1e3:.3g} ms" if seconds >= 1e-4 else f"{seconds * 1e6:.3g} µs"


def line(row: dict) -> str:
    """A row as `run.py` prints it."""
    copy = copy_ratio(row)
    text = f"{row['op']:12} {row['case']:36} {row['kernel']:12}"
    text += f"{time_text(row['seconds']['gpuops']):>9} {rate(row):>14}"
    text += f"  copy {copy:.3f} ({row['copy_by']})" if copy else ""
    text += "".join(f"  {name} {ratio:.2f}" for name, ratio in peers_of(row).items())
    goal = target_cell(row).replace("*", "")
    return text + (f"  [{goal}]" if goal else "")


def markdown(head: list[str], lines: list[list[str]]) -> str:
    rows = [head, ["---"] * len(head), *lines]
    return "\n".join("| " + " | ".join(cells) + " |" for cells in rows)


def about(results: dict) -> str:
    """The device, and when, from which commit and beside what the operations were timed."""
    runs: dict[str, list[str]] = {}
    for op, run in results["ops"].items():
        versions = ", ".join(f"{k} {v}" for k, v in run["versions"].items())
        runs.setdefault(f"{run['date']}, commit {run['commit']}, {versions}", []).append(op)
    said = [f"{', '.join(ops)}: {run}." for run, ops in runs.items()]
    return f"**{results['device']}** ({results['detail']})  \n" + "  \n".join(said)


def speed_table(results: dict, *, headlines: bool) -> str:
    """Our rate, and how many times as long the copy and each peer take."""
    rows = [row for run in results["ops"].values() for row in run["rows"]]
    rows = [row for row in rows if row.get("headline", True) or not headlines]
    peers = sorted({name for row in rows for name in peers_of(row)})
    lines = []
    for row in rows:
        copy, others = copy_ratio(row), peers_of(row)
        lines.append([
            row["op"],
            row["case"],
            row["kernel"],
            time_text(row["seconds"]["gpuops"]),
            rate(row),
            number(copy) if copy else "",
            *(number(others[name]) if name in others else "" for name in peers),
            target_cell(row),
        ])  # fmt: skip
    head = ["operation", "case", "kernel", "time", "rate", "copy", *peers, "at least"]
    return f"{about(results)}\n\n{markdown(head, lines)}"


def all_results() -> list[dict]:
    paths = sorted(RESULTS.glob("*.json"))
    return [json.loads(p.read_text()) for p in paths if not p.stem.endswith("-ladders")]


def between(text: str, name: str, generated: str) -> str:
    """The text with what stands between the marks of this name replaced."""
    begin, end = f"<!-- {name}: begin -->", f"<!-- {name}: end -->"
    if begin not in text or end not in text:
        sys.exit(f"a document has no marks {begin} and {end}")
    before, _, rest = text.partition(begin)
    return before + begin + "\n" + generated + "\n" + end + rest.partition(end)[2]


def documents() -> dict[pathlib.Path, str]:
    """Each document as it should be."""
    readme, page = ROOT / "README.md", ROOT / "docs" / "benchmarks.md"
    results = all_results()
    short = "\n\n".join(speed_table(r, headlines=True) for r in results)
    full = "\n\n".join(speed_table(r, headlines=False) for r in results)
    made = {
        readme: between(readme.read_text(), "speed", short),
        page: between(page.read_text(), "speed", full),
    }
    if gpuops.is_available("sim"):
        counted = ROOT / "docs" / "sim.md"
        tables = "\n\n".join(map(certificate.table, certificate.certificates()))
        made[counted] = between(counted.read_text(), "certificate", tables)
    return made


def main() -> int:
    stale = {path: text for path, text in documents().items() if path.read_text() != text}
    for path, text in stale.items():
        if "--check" in sys.argv[1:]:
            print(f"{path.relative_to(ROOT)} is stale; run python benchmarks/tables.py")
        else:
            path.write_text(text)
    return int(bool(stale) and "--check" in sys.argv[1:])


if __name__ == "__main__":
    sys.exit(main())

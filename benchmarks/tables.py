"""tables - writes the speed tables of README.md from benchmarks/results; nothing is typed.

python benchmarks/tables.py          rewrites what stands between the marks
python benchmarks/tables.py --check  fails if that would change something
"""

from __future__ import annotations

import json
import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
README = ROOT / "README.md"
BEGIN, END = "<!-- speed: begin -->", "<!-- speed: end -->"


def rate(row: dict) -> str:
    seconds = row["seconds"]["gpuops"]
    if "copy_seconds" in row:
        return f"{row['bytes'] / seconds / 1e9:.0f} GB/s"
    if row["op"] == "rdf":
        n = row["shapes"][0][0]
        return f"{n * (n - 1) / 2 / seconds / 1e9:.0f} Gpairs/s"
    return f"{row['flops'] / seconds / 1e12:.1f} TFLOP/s"


def ratio(seconds: float | None, ours: float) -> str:
    return "" if seconds is None else f"{seconds / ours:.2f}"


def table(results: dict) -> str:
    """Our rate, and how many times longer the copy and each peer take."""
    rows = [row for op in results["rows"].values() for row in op]
    peers = sorted({name for row in rows for name in row["seconds"]} - {"gpuops"})
    versions = results["versions"]
    titles = [f"{name} {versions.get(name, '')}".strip() for name in peers]
    head = ["operation", "case", "kernel", "time", "rate", "copy", *titles]
    lines = ["| " + " | ".join(head) + " |", "|" + " --- |" * len(head)]
    for row in rows:
        ours = row["seconds"]["gpuops"]
        cells = [row["op"], row["case"], row["kernel"], f"{ours * 1e3:.3g} ms", rate(row)]
        cells.append(ratio(row.get("copy_seconds"), ours))
        cells += [ratio(row["seconds"].get(name), ours) for name in peers]
        lines.append("| " + " | ".join(cells) + " |")
    about = f"{results['device']}, {results['date']}, commit {results['commit']}"
    return f"**{about}** ({results['detail']})\n\n" + "\n".join(lines)


def render(text: str) -> str:
    files = sorted((ROOT / "benchmarks" / "results").glob("*.json"))
    tables = [table(json.loads(path.read_text())) for path in files]
    before, _, rest = text.partition(BEGIN)
    _, _, after = rest.partition(END)
    return before + BEGIN + "\n" + "\n\n".join(tables) + "\n" + END + after


def main() -> int:
    text = README.read_text()
    if BEGIN not in text or END not in text:
        sys.exit(f"README.md has no marks {BEGIN} and {END}")
    fresh = render(text)
    if "--check" in sys.argv[1:]:
        if fresh != text:
            print("README.md: the speed table is stale; run python benchmarks/tables.py")
        return int(fresh != text)
    README.write_text(fresh)
    return 0


if __name__ == "__main__":
    sys.exit(main())

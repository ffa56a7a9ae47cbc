"""zoo - calls that nobody chose, beside what users have; benchmarks/results/zoo/<device>.json.

    python benchmarks/zoo.py [--op transpose ...] [--seed 1 ...] [--cases 400] [--seconds 60]
    python benchmarks/zoo.py --regret ...       the chosen kernel beside the others: regret.py

Seeded shapes, axes, dtypes and layouts (zoo_draw.py) through the public functions, on PyTorch's
and CuPy's arrays on a GPU, on NumPy's on the CPU. Every result is checked. Peers and a copy of
as many bytes take turns, calls follow each other without out. Said are the shares of copy's and
of the best peer's speed, 5 %, median and 95 %, how many times as long as explain() expects, and
the worst cases with the kernel that ran.
"""

from __future__ import annotations

import argparse
import collections
import datetime
import json
import pathlib
import random
import statistics
import sys
import time

import gpuops

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import regret
from results import (
    RESULTS,
    TOLERANCE,
    about,
    commit,
    markdown,
    number,
    quantile,
    results_path,
    versions,
)
from zoo_draw import KI, MI, draw_case
from zoo_peers import Gpu, Host, ours

OPS = ("transpose", "reduce", "add", "multiply_add")
LONG = 4 * MI  # bytes from which memory decides
PEERS = ("torch", "cupy", "numpy")
PARTS = (("5 %", 0.05), ("median", 0.5), ("95 %", 0.95))


def measure(case, side, device: str, repeat: int, rows=()) -> dict:
    """A row of the results; AssertionError where the result is wrong. `rows` are kernels that
    are timed as well, alone and with cold caches, "" the chosen one."""
    arrays = [side.made(laid, case.dtype, case.word) for laid in case.arrays]
    mask = side.mask(case.arrays[0].shape) if case.masked else None
    function, args, options = ours(case, arrays, mask, device)
    plan = gpuops.explain(function, *args, **options)
    calls = side.calls(case, arrays, mask)
    if not side.is_right(case, arrays, mask, calls["gpuops"]()):
        raise AssertionError(f"{case.label}: the {plan.kernel} kernel's result is wrong")
    for name in [name for name in calls if name != "gpuops"]:
        try:
            calls[name]()
        except (RuntimeError, TypeError, NotImplementedError, ValueError):
            del calls[name]  # nothing like it there
    calls["copy"] = side.copy(plan.bytes)
    calls["copy"]()
    seconds = side.rounds(calls, plan.bytes, repeat)
    medians = {name: statistics.median(s) for name, s in seconds.items()}
    for row in rows:
        try:
            named = {**options, "kernel": row or plan.kernel}
            timing = gpuops.benchmark(function, args, named, n_repeat=3, n_warmup=1)
            medians[row or "kernel"] = float(timing.kernel)
        except gpuops.KernelRefusedError:
            continue
    if plan.kernel_seconds:
        medians["expected"] = plan.kernel_seconds  # what explain() says
    return {"op": case.op, "case": case.label, "kind": case.kind, "kernel": plan.kernel,
            "bytes": plan.bytes, "seconds": medians}  # fmt: skip


def of_copy(row: dict) -> float:
    return row["seconds"]["copy"] / row["seconds"]["gpuops"]


def of_peers(row: dict) -> float | None:
    """How many times as long the best peer takes."""
    others = [s for name, s in row["seconds"].items() if name in PEERS]
    return min(others) / row["seconds"]["gpuops"] if others else None


def of_own(row: dict) -> float | None:
    """How many times as long the library takes whose arrays they are."""
    others = [row["seconds"].get(name) for name in ("cupy", "torch", "numpy")]
    return next((s / row["seconds"]["gpuops"] for s in others if s), None)


def of_expected(row: dict) -> float | None:
    """How many times as long as explain() says."""
    expected = row["seconds"].get("expected")
    return row["seconds"]["gpuops"] / expected if expected else None


def spread(values: list[float]) -> list[str]:
    return [number(quantile(values, part)) if values else "" for _, part in PARTS]


def not_slower(ratios: list[float]) -> str:
    if not ratios:
        return ""
    return f"{sum(r >= 1 - TOLERANCE for r in ratios) / len(ratios):.1%}"


def place_of(group: tuple[str, str, str]) -> tuple:
    """Of a line of the summary: long calls first, all before the parts."""
    op, size, value = group
    return OPS.index(op), size == "below 4 MiB", value != "all", value


def summary(rows: list[dict], by: str) -> str:
    """A table with a line for each operation and size, and for each value of `by`."""
    lines = []
    groups = collections.defaultdict(list)
    for row in rows:
        size = "from 4 MiB" if row["bytes"] >= LONG else "below 4 MiB"
        groups[row["op"], size, "all"].append(row)
        groups[row["op"], size, row[by]].append(row)
    for op, size, value in sorted(groups, key=place_of):
        group = groups[op, size, value]
        ratios = [r for r in map(of_peers, group) if r is not None]
        own = [r for r in map(of_own, group) if r is not None]
        expected = [r for r in map(of_expected, group) if r is not None]
        lines.append([op, size, value, str(len(group)), *spread([of_copy(r) for r in group]),
                      *spread(ratios), not_slower(ratios), not_slower(own),
                      *spread(expected)])  # fmt: skip
    parts = [name for name, _ in PARTS]
    head = ["operation", "bytes", by, "cases", *(f"copy {p}" for p in parts),
            *(f"peers {p}" for p in parts), "not slower", "than own",
            *(f"expected {p}" for p in parts)]  # fmt: skip
    return markdown(head, lines)


def line(row: dict) -> str:
    ratio = of_peers(row)
    beside = f"{of_copy(row):5.2f} {number(ratio) if ratio else '-':>6}"
    return (f"{beside}  {row['bytes'] / MI:8.2f} MiB "
            f"{row['seconds']['gpuops'] * 1e6:9.1f} µs  {row['kernel']:11} {row['kind']:18} "
            f"{row['case']}")  # fmt: skip


def worst(rows: list[dict], count: int) -> str:
    """The rows that are slowest beside a copy, and beside peers."""
    texts = []
    for op in dict.fromkeys(row["op"] for row in rows):
        long = [r for r in rows if r["op"] == op and r["bytes"] >= LONG]
        some = [r for r in rows if r["op"] == op and of_peers(r) is not None]
        for title, found in (
            ("of copy, from 4 MiB", sorted(long, key=of_copy)),
            ("of the best peer", sorted(some, key=of_peers)),
        ):
            texts.append(f"\nworst of {op} {title}: copy's share, peers', bytes, time, kernel")
            texts += [line(row) for row in found[:count]]
    return "\n".join(texts)


def write(path: pathlib.Path, facts: dict, stamp: dict, rows: list[dict]) -> None:
    """A row a line: [op, case, kind, kernel, bytes, microseconds by name]. What the file has
    of operations that did not run stays, each with its stamp."""
    path.parent.mkdir(parents=True, exist_ok=True)
    before = read(path) if path.exists() else {"ops": {}, "rows": []}
    now = dict.fromkeys((row["op"] for row in rows), stamp)
    rows = rows + [row for row in before["rows"] if row["op"] not in now]
    rows.sort(key=lambda row: OPS.index(row["op"]))
    stamps = before["ops"] | now
    facts = {**facts, "ops": {op: stamps[op] for op in OPS if op in stamps}}
    kept = []
    for row in rows:
        times = {name: round(s * 1e6, 3) for name, s in row["seconds"].items()}
        cells = [row[k] for k in ("op", "case", "kind", "kernel")]
        kept.append(json.dumps([*cells, int(row["bytes"]), times], ensure_ascii=False))
    head = json.dumps(facts, indent=1, ensure_ascii=False)[:-2]
    path.write_text(head + ',\n "rows": [\n' + ",\n".join(kept) + "\n ]\n}\n")


def read(path: pathlib.Path) -> dict:
    results = json.loads(path.read_text())
    names = ("op", "case", "kind", "kernel", "bytes")
    results["rows"] = [
        {**dict(zip(names, cells, strict=False)),
         "seconds": {name: us * 1e-6 for name, us in cells[5].items()}}
        for cells in results["rows"]
    ]  # fmt: skip
    return results


def run(arguments, side) -> tuple[list[dict], list[str]]:
    """The rows, and what went wrong. Each operation and seed has its part of the seconds."""
    rows, wrong = [], []
    turns = [(op, seed) for seed in arguments.seed for op in arguments.op]
    begun = time.perf_counter()
    for k, (op, seed) in enumerate(turns):
        draw = random.Random(f"{op} {seed}")
        until = begun + (k + 1) * arguments.seconds / len(turns)
        for _ in range(arguments.cases):
            if time.perf_counter() > until:
                break
            case = draw_case(op, draw, arguments.least, arguments.most, arguments.cupy,
                             arguments.device != "cpu")  # fmt: skip
            try:
                rows.append(
                    measure(case, side, arguments.device, arguments.repeat, arguments.rows)
                )
            except AssertionError as error:
                wrong.append(str(error))
            except Exception as error:
                if "Memory" not in type(error).__name__:
                    wrong.append(f"{case.label}: {type(error).__name__}: {error}"[:400])
            side.free()
    return rows, wrong


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--op", nargs="*", choices=OPS, default=OPS)
    parser.add_argument("--seed", nargs="*", type=int, default=[1])
    parser.add_argument("--cases", type=int, default=400, help="of an operation and seed")
    parser.add_argument("--seconds", type=float, default=60, help="of all, about")
    parser.add_argument("--device", default="cuda" if gpuops.is_available("cuda") else "cpu")
    parser.add_argument("--repeat", type=int, default=5)
    parser.add_argument("--least", type=float, default=10 * KI, help="bytes of an array")
    parser.add_argument("--most", type=float, help="the same, 1 GiB on a GPU, 64 MiB else")
    parser.add_argument("--cupy", type=float, default=0.2, help="the share that is CuPy's")
    parser.add_argument("--rows", nargs="*", default=(), help="kernels that are timed alone")
    parser.add_argument("--worst", type=int, default=20)
    parser.add_argument("--out", type=pathlib.Path, help="the file of the results")
    arguments = parser.parse_args()
    on_gpu = arguments.device != "cpu"
    arguments.most = arguments.most or (1024 * MI if on_gpu else 64 * MI)
    side = Gpu(6 * arguments.most, arguments.device) if on_gpu else Host(6 * arguments.most)
    rows, wrong = run(arguments, side)
    facts = about(arguments.device)
    stamp = {"date": datetime.date.today().isoformat(), "commit": commit(),
             "versions": versions(), "seeds": arguments.seed}  # fmt: skip
    path = arguments.out or RESULTS / "zoo" / results_path(facts).name
    write(path, facts, stamp, rows)
    print(summary(rows, "kind"))
    print(worst(rows, arguments.worst))
    print(f"\n{len(rows)} cases, {len(wrong)} wrong; written: {path}")
    print("\n".join(wrong))
    return int(bool(wrong))


if __name__ == "__main__":
    if "--regret" in sys.argv:
        sys.argv.remove("--regret")
        sys.exit(regret.main())
    sys.exit(main())

"""run - times every operation beside its peers and writes benchmarks/results/<device>.json.

    python benchmarks/run.py [op ...] [--device cuda] [--repeat 7] [--small]

Random data, cold caches, contenders in turn, medians. `copy` is the best copy of the same total
bytes, in turn with the others: the ceiling of the operations that memory bounds.
"""

from __future__ import annotations

import argparse
import datetime
import json
import pathlib
import statistics
import sys
import time

import gpuops
from gpuops import _core

sys.path.insert(0, str(pathlib.Path(__file__).parent))
from cases import GI, MEMORY_BOUND, MI, Case, cases
from peers import peers, random_array
from results import RESULTS, about, commit, line, results_path, versions


def plan_of(case: Case, ours, arrays) -> dict:
    """Kernel, bytes and operations of the call."""
    if case.op in ("add", "multiply_add", "fma", "transpose", "reduce"):
        op, params = ours.core_call(case.function or case.op, case.options)
        inputs = tuple(getattr(a, "_buffer", a) for a in arrays)
        return _core.Call(op, inputs, params, device=ours.device).plan()
    plan = gpuops.explain(getattr(gpuops, case.op), *arrays, device=ours.device, **case.options)
    return {"kernel": plan.kernel, "bytes": plan.bytes, "flops": plan.flops}


def by_wall_clock(call) -> float:
    """Seconds of a call; short ones are made many times over."""
    times, seconds = 1, 0.0
    while seconds < 2e-3:
        start = time.perf_counter()
        for _ in range(times):
            call()
        seconds = time.perf_counter() - start
        times *= 4
    return 4 * seconds / times


def measure_round_trip(case: Case, device: str, repeat: int, contenders) -> dict:
    """One row whose arrays are NumPy's, before and after: what a caller waits for."""
    arrays = [random_array(shape, case.dtype, "cpu") for shape in case.shapes]
    plan = gpuops.explain(getattr(gpuops, case.function or case.op), *arrays, device=device)
    calls = {p.name: p.round_trip(case.function or case.op, arrays) for p in contenders}
    samples = [{n: by_wall_clock(call) for n, call in calls.items()} for _ in range(repeat + 1)]
    seconds = {n: statistics.median(s[n] for s in samples[1:]) for n in calls}
    return row_of(case, plan.kernel, plan.bytes, plan.flops, seconds)


def by_enqueuing(call, wait) -> float:
    """Seconds of the host for each of some calls that do not wait for their end."""
    times = 200  # far fewer than a device takes before it lets callers wait
    wait()
    start = time.perf_counter()
    for _ in range(times):
        call()
    seconds = time.perf_counter() - start
    wait()
    return seconds / times


def measure_enqueued(case: Case, device: str, repeat: int, contenders) -> dict | None:
    """One row of what calls on device arrays cost the host."""
    arrays = [random_array(shape, case.dtype, device) for shape in case.shapes]
    into = [] if case.makes else [random_array(case.shapes[0], case.dtype, device)]
    plan = plan_of(case, contenders[0], arrays)
    function = case.function or case.op
    calls = {p.name: (p.enqueued(function, arrays, into, case.enqueued), p.wait)
             for p in contenders}  # fmt: skip
    calls = {name: both for name, both in calls.items() if both[0] is not None}
    if contenders[0].name not in calls:
        return None
    samples = [{n: by_enqueuing(*both) for n, both in calls.items()} for _ in range(2 * repeat)]
    seconds = {n: statistics.median(s[n] for s in samples[repeat:]) for n in calls}
    return row_of(case, plan["kernel"], plan["bytes"], plan["flops"], seconds)


def row_of(case: Case, kernel: str, nbytes: float, flops: float, seconds: dict) -> dict:
    return {
        "op": case.op,
        "case": case.label,
        "kernel": kernel,
        "shapes": case.shapes,
        "bytes": nbytes,
        "flops": flops,
        "seconds": seconds,
        "targets": case.targets,
        "headline": case.headline,
    }


def measure(case: Case, device: str, repeat: int, contenders) -> dict:
    """One row of the results. Contenders take turns, so that a drift meets all alike."""
    uniform = case.op == "rdf"
    arrays = [random_array(shape, case.dtype, device, uniform=uniform) for shape in case.shapes]
    plan = plan_of(case, contenders[0], arrays)
    runs = []  # (is a copy, name, peer, call, seconds)
    for peer in contenders:
        call = peer.call(case.function or case.op, arrays, case.options)
        if call is not None:
            runs.append((False, peer.name, peer, call, []))
    # Where a copy takes less time than a launch it says nothing about memory.
    if case.op in MEMORY_BOUND and plan["bytes"] >= MI:
        half = random_array((int(plan["bytes"]) // 32,), "c16", device)
        for peer in contenders:
            runs += [(True, n, peer, call, []) for n, call in peer.copies(half).items()]
    for _, _, peer, call, _ in runs:
        peer.timed(call)
    for _ in range(repeat):
        for _, _, peer, call, seconds in runs:
            seconds.append(peer.timed(call))
    medians = [(is_copy, name, statistics.median(s)) for is_copy, name, _, _, s in runs]
    seconds = {name: s for is_copy, name, s in medians if not is_copy}
    row = row_of(case, plan["kernel"], plan["bytes"], plan["flops"], seconds)
    copies = [(s, name) for is_copy, name, s in medians if is_copy]
    if copies:
        row["copy_seconds"], row["copy_by"] = min(copies)
    if plan["bytes"] > 8 * GI:  # what the peers keep would not leave room for long
        for peer in contenders:
            getattr(peer, "free", lambda: None)()
    return row


def main() -> None:
    ops = list(dict.fromkeys(case.op for case in cases("cuda")))
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("ops", nargs="*", metavar="op", help=", ".join(ops))
    parser.add_argument("--device", default="cuda" if gpuops.is_available("cuda") else "cpu")
    parser.add_argument("--repeat", type=int, default=7)
    parser.add_argument("--small", action="store_true", help="an eighth of every long axis")
    parser.add_argument(
        "--only", default="", help="cases whose name contains this; not written"
    )
    arguments = parser.parse_args()
    for op in arguments.ops:
        if op not in ops:
            parser.error(f"there is no operation {op!r}, expected one of {', '.join(ops)}")
    facts = about(arguments.device)
    contenders = peers(arguments.device)
    path = results_path(facts)
    known = json.loads(path.read_text())["ops"] if path.exists() else {}
    start = time.perf_counter()
    wanted_ops = arguments.ops or ops
    chosen = [c for c in cases(arguments.device) if c.op in wanted_ops]
    chosen = [c for c in chosen if arguments.only in c.label]
    for op in dict.fromkeys(case.op for case in chosen):
        rows = []
        for case in chosen:
            if case.op != op:
                continue
            wanted = case.smaller(8) if arguments.small else case
            timed = measure_round_trip if wanted.on_host else measure
            if wanted.enqueued:
                timed = measure_enqueued
            row = timed(wanted, arguments.device, arguments.repeat, contenders)
            if row is not None:
                rows.append(row)
                print(line(row), flush=True)
        if arguments.only or arguments.small:
            continue
        stamp = {"date": datetime.date.today().isoformat(), "commit": commit()}
        known[op] = {**stamp, "versions": versions(), "rows": rows}
        RESULTS.mkdir(exist_ok=True)
        results = {**facts, "ops": {op: known[op] for op in ops if op in known}}
        path.write_text(json.dumps(results, indent=1, ensure_ascii=False) + "\n")
        print(f"written: {path}")
    print(f"{time.perf_counter() - start:.0f} s")


if __name__ == "__main__":
    main()

"""ladders - times every kernel of each ladder and draws it.

    python benchmarks/ladders.py [op ...] [--device cuda] [--repeat 5]

One call per operation, long enough for the memory's rate; written to
benchmarks/results/<device>-ladders.json. `tables.py` makes plots and tables of it.
"""

from __future__ import annotations

import argparse
import datetime
import json
import math
import pathlib
import statistics
import sys
import time

import gpuops

sys.path.insert(0, str(pathlib.Path(__file__).parent))
from cases import GI, MEMORY_BOUND, MI, Case
from lectures import POINTS
from peers import peers, random_array
from results import about, commit, results_path

THIRD, QUARTER = GI // 3, GI // 4


def calls(device: str) -> list[Case]:
    """The call that stands for each operation."""
    gpu = device != "cpu"
    n = 1 if gpu else 8  # a CPU gets an eighth
    side = 16384 if gpu else 8192
    small = 4096 if gpu else 1024
    vectors = [((THIRD // n,),) * 2, *[((QUARTER // n,),) * 3] * 2]
    names = ("add", "multiply_add", "fma")
    size = "4 GiB" if gpu else "512 MiB"
    total = GI // 4 if gpu else GI // 16
    return [
        *(Case(op, f"{size} f4", v, "f4") for op, v in zip(names, vectors, strict=True)),
        Case("transpose", f"{side}² f4", ((side, side),), "f4"),
        Case("reduce", f"sum of {total * 4 // MI} MiB f4", ((total,),), "f4", function="sum"),
        Case("matmul", f"{small}² f4", ((small, small),) * 2, "f4"),
        Case("jacobi_step", f"dense {side}² f4", ((side, side), (side,), (side,)), "f4",
             {"alpha": 1e-6}),
        Case("rdf", f"{POINTS} points f4", ((POINTS, 3),), "f4", {"r_max": 1.8, "bins": 512}),
    ]  # fmt: skip


def copy_seconds(nbytes: int, device: str, repeat: int, contenders) -> float:
    """The best copy of that many bytes, read and written together."""
    half = random_array((max(nbytes // 32, 1),), "c16", device)
    best = math.inf
    for peer in contenders:
        for call in peer.copies(half).values():
            samples = [peer.timed(call) for _ in range(repeat + 1)][1:]
            best = min(best, statistics.median(samples))
    return best


def one_thread(case: Case, arrays: list, repeat: int) -> dict[str, float]:
    """Each row's seconds on one core, which is what the lecture had: processor time."""
    threads = gpuops.get_num_threads()
    gpuops.set_num_threads(1)
    seconds = {}
    for kernel in gpuops.kernels(case.op, "cpu"):
        samples = []
        for _ in range(repeat):
            start = time.process_time()
            getattr(gpuops, case.op)(*arrays, device="cpu", kernel=kernel, **case.options)
            samples.append(time.process_time() - start)
        seconds[kernel.name] = statistics.median(samples)
    gpuops.set_num_threads(threads)
    return seconds


def climb(case: Case, device: str, repeat: int, contenders) -> dict:
    """Every row of the ladder: its seconds, or the sentence with which it refused."""
    uniform = case.op == "rdf"
    arrays = [random_array(shape, case.dtype, device, uniform=uniform) for shape in case.shapes]
    function = getattr(gpuops, case.function or case.op)
    tags = {kernel.name: kernel for kernel in gpuops.kernels(case.op, device)}
    rungs = gpuops.ladder(function, *arrays, device=device, n_repeat=repeat, **case.options)
    alone = one_thread(case, arrays, repeat) if case.op == "rdf" and device == "cpu" else {}
    plan = gpuops.explain(function, *arrays, device=device, **case.options)
    rows = []
    for rung in rungs:
        row = {"name": rung.name, "note": rung.note, "role": rung.role,
               "lecture": tags[rung.name].lecture}  # fmt: skip
        if rung.timing:
            row["seconds"] = float(rung.timing.kernel)
        if rung.name in alone:
            row["one_thread"] = alone[rung.name]
        rows.append(row | ({} if rung.timing else {"refused": rung.refused}))
    found = {"call": case.label, "bytes": plan.bytes, "flops": plan.flops, "rows": rows}
    if case.op in MEMORY_BOUND:
        found["copy_seconds"] = copy_seconds(int(plan.bytes), device, repeat, contenders)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("ops", nargs="*", metavar="op")
    parser.add_argument("--device", default="cuda" if gpuops.is_available("cuda") else "cpu")
    parser.add_argument("--repeat", type=int, default=5)
    arguments = parser.parse_args()
    known_ops = [case.op for case in calls(arguments.device)]
    for op in arguments.ops:
        if op not in known_ops:
            parser.error(
                f"there is no operation {op!r}, expected one of {', '.join(known_ops)}"
            )
    facts = about(arguments.device)
    path = results_path(facts, "-ladders")
    known = json.loads(path.read_text())["ops"] if path.exists() else {}
    contenders = peers(arguments.device)
    for case in calls(arguments.device):
        if arguments.ops and case.op not in arguments.ops:
            continue
        start = time.perf_counter()
        found = climb(case, arguments.device, arguments.repeat, contenders)
        stamp = {"date": datetime.date.today().isoformat(), "commit": commit()}
        known[case.op] = stamp | found
        print(f"{case.op}, {case.label} ({time.perf_counter() - start:.0f} s)")
        for row in found["rows"]:
            said = f"{row['seconds'] * 1e3:10.4g} ms" if "seconds" in row else row["refused"]
            if "seconds" in row and "copy_seconds" in found:
                said += f"  {found['copy_seconds'] / row['seconds']:.3f} of copy"
            print(f"    {row['name']:14} {said}", flush=True)
        results = {**facts, "ops": {op: known[op] for op in known_ops if op in known}}
        path.write_text(json.dumps(results, indent=1, ensure_ascii=False) + "\n")
    print(f"written: {path}")


if __name__ == "__main__":
    main()

"""rdf_peers - rdf on the CPU beside Corrfunc, freud and MDAnalysis.

    python benchmarks/rdf_peers.py [--threads 1 2] [--points 5000 20000] [--seconds 60]

Uniform points in a cubic box of edge 1, r_max of a twentieth, a tenth, a third and 0.49 of it.
Contenders take turns, and the fastest of the runs stands: the processor's time of one thread,
the clock's of more, for which nothing else should run. A contender whose turn is
predicted to take longer than --seconds, from how it did before, or its lists of pairs more than
8 GiB, is left out and shown as "-". Peers that are not installed are named. Their counts are
compared with ours: "differ" is how many pairs lie in another bin. Writes
results/rdf/<device>.json, of which `tables.py` makes docs/rdf.md's table.

MDAnalysis stands for what its InterRDF does: self_capped_distance and numpy.histogram.
"""

from __future__ import annotations

import argparse
import importlib
import importlib.metadata
import itertools
import json
import time
import warnings

import numpy as np
from results import RESULTS, about, commit, results_path

import gpuops

SHARES = {"L/20": 1 / 20, "L/10": 1 / 10, "L/3": 1 / 3, "0.49 L": 0.49}
MEMORY = 8 << 30
PEERS = {"Corrfunc": "Corrfunc.theory.DD", "freud": "freud", "MDAnalysis": "MDAnalysis"}


def ours(points, edges, kernel=None):
    return lambda: gpuops.rdf(points, bins=edges, box=(1, 1, 1), device="cpu", kernel=kernel)


def corrfunc(module, points, edges, threads):
    x, y, z = (np.ascontiguousarray(points[:, k]) for k in range(3))
    # Its first edge must be above 0, where it counts each point with itself.
    edges = np.concatenate([[edges[1] * 1e-6], edges[1:]])
    options = {"periodic": True, "boxsize": 1.0}
    call = (1, threads, edges, x, y, z)
    return lambda: module.DD(*call, **options)["npairs"].astype(np.int64) // 2


def freud(module, points, edges, threads):
    module.parallel.set_num_threads(threads)
    box = module.box.Box.cube(1)
    shifted = (points - points.dtype.type(0.5)).astype(np.float32)

    def run():
        rdf = module.density.RDF(len(edges) - 1, edges[-1])
        return rdf.compute((box, shifted)).bin_counts.astype(np.int64) // 2

    return run


def mdanalysis(module, points, edges, _threads):
    from MDAnalysis.lib.distances import self_capped_distance

    box = np.array([1, 1, 1, 90, 90, 90], np.float32)
    narrow = points.astype(np.float32)
    return lambda: np.histogram(
        self_capped_distance(narrow, edges[-1], box=box, return_distances=True)[1], edges
    )[0]


PACKAGES = {"Corrfunc": "Corrfunc", "freud": "freud-analysis", "MDAnalysis": "MDAnalysis"}
MAKERS = {"Corrfunc": corrfunc, "freud": freud, "MDAnalysis": mdanalysis}


def predicted(name: str, dtype: str, n: int, share: float, rates: dict) -> float:
    """Seconds, from the pairs within r_max, by the rate of the contender's last call."""
    found = n * n / 2 * 4.19 * share**3
    if name == "MDAnalysis" and found * 24 > MEMORY:
        return np.inf
    first = 1e-5 if name == "MDAnalysis" else 1e-7  # seconds a pair, before any was measured
    return found * rates.get((name, dtype), first)


def measure(contenders: dict, runs: int, clock) -> tuple[dict, dict]:
    best = dict.fromkeys(contenders, np.inf)
    answers = {}
    for turn in range(runs):
        for name, call in contenders.items():
            if turn and best[name] > 3:
                continue  # long enough to be sure of
            start = clock()
            answers[name] = call()
            best[name] = min(best[name], clock() - start)
    return best, answers


def of_threads(threads: int, modules: dict, arguments) -> list[dict]:
    """The rows for that number of threads, printed as they come."""
    gpuops._core.set_threads(threads)
    clock = time.process_time if threads == 1 else time.perf_counter
    names = ["gpuops", *modules]
    heads = "".join(f"{name:>13}" for name in [*names, *(f"/{n}" for n in modules)])
    print(f"{threads} thread{'s'[: threads > 1]}  {heads}   kernel, pairs in other bins   "
          "(ms; gpuops' time over theirs)")  # fmt: skip
    rows: list[dict] = []
    rates: dict = {}
    cases = itertools.product(arguments.points, ("float32", "float64"), SHARES.items())
    for n, dtype, (label, share) in cases:
        points = np.random.default_rng(0).random((n, 3)).astype(dtype)
        edges = np.linspace(0, share, arguments.bins + 1)
        calls = {"gpuops": ours(points, edges)}
        calls |= {m: MAKERS[m](modules[m], points, edges, threads) for m in modules}
        for name in list(calls):
            if predicted(name, dtype, n, share, rates) > arguments.seconds:
                del calls[name]
        if "gpuops" not in calls:
            continue
        seconds, answers = measure(calls, arguments.runs, clock)
        found = n * n / 2 * 4.19 * share**3
        for name, s in seconds.items():
            rates[name, dtype] = s / found
        want = answers["gpuops"].counts
        differ = {m: int(np.abs(answers[m] - want).sum()) // 2 for m in answers
                  if m != "gpuops"}  # fmt: skip
        kernel = gpuops.explain("rdf", points, bins=edges, box=(1, 1, 1), device="cpu").kernel
        shown = [f"{seconds[m] * 1e3:13.2f}" if m in seconds else f"{'-':>13}" for m in names]
        shown += [f"{seconds['gpuops'] / seconds[m]:13.3f}" if m in seconds else f"{'-':>13}"
                  for m in modules]  # fmt: skip
        print(f"{n:9} {dtype} {label:6}{''.join(shown)}   {kernel} {differ}", flush=True)
        rows.append({"commit": commit(), "threads": threads, "points": n, "dtype": dtype,
                     "r_max": label, "kernel": kernel, "seconds": seconds,
                     "differ": differ})  # fmt: skip
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    sizes = [5000, 20_000, 50_000, 200_000, 1_200_000]
    parser.add_argument("--points", type=int, nargs="*", default=sizes)
    parser.add_argument("--threads", type=int, nargs="*", default=[1])
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--bins", type=int, default=100)
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    modules = {}
    for name, module in PEERS.items():
        try:
            modules[name] = importlib.import_module(module)
        except ImportError as error:
            print(f"{name} is missing: {error}")
    rows = []
    for threads in arguments.threads:
        rows += of_threads(threads, modules, arguments)
    facts = about("cpu")
    path = RESULTS / "rdf" / results_path(facts).name
    record = {**facts, "date": time.strftime("%Y-%m-%d"),
              "bins": arguments.bins,
              "versions": {PACKAGES[m]: importlib.metadata.version(PACKAGES[m])
                           for m in modules},
              "limit": arguments.seconds, "rows": rows}  # fmt: skip
    path.parent.mkdir(exist_ok=True)
    if path.exists():  # those of other threads and points stay
        before = json.loads(path.read_text())["rows"]
        new = {(r["threads"], r["points"]) for r in rows}
        record["rows"] += [r for r in before if (r["threads"], r["points"]) not in new]
    record["rows"].sort(key=lambda r: (r["threads"], r["points"]))
    path.write_text(json.dumps(record, indent=1) + "\n")


if __name__ == "__main__":
    main()

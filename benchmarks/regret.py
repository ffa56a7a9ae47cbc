"""regret - the chosen kernel's time over the best one's; results/regret/<device>.json.

    python benchmarks/regret.py [--op matmul ...] [--seed 1 ...] [--calls 300] [--seconds 120]
    python benchmarks/regret.py --without ROW ...     what calls lose without these rows
    python benchmarks/regret.py --again H200          of products, what would be chosen now

Calls drawn at random, through the public functions; each is timed without a name and by every
production row that takes it, in turns. Of a GPU the arrays are PyTorch's, and events tell the
time of some calls that wait behind another kernel: what the device takes, without the host.
`--without` and `--again` ask of the calls on file: no GPU is needed.
"""

from __future__ import annotations

import argparse
import collections
import datetime
import functools
import json
import math
import pathlib
import random
import re
import statistics
import sys
import time

import numpy as np

import gpuops
from gpuops import _core
from gpuops.errors import KernelRefusedError

sys.path.insert(0, str(pathlib.Path(__file__).parent))
from regret_draw import DRAWN, Operand, Pairs, Product, Step, draw_call
from results import RESULTS, about, commit, markdown, quantile, results_path, versions
from zoo_draw import MI, draw_case
from zoo_peers import Gpu, Host, ours

OPS = ("add", "multiply_add", "transpose", "reduce", *DRAWN)
HOPELESS = 4  # times the chosen row: not timed again
TURNS, CALLS = 5, 6
WAIT = 1_400_000  # cycles of the GPU, in which the host enqueues the calls of a turn


class Arrays:
    """The operands of a drawn call, on the CPU as NumPy's or on a GPU as PyTorch's."""

    def __init__(self, device: str, most: float) -> None:
        self.device = device
        self.side = Host(most) if device == "cpu" else Gpu(most, device)
        self.pools: dict = {}

    def pool(self, dtype: str, items: int):
        """A long array of random numbers, which operands are views of."""
        found = self.pools.get(dtype)
        if found is None or found.shape[0] < items:
            self.pools.pop(dtype, None)
            drawn = np.random.default_rng(1).standard_normal(min(items, 4 * MI) + 1, np.float32)
            if np.dtype("float32" if dtype == "bfloat16" else dtype).kind in "iub":
                drawn = np.abs(drawn * 40)
            whole = np.resize(drawn, items).astype("float32" if dtype == "bfloat16" else dtype)
            self.pools[dtype] = self.sent(whole, dtype)
        return self.pools[dtype]

    def sent(self, a: np.ndarray, dtype: str):
        if self.device == "cpu":
            return a
        torch = self.side.torch
        return torch.from_numpy(a).to(self.device, getattr(torch, dtype))

    def view(self, dtype: str, of: Operand):
        pool = self.pool(dtype, max(of.items, MI))
        if self.device != "cpu":
            return self.side.torch.as_strided(pool, of.shape, of.strides, of.offset)
        steps = [s * pool.itemsize for s in of.strides]
        return np.lib.stride_tricks.as_strided(pool[of.offset :], of.shape, steps)

    def call(self, case):
        """The function and its arguments."""
        options = {"device": "cpu"} if self.device == "cpu" else {}
        if isinstance(case, Product):
            operands = self.view(case.dtype, case.a), self.view(case.dtype, case.b)
            return gpuops.matmul, operands, options
        if isinstance(case, Step):
            return gpuops.jacobi_step, self.step(case), options
        if isinstance(case, Pairs):
            points = np.random.default_rng(2).random((case.n, 3)).astype(case.dtype)
            box = {"box": np.ones(3)} if case.box else {}
            given = {"r_max": case.most, "bins": case.bins, **box, **options}
            return gpuops.rdf, (self.sent(points, case.dtype),), given
        arrays = [self.side.made(laid, case.dtype, case.word) for laid in case.arrays]
        mask = self.side.mask(case.arrays[0].shape) if case.masked else None
        return ours(case, arrays, mask, "cpu" if self.device == "cpu" else None)

    def step(self, case: Step):
        rng = np.random.default_rng(3)
        shape = (case.n, case.columns) if case.columns > 1 else (case.n,)
        f, x = (self.sent(rng.standard_normal(shape).astype(case.dtype), case.dtype)
                for _ in "fx")  # fmt: skip
        if not case.terms:
            matrix = rng.standard_normal((case.n, case.n), np.float32).astype(case.dtype)
            matrix = self.sent(matrix, case.dtype)
            return (matrix if case.order == "C" else matrix.T), f, x
        import scipy.sparse

        least = max(1, round(case.terms * (1 - case.spread)))
        counts = rng.integers(least, 2 * case.terms - least + 1, case.n).clip(1, case.n)
        ends = np.concatenate([[0], np.cumsum(counts)])
        columns = rng.integers(0, case.n, ends[-1])
        columns[ends[:-1]] = np.arange(case.n)  # the diagonal
        terms = rng.standard_normal(ends[-1]).astype(case.dtype)
        matrix = scipy.sparse.csr_array((terms, columns, ends), shape=(case.n, case.n))
        return gpuops.sparse(matrix, self.device), f, x

    def seconds(self, calls: dict, chosen: str) -> dict:
        """name -> seconds of a call; contenders take turns, the hopeless leave."""
        first = {name: self.turn(call, 1) for name, call in calls.items()}
        for name in [n for n, s in first.items() if s > HOPELESS * first[""]]:
            if name not in ("", chosen):
                calls.pop(name)
        found = {name: [] for name in calls}
        for _ in range(TURNS):
            for name, call in calls.items():
                found[name].append(self.turn(call, CALLS if first[""] < 0.02 else 1))
        return {name: statistics.median(s) for name, s in found.items()}

    def turn(self, call, times: int) -> float:
        call()
        if self.device == "cpu":
            start = time.perf_counter()
            for _ in range(times):
                call()
            return (time.perf_counter() - start) / times
        torch = self.side.torch
        start, stop = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        torch.cuda._sleep(WAIT)
        start.record()
        for _ in range(times):
            call()
        stop.record()
        stop.synchronize()
        return start.elapsed_time(stop) * 1e-3 / times


def named(function, args, options, row: str):
    given = {**options, "kernel": row} if row else options
    return lambda: function(*args, **given)


def measure(case, arrays: Arrays, rows: list[str]) -> dict:
    """A row of the results: microseconds by row, "" being the call without a name."""
    function, args, options = arrays.call(case)
    chosen = gpuops.explain(function, *args, **options).kernel
    calls = {"": named(function, args, options, "")}
    for row in rows:
        try:
            calls[row] = named(function, args, options, row)
            calls[row]()
        except gpuops.KernelRefusedError:
            del calls[row]
    seconds = arrays.seconds(calls, chosen)
    times = {name: round(s * 1e6, 2) for name, s in seconds.items()}
    return {"op": case.op, "kind": case.kind, "call": case.label, "chosen": chosen, "us": times}


def regret(row: dict, without=()) -> float:
    """The chosen row's time over the best one's; of rows that are not there, the best other."""
    times = {name: us for name, us in row["us"].items() if name}
    best = min(times.values())
    if not without:
        return times.get(row["chosen"], row["us"][""]) / best
    left = [us for name, us in times.items() if name not in without]
    return (min(left) if left else HOPELESS * best) / best


def summary(rows: list[dict]) -> str:
    groups = collections.defaultdict(list)
    for row in rows:
        for kind in ("all", row["kind"]):
            groups[row["op"], kind].append(regret(row))
    lines = []
    for (op, kind), found in sorted(groups.items(), key=lambda g: (g[0][0], g[0][1] != "all")):
        shares = [f"{sum(r <= most for r in found) / len(found):.1%}" for most in (1.05, 1.25)]
        lines.append([op, kind, str(len(found)), *shares, f"{quantile(found, 0.95):.2f}",
                      f"{max(found):.2f}"])  # fmt: skip
    return markdown(
        ["operation", "kind", "calls", "<= 1.05", "<= 1.25", "95 %", "worst"], lines
    )


def pairs(rows: list[dict], count: int) -> str:
    """Which row was chosen for which better one, by how much time that loses."""
    found = collections.defaultdict(list)
    for row in rows:
        times = {name: us for name, us in row["us"].items() if name}
        best = min(times, key=times.get)
        if regret(row) > 1.05:
            found[row["op"], row["chosen"], best].append(regret(row))
    order = sorted(found.items(), key=lambda f: -sum(math.log(r) for r in f[1]))
    return "\n".join(
        f"{op}: {chosen} for {best}: {len(r)} calls, median {statistics.median(r):.2f}"
        for (op, chosen, best), r in order[:count]
    )


def losses(rows: list[dict], names: list[str]) -> str:
    """What the kinds of calls lose where the rows are left out, beside the best with them."""
    groups = collections.defaultdict(list)
    for row in rows:
        if any(name in row["us"] for name in names):
            groups[row["op"], row["kind"]].append(regret(row, names))
    lines = []
    for (op, kind), found in sorted(groups.items()):
        lose = sum(r > 1.03 for r in found) / len(found)
        lines.append([op, kind, str(len(found)), f"{statistics.median(found):.3f}",
                      f"{quantile(found, 0.95):.2f}", f"{lose:.1%}"])  # fmt: skip
    return markdown(["operation", "kind", "calls", "median", "95 %", "lose 3 %"], lines)


def there(word: str, shape: tuple, strides: tuple | None = None, offset: int = 0):
    """An array of the simulator's with these strides and offset, in items, and no memory."""
    if word == "bfloat16":
        import ml_dtypes

        dtype = np.dtype(ml_dtypes.bfloat16)
        gpuops.to_device(np.zeros(1, dtype), "cpu")  # from then on the core knows it
    else:
        dtype = np.dtype(word)
    steps = strides and tuple(step * dtype.itemsize for step in strides)
    at = (1 << 20) + offset * dtype.itemsize
    return gpuops.DeviceArray(_core.borrow(at, shape, steps, dtype, ("sim", 0), None, True))


def operands(label: str):
    """Those of a product, from its label (regret_draw.py)."""
    word, _, rest = label.partition(" ")
    for operand in rest.split(" @ "):
        shape, strides, offset = re.fullmatch(r"\((.+)\) \((.+)\)(\+\d+)?", operand).groups()
        numbers = [tuple(map(int, text.split(","))) for text in (shape, strides)]
        yield there(word, *numbers, int(offset or 0))


@functools.cache
def production() -> set[str]:
    """The kernels that may be chosen for a product."""
    return {k.name for k in gpuops.kernels("matmul", device="sim") if k.role == "production"}


def takes(kernel: str, call: str, like: str) -> bool:
    """Whether a kernel that may be chosen takes a product."""
    try:
        gpuops.explain("matmul", *operands(call), device="sim", like=like, kernel=kernel)
    except KernelRefusedError:
        return False
    return True


def again(row: dict, like: str) -> dict:
    """A product on file as it would be chosen now, beside the production kernels that take it,
    be they candidates or not. What was chosen then ran twice: by its name and without."""
    told = gpuops.explain("matmul", *operands(row["call"]), device="sim", like=like)
    us = {
        **row["us"],
        row["chosen"]: min(row["us"][""], row["us"].get(row["chosen"], math.inf)),
    }
    asked = {c.kernel for c in told.candidates}
    us = {
        kernel: t
        for kernel, t in us.items()
        if kernel in asked or (kernel in production() and takes(kernel, row["call"], like))
    }
    us[""] = math.inf  # what is chosen now may be too slow to have been timed, or is newer
    refused = [c.kernel for c in told.candidates if c.refusal and c.kernel in us]
    return {**row, "chosen": told.kernel, "us": us, "refused": refused}


def write(path: pathlib.Path, facts: dict, rows: list[dict]) -> None:
    """A call a line; what the file has of other operations stays."""
    path.parent.mkdir(parents=True, exist_ok=True)
    ops = {row["op"] for row in rows}
    if path.exists():
        rows = rows + [row for row in read(path)["rows"] if row["op"] not in ops]
    head = json.dumps(facts, ensure_ascii=False, indent=1)[:-2]
    lines = [json.dumps([r[k] for k in ("op", "kind", "call", "chosen", "us")],
                        ensure_ascii=False) for r in rows]  # fmt: skip
    path.write_text(head + ',\n "rows": [\n' + ",\n".join(lines) + "\n ]\n}\n")


def read(path: pathlib.Path) -> dict:
    results = json.loads(path.read_text())
    names = "op", "kind", "call", "chosen", "us"
    results["rows"] = [dict(zip(names, row, strict=True)) for row in results["rows"]]
    return results


def drawn(op: str, draw: random.Random, most: float, device: str):
    if op in DRAWN:
        return draw_call(op, draw, most)
    return draw_case(op, draw, 10 << 10, most, 0.0, device != "cpu")


def run(arguments) -> tuple[list[dict], list[str]]:
    arrays = Arrays(arguments.device, arguments.most)
    rows, wrong = [], []
    turns = [(op, seed) for seed in arguments.seed for op in arguments.op]
    begun = time.perf_counter()
    for i, (op, seed) in enumerate(turns):
        draw = random.Random(f"regret {op} {seed}")
        ladder = [k.name for k in gpuops.kernels(op, device=arguments.device)
                  if k.role == "production"]  # fmt: skip
        until = begun + (i + 1) * arguments.seconds / len(turns)
        for _ in range(arguments.calls):
            if time.perf_counter() > until:
                break
            case = drawn(op, draw, arguments.most, arguments.device)
            try:
                rows.append(measure(case, arrays, ladder))
            except Exception as error:
                wrong.append(f"{case.label}: {type(error).__name__}: {error}"[:300])
            arrays.side.free()
    return rows, wrong


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--op", nargs="*", choices=OPS, default=OPS)
    parser.add_argument("--seed", nargs="*", type=int, default=[1])
    parser.add_argument("--calls", type=int, default=300, help="of an operation and seed")
    parser.add_argument("--seconds", type=float, default=120, help="of all, about")
    parser.add_argument("--device", default="cuda" if gpuops.is_available("cuda") else "cpu")
    parser.add_argument("--most", type=float, help="bytes of an array")
    parser.add_argument(
        "--without", nargs="*", help="rows that are left out of the calls on file"
    )
    parser.add_argument("--again", metavar="GPU", help="the one that the calls on file ran on")
    parser.add_argument(
        "--out", type=pathlib.Path, help="the file of the results, or of --without"
    )
    arguments = parser.parse_args()
    arguments.most = arguments.most or (64 if arguments.device == "cpu" else 1024) * MI
    facts = about(arguments.device)
    path = arguments.out or RESULTS / "regret" / results_path(facts).name
    if arguments.again:
        path = arguments.out or RESULTS / "regret" / f"nvidia-{arguments.again.lower()}.json"
        rows = [
            again(row, arguments.again) for row in read(path)["rows"] if row["op"] == "matmul"
        ]
        print(summary(rows))
        print(pairs(rows, 40))
        return 0
    if arguments.without:
        if not path.exists():
            parser.error(f"no calls are on file in {path}; --out names another file")
        print(losses(read(path)["rows"], arguments.without))
        return 0
    rows, wrong = run(arguments)
    stamp = {"date": datetime.date.today().isoformat(), "commit": commit(),
             "versions": versions(), "seeds": arguments.seed}  # fmt: skip
    write(path, {**facts, **stamp}, rows)
    print(summary(rows))
    print(pairs(rows, 40))
    print(f"\n{len(rows)} calls, {len(wrong)} failed; written: {path}")
    print("\n".join(wrong[:40]))
    return int(bool(wrong))


if __name__ == "__main__":
    sys.exit(main())

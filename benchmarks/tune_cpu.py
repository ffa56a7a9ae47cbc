"""tune_cpu - add, transpose and reduce on the CPU beside NumPy and numexpr, and row by row.

    python benchmarks/tune_cpu.py [--only transpose] [--runs 7] [--alone] [--rows] [--small]

One line a case: the rate of the least bytes in GB/s, cold caches, contenders taking turns. Each
figure is the median of the runs; on a machine that others use, --best takes the fastest run of
each instead, and --alone counts the processor's time of one thread. `copy` is the best copy of
the same total bytes, with an output that exists; `fresh` has gpuops make its output. --rows
times every row of the ladder; --small times the calls themselves, on small arrays, in
microseconds.
"""

from __future__ import annotations

import argparse
import importlib.util
import itertools
import statistics
import time

import numpy as np

import gpuops

EIGHTS = (8,) * 8
# label, op, shapes, dtype, options, a view of the first operand
CASES = [
    ("add f4", "add", [(1 << 25,)] * 2, "f4", {}, None),
    ("add f8", "add", [(1 << 24,)] * 2, "f8", {}, None),
    ("add u1", "add", [(1 << 27,)] * 2, "u1", {}, None),
    ("add f2", "add", [(1 << 25,)] * 2, "f2", {}, None),
    ("add f4, 2 MiB", "add", [(1 << 19,)] * 2, "f4", {}, None),
    ("add f4, a row", "add", [(4096, 4096), (4096,)], "f4", {}, None),
    ("add f4, a column", "add", [(4096, 4096), (4096, 1)], "f4", {}, None),
    ("add f4, a.T + b", "add", [(4096, 4096)] * 2, "f4", {}, "T"),
    ("add f4, a[:, ::2]", "add", [(4096, 8192), (4096, 4096)], "f4", {}, "step"),
    ("multiply_add f4", "multiply_add", [(1 << 24,)] * 3, "f4", {}, None),
    ("fma f4", "fma", [(1 << 24,)] * 3, "f4", {}, None),
    *[(f"transpose 8192² {d}", "transpose", [(8192, 8192)], d, {}, None)
      for d in ("u1", "u2", "f4", "f8")],
    ("transpose 4096² c16", "transpose", [(4096, 4096)], "c16", {}, None),
    ("transpose 4000² f4", "transpose", [(4000, 4000)], "f4", {}, None),
    ("transpose 512² f4", "transpose", [(512, 512)], "f4", {}, None),
    ("transpose 8191x8193 f4", "transpose", [(8191, 8193)], "f4", {}, None),
    *[(f"transpose {s} {d}", "transpose", [s], d, {}, None) for d in ("u1", "f4", "f8")
      for s in ((1 << 22, 3), (3, 1 << 22))],
    *[(f"transpose (128,256,512) {p}", "transpose", [(128, 256, 512)], "f4", {"axes": p}, None)
      for p in itertools.permutations(range(3))],
    ("transpose (32,64,64,128) (3,1,0,2)", "transpose", [(32, 64, 64, 128)], "f4",
     {"axes": (3, 1, 0, 2)}, None),
    ("transpose 8^8 reversed", "transpose", [EIGHTS], "f4", {}, None),
    ("transpose 8^8 reversed", "transpose", [EIGHTS], "u1", {}, None),
    ("transpose 2^24 reversed", "transpose", [(2,) * 24], "f4", {}, None),
    ("transpose (2000,2000,3) (2,0,1)", "transpose", [(2000, 2000, 3)], "u1",
     {"axes": (2, 0, 1)}, None),
    ("transpose (2000,2000,3) (1,0,2)", "transpose", [(2000, 2000, 3)], "u1",
     {"axes": (1, 0, 2)}, None),
    ("transpose 4096² f4, a[:, ::2]", "transpose", [(4096, 8192)], "f4", {}, "step"),
    ("transpose 4096² f4, reversed", "transpose", [(4096, 4096)], "f4", {}, "flip"),
    *[(f"sum 2^26 {d}", "sum", [(1 << 26,)], d, {}, None)
      for d in ("f4", "f8", "f2", "u1", "i4", "c8")],
    ("sum 2^18 f4", "sum", [(1 << 18,)], "f4", {}, None),
    *[(f"sum 8192² {d}, axis {x}", "sum", [(8192, 8192)], d, {"axis": x}, None)
      for d in ("f4", "u1") for x in (0, 1)],
    ("sum (256,512,512) axis 1", "sum", [(256, 512, 512)], "f4", {"axis": 1}, None),
    ("sum (256,512,512) axis (0, 2)", "sum", [(256, 512, 512)], "f4", {"axis": (0, 2)}, None),
    ("sum (2^22, 3) axis 0", "sum", [(1 << 22, 3)], "f4", {"axis": 0}, None),
    ("sum (2^22, 3) axis 1", "sum", [(1 << 22, 3)], "f4", {"axis": 1}, None),
    ("sum (2^20, 32) axis 1", "sum", [(1 << 20, 32)], "f4", {"axis": 1}, None),
    ("sum (3, 2^22) axis 0", "sum", [(3, 1 << 22)], "f4", {"axis": 0}, None),
    *[(f"sum (2^18, 64) {d} axis {x}", "sum", [(1 << 18, 64)], d, {"axis": x}, None)
      for d in ("f4", "f8") for x in (0, 1)],
    *[(f"{op} 4096² {d}, axis {x}", op, [(4096, 4096)], d, {"axis": x}, None)
      for op in ("sum", "min", "argmin") for d in ("f4", "f8", "i4", "u1") for x in (0, 1)],
    ("sum 4096² f4, a[:, ::2]", "sum", [(4096, 8192)], "f4", {}, "step"),
    ("sum 4096² f4, a.T", "sum", [(4096, 4096)], "f4", {}, "T"),
    *[(f"{op} 2^26 f4", op, [(1 << 26,)], "f4", {}, None)
      for op in ("mean", "prod", "max", "argmax")],
    ("any 2^26 bool", "any", [(1 << 26,)], "?", {}, None),
]  # fmt: skip

NUMEXPR = {"add": "a + b", "multiply_add": "a*b + c", "sum": "sum(a)"}
VIEWS = {
    "T": lambda a: a.T,
    "step": lambda a: a[:, ::2],
    "flip": lambda a: a[::-1, ::-1],
    None: lambda a: a,
}


def random_array(shape, dtype: str) -> np.ndarray:
    rng = np.random.default_rng(0)
    if dtype == "?":
        return np.full(shape, False)  # nothing ends the search early
    if dtype in ("u1", "i4"):
        return rng.integers(0, 256, shape, np.uint8).astype(dtype, copy=False)
    return rng.random(shape, np.float32).astype(dtype, copy=False)


class Cold:
    """Writes more than the caches hold, as gpuops' own timing does."""

    def __init__(self, clock) -> None:
        self.clock = clock
        self.memory = np.zeros(128 << 20, np.uint8)

    def seconds(self, call) -> float:
        self.memory += 1
        start = self.clock()
        call()
        return self.clock() - start


def contenders(op: str, arrays, options, copied: np.ndarray, kernels) -> dict:
    """name -> a call without arguments; all but `fresh` write into an output that exists."""
    ours = getattr(gpuops, op)
    made = ours(*arrays, **options)
    is_array = isinstance(made, np.ndarray) and made.ndim > 0
    into = {"out": made} if is_array else {}
    calls = {"gpuops": lambda: ours(*arrays, **options, **into)}
    if is_array:
        calls["fresh"] = lambda: ours(*arrays, **options)
    for kernel in kernels:
        calls[kernel] = lambda k=kernel: ours(*arrays, **options, **into, kernel=k)
    half = copied.size // 8192 * 4096
    source, target = copied[:half], copied[half : 2 * half]
    calls["copy"] = lambda: gpuops.transpose(source, out=target)
    calls["numpy"] = in_numpy(op, arrays, options, made if is_array else None)
    takes = arrays[0].dtype.name in ("int32", "int64", "float32", "float64")
    if op in NUMEXPR and takes and not options and importlib.util.find_spec("numexpr"):
        import numexpr

        numexpr.set_num_threads(gpuops.get_num_threads())
        names = dict(zip("abc", arrays, strict=False))
        calls["numexpr"] = lambda: numexpr.evaluate(NUMEXPR[op], names, **into)
    return calls


def in_numpy(op: str, arrays, options, out):
    if op == "transpose":
        return lambda: np.copyto(out, np.transpose(arrays[0], options.get("axes")))
    if op in ("multiply_add", "fma"):  # NumPy has neither; two passes for two roundings

        def twice():
            np.multiply(arrays[0], arrays[1], out=out)
            np.add(out, arrays[2], out=out)

        return twice
    function = getattr(np, op)
    return lambda: function(*arrays, **options, **({} if out is None else {"out": out}))


def large(arguments) -> None:
    cold = Cold(time.process_time if arguments.alone else time.perf_counter)
    if arguments.alone:
        gpuops.set_num_threads(1)
    copied = np.ones(1 << 29, np.uint8)
    pick = min if arguments.best else statistics.median
    printed = None
    for label, op, shapes, dtype, options, view in CASES:
        if arguments.only not in label:
            continue
        arrays = [random_array(s, dtype) for s in shapes]
        arrays[0] = VIEWS[view](arrays[0])
        name = "reduce" if op not in ("add", "multiply_add", "fma", "transpose") else op
        rows = gpuops.kernels(name, device="cpu") if arguments.rows else []
        plan = gpuops.explain(getattr(gpuops, op), *arrays, **options)
        nbytes = int(plan.bytes)
        calls = contenders(op, arrays, options, copied[:nbytes], [r.name for r in rows])
        found = {c: [] for c in calls}
        for call in calls.values():
            call()
        for _ in range(arguments.runs):
            for contender, call in calls.items():
                found[contender].append(cold.seconds(call))
        seconds = {c: pick(s) for c, s in found.items()}
        if printed != tuple(seconds):
            printed = tuple(seconds)
            print(f"{'GB/s':36}" + "".join(f"{c:>9}" for c in seconds) + "  of copy, of numpy")
        rates = "".join(f"{nbytes / s / 1e9:9.2f}" for s in seconds.values())
        ours = seconds["gpuops"]
        print(
            f"{label:36}{rates}{seconds['copy'] / ours:9.2f}{seconds['numpy'] / ours:9.2f}",
            flush=True,
        )


def small(arguments) -> None:
    """Microseconds a call of arrays whose work is nothing: the way to the kernel and back."""
    a, b = np.ones(1000, np.float32), np.ones((30, 33), np.float32)
    made, flipped = np.empty_like(a), np.empty((33, 30), np.float32)
    pairs = [
        ("add 1000", lambda: gpuops.add(a, a), lambda: a + a),
        ("add 1000, out", lambda: gpuops.add(a, a, made), lambda: np.add(a, a, made)),
        ("add 1000, scalar", lambda: gpuops.add(a, 1.0), lambda: a + 1.0),
        ("sum 1000", lambda: gpuops.sum(a), lambda: np.sum(a)),
        ("sum 30x33, axis 0", lambda: gpuops.sum(b, 0), lambda: np.sum(b, 0)),
        ("max 1000", lambda: gpuops.max(a), lambda: np.max(a)),
        ("mean 1000", lambda: gpuops.mean(a), lambda: np.mean(a)),
        (
            "transpose 30x33",
            lambda: gpuops.transpose(b),
            lambda: np.ascontiguousarray(np.transpose(b)),
        ),
        (
            "transpose 30x33, out",
            lambda: gpuops.transpose(b, out=flipped),
            lambda: np.copyto(flipped, b.T),
        ),
    ]
    print(f"{'µs a call':24}{'gpuops':>9}{'numpy':>9}")
    for label, *calls in pairs:
        if arguments.only not in label:
            continue
        best = [1.0, 1.0]
        for _, k in itertools.product(range(3 * arguments.runs), range(2)):
            start = time.perf_counter()
            for _ in range(1000):
                calls[k]()
            best[k] = min(best[k], (time.perf_counter() - start) / 1000)
        print(f"{label:24}{best[0] * 1e6:9.2f}{best[1] * 1e6:9.2f}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", default="", help="cases whose label contains this")
    parser.add_argument("--runs", type=int, default=7)
    parser.add_argument("--best", action="store_true", help="the fastest run, not the median")
    parser.add_argument("--alone", action="store_true", help="one thread's processor time")
    parser.add_argument("--rows", action="store_true", help="every row of the ladder")
    parser.add_argument("--small", action="store_true", help="the cost of a call")
    arguments = parser.parse_args()
    (small if arguments.small else large)(arguments)


if __name__ == "__main__":
    main()

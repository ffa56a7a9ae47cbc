"""fit_choose - the paces of csrc/cuda/matmul/choose.cu, from the calls that regret.py timed.

    python benchmarks/fit_choose.py [results/regret/<device>.json]

Writes the paces, one for a row and class of dtypes, and prints how often the row that is then
expected to be fastest is. What a tile is comes from the row's source; the times are fitted:
least squares of the logarithms, far outliers counting less.
"""

from __future__ import annotations

import argparse
import ast
import collections
import json
import math
import pathlib
import re

import numpy as np
from scipy.optimize import least_squares

ITEM = {"bool": 1, "int8": 1, "uint8": 1, "int16": 2, "float16": 2, "bfloat16": 2, "int32": 4,
        "float32": 4, "float64": 8, "int64": 8, "complex64": 8, "complex128": 16}  # fmt: skip
CLASS = {"bool": "BYTE", "int8": "BYTE", "uint8": "BYTE", "int16": "SHORT", "int32": "WORD",
         "int64": "LONG", "float16": "HALF", "bfloat16": "HALF", "float32": "FLOAT",
         "float64": "DOUBLE", "complex64": "PAIR", "complex128": "PAIRS"}  # fmt: skip
ORDER = ("BYTE", "SHORT", "WORD", "LONG", "HALF", "FLOAT", "DOUBLE", "PAIR", "PAIRS")
# Row: tiles (m, n, cost of a term beside the last one's), whether one side must be thin, blocks
# of a processor at once, terms of the shortest piece of a sum. Alternatives are tried.
TILES = {
    "naive": ([[(1, 256, 1)]], False, (8,), (0,)),
    "small": ([[(32, 32, 1)], [(8, 8, 0.12), (16, 16, 0.35), (32, 32, 1)]], False, (4, 8),
              (0,)),
    "blocktiled": ([[(128, 128, 1)], [(128, 64, 1)], [(64, 64, 1)]], False, (1, 2, 8), (0,)),
    "splitk": ([[(128, 128, 1)], [(128, 64, 1)], [(64, 64, 1)]], False, (1, 2), (256,)),
    "bytes": ([[(128, 128, 1)]], False, (1, 2), (0,)),
    "doubles": ([[(64, 64, 1)]], False, (2, 4), (256,)),
    "mapped": ([[(64, 64, 0.25), (128, 128, 1)]], False, (1,), (128,)),
    "pieces": ([[(256, 128, 0.55), (256, 256, 1)], [(128, 128, 0.28), (256, 256, 1)]], False,
               (1,), (256,)),
    "fused": ([[(32, 32, 0.33), (64, 64, 1), (128, 64, 1.85)]], False, (1, 2), (256,)),
    "direct": ([[(128, 64, 0.41), (128, 128, 0.62), (256, 128, 1)]], False, (1,), (128,)),
    "warpgroup": ([[(128, 128, 0.37), (256, 256, 1)], [(128, 128, 1)]], False, (1,), (256,)),
    "columns": ([[(128, 16, 1)], [(256, 16, 1)], [(64, 16, 1)]], True, (2, 4), (256,)),
    "dots": ([[(16, 8, 1)], [(32, 8, 1)], [(8, 8, 1)]], True, (2, 4), (1024, 256)),
    "fragments": ([[(128, 32, 1)], [(256, 32, 1)]], True, (2, 4), (512,)),
    "ring": ([[(128, 32, 1)], [(128, 64, 1)]], True, (2,), (256,)),
    "raw": ([[(128, 128, 1)]], True, (1,), (256,)),
}  # fmt: skip
# Microseconds: the launch, a term, a term of a tile, a tile; a byte of operands, of results,
# from the second-level cache. Factors: a's or b's terms are neighbours, are not in groups of 16
# bytes; rows of results are not.
FIRST = (3, 0.01, 0.05, 1, 0.3e-6, 0.3e-6, 0.05e-6, 1, 1, 1, 1, 1)
PROCESSORS = 132
LEAST = (1.5, 1e-6, 1e-6, 1e-6, 0.15e-6, 0.15e-6, 0.03e-6, *(0.3,) * 5)  # what is believed
MOST = (30, 1, 5, 50, 5e-6, 10e-6, 5e-6, *(5,) * 5)
BOUNDS = np.log(LEAST), np.log(MOST)
HERE = pathlib.Path(__file__).parent
PACES = HERE.parent / "csrc/cuda/matmul/choose_paces.inc"
HEAD = """/*
 * choose_paces.inc - the paces of choose.cu: of {count} products, on an {device}, {date}.
 * Written by benchmarks/fit_choose.py from what benchmarks/regret.py timed.
 */
/* clang-format off */
"""
CALL = re.compile(r"(\w+) (\(.*?\)) (\(.*?\))(?:\+(\d+))? @ (\(.*?\)) (\(.*?\))(?:\+(\d+))?$")


def operand(shape, strides, offset, item, inner):
    """bytes, whether terms are neighbours, whether 16 bytes are neighbours wherever."""
    vector = max(1, 16 // item)
    near, far = (-1, -2) if strides[-1] <= strides[-2] else (-2, -1)
    distinct = math.prod(n for n, s in zip(shape[:-2], strides[:-2], strict=True) if s)
    wide = (strides[near] == 1 and shape[near] % vector == 0 and offset % vector == 0
            and (strides[far] % vector == 0 or shape[far] == 1)
            and all(s % vector == 0 for s in strides[:-2]))  # fmt: skip
    along = (near == -1) == (inner == -1)
    return distinct * shape[-1] * shape[-2] * item, along, wide


def shape_of(call: str) -> dict:
    """What choose.cu knows of a product."""
    dtype, *texts = CALL.match(call).groups()
    sa, ta, oa, sb, tb, ob = (ast.literal_eval(t) if t else 0 for t in texts)
    item = ITEM[dtype]
    a, b = operand(sa, ta, oa, item, -1), operand(sb, tb, ob, item, -2)
    batches = math.prod(np.broadcast_shapes(sa[:-2], sb[:-2]))
    m, k, n = sa[-2], sa[-1], sb[-1]
    result = batches * m * n * item
    return {"class": CLASS[dtype], "item": item, "m": m, "n": n, "k": k, "batches": batches,
            "a": a, "b": b, "bytes": a[0] + b[0], "result": result}  # fmt: skip


def features(shapes, tile, thin, held, shortest) -> dict:
    found = collections.defaultdict(list)
    tile_m, tile_n, cost = tile
    for s in shapes:
        m, n, k, a, b = s["m"], s["n"], s["k"], s["a"], s["b"]
        if thin and m < n:
            m, n, a, b = n, m, b, a
        width = min(tile_n, 1 << (n - 1).bit_length()) if thin else tile_n
        tiles = -(-m // tile_m) * -(-n // width) * s["batches"]
        if tile_m == 1:
            tiles = -(-m * n * s["batches"] // tile_n)
        split = 1
        if shortest:
            split = max(1, min(PROCESSORS * held // tiles, k // shortest))
        blocks = tiles * split / PROCESSORS
        full = math.floor(blocks / held)
        rest = blocks - full * held
        rest = math.ceil(rest) if blocks < 8 * held else rest
        terms = -(-k // split)
        found["turns"].append((full + (rest > 0)) * terms)
        found["rounds"].append((full * held + rest) * terms * cost * width / tile_n)
        found["tiles"].append((full * held + rest) * cost)
        found["bytes"].append(s["bytes"] + (2 * split * s["result"] if split > 1 else 0))
        read = min(tile_m, m) + min(width, n)
        found["read"].append(float(tiles * k * read * s["item"]))
        found["split"].append(float(split > 1))
        found["result"].append(s["result"])
        found["uneven"].append(s["n"] * s["item"] % 16 != 0)
        found["flags"].append([a[1] and m > 1, b[1] and n > 1, not a[2], not b[2]])
    return {name: np.array(values, float) for name, values in found.items()}


def expected(x, lines) -> np.ndarray:
    """us of each call: the least of the row's tiles."""
    start, term, each, around, memory, store, cache = np.exp(x[:7])
    best = None
    for f in lines:
        slower = np.exp(f["flags"] @ x[7:11])
        work = f["turns"] * term + f["rounds"] * each * slower + f["tiles"] * around
        reads = f["read"] * cache * slower
        moved = f["bytes"] * memory + f["result"] * store * np.exp(f["uneven"] * x[11])
        time = start * (1 + f["split"]) + np.cbrt(work**3 + moved**3 + reads**3)
        best = time if best is None else np.minimum(best, time)
    return best


def fit(row: str, shapes, us, weight):
    ways, thin, helds, shortests = TILES[row]
    found = None
    for tiles in ways:
        for held in helds:
            for shortest in shortests:
                lines = [features(shapes, t, thin, held, shortest) for t in tiles]
                first = np.log(FIRST)

                def error(x, lines=lines, first=first):
                    apart = np.log(expected(x, lines) / us) / 0.05
                    return np.concatenate([weight * apart, 0.1 * (x[:7] - first[:7]), x[7:]])

                got = least_squares(error, first, loss="soft_l1", max_nfev=100, bounds=BOUNDS)
                off = np.abs(np.log(expected(got.x, lines) / us))
                score = np.mean(weight * np.minimum(off, 0.5))
                if found is None or score < found[0]:
                    found = score, got.x, tiles, thin, held, shortest, off
    return found


def entry(row, name, found) -> str:
    """A pace of choose.cu."""
    _, x, tiles, thin, held, shortest, _ = found
    start, term, each, around, memory, store, cache = np.exp(x[:7])
    factors = ", ".join(f"{v:.2f}" for v in np.exp(x[7:]))
    drawn = ", ".join(f"{{{m}, {n}, {cost}}}" for m, n, cost in tiles)
    times = f"{start * 1e3:.0f}, {term * 1e3:.3g}, {each * 1e3:.3g}, {around * 1e3:.4g}"
    rates = f"{1e-3 / memory:.0f}, {1e-3 / store:.0f}, {1e-3 / cache:.0f}"
    return (f"{{{row}, {name}, {{{drawn}}}, {str(thin).lower()}, {held}, {shortest},\n"
            f"    {times}, {rates}, {{{factors}}}}},")  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("file", nargs="?", default=HERE / "results/regret/nvidia-h200.json")
    parser.add_argument("--drop", nargs="*", default=(), help="rows that are not fitted")
    parser.add_argument("--out", type=pathlib.Path, default=PACES)
    arguments = parser.parse_args()
    facts = json.loads(pathlib.Path(arguments.file).read_text())
    calls = [row for row in facts["rows"] if row[0] == "matmul"]
    shapes = [shape_of(row[2]) for row in calls]
    guess = [{} for _ in calls]
    entries = []
    rows = [row for row in TILES if row not in arguments.drop]
    for name in ORDER:
        for row in rows:
            at = [i for i, s in enumerate(shapes) if s["class"] == name and row in calls[i][4]]
            if len(at) < 15:
                continue
            us = np.array([calls[i][4][row] for i in at])
            least = np.array([min(calls[i][4].values()) for i in at])
            found = fit(row, [shapes[i] for i in at], us, np.sqrt(np.minimum(1, least / us)))
            entries.append(entry(row, name, found))
            lines = [features([shapes[i] for i in at], t, *found[3:6]) for t in found[2]]
            for i, time in zip(at, expected(found[1], lines), strict=True):
                guess[i][row] = time
    head = HEAD.format(count=len(calls), device=facts["device"], date=facts["date"])
    arguments.out.write_text(head + "\n".join(entries) + "\n")
    regrets = collections.defaultdict(list)
    lost = collections.Counter()
    for i, (call, of_row) in enumerate(zip(calls, guess, strict=True)):
        times = {row: us for row, us in call[4].items() if row in of_row}
        if times:
            chosen, best = min(times, key=of_row.get), min(times, key=times.get)
            regrets[shapes[i]["class"]].append(times[chosen] / times[best])
            lost[chosen, best] += times[chosen] > 1.05 * times[best]
    regrets["all"] = [r for found in list(regrets.values()) for r in found]
    for name, found in regrets.items():
        shares = [sum(r <= most for r in found) / len(found) for most in (1.05, 1.25)]
        print(f"{name:7} {len(found):5} calls {shares[0]:.1%} {shares[1]:.1%} {max(found):.2f}")
    print(lost.most_common(16))


if __name__ == "__main__":
    main()

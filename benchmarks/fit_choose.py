"""fit_choose - the paces of csrc/cuda/matmul/choose.cu, from the calls that regret.py timed.

    python benchmarks/fit_choose.py [results/regret/<device>.json]

Writes the paces, one for a row and class of dtypes, and prints how often the row that is then
expected to be fastest is. How a row cuts a product into blocks is what
csrc/cuda/matmul/tiling.h says, once more here. The times are fitted in two steps: each row's
by least squares of the logarithms, far outliers counting less; then those of all rows of a
class of dtypes together, so that the row expected to be the fastest loses little time.
"""

from __future__ import annotations

import argparse
import ast
import collections
import json
import math
import pathlib
import re

import jax
import jax.numpy as jnp
import numpy as np
from scipy.optimize import least_squares, minimize

ITEM = {"bool": 1, "int8": 1, "uint8": 1, "int16": 2, "float16": 2, "bfloat16": 2, "int32": 4,
        "float32": 4, "float64": 8, "int64": 8, "complex64": 8, "complex128": 16}  # fmt: skip
CLASS = {"bool": "BYTE", "int8": "BYTE", "uint8": "BYTE", "int16": "SHORT", "int32": "WORD",
         "int64": "LONG", "float16": "HALF", "bfloat16": "HALF", "float32": "FLOAT",
         "float64": "DOUBLE", "complex64": "PAIR", "complex128": "PAIRS"}  # fmt: skip
ORDER = ("BYTE", "SHORT", "WORD", "LONG", "HALF", "FLOAT", "DOUBLE", "PAIR", "PAIRS")
# The times of wgmma_f16 stand in wgmma_f16_schedule.cu.
# Rows whose tiles are given: rows and columns of each, what a term costs beside the first's;
# blocks of a processor at once; terms of the shortest piece of a sum, 0: sums stay whole.
# Several are tried.
TILES = {
    "naive": ([[(1, 256, 1)]], (8,), 0),
    "blocktiled": ([[(128, 128, 1)], [(128, 64, 1)], [(64, 64, 1)]], (1, 2, 8), 0),
    "imma": ([[(128, 128, 1)]], (1, 2), 0),
    "dmma": ([[(64, 64, 1)]], (2, 4), 256),
    "dmma_tma": ([[(64, 64, 1), (128, 128, 1)]], (1,), 128),
    "bf16x3_packed": (
        [[(256, 128, 1), (256, 256, 0.9)], [(128, 128, 1), (256, 256, 0.9)]], (1,), 256),
    "bf16x3": ([[(128, 64, 1), (128, 128, 0.76), (256, 128, 0.61)]], (1,), 128),
}  # fmt: skip
# Those that tiling.h cuts: blocks of a processor.
HELD = {"small": (4, 8), "bf16x3_small": (1, 2), "mma": (2, 4), "splitk": (1, 2),
        "gemv_col": (2, 4, 8), "gemv_row": (2, 4, 8), "skinny_mma": (2, 4, 8), "ring": (2,),
        "skinny_wgmma": (1,)}  # fmt: skip
THIN = {"gemv_col", "gemv_row", "skinny_mma", "ring", "skinny_wgmma"}
# Rows and columns, tiles of a block, what it costs in copies of items and of 16 bytes.
SMALL = ((8, 8, 8, 160, 160), (16, 16, 2, 74, 74), (32, 32, 1, 85, 85), (48, 48, 1, 222, 222),
         (56, 64, 1, 279, 279), (56, 64, 1, 313, 262), (64, 64, 1, 300, 300))  # fmt: skip
# Microseconds: a launch, one that copies, one that adds; a step, a term, an output, a block; a
# byte of operands, of results, from the L2 cache, of a copy. Factors: a's or b's
# terms are neighbours, are not in groups of 16 bytes; rows of results are not.
TIMES = (3, 2, 2, 0.05, 1e-5, 1e-4, 0.3, 0.3e-6, 0.3e-6, 0.05e-6, 1e-6)
PROCESSORS = 132
COMPUTES = 12  # naive: what a term takes beside a line that a warp reads
# The second step: rows that are expected to take times within CLOSE (of logarithms) share a
# call; how firmly paces stay where the first step left them.
CLOSE, FIRM = 0.04, 4
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
    along = (near == -1) == (inner == -1) and shape[-3 - inner] > 1
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


def up(a: int, b: int) -> int:
    return -(-a // b)


def least(ways, time):
    return min(range(len(ways)), key=lambda way: time(*ways[way]))


def thin_cut(p, lines, columns, shortest, held):
    blocks = up(p["m"], lines) * up(p["n"], columns) * p["batches"]
    split = max(1, min(held * PROCESSORS // blocks, p["k"] // shortest, 1024))
    chunk = up(up(p["k"], split), 256) * 256
    split = max(1, up(p["k"], chunk))
    return {"lines": lines, "columns": columns, "blocks": blocks * split, "split": split,
            "chunk": chunk}  # fmt: skip


def parts_of(k: int, least: int) -> int:
    parts = 1
    while parts < 8 and k >= least * parts:
        parts *= 2
    return parts


def ring_cut(p, columns, width, step, slots):
    blocks = up(p["m"], 128) * up(columns, width) * p["batches"]
    pieces = max(1, min(slots // blocks, up(p["k"], 8 * step)))
    chunk = up(up(p["k"], pieces), step) * step
    split = up(p["k"], chunk)
    return {"lines": 128, "columns": width, "blocks": blocks * split, "split": split,
            "chunk": chunk, "step": step, "packed": True}  # fmt: skip


def cut_few_columns(row: str, p: dict) -> dict:
    """What tiling.h decides of the rows for few columns."""
    n, k, item = p["n"], p["k"], p["item"]
    along, wide = p["a"][1:]
    b_along, b_wide = p["b"][1:]
    pair = p["class"] in ("PAIR", "PAIRS")
    if row == "gemv_row":
        wide = along and wide and item < 16
        vector = 16 // item if wide else 1
        lanes = 8 if wide and k < 64 * vector else 32
        each = vector * 2 if wide else 4
        parts, width = parts_of(k, 64 * each), min(8, 1 << (n - 1).bit_length())
        rows = min(4, max(1, 256 // (width * max(item, 4))))
        packed = n > 1 or (wide and not (b_along and b_wide))
        found = thin_cut(p, 8 // parts * rows * (32 // lanes), width, 32 * each * parts, 4)
        return {**found, "step": lanes * vector * parts, "packed": packed, "wide": wide}
    if row == "gemv_col":
        width = min(16, 1 << (n - 1).bit_length())
        vector = (8 if item == 2 and width > 2 else 16) // item
        parts = parts_of(k, 16)
        found = thin_cut(p, 8 // parts * 32 * vector, width, 256, 3 if width < 4 else 2)
        return {**found, "step": parts, "wide": (not along and wide) or vector == 1}
    if row == "skinny_mma":
        lines, step = 32 if item == 8 or along else 64, 64 if along and item < 8 else 32
        parts, width = parts_of(k, 2 * step), 8 if n <= 8 else 16 if n <= 16 else 32
        found = thin_cut(p, 8 // parts * lines, width, 4 * step * parts, 4)
        return {**found, "step": step * parts, "packed": True}
    if row == "ring":
        numbers, way = 1 + pair, 0
        while way < (3 if item // numbers < 8 else 2) and n * numbers > 8 << way:
            way += 1
        found = ring_cut(p, n * numbers, 8 << way, 128 // item, 2 * PROCESSORS)
        return {**found, "way": way}
    return ring_cut(p, n * (1 + pair), 128, 32 // (1 + pair), PROCESSORS)  # skinny_wgmma


def cut(row: str, p: dict, tile, held: int, shortest: int) -> dict:
    """What tiling.h and tiles_tiling of choose.cu decide."""
    if row in THIN:
        return cut_few_columns(row, p)
    m, n, k, item, batches = (p[name] for name in ("m", "n", "k", "item", "batches"))
    along, wide = p["a"][1:]
    b_along, b_wide = p["b"][1:]
    if row == "small":
        rows = wide and along and b_wide and not b_along
        ways = SMALL if p["class"] == "FLOAT" else SMALL[:3]

        def blocks_of(m_tile, n_tile, teams):
            return up(up(m, m_tile) * up(n, n_tile) * batches, teams)

        way = least(ways, lambda a, b, teams, *cost:
                    up(blocks_of(a, b, teams), PROCESSORS) * cost[rows])  # fmt: skip
        return {"lines": ways[way][0], "columns": ways[way][1], "tiles": ways[way][2],
                "blocks": blocks_of(*ways[way][:3]), "step": 16, "way": way,
                "wide": rows}  # fmt: skip
    if row == "bf16x3_small":
        ways = (32, 32), (64, 64), (128, 64)
        way = least(ways, lambda a, b: up(up(m, a) * up(n, b) * batches, PROCESSORS)
                    * (a * b + 16 * (a + b)))  # fmt: skip
        lines, columns = ways[way]
        blocks = up(m, lines) * up(n, columns) * batches
        wanted = 2 * PROCESSORS // blocks
        split = max(1, min(wanted, k // 256)) if wanted >= 4 else 1
        chunk = up(up(k, split), 64) * 64
        split = up(k, chunk)
        return {"lines": lines, "columns": columns, "blocks": blocks * split, "split": split,
                "chunk": chunk, "step": 32 if way else 64, "way": way,
                "wide": wide and b_wide}  # fmt: skip
    if row == "mma":
        rows = wide and b_wide
        ways = ((64, 64, 6144), (128, 128, 17096)) if rows else ((64, 64, 6144),)
        way = least(ways, lambda a, b, cost: up(up(m, a) * up(n, b) * batches, PROCESSORS)
                    * cost)  # fmt: skip
        lines, columns = ways[way][:2]
        blocks = up(m, lines) * up(n, columns) * batches
        split = max(1, min(2 * PROCESSORS // blocks, k // 256))
        chunk = up(up(k, split), 32) * 32
        split = up(k, chunk)
        return {"lines": lines, "columns": columns, "blocks": blocks * split, "split": split,
                "chunk": chunk, "step": 32, "way": way, "wide": rows}  # fmt: skip
    if row == "splitk":
        lines, columns = 64 if item > 8 else 128, 64 if item > 4 else 128
        wanted = 2 * PROCESSORS // (up(m, 64) * up(n, 64) * batches)
        split = max(1, min(wanted, k // 256, 1024))
        chunk = up(up(k, split), 8) * 8
        split = up(k, chunk) if split > 1 else 1
        blocks = up(m, lines) * up(n, columns) * batches * split
        return {"lines": lines, "columns": columns, "blocks": blocks, "split": split,
                "chunk": chunk, "step": 8}  # fmt: skip
    lines, columns = tile[:2]
    tiles = up(m, lines) * up(n, columns) * batches
    if lines == 1:
        tiles = up(m * n * batches, columns)
    split = max(1, min(PROCESSORS * held // tiles, k // shortest)) if shortest else 1
    return {"lines": lines, "columns": columns, "blocks": tiles * split, "split": split,
            "chunk": up(k, split)}  # fmt: skip


def naive_term(s) -> float:
    """What a term takes where a warp's two reads touch that many lines of 128 bytes."""
    columns = min(32, s["n"])
    rows = min(32, up(32, columns)) if columns < 32 else 1

    def lines(count, along):
        bytes_ = count * s["item"] / 128
        return max(1, min(count, s["k"] * bytes_) if along else bytes_)

    return (COMPUTES + lines(rows, s["a"][1]) + lines(columns, s["b"][1])) / (COMPUTES + 2)


def features(row, shapes, tile, way, held, shortest) -> dict:
    """What time_of of choose.cu multiplies with the paces."""
    found = collections.defaultdict(list)
    for s in shapes:
        p = s
        if row in THIN and s["m"] < s["n"]:
            p = {**s, "m": s["n"], "n": s["m"], "a": s["b"], "b": s["a"]}
        t = {"tiles": 1, "step": 1, "split": 1, "chunk": p["k"], "way": way, "packed": False,
             "wide": p["a"][2], **cut(row, p, tile, held, shortest)}  # fmt: skip
        blocks = t["blocks"] / PROCESSORS
        full = math.floor(blocks / held)
        rest = blocks - full * held
        rest = math.ceil(rest) if full < 8 else rest
        terms, outputs = min(t["chunk"], p["k"]), t["lines"] * t["columns"] * t["tiles"]
        found["steps"].append((full + (rest > 0)) * math.ceil(terms / t["step"]))
        naive = naive_term(s) if row == "naive" else 1
        found["terms"].append((full * held + rest) * outputs * terms * naive)
        found["outputs"].append((full * held + rest) * outputs)
        found["blocks"].append(full * held + rest)
        pieces = 2 * t["split"] * s["result"] if t["split"] > 1 else 0
        found["bytes"].append(s["bytes"] + pieces)
        lines = min(t["lines"], p["m"]) + min(t["columns"], p["n"])
        found["read"].append(float(t["blocks"] * t["tiles"] * terms * lines * s["item"]))
        found["split"].append(t["split"] > 1)
        found["packed"].append(t["packed"])
        found["copied"].append(p["b"][0] * t["packed"])
        found["result"].append(s["result"])
        found["uneven"].append(s["n"] * s["item"] % 16 != 0)
        found["flags"].append([p["a"][1], p["b"][1], not t["wide"], not p["b"][2]])
        found["way"].append(t["way"])
    ways = np.array(found.pop("way"))
    return {"way": ways, **{name: np.array(v, float) for name, v in found.items()}}


def expected(x, lines, xp=np):
    """us of each call: the least of the row's tiles."""
    start, pack, add, step, term, output, block, memory, store, cache, copy = xp.exp(x[:11])
    way = xp.exp(xp.concatenate([xp.zeros(1), x[16:]]))
    best = None
    for f in lines:
        slower = xp.exp(f["flags"] @ x[11:15])
        tile = way[f["way"]]
        work = (f["steps"] * step + f["terms"] * tile * term * slower
                + f["outputs"] * tile * output + f["blocks"] * block)  # fmt: skip
        reads = f["read"] * cache * slower
        moved = f["bytes"] * memory + f["result"] * store * xp.exp(f["uneven"] * x[15])
        time = start + f["packed"] * pack + f["copied"] * copy + f["split"] * add
        time = time + xp.cbrt(work**3 + moved**3 + reads**3)
        best = time if best is None else xp.minimum(best, time)
    return best


def fit(row: str, shapes, us, weight):
    """The pace that misses the measured times by the least."""
    ways, helds, shortest = TILES.get(row, ([[]], HELD.get(row), 0))
    found = None
    for tiles in ways:
        for held in helds:
            lines = [features(row, shapes, t, way, held, shortest)
                     for way, t in enumerate(tiles or [None])]  # fmt: skip
            costs = [cost for *_, cost in tiles[1:]] or [1] * max(f["way"].max() for f in lines)
            first = np.concatenate([np.log(TIMES), np.zeros(5), np.log(costs)])
            certain = np.repeat([0.1, 1, 0.5], [11, 5, len(costs)])

            def error(x, lines=lines, first=first, certain=certain):
                apart = np.log(expected(x, lines) / us) / 0.05
                return np.concatenate([weight * apart, certain * (x - first)])

            got = least_squares(error, first, loss="soft_l1", max_nfev=200,
                                bounds=(first - 8, first + 8))  # fmt: skip
            off = np.abs(np.log(expected(got.x, lines) / us))
            score = np.mean(weight * np.minimum(off, 0.5))
            if found is None or score < found[0]:
                found = score, got.x, lines, tiles, held, shortest
    return found


def refine(found: dict, places: dict, times: np.ndarray) -> dict:
    """The paces of one class, row -> x: from those of `fit`, where the row that is expected to
    be the fastest loses the least. Row r is asked of the calls places[r]; times[call, row]."""
    rows = list(found)
    ends = np.cumsum([0] + [len(found[row][1]) for row in rows])
    first = np.concatenate([found[row][1] for row in rows])
    lost = np.log(times / np.min(times, axis=1)[:, None])
    lost = np.where(np.isfinite(lost), np.minimum(lost, 1), 0)
    cost = np.where(lost > np.log(1.05), lost + 0.1, 0.5 * lost)
    ran = np.isfinite(times)

    def loss(x):
        logs = jnp.full(times.shape, 20.0)
        for c, row in enumerate(rows):
            us = expected(x[ends[c] : ends[c + 1]], found[row][2], jnp)
            logs = logs.at[places[row], c].set(jnp.log(us))
        share = jax.nn.softmax(jnp.where(ran, -logs / CLOSE, -1e3), axis=1)
        return jnp.sum(share * cost) + FIRM * jnp.sum((x - first) ** 2)

    step = jax.jit(jax.value_and_grad(loss))
    got = minimize(lambda x: tuple(np.asarray(v, float) for v in step(x)), first, jac=True,
                   method="L-BFGS-B", options={"maxiter": 150})  # fmt: skip
    return {row: got.x[ends[c] : ends[c + 1]] for c, row in enumerate(rows)}


def entry(row, name, found, x) -> str:
    """A pace of choose.cu."""
    _, _, _, tiles, held, shortest = found
    times = np.exp(x[:11])
    drawn = ", ".join(f"{{{m}, {n}}}" for m, n, _ in tiles)
    starts, parts, rates = times[:3] * 1e3, times[3:7] * 1e3, 1e-3 / times[7:]
    numbers = [f"{v:.4g}" for v in (*starts, *parts, *rates)]
    factors = ", ".join(f"{v:.2f}" for v in np.exp(x[11:16]))
    ways = ", ".join(f"{v:.3g}" for v in np.exp([0, *x[16:]]))
    return (f"{{{row}, {name}, {{{drawn}}}, {held}, {shortest}, {', '.join(numbers[:7])},\n"
            f"    {', '.join(numbers[7:])}, {{{factors}}}, {{{ways}}}}},")  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("file", nargs="?", default=HERE / "results/regret/nvidia-h200.json")
    parser.add_argument("--drop", nargs="*", default=(), help="rows that are not fitted")
    parser.add_argument("--out", type=pathlib.Path, default=PACES)
    arguments = parser.parse_args()
    jax.config.update("jax_enable_x64", True)
    facts = json.loads(pathlib.Path(arguments.file).read_text())
    calls = [row for row in facts["rows"] if row[0] == "matmul"]
    shapes = [shape_of(row[2]) for row in calls]
    guess = [{} for _ in calls]
    entries = []
    first = "naive", "small"  # which take every call: what they do bounds the others
    rows = [row for row in dict.fromkeys((*first, *TILES, *HELD)) if row not in arguments.drop]
    for name in ORDER:
        of_class = [i for i, s in enumerate(shapes) if s["class"] == name]
        found, places = {}, {}
        for row in rows:
            at = [i for i in of_class if row in calls[i][4]]
            if len(at) < 15:
                continue
            us = np.array([calls[i][4][row] for i in at])
            best = np.array([min(calls[i][4].values()) for i in at])
            weight = np.sqrt(np.minimum(1, best / us))
            found[row] = fit(row, [shapes[i] for i in at], us, weight)
            places[row] = np.searchsorted(of_class, at)
        times = np.array([[calls[i][4].get(row, np.inf) for row in found] for i in of_class])
        for row, x in refine(found, places, times).items():
            entries.append(entry(row, name, found[row], x))
            for i, us in zip(places[row], expected(x, found[row][2]), strict=True):
                guess[of_class[i]][row] = us
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

"""fit_choose - the paces of csrc/cuda/matmul/choose.cu, from the calls that regret.py timed.

    python benchmarks/fit_choose.py [results/regret/<device>.json] [--held 53 91]

Writes the paces, one for a row and class of dtypes, and prints how often the row that is then
expected to be fastest is. How a row cuts a product into blocks
stands in fit_cuts.py. The times are fitted in two steps: each row's
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
import random
import re

import jax
import jax.numpy as jnp
import numpy as np
from fit_cuts import PROCESSORS, THIN, adding_turns, cut, up
from regret import operands
from regret_draw import draw_product
from scipy.optimize import least_squares, minimize
from zoo_draw import MI

import gpuops

ITEM = {"bool": 1, "int8": 1, "uint8": 1, "int16": 2, "float16": 2, "bfloat16": 2, "int32": 4,
        "float32": 4, "float64": 8, "int64": 8, "complex64": 8, "complex128": 16}  # fmt: skip
CLASS = {"bool": "BIT", "int8": "BYTE", "uint8": "BYTE", "int16": "SHORT", "int32": "WORD",
         "int64": "LONG", "float16": "HALF", "bfloat16": "HALF", "float32": "FLOAT",
         "float64": "DOUBLE", "complex64": "PAIR", "complex128": "PAIRS"}  # fmt: skip
ORDER = ("BIT", "BYTE", "SHORT", "WORD", "LONG", "HALF", "FLOAT", "DOUBLE", "PAIR", "PAIRS")
# Those whose times stand in their own schedules, wgmma_f16_schedule.cu and dmma_schedule.cu.
SCHEDULED = ("wgmma_f16", "dmma", "dmma_tma")
UNKNOWN = 20.0  # the logarithm of a time that is never the least
# Rows whose tiles are given: rows and columns of each, what a term costs beside the first's;
# blocks of a processor at once; terms of the shortest piece of a sum, 0: sums stay whole.
# Several are tried.
TILES = {
    "naive": ([[(1, 256, 1)]], (8,), 0),
    "blocktiled": ([[(128, 128, 1)], [(128, 64, 1)], [(64, 64, 1)]], (1, 2, 8), 0),
    "imma": ([[(128, 128, 1)]], (1, 2), 0),
    "bf16x3_packed": (
        [[(256, 128, 1), (256, 256, 0.9)], [(128, 128, 1), (256, 256, 0.9)]], (1,), 256),
    "bf16x3": ([[(128, 64, 1), (128, 128, 0.76), (256, 128, 0.61)]], (1,), 128),
    "outer": ([[(*tile, 1), (128, 32, 1), (128, 16, 1)]
               for tile in ((64, 128), (64, 64), (32, 32))], (2, 4), 0),
    "outer_mma": ([[(64, 128, 1), (32, 256, 1), (16, 512, 1)]], (4,), 0),
}  # fmt: skip
# Those that tiling.h cuts: blocks of a processor.
HELD = {"small": (4, 8), "bf16x3_small": (1, 2), "bf16x3_batch": (1, 2, 4), "mma": (2, 4),
        "splitk": (1, 2), "gemv_col": (2, 4, 8), "gemv_row": (2, 4, 8), "ring": (2,),
        "skinny_wgmma": (1,), "tall": (2,)}  # fmt: skip
# Microseconds: a launch, one that copies, one that adds; a step, a term, an output, a block; a
# byte of operands, of results, from the L2 cache, of a copy; a column that is copied, a piece
# that is added. How much slower what the L2 cache does not hold is. Then FLAGS factors: a's or
# b's terms are neighbours, a's or b's items do not come in groups of 16 bytes, or in pairs; one
# more where rows of results do not.
TIMES = (3, 2, 2, 0.05, 1e-5, 1e-4, 0.3, 0.3e-6, 0.3e-6, 0.05e-6, 1e-6, 0.02, 0.01, 1)
COUNT, FLAGS = len(TIMES), 6
L2_FROM, L2_OVER = 24e6, 40e6  # bytes: what is held whole, from where on little is
MOST_DRAWN = 1200  # products of a seed in a result, at most
COMPUTES = 12  # naive: what a term takes beside a line that a warp reads
# The second step: rows that are expected to take times within CLOSE (of logarithms) share a
# call; how firmly paces stay where the first step left them.
CLOSE, FIRM = 0.04, 4
HERE = pathlib.Path(__file__).parent
PACES = HERE.parent / "csrc/cuda/matmul/choose_paces.inc"
HEAD = """/*
 * choose_paces.inc - the paces of choose.cu: of {count} products, on an {device}, {date}.
 * Written by benchmarks/fit_choose.py from what benchmarks/regret.py timed.
 *
 * row, dtypes, tiles, held, shortest, start, pack, add, step, term, output, block, turn, piece,
 *     memory, store, cache, packing, far,
 *     factors of terms that are neighbours (a, b), of groups that are not whole (a, b), of
 *     items that do not come in pairs (a, b), of rows of results that are no groups; ways
 */
/* clang-format off */
"""
CALL = re.compile(r"(\w+) (\(.*?\)) (\(.*?\))(?:\+(\d+))? @ (\(.*?\)) (\(.*?\))(?:\+(\d+))?$")


def geometry(call: str) -> dict:
    """A product as csrc/core/ops/matmul.c sees it: the stride of a single element is 0, and a
    batch that shares an operand becomes rows or columns where the other's go on."""
    dtype, *texts = CALL.match(call).groups()
    sa, ta, oa, sb, tb, ob = (ast.literal_eval(t) if t else 0 for t in texts)
    m, k, n = sa[-2], sa[-1], sb[-1]
    extents = m, k, k, n, *sa[:-2], *sb[:-2]
    strides = (*ta[-2:], *tb[-2:], *ta[:-2], *tb[:-2])
    far = [step if extent > 1 else 0 for extent, step in zip(extents, strides, strict=True)]
    g = dict(zip(("a_row", "a_col", "b_row", "b_col"), far, strict=False))
    batches = math.prod(np.broadcast_shapes(sa[:-2], sb[:-2]))
    a, b = far[4:] if batches > 1 else (0, 0)
    if batches > 1 and b == 0 and (m == 1 or a == m * g["a_row"]):
        g["a_row"] = a if m == 1 else g["a_row"]
        m, batches, a = m * batches, 1, 0
    elif batches > 1 and a == 0 and n == 1:
        g["b_col"] = b
        n, batches, b = n * batches, 1, 0
    return {**g, "dtype": dtype, "item": ITEM[dtype], "m": m, "n": n, "k": k,
            "batches": batches, "a": a, "b": b, "at": (oa, ob)}  # fmt: skip


def operand(g: dict, lines: int, line: int, term: int, batch: int, offset: int):
    """operand_of of choose.cu: bytes, whether terms are neighbours, whether 16 bytes are
    neighbours wherever, and begin at multiples of 16 wherever a line does; whether the terms of
    one matrix follow each other without gaps (matmul_dense); whether pairs, and whether fours
    of items are aligned and whole."""
    vector = max(1, 16 // g["item"])
    along = lines == 1 or (g["k"] > 1 and term <= line)
    near, far, length, rest = (term, line, g["k"], lines) if along else (
        line, term, lines, g["k"])  # fmt: skip
    straight = (near == 1 and offset % vector == 0 and (far % vector == 0 or rest == 1)
                and batch % vector == 0)  # fmt: skip
    wide = straight and g["k"] > 1 and length % vector == 0
    aligned = offset % vector == 0 and batch % vector == 0
    pairs, fours = (near == 1 and all(x % n == 0 for x in (offset, far, length, batch))
                    for n in (2, 4))  # fmt: skip
    dense = line == 1 and term == lines and (lines <= 64 or aligned)
    bytes_ = lines * g["k"] * g["item"] * (g["batches"] if batch else 1)
    return bytes_, along, wide, straight, dense, pairs, fours


def shape_of(call: str) -> dict:
    """What choose.cu knows of a product."""
    g = geometry(call)
    a = operand(g, g["m"], g["a_row"], g["a_col"], g["a"], g["at"][0])
    b = operand(g, g["n"], g["b_col"], g["b_row"], g["b"], g["at"][1])
    result = g["batches"] * g["m"] * g["n"] * g["item"]
    sizes = {name: g[name] for name in ("item", "m", "n", "k", "batches")}
    return {"class": CLASS[g["dtype"]], **sizes, "a": a, "b": b, "bytes": a[0] + b[0],
            "result": result}  # fmt: skip


def copied(row: str, p: dict, t: dict) -> tuple[int, float]:
    """Kernels that copy operands first, bytes that these read."""
    if row == "bf16x3_packed":  # whole tiles
        lines = [up(p[extent], t[tile]) * t[tile] / p[extent]
                 for extent, tile in (("m", "lines"), ("n", "columns"))]  # fmt: skip
        return 1, p["a"][0] * lines[0] + p["b"][0] * lines[1]
    if row == "imma":
        found = [x[0] for x in (p["a"], p["b"]) if not (x[1] and x[2])]
        return len(found), sum(found)
    return t["packed"], p["b"][0] * t["packed"]


def as_read(row: str, s: dict) -> dict:
    """The product as the row multiplies it: the large operand first, complex numbers as two
    columns each."""
    if row in THIN and s["m"] < s["n"]:
        return {**s, "m": s["n"], "n": s["m"], "a": s["b"], "b": s["a"]}
    if row == "bf16x3_packed" and s["class"] == "PAIR":  # of real numbers
        return {**s, "n": 2 * s["n"], "k": 2 * s["k"], "item": s["item"] // 2}
    return s


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
        p = as_read(row, s)
        t = {"tiles": 1, "step": 1, "split": 1, "chunk": p["k"], "way": way, "packed": False,
             "cluster": 1, "wide": p["a"][2], **cut(row, p, tile, held, shortest)}  # fmt: skip
        blocks = t["blocks"] / PROCESSORS
        full = math.floor(blocks / held)
        rest = blocks - full * held
        rest = math.ceil(rest) if full < 8 else rest
        terms = min(t["chunk"], p["k"]) / t["cluster"]
        outputs = t["lines"] * t["columns"] * t["tiles"]
        found["steps"].append((full + (rest > 0)) * math.ceil(terms / t["step"]))
        naive = naive_term(s) if row == "naive" else 1
        found["terms"].append((full * held + rest) * outputs * terms * naive)
        found["outputs"].append((full * held + rest) * outputs)
        found["blocks"].append(full * held + rest)
        pieces = 2 * t["split"] * s["result"] if t["split"] > 1 else 0
        found["bytes"].append(s["bytes"] + pieces)
        lines = min(t["lines"], p["m"]) + min(t["columns"], p["n"])
        found["read"].append(float(t["blocks"] * t["tiles"] * terms * lines * p["item"]))
        found["split"].append(t["split"] > 1)
        found["parts"].append(adding_turns(t["split"]))
        count, bytes_ = copied(row, p, t)
        found["packed"].append(count)
        found["copied"].append(bytes_)
        copying = up(up(p["k"], 256) * p["batches"], 8 * PROCESSORS) * p["n"]
        found["turns"].append(copying * t["packed"])
        found["far"].append(min(1, max(0, (s["bytes"] + s["result"] - L2_FROM) / L2_OVER)))
        found["result"].append(s["result"])
        divides = s["batches"] > 1  # naive: for each output
        uneven = s["n"] % max(2, 16 // s["item"]) != 0
        found["uneven"].append(divides if row == "naive" else uneven)
        along = [p["a"][1], p["b"][1]]
        narrow = [not t["wide"], not p["b"][2], not p["a"][5], not p["b"][5]]
        is_naive = row == "naive"  # which waits less where terms are neighbours
        found["flags"].append(along + ([0] * 4 if is_naive else narrow))
        found["late"].append([0, 0, *along, 0, 0] if is_naive else along + narrow)
        found["way"].append(t["way"])
    ways = np.array(found.pop("way"))
    return {"way": ways, **{name: np.array(v, float) for name, v in found.items()}}


def expected(x, lines, xp=np):
    """us of each call: the least of the row's tiles."""
    times = xp.exp(x[:COUNT])
    start, pack, add, step, term, output, block, memory, store, cache, copy = times[:11]
    turn, piece, far = times[11:]
    way = xp.exp(xp.concatenate([xp.zeros(1), x[COUNT + FLAGS + 1 :]]))
    best = None
    for f in lines:
        slower = xp.exp(f["flags"] @ x[COUNT : COUNT + FLAGS])
        late = xp.exp(f["late"] @ x[COUNT : COUNT + FLAGS])
        narrow = xp.exp(f["uneven"] * x[COUNT + FLAGS])
        away = 1 + f["far"] * far
        tile = way[f["way"]]
        work = (f["steps"] * step * late * away + f["terms"] * tile * term * slower
                + f["outputs"] * tile * output * narrow + f["blocks"] * block)  # fmt: skip
        reads = f["read"] * cache * slower
        moved = f["bytes"] * memory * away + f["result"] * store * narrow
        time = start + f["packed"] * pack + f["copied"] * copy + f["split"] * add
        time = time + f["turns"] * turn + f["parts"] * piece
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
            first = np.concatenate([np.log(TIMES), np.zeros(FLAGS + 1), np.log(costs)])
            certain = np.repeat([0.1, 1, 0.5], [COUNT, FLAGS + 1, len(costs)])

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


def scheduled(call: str, us: dict, gpu: str) -> dict:
    """us that the rows with schedules of their own expect, if they were timed in this call."""
    if set(SCHEDULED).isdisjoint(us):
        return {}
    told = gpuops.explain("matmul", *operands(call), device="sim", like=gpu)
    return {c.kernel: c.seconds * 1e6 for c in told.candidates
            if c.kernel in SCHEDULED and c.kernel in us and c.seconds}  # fmt: skip


def refine(found: dict, places: dict, times: np.ndarray, given: np.ndarray) -> dict:
    """The paces of one class, row -> x: from those of `fit`, where the row that is expected to
    be the fastest loses the least. Row r is asked of the calls places[r]; times[call, row]. The
    last columns of times are of rows whose times are expected as given[call, row]."""
    rows = list(found)
    ends = np.cumsum([0] + [len(found[row][1]) for row in rows])
    first = np.concatenate([found[row][1] for row in rows])
    lost = np.log(times / np.min(times, axis=1)[:, None])
    lost = np.where(np.isfinite(lost), np.minimum(lost, 1), 0)
    cost = np.where(lost > np.log(1.05), lost + 0.1, 0.5 * lost)
    ran = np.isfinite(times)

    def loss(x):
        logs = jnp.concatenate([jnp.full((len(times), len(rows)), UNKNOWN), given], axis=1)
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
    times = np.exp(x[:COUNT])
    drawn = ", ".join(f"{{{m}, {n}}}" for m, n, _ in tiles)
    rates, far = 1e-3 / times[7:11], times[13]
    ns = *times[:7] * 1e3, *times[11:13] * 1e3
    numbers = [f"{v:.4g}" for v in (*ns, *rates, far)]
    factors = ", ".join(f"{v:.2f}" for v in np.exp(x[COUNT : COUNT + FLAGS + 1]))
    ways = ", ".join(f"{v:.3g}" for v in np.exp([0, *x[COUNT + FLAGS + 1 :]]))
    return (f"{{{row}, {name}, {{{drawn}}}, {held}, {shortest}, {', '.join(numbers[:9])},\n"
            f"    {', '.join(numbers[9:])}, {{{factors}}}, {{{ways}}}}},")  # fmt: skip


def seeds_of(calls: list[str], held: list[int]) -> np.ndarray:
    """Whether each call is one that these seeds draw."""
    drawn = set()
    for seed in held:
        draw = random.Random(f"regret matmul {seed}")
        drawn |= {draw_product(draw, 1024 * MI).label for _ in range(MOST_DRAWN)}
    return np.array([call in drawn for call in calls])


def times_of(row: list, s: dict) -> dict:
    """us of each row that the choice asks; the one that was chosen ran once more, without its
    name."""
    _, _, _, chosen, us = row
    times = {name: t for name, t in us.items() if name}
    times[chosen] = min(us[""], times.get(chosen, us[""]))
    if s["batches"] > 1 and max(s["m"], s["n"]) <= 32:  # is_within_tile
        times.pop("outer", None)
    return times


def paces_of(shapes, times, known, held, rows) -> tuple[dict, list[dict]]:
    """row -> its fit and pace, of one class of dtypes; and what is expected of each call. Of
    the rows in `known` that is known."""
    found, places = {}, {}
    for row in rows:
        at = np.array([i for i, t in enumerate(times) if row in t and not held[i]])
        if len(at) < 15:
            continue
        us = np.array([times[i][row] for i in at])
        best = np.array([min(times[i].values()) for i in at])
        weight = np.sqrt(np.minimum(1, best / us))
        found[row] = fit(row, [shapes[i] for i in at], us, weight)
        places[row] = at
    columns = [row for row in SCHEDULED if any(row in t for t in known)]
    table = np.array([[t.get(row, np.inf) for row in (*found, *columns)] for t in times])
    given = np.array([[np.log(t[row]) if row in t else UNKNOWN for row in columns]
                      for t in known])  # fmt: skip
    table[:, len(found) :][given == UNKNOWN] = np.inf
    used = np.isfinite(table).any(axis=1) & ~held
    number = np.cumsum(used) - 1
    places = {row: number[at] for row, at in places.items()}
    paces = refine(found, places, table[used], given[used])
    guess = [dict(t) for t in known]
    for row, x in paces.items():
        _, _, _, tiles, blocks, shortest = found[row]
        at = [i for i, t in enumerate(times) if row in t]
        lines = [features(row, [shapes[i] for i in at], t, way, blocks, shortest)
                 for way, t in enumerate(tiles or [None])]  # fmt: skip
        for i, us in zip(at, expected(x, lines), strict=True):
            guess[i][row] = us
    return {row: (found[row], x) for row, x in paces.items()}, guess


def report(title: str, times: list[dict], guess: list[dict]) -> None:
    """How often the row that is expected to be the fastest is, and which it is taken for."""
    regrets, lost = [], collections.Counter()
    for us, of_row in zip(times, guess, strict=True):
        if not of_row:
            continue
        chosen, best = min(of_row, key=of_row.get), min(of_row, key=us.get)
        regrets.append(us[chosen] / us[best])
        lost[chosen, best] += us[chosen] > 1.05 * us[best]
    if regrets:
        shares = [sum(r <= most for r in regrets) / len(regrets) for most in (1.05, 1.25)]
        print(f"{title:12} {len(regrets):5} calls {shares[0]:.1%} {shares[1]:.1%} "
              f"{max(regrets):.2f} {lost.most_common(4)}", flush=True)  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("file", nargs="?", default=HERE / "results/regret/nvidia-h200.json")
    parser.add_argument("--drop", nargs="*", default=(), help="rows that are not fitted")
    parser.add_argument("--held", nargs="*", default=(), type=int,
                        help="seeds whose calls are not fitted, but judged")  # fmt: skip
    parser.add_argument("--out", type=pathlib.Path, default=PACES)
    arguments = parser.parse_args()
    jax.config.update("jax_enable_x64", True)
    facts = json.loads(pathlib.Path(arguments.file).read_text())
    calls = [row for row in facts["rows"] if row[0] in ("matmul", "products")]
    shapes = [shape_of(row[2]) for row in calls]
    times = [times_of(row, s) for row, s in zip(calls, shapes, strict=True)]
    held = seeds_of([row[2] for row in calls], arguments.held)
    gpu = facts["device"].removeprefix("NVIDIA ").split()[0]
    guess = [{} for _ in calls]
    entries = []
    first = "naive", "small"  # which take every call: what they do bounds the others
    rows = [row for row in dict.fromkeys((*first, *TILES, *HELD)) if row not in arguments.drop]
    for name in ORDER:
        at = np.array([i for i, s in enumerate(shapes) if s["class"] == name])
        known = [scheduled(calls[i][2], times[i], gpu) for i in at]
        paces, of_class = paces_of([shapes[i] for i in at], [times[i] for i in at], known,
                                   held[at], rows)  # fmt: skip
        entries += [entry(row, name, found, x) for row, (found, x) in paces.items()]
        for i, us in zip(at, of_class, strict=True):
            guess[i] = us
        report(name, [times[i] for i in at], of_class)
    head = HEAD.format(count=int((~held).sum()), device=facts["device"], date=facts["date"])
    arguments.out.write_text(head + "\n".join(entries) + "\n")
    for title, of in (("all", held | ~held), ("fitted", ~held), ("held out", held)):
        at = np.flatnonzero(of)
        report(title, [times[i] for i in at], [guess[i] for i in at])


if __name__ == "__main__":
    main()

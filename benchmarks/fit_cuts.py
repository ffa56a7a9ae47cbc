"""fit_cuts - how the rows of matmul cut a product into blocks on an H200, for fit_choose.py.

What tiling.h, tall.h and choose.cu of csrc/cuda/matmul decide, once more in Python.
"""

from __future__ import annotations

import math

PROCESSORS = 132
THIN = {"gemv_col", "gemv_row", "ring", "skinny_wgmma", "tall"}
# tall: rows and columns, and what a term takes of float32, float64, complex64.
TALL = ((16, 16, 5, 9, 14), (64, 16, 15, 29, 45), (32, 32, 14, 26, 42), (48, 48, 34, 58, 92),
        (64, 64, 50, 93, 150))  # fmt: skip
# Rows and columns, tiles of a block, what it costs in copies of items and of 16 bytes.
SMALL = ((8, 8, 8, 160, 160), (16, 16, 2, 74, 74), (32, 32, 1, 85, 85), (48, 48, 1, 222, 222),
         (56, 64, 1, 279, 279), (56, 64, 1, 313, 262), (64, 64, 1, 300, 300))  # fmt: skip


def up(a: int, b: int) -> int:
    return -(-a // b)


def least(ways, time):
    return min(range(len(ways)), key=lambda way: time(*ways[way]))


def thin_cut(p, blocks, lines, columns, shortest, held):
    """thin_split of tiling.h."""
    k, item, slots = p["k"], p["item"], held * PROCESSORS
    most, whole = min(k // shortest, 1024), blocks / slots
    piece = whole * 2 * p["n"] * max(4, item) / (k * item)
    launch = (16 << 20) / (k * item * lines * slots)
    split, least = 1, math.ceil(whole)
    for waves in range(1, 5):
        s = min(waves * slots // blocks, most)
        time = math.ceil(whole * s) / s + s * piece + launch if s > 1 else math.inf
        if s != split and time <= 0.8 * least:
            split, least = s, time
    chunk = up(up(k, split), 256) * 256
    split = max(1, up(k, chunk))
    return {"lines": lines, "columns": columns, "blocks": blocks * split, "split": split,
            "chunk": chunk}  # fmt: skip


def adding_turns(split: int) -> int:
    """splitk_turns of tiling.h; 0 of a sum that is not cut."""
    adders = 1 if split <= 8 else 8 if split <= 64 else 32
    return 0 if split < 2 else split if adders == 1 else up(split, adders) + adders


def ring_cut(p, columns, width, step, slots):
    blocks = up(p["m"], 128) * up(columns, width) * p["batches"]
    pieces = max(1, min(slots // blocks, up(p["k"], 8 * step)))
    chunk = up(up(p["k"], pieces), step) * step
    split = up(p["k"], chunk)
    return {"lines": 128, "columns": width, "blocks": blocks * split, "split": split,
            "chunk": chunk, "step": step, "packed": True}  # fmt: skip


def tall_cut(p: dict) -> dict:
    m, n, k, item, batches = (p[name] for name in ("m", "n", "k", "item", "batches"))
    best = math.inf, {}
    for way, (lines, columns, *clocks) in enumerate(TALL):
        tiles = up(m, lines) * up(n, columns) * batches
        moved = (min(m, lines) + min(n, columns)) * item / 14
        term = max(moved, clocks[("FLOAT", "DOUBLE", "PAIR").index(p["class"])])
        for held in (1, 2):
            chunk = up(up(k, max(1, min(held * PROCESSORS // tiles, k // 32, 1024))), 32) * 32
            split = up(k, chunk)
            blocks = tiles * split
            pieces = split * m * n * batches * item if split > 1 else 0
            time = (up(blocks, PROCESSORS) * chunk * term * (1 if blocks > PROCESSORS else 1.3)
                    + pieces / (20 * PROCESSORS))  # fmt: skip
            cut = {"lines": lines, "columns": columns, "blocks": blocks, "split": split,
                   "chunk": chunk, "step": 32, "way": way}  # fmt: skip
            best = min(best, (time, cut), key=lambda found: found[0])
    return {**best[1], "wide": p["a"][2] and p["b"][2]}


def cut_few_columns(row: str, p: dict) -> dict:
    """What tiling.h decides of the rows for few columns."""
    n, k, item = p["n"], p["k"], p["item"]
    along, wide = p["a"][1:3]
    b_along, b_wide = p["b"][1:3]
    pair = p["class"] in ("PAIR", "PAIRS")
    if row == "gemv_row":
        wide = along and wide and item < 16
        vector = 16 // item if wide else 1
        lanes = 8 if wide and k < 64 * vector else 32
        each = vector * 2 if wide else 4
        width = min(8, 1 << (n - 1).bit_length())
        rows, tiles = min(4, max(1, 256 // (width * max(item, 4)))), up(n, width)
        groups = up(p["m"], rows) * p["batches"]
        warps = groups * tiles * lanes // 32
        parts = 1
        while parts < 8 and warps * parts < (64 if n > 1 else 12) * PROCESSORS:
            if k < (64 if warps * parts < 12 * PROCESSORS else 320) * each * parts:
                break
            parts *= 2
        teams, full = 8 // parts * (32 // lanes), warps * parts >= 12 * PROCESSORS
        packed = n > 1 or (wide and not (b_along and b_wide))
        found = thin_cut(p, up(groups, teams) * tiles, teams * rows, width,
                         k + 1 if full else 32 * each * parts, 4)  # fmt: skip
        return {**found, "step": lanes * vector * parts, "packed": packed, "wide": wide}
    if row == "gemv_col" and p["a"][4] and n <= (2 if item == 2 else 1) and p["m"] > 1:
        vector = max(1, 16 // item)
        group = math.gcd(p["m"], vector)
        terms = 256 // (p["m"] // group) * (vector // group)
        if terms and (p["m"] <= 64 or (n == 1 and not wide)):
            found = thin_cut(p, p["batches"], p["m"], n, 256, 4)
            return {**found, "step": terms, "wide": True}
    if row == "gemv_col":
        width = min(16, 1 << (n - 1).bit_length())
        vector = (8 if item == 2 and width > 2 else 16) // item
        tiles, down = up(n, width) * p["batches"], up(p["m"], 32 * vector)
        parts = 1
        while parts < 8:
            few = down * tiles * parts < 12 * PROCESSORS
            if k < (16 if few or along or down < 8 // parts else 64) * parts:
                break
            parts *= 2
        lines = 8 // parts * 32 * vector
        found = thin_cut(p, up(p["m"], lines) * tiles, lines, width, 256, 3 if width < 4 else 2)
        return {**found, "step": parts, "wide": (not along and wide) or vector == 1}
    if row == "tall":
        return tall_cut(p)
    if row == "ring":
        numbers, way = 1 + pair, 0
        while way < (3 if item // numbers < 8 else 2) and n * numbers > 8 << way:
            way += 1
        found = ring_cut(p, n * numbers, 8 << way, 128 // item, 2 * PROCESSORS)
        return {**found, "way": way}
    return ring_cut(p, n * (1 + pair), 128, 32 // (1 + pair), PROCESSORS)  # skinny_wgmma


def batch_cut(tiles: int, k: int, parts: int) -> dict:
    """How bf16x3_batch_tiling of tiling.h shares the terms of a tile."""
    turns, each = up(k, 128 // parts), up(tiles, PROCESSORS)
    alone = turns * (each // 4 * 4 + (0, 2.4, 2.6, 3.2)[each % 4])
    if k * parts <= 96 or (tiles > 2 * PROCESSORS and each * (turns + 2) >= alone):
        return {"blocks": tiles, "step": 32 // parts, "way": 0}
    best = math.inf, 1, turns
    for cluster in (1, 2, 4, 8):
        if cluster > 1 and 100 * cluster * tiles > (90 if cluster > 2 else 100) * PROCESSORS:
            break
        for wanted in (1, max(1, PROCESSORS // (cluster * tiles))):
            chunk = up(turns, wanted)
            split = up(turns, chunk)
            time = up(chunk, cluster) * 1.3 + (cluster > 1) * (1 + 0.2 * cluster)
            time += 3.2 + 0.02 * split if split > 1 else 0
            best = min(best, (time, cluster, chunk), key=lambda found: found[0])
    _, cluster, chunk = best
    split, step = up(turns, chunk), 128 // parts
    return {"blocks": tiles * cluster * split, "split": split, "chunk": chunk * step,
            "step": step, "way": 1, "cluster": cluster}  # fmt: skip


def cut(row: str, p: dict, tile, held: int, shortest: int) -> dict:
    """What tiling.h and tiles_tiling of choose.cu decide."""
    if row in THIN:
        return cut_few_columns(row, p)
    m, n, k, item, batches = (p[name] for name in ("m", "n", "k", "item", "batches"))
    along, wide = p["a"][1:3]
    b_along, b_wide = p["b"][1:3]
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
        blocks = up(m, 32) * up(n, 32) * batches
        wanted = 2 * PROCESSORS // blocks
        split = max(1, min(wanted, k // 256)) if wanted >= 4 else 1
        chunk = up(up(k, split), 64) * 64
        split = up(k, chunk)
        return {"lines": 32, "columns": 32, "blocks": blocks * split, "split": split,
                "chunk": chunk, "step": 64, "wide": wide and b_wide}  # fmt: skip
    if row == "bf16x3_batch":
        parts = 1 + (p["class"] == "PAIR")
        lines, columns = min(((64, 64 // parts), (64 // parts, 64)),
                             key=lambda tile: up(m, tile[0]) * up(n, tile[1]))  # fmt: skip
        return {"lines": lines, "columns": columns, "wide": wide and b_wide,
                **batch_cut(up(m, lines) * up(n, columns) * batches, k, parts)}  # fmt: skip
    if row == "mma":
        ways = ((64, 64, 6144), (128, 128, 17096))[: 1 + (p["a"][6] and p["b"][6])]
        way = least(ways, lambda a, b, cost: up(up(m, a) * up(n, b) * batches, PROCESSORS)
                    * cost)  # fmt: skip
        lines, columns = ways[way][:2]
        blocks = up(m, lines) * up(n, columns) * batches
        split = max(1, min(4 * PROCESSORS // blocks, 2 * PROCESSORS, k // 256))
        chunk = up(up(k, split), 32) * 32
        split = up(k, chunk)
        return {"lines": lines, "columns": columns, "blocks": blocks * split, "split": split,
                "chunk": chunk, "step": 32, "way": way, "wide": wide and b_wide}  # fmt: skip
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

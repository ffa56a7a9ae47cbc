"""golden_tree - the fixed cases of tests/golden_tree.json and the numbers they are made of.

    python tests/golden_tree.py     writes golden_tree.json from the plain reference

The numbers come from integer arithmetic alone (SplitMix64), so that no library's generator can
change them; the answers from engine.tree. The file changes only with the definition of tree/v1.
"""

from __future__ import annotations

import hashlib
import json
import math
from pathlib import Path

import engine
import numpy as np

PATH = Path(__file__).with_name("golden_tree.json")
# dtype -> bits of an item, of its mantissa, bias of its exponent
FORMATS = {
    "float16": (16, 10, 15),
    "bfloat16": (16, 7, 127),
    "float32": (32, 23, 127),
    "float64": (64, 52, 1023),
}
PARTS = {"complex64": "float32", "complex128": "float64"}
LINES = (1, 2, 127, 128, 129, 2047, 2048, 2049, 4096, 4097, 6145, 65_537, 300_007)
PLANES = (((40, 70), 0), ((40, 70), 1), ((2500, 33), 0), ((33, 2500), 1), ((3, 2049, 5), 1),
          ((9, 130, 40), (0, 2)), ((5, 4, 3, 64), (1, 3)), ((131_073, 2), 0))  # fmt: skip


def mixed(n: int, seed: int) -> np.ndarray:
    """n numbers of 64 bits: SplitMix64 from this seed."""
    z = np.arange(1, n + 1, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    z += np.uint64(seed)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))


def numbers(shape, word: str, seed: int, spread: int = 8) -> np.ndarray:
    """Floats of either sign whose exponents are within -spread .. spread - 1."""
    if word in PARTS:
        pairs = numbers((*shape, 2), PARTS[word], seed, spread)
        return pairs.view(word).reshape(shape)
    size, mantissa, bias = FORMATS[word]
    z = mixed(math.prod(shape), seed)
    exponent = bias - spread + (z >> np.uint64(56)).astype(np.int64) % (2 * spread)
    bits = z & np.uint64((1 << mantissa) - 1)
    bits |= exponent.astype(np.uint64) << np.uint64(mantissa)
    bits |= (z >> np.uint64(55) & np.uint64(1)) << np.uint64(size - 1)
    dtype = engine.bfloat16() if word == "bfloat16" else np.dtype(word)
    return bits.astype(f"u{size // 8}").view(dtype).reshape(shape)


def cases() -> list[dict]:
    """What is summed, in the order of the file."""
    found = []
    for word in (*FORMATS, *PARTS):
        shapes = [((n,), None) for n in LINES] + list(PLANES)
        for number, (shape, axis) in enumerate(shapes):
            function = "mean" if number % 4 == 2 else "sum"
            if number in (3, 13, 14):  # few enough factors to stay finite
                function = "prod"
            found.append({"function": function, "shape": shape, "axis": axis, "dtype": word,
                          "seed": 1000 + len(found), "where": number % 5 == 4})  # fmt: skip
    return found


def operand(case: dict) -> np.ndarray:
    spread = 1 if case["function"] == "prod" else 8
    return numbers(tuple(case["shape"]), case["dtype"], case["seed"], spread)


def mask(case: dict) -> np.ndarray | None:
    """Three elements of four, where the case has a mask."""
    if not case["where"]:
        return None
    z = mixed(math.prod(case["shape"]), case["seed"] + 1)
    return (z % np.uint64(4) > 0).reshape(case["shape"])


def digest(answer) -> str:
    return hashlib.sha256(engine.bits(answer).tobytes()).hexdigest()


def reference(case: dict) -> np.ndarray:
    axis = case["axis"]
    return engine.tree(operand(case), None if axis is None else np.atleast_1d(axis),
                       product=case["function"] == "prod", mean=case["function"] == "mean",
                       where=mask(case))  # fmt: skip


def golden() -> list[dict]:
    return json.loads(PATH.read_text())


def main() -> None:
    made = [{**case, "sha256": digest(reference(case))} for case in cases()]
    PATH.write_text("[\n" + ",\n".join(map(json.dumps, made)) + "\n]\n")


if __name__ == "__main__":
    main()

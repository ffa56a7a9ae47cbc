"""zoo_draw - what benchmarks/zoo.py draws: shapes, axes, dtypes and layouts that nobody chose.

A case is plain data, the same for the same seed: it says how arrays are made, and nothing of
who computes on them. An array is a part of a larger one: `made` is what is allocated, `cut` the
slices that leave it the shape of the case.
"""

from __future__ import annotations

import dataclasses
import math
import random

KI, MI = 1 << 10, 1 << 20
WORDS = ("sum", "sum", "sum", "mean", "min", "max", "argmin", "argmax", "any", "all")
SIZES = {
    "bool": 1, "uint8": 1, "int8": 1, "int16": 2, "int32": 4, "int64": 8, "float16": 2,
    "bfloat16": 2, "float32": 4, "float64": 8, "complex64": 8, "complex128": 16,
}  # fmt: skip
DTYPES = (*SIZES, "uint8", "float16", "float32", "float32", "float64")
SHORT = (2, 2, 3, 3, 4, 5, 6, 7, 8, 10, 12, 15, 16, 31, 32, 33)


@dataclasses.dataclass(frozen=True)
class Laid:
    """An array: allocated as `made`, cut to its shape by (start, step) along each axis. In
    memory its axes lie in `order`, the farthest neighbours first, or else in C order."""

    shape: tuple[int, ...]
    made: tuple[int, ...]
    cut: tuple[tuple[int, int], ...]
    order: tuple[int, ...] = ()

    @property
    def stored(self) -> tuple[int, ...]:
        """What is allocated, its axes as they lie in memory."""
        return tuple(self.made[d] for d in self.order) or self.made

    @property
    def back(self) -> tuple[int, ...]:
        """The permutation that makes `made` of it."""
        axes = range(len(self.made))
        return tuple(self.order.index(d) for d in axes) if self.order else tuple(axes)

    @property
    def slices(self) -> tuple[slice, ...]:
        ends = zip(self.shape, self.cut, strict=True)
        return tuple(slice(at, at + (n - 1) * step + 1, step) for n, (at, step) in ends)

    @property
    def is_dense(self) -> bool:
        return self.shape == self.made


@dataclasses.dataclass(frozen=True)
class Drawn:
    """One call: `word` is the function's name, `axes` a permutation or what is reduced."""

    op: str
    word: str
    dtype: str
    arrays: tuple[Laid, ...]
    axes: tuple[int, ...] | None
    masked: bool
    kind: str
    whose: str  # the library whose arrays they are, where there are two

    @property
    def label(self) -> str:
        shapes = " ".join(_text(a) for a in self.arrays)
        axes = "" if self.axes is None else f" {self.axes}".replace(" ", "")
        return f"{self.word} {self.dtype} {shapes} {axes}{' where' if self.masked else ''}"


def _text(a: Laid) -> str:
    parts = []
    for n, made, (at, step) in zip(a.shape, a.made, a.cut, strict=True):
        cut = f"[{at or ''}:{f':{step}' if step > 1 else ''}]" if made != n else ""
        parts.append(f"{n}{cut}")
    order = "^" + ",".join(map(str, a.order)) if a.order else ""
    return "(" + ",".join(parts) + ")" + order


def _is_prime(n: int) -> bool:
    return n > 1 and all(n % d for d in range(2, math.isqrt(n) + 1))


def _rounded(draw: random.Random, n: float) -> int:
    """A whole number near n: a prime, a power of two or any."""
    way = draw.randrange(3)
    if way == 0:
        return 1 << max(0, round(math.log2(n)))
    near = max(1, round(n))
    if way == 1 and n < 1e9:
        while near > 3 and not _is_prime(near):
            near -= 1
    return near


def draw_shape(draw: random.Random, items: float, least: int) -> tuple[int, ...]:
    """A shape of about that many items, of `least` axes or more: extents log-uniform, a few of
    them short."""
    rank = draw.randint(least, 8)
    extents = []
    for left in range(rank, 0, -1):
        room = max(1.0, items / math.prod(extents))
        if left == 1:
            extents.append(_rounded(draw, room))
        elif draw.random() < 0.4:
            extents.append(min(draw.choice(SHORT), max(1, int(room))))
        else:
            extents.append(_rounded(draw, room ** (2 * draw.random() / left)))
    draw.shuffle(extents)
    return tuple(extents)


def lay(draw: random.Random, shape: tuple[int, ...], how: str) -> Laid:
    """`how`: dense, sliced (an offset and a gap along an axis) or stepped."""
    made, cut = list(shape), [(0, 1)] * len(shape)
    if how != "dense" and shape:
        axis = draw.randrange(len(shape))
        step = 2 if how == "stepped" else 1
        at = draw.randint(0, 3)
        made[axis] = at + (shape[axis] - 1) * step + 1 + draw.randint(0 if at else 1, 3)
        cut[axis] = (at, step)
    return Laid(shape, tuple(made), tuple(cut))


def merged(shape, axes) -> list[tuple[int, int]]:
    """The permutation's axes that do not merge: (input axis, extent) in the output's order."""
    found: list[list[int]] = []
    order = [axis for axis in axes if shape[axis] > 1]
    inner = {axis: k for k, axis in enumerate(a for a in range(len(shape)) if shape[a] > 1)}
    for axis in order:
        if found and inner[axis] == found[-1][2] + 1:
            found[-1][1] *= shape[axis]
            found[-1][2] = inner[axis]
        else:
            found.append([axis, shape[axis], inner[axis]])
    return [(axis, n) for axis, n, _ in found]


def permutation_kind(shape, axes, item: int) -> str:
    runs = merged(shape, axes)
    if len(runs) < 2:
        return "a copy"
    first_in = max(axis for axis, _ in runs)  # the fastest axis of the input
    extent = dict(runs)
    if runs[-1][0] == first_in:
        return "lines stay, short" if runs[-1][1] * item < 64 else "lines stay"
    thin = min(extent[first_in], runs[-1][1])
    return "thin" if thin < 8 else "short axes" if thin < 32 else "turned"


def reduction_kind(shape, axes) -> str:
    """By where the reduced axes lie, as axes of 1 say nothing."""
    long = [d for d in range(len(shape)) if shape[d] > 1]
    if axes is None or all(d in axes for d in long):
        return "whole"
    row = "".join("r" if d in axes else "k" for d in long)
    while "rr" in row or "kk" in row:
        row = row.replace("rr", "r").replace("kk", "k")
    count = math.prod(shape[d] for d in axes)
    if row == "k":
        return "nothing reduced"
    if row in ("kr", "rk", "krk"):
        name = {"kr": "rows", "rk": "columns", "krk": "middle"}[row]
        return f"{name}, few" if count < 64 else name
    return "apart"


def broadcast_kind(arrays) -> str:
    if any(a.order for a in arrays):
        return "one order" if len({a.order for a in arrays}) == 1 else "mixed orders"
    if len({a.shape for a in arrays}) > 1:
        return "broadcast"
    return "dense" if all(a.is_dense for a in arrays) else "strided"


def _items(draw: random.Random, least: float, most: float, item: int) -> float:
    """Most calls where memory decides, some that are short, a few that are long."""
    low, high = max(least, 4 * MI), min(most, 256 * MI)
    way = draw.random()
    if high <= low or way > 0.95:
        low, high = least, most
    elif way > 0.75 and least < low:
        low, high = least, low
    return math.exp(draw.uniform(math.log(low), math.log(max(low, high)))) / item


def draw_case(op: str, draw: random.Random, least: float, most: float, cupy: float,
              bf16: bool) -> Drawn:  # fmt: skip
    """The next case of an operation; `least` and `most` are bytes of the first array, `cupy`
    the share of the cases whose arrays are CuPy's."""
    dtype = draw.choice([d for d in DTYPES if bf16 or d != "bfloat16"])
    item = SIZES[dtype]
    shape = draw_shape(draw, _items(draw, least, most, item), 2 if op == "transpose" else 1)
    how = draw.choices(("dense", "sliced", "stepped"), (70, 20, 10))[0]
    whose = "cupy" if draw.random() < cupy and dtype != "bfloat16" else "torch"
    first = lay(draw, shape, how)
    if op == "transpose":
        axes = draw.sample(range(len(shape)), len(shape))
        for _ in range(8):  # most that leave everything where it is are drawn again
            if len(merged(shape, axes)) > 1:
                break
            draw.shuffle(axes)
        kind = permutation_kind(shape, axes, item)
        return Drawn(op, "transpose", dtype, (first,), tuple(axes), False, kind, whose)
    if op == "reduce":
        word = draw.choice(WORDS)
        if dtype.startswith("complex") and word in ("min", "max", "argmin", "argmax"):
            word = "sum"
        count = draw.randint(1, len(shape)) if draw.random() < 0.85 else 0
        if word.startswith("arg"):
            count = min(count, 1)
        axes = tuple(sorted(draw.sample(range(len(shape)), count))) if count else None
        masked = word == "sum" and draw.random() < 0.1
        kind = "masked" if masked else reduction_kind(shape, axes)
        return Drawn(op, word, dtype, (first,), axes, masked, kind, whose)
    arrays = [first]
    for _ in range(1 if op == "add" else 2):
        other = shape
        if draw.random() < 0.5:
            other = tuple(1 if draw.random() < 0.4 else n for n in shape)
        arrays.append(lay(draw, other, draw.choices(("dense", "sliced"), (80, 20))[0]))
    draw.shuffle(arrays)
    if len(shape) > 1 and draw.random() < 0.3:  # permuted views
        orders = [tuple(draw.sample(range(len(shape)), len(shape))) for _ in arrays]
        if draw.random() < 0.5:
            orders = [orders[0]] * len(arrays)
        arrays = [dataclasses.replace(a, order=o) for a, o in zip(arrays, orders, strict=True)]
    return Drawn(op, op, dtype, tuple(arrays), None, False, broadcast_kind(arrays), whose)

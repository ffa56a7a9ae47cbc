"""regret_draw - products, Jacobi steps and pair counts that nobody chose, for regret.py.

A call is plain data, the same for the same seed. Operands of products are views into one long
array: at any offset, transposed, with gaps between rows, one matrix for a whole batch.
"""

from __future__ import annotations

import dataclasses
import math
import random

from zoo_draw import MI, SIZES

PRODUCTS = (
    "float32", "float32", "float32", "float16", "bfloat16", "float64", "complex64",
    "complex128", "int32", "int32", "int64", "int8", "uint8", "int16", "bool",
)  # fmt: skip
SLOW = {"float64": 4, "complex64": 4, "complex128": 16, "int64": 4}  # beside float32
LONGEST = 2e11  # multiplications and additions of a call that is drawn
REAL = ("float32", "float64")


@dataclasses.dataclass(frozen=True)
class Operand:
    """A view of one array of items: where it starts, its shape and strides in items."""

    shape: tuple[int, ...]
    strides: tuple[int, ...]
    offset: int

    @property
    def items(self) -> int:
        """How many items the array has at least."""
        pairs = zip(self.shape, self.strides, strict=True)
        return self.offset + sum((n - 1) * step for n, step in pairs) + 1


@dataclasses.dataclass(frozen=True)
class Product:
    dtype: str
    a: Operand
    b: Operand
    op: str = "matmul"

    @property
    def label(self) -> str:
        def text(x: Operand) -> str:
            at = f"+{x.offset}" if x.offset else ""
            return f"{x.shape} {x.strides}{at}".replace(", ", ",")

        return f"{self.dtype} {text(self.a)} @ {text(self.b)}"

    @property
    def kind(self) -> str:
        return self.dtype


@dataclasses.dataclass(frozen=True)
class Step:
    """A Jacobi step: dense, or CSR whose rows have `terms` each, give or take `spread`."""

    dtype: str
    n: int
    columns: int
    terms: int  # 0: dense
    spread: float
    order: str
    op: str = "jacobi_step"

    @property
    def label(self) -> str:
        matrix = f"{self.terms} ± {self.spread:.0%} terms" if self.terms else self.order
        return f"{self.dtype} n {self.n} {matrix}, {self.columns} columns"

    @property
    def kind(self) -> str:
        return "CSR" if self.terms else "dense"


@dataclasses.dataclass(frozen=True)
class Pairs:
    """Points in a box of side 1, counted up to `most`; `box`: whether images count."""

    dtype: str
    n: int
    most: float
    bins: int
    box: bool
    op: str = "rdf"

    @property
    def label(self) -> str:
        return f"{self.dtype} {self.n} points to {self.most:.3f}, {self.bins} bins" + (
            ", box" if self.box else ""
        )

    @property
    def kind(self) -> str:
        return "box" if self.box else "no box"


def near(draw: random.Random, low: float, high: float) -> int:
    """Log-uniform: any number, or with half of the chance a multiple of 8 or a power of two."""
    n = math.exp(draw.uniform(math.log(low), math.log(high)))
    way = draw.randrange(4)
    if way == 0:
        return 1 << round(math.log2(n))
    return max(1, round(n / 8) * 8 if way == 1 else round(n))


def operand(draw: random.Random, batch: tuple[int, ...], rows: int, columns: int) -> Operand:
    turned = draw.random() < 0.35
    lines, line = (columns, rows) if turned else (rows, columns)
    gap = draw.choice((0, 0, 0, 0, 8, draw.randint(1, 9)))
    pitch = line + gap
    far = (1, pitch) if turned else (pitch, 1)
    strides = (lines * pitch,) if draw.random() < 0.85 else (0,)  # one matrix for all
    offset = draw.choice((0, 0, 0, 0, 0, 4, draw.randint(1, 7)))
    return Operand((*batch, rows, columns), (*strides[: len(batch)], *far), offset)


def draw_product(draw: random.Random, most: float) -> Product:
    while True:
        dtype = draw.choice(PRODUCTS)
        m, k, n = (near(draw, 1, 16384) for _ in range(3))
        batch = (near(draw, 2, 4096),) if draw.random() < 0.45 else ()
        count = math.prod(batch)
        a, b = operand(draw, batch, m, k), operand(draw, batch, k, n)
        work = count * m * n * k * SLOW.get(dtype, 1)
        held = max(a.items, b.items, count * m * n) * SIZES[dtype]
        if 1e4 <= work <= LONGEST and held <= most:
            return Product(dtype, a, b)


def draw_step(draw: random.Random, most: float) -> Step:
    while True:
        dtype = draw.choice(REAL)
        columns = draw.choice((1, 1, 1, 2, 4, near(draw, 2, 64)))
        is_dense = draw.random() < 0.5
        n = near(draw, 16, 16384 if is_dense else 2e6)
        terms = 0 if is_dense else min(n, near(draw, 1, 300))
        spread = draw.choice((0.0, 0.3, 0.9))
        if (n * (terms or n) + 3 * n * columns) * SIZES[dtype] * 2 <= most:
            return Step(dtype, n, columns, terms, spread, draw.choice("CCF"))


def draw_pairs(draw: random.Random, _most: float) -> Pairs:
    box = draw.random() < 0.6
    n = near(draw, 10, 60000)
    most = math.exp(draw.uniform(math.log(0.03), math.log(0.49 if box else 1.7)))
    return Pairs(draw.choice(REAL), n, most, near(draw, 10, 1000), box)


DRAWN = {"matmul": draw_product, "jacobi_step": draw_step, "rdf": draw_pairs}


def draw_call(op: str, draw: random.Random, most: float = 1024 * MI):
    return DRAWN[op](draw, most)

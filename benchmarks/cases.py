"""cases - what `run.py` times, and what counts as fast: the targets of docs/design.md.

A target is (beside, ratio): how many times as fast as the best copy of the same bytes ("copy"),
as the fastest peer ("peers") or as one of them by name; or Gpairs/s of rdf; or thousands of
calls a second.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field, replace

MI, GI = 1 << 20, 1 << 30
MEMORY_BOUND = ("add", "multiply_add", "fma", "transpose", "reduce", "jacobi_step")
WORDS = {"u1": "uint8", "f2": "float16", "f4": "float32", "f8": "float64", "c16": "complex128"}


@dataclass(frozen=True)
class Case:
    op: str
    label: str
    shapes: tuple[tuple[int, ...], ...]
    dtype: str  # NumPy's letters, or "bfloat16"
    options: dict = field(default_factory=dict)
    function: str = ""  # the op's own name, unless it is one of the reductions
    targets: tuple[tuple[str, float], ...] = ()
    headline: bool = False  # stands for a target of docs/design.md
    on_host: bool = False  # NumPy in, NumPy out, wall clock
    enqueued: str = ""  # whose device arrays a call takes that only enqueues; its host time
    makes: bool = False  # and it makes its result, where others write to `out`

    def smaller(self, by: int) -> Case:
        """The same with every long axis divided."""
        shapes = [
            tuple(max(n // by, 1) if n > 64 else n for n in shape) for shape in self.shapes
        ]
        label = f"{self.label}, axes / {by}"
        return replace(self, label=label, shapes=tuple(shapes), targets=())


def copy(ratio: float) -> tuple[tuple[str, float], ...]:
    return (("copy", ratio),)


PEERS = (("peers", 1.0),)


def elementwise(nbytes: int, targets) -> list[Case]:
    """add, multiply_add and fma whose arrays take `nbytes` together."""
    text = f"{nbytes // GI} GiB f4" if nbytes >= GI else f"{nbytes // MI} MiB f4"
    counts = {"add": 2, "multiply_add": 3, "fma": 3}
    return [
        Case(op, text, ((nbytes // 4 // (count + 1),),) * count, "f4", headline=True,
             targets=tuple(t for t in targets if (op, t[0]) != ("fma", "numpy")))  # it has none
        for op, count in counts.items()
    ]  # fmt: skip


def transpose(shape, dtype: str, targets, axes=None, *, headline: bool = False) -> Case:
    square = len(shape) == 2 and shape[0] == shape[1]
    text = f"{shape[0]}²" if square else "(" + ", ".join(map(str, shape)) + ")"
    if len(set(shape)) == 1 and len(shape) > 2:
        text = f"{shape[0]} to the power of {len(shape)}"
    options = {} if axes is None else {"axes": axes}
    text += f" {dtype}" if axes is None else f" to {axes} {dtype}"
    return Case("transpose", text, (tuple(shape),), dtype, options, "transpose", targets,
                headline)  # fmt: skip


def reduction(function: str, shape, dtype: str, targets, axis=None, *, headline=False) -> Case:
    size = "(" + ", ".join(map(str, shape)) + ")" if len(shape) > 1 else count(shape[0])
    text = f"{function} of {size} {dtype}" + ("" if axis is None else f", axis {axis}")
    options = {} if axis is None else {"axis": axis}
    return Case("reduce", text, (tuple(shape),), dtype, options, function, targets, headline)


def count(n: int) -> str:
    power = n.bit_length() - 1
    return f"2^{power}" if n == 1 << power and n > 4096 else str(n)


def cuda_transposes() -> list[Case]:
    def least(dtype):
        return copy(0.90 if dtype == "u1" else 0.95)

    found = []
    for side in (4000, 4096, 16384):
        found += [transpose((side, side), d, least(d), headline=side == 16384) for d in WORDS]
    found += [transpose((32767, 32769), d, copy(0.8)) for d in ("u1", "f2", "f4", "f8")]
    for shape in ((131072, 3), (3, 131072)):
        found += [transpose(shape, d, copy(0.8)) for d in WORDS]
    for axes in itertools.permutations(range(3)):
        headline = axes == (2, 1, 0)
        found.append(transpose((256, 512, 1024), "f4", copy(0.8), axes, headline=headline))
    found.append(transpose((64, 64, 64, 512), "f4", copy(0.8), (3, 1, 0, 2), headline=True))
    found.append(transpose((8,) * 9, "f4", copy(0.8), headline=True))
    return found


def cuda_reductions() -> list[Case]:
    full = copy(1.03)
    found = [reduction("sum", (GI,), "f4", full, headline=True)]
    for axis in (0, 1, (0, 1)):
        found.append(
            reduction("sum", (32768, 32768), "f4", full, axis, headline=axis != (0, 1))
        )
    found.append(reduction("sum", (1024, 1024, 1024), "f4", copy(0.8), 1, headline=True))
    found.append(reduction("sum", (GI // 2,), "f8", full))
    found += [reduction("sum", (2 * GI,), d, copy(0.8)) for d in ("f2", "bfloat16")]
    found += [reduction(f, (GI,), "f4", copy(0.8)) for f in ("min", "argmin")]
    found.append(reduction("mean", (GI,), "f4", full))
    found.append(reduction("mean", (32768, 32768), "f4", full, 0))
    for n in (10, 1000, 100_000, 1_000_000, 1 << 24, 1 << 28):
        found.append(reduction("sum", (n,), "f4", PEERS, headline=n in (1000, 1_000_000)))
    return found


def cuda_round_trips() -> list[Case]:
    return [
        Case("transpose", "16384² f4, NumPy to NumPy", ((16384, 16384),), "f4", {}, "transpose",
             (("cupy", 8.0),), headline=True, on_host=True),
        Case("add", "1000 f4, NumPy to NumPy", ((1000,),) * 2, "f4",
             targets=(("k calls/s", 83.3),), headline=True, on_host=True),
    ]  # fmt: skip


def cuda_enqueued() -> list[Case]:
    """What a call on device arrays costs the host, which does not wait for its end."""
    found = [
        Case("add", f"1000 f4 of {whose}, enqueued", ((1000,),) * 2, "f4",
             targets=(("k calls/s", 333.3),), headline=whose == "gpuops", enqueued=whose)
        for whose in ("gpuops", "cupy", "torch")
    ]  # fmt: skip
    return found + [
        Case(op, f"{word} of {whose}, enqueued, without out", ((1000,),) * inputs, "f4",
             function=function, targets=PEERS, enqueued=whose, makes=True)
        for op, function, word, inputs in (("add", "add", "1000 f4", 2),
                                           ("reduce", "sum", "sum of 1000 f4", 1))
        for whose in ("cupy", "torch")
    ]  # fmt: skip


def cuda_products() -> list[Case]:
    """Squares by the least that they should reach of the peers' speed, then odd shapes."""
    squares = (
        *((n, "f4", least) for n, least in ((256, 1.0), (512, 1.0), (768, 1.4), (1024, 1.8),
                                            (1536, 2.2), (2048, 2.2), (3072, 2.2), (4096, 2.3),
                                            (8192, 2.2), (16384, 2.1))),
        *((n, d, 0.95) for d in ("f2", "bfloat16", "f8") for n in (4096, 8192)),
        (4096, "c8", 2.0), (4096, "c16", 0.95),
    )  # fmt: skip
    shapes = (
        ((4099, 4101), (4101, 4103), "f4", 2.4), ((4099, 4101), (4101, 4103), "f2", 0.95),
        ((16384, 16384), (16384, 128), "f4", 1.5), ((65536, 512), (512, 512), "f4", 2.2),
        ((64, 256, 256),) * 2 + ("f4", 1.0), ((4096, 32, 32),) * 2 + ("f4", 1.0),
        *(((8192, 8192), (8192, n), d, 1.0) for d in ("f4", "f2", "f8") for n in (1, 4, 16)),
        *(((m, 8192), (8192, 8192), d, 1.0) for d in ("f4", "f2", "f8") for m in (1, 4, 16)),
    )  # fmt: skip
    found = [
        Case("matmul", f"{n} {d}", ((n, n),) * 2, d, targets=(("peers", least),),
             headline=n >= 4096)
        for n, d, least in squares
    ] + [
        Case("matmul", f"{n} f4, fast", ((n, n),) * 2, "f4", {"precision": "fast"},
             targets=(("peers", least),), headline=True)
        for n, least in ((4096, 3.6), (8192, 3.8))
    ]  # fmt: skip
    for a, b, d, least in shapes:
        label = " @ ".join("x".join(map(str, shape)) for shape in (a, b))
        found.append(Case("matmul", f"{label} {d}", (a, b), d, targets=(("peers", least),)))
    return found


def cuda_others() -> list[Case]:
    dense = ((16384, 16384), (16384,), (16384,))
    jacobi = Case("jacobi_step", "dense 16384² f4", dense, "f4", {"alpha": 1e-6},
                  targets=copy(0.98), headline=True)  # fmt: skip
    return [jacobi, *cuda_pairs()]


SKEW = ((1, 0, 0), (0.2, 1, 0), (0.1, -0.2, 1))


def cuda_pairs() -> list[Case]:
    """Random points in the unit cube."""
    cube = {"r_max": 1.8, "bins": 512}
    found = [
        Case("rdf", f"{n} points f4", ((n, 3),), "f4", cube, targets=(("Gpairs/s", rate),),
             headline=True)
        for n, rate in ((44028, 969.0), (500000, 1000.0))
    ]  # fmt: skip
    for n, rates in ((44028, (606.0, 485.0)), (500000, (600.0, 500.0))):
        for (name, box), rate in zip((("right-angled", (1, 1, 1)), ("triclinic", SKEW)), rates,
                                     strict=True):  # fmt: skip
            options = {"r_max": 0.46, "bins": 512, "box": box}
            found.append(Case("rdf", f"{n} points f4, {name} box", ((n, 3),), "f4", options,
                              targets=(("Gpairs/s", rate),), headline=n == 500000))  # fmt: skip
    near = {"r_max": 0.05, "bins": 100, "box": (1, 1, 1)}
    logs = {"bins": tuple(1.8 * 10 ** (k / 100 - 3) for k in range(301))}
    rare = (
        ("1000000 points f4, a twentieth of the box", 1_000_000, "f4", near),
        ("5000 points f4", 5000, "f4", cube),
        ("44028 points f4, 10,000 bins", 44028, "f4", cube | {"bins": 10_000}),
        ("44028 points f4, edges even in log r", 44028, "f4", logs),
        ("44028 points f8", 44028, "f8", cube),
    )
    return found + [Case("rdf", label, ((n, 3),), d, o) for label, n, d, o in rare]


def cpu_products() -> list[Case]:
    """Squares within 1.1 of NumPy's time, small, thin and batched products within 1.2."""
    thin = (
        ((2048, 2048), (2048,)), ((2048,), (2048, 2048)), ((1 << 20,), (1 << 20,)),
        ((100_000, 3), (3, 3)), ((8, 8192), (8192, 8)), ((64, 100_000), (100_000, 64)),
        *(((2048, 2048), (2048, n)) for n in (2, 4, 8, 16, 32, 64)),
        *(((m, 2048), (2048, 2048)) for m in (2, 4, 8, 16, 32, 64)),
    )  # fmt: skip
    batches = (((100_000, 3, 3),) * 2, ((4000, 16, 16),) * 2, ((256, 64, 64),) * 2)
    found = []
    for d in ("f4", "f8"):
        for n in (256, 512, 1024, 2048):
            found.append(Case("matmul", f"{n} {d}", ((n, n),) * 2, d, headline=n > 512,
                              targets=(("numpy", 1 / 1.1),)))  # fmt: skip
        small = [((n, n),) * 2 for n in (4, 16, 32, 64, 128)]
        for shapes in (*small, *thin, *batches):
            label = " @ ".join("x".join(map(str, shape)) for shape in shapes)
            found.append(
                Case("matmul", f"{label} {d}", shapes, d, targets=(("numpy", 1 / 1.2),))
            )
    for d in ("f2", "c8", "c16", "i4", "i8"):
        found.append(Case("matmul", f"512 {d}", ((512, 512),) * 2, d))
    return found


def cpu_cases() -> list[Case]:
    ceiling = (("copy", 1.0), ("numpy", 1.0))
    found = elementwise(768 * MI, ceiling)
    for side in (4000, 8192):
        for d in WORDS:
            least = (("numpy", 5.0),) if (side, d) == (8192, "f4") else ()
            found.append(transpose((side, side), d, least, headline=side == 8192))
    found += [transpose((8191, 8193), "f4", ()), transpose((131072, 3), "f4", ())]
    found.append(transpose((3, 131072), "f4", ()))
    found += [
        transpose((128, 256, 512), "f4", (), axes) for axes in itertools.permutations(range(3))
    ]
    found.append(transpose((32, 32, 32, 512), "f4", (), (3, 1, 0, 2)))
    found.append(transpose((8,) * 8, "f4", ()))
    found.append(reduction("sum", (1 << 27,), "f4", ceiling, headline=True))
    for axis in (0, 1):
        found.append(reduction("sum", (8192, 8192), "f4", ceiling, axis, headline=True))
    found.append(reduction("sum", (512, 256, 512), "f4", (("numpy", 1.0),), 1))
    found.append(reduction("sum", (1 << 26,), "f8", ceiling))
    found.append(reduction("sum", (1 << 26,), "f2", (("numpy", 1.0),)))
    for f in ("min", "argmin", "mean"):
        found.append(reduction(f, (1 << 26,), "f4", ()))
    for n in (10, 1000, 100_000, 1_000_000):
        found.append(reduction("sum", (n,), "f4", (("numpy", 1.0),)))
    return found + cpu_products()


def cases(device: str) -> list[Case]:
    if device == "cpu":
        return cpu_cases()
    return [
        *elementwise(4 * GI, copy(1.0)),
        *cuda_transposes(),
        *cuda_reductions(),
        *cuda_round_trips(),
        *cuda_enqueued(),
        *cuda_products(),
        *cuda_others(),
    ]

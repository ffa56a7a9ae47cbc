"""task - what an exercise is: arguments, expected results, limits of counters."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

# What outputs hold before the kernel runs: an element that still does was never written.
UNWRITTEN = {"f": np.nan, "i": -77777777, "u": 77777777}


def unwritten(shape: Any, dtype: str = "f4") -> np.ndarray:
    return np.full(shape, UNWRITTEN[np.dtype(dtype).kind], dtype)


def is_unwritten(got: np.ndarray) -> np.ndarray:
    bits = f"u{got.dtype.itemsize}"
    return got.view(bits) == unwritten((), got.dtype.str).view(bits)


@dataclass(frozen=True)
class Case:
    """One call: its arguments and launch, and of some arguments what they must hold after it.

    `in_order`: its inputs are 0, 1, 2, ..., so that a wrong value tells where it comes from.
    `tile` is what a block has of a result with rows.

    `expected` is by the argument's number; with `total` only its sum counts, in whatever parts
    it comes, with `busy` none of them 0, and where `within` has the argument, it may be off by
    so much, which `allowed` says in words. `sizes` are those of the shape, by name.
    """

    args: tuple[Any, ...]
    grid: tuple[int, ...]
    block: tuple[int, ...]
    expected: dict[int, np.ndarray]
    sizes: dict[str, int]
    shared: int = 0
    total: bool = False
    busy: bool = False
    within: dict[int, np.ndarray] = field(default_factory=dict)
    allowed: str = "rounding explains"
    said: str = ""
    in_order: bool = False
    tile: tuple[int, int] = (0, 0)

    def __post_init__(self) -> None:
        words = ", ".join(f"{name} = {n}" for name, n in self.sizes.items())
        object.__setattr__(self, "said", self.said or words)


class Tally:
    """What the kernel did on the counted case, by one rule set."""

    def __init__(self, kernels: list[dict]) -> None:
        self._kernels = kernels

    def sum(self, space: str, kinds: str, name: str) -> int:
        """Of a count (requests, parts, excess, moved, bytes), over kinds, "load store"."""
        found = (k.get(f"{space} {kind}", {}) for k in self._kernels for kind in kinds.split())
        return sum(int(counts.get(name, 0)) for counts in found)

    @property
    def divergent(self) -> int:
        return sum(int(b["divergent"]) for k in self._kernels for b in k["branches"])

    @property
    def shared(self) -> int:
        return max((int(k["shared"]) for k in self._kernels), default=0)

    def _of(self, space: str, kinds: str) -> list[dict]:
        """The instructions of a space and of kinds, as "load store"."""
        return [
            i
            for k in self._kernels
            for i in k["instructions"]
            if i["space"] == space and i["kind"] in kinds.split()
        ]

    def worst(self, space: str, kinds: str) -> str:
        """The line of most excess, as a sentence; "" where there is none."""
        found = [i for i in self._of(space, kinds) if i["counts"]["excess"]]
        if not found:
            return ""
        i = max(found, key=lambda one: one["counts"]["excess"])
        c = i["counts"]
        part = "sectors" if space == "global" else "wavefronts"
        least = (c["parts"] - c["excess"]) / c["requests"]
        return (
            f"line {i['line']}: a {space} {i['kind']} takes {c['parts'] / c['requests']:.3g} "
            f"{part} a request, where {least:.3g} would do"
        )

    def most(self, space: str, kinds: str) -> str:
        """The line of most requests, as a sentence; "" where there is none."""
        lines: dict[int, int] = {}
        for i in self._of(space, kinds):
            lines[i["line"]] = lines.get(i["line"], 0) + i["counts"]["requests"]
        if not lines:
            return ""
        line = max(lines, key=lambda x: lines[x])
        return f"line {line}: {lines[line]} of them"

    def parted(self) -> str:
        """The lines at which warps diverged."""
        lines = sorted(
            {b["line"] for k in self._kernels for b in k["branches"] if b["divergent"]}
        )
        return f"line {', '.join(map(str, lines))}" if lines else ""


@dataclass(frozen=True)
class Limit:
    """A bound on what the counters say: `value(tally)` is at most `most(case)`.

    `what` names the value in a sentence; `where` finds the line; `hint` says what may help.
    """

    what: str
    value: Callable[[Tally], float]
    most: Callable[[Case], float]
    hint: str
    where: Callable[[Tally], str] = lambda tally: ""


@dataclass(frozen=True)
class Task:
    """An exercise: `signature` is the kernel that is asked for, `make(shape, rng)` a call.

    `hints` are tests of a wrong result, `(case, got)`, each with a sentence, whose {} becomes
    what the test found, and maybe with a regular expression that the source has to have;
    `without` pairs of what the source must not have, a regular expression, and a sentence.
    With `opencl` the kernel is OpenCL C. `variable` is the notebook's string of the kernel.
    `sizes` are a shape's; `unfit(shape, counted)` says why nobody could pass with it. With
    `in_order` there is a case of inputs 0, 1, 2, ...
    """

    name: str
    title: str
    signature: str
    make: Callable[[tuple[int, ...], Any], Case]
    limits: tuple[Limit, ...] = ()
    hints: tuple[tuple[Any, ...], ...] = ()
    without: tuple[tuple[str, str], ...] = ()
    opencl: bool = False
    variable: str = "KERNEL"
    sizes: tuple[str, ...] = ("n",)
    unfit: Callable[[tuple[int, ...], bool], str] = lambda shape, counted: ""
    in_order: bool = False

    @property
    def kernel(self) -> str:
        return self.signature.partition("(")[0].split()[-1]


# ---- what exercises share ----


def told(
    k: int, results: Callable[[Case], Iterable[tuple[Any, str]]], rtol: float = 0.0
) -> tuple[Any, str]:
    """A hint: what stands beside the one of the wrong `results` that argument k holds, but for
    what the case allows or `rtol`. Where several causes have that result, nothing is told."""

    def test(case: Case, got: dict[int, np.ndarray]) -> str:
        off = case.within.get(k, 0.0) if not rtol else 0.0
        found = {
            why
            for made, why in results(case)
            if (np.abs(got[k].astype("f8") - made) <= off + rtol * np.abs(made)).all()
        }
        return found.pop() if len(found) == 1 else ""

    return test, "{}"


class InOrder:
    """Instead of a generator of random numbers: 0, 1, 2, ..."""

    def uniform(self, _low: float, _high: float, shape: Any) -> np.ndarray:
        return np.arange(np.prod(shape), dtype="f8").reshape(shape)

    def integers(self, _low: int, _high: int, count: int) -> np.ndarray:
        return np.arange(count)


def whole_sectors(shape: tuple[int, ...], counted: bool) -> str:
    """Of rows of floats: whether a kernel can do without a sector beyond the fewest."""
    if not counted or shape[-1] % 8 == 0:
        return ""
    return (
        "and rows that are no multiple of 8 floats begin inside a sector: nobody could do "
        "without one beyond the fewest"
    )


def up(n: int, by: int) -> int:
    """How many `by` cover n."""
    return -(-n // by)


def floats(rng: np.random.Generator | InOrder, *shape: int) -> np.ndarray:
    """Numbers between -1 and 1."""
    return rng.uniform(-1, 1, shape).astype("f4")


def excess(space: str, kinds: str, hint: str, what: str = "") -> Limit:
    """No part beyond those that the same data take."""
    part = "sectors" if space == "global" else "wavefronts"
    said = what or f"{part} of {space} memory beyond the fewest"
    return Limit(
        f"{said} are",
        lambda t: t.sum(space, kinds, "excess"),
        lambda case: 0,
        hint,
        lambda t: t.worst(space, kinds),
    )

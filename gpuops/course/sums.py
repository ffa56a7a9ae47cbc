"""sums - exercises 05 and 05b: a sum by blocks, and in one launch."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from .memory import OWN_ARRAY
from .task import Case, InOrder, Limit, Task, excess, unwritten, up

_BLOCKS = 16


def _integers(n: int, rng) -> np.ndarray:
    """Small ones, and 50 odd ones beyond 2^24, which a float would round: the sum of any of
    them fits an int."""
    v = rng.integers(-1000, 1000, n).astype("i4")
    if not isinstance(rng, InOrder):
        v[rng.integers(0, n, 50)] = rng.integers(1 << 23, 1 << 24, 50) * 2 + 1
    return v


def _sum(shape, rng) -> Case:
    (n,) = shape
    v = _integers(n, rng)
    total = np.array([v.sum(dtype="i8")])
    return Case(
        (v, unwritten(_BLOCKS, "i4"), n),
        (_BLOCKS,),
        (256,),
        {1: total},
        {"n": n},
        total=True,
        busy=n >= 16 * _ALL,  # so many that each block has some, however they are shared out
    )


def _loads(t):
    return t.sum("global", "load", "requests")


def _atomics(most: int) -> Limit:
    return Limit(
        "threads that add by atomics are",
        lambda t: t.sum("global", "atomic", "lanes") + t.sum("shared", "atomic", "lanes"),
        lambda case: most,
        "Who adds by an atomic waits for all others that do: add in registers and by the "
        "rounds in shared memory, by an atomic at most the sums of whole warps.",
    )


_SUM_LIMITS = (
    Limit(
        "requests of global loads are",
        _loads,
        lambda case: up(case.sizes["n"], 32) + 8 * _BLOCKS,
        "One load of a warp for 32 elements: a thread adds many elements, as far apart as the "
        "grid has threads.",
    ),
    Limit(
        "requests of shared memory are",
        lambda t: t.sum("shared", "load store", "requests"),
        lambda case: 48 * _BLOCKS,
        "Add a thread's numbers in a variable of its own, stored to shared memory once. "
        "Then let the threads that work be neighbours, so that whole warps have done: "
        "s[t] += s[t + d] for t < d, with d from 128 down. One thread loads the result.",
        lambda t: t.most("shared", "load store"),
    ),
    excess("shared", "load store", "Neighbouring threads take neighbouring words."),
    excess(
        "global",
        "load",
        "Neighbouring threads take neighbouring elements, and step by as many as the grid has "
        "threads.",
    ),
    _atomics(8 * _BLOCKS),
)

_EMPTY = -77777777  # what `part` holds before the kernel runs
_ALL = 256 * _BLOCKS  # threads


def _is(total: int, value: Any) -> bool:
    """In the arithmetic of 32 bits."""
    return (total - int(value)) % (1 << 32) == 0


def _beginnings(v: np.ndarray, total: int) -> Iterator[tuple[np.ndarray, str, str]]:
    """The first elements, as many as have that sum: what a division without its remainder
    leaves."""
    for k in np.flatnonzero((np.cumsum(v, dtype="i8") - total) % (1 << 32) == 0)[:1] + 1:
        yield (
            np.arange(len(v)) < k,
            f"the first {k} of {len(v)} elements",
            "some thread has to go on while i < n, also where a division dropped a remainder",
        )


def _choices(v: np.ndarray, total: int) -> Iterator[tuple[np.ndarray, str, str]]:
    """How often each element may have been added by mistake, in words, and why."""
    i = np.arange(len(v))
    t, block = i % 256, i % _ALL // 256
    yield (
        i < _ALL,
        f"the first {_ALL} elements, one for each thread of the grid",
        f"each thread goes on {_ALL} elements later, because the grid has {_ALL} threads",
    )
    yield (
        i >= len(v) - _ALL,
        f"the last {_ALL} elements",
        ("each thread keeps its last one: add by +="),
    )
    yield i < len(v) - 1, f"all elements but the last, v[{len(v) - 1}]", "go on while i < n"
    yield i > 0, "all elements but v[0]", "thread 0 of block 0 begins there"
    yield from _beginnings(v, total)
    for step in 2 ** np.arange(12):
        yield (
            np.minimum(i // step + 1, _ALL // step),
            (f"v[0] to v[{step - 1}] once, and those after them more often"),
            f"of {_ALL} threads in the grid each goes on {_ALL} elements later, not {step}",
        )
    for few in 2 ** np.arange(8):
        words = f"threads 0 to {few - 1}" if few > 1 else "thread 0"
        yield (
            t < few,
            f"the elements of {words} of each block",
            ("rounds begin with d = 128, half of the block"),
        )
        for k in range(2 * few):
            some = ", ".join(f"v[{k + 2 * few * j}]" for j in range(3))
            yield (
                i % (2 * few) == k,
                f"{some}, ... alone",
                ("rounds go from d = 128 to d = 1, add by +=, and leave the sum in s[0]"),
            )
    for b in range(_BLOCKS):
        yield block == b, f"the elements of block {b} alone", "each block adds its own"
        yield block != b, f"all elements but those of block {b}", "each block adds its own"


def _added(v: np.ndarray, total: int) -> str:
    """Which elements add up to that, in words; "" where none are found."""
    right = int(v.sum(dtype="i8"))
    if total == 0:
        return "The sum is 0: nothing was added."
    for k in (*range(2, 17), 32, 64, 128, 256):
        if _is(total, k * right):
            return f"Every element is in it {'twice' if k == 2 else f'{k} times'}."
    if _is(total, right + _ALL):
        return "That is 1 too much for each thread: its sum begins at 0."
    if len(v) < 1000:  # too few for one answer
        return ""
    for often, words, why in _choices(v, total):
        once = int(v.astype("i8") @ often.astype("i8"))
        if _is(total, once):
            return f"These are {words}: {why}."
        for k in (2, _BLOCKS, 256):
            if _is(total, k * once):
                return f"These are {words}, each {k} times."
    return ""


def _missing(case: Case, got) -> str:
    empty = np.flatnonzero(got[1] == _EMPTY)
    return f"part[{empty[0]}]" if len(empty) else ""


def _total(case: Case, found) -> int:
    (k,) = case.expected
    return int(found[k].sum(dtype="i8"))


def _is_near(case: Case, got) -> bool:
    right = _total(case, case.expected)
    return 0 < abs(_total(case, got) - right) <= 2e-6 * abs(right)


def _off(case: Case, got) -> str:
    by = _total(case, got) - _total(case, case.expected)
    return f"{abs(by)} too {'large' if by > 0 else 'small'}"


_SUM_ENDS = (
    (lambda case, got: _added(case.args[0], _total(case, got)), "{}"),
    (
        _is_near,
        "Near, but rounded: a float has 24 bits, and a sum of ints may have 32. Add in int.",
        r"\b(?:float|double|half)\b",
    ),
    (
        lambda case, got: (_total(case, got) - _total(case, case.expected)) % (1 << 16) == 0,
        "Only the lower 16 bits are left: add in int, not in short.",
        r"\bshort\b",
    ),
    (
        lambda case, got: True,
        "An array without the word `__shared__` is a thread's own: what others store to theirs "
        "is not in it.",
        OWN_ARRAY,
    ),
    (
        _off,
        "That is {}, and no simple choice of elements. Does every variable begin at 0, and "
        "each word of shared memory at a thread's sum? Does every element go into one sum?",
    ),
)
_SUM_HINTS = (
    (
        lambda case, got: _is(
            int(got[1].sum(dtype="i8")), case.expected[1].sum() + _BLOCKS * _EMPTY
        ),
        "part holds no 0 at the start, and nobody may set it while others add: let one thread "
        "of each block store the block's sum.",
    ),
    (
        _missing,
        "{} is nobody's: one thread of each block stores its sum, also where that is 0.",
    ),
    *_SUM_ENDS,
)

REDUCE = Task(
    "05",
    "reduce",
    "void sum(const int *v, int *part, int n)",
    _sum,
    limits=_SUM_LIMITS,
    hints=_SUM_HINTS,
)


def _ticket(shape, rng) -> Case:
    (n,) = shape
    v = _integers(n, rng)
    total = np.array([v.sum(dtype="i8")], "i4")
    part, ticket = unwritten(_BLOCKS, "i4"), np.zeros(1, "u4")
    args = (v, part, ticket, unwritten(1, "i4"), n)
    return Case(args, (_BLOCKS,), (256,), {3: total}, {"n": n})


TICKET = Task(
    "05b",
    "reduce in one launch",
    "void sum(const int *v, int *part, unsigned *ticket, int *out, int n)",
    _ticket,
    limits=(
        _SUM_LIMITS[0],
        Limit(
            "requests of shared memory are",
            lambda t: t.sum("shared", "load store", "requests"),
            # One meeting more, of the last block, and whether a block is it: a store, 8 loads.
            lambda case: (48 + 9) * _BLOCKS + 48,
            _SUM_LIMITS[1].hint,
        ),
        _atomics((8 + 1) * _BLOCKS + 8),  # the tickets, and the last block's warps
        Limit(
            "blocks that draw no ticket are",
            lambda t: max(0, _BLOCKS - t.sum("global", "atomic", "lanes")),
            lambda case: 0,
            "All blocks add, each its part, and each draws a ticket.",
        ),
    ),
    hints=(
        (
            lambda case, got: got[3][0] == np.int32(case.expected[3][0]) + np.int32(_EMPTY),
            "out[0] holds no 0 at the start, and nobody may set it while others add: let one "
            "thread store the sum.",
        ),
        (
            lambda case, got: got[3][0] == _EMPTY,
            "Nobody wrote the result: the block whose ticket is the last, gridDim.x - 1, adds "
            "the parts.",
        ),
        *_SUM_ENDS,
    ),
    variable="ONE_LAUNCH",
)

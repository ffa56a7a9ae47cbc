"""counts - what `profile` returns: counts by kernel, source line and instruction."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, fields
from typing import TYPE_CHECKING, Any

from ..devices import Device
from ..errors import brief
from . import draw as _draw
from .counts_text import branch_table, columns, footer, line_table, table, title
from .where import Place, places

if TYPE_CHECKING:
    from matplotlib.axes import Axes


SPACES = ("global", "shared")
KINDS = ("load", "store", "atomic")


def _known(name: str, what: str, word: str, words: tuple[str, ...]) -> None:
    """Other words would find no access, and count nothing."""
    if word not in words:
        raise ValueError(f"{name}: {what} is {brief(word)}, expected {' or '.join(words)}")


@dataclass(frozen=True)
class Counts:
    """What warps asked of one kind of memory, added up.

    `requests` are warp instructions, `lanes` the threads active in them, `bytes` what these
    asked for. `parts` is what it took: of global memory transactions (sectors of 32 bytes by
    today's rules), of shared memory wavefronts; `ideal` is what as many bytes would take at
    best, `moved` the bytes that the parts carry. `excess` is the parts beyond those that the
    same data would take: threads that ask for the same bytes share them.
    """

    requests: int = 0
    lanes: int = 0
    bytes: int = 0
    parts: int = 0
    ideal: int = 0
    moved: int = 0
    excess: int = 0

    def __add__(self, other: Counts) -> Counts:
        names = [f.name for f in fields(self)]
        return Counts(*(getattr(self, n) + getattr(other, n) for n in names))

    @property
    def per_request(self) -> float:
        """Transactions or wavefronts a request; 0.0 if there were none."""
        return self.parts / self.requests if self.requests else 0.0

    @property
    def efficiency(self) -> float:
        """What the same data would take at best over what it took: 1.0 is perfect."""
        return 1.0 - self.excess / self.parts if self.parts else 1.0

    @property
    def useful(self) -> float:
        """Bytes asked for over bytes moved; above 1.0 where threads share what is moved."""
        return self.bytes / self.moved if self.moved else 1.0

    @property
    def active(self) -> float:
        """Active threads of the 32, on average."""
        return self.lanes / self.requests if self.requests else 0.0


@dataclass(frozen=True)
class Access:
    """One instruction of a kernel: `space` is global or shared; file and line if known.

    `each` tells how many requests took how many parts. `map` has for shared memory the words
    that each bank delivered, for global memory the sectors moved by how many of their 32 bytes
    were asked for, from 0 on. `carried` and `busiest` are bytes: of all memory partitions, and
    of the busiest one, added up over the waves of blocks that run together.
    """

    space: str
    kind: str  # load, store or atomic
    counts: Counts
    file: str = ""
    line: int = 0
    each: tuple[tuple[int, int], ...] = ()
    map: tuple[int, ...] = ()
    carried: int = 0
    busiest: int = 0
    # One request, to be drawn: its lanes, their addresses, bytes of each, parts, transactions.
    lane: tuple[int, ...] = ()
    at: tuple[int, ...] = ()
    width: int = 0
    parts: int = 0
    pieces: tuple[tuple[int, int], ...] = ()


@dataclass(frozen=True)
class Step:
    """A basic block that `lanes` of a warp, a bit each, go through together."""

    warp: int
    lanes: int
    file: str = ""
    line: int = 0


@dataclass(frozen=True)
class Branch:
    """A comparison: warps that passed it, those whose threads parted, threads active in all."""

    passed: int
    divergent: int
    lanes: int
    file: str = ""
    line: int = 0


@dataclass(frozen=True)
class KernelProfile:
    """The counts of one kernel, over all its launches.

    `blocks` and `threads` are those that ran, `grid` the blocks that were launched. `wave` is
    how many blocks a GPU with memory `partitions` has at work together; both are 0 by rules
    that know none.
    """

    name: str
    launches: int
    blocks: int
    threads: int
    accesses: tuple[Access, ...]
    branches: tuple[Branch, ...] = ()
    device: str = "sim"
    grid: int = 0
    wave: int = 0
    partitions: int = 0
    library: str = ""
    shared: int = 0  # bytes that a block declares, without what its launch adds
    steps: tuple[Step, ...] = ()  # of the grid's first block, as many as were kept

    def counts(self, space: str, kind: str) -> Counts:
        """The sum over the instructions of one space and kind.

        `space` is "global" or "shared", `kind` "load", "store" or "atomic".
        """
        _known("counts", "space", space, SPACES)
        _known("counts", "kind", kind, KINDS)
        return total(a.counts for a in self.accesses if (a.space, a.kind) == (space, kind))

    def balance(self, kind: str) -> float | None:
        """How evenly global loads, stores or atomics fall on the memory partitions.

        Per instruction and wave of blocks: bytes of all partitions over the number of
        partitions times those of the busiest. 1.0 is even, 1/8 is one partition of eight; None
        by rules that know no partitions, or where there is no such access.
        """
        _known("balance", "kind", kind, KINDS)
        wanted = [a for a in self.accesses if (a.space, a.kind) == ("global", kind)]
        busiest = self.partitions * sum(a.busiest for a in wanted)
        return sum(a.carried for a in wanted) / busiest if busiest else None

    @property
    def sampled(self) -> bool:
        """Whether only some of the blocks ran."""
        return self.blocks < self.grid

    @property
    def lines(self) -> dict[tuple[str, int, str, str], Counts]:
        """Counts by (file, line, space, kind), in the order of the source."""
        found: dict[tuple[str, int, str, str], Counts] = {}
        for a in sorted(self.accesses, key=lambda a: (a.file, a.line, a.space, a.kind)):
            key = (a.file, a.line, a.space, a.kind)
            found[key] = found.get(key, Counts()) + a.counts
        return found

    @property
    def branch_lines(self) -> dict[tuple[str, int], Branch]:
        """Branches by (file, line), in the order of the source, added up."""
        found: dict[tuple[str, int], Branch] = {}
        for b in sorted(self.branches, key=lambda b: (b.file, b.line)):
            o = found.get((b.file, b.line), Branch(0, 0, 0))
            found[b.file, b.line] = Branch(
                b.passed + o.passed,
                b.divergent + o.divergent,
                b.lanes + o.lanes,
                b.file,
                b.line,
            )
        return found

    def draw(
        self, line: int | None = None, kind: str | None = None, ax: Axes | None = None
    ) -> Axes:
        """Draws one request: its lanes, and the sectors or banks that serve them.

        `line` is a line of the source, `kind` is "load" or "store". Without them it draws the
        request with the most excess.
        Needs matplotlib; returns the axes.
        """
        return _draw.request(*_draw.found([self], line, kind), ax)

    def timeline(self, warp: int | None = 0, ax: Axes | None = None) -> Axes:
        """Draws the path of a warp of the first block; with ``warp=None`` of all its warps.

        There is a row for each lane and a column for each step. A step is a basic block of the
        code that the C++ compiler made. Needs matplotlib; returns the axes.
        """
        every = sorted({s.warp for s in self.steps})
        return _draw.steps(self, every if warp is None else [warp], ax)

    def kinds(self) -> Iterable[tuple[str, str, Counts]]:
        """(space, kind, counts) of those that occur."""
        for space in SPACES:
            for kind in KINDS:
                counts = self.counts(space, kind)
                if counts.requests:
                    yield space, kind, counts

    def as_dict(self) -> dict[str, Any]:
        """Plain numbers and strings, of all that is known."""
        made: dict[str, Any] = {
            "launches": self.launches,
            "blocks": self.blocks,
            "threads": self.threads,
        }
        for space, kind, counts in self.kinds():
            made[f"{space} {kind}"] = asdict(counts)
        made |= {"device": self.device, "grid": self.grid, "sampled": self.sampled}
        made["shared"] = self.shared
        if self.partitions:
            made["partitions"], made["wave"] = self.partitions, self.wave
            made["balance"] = {k: self.balance(k) for s, k, _ in self.kinds() if s == "global"}
        made["instructions"] = [_numbers(a) for a in self.accesses]
        made["branches"] = [asdict(b) for b in self.branch_lines.values()]
        return made


@dataclass(frozen=True, repr=False)
class Profile:
    """The kernels that a call launched, with what their warps did; prints as a table.

    Attributes
    ----------
    kernels : tuple of KernelProfile
        One for each kernel that ran, over all its launches; ``p[name]`` finds one, and a loop
        over ``p`` meets all.

    Examples
    --------
    >>> import numpy as np, gpuops
    >>> p = gpuops.profile("add", np.ones(64), 1.0, kernel="naive")    # doctest: +SKIP
    >>> p["add_naive"].counts("global", "load").requests    # doctest: +SKIP
    4
    """

    kernels: tuple[KernelProfile, ...]

    def __getitem__(self, name: str) -> KernelProfile:
        for kernel in self.kernels:
            if name in (kernel.name, kernel.name.removesuffix("_kernel")):
                return kernel
        raise KeyError(f"no kernel {name!r} ran, only {[k.name for k in self.kernels]}")

    def __iter__(self) -> Iterator[KernelProfile]:
        return iter(self.kernels)

    def __len__(self) -> int:
        return len(self.kernels)

    def as_dict(self) -> dict[str, Any]:
        """Plain numbers and strings: kernel -> launches, blocks, threads, "space kind" ->
        counts, and the same by instruction and branch. Ready for JSON."""
        found: dict[str, Any] = {}
        for k in self.kernels:
            found[f"{k.name} on {k.device}" if k.name in found else k.name] = k.as_dict()
        return found

    def draw(
        self, line: int | None = None, kind: str | None = None, ax: Axes | None = None
    ) -> Axes:
        """Draws one request of any of the kernels: see `KernelProfile.draw`."""
        return _draw.request(*_draw.found(self.kernels, line, kind), ax)

    def timeline(self, warp: int | None = 0, ax: Axes | None = None) -> Axes:
        """Draws the path of warps of the first kernel, as `KernelProfile.timeline`."""
        if not self.kernels:
            raise ValueError("timeline: no kernel ran on sim")
        return self.kernels[0].timeline(warp, ax)

    def __repr__(self) -> str:
        text = []
        for k in self.kernels:
            text.append(f"{k.name}: {title(k)}")
            text += columns(table(k))
            if any(a.line for a in k.accesses):
                text += columns(line_table(k))
            if any(b.divergent for b in k.branches):
                text += columns(branch_table(k))
        return "\n".join([*text, *footer(self)])

    def _repr_html_(self) -> str:
        from .profile_html import page

        return page(self)


def _numbers(a: Access) -> dict[str, Any]:
    """Without addresses, which differ from run to run."""
    found = asdict(a)
    for name in ("lane", "at", "width", "parts", "pieces"):
        del found[name]
    return found


def total(counts: Iterable[Counts]) -> Counts:
    """The sum of counts."""
    found = Counts()
    for one in counts:
        found = found + one
    return found


# ---- reading what the backend wrote ----


def _kernel(k: dict[str, Any]) -> KernelProfile:
    # An instruction is told by where it returns to: the one before it is meant.
    inside = {i["offset"] - 1 for i in (*k["instructions"], *k["branches"])}
    inside |= {offset - 1 for offset, _, _ in k["steps"]}
    found = places(k["library"], sorted(inside | {k["offset"]}))
    accesses, branches = [], []
    for i in k["instructions"]:
        at = found.get(i["offset"] - 1, Place())
        each = tuple((parts, n) for parts, n in enumerate(i["each"]) if n)
        cells = tuple(i["map"][:32] if i["space"] == "shared" else i["map"])
        counts = Counts(*(i[f.name] for f in fields(Counts)))
        where = (i["space"], i["kind"], counts, at.file, at.line)
        pieces = tuple(map(tuple, i["pieces"]))
        one = (tuple(i["lane"]), tuple(i["at"]), i["width"], i["most"], pieces)
        accesses.append(Access(*where, each, cells, i["carried"], i["busiest"], *one))
    for b in k["branches"]:
        at = found.get(b["offset"] - 1, Place())
        branches.append(Branch(b["passed"], b["divergent"], b["lanes"], at.file, at.line))
    steps = []
    for offset, lanes, warp in k["steps"]:
        at = found.get(offset - 1, Place())
        at = at if at.file in {a.file for a in accesses} else Place()
        steps.append(Step(warp, lanes, at.file, at.line))
    name = found.get(k["offset"], Place()).function or k["name"]
    return KernelProfile(
        name, k["launches"], k["blocks"], k["threads"], tuple(accesses), tuple(branches),
        str(Device("sim", k["device"])), k["grid"], k["wave"] if k["partitions"] else 0,
        k["partitions"], k["library"], k["shared"], tuple(steps),
    )  # fmt: skip


def _joined(one: KernelProfile, other: KernelProfile) -> KernelProfile:
    """Instances of one kernel, for different types, as one."""
    return KernelProfile(
        one.name, one.launches + other.launches, one.blocks + other.blocks,
        one.threads + other.threads, one.accesses + other.accesses,
        one.branches + other.branches, one.device, one.grid + other.grid, one.wave,
        one.partitions, one.library, max(one.shared, other.shared), one.steps or other.steps,
    )  # fmt: skip


def read(text: str) -> Profile:
    """The profile that the backend wrote as JSON."""
    made: dict[tuple[str, str], KernelProfile] = {}
    for k in map(_kernel, json.loads(text)):
        key = (k.name, k.device)
        made[key] = _joined(made[key], k) if key in made else k
    return Profile(tuple(made.values()))

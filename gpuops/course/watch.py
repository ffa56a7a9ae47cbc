"""watch - a small launch step by step: which thread touches which element, with a slider.

sim plays the kernel and keeps each request of a warp (csrc/sim/record.c); a page of SVG and a
little JavaScript, made here, shows one at a time. It needs no widgets and no network.
"""

from __future__ import annotations

import ctypes
import functools
import html
import itertools
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from .._call.road import index
from .._show.elements import Shared, last_arguments, variables
from .._show.where import places, sources
from ..compiling import Program, compile
from ..profiling import profile
from .extract import source_of
from .task import Case, InOrder, Task
from .tasks import TASKS

_MOST = 4000  # requests that are kept
_FRAMES = 400  # that are shown
_LARGEST = 256  # size of an exercise's arrays, of which some have n * n elements
_SIDE = 64  # rows and columns of an array that are shown
_KINDS = ("loads", "stores", "updates")
_number = itertools.count()


class _Element(ctypes.Structure):
    _fields_ = [("of", ctypes.c_uint64), ("offset", ctypes.c_int64), ("bytes", ctypes.c_int),
                ("is_shared", ctypes.c_int)]  # fmt: skip


class _Seen(ctypes.Structure):
    _fields_ = [("offset", ctypes.c_int64), ("block", ctypes.c_int64), ("warp", ctypes.c_int),
                ("kind", ctypes.c_int), ("count", ctypes.c_int), ("lane", ctypes.c_int * 32),
                ("element", _Element * 32)]  # fmt: skip


@functools.cache
def _sim() -> ctypes.CDLL:
    library = ctypes.CDLL(str(Path(__file__).parents[1] / "_sim.so"))
    library.gop_sim_recorded.restype = ctypes.POINTER(_Seen)
    return library


@dataclass(frozen=True)
class Step:
    """A request of a warp: its block and warp, the kernel's line, what it does to which array,
    and the element of each of its lanes."""

    block: int
    warp: int
    line: int
    does: str
    array: str
    elements: dict[int, int]


@dataclass(frozen=True)
class Grid:
    """An array as it is drawn: its name, and elements in rows."""

    name: str
    size: int
    columns: int
    place: str  # "in", "shared" or "out"


class Watched:
    """A launch, step by step; in a notebook with a slider. `steps` are plain values."""

    def __init__(self, source: str, grids: list[Grid], steps: list[Step], more: int) -> None:
        self.source, self.grids, self.steps, self.more = source, grids, steps, more

    def __repr__(self) -> str:
        lines = [f"{len(self.steps)} steps; in a notebook they are drawn, with a slider"]
        for s in self.steps[:12]:
            first, last = min(s.elements), max(s.elements)
            lines.append(
                f"  block {s.block}, warp {s.warp}, line {s.line}: lanes {first} to {last} "
                f"{s.does.removesuffix('s')} {s.array}[{s.elements[first]}] to "
                f"{s.array}[{s.elements[last]}]"
            )
        return "\n".join(lines + (["  ..."] if len(self.steps) > 12 else []))

    def _repr_html_(self) -> str:
        lines = self.source.splitlines()
        data = {
            "grids": [[g.name, g.size, g.columns, g.place] for g in self.grids],
            "steps": [
                [s.block, s.warp, s.line, s.does, s.array,
                 [[lane, at] for lane, at in s.elements.items()],
                 lines[s.line - 1].strip() if 0 < s.line <= len(lines) else ""]
                for s in self.steps
            ],
        }  # fmt: skip
        page = Path(__file__).with_name("watch.html").read_text(encoding="utf-8")
        # A source that has "</script>" in a comment ends nothing.
        text = json.dumps(data).replace("</", "<\\/")
        page = page.replace("@DATA@", text).replace("@ID@", f"gpuops-watch-{next(_number)}")
        note = f"{self.more} further steps are not shown" if self.more else ""
        return page.replace("@MOST@", str(len(self.steps) - 1)).replace(
            "@NOTE@", html.escape(note)
        )


def _exercise_of(program: Program) -> tuple[Task, Any]:
    for task in TASKS.values():
        kernel = program.kernels.get(task.kernel)
        if kernel and len(kernel.parameters) == task.signature.count(",") + 1:
            return task, kernel
    known = ", ".join(dict.fromkeys(t.kernel for t in TASKS.values()))
    raise ValueError(
        f"watch: {', '.join(program.kernels)} is no exercise's kernel ({known}): give its "
        "launch and its arguments, watch(kernel[1, 32], a, out)"
    )


def _case_of(task: Task, n: int) -> Case:
    shape = tuple(n for _ in task.sizes)
    try:
        return task.make(shape, InOrder())
    except (AttributeError, TypeError):  # it draws more than numbers in order
        return task.make(shape, np.random.default_rng(0))


def watch(kernel: Any, *args: Any, n: int = 8) -> Watched:
    """Shows a small launch of a kernel, request by request of its warps.

    Parameters
    ----------
    kernel : str, path, Program, or a launch
        An exercise's kernel, which gets arguments of size `n`, with inputs 0, 1, 2, ...; or
        ``program[grid, block]`` of any kernel that was compiled for sim, with its arguments.
    *args
        The launch's arguments.
    n : int
        The size of the exercise's arrays; of the first block all is shown.

    Returns
    -------
    Watched
        In a notebook a drawing with a slider: threads above, lines to the elements that they
        load (blue) or store (orange); `steps` has the same as values.
    """
    if callable(kernel) and not isinstance(kernel, Program):
        launch = kernel

    else:
        if not 1 <= index("watch", "n", n) <= _LARGEST:
            raise ValueError(f"watch: n is {n}, expected 1 to {_LARGEST}")
        program = compile(source_of(kernel), device="sim")
        task, found = _exercise_of(program)
        case = _case_of(task, n)
        args = case.args
        place = case.grid, case.block, case.shared

        def launch(*values):
            found[place](*values)

    _sim().gop_sim_record(_MOST)
    try:
        counted = profile(lambda: launch(*args), device="sim")
        number = ctypes.c_int()
        seen = _sim().gop_sim_recorded(ctypes.byref(number))
        kept = [_copied(seen[k]) for k in range(number.value)]
    finally:
        _sim().gop_sim_record(0)
    library = counted.kernels[0].library if counted.kernels else ""
    return _watched(library, [k for k in kept if k[1] == 0], args)


def _copied(s: _Seen) -> tuple:
    lanes = [(s.lane[i], s.element[i].of, s.element[i].offset) for i in range(s.count)]
    return s.offset, s.block, s.warp, s.kind, bool(s.element[0].is_shared), lanes


def _watched(library: str, kept: list[tuple], args: tuple) -> Watched:
    """Names for what was touched."""
    shared = variables.get(library, {})
    lines = places(library, [k[0] - 1 for k in kept])
    arguments = {a.begin: a for a in last_arguments()}
    arrays = [a for a in args if isinstance(a, np.ndarray)]
    shapes = dict(zip(arguments, arrays, strict=False))
    stored = {of for k in kept if k[3] and not k[4] for _, of, _ in k[5]}
    grids: dict[tuple[bool, int], Grid] = {}
    steps = []
    for offset, block, warp, kind, is_shared, lanes in kept:
        of = lanes[0][1]
        if (is_shared, of) not in grids:
            grids[is_shared, of] = (
                _grid_of_shared(shared.get(of)) if is_shared
                else _grid(arguments.get(of), shapes.get(of), of in stored)
            )  # fmt: skip
        item = _item(shared.get(of)) if is_shared else _bytes(arguments.get(of))
        at = lines.get(offset - 1)
        steps.append(Step(
            block, warp, at.line if at else 0, _KINDS[kind], grids[is_shared, of].name,
            {lane: place // item for lane, _, place in lanes},
        ))  # fmt: skip
    order = {"in": 0, "shared": 1, "out": 2}
    found = sorted(grids.values(), key=lambda g: order[g.place])
    text = sources.get(library, "")
    return Watched(text, found, steps[:_FRAMES], max(0, len(steps) - _FRAMES))


def _bytes(argument: Any) -> int:
    return argument.itemsize if argument else 4


def _item(variable: Shared | None) -> int:
    return 8 if variable and variable.kind.split()[-1] in ("double", "long") else 4


def _grid(argument: Any, array: np.ndarray | None, is_stored: bool) -> Grid:
    if argument is None:
        return Grid("?", 64, 8, "in")
    size = argument.size // argument.itemsize
    columns = array.shape[-1] if array is not None and array.ndim > 1 else min(size, 32)
    return Grid(argument.name, size, min(columns, _SIDE), "out" if is_stored else "in")


def _grid_of_shared(variable: Shared | None) -> Grid:
    if variable is None or not variable.lengths or not variable.lengths[0]:
        return Grid(variable.name if variable else "shared", 64, 32, "shared")
    columns = variable.lengths[-1] if len(variable.lengths) > 1 else 32
    return Grid(variable.name, int(np.prod(variable.lengths)), min(columns, _SIDE), "shared")

"""source - finding a kernel in the C and CUDA files, which travel with the package."""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from pathlib import Path
from textwrap import wrap

from .. import _core

_NO_CODE = re.compile(r"/\*.*?\*/|//[^\n]*|\"(?:\\.|[^\"\\\n])*\"|'(?:\\.|[^'\\\n])*'", re.S)
_LAUNCHES = re.compile(r"\bGOP_LAUNCH\w*\(ctx")
LONG = 120  # lines


@dataclass(eq=False)
class _Piece:
    """What has a body, with the comment above it: a function, types, or what has no name."""

    path: Path
    first: int
    lines: list[str]
    code: str
    names: list[str]
    is_type: bool
    folder: list[_Piece] = field(default_factory=list)  # all that stands beside it

    @cached_property
    def uses(self) -> list[_Piece]:
        words = set(re.findall(r"\w+", self.code))
        met = [one for one in self.folder if not words.isdisjoint(one.names)]
        return [
            one
            for one in met
            if one is not self
            and (one.is_type or any(_is_called(name, self.code) for name in one.names))
        ]


def folder() -> Path:
    """csrc inside the installed package, or beside it in a checkout."""
    here = Path(__file__).parents[1]
    return here / "csrc" if (here / "csrc").is_dir() else here.parent / "csrc"


def now_called(op: str, kernel: str, backend: str) -> str:
    """The name that a kernel has now, which had this one before; "" if none had."""
    place = folder() / ("cuda" if backend == "sim" else backend) / _core.ops()[op]
    row = re.compile(
        rf'\.name = "(\w+)",(?:(?!\n\}};).)*\.before = "{re.escape(kernel)}"', re.S
    )
    found = (row.search(path.read_text()) for path in sorted(place.glob("*.c*")))
    return next((match[1] for match in found if match), "")


def refuse_old_name(word: str, op: str, kernel: str, backend: str) -> None:
    """ValueError for a name that a kernel had before."""
    if now := now_called(op, kernel, backend):
        raise ValueError(f"{word}: kernel {kernel!r} of {backend} is now called {now!r}")


def find(op: str, kernel: str, backend: str) -> str:
    """The kernel and its launch, with what stands around them; "" if there is no such kernel.

    What these use of their folder comes with them, further kernels before all else and then the
    nearest first, while all is short, and is named where it is not. What only plans the launch
    is left out.
    """
    stem = _core.ops()[op]
    written_for = "cuda" if backend == "sim" else backend  # sim runs the very same files
    place = folder() / written_for / stem
    if backend == "opencl":
        return _of_opencl(place / f"{kernel}.cl")
    own, others = [], []
    for path in sorted(place.iterdir()):
        if re.fullmatch(rf"{re.escape(kernel)}(_sm\d+)?\.cu?", path.name):
            file, own = path.read_text().splitlines(), _definitions(path)
        else:
            others += [one for one in _definitions(path) if not one.is_type]
    if not own:
        return ""
    if written_for == "cuda":
        included = _included(own[0].path)
        inside = [one for one in others if one.path in included]
        if not any("__global__" in one.code for one in own + inside):
            shared = _launcher(own, others, included)
            inside += [one for one in others if one.path == shared]
        others = inside
    beside = own + others
    for one in beside:
        one.folder = beside
    launch = re.compile(rf"\b(?:{stem}|{op}|op##)_{re.escape(kernel)}\)?\(gop_ctx")
    launches = [one for one in own if launch.search(one.code) or _LAUNCHES.search(one.code)]
    launches = launches or [one for one in others if launch.search(one.code)]  # in a header
    # On the CPU the kernel is what is written once per dtype; its launch names it by the dtype.
    each = [one for one in own if any(f"FN({name})" in one.code for name in one.names)]
    kernels = [one for one in own if "__global__" in one.code]
    core, near = _core_of(launches, kernels, f"{stem}_{kernel}_kernel")
    starts = launches + kernels
    kernels += [one for one in each if not any(one in other.uses for other in own)]
    nearest = dict.fromkeys(starts + near + kernels + _near(kernels) + _near(starts))
    near = [one for one in nearest if one not in core]
    shown = sorted(core, key=lambda one: own.index(one) if one in own else len(own))
    text = _text(file, own, shown, near)
    for one in near:
        if one not in starts + kernels and not any(one in other.uses for other in shown):
            continue
        more = _text(file, own, [*shown, one], near)
        if len(more) <= LONG:
            shown, text = [*shown, one], more
    return "\n".join(text)


def _of_opencl(path: Path) -> str:
    """The whole file that a driver compiles, then its row, an entry of the ladder's list, and
    what plans and launches it, which is C. A solver has no file: its kernels are another
    operation's."""
    ladder = path.with_name("ladder.c")
    inside = ladder.read_text()
    row = re.search(
        rf"^    ROW\(op, stem, {re.escape(path.stem)}, (\w+),(?:.*\\\n)*.*", inside, re.M
    )
    if not row:
        return ""
    entry = re.split(r" \\\n    ROW\(", row[0])[0].splitlines()
    text = [_place(path, 0), *path.read_text().splitlines(), ""] if path.exists() else []
    used = re.findall(r'^#include "([^"]+)"', "\n".join(text), re.M)
    text += [_place(ladder, inside.count("\n", 0, row.start())), *entry, ""]
    for one in _planning(path.parent, row[1]):
        text += [_place(one.path, one.first), *one.lines, ""]
    return "\n".join(text[:-1] + (_note("it includes " + ", ".join(used)) if used else []))


def _planning(place: Path, plan: str) -> list[_Piece]:
    """The plan of an OpenCL kernel, and the launch that it names or that its folder has."""
    pieces = [one for path in sorted(place.glob("*.c")) for one in _definitions(path)]
    own = [one for one in pieces if plan in one.names]
    launches = [one for one in pieces if re.search(r"\(gop_ctx[^)]*int64_t step\)", one.code)]
    near = [one for one in launches if one.path == own[0].path] or launches
    named = [one for one in near if re.search(rf"->launch = {one.names[0]};", own[0].code)]
    return (named or near)[:1] + own


def _included(path: Path) -> set[Path]:
    """The headers of csrc that a CUDA file includes, and those that these include."""
    found, todo = set(), [path]
    while todo:
        names = re.findall(r'^#include "([^"]+)"', todo.pop().read_text(), re.M)
        new = {folder() / name for name in names} - found
        found |= new
        todo += [one for one in new if one.exists()]
    return found


def _launcher(own: list[_Piece], others: list[_Piece], headers: set[Path]) -> Path | None:
    """The file whose kernel a file without one launches, by a function of its headers."""
    declared = "\n".join(path.read_text() for path in headers if path.exists())
    code = "\n".join(one.code for one in own)
    for one in others:
        for name in one.names:
            told = re.search(rf"^gop_status {name}\([^{{}};]*\);", declared, re.M)
            if one.path.suffix == ".cu" and told and _is_called(name, code):
                return one.path
    return None


def _text(file: list[str], own, shown: list[_Piece], near: list[_Piece]) -> list[str]:
    """The kernel's own file down to its launch, what else is shown, and names of the rest."""
    last = max((i for i, one in enumerate(own) if one in shown), default=len(own) - 1)
    hidden = [one for one in own[: last + 1] if one.names and one not in shown]
    text, at = [_place(own[0].path, 0)], 0
    for one in hidden:
        text += file[at : one.first]
        at = one.first + len(one.lines)
        at += file[at] == ""
    text += file[at : own[last].first + len(own[last].lines)]
    for one in shown:
        if one not in own:
            text += ["", _place(one.path, one.first), *one.lines]
    plans = dict.fromkeys(name for one in hidden if one not in near for name in one.names)
    names: dict[Path, dict[str, None]] = {}
    for one, user in ((used, piece.code) for piece in shown for used in piece.uses):
        if one not in shown:
            met = [name for name in one.names if one.is_type or _is_called(name, user)]
            names.setdefault(one.path, {}).update(dict.fromkeys(met))
    said = [f"{path.name}: {', '.join(some)}" for path, some in names.items()]
    text += _note("left out, as it plans: " + ", ".join(plans)) if plans else []
    return text + (_note("it uses, in " + "; in ".join(said)) if said else [])


def _place(path: Path, first: int) -> str:
    return f"// {path.relative_to(folder().parent)}:{first + 1}"


def _note(text: str) -> list[str]:
    return ["", *(f"// {line}" for line in wrap(text, 92, break_on_hyphens=False))]


def _core_of(
    launches: list[_Piece], kernels: list[_Piece], name: str
) -> tuple[list[_Piece], list[_Piece]]:
    """Launches, each down to its kernel: the one of this name or else the longest, in their own
    file if that has any; and what is on the way to the other kernels."""
    called = {one for launch in launches for one in _near([launch])}
    core = [one for one in launches if one not in called]
    ways = []
    for launch in list(core):
        found = _ways_to_kernels(launch, kernels)
        ways += found
        core += max(
            found, key=lambda way: (name in way[-1].names, len(way[-1].lines)), default=[]
        )
    core += kernels if not ways else []
    return list(dict.fromkeys(core)), [] if kernels else [one for way in ways for one in way]


def _ways_to_kernels(launch: _Piece, kernels: list[_Piece]) -> list[list[_Piece]]:
    """To each kernel that a launch reaches: what is called on the way, then the kernel."""
    ways, met = [[launch]], [launch]
    for way in ways:
        new = [one for one in way[-1].uses if one not in met]
        ways += [[*way, one] for one in new]
        met += new
    return [
        way[1:]
        for way in ways
        if "__global__" in way[-1].code and (not kernels or way[-1] in kernels)
    ]


def _near(core: list[_Piece]) -> list[_Piece]:
    """What these use, then what that uses, and so on."""
    met = dict.fromkeys(core)
    step = core
    while step:
        step = [one for before in step for one in before.uses if one not in met]
        met |= dict.fromkeys(step)
    return list(met)[len(core) :]


def _is_called(name: str, text: str) -> bool:
    """Called or handed on, and no variable or member of that name."""
    if re.search(rf"(?<![\w.>]){name}\)? ?(?:<[^;{{}}]*> ?)?\(", text):
        return True
    if re.search(rf"\w[\s*&]+{name} ?[=;,)\[]", re.sub(r"\breturn\b", "", text)):
        return False
    return re.search(rf"[(,]\s*{name}(?:<[^;{{}}]*>)?\)?\s*[,)]", text) is not None


def _names(code: str) -> tuple[list[str], bool]:
    """The functions whose bodies begin in a line of their own, or the types; are they types?"""
    *heads, _ = code.split("\n{")
    names: dict[str, None] = {}
    for head in heads:
        at, depth = head.rfind(")"), 1
        if at < 0:
            continue
        while depth and at > 0:
            at -= 1
            depth += {")": 1, "(": -1}.get(head[at], 0)
        names |= dict.fromkeys(re.findall(r"(\w+)\)?\s*$", head[:at]))
    if names:
        return list(names), False
    types = re.findall(r"^(?:typedef |template <.*> )?struct\b[^;{}]*?(\w+) \{", code, re.M)
    return types, True


def _definitions(path: Path) -> list[_Piece]:
    """What has a body, each up to an empty line or a directive outside of braces."""
    return [replace(one) for one in _read(path, path.stat().st_mtime_ns)]


@lru_cache(maxsize=512)  # a folder is read again for each of its kernels
def _read(path: Path, changed: int) -> list[_Piece]:
    lines, found = path.read_text().splitlines(), []
    plain = _NO_CODE.sub(lambda found: "\n" * found[0].count("\n"), "\n".join(lines)).split(
        "\n"
    )
    first = depth = 0
    has_body = False
    for i, (line, code) in enumerate(zip([*lines, ""], [*plain, ""], strict=True)):
        # A directive ends what stands before it, as a table of launches after the last one.
        ends = has_body and not depth and code.startswith("#") and plain[i - 1][-1:] != "\\"
        depth += code.count("{") - code.count("}")
        if ends or not (line or depth):
            if has_body:
                piece = "\n".join(plain[first:i])
                found.append(_Piece(path, first, lines[first:i], piece, *_names(piece)))
            first, has_body = i if ends else i + 1, False
        has_body |= "{" in code
    return found

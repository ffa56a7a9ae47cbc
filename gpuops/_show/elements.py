"""elements - names for what a kernel touches in sim's sentences: `tile[1][0]`, `part[0]`.

csrc/sim/element.c says which variable or array, and which byte of it; what that is called
stands in the kernel's source.
"""

from __future__ import annotations

import ast
import contextlib
import re
import threading
from collections.abc import Iterator
from dataclasses import dataclass

from .._compile.simt import at_commas, without_comments

_TOKEN = r" \{([sg])([0-9a-f]+)\+(-?\d+):(\d+)\}"
_MEMORY = re.compile(r"((?:shared|global) memory)" + _TOKEN)
_OUTSIDE = re.compile(
    r"\d+ bytes[^{]* (past the end of|before) an array of (\d+) bytes" + _TOKEN
)
_BYTES = {
    "char": 1, "bool": 1, "short": 2, "half": 2, "int": 4, "unsigned": 4, "float": 4, "long": 8,
    "double": 8, "float2": 8, "int2": 8, "float4": 16, "int4": 16,
}  # fmt: skip
# What gpuops/_compile/simt.py makes of declarations.
_SHARED = re.compile(
    r"static_cast<(?P<kind>[^;<>]*?) (?:\(\*\)|\*)(?P<sizes>[^;>]*)>\(gop_sim_"
    r"(?:shared\((?P<site>\d+)u|dynamic\()"
)
_NAME = re.compile(r"(\w+)\)?(?:\[[^\]]*\])* = \*?$")
# What a line stores to: `out[(y + j) * n + x] =`, and loads before that if it is `+=`.
_STORED = re.compile(
    r"\b(?P<name>\w+)\s*(?:\[(?:[^][]|\[[^][]*\])*\]\s*)+"
    r"(?P<and_loaded>[-+*/%&|^]|<<|>>)?=(?!=)"
)
# It begins with a plain word, which is found many times faster than either of two.
_CONSTANT = re.compile(r"const(?:expr)?\s+(?:int|unsigned)\s+(\w+)\s*=\s*(\d+)\s*;")
# Of the libraries of kernels, their shared variables by site.
variables: dict[str, dict[int, Shared]] = {}


@dataclass(frozen=True)
class Shared:
    """A shared variable; a length is 0 where its size is no number that is known."""

    kind: str
    name: str
    lengths: tuple[int, ...]


def shared_of(text: str) -> dict[int, Shared]:
    """The shared variables of what sim compiles, by site; of dynamic shared memory 0."""
    made = {}
    known = {m[1]: int(m[2]) for m in _CONSTANT.finditer(text)}
    for found in _SHARED.finditer(text):
        name = _NAME.search(text, max(0, found.start() - 200), found.start())
        lengths = [_value(x, known) for x in re.findall(r"\[([^\]]*)\]", found["sizes"])]
        if found["site"] is None:
            lengths.insert(0, 0)
        made[int(found["site"] or 0)] = Shared(
            found["kind"], name[1] if name else "", tuple(lengths)
        )
    return made


@dataclass(frozen=True)
class Argument:
    """An array that a kernel was given: where it lies, and what the kernel calls it."""

    name: str
    begin: int
    size: int
    itemsize: int


class _Local(threading.local):
    arguments: tuple[Argument, ...] = ()
    last: tuple[Argument, ...] = ()  # those of the launch before


_local = _Local()


@contextlib.contextmanager
def called(arguments: tuple[Argument, ...]) -> Iterator[None]:
    """Around a launch: sentences name its arrays."""
    _local.arguments = _local.last = arguments
    try:
        yield
    finally:
        _local.arguments = ()


def last_arguments() -> tuple[Argument, ...]:
    """The arrays of this thread's last launch of a kernel of one's own."""
    return _local.last


def parameters(source: str, kernel: str) -> list[str]:
    """The names of a kernel's parameters; [] where its source does not tell."""
    plain = without_comments(source)
    found = re.search(rf"\b{re.escape(kernel)}\s*\(([^()]*)\)\s*\{{", plain)
    names = (
        [re.search(r"(\w+)\s*(?:\[\])?\s*$", p) for p in at_commas(found[1])] if found else []
    )
    return [n[1] for n in names if n]


def _in_line(does: str, code: str) -> Argument | None:
    """The array that an access outside all arrays was meant for, where its line has only one.

    sim names the array that lies nearest, which may be another one.
    """
    if does == "loads":
        text = _STORED.sub(lambda at: at[0] if at["and_loaded"] else " ", code)
    else:
        text = " ".join(at["name"] for at in _STORED.finditer(code)) or code
    names = re.findall(r"\w+", text)
    found = [a for a in _local.arguments if a.name in names]
    return found[0] if len(found) == 1 else None


def named(sentence: str, library: str, code: str = "") -> str:
    """The sentence with elements instead of their tokens; without them where none is known.

    `code` is the line of the access.
    """

    def inside(at: re.Match[str]) -> str:
        element = _element(
            variables.get(library, {}), at[2], int(at[3], 16), int(at[4]), int(at[5])
        )
        return f"{element}, {at[1]}" if element else at[1]

    def outside(at: re.Match[str]) -> str:
        address = int(at[4], 16) + int(at[5])
        does = sentence[: at.start()].split()[-1]
        of = _in_line(does, code) or _argument(int(at[4], 16))
        if not of or (address - of.begin) % of.itemsize:
            return at[0][: at[0].rindex(" {")]
        wide = f"{at[6]} bytes from " if int(at[6]) > of.itemsize else ""
        index, count = (address - of.begin) // of.itemsize, of.size // of.itemsize
        where = "before" if address < of.begin else "past the end of"
        some = "element" if count == 1 else "elements"
        return f"{wide}{of.name}[{index}], {where} {of.name}, which has {count} {some}"

    return _MEMORY.sub(inside, _OUTSIDE.sub(outside, sentence))


def _argument(begin: int) -> Argument | None:
    found = [a for a in _local.arguments if a.begin == begin]
    return found[0] if len(found) == 1 else None


def _element(shared: dict[int, Shared], space: str, of: int, offset: int, size: int) -> str:
    if space == "g":
        array = _argument(of)
        whole = array and offset % array.itemsize == 0
        return f"{array.name}[{offset // array.itemsize}]" if whole else ""
    if of not in shared:
        return ""
    var = shared[of]
    words = re.sub(r"\b(?:const|volatile|signed)\b", " ", var.kind).split()
    item = 8 if var.kind.endswith("*") else _BYTES.get((words or [""])[0], size)
    at, rest = offset // item, ""
    for length in reversed(var.lengths[1:]):
        if not length:
            return var.name
        at, rest = at // length, f"[{at % length}]{rest}"
    return f"{var.name}[{at}]{rest}" if var.lengths else var.name


def _value(text: str, known: dict[str, int]) -> int:
    """Of a size, as `TILE + 1`; 0 where it is none that is known."""
    does = {ast.Add: int.__add__, ast.Sub: int.__sub__, ast.Mult: int.__mul__}

    def of(node: ast.AST) -> int:
        if isinstance(node, ast.BinOp):
            return does[type(node.op)](of(node.left), of(node.right))
        return known[node.id] if isinstance(node, ast.Name) else int(node.value)  # type: ignore[attr-defined]

    try:
        return of(ast.parse(text.strip(), mode="eval").body)
    except (SyntaxError, KeyError, AttributeError, TypeError, ValueError):
        return 0

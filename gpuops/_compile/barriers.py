"""barriers - tells sim where a thread has done with a statement that has barriers in it.

    if (i < n) __syncthreads();     becomes   if (i < n) __syncthreads(); gop_sim_done_with(..);

A thread that comes there, while others wait inside, has passed their barrier by
(csrc/sim/barrier.c). What is marked is each `if` with its `else`, each loop and each `switch`,
but for those that a thread may leave sideways, by `continue`, `break` or `goto`. A barrier that
stands in an expression, as in `i < n && (__syncthreads(), true)`, is none of a statement.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from dataclasses import dataclass, field

from .simt import without_comments

_ANY_BARRIER = re.compile(r"\b__syncthreads(?:_count|_or|_and)?\s*\(")
_MACRO = re.compile(r"^[ \t]*#[ \t]*define[ \t]+(\w+)(.*)$", re.M)
_DIRECTIVE = re.compile(r"^[ \t]*#.*$", re.M)
_CONTROL = re.compile(r"(if|for|while|switch|do)\b")
# By what a thread leaves a statement without coming to its end.
_SIDEWAYS = {
    "if": re.compile(r"\b(?:continue|break|goto)\b"),
    "switch": re.compile(r"\b(?:continue|goto)\b"),
}
_GOTO = re.compile(r"\bgoto\b")
_ELSE = re.compile(r"\s*else\b\s*")
_IF = re.compile(r"if\b")
_LABEL = re.compile(r"(?:case\b[^:;{}]*|default\s*|\w+\s*):(?!:)")
_TO_THE_END = re.compile(r"[;{}(\[]")
_BRACKET = re.compile(r"[()\[\]{}]")
_PARTNER = {")": "(", "}": "{", "]": "["}
_CALL = re.compile(r"\b(\w+)\s*[(<]")
_NAME = re.compile(r"(\w+)\s*$")
_ENDS_ARGUMENTS = re.compile(r"\)\s*(?:(?:const|noexcept)\s*)*$")


@dataclass
class _Function:
    name: str
    begin: int
    end: int
    is_kernel: bool
    statements: list[tuple[int, int]] = field(default_factory=list)  # of control, by their ends


def marked(source: str) -> str:
    """The source with its marks; as it is where its brackets have no partners."""
    hidden = without_comments(source)
    if not _ANY_BARRIER.search(hidden):
        return source
    joined = re.sub(r"\\\n", "  ", hidden)  # as long as it was
    plain = _DIRECTIVE.sub(lambda m: " " * len(m[0]), joined)
    macros = [m[1] for m in _MACRO.finditer(joined) if _ANY_BARRIER.search(m[2])]
    barrier = re.compile("|".join([_ANY_BARRIER.pattern, *(rf"\b{m}\b" for m in macros)]))
    try:
        reading = _Reading(plain, [found.start() for found in barrier.finditer(plain)])
    except (ValueError, IndexError, RecursionError):
        return source
    lines = _lines(plain, reading.barriers)
    pieces = []
    for f in reading.functions:
        for begin, end in f.statements:
            text = "".join(
                f" gop_sim_done_with({lines[there[0]]}, {lines[there[-1]]}, {f.is_kernel:d});"
                for there in reading.inside(f, begin, end)
                if there
            )
            if not text:
                continue
            before = reading.before(begin)
            if before < 0 or plain[before] in ";{}:":  # it is not another's body
                pieces.append((end, text))
            elif not _DIRECTIVE.search(joined, before + 1, end):
                pieces += [(end, text + " }"), (begin, "{ ")]
    made, before = [], 0
    for at, text in sorted(pieces, key=lambda piece: piece[0]):
        made += [source[before:at], text]
        before = at
    return "".join(made) + source[before:]


def _lines(plain: str, barriers: list[int]) -> dict[int, int]:
    """The line of each barrier."""
    found, line, counted = {}, 1, 0
    for at in barriers:
        line, counted = line + plain.count("\n", counted, at), at
        found[at] = line
    return found


class _Reading:
    """The functions of a source, and the statements of control in them."""

    def __init__(self, plain: str, barriers: list[int]) -> None:
        self.plain = plain
        self.barriers = barriers
        self.closing = self._brackets()
        self.functions = list(self._functions())
        self._called = self._functions_with_barriers()

    def _brackets(self) -> dict[int, int]:
        found, waiting = {}, []
        for bracket in _BRACKET.finditer(self.plain):
            if bracket[0] in "([{":
                waiting.append(bracket.start())
                continue
            opened = waiting.pop()
            if self.plain[opened] != _PARTNER[bracket[0]]:
                raise ValueError
            found[opened] = bracket.start()
        if waiting:
            raise ValueError
        return found

    def _functions(self):
        opening = {closed: opened for opened, closed in self.closing.items()}
        end = 0
        for brace in re.finditer("{", self.plain):
            at = brace.start()
            arguments = _ENDS_ARGUMENTS.search(self.plain, max(0, at - 80), at)
            if not arguments:
                continue
            opened = opening[arguments.start()]
            is_lambda = self.plain[self.before(opened)] == "]"
            if at < end and not is_lambda:
                continue
            begin = max(self.plain.rfind(c, 0, opened) for c in ";{}") + 1
            head = self.plain[begin:opened]
            name = _NAME.search(head)
            f = _Function(name[1] if name else "", at, at, "__global__" in head)
            f.end = self._statement(at, f.statements)
            end = max(end, f.end)
            yield f

    def _between(self, begin: int, end: int) -> list[int]:
        return self.barriers[
            bisect_left(self.barriers, begin) : bisect_left(self.barriers, end)
        ]

    def _functions_with_barriers(self) -> dict[str, list[int]]:
        """Of those that no thread leaves before their last barrier, the barriers by name."""
        found: dict[str, list[int]] = {}
        for f in self.functions:
            inside = self._between(f.begin, f.end)
            if (
                inside
                and f.name
                and not re.search(r"\breturn\b", self.plain[f.begin : inside[-1]])
            ):
                found.setdefault(f.name, []).extend(inside)
        return found

    def inside(self, f: _Function, begin: int, end: int):
        """The barriers in a statement, then those of each function that it calls."""
        yield self._between(begin, end)
        called = {m[1] for m in _CALL.finditer(self.plain, begin, end) if m[1] in self._called}
        for name in sorted(called - {f.name}):
            yield self._called[name]

    def before(self, at: int) -> int:
        """The place of what stands before, or -1."""
        at -= 1
        while at >= 0 and self.plain[at].isspace():
            at -= 1
        return at

    # ---- statements: each function gives the place behind ----

    def _blank(self, at: int) -> int:
        while self.plain[at].isspace():
            at += 1
        return at

    def _condition(self, at: int) -> int:
        return self.closing[self.plain.index("(", at)] + 1

    def _statement(self, at: int, found: list[tuple[int, int]]) -> int:
        """Appends the statements of control that are in it."""
        begin = at = self._blank(at)
        if self.plain[at] == "{":
            end = self.closing[at]
            at = self._blank(at + 1)
            while at < end:
                at = self._blank(self._statement(at, found))
            return end + 1
        control = _CONTROL.match(self.plain, at)
        if not control:
            return self._simple(at)
        if control[1] == "do":
            at = self._statement(control.end(), found)
            at = self.plain.index(";", self._condition(at)) + 1
        else:
            at = self._statement(self._condition(control.end()), found)
        while control[1] == "if" and (other := _ELSE.match(self.plain, at)):
            at = other.end()
            if chained := _IF.match(self.plain, at):
                at = self._condition(chained.end())
            at = self._statement(at, found)
        if not _SIDEWAYS.get(control[1], _GOTO).search(self.plain, begin, at):
            found.append((begin, at))
        return at

    def _simple(self, at: int) -> int:
        if label := _LABEL.match(self.plain, at):
            return label.end()
        while self.plain[at] not in ";}":
            stop = _TO_THE_END.search(self.plain, at)
            if stop is None:
                raise ValueError
            at = stop.start()
            if at in self.closing:
                at = self.closing[at] + 1
        return at + (self.plain[at] == ";")

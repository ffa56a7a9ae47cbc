"""unset - local variables that a kernel uses before they have a value.

gcc tells two cases apart. A variable "is used" uninitialized for certain, or it "may be used",
as a sum in a loop that has no start value. The second case is a mistake only if the first
mention reads the variable, and no branch of the loop can have set it in an earlier iteration.
nvcc warns of fewer.
"""

from __future__ import annotations

import re

from . import simt as _simt
from .kernel_source import Source

# A part of a structure (p.x) may be copied before it is set, and never be used.
_USED = re.compile(
    r"kernel\.cu:(?P<line>\d+):\d+: warning: (?:'(?P<name>\w+)' is used uninitialized|"
    r"variable '(?P<clangs>\w+)' is uninitialized when used here)"
)
_MAY_BE = re.compile(
    r"warning: '(\w+)' may be used uninitialized.*(?:\n.*)*?"
    r"kernel\.cu:(\d+):\d+: note: '\1' (?:was )?declared here"
)
_LOOP = re.compile(r"\b(?:for|while|do)\b")
_BRANCH = re.compile(r"\b(?:if|else|switch|case|goto|break|continue)\b|\?|&&|\|\|")


def unset(said: str, source: Source) -> list[tuple[str, int, str]]:
    """File, line and words of each."""
    found = [(int(at["line"]), at["name"] or at["clangs"]) for at in _USED.finditer(said)]
    hidden = _simt.without_comments(source.text)
    for name, declared in _MAY_BE.findall(said):
        if line := _line_that_reads_first(hidden, name, int(declared)):
            found.append((line, name))
    return [
        (
            "kernel.cu",
            line,
            f"`{name}` is used before it has a value: give it one where it is declared",
        )
        for line, name in found
    ]


def _line_that_reads_first(hidden: str, name: str, declared: int) -> int:
    """The line of the variable's first mention if that reads it for certain; else 0."""
    begin = sum(map(len, hidden.splitlines(keepends=True)[: declared - 1]))
    word = rf"\b{name}\b"
    place = re.compile(rf"(?<=[\w>*,])[\s*]+{name}\s*(?=[;,])").search(hidden, begin)
    first = place and re.compile(word).search(hidden, place.end())
    if not first:
        return 0
    between = hidden[place.end() : first.start()]
    loop = _LOOP.search(between)
    if "#" in between or (loop and _BRANCH.search(between, loop.start())):
        return 0
    statement = hidden[first.end() : hidden.find(";", first.end())]
    changed = re.match(r"\s*(?:[-+*/%&|^]|<<|>>)=|\s*(?:\+\+|--)", statement)
    own = re.match(rf"\s*=(?!=)[^?&|]*{word}", statement)
    before = re.search(r"(?:\+\+|--)\s*$", between)
    return hidden.count("\n", 0, first.start()) + 1 if changed or own or before else 0

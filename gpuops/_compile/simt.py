"""simt - rewrites `__shared__` declarations and some barriers, for a C++ compiler.

    __shared__ T tile[32][33];        becomes   typedef T tile_shared[32][33];
                                                tile_shared &tile = gop_sim_shared_at<..>(site);
    extern __shared__ unsigned h[];   becomes   unsigned *h = (unsigned *)gop_sim_dynamic();
    if (a) __syncthreads(); else __syncthreads();
              becomes   if (a) __syncthreads(); else __syncthreads(__LINE__ + 65536);

All else that CUDA adds to C++ is in csrc/sim/include. Lines keep their numbers. setup.py loads
this file by its path: it imports nothing of gpuops.
"""

from __future__ import annotations

import re
import zlib

_COMMENT_OR_STRING = re.compile(
    r"//[^\n]*|/\*.*?\*/|\"(?:\\.|[^\"\\\n])*\"|'(?:\\.|[^'\\\n])*'", re.DOTALL
)
_DECLARATION = re.compile(r"\b(extern\s+)?__shared__\b([^;]*);")
_BARRIER = re.compile(r"\b__syncthreads\s*\(\s*(?=\))")
_ALIGN = re.compile(r"__align__\s*\([^)]*\)|alignas\s*\([^)]*\)|\bvolatile\b")
_BRACKETS = re.compile(r"<[^<>]*>|\([^()]*\)")
_DECLARATOR = re.compile(r"^(.*?)(\b[A-Za-z_]\w*)\s*((?:\[[^\]]*\]\s*)*)$", re.DOTALL)


class SharedSyntaxError(ValueError):
    """A `__shared__` declaration that is not understood; the text names its line."""


def without_comments(source: str) -> str:
    """The source with blanks for its comments and strings: every character stays in place."""
    return _COMMENT_OR_STRING.sub(lambda m: re.sub(r"[^\n]", " ", m[0]), source)


def rewrite(source: str, name: str) -> str:
    """The source with its shared declarations replaced; `name` is the file's, for #line."""
    source = _told_apart(source)
    hidden = without_comments(source)
    pieces, end, site = [f'#line 1 "{name}"\n'], 0, zlib.crc32(name.encode()) & 0xFFFFF000
    for found in _DECLARATION.finditer(hidden):
        line = hidden.count("\n", 0, found.start()) + 1
        pieces.append(source[end : found.start()])
        text = _ALIGN.sub(" ", found[2])
        made = [_dynamic(text, line)] if found[1] else _static(text, site, line)
        site += len(made)
        pieces.append(" ".join(made) + "\n" * found[0].count("\n"))
        end = found.end()
    return "".join(pieces) + source[end:]


def _told_apart(source: str) -> str:
    """Barriers are known by their lines: further ones of a line get numbers of their own."""
    made = []
    lines = zip(source.split("\n"), without_comments(source).split("\n"), strict=True)
    for line, hidden in lines:
        for k, found in reversed(list(enumerate(_BARRIER.finditer(hidden)))):
            if k:
                line = f"{line[: found.end()]}__LINE__ + {k << 16}{line[found.end() :]}"
        made.append(line)
    return "\n".join(made)


def _split(text: str, line: int) -> tuple[str, str, str]:
    found = _DECLARATOR.match(text.strip())
    # A type with sizes or a value in it: without its semicolon the next statement is read too.
    if not found or not found[1].strip() or re.search(r"[]=]", _BRACKETS.sub("", found[1])):
        first, *more = text.strip().splitlines() or [""]
        raise SharedSyntaxError(
            f"line {line}: expected `__shared__ type name[size];`, "
            f"got `__shared__ {first.strip()}{'' if more else ';'}`"
        )
    return found[1].strip(), found[2], found[3].strip()


def _dynamic(text: str, line: int) -> str:
    kind, name, _ = _split(text, line)
    return f"{kind} *{name} = static_cast<{kind} *>(gop_sim_dynamic());"


def _static(text: str, site: int, line: int) -> list[str]:
    first, *others = _at_commas(text)
    kind, name, sizes = _split(first, line)
    made = []
    for k, (who, size) in enumerate(
        [(name, sizes), *(_split("x " + more, line)[1:] for more in others)]
    ):
        made.append(
            f"typedef {kind} {who}_shared{size}; "
            f"{who}_shared &{who} = gop_sim_shared_at<{who}_shared>({site + k}u);"
        )
    return made


def _at_commas(text: str) -> list[str]:
    """Parts between the commas that stand in no brackets."""
    parts, depth = [""], 0
    for c in text:
        depth += (c in "<([{") - (c in ">)]}")
        if c == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += c
    return parts

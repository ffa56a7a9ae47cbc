"""simt - `__shared__` declarations and some barriers as C++: of csrc/cuda, and of `compile`.

    __shared__ T tile[32][33];        becomes   auto &tile = *static_cast<T (*)[32][33]>(
                                                    gop_sim_shared(site, sizeof(T[32][33])));
    extern __shared__ unsigned h[];   becomes   unsigned *h = (unsigned *)gop_sim_dynamic();
    if (a) __syncthreads(); else __syncthreads();
              becomes   if (a) __syncthreads(); else __syncthreads(__LINE__ + 65536);

All else that CUDA adds to C++ is in csrc/sim/include. Lines keep their numbers. setup.py loads
this file by its path: it imports nothing of gpuops.
"""

from __future__ import annotations

import re
import zlib

# A number comes whole: the quotes in 1'000 begin nothing.
_COMMENT_OR_STRING = re.compile(
    r"\b\d(?:'?[\w.])*|//[^\n]*|/\*.*?\*/|\"(?:\\.|[^\"\\\n])*\"|'(?:\\.|[^'\\\n])*'", re.DOTALL
)
_DECLARATION = re.compile(r"\b(?:extern\s+)?__shared__\b[^;]*;")
_BARRIER = re.compile(r"\b__syncthreads\s*\(\s*(?=\))")
_INNER = r"\((?:[^()]|\((?:[^()]|\([^()]*\))*\))*\)"  # brackets in brackets, three deep
_ALIGN = re.compile(
    rf"\b(?:__align__|alignas)\s*{_INNER}|\b__attribute__\s*\((?:[^()]|{_INNER})*\)"
)
_WORDS = re.compile(r"\b(?:__shared__|__device__|extern|static|inline)\b")
_BRACKETS = re.compile(r"<[^<>]*>|\([^()]*\)")
_DECLARATOR = re.compile(r"^(.*?)(\b[^\W\d]\w*)\s*((?:\[[^\]]*\]\s*)*)$", re.DOTALL)


class SharedSyntaxError(ValueError):
    """A `__shared__` declaration that is not understood; the text names its line."""


def without_comments(source: str, strings: bool = True) -> str:
    """The source with blanks for its comments and strings: every character stays in place."""
    kept = re.compile(r"\d" if strings else r"[^/]")
    return _COMMENT_OR_STRING.sub(
        lambda m: m[0] if kept.match(m[0]) else re.sub(r"[^\n]", " ", m[0]), source
    )


def rewrite(source: str, name: str) -> str:
    """The source with its shared declarations replaced; `name` is the file's, for #line."""
    source = _told_apart(source)
    hidden = without_comments(source)
    pieces, end, site = [f'#line 1 "{name}"\n'], 0, zlib.crc32(name.encode()) & 0xFFFFF000
    for found in _DECLARATION.finditer(hidden):
        pieces.append(source[end : found.start()])
        try:
            made = shared(found[0][:-1], site)
        except SharedSyntaxError as error:
            line = hidden.count("\n", 0, found.start()) + 1
            raise SharedSyntaxError(f"line {line}: {error}") from None
        site += len(made)
        pieces.append(" ".join(words for _, words in made) + "\n" * found[0].count("\n"))
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


def shared(declaration: str, site: int) -> list[tuple[str, str]]:
    """Of a declaration without its semicolon, each name and what declares it in a function;
    `site` is the number of the first variable, others have the next ones."""
    plain = _WORDS.sub(" ", _ALIGN.sub(" ", declaration))
    first, *others = at_commas(plain)
    kind, name, sizes = _split(first, plain)
    base = kind.rstrip("* \n")
    names = [(kind, name, sizes)]
    for more in others:
        _, stars, rest = re.match(r"(\s*)((?:\*\s*)*)(.*)", more, re.DOTALL).groups()
        names.append((base + stars, *_split("x " + rest, plain)[1:]))
    if re.search(r"\bextern\b", declaration):
        return [(who, _dynamic(what, who, size)) for what, who, size in names]
    return [
        (
            who,
            f"auto &{who} = *static_cast<{what} {'(*)' if size else '*'}{size}>"
            f"(gop_sim_shared({site + k}u, sizeof({what}{size})));",
        )
        for k, (what, who, size) in enumerate(names)
    ]


def _split(text: str, declaration: str) -> tuple[str, str, str]:
    """Type, name and sizes."""
    found = _DECLARATOR.match(text.strip())
    # A type with sizes or a value in it: without its semicolon the next statement is read too.
    if not found or not found[1].strip() or re.search(r"[]=]", _BRACKETS.sub("", found[1])):
        first, *more = declaration.strip().splitlines() or [""]
        raise SharedSyntaxError(
            f"expected `__shared__ type name[size];`, "
            f"got `__shared__ {' '.join(first.split())}{'' if more else ';'}`"
        )
    return found[1].strip(), found[2], found[3].strip()


def _dynamic(kind: str, name: str, sizes: str) -> str:
    """What has no size is a pointer to its elements, which may be arrays."""
    rows = re.sub(r"^\[[^\]]*\]\s*", "", sizes)
    if not sizes:
        return f"{kind} &{name} = *static_cast<{kind} *>(gop_sim_dynamic());"
    if not rows:
        return f"{kind} *{name} = static_cast<{kind} *>(gop_sim_dynamic());"
    return f"{kind} (*{name}){rows} = static_cast<{kind} (*){rows}>(gop_sim_dynamic());"


def at_commas(text: str) -> list[str]:
    """Parts between the commas that stand in no brackets."""
    parts, depth = [""], 0
    for c in text:
        depth += (c in "<([{") - (c in ">)]}")
        if c == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += c
    return parts

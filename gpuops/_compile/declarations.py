"""declarations - what a preprocessed C++ source declares outside of functions, and where.

No parser: brackets are counted, and what stands before a `{` or a `;` tells what it is. All
that is asked of a declaration is whether it is a function or a variable, its name, its words,
and where its body or its value stands.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

# A number comes whole: the quotes in 1'000 begin nothing.
_STRING = re.compile(
    r"\b\d(?:'?[\w.])*|"
    r'R"([^()\\\s]{0,16})\(.*?\)\1"|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'',
    re.DOTALL,
)
_MARK = re.compile(r"[(){}\[\];:]|=+")
_ANGLED = re.compile(r"[<>()]")
# What has brackets of its own and says nothing of what is declared.
_AROUND = re.compile(
    r"\b(?:__attribute__|__attribute|__launch_bounds__|alignas|__align__|decltype|noexcept|"
    r"__declspec|__maxnreg__|__cluster_dims__|__block_size__|__asm__|asm)\s*\("
)
_STANDARD_ATTRIBUTE = re.compile(r"\[\[.*?\]\]", re.DOTALL)
_CLASS = re.compile(r"\b(?:class|struct|union)\b")
# Whose bases or arguments may have brackets: no function.
_DERIVED = re.compile(
    r"\s*(?:typedef\s+)?(?:class|struct|union)\b[^(]*[:<].*[\w>]\s*$", re.DOTALL
)
_SCOPE = re.compile(r"^\s*(?:(?:inline\s+)?namespace\b[^(=]*|extern\s*\"\s*\"\s*)$")
_NO_VARIABLE = re.compile(
    r"^\s*(?:typedef|using|namespace|static_assert|_Static_assert|friend|asm|__asm__|__extension__|"
    r"(?:class|struct|union|enum)\s+\w+\s*$)|^\s*(?:extern\s*\"\s*\"\s*)?$"
)


class Unbalanced(ValueError):
    """A bracket without its partner: the compiler has words for that."""


@dataclass(frozen=True)
class Declaration:
    begin: int  # in the source, of its first word
    words: int  # where its words begin: behind `template <...>` and `extern "C"`
    head: str  # all from there to its body, its value or its end, without attributes
    raw: str  # the same with them
    end: int
    body: tuple[int, int] | None  # of a function that is defined: where its braces stand
    is_function: bool
    is_template: bool
    scope: str  # "", "namespace" or "class"
    valued: bool  # a variable with an initialiser

    @property
    def name(self) -> str:
        cut = self.head.partition("(")[0] if self.is_function else self.head
        if not self.is_function:
            cut = re.split(r"[=\[({,:]", cut.replace("::", "  "), maxsplit=1)[0]
        if found := re.search(r"\boperator\b.*", cut, re.DOTALL):
            return found[0]
        found = re.findall(r"~?[^\W\d]\w*", cut)
        return found[-1] if found else ""

    def has(self, word: str) -> bool:
        return re.search(rf"\b{word}\b", self.raw) is not None

    @property
    def parameters(self) -> str:
        return self.head.partition("(")[2].rpartition(")")[0].strip()


def without_strings(source: str) -> str:
    """The source with blanks in its strings, whose quotes stay: every character in place."""
    return _STRING.sub(
        lambda m: (
            m[0]
            if m[0][0].isdigit()
            else m[0][0] + re.sub(r"[^\n]", " ", m[0][1:-1]) + m[0][-1]
        ),
        source,
    )


def closing(code: str, at: int) -> int:
    """The place of the bracket that closes the one at `at`."""
    depth = 0
    for found in re.compile(r"[(){}\[\]]").finditer(code, at):
        depth += 1 if found[0] in "({[" else -1
        if depth == 0:
            return found.start()
    raise Unbalanced


def plain_head(head: str) -> str:
    """Blanks for attributes and their like, everything else in place."""
    head = _STANDARD_ATTRIBUTE.sub(lambda m: " " * len(m[0]), head)
    while found := _AROUND.search(head):
        end = closing(head, found.end() - 1) + 1
        head = head[: found.start()] + " " * (end - found.start()) + head[end:]
    return head


def declarations(code: str) -> list[Declaration]:
    """Of code without comments and what stands in strings."""
    found: list[Declaration] = []
    if _read(code, 0, "", found) != len(code):
        raise Unbalanced
    return found


def _behind_template(code: str, at: int) -> int:
    """Behind `template <...>`, which may stand more than once; where there is none, `at`."""
    while found := re.compile(r"\s*template\s*(?=<)").match(code, at):
        depth = round_ = 0
        for mark in _ANGLED.finditer(code, found.end()):
            round_ += {"(": 1, ")": -1}.get(mark[0], 0)
            depth += {"<": 1, ">": -1}.get(mark[0], 0) if round_ == 0 else 0
            if depth == 0 and round_ == 0:
                at = mark.end()
                break
        else:
            raise Unbalanced
    return at


def _words(code: str, begin: int) -> int:
    at = _behind_template(code, begin)
    found = re.compile(r'\s*extern\s*"\s*"(?=\s*[^{\s])').match(code, at)
    at = found.end() if found else at
    return re.compile(r"\s*").match(code, at).end()


def _read(
    code: str, at: int, scope: str, found: list[Declaration], inside: bool = False
) -> int:
    """Appends what is declared up to the `}` that ends the scope; the place behind it."""
    begin, at = at, _words(code, at)
    words = at
    is_class = valued = listed = False

    def add(end: int, cut: int, body: tuple[int, int] | None) -> None:
        raw = code[words:cut]
        head = plain_head(raw)
        is_function = body is not None or ("(" in head.partition("=")[0] and not is_class)
        if not is_class and not _NO_VARIABLE.match(head):
            first = re.compile(r"\s*").match(code, begin).end()
            found.append(
                Declaration(
                    first, words, head, raw, end, body, is_function,
                    _behind_template(code, begin) > begin, scope, valued,
                )
            )  # fmt: skip

    cut = -1  # where the value begins
    while mark := _MARK.search(code, at):
        at, c = mark.end(), mark[0]
        if c in ("(", "["):
            at = closing(code, mark.start()) + 1
        elif c in (")", "]"):
            raise Unbalanced
        elif c == "=":
            if not re.search(r"\boperator\s*[-+*/%&|^<>!]*$", code[: at - 1][-24:]):
                valued, cut = True, (mark.start() if cut < 0 else cut)
        elif c == ":":
            if code[at : at + 1] == ":":
                at += 1
            elif re.fullmatch(
                r"\s*(?:public|private|protected)\s*", code[begin : mark.start()]
            ):
                begin, at = at, _words(code, at)
                words = at
            else:
                listed |= "(" in plain_head(code[words : mark.start()])
        elif c == "}":
            if not inside:
                raise Unbalanced
            return at
        elif c == "{":
            head = plain_head(code[words : mark.start()])
            if _SCOPE.match(head):
                is_named = "namespace" in head
                at = _read(code, at, "namespace" if is_named else scope, found, inside=True)
            elif valued or (listed and re.search(r"[\w>]\s*$", head)):
                at = closing(code, mark.start()) + 1
                continue
            elif re.match(r"\s*(?:typedef\s+)?enum\b", head):
                at, is_class = closing(code, mark.start()) + 1, True
                continue
            elif "(" in head and not _DERIVED.match(head):
                body = mark.start(), closing(code, mark.start())
                at = body[1] + 1
                add(at, mark.start(), body)
            elif _CLASS.search(head):
                at, is_class = _read(code, at, "class", found, inside=True), True
                continue
            else:  # a value in braces
                valued, cut = True, (mark.start() if cut < 0 else cut)
                at = closing(code, mark.start()) + 1
                continue
        elif c == ";":
            add(at, mark.start(), None)
        if c in "{;":
            begin, at, cut = at, _words(code, at), -1
            words = at
            is_class = valued = listed = False
    if inside:
        raise Unbalanced
    return len(code)

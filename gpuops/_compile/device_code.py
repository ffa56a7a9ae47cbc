"""device_code - a preprocessed CUDA source as C++ for the CPU; what nvcc refuses is an error.

The preprocessor has run, with CUDA's own words left in place: so it is all the same whether a
kernel, or a shared array, was written out or made by a macro. Of the text between the markers
`# 12 "kernel.cu"` only the user's own is looked at. Every character that goes, goes without its
line: places in the result are those of the source.
"""

from __future__ import annotations

import bisect
import functools
import re
from dataclasses import dataclass, field
from pathlib import Path

from . import simt as _simt
from .declarations import Declaration, Unbalanced, closing, declarations, without_strings

_MARKER = re.compile(r'^# (\d+) "((?:[^"\\\n]|\\.)*)"([ \d]*)$', re.M)
_DIRECTIVE = re.compile(r"^[ \t]*#.*$", re.M)
_ATTRIBUTE = re.compile(r"\b__attribute(?:__)?\s*\(|\[(?=\[)")
_DEFINES = re.compile(
    r"\b(__shared__|__constant__|__device__|__managed__)\s+(?:(?:const|static|volatile)\s+)*"
    r"(?:struct|class|union|enum)\b[^;{}()=]*\{"
)
_WORDS = re.compile(r"\b(?:__device__|__host__|__global__|__managed__)(?!\w)")
_BOUNDS = re.compile(r"\b__launch_bounds__\s*\(")
_SHARED = re.compile(r"\b__shared__\b")
_BARRIER = re.compile(r"\b__syncthreads\s*\(\s*(?=\))")
_STD = re.compile(r"(?<![\w:])(?:::\s*)?std\s*::\s*(\w+)")
_LOOP = re.compile(r"\b(?:(for|while)\s*(?=\()|(do|goto)\b(?!\s*\())")
_NO_BODY = re.compile(r"\)\s*;")
_DECLARES = re.compile(r"\(\s*[\w:]+(?:[\s*&]+\w+)+\s*(?:=(?!=)|\{)")
_ASM = re.compile(r"\b(?:asm|__asm__|__asm)\b\s*(?:(?:volatile|__volatile__|goto)\s*)*\(")
_VECTOR = r"(?:u?(?:char|short|int|long|longlong)|float|double)[234]"
# OpenCL's and GLSL's way to make a vector, which constructors of sim's own types would take.
_MADE = re.compile(rf"(?<![\w:.>])(?:\(\s*({_VECTOR})\s*\)|({_VECTOR}))\s*\((?!\s*\*)")
_ARGUMENT = re.compile(r"\b__syncthreads\s*\(\s*(?=[^)\s])")
_THREAD_LOCAL = re.compile(r"\b(?:thread_local|__thread)\b")
_AT_LOAD = re.compile(r"\b(?:__)?(constructor|destructor|init_priority|ifunc|section)(?:__)?\b")
# What nvcc has of std:: in a kernel, and what only the compiler sees.
_ALLOWED = re.compile(
    r"a?(?:sin|cos|tan)h?|atan2|exp2?|expm1|log(?:10|1p|2|b)?|pow|sqrt|cbrt|hypot|f?abs|ceil|floor|"
    r"trunc|l?l?r(?:ou)?int|l?l?round|nearbyint|rint|fmod|remainder|remquo|fmin|fmax|fdim|fma|"
    r"erfc?|[tl]gamma|frexp|ldexp|modf|scalbl?n|ilogb|nextafter|nexttoward|copysign|nan|signbit|"
    r"is(?:nan|inf|finite|normal|unordered|less\w*|greater\w*)|fpclassify|move|forward|declval|"
    r"numeric_limits|(?:is|has|enable|add|remove|make|decay|conditional|common|integral|void|"
    r"true|false|underlying|result|invoke|negation|conjunction|disjunction|alignment|extent|"
    r"rank|bool)_?\w*|conditional|decay|negation|conjunction|disjunction|extent|rank|"
    r"(?:index|integer)_sequence\w*|u?int\w*_t|size_t|ptrdiff_t|nullptr_t|byte|printf|mem(?:cpy|set|move)|abort|_?_?[eE]xit|quick_exit|clock"
)
_PLACES_OF = {
    "gop_sim_thread": "threadIdx",
    "gop_sim_block": "blockIdx",
    "gop_sim_block_size": "blockDim",
    "gop_sim_grid_size": "gridDim",
    "GOP_SIM_WARP": "warpSize",
}
_PLACES = re.compile(rf"\b(?:{'|'.join(_PLACES_OF)})\b")
# The compilers' warning for these names a line and survives overloads, templates and members.
_MARK = '__attribute__((deprecated("gop {} {}"))) '


class Refused(ValueError):
    """Of what is no CUDA, or is none that sim can run: a file, its line, and what to say."""

    def __init__(self, file: str, line: int, words: str) -> None:
        super().__init__(words)
        self.file, self.line, self.words = file, line, words


@dataclass(frozen=True)
class Kernel:
    name: str
    most: str  # threads that __launch_bounds__ allows, as the source says it; "" for all


@dataclass
class _Text:
    code: str
    hidden: str  # blanks for strings, directives and what others wrote
    at: list[int]  # where the lines after each marker begin
    markers: list[tuple[int, str]]
    edits: list[tuple[int, int, str]] = field(default_factory=list)
    sites: int = 1  # the number of the next shared variable

    def where(self, place: int) -> tuple[str, int]:
        """File and line."""
        k = bisect.bisect_right(self.at, place) - 1
        number, name = self.markers[k]
        return name, number + self.code.count("\n", self.at[k], place)

    def refused(self, place: int, words: str) -> Refused:
        return Refused(*self.where(place), words)

    def shared(self, begin: int, end: int) -> list[tuple[str, str]]:
        """Of a declaration with `__shared__`, each name with what takes its place."""
        try:
            made = _simt.shared(self.hidden[begin:end], self.sites)
        except _simt.SharedSyntaxError as error:
            raise self.refused(begin, str(error)) from None
        self.sites += len(made)
        return made

    def replace(self, begin: int, end: int, words: str = "") -> None:
        """The lines that the place takes stay."""
        self.edits.append((begin, end, words + "\n" * self.code.count("\n", begin, end)))

    def edited(self) -> str:
        pieces, end = [], 0
        for begin, behind, words in sorted(self.edits, key=_in_order):
            if begin < end:  # inside of what has gone
                continue
            pieces += [self.code[end:begin], words]
            end = behind
        return "".join(pieces) + self.code[end:]


def _in_order(edit: tuple[int, int, str]) -> tuple[int, int]:
    """At one place what is put there first, then the longest piece that goes."""
    begin, end, _ = edit
    return begin, -end if end > begin else -(1 << 62)


def _blank(text: str) -> str:
    return re.sub(r"[^\n]+", lambda m: " " * len(m[0]), text)


def _split(preprocessed: str, headers: Path) -> tuple[str, _Text]:
    """What stands before the source, and the source with what it includes."""
    begin = preprocessed.index('\n# 1 "kernel.cu"') + 1
    code = preprocessed[begin:]
    found = list(_MARKER.finditer(code))
    pieces, at, markers, end = [], [], [], 0
    for k, marker in enumerate(found):
        end = found[k + 1].start() if k + 1 < len(found) else len(code)
        text, path = code[marker.end() : end], marker[2]
        own = "3" not in marker[3].split() and not path.startswith(f"{headers}/")
        pieces += [" " * len(marker[0]), text if own else _blank(text)]
        at.append(marker.end() + 1)
        markers.append((int(marker[1]), path))
        if not own and (root := _toolkit(path)):
            number, file = markers[k - 1]
            raise Refused(
                file,
                number + code.count("\n", at[k - 1], marker.start()),
                f"{Path(path).relative_to(root)} is a header of the CUDA toolkit, which sim "
                "has not; docs/sim.md lists what it has of CUDA",
            )
    hidden = without_strings("".join(pieces))
    hidden = _DIRECTIVE.sub(lambda m: " " * len(m[0]), hidden)
    return preprocessed[:begin], _Text(code, hidden, at, markers)


@functools.lru_cache(maxsize=4096)
def _toolkit(path: str) -> Path | None:
    """The folder of a CUDA toolkit's headers that the file belongs to."""
    parents = Path(path).parents
    return next((p for p in parents if (p / "crt" / "host_defines.h").exists()), None)


def translate(
    preprocessed: str, headers: Path, constinit: str, is_opencl: bool
) -> tuple[str, list[Kernel], bool]:
    """C++, the kernels in it, and whether its brackets are balanced: else nobody knows.

    `constinit` is the compiler's word before a variable whose value it must know.
    """
    before, text = _split(preprocessed, headers)
    # The one thing that <iostream> would run when the library is opened.
    before = before.replace("static ios_base::Init __ioinit;", "")
    text.code = text.code.replace(
        "static ios_base::Init __ioinit;", " " * len("static ios_base::Init __ioinit;")
    )
    if at := _DEFINES.search(text.hidden):
        raise text.refused(
            at.start(),
            f"a type is defined behind `{at[1]}`: define it before, `struct S {{...}};`, and "
            f"declare `{at[1]} S name;`",
        )
    kernels: list[Kernel] = []
    try:
        declared, is_balanced = declarations(text.hidden), True
    except Unbalanced:  # the compiler will say so
        declared, is_balanced = [], False
    shared = _file_scope(text, declared, constinit)
    of_device = {d.name for d in declared if d.has("__device__") or d.has("__global__")}
    members = {d.name for d in declared if d.scope == "class" and not d.is_function}
    for d in (d for d in declared if d.is_function):
        if d.has("__global__"):
            kernel = _kernel(text, d)
            kernels += [kernel] if d.body else []
        elif d.name not in of_device and not d.has("constexpr") and not d.valued:
            _host_function(text, d)
            continue
        if d.body:
            _device_body(text, d, constinit)
            _see_shared(text, d, shared, members if d.scope == "class" else set())
            if not d.has("constexpr"):
                _keep_loops(text, d)
    if is_balanced:
        _refuse_assembly(text)
        if not is_opencl:
            _refuse_words(text)
    for found in _WORDS.finditer(text.hidden):
        text.replace(*found.span())
    for found in _BOUNDS.finditer(text.hidden) if is_balanced else ():
        text.replace(found.start(), closing(text.hidden, found.end() - 1) + 1)
    _rewrite_shared(text)
    _number_barriers(text)
    return before + text.edited(), kernels, is_balanced


# ---- functions ----


def _kernel(text: _Text, d: Declaration) -> Kernel:
    why = ""
    if d.is_template:
        why = (
            "is a template; make it a __device__ function, and call that from a kernel for "
            "each type"
        )
    elif d.scope:
        why = "cannot be launched by that name: it stands in a namespace or a class"
    elif not re.search(r"\bvoid\b", d.head.partition("(")[0]):
        why = "returns a value, expected `__global__ void`"
    elif own := _PLACES.search(d.head):
        raise text.refused(
            d.begin,
            f"{_PLACES_OF[own[0]]} is a variable of CUDA's own: name the kernel otherwise",
        )
    if why:
        raise text.refused(d.begin, f"the kernel {d.name} {why}")
    text.replace(d.words, d.words, _MARK.format("kernel", d.name))
    found = _BOUNDS.search(d.raw)
    inside = d.raw[found.end() : closing(d.raw, found.end() - 1)] if found else ""
    return Kernel(d.name, _simt.at_commas(inside)[0].strip())


def _host_function(text: _Text, d: Declaration) -> None:
    """Marks it for whoever calls it; nobody runs it, so its body may be anything."""
    if d.name != "main" and not d.name.startswith("~"):
        text.replace(d.words, d.words, _MARK.format("function", d.name))
    if d.body:
        text.replace(d.body[0], d.body[1] + 1, "{ __builtin_unreachable(); }")


def _device_body(text: _Text, d: Declaration, constinit: str) -> None:
    for found in _STD.finditer(text.hidden, d.words, d.end):
        if not _ALLOWED.fullmatch(found[1]):
            raise text.refused(
                found.start(),
                f"std::{found[1]} is of the host's library: a kernel has none of it but the "
                "functions of <cmath> and the types of <type_traits>",
            )
    # A variable, and no function of a structure.
    static = re.compile(r"\bstatic\b(?![^;{}]*\b(?:__shared__|constexpr)\b)(?![^;{}=]*\()")
    for found in static.finditer(text.hidden, *d.body):
        text.replace(found.start(), found.start(), constinit + " ")


def _keep_loops(text: _Text, d: Declaration) -> None:
    """Leaves something in each loop: gcc calls nobody in one that it has emptied, and if that
    has no end, its lane would not hear of Ctrl-C, nor tell where it is."""
    something = " if (gop_sim_turn(); false) { } else "
    for found in _LOOP.finditer(text.hidden, *d.body):
        if found[2]:  # before a jump, or a body
            at = found.start() if found[2] == "goto" else found.end()
            text.replace(at, at, something)
            continue
        end = closing(text.hidden, found.end())
        # Without a body it may be the end of do ... while, which declares nothing.
        is_end = found[1] == "while" and _NO_BODY.match(text.hidden, end)
        if is_end and not _DECLARES.match(text.hidden, found.end()):
            text.replace(found.end() + 1, found.end() + 1, "(gop_sim_turn(), false) || (")
            text.replace(end, end, ")")
        else:
            text.replace(end + 1, end + 1, something)


def _see_shared(text: _Text, d: Declaration, shared, members: set[str]) -> None:
    """Lets a function see the shared variables of the file that it names."""
    begin, end = d.body
    made = [
        words
        for name, place, words in shared
        if place < begin
        and name not in members
        and not re.search(rf"\b{name}\b", d.parameters)
        and re.search(rf"(?<![.\w])(?<!->){name}\b", text.hidden[begin:end])
    ]
    if made:  # in a block of its own: the function may have others of that name
        text.replace(begin + 1, begin + 1, " " + " ".join(made) + " {")
        text.replace(end, end, "}")


# ---- variables ----


def _file_scope(text: _Text, declared, constinit: str) -> list[tuple[str, int, str]]:
    """Marks and checks variables; of shared ones (name, place, what declares it in a block)."""
    shared = []
    for d in (d for d in declared if not d.is_function):
        if d.has("__shared__"):
            for name, words in text.shared(d.begin, d.end - 1):
                shared.append((name, d.begin, words))
            text.replace(d.begin, d.end, ";")
            continue
        if d.scope == "class" and not d.has("static"):
            continue
        of_device = any(map(d.has, ("__device__", "__constant__", "__managed__")))
        if d.has("__constant__"):
            _constant(text, d)
        elif not of_device and not d.has("constexpr") and not _is_readable(d):
            text.replace(d.words, d.words, _MARK.format("variable", d.name))
        if not d.has("constexpr") and not d.has("extern") and d.scope != "class":
            text.replace(d.words, d.words, constinit + " ")
    return shared


def _is_readable(d: Declaration) -> bool:
    """Whether nvcc lets a kernel read a variable of the host: a constant number."""
    declared = d.head.partition("=")
    is_number = d.has("const") and not re.search(r"[*&\[]", declared[0])
    return is_number or declared[2].lstrip().startswith("[")  # a lambda


def _constant(text: _Text, d: Declaration) -> None:
    if not d.valued and not d.has("extern"):
        raise text.refused(
            d.begin,
            f"{d.name} is `__constant__` and has no value, and nothing could set it: write "
            "`= ...` behind it, or pass an array",
        )
    place = text.hidden.index("__constant__", d.begin)
    words = "" if d.has("static") or d.has("extern") else "static "
    declared = re.sub(r"\[[^\]]*\]|<[^<>]*>", "", re.split("[={]", d.head)[0])
    if not d.has("const") and "*" not in declared:  # of pointers, not of a size
        words += "const "  # a store to it is an error
    text.replace(place, place + len("__constant__"), words)


def _rewrite_shared(text: _Text) -> None:
    """In functions."""
    for found in _SHARED.finditer(text.hidden):
        before = re.compile(r"(?:.*(?:[;{}]|(?<!:):(?!:)))?\s*", re.DOTALL)
        begin = before.match(text.hidden, 0, found.start()).end()
        end = text.hidden.find(";", begin)
        if end < 0:
            continue  # the compiler will say so
        text.replace(begin, end + 1, " ".join(words for _, words in text.shared(begin, end)))


# ---- what is left ----


def _number_barriers(text: _Text) -> None:
    """Barriers are known by their lines: further ones of a line get numbers of their own."""
    count: dict[tuple[str, int], int] = {}
    for found in _BARRIER.finditer(text.hidden):
        where = text.where(found.start())
        if k := count.get(where, 0):
            text.replace(found.end(), found.end(), f"__builtin_LINE() + {k << 16}")
        count[where] = k + 1


def _refuse_words(text: _Text) -> None:
    """What nvcc refuses, and the C++ that sim makes of CUDA would take."""
    for found in _MADE.finditer(text.hidden):
        name = found[1] or found[2]
        parts = text.hidden[found.end() : closing(text.hidden, found.end() - 1)]
        if len(_simt.at_commas(parts)) > 1:
            raise text.refused(
                found.start(), f"{name} is no function: write make_{name}(...) to make one"
            )
    if found := _ARGUMENT.search(text.hidden):
        raise text.refused(found.start(), "__syncthreads takes no argument")
    if found := _THREAD_LOCAL.search(text.hidden):
        raise text.refused(
            found.start(),
            "a kernel has no thread_local variables: those of a function are each thread's own",
        )


def _refuse_assembly(text: _Text) -> None:
    """And whatever else could run where no kernel does."""
    for found in _ASM.finditer(text.hidden):
        inside = text.code[found.end() : closing(text.hidden, found.end() - 1)]
        if re.match(r'\s*"\s*"', inside) is None:  # an empty one is only for the compiler
            raise text.refused(
                found.start(), "sim runs C++ on the CPU, and inline assembly is a GPU's"
            )
    for found in _ATTRIBUTE.finditer(text.hidden):
        inside = text.hidden[found.end() : closing(text.hidden, found.end() - 1)]
        if word := _AT_LOAD.search(inside):
            raise text.refused(
                found.start(),
                f"the attribute {word[1]} is none of CUDA's: nothing runs when kernels are "
                "loaded",
            )

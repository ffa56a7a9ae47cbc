"""opencl_c - OpenCL C in CUDA's words, so that sim plays it; csrc/sim/include/opencl.

    __kernel void k(__global const float *a, __local float *t)
        becomes   __global__ void k(const float *a, gop_cl_local<float> gop_cl_t)
                  { float *t = gop_cl_t; ...
    __local float tile[32][33];      becomes   __shared__ float tile[32][33];
    (float4)(x, 0, 0, 1)             becomes   cl_float4(x, 0, 0, 1)
    v.xy = w.lo;                     becomes   v.gop_cl_set<0,1>(w.gop_cl_half<0>());
    v.xy *= 2;                       becomes   v.gop_cl_change_part<0,1>() *= 2;

The preprocessor has run, but for barriers, whose lines sim looks at before. Lines keep their
numbers.
"""

from __future__ import annotations

import re

from ..errors import CompileError
from .declarations import Declaration, Unbalanced, closing, declarations, without_strings
from .device_code import Refused
from .simt import without_comments

SCALARS = {
    "bool": "?", "char": "b", "signed char": "b", "uchar": "B", "unsigned char": "B",
    "short": "h", "ushort": "H", "unsigned short": "H", "int": "i", "signed int": "i",
    "uint": "I", "unsigned": "I", "unsigned int": "I", "long": "l", "ulong": "L",
    "unsigned long": "L", "float": "f", "double": "d", "half": "e",
}  # fmt: skip
_NUMBERS = "u?(?:char|short|int|long)|float|double"
_VECTOR = re.compile(rf"({_NUMBERS})(2|3|4|8|16)")
# What CUDA says and OpenCL C does not, and what it says in its place; the same of C++.
_OF_CUDA = {
    "__global__": "`__kernel`",
    "__device__": "nothing: every function is the device's",
    "__shared__": "`__local`",
    "__syncthreads": "`barrier(CLK_LOCAL_MEM_FENCE)`",
    "threadIdx": "`get_local_id(0)`",
    "blockIdx": "`get_group_id(0)`",
    "blockDim": "`get_local_size(0)`",
    "gridDim": "`get_num_groups(0)`",
    "atomicAdd": "`atomic_add`",
    "__shfl_down_sync": "local memory: it has no shuffles",
}
_OF_CPP = {
    "nullptr": "`NULL`",
    "auto": "no word for it: write the type",
    **dict.fromkeys(("static_cast", "reinterpret_cast", "const_cast"), "`(type)(value)`"),
}
_OTHERS = re.compile(rf"\b(?:{'|'.join([*_OF_CUDA, *_OF_CPP])})\b")
# C++ would take these for the constructors of sim's own types.
_MADE = re.compile(rf"(?<![\w.])(?:{_NUMBERS})(?:2|3|4|8|16)(?=\s*\()")
_INCLUDE = re.compile(r"^[ \t]*#[ \t]*include[ \t]*<", re.M)
_BEFORE = re.compile(
    r"(?P<barrier>\b(?:barrier|work_group_barrier)\s*\([^()]*\))"
    r"|\b(?:__)?kernel\b(?=\s+(?:void|__attribute__)\b)"
)
# Names that C leaves to programs and C++ does not.
_KEYWORDS = (
    "class|new|delete|this|template|typename|operator|public|protected|virtual|friend|namespace|"
    "using|try|catch|throw|explicit|export|mutable|typeid|constexpr|and|or|not|xor"
)
_PARTS = r"[xyzw]{2,4}|[sS][\da-fA-F]{1,16}|lo|hi|even|odd"
_PART = re.compile(_PARTS)
_TOKENS = re.compile(
    rf"""
    (?P<literal>\(\s*(?P<made>(?:{_NUMBERS})(?:2|3|4|8|16))\s*\)\s*(?=\())
  | (?P<convert>\bconvert_(?P<to>(?:{_NUMBERS})(?:2|3|4|8|16)?)(?P<sat>_sat)?
        (?:_(?P<mode>rt[ezpn]))?\s*\()
  | (?P<as>\bas_(?P<kind>(?:{_NUMBERS})(?:2|3|4|8|16)?)\s*(?=\())
  | (?P<part>(?P<dot>(?<![\d.])\.|->)\s*(?P<which>{_PARTS})\b
        (?:(?P<stores>\s*=(?!=))|(?P<changes>(?=\s*(?:[-+*/%&|^]|<<|>>)=)))?)
  | (?P<vector>\b(?:{_NUMBERS})(?:2|3|4|8|16)\b)
  | (?P<word>\b(?:(?:__)?(?:kernel|global|private|read_only|write_only)|{_KEYWORDS})\b\s?)
  | (?P<constant>\b(?:__)?constant\b)
  | (?P<local>\b(?:__)?local\b)(?=(?P<declared>[^;(){{}}=]*))
    """,
    re.VERBOSE,
)
_REQUIRED = re.compile(
    r"__attribute__\s*\(\(\s*(?:reqd_work_group_size|work_group_size_hint|vec_type_hint|"
    r"opencl_unroll_hint)\s*(?:\([^()]*\)\s*)?\)\)"
)
_SIZES = re.compile(r"reqd_work_group_size\s*\(\s*(\d+)\s*,\s*(\d+)\s*,\s*(\d+)\s*\)")
_POINTER = re.compile(
    r"\b(?:__)?local\s+((?:const\s+|volatile\s+)*[\w\s]*?\w)\s*\*\s*(?:const\b\s*|restrict\b\s*|"
    r"__restrict\b\s*)*(\w+)\s*$"
)
# What a kernel cannot be passed: their sizes are not those of the host.
_NO_PARAMETER = re.compile(
    r"\s*(?:const\s+)?(?P<kind>bool|size_t|ptrdiff_t|u?intptr_t|half)\b[^*\[]*$"
)
_INSTEAD = {"bool": "int", "size_t": "ulong", "uintptr_t": "ulong", "half": "float"}
# Where a kernel's pointer may point to.
_SPACE = re.compile(r"\b(?:__)?(?:global|local|constant)\b")
_ENUM = re.compile(
    r"(?P<typedef>\btypedef\s+)?(?P<list>\benum\b\s*\w*\s*\{[^{}]*\})(?=\s*\w)"
    r"|\benum\s+\w+\b(?!\s*[{;])"
)
_BELOW_0 = re.compile(r"\benum\b[^;{}()]*\{[^{}]*=\s*-")
_PLACED = re.compile(r"\b(?:__shared__|static)\b")
_MARKER = re.compile(r'^# (\d+) "([^"]*)".*\n', re.M)


def vector(words: str) -> tuple[str, int]:
    """NumPy's letter for a type of numbers, "" for others, and how many of them it has."""
    found = _VECTOR.fullmatch(words)
    return SCALARS.get(found[1] if found else words, ""), int(found[2]) if found else 1


def no_kernel(text: str) -> CompileError:
    said = "compile: the source has no kernel, `__kernel void name(...) {`"
    if (plain := without_comments(text)).strip() and "kernel" in plain:
        line = plain[: plain.index("kernel")].count("\n")
        said += f"; line {line + 1} is none:\n    {text.splitlines()[line].strip()}"
    return CompileError(said)


def _refused(text: str, at: int, words: str) -> CompileError:
    line = text.count("\n", 0, at)
    return CompileError(
        f"compile: the source does not compile\nline {line + 1}: {words}\n"
        f"    {text.splitlines()[line].strip()}"
    )


def refuse_words(text: str) -> None:
    """Raises for what is CUDA's, or of C's library."""
    plain = without_comments(text)
    if found := _OTHERS.search(plain):
        whose, table = ("CUDA's", _OF_CUDA) if found[0] in _OF_CUDA else ("C++'s", _OF_CPP)
        words = f"{found[0]} is {whose}: OpenCL C has {table[found[0]]} (docs/opencl.md)"
        raise _refused(text, found.start(), words)
    if found := _MADE.search(plain):
        words = f"{found[0]} is no function: write ({found[0]})(...) to make one"
        raise _refused(text, found.start(), words)
    if found := _INCLUDE.search(plain):
        words = "OpenCL C has no headers of its own: its functions are there without them"
        raise _refused(text, found.start(), words)


def with_barriers(text: str) -> str:
    """Barriers and kernels by CUDA's words, before the preprocessor runs."""
    plain = without_comments(text)
    pieces, end = [], 0
    for found in _BEFORE.finditer(plain):
        made = "__syncthreads()" if found["barrier"] else "__global__"
        pieces += [text[end : found.start()], made + "\n" * found[0].count("\n")]
        end = found.end()
    return "".join(pieces) + text[end:]


def required_sizes(preprocessed: str) -> dict[str, tuple[int, int, int]]:
    """What reqd_work_group_size says of kernels."""
    sizes = _SIZES.pattern
    kernels = re.compile(rf"{sizes}[^;{{]*?\bvoid\s+(?:__attribute__[^;{{]*?\s)?(\w+)")
    behind = re.compile(rf"\bvoid\s+__attribute__[^;{{]*?{sizes}[^;{{(]*\)\s*\)\s*(\w+)")
    found = [*kernels.findall(preprocessed), *behind.findall(preprocessed)]
    return {name: (int(x), int(y), int(z)) for x, y, z, name in found}


# ---- words ----


def _parts(which: str) -> list[int]:
    if which[0] in "sS":
        return [int(c, 16) for c in which[1:]]
    return ["xyzw".index(c) for c in which]


def _halves(which: str) -> str:
    """Of a vector whose length only its type knows."""
    return {"lo": "0", "hi": "1", "even": "2", "odd": "3"}[which]


def _word(found: re.Match[str], depth: int) -> str:
    if found["literal"]:
        return f"cl_{found['made']}"
    if found["as"]:
        return f"gop_cl_as<{_type(found['kind'])}>"
    if found["convert"]:
        mode = found["mode"] or ("rte" if found["to"][0] in "fd" else "rtz")
        saturates = "true" if found["sat"] else "false"
        return f"gop_cl_convert<{_type(found['to'])}>::from(gop_cl_{mode}, {saturates}, "
    if found["vector"]:
        return f"cl_{found['vector']}"
    if found["constant"]:
        return "__constant__" if depth == 0 else "const"
    word = found["word"].strip()
    plain = word.removeprefix("__")
    if plain == "kernel":
        return "__global__ "
    return "" if plain in ("global", "private", "read_only", "write_only") else f"{plain}_ "


def _type(word: str) -> str:
    return f"cl_{word}" if _VECTOR.fullmatch(word) else word


def _members(text: str) -> set[str]:
    """The members of structures that have names of parts of vectors, as `lo` or `xy`."""
    found: set[str] = set()
    for begin in re.finditer(r"\b(?:struct|union)\b[^;{}()]*\{", text):
        try:
            body = text[begin.end() : closing(text, begin.end() - 1)]
        except Unbalanced:
            continue
        found.update(re.findall(r"\b(\w+)\s*(?:\[[^]]*\]\s*)*[,;]", body))
    return {name for name in found if _PART.fullmatch(name)}


def _is_member(found: re.Match[str], text: str) -> bool:
    """Whether what stands before the dot is declared nowhere as a vector."""
    before = text[max(0, found.start() - 200) : found.start()]
    before = re.sub(r"(?:\s*\[[^]]*\])+\s*$", "", before)
    name = re.search(r"(\w+)\s*$|\(\s*\*\s*(\w+)\s*\)\s*$", before)
    if not name:
        return False
    declared = rf"{_VECTOR.pattern}\b[^;(){{}}=]*?\b{name[1] or name[2]}\b"
    return not re.search(r"\b(?:" + declared + ")", text)


def _part(found: re.Match[str], ends: list[int], text: str) -> str:
    dot, which, stores = found["dot"], found["which"], found["stores"]
    if which in ("lo", "hi", "even", "odd"):
        name, numbers = "half", _halves(which)
    else:
        chosen = _parts(which)
        if len(chosen) == 1:
            return f"{dot}s{chosen[0]:x}{stores or ''}"
        name, numbers = "part", ",".join(map(str, chosen))
    if found["changes"] is not None:
        return f"{dot}gop_cl_change_{name}<{numbers}>()"
    if not stores:
        return f"{dot}gop_cl_{name}<{numbers}>()"
    ends.append(_end_of_value(text, found.end()))  # the bracket that opens here closes there
    ends.sort()
    return f"{dot}gop_cl_set{'_half' if name == 'half' else ''}<{numbers}>("


def _end_of_value(text: str, at: int) -> int:
    depth = 0
    for found in re.compile(r"[][(){};,]").finditer(text, at):
        depth += {"(": 1, "[": 1, "{": 1, ")": -1, "]": -1, "}": -1}.get(found[0], 0)
        if depth < 0 or (depth == 0 and found[0] in ";,"):
            return found.start()
    return len(text)


def _body(text: str) -> str:
    """The user's text in CUDA's words."""
    hidden = _hidden(text)
    members = _members(hidden)
    pieces: list[str] = []
    ends: list[int] = []
    end = depth = counted = 0
    for found in _TOKENS.finditer(hidden):
        between = hidden[counted : found.start()]
        depth += between.count("{") + between.count("(")
        depth -= between.count("}") + between.count(")")
        counted = found.start()
        while ends and ends[0] <= found.start():
            pieces += [text[end : ends[0]], ")"]
            end = ends.pop(0)
        pieces.append(text[end : found.start()])
        if found["local"]:
            # A pointer to local memory is a pointer; all else that is local is shared.
            plain = re.sub(r"\[[^]]*\]", "", found["declared"])
            is_pointer = "*" in plain or not _in_body(hidden, found)
            pieces.append("" if is_pointer else "__shared__")
            end = found.end()
            continue
        if found["part"] and found["which"] in members and _is_member(found, hidden):
            pieces.append(found[0])
            end = found.end()
            continue
        if found["part"]:
            pieces.append(_part(found, ends, hidden))
        else:
            pieces.append(_word(found, depth))
        end = found.end()
        pieces.append("\n" * found[0].count("\n"))
    for at in ends:
        pieces += [text[end:at], ")"]
        end = at
    return "".join(pieces) + text[end:]


def _in_body(hidden: str, found: re.Match[str]) -> bool:
    """Whether a word stands in a function's body, and not among its parameters."""
    opened = 0
    for c in reversed(hidden[: found.start()]):
        opened += {")": 1, "(": -1}.get(c, 0)
        if opened < 0:
            return False
        if c in ";{}" and opened == 0:
            return True
    return True


def to_cuda(preprocessed: str) -> str:
    """What the preprocessor gave, from the user's source on in CUDA's words."""
    begin = preprocessed.index('\n# 1 "kernel.cu"') + 1
    text = _REQUIRED.sub(lambda m: " " + "\n" * m[0].count("\n"), preprocessed[begin:])
    return preprocessed[:begin] + _of_device(_body(_with_ints(_local_parameters(text))))


def _with_ints(text: str) -> str:
    """In C an enumeration is an integer: `enum color c = 1; c++;`. With clang it is an unsigned
    one if no value is below 0."""
    hidden, pieces, end = _hidden(text), [], 0
    kind = "int" if _BELOW_0.search(hidden) else "unsigned"
    for found in _ENUM.finditer(hidden):
        pieces.append(text[end : found.start()])
        if found["list"]:  # what is declared behind it follows as a declaration of its own
            pieces += [text[slice(*found.span("list"))], f"; {found['typedef'] or ''}"]
        pieces.append(kind + "\n" * found[0].count("\n") * (not found["list"]))
        end = found.end()
    return "".join(pieces) + text[end:]


def _hidden(text: str) -> str:
    """Blanks for directives and for what stands in strings: every character stays in place."""
    return re.sub(r"^#.*$", lambda m: " " * len(m[0]), without_strings(text), flags=re.M)


def _local_parameters(text: str) -> str:
    """Kernels' pointers to local memory: the launch passes where it begins."""
    hidden = _hidden(text)
    edits: list[tuple[int, int, str]] = []
    for found in re.finditer(r"\b(?:(?:__)?kernel|__global__)\b[^;{(]*\(", hidden):
        try:
            end = closing(hidden, found.end() - 1)
        except Unbalanced:
            return text
        behind = re.compile(r"\s*\{").match(hidden, end + 1)
        declared = []
        at = found.end()
        for parameter in hidden[found.end() : end].split(","):
            if "*" in parameter and not _SPACE.search(parameter):
                plain = " ".join(parameter.split())
                words = f"the kernel's parameter `{plain}` does not say which memory it points "
                words += f"to: write `__global {plain}`"
                raise Refused(*_where(text, at + parameter.index("*")), words)
            if refused := _NO_PARAMETER.match(parameter):
                kind = refused["kind"]
                words = f"a kernel has no parameter of type {kind}: write "
                words += f"`{_INSTEAD.get(kind, 'long')}`"
                raise Refused(*_where(text, at + refused.start("kind")), words)
            if pointer := _POINTER.search(parameter):
                kind, name = " ".join(pointer[1].split()), pointer[2]
                made = f"gop_cl_local<{kind}> gop_cl_{name}" + "\n" * parameter.count("\n")
                edits.append((at, at + len(parameter), made))
                declared.append(f" {kind} *{name} = gop_cl_{name};")
            at += len(parameter) + 1
        if declared and behind:
            edits.append((behind.end(), behind.end(), "".join(declared)))
    for begin, end, words in reversed(edits):
        text = text[:begin] + words + text[end:]
    return text


def _where(preprocessed: str, at: int) -> tuple[str, int]:
    """File and line of a place, by the preprocessor's markers."""
    name, number, begin = "kernel.cu", 1, 0
    for marker in _MARKER.finditer(preprocessed, 0, at):
        name, number, begin = marker[2], int(marker[1]), marker.end()
    return name, number + preprocessed.count("\n", begin, at)


def _of_device(text: str) -> str:
    """Every function that is no kernel is the device's."""
    try:
        found = declarations(hidden := _hidden(text))
    except Unbalanced:  # the compiler will say so
        return text
    for d in found:
        _refuse_places(text, hidden, d)
    for d in sorted(found, key=lambda d: -d.words):
        if d.is_function and not d.has("__global__"):
            text = text[: d.words] + "__device__ " + text[d.words :]
    return text


def _refuse_places(text: str, hidden: str, d: Declaration) -> None:
    """Raises for variables where OpenCL C has none."""
    if not d.is_function and d.has("const") and not d.has("__constant__") and not d.scope:
        words = f"`{d.name}` is outside of functions, where all is `__constant`: write that"
        raise Refused(*_where(text, d.words), f"{words} in place of const")
    for found in _PLACED.finditer(hidden, *(d.body or (0, 0))):
        words = "a function of OpenCL C has no static variables"
        if found[0] == "__shared__":
            opened = hidden[d.body[0] : found.start()]
            if d.has("__global__") and opened.count("{") - opened.count("}") == 1:
                continue
            words = "a `__local` variable is declared in a kernel, outside of further braces; "
            words += "a function takes a `__local` pointer"
        raise Refused(*_where(text, found.start()), words)


# ---- what sim says ----

# Behind a name of the program's, as in `block[9], past the end of block, which has ...`.
_NO_NAME = r"(?!['`](?!s\b)|\[|, which has \d)"
_SAYINGS = [
    (re.compile(words), made)
    for words, made in (
        (r"'cl_(\w+)' \{aka '[^']*'\}", r"'\1'"),
        (rf"\bcl_((?:{_NUMBERS})\d+)\b", r"\1"),
        (r"\bgop_vec<(\w+)(?: int)?, (\d+)>", r"\1\2"),
        (r"\bkernel\.cu\b", "kernel.cl"),
        (r", or __syncwarp\(\) as they are of one warp,", ""),
        (r"`?__syncthreads\(\)`?", "barrier(CLK_LOCAL_MEM_FENCE)"),
        (r"__syncthreads", "barrier"),
        (r"__global__ void", "__kernel void"),
        (
            r"is a variable of the host, .*",
            "is in no memory that kernels have: a variable of a "
            "program is `constant`, and all else an argument",
        ),
        (r"a `__device__` function", "a function without `__kernel`"),
        (r"__device__ ", ""),
        (r"\bshared memory\b", "local memory"),
        (r"\bblock(s?)\b" + _NO_NAME, r"work-group\1"),
        (r"\bthread(s?)\b" + _NO_NAME, r"work-item\1"),
        (r"\bof CUDA(?:'s functions)?\b", "of OpenCL C"),
        (r"which CUDA leaves undefined", "which OpenCL leaves undefined"),
        (r"__shared__", "__local"),
        (r"\batomicAdd\b", "atomic_add"),
        (r"\batomicExch\b", "atomic_xchg"),
        (r"\batomicCAS\b", "atomic_cmpxchg"),
    )
]


def said(words: str) -> str:
    """A sentence of sim's, which speaks CUDA, about a kernel in OpenCL C."""
    return "\n".join(map(_said, words.split("\n")))


def _said(words: str) -> str:
    if words.startswith("    "):  # a line of the source
        return words.replace("    kernel.cu:", "    kernel.cl:", 1)
    for theirs, ours in _SAYINGS:
        words = theirs.sub(ours, words)
    return words

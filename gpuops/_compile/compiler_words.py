"""compiler_words - runs a compiler, and what it says as sentences by line of the source."""

from __future__ import annotations

import os
import re
import subprocess
from difflib import SequenceMatcher
from pathlib import Path

from .._show.source import folder
from ..errors import CompileError
from . import simt as _simt
from .kernel_source import Source
from .unset import unset

# gcc and clang say kernel.cu:3:5: error: ..., nvcc and NVRTC kernel.cu(3): error: ..., linkers
# kernel.cu:3: undefined reference to `f'.
_SAID = re.compile(
    r"(?P<file>[^\s:(][^:(]*)(?::(?P<line>\d+):(?:\d+:)?|\((?P<nvcc>\d+)\):) "
    r"(?:(?P<kind>(?:fatal |catastrophic )?[eE]rror|warning|sorry, unimplemented): "
    r"(?P<words>.*)"
    r"|undefined reference to [`'](?P<lost>.*)')$"
)
# In front of an error in a header, the line that it comes from.
_FROM = re.compile(
    r"(?:In file included|\s+) from (?:.*/)?kernel\.cu:(\d+)"
    r"|(?:.*/)?kernel\.cu:(\d+):(?:\d+:)?\s+(?:required from|note: in instantiation)"
)
_MARKED = re.compile(r"['`](?P<what>.*)' is deprecated: gop (?P<kind>\w+) (?P<name>.*)$")
# Types that sim's headers gave other names, and flags of the compiler.
_OWN_NAMES = re.compile(r"'[^']*gop_sim[^']*' \{aka ('[^']*')\}")
_FLAG = re.compile(r" \[-[\w=+,-]+\]$")
_MEANT_OWN = re.compile(r"; did you mean '[^']*gop[^']*'\?")
# gcc's and clang's words for one of CUDA's functions that csrc/sim/include has not.
_NOT_THERE = re.compile(r"'(__\w+)' was not declared|undeclared identifier '(__\w+)'")
_NOT_ON_CUDA = re.compile(r'identifier "(__\w+)" is undefined')
_NO_FILE = re.compile(r"(\S+): No such file|'(\S+)' file not found")
_MEANT = re.compile(r"; did you mean '(\w+)'\?")
_WHOLE = re.compile(r"call (?:of overloaded|to) '(\w+)(?:\((?:\w+ )*\w+&?\))?' is ambiguous")
_OF_TWO = re.compile(
    r"call (?:of overloaded|to) '(atan2|fdim|fmax|fmin|fmod|hypot|nextafter|remainder)"
    r"\((.+), (.+)\)' is ambiguous"
)
_SAID_OF_CUDA = (
    ("exception handling disabled", "kernels have no exceptions: no try, catch or throw"),
    (r"'typeid'.*rtti|'dynamic_cast'.*rtti", "kernels have no typeid and no dynamic_cast"),
    (
        "jump to case label",
        "a variable of an earlier case gets its value there, and this case leaves it out: put "
        "{ } around the statements of each case",
    ),
)
_ASSERTED = re.compile(r"^static assertion failed(?: due to requirement '.*?')?: ")
_RUNTIME = re.compile(
    r"'(cuda[A-Z]\w*)' was not declared|(?:undeclared )?identifier ['\"](cuda[A-Z]\w*)['\"]"
)
# NVRTC's, which compiles for no host.
_UNMARKED = re.compile(
    r"A (?:function|namespace scope (variable)) "
    r"(?:without \w+ space|explicitly marked as a __host)"
)
_NAME = {"function": r"(\w+)\s*\(", "variable": r"(\w+)\s*(?:[\[={(;]|$)"}
_WITHOUT_MASK = re.compile(r"__(?:shfl(?:_up|_down|_xor)?|any|all|ballot)")
_VARIABLE_SIZE = re.compile(r"variable.length array|variably.modified")
_NO_CONSTANT = re.compile(r"variable '?([\w:<>, ]*?)'? ?does not have a constant init")
_READ_ONLY = re.compile(r"read-only location '\*?[ (]*(\w+)[^']*'")
_PLACE = re.compile(r"\b(threadIdx|blockIdx|blockDim|gridDim)\b(?!\s*\.)")
_FORMAT = re.compile(
    r"format '(%[^']*)' expects argument of type '([^']*)'.*has type '([^']*)'"
)
_FORMAT_CLANG = re.compile(
    r"format specifies type '([^']*)' but the argument has type '([^']*)'"
)
_NO_FORMAT = re.compile(
    r"unknown conversion type character '(.)'|invalid conversion specifier '(.)"
)
_FRAME = re.compile(r"(?:frame size of|stack frame size) \(?(\d+)")
# A type that is not known makes gcc take the function for a variable: the next line says why.
_NO_FUNCTION = re.compile(r"variable or field '(\w+)' declared void")
# Of what CUDA and OpenCL have and sim has not.
_LACKED = re.compile(
    r"'((?:tex|surf)\w*|cuda(?:Texture|Surface)Object_t|(?:__)?half2|\w*nv_bfloat16\w*|"
    r"cooperative_groups|curand\w*|nvcuda|thrust|cub|image\w+_t|sampler_t|event_t|pipe|"
    r"async_work_\w+|wait_group_events|get_work_dim|get_image_\w+|read_image\w+|"
    r"(?:get_)?(?:sub|work)_group_\w+|enqueue_kernel|get_default_queue|"
    r"write_image\w+|shuffle2?|fract|bitselect|upsample|m(?:ul|ad)_sat|mad_hi|prefetch|"
    r"__cluster_dims__)'"
)
_GROUPS = (
    "; instead, __syncthreads() waits for a block, and __syncwarp(), shuffles and votes for a "
    "warp; between two launches the whole grid has ended"
)
# What is generated for each kernel, where that cannot name it.
_NO_CALL = re.compile(r"gop_(?:describe|call|parameters)_(\w+)")
_INCLUDES = re.compile(r"\s*#\s*include\s*[<\"]([^>\"]*)")
_DIRECTIVE = re.compile(r"^\s*#\s*(?:if|define)", re.M)

_OF_THE_HOST = {
    "function": "`{}` is a function of the host, which a kernel cannot call: write "
    "`__device__` before it",
    "variable": "`{}` is a variable of the host, which a kernel cannot read: pass it as an "
    "argument, or write `__device__` or `__constant__` before it",
    "kernel": "`{}` is a kernel, and kernels do not call one another: make what both need a "
    "`__device__` function",
}
_HEAP = re.compile(r"malloc|calloc|realloc|free|operator (?:new|delete).*|strdup|aligned_alloc")


def call(command: list[str], source: Source) -> str:
    """What a compiler prints; CompileError has its words by line of the source."""
    done = subprocess.run(
        command,
        capture_output=True,
        text=True,
        errors="replace",
        check=False,
        cwd=source.start,
        env={**os.environ, "LC_ALL": "C"},
    )
    said = done.stderr + done.stdout
    if done.returncode != 0:
        if not said.strip():
            raise CompileError(
                f"compile: {command[0]} ended with status {done.returncode} and said nothing, "
                "expected a C++ compiler: look at the variable CXX"
            )
        raise CompileError(readable(said, source))
    if found := _mistakes(done.stderr, source) + unset(done.stderr, source):
        raise refused(source, found)
    return done.stdout


def refused(source: Source, found: list[tuple[str, int, str]]) -> CompileError:
    return CompileError("compile: the source does not compile\n" + _by_line(found, source))


def readable(said: str, source: Source) -> str:
    """The compiler's errors by line of the source, each with the line itself."""
    found = _mistakes(said, source)
    if alone := _lone_brace(source.text) or _assembled(said, source.text):
        found = [("kernel.cu", *alone)]
    words = _by_line(found, source)
    if not words and (lost := _NO_CALL.search(said)):
        words = (
            f"the kernel {lost[1]} cannot be launched by that name: it stands in a namespace "
            "or a class, or another function has the name"
        )
    return "compile: the source does not compile\n" + (words or said.strip())


def _by_line(found: list[tuple[str, int, str]], source: Source) -> str:
    """The first of each line: further ones follow from it."""
    lines, said = source.text.splitlines(), []
    first = {(file, line, line or words): words for file, line, words in reversed(found)}
    for (file, line, _), words in sorted(first.items(), key=lambda item: item[0][:2]):
        if file != "kernel.cu":
            said.append(f"{Path(file).name}, line {line}: {words}")
        elif 0 < line <= len(lines):
            said.append(f"line {line}: {words}\n    {lines[line - 1].strip()}")
        elif line == 0:
            said.append(words)
    return "\n".join(said)


def _mistakes(said: str, source: Source) -> list[tuple[str, int, str]]:
    """File, line and words of each error, and of each warning that is one to us."""
    found, comes_from = [], 0
    lines = source.text.splitlines()
    for text in said.splitlines():
        if at := _FROM.match(text):
            comes_from = int(at[1] or at[2])
        at = _SAID.match(re.sub(r"^\S*ld(?:\.\w+)?: (?:\S+\.o: )?", "", text))
        if not at:
            continue
        file, line = at["file"].rpartition("/")[2], int(at["line"] or at["nvcc"])
        if file != "kernel.cu":
            # A header of the user's, or one whose own lines mean nothing to the user.
            own = Path(at["file"]).is_absolute() and Path(at["file"]).is_relative_to(
                source.folder
            )
            if not own or Path(at["file"]).is_relative_to(folder()):
                file, line = "kernel.cu", comes_from
                if not line and not at["lost"]:
                    continue
        text = lines[line - 1] if file == "kernel.cu" and 0 < line <= len(lines) else ""
        if at["lost"]:
            words = _undefined(at["lost"], source.text)
        elif at["kind"] == "warning":
            words = _warned(_FLAG.sub("", at["words"]), text)
        elif file != at["file"].rpartition("/")[2] and _INCLUDES.match(text):
            words = f"{_INCLUDES.match(text)[1]} does not compile on sim; docs/sim.md lists "
            words += "what it has of CUDA"
        else:
            words = _plain(at["words"], text)
        if words:
            words += _GROUPS if "cooperative_groups" in words else ""
            found.append((file, line, words))
    known = {item[:2] for item in found if not _NO_FUNCTION.match(item[2])}
    found = [i for i in found if not _NO_FUNCTION.match(i[2]) or i[:2] not in known]
    if any(line for _, line, _ in found):  # lines of headers that nobody knows add nothing
        found = [item for item in found if item[1]]
    return found


def _warned(words: str, line: str) -> str:
    """ "" for what is no mistake: nvcc's verdict on it is the same."""
    if marked := _MARKED.search(words):
        name = marked["what"] if marked["kind"] == "variable" else marked["name"]
        return _OF_THE_HOST[marked["kind"]].format(name)
    at = _FORMAT.search(words)
    expected, got = at.groups()[-2:] if at else ("", "")
    if not at and (at := _FORMAT_CLANG.search(words)):
        expected, got = at.groups()
    if at and re.search("uint3|dim3|gop_sim_index", got) and (place := _PLACE.search(line)):
        return _three_parts(place[1])
    if at and _kind_of(expected) != _kind_of(got):
        return f"printf's format is for {_an(expected)}, and the argument is {_an(got)}"
    if at := _NO_FORMAT.search(words):
        return f"printf has no conversion `%{at[1] or at[2]}` on sim"
    if re.search(r"format '%[^']*' expects a matching|more '%' conversions", words):
        return "printf has fewer arguments than its format asks for"
    return ""


def _an(kind: str) -> str:
    return f"an `{kind}`" if kind[0] in "aeiou" else f"a `{kind}`"


def _kind_of(kind: str) -> str:
    """Numbers with a point, whole ones of 4 and 8 bytes, and pointers are passed apart."""
    plain = kind.partition(" {aka")[0]
    if "*" in plain:
        return "pointer"
    if re.search(r"\b(?:float|double)\b", plain):
        return "point"
    return "long" if re.search(r"long|size_t|64|ptrdiff", plain) else "int"


def _undefined(name: str, text: str) -> str:
    """What the linker looked for in vain."""
    plain = name.partition("(")[0].rpartition("::")[2]
    if _HEAP.fullmatch(name):
        what = "new and delete" if name.startswith("operator") else f"`{name}`"
        return (
            f"{what}: kernels on sim have no heap; take an array of a constant size, or pass "
            "one from Python"
        )
    if re.match("__(tsan|sanitizer)_", name):
        return (
            f"calls `{name}`, which sim has not: it was built by another compiler; take that "
            "one, by the variable CXX"
        )
    declared = re.search(rf"\b\w[\w\s*&:<>]*[\s*&]{re.escape(plain)}\s*\([^;{{]*\)\s*;", text)
    if name.startswith("std::") or not ("(" in name or declared):
        return (
            f"`{name}` is of the host's library, which kernels have not; docs/sim.md lists "
            "what sim supports of CUDA's functions"
        )
    return f"`{name}` is declared, and defined nowhere"


def _plain(words: str, line: str) -> str:
    plain = _MEANT_OWN.sub("", _FLAG.sub("", _OWN_NAMES.sub(r"\1", words)))
    plain = _ASSERTED.sub("", plain).strip('"')
    if _VARIABLE_SIZE.search(plain):
        return _size(line)
    if (at := _UNMARKED.match(plain)) and (name := re.search(_NAME[at[1] or "function"], line)):
        return (
            f"{_OF_THE_HOST[at[1] or 'function'].format(name[1])}; where nvcc is installed, "
            "what no kernel uses may stay"
        )
    if at := _WHOLE.match(plain):
        return (
            f"{at[1]} of an integer is ambiguous, as it is for float and double: "
            f"write {at[1]}((float)...)"
        )
    if "gop_vec<" in plain and ("to 'bool'" in plain or "contextually" in plain):
        return "a vector is no condition: take select(no, yes, c) for `?:`, any(c) or all(c)"
    if at := _OF_TWO.match(plain):
        both = " and ".join(_an(kind.rstrip("&")) for kind in at.groups()[1:])
        return (
            f"{at[1]} of {both} is ambiguous, as it is for two floats or two doubles: write "
            f"{at[1]}((float)..., (float)...)"
        )
    for pattern, words in _SAID_OF_CUDA:
        if re.search(pattern, plain):
            return words
    if at := _RUNTIME.search(plain):
        return f"`{at[1] or at[2]}` is for the host, which is Python here; kernels have it not"
    if at := _NO_CONSTANT.search(plain):
        return (
            f"the value of {at[1] or 'this variable'} is computed when the kernels are loaded, "
            "and nothing runs then: give it a constant, or compute it in the kernel"
        )
    if at := _READ_ONLY.search(plain):
        return f"`{at[1]}` is constant here: nothing can be stored to it"
    if (at := _PLACE.search(line)) and re.search(r"'(?:const )?(?:uint3|dim3)\W", plain):
        return _three_parts(at[1])
    if (at := _NOT_ON_CUDA.match(plain)) and _WITHOUT_MASK.fullmatch(at[1]):
        return _masked(at[1])
    if at := _NOT_THERE.search(plain):
        name = at[1] or at[2]
        if _WITHOUT_MASK.fullmatch(name):
            return _masked(name)
        meant = _MEANT.search(plain)
        if not meant or SequenceMatcher(None, name, meant[1]).ratio() < 0.85:
            plain = _MEANT.sub("", plain)
            plain += "; docs/sim.md lists what sim supports of CUDA's functions"
    elif _LACKED.search(plain):
        plain = _MEANT.sub("", plain) + "; docs/sim.md lists what sim supports of CUDA"
    if at := _FRAME.search(plain):
        return (
            f"the function's own variables take {at[1]} bytes, and a thread on sim has room "
            "for 40000: pass an array from Python"
        )
    if at := _NO_FILE.search(plain):
        plain = (
            f"there is no file {at[1] or at[2]}; docs/sim.md lists what sim supports of CUDA"
        )
    if re.search(r"no matching function for call to 'atomic\w+\([^,*']*&, ", plain):
        word = re.search(r"atomic\w+\(\s*([^,]+),", line)
        plain += f"; its first argument is an address{f': &{word[1]}' if word else ''}"
    elif re.search(r"no matching function for call to '(?:atomic|__shfl)", plain):
        plain += "; docs/sim.md lists the types that CUDA has it for"
    if "non-void function" in plain:
        plain += ": every way through it ends in a return of a value"
    return plain


def _masked(name: str) -> str:
    return f"{name} is gone since CUDA 9: write {name}_sync(0xffffffff, ...)"


def _assembled(said: str, text: str) -> tuple[int, str] | None:
    """What the assembler refused, which knows names and no lines of the source."""
    plain = _simt.without_comments(text)
    if at := re.search(r"Unresolved extern function '(\w+)'", said):
        mangled = re.match(r"_Z(\d+)(\w+)", at[1])
        name = mangled[2][: int(mangled[1])] if mangled else at[1]
        words = f"`{name}` is declared, and defined nowhere"
        found = re.search(rf"\b{name}\b", plain)
    elif "without '.sync'" in said:
        found = re.search(rf"\b(?:{_WITHOUT_MASK.pattern})(?=\s*\()", plain)
        words = _masked(found[0]) if found else ""
    else:
        return None
    return (plain[: found.start()].count("\n") + 1, words) if found else None


def _three_parts(name: str) -> str:
    return f"{name} has three parts, x, y and z: write {name}.x"


def _size(line: str) -> str:
    if "__shared__" not in line:
        return "the size of an array in a kernel is a constant, known when it is compiled"
    return (
        "the size of a `__shared__` array is a constant, known when the kernel is compiled; or "
        "write `extern __shared__ T name[];`, and its bytes as the third number of "
        "[grid, block, bytes]"
    )


def _lone_brace(text: str) -> tuple[int, str] | None:
    """The line of a brace without its partner, and what to say of it.

    Compilers tell where they lost count, often behind the source's end. Braces that are
    partners begin in lines of one indentation: the first that do not tell which one is missing.
    """
    if _DIRECTIVE.search(text):  # only some of the braces may count
        return None
    opened: list[tuple[int, int]] = []
    left = right = 0  # the first line that a `}` to the left, or to the right, is a partner to
    for number, line in enumerate(_simt.without_comments(text).splitlines(), 1):
        indent = len(line) - len(line.lstrip())
        for at, c in enumerate(line):
            if c == "{":
                opened.append((number, indent))
            elif c == "}":
                if not opened:
                    return right or number, "this `}` closes nothing"
                first, before = opened.pop()
                if at == indent and indent < before:
                    left = left or first
                if at == indent and indent > before:
                    right = right or number
    return (left or opened[-1][0], "this `{` has no `}`") if opened else None

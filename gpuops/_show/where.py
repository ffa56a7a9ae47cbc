"""where - source lines of compiled kernels, by what the compiler left in their libraries."""

from __future__ import annotations

import functools
import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from .elements import named
from .source import folder

# The wrappers of device.h and of sim: an access is told of the line that called them.
_WRAPPERS = {
    *("call.h", "device.h", "dialect.h", "functions.h", "launch.h", "warp.h"),
    *("builtins.h", "language.h", "numbers.h", "vectors.h"),
}
# Of libraries made from a string: the text that their kernels were written in.
sources: dict[str, str] = {}
# Kernels of this package, or the copy of one that sim was made of, which GCC names for what
# follows a #pragma.
_KERNELS = re.compile(r"^.*/(?:csrc|sim)/cuda/")
_IN_A_SENTENCE = re.compile(r" \[([^]]*)\+0x([0-9a-f]+)\]")
# Of a race: both places, what the second one does, and the cures.
_RACE = re.compile(
    r"(, (?P<line>\S+:\d+) (?:loads|stores) .*), (?P=line) (?P<did>loads|stores to)"
    r"(?P<order> with no barrier between|, and nothing orders the two blocks): a race; "
    r"(?:put (?P<meet>__syncthreads\(\)(?:, or __syncwarp\(\) as they are of one warp,)?) "
    r"between them(?P<array>.*)|if .*)"
)


@dataclass(frozen=True)
class Place:
    """What a library's debugging information says of one address; empty where it is silent."""

    function: str = ""
    file: str = ""
    line: int = 0


def places(library: str, addresses: list[int]) -> dict[int, Place]:
    """Functions and source lines of a library's code, where addr2line can tell them."""
    tool = shutil.which("addr2line")
    if not tool or not addresses or not Path(library).exists():
        return {}
    return _asked(tool, library, Path(library).stat().st_mtime_ns, tuple(addresses))


@functools.lru_cache(maxsize=64)
def _asked(
    tool: str, library: str, _mtime: int, addresses: tuple[int, ...]
) -> dict[int, Place]:
    """The same kernel is often profiled again, and the tool is slower than small kernels."""
    said = subprocess.run(
        [tool, "-a", "-i", "-f", "-C", "-e", library],
        input="\n".join(map(hex, addresses)),
        capture_output=True,
        text=True,
        check=False,
    ).stdout.splitlines()
    found: dict[int, Place] = {}
    address, k = 0, 0
    while k < len(said):
        if said[k].startswith("0x"):
            address, k = int(said[k], 16), k + 1
            continue
        function, where = said[k], said[k + 1].partition(" ")[0] if k + 1 < len(said) else ""
        file, _, line = where.rpartition(":")
        file = _KERNELS.sub("csrc/cuda/", file)
        known = line.isdigit() and Path(file).name not in _WRAPPERS
        if known and address not in found:  # the innermost first
            found[address] = Place(re.split(r"[<(]", function)[0].split()[-1], file, int(line))
        k += 2
    return found


def text_of(library: str, file: str) -> list[str]:
    """The lines of a file that a library's kernels came from; [] if it is not at hand."""
    if Path(file).name == "kernel.cu" and library in sources:
        return sources[library].splitlines()
    # Kernels of this package were compiled elsewhere, but their sources travel with it.
    _, inside, rest = file.rpartition("csrc/")
    path = folder() / rest if inside else Path(file)
    return path.read_text().splitlines() if path.is_file() else []


def short(file: str) -> str:
    """A file's name; of this package's kernels with the operation: transpose/tiled.cu."""
    return file.rpartition("csrc/cuda/")[2] if "csrc/cuda/" in file else Path(file).name


def with_line(sentence: str) -> str:
    """A failure's sentence with ", file:line" for each address in brackets, and an element's
    name for each in braces; the lines of a kernel that was compiled from a string follow."""
    library = ""
    quoted: dict[int, str] = {}

    def text(found: re.Match[str]) -> str:
        nonlocal library
        library = library or found[1]
        # An instruction is told by where it returns to: the one before it is meant.
        address = int(found[2], 16) - 1
        at = places(found[1], [address]).get(address)
        if at and found[1] in sources and Path(at.file).name == "kernel.cu":
            lines = sources[found[1]].splitlines()
            if at.line <= len(lines):
                quoted[at.line] = f"\n    kernel.cu:{at.line}  {lines[at.line - 1].strip()}"
        return f", {short(at.file)}:{at.line}" if at else ""

    said = _IN_A_SENTENCE.sub(text, sentence)
    code = next(iter(quoted.values()), "")
    said = named(said, library, code.partition("  ")[2])
    return _RACE.sub(lambda race: _at_one_line(race, code), said) + "".join(quoted.values())


def _is_one_element(name: str, code: str) -> bool:
    """Whether a line has an array's element, or a variable, in one form alone, as
    `s += v[i]`; not `s[t] += s[t + d]`, where each thread has an element of its own."""
    array = name.partition("[")[0]
    used = re.findall(rf"\b{re.escape(array)}\b((?:\s*\[[^][]*\])*)", code)
    return bool(array) and len({re.sub(r"\s", "", u) for u in used}) == 1


def _at_one_line(race: re.Match[str], code: str) -> str:
    """What mends a race of two threads at one source line: nothing can be put between there."""
    begin = f"{race[1]} {race['did']} at the same line{race['order']}: a race; "
    name = re.search(r" (?:loads|stores) (\S+), ", race[1])
    if race["meet"] and name and _is_one_element(name[1], code):
        return (
            f"{begin}both load it, change it and store it, so that updates get lost: use an "
            "atomic, as atomicAdd(&c[i], x) for c[i] += x"
        )
    if not race["meet"]:
        sums = "if several threads add to one element there, as c[i] += x, use atomicAdd"
        return f"{begin}{sums}; else store the results to a second array"
    store = ", or store the results to a second array" if race["array"] else ""
    return (
        f"{begin}put {race['meet']} between them: into the loop behind the line, if a loop "
        f"repeats it; if not, load to a variable, put __syncthreads(), and then store{store}"
    )

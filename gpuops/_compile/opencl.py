"""opencl - kernels of one's own in OpenCL C, compiled by the driver of an OpenCL device.

The driver says what a kernel takes, by the names of types that the source has. Drivers keep
what they compiled, so nothing is kept here.
"""

from __future__ import annotations

import re
from pathlib import Path

from .. import _core
from ..devices import Device
from ..errors import CompileError
from .arguments import Parameter
from .kernel_source import Source
from .opencl_c import SCALARS, no_kernel, refuse_words, vector
from .simt import without_comments

# Every operation rounded by itself, as in all of gpuops: so the bits are those of sim.
_PROLOGUE = '#pragma OPENCL FP_CONTRACT OFF\n#line 1 "kernel.cl"\n'
_INCLUDE = re.compile(r'#[ \t]*include[ \t]*"([^"\n]+)"[^\n]*')
DEEPEST = 32  # files that include one another
_TYPEDEF = re.compile(r"\btypedef\s+([\w\s]+?)\s+(\w+)\s*;")
# clang's words behind file, line and column, as most drivers have them; and PoCL's order.
_SAID = re.compile(
    r"(?:(?P<file>[^\s:]+):)?(?P<line>\d+):\d+:\s*(?:(?:(?:fatal )?error|warning):\s*)?"
)
_UNKNOWN = re.compile(r"ptxas fatal\s*: Unresolved extern function '(\w+)'")
LONGEST = 200  # letters of a function's name: NVIDIA's driver ends the process at some 250
_LONGER = re.compile(rf"\b([^\W\d]\w{{{LONGEST},}})\s*\(")
_LINE = re.compile(r'#line (\d+)(?: "([^"]*)")?\s*$')


def _error(said: str, source: Source, image: str) -> CompileError:
    """The first error that the driver tells of the image, with its line of the source."""
    found = _SAID.search(said)
    lines = source.text.splitlines()
    if unknown := _UNKNOWN.match(said):
        words, file = f"the function '{unknown[1]}' is nowhere", "kernel.cl"
        call = re.search(rf"\b{unknown[1]}\s*\(", without_comments(source.text))
        number = source.text.count("\n", 0, call.start()) + 1 if call else 0
    elif found:
        words, number = said[found.end() :].strip(), int(found["line"])
        file = (found["file"] or "kernel.cl").rpartition("/")[2]
        if file == "<kernel>":
            file, number = _place(image, number)
    else:
        words, file, number = said or "the driver does not say why", "kernel.cl", 0
    if file not in ("kernel.cl", "error") and not file.startswith("tempfile"):
        words = f"{file}, line {number}: {words}"
    elif 0 < number <= len(lines):
        words = f"line {number}: {words}\n    {lines[number - 1].strip()}"
    return CompileError(f"compile: the source does not compile\n{words}")


def _place(image: str, line: int) -> tuple[str, int]:
    """File and number of a line of the image; NVIDIA's driver does not follow its #lines."""
    file, number = "kernel.cl", 0
    for text in image.splitlines()[: line - 1]:
        number += 1
        if at := _LINE.match(text):
            file, number = at[2] or file, int(at[1]) - 1
    return file, number + 1


def _with_includes(text: str, folder: Path, name: str = "kernel.cl", depth: int = 0) -> str:
    """The text with the files that it includes: drivers do not agree on how to name folders."""
    plain = without_comments(text)
    pieces, end = [], 0
    for found in _INCLUDE.finditer(text):
        if plain[found.start()] == " ":  # in a comment
            continue
        line = text.count("\n", 0, found.start()) + 1
        path = folder / found[1]
        try:
            inside = path.read_text("utf-8-sig") if depth < DEEPEST else ""
        except (OSError, ValueError) as error:
            raise CompileError(
                f"compile: the source does not compile\n{name}, line {line}: {found[1]} cannot "
                f"be read: {getattr(error, 'strerror', error)}"
            ) from None
        inside = _with_includes(inside, path.parent, path.name, depth + 1)
        pieces += [
            text[end : found.start()],
            f'\n#line 1 "{path.name}"\n{inside}\n#line {line + 1} "{name}"',
        ]
        end = found.end()
    return "".join(pieces) + text[end:]


def _parameter(line: str, aliases: dict[str, str]) -> Parameter:
    space, const, words = line.split(" ", 2)
    plain = words.rstrip("* ").removeprefix("const ").strip()
    for _ in range(8):  # a name of a name
        plain = aliases.get(plain, plain)
    pointer = words.endswith("*")
    letter, width = vector(plain)
    if not letter or (width > 1 and not pointer) or words.endswith("**"):
        letter, width = "", 1
    return Parameter.made(letter, pointer, const == "1", space == "local", width)


class Module:
    """The kernels of one source on one OpenCL device."""

    def __init__(self, source: Source, device: Device) -> None:
        refuse_words(source.text)
        image = f"{_PROLOGUE}{_with_includes(source.text, source.folder)}"
        if long := _LONGER.search(without_comments(image)):
            raise CompileError(
                f"compile: {long[1][:40]}...: a name of {len(long[1])} letters, expected at "
                f"most {LONGEST}, as drivers fail with longer ones; shorten it"
            )
        try:
            self._module = _core.load_module((device.backend, device.ordinal), image.encode())
        except CompileError as error:
            raise _error(str(error), source, image) from None
        plain = without_comments(source.text)
        aliases = {name: " ".join(old.split()) for old, name in _TYPEDEF.findall(plain)}
        aliases = {k: v for k, v in aliases.items() if k not in SCALARS}
        self._parameters: dict[str, list[Parameter]] = {}
        last: list[Parameter] = []
        for line in _core.describe_module(self._module).splitlines():
            if line.startswith(" "):
                last.append(_parameter(line[1:], aliases))
            else:
                last = self._parameters[line] = []
        self.names = list(self._parameters)
        if not self.names:
            raise no_kernel(source.text)

    def parameters(self, name: str) -> list[Parameter]:
        return self._parameters[name]

    def launch(self, name: str, grid, block, shared: int, arguments) -> None:
        """`arguments` are 0-d arrays and Buffers, one for each parameter."""
        _core.launch(self._module, name, name, grid, block, shared, tuple(arguments))

"""embed - OpenCL C sources as strings of a C file: drivers compile them where they run."""

import re
from pathlib import Path

INCLUDE = re.compile(r'^#include "([^"]+)"$')


def whole(root: Path, name: str, seen: set[str]) -> list[str]:
    """A source's lines with what it includes in place, each file once. What a driver says of a
    line names the file that it is in."""
    lines = [f'#line 1 "{name}"']
    for number, line in enumerate((root / name).read_text().splitlines(), 1):
        found = INCLUDE.match(line)
        if not found:
            lines.append(line)
            continue
        if found[1] not in seen:
            seen.add(found[1])
            lines += whole(root, found[1], seen)
        lines.append(f'#line {number + 1} "{name}"')
    return lines


def literal(line: str) -> str:
    text = line.replace("\\", "\\\\").replace('"', '\\"')
    return f'    "{text}\\n"'


def embed(root: Path, sources: list[Path], target: Path) -> None:
    """Writes a C file with the table `gop_cl_sources`, unless it is there already."""
    parts = ['#include "opencl/runtime/runtime.h"\n\nconst gop_cl_source gop_cl_sources[] = {']
    for source in sources:
        name = source.relative_to(root).as_posix()
        kernel = "/".join(source.with_suffix("").parts[-2:])
        parts.append(f'{{"{kernel}",')
        parts += map(literal, whole(root, name, {name}))
        parts.append("},")
    parts.append("{0, 0}};\n")
    text = "\n".join(parts)
    target.parent.mkdir(parents=True, exist_ok=True)
    if not target.exists() or target.read_text() != text:
        target.write_text(text)

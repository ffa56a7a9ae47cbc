"""rewritten - the kernels of csrc/cuda as sim compiles them: `__shared__` made C++."""

import importlib.util
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


def rewritten(csrc: Path, build: Path) -> list[Path]:
    """The ladder files of csrc/cuda in build/objects/sim, from the root."""
    spec = importlib.util.spec_from_file_location(
        "simt", ROOT / "gpuops" / "_compile" / "simt.py"
    )
    simt = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(simt)
    made = []
    for source in sorted(csrc.glob("cuda/**/*.[ch]*")):
        # sim is a runtime of its own, and has its own way to launch.
        if source.parent.name == "runtime" or source.name == "launch.h":
            continue
        target = build / "sim" / source.relative_to(csrc)
        text = simt.rewrite(source.read_text(), str(source))
        target.parent.mkdir(parents=True, exist_ok=True)
        if not target.exists() or target.read_text() != text:
            target.write_text(text)
        if source.suffix == ".cu":
            made.append(target.relative_to(ROOT))
    return made

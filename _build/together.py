"""together - short files of csrc/cuda that are compiled as one: most of it is headers."""

from pathlib import Path

# A folder's files that compile in a few seconds for one architecture: headers, which every file
# reads four times, are more than a second of it. Their names at file scope differ, and their
# kernels' machine code is the same as apart. Kernels of a file share the layout of shared
# memory: that changes reduce's `ticket`, and what other kernels of rdf need beside `shared`.
TOGETHER = {
    "add": "choose ladder naive tiles vectorized",
    "jacobi": "checked choose ladder naive",
    "jacobi_step": "choose ladder naive tiled",
    "matmul": "choose ladder naive outer patches strided strips units",
    "rdf": "choose clear ladder naive",
    "reduce": "atomic cascaded choose complete interleaved ladder loaded naive plan sequential "
    "short shuffled strided unrolled vectorized_plan wide",
    # What tests/cuda/test_cuda_runtime.py links with devices.cu and with a driver of its own.
    "runtime": "errors flow gpuops_cuda launches memory modules ring streams transfer",
    "transpose": "boxes choose copy diagonal gathers ladder lines naive packed padded pixels "
    "reads sectored shifted staged streamed strided swizzled tiled tiling",
}


def together(csrc: Path, build: Path) -> list[Path]:
    """The files to compile: each of csrc/cuda, or one that includes all of a folder's above."""
    found = set(csrc.glob("cuda/*/*.cu"))
    made = []
    for folder, names in TOGETHER.items():
        sources = [csrc / "cuda" / folder / f"{name}.cu" for name in names.split()]
        found -= set(sources)
        target = build / "cuda" / folder / "together.cu"
        text = "".join(f'#include "{source.relative_to(csrc)}"\n' for source in sources)
        target.parent.mkdir(parents=True, exist_ok=True)
        if not target.exists() or target.read_text() != text:
            target.write_text(text)
        made.append(target)
    return sorted(found) + made

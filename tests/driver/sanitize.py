"""sanitize - ASan and UBSan over core and CPU kernels, compute-sanitizer over CUDA ones.

    python tests/driver/sanitize.py [op ...]
    python tests/driver/sanitize.py --cuda [--tools memcheck,racecheck] [--every 5] [op ...]

Every tool is shown a planted bug first. One that overlooks it is not at work, and its silence
about the kernels would mean nothing.
"""

import argparse
import itertools
import json
import os
import re
import shutil
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT)]
os.chdir(ROOT)
# For other levels than the build's the package's own objects would be compiled anew.
BUILT = ROOT / "gpuops" / "_build_info.json"
if BUILT.exists() and len(json.loads(BUILT.read_text())["core"].get("levels", ())) == 1:
    os.environ.setdefault("GPUOPS_CPU_LEVELS", "native")

from _build.compile import Step, run_steps  # noqa: E402
from _build.toolkit import find_nvcc  # noqa: E402
from setup import C_FLAGS, CC, CSRC, LEVELS, kernel_steps, op_stems  # noqa: E402

# Each tool of compute-sanitizer, and what it says of its planted bug.
TOOLS = {
    "memcheck": "Invalid __global__ write",
    "racecheck": "Race reported",
    "initcheck": "Uninitialized __global__ memory read",
    "synccheck": "Barrier error detected",
}
# What racecheck reports of an order that it does not follow (handover.cu): skinny_wgmma copies
# into a stage that was read before. Reports name these functions where the build has line
# numbers (NVCC_APPEND_FLAGS=-lineinfo); else they name the kernel, and none is forgiven.
RAW = "matmul_skinny_wgmma_kernel"
UNFOLLOWED = ("Write access at void cp_async<", "Read access at void ring_read<")
# Into how many processes a slow run is cut, each with a share of the dtypes.
SHARES = {
    **{("racecheck", stem): 8 for stem in ("matmul", "reduce")},
    **{(tool, "jacobi"): 4 for tool in TOOLS},
}
BUILD = ROOT / "build"


def build_driver(name: str, flags: list[str]) -> Path:
    """The driver with core and CPU kernels inside, compiled with these flags.

    Without flags they are the package's own objects.
    """
    folder = BUILD / name
    steps = [] if flags else kernel_steps()
    sources = sorted(Path("tests/driver").glob("*.c"))
    if flags:
        sources += sorted([*CSRC.glob("core/*/*.c"), *CSRC.glob("cpu/runtime/*.c")])
        sources += sorted(CSRC.glob("cpu/*/ladder.c"))  # includes its kernels' files
    stems = op_stems()
    for source in sources:
        levels = LEVELS if source.parent.name in stems else {"": []}
        for level, march in levels.items():
            made = folder / f"{source.parent.name}_{source.stem}{level}.o"
            chosen = [f"-DGOP_LEVEL={level}", *march] if level else []
            if source.is_relative_to("tests"):  # the driver's own calls need no small stack
                chosen += ["-Wno-frame-larger-than"]
            command = [*CC, *C_FLAGS, *flags, *chosen, "-MMD", "-MF", f"{made}.d"]
            command += ["-c", str(source), "-o", str(made)]
            steps.append(Step(made, tuple(command), (source,)))
    run_steps(steps)
    driver = folder / "driver"
    objects = [step.output for step in steps]
    command = [*CC, *flags, *map(str, objects), "-o", str(driver), "-lm", "-ldl", "-pthread"]
    run_steps([Step(driver, tuple(command), tuple(objects))])
    return driver


def run(command: list[str], **environment: str) -> tuple[int, str]:
    done = subprocess.run(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        env={**os.environ, **environment},
    )
    return done.returncode, done.stdout


def check_cpu(op: list[str]) -> bool:
    # -O1: the kernels' loops are unchanged, and eight minutes are enough for all of them.
    flags = ["-O1", "-g", "-fsanitize=address,undefined", "-fno-sanitize-recover=all"]
    flags += ["-Wno-frame-larger-than"]  # frames hold the sanitizer's own memory too
    driver = build_driver("sanitize", flags)
    options = {"ASAN_OPTIONS": "detect_leaks=1", "UBSAN_OPTIONS": "print_stacktrace=1"}
    code, said = run([str(driver), "--canary"], **options)
    if code == 0 or "heap-buffer-overflow" not in said:
        print(f"ASan overlooked the planted bug:\n{said}")
        return False
    code, said = run([str(driver), *op], **options)
    print(said.strip())
    print(
        f"sanitize: ASan and UBSan over core and CPU kernels: {'FAILED' if code else 'clean'}"
    )
    return code == 0


def build_program(name: str) -> Path:
    made = BUILD / "driver" / name
    source = Path(f"tests/driver/{name}.cu")
    nvcc = find_nvcc()
    if nvcc is None:
        sys.exit("sanitize: nvcc was not found, and the planted bugs need it")
    # Linking by nvcc suits toolkits; NVIDIA's wheels have no folder where it looks.
    command = (*nvcc, "-lineinfo", "-arch=native", str(source), "-o", str(made))
    made.parent.mkdir(parents=True, exist_ok=True)
    run_steps([Step(made, command, (source,))])
    return made


def stem_of(op: str) -> str:
    """The stem of an op of ops.def, or the stem itself."""
    stems = dict(re.findall(r"^GOP_OP\((\w+), (\w+)\)", (CSRC / "ops.def").read_text(), re.M))
    if op not in stems and op not in stems.values():
        sys.exit(f"sanitize: there is no operation {op!r}, expected one of {', '.join(stems)}")
    return stems.get(op, op)


def is_clean(code: int, said: str) -> bool:
    return code == 0 and bool(re.search(r"(ERROR SUMMARY: 0 errors|SUMMARY: 0 hazards)", said))


def overlooks_its_bug(sanitizer: str, tool: str, canary: Path) -> str:
    """Nothing if the tool is at work, else what it said of the planted bug."""
    code, said = run([sanitizer, "--error-exitcode", "9", "--tool", tool, str(canary), tool])
    if TOOLS[tool] in said and not is_clean(code, said):
        return ""
    said = f"the planted bug was overlooked: {said.strip()[-500:]}"
    print(f"sanitize: {tool}: {said}", flush=True)
    return said


def only_unfollowed(said: str) -> bool:
    """Whether racecheck reported nothing but that, and showed all that it reported."""
    accesses = re.findall(r"(?:Race reported between|=+ +and) (\w+ access at .*)", said)
    shown = re.search(r"SUMMARY: (\d+) hazards displayed \((\d+) errors, 0 warnings\)", said)
    return (
        shown is not None
        and int(shown[1]) == int(shown[2]) == said.count("Race reported between") > 0
        and all(access.startswith(UNFOLLOWED) for access in accesses)
    )


def overlooks_handover(sanitizer: str) -> bool:
    """Whether racecheck follows lanes that each say so, and not one that says it for them."""
    command = [sanitizer, "--error-exitcode", "9", "--tool", "racecheck"]
    command += [str(build_program("handover"))]
    return is_clean(*run([*command, "each"])) and not is_clean(*run([*command, "one"]))


def check_stem(
    sanitizer: str, tool: str, driver: Path, arguments: list[str], known: bool
) -> str:
    """One tool over the kernels of one stem: "clean: <what ran>", or what is wrong.

    `known`: it overlooks an order, and what it says of that is no fault of raw; where it says
    nothing else, it looks at the other kernels once more.
    """
    start = time.perf_counter()
    command = [sanitizer, "--error-exitcode", "9", "--tool", tool, "--print-limit", "1000"]
    # Without the pool every allocation ends where the sanitizer can see it end.
    names = ("GPUOPS_CUDA_POOL", "GPUOPS_CUDA_GRAPHS", "GPUOPS_KEEP_SCRATCH")
    options = dict.fromkeys(names, "0")
    code, said = run([*command, str(driver), *arguments], **options)
    if known and only_unfollowed(said):
        command += ["--kernel-name-exclude", f"kns={RAW}"]
        code, said = run([*command, str(driver), *arguments], **options)
    ran = re.search(r"^driver: (.*)", said, re.M)
    if ran and is_clean(code, said):
        said = f"clean: {ran[1]}"
    else:
        said = f"exit {code}: {said.strip()}"
        said = said if len(said) < 4000 else f"{said[:2000]}\n...\n{said[-2000:]}"
    seconds = time.perf_counter() - start
    print(f"sanitize: {tool} {arguments[-1]} ({seconds:.0f} s): {said}", flush=True)
    return said


def joined(said: list[str]) -> str:
    """One summary of a run in shares: counts added, or what the first unclean one said."""
    unclean = [text for text in said if not text.startswith("clean: ")]
    if unclean or len(said) == 1:
        return (unclean or said)[0]
    counts = [[int(n) for n in re.findall(r"\d+", text)] for text in said]
    totals = iter(map(sum, zip(*counts, strict=True)))
    return re.sub(r"\d+", lambda _: str(next(totals)), said[0])


def check_cuda(ops: list[str], tools: list[str], every: int = 1) -> dict[str, dict[str, str]]:
    """Per stem and tool "clean: <what ran>", or what is wrong. `every`: one call in so many.

    Tools and operations run side by side: each keeps the host busier than the GPU.
    """
    stems = sorted({stem_of(op) for op in ops} or op_stems())
    sanitizer = shutil.which("compute-sanitizer")
    if sanitizer is None:
        return dict.fromkeys(stems, dict.fromkeys(tools, "compute-sanitizer was not found"))
    driver, canary = build_driver("driver", []), build_program("canary")
    unfollowed = {"racecheck", "matmul"} <= {*tools, *stems} and overlooks_handover(sanitizer)
    shared = ["--cuda", str(ROOT / "gpuops" / "_cuda.so"), "--every", str(every)]
    with ThreadPoolExecutor(os.cpu_count() or 1) as pool:
        bugs = [pool.submit(overlooks_its_bug, sanitizer, tool, canary) for tool in tools]
        runs = {}
        for stem, tool in sorted(
            itertools.product(stems, tools), key=lambda p: p[::-1] not in SHARES
        ):
            count = SHARES.get((tool, stem), 1)
            runs[stem, tool] = [
                pool.submit(
                    check_stem, sanitizer, tool, driver,
                    [*shared, "--share", str(k), str(count), stem],
                    unfollowed and (tool, stem) == ("racecheck", "matmul"),
                )
                for k in range(count)
            ]  # fmt: skip
        overlooked = {tool: bug.result() for tool, bug in zip(tools, bugs, strict=True)}
        return {
            stem: {
                tool: overlooked[tool] or joined([run.result() for run in runs[stem, tool]])
                for tool in tools
            }
            for stem in stems
        }


def has_gpu() -> bool:
    import gpuops

    return gpuops.is_available("cuda")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--cuda", action="store_true", help="the CUDA kernels alone")
    parser.add_argument("--tools", default=",".join(TOOLS))
    parser.add_argument("--every", type=int, default=1, help="makes one call in so many")
    parser.add_argument("op", nargs="*")
    options = parser.parse_args()
    good = options.cuda or check_cpu(options.op)
    if options.cuda or has_gpu():
        summaries = check_cuda(options.op, options.tools.split(","), options.every)
        said = [text for row in summaries.values() for text in row.values()]
        good = good and all(text.startswith("clean") for text in said)
        print(f"sanitize: compute-sanitizer: {'clean' if good else 'FAILED'}")
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())

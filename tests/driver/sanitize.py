"""sanitize - ASan and UBSan over core and CPU kernels, compute-sanitizer over CUDA ones.

    python tests/driver/sanitize.py [op]
    python tests/driver/sanitize.py --cuda [--tools memcheck,racecheck] [--every 5] [op]

Every tool is shown a planted bug first. One that overlooks it is not at work, and its silence
about the kernels would mean nothing.
"""

import argparse
import os
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT)]
os.chdir(ROOT)

from _build.compile import Step, run_steps  # noqa: E402
from _build.toolkit import find_nvcc  # noqa: E402
from setup import C_FLAGS, CC, CSRC, LEVELS, op_stems  # noqa: E402

TOOLS = ("memcheck", "racecheck", "initcheck", "synccheck")
BUILD = ROOT / "build"


def build_driver(name: str, flags: list[str]) -> Path:
    """The driver with core and CPU kernels inside, compiled with these flags."""
    folder = BUILD / name
    stems = op_stems()
    steps = []
    sources = [*CSRC.glob("core/*.c"), *CSRC.glob("cpu/*.c"), *Path("tests/driver").glob("*.c")]
    for source in sorted(sources):
        levels = LEVELS if source.stem in stems and source.parent.name == "cpu" else {"": []}
        for level, march in levels.items():
            made = folder / f"{source.parent.name}_{source.stem}{level}.o"
            chosen = [f"-DGOP_LEVEL={level}", *march] if level else []
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


def build_canary() -> Path:
    made = BUILD / "driver" / "canary"
    source = Path("tests/driver/canary.cu")
    nvcc = find_nvcc()
    if nvcc is None:
        sys.exit("sanitize: nvcc was not found, and the planted bug needs it")
    # Linking by nvcc suits toolkits; NVIDIA's wheels have no folder where it looks.
    command = (*nvcc, "-lineinfo", "-arch=native", str(source), "-o", str(made))
    made.parent.mkdir(parents=True, exist_ok=True)
    run_steps([Step(made, command, (source,))])
    return made


def check_cuda(op: list[str], tools: list[str], every: int = 1) -> dict[str, str]:
    """A summary per tool: "clean", or what is wrong. `every`: makes one call in so many."""
    sanitizer = shutil.which("compute-sanitizer")
    if sanitizer is None:
        return dict.fromkeys(tools, "compute-sanitizer was not found")
    driver, canary = build_driver("driver", ["-O1"]), build_canary()
    command = [sanitizer, "--error-exitcode", "9", "--tool"]
    _, said = run([*command, "memcheck", str(canary)])
    if "ERROR SUMMARY: 0 errors" in said or "Invalid __global__ write" not in said:
        return dict.fromkeys(tools, f"the planted bug was overlooked: {said.strip()[-500:]}")
    summaries = {}
    for tool in tools:
        library = str(ROOT / "gpuops" / "_cuda.so")
        arguments = ["--cuda", library, "--every", str(every), *op]
        # Without the pool every allocation ends where the sanitizer can see it end.
        code, said = run([*command, tool, str(driver), *arguments], GPUOPS_CUDA_POOL="0")
        clean = code == 0 and "ERROR SUMMARY: 0 errors" in said
        if tool == "racecheck":
            clean = code == 0 and "RACECHECK SUMMARY: 0 hazards" in said
        summaries[tool] = "clean" if clean else f"exit {code}: {said.strip()[-2000:]}"
        print(f"sanitize: {tool} over the CUDA kernels: {summaries[tool]}", flush=True)
    return summaries


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
        for tool, summary in summaries.items():
            if summary != "clean":
                print(f"{tool}: {summary}")
                good = False
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())

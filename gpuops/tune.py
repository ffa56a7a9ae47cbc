"""tune - `python -m gpuops.tune` finds the best tunables of the OpenCL devices of this machine.

Each kernel that runs unasked for one of the calls below is timed over all values of its
tunables (`sweep`). What beats the shipped values twice is written to the user's file, which
later processes read when they first use OpenCL. Nothing is ever tuned unless this is called.
The bits of results do not depend on it.
"""

from __future__ import annotations

import argparse
import math
import sys
from typing import Any

import numpy as np

from . import _core, tuned
from ._call.registry import OPS
from ._show.explain import explain
from .devices import Device, check, devices, parse
from .errors import DeviceUnavailableError
from .stencils import poisson
from .sweeps import sweep
from .timing import time_call
from .transfers import to_device

__all__: list[str] = []
LEAST = 1.03  # what a gain has to be, so that noise is not kept
MOST = 64  # of --scale: beyond it arrays would have tens of gigabytes


def _calls(device: Device, scale: float) -> list[tuple[str, tuple, dict[str, Any]]]:
    """Function, arguments and keywords; GPUs get larger arrays than CPUs."""
    large = scale * (1 if device.info.detail.startswith("CPU") else 16)
    n, side = int(large * (1 << 22)), int(math.sqrt(large) * 2048)
    a = to_device(np.ones(n, np.float32), device)
    m = to_device(np.ones((side, side), np.float32), device)
    few = max(16, side // 2)
    x = to_device(np.ones((few, few), np.float32), device)
    grid = max(8, int(math.sqrt(large) * 512))
    A = poisson((grid, grid), dtype=np.float32)
    f = to_device(np.ones(grid * grid, np.float32), device)
    g = to_device(np.ones(side, np.float32), device)
    points = np.random.default_rng(0).random((max(64, int(large * 8000)), 3)).astype(np.float32)
    pairs = {"r_max": 0.2, "bins": 100, "norm": "none"}
    return [
        ("add", (a, a), {}),
        ("multiply_add", (a, a, a), {}),
        ("transpose", (m,), {}),
        ("sum", (a,), {}),
        ("sum", (m,), {"axis": 0}),
        ("sum", (m,), {"axis": 1}),
        ("matmul", (x, x), {}),
        ("jacobi_step", (A, f, f), {"alpha": -0.1}),
        ("jacobi_step", (m, g, g), {"alpha": -0.1}),
        ("rdf", (points,), pairs),
        ("rdf", (points,), {**pairs, "box": (1, 1, 1)}),
    ]


Times = dict[tuple[tuple[str, int], ...], float]  # seconds by the values of the tunables


def _swept(calls, device: Device) -> dict[str, list[tuple[tuple, Times]]]:
    """Each kernel with tunables that runs unasked: its calls, and what each took."""
    found: dict[str, list[tuple[tuple, Times]]] = {}
    for name, args, how in calls:
        kernel = explain(name, *args, **how, device=device).kernel
        op = OPS[name][0]
        row = next(r for r in _core.ladder(op, device.backend) if r["name"] == kernel)
        if not row["tunables"]:
            continue
        table = sweep(name, *args, **how, kernel=kernel, device=device)
        times = {tuple(r.params.items()): float(r.timing.kernel) for r in table if r.timing}
        found.setdefault(f"{op}.{kernel}", []).append(((name, args, how), times))
    return found


def _gain(one: Times, values) -> float:
    """How much faster these values are than the shipped ones, which come first."""
    return one[next(iter(one))] / one[values]


def _best(timed: list[tuple[tuple, Times]]):
    """The values that all calls take of which the mean gain is the largest, and that gain."""
    allowed = set.intersection(*({*times} for _, times in timed))
    gains = {
        values: math.exp(sum(math.log(_gain(t, values)) for _, t in timed) / len(timed))
        for values in allowed
    }
    return max(gains.items(), key=lambda item: item[1]) if gains else ((), 1.0)


def _again(kernel: str, timed, values, device: Device) -> float:
    """The gain measured anew: shipped and best values by turns."""
    total = 0.0
    for (name, args, how), times in timed:
        seconds = []
        for params in (next(iter(times)), values):
            call = {**how, "device": device, "kernel": kernel, "params": dict(params)}
            seconds.append(float(time_call(name, args, call).kernel))
        total += math.log(seconds[0] / seconds[1])
    return math.exp(total / len(timed))


def tune(device: Device, scale: float = 1.0, out=sys.stdout) -> tuned.Values:
    """The values worth keeping of a device."""
    kept: tuned.Values = {}
    for word, timed in _swept(_calls(device, scale), device).items():
        values, gain = _best(timed)
        said = ", ".join(f"{k}={v}" for k, v in values)
        if gain > LEAST:
            gain = min(gain, _again(word.partition(".")[2], timed, values, device))
        if gain > LEAST:
            kept[word] = dict(values)
            said = f"{said} is {gain:.2f} times as fast as the shipped values"
        else:
            said = "the shipped values stay"
        out.write(f"{word:22} {said}\n")
        out.flush()
    return kept


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m gpuops.tune",
        description="Find the best tunables of OpenCL devices, and keep them for this user.",
    )
    parser.add_argument("device", nargs="*", help="as opencl:gpu; all of OpenCL's without it")
    parser.add_argument("--scale", type=float, default=1.0, help="of the arrays' sizes")
    instead = parser.add_mutually_exclusive_group()
    instead.add_argument("--show", action="store_true", help="only print what is kept")
    instead.add_argument("--forget", action="store_true", help="remove what is kept")
    asked = parser.parse_args(argv)
    if not 0 < asked.scale <= MOST:
        parser.error(f"--scale is above 0 and at most {MOST}, not {asked.scale}")
    chosen = []
    for word in asked.device:
        try:
            chosen.append(parse(word))
            if chosen[-1] is None or check(chosen[-1]).backend != "opencl":
                parser.error(f"only OpenCL devices are tuned, not {word!r}")
        except (ValueError, DeviceUnavailableError) as error:
            parser.error(str(error))
    chosen = chosen or [d.device for d in devices("opencl")]
    kept = tuned.read()
    for device in chosen:
        info = device.info
        key = tuned.key_of(info.name, info.detail)
        sys.stdout.write(f"{device}: {info.name}, {info.detail}\n")
        if asked.show:
            for word, values in kept.get(key, {}).items():
                sys.stdout.write(f"{word:22} {values}\n")
        elif asked.forget:
            kept.pop(key, None)
        else:
            kept[key] = tune(device, asked.scale)
    if not asked.show:
        sys.stdout.write(f"written to {tuned.write(kept)}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())

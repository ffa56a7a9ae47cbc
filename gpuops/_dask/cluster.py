"""cluster - a Dask cluster on this machine with one process for each device."""

from __future__ import annotations

import logging
import os

from ..devices import check, defaults, devices, parse, why_not
from ..errors import DeviceUnavailableError

PRELOAD = [__name__]  # whose dask_setup a process runs first


def cluster(wanted, memory_limit, dashboard_address, options):
    try:
        from dask.system import CPU_COUNT
        from distributed import Nanny, Scheduler, SpecCluster
        from distributed.system import MEMORY_LIMIT
    except ImportError as error:
        raise ImportError(
            "gpuops.dask.cluster needs Dask's distributed: "
            f"pip install 'gpuops[dask]' ({error})"
        ) from error
    places = _places(wanted)
    memory = memory_limit or MEMORY_LIMIT // len(places)
    cores = min(max(1, CPU_COUNT // len(places)), 256)
    here = {"host": "127.0.0.1"}
    options = {"name": "gpuops", "silence_logs": logging.WARNING, **options}
    quiet = {"silence_logs": options["silence_logs"]}
    workers = {
        f"{i}-{place}": {
            "cls": Nanny,
            "options": {**here, **quiet, "nthreads": 1, "memory_limit": memory,
                        "env": _environment(place, cores), "preload": PRELOAD},
        }
        for i, place in enumerate(places)
    }  # fmt: skip
    scheduler = {
        "cls": Scheduler,
        "options": {**here, "dashboard_address": dashboard_address},
    }
    return SpecCluster(workers=workers, scheduler=scheduler, **options)


def _places(wanted) -> list:
    """Devices of "cuda:*", "cuda:0,2", a name, or a sequence of such."""
    if isinstance(wanted, str):
        backend, _, which = wanted.partition(":")
        if which == "*":
            found = [d.device for d in devices(backend)]
            if not found:
                raise DeviceUnavailableError(f"cluster: {wanted}: {why_not(backend)}")
            return found
        wanted = [f"{backend}:{n.strip()}" for n in which.split(",")] if which else [wanted]
    found = [parse(name) for name in wanted]
    if not found or None in found:
        raise ValueError("cluster: devices are names such as 'cuda:*' or ['cuda:0', 'cpu']")
    return [check(device) for device in found]


def _environment(place, cores: int) -> dict[str, str]:
    """A process sees its own GPU only, so that nothing of it can land on another one."""
    own = {"GPUOPS_NUM_THREADS": str(cores)}
    if place.backend != "cuda":
        return own | {"GPUOPS_DEVICE": str(place)}
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    name = visible.split(",")[place.ordinal].strip() if visible else str(place.ordinal)
    return own | {"GPUOPS_DEVICE": "cuda", "CUDA_VISIBLE_DEVICES": name}


def dask_setup(worker) -> None:
    """Dask calls this by its name. A process reads its device here, since Dask sets the
    environment after the caller's script is imported, which may have imported gpuops."""
    defaults["environment"] = os.environ["GPUOPS_DEVICE"]

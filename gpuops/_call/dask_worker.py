"""dask_worker - what a process of `gpuops.dask.cluster` runs first: it reads its device.

Dask sets the environment of a process after this has imported the caller's script, which may
have imported gpuops.
"""

import os

from ..devices import defaults


def dask_setup(worker) -> None:
    """Dask calls this by its name."""
    defaults["environment"] = os.environ["GPUOPS_DEVICE"]

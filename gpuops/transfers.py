"""transfers - to_device: an array of the host's on a device."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from . import _core
from ._call.road import operand
from .arrays import DeviceArray
from .devices import CPU, Device, check, is_available, parse
from .errors import DeviceUnavailableError

if TYPE_CHECKING:
    from .device_facts import DeviceInfo


def to_device(a: Any, device: str | Device | DeviceInfo = "cuda") -> DeviceArray:
    """Copies an array to a device.

    Parameters
    ----------
    a : array_like
        Any dtype that gpuops computes with. A DeviceArray that is there already is returned.
    device : str, Device or DeviceInfo
        "cuda" by default; "auto" is the CPU where there is no GPU.

    Returns
    -------
    DeviceArray

    Raises
    ------
    DeviceUnavailableError
        The device is not there; the sentence says why.
    DeviceMemoryError
        It is full; `requested`, `free` and `total` are in bytes.

    Examples
    --------
    >>> import numpy as np, gpuops
    >>> x = gpuops.to_device(np.ones(3, np.float32), "cpu")
    >>> gpuops.add(x, x).get()
    array([2., 2., 2.], dtype=float32)
    """
    where = parse(device)
    if where is None:
        where = CPU if not is_available("cuda") else Device("cuda")
    try:
        check(where)
    except DeviceUnavailableError as error:
        raise DeviceUnavailableError(
            f"to_device: {error}; without a GPU to_device(a, 'cpu') or to_device(a, 'sim') "
            "gives the same kind of array"
        ) from None
    a = operand("to_device", "a", a)
    if isinstance(a, DeviceArray):
        if a.device == where:
            return a
        a = a.get()
    return DeviceArray(_core.upload(a, (where.backend, where.ordinal)))

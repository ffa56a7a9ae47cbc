"""The typed door to the C core; the package's own functions are the public ones."""

from collections.abc import Callable
from types import ModuleType
from typing import Any, Final, Self, final

import numpy as np

_Place = tuple[str, int]

@final
class Buffer:
    @property
    def dtype(self) -> np.dtype: ...
    @property
    def shape(self) -> tuple[int, ...]: ...
    @property
    def strides(self) -> tuple[int, ...]: ...
    @property
    def ptr(self) -> int: ...
    @property
    def device(self) -> _Place: ...
    @property
    def nbytes(self) -> int: ...
    @property
    def readonly(self) -> bool: ...
    def get(self) -> np.ndarray: ...
    def dlpack(self, stream: int | None = None, versioned: bool = False, /) -> Any: ...

class Handle:
    _buffer: Final[Buffer]
    _kind: Final[str | None]
    def __new__(cls, buffer: Buffer, kind: str | None = None) -> Self: ...

_Operand = np.ndarray | Buffer | Handle

def run(
    op: str,
    inputs: tuple[_Operand, ...],
    params: dict[str, Any] | None,
    out: _Operand | None,
    device: object,
    kernel: str | None,
    tunables: dict[str, int] | None,
    /,
) -> Any: ...
def quick(
    op: str,
    params: dict[str, Any] | None,
    out: Any,
    device: Any,
    kernel: Any,
    tunables: Any,
    /,
    *operands: Any,
) -> Any: ...
def front(module: ModuleType, function: Callable[..., Any], text: str, /) -> Any: ...
def setup(devices: Any, arrays: Any, /) -> None: ...
def plan(
    op: str,
    inputs: tuple[_Operand, ...],
    params: dict[str, Any] | None,
    out: _Operand | None,
    device: object,
    kernel: str | None,
    tunables: dict[str, int] | None,
    /,
) -> dict[str, Any]: ...
def time(
    op: str,
    inputs: tuple[_Operand, ...],
    params: dict[str, Any] | None,
    out: _Operand | None,
    device: object,
    kernel: str | None,
    tunables: dict[str, int] | None,
    n_warmup: int,
    n_repeat: int,
    cold: bool,
    /,
) -> dict[str, Any]: ...
def choose(
    op: str,
    inputs: tuple[_Operand, ...],
    params: dict[str, Any] | None,
    device: object,
    kernel: str | None,
    /,
) -> _Place: ...
def infer(
    op: str, inputs: tuple[_Operand, ...], params: dict[str, Any] | None = None, /
) -> tuple[np.dtype, tuple[int, ...]]: ...
def ladder(op: str, backend: str, /) -> list[dict[str, Any]]: ...
def ops() -> dict[str, str]: ...
def reductions() -> list[str]: ...
def devices(backend: str, /) -> list[dict[str, Any]]: ...
def load_backend(name: str, path: str, /) -> None: ...
def profile(backend: str, start: bool, /) -> str: ...
def threads() -> int: ...
def set_threads(count: int | None, /) -> None: ...
def cpu_level() -> str: ...
def cpu_levels() -> list[str]: ...
def set_cpu_level(name: str | None, /) -> None: ...
def register_bfloat16(dtype: Any, /) -> None: ...
def set_fault(spec: str | None, /) -> None: ...
def upload(array: np.ndarray, device: _Place, /) -> Buffer: ...
def empty(shape: tuple[int, ...], dtype: Any, device: _Place, /) -> Buffer: ...
def borrow(
    ptr: int,
    shape: tuple[int, ...],
    strides: tuple[int, ...] | None,
    dtype: Any,
    device: _Place,
    owner: Any,
    readonly: bool,
    /,
) -> Buffer: ...
def order(device: _Place, first: int, then: int, /) -> None: ...
def wait(device: _Place, /) -> None: ...
def from_dlpack(capsule: Any, /) -> Buffer: ...
def load_module(device: _Place, image: bytes, /) -> Any: ...
def launch(
    module: Any,
    name: str,
    symbol: str,
    grid: tuple[int, int, int],
    block: tuple[int, int, int],
    shared: int,
    arguments: tuple[_Operand, ...],
    /,
) -> None: ...

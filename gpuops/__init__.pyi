"""What type checkers and editors see of gpuops; the functions themselves have the words.

An array gives an array of its library, `out` itself if it was given, and a scalar where NumPy
would give one.
"""

from collections.abc import Callable, Sequence
from types import EllipsisType
from typing import (
    Any,
    Literal,
    Protocol,
    SupportsIndex,
    TypedDict,
    TypeVar,
    Unpack,
    overload,
)

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray

from . import course as course
from . import errors as errors
from ._show.explain import Explanation as Explanation
from ._show.explain import explain as explain
from ._show.jacobi_result import JacobiResult as JacobiResult
from ._show.rdf_result import FirstShell as FirstShell
from ._show.rdf_result import RdfResult as RdfResult
from ._show.roofline import roofline as roofline
from .arrays import DeviceArray as DeviceArray
from .compiling import CompiledKernel as CompiledKernel
from .compiling import Program as Program
from .compiling import compile as compile
from .config import get_num_threads as get_num_threads
from .config import set_num_threads as set_num_threads
from .config import show_config as show_config
from .device_facts import DeviceInfo as DeviceInfo
from .devices import Device as Device
from .devices import device as device
from .devices import devices as devices
from .devices import get_default_device as get_default_device
from .devices import is_available as is_available
from .devices import set_default_device as set_default_device
from .errors import CompileError as CompileError
from .errors import DeviceError as DeviceError
from .errors import DeviceLostError as DeviceLostError
from .errors import DeviceMemoryError as DeviceMemoryError
from .errors import DeviceUnavailableError as DeviceUnavailableError
from .errors import Error as Error
from .errors import KernelRefusedError as KernelRefusedError
from .errors import SimWarning as SimWarning
from .errors import UnsupportedDeviceError as UnsupportedDeviceError
from .ladders import Ladder as Ladder
from .ladders import ladder as ladder
from .limits import Occupancy as Occupancy
from .limits import occupancy as occupancy
from .listing import Kernel as Kernel
from .listing import kernels as kernels
from .listing import source as source
from .merging import State as State
from .merging import finish as finish
from .merging import merge as merge
from .merging import states as states
from .profiling import Profile as Profile
from .profiling import profile as profile
from .scheduling import schedule as schedule
from .sparse import SparseMatrix as SparseMatrix
from .sparse import sparse as sparse
from .stencils import Stencil as Stencil
from .stencils import poisson as poisson
from .stencils import stencil as stencil
from .sweeps import Sweep as Sweep
from .sweeps import sweep as sweep
from .timing import Timer as Timer
from .timing import Timing as Timing
from .timing import benchmark as benchmark
from .transfers import to_device as to_device

__version__: str

class _OnDevice(Protocol):
    """Arrays of CuPy, PyTorch and Numba, and DeviceArray."""

    @property
    def __cuda_array_interface__(self) -> Any: ...

_T = TypeVar("_T", bound=np.generic)
_A = TypeVar("_A", bound=_OnDevice)
_O = TypeVar("_O", bound=NDArray[Any] | _OnDevice)
_In = ArrayLike | _OnDevice
_Scalar = complex | np.generic
_DType = DTypeLike | None
_Axis = SupportsIndex | tuple[SupportsIndex, ...] | None
_Axes = Sequence[int] | NDArray[np.integer[Any]] | None
_New = EllipsisType | None
_Precision = Literal["highest", "fast", "tf32", "bf16"] | None
_Word = Literal["sum", "prod", "min", "max", "mean", "any", "all", "argmin", "argmax"]

class _On(TypedDict, total=False):
    """The keywords with which every call ends."""

    device: str | Device | DeviceInfo | None
    kernel: str | Kernel | None
    params: dict[str, int] | None

# fmt: off
@overload
def add(a: _In, b: _In, out: _O | tuple[_O], **on: Unpack[_On]) -> _O: ...
@overload
def add(a: NDArray[_T], b: NDArray[_T], out: _New = None,
        **on: Unpack[_On]) -> NDArray[_T]: ...
@overload
def add(a: _A, b: _In, out: _New = None, **on: Unpack[_On]) -> _A: ...
@overload
def add(a: ArrayLike, b: _A, out: _New = None, **on: Unpack[_On]) -> _A: ...
@overload
def add(a: _Scalar, b: _Scalar, out: None = None, **on: Unpack[_On]) -> Any: ...
@overload
def add(a: ArrayLike, b: ArrayLike, out: _New = None,
        **on: Unpack[_On]) -> NDArray[Any]: ...
@overload
def multiply_add(a: _In, b: _In, c: _In, out: _O | tuple[_O], **on: Unpack[_On]) -> _O: ...
@overload
def multiply_add(a: NDArray[_T], b: NDArray[_T], c: NDArray[_T], out: _New = None,
        **on: Unpack[_On]) -> NDArray[_T]: ...
@overload
def multiply_add(a: _A, b: _In, c: _In, out: _New = None, **on: Unpack[_On]) -> _A: ...
@overload
def multiply_add(a: ArrayLike, b: _A, c: _In, out: _New = None,
        **on: Unpack[_On]) -> _A: ...
@overload
def multiply_add(a: ArrayLike, b: ArrayLike, c: _A, out: _New = None,
        **on: Unpack[_On]) -> _A: ...
@overload
def multiply_add(a: _Scalar, b: _Scalar, c: _Scalar, out: None = None,
        **on: Unpack[_On]) -> Any: ...
@overload
def multiply_add(a: ArrayLike, b: ArrayLike, c: ArrayLike, out: _New = None,
        **on: Unpack[_On]) -> NDArray[Any]: ...
@overload
def fma(a: _In, b: _In, c: _In, out: _O | tuple[_O], **on: Unpack[_On]) -> _O: ...
@overload
def fma(a: NDArray[_T], b: NDArray[_T], c: NDArray[_T], out: _New = None,
        **on: Unpack[_On]) -> NDArray[_T]: ...
@overload
def fma(a: _A, b: _In, c: _In, out: _New = None, **on: Unpack[_On]) -> _A: ...
@overload
def fma(a: ArrayLike, b: _A, c: _In, out: _New = None, **on: Unpack[_On]) -> _A: ...
@overload
def fma(a: ArrayLike, b: ArrayLike, c: _A, out: _New = None, **on: Unpack[_On]) -> _A: ...
@overload
def fma(a: _Scalar, b: _Scalar, c: _Scalar, out: None = None, **on: Unpack[_On]) -> Any: ...
@overload
def fma(a: ArrayLike, b: ArrayLike, c: ArrayLike, out: _New = None,
        **on: Unpack[_On]) -> NDArray[Any]: ...
@overload
def matmul(a: _In, b: _In, out: _O | tuple[_O], *, precision: _Precision = None,
        **on: Unpack[_On]) -> _O: ...
@overload
def matmul(a: NDArray[_T], b: NDArray[_T], out: _New = None, *, precision: _Precision = None,
        **on: Unpack[_On]) -> NDArray[_T]: ...
@overload
def matmul(a: _A, b: _In, out: _New = None, *, precision: _Precision = None,
        **on: Unpack[_On]) -> _A: ...
@overload
def matmul(a: ArrayLike, b: _A, out: _New = None, *, precision: _Precision = None,
        **on: Unpack[_On]) -> _A: ...
@overload
def matmul(a: ArrayLike, b: ArrayLike, out: _New = None, *, precision: _Precision = None,
        **on: Unpack[_On]) -> NDArray[Any]: ...
@overload
def transpose(a: _In, axes: _Axes = None, *, out: _O | tuple[_O],
        **on: Unpack[_On]) -> _O: ...
@overload
def transpose(a: NDArray[_T], axes: _Axes = None, *, out: _New = None,
        **on: Unpack[_On]) -> NDArray[_T]: ...
@overload
def transpose(a: _A, axes: _Axes = None, *, out: _New = None,
        **on: Unpack[_On]) -> _A: ...
@overload
def transpose(a: ArrayLike, axes: _Axes = None, *, out: _New = None,
        **on: Unpack[_On]) -> NDArray[Any]: ...
@overload
def jacobi_step(A: Any, f: _In, x: _In, *, alpha: _Scalar | None = None,
        omega: float | None = None, out: _O | tuple[_O], **on: Unpack[_On]) -> _O: ...
@overload
def jacobi_step(A: Any, f: ArrayLike, x: ArrayLike, *, alpha: _Scalar | None = None,
        omega: float | None = None, out: _New = None, **on: Unpack[_On]) -> NDArray[Any]: ...
@overload
def jacobi_step(A: Any, f: _A, x: _A, *, alpha: _Scalar | None = None,
        omega: float | None = None, out: _New = None, **on: Unpack[_On]) -> _A: ...
@overload
def reduce(a: _In, op: _Word | Callable[..., Any] = "sum", axis: _Axis = None,
        dtype: _DType = None, *, out: _O | tuple[_O], keepdims: bool = False,
        initial: _Scalar | None = ..., where: _In = ...,
        exact: bool = False, **on: Unpack[_On]) -> _O: ...
@overload
def reduce(a: _A, op: _Word | Callable[..., Any] = "sum", axis: _Axis = None,
        dtype: _DType = None, out: _New = None, keepdims: bool = False,
        initial: _Scalar | None = ..., where: _In = ...,
        exact: bool = False, **on: Unpack[_On]) -> _A: ...
@overload
def reduce(a: ArrayLike, op: _Word | Callable[..., Any] = "sum", axis: None = None,
        dtype: _DType = None, out: None = None, keepdims: Literal[False] = False,
        initial: _Scalar | None = ..., where: _In = ...,
        exact: bool = False, **on: Unpack[_On]) -> Any: ...
@overload
def reduce(a: ArrayLike, op: _Word | Callable[..., Any] = "sum", axis: _Axis = None,
        dtype: _DType = None, out: _New = None, keepdims: bool = False,
        initial: _Scalar | None = ..., where: _In = ...,
        exact: bool = False, **on: Unpack[_On]) -> NDArray[Any]: ...
@overload
def sum(a: _In, axis: _Axis = None, dtype: _DType = None, *, out: _O | tuple[_O],
        keepdims: bool = False, initial: _Scalar | None = ..., where: _In = ...,
        exact: bool = False, **on: Unpack[_On]) -> _O: ...
@overload
def sum(a: _A, axis: _Axis = None, dtype: _DType = None, out: _New = None,
        keepdims: bool = False, initial: _Scalar | None = ..., where: _In = ...,
        exact: bool = False, **on: Unpack[_On]) -> _A: ...
@overload
def sum(a: ArrayLike, axis: None = None, dtype: _DType = None, out: None = None,
        keepdims: Literal[False] = False, initial: _Scalar | None = ..., where: _In = ...,
        exact: bool = False, **on: Unpack[_On]) -> Any: ...
@overload
def sum(a: ArrayLike, axis: _Axis = None, dtype: _DType = None, out: _New = None,
        keepdims: bool = False, initial: _Scalar | None = ..., where: _In = ...,
        exact: bool = False, **on: Unpack[_On]) -> NDArray[Any]: ...
@overload
def prod(a: _In, axis: _Axis = None, dtype: _DType = None, *, out: _O | tuple[_O],
        keepdims: bool = False, initial: _Scalar | None = ..., where: _In = ...,
        **on: Unpack[_On]) -> _O: ...
@overload
def prod(a: _A, axis: _Axis = None, dtype: _DType = None, out: _New = None,
        keepdims: bool = False, initial: _Scalar | None = ..., where: _In = ...,
        **on: Unpack[_On]) -> _A: ...
@overload
def prod(a: ArrayLike, axis: None = None, dtype: _DType = None, out: None = None,
        keepdims: Literal[False] = False, initial: _Scalar | None = ..., where: _In = ...,
        **on: Unpack[_On]) -> Any: ...
@overload
def prod(a: ArrayLike, axis: _Axis = None, dtype: _DType = None, out: _New = None,
        keepdims: bool = False, initial: _Scalar | None = ..., where: _In = ...,
        **on: Unpack[_On]) -> NDArray[Any]: ...
@overload
def min(a: _In, axis: _Axis = None, *, out: _O | tuple[_O], keepdims: bool = False,
        initial: _Scalar | None = ..., where: _In = ..., **on: Unpack[_On]) -> _O: ...
@overload
def min(a: _A, axis: _Axis = None, out: _New = None, keepdims: bool = False,
        initial: _Scalar | None = ..., where: _In = ..., **on: Unpack[_On]) -> _A: ...
@overload
def min(a: NDArray[_T], axis: None = None, out: None = None,
        keepdims: Literal[False] = False, initial: _Scalar | None = ..., where: _In = ...,
        **on: Unpack[_On]) -> _T: ...
@overload
def min(a: NDArray[_T], axis: _Axis = None, out: _New = None,
        keepdims: bool = False, initial: _Scalar | None = ..., where: _In = ...,
        **on: Unpack[_On]) -> NDArray[_T]: ...
@overload
def min(a: ArrayLike, axis: None = None, out: None = None, keepdims: Literal[False] = False,
        initial: _Scalar | None = ..., where: _In = ..., **on: Unpack[_On]) -> Any: ...
@overload
def min(a: ArrayLike, axis: _Axis = None, out: _New = None, keepdims: bool = False,
        initial: _Scalar | None = ..., where: _In = ...,
        **on: Unpack[_On]) -> NDArray[Any]: ...
@overload
def max(a: _In, axis: _Axis = None, *, out: _O | tuple[_O], keepdims: bool = False,
        initial: _Scalar | None = ..., where: _In = ..., **on: Unpack[_On]) -> _O: ...
@overload
def max(a: _A, axis: _Axis = None, out: _New = None, keepdims: bool = False,
        initial: _Scalar | None = ..., where: _In = ..., **on: Unpack[_On]) -> _A: ...
@overload
def max(a: NDArray[_T], axis: None = None, out: None = None,
        keepdims: Literal[False] = False, initial: _Scalar | None = ..., where: _In = ...,
        **on: Unpack[_On]) -> _T: ...
@overload
def max(a: NDArray[_T], axis: _Axis = None, out: _New = None,
        keepdims: bool = False, initial: _Scalar | None = ..., where: _In = ...,
        **on: Unpack[_On]) -> NDArray[_T]: ...
@overload
def max(a: ArrayLike, axis: None = None, out: None = None, keepdims: Literal[False] = False,
        initial: _Scalar | None = ..., where: _In = ..., **on: Unpack[_On]) -> Any: ...
@overload
def max(a: ArrayLike, axis: _Axis = None, out: _New = None, keepdims: bool = False,
        initial: _Scalar | None = ..., where: _In = ...,
        **on: Unpack[_On]) -> NDArray[Any]: ...
@overload
def mean(a: _In, axis: _Axis = None, dtype: _DType = None, *, out: _O | tuple[_O],
        keepdims: bool = False, where: _In = ...,
        exact: bool = False, **on: Unpack[_On]) -> _O: ...
@overload
def mean(a: _A, axis: _Axis = None, dtype: _DType = None, out: _New = None,
        keepdims: bool = False, where: _In = ...,
        exact: bool = False, **on: Unpack[_On]) -> _A: ...
@overload
def mean(a: ArrayLike, axis: None = None, dtype: _DType = None, out: None = None,
        keepdims: Literal[False] = False, where: _In = ...,
        exact: bool = False, **on: Unpack[_On]) -> Any: ...
@overload
def mean(a: ArrayLike, axis: _Axis = None, dtype: _DType = None, out: _New = None,
        keepdims: bool = False, where: _In = ...,
        exact: bool = False, **on: Unpack[_On]) -> NDArray[Any]: ...
@overload
def any(a: _In, axis: _Axis = None, *, out: _O | tuple[_O], keepdims: bool = False,
        where: _In = ..., **on: Unpack[_On]) -> _O: ...
@overload
def any(a: _A, axis: _Axis = None, out: _New = None, keepdims: bool = False,
        where: _In = ..., **on: Unpack[_On]) -> _A: ...
@overload
def any(a: ArrayLike, axis: None = None, out: None = None, keepdims: Literal[False] = False,
        where: _In = ..., **on: Unpack[_On]) -> np.bool: ...
@overload
def any(a: ArrayLike, axis: _Axis = None, out: _New = None, keepdims: bool = False,
        where: _In = ..., **on: Unpack[_On]) -> NDArray[np.bool]: ...
@overload
def all(a: _In, axis: _Axis = None, *, out: _O | tuple[_O], keepdims: bool = False,
        where: _In = ..., **on: Unpack[_On]) -> _O: ...
@overload
def all(a: _A, axis: _Axis = None, out: _New = None, keepdims: bool = False,
        where: _In = ..., **on: Unpack[_On]) -> _A: ...
@overload
def all(a: ArrayLike, axis: None = None, out: None = None, keepdims: Literal[False] = False,
        where: _In = ..., **on: Unpack[_On]) -> np.bool: ...
@overload
def all(a: ArrayLike, axis: _Axis = None, out: _New = None, keepdims: bool = False,
        where: _In = ..., **on: Unpack[_On]) -> NDArray[np.bool]: ...
@overload
def argmin(a: _In, axis: SupportsIndex | None = None, *, out: _O | tuple[_O],
        keepdims: bool = False, **on: Unpack[_On]) -> _O: ...
@overload
def argmin(a: _A, axis: SupportsIndex | None = None, out: _New = None,
        keepdims: bool = False, **on: Unpack[_On]) -> _A: ...
@overload
def argmin(a: ArrayLike, axis: None = None, out: None = None,
        keepdims: Literal[False] = False, **on: Unpack[_On]) -> np.int64: ...
@overload
def argmin(a: ArrayLike, axis: SupportsIndex | None = None, out: _New = None,
        keepdims: bool = False, **on: Unpack[_On]) -> NDArray[np.int64]: ...
@overload
def argmax(a: _In, axis: SupportsIndex | None = None, *, out: _O | tuple[_O],
        keepdims: bool = False, **on: Unpack[_On]) -> _O: ...
@overload
def argmax(a: _A, axis: SupportsIndex | None = None, out: _New = None,
        keepdims: bool = False, **on: Unpack[_On]) -> _A: ...
@overload
def argmax(a: ArrayLike, axis: None = None, out: None = None,
        keepdims: Literal[False] = False, **on: Unpack[_On]) -> np.int64: ...
@overload
def argmax(a: ArrayLike, axis: SupportsIndex | None = None, out: _New = None,
        keepdims: bool = False, **on: Unpack[_On]) -> NDArray[np.int64]: ...
def load_ipython_extension(shell: Any) -> None: ...
def jacobi(A: Any, f: _In, x0: _In | None = None, *, alpha: _Scalar | None = None,
        omega: float | None = None, rtol: float = 1e-05, atol: float = 0.0,
        maxiter: int = 1000, dtol: float = 1e5, check_every: int = 1,
        callback: Callable[[Any], Any] | None = None, progress: bool = False,
        **on: Unpack[_On]) -> JacobiResult: ...
def rdf(points: Any, r_max: float | None = None, bins: int | ArrayLike = 100, *,
        r_min: float = 0.0, points2: Any = None, types: Any = None, exclude: Any = None,
        box: ArrayLike | None = None, norm: Literal["rdf", "density", "none"] | None = None,
        frames: slice | int | Sequence[int] | NDArray[Any] | None = None,
        progress: bool = False, **on: Unpack[_On]) -> RdfResult: ...

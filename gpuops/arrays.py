"""arrays - DeviceArray, and the way in and out for the arrays of other GPU libraries.

A DeviceArray is memory on a device with a shape and a dtype: no operators, no indexing. The
arrays of CuPy, PyTorch, JAX and Numba are borrowed without a copy, by DLPack where they speak
it and by __cuda_array_interface__ otherwise, and results go back as arrays of the same library.
None of these libraries is imported here: an array of theirs can only exist if its library is.

Device arrays are used in the order of CUDA's default stream. A call on them returns when its
work is enqueued there; it comes after what the library of a borrowed array has enqueued for it
so far, and before what that library enqueues later.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any, NoReturn, Self

import numpy as np

from . import _core
from ._call.dtypes import cast_host, dtype_of
from .devices import Device, at, open_backend
from .errors import flag

_FUNCTIONS = {
    "T", "mT", "transpose", "sum", "prod", "min", "max", "mean", "any", "all", "argmin",
    "argmax",
}  # fmt: skip

_CPU, _CUDA, _MANAGED = 1, 2, 13  # DLPack's device types
_DEFAULT_STREAM = 1  # as DLPack and __cuda_array_interface__ number CUDA's


class DeviceArray(_core.Handle):
    """An array in a device's memory; made by `to_device`, brought back by `get`.

    Every function of gpuops takes it, and then returns a DeviceArray, too. On a GPU such a call
    returns once its work is enqueued; calls are computed in their order, and `get` waits. Other
    libraries take the array through DLPack (`cupy.from_dlpack(x)`) or
    `__cuda_array_interface__`.

    Examples
    --------
    >>> import numpy as np, gpuops
    >>> x = gpuops.to_device(np.arange(6.0).reshape(2, 3), "cpu")
    >>> x
    <DeviceArray (2, 3) float64 on cpu>
    >>> gpuops.sum(x, axis=0).get()
    array([3., 5., 7.])
    """

    __slots__ = ("__weakref__",)
    __array_ufunc__ = None  # NumPy's operators then leave the call to ours, which explain

    def __copy__(self) -> Self:  # of the same memory
        return type(self)(self._buffer, self._kind)

    def __reduce__(self) -> NoReturn:
        raise TypeError(
            "DeviceArray: it lies in a device's memory and has no copy outside; get() brings "
            "its values back as a NumPy array"
        )

    @property
    def shape(self) -> tuple[int, ...]:
        """The extents of its axes."""
        return self._buffer.shape

    @property
    def strides(self) -> tuple[int, ...]:
        """Bytes from one element to the next along each axis."""
        return self._buffer.strides

    @property
    def dtype(self) -> np.dtype:
        """The NumPy dtype of its elements."""
        return self._buffer.dtype

    @property
    def ndim(self) -> int:
        """The number of its axes."""
        return len(self._buffer.shape)

    @property
    def size(self) -> int:
        """The number of its elements."""
        size = 1
        for n in self._buffer.shape:
            size *= n
        return size

    @property
    def nbytes(self) -> int:
        """Bytes of its elements."""
        return self.size * self.dtype.itemsize

    @property
    def device(self) -> Device:
        """Where its memory is."""
        return at(self._buffer.device)

    def get(self) -> np.ndarray:
        """A NumPy copy; it waits until earlier calls on the array are done."""
        return self._buffer.get()

    def astype(self, dtype: Any, *, casting: str = "unsafe", copy: bool = True) -> Self:
        """The values in another dtype, as NumPy casts them, on the same device.

        A cast goes by way of the host's memory and waits for it.

        Parameters
        ----------
        dtype : dtype
            A dtype that gpuops computes with.
        casting : {"no", "equiv", "safe", "same_kind", "unsafe"}, optional
            Which casts are allowed.
        copy : bool, optional
            False: an array that has the dtype already is returned as it is.

        Returns
        -------
        DeviceArray
            C-contiguous.

        Raises
        ------
        TypeError
            There is no such dtype, or the rule forbids the cast.

        Examples
        --------
        >>> import numpy as np, gpuops
        >>> image = gpuops.to_device(np.arange(4, dtype=np.uint8), "cpu")
        >>> gpuops.multiply_add(image.astype("f4"), 0.5, 1.0).get()
        array([1. , 1.5, 2. , 2.5], dtype=float32)
        """
        wanted, copy = dtype_of("astype", dtype), flag("astype", "copy", copy)
        if not np.can_cast(self.dtype, wanted, casting):
            raise TypeError(
                f"astype: {self.dtype} cannot be cast to {wanted} by the rule {casting!r}"
            )
        if self.dtype != wanted:
            place = self.device.backend, self.device.ordinal
            return type(self)(_core.upload(cast_host("astype", self.get(), wanted), place))
        return type(self)(self._copied()) if copy else self

    def _copied(self) -> _core.Buffer:
        """Its elements in memory of its own on the device, in C order."""
        place = self._buffer.device
        buffer = _core.empty(self.shape, self.dtype, place)
        params = {"axes": tuple(range(self.ndim))}
        out = DeviceArray(buffer)
        _core.run("transpose", (self._buffer,), params, out, place, None, None)
        return buffer

    def __len__(self) -> int:
        if not self.shape:
            raise TypeError("len() of a 0-d DeviceArray")
        return self.shape[0]

    def __repr__(self) -> str:
        return f"<DeviceArray {self.shape} {self.dtype.name} on {self.device}>"

    # ---- to other libraries ----

    def __dlpack_device__(self) -> tuple[int, int]:
        backend, ordinal = self._buffer.device
        return (_CUDA if backend == "cuda" else _CPU, ordinal)

    def __dlpack__(self, *, stream=None, max_version=None, dl_device=None, copy=None):
        if dl_device is not None and tuple(dl_device) != self.__dlpack_device__():
            if tuple(dl_device) != (_CPU, 0):
                raise BufferError(
                    f"DeviceArray on {self.device} cannot go to device {dl_device}"
                )
            if copy is False:
                raise BufferError(
                    f"DeviceArray on {self.device} gets to the CPU only by a copy"
                )
            return self.get().__dlpack__(max_version=max_version)
        buffer = self._copied() if copy else self._buffer
        if stream == 0:
            raise ValueError("DeviceArray: stream 0 is ambiguous; 1 is CUDA's default stream")
        # None means the default stream, -1 that the consumer wants no order at all.
        after = None if stream == -1 else (1 if stream is None else stream)
        return buffer.dlpack(after, max_version is not None and max_version[0] >= 1)

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        if self._buffer.device[0] != "cuda" or self.dtype.kind == "V":
            raise AttributeError("__cuda_array_interface__")
        return {
            "shape": self.shape,
            "typestr": self.dtype.str,
            "data": (self._buffer.ptr, self._buffer.readonly),
            "strides": self.strides,
            "version": 3,
            "stream": _DEFAULT_STREAM,
        }

    # ---- what it does not do ----

    def __array__(self, dtype=None, copy=None) -> NoReturn:
        raise TypeError("a DeviceArray does not become a NumPy array by itself: use .get()")

    def __bool__(self) -> NoReturn:
        raise TypeError("a DeviceArray has no truth value: use .get()")

    def __iter__(self) -> NoReturn:
        raise TypeError("a DeviceArray cannot be iterated over: use .get()")

    def __getitem__(self, index) -> NoReturn:
        raise TypeError("a DeviceArray has no indexing: use .get(), or CuPy through DLPack")

    __hash__ = object.__hash__

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> NoReturn:
            way = "gpuops.transpose(a)" if name in ("T", "mT") else f"gpuops.{name}(a)"
            if name not in _FUNCTIONS:
                way = f"a.get().{name}" if hasattr(np.ndarray, name) else ""
            advice = f": use {way}" if way else ""
            raise AttributeError(f"a DeviceArray has no attribute {name!r}{advice}")


def _refuse(symbol: str, function: str):
    def operator(self, *others) -> NoReturn:
        way = function
        if self.dtype.kind == "u":  # which has no -1 but is computed modulo
            way = way.replace("-1", str(np.iinfo(self.dtype).max))
        raise TypeError(f"a DeviceArray has no operator {symbol}: use {way}")

    return operator


_OTHERWISE = "CuPy through DLPack, or .get()"
_INSTEAD = {
    "+": "gpuops.add(a, b)", "-": "gpuops.multiply_add(b, -1, a)",
    "*": "gpuops.multiply_add(a, b, 0)", "@": "gpuops.matmul(a, b)",
}  # fmt: skip
for _name, _symbol in (
    ("add", "+"), ("sub", "-"), ("mul", "*"), ("matmul", "@"), ("truediv", "/"),
    ("floordiv", "//"), ("mod", "%"), ("pow", "**"), ("and", "&"), ("or", "|"), ("xor", "^"),
    ("lshift", "<<"), ("rshift", ">>"),
):  # fmt: skip
    for _prefix in ("", "r", "i"):
        _refused = _refuse(_symbol, _INSTEAD.get(_symbol, _OTHERWISE))
        setattr(DeviceArray, f"__{_prefix}{_name}__", _refused)
for _name, _symbol in (
    ("neg", "-"), ("pos", "+"), ("invert", "~"), ("abs", "abs()"), ("lt", "<"), ("le", "<="),
    ("gt", ">"), ("ge", ">="), ("eq", "=="), ("ne", "!="), ("setitem", "[] ="),
    ("contains", "in"),
):  # fmt: skip
    setattr(DeviceArray, f"__{_name}__", _refuse(_symbol, _OTHERWISE))
for _name in ("float", "int", "complex"):
    setattr(DeviceArray, f"__{_name}__", _refuse(f"{_name}()", f"{_name}(a.get())"))


# ---- from other libraries ----


def is_foreign(x) -> bool:
    """True for an object that says its memory is a CUDA device's, or that NumPy cannot read.

    The latter are PyTorch's tensors of bfloat16, wherever they live.
    """
    probe = getattr(type(x), "__dlpack_device__", None)
    if probe is not None:
        try:
            return probe(x)[0] in (_CUDA, _MANAGED) or _is_their_bfloat16(x)
        except Exception:  # a producer may fail in its own way; NumPy then gets its turn
            return False
    return type(x).__module__ != "numpy" and hasattr(x, "__cuda_array_interface__")


def _is_their_bfloat16(x) -> bool:
    dtype = getattr(x, "dtype", None)
    return not isinstance(dtype, np.dtype) and str(dtype).endswith("bfloat16")


def borrow(op: str, name: str, x) -> DeviceArray:
    """A DeviceArray over the memory of another library's array, which stays its owner."""
    taken = _core.foreign(x)
    if taken is not None:
        return taken
    kind = type(x).__module__.partition(".")[0].removesuffix("lib")
    on_host = hasattr(x, "__dlpack_device__") and x.__dlpack_device__()[0] == _CPU
    if not on_host:
        open_backend("cuda")
    try:
        # CuPy's DLPack tells negative strides wrongly, its interface does not.
        is_backwards = kind == "cupy" and min(getattr(x, "strides", ()), default=0) < 0
        if hasattr(x, "__dlpack__") and not is_backwards:
            stream = None if on_host else _DEFAULT_STREAM
            return DeviceArray(_core.from_dlpack(_capsule(x, kind, stream)), kind)
        return DeviceArray(_borrow_interface(x), kind)
    except (TypeError, ValueError, BufferError) as error:
        raise type(error)(f"{op}: {name}: {error}") from error


def _capsule(x, kind: str, stream: int | None):
    # PyTorch exports only what lies on its current GPU.
    if kind == "torch" and stream is not None:
        with sys.modules["torch"].cuda.device(x.__dlpack_device__()[1]):
            return _exported(x, stream)
    return _exported(x, stream)


def _exported(x, stream: int | None):
    if hasattr(x, "is_neg") and x.is_neg():  # PyTorch would export it with the wrong sign
        raise BufferError("its negative bit is set, pass tensor.resolve_neg()")
    # The producer makes the stream wait for the work that fills the array.
    try:
        return x.__dlpack__(stream=stream, max_version=(1, 1))
    except TypeError:
        return x.__dlpack__(stream=stream)


def _borrow_interface(x) -> _core.Buffer:
    facts = x.__cuda_array_interface__
    if not isinstance(facts, dict) or not {"data", "shape", "typestr"} <= facts.keys():
        raise ValueError("its __cuda_array_interface__ is no dict with data, shape and typestr")
    if facts.get("mask") is not None:
        raise TypeError("its mask would be ignored")
    if facts.get("stream") == 0:
        raise ValueError("__cuda_array_interface__ has stream 0, which the protocol forbids")
    pointer, readonly = facts["data"]
    # Version 2 has no stream: the default one is the safe guess.
    after = facts.get("stream") or _DEFAULT_STREAM
    buffer = _core.borrow(
        pointer or 0,
        tuple(facts["shape"]),
        facts.get("strides"),
        np.dtype(facts["typestr"]),
        ("cuda", 0),
        x,
        bool(readonly),
    )
    _core.order(buffer.device, after, _DEFAULT_STREAM)
    return buffer


def let_go(kind: str, place: tuple[str, int]) -> None:
    """What the library of a borrowed array enqueues from here on comes after our work."""
    if kind == "torch":
        stream = sys.modules["torch"].cuda.current_stream(place[1]).cuda_stream
    elif kind == "cupy":
        with sys.modules["cupy"].cuda.Device(place[1]):
            stream = sys.modules["cupy"].cuda.get_current_stream().ptr
    else:  # which streams it uses is not known
        _core.wait(place)
        return
    _core.order(place, _DEFAULT_STREAM, stream)


def give_back(buffer: _core.Buffer, kind: str | None):
    """The result as an array of the library that the operands came from."""
    array = DeviceArray(buffer)
    if kind == "cupy":
        return sys.modules["cupy"].from_dlpack(array)
    if kind == "torch":
        return sys.modules["torch"].from_dlpack(array)
    if kind == "jax":
        from jax import dlpack  # jax is loaded: the operand is one of its arrays

        return dlpack.from_dlpack(array)
    if kind == "numba":
        from numba import cuda

        return cuda.as_cuda_array(array)
    return array

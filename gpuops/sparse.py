"""sparse - sparse matrices as `jacobi_step` takes them, checked once or at each call."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from . import _core
from ._call import road as _road
from .arrays import DeviceArray
from .devices import CPU, Device, at, check, parse

if TYPE_CHECKING:
    from .device_facts import DeviceInfo

__all__ = ["SparseMatrix", "sparse"]

_INT32 = np.iinfo(np.int32).max


@_road.rounded
def sparse(A: Any, device: str | Device | DeviceInfo | None = None) -> SparseMatrix:
    """Checks a sparse matrix once and keeps a copy of it, for many calls of `jacobi_step`.

    With a plain matrix each call checks the structure and, without `alpha`, the diagonal. It
    does so before the step, or during the step if the matrix is large and on a GPU, and waits
    for the answer. Formats other than CSR are converted each time. The bits are the same.

    Parameters
    ----------
    A : sparse matrix (n, n)
        One of scipy.sparse in any format, of cupyx.scipy.sparse, or a PyTorch tensor with a
        sparse layout. Their library converts formats other than CSR: the terms of a row then
        have the order that its ``tocsr()`` gives them. Duplicates stay apart.
    device : str or Device, optional
        Where the copy is kept: by default on the CPU, or where the arrays of `A` live. A call
        with the copy then runs there.

    Returns
    -------
    SparseMatrix
        Its dtype is float32, float64, complex64 or complex128: integers and booleans become
        float64. Its indices are int32 if n and the number of terms are below 2^31, else int64.

    Raises
    ------
    ValueError
        A is not square, or its CSR structure is broken: the first bad position is named.
    TypeError
        A is not sparse, or has another dtype.

    Examples
    --------
    >>> import numpy as np, scipy.sparse, gpuops
    >>> A = gpuops.sparse(scipy.sparse.eye_array(3, format="dia") * 4.0)
    >>> A
    SparseMatrix (3, 3), 3 float64 terms, int32 indices, on cpu
    >>> gpuops.jacobi_step(A, np.ones(3), np.zeros(3))
    array([0.25, 0.25, 0.25])
    """
    if isinstance(A, SparseMatrix):
        A = A.tocsr()
    if not is_sparse(A):
        raise TypeError(
            f"sparse: A is a {type(A).__name__}, expected a sparse matrix of SciPy, CuPy or "
            "PyTorch; jacobi_step takes arrays as they are"
        )
    place = None if device is None else parse(device)
    place = place and check(place)
    data, indices, indptr, shape = csr_arrays("sparse", A)
    if data.dtype.kind in "biu":
        data = _road.cast("sparse", "A.data", data, np.dtype(np.float64))
    elif data.dtype.char not in "fdFD":
        data = _road.cast("sparse", "A.data", data, np.dtype(np.float32))
    lives = at(data._buffer.device) if isinstance(data, DeviceArray) else CPU
    place = lives if place is None else place
    parts = (data, indices, indptr)
    fits = indices.dtype == np.int32 or max(shape[0], indices.size) > _INT32
    if place == lives and fits and all(isinstance(a, DeviceArray) for a in parts):
        # Copied and looked at where they lie. The look waits for the copies too, which the
        # arrays' library knows nothing of.
        copies = tuple(_copy(a, place) for a in parts)
        return SparseMatrix(copies, place, _check(*copies, shape))
    # Looked at on the host, whose copies are then the ones that are kept or brought there.
    data, indices, indptr = (_own(a) for a in parts)
    longest = _check(data, indices, indptr, shape)
    if max(shape[0], len(indices)) <= _INT32:
        indices, indptr = (a.astype(np.int32, copy=False) for a in (indices, indptr))
    return SparseMatrix((data, indices, indptr), place, longest)


class SparseMatrix:
    """A square matrix in CSR that was checked; made by `sparse`.

    It owns its arrays, and they do not change.

    Attributes
    ----------
    shape : tuple of int
        (n, n).
    dtype : numpy.dtype
        That of the terms.
    nnz : int
        Terms that are stored, zeros and duplicates too.
    device : Device
        Where it is kept.

    Examples
    --------
    >>> import scipy.sparse, gpuops
    >>> A = gpuops.sparse(scipy.sparse.eye_array(3))
    >>> A.shape, A.nnz, str(A.device)
    ((3, 3), 3, 'cpu')
    """

    def __init__(self, parts: tuple, device: Device, longest: int) -> None:
        data, indices, indptr = parts
        n = indptr.size - 1
        self.shape, self.dtype, self.nnz, self.device = (n, n), data.dtype, data.size, device
        self._index, self._longest = indices.dtype, longest
        self._at_hand: tuple[np.ndarray, ...] | None = None  # on the host
        if isinstance(data, DeviceArray):
            self._kept = parts
        else:
            for a in parts:
                a.flags.writeable = False
            self._at_hand = parts
            self._kept = tuple(self._brought(a) for a in parts)
        self._diagonal: Any = None  # True: there is one, for a kernel to find

    def __repr__(self) -> str:
        return (
            f"SparseMatrix {self.shape}, {self.nnz} {self.dtype} terms, "
            f"{self._index} indices, on {self.device}"
        )

    def tocsr(self) -> Any:
        """A scipy.sparse.csr_array of copies."""
        from scipy.sparse import csr_array

        if self._at_hand is None:
            self._at_hand = tuple(a.get() for a in self._kept)
        return csr_array(tuple(a.copy() for a in self._at_hand), shape=self.shape)

    def _brought(self, a: np.ndarray):
        if self.device.backend == "cpu":
            return a
        return DeviceArray(_core.upload(a, (self.device.backend, self.device.ordinal)))

    def operands(self) -> tuple[tuple, dict[str, Any]]:
        """Internal: the arrays that the core takes, and how it has to read them."""
        n = self.shape[0]
        meaning = {"csr": True, "n": n, "columns": n, "checked": True}
        return self._kept, {**meaning, "longest": self._longest}

    def complete(self, meaning: dict[str, Any], dtype: np.dtype, divides: bool) -> None:
        """Internal: adds the diagonal for a call that divides by it. In another dtype the core
        looks for it again, since its terms may add up to another number there."""
        if not divides:
            return
        if self._diagonal is None:
            self._diagonal = self._found()
        if self._diagonal is False or dtype != self.dtype:
            meaning["checked"] = False
        elif self._diagonal is not True:
            meaning["diagonal"] = self._diagonal

    def _found(self):
        """The diagonal, or True where kernels find it; False where it has a zero."""
        parts = self._kept if self._at_hand is None else self._at_hand
        diagonal = None if self._at_hand is None else np.empty(self.shape[0], self.dtype)
        try:
            _check(*parts, self.shape, divides=True, diagonal=diagonal)
        except np.linalg.LinAlgError:
            return False
        return True if diagonal is None else self._brought(diagonal)


def diagonal_to_find(operands, meaning: dict[str, Any]) -> dict[str, Any]:
    """Room for the diagonal of a CSR matrix on the host, which the check of a call fills: no
    step on the CPU looks for it again. Nothing where no step asks or it is known."""
    known = "alpha" in meaning or "diagonal" in meaning or meaning.get("checked")
    if not meaning["csr"] or known or any(isinstance(a, DeviceArray) for a in operands):
        return {}
    return {"diagonal": np.empty(meaning["n"], operands[0].dtype)}


def is_sparse(A) -> bool:
    if isinstance(A, (np.ndarray, DeviceArray)):
        return False
    return hasattr(A, "tocsr") or _is_torch_sparse(A)


def _is_torch_sparse(A) -> bool:
    return str(getattr(A, "layout", "")).startswith("torch.sparse")


def csr_arrays(op: str, A) -> tuple[Any, Any, Any, tuple[int, int]]:
    """(data, indices, indptr, shape) of a sparse matrix of another library, not checked."""
    shape = getattr(A, "shape", ())
    shape = tuple(int(n) for n in shape) if hasattr(shape, "__len__") else ()
    if len(shape) != 2:
        raise ValueError(
            f"{op}: expected a square matrix A, got a sparse array of shape {shape}"
        )
    if _is_torch_sparse(A):
        csr = A if str(A.layout) == "torch.sparse_csr" else _csr_of_torch(op, A)
        parts = csr.values(), csr.col_indices(), csr.crow_indices()
    else:
        csr = A.tocsr()
        parts = csr.data, csr.indices, csr.indptr
    data = _contiguous(_road.operand(op, "A.data", parts[0]))
    indices = _road.operand(op, "A.indices", parts[1], "iu")
    indptr = _road.operand(op, "A.indptr", parts[2], "iu")
    same = indices.dtype == indptr.dtype and indices.dtype in (np.int32, np.int64)
    dtype = indices.dtype if same else np.dtype(np.int64)
    indices = _contiguous(_road.cast(op, "A.indices", indices, dtype))
    indptr = _contiguous(_road.cast(op, "A.indptr", indptr, dtype))
    return data, indices, indptr, shape


def _csr_of_torch(op: str, A):
    try:
        return A.to_sparse_csr()
    except RuntimeError as error:  # blocks (BSR, BSC), or elements that are rows
        raise TypeError(
            f"{op}: PyTorch makes no CSR matrix of A, whose layout is {A.layout}; "
            "pass A.to_dense().to_sparse_csr()"
        ) from error


def _contiguous(a):
    return a if isinstance(a, DeviceArray) else np.ascontiguousarray(a)


def _own(a) -> np.ndarray:
    return a.get() if isinstance(a, DeviceArray) else np.array(a)


def _copy(a: DeviceArray, place: Device) -> DeviceArray:
    return _road.run("transpose", (DeviceArray(a._buffer),), {"axes": None}, device=place)


def _check(data, indices, indptr, shape, divides: bool = False, diagonal=None) -> int:
    """By the core, as each call would, in a sentence of `sparse`; the terms of the longest row,
    or a few more. The diagonal goes to the array that is given for it."""
    nothing = np.broadcast_to(np.zeros((), data.dtype), max(shape[0], 0))
    meaning: dict[str, Any] = {"csr": True, "n": shape[0], "columns": shape[1]}
    if diagonal is not None:
        meaning["diagonal"] = diagonal
    if not divides:
        meaning["alpha"] = 1.0
    try:
        operands = data, indices, indptr, nothing, nothing
        return _core.Call("jacobi_step", operands, meaning).check()
    except (TypeError, ValueError) as error:
        if isinstance(error, np.linalg.LinAlgError):
            raise
        raise type(error)(str(error).replace("jacobi_step:", "sparse:", 1)) from None

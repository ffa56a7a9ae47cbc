"""meaning - refuses what would lose more than its class by becoming a plain array.

A mask, units, an index, coordinates, work put off: whoever passes them wants them to count. It
looks at the operand itself, at what its `__array__` gives, and at the items of a list.
"""

from __future__ import annotations

import numpy as np

from ..arrays import is_foreign

# By the first part of a module's name: what an array of theirs has that ours have not, and the
# first of these ways out that it has.
_LIBRARIES = {
    "awkward": ("would lose its structure", ("to_numpy",)),
    "dask": ("would be computed here and now", ("compute",)),
    "pandas": ("would lose its index, or which values are missing", ("to_numpy",)),
    "pint": ("would lose its units", ("magnitude",)),
    "polars": ("would lose its name and its nulls", ("to_numpy", "collect")),
    "xarray": ("would lose its dimensions and coordinates", ("to_numpy", "data_vars")),
}
_WAYS = {
    "to_numpy": "{0}.to_numpy()",
    "compute": "{0}.compute()",
    "magnitude": "{0}.magnitude",
    "collect": "{0}.collect().to_numpy()",
    "data_vars": "a variable of it, as {0}['x'].to_numpy()",
}
_NUMBERS = {bool, int, float, complex}
_HOOKS = ("__array_ufunc__", "__array_finalize__", "__array_wrap__")


def refuse_meaning(op: str, name: str, x, behind: bool = False) -> None:
    """TypeError for what means more than its numbers; `behind`: it is what `name` becomes."""
    kind = type(x)
    if kind is np.ndarray:
        return
    verb = "becomes" if behind else "is"
    if isinstance(x, np.ma.MaskedArray):
        way = f"np.asanyarray({name})" if behind else name
        raise TypeError(
            f"{op}: {name} {verb} a masked array and its mask would be ignored; "
            f"pass {way}.filled(value)"
        )
    for way in ("toarray", "todense", "tocsr().toarray"):
        # Asked of the class: a mock has whatever it is asked for.
        if hasattr(kind, way.partition("(")[0]) and hasattr(x, "shape"):
            raise TypeError(f"{op}: {name} is a sparse matrix; pass {name}.{way}()")
    library = kind.__module__.partition(".")[0]
    loss, ways = _LIBRARIES.get(library, ("", ()))
    for way in ways:
        if hasattr(kind, way) and (way != "to_numpy" or hasattr(kind, "__array__")):
            raise TypeError(
                f"{op}: {name} {verb} {library}'s {kind.__name__} and {loss}"
                f"{_lazily(op, name, kind)}; "
                f"pass {_pass(name, x, way)}"
            )
    if library == "pyarrow" and _has_nulls(x):
        raise TypeError(
            f"{op}: {name} {verb} pyarrow's {kind.__name__} and would lose which values are "
            f"null; pass np.asarray({name}), in which they are NaN"
        )
    if isinstance(x, np.ndarray):
        adds = any(_is_overridden(kind, hook) for hook in _HOOKS)
    else:
        has_hook = getattr(kind, "__array_ufunc__", None) is not None
        adds = has_hook and hasattr(kind, "__array__") and not is_foreign(x)
    if adds:
        raise TypeError(
            f"{op}: {name} {verb} {_a(kind)}, and what it adds to an array, such as units, "
            f"would be lost; pass np.asarray({name})"
        )


def _has_nulls(x) -> bool:
    """Whether an array of Arrow, or a column of a table, has values that are missing."""
    return any(getattr(column, "null_count", 0) for column in getattr(x, "columns", [x]))


# What gpuops.dask has: the module itself is imported by those who have Dask.
_LAZY = {
    "add", "multiply_add", "fma", "transpose", "matmul", "jacobi", "rdf", "reduce", "sum",
    "mean", "prod", "min", "max", "any", "all", "argmin", "argmax",
}  # fmt: skip
_LAZY_NAMES = {"a", "b", "c", "f", "x0", "where", "points", "points2"}


def _lazily(op: str, name: str, kind: type) -> str:
    """Where arrays of Dask's are computed later."""
    known = op in _LAZY and name.partition("[")[0] in _LAZY_NAMES
    known = known and kind.__module__.startswith(("dask.array", "dask.bag"))
    return f", which gpuops.dask.{op} leaves for later" if known else ""


def refuse_lazy(op: str, name: str, x) -> None:
    """TypeError for what Dask would compute, where most that NumPy reads will do."""
    if type(x).__module__.startswith("dask."):
        refuse_meaning(op, name, x)


def _pass(name: str, x, way: str) -> str:
    text = _WAYS[way].format(name)
    if way == "compute" and hasattr(type(x), "to_dask_array"):  # a frame, of pandas' once done
        return text + ".to_numpy()"
    if type(x).__module__.startswith("pandas"):
        return f"{text}, or {name}.to_numpy(float) where some are missing"
    return text


def _is_overridden(kind: type, hook: str) -> bool:
    """By a subclass that is not one of NumPy's own, such as memmap."""
    home = next(c for c in kind.__mro__ if hook in vars(c))
    return home.__module__.partition(".")[0] != "numpy"


def read(op: str, name: str, x) -> np.ndarray:
    """The array that NumPy makes of it, unless that would lose what it, or a part of it, means.

    Objects that are no numbers give an array of objects.
    """
    if isinstance(x, (list, tuple)):
        x = _read_within(op, name, x)
    try:
        a = _described(x) if hasattr(x, "__array_interface__") else np.asanyarray(x)
    except (TypeError, ValueError, OverflowError) as error:
        if getattr(x, "shape", x) is None:  # a dataset of h5py that holds nothing
            return np.array(None)
        if "unsupported ScalarType" in str(error):  # PyTorch's, which does not say which
            dtype = "complex64" if x.is_complex() else "float32"
            way = "dequantize()" if x.is_quantized else f"to(torch.{dtype})"
            raise TypeError(
                f"{op}: {name} has dtype {x.dtype}, which NumPy has not; pass {name}.{way}"
            ) from error
        kinds = (OverflowError, TypeError, ValueError)  # others' own take other arguments
        kind = next(kind for kind in kinds if isinstance(error, kind))
        raise kind(f"{op}: {name}: {error}") from error
    except RuntimeError as error:  # PyTorch's, of a gradient or a conjugate bit; it advises
        if type(x).__module__.partition(".")[0] != "torch":
            raise
        raise BufferError(f"{op}: {name}: {error}") from error
    if type(a) is np.ndarray:
        return a
    refuse_meaning(op, name, a, behind=True)
    return np.asarray(a)


def _read_within(op: str, name: str, items, depth: int = 64):
    """A list in which what could mean more than its numbers is read, one by one.

    Down to NumPy's own `depth`: a list may hold itself.
    """
    kinds = set(map(type, items))
    if kinds <= _NUMBERS:
        return items
    asked = {kind for kind in kinds if _could_mean_more(kind)}
    nested = {kind for kind in kinds if issubclass(kind, (list, tuple))}
    if not depth or not (asked or nested):
        return items
    found = list(items)
    for i, item in enumerate(items):
        if type(item) in asked:
            refuse_meaning(op, f"{name}[{i}]", item)
            found[i] = read(op, f"{name}[{i}]", item)
        elif type(item) in nested:
            found[i] = _read_within(op, f"{name}[{i}]", item, depth - 1)
    return found


def _could_mean_more(kind: type) -> bool:
    if kind is np.ndarray or issubclass(kind, np.generic):
        return False
    protocols = hasattr(kind, "__array__") or hasattr(kind, "__array_interface__")
    return protocols or kind.__module__.partition(".")[0] in _LIBRARIES


def _described(x) -> np.ndarray:
    """An array from __array_interface__, whose word NumPy takes: memory it names is checked."""
    facts = x.__array_interface__
    source = facts.get("data") if isinstance(facts, dict) else None
    if isinstance(facts, dict) and facts.get("mask") is not None:
        raise TypeError("its __array_interface__ has a mask, which would be ignored")
    if source is None or isinstance(source, tuple):
        a = np.asanyarray(x)  # a raw pointer is trusted, as in NumPy
        if a.size and a.ctypes.data == 0:
            raise ValueError("its __array_interface__ points nowhere")
        return a
    # One reading only: a second one could name other memory.
    a = np.asarray(type("Snapshot", (), {"__array_interface__": facts, "_owner": x})())
    memory = np.frombuffer(source, np.uint8)
    low, high = np.lib.array_utils.byte_bounds(a)
    first = memory.ctypes.data
    if a.size and not (first <= low and high <= first + memory.size):
        raise ValueError(
            f"its __array_interface__ reaches beyond the {memory.size} bytes of its buffer"
        )
    return a


def no_array(op: str, name: str, x) -> Exception:
    """What to raise for an object that NumPy knows no numbers of."""
    large = _too_large(x)
    if large is not None:
        bits = large.bit_length()
        shown = f"{large}" if bits < 200 else f"an integer of {bits} bits"
        return OverflowError(
            f"{op}: {name} holds {shown}, and no integer dtype is so large; pass floats"
        )
    kind = type(x)
    what = f"is {x!r}" if x is None or isinstance(x, (str, bytes)) else ""
    if not what or len(what) >= 80:
        what = f"is {_a(kind)}" + (" of objects" if isinstance(x, (list, tuple)) else "")
    way = ""
    if hasattr(kind, "__dlpack__") and _has_dlpack(x):
        way = f"; NumPy reads it by np.from_dlpack({name})"
    elif hasattr(kind, "shape") and hasattr(kind, "__getitem__"):
        way = f"; where it has one to give, {name}[...] is an array"
    return TypeError(
        f"{op}: {name} {what}; expected an array, a list of numbers or a number{way}"
    )


def _has_dlpack(x) -> bool:
    """Whether NumPy reads it: pyarrow's strings have the method, and raise."""
    try:
        np.from_dlpack(x)
    except Exception:
        return False
    return True


def _too_large(x, depth: int = 64) -> int | None:
    """The first integer in it that no dtype has room for."""
    if isinstance(x, int):
        return None if -(1 << 63) <= x < 1 << 64 else x
    if not depth or not isinstance(x, (list, tuple)):
        return None
    found = (_too_large(item, depth - 1) for item in x)
    return next((large for large in found if large is not None), None)


def _a(kind: type) -> str:
    return f"{'an' if kind.__name__[0] in 'aeioAEIO' else 'a'} {kind.__name__}"

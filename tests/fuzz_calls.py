"""fuzz_calls - random calls of the array functions, with good and bad arguments of every kind.

`python tests/fuzz_calls.py 1000 --seed 1` prints a line for each call: what was called, and its
result's bytes or its error. Two builds are compared by what they print.
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import math
import re
import warnings

import ml_dtypes
import numpy as np

import gpuops

HAS_SIM = gpuops.is_available("sim")
DTYPES = ("?", "i1", "u1", "i2", "i4", "i8", "u8", "q", "Q", "f2", "f4", "f8", "c8", "c16")
ACCEPTED = "?bBhHiIlLqQefdFD"
COMMON = ("f4", "f8", "i4", "i8")
BFLOAT16 = np.dtype(ml_dtypes.bfloat16)


class Subclass(np.ndarray):
    pass


class Hooked(np.ndarray):
    def __array_ufunc__(self, *args, **words):
        return NotImplemented


class Giving:
    def __init__(self, a):
        self.a = a

    def __array__(self, dtype=None, copy=None):
        return self.a


class Raising:
    def __array__(self, dtype=None, copy=None):
        raise ValueError("no array today")

    def __index__(self):
        raise ZeroDivisionError("no index")

    def __repr__(self):
        return "Raising()"


class Word(str):
    __slots__ = ()


class Whole:
    def __init__(self, n):
        self.n = n

    def __index__(self):
        return self.n

    def __repr__(self):
        return f"Whole({self.n})"


class Resizing:
    """An object whose code changes another argument of the call."""

    def __init__(self, a, victim):
        self.a, self.victim = a, victim

    def _strike(self):
        if self.victim.ndim and self.victim.base is None:
            self.victim.resize((5, *self.victim.shape[1:]), refcheck=False)

    def __array__(self, dtype=None, copy=None):
        self._strike()
        return self.a

    def __index__(self):
        self._strike()
        return 0

    def __bool__(self):
        self._strike()
        return True

    def __repr__(self):
        return "Resizing()"


class Clearing:
    """An integer of a dict that empties the dict once it is looked at."""

    def __init__(self):
        self.holder = {}

    def __index__(self):
        self.holder.clear()
        self.holder["side"] = 32
        return 64

    def __repr__(self):
        return "Clearing()"


class Unasked:
    """Every question fails, each with another error."""

    def __getattr__(self, name):
        raise AttributeError(name) if name == "dtype" else KeyError(name)

    def __bool__(self):
        raise ArithmeticError("neither")

    def __eq__(self, other):
        raise LookupError("not comparable")

    def __hash__(self):
        raise BufferError("no hash")

    def __repr__(self):
        return "Unasked()"


class Row(tuple):
    __slots__ = ()


class Number(int):
    pass


class Described:
    def __init__(self, a):
        self.a = a
        self.__array_interface__ = a.__array_interface__


class Draw:
    """What one call is made of, drawn by a seed."""

    def __init__(self, seed: int) -> None:
        self.rng = np.random.default_rng(seed)
        self.tame = self.chance(0.5)  # most arguments are good ones
        self.first = np.zeros((3, 4), "f4")  # what hostile objects change: an operand, mostly

    def of(self, items):
        return items[int(self.rng.integers(len(items)))]

    def chance(self, share: float) -> bool:
        return self.rng.random() < share

    def numbers(self, shape, dtype) -> np.ndarray:
        dtype = np.dtype(dtype)
        values = self.rng.integers(-9, 10, shape)
        if dtype.kind in "fc":
            values = values + self.rng.random(shape)
        if dtype.kind == "c":
            values = values + 1j * self.rng.random(shape)
        return np.asarray(values).astype(dtype)

    def shape(self):
        return self.of(((3, 4), (3, 4), (3, 4), (4,), (4, 3), (), (1,), (0, 4), (3, 1), (2,
                        3, 4),
                        (4, 4), (70,), (1, 2, 1, 3)))  # fmt: skip

    def plain(self, dtype=None, shape=None) -> np.ndarray:
        dtype = dtype or self.of(COMMON if self.chance(0.6) else DTYPES)
        return self.numbers(self.shape() if shape is None else shape, dtype)

    def operand(self, dtype=None, shape=None):
        kind = int(self.rng.integers(20 if self.tame and self.chance(0.9) else 50))
        if kind < 18:
            return self.plain(dtype, shape)
        a = self.plain(dtype, shape)
        return (
            lambda: np.asfortranarray(a),
            lambda: np.repeat(a, 2, -1)[..., ::-2] if a.ndim else a,
            lambda: a.astype(a.dtype.newbyteorder()),
            a.tolist,
            lambda: self.of(
                (2, 2.5, 1j, True, -1, 1 << 70, 1 << 63, 300, 1e300, float("nan"), 7e4)
            ),
            lambda: self.of((np.float32(2), np.int8(3), np.bool_(True), np.float64(1e300))),
            lambda: a.view(Subclass),
            lambda: np.ma.masked_array(a),
            lambda: gpuops.to_device(np.ascontiguousarray(a), "cpu"),
            lambda: gpuops.to_device(np.ascontiguousarray(a), "sim") if HAS_SIM else a,
            lambda: self.of((None, "text", b"bytes", object(), {}, {1: 2}, set(), ..., math)),
            lambda: self.of(([[1, 2], [3]], [], [[]], (1, 2), [1, None], ["a"], [1 << 70])),
            lambda: self.numbers(a.shape, "f4").astype(BFLOAT16),
            lambda: np.empty(a.shape, object),
            lambda: a.astype(self.of(("U3", "S3"))),
            lambda: np.zeros(
                a.shape, self.of(("m8[s]", "g", "V3", "V16", "i4,f8", "M8[D]", "G"))
            ),
            lambda: Giving(a),
            Raising,
            lambda: Described(a),
            lambda: a.view(Hooked),
            lambda: [a, a],
            lambda: [np.float32(1), 2],
            lambda: a.data if a.flags.c_contiguous else a,
            lambda: np.broadcast_to(a, (2, *a.shape)),
            lambda: np.ascontiguousarray(a).view(np.recarray),
            lambda: Giving(np.ma.masked_array(a)),
            lambda: Resizing(a, self.first),
            lambda: [Resizing(a, self.first), Resizing(a, self.first)],
            Unasked,
            lambda: Number(3),
            lambda: Row((1.0, 2.0)),
            lambda: [Unasked(), 1],
        )[kind - 18]()

    def out(self, like=None):
        kind = int(self.rng.integers(10 if self.tame and self.chance(0.9) else 30))
        shape = self.shape() if like is None or self.chance(0.15) else shape_of(like)
        dtype = self.of(DTYPES)
        if like is not None and self.chance(0.7):
            dtype = getattr(like, "dtype", dtype)
        try:
            a = np.zeros(shape, dtype)
        except (TypeError, ValueError):
            a = np.zeros(shape)
        if kind < 8:
            return a
        if kind < 12:
            return np.zeros(shape, self.of(DTYPES))
        readonly = a.copy()
        readonly.flags.writeable = False
        return (
            lambda: ...,
            lambda: readonly,
            lambda: np.zeros(shape[::-1], a.dtype).T,
            lambda: (a,),
            lambda: (a, a),
            lambda: (),
            lambda: (...,),
            lambda: [0.0],
            lambda: np.ma.masked_array(a),
            lambda: a.view(Subclass),
            lambda: a.astype(a.dtype.newbyteorder()),
            lambda: gpuops.to_device(a, "cpu") if a.dtype.char in ACCEPTED else a,
            lambda: gpuops.to_device(a, "sim") if HAS_SIM and a.dtype.char in ACCEPTED else a,
            lambda: np.zeros((2, *shape), a.dtype),
            lambda: np.zeros(shape, "g"),
            lambda: 3,
            lambda: None,
            lambda: a.view(Hooked),
        )[kind - 12]()

    def clearing(self):
        number = Clearing()
        number.holder = {"uf": number, "side": number}
        return number.holder

    def axis(self):
        return self.of((0, 1, -1, 2, -3, (), (0,), (1, 0), (0, -1), (0, 0), (0, 5), [0], [1,
                        0], True,
                        1.0, "0", (True,), (np.int64(1),), np.int64(0), 1 << 70, None, Whole(1),
                        (Whole(0),), Raising(), (Raising(),), np.array([1, 0]), np.array(1),
                        "01",
                        (2, 0, 1), (1, 0), 0, 1, (1, 0), 0, -(1 << 63), (1 << 63,), range(2),
                        tuple(range(70)), (1.5,), ("a",), None, 0, 1, Row((1, 0)), Number(1),
                        Resizing(0, self.first), (Resizing(0, self.first), 0), Unasked(),
                        [True], [Whole(1), Whole(0)]))  # fmt: skip

    def word_of(self, name: str, like):
        if self.tame and self.chance(0.85) and name in TAME:
            return self.of(TAME[name])
        if name == "out":
            return self.out(like)
        if name in ("axis", "axes"):
            return self.axis()
        if name == "device":
            return self.of((None, "cpu", "cpu", gpuops.Device("cpu"), "auto", "sim", "cuda",
                            "CPU",
                            "cpu:0", "cpu:7", 3, [], b"cpu", ("cpu", 0), Word("cpu"), "fpga",
                            ("sim", 0),
                            ("cpu",), {}, Unasked(), Row(("cpu", 0)), True))  # fmt: skip
        if name == "kernel":
            return self.of((None, None, "naive", "naive", "simd", "threaded", "nonsense", 3,
                            "é", "",
                            gpuops.kernels("add")[0], Word("naive"), b"naive",
                            Unasked()))  # fmt: skip
        if name == "params":
            return self.of((None, {}, {"uf": 3}, [1], {"uf": 2.5}, {1: 2}, {"uf": 1 << 70},
                            {"uf": True}, {"é": 1}, {"bytes": Whole(64)}, {"a": 1, "b": 2}, 3,
                            {"uf": Raising()}, dict.fromkeys("abcde", 1), self.clearing(),
                            {"uf": Resizing(4, self.first)}, {Word("uf"): Number(4)},
                            Unasked()))  # fmt: skip
        if name == "dtype":
            return self.of((None, "f4", "f8", "i4", np.float32, float, int, bool, complex, "c8",
                            "nonsense", object, "U3", BFLOAT16, ">f4", 3, "u1", "f2",
                            "g"))  # fmt: skip
        if name == "keepdims":
            return self.of((True, False, 1, 0, np.True_, np.bool_(0), "yes", None, 1.0,
                            Whole(1), 7, Raising(), Resizing(1, self.first),
                            Unasked()))  # fmt: skip
        if name == "initial":
            return self.of((0, 1, 2.5, 1j, None, -3, 1 << 70, float("inf"), np.float32(2),
                            np.int8(-4),
                            [1], np.zeros(3), "x", True, np._NoValue, float("nan"), 300, -0.0,
                            gpuops.to_device(np.ones(1), "cpu"), 4.0, Number(2), Unasked(),
                            Resizing(np.float32(2), self.first)))  # fmt: skip
        if name == "where":
            shape = shape_of(like) if like is not None and self.chance(0.7) else self.shape()
            mask = self.rng.random(shape) < 0.6
            return self.of((mask, mask, mask, np.asfortranarray(mask), True, False, None,
                            np.True_,
                            np.bool_(False), mask.tolist(), mask.astype("f4"), [1, 0], 1, "x",
                            gpuops.to_device(np.ascontiguousarray(mask), "cpu"), np._NoValue,
                            np.zeros(shape, bool), mask.view(Subclass), Giving(mask),
                            Resizing(mask, self.first), Unasked()))  # fmt: skip
        if name == "exact":
            return self.of(
                (True, True, False, np.True_, np.bool_(0), 1, None, "yes", Unasked())
            )
        if name == "op":
            return self.of(("sum", "max", "mean", "argmin", "any", "prod", max, np.add,
                            np.maximum,
                            "nonsense", 0, (0, 1), True, None, np.subtract, sum, Word("min"),
                            len,
                            np.mean, gpuops.all))  # fmt: skip
        if name == "precision":
            return self.of(
                (None, "highest", "fast", "tf32", "bf16", "low", 3, Word("fast"), b"fast")
            )
        return self.operand()


TAME = {
    "axis": (None, 0, -1, 1, (0, 1), (1,), 0),
    "axes": (None, (1, 0), (0, 1), [1, 0], (-1, 0), (1, 0), (2, 0, 1)),
    "device": ("cpu", None, "auto", gpuops.Device("cpu"), "sim" if HAS_SIM else "cpu"),
    "kernel": (None, "naive"),
    "params": (None, {}),
    "dtype": (None, "f4", "f8", float, np.float32, "i8"),
    "keepdims": (True, False, True),
    "initial": (0, 1, 2.5, np.float32(2), None),
    "exact": (True, False),
    "op": ("sum", "max", "mean", "argmin", np.add),
    "precision": (None, "fast", "highest"),
}


def shape_of(like) -> tuple[int, ...]:
    try:
        return np.shape(like)
    except (TypeError, ValueError, ArithmeticError, LookupError):
        return (2,)


WORDS = {
    "add": ("a", "b", "out"),
    "multiply_add": ("a", "b", "c", "out"),
    "fma": ("a", "b", "c", "out"),
    "transpose": ("a", "axes"),
    "matmul": ("a", "b", "out"),
    "reduce": ("a", "op", "axis", "dtype", "out", "keepdims", "initial", "where"),
    "sum": ("a", "axis", "dtype", "out", "keepdims", "initial", "where"),
    "prod": ("a", "axis", "dtype", "out", "keepdims", "initial", "where"),
    "mean": ("a", "axis", "dtype", "out", "keepdims", "where"),
    "min": ("a", "axis", "out", "keepdims", "initial", "where"),
    "max": ("a", "axis", "out", "keepdims", "initial", "where"),
    "any": ("a", "axis", "out", "keepdims", "where"),
    "all": ("a", "axis", "out", "keepdims", "where"),
    "argmin": ("a", "axis", "out", "keepdims"),
    "argmax": ("a", "axis", "out", "keepdims"),
}
ELSEWHERE = ("where", "dtype", "casting", "order", "subok", "axes", "axis", "keepdims",
"dim", "x",
             "x1", "x2", "other", "there", "exact", "initial", "a", "out")  # fmt: skip


def draw(seed: int):
    """(name, positional arguments, keywords) of a call."""
    d = Draw(seed)
    name = d.of(tuple(WORDS))
    words = WORDS[name]
    needed = {"add": 2, "matmul": 2, "multiply_add": 3, "fma": 3}.get(name, 1)
    like = first = d.operand()
    if type(first) is np.ndarray and first.base is None:
        d.first = first
    args = [first]
    dtype = getattr(first, "dtype", None)
    dtype = dtype if isinstance(dtype, np.dtype) and dtype.char in ACCEPTED else None
    shape = np.shape(first) if isinstance(first, np.ndarray) else None
    for _ in range(1, needed):
        if d.chance(0.75) and name != "matmul":
            args.append(d.operand(dtype if d.chance(0.6) else None, shape))
        else:
            args.append(d.operand())
    if needed > 1 and isinstance(first, np.ndarray):
        with contextlib.suppress(ValueError):
            like = np.broadcast_arrays(*(a for a in args if isinstance(a, np.ndarray)))[0]
    keywords = {}
    optional = list(words[needed:])
    place = needed
    while optional and d.chance(0.25):  # more of them by their places
        args.append(d.word_of(words[place], like))
        optional.pop(0)
        place += 1
    extra = {"matmul": ("precision",), "sum": ("exact",), "mean": ("exact",),
    "reduce": ("exact",),
             "transpose": ("out",)}.get(name, ())  # fmt: skip
    for word in (*optional, *extra):
        if d.chance(0.22):
            keywords[word] = d.word_of(word, like)
    for word, share in (("device", 0.12), ("kernel", 0.06), ("params", 0.05)):
        if d.chance(share):
            keywords[word] = d.word_of(word, like)
    if d.chance(0.04):
        word = d.of(ELSEWHERE)
        keywords[word] = d.word_of(word, like)
    if d.chance(0.05) and needed <= len(args) <= needed + 1:  # operands as keywords
        keywords = {words[len(args) - 1]: args.pop(), **keywords}
    if keywords and d.chance(0.05):  # words that are not the very strings
        keywords = {Word(word): value for word, value in keywords.items()}
    if args and d.chance(0.02):
        args.pop()
    if args and d.chance(0.02):
        args += [d.operand(), 3, None, "cpu", 1, 2, 3][: int(d.rng.integers(1, 8))]
    return name, args, keywords


def shown(value) -> str:
    if isinstance(value, gpuops.DeviceArray):
        return f"{type(value).__name__} {value.device} {shown(value.get())}"
    if isinstance(value, (np.ndarray, np.generic)):
        a = np.asarray(value)
        bits = a.tobytes() if not a.dtype.hasobject else b""
        digest = hashlib.sha1(bits).hexdigest()[:12]
        kind = f"{type(value).__name__} {a.dtype.str}/{a.dtype.char}"
        return f"{kind} {a.shape} {a.strides} {digest}"
    return f"{type(value).__name__} {value!r}"[:200]


def outcome(function, args, keywords) -> str:
    """What a call gives: the result, what stands in its `out`, and what was warned of."""
    out = keywords.get("out")
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            result = function(*args, **keywords)
            said = shown(result) + (" is out" if out is not None and result is out else "")
        except Exception as error:
            said = f"{type(error).__module__}.{type(error).__name__}: {error}"
    for holder in (*args, *keywords.values()):
        if isinstance(holder, (np.ndarray, gpuops.DeviceArray)):
            said += " | " + shown(holder)[-12:]
    for w in caught:
        where = w.filename.rpartition("/")[2]
        said += f" | {w.category.__name__} {where} {w.message}"
    said = said.replace("\n", "\\n")
    return re.sub(r"0x[0-9a-f]+", "0x", said)


def brief(value) -> str:
    text = shown(value) if isinstance(value, (np.ndarray, gpuops.DeviceArray)) else repr(value)
    return re.sub(r"0x[0-9a-f]+", "0x", text.replace("\n", " "))[:70]


def described(name, args, keywords) -> str:
    said = [*map(brief, args), *(f"{k}={brief(v)}" for k, v in keywords.items())]
    return f"{name}({', '.join(said)})"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("count", type=int)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--explain", action="store_true", help="plan the calls instead")
    options = parser.parse_args()
    for seed in range(options.seed, options.seed + options.count):
        name, args, keywords = draw(seed)
        text = described(name, args, keywords)
        function = getattr(gpuops, name)
        if options.explain:
            found = outcome(
                lambda *a, f=function, **k: repr(gpuops.explain(f, *a, **k)), args, keywords
            )
        else:
            found = outcome(function, args, keywords)
        print(seed, text, "->", found, flush=True)


if __name__ == "__main__":
    main()

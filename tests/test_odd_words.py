"""Odd values for every argument that is no array: whatever they are, a sentence of ours or the
caller's own exception, never one of Python's or NumPy's that names nothing."""

import decimal
import fractions
import inspect

import engine
import numpy as np
import pytest

import gpuops

A = np.arange(6.0).reshape(2, 3)
SQUARE, F = np.eye(3) * 3, np.ones(3)
POINTS = np.random.default_rng(0).random((20, 3))
KERNEL = "__global__ void twice(float *a) { a[threadIdx.x] *= 2; }"


class NoNumber:
    def __index__(self):
        raise RuntimeError("mine")

    __float__ = __array__ = __len__ = __getitem__ = __index__


class NoArray:
    def __array__(self, *args, **words):
        return 3


ODD = [
    None, True, -1, 1.5, float("nan"), 10**30, -(10**400), 2**63, 1j, "", "\0", "naive\0",
    "a\ud800", "ü" * 300, b"x", [], [[1], [2, 3]], ["a"], (), (0, 1), {}, {"uf": "x"}, {1: 2},
    set(), object(), ..., slice(3), range(3), np.array(3), np.array([1, 2]), np.zeros((2, 0)),
    np.zeros(2, "V5"), np.array(["a", "b"]), np.array([None, 1]), np.datetime64("2020"),
    np.longdouble(1), np.ma.array([1, 2], mask=[0, 1]), np.dtype("f4"),
    fractions.Fraction(1, 2), decimal.Decimal("1.5"), NoNumber(), NoArray(),
    gpuops.to_device(F, "cpu"), gpuops.poisson(3), memoryview(b"abcd"),
]  # fmt: skip

GOOD = {
    "add": (A, A),
    "transpose": (A,),
    "matmul": (A, A.T),
    **{word: (A,) for word in ("sum", "max", "mean", "any", "argmin")},
    "jacobi_step": (SQUARE, F, F),
    "jacobi": (SQUARE, F),
    "rdf": (POINTS, 0.5, 5),
    "poisson": (3,),
    "stencil": ([1.0, 2.0, 1.0], 3),
    "sweep": ("transpose", A),
    "occupancy": (64,),
    **({"schedule": ()} if gpuops.is_available("sim") else {}),
}
# Truth values, what is shown of a call, and functions of the caller's that are called.
NOT_WORDS = {"cold", "checks", "progress", "callback"}


def words_of(name):
    of = inspect.signature(getattr(gpuops, name)).parameters.values()
    arrays = len(GOOD[name]) if name not in ("rdf", "poisson", "occupancy") else 1
    return [
        p.name
        for i, p in enumerate(of)
        if i >= arrays * (name not in ("poisson", "occupancy"))
        and p.kind not in (p.VAR_KEYWORD, p.VAR_POSITIONAL)
        and p.name not in NOT_WORDS
    ]


def said_of(f, args, words) -> str:
    """What a call raises, "" if nothing or the caller's own exception."""
    try:
        made = f(*args, **words)
        if f is gpuops.schedule:
            with made:
                pass
    except (TypeError, ValueError, OverflowError, gpuops.Error) as error:
        return str(error)
    except RuntimeError as error:
        return "" if str(error) == "mine" else f"RuntimeError: {error}"
    return ""


@pytest.mark.parametrize(("name", "word"), [(n, w) for n in GOOD for w in words_of(n)])
def test_every_word_of_a_call(name, word):
    f = getattr(gpuops, name)
    at = [*inspect.signature(f).parameters].index(word)
    starts = [f"{name}: ", "device is a string", "there is no device"]
    if word in ("kernel", "params"):  # they are those of the operation
        starts.append("reduce: ")
    for value in ODD:
        args, words = [*GOOD[name]], {}
        if at < len(args):
            args[at] = value
        else:
            words[word] = value
        said = said_of(f, args, words)
        assert not said or said.startswith(tuple(starts)), f"{value!r}: {said}"


@pytest.mark.parametrize("op", ["add", "sum", "transpose", "matmul"])
def test_a_kernels_name_has_no_end_of_its_own(op):
    """C ends a word where it has a NUL, Python does not."""
    for name in ("naive\0", "naive\0x", "\0"):
        with pytest.raises(ValueError, match=rf"^{op}: there is no kernel '"):
            getattr(gpuops, op)(*GOOD[op], kernel=name)
        with pytest.raises(ValueError, match=rf"^{op}: no kernel has a tunable '"):
            getattr(gpuops, op)(*GOOD[op], kernel="naive", params={name: 1})


def test_words_of_those_that_time_and_show():
    for call, words in (
        (lambda: gpuops.ladder("add", A, A, n_repeat=1.5), "ladder: n_repeat is an integer"),
        (lambda: gpuops.ladder("add", A, A, n_repeat=10**30), "ladder: n_repeat is at least 1"),
        (lambda: gpuops.benchmark("add", (A, A), n_repeat=10**10), "at most 10"),
        (lambda: gpuops.ladder("add", A, A, blocks=np.ones(2)), "ladder: blocks= is a sample"),
        (lambda: gpuops.occupancy(64, cc=["9.0"]), "occupancy: cc is one of .*, not "),
        (lambda: gpuops.devices(np.ones(2)), "devices: there is no backend"),
    ):
        with pytest.raises((TypeError, ValueError), match=words):
            call()
    assert not gpuops.is_available(np.ones(2))


def test_sources_that_are_no_files(tmp_path):
    (tmp_path / "bytes.cu").write_bytes(b"\xff\xfe" + KERNEL.encode())
    for source in ("\0", str(tmp_path / "bytes.cu"), str(tmp_path)):
        with pytest.raises(
            (ValueError, OSError), match=r"^compile: .* as a file cannot be read"
        ):
            gpuops.compile(source, device="cpu" if "sim" not in engine.backends() else "sim")

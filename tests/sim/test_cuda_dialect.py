"""The words of CUDA that kernels on sim may use, each against what it means."""

import re
import subprocess
import sys

import numpy as np
import pytest
from sim_kernels import floats, needs_sim

import gpuops

pytestmark = [needs_sim, pytest.mark.usefixtures("on_sim"), pytest.mark.sampled(every=2)]


def all_mapped(expressions, *arrays, before=""):
    """out[i] of expressions of a[i], b[i], c[i] for each thread of one block: pairs of an
    expression and its result's type, a kernel each of one program."""
    kinds = {"f4": "float", "f8": "double", "i4": "int", "u4": "unsigned"}
    kinds |= {"i8": "long long", "u8": "unsigned long long"}
    names = "abc"[: len(arrays)]
    kind = lambda x: kinds[x.dtype.str[1:]]  # noqa: E731
    parameters = "".join(f", const {kind(x)} *p{n}" for n, x in zip(names, arrays, strict=True))
    values = "".join(
        f"const {kind(x)} {n} = p{n}[i]; " for n, x in zip(names, arrays, strict=True)
    )
    source = before
    for number, (expression, out) in enumerate(expressions):
        source += f"""
__global__ void k{number}({kinds[np.dtype(out).str[1:]]} *out{parameters})
{{
    const int i = threadIdx.x;
    {values}
    out[i] = {expression};
}}
"""
    program, results = gpuops.compile(source), []
    for number, (_, out) in enumerate(expressions):
        result = np.zeros(len(arrays[0]), out)
        kernel = program if len(expressions) == 1 else getattr(program, f"k{number}")
        kernel[1, len(result)](result, *arrays)
        results.append(result)
    return results


def mapped(expression, out, *arrays, before=""):
    return all_mapped([(expression, out)], *arrays, before=before)[0]


A, B = floats(64, 1) * 8 - 4, floats(64, 2) * 1e-3 + 1
INTS = np.random.default_rng(3).integers(-(2**31), 2**31, 64).astype("i4")
UNSIGNED = INTS.view("u4")
LONG = np.random.default_rng(4).integers(-(2**63), 2**63, 64)


def towards_zero(exact):
    """Of exact values as Python's fractions, the floats on the side of zero."""
    from fractions import Fraction

    found = []
    for x in exact:
        f = np.float32(float(x))
        if abs(Fraction(float(f))) > abs(x):
            f = np.nextafter(f, np.float32(0))
        found.append(f)
    return np.array(found, "f4")


def fractions(values):
    from fractions import Fraction

    return [Fraction(float(v)) for v in values]


NEAREST = {
    "__fadd_rn(a, b)": A + B,
    "__fsub_rn(a, b)": A - B,
    "__fmul_rn(a, b)": A * B,
    "__fdiv_rn(a, b)": A / B,
    "__fdividef(a, b)": A / B,
    "__frcp_rn(a)": 1 / A,
    "__fsqrt_rn(b)": np.sqrt(B),
    "__saturatef(a)": np.clip(A, 0, 1),
    "__int_as_float(__float_as_int(a))": A,
    "__uint_as_float(__float_as_uint(a))": A,
}


def test_floats():
    found = all_mapped([(expression, "f4") for expression in NEAREST], A, B)
    for (expression, right), one in zip(NEAREST.items(), found, strict=True):
        assert (one == right).all(), expression


def test_rounding_towards_zero():
    a = np.concatenate([A, -A, A * np.float32(1e30), A * np.float32(1e-38)])
    b = np.concatenate([B, B * np.float32(1e-8), -B, B * np.float32(1e-3)])
    pairs = list(zip(fractions(a), fractions(b), strict=True))
    right = {
        "add": towards_zero(p + q for p, q in pairs),
        "sub": towards_zero(p - q for p, q in pairs),
        "mul": towards_zero(p * q for p, q in pairs),
    }
    for rounds in ("rz", "rn"):
        found = all_mapped([(f"__f{name}_{rounds}(a, b)", "f4") for name in right], a, b)
        for name, one in zip(right, found, strict=True):
            assert (one == right[name]).all() == (rounds == "rz"), (name, rounds)
    top = np.full(1, np.finfo("f4").max)
    assert mapped("__fadd_rz(a, a)", "f4", top) == top
    assert np.isinf(mapped("__fmul_rz(a, a)", "f4", np.full(1, np.inf, "f4")))


def test_fast_functions():
    names = ("sin", "cos", "tan", "exp", "log", "log2", "log10")
    found = all_mapped([(f"__{name}f(b)", "f4") for name in names], A, B)
    for name, one in zip(names, found, strict=True):
        right = getattr(np, name)(B.astype("f8"))
        np.testing.assert_allclose(one, right, rtol=1e-6, atol=1e-9, err_msg=name)


def test_other_floats():
    power, root = all_mapped([("__powf(b, a)", "f4"), ("rsqrtf(b)", "f4")], A, B)
    np.testing.assert_allclose(power, B.astype("f8") ** A, rtol=1e-6)
    np.testing.assert_allclose(root, B**-0.5, rtol=1e-6)
    d = A.astype("f8") / 3
    as_it_is = "__longlong_as_double(__double_as_longlong(a))"
    doubles = "__dadd_rn(a, b)", "__dmul_rn(a, b)", as_it_is
    total, product, same = all_mapped([(expression, "f8") for expression in doubles], d, d * 7)
    assert (total == d + d * 7).all()
    assert (product == d * (d * 7)).all()
    assert (same == d).all()
    assert np.isnan(mapped("__saturatef(a)", "f4", np.full(1, np.nan, "f4"))).sum() == 0


def low24(values):
    return [((int(v) & 0xFFFFFF) ^ 0x800000) - 0x800000 for v in values]


WHOLE = {
    "__mul24(a, a)": ("i4", [(v * v + 2**31) % 2**32 - 2**31 for v in low24(INTS)]),
    "__umul24(b, b)": ("u4", [(int(v) & 0xFFFFFF) ** 2 % 2**32 for v in UNSIGNED]),
    "__mulhi(a, a)": ("i4", [int(v) ** 2 >> 32 for v in INTS]),
    "__umulhi(b, b)": ("u4", [int(v) ** 2 >> 32 for v in UNSIGNED]),
    "__mul64hi(c, c)": ("i8", [int(v) ** 2 >> 64 for v in LONG]),
    "__brev(b)": ("u4", [int(f"{int(v):032b}"[::-1], 2) for v in UNSIGNED]),
    "__popc(b)": ("i4", [int(v).bit_count() for v in UNSIGNED]),
    "__popcll(c)": ("i4", [(int(v) % 2**64).bit_count() for v in LONG]),
    "__clz(a)": ("i4", [32 - int(v).bit_length() for v in UNSIGNED]),
    "__ffsll(c)": ("i4", [(int(v) & -int(v)).bit_length() for v in LONG]),
}


def test_integers():
    kinds = [(expression, kind) for expression, (kind, _) in WHOLE.items()]
    found = all_mapped(kinds, INTS, UNSIGNED, LONG)
    for (expression, (_, right)), one in zip(WHOLE.items(), found, strict=True):
        assert one.tolist() == right, expression


def test_reducing_and_matching_in_a_warp():
    b = UNSIGNED[:32].copy()
    assert (mapped("__reduce_add_sync(~0u, a)", "u4", b) == b.sum(dtype="u4")).all()
    assert (
        mapped("__reduce_min_sync(~0u, a)", "i4", INTS[:32].copy()) == INTS[:32].min()
    ).all()
    assert (mapped("__reduce_max_sync(~0u, a)", "u4", b) == b.max()).all()
    assert (mapped("__reduce_xor_sync(~0u, a)", "u4", b) == np.bitwise_xor.reduce(b)).all()
    few = np.arange(32, dtype="i4") % 3
    same = [sum(1 << j for j in range(32) if few[j] == few[i]) for i in range(32)]
    assert mapped("__match_any_sync(~0u, a)", "u4", few).tolist() == same
    half = "i < 16 ? __reduce_add_sync(0xffffu, a) : __reduce_add_sync(0xffff0000u, a)"
    assert mapped(half, "i4", few).tolist() == [few[:16].sum()] * 16 + [few[16:].sum()] * 16


def test_lanes_that_are_not_there_take_no_part():
    """A mask may name lanes that have returned, or that the block has not."""
    few = np.arange(20, dtype="i4") % 3 + 5
    total, same, whole, down, within = all_mapped(
        [
            ("__reduce_add_sync(~0u, a)", "i4"),
            ("__match_any_sync(~0u, a)", "u4"),
            ("all_same(3)", "u4"),
            ("__shfl_down_sync(~0u, a, 16)", "i4"),
            ("__shfl_down_sync(~0u, a, 16, 16)", "i4"),
        ],
        few,
        before="__device__ unsigned all_same(int v)"
        "{ int all; return __match_all_sync(~0u, v, &all); }",
    )
    assert (total == few.sum()).all()
    assert same.tolist() == [sum(1 << j for j in range(20) if few[j] == x) for x in few]
    assert (whole == 0xFFFFF).all()
    assert (
        down == [*few[16:], *[-1] * 12, *few[16:]]
    ).all()  # what is read of nobody is not plausible
    assert (within == few).all()
    odd = np.array([0.0, -0.0, np.nan, np.nan], "f4")
    alike, across = all_mapped(
        [("__match_any_sync(0xfu, a)", "u4"), ("__shfl_xor_sync(0xfu, a, 16)", "f4")], odd
    )
    assert alike.tolist() == [1, 2, 12, 12]
    assert np.isnan(across).all()


def test_constants_and_hints():
    assert mapped("table[i % 3]", "f4", A, before="__constant__ float table[3] = {1, 2, 4};")[
        :4
    ].tolist() == [1, 2, 4, 1]
    assert (mapped("__ldg(&pa[i])", "f4", A) == A).all()


def test_clocks_go_on():
    source = """
__global__ void k(long long *out)
{
    long long first = clock64();
    clock_t then = clock();
    out[0] = clock64() - first;
    out[1] = clock() - then;
}
"""
    out = np.full(2, -1)
    gpuops.compile(source)[1, 1](out)
    assert (out >= 0).all()


def test_a_trap():
    source = "__global__ void k(int *a)\n{\n    if (threadIdx.x == 3) __trap();\n}\n"
    with pytest.raises(gpuops.DeviceError, match=r"thread \(3, 0, 0\).* ends the kernel"):
        gpuops.compile(source)[1, 32](np.zeros(1, "i4"))


def test_printf_and_assert_need_no_include():
    """What is printed stands between what Python prints."""
    script = """
import numpy as np, gpuops
body = 'assert(n); printf("%d %.1f %d", threadIdx.x, n / 2.0, n);'
k = gpuops.compile('__global__ void k(int n) { ' + body + ' }', 'sim')
print('first', end=' ', flush=True)
k[1, 1](3)
print(' last')
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.stdout == "first 0 1.5 3 last\n", done.stderr


def test_what_is_not_there():
    with pytest.raises(
        gpuops.CompileError, match=r"line 1: .*__viaddmax_s32.*docs/sim.md lists"
    ):
        gpuops.compile("__global__ void k(int *a) { __viaddmax_s32(3, 4, 5); }")


# ---- kernels that are there and cannot be run ----

KERNEL = "__global__ void k(int *a) { *a = 7; }"


@pytest.mark.parametrize(
    ("source", "words"),
    [
        (f"namespace n {{ {KERNEL} }}", "the kernel k cannot be launched by that name"),
        (f"struct S {{ static {KERNEL} }};", "the kernel k cannot be launched by that name"),
        (KERNEL + "\n__global__ void k() {}", "the kernel k cannot be launched by that name"),
        (KERNEL.replace("k(", "max("), "the kernel max cannot be launched by that name"),
        ("// \ud800\n" + KERNEL, "compile: the source is no text"),
        (
            KERNEL.replace("*a = 7", 'asm("mov.u32 %0, %%laneid;" : "=r"(*a))'),
            r"line 1: sim runs C\+\+ on the CPU, and inline assembly is a GPU's",
        ),
    ],
)
def test_one_sentence_of_what_cannot_be_run(source, words):
    with pytest.raises(gpuops.CompileError, match=words) as failure:
        gpuops.compile(source)
    assert not re.search(r"gop_|GOP_|/tmp", str(failure.value))


@pytest.mark.sampled(every=3)
@pytest.mark.parametrize("name", ["a", "i", "place", "kernel", "grid", "T"])
def test_a_kernel_may_have_any_name(name):
    a = np.zeros(1, "i4")
    gpuops.compile(KERNEL.replace("k(", f"{name}("))[1, 1](a)
    assert a == 7

"""test_valid_cuda - what nvcc takes and sim refused: spellings, headers, types, functions."""

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from sim_kernels import needs_sim

import gpuops

pytestmark = [needs_sim, pytest.mark.usefixtures("on_sim"), pytest.mark.sampled(every=2)]

SPELLINGS = [
    "__global__ void __launch_bounds__(32 * (4 + 4)) k(int *a) { *a = 7; }",
    "__global__ void __launch_bounds__(256, 2) k(int *a) { *a = 7; }",
    "__global__ __attribute__((noinline)) void k(int *a) { *a = 7; }",
    "#define LB __launch_bounds__(256)\n__global__ void LB k(int *a) { *a = 7; }",
    "#define KERNEL __global__ void\nKERNEL k(int *a) { *a = 7; }",
    "#define MAKE(n) __global__ void n(int *a) { __shared__ int s; s = 7; *a = s; }\nMAKE(k)",
    "void __global__ k(int *a) { *a = 7; }",
    "static __global__ void k(int *a) { *a = 7; }",
    'extern "C" { __global__ void k(int *a) { *a = 7; } }',
    "__global__ void k(int *a);\n__global__ void k(int *a) { *a = 7; }",
    "#ifdef __CUDACC__\n#define D __device__\n#endif\nD int f() { return 7; }\n"
    "__global__ void k(int *a) { *a = f(); }",
    "__global__ void k(int *a)\n{\n#if __CUDA_ARCH__ >= 600\n*a = 7;\n#endif\n}",
    "static __constant__ int c[2] = {7, 8};\n__global__ void k(int *a) { *a = c[0]; }",
    "using namespace std;\n__device__ int count = 4, data = 3;\n"
    "__global__ void k(int *a) { *a = count + data; }",
    "__global__ void k(int *a) { atomicAdd_block(a, 3); atomicAdd_system(a, 4); "
    "__nanosleep(9); }",
    "__global__ void k(int *a) { *a = INT_MAX > CHAR_BIT ? 7 : 0; }",
    "__global__ void k(int *a) { *a = 0; for (int i : {3, 4}) *a += i; }",
    "__global__ void k(int *a) { int x = {7.5}; unsigned char c{263}; *a = x == c ? x : 0; }",
    "#if CUDART_VERSION < 9000 || __CUDACC_VER_MAJOR__ < 9 || !defined __NVCC__\n"
    "#error old\n#endif\n__global__ void k(int *a) { *a = 7; }",
    "struct V { int4 v; };\n__device__ int4 twice(int4 v) { return v; }\n"
    "__global__ void k(int *a) { int4 v(twice(make_int4(1, 2, 3, 7))); V w = {int4(v)}; "
    "*a = ((int4)w.v).w; }",
    "__managed__ int m = 7;\n__global__ void k(int *a) { *a = m; }",
    "__global__ void k(int *a) { int __shared__ s[2]; volatile __shared__ int t, *p; t = 7; "
    "p = &t; s[1] = *p; *a = s[1]; }",
    "__global__ void k(int *a) { static __shared__ int s[2]; s[1] = 7; *a = s[1]; }",
    "__global__ void k(int *a) { extern __shared__ int s[][4]; s[1][2] = 7; *a = s[1][2]; }",
    "extern __shared__ __align__(16) char raw[];\n__global__ void k(int *a) { int *s = "
    "reinterpret_cast<int *>(raw); s[3] = 7; *a = s[3]; }",
    "__global__ void k(int *a) { __shared__ __align__(sizeof(double)) char raw[64]; "
    "__align__(8) __shared__ int t; *(double *)raw = 5; t = 2; *a = *(double *)raw + t; }",
    "#include <cuda.h>\n#include <device_launch_parameters.h>\n#include <vector_types.h>\n"
    "#include <cuda_runtime_api.h>\n__global__ void k(int *a) { *a = 7; }",
]


@pytest.mark.sampled(every=3)
@pytest.mark.parametrize("source", SPELLINGS)
def test_ways_to_write_a_kernel(source):
    a = np.zeros(1, "i4")
    program = gpuops.compile(source)
    assert list(program.kernels) == ["k"]
    program[1, 1, 64](a)
    assert a == 7


@pytest.mark.parametrize("name", ["größe", "äpfel", "k\\u00e4", "名前"])
def test_names_in_other_letters(name):
    """gcc's preprocessor writes such a letter as its number."""
    program = gpuops.compile(
        f"__device__ int {name}_(int x) {{ return x; }}\n__global__ void {name}(int *a)\n"
        f"{{ __shared__ int {name}s[2]; {name}s[1] = {name}_(7); *a = {name}s[1]; }}"
    )
    written = name.replace("\\u00e4", "ä")
    assert list(program.kernels) == [written]
    a = np.zeros(1, "i4")
    program.kernels[written][1, 1](a)
    assert a == 7


def test_every_kernel_is_among_the_program_s():
    program = gpuops.compile(
        "void __global__ one(int *a) { *a = 1; }\n#define K(n) __global__ void n(int *a) "
        "{ *a = 2; }\nK(two) K(three)\n__global__ void four(int &a, int (*b)[4]) "
        "{ a = b[0][1]; }\ntemplate <class A, class B> struct pair { A a; B b; };\n"
        "__global__ void five(int *a, pair<int, int> v) { *a = v.b; }\n"
    )
    assert list(program.kernels) == ["one", "two", "three", "four", "five"]
    with pytest.raises(TypeError, match="parameter 0 has a type that Python cannot pass"):
        program.four[1, 1](1, np.zeros(4, "i4"))
    with pytest.raises(TypeError, match="parameter 1 has a type that Python cannot pass"):
        program.five[1, 1](np.zeros(1, "i4"), (1, 2))


def test_a_constructor_that_calls_what_is_virtual():
    k = gpuops.compile("""
    struct Shape {
        int made;
        __device__ Shape() : made(ask()) { }
        __device__ virtual int sides() { return 0; }
        __device__ int ask() { return 10 * sides(); }
    };
    struct Square : Shape { __device__ Square() { made += ask(); }
                            __device__ int sides() override { return 4; } };
    __device__ __attribute__((noinline)) int of(Shape *s) { return s->made + s->sides(); }
    __global__ void k(int *out)
    {
        Square own;
        out[threadIdx.x] = of(&own);
    }
    """)
    out = np.zeros(32, "i4")
    k[1, 32](out)
    assert (out == 44).all()


def test_vectors_and_constants():
    k = gpuops.compile("""
    #include <math_constants.h>
    __global__ void k(float *out, const unsigned char *bytes)
    {
        const uchar4 c = ((const uchar4 *)bytes)[1];
        const short2 s = make_short2(-3, 4);
        const longlong2 l = make_longlong2(1ll << 40, 2);
        const double4 d = make_double4(1, 2, 3, 4);
        const uint3 u = make_uint3(1, 2, 3);
        const ushort3 h = make_ushort3(1, 2, 3);
        out[0] = c.x + c.w;
        out[1] = s.x * s.y;
        out[2] = (float)(l.x >> 38) + l.y;
        out[3] = d.x + d.w + u.z + h.y + make_float1(2).x;
        out[4] = CUDART_PI_F;
        out[5] = sizeof(uchar4) + sizeof(short3) + alignof(double2) + sizeof(longlong4);
    }
    """)
    out = np.zeros(6, "f4")
    k[1, 1](out, np.arange(8, dtype="u1"))
    assert out.tolist() == [11, -12, 6, 12, np.float32(np.pi), 4 + 6 + 16 + 32]


def test_small_types_are_shuffled_as_int():
    k = gpuops.compile("""
    __global__ void k(int *out)
    {
        const int i = threadIdx.x;
        const short s = -i; const char c = i; const bool b = i == 3;
        out[i] = __shfl_xor_sync(~0u, s, 1) + __shfl_sync(~0u, c, 0);
        out[i] += __shfl_down_sync(~0u, b, 1);
    }
    """)
    out = np.zeros(32, "i4")
    k[1, 32](out)
    assert out.tolist() == [-(i ^ 1) + (i == 2) for i in range(32)]


def test_least_and_most_have_cuda_s_types():
    k = gpuops.compile("""
    __global__ void k(long long *out, int n, unsigned u, long long l, float f)
    {
        out[0] = min(n, 3) * 10 + (int)max(threadIdx.x, 4u);
        out[1] = max(n, u) == 4294967295u;
        out[2] = min(l, 5ll);
        out[3] = (long long)(max(f, 0.5f) + min(f, 2.0));
    }
    """)
    out = np.zeros(4, "i8")
    k[1, 1](out, -1, 3, 1 << 40, 1.5)
    assert out.tolist() == [-6, 1, 5, 3]


# ---- conversions and roundings, against exact fractions ----

FLOATS = [0.0, -0.0, 0.5, 1.5, 2.5, -0.5, -1.5, -2.5, 1e-40, -1e-40, 2147483520.0, 2147483648.0]
FLOATS += [-2147483648.0, -2147483904.0, 3e9, 4294967040.0, 4294967296.0, -1.0, 9.2e18, 2.0**63]
FLOATS += [-(2.0**63), 1.8e19, 2.0**64, 1e30, -1e30, math.inf, -math.inf, 123456.7, -123456.7]
TO_INTEGER = {"rn": round, "rz": math.trunc, "ru": math.ceil, "rd": math.floor}
RANGES = {
    "int": (-(2**31), 2**31 - 1, "i4"),
    "uint": (0, 2**32 - 1, "u4"),
    "ll": (-(2**63), 2**63 - 1, "i8"),
    "ull": (0, 2**64 - 1, "u8"),
}
KINDS = {"f4": "float", "f8": "double", "i4": "int", "u4": "unsigned", "i8": "long long"}
KINDS["u8"] = "unsigned long long"


def mapped(lines, x, *outs):
    """What kernels store by statements in x and o0, o1, ... for each element."""
    names = "".join(f", {KINDS[out]} *o{k}" for k, out in enumerate(outs))
    found = [np.zeros(x.size, out) for out in outs]
    kind = KINDS[x.dtype.str[1:]]
    gpuops.compile(
        f"__global__ void k(const {kind} *p{names})\n{{\n"
        f"    const int i = threadIdx.x; const {kind} x = p[i];\n    {lines}\n}}\n"
    )[1, x.size](x, *found)
    return found


@pytest.mark.parametrize("kind", ["f4", "f8"])
def test_floats_to_integers(kind):
    x = np.array(FLOATS, kind)
    names = [*itertools.product(RANGES, TO_INTEGER)]
    lines = "".join(
        f"o{k}[i] = __{KINDS[kind]}2{to}_{mode}(x); " for k, (to, mode) in enumerate(names)
    )
    found = mapped(lines, x, *(RANGES[to][2] for to, _ in names))
    for (to, mode), got in zip(names, found, strict=True):
        low, high, _ = RANGES[to]
        for value, result in zip(x.tolist(), got.tolist(), strict=True):
            if math.isinf(value):
                right = high if value > 0 else low
            else:
                right = min(max(TO_INTEGER[mode](Fraction(value)), low), high)
            assert result == right, (to, mode, value)


def test_nan_to_integers():
    """PTX: 0 for 32 bits of a float, else the highest bit alone."""
    lines = "o0[i] = __float2int_rn(x); o1[i] = __float2uint_rz(x); o2[i] = __float2ll_rn(x); "
    lines += "o3[i] = __double2int_rn(x); o4[i] = __double2ull_rz(x);"
    found = mapped(lines, np.array([np.nan], "f4"), "i4", "u4", "i8", "i4", "u8")
    assert [int(f[0]) for f in found] == [0, 0, -(2**63), -(2**31), 2**63]


def rounded(exact: Fraction, kind, mode):
    """The neighbour of an exact value on the side that the mode says."""
    near = np.dtype(kind).type(float(exact))
    if kind == "f4":  # through a double: look at both neighbours
        near = min(
            (np.nextafter(near, s, dtype=kind) for s in (-np.inf, near, np.inf)),
            key=lambda v: abs(Fraction(float(v)) - exact),
        )
    up = mode == "ru" or (mode == "rz" and exact < 0)
    if Fraction(float(near)) < exact and up:
        return np.nextafter(near, np.dtype(kind).type(np.inf))
    if Fraction(float(near)) > exact and not up:
        return np.nextafter(near, np.dtype(kind).type(-np.inf))
    return near


@pytest.mark.parametrize(("kind", "letter"), [("f4", "f"), ("f8", "d")])
def test_operations_rounded_by_name(kind, letter):
    rng = np.random.default_rng(5)
    x = ((rng.random(48) - 0.5) * 10.0 ** rng.integers(-6, 7, 48)).astype(kind)
    y = np.roll(x, 1)
    exact = {
        "add": [Fraction(float(a)) + Fraction(float(b)) for a, b in zip(x, y, strict=True)],
        "sub": [Fraction(float(a)) - Fraction(float(b)) for a, b in zip(x, y, strict=True)],
        "mul": [Fraction(float(a)) * Fraction(float(b)) for a, b in zip(x, y, strict=True)],
        "div": [Fraction(float(a)) / Fraction(float(b)) for a, b in zip(x, y, strict=True)],
        "rcp": [1 / Fraction(float(a)) for a in x],
    }
    names = [*itertools.product(exact, ("ru", "rd", "rz"))]
    lines = "const int n = 48; const auto y = p[(i + n - 1) % n]; (void)y; "
    for k, (name, mode) in enumerate(names):
        lines += f"o{k}[i] = __{letter}{name}_{mode}(x{'' if name == 'rcp' else ', y'}); "
    found = mapped(lines, x, *[kind] * len(names))
    for (name, mode), got in zip(names, found, strict=True):
        right = [rounded(e, kind, mode) for e in exact[name]]
        assert got.tolist() == right, (name, mode)


def test_integers_to_floats_rounded_by_name():
    x = np.array([16777217, 16777219, -16777217, 2**31 - 1, -(2**31), 3], "i4")
    modes = ["ru", "rd", "rz"]
    lines = "".join(f"o{k}[i] = __int2float_{mode}(x); " for k, mode in enumerate(modes))
    lines += "o3[i] = __ll2double_ru((1ll << 53) + 1 + 0 * x); o4[i] = __double2float_rd(0.1);"
    *found, wide, narrow = mapped(lines, x, "f4", "f4", "f4", "f8", "f4")
    for mode, got in zip(modes, found, strict=True):
        assert got.tolist() == [rounded(Fraction(int(v)), "f4", mode) for v in x]
    assert wide[0] == 2.0**53 + 2
    assert narrow[0] == np.nextafter(np.float32(0.1), np.float32(0))


def test_functions_that_math_h_has_not():
    x = np.array([0, 0.25, 0.5, 1, 1.5, -0.5, 2, 1000.5, 7.3], "f8")
    lines = (
        "o0[i] = sinpi(x); o1[i] = cospi(x); o2[i] = rcbrt(x + 1); o3[i] = norm3d(x, 2., 3.); "
    )
    lines += (
        "float s, c; __sincosf((float)x, &s, &c); o4[i] = s + c; o5[i] = __exp10f(x / 1000);"
    )
    sine, cosine, root, norm, both, ten = mapped(lines, x, *["f8"] * 6)
    right = np.sin(np.pi * np.remainder(x, 2))
    np.testing.assert_allclose(sine, right, atol=1e-15)
    assert sine[[2, 3, 4, 6]].tolist() == [1, 0, -1, 0]
    assert cosine[[0, 2, 3]].tolist() == [1, 0, -1]
    np.testing.assert_allclose(cosine, np.cos(np.pi * np.remainder(x, 2)), atol=1e-15)
    np.testing.assert_allclose(root, 1 / np.cbrt(x + 1))
    np.testing.assert_allclose(norm, np.sqrt(x * x + 13))
    np.testing.assert_allclose(both, np.sin(x) + np.cos(x), atol=1e-5)
    np.testing.assert_allclose(ten, 10 ** (x / 1000), rtol=1e-6)


# Arguments and values of scipy.special 1.17.
PROBABILITY = {
    "erfinv": ([0.5, -0.99, 1e-9, 1], [0.476936276, -1.82138637, 8.86226925e-10, np.inf]),
    "erfcinv": ([0.5, 1.5, 1e-300, 2], [0.476936276, -0.476936276, 26.2094700, -np.inf]),
    "erfcx": ([-3, 2, 24.9, 100], [16205.9889, 0.255395676, 0.0226399878, 0.00564161378]),
    "normcdf": ([-10, -1, 0, 3], [7.61985302e-24, 0.158655254, 0.5, 0.998650102]),
    "normcdfinv": ([0.5, 0.975, 1e-10, 1], [0, 1.95996398, -6.36134090, np.inf]),
    "cyl_bessel_i0": ([0, -1, 5, 700], [1, 1.26606588, 27.2398718, 1.52959335e302]),
    "cyl_bessel_i1": ([0, -1, 5, 700], [0, -0.565159104, 24.3356421, 1.52850039e302]),
}


@pytest.mark.parametrize("name", PROBABILITY)
def test_probability_and_bessel_functions(name):
    values, right = (np.array(v, "f8") for v in PROBABILITY[name])
    wide, narrow = mapped(f"o0[i] = {name}(x); o1[i] = {name}f((float)x);", values, "f8", "f4")
    np.testing.assert_allclose(wide, right, rtol=1e-8)
    small = (np.abs(right) < 1e30) & (values.astype("f4") == values)
    np.testing.assert_allclose(narrow[small], right[small], rtol=1e-6)


def test_dot_products_of_four_bytes():
    x = np.array([0x01FF7F80, 0x80808080], "u4")
    lines = "o0[i] = __dp4a((int)x, 0x02030405, 7); o1[i] = __dp4a(x, 0x02030405u, 7u); "
    lines += "o2[i] = __dp4a(make_char4(-1, 2, 3, 4), make_char4(5, 6, 7, -8), (int)i);"
    signed, unsigned, vectors = mapped(lines, x, "i4", "u4", "i4")
    terms = x[:, None] >> np.array([24, 16, 8, 0], "u4") & 255
    factors = np.array([2, 3, 4, 5])
    assert signed.tolist() == (7 + terms.astype("i1").astype("i4") @ factors).tolist()
    assert unsigned.tolist() == (7 + terms @ factors).tolist()
    assert vectors.tolist() == [-4, -3]


def test_norms_of_any_number_of_values():
    x = np.array([3, 4], "f8")
    lines = "double v[3] = {x, 4, 12}; o0[i] = norm(3, v); o1[i] = rnorm(2, v);"
    length, inverse = mapped(lines, x, "f8", "f8")
    np.testing.assert_allclose(length, np.sqrt(x * x + 160))
    np.testing.assert_allclose(inverse, 1 / np.sqrt(x * x + 16))


SOURCES = {
    "digit separators": "int n = 1'000; if (n) { int c = 'a'; a[0] = c + n;\n}",
    "a static function of a structure": "struct L { static __device__ int f(int x) "
    "{ return x + 1097 - 1; } };\na[0] = L::f(0) + 1;",
    "a structure whose base has brackets": "A s = {1097}; a[0] = s.x;",
    "another name of a namespace": "a[0] = b1::q;",
}


@pytest.mark.parametrize("name", SOURCES)
def test_what_brackets_and_quotes_do_not_mean(name):
    before = """template <int N> struct B { static constexpr int n = N; };
struct A : B<sizeof(int)> { __device__ A(int v) : x(v) {} int x; };
namespace a1 { __device__ int q = 1097; }
namespace b1 = a1;
"""
    k = gpuops.compile(f"{before}__global__ void k(int *a)\n{{\n{SOURCES[name]}\n}}")
    a = np.zeros(1, "i4")
    k[1, 1](a)
    assert a[0] == 1097


# As samples, books and the templates of editors have them around their kernels.
OF_THE_HOST = """#include <vector>
static cudaEvent_t start, stop;
inline cudaError_t checkCuda(cudaError_t result)
{
    if (result != cudaSuccess) fprintf(stderr, "%s\\n", cudaGetErrorString(result));
    return result;
}
struct Buffer {
    float *p;
    cudaStream_t stream;
    explicit Buffer(size_t n) { cudaMalloc(&p, n); }
    ~Buffer() { cudaFree(p); }
};
void up(Buffer &b, const std::vector<float> &v, cudaStream_t s = 0,
        cudaMemcpyKind kind = cudaMemcpyHostToDevice)
{
    cudaMemcpyAsync(b.p, v.data(), v.size(), kind, s);
}
int main()
{
    cudaDeviceProp properties;
    checkCuda(cudaGetDeviceProperties(&properties, 0));
}
__global__ void k(int *a) { *a = 1; }
"""


def test_types_of_the_host_stand_beside_kernels():
    a = np.zeros(1, "i4")
    gpuops.compile(OF_THE_HOST).k[1, 1](a)
    assert a[0] == 1


def test_vectors_in_braces():
    """CUDA's vectors are aggregates: constants need no code, and what is not given is 0."""
    k = gpuops.compile(
        """
        __constant__ int2 offset[3] = {{1, 2}, {3, 4}, {5}};
        __device__ float4 four[2] = {{1, 2, 3, 4}, {5, 6}};
        struct Pair { int2 a; float3 b; };
        __constant__ Pair pair = {{1, 2}, {3.0f, 4.0f, 5.0f}};
        __global__ void k(float *out) {
            float4 v = {7}, w[2] = {{1, 2, 3, 4}};
            float3 u = {8, 9};
            float values[] = {offset[1].y, offset[2].x, offset[2].y, four[1].y, four[1].z,
                              pair.a.y, pair.b.z, v.x, v.y + v.w, w[0].w, w[1].x, u.y, u.z};
            for (int i = 0; i < 13; i++) out[i] = values[i];
        }
        """,
        device="sim",
    )
    out = np.ones(13, "f4")
    k[1, 1](out)
    assert out.tolist() == [4, 5, 0, 6, 0, 2, 5, 7, 0, 4, 0, 9, 0]
    for text in ("float4 v = 0", "float4 v; v = 1.0f", "float2 v = {1, 2, 3}"):
        with pytest.raises(gpuops.CompileError, match="line 1: "):
            gpuops.compile(f"__global__ void k(float *a) {{ {text}; a[0] = v.x; }}", "sim")

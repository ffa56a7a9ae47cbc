"""test_launch_arguments - what a kernel of one's own takes from Python, and what it refuses."""

import numpy as np
import pytest
from sim_kernels import needs_sim

import gpuops

pytestmark = [needs_sim, pytest.mark.usefixtures("on_sim"), pytest.mark.sampled(every=2)]

# ---- arrays that share memory ----

TWO = "__global__ void two(float *a, float *b) { a[threadIdx.x] += 1; b[threadIdx.x] *= 10; }"
REVERSED = """
__global__ void reversed(float *out, const float *in, int n)
{
    out[threadIdx.x] = in[n - 1 - threadIdx.x];
}
"""


def test_one_array_in_two_places_is_one_array():
    k = gpuops.compile(TWO)
    x = np.arange(4, dtype="f4")
    k[1, 4](x, x)
    assert x.tolist() == [10, 20, 30, 40]
    d = gpuops.to_device(np.arange(4, dtype="f4"), "sim")
    k[1, 4](d, d)
    assert d.get().tolist() == [10, 20, 30, 40]


@pytest.mark.parametrize("where", ["host", "device"])
def test_a_race_in_place_is_one_whoever_owns_the_array(where):
    x = np.arange(8, dtype="f4")
    x = gpuops.to_device(x, "sim") if where == "device" else x
    with pytest.raises(gpuops.DeviceError, match="a race"):
        gpuops.compile(REVERSED)[1, 8](x, x, 8)


def test_views_that_overlap_keep_their_alignment():
    """Memory on the device begins as far behind a multiple of 16 bytes as on the host."""
    k = gpuops.compile(
        "__global__ void k(unsigned char *u, float *f) { u[0] = 7; f[threadIdx.x] = 2; }"
    )
    memory = np.zeros(64, "u1")
    k[1, 8](memory[1:], memory[4:36].view("f4"))
    assert memory[1] == 7
    assert (memory[4:36].view("f4") == 2).all()


def test_views_that_overlap_keep_what_each_stores():
    ends = gpuops.compile(
        "__global__ void e(float *a, float *b) { if (threadIdx.x) a[2] = 10; else b[0] = 20; }"
    )
    x = np.zeros(4, "f4")
    ends[1, 2](x[:3], x[1:])
    assert x.tolist() == [0, 20, 10, 0]
    bits = gpuops.compile(
        "__global__ void bits(unsigned *a, const float *b, float *c) { c[0] = b[1]; a[3] = 7; }"
    )
    x = np.arange(4, dtype="f4")
    other = np.zeros(1, "f4")
    readonly = x[:]
    readonly.flags.writeable = False
    bits[1, 1](x.view("u4"), readonly, other)
    assert (other[0], x.view("u4")[3]) == (1, 7)


def test_arrays_that_touch_are_two():
    x = np.zeros(8, "f4")
    k = gpuops.compile("__global__ void k(float *a, float *b) { a[4] = b[0]; }")
    with pytest.raises(
        gpuops.DeviceError, match="stores a\\[4\\], past the end of a, which has 4"
    ):
        k[1, 1](x[:4], x[4:])


def test_a_mask_is_not_ignored():
    x = np.ma.array([1.0, 2.0], mask=[0, 1], dtype="f4")
    with pytest.raises(TypeError, match=r"two: argument 1 is a masked array.*filled\(value\)"):
        gpuops.compile(TWO)[1, 2](np.zeros(2, "f4"), x)
    with pytest.raises(TypeError, match="k: argument 1 is a masked array"):
        gpuops.compile(NUMBERS)[1, 1](np.zeros(1), x[1], 2, True, -3)


# ---- numbers ----

NUMBERS = """
__global__ void k(double *a, float x, unsigned n, bool b, signed char c)
{
    a[0] = x + n + b + c;
}
"""
RIGHT = {"x": 1.5, "n": 2, "b": True, "c": -3}


@pytest.mark.sampled(every=3)
@pytest.mark.parametrize(
    ("word", "value", "kind", "said"),
    [
        ("x", None, TypeError, "argument 1 is None, the kernel takes a real number"),
        ("x", "3", TypeError, "argument 1 is '3', the kernel takes a real number"),
        ("x", [1], TypeError, r"argument 1 is \[1\], the kernel takes a real number"),
        ("x", 1j, TypeError, "argument 1 is 1j, the kernel takes a real number"),
        ("x", np.str_("3"), TypeError, "argument 1 is '3', the kernel takes a real number"),
        ("x", 10**400, OverflowError, r"argument 1 is 10{5}.*\.\.\., expected .* of float32"),
        ("x", 1e300, OverflowError, r"argument 1 is 1e\+300, expected a number of float32"),
        ("x", np.zeros(1), TypeError, "argument 1 is an array, the kernel takes one float32"),
        ("n", -1, OverflowError, "argument 2 is -1, expected .* uint32, from 0 to 4294967295"),
        ("n", 1.0, TypeError, "argument 2 is 1.0, the kernel takes an integer"),
        ("b", "x", TypeError, "argument 3 is 'x', the kernel takes True or False"),
        ("b", 2.5, TypeError, "argument 3 is 2.5, the kernel takes True or False"),
        ("b", 2, TypeError, "argument 3 is 2, the kernel takes True or False"),
        ("c", 128, OverflowError, "argument 4 is 128, expected .* int8, from -128 to 127"),
    ],
)
def test_a_number_that_does_not_fit(word, value, kind, said):
    with pytest.raises(kind, match=f"^k: {said}"):
        gpuops.compile(NUMBERS)[1, 1](np.zeros(1), *(RIGHT | {word: value}).values())


def test_an_integer_that_python_cannot_write():
    with pytest.raises(OverflowError, match="argument 2 is an integer of thousands of digits"):
        gpuops.compile(NUMBERS)[1, 1](np.zeros(1), 1.5, 10**5000, True, 0)


def test_numbers_that_fit():
    k, a = gpuops.compile(NUMBERS), np.zeros(1)
    k[1, 1](a, np.float64(0.5), np.array(7), np.bool_(False), np.int64(-2))
    assert a[0] == 5.5
    k[1, 1](a, float("inf"), True, 1, 0)
    assert a[0] == np.inf


# ---- grids, blocks, bytes ----


def test_sizes_are_refused_for_what_is_wrong():
    k = gpuops.compile(TWO)
    grid = r"two: grid is \(1, 70000\), expected sizes above 0, at most .* 65535 in y and z"
    with pytest.raises(ValueError, match=grid):
        k[(1, 70000), 1]
    with pytest.raises(ValueError, match=r"at most 2\*\*31 - 1 in x"):
        k[2**31, 1]
    with pytest.raises(ValueError, match=r"block is \(1, 1, 128\), .* at most 64 in z"):
        k[1, (1, 1, 128)]
    with pytest.raises(ValueError, match=r"shared is a number of bytes below 2\*\*32"):
        k[1, 1, 10**30]
    x = np.zeros(4, "f4")
    k[[1, 1], [4]](x, x)  # a list is as good as a tuple


@pytest.mark.parametrize("call", ["__syncwarp(0xff00);", "x = __shfl_sync(0xff00, x, 8);"])
def test_a_mask_without_its_caller(call):
    source = f"__global__ void k(int *a) {{ int x = threadIdx.x; {call} a[threadIdx.x] = x; }}"
    with pytest.raises(
        gpuops.DeviceError, match="is lane 0 of its warp, which the mask 0xff00"
    ):
        gpuops.compile(source)[1, 32](np.zeros(32, "i4"))

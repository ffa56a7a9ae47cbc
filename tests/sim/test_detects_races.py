"""Global memory that threads use with nothing to order them, and what orders."""

import numpy as np
import pytest
from sim_kernels import ORDERS, caught, needs_sim

import gpuops

pytestmark = [needs_sim, pytest.mark.usefixtures("on_sim"), pytest.mark.sampled(every=2)]


def kernel(body, parameters="int *a"):
    return f"__device__ unsigned ticket;\n__global__ void k({parameters})\n{{\n{body}\n}}\n"


# ---- races ----


def test_blocks_that_store_to_one_element():
    source = kernel("""    if (blockIdx.x == 2)
        a[5] = 1;
    if (blockIdx.x == 7)
        a[5] = 2;""")
    said = caught(
        source,
        lambda k: k[9, 1](np.zeros(9, "i4")),
        r"stores a\[5\], global",
        "a[5] = 1",
        "a[5] = 2",
    )
    assert "block (2, 0, 0)" in said
    assert "block (7, 0, 0)" in said
    assert "stores something else to, and nothing orders the two blocks" in said


@pytest.mark.parametrize("threads", [1, 2, 8])
def test_a_race_is_found_whichever_block_runs_first(threads):
    k = gpuops.compile(kernel("    if (threadIdx.x == 0) a[blockIdx.x + 1] += a[blockIdx.x];"))
    gpuops.set_num_threads(threads)
    for _ in range(20):
        with pytest.raises(gpuops.DeviceError, match="and nothing orders the two blocks"):
            k[8, 1024](np.zeros(9, "i4"))


def test_an_atomic_replaced_by_plus():
    atomic = kernel("    atomicAdd(a, 1);")
    a = np.zeros(1, "i4")
    gpuops.compile(atomic)[40, 64](a)
    assert a[0] == 40 * 64
    source = atomic.replace("atomicAdd(a, 1)", "*a += 1")
    said = caught(source, lambda k: k[1, 64](np.zeros(1, "i4")), "use an atomic", "*a += 1")
    assert "thread (1, 0, 0)" in said
    assert "thread (0, 0, 0)" in said
    caught(source, lambda k: k[64, 1](np.zeros(1, "i4")), "use an atomic", "*a += 1")


def test_a_sum_that_one_block_clears_and_all_add_to():
    source = kernel("""    if (blockIdx.x == 0 && threadIdx.x == 0) *a = 0;
    __syncthreads();
    atomicAdd(a, 1);""")
    launch = lambda k: k[4, 32](np.zeros(1, "i4"))  # noqa: E731
    caught(source, launch, "and nothing orders", "*a = 0", "atomicAdd(a")


def test_threads_of_a_block_without_a_barrier():
    source = kernel(
        """    a[threadIdx.x] = threadIdx.x;
    b[threadIdx.x] = a[(threadIdx.x + DISTANCE) % 64];""",
        "int *a, int *b",
    )
    launch = lambda k: k[1, 64](np.zeros(64, "i4"), np.zeros(64, "i4"))  # noqa: E731
    words = r"put __syncthreads\(\), or __syncwarp\(\) as they are of one warp, between them"
    near = source.replace("DISTANCE", "1")
    caught(near, launch, words, "a[threadIdx.x] =", "b[threadIdx.x] =")
    far = source.replace("DISTANCE", "32")
    caught(far, launch, r"put __syncthreads\(\) between them")
    gpuops.compile(far.replace(";\n    b", ";\n    __syncthreads();\n    b"))
    launch(gpuops.compile(near.replace(";\n    b", ";\n    __syncthreads();\n    b")))


def test_an_update_in_place_that_reads_its_neighbours():
    source = kernel("""    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i > 0) a[i] = a[i - 1];""")
    caught(source, lambda k: k[4, 64](np.zeros(256, "i4")), "a race", "a[i] = a[i - 1]")


def test_a_variable_of_the_device():
    source = kernel("    ticket = blockIdx.x;\n    if (a) a[blockIdx.x] = 0;")
    caught(source, lambda k: k[3, 1](np.zeros(3, "i4")), "stores something else", "ticket = b")


def test_a_vector_store_over_anothers_elements():
    source = kernel("""    if (blockIdx.x == 1) a[2] = 7;
    else *(int4 *)a = make_int4(1, 2, 3, 4);""")
    caught(source, lambda k: k[2, 1](np.zeros(4, "i4")), "a race", "a[2] = 7", "make_int4")


def test_shuffles_order_no_memory():
    source = kernel("""    __shared__ int part[32];
    part[threadIdx.x] = 1;
    int x = __shfl_xor_sync(0xffffffffu, 1, 1);
    a[threadIdx.x] = x + part[31 - threadIdx.x];""")
    launch = lambda k: k[1, 32](np.zeros(32, "i4"))  # noqa: E731
    caught(source, launch, "as they are of one warp", "part[threadIdx.x] = 1", "x + part[")
    launch(gpuops.compile(source.replace("    a[", "    __syncwarp();\n    a[")))


# ---- no races ----


def test_neighbouring_bytes_are_not_one():
    k = gpuops.compile(
        kernel(
            "    int i = blockIdx.x * blockDim.x + threadIdx.x;\n    a[i] = b[i] + 1;",
            "signed char *a, const signed char *b",
        )
    )
    a, b = np.zeros(999 * 3, "i1"), np.ones(999 * 3, "i1")
    k[999, 3](a, b)
    assert (a == 2).all()


def test_the_same_value_stored_by_all():
    k = gpuops.compile(kernel("    if (b[threadIdx.x] > 3) *a = 1;", "int *a, const int *b"))
    a = np.zeros(1, "i4")
    k[50, 1000](a, np.arange(1000, dtype="i4"))
    assert a[0] == 1


def test_a_launch_is_over_before_the_next():
    k = gpuops.compile(
        kernel("    a[(threadIdx.x + blockIdx.x * 32 + n) % 64] += n;", "int *a, int n")
    )
    a = np.zeros(64, "i4")
    for n in range(5):
        k[2, 32](a, n)
    assert (a == 10).all()


# ---- fences and tickets ----

LAST = """
__device__ unsigned ticket;
__global__ void total(const int *a, int *part, int *out)
{
    __shared__ bool last;
    if (threadIdx.x == 0) {
        part[blockIdx.x] = a[blockIdx.x];
        __threadfence();
        last = atomicInc(&ticket, gridDim.x - 1) == gridDim.x - 1;
    }
    __syncthreads();
    if (last && threadIdx.x == 0) {
        int sum = 0;
        for (int b = 0; b < (int)gridDim.x; b++) sum += part[b];
        *out = sum;
    }
}
"""

# Every thread of a block stores a part; all of the last block's threads read them all.
ALL = """
__device__ unsigned ticket;
__global__ void total(const int *a, int *part, int *out)
{
    __shared__ bool last;
    const int i = blockIdx.x * blockDim.x + threadIdx.x, n = gridDim.x * blockDim.x;
    part[i] = a[i];
    /* here */
    if (threadIdx.x == 0) last = atomicInc(&ticket, gridDim.x - 1) == gridDim.x - 1;
    __syncthreads();
    if (!last) return;
    for (int k = threadIdx.x; k < n; k += blockDim.x) atomicAdd(out, part[k]);
}
"""
FENCED = [
    "__threadfence();\n    __syncthreads();",  # each its own store, then all meet
    "__syncthreads();\n    if (threadIdx.x == 0) __threadfence();",  # one for all before it
    "__threadfence();\n    __syncthreads();\n    __threadfence();",
]


def run_total(source, blocks, threads):
    n = blocks * threads
    a, part, out = np.arange(n, dtype="i4"), np.zeros(n, "i4"), np.zeros(1, "i4")
    k = gpuops.compile(source)
    for _ in range(2):
        out[0] = 0
        k[blocks, threads](a, part, out)
        assert out[0] == (
            a.sum() if source.count("/* here") or n > blocks else a[:blocks].sum()
        )


@pytest.mark.parametrize("threads", [1, 4])
def test_the_last_block_by_ticket_and_fence(threads):
    gpuops.set_num_threads(threads)
    run_total(LAST, 200, 1)
    for fence in FENCED:
        run_total(ALL.replace("/* here */", fence), 30, 64)


# As NVIDIA's guide has it: the last block sets the counter back, by a plain store.
SET_BACK = """
__device__ unsigned count = 0;
__shared__ bool is_last;
__global__ void total(const int *a, volatile int *part, int *out)
{
    if (threadIdx.x == 0) {
        part[blockIdx.x] = a[blockIdx.x];
        __threadfence();
        is_last = atomicInc(&count, gridDim.x) == gridDim.x - 1;
    }
    __syncthreads();
    if (is_last) {
        if (threadIdx.x == 0) for (int b = 0; b < (int)gridDim.x; b++) *out += part[b];
        if (threadIdx.x == blockDim.x - 1) count = 0;
    }
}
"""


def run_set_back(k):
    a, part = np.arange(40, dtype="i4"), np.zeros(40, "i4")
    for _ in range(2):
        out = np.zeros(1, "i4")
        k[40, 64](a, part, out)
        assert out[0] == a.sum()


@pytest.mark.parametrize(("turns", "seed"), ORDERS)
def test_the_last_block_sets_the_counter_back(turns, seed):
    for threads in 1, 4:
        gpuops.set_num_threads(threads)
        with gpuops.schedule(turns, seed=seed):
            run_set_back(gpuops.compile(SET_BACK))


@pytest.mark.parametrize(("turns", "seed"), ORDERS)
def test_a_counter_that_is_set_back_too_early(turns, seed):
    early = SET_BACK.replace("    if (is_last) {", "    {")
    late = SET_BACK.replace("    __syncthreads();\n", "").replace("if (is_last) {", "{")
    with gpuops.schedule(turns, seed=seed):
        caught(early, run_set_back, "a race")
        caught(late, run_set_back, "a race")


@pytest.mark.parametrize(("turns", "seed"), ORDERS)
def test_plain_accesses_beside_atomics(turns, seed):
    own = kernel("    atomicAdd(a, 1);\n    a[threadIdx.x + 1] = *a;")
    other = kernel("    if (threadIdx.x) atomicAdd(a, 1);\n    else a[1] = *a;")
    with gpuops.schedule(turns, seed=seed):
        for source in own, other, own.replace("= *a;", "= 0; *a = 3;"):
            caught(source, lambda k: k[1, 64](np.zeros(65, "i4")), "a race")


def test_the_last_block_without_its_fence():
    source = LAST.replace("        __threadfence();\n", "")
    said = caught(
        source,
        lambda k: run_total(source, 10, 1),
        "global memory that block",
        "sum += part[b]",
        "part[blockIdx.x] =",
    )
    assert "put __threadfence() between the accesses and an atomic of both blocks" in said
    for fence in ["", "__syncthreads();", "__threadfence();", "__threadfence_block();"]:
        wrong = ALL.replace("/* here */", fence)
        caught(
            wrong, lambda k, s=wrong: run_total(s, 10, 64), "orders the two", "part[i] = a[i]"
        )


def test_a_fence_for_the_block_alone():
    source = LAST.replace("__threadfence()", "__threadfence_block()")
    caught(source, lambda k: run_total(source, 10, 1), "and nothing orders", "sum += part[b]")


def test_the_other_blocks_half_of_a_ticket():
    source = """
__device__ unsigned ticket;
__global__ void total(const int *a, int *part, int *out)
{
    part[blockIdx.x] = a[blockIdx.x];
    __threadfence();
    if (atomicInc(&ticket, gridDim.x - 1) != gridDim.x - 1) return;
    /* and here */
    int sum = 0;
    for (int b = 0; b < (int)gridDim.x; b++) sum += part[b];
    *out = sum;
}
"""
    caught(source, lambda k: run_total(source, 10, 1), "and nothing orders", "sum += part[b]")
    run_total(source.replace("/* and here */", "__threadfence();"), 10, 1)


def test_what_one_ticket_tells_another_hands_on():
    source = """
__device__ unsigned first, second;
__global__ void chain(int *a, int *out)
{
    const unsigned b = blockIdx.x;
    a[b] = b;
    __threadfence();
    unsigned *which = b < 5 ? &first : &second;
    if (b == 5) atomicAdd(&first, 1u);
    __threadfence();
    atomicAdd(which, 1u);
    __threadfence();
    if (b == 9) for (int k = 0; k < 10; k++) *out += a[k];
}
"""
    gpuops.set_num_threads(1)
    a, out = np.zeros(10, "i4"), np.zeros(1, "i4")
    gpuops.compile(source)[10, 1](a, out)
    assert out[0] == 45
    alone = source.replace("if (b == 5) atomicAdd(&first, 1u);", "")
    caught(
        alone,
        lambda k: k[10, 1](np.zeros(10, "i4"), np.zeros(1, "i4")),
        "and nothing orders",
        "a[b] = b",
    )


# ---- loads beside atomics ----

COMPARED = """
__device__ int add(QUALIFIER int *address, int value)
{
    int old = *address, assumed; // first
    do {
        assumed = old;
        old = atomicCAS((int *)address, assumed, value + assumed);
    } while (assumed != old);
    return old;
}
__global__ void k(int *a, const int *b)
{
    __shared__ int part;
    if (threadIdx.x == 0) part = 0;
    __syncthreads();
    add(&part, b[threadIdx.x]);
    add(a, b[threadIdx.x]);
    __syncthreads();
    if (threadIdx.x == 0) a[1 + blockIdx.x] = part;
}
"""


@pytest.mark.sampled(every=3)
@pytest.mark.parametrize(("turns", "seed"), ORDERS)
@pytest.mark.parametrize("qualifier", ["", "volatile"])
def test_the_loop_around_a_compare_and_swap(turns, seed, qualifier):
    k = gpuops.compile(COMPARED.replace("QUALIFIER", qualifier))
    a, b = np.zeros(5, "i4"), np.arange(64, dtype="i4")
    with gpuops.schedule(turns, seed=seed):
        k[4, 64](a, b)
    assert a.tolist() == [4 * b.sum(), *[b.sum()] * 4]


@pytest.mark.sampled(every=2)
@pytest.mark.parametrize(("turns", "seed"), ORDERS)
def test_a_load_beside_atomics_that_is_not_compared(turns, seed):
    source = kernel(
        """    int old = a[0]; // here
    if (threadIdx.x % 2) atomicCAS(a, old, 5);
    else b[threadIdx.x] = old;""",
        "int *a, int *b",
    )
    with gpuops.schedule(turns, seed=seed):
        said = caught(
            source, lambda k: k[1, 64](np.zeros(1, "i4"), np.zeros(64, "i4")), "a race"
        )
    assert "read it by an atomic, as atomicAdd(&c[i], 0)" in said
    added = kernel("    atomicAdd(a, 1);\n    b[threadIdx.x] = *a; // here", "int *a, int *b")
    with gpuops.schedule(turns, seed=seed):
        caught(
            added,
            lambda k: k[2, 64](np.zeros(1, "i4"), np.zeros(64, "i4")),
            "a race",
            "// here",
        )


def test_counters_of_a_block_are_told_of_a_barrier_first():
    source = kernel(
        """    __shared__ int s[8];
    if (threadIdx.x < 8) s[threadIdx.x] = 0;
    __syncthreads();
    atomicAdd(&s[threadIdx.x % 8], 1);
    if (threadIdx.x < 8) a[threadIdx.x] = s[threadIdx.x]; // here""",
        "int *a",
    )
    said = caught(source, lambda k: k[1, 64](np.zeros(8, "i4")), "a race", "// here")
    assert said.index("put __syncthreads() between them") < said.index("by an atomic")


def test_a_stencil_in_place_is_told_of_a_second_array():
    source = kernel("""    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i > 0 && i < 127) a[i] = (a[i - 1] + a[i + 1]) / 2;""")
    for blocks in (1, 2):
        caught(
            source,
            lambda k, n=blocks: k[n, 128 // n](np.zeros(128, "i4")),
            "store the results to a second array",
        )


TICKET = """
__global__ void total(int *part, unsigned *ticket, int *out)
{
    part[blockIdx.x] = 1; // store
    FIRST
    if (atomicAdd(ticket, 1) < gridDim.x - 1) return;
    SECOND
    int sum = 0;
    for (int b = 0; b < gridDim.x; b++) sum += part[b]; // load
    *out = sum;
}
"""


@pytest.mark.parametrize(("first", "second", "missing"), [
    ("__threadfence();", "", "this block's: put __threadfence() between its atomic and this"),
    ("", "__threadfence();", "the other block's: put __threadfence() between its access and"),
    ("", "", "in the block that stores after its store, in the one that loads after"),
])  # fmt: skip
def test_the_half_of_an_order_that_is_missing(first, second, missing):
    source = TICKET.replace("FIRST", first).replace("SECOND", second)

    def launch(k):
        k[4, 1](np.zeros(4, "i4"), np.zeros(1, "u4"), np.zeros(1, "i4"))

    said = caught(source, launch, "orders the two blocks: a race", "// load", "// store")
    assert missing in said
    both = TICKET.replace("FIRST", "__threadfence();").replace("SECOND", "__threadfence();")
    launch(gpuops.compile(both))

"""test_cuda_short_calls - calls on few elements, on the fake driver: copies and launches."""

import test_cuda_runtime

library = test_cuda_runtime.library
run = test_cuda_runtime.run

REPEATED = """
rng = np.random.default_rng(1)
def repeat(times):
    for k in range(times):
        a, b = rng.random((2, 10 + k % 3), "f4")
        assert np.array_equal(gpuops.add(a, b, device="cuda"), a + b)
def graphs():
    return variable("graph_starts").value
"""


def test_short_calls_copy_nothing(run):
    run(
        """
        rng = np.random.default_rng(1)
        for n in (1, 7, 1000, 32768, 32769, 65536):
            a, b = rng.random((2, n), "f4")
            before = variable("copies").value
            assert np.array_equal(gpuops.add(a, b, device="cuda"), a + b)
            assert np.array_equal(gpuops.add(a[::2], b[::-2], device="cuda"), a[::2] + b[::-2])
            assert (variable("copies").value == before) == (n <= 32768), n
        # A call inside a call: the first one's operands stay where they are.
        a = np.arange(1000, dtype="f4")
        inside = []
        def handler(*_):
            inside.append(gpuops.add(a, 2 * a, device="cuda"))
        signal.signal(signal.SIGALRM, handler)
        variable("stuck").value = 1
        signal.setitimer(signal.ITIMER_REAL, 0.1)
        threading.Timer(0.3, lambda: setattr(variable("stuck"), "value", 0)).start()
        assert np.array_equal(gpuops.add(a, a, device="cuda"), 2 * a)
        assert np.array_equal(inside, [3 * a])
        assert variable("pinned").value <= 7 and variable("blocks").value == 0
        """
    )


def test_short_calls_without_pinned_memory(run):
    run(
        """
        _core.set_fault("cuda.pinned:1:forever")
        a = np.arange(100, dtype="f4")
        assert np.array_equal(gpuops.add(a, a, device="cuda"), 2 * a)
        assert variable("pinned").value == 0 and variable("copies").value == 3
        """
    )


def test_kernels_that_come_again_are_launched_as_graphs(run):
    run(
        REPEATED
        + """
repeat(8)
assert graphs() == 0
repeat(30)
assert graphs() == 30 and variable("graphs").value == 1
assert 0 < variable("graph_sets").value < 30
a = np.ones(10, "f4")
before = variable("graph_sets").value
for _ in range(5):
    gpuops.add(a, a, device="cuda")
assert variable("graph_sets").value <= before + 1  # the same arguments are not set again
before = graphs()
gpuops.benchmark(gpuops.add, (a, a), {"device": "cuda"}, n_repeat=20, n_warmup=0)
assert graphs() == before + 20  # the calls whose total is timed; kernels are timed alone
before = graphs()
_core.set_fault("cuda.launch:1")
assert "add_plain failed" in str(caught(gpuops.add, a, a, device="cuda"))
variable("graph_error").value = 2  # out of memory: launched by itself, then and later
repeat(5)
assert graphs() == before + 1
"""
    )


def test_graphs_can_be_turned_off(run):
    run(REPEATED + "repeat(30); assert graphs() == 0", GPUOPS_CUDA_GRAPHS="0")


def test_a_kernel_that_waits_by_itself_comes_early_where_its_code_has_the_waiting(run):
    run(
        REPEATED
        + """
variable("early").value = 1
variable("ptx").value = 80
repeat(10)
assert variable("early_launches").value == 0 and graphs() == 2
"""
    )
    run(
        REPEATED
        + """
variable("early").value = 1
variable("ptx").value = 90
repeat(30)
assert variable("early_launches").value == 30 and graphs() == 0
variable("early").value = 0
repeat(30)
assert variable("early_launches").value == 30 and graphs() > 0
"""
    )


def test_the_first_kernel_of_a_long_call_comes_early(run):
    long_calls = """
variable("early").value, variable("ptx").value = 2, 90
def early(n):
    before = variable("early_launches").value
    a = np.arange(n, dtype="f4")
    x = gpuops.to_device(a, "cuda")  # as a whole
    assert np.array_equal(gpuops.add(x, x).get(), 2 * a)
    return variable("early_launches").value - before
N = 2**24 // 3  # three operands are 64 MiB
"""
    run(
        long_calls
        + """
assert (early(N), early(N + 1)) == (0, 1)
variable("followed").value = 1  # of two launches the second always is
assert (early(N + 1), early(2 * N), early(2 * N + 1)) == (1, 1, 2)
"""
    )
    run(long_calls + 'variable("ptx").value = 80\nassert early(N + 1) == 0')


def test_clusters_are_the_launch_s(run):
    clusters = (
        REPEATED
        + """
for cluster in (2, 4, 0):  # the second and third are not the graph's
    variable("cluster").value = cluster
    before = graphs()
    repeat(20)
    assert variable("clusters").value == cluster and (graphs() > before) == (cluster == 2)
"""
    )
    run(clusters)
    run(
        'variable("early").value, variable("ptx").value = 1, 90\n'
        + clusters.replace(" == 2", " < 0")
    )


def test_a_kernel_that_another_follows_is_launched_with_it(run):
    followed = (
        REPEATED
        + """
for first, kept in ((1, 0), (2, 0), (1, 8)):  # a pair's graph stays while another has its own
    variable("followed").value = first
    before = graphs()
    repeat(8)
    assert graphs() == before + kept
    repeat(20)
    assert graphs() == before + kept + 20
"""
    )
    run(followed)
    run(
        'variable("early").value, variable("ptx").value = 1, 90\n'
        + followed
        + """
assert variable("early_launches").value == 2 * 8  # the others by an edge of their graph
before = graphs()
variable("graph_error").value = 2  # out of memory: each by itself, then and later
repeat(30)
assert graphs() == before and variable("early_launches").value == 2 * 8 + 30
a = np.ones(10, "f4")
_core.set_fault("cuda.launch:2")
assert "add_plain failed" in str(caught(gpuops.add, a, a, device="cuda"))
repeat(3)
"""
    )
    run(followed.replace("+ kept + 20", "").replace("+ kept", ""), GPUOPS_CUDA_GRAPHS="0")

"""test_streams - calls on device arrays beside streams of other libraries, on a real GPU."""

import threading

import numpy as np
import pytest

import gpuops

pytestmark = pytest.mark.skipif(not gpuops.is_available("cuda"), reason="there is no GPU")

N = 1 << 22
LONG = 20_000_000  # cycles: far longer than a call takes to return


def values(seed: int) -> np.ndarray:
    return np.random.default_rng(seed).random(N, dtype=np.float32)


class Torch:
    def __init__(self):
        self.xp = pytest.importorskip("torch")
        if not self.xp.cuda.is_available():
            pytest.skip("this PyTorch has no CUDA")

    def array(self, a):
        return self.xp.from_numpy(a).cuda()

    def stream(self):
        return self.xp.cuda.stream(self.xp.cuda.Stream())

    def delay(self):
        self.xp.cuda._sleep(LONG)

    def host(self, x):
        return x.cpu().numpy()


class CuPy:
    def __init__(self):
        self.xp = pytest.importorskip("cupy")
        self.sleep = self.xp.RawKernel(
            'extern "C" __global__ void nap(long long n)'
            "{ const long long t = clock64(); while (clock64() - t < n) ; }",
            "nap",
        )

    def array(self, a):
        return self.xp.asarray(a)

    def stream(self):
        return self.xp.cuda.Stream(non_blocking=True)

    def delay(self):
        self.sleep((1,), (1,), (np.int64(LONG),))

    def host(self, x):
        return self.xp.asnumpy(x)


@pytest.fixture(params=[Torch, CuPy], ids=["torch", "cupy"])
def library(request):
    return request.param()


@pytest.mark.parametrize("own", [False, True], ids=["default stream", "own stream"])
def test_calls_come_after_and_before_the_library_s(library, own):
    a, b = values(1), values(2)
    for _ in range(5):
        x, y, out = library.array(a), library.array(b), library.array(a)
        with library.stream() if own else threading.Lock():
            library.delay()
            x *= 2  # after the delay: a call that does not wait reads x as it was
            gpuops.add(x, y, out=out)
            z = gpuops.add(out, y)
            out *= 0  # a call that comes later than this reads zeros
            x *= 0
            assert type(z) is type(x)
            assert np.array_equal(library.host(z), (a * 2 + b) + b)
            assert not library.host(out).any()


def test_arrays_freed_while_they_are_read(library):
    a = values(3)
    want = a
    x, one = library.array(a), library.array(np.ones(N, np.float32))
    library.delay()
    for _ in range(200):
        x = gpuops.add(x, one)  # the last x goes back to its pool at once
        want = want + np.float32(1)
    assert np.array_equal(library.host(x), want)


def test_long_calls_that_use_each_other_s_results(library):
    """Transposes and additions that are launched early, and short calls that are not."""
    times, rows, columns = 40, 1501, 4099
    a = np.random.default_rng(6).integers(0, 8, (rows, columns)).astype(np.float32)
    one = library.array(np.ones((columns, rows), np.float32))
    x, turned, added = (library.array(b.copy()) for b in (a, a.T, a.T))
    total = library.array(np.zeros(rows, np.float32))
    for _ in range(times):
        gpuops.transpose(x, out=turned)
        gpuops.add(turned, one, out=added)
        gpuops.transpose(added, out=x)
        gpuops.add(total, gpuops.sum(x, axis=1), out=total)
    want = times * a.sum(1) + columns * times * (times + 1) / 2
    assert np.array_equal(library.host(total), want)
    assert np.array_equal(library.host(x), a + times)


def test_device_arrays_of_many_threads():
    a = values(4)
    one = gpuops.to_device(np.ones(N, np.float32), "cuda")
    failures = []

    def work(seed):
        mine = values(seed)
        x = gpuops.to_device(mine, "cuda")
        for _ in range(30):
            x = gpuops.add(x, one)
            host = gpuops.add(mine, a, device="cuda")  # on the thread's own stream
            if not np.array_equal(host, mine + a):
                failures.append("host arrays")
        want = mine
        for _ in range(30):
            want = want + np.float32(1)
        if not np.array_equal(x.get(), want):
            failures.append("device arrays")

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(6)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not failures


def test_a_device_array_goes_to_another_thread():
    x = gpuops.to_device(values(5), "cuda")
    results = []

    def read(y):
        results.append(y.get())

    for _ in range(20):
        x = gpuops.add(x, x)
        thread = threading.Thread(target=read, args=(x,))
        thread.start()
        thread.join()
    want = values(5)
    for got in results:
        want = want + want
        assert np.array_equal(got, want)

"""test_cuda_device_arrays - calls on device arrays, on the fake driver: enqueued, in order."""

import pytest
import test_cuda_runtime

library = test_cuda_runtime.library
run = test_cuda_runtime.run


def test_calls_return_before_their_work_is_done(run):
    run(
        """
        a = np.arange(1000, dtype="f4")
        d, e = gpuops.to_device(a, "cuda"), gpuops.to_device(a, "cuda")
        signal.alarm(60)  # a call that waits would wait for ever
        variable("stuck").value = 1
        for _ in range(3):
            assert gpuops.add(d, e, out=e) is e
        f = gpuops.add(e, e)
        assert np.array_equal(gpuops.to_device(a, "cpu").get(), a)
        variable("stuck").value = 0
        assert np.array_equal(f.get(), 8 * a)
        with gpuops.Timer() as timer:
            variable("stuck").value = 1
            gpuops.add(d, e, out=e)
            threading.Timer(0.3, lambda: setattr(variable("stuck"), "value", 0)).start()
        assert timer.seconds > 0.25  # it waits for what it timed
        """
    )


def test_threads_and_freed_arrays_are_in_order(run):
    run(
        """
        a = np.arange(1000, dtype="f4")
        one = gpuops.to_device(np.ones(1000, "f4"), "cuda")
        x = gpuops.to_device(a, "cuda")
        def work():
            global x
            for _ in range(20):
                x = gpuops.add(x, one)  # the last x is freed while it is read
        for _ in range(5):
            thread = threading.Thread(target=work)
            thread.start()
            thread.join()
        assert np.array_equal(x.get(), a + 100)
        host = np.zeros(1000, "f4")
        gpuops.add(x, one, out=host)
        assert np.array_equal(host, a + 101)
        assert np.array_equal(gpuops.add(x, a).get(), 2 * a + 100)  # one operand of the host's
        assert np.array_equal(gpuops.transpose(x, out=x).get(), a + 100)
        del x, one
        assert variable("blocks").value <= 1 + 8  # of scratch memory, and what is kept
        """
    )


def test_scratch_memory_is_kept(run):
    """A context keeps one block of it, for calls on device arrays alone."""
    code = """
        a = np.arange(35.0).reshape(5, 7)
        d = gpuops.to_device(a, "cuda")
        assert np.array_equal(moved(a), a.T) and variable("blocks").value == 1
        results = [gpuops.transpose(d) for _ in range(3)]
        assert all(np.array_equal(r.get(), a.T) for r in results)
        del results
        assert variable("blocks").value == 1 + 3 + KEPT  # the results' memory is kept, too
        """
    run(code.replace("KEPT", "1"))
    run(code.replace("KEPT", "0"), GPUOPS_KEEP_SCRATCH="0")


def test_a_call_inside_a_call(run):
    """A signal's handler uses device arrays while a call on host arrays waits."""
    run(
        """
        a = np.arange(100000, dtype="f4")
        d = gpuops.to_device(a, "cuda")
        seen = []
        def handler(*_):
            variable("stuck").value = 0
            e = gpuops.add(d, d)
            seen.append(gpuops.add(e, d).get())
        signal.signal(signal.SIGALRM, handler)
        variable("stuck").value = 1
        signal.setitimer(signal.ITIMER_REAL, 0.2)
        assert np.array_equal(gpuops.add(a, a, device="cuda"), 2 * a)
        assert np.array_equal(seen, [3 * a])
        """
    )


@pytest.mark.sampled(later=True)
def test_a_call_inside_a_call_with_many_threads(run):
    """Threads of the outer call, which waits for the inner one, leave it slots of the ring."""
    run(
        """
        import time
        a = np.arange(40 << 20, dtype="f4")
        d = gpuops.to_device(a[:1000], "cuda")
        seen = []
        def handler(*_):
            threading.Timer(0.2, lambda: setattr(variable("stuck"), "value", 0)).start()
            time.sleep(0.4)
            seen.append(gpuops.add(a[:100], a[:100], device="cuda"))
            seen.append(gpuops.add(d, d).get())
        signal.signal(signal.SIGALRM, handler)
        gpuops.set_num_threads(32)
        variable("stuck").value = 1
        signal.setitimer(signal.ITIMER_REAL, 0.2)
        assert np.array_equal(gpuops.add(a, a, device="cuda"), 2 * a)
        assert np.array_equal(seen[0], 2 * a[:100]) and np.array_equal(seen[1], 2 * a[:1000])
        """
    )


def test_failures_come_later(run):
    run(
        """
        a = np.arange(1000, dtype="f4")
        d = gpuops.to_device(a, "cuda")
        variable("work_error").value = 700
        gpuops.add(d, d, out=d)
        error = caught(d.get)
        assert type(error) is gpuops.DeviceLostError and "add_plain" in str(error), error
        assert type(caught(gpuops.add, d, d)) is gpuops.DeviceLostError
        """
    )

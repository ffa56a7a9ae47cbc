"""test_compile_cache - what compile keeps: for which sources, whose folder, how whole."""

import errno
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pytest
from sim_kernels import ADD, needs_sim

import gpuops
from gpuops._compile import cache as _compile_cache
from gpuops._compile import cuda as _compile_cuda
from gpuops._compile import kernel_source as _kernel_source
from gpuops._compile import nvrtc as _nvrtc

pytestmark = pytest.mark.sampled(every=2)
needs_nvrtc = pytest.mark.skipif(_nvrtc.find_nvrtc() is None, reason="NVRTC was not found")
needs_nvcc = pytest.mark.skipif(_nvrtc.find_nvcc() is None, reason="nvcc was not found")
INCLUDES = '#include "number.h"\n__global__ void k(int *a) { a[0] = N; }'


@pytest.fixture
def base(monkeypatch, tmp_path):
    """Where the folder of kept kernels is made; the working directory is another."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    (tmp_path / "work").mkdir()
    monkeypatch.chdir(tmp_path / "work")
    monkeypatch.setattr(_compile_cache, "_private", None)
    return tmp_path / "cache"


class Maker:
    """What it makes, and how often it was asked to."""

    def __init__(self, made=b"made"):
        self.made, self.calls = made, 0

    def __call__(self):
        self.calls += 1
        return self.made


def names(folder: Path) -> list[str]:
    return sorted(p.name for p in folder.iterdir())


# ---- what was included ----


def run(program) -> int:
    a = np.zeros(1, "i4")
    program[1, 1](a)
    return int(a[0])


@needs_sim
def test_sim_compiles_again_what_includes_a_changed_file(base):
    header = Path("number.h")
    header.write_text('#include "inner.h"\n')
    Path("inner.h").write_text("#define N 1\n")
    assert run(gpuops.compile(INCLUDES, "sim")) == 1
    Path("inner.h").write_text("#define N 2\n")
    assert run(gpuops.compile(INCLUDES, "sim")) == 2
    Path("inner.h").write_text("#define N 1\n")
    assert run(gpuops.compile(INCLUDES, "sim")) == 1
    assert len(names(base / "gpuops")) == 2


@needs_sim
def test_a_file_finds_what_lies_beside_it(base, tmp_path):
    beside = tmp_path / "beside"
    beside.mkdir()
    (beside / "number.h").write_text("#define N 3\n")
    (beside / "mine.cu").write_text(INCLUDES)
    assert run(gpuops.compile(beside / "mine.cu", "sim")) == 3
    Path("number.h").write_text("#define N 4\n")
    assert run(gpuops.compile(beside / "mine.cu", "sim")) == 3
    assert run(gpuops.compile(INCLUDES, "sim")) == 4


def image(source):
    read = _kernel_source.read(source)
    return _compile_cuda.image(read, _kernel_source.kernel_names(read.text), (9, 0))


@pytest.mark.parametrize(
    "compiler",
    [pytest.param("nvrtc", marks=needs_nvrtc), pytest.param("nvcc", marks=needs_nvcc)],
)
def test_cuda_compiles_again_what_includes_a_changed_file(
    base, monkeypatch, tmp_path, compiler
):
    if compiler == "nvcc":
        monkeypatch.setattr(_compile_cuda, "find_nvrtc", lambda: None)
    beside = tmp_path / "beside"
    beside.mkdir()
    (beside / "mine.cu").write_text(INCLUDES)
    made = []
    for value in (1, 2, 1):
        (beside / "number.h").write_text(f"#if __CUDA_ARCH__\n#define N {value}\n#endif\n")
        made.append(image(beside / "mine.cu"))
    assert made[0] != made[1]
    assert made[0] == made[2]
    assert len(names(base / "gpuops")) == 2


def test_what_nvrtc_may_read_is_found(tmp_path):
    mine, toolkit = tmp_path / "mine", tmp_path / "toolkit"
    for path, text in {
        mine / "a.h": '#include "deep/b.h"\n#include <c.h>',
        mine / "deep" / "b.h": '#include "d.h"',
        mine / "deep" / "d.h": "d",
        mine / "c.h": '#include "d.h"',
        toolkit / "cuda.h": '#include "e.h"',
        toolkit / "e.h": "e",
    }.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    def read(text):
        return _nvrtc.with_includes(text, [mine, toolkit], [toolkit])

    source = '#include "a.h"\n  #  include <cuda.h>\n#include <missing.h>\n'
    before = read(source)
    assert before == read(source)
    seen = {}
    for path in (mine / "deep" / "d.h", mine / "c.h", toolkit / "cuda.h", toolkit / "e.h"):
        text = path.read_text()
        path.write_text(text + " more")
        seen[path.name] = read(source) != before
        path.write_text(text)
        os.utime(path, ns=(1, 1))
        before = read(source)
    assert seen == {"d.h": True, "c.h": True, "cuda.h": True, "e.h": False}
    (mine / "missing.h").write_text("now it is here")
    assert read(source) != before
    for unclear in ("#define H <c.h>\n#include H\n", "#if __has_include(<c.h>)\n#endif\n"):
        assert read(unclear) is None
        assert read("/* " + unclear + " */") is not None


def test_without_a_stamp_nothing_is_found_again(base):
    make = Maker()
    for _ in range(2):
        assert _compile_cache.content(_compile_cache.cached(None, ".so", make)) == b"made"
    assert make.calls == 2
    assert not base.exists()


def test_what_a_backend_keeps_is_found_by_its_stamp_alone(base):
    stamp = "options \ufffd\nsource"
    assert _compile_cache.recall(stamp) is None
    _compile_cache.keep(stamp, b"program\0")
    assert _compile_cache.recall(stamp) == b"program\0"
    assert _compile_cache.recall(stamp + " ") is None
    (file,) = (base / "gpuops").glob("*.cl")
    assert file.read_bytes().startswith(stamp.encode() + b"\0program")
    file.write_bytes(file.read_bytes()[:-1])
    assert _compile_cache.recall(stamp) is None


def test_a_backend_s_program_is_nowhere_to_be_kept(base, monkeypatch):
    """Then there is none: no error, in the middle of a call."""
    base.write_text("a file")
    monkeypatch.setattr(_compile_cache.tempfile, "tempdir", str(base))
    _compile_cache.keep("stamp", b"program")
    assert _compile_cache.recall("stamp") is None


# ---- whose folder it is ----


def keep(stamp="stamp", make=None):
    return _compile_cache.cached(stamp, ".so", make or Maker())


def test_the_folder_is_its_user_s_alone(base):
    before = os.umask(0)
    try:
        kept = keep()
    finally:
        os.umask(before)
    assert kept.parent == base / "gpuops"
    assert kept.parent.stat().st_mode & 0o777 == 0o700
    assert kept.stat().st_mode & 0o777 == 0o600
    kept.parent.chmod(0o755)  # as made by the first versions: nobody else could write there
    again = Maker()
    assert keep(make=again) == kept
    assert not again.calls
    assert kept.parent.stat().st_mode & 0o777 == 0o700


def refused(base, words):
    """The folder is not used, with a reason, and the process keeps kernels for itself."""
    make = Maker()
    with pytest.warns(RuntimeWarning, match=words):
        own = keep(make=make)
    assert base not in own.parents
    assert own.parent.stat().st_mode & 0o777 == 0o700
    with pytest.warns(RuntimeWarning, match=words):
        assert keep(make=make) == own
    assert make.calls == 1
    assert _compile_cache.content(own) == b"made"


def test_a_folder_that_others_may_write_to_is_refused(base):
    kept = keep()
    kept.parent.chmod(0o770)
    refused(base, f"not kept in {kept.parent}: others may write there")


def test_a_folder_that_everybody_may_replace_is_refused(base):
    kept = keep()
    base.chmod(0o777)
    refused(base, f"everybody may write to {base}")
    base.chmod(0o1777)  # sticky, as /tmp
    assert keep() == kept


@pytest.mark.skipif(os.geteuid() != 0, reason="gives files away, as root can")
def test_a_library_of_another_user_is_not_loaded(base):
    kept, make = keep(), Maker(b"again")
    os.chown(kept, 65534, 65534)
    assert keep(make=make) == kept
    assert make.calls == 1
    assert kept.stat().st_uid == 0
    for owned in (kept.parent, base):
        os.chown(owned, 65534, 65534)
        refused(base, f"{owned} belongs to user 65534, not to user 0")
        os.chown(owned, 0, 0)
        _compile_cache._private = None


def test_a_relative_folder_is_refused(base, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", "here")
    monkeypatch.setenv("HOME", str(base.parent))
    assert keep().parent == base.parent / ".cache" / "gpuops"
    monkeypatch.setenv("HOME", "here")
    assert keep().parent == _compile_cache._own_folder()
    assert not names(Path.cwd())


@needs_sim
def test_a_home_that_cannot_be_written_does_without(base):
    """In a process of its own, which takes its folder along."""
    base.write_text("no folder")
    temporary = base.parent / "temporary"
    temporary.mkdir()
    code = """
import os, sys, tempfile
import numpy as np, gpuops
source = '__global__ void k(int *a) { a[threadIdx.x] += 5; }'
a = np.zeros(1, 'i4')
for _ in range(2):
    gpuops.compile(source, 'sim')[1, 1](a)
if (child := os.fork()) == 0:
    gpuops.compile(source + ' ', 'sim')[1, 1](a)
    sys.exit(int(a[0] != 15))
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
(own,) = os.listdir(tempfile.gettempdir())
print(a[0], len(os.listdir(os.path.join(tempfile.gettempdir(), own))))
"""
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", code],
        cwd=Path(gpuops.__file__).parents[1],
        env={**os.environ, "TMPDIR": str(temporary)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert not done.stderr, done.stderr
    assert done.stdout == "10 1\n"
    assert not names(temporary)


def test_a_full_disk_does_without(base, monkeypatch):
    rename = os.rename

    def replace(old, new):
        if base in Path(new).parents:
            raise OSError(28, "No space left on device")
        rename(old, new)

    monkeypatch.setattr(os, "replace", replace)
    assert base not in keep().parents
    assert not names(base / "gpuops")


@needs_sim
@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EFBIG, errno.EMFILE])
def test_no_room_for_the_compiler_is_said(base, monkeypatch, number):
    def write(path, *args, **words):
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(Path, "write_text", write)
    with pytest.raises(OSError, match=f"compile: {os.strerror(number)}") as caught:
        gpuops.compile(ADD, "sim")
    assert caught.value.errno == number
    assert ("TMPDIR names another folder" in str(caught.value)) == (number != errno.EMFILE)


@needs_sim
def test_a_folder_that_is_gone_is_named(base, monkeypatch, tmp_path):
    gone = tmp_path / "gone"
    monkeypatch.setattr(tempfile, "tempdir", str(gone))
    with pytest.raises(FileNotFoundError, match=f"compile: No such .*: '{gone}") as caught:
        gpuops.compile(ADD, "sim")
    assert Path(caught.value.filename).parent == gone
    assert caught.value.errno == errno.ENOENT


# ---- how whole ----


@needs_sim
def test_a_truncated_library_is_made_again(base):
    a = np.zeros(4, "f4")
    gpuops.compile(ADD, "sim")[1, 4](a, a, a.copy(), 4)
    (kept,) = (base / "gpuops").iterdir()
    whole = kept.read_bytes()
    for part in (b"", whole[:5000], whole[:-1], whole[:-40] + bytes(8) + whole[-32:]):
        kept.unlink()  # in use above: a library is replaced, never overwritten
        kept.write_bytes(part)
        gpuops.compile(ADD, "sim")[1, 4](a, a, a.copy(), 4)
        assert len(kept.read_bytes()) == len(whole)


def test_what_a_killed_process_left_is_removed(base):
    folder = keep().parent
    old = time.time() - _compile_cache.STALE - 1
    for name in ("tmp_new", "tmp_old"):
        (folder / name).mkdir()
        (folder / name / "kernel.cu").touch()
        (folder / f"{name}_file").touch()
    for path in folder.glob("tmp_old*"):
        os.utime(path, (old, old))
    keep("another")
    assert [n for n in names(folder) if n.startswith("tmp")] == ["tmp_new", "tmp_new_file"]


@needs_sim
def test_nothing_temporary_is_left(base, monkeypatch):
    temporary = base.parent / "temporary"
    temporary.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(temporary))
    gpuops.compile(ADD, "sim")
    with pytest.raises(gpuops.CompileError):
        gpuops.compile(ADD.replace("int i", "int j"), "sim")
    assert not names(temporary)
    assert [Path(n).suffix for n in names(base / "gpuops")] == [".so"]

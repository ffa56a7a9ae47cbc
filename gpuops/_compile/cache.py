"""cache - what `compile` and backends made before, in a folder that only its user can write.

A library that another user put there would run with this user's rights, so the folder has to be
the user's own. Where it is not, or cannot be written, the process keeps a folder for itself.
"""

from __future__ import annotations

import atexit
import contextlib
import hashlib
import os
import shutil
import stat
import tempfile
import time
import warnings
from collections.abc import Callable
from pathlib import Path

STALE = 3600  # seconds after which what is temporary belongs to a process that was killed
_DIGEST = hashlib.sha256().digest_size
_private: tuple[int, Path] | None = None  # the process that made it, and the folder


def cached(stamp: str | None, suffix: str, make: Callable[[], bytes]) -> Path:
    """The file that was made for a stamp before; else what `make()` gives, kept.

    The stamp holds all that the result depends on; None is never found again. The file ends in
    the hash of its other bytes (which no loader of programs minds), so that one that was cut
    short is made again.
    """
    key = os.urandom(32) if stamp is None else hashlib.sha256(stamp.encode()).digest()
    name = key.hex()[:32] + suffix
    kept = _folder() if stamp else None
    for folder in (kept, _private and _own_folder()):
        if folder and _is_whole(folder / name):
            return folder / name
    made = make()
    if kept:
        # A full disk or a read-only one: this process does without.
        with contextlib.suppress(OSError):
            return _keep(kept / name, made)
    return _keep(_own_folder() / name, made)


def content(path: Path) -> bytes:
    """What was made, without the hash at its end."""
    return path.read_bytes()[:-_DIGEST]


def recall(stamp: str) -> bytes | None:
    """The program of a backend that was kept for a stamp."""

    def nothing() -> bytes:
        raise LookupError

    with contextlib.suppress(LookupError, OSError):
        return content(cached(stamp, ".cl", nothing))[len(stamp.encode()) + 1 :]
    return None


def keep(stamp: str, made: bytes) -> None:
    """Keeps a backend's program for `recall`; the file begins with the stamp, to be read."""
    with contextlib.suppress(OSError):
        cached(stamp, ".cl", lambda: stamp.encode() + b"\0" + made)


def _folder() -> Path | None:
    base = Path(os.environ.get("XDG_CACHE_HOME", ""))
    if not base.is_absolute():  # no folder of whatever directory this is: the variable's rule
        base = Path(os.path.expanduser("~"), ".cache")
    folder = base / "gpuops"
    if not folder.is_absolute():
        return None
    try:
        base.mkdir(0o700, parents=True, exist_ok=True)
        folder.mkdir(0o700, exist_ok=True)
        folder = folder.resolve()
        doubt = doubt_of(folder)
        if not doubt and folder.stat().st_mode & 0o077:
            folder.chmod(0o700)
    except OSError:
        return None
    if doubt:
        warnings.warn(
            f"compile: kernels are not kept in {folder}: {doubt}", RuntimeWarning, stacklevel=2
        )
        return None
    return folder


def doubt_of(folder: Path) -> str:
    """Why somebody else could have written into the folder, or put it there; "" if nobody."""
    user = os.geteuid()
    for path, owners in ((folder, (user,)), (folder.parent, (user, 0))):
        owner = path.stat().st_uid
        if owner not in owners:
            return f"{path} belongs to user {owner}, not to user {user}"
    if folder.stat().st_mode & 0o022:
        return "others may write there"
    for path in folder.parents:
        mode = path.stat().st_mode
        # Where it is sticky, as in /tmp, nobody can replace another's folder.
        if mode & stat.S_IWOTH and not mode & stat.S_ISVTX:
            return f"everybody may write to {path}"
    return ""


def _own_folder() -> Path:
    """A folder that goes with this process; a forked child makes one for itself."""
    global _private
    if not _private or _private[0] != os.getpid() or not _private[1].is_dir():
        _private = os.getpid(), Path(tempfile.mkdtemp(prefix="gpuops-"))
        atexit.register(_remove, *_private)
    return _private[1]


def _remove(process: int, folder: Path) -> None:
    if process == os.getpid():
        shutil.rmtree(folder, ignore_errors=True)


def _is_whole(path: Path) -> bool:
    try:
        info = path.lstat()
        written = path.read_bytes()
    except OSError:
        return False
    safe = stat.S_ISREG(info.st_mode) and info.st_uid == os.geteuid()
    whole = hashlib.sha256(written[:-_DIGEST]).digest() == written[-_DIGEST:]
    return safe and whole and not info.st_mode & 0o022


def _keep(path: Path, made: bytes) -> Path:
    """Writes the file at once or not at all."""
    _sweep(path.parent)
    handle, temporary = tempfile.mkstemp(prefix="tmp", dir=path.parent)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(made + hashlib.sha256(made).digest())
        os.replace(temporary, path)
    except BaseException:
        os.unlink(temporary)
        raise
    return path


def _sweep(folder: Path) -> None:
    for path in folder.glob("tmp*"):
        with contextlib.suppress(OSError):
            if time.time() - path.lstat().st_mtime < STALE:
                continue
            if path.is_dir() and not path.is_symlink():
                shutil.rmtree(path, ignore_errors=True)
            else:
                path.unlink()

"""limits - occupancy: how many blocks of a launch a multiprocessor has room for, and why.

Only arithmetic, by the limits of a compute capability: no GPU is asked and none is needed.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from ._call.road import index
from ._show import text as _text
from .errors import brief

__all__ = ["Occupancy", "occupancy"]


@dataclass(frozen=True)
class _Limits:
    """Of a multiprocessor, by the CUDA C++ Programming Guide, "Compute Capabilities"; for 1.x
    and 2.x by its edition 4.2, appendix F. In which units registers, shared memory and warps
    are handed out, by NVIDIA's occupancy calculator."""

    warps: int
    blocks: int
    registers: int
    shared: int  # bytes
    threads: int  # of a block
    each: int  # registers of a thread
    register_unit: int  # of a warp; of a block where `by_block`
    shared_unit: int
    reserved: int = 0  # shared bytes of each block that the system takes
    warp_unit: int = 4
    by_block: bool = False


_OF = {
    "1.0": _Limits(24, 8, 8192, 16384, 512, 124, 256, 512, warp_unit=2, by_block=True),
    "1.3": _Limits(32, 8, 16384, 16384, 512, 124, 512, 512, warp_unit=2, by_block=True),
    "2.0": _Limits(48, 8, 32768, 49152, 1024, 63, 64, 128, warp_unit=2),
    "7.0": _Limits(64, 32, 65536, 98304, 1024, 255, 256, 256),
    "7.5": _Limits(32, 16, 65536, 65536, 1024, 255, 256, 256),
    "8.0": _Limits(64, 32, 65536, 167936, 1024, 255, 256, 128, 1024),
    "8.6": _Limits(48, 16, 65536, 102400, 1024, 255, 256, 128, 1024),
    "8.9": _Limits(48, 24, 65536, 102400, 1024, 255, 256, 128, 1024),
    "9.0": _Limits(64, 32, 65536, 233472, 1024, 255, 256, 128, 1024),
}


@dataclass(frozen=True, repr=False)
class Occupancy:
    """What fits on a multiprocessor at a time, as `occupancy` gives it.

    Attributes
    ----------
    cc : str
        The compute capability.
    threads, registers, shared : int
        The threads of a block, the registers of a thread and the bytes of shared memory of a
        block, as given. `registers` may be None, and is then no limit.
    blocks, warps : int
        How many are at work on a multiprocessor at a time.
    most : int
        How many warps it has room for.
    limits : dict
        The name of each limit -> the blocks that it allows.

    Examples
    --------
    >>> import gpuops
    >>> gpuops.occupancy(1024, shared=60000, cc="8.0").limits
    {'blocks': 32, 'warps': 2, 'shared memory': 2}
    """

    cc: str
    threads: int
    registers: int | None
    shared: int
    blocks: int
    warps: int
    most: int
    limits: dict[str, int] = field(hash=False)

    @property
    def share(self) -> float:
        """Warps at work over those that there is room for."""
        return self.warps / self.most

    @property
    def limiting(self) -> tuple[str, ...]:
        """The limit that is reached; several, if they allow equally many blocks."""
        return tuple(name for name, n in self.limits.items() if n == self.blocks)

    def __repr__(self) -> str:
        title = f"blocks of {self.threads} threads on compute capability {self.cc}"
        known = f"{self.registers}" if self.registers is not None else "not known, left out"
        return _text.facts(
            title,
            [
                ("registers", f"{known}; shared memory: {self.shared} bytes a block"),
                ("at work", f"{self.blocks} blocks, {self.warps} of {self.most} warps "
                            f"({self.share:.0%})"),
                ("limited by", " and ".join(self.limiting)),
                *((name, f"allows {n} blocks") for name, n in self.limits.items()),
            ],
        )  # fmt: skip


def _up(n: int, unit: int) -> int:
    return -(-n // unit) * unit


def occupancy(
    threads: int, *, registers: int | None = None, shared: int = 0, cc: str = "9.0"
) -> Occupancy:
    """How many blocks of a launch are at work on a multiprocessor at a time.

    Parameters
    ----------
    threads : int
        Threads of a block.
    registers : int, optional
        Registers of a thread; ``nvcc -Xptxas -v`` prints them. If left out, they are no limit.
    shared : int
        Bytes of shared memory that a block takes, declared and dynamic.
    cc : str
        The compute capability, "1.0", "1.3", "2.0", "7.0", "7.5", "8.0", "8.6", "8.9" or "9.0".

    Returns
    -------
    Occupancy

    Raises
    ------
    ValueError
        For a compute capability that is not listed, or a block that does not fit at all.

    Examples
    --------
    >>> import gpuops
    >>> o = gpuops.occupancy(256, registers=64, cc="9.0")
    >>> o.blocks, o.share, o.limiting
    (4, 0.5, ('registers',))
    """
    if not isinstance(cc, str) or cc not in _OF:
        raise ValueError(f"occupancy: cc is one of {', '.join(_OF)}, not {brief(cc)}")
    has = _OF[cc]
    threads, shared = (
        index("occupancy", name, n) for name, n in (("threads", threads), ("shared", shared))
    )
    if not 1 <= threads <= has.threads:
        raise ValueError(
            f"occupancy: threads is between 1 and {has.threads} on compute capability {cc}, "
            f"not {threads}"
        )
    if shared < 0:
        raise ValueError(f"occupancy: shared is a number of bytes, not {shared}")
    warps = -(-threads // 32)
    limits = {"blocks": has.blocks, "warps": has.warps // warps}
    if registers is not None:
        registers = index("occupancy", "registers", registers)
        if not 1 <= registers <= has.each:
            raise ValueError(
                f"occupancy: registers is between 1 and {has.each} on compute capability {cc}, "
                f"not {registers}"
            )
        limits["registers"] = _by_registers(has, warps, registers)
    if taken := _up(shared + has.reserved, has.shared_unit):
        limits["shared memory"] = has.shared // taken
    blocks = min(limits.values())
    if blocks == 0:
        much = " and ".join(name for name, n in limits.items() if n == 0)
        raise ValueError(f"occupancy: a block does not fit on compute capability {cc}: {much}")
    return Occupancy(cc, threads, registers, shared, blocks, blocks * warps, has.warps, limits)


def _by_registers(has: _Limits, warps: int, registers: int) -> int:
    if has.by_block:
        of_block = _up(_up(warps, has.warp_unit) * registers * 32, has.register_unit)
        return has.registers // of_block
    of_warp = _up(registers * 32, has.register_unit)
    return has.registers // of_warp // has.warp_unit * has.warp_unit // warps

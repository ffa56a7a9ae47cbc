"""tasks - the exercises: what is called with which arguments, what it must give and may cost.

Inputs come from a seed, results from NumPy, in the order of roundings that the text of the
exercise asks for. Shapes, seeds and points stand in course.toml.
"""

from __future__ import annotations

from .arithmetic import INSTRUCTIONS, MATMUL, ROUNDING, UNROLLING
from .capstone import MENDED_PAIRS, MENDED_STEP, MENDED_SUM, MENDED_TRANSPOSE
from .machines import OPENCL, TRANSFERS
from .memory import BANKS, COALESCING, GRID, TRANSPOSE, WARP
from .problems import HISTOGRAM, ITERATION
from .sums import REDUCE, TICKET
from .task import Task

_ALL = (
    GRID, WARP, COALESCING, TRANSPOSE, BANKS, REDUCE, TICKET,
    UNROLLING, ROUNDING, INSTRUCTIONS, MATMUL, ITERATION, HISTOGRAM,
    TRANSFERS, OPENCL,
    MENDED_TRANSPOSE, MENDED_SUM, MENDED_STEP, MENDED_PAIRS,
)  # fmt: skip
TASKS: dict[str, Task] = {task.name: task for task in _ALL}

"""course - the course's exercises: checking a kernel, and the notebooks that set them.

>>> import gpuops
>>> score = gpuops.course.check("03", KERNEL)    # doctest: +SKIP
>>> score.as_dict()["score"]    # doctest: +SKIP
100.0
"""

from .checking import check, hint, solution
from .compare import compare
from .extract import copy_notebooks, source_of
from .progress import class_csv, progress
from .recording import recorded
from .score import Score
from .task import Task
from .tasks import TASKS
from .watch import Watched, watch

__all__ = [
    "TASKS",
    "Score",
    "Task",
    "Watched",
    "check",
    "class_csv",
    "compare",
    "copy_notebooks",
    "hint",
    "progress",
    "recorded",
    "solution",
    "source_of",
    "watch",
]

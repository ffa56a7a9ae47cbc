# A test file of otter-grader: tests/03.py beside the notebook, whose cell defines KERNEL, and which
# asks for it by `grader = otter.Notebook()` and `grader.check("03")`.
from otter.test_files import test_case

OK_FORMAT = False
name = "03"
points = 100


@test_case(points=None, hidden=False)
def test_kernel(KERNEL):
    import gpuops.course

    score = gpuops.course.check("03", KERNEL)
    assert score.passed, str(score)

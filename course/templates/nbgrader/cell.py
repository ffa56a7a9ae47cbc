# An autograded test cell of nbgrader ("Autograder tests", 100 points), behind the one that defines
# KERNEL: the value of its last expression is the points that it gives. Leave KERNEL's cell
# unmarked: learners edit it, and nbgrader would clear a solution's, the kernel to begin with too.
# A kernel without an end gets 0: nbgrader ends a cell after its ExecutePreprocessor.timeout, 30 s.
import gpuops.course

gpuops.course.check("03", KERNEL).points

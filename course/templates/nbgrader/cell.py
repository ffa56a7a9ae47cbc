# An autograded test cell of nbgrader: the value of its last expression is the points that it
# gives, out of those of the cell (100).
import gpuops.course

gpuops.course.check("03", KERNEL).points

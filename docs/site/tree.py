"""tree - which page stands where: the sections of the site, and the pages of each, in order.

A name is docs/<name>.md, save for what stage.py makes: notebooks, api, ladders, errors and the
like. A test holds this tree against the files.
"""

# Section -> (title, for whom, pages).
TREE = {
    "start": (
        "Start",
        "For everybody who is new: install gpuops, then spend ten minutes with it.",
        ["install", "notebooks/tour", "opencl"],
    ),
    "guides": (
        "Guides",
        "For people with arrays: a page for each task, and a notebook for each operation.",
        ["sums", "same-bits", "scaling-out", "transpose", "matmul", "rdf", "jacobi", "arrays",
         "choosing", "measuring",
         "notebooks/add", "notebooks/transpose", "notebooks/reduce", "notebooks/matmul",
         "notebooks/jacobi_step", "notebooks/jacobi", "notebooks/rdf", "notebooks/libraries",
         "notebooks/dask"],
    ),
    "kernels": (
        "Write kernels",
        "For people who write CUDA kernels: compile, check and count them, without a GPU.",
        ["first-kernel", "mistakes", "counting", "to-a-gpu", "older-gpus", "certificate", "sim",
         "notebooks/sim"],
    ),
    "learn": (
        "Learn and teach",
        "For learners and lecturers: fifteen graded notebooks, and the kernels of all ladders.",
        ["course", "teaching", "lectures", "ladders", "cuda-words", "glossary"],
    ),
    "reference": (
        "Reference",
        "For those who look something up.",
        ["api", "guarantees", "conformance", "numerics", "limits", "troubleshooting",
         "benchmarks"],
    ),
    "project": (
        "Project",
        "For those who follow, cite or change gpuops.",
        ["changes", "cite", "contributing", "design", "release", "speed-log"],
    ),
}  # fmt: skip

# The reference by subject: every public name once.
API = {
    "Elementwise operations and transpose": ["add", "multiply_add", "fma", "transpose"],
    "Reductions": ["reduce", "sum", "prod", "min", "max", "mean", "any", "all", "argmin",
                   "argmax"],
    "Reductions in parts": ["states", "merge", "finish", "State"],
    "Products of matrices": ["matmul"],
    "Linear systems": ["jacobi_step", "jacobi", "sparse", "stencil", "poisson", "SparseMatrix",
                       "Stencil", "JacobiResult"],
    "Radial distribution functions": ["rdf", "RdfResult", "FirstShell"],
    "Arrays and devices": ["DeviceArray", "to_device", "Device", "DeviceInfo", "device",
                           "devices", "get_default_device", "set_default_device",
                           "is_available", "get_num_threads", "set_num_threads", "show_config"],
    "Kernels: list, read, time, explain": ["kernels", "Kernel", "source", "ladder", "Ladder",
                                           "sweep", "Sweep", "explain", "Explanation",
                                           "roofline", "benchmark", "Timing", "Timer"],
    "Kernels of one's own": ["compile", "Program", "CompiledKernel", "profile", "Profile",
                             "schedule", "occupancy", "Occupancy", "load_ipython_extension"],
    "Errors and warnings": ["errors", "Error", "CompileError", "DeviceError", "DeviceLostError",
                            "DeviceMemoryError", "DeviceUnavailableError", "KernelRefusedError",
                            "SimWarning", "UnsupportedDeviceError"],
    "The course": ["course"],
}  # fmt: skip

# What else there is on a name: its guide and, of operations, the stem of their ladders.
GUIDES = {
    "transpose": ["transpose"],
    "matmul": ["matmul"],
    "sums": API["Reductions"],
    "same-bits": API["Reductions in parts"],
    "jacobi": API["Linear systems"],
    "rdf": API["Radial distribution functions"],
    "arrays": ["DeviceArray", "to_device"],
    "choosing": ["device", "devices", "set_default_device", "get_default_device", "explain",
                 "Explanation", "kernels", "set_num_threads", "get_num_threads"],
    "measuring": ["ladder", "Ladder", "benchmark", "Timing", "Timer", "sweep", "Sweep"],
    "first-kernel": ["compile", "Program", "CompiledKernel", "load_ipython_extension"],
    "counting": ["profile", "Profile"],
    "mistakes": ["schedule"],
    "to-a-gpu": ["occupancy", "Occupancy", "roofline"],
    "ladders": ["source", "Kernel"],
    "troubleshooting": API["Errors and warnings"],
    "course": ["course"],
    "install": ["show_config", "is_available"],
}  # fmt: skip
STEMS = {
    **dict.fromkeys(["add", "multiply_add", "fma"], "add"),
    **dict.fromkeys(API["Reductions"], "reduce"),
    **{op: op for op in ("transpose", "matmul", "jacobi_step", "jacobi", "rdf")},
}

# The ladders that have a page: the operation and the backend.
LADDERS = {
    "cpu": ["add", "transpose", "reduce", "matmul", "jacobi_step", "jacobi", "rdf"],
    "cuda": ["add", "transpose", "reduce", "matmul", "jacobi_step", "jacobi", "rdf"],
    "opencl": ["add", "transpose", "reduce", "matmul", "jacobi_step", "jacobi", "rdf"],
}

#!/usr/bin/env bash
# Gradescope runs this once, when it builds the container: a C++ compiler, binutils for the lines
# in sentences, a Python of 3.11 or later (Ubuntu 22.04's own is 3.10), and gpuops in an
# environment of its own, from the wheel that lies beside this file.
set -e
apt-get update && apt-get install -y --no-install-recommends g++ binutils
for PYTHON in python3.13 python3.12 python3.11; do
    apt-get install -y --no-install-recommends $PYTHON $PYTHON-venv && break
done
$PYTHON -m venv /autograder/python
/autograder/python/bin/python -m pip install /autograder/source/gpuops-*.whl

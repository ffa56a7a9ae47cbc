#!/usr/bin/env bash
# Gradescope runs this once, when it builds the container: a C++ compiler, binutils for the lines
# in sentences, and gpuops, from the wheel that lies beside this file.
set -e
apt-get update && apt-get install -y --no-install-recommends g++ binutils python3-pip
python3 -m pip install --break-system-packages /autograder/source/gpuops-*.whl

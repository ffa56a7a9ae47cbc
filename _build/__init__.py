"""_build - how this repository builds itself: the PEP 517 backend, nvcc, parallel compiling."""

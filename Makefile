# Makefile - every verb of this repository; `make help` lists them.
#
# A fresh machine needs python3 (3.11 or later, with venv), a C and a C++ compiler, and make.
# VENV= (empty) uses PYTHON as it is: for machines without a network.

PYTHON ?= python3
VENV ?= .venv
OP ?=
PYTEST_ARGS ?= $(if $(OP),-k $(OP))
# Tests at a time. Many of them use all cores by themselves: more would only wait.
WORKERS ?= 2
export GPUOPS_WERROR ?= 1

# The GPUs that answer. Most of a build is nvcc's: without a GPU only who asks for it waits for it.
GPUS := $(shell $(PYTHON) -c "from _build.toolkit import archs_here; print(*archs_here())" 2>/dev/null)
ifdef CUDA
export GPUOPS_CUDA := $(CUDA)
endif
ifndef GPUOPS_CUDA
export GPUOPS_CUDA := $(if $(GPUS),auto,0)
WHEEL_CUDA := 1
NOTE = $(if $(GPUS),,echo "gpuops: no NVIDIA GPU answers here, so no CUDA kernels are compiled for one; CUDA=1 compiles them";)
endif
# A third of the rest is enough for the processor at hand; `make wheel` and CI compile for all.
export GPUOPS_CPU_LEVELS ?= native
ifndef GPUOPS_CUDA_ARCHS
export GPUOPS_CUDA_ARCHS := $(or $(GPUS),90a)
endif

ifeq ($(VENV),)
PY := PYTHONPATH=. $(PYTHON)
READY := python
TESTS := python
LINTERS := python
SPHINX := python
else
PY := $(VENV)/bin/python
READY := $(VENV)/.ready
TESTS := $(VENV)/.tests
LINTERS := $(VENV)/.linters
SPHINX := $(VENV)/.sphinx
endif

COMPILE = $(NOTE) $(PY) -W ignore setup.py -q build_ext --inplace
C_FILES = $(shell git ls-files 'csrc/*.[ch]' 'csrc/*.inc' 'csrc/*.cu' 'tests/driver/*.c')
PY_FILES = setup.py _build gpuops tests benchmarks docs/site

# OpenBLAS finds out the processor by itself; an environment may name an older one. Bytecode is
# kept: hundreds of tests start a Python.
unexport OPENBLAS_CORETYPE OPENBLAS_L2_SIZE PYTHONDONTWRITEBYTECODE

.PHONY: help python build build-times wheel test test-all course demo docs notebooks test-gpu sanitize certify conformance bench lint fmt style clean

help: ## list the targets
	@sed -n 's/^\([a-z-]*\):.*## /\1\t/p' $(MAKEFILE_LIST) | expand -t 12

# Where the virtual environment is, with gpuops and what its demo needs. gpuops is compiled before
# pip installs it, since pip would show nothing of that, and while pip fetches the rest.
$(VENV)/.ready: pyproject.toml | python
	@echo "gpuops: 1 of 3, a virtual environment in $(VENV), and what the build needs"
	@$(VENV_MADE)
	@$(VENV)/bin/python -m pip install --quiet "setuptools>=77" wheel "numpy>=2.0"
	@$(VENV)/bin/python -c "from _build.backend import nvcc_wheels; print(*nvcc_wheels())" | \
	    xargs -r $(VENV)/bin/python -m pip install --quiet
	@echo "gpuops: 2 of 3, compiling; meanwhile pip fetches what the demo needs"
	@$(EXTRA) demo | xargs $(VENV)/bin/python -m pip install --quiet & fetched=$$!; \
	    { $(COMPILE); } && wait $$fetched
	@echo "gpuops: 3 of 3, gpuops, editable"
	@$(VENV)/bin/python -m pip install --quiet --no-build-isolation --editable .
	@touch $@

# What tests and benchmarks need besides.
$(VENV)/.tests: $(VENV)/.ready
	@$(VENV)/bin/python -m pip install --quiet "gpuops[test,demo,bench]"
	@touch $@

# What the site needs, once gpuops is there.
$(VENV)/.sphinx: pyproject.toml | $(READY)
	@$(EXTRA) docs | xargs $(VENV)/bin/python -m pip install --quiet
	@touch $@

EXTRA = $(PYTHON) -c "import sys, tomllib; p = tomllib.load(open('pyproject.toml', 'rb'))['project']; \
    print(*p['optional-dependencies'][sys.argv[1]])"
VENV_MADE = test -x $(VENV)/bin/python || $(PYTHON) -m venv $(VENV)

# What lint needs, without gpuops: it tells in seconds, not once all is compiled.
$(VENV)/.linters: pyproject.toml | python
	@$(VENV_MADE)
	@$(EXTRA) lint | xargs $(VENV)/bin/python -m pip install --quiet
	@touch $@

python:
	@$(PYTHON) -c "import sys; v = sys.version.split()[0]; sys.version_info >= (3, 11) or sys.exit( \
	    f'gpuops needs Python 3.11 or later, {sys.executable} is {v}: make PYTHON=python3.12')"

build: $(READY) ## compile what changed, in place (CUDA=1|0, GPUOPS_CUDA_ARCHS, MAX_JOBS); without CUDA= for the GPUs that answer
	@$(COMPILE)

wheel: $(READY) ## a release's wheels in dist/, installed by themselves and asked for their GPUs; ARCHS="75 90a"; CUDA=0: CPU and sim
	@$(PY) -m pip install --quiet auditwheel wheel ziglang
	@GPUOPS_CPU_LEVELS=all $(if $(WHEEL_CUDA),GPUOPS_CUDA=$(WHEEL_CUDA)) $(PY) -m _build.wheel $(ARCHS)

test: build $(TESTS) ## every test that needs no GPU, notebooks included; OP=, PYTEST_ARGS="-k add", WORKERS=2
	$(PY) -m pytest -q -n $(WORKERS) --dist worksteal $(PYTEST_ARGS)

test-all: build $(TESTS) ## what `make test` samples, whole
	$(PY) -m pytest -q -n $(WORKERS) --dist worksteal --all -m sampled $(PYTEST_ARGS)

course: build ## JupyterLab on the course's notebooks, copied to build/course: docs/course.md; LAB_ARGS=--no-browser
	@$(PY) -m pip install --quiet jupyterlab matplotlib scipy
	@$(PY) -m gpuops.course copy build/course
	@cd build/course && $(if $(VENV),$(abspath $(VENV))/bin/python,PYTHONPATH=$(CURDIR) $(PYTHON)) -m jupyterlab $(LAB_ARGS) || \
	    { test "$$(id -u)" != 0 || echo "gpuops: JupyterLab refuses root without LAB_ARGS=--allow-root"; exit 1; }

# The demo runs on the CPU or the GPU. Half of a build is sim, which waits for who needs it.
demo: export GPUOPS_SIM := $(or $(GPUOPS_SIM),$(if $(wildcard gpuops/_sim.so),auto,0))
demo: $(READY) ## the six operations against NumPy, then water's g(r) as demo.png; compiles no sim
	@$(COMPILE)
	$(PY) -m gpuops demo
	@test -e gpuops/_sim.so || echo "gpuops: lessons and tests need sim, too, which runs CUDA kernels on this CPU: make build compiles it"

docs: build $(SPHINX) ## the site into build/docs, from pages, docstrings, ladders, results and notebooks; warnings are errors
	@$(PY) docs/site/stage.py build/docs-src
	@$(PY) -m sphinx -q -W --keep-going -j $(WORKERS) build/docs-src build/docs
	@$(PY) docs/site/check.py build/docs

notebooks: build $(TESTS) ## run the notebooks, and keep what they print for the site; NAMES="tour 03-transpose"
	$(PY) docs/site/execute.py $(NAMES)

test-gpu: build $(TESTS) ## the CUDA kernels of all ops or of OP=, then compute-sanitizer; fails without a GPU
	$(PY) tests/gpu_record.py $(OP)

sanitize: build $(TESTS) ## ASan and UBSan over core and CPU kernels, compute-sanitizer on a GPU; OP=
	$(PY) tests/driver/sanitize.py $(OP)

certify: build $(TESTS) ## count every CUDA row under Nsight Compute on a GPU, then docs/certificate.md's table
	$(PY) benchmarks/certify.py --collect
	$(PY) benchmarks/certify.py --check
	$(PY) benchmarks/tables.py

conformance: build $(TESTS) ## every op, dtype and kernel on all devices of this machine, then docs/conformance.md
	$(PY) benchmarks/conformance.py
	$(PY) benchmarks/tables.py

bench: build $(TESTS) ## time every op beside its peers, and its ladder, into benchmarks/results and docs; OP=
	$(PY) benchmarks/run.py $(OP)
	$(PY) benchmarks/ladders.py $(OP)
	$(PY) benchmarks/tables.py

lint: $(LINTERS) style ## ruff, clang-format, codespell, short functions, words
	@$(PY) -m ruff check $(PY_FILES) || { echo "gpuops: make fmt mends some of it"; exit 1; }
	@$(PY) -m ruff format --check $(PY_FILES) || { echo "gpuops: make fmt mends it"; exit 1; }
	@$(PY) -m codespell_lib $(PY_FILES) csrc docs README.md CONTRIBUTING.md CHANGELOG.md || \
	    { echo "gpuops: mend the spelling; words of ours are in pyproject.toml"; exit 1; }
	@$(CLANG_FORMAT) --dry-run -Werror $(C_FILES) || { echo "gpuops: make fmt mends the layout, \
	    but for comments of over 96 columns"; exit 1; }

fmt: $(LINTERS) ## format Python and C
	$(PY) -m ruff check --fix $(PY_FILES)
	$(PY) -m ruff format $(PY_FILES)
	$(CLANG_FORMAT) -i $(C_FILES)

CLANG_FORMAT = $(if $(VENV),$(VENV)/bin/clang-format,clang-format)

style: python ## functions of at most 80 lines, files of at most 600, no words of the list
	@$(PY) -m _build.style

build-times: build ## what compiling took: seconds, kernels and bytes of the longest files
	@$(PY) -m _build.times

clean: ## remove what was built; the virtual environment and build/course stay
	@test ! -d build || find build -mindepth 1 -maxdepth 1 ! -name course -exec rm -rf {} +
	rm -rf dist *.egg-info gpuops/*.so gpuops/_build_* .pytest_cache .ruff_cache

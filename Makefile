# The front door. `make demo` shows what fusion saves; `make test` runs every test. Both set up what they need on a
# Debian or Ubuntu machine, and are quick the second time.
SHELL := /bin/bash
.ONESHELL:
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help

PYTHON := .venv/bin/python
STAMPS := build/stamps
# Two compilers at a time need about 3 GB; more cores than that help no one on a small machine.
JOBS ?= $(shell nproc)
# nvcc from the system, or from .venv where there is none.
export PATH := $(PATH):/usr/local/cuda/bin:$(CURDIR)/.venv/cuda/bin

.PHONY: help demo test test-core test-sanitizers test-cuda test-gpu test-python test-python-cuda emulated-package
.PHONY: format check-format clean

help:
	@echo 'make demo   profile LayerNorm as it was in 2019, as torch has it now, and fused'
	@echo 'make test   build and run every test'
	@echo 'make test-gpu  the CUDA tests, compute-sanitizer and the benchmark on the GPU of this machine'
	@echo 'make format lay out the sources; make check-format only looks'

demo: $(STAMPS)/package
	mkdir -p demo
	$(PYTHON) -m fusednorm profile --plot demo --json demo/profile.json
	$(PYTHON) -m fusednorm report --profile demo/profile.json --output demo/report.html
	echo 'Pictures are in demo/, the page is demo/report.html.'

test: test-core test-cuda test-python test-python-cuda
	@echo 'All tests passed.'

test-core: $(STAMPS)/system
	tools/build dev
	ctest --preset dev -j $(JOBS)

# Reads past an array, undefined behaviour and races: on the small problems, which reach every code path. Four minutes, apart
# from `make test`, which is to stay under thirty.
test-sanitizers: $(STAMPS)/system
	tools/build asan
	FUSEDNORM_TEST_SCALE=small ctest --preset asan -j $(JOBS) -L core
	tools/build tsan
	FUSEDNORM_TEST_SCALE=small ctest --preset tsan -j $(JOBS) -R 'concurrency|guarantees|problems'

# The PyTorch operators among it: they link the kernels compiled here, so that these are compiled once.
WITH_TORCH := -DFUSEDNORM_TORCH=ON -DPython_EXECUTABLE=$(CURDIR)/$(PYTHON)
test-cuda: $(STAMPS)/nvcc
	tools/build cuda $(WITH_TORCH)
	ctest --preset cuda -j $(JOBS) -L 'cuda|emulator'

# For the GPU's own architecture, machine code and PTX.
test-gpu: $(STAMPS)/nvcc
	capability=$$(nvidia-smi --query-gpu=compute_cap --format=csv,noheader --id=0) || { echo 'make test-gpu: no GPU here' >&2; exit 1; }
	cmake --preset cuda -B build/gpu -DCMAKE_CUDA_ARCHITECTURES=$${capability/./} -DFUSEDNORM_EMULATOR_TESTS=OFF
	cmake --build build/gpu -j $(JOBS)
	tools/run-on-gpu build/gpu

test-python: $(STAMPS)/package
	$(PYTHON) -m ruff check python
	$(PYTHON) -m mypy
	$(PYTHON) -m pytest -q python/tests

# The CUDA operators of the package, with PyTorch on the emulated device.
test-python-cuda: emulated-package
	tools/with-emulated-cuda $(PYTHON) -m pytest -q -m cuda python/tests

emulated-package: $(STAMPS)/nvcc
	tools/build cuda $(WITH_TORCH) fusednorm_torch fusednorm_emulator_driver
	cmake --install build/cuda --component python --prefix build/cuda/python > /dev/null
	cp -r python/fusednorm build/cuda/python/

$(STAMPS)/system: tools/install-system-packages
	tools/install-system-packages
	mkdir -p $(@D) && touch $@

$(STAMPS)/venv: $(STAMPS)/system tools/requirements.txt
	[ -x $(PYTHON) ] || python3 -m venv .venv
	$(PYTHON) -m pip install --quiet --disable-pip-version-check -r tools/requirements.txt
	touch $@

$(STAMPS)/nvcc: $(STAMPS)/venv tools/install-nvcc
	tools/install-nvcc
	touch $@

# The package is installed again when any source of it changed.
$(STAMPS)/package: $(STAMPS)/venv pyproject.toml $(shell git ls-files include src bindings python/fusednorm cmake CMakeLists.txt problems/shapes.csv)
	FUSEDNORM_CUDA=$${FUSEDNORM_CUDA:-AUTO} $(PYTHON) -m pip install --quiet --disable-pip-version-check --no-build-isolation --no-deps .
	touch $@

format:
	git ls-files '*.h' '*.cc' '*.cpp' '*.cu' '*.cuh' | xargs clang-format -i
	$(PYTHON) -m ruff format python

check-format: $(STAMPS)/venv
	git ls-files '*.h' '*.cc' '*.cpp' '*.cu' '*.cuh' | xargs clang-format --dry-run --Werror
	$(PYTHON) -m ruff format --check python

clean:
	rm -rf build demo

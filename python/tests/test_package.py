# SPDX-License-Identifier: Apache-2.0
"""The package as such: examples in docstrings run, and types are shipped."""

import doctest
import importlib
import importlib.resources
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import torch

import cuda_device
import fusednorm

PUBLIC = ["", ".functional", ".module", ".conversion", ".apex", ".distributed", ".onnx"]
MODULES = [*PUBLIC, ".conversion.explain", "._load", "._operators"]


@pytest.mark.parametrize("name", MODULES)
def test_docstring_examples(name):
    module = importlib.import_module(f"fusednorm{name}")
    result = doctest.testmod(module, extraglobs={"torch": torch}, optionflags=doctest.ELLIPSIS)
    assert result.attempted > 0
    assert result.failed == 0


def test_a_torch_for_another_cuda_is_refused_in_a_sentence():
    """By the emulated device, which stands in for one version of the runtime."""
    result = doctest.testmod(cuda_device)
    assert result.attempted > 0
    assert result.failed == 0


def test_types_are_shipped():
    assert importlib.resources.files(fusednorm).joinpath("py.typed").is_file()


def test_every_public_name_is_documented():
    for name in fusednorm.__all__:
        assert getattr(fusednorm, name).__doc__


@pytest.mark.parametrize("wish", ["AUTO", "ON"])
def test_a_source_tree_without_nvcc_builds_the_cpu_half_and_says_so(wish, tmp_path):
    """AUTO warns and goes on; ON stops. Configures only: nothing is compiled."""
    tools = ("cmake", "ninja", "c++")
    assert all(map(shutil.which, tools)), f"this test configures a build: it needs {tools}"
    places = {*os.environ["PATH"].split(os.pathsep), "/usr/local/bin", "/usr/local/cuda/bin"}
    hidden = sorted(place for place in places if (Path(place) / "nvcc").exists())
    settings = {
        "CMAKE_PROJECT_fusednorm_INCLUDE": "bindings/torch/configure.cmake",
        "FUSEDNORM_TORCH": "ON",
        "FUSEDNORM_BENCH": "OFF",
        "FUSEDNORM_INSTALL": "OFF",
        "FUSEDNORM_CUDA": wish,
        "CMAKE_IGNORE_PATH": ";".join(hidden),
        "CMAKE_MAKE_PROGRAM": shutil.which("ninja"),
        "Python_EXECUTABLE": sys.executable,
    }
    result = subprocess.run(
        ["cmake", "-S", Path(__file__).parents[2], "-B", tmp_path, "-G", "Ninja"]
        + [f"-D{name}={value}" for name, value in settings.items()],
        capture_output=True,
        text=True,
        env={k: v for k, v in os.environ.items() if not k.startswith("CUDA")},
    )
    said = " ".join((result.stdout + result.stderr).split())
    missing = "is a build without CUDA" if torch.version.cuda is None else "no nvcc was found"
    assert missing in said
    assert (result.returncode == 0) == (wish == "AUTO"), said
    assert ("building the CPU operators only" in said) == (wish == "AUTO")

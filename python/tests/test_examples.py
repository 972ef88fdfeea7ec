# SPDX-License-Identifier: Apache-2.0
"""The examples that need Python or libtorch run, with short settings; CTest runs the others."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import torch

import fusednorm
from fusednorm import _load

EXAMPLES = Path(__file__).parents[2] / "examples"


@pytest.mark.parametrize("norm", ["layer", "rms"])
def test_train_gpt(norm, tmp_path):
    if norm == "rms" and not hasattr(fusednorm, "RMSNorm"):
        pytest.skip("this fusednorm has no RMSNorm")
    picture = tmp_path / "curves.png"
    settings = ["--steps", "12", "--width", "64", "--layers", "2", "--context", "32"]
    result = subprocess.run(
        [
            *(sys.executable, EXAMPLES / "train_gpt/train.py"),
            *settings,
            *("--norm", norm, "--plot", picture),
        ],
        capture_output=True,
        text=True,
        # A second thread gains nothing here and costs a lot on a busy machine.
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )
    assert result.returncode == 0, result.stdout + result.stderr
    losses = re.findall(r"loss ([\d.]+) -> ([\d.]+)", result.stdout)
    assert len(losses) == 2
    assert all(float(last) < 0.9 * float(first) for first, last in losses)
    assert picture.stat().st_size > 1000


def test_libtorch(tmp_path):
    settings = {
        "CMAKE_BUILD_TYPE": "Debug",  # -O0: libtorch's headers take long enough
        "TORCH_DIRECTORY": Path(torch.__file__).parent,
        "FUSEDNORM_LIBRARY": _load.LIBRARY,
    }
    options = [f"-D{name}={value}" for name, value in settings.items()]
    source = EXAMPLES / "libtorch"
    for command in (
        ["cmake", "-S", source, "-B", tmp_path, "-G", "Ninja", *options],
        ["cmake", "--build", tmp_path],
        [tmp_path / "example_libtorch"],
    ):
        result = subprocess.run(command, capture_output=True, text=True)
        assert result.returncode == 0, result.stdout + result.stderr
    assert "with fusednorm" in result.stdout

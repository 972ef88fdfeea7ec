# SPDX-License-Identifier: Apache-2.0
"""Types: what native accepts is accepted, and the documentation's examples are well typed."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import fusednorm

ROOT = Path(__file__).parents[2]
USAGE = Path(__file__).parent / "typed_usage.py"
DOCUMENTS = ("README.md", "docs/pytorch.md", "docs/convert.md", "docs/migrate.md")
# What the examples take for granted.
PREAMBLE = """
import torch, fusednorm
from torch import Tensor
x: Tensor
weight: Tensor
bias: Tensor
residual: Tensor
stream: Tensor
q: Tensor
model: torch.nn.Module
"""


def examples():
    """Return the Python blocks of the documents, each as a file of its own."""
    for document in DOCUMENTS:
        text = (ROOT / document).read_text()
        for number, block in enumerate(re.findall(r"```python\n(.*?)```", text, re.DOTALL)):
            yield f"{Path(document).stem.lower()}_{number}.py", PREAMBLE + block


def environment():
    """Return an environment in which a type checker finds the fusednorm that is tested."""
    place = Path(fusednorm.__file__).parents[1]
    found = {} if "site-packages" in place.parts else {"MYPYPATH": str(place)}
    return os.environ | found


def mypy(*files):
    return subprocess.run(
        [sys.executable, "-m", "mypy", "--strict", "--config-file=", "--follow-imports=silent",
         "--cache-dir", os.devnull, *map(str, files)],
        capture_output=True, text=True, env=environment(),
    )  # fmt: skip


def test_mypy_accepts_what_native_accepts_and_the_examples(tmp_path):
    pytest.importorskip("mypy", reason="mypy is not installed: tools/requirements.txt")
    files = [USAGE]
    for name, text in examples():
        files.append(tmp_path / name)
        files[-1].write_text(text)
    assert len(files) > len(DOCUMENTS) / 2, "the documents have examples"
    done = mypy(*files)
    assert done.returncode == 0, done.stdout + done.stderr


def test_mypy_refuses_what_is_wrong(tmp_path):
    pytest.importorskip("mypy", reason="mypy is not installed: tools/requirements.txt")
    wrong = tmp_path / "wrong.py"
    wrong.write_text(PREAMBLE + "fusednorm.layer_norm(x, 8)\nfusednorm.rms_norm([1.0], (8,))\n")
    done = mypy(wrong)
    assert done.stdout.count("error:") == 2, done.stdout + done.stderr


def test_pyright_accepts_what_native_accepts(tmp_path):
    pyright = shutil.which("pyright")
    if pyright is None:
        pytest.skip("pyright is not installed: pip install pyright runs this test")
    settings = tmp_path / "pyrightconfig.json"
    place = Path(fusednorm.__file__).parents[1]
    settings.write_text(f'{{"include": ["{USAGE}"], "extraPaths": ["{place}"]}}')
    done = subprocess.run(
        [pyright, "-p", str(settings), "--pythonpath", sys.executable],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr

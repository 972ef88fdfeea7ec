# SPDX-License-Identifier: Apache-2.0
"""TorchScript: script, trace, save and load with gradients, and in a C++ program without Python."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest
import torch

import fusednorm
import fusednorm._load

pytestmark = pytest.mark.filterwarnings("ignore")


class Net(torch.nn.Module):
    def __init__(self, memory_efficient=False):
        super().__init__()
        self.first = torch.nn.Linear(8, 16)
        self.norm = fusednorm.LayerNorm(16, memory_efficient=memory_efficient)
        self.last = torch.nn.Linear(16, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.last(self.norm(self.first(x)))


class Functional(torch.nn.Module):
    def forward(self, x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        return fusednorm.layer_norm(x, [8], w)


def script(module, x):
    return torch.jit.script(module)


def trace(module, x):
    return torch.jit.trace(module, (x,))


def gradients(module, x):
    module.zero_grad()
    x = x.clone().requires_grad_()
    y = module(x)
    y.square().sum().backward()
    return [y.detach(), x.grad, *(p.grad.clone() for p in module.parameters())]


@pytest.mark.parametrize("memory_efficient", [False, True])
@pytest.mark.parametrize("make", [script, trace])
def test_script_and_trace_with_gradients_saved_and_loaded(make, memory_efficient, tmp_path):
    net = Net(memory_efficient)
    x = torch.randn(5, 8)
    scripted = make(net, x)
    scripted.save(str(tmp_path / "net.pt"))
    loaded = torch.jit.load(str(tmp_path / "net.pt"))
    expected = gradients(net, x)
    for module in (scripted, loaded):
        for _ in range(3):  # the profiling executor changes the graph after the first calls
            for left, right in zip(gradients(module, x), expected):
                torch.testing.assert_close(left, right)


def test_the_function_can_be_scripted():
    x, w = torch.randn(3, 8, requires_grad=True), torch.randn(8, requires_grad=True)
    scripted = torch.jit.script(Functional())
    torch.testing.assert_close(scripted(x, w), Functional()(x, w))
    scripted(x, w).sum().backward()
    assert w.grad is not None


def test_a_converted_model_can_be_scripted():
    model = fusednorm.convert(torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.LayerNorm(8)))
    x = torch.randn(2, 4)
    torch.testing.assert_close(torch.jit.script(model)(x), model(x))


def test_training_in_a_cpp_program(tmp_path):
    """A program that links libtorch and libfusednorm_torch, and no libpython, trains a step."""
    assert shutil.which("cmake"), "this test builds a C++ program: it needs cmake and a compiler"
    torch.jit.script(Net()).save(str(tmp_path / "net.pt"))
    torch_directory = Path(torch.__file__).parent
    subprocess.run(
        [
            "cmake",
            "-S",
            str(Path(__file__).parent / "cpp"),
            "-B",
            str(tmp_path / "build"),
            f"-DTORCH_DIRECTORY={torch_directory}",
            f"-DTORCH_CXX11_ABI={int(torch.compiled_with_cxx11_abi())}",
            f"-DFUSEDNORM_LIBRARY={fusednorm._load.LIBRARY}",
        ],
        check=True,
        capture_output=True,
    )
    subprocess.run(["cmake", "--build", str(tmp_path / "build")], check=True, capture_output=True)
    program = str(tmp_path / "build" / "train")
    libraries = subprocess.run(["ldd", program], capture_output=True, text=True).stdout
    assert "libpython" not in libraries
    environment = {k: v for k, v in os.environ.items() if not k.startswith("PYTHON")}
    result = subprocess.run(
        [program, str(tmp_path / "net.pt")], capture_output=True, text=True, env=environment
    )
    assert result.returncode == 0, result.stdout + result.stderr
    assert "loss fell" in result.stdout

# SPDX-License-Identifier: Apache-2.0
"""Modes of PyTorch around the CUDA operators: compile, autocast, func, determinism, hooks."""

import pytest
import torch

import cuda_device
import fusednorm
import reference
from cuda_problem import Problem

pytestmark = [*cuda_device.marks, pytest.mark.filterwarnings("ignore")]


@pytest.mark.parametrize("dynamic", [False, True])
def test_compile_with_aot_eager(dynamic):
    """Traced by dynamo and AOTAutograd, run operator by operator: the backward pass too."""
    torch._dynamo.reset()
    torch._dynamo.utils.counters.clear()
    compiled = torch.compile(
        lambda x, w, b: fusednorm.layer_norm(x, (64,), w, b),
        backend="aot_eager",
        fullgraph=True,
        dynamic=dynamic,
    )
    for rows in (5, 9, 33) if dynamic else (5,):
        problem = Problem(rows, 64)
        there = problem.on("cuda")
        y = compiled(there.x, there.w, there.b)
        gradients = torch.autograd.grad(y, (there.x, there.w, there.b), there.dy)
        problem.check([y.detach(), *gradients])
    assert torch._dynamo.utils.counters["stats"]["unique_graphs"] == 1


def test_compile_of_the_memory_efficient_module():
    torch._dynamo.reset()
    norm = fusednorm.LayerNorm(48, memory_efficient=True).to("cuda")
    compiled = torch.compile(norm, backend="aot_eager", fullgraph=True)
    x, dy = torch.randn(6, 48).to("cuda"), torch.randn(6, 48).to("cuda")

    def run(function):
        leaf = x.detach().requires_grad_()
        y = function(leaf)
        leaves = (leaf, norm.weight, norm.bias)
        return [t.cpu() for t in (y.detach(), *torch.autograd.grad(y, leaves, dy))]

    assert all(torch.equal(a, b) for a, b in zip(run(compiled), run(norm)))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize("to", [torch.float16, torch.bfloat16], ids=str)
def test_autocast_leaves_wide_inputs_as_they_are(dtype, to):
    problem = Problem(20, 40, dtype)
    there = problem.on("cuda")
    with torch.autocast("cuda", dtype=to):
        results = there.run()
    assert {t.dtype for t in results} == {dtype}
    problem.check(results)


def test_autocast_of_a_narrow_input():
    """The conversion is autocast's: a kernel of PyTorch's, as under its own layer_norm."""
    cuda_device.needs_kernel_of_pytorch("autocast's conversion from bf16 to f32")
    x = torch.randn(5, 40, dtype=torch.bfloat16).to("cuda").requires_grad_()
    w = torch.randn(40).to("cuda")
    with torch.autocast("cuda", dtype=torch.bfloat16):
        y = fusednorm.layer_norm(x, (40,), w)
    assert y.dtype == torch.float32
    reference.forward(x, 1, w, None, 1e-5).check(y, "y")
    dy = torch.randn(5, 40).to("cuda")
    y.backward(dy)
    assert x.grad.dtype == torch.bfloat16
    reference.backward(dy, x, 1, w, 1e-5)[0].check(x.grad, "dx")


def test_inference_mode():
    x = torch.randn(4, 16)
    norm = fusednorm.LayerNorm(16).to("cuda")
    with torch.inference_mode():
        y = norm(x.to("cuda"))
        assert y.is_inference()
    torch.testing.assert_close(y.cpu(), torch.nn.functional.layer_norm(x, (16,)))


def test_the_same_bits_every_time():
    problem = Problem(rows=2000, cols=130)
    there = problem.on("cuda")
    first, second = ([t.cpu() for t in there.run()] for _ in range(2))
    assert all(torch.equal(a, b) for a, b in zip(first, second))


def test_parameters_of_another_dtype():
    """Inputs of 16 bits with f32 parameters, as a model under mixed precision has them."""
    for dtype in (torch.float16, torch.bfloat16):
        x = torch.randn(30, 100, dtype=dtype).to("cuda").requires_grad_()
        w, b = (torch.randn(100).to("cuda").requires_grad_() for _ in "wb")
        y = fusednorm.layer_norm(x, (100,), w, b)
        assert y.dtype == dtype
        reference.forward(x, 1, w, b, 1e-5).check(y, "y")
        dy = torch.randn(30, 100, dtype=dtype).to("cuda")
        y.backward(dy)
        for expected, leaf in zip(reference.backward(dy, x, 1, w, 1e-5), (x, w, b)):
            assert leaf.grad.dtype == leaf.dtype
            expected.check(leaf.grad, "gradient")


def test_unaligned_inputs_of_every_dtype():
    """Rows that begin anywhere: one element past the allocator's 512 bytes, odd row strides."""
    ops = torch.ops.fusednorm
    for dtype in (torch.float64, torch.float32, torch.float16, torch.bfloat16):
        x = torch.randn(9 * 131 + 1, dtype=dtype)[1:].view(9, 131)[:, 2:101]
        w, b = (torch.randn(100, dtype=dtype)[1:] for _ in "wb")
        dy = torch.randn(9, 103, dtype=dtype)[:, 3:102]
        x_there, w_there, b_there, dy_there = (cuda_device.put(t, "cuda") for t in (x, w, b, dy))
        assert x_there.data_ptr() % 16
        y, mean, rstd = ops.layer_norm_forward(x_there, (99,), w_there, b_there)
        reference.forward(x, 1, w, b, 1e-5).check(y, "y")
        outputs = ops.layer_norm_backward(
            dy_there, x_there, (99,), mean, rstd, w_there, b_there, [True] * 3
        )
        for expected, actual in zip(reference.backward(dy, x, 1, w, 1e-5), outputs):
            expected.check(actual, str(dtype))

# SPDX-License-Identifier: Apache-2.0
"""The modes of PyTorch: autocast, checkpointing, inference, fake tensors, determinism."""

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils.checkpoint import checkpoint

import fusednorm
import reference
from cuda_device import needs_kernel_of_pytorch


@pytest.mark.parametrize("reentrant", [False, True])
def test_activation_checkpointing(reentrant):
    norm = fusednorm.LayerNorm(16)
    x = torch.randn(4, 16, requires_grad=True)
    norm(x).square().sum().backward()
    plain = [x.grad.clone(), norm.weight.grad.clone()]
    x.grad = norm.weight.grad = norm.bias.grad = None
    checkpoint(norm, x, use_reentrant=reentrant).square().sum().backward()
    assert torch.equal(plain[0], x.grad)
    assert torch.equal(plain[1], norm.weight.grad)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64], ids=str)
def test_autocast_follows_native(dtype, device):
    """CUDA computes in f32, the CPU in the dtype it is given; f64 is left alone."""
    parameter = torch.float64 if dtype == torch.float64 else torch.float32
    with FakeTensorMode(), torch.autocast(device, dtype=torch.bfloat16):
        x = torch.empty(4, 16, dtype=dtype, device=device)
        w = torch.empty(16, dtype=parameter, device=device)
        native = torch.nn.functional.layer_norm(x, (16,), w, w)
    if device == "cuda" and dtype == torch.bfloat16:
        needs_kernel_of_pytorch("autocast's conversion from bf16 to f32")
    x = torch.randn(4, 16, dtype=dtype).to(device)
    w = torch.ones(16, dtype=parameter).to(device)
    with torch.autocast(device, dtype=torch.bfloat16):
        y = fusednorm.layer_norm(x, (16,), w, w)
    assert (y.dtype, y.device.type) == (native.dtype, device)
    reference.forward(x, 1, w, w, 1e-5).check(y, "y")


def test_autocast_rule_of_cuda_is_registered():
    """What can be seen of the CUDA rule without a GPU."""
    for name in ("layer_norm", "layer_norm_forward", "layer_norm_memory_efficient_forward"):
        assert torch._C._dispatch_has_kernel_for_dispatch_key(f"fusednorm::{name}", "AutocastCUDA")


def test_autocast_around_a_training_step():
    model = torch.nn.Sequential(torch.nn.Linear(8, 16), fusednorm.LayerNorm(16))
    with torch.autocast("cpu", dtype=torch.bfloat16):
        y = model(torch.randn(4, 8))
    assert y.dtype == torch.bfloat16  # a bf16 linear, then f32 parameters
    y.float().sum().backward()
    assert model[1].weight.grad.dtype == torch.float32


def test_inference_mode():
    norm = fusednorm.LayerNorm(16)
    x = torch.randn(4, 16)
    with torch.inference_mode():
        y = norm(x)
        assert y.is_inference()
        assert not y.requires_grad
    assert torch.equal(y, norm(x))
    with torch.no_grad():
        assert torch.equal(norm(x), y)


def test_fake_tensors_on_a_device_that_is_not_here():
    """The operators one by one: PyTorch's autograd engine itself wants the device to exist."""
    ops = torch.ops.fusednorm
    with FakeTensorMode():
        x = torch.empty(4, 16, device="cuda", dtype=torch.bfloat16)
        w = torch.empty(16, device="cuda")
        assert fusednorm.layer_norm(x, (16,), w).device.type == "cuda"
        y, mean, rstd = ops.layer_norm_forward(x, (16,), w)
        assert (y.device.type, y.dtype, y.shape) == ("cuda", torch.bfloat16, (4, 16))
        dx, dw, db = ops.layer_norm_backward(y, x, (16,), mean, rstd, w, None, [True, True, False])
        assert (dx.dtype, dw.dtype, dw.device.type) == (torch.bfloat16, torch.float32, "cuda")
        assert db is None
    with FakeTensorMode():
        x = torch.empty(4, 16, requires_grad=True)
        fusednorm.layer_norm(x, (16,)).sum().backward()
        assert x.grad.shape == (4, 16)


def test_meta_device_module():
    norm = fusednorm.LayerNorm(16, device="meta")
    assert norm(torch.empty(4, 16, device="meta")).shape == (4, 16)
    norm.to_empty(device="cpu").reset_parameters()
    torch.testing.assert_close(norm(torch.zeros(4, 16)), torch.zeros(4, 16))


def test_deterministic_algorithms():
    """Allowed (no alert), and the same bits, also in memory that deterministic mode has filled."""
    x = torch.randn(3000, 257)
    dy = torch.randn_like(x)
    norm = fusednorm.LayerNorm(257)

    def run():
        norm.zero_grad()
        leaf = x.clone().requires_grad_()
        y = norm(leaf)
        y.backward(dy)
        return y.detach(), leaf.grad, norm.weight.grad.clone(), norm.bias.grad.clone()

    before = run()
    torch.use_deterministic_algorithms(True)
    try:
        after = run()
    finally:
        torch.use_deterministic_algorithms(False)
    assert all(torch.equal(a, b) for a, b in zip(before, after))


def test_anomaly_mode_and_in_place_changes_are_caught():
    x = torch.randn(4, 8, requires_grad=True)
    hidden = x * 1
    y = fusednorm.layer_norm(hidden, (8,))
    hidden.add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.sum().backward()
    y = fusednorm.functional.memory_efficient_layer_norm(x, (8,))
    y.mul_(2)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.sum().backward()


def test_backward_twice_needs_retain_graph():
    x = torch.randn(4, 8, requires_grad=True)
    y = fusednorm.layer_norm(x, (8,)).sum()
    y.backward(retain_graph=True)
    y.backward()
    with pytest.raises(RuntimeError, match="second time"):
        y.backward()

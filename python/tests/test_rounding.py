# SPDX-License-Identifier: Apache-2.0
"""Each rounding against the formula of the model classes that have it, bit for bit.

The normalised values are those of our own operator, in f32: what is left is the order of a row's
sum. A product of two 16-bit numbers is exact in f32, so the formulas below have no other freedom.
"""

import itertools

import pytest
import torch

import fusednorm
import reference

F32, F16, BF16 = torch.float32, torch.float16, torch.bfloat16
PAIRS = [
    (BF16, BF16),
    (BF16, F32),
    (F16, F16),
    (F16, F32),
    (F32, F32),
    (F32, BF16),
    (F32, F16),
]
NORMS = ["rms_norm", "layer_norm"]


def ours(name, x, w, b, **how):
    if name == "rms_norm":
        return fusednorm.rms_norm(x, x.shape[-1:], w, 1e-5, bias=b, **how)
    return torch.ops.fusednorm.layer_norm_rounded(x, x.shape[-1:], w, b, 1e-5, **how)


def via(h, dtype, w, b, out):
    """``h.to(dtype) * weight + bias`` as PyTorch rounds it, operation by operation."""
    y = (h.to(dtype).float() * w).to(out)
    return y if b is None else (y.float() + b.float()).to(out)


@pytest.mark.parametrize("offset", [0.0, 1.0])
@pytest.mark.parametrize(("x_dtype", "w_dtype"), PAIRS, ids=str)
@pytest.mark.parametrize("name", NORMS)
def test_the_formula_of_the_class(name, x_dtype, w_dtype, offset, device):
    x = torch.randn(40, 257).to(x_dtype)
    w, b = (torch.randn(257).to(w_dtype) for _ in "wb")
    h = ours(name, x.to(device), None, None, dtype=F32).cpu()
    scale = w.float() + offset
    promoted = torch.promote_types(x_dtype, w_dtype)
    for bias in (None, b):
        there = [None if t is None else t.to(device) for t in (x, w, bias)]
        for rounding, dtype, out in (
            ("via_x", x_dtype, promoted),
            ("via_param", w_dtype, w_dtype),
        ):
            y = ours(name, *there, offset=offset, rounding=rounding)
            assert y.dtype == out
            assert torch.equal(y.cpu(), via(h, dtype, scale, bias, out)), rounding
        once = ours(name, *there, offset=offset)
        assert once.dtype == x_dtype
        reference.forward(x, 1, w, bias, 1e-5, centred=name == "layer_norm", offset=offset).check(
            once, "once"
        )


def llama(x, w):
    """Normalise in f32, round to the input's dtype, multiply by the weight."""
    h = x.float()
    h = h * torch.rsqrt(h.square().mean(-1, keepdim=True) + 1e-6)
    return w * h.to(x.dtype)


def t5(x, w):
    """Normalise in f32, round to the weight's dtype if that has 16 bits, multiply."""
    h = x * torch.rsqrt(x.float().square().mean(-1, keepdim=True) + 1e-6)
    return w * (h.to(w.dtype) if w.dtype in (F16, BF16) else h)


def gemma(x, w):
    """Normalise and multiply by 1 + weight in f32, round at the end."""
    h = x.float()
    h = h * torch.rsqrt(h.square().mean(-1, keepdim=True) + 1e-6)
    return (h * (1.0 + w.float())).to(x.dtype)


@pytest.mark.parametrize(("x_dtype", "w_dtype"), PAIRS, ids=str)
@pytest.mark.parametrize(
    ("model", "how"),
    [
        (llama, {"rounding": "via_x"}),
        (t5, {"rounding": "via_param"}),
        (gemma, {"offset": 1.0}),
    ],
)
def test_models(model, how, x_dtype, w_dtype):
    """Nearly every element is equal.

    xhat may differ by the order of a row's sum: a unit of f32, 2^-23, moves the rounding to bf16
    (spacing 2^-8) or f16 (2^-11) in about 2^-15 or 2^-12 of the elements. Another order of
    roundings moves a quarter of them.
    """
    x, w = torch.randn(64, 512).to(x_dtype), torch.randn(512).to(w_dtype)
    y = fusednorm.rms_norm(x, (512,), w, 1e-6, **how)
    expected = model(x, w)
    assert y.dtype == expected.dtype
    if y.dtype == F32:
        torch.testing.assert_close(y, expected, rtol=2**-8 if x_dtype != F32 else 1e-5, atol=1e-6)
        unequal = (y.ne(expected) & ((y - expected).abs() > 1e-5 * expected.abs())).float().mean()
    else:
        unequal = y.ne(expected).float().mean()
    assert unequal < 1e-3


def test_roundings_differ_from_each_other():
    """What the tests above could not see if all three were the same."""
    x, w = torch.randn(64, 512).bfloat16(), torch.randn(512).bfloat16()
    once, via_x = (fusednorm.rms_norm(x, (512,), w, rounding=r) for r in ("once", "via_x"))
    assert 0.1 < once.ne(via_x).float().mean() < 0.5


@pytest.mark.parametrize("rounding", ["via_x", "via_param"])
@pytest.mark.parametrize(("x_dtype", "w_dtype"), PAIRS, ids=str)
@pytest.mark.parametrize("name", NORMS)
def test_gradients_do_not_see_the_rounding(name, x_dtype, w_dtype, rounding, device):
    """Rounding is straight-through: the gradients of "once" for the same dy."""
    x = torch.randn(9, 96).to(x_dtype).to(device).requires_grad_()
    w, b = (torch.randn(96).to(w_dtype).to(device).requires_grad_() for _ in "wb")
    y = ours(name, x, w, b, offset=1.0, rounding=rounding)
    dy = torch.randn(9, 96).to(y.dtype).to(device)
    y.backward(dy)
    expected = reference.backward(dy, x, 1, w, 1e-5, centred=name == "layer_norm", offset=1.0)
    for gradient, leaf in zip(expected, (x, w, b)):
        assert leaf.grad.dtype == leaf.dtype
        gradient.check(leaf.grad, rounding)


@pytest.mark.parametrize("rounding", ["once", "via_x", "via_param"])
@pytest.mark.parametrize(("x_dtype", "w_dtype"), PAIRS, ids=str)
def test_vmap_over_parameters_rounds_the_same(rounding, x_dtype, w_dtype):
    """The rule that takes ordinary operations gives the bits of the kernel."""
    x, w, b = torch.randn(7, 64).to(x_dtype), *(torch.randn(3, 64).to(w_dtype) for _ in "wb")
    for bias in (None, b) if rounding != "once" else (None,):
        together = torch.vmap(
            lambda w, b: fusednorm.rms_norm(x, (64,), w, 1e-5, bias=b, rounding=rounding),
            (0, None if bias is None else 0),
        )(w, bias)
        for i in range(3):
            alone = fusednorm.rms_norm(
                x, (64,), w[i], 1e-5, bias=None if bias is None else bias[i], rounding=rounding
            )
            assert alone.dtype == together.dtype
            assert torch.equal(alone, together[i])


def test_dtype_of_the_result():
    x, w = torch.randn(2, 8).bfloat16(), torch.randn(8)
    for rounding, dtype in itertools.product(("once", "via_x", "via_param"), (BF16, F32)):
        assert fusednorm.rms_norm(x, (8,), w, rounding=rounding, dtype=dtype).dtype == dtype
    for rounding in ("once", "via_x", "via_param"):
        assert fusednorm.rms_norm(x, (8,), rounding=rounding).dtype == BF16
    assert fusednorm.layer_norm(x, (8,), w, rounding="via_x").dtype == F32
    assert fusednorm.layer_norm(x, (8,), w, dtype=F32).dtype == F32
    assert fusednorm.layer_norm(x.float(), (8,), w.bfloat16(), rounding="via_param").dtype == BF16

# SPDX-License-Identifier: Apache-2.0
"""Derivatives of first and second order, reverse and forward mode, against finite differences."""

import pytest
import torch
from torch.autograd import forward_ad, gradcheck, gradgradcheck

import fusednorm

OPS = torch.ops.fusednorm
PRESENT = ["", "w", "b", "wb"]


def arguments(which, shape=(3, 4, 5), inner=2):
    def make(size):
        return torch.randn(size, dtype=torch.double).requires_grad_()

    x = make(shape)
    # Away from zero: the memory-efficient form divides by it.
    w = (
        (torch.rand(shape[-inner:], dtype=torch.double) + 0.5).requires_grad_()
        if "w" in which
        else None
    )
    return x, list(shape[-inner:]), w, make(shape[-inner:]) if "b" in which else None


FORWARD = {
    "layer_norm": fusednorm.layer_norm,
    "layer_norm_forward": OPS.layer_norm_forward,  # mean and rstd have derivatives too
    "memory_efficient": OPS.layer_norm_memory_efficient_forward,
}


@pytest.mark.parametrize("which", PRESENT)
@pytest.mark.parametrize("name", FORWARD)
def test_first_derivatives(name, which):
    assert gradcheck(
        FORWARD[name],
        arguments(which),
        check_forward_ad=True,
        check_batched_grad=True,
        check_batched_forward_grad=True,
    )


@pytest.mark.parametrize("which", PRESENT)
@pytest.mark.parametrize("name", FORWARD)
def test_second_derivatives(name, which):
    assert gradgradcheck(
        FORWARD[name],
        arguments(which, (2, 2, 3)),
        check_fwd_over_rev=True,
        check_rev_over_rev=True,
        check_batched_grad=True,
    )


@pytest.mark.parametrize("which", PRESENT)
def test_the_backward_operators_are_functions_of_their_own(which):
    x, shape, w, b = arguments(which)
    dy = torch.randn_like(x).requires_grad_()
    _, mean, rstd = (t.detach().requires_grad_() for t in OPS.layer_norm_forward(x, shape, w, b))
    y = torch.randn_like(x).requires_grad_()
    mask = [True, w is not None, b is not None]

    def backward(*args):
        return [t for t in OPS.layer_norm_backward(*args) if t is not None]

    def efficient(*args):
        return [t for t in OPS.layer_norm_memory_efficient_backward(*args) if t is not None]

    assert gradcheck(backward, (dy, x, shape, mean, rstd, w, b, mask), check_forward_ad=True)
    assert gradcheck(efficient, (dy, y, shape, rstd, w, b, mask), check_forward_ad=True)


def test_third_derivative():
    """Against the formula: native's own third derivative takes mean and rstd for constants."""
    x = torch.randn(2, 5, dtype=torch.double, requires_grad=True)

    def formula(x):
        centred = x - x.mean(-1, True)
        return (centred * (centred.square().mean(-1, True) + 1e-5).rsqrt()).pow(3).sum()

    def ours(x):
        return fusednorm.layer_norm(x, (5,)).pow(3).sum()

    def third(f):
        g = torch.autograd.grad(f(x), x, create_graph=True)[0]
        h = torch.autograd.grad(g.square().sum(), x, create_graph=True)[0]
        return torch.autograd.grad(h.square().sum(), x)[0]

    torch.testing.assert_close(third(ours), third(formula), rtol=1e-8, atol=1e-8)


@pytest.mark.parametrize("index", range(3))
def test_no_tangent_is_dropped(index):
    """Each argument alone as a dual number: a tangent comes out, and it is the right one."""
    primals = [torch.randn(3, 6), torch.randn(6), torch.randn(6)]
    for function in (fusednorm.layer_norm, OPS.layer_norm_forward):
        with forward_ad.dual_level():
            duals = list(primals)
            duals[index] = forward_ad.make_dual(primals[index], torch.ones_like(primals[index]))

            def first(f, duals=duals):
                out = f(duals[0], (6,), duals[1], duals[2])
                return forward_ad.unpack_dual(out if isinstance(out, torch.Tensor) else out[0])

            tangent = first(function).tangent
            assert tangent is not None
            expected = first(torch.nn.functional.layer_norm).tangent
            torch.testing.assert_close(tangent, expected, rtol=1e-5, atol=1e-5)


def test_gradients_of_low_precision_second_order_have_the_right_dtype():
    x = torch.randn(3, 8, dtype=torch.bfloat16, requires_grad=True)
    w = torch.randn(8, requires_grad=True)
    y = fusednorm.layer_norm(x, (8,), w)
    (dx,) = torch.autograd.grad(y.float().square().sum(), x, create_graph=True)
    ddx, dw = torch.autograd.grad(dx.float().square().sum(), (x, w))
    assert (ddx.dtype, dw.dtype) == (torch.bfloat16, torch.float32)

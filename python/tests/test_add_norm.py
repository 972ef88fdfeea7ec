# SPDX-License-Identifier: Apache-2.0
"""The norm of input + residual: fused gives the bits of unfused, forward and backward."""

import itertools

import pytest
import torch
from torch.autograd import gradcheck, gradgradcheck

import fusednorm
import reference

OPS = torch.ops.fusednorm
NORMS = {"rms_norm": False, "layer_norm": True}  # and whether the mean is subtracted
F64, F32, F16, BF16 = torch.float64, torch.float32, torch.float16, torch.bfloat16
# input, residual, parameters
DTYPES = [
    (F64, F64, F64),
    (F32, F32, F32),
    (F32, F32, BF16),
    (F16, F16, F16),
    (BF16, BF16, BF16),
    (BF16, BF16, F32),
    (BF16, F32, BF16),
    (F16, F32, F32),
]
ROUNDINGS = ["once", "via_x", "via_param"]


def add_norm(name, x, r, w=None, b=None, eps=1e-5, **how):
    if name == "rms_norm":
        return fusednorm.add_rms_norm(x, r, x.shape[-1:], w, eps, bias=b, **how)
    return fusednorm.add_layer_norm(x, r, x.shape[-1:], w, b, eps, **how)


def norm(name, x, w=None, b=None, eps=1e-5, **how):
    if name == "rms_norm":
        return fusednorm.rms_norm(x, x.shape[-1:], w, eps, bias=b, **how)
    return OPS.layer_norm_rounded(x, x.shape[-1:], w, b, eps, **how)


def stored_sum(x, r):
    compute = F64 if x.dtype == F64 else F32
    return (x.detach().cpu().to(compute) + r.detach().cpu().to(compute)).to(r.dtype)


@pytest.mark.parametrize("rounding", ROUNDINGS)
@pytest.mark.parametrize(("x_dtype", "r_dtype", "w_dtype"), DTYPES, ids=str)
@pytest.mark.parametrize("name", NORMS)
def test_fused_gives_the_bits_of_unfused(name, x_dtype, r_dtype, w_dtype, rounding, device):
    """The sum as an addition stores it, the output as the norm of that sum has it."""
    for cols, offset in ((33, 0.0), (768, 1.0)):
        x, r = torch.randn(5, cols, dtype=x_dtype), torch.randn(5, cols, dtype=r_dtype)
        w, b = (torch.randn(cols, dtype=w_dtype).to(device) for _ in "wb")
        how = {"offset": offset, "rounding": rounding}
        y, s = add_norm(name, x.to(device), r.to(device), w, b, **how)
        assert s.dtype == r_dtype
        assert torch.equal(s.cpu(), stored_sum(x, r))
        if y.dtype == norm(name, s, w, b, **how).dtype:
            assert torch.equal(y.cpu(), norm(name, s, w, b, **how).cpu())
        else:
            # A 16-bit output of an f32 sum. One rounding: that of the unfused f32 output.
            y, _ = add_norm(name, x.to(device), r.to(device), w, **how)
            unfused = norm(name, s, w, offset=offset)
            assert torch.equal(y.cpu(), unfused.cpu().to(y.dtype))


@pytest.mark.parametrize("given", ["dy", "ds", "both"])
@pytest.mark.parametrize(("x_dtype", "r_dtype", "w_dtype"), DTYPES, ids=str)
@pytest.mark.parametrize("name", NORMS)
def test_values_and_gradients(name, x_dtype, r_dtype, w_dtype, given, device):
    """D = dnorm(dy; s) + ds, in the dtype of input and of residual."""
    x, r = (torch.randn(7, 96, dtype=t).to(device).requires_grad_() for t in (x_dtype, r_dtype))
    w, b = (torch.randn(96, dtype=w_dtype).to(device).requires_grad_() for _ in "wb")
    y, s = add_norm(name, x, r, w, b, offset=1.0)
    assert y.dtype == x_dtype
    how = {"centred": NORMS[name], "offset": 1.0}
    reference.forward(s, 1, w, b, 1e-5, **how).check(y, "y")
    dy = torch.randn(7, 96, dtype=x_dtype) if given != "ds" else None
    ds = torch.randn(7, 96, dtype=r_dtype) if given != "dy" else None
    pairs = [(o, g.to(device)) for o, g in ((y, dy), (s, ds)) if g is not None]
    torch.autograd.backward(*zip(*pairs))
    assert (x.grad.dtype, r.grad.dtype) == (x_dtype, r_dtype)
    zero = torch.zeros(7, 96, dtype=x_dtype)
    dx, dw, db = reference.backward(dy if dy is not None else zero, s, 1, w, 1e-5, ds=ds, **how)
    dx.check(x.grad, "dx")
    dx.check(r.grad, "dresidual")
    if dy is None:
        assert w.grad is None
        assert b.grad is None
        assert torch.equal(r.grad.cpu(), ds)
    else:
        dw.check(w.grad, "dweight")
        db.check(b.grad, "dbias")


@pytest.mark.parametrize("wanted", range(1, 16))
@pytest.mark.parametrize("r_dtype", [BF16, F32], ids=str)
def test_only_the_gradients_that_are_asked_for(r_dtype, wanted, device):
    x, w = (torch.randn(shape, dtype=BF16).to(device) for shape in ((6, 32), (32,)))
    r, b = torch.randn(6, 32, dtype=r_dtype).to(device), torch.randn(32, dtype=BF16).to(device)
    leaves = [t.requires_grad_(bool(wanted >> i & 1)) for i, t in enumerate((x, r, w, b))]
    y, s = fusednorm.add_rms_norm(x, r, (32,), w, 1e-5, bias=b)
    dy = torch.randn(6, 32, dtype=BF16).to(device)
    y.backward(dy)
    dx, dw, db = reference.backward(dy, s, 1, w, 1e-5, centred=False)
    for gradient, leaf, name in zip((dx, dx, dw, db), leaves, "xrwb"):
        if leaf.requires_grad:
            gradient.check(leaf.grad, name)
        else:
            assert leaf.grad is None


def test_one_array_serves_both_gradients_and_x_is_not_kept():
    x, r = (torch.randn(4, 8, requires_grad=True) for _ in "xr")
    kept = []
    with torch.autograd.graph.saved_tensors_hooks(lambda t: kept.append(t) or t, lambda t: t):
        y, s = fusednorm.add_rms_norm(x, r, (8,))
    assert {t.data_ptr() for t in kept} & {x.data_ptr(), r.data_ptr()} == set()
    dx, dr = torch.autograd.grad((y, s), (x, r), (torch.randn(4, 8), torch.randn(4, 8)))
    assert dx.data_ptr() == dr.data_ptr()
    assert len({t.data_ptr() for t in (x, r, y, s)}) == 4


@pytest.mark.parametrize("dtype", [BF16, F32], ids=str)
def test_a_stream_of_sixty_layers_does_not_drift(dtype):
    """Sums are rounded to nearest: errors have no sign, so they do not add up.

    A rounding errs by at most u |s|, evenly spread: u |s| / sqrt(3) in the root mean square. The
    mean of 60 of them over 2^16 elements is within six standard deviations of zero. Truncation
    would shrink every sum by u |s| / 2 or more a layer, hundreds of times that bound.
    """
    layers, width = 60, 1 << 16
    stream = torch.randn(1, width, dtype=dtype)
    exact = stream.double()
    worst = torch.zeros_like(exact)
    for _ in range(layers):
        x = torch.randn(1, width, dtype=BF16)
        _, stream = fusednorm.add_rms_norm(x, stream, (width,))
        exact = exact + x.double()
        worst = worst + torch.finfo(dtype).eps / 2 * stream.double().abs()
    shrinkage = ((stream.double() - exact) * exact.sign()).mean()
    bound = 6 * (worst.square().mean() / 3 / layers).sqrt() / width**0.5
    assert shrinkage.abs() < bound


# ---- derivatives


def add_rms(x, r, w, b):
    return fusednorm.add_rms_norm(x, r, x.shape[1:], w, 0.1, bias=b, offset=0.5)


def add_layer(x, r, w, b):
    return fusednorm.add_layer_norm(x, r, x.shape[1:], w, b, 0.1, offset=0.5)


def add_rms_forward(x, r, w, b):
    return OPS.add_rms_norm_forward(x, r, x.shape[1:], w, 0.1, b)


def add_layer_forward(x, r, w, b):
    return OPS.add_layer_norm_forward(x, r, x.shape[1:], w, b, 0.1)


def tensors(which, shape):
    """Input, residual and the parameters that are named."""

    def make(size):
        return torch.randn(size, dtype=torch.double).requires_grad_()

    return make(shape), make(shape), *(make(shape[1:]) if p in which else None for p in "wb")


@pytest.mark.parametrize("which", ["", "w", "b", "wb"])
@pytest.mark.parametrize("function", [add_rms, add_layer, add_rms_forward, add_layer_forward])
def test_first_and_second_derivatives(function, which):
    assert gradcheck(
        function,
        tensors(which, (3, 2, 4)),
        check_forward_ad=True,
        check_batched_grad=True,
        check_batched_forward_grad=True,
    )
    assert gradgradcheck(
        function,
        tensors(which, (2, 2, 3)),
        check_fwd_over_rev=True,
        check_rev_over_rev=True,
        check_batched_grad=True,
    )


@pytest.mark.parametrize("given", ["dy", "ds", "both"])
@pytest.mark.parametrize("which", ["", "w", "b", "wb"])
def test_the_backward_operators_are_functions_of_their_own(which, given):
    s, dy, w, b = tensors(which, (3, 2, 4))
    ds = torch.randn_like(s).requires_grad_()
    dy, ds = dy if given != "ds" else None, ds if given != "dy" else None
    mean, rstd = (torch.rand(3, 1, 1, dtype=torch.double, requires_grad=True) for _ in "mr")
    mask = [True, False, w is not None, b is not None]

    def outputs(operator):
        return lambda *a: [t for t in operator(*a) if t is not None]

    for operator, statistics in (
        (OPS.add_rms_norm_backward, (rstd,)),
        (OPS.add_layer_norm_backward, (mean, rstd)),
    ):
        arguments = (dy, ds, s, [2, 4], *statistics, w, b, 0.5, mask)
        if given == "ds":  # zeros, for which finite differences say nothing
            dx, _, dw, db = operator(*arguments)
            assert torch.equal(dx, ds)
            assert all(t is None or not t.any() for t in (dw, db))
        assert gradcheck(outputs(operator), arguments, check_forward_ad=True)


def test_second_derivatives_of_an_f32_residual():
    """Gradients of 16-bit and f32 tensors through both passes, against the unfused operators."""
    x = torch.randn(3, 8, dtype=BF16, requires_grad=True)
    r, w = torch.randn(3, 8, requires_grad=True), torch.randn(8, requires_grad=True)

    def second(y, s):
        first = torch.autograd.grad(
            y.float().pow(2).sum() + s.pow(3).sum(), (x, r), create_graph=True
        )
        return torch.autograd.grad(sum(g.float().square().sum() for g in first), (x, r, w))

    ours = second(*fusednorm.add_rms_norm(x, r, (8,), w, 1e-5))
    s = x.float() + r
    theirs = second(fusednorm.rms_norm(s, (8,), w, 1e-5).to(BF16), s)
    for left, right, leaf in zip(ours, theirs, (x, r, w)):
        assert left.dtype == leaf.dtype
        # first derivatives are rounded to bf16 on one way of two: 2^-8 of the largest
        tolerance = 2**-6 * right.abs().max().item()
        torch.testing.assert_close(left, right, rtol=0, atol=tolerance)


@pytest.mark.parametrize("batched", list(itertools.product([None, 0, 1], repeat=2))[1:], ids=str)
@pytest.mark.parametrize("name", NORMS)
def test_vmap(name, batched):
    def make(shape, dim):
        return torch.randn(shape if dim is None else (*shape[:dim], 4, *shape[dim:]), dtype=F64)

    def loss(add):
        def function(x, r, w, b):
            y, s = add(x, r, w, b)
            return (y.pow(3) + s.pow(2)).sum()

        return function

    def fused(x, r, w, b):
        return add_norm(name, x, r, w, b)

    def unfused(x, r, w, b):
        s = x + r
        native = torch.nn.functional
        if name == "rms_norm":
            return native.rms_norm(s, (6,), w, 1e-5) + b, s
        return native.layer_norm(s, (6,), w, b, 1e-5), s

    for parameters in (None, 0):
        dims = (*batched, parameters, parameters)
        x, r = (make((3, 6), dim) for dim in batched)
        w, b = (make((6,), parameters) for _ in "wb")
        torch.testing.assert_close(
            torch.vmap(fused, dims)(x, r, w, b), torch.vmap(unfused, dims)(x, r, w, b)
        )
        every = (0, 1, 2, 3)
        torch.testing.assert_close(
            torch.vmap(torch.func.grad(loss(fused), every), dims)(x, r, w, b),
            torch.vmap(torch.func.grad(loss(unfused), every), dims)(x, r, w, b),
        )


# ---- errors

x_, r_ = torch.randn(2, 4), torch.randn(2, 4)
REFUSED = {
    "another shape": (
        lambda f: f(x_, r_[:1], (4,)),
        RuntimeError,
        ["residual", "[1, 4]", "[2, 4]"],
    ),
    "f64 beside f32": (
        lambda f: f(x_, r_.double(), (4,)),
        RuntimeError,
        ["residual", "Double", "Float"],
    ),
    "bf16 beside f32": (
        lambda f: f(x_, r_.bfloat16(), (4,)),
        RuntimeError,
        ["residual", "BFloat16", "Float"],
    ),
    "f16 beside bf16": (
        lambda f: f(x_.bfloat16(), r_.half(), (4,)),
        RuntimeError,
        ["residual", "Half", "BFloat16"],
    ),
    "f32 beside f64": (
        lambda f: f(x_.double(), r_, (4,)),
        RuntimeError,
        ["residual", "Float", "Double"],
    ),
    "another device": (
        lambda f: f(x_, r_.to("meta"), (4,)),
        RuntimeError,
        ["residual", "meta", "cpu"],
    ),
    "no residual": (lambda f: f(x_, None, (4,)), TypeError, ["residual", "Tensor", "NoneType"]),
    "sparse": (lambda f: f(x_, r_.to_sparse(), (4,)), NotImplementedError, ["residual", "dense"]),
    "shape": (lambda f: f(x_, r_, (3,)), RuntimeError, ["normalized_shape=[3]", "[2, 4]"]),
}
FUNCTIONS = [
    fusednorm.add_rms_norm,
    fusednorm.add_layer_norm,
    fusednorm.add_rms_norm_,
    fusednorm.add_layer_norm_,
]


@pytest.mark.parametrize("function", FUNCTIONS)
@pytest.mark.parametrize("name", REFUSED)
def test_bad_residuals(name, function):
    call, kind, words = REFUSED[name]
    before = x_.clone(), r_.clone()
    with pytest.raises(kind) as error:
        call(function)
    for word in words:
        assert word in str(error.value), str(error.value)
    assert all(map(torch.equal, (x_, r_), before)), "nothing was written"


def test_input_and_residual_in_place_must_be_two_tensors():
    x = torch.randn(3, 8)
    with pytest.raises(RuntimeError, match="input and residual"):
        fusednorm.add_rms_norm_(x, x, (8,))
    fusednorm.add_rms_norm(x, x, (8,))


def test_errors_of_the_backward_operators():
    s, rstd = torch.randn(2, 4), torch.rand(2, 1)
    good = [s, s, s, [4], rstd, None, None, 0.0, [True, False, False, False]]
    bad = {
        (0, 1): ((None, None), "grad_out or grad_sum must be given"),
        (1,): ((torch.randn(3, 4),), "grad_sum must have the shape of sum"),
        (8,): (([True] * 4,), "the gradient of input is that of residual"),
    }
    for positions, (values, words) in bad.items():
        arguments = list(good)
        for position, value in zip(positions, values):
            arguments[position] = value
        with pytest.raises(RuntimeError, match=words):
            OPS.add_rms_norm_backward(*arguments)

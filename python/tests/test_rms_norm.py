# SPDX-License-Identifier: Apache-2.0
"""rms_norm against the formula in f64: values, gradients, dtypes, edges, derivatives, errors."""

import math

import pytest
import torch
from torch.autograd import gradcheck, gradgradcheck

import fusednorm
import reference
from cuda_device import put

OPS = torch.ops.fusednorm
native = torch.nn.functional.rms_norm
DTYPES = [torch.float64, torch.float32, torch.float16, torch.bfloat16]
# shape, normalized dimensions, why it is here
SHAPES = [
    ((2, 4), 1, "tiny"),
    ((5, 769), 1, "columns that no vector length divides"),
    ((7, 1), 1, "one column"),
    ((64, 1024), 1, "a hidden size"),
    ((3, 65536), 1, "a few long rows"),
    ((4000, 128), 1, "many heads"),
    ((2, 3, 5, 7), 2, "two normalized dimensions"),
    ((2, 3, 5), 3, "one row"),
    ((3, 0, 8), 1, "no rows"),
]
# The dtypes of input and parameters that the family accepts.
PAIRS = [
    (torch.bfloat16, torch.bfloat16),
    (torch.float16, torch.float32),
    (torch.bfloat16, torch.float32),
    (torch.float32, torch.bfloat16),
    (torch.float32, torch.float16),
]


def make(shape, dtype, device="cpu"):
    return torch.randn(shape, dtype=dtype).to(device).requires_grad_()


def check(x, inner, w, b, offset, y, dy, eps=1e-6):
    """Hold y and the gradients of x, w and b against the formula."""
    rms = {"centred": False, "offset": offset}
    reference.forward(x, inner, w, b, eps, **rms).check(y, "y")
    y.backward(dy)
    expected = reference.backward(dy, x, inner, w if w is not None else b, eps, **rms)
    if w is None:
        expected = (reference.backward(dy, x, inner, None, eps, **rms)[0], *expected[1:])
    for gradient, name, leaf in zip(expected, "xwb", (x, w, b)):
        if leaf is not None:
            assert leaf.grad.dtype == leaf.dtype
            gradient.check(leaf.grad, "d" + name)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize(("shape", "inner", "why"), SHAPES, ids=[s[2] for s in SHAPES])
def test_values_and_gradients(shape, inner, why, dtype, device):
    x = put(torch.randn(shape, dtype=dtype).add(0.5).requires_grad_(), device)
    w, b = (make(shape[-inner:], dtype, device) for _ in "wb")
    y = fusednorm.rms_norm(x, shape[-inner:], w, 1e-6, bias=b, offset=1.0)
    assert y.dtype == dtype
    assert y.is_contiguous()
    check(x, inner, w, b, 1.0, y, torch.randn(shape, dtype=dtype).to(device))


@pytest.mark.parametrize("which", ["", "w", "b", "wb"])
@pytest.mark.parametrize(("x_dtype", "parameter_dtype"), PAIRS, ids=str)
def test_parameters_are_optional_and_may_have_a_dtype_of_their_own(
    which, x_dtype, parameter_dtype, device
):
    x = make((9, 96), x_dtype, device)
    w, b = (make((96,), parameter_dtype, device) if name in which else None for name in "wb")
    y = fusednorm.rms_norm(x, (96,), w, 1e-6, bias=b)
    assert y.dtype == x_dtype
    check(x, 1, w, b, 0.0, y, torch.randn(9, 96, dtype=x_dtype).to(device))


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_eps_is_that_of_the_compute_type(dtype, device):
    """The same for every torch: 2.6 takes the epsilon of the input's dtype, bf16's is 7.8e-3."""
    compute = torch.float64 if dtype == torch.float64 else torch.float32
    x = (torch.randn(3, 64) * 1e-4).to(dtype)
    eps = torch.finfo(compute).eps
    y = fusednorm.rms_norm(x.to(device), (64,))
    reference.forward(x, 1, None, None, eps, centred=False).check(y, "y")
    assert torch.equal(y.cpu(), fusednorm.rms_norm(x.to(device), (64,), None, eps).cpu())
    module = fusednorm.RMSNorm(64, dtype=dtype).to(device)
    assert torch.equal(y.cpu(), module(x.to(device)).detach().cpu())


def test_agrees_with_native():
    x, w = torch.randn(5, 33, requires_grad=True), torch.randn(33, requires_grad=True)
    dy = torch.randn(5, 33)
    ours, theirs = fusednorm.rms_norm(x, (33,), w, 1e-5), native(x, (33,), w, 1e-5)
    torch.testing.assert_close(ours, theirs)
    for left, right in zip(
        torch.autograd.grad(ours, (x, w), dy), torch.autograd.grad(theirs, (x, w), dy)
    ):
        torch.testing.assert_close(left, right)


@pytest.mark.parametrize("wanted", range(1, 8))
def test_only_the_gradients_that_are_asked_for(wanted, device):
    x, w, b = (torch.randn(shape).to(device) for shape in ((6, 32), (32,), (32,)))
    leaves = [t.requires_grad_(bool(wanted >> i & 1)) for i, t in enumerate((x, w, b))]
    dy = torch.randn(6, 32).to(device)
    fusednorm.rms_norm(x, (32,), w, 1e-6, bias=b).backward(dy)
    expected = reference.backward(dy, x, 1, w, 1e-6, centred=False)
    for gradient, leaf, name in zip(expected, leaves, "xwb"):
        if leaf.requires_grad:
            gradient.check(leaf.grad, name)
        else:
            assert leaf.grad is None


def test_numbers_at_the_edge():
    """As the formula in f32 has them, and as native."""
    zero = torch.zeros(2, 8)
    b = torch.arange(8.0)
    assert torch.equal(fusednorm.rms_norm(zero, (8,), None, 1e-6, bias=b), b.expand(2, 8))
    assert fusednorm.rms_norm(zero, (8,), None, 0.0).isnan().all()
    # The mean square overflows f32: rstd is 0.
    assert torch.equal(fusednorm.rms_norm(torch.full((1, 8), 3e19), (8,)), torch.zeros(1, 8))
    # Sums in f16 would overflow and give zeros.
    half = torch.full((2, 4096), 65504.0, dtype=torch.float16)
    assert torch.equal(fusednorm.rms_norm(half, (4096,)), torch.ones_like(half))
    # The mean square is denormal: not flushed.
    tiny = torch.full((2, 8), 2.0**-70)
    torch.testing.assert_close(fusednorm.rms_norm(tiny, (8,), None, 0.0), torch.ones(2, 8))
    y = fusednorm.rms_norm(torch.tensor([[1.0, math.nan], [3.0, 4.0]]), (2,), None, 0.0)
    assert y[0].isnan().all()
    torch.testing.assert_close(y[1], torch.tensor([3.0, 4.0]) / math.sqrt(12.5))


def test_no_columns_and_no_rows(device):
    w = torch.randn(0).to(device).requires_grad_()
    x = torch.randn(3, 0).to(device)
    fusednorm.rms_norm(x, (0,), w).backward(x)
    assert w.grad.shape == (0,)
    w = torch.randn(8).to(device).requires_grad_()
    x = torch.randn(0, 8).to(device)
    fusednorm.rms_norm(x, (8,), w).backward(x)
    assert torch.equal(w.grad.cpu(), torch.zeros(8))


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32], ids=str)
@pytest.mark.parametrize("offset", [0.0, 1.0])
def test_memory_efficient(dtype, offset, device):
    x, b = make((6, 96), dtype, device), make((96,), dtype, device)
    w = torch.rand(96, dtype=dtype).add(0.5 - offset).to(device).requires_grad_()
    dy = torch.randn(6, 96, dtype=dtype).to(device)
    kept = []
    with torch.autograd.graph.saved_tensors_hooks(lambda t: kept.append(t) or t, lambda t: t):
        y = fusednorm.functional.memory_efficient_rms_norm(x, (96,), w, 1e-6, bias=b, offset=offset)
    assert any(t.data_ptr() == y.data_ptr() for t in kept)
    assert all(t.data_ptr() != x.data_ptr() for t in kept)
    reference.forward(x, 1, w, b, 1e-6, centred=False, offset=offset).check(y, "y")
    efficient = torch.autograd.grad(y, (x, w, b), dy)
    plain = torch.autograd.grad(
        fusednorm.rms_norm(x, (96,), w, 1e-6, bias=b, offset=offset), (x, w, b), dy
    )
    # y - b loses |b| / |w| roundings of y, at most 4 / 0.5 here, in h and in each of its products.
    for left, right in zip(efficient, plain):
        left, right = left.cpu(), right.cpu()
        tolerance = 64 * torch.finfo(dtype).eps * right.abs().max().item()
        torch.testing.assert_close(left, right, rtol=0, atol=tolerance)


def test_memory_efficient_with_zeros_in_the_weight():
    """With an offset of 1 a weight of 0 is safe, and one of -1 is not."""
    x, w = torch.randn(4, 8, requires_grad=True), torch.zeros(8)
    norm = fusednorm.functional.memory_efficient_rms_norm
    norm(x, (8,), w, offset=1.0).sum().backward()
    for offset, column in ((0.0, 0), (1.0, 5)):
        w[column] = -offset
        with pytest.raises(RuntimeError, match=rf"weight\[{column}\].*memory_efficient=False"):
            norm(x, (8,), w, offset=offset).sum().backward()


# ---- derivatives of first and second order


def efficient(x, w, b):
    return OPS.rms_norm_memory_efficient_forward(x, x.shape[1:], w, 0.1, b, offset=0.5)


def both(x, w, b):
    return OPS.rms_norm_forward(x, x.shape[1:], w, 0.1, b, offset=0.5)


def plain(x, w, b):
    return fusednorm.rms_norm(x, x.shape[1:], w, 0.1, bias=b, offset=0.5)


def rounded_layer_norm(x, w, b):
    return OPS.layer_norm_rounded_forward(x, x.shape[1:], w, b, 0.1, offset=0.5)


def arguments(which, shape=(3, 4, 5)):
    x = torch.randn(shape, dtype=torch.double).requires_grad_()
    w = torch.rand(shape[1:], dtype=torch.double).requires_grad_() if "w" in which else None
    b = torch.randn(shape[1:], dtype=torch.double).requires_grad_() if "b" in which else None
    return x, w, b


@pytest.mark.parametrize("which", ["", "w", "b", "wb"])
@pytest.mark.parametrize("function", [plain, both, efficient, rounded_layer_norm])
def test_first_and_second_derivatives(function, which):
    assert gradcheck(
        function,
        arguments(which),
        check_forward_ad=True,
        check_batched_grad=True,
        check_batched_forward_grad=True,
    )
    assert gradgradcheck(
        function,
        arguments(which, (2, 2, 3)),
        check_fwd_over_rev=True,
        check_rev_over_rev=True,
        check_batched_grad=True,
    )


@pytest.mark.parametrize("which", ["", "w", "b", "wb"])
def test_the_backward_operators_are_functions_of_their_own(which):
    x, w, b = arguments(which)
    shape, mask = list(x.shape[1:]), [True, w is not None, b is not None]
    dy, y = (torch.randn_like(x).requires_grad_() for _ in "yy")
    rstd = torch.rand(3, 1, 1, dtype=torch.double, requires_grad=True)
    mean = torch.randn(3, 1, 1, dtype=torch.double, requires_grad=True)

    def given(operator):
        return lambda *a: [t for t in operator(*a) if t is not None]

    for operator, tensors in (
        (OPS.rms_norm_backward, (dy, x, shape, rstd)),
        (OPS.rms_norm_memory_efficient_backward, (dy, y, shape, rstd)),
        (OPS.layer_norm_rounded_backward, (dy, x, shape, mean, rstd)),
    ):
        assert gradcheck(given(operator), (*tensors, w, b, 0.5, mask), check_forward_ad=True)


def test_third_derivative():
    x = torch.randn(2, 5, dtype=torch.double, requires_grad=True)

    def formula(x):
        return (x * (x.square().mean(-1, True) + 1e-5).rsqrt()).pow(3).sum()

    def ours(x):
        return fusednorm.rms_norm(x, (5,), None, 1e-5).pow(3).sum()

    def third(f):
        g = torch.autograd.grad(f(x), x, create_graph=True)[0]
        h = torch.autograd.grad(g.square().sum(), x, create_graph=True)[0]
        return torch.autograd.grad(h.square().sum(), x)[0]

    torch.testing.assert_close(third(ours), third(formula), rtol=1e-8, atol=1e-8)


# ---- errors


x_, w_ = torch.randn(2, 4), torch.ones(4)
# call, what the text must name; the exception is native's
CASES = {
    "shape does not match": (lambda f: f(x_, (3,)), ["normalized_shape=[3]", "[2, 4]"]),
    "empty shape": (lambda f: f(x_, ()), ["normalized_shape", "at least 1"]),
    "weight of another shape": (lambda f: f(x_, (4,), torch.ones(5)), ["weight", "[5]", "[4]"]),
    "weight on another device": (lambda f: f(x_, (4,), w_.to("meta")), ["weight", "meta", "cpu"]),
    "a list for input": (lambda f: f([1.0, 2.0], (2,)), ["input", "Tensor", "list"]),
    "an integer for a shape": (lambda f: f(x_, 4), ["normalized_shape", "int"]),
    "a string for eps": (lambda f: f(x_, (4,), w_, "a"), ["eps", "str"]),
    "a list for weight": (lambda f: f(x_, (4,), [1.0]), ["weight", "Tensor", "list"]),
}
# What native computes with, or has no argument for.
REFUSED = {
    "integers": (lambda f: f(x_.long(), (4,)), NotImplementedError, ["input", "Long", "Float"]),
    "complex numbers": (
        lambda f: f(x_.to(torch.complex64), (4,)),
        NotImplementedError,
        ["input", "ComplexFloat"],
    ),
    "f64 weight on f32": (lambda f: f(x_, (4,), w_.double()), RuntimeError, ["weight", "Double"]),
    "f16 with bf16": (
        lambda f: f(x_.half(), (4,), w_.bfloat16()),
        RuntimeError,
        ["weight", "Half", "BFloat16", "Float"],
    ),
    "f32 weight on f64": (
        lambda f: f(x_.double(), (4,), w_),
        RuntimeError,
        ["weight", "Double", "Float"],
    ),
    "weight and bias of two dtypes": (
        lambda f: f(x_.half(), (4,), w_, bias=w_.half()),
        RuntimeError,
        ["weight", "bias", "Float", "Half"],
    ),
    "bias of another shape": (
        lambda f: f(x_, (4,), w_, bias=torch.ones(3)),
        RuntimeError,
        ["bias", "[3]", "[4]"],
    ),
    "a rounding that is none": (
        lambda f: f(x_, (4,), rounding="twice"),
        ValueError,
        ["rounding", "once", "via_x", "via_param", "twice"],
    ),
    "a number for rounding": (lambda f: f(x_, (4,), rounding=1), TypeError, ["rounding", "int"]),
    "an infinite offset": (
        lambda f: f(x_, (4,), w_, offset=math.inf),
        ValueError,
        ["offset", "finite", "inf"],
    ),
    "a dtype of neither": (
        lambda f: f(x_, (4,), w_, dtype=torch.float64),
        RuntimeError,
        ["dtype", "Float", "Double"],
    ),
    "sparse": (lambda f: f(x_.to_sparse(), (4,)), NotImplementedError, ["input", "Sparse"]),
    "quantised": (
        lambda f: f(torch.quantize_per_tensor(x_, 0.1, 0, torch.quint8), (4,)),
        NotImplementedError,
        ["input", "QUInt8", "dense"],
    ),
}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", CASES)
def test_errors_are_those_of_native(name):
    call, words = CASES[name]
    with pytest.raises(Exception) as theirs:  # noqa: PT011  (its type is what we compare with)
        call(native)
    with pytest.raises(theirs.type) as ours:
        call(fusednorm.rms_norm)
    for word in words:
        assert word in str(ours.value), str(ours.value)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", REFUSED)
def test_what_is_refused_beyond_native(name):
    call, kind, words = REFUSED[name]
    with pytest.raises(kind) as error:
        call(fusednorm.rms_norm)
    for word in words:
        assert word in str(error.value), str(error.value)


def test_odd_eps_is_computed_with_as_native_does():
    x, w = torch.randn(3, 8), torch.randn(8)
    for eps in (-1e-3, math.inf, math.nan):
        ours, theirs = fusednorm.rms_norm(x, (8,), w, eps), native(x, (8,), w, eps)
        torch.testing.assert_close(ours, theirs, equal_nan=True)

# SPDX-License-Identifier: Apache-2.0
"""Parameters of every head, and q and k as views of a packed qkv, for both norms."""

import pytest
import torch
from torch.autograd import gradcheck, gradgradcheck

import fusednorm
import reference
from cuda_device import put

NORMS = {"rms_norm": False, "layer_norm": True}  # and whether the mean is subtracted
TOKENS, HEADS, DIM = 5, 3, 32


def norm(name, x, w=None, b=None, eps=1e-5):
    shape = x.shape[-1:]
    if name == "rms_norm":
        return fusednorm.rms_norm(x, shape, w, eps, bias=b)
    return fusednorm.layer_norm(x, shape, w, b, eps)


def add_norm(name, x, r, w=None, b=None):
    if name == "rms_norm":
        return fusednorm.add_rms_norm(x, r, x.shape[-1:], w, 1e-5, bias=b)
    return fusednorm.add_layer_norm(x, r, x.shape[-1:], w, b)


@pytest.mark.parametrize("which", ["w", "b", "wb"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("name", NORMS)
def test_values_and_gradients(name, dtype, which, device):
    x = torch.randn(2, TOKENS, HEADS, DIM, dtype=dtype).to(device).requires_grad_()
    w, b = (
        torch.randn(HEADS, DIM).to(device).requires_grad_() if p in which else None for p in "wb"
    )
    y = norm(name, x, w, b)
    reference.forward(x, 1, w, b, 1e-5, centred=NORMS[name]).check(y, "y")
    dy = torch.randn(x.shape, dtype=dtype).to(device)
    y.backward(dy)
    ones = torch.ones(HEADS, DIM)
    dx, dw, db = reference.backward(
        dy, x, 1, w if w is not None else ones, 1e-5, centred=NORMS[name]
    )
    dx.check(x.grad, "dx")
    for expected, leaf in ((dw, w), (db, b)):
        if leaf is not None:
            assert leaf.grad.shape == (HEADS, DIM)
            expected.check(leaf.grad, "parameter")


@pytest.mark.parametrize("name", NORMS)
def test_a_head_sees_only_its_own_rows(name):
    x, w = torch.randn(TOKENS, HEADS, DIM), torch.randn(HEADS, DIM, requires_grad=True)
    for head in range(HEADS):
        other = x.clone()
        other[:, (head + 1) % HEADS] = 7.0
        both = [
            torch.autograd.grad(norm(name, t, w).square().sum(), w)[0][head] for t in (x, other)
        ]
        assert torch.equal(*both)
        alone = norm(name, x[:, head].contiguous(), w[head].contiguous())
        assert torch.equal(norm(name, x, w)[:, head], alone)


@pytest.mark.parametrize("name", NORMS)
def test_several_dimensions_of_heads_and_of_the_norm(name):
    x = torch.randn(2, 3, 4, 2, 5, dtype=torch.double)
    w = torch.randn(3, 4, 2, 5, dtype=torch.double)
    if name == "rms_norm":
        y = fusednorm.rms_norm(x, (2, 5), w, 1e-5)
    else:
        y = fusednorm.layer_norm(x, (2, 5), w)
    reference.forward(x, 2, w, None, 1e-5, centred=NORMS[name]).check(y, "y")


@pytest.mark.parametrize("name", NORMS)
def test_no_rows_and_no_heads(name):
    for shape in ((0, HEADS, DIM), (4, 0, DIM)):
        w = torch.randn(shape[1:], requires_grad=True)
        x = torch.randn(shape)
        norm(name, x, w).backward(x)
        assert torch.equal(w.grad, torch.zeros(shape[1:]))


@pytest.mark.parametrize("name", NORMS)
def test_derivatives(name):
    def make(*shape):
        return torch.randn(shape, dtype=torch.double, requires_grad=True)

    arguments = make(2, 2, 3), make(2, 3), make(2, 3)
    checks = {"check_fwd_over_rev": True, "check_batched_grad": True}
    assert gradcheck(lambda x, w, b: norm(name, x, w, b, 0.1), arguments, check_forward_ad=True)
    assert gradgradcheck(lambda x, w, b: norm(name, x, w, b, 0.1), arguments, **checks)
    x, r = make(2, 2, 3), make(2, 2, 3)
    arguments = x, r, *arguments[1:]
    assert gradcheck(lambda *a: add_norm(name, *a), arguments, check_forward_ad=True)
    assert gradgradcheck(lambda *a: add_norm(name, *a), arguments, **checks)


@pytest.mark.parametrize("dims", [(0, None), (1, None), (None, 0), (0, 0), (0, 1)], ids=str)
@pytest.mark.parametrize("name", NORMS)
def test_vmap(name, dims):
    def make(shape, dim):
        return torch.randn(
            shape if dim is None else (*shape[:dim], 4, *shape[dim:]), dtype=torch.double
        )

    def formula(x, w):
        h = x - x.mean(-1, True) if NORMS[name] else x
        return h * (h.square().mean(-1, True) + 1e-5).rsqrt() * w

    def loss(f):
        return lambda x, w: f(x, w).pow(3).sum()

    x, w = make((TOKENS, HEADS, 6), dims[0]), make((HEADS, 6), dims[1])
    ours, expected = (lambda x, w: norm(name, x, w)), formula
    torch.testing.assert_close(torch.vmap(ours, dims)(x, w), torch.vmap(expected, dims)(x, w))
    torch.testing.assert_close(
        torch.vmap(torch.func.grad(loss(ours), (0, 1)), dims)(x, w),
        torch.vmap(torch.func.grad(loss(expected), (0, 1)), dims)(x, w),
    )


def test_parameters_that_do_not_fit():
    x = torch.randn(TOKENS, HEADS, DIM)
    for w in (torch.ones(HEADS + 1, DIM), torch.ones(1, DIM), torch.ones(2, TOKENS, HEADS, DIM)):
        for name in NORMS:
            with pytest.raises(RuntimeError, match="Expected weight to be of same shape") as error:
                norm(name, x, w)
            assert str(list(w.shape)) in str(error.value)
    with pytest.raises(
        RuntimeError, match=r"weight and bias must share a shape.*\[3, 32\].*\[32\]"
    ):
        norm("rms_norm", x, torch.ones(HEADS, DIM), torch.ones(DIM))


# ---- q and k inside a packed qkv


def packed(dtype=torch.float32):
    """Qkv as one projection leaves it, and its q, k and v: heads are rows of two strides."""
    qkv = torch.randn(TOKENS, 3 * HEADS, DIM, dtype=dtype)
    return qkv, qkv.split(HEADS, dim=1)


def copies_made(function):
    with torch.profiler.profile(profile_memory=True) as profile:
        function()
    names = ("aten::contiguous", "aten::copy_", "aten::clone")
    return [e.name for e in profile.events() if e.name in names]


@pytest.mark.parametrize("name", NORMS)
def test_views_are_not_copied(name):
    """Seen by the profiler; a layout with three strides shows that it sees copies."""
    _, (q, k, _) = packed()
    dy = torch.randn(TOKENS, 3 * HEADS, DIM)[:, HEADS : 2 * HEADS]
    w = torch.randn(HEADS, DIM)
    ops = torch.ops.fusednorm

    def forward_and_backward():
        norm(name, k, w)
        add_norm(name, q, k, w)
        _y, rstd = ops.rms_norm_forward(q, (DIM,), w)
        ops.rms_norm_backward(dy, q, (DIM,), rstd, w, None, 0.0, [True, True, False])
        fusednorm.add_rms_norm_(q, k, (DIM,), w)

    assert copies_made(forward_and_backward) == []
    three = torch.randn(2, 7, 3 * HEADS, DIM)[:, :TOKENS, :HEADS]
    assert copies_made(lambda: norm(name, three)) != []


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("name", NORMS)
def test_views_of_packed_heads(name, dtype, device):
    """The bits of packed rows, forward and backward."""
    qkv, _ = packed(dtype)
    w = torch.randn(HEADS, DIM).to(device)
    dy = torch.randn(TOKENS, 2 * HEADS, DIM, dtype=dtype)
    for first in (0, HEADS, 1):
        heads = qkv[:, first : first + HEADS]
        view, x = (
            put(heads, device).requires_grad_(),
            heads.contiguous().to(device).requires_grad_(),
        )
        assert not view.is_contiguous()
        y, expected = norm(name, view, w), norm(name, x, w)
        assert y.is_contiguous()
        assert torch.equal(y.detach().cpu(), expected.detach().cpu())
        (dx,) = torch.autograd.grad(y, view, put(dy[:, HEADS:], device))
        (same,) = torch.autograd.grad(expected, x, dy[:, HEADS:].contiguous().to(device))
        assert torch.equal(dx.cpu(), same.cpu())


@pytest.mark.parametrize("name", NORMS)
def test_in_place_on_the_views(name):
    """What servers call: q and k become their norms where they lie, v stays."""
    qkv, (q, k, _) = packed()
    before = qkv.clone()
    residual = torch.randn(TOKENS, 2 * HEADS, DIM)
    sums = residual.clone()
    w = torch.randn(2 * HEADS, DIM)
    qk = qkv[:, : 2 * HEADS]
    y, s = add_norm(name, qk, residual, w)
    in_place = getattr(fusednorm, f"add_{name}_")
    in_place(qk, sums, (DIM,), w, eps=1e-5)
    assert torch.equal(qk, y)
    assert torch.equal(sums, s)
    assert torch.equal(qkv[:, 2 * HEADS :], before[:, 2 * HEADS :])
    # q normalised with k as the residual, both views of one tensor
    in_place(q, k, (DIM,), eps=1e-5)


@pytest.mark.parametrize(
    "view",
    [
        lambda: torch.randn(2, TOKENS, 3 * HEADS, DIM)[:, :, :HEADS],
        lambda: torch.randn(2, TOKENS, 3, HEADS, DIM)[:, :, 1],
        lambda: torch.randn(TOKENS, HEADS, DIM).transpose(0, 1),
        lambda: torch.randn(2, TOKENS, HEADS, DIM).transpose(1, 2),
        lambda: torch.randn(1, TOKENS, HEADS, DIM).transpose(1, 2),
        lambda: torch.randn(2, 7, 3 * HEADS, DIM)[:, :TOKENS, :HEADS],
        lambda: torch.randn(TOKENS, HEADS, 2 * DIM)[..., :DIM],
        lambda: torch.randn(TOKENS, 1, DIM).expand(TOKENS, HEADS, DIM),
        lambda: torch.randn(1, HEADS, DIM).expand(TOKENS, HEADS, DIM),
        lambda: torch.randn(400).as_strided((TOKENS, HEADS, DIM), (64, 16, 1)),
    ],
)
@pytest.mark.parametrize("name", NORMS)
def test_any_view(name, view):
    """Two strides, three, interleaved and overlapping rows; input, gradient and residual."""
    x = view()
    same = x.contiguous()
    w = torch.randn(x.shape[-2:], requires_grad=True)
    assert torch.equal(norm(name, x, w), norm(name, same, w))
    for left, right in ((x, torch.randn(x.shape)), (torch.randn(x.shape), x), (x, x)):
        for a, b in zip(
            add_norm(name, left, right, w),
            add_norm(name, left.contiguous(), right.contiguous(), w),
        ):
            assert torch.equal(a, b)
    leaf = same.clone().requires_grad_()
    assert all(
        torch.equal(a, b)
        for a, b in zip(
            torch.autograd.grad(norm(name, leaf, w), (leaf, w), x),
            torch.autograd.grad(norm(name, leaf, w), (leaf, w), same),
        )
    )


def test_modules_take_views_and_residuals():
    _, (q, k, _) = packed()
    for module in (fusednorm.RMSNorm(DIM), fusednorm.LayerNorm(DIM)):
        y, s = module(q, k)
        assert torch.equal(s, q + k)
        assert torch.equal(y, module(s))

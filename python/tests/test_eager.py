# SPDX-License-Identifier: Apache-2.0
"""Eager mode: values, gradients, layouts and dtypes against the formula in f64."""

import pytest
import torch

import fusednorm
import reference
from cuda_device import needs_kernel_of_pytorch, put

OPS = torch.ops.fusednorm

# shape, normalized dimensions, why it is here
SHAPES = [
    ((2, 4), 1, "tiny"),
    ((5, 769), 1, "columns that no vector length divides"),
    ((1, 3), 1, "one row"),
    ((7, 1), 1, "one column: y is the bias"),
    ((64, 1024), 1, "a transformer's hidden size"),
    ((3, 65536), 1, "a few long rows"),
    ((20000, 8), 1, "many short rows"),
    ((2, 3, 5, 7), 1, "leading dimensions"),
    ((2, 3, 5, 7), 2, "two normalized dimensions"),
    ((2, 3, 5, 7), 3, "three"),
    ((2, 3, 5, 7), 4, "all four: one row"),
    ((0, 8), 1, "no rows"),
    ((3, 0, 8), 1, "no rows, in the middle"),
]
DTYPES = [torch.float64, torch.float32, torch.float16, torch.bfloat16]


def parameters(which, shape, dtype, device):
    def make():
        return torch.randn(shape, dtype=dtype).to(device).requires_grad_()

    return {"weight": make() if "w" in which else None, "bias": make() if "b" in which else None}


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize(("shape", "inner", "why"), SHAPES, ids=[s[2] for s in SHAPES])
def test_values_and_gradients(shape, inner, why, dtype, device):
    x = torch.randn(shape, dtype=dtype).add(0.5).to(device).requires_grad_()
    p = parameters("wb", shape[-inner:], dtype, device)
    y = fusednorm.layer_norm(x, shape[-inner:], **p)
    assert y.dtype == dtype
    assert y.is_contiguous()
    reference.forward(x, inner, p["weight"], p["bias"], 1e-5).check(y, "y")
    dy = torch.randn(shape, dtype=dtype).to(device)
    y.backward(dy)
    expected = reference.backward(dy, x, inner, p["weight"], 1e-5)
    for gradient, name, tensor in zip(expected, "xwb", (x, p["weight"], p["bias"])):
        assert tensor.grad.dtype == tensor.dtype
        gradient.check(tensor.grad, "d" + name)


@pytest.mark.parametrize("which", ["", "w", "b", "wb"])
@pytest.mark.parametrize("parameter_dtype", [torch.float32, torch.bfloat16], ids=str)
def test_each_parameter_is_optional_and_may_be_f32(which, parameter_dtype, device):
    x = torch.randn(9, 96, dtype=torch.bfloat16).to(device).requires_grad_()
    p = parameters(which, (96,), parameter_dtype, device)
    y = fusednorm.layer_norm(x, (96,), **p)
    assert y.dtype == torch.bfloat16
    reference.forward(x, 1, p["weight"], p["bias"], 1e-5).check(y, "y")
    dy = torch.randn(9, 96, dtype=torch.bfloat16).to(device)
    y.backward(dy)
    dx, dw, db = reference.backward(dy, x, 1, p["weight"], 1e-5)
    dx.check(x.grad, "dx")
    if p["weight"] is not None:
        assert p["weight"].grad.dtype == parameter_dtype
        dw.check(p["weight"].grad, "dweight")
    if p["bias"] is not None:
        db.check(p["bias"].grad, "dbias")


@pytest.mark.parametrize("wanted", range(1, 8))
def test_only_the_gradients_that_are_asked_for(wanted, device):
    x, w, b = (torch.randn(shape).to(device) for shape in ((6, 32), (32,), (32,)))
    leaves = [t.requires_grad_(bool(wanted >> i & 1)) for i, t in enumerate((x, w, b))]
    y = fusednorm.layer_norm(x, (32,), w, b)
    dy = torch.randn(6, 32).to(device)
    y.backward(dy)
    for gradient, leaf, name in zip(reference.backward(dy, x, 1, w, 1e-5), leaves, "xwb"):
        if leaf.requires_grad:
            gradient.check(leaf.grad, name)
        else:
            assert leaf.grad is None


# How a [4, 6, 32] view lies in memory. Those with one stride between rows are not copied.
LAYOUTS = {
    "row-strided: a slice of columns": lambda: torch.randn(4, 6, 80)[..., 16:48],
    "row-strided: every third row": lambda: torch.randn(4, 18, 32)[:, ::3],
    "row-strided: off by one element": lambda: torch.randn(4 * 6 * 32 + 1)[1:].view(4, 6, 32),
    "two row strides": lambda: torch.randn(4, 9, 32)[:, :6],
    "transposed": lambda: torch.randn(32, 6, 4).permute(2, 1, 0),
    "permuted rows": lambda: torch.randn(6, 4, 32).transpose(0, 1),
    "columns with a gap": lambda: torch.randn(4, 6, 64)[..., ::2],
    "expanded rows": lambda: torch.randn(1, 1, 32).expand(4, 6, 32),
    "expanded columns": lambda: torch.randn(4, 6, 1).expand(4, 6, 32),
    "overlapping windows": lambda: torch.randn(100).as_strided((4, 6, 32), (6, 1, 1)),
}


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("of", ["input", "gradient"])
def test_layouts(layout, of, device):
    if device == "cuda" and not layout.startswith("row-strided"):
        needs_kernel_of_pytorch("the copy of a tensor whose rows are not evenly spaced")
    view, other, w = LAYOUTS[layout](), torch.randn(4, 6, 32), torch.randn(32)
    x, dy = (view, other) if of == "input" else (other, view)
    x_there, dy_there, w_there = (put(t, device) for t in (x, dy, w))
    y, mean, rstd = OPS.layer_norm_forward(x_there, (32,), w_there, None, 1e-5)
    reference.forward(x, 1, w, None, 1e-5).check(y, "y")
    outputs = OPS.layer_norm_backward(
        dy_there, x_there, (32,), mean, rstd, w_there, w_there, [True] * 3
    )
    for expected, actual in zip(reference.backward(dy, x, 1, w, 1e-5), outputs):
        expected.check(actual, layout)
    assert mean.shape == rstd.shape == (4, 6, 1)


def test_row_strided_inputs_are_not_copied():
    """The claim behind "row-strided": no allocation but y, seen by the profiler."""
    x = torch.randn(64, 512)[:, :256]
    with torch.profiler.profile(profile_memory=True) as profile:
        fusednorm.layer_norm(x, (256,))
    copies = [e for e in profile.events() if e.name in ("aten::contiguous", "aten::copy_")]
    assert copies == []


def test_dtype_of_the_output_can_be_that_of_the_parameters(device):
    x = torch.randn(5, 64, dtype=torch.float16).to(device).requires_grad_()
    w, b = (torch.randn(64).to(device).requires_grad_() for _ in "wb")
    y, mean, rstd = OPS.layer_norm_forward(x, (64,), w, b, 1e-5, torch.float32)
    assert (y.dtype, mean.dtype, rstd.dtype) == (torch.float32,) * 3
    reference.forward(x, 1, w, b, 1e-5).check(y, "y")
    dy = torch.randn(5, 64).to(device)
    y.backward(dy)
    for expected, leaf in zip(reference.backward(dy, x, 1, w, 1e-5), (x, w, b)):
        expected.check(leaf.grad, "gradient")


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_memory_efficient_gradients(dtype, device):
    """From y, h is known to u |y / w|: the formula is applied to the h that y holds."""
    x = torch.randn(6, 96, dtype=dtype).to(device).requires_grad_()
    w = torch.rand(96, dtype=dtype).add(0.5).to(device).requires_grad_()
    b = torch.randn(96, dtype=dtype).to(device).requires_grad_()
    y, rstd = OPS.layer_norm_memory_efficient_forward(x, (96,), w, b, 1e-5)
    reference.forward(x, 1, w, b, 1e-5).check(y, "y")
    dy = torch.randn(6, 96, dtype=dtype).to(device)
    y.backward(dy)
    gradients = [leaf.grad.cpu() for leaf in (x, w, b)]
    y, rstd, dy, w, b = (t.detach().cpu() for t in (y, rstd, dy, w, b))
    stored = (y.double() - b.double()) / w.double()
    g, r = dy.double() * w.double(), rstd.double()
    h = stored
    dx = r * (g - g.mean(-1, True) - h * (g * h).mean(-1, True))
    scale = r * (g.abs() + h.abs() + 1) * (y.abs().double() + b.abs() + 1).amax(-1, True) * 2
    reference.Expected(dx, scale).check(gradients[0], "dx")
    dw = (dy.double() * h).sum(0)
    reference.Expected(dw, dw.abs() + 6 * 8).check(gradients[1], "dw")
    reference.Expected(dy.double().sum(0), dy.double().abs().sum(0)).check(gradients[2], "db")


def test_memory_efficient_keeps_y_and_frees_x():
    x = torch.randn(4, 8).requires_grad_()
    kept: list[torch.Tensor] = []
    with torch.autograd.graph.saved_tensors_hooks(lambda t: kept.append(t) or t, lambda t: t):
        y, _ = OPS.layer_norm_memory_efficient_forward(x, (8,), None, None, 1e-5)
    assert any(t.data_ptr() == y.data_ptr() for t in kept)
    assert all(t.data_ptr() != x.data_ptr() for t in kept)


def test_memory_efficient_refuses_a_zero_weight():
    x = torch.randn(4, 8).requires_grad_()
    w = torch.ones(8)
    w[3] = 0
    y, _ = OPS.layer_norm_memory_efficient_forward(x, (8,), w, None, 1e-5)
    with pytest.raises(RuntimeError, match=r"weight\[3\] = 0, .*memory_efficient=False"):
        y.sum().backward()


def test_zero_weight_is_right_otherwise(device):
    x = torch.randn(4, 8).to(device).requires_grad_()
    w = torch.zeros(8).to(device).requires_grad_()
    y = fusednorm.layer_norm(x, (8,), w)
    dy = torch.randn(4, 8).to(device)
    y.backward(dy)
    assert torch.equal(y.cpu(), torch.zeros(4, 8))
    reference.backward(dy, x, 1, w, 1e-5)[1].check(w.grad, "dweight")


def test_no_columns_matches_native(device):
    x = torch.randn(3, 0).to(device).requires_grad_()
    w = torch.randn(0).to(device).requires_grad_()
    y = fusednorm.layer_norm(x, (0,), w)
    y.backward(torch.randn(3, 0).to(device))
    assert y.shape == x.grad.shape == (3, 0)
    assert w.grad.shape == (0,)


def test_no_rows_gives_zero_parameter_gradients(device):
    w, b = (torch.randn(8).to(device).requires_grad_() for _ in "wb")
    x = torch.randn(0, 8).to(device)
    fusednorm.layer_norm(x, (8,), w, b).backward(x)
    assert torch.equal(w.grad.cpu(), torch.zeros(8))
    assert torch.equal(b.grad.cpu(), torch.zeros(8))


def test_large_mean_and_nan_rows_stay_apart(device):
    x = torch.randn(6, 769) + 1e4
    x[2, 5] = float("nan")
    y = fusednorm.layer_norm(x.to(device), (769,)).cpu()
    assert y[2].isnan().all()
    rest = [0, 1, 3, 4, 5]
    reference.forward(x[rest], 1, None, None, 1e-5).check(y[rest], "y")


def test_batch_invariance(device):
    """A row's y and dx do not depend on the rows around it."""
    x, w, dy = (torch.randn(shape).to(device) for shape in ((300, 1000), (1000,), (300, 1000)))

    def run(rows):
        y, mean, rstd = OPS.layer_norm_forward(x[rows], (1000,), w, None, 1e-5)
        dx, _, _ = OPS.layer_norm_backward(
            dy[rows], x[rows], (1000,), mean, rstd, w, None, [True, False, False]
        )
        return [t.cpu() for t in (y, mean, rstd, dx)]

    every = run(slice(None))
    for rows in (slice(7, 8), slice(100, 117)):
        for alone, together in zip(run(rows), every):
            assert torch.equal(alone, together[rows])

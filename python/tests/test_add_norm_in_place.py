# SPDX-License-Identifier: Apache-2.0
"""The norm of input + residual, both written in place."""

import pytest
import torch

import fusednorm
from test_add_norm import BF16, DTYPES, NORMS, add_norm


@pytest.mark.parametrize(("x_dtype", "r_dtype", "w_dtype"), DTYPES, ids=str)
@pytest.mark.parametrize("name", NORMS)
def test_in_place_gives_the_same_bits(name, x_dtype, r_dtype, w_dtype, device):
    x, r = (torch.randn(5, 70, dtype=t).to(device) for t in (x_dtype, r_dtype))
    w, b = (torch.randn(70, dtype=w_dtype).to(device) for _ in "wb")
    y, s = add_norm(name, x, r, w, b, offset=1.0)
    versions = x._version, r._version
    if name == "rms_norm":
        result = fusednorm.add_rms_norm_(x, r, (70,), w, 1e-5, bias=b, offset=1.0)
    else:
        result = fusednorm.add_layer_norm_(x, r, (70,), w, b, 1e-5, offset=1.0)
    assert result is None
    assert torch.equal(x.cpu(), y.cpu())
    assert torch.equal(r.cpu(), s.cpu())
    assert (x._version, r._version) == (versions[0] + 1, versions[1] + 1)


def test_in_place_is_refused_where_a_gradient_is_needed():
    x, r, w = torch.randn(3, 8), torch.randn(3, 8), torch.ones(8, requires_grad=True)
    for call in (fusednorm.add_rms_norm_, fusednorm.add_layer_norm_):
        with pytest.raises(RuntimeError, match=rf"{call.__name__}: works in place .*no_grad"):
            call(x, r, (8,), w)
        with torch.no_grad():
            call(x, r, (8,), w)
        with torch.inference_mode():
            call(x, r, (8,), w)
    hidden = w * x
    with torch.no_grad():
        fusednorm.add_rms_norm_(x, r, (8,))
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        hidden.sum().backward()


def test_in_place_keeps_the_dtype_of_input():
    x, r = (torch.randn(3, 8, dtype=BF16) for _ in "xr")
    with pytest.raises(RuntimeError, match=r"via_x.*Float.*BFloat16.*use add_rms_norm"):
        fusednorm.add_rms_norm_(x, r, (8,), torch.ones(8), rounding="via_x")


def test_in_place_of_any_layout():
    """Rows of one or two strides are written where they lie; a transposed tensor through a copy."""
    layouts = {
        "columns of a wider tensor": lambda: torch.randn(4, 6, 80)[..., 16:48],
        "heads of a packed tensor": lambda: torch.randn(4, 18, 32)[:, 6:12],
        "transposed": lambda: torch.randn(32, 6, 4).permute(2, 1, 0),
    }
    for make in layouts.values():
        x, r = make(), make()
        y, s = fusednorm.add_rms_norm(x, r, (32,))
        whole = [t._base.clone() for t in (x, r)]
        fusednorm.add_rms_norm_(x, r, (32,))
        assert torch.equal(x, y)
        assert torch.equal(r, s)
        for tensor, before in zip((x, r), whole):
            tensor.zero_()
            changed = before.ne(tensor._base)
            assert changed.sum() <= tensor.numel(), "nothing else is written to"


def test_vmap_in_place():
    x, r = torch.randn(4, 3, 8), torch.randn(3, 4, 8)
    y, s = fusednorm.add_rms_norm(x, r.movedim(1, 0), (8,))
    torch.vmap(lambda x, r: fusednorm.add_rms_norm_(x, r, (8,)), (0, 1), None)(x, r)
    assert torch.equal(x, y)
    assert torch.equal(r.movedim(1, 0), s)
    with pytest.raises(RuntimeError, match="input and residual must both be batched"):
        torch.vmap(lambda x: fusednorm.add_rms_norm_(x, s[0], (8,)), 0, None)(x)

"""torch.library.opcheck on every operator: schema, autograd, fake tensors, AOT dispatch."""

import pytest
import torch

OPS = torch.ops.fusednorm


def samples():
    for dtype in (torch.float32, torch.bfloat16):
        for which in ("", "w", "wb"):
            x = torch.randn(3, 4, 8, dtype=dtype)
            w = torch.rand(8).add(0.5) if "w" in which else None
            b = torch.randn(8) if "b" in which else None
            yield x, w, b


def forward_calls():
    for x, w, b in samples():
        leaves = [None if t is None else t.requires_grad_() for t in (x, w, b)]
        yield OPS.layer_norm.default, (leaves[0], [8], leaves[1], leaves[2], 1e-5)
        yield OPS.layer_norm_forward.default, (leaves[0], [8], leaves[1], leaves[2], 1e-5)
        yield (
            OPS.layer_norm_memory_efficient_forward.default,
            (leaves[0], [8], leaves[1], leaves[2], 1e-5),
        )
    yield (
        OPS.layer_norm_forward.default,
        (torch.randn(2, 8).half(), [8], None, None, 0.1, torch.float),
    )


def backward_calls():
    for x, w, b in samples():
        y, mean, rstd = OPS.layer_norm_forward(x, [8], w, b)
        dy = torch.randn_like(y)
        for mask in ([True, w is not None, b is not None], [True, False, False]):
            yield OPS.layer_norm_backward.default, (dy, x, [8], mean, rstd, w, b, mask)
            yield (
                OPS.layer_norm_memory_efficient_backward.default,
                (dy, y, [8], rstd, w, b, mask, x.dtype),
            )


def test_every_operator_is_here():
    checked = {str(op) for op, _ in [*forward_calls(), *backward_calls()]}
    registered = {
        f"{name.replace('::', '.')}.default"
        for name in torch._C._dispatch_get_all_op_names()
        if name.startswith("fusednorm::")
    }
    assert checked == registered


@pytest.mark.parametrize("calls", [forward_calls, backward_calls])
def test_opcheck(calls):
    for operator, arguments in calls():
        outcome = torch.library.opcheck(operator, arguments)
        assert set(outcome.values()) == {"SUCCESS"}, (operator, outcome)


@pytest.mark.parametrize("calls", [forward_calls, backward_calls])
def test_meta_tensors_give_the_shapes_and_dtypes_of_real_ones(calls):
    def to_meta(value):
        return value.to("meta") if isinstance(value, torch.Tensor) else value

    for operator, arguments in calls():
        real = operator(*arguments)
        meta = operator(*map(to_meta, arguments))
        if isinstance(real, torch.Tensor):
            real, meta = (real,), (meta,)
        for r, m in zip(real, meta):
            assert (r is None) == (m is None)
            if r is not None:
                assert m.device.type == "meta"
                assert (r.shape, r.dtype, r.stride()) == (m.shape, m.dtype, m.stride())

# SPDX-License-Identifier: Apache-2.0
"""torch.library.opcheck on every operator: schema, autograd, fake tensors, AOT dispatch."""

import pytest
import torch

OPS = torch.ops.fusednorm


def samples(shape=(8,)):
    for dtype in (torch.float32, torch.bfloat16):
        for which in ("", "w", "wb"):
            x = torch.randn(3, 4, 8, dtype=dtype)
            w = torch.rand(shape).add(0.5) if "w" in which else None
            b = torch.randn(shape) if "b" in which else None
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


def family_calls():
    """Forward operators with offset, rounding, residual and parameters of every head."""
    for shape in ((8,), (4, 8)):
        for x, w, b in samples(shape):
            x, w, b = (None if t is None else t.requires_grad_() for t in (x, w, b))
            r = torch.randn(3, 4, 8, requires_grad=True)  # f32 beside bf16
            how = {"offset": 1.0, "rounding": "via_x"}
            for name in ("rms_norm", "rms_norm_forward", "rms_norm_memory_efficient_forward"):
                yield getattr(OPS, name).default, (x, [8], w, None, b), how
            for name in ("layer_norm_rounded", "layer_norm_rounded_forward"):
                yield getattr(OPS, name).default, (x, [8], w, b), how
            for name in ("add_rms_norm", "add_rms_norm_forward"):
                yield getattr(OPS, name).default, (x, r, [8], w, None, b), how
            for name in ("add_layer_norm", "add_layer_norm_forward"):
                yield getattr(OPS, name).default, (x, r, [8], w, b), how
            x, w, b = (None if t is None else t.detach() for t in (x, w, b))
            r = r.detach().to(x.dtype)
            yield OPS.add_rms_norm_.default, (x.clone(), r.clone(), [8], w, None, b)
            yield OPS.add_layer_norm_.default, (x.clone(), r.clone(), [8], w, b)


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


def family_backward_calls():
    for shape in ((8,), (4, 8)):
        for x, w, b in samples(shape):
            given = [True, w is not None, b is not None]
            y, mean, rstd = OPS.layer_norm_rounded_forward(x, [8], w, b)
            dy = torch.randn_like(y)
            yield (
                OPS.layer_norm_rounded_backward.default,
                (dy, x, [8], mean, rstd, w, b, 1.0, given),
            )
            y, rstd = OPS.rms_norm_forward(x, [8], w, None, b)
            yield OPS.rms_norm_backward.default, (dy, x, [8], rstd, w, b, 1.0, given)
            yield (
                OPS.rms_norm_memory_efficient_backward.default,
                (dy, y, [8], rstd, w, b, 1.0, given, x.dtype),
            )
            sum, ds = torch.randn(3, 4, 8), torch.randn(3, 4, 8)
            for gradients in ((dy, ds), (None, ds), (dy, None)):
                mask = [True, sum.dtype != x.dtype, *given[1:]]
                yield (
                    OPS.add_rms_norm_backward.default,
                    (*gradients, sum, [8], rstd, w, b, 1.0, mask, x.dtype),
                )
                yield (
                    OPS.add_layer_norm_backward.default,
                    (*gradients, sum, [8], mean, rstd, w, b, 1.0, mask, x.dtype),
                )


CALLS = [forward_calls, family_calls, backward_calls, family_backward_calls]


def test_every_operator_is_here():
    checked = {str(op) for calls in CALLS for op, *_ in calls()}
    registered = {
        f"{name.replace('::', '.')}.default"
        for name in torch._C._dispatch_get_all_op_names()
        if name.startswith("fusednorm::")
    }
    assert checked == registered


@pytest.mark.parametrize("calls", CALLS)
def test_opcheck(calls):
    for operator, arguments, *named in calls():
        outcome = torch.library.opcheck(operator, arguments, *named)
        assert set(outcome.values()) == {"SUCCESS"}, (operator, outcome)


@pytest.mark.parametrize("calls", CALLS)
def test_meta_tensors_give_the_shapes_and_dtypes_of_real_ones(calls):
    def to_meta(value):
        return value.to("meta") if isinstance(value, torch.Tensor) else value

    for operator, arguments, *named in calls():
        kwargs = named[0] if named else {}
        real = operator(*arguments, **kwargs)
        meta = operator(*map(to_meta, arguments), **kwargs)
        if real is None:
            assert meta is None
            continue
        if isinstance(real, torch.Tensor):
            real, meta = (real,), (meta,)
        for r, m in zip(real, meta):
            assert (r is None) == (m is None)
            if r is not None:
                assert m.device.type == "meta"
                assert (r.shape, r.dtype, r.stride()) == (m.shape, m.dtype, m.stride())

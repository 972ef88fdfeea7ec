# SPDX-License-Identifier: Apache-2.0
"""PyTorch's own samples for layer_norm, from torch.testing._internal, against ours."""

import numpy as np
import pytest
import torch
from torch.testing._internal.common_methods_invocations import op_db
from torch.testing._internal.opinfo.core import SampleInput

import fusednorm
import reference

OPINFO = next(op for op in op_db if op.name == "nn.functional.layer_norm")
NATIVE = next(op for op in op_db if op.name == "native_layer_norm")
DTYPES = sorted(OPINFO.dtypes, key=str)


def samples(dtype, requires_grad=False):
    for opinfo in (OPINFO, NATIVE):
        for source in (opinfo.sample_inputs, opinfo.reference_inputs):
            for sample in source("cpu", dtype, requires_grad=requires_grad):
                yield opinfo, sample


def tolerance(dtype):
    """Native computes mean and rstd in the input's dtype on the CPU, so it is the coarser one."""
    return {"rtol": 4 * torch.finfo(dtype).eps, "atol": 8 * torch.finfo(dtype).eps}


def test_all_dtypes_of_native_are_served():
    assert set(DTYPES) >= {torch.float32, torch.float64, torch.bfloat16, torch.float16}
    assert len(list(samples(torch.float32))) >= 20, "the samples that PyTorch ships have gone"


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_forward(dtype):
    for opinfo, sample in samples(dtype):
        expected = opinfo.op(sample.input, *sample.args, **sample.kwargs)
        if opinfo is NATIVE:
            y, mean, rstd = torch.ops.fusednorm.layer_norm_forward(
                sample.input, *sample.args, **sample.kwargs
            )
            torch.testing.assert_close(
                [mean.to(dtype), rstd.to(dtype)],
                list(expected[1:]),
                **tolerance(dtype),
                equal_nan=True,
            )
            expected = expected[0]
        else:
            y = fusednorm.layer_norm(sample.input, *sample.args, **sample.kwargs)
        torch.testing.assert_close(y, expected, **tolerance(dtype), equal_nan=True)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_numpy_reference(dtype):
    for opinfo, sample in samples(dtype):
        if opinfo is OPINFO and sample.input.numel():
            numpy = sample.numpy()
            with np.errstate(all="ignore"):
                expected = torch.from_numpy(
                    np.asarray(OPINFO.ref(numpy.input, *numpy.args, **numpy.kwargs))
                )
            y = fusednorm.layer_norm(sample.input, *sample.args, **sample.kwargs)
            torch.testing.assert_close(y, expected.to(dtype), rtol=1e-3, atol=1e-5, equal_nan=True)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_gradients(dtype):
    for opinfo, sample in samples(dtype, requires_grad=True):
        if opinfo is NATIVE:
            continue  # the same arguments, and its mean and rstd have no gradient to compare with

        def leaves(sample: SampleInput):
            tensors = [sample.input, *sample.args]
            return [t for t in tensors if isinstance(t, torch.Tensor) and t.requires_grad]

        y = fusednorm.layer_norm(sample.input, *sample.args, **sample.kwargs)
        expected = OPINFO.op(sample.input, *sample.args, **sample.kwargs)
        dy = torch.randn_like(y)
        # Differences of terms of size |dy| |w| rstd are left with that size's rounding.
        inner = len(sample.args[0])
        _, rstd = reference.normalized(sample.input, inner, sample.kwargs.get("eps", 1e-5))
        terms = dy.double() * rstd.nan_to_num(1.0)
        if len(sample.args) > 1:
            terms = terms * sample.args[1].double()
        limits = tolerance(dtype)
        limits["atol"] *= max(1.0, terms.abs().max().item() if terms.numel() else 1.0) * 4
        limits["rtol"] *= 4
        torch.testing.assert_close(
            torch.autograd.grad(y, leaves(sample), dy),
            torch.autograd.grad(expected, leaves(sample), dy),
            **limits,
            equal_nan=True,
        )


def test_gradcheck_on_the_samples():
    for opinfo, sample in samples(torch.float64, requires_grad=True):
        # eps < 0 makes some rows NaN, where finite differences mean nothing
        if opinfo is OPINFO and sample.kwargs.get("eps", 1) > 0 and sample.input.numel():
            assert torch.autograd.gradcheck(
                lambda x, *args, kwargs=sample.kwargs: fusednorm.layer_norm(x, *args, **kwargs),
                (sample.input, *sample.args),
                check_forward_ad=True,
            )


def test_error_inputs():
    errors = list(NATIVE.error_inputs("cpu"))
    assert len(errors) >= 4, "the error inputs that PyTorch ships have gone"
    for error in errors:
        sample = error.sample_input
        with pytest.raises(error.error_type, match=error.error_regex):
            fusednorm.layer_norm(sample.input, *sample.args, **sample.kwargs)

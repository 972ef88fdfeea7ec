# SPDX-License-Identifier: Apache-2.0
"""Bad input: the exception that native raises, with a text that names argument, value and wish."""

import subprocess
import sys

import pytest
import torch

import fusednorm

x, w = torch.randn(2, 4), torch.ones(4)

# call, native's exception, what the text must name
CASES = {
    "shape does not match": (lambda f: f(x, (3,)), ["normalized_shape=[3]", "[2, 4]"]),
    "shape too long": (lambda f: f(x, (1, 2, 4)), ["normalized_shape=[1, 2, 4]", "[2, 4]"]),
    "empty shape": (lambda f: f(x, ()), ["normalized_shape", "at least 1"]),
    "zero-dimensional input": (
        lambda f: f(torch.tensor(1.0), (1,)),
        ["normalized_shape=[1]", "[]"],
    ),
    "weight of another shape": (lambda f: f(x, (4,), torch.ones(5)), ["weight", "[5]", "[4]"]),
    "bias of another shape": (lambda f: f(x, (4,), w, torch.ones(2, 2)), ["bias", "[2, 2]", "[4]"]),
    "weight of another dtype": (lambda f: f(x, (4,), w.double()), ["weight", "Double", "Float"]),
    "bias of another dtype": (
        lambda f: f(x, (4,), None, w.bfloat16()),
        ["bias", "BFloat16", "Float"],
    ),
    "weight and bias disagree": (
        lambda f: f(x.bfloat16(), (4,), w, w.bfloat16()),
        ["weight", "bias", "Float", "BFloat16"],
    ),
    "weight on another device": (lambda f: f(x, (4,), w.to("meta")), ["weight", "meta", "cpu"]),
    "bias on another device": (
        lambda f: f(x.to("meta"), (4,), None, w),
        ["bias", "meta", "cpu"],
    ),
    "integers": (lambda f: f(x.long(), (4,)), ["input", "Long", "Float"]),
    "booleans": (lambda f: f(x.bool(), (4,)), ["input", "Bool", "Float"]),
    "complex numbers": (lambda f: f(x.to(torch.complex64), (4,)), ["input", "ComplexFloat"]),
    "meta integers": (lambda f: f(x.long().to("meta"), (4,)), ["input", "Long"]),
    "sparse input": (lambda f: f(x.to_sparse(), (4,)), ["input", "Sparse", "dense"]),
    "compressed sparse input": (
        lambda f: f(x.to_sparse_csr(), (4,)),
        ["input", "SparseCsr", "dense"],
    ),
    "sparse weight": (lambda f: f(x, (4,), w.to_sparse()), ["weight", "Sparse", "dense"]),
    "quantised input": (
        lambda f: f(torch.quantize_per_tensor(x, 0.1, 0, torch.quint8), (4,)),
        ["input", "QUInt8", "dense"],
    ),
    "mkldnn input": (lambda f: f(x.to_mkldnn(), (4,)), ["input", "Mkldnn", "dense"]),
    "an integer for a shape": (lambda f: f(x, 4), ["normalized_shape"]),
    "a float in a shape": (lambda f: f(x, [4.0]), ["normalized_shape"]),
    "a tensor for a shape": (lambda f: f(x, torch.tensor([4])), ["normalized_shape", "Tensor"]),
    "a NumPy array for input": (lambda f: f(x.numpy(), (4,)), ["input", "ndarray"]),
    "a string for eps": (lambda f: f(x, (4,), eps="a"), ["eps"]),
    "a list for input": (lambda f: f([1.0, 2.0], (2,)), ["input"]),
}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", CASES)
def test_errors_are_those_of_native(name):
    call, words = CASES[name]
    with pytest.raises(Exception) as native:  # noqa: PT011  (its type is what we compare with)
        call(torch.nn.functional.layer_norm)
    with pytest.raises(native.type) as ours:
        call(fusednorm.layer_norm)
    for word in words:
        assert word in str(ours.value), str(ours.value)


@pytest.mark.parametrize("kind", ["LayerNorm", "RMSNorm"])
@pytest.mark.parametrize("bad", [x.numpy(), [1.0] * 4, None], ids=["array", "list", "None"])
def test_modules_raise_what_native_raises_and_print_no_data(kind, bad):
    for norm in (getattr(torch.nn, kind)(4), getattr(fusednorm, kind)(4)):
        with pytest.raises(TypeError) as error:
            norm(bad)
        assert type(bad).__name__ in str(error.value)
        assert "array([" not in str(error.value)
    with pytest.raises(TypeError, match="must be a Tensor, not ndarray"):
        fusednorm.RMSNorm(4, offset=1.0)(x.numpy())


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("layout", [torch.jagged, torch.strided], ids=str)
def test_nested_tensors_get_a_sentence_or_native(layout):
    nested = torch.nested.nested_tensor([torch.randn(2, 4), torch.randn(3, 4)], layout=layout)
    with pytest.raises(NotImplementedError, match=r"layer_norm\(\): input is a nested tensor"):
        fusednorm.layer_norm(nested, (4,))
    with pytest.raises(NotImplementedError, match=r"rms_norm\(\): input is a nested tensor"):
        fusednorm.rms_norm(nested, (4,))
    found, native = fusednorm.LayerNorm(4)(nested), torch.nn.LayerNorm(4)(nested)
    for left, right in zip(found.unbind(), native.unbind()):
        assert torch.equal(left, right)


def test_errors_of_the_backward_operators():
    ops = torch.ops.fusednorm
    y, mean, rstd = ops.layer_norm_forward(x, (4,), w, w)
    good = [y, x, (4,), mean, rstd, w, w, [True] * 3]
    bad = {
        0: (torch.randn(3, 4), "grad_out"),
        3: (mean.double(), "mean"),
        4: (rstd[:1], "rstd"),
        5: (torch.ones(3), "weight"),
    }
    for position, (value, word) in bad.items():
        arguments = list(good)
        arguments[position] = value
        with pytest.raises(RuntimeError, match=word):
            ops.layer_norm_backward(*arguments)
    with pytest.raises(RuntimeError, match="dtype must be that of input, Float"):
        ops.layer_norm_forward(x, (4,), w, w, 1e-5, torch.float64)


def test_a_torch_that_does_not_fit_is_named_at_import():
    """In a process of its own, with a torch that says it is another release."""
    program = "import torch; torch.__version__ = '2.99.0+cpu'; import fusednorm"
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert result.returncode != 0
    for words in (
        f"ImportError: fusednorm {fusednorm.__version__} was built for torch 2.",
        "torch 2.99.0+cpu is installed",
        "pip install --force-reinstall --no-deps .",
    ):
        assert words in result.stderr

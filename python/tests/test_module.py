# SPDX-License-Identifier: Apache-2.0
"""LayerNorm as a module, convert() and revert(), and the apex names."""

import copy
import inspect
import pickle
import sys
import types

import pytest
import torch
from torch.nn.utils import parametrize

import fusednorm
import fusednorm.apex
from module_checks import copies

CONSTRUCTIONS = [
    ((8,), {}),
    (((4, 8),), {}),
    ((8,), {"eps": 1e-3}),
    ((8,), {"bias": False}),
    ((8,), {"elementwise_affine": False}),
    ((8,), {"dtype": torch.bfloat16, "device": "cpu"}),
    (([2, 4, 8], 1e-6, True, False), {}),
]


@pytest.mark.parametrize(("args", "kwargs"), CONSTRUCTIONS, ids=str)
def test_is_made_and_looks_like_native(args, kwargs):
    ours, native = fusednorm.LayerNorm(*args, **kwargs), torch.nn.LayerNorm(*args, **kwargs)
    assert repr(ours) == repr(native)
    for name in ("normalized_shape", "eps", "elementwise_affine"):
        assert getattr(ours, name) == getattr(native, name)
    assert isinstance(ours, torch.nn.LayerNorm)
    assert list(ours.state_dict()) == list(native.state_dict())
    native.load_state_dict(ours.state_dict())
    ours.load_state_dict(native.state_dict())
    x = torch.randn(3, *ours.normalized_shape, dtype=kwargs.get("dtype", torch.float32))
    torch.testing.assert_close(ours(x), native(x))


def test_signature_extends_that_of_native():
    native = list(inspect.signature(torch.nn.LayerNorm.__init__).parameters)
    assert list(inspect.signature(fusednorm.LayerNorm.__init__).parameters) == [
        *native,
        "memory_efficient",
    ]
    functional = inspect.signature(torch.nn.functional.layer_norm).parameters
    ours = inspect.signature(fusednorm.layer_norm).parameters
    assert [(p.name, p.default) for p in ours.values() if p.kind != p.KEYWORD_ONLY] == [
        (p.name, p.default) for p in functional.values()
    ]


@pytest.mark.parametrize("memory_efficient", [False, True])
def test_deepcopy_pickle_and_save(memory_efficient):
    norm = fusednorm.LayerNorm(8, eps=1e-4, memory_efficient=memory_efficient)
    torch.nn.init.normal_(norm.weight)
    x = torch.randn(2, 8)
    for other in copies(norm):
        assert type(other) is fusednorm.LayerNorm
        assert other.memory_efficient is memory_efficient
        assert torch.equal(other(x), norm(x))
        assert repr(other) == repr(norm)


def test_parametrize():
    class Double(torch.nn.Module):
        def forward(self, weight):
            return 2 * weight

    norm = fusednorm.LayerNorm(8, bias=False)
    x = torch.randn(2, 8)
    plain = norm(x)
    parametrize.register_parametrization(norm, "weight", Double())
    torch.testing.assert_close(norm(x), 2 * plain)
    norm(x).square().sum().backward()
    assert norm.parametrizations.weight.original.grad is not None


def test_convert_keeps_everything_and_revert_undoes_it():
    model = torch.nn.Sequential(
        torch.nn.Linear(4, 8), torch.nn.LayerNorm(8), torch.nn.ModuleList([torch.nn.LayerNorm(8)])
    )
    model.forward = lambda x: model[2][0](model[1](model[0](x)))
    model.eval()
    model[1].train()
    calls = []
    model[1].register_forward_hook(lambda *_: calls.append("forward"))
    model[1].register_full_backward_hook(lambda *_: calls.append("backward"))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    x = torch.randn(3, 4)
    before, identities = model(x), [id(m) for m in model.modules()]
    parameters, state = [id(p) for p in model.parameters()], list(model.state_dict())

    assert fusednorm.convert(model) is model
    assert type(model[1]) is type(model[2][0]) is fusednorm.LayerNorm
    assert [id(m) for m in model.modules()] == identities
    assert [id(p) for p in model.parameters()] == parameters
    assert list(model.state_dict()) == state
    assert (model[1].training, model[2][0].training) == (True, False)
    calls.clear()
    torch.testing.assert_close(model(x), before)
    model(x).sum().backward()
    assert calls == ["forward", "forward", "backward"]
    optimizer.step()

    fusednorm.convert(model)  # twice does no harm
    assert fusednorm.revert(model) is model
    assert type(model[1]) is type(model[2][0]) is torch.nn.LayerNorm
    assert [id(m) for m in model.modules()] == identities
    assert not any("fusednorm" in name for name in vars(model[1]))


def test_convert_of_the_root_and_of_a_shared_module():
    norm = torch.nn.LayerNorm(4)
    assert fusednorm.convert(norm) is norm
    assert type(norm) is fusednorm.LayerNorm
    shared = torch.nn.LayerNorm(4)
    model = fusednorm.convert(torch.nn.Sequential(shared, shared))
    assert model[0] is model[1] is shared
    assert type(shared) is fusednorm.LayerNorm


def test_convert_leaves_other_classes_alone():
    class Custom(torch.nn.LayerNorm):
        def forward(self, input):
            return input

    patched = torch.nn.LayerNorm(4)
    patched.forward = lambda x: x
    own = fusednorm.LayerNorm(4)
    model = fusednorm.convert(
        torch.nn.Sequential(Custom(4), patched, own, torch.nn.GroupNorm(1, 4))
    )
    assert type(model[0]) is Custom
    assert type(model[1]) is torch.nn.LayerNorm
    fusednorm.revert(model)
    assert type(own) is fusednorm.LayerNorm, "revert undoes convert and nothing else"


def test_converted_models_can_be_copied_pickled_and_reverted():
    model = fusednorm.convert(torch.nn.Sequential(torch.nn.LayerNorm(4)))
    for other in (copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
        assert type(other[0]) is fusednorm.LayerNorm
        assert type(fusednorm.revert(other)[0]) is torch.nn.LayerNorm


def test_convert_of_a_parametrized_module():
    norm = torch.nn.LayerNorm(4)
    parametrize.register_parametrization(norm, "weight", torch.nn.Softplus())
    x = torch.randn(2, 4)
    before = norm(x)
    fusednorm.convert(norm)
    assert isinstance(norm, fusednorm.LayerNorm)
    torch.testing.assert_close(norm(x), before)
    fusednorm.revert(norm)
    assert not isinstance(norm, fusednorm.LayerNorm)
    assert torch.equal(norm(x), before)
    parametrize.remove_parametrizations(norm, "weight")
    assert type(norm) is torch.nn.LayerNorm


def stand_in_for_apex():
    """Classes with apex's names, module and attributes; their forward must never run."""
    module = types.ModuleType("apex.normalization.fused_layer_norm")

    class FusedLayerNorm(torch.nn.Module):
        def __init__(self, shape, eps=1e-5):
            super().__init__()
            self.normalized_shape = torch.Size((shape,))
            self.eps = eps
            self.elementwise_affine = True
            self.memory_efficient = False
            self.weight = torch.nn.Parameter(torch.randn(shape))
            self.bias = torch.nn.Parameter(torch.randn(shape))

        def forward(self, input):
            raise AssertionError("apex was called")

    class MixedFusedLayerNorm(FusedLayerNorm):
        pass

    for kind in (FusedLayerNorm, MixedFusedLayerNorm):
        kind.__module__, kind.__qualname__ = module.__name__, kind.__name__
        setattr(module, kind.__name__, kind)
    return module


def test_convert_of_apex_modules(monkeypatch):
    apex = stand_in_for_apex()
    monkeypatch.setitem(sys.modules, apex.__name__, apex)
    model = torch.nn.Sequential(apex.FusedLayerNorm(8, 1e-3), apex.MixedFusedLayerNorm(8))
    fusednorm.convert(model)
    x = torch.randn(2, 8)
    expected = torch.nn.functional.layer_norm(x, (8,), model[0].weight, model[0].bias, 1e-3)
    torch.testing.assert_close(model[0](x), expected)
    assert model[1](x.half()).dtype == torch.float32
    fusednorm.revert(model)
    assert type(model[0]) is apex.FusedLayerNorm
    assert type(model[1]) is apex.MixedFusedLayerNorm


@pytest.mark.parametrize("memory_efficient", [False, True])
def test_apex_functions(memory_efficient):
    x = torch.randn(3, 8, dtype=torch.float16, requires_grad=True)
    w, b = torch.rand(8) + 0.5, torch.randn(8)
    native = torch.nn.functional.layer_norm
    plain = fusednorm.apex.fused_layer_norm(x, 8, memory_efficient=memory_efficient)
    torch.testing.assert_close(plain, native(x, (8,), eps=1e-6))
    affine = fusednorm.apex.fused_layer_norm_affine(
        x, w.half(), b.half(), (8,), 1e-5, memory_efficient
    )
    assert affine.dtype == torch.float16
    torch.testing.assert_close(affine, native(x, (8,), w.half(), b.half()))
    mixed = fusednorm.apex.mixed_dtype_fused_layer_norm_affine(
        x, w, b, (8,), 1e-5, memory_efficient
    )
    assert mixed.dtype == torch.float32
    torch.testing.assert_close(mixed, native(x.float(), (8,), w, b))
    mixed.square().sum().backward()
    assert x.grad.dtype == torch.float16


def test_apex_modules():
    norm = fusednorm.apex.FusedLayerNorm((4, 8), eps=1e-6, elementwise_affine=False)
    x = torch.randn(2, 4, 8)
    torch.testing.assert_close(norm(x), torch.nn.functional.layer_norm(x, (4, 8), eps=1e-6))
    assert repr(norm) == "FusedLayerNorm(torch.Size([4, 8]), eps=1e-06, elementwise_affine=False)"
    mixed = fusednorm.apex.MixedFusedLayerNorm(8, memory_efficient=True)
    assert mixed(torch.randn(2, 8).bfloat16()).dtype == torch.float32
    with pytest.raises(RuntimeError, match="elementwise_affine"):
        fusednorm.apex.MixedFusedLayerNorm(8, elementwise_affine=False)
    assert list(mixed.state_dict()) == ["weight", "bias"]


def manual(x, w, eps):
    """Compute what apex does on the CPU: the product is in the dtype of the weight."""
    h = x.float() * torch.rsqrt(x.float().square().mean(-1, keepdim=True) + eps)
    return h if w is None else w * h.to(w.dtype)


@pytest.mark.parametrize("memory_efficient", [False, True])
def test_apex_rms_functions(memory_efficient):
    apex = fusednorm.apex
    x = torch.randn(64, 8, dtype=torch.float16, requires_grad=True)
    w = torch.rand(8) + 0.5
    plain = apex.fused_rms_norm(x, 8, memory_efficient=memory_efficient)
    torch.testing.assert_close(plain, manual(x, None, 1e-6).half())
    affine = apex.fused_rms_norm_affine(x, w.half(), (8,), 1e-5, memory_efficient)
    assert affine.dtype == torch.float16
    assert affine.ne(manual(x, w.half(), 1e-5)).float().mean() < 2e-3  # test_rounding.py says why
    assert affine.ne(fusednorm.rms_norm(x, (8,), w.half(), 1e-5)).float().mean() > 0.1
    mixed = apex.mixed_dtype_fused_rms_norm_affine(x, w, (8,), 1e-5, memory_efficient)
    assert mixed.dtype == torch.float32
    torch.testing.assert_close(mixed, manual(x, w, 1e-5))
    mixed.square().sum().backward()
    assert x.grad.dtype == torch.float16
    for weight in (None, w, w.half()):
        ours, theirs = apex.manual_rms_norm(x, (8,), weight, 1e-5), manual(x, weight, 1e-5)
        torch.testing.assert_close(ours, theirs)  # the dtype as well


def test_apex_rms_modules():
    apex = fusednorm.apex
    norm = apex.FusedRMSNorm((4, 8), eps=1e-6, elementwise_affine=False)
    x = torch.randn(2, 4, 8)
    torch.testing.assert_close(norm(x), torch.nn.functional.rms_norm(x, (4, 8), eps=1e-6))
    assert repr(norm) == "FusedRMSNorm(torch.Size([4, 8]), eps=1e-06, elementwise_affine=False)"
    assert list(apex.FusedRMSNorm(8).state_dict()) == ["weight"]
    assert apex.FusedRMSNorm(8).bfloat16()(torch.randn(2, 8).bfloat16()).dtype == torch.bfloat16
    mixed = apex.MixedFusedRMSNorm(8, memory_efficient=True)
    assert mixed(torch.randn(2, 8).bfloat16()).dtype == torch.float32
    with pytest.raises(RuntimeError, match="elementwise_affine"):
        apex.MixedFusedRMSNorm(8, elementwise_affine=False)


def test_apex_signatures():
    """As apex has them."""
    for name in ("fused_rms_norm_affine", "mixed_dtype_fused_rms_norm_affine"):
        names = list(inspect.signature(getattr(fusednorm.apex, name)).parameters)
        assert names == ["input", "weight", "normalized_shape", "eps", "memory_efficient"]
    names = list(inspect.signature(fusednorm.apex.manual_rms_norm).parameters)
    assert names == ["input", "normalized_shape", "weight", "eps"]
    for kind in (fusednorm.apex.FusedRMSNorm, fusednorm.apex.FusedLayerNorm):
        defaults = {p.name: p.default for p in inspect.signature(kind).parameters.values()}
        del defaults["normalized_shape"]
        assert defaults == {"eps": 1e-5, "elementwise_affine": True, "memory_efficient": False}

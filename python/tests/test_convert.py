# SPDX-License-Identifier: Apache-2.0
"""convert() and revert(): which classes are recognised, what survives, what is left alone."""

import copy
import warnings

import pytest
import torch
from torch.nn.utils import parametrize

import fusednorm
import torch_features
from fusednorm.conversion import swap
from fusednorm.conversion.probe import close, probe
from module_checks import copies

pytestmark = pytest.mark.filterwarnings("ignore")
F32, F16, BF16 = torch.float32, torch.float16, torch.bfloat16


class Norm(torch.nn.Module):
    """RMSNorm in Llama's order; subclasses change one thing each."""

    def __init__(self, size=48, eps=1e-5):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.rand(size) + 0.5)
        self.variance_epsilon = eps

    def rows(self, x):
        x = x.float()
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + self.variance_epsilon)

    def forward(self, hidden_states):
        return self.weight * self.rows(hidden_states).to(hidden_states.dtype)


class OnceNorm(Norm):
    def forward(self, x):
        return (self.weight.float() * self.rows(x)).to(x.dtype)


class OffsetNorm(Norm):
    def forward(self, x):
        return ((1.0 + self.weight.float()) * self.rows(x)).to(x.dtype)


class ParameterNorm(Norm):
    def forward(self, x):
        return self.weight * self.rows(x).to(self.weight.dtype)


class MeanNorm(Norm):
    def forward(self, x):
        centred = x.float() - x.float().mean(-1, keepdim=True)
        return self.weight * self.rows(centred).to(x.dtype)


class FixedEpsNorm(torch.nn.Module):
    def forward(self, x):
        return torch.nn.functional.layer_norm(x, (x.shape[-1],), None, None, eps=1e-5)


class TwoNamesNorm(OnceNorm):
    """Has both names of eps; the second one is not read."""

    def __init__(self):
        super().__init__()
        self.eps = 1e-5


class ScaleNorm(torch.nn.Module):
    def __init__(self, size=48, eps=1e-6):
        super().__init__()
        self.scale = torch.nn.Parameter(torch.rand(size))
        self.eps = eps

    def forward(self, x):
        x32 = x.float()
        x32 = x32 * torch.rsqrt(x32.pow(2).mean(-1, keepdim=True) + self.eps)
        return (x32 * self.scale.float()).type_as(x)


RECIPES = {
    Norm: ("rms_norm", "via_x", 0.0, "promoted"),
    OnceNorm: ("rms_norm", "once", 0.0, "input"),
    OffsetNorm: ("rms_norm", "once", 1.0, "input"),
    ParameterNorm: ("rms_norm", "via_param", 0.0, "weight"),
    MeanNorm: ("layer_norm", "via_x", 0.0, "promoted"),
    FixedEpsNorm: ("layer_norm", "once", 0.0, "input"),
    TwoNamesNorm: ("rms_norm", "once", 0.0, "input"),
    ScaleNorm: ("rms_norm", "once", 0.0, "input"),
    torch.nn.RMSNorm: ("rms_norm", "once", 0.0, "input"),
}


@pytest.mark.parametrize("kind", RECIPES, ids=lambda kind: kind.__name__)
def test_the_probe_tells_recipes_apart(kind):
    module = kind(48) if kind is torch.nn.RMSNorm else kind()
    recipe = probe(module)
    assert not isinstance(recipe, str), recipe
    found = (recipe.operation, recipe.rounding, recipe.offset, recipe.output)
    assert found == RECIPES[kind]
    assert (F32, None if recipe.weight is None else F32) in recipe.pairs
    assert {1, 2, 3, 4, 5} == recipe.ranks


@pytest.mark.parametrize("kind", [Norm, OnceNorm, OffsetNorm, ParameterNorm, MeanNorm])
@pytest.mark.parametrize("of_weight", [F32, BF16, F16], ids=str)
@pytest.mark.parametrize("of_input", [F32, BF16, F16], ids=str)
def test_converted_classes_compute_the_same_in_every_pair_of_dtypes(kind, of_input, of_weight):
    module = kind().to(of_weight)
    x = torch.randn(64, 48).to(of_input)
    expected = module(x)
    assert isinstance(fusednorm.convert(module), swap.Fused)
    found = module(x)
    assert found.dtype == expected.dtype
    # A result of 16 bits: equal but for roundings that the order of a row's sum tips.
    if found.dtype != F32:
        assert (found == expected).double().mean() >= 0.995
    narrowest = max(of_input, of_weight, key=lambda dtype: torch.finfo(dtype).eps)
    assert close(found, expected, 48, narrowest)


def test_a_class_that_fits_in_float32_alone_is_fused_there_alone():
    module = fusednorm.convert(HalfStatisticsNorm())
    assert swap.why_not_fused(module, (torch.randn(2, 48),), {}) == ""
    assert "dtypes" in swap.why_not_fused(module, (torch.randn(2, 48).to(BF16),), {})


def test_eps_is_read_at_each_call_and_under_its_own_name():
    module = fusednorm.convert(TwoNamesNorm())
    assert vars(module)[swap.RECIPE].eps_name == "variance_epsilon"
    x = torch.randn(4, 48)
    before = module(x)
    module.eps = 10.0
    assert torch.equal(module(x), before)
    module.variance_epsilon = 10.0
    assert (module(x) - before).abs().max() > 0.1


class Different(Norm):
    def forward(self, x):
        return super().forward(x).relu()


class Stopped(OnceNorm):
    def rows(self, x):
        x = x.float()
        with torch.no_grad():
            scale = torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + self.variance_epsilon)
        return x * scale


class Dropping(OnceNorm):
    def forward(self, x):
        return torch.nn.functional.dropout(super().forward(x), 0.5, self.training)


class WithGate(OnceNorm):
    def forward(self, x, gate):
        return super().forward(x) * gate


class ChannelsFirst(torch.nn.LayerNorm):
    def forward(self, x):
        return super().forward(x.permute(0, 2, 3, 1)).permute(0, 3, 1, 2)


class HalfStatisticsNorm(Norm):
    """In 16 bits the mean square is rounded; in f32 that is a norm like any other."""

    def rows(self, x):
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + self.variance_epsilon)


class FailingNorm(Norm):
    """Fails where the probe does not expect it."""

    def __init__(self):
        super().__init__()
        self.sizes = ([1], {})

    def forward(self, x):
        if not self.training:
            raise ValueError("not in evaluation")
        return super().forward(x)


@pytest.mark.parametrize(
    ("module", "reason"),
    [
        (HalfStatisticsNorm().to(BF16), "in torch.bfloat16 it rounds as none"),
        (FailingNorm(), "cannot be probed (ValueError: not in evaluation)"),
        (Different(), "something else"),
        (Stopped(), "gradient"),
        (Dropping(), "training and evaluation"),
        (WithGate(), "other arguments than an input (x, gate)"),
        (ChannelsFirst(48), "channels"),
        (torch.nn.BatchNorm1d(48), "other elements"),
        (torch.nn.GroupNorm(2, 48), "other elements"),
        (torch.jit.script(torch.nn.LayerNorm(48)), "ScriptModule"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_what_is_no_recipe_is_left_alone_with_a_reason(module, reason):
    kind, state = type(module), fusednorm.explain(module).norms[0]
    assert state.state == "left alone"
    assert reason in state.reason
    with pytest.warns(UserWarning, match="changed nothing"):
        fusednorm.convert(module)
    assert type(module) is kind


def test_nothing_converted_is_warned_about_and_anything_converted_is_not():
    with pytest.warns(UserWarning, match="of 0 modules"):
        fusednorm.convert(torch.nn.Linear(2, 2))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = fusednorm.convert(torch.nn.Sequential(Norm(), Different()))
        fusednorm.convert(model)


def test_exported_programs_and_other_objects_are_refused_in_a_sentence():
    program = torch.export.export(torch.nn.LayerNorm(4), (torch.randn(2, 4),))
    with pytest.raises(TypeError, match="convert the model before export"):
        fusednorm.convert(program)
    with pytest.raises(TypeError, match="before export"):
        fusednorm.explain(program)
    with pytest.warns(UserWarning, match="changed nothing"):
        fusednorm.convert(program.module())
    assert "traced graph" in fusednorm.explain(program.module()).norms[0].reason
    with pytest.raises(ValueError, match="numerics is 'twice'"):
        fusednorm.convert(torch.nn.LayerNorm(4), numerics="twice")


def test_further_classes_can_be_named():
    class Plain(torch.nn.Module):  # neither its name nor its forward says what it is
        def __init__(self):
            super().__init__()
            self.inner = OnceNorm.rows
            self.variance_epsilon = 1e-6

        def forward(self, x):
            return self.inner(self, x).to(x.dtype)

    with pytest.warns(UserWarning, match="of 0 modules"):
        fusednorm.convert(Plain())
    assert isinstance(fusednorm.convert(Plain(), classes=[Plain]), swap.Fused)


def test_numerics_once_changes_the_rounding_and_nothing_else():
    module = Norm().to(BF16)
    x = torch.randn(64, 48, dtype=BF16)
    own, once = module(x), fusednorm.convert(module, numerics="once")(x)
    assert once.dtype == own.dtype
    assert 0.1 < (own != once).double().mean() < 0.5
    exact = (module.weight.double() * Norm.rows(module, x).double()).to(BF16)
    assert (once == exact).double().mean() >= 0.995


def test_what_the_operators_do_not_take_goes_to_the_class_itself():
    class Wrapped(torch.Tensor):
        pass

    module = Norm()
    inputs = [
        torch.randn(3, 48, dtype=torch.float64),  # Llama's class computes it in f32
        torch.randn(3, 48).as_subclass(Wrapped),
        torch.randn(2, 2, 2, 2, 2, 48),
    ]
    expected = [module(x) for x in inputs]
    fusednorm.convert(module)
    for x, y in zip(inputs, expected):
        assert swap.why_not_fused(module, (x,), {})
        assert torch.equal(module(x), y)
    assert swap.why_not_fused(module, (torch.randn(3, 48),), {}) == ""
    assert swap.why_not_fused(module, (), {"hidden_states": torch.randn(3, 48)}) == ""
    with pytest.raises(TypeError):
        module()


def test_autocast_is_as_the_class_has_it():
    """On the CPU by running it; what CUDA would do is what the probe found."""
    native = "cast" if torch_features.NATIVE_RMS_NORM_IS_ONE_OPERATOR else "own"
    for kind, wanted in ((OnceNorm, "keep"), (torch.nn.RMSNorm, native)):
        module = kind(48)
        assert probe(module).autocast == wanted
        x = torch.randn(4, 48, dtype=BF16)
        with torch.autocast("cpu", dtype=BF16):
            expected = module(x)
            found = fusednorm.convert(module)(x)
        assert found.dtype == expected.dtype
        assert (found == expected).double().mean() >= 0.99


def test_run_time_classes_survive_pickle_deepcopy_and_save():
    model = fusednorm.convert(torch.nn.Sequential(Norm(), torch.nn.LayerNorm(48), Norm()))
    x = torch.randn(3, 48)
    for other in copies(model):
        assert type(other[0]) is type(other[2]) is type(model[0])
        assert torch.equal(other(x), model(x))
        assert repr(other) == repr(model)
        assert type(fusednorm.revert(other)[0]) is Norm
    assert isinstance(model[0], Norm)
    assert model.state_dict().keys() == fusednorm.revert(copy.deepcopy(model)).state_dict().keys()


def test_parametrize_before_and_after_conversion():
    for first in ("convert", "parametrize"):
        module = Norm()
        x = torch.randn(3, 48)
        if first == "convert":
            fusednorm.convert(module)
        parametrize.register_parametrization(module, "weight", torch.nn.Softplus())
        expected = Norm.forward(module, x)
        if first == "parametrize":
            fusednorm.convert(module)
        assert isinstance(module, swap.Fused)
        torch.testing.assert_close(module(x), expected)
        fusednorm.revert(module)
        assert not isinstance(module, swap.Fused)
        assert torch.equal(module(x), expected)
        parametrize.remove_parametrizations(module, "weight")
        assert type(module) is Norm


def test_a_forward_on_the_instance_is_kept():
    module = Norm()
    module.forward = lambda x: x
    assert "forward of its own" in fusednorm.explain(module).norms[0].reason
    with pytest.warns(UserWarning, match="changed nothing"):
        fusednorm.convert(module)
    assert type(module) is Norm


def test_modules_on_the_meta_device_are_recognised():
    with torch.device("meta"):
        module = Norm()
    assert isinstance(fusednorm.convert(module), swap.Fused)
    module.to_empty(device="cpu")
    torch.nn.init.ones_(module.weight)
    x = torch.randn(4, 48)
    torch.testing.assert_close(module(x), Norm.forward(module, x))


def test_converting_disturbs_nothing():
    torch.manual_seed(5)
    expected = torch.rand(1)
    torch.manual_seed(5)
    module = Norm()
    calls = []
    module.register_forward_hook(lambda *_: calls.append(1))
    state = torch.get_rng_state()
    with torch.inference_mode():
        fusednorm.convert(module)
    assert torch.equal(torch.get_rng_state(), state)
    assert calls == []
    torch.manual_seed(5)
    assert torch.equal(torch.rand(1), expected)
    module(torch.randn(2, 48)).sum().backward()
    assert calls == [1]

# SPDX-License-Identifier: Apache-2.0
"""explain(): a line for every norm, with the path that an example input takes."""

import io

import pytest
import torch

import fusednorm
import model_zoo
from fusednorm.conversion.explain import recomputation_error

pytestmark = pytest.mark.filterwarnings("ignore")


def test_each_norm_has_a_line_and_layers_share_one():
    model, _ = model_zoo.build("llama")
    explanation = fusednorm.explain(model)
    assert len(explanation.norms) == 5
    text = str(explanation)
    assert "model.layers.*.input_layernorm" in text
    assert "rms_norm, via_x" in text
    assert "5 norms: 5 convertible" in text
    assert "5 norms: 5 converted" in str(fusednorm.explain(fusednorm.convert(model)))
    assert max(map(len, text.splitlines())) < 160


def test_rich_draws_it():
    console = pytest.importorskip("rich.console")
    stream = io.StringIO()
    model = torch.nn.Sequential(torch.nn.LayerNorm(8), torch.nn.BatchNorm1d(8))
    console.Console(file=stream, width=120).print(fusednorm.explain(model))
    assert "left alone" in stream.getvalue()


def test_an_example_input_shows_the_path_and_the_copy():
    class Model(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.direct, self.strided = torch.nn.LayerNorm(8), torch.nn.LayerNorm(8)
            self.foreign, self.unused = torch.nn.RMSNorm(8), torch.nn.LayerNorm(8)

        def forward(self, x):
            scattered = torch.stack([x, x], -1)[..., 0]  # elements of a row are not neighbours
            return self.direct(x) + self.strided(scattered) + self.foreign(x.to(torch.complex64))

    model = fusednorm.convert(Model())
    lines = {n.path: n for n in fusednorm.explain(model, torch.randn(3, 8)).norms}
    assert (lines["direct"].call, lines["direct"].copied) == ("fused", False)
    assert (lines["strided"].call, lines["strided"].copied) == ("fused", True)
    assert "own forward (dtypes torch.complex64" in lines["foreign"].call
    assert lines["unused"].call == ""
    assert "not called" in str(fusednorm.explain(model, (torch.randn(3, 8),)))
    unconverted = fusednorm.explain(Model(), {"x": torch.randn(3, 8)}).norms
    assert unconverted[0].call == "own forward (not converted)"


def test_the_fast_path_of_the_encoder_is_named():
    layer = torch.nn.TransformerEncoderLayer(16, 2, 32, batch_first=True)
    model = torch.nn.TransformerEncoder(layer, 2).eval()
    explanation = fusednorm.explain(fusednorm.convert(model), torch.randn(2, 5, 16))
    assert all("TransformerEncoderLayer" in norm.reason for norm in explanation.norms)
    assert {norm.call for norm in explanation.norms} == {""}, "which is what happens"
    model.train()
    assert {n.call for n in fusednorm.explain(model, torch.randn(2, 5, 16)).norms} == {"fused"}


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32], ids=str)
@pytest.mark.parametrize(("weight", "bias"), [(1.0, 0.0), (1.0, 1.0), (0.1, 1.0), (0.01, 1.0)])
def test_the_bound_for_memory_efficient_holds_and_is_not_idle(dtype, weight, bias):
    norm = fusednorm.LayerNorm(256, memory_efficient=True, dtype=dtype)
    torch.nn.init.constant_(norm.weight, weight)
    torch.nn.init.constant_(norm.bias, bias)
    x = torch.randn(512, 256, dtype=dtype)
    y = norm(x).double()
    exact = torch.nn.functional.layer_norm(x.double(), (256,))
    gamma, beta = norm.weight.double(), norm.bias.double()
    off = ((y - beta) / gamma - exact).abs()
    u = torch.finfo(dtype).eps / 2
    largest = exact.abs() + (beta / gamma).abs()
    # Beside the rounding of y: what y was before, docs/tolerances.md (mean, then y; C(256) = 20).
    before = 2**-24 * (20 + 24 * exact.abs() + 2 * (beta / gamma).abs())
    assert (off <= u * largest + before).all()
    error = recomputation_error(norm)[str(dtype).removeprefix("torch.")]
    assert error == pytest.approx(u * (1 + abs(bias / weight)), rel=0.05)
    assert off.max() > 0.25 * error, "the bound is reached"
    assert "memory_efficient, xhat from y is off by up to" in str(fusednorm.explain(norm))

# SPDX-License-Identifier: Apache-2.0
"""Leaving: ONNX, decompositions to aten, torch.fx and quantisation."""

import copy

import pytest
import torch

import fusednorm
import model_zoo
from fusednorm._decompositions import DECOMPOSITIONS
from model_zoo import package
from torch_features import NATIVE_RMS_NORM_IS_ONE_OPERATOR

pytestmark = pytest.mark.filterwarnings("ignore")
F32, BF16 = torch.float32, torch.bfloat16
ops = torch.ops.fusednorm


class Call(torch.nn.Module):
    """Calls an operator with parameters of its own."""

    def __init__(self, name, dtype=F32, shape=(24,), **options):
        super().__init__()
        self.name, self.options = name, options
        self.weight = torch.nn.Parameter(torch.rand(shape).to(dtype))
        self.bias = torch.nn.Parameter(torch.randn(shape).to(dtype))

    def forward(self, x):
        operator = getattr(ops, self.name)
        rows = [x, (x * 2).sin()] if self.name.startswith("add_") else [x]
        if "rms" in self.name:
            return operator(*rows, [24], self.weight, 1e-5, bias=self.bias, **self.options)
        return operator(*rows, [24], self.weight, self.bias, 1e-5, **self.options)


ROUNDED = [n.default._schema.name.split("::")[1] for n in (ops.layer_norm_rounded, ops.rms_norm)]
CASES = [
    *((op._schema.name.split("::")[1], F32, F32, {}) for op in DECOMPOSITIONS),
    *((name, F32, F32, {"offset": 1.0}) for name in ROUNDED),
    *((name, BF16, F32, {"rounding": r}) for name in ROUNDED for r in ("once", "via_x")),
    *((name, BF16, BF16, {"rounding": "via_param"}) for name in ROUNDED),
    *((f"add_{kind}_norm", BF16, BF16, {"rounding": "via_x"}) for kind in ("rms", "layer")),
]


def results(output):
    return [output] if isinstance(output, torch.Tensor) else list(output)


def assert_near(found, expected):
    """Equal but for the order of a row's sum: f32 to a row's largest, bf16 an ulp."""
    assert found.dtype == expected.dtype
    size = expected.double().abs()
    row = size.amax(-1, keepdim=True) if size.shape[-1] > 1 else size.max()  # of a statistic: all
    unit = 2**-24 * (8 + 24**0.5) if expected.dtype == F32 else 2 * torch.finfo(BF16).eps
    assert ((found.double() - expected.double()).abs() <= 2 * unit * row + 1e-30).all()


def name_of(case):
    return case if isinstance(case, str) else str(case).removeprefix("torch.")


@pytest.mark.parametrize(("name", "of_input", "of_weight", "options"), CASES, ids=name_of)
def test_run_decompositions_ends_in_aten(name, of_input, of_weight, options):
    module = Call(name, of_weight, **options)
    x = torch.randn(5, 3, 24).to(of_input)
    expected = results(module(x))
    program = torch.export.export(module, (x,))
    assert any("fusednorm" in str(n.target) for n in program.graph.nodes), "fused until asked"
    program = program.run_decompositions()
    calls = [str(n.target) for n in program.graph.nodes if n.op == "call_function"]
    assert not [c for c in calls if "fusednorm" in c]
    for found, wanted in zip(results(program.module()(x)), expected, strict=True):
        assert_near(found, wanted)


def test_decompositions_know_parameters_of_heads():
    weight = torch.rand(4, 24)
    x = torch.randn(2, 4, 24)
    for operator, arguments in ((ops.rms_norm, (1e-5,)), (ops.layer_norm_rounded, (None, 1e-5))):
        expected = operator(x, [24], weight, *arguments)
        assert_near(DECOMPOSITIONS[operator.default](x, [24], weight, *arguments), expected)


def test_compile_stays_fused():
    from torch._dynamo.testing import AotEagerAndRecordGraphs

    torch._dynamo.reset()
    backend = AotEagerAndRecordGraphs()
    torch.compile(Call("rms_norm"), backend=backend, fullgraph=True)(torch.randn(3, 24))
    targets = [str(n.target) for n in backend.fw_graphs[0].graph.nodes]
    assert any("fusednorm.rms_norm" in target for target in targets)


# ---- ONNX


def run_onnx(path, x):
    """Run a model with onnxruntime; it lacks what is newest, which onnx's own evaluator has."""
    onnx, runtime = package("onnx"), package("onnxruntime")
    onnx.checker.check_model(onnx.load(path))
    try:
        session = runtime.InferenceSession(path, providers=["CPUExecutionProvider"])
        outputs = session.run(None, {session.get_inputs()[0].name: x.numpy()})
    except Exception:
        evaluator = package("onnx.reference").ReferenceEvaluator(onnx.load(path))
        outputs = evaluator.run(None, {evaluator.input_names[0]: x.numpy()})
    return [torch.from_numpy(output) for output in outputs]


def operators_of(path):
    return {node.op_type for node in package("onnx").load(path).graph.node}


@pytest.mark.parametrize("name", [op._schema.name.split("::")[1] for op in DECOMPOSITIONS])
def test_onnx_of_every_operator(name, tmp_path):
    package("onnxscript")
    module, x, path = Call(name).eval(), torch.randn(5, 3, 24), str(tmp_path / "model.onnx")
    torch.onnx.export(module, (x,), path, dynamo=True, opset_version=23, verbose=False)
    # A PyTorch without an rms_norm of its own has none to hand to ONNX, but its formula.
    rms_norm = "RMSNormalization" if NATIVE_RMS_NORM_IS_ONE_OPERATOR else "ReduceMean"
    assert (rms_norm if "rms" in name else "LayerNormalization") in operators_of(path)
    expected = results(module(x))
    for found, wanted in zip(run_onnx(path, x), expected, strict=True):
        # Another implementation's sums: their errors add to ours.
        torch.testing.assert_close(found, wanted.detach(), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("name", ["gpt2", "llama", "timm_vit"])
def test_onnx_of_a_converted_model(name, tmp_path):
    package("onnxscript")
    model, batch = model_zoo.build(name)

    class Logits(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.model = model

        def forward(self, x):
            key = next(iter(batch))
            options = {} if key == "x" else {"use_cache": False}
            return self.model(**{key: x}, **options).logits

    x, path = next(iter(batch.values())), str(tmp_path / "model.onnx")
    expected = Logits()(x).detach()
    fusednorm.convert(model)
    torch.onnx.export(Logits().eval(), (x,), path, dynamo=True, verbose=False)
    torch.testing.assert_close(run_onnx(path, x)[0], expected, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize(
    "name", ["layer_norm", "layer_norm_rounded", "rms_norm", "add_layer_norm", "add_rms_norm"]
)
def test_onnx_by_the_old_exporter(name, tmp_path):
    """In float32 alone: that is what this exporter is still used for."""
    import fusednorm.onnx

    module, x, path = Call(name).eval(), torch.randn(5, 3, 24), str(tmp_path / "model.onnx")
    torch.onnx.export(module, (x,), path, dynamo=False, opset_version=fusednorm.onnx.OPSET)
    if name == "layer_norm":
        assert "LayerNormalization" in operators_of(path)
    for found, wanted in zip(run_onnx(path, x), results(module(x)), strict=True):
        torch.testing.assert_close(found, wanted.detach(), rtol=1e-5, atol=1e-5)


# ---- FX and quantisation


def test_symbolic_trace_and_fx_quantisation_treat_ours_as_native():
    import torch.ao.quantization as quantization
    from torch.ao.quantization.quantize_fx import convert_fx, prepare_fx

    native = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.LayerNorm(8)).eval()
    fused = fusednorm.convert(copy.deepcopy(native))
    x = torch.randn(3, 4)
    traced = torch.fx.symbolic_trace(fused)
    torch.testing.assert_close(traced(x), native(x))
    found = []
    for model in (native, fused):
        prepared = prepare_fx(
            copy.deepcopy(model), quantization.get_default_qconfig_mapping("x86"), (x,)
        )
        prepared(x)
        found.append(convert_fx(prepared)(x))
    torch.testing.assert_close(found[0], found[1])


def test_a_quantised_input_is_refused_with_the_way_out():
    quantised = torch.quantize_per_tensor(torch.randn(2, 4), 0.1, 0, torch.quint8)
    with pytest.raises(NotImplementedError, match=r"call fusednorm.revert\(model\) before"):
        fusednorm.LayerNorm(4)(quantised)

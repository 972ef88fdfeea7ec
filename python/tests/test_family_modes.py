# SPDX-License-Identifier: Apache-2.0
"""RMSNorm and the norms of a sum under compile, export, TorchScript, vmap, autocast and DTensor."""

import inspect

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.nn.utils import parametrize
from torch.utils.checkpoint import checkpoint

import fusednorm
from cuda_device import needs_kernel_of_pytorch
from module_checks import copies, gradients

OPS = torch.ops.fusednorm
MAKE = {
    "rms": lambda: fusednorm.RMSNorm(24, 1e-5, bias=True, offset=1.0),
    "rms via_x": lambda: fusednorm.RMSNorm(24, rounding="via_x"),
    "rms memory_efficient": lambda: fusednorm.RMSNorm(24, memory_efficient=True),
    "layer": lambda: fusednorm.LayerNorm(24),
}


class Block(torch.nn.Module):
    """A pre-norm block: the norm of the stream, and of the stream with what the layer adds."""

    def __init__(self, make):
        super().__init__()
        self.first, self.second = make(), make()
        self.project = torch.nn.Linear(24, 24)

    def forward(self, x):
        y, stream = self.second(self.project(self.first(x)), x)
        return y.relu() + stream


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", MAKE)
def test_compile_with_dynamic_shapes_forward_and_backward(name):
    torch._dynamo.reset()
    torch._dynamo.utils.counters.clear()
    module = Block(MAKE[name])
    compiled = torch.compile(module, fullgraph=True, dynamic=True)
    for rows in (5, 9):
        x = torch.randn(rows, 24)
        for eager, other in zip(gradients(module, module, x), gradients(compiled, module, x)):
            torch.testing.assert_close(other, eager, rtol=1e-5, atol=1e-5)
    assert torch._dynamo.utils.counters["stats"]["unique_graphs"] == 1
    assert not torch._dynamo.utils.counters["graph_break"]


@pytest.mark.filterwarnings("ignore")
def test_compile_of_heads_and_of_operators_in_place():
    torch._dynamo.reset()
    w = torch.randn(3, 8)

    def function(qkv, residual):
        q = fusednorm.rms_norm(qkv[:, :3], (8,), w, offset=1.0)
        fusednorm.add_rms_norm_(residual, qkv, (8,))
        return q + fusednorm.layer_norm(qkv[:, 3:6], (8,), w, w)

    with torch.no_grad():
        compiled = torch.compile(function, fullgraph=True, dynamic=True)
        for tokens in (4, 7):
            qkv, residual = torch.randn(tokens, 9, 8), torch.randn(tokens, 9, 8)
            copies = qkv.clone(), residual.clone()
            torch.testing.assert_close(compiled(*copies), function(qkv, residual))
            torch.testing.assert_close(copies, (qkv, residual))


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", MAKE)
def test_export_with_a_dynamic_dimension(name, tmp_path):
    module = Block(MAKE[name]).eval()
    rows = torch.export.Dim("rows", min=2, max=4096)
    program = torch.export.export(module, (torch.randn(8, 24),), dynamic_shapes={"x": {0: rows}})
    assert any("fusednorm.add_" in str(node.target) for node in program.graph.nodes)
    torch.export.save(program, tmp_path / "block.pt2")
    loaded = torch.export.load(tmp_path / "block.pt2")
    for count in (2, 77):
        x = torch.randn(count, 24)
        torch.testing.assert_close(loaded.module()(x), module(x))


class Scripted(torch.nn.Module):
    """What TorchScript can say: modules of one argument, and the functions."""

    def __init__(self, make):
        super().__init__()
        self.norm = make()

    def forward(self, x: torch.Tensor, r: torch.Tensor, w: torch.Tensor):
        y = self.norm(x)
        z, s = fusednorm.add_rms_norm(y, r, [24], w, 1e-5, offset=1.0)
        y = fusednorm.rms_norm(z, [24], w, bias=w, rounding="via_x")
        z, s = fusednorm.add_layer_norm(y, s, [24], w)
        return z + s


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", MAKE)
def test_torchscript(name, tmp_path):
    module = Scripted(MAKE[name])
    x, r, w = torch.randn(5, 24), torch.randn(5, 24), torch.randn(24)
    torch.jit.script(module).save(str(tmp_path / "module.pt"))
    scripted = torch.jit.load(str(tmp_path / "module.pt"))
    for _ in range(3):  # the profiling executor changes the graph after the first calls
        expected = gradients(lambda x: module(x, r, w), module, x)
        for left, right in zip(gradients(lambda x: scripted(x, r, w), scripted, x), expected):
            torch.testing.assert_close(left, right)
    traced = torch.jit.trace(module, (x, r, w))
    torch.testing.assert_close(traced(x, r, w), module(x, r, w))
    alone = torch.jit.script(MAKE[name]())
    with pytest.raises(torch.jit.Error, match="a scripted norm takes no residual"):
        alone(x, r)


# ---- modules


CONSTRUCTIONS = [
    ((8,), {}),
    (((4, 8),), {}),
    ((8, 1e-3), {}),
    ((8,), {"elementwise_affine": False}),
    (([2, 8], 1e-6, True, "cpu", torch.bfloat16), {}),
]


@pytest.mark.parametrize(("args", "kwargs"), CONSTRUCTIONS, ids=str)
def test_is_made_and_looks_like_native(args, kwargs):
    ours, native = fusednorm.RMSNorm(*args, **kwargs), torch.nn.RMSNorm(*args, **kwargs)
    assert isinstance(ours, torch.nn.RMSNorm)
    assert repr(ours) == repr(native)
    for name in ("normalized_shape", "eps", "elementwise_affine"):
        assert getattr(ours, name) == getattr(native, name)
    native.load_state_dict(ours.state_dict())
    ours.load_state_dict(native.state_dict())
    assert inspect.signature(ours.forward).parameters["x"]
    x = torch.randn(3, *ours.normalized_shape)
    if ours.weight is not None and ours.weight.dtype == torch.bfloat16:
        return  # native's rounding depends on its release
    torch.testing.assert_close(ours(x), native(x))


def test_signature_extends_that_of_native():
    native = list(inspect.signature(torch.nn.RMSNorm.__init__).parameters)
    ours = inspect.signature(fusednorm.RMSNorm.__init__).parameters
    assert [p.name for p in ours.values() if p.kind != p.KEYWORD_ONLY] == native
    functional = inspect.signature(torch.nn.functional.rms_norm).parameters
    ours = inspect.signature(fusednorm.rms_norm).parameters
    assert [(p.name, p.default) for p in ours.values() if p.kind != p.KEYWORD_ONLY] == [
        (p.name, p.default) for p in functional.values()
    ]


@pytest.mark.parametrize("offset", [0.0, 1.0, 0.25])
def test_weights_start_where_the_norm_is_alone(offset):
    norm = fusednorm.RMSNorm(8, offset=offset, bias=True)
    x = torch.randn(3, 8)
    assert torch.equal(norm.weight, torch.full((8,), 1 - offset))
    plain = fusednorm.rms_norm(x, (8,))
    assert torch.equal(norm(x), plain)
    torch.nn.init.normal_(norm.weight)
    torch.nn.init.normal_(norm.bias)
    norm.reset_parameters()
    assert torch.equal(norm(x), plain)


def test_deepcopy_pickle_and_save():
    norm = fusednorm.RMSNorm(
        8, 1e-4, bias=True, offset=1.0, rounding="via_param", memory_efficient=True
    )
    text = (
        "RMSNorm((8,), eps=0.0001, elementwise_affine=True, bias=True, offset=1.0, "
        "rounding='via_param', memory_efficient=True)"
    )
    torch.nn.init.normal_(norm.weight)
    x = torch.randn(2, 8)
    for other in copies(norm):
        assert torch.equal(other(x), norm(x))
        assert repr(other) == text
    with pytest.raises(ValueError, match="rounding must be 'once', 'via_x' or 'via_param'"):
        fusednorm.RMSNorm(8, rounding="llama")


def test_parametrize_and_checkpoint():
    class Double(torch.nn.Module):
        def forward(self, weight):
            return 2 * weight

    norm = fusednorm.RMSNorm(8)
    x = torch.randn(2, 8, requires_grad=True)
    plain = norm(x)
    parametrize.register_parametrization(norm, "weight", Double())
    torch.testing.assert_close(norm(x), 2 * plain)
    for reentrant in (False, True):
        results = []
        for call in (norm, lambda *a, r=reentrant: checkpoint(norm, *a, use_reentrant=r)):
            x.grad = None
            y, s = call(x, x.detach())
            (y.square() + s).sum().backward()
            results.append((y.detach(), s.detach(), x.grad))
        assert all(map(torch.equal, *results))


@pytest.mark.parametrize("make", [fusednorm.RMSNorm, fusednorm.LayerNorm])
def test_modules_with_a_residual(make):
    norm = make(16)
    torch.nn.init.normal_(norm.weight)
    x, r = torch.randn(4, 16, requires_grad=True), torch.randn(4, 16, requires_grad=True)
    y, s = norm(x, r)
    assert torch.equal(s, x + r)
    assert torch.equal(y, norm(x + r))
    assert torch.equal(norm(x, residual=r)[0], y)
    wide = norm.to(torch.bfloat16)
    y, s = wide(x.bfloat16(), r)
    assert (y.dtype, s.dtype) == (torch.bfloat16, torch.float32)
    y.float().square().sum().backward()
    assert r.grad.dtype == torch.float32


# ---- autocast, fake tensors


FORWARD = [
    "rms_norm",
    "rms_norm_forward",
    "rms_norm_memory_efficient_forward",
    "layer_norm_rounded",
    "layer_norm_rounded_forward",
    "add_rms_norm",
    "add_rms_norm_forward",
    "add_layer_norm",
    "add_layer_norm_forward",
]


def test_autocast_rule_of_cuda_is_registered():
    for name in FORWARD:
        assert torch._C._dispatch_has_kernel_for_dispatch_key(f"fusednorm::{name}", "AutocastCUDA")
    for name in ("add_rms_norm_", "add_layer_norm_"):
        assert not torch._C._dispatch_has_kernel_for_dispatch_key(
            f"fusednorm::{name}", "AutocastCUDA"
        )


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64], ids=str)
def test_autocast(dtype, device):
    """CUDA computes in f32, the CPU in the dtype it is given; f64 is left alone."""
    if device == "cuda" and dtype == torch.bfloat16:
        needs_kernel_of_pytorch("autocast's conversion from bf16 to f32")
    parameter = torch.float64 if dtype == torch.float64 else torch.float32
    x, r = (torch.randn(4, 16, dtype=dtype).to(device) for _ in "xr")
    w = torch.ones(16, dtype=parameter).to(device)
    wide = torch.float32 if device == "cuda" and dtype == torch.bfloat16 else dtype
    with torch.autocast(device, dtype=torch.bfloat16):
        assert fusednorm.rms_norm(x, (16,), w).dtype == wide
        assert fusednorm.layer_norm(x, (16,), w, offset=1.0).dtype == wide
        for output in fusednorm.add_rms_norm(x, r, (16,), w):
            assert output.dtype == wide
        for output in fusednorm.add_layer_norm(x, r, (16,), w):
            assert output.dtype == wide


def test_fake_tensors_on_a_device_that_is_not_here():
    with FakeTensorMode():
        x = torch.empty(4, 3, 16, device="cuda", dtype=torch.bfloat16)
        r = torch.empty(4, 3, 16, device="cuda")
        w = torch.empty(3, 16, device="cuda")
        y, s, rstd = OPS.add_rms_norm_forward(x, r, (16,), w, None, None, rounding="via_x")
        assert (y.dtype, s.dtype, rstd.shape) == (torch.float32, torch.float32, (4, 3, 1))
        dx, dr, dw, db = OPS.add_rms_norm_backward(
            y, s, s, (16,), rstd, w, None, 0.0, [True, True, True, False], torch.bfloat16
        )
        assert (dx.dtype, dr.dtype, dw.shape, db) == (torch.bfloat16, torch.float32, (3, 16), None)
        OPS.add_layer_norm_(x, x.clone(), (16,), w, w)


def test_meta_modules():
    norm = fusednorm.RMSNorm(16, device="meta", bias=True, offset=1.0)
    x = torch.empty(4, 16, device="meta")
    assert norm(x).shape == norm(x, x)[1].shape == (4, 16)
    norm.to_empty(device="cpu").reset_parameters()
    assert torch.equal(norm(torch.zeros(4, 16)), torch.zeros(4, 16))


# ---- torch.func


def test_jacobians_and_hessian():
    def ours(x, w):
        return fusednorm.rms_norm(x, (6,), w, 1e-5, offset=1.0)

    def formula(x, w):
        return x * (x.square().mean(-1, True) + 1e-5).rsqrt() * (w + 1)

    x, w = torch.randn(3, 6, dtype=torch.double), torch.randn(6, dtype=torch.double)
    close = torch.testing.assert_close
    for jacobian in (torch.func.jacrev, torch.func.jacfwd):
        close(jacobian(ours, (0, 1))(x, w), torch.func.jacrev(formula, (0, 1))(x, w))
    for f in (torch.func.hessian, lambda g: torch.func.jacrev(torch.func.jacrev(g))):
        close(
            f(lambda x: ours(x, w).pow(3).sum())(x),
            torch.func.hessian(lambda x: formula(x, w).pow(3).sum())(x),
        )


def test_vmap_does_not_fall_back_to_a_loop(recwarn):
    x, r = torch.randn(5, 3, 6), torch.randn(5, 3, 6)
    torch.vmap(lambda x: fusednorm.rms_norm(x, (6,)))(x)
    torch.vmap(lambda x, r: fusednorm.add_layer_norm(x, r, (6,)))(x, r)
    loss = torch.func.grad(lambda x, r: fusednorm.add_rms_norm(x, r, (6,))[0].square().sum())
    torch.vmap(loss)(x, r)
    assert not [w for w in recwarn if "batching rule" in str(w.message)]


def test_functional_call_over_an_ensemble():
    models = [fusednorm.RMSNorm(6, bias=True) for _ in range(3)]
    for model in models:
        torch.nn.init.normal_(model.weight)
    parameters, buffers = torch.func.stack_module_state(models)
    x = torch.randn(5, 6)
    y = torch.vmap(lambda p, b: torch.func.functional_call(models[0], (p, b), (x,)))(
        parameters, buffers
    )
    torch.testing.assert_close(y, torch.stack([m(x) for m in models]))

# SPDX-License-Identifier: Apache-2.0
"""torch.compile, torch.export and AOTInductor: one graph, dynamic shapes, eager's results."""

import pytest
import torch

import fusednorm
from module_checks import gradients

pytestmark = pytest.mark.filterwarnings("ignore")


class Block(torch.nn.Module):
    """The layer between two others, so that the compiler has something to fuse around it."""

    def __init__(self, memory_efficient=False):
        super().__init__()
        self.project = torch.nn.Linear(16, 24)
        self.norm = fusednorm.LayerNorm(24, memory_efficient=memory_efficient)

    def forward(self, x):
        return self.norm(self.project(x)).relu()


@pytest.mark.parametrize("memory_efficient", [False, True])
def test_compile_with_dynamic_shapes_forward_and_backward(memory_efficient):
    torch._dynamo.reset()
    torch._dynamo.utils.counters.clear()
    module = Block(memory_efficient)
    compiled = torch.compile(module, fullgraph=True, dynamic=True)
    for rows in (5, 9, 33):
        x = torch.randn(rows, 16)
        for eager, other in zip(gradients(module, module, x), gradients(compiled, module, x)):
            torch.testing.assert_close(other, eager, rtol=1e-5, atol=1e-5)
    counters = torch._dynamo.utils.counters
    assert counters["stats"]["unique_graphs"] == 1, "dynamic shapes must not recompile"
    assert not counters["graph_break"]


def test_compile_static_bf16_with_f32_parameters():
    torch._dynamo.reset()
    w, b = torch.randn(32, requires_grad=True), torch.randn(32, requires_grad=True)
    x = torch.randn(4, 32, dtype=torch.bfloat16, requires_grad=True)

    def function(x):
        return fusednorm.layer_norm(x, (32,), w, b)

    compiled = torch.compile(function, fullgraph=True, dynamic=False)
    y, z = function(x), compiled(x)
    assert torch.equal(y, z)
    dy = torch.randn_like(y)
    for left, right in zip(
        torch.autograd.grad(y, (x, w, b), dy), torch.autograd.grad(z, (x, w, b), dy)
    ):
        assert torch.equal(left, right)


def test_inductor_takes_no_operator_apart():
    """The decompositions are for export: compiled code calls the fused kernels."""
    from torch._inductor.decomposition import decompositions

    assert not [str(op) for op in decompositions if str(op).startswith("fusednorm")]


def test_export_with_a_dynamic_dimension():
    module = Block().eval()
    rows = torch.export.Dim("rows", min=2, max=4096)
    program = torch.export.export(module, (torch.randn(8, 16),), dynamic_shapes={"x": {0: rows}})
    assert any("fusednorm.layer_norm" in str(node.target) for node in program.graph.nodes)
    for count in (2, 77):
        x = torch.randn(count, 16)
        torch.testing.assert_close(program.module()(x), module(x))


def test_export_saves_and_loads(tmp_path):
    module = Block().eval()
    x = torch.randn(8, 16)
    torch.export.save(torch.export.export(module, (x,)), tmp_path / "block.pt2")
    torch.testing.assert_close(torch.export.load(tmp_path / "block.pt2").module()(x), module(x))


def test_aot_inductor_package(tmp_path):
    module = Block().eval()
    rows = torch.export.Dim("rows", min=2, max=4096)
    with torch.no_grad():
        program = torch.export.export(
            module, (torch.randn(8, 16),), dynamic_shapes={"x": {0: rows}}
        )
        path = torch._inductor.aoti_compile_and_package(
            program, package_path=str(tmp_path / "block.pt2")
        )
        packaged = torch._inductor.aoti_load_package(path)
        for count in (3, 50):
            x = torch.randn(count, 16)
            torch.testing.assert_close(packaged(x), module(x), rtol=1e-5, atol=1e-5)

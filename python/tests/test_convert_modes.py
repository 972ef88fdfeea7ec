# SPDX-License-Identifier: Apache-2.0
"""Converted modules under torch.jit, fx, compile, export and func."""

import copy

import pytest
import torch

import fusednorm
from fusednorm.conversion import swap
from test_convert import FixedEpsNorm, Norm, OffsetNorm

pytestmark = pytest.mark.filterwarnings("ignore")


def test_script_and_trace_of_a_converted_module():
    class Scriptable(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = torch.nn.Parameter(torch.rand(48))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.nn.functional.layer_norm(x, (48,), self.weight, None, 1e-5)

    x = torch.randn(4, 48)
    module = fusednorm.convert(torch.nn.Sequential(Scriptable()))
    assert isinstance(module[0], swap.Fused)
    torch.testing.assert_close(torch.jit.trace(module, (x,))(x), module(x))
    with pytest.raises(Exception, match=r"fusednorm.revert\(model\)"):
        torch.jit.script(module)
    assert isinstance(module[0], swap.Fused)
    native = torch.jit.script(fusednorm.revert(copy.deepcopy(module)))
    torch.testing.assert_close(native(x), module(x))


def test_symbolic_trace_sees_the_class_as_it_was():
    module = Norm()
    x = torch.randn(4, 48)
    expected = module(x)
    traced = torch.fx.symbolic_trace(torch.nn.Sequential(fusednorm.convert(module)))
    torch.testing.assert_close(traced(x), expected)


def test_compile_with_one_graph():
    torch._dynamo.reset()
    module = fusednorm.convert(torch.nn.Sequential(Norm(), OffsetNorm(), FixedEpsNorm()))
    compiled = torch.compile(module, fullgraph=True, backend="aot_eager", dynamic=True)
    for rows in (3, 7):
        x = torch.randn(rows, 5, 48, requires_grad=True)
        torch.testing.assert_close(compiled(x), module(x))
        compiled(x).sum().backward()


def test_export_and_func():
    module = fusednorm.convert(Norm())
    x = torch.randn(3, 48)
    program = torch.export.export(module, (x,))
    assert any("fusednorm.rms_norm" in str(node.target) for node in program.graph.nodes)
    torch.testing.assert_close(program.module()(x), module(x))
    weights = {"weight": torch.rand(48)}
    found = torch.func.functional_call(module, weights, (x,))
    torch.testing.assert_close(found, Norm.rows(module, x) * weights["weight"])

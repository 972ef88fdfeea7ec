# SPDX-License-Identifier: Apache-2.0
"""The forward operators as aten, for export to ONNX or another backend.

``ExportedProgram.run_decompositions()`` and ``torch.onnx.export`` take apart what stands in
``torch.export``'s default table. ``torch.compile`` gets that table without them: there they stay
fused. A norm becomes ``aten.layer_norm`` or ``aten.rms_norm``, which ONNX has operators for.
"""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch._ops import OpOverload
from torch.export.decomp_utils import CustomDecompTable

from fusednorm._operators import FORWARD, bind, is_centred


def _output_dtype(arguments: dict[str, Any], input: torch.dtype, parameter: Any) -> torch.dtype:
    rounding = arguments.get("rounding", "once")
    if arguments.get("dtype") is not None:
        return arguments["dtype"]
    if rounding == "once" or parameter is None:
        return input
    if rounding == "via_param":
        return parameter.dtype
    return torch.promote_types(input, parameter.dtype)


def _rms_norm(x: Tensor, shape: list[int], weight: Tensor | None, eps: float) -> Tensor:
    """Call aten's rms_norm; where that is a chain of operators itself, write it as one.

    PyTorch 2.6 has such a chain, with an addition in place, which a decomposition must not have.
    """
    if hasattr(torch.ops.aten, "_fused_rms_norm"):
        return torch.ops.aten.rms_norm.default(x, shape, weight, eps)
    wide = x.to(torch.promote_types(x.dtype, torch.float32))
    y = wide * torch.rsqrt(wide.square().mean(list(range(-len(shape), 0)), keepdim=True) + eps)
    return (y if weight is None else y * weight).to(x.dtype)


def _norm(arguments: dict[str, Any], x: Tensor, input_dtype: torch.dtype) -> Tensor:
    """Return the output for rows ``x``, which are the input or its stored sum."""
    shape, weight, bias = (arguments[name] for name in ("normalized_shape", "weight", "bias"))
    offset, rounding = arguments.get("offset", 0.0), arguments.get("rounding", "once")
    parameter = weight if weight is not None else bias
    compute = torch.float64 if input_dtype == torch.float64 else torch.float32
    eps = torch.finfo(compute).eps if arguments["eps"] is None else arguments["eps"]
    dtype = _output_dtype(arguments, input_dtype, parameter)
    whole = parameter is None or parameter.dim() == len(shape)  # else a line for every head

    def aten(x: Tensor, weight: Tensor | None, bias: Tensor | None) -> Tensor:
        if not arguments["is_rms"]:
            return torch.ops.aten.layer_norm.default(x, shape, weight, bias, eps)
        y = _rms_norm(x, shape, weight, eps)
        return y if bias is None else y + bias

    if rounding == "once" and whole:
        same = x.dtype == dtype and (parameter is None or parameter.dtype == dtype)
        if same and not offset and not (arguments["is_rms"] and bias is not None):
            return aten(x, weight, bias)
        gamma = None if weight is None else weight.to(compute) + offset
        beta = None if bias is None else bias.to(compute)
        return aten(x.to(compute), gamma, beta).to(dtype)
    y = aten(x.to(compute), None, None)
    if rounding != "once" and parameter is not None:
        y = y.to(parameter.dtype if rounding == "via_param" else input_dtype).to(compute)
    if weight is not None:
        y = y * (weight.to(compute) + offset)
        y = y if rounding == "once" else y.to(dtype).to(compute)
    return (y if bias is None else y + bias.to(compute)).to(dtype)


def _statistics(arguments: dict[str, Any], x: Tensor) -> dict[str, Tensor]:
    compute = torch.float64 if x.dtype == torch.float64 else torch.float32
    dims = list(range(-len(arguments["normalized_shape"]), 0))
    eps = torch.finfo(compute).eps if arguments["eps"] is None else arguments["eps"]
    x = x.to(compute)
    if arguments["is_rms"]:
        return {"rstd": torch.rsqrt(x.square().mean(dims, keepdim=True) + eps)}
    mean = x.mean(dims, keepdim=True)
    variance = (x - mean).square().mean(dims, keepdim=True)
    return {"mean": mean, "rstd": torch.rsqrt(variance + eps)}


def _decomposition(operator: OpOverload) -> Callable[..., Any]:
    name = operator._schema.name.split("::")[1]
    adds, saves = name.startswith("add_"), name.endswith("_forward")

    def decomposition(*values: Any, **named: Any) -> Any:
        arguments = bind(operator, values, **named) | {"is_rms": not is_centred(operator)}
        input: Tensor = arguments["input"]
        x = input
        if adds:
            residual: Tensor = arguments["residual"]
            x = (input.to(residual.dtype) + residual).to(residual.dtype)
        results = [_norm(arguments, x, input.dtype)]
        results += [x] if adds else []
        if saves:
            statistics = _statistics(arguments, x)
            results += [s for n, s in statistics.items() if n == "rstd" or "efficient" not in name]
        return results[0] if len(operator._schema.returns) == 1 else tuple(results)

    return decomposition


DECOMPOSITIONS: dict[OpOverload, Callable[..., Any]] = {
    operator: _decomposition(operator) for operator in FORWARD
}


def _extend_default_table() -> None:
    """Add ours to every default table; PyTorch has no hook for operators that are no composites."""
    make = CustomDecompTable.__init__
    if getattr(make, "_fusednorm", False):
        return
    _keep_fused_in_inductor()

    def with_ours(self: CustomDecompTable) -> None:
        make(self)  # type: ignore[no-untyped-call]
        self.update(DECOMPOSITIONS)

    with_ours._fusednorm = True  # type: ignore[attr-defined]
    CustomDecompTable.__init__ = with_ours  # type: ignore[method-assign]


def _keep_fused_in_inductor() -> None:
    """Take ours out of the table that inductor builds when it is imported.

    It asks ``core_aten_decompositions`` for it, which is the default table of ``torch.export``.
    """
    make = torch._decomp.core_aten_decompositions

    def without_ours() -> CustomDecompTable:
        table = make()
        for operator in DECOMPOSITIONS:
            table.pop(operator)
        return table

    torch._decomp.core_aten_decompositions = without_ours


_extend_default_table()

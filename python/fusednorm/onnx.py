# SPDX-License-Identifier: Apache-2.0
"""The operators for ``torch.onnx.export(dynamo=False)``: importing this module registers them.

The exporter of today, ``dynamo=True``, needs no registration.

>>> import fusednorm.onnx  # then torch.onnx.export(model, args, path, dynamo=False)
"""

from collections.abc import Callable
from typing import Any

import torch
from torch._ops import OpOverload
from torch.onnx import register_custom_op_symbolic, symbolic_helper

from fusednorm._operators import bind, is_centred

OPSET = 17  # the first with LayerNormalization
_ops = torch.ops.fusednorm
_KINDS: dict[str, Any] = {
    "normalized_shape": "is",
    "eps": "f",
    "offset": "f",
    "rounding": "s",
    "dtype": "i",
}


def _parsed(operator: OpOverload, values: Any) -> dict[str, Any]:
    """Return the arguments by name: constants as Python values, absent ones as None."""

    def parse(name: str, value: Any) -> Any:
        if not isinstance(value, torch._C.Value):
            return value
        if symbolic_helper._is_none(value):
            return None
        return symbolic_helper._parse_arg(value, _KINDS[name]) if name in _KINDS else value

    return {name: parse(name, value) for name, value in bind(operator, values).items()}


def _norm(g: Any, x: Any, arguments: dict[str, Any], centred: bool) -> Any:
    """Return the normalised rows of ``x``, a float tensor, without parameters."""
    axes = list(range(-len(arguments["normalized_shape"]), 0))
    eps = torch.finfo(torch.float32).eps if arguments["eps"] is None else arguments["eps"]

    def mean(value: Any) -> Any:
        count = g.op("Constant", value_t=torch.tensor(axes))
        total = g.op("ReduceSum", value, count, keepdims_i=1)
        shape = arguments["normalized_shape"]
        return g.op("Div", total, g.op("Constant", value_t=torch.tensor(float(_product(shape)))))

    if centred:
        x = g.op("Sub", x, mean(x))
    square = g.op("Add", mean(g.op("Mul", x, x)), g.op("Constant", value_t=torch.tensor(eps)))
    return g.op("Div", x, g.op("Sqrt", square))


def _product(sizes: list[int]) -> int:
    return sizes[0] * _product(sizes[1:]) if sizes else 1


def _cast(g: Any, value: Any, like: Any) -> Any:
    return g.op("CastLike", value, like)


def _symbolic(operator: OpOverload) -> Callable[..., Any]:
    adds, centred = operator._schema.name.startswith("fusednorm::add_"), is_centred(operator)

    def symbolic(g: Any, *values: Any) -> Any:
        arguments = _parsed(operator, values)
        input, weight, bias = (arguments[name] for name in ("input", "weight", "bias"))
        offset, rounding = arguments.get("offset", 0.0), arguments.get("rounding", "once")
        x = (
            g.op("Add", _cast(g, input, arguments["residual"]), arguments["residual"])
            if adds
            else input
        )
        whole = operator is _ops.layer_norm.default and weight is not None
        if whole:  # one dtype or native would not take it either: the operator of ONNX fits
            given = [x, weight] if bias is None else [x, weight, bias]
            axis = -len(arguments["normalized_shape"])
            return g.op("LayerNormalization", *given, axis_i=axis, epsilon_f=arguments["eps"])
        one = g.op("Constant", value_t=torch.tensor(1.0))
        y = _norm(g, _cast(g, x, one), arguments, centred)
        parameter = weight if weight is not None else bias
        wide = input
        if rounding != "once" and parameter is not None:
            wide = parameter if rounding == "via_param" else input
            y = _cast(g, _cast(g, y, wide), one)
        if weight is not None:
            shift = g.op("Constant", value_t=torch.tensor(float(offset)))
            y = g.op("Mul", y, g.op("Add", _cast(g, weight, one), shift))
        y = y if bias is None else g.op("Add", y, _cast(g, bias, one))
        y = _cast(g, y, wide)
        return (y, x) if adds else y

    return symbolic


for _operator in (
    *(_ops.layer_norm.default, _ops.layer_norm_rounded.default, _ops.rms_norm.default),
    *(_ops.add_layer_norm.default, _ops.add_rms_norm.default),
):
    register_custom_op_symbolic(_operator._schema.name, _symbolic(_operator), OPSET)

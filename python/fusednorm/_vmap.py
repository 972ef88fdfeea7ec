# SPDX-License-Identifier: Apache-2.0
"""Batching rules for ``torch.vmap``: one for forward and one for backward operators.

A batch of inputs is more rows for the fused kernel. A batch of parameters, and parameter gradients
per example, take ordinary operations around it.
"""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor
from torch._ops import OpOverload

from fusednorm._operators import BACKWARD, FORWARD, bind, bind_dims

Dim = int | None
Rule = Callable[..., tuple[Any, Any]]


def _front(tensor: Tensor, dim: Dim) -> Tensor:
    return tensor if dim is None else tensor.movedim(dim, 0)


def _align(
    parameter: Tensor | None, dim: Dim, input_dims: int, dtype: torch.dtype
) -> Tensor | None:
    """Shape a parameter to broadcast against a batch of inputs of ``input_dims`` dimensions."""
    if parameter is None:
        return None
    parameter = parameter.to(dtype)
    if dim is None:
        return parameter
    parameter = parameter.movedim(dim, 0)
    missing = input_dims - (parameter.dim() - 1)
    return parameter.reshape(parameter.shape[0], *([1] * missing), *parameter.shape[1:])


def _check_shape(name: str, parameter: Tensor | None, dim: Dim, shape: Sequence[int]) -> None:
    """Refuse what broadcasting would let through; the operator itself never sees these tensors."""
    if parameter is None:
        return
    sizes = [size for i, size in enumerate(parameter.shape) if i != dim]
    if sizes != list(shape):
        raise RuntimeError(
            f"Expected {name} to be of same shape as normalized_shape, but got {name} of shape "
            f"{sizes} and normalized_shape={list(shape)}"
        )


def _forward(operator: OpOverload, with_dtype: OpOverload) -> Rule:
    """Return the rule of a forward operator: results, and the batch dimension of each."""

    def rule(info: Any, in_dims: tuple[Any, ...], *values: Any) -> tuple[Any, Any]:
        arguments, dims = bind(operator, values), bind_dims(operator, in_dims)
        input, weight, bias = (arguments[name] for name in ("input", "weight", "bias"))
        arguments["input"] = _front(input, dims["input"])
        x_out = None if dims["input"] is None else 0
        if dims["weight"] is None and dims["bias"] is None:
            outputs = operator(**arguments)
            return outputs, x_out if isinstance(outputs, Tensor) else (x_out,) * len(outputs)

        for name in ("weight", "bias"):
            _check_shape(name, arguments[name], dims[name], arguments["normalized_shape"])
        compute = torch.float64 if input.dtype == torch.float64 else torch.float32
        dtype = arguments.get("dtype") or input.dtype
        y, *statistics = with_dtype(**{**arguments, "weight": None, "bias": None, "dtype": compute})
        input_dims = input.dim() - (dims["input"] is not None)
        gamma = _align(weight, dims["weight"], input_dims, compute)
        beta = _align(bias, dims["bias"], input_dims, compute)
        y = y if gamma is None else y * gamma
        y = (y if beta is None else y + beta).to(dtype)
        if len(operator._schema.returns) == 1:
            return y, 0
        return (y, *statistics), (0, *([x_out] * len(statistics)))

    return rule


def _normalized(
    values: Tensor, mean: Tensor | None, rstd: Tensor, gamma: Tensor | None, beta: Tensor | None
) -> Tensor:
    """Return the normalised values, from the input (with its mean) or from the output."""
    if mean is not None:
        return (values - mean) * rstd
    values = values if beta is None else values - beta
    return values if gamma is None else values / gamma


def _backward(operator: OpOverload) -> Rule:
    """Return the rule of a backward operator: dx fused if possible, the rest by formula."""

    def rule(info: Any, in_dims: tuple[Any, ...], *values: Any) -> tuple[Any, Any]:
        arguments, dims = bind(operator, values), bind_dims(operator, in_dims)
        saved = "input" if "input" in arguments else "output"
        for name in ("grad_out", saved, "mean", "rstd"):
            if name in arguments:
                tensor, dim = arguments[name], dims[name]
                arguments[name] = (
                    tensor.expand(info.batch_size, *tensor.shape)
                    if dim is None
                    else tensor.movedim(dim, 0)
                )
        want_dx, want_dweight, want_dbias = arguments["output_mask"]
        fused = dims["weight"] is None and dims["bias"] is None
        dx = dweight = dbias = None
        if want_dx and fused:
            dx = operator(**{**arguments, "output_mask": [True, False, False]})[0]
        if want_dweight or want_dbias or not fused:
            rstd, weight, bias = (arguments[name] for name in ("rstd", "weight", "bias"))
            compute, input_dims = rstd.dtype, arguments[saved].dim() - 1
            gamma = _align(weight, dims["weight"], input_dims, compute)
            beta = _align(bias, dims["bias"], input_dims, compute)
            dy = arguments["grad_out"].to(compute)
            h = _normalized(arguments[saved].to(compute), arguments.get("mean"), rstd, gamma, beta)
            inner = len(arguments["normalized_shape"])
            columns, rows = tuple(range(-inner, 0)), tuple(range(1, dy.dim() - inner))
            if want_dx and not fused:
                g = dy if gamma is None else dy * gamma
                projected = g - g.mean(columns, keepdim=True)
                projected = projected - h * (g * h).mean(columns, keepdim=True)
                dx = (rstd * projected).to(arguments.get("dtype") or arguments[saved].dtype)
            parameter = weight if weight is not None else bias
            if want_dweight and parameter is not None:
                dweight = ((dy * h).sum(rows) if rows else dy * h).to(parameter.dtype)
            if want_dbias and parameter is not None:
                dbias = (dy.sum(rows) if rows else dy).to(parameter.dtype)
        outputs = (dx, dweight, dbias)
        return outputs, tuple(None if output is None else 0 for output in outputs)

    return rule


for _operator, _with_dtype in FORWARD.items():
    torch.library.register_vmap(_operator, _forward(_operator, _with_dtype))
for _operator in BACKWARD:
    torch.library.register_vmap(_operator, _backward(_operator))

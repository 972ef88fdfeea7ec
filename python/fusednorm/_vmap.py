# SPDX-License-Identifier: Apache-2.0
"""Batching rules for ``torch.vmap``: one for forward, in-place and backward operators each.

A batch of inputs is more rows for the fused kernel. A batch of parameters, and parameter gradients
per example, take ordinary operations around it: hence Python, not C++ beside the other dispatch
keys (bindings/torch/register.cc). A rule finds its arguments by name, so a new operator needs a
line in _operators.py, not a rule.
"""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor
from torch._ops import OpOverload

from fusednorm._operators import (
    BACKWARD,
    FORWARD,
    IN_PLACE,
    bind,
    bind_dims,
    is_centred,
    saved_name,
)

Dim = int | None
Rule = Callable[..., tuple[Any, Any]]


def _front(tensor: Tensor, dim: Dim) -> Tensor:
    return tensor if dim is None else tensor.movedim(dim, 0)


def _batch(
    arguments: dict[str, Any], dims: dict[str, Any], names: Sequence[str], size: int
) -> None:
    """Give each of the tensors a batch dimension in front; one without is expanded."""
    for name in names:
        tensor = arguments.get(name)
        if tensor is None:
            continue
        dim = dims[name]
        arguments[name] = (
            tensor.expand(size, *tensor.shape) if dim is None else tensor.movedim(dim, 0)
        )


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


def _scale(arguments: dict[str, Any], dim: Dim, dims: int, dtype: torch.dtype) -> Tensor | None:
    """Return what the normalised values are multiplied by: the weight and its offset."""
    gamma = _align(arguments["weight"], dim, dims, dtype)
    return gamma if gamma is None else gamma + arguments.get("offset", 0.0)


def _check_shape(name: str, arguments: dict[str, Any], dims: dict[str, Any]) -> None:
    """Refuse what broadcasting would let through; the operator itself never sees these tensors."""
    parameter, shape = arguments[name], list(arguments["normalized_shape"])
    if parameter is None:
        return
    sizes = [size for i, size in enumerate(parameter.shape) if i != dims[name]]
    rows = [size for i, size in enumerate(arguments["input"].shape) if i != dims["input"]]
    of_heads = len(shape) < len(sizes) <= len(rows) and sizes == rows[-len(sizes) :]
    if sizes != shape and not of_heads:
        raise RuntimeError(
            f"Expected {name} to be of same shape as normalized_shape, but got {name} of shape "
            f"{sizes} and normalized_shape={shape}"
        )


def _output_dtype(arguments: dict[str, Any]) -> torch.dtype:
    """Return the dtype that ``rounding`` gives the output."""
    x: torch.dtype = arguments["input"].dtype
    parameter = arguments["weight"] if arguments["weight"] is not None else arguments["bias"]
    if arguments.get("dtype") is not None:
        dtype: torch.dtype = arguments["dtype"]
        return dtype
    rounding = arguments.get("rounding", "once")
    if rounding == "once" or parameter is None:
        return x
    return parameter.dtype if rounding == "via_param" else torch.promote_types(x, parameter.dtype)


def _affine(
    h: Tensor, gamma: Tensor | None, beta: Tensor | None, arguments: dict[str, Any]
) -> Tensor:
    """Return the output for normalised values in the compute dtype, rounded as it should be."""
    dtype, compute = _output_dtype(arguments), h.dtype
    rounding = arguments.get("rounding", "once")
    if rounding == "via_x":
        h = h.to(arguments.get("residual", arguments["input"]).dtype).to(compute)
    if rounding == "via_param":
        parameter = arguments["weight"] if arguments["weight"] is not None else arguments["bias"]
        h = h.to(parameter.dtype).to(compute)
    y = h if gamma is None else h * gamma
    if rounding != "once":
        y = y.to(dtype).to(compute)
    return (y if beta is None else y + beta).to(dtype)


def _forward(operator: OpOverload, plain: OpOverload) -> Rule:
    """Return the rule of a forward operator: results, and the batch dimension of each."""

    def rule(info: Any, in_dims: tuple[Any, ...], *values: Any, **named: Any) -> tuple[Any, Any]:
        arguments, dims = bind(operator, values, **named), bind_dims(operator, in_dims)
        together = dims["weight"] is None and dims["bias"] is None
        for name in () if together else ("weight", "bias"):
            _check_shape(name, arguments, dims)
        input_dims = arguments["input"].dim() - (dims["input"] is not None)
        rows = [name for name in ("input", "residual") if name in arguments]
        rows_out = None
        if any(dims[name] is not None for name in rows):
            _batch(arguments, dims, rows, info.batch_size)
            rows_out = 0
        if together:
            outputs = operator(**arguments)
            single = isinstance(outputs, Tensor)
            return outputs, rows_out if single else (rows_out,) * len(outputs)

        input = arguments["input"]
        compute = torch.float64 if input.dtype == torch.float64 else torch.float32
        sums = []
        if "residual" in arguments:
            residual = arguments["residual"]
            sums = [(input.to(compute) + residual.to(compute)).to(residual.dtype)]
        h, *statistics = plain(
            sums[0] if sums else input,
            arguments["normalized_shape"],
            eps=arguments["eps"],
            dtype=compute,
        )
        gamma = _scale(arguments, dims["weight"], input_dims, compute)
        beta = _align(arguments["bias"], dims["bias"], input_dims, compute)
        y = _affine(h, gamma, beta, arguments)
        results = (y, *sums, *statistics)[: len(operator._schema.returns)]
        return (y, 0) if len(results) == 1 else (results, (0, *([rows_out] * (len(results) - 1))))

    return rule


def _in_place(operator: OpOverload) -> Rule:
    """Return the rule of an operator in place: every batch is more rows, or it cannot be."""

    def rule(info: Any, in_dims: tuple[Any, ...], *values: Any, **named: Any) -> tuple[Any, Any]:
        arguments, dims = bind(operator, values, **named), bind_dims(operator, in_dims)
        name = operator._schema.name.split("::")[1]
        if dims["input"] is None or dims["residual"] is None:
            raise RuntimeError(
                f"vmap: {name} works in place, so input and residual must both be batched; "
                f"use {name[:-1]}"
            )
        if dims["weight"] is not None or dims["bias"] is not None:
            raise RuntimeError(
                f"vmap: {name} takes weight and bias without a batch dimension; use {name[:-1]}"
            )
        for tensor in ("input", "residual"):
            arguments[tensor] = _front(arguments[tensor], dims[tensor])
        operator(**arguments)
        return None, None

    return rule


def _normalized(
    arguments: dict[str, Any], gamma: Tensor | None, beta: Tensor | None, compute: torch.dtype
) -> Tensor:
    """Return the normalised values, from the input (or sum) or from the output."""
    values = arguments[saved_name(arguments)].to(compute)
    if "output" not in arguments:
        mean = arguments.get("mean")
        return (values if mean is None else values - mean) * arguments["rstd"]
    values = values if beta is None else values - beta
    return values if gamma is None else values / gamma


def _parameter_gradients(
    arguments: dict[str, Any], dims: dict[str, Any], dy: Tensor, h: Tensor
) -> tuple[Tensor, Tensor]:
    """Return dweight and dbias for every example."""
    parameter, batched = (
        (arguments["weight"], dims["weight"])
        if arguments["weight"] is not None
        else (arguments["bias"], dims["bias"])
    )
    trailing, dtype = len(arguments["normalized_shape"]), dy.dtype
    if parameter is not None:
        trailing, dtype = parameter.dim() - (batched is not None), parameter.dtype
    rows = tuple(range(1, dy.dim() - trailing))
    dweight, dbias = (t.sum(rows) if rows else t for t in (dy * h, dy))
    return dweight.to(dtype), dbias.to(dtype)


def _backward(operator: OpOverload) -> Rule:
    """Return the rule of a backward operator: dx fused if possible, the rest by formula."""
    with_residual = len(operator._schema.returns) == 4

    def formula(arguments: dict[str, Any], dims: dict[str, Any], mask: list[bool]) -> list[Any]:
        saved = arguments[saved_name(arguments)]
        rstd, compute, input_dims = arguments["rstd"], arguments["rstd"].dtype, saved.dim() - 1
        gamma = _scale(arguments, dims["weight"], input_dims, compute)
        beta = _align(arguments["bias"], dims["bias"], input_dims, compute)
        h = _normalized(arguments, gamma, beta, compute)
        ds = arguments.get("grad_sum")
        dx = None if ds is None else ds.to(compute)
        dweight = dbias = None
        if arguments["grad_out"] is not None:
            dy = arguments["grad_out"].to(compute)
            columns = tuple(range(-len(arguments["normalized_shape"]), 0))
            g = dy if gamma is None else dy * gamma
            projected = g - h * (g * h).mean(columns, keepdim=True)
            if is_centred(operator):
                projected = projected - g.mean(columns, keepdim=True)
            dx = rstd * projected + (0 if dx is None else dx)
            dweight, dbias = _parameter_gradients(arguments, dims, dy, h)
        wanted = [
            None if dx is None else dx.to(arguments.get("dtype") or saved.dtype),
            *([None if dx is None else dx.to(saved.dtype)] if with_residual else []),
            dweight,
            dbias,
        ]
        return [value if want else None for value, want in zip(wanted, mask, strict=True)]

    def rule(info: Any, in_dims: tuple[Any, ...], *values: Any, **named: Any) -> tuple[Any, Any]:
        arguments, dims = bind(operator, values, **named), bind_dims(operator, in_dims)
        rows = ("grad_out", "grad_sum", saved_name(arguments), "mean", "rstd")
        _batch(arguments, dims, rows, info.batch_size)
        mask = list(arguments["output_mask"])
        outputs: list[Any] = [None] * len(mask)
        if dims["weight"] is None and dims["bias"] is None:
            fused = [*mask[:-2], False, False]
            if any(fused):
                outputs = list(operator(**{**arguments, "output_mask": fused}))
            mask[:-2] = [False] * (len(mask) - 2)
        if any(mask):
            others = formula(arguments, dims, mask)
            outputs = [b if a is None else a for a, b in zip(outputs, others, strict=True)]
        return tuple(outputs), tuple(None if output is None else 0 for output in outputs)

    return rule


for _operator, _plain in FORWARD.items():
    torch.library.register_vmap(_operator, _forward(_operator, _plain))
for _operator in IN_PLACE:
    torch.library.register_vmap(_operator, _in_place(_operator))
for _operator in BACKWARD:
    torch.library.register_vmap(_operator, _backward(_operator))

"""Batching rules for ``torch.vmap``.

A batch of inputs is more rows for the fused kernel. A batch of parameters, and the parameter
gradients of each example apart, take ordinary operations around it.
"""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

_ops = torch.ops.fusednorm
Dims = tuple[Any, ...]


def _front(tensor: Tensor | None, dim: int | None) -> Tensor | None:
    return tensor if tensor is None or dim is None else tensor.movedim(dim, 0)


def _compute(dtype: torch.dtype) -> torch.dtype:
    return torch.float64 if dtype == torch.float64 else torch.float32


def _align(
    parameter: Tensor | None, dim: int | None, input_dims: int, dtype: torch.dtype
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


def _check_shape(
    name: str, parameter: Tensor | None, dim: int | None, shape: Sequence[int]
) -> None:
    """Refuse what broadcasting would let through; the operator itself never sees these tensors."""
    if parameter is None:
        return
    sizes = [size for i, size in enumerate(parameter.shape) if i != dim]
    if sizes != list(shape):
        raise RuntimeError(
            f"Expected {name} to be of same shape as normalized_shape, but got {name} of shape "
            f"{sizes} and normalized_shape={list(shape)}"
        )


def _forward(
    operator: Callable[..., tuple[Tensor, ...]],
    in_dims: Dims,
    input: Tensor,
    normalized_shape: Sequence[int],
    weight: Tensor | None,
    bias: Tensor | None,
    eps: float,
    dtype: torch.dtype | None,
) -> tuple[tuple[Tensor, ...], tuple[int | None, ...]]:
    """Return y and the statistics, and the batch dimension of each."""
    input_dim, _, weight_dim, bias_dim = (*in_dims, None, None, None)[:4]
    x = _front(input, input_dim)
    x_out = None if input_dim is None else 0
    if weight_dim is None and bias_dim is None:
        outputs = operator(x, normalized_shape, weight, bias, eps, dtype)
        return outputs, (x_out,) * len(outputs)
    _check_shape("weight", weight, weight_dim, normalized_shape)
    _check_shape("bias", bias, bias_dim, normalized_shape)
    compute = _compute(input.dtype)
    y, *statistics = operator(x, normalized_shape, None, None, eps, compute)
    input_dims = input.dim() - (input_dim is not None)
    gamma = _align(weight, weight_dim, input_dims, compute)
    beta = _align(bias, bias_dim, input_dims, compute)
    if gamma is not None:
        y = y * gamma
    if beta is not None:
        y = y + beta
    return (y.to(dtype or input.dtype), *statistics), (0, *([x_out] * len(statistics)))


def _backward(
    operator: Callable[[Any, Any, Any, Any, Any, Any, list[bool]], tuple[Tensor | None, ...]],
    batch: int,
    dims: Sequence[int | None],
    grad_out: Tensor,
    kept: Tensor,
    mean: Tensor | None,
    rstd: Tensor,
    weight: Tensor | None,
    bias: Tensor | None,
    normalized_shape: Sequence[int],
    mask: Sequence[bool],
    input_dtype: torch.dtype,
) -> tuple[tuple[Tensor | None, ...], tuple[int | None, ...]]:
    """Return dx by the fused kernel where it can be, the rest for each example by formula."""
    *row_dims, weight_dim, bias_dim = dims

    def expand(tensor: Tensor, dim: int | None) -> Tensor:
        return tensor.expand(batch, *tensor.shape) if dim is None else tensor.movedim(dim, 0)

    dy = expand(grad_out, row_dims[0])
    values = expand(kept, row_dims[1])
    center = None if mean is None else expand(mean, row_dims[2])
    scale = expand(rstd, row_dims[3])
    inner = len(normalized_shape)
    columns = tuple(range(-inner, 0))
    rows = tuple(range(1, dy.dim() - inner))
    dx = dweight = dbias = None
    fused = weight_dim is None and bias_dim is None
    if mask[0] and fused:
        dx = operator(dy, values, center, scale, weight, bias, [True, False, False])[0]
    if mask[1] or mask[2] or not fused:
        compute = rstd.dtype
        gamma = _align(weight, weight_dim, dy.dim() - 1, compute)
        beta = _align(bias, bias_dim, dy.dim() - 1, compute)
        dy = dy.to(compute)
        normalized = values.to(compute)
        if center is not None:
            normalized = (normalized - center) * scale
        else:
            normalized = normalized if beta is None else normalized - beta
            normalized = normalized if gamma is None else normalized / gamma
        parameter = weight if weight is not None else bias
        if mask[0] and not fused:
            g = dy if gamma is None else dy * gamma
            projected = g - g.mean(columns, keepdim=True)
            projected = projected - normalized * (g * normalized).mean(columns, keepdim=True)
            dx = (scale * projected).to(input_dtype)
        if mask[1] and parameter is not None:
            product = dy * normalized
            dweight = (product.sum(rows) if rows else product).to(parameter.dtype)
        if mask[2] and parameter is not None:
            dbias = (dy.sum(rows) if rows else dy).to(parameter.dtype)
    outputs = (dx, dweight, dbias)
    return outputs, tuple(None if output is None else 0 for output in outputs)


@torch.library.register_vmap("fusednorm::layer_norm")
def _layer_norm(
    info: Any,
    in_dims: Dims,
    input: Tensor,
    normalized_shape: Sequence[int],
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    eps: float = 1e-5,
) -> tuple[Tensor, int | None]:
    outputs, dims = _forward(
        _ops.layer_norm_memory_efficient_forward,
        in_dims,
        input,
        normalized_shape,
        weight,
        bias,
        eps,
        None,
    )
    return outputs[0], dims[0]


@torch.library.register_vmap("fusednorm::layer_norm_forward")
def _layer_norm_forward(
    info: Any,
    in_dims: Dims,
    input: Tensor,
    normalized_shape: Sequence[int],
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    eps: float = 1e-5,
    dtype: torch.dtype | None = None,
) -> tuple[tuple[Tensor, ...], tuple[int | None, ...]]:
    return _forward(
        _ops.layer_norm_forward, in_dims, input, normalized_shape, weight, bias, eps, dtype
    )


@torch.library.register_vmap("fusednorm::layer_norm_memory_efficient_forward")
def _memory_efficient_forward(
    info: Any,
    in_dims: Dims,
    input: Tensor,
    normalized_shape: Sequence[int],
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    eps: float = 1e-5,
    dtype: torch.dtype | None = None,
) -> tuple[tuple[Tensor, ...], tuple[int | None, ...]]:
    return _forward(
        _ops.layer_norm_memory_efficient_forward,
        in_dims,
        input,
        normalized_shape,
        weight,
        bias,
        eps,
        dtype,
    )


@torch.library.register_vmap("fusednorm::layer_norm_backward")
def _layer_norm_backward(
    info: Any,
    in_dims: Dims,
    grad_out: Tensor,
    input: Tensor,
    normalized_shape: Sequence[int],
    mean: Tensor,
    rstd: Tensor,
    weight: Tensor | None,
    bias: Tensor | None,
    output_mask: Sequence[bool],
) -> tuple[tuple[Tensor | None, ...], tuple[int | None, ...]]:
    def operator(
        dy: Tensor,
        x: Tensor,
        center: Tensor,
        scale: Tensor,
        gamma: Any,
        beta: Any,
        mask: list[bool],
    ) -> tuple[Tensor | None, ...]:
        result: tuple[Tensor | None, ...] = _ops.layer_norm_backward(
            dy, x, normalized_shape, center, scale, gamma, beta, mask
        )
        return result

    dims = [in_dims[i] for i in (0, 1, 3, 4, 5, 6)]
    return _backward(
        operator,
        info.batch_size,
        dims,
        grad_out,
        input,
        mean,
        rstd,
        weight,
        bias,
        normalized_shape,
        output_mask,
        input.dtype,
    )


@torch.library.register_vmap("fusednorm::layer_norm_memory_efficient_backward")
def _memory_efficient_backward(
    info: Any,
    in_dims: Dims,
    grad_out: Tensor,
    output: Tensor,
    normalized_shape: Sequence[int],
    rstd: Tensor,
    weight: Tensor | None,
    bias: Tensor | None,
    output_mask: Sequence[bool],
    dtype: torch.dtype | None = None,
) -> tuple[tuple[Tensor | None, ...], tuple[int | None, ...]]:
    def operator(
        dy: Tensor, y: Tensor, center: None, scale: Tensor, gamma: Any, beta: Any, mask: list[bool]
    ) -> tuple[Tensor | None, ...]:
        result: tuple[Tensor | None, ...] = _ops.layer_norm_memory_efficient_backward(
            dy, y, normalized_shape, scale, gamma, beta, mask, dtype
        )
        return result

    dims = [in_dims[0], in_dims[1], None, in_dims[3], in_dims[4], in_dims[5]]
    return _backward(
        operator,
        info.batch_size,
        dims,
        grad_out,
        output,
        None,
        rstd,
        weight,
        bias,
        normalized_shape,
        output_mask,
        dtype or output.dtype,
    )
